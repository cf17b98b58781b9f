//! What a run leaves on disk, and how it is read back.
//!
//! A run is a folder: `manifest.json` says what was run on what, and each kind of record is an
//! append-only JSONL file beside it. A record counts once its whole line is flushed to disk, so a
//! process may be killed at any instant: on [`Run::resume`] a torn last line is dropped and its
//! question is done again. A run that is shared is packed into Parquet files of the same columns
//! (feature `frames`), and [`Run::open`] reads either.
//!
//! ```no_run
//! use rawrag_records::{Retrieval, Run};
//!
//! let run = Run::open("data/runs/locomo-minilm-tir".as_ref())?;
//! let retrievals: Vec<Retrieval> = run.read()?;
//! run.require_complete(&retrievals)?;
//! # Ok::<(), rawrag_records::RecordError>(())
//! ```
//!
//! This crate knows nothing of models, retrieval or benchmarks, and it never repairs: damage
//! anywhere but in the last line is an error that names the file and the line.

mod answer;
mod appender;
mod assessment;
mod key;
mod manifest;
mod record;
mod refined;
mod run;
mod search;
mod stored;
mod usage;
mod written;

#[cfg(feature = "frames")]
pub mod frames;
pub mod labels;

pub use answer::{Answer, AnswerOutcome, Judgment, JudgmentOutcome};
pub use appender::Appender;
pub use assessment::{Assessment, AssessmentOutcome};
pub use key::{Key, Phase};
pub use manifest::{
    Code, Data, Difference, Expected, Import, ImportedFile, Machine, Manifest, Model,
    SCHEMA_VERSION, System,
};
pub use record::{Column, History, Record, Retrieval, Schema};
pub use refined::{Pruning, Selection, SelectionOutcome};
pub use run::{Complete, RecordError, Run};
pub use search::{EvidenceItem, Search, SearchOutcome};
pub use stored::{Consumption, Ingestion, Level, StoredObject, WriteDecision, WriteEvent};
pub use usage::{Timing, Usage};
pub use written::{SCHEMAS, columns_page, write_csv};
