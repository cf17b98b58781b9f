//! What is refused, and in which words: every error names file, line, place and mend.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops where its input fails"
)]

use std::fs;
use std::path::Path;

use rawrag_corpus::{Format, load};

/// The error of a file with this content, without the folder's name.
fn refusal(name: &str, content: impl AsRef<[u8]>, format: Option<Format>) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(name), content).unwrap();
    error_of(folder.path(), name, format)
}

fn error_of(folder: &Path, name: &str, format: Option<Format>) -> String {
    match load(&folder.join(name), format) {
        Ok(loaded) => panic!("{name} was read: {}", loaded.report),
        Err(error) => error
            .to_string()
            .replace(&format!("{}", folder.display()), "DIR"),
    }
}

fn fixture(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name);
    fs::read_to_string(file).unwrap()
}

/// One line an altered fixture: what was altered, and the error.
fn refusals(name: &str, alterations: &[(&str, &str)]) -> String {
    let text = fixture(name);
    let refuse = |&(from, to): &(&str, &str)| {
        assert!(text.contains(from), "{name} does not hold {from:?}");
        let error = refusal("FILE", text.replacen(from, to, 1), None);
        format!("{from} -> {to}\n    {error}\n")
    };
    alterations.iter().map(refuse).collect()
}

#[test]
fn locomo() {
    insta::assert_snapshot!(refusals(
        "locomo.json",
        &[
            (r#""answer": "Porto""#, r#""answer": " ""#),
            (r#""answer": "Porto", "#, ""),
            (r#""answer": "Porto""#, r#""answer": null"#),
            (r#""answer": "Porto""#, r#""answer": {"a": 1}"#),
            (r#"["tea", 3]"#, "[]"),
            (r#"["tea", 3]"#, r#"["tea", [3]]"#),
            (
                r#""adversarial_answer": "Porto", "evidence": []"#,
                r#""evidence": []"#
            ),
            (r#""category": 4"#, r#""category": 6"#),
            (
                r#""category": 4"#,
                r#""category": 99999999999999999999999999"#
            ),
            (r#""evidence": ["D1:1"]"#, r#""evidence": "D1:1""#),
            ("12:05 am on 7 May, 2023", "13:05 am on 7 May, 2023"),
            (r#""dia_id": "D1:1""#, r#""id": "D1:1""#),
            (r#""session_1": ["#, r#""session_01": [], "session_1": ["#),
            (
                r#""sample_id": "conv-1""#,
                r#""sample_id": "conv-1", "sample_id": "conv-2""#
            ),
            (r"caf\u00e9", r"caf\ud800"),
            ("I moved.", "I\nmoved."),
            ("\n]", ",]"),
            ("\n]", ""),
            ("\n]", "] x"),
        ]
    ));
}

#[test]
fn longmemeval() {
    insta::assert_snapshot!(refusals(
        "longmemeval.json",
        &[
            (r#"["a", "b", "a", "c"]"#, r#"["a", "b", "a"]"#),
            ("2023/05/20 (Sat) 02:21", "2023/05/32 (Sat) 02:21"),
            (
                r#""question_date": "2023/05/30 (Tue) 23:40""#,
                r#""question_date": "soon""#
            ),
            (r#""content": "two""#, r#""text": "two""#),
            (r#""q2_abs""#, r#""q1""#),
            (r#""answer": "It was never said.""#, r#""answer": """#),
        ]
    ));
}

#[test]
fn chatgpt() {
    insta::assert_snapshot!(refusals(
        "chatgpt.json",
        &[
            (r#""current_node": "n7""#, r#""current_node": "n8""#),
            (r#""parent": "n6""#, r#""parent": "n66""#),
            (r#""parent": "root""#, r#""parent": "n7""#),
            (r#""create_time": 1683554167.93"#, r#""create_time": 1e300"#),
            (r#""create_time": 1683554167.93"#, r#""create_time": 1e999"#),
            (r#""n2a": {"id": "n2a""#, r#""n1": {"id": "n2a""#),
            (r#""author": {"role": "user", "name": "Ana"}, "#, ""),
        ]
    ));
}

#[test]
fn chat_jsonl() {
    let good = r#"{"conversation": "c", "speaker": "A", "text": "t", "id": "1"}"#;
    let second = |line: &str| format!("{good}\r\n{line}");
    let cases = [
        second(r#"{"conversation": "c", "speaker": "A", "content": "t"}"#),
        second(r#"{"conversation": "c", "speaker": "A", "tex"#),
        second(r#"{"conversation": "c", "speaker": "A"}"#),
        second(r#"{"conversation": "c", "speaker": "A", "text": "t", "text": "u"}"#),
        second(r#"{"conversation": "c", "speaker": "A", "text": 5}"#),
        second(r#"{"conversation": "c", "speaker": " ", "text": "t"}"#),
        second(r#"{"conversation": "c", "speaker": "A", "text": "t", "date": "31/12/2024"}"#),
        second(r#"{"conversation": "c", "speaker": "A", "text": "t", "date": 1700000000}"#),
        second(r#"{"conversation": "c", "speaker": "A", "text": "t", "session": "s"}"#),
        second(r#"{"conversation": "c", "speaker": "A", "text": "t", "captions": "x"}"#),
        second(good),
        second(&format!("{}\n{good}", good.replace("\"c\"", "\"d\""))),
        second(&format!("{good}{good}")),
        second("[1]"),
        good.replace("\"c\"", "\"\""),
    ];
    let shown: Vec<String> = cases
        .iter()
        .map(|c| refusal("FILE.jsonl", c, None))
        .collect();
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn questions_beside_a_history() {
    let history = r#"{"conversation": "c", "speaker": "A", "text": "t"}"#;
    let question = r#"{"conversation": "c", "id": "q", "kind": "k", "question": "?""#;
    let shown = [
        format!("{question}, \"answer\": \"\"}}"),
        format!("{question}, \"answer\": [\"\"]}}"),
        format!("{question}, \"lure\": \"\"}}"),
        format!("{question}, \"explanation\": \"e\", \"answer\": 1}}"),
        format!("{question}, \"phase\": \"during\"}}"),
        format!("{question}, \"asked\": \"today\"}}"),
        format!("{question}, \"category\": 1}}"),
        format!("{question}}}\n{question}}}"),
        format!("\n{}}}", question.replace("\"c\"", "\"d\"")),
    ]
    .map(|questions| {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("history.jsonl"), history).unwrap();
        fs::write(folder.path().join("questions.jsonl"), questions).unwrap();
        error_of(folder.path(), "", None)
    });
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn files_that_are_no_history() {
    let deep = format!(
        r#"[{{"mapping": {}{}}}]"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let nodes = format!(
        r#"[{{"mapping": {{"a": {{"children": {}{}}}}}}}]"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let cases: [(&str, &[u8]); 19] = [
        ("0 bytes", b""),
        ("white space", b" \n\t"),
        ("byte order mark alone", b"\xEF\xBB\xBF"),
        ("UTF-16", b"\xFF\xFE[\0]\0"),
        ("empty array", b"[]"),
        ("NUL", b"\0\0\0"),
        ("number", b"12"),
        ("array of numbers", b"[1, 2]"),
        ("array never closed", b"["),
        ("string never closed", b"[\"a"),
        ("wrong brace", b"[}"),
        ("not UTF-8", b"[{\"mapping\": \n\"\xFF\"}]"),
        ("first line torn", b"{\"conversation\": \"c\", \"spea"),
        ("other objects", b"[{\"a\": 1}]"),
        (
            "another project's LongMemEval",
            b"{\"case_id\": 1,\n \"queries\": []}",
        ),
        (
            "messages in an array",
            b"[{\"conversation\": \"c\", \"speaker\": \"A\", \"text\": \"t\"}]",
        ),
        ("no messages", b"[{\"mapping\": {}, \"id\": \"c\"}]"),
        ("deep", deep.as_bytes()),
        ("deep nodes", nodes.as_bytes()),
    ];
    let shown: Vec<String> = cases
        .iter()
        .map(|(n, c)| format!("{n}\n    {}", refusal("FILE", c, None)))
        .collect();
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn nothing_there() {
    let folder = tempfile::tempdir().unwrap();
    let shown = ["missing.json", ""].map(|name| error_of(folder.path(), name, None));
    let named = refusal("FILE", "{\"conversation\": \"c\"}", Some(Format::Locomo));
    insta::assert_snapshot!(format!("{}\n{named}", shown.join("\n")));
    assert_eq!(
        "LoCoMo".parse::<Format>().unwrap_err().to_string(),
        "no format is called \"LoCoMo\"; the formats are locomo, longmemeval, chat-jsonl, chatgpt, meme, \
         synthetic, beam, memoryagentbench, personamem and long-mt-bench-plus"
    );
}
