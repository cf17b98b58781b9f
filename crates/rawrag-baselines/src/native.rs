//! This project's own systems. They keep a conversation in memory, decide nothing about writes, and
//! leave out of a search whatever is later than its cutoff.

use rawrag_chunking::{Chunk, Encoding, Rendering, Transcript};
use rawrag_corpus::Timestamp;
use rawrag_retrieval::{
    Assembled, EvidenceSettings, HistoryIndex, Models, RetrievalError, Retriever, Settings,
    assemble,
};
use serde::{Deserialize, Serialize};

use crate::gathered::Gathered;
use crate::system::{
    Capabilities, Decision, Description, Item, MemorySystem, Namespace, Opened, Said, Stored,
    SystemError, Unit, Usage,
};

/// What a native system ranks by.
pub enum Native {
    /// Any ranking of `rawrag-retrieval` over any chunks.
    Retrieval(Box<Retrieval>),
    /// The whole visible history as one item.
    FullContext(FullContext),
    /// The last k visible messages, the latest first: a floor.
    Recency,
    /// Nothing, ever: a floor.
    Abstain,
}

/// A retriever's settings, its models and how its evidence is shown.
pub struct Retrieval {
    /// Chunks and ranking; a search's own k replaces the one in here.
    pub settings: Settings,
    /// How chosen chunks become text.
    pub evidence: EvidenceSettings,
    /// The models.
    pub models: Models,
}

/// The bounded-history policy of Raw-RAG, B.3, in o200k_base tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FullContext {
    /// The ceiling on the request and the reserves together.
    pub limit: usize,
    /// Reserved for the reply.
    pub output: usize,
    /// Reserved beyond that.
    pub margin: usize,
    /// What the reader's prompt takes without history and question.
    pub prompt: usize,
}

impl Default for FullContext {
    /// 128,000 tokens, of which 4,096 are the reply's and 256 a margin; no prompt.
    fn default() -> Self {
        Self {
            limit: 128_000,
            output: 4_096,
            margin: 256,
            prompt: 0,
        }
    }
}

/// The native systems by the names that experiments and the command line give them, with a line on
/// each.
pub const NAMED: [(&str, &str); 5] = [
    (
        "raw-rag",
        "raw history: late interaction over messages, with all-MiniLM-L6-v2",
    ),
    crate::stored::STORED,
    (
        "full-context",
        "the whole history, its middle cut out beyond 128,000 tokens",
    ),
    ("recency", "the last k messages: a floor"),
    ("abstain", "nothing, ever: a floor"),
];

/// What stands where the middle of a history was left out.
const MARKER: &str = "\n[... middle of the history left out ...]\n";

/// A native system.
pub struct NativeSystem {
    kind: Native,
    description: Description,
    gathered: Gathered,
    index: Option<HistoryIndex>,
    truncated: u64,
}

impl NativeSystem {
    /// A system of this kind under this name.
    ///
    /// # Errors
    /// When a retriever's settings are out of range or ask for a model that is not given.
    pub fn new(name: &str, kind: Native) -> Result<Self, RetrievalError> {
        if let Native::Retrieval(retrieval) = &kind {
            Retriever::new(retrieval.settings.clone(), retrieval.models.clone())?;
        }
        let description = Description {
            name: name.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            capabilities: Capabilities {
                dates: true,
                speakers: true,
                cutoff: true,
                provenance: true,
                export: true,
                ..Capabilities::default()
            },
            unit: Unit::Session,
            notes: Vec::new(),
        };
        Ok(Self {
            kind,
            description,
            gathered: Gathered::new("none"),
            index: None,
            truncated: 0,
        })
    }

    /// The messages that `cutoff` lets through, in the order in which they were added.
    fn visible(&self, cutoff: Option<Timestamp>) -> Vec<usize> {
        let seen = |date: Option<Timestamp>| {
            cutoff.is_none_or(|cutoff| date.is_none_or(|date| date <= cutoff))
        };
        let dates = self.gathered.dates().iter().enumerate();
        dates
            .filter(|(_, date)| seen(**date))
            .map(|(at, _)| at)
            .collect()
    }

    /// The given places among the added messages as positions, and their latest date.
    fn origin(&self, places: impl Iterator<Item = usize>) -> (Option<Vec<u32>>, Option<Timestamp>) {
        let places: Vec<usize> = places.collect();
        let latest = places
            .iter()
            .filter_map(|&at| self.gathered.dates().get(at).copied().flatten())
            .max();
        let mut positions: Vec<u32> = places
            .iter()
            .filter_map(|&at| self.gathered.positions().get(at).copied())
            .collect();
        positions.sort_unstable();
        positions.dedup();
        (Some(positions), latest)
    }

    fn item(&self, text: String, places: impl Iterator<Item = usize>) -> Item {
        let (messages, date) = self.origin(places);
        Item {
            text,
            messages,
            date,
            score: None,
            stored: None,
        }
    }

    fn retrieve(
        &self,
        retrieval: &Retrieval,
        question: &str,
        k: usize,
        cutoff: Option<Timestamp>,
    ) -> Result<Vec<Item>, SystemError> {
        let Some(index) = &self.index else {
            return Err(refused("search", "what was added is not ready"));
        };
        let settings = Settings {
            k,
            ..retrieval.settings.clone()
        };
        let found = Retriever::new(settings, retrieval.models.clone())
            .and_then(|retriever| retriever.search(index, question, cutoff))
            .map_err(|error| refused("search", &error.to_string()))?;
        let chosen: Vec<&Chunk> = found
            .items
            .iter()
            .filter_map(|item| index.chunks.get(item.chunk as usize))
            .collect();
        let Assembled { entries, .. } = assemble(
            self.gathered.conversation(),
            &index.transcript,
            &chosen,
            &retrieval.evidence,
        );
        let item = |(at, text): (usize, String)| {
            let messages = chosen[at].messages.start as usize..chosen[at].messages.end as usize;
            Item {
                score: Some(f64::from(found.items[at].score)),
                stored: Some(found.items[at].chunk.to_string()),
                ..self.item(text, messages)
            }
        };
        Ok(entries.into_iter().map(item).collect())
    }

    fn whole(
        &self,
        policy: FullContext,
        question: &str,
        visible: &[usize],
    ) -> Result<Vec<Item>, SystemError> {
        if visible.is_empty() {
            return Ok(Vec::new());
        }
        let transcript = Transcript::new(self.gathered.conversation(), Rendering::Dated);
        let text: String = visible
            .iter()
            .map(|&at| format!("{}\n", transcript.messages(at as u32..at as u32 + 1)))
            .collect();
        let reserved =
            policy.output + policy.margin + policy.prompt + Encoding::O200kBase.count(question);
        let Some(room) = policy.limit.checked_sub(reserved).filter(|&room| room > 0) else {
            let reason = format!(
                "prompt, question and reserves take {reserved} tokens of {}: nothing is left for \
                 the history",
                policy.limit
            );
            return Err(refused("search", &reason));
        };
        let (text, cut) = bounded(&text, room);
        if text.is_empty() {
            let reason = format!("{room} tokens hold no part of the history beside its marker");
            return Err(refused("search", &reason));
        }
        // Of a history that was cut, only what both ends hold whole is known to be shown.
        let shown = |at: &usize| match cut {
            None => true,
            Some(kept) => {
                let message = transcript.messages(*at as u32..*at as u32 + 1);
                text[..kept].contains(message) || text[kept..].contains(message)
            }
        };
        Ok(vec![
            self.item(text.clone(), visible.iter().copied().filter(shown)),
        ])
    }
}

impl MemorySystem for NativeSystem {
    fn description(&self) -> &Description {
        &self.description
    }

    fn open(&mut self, namespace: &Namespace) -> Result<Opened, SystemError> {
        namespace.check()?;
        if !namespace.fresh {
            return Err(SystemError::Unsupported("taking up a closed conversation"));
        }
        self.gathered = Gathered::new(&namespace.name);
        self.index = None;
        self.truncated = 0;
        Ok(Opened { perspectives: 1 })
    }

    fn add(&mut self, unit: &[Said]) -> Result<(), SystemError> {
        self.index = None;
        self.gathered.add(unit);
        Ok(())
    }

    fn ready(&mut self) -> Result<(), SystemError> {
        if let (Native::Retrieval(retrieval), None) = (&self.kind, &self.index) {
            let index = Retriever::new(retrieval.settings.clone(), retrieval.models.clone())
                .and_then(|retriever| retriever.index(self.gathered.conversation()))
                .map_err(|error| refused("ready", &error.to_string()))?;
            self.truncated = index.truncated as u64;
            self.index = Some(index);
        }
        Ok(())
    }

    fn search(
        &mut self,
        question: &str,
        k: usize,
        cutoff: Option<Timestamp>,
    ) -> Result<Vec<Item>, SystemError> {
        if k == 0 {
            return Ok(Vec::new());
        }
        match &self.kind {
            Native::Retrieval(retrieval) => self.retrieve(retrieval, question, k, cutoff),
            Native::FullContext(policy) => self.whole(*policy, question, &self.visible(cutoff)),
            Native::Recency => {
                let transcript = Transcript::new(self.gathered.conversation(), Rendering::Dated);
                let last = self.visible(cutoff).into_iter().rev().take(k);
                let item = |at: usize| {
                    let text = transcript.messages(at as u32..at as u32 + 1).to_owned();
                    self.item(text, std::iter::once(at))
                };
                Ok(last.map(item).collect())
            }
            Native::Abstain => Ok(Vec::new()),
        }
    }

    fn export(&mut self) -> Result<Vec<Stored>, SystemError> {
        let stored = |id: usize, text: &str, places: std::ops::Range<usize>| {
            let (messages, date) = self.origin(places);
            Stored {
                id: id.to_string(),
                text: text.to_owned(),
                messages,
                date,
                perspective: None,
            }
        };
        if let (Native::Retrieval(_), Some(index)) = (&self.kind, &self.index) {
            let chunk = |(id, chunk): (usize, &Chunk)| {
                let places = chunk.messages.start as usize..chunk.messages.end as usize;
                stored(id, index.transcript.shown(chunk), places)
            };
            return Ok(index.chunks.iter().enumerate().map(chunk).collect());
        }
        let transcript = Transcript::new(self.gathered.conversation(), Rendering::Dated);
        let message = |at: usize| {
            let text = transcript.messages(at as u32..at as u32 + 1);
            stored(at, text, at..at + 1)
        };
        Ok((0..self.gathered.positions().len()).map(message).collect())
    }

    fn decisions(&mut self) -> Result<Vec<Decision>, SystemError> {
        Ok(Vec::new())
    }

    fn usage(&mut self) -> Result<Usage, SystemError> {
        Ok(Usage {
            truncated: self.truncated,
            ..Usage::default()
        })
    }

    fn close(&mut self) -> Result<(), SystemError> {
        self.gathered = Gathered::new("none");
        self.index = None;
        Ok(())
    }
}

fn refused(call: &'static str, reason: &str) -> SystemError {
    SystemError::Refused {
        call,
        reason: reason.to_owned(),
    }
}

/// `text` in at most `room` tokens: whole, or a prefix and a suffix of about as many characters each
/// around the marker. With the latter comes the byte at which the marker begins. Empty if not even
/// the marker and a character at each end fit.
fn bounded(text: &str, room: usize) -> (String, Option<usize>) {
    let count = |text: &str| Encoding::O200kBase.count(text);
    if count(text) <= room {
        return (text.to_owned(), None);
    }
    let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    let cut = |each: usize| {
        let (head, tail) = (&text[..starts[each]], &text[starts[starts.len() - each]..]);
        (format!("{head}{MARKER}{tail}"), head.len())
    };
    let (mut fits, mut too_many) = (0, starts.len().div_ceil(2));
    while too_many - fits > 1 {
        let middle = fits.midpoint(too_many);
        if count(&cut(middle).0) <= room {
            fits = middle;
        } else {
            too_many = middle;
        }
    }
    if fits == 0 {
        return (String::new(), None);
    }
    let (text, kept) = cut(fits);
    (text, Some(kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(position: u32, text: &str, date: Option<&str>) -> Said {
        Said {
            position,
            session: position / 2,
            date: date.and_then(|date| date.parse().ok()),
            speaker: "Ines".into(),
            text: text.into(),
            captions: vec![],
        }
    }

    fn filled(kind: Native) -> NativeSystem {
        let mut system = NativeSystem::new("test", kind).unwrap();
        let namespace = Namespace {
            name: "c".into(),
            fresh: true,
            speakers: vec!["Ines".into()],
        };
        system.open(&namespace).unwrap();
        let messages = [
            said(0, "The pump leaks.", Some("2025-03-01T09:00")),
            said(1, "Undated aside.", None),
            said(2, "The pump is mended.", Some("2025-03-03T09:00")),
            said(3, "We sold the pump.", Some("2025-03-04T09:00")),
        ];
        system.add(&messages).unwrap();
        system.ready().unwrap();
        system
    }

    #[test]
    fn recency_gives_the_latest_that_the_cutoff_lets_through() {
        let mut system = filled(Native::Recency);
        let cutoff = "2025-03-03T12:00".parse().unwrap();
        let found = system.search("pump?", 2, Some(cutoff)).unwrap();
        let positions: Vec<_> = found.iter().map(|item| item.messages.clone()).collect();
        assert_eq!(positions, [Some(vec![2]), Some(vec![1])]);
        assert_eq!(
            found[0].text,
            "[2025-03-03 09:00] Ines: The pump is mended."
        );
        assert_eq!(found[1].date, None);
        assert!(system.search("pump?", 0, None).unwrap().is_empty());
    }

    #[test]
    fn full_context_cuts_the_middle_and_counts_the_question() {
        let long = "copper kettle ".repeat(400);
        let room = 200;
        let (text, kept) = bounded(&long, room);
        let kept = kept.unwrap();
        let tail = &text[kept + MARKER.len()..];
        assert!(long.starts_with(&text[..kept]) && long.ends_with(tail));
        assert_eq!(kept, tail.len());
        let tokens = Encoding::O200kBase.count(&text);
        assert!(tokens <= room && tokens + 4 > room, "{tokens}");

        let mut system = filled(Native::FullContext(FullContext::default()));
        let all = system.search("pump?", 1, None).unwrap();
        assert_eq!(all[0].messages, Some(vec![0, 1, 2, 3]));
        let tight = FullContext {
            limit: 4_352,
            ..FullContext::default()
        };
        let refused = filled(Native::FullContext(tight)).search("pump?", 1, None);
        assert!(matches!(refused, Err(SystemError::Refused { .. })));
    }

    #[test]
    fn full_context_names_only_the_messages_that_it_shows_whole() {
        let policy = FullContext {
            limit: 60,
            output: 0,
            margin: 0,
            prompt: 0,
        };
        let item = filled(Native::FullContext(policy)).search("pump?", 1, None);
        let item = item.unwrap().remove(0);
        assert!(item.text.contains(MARKER.trim()), "{}", item.text);
        assert_eq!(item.messages, Some(vec![0, 3]), "{}", item.text);
    }
}
