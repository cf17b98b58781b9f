//! `cargo xtask plan`: registered plans, frozen before there are data.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use rawrag_diagnostics::plan::{Counts, CountsError, Plan, PlanError, is_day, read_counts};
use rawrag_diagnostics::questions::{judge, score, side_by_side};
use rawrag_diagnostics::{DiagnosticError, Outputs, Settings, assembled};
use rawrag_records::labels::{Columns, LabelError, LabelTable};
use rawrag_statistics::PairCounts;

use crate::commands::{Failure, FormatName};
use crate::diagnose;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Reads a plan and says what it binds.
    Check {
        /// The plan's TOML file.
        plan: PathBuf,
    },
    /// Fixes a plan: writes its hash and the day beside it.
    Freeze {
        /// The plan's TOML file.
        plan: PathBuf,
    },
    /// Runs the registered tests first, then everything else as exploratory.
    Report(Report),
}

#[derive(Args)]
struct Report {
    /// The plan's TOML file.
    plan: PathBuf,
    /// A system of the plan and its run, `jev=turns-jev-k6`; one for each system.
    #[arg(long, value_name = "SYSTEM=RUN", group = "data")]
    system: Vec<String>,
    /// A table of labels with a column a system, named as in the plan.
    #[arg(long, value_name = "FILE", group = "data")]
    labels: Option<PathBuf>,
    /// Columns that together identify a question of the table.
    #[arg(
        long,
        value_name = "COLUMN",
        value_delimiter = ',',
        requires = "labels"
    )]
    unit: Vec<String>,
    /// The column of the table that holds the conversation.
    #[arg(long, value_name = "COLUMN", requires = "labels")]
    conversation: Option<String>,
    /// The column of the table that holds the kind of question.
    #[arg(long, value_name = "COLUMN", requires = "labels")]
    kind: Option<String>,
    /// Paired counts from a publication, as experiments/plans/selection.counts.csv.
    #[arg(long, value_name = "FILE", group = "data")]
    counts: Option<PathBuf>,
    /// The judge whose grades count, where runs have several.
    #[arg(long, value_name = "NAME")]
    judge: Option<String>,
    /// How it is written.
    #[arg(long, value_enum, default_value = "md")]
    format: FormatName,
}

/// Why a plan was not carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlanFailure {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{}: {source}", path.display())]
    Plan { path: PathBuf, source: PlanError },
    #[error(
        "{} is frozen already, on {day}; a plan that is changed after that is another plan: copy it \
         to another file, or add a dated deviation",
        path.display()
    )]
    Frozen { path: PathBuf, day: String },
    #[error("{} is not frozen; run `cargo xtask plan freeze` before there are data", .0.display())]
    NotFrozen(PathBuf),
    #[error(
        "{} was changed after it was frozen on {day}: its hash is {now}, and {then} was frozen. \
         Restore it, and write the change down as a dated deviation",
        path.display()
    )]
    Changed {
        path: PathBuf,
        day: String,
        then: String,
        now: String,
    },
    #[error(
        "{} was frozen on {frozen}, and run {run} was begun on {started}: a plan comes before its data",
        path.display()
    )]
    AfterData {
        path: PathBuf,
        frozen: String,
        run: String,
        started: String,
    },
    #[error("{}: expected `sha256 day`", .0.display())]
    Seal(PathBuf),
    #[error("name the data: --system, --labels or --counts")]
    NoData,
    #[error("`{0}` is no SYSTEM=RUN")]
    NoPair(String),
    #[error("the plan has no system {system}; it has {systems}")]
    NoSystem { system: String, systems: String },
    #[error("the plan is about {wanted}, and run {run} is of {found}")]
    Benchmark {
        wanted: String,
        run: String,
        found: String,
    },
    #[error("the plan leaves out {0}, which no question of the data is or is of")]
    NothingExcluded(String),
    #[error("{0} has two labels for a question; a plan's tests need one of 0 or 1")]
    Repeated(String),
    #[error(transparent)]
    Counts(#[from] CountsError),
    #[error(transparent)]
    Labels(#[from] LabelError),
    #[error(transparent)]
    Diagnose(#[from] diagnose::DiagnoseError),
    #[error(transparent)]
    Diagnostic(#[from] DiagnosticError),
}

impl PlanFailure {
    /// Whether other arguments would do.
    pub(crate) fn is_usage(&self) -> bool {
        match self {
            Self::NoData | Self::NoPair(_) | Self::NoSystem { .. } => true,
            Self::Diagnose(error) => error.is_usage(),
            _ => false,
        }
    }
}

/// What was frozen, and when.
struct Seal {
    digest: String,
    day: String,
}

impl Arguments {
    pub(crate) fn run(&self, runs: &Path, out: &mut impl Write) -> Result<(), Failure> {
        match &self.task {
            Task::Check { plan } => check(plan, out),
            Task::Freeze { plan } => freeze(plan, out),
            Task::Report(report) => report.print(runs, out),
        }
    }
}

fn read(path: &Path) -> Result<Plan, PlanFailure> {
    let text = fs::read_to_string(path).map_err(|source| PlanFailure::Io {
        path: path.to_owned(),
        source,
    })?;
    Plan::parse(&text).map_err(|source| PlanFailure::Plan {
        path: path.to_owned(),
        source,
    })
}

/// `selection.toml.frozen`, beside the plan.
fn beside(plan: &Path) -> PathBuf {
    let mut name = plan.as_os_str().to_owned();
    name.push(".frozen");
    name.into()
}

fn seal(plan: &Path) -> Result<Option<Seal>, PlanFailure> {
    let path = beside(plan);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(PlanFailure::Io { path, source }),
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        [digest, day] if digest.len() == 64 && is_day(day) => Ok(Some(Seal {
            digest: digest.to_owned(),
            day: day.to_owned(),
        })),
        _ => Err(PlanFailure::Seal(path)),
    }
}

/// The seal of a plan that is as it was frozen.
fn unbroken(path: &Path, plan: &Plan) -> Result<Option<Seal>, PlanFailure> {
    let seal = seal(path)?;
    match seal {
        Some(seal) if seal.digest != plan.digest() => Err(PlanFailure::Changed {
            path: path.to_owned(),
            day: seal.day,
            then: seal.digest,
            now: plan.digest(),
        }),
        seal => Ok(seal),
    }
}

fn check(path: &Path, out: &mut impl Write) -> Result<(), Failure> {
    let plan = read(path)?;
    let seal = unbroken(path, &plan)?;
    writeln!(out, "{}", plan.title)?;
    writeln!(out, "sha256 {}", plan.digest())?;
    match seal {
        Some(seal) => writeln!(out, "frozen on {}, and unchanged since", seal.day)?,
        None => writeln!(out, "not frozen")?,
    }
    writeln!(
        out,
        "{} tests: the primary one, {}; {} in {} families; {} deviations",
        plan.tests().count(),
        plan.primary.id,
        plan.tests().count() - 1,
        plan.families.len(),
        plan.deviations.len()
    )?;
    Ok(())
}

fn freeze(path: &Path, out: &mut impl Write) -> Result<(), Failure> {
    let plan = read(path)?;
    if let Some(seal) = unbroken(path, &plan)? {
        return Err(PlanFailure::Frozen {
            path: path.to_owned(),
            day: seal.day,
        }
        .into());
    }
    let to = beside(path);
    let (digest, day) = (plan.digest(), today());
    fs::write(&to, format!("{digest} {day}\n")).map_err(|source| PlanFailure::Io {
        path: to.clone(),
        source,
    })?;
    writeln!(out, "{digest} {day}")?;
    Ok(())
}

/// The day, UTC (days to civil date, Hinnant's algorithm).
fn today() -> String {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs());
    let days = (seconds / 86_400) as i64 + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

impl Report {
    fn print(&self, runs: &Path, out: &mut impl Write) -> Result<(), Failure> {
        let plan = read(&self.plan)?;
        let seal = unbroken(&self.plan, &plan)?
            .ok_or_else(|| PlanFailure::NotFrozen(self.plan.clone()))?;
        let (counts, provenance) = self.counts(&plan, &seal, runs)?;
        let report = plan.report(&counts, Some(&seal.day));
        let mut report = report.map_err(|source| PlanFailure::Plan {
            path: self.plan.clone(),
            source,
        })?;
        report.notes.push(format!(
            "Plan {}, frozen on {}. {provenance}",
            seal.digest, seal.day
        ));
        Ok(out.write_all(diagnose::rendered(&report, self.format.into())?.as_bytes())?)
    }

    /// The paired counts of the data, and what a reader must know of where they come from.
    fn counts(
        &self,
        plan: &Plan,
        seal: &Seal,
        runs: &Path,
    ) -> Result<(Vec<Counts>, String), PlanFailure> {
        if let Some(file) = &self.counts {
            let about = "The counts are those of a publication, not measured here; that the plan \
                         came before them is not shown.";
            return Ok((read_counts(file)?, about.to_owned()));
        }
        if let Some(file) = &self.labels {
            let about = "A table of labels has no date, so that the plan came before it is not \
                         shown.";
            return Ok((self.of_labels(plan, file)?, about.to_owned()));
        }
        if self.system.is_empty() {
            return Err(PlanFailure::NoData);
        }
        let counts = self.of_runs(plan, seal, runs)?;
        Ok((
            counts,
            "Every run was begun after that day or on it.".to_owned(),
        ))
    }

    fn of_runs(&self, plan: &Plan, seal: &Seal, runs: &Path) -> Result<Vec<Counts>, PlanFailure> {
        let mut systems = Vec::new();
        for pair in &self.system {
            let (system, run) = pair
                .split_once('=')
                .ok_or_else(|| PlanFailure::NoPair(pair.clone()))?;
            named(plan, system)?;
            let outputs = diagnose::read(Path::new(run), runs)?;
            self.admit(plan, seal, &outputs)?;
            systems.push((system, outputs));
        }
        for name in &plan.data.exclude {
            let held = |run: &Outputs| {
                run.questions
                    .iter()
                    .any(|q| [&q.kind, &q.key.conversation, &q.key.question].contains(&name))
            };
            // Runs that never asked these questions have nothing to leave out.
            for (_, run) in &mut systems {
                if held(run) {
                    run.questions.retain(|q| {
                        ![&q.kind, &q.key.conversation, &q.key.question].contains(&name)
                    });
                }
            }
        }
        if !plan.data.conversations.is_empty() {
            for (_, run) in &mut systems {
                run.questions
                    .retain(|q| plan.data.conversations.contains(&q.key.conversation));
            }
        }
        let settings = Settings {
            judge: self.judge.clone(),
            ..Settings::default()
        };
        let outputs: Vec<&Outputs> = systems.iter().map(|(_, run)| run).collect();
        let side = side_by_side(&outputs)?;
        let mut grades = BTreeMap::new();
        let mut tokens = BTreeMap::new();
        for (at, (system, run)) in systems.iter().enumerate() {
            let judge = judge("plan", run, &settings)?;
            let right = side.runs[at].iter().map(|q| {
                // A repeated judgment counts by its majority; what was not graded is wrong.
                let score = score(q, judge, settings.ungraded).value.unwrap_or(0.0);
                f64::from(u8::from(score > 0.5))
            });
            grades.insert((*system).to_owned(), right.collect::<Vec<f64>>());
            let counted: Option<Vec<f64>> = run
                .questions
                .iter()
                .map(|q| assembled(run, q, None).map(f64::from))
                .collect();
            if let Some(counted) = counted.filter(|counted| !counted.is_empty()) {
                let mean = counted.iter().sum::<f64>() / counted.len() as f64;
                tokens.insert((*system).to_owned(), mean);
            }
        }
        Ok(pairs(plan, &grades, &tokens))
    }

    /// Refuses a run of another benchmark, and one that was begun before the plan was frozen.
    fn admit(&self, plan: &Plan, seal: &Seal, run: &Outputs) -> Result<(), PlanFailure> {
        let manifest = &run.manifest;
        if manifest.benchmark != plan.data.benchmark {
            return Err(PlanFailure::Benchmark {
                wanted: plan.data.benchmark.clone(),
                run: manifest.name.clone(),
                found: manifest.benchmark.clone(),
            });
        }
        let started = manifest.started.get(..10).unwrap_or(&manifest.started);
        if started < seal.day.as_str() {
            return Err(PlanFailure::AfterData {
                path: self.plan.clone(),
                frozen: seal.day.clone(),
                run: manifest.name.clone(),
                started: started.to_owned(),
            });
        }
        Ok(())
    }

    fn of_labels(&self, plan: &Plan, file: &Path) -> Result<Vec<Counts>, PlanFailure> {
        let columns = Columns {
            unit: self.unit.clone(),
            cluster: self.conversation.iter().cloned().collect(),
            strata: self.kind.iter().cloned().collect(),
            systems: plan.systems.keys().cloned().collect(),
            repeated: false,
        };
        let table = LabelTable::read(file, &columns)?;
        for name in &plan.data.exclude {
            let is = |unit: &rawrag_records::labels::Unit| of(unit).contains(&Some(name.as_str()));
            if (self.kind.is_some() || self.conversation.is_some()) && !table.units.iter().any(is) {
                return Err(PlanFailure::NothingExcluded(name.clone()));
            }
        }
        let kept = |unit: &rawrag_records::labels::Unit| {
            let out = plan
                .data
                .exclude
                .iter()
                .any(|name| of(unit).contains(&Some(name.as_str())));
            let inside = plan.data.conversations.is_empty()
                || unit
                    .cluster
                    .as_ref()
                    .is_none_or(|c| plan.data.conversations.contains(c));
            !out && inside
        };
        let mut grades: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        let mut of_unit: BTreeMap<(usize, usize), f64> = BTreeMap::new();
        for label in &table.labels {
            // A missing label is a failure, which scores 0.
            let value = label.value.unwrap_or(0.0);
            if of_unit.insert((label.system, label.unit), value).is_some() {
                return Err(PlanFailure::Repeated(table.systems[label.system].clone()));
            }
        }
        for (system, name) in table.systems.iter().enumerate() {
            let values = (0..table.units.len())
                .filter(|&unit| kept(&table.units[unit]))
                .map(|unit| of_unit.get(&(system, unit)).copied().unwrap_or(0.0));
            grades.insert(name.clone(), values.collect());
        }
        Ok(pairs(plan, &grades, &BTreeMap::new()))
    }
}

/// What a unit of a table may be excluded by.
fn of(unit: &rawrag_records::labels::Unit) -> [Option<&str>; 3] {
    [
        Some(unit.key.as_str()),
        unit.cluster.as_deref(),
        unit.stratum.as_deref(),
    ]
}

fn named(plan: &Plan, system: &str) -> Result<(), PlanFailure> {
    if plan.systems.contains_key(system) {
        return Ok(());
    }
    let systems: Vec<&str> = plan.systems.keys().map(String::as_str).collect();
    Err(PlanFailure::NoSystem {
        system: system.to_owned(),
        systems: systems.join(", "),
    })
}

/// The counts of every pair of systems: those of the plan's tests as it orders them, others in the
/// order of their names.
fn pairs(
    plan: &Plan,
    grades: &BTreeMap<String, Vec<f64>>,
    tokens: &BTreeMap<String, f64>,
) -> Vec<Counts> {
    let registered = |a: &str, b: &str| plan.tests().any(|t| t.new == a && t.reference == b);
    let mut counts = Vec::new();
    for (a, of_a) in grades {
        for (b, of_b) in grades {
            if a == b || !(registered(a, b) || (a < b && !registered(b, a))) {
                continue;
            }
            if let Ok(pairs) = PairCounts::tally(of_a, of_b) {
                counts.push(Counts {
                    test: None,
                    new: a.clone(),
                    reference: b.clone(),
                    pairs,
                    tokens: tokens.get(a).copied().zip(tokens.get(b).copied()),
                });
            }
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_day_has_its_form() {
        assert!(rawrag_diagnostics::plan::is_day(&super::today()));
    }
}
