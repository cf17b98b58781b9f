use std::path::Path;

use rayon::prelude::*;

use crate::{
    ModelError, ModelIdentity, ModelKind, Reranker, Scores,
    bert::{Bert, Sequence},
    kernels, store,
    tokenizer::WordPiece,
    weights::{self, Weights},
};

/// A BERT sequence classifier with one label that reads query and passage together, such as
/// `cross-encoder/ms-marco-MiniLM-L6-v2`.
///
/// The score is the classifier's logit, as that model's own configuration (identity activation) has
/// it; it is not bounded.
pub struct CrossEncoder {
    identity: ModelIdentity,
    tokenizer: WordPiece,
    bert: Bert,
    max_pieces: usize,
    pooler: Dense,
    classifier: Dense,
}

impl CrossEncoder {
    /// Loads `config.json`, `tokenizer.json` and `model.safetensors` from `dir`.
    ///
    /// # Errors
    /// [`ModelError`] names the file, and the setting or tensor that is absent or not supported.
    pub fn load(dir: &Path) -> Result<Self, ModelError> {
        let (config, tokenizer, weights) = weights::open(dir, SPECIAL_TOKENS + 1)?;
        let hidden = config.hidden_size;
        Ok(Self {
            identity: store::identity(dir, weights.bytes(), ModelKind::CrossEncoder),
            max_pieces: config.max_position_embeddings,
            pooler: Dense::load(&weights, "bert.pooler.dense", hidden, hidden)?,
            classifier: Dense::load(&weights, "classifier", 1, hidden)?,
            bert: Bert::load(config, weights, "bert.")?,
            tokenizer,
        })
    }

    fn input(&self, query: &[u32], passage: &str) -> (Sequence, bool) {
        let passage = self.tokenizer.pieces(passage);
        let room = self.max_pieces - SPECIAL_TOKENS;
        let (first, second) = shorten(query.len(), passage.len(), room);
        let mut ids = Vec::with_capacity(first + second + SPECIAL_TOKENS);
        ids.push(self.tokenizer.cls);
        ids.extend(&query[..first]);
        ids.push(self.tokenizer.sep);
        ids.extend(&passage[..second]);
        ids.push(self.tokenizer.sep);
        (
            Sequence {
                ids,
                second: first + 2,
            },
            (first, second) != (query.len(), passage.len()),
        )
    }

    /// The logit of a pair whose last-layer states are `states`: the first position through the
    /// pooler, tanh and the classifier.
    fn logit(&self, states: &[f32]) -> f32 {
        let first = &states[..self.bert.config().hidden_size];
        let pooled: Vec<f32> = self.pooler.apply(first).map(f32::tanh).collect();
        self.classifier.apply(&pooled).sum()
    }
}

impl Reranker for CrossEncoder {
    fn identity(&self) -> &ModelIdentity {
        &self.identity
    }

    fn score(&self, query: &str, passages: &[&str]) -> Result<Scores, ModelError> {
        let failed = |reason: String| ModelError::Compute {
            name: self.identity.name.clone(),
            reason,
        };
        let query = self.tokenizer.pieces(query);
        let (sequences, cut): (Vec<_>, Vec<_>) = passages
            .par_iter()
            .map(|passage| self.input(&query, passage))
            .unzip();
        let scores = self
            .bert
            .encode(&sequences, |_, states| self.logit(states))
            .map_err(|e| failed(e.to_string()))?;
        if !scores.iter().all(|score| score.is_finite()) {
            return Err(failed(
                "a score is not finite; fetch the model again".into(),
            ));
        }
        Ok(Scores {
            scores,
            truncated: cut.into_iter().filter(|&cut| cut).count(),
        })
    }
}

/// `[CLS]` and two `[SEP]`.
const SPECIAL_TOKENS: usize = 3;

/// How many pieces of two texts of `first` and `second` pieces are kept to fill `room`: the longer is
/// cut first and both share alike once it is no longer, as the `longest_first` truncation of the
/// `tokenizers` library has it; an odd piece goes to the longer.
fn shorten(first: usize, second: usize, room: usize) -> (usize, usize) {
    if first + second <= room {
        return (first, second);
    }
    let short = first.min(second).min(room / 2);
    if first > second {
        (room - short, short)
    } else {
        (short, room - short)
    }
}

/// A dense layer for one row.
struct Dense {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

impl Dense {
    fn load(
        weights: &Weights,
        name: &str,
        outputs: usize,
        inputs: usize,
    ) -> Result<Self, ModelError> {
        let weight = weights.tensor(&format!("{name}.weight"), &[outputs, inputs])?;
        let bias = weights.tensor(&format!("{name}.bias"), &[outputs])?;
        Ok(Self {
            weight: weights.values(&weight).to_vec(),
            bias: weights.values(&bias).to_vec(),
        })
    }

    fn apply<'a>(&'a self, input: &'a [f32]) -> impl Iterator<Item = f32> + 'a {
        self.weight
            .chunks_exact(input.len())
            .zip(&self.bias)
            .map(|(row, bias)| kernels::dot(row, input) + bias)
    }
}
