//! A run: begun, stopped at any moment, taken up, looked into, compared.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::process::Command;

use rawrag_tests::{finish, need_weights, rawrag, small_experiment};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_rawrag-under-test");

fn call(arguments: &[&str]) -> (i32, String, String) {
    finish(rawrag(PROGRAM, arguments))
}

/// The records without their times, and the run's folder made nameless.
fn records(run: &Path) -> Vec<Value> {
    let text = fs::read_to_string(run.join("retrievals.jsonl")).unwrap();
    let record = |line: &str| {
        let mut record: Value = serde_json::from_str(line).unwrap();
        record.as_object_mut().unwrap().remove("milliseconds");
        record
    };
    text.lines().map(record).collect()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// memorybench#57: stopped dead at any byte of what it writes, a run goes on and ends as an
/// undisturbed one.
#[test]
fn a_run_that_is_killed_loses_nothing() {
    need_weights!();
    let folder = tempfile::tempdir().unwrap();
    let experiment = small_experiment(folder.path()).unwrap();
    let whole = folder.path().join("whole");
    let (code, _, error) = call(&["run", text(&experiment), "--out", text(&whole)]);
    assert_eq!(code, 0, "{error}");

    let killed = folder.path().join("killed");
    let mut kills = 0;
    for kilobytes in [4, 5, 7, 9] {
        // The system ends the process at the byte that passes the limit, inside a record.
        let program = rawrag(PROGRAM, &["run", text(&experiment), "--out", text(&killed)]);
        let mut limited = Command::new("bash");
        limited
            .arg("-c")
            .arg(format!("ulimit -c 0; ulimit -f {kilobytes}; exec \"$@\""))
            .arg("bash");
        limited.arg(program.get_program()).args(program.get_args());
        limited.current_dir(rawrag_tests::workspace());
        let (code, ..) = finish(limited);
        kills += usize::from(code == -1);
    }
    assert!(kills > 1, "the limits were too wide to test anything");
    let (code, _, error) = call(&["resume", text(&killed)]);
    assert_eq!(code, 0, "{error}");
    assert_eq!(records(&killed), records(&whole));
}

/// Text that is kept is the evidence that was counted, and stays whole through a cut.
#[test]
fn evidence_may_be_kept_as_text() {
    need_weights!();
    let folder = tempfile::tempdir().unwrap();
    let experiment = small_experiment(folder.path()).unwrap();
    let mut written = fs::read_to_string(&experiment).unwrap();
    written.push_str("keep_text = true\n");
    fs::write(&experiment, &written).unwrap();
    let run = folder.path().join("run");
    let arguments = ["run", text(&experiment), "--out", text(&run)];
    let (code, _, error) = call(&arguments);
    assert_eq!(code, 0, "{error}");
    let read = |kind: &str| fs::read_to_string(run.join(format!("{kind}.jsonl"))).unwrap();
    let kinds = ["retrievals", "searches", "evidence"];
    let whole: Vec<String> = kinds.iter().map(|kind| read(kind)).collect();
    let values = |text: &str| -> Vec<Value> {
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let tokens = |records: &[Value], field: &str| -> u64 {
        records.iter().map(|r| r[field].as_u64().unwrap()).sum()
    };
    let (retrievals, searches, items) = (values(&whole[0]), values(&whole[1]), values(&whole[2]));
    let counted: u64 = retrievals
        .iter()
        .flat_map(|r| r["tokens"].as_array().unwrap())
        .map(|tokens| tokens.as_u64().unwrap())
        .sum();
    assert_eq!(tokens(&searches, "evidence_tokens"), counted);
    assert_eq!(tokens(&items, "tokens"), counted);
    assert!(
        items
            .iter()
            .all(|item| item["text"].as_str().unwrap().contains(": I left the "))
    );
    // The last retrieval was not yet written when the process ended.
    let cut = whole[0].trim_end().rfind('\n').unwrap() + 1;
    fs::write(run.join("retrievals.jsonl"), &whole[0][..cut]).unwrap();
    let (code, _, error) = call(&arguments);
    assert_eq!(code, 0, "{error}");
    assert_eq!(read("evidence"), whole[2]);
    assert_eq!(searches.len(), read("searches").lines().count());
}

#[test]
fn a_finished_run_does_no_work_and_says_so() {
    need_weights!();
    let folder = tempfile::tempdir().unwrap();
    let experiment = small_experiment(folder.path()).unwrap();
    let run = folder.path().join("run");
    let arguments = ["run", text(&experiment), "--out", text(&run)];
    let (_, first, _) = call(&arguments);
    let written = fs::metadata(run.join("retrievals.jsonl"))
        .unwrap()
        .modified()
        .unwrap();
    let (code, second, notices) = call(&arguments);
    assert_eq!((code, first), (0, second));
    assert!(notices.contains("nothing was run"), "{notices}");
    assert_eq!(
        fs::metadata(run.join("retrievals.jsonl"))
            .unwrap()
            .modified()
            .unwrap(),
        written
    );
}

#[test]
fn a_changed_setting_is_refused_by_name() {
    need_weights!();
    let folder = tempfile::tempdir().unwrap();
    let experiment = small_experiment(folder.path()).unwrap();
    let run = folder.path().join("run");
    assert_eq!(call(&["run", text(&experiment), "--out", text(&run)]).0, 0);
    let before = records(&run);
    let changed = fs::read_to_string(&experiment)
        .unwrap()
        .replace("k = 3", "k = 4");
    fs::write(&experiment, changed).unwrap();
    let (code, _, error) = call(&["run", text(&experiment), "--out", text(&run)]);
    assert_eq!(code, 3);
    assert!(error.contains("settings.retrieval.k: 3 -> 4"), "{error}");
    assert_eq!(records(&run), before);
}

#[test]
fn a_question_can_be_looked_into_and_runs_compared() {
    need_weights!();
    let folder = tempfile::tempdir().unwrap();
    let experiment = small_experiment(folder.path()).unwrap();
    let (one, three) = (folder.path().join("one"), folder.path().join("three"));
    assert_eq!(
        call(&["run", text(&experiment), "--out", text(&three)]).0,
        0
    );
    let dense = fs::read_to_string(&experiment)
        .unwrap()
        .replace("late-interaction", "dense");
    fs::write(&experiment, dense).unwrap();
    assert_eq!(call(&["run", text(&experiment), "--out", text(&one)]).0, 0);

    let (code, shown, error) = call(&["show", text(&three), "own orchard q4"]);
    assert_eq!(code, 0, "{error}");
    assert!(shown.contains("Where is the red bucket?"), "{shown}");
    assert!(shown.contains("gold: in the shed"), "{shown}");
    assert!(shown.contains("*  1. "), "{shown}");
    assert!(
        shown.contains("All 1 gold messages (*) were returned."),
        "{shown}"
    );
    let (code, _, error) = call(&["show", text(&three), "q4"]);
    assert_eq!(code, 2);
    assert!(error.contains("2 questions end in q4"), "{error}");

    let (code, same, _) = call(&["compare", text(&three), text(&three)]);
    assert_eq!(code, 0);
    assert!(same.contains("The two runs did the same."), "{same}");
    let (code, differ, _) = call(&["compare", text(&three), text(&one)]);
    assert_eq!(code, 0);
    let difference = "settings.retrieval.ranking.method: \"late-interaction\" -> \"dense\"";
    assert!(differ.contains(difference), "{differ}");

    let (code, listed, _) = call(&["runs", text(folder.path())]);
    assert_eq!(code, 0);
    assert_eq!(listed.matches("12/12 questions").count(), 2, "{listed}");
}
