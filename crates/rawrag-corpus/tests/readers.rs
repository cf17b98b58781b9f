//! Each format read whole: the data and the report of small files that hold every oddity.

use std::path::{Path, PathBuf};

use rawrag_corpus::{Conversation, Entry, Format, LoadError, Loaded, Question, load, read};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

fn shown(loaded: &Loaded) -> String {
    let entries: Vec<String> = loaded.entries.iter().map(show_entry).collect();
    format!("{}\n{}", entries.join("\n"), loaded.report)
}

fn show_entry(entry: &Entry) -> String {
    let questions: Vec<String> = entry.questions.iter().map(show_question).collect();
    format!(
        "{}{}",
        show_conversation(&entry.conversation),
        questions.join("")
    )
}

fn show_conversation(conversation: &Conversation) -> String {
    let date = |d: Option<rawrag_corpus::Timestamp>| d.map_or("-".to_owned(), |d| d.to_string());
    let mut text = format!("conversation {}\n", conversation.id);
    for session in &conversation.sessions {
        text += &format!("  session {} [{}]\n", session.id, date(session.date));
        for m in &session.messages {
            text += &format!(
                "    {} [{}] {}: {:?} {:?}\n",
                m.id,
                date(m.date),
                m.speaker,
                m.text,
                m.captions
            );
        }
    }
    text
}

fn show_question(q: &Question) -> String {
    let messages: Vec<u32> = q.evidence.messages.iter().map(|m| m.0).collect();
    let sessions: Vec<u32> = q.evidence.sessions.iter().map(|s| s.0).collect();
    format!(
        "  question {} ({}, {:?}) {:?}\n    asked {:?}, {:?}\n    messages {messages:?} sessions {sessions:?} written {:?} unresolved {:?}\n",
        q.id,
        q.kind,
        q.phase,
        q.text,
        q.cutoff.map(|d| d.to_string()),
        q.gold,
        q.evidence.written,
        q.evidence.unresolved,
    )
}

#[test]
fn locomo() {
    insta::assert_snapshot!(shown(&load(&fixture("locomo.json"), None).unwrap()));
}

#[test]
fn longmemeval() {
    insta::assert_snapshot!(shown(&load(&fixture("longmemeval.json"), None).unwrap()));
}

#[test]
fn chat_jsonl_folder() {
    let folder = load(&fixture("chat"), None).unwrap();
    assert_eq!(
        folder,
        load(&fixture("chat/history.jsonl"), Some(Format::ChatJsonl)).unwrap()
    );
    insta::assert_snapshot!(shown(&folder));
}

#[test]
fn chatgpt() {
    insta::assert_snapshot!(shown(&load(&fixture("chatgpt.json"), None).unwrap()));
}

#[test]
fn report_is_serialised() {
    let report = load(&fixture("longmemeval.json"), None).unwrap().report;
    insta::assert_snapshot!(serde_json::to_string_pretty(&report).unwrap());
}

#[test]
fn reading_stops_where_the_caller_fails() {
    let mut seen = 0;
    let stopped = read::<LoadError>(&fixture("longmemeval.json"), None, |_| {
        seen += 1;
        Err(LoadError::Read {
            file: "caller".into(),
            source: std::io::ErrorKind::Other.into(),
        })
    });
    assert!(matches!(stopped, Err(LoadError::Read { file, .. }) if file == Path::new("caller")));
    assert_eq!(seen, 1);
}

/// The same data laid out otherwise has the same hash; other data under the same name has not.
#[test]
fn hash_is_of_content_not_of_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file.json");
    let hash_of = |text: &str| {
        std::fs::write(&file, text).unwrap();
        load(&file, None).unwrap().report.hash
    };
    for name in ["locomo.json", "longmemeval.json", "chatgpt.json"] {
        let text = std::fs::read_to_string(fixture(name)).unwrap();
        let original = hash_of(&text);
        // `Value` sorts keys and writes characters where the file has escapes.
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(hash_of(&value.to_string()), original, "{name} compact");
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        assert_eq!(
            hash_of(&format!("\u{feff}{}", pretty.replace('\n', "\r\n"))),
            original,
            "{name} CRLF"
        );
        let changed = text.replacen("?", "!", 1);
        assert_ne!(hash_of(&changed), original, "{name} changed");
    }
}
