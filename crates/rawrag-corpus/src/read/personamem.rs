//! PersonaMem-v2: `benchmark.csv`, one multiple-choice question a row, and the 32k chat histories
//! that its rows link to.
//!
//! Rows that link to the same history share one conversation, in the order in which their histories
//! first come. A history is one undated session; its system messages, which spell out the persona,
//! are left out and counted. Links are relative to the release's root, which is looked for from the
//! CSV's folder upward.
//!
//! The release lists the right reply apart from the wrong ones and its program shuffles them anew
//! in each process, so there is no order to keep, and the right one first would give it away. They
//! are put in an order of their own: by SHA-256 of the question's id and the reply, the same in
//! every run. The layout follows the release's evaluation program; no real file has exercised this
//! reader.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::elements::Place;
use super::python::{Literal, literal};
use super::quoted::Said;
use super::{Entry, note_repeated_questions};
use crate::error::LoadError;
use crate::report::{Notes, Oddity};
use crate::{
    Benchmark, Conversation, ConversationId, Evidence, Gold, Kind, Message, MessageId, Question,
    QuestionId, Session, SessionId,
};

/// Where the questions stand in a folder of the release.
pub(super) const QUESTIONS: &str = "benchmark/text/benchmark.csv";

const LINK: &str = "chat_history_32k_link";

/// The columns that are read; the release has more, which describe how a question was made.
#[derive(Deserialize)]
struct Row {
    chat_history_32k_link: String,
    conversation_scenario: String,
    user_query: String,
    correct_answer: String,
    incorrect_answers: String,
    related_conversation_snippet: Option<String>,
}

#[derive(Deserialize)]
struct History {
    #[serde(alias = "conversations")]
    chat_history: Vec<Turn>,
}

#[derive(Deserialize)]
struct Turn {
    role: String,
    content: String,
}

/// The histories of a CSV, each with its questions.
pub(super) struct Histories<'a> {
    file: &'a Path,
    /// By link, with the number of each row from 1, in the order of their first rows; the next one
    /// last.
    waiting: Vec<(String, Vec<(u64, Row)>)>,
}

/// Whether the header of a CSV is that of the questions.
pub(super) fn is_header(line: &str) -> bool {
    let mut columns = line.split(',').map(|name| name.trim().trim_matches('"'));
    columns.any(|name| name == LINK)
}

impl<'a> Histories<'a> {
    pub(super) fn new(file: &'a Path) -> Result<Self, LoadError> {
        let place = Place::whole(file);
        let failed = |error: csv::Error| {
            let mend = "give benchmark.csv as released, one row a question";
            place.error("", error.to_string(), mend)
        };
        let mut csv = csv::Reader::from_path(file).map_err(|error| match error.into_kind() {
            csv::ErrorKind::Io(source) => LoadError::Read {
                file: file.to_owned(),
                source,
            },
            kind => place.error("", format!("{kind:?}"), "give benchmark.csv as released"),
        })?;
        let header = csv.headers().map_err(failed)?.clone();
        let mut order: HashMap<String, usize> = HashMap::new();
        let mut waiting: Vec<(String, Vec<(u64, Row)>)> = Vec::new();
        for (record, number) in csv.records().zip(1..) {
            let record = record.map_err(failed)?;
            let row: Row = record.deserialize(Some(&header)).map_err(failed)?;
            let link = row.chat_history_32k_link.trim().to_owned();
            let at = *order.entry(link.clone()).or_insert_with(|| {
                waiting.push((link, Vec::new()));
                waiting.len() - 1
            });
            waiting[at].1.push((number, row));
        }
        waiting.reverse();
        Ok(Self { file, waiting })
    }

    /// The next history and where its first question stands.
    pub(super) fn next(
        &mut self,
        notes: &mut Notes,
    ) -> Result<Option<(Entry, Place<'a>)>, LoadError> {
        let Some((link, rows)) = self.waiting.pop() else {
            return Ok(None);
        };
        let first = rows.first().map_or(0, |&(number, _)| number);
        let place = Place::whole(self.file).named(format!("row {first}"));
        let conversation = self.history(&link, &place, notes)?;
        let mut questions = Vec::with_capacity(rows.len());
        for (index, (number, row)) in rows.into_iter().enumerate() {
            let id = format!("{}/{index}", conversation.id);
            let place = Place::whole(self.file).named(format!("row {number}, question {id}"));
            questions.push(question(row, id, &conversation, &place, notes)?);
        }
        note_repeated_questions(&questions, notes);
        Ok(Some((
            Entry {
                conversation,
                questions,
            },
            place,
        )))
    }

    fn history(
        &self,
        link: &str,
        place: &Place<'_>,
        notes: &mut Notes,
    ) -> Result<Conversation, LoadError> {
        let file = self.find(link).ok_or_else(|| {
            let problem = format!("the chat history {link:?} is in no folder above the CSV");
            let mend = "keep the release's folders, or put the histories where the links say";
            place.error(LINK, problem, mend)
        })?;
        let text = fs::read_to_string(&file).map_err(|source| LoadError::Read {
            file: file.clone(),
            source,
        })?;
        let at = Place {
            file: &file,
            line: Some(1),
            name: String::new(),
        };
        let turns = if text.trim_start().starts_with('[') {
            at.parse_list(&text)?
        } else {
            at.parse::<History>(&text)?.chat_history
        };
        let id = Path::new(link)
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned())
            .unwrap_or_default();
        let mut messages = Vec::new();
        for (turn, ordinal) in turns.into_iter().zip(1_u32..) {
            if turn.role == "system" {
                notes.add(Oddity::PersonaMessage, || format!("{id} {ordinal}"));
                continue;
            }
            messages.push(Message {
                id: MessageId::from(ordinal.to_string()),
                speaker: turn.role,
                text: turn.content,
                captions: Vec::new(),
                date: None,
            });
        }
        Ok(Conversation {
            id: ConversationId::from(id),
            sessions: vec![Session {
                id: SessionId::from("history"),
                date: None,
                messages,
            }],
        })
    }

    /// The file that a link means: below the CSV's folder or one above it.
    fn find(&self, link: &str) -> Option<PathBuf> {
        let relative = Path::new(link);
        let plain = relative
            .components()
            .all(|part| matches!(part, std::path::Component::Normal(_)));
        if !plain || link.is_empty() {
            return None;
        }
        let csv = self.file.canonicalize().ok()?;
        csv.ancestors()
            .skip(1)
            .take(4)
            .map(|folder| folder.join(relative))
            .find(|file| file.is_file())
    }
}

fn question(
    row: Row,
    id: String,
    conversation: &Conversation,
    place: &Place<'_>,
    notes: &mut Notes,
) -> Result<Question, LoadError> {
    let right = row.correct_answer;
    if right.trim().is_empty() {
        let problem = "the right reply is empty";
        let mend = "give the reply, or take the question out";
        return Err(place.error("correct_answer", problem, mend));
    }
    let wrong = value(&row.incorrect_answers)
        .as_ref()
        .and_then(Literal::texts)
        .filter(|wrong| !wrong.is_empty())
        .ok_or_else(|| {
            let problem = "the wrong replies are no list of texts";
            let mend = "give a JSON or Python list of at least one reply";
            place.error("incorrect_answers", problem, mend)
        })?;
    let (options, option) = arrange(&id, right, wrong);
    if (1..options.len()).any(|n| options[..n].contains(&options[n])) {
        notes.add(Oddity::OptionsRepeated, || id.clone());
    }
    let scenario = row.conversation_scenario.trim();
    if scenario.is_empty() {
        notes.add(Oddity::KindUnknown, || id.clone());
    }
    let evidence = match row.related_conversation_snippet.as_deref() {
        Some(snippet) if !snippet.trim().is_empty() => find(snippet, conversation, &id, notes),
        _ => Evidence::default(),
    };
    Ok(Question {
        benchmark: Benchmark::Personamem,
        source: None,
        conversation: conversation.id.clone(),
        phase: None,
        kind: Kind::from(if scenario.is_empty() {
            "unstated"
        } else {
            scenario
        }),
        text: asked(row.user_query),
        options,
        cutoff: None,
        gold: Some(Gold::Choice { option }),
        evidence,
        id: QuestionId::from(id),
    })
}

/// The replies in their own order, and where the right one stands in it.
fn arrange(id: &str, right: String, wrong: Vec<String>) -> (Vec<String>, u32) {
    let mut options: Vec<(bool, String)> = std::iter::once((true, right))
        .chain(wrong.into_iter().map(|reply| (false, reply)))
        .collect();
    options.sort_by_cached_key(|(_, reply)| Sha256::digest(format!("{id}\n{reply}")));
    let option = options.iter().take_while(|(right, _)| !right).count();
    let replies = options.into_iter().map(|(_, reply)| reply).collect();
    (replies, u32::try_from(option).unwrap_or(u32::MAX))
}

/// The words of a query, which is a message written as JSON or as a Python dictionary, or words.
fn asked(query: String) -> String {
    value(&query)
        .as_ref()
        .and_then(|message| message.get("content"))
        .and_then(Literal::text)
        .map_or(query, str::to_owned)
}

/// A cell that holds JSON or a Python literal.
fn value(cell: &str) -> Option<Literal> {
    let json = serde_json::from_str(cell).ok().map(from_json);
    json.or_else(|| literal(cell).ok())
}

fn from_json(value: serde_json::Value) -> Literal {
    use serde_json::Value;
    match value {
        Value::Null => Literal::None,
        Value::Bool(value) => Literal::Bool(value),
        Value::Number(number) => Literal::Number(number.to_string()),
        Value::String(text) => Literal::Text(text),
        Value::Array(items) => Literal::List(items.into_iter().map(from_json).collect()),
        Value::Object(fields) => Literal::Dict(
            fields
                .into_iter()
                .map(|(key, value)| (Literal::Text(key), from_json(value)))
                .collect(),
        ),
    }
}

/// The messages that have the words of a snippet's messages.
fn find(snippet: &str, conversation: &Conversation, id: &str, notes: &mut Notes) -> Evidence {
    let Some(Literal::List(quoted)) = value(snippet) else {
        notes.add(Oddity::EvidenceUnreadable, || id.to_owned());
        return Evidence::default();
    };
    let said = Said::of(conversation, |message| message.text.as_str());
    let quoted = quoted.iter().enumerate().map(|(index, message)| {
        let words = message.get("content").and_then(Literal::text);
        (format!("related_conversation_snippet[{index}]"), words)
    });
    said.evidence(quoted, id, notes)
}
