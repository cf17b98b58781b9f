//! Serialising and windowing whole histories.
//!
//! `cargo bench -p rawrag-chunking` reads LoCoMo and BEAM from the folder in `RAWRAG_SHARED`
//! (default `../shared` beside the workspace) and skips what is not there. Loading an encoding's
//! tables happens once a process and is measured apart.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a bench is no library, and stops where its input fails"
)]

use std::path::{Path, PathBuf};
use std::time::Instant;

use divan::Bencher;
use divan::counter::BytesCount;
use rawrag_chunking::{Encoding, Rendering, Transcript, Unit, chunk};
use rawrag_corpus::{Conversation, Format, Message, Session, load};

fn main() {
    let begun = Instant::now();
    Encoding::Cl100kBase.count("");
    eprintln!("cl100k_base tables loaded in {:?}", begun.elapsed());
    divan::main();
}

/// Serialises every conversation and cuts it into Raw-RAG's windows.
#[divan::bench(args = HISTORIES)]
fn windows(bencher: Bencher<'_, '_>, history: &str) {
    let Some(conversations) = conversations(history) else {
        return;
    };
    bencher.counter(size(&conversations)).bench(|| {
        conversations.iter().fold(0, |count, conversation| {
            let transcript = Transcript::new(conversation, Rendering::Dated);
            count + chunk(&transcript, Unit::WINDOW).unwrap().len()
        })
    });
}

/// Serialises and only encodes, with the reference tokenizer.
#[divan::bench(args = HISTORIES, sample_count = 10)]
fn tiktoken_rs(bencher: Bencher<'_, '_>, history: &str) {
    let Some(conversations) = conversations(history) else {
        return;
    };
    let encoding = tiktoken_rs::cl100k_base().unwrap();
    bencher.counter(size(&conversations)).bench(|| {
        conversations.iter().fold(0, |count, conversation| {
            let transcript = Transcript::new(conversation, Rendering::Dated);
            count + encoding.encode_ordinary(transcript.text()).len()
        })
    });
}

const LOCOMO: &str = "locomo/locomo10.json";
const BEAM: &str = "beam/1M-3/chat.json";
const HISTORIES: [&str; 2] = [LOCOMO, BEAM];

/// The conversations of a shared file, or `None` after saying that it is missing.
fn conversations(history: &str) -> Option<Vec<Conversation>> {
    let shared = std::env::var_os("RAWRAG_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let file = shared.join("data").join(history);
    if !file.exists() {
        eprintln!(
            "skipped: {} is not there; RAWRAG_SHARED names the folder",
            file.display()
        );
        return None;
    }
    if history == BEAM {
        return Some(vec![beam(&std::fs::read_to_string(file).unwrap())]);
    }
    let entries = load(&file, Some(Format::Locomo)).unwrap().entries;
    Some(entries.into_iter().map(|e| e.conversation).collect())
}

/// A BEAM chat: batches of turns of messages, a session a batch.
fn beam(json: &str) -> Conversation {
    let batches: serde_json::Value = serde_json::from_str(json).unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let session = |batch: &serde_json::Value| Session {
        id: batch["batch_number"].to_string().into(),
        date: None,
        messages: batch["turns"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|turn| turn.as_array().unwrap())
            .map(|message| Message {
                id: message["id"].to_string().into(),
                speaker: text(&message["role"]),
                text: text(&message["content"]),
                captions: vec![],
                date: None,
            })
            .collect(),
    };
    Conversation {
        id: "beam".into(),
        sessions: batches.as_array().unwrap().iter().map(session).collect(),
    }
}

fn size(conversations: &[Conversation]) -> BytesCount {
    let bytes: usize = conversations
        .iter()
        .map(|c| Transcript::new(c, Rendering::Dated).text().len())
        .sum();
    BytesCount::of_many::<u8>(bytes)
}
