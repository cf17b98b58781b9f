//! Published result files of other people's runs, as records of this project.
//!
//! A result file says what a system answered and how a judge graded it. [`import`] joins its rows
//! to the questions of the benchmark, reports everything that does not fit, and writes a run's
//! folder of `answers` and `judgments` whose manifest says that it was imported, from which file.
//! Which layouts are read stands at [`Format`].
//!
//! ```no_run
//! use rawrag_import::{Job, import};
//!
//! let outcome = import(&Job {
//!     files: &["memobase_eval_0710_3000.json".into()],
//!     format: None,
//!     benchmark_file: Some("locomo10.json".as_ref()),
//!     system: "Memobase 0.0.37",
//!     folder: "runs/memobase".as_ref(),
//!     text: true,
//!     exclude: &["adversarial".into()],
//! })?;
//! println!("{}", outcome.report);
//! # Ok::<(), rawrag_import::ImportError>(())
//! ```
//!
//! [`import_decisions`] does the same for a log of what a memory system's writes returned.
//!
//! This crate never grades: a label it cannot read is `unparsed`, one that is not there is
//! `failed`, and a question without a row leaves the run incomplete. It runs no model.

mod decisions;
mod error;
mod format;
mod join;
mod lines;
mod report;
mod results;
mod row;
mod write;

#[cfg(feature = "cli")]
pub mod command;

pub use decisions::{DecisionsJob, DecisionsReport, ImportedDecisions, import_decisions};
pub use error::ImportError;
pub use format::{Format, UnknownFormat};
pub use report::{Missing, Oddity, Report};
pub use write::{Imported, Job, import};
