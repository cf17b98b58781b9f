use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::{Encoding, Entry, Transcript};

/// What one chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "unit", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Unit {
    /// A window over the conversation's cl100k_base tokens.
    Window {
        /// Tokens in a window, 1 to 8,192.
        tokens: u16,
        /// Tokens shared with the window before, less than `tokens`.
        overlap: u16,
    },
    /// One message. Without overlap, so FactConsolidation's numbered facts stay apart.
    Message,
    /// Two successive messages of a session, an odd last one alone (Nano-Memory's
    /// user-response pair).
    Turn,
    /// One session.
    Session,
}

impl Unit {
    /// Raw-RAG's windows: 256 tokens, stride 224 (B.1).
    pub const WINDOW: Self = Self::Window {
        tokens: 256,
        overlap: 32,
    };

    /// Whether its sizes are in range.
    ///
    /// # Errors
    /// When they are not.
    pub fn check(self) -> Result<(), UnitError> {
        match self {
            Self::Window { tokens, .. } if !(1..=8192).contains(&tokens) => {
                Err(UnitError::Tokens(tokens))
            }
            Self::Window { tokens, overlap } if overlap >= tokens => {
                Err(UnitError::Overlap { tokens, overlap })
            }
            _ => Ok(()),
        }
    }
}

/// An indexed unit of a transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The exact bytes of the transcript. A window may begin or end inside a character.
    pub bytes: Range<usize>,
    /// The bytes shown: `bytes` with a character cut at the end completed, one cut at the start
    /// left to the chunk before, and for units other than windows without the closing newline.
    pub shown: Range<usize>,
    /// Tokens of the transcript under cl100k_base, for windows.
    pub tokens: Option<Range<usize>>,
    /// Positions of the messages it overlaps.
    pub messages: Range<u32>,
    /// Positions of the sessions it overlaps.
    pub sessions: Range<u32>,
}

/// A unit whose sizes make no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// Outside 1 to 8,192.
    #[error("a window of {0} tokens is out of range: choose 1 to 8192")]
    Tokens(u16),
    /// The window would not move.
    #[error(
        "an overlap of {overlap} tokens leaves a window of {tokens} no stride: choose less than {tokens}"
    )]
    Overlap {
        /// Tokens in a window.
        tokens: u16,
        /// Tokens shared.
        overlap: u16,
    },
}

/// Cuts a transcript into chunks, in source order. An empty transcript has none.
///
/// # Errors
/// When a window's sizes are out of range.
pub fn chunk(transcript: &Transcript, unit: Unit) -> Result<Vec<Chunk>, UnitError> {
    unit.check()?;
    let entries = transcript.entries();
    let sessions = || entries.chunk_by(|a, b| a.session == b.session);
    Ok(match unit {
        Unit::Window { tokens, overlap } => windows(transcript, tokens.into(), overlap.into()),
        Unit::Message => whole(entries.chunks(1)),
        Unit::Turn => whole(sessions().flat_map(|session| session.chunks(2))),
        Unit::Session => whole(sessions()),
    })
}

/// Chunks made of whole messages, from successive runs of entries.
fn whole<'a>(runs: impl Iterator<Item = &'a [Entry]>) -> Vec<Chunk> {
    let mut message = 0;
    runs.filter_map(|run| {
        let (first, last) = (run.first()?, run.last()?);
        let messages = message..message + run.len() as u32;
        message = messages.end;
        Some(Chunk {
            bytes: first.bytes.start..last.bytes.end,
            shown: first.bytes.start..last.bytes.end - 1,
            tokens: None,
            messages,
            sessions: first.session..last.session + 1,
        })
    })
    .collect()
}

fn windows(transcript: &Transcript, size: usize, overlap: usize) -> Vec<Chunk> {
    let (text, entries) = (transcript.text(), transcript.entries());
    // A newline followed by a message's first character always ends a pre-token, so encoding
    // message by message gives the tokens of the whole.
    let mut lengths = Vec::with_capacity(text.len() / 4);
    for entry in entries {
        Encoding::Cl100kBase.token_lengths(&text[entry.bytes.clone()], &mut lengths);
    }
    let mut chunks = Vec::with_capacity(lengths.len() / (size - overlap) + 1);
    let (mut start, mut byte, mut first) = (0, 0, 0);
    while start < lengths.len() {
        let end = (start + size).min(lengths.len());
        let bytes = byte..byte + sum(&lengths[start..end]);
        first += entries[first..].partition_point(|e| e.bytes.end <= bytes.start);
        let last = first + entries[first..].partition_point(|e| e.bytes.start < bytes.end);
        chunks.push(Chunk {
            shown: text.ceil_char_boundary(bytes.start)..text.ceil_char_boundary(bytes.end),
            bytes,
            tokens: Some(start..end),
            messages: first as u32..last as u32,
            sessions: entries[first].session..entries[last - 1].session + 1,
        });
        if end == lengths.len() {
            break;
        }
        byte += sum(&lengths[start..start + size - overlap]);
        start += size - overlap;
    }
    chunks
}

fn sum(lengths: &[u16]) -> usize {
    lengths.iter().map(|&length| usize::from(length)).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rawrag_corpus::{Conversation, Message, Session};

    use super::*;
    use crate::Rendering;

    fn conversation(sessions: Vec<Vec<(String, Vec<String>)>>) -> Conversation {
        let session = |messages: Vec<(String, Vec<String>)>| Session {
            id: "s".into(),
            date: None,
            messages: messages
                .into_iter()
                .map(|(text, captions)| Message {
                    id: "m".into(),
                    speaker: "Zoë".into(),
                    text,
                    captions,
                    date: None,
                })
                .collect(),
        };
        Conversation {
            id: "c".into(),
            sessions: sessions.into_iter().map(session).collect(),
        }
    }

    fn any_conversation() -> impl Strategy<Value = Conversation> {
        let text = prop_oneof![
            6 => "(\\PC|[ \\n\\t]){0,40}",
            1 => Just("𝔘𝔫𝔦 👩🏽‍🚀 ".repeat(300)),
            1 => Just("<|endoftext|>".to_owned()),
        ];
        let message = (text, prop::collection::vec("\\PC{0,20}", 0..2));
        prop::collection::vec(prop::collection::vec(message, 0..6), 0..5).prop_map(conversation)
    }

    fn any_unit() -> impl Strategy<Value = Unit> {
        prop_oneof![
            (1u16..300)
                .prop_flat_map(|tokens| (Just(tokens), 0..tokens))
                .prop_map(|(tokens, overlap)| Unit::Window { tokens, overlap }),
            Just(Unit::WINDOW),
            Just(Unit::Message),
            Just(Unit::Turn),
            Just(Unit::Session),
        ]
    }

    proptest! {
        #[test]
        fn chunks_cover_and_link(
            conversation in any_conversation(),
            unit in any_unit(),
            rendering in prop_oneof![Just(Rendering::Dated), Just(Rendering::Speaker), Just(Rendering::NanoMemory)],
        ) {
            let transcript = Transcript::new(&conversation, rendering);
            let text = transcript.text();
            let chunks = chunk(&transcript, unit).expect("sizes in range");

            // Every byte of the transcript is in a chunk, in order.
            let mut reached = 0;
            for chunk in &chunks {
                prop_assert!(chunk.bytes.start <= reached && reached < chunk.bytes.end);
                reached = chunk.bytes.end;
            }
            prop_assert_eq!(reached, text.len());

            // Shown text is a slice of the transcript, and every character is shown whole.
            let mut shown_to = 0;
            for chunk in &chunks {
                prop_assert!(text.get(chunk.shown.clone()).is_some());
                prop_assert!(text[shown_to..chunk.shown.start.max(shown_to)].trim_matches('\n').is_empty());
                shown_to = shown_to.max(chunk.shown.end);
            }
            prop_assert!(text[shown_to..].trim_matches('\n').is_empty());

            // Links name exactly the messages whose bytes overlap, and their sessions.
            for chunk in &chunks {
                let overlapping: Vec<u32> = (0..).zip(transcript.entries())
                    .filter(|(_, e)| e.bytes.start < chunk.bytes.end && chunk.bytes.start < e.bytes.end)
                    .map(|(m, _)| m).collect();
                prop_assert_eq!(chunk.messages.clone().collect::<Vec<_>>(), overlapping);
                let session = |m: u32| transcript.entries()[m as usize].session;
                prop_assert_eq!(chunk.sessions.clone(), session(chunk.messages.start)..session(chunk.messages.end - 1) + 1);
            }

            // Token spans are the windows asked for.
            if let Unit::Window { tokens, overlap } = unit {
                let (size, stride) = (usize::from(tokens), usize::from(tokens - overlap));
                for (i, chunk) in chunks.iter().enumerate() {
                    let span = chunk.tokens.clone().expect("windows have tokens");
                    prop_assert_eq!(span.start, i * stride);
                    prop_assert!(span.len() == size || (i + 1 == chunks.len() && span.len() <= size));
                }
                let total = Encoding::Cl100kBase.count(text);
                prop_assert_eq!(chunks.last().map_or(0, |c| c.tokens.clone().map_or(0, |t| t.end)), total);
            }
        }
    }

    #[test]
    fn a_turn_is_two_messages_of_one_session() {
        let message = |text: &str| (text.to_owned(), vec![]);
        let conversation = conversation(vec![
            vec![message("a"), message("b"), message("c")],
            vec![],
            vec![message("d")],
        ]);
        let transcript = Transcript::new(&conversation, Rendering::NanoMemory);
        let chunks = chunk(&transcript, Unit::Turn).expect("no sizes");
        let shown: Vec<_> = chunks.iter().map(|c| transcript.shown(c)).collect();
        assert_eq!(shown, ["[Zoë]: a\n[Zoë]: b", "[Zoë]: c", "[Zoë]: d"]);
        assert_eq!(chunks[2].sessions, 2..3);
    }

    #[test]
    fn sizes_out_of_range_are_refused() {
        let transcript = Transcript::new(&conversation(vec![]), Rendering::Dated);
        let window = |tokens, overlap| chunk(&transcript, Unit::Window { tokens, overlap });
        assert_eq!(window(0, 0), Err(UnitError::Tokens(0)));
        assert_eq!(window(9000, 0), Err(UnitError::Tokens(9000)));
        assert_eq!(
            window(32, 32),
            Err(UnitError::Overlap {
                tokens: 32,
                overlap: 32
            })
        );
        assert_eq!(window(256, 32), Ok(vec![]));
    }
}
