//! Logs of what Mem0's add calls returned.

use std::fs;
use std::path::PathBuf;

use rawrag_import::{DecisionsJob, import_decisions};
use rawrag_records::{Level, WriteDecision, WriteEvent};

fn log() -> String {
    [
        r#"{"user_id":"Ada_3","batch_idx":0,"result":{"results":[{"id":"m1","memory":"likes tea","event":"ADD"}]}}"#,
        r#"{"user_id":"Ben_3","batch_idx":0,"result":{"results":[]}}"#,
        r#"{"user_id":"Ada_3","batch_idx":0,"result":{"results":[{"id":"m1","memory":"likes tea","previous_memory":"likes tea","event":"UPDATE"},{"id":"m2","memory":"has a cat","previous_memory":"has a dog","event":"UPDATE"},{"id":"m3","memory":"new","event":"UPDATE"},{"id":"m4","memory":"gone","event":"DELETE"}]}}"#,
        r#"{"user_id":"alone","result":null}"#,
    ]
    .join("\n")
}

#[test]
fn what_the_calls_returned_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (folder.path().join("log.jsonl"), folder.path().join("run"));
    fs::write(&file, log()).unwrap();
    let job = DecisionsJob {
        file: &file,
        system: "Mem0",
        folder: &out,
        text: false,
    };
    let imported = import_decisions(&job).unwrap();
    insta::assert_snapshot!(imported.report, @r"
    4 calls about 2 conversations in 3 stores, 2 of them without a decision
    ADD: 1 returned
    DELETE: 1 returned
    UPDATE: 3 returned
    UPDATE: 1 change a text, 1 do not, 1 lack a text
    The log holds what the calls returned. What the model proposed, NONE included, and what the store's history holds are not in it, so there is no rate of emitted decisions.
    ");
    let complete = imported.run.read_complete().unwrap();
    let decisions: Vec<_> = complete
        .decisions
        .iter()
        .map(|d| {
            (
                d.conversation.as_str(),
                d.perspective.as_deref(),
                d.unit,
                d.event,
                d.changed,
            )
        })
        .collect();
    use WriteEvent::{Add, Delete, Update};
    assert_eq!(
        decisions,
        [
            ("3", Some("Ada"), Some(0), Add, None),
            ("3", Some("Ada"), Some(1), Update, Some(false)),
            ("3", Some("Ada"), Some(1), Update, Some(true)),
            ("3", Some("Ada"), Some(1), Update, None),
            ("3", Some("Ada"), Some(1), Delete, None),
        ]
    );
    let textless = |d: &WriteDecision| d.old.is_none() && d.new.is_none();
    assert!(complete.decisions.iter().all(textless));
    assert!(
        complete
            .decisions
            .iter()
            .all(|d| d.level == Level::Returned)
    );
    assert!(
        import_decisions(&job)
            .unwrap_err()
            .to_string()
            .contains("is there already")
    );
}

#[test]
fn a_line_that_is_no_call_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log.jsonl");
    fs::write(&file, log().replace("UPDATE", "MERGE")).unwrap();
    let out = folder.path().join("run");
    let error = import_decisions(&DecisionsJob {
        file: &file,
        system: "Mem0",
        folder: &out,
        text: true,
    });
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("line 3 column") && error.contains("MERGE"),
        "{error}"
    );
    assert!(!out.exists());
}

/// The real log: most of its UPDATEs change nothing.
#[test]
fn the_real_log() {
    let shared = std::env::var_os("RAWRAG_SHARED").map(PathBuf::from);
    let shared = shared
        .unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")));
    let file = shared.join("data/mem0-decisions/add_log.jsonl");
    if !file.exists() {
        println!("skipped: {} is not here", file.display());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let imported = import_decisions(&DecisionsJob {
        file: &file,
        system: "Mem0",
        folder: &out,
        text: false,
    });
    insta::assert_snapshot!(imported.unwrap().report);
}
