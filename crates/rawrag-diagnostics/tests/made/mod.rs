//! Runs made by hand.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, and not every test uses every helper"
)]
#![allow(dead_code, reason = "each test file uses its part")]

use rawrag_diagnostics::oracle::{Condition, StoreKind};
use rawrag_diagnostics::{Input, Outputs, Report, Settings, Value, diagnostic};
use rawrag_records::{
    Answer, AnswerOutcome, Assessment, AssessmentOutcome, Code, Complete, Data, EvidenceItem,
    Expected, Judgment, JudgmentOutcome, Key, Machine, Manifest, Phase, SCHEMA_VERSION, Search,
    SearchOutcome, System,
};
use rawrag_statistics::Replication;
use serde_json::json;

/// A question of a made run, and all that became of it.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) conversation: String,
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) phase: Option<Phase>,
    pub(crate) source: Option<String>,
    /// One a judgment.
    pub(crate) graded: Vec<JudgmentOutcome>,
    pub(crate) sufficient: Option<AssessmentOutcome>,
    pub(crate) says: [Option<bool>; 3],
    pub(crate) filtered: bool,
    pub(crate) evidence: Option<String>,
}

pub(crate) fn question(conversation: &str, id: &str, kind: &str, phase: Option<Phase>) -> Made {
    Made {
        conversation: conversation.into(),
        id: id.into(),
        kind: kind.into(),
        phase,
        source: None,
        graded: vec![JudgmentOutcome::Wrong],
        sufficient: None,
        says: [None; 3],
        filtered: false,
        evidence: None,
    }
}

impl Made {
    pub(crate) fn right(mut self, right: bool) -> Self {
        self.graded = vec![match right {
            true => JudgmentOutcome::Correct,
            false => JudgmentOutcome::Wrong,
        }];
        self
    }

    pub(crate) fn grades(mut self, grades: &[JudgmentOutcome]) -> Self {
        self.graded = grades.to_vec();
        self
    }

    pub(crate) fn suffices(mut self, suffices: bool) -> Self {
        self.sufficient = Some(AssessmentOutcome::Assessed);
        self.says[0] = Some(suffices);
        self
    }

    pub(crate) fn holds(mut self, result: bool, path: bool) -> Self {
        self.sufficient = Some(AssessmentOutcome::Assessed);
        self.says = [Some(path), Some(result), Some(path)];
        self
    }

    fn key(&self, benchmark: &str) -> Key {
        Key {
            benchmark: benchmark.into(),
            source: self.source.clone(),
            conversation: self.conversation.clone(),
            question: self.id.clone(),
            phase: self.phase,
        }
    }
}

pub(crate) fn run(
    name: &str,
    benchmark: &str,
    condition: Option<Condition>,
    made: &[Made],
) -> Outputs {
    let keys: Vec<Key> = made.iter().map(|q| q.key(benchmark)).collect();
    let judgments = made.first().map_or(1, |q| q.graded.len() as u32);
    let manifest = Manifest {
        schema: SCHEMA_VERSION,
        name: name.into(),
        system: System {
            name: name.into(),
            version: "1".into(),
        },
        benchmark: benchmark.into(),
        data: Data {
            sha256: "ab".into(),
            release: None,
        },
        expected: Expected::of(&keys)
            .answered(1)
            .judged("judge", judgments)
            .assessed("rule", 1),
        settings: match condition {
            Some(condition) => json!({ "oracle": condition }),
            None => json!({}),
        },
        models: Default::default(),
        prompts: Default::default(),
        seed: 0,
        code: Code {
            version: "0".into(),
            sources: "cd".into(),
        },
        machine: Machine::default(),
        started: "2026-01-01T00:00:00Z".into(),
    };
    let mut records = Complete::default();
    for (made, key) in made.iter().zip(keys) {
        let Key {
            benchmark,
            source,
            conversation,
            question,
            phase,
        } = key;
        records.answers.push(Answer {
            benchmark: benchmark.clone(),
            source: source.clone(),
            conversation: conversation.clone(),
            question: question.clone(),
            phase,
            kind: made.kind.clone(),
            repetition: 0,
            outcome: match made.filtered {
                true => AnswerOutcome::Filtered,
                false => AnswerOutcome::Answered,
            },
            text: None,
            words: None,
            error: None,
            model: None,
            prompt_sha256: None,
            input_tokens: None,
            output_tokens: None,
            milliseconds: None,
        });
        for (judge_repetition, &outcome) in (0..).zip(&made.graded) {
            records.judgments.push(Judgment {
                benchmark: benchmark.clone(),
                source: source.clone(),
                conversation: conversation.clone(),
                question: question.clone(),
                phase,
                kind: made.kind.clone(),
                repetition: 0,
                judge: "judge".into(),
                judge_repetition,
                outcome,
                score: None,
                reply: None,
                error: None,
                prompt_sha256: None,
            });
        }
        if let Some(outcome) = made.sufficient {
            let [sufficient, result, path] = made.says;
            records.assessments.push(Assessment {
                benchmark: benchmark.clone(),
                source: source.clone(),
                conversation: conversation.clone(),
                question: question.clone(),
                phase,
                kind: made.kind.clone(),
                assessor: "rule".into(),
                repetition: 0,
                outcome,
                sufficient,
                result,
                path,
                components: None,
                reply: None,
                error: None,
                prompt_sha256: None,
            });
        }
        if let Some(text) = &made.evidence {
            records.searches.push(Search {
                benchmark: benchmark.clone(),
                source: source.clone(),
                conversation: conversation.clone(),
                question: question.clone(),
                phase,
                kind: made.kind.clone(),
                gold_messages: Vec::new(),
                gold_sessions: Vec::new(),
                visibility: "filter".into(),
                outcome: SearchOutcome::Found,
                error: None,
                requested: 1,
                returned: 1,
                evidence_tokens: text.len() as u32,
                milliseconds: 0.0,
            });
            records.evidence.push(EvidenceItem {
                benchmark,
                source,
                conversation,
                question,
                phase,
                rank: 1,
                text: Some(text.clone()),
                tokens: text.len() as u32,
                messages: None,
                sessions: Some(vec![0]),
                date: None,
                score: None,
                stored: None,
            });
        }
    }
    Outputs::of(manifest, records)
}

pub(crate) fn condition(store: StoreKind, of: &str, budget: Option<u64>) -> Condition {
    Condition {
        store,
        of: of.into(),
        store_sha256: None,
        budget,
        packer: "blocks".into(),
        policy: "none".into(),
        policy_sha256: None,
        uncited: "refuse".into(),
    }
}

pub(crate) fn settings() -> Settings {
    Settings {
        replication: Replication {
            replicates: 2_000,
            seed: 1,
        },
        ..Settings::default()
    }
}

pub(crate) fn report(name: &str, runs: &[&Outputs], settings: Settings) -> Report {
    diagnostic(name)
        .unwrap()
        .report(&Input::new(runs, settings))
        .unwrap()
}

/// The value of a column in a row of a table.
pub(crate) fn cell<'a>(report: &'a Report, table: &str, row: usize, column: &str) -> &'a Value {
    let table = report.tables.iter().find(|t| t.name == table).unwrap();
    let at = table.columns.iter().position(|c| c.name == column).unwrap();
    &table.rows[row][at]
}

pub(crate) fn number(report: &Report, table: &str, row: usize, column: &str) -> f64 {
    let value = cell(report, table, row, column);
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{column}: {value:?}"))
}
