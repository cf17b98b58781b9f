//! Late interaction beside its reference implementation; `reference/late_interaction.py` made the
//! expected values.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "test support outside of test functions"
)]

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use rawrag_corpus::Format;
use rawrag_models::{Minilm, store};
use rawrag_retrieval::{Models, Retriever, Settings};
use serde::Deserialize;

#[derive(Deserialize)]
struct Expected {
    questions: Vec<Ranking>,
}

#[derive(Deserialize)]
struct Ranking {
    question: String,
    best: Vec<(String, f32)>,
}

/// LoCoMo and the model, or `None` after saying what is missing.
fn inputs() -> Option<(PathBuf, Minilm)> {
    let shared = std::env::var_os("RAWRAG_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let locomo = shared.join("data/locomo/locomo10.json");
    if !locomo.exists() {
        eprintln!(
            "skipped: {} is not there; RAWRAG_SHARED names the folder",
            locomo.display()
        );
        return None;
    }
    match store::folder(None).and_then(|folder| store::locate(&store::MINILM, &folder)) {
        Ok(folder) => Some((locomo, Minilm::load(&folder).unwrap())),
        Err(reason) => {
            eprintln!("skipped: {reason}");
            None
        }
    }
}

#[test]
fn late_interaction_equals_numpy_on_a_locomo_conversation() {
    let Some((locomo, model)) = inputs() else {
        return;
    };
    let loaded = rawrag_corpus::load(&locomo, Some(Format::Locomo)).unwrap();
    let mut entries = loaded.entries.into_iter();
    let entry = entries
        .find(|entry| entry.conversation.id.as_str() == "conv-26")
        .unwrap();
    let settings = Settings {
        k: entry.conversation.message_count(),
        ..Settings::default()
    };
    let retriever = Retriever::new(settings, Models::local(model)).unwrap();
    let history = retriever.index(&entry.conversation).unwrap();
    let ids: Vec<&str> = entry
        .conversation
        .messages()
        .map(|(_, _, message)| message.id.as_str())
        .collect();
    let expected: Expected = serde_json::from_str(include_str!("reference/conv-26.json")).unwrap();
    for Ranking { question, best } in expected.questions {
        let text = entry.questions.iter().find(|q| q.id.as_str() == question);
        let found = retriever
            .search(&history, &text.unwrap().text, None)
            .unwrap();
        let scores: HashMap<&str, f32> = found
            .items
            .iter()
            .map(|item| (ids[item.chunk as usize], item.score))
            .collect();
        let worst_listed = best.last().unwrap().1;
        for (id, expected) in &best {
            let score = scores[id.as_str()];
            assert!(
                (score - expected).abs() < 1e-4,
                "{question} {id}: {score}, numpy has {expected}"
            );
        }
        // What the reference does not list scores no better than what it lists.
        let unlisted = scores
            .iter()
            .filter(|(id, _)| !best.iter().any(|(listed, _)| listed == *id));
        for (id, score) in unlisted {
            assert!(
                score - worst_listed < 1e-4,
                "{question} {id}: {score} is not among numpy's best"
            );
        }
    }
}
