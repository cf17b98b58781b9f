//! Rows of a Parquet file, as JSON objects.

use std::fs::File;
use std::path::Path;

use parquet::errors::ParquetError;
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row};
use serde_json::Value;

use super::elements::Place;
use crate::error::LoadError;

/// The rows of a file, each as text.
pub(super) struct Rows<'a> {
    file: &'a Path,
    rows: RowIter<'static>,
    count: u64,
    row: String,
}

impl<'a> Rows<'a> {
    pub(super) fn new(file: &'a Path) -> Result<Self, LoadError> {
        Ok(Self {
            file,
            rows: open(file)?.into_iter(),
            count: 0,
            row: String::new(),
        })
    }

    /// The next row and where it stands.
    pub(super) fn next(&mut self) -> Result<Option<(&str, Place<'a>)>, LoadError> {
        let place = Place::whole(self.file).named(format!("row {}", self.count));
        self.count += 1;
        match self.rows.next() {
            None => Ok(None),
            Some(Err(error)) => Err(damaged(&place, &error)),
            Some(Ok(row)) => {
                self.row = json_of_row(&row, &place)?.to_string();
                Ok(Some((&self.row, place)))
            }
        }
    }
}

/// The names of a file's columns.
pub(super) fn columns(file: &Path) -> Result<Vec<String>, LoadError> {
    let reader = open(file)?;
    let schema = reader.metadata().file_metadata().schema();
    Ok(schema
        .get_fields()
        .iter()
        .map(|field| field.name().to_owned())
        .collect())
}

fn open(file: &Path) -> Result<SerializedFileReader<File>, LoadError> {
    let opened = File::open(file).map_err(|source| LoadError::Read {
        file: file.to_owned(),
        source,
    })?;
    SerializedFileReader::new(opened).map_err(|e| damaged(&Place::whole(file), &e))
}

fn damaged(place: &Place<'_>, error: &ParquetError) -> LoadError {
    let mend = "the Parquet file is damaged or cut short: get it again";
    place.error("", error.to_string(), mend)
}

fn json_of_row(row: &Row, place: &Place<'_>) -> Result<Value, LoadError> {
    row.get_column_iter()
        .map(|(name, field)| Ok((name.clone(), json_of(name, field, place)?)))
        .collect::<Result<serde_json::Map<_, _>, _>>()
        .map(Value::Object)
}

/// Only what the releases' schemas have: texts, numbers, truth values, lists and structures.
fn json_of(name: &str, field: &Field, place: &Place<'_>) -> Result<Value, LoadError> {
    Ok(match field {
        Field::Null => Value::Null,
        Field::Bool(value) => Value::Bool(*value),
        Field::Int(value) => Value::from(*value),
        Field::Long(value) => Value::from(*value),
        Field::Float(value) => Value::from(*value),
        Field::Double(value) => Value::from(*value),
        Field::Str(text) => Value::from(text.as_str()),
        Field::Group(row) => json_of_row(row, place)?,
        Field::ListInternal(list) => list
            .elements()
            .iter()
            .map(|item| json_of(name, item, place))
            .collect::<Result<Value, _>>()?,
        _ => {
            let problem = "the column is of a type that no release has";
            return Err(place.error(name, problem, "give the release's Parquet file"));
        }
    })
}
