//! Records as polars frames and as Parquet files.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use polars::prelude::*;
use serde::de::value::MapDeserializer;
use serde_json::Value;

use crate::run::write_aside;
use crate::{Column as Kind, Record, RecordError};

/// The records as a frame with the columns of their schema.
///
/// # Errors
/// When a record's field does not fit its column.
pub fn frame<R: Record>(records: &[R]) -> Result<DataFrame, RecordError> {
    build::<R>(records, Path::new(R::SCHEMA.kind))
}

/// Writes records as one Parquet file (zstd), aside first and then into place.
///
/// # Errors
/// When a record's field does not fit its column, or the file cannot be written.
pub fn write<R: Record>(path: &Path, records: &[R]) -> Result<(), RecordError> {
    let mut frame = build(records, path)?;
    write_aside(path, |file| {
        ParquetWriter::new(file)
            .with_compression(ParquetCompression::Zstd(None))
            .finish(&mut frame)
            .map_err(std::io::Error::other)?;
        Ok(())
    })
    .map_err(|source| RecordError::Io {
        path: path.to_owned(),
        source,
    })
}

/// Reads the records of a Parquet file, in file order.
///
/// # Errors
/// When the file is damaged or a column is missing or of another type.
pub fn read<R: Record>(path: &Path) -> Result<Vec<R>, RecordError> {
    let file = File::open(path).map_err(|source| RecordError::Io {
        path: path.to_owned(),
        source,
    })?;
    // The reader panics at some damaged files.
    let frame = catch_unwind(AssertUnwindSafe(|| ParquetReader::new(file).finish()))
        .map_err(|_| column_error(path, "all", "the file is damaged: take its run anew"))?
        .map_err(|e| column_error(path, "all", e))?;
    let mut columns = Vec::new();
    for &(name, kind, _) in R::SCHEMA.columns {
        let column = frame
            .column(name)
            .map_err(|e| column_error(path, name, e))?;
        let values = values(column, kind).map_err(|e| column_error(path, name, e))?;
        columns.push((name, values.into_iter()));
    }
    let row = |line| {
        let fields = columns
            .iter_mut()
            .map(|(name, values)| (*name, values.next().unwrap_or_default()));
        R::deserialize(MapDeserializer::new(fields)).map_err(|source| RecordError::Damaged {
            path: path.to_owned(),
            line,
            source,
        })
    };
    (1..=frame.height()).map(row).collect()
}

fn column_error(path: &Path, column: &str, problem: impl ToString) -> RecordError {
    RecordError::Column {
        path: path.to_owned(),
        column: column.to_owned(),
        problem: problem.to_string(),
    }
}

fn build<R: Record>(records: &[R], path: &Path) -> Result<DataFrame, RecordError> {
    let rows: Vec<Value> = records
        .iter()
        .map(serde_json::to_value)
        .collect::<Result<_, _>>()
        .map_err(|e| column_error(path, "all", e))?;
    let columns = R::SCHEMA
        .columns
        .iter()
        .map(|&(name, kind, _)| {
            let cells: Vec<&Value> = rows.iter().map(|row| &row[name]).collect();
            series(name, kind, &cells)
                .map(Column::from)
                .ok_or_else(|| column_error(path, name, "a value does not fit the column's type"))
        })
        .collect::<Result<Vec<_>, _>>()?;
    DataFrame::new(rows.len(), columns).map_err(|e| column_error(path, "all", e))
}

fn series(name: &str, kind: Kind, cells: &[&Value]) -> Option<Series> {
    /// Null stays null; anything else has to be read by `read`.
    fn optional<'a, T>(
        cells: &[&'a Value],
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Option<Vec<Option<T>>> {
        let cell = |&cell: &&'a Value| {
            if cell.is_null() {
                Some(None)
            } else {
                read(cell).map(Some)
            }
        };
        cells.iter().map(cell).collect()
    }
    fn items<'a, T>(cell: &'a Value, read: impl Fn(&'a Value) -> Option<T>) -> Option<Vec<T>> {
        cell.as_array()?.iter().map(read).collect()
    }
    let u32 = |value: &Value| u32::try_from(value.as_u64()?).ok();
    let f32 = |value: &Value| value.as_f64().map(|x| x as f32);
    let name = PlSmallStr::from(name);
    Some(match kind {
        Kind::Text => Series::new(name, optional(cells, Value::as_str)?),
        Kind::Bool => Series::new(name, optional(cells, Value::as_bool)?),
        Kind::U32 => Series::new(name, optional(cells, u32)?),
        Kind::F64 => Series::new(name, optional(cells, Value::as_f64)?),
        Kind::Texts => {
            let mut lists = ListStringChunkedBuilder::new(name, cells.len(), cells.len());
            for list in optional(cells, |cell| items(cell, Value::as_str))? {
                match list {
                    Some(list) => lists.append_values_iter(list.into_iter()),
                    None => lists.append_null(),
                }
            }
            lists.finish().into_series()
        }
        Kind::U32s => {
            let mut lists = ListPrimitiveChunkedBuilder::<UInt32Type>::new(
                name,
                cells.len(),
                cells.len(),
                DataType::UInt32,
            );
            for list in optional(cells, |cell| items(cell, u32))? {
                lists.append_opt_slice(list.as_deref());
            }
            lists.finish().into_series()
        }
        Kind::F32s => {
            let mut lists = ListPrimitiveChunkedBuilder::<Float32Type>::new(
                name,
                cells.len(),
                cells.len(),
                DataType::Float32,
            );
            for list in optional(cells, |cell| items(cell, f32))? {
                lists.append_opt_slice(list.as_deref());
            }
            lists.finish().into_series()
        }
    })
}

fn values(column: &Column, kind: Kind) -> PolarsResult<Vec<Value>> {
    fn plain<T: Into<Value>>(values: impl Iterator<Item = Option<T>>) -> Vec<Value> {
        values
            .map(|value| value.map_or(Value::Null, Into::into))
            .collect()
    }
    let series = column.as_materialized_series();
    let lists = |read: fn(&Series) -> PolarsResult<Vec<Value>>| {
        series
            .list()?
            .amortized_iter()
            .map(|list| {
                list.map_or(Ok(Value::Null), |list| {
                    read(list.as_ref()).map(Value::Array)
                })
            })
            .collect::<PolarsResult<Vec<_>>>()
    };
    Ok(match kind {
        Kind::Text => plain(series.str()?.iter()),
        Kind::Bool => plain(series.bool()?.iter()),
        Kind::U32 => plain(series.u32()?.iter()),
        Kind::F64 => plain(series.f64()?.iter()),
        Kind::Texts => lists(|list| Ok(plain(list.str()?.iter())))?,
        Kind::U32s => lists(|list| Ok(plain(list.u32()?.iter())))?,
        Kind::F32s => lists(|list| Ok(plain(list.f32()?.iter().map(|x| x.map(f64::from)))))?,
    })
}
