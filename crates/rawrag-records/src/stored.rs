//! What a memory system did with a history: what it took in, what it decided, what it keeps.

use serde::{Deserialize, Serialize};

use crate::{Column, Key, Phase, Record, Schema};

/// One ingestion unit that a memory system took in: `ingestions`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "each field is described once, in the schema")]
pub struct Ingestion {
    pub conversation: String,
    pub unit: u32,
    pub first_message: u32,
    pub last_message: u32,
    pub tokens: u32,
    pub milliseconds: f64,
    pub ready_milliseconds: Option<f64>,
}

/// One persisted object that a reader may come to see: `exports` (Raw-RAG, C.5 and Table 33).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "each field is described once, in the schema")]
pub struct StoredObject {
    pub conversation: String,
    pub phase: Option<Phase>,
    pub number: u32,
    pub id: String,
    pub text: Option<String>,
    pub tokens: u32,
    pub messages: Option<Vec<u32>>,
    pub sessions: Option<Vec<u32>>,
    pub date: Option<String>,
    pub perspective: Option<String>,
}

/// How far a decision about a write got (Raw-RAG, C.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// A model's reply proposes it: *emitted*.
    Proposed,
    /// The system's call returned it.
    Returned,
    /// The system's own history holds it.
    Persisted,
}

/// What a write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WriteEvent {
    /// A new memory.
    Add,
    /// Another text for a memory.
    Update,
    /// A memory less.
    Delete,
    /// Nothing.
    None,
}

/// One decision about a write: `decisions`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "each field is described once, in the schema")]
pub struct WriteDecision {
    pub conversation: String,
    pub number: u32,
    pub unit: Option<u32>,
    pub level: Level,
    pub event: WriteEvent,
    pub memory: Option<String>,
    pub old: Option<String>,
    pub new: Option<String>,
    pub changed: Option<bool>,
    pub perspective: Option<String>,
}

/// What a memory system says that it used for one conversation: `consumptions`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "each field is described once, in the schema")]
pub struct Consumption {
    pub conversation: String,
    pub error: Option<String>,
    pub chat_calls: Option<u32>,
    pub input_tokens: Option<u32>,
    pub output_tokens: Option<u32>,
    pub embedding_calls: Option<u32>,
    pub truncated: Option<u32>,
    pub add_milliseconds: f64,
    pub ready_milliseconds: f64,
    pub export_error: Option<String>,
    pub decisions_error: Option<String>,
}

impl Record for Ingestion {
    const SCHEMA: Schema = Schema {
        kind: "ingestions",
        columns: &[
            ("conversation", Column::Text, "conversation id"),
            (
                "unit",
                Column::U32,
                "number of the ingestion unit in its conversation, from 0",
            ),
            (
                "first_message",
                Column::U32,
                "position of its first message",
            ),
            ("last_message", Column::U32, "position of its last message"),
            (
                "tokens",
                Column::U32,
                "o200k_base tokens of its messages' text",
            ),
            ("milliseconds", Column::F64, "time that adding it took"),
            (
                "ready_milliseconds",
                Column::F64,
                "time until everything added could be found, where that was waited for after this unit",
            ),
        ],
    };

    fn identity(&self) -> String {
        format!("conversation {} unit {}", self.conversation, self.unit)
    }

    fn key(&self) -> Option<Key> {
        None
    }
}

impl Record for StoredObject {
    const SCHEMA: Schema = Schema {
        kind: "exports",
        columns: &[
            ("conversation", Column::Text, "conversation id"),
            (
                "phase",
                Column::Text,
                "`before` or `after` where the store was exported at both times; null for the final \
                 store",
            ),
            (
                "number",
                Column::U32,
                "its place among the exported objects of the conversation and phase, from 0",
            ),
            (
                "id",
                Column::Text,
                "its name in the store, unique in the conversation and phase",
            ),
            (
                "text",
                Column::Text,
                "the text that a reader may come to see; null where the run is kept without text",
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
                "perspective",
                Column::Text,
                "whose store it is in, where there is one a speaker",
            ),
        ],
    };

    fn identity(&self) -> String {
        let phase = match self.phase {
            Some(Phase::Before) => " (before)",
            Some(Phase::After) => " (after)",
            None => "",
        };
        format!(
            "conversation {}{phase} object {}",
            self.conversation, self.number
        )
    }

    fn key(&self) -> Option<Key> {
        None
    }
}

impl Record for WriteDecision {
    const SCHEMA: Schema = Schema {
        kind: "decisions",
        columns: &[
            ("conversation", Column::Text, "conversation id"),
            (
                "number",
                Column::U32,
                "its place among the conversation's decisions, from 0",
            ),
            (
                "unit",
                Column::U32,
                "ingestion unit that it belongs to, where that is known",
            ),
            (
                "level",
                Column::Text,
                "`proposed` (a model's reply), `returned` (the system's call) or `persisted` (its \
                 history)",
            ),
            ("event", Column::Text, "`add`, `update`, `delete` or `none`"),
            (
                "memory",
                Column::Text,
                "the memory as the level names it: a model's own number, or the store's id",
            ),
            (
                "old",
                Column::Text,
                "text before; null where there is none or the run is kept without text",
            ),
            (
                "new",
                Column::Text,
                "text after; null where there is none or the run is kept without text",
            ),
            (
                "changed",
                Column::Bool,
                "whether old and new text differ; null where either is not available",
            ),
            (
                "perspective",
                Column::Text,
                "whose store it is about, where there is one a speaker",
            ),
        ],
    };

    fn identity(&self) -> String {
        format!(
            "conversation {} decision {}",
            self.conversation, self.number
        )
    }

    fn key(&self) -> Option<Key> {
        None
    }
}

impl Record for Consumption {
    const SCHEMA: Schema = Schema {
        kind: "consumptions",
        columns: &[
            ("conversation", Column::Text, "conversation id"),
            (
                "error",
                Column::Text,
                "why the system could not say what it used",
            ),
            ("chat_calls", Column::U32, "calls of chat models"),
            (
                "input_tokens",
                Column::U32,
                "tokens sent to them, as their service counts",
            ),
            (
                "output_tokens",
                Column::U32,
                "tokens that they wrote, as their service counts",
            ),
            ("embedding_calls", Column::U32, "calls of embedders"),
            (
                "truncated",
                Column::U32,
                "texts that the system, or a model of this machine, cut",
            ),
            (
                "add_milliseconds",
                Column::F64,
                "time that adding took, all units together",
            ),
            (
                "ready_milliseconds",
                Column::F64,
                "time that it took beyond that until everything could be found",
            ),
            (
                "export_error",
                Column::Text,
                "why `exports` has nothing of the conversation, where that is not known",
            ),
            (
                "decisions_error",
                Column::Text,
                "why `decisions` has nothing of the conversation, where that is not known",
            ),
        ],
    };

    fn identity(&self) -> String {
        format!("conversation {}", self.conversation)
    }

    fn key(&self) -> Option<Key> {
        None
    }
}
