//! Metrics of answers and judgments, on a self-made run.

#![expect(
    clippy::unwrap_used,
    reason = "a test whose input cannot be made has failed"
)]

use std::path::Path;

use rawrag_paper::metric::{Named, Value};
use rawrag_paper::{Outputs, RunState, Runs};
#[cfg(feature = "frames")]
use rawrag_paper::{
    Table,
    definition::{self, What},
};
use rawrag_records::JudgmentOutcome::{self, Correct, Failed, Unparsed, Wrong};
use rawrag_records::{
    Answer, AnswerOutcome, Code, Data, Expected, Judgment, Key, Machine, Manifest, Run,
    SCHEMA_VERSION, System,
};

const KINDS: [&str; 3] = ["temporal", "single-hop", "single-hop"];

/// The judgments of three questions' answers: two answers a question, three grades an answer.
const GRADES: [[[JudgmentOutcome; 3]; 2]; 3] = [
    [[Correct, Correct, Wrong], [Correct, Correct, Correct]],
    [[Wrong, Wrong, Correct], [Unparsed, Correct, Failed]],
    [[Correct, Correct, Correct], [Wrong, Failed, Failed]],
];

fn key(question: usize) -> Key {
    Key {
        benchmark: "locomo".into(),
        source: None,
        conversation: "conv-0".into(),
        question: format!("q{question}"),
        phase: None,
    }
}

fn answer(question: usize, repetition: u32) -> Answer {
    let key = key(question);
    Answer {
        benchmark: key.benchmark,
        source: None,
        conversation: key.conversation,
        question: key.question,
        phase: None,
        kind: KINDS[question].into(),
        repetition,
        outcome: match (question, repetition) {
            (2, 1) => AnswerOutcome::Failed,
            _ => AnswerOutcome::Answered,
        },
        text: None,
        words: (question != 2 || repetition != 1).then_some(10 * question as u32 + repetition),
        error: None,
        model: None,
        prompt_sha256: None,
        input_tokens: None,
        output_tokens: None,
        milliseconds: None,
    }
}

fn judgment(question: usize, repetition: u32, judge: &str, again: u32) -> Judgment {
    let key = key(question);
    Judgment {
        benchmark: key.benchmark,
        source: None,
        conversation: key.conversation,
        question: key.question,
        phase: None,
        kind: KINDS[question].into(),
        repetition,
        judge: judge.into(),
        judge_repetition: again,
        outcome: GRADES[question][repetition as usize][again as usize],
        score: None,
        reply: None,
        error: None,
        prompt_sha256: None,
    }
}

fn write(folder: &Path, judges: &[&str], judgments: usize) {
    let keys: Vec<Key> = (0..3).map(key).collect();
    let expected = Expected::of(&keys).answered(2);
    let manifest = Manifest {
        schema: SCHEMA_VERSION,
        name: "judged".into(),
        system: System {
            name: "s".into(),
            version: "1".into(),
        },
        benchmark: "locomo".into(),
        data: Data {
            sha256: "ab".into(),
            release: None,
        },
        expected: judges
            .iter()
            .fold(expected, |expected, judge| expected.judged(judge, 3)),
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
    };
    let run = Run::resume(folder, manifest).unwrap();
    // Written backwards: the order of work does not matter.
    let answers = || {
        (0..3)
            .rev()
            .flat_map(|question| [(question, 1), (question, 0)])
    };
    let mut all = Vec::new();
    for (question, repetition) in answers() {
        for judge in judges {
            all.extend((0..3).map(|again| judgment(question, repetition, judge, again)));
        }
    }
    let answers: Vec<Answer> = answers()
        .map(|(q, repetition)| answer(q, repetition))
        .collect();
    run.appender().unwrap().0.append_all(&answers).unwrap();
    run.appender()
        .unwrap()
        .0
        .append_all(&all[..judgments])
        .unwrap();
}

fn with_run<T>(judges: &[&str], judgments: usize, check: impl FnOnce(&RunState) -> T) -> T {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("run"), judges, judgments);
    check(Runs::new(folder.path()).open("run").unwrap())
}

fn value(outputs: &Outputs, metric: &str, kinds: &[&str]) -> Value {
    let kinds: Vec<String> = kinds.iter().map(ToString::to_string).collect();
    Named::parse(metric).unwrap().over(outputs, &kinds).unwrap()
}

/// By hand: 5, 2 and 3 of 6 judgments are correct; by most, 2, 0 and 1 of 2 answers.
#[test]
fn accuracy_counts_unparsed_and_failed_judgments_as_not_correct() {
    with_run(&["judge-1"], 18, |state| {
        let RunState::Complete(outputs) = state else {
            panic!("{state:?}")
        };
        let is = |metric: &str, kinds: &[&str], expected: f64, n: usize| {
            let found = value(outputs, metric, kinds);
            let difference = found.value.unwrap() - expected;
            assert!(
                difference.abs() < 1e-12 && found.n == n,
                "{metric}: {found:?}"
            );
        };
        is("judge.accuracy", &[], 10.0 / 18.0, 3);
        is("judge.accuracy", &["single-hop"], 5.0 / 12.0, 2);
        is("judge.majority", &[], 0.5, 3);
        is("judge.unparsed", &[], 1.0, 3);
        is("judge.failed", &[], 3.0, 3);
        is("answer.failed", &[], 1.0, 3);
        is("questions", &[], 3.0, 3);
        is("answer.words.mean", &[], (0.5 + 10.5 + 20.0) / 3.0, 3);
        is("answer.words.median", &[], 10.5, 3);
        let needs = Named::parse("recall.any@5")
            .unwrap()
            .over(outputs, &[])
            .unwrap_err();
        assert_eq!(
            needs.to_string(),
            "the run's retrievals, which are not on record"
        );
    });
}

#[test]
fn a_run_that_lacks_one_judgment_has_no_accuracy() {
    with_run(&["judge-1"], 17, |state| {
        let incomplete = matches!(
            state,
            RunState::Incomplete {
                found: 2,
                expected: 3
            }
        );
        assert!(incomplete, "{state:?}");
    });
}

#[test]
fn judgments_of_two_judges_are_not_mixed() {
    with_run(&["judge-1", "judge-2"], 36, |state| {
        let RunState::Complete(outputs) = state else {
            panic!("{state:?}")
        };
        let needs = Named::parse("judge.accuracy")
            .unwrap()
            .over(outputs, &[])
            .unwrap_err();
        assert_eq!(
            needs.to_string(),
            "judgments of one judge; these are by judge-1, judge-2"
        );
    });
}

/// Memobase's published table comes out of its files exactly, under its own names.
#[cfg(feature = "frames")]
#[test]
fn memobase_table_is_reproduced_in_every_cell() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tables = definition::find(&workspace.join("paper-tables"), What::Table).unwrap();
    let place = definition::choose(&tables, What::Table, "ours:4").unwrap();
    let mut runs = Runs::new(&workspace.join("data/runs"));
    let table = Table::evaluate(&place.load().unwrap(), &mut runs).unwrap();
    let cells: Vec<_> = table.rows.iter().flat_map(|row| &row.cells).collect();
    assert_eq!(cells.len(), 10);
    for cell in cells {
        let printed = cell.published.to_string();
        assert_eq!(cell.difference, Some(0.0), "{printed}: {:?}", cell.measured);
    }
}

/// The licences of LoCoMo and of some sources do not let text be passed on.
#[cfg(feature = "frames")]
#[test]
fn committed_imports_hold_no_text() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/runs");
    let mut imports = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let run = Run::open(&entry.unwrap().path()).unwrap();
        let Some(import) = run.manifest().import() else {
            continue;
        };
        let records = run.read_complete().unwrap();
        assert!(!import.text);
        assert!(
            records
                .answers
                .iter()
                .all(|a| a.text.is_none() && a.error.is_none())
        );
        assert!(records.judgments.iter().all(|j| j.reply.is_none()));
        assert!(
            records
                .decisions
                .iter()
                .all(|d| d.old.is_none() && d.new.is_none())
        );
        imports += 1;
    }
    assert_eq!(imports, 15);
}
