use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::validity;
use clap::{Args, Parser, Subcommand, ValueEnum};
use rawrag_paper::definition::{self, Place};
use rawrag_paper::statistics::{self, StatisticsError};
use rawrag_paper::{
    DefinitionError, Format, Line, Measured, Only, PaperError, Runs, Sheet, Table, Text,
};

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
    /// Paired statistics of a table of labels, or of numbers typed in.
    Stats(Box<statistics::command::Arguments>),
    /// Simulates coverage and size of every method, and writes what docs/validity.md stands on.
    Validity(validity::Arguments),
}

#[derive(Subcommand)]
enum Command {
    /// What exists: cells published, measured and missing, and what would fill them.
    List,
    /// One table, measured beside published.
    Table {
        /// `nano-memory:9`, or `4` for a table of Raw-RAG.
        table: String,
        #[command(flatten)]
        shown: Shown,
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
enum FormatName {
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
    Statistics(#[from] StatisticsError),
    #[error(transparent)]
    Validity(#[from] validity::ValidityError),
    #[error("cannot write: {0}")]
    Output(#[from] io::Error),
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
            Self::Paper(PaperError::Definition(DefinitionError::NoSuchTable { .. })) => 2,
            Self::Paper(_) => 3,
            Self::Statistics(error) if error.is_usage() => 2,
            Self::Statistics(_) => 3,
            Self::Validity(_) | Self::Output(_) => 1,
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
        Task::Stats(arguments) => {
            out.write_all(arguments.answer()?.as_bytes())?;
            return Ok(ExitCode::SUCCESS);
        }
        Task::Validity(arguments) => {
            arguments.write(&workspace().join("docs/validity"), out)?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    let places = definition::find(&arguments.folders.definitions())?;
    let mut runs = Runs::new(&arguments.folders.runs());
    match command {
        Command::List => list(&places, &mut runs, out)?,
        Command::Table { table, shown } => {
            let definition = definition::choose(&places, table)?.load()?;
            let table = Table::evaluate(&definition, &mut runs)?;
            out.write_all(table.render(shown.format(), shown.only()).as_bytes())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(places: &[Place], runs: &mut Runs, out: &mut impl Write) -> Result<(), Failure> {
    let mut lines = Vec::new();
    for place in places {
        let table = Table::evaluate(&place.load()?, runs)?;
        let cells = || table.rows.iter().flat_map(|row| &row.cells);
        let published = cells().filter(|cell| !cell.published.is_missing()).count();
        let measured = cells()
            .filter(|cell| matches!(cell.measured, Measured::Value { .. }))
            .count();
        let all = cells().count();
        let mut fill = table.runs_needed();
        fill.sort_unstable();
        lines.push(Line::Cells(vec![
            place.to_string().into(),
            table.title.as_str().into(),
            published.to_string().into(),
            (all - published).to_string().into(),
            measured.to_string().into(),
            Text::from(fill.join(", ")),
        ]));
    }
    let sheet = Sheet {
        columns: vec![
            rawrag_paper::Column::words("Table"),
            rawrag_paper::Column::words("Title"),
            rawrag_paper::Column::numbers("Published"),
            rawrag_paper::Column::numbers("Not in the text"),
            rawrag_paper::Column::numbers("Measured"),
            rawrag_paper::Column::words("Runs that would fill cells"),
        ],
        lines,
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

impl Shown {
    fn format(&self) -> Format {
        match self.format {
            FormatName::Md => Format::Markdown,
            FormatName::Csv => Format::Csv,
            FormatName::Json => Format::Json,
            FormatName::Tex => Format::Latex,
            FormatName::Html => Format::Html,
        }
    }

    fn only(&self) -> Only {
        match self.only {
            None => Only::Beside,
            Some(OnlyName::Measured) => Only::Measured,
            Some(OnlyName::Published) => Only::Published,
            Some(OnlyName::Difference) => Only::Difference,
        }
    }
}
