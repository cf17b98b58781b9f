//! The result files that are JSON Lines, and the reading of any file.

use std::fs;
use std::path::Path;

use rawrag_records::JudgmentOutcome;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::report::{Notes, Oddity};
use crate::results::{self, Part};
use crate::row::{self, Grade, Reply, Results, Row, short};
use crate::{Format, ImportError};

/// A file as text, without a byte order mark, and the sha256 of its bytes.
pub(crate) fn load(path: &Path) -> Result<(String, String), ImportError> {
    let bytes = fs::read(path).map_err(|source| ImportError::Io {
        path: path.to_owned(),
        source,
    })?;
    let sha256 = hex(&Sha256::digest(&bytes));
    let text = String::from_utf8(bytes).map_err(|error| {
        let byte = error.utf8_error().valid_up_to();
        let before = error.as_bytes().get(..byte).unwrap_or_default();
        ImportError::NotUtf8 {
            path: path.to_owned(),
            line: 1 + before.iter().filter(|&&b| b == b'\n').count(),
            byte,
        }
    })?;
    match text.trim_start_matches('\u{feff}') {
        text if text.trim().is_empty() => Err(ImportError::Empty(path.to_owned())),
        text => Ok((text.to_owned(), sha256)),
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads a file in the format named, or else in the one it is told to be.
pub(crate) fn read(
    path: &Path,
    text: &str,
    format: Option<Format>,
    notes: &mut Notes,
) -> Result<(Format, Part), ImportError> {
    let format = match format {
        Some(format) => format,
        None => Format::detect(&head(path, text)?).map_err(|found| ImportError::UnknownFormat {
            path: path.to_owned(),
            found,
        })?,
    };
    let part = match format {
        Format::Longmemeval => Part::Results(longmemeval(&lines(path, text, notes)?, notes)),
        Format::Memoryagentbench => {
            Part::Results(memoryagentbench(lines(path, text, notes)?, notes))
        }
        format => results::read(path, text, format, notes)?,
    };
    Ok((format, part))
}

/// The whole file as one JSON value, or the first line of several.
fn head(path: &Path, text: &str) -> Result<Value, ImportError> {
    let whole = results::parse(path, text);
    let first = text.lines().find(|line| !line.trim().is_empty());
    match (whole, first.map(serde_json::from_str)) {
        (Ok(value), _) | (Err(_), Some(Ok(value @ Value::Object(_)))) => Ok(value),
        (Err(error), _) => Err(error),
    }
}

/// Every line with its number, from 1. A torn last line is noted and left out.
fn lines<T: DeserializeOwned>(
    path: &Path,
    text: &str,
    notes: &mut Notes,
) -> Result<Vec<(String, T)>, ImportError> {
    let mut rows = Vec::new();
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        let number: usize = number;
        if line.trim().is_empty() {
            continue;
        }
        let place = format!("line {number}");
        match serde_json::from_str(line) {
            Ok(row) => rows.push((place, row)),
            Err(error) if error.is_eof() && !line.ends_with('\n') => {
                notes.add(Oddity::LineTorn, &place);
            }
            Err(error) => {
                let problem = results::problem(&error);
                return Err(results::damaged(path, number - 1, &error, problem));
            }
        }
    }
    Ok(rows)
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct Hypothesis {
    question_id: String,
    #[serde(default)]
    hypothesis: Value,
    autoeval_label: Option<Label>,
}

#[derive(Deserialize, Clone)]
struct Label {
    model: Option<String>,
    #[serde(default)]
    label: Value,
}

/// Hypotheses alone have no judgments; where any line has a label, a line without one lacks it.
fn longmemeval(lines: &[(String, Hypothesis)], notes: &mut Notes) -> Results {
    let graded = lines.iter().find_map(|(_, l)| l.autoeval_label.as_ref());
    let judge = graded.and_then(|label| label.model.clone());
    let row = |(place, line): &(String, Hypothesis)| {
        let label = line.autoeval_label.clone();
        let (model, label) = label.map_or((judge.clone(), Value::Null), |l| (l.model, l.label));
        let grade = graded.map(|_| Grade {
            judge: model,
            ..row::grade(&label, place, notes)
        });
        Row {
            place: place.clone(),
            id: Some(line.question_id.clone()),
            answer: row::reply(line.hypothesis.clone(), place, notes),
            grades: grade.into_iter().collect(),
            ..Row::default()
        }
    };
    Results {
        rows: lines.iter().map(row).collect(),
        ..Results::default()
    }
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct BenchLine {
    source: String,
    instance_id: String,
    qa_pair_id: String,
    prompt: String,
    #[serde(default)]
    answer: Value,
    #[serde(default)]
    golds: Value,
    #[serde(default)]
    correct: Value,
    #[serde(default)]
    error: Value,
    score: Option<f64>,
}

fn memoryagentbench(lines: Vec<(String, BenchLine)>, notes: &mut Notes) -> Results {
    let row = |(place, line): (String, BenchLine)| {
        let error = row::gold(&line.error);
        let (answer, grade) = match &error {
            None => {
                let grade = row::grade(&line.correct, &place, notes);
                (row::reply(line.answer, &place, notes), grade)
            }
            Some(error) => {
                notes.add_detail(Oddity::AnswerFailed, &place, short(error));
                (Reply::default(), failed())
            }
        };
        Row {
            conversation: Some(line.instance_id),
            id: Some(line.qa_pair_id),
            source: Some(line.source),
            question: Some(line.prompt),
            gold: golds(&line.golds),
            answer: Reply { error, ..answer },
            grades: vec![Grade {
                score: line.score.or(grade.score),
                ..grade
            }],
            place,
            ..Row::default()
        }
    };
    Results {
        rows: lines.into_iter().map(row).collect(),
        ..Results::default()
    }
}

/// No answer, so nothing to grade, whatever label stands beside the error.
fn failed() -> Grade {
    Grade {
        judge: None,
        outcome: JudgmentOutcome::Failed,
        score: None,
        reply: None,
    }
}

/// Several spellings as [`rawrag_corpus::Answer::AnyOf`] writes them.
fn golds(golds: &Value) -> Option<String> {
    match golds {
        Value::Array(golds) => {
            let each: Vec<String> = golds.iter().filter_map(row::gold).collect();
            Some(each.join(" | "))
        }
        other => row::gold(other),
    }
}
