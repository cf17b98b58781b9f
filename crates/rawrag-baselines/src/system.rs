use std::fmt;

use rawrag_corpus::Timestamp;
use serde::{Deserialize, Serialize};

/// A memory system, holding at most one conversation at a time.
///
/// The calls come in this order: [`open`](Self::open), any number of [`add`](Self::add) and
/// [`ready`](Self::ready), then [`search`](Self::search) and the reports, at last
/// [`close`](Self::close). More may be added after a search.
pub trait MemorySystem {
    /// What it is and what it can do.
    fn description(&self) -> &Description;

    /// Begins a conversation.
    ///
    /// # Errors
    /// [`SystemError::Occupied`] for a fresh namespace that holds something,
    /// [`SystemError::Unsupported`] for one to be taken up again by a system that keeps nothing.
    fn open(&mut self, namespace: &Namespace) -> Result<Opened, SystemError>;

    /// Adds the messages of one ingestion unit, in source order.
    ///
    /// # Errors
    /// When the system refuses them or ends.
    fn add(&mut self, unit: &[Said]) -> Result<(), SystemError>;

    /// Returns once everything added can be found.
    ///
    /// # Errors
    /// When the system cannot get there.
    fn ready(&mut self) -> Result<(), SystemError>;

    /// The evidence for `question`, best first: at most `k` items a perspective, nothing dated after
    /// `cutoff` where the system declares [`Capabilities::cutoff`]. `k` of 0 gives nothing or is
    /// refused.
    ///
    /// # Errors
    /// When the system cannot search.
    fn search(
        &mut self,
        question: &str,
        k: usize,
        cutoff: Option<Timestamp>,
    ) -> Result<Vec<Item>, SystemError>;

    /// Everything persisted that a reader may come to see (Raw-RAG, C.5 and Table 33).
    ///
    /// # Errors
    /// [`SystemError::Unsupported`] where [`Capabilities::export`] is not declared.
    fn export(&mut self) -> Result<Vec<Stored>, SystemError>;

    /// What was decided about writes since the conversation was opened, in order; empty where the
    /// system decides nothing.
    ///
    /// # Errors
    /// When the system cannot tell.
    fn decisions(&mut self) -> Result<Vec<Decision>, SystemError>;

    /// What was used since the conversation was opened.
    ///
    /// # Errors
    /// When the system cannot tell.
    fn usage(&mut self) -> Result<Usage, SystemError>;

    /// Ends the conversation; what a system keeps stays.
    ///
    /// # Errors
    /// When what was added may not be kept.
    fn close(&mut self) -> Result<(), SystemError>;
}

/// What a system is and what it can do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// Its name in tables.
    pub name: String,
    /// Its own version, not the wrapper's.
    pub version: String,
    /// What it can do.
    pub capabilities: Capabilities,
    /// How messages should reach it.
    pub unit: Unit,
    /// What a reader of its numbers should know: deviations from its defaults, limits.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// What a system declares that it can do. What it lacks shows in the notes of tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capabilities {
    /// Items carry the date of their messages, never the time of ingestion.
    pub dates: bool,
    /// Speakers keep their names.
    pub speakers: bool,
    /// Searches leave out what is later than a cutoff; without it, prefixes are ingested.
    pub cutoff: bool,
    /// Items name the messages that they come from.
    pub provenance: bool,
    /// Memories may be deleted or overwritten.
    pub deletion: bool,
    /// Everything persisted can be listed.
    pub export: bool,
    /// What was added outlives the process.
    pub persistence: bool,
    /// Write decisions are reported.
    pub decisions: bool,
}

impl Capabilities {
    /// Each capability's name and whether it is declared.
    pub fn listed(self) -> [(&'static str, bool); 8] {
        [
            ("dates", self.dates),
            ("speakers", self.speakers),
            ("cutoff", self.cutoff),
            ("provenance", self.provenance),
            ("deletion", self.deletion),
            ("export", self.export),
            ("persistence", self.persistence),
            ("decisions", self.decisions),
        ]
    }
}

/// What one call of [`MemorySystem::add`] holds. No unit crosses a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// One session.
    Session,
    /// At most this many successive messages, at least 1.
    Messages(u32),
}

/// Where a conversation is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Its name: letters, digits, `-`, `_` and `.`, no dot first.
    pub name: String,
    /// Whether it must be new; otherwise one that was closed is taken up again.
    pub fresh: bool,
    /// The speakers' names, in the order in which they first speak.
    pub speakers: Vec<String>,
}

/// How a conversation was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Opened {
    /// The number of lists that a search returns, each of at most k items; 1 unless the system keeps
    /// one store a speaker, or returns items of different kinds apart.
    pub perspectives: u32,
}

/// A message on its way to a system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Said {
    /// Its position in the conversation, from 0: what provenance refers to.
    pub position: u32,
    /// Its session's position, from 0.
    pub session: u32,
    /// Its own date, else its session's.
    pub date: Option<Timestamp>,
    /// Who said it.
    pub speaker: String,
    /// What was said.
    pub text: String,
    /// Captions of images shared with it.
    pub captions: Vec<String>,
}

/// One item of evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// What the reader sees. Never empty.
    pub text: String,
    /// Positions of the messages that it comes from, ascending; `None` where the system does not
    /// know.
    pub messages: Option<Vec<u32>>,
    /// The date of its latest message.
    pub date: Option<Timestamp>,
    /// What ordered it, where the system tells.
    pub score: Option<f64>,
    /// The persisted object that it shows, where it has a name.
    pub stored: Option<String>,
}

/// One persisted object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    /// Its name, unique within the namespace.
    pub id: String,
    /// The text that a reader may come to see.
    pub text: String,
    /// Positions of the messages that it comes from; `None` where the system does not know.
    pub messages: Option<Vec<u32>>,
    /// The date of its latest message.
    pub date: Option<Timestamp>,
    /// Whose perspective it belongs to, where there are several.
    pub perspective: Option<String>,
}

/// One decision about a write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// The number of the ingestion unit that it belongs to, from 0.
    pub unit: u32,
    /// How far it got.
    pub level: Level,
    /// What was decided.
    pub event: Event,
    /// The memory, as the level names it: a model's own number, or the store's name.
    pub memory: Option<String>,
    /// The text before.
    pub old: Option<String>,
    /// The text after.
    pub new: Option<String>,
    /// Whose perspective it belongs to, where there are several.
    pub perspective: Option<String>,
}

/// How far a write decision got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The model's reply proposes it.
    Proposed,
    /// The system's call returned it.
    Returned,
    /// The system's own history holds it.
    Persisted,
}

/// What a write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Event {
    /// A new memory.
    Add,
    /// Another text for a memory.
    Update,
    /// A memory less.
    Delete,
    /// Nothing.
    None,
}

/// What a system used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    /// Calls of chat models.
    pub chat_calls: u64,
    /// Tokens sent to them, as their service counts.
    pub input_tokens: u64,
    /// Tokens that they wrote.
    pub output_tokens: u64,
    /// Calls of embedders.
    pub embedding_calls: u64,
    /// Texts that the system, or a model of this machine, cut.
    pub truncated: u64,
}

/// Why a system did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SystemError {
    /// It said so itself.
    #[error("{call}: {reason}")]
    Refused {
        /// The call.
        call: &'static str,
        /// Its own words.
        reason: String,
    },
    /// It cannot do this, and does not declare that it can.
    #[error("{0} is not supported by this system")]
    Unsupported(&'static str),
    /// A fresh namespace holds something.
    #[error(
        "{namespace} holds data already, and a fresh conversation may not be added to it: \
         choose another folder or remove it"
    )]
    Occupied {
        /// Its folder.
        namespace: String,
    },
    /// A folder is another process's.
    #[error("{folder} is in use by process {holder}: wait for it, or choose another folder")]
    Held {
        /// The folder.
        folder: String,
        /// The process that holds it, as it noted itself.
        holder: String,
    },
    /// It answered, but not what was asked.
    #[error("{call}: {problem}")]
    Contract {
        /// The call.
        call: &'static str,
        /// What is wrong, with the field.
        problem: String,
    },
    /// Its process ended, was killed or never began.
    #[error("{call}: {reason}; its error stream is in {stderr}")]
    Ended {
        /// The call during which it was noticed.
        call: &'static str,
        /// How it ended.
        reason: String,
        /// The file.
        stderr: String,
    },
    /// It did not answer over HTTP.
    #[error("{call}: {address}: {reason}")]
    Unreachable {
        /// The call.
        call: &'static str,
        /// Where it was sent.
        address: String,
        /// What came of it.
        reason: String,
    },
    /// A file or stream of this side failed.
    #[error("{0}")]
    Io(String),
}

/// The most kinds of items that a system may return in lists of their own.
const MOST_KINDS: usize = 4;

impl Opened {
    /// Whether there can be so many perspectives.
    pub(crate) fn check(self, namespace: &Namespace) -> Result<(), SystemError> {
        let most = MOST_KINDS * namespace.speakers.len().max(1);
        if self.perspectives == 0 || self.perspectives as usize > most {
            return Err(SystemError::Contract {
                call: "open",
                problem: format!(
                    "perspectives is {}; it must be 1 to {most}, {MOST_KINDS} kinds for each speaker",
                    self.perspectives
                ),
            });
        }
        Ok(())
    }
}

impl Namespace {
    /// Whether the name can be a folder's.
    ///
    /// # Errors
    /// [`SystemError::Refused`] with what may stand in it.
    pub fn check(&self) -> Result<(), SystemError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let name = &self.name;
        if name.is_empty() || name.starts_with('.') || !name.chars().all(allowed) {
            let reason = format!(
                "{name:?} is no name for a namespace: use letters, digits, -, _ and ., no dot first"
            );
            return Err(SystemError::Refused {
                call: "open",
                reason,
            });
        }
        Ok(())
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Add => "ADD",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::None => "NONE",
        })
    }
}
