//! 100,000 answers by every lexical metric, on one thread and on two.

use std::thread;

use rawrag_scoring::lexical::{
    self, Smoothing, bleu, rouge_l, rouge_n, rouge_tokens, treebank_words,
};

fn main() {
    divan::main();
}

const ANSWERS: usize = 100_000;

/// Answers of 5 to 45 words and gold answers of 2 to 12, from a small vocabulary.
fn answers() -> Vec<(String, String)> {
    const WORDS: [&str; 16] = [
        "the", "Caroline", "went", "hiking,", "with", "her", "friends", "in", "Zürich", "on",
        "May", "2023;", "didn't", "stay", "long.", "and",
    ];
    let text = |seed: usize, words: usize| {
        let word = |i: usize| WORDS[(seed * 7 + i * (3 + seed % 5)) % WORDS.len()];
        (0..words).map(word).collect::<Vec<_>>().join(" ")
    };
    (0..ANSWERS)
        .map(|i| (text(i, 5 + i % 41), text(i / 3, 2 + i % 11)))
        .collect()
}

fn score(pairs: &[(String, String)]) -> f64 {
    let mut sum = 0.0;
    for (answer, gold) in pairs {
        let (a, g) = (
            treebank_words(&answer.to_lowercase()),
            treebank_words(&gold.to_lowercase()),
        );
        let (x, y) = (rouge_tokens(answer, true), rouge_tokens(gold, true));
        let scores = [
            lexical::set_f1(answer, gold),
            lexical::stemmed_f1(answer, gold),
            lexical::multi_answer_f1(answer, gold),
            bleu(&a, &g, 1, Smoothing::Method1),
            bleu(&a, &g, 4, Smoothing::Method1),
            rouge_n(&x, &y, 1).map(|r| r.f1),
            rouge_n(&x, &y, 2).map(|r| r.f1),
            rouge_l(&x, &y).map(|r| r.f1),
            lexical::substring_match(answer, &[gold]).map(f64::from),
            lexical::exact_match(answer, &[gold]).map(f64::from),
            lexical::listed_in_order(answer, &[gold]).map(f64::from),
        ];
        sum += scores.into_iter().flatten().sum::<f64>();
    }
    sum
}

#[divan::bench(sample_count = 5)]
fn one_thread(bencher: divan::Bencher<'_, '_>) {
    let pairs = answers();
    bencher.bench(|| score(&pairs));
}

#[divan::bench(sample_count = 5)]
fn two_threads(bencher: divan::Bencher<'_, '_>) {
    let pairs = answers();
    bencher.bench(|| {
        thread::scope(|scope| {
            let halves = pairs
                .chunks(ANSWERS / 2)
                .map(|half| scope.spawn(move || score(half)));
            let halves: Vec<_> = halves.collect();
            halves
                .into_iter()
                .filter_map(|half| half.join().ok())
                .sum::<f64>()
        })
    });
}
