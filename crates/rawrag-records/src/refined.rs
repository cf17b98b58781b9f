//! What a model made of the evidence before a reader saw it.

use serde::{Deserialize, Serialize};

use crate::{AnswerOutcome, Column, Key, Phase, Record, Schema};

/// What became of a selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SelectionOutcome {
    /// The selector ordered the shortlist.
    Selected,
    /// It replied, and its reply holds no order.
    Unparsed,
    /// There was no reply.
    Failed,
}

/// One selector's order of one question's shortlist: `selections` (003, section 3).
///
/// The shortlist is the question's `retrievals` record. Where nothing was selected, the reader gets
/// the shortlist's first items.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "each field is described once, in the schema")]
pub struct Selection {
    pub benchmark: String,
    pub source: Option<String>,
    pub conversation: String,
    pub question: String,
    pub phase: Option<Phase>,
    pub outcome: SelectionOutcome,
    pub order: Vec<u32>,
    pub kept: u32,
    pub probabilities: Vec<f32>,
    pub reply: Option<String>,
    pub error: Option<String>,
    pub requests: u32,
    pub prompt_sha256: Option<String>,
    pub milliseconds: f64,
}

/// What is left of one question's evidence after pruning: `prunings` (Nano-Memory, 3.2).
///
/// Where there is no text, the reader gets the evidence as it was retrieved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "each field is described once, in the schema")]
pub struct Pruning {
    pub benchmark: String,
    pub source: Option<String>,
    pub conversation: String,
    pub question: String,
    pub phase: Option<Phase>,
    pub outcome: AnswerOutcome,
    pub text: Option<String>,
    pub tokens_before: u32,
    pub tokens: Option<u32>,
    pub error: Option<String>,
    pub model: Option<String>,
    pub prompt_sha256: Option<String>,
    pub input_tokens: Option<u32>,
    pub output_tokens: Option<u32>,
    pub milliseconds: f64,
}

impl Record for Selection {
    const SCHEMA: Schema = Schema {
        kind: "selections",
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
                "outcome",
                Column::Text,
                "`selected`, `unparsed` (a reply without an order) or `failed` (no reply)",
            ),
            (
                "order",
                Column::U32s,
                "places in the retrieval's lists, from 0, best first; the reader sees the first k",
            ),
            (
                "kept",
                Column::U32,
                "how many of these the selector kept; the others follow as the floor",
            ),
            (
                "probabilities",
                Column::F32s,
                "each item's probability of bearing on the question, in the retrieval's order; empty \
                 where the selector only orders",
            ),
            (
                "reply",
                Column::Text,
                "the selector's reply where it is text; null where the run is kept without text",
            ),
            ("error", Column::Text, "what went wrong, where it failed"),
            ("requests", Column::U32, "requests that it took"),
            (
                "prompt_sha256",
                Column::Text,
                "sha256 of the selector's prompt files, where it has any",
            ),
            (
                "milliseconds",
                Column::F64,
                "time from the first request to the order",
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

impl Record for Pruning {
    const SCHEMA: Schema = Schema {
        kind: "prunings",
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
                "outcome",
                Column::Text,
                "`answered`, `empty` (nothing bears on the question), `refused`, `filtered`, `cut` (at \
                 its maximum length) or `failed`",
            ),
            (
                "text",
                Column::Text,
                "what is left; null where there is no reply or the run is kept without text",
            ),
            (
                "tokens_before",
                Column::U32,
                "o200k_base tokens of the evidence as it was retrieved",
            ),
            (
                "tokens",
                Column::U32,
                "o200k_base tokens of what is left; null where there is no reply",
            ),
            ("error", Column::Text, "what went wrong, where it failed"),
            ("model", Column::Text, "the pruner, where it is known"),
            (
                "prompt_sha256",
                Column::Text,
                "sha256 of the pruner's prompt file",
            ),
            (
                "input_tokens",
                Column::U32,
                "tokens sent, as the service counts them",
            ),
            (
                "output_tokens",
                Column::U32,
                "tokens received, as the service counts them",
            ),
            (
                "milliseconds",
                Column::F64,
                "time from the request to the whole reply",
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
