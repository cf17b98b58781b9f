//! From a definition and runs on disk to a table.

#![expect(
    clippy::unwrap_used,
    reason = "a test whose input cannot be made has failed"
)]

use std::fs;
use std::path::Path;

use rawrag_paper::definition::{self, What};
use rawrag_paper::{Format, Only, PaperError, Runs, Table};
use rawrag_records::{
    Code, Data, Expected, History, Key, Machine, Manifest, Retrieval, Run, SCHEMA_VERSION, System,
};
use serde_json::json;

/// A question about a conversation of three sessions of four messages each, answered with whole
/// sessions in the order given.
fn retrieval(
    question: &str,
    kind: &str,
    gold: &[u32],
    written: &[&str],
    order: &[u32],
) -> Retrieval {
    let shown = |f: fn(&u32) -> u32| order.iter().map(f).collect::<Vec<_>>();
    Retrieval {
        benchmark: "locomo".into(),
        source: None,
        conversation: "conv-0".into(),
        question: question.into(),
        phase: None,
        kind: kind.into(),
        gold_messages: gold.to_vec(),
        gold_sessions: gold.iter().map(|message| message / 4).collect(),
        gold_written: written.iter().map(ToString::to_string).collect(),
        available: 3,
        shortlist: 3,
        requested: 10,
        chunks: order.to_vec(),
        first_message: shown(|session| session * 4),
        last_message: shown(|session| session * 4 + 3),
        first_session: order.to_vec(),
        last_session: order.to_vec(),
        dense_score: vec![],
        dense_rank: vec![],
        score: order
            .iter()
            .map(|session| 1.0 - *session as f32 / 8.0)
            .collect(),
        tokens: order.iter().map(|_| 50).collect(),
        evidence_tokens: vec![50, 50 * order.len() as u32],
        milliseconds: 2.0,
    }
}

fn questions() -> Vec<Retrieval> {
    vec![
        // Found at rank 1.
        retrieval("q0", "temporal", &[5], &["D2:2"], &[1, 0, 2]),
        // Two gold sessions, at ranks 1 and 3.
        retrieval("q1", "multi-hop", &[1, 9], &["D1:2", "D3:2"], &[0, 1, 2]),
        // Two references in one string: the published rule sees none.
        retrieval("q2", "multi-hop", &[2], &["D1:3; D1:4"], &[2, 1, 0]),
        // A session that no conversation has: the published rule never finds it.
        retrieval("q3", "temporal", &[], &["D:1:4"], &[0, 1, 2]),
    ]
}

fn write_run(folder: &Path, expected: &[Retrieval], held: &[Retrieval]) {
    let keys: Vec<Key> = expected.iter().map(Retrieval::question_key).collect();
    let manifest = Manifest {
        schema: SCHEMA_VERSION,
        name: folder.file_name().unwrap().to_string_lossy().into(),
        system: System {
            name: "sessions".into(),
            version: "1".into(),
        },
        benchmark: "locomo".into(),
        data: Data {
            sha256: "ab".into(),
            release: None,
        },
        expected: Expected::of(&keys),
        settings: json!({"evidence": {"cutoffs": [1, 10]}}),
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
    let (mut appender, _) = run.appender().unwrap();
    for record in held {
        appender.append(record).unwrap();
    }
    let (mut histories, _) = run.appender().unwrap();
    let history = History {
        conversation: "conv-0".into(),
        sessions: vec!["session_1".into(), "session_2".into(), "session_3".into()],
        messages: 12,
        chunks: 3,
        truncated: 0,
        milliseconds: 1.0,
    };
    histories.append(&history).unwrap();
}

const DEFINITION: &str = r#"title = "Self-made"
caption = "Four questions (%)."
source = "no paper"
layout = "grid"
bold = { best = "maximum" }
columns = [
  { id = "recall@1", label = "Recall@1", metric = "nano.recall@1" },
  { id = "ndcg@3", label = "NDCG@3", metric = "nano.ndcg@3" },
  { id = "all@3", label = "All@3", metric = "recall.all@3", kinds = ["multi-hop"] },
  { id = "tokens", label = "Tokens", metric = "evidence.tokens.p95@10", digits = 1, best = "none" },
  { id = "judged", label = "Judged", needs = "judgments" },
]
rows = [
  { group = "Here", id = "whole", label = "whole", run = "whole", published = [50.00, 73.2, { missing = "torn page" }, 150, { count = 3, of = 4 }] },
  { group = "Here", id = "half", label = "half", run = "half", published = [40.00, { value = 70.1, source = "elsewhere" }, 51.0, "about 150", { p = 2.7e-28 }] },
  { group = "Elsewhere", id = "absent", label = "absent", run = "absent", published = [1.00, { low = -4.3, high = +0.9 }, 2.0, { p_below = 0.001 }, { missing = "torn page" }] },
  { group = "Elsewhere", id = "other", label = "other", published = [2.00, 2.0, 2.0, 1_403, "no"] },
]
"#;

const PAIRS: &str = r#"title = "Pairs"
caption = "Row minus column (points)."
source = "no paper"
layout = "pairwise"
pairwise = { upper = "nano.recall@1", lower = "nano.ndcg@3", resample = "questions" }
digits = 1
missing = "no paper"
rows = [
  { id = "whole", label = "whole", run = "whole", cells = { worse = { value = 25.0, low = 0.0, high = 75.0, p = 0.04 } } },
  { id = "worse", label = "worse", run = "worse", cells = {} },
  { id = "absent", label = "absent", run = "absent", cells = {} },
]
"#;

const READ: &str = r#"title = "Read"
caption = "What diagnostics say of two runs."
source = "no paper"
layout = "grid"
digits = 1
missing = "no paper"
diagnose = { together = true, reference = "whole", replicates = 200, kinds = ["temporal", "multi-hop"] }
columns = [
  { id = "all@1", label = "All@1", diagnostic = "depth/ablations/value", where = { measure = "all gold" } },
  { id = "difference", label = "Difference", diagnostic = "depth/ablations/difference", where = { measure = "all gold" }, interval = ["low", "high"] },
  { id = "p", label = "p", diagnostic = "depth/ablations/p, by conversation", where = { measure = "all gold" } },
  { id = "add", label = "Add (ms)", diagnostic = "cost/latency/add", per = 1e-3 },
  { id = "found", label = "Found", diagnostic = "evidence/position/found" },
]
rows = [
  { id = "worse", label = "worse", run = "worse", where = { k = "1" }, cells = { "all@1" = 50.0 } },
  { id = "whole", label = "whole", run = "whole", where = { k = 1 }, cells = {} },
]
"#;

fn evaluated(definition: &str) -> Result<Table, PaperError> {
    let folder = tempfile::tempdir().unwrap();
    let (runs, paper) = (
        folder.path().join("runs"),
        folder.path().join("tables/paper"),
    );
    fs::create_dir_all(&paper).unwrap();
    write_run(&runs.join("whole"), &questions(), &questions());
    write_run(&runs.join("half"), &questions(), &questions()[..2]);
    let mut worse = questions();
    worse[0] = retrieval("q0", "temporal", &[5], &["D2:2"], &[0, 2, 1]);
    write_run(&runs.join("worse"), &worse, &worse);
    fs::write(paper.join("table-07.toml"), definition).unwrap();
    let places = definition::find(&folder.path().join("tables"), What::Table)?;
    Table::evaluate(
        &definition::choose(&places, What::Table, "paper:7")?.load()?,
        &mut Runs::new(&runs),
    )
}

/// By hand: recall@1 holds for q0 and for q2, whose reference the published rule cannot read;
/// NDCG@3 is 1, (1 + 1/log2 3)/(1 + 1) = 0.81546 as the first two ranks are not discounted, 0, 0.
#[test]
fn measured_stands_beside_published() {
    insta::assert_snapshot!(
        evaluated(DEFINITION)
            .unwrap()
            .render(Format::Markdown, Only::Beside)
    );
}

#[test]
fn every_format_has_every_cell() {
    let table = evaluated(DEFINITION).unwrap();
    insta::assert_snapshot!("csv", table.render(Format::Csv, Only::Beside));
    insta::assert_snapshot!("tex", table.render(Format::Latex, Only::Published));
    insta::assert_snapshot!("html", table.render(Format::Html, Only::Difference));
    let json: serde_json::Value =
        serde_json::from_str(&table.render(Format::Json, Only::Beside)).unwrap();
    let cell = &json["rows"][0]["cells"][0];
    assert_eq!(cell["measured"]["value"], json!({"value": 50.0, "n": 4}));
    assert_eq!(cell["published"]["printed"], "50.00");
    assert_eq!(json["rows"][1]["cells"][1]["source"], "elsewhere");
}

/// By hand: recall@1 is 50% against 25%, one question apart; its NDCG@3 falls from 1 to 1/log2 3.
#[test]
fn pairs_show_difference_interval_and_p_in_both_halves() {
    let table = evaluated(PAIRS).unwrap();
    insta::assert_snapshot!("pairs", table.render(Format::Markdown, Only::Beside));
    let json: serde_json::Value =
        serde_json::from_str(&table.render(Format::Json, Only::Measured)).unwrap();
    let difference = |row: usize, column: usize| {
        json["rows"][row]["cells"][column]["measured"]["contrast"]["value"]
            .as_f64()
            .unwrap()
    };
    assert!((difference(0, 1) - 25.0).abs() < 1e-9);
    assert!((difference(1, 0) + 25.0 * (1.0 - 1.0 / 3f64.log2())).abs() < 1e-9);
}

/// By hand: of the three questions with gold messages, `whole` shows all of one's at its first item
/// and `worse` none; each run indexed its conversation in a millisecond.
#[test]
fn a_diagnostic_fills_cells() {
    let table = evaluated(READ).unwrap();
    insta::assert_snapshot!("read", table.render(Format::Markdown, Only::Beside));
    let json: serde_json::Value =
        serde_json::from_str(&table.render(Format::Json, Only::Measured)).unwrap();
    let measured = |row: usize, column: usize| {
        json["rows"][row]["cells"][column]["measured"]["found"]["value"].as_f64()
    };
    assert_eq!(measured(0, 0), Some(0.0));
    assert!((measured(0, 1).unwrap() + 100.0 / 3.0).abs() < 1e-9);
}

#[test]
fn a_wrong_reading_is_refused() {
    let wrong = |from: &str, to: &str| {
        assert!(READ.contains(from), "{from}");
        let error = evaluated(&READ.replace(from, to)).unwrap_err().to_string();
        let shown = error.split_once("table-07.toml").map(|(_, after)| after);
        shown.unwrap_or(&error).to_owned()
    };
    insta::assert_snapshot!(
        "wrong-readings",
        [
            wrong("cost/latency/add", "costs/latency/add"),
            wrong("cost/latency/add", "cost/latency"),
            wrong("per = 1e-3", "per = 0"),
            wrong(
                "diagnostic = \"evidence/position/found\"",
                "where = { k = 1 }"
            ),
            wrong(
                "diagnostic = \"evidence",
                "metric = \"mrr\", diagnostic = \"evidence"
            ),
            wrong("run = \"whole\"", "run = \"whole\", runs = [\"worse\"]"),
            wrong("reference = \"whole\"", "reference = \"hole\""),
            wrong("evidence/position", "evidence/positions"),
            wrong("position/found", "position/lost"),
            wrong("evidence/position/found", "evidence/position/run"),
            wrong("where = { k = \"1\" }", "where = {}"),
        ]
        .join("\n")
    );
}

#[test]
fn a_wrong_definition_names_file_line_and_mend() {
    let wrong = |from: &str, to: &str| {
        assert!(DEFINITION.contains(from));
        let error = evaluated(&DEFINITION.replace(from, to))
            .unwrap_err()
            .to_string();
        error.split_once("table-07.toml").unwrap().1.to_owned()
    };
    insta::assert_snapshot!(
        [
            wrong("needs = ", "need = "),
            wrong("nano.ndcg@3", "nano.nDCG@3"),
            wrong("nano.ndcg@3", "nano.ndcg"),
            wrong("recall.all@3", "recall.all@0"),
            wrong("[2.00, 2.0, 2.0, 1_403, \"no\"]", "[2.00, 2.0]"),
            wrong("count = 3, of = 4", "count = 5, of = 4"),
            wrong("p = 2.7e-28", "p = nan"),
            wrong("run = \"absent\"", "run = \"../absent\""),
            wrong("id = \"half\"", "id = \"whole\""),
            wrong("layout = \"grid\"", "layout = \"static\""),
            wrong("title = \"Self-made\"\n", ""),
        ]
        .join("\n")
    );
}

#[test]
fn a_damaged_run_is_an_error_and_not_an_empty_cell() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("whole");
    write_run(&run, &questions(), &questions());
    let path = run.join("retrievals.jsonl");
    let text = fs::read_to_string(&path)
        .unwrap()
        .replacen("\"kind\"", "\"sort\"", 1);
    fs::write(&path, text).unwrap();
    let error = Runs::new(folder.path())
        .open("whole")
        .unwrap_err()
        .to_string();
    assert!(error.contains("retrievals.jsonl line 1"), "{error}");
}
