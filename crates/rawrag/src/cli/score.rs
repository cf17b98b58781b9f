use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::corpus::{Benchmark, LoadError};
use crate::records::Run;
use crate::scores::{self, Known, Line, ScoreError, Scores};
use rawrag_scoring::judge::Policy;
use serde::Serialize;

use super::failure::Failure;
use super::{models, runs};

/// What unparsed and failed grades count for.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum Unread {
    /// They are wrong answers: the rule of the Raw-RAG paper
    Wrong,
    /// They count in no score
    Excluded,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Form {
    Text,
    Json,
}

/// What `rawrag score` is asked.
#[derive(clap::Args, Debug)]
pub(super) struct Asked {
    /// The run's folder, or its name below runs/
    run: PathBuf,
    /// The benchmark's file or folder, for the floors that need it [default: what the run was made
    /// on, where it is at hand]
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// What unparsed and failed grades are
    #[arg(long, value_enum, default_value = "wrong")]
    unread: Unread,
    /// The form of the output
    #[arg(long, value_enum, default_value = "text")]
    format: Form,
    /// A score below that of always abstaining is no error
    #[arg(long)]
    below_floor: bool,
}

pub(super) fn score(asked: &Asked) -> Result<(), Failure> {
    let folder = runs::find(&asked.run);
    let run = Run::open(&folder)?;
    let data = match &asked.data {
        Some(data) => Some(data.clone()),
        None => runs::local(&folder).ok().map(|local| local.data),
    };
    let known = match data.filter(|data| asked.data.is_some() || data.exists()) {
        Some(data) => Some(known(&data, &run)?),
        None => None,
    };
    let policy = match asked.unread {
        Unread::Wrong => Policy::CountWrong,
        Unread::Excluded => Policy::Exclude,
    };
    let scores = scores::of(&run, known.as_ref(), policy)?;
    let said = disclaimers(&run);
    let mut out = io::stdout().lock();
    match asked.format {
        Form::Json => {
            let json = serde_json::to_string_pretty(&Json {
                scores: &scores,
                notices: &said,
            })?;
            writeln!(out, "{json}")?;
        }
        Form::Text => text(&mut out, &scores, &said)?,
    }
    for warning in &scores.warnings {
        models::notice(&format!("warning: {warning}"));
    }
    match scores.below_floor && !asked.below_floor {
        true => Err(Failure::Other(
            "a score is below what always abstaining scores; --below-floor lets it pass".into(),
        )),
        false => Ok(()),
    }
}

#[derive(Serialize)]
struct Json<'a> {
    #[serde(flatten)]
    scores: &'a Scores,
    notices: &'a [&'static str],
}

/// What has to be said beside any number of a run.
fn disclaimers(run: &Run) -> Vec<&'static str> {
    let mut said = Vec::new();
    if run.manifest().benchmark == Benchmark::Synthetic.name() {
        said.push("Synthetic data, made by a generator: no benchmark's scores.");
    }
    #[cfg(feature = "remote")]
    said.extend(super::stages::disclaimers(run));
    said
}

fn known(data: &Path, run: &Run) -> Result<Known, Failure> {
    let mut known = Known::default();
    let report = crate::corpus::read::<LoadError>(data, None, |entry| {
        entry
            .questions
            .iter()
            .for_each(|question| known.add(question));
        Ok(())
    })?;
    if report.hash.to_string() != run.manifest().data.sha256 {
        let text = format!(
            "{} is not the data that the run was made on",
            data.display()
        );
        return Err(Failure::Input(text.into()));
    }
    Ok(known)
}

fn text(out: &mut impl Write, scores: &Scores, said: &[&str]) -> io::Result<()> {
    writeln!(
        out,
        "{}: {} on {}",
        scores.run, scores.system, scores.benchmark
    )?;
    for line in said {
        writeln!(out, "{line}")?;
    }
    let unread = match scores.unread {
        "wrong" => "count as wrong",
        _ => "are left out of the scores",
    };
    for judge in &scores.judges {
        writeln!(
            out,
            "\njudge {}: {} a question, {} an answer, averaged; unparsed and failed grades {unread}",
            judge.judge,
            plural(judge.answers, "answer"),
            plural(judge.grades, "grade"),
        )?;
        table(out, &judge.lines)?;
    }
    if !scores.evidence.is_empty() {
        writeln!(
            out,
            "\ngold evidence shown, %, and drawn at random, as many of the conversation's"
        )?;
        let mut rows = vec![["", "n", "any", "random", "all", "random"].map(str::to_owned)];
        for shown in &scores.evidence {
            rows.push([
                shown.unit.to_owned(),
                shown.questions.to_string(),
                runs::percent(shown.any),
                runs::percent(shown.random_any),
                runs::percent(shown.all),
                runs::percent(shown.random_all),
            ]);
        }
        columns(out, &rows)?;
    }
    for warning in &scores.warnings {
        writeln!(out, "\nwarning: {warning}")?;
    }
    Ok(())
}

fn plural(n: u32, what: &str) -> String {
    match n {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}

fn table(out: &mut impl Write, lines: &[Line]) -> io::Result<()> {
    let gated = lines.iter().any(|line| line.gated > 0);
    let random = lines.iter().any(|line| line.random.is_some());
    let mut head = vec![
        "", "score, %", "n", "correct", "wrong", "unparsed", "failed",
    ];
    if gated {
        head.push("gated");
    }
    head.push("abstaining");
    if random {
        head.push("random");
    }
    let mut rows = vec![head.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    for line in lines {
        let mut row = vec![line.label.clone(), runs::percent(line.score)];
        let counts = [
            line.questions,
            line.correct,
            line.wrong,
            line.unparsed,
            line.failed,
        ];
        row.extend(counts.iter().map(ToString::to_string));
        if gated {
            row.push(line.gated.to_string());
        }
        row.push(runs::percent(line.abstaining));
        if random {
            row.push(runs::percent(line.random));
        }
        rows.push(row);
    }
    columns(out, &rows)?;
    for line in lines {
        if let Some(why) = line.undefined {
            writeln!(out, "{} is undefined: {why}.", line.label)?;
        }
    }
    Ok(())
}

/// The first column to the left, the others to the right, each as wide as it has to be.
fn columns<R: AsRef<[String]>>(out: &mut impl Write, rows: &[R]) -> io::Result<()> {
    let width = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.as_ref().get(at));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    for row in rows {
        let row = row.as_ref();
        for (at, cell) in row.iter().enumerate() {
            let width = width(at);
            match at {
                0 => write!(out, "{cell:width$}")?,
                _ => write!(out, "  {cell:>width$}")?,
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

impl From<ScoreError> for Failure {
    fn from(error: ScoreError) -> Self {
        match error {
            ScoreError::Ungraded(_) => Self::Usage(error.to_string()),
            _ => Self::Input(Box::new(error)),
        }
    }
}
