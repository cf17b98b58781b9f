use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Expected, Key};

/// A kind of record: one file of a run, one schema.
pub trait Record: Serialize + DeserializeOwned {
    /// File stem and columns.
    const SCHEMA: Schema;

    /// What may occur once in the file, as text for a message.
    fn identity(&self) -> String;

    /// The question it is about, if it is about one.
    fn key(&self) -> Option<Key>;

    /// Which of a question's records of this kind it is, where there are several: its repetition.
    fn slot(&self) -> String {
        String::new()
    }

    /// The slots that a complete run fills for every question.
    fn slots(_expected: &Expected) -> Vec<String> {
        vec![String::new()]
    }
}

/// The columns of a kind of record, in file order.
#[derive(Clone, Copy, Debug)]
pub struct Schema {
    /// The file's stem: `retrievals` for `retrievals.jsonl` and `retrievals.parquet`.
    pub kind: &'static str,
    /// Name, type and meaning of every field.
    pub columns: &'static [(&'static str, Column, &'static str)],
}

/// The type of a column. Every column may be null where the record's field is optional.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the types")]
pub enum Column {
    Text,
    Bool,
    U32,
    F64,
    Texts,
    U32s,
    F32s,
}

/// What a system returned for one question: `retrievals`.
///
/// The lists `chunks` to `tokens` run side by side, one element an item of evidence, best first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "each field is described once, in the schema")]
pub struct Retrieval {
    pub benchmark: String,
    pub source: Option<String>,
    pub conversation: String,
    pub question: String,
    pub phase: Option<crate::Phase>,
    pub kind: String,
    pub gold_messages: Vec<u32>,
    pub gold_sessions: Vec<u32>,
    pub gold_written: Vec<String>,
    pub available: u32,
    pub shortlist: u32,
    pub requested: u32,
    pub chunks: Vec<u32>,
    pub first_message: Vec<u32>,
    pub last_message: Vec<u32>,
    pub first_session: Vec<u32>,
    pub last_session: Vec<u32>,
    pub dense_score: Vec<f32>,
    pub dense_rank: Vec<u32>,
    pub score: Vec<f32>,
    pub tokens: Vec<u32>,
    pub evidence_tokens: Vec<u32>,
    pub milliseconds: f64,
}

impl Record for Retrieval {
    const SCHEMA: Schema = Schema {
        kind: "retrievals",
        columns: &[
            ("benchmark", Column::Text, "benchmark"),
            (
                "source",
                Column::Text,
                "data source inside the benchmark, where it has several",
            ),
            ("conversation", Column::Text, "conversation asked about"),
            ("question", Column::Text, "question id"),
            (
                "phase",
                Column::Text,
                "`before` or `after`, where the question is asked twice",
            ),
            ("kind", Column::Text, "the benchmark's type of question"),
            (
                "gold_messages",
                Column::U32s,
                "positions of the messages that hold the answer, ascending",
            ),
            (
                "gold_sessions",
                Column::U32s,
                "positions of their sessions, ascending",
            ),
            (
                "gold_written",
                Column::Texts,
                "evidence references as the benchmark writes them",
            ),
            (
                "available",
                Column::U32,
                "chunks of the conversation visible to the question",
            ),
            (
                "shortlist",
                Column::U32,
                "chunks that the dense stage passed on; fewer than available means it removed some",
            ),
            ("requested", Column::U32, "items asked for"),
            (
                "chunks",
                Column::U32s,
                "index of each returned chunk in its conversation, best first",
            ),
            (
                "first_message",
                Column::U32s,
                "position of the first message each overlaps",
            ),
            (
                "last_message",
                Column::U32s,
                "position of the last message each overlaps",
            ),
            (
                "first_session",
                Column::U32s,
                "position of the first session each overlaps",
            ),
            (
                "last_session",
                Column::U32s,
                "position of the last session each overlaps",
            ),
            (
                "dense_score",
                Column::F32s,
                "cosine to the question; empty where no dense stage ran",
            ),
            ("dense_rank", Column::U32s, "rank by that cosine, from 1"),
            (
                "score",
                Column::F32s,
                "score that ordered the items, higher first",
            ),
            (
                "tokens",
                Column::U32s,
                "o200k_base tokens of each item as shown",
            ),
            (
                "evidence_tokens",
                Column::U32s,
                "o200k_base tokens of the assembled evidence at each cutoff of the run's settings",
            ),
            (
                "milliseconds",
                Column::F64,
                "time from question text to evidence",
            ),
        ],
    };

    fn identity(&self) -> String {
        self.question_key().to_string()
    }

    fn key(&self) -> Option<Key> {
        Some(self.question_key())
    }
}

/// One conversation as it was indexed: `histories`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "each field is described once, in the schema")]
pub struct History {
    pub conversation: String,
    pub sessions: Vec<String>,
    pub messages: u32,
    pub chunks: u32,
    pub truncated: u32,
    pub milliseconds: f64,
}

impl Record for History {
    const SCHEMA: Schema = Schema {
        kind: "histories",
        columns: &[
            ("conversation", Column::Text, "conversation id"),
            (
                "sessions",
                Column::Texts,
                "session ids as written, by position",
            ),
            ("messages", Column::U32, "number of messages"),
            ("chunks", Column::U32, "number of chunks indexed"),
            (
                "truncated",
                Column::U32,
                "inputs cut at the embedder's maximum length",
            ),
            ("milliseconds", Column::F64, "time to index it"),
        ],
    };

    fn identity(&self) -> String {
        format!("conversation {}", self.conversation)
    }

    fn key(&self) -> Option<Key> {
        None
    }
}
