//! From a finished run's JSON lines to the Parquet files that are committed.

use std::fs;
use std::path::Path;

use rawrag_records::{Record, RecordError, Run, frames};

/// Copies a complete run into `folder` under its name and packs its records there; the run itself
/// stays as it is. Returns the number of questions.
///
/// # Errors
/// When the run is incomplete or damaged, or the folder holds a run of that name already.
pub(crate) fn pack(run: &Path, folder: &Path) -> Result<usize, RecordError> {
    let run = Run::open(run)?;
    let records = run.read_complete()?;
    let packed = folder.join(&run.manifest().name);
    let io = |source| RecordError::Io {
        path: packed.clone(),
        source,
    };
    fs::create_dir_all(folder).map_err(io)?;
    fs::create_dir(&packed).map_err(io)?;
    write(&packed, &records.retrievals)?;
    write(&packed, &records.histories)?;
    write(&packed, &records.searches)?;
    write(&packed, &records.evidence)?;
    write(&packed, &records.ingestions)?;
    write(&packed, &records.exports)?;
    write(&packed, &records.decisions)?;
    write(&packed, &records.selections)?;
    write(&packed, &records.prunings)?;
    write(&packed, &records.answers)?;
    write(&packed, &records.judgments)?;
    write(&packed, &records.assessments)?;
    write(&packed, &records.usage)?;
    write(&packed, &records.timings)?;
    fs::copy(
        run.folder().join("manifest.json"),
        packed.join("manifest.json"),
    )
    .map_err(io)?;
    Ok(run.manifest().expected.questions)
}

/// Packs the records of a kind, if the run has any.
fn write<R: Record>(packed: &Path, records: &[R]) -> Result<(), RecordError> {
    if records.is_empty() {
        return Ok(());
    }
    frames::write(&packed.join(format!("{}.parquet", R::SCHEMA.kind)), records)
}
