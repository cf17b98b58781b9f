//! From a finished run's JSON lines to the Parquet files that are committed.

use std::fs;
use std::path::Path;

use rawrag_records::{History, RecordError, Retrieval, Run, frames};

/// Copies a complete run into `folder` under its name and packs its records there; the run itself
/// stays as it is. Returns the number of questions.
///
/// # Errors
/// When the run is incomplete or damaged, or the folder holds a run of that name already.
pub(crate) fn pack(run: &Path, folder: &Path) -> Result<usize, RecordError> {
    let run = Run::open(run)?;
    let records: Vec<Retrieval> = run.read()?;
    run.require_complete(&records)?;
    let packed = folder.join(&run.manifest().name);
    let io = |source| RecordError::Io {
        path: packed.clone(),
        source,
    };
    fs::create_dir_all(folder).map_err(io)?;
    fs::create_dir(&packed).map_err(io)?;
    frames::write(&packed.join("retrievals.parquet"), &records)?;
    frames::write(&packed.join("histories.parquet"), &run.read::<History>()?)?;
    fs::copy(
        run.folder().join("manifest.json"),
        packed.join("manifest.json"),
    )
    .map_err(io)?;
    Ok(records.len())
}
