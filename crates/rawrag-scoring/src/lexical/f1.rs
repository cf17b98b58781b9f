use std::collections::{HashMap, HashSet};

use super::porter::stem;
use super::tokens::{content_words, words};

/// Token F1 as the Raw-RAG paper has it (Appendix A.1.3, after Nemori): over the *sets* of
/// lower-case tokens, with full stops, commas, exclamation and question marks as spaces.
pub fn set_f1(answer: &str, gold: &str) -> Option<f64> {
    let spaced = |text: &str| {
        let lower = text.to_lowercase();
        lower.replace(['.', ',', '!', '?'], " ")
    };
    let (answer, gold) = (spaced(answer), spaced(gold));
    let (answer, gold): (HashSet<&str>, HashSet<&str>) =
        (words(&answer).collect(), words(&gold).collect());
    if gold.is_empty() {
        return None;
    }
    let common = answer.intersection(&gold).count();
    Some(harmonic(common, answer.len(), gold.len()))
}

/// F1 of LoCoMo's own program: without punctuation and the words *a, an, the, and*, stemmed by
/// Porter, each token as often as it stands.
pub fn stemmed_f1(answer: &str, gold: &str) -> Option<f64> {
    stem_overlap(&stems(answer), &stems(gold))
}

/// [`stemmed_f1`] of answers with several parts, between commas: each part of the gold answer
/// against the part of the answer that fits it best, averaged (LoCoMo's program, category 1).
/// Parts of the gold answer without a token count as 0, as there; `None` when all are.
pub fn multi_answer_f1(answer: &str, gold: &str) -> Option<f64> {
    let answers: Vec<Vec<String>> = answer.split(',').map(stems).collect();
    let best = |gold: Vec<String>| {
        let scores = answers.iter().map(|part| stem_overlap(part, &gold));
        scores.reduce(|a, b| Some(a?.max(b?))).flatten()
    };
    let parts: Vec<Option<f64>> = gold.split(',').map(stems).map(best).collect();
    parts.iter().any(Option::is_some).then(|| {
        let sum: f64 = parts.iter().map(|part| part.unwrap_or(0.0)).sum();
        sum / parts.len() as f64
    })
}

/// The score of LoCoMo's program for a question of this category: 1 part by part, 2 and 4 whole, 3
/// against the gold answer up to its first semicolon, 5 whether the answer says that there is no
/// information or that it was not mentioned. `None` for other categories.
pub fn locomo_f1(category: u8, answer: &str, gold: &str) -> Option<f64> {
    match category {
        1 => multi_answer_f1(answer, gold),
        2 | 4 => stemmed_f1(answer, gold),
        3 => stemmed_f1(answer, gold.split(';').next().unwrap_or(gold)),
        5 => {
            let answer = answer.to_lowercase();
            let declines = ["no information available", "not mentioned"];
            Some(f64::from(declines.iter().any(|text| answer.contains(text))))
        }
        _ => None,
    }
}

fn stems(text: &str) -> Vec<String> {
    let words = content_words(text, &["a", "an", "the", "and"]);
    words.iter().map(|word| stem(word)).collect()
}

/// F1 of tokens, each as often as it stands; `None` when the gold answer has none.
fn stem_overlap(answer: &[String], gold: &[String]) -> Option<f64> {
    let mut left: HashMap<&str, usize> = HashMap::new();
    for word in gold {
        *left.entry(word).or_default() += 1;
    }
    let mut common = 0;
    for word in answer {
        if let Some(n @ 1..) = left.get_mut(word.as_str()) {
            *n -= 1;
            common += 1;
        }
    }
    (!gold.is_empty()).then(|| harmonic(common, answer.len(), gold.len()))
}

/// The harmonic mean of precision and recall.
fn harmonic(common: usize, answer: usize, gold: usize) -> f64 {
    if common == 0 {
        return 0.0;
    }
    let precision = common as f64 / answer as f64;
    let recall = common as f64 / gold as f64;
    2.0 * precision * recall / (precision + recall)
}
