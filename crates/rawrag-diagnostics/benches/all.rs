//! All twelve diagnostics over seven systems of 2,071 questions with 4,000 tokens of evidence each,
//! texts included, and over as many runs of retrieval; synthetic. Prints the peak resident memory.
//!
//! Questions are of MEME's tasks, asked before and after a change, and the systems are its
//! conditions, so that one set of records serves every diagnostic but `nano`, which looks at
//! rankings of sessions.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench on data it makes itself"
)]

use std::fs;
use std::sync::LazyLock;

use rawrag_diagnostics::{DIAGNOSTICS, Diagnostic, Input, Outputs, Settings};
use rawrag_records::{
    Answer, AnswerOutcome, Assessment, AssessmentOutcome, Complete, EvidenceItem, History,
    Ingestion, Judgment, JudgmentOutcome, Level, Phase, Retrieval, Search, SearchOutcome,
    WriteDecision, WriteEvent,
};
use serde_json::json;

const SYSTEMS: u32 = 7;
const QUESTIONS: u32 = 2_071;
const CONVERSATIONS: u32 = 14;
const ITEMS: u32 = 15;
/// Words of an item: fifteen of them are about 4,000 tokens.
const WORDS: u32 = 200;
const TASKS: [&str; 6] = ["ER", "Agg", "Tr", "Del", "Cas", "Abs"];
/// Sessions of a conversation, and messages of a session.
const SESSIONS: [u32; 2] = [50, 20];
/// Decisions that a model emits, over all conversations: Mem0's on LoCoMo are 33,902.
const DECISIONS: u32 = 33_902;

static MEMORY: LazyLock<Vec<Outputs>> = LazyLock::new(|| (0..SYSTEMS).map(system).collect());
static RETRIEVAL: LazyLock<Vec<Outputs>> = LazyLock::new(|| (0..SYSTEMS).map(sessions).collect());

fn main() {
    divan::main();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    if let Some(peak) = status.lines().find(|line| line.starts_with("VmHWM")) {
        println!("{peak}");
    }
}

#[divan::bench(sample_count = 3, sample_size = 1)]
fn all_twelve(bencher: divan::Bencher<'_, '_>) {
    let (memory, retrieval) = (LazyLock::force(&MEMORY), LazyLock::force(&RETRIEVAL));
    bencher.bench_local(|| {
        for diagnostic in DIAGNOSTICS {
            report(diagnostic, memory, retrieval);
        }
    });
}

#[divan::bench(args = DIAGNOSTICS.iter().map(|d| d.name), sample_count = 3, sample_size = 1)]
fn each(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (memory, retrieval) = (LazyLock::force(&MEMORY), LazyLock::force(&RETRIEVAL));
    let diagnostic = rawrag_diagnostics::diagnostic(name).unwrap();
    bencher.bench_local(|| report(diagnostic, memory, retrieval));
}

fn report(diagnostic: &Diagnostic, memory: &[Outputs], retrieval: &[Outputs]) {
    let runs = match diagnostic.name {
        "nano" => retrieval,
        _ => memory,
    };
    let settings = Settings {
        depth: (diagnostic.name != "evidence").then_some(5),
        ..Settings::default()
    };
    let runs: Vec<&Outputs> = runs.iter().collect();
    let report = diagnostic.report(&Input::new(&runs, settings)).unwrap();
    assert!(report.tables.iter().any(|table| !table.rows.is_empty()));
    divan::black_box(report);
}

/// A number that looks like any other.
fn mixed(seed: u32) -> u32 {
    let bits = seed.wrapping_mul(0x9e37_79b9) ^ (seed >> 15);
    (bits ^ (bits >> 13)).wrapping_mul(0x85eb_ca6b) >> 8
}

fn conversation(question: u32) -> String {
    format!("c{}", question / 2 % CONVERSATIONS)
}

fn kind(question: u32) -> String {
    TASKS[(question / 2) as usize % TASKS.len()].to_owned()
}

fn id(question: u32) -> String {
    format!("q{}", question / 2)
}

fn phase(question: u32) -> Phase {
    match question % 2 {
        0 => Phase::Before,
        _ => Phase::After,
    }
}

/// The condition of a system: native ones, a complete store with and without a budget, raw evidence
/// and all annotated sessions.
fn condition(system: u32) -> serde_json::Value {
    let of = |store: &str, budget: Option<u64>| {
        json!({"oracle": {
            "store": store, "of": "system 0", "store_sha256": null, "budget": budget,
            "packer": "blocks", "policy": "none", "policy_sha256": null, "uncited": "refuse",
        }})
    };
    match system {
        1 => of("complete", Some(5_000)),
        2 => of("complete", None),
        3 => of("raw", Some(5_000)),
        4 => of("source", None),
        _ => json!({}),
    }
}

fn system(system: u32) -> Outputs {
    let mut records = Complete::default();
    for question in 0..QUESTIONS {
        let (conversation, kind) = (conversation(question), kind(question));
        let (id, phase) = (id(question), Some(phase(question)));
        records.searches.push(Search {
            benchmark: "own".into(),
            source: None,
            conversation: conversation.clone(),
            question: id.clone(),
            phase,
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
                phase,
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
            phase,
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
        let holds = mixed(question * 17 + system) % 100;
        let asked = matches!(&*kind, "Tr" | "Cas") && phase == Some(Phase::After);
        records.assessments.push(Assessment {
            benchmark: "own".into(),
            source: None,
            conversation: conversation.clone(),
            question: id.clone(),
            phase,
            kind: kind.clone(),
            assessor: "made".into(),
            repetition: 0,
            outcome: AssessmentOutcome::Assessed,
            sufficient: Some(holds < 30 + 5 * system),
            result: asked.then_some(holds < 60),
            path: asked.then_some(holds < 40),
            components: None,
            reply: None,
            error: None,
            prompt_sha256: None,
        });
        let right = mixed(question * 13 + system) % 100 < 50 + 5 * system;
        records.judgments.push(Judgment {
            benchmark: "own".into(),
            source: None,
            conversation,
            question: id,
            phase,
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
    for number in 0..DECISIONS {
        records.decisions.extend(decided(number, system));
    }
    for number in 0..CONVERSATIONS * SESSIONS[0] {
        let [sessions, messages] = SESSIONS;
        let (conversation, unit) = (number / sessions, number % sessions);
        records.ingestions.push(Ingestion {
            conversation: format!("c{conversation}"),
            unit,
            first_message: unit * messages,
            last_message: (unit + 1) * messages - 1,
            tokens: 40 * messages,
            milliseconds: 100.0,
            ready_milliseconds: None,
        });
    }
    let mut outputs = Outputs::made(&format!("system {system}"), records);
    outputs.manifest.settings = condition(system);
    outputs
}

/// A decision at each of its levels; NONE is emitted alone.
fn decided(number: u32, system: u32) -> Vec<WriteDecision> {
    let event = match mixed(number * 5 + system) % 100 {
        0..78 => WriteEvent::None,
        78..95 => WriteEvent::Add,
        95..99 => WriteEvent::Update,
        _ => WriteEvent::Delete,
    };
    let levels: &[Level] = match event {
        WriteEvent::None => &[Level::Proposed],
        _ => &[Level::Proposed, Level::Returned, Level::Persisted],
    };
    let at = |&level| WriteDecision {
        conversation: format!("c{}", number % CONVERSATIONS),
        number,
        unit: None,
        level,
        event,
        memory: None,
        old: None,
        new: None,
        changed: (event == WriteEvent::Update).then_some(number % 2 == 0),
        perspective: None,
    };
    levels.iter().map(at).collect()
}

/// A run of retrieval that ranks every session of a conversation.
fn sessions(system: u32) -> Outputs {
    let [sessions, messages] = SESSIONS;
    let mut records = Complete::default();
    for question in 0..QUESTIONS {
        let start = mixed(question * 3 + system) % sessions;
        let order: Vec<u32> = (0..sessions).map(|at| (start + at) % sessions).collect();
        let gold = mixed(question) % (sessions * messages);
        records.retrievals.push(Retrieval {
            benchmark: "own".into(),
            source: None,
            conversation: conversation(question),
            question: id(question),
            phase: Some(phase(question)),
            kind: kind(question),
            gold_messages: vec![gold],
            gold_sessions: vec![gold / messages],
            gold_written: Vec::new(),
            available: sessions,
            shortlist: sessions,
            requested: sessions,
            first_message: order.iter().map(|at| at * messages).collect(),
            last_message: order.iter().map(|at| (at + 1) * messages - 1).collect(),
            first_session: order.clone(),
            last_session: order.clone(),
            dense_score: Vec::new(),
            dense_rank: Vec::new(),
            score: order.iter().map(|at| 1.0 - *at as f32 / 64.0).collect(),
            tokens: order.iter().map(|at| 40 * messages + at).collect(),
            chunks: order,
            evidence_tokens: vec![40 * messages * 5],
            milliseconds: 10.0,
        });
    }
    for number in 0..CONVERSATIONS {
        records.histories.push(History {
            conversation: format!("c{number}"),
            sessions: (0..sessions).map(|at| format!("session_{at}")).collect(),
            messages: sessions * messages,
            chunks: sessions,
            truncated: 0,
            milliseconds: 100.0,
        });
    }
    let mut outputs = Outputs::made(&format!("retrieval {system}"), records);
    outputs.manifest.settings = json!({"evidence": {"cutoffs": [5]}});
    outputs
}
