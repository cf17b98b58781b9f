use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Timestamp;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Box<str>);

        impl $name {
            /// The id as its file spells it.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl<T: Into<Box<str>>> From<T> for $name {
            fn from(id: T) -> Self {
                Self(id.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}
pub(crate) use id;

id! {
    /// A conversation's id, unique within its benchmark (`conv-26`).
    ConversationId
}
id! {
    /// A session's id as its file spells it. Not unique: LongMemEval repeats some.
    SessionId
}
id! {
    /// A message's id as its file spells it (`D1:3`), or made from its position where the file
    /// has none.
    MessageId
}

/// Where a session stands in its conversation, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionPosition(pub u32);

/// Where a message stands in its conversation, counted over all sessions, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessagePosition(pub u32);

/// All sessions of one conversation, in source order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    /// Unique within its benchmark.
    pub id: ConversationId,
    /// In the order of the file, which need not be the order of their dates.
    pub sessions: Vec<Session>,
}

/// A dated run of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// As written; identify a session by its position.
    pub id: SessionId,
    /// When it began, if the file says so.
    pub date: Option<Timestamp>,
    /// In the order they were said. May be empty.
    pub messages: Vec<Message>,
}

/// One utterance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// As written; identify a message by its position.
    pub id: MessageId,
    /// The name the file gives, never flattened to a role where it has a name.
    pub speaker: String,
    /// What was said, byte for byte. May be empty.
    pub text: String,
    /// Captions of images shared with the message.
    pub captions: Vec<String>,
    /// The message's own date, where it has one apart from its session's.
    pub date: Option<Timestamp>,
}

impl Conversation {
    /// Number of messages in all sessions.
    pub fn message_count(&self) -> usize {
        self.sessions.iter().map(|s| s.messages.len()).sum()
    }

    /// Every message with its session's position and its own, in source order.
    pub fn messages(
        &self,
    ) -> impl Iterator<Item = (SessionPosition, MessagePosition, &Message)> + '_ {
        self.sessions
            .iter()
            .zip(0..)
            .flat_map(|(session, s)| session.messages.iter().map(move |m| (s, m)))
            .zip(0..)
            .map(|((s, message), m)| (SessionPosition(s), MessagePosition(m), message))
    }

    /// The message's own date, else its session's.
    pub fn date_of(&self, session: SessionPosition, message: &Message) -> Option<Timestamp> {
        message
            .date
            .or_else(|| self.sessions.get(session.0 as usize)?.date)
    }
}
