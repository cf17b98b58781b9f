use std::fmt::Write as _;
use std::ops::Range;

use rawrag_corpus::{Conversation, Message, Timestamp};
use serde::{Deserialize, Serialize};

use crate::Chunk;

/// How a message is written out. Every rendering ends a message with one newline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rendering {
    /// `[2025-03-02 09:15] Ines: text [image: caption]`, with `unknown` for a missing date
    /// (Raw-RAG, B.1: date, speaker, content, captions as text).
    #[default]
    Dated,
    /// `Ines: text [image: caption]`.
    Speaker,
    /// `[Ines]: text`, then each caption on a line of its own after ` The image Caption: `
    /// (Nano-Memory's preparation of LoCoMo).
    NanoMemory,
}

impl Rendering {
    fn write(self, date: Option<Timestamp>, message: &Message, out: &mut String) {
        let Message {
            speaker,
            text,
            captions,
            ..
        } = message;
        // Writing into a String cannot fail.
        let _ = match (self, date) {
            (Self::Dated, Some(date)) => write!(out, "[{date}] {speaker}: {text}"),
            (Self::Dated, None) => write!(out, "[unknown] {speaker}: {text}"),
            (Self::Speaker, _) => write!(out, "{speaker}: {text}"),
            (Self::NanoMemory, _) => write!(out, "[{speaker}]: {text}"),
        };
        for caption in captions {
            let _ = match self {
                Self::Dated | Self::Speaker => write!(out, " [image: {caption}]"),
                Self::NanoMemory => write!(out, "\n The image Caption: {caption}"),
            };
        }
        out.push('\n');
    }
}

/// A conversation written out once, in source order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transcript {
    text: String,
    entries: Vec<Entry>,
}

/// Where a message stands in its transcript. The index of an entry is the message's position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Bytes of the transcript, the closing newline included.
    pub bytes: Range<usize>,
    /// Position of the message's session.
    pub session: u32,
}

impl Transcript {
    /// Writes out every message of `conversation`.
    pub fn new(conversation: &Conversation, rendering: Rendering) -> Self {
        let mut text = String::new();
        let mut entries = Vec::with_capacity(conversation.message_count());
        for (session, _, message) in conversation.messages() {
            let start = text.len();
            rendering.write(conversation.date_of(session, message), message, &mut text);
            entries.push(Entry {
                bytes: start..text.len(),
                session: session.0,
            });
        }
        Self { text, entries }
    }

    /// The whole text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// One entry a message, in source order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The messages at these positions as written, without the last one's closing newline.
    /// Positions past the end are left out.
    pub fn messages(&self, positions: Range<u32>) -> &str {
        let end = (positions.end as usize).min(self.entries.len());
        let entries = self
            .entries
            .get(positions.start as usize..end)
            .unwrap_or_default();
        match (entries.first(), entries.last()) {
            (Some(first), Some(last)) => &self.text[first.bytes.start..last.bytes.end - 1],
            _ => "",
        }
    }

    /// What a chunk of this transcript shows: whole characters, each in at least one chunk.
    pub fn shown(&self, chunk: &Chunk) -> &str {
        self.text.get(chunk.shown.clone()).unwrap_or_default()
    }
}
