//! Where a gold message was lost on its way to the reader, as far as a run's records tell.

use std::collections::BTreeMap;
use std::fmt;

use rawrag_records::{Phase, Retrieval, SearchOutcome, StoredObject};

use crate::{Outputs, QuestionRecords, Shown};

/// The first point at which a message of the answer is lost, in the order of the way to the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// Nothing in the store comes from it.
    NotStored,
    /// The first stage did not pass it on.
    NotShortlisted,
    /// A later stage left it out of what was returned.
    Dropped,
    /// It was returned, and did not fit into what the reader sees.
    Cut,
}

/// What became of a gold message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The reader sees it.
    Shown,
    /// It was lost.
    Lost(Loss),
    /// It was lost, and the records do not tell where.
    Unknown(&'static str),
}

impl Loss {
    /// All, in order.
    pub const ALL: [Self; 4] = [
        Self::NotStored,
        Self::NotShortlisted,
        Self::Dropped,
        Self::Cut,
    ];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotStored => "not stored",
            Self::NotShortlisted => "not shortlisted",
            Self::Dropped => "dropped by the selector",
            Self::Cut => "cut by the budget",
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is known of a run that the fate of its messages depends on, found once.
#[derive(Debug)]
pub struct Stages<'a> {
    /// Whether the order of what is returned is the first stage's order in every question.
    pub one_stage: bool,
    /// Whether evidence is packed into a budget.
    budget: bool,
    stored: BTreeMap<(&'a str, Option<Phase>), Store<'a>>,
}

/// The sources of a store's objects.
#[derive(Debug, Default)]
struct Store<'a> {
    objects: Vec<&'a [u32]>,
    /// Objects whose sources are not known.
    untold: usize,
}

impl<'a> Stages<'a> {
    /// Looks a run over.
    pub fn of(run: &'a Outputs) -> Self {
        let retrievals = || run.questions.iter().filter_map(|q| q.retrieval.as_ref());
        let in_order = |r: &Retrieval| {
            r.dense_rank.len() == r.chunks.len() && (1..).zip(&r.dense_rank).all(|(n, &d)| n == d)
        };
        let mut stored: BTreeMap<_, Store<'a>> = BTreeMap::new();
        for object in &run.exports {
            let StoredObject {
                conversation,
                phase,
                messages,
                ..
            } = object;
            let store = stored.entry((conversation.as_str(), *phase)).or_default();
            match messages.as_deref() {
                Some(messages) => store.objects.push(messages),
                None => store.untold += 1,
            }
        }
        Self {
            one_stage: retrievals().next().is_some() && retrievals().all(in_order),
            budget: !run.manifest.settings["evidence"]["budget"].is_null(),
            stored,
        }
    }

    /// What became of every gold message of a question, in their order; `None` where the run has
    /// no record of what it found.
    pub fn fates(&self, question: &QuestionRecords, depth: Option<usize>) -> Option<Vec<Fate>> {
        let all = Shown::before_selection(question)?;
        let seen = Shown::of(question, depth)?;
        let fate = |&gold: &u32| self.fate(question, &all, &seen, gold);
        Some(all.gold.iter().map(fate).collect())
    }

    fn fate(
        &self,
        question: &QuestionRecords,
        all: &Shown<'_>,
        seen: &Shown<'_>,
        gold: u32,
    ) -> Fate {
        let mut untold = false;
        let mut holds = |shown: &Shown<'_>, cut: bool| {
            shown.items.iter().any(|item| {
                let holds = item.messages.hold(gold);
                untold |= holds.is_none();
                holds == Some(true) && (cut || item.tokens > 0)
            })
        };
        if holds(seen, false) {
            return Fate::Shown;
        }
        // Held by an item that was returned, but not by one that is shown at this depth.
        if holds(all, true) {
            let packed = self.budget && holds(seen, true);
            return Fate::Lost(match (packed, &question.selection) {
                (true, _) => Loss::Cut,
                (false, Some(_)) => Loss::Dropped,
                (false, None) => self.below_the_cut(),
            });
        }
        if untold {
            return Fate::Unknown("the messages that its items come from are not on record");
        }
        if let Some(false) = self.is_stored(question, gold) {
            return Fate::Lost(Loss::NotStored);
        }
        match (&question.search, &question.retrieval) {
            (Some(search), _) if search.outcome == SearchOutcome::Failed => {
                Fate::Unknown("its search failed")
            }
            (Some(_), _) => Fate::Unknown("the memory system's shortlist is not on record"),
            (None, Some(retrieval)) => self.retrieved(retrieval),
            (None, None) => Fate::Unknown("what the run found is not on record"),
        }
    }

    /// A gold message that no returned chunk holds.
    fn retrieved(&self, retrieval: &Retrieval) -> Fate {
        let returned = retrieval.chunks.len() as u32;
        let removed = retrieval.shortlist < retrieval.available;
        if returned == retrieval.available {
            // Everything that is visible came back, so what is missing was never there.
            Fate::Lost(Loss::NotStored)
        } else if !removed {
            Fate::Lost(self.below_the_cut())
        } else if returned == retrieval.shortlist {
            Fate::Lost(Loss::NotShortlisted)
        } else {
            Fate::Unknown("which chunks the first stage passed on is not on record")
        }
    }

    /// What the last stage left out: in a run of one stage that stage is the first.
    fn below_the_cut(&self) -> Loss {
        if self.one_stage {
            Loss::NotShortlisted
        } else {
            Loss::Dropped
        }
    }

    /// Whether anything in the store comes from a message; `None` where that is not on record.
    fn is_stored(&self, question: &QuestionRecords, gold: u32) -> Option<bool> {
        let key = &question.key;
        let at = |phase| self.stored.get(&(key.conversation.as_str(), phase));
        let store = at(key.phase).or_else(|| at(None))?;
        let holds = |messages: &&[u32]| messages.binary_search(&gold).is_ok();
        if store.objects.iter().any(holds) {
            return Some(true);
        }
        (store.untold == 0).then_some(false)
    }
}
