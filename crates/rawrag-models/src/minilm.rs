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

    /// Word-pieces that a pass has room for beside `[CLS]` and `[SEP]`.
    const ROOM: usize = Self::MAX_PIECES - 2;

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

    /// Runs the encoder over `sequences`; `finish` gets the last-layer states of each, and gives
    /// `None` where they are not numbers.
    fn encode<T: Send>(
        &self,
        sequences: &[Sequence],
        finish: impl Fn(&Sequence, &[f32]) -> Option<T> + Sync,
    ) -> Result<Vec<T>, ModelError> {
        let results = self
            .bert
            .encode(sequences, |i, states| finish(&sequences[i], states))
            .map_err(|e| self.failure(e.to_string()))?;
        results
            .into_iter()
            .collect::<Option<_>>()
            .ok_or_else(|| self.failure("its states are not finite; fetch it again".into()))
    }

    /// An input of these word-pieces, at most [`Self::ROOM`].
    fn sequence(&self, pieces: &[u32]) -> Sequence {
        let ids: Vec<u32> = std::iter::once(self.tokenizer.cls)
            .chain(pieces.iter().copied())
            .chain([self.tokenizer.sep])
            .collect();
        Sequence {
            second: ids.len(),
            ids,
        }
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
        let (sequences, cut): (Vec<Sequence>, Vec<bool>) = texts
            .par_iter()
            .map(|text| {
                let pieces = self.tokenizer.pieces(text);
                let read = pieces.len().min(Self::ROOM);
                (self.sequence(&pieces[..read]), read < pieces.len())
            })
            .unzip();
        let rows = self.encode(&sequences, |_, states| pool(states, dimension))?;
        Ok(Embeddings {
            vectors: rows.concat(),
            dimension,
            truncated: cut.into_iter().filter(|&cut| cut).count(),
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
        let passes: Vec<Vec<Sequence>> = texts
            .par_iter()
            .map(|text| {
                let pieces = self.tokenizer.pieces(text);
                match pieces.len() {
                    0 => vec![self.sequence(&[])],
                    _ => pieces
                        .chunks(Self::ROOM)
                        .map(|p| self.sequence(p))
                        .collect(),
                }
            })
            .collect();
        let counts: Vec<usize> = passes.iter().map(Vec::len).collect();
        let sequences: Vec<Sequence> = passes.into_iter().flatten().collect();
        let encoded = self.encode(&sequences, |input, states| {
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
            })
        })?;
        let mut encoded = encoded.into_iter();
        let join = |passes: usize| {
            let mut parts = encoded.by_ref().take(passes);
            let first = parts.next()?;
            Some(parts.fold(first, |mut whole, part| {
                whole.pieces.extend(part.pieces);
                whole.vectors.extend(part.vectors);
                whole
            }))
        };
        Ok(counts.into_iter().filter_map(join).collect())
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
