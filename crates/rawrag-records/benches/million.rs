//! A million answers of 400 characters appended in groups of 100, each group on disk before the next:
//! how many a second, and how much memory the process holds as they grow. Then all are read back.
//!
//!     cargo bench -p rawrag-records --bench million

#![expect(clippy::unwrap_used, reason = "a measurement that fails is none")]
#![expect(clippy::print_stdout, reason = "what it measures")]

use std::fs;
use std::time::Instant;

use rawrag_records::{
    Answer, AnswerOutcome, Code, Data, Expected, Machine, Manifest, Run, SCHEMA_VERSION, System,
};

const RECORDS: u32 = 1_000_000;
const GROUP: u32 = 100;

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::resume(folder.path(), manifest()).unwrap();
    let (mut appender, _) = run.appender::<Answer>().unwrap();
    let begun = Instant::now();
    for group in 0..RECORDS / GROUP {
        let records: Vec<Answer> = (group * GROUP..(group + 1) * GROUP).map(answer).collect();
        appender.append_all(&records).unwrap();
        let held = (group + 1) * GROUP;
        if [1_000, 10_000, 100_000, RECORDS].contains(&held) {
            let rate = f64::from(held) / begun.elapsed().as_secs_f64();
            println!(
                "{held:8} records: {} MiB resident, {rate:.0} records/s",
                resident()
            );
        }
    }
    drop(appender);
    let begun = Instant::now();
    let (appender, held) = run.appender::<Answer>().unwrap();
    assert_eq!(held.len(), RECORDS as usize);
    println!("taken up again in {:.2} s", begun.elapsed().as_secs_f64());
    drop(appender);
}

/// MiB of this process in memory.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib / 1024
}

fn answer(number: u32) -> Answer {
    Answer {
        benchmark: "locomo".into(),
        source: None,
        conversation: format!("conv-{}", number % 10),
        question: format!("{number}"),
        phase: None,
        kind: "single-hop".into(),
        repetition: 0,
        outcome: AnswerOutcome::Answered,
        text: Some("words of it ".repeat(33)),
        words: Some(99),
        error: None,
        model: Some("made".into()),
        prompt_sha256: None,
        input_tokens: Some(4000),
        output_tokens: Some(90),
        milliseconds: Some(900.0),
    }
}

fn manifest() -> Manifest {
    Manifest {
        schema: SCHEMA_VERSION,
        name: "million".into(),
        system: System {
            name: "made".into(),
            version: "1".into(),
        },
        benchmark: "own".into(),
        data: Data {
            sha256: "ab".into(),
            release: None,
        },
        expected: Expected::of(&[]),
        settings: serde_json::json!({}),
        models: Default::default(),
        prompts: Default::default(),
        seed: 0,
        code: Code {
            version: "0".into(),
            sources: "cd".into(),
        },
        machine: Machine::default(),
        started: "2026-01-01T00:00:00Z".into(),
    }
}
