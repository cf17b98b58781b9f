//! `cargo xtask diagnose`: analyses over the records of runs.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use rawrag_diagnostics::prices::{PriceError, Prices};
use rawrag_diagnostics::{
    DIAGNOSTICS, DiagnosticError, Errata, ErrataError, Input, Outputs, QuestionRecords, Report,
    Settings, Table, Unit, UnknownDiagnostic, diagnostic,
};
use rawrag_paper::{Column, Format, Line, Sheet};
use rawrag_scoring::judge::Policy;
use rawrag_statistics::Replication;

use crate::commands::{Failure, FormatName};

#[derive(Args)]
pub(crate) struct Arguments {
    /// The diagnostic; without one, lists those there are.
    name: Option<String>,
    /// Runs: names below the folder of runs, or folders.
    #[arg(value_name = "RUN", requires = "name")]
    on: Vec<PathBuf>,
    /// The judge whose grades count, where runs have several.
    #[arg(long, value_name = "NAME")]
    judge: Option<String>,
    /// The assessor whose assessments count, where runs have several.
    #[arg(long, value_name = "NAME")]
    assessor: Option<String>,
    /// Items that are looked at, where runs returned more.
    #[arg(long, value_name = "K")]
    depth: Option<usize>,
    /// A kind of question or a conversation to leave out; may be repeated.
    #[arg(long, value_name = "NAME")]
    exclude: Vec<String>,
    /// A list of questions whose gold answer is known to be wrong, such as
    /// crates/rawrag-corpus/errata/locomo.tsv.
    #[arg(long, value_name = "FILE")]
    errata: Option<PathBuf>,
    /// A list of prices, such as experiments/prices.toml.
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// What unparsed and failed grades and assessments count for.
    #[arg(long, value_enum, default_value = "wrong")]
    ungraded: Ungraded,
    /// Resamples of every interval and test.
    #[arg(long, default_value_t = 20_000, value_name = "N")]
    replicates: usize,
    /// Seed of the resamples.
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// Print this table of the report alone.
    #[arg(long, value_name = "NAME", conflicts_with = "out")]
    table: Option<String>,
    /// How it is written.
    #[arg(long, value_enum, default_value = "md")]
    format: FormatName,
    /// Write every table to this folder as Markdown, CSV and Parquet instead.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Ungraded {
    /// They are wrong, as in the papers.
    Wrong,
    /// They are left out.
    Exclude,
}

/// Why nothing was diagnosed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DiagnoseError {
    #[error(transparent)]
    Unknown(#[from] UnknownDiagnostic),
    #[error("name the runs to analyse")]
    NoRuns,
    #[error("{} is no run: neither a folder, nor one below {}", name.display(), runs.display())]
    NoSuchRun { name: PathBuf, runs: PathBuf },
    #[error("the report has no table {name}; it has {tables}")]
    NoTable { name: String, tables: String },
    #[error("no run has a question of a kind or conversation called {0} to exclude")]
    NothingExcluded(String),
    #[error(transparent)]
    Errata(#[from] ErrataError),
    #[error(transparent)]
    Prices(#[from] PriceError),
    #[error(transparent)]
    Diagnostic(#[from] DiagnosticError),
}

impl DiagnoseError {
    /// Whether other arguments would do.
    pub(crate) fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Unknown(_)
                | Self::NoRuns
                | Self::NothingExcluded(_)
                | Self::NoTable { .. }
                | Self::Diagnostic(
                    DiagnosticError::Runs { .. }
                        | DiagnosticError::Ambiguous { .. }
                        | DiagnosticError::NoSuch { .. }
                        | DiagnosticError::Depth { .. }
                )
        )
    }
}

impl Arguments {
    pub(crate) fn diagnose(&self, runs: &Path, out: &mut impl Write) -> Result<(), Failure> {
        let Some(name) = &self.name else {
            return Ok(out.write_all(list().render(self.format.into()).as_bytes())?);
        };
        let mut report = self.report(name, runs)?;
        if let Some(wanted) = &self.table {
            let names: Vec<&str> = report.tables.iter().map(|table| table.name).collect();
            if !names.contains(&wanted.as_str()) {
                return Err(DiagnoseError::NoTable {
                    name: wanted.clone(),
                    tables: names.join(", "),
                }
                .into());
            }
            report.tables.retain(|table| table.name == wanted);
        }
        if let Some(folder) = &self.out {
            return write(&report, folder);
        }
        let text = rendered(&report, self.format.into())?;
        Ok(out.write_all(text.as_bytes())?)
    }

    fn report(&self, name: &str, runs: &Path) -> Result<Report, DiagnoseError> {
        let diagnostic = diagnostic(name)?;
        if self.on.is_empty() {
            return Err(DiagnoseError::NoRuns);
        }
        let outputs = self.on.iter().map(|name| read(name, runs));
        let mut outputs: Vec<Outputs> = outputs.collect::<Result<_, DiagnoseError>>()?;
        self.leave_out(&mut outputs)?;
        let settings = Settings {
            judge: self.judge.clone(),
            assessor: self.assessor.clone(),
            depth: self.depth,
            errata: self
                .errata
                .as_deref()
                .map_or_else(|| Ok(Errata::default()), Errata::read)?,
            prices: self.prices.as_deref().map(Prices::read).transpose()?,
            ungraded: match self.ungraded {
                Ungraded::Wrong => Policy::CountWrong,
                Ungraded::Exclude => Policy::Exclude,
            },
            replication: Replication {
                replicates: self.replicates,
                seed: self.seed,
            },
            ..Settings::default()
        };
        let input = Input::new(&outputs.iter().collect::<Vec<_>>(), settings);
        Ok(diagnostic.report(&input)?)
    }
}

impl Arguments {
    /// Leaves out questions by kind or conversation.
    fn leave_out(&self, runs: &mut [Outputs]) -> Result<(), DiagnoseError> {
        let is = |question: &QuestionRecords, name: &str| {
            question.kind == name || question.key.conversation == name
        };
        for name in &self.exclude {
            let mut questions = runs.iter().flat_map(|run| &run.questions);
            if !questions.any(|question| is(question, name)) {
                return Err(DiagnoseError::NothingExcluded(name.clone()));
            }
        }
        let excluded =
            |question: &QuestionRecords| self.exclude.iter().any(|name| is(question, name));
        for run in runs {
            run.questions.retain(|question| !excluded(question));
        }
        Ok(())
    }
}

/// A run by its folder, or by its name below the folder of runs.
pub(crate) fn read(name: &Path, runs: &Path) -> Result<Outputs, DiagnoseError> {
    let below = runs.join(name);
    let folder = [name, &below].into_iter().find(|folder| folder.is_dir());
    let folder = folder.ok_or_else(|| DiagnoseError::NoSuchRun {
        name: name.to_owned(),
        runs: runs.to_owned(),
    })?;
    Ok(Outputs::read(folder).map_err(DiagnosticError::from)?)
}

/// A report as text.
pub(crate) fn rendered(report: &Report, format: Format) -> Result<String, std::io::Error> {
    if let Format::Json = format {
        return Ok(format!("{}\n", serde_json::to_string_pretty(report)?));
    }
    let sheets = sheets(report, format);
    let rendered: Vec<String> = sheets.iter().map(|sheet| sheet.render(format)).collect();
    Ok(rendered.join("\n"))
}

fn list() -> Sheet {
    Sheet {
        columns: ["Diagnostic", "Answers", "Defined in"]
            .map(Column::words)
            .into(),
        lines: DIAGNOSTICS
            .iter()
            .map(|d| Line::Cells([d.name, d.about, d.source].map(Into::into).into()))
            .collect(),
        ..Sheet::default()
    }
}

/// One sheet a table; what the columns mean stands below each, and the report's notes below the
/// last.
fn sheets(report: &Report, format: Format) -> Vec<Sheet> {
    let mut sheets: Vec<Sheet> = report.tables.iter().map(|t| sheet(t, format)).collect();
    if let Some(last) = sheets.last_mut() {
        last.notes.extend(report.notes.iter().cloned());
    }
    sheets
}

fn sheet(table: &Table, format: Format) -> Sheet {
    let columns = table.columns.iter().map(|column| match column.unit {
        Unit::Text => Column::words(column.name),
        _ => Column::numbers(column.name),
    });
    let shown =
        |(value, column): (&rawrag_diagnostics::Value, &rawrag_diagnostics::Column)| match format {
            Format::Csv => value.written(),
            _ => value.shown(column.unit),
        };
    let line = |row: &Vec<rawrag_diagnostics::Value>| {
        let cells = row.iter().zip(&table.columns).map(shown);
        Line::Cells(cells.map(Into::into).collect())
    };
    let meaning =
        |column: &rawrag_diagnostics::Column| format!("{}: {}", column.name, column.about);
    let mut absent: Vec<String> = Vec::new();
    for value in table.rows.iter().flatten() {
        if let rawrag_diagnostics::Value::Absent(reason) = value
            && !absent.contains(reason)
        {
            absent.push(reason.clone());
        }
    }
    let mut notes: Vec<String> = table.columns.iter().map(meaning).collect();
    if !absent.is_empty() {
        notes.push(format!("–: {}", absent.join("; ")));
    }
    Sheet {
        title: table.name.to_owned(),
        caption: format!("A row is {}.", table.about),
        columns: columns.collect(),
        lines: table.rows.iter().map(line).collect(),
        notes,
    }
}

fn write(report: &Report, folder: &Path) -> Result<(), Failure> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| Failure::Write { path, source }
    };
    fs::create_dir_all(folder).map_err(failed(folder))?;
    let markdown = sheets(report, Format::Markdown);
    for (table, sheet_of) in report.tables.iter().zip(markdown) {
        let path = folder.join(format!("{}.md", table.name));
        fs::write(&path, sheet_of.render(Format::Markdown)).map_err(failed(&path))?;
        let path = folder.join(format!("{}.csv", table.name));
        let csv = sheet(table, Format::Csv).render(Format::Csv);
        fs::write(&path, csv).map_err(failed(&path))?;
        #[cfg(feature = "frames")]
        {
            let path = folder.join(format!("{}.parquet", table.name));
            rawrag_diagnostics::frames::write(&path, table).map_err(failed(&path))?;
        }
    }
    Ok(())
}
