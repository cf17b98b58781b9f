//! Evidence that a file gives by its words, found again in the conversation.

use std::collections::HashMap;
use std::hash::Hash;

use crate::report::{Notes, Oddity};
use crate::{Conversation, Evidence, Message, MessagePosition, SessionPosition};

/// The messages of a conversation by what quotations name of them.
pub(super) struct Said<K>(HashMap<K, Vec<(SessionPosition, MessagePosition)>>);

impl<K: Eq + Hash> Said<K> {
    pub(super) fn of<'a>(conversation: &'a Conversation, key: impl Fn(&'a Message) -> K) -> Self {
        let mut said: HashMap<K, Vec<_>> = HashMap::new();
        for (session, position, message) in conversation.messages() {
            said.entry(key(message))
                .or_default()
                .push((session, position));
        }
        Self(said)
    }

    /// Every message that has the words of a quotation, wherever it stands. Quotations come with how
    /// the file refers to them; one without words, or whose words nobody said, is unresolved.
    pub(super) fn evidence(
        &self,
        quoted: impl IntoIterator<Item = (String, Option<K>)>,
        question: &str,
        notes: &mut Notes,
    ) -> Evidence {
        let mut evidence = Evidence::default();
        let mut found = Vec::new();
        for (written, words) in quoted {
            match words.and_then(|words| self.0.get(&words)) {
                Some(positions) => found.extend(positions),
                None => {
                    notes.add_detail(Oddity::EvidenceDangling, || {
                        (question.to_owned(), Some(written.clone()))
                    });
                    evidence.unresolved.push(written.clone());
                }
            }
            evidence.written.push(written);
        }
        found.sort_unstable();
        found.dedup();
        evidence.sessions = found.iter().map(|&(session, _)| session).collect();
        evidence.sessions.dedup();
        evidence.messages = found.into_iter().map(|(_, message)| message).collect();
        evidence
    }
}
