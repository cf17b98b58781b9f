//! From a question to the evidence that a reader sees.
//!
//! A [`Retriever`] indexes one conversation at a time and ranks its chunks against a question:
//! by cosine ([`VectorIndex`], exact), by a cross-encoder over a dense shortlist, by late
//! interaction over token vectors ([`TokenIndex`], [`late_interaction`]), or session by session
//! as Nano-Memory does. [`assemble`] turns the chosen chunks into text under a token budget, and a
//! [`Store`] keeps a history on disk for everyday search.
//!
//! ```no_run
//! use rawrag_models::Minilm;
//! use rawrag_retrieval::{Models, Retriever, Settings};
//!
//! let loaded = rawrag_corpus::load("history.jsonl".as_ref(), None)?;
//! let models = Models::local(Minilm::load("minilm".as_ref())?);
//! let retriever = Retriever::new(Settings::default(), models)?;
//! let history = retriever.index(&loaded.entries[0].conversation)?;
//! let found = retriever.search(&history, "When did we buy the pump?", None)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Rankings are total orders: score descending, then source order. A score that is not a number is
//! an error, never a place in a ranking. Nothing here asks a chat model or measures quality.

mod cues;
mod error;
mod evidence;
pub mod late_interaction;
mod order;
mod retriever;
mod selection;
mod sessions;
mod similarity;
mod store;
mod tokens;
mod vectors;

pub use error::RetrievalError;
pub use evidence::{Assembled, Budget, EvidenceSettings, Order, Repeats, assemble};
pub use late_interaction::LateInteraction;
pub use order::{Scored, best, best_of};
pub use retriever::{Found, HistoryIndex, Item, Method, Models, RerankKind, Retriever, Settings};
pub use selection::{Selected, Selection};
pub use store::{Hit, Ingested, Store, StoreError};
pub use tokens::{Maxima, TokenIndex};
pub use vectors::VectorIndex;
