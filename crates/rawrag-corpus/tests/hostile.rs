//! No bytes make a reader panic.

use std::path::Path;

use proptest::prelude::*;
use rawrag_corpus::{Format, load};

const FORMATS: [(&str, Format); 7] = [
    ("locomo.json", Format::Locomo),
    ("longmemeval.json", Format::Longmemeval),
    ("chat/history.jsonl", Format::ChatJsonl),
    ("chatgpt.json", Format::Chatgpt),
    ("memoryagentbench.jsonl", Format::Memoryagentbench),
    ("long_mt_bench.json", Format::LongMtBenchPlus),
    (
        "beam/100K/7/probing_questions/probing_questions.json",
        Format::Beam,
    ),
];

/// What a byte may be replaced by: structure, numbers, escapes, bytes that are not UTF-8.
const PIECES: [&[u8]; 16] = [
    b"",
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"null",
    b"-1e999",
    b"\0",
    b"\xFF",
    b"\\ud800",
    b"\n",
    b"99999999999999999999",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn altered_files_never_panic(
        which in 0..FORMATS.len(),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), 0..PIECES.len()), 1..6),
        cut in proptest::option::of(any::<prop::sample::Index>()),
        detect: bool,
    ) {
        let (name, format) = FORMATS[which];
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
        let mut bytes = std::fs::read(fixtures.join(name)).unwrap();
        for (at, piece) in edits {
            let at = at.index(bytes.len());
            bytes.splice(at..=at, PIECES[piece].iter().copied());
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let folder = tempfile::tempdir().unwrap();
        // A BEAM chat is a folder, of which the questions are altered.
        let file = match format {
            Format::Beam => {
                let chat = folder.path().join("chat.json");
                std::fs::copy(fixtures.join("beam/100K/7/chat.json"), &chat).unwrap();
                std::fs::create_dir(folder.path().join("probing_questions")).unwrap();
                std::fs::write(
                    folder.path().join("probing_questions/probing_questions.json"),
                    bytes,
                )
                .unwrap();
                chat
            }
            _ => {
                let file = folder.path().join("file");
                std::fs::write(&file, bytes).unwrap();
                file
            }
        };
        match load(&file, (!detect).then_some(format)) {
            Ok(loaded) => prop_assert!(loaded.report.totals.messages > 0),
            Err(error) => {
                let error = error.to_string();
                prop_assert!(error.contains("file") || error.contains("probing_questions"));
            }
        }
    }
}
