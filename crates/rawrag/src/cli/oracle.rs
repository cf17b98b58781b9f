use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use rawrag_diagnostics::oracle::{StoreKind, Uncited};

use crate::experiment::Experiment;
use crate::oracle::{self, Choice, OracleError, Packing, Policy};
use crate::pipeline::{Job, Progress};
use crate::records::{Run, Search};

use super::failure::Failure;
use super::{bar, models, runs, stages};

#[derive(Args)]
pub(super) struct Arguments {
    /// The run whose store and questions are used: its folder, or its name below runs/
    run: PathBuf,
    /// The benchmark's file or folder [default: what the run was made on]
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// What evidence is chosen from
    #[arg(long, value_enum, default_value = "complete")]
    store: StoreName,
    /// Ceiling in tokens (o200k_base) on evidence and policy, or `none` [default: 5000; none for
    /// --store source]
    #[arg(long, value_name = "N")]
    budget: Option<Budget>,
    /// How stored objects are packed [default: by the run's system]
    #[arg(long, value_enum)]
    packer: Option<PackerName>,
    /// What is added to the context after the evidence [default: task; dependency for --store
    /// source]
    #[arg(long, value_enum)]
    policy: Option<PolicyName>,
    /// What becomes of stored objects whose sessions are not known
    #[arg(long, value_enum, default_value = "refuse")]
    uncited: UncitedName,
    /// The experiment whose reader, judges and assessors are asked [default: the run's own]
    #[arg(long, value_name = "FILE")]
    experiment: Option<PathBuf>,
    /// Take over answers and grades from this run where a question's evidence is the same
    #[arg(long, value_name = "RUN")]
    reuse: Option<PathBuf>,
    /// The new run's folder [default: beside the run, named after it and the choice]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Measure on data that is no known release
    #[arg(long)]
    unknown_data: bool,
    /// Choose the evidence, then count the calls and tokens that are left and their price, and make
    /// none
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    calls: stages::Calls,
}

#[derive(Clone, Copy, ValueEnum)]
enum StoreName {
    /// Everything that the run's system stores
    Complete,
    /// The annotated sessions that hold a phrase looked for
    Raw,
    /// The annotated sessions, all of them
    Source,
}

#[derive(Clone, Copy, ValueEnum)]
enum PackerName {
    /// Ordinary memory objects, best first
    Blocks,
    /// Whole chunks of raw text
    Chunks,
    /// EMem's units, by task
    Emem,
}

#[derive(Clone, Copy, ValueEnum)]
enum PolicyName {
    /// The task policy of every question
    Task,
    /// The dependency instruction of absence questions
    Dependency,
    /// Nothing
    None,
}

#[derive(Clone, Copy, ValueEnum)]
enum UncitedName {
    /// The store cannot be used
    Refuse,
    /// They are left out
    LeaveOut,
}

#[derive(Clone, Copy)]
struct Budget(Option<usize>);

impl std::str::FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse()) {
            ("none", _) => Ok(Self(None)),
            (_, Ok(tokens)) if tokens > 0 => Ok(Self(Some(tokens))),
            _ => Err("a whole number of tokens of at least 1, or none".to_owned()),
        }
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let folder = runs::find(&arguments.run);
    let base = Run::open(&folder)?;
    let choice = arguments.choice(&base);
    let (path, data) = arguments.sources(&folder)?;
    let experiment = oracle::experiment(&Experiment::read(&path)?, choice.store);
    let stages = stages::prepare(&experiment, &arguments.calls)?;
    let out = arguments.out.clone();
    let out = out.unwrap_or_else(|| oracle::usual_folder(&folder, choice));
    let name = out.file_name().unwrap_or_default().to_string_lossy();
    let job = Job {
        experiment: &experiment,
        name: &name,
        data: &data,
        folder: &out,
        unknown_data: arguments.unknown_data,
        stages: stages.as_ref(),
    };
    let bar = bar(0, "questions");
    let run = oracle::run(&job, &base, choice, |progress| match progress {
        Progress::Begun { questions, held } => {
            runs::keep(&out, &path, &data, arguments.unknown_data);
            bar.set_length(questions as u64);
            bar.set_position(held as u64);
            if held == questions {
                models::notice("every question has its evidence already; nothing was chosen");
            }
        }
        Progress::Question => bar.inc(1),
    })?;
    bar.finish_and_clear();
    if let Some(other) = &arguments.reuse {
        let other = Run::open(&runs::find(other))?;
        let taken = oracle::reuse(&run, &other)?;
        models::notice(&format!(
            "{taken} questions have the evidence that they have in {}: their answers and grades \
             are taken over",
            other.manifest().name
        ));
    }
    if let Some(stages) = &stages {
        let calls = &arguments.calls;
        stages::finish(&experiment, stages, &data, &run, calls, arguments.dry_run)?;
    }
    let mut to = io::stdout().lock();
    summarise(&mut to, &run)?;
    if !arguments.dry_run {
        stages::summarise(&mut to, &run)?;
    }
    Ok(())
}

impl Arguments {
    fn choice(&self, base: &Run) -> Choice {
        let store = match self.store {
            StoreName::Complete => StoreKind::Complete,
            StoreName::Raw => StoreKind::Raw,
            StoreName::Source => StoreKind::Source,
        };
        let (usual_budget, usual_policy) = match store {
            StoreKind::Source => (None, Policy::Dependency),
            StoreKind::Complete | StoreKind::Raw => (Some(USUAL_BUDGET), Policy::Task),
        };
        Choice {
            store,
            budget: self.budget.map_or(usual_budget, |Budget(budget)| budget),
            packing: match self.packer {
                Some(PackerName::Blocks) => Packing::Blocks,
                Some(PackerName::Chunks) => Packing::Chunks,
                Some(PackerName::Emem) => Packing::Emem,
                None => Packing::usual(base),
            },
            policy: match self.policy {
                Some(PolicyName::Task) => Policy::Task,
                Some(PolicyName::Dependency) => Policy::Dependency,
                Some(PolicyName::None) => Policy::Nothing,
                None => usual_policy,
            },
            uncited: match self.uncited {
                UncitedName::Refuse => Uncited::Refuse,
                UncitedName::LeaveOut => Uncited::LeaveOut,
            },
        }
    }

    /// The experiment's file and the data.
    fn sources(&self, folder: &Path) -> Result<(PathBuf, PathBuf), Failure> {
        if let (Some(experiment), Some(data)) = (&self.experiment, &self.data) {
            return Ok((experiment.clone(), data.clone()));
        }
        let local = runs::local(folder).map_err(|_| {
            Failure::Usage(format!(
                "{} does not say by which experiment and on what data it was made: name them with \
                 --experiment and --data",
                folder.display()
            ))
        })?;
        Ok((
            self.experiment.clone().unwrap_or(local.experiment),
            self.data.clone().unwrap_or(local.data),
        ))
    }
}

/// The paper's ceiling (Raw-RAG, C.5).
const USUAL_BUDGET: usize = 5_000;

fn summarise(out: &mut impl Write, run: &Run) -> Result<(), Failure> {
    let searches: Vec<Search> = run.read()?;
    let manifest = run.manifest();
    let tokens: u64 = searches.iter().map(|s| u64::from(s.evidence_tokens)).sum();
    let empty = searches
        .iter()
        .filter(|search| search.returned == 0)
        .count();
    writeln!(
        out,
        "{} on {}: {} questions, {:.1} tokens of evidence and policy each, {empty} without any",
        manifest.name,
        manifest.benchmark,
        searches.len(),
        tokens as f64 / searches.len().max(1) as f64
    )?;
    Ok(())
}

impl From<OracleError> for Failure {
    fn from(error: OracleError) -> Self {
        match error {
            OracleError::Pipeline(error) => error.into(),
            error => Self::Input(Box::new(error)),
        }
    }
}
