//! Models that turn text into numbers: sentence embeddings, token vectors and relevance scores,
//! computed on this machine from weights that were fetched once. With the feature `remote`, also
//! models behind services, which reply and decide besides: `remote`, with a
//! `cache` of their replies and a ledger of their `prices`.
//!
//! The traits ([`Embedder`], [`TokenEncoder`], [`Reranker`]) are what retrieval is written against;
//! [`Minilm`] and [`CrossEncoder`] implement them with a BERT forward pass in single precision, and
//! [`store`] fetches, checks and finds their weights. Local models never reach the network
//! while they compute; the crate never prints, never pads, and never shortens a text without
//! counting it.
//!
//! The main call is [`Embedder::embed`]:
//!
//! ```no_run
//! use rawrag_models::{Embedder, Minilm, store};
//!
//! let weights = store::locate(&store::MINILM, &store::folder(None)?)?;
//! let model = Minilm::load(&weights)?;
//! let embeddings = model.embed(&["Where did we leave the keys?", "Under the third flowerpot."])?;
//! assert_eq!(embeddings.vectors.len(), 2 * model.dimension());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bert;
#[cfg(feature = "remote")]
pub mod cache;
mod cross_encoder;
mod error;
pub mod generate;
#[cfg(feature = "gguf")]
mod gguf;
mod identity;
mod kernels;
mod minilm;
#[cfg(feature = "remote")]
pub mod prices;
#[cfg(feature = "remote")]
pub mod remote;
#[cfg(feature = "serve")]
pub mod serve;
pub mod store;
mod tokenizer;
mod weights;

pub use cross_encoder::CrossEncoder;
pub use error::ModelError;
#[cfg(feature = "gguf")]
pub use gguf::{Gguf, GgufError};
pub use identity::{ModelIdentity, ModelKind};
pub use minilm::Minilm;

/// A model that maps each text to one vector.
pub trait Embedder: Send + Sync {
    /// Which model this is, for the record of a run.
    fn identity(&self) -> &ModelIdentity;

    /// Components of a vector, at least 1.
    fn dimension(&self) -> usize;

    /// Embeds `texts`, any number of them and in any mixture of lengths; row `i` of the result
    /// belongs to `texts[i]`.
    ///
    /// # Errors
    /// [`ModelError`] if the model cannot compute; a text is never a reason.
    fn embed(&self, texts: &[&str]) -> Result<Embeddings, ModelError>;

    /// Tokens of `text` by the model's own tokenizer, before truncation and without the special
    /// tokens that the model adds.
    fn count_tokens(&self, text: &str) -> usize;
}

/// Vectors of a batch of texts, in the order of the texts.
#[derive(Debug, Clone, PartialEq)]
pub struct Embeddings {
    /// Row-major, texts x `dimension`, every row of Euclidean length 1.
    pub vectors: Vec<f32>,
    /// Components of a row.
    pub dimension: usize,
    /// How many of the texts were longer than the model reads, and so were cut.
    pub truncated: usize,
}

/// A model that scores how well each of several passages answers a query.
pub trait Reranker: Send + Sync {
    /// Which model this is, for the record of a run.
    fn identity(&self) -> &ModelIdentity;

    /// Scores `passages` against `query`; higher is better, and only the order within one query
    /// means anything.
    ///
    /// # Errors
    /// [`ModelError`] if the model cannot compute; a text is never a reason.
    fn score(&self, query: &str, passages: &[&str]) -> Result<Scores, ModelError>;
}

/// Scores of the passages of one query.
#[derive(Debug, Clone, PartialEq)]
pub struct Scores {
    /// `scores[i]` belongs to `passages[i]`; never NaN.
    pub scores: Vec<f32>,
    /// For how many passages the query and passage were together longer than the model reads.
    pub truncated: usize,
}

/// A model that maps each text to one vector per word-piece, as late interaction compares them.
pub trait TokenEncoder: Send + Sync {
    /// Which model this is, for the record of a run.
    fn identity(&self) -> &ModelIdentity;

    /// Components of a vector, at least 1.
    fn dimension(&self) -> usize;

    /// Encodes `texts`; element `i` of the result belongs to `texts[i]`. A text longer than the
    /// model reads is read in several passes, each of as much as it reads, so that no end is lost.
    ///
    /// # Errors
    /// [`ModelError`] if the model cannot compute; a text is never a reason.
    fn encode_tokens(&self, texts: &[&str]) -> Result<Vec<TokenVectors>, ModelError>;
}

/// One text as the model sees it: its word-pieces, a vector for each, and one for the whole.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenVectors {
    /// Vocabulary ids of the word-pieces, special tokens left out; empty for an empty text.
    pub pieces: Vec<u32>,
    /// Row-major, `pieces.len()` x dimension, every row of Euclidean length 1.
    pub vectors: Vec<f32>,
    /// The sentence vector of the first pass, equal to what [`Embedder::embed`] gives.
    pub pooled: Vec<f32>,
}
