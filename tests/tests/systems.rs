//! Memory systems from the command line: listed, checked, run, and Mem0 itself where it is set up.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rawrag_tests::{finish, has_weights, rawrag, small_experiment, workspace, write_lines};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_rawrag-under-test");
const EXAMPLE: &str = "crates/rawrag-baselines/wrappers/example.py";

fn call(arguments: &[&str]) -> (i32, String, String) {
    finish(rawrag(PROGRAM, arguments))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn records(run: &Path, kind: &str) -> Vec<Value> {
    let lines = fs::read_to_string(run.join(format!("{kind}.jsonl"))).unwrap();
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn manifest(run: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(run.join("manifest.json")).unwrap()).unwrap()
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
    for (system, state, mend) in [
        ("simplemem", "missing", "`rawrag system setup simplemem`"),
        ("a-mem", "missing", "`rawrag system setup a-mem`"),
        ("memu", "missing", "`rawrag system setup memu`"),
        ("memos", "address", "--setting address=URL"),
        ("memmachine", "address", "--setting address=URL"),
        ("evermemos", "address", "--setting address=URL"),
        ("emem", "checkout", "--setting checkout=DIR"),
        ("emem-g", "checkout", "--setting checkout=DIR"),
        ("memora", "checkout", "--setting checkout=DIR"),
    ] {
        let line = listed
            .lines()
            .find(|line| line.split_whitespace().take(2).eq([system, state]));
        assert!(line.is_some_and(|line| line.contains(mend)), "{listed}");
        let asked = ["system", "check", system, "--systems", text(folder.path())];
        let (code, _, error) = call(&asked);
        assert_eq!(code, 3, "{error}");
        let setting = mend.split('=').next().unwrap();
        assert!(error.contains(setting), "{error}");
    }
    let setup = ["system", "setup", "memos", "--systems", text(folder.path())];
    let (code, _, error) = call(&setup);
    assert_eq!(code, 2);
    assert!(error.contains("nothing to set up"), "{error}");
    let check = ["system", "check", "mem0", "--systems", text(folder.path())];
    let (code, _, error) = call(&check);
    assert_eq!(code, 3);
    assert!(error.contains("`rawrag system setup mem0`"), "{error}");
    let (code, _, error) = call(&["system", "check", "mem1"]);
    assert_eq!(code, 2);
    assert!(error.contains("mem0, mem0-classic"), "{error}");
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
    assert!(said.starts_with("out on own: 84 questions"), "{said}");
    assert!(said.contains("671 persisted objects"), "{said}");
    let searches = records(&out, "searches");
    assert_eq!(searches.len(), 84);
    let first = &searches[0];
    assert_eq!(first["visibility"], "filter");
    assert_eq!(
        (&first["requested"], &first["returned"]),
        (&json!(5), &json!(5))
    );
    let evidence = records(&out, "evidence");
    assert!(evidence[0]["date"].as_str().unwrap() < "2026-02-20");
    let returned: u64 = searches
        .iter()
        .map(|s| s["returned"].as_u64().unwrap())
        .sum();
    assert_eq!(evidence.len() as u64, returned);
    let messages = |unit: &Value| {
        unit["last_message"].as_u64().unwrap() - unit["first_message"].as_u64().unwrap() + 1
    };
    let taken = records(&out, "ingestions");
    assert_eq!(taken.iter().map(messages).sum::<u64>(), 671);
    let description = &manifest(&out)["settings"]["memory"]["description"];
    assert_eq!(description["name"], "shared-words");
    let (code, _, error) = call(&[&run[..], &["--", "python3", EXAMPLE]].concat());
    assert_eq!(code, 3, "{error}");
    assert!(error.contains("rawrag resume"), "{error}");
    let (code, again, notices) = call(&["resume", text(&out)]);
    assert_eq!(code, 0, "{notices}");
    assert!(notices.contains("nothing was run"), "{notices}");
    assert_eq!(again, said);
}

/// A conversation that was cut off is begun again; what was whole stays as it is.
#[test]
fn a_conversation_that_was_cut_off_is_taken_in_again() {
    let folder = tempfile::tempdir().unwrap();
    small_experiment(folder.path()).unwrap();
    let experiment = folder.path().join("recency.toml");
    fs::write(&experiment, RECENCY).unwrap();
    let run = |out: &Path| call(&["run", text(&experiment), "--out", text(out)]);
    let (whole, cut) = (folder.path().join("whole"), folder.path().join("cut"));
    let (code, said, error) = run(&whole);
    assert_eq!(code, 0, "{error}");
    assert!(said.contains("12 questions to recency"), "{said}");
    assert_eq!(run(&cut).0, 0);
    let kinds = [
        "searches",
        "evidence",
        "ingestions",
        "exports",
        "consumptions",
    ];
    let without_times = |run: &Path, kind: &str| {
        let mut records = records(run, kind);
        for record in &mut records {
            let record = record.as_object_mut().unwrap();
            record.retain(|field, _| !field.ends_with("milliseconds"));
        }
        records
    };
    // The process ends while the second conversation's searches are written, or a disk loses a part of
    // the evidence that these searches returned.
    for file in ["searches.jsonl", "evidence.jsonl"] {
        let path = cut.join(file);
        let text_before = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text_before[..text_before.len() * 3 / 4]).unwrap();
        let (code, _, error) = run(&cut);
        assert_eq!(code, 0, "{error}");
        for kind in kinds {
            assert_eq!(
                without_times(&cut, kind),
                without_times(&whole, kind),
                "{file}: {kind}"
            );
        }
    }
}

const RECENCY: &str = r#"
about = "The last messages of a small history."
system = "recency"
benchmark = "own"
data = "."

[memory]
system = "recency"
k = 3

[evidence]
cutoffs = [1, 3]
"#;

/// What fails at a question is on record as failed, and asked again.
#[test]
fn a_failed_search_is_a_failure_with_its_reason_and_is_asked_again() {
    if Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: there is no python3");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    small_experiment(folder.path()).unwrap();
    // Dies at the question about the can while the file `rope` is there.
    let rope = folder.path().join("rope");
    fs::write(&rope, "").unwrap();
    let wrapper = folder.path().join("wrapper.py");
    let example = fs::read_to_string(workspace().join(EXAMPLE)).unwrap();
    let dying = format!(
        "import os, sys\nclass Lines:\n    def __iter__(self):\n        for line in sys.__stdin__:\n            if 'Where is the watering can' in line and os.path.exists({:?}):\n                sys.exit(7)\n            yield line\nsys.stdin = Lines()\n{example}",
        text(&rope)
    );
    fs::write(&wrapper, dying).unwrap();
    let out = folder.path().join("out");
    let run = [
        "system",
        "run",
        "--data",
        text(folder.path()),
        "--out",
        text(&out),
        "-k",
        "3",
        "--",
        "python3",
        text(&wrapper),
    ];
    let (code, _, error) = call(&run);
    assert_eq!(code, 4, "{error}");
    assert!(error.contains("exit status: 7"), "{error}");
    let failed = |searches: &[Value]| {
        let failed = searches.iter().filter(|s| s["outcome"] == "failed");
        failed
            .filter(|s| s["error"].as_str().unwrap().contains("exit status: 7"))
            .count()
    };
    let searches = records(&out, "searches");
    // It died at one of its questions in each conversation, and what came after failed too.
    assert_eq!((searches.len(), failed(&searches)), (12, 6));
    let (_, listed, _) = call(&["failures", text(&out)]);
    assert_eq!(listed.lines().count(), 6, "{listed}");
    fs::remove_file(&rope).unwrap();
    let (code, said, error) = call(&["resume", text(&out)]);
    assert_eq!(code, 0, "{said}{error}");
    assert_eq!(failed(&records(&out, "searches")), 0);
    let (_, shown, _) = call(&["show", text(&out), "own orchard q6"]);
    assert!(shown.contains("items returned of 3 asked for"), "{shown}");
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

/// A run of the small sample, in a folder that goes with the first value.
fn taken(system: &str, more: &[&str]) -> (tempfile::TempDir, PathBuf) {
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
    // mem0#7197: these would send every call to another provider.
    run.env("OPENROUTER_API_KEY", "sk-elsewhere");
    run.env("OPENAI_API_KEY", "sk-elsewhere");
    run.args(["--data", text(folder.path())]).args(more);
    let (code, said, error) = finish(run);
    assert_eq!(code, 0, "{said}{error}");
    let stored = records(&out, "exports");
    assert!(!stored.is_empty());
    // mem0#3944: the messages' dates, never the wall clock.
    assert!(
        stored
            .iter()
            .all(|stored| stored["date"].as_str().unwrap().starts_with("2025-"))
    );
    let found = records(&out, "evidence");
    let text = |item: &Value| item["text"].as_str().unwrap().to_owned();
    assert!(found.iter().all(|item| text(item).starts_with("[2025-")));
    assert!(
        records(&out, "consumptions")[0]["chat_calls"]
            .as_u64()
            .unwrap()
            > 0
    );
    assert!(said.contains("scripted"), "{said}");
    (folder, out)
}

fn mem0(system: &str, more: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let (folder, out) = taken(system, more);
    // Both speakers' stores, each asked for 20.
    assert_eq!(records(&out, "searches")[0]["requested"], 40);
    (folder, out)
}

fn decisions(run: &Path, level: &str, event: &str) -> Vec<Value> {
    let mut all = records(run, "decisions");
    all.retain(|decision| decision["level"] == level && decision["event"] == event);
    all
}

#[test]
fn mem0_2_runs_on_the_sample_and_only_adds() {
    if !set_up("mem0") {
        return;
    }
    let (_folder, run) = mem0("mem0", &[]);
    assert_eq!(records(&run, "searches")[0]["visibility"], "filter");
    let stored = records(&run, "exports").len();
    assert_eq!(decisions(&run, "persisted", "add").len(), stored);
    assert!(decisions(&run, "proposed", "add").len() >= stored);
    for event in ["update", "delete", "none"] {
        assert!(decisions(&run, "persisted", event).is_empty());
    }
}

#[test]
fn classic_mem0_runs_on_the_sample_with_decisions_at_three_levels() {
    if !set_up("mem0-classic") {
        return;
    }
    let (_folder, run) = mem0("mem0-classic", &[]);
    assert_eq!(records(&run, "searches")[0]["visibility"], "prefix");
    for level in ["proposed", "returned", "persisted"] {
        let updates = decisions(&run, level, "update");
        assert!(!updates.is_empty(), "{level}");
        assert!(updates.iter().all(|update| update["changed"] == true));
    }
    let (_other, only) = mem0("mem0-classic", &["--setting", "policy=add-only"]);
    assert!(!decisions(&only, "proposed", "update").is_empty());
    for event in ["update", "delete"] {
        assert!(decisions(&only, "returned", event).is_empty());
        assert!(decisions(&only, "persisted", event).is_empty());
    }
}

#[test]
fn simplemem_runs_on_the_sample_and_keeps_entries_of_windows() {
    if !set_up("simplemem") {
        return;
    }
    let (_folder, run) = taken("simplemem", &["--memory", "32768"]);
    assert_eq!(records(&run, "searches")[0]["visibility"], "prefix");
    let stored = records(&run, "exports");
    let most = |stored: &Value| stored["messages"].as_array().unwrap().len();
    // Windows of 40 messages.
    assert!(stored.iter().all(|stored| (1..=40).contains(&most(stored))));
    assert!(stored.iter().any(|stored| most(stored) == 40));
}

/// Its store maps more memory than a wrapper may take unless it is told.
#[test]
fn simplemem_says_how_much_address_space_it_needs() {
    if !set_up("simplemem") {
        return;
    }
    let (code, report, _) = call(&[
        "system",
        "check",
        "simplemem",
        "--models-at",
        "http://127.0.0.1:9/v1",
    ]);
    assert_eq!(code, 1);
    assert!(report.contains("--memory 16384"), "{report}");
}

#[test]
fn a_mem_runs_on_the_sample_and_rewrites_neighbours() {
    if !set_up("a-mem") {
        return;
    }
    let (_folder, run) = taken("a-mem", &[]);
    assert_eq!(records(&run, "searches")[0]["visibility"], "prefix");
    assert_eq!(decisions(&run, "persisted", "add").len(), 60);
    let updates = decisions(&run, "persisted", "update");
    assert!(!updates.is_empty());
    assert!(updates.iter().any(|update| update["changed"] == true));
    assert!(decisions(&run, "persisted", "delete").is_empty());
}

#[test]
fn memu_runs_on_the_sample_and_only_adds() {
    if !set_up("memu") {
        return;
    }
    let (_folder, run) = taken("memu", &[]);
    assert_eq!(records(&run, "searches")[0]["visibility"], "filter");
    let stored = records(&run, "exports").len();
    assert_eq!(decisions(&run, "persisted", "add").len(), stored);
    assert!(decisions(&run, "persisted", "update").is_empty());
}
