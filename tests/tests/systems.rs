//! Memory systems from the command line: listed, checked, run, and Mem0 itself where it is set up.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rawrag_tests::{finish, has_weights, rawrag, workspace, write_lines};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_rawrag-under-test");
const EXAMPLE: &str = "crates/rawrag-baselines/wrappers/example.py";

fn call(arguments: &[&str]) -> (i32, String, String) {
    finish(rawrag(PROGRAM, arguments))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn asked(out: &Path) -> Vec<Value> {
    let lines = fs::read_to_string(out.join("asked.jsonl")).unwrap();
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The text of every item found.
fn found(asked: &[Value]) -> Vec<&str> {
    asked
        .iter()
        .flat_map(|asked| asked["searches"].as_array().unwrap())
        .flat_map(|search| search["found"]["Ok"].as_array().unwrap())
        .map(|item| item["text"].as_str().unwrap())
        .collect()
}

#[test]
fn what_is_not_set_up_is_listed_with_its_mend() {
    let folder = tempfile::tempdir().unwrap();
    let (code, listed, _) = call(&["system", "list", "--systems", text(folder.path())]);
    assert_eq!(code, 0);
    assert!(listed.contains("recency        ready"), "{listed}");
    assert!(
        listed.contains("`rawrag system setup mem0-classic` sets it up"),
        "{listed}"
    );
    let check = ["system", "check", "mem0", "--systems", text(folder.path())];
    let (code, _, error) = call(&check);
    assert_eq!(code, 3);
    assert!(error.contains("`rawrag system setup mem0`"), "{error}");
    let (code, _, error) = call(&["system", "check", "mem1"]);
    assert_eq!(code, 2);
    assert!(error.contains("known are mem0, mem0-classic"), "{error}");
}

#[test]
fn the_native_systems_conform() {
    let mut systems = vec!["recency", "full-context"];
    if has_weights() {
        systems.push("raw-rag");
    }
    for system in systems {
        let (code, report, error) = call(&["system", "check", system]);
        assert_eq!(code, 0, "{report}{error}");
    }
}

#[test]
fn the_sample_goes_through_a_wrapper_and_everything_returned_is_kept() {
    if Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: there is no python3");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let run = [
        "system",
        "run",
        "--data",
        "data/sample",
        "--out",
        text(&out),
        "-k",
        "5",
    ];
    let (code, said, error) = call(&[&run[..], &["--", "python3", EXAMPLE]].concat());
    assert_eq!(code, 0, "{error}");
    assert!(
        said.starts_with("671 messages of 2 conversations"),
        "{said}"
    );
    assert!(
        said.contains("84 questions asked") && said.contains("671 persisted"),
        "{said}"
    );
    let asked = asked(&out);
    assert_eq!(asked[0]["visibility"], "filter");
    let first = &asked[0]["searches"][0];
    assert_eq!(
        (&first["requested"], &first["returned"]),
        (&json!(5), &json!(5))
    );
    assert!(first["found"]["Ok"][0]["date"].as_str().unwrap() < "2026-02-20");
    let (code, _, error) = call(&[&run[..], &["--", "python3", EXAMPLE]].concat());
    assert_eq!(code, 3, "{error}");
}

/// mem0#5141: a full store and no hit on any question is no measurement; a crash is no empty answer.
#[test]
fn a_system_that_finds_nothing_fails_the_run_unless_that_is_what_it_is_for() {
    let folder = tempfile::tempdir().unwrap();
    let out = |name: &str| folder.path().join(name);
    let line = |text: &str| json!({"conversation": "c", "id": "1", "speaker": "Ada", "text": text});
    write_lines(
        &folder.path().join("history.jsonl"),
        &[line("The pump is mended.")],
    )
    .unwrap();
    let question = json!({"conversation": "c", "id": "q", "kind": "single-hop", "question": "Xyzzy?",
                          "answer": "yes", "evidence": ["1"]});
    write_lines(&folder.path().join("questions.jsonl"), &[question]).unwrap();
    let run = |system: &[&str], name: &str| {
        let out = out(name);
        let begin = [
            "system",
            "run",
            "--data",
            text(folder.path()),
            "--out",
            text(&out),
        ];
        call(&[&begin[..], system].concat())
    };
    let (code, _, error) = run(&["abstain"], "floor");
    assert_eq!(code, 0, "{error}");
    let (code, _, error) = run(&["--", "python3", EXAMPLE], "words");
    assert_eq!(code, 1);
    assert!(error.contains("no question found any evidence"), "{error}");
    let (code, _, error) = run(&["--", "sh", "-c", "echo broken >&2; exit 9"], "crash");
    assert_eq!(code, 4);
    assert!(error.contains("exit status: 9"), "{error}");
}

/// A model server with scripted replies, killed with the test.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start() -> Self {
        let script = "crates/rawrag-baselines/wrappers/script.toml";
        let mut child = rawrag(
            PROGRAM,
            &[
                "models",
                "serve",
                "--script",
                script,
                "--address",
                "127.0.0.1:0",
            ],
        )
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        said.read_line(&mut line).unwrap();
        let address = line.split(' ').find(|word| word.starts_with("http://"));
        Self {
            child,
            address: address.unwrap_or_else(|| unreachable!("{line}")).to_owned(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The first 60 messages of the sample's conversation of two, with four questions about it: a
/// minute for both generations of Mem0.
fn small_sample(folder: &Path) {
    for (file, lines) in [("history.jsonl", 60), ("questions.jsonl", 4)] {
        let sample = fs::read_to_string(workspace().join("data/sample").join(file)).unwrap();
        let of_two = sample
            .lines()
            .filter(|line| line.contains("\"moth-drawers\""));
        let mut kept: Vec<Value> = of_two
            .take(lines)
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        for (number, line) in kept.iter_mut().enumerate() {
            if file == "questions.jsonl" {
                // Their evidence comes later in the history; what is asked here is only that they
                // are answered from what was said until then.
                line["evidence"] = json!([]);
                line["asked"] = json!(["2025-04-20T12:00", "2026-02-20T12:00"][number % 2]);
            }
        }
        write_lines(&folder.join(file), &kept).unwrap();
    }
}

#[expect(clippy::print_stdout, reason = "a skipped test says why")]
fn set_up(system: &str) -> bool {
    let (_, listed, _) = call(&["system", "list"]);
    let ready = listed
        .lines()
        .any(|line| line.split_whitespace().take(2).eq([system, "ready"]));
    if !ready || !has_weights() {
        println!("skipped: needs the weights and `cargo rawrag system setup {system}`");
    }
    ready && has_weights()
}

fn mem0(system: &str, more: &[&str]) -> Vec<Value> {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    small_sample(folder.path());
    let out = folder.path().join("out");
    let mut run = rawrag(
        PROGRAM,
        &[
            "system",
            "run",
            system,
            "--models-at",
            &server.address,
            "--out",
            text(&out),
        ],
    );
    // mem0#7197: this would send every call to another provider.
    run.env("OPENROUTER_API_KEY", "sk-elsewhere");
    run.args(["--data", text(folder.path())]).args(more);
    let (code, said, error) = finish(run);
    assert_eq!(code, 0, "{said}{error}");
    let asked = asked(&out);
    assert_eq!(asked[0]["messages"], 60);
    // Both speakers' stores, each asked for 20.
    assert_eq!(asked[0]["searches"][0]["requested"], 40);
    let stored = asked[0]["export"]["Ok"].as_array().unwrap();
    assert!(!stored.is_empty());
    // mem0#3944: the messages' dates, never the wall clock.
    assert!(
        stored
            .iter()
            .all(|stored| stored["date"].as_str().unwrap().starts_with("2025-"))
    );
    assert!(found(&asked).iter().all(|item| item.starts_with("[2025-")));
    assert!(asked[0]["usage"]["Ok"]["chat_calls"].as_u64().unwrap() > 0);
    asked
}

fn decisions<'a>(asked: &'a [Value], level: &str, event: &str) -> Vec<&'a Value> {
    let all = asked[0]["decisions"]["Ok"].as_array().unwrap();
    all.iter()
        .filter(|decision| decision["level"] == level && decision["event"] == event)
        .collect()
}

#[test]
fn mem0_2_runs_on_the_sample_and_only_adds() {
    if !set_up("mem0") {
        return;
    }
    let asked = mem0("mem0", &[]);
    assert_eq!(asked[0]["visibility"], "filter");
    let stored = asked[0]["export"]["Ok"].as_array().unwrap().len();
    assert_eq!(decisions(&asked, "persisted", "ADD").len(), stored);
    assert!(decisions(&asked, "proposed", "ADD").len() >= stored);
    for event in ["UPDATE", "DELETE", "NONE"] {
        assert!(decisions(&asked, "persisted", event).is_empty());
    }
}

#[test]
fn classic_mem0_runs_on_the_sample_with_decisions_at_three_levels() {
    if !set_up("mem0-classic") {
        return;
    }
    let asked = mem0("mem0-classic", &[]);
    assert_eq!(asked[0]["visibility"], "prefix");
    for level in ["proposed", "returned", "persisted"] {
        let updates = decisions(&asked, level, "UPDATE");
        assert!(!updates.is_empty(), "{level}");
        let changed = |update: &&&Value| update["old"] != update["new"] && !update["old"].is_null();
        assert_eq!(updates.iter().filter(changed).count(), updates.len());
    }
    let only = mem0("mem0-classic", &["--setting", "policy=add-only"]);
    assert!(!decisions(&only, "proposed", "UPDATE").is_empty());
    for event in ["UPDATE", "DELETE"] {
        assert!(decisions(&only, "returned", event).is_empty());
        assert!(decisions(&only, "persisted", event).is_empty());
    }
}
