//! The command line of the import, for every program that offers it.

use std::io::{self, Write};
use std::path::PathBuf;

use crate::{DecisionsJob, Format, ImportError, Job, import, import_decisions};

/// Arguments of `import`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  import memobase_eval_0710_3000.json --benchmark-file locomo10.json \\
      --system \"Memobase 0.0.37\" --exclude adversarial --out runs/memobase

The run holds one answer a question and repetition, and one judgment an answer and grade. It is
complete when every question of the benchmark has its row: most LoCoMo results leave out the
adversarial questions, which has to be said with --exclude. A run that is not complete is written
too, but no table counts it.")]
pub struct Arguments {
    /// Result files of one system; several files of one format are repetitions, in this order
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The benchmark's own file, such as locomo10.json, which says what was asked
    #[arg(long, value_name = "FILE")]
    benchmark_file: Option<PathBuf>,
    /// The system's name, as tables will show it
    #[arg(long, value_name = "NAME")]
    system: String,
    /// The folder to write the run into; it must not be there yet
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// mem0, mirix, evermemos, zep, eval-results, longmemeval or memoryagentbench [default: told
    /// from the content]
    #[arg(long)]
    format: Option<Format>,
    /// The file is a log of Mem0's add calls: write what they returned as decisions
    #[arg(long, conflicts_with_all = ["benchmark_file", "format", "exclude"])]
    decisions: bool,
    /// Leave out answers and replies, and keep ids, labels, scores and lengths: for sources whose
    /// licence does not let their text be passed on
    #[arg(long)]
    without_text: bool,
    /// A kind of question or a question's id that the files leave out on purpose; may be repeated
    #[arg(long, value_name = "KIND|ID")]
    exclude: Vec<String>,
}

/// Why the command did not do all that was asked.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// Nothing was imported.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The run is there and incomplete.
    #[error(
        "{} is incomplete and no table will count it: {missing}. If the source leaves these \
         questions out on purpose, remove the folder and import again with --exclude and their \
         kind or ids",
        folder.display()
    )]
    Incomplete {
        /// The run's folder.
        folder: PathBuf,
        /// What it lacks.
        missing: String,
    },
    /// Several logs of decisions.
    #[error("a log of decisions is imported alone, and {0} files were given")]
    OneLog(usize),
    /// The report cannot be shown.
    #[error("cannot write: {0}")]
    Output(#[from] io::Error),
}

impl CommandError {
    /// Whether what was asked for makes no sense, whatever the files hold.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Import(error) => error.is_usage(),
            Self::OneLog(_) => true,
            Self::Incomplete { .. } | Self::Output(_) => false,
        }
    }
}

impl Arguments {
    /// Imports, and writes the report to `out`.
    ///
    /// # Errors
    /// [`CommandError`]; after [`CommandError::Incomplete`] the run is there.
    pub fn import(&self, out: &mut impl Write) -> Result<(), CommandError> {
        if self.decisions {
            return self.import_decisions(out);
        }
        let outcome = import(&Job {
            files: &self.files,
            format: self.format,
            benchmark_file: self.benchmark_file.as_deref(),
            system: &self.system,
            folder: &self.out,
            text: !self.without_text,
            exclude: &self.exclude,
        })?;
        let report = &outcome.report;
        write!(out, "{report}")?;
        if report.is_complete() {
            return Ok(());
        }
        let lacking = |(kind, missing): (&String, &crate::Missing)| {
            format!("{} {kind} questions have no row", missing.count)
        };
        let mut missing: Vec<String> = report.missing.iter().map(lacking).collect();
        if let Some(uneven) = report.oddities.get(&crate::Oddity::JudgmentsUneven) {
            missing.push(format!("{} answers lack judgments", uneven.count));
        }
        Err(CommandError::Incomplete {
            folder: self.out.clone(),
            missing: missing.join(", "),
        })
    }

    fn import_decisions(&self, out: &mut impl Write) -> Result<(), CommandError> {
        let [file] = self.files.as_slice() else {
            return Err(CommandError::OneLog(self.files.len()));
        };
        let imported = import_decisions(&DecisionsJob {
            file,
            system: &self.system,
            folder: &self.out,
            text: !self.without_text,
        })?;
        Ok(write!(out, "{}", imported.report)?)
    }
}
