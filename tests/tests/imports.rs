//! A published result file becomes a run, or the program says why not.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use rawrag_tests::{finish, rawrag};
use serde_json::json;

const PROGRAM: &str = env!("CARGO_BIN_EXE_rawrag-under-test");

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_result_file_is_imported_reported_and_incomplete_until_what_it_lacks_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: serde_json::Value| {
        let path = folder.path().join(name);
        fs::write(&path, content.to_string()).unwrap();
        path
    };
    let benchmark = json!([{
        "sample_id": "conv-1",
        "qa": [
            {"question": "Who plays the cello?", "answer": "Ines", "category": 4, "evidence": ["D1:1"]},
            {"question": "Why did Ines sell it?", "adversarial_answer": "rent", "category": 5, "evidence": []},
        ],
        "conversation": {
            "speaker_a": "Ines", "speaker_b": "Olu",
            "session_1_date_time": "1:00 pm on 8 May, 2023",
            "session_1": [{"speaker": "Ines", "dia_id": "D1:1", "text": "My cello is old."}],
        },
    }]);
    let results = json!({"0": [{
        "question": "Who plays the cello?", "answer": "Ines", "response": "Ines does",
        "category": "4", "llm_score": 1,
    }]});
    let (benchmark, results) = (
        file("locomo.json", benchmark),
        file("results.json", results),
    );
    let import = |out: &str, more: &[&str]| {
        let out = folder.path().join(out);
        let mut arguments = vec![
            "import",
            text(&results),
            "--system",
            "cellist",
            "--out",
            text(&out),
        ];
        arguments.extend(more);
        finish(rawrag(PROGRAM, &arguments))
    };
    let whole = [
        "--benchmark-file",
        text(&benchmark),
        "--exclude",
        "adversarial",
    ];

    let (code, said, error) = import("whole", &whole);
    assert_eq!((code, error.as_str()), (0, ""), "{said}");
    assert!(
        said.contains("category number written as a string"),
        "{said}"
    );
    let run = rawrag::records::Run::open(&folder.path().join("whole")).unwrap();
    let records = run.read_complete().unwrap();
    assert_eq!(records.answers[0].text.as_deref(), Some("Ines does"));

    let (code, said, error) = import("half", &whole[..2]);
    assert_eq!(code, 3, "{error}");
    assert!(
        said.contains("missing     1 adversarial: conv-1/1"),
        "{said}"
    );
    assert!(error.contains("import again with --exclude"), "{error}");

    let (code, _, error) = import("none", &[]);
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("--benchmark-file"), "{error}");
    let (code, _, error) = import("whole", &whole);
    assert_eq!(code, 3, "{error}");
    assert!(error.contains("is there already"), "{error}");
}
