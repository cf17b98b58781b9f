//! What a memory system returned, as text or without it.

use serde::{Deserialize, Serialize};

use crate::{Column, Key, Phase, Record, Schema};

/// What became of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SearchOutcome {
    /// The system answered, if only with nothing.
    Found,
    /// It did not.
    Failed,
}

/// One question put to a memory system: `searches`.
///
/// It counts only with its `returned` items of `evidence`, which are on disk before it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "each field is described once, in the schema")]
pub struct Search {
    pub benchmark: String,
    pub source: Option<String>,
    pub conversation: String,
    pub question: String,
    pub phase: Option<Phase>,
    pub kind: String,
    pub gold_messages: Vec<u32>,
    pub gold_sessions: Vec<u32>,
    pub visibility: String,
    pub outcome: SearchOutcome,
    pub error: Option<String>,
    pub requested: u32,
    pub returned: u32,
    pub evidence_tokens: u32,
    pub milliseconds: f64,
}

/// One item that a reader sees: `evidence`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "each field is described once, in the schema")]
pub struct EvidenceItem {
    pub benchmark: String,
    pub source: Option<String>,
    pub conversation: String,
    pub question: String,
    pub phase: Option<Phase>,
    pub rank: u32,
    pub text: Option<String>,
    pub tokens: u32,
    pub messages: Option<Vec<u32>>,
    pub sessions: Option<Vec<u32>>,
    pub date: Option<String>,
    pub score: Option<f64>,
    pub stored: Option<String>,
}

impl Record for Search {
    const SCHEMA: Schema = Schema {
        kind: "searches",
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
                "visibility",
                Column::Text,
                "how later messages were kept from the question: `filter` (the system leaves them out) \
                 or `prefix` (they were not ingested yet)",
            ),
            (
                "outcome",
                Column::Text,
                "`found`, or `failed`: what failed is no empty answer",
            ),
            ("error", Column::Text, "what went wrong, where it failed"),
            (
                "requested",
                Column::U32,
                "items asked for, all perspectives together",
            ),
            ("returned", Column::U32, "items returned"),
            (
                "evidence_tokens",
                Column::U32,
                "o200k_base tokens of the whole evidence as a reader sees it",
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

impl Record for EvidenceItem {
    const SCHEMA: Schema = Schema {
        kind: "evidence",
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
            (
                "rank",
                Column::U32,
                "its place as the reader sees it, from 1",
            ),
            (
                "text",
                Column::Text,
                "what the reader sees; null where the run is kept without text",
            ),
            ("tokens", Column::U32, "o200k_base tokens of that text"),
            (
                "messages",
                Column::U32s,
                "positions of the messages it comes from, ascending; null where the system does not \
                 know",
            ),
            (
                "sessions",
                Column::U32s,
                "positions of the sessions it comes from, ascending; null where it is not known",
            ),
            ("date", Column::Text, "date of its latest message"),
            (
                "score",
                Column::F64,
                "what ordered it, higher first, where the system tells",
            ),
            (
                "stored",
                Column::Text,
                "id of the persisted object that it shows, in `exports`",
            ),
        ],
    };

    fn identity(&self) -> String {
        format!("{} item {}", self.question_key(), self.rank)
    }

    /// None: a question has as many items as its search says.
    fn key(&self) -> Option<Key> {
        None
    }
}
