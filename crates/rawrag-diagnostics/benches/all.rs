//! Every diagnostic of retrieval, selection, cost and rankings over seven systems of 2,071 questions
//! with 4,000 tokens of evidence each, texts included; synthetic. Prints the peak resident memory.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench on data it makes itself"
)]

use std::fs;

use rawrag_diagnostics::{Input, Outputs, Settings, diagnostic};
use rawrag_records::{
    Answer, AnswerOutcome, Complete, EvidenceItem, Judgment, JudgmentOutcome, Search, SearchOutcome,
};

const SYSTEMS: u32 = 7;
const QUESTIONS: u32 = 2_071;
const CONVERSATIONS: u32 = 14;
const ITEMS: u32 = 15;
/// Words of an item: fifteen of them are about 4,000 tokens.
const WORDS: u32 = 200;

fn main() {
    divan::main();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    if let Some(peak) = status.lines().find(|line| line.starts_with("VmHWM")) {
        println!("{peak}");
    }
}

#[divan::bench(sample_count = 3, sample_size = 1)]
fn seven_systems(bencher: divan::Bencher<'_, '_>) {
    let runs: Vec<Outputs> = (0..SYSTEMS).map(system).collect();
    let named: Vec<&Outputs> = runs.iter().collect();
    bencher.bench_local(|| {
        for name in [
            "evidence",
            "failure",
            "depth",
            "selection",
            "ranking",
            "cost",
            "length",
        ] {
            let settings = Settings {
                depth: (name != "evidence").then_some(5),
                ..Settings::default()
            };
            let report = diagnostic(name)
                .unwrap()
                .report(&Input::new(&named, settings));
            divan::black_box(report.unwrap());
        }
    });
}

/// A number that looks like any other.
fn mixed(seed: u32) -> u32 {
    let bits = seed.wrapping_mul(0x9e37_79b9) ^ (seed >> 15);
    (bits ^ (bits >> 13)).wrapping_mul(0x85eb_ca6b) >> 8
}

fn system(system: u32) -> Outputs {
    let mut records = Complete::default();
    for question in 0..QUESTIONS {
        let (conversation, id) = (
            format!("c{}", question % CONVERSATIONS),
            format!("q{question}"),
        );
        let kind = format!("kind {}", question % 4);
        records.searches.push(Search {
            benchmark: "own".into(),
            source: None,
            conversation: conversation.clone(),
            question: id.clone(),
            phase: None,
            kind: kind.clone(),
            gold_messages: vec![mixed(question) % 500, 500 + mixed(question) % 500],
            gold_sessions: vec![0],
            visibility: "filter".into(),
            outcome: SearchOutcome::Found,
            error: None,
            requested: ITEMS,
            returned: ITEMS,
            evidence_tokens: 4_000,
            milliseconds: 10.0,
        });
        for rank in 1..=ITEMS {
            let at = mixed(question * 31 + system * 7 + rank) % 1_000;
            let words = (0..WORDS).map(|word| format!("w{}", mixed(at * 1_000 + word) % 5_000));
            records.evidence.push(EvidenceItem {
                benchmark: "own".into(),
                source: None,
                conversation: conversation.clone(),
                question: id.clone(),
                phase: None,
                rank,
                text: Some(words.collect::<Vec<_>>().join(" ")),
                tokens: 266,
                messages: Some((at..at + 8).collect()),
                sessions: None,
                date: None,
                score: None,
                stored: None,
            });
        }
        records.answers.push(Answer {
            benchmark: "own".into(),
            source: None,
            conversation: conversation.clone(),
            question: id.clone(),
            phase: None,
            kind: kind.clone(),
            repetition: 0,
            outcome: AnswerOutcome::Answered,
            text: None,
            words: Some(mixed(question + system) % 30),
            error: None,
            model: None,
            prompt_sha256: None,
            input_tokens: None,
            output_tokens: None,
            milliseconds: None,
        });
        let right = mixed(question * 13 + system) % 100 < 50 + 5 * system;
        records.judgments.push(Judgment {
            benchmark: "own".into(),
            source: None,
            conversation,
            question: id,
            phase: None,
            kind,
            repetition: 0,
            judge: "made".into(),
            judge_repetition: 0,
            outcome: if right {
                JudgmentOutcome::Correct
            } else {
                JudgmentOutcome::Wrong
            },
            score: None,
            reply: None,
            error: None,
            prompt_sha256: None,
        });
    }
    Outputs::made(&format!("system {system}"), records)
}
