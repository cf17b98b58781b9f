use std::collections::{BTreeMap, HashMap};

use super::phrases::{Gold, normal};

/// A persisted object as it can be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// What a reader would see of it, header and delimiter included.
    pub block: String,
    /// Tokens of `block`.
    pub tokens: usize,
    /// The stored text alone, which is what is searched.
    pub text: String,
    /// Positions of the sessions it comes from, in any order; `None` where that is not known.
    pub sessions: Option<Vec<u32>>,
    /// Position of the first message it comes from, where that is known.
    pub first_message: Option<u32>,
}

/// The objects of one store in the order in which it enumerates them, ready to be asked.
#[derive(Debug)]
pub struct Store {
    objects: Vec<Object>,
    normal: Vec<String>,
    /// For each object the first one of the same normalised text.
    first_alike: Vec<u32>,
    /// Every word of the store, with the objects that have it, ascending.
    words: BTreeMap<String, Vec<u32>>,
}

/// Which objects a question may be answered from (Raw-RAG, C.5, "Temporal eligibility").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eligible {
    /// Those whose sessions are all at or before this one. An object of unknown sessions is treated
    /// as `uncited` says.
    Until {
        /// Position of the last session that the question may use.
        session: u32,
        /// What becomes of an object of unknown sessions.
        uncited: Uncited,
    },
    /// All: the store was exported at the question's phase.
    Snapshot,
}

/// What becomes of an object whose sessions are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncited {
    /// It makes the export invalid: the paper's rule.
    Refuse,
    /// It is left out: nothing later than the question is let in, at the price of a smaller store.
    LeaveOut,
}

/// An object of unknown sessions in a store that is filtered by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "object {number} of the store has no known session, so that nobody can tell whether the \
     question may use it; leave such objects out, or export the store before and after the change"
)]
pub struct NoProvenance {
    /// Its place in the enumeration, from 0.
    pub number: usize,
}

/// An object that may be selected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its place in the store's enumeration, from 0.
    pub number: usize,
    /// Which of the question's phrases it holds, ascending.
    pub phrases: Vec<u32>,
    /// How many of the question's words it has.
    pub shared: u32,
    /// Its score times 3 times the number of the question's words (at least 1): a whole number, so
    /// that equal scores are equal.
    pub(super) weight: u64,
}

impl Candidate {
    /// Raw-RAG's equation 5.
    pub fn score(&self, gold: &Gold) -> f64 {
        self.weight as f64 / (3 * scale(gold)) as f64
    }
}

/// The number of the question's words, at least 1.
pub(super) fn scale(gold: &Gold) -> u64 {
    gold.question_words().len().max(1) as u64
}

impl Store {
    /// Takes the objects in the order in which the store enumerates them.
    pub fn new(objects: Vec<Object>) -> Self {
        let normal: Vec<String> = objects.iter().map(|object| normal(&object.text)).collect();
        let mut first: HashMap<&str, u32> = HashMap::new();
        let numbered = || normal.iter().map(String::as_str).zip(0_u32..);
        let first_alike = numbered()
            .map(|(text, number)| *first.entry(text).or_insert(number))
            .collect();
        let mut words: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for (text, number) in numbered() {
            for word in text.split(' ').filter(|word| !word.is_empty()) {
                match words.get_mut(word) {
                    Some(with) if with.last() == Some(&number) => {}
                    Some(with) => with.push(number),
                    None => {
                        words.insert(word.to_owned(), vec![number]);
                    }
                }
            }
        }
        Self {
            objects,
            normal,
            first_alike,
            words,
        }
    }

    /// The objects, as enumerated.
    pub fn objects(&self) -> &[Object] {
        &self.objects
    }

    /// Which objects a question may use, each text once: of objects of one normalised text the
    /// first eligible one stays.
    ///
    /// # Errors
    /// [`NoProvenance`] under [`Uncited::Refuse`].
    pub fn eligible(&self, eligible: Eligible) -> Result<Vec<bool>, NoProvenance> {
        let mut seen = vec![false; self.objects.len()];
        let mut kept = Vec::with_capacity(self.objects.len());
        for (number, object) in self.objects.iter().enumerate() {
            let sessions = object.sessions.as_deref().unwrap_or_default();
            let is_eligible = match (eligible, sessions.iter().max()) {
                (Eligible::Snapshot, _) => true,
                (Eligible::Until { session, .. }, Some(&last)) => last <= session,
                (Eligible::Until { uncited, .. }, None) => match uncited {
                    Uncited::Refuse => return Err(NoProvenance { number }),
                    Uncited::LeaveOut => false,
                },
            };
            let alike = self.first_alike.get(number).map(|&at| at as usize);
            let first = alike.and_then(|at| seen.get_mut(at));
            kept.push(is_eligible && first.is_some_and(|seen| !std::mem::replace(seen, true)));
        }
        Ok(kept)
    }

    /// The candidates of a question, best first: those of `eligible` objects with a phrase or a
    /// word of the question, ordered by equation 5, equal ones as enumerated.
    ///
    /// `favoured` sessions add a point to each object that overlaps them, and let it in without a
    /// phrase or word (the rule for whole chunks).
    pub fn rank(&self, gold: &Gold, eligible: &[bool], favoured: &[u32]) -> Vec<Candidate> {
        let mut found: BTreeMap<u32, Candidate> = BTreeMap::new();
        let is_eligible = |number: u32| eligible.get(number as usize).copied().unwrap_or(false);
        let candidate = |number: u32| Candidate {
            number: number as usize,
            phrases: Vec::new(),
            shared: 0,
            weight: 0,
        };
        let scale = scale(gold);
        for (phrase, at) in gold.phrases().iter().zip(0..) {
            for number in self.with_phrase(&phrase.text) {
                if is_eligible(number) {
                    let of = found.entry(number).or_insert_with(|| candidate(number));
                    of.phrases.push(at);
                    of.weight += phrase.thirds() * scale;
                }
            }
        }
        for word in gold.question_words() {
            for &number in self.words.get(word).into_iter().flatten() {
                if is_eligible(number) {
                    let of = found.entry(number).or_insert_with(|| candidate(number));
                    of.shared += 1;
                    of.weight += 6;
                }
            }
        }
        if !favoured.is_empty() {
            for (object, number) in self.objects.iter().zip(0..) {
                let mut sessions = object.sessions.iter().flatten();
                if is_eligible(number) && sessions.any(|session| favoured.contains(session)) {
                    let of = found.entry(number).or_insert_with(|| candidate(number));
                    of.weight += 3 * scale;
                }
            }
        }
        let mut ranked: Vec<Candidate> = found.into_values().collect();
        // Stable: equal ones stay as enumerated.
        ranked.sort_by_key(|candidate| std::cmp::Reverse(candidate.weight));
        ranked
    }

    /// The objects whose normalised text holds a phrase as a substring, ascending.
    ///
    /// Only objects that have the phrase's rarest word are looked at. Within the text a phrase's
    /// inner words are whole, its first may be the end of a longer one, its last the beginning.
    fn with_phrase(&self, phrase: &str) -> Vec<u32> {
        let words: Vec<&str> = phrase.split(' ').collect();
        let with: Vec<u32> = match words.as_slice() {
            [only] => self.with_word(|word| word.contains(only)),
            [first, last] => {
                let ending = self.with_word(|word| word.ends_with(first));
                let beginning = self.with_word(|word| word.starts_with(last));
                fewer(ending, beginning)
            }
            [_, inner @ .., _] => {
                let of = inner.iter().map(|&word| self.words.get(word));
                match of.min_by_key(|with| with.map_or(0, Vec::len)) {
                    Some(Some(with)) => with.clone(),
                    _ => Vec::new(),
                }
            }
            [] => Vec::new(),
        };
        let holds = |&number: &u32| {
            let text = self.normal.get(number as usize);
            text.is_some_and(|text| text.contains(phrase))
        };
        with.into_iter().filter(holds).collect()
    }

    fn with_word(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<u32> {
        let words = self.words.iter().filter(|(word, _)| is_wanted(word));
        let mut with: Vec<u32> = words.flat_map(|(_, with)| with.iter().copied()).collect();
        with.sort_unstable();
        with.dedup();
        with
    }
}

fn fewer(a: Vec<u32>, b: Vec<u32>) -> Vec<u32> {
    if a.len() <= b.len() { a } else { b }
}
