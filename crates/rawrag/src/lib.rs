//! The facade: every crate of the workspace that an application needs, and the pipeline that the
//! command line runs.
//!
//! To put raw-history memory into a program, keep a [`retrieval::Store`]:
//!
//! ```no_run
//! use std::sync::Arc;
//! use rawrag::{corpus, models, retrieval};
//!
//! let weights = models::store::locate(&models::store::MINILM, &models::store::folder(None)?)?;
//! let model = Arc::new(models::Minilm::load(&weights)?);
//! let mut store = retrieval::Store::open_to_write("memory".as_ref(), model)?;
//! for entry in corpus::load("history.jsonl".as_ref(), None)?.entries {
//!     store.ingest(&entry.conversation, |_| {})?;
//! }
//! let settings = retrieval::LateInteraction::default();
//! for hit in store.search("Who fixed the pump?", 5, None, None, &settings)? {
//!     println!("{}: {}", hit.message.speaker, hit.message.text);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! To measure a configuration on a benchmark, read an [`experiment::Experiment`] and hand it to
//! [`pipeline::run`], or to [`memory::run`] where it asks a memory system; where it has a reader and judges, hand the run on to `answering::run` and
//! `judging::run`. Nothing prints but the command line (`cli`, a feature that is on by default).

pub use rawrag_baselines as baselines;
pub use rawrag_chunking as chunking;
pub use rawrag_corpus as corpus;
#[cfg(feature = "remote")]
pub use rawrag_diagnostics as diagnostics;
pub use rawrag_models as models;
#[cfg(feature = "remote")]
pub use rawrag_prompts as prompts;
pub use rawrag_records as records;
pub use rawrag_retrieval as retrieval;
pub use rawrag_scoring as scoring;
pub use rawrag_statistics as statistics;

#[cfg(feature = "remote")]
pub mod answering;
#[cfg(feature = "remote")]
pub mod assessing;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "remote")]
mod episodes;
pub mod evidence;
pub mod experiment;
#[cfg(feature = "remote")]
mod extracting;
#[cfg(feature = "remote")]
mod grading;
#[cfg(feature = "remote")]
pub mod judging;
pub mod memory;
#[cfg(feature = "remote")]
pub mod oracle;
pub mod pipeline;
#[cfg(feature = "remote")]
pub mod pruning;
pub mod scores;
#[cfg(feature = "remote")]
pub mod selecting;
#[cfg(feature = "remote")]
pub mod services;
pub mod summary;
