//! From a finished run's JSON lines to the Parquet files that are committed.

use std::fs;
use std::path::Path;

use rawrag_records::{Complete, Record, RecordError, Run, frames};

/// Copies a complete run into `folder` under its name and packs its records there; the run itself
/// stays as it is. Without `text`, nothing that was said, stored or answered is copied. Returns the
/// number of questions.
///
/// # Errors
/// When the run is incomplete or damaged, or the folder holds a run of that name already.
pub(crate) fn pack(run: &Path, folder: &Path, text: bool) -> Result<usize, RecordError> {
    let run = Run::open(run)?;
    let mut records = run.read_complete()?;
    if !text {
        remove_text(&mut records);
    }
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
    write(&packed, &records.consumptions)?;
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

/// Takes out what was said, stored and answered; counts, ids, scores and grades stay.
fn remove_text(records: &mut Complete) {
    for item in &mut records.evidence {
        item.text = None;
    }
    for object in &mut records.exports {
        object.text = None;
    }
    for decision in &mut records.decisions {
        (decision.old, decision.new) = (None, None);
    }
    for selection in &mut records.selections {
        selection.reply = None;
    }
    for pruning in &mut records.prunings {
        pruning.text = None;
    }
    for answer in &mut records.answers {
        answer.text = None;
    }
    for judgment in &mut records.judgments {
        judgment.reply = None;
    }
    for assessment in &mut records.assessments {
        assessment.reply = None;
    }
}

/// Packs the records of a kind, if the run has any.
fn write<R: Record>(packed: &Path, records: &[R]) -> Result<(), RecordError> {
    if records.is_empty() {
        return Ok(());
    }
    frames::write(&packed.join(format!("{}.parquet", R::SCHEMA.kind)), records)
}
