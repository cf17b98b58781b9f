use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::{audit, density, diagnose, export, plan, reproduce, skeleton, validity};
use clap::{Args, Parser, Subcommand, ValueEnum};
use rawrag_import::command::CommandError;
use rawrag_paper::claims::{self, Judged, Statements};
use rawrag_paper::definition::{self, Place, What};
use rawrag_paper::figure::{Figure, Numbers};
use rawrag_paper::metric::{METRICS, Metric};
use rawrag_paper::statistics::{self, StatisticsError};
use rawrag_paper::{Column, DefinitionError, Format, Line, Only, PaperError, Runs, Sheet, Table};

/// Tables of the papers from cached outputs.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
pub(crate) struct Arguments {
    #[command(flatten)]
    folders: Folders,
    #[command(subcommand)]
    command: Task,
}

#[derive(Args)]
struct Folders {
    /// Folder of runs, a subfolder each.
    #[arg(long, global = true, value_name = "DIR")]
    runs: Option<PathBuf>,
    /// Folder of definitions, a subfolder a paper.
    #[arg(long, global = true, value_name = "DIR")]
    definitions: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Task {
    #[command(flatten)]
    Paper(Command),
    /// Turns published result files of another system into a run of this project.
    Import(rawrag_import::command::Arguments),
    /// Paired statistics of a table of labels, or of numbers typed in.
    Stats(Box<statistics::command::Arguments>),
    /// Analyses the records of runs: why a system answers right or wrong.
    Diagnose(Box<diagnose::Arguments>),
    /// Judge and human on the same answers, and two systems under the human's grades.
    Audit(audit::Arguments),
    /// How much of the sessions that hold the answer is the answer, from a benchmark's file.
    Density(density::Arguments),
    /// A run's records as CSV and Parquet, a file a kind.
    Export(export::Arguments),
    /// The columns of every kind of record: what docs/records.md holds.
    Records,
    /// A skeleton of something new.
    New(skeleton::Arguments),
    /// Registered plans: freeze one before there are data, and carry it out.
    Plan(plan::Arguments),
    /// Simulates coverage and size of every method, and writes what docs/validity.md stands on.
    Validity(validity::Arguments),
}

#[derive(Subcommand)]
enum Command {
    /// What exists: cells published, measured and missing, and what would fill them.
    List {
        /// The metrics that a column may name.
        #[arg(long)]
        metrics: bool,
    },
    /// Pack a complete run as Parquet beside the committed ones.
    #[cfg(feature = "frames")]
    Pack {
        /// The run's folder, as `rawrag run` left it.
        run: PathBuf,
        /// Leave out what was said, stored and answered: for data that may not be passed on.
        #[arg(long)]
        without_text: bool,
    },
    /// One table, measured beside published.
    Table {
        /// `nano-memory:9`, or `4` for a table of Raw-RAG.
        table: String,
        #[command(flatten)]
        shown: Shown,
    },
    /// One figure, as SVG (`cargo xtask-png figure N --png FILE` writes a PNG).
    Figure {
        /// `nano-memory:5`, or `2` for a figure of Raw-RAG.
        figure: String,
        /// Write a PNG to this file instead.
        #[cfg(feature = "png")]
        #[arg(long, value_name = "FILE")]
        png: Option<PathBuf>,
    },
    /// Writes every table and figure and one page with all of them.
    Reproduce {
        /// Where to.
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
        /// Write nothing; fail when a kept file (md, csv, svg) is not what would be written.
        #[arg(long)]
        check: bool,
        /// Write a PNG beside each SVG.
        #[cfg(feature = "png")]
        #[arg(long, conflicts_with = "check")]
        png: bool,
    },
    /// Recomputes every claim; fails when a verdict is not the expected one.
    Verify {
        /// Claims of one paper, or one claim as `nano-memory:gain-f1`.
        only: Option<String>,
        /// How it is written.
        #[arg(long, value_enum, default_value = "md")]
        format: FormatName,
        /// Write what differs, with its computation, to this file.
        #[arg(long, value_name = "FILE", conflicts_with = "only")]
        findings: Option<PathBuf>,
    },
}

#[derive(Args)]
struct Shown {
    /// How it is written.
    #[arg(long, value_enum, default_value = "md")]
    format: FormatName,
    /// Show one of the three numbers of a cell.
    #[arg(long, value_enum)]
    only: Option<OnlyName>,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum FormatName {
    Md,
    Csv,
    Json,
    Tex,
    Html,
}

#[derive(Clone, Copy, ValueEnum)]
enum OnlyName {
    Measured,
    Published,
    Difference,
}

/// Why a command did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Paper(#[from] PaperError),
    #[error(transparent)]
    Records(#[from] rawrag_records::RecordError),
    #[error("there is no claim `{0}`; `verify` alone shows those there are")]
    NoSuchClaim(String),
    #[error(transparent)]
    Import(CommandError),
    #[error(transparent)]
    Statistics(#[from] StatisticsError),
    #[error(transparent)]
    Diagnose(#[from] diagnose::DiagnoseError),
    #[error(transparent)]
    Plan(#[from] plan::PlanFailure),
    #[error(transparent)]
    Skeleton(#[from] skeleton::SkeletonError),
    #[error(transparent)]
    Corpus(#[from] rawrag_corpus::LoadError),
    #[error(transparent)]
    Audit(#[from] rawrag_diagnostics::audit::AuditError),
    #[error(transparent)]
    Validity(#[from] validity::ValidityError),
    #[cfg(feature = "png")]
    #[error(transparent)]
    Png(#[from] rawrag_paper::PngError),
    #[error("cannot write: {0}")]
    Output(#[from] io::Error),
    #[error("{}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

impl From<CommandError> for Failure {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Output(error) => Self::Output(error),
            error => Self::Import(error),
        }
    }
}

impl From<DefinitionError> for Failure {
    fn from(error: DefinitionError) -> Self {
        Self::Paper(error.into())
    }
}

impl Failure {
    /// 2 wrong usage, 3 bad input, 1 otherwise; no command here calls a service.
    pub(crate) fn status(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Paper(PaperError::Definition(DefinitionError::NoSuch { .. }))
            | Self::NoSuchClaim(_) => 2,
            Self::Paper(_) => 3,
            Self::Records(_) => 3,
            Self::Import(error) if error.is_usage() => 2,
            Self::Import(_) => 3,
            Self::Statistics(error) if error.is_usage() => 2,
            Self::Statistics(_) => 3,
            Self::Diagnose(error) if error.is_usage() => 2,
            Self::Diagnose(_) => 3,
            Self::Plan(error) if error.is_usage() => 2,
            Self::Plan(_) => 3,
            Self::Skeleton(error) if error.is_usage() => 2,
            Self::Skeleton(_) | Self::Audit(_) | Self::Corpus(_) => 3,
            #[cfg(feature = "png")]
            Self::Png(_) => 1,
            Self::Validity(_) | Self::Output(_) | Self::Write { .. } => 1,
        })
    }

    /// Whether the reader of our output has had enough of it.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

pub(crate) fn run(arguments: &Arguments, out: &mut impl Write) -> Result<ExitCode, Failure> {
    let command = match &arguments.command {
        Task::Paper(command) => command,
        Task::Import(arguments) => {
            arguments.import(out)?;
            return Ok(ExitCode::SUCCESS);
        }
        Task::Stats(arguments) => {
            out.write_all(arguments.answer()?.as_bytes())?;
            return Ok(ExitCode::SUCCESS);
        }
        Task::Diagnose(diagnose) => {
            diagnose.diagnose(&arguments.folders.runs(), out)?;
            return Ok(ExitCode::SUCCESS);
        }
        Task::Audit(arguments) => {
            arguments.report(out)?;
            return Ok(ExitCode::SUCCESS);
        }
        Task::Density(arguments) => {
            arguments.report(out)?;
            return Ok(ExitCode::SUCCESS);
        }
        Task::Export(export) => {
            export.export(&arguments.folders.runs(), out)?;
            return Ok(ExitCode::SUCCESS);
        }
        Task::Records => {
            export::columns(out)?;
            return Ok(ExitCode::SUCCESS);
        }
        Task::New(arguments) => {
            arguments.write(&workspace(), out)?;
            return Ok(ExitCode::SUCCESS);
        }
        Task::Plan(plan) => {
            plan.run(&arguments.folders.runs(), out)?;
            return Ok(ExitCode::SUCCESS);
        }
        Task::Validity(arguments) => {
            arguments.write(&workspace().join("docs/validity"), out)?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    let folder = arguments.folders.definitions();
    let places = definition::find(&folder, What::Table)?;
    let mut runs = Runs::new(&arguments.folders.runs());
    match command {
        #[cfg(feature = "frames")]
        Command::Pack { run, without_text } => {
            let questions = crate::pack::pack(run, &arguments.folders.runs(), !without_text)?;
            writeln!(
                out,
                "{questions} questions packed below {}",
                arguments.folders.runs().display()
            )?;
        }
        Command::List { metrics: true } => metrics(out)?,
        Command::List { metrics: false } => list(&folder, &places, &mut runs, out)?,
        Command::Table { table, shown } => {
            let definition = definition::choose(&places, What::Table, table)?.load()?;
            let table = Table::evaluate(&definition, &mut runs)?;
            out.write_all(table.render(shown.format.into(), shown.only()).as_bytes())?;
        }
        Command::Figure {
            figure,
            #[cfg(feature = "png")]
            png,
        } => {
            let drawings = definition::find(&folder, What::Figure)?;
            let figure = Figure::load(definition::choose(&drawings, What::Figure, figure)?)?;
            let statements = Statements::read(&folder)?;
            let tables = evaluate(&places, &mut runs)?;
            let numbers = Numbers {
                statements: &statements,
                tables: &tables,
            };
            let drawn = figure.draw(&numbers, &mut runs)?;
            #[cfg(feature = "png")]
            if let Some(path) = png {
                reproduce::write_png(&drawn.svg, path)?;
                return Ok(ExitCode::SUCCESS);
            }
            out.write_all(drawn.svg.as_bytes())?;
        }
        Command::Reproduce {
            out: to,
            check,
            #[cfg(feature = "png")]
            png,
        } => {
            let to = to.clone().unwrap_or_else(|| workspace().join("reproduced"));
            let files = reproduce::files(&folder, &places, &mut runs)?;
            if *check {
                return reproduce::check(&files, &to, out);
            }
            reproduce::write(&files, &to, out)?;
            #[cfg(feature = "png")]
            if *png {
                reproduce::write_pngs(&files, &to)?;
            }
        }
        Command::Verify {
            only,
            format,
            findings,
        } => {
            let judged = Statements::read(&folder)?.judge()?;
            if let Some(path) = findings {
                std::fs::write(path, claims::findings(&judged)).map_err(|source| {
                    Failure::Write {
                        path: path.clone(),
                        source,
                    }
                })?;
            }
            return verify(judged, only.as_deref(), (*format).into(), out);
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn evaluate(places: &[Place], runs: &mut Runs) -> Result<Vec<Table>, Failure> {
    let table = |place: &Place| Ok(Table::evaluate(&place.load()?, runs)?);
    places.iter().map(table).collect()
}

fn verify(
    judged: Vec<Judged>,
    only: Option<&str>,
    format: Format,
    out: &mut impl Write,
) -> Result<ExitCode, Failure> {
    let chosen = |claim: &Judged| {
        only.is_none_or(|only| {
            only == claim.paper || only == format!("{}:{}", claim.paper, claim.id)
        })
    };
    let shown: Vec<Judged> = judged.into_iter().filter(chosen).collect();
    if let (Some(only), true) = (only, shown.is_empty()) {
        return Err(Failure::NoSuchClaim(only.to_owned()));
    }
    let text = match format {
        Format::Json => claims::json(&shown),
        format => claims::table(&shown).render(format),
    };
    out.write_all(text.as_bytes())?;
    let expected = shown.iter().all(Judged::is_expected);
    Ok(if expected {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn list(
    folder: &Path,
    places: &[Place],
    runs: &mut Runs,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let tables = evaluate(places, runs)?;
    let table = |(place, table): (&Place, &Table)| {
        let cells = || table.rows.iter().flat_map(|row| &row.cells);
        let published = cells().filter(|cell| !cell.published.is_missing()).count();
        let measured = cells().filter(|cell| cell.measured.is_value()).count();
        Line::Cells(vec![
            place.to_string().into(),
            table.title.as_str().into(),
            published.to_string().into(),
            (cells().count() - published).to_string().into(),
            measured.to_string().into(),
            table.runs_needed().join(", ").into(),
        ])
    };
    let sheet = Sheet {
        columns: vec![
            Column::words("Table"),
            Column::words("Title"),
            Column::numbers("Published"),
            Column::numbers("Not in the text"),
            Column::numbers("Measured"),
            Column::words("Runs that would fill cells"),
        ],
        lines: places.iter().zip(&tables).map(table).collect(),
        ..Sheet::default()
    };
    let statements = Statements::read(folder)?;
    let numbers = Numbers {
        statements: &statements,
        tables: &tables,
    };
    let mut lines = Vec::new();
    for place in definition::find(folder, What::Figure)? {
        let figure = Figure::load(&place)?;
        let missing = figure.draw(&numbers, runs)?.missing.join("; ");
        lines.push(Line::Cells(vec![
            place.to_string().into(),
            figure.title().into(),
            missing.into(),
        ]));
    }
    let figures = Sheet {
        columns: ["Figure", "Title", "Not drawn"].map(Column::words).into(),
        lines,
        notes: vec![claims::summary(&statements.judge()?)],
        ..Sheet::default()
    };
    let text = [sheet, figures]
        .map(|sheet| sheet.render(Format::Markdown))
        .join("\n");
    Ok(out.write_all(text.as_bytes())?)
}

fn metrics(out: &mut impl Write) -> Result<(), Failure> {
    let line = |metric: &Metric| {
        let cutoff = if metric.takes_cutoff() { "@k" } else { "" };
        Line::Cells(vec![
            format!("{}{cutoff}", metric.name).into(),
            metric.about.into(),
        ])
    };
    let sheet = Sheet {
        columns: ["Metric", "Of a question"].map(Column::words).into(),
        lines: METRICS.iter().map(line).collect(),
        ..Sheet::default()
    };
    Ok(out.write_all(sheet.render(Format::Markdown).as_bytes())?)
}

impl Folders {
    fn runs(&self) -> PathBuf {
        self.runs
            .clone()
            .unwrap_or_else(|| workspace().join("data/runs"))
    }

    fn definitions(&self) -> PathBuf {
        self.definitions
            .clone()
            .unwrap_or_else(|| workspace().join("paper-tables"))
    }
}

/// The workspace as cargo tells it to what it runs, or the folder the command is called in.
fn workspace() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    package
        .as_deref()
        .and_then(Path::parent)
        .map_or_else(PathBuf::new, Path::to_owned)
}

impl From<FormatName> for Format {
    fn from(name: FormatName) -> Self {
        match name {
            FormatName::Md => Self::Markdown,
            FormatName::Csv => Self::Csv,
            FormatName::Json => Self::Json,
            FormatName::Tex => Self::Latex,
            FormatName::Html => Self::Html,
        }
    }
}

impl Shown {
    fn only(&self) -> Only {
        match self.only {
            None => Only::Beside,
            Some(OnlyName::Measured) => Only::Measured,
            Some(OnlyName::Published) => Only::Published,
            Some(OnlyName::Difference) => Only::Difference,
        }
    }
}
