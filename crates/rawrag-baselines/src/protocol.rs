//! The wrapper protocol: one JSON object a line, a request on the wrapper's standard input and its
//! response on its standard output. `docs/attach-a-system.md` describes it.
//!
//! A field that is not known, or a required one that is absent, is an error: a renamed field must
//! never read as an empty store. What may be null may also be left out.

use serde::{Deserialize, Serialize};

use crate::system::{Decision, Item, Said, Stored};

/// The version of the protocol that this program speaks.
pub const VERSION: u32 = 1;

/// A request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "lowercase", deny_unknown_fields)]
pub enum Request {
    /// The first: answered with a [`crate::Description`].
    Hello {
        /// [`VERSION`].
        protocol: u32,
    },
    /// Begins a conversation: answered with [`crate::Opened`].
    Open {
        /// The conversation's name.
        namespace: String,
        /// A folder for nothing but this conversation; it exists.
        folder: String,
        /// Whether nothing was added to it before.
        fresh: bool,
        /// The speakers' names.
        speakers: Vec<String>,
        /// The models to use, where the run names a service.
        models: Option<Models>,
        /// The system's own settings, from the command line.
        settings: serde_json::Map<String, serde_json::Value>,
    },
    /// Adds one ingestion unit: answered with [`Done`].
    Add {
        /// Its messages, in source order.
        messages: Vec<Said>,
    },
    /// Waits until everything added can be found: answered with [`Done`].
    Ready {},
    /// Searches: answered with [`Found`].
    Search {
        /// The question.
        question: String,
        /// How many items a perspective.
        k: usize,
        /// Nothing later may be returned, where the system declares that it can see to it.
        cutoff: Option<rawrag_corpus::Timestamp>,
    },
    /// Lists everything persisted: answered with [`Exported`].
    Export {},
    /// Lists write decisions: answered with [`Decided`].
    Decisions {},
    /// Reports usage: answered with [`crate::Usage`].
    Usage {},
    /// Ends: answered with [`Done`], after which the process exits with 0.
    Close {},
}

/// Models behind one OpenAI-compatible service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Models {
    /// Up to and with `/v1`.
    pub address: String,
    /// The chat model's name.
    pub chat: String,
    /// The embedder's name.
    pub embedding: String,
    /// Components of its vectors.
    pub dimension: usize,
}

/// A response: either field, never both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Response {
    /// The call's answer.
    Ok(serde_json::Value),
    /// Why it was not done, for a person.
    Error(String),
}

/// Nothing to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Done {}

/// What a search found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Found {
    /// Best first.
    pub items: Vec<Item>,
}

/// Everything persisted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exported {
    /// In any order.
    pub items: Vec<Stored>,
}

/// Write decisions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decided {
    /// In order of time.
    pub decisions: Vec<Decision>,
}

impl Request {
    /// The call's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Hello { .. } => "hello",
            Self::Open { .. } => "open",
            Self::Add { .. } => "add",
            Self::Ready {} => "ready",
            Self::Search { .. } => "search",
            Self::Export {} => "export",
            Self::Decisions {} => "decisions",
            Self::Usage {} => "usage",
            Self::Close {} => "close",
        }
    }
}
