use std::collections::HashMap;
use std::hash::Hash;

/// What stands for the precision of an order of which no n-gram is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Smoothing {
    /// 0, and so the whole score.
    None,
    /// A tenth of an n-gram (Chen and Cherry 2014, method 1).
    Method1,
}

/// BLEU of one answer against one gold answer, over n-grams of the orders 1 to `order` with equal
/// weights, with the brevity penalty (Papineni et al. 2002; nltk's `sentence_bleu`).
///
/// Where no single token is shared the score is 0 whatever the smoothing, as in nltk. Without
/// smoothing nltk gives the smallest float for an order without a match and so a score below
/// 1e-75; here it is 0. `None` when the gold answer has no token or `order` is 0.
pub fn bleu<T: Eq + Hash>(
    answer: &[T],
    gold: &[T],
    order: usize,
    smoothing: Smoothing,
) -> Option<f64> {
    if gold.is_empty() || order == 0 {
        return None;
    }
    if answer.is_empty() {
        return Some(0.0);
    }
    let mut logs = Vec::with_capacity(order);
    for n in 1..=order {
        let (shared, of) = shared_ngrams(answer, gold, n);
        let shared = match (shared, smoothing) {
            (0, _) if n == 1 => return Some(0.0),
            (0, Smoothing::None) => return Some(0.0),
            (0, Smoothing::Method1) => 0.1,
            (shared, _) => shared as f64,
        };
        logs.push((shared / of as f64).ln() / order as f64);
    }
    let penalty = if answer.len() > gold.len() {
        1.0
    } else {
        (1.0 - gold.len() as f64 / answer.len() as f64).exp()
    };
    Some(penalty * logs.iter().sum::<f64>().exp())
}

/// How many of the answer's n-grams the gold answer holds, each at most as often as there, and how
/// many n-grams the answer has, at least 1.
fn shared_ngrams<T: Eq + Hash>(answer: &[T], gold: &[T], n: usize) -> (usize, usize) {
    let mut held: HashMap<&[T], usize> = HashMap::new();
    for gram in gold.windows(n) {
        *held.entry(gram).or_default() += 1;
    }
    let mut shared = 0;
    for gram in answer.windows(n) {
        if let Some(left @ 1..) = held.get_mut(gram) {
            *left -= 1;
            shared += 1;
        }
    }
    (shared, (answer.len() + 1).saturating_sub(n).max(1))
}
