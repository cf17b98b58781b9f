//! Loading speed: `cargo bench -p rawrag-corpus`. Needs the shared data; what is missing is
//! skipped with a printed reason.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a bench is no library, and stops where its input fails"
)]

use std::path::{Path, PathBuf};

use divan::Bencher;
use divan::counter::BytesCount;
use rawrag_corpus::{Entry, LoadError, load, read};

fn main() {
    divan::main();
}

fn shared(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("RAWRAG_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let file = folder.join("data").join(name);
    if !file.exists() {
        eprintln!(
            "skipped: {} is not there; RAWRAG_SHARED names the folder",
            file.display()
        );
    }
    file.exists().then_some(file)
}

fn bench_load(bencher: Bencher<'_, '_>, file: &Path) {
    let size = BytesCount::of_many::<u8>(file.metadata().unwrap().len() as usize);
    bencher.counter(size).bench(|| load(file, None).unwrap());
}

#[divan::bench]
fn locomo(bencher: Bencher<'_, '_>) {
    if let Some(file) = shared("locomo/locomo10.json") {
        bench_load(bencher, &file);
    }
}

#[divan::bench]
fn longmemeval_question(bencher: Bencher<'_, '_>) {
    if let Some(file) = shared("longmemeval/original_layout_one_question.json") {
        bench_load(bencher, &file);
    }
}

/// A conversation of a million tokens as chat JSONL.
#[divan::bench]
fn beam_1m_as_chat_jsonl(bencher: Bencher<'_, '_>) {
    if let Some(file) = shared("beam/1M-3/chat.json") {
        let folder = tempfile::tempdir().unwrap();
        let history = folder.path().join("beam.jsonl");
        std::fs::write(
            &history,
            chat_jsonl(&std::fs::read_to_string(file).unwrap(), 1),
        )
        .unwrap();
        bench_load(bencher, &history);
    }
}

/// A hundred such conversations, streamed and dropped.
#[divan::bench(sample_count = 3)]
fn beam_100m_streamed(bencher: Bencher<'_, '_>) {
    if let Some(file) = shared("beam/1M-3/chat.json") {
        let folder = tempfile::tempdir().unwrap();
        let history = folder.path().join("beam.jsonl");
        std::fs::write(
            &history,
            chat_jsonl(&std::fs::read_to_string(file).unwrap(), 100),
        )
        .unwrap();
        let size = BytesCount::of_many::<u8>(history.metadata().unwrap().len() as usize);
        let drop_entry = |entry: Entry| {
            drop(entry);
            Ok::<_, LoadError>(())
        };
        bencher
            .counter(size)
            .bench(|| read(&history, None, drop_entry).unwrap());
    }
}

/// Every turn of a BEAM chat as a line, the whole chat `copies` times under new names.
fn chat_jsonl(chat: &str, copies: usize) -> String {
    let batches: serde_json::Value = serde_json::from_str(chat).unwrap();
    let mut lines = String::new();
    for copy in 0..copies {
        for batch in batches.as_array().unwrap() {
            for turn in batch["turns"]
                .as_array()
                .unwrap()
                .iter()
                .flat_map(|t| t.as_array().unwrap())
            {
                let line = serde_json::json!({
                    "conversation": format!("beam-{copy}"),
                    "session": batch["batch_number"].to_string(),
                    "speaker": turn["role"],
                    "text": turn["content"],
                });
                lines.push_str(&line.to_string());
                lines.push('\n');
            }
        }
    }
    lines
}
