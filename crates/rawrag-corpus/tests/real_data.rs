//! The published files, where the shared data folder is at hand.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test stops where its input fails, and says why it is skipped"
)]

use std::path::{Path, PathBuf};

use rawrag_corpus::releases::check;
use rawrag_corpus::{Errata, Gold, Loaded, load};
use serde_json::{Value, json};

fn shared(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("RAWRAG_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let file = folder.join("data").join(name);
    if !file.exists() {
        println!(
            "skipped: {} is not there; RAWRAG_SHARED names the folder",
            file.display()
        );
    }
    file.exists().then_some(file)
}

fn load_value(value: &Value) -> Loaded {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file.json");
    std::fs::write(&file, value.to_string()).unwrap();
    load(&file, None).unwrap()
}

/// Every quirk of the release with its count, the question counts that confirm the category
/// names (282, 321, 96, 841, 446), and its hash under its name.
#[test]
fn locomo_release() {
    let Some(file) = shared("locomo/locomo10.json") else {
        return;
    };
    let loaded = load(&file, None).unwrap();
    assert!(loaded.report.known.is_some());
    insta::assert_snapshot!(loaded.report);
}

#[test]
fn locomo_lure_is_never_gold() {
    let Some(file) = shared("locomo/locomo10.json") else {
        return;
    };
    for question in load(&file, None)
        .unwrap()
        .entries
        .iter()
        .flat_map(|e| &e.questions)
    {
        let adversarial = matches!(question.gold, Some(Gold::Adversarial { .. }));
        assert_eq!(
            adversarial,
            question.kind.as_str() == "adversarial",
            "{}",
            question.id
        );
    }
}

#[test]
fn locomo_copy_is_known_and_altered_file_is_not() {
    let Some(file) = shared("locomo/locomo10.json") else {
        return;
    };
    let mut value: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let copy = load_value(&value).report;
    assert!(copy.known.is_some());
    let text = &mut value[9]["conversation"]["session_30"][0]["text"];
    *text = json!(format!("{} ", text.as_str().unwrap()));
    let altered = load_value(&value).report;
    assert_eq!((altered.known, &altered.totals), (None, &copy.totals));
    assert_ne!(altered.hash, copy.hash);
}

#[test]
fn longmemeval_question() {
    let Some(file) = shared("longmemeval/original_layout_one_question.json") else {
        return;
    };
    let loaded = load(&file, None).unwrap();
    let question = &loaded.entries[0].questions[0];
    insta::assert_snapshot!(format!(
        "{}\n{:?} {:?} {:?}",
        loaded.report, question.cutoff, question.evidence.messages, question.evidence.sessions
    ));
}

/// Five S haystacks that another project converted, put back into the release's layout: dates
/// out of order and sessions after the question are read and reported.
#[test]
fn longmemeval_haystacks() {
    let Some(folder) = shared("longmemeval/reme-cases") else {
        return;
    };
    let items: Vec<Value> = (0..5)
        .map(|number| {
            let text = std::fs::read_to_string(folder.join(format!("{number:06}.json"))).unwrap();
            released(&serde_json::from_str(&text).unwrap())
        })
        .collect();
    insta::assert_snapshot!(load_value(&Value::Array(items)).report);
}

fn released(case: &Value) -> Value {
    let query = &case["queries"][0];
    let sessions = case["sessions"].as_array().unwrap();
    let each = |f: fn(&Value) -> Value| sessions.iter().map(f).collect::<Value>();
    json!({
        "question_id": query["query_id"],
        "question_type": query["metadata"]["question_type"],
        "question": query["question"],
        "question_date": query["metadata"]["question_date"],
        "answer": query["metadata"]["original_answer"],
        "answer_session_ids": query["metadata"]["original_answer_session_ids"],
        "haystack_session_ids": each(|s| s["session_id"].clone()),
        "haystack_dates": each(|s| s["metadata"]["date"].clone()),
        "haystack_sessions": each(|s| s["messages"].clone()),
    })
}

/// Every entry names a question of the release; the counts by type and reason and the ceilings are
/// those of the audit's report.
#[test]
fn locomo_errata() {
    let Some(file) = shared("locomo/locomo10.json") else {
        return;
    };
    let errata = Errata::locomo().unwrap();
    let loaded = load(&file, None).unwrap();
    let questions: Vec<_> = loaded.entries.iter().flat_map(|e| &e.questions).collect();
    let mut lines = String::new();
    for kind in [
        "multi-hop",
        "temporal",
        "open-domain",
        "single-hop",
        "adversarial",
    ] {
        let of_kind = || questions.iter().filter(|q| q.kind.as_str() == kind);
        let mut reasons = std::collections::BTreeMap::new();
        for erratum in of_kind().filter_map(|q| errata.of(q)) {
            *reasons.entry(erratum.reason).or_insert(0) += 1;
        }
        let ceiling = errata.ceiling(of_kind().copied()).unwrap();
        lines += &format!("{kind}: ceiling {:.4} {reasons:?}\n", ceiling);
    }
    insta::assert_snapshot!(lines);
    let named = questions.iter().filter(|q| errata.of(q).is_some()).count();
    assert_eq!((named, errata.len()), (99, 99));
}

/// What is read deviates from what was published where it is only a part, and nowhere else.
#[test]
fn counts_are_compared_with_the_published_ones() {
    if let Some(file) = shared("locomo/locomo10.json") {
        assert_eq!(check(&load(&file, None).unwrap().report), []);
    }
    let parts = [
        "beam/100K-1",
        "beam/1M-3",
        "longmemeval/original_layout_one_question.json",
    ];
    let mut lines = String::new();
    for part in parts {
        let Some(path) = shared(part) else {
            return;
        };
        for deviation in check(&load(&path, None).unwrap().report) {
            lines += &format!("{part}: {deviation}\n");
        }
    }
    insta::assert_snapshot!(lines);
}
