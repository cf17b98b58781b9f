//! From a conversation to the chunks that are indexed.
//!
//! A [`Transcript`] is a conversation written out once, message by message; [`chunk`] cuts it into
//! [`Chunk`]s, each of which knows its exact bytes, its tokens where it is cut by tokens, and the
//! messages and sessions it overlaps.
//!
//! ```
//! use rawrag_chunking::{Rendering, Transcript, Unit, chunk};
//! use rawrag_corpus::{Conversation, Message, Session};
//!
//! let message = |id: &str, speaker: &str, text: &str| Message {
//!     id: id.into(), speaker: speaker.into(), text: text.into(), captions: vec![], date: None,
//! };
//! let conversation = Conversation {
//!     id: "c".into(),
//!     sessions: vec![Session {
//!         id: "s1".into(),
//!         date: None,
//!         messages: vec![message("1", "Ines", "The pump is back."), message("2", "Olu", "At last!")],
//!     }],
//! };
//! let transcript = Transcript::new(&conversation, Rendering::Dated);
//! assert_eq!(transcript.text(), "[unknown] Ines: The pump is back.\n[unknown] Olu: At last!\n");
//! let chunks = chunk(&transcript, Unit::WINDOW)?;
//! assert_eq!(transcript.shown(&chunks[0]), transcript.text());
//! assert_eq!(chunks[0].messages, 0..2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Nothing here embeds, scores or reads files, and no text is ever changed: what a chunk shows is a
//! slice of its transcript.

mod encoding;
mod transcript;
mod unit;

pub use encoding::Encoding;
pub use transcript::{Entry, Rendering, Transcript};
pub use unit::{Chunk, Unit, UnitError, chunk};
