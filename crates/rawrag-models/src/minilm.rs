use std::path::Path;

use rayon::prelude::*;

use crate::{
    Embedder, Embeddings, ModelError, ModelIdentity, ModelKind, TokenEncoder, TokenVectors,
    bert::{Bert, Sequence},
    kernels, store,
    tokenizer::WordPiece,
    weights,
};

/// The sentence-transformers model all-MiniLM-L6-v2: the mean over all positions of the last layer,
/// scaled to length 1.
pub struct Minilm {
    identity: ModelIdentity,
    tokenizer: WordPiece,
    bert: Bert,
}

impl Minilm {
    /// The most word-pieces that the model reads of a text, `[CLS]` and `[SEP]` among them:
    /// `max_seq_length` of its `sentence_bert_config.json`.
    pub const MAX_PIECES: usize = 256;

    /// Loads `config.json`, `tokenizer.json` and `model.safetensors` from `dir`.
    ///
    /// # Errors
    /// [`ModelError`] names the file, and the setting or tensor that is absent or not supported.
    pub fn load(dir: &Path) -> Result<Self, ModelError> {
        let (config, tokenizer, weights) = weights::open(dir, Self::MAX_PIECES)?;
        let identity = store::identity(dir, weights.bytes(), ModelKind::Embedder);
        Ok(Self {
            identity,
            tokenizer,
            bert: Bert::load(config, weights, "")?,
        })
    }

    /// Runs the encoder over `texts`; `finish` gets each text's input and last-layer states, and
    /// gives `None` where they are not numbers. Also returns which texts were cut.
    fn encode<T: Send>(
        &self,
        texts: &[&str],
        finish: impl Fn(&Sequence, &[f32]) -> Option<T> + Sync,
    ) -> Result<(Vec<T>, Vec<bool>), ModelError> {
        let (sequences, cut): (Vec<_>, Vec<_>) =
            texts.par_iter().map(|text| self.input(text)).unzip();
        let results = self
            .bert
            .encode(&sequences, |i, states| finish(&sequences[i], states))
            .map_err(|e| self.failure(e.to_string()))?;
        let results = results.into_iter().collect::<Option<_>>();
        results
            .map(|r| (r, cut))
            .ok_or_else(|| self.failure("its states are not finite; fetch it again".into()))
    }

    fn input(&self, text: &str) -> (Sequence, bool) {
        let mut ids = self.tokenizer.pieces(text);
        let room = Self::MAX_PIECES - 2;
        let cut = ids.len() > room;
        ids.truncate(room);
        ids.insert(0, self.tokenizer.cls);
        ids.push(self.tokenizer.sep);
        (
            Sequence {
                second: ids.len(),
                ids,
            },
            cut,
        )
    }

    fn failure(&self, reason: String) -> ModelError {
        ModelError::Compute {
            name: self.identity.name.clone(),
            reason,
        }
    }
}

impl Embedder for Minilm {
    fn identity(&self) -> &ModelIdentity {
        &self.identity
    }

    fn dimension(&self) -> usize {
        self.bert.config().hidden_size
    }

    fn embed(&self, texts: &[&str]) -> Result<Embeddings, ModelError> {
        let dimension = self.bert.config().hidden_size;
        let (rows, cut) = self.encode(texts, |_, states| pool(states, dimension))?;
        let truncated = cut.into_iter().filter(|&cut| cut).count();
        Ok(Embeddings {
            vectors: rows.concat(),
            dimension,
            truncated,
        })
    }

    fn count_tokens(&self, text: &str) -> usize {
        self.tokenizer.pieces(text).len()
    }
}

impl TokenEncoder for Minilm {
    fn identity(&self) -> &ModelIdentity {
        &self.identity
    }

    fn dimension(&self) -> usize {
        self.bert.config().hidden_size
    }

    fn encode_tokens(&self, texts: &[&str]) -> Result<Vec<TokenVectors>, ModelError> {
        let dimension = self.bert.config().hidden_size;
        let (mut results, cut) = self.encode(texts, |input, states| {
            let pooled = pool(states, dimension)?;
            let inner = 1..input.ids.len() - 1;
            let mut vectors = states[inner.start * dimension..inner.end * dimension].to_vec();
            let finite = vectors
                .chunks_exact_mut(dimension)
                .all(kernels::scale_to_unit);
            finite.then(|| TokenVectors {
                pieces: input.ids[inner].to_vec(),
                vectors,
                pooled,
                truncated: false,
            })
        })?;
        for (result, cut) in results.iter_mut().zip(cut) {
            result.truncated = cut;
        }
        Ok(results)
    }
}

/// The mean of the rows of `states`, scaled to length 1.
fn pool(states: &[f32], dimension: usize) -> Option<Vec<f32>> {
    let mut sum = vec![0.0; dimension];
    for row in states.chunks_exact(dimension) {
        for (sum, x) in sum.iter_mut().zip(row) {
            *sum += x;
        }
    }
    kernels::scale_to_unit(&mut sum).then_some(sum)
}
