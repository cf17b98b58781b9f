//! Histories and questions: the types every other crate works on.
//!
//! A [`Conversation`] is a list of dated [`Session`]s of [`Message`]s; a [`Question`] names the
//! conversation it is asked about, its typed [`Gold`] and its [`Evidence`]. Positions
//! ([`MessagePosition`], [`SessionPosition`]) rather than the ids a file happens to carry identify
//! messages and sessions, because real files repeat ids.
//!
//! [`load`] reads a whole file, [`read`] one conversation at a time; both give a [`Report`] of
//! everything odd in it and how that was read. Which layouts are read stands at [`Format`].
//!
//! [`meme`] adds what MEME knows of an episode (entities, dependencies, which message says what);
//! [`synthetic`] makes histories whose answers are known by construction.
//!
//! This crate never guesses: what a file leaves out is `None`, what is odd is reported, and a date
//! that cannot be read is an error. It runs no model, and writes no file but a synthetic history
//! that is asked for.

mod conversation;
mod errata;
mod error;
mod hash;
pub mod meme;
mod question;
mod read;
pub mod releases;
mod report;
pub mod synthetic;
mod timestamp;

pub use conversation::{
    Conversation, ConversationId, Message, MessageId, MessagePosition, Session, SessionId,
    SessionPosition,
};
pub use errata::{Errata, Erratum, Reason};
pub use error::{Fault, LoadError};
pub use hash::{ContentHash, known_release};
pub use question::{Answer, Benchmark, Evidence, Gold, Kind, Phase, Question, QuestionId};
pub use read::{Entry, Format, Loaded, UnknownFormat, load, read};
pub use report::{Finding, Findings, Oddity, Report, Totals};
pub use timestamp::{Timestamp, TimestampError};
