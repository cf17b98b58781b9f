//! Tables of labels made elsewhere: which system answered which question right.
//!
//! Two layouts are read. *Wide*: a line a unit and a column a system. *Long*: a line a judgment,
//! with the columns `system` and `label`; a table that has a column `system` is long. A label is 0,
//! 1, a share between them, `true` or `false`; an empty cell, JSON's null and an absent key are
//! missing labels.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

/// Column of a long table that names the system.
const SYSTEM: &str = "system";

/// Column of a long table that holds the label.
const LABEL: &str = "label";

/// What the columns of a table stand for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Columns {
    /// Columns that together identify a unit.
    pub unit: Vec<String>,
    /// Columns that together identify a unit's cluster; none without clusters.
    pub cluster: Vec<String>,
    /// Columns that together identify a unit's stratum; none without strata.
    pub strata: Vec<String>,
    /// The systems wanted, in order; none for all there are.
    pub systems: Vec<String>,
    /// Whether lines of one system and unit are repeated judgments rather than a mistake.
    pub repeated: bool,
}

/// A table of labels, as read.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelTable {
    /// Systems in the order wanted, or else in that of the columns or of their first lines.
    pub systems: Vec<String>,
    /// Units in order of their first lines.
    pub units: Vec<Unit>,
    /// One a judgment of a system on a unit.
    pub labels: Vec<Label>,
    /// Columns of a wide table that were taken for no system, since most of their values are no
    /// labels.
    pub passed_over: Vec<String>,
}

/// A unit of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// The values of its columns, joined by `/`.
    pub key: String,
    /// Its cluster, joined likewise.
    pub cluster: Option<String>,
    /// Its stratum, joined likewise.
    pub stratum: Option<String>,
    /// Where it is first named.
    line: u64,
}

/// One judgment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Label {
    /// Position of the system in [`LabelTable::systems`].
    pub system: usize,
    /// Position of the unit in [`LabelTable::units`].
    pub unit: usize,
    /// The label in \[0, 1\]; `None` if it is missing.
    pub value: Option<f64>,
}

/// Why a file is no table of labels.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct LabelError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: LabelProblem,
}

/// What is wrong with a table of labels. Lines count from 1; a row of Parquet counts as a line.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum LabelProblem {
    #[error(transparent)]
    Io(io::Error),
    #[error("a table of labels is a file that ends in .csv, .jsonl or .parquet")]
    Kind,
    #[error("this program was built without Parquet; write the table as CSV or JSONL")]
    WithoutParquet,
    #[error("{0}")]
    Damaged(String),
    #[error("line {line}: {problem}")]
    Line { line: u64, problem: String },
    #[error("there are no lines of labels")]
    Empty,
    #[error("two columns are named {0}; rename one")]
    ColumnTwice(String),
    #[error("there is no column {column}; the columns are {columns}")]
    NoColumn { column: String, columns: String },
    #[error("there is no system {system}; the systems are {systems}")]
    NoSystem { system: String, systems: String },
    #[error("no column holds labels; the columns are {0}")]
    NoLabels(String),
    #[error("line {line}: column {column} is empty, so the line has no place")]
    Blank { line: u64, column: String },
    #[error(
        "line {line}: {value:?} of system {system} is no label: 0, 1, a share between them, or \
         nothing where it is missing"
    )]
    NotALabel {
        line: u64,
        system: String,
        value: String,
    },
    #[error(
        "unit {unit} has system {system} on line {first} and again on line {second}; add the \
         columns that tell them apart to the unit, or say that they are repeated judgments"
    )]
    Twice {
        unit: String,
        system: String,
        first: u64,
        second: u64,
    },
    #[error("unit {unit} has {what} {first} and {second}")]
    Torn {
        unit: String,
        what: &'static str,
        first: String,
        second: String,
    },
}

impl LabelTable {
    /// Reads a CSV, JSONL or (feature `frames`) Parquet file, told apart by the file's ending.
    ///
    /// In a wide table every column that is no part of the unit, cluster or stratum is a system if
    /// most of its values are labels; then a value that is none is an error. Naming the systems
    /// leaves nothing to be told.
    ///
    /// # Errors
    /// When the file cannot be read, a column or system is not there, a value is no label, or a
    /// unit is repeated; each names where.
    pub fn read(path: &Path, columns: &Columns) -> Result<Self, LabelError> {
        Grid::read(path)
            .and_then(|grid| grid.labels(columns))
            .map_err(|problem| LabelError {
                path: path.to_owned(),
                problem,
            })
    }
}

/// The cells of a file, as text.
#[derive(Debug, Default)]
struct Grid {
    columns: Vec<String>,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    line: u64,
    /// One a column; rows of JSONL may end early.
    cells: Vec<Option<String>>,
}

impl Row {
    fn cell(&self, column: usize) -> Option<&str> {
        let text = self.cells.get(column)?.as_deref()?.trim();
        (!text.is_empty()).then_some(text)
    }
}

impl Grid {
    fn read(path: &Path) -> Result<Self, LabelProblem> {
        let ending = path.extension().and_then(|ending| ending.to_str());
        let bytes = || fs::read(path).map_err(LabelProblem::Io);
        let grid = match ending.map(str::to_ascii_lowercase).as_deref() {
            Some("csv") => csv(&bytes()?)?,
            Some("jsonl" | "ndjson") => jsonl(&bytes()?)?,
            Some("parquet") => parquet(path)?,
            _ => return Err(LabelProblem::Kind),
        };
        if grid.rows.is_empty() {
            return Err(LabelProblem::Empty);
        }
        let mut sorted: Vec<&String> = grid.columns.iter().filter(|c| !c.is_empty()).collect();
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(LabelProblem::ColumnTwice(pair[0].clone())),
            None => Ok(grid),
        }
    }

    fn labels(&self, columns: &Columns) -> Result<LabelTable, LabelProblem> {
        let keys = Keys {
            unit: self.positions(&columns.unit)?,
            cluster: self.positions(&columns.cluster)?,
            stratum: self.positions(&columns.strata)?,
        };
        let mut reading = Reading {
            keys: &keys,
            repeated: columns.repeated,
            by_key: HashMap::new(),
            seen: HashMap::new(),
            table: LabelTable {
                systems: columns.systems.clone(),
                units: Vec::new(),
                labels: Vec::new(),
                passed_over: Vec::new(),
            },
        };
        let system = self.columns.iter().position(|column| column == SYSTEM);
        match system.filter(|&column| !keys.contains(column)) {
            Some(system) => self.long(system, &columns.systems, &mut reading)?,
            None => self.wide(&columns.systems, &mut reading)?,
        }
        Ok(reading.table)
    }

    fn wide(&self, wanted: &[String], reading: &mut Reading<'_>) -> Result<(), LabelProblem> {
        let free = (0..self.columns.len()).filter(|&column| !reading.keys.contains(column));
        let (taken, passed_over): (Vec<usize>, Vec<usize>) =
            free.partition(|&column| self.holds_labels(column));
        let names = |columns: &[usize]| -> Vec<String> {
            columns.iter().map(|&c| self.columns[c].clone()).collect()
        };
        let taken = if wanted.is_empty() {
            reading.table.passed_over = names(&passed_over);
            taken
        } else {
            self.positions(wanted).map_err(|problem| match problem {
                LabelProblem::NoColumn { column, .. } => LabelProblem::NoSystem {
                    system: column,
                    systems: names(&taken).join(", "),
                },
                other => other,
            })?
        };
        if taken.is_empty() {
            return Err(LabelProblem::NoLabels(self.columns.join(", ")));
        }
        reading.table.systems = names(&taken);
        for row in &self.rows {
            let unit = reading.unit(self, row)?;
            for (system, &column) in taken.iter().enumerate() {
                reading.label(row, unit, system, row.cell(column))?;
            }
        }
        Ok(())
    }

    fn long(
        &self,
        system: usize,
        wanted: &[String],
        reading: &mut Reading<'_>,
    ) -> Result<(), LabelProblem> {
        let label = self.position(LABEL)?;
        let mut known: Vec<&str> = Vec::new();
        for row in &self.rows {
            let name = row.cell(system).ok_or_else(|| self.blank(row, system))?;
            if !known.contains(&name) {
                known.push(name);
            }
        }
        if let Some(unknown) = wanted.iter().find(|name| !known.contains(&name.as_str())) {
            return Err(LabelProblem::NoSystem {
                system: unknown.clone(),
                systems: known.join(", "),
            });
        }
        if wanted.is_empty() {
            reading.table.systems = known.into_iter().map(str::to_owned).collect();
        }
        let places: HashMap<String, usize> =
            reading.table.systems.iter().cloned().zip(0..).collect();
        for row in &self.rows {
            let name = row.cell(system).unwrap_or_default();
            if let Some(&system) = places.get(name) {
                let unit = reading.unit(self, row)?;
                reading.label(row, unit, system, row.cell(label))?;
            }
        }
        Ok(())
    }

    /// Whether most of a column's values are labels.
    fn holds_labels(&self, column: usize) -> bool {
        let filled = self.rows.iter().filter_map(|row| row.cell(column));
        let (labels, others): (Vec<&str>, Vec<&str>) =
            filled.partition(|text| parse(text).is_some());
        labels.len() > others.len() && !self.columns[column].is_empty()
    }

    fn positions(&self, names: &[String]) -> Result<Vec<usize>, LabelProblem> {
        names.iter().map(|name| self.position(name)).collect()
    }

    fn position(&self, name: &str) -> Result<usize, LabelProblem> {
        let found = self.columns.iter().position(|column| column == name);
        found.ok_or_else(|| LabelProblem::NoColumn {
            column: name.to_owned(),
            columns: self.columns.join(", "),
        })
    }

    fn blank(&self, row: &Row, column: usize) -> LabelProblem {
        LabelProblem::Blank {
            line: row.line,
            column: self.columns[column].clone(),
        }
    }

    /// The values of several columns in one text, different for different values.
    fn joined(&self, row: &Row, columns: &[usize]) -> Result<Option<String>, LabelProblem> {
        let part = |&column: &usize| row.cell(column).ok_or_else(|| self.blank(row, column));
        let parts: Vec<&str> = columns.iter().map(part).collect::<Result<_, _>>()?;
        Ok(match parts.as_slice() {
            [] => None,
            [only] => Some((*only).to_owned()),
            several => {
                let escaped = several
                    .iter()
                    .map(|text| text.replace('\\', r"\\").replace('/', r"\/"));
                Some(escaped.collect::<Vec<_>>().join("/"))
            }
        })
    }
}

/// Columns with a meaning of their own.
struct Keys {
    unit: Vec<usize>,
    cluster: Vec<usize>,
    stratum: Vec<usize>,
}

impl Keys {
    fn contains(&self, column: usize) -> bool {
        [&self.unit, &self.cluster, &self.stratum]
            .iter()
            .any(|columns| columns.contains(&column))
    }
}

/// A table in the making.
struct Reading<'a> {
    keys: &'a Keys,
    repeated: bool,
    by_key: HashMap<String, usize>,
    /// Line of each system's label of each unit.
    seen: HashMap<(usize, usize), u64>,
    table: LabelTable,
}

impl Reading<'_> {
    /// The unit of a row, which is new or as it was on its first line.
    fn unit(&mut self, grid: &Grid, row: &Row) -> Result<usize, LabelProblem> {
        let unit = Unit {
            key: grid.joined(row, &self.keys.unit)?.unwrap_or_default(),
            cluster: grid.joined(row, &self.keys.cluster)?,
            stratum: grid.joined(row, &self.keys.stratum)?,
            line: row.line,
        };
        match self.by_key.entry(unit.key.clone()) {
            Entry::Vacant(place) => {
                let position = self.table.units.len();
                place.insert(position);
                self.table.units.push(unit);
                Ok(position)
            }
            Entry::Occupied(place) => {
                let position = *place.get();
                self.table.units[position].agrees(&unit)?;
                Ok(position)
            }
        }
    }

    fn label(
        &mut self,
        row: &Row,
        unit: usize,
        system: usize,
        cell: Option<&str>,
    ) -> Result<(), LabelProblem> {
        let value = cell
            .map(|text| {
                parse(text).ok_or_else(|| LabelProblem::NotALabel {
                    line: row.line,
                    system: self.table.systems[system].clone(),
                    value: text.to_owned(),
                })
            })
            .transpose()?;
        let first = self.seen.insert((unit, system), row.line);
        if let Some(first) = first.filter(|_| !self.repeated) {
            return Err(LabelProblem::Twice {
                unit: self.table.units[unit].key.clone(),
                system: self.table.systems[system].clone(),
                first,
                second: row.line,
            });
        }
        self.table.labels.push(Label {
            system,
            unit,
            value,
        });
        Ok(())
    }
}

impl Unit {
    fn agrees(&self, later: &Self) -> Result<(), LabelProblem> {
        let on_line = |label: &Option<String>, line| {
            format!("{} on line {line}", label.as_deref().unwrap_or_default())
        };
        let torn = |what, first, second| LabelProblem::Torn {
            unit: self.key.clone(),
            what,
            first: on_line(first, self.line),
            second: on_line(second, later.line),
        };
        if self.cluster != later.cluster {
            return Err(torn("cluster", &self.cluster, &later.cluster));
        }
        if self.stratum != later.stratum {
            return Err(torn("stratum", &self.stratum, &later.stratum));
        }
        Ok(())
    }
}

fn parse(text: &str) -> Option<f64> {
    if text.eq_ignore_ascii_case("true") {
        return Some(1.0);
    }
    if text.eq_ignore_ascii_case("false") {
        return Some(0.0);
    }
    let value: f64 = text.parse().ok()?;
    (0.0..=1.0).contains(&value).then_some(value)
}

fn csv(bytes: &[u8]) -> Result<Grid, LabelProblem> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(bytes);
    let damaged = |error: csv::Error| LabelProblem::Line {
        line: error.position().map_or(1, csv::Position::line),
        problem: match error.kind() {
            csv::ErrorKind::Utf8 { .. } => "not UTF-8".to_owned(),
            _ => error.to_string(),
        },
    };
    let heads = reader.headers().map_err(damaged)?;
    let columns: Vec<String> = heads.iter().map(|head| head.trim().to_owned()).collect();
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(damaged)?;
        let line = record.position().map_or(0, csv::Position::line);
        if record.len() != columns.len() {
            let (found, heads) = (record.len(), columns.len());
            return Err(LabelProblem::Line {
                line,
                problem: format!("{found} fields where the first line has {heads}"),
            });
        }
        rows.push(Row {
            line,
            cells: record.iter().map(|cell| Some(cell.to_owned())).collect(),
        });
    }
    Ok(Grid { columns, rows })
}

fn jsonl(bytes: &[u8]) -> Result<Grid, LabelProblem> {
    let mut grid = Grid::default();
    let mut places: HashMap<String, usize> = HashMap::new();
    for (line, bytes) in (1..).zip(bytes.split(|&byte| byte == b'\n')) {
        if bytes.trim_ascii().is_empty() {
            continue;
        }
        let problem = |problem: String| LabelProblem::Line { line, problem };
        let Fields(fields) = serde_json::from_slice(bytes).map_err(|e| problem(e.to_string()))?;
        let mut cells = vec![None; grid.columns.len()];
        let mut filled = vec![false; grid.columns.len()];
        for (name, value) in fields {
            let place = *places.entry(name).or_insert_with_key(|name| {
                grid.columns.push(name.clone());
                cells.push(None);
                filled.push(false);
                grid.columns.len() - 1
            });
            if std::mem::replace(&mut filled[place], true) {
                return Err(problem(format!("{} stands twice", grid.columns[place])));
            }
            cells[place] = match value {
                Value::Null => None,
                Value::String(text) => Some(text),
                other => Some(other.to_string()),
            };
        }
        grid.rows.push(Row { line, cells });
    }
    Ok(grid)
}

/// The members of a JSON object in the order written, repeated ones too.
struct Fields(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Fields;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object, one a line")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Fields(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

#[cfg(not(feature = "frames"))]
fn parquet(_: &Path) -> Result<Grid, LabelProblem> {
    Err(LabelProblem::WithoutParquet)
}

/// Columns of lists and structures are no keys and no labels, and are left out.
#[cfg(feature = "frames")]
fn parquet(path: &Path) -> Result<Grid, LabelProblem> {
    use polars::prelude::{DataType, ParquetReader, SerReader};

    let file = fs::File::open(path).map_err(LabelProblem::Io)?;
    let damaged = |error: polars::error::PolarsError| LabelProblem::Damaged(error.to_string());
    let frame = ParquetReader::new(file).finish().map_err(damaged)?;
    let mut grid = Grid {
        columns: Vec::new(),
        rows: (1..=frame.height() as u64)
            .map(|line| Row {
                line,
                cells: Vec::new(),
            })
            .collect(),
    };
    for column in frame.columns() {
        if column.dtype().is_nested() {
            continue;
        }
        let texts = column.cast(&DataType::String).map_err(damaged)?;
        let texts = texts.str().map_err(damaged)?;
        grid.columns.push(column.name().to_string());
        for (row, text) in grid.rows.iter_mut().zip(texts.iter()) {
            row.cells.push(text.map(str::to_owned));
        }
    }
    Ok(grid)
}
