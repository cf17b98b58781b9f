//! What a retrieval run measured, in a few rows.

use rawrag_records::Retrieval;
use rawrag_scoring::Ranking;

/// One row: how much of the gold evidence the first `k` items hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Depth {
    /// Number of items.
    pub k: usize,
    /// Questions with gold evidence.
    pub questions: usize,
    /// Of those, the share with any of it among the items.
    pub any: Option<f64>,
    /// The share with all of it.
    pub all: Option<f64>,
    /// Mean o200k_base tokens of the evidence, over all questions.
    pub tokens: Option<f64>,
}

/// A row for each cutoff, at which the records count tokens too. Questions whose gold evidence is
/// empty count for tokens only.
pub fn by_depth(records: &[Retrieval], cutoffs: &[usize]) -> Vec<Depth> {
    let rankings: Vec<Ranking> = records.iter().map(ranking).collect();
    let share = |hits: Vec<bool>| mean(hits.into_iter().map(|hit| if hit { 1.0 } else { 0.0 }));
    cutoffs
        .iter()
        .enumerate()
        .map(|(at, &k)| {
            let any: Vec<bool> = rankings.iter().filter_map(|r| r.recall_any(k)).collect();
            let all = rankings.iter().filter_map(|r| r.recall_all(k)).collect();
            let tokens = records.iter().filter_map(|r| r.evidence_tokens.get(at));
            Depth {
                k,
                questions: any.len(),
                any: share(any),
                all: share(all),
                tokens: mean(tokens.map(|&tokens| f64::from(tokens))),
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
