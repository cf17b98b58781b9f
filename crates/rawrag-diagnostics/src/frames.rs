//! Tables of reports as polars frames and as Parquet files.

use std::fs::File;
use std::io;
use std::path::Path;

use polars::prelude::*;

use crate::{Table, Unit, Value};

/// The table as a frame: counts as 64-bit integers, words as strings, everything else as 64-bit
/// floats; what is absent is null.
///
/// # Errors
/// When columns of the table have the same name.
pub fn frame(table: &Table) -> PolarsResult<DataFrame> {
    let column = |(at, column): (usize, &crate::Column)| {
        let cells = || table.rows.iter().map(move |row| &row[at]);
        let name = PlSmallStr::from(column.name);
        let words = cells().any(|cell| matches!(cell, Value::Text(_) | Value::Flag(_)));
        Column::from(match column.unit {
            _ if words || column.unit == Unit::Text => {
                let text = |cell: &Value| match cell {
                    Value::Absent(_) => None,
                    cell => Some(cell.written()),
                };
                Series::new(name, cells().map(text).collect::<Vec<_>>())
            }
            Unit::Count if cells().all(|cell| !matches!(cell, Value::Number(_) | Value::P(_))) => {
                let count = |cell: &Value| match cell {
                    Value::Count(count) => Some(*count),
                    _ => None,
                };
                Series::new(name, cells().map(count).collect::<Vec<_>>())
            }
            _ => Series::new(name, cells().map(Value::as_f64).collect::<Vec<_>>()),
        })
    };
    let columns = table.columns.iter().enumerate().map(column).collect();
    DataFrame::new(table.rows.len(), columns)
}

/// Writes the table as one Parquet file (zstd).
///
/// # Errors
/// When columns of the table have the same name, or the file cannot be written.
pub fn write(path: &Path, table: &Table) -> io::Result<()> {
    let mut frame = frame(table).map_err(io::Error::other)?;
    ParquetWriter::new(File::create(path)?)
        .with_compression(ParquetCompression::Zstd(None))
        .finish(&mut frame)
        .map_err(io::Error::other)?;
    Ok(())
}
