//! The result files that are one JSON value.

use std::fmt;
use std::marker::PhantomData;
use std::path::Path;

use serde::de::{DeserializeOwned, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::report::{Notes, Oddity};
use crate::row::{self, Grade, Reply, Results, Row};
use crate::{Format, ImportError};

/// What a file holds.
#[derive(Debug)]
pub(crate) enum Part {
    Results(Results),
    /// Zep's responses, which carry no grade.
    Responses(Vec<Response>),
}

/// An answer with the time it took.
#[derive(Debug)]
pub(crate) struct Response {
    place: String,
    conversation: String,
    question: String,
    answer: Reply,
}

/// Reads a file that is one JSON value.
pub(crate) fn read(
    path: &Path,
    text: &str,
    format: Format,
    notes: &mut Notes,
) -> Result<Part, ImportError> {
    let results = match format {
        Format::Mem0 => mem0(parse(path, text)?, notes),
        Format::Mirix => mirix(parse(path, text)?, notes),
        Format::Evermemos => evermemos(parse(path, text)?, notes),
        Format::EvalResults => eval_results(parse(path, text)?, notes),
        Format::Zep => return Ok(zep(parse(path, text)?, notes)),
        Format::Longmemeval | Format::Memoryagentbench => Results::default(),
    };
    Ok(Part::Results(results))
}

/// A list of pairs, written as an object, in the order of the file.
struct Pairs<T>(Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Pairs<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Each<T> {
            type Value = Pairs<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Pairs<T>, M::Error> {
                let mut pairs: Vec<(String, T)> = Vec::new();
                while let Some((name, value)) = map.next_entry()? {
                    if pairs.iter().any(|(earlier, _)| *earlier == name) {
                        return Err(M::Error::custom(format!("`{name}` stands here twice")));
                    }
                    pairs.push((name, value));
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(Each(PhantomData))
    }
}

impl<T> Pairs<Vec<T>> {
    /// Every row with its place and its conversation's name.
    fn rows(self) -> impl Iterator<Item = (String, String, T)> {
        self.0.into_iter().flat_map(|(conversation, rows)| {
            (0..).zip(rows).map(move |(at, row): (usize, T)| {
                let place = format!("conversation {conversation} row {at}");
                (place, conversation.clone(), row)
            })
        })
    }
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct Mem0Row {
    question: String,
    #[serde(default)]
    answer: Value,
    #[serde(default)]
    response: Value,
    #[serde(default)]
    category: Value,
    #[serde(default)]
    llm_score: Value,
}

impl Mem0Row {
    fn row(self, place: String, conversation: Option<String>, notes: &mut Notes) -> Row {
        Row {
            conversation,
            kind: row::kind(&self.category, &place, notes),
            gold: row::gold(&self.answer),
            answer: row::reply(self.response, &place, notes),
            grades: vec![row::grade(&self.llm_score, &place, notes)],
            question: Some(self.question),
            place,
            ..Row::default()
        }
    }
}

fn mem0(conversations: Pairs<Vec<Mem0Row>>, notes: &mut Notes) -> Results {
    let rows = conversations
        .rows()
        .map(|(place, conversation, row)| row.row(place, Some(conversation), notes))
        .collect();
    Results {
        rows,
        ..Results::default()
    }
}

#[derive(Deserialize)]
struct Mirix {
    detailed_results: Vec<Mem0Row>,
}

fn mirix(file: Mirix, notes: &mut Notes) -> Results {
    let rows = (0..).zip(file.detailed_results);
    Results {
        rows: rows
            .map(|(at, row): (usize, Mem0Row)| row.row(format!("row {at}"), None, notes))
            .collect(),
        ..Results::default()
    }
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct EvermemosRow {
    question: String,
    #[serde(default)]
    answer: Value,
    #[serde(default)]
    golden_answer: Value,
    #[serde(default)]
    category: Value,
    llm_judgments: Pairs<Value>,
    response_duration_ms: Option<f64>,
}

fn evermemos(conversations: Pairs<Vec<EvermemosRow>>, notes: &mut Notes) -> Results {
    let row = |(place, conversation, row): (String, String, EvermemosRow)| Row {
        conversation: Some(conversation),
        question: Some(row.question),
        kind: row::kind(&row.category, &place, notes),
        gold: row::gold(&row.golden_answer),
        answer: Reply {
            milliseconds: row.response_duration_ms,
            ..row::reply(row.answer, &place, notes)
        },
        grades: grades(row.llm_judgments, &place, notes),
        place,
        ..Row::default()
    };
    Results {
        rows: conversations.rows().map(row).collect(),
        ..Results::default()
    }
}

#[derive(Deserialize)]
struct EvalResults {
    detailed_results: Pairs<Vec<EvalRow>>,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Deserialize, Default)]
struct Metadata {
    answer_model: Option<String>,
    judge_model: Option<String>,
    base_url: Option<String>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct EvalRow {
    question_id: Option<String>,
    question: String,
    #[serde(default)]
    golden_answer: Value,
    #[serde(default)]
    generated_answer: Value,
    #[serde(default)]
    category: Value,
    llm_judgments: Pairs<Value>,
}

fn eval_results(file: EvalResults, notes: &mut Notes) -> Results {
    let row = |(place, conversation, row): (String, String, EvalRow)| Row {
        conversation: Some(conversation),
        index: row.question_id.as_deref().and_then(trailing_number),
        question: Some(row.question),
        kind: row::kind(&row.category, &place, notes),
        gold: row::gold(&row.golden_answer),
        answer: row::reply(row.generated_answer, &place, notes),
        grades: grades(row.llm_judgments, &place, notes),
        place,
        ..Row::default()
    };
    Results {
        rows: file.detailed_results.rows().map(row).collect(),
        reader: file.metadata.answer_model,
        judge: file.metadata.judge_model,
        endpoint: file.metadata.base_url,
    }
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct ZepRow {
    question: String,
    #[serde(default)]
    answer: Value,
    #[serde(default)]
    golden_answer: Value,
    #[serde(default)]
    category: Value,
    grade: Option<Value>,
    duration_ms: Option<f64>,
}

/// Grades, or responses where no row has a grade.
fn zep(conversations: Pairs<Vec<ZepRow>>, notes: &mut Notes) -> Part {
    let graded = |(_, rows): &(String, Vec<ZepRow>)| rows.iter().any(|row| row.grade.is_some());
    if !conversations.0.iter().any(graded) {
        let response = |(place, conversation, row): (String, String, ZepRow)| Response {
            conversation,
            question: row.question,
            answer: Reply {
                milliseconds: row.duration_ms,
                text: row.answer.as_str().map(str::to_owned),
                error: None,
            },
            place,
        };
        return Part::Responses(conversations.rows().map(response).collect());
    }
    let row = |(place, conversation, row): (String, String, ZepRow)| Row {
        conversation: Some(conversation),
        question: Some(row.question),
        kind: row::kind(&row.category, &place, notes),
        gold: row::gold(&row.golden_answer),
        answer: row::reply(row.answer, &place, notes),
        grades: vec![row::grade(&row.grade.unwrap_or_default(), &place, notes)],
        place,
        ..Row::default()
    };
    Part::Results(Results {
        rows: conversations.rows().map(row).collect(),
        ..Results::default()
    })
}

/// Adds the durations of responses to the rows that they are of: same conversation, question and
/// answer.
pub(crate) fn add_responses(rows: &mut [Row], responses: Vec<Response>, notes: &mut Notes) {
    for response in responses {
        let of_it = |row: &&mut Row| {
            row.answer.milliseconds.is_none()
                && row.conversation.as_ref() == Some(&response.conversation)
                && row.question.as_ref() == Some(&response.question)
                && row.answer.text == response.answer.text
        };
        match rows.iter_mut().find(of_it) {
            Some(row) => row.answer.milliseconds = response.answer.milliseconds,
            None => notes.add(Oddity::ResponseDiffers, &response.place),
        }
    }
    for row in rows.iter().filter(|row| row.answer.milliseconds.is_none()) {
        notes.add(Oddity::ResponseMissing, &row.place);
    }
}

/// Grades in the order of their numbers (`judgment_2` before `judgment_10`).
fn grades(judgments: Pairs<Value>, place: &str, notes: &mut Notes) -> Vec<Grade> {
    let mut judgments = judgments.0;
    judgments.sort_by_key(|(name, _)| trailing_number(name));
    let grades = judgments.iter();
    grades
        .map(|(_, label)| row::grade(label, place, notes))
        .collect()
}

/// The number that a name ends with (`locomo_exp_user_3`, `locomo_0_qa17`, `3`).
pub(crate) fn trailing_number(name: &str) -> Option<usize> {
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    name.get(name.len() - digits..)?.parse().ok()
}

/// Reads JSON whose damage or wrong types are named by line, column and path.
pub(crate) fn parse<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, ImportError> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let at = error.path().to_string();
        let problem = match at.as_str() {
            "." | "?" => problem(error.inner()),
            at => format!("{}: {}", row::short(at), problem(error.inner())),
        };
        damaged(path, 0, error.inner(), problem)
    })?;
    deserializer
        .end()
        .map_err(|error| damaged(path, 0, &error, problem(&error)))?;
    Ok(value)
}

/// The error without its position, which is named apart.
pub(crate) fn problem(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&place).unwrap_or(&text).to_owned()
}

pub(crate) fn damaged(
    path: &Path,
    lines_before: usize,
    error: &serde_json::Error,
    problem: String,
) -> ImportError {
    ImportError::Damaged {
        path: path.to_owned(),
        line: lines_before + error.line(),
        column: error.column(),
        problem,
        mend: if error.is_eof() {
            "the file is cut off: download it again"
        } else if error.is_data() {
            "the file is of another format, or damaged; say which with --format"
        } else {
            "it is no JSON there; where Python wrote NaN, put null"
        },
    }
}
