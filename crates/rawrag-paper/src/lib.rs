//! Tables of the papers: what was measured beside what was published.
//!
//! A definition (`paper-tables/<paper>/table-09.toml`) names rows, columns, metrics and the
//! published cells with their sources; a [`Table`] is a definition evaluated over the cached
//! outputs of runs; a [`Sheet`] is anything tabular, printed as Markdown, CSV, JSON, LaTeX or
//! HTML. A published number is never shown as measured, and an empty cell says what it needs.
//!
//! ```no_run
//! use rawrag_paper::definition::{self, What};
//! use rawrag_paper::{Format, Only, Runs, Table};
//!
//! let tables = definition::find("paper-tables".as_ref(), What::Table)?;
//! let place = definition::choose(&tables, What::Table, "nano-memory:9")?;
//! let table = Table::evaluate(&place.load()?, &mut Runs::new("data/runs".as_ref()))?;
//! print!("{}", table.render(Format::Markdown, Only::Beside));
//! # Ok::<(), rawrag_paper::PaperError>(())
//! ```
//!
//! This crate reads records and never runs a model, a search or a judge.

pub mod claims;
pub mod definition;
pub mod figure;
pub mod metric;
pub mod reading;
pub mod statistics;

mod formula;
mod page;
mod pairwise;
#[cfg(feature = "png")]
mod png;
mod sheet;
mod table;

pub use definition::{DefinitionError, Published};
pub use page::page;
#[cfg(feature = "png")]
pub use png::{PngError, png};
pub use rawrag_diagnostics::{Outputs, QuestionRecords, RunState, Runs};
pub use sheet::{Column, Format, Line, Sheet, Text};
pub use table::{Cell, Measured, Only, Row, Table};

/// Why a table cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum PaperError {
    /// A definition is wrong.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// A cell that no report can have.
    #[error("{definition}: {source}")]
    Reading {
        /// The table (`ours:6`).
        definition: String,
        /// What is wrong.
        source: reading::ReadingError,
    },
    /// A run is damaged.
    #[error(transparent)]
    Records(#[from] rawrag_records::RecordError),
}
