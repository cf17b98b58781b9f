//! `cargo xtask export`: a run's records as CSV and Parquet, and the page that names their columns.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use rawrag_records::{
    Answer, Assessment, Consumption, EvidenceItem, History, Ingestion, Judgment, Pruning, Record,
    RecordError, Retrieval, Run, Search, Selection, StoredObject, Timing, Usage, WriteDecision,
    columns_page, write_csv,
};

use crate::commands::Failure;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The run: its folder, or its name below the folder of runs.
    run: PathBuf,
    /// Where to, as KIND.csv and KIND.parquet.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

impl Arguments {
    /// Writes every kind of record that the run has. A run may be incomplete: it is written as far
    /// as it goes.
    pub(crate) fn export(&self, runs: &Path, out: &mut impl Write) -> Result<(), Failure> {
        let below = runs.join(&self.run);
        let folder = if self.run.is_dir() { &self.run } else { &below };
        let run = Run::open(folder)?;
        fs::create_dir_all(&self.out).map_err(|source| Failure::Write {
            path: self.out.clone(),
            source,
        })?;
        let written = [
            self.write::<History>(&run)?,
            self.write::<Retrieval>(&run)?,
            self.write::<Selection>(&run)?,
            self.write::<Pruning>(&run)?,
            self.write::<Ingestion>(&run)?,
            self.write::<Consumption>(&run)?,
            self.write::<WriteDecision>(&run)?,
            self.write::<StoredObject>(&run)?,
            self.write::<Search>(&run)?,
            self.write::<EvidenceItem>(&run)?,
            self.write::<Answer>(&run)?,
            self.write::<Judgment>(&run)?,
            self.write::<Assessment>(&run)?,
            self.write::<Usage>(&run)?,
            self.write::<Timing>(&run)?,
        ];
        for (kind, count) in written.into_iter().filter(|(_, count)| *count > 0) {
            writeln!(out, "{kind}: {count}")?;
        }
        Ok(())
    }

    /// One kind, if the run has any of it.
    fn write<R: Record>(&self, run: &Run) -> Result<(&'static str, usize), RecordError> {
        let records: Vec<R> = run.read()?;
        let kind = R::SCHEMA.kind;
        if !records.is_empty() {
            write_csv(&self.out.join(format!("{kind}.csv")), &records)?;
            #[cfg(feature = "frames")]
            rawrag_records::frames::write(&self.out.join(format!("{kind}.parquet")), &records)?;
        }
        Ok((kind, records.len()))
    }
}

/// Prints docs/records.md.
pub(crate) fn columns(out: &mut impl Write) -> Result<(), Failure> {
    Ok(out.write_all(columns_page().as_bytes())?)
}
