//! A late-interaction query over a conversation of LoCoMo's largest size, the question encoded:
//! `cargo bench -p rawrag-retrieval --bench late_interaction`. The vectors are made up.

#![expect(
    clippy::unwrap_used,
    reason = "a bench is no library, and stops where its input fails"
)]

use divan::Bencher;
use rawrag_models::TokenVectors;
use rawrag_retrieval::late_interaction::MessageFacts;
use rawrag_retrieval::{LateInteraction, TokenIndex, best};

const DIMENSION: usize = 384;
const MESSAGES: usize = 680;
const PIECES_OF_MESSAGE: usize = 36;
const MESSAGES_OF_SESSION: usize = 22;
const PIECES_OF_QUESTION: usize = 12;

fn main() {
    divan::main();
}

fn conversation() -> (TokenIndex, Vec<MessageFacts>) {
    let mut tokens = TokenIndex::new(DIMENSION);
    for message in 0..MESSAGES {
        tokens
            .push(&text(PIECES_OF_MESSAGE, message as u32))
            .unwrap();
    }
    let facts = (0..MESSAGES)
        .map(|message| MessageFacts {
            session: (message / MESSAGES_OF_SESSION) as u32,
            speaker: ["Ines", "Olu"][message % 2].to_owned(),
            date: "2025-03-02".parse().ok(),
        })
        .collect();
    (tokens, facts)
}

/// `pieces` vectors of length 1 and word-pieces, from a small generator.
fn text(pieces: usize, seed: u32) -> TokenVectors {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 8
    };
    let mut vectors: Vec<f32> = (0..pieces * DIMENSION)
        .map(|_| next() as f32 / (1 << 23) as f32 - 1.0)
        .collect();
    for vector in vectors.chunks_exact_mut(DIMENSION) {
        let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        vector.iter_mut().for_each(|x| *x /= length);
    }
    TokenVectors {
        pieces: (0..pieces).map(|_| next() % 3000).collect(),
        vectors,
        pooled: vec![],
    }
}

/// Scores of all messages and the best 15.
#[divan::bench]
fn query(bencher: Bencher<'_, '_>) {
    let (tokens, facts) = conversation();
    let (settings, asked) = (LateInteraction::default(), text(PIECES_OF_QUESTION, 9));
    bencher.bench(|| {
        let scores = settings.score(
            &tokens,
            &facts,
            "What did Olu buy in March?",
            &asked,
            |_| true,
        );
        best(&scores.unwrap(), 15).unwrap()
    });
}

/// The part that reads every token vector.
#[divan::bench]
fn maxima(bencher: Bencher<'_, '_>) {
    let (tokens, _) = conversation();
    let asked = text(PIECES_OF_QUESTION, 9);
    bencher.bench(|| tokens.maxima(&asked).unwrap());
}
