use std::ops::Range;

use rawrag_corpus::{Conversation, Message, Session, Timestamp};

use crate::system::Said;

/// The messages that were added to a conversation, as a conversation of their own: it may be a part
/// of the one that they come from, so each keeps its position there.
#[derive(Debug)]
pub(crate) struct Gathered {
    conversation: Conversation,
    positions: Vec<u32>,
    dates: Vec<Option<Timestamp>>,
}

impl Gathered {
    pub(crate) fn new(id: &str) -> Self {
        Self {
            conversation: Conversation {
                id: id.into(),
                sessions: Vec::new(),
            },
            positions: Vec::new(),
            dates: Vec::new(),
        }
    }

    pub(crate) fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// Each message's position where it comes from.
    pub(crate) fn positions(&self) -> &[u32] {
        &self.positions
    }

    /// Each message's date.
    pub(crate) fn dates(&self) -> &[Option<Timestamp>] {
        &self.dates
    }

    pub(crate) fn add(&mut self, unit: &[Said]) {
        for said in unit {
            let name = said.session.to_string();
            let sessions = &mut self.conversation.sessions;
            if sessions.last().is_none_or(|last| last.id.as_str() != name) {
                sessions.push(Session {
                    id: name.into(),
                    date: said.date,
                    messages: Vec::new(),
                });
            }
            let Some(session) = sessions.last_mut() else {
                continue;
            };
            // A message without a date must not inherit its session's first.
            if said.date.is_none() {
                session.date = None;
            }
            session.messages.push(Message {
                id: said.position.to_string().into(),
                speaker: said.speaker.clone(),
                text: said.text.clone(),
                captions: said.captions.clone(),
                date: said.date,
            });
            self.positions.push(said.position);
            self.dates.push(said.date);
        }
    }

    /// Whether nothing of the messages at these places is later than `cutoff`.
    pub(crate) fn visible(&self, places: Range<u32>, cutoff: Option<Timestamp>) -> bool {
        let dates = &self.dates[places.start as usize..places.end as usize];
        cutoff.is_none_or(|cutoff| dates.iter().flatten().all(|&date| date <= cutoff))
    }

    /// The positions of the messages at these places, ascending, and their latest date.
    pub(crate) fn origin(&self, places: Range<u32>) -> (Vec<u32>, Option<Timestamp>) {
        let places = places.start as usize..places.end as usize;
        let mut positions = self.positions[places.clone()].to_vec();
        positions.sort_unstable();
        (
            positions,
            self.dates[places].iter().flatten().max().copied(),
        )
    }
}
