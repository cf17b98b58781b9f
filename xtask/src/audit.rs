//! `cargo xtask audit`: judge and human on the same answers.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use rawrag_diagnostics::{Settings, audit};

use crate::commands::{Failure, FormatName};
use crate::diagnose;

#[derive(Args)]
pub(crate) struct Arguments {
    /// CSV of `unit`, `system`, `judge` (0 or 1) and `human`: the grade in words, empty where the
    /// answer was not audited, UNGRADED where it was and has no grade.
    file: PathBuf,
    /// The system that is to show something.
    #[arg(long, value_name = "SYSTEM")]
    new: String,
    /// The one that it is compared with.
    #[arg(long, value_name = "SYSTEM")]
    reference: String,
    /// How much worse the new system may be, as a fraction.
    #[arg(long, default_value_t = 0.05, value_name = "SHARE")]
    margin: f64,
    /// How it is written.
    #[arg(long, value_enum, default_value = "md")]
    format: FormatName,
}

impl Arguments {
    pub(crate) fn report(&self, out: &mut impl Write) -> Result<(), Failure> {
        let rows = audit::read(&self.file)?;
        let settings = Settings::default();
        let report = audit::report(&rows, &self.new, &self.reference, self.margin, &settings)?;
        Ok(out.write_all(diagnose::rendered(&report, self.format.into())?.as_bytes())?)
    }
}
