//! Cells that a diagnostic gives: a column of a table of its report, read at the row that a
//! definition says.

use std::collections::BTreeMap;
use std::fmt;

use rawrag_diagnostics::{
    Diagnostic, DiagnosticError, Input, Outputs, Report, Settings, Table, Unit, Value, diagnostic,
};
use rawrag_statistics::Replication;
use serde::Deserialize;

use crate::table::Measured;

/// A column of a table of a diagnostic's report: `oracle/conditions/overall`.
#[derive(Clone, Debug)]
pub struct Reading {
    diagnostic: &'static Diagnostic,
    table: String,
    column: String,
    /// The columns of its lower and upper end.
    pub interval: Option<[String; 2]>,
    /// What the row that is read holds.
    pub holds: Holds,
    /// What the number is divided by to be shown, besides its unit.
    pub per: f64,
}

/// What other columns of a row hold, by their names.
pub type Holds = BTreeMap<String, Held>;

/// What a column of a row holds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Held {
    /// A number, unrounded and in the diagnostic's own unit.
    Number(f64),
    /// Words; a dash, as tables show it, is nothing.
    Text(String),
}

/// How the diagnostics of a table work.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Diagnose {
    /// Whether the runs of all rows are one analysis, in the order of the rows, as families of
    /// tests and references need; otherwise a row is one.
    pub together: bool,
    /// The row whose run comes first of those together, where that is not the first row.
    pub reference: Option<String>,
    /// Kinds of question that are looked at; all if empty.
    pub kinds: Vec<String>,
    /// As `--judge` of `cargo xtask diagnose`.
    pub judge: Option<String>,
    /// As `--assessor`.
    pub assessor: Option<String>,
    /// As `--depth`.
    pub depth: Option<usize>,
    /// As `--replicates`.
    pub replicates: Option<usize>,
    /// As `--seed`.
    pub seed: Option<u64>,
}

/// What is wrong with a reading, for the table it stands in.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ReadingError {
    #[error("{reading}: the report of {diagnostic} has no table `{table}`; it has {list}")]
    NoTable {
        reading: String,
        diagnostic: &'static str,
        table: String,
        list: String,
    },
    #[error("{reading}: that table has no column `{column}`; it has {list}")]
    NoColumn {
        reading: String,
        column: String,
        list: String,
    },
    #[error("{reading}: that column holds words, and a cell is a number")]
    Words { reading: String },
    #[error("{reading}: {rows} rows hold {holds}; say more of the one meant under `where`")]
    SeveralRows {
        reading: String,
        rows: usize,
        holds: String,
    },
    #[error("{0}")]
    Contradiction(String),
}

/// The reports of a table's diagnostics, each made once.
pub(crate) struct Reports<'a> {
    settings: &'a Diagnose,
    made: BTreeMap<Analysis, Result<Report, String>>,
}

/// A diagnostic, the runs it is of, and the kinds of question.
type Analysis = (&'static str, Vec<String>, Vec<String>);

/// A run by the name of its folder, which no two of them share.
#[derive(Clone, Copy)]
pub(crate) struct Measuring<'a> {
    pub(crate) name: &'a str,
    pub(crate) outputs: &'a Outputs,
}

impl Reading {
    /// `diagnostic/table/column`. Tables and columns are known once a report is made.
    ///
    /// # Errors
    /// What is wrong with the name.
    pub fn parse(name: &str) -> Result<Self, String> {
        let mut parts = name.splitn(3, '/');
        let (Some(of), Some(table), Some(column)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(format!(
                "`{name}` is not `diagnostic/table/column`, such as `oracle/conditions/overall`"
            ));
        };
        Ok(Self {
            diagnostic: diagnostic(of).map_err(|error| error.to_string())?,
            table: table.to_owned(),
            column: column.to_owned(),
            interval: None,
            holds: Holds::new(),
            per: 1.0,
        })
    }

    fn wrong_column(&self, column: &str, table: &Table) -> ReadingError {
        let names: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
        ReadingError::NoColumn {
            reading: self.to_string(),
            column: column.to_owned(),
            list: names.join(", "),
        }
    }

    fn column(&self, name: &str, table: &Table) -> Result<usize, ReadingError> {
        let mut columns = table.columns.iter();
        let at = columns.position(|column| column.name == name);
        at.ok_or_else(|| self.wrong_column(name, table))
    }

    /// The table of a report, and its rows that hold what is wanted.
    fn rows<'r>(
        &self,
        report: &'r Report,
        holds: &Holds,
    ) -> Result<(&'r Table, Vec<&'r Vec<Value>>), ReadingError> {
        let table = report.tables.iter().find(|table| table.name == self.table);
        let table = table.ok_or_else(|| ReadingError::NoTable {
            reading: self.to_string(),
            diagnostic: self.diagnostic.name,
            table: self.table.clone(),
            list: names(report),
        })?;
        let mut wanted = Vec::new();
        for (name, held) in holds {
            wanted.push((self.column(name, table)?, held));
        }
        let is = |row: &&Vec<Value>| wanted.iter().all(|(at, held)| held.is(row.get(*at)));
        Ok((table, table.rows.iter().filter(is).collect()))
    }

    /// What a number of a column is multiplied with to be shown.
    fn scale(&self, table: &Table, at: usize) -> f64 {
        match table.columns.get(at).map(|column| column.unit) {
            Some(Unit::Rate | Unit::Points) => 100.0,
            _ => 1.0,
        }
    }

    /// The cell of a report, where one row holds what is wanted.
    fn read(&self, report: &Report, holds: &Holds) -> Result<Measured, ReadingError> {
        let (table, rows) = self.rows(report, holds)?;
        let at = self.column(&self.column, table)?;
        let row = match rows.as_slice() {
            [] => {
                return Ok(Measured::Needs(format!(
                    "a row of {}/{} with {}",
                    self.diagnostic.name,
                    table.name,
                    described(holds)
                )));
            }
            [row] => row,
            several => {
                return Err(ReadingError::SeveralRows {
                    reading: self.to_string(),
                    rows: several.len(),
                    holds: described(holds),
                });
            }
        };
        let unit = table.columns.get(at).map_or(Unit::Number, |c| c.unit);
        let scale = self.scale(table, at);
        let shown = |value: f64| value * scale / self.per;
        let value = match row.get(at) {
            Some(Value::P(p)) => return Ok(Measured::P(*p)),
            Some(Value::Absent(reason)) => return Ok(Measured::Undefined(reason.clone())),
            Some(value) => value.as_f64(),
            None => None,
        };
        let value = value.ok_or_else(|| ReadingError::Words {
            reading: self.to_string(),
        })?;
        let mut interval = None;
        if let Some([low, high]) = &self.interval {
            let end = |name| -> Result<Option<f64>, ReadingError> {
                Ok(row.get(self.column(name, table)?).and_then(Value::as_f64))
            };
            interval = end(low)?.zip(end(high)?);
        }
        Ok(Measured::Found {
            value: shown(value),
            interval: interval.map(|(low, high)| [shown(low), shown(high)]),
            signed: unit == Unit::Points,
        })
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.diagnostic.name, self.table, self.column)
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl Held {
    fn is(&self, value: Option<&Value>) -> bool {
        match (self, value) {
            (Self::Text(text), Some(Value::Text(held))) => text == held,
            (Self::Text(text), Some(Value::Absent(_))) => text == "–",
            (Self::Number(number), Some(value)) => value.written() == number.to_string(),
            _ => false,
        }
    }
}

impl<'a> Reports<'a> {
    pub(crate) fn new(settings: &'a Diagnose) -> Self {
        Self {
            settings,
            made: BTreeMap::new(),
        }
    }

    /// A cell of an analysis of these runs, of questions of these kinds (of all, if none is given).
    /// `run` is the one that the row is about, where there is one.
    pub(crate) fn read(
        &mut self,
        reading: &Reading,
        runs: &[Measuring<'_>],
        run: Option<&str>,
        holds: &Holds,
        kinds: &[String],
    ) -> Result<Measured, ReadingError> {
        let kinds = match kinds {
            [] => &self.settings.kinds,
            kinds => kinds,
        };
        match self.report(reading, runs, kinds)? {
            Err(needs) => Ok(Measured::Needs(needs.clone())),
            Ok(report) => {
                // What a row says is for those of its columns whose table knows of it.
                let table = report
                    .tables
                    .iter()
                    .find(|table| table.name == reading.table);
                let has = |name: &str| {
                    table.is_some_and(|table| table.columns.iter().any(|c| c.name == name))
                };
                let of_row = holds.clone().into_iter().filter(|(name, _)| has(name));
                let mut holds: Holds = of_row.collect();
                if let Some(run) = run.filter(|_| has(RUN)) {
                    holds.insert(RUN.to_owned(), Held::Text(run.to_owned()));
                }
                holds.extend(reading.holds.clone());
                reading.read(report, &holds)
            }
        }
    }

    /// A column of the rows of one run's report that hold what the reading says, by another
    /// column; rows without one of the two are left out. Or what it needs.
    pub(crate) fn curve(
        &mut self,
        reading: &Reading,
        by: &str,
        run: &Outputs,
    ) -> Result<Result<Vec<[f64; 2]>, String>, ReadingError> {
        let run = Measuring {
            name: &run.manifest.name,
            outputs: run,
        };
        let report = match self.report(reading, &[run], &[])? {
            Ok(report) => report,
            Err(needs) => return Ok(Err(needs.clone())),
        };
        let (table, rows) = reading.rows(report, &reading.holds)?;
        let across = reading.column(by, table)?;
        let up = reading.column(&reading.column, table)?;
        let scales = [across, up].map(|at| reading.scale(table, at));
        let point = |row: &&Vec<Value>| {
            let [x, y] = [across, up].map(|at| row.get(at).and_then(Value::as_f64));
            Some([x? * scales[0], y? * scales[1] / reading.per])
        };
        let points: Vec<[f64; 2]> = rows.iter().filter_map(point).collect();
        if points.is_empty() {
            let holds = described(&reading.holds);
            let table = table.name;
            let diagnostic = reading.diagnostic.name;
            return Ok(Err(format!("rows of {diagnostic}/{table} with {holds}")));
        }
        Ok(Ok(points))
    }

    fn report(
        &mut self,
        reading: &Reading,
        runs: &[Measuring<'_>],
        kinds: &[String],
    ) -> Result<&Result<Report, String>, ReadingError> {
        let names = runs.iter().map(|run| run.name.to_owned());
        let analysis = (reading.diagnostic.name, names.collect(), kinds.to_vec());
        if !self.made.contains_key(&analysis) {
            let runs: Vec<&Outputs> = runs.iter().map(|run| run.outputs).collect();
            let report = match self.make(reading.diagnostic, &runs, kinds) {
                Err(error @ DiagnosticError::Contradiction { .. }) => {
                    return Err(ReadingError::Contradiction(error.to_string()));
                }
                report => report.map_err(|error| error.to_string()),
            };
            self.made.insert(analysis.clone(), report);
        }
        let made = self.made.get(&analysis);
        made.ok_or_else(|| ReadingError::Contradiction("no report".to_owned()))
    }

    fn make(
        &self,
        diagnostic: &Diagnostic,
        runs: &[&Outputs],
        kinds: &[String],
    ) -> Result<Report, DiagnosticError> {
        let Diagnose {
            together: _,
            reference: _,
            kinds: _,
            judge,
            assessor,
            depth,
            replicates,
            seed,
        } = self.settings;
        let usual = Settings::default();
        let settings = Settings {
            judge: judge.clone(),
            assessor: assessor.clone(),
            depth: *depth,
            replication: Replication {
                replicates: replicates.unwrap_or(usual.replication.replicates),
                seed: seed.unwrap_or(usual.replication.seed),
            },
            ..usual
        };
        if kinds.is_empty() {
            return diagnostic.report(&Input::new(runs, settings));
        }
        let narrowed: Vec<Outputs> = runs.iter().map(|run| run.of_kinds(kinds)).collect();
        diagnostic.report(&Input::new(&narrowed.iter().collect::<Vec<_>>(), settings))
    }
}

/// The column that tells runs apart.
const RUN: &str = "run";

fn names(report: &Report) -> String {
    let names: Vec<&str> = report.tables.iter().map(|table| table.name).collect();
    names.join(", ")
}

fn described(holds: &Holds) -> String {
    let held = holds.iter().map(|(name, held)| format!("{name} = {held}"));
    match holds.len() {
        0 => "anything".to_owned(),
        _ => held.collect::<Vec<_>>().join(", "),
    }
}
