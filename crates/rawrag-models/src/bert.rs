//! The BERT encoder (Devlin et al. 2019): embeddings, then layers of self-attention and a
//! feed-forward network, each followed by a residual sum and layer normalisation.
//!
//! Sequences of any lengths lie end to end in one matrix of all their tokens, so that nothing is
//! padded: the dense layers multiply the whole matrix, attention works within each sequence.

use std::ops::Range;

use rayon::prelude::*;
use rten_gemm::{
    BiasVector, GemmError, GemmExecutor, GemmInputA, GemmInputB, GemmOptions, PackedBMatrix,
};
use rten_tensor::NdTensorView;

use crate::{
    ModelError, kernels,
    weights::{Config, Weights},
};

/// Tokens that one thread takes through the layers at a time: enough to keep the matrix products
/// busy, few enough that their activations stay in the second-level cache.
const TOKENS_AT_ONCE: usize = 256;

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
    words: Range<usize>,
    positions: Range<usize>,
    types: Range<usize>,
    norm: Norm,
    layers: Vec<Layer>,
}

impl Bert {
    /// Takes the tensors whose names begin with `prefix` out of `weights`.
    pub(crate) fn load(config: Config, weights: Weights, prefix: &str) -> Result<Self, ModelError> {
        let hidden = config.hidden_size;
        let table = |name: &str, rows| {
            weights.range(
                &format!("{prefix}embeddings.{name}.weight"),
                &[rows, hidden],
            )
        };
        let words = table("word_embeddings", config.vocab_size)?;
        let positions = table("position_embeddings", config.max_position_embeddings)?;
        let types = table("token_type_embeddings", config.type_vocab_size)?;
        let norm = Norm::load(&weights, &format!("{prefix}embeddings.LayerNorm"), hidden)?;
        let layers = (0..config.num_hidden_layers)
            .into_par_iter()
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
            layer.up.apply(gemm, x, wide)?;
            kernels::gelu(wide);
            layer.down.apply(gemm, wide, y)?;
            layer.output_norm.add(x, y, self.config.layer_norm_eps);
        }
        Ok(spans)
    }

    fn embed(&self, sequences: &[Sequence], scratch: &mut Scratch) {
        let hidden = self.config.hidden_size;
        let bytes = self.weights.bytes();
        let [words, positions, types] = [&self.words, &self.positions, &self.types]
            .map(|range| bytemuck::cast_slice::<u8, f32>(&bytes[range.clone()]));
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
        self.norm
            .add(&mut scratch.x, &scratch.y, self.config.layer_norm_eps);
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
        layer.query.apply(gemm, x, query)?;
        layer.key.apply(gemm, x, key)?;
        layer.value.apply(gemm, x, value)?;
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
        layer.attention.apply(gemm, context, y)?;
        layer.attention_norm.add(x, y, self.config.layer_norm_eps);
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
        let gemm = GemmExecutor::new();
        let (hidden, wide) = (config.hidden_size, config.intermediate_size);
        let linear = |name: &str, outputs, inputs| {
            Linear::load(
                weights,
                &format!("{prefix}.{name}"),
                [outputs, inputs],
                &gemm,
            )
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
}

/// A dense layer, its weights laid out as the matrix product reads them.
struct Linear {
    weight: PackedBMatrix<f32>,
    bias: Vec<f32>,
    inputs: usize,
}

impl Linear {
    fn load(
        weights: &Weights,
        name: &str,
        shape: [usize; 2],
        gemm: &GemmExecutor,
    ) -> Result<Self, ModelError> {
        let weight =
            NdTensorView::from_data(shape, weights.tensor(&format!("{name}.weight"), &shape)?);
        let bias = weights
            .tensor(&format!("{name}.bias"), &shape[..1])?
            .to_vec();
        Ok(Self {
            weight: gemm.prepack_b(weight.transposed()),
            bias,
            inputs: shape[1],
        })
    }

    fn apply(
        &self,
        gemm: &GemmExecutor,
        input: &[f32],
        output: &mut [f32],
    ) -> Result<(), GemmError> {
        let input = NdTensorView::from_data([input.len() / self.inputs, self.inputs], input);
        let bias = Some(BiasVector::Row(&self.bias));
        let options = GemmOptions {
            bias,
            ..GemmOptions::default()
        };
        gemm.gemm(
            output,
            GemmInputA::Unpacked(input),
            GemmInputB::Packed(&self.weight),
            options,
        )
    }
}

struct Norm {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

impl Norm {
    fn load(weights: &Weights, name: &str, size: usize) -> Result<Self, ModelError> {
        let part = |part| Ok(weights.tensor(&format!("{name}.{part}"), &[size])?.to_vec());
        Ok(Self {
            weight: part("weight")?,
            bias: part("bias")?,
        })
    }

    fn add(&self, x: &mut [f32], y: &[f32], epsilon: f32) {
        kernels::add_norm(x, y, &self.weight, &self.bias, epsilon);
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
