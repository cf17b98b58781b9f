//! What a reader sees of a question, whether the run retrieved chunks or asked a memory system.

use std::collections::BTreeSet;

use rawrag_records::{Retrieval, SearchOutcome, SelectionOutcome};
use rawrag_scoring::Ranking;

use crate::{Outputs, QuestionRecords};

/// The items of one question, best first, and what they should hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown<'a> {
    /// Positions of the messages that hold the answer, ascending; none where the benchmark marks
    /// none.
    pub gold: &'a [u32],
    /// Items asked for.
    pub requested: usize,
    /// The items.
    pub items: Vec<Item<'a>>,
    /// Whether the system failed to return anything.
    pub failed: bool,
}

/// One item.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Item<'a> {
    /// o200k_base tokens of it as shown; 0 for an item that was returned and not shown.
    pub tokens: u32,
    /// The messages it comes from.
    pub messages: Places<'a>,
    /// Its text, where the run is kept with it.
    pub text: Option<&'a str>,
}

/// Positions of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Places<'a> {
    /// From the first to the last, both included.
    Span(u32, u32),
    /// These, ascending.
    Listed(&'a [u32]),
    /// The system does not know.
    Unknown,
}

impl Places<'_> {
    /// Whether a message is among them; `None` where that is not known.
    pub fn hold(&self, message: u32) -> Option<bool> {
        match *self {
            Self::Span(first, last) => Some((first..=last).contains(&message)),
            Self::Listed(messages) => Some(messages.binary_search(&message).is_ok()),
            Self::Unknown => None,
        }
    }

    /// The positions; none where they are not known.
    pub fn each(&self) -> Box<dyn Iterator<Item = u32> + '_> {
        match *self {
            Self::Span(first, last) => Box::new(first..=last),
            Self::Listed(messages) => Box::new(messages.iter().copied()),
            Self::Unknown => Box::new(std::iter::empty()),
        }
    }
}

impl<'a> Shown<'a> {
    /// The first `depth` items of a question, all of them without a depth; `None` where the run
    /// neither retrieved nor searched. Where a selector ordered the shortlist, in its order.
    pub fn of(question: &'a QuestionRecords, depth: Option<usize>) -> Option<Self> {
        let mut shown = Self::before_selection(question)?;
        let selected = question.selection.as_ref().filter(|selection| {
            question.search.is_none() && selection.outcome == SelectionOutcome::Selected
        });
        if let Some(selection) = selected {
            let order = selection.order.iter();
            shown.items = order
                .filter_map(|&at| shown.items.get(at as usize).copied())
                .collect();
        }
        shown.items.truncate(depth.unwrap_or(usize::MAX));
        Some(shown)
    }

    /// All items as they were found, before a selector ordered them.
    pub fn before_selection(question: &'a QuestionRecords) -> Option<Self> {
        Some(match (&question.search, &question.retrieval) {
            (Some(search), _) => Self {
                gold: &search.gold_messages,
                requested: search.requested as usize,
                items: question.evidence.iter().map(item).collect(),
                failed: search.outcome == SearchOutcome::Failed,
            },
            (None, Some(retrieval)) => Self {
                gold: &retrieval.gold_messages,
                requested: retrieval.requested as usize,
                items: items(retrieval),
                failed: false,
            },
            (None, None) => return None,
        })
    }

    /// The items against the gold messages; `None` where an item's messages are not known.
    pub fn ranking(&self) -> Option<Ranking> {
        let held: Option<Vec<Vec<usize>>> = self.items.iter().map(|i| self.held(i)).collect();
        let held = held?;
        Some(Ranking::new(
            self.gold.len(),
            held.iter().map(Vec::as_slice),
        ))
    }

    /// Which gold messages an item holds, by their place in the list of gold messages.
    pub fn held(&self, item: &Item<'_>) -> Option<Vec<usize>> {
        if item.tokens == 0 {
            return Some(Vec::new());
        }
        let mut held = Vec::new();
        for (at, &gold) in self.gold.iter().enumerate() {
            if item.messages.hold(gold)? {
                held.push(at);
            }
        }
        Some(held)
    }

    /// Tokens of the items, without what stands between them.
    pub fn tokens(&self) -> u64 {
        self.items.iter().map(|item| u64::from(item.tokens)).sum()
    }

    /// How many different messages the items hold, and how many with repetition.
    pub fn messages(&self) -> (usize, usize) {
        let all = || self.items.iter().flat_map(|item| item.messages.each());
        (all().collect::<BTreeSet<u32>>().len(), all().count())
    }
}

/// The depths at which a run of retrievals counted its evidence, ascending.
pub fn cutoffs(run: &Outputs) -> Vec<usize> {
    let cutoffs = &run.manifest.settings["evidence"]["cutoffs"];
    let list = cutoffs.as_array().map_or(&[][..], Vec::as_slice);
    let number = |value: &serde_json::Value| usize::try_from(value.as_u64()?).ok();
    list.iter().filter_map(number).collect()
}

/// o200k_base tokens of the whole evidence of the first `depth` items, as it was counted when the
/// run was made: headers and separators included. `None` where it was not counted at that depth.
pub fn assembled(run: &Outputs, question: &QuestionRecords, depth: Option<usize>) -> Option<u32> {
    if let Some(search) = &question.search {
        let all = depth.is_none_or(|depth| depth >= search.returned as usize);
        return all.then_some(search.evidence_tokens);
    }
    // What a selector reordered was not counted again.
    if question.selection.is_some() {
        return None;
    }
    let retrieval = question.retrieval.as_ref()?;
    let depth = depth.unwrap_or(retrieval.chunks.len());
    let at = |cutoff: usize| cutoff.min(retrieval.chunks.len());
    let place = cutoffs(run).iter().position(|&cutoff| {
        cutoff == depth || (at(cutoff) == at(depth) && at(depth) == retrieval.chunks.len())
    })?;
    retrieval.evidence_tokens.get(place).copied()
}

fn item(row: &rawrag_records::EvidenceItem) -> Item<'_> {
    Item {
        tokens: row.tokens,
        messages: row
            .messages
            .as_deref()
            .map_or(Places::Unknown, Places::Listed),
        text: row.text.as_deref(),
    }
}

fn items(retrieval: &Retrieval) -> Vec<Item<'_>> {
    let spans = retrieval.first_message.iter().zip(&retrieval.last_message);
    let each = spans.zip(&retrieval.tokens);
    each.map(|((&first, &last), &tokens)| Item {
        tokens,
        messages: Places::Span(first, last),
        text: None,
    })
    .collect()
}
