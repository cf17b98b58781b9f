//! Records in the forms that other programs read: CSV files, and a page that names every column.

use std::fmt::Write;
use std::path::Path;

use serde_json::Value;

use crate::run::write_aside;
use crate::{
    Answer, Assessment, Column, Consumption, EvidenceItem, History, Ingestion, Judgment, Pruning,
    Record, RecordError, Retrieval, Schema, Search, Selection, StoredObject, Timing, Usage,
    WriteDecision,
};

/// The schema of every kind of record, in the order of a run's way.
pub const SCHEMAS: [Schema; 15] = [
    History::SCHEMA,
    Retrieval::SCHEMA,
    Selection::SCHEMA,
    Pruning::SCHEMA,
    Ingestion::SCHEMA,
    Consumption::SCHEMA,
    WriteDecision::SCHEMA,
    StoredObject::SCHEMA,
    Search::SCHEMA,
    EvidenceItem::SCHEMA,
    Answer::SCHEMA,
    Judgment::SCHEMA,
    Assessment::SCHEMA,
    Usage::SCHEMA,
    Timing::SCHEMA,
];

/// Writes records as one CSV file with the columns of their schema, aside first and then into
/// place. What is absent is empty; a list is written as JSON (`[3,7]`), an empty list as `[]`.
///
/// # Errors
/// When a record cannot be serialised or the file cannot be written.
pub fn write_csv<R: Record>(path: &Path, records: &[R]) -> Result<(), RecordError> {
    let written = write_aside(path, |file| {
        let mut rows = csv::Writer::from_writer(file);
        rows.write_record(R::SCHEMA.columns.iter().map(|(name, ..)| name))?;
        for record in records {
            let value = serde_json::to_value(record)?;
            let cell = |(name, ..): &(&str, Column, &str)| match &value[*name] {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            rows.write_record(R::SCHEMA.columns.iter().map(cell))?;
        }
        rows.flush()
    });
    written.map_err(|source| RecordError::Io {
        path: path.to_owned(),
        source,
    })
}

/// The page that names every column of every kind of record, as Markdown.
pub fn columns_page() -> String {
    let mut page = String::from(PREAMBLE);
    for Schema { kind, columns } in SCHEMAS {
        // Writing to a string cannot fail.
        let _ = write!(
            page,
            "\n## {kind}\n\n| column | type | meaning |\n|---|---|---|\n"
        );
        for (name, column, meaning) in columns {
            let meaning = meaning.replace('|', "\\|");
            let _ = writeln!(page, "| `{name}` | {} | {meaning} |", type_name(*column));
        }
    }
    page
}

const PREAMBLE: &str = "# Columns of records

Written by `cargo xtask records`; a test fails when it is stale.

A run is a folder: `manifest.json` says what was run on what, and each kind of record is one file,
`KIND.jsonl` or, packed, `KIND.parquet`, with the columns below. Every column may be null where the
table says that a value may be absent. `cargo xtask export RUN --out DIR` writes every kind that a run
has as `KIND.csv` and `KIND.parquet`; in CSV what is absent is empty and a list is JSON.

A question is identified by `benchmark`, `source`, `conversation`, `question` and `phase` together.
";

fn type_name(column: Column) -> &'static str {
    match column {
        Column::Text => "text",
        Column::Bool => "boolean",
        Column::U32 => "unsigned 32-bit",
        Column::F64 => "64-bit float",
        Column::Texts => "list of texts",
        Column::U32s => "list of unsigned 32-bit",
        Column::F32s => "list of 32-bit floats",
    }
}
