use std::fmt;
use std::str::FromStr;

use rawrag_corpus::Benchmark;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::row::short;

/// A layout of result files.
///
/// Fields that are not named here are left out.
///
/// | format | benchmark | layout |
/// | --- | --- | --- |
/// | `mem0` | LoCoMo | JSON: an object of conversations by number, each a list of `question`, `answer` (the gold answer), `response`, `category`, `llm_score` |
/// | `mirix` | LoCoMo | JSON: `detailed_results`, one list of such rows for all conversations |
/// | `evermemos` | LoCoMo | JSON: conversations, each a list of `question`, `answer`, `golden_answer`, `category`, `llm_judgments` |
/// | `zep` | LoCoMo | JSON: conversations, each a list of `question`, `answer`, `golden_answer`, `category`, `grade`; a second file with `duration_ms` may go with it |
/// | `eval-results` | LoCoMo | JSON: `detailed_results` by conversation: `question_id`, `question`, `golden_answer`, `generated_answer`, `category`, `llm_judgments`; `metadata` names reader and judge |
/// | `longmemeval` | LongMemEval | JSON Lines: `question_id`, `hypothesis` and, once graded, `autoeval_label` |
/// | `memoryagentbench` | MemoryAgentBench | JSON Lines: `source`, `instance_id`, `qa_pair_id`, `prompt`, `answer`, `golds`, `correct`, `error`, `score` |
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// mem0's evaluation, and those that took it over (Memobase, MIRIX's baselines).
    Mem0,
    /// MIRIX's own runs.
    Mirix,
    /// EverMemOS's early reference run.
    Evermemos,
    /// Zep's grades, and its responses.
    Zep,
    /// EverMemOS's later evaluation, and the full-context runs that follow it.
    EvalResults,
    /// LongMemEval's hypotheses, graded or not.
    Longmemeval,
    /// MemoryAgentBench's results.
    Memoryagentbench,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 7] = [
        Self::Mem0,
        Self::Mirix,
        Self::Evermemos,
        Self::Zep,
        Self::EvalResults,
        Self::Longmemeval,
        Self::Memoryagentbench,
    ];

    /// The name used on the command line and in manifests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mem0 => "mem0",
            Self::Mirix => "mirix",
            Self::Evermemos => "evermemos",
            Self::Zep => "zep",
            Self::EvalResults => "eval-results",
            Self::Longmemeval => "longmemeval",
            Self::Memoryagentbench => "memoryagentbench",
        }
    }

    /// The benchmark whose questions it is about.
    pub fn benchmark(self) -> Benchmark {
        match self {
            Self::Longmemeval => Benchmark::Longmemeval,
            Self::Memoryagentbench => Benchmark::Memoryagentbench,
            _ => Benchmark::Locomo,
        }
    }

    /// Whether its rows alone say what was asked.
    pub(crate) fn stands_alone(self) -> bool {
        self == Self::Memoryagentbench
    }

    /// What it is told by.
    fn mark(self) -> &'static str {
        match self {
            Self::Mem0 => "an object of conversations, rows with `response` and `llm_score`",
            Self::Mirix => "`detailed_results`, a list of rows with `llm_score`",
            Self::Evermemos => "an object of conversations, rows with `llm_judgments`",
            Self::Zep => "an object of conversations, rows with `grade` (or `duration_ms`)",
            Self::EvalResults => {
                "`detailed_results`, an object of conversations, rows with `llm_judgments`"
            }
            Self::Longmemeval => "lines with `question_id` and `hypothesis`",
            Self::Memoryagentbench => "lines with `qa_pair_id` and `correct`",
        }
    }

    pub(crate) fn list() -> String {
        let line = |format: Self| format!("  {:<17} {}\n", format.name(), format.mark());
        Self::ALL.map(line).concat()
    }

    /// Tells the format by a whole JSON file, or by the first line of JSON Lines.
    ///
    /// # Errors
    /// What the file holds, where that is no known format.
    pub(crate) fn detect(value: &Value) -> Result<Self, String> {
        let Value::Object(fields) = value else {
            return Err(match value {
                Value::Array(_) => "a list".to_owned(),
                _ => "a single value".to_owned(),
            });
        };
        let results = fields.get("detailed_results");
        let has = |row: Option<&Value>, field: &str| row.is_some_and(|r| r.get(field).is_some());
        if has(Some(value), "question_id") && has(Some(value), "hypothesis") {
            return Ok(Self::Longmemeval);
        }
        if has(Some(value), "qa_pair_id") && has(Some(value), "correct") {
            return Ok(Self::Memoryagentbench);
        }
        if let Some(Value::Array(rows)) = results
            && has(rows.first(), "llm_score")
        {
            return Ok(Self::Mirix);
        }
        let row = first_row(results.unwrap_or(value));
        if results.is_some() && has(row, "llm_judgments") {
            return Ok(Self::EvalResults);
        }
        match results {
            None if has(row, "llm_score") => Ok(Self::Mem0),
            None if has(row, "llm_judgments") => Ok(Self::Evermemos),
            None if has(row, "grade") || has(row, "duration_ms") => Ok(Self::Zep),
            _ => Err(describe(fields, row)),
        }
    }
}

/// The first row of the first conversation that has any.
fn first_row(conversations: &Value) -> Option<&Value> {
    let lists = conversations.as_object()?.values();
    lists.filter_map(|rows| rows.as_array()?.first()).next()
}

fn describe(fields: &Map<String, Value>, row: Option<&Value>) -> String {
    let names = |fields: &Map<String, Value>| {
        let first = fields
            .keys()
            .take(8)
            .map(|name| format!("`{}`", short(name)));
        first.collect::<Vec<_>>().join(", ")
    };
    if fields.is_empty() {
        return "an empty object".to_owned();
    }
    let found = format!("an object with the fields {}", names(fields));
    match row.and_then(Value::as_object) {
        Some(row) => format!("{found}, and rows with {}", names(row)),
        None => found,
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no format's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no format is called {0:?}; the formats are:\n{list}", list = Format::list().trim_end())]
pub struct UnknownFormat(pub String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        Self::ALL
            .into_iter()
            .find(|format| format.name() == name)
            .ok_or_else(|| UnknownFormat(name.to_owned()))
    }
}
