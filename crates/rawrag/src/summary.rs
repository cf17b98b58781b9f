//! How much of the gold evidence a run found, in a few rows.

use std::collections::HashMap;

use rawrag_records::{EvidenceItem, Key, Retrieval, Search};
use rawrag_scoring::Ranking;

/// What was found for one question.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The question.
    pub key: Key,
    /// Its items against its gold messages; `None` where the system does not say what messages an
    /// item comes from.
    pub ranking: Option<Ranking>,
    /// o200k_base tokens of the evidence at each cutoff of the run, or of the first k items at
    /// place k - 1 where a system returned them.
    tokens: Tokens,
}

#[derive(Clone, Debug, PartialEq)]
enum Tokens {
    AtCutoffs(Vec<u32>),
    OfItems(Vec<u32>),
}

/// One a question: from retrievals, or else from searches and their evidence.
pub fn found(
    retrievals: &[Retrieval],
    searches: &[Search],
    evidence: &[EvidenceItem],
) -> Vec<Found> {
    if !retrievals.is_empty() {
        let retrieved = |r: &Retrieval| Found {
            key: r.question_key(),
            ranking: Some(ranking(r)),
            tokens: Tokens::AtCutoffs(r.evidence_tokens.clone()),
        };
        return retrievals.iter().map(retrieved).collect();
    }
    let mut items: HashMap<Key, Vec<&EvidenceItem>> = HashMap::new();
    for item in evidence {
        items.entry(item.question_key()).or_default().push(item);
    }
    let searched = |search: &Search| {
        let key = search.question_key();
        let mut items = items.get(&key).cloned().unwrap_or_default();
        items.sort_by_key(|item| item.rank);
        Found {
            ranking: of_items(&search.gold_messages, &items),
            tokens: Tokens::OfItems(items.iter().map(|item| item.tokens).collect()),
            key,
        }
    };
    searches.iter().map(searched).collect()
}

fn of_items(gold: &[u32], items: &[&EvidenceItem]) -> Option<Ranking> {
    let held = |item: &&EvidenceItem| {
        let messages = item.messages.as_ref()?;
        let held = (0..).zip(gold).filter(|(_, gold)| messages.contains(gold));
        Some(held.map(|(at, _)| at).collect())
    };
    let items: Vec<Vec<usize>> = items.iter().map(held).collect::<Option<_>>()?;
    Some(Ranking::new(gold.len(), items.iter().map(Vec::as_slice)))
}

/// One row: how much of the gold evidence the first `k` items hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Depth {
    /// Number of items.
    pub k: usize,
    /// Questions with gold evidence, and items of known origin.
    pub questions: usize,
    /// Of those, the share with any of it among the items.
    pub any: Option<f64>,
    /// The share with all of it.
    pub all: Option<f64>,
    /// Mean o200k_base tokens of the evidence, over all questions.
    pub tokens: Option<f64>,
}

/// A row for each cutoff of the run. Questions whose gold evidence is empty count for tokens only.
pub fn by_depth(found: &[Found], cutoffs: &[usize]) -> Vec<Depth> {
    let share = |hits: Vec<bool>| mean(hits.into_iter().map(|hit| if hit { 1.0 } else { 0.0 }));
    let rankings: Vec<&Ranking> = found.iter().filter_map(|f| f.ranking.as_ref()).collect();
    cutoffs
        .iter()
        .enumerate()
        .map(|(at, &k)| {
            let any: Vec<bool> = rankings.iter().filter_map(|r| r.recall_any(k)).collect();
            let all = rankings.iter().filter_map(|r| r.recall_all(k)).collect();
            let tokens = found.iter().filter_map(|found| match &found.tokens {
                Tokens::AtCutoffs(tokens) => tokens.get(at).copied(),
                Tokens::OfItems(tokens) => Some(tokens.iter().take(k).sum()),
            });
            Depth {
                k,
                questions: any.len(),
                any: share(any),
                all: share(all),
                tokens: mean(tokens.map(f64::from)),
            }
        })
        .collect()
}

/// The share of questions for which the dense stage removed anything.
pub fn dense_removed(records: &[Retrieval]) -> Option<f64> {
    mean(
        records
            .iter()
            .map(|r| if r.shortlist < r.available { 1.0 } else { 0.0 }),
    )
}

/// A record's items against its gold messages.
pub fn ranking(record: &Retrieval) -> Ranking {
    let spans = record
        .first_message
        .iter()
        .copied()
        .zip(record.last_message.iter().copied());
    Ranking::of_spans(&record.gold_messages, spans)
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0u32), |(sum, count), x| (sum + x, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}
