//! A history of one's own: put into a store, searched, added to, changed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use rawrag_tests::{finish, need_weights, rawrag, small_experiment};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_rawrag-under-test");

fn call(arguments: &[&str]) -> (i32, String, String) {
    finish(rawrag(PROGRAM, arguments))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn ingest(folder: &Path) -> String {
    let (history, store) = (folder.join("history.jsonl"), folder.join("store"));
    let (code, said, error) = call(&["ingest", text(&history), "--store", text(&store)]);
    assert_eq!(code, 0, "{error}");
    said
}

fn search(folder: &Path, question: &str, more: &[&str]) -> Vec<Value> {
    let store = folder.join("store");
    let mut arguments = vec!["search", question, "--store", text(&store), "--json"];
    arguments.extend(more);
    let (code, found, error) = call(&arguments);
    assert_eq!(code, 0, "{error}");
    found
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn history(folder: &Path) -> Vec<Value> {
    let text = fs::read_to_string(folder.join("history.jsonl")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn what_was_said_is_found_and_only_what_is_new_is_encoded() {
    need_weights!();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    small_experiment(folder).unwrap();
    assert!(ingest(folder).starts_with("24 messages encoded, 0 already there, 0 dropped"));
    let found = search(folder, "Where did the watering can go?", &["-k", "2"]);
    assert_eq!(found.len(), 2);
    assert_eq!(
        (&found[0]["rank"], &found[0]["id"]),
        (&json!(1), &json!("m6"))
    );
    assert_eq!(found[0]["date"], "2025-04-11 09:06");

    // Nothing new: nothing encoded.
    assert!(ingest(folder).starts_with("0 messages encoded, 24 already there, 0 dropped"));

    // A message at the end of the first conversation, one changed in the second.
    let mut lines = history(folder);
    let mut late = lines[11].clone();
    late["id"] = json!("m12");
    late["text"] = json!("The beehive arrived today.");
    lines.insert(12, late);
    lines[20]["text"] = json!("I sold the bicycle pump to Ottoline.");
    rawrag_tests::write_lines(&folder.join("history.jsonl"), &lines).unwrap();
    let said = ingest(folder);
    assert!(
        said.starts_with("2 messages encoded, 23 already there, 1 dropped"),
        "{said}"
    );
    assert!(said.contains("the store holds 25"), "{said}");
    assert_eq!(
        search(folder, "When did the bees come?", &["-k", "1"])[0]["id"],
        "m12"
    );
    let pump = ["-k", "1", "--conversation", "workshop"];
    let sold = search(folder, "Who has the bicycle pump now?", &pump);
    assert_eq!(sold[0]["text"], "I sold the bicycle pump to Ottoline.");
    let early = ["-k", "25", "--until", "2025-04-10T23:59"];
    let dates = search(folder, "beehive", &early);
    assert_eq!(dates.len(), 8);
    assert!(
        dates
            .iter()
            .all(|hit| hit["date"].as_str().unwrap() < "2025-04-11")
    );
}

#[test]
fn an_ingestion_that_was_interrupted_is_mended_by_the_next() {
    need_weights!();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    small_experiment(folder).unwrap();
    ingest(folder);
    let whole = search(folder, "Where is the lantern?", &[]);
    // What a kill leaves: vectors that no line names, and half a line.
    let generation = folder.join("store/0");
    let lines = fs::read_to_string(generation.join("messages.jsonl")).unwrap();
    let cut = lines.len() - 700;
    fs::write(generation.join("messages.jsonl"), &lines[..cut]).unwrap();
    let fewer = search(folder, "Where is the lantern?", &["-k", "30"]);
    assert!(fewer.len() < 24);
    let said = ingest(folder);
    assert!(said.contains("the store holds 24"), "{said}");
    assert_eq!(search(folder, "Where is the lantern?", &[]), whole);
    assert_eq!(
        fs::read_to_string(generation.join("messages.jsonl")).unwrap(),
        lines
    );
}

#[test]
fn special_token_text_and_odd_scripts_are_ordinary_messages() {
    need_weights!();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let line = |id: &str, text: &str| json!({"conversation": "c", "id": id, "speaker": "Ægir", "text": text});
    let lines = [
        line("a", "the log says <|endoftext|> [SEP] [CLS] and stops"),
        line("b", "傘を電車に忘れました"),
        line("c", ""),
        line("d", "\u{0}\u{200d}👩🏽\u{200d}🚀"),
    ];
    rawrag_tests::write_lines(&folder.join("history.jsonl"), &lines).unwrap();
    assert!(ingest(folder).starts_with("4 messages encoded"));
    let found = search(folder, "[SEP] <|endoftext|>", &[]);
    assert_eq!(found.len(), 4);
    assert_eq!(found[0]["id"], "a");
    assert_eq!(search(folder, "傘はどこ？ 👩🏽\u{200d}🚀", &[]).len(), 4);
}
