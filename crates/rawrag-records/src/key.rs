use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Answer, Assessment, EvidenceItem, Judgment, Pruning, Retrieval, Search, Selection};

/// Whether a question is asked before or after the change it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Before the change.
    Before,
    /// After the change.
    After,
}

/// What identifies a question in every record about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// The benchmark (`locomo`).
    pub benchmark: String,
    /// The data source inside the benchmark, where it has several.
    pub source: Option<String>,
    /// The conversation asked about.
    pub conversation: String,
    /// The question.
    pub question: String,
    /// Present where the question is asked twice.
    pub phase: Option<Phase>,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            benchmark,
            source,
            conversation,
            question,
            phase,
        } = self;
        f.write_str(benchmark)?;
        if let Some(source) = source {
            write!(f, "/{source}")?;
        }
        write!(f, " {conversation} {question}")?;
        match phase {
            Some(Phase::Before) => f.write_str(" (before)"),
            Some(Phase::After) => f.write_str(" (after)"),
            None => Ok(()),
        }
    }
}

macro_rules! about_a_question {
    ($($record:ty),+) => {
        $(impl $record {
            /// The question it is about.
            pub fn question_key(&self) -> Key {
                Key {
                    benchmark: self.benchmark.clone(),
                    source: self.source.clone(),
                    conversation: self.conversation.clone(),
                    question: self.question.clone(),
                    phase: self.phase,
                }
            }
        })+
    };
}

about_a_question!(
    Retrieval,
    Search,
    EvidenceItem,
    Selection,
    Pruning,
    Answer,
    Judgment,
    Assessment
);
