//! What the program refuses, with which exit code, and whether it says how to mend it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use rawrag_tests::{finish, need_weights, rawrag, shared, small_experiment};

const PROGRAM: &str = env!("CARGO_BIN_EXE_rawrag-under-test");

fn call(arguments: &[&str]) -> (i32, String, String) {
    finish(rawrag(PROGRAM, arguments))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn refuse(arguments: &[&str], code: i32, says: &str) {
    let (got, _, error) = call(arguments);
    assert_eq!(got, code, "{arguments:?}: {error}");
    assert!(error.contains(says), "{arguments:?}: {error}");
    assert!(!error.contains("panicked"), "{error}");
}

#[test]
fn wrong_usage_is_2_and_bad_input_is_3() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        path
    };
    let empty = file("empty.jsonl", "");
    let renamed = file(
        "renamed.jsonl",
        "{\"conversation\":\"c\",\"speaker\":\"A\",\"body\":\"hi\"}\n",
    );
    let unknown = file("unknown.toml", "about = \"x\"\ntop_k = 3\n");
    refuse(&["frobnicate"], 2, "unrecognized subcommand");
    refuse(&["corpus", "check", "nowhere.json"], 3, "nowhere.json");
    refuse(&["corpus", "check", text(&empty)], 3, "empty.jsonl");
    refuse(&["corpus", "check", text(&renamed)], 3, "body");
    refuse(&["run", text(&unknown)], 3, "top_k");
    refuse(
        &["models", "pull", "gpt-9"],
        2,
        "no model is called gpt-9; known are minilm",
    );
    refuse(
        &["runs", text(&folder.path().join("none"))],
        3,
        "runs are made by",
    );
    refuse(&["show", text(folder.path()), "q"], 3, "is not a run");
}

#[test]
fn settings_that_measure_nothing_are_refused() {
    need_weights!();
    let folder = tempfile::tempdir().unwrap();
    let experiment = small_experiment(folder.path()).unwrap();
    let sound = fs::read_to_string(&experiment).unwrap();
    let run = folder.path().join("run");
    let with = |from: &str, to: &str, says: &str| {
        fs::write(&experiment, sound.replace(from, to)).unwrap();
        refuse(&["run", text(&experiment), "--out", text(&run)], 3, says);
        assert!(!run.join("retrievals.jsonl").exists());
    };
    // mem0#5404: a limit of nothing is no limit.
    with("k = 3", "k = 0", "cutoffs");
    with("cutoffs = [1, 3]", "cutoffs = [3, 1]", "must ascend");
    with(
        "method = \"late-interaction\"",
        "method = \"dens\"",
        "unknown variant `dens`",
    );
    with(
        "method = \"late-interaction\"",
        "method = \"rerank\", shortlist = 9, by = \"cross-encoder\"",
        "a cross-encoder is needed",
    );
    with(
        "unit = \"message\"",
        "unit = \"window\", tokens = 9, overlap = 9",
        "leaves a window",
    );
    with(
        "benchmark = \"own\"",
        "benchmark = \"locomo\"",
        "is own data",
    );
}

#[test]
fn a_benchmark_file_of_unknown_content_needs_a_flag() {
    need_weights!();
    let Some(locomo) = shared("data/locomo/locomo10.json") else {
        println!("skipped: LoCoMo is not here");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let altered = folder.path().join("locomo10.json");
    let content = fs::read_to_string(locomo)
        .unwrap()
        .replacen("Caroline", "Karoline", 1);
    fs::write(&altered, content).unwrap();
    let (data, out) = (text(&altered), folder.path().join("run"));
    let tir = "experiments/locomo-minilm-tir.toml";
    refuse(
        &["run", tir, "--data", data, "--out", text(&out)],
        3,
        "say --unknown-data",
    );
    refuse(&["run", tir], 2, "--data");
}

#[test]
fn searching_what_is_not_there_says_how_to_make_it() {
    need_weights!();
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    refuse(
        &["search", "where?", "--store", text(&store)],
        3,
        "rawrag ingest FILE --store",
    );
    small_experiment(folder.path()).unwrap();
    let history = folder.path().join("history.jsonl");
    assert_eq!(
        call(&["ingest", text(&history), "--store", text(&store)]).0,
        0
    );
    refuse(
        &["search", "where?", "--store", text(&store), "-k", "0"],
        2,
        "0 is not in",
    );
    refuse(
        &["search", " ", "--store", text(&store)],
        2,
        "the question is empty",
    );
    let other = [
        "search",
        "where?",
        "--store",
        text(&store),
        "--conversation",
        "attic",
    ];
    refuse(&other, 3, "it holds orchard, workshop");
}
