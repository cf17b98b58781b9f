//! The first point of failure of every question: where on its way to the reader the answer was
//! lost, or that the reader had it and did not use it.
//!
//! The points, in order: *not stored* (nothing in the store comes from a message of the answer),
//! *not shortlisted* (the first stage did not pass it on; in a run of one stage, it is not among
//! the nearest), *dropped by the selector*, *cut by the budget*, and *present but unused*. A
//! question fails at the first point at which any message of its answer is lost. What the records
//! cannot tell is *unknown*, with the reason.
//!
//! A judged run fails where less than half of the grades that count are correct. A run without
//! grades fails only where a message of the answer does not reach the reader: that it is there does
//! not make an answer right.

use std::collections::BTreeMap;

use rawrag_records::Key;

use crate::evidence::{First, first_loss};
use crate::losses::Stages;
use crate::questions::{judge, score};
use crate::report::{RUN_COLUMN, table};
use crate::{
    Column, Diagnostic, DiagnosticError, Fate, Input, Loss, Outputs, QuestionRecords, Report,
    Shown, Unit, Value,
};

pub(crate) const FAILURE: Diagnostic = Diagnostic {
    name: "failure",
    about: "Where each wrong question first fails: not stored, not shortlisted, dropped, cut, or \
            present and unused",
    source: "rawrag",
    needs: &[],
    analyse,
};

/// Where a question fails first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Point {
    Lost(Loss),
    Unused,
    /// The question has no message that holds its answer, so nothing can be lost.
    NoGold,
    Unknown,
}

const POINTS: [(Point, &str); 7] = [
    (Point::Lost(Loss::NotStored), "not stored"),
    (Point::Lost(Loss::NotShortlisted), "not shortlisted"),
    (Point::Lost(Loss::Dropped), "dropped by the selector"),
    (Point::Lost(Loss::Cut), "cut by the budget"),
    (Point::Unused, "present but unused"),
    (Point::NoGold, "nothing to find"),
    (Point::Unknown, "unknown"),
];

impl Point {
    fn name(self) -> &'static str {
        let found = POINTS.iter().find(|(point, _)| *point == self);
        found.map_or("unknown", |(_, name)| name)
    }
}

/// A question that fails.
struct Failure<'a> {
    key: &'a Key,
    kind: &'a str,
    score: Option<f64>,
    point: Point,
    why: String,
}

fn analyse(input: &Input<'_>) -> Result<Report, DiagnosticError> {
    let (mut systems, mut kinds, mut listed) = (Vec::new(), Vec::new(), Vec::new());
    let mut notes = Vec::new();
    for &run in &input.runs {
        let name = run.manifest.name.as_str();
        let judged = run.questions.iter().any(|q| !q.judgments.is_empty());
        let judge = judged
            .then(|| judge(FAILURE.name, run, &input.settings))
            .transpose()?;
        if judge.is_none() {
            notes.push(format!(
                "{name}: not judged, so only questions whose answer does not wholly reach the \
                 reader count as failed."
            ));
        }
        let failures = failures(run, judge, input);
        let asked = |kind: &str| run.questions.iter().filter(|q| q.kind == kind).count();
        systems.push(counts(name, None, run.questions.len(), &failures));
        let mut by_kind: BTreeMap<&str, Vec<&Failure<'_>>> = BTreeMap::new();
        for question in &run.questions {
            by_kind.entry(&question.kind).or_default();
        }
        for failure in &failures {
            by_kind.entry(failure.kind).or_default().push(failure);
        }
        for (kind, failures) in by_kind {
            kinds.push(counts(name, Some(kind), asked(kind), failures));
        }
        listed.extend(failures.iter().map(|failure| {
            vec![
                name.into(),
                failure.key.conversation.as_str().into(),
                failure.key.question.as_str().into(),
                phase(failure.key).into(),
                failure.kind.into(),
                failure
                    .score
                    .map_or_else(|| Value::Absent("not judged".to_owned()), Value::Number),
                failure.point.name().into(),
                failure.why.as_str().into(),
            ]
        }));
    }
    Ok(Report {
        tables: vec![
            table("systems", "one run", &columns(false), systems),
            table(
                "kinds",
                "one kind of question of one run",
                &columns(true),
                kinds,
            ),
            table("questions", "one question that fails", &LISTED, listed),
        ],
        notes,
    })
}

fn phase(key: &Key) -> &'static str {
    match key.phase {
        None => "",
        Some(rawrag_records::Phase::Before) => "before",
        Some(rawrag_records::Phase::After) => "after",
    }
}

const LISTED: [Column; 8] = [
    RUN_COLUMN,
    Column::new("conversation", Unit::Text, "the conversation"),
    Column::new("question", Unit::Text, "the question"),
    Column::new(
        "phase",
        Unit::Text,
        "`before` or `after`, where it is asked twice",
    ),
    Column::new("kind", Unit::Text, "the benchmark's type of question"),
    Column::new("score", Unit::Rate, "share of its grades that are correct"),
    Column::new("point", Unit::Text, "where it first fails"),
    Column::new(
        "why",
        Unit::Text,
        "the messages that are lost there, by position, or why it is not known",
    ),
];

fn columns(by_kind: bool) -> Vec<Column> {
    let mut columns = vec![RUN_COLUMN];
    if by_kind {
        columns.push(Column::new(
            "kind",
            Unit::Text,
            "the benchmark's type of question",
        ));
    }
    columns.extend([
        Column::new("questions", Unit::Count, "questions"),
        Column::new("failed", Unit::Count, "those that fail"),
        Column::new(
            "not stored",
            Unit::Count,
            "nothing in the store comes from a message of the answer",
        ),
        Column::new(
            "not shortlisted",
            Unit::Count,
            "the first stage did not pass it on",
        ),
        Column::new("dropped", Unit::Count, "a later stage left it out"),
        Column::new("cut", Unit::Count, "it did not fit into the evidence"),
        Column::new("unused", Unit::Count, "the reader had all of it"),
        Column::new(
            "nothing to find",
            Unit::Count,
            "no message holds the answer",
        ),
        Column::new("unknown", Unit::Count, "the records do not tell"),
    ]);
    columns
}

fn counts<'a, 'b: 'a>(
    run: &str,
    kind: Option<&str>,
    questions: usize,
    failures: impl IntoIterator<Item = &'a (impl std::borrow::Borrow<Failure<'b>> + 'a)>,
) -> Vec<Value> {
    let points: Vec<Point> = failures.into_iter().map(|f| f.borrow().point).collect();
    let mut row: Vec<Value> = vec![run.into()];
    row.extend(kind.map(Value::from));
    row.push(questions.into());
    row.push(points.len().into());
    for (point, _) in POINTS {
        row.push(points.iter().filter(|p| **p == point).count().into());
    }
    row
}

fn failures<'a>(run: &'a Outputs, judge: Option<&str>, input: &Input<'_>) -> Vec<Failure<'a>> {
    let stages = Stages::of(run);
    let each = |question: &'a QuestionRecords| {
        let score = judge.map(|judge| score(question, judge, input.settings.ungraded).value);
        let fates = stages.fates(question, input.settings.depth);
        let failed = match score {
            // What counts for nothing is no failure.
            Some(score) => score.is_some_and(|score| score < 0.5),
            None => fates
                .as_ref()
                .is_some_and(|fates| first_loss(fates) != First::Whole),
        };
        failed.then(|| {
            let (point, why) = point(question, fates.as_deref());
            Failure {
                key: &question.key,
                kind: &question.kind,
                score: score.flatten(),
                point,
                why,
            }
        })
    };
    run.questions.iter().filter_map(each).collect()
}

fn point(question: &QuestionRecords, fates: Option<&[Fate]>) -> (Point, String) {
    let Some(fates) = fates else {
        return (
            Point::Unknown,
            "what the run found is not on record".to_owned(),
        );
    };
    if fates.is_empty() {
        return (
            Point::NoGold,
            "no message is marked as holding the answer".to_owned(),
        );
    }
    match first_loss(fates) {
        First::Whole => (Point::Unused, String::new()),
        First::Unknown(why) => (Point::Unknown, why.to_owned()),
        First::Lost(loss) => {
            let gold = Shown::of(question, None).map_or(&[][..], |shown| shown.gold);
            let lost = gold
                .iter()
                .zip(fates)
                .filter(|(_, fate)| **fate == Fate::Lost(loss));
            let lost: Vec<String> = lost.map(|(message, _)| message.to_string()).collect();
            let noun = if lost.len() == 1 {
                "message"
            } else {
                "messages"
            };
            (Point::Lost(loss), format!("{noun} {}", lost.join(", ")))
        }
    }
}
