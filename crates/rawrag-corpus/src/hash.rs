use std::fmt;

use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::{Answer, Benchmark, Conversation, Evidence, Gold, Message, Phase, Question, Timestamp};

/// SHA-256 of what was loaded: every conversation, session, message and question in source order.
///
/// It does not depend on the file's layout, key order, escapes or fields that are not loaded, so
/// the same data has the same hash in every repository, and an altered file has another.
///
/// # Byte layout
/// `string` is the length in bytes as u64, then UTF-8. `list(x)` is the number of items as u64,
/// then the items. `option(x)` is the byte 0, or the byte 1 and `x`. `date` is `string` of the
/// [`Timestamp`]'s text. Integers are little-endian.
/// ```text
/// content  = string("rawrag content 1") string(benchmark) entry*
/// entry    = byte(C) string(id) list(session) list(question)
/// session  = string(id) option(date) list(message)
/// message  = string(id) string(speaker) string(text) list(string caption) option(date)
/// question = option(string source) string(id) option(byte phase: 0 before, 1 after)
///            string(kind) string(text) option(date cutoff) option(gold) evidence
///            (byte(O) list(string option), where it has options)
/// gold     = byte(0) answer | byte(1) string(lure) option(answer) | byte(2) string(explanation)
///          | byte(3) u32 option | byte(4) option(answer ideal) list(string point)
/// answer   = byte(0) string | byte(1) string(number) | byte(2) byte(0 or 1) | byte(3) list(string)
///          | byte(4) list(string)
/// evidence = list(u32 message) list(u32 session) list(string written) list(string unresolved)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash([u8; 32]);

/// The name of the published release whose content has this hash.
pub fn known_release(hash: ContentHash) -> Option<&'static str> {
    const RELEASES: [(&str, &str); 1] = [(
        "768fb79bbac413f32ee8f96b32d6d7a17c0fc9da14dafcf113b81b6b15f7a641",
        "LoCoMo release, ten conversations (locomo10.json)",
    )];
    let hash = hash.to_string();
    RELEASES
        .iter()
        .find(|(known, _)| *known == hash)
        .map(|&(_, name)| name)
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Serialize for ContentHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Computes a [`ContentHash`] entry by entry.
pub(crate) struct ContentHasher {
    sha: Sha256,
    pending: Vec<u8>,
}

impl ContentHasher {
    pub(crate) fn new(benchmark: Benchmark) -> Self {
        let mut hasher = Self {
            sha: Sha256::new(),
            pending: Vec::new(),
        };
        hasher.string("rawrag content 1");
        hasher.string(benchmark.name());
        hasher
    }

    pub(crate) fn entry(&mut self, conversation: &Conversation, questions: &[Question]) {
        self.byte(b'C');
        self.string(conversation.id.as_str());
        self.list(&conversation.sessions, |h, session| {
            h.string(session.id.as_str());
            h.date(session.date);
            h.list(&session.messages, Self::message);
        });
        self.list(questions, Self::question);
    }

    pub(crate) fn finish(mut self) -> ContentHash {
        self.sha.update(&self.pending);
        ContentHash(self.sha.finalize().into())
    }

    fn message(&mut self, message: &Message) {
        self.string(message.id.as_str());
        self.string(&message.speaker);
        self.string(&message.text);
        self.list(&message.captions, |h, caption| h.string(caption));
        self.date(message.date);
        self.flush();
    }

    fn question(&mut self, question: &Question) {
        self.option(question.source.as_deref(), Self::string);
        self.string(question.id.as_str());
        self.option(question.phase, |h, phase| {
            h.byte(match phase {
                Phase::Before => 0,
                Phase::After => 1,
            });
        });
        self.string(question.kind.as_str());
        self.string(&question.text);
        self.date(question.cutoff);
        self.option(question.gold.as_ref(), Self::gold);
        self.evidence(&question.evidence);
        if !question.options.is_empty() {
            self.byte(b'O');
            self.list(&question.options, |h, option| h.string(option));
        }
        self.flush();
    }

    fn gold(&mut self, gold: &Gold) {
        match gold {
            Gold::Answer(answer) => {
                self.byte(0);
                self.answer(answer);
            }
            Gold::Adversarial { lure, answer } => {
                self.byte(1);
                self.string(lure);
                self.option(answer.as_ref(), Self::answer);
            }
            Gold::Abstention { explanation } => {
                self.byte(2);
                self.string(explanation);
            }
            Gold::Choice { option } => {
                self.byte(3);
                self.pending.extend(option.to_le_bytes());
            }
            Gold::Rubric { ideal, points } => {
                self.byte(4);
                self.option(ideal.as_ref(), Self::answer);
                self.list(points, |h, point| h.string(point));
            }
        }
    }

    fn answer(&mut self, answer: &Answer) {
        match answer {
            Answer::Text(text) => {
                self.byte(0);
                self.string(text);
            }
            Answer::Number(number) => {
                self.byte(1);
                self.string(number);
            }
            Answer::Bool(value) => {
                self.byte(2);
                self.byte(u8::from(*value));
            }
            Answer::List(values) => {
                self.byte(3);
                self.list(values, |h, value| h.string(value));
            }
            Answer::AnyOf(values) => {
                self.byte(4);
                self.list(values, |h, value| h.string(value));
            }
        }
    }

    fn evidence(&mut self, evidence: &Evidence) {
        self.list(&evidence.messages, |h, m| {
            h.pending.extend(m.0.to_le_bytes())
        });
        self.list(&evidence.sessions, |h, s| {
            h.pending.extend(s.0.to_le_bytes())
        });
        self.list(&evidence.written, |h, reference| h.string(reference));
        self.list(&evidence.unresolved, |h, reference| h.string(reference));
    }

    fn date(&mut self, date: Option<Timestamp>) {
        self.option(date, |h, date| h.string(&date.to_string()));
    }

    fn string(&mut self, text: &str) {
        self.pending.extend((text.len() as u64).to_le_bytes());
        self.pending.extend_from_slice(text.as_bytes());
    }

    fn list<T>(&mut self, items: &[T], mut each: impl FnMut(&mut Self, &T)) {
        self.pending.extend((items.len() as u64).to_le_bytes());
        items.iter().for_each(|item| each(self, item));
    }

    fn option<T>(&mut self, value: Option<T>, each: impl FnOnce(&mut Self, T)) {
        self.byte(u8::from(value.is_some()));
        if let Some(value) = value {
            each(self, value);
        }
    }

    fn byte(&mut self, byte: u8) {
        self.pending.push(byte);
    }

    /// Digests what is pending once there is enough of it for the digest to be fast.
    fn flush(&mut self) {
        if self.pending.len() >= 1 << 14 {
            self.sha.update(&self.pending);
            self.pending.clear();
        }
    }
}
