//! What readers see: how long it is, how much of it is repeated, where the answer stands in it,
//! which stage lost it, and what a ceiling of 5,000 tokens would take away.
//!
//! - Lengths: o200k_base tokens of the assembled evidence, as counted when the run was made
//!   (Raw-RAG, A.4.2, Table 20).
//! - Repetition: with text, runs of eight words that an earlier item of the same evidence holds
//!   already; without it, messages that an earlier item comes from.
//! - Position: the first item that holds a gold message, by rank and by the tokens before it.
//! - Stages: a dense stage is credited with nothing where it passed on all there was.
//! - Ceilings: the two controls of C.4, see [`budget`](crate::budget).

use std::collections::{BTreeMap, HashSet};

use rayon::prelude::*;

use crate::budget::{self, Capped};
use crate::losses::{Fate, Loss, Stages};
use crate::report::{RUN_COLUMN, table};
use crate::shown::{assembled, cutoffs};
use crate::spread::Spread;
use crate::{
    Column, Diagnostic, DiagnosticError, Input, Outputs, Places, QuestionRecords, Report, Shown,
    Unit, Value,
};

pub(crate) const EVIDENCE: Diagnostic = Diagnostic {
    name: "evidence",
    about: "How long evidence is, how much of it repeats, where the answer stands in it, and what \
            a ceiling would take away",
    source: "Raw-RAG, A.4.2 to A.4.4 and C.4, Tables 20 to 24; rawrag",
    needs: &[],
    analyse,
};

/// The ceiling of C.4.
pub(crate) const CEILING: u32 = 5_000;

/// Words of a run that counts as repeated.
const RUN: usize = 8;

fn analyse(input: &Input<'_>) -> Result<Report, DiagnosticError> {
    let mut report = Parts::default();
    for &run in &input.runs {
        if !run.questions.iter().any(|q| Shown::of(q, None).is_some()) {
            return Err(DiagnosticError::Missing {
                diagnostic: EVIDENCE.name,
                need: "retrievals or searches",
                run: run.manifest.name.clone(),
            });
        }
        let twin = plain_twin(run, input);
        let depths = depths(run, input.settings.depth);
        for &depth in &depths {
            report.lengths.push(lengths(run, depth));
            report.items.push(items(run, depth));
            report.position.push(position(run, depth));
            report.stages.push(stages(run, depth));
            report.ceiling.push(ceiling(run, twin, depth));
            let cost = twin.and_then(|twin| expansion(run, twin, depth));
            report.expansion.extend(cost);
        }
        report.novelty.extend(novelty(run));
        report.notes.extend(notes(run));
    }
    Ok(Report {
        tables: vec![
            table("lengths", "one run at one depth", &LENGTHS, report.lengths),
            table("items", "one run at one depth", &ITEMS, report.items),
            table(
                "novelty",
                "the items of one run at some ranks",
                &NOVELTY,
                report.novelty,
            ),
            table(
                "position",
                "one run at one depth",
                &POSITION,
                report.position,
            ),
            table("stages", "one run at one depth", &STAGES, report.stages),
            table(
                "expansion",
                "one run at one depth whose items are on record unexpanded too",
                &EXPANSION,
                report.expansion,
            ),
            table("ceiling", "one run at one depth", &CEILINGS, report.ceiling),
        ],
        notes: report.notes,
    })
}

#[derive(Default)]
struct Parts {
    lengths: Vec<Vec<Value>>,
    items: Vec<Vec<Value>>,
    novelty: Vec<Vec<Value>>,
    position: Vec<Vec<Value>>,
    stages: Vec<Vec<Value>>,
    expansion: Vec<Vec<Value>>,
    ceiling: Vec<Vec<Value>>,
    notes: Vec<String>,
}

/// The depths to look at: the one asked for, else those at which the run counted its evidence, else
/// everything it returned.
pub(crate) fn depths(run: &Outputs, asked: Option<usize>) -> Vec<Option<usize>> {
    if asked.is_some() {
        return vec![asked];
    }
    let cutoffs = cutoffs(run);
    if cutoffs.is_empty() {
        return vec![None];
    }
    cutoffs.into_iter().map(Some).collect()
}

/// A depth in a table.
pub(crate) fn depth_value(depth: Option<usize>) -> Value {
    depth.map_or_else(|| "all".into(), |depth| depth.to_string().into())
}

const LENGTHS: [Column; 9] = [
    RUN_COLUMN,
    DEPTH,
    Column::new(
        "questions",
        Unit::Count,
        "questions whose evidence was counted at that depth",
    ),
    Column::new(
        "mean",
        Unit::Tokens,
        "tokens of the evidence, headers and separators included",
    ),
    Column::new("median", Unit::Tokens, "the same, median"),
    Column::new("p95", Unit::Tokens, "the same, 95th percentile"),
    Column::new("max", Unit::Tokens, "the same, maximum"),
    Column::new(
        "over 5,000",
        Unit::Count,
        "questions with more than 5,000 tokens",
    ),
    Column::new("share over", Unit::Rate, "their share"),
];

pub(crate) const DEPTH: Column = Column::new(
    "k",
    Unit::Text,
    "items that are looked at; `all` is everything returned",
);

fn lengths(run: &Outputs, depth: Option<usize>) -> Vec<Value> {
    let counted = run
        .questions
        .iter()
        .filter_map(|q| assembled(run, q, depth));
    let tokens = Spread::of(counted.map(f64::from));
    let over = run
        .questions
        .iter()
        .filter_map(|q| assembled(run, q, depth))
        .filter(|&tokens| tokens > CEILING)
        .count();
    let what = "evidence counted at that depth";
    vec![
        run.manifest.name.as_str().into(),
        depth_value(depth),
        tokens.len().into(),
        tokens.mean_of(what),
        tokens.percentile_of(0.5, what),
        tokens.percentile_of(0.95, what),
        tokens.percentile_of(1.0, what),
        over.into(),
        Value::rate(over as u64, tokens.len() as u64, what),
    ]
}

const ITEMS: [Column; 8] = [
    RUN_COLUMN,
    DEPTH,
    Column::new("items", Unit::Number, "mean number of items shown"),
    Column::new(
        "bodies",
        Unit::Tokens,
        "mean tokens of the items by themselves",
    ),
    Column::new(
        "formatting",
        Unit::Tokens,
        "mean tokens of the whole evidence beyond those of its items: headers and separators",
    ),
    Column::new(
        "repeated messages",
        Unit::Rate,
        "of the messages that items come from, the share that an earlier item comes from too; mean \
         over questions",
    ),
    Column::new(
        "repeated text",
        Unit::Rate,
        "of the runs of eight words, the share that stands earlier in the same evidence; mean over \
         questions",
    ),
    Column::new("empty", Unit::Count, "questions with no item at all"),
];

fn items(run: &Outputs, depth: Option<usize>) -> Vec<Value> {
    let (mut counts, mut bodies, mut formatting) = (Vec::new(), Vec::new(), Vec::new());
    let mut messages = Vec::new();
    let mut empty = 0_u64;
    for question in &run.questions {
        let Some(shown) = Shown::of(question, depth) else {
            continue;
        };
        empty += u64::from(shown.items.is_empty());
        counts.push(shown.items.iter().filter(|item| item.tokens > 0).count() as f64);
        bodies.push(shown.tokens() as f64);
        if let Some(whole) = assembled(run, question, depth) {
            formatting.push(f64::from(whole) - shown.tokens() as f64);
        }
        let (different, all) = shown.messages();
        if all > 0 {
            messages.push((all - different) as f64 / all as f64);
        }
    }
    let repeated = |question| repeated_text(&Shown::of(question, depth)?);
    let text: Vec<f64> = run.questions.par_iter().filter_map(repeated).collect();
    let mean = |values: Vec<f64>, what: &str| Spread::of(values).mean_of(what);
    vec![
        run.manifest.name.as_str().into(),
        depth_value(depth),
        mean(counts, "questions"),
        mean(bodies, "questions"),
        mean(formatting, "evidence counted at that depth"),
        mean(messages, "messages of items on record"),
        mean(text, "text on record"),
        empty.into(),
    ]
}

/// The share of the runs of words that stand earlier; `None` without text or without a run.
///
/// Runs are told apart by 64 bits of a hash: among the few thousand of one question two different
/// ones meet once in 10^12 questions.
fn repeated_text(shown: &Shown<'_>) -> Option<f64> {
    let mut seen = Vec::new();
    let mut words = Vec::new();
    for item in &shown.items {
        words.clear();
        words.extend(item.text?.split_whitespace().map(hash));
        seen.extend(
            words
                .windows(RUN)
                .map(|run| run.iter().fold(0, |all, word| mix(all ^ word))),
        );
    }
    let all = seen.len();
    seen.sort_unstable();
    seen.dedup();
    (all > 0).then(|| (all - seen.len()) as f64 / all as f64)
}

fn hash(word: &str) -> u64 {
    let bytes = word.bytes();
    mix(bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    }))
}

/// The finaliser of SplitMix64.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

const RANKS: [(usize, usize); 7] = [
    (1, 1),
    (2, 3),
    (4, 5),
    (6, 10),
    (11, 15),
    (16, 30),
    (31, usize::MAX),
];

const NOVELTY: [Column; 6] = [
    RUN_COLUMN,
    Column::new("ranks", Unit::Text, "ranks of the items"),
    Column::new(
        "items",
        Unit::Count,
        "items of known messages at these ranks, over all questions",
    ),
    Column::new(
        "novelty",
        Unit::Rate,
        "mean share of an item's messages that no earlier item comes from",
    ),
    Column::new(
        "nothing new",
        Unit::Rate,
        "items none of whose messages are new",
    ),
    Column::new(
        "new gold",
        Unit::Rate,
        "of the questions with gold messages that have an item at these ranks, the share to which \
         one adds a gold message that no earlier item holds",
    ),
];

fn novelty(run: &Outputs) -> Vec<Vec<Value>> {
    #[derive(Default)]
    struct Group {
        shares: Vec<f64>,
        nothing: u64,
        asked: u64,
        gained: u64,
    }
    let mut groups: BTreeMap<usize, Group> = BTreeMap::new();
    let place = |rank: usize| RANKS.iter().position(|r| (r.0..=r.1).contains(&rank));
    for question in &run.questions {
        let Some(shown) = Shown::of(question, None) else {
            continue;
        };
        let mut seen = HashSet::new();
        let mut found = vec![false; shown.gold.len()];
        let mut reached: BTreeMap<usize, bool> = BTreeMap::new();
        for (rank, item) in (1..).zip(&shown.items) {
            let Some(at) = place(rank) else { continue };
            let mut gained = false;
            for held in shown.held(item).unwrap_or_default() {
                gained |= !std::mem::replace(&mut found[held], true);
            }
            *reached.entry(at).or_default() |= gained;
            let messages: Vec<u32> = match item.messages {
                Places::Unknown => continue,
                places => places.each().collect(),
            };
            if messages.is_empty() {
                continue;
            }
            let new = messages.iter().filter(|&&m| seen.insert(m)).count();
            let group = groups.entry(at).or_default();
            group.shares.push(new as f64 / messages.len() as f64);
            group.nothing += u64::from(new == 0);
        }
        if !shown.gold.is_empty() {
            for (at, gained) in reached {
                let group = groups.entry(at).or_default();
                group.asked += 1;
                group.gained += u64::from(gained);
            }
        }
    }
    let row = |(at, group): (usize, Group)| {
        let (from, to) = RANKS[at];
        let ranks = match to {
            usize::MAX => format!("{from} and on"),
            to if to == from => from.to_string(),
            to => format!("{from} to {to}"),
        };
        let items = group.shares.len();
        vec![
            run.manifest.name.as_str().into(),
            ranks.into(),
            items.into(),
            Spread::of(group.shares).mean_of("messages of items on record"),
            Value::rate(group.nothing, items as u64, "messages of items on record"),
            Value::rate(group.gained, group.asked, "questions with gold messages"),
        ]
    };
    groups.into_iter().map(row).collect()
}

const POSITION: [Column; 9] = [
    RUN_COLUMN,
    DEPTH,
    Column::new(
        "questions",
        Unit::Count,
        "questions with gold messages whose items' messages are known",
    ),
    Column::new(
        "found",
        Unit::Rate,
        "of these, those with an item that holds a gold message",
    ),
    Column::new("median rank", Unit::Number, "rank of the first such item"),
    Column::new(
        "tokens before",
        Unit::Tokens,
        "mean tokens of the items before it",
    ),
    Column::new(
        "first third",
        Unit::Rate,
        "of those found, it begins in the first third of the tokens",
    ),
    Column::new("middle third", Unit::Rate, "in the second"),
    Column::new("last third", Unit::Rate, "in the last"),
];

fn position(run: &Outputs, depth: Option<usize>) -> Vec<Value> {
    let (mut asked, mut ranks, mut before) = (0_u64, Vec::new(), Vec::new());
    let mut thirds = [0_u64; 3];
    for question in &run.questions {
        let Some(shown) = Shown::of(question, depth) else {
            continue;
        };
        if shown.gold.is_empty() || shown.ranking().is_none() {
            continue;
        }
        asked += 1;
        let holds = |item| shown.held(item).is_some_and(|held| !held.is_empty());
        let Some(first) = shown.items.iter().position(holds) else {
            continue;
        };
        let earlier = shown.items[..first]
            .iter()
            .map(|item| u64::from(item.tokens));
        let earlier: u64 = earlier.sum();
        ranks.push((first + 1) as f64);
        before.push(earlier as f64);
        let third = 3 * earlier / shown.tokens().max(1);
        thirds[(third as usize).min(2)] += 1;
    }
    let found = ranks.len() as u64;
    let what = "questions whose gold was found";
    vec![
        run.manifest.name.as_str().into(),
        depth_value(depth),
        asked.into(),
        Value::rate(found, asked, GOLD),
        Spread::of(ranks).percentile_of(0.5, what),
        Spread::of(before).mean_of(what),
        Value::rate(thirds[0], found, what),
        Value::rate(thirds[1], found, what),
        Value::rate(thirds[2], found, what),
    ]
}

const GOLD: &str = "questions with gold messages";

const STAGES: [Column; 13] = [
    RUN_COLUMN,
    DEPTH,
    Column::new("questions", Unit::Count, "questions with gold messages"),
    Column::new(
        "available",
        Unit::Number,
        "mean chunks visible to the question",
    ),
    Column::new(
        "shortlist",
        Unit::Number,
        "mean chunks that the dense stage passed on",
    ),
    Column::new(
        "dense removed",
        Unit::Rate,
        "questions for which the dense stage passed on fewer chunks than there were",
    ),
    Column::new(
        "whole",
        Unit::Count,
        "questions all of whose gold messages are shown",
    ),
    Column::new(
        "not stored",
        Unit::Count,
        "questions that lose a gold message there, and none before",
    ),
    Column::new("not shortlisted", Unit::Count, "by the first stage"),
    Column::new("dropped", Unit::Count, "by a later stage"),
    Column::new("cut", Unit::Count, "by the budget"),
    Column::new("unknown", Unit::Count, "where it was lost is not on record"),
    Column::new(
        "raised less sunk",
        Unit::Points,
        "questions whose first k items hold a gold message and whose k best by cosine do not, less \
         those the other way, as a share; among the items returned",
    ),
];

fn stages(run: &Outputs, depth: Option<usize>) -> Vec<Value> {
    let stages = Stages::of(run);
    let (mut available, mut shortlist) = (Vec::new(), Vec::new());
    let (mut removed, mut retrieved) = (0_u64, 0_u64);
    let (mut asked, mut whole, mut unknown) = (0_u64, 0_u64, 0_u64);
    let mut lost: BTreeMap<Loss, u64> = BTreeMap::new();
    let (mut raised, mut sunk, mut ranked) = (0_i64, 0_i64, 0_u64);
    for question in &run.questions {
        if let Some(retrieval) = &question.retrieval {
            retrieved += 1;
            available.push(f64::from(retrieval.available));
            shortlist.push(f64::from(retrieval.shortlist));
            removed += u64::from(retrieval.shortlist < retrieval.available);
        }
        let Some(fates) = stages.fates(question, depth) else {
            continue;
        };
        if fates.is_empty() {
            continue;
        }
        asked += 1;
        match first_loss(&fates) {
            First::Whole => whole += 1,
            First::Lost(loss) => *lost.entry(loss).or_default() += 1,
            First::Unknown(_) => unknown += 1,
        }
        if let Some((by_score, by_cosine)) = moved(question, depth) {
            ranked += 1;
            raised += i64::from(by_score && !by_cosine);
            sunk += i64::from(by_cosine && !by_score);
        }
    }
    let count = |loss| Value::Count(lost.get(&loss).copied().unwrap_or(0));
    vec![
        run.manifest.name.as_str().into(),
        depth_value(depth),
        asked.into(),
        Spread::of(available).mean_of("retrievals on record"),
        Spread::of(shortlist).mean_of("retrievals on record"),
        Value::rate(removed, retrieved, "retrievals on record"),
        whole.into(),
        count(Loss::NotStored),
        count(Loss::NotShortlisted),
        count(Loss::Dropped),
        count(Loss::Cut),
        unknown.into(),
        match ranked {
            0 => Value::Absent("no dense ranks beside another order at this depth".to_owned()),
            n => Value::Number((raised - sunk) as f64 / n as f64),
        },
    ]
}

/// The first point at which any gold message is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// None is.
    Whole,
    Lost(Loss),
    Unknown(&'static str),
}

/// A known loss counts before an unknown one only if nothing can come before it.
pub(crate) fn first_loss(fates: &[Fate]) -> First {
    let unknown = fates.iter().find_map(|fate| match fate {
        Fate::Unknown(why) => Some(*why),
        _ => None,
    });
    let known = fates.iter().filter_map(|fate| match fate {
        Fate::Lost(loss) => Some(*loss),
        _ => None,
    });
    match (known.min(), unknown) {
        (Some(Loss::NotStored), _) => First::Lost(Loss::NotStored),
        (_, Some(why)) => First::Unknown(why),
        (Some(loss), None) => First::Lost(loss),
        (None, None) => First::Whole,
    }
}

/// Whether the first `k` items hold gold, by score and by cosine; `None` where there are no dense
/// ranks, or where the k best by cosine were not all returned.
fn moved(question: &QuestionRecords, depth: Option<usize>) -> Option<(bool, bool)> {
    let retrieval = question.retrieval.as_ref()?;
    let k = depth?;
    if retrieval.dense_rank.len() != retrieval.chunks.len() || k >= retrieval.chunks.len() {
        return None;
    }
    let shown = Shown::of(question, None)?;
    let holds = |at: usize| {
        shown
            .held(&shown.items[at])
            .is_some_and(|held| !held.is_empty())
    };
    let by_cosine = (0..shown.items.len())
        .filter(|&at| retrieval.dense_rank[at] as usize <= k)
        .any(holds);
    Some(((0..k).any(holds), by_cosine))
}

const CEILINGS: [Column; 11] = [
    RUN_COLUMN,
    DEPTH,
    Column::new(
        "control",
        Unit::Text,
        "`prefix`, or `expansion-aware` where the same items are on record unexpanded too",
    ),
    Column::new(
        "questions",
        Unit::Count,
        "questions whose evidence was counted at that depth",
    ),
    Column::new("native mean", Unit::Tokens, "mean tokens without a ceiling"),
    Column::new("capped mean", Unit::Tokens, "mean tokens under 5,000"),
    Column::new("changed", Unit::Count, "questions whose evidence changes"),
    Column::new(
        "items lost",
        Unit::Count,
        "whole items that no longer fit, over all questions",
    ),
    Column::new(
        "clipped",
        Unit::Count,
        "questions whose first item alone is cut",
    ),
    Column::new(
        "gold lost",
        Unit::Count,
        "questions that had a gold message and lose one; of a clipped item it is not known",
    ),
    Column::new(
        "near",
        Unit::Count,
        "questions so near the ceiling, within a token an item, that counting by items may misjudge them",
    ),
];

/// The run whose items are the same, unexpanded.
fn plain_twin<'a>(run: &Outputs, input: &Input<'a>) -> Option<&'a Outputs> {
    if run.manifest.settings["evidence"]["expand"] != serde_json::Value::Bool(true) {
        return None;
    }
    let twin = |other: &&&Outputs| {
        let only_expansion = run
            .manifest
            .differences(&other.manifest)
            .iter()
            .all(|d| d.field == "settings.evidence.expand" || d.field.starts_with("code."));
        let plain = other.manifest.settings["evidence"]["expand"] == serde_json::Value::Bool(false);
        let same = || {
            run.questions.len() == other.questions.len()
                && run.questions.iter().zip(&other.questions).all(|(a, b)| {
                    let chunks =
                        |q: &QuestionRecords| q.retrieval.as_ref().map(|r| r.chunks.clone());
                    a.key == b.key && chunks(a) == chunks(b)
                })
        };
        plain && only_expansion && same()
    };
    input.runs.iter().find(twin).copied()
}

fn ceiling(run: &Outputs, twin: Option<&Outputs>, depth: Option<usize>) -> Vec<Value> {
    let (mut native, mut capped_tokens) = (Vec::new(), Vec::new());
    let (mut changed, mut items, mut clipped, mut gold, mut near) =
        (0_u64, 0_u64, 0_u64, 0_u64, 0_u64);
    for (at, question) in run.questions.iter().enumerate() {
        let Some((shown, whole)) = Shown::of(question, depth).zip(assembled(run, question, depth))
        else {
            continue;
        };
        let bodies: Vec<u32> = shown.items.iter().map(|item| item.tokens).collect();
        let between = between(whole, &shown);
        let plain = twin
            .and_then(|twin| Shown::of(twin.questions.get(at)?, depth))
            .map(|shown| shown.items.iter().map(|i| i.tokens).collect::<Vec<u32>>());
        let capped = if whole <= CEILING {
            // Within the ceiling evidence is left as it is, whatever its items add up to.
            Capped {
                kept: bodies.len(),
                clipped: None,
                tokens: u64::from(whole),
                plain: false,
            }
        } else {
            match &plain {
                Some(plain) => budget::expansion_aware(&bodies, plain, between, CEILING),
                None => budget::prefix(&bodies, between, CEILING),
            }
        };
        native.push(f64::from(whole));
        capped_tokens.push(capped.tokens as f64);
        changed += u64::from(capped.changed(bodies.len()));
        items += (bodies.len() - capped.kept) as u64;
        clipped += u64::from(capped.clipped.is_some());
        near += u64::from(u64::from(whole.abs_diff(CEILING)) <= bodies.len() as u64);
        gold += u64::from(loses_gold(&shown, &capped));
    }
    let questions = native.len();
    vec![
        run.manifest.name.as_str().into(),
        depth_value(depth),
        if twin.is_some() {
            "expansion-aware"
        } else {
            "prefix"
        }
        .into(),
        questions.into(),
        Spread::of(native).mean_of("evidence counted at that depth"),
        Spread::of(capped_tokens).mean_of("evidence counted at that depth"),
        changed.into(),
        items.into(),
        clipped.into(),
        gold.into(),
        near.into(),
    ]
}

const EXPANSION: [Column; 7] = [
    RUN_COLUMN,
    DEPTH,
    Column::new("plain run", Unit::Text, "the same items without expansion"),
    Column::new(
        "questions",
        Unit::Count,
        "questions counted at that depth in both",
    ),
    Column::new("plain", Unit::Tokens, "mean tokens without expansion"),
    Column::new("expanded", Unit::Tokens, "mean tokens with it"),
    Column::new(
        "overhead",
        Unit::Rate,
        "what expansion adds, as a share of the plain evidence",
    ),
];

/// What showing the whole messages around a chunk costs.
fn expansion(run: &Outputs, plain: &Outputs, depth: Option<usize>) -> Option<Vec<Value>> {
    let both = run
        .questions
        .iter()
        .zip(&plain.questions)
        .filter_map(|(a, b)| {
            let (expanded, bare) = (assembled(run, a, depth)?, assembled(plain, b, depth)?);
            Some((f64::from(expanded), f64::from(bare)))
        });
    let (expanded, bare): (Vec<f64>, Vec<f64>) = both.unzip();
    let (expanded, bare) = (Spread::of(expanded), Spread::of(bare));
    let overhead = (bare.sum() > 0.0).then(|| expanded.sum() / bare.sum() - 1.0)?;
    Some(vec![
        run.manifest.name.as_str().into(),
        depth_value(depth),
        plain.manifest.name.as_str().into(),
        expanded.len().into(),
        bare.mean_of("evidence counted at that depth"),
        expanded.mean_of("evidence counted at that depth"),
        Value::Number(overhead),
    ])
}

/// What headers and separators add for each item but the first, on average, rounded up.
fn between(whole: u32, shown: &Shown<'_>) -> u32 {
    let others = shown.items.len().saturating_sub(1) as u64;
    let formatting = u64::from(whole).saturating_sub(shown.tokens());
    if others == 0 {
        return 0;
    }
    u32::try_from(formatting.div_ceil(others)).unwrap_or(u32::MAX)
}

/// Whether a gold message that the items hold is in none of those kept whole, and not in a first
/// item of which a part is kept.
fn loses_gold(shown: &Shown<'_>, capped: &Capped) -> bool {
    let found = |items: usize| {
        let mut found: Vec<usize> = shown.items[..items]
            .iter()
            .filter_map(|item| shown.held(item))
            .flatten()
            .collect();
        found.sort_unstable();
        found.dedup();
        found.len()
    };
    let kept = capped.kept + usize::from(capped.clipped.is_some());
    found(kept) < found(shown.items.len())
}

fn notes(run: &Outputs) -> Vec<String> {
    let name = &run.manifest.name;
    let mut notes = Vec::new();
    let failed = run
        .questions
        .iter()
        .filter(|q| Shown::of(q, None).is_some_and(|s| s.failed))
        .count();
    if failed > 0 {
        notes.push(format!(
            "{name}: {failed} searches failed and count as empty."
        ));
    }
    let expanded = &run.manifest.settings["evidence"]["expand"];
    if *expanded == serde_json::Value::Bool(false)
        && run.manifest.settings["retrieval"]["chunks"]["overlap"]
            .as_u64()
            .is_some_and(|o| o > 0)
    {
        notes.push(format!(
            "{name}: windows are shown unexpanded, so a message at the border of two counts as \
             repeated though each shows a part of it."
        ));
    }
    let retrievals = || run.questions.iter().filter_map(|q| q.retrieval.as_ref());
    if retrievals().next().is_some() && retrievals().all(|r| r.shortlist == r.available) {
        notes.push(format!(
            "{name}: its first stage removed nothing for any question and is credited with nothing."
        ));
    }
    notes
}
