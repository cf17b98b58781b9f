//! `cargo xtask diagnose`: analyses over the records of runs.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use rawrag_diagnostics::{
    DIAGNOSTICS, DiagnosticError, Input, Outputs, Report, Settings, Table, Unit, UnknownDiagnostic,
    diagnostic,
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
    /// What unparsed and failed grades and assessments count for.
    #[arg(long, value_enum, default_value = "wrong")]
    ungraded: Ungraded,
    /// Resamples of every interval and test.
    #[arg(long, default_value_t = 20_000, value_name = "N")]
    replicates: usize,
    /// Seed of the resamples.
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
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
                | Self::Diagnostic(
                    DiagnosticError::Runs { .. }
                        | DiagnosticError::Ambiguous { .. }
                        | DiagnosticError::NoSuch { .. }
                )
        )
    }
}

impl Arguments {
    pub(crate) fn diagnose(&self, runs: &Path, out: &mut impl Write) -> Result<(), Failure> {
        let Some(name) = &self.name else {
            return Ok(out.write_all(list().render(self.format.into()).as_bytes())?);
        };
        let report = self.report(name, runs)?;
        if let Some(folder) = &self.out {
            return write(&report, folder);
        }
        let text = match self.format.into() {
            Format::Json => {
                let text = serde_json::to_string_pretty(&report).map_err(std::io::Error::from)?;
                format!("{text}\n")
            }
            format => sheets(&report, format)
                .iter()
                .map(|sheet| sheet.render(format))
                .collect::<Vec<_>>()
                .join("\n"),
        };
        Ok(out.write_all(text.as_bytes())?)
    }

    fn report(&self, name: &str, runs: &Path) -> Result<Report, DiagnoseError> {
        let diagnostic = diagnostic(name)?;
        if self.on.is_empty() {
            return Err(DiagnoseError::NoRuns);
        }
        let read = |name: &PathBuf| {
            let below = runs.join(name);
            let folder = [name, &below].into_iter().find(|folder| folder.is_dir());
            let folder = folder.ok_or_else(|| DiagnoseError::NoSuchRun {
                name: name.clone(),
                runs: runs.to_owned(),
            })?;
            Ok(Outputs::read(folder).map_err(DiagnosticError::from)?)
        };
        let outputs = self.on.iter().map(read);
        let outputs: Vec<Outputs> = outputs.collect::<Result<_, DiagnoseError>>()?;
        let settings = Settings {
            judge: self.judge.clone(),
            assessor: self.assessor.clone(),
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
