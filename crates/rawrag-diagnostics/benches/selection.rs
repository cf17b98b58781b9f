//! Complete-store selection: 1,188 questions, each from 1,000 stored objects.

use divan::Bencher;
use rawrag_diagnostics::oracle::{Eligible, Gold, Object, Packer, Store, Tokens, Uncited, pack};

fn main() {
    divan::main();
}

const OBJECTS: usize = 1_000;
const QUESTIONS: usize = 1_188;

/// Made-up words: the commoner ones recur in most objects.
fn word(seed: usize) -> String {
    const PARTS: [&str; 16] = [
        "ka", "lo", "mi", "ter", "un", "sha", "vel", "dor", "ish", "pra", "qua", "ne", "bri",
        "ost", "fu", "gan",
    ];
    let mixed = seed.wrapping_mul(2_654_435_761) >> 7;
    let part = |of: usize| PARTS[of % PARTS.len()];
    format!("{}{}{}", part(seed), part(mixed), part(mixed / 16))
}

fn text(seed: usize, words: usize) -> String {
    let of = |at: usize| {
        let drawn = (seed * 31 + at * 17 + seed * at) % 4_096;
        // The square makes small numbers, which are the common words, likelier.
        word(drawn * drawn / 4_096)
    };
    (0..words).map(of).collect::<Vec<_>>().join(" ")
}

/// About 200 words an object, as a window of 256 tokens has.
fn store() -> Store {
    let object = |at: usize| {
        let text = text(at, 200);
        Object {
            block: format!("--- memory ---\n{text}\n\n"),
            tokens: 256,
            text,
            sessions: Some(vec![at as u32 / 10]),
            first_message: Some(at as u32),
        }
    };
    Store::new((0..OBJECTS).map(object).collect())
}

/// Twelve phrases of one to four words, of which most stand somewhere, and a question of ten.
fn gold(question: usize) -> Gold {
    let phrases: Vec<String> = (0..12)
        .map(|at| {
            let of = text((question * 7 + at * 83) % OBJECTS, 200);
            let words: Vec<&str> = of.split(' ').skip(at * 9).take(1 + at % 4).collect();
            words.join(" ")
        })
        .collect();
    let names = ["way_to_work".to_owned(), text(question, 2)];
    Gold::new(
        &text(question + 5, 10),
        phrases.iter().map(String::as_str),
        names.iter().map(String::as_str),
    )
}

const TOKENS: Tokens<'static> = Tokens {
    count: &|text| text.len() / 4,
    prefix: &|text, limit| text.get(..limit * 4).unwrap_or(text),
};

fn select(questions: &[Gold], packer: Packer, budget: Option<usize>) -> usize {
    let store = store();
    let mut shown = 0;
    for (gold, session) in questions.iter().zip((50..100).cycle()) {
        let until = Eligible::Until {
            session,
            uncited: Uncited::LeaveOut,
        };
        let Ok(eligible) = store.eligible(until) else {
            continue;
        };
        let ranked = store.rank(gold, &eligible, &[3, 40]);
        shown += pack(packer, &store, gold, &ranked, budget, TOKENS)
            .shown
            .len();
    }
    shown
}

fn questions() -> Vec<Gold> {
    (0..QUESTIONS).map(gold).collect()
}

/// The store is prepared within the time.
#[divan::bench(args = [Packer::Blocks, Packer::Chunks, Packer::Compact], sample_count = 5)]
fn within_5000_tokens(bencher: Bencher<'_, '_>, packer: Packer) {
    let questions = questions();
    bencher.bench_local(|| select(&questions, packer, Some(5_000)));
}

#[divan::bench(sample_count = 5)]
fn without_a_budget(bencher: Bencher<'_, '_>) {
    let questions = questions();
    bencher.bench_local(|| select(&questions, Packer::Blocks, None));
}
