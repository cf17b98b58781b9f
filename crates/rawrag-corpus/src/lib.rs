//! Histories and questions: the types every other crate works on.
//!
//! A [`Conversation`] is a list of dated [`Session`]s of [`Message`]s; a [`Question`] names the
//! conversation it is asked about, its typed [`Gold`] and its [`Evidence`]. Positions
//! ([`MessagePosition`], [`SessionPosition`]) rather than the ids a file happens to carry identify
//! messages and sessions, because real files repeat ids.
//!
//! This crate never guesses: what a file leaves out is `None`, what is odd is reported, and a date
//! that cannot be read is an error. It runs no model and writes no file.

mod conversation;
mod question;
mod timestamp;

pub use conversation::{
    Conversation, ConversationId, Message, MessageId, MessagePosition, Session, SessionId,
    SessionPosition,
};
pub use question::{Answer, Benchmark, Evidence, Gold, Kind, Phase, Question, QuestionId};
pub use timestamp::{Timestamp, TimestampError};
