//! Why a memory system answers right or wrong: analyses over the records of runs.
//!
//! A [`Diagnostic`] is one documented function, named in [`DIAGNOSTICS`]. It takes the records of
//! one run or several ([`Input`]) and gives a [`Report`] of tables, each column with its unit and
//! meaning. What cannot be said of these records is an absent value with the reason, or an error
//! that names the records it needs.
//!
//! ```no_run
//! use rawrag_diagnostics::{Input, Outputs, Settings, diagnostic};
//!
//! let run = Outputs::read("data/runs/mem0-classic-scripted".as_ref())?;
//! let audit = diagnostic("mutation")?;
//! let report = audit.report(&Input::new(&[&run], Settings::default()))?;
//! println!("{}", report.tables[0].rows.len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Nothing here runs a model, a search or a judge, and nothing changes a record. To add an analysis,
//! see `docs/add-a-diagnostic.md`.

mod against;
pub mod audit;
pub mod budget;
mod contrasts;
mod cost;
mod coverage;
pub mod density;
mod depth;
mod errata;
mod evidence;
mod failure;
#[cfg(feature = "frames")]
pub mod frames;
mod length;
mod losses;
mod mutation;
mod nano;
pub mod oracle;
mod outputs;
mod path;
pub mod plan;
pub mod prices;
pub mod questions;
mod ranking;
mod registry;
mod report;
mod selection;
mod shown;
mod spread;

pub use errata::{Errata, ErrataError};
pub use losses::{Fate, Loss, Stages};
pub use outputs::{Outputs, QuestionRecords, RunState, Runs};
pub use registry::{
    DIAGNOSTICS, Diagnostic, DiagnosticError, Input, Need, Settings, UnknownDiagnostic, diagnostic,
};
pub use report::{Column, Report, Table, Unit, Value};
pub use shown::{Item, Places, Shown, assembled, cutoffs};
pub use spread::Spread;
