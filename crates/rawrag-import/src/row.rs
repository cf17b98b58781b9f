//! One row of a result file, whatever its layout.

use rawrag_records::JudgmentOutcome;
use serde_json::Value;

use crate::report::{Notes, Oddity};

/// What the rows of one file say, and what it says of them all.
#[derive(Debug, Default)]
pub(crate) struct Results {
    pub(crate) rows: Vec<Row>,
    pub(crate) reader: Option<String>,
    pub(crate) judge: Option<String>,
    pub(crate) endpoint: Option<String>,
}

/// One question with its answer and grades.
#[derive(Debug, Default)]
pub(crate) struct Row {
    /// Where it stands (`conversation 3 row 17`, `line 4`).
    pub(crate) place: String,
    /// How the file names its conversation.
    pub(crate) conversation: Option<String>,
    /// The question's position in its conversation, where the file says so.
    pub(crate) index: Option<usize>,
    /// The question's id.
    pub(crate) id: Option<String>,
    /// The data source inside the benchmark.
    pub(crate) source: Option<String>,
    pub(crate) question: Option<String>,
    /// The kind that the file's category number stands for.
    pub(crate) kind: Option<&'static str>,
    pub(crate) gold: Option<String>,
    pub(crate) answer: Reply,
    pub(crate) grades: Vec<Grade>,
}

/// What the reader gave.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Reply {
    /// None where the file holds no answer.
    pub(crate) text: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) milliseconds: Option<f64>,
}

/// What a judge made of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Grade {
    /// Present where each row names its judge.
    pub(crate) judge: Option<String>,
    pub(crate) outcome: JudgmentOutcome,
    pub(crate) score: Option<f64>,
    pub(crate) reply: Option<String>,
}

/// LoCoMo's categories by number, under the names of [`rawrag_corpus`].
const KINDS: [&str; 5] = [
    "multi-hop",
    "temporal",
    "open-domain",
    "single-hop",
    "adversarial",
];

/// The kind that a category stands for. Names are not read: public code uses four conflicting
/// sets of them.
pub(crate) fn kind(category: &Value, place: &str, notes: &mut Notes) -> Option<&'static str> {
    let number = match category {
        Value::Null => return None,
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.trim().parse().ok().inspect(|_| {
            notes.add(Oddity::CategoryAsText, place);
        }),
        _ => None,
    };
    let named = number
        .and_then(|number: u64| usize::try_from(number).ok()?.checked_sub(1))
        .and_then(|at| KINDS.get(at).copied());
    if named.is_none() {
        notes.add_detail(Oddity::CategoryNamed, place, short(&category.to_string()));
    }
    named
}

/// The answer as text. Numbers, truth values and lists keep their JSON spelling.
pub(crate) fn reply(answer: Value, place: &str, notes: &mut Notes) -> Reply {
    let text = match answer {
        Value::Null => {
            notes.add(Oddity::AnswerMissing, place);
            return Reply {
                error: Some("the file holds no answer".to_owned()),
                ..Reply::default()
            };
        }
        Value::String(text) => text,
        other => {
            notes.add(Oddity::AnswerNotText, place);
            other.to_string()
        }
    };
    if text.trim().is_empty() {
        notes.add(Oddity::AnswerEmpty, place);
    }
    Reply {
        text: Some(text),
        ..Reply::default()
    }
}

/// A gold answer as text, as [`rawrag_corpus::Answer`] writes it.
pub(crate) fn gold(answer: &Value) -> Option<String> {
    match answer {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// A label: a truth value, 0 or 1. Nothing else is read as one.
pub(crate) fn grade(label: &Value, place: &str, notes: &mut Notes) -> Grade {
    let is = |value: f64| label.as_f64().is_some_and(|x| (x - value).abs() == 0.0);
    let (outcome, score, reply) = match label {
        Value::Null => {
            notes.add(Oddity::LabelMissing, place);
            (JudgmentOutcome::Failed, None, None)
        }
        Value::Bool(true) => (JudgmentOutcome::Correct, None, None),
        Value::Bool(false) => (JudgmentOutcome::Wrong, None, None),
        Value::Number(_) if is(1.0) => (JudgmentOutcome::Correct, None, None),
        Value::Number(_) if is(0.0) => (JudgmentOutcome::Wrong, None, None),
        other => {
            notes.add_detail(Oddity::LabelUnreadable, place, short(&other.to_string()));
            let reply = Some(other.to_string());
            (JudgmentOutcome::Unparsed, other.as_f64(), reply)
        }
    };
    Grade {
        judge: None,
        outcome,
        score,
        reply,
    }
}

/// The beginning of a text for a message.
pub(crate) fn short(text: &str) -> String {
    const LENGTH: usize = 80;
    match text.char_indices().nth(LENGTH) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
