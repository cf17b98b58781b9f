//! What a run asked of services, and how long its stages took.

use serde::{Deserialize, Serialize};

use crate::{Column, Key, Record, Schema};

/// One attempt at a call to a service: `usage`. A call that was made again leaves several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "each field is described once, in the schema")]
pub struct Usage {
    pub number: u32,
    pub stage: String,
    pub model: String,
    pub address: String,
    pub outcome: String,
    pub status: Option<u32>,
    pub input_tokens: Option<u32>,
    pub cached_input_tokens: Option<u32>,
    pub output_tokens: Option<u32>,
    pub searches: Option<u32>,
    pub expected_input_tokens: u32,
    pub expected_output_tokens: u32,
    pub milliseconds: f64,
}

/// One stage of a run in one process: `timings`. A stage that was taken up again leaves several.
///
/// Indexing and searching are timed one by one, in `histories` and `retrievals`, apart from
/// answering (Raw-RAG, Appendix D.6).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "each field is described once, in the schema")]
pub struct Timing {
    pub number: u32,
    pub stage: String,
    pub recorded: u32,
    pub milliseconds: f64,
}

impl Record for Usage {
    const SCHEMA: Schema = Schema {
        kind: "usage",
        columns: &[
            ("number", Column::U32, "which attempt of the run, from 0"),
            (
                "stage",
                Column::Text,
                "what it was for: `write`, `read`, `answer`, `judge` or `assess`",
            ),
            ("model", Column::Text, "the model that was asked for"),
            ("address", Column::Text, "where the call went"),
            (
                "outcome",
                Column::Text,
                "`answered`, `refused` (not charged), `unsent`, `unknown` (perhaps charged) or \
                 `cached` (nothing was sent)",
            ),
            (
                "status",
                Column::U32,
                "HTTP status, where it was answered or refused",
            ),
            (
                "input_tokens",
                Column::U32,
                "tokens sent, as the service counts them; of a cached reply, those it cost once",
            ),
            (
                "cached_input_tokens",
                Column::U32,
                "of these, those the service sells cheaper because it had them",
            ),
            (
                "output_tokens",
                Column::U32,
                "tokens received, as the service counts them",
            ),
            ("searches", Column::U32, "search units charged"),
            (
                "expected_input_tokens",
                Column::U32,
                "tokens sent, as counted before the call",
            ),
            (
                "expected_output_tokens",
                Column::U32,
                "the call's output allowance",
            ),
            (
                "milliseconds",
                Column::F64,
                "time of the attempt; 0 from the cache",
            ),
        ],
    };

    fn identity(&self) -> String {
        format!("attempt {}", self.number)
    }

    fn key(&self) -> Option<Key> {
        None
    }
}

impl Record for Timing {
    const SCHEMA: Schema = Schema {
        kind: "timings",
        columns: &[
            ("number", Column::U32, "which stage of the run, from 0"),
            (
                "stage",
                Column::Text,
                "`retrieval`, `answering` or `judging by NAME`",
            ),
            (
                "recorded",
                Column::U32,
                "records that the stage added in this process",
            ),
            (
                "milliseconds",
                Column::F64,
                "wall time of the stage in this process",
            ),
        ],
    };

    fn identity(&self) -> String {
        format!("stage {}", self.number)
    }

    fn key(&self) -> Option<Key> {
        None
    }
}
