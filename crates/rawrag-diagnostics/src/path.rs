//! Result and path (Raw-RAG, 5.2, C.1, G.10; Table 9): of the questions whose evidence holds the
//! result, how many also have evidence for the whole path to it.
//!
//! Questions count whose kind and phase are asked about: an assessment of one of them, in any of the
//! runs, speaks of result and path. MEME's Del and Abs never do, since what was deleted or no longer
//! holds is no result. Evidence that holds the path holds the result; an assessment
//! that says otherwise contradicts itself, and the run is refused with its question.

use std::collections::BTreeSet;

use rawrag_records::{Assessment, Key, Phase};
use rawrag_scoring::judge::Policy;
use rawrag_statistics::{Contributions, Score};

use crate::contrasts::{OMNIBUS, PAIRS, Sampling, Test, compare, estimate, with_interval};
use crate::questions::{Aspect, Outcomes, assessed, assessor, side_by_side};
use crate::report::{RUN_COLUMN, table};
use crate::{
    Column, Diagnostic, DiagnosticError, Input, Need, QuestionRecords, Report, Unit, Value,
};

pub(crate) const PATH: Diagnostic = Diagnostic {
    name: NAME,
    about: "How often evidence that holds the result holds the whole path to it too",
    source: "Raw-RAG, 5.2, Table 9",
    needs: &[Need::Assessments],
    analyse,
};

const NAME: &str = "path";

fn analyse(input: &Input<'_>) -> Result<Report, DiagnosticError> {
    let settings = &input.settings;
    let side = side_by_side(&input.runs)?;
    let (mut notes, mut assessors, mut asked) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (run, questions) in input.runs.iter().zip(&side.runs) {
        let name = &run.manifest.name;
        let assessor = assessor(NAME, run, settings)?;
        notes.push(format!("{name}: assessed by {assessor}."));
        let found = asked_about(name, questions, assessor)?;
        if found.is_empty() {
            return Err(DiagnosticError::Missing {
                diagnostic: NAME,
                need: "assessments of result and path",
                run: name.clone(),
            });
        }
        asked.extend(found);
        assessors.push(assessor);
    }
    let measured: Vec<Labelled> = assessors
        .iter()
        .zip(&side.runs)
        .map(|(assessor, questions)| Labelled::of(questions, assessor, &asked, settings.ungraded))
        .collect();
    let each: Vec<&[Option<Each>]> = measured.iter().map(|run| run.each.as_slice()).collect();
    let counted = side.counted(&each);
    let (keys, runs) = (&counted.keys, &counted.runs);
    let is_asked = |at: &usize| {
        let question = side.runs.first().and_then(|questions| questions.get(*at));
        question.is_some_and(|q| asked.contains(&(q.kind.as_str(), q.key.phase)))
    };
    let left_out = (0..side.keys.len()).filter(is_asked).count() - keys.len();
    if left_out > 0 {
        notes.push(format!(
            "{left_out} questions that are asked about are left out of every run, since in one of \
             them they have no assessment of both that counts."
        ));
    }
    notes.push(
        match settings.ungraded {
            Policy::CountWrong => "Unparsed and failed assessments find neither, as in the paper.",
            Policy::Exclude => "Unparsed and failed assessments are left out.",
        }
        .to_owned(),
    );
    let names = input.names();

    let (mut systems, mut groups) = (Vec::new(), Vec::new());
    let (mut pairs, mut omnibus) = (Vec::new(), Vec::new());
    if !keys.is_empty() {
        let sampling = Sampling::by_conversation(keys);
        notes.push(sampling.note(settings));
        let report = conditional(runs, &sampling, settings)?;
        for (at, run) in runs.iter().enumerate() {
            let mut row = vec![names[at].into()];
            row.extend(joint(run));
            row.extend(with_interval(
                report.scores[at].value,
                report.scores[at].interval,
            ));
            let outcomes = measured[at].outcomes;
            row.extend([outcomes.unparsed, outcomes.failed].map(Value::Count));
            systems.push(row);
        }
        let compared = compare("path given result", &names, &report, &Test::Bootstrap)?;
        pairs.extend(compared.pairs);
        omnibus.extend(compared.omnibus);
        for ((kind, hop), at) in counted.grouped(|at| group(&side.runs, at)) {
            let of_run =
                |run: &Vec<Each>| at.iter().filter_map(|&at| run.get(at).copied()).collect();
            let of: Vec<Vec<Each>> = runs.iter().map(of_run).collect();
            let within: Vec<&Key> = at.iter().map(|&at| keys[at]).collect();
            let report = conditional(&of, &Sampling::by_conversation(&within), settings)?;
            for (run, (name, score)) in of.iter().zip(names.iter().zip(&report.scores)) {
                let mut row = vec![
                    (*name).into(),
                    kind.clone().into(),
                    match hop {
                        Some(hop) => Value::Count(hop),
                        None => Value::Absent("hops are not on record".to_owned()),
                    },
                ];
                row.extend(joint(run));
                row.extend(with_interval(score.value, score.interval));
                groups.push(row);
            }
        }
    }
    Ok(Report {
        tables: vec![
            table("systems", "one run", &SYSTEMS, systems),
            table(
                "kinds",
                "one kind of question, by its number of dependencies where that is on record",
                &KINDS,
                groups,
            ),
            table("omnibus", "all runs together", &OMNIBUS, omnibus),
            table("pairs", "one pair of runs", &PAIRS, pairs),
        ],
        notes,
    })
}

/// MEME's tasks whose old value is no result, since it was deleted or no longer holds (G.10).
const NOT_NESTED: [&str; 2] = ["Del", "Abs"];

/// Kind and phase of a question.
type Asked<'a> = (&'a str, Option<Phase>);

/// What an assessor speaks of result and path for.
fn asked_about<'a>(
    run: &str,
    questions: &[&'a QuestionRecords],
    assessor: &str,
) -> Result<BTreeSet<Asked<'a>>, DiagnosticError> {
    let mut asked = BTreeSet::new();
    for question in questions {
        if NOT_NESTED.contains(&question.kind.as_str()) {
            continue;
        }
        for assessment in by(question, assessor) {
            match (assessment.result, assessment.path) {
                (Some(false), Some(true)) => {
                    return Err(DiagnosticError::Contradiction {
                        run: run.to_owned(),
                        key: question.key.to_string(),
                        problem: format!(
                            "{assessor} finds a path to a result that it does not find; such an \
                             assessment is to be recorded as unparsed"
                        ),
                    });
                }
                (Some(_), Some(_)) => {
                    asked.insert((question.kind.as_str(), question.key.phase));
                }
                _ => {}
            }
        }
    }
    Ok(asked)
}

fn by<'a>(
    question: &'a QuestionRecords,
    assessor: &'a str,
) -> impl Iterator<Item = &'a Assessment> + 'a {
    let of = question.assessments.iter();
    of.filter(move |assessment| assessment.assessor == assessor)
}

/// Whether a question's evidence holds the result, and the path: 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Each {
    result: f64,
    path: f64,
}

/// A run's questions, `None` for one that does not count in it.
struct Labelled {
    each: Vec<Option<Each>>,
    outcomes: Outcomes,
}

impl Labelled {
    fn of(
        questions: &[&QuestionRecords],
        assessor: &str,
        asked: &BTreeSet<Asked<'_>>,
        policy: Policy,
    ) -> Self {
        let (mut each, mut outcomes) = (Vec::new(), Outcomes::default());
        for question in questions {
            if !asked.contains(&(question.kind.as_str(), question.key.phase)) {
                each.push(None);
                continue;
            }
            let result = assessed(question, assessor, Aspect::Result, policy);
            let path = assessed(question, assessor, Aspect::Path, policy);
            outcomes += result.outcomes;
            let both = result.value.zip(path.value);
            each.push(both.map(|(result, path)| Each { result, path }));
        }
        Self { each, outcomes }
    }
}

/// P(path | result) of each run, each against every later one.
fn conditional(
    runs: &[Vec<Each>],
    sampling: &Sampling,
    settings: &crate::Settings,
) -> Result<rawrag_statistics::ScoreReport, DiagnosticError> {
    let mut contributions = Contributions::new(2 * runs.len());
    for at in 0..runs.first().map_or(0, Vec::len) {
        let of = runs.iter().filter_map(|run| run.get(at));
        let row: Vec<f64> = of.flat_map(|each| [each.result, each.path]).collect();
        contributions.push(&row)?;
    }
    let scores = (0..runs.len()).map(|run| Score::ratio(2 * run + 1, 2 * run));
    estimate(&contributions, sampling, scores.collect(), settings)
}

/// Questions, then how many hold both, the result alone and neither, then the shares with result
/// and with path.
fn joint(questions: &[Each]) -> [Value; 6] {
    let count = |result: bool, path: bool| {
        let is = |each: &&Each| (each.result > 0.5, each.path > 0.5) == (result, path);
        questions.iter().filter(is).count() as u64
    };
    let (both, alone, neither) = (count(true, true), count(true, false), count(false, false));
    let n = questions.len() as u64;
    [
        Value::Count(n),
        Value::Count(both),
        Value::Count(alone),
        Value::Count(neither),
        Value::rate(both + alone, n, "questions"),
        Value::rate(both, n, "questions"),
    ]
}

/// Kind and hop of the question at a place.
fn group(runs: &[Vec<&QuestionRecords>], at: usize) -> (String, Option<u64>) {
    // What a question is about is the same in every run; one that was assessed knows it.
    let of_runs = || runs.iter().filter_map(|questions| questions.get(at));
    let kind = of_runs().next().map(|question| question.kind.clone());
    (
        kind.unwrap_or_default(),
        of_runs().find_map(|question| hop(question)),
    )
}

/// The number of dependencies that an assessment says lie between the change and the answer.
fn hop(question: &QuestionRecords) -> Option<u64> {
    let parts = question
        .assessments
        .iter()
        .filter_map(|a| a.components.as_deref());
    let mut hops = parts.filter_map(|parts| {
        let parts: serde_json::Value = serde_json::from_str(parts).ok()?;
        parts.get("hop")?.as_u64()
    });
    hops.next()
}

const SYSTEMS: [Column; 12] = [
    RUN_COLUMN,
    QUESTIONS,
    BOTH,
    ALONE,
    NEITHER,
    RESULT,
    PATH_RATE,
    GIVEN,
    LOW,
    HIGH,
    Column::new(
        "unparsed",
        Unit::Count,
        "assessments that could not be read",
    ),
    Column::new("failed", Unit::Count, "assessments that there are none of"),
];

const KINDS: [Column; 12] = [
    RUN_COLUMN,
    Column::new("kind", Unit::Text, "the benchmark's type of question"),
    Column::new(
        "hops",
        Unit::Count,
        "dependencies between the change and the answer",
    ),
    QUESTIONS,
    BOTH,
    ALONE,
    NEITHER,
    RESULT,
    PATH_RATE,
    GIVEN,
    LOW,
    HIGH,
];

const QUESTIONS: Column = Column::new(
    "questions",
    Unit::Count,
    "questions asked about that count in every run",
);
const BOTH: Column = Column::new("both", Unit::Count, "evidence holds result and path");
const ALONE: Column = Column::new("result alone", Unit::Count, "it holds the result alone");
const NEITHER: Column = Column::new("neither", Unit::Count, "it holds neither");
const RESULT: Column = Column::new("result", Unit::Rate, "share with the result");
const PATH_RATE: Column = Column::new("path", Unit::Rate, "share with the path");
const GIVEN: Column = Column::new(
    "path given result",
    Unit::Rate,
    "share with the path of those with the result",
);
const LOW: Column = Column::new("low", Unit::Rate, "lower end of its interval");
const HIGH: Column = Column::new("high", Unit::Rate, "upper end");
