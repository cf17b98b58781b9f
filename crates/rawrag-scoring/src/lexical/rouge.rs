use std::collections::HashMap;
use std::hash::Hash;

use super::porter::stem;

/// Overlap of an answer with a gold answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rouge {
    /// Share of the answer that the gold answer holds.
    pub precision: f64,
    /// Share of the gold answer that the answer holds.
    pub recall: f64,
    /// Their harmonic mean.
    pub f1: f64,
}

/// The tokens that ROUGE compares, as Google's `rouge_score` 0.1.2 makes them: runs of ASCII letters
/// and digits in lower case; with `stems`, those of more than three characters are stemmed.
pub fn rouge_tokens(text: &str, stems: bool) -> Vec<String> {
    let lower = text.to_lowercase();
    lower
        .split(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit()))
        .filter(|token| !token.is_empty())
        .map(|token| {
            if stems && token.len() > 3 {
                stem(token)
            } else {
                token.to_owned()
            }
        })
        .collect()
}

/// ROUGE-N over n-grams (Lin 2004) of [`rouge_tokens`]. `None` when the gold answer has no n-gram
/// or `n` is 0.
pub fn rouge_n<T: Eq + Hash>(answer: &[T], gold: &[T], n: usize) -> Option<Rouge> {
    if n == 0 {
        return None;
    }
    let mut left: HashMap<&[T], usize> = HashMap::new();
    for gram in gold.windows(n) {
        *left.entry(gram).or_default() += 1;
    }
    let mut common = 0;
    for gram in answer.windows(n) {
        if let Some(count @ 1..) = left.get_mut(gram) {
            *count -= 1;
            common += 1;
        }
    }
    let grams = |tokens: &[T]| (tokens.len() + 1).saturating_sub(n);
    overlap(common, grams(answer), grams(gold))
}

/// ROUGE-L over the longest common subsequence of [`rouge_tokens`], the text as one sentence. `None`
/// when the gold answer has no token.
pub fn rouge_l<T: Eq>(answer: &[T], gold: &[T]) -> Option<Rouge> {
    let common = longest_common_subsequence(answer, gold);
    overlap(common, answer.len(), gold.len())
}

fn overlap(common: usize, answer: usize, gold: usize) -> Option<Rouge> {
    if gold == 0 {
        return None;
    }
    let precision = common as f64 / answer.max(1) as f64;
    let recall = common as f64 / gold as f64;
    let f1 = if common == 0 {
        0.0
    } else {
        2.0 * precision * recall / (precision + recall)
    };
    Some(Rouge {
        precision,
        recall,
        f1,
    })
}

fn longest_common_subsequence<T: Eq>(a: &[T], b: &[T]) -> usize {
    let mut row = vec![0; b.len() + 1];
    for x in a {
        let mut diagonal = 0;
        for (j, y) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = if x == y {
                diagonal + 1
            } else {
                above.max(row[j])
            };
            diagonal = above;
        }
    }
    row[b.len()]
}
