//! The BERT encoder (Devlin et al. 2019): embeddings, then layers of self-attention and a
//! feed-forward network, each followed by a residual sum and layer normalisation.
//!
//! Sequences of any lengths lie end to end in one matrix of all their tokens, so that nothing is
//! padded: the dense layers multiply the whole matrix, attention works within each sequence.

use std::{
    ops::Range,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use rayon::prelude::*;
use rten_gemm::{
    BiasVector, GemmError, GemmExecutor, GemmInputA, GemmInputB, GemmOptions, PackedBMatrix,
};
use rten_tensor::NdTensorView;

use crate::{
    ModelError, kernels,
    weights::{Config, Tensor, Weights},
};

/// Tokens that one thread takes through the layers at a time: enough to keep the matrix products
/// busy, few enough that their activations stay in the second-level cache.
const TOKENS_AT_ONCE: usize = 256;

/// A batch of this many tokens repays laying the weights out anew.
const TOKENS_WORTH_PACKING: usize = 64;

/// Word-piece ids of one input, special tokens included.
#[derive(Debug)]
pub(crate) struct Sequence {
    /// Ids below the vocabulary's size, at most as many as the model has positions.
    pub(crate) ids: Vec<u32>,
    /// Where the second of two texts begins; `ids.len()` if there is one text.
    pub(crate) second: usize,
}

/// A loaded encoder.
pub(crate) struct Bert {
    config: Config,
    weights: Weights,
    words: Tensor,
    positions: Tensor,
    types: Tensor,
    norm: Norm,
    layers: Vec<Layer>,
    /// Whether a batch was computed before.
    used: AtomicBool,
}

impl Bert {
    /// Takes the tensors whose names begin with `prefix` out of `weights`.
    pub(crate) fn load(config: Config, weights: Weights, prefix: &str) -> Result<Self, ModelError> {
        let hidden = config.hidden_size;
        let table = |name: &str, rows| {
            weights.tensor(
                &format!("{prefix}embeddings.{name}.weight"),
                &[rows, hidden],
            )
        };
        let words = table("word_embeddings", config.vocab_size)?;
        let positions = table("position_embeddings", config.max_position_embeddings)?;
        let types = table("token_type_embeddings", config.type_vocab_size)?;
        let norm = Norm::load(&weights, &format!("{prefix}embeddings.LayerNorm"), hidden)?;
        let layers = (0..config.num_hidden_layers)
            .map(|i| Layer::load(&weights, &format!("{prefix}encoder.layer.{i}"), &config))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            config,
            weights,
            words,
            positions,
            types,
            norm,
            layers,
            used: AtomicBool::new(false),
        })
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Runs every sequence through the encoder and hands its last-layer states, row-major,
    /// tokens x hidden, to `finish` with its place in `sequences`; results are in that order.
    pub(crate) fn encode<T: Send>(
        &self,
        sequences: &[Sequence],
        finish: impl Fn(usize, &[f32]) -> T + Sync,
    ) -> Result<Vec<T>, GemmError> {
        self.pack_if_worthwhile(sequences);
        let batches = batches(sequences, rayon::current_num_threads());
        let results: Vec<Vec<T>> = batches
            .into_par_iter()
            .map_init(Scratch::default, |scratch, batch| {
                let first = batch.start;
                let spans = self.forward(&sequences[batch], scratch)?;
                Ok(spans
                    .into_iter()
                    .enumerate()
                    .map(|(i, span)| finish(first + i, &scratch.x[span]))
                    .collect())
            })
            .collect::<Result<_, GemmError>>()?;
        Ok(results.into_iter().flatten().collect())
    }

    /// A single short text, as a search from the command line is, is computed from the weights as
    /// they are mapped: that is sooner done than laying them out for the matrix product.
    fn pack_if_worthwhile(&self, sequences: &[Sequence]) {
        let tokens: usize = sequences.iter().map(|s| s.ids.len()).sum();
        if self.used.swap(true, Ordering::Relaxed) || tokens >= TOKENS_WORTH_PACKING {
            self.layers
                .par_iter()
                .for_each(|layer| layer.pack(&self.weights));
        }
    }

    /// Leaves the last-layer states in `scratch.x`, and returns where each sequence's are.
    fn forward(
        &self,
        sequences: &[Sequence],
        scratch: &mut Scratch,
    ) -> Result<Vec<Range<usize>>, GemmError> {
        let hidden = self.config.hidden_size;
        let mut end = 0;
        let spans: Vec<_> = sequences
            .iter()
            .map(|s| {
                let start = end;
                end += s.ids.len() * hidden;
                start..end
            })
            .collect();
        scratch.resize(end, self.config.intermediate_size * (end / hidden));
        self.embed(sequences, scratch);
        for layer in &self.layers {
            self.attend(layer, &spans, scratch)?;
            let Scratch {
                gemm, x, y, wide, ..
            } = scratch;
            layer.up.apply(&self.weights, gemm, x, wide)?;
            kernels::gelu(wide);
            layer.down.apply(&self.weights, gemm, wide, y)?;
            layer
                .output_norm
                .add(&self.weights, x, y, self.config.layer_norm_eps);
        }
        Ok(spans)
    }

    fn embed(&self, sequences: &[Sequence], scratch: &mut Scratch) {
        let hidden = self.config.hidden_size;
        let [words, positions, types] =
            [&self.words, &self.positions, &self.types].map(|tensor| self.weights.values(tensor));
        let row = |i: usize| i * hidden..(i + 1) * hidden;
        let tokens = sequences.iter().flat_map(|s| {
            s.ids
                .iter()
                .enumerate()
                .map(|(at, &id)| (at, id, at >= s.second))
        });
        let rows = scratch
            .x
            .chunks_exact_mut(hidden)
            .zip(scratch.y.chunks_exact_mut(hidden));
        for ((at, id, second), (x, y)) in tokens.zip(rows) {
            x.copy_from_slice(&words[row(id as usize)]);
            let position = &positions[row(at)];
            let kind = &types[row(usize::from(second))];
            for ((y, position), kind) in y.iter_mut().zip(position).zip(kind) {
                *y = position + kind;
            }
        }
        self.norm.add(
            &self.weights,
            &mut scratch.x,
            &scratch.y,
            self.config.layer_norm_eps,
        );
    }

    fn attend(
        &self,
        layer: &Layer,
        spans: &[Range<usize>],
        scratch: &mut Scratch,
    ) -> Result<(), GemmError> {
        let Scratch {
            gemm,
            x,
            y,
            query,
            key,
            value,
            context,
            scores,
            head,
            ..
        } = scratch;
        let hidden = self.config.hidden_size;
        let width = hidden / self.config.num_attention_heads;
        layer.query.apply(&self.weights, gemm, x, query)?;
        layer.key.apply(&self.weights, gemm, x, key)?;
        layer.value.apply(&self.weights, gemm, x, value)?;
        let scaled = GemmOptions {
            alpha: 1.0 / (width as f32).sqrt(),
            ..GemmOptions::default()
        };
        for span in spans {
            let tokens = span.len() / hidden;
            scores.resize(tokens * tokens, 0.0);
            head.resize(tokens * width, 0.0);
            for column in (0..hidden).step_by(width) {
                let [q, k, v] = [&*query, key, value].map(|all| {
                    NdTensorView::from_data([tokens, hidden], &all[span.clone()])
                        .slice((.., column..column + width))
                });
                let (a, b) = (
                    GemmInputA::Unpacked(q),
                    GemmInputB::Unpacked(k.transposed()),
                );
                gemm.gemm(scores, a, b, scaled.clone())?;
                kernels::softmax(scores, tokens);
                let weights = NdTensorView::from_data([tokens, tokens], &scores[..]);
                let (a, b) = (GemmInputA::Unpacked(weights), GemmInputB::Unpacked(v));
                gemm.gemm(head, a, b, GemmOptions::default())?;
                for (row, from) in context[span.clone()]
                    .chunks_exact_mut(hidden)
                    .zip(head.chunks_exact(width))
                {
                    row[column..column + width].copy_from_slice(from);
                }
            }
        }
        layer.attention.apply(&self.weights, gemm, context, y)?;
        layer
            .attention_norm
            .add(&self.weights, x, y, self.config.layer_norm_eps);
        Ok(())
    }
}

struct Layer {
    query: Linear,
    key: Linear,
    value: Linear,
    attention: Linear,
    attention_norm: Norm,
    up: Linear,
    down: Linear,
    output_norm: Norm,
}

impl Layer {
    fn load(weights: &Weights, prefix: &str, config: &Config) -> Result<Self, ModelError> {
        let (hidden, wide) = (config.hidden_size, config.intermediate_size);
        let linear = |name: &str, outputs, inputs| {
            Linear::load(weights, &format!("{prefix}.{name}"), [outputs, inputs])
        };
        let norm = |name: &str| Norm::load(weights, &format!("{prefix}.{name}.LayerNorm"), hidden);
        Ok(Self {
            query: linear("attention.self.query", hidden, hidden)?,
            key: linear("attention.self.key", hidden, hidden)?,
            value: linear("attention.self.value", hidden, hidden)?,
            attention: linear("attention.output.dense", hidden, hidden)?,
            attention_norm: norm("attention.output")?,
            up: linear("intermediate.dense", wide, hidden)?,
            down: linear("output.dense", hidden, wide)?,
            output_norm: norm("output")?,
        })
    }

    fn pack(&self, weights: &Weights) {
        for linear in [
            &self.query,
            &self.key,
            &self.value,
            &self.attention,
            &self.up,
            &self.down,
        ] {
            linear
                .packed
                .get_or_init(|| GemmExecutor::new().prepack_b(linear.transposed(weights)));
        }
    }
}

/// A dense layer.
struct Linear {
    weight: Tensor,
    bias: Tensor,
    /// Outputs, inputs.
    shape: [usize; 2],
    /// The weights laid out as the matrix product reads them, once that is worthwhile.
    packed: OnceLock<PackedBMatrix<f32>>,
}

impl Linear {
    fn load(weights: &Weights, name: &str, shape: [usize; 2]) -> Result<Self, ModelError> {
        let weight = weights.tensor(&format!("{name}.weight"), &shape)?;
        let bias = weights.tensor(&format!("{name}.bias"), &shape[..1])?;
        Ok(Self {
            weight,
            bias,
            shape,
            packed: OnceLock::new(),
        })
    }

    fn transposed<'a>(&self, weights: &'a Weights) -> NdTensorView<'a, f32, 2> {
        NdTensorView::from_data(self.shape, weights.values(&self.weight)).transposed()
    }

    fn apply(
        &self,
        weights: &Weights,
        gemm: &GemmExecutor,
        input: &[f32],
        output: &mut [f32],
    ) -> Result<(), GemmError> {
        let inputs = self.shape[1];
        let input = NdTensorView::from_data([input.len() / inputs, inputs], input);
        let weight = match self.packed.get() {
            Some(packed) => GemmInputB::Packed(packed),
            None => GemmInputB::Unpacked(self.transposed(weights)),
        };
        let bias = Some(BiasVector::Row(weights.values(&self.bias)));
        gemm.gemm(
            output,
            GemmInputA::Unpacked(input),
            weight,
            GemmOptions {
                bias,
                ..GemmOptions::default()
            },
        )
    }
}

struct Norm {
    weight: Tensor,
    bias: Tensor,
}

impl Norm {
    fn load(weights: &Weights, name: &str, size: usize) -> Result<Self, ModelError> {
        let part = |part| weights.tensor(&format!("{name}.{part}"), &[size]);
        Ok(Self {
            weight: part("weight")?,
            bias: part("bias")?,
        })
    }

    fn add(&self, weights: &Weights, x: &mut [f32], y: &[f32], epsilon: f32) {
        kernels::add_norm(
            x,
            y,
            weights.values(&self.weight),
            weights.values(&self.bias),
            epsilon,
        );
    }
}

/// What one thread works with, kept from batch to batch.
#[derive(Default)]
struct Scratch {
    gemm: GemmExecutor,
    x: Vec<f32>,
    y: Vec<f32>,
    query: Vec<f32>,
    key: Vec<f32>,
    value: Vec<f32>,
    context: Vec<f32>,
    wide: Vec<f32>,
    scores: Vec<f32>,
    head: Vec<f32>,
}

impl Scratch {
    fn resize(&mut self, hidden: usize, wide: usize) {
        for narrow in [
            &mut self.x,
            &mut self.y,
            &mut self.query,
            &mut self.key,
            &mut self.value,
            &mut self.context,
        ] {
            narrow.resize(hidden, 0.0);
        }
        self.wide.resize(wide, 0.0);
    }
}

/// Cuts `sequences` into runs of about [`TOKENS_AT_ONCE`] tokens, and fewer where the threads would
/// not all have one.
fn batches(sequences: &[Sequence], threads: usize) -> Vec<Range<usize>> {
    let total: usize = sequences.iter().map(|s| s.ids.len()).sum();
    let target = total.div_ceil(threads.max(1)).min(TOKENS_AT_ONCE);
    let mut batches = Vec::new();
    let (mut first, mut tokens) = (0, 0);
    for (i, sequence) in sequences.iter().enumerate() {
        tokens += sequence.ids.len();
        if tokens >= target {
            batches.push(first..i + 1);
            (first, tokens) = (i + 1, 0);
        }
    }
    if first < sequences.len() {
        batches.push(first..sequences.len());
    }
    batches
}
