use super::phrases::Gold;
use super::store::{Candidate, Object, Store};

/// How candidates become evidence (Raw-RAG, C.5, "Ordering and truncation").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packer {
    /// Ordinary memory objects: best first. A first one that does not fit is cut to what does;
    /// later ones that do not are skipped.
    Blocks,
    /// Whole chunks of raw text: of those that fit, the one with most phrases that none chosen
    /// before it holds, then the better, then the earlier; shown in source order.
    Chunks,
    /// Whole objects, best first, shown by source session; none is cut.
    Chronology,
    /// A compact set: for each value that none chosen before holds the best object that does, then
    /// up to two that name an entity, or else the best three; whole ones that fit, shown by source
    /// session.
    Compact,
}

impl Packer {
    /// How EMem's elementary discourse units are packed for a task of MEME (`ER`, `Agg`, ...).
    pub fn emem(task: &str) -> Self {
        match task {
            "ER" => Self::Chronology,
            "Tr" | "Cas" | "Abs" => Self::Compact,
            _ => Self::Blocks,
        }
    }
}

/// How long texts are, and how they are cut.
#[derive(Clone, Copy)]
pub struct Tokens<'a> {
    /// Tokens of a text.
    pub count: &'a dyn Fn(&str) -> usize,
    /// The longest prefix of a text with at most so many tokens.
    pub prefix: &'a dyn for<'t> Fn(&'t str, usize) -> &'t str,
}

impl std::fmt::Debug for Tokens<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tokens")
    }
}

/// The evidence selected for a question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// What is shown, in its order.
    pub shown: Vec<Shown>,
    /// Tokens of every object that would be shown without a budget.
    pub admitted_tokens: usize,
}

/// An object as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Its place in the store's enumeration, from 0.
    pub number: usize,
    /// What the reader sees of it.
    pub text: String,
    /// Tokens of `text`.
    pub tokens: usize,
    /// Whether it was cut.
    pub cut: bool,
}

impl Selection {
    /// Tokens that are shown.
    pub fn tokens(&self) -> usize {
        self.shown.iter().map(|shown| shown.tokens).sum()
    }

    /// Tokens that the budget took away.
    pub fn dropped_tokens(&self) -> usize {
        self.admitted_tokens.saturating_sub(self.tokens())
    }

    /// The evidence.
    pub fn text(&self) -> String {
        self.shown.iter().map(|shown| shown.text.as_str()).collect()
    }
}

/// Packs candidates, best first, into `budget` tokens, or all of them without one. What else stands
/// in the context (a task policy) is to be taken off the budget before.
pub fn pack(
    packer: Packer,
    store: &Store,
    gold: &Gold,
    ranked: &[Candidate],
    budget: Option<usize>,
    tokens: Tokens<'_>,
) -> Selection {
    let objects = store.objects();
    let get = |candidate: &Candidate| objects.get(candidate.number);
    let size = |candidate: &Candidate| get(candidate).map_or(0, |object| object.tokens);
    let compact;
    let admitted: &[Candidate] = match packer {
        Packer::Compact => {
            compact = compact_set(gold, ranked);
            &compact
        }
        _ => ranked,
    };
    let mut chosen: Vec<(&Candidate, bool)> = match (packer, budget) {
        (_, None) => admitted
            .iter()
            .map(|candidate| (candidate, false))
            .collect(),
        (Packer::Chunks, Some(budget)) => by_new_phrases(admitted, budget, size),
        (_, Some(budget)) => fitting(admitted, budget, packer == Packer::Blocks, size),
    };
    match packer {
        Packer::Blocks => {}
        Packer::Chunks => chosen.sort_by_key(|(candidate, _)| {
            let first = get(candidate).and_then(|object| object.first_message);
            (first.is_none(), first, candidate.number)
        }),
        Packer::Chronology | Packer::Compact => chosen.sort_by_key(|(candidate, _)| {
            let sessions = get(candidate).and_then(|object| object.sessions.as_ref());
            let first = sessions.and_then(|sessions| sessions.iter().min());
            (first.is_none(), first, candidate.number)
        }),
    }
    let shown = chosen.into_iter().filter_map(|(candidate, cut)| {
        let cut_to = if cut { budget } else { None };
        Some(show(candidate.number, get(candidate)?, cut_to, tokens))
    });
    // Where the policy leaves no room, nothing of the first one is left.
    let shown = shown.filter(|shown| !shown.text.is_empty());
    Selection {
        shown: shown.collect(),
        admitted_tokens: admitted.iter().map(size).sum(),
    }
}

/// The raw control: of annotated sessions, given in time order, those that hold a phrase, or all of
/// them if none does; in time order. A first one that does not fit is cut to what does; later ones
/// that do not are skipped.
pub fn pack_raw(
    sessions: &Store,
    gold: &Gold,
    budget: Option<usize>,
    tokens: Tokens<'_>,
) -> Selection {
    let objects = sessions.objects();
    let all = vec![true; objects.len()];
    let mut ranked = sessions.rank(gold, &all, &[]);
    ranked.retain(|candidate| !candidate.phrases.is_empty());
    ranked.sort_by_key(|candidate| candidate.number);
    if ranked.is_empty() {
        let numbers = 0..objects.len();
        ranked.extend(numbers.map(|number| Candidate {
            number,
            phrases: Vec::new(),
            shared: 0,
            weight: 0,
        }));
    }
    pack(Packer::Blocks, sessions, gold, &ranked, budget, tokens)
}

/// Objects in their order while they fit; one that does not is skipped, but a first one is kept to
/// be cut if `cut_first`.
fn fitting(
    admitted: &[Candidate],
    budget: usize,
    cut_first: bool,
    size: impl Fn(&Candidate) -> usize,
) -> Vec<(&Candidate, bool)> {
    let (mut chosen, mut left) = (Vec::new(), budget);
    for (candidate, place) in admitted.iter().zip(0..) {
        let tokens = size(candidate);
        let cut = place == 0 && cut_first && tokens > left;
        if cut || tokens <= left {
            left -= tokens.min(left);
            chosen.push((candidate, cut));
        }
    }
    chosen
}

fn by_new_phrases(
    admitted: &[Candidate],
    budget: usize,
    size: impl Fn(&Candidate) -> usize,
) -> Vec<(&Candidate, bool)> {
    let (mut chosen, mut left) = (Vec::new(), budget);
    let mut covered: Vec<u32> = Vec::new();
    let mut remaining: Vec<(&Candidate, usize)> = admitted
        .iter()
        .map(|candidate| (candidate, size(candidate)))
        .collect();
    loop {
        remaining.retain(|&(_, tokens)| tokens <= left);
        let new = |candidate: &Candidate| {
            let of = candidate.phrases.iter();
            of.filter(|phrase| !covered.contains(phrase)).count()
        };
        // Candidates come best first, equal ones as enumerated, so the first of the most wins.
        let best = remaining
            .iter()
            .enumerate()
            .rev()
            .max_by_key(|(_, (candidate, _))| new(candidate))
            .map(|(at, _)| at);
        let Some(best) = best else {
            return chosen;
        };
        let (candidate, tokens) = remaining.remove(best);
        left -= tokens;
        covered.extend(&candidate.phrases);
        chosen.push((candidate, false));
    }
}

/// EMem's compact set, in the order in which it is chosen.
fn compact_set(gold: &Gold, ranked: &[Candidate]) -> Vec<Candidate> {
    const NAMING: usize = 2;
    const FALLBACK: usize = 3;
    let mut chosen: Vec<&Candidate> = Vec::new();
    let holds = |candidate: &Candidate, phrase: u32| candidate.phrases.contains(&phrase);
    for (phrase, at) in gold.phrases().iter().zip(0..) {
        if phrase.is_value && !chosen.iter().any(|candidate| holds(candidate, at)) {
            chosen.extend(ranked.iter().find(|candidate| holds(candidate, at)));
        }
    }
    let is_name = |phrase: &u32| {
        let phrase = gold.phrases().get(*phrase as usize);
        phrase.is_some_and(|phrase| !phrase.is_value)
    };
    let naming = ranked.iter().filter(|candidate| {
        candidate.phrases.iter().any(is_name)
            && !chosen.iter().any(|other| other.number == candidate.number)
    });
    let naming: Vec<&Candidate> = naming.take(NAMING).collect();
    chosen.extend(naming);
    if chosen.is_empty() {
        chosen.extend(ranked.iter().take(FALLBACK));
    }
    chosen.into_iter().cloned().collect()
}

fn show(number: usize, object: &Object, cut_to: Option<usize>, tokens: Tokens<'_>) -> Shown {
    match cut_to {
        None => Shown {
            number,
            text: object.block.clone(),
            tokens: object.tokens,
            cut: false,
        },
        Some(budget) => {
            let text = (tokens.prefix)(&object.block, budget);
            Shown {
                number,
                text: text.to_owned(),
                tokens: (tokens.count)(text),
                cut: true,
            }
        }
    }
}
