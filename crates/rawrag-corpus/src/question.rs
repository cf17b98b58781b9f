use std::fmt;

use serde::{Deserialize, Serialize};

use crate::conversation::id;
use crate::{ConversationId, MessagePosition, SessionPosition, Timestamp};

id! {
    /// A question's id, unique within its conversation and phase (`conv-26/17`).
    QuestionId
}
id! {
    /// The benchmark's name for a type of question (`multi-hop`, `temporal-reasoning`).
    Kind
}

/// Which benchmark a question or history comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Benchmark {
    /// LoCoMo, the ten-conversation release.
    Locomo,
    /// LongMemEval (S, M or oracle).
    Longmemeval,
    /// MEME: episodes with dependency rules, asked before and after a change.
    Meme,
    /// MemoryAgentBench: fourteen sources, four capabilities.
    Memoryagentbench,
    /// PersonaMem-v2: multiple choice over 32k-token histories.
    Personamem,
    /// BEAM: chats of 100 thousand to 10 million tokens with probing questions.
    Beam,
    /// Long-MT-Bench+.
    LongMtBenchPlus,
    /// A history of the user's own: chat JSONL or an exported archive.
    Own,
    /// Made by a generator ([`synthetic`](crate::synthetic)): no benchmark's data. The source
    /// names the family of tasks.
    Synthetic,
}

impl Benchmark {
    /// The name used in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Locomo => "locomo",
            Self::Longmemeval => "longmemeval",
            Self::Meme => "meme",
            Self::Memoryagentbench => "memoryagentbench",
            Self::Personamem => "personamem",
            Self::Beam => "beam",
            Self::LongMtBenchPlus => "long-mt-bench-plus",
            Self::Own => "own",
            Self::Synthetic => "synthetic",
        }
    }
}

impl fmt::Display for Benchmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Whether a question is asked before or after the change it is about (MEME).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Before the change.
    Before,
    /// After the change.
    After,
}

/// A question about one conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Where it comes from.
    pub benchmark: Benchmark,
    /// The data source inside the benchmark, where it has several (MemoryAgentBench).
    pub source: Option<String>,
    /// The conversation it is asked about.
    pub conversation: ConversationId,
    /// Unique within conversation and phase.
    pub id: QuestionId,
    /// Present where the benchmark asks the same question twice.
    pub phase: Option<Phase>,
    /// The benchmark's type of question.
    pub kind: Kind,
    /// The question, as written.
    pub text: String,
    /// The replies to choose from, in the order of the file; empty where the answer is open.
    pub options: Vec<String>,
    /// When it is asked: nothing later may be used to answer it.
    pub cutoff: Option<Timestamp>,
    /// The right answer, where one is known.
    pub gold: Option<Gold>,
    /// Where the answer stands in the conversation.
    pub evidence: Evidence,
}

/// What a right answer is.
#[derive(Clone, Debug, PartialEq)]
pub enum Gold {
    /// An answer to be matched. Never empty.
    Answer(Answer),
    /// The question presumes something that was never said (LoCoMo category 5). The lure is the
    /// wrong answer it invites, never a gold answer.
    Adversarial {
        /// The inviting wrong answer.
        lure: String,
        /// The answer that two such items carry beside their lure.
        answer: Option<Answer>,
    },
    /// The history does not hold the answer and saying so is right (LongMemEval `_abs`;
    /// MEME's Del and Abs after the change).
    Abstention {
        /// The file's own account of why it cannot be answered.
        explanation: String,
    },
    /// One of the question's options (PersonaMem).
    Choice {
        /// Its position among the options, from 0.
        option: u32,
    },
    /// What a good reply says, point by point (BEAM; MemoryAgentBench's summaries).
    Rubric {
        /// A reply that the file holds up as good.
        ideal: Option<Answer>,
        /// The points, in the order of the file. Never empty.
        points: Vec<String>,
    },
}

/// A gold answer in the type its file gives it.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// A string.
    Text(String),
    /// A number, in the file's own spelling.
    Number(String),
    /// A truth value.
    Bool(bool),
    /// Several values, all wanted, in order.
    List(Vec<String>),
    /// Several spellings, any one of which is right (MemoryAgentBench).
    AnyOf(Vec<String>),
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) | Self::Number(text) => f.write_str(text),
            Self::Bool(value) => write!(f, "{value}"),
            Self::List(values) => f.write_str(&values.join(", ")),
            Self::AnyOf(values) => f.write_str(&values.join(" | ")),
        }
    }
}

/// Where the answer to a question stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The messages named, ascending, each once.
    pub messages: Vec<MessagePosition>,
    /// The sessions named or holding a named message, ascending, each once.
    pub sessions: Vec<SessionPosition>,
    /// The references exactly as the file writes them, in its order.
    pub written: Vec<String>,
    /// Those written references that name nothing in the conversation. Of several written as one
    /// string, the part.
    pub unresolved: Vec<String>,
}
