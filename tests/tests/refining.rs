//! A model between retrieval and reader: it chooses among the items, or prunes the evidence, over real
//! HTTP.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rawrag::models::serve::{Bound, Models, Script};
use rawrag_tests::{finish, need_weights, rawrag};
use serde_json::{Map, Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_rawrag-under-test");

fn call(arguments: &[&str]) -> (i32, String, String) {
    finish(rawrag(PROGRAM, arguments))
}

fn records(run: &Path, kind: &str) -> Vec<Value> {
    let text = fs::read_to_string(run.join(format!("{kind}.jsonl"))).unwrap_or_default();
    let line = |line| serde_json::from_str(line).unwrap();
    text.lines().map(line).collect()
}

/// The pruner gives back what it was sent; the listwise selector likes the second passage best, but
/// for one question it forgets the others.
const SCRIPT: &str = r#"
[[rules]]
when = '(?s)Question: What was the whole bill.*\nPassages:'
reply = '{"scores": [{"index": 1, "score": 0.9}]}'

[[rules]]
when = 'Passages:'
reply = '{"scores": [{"index": 1, "score": 0.1}, {"index": 2, "score": 0.9}, {"index": 3, "score": 0.6}]}'

[[rules]]
when = '(?s)Record:\n(?<record>.*)\n\nDate of the question'
reply = '<<record>>'
"#;

fn serve_script() -> SocketAddr {
    let models = Models {
        script: Some(Arc::new(Script::parse(SCRIPT).unwrap())),
        ..Models::default()
    };
    let bound = Bound::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = bound.address();
    thread::spawn(move || bound.serve(models).unwrap());
    address
}

/// A decision service that says yes to the last item of each request alone, and counts requests.
fn serve_decisions() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let counted = Arc::clone(&counted);
            thread::spawn(move || decide(stream.unwrap(), &counted));
        }
    });
    (address, requests)
}

fn decide(stream: TcpStream, counted: &AtomicUsize) {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line).unwrap() > 2 {
        let field = line.to_ascii_lowercase();
        if let Some(value) = field.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    counted.fetch_add(1, Ordering::Relaxed);
    let questions = body["questions"].as_object().unwrap();
    let answers: Map<String, Value> = questions
        .iter()
        .map(|(key, question)| {
            // Each question names its own item, and the state holds it.
            let instructions = question["instructions"].as_str().unwrap();
            assert!(instructions.contains(&format!("`{key}`")), "{instructions}");
            assert!(body["state"][key].is_string());
            let is_last = *key == format!("item_{}", questions.len());
            let noul = if is_last { 0.9 } else { 0.1 };
            (key.clone(), json!({ "type": "noul", "noul": noul }))
        })
        .collect();
    let usage = json!({ "input_tokens": 10, "output_tokens": 1 });
    let reply = json!({ "model": "decider", "usage": usage, "answers": answers }).to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        reply.len()
    );
    let mut stream = reader.into_inner();
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(reply.as_bytes()).unwrap();
}

fn experiment(folder: &Path, shortlist: usize, sections: &str) -> String {
    let data = fs::canonicalize(rawrag_tests::sample()).unwrap();
    let text = format!(
        r#"
about = "A test."
system = "rawrag"
benchmark = "own"
data = {data:?}

[retrieval]
k = {shortlist}
chunks = {{ unit = "message" }}
rendering = "dated"
ranking = {{ method = "late-interaction" }}

[evidence]
cutoffs = [1]

{sections}
"#
    );
    let path = folder.join("experiment.toml");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Turns + Jev: the kept item first, then the floor, cut at k; what is on record is not asked again.
#[test]
fn decisions_choose_what_is_read_and_are_asked_once() {
    need_weights!();
    let folder = tempfile::tempdir().unwrap();
    let (decisions, requests) = serve_decisions();
    let script = serve_script();
    let key = folder.path().join("key");
    fs::write(&key, "a-key-of-this-test").unwrap();
    let experiment = experiment(
        folder.path(),
        5,
        &format!(
            r#"
[selector]
by = "decision"
service = {{ provider = "systemone", address = "http://{decisions}/v1/systemone", key_file = {key:?} }}
model = "decider"
k = 2
floor = 3

[pruner]
service = {{ provider = "compatible", address = "http://{script}/v1" }}
model = "scripted"
"#
        ),
    );
    let run = folder.path().join("run");
    let arguments = ["run", &experiment, "--out", run.to_str().unwrap()];

    let (code, output, error) = call(&[&arguments[..], &["--dry-run"]].concat());
    assert_eq!(code, 0, "{output}\n{error}");
    assert!(
        output.contains("selecting: ") && output.contains("pruning: "),
        "{output}"
    );
    assert_eq!(requests.load(Ordering::Relaxed), 0);

    let (code, output, error) = call(&arguments);
    assert_eq!(code, 0, "{output}\n{error}");
    let (retrievals, selections) = (records(&run, "retrievals"), records(&run, "selections"));
    assert_eq!(selections.len(), retrievals.len());
    // Every question is asked about once; equal requests are sent once and come from the cache again.
    let attempts = |outcome| {
        let usage = records(&run, "usage");
        let of = |u: &&Value| u["model"] == "decider" && u["outcome"] == outcome;
        usage.iter().filter(of).count()
    };
    let asked = requests.load(Ordering::Relaxed);
    assert_eq!(attempts("answered"), asked);
    assert_eq!(asked + attempts("cached"), retrievals.len());
    for selection in &selections {
        assert_eq!(selection["order"], json!([4, 0, 1, 2]));
        assert_eq!(
            (&selection["kept"], &selection["requests"]),
            (&json!(1), &json!(1))
        );
    }
    // The pruner was sent the two items that the selector left, and gave them back.
    let prunings = records(&run, "prunings");
    for retrieval in &retrievals {
        let of = |record: &&Value| record["question"] == retrieval["question"];
        let pruning = prunings.iter().find(of).unwrap();
        assert_eq!(pruning["outcome"], "answered");
        let lines = pruning["text"].as_str().unwrap().lines();
        let shown = lines.filter(|line| line.starts_with('[')).count();
        assert_eq!(shown, 2, "{}", pruning["text"]);
    }

    let (code, output, error) = call(&arguments);
    assert_eq!(code, 0, "{output}\n{error}");
    assert!(error.contains("selecting: all"), "{error}");
    assert_eq!(requests.load(Ordering::Relaxed), asked);
    let (code, output, _) = call(&["status", run.to_str().unwrap()]);
    assert_eq!(code, 0);
    assert!(
        output.contains("selector: ") && output.contains("complete"),
        "{output}"
    );
}

/// A reply that does not score every passage is no selection: the reader gets the shortlist, and the
/// reason is told.
#[test]
fn an_unparsed_selection_leaves_the_shortlist() {
    need_weights!();
    let folder = tempfile::tempdir().unwrap();
    let script = serve_script();
    let service =
        format!(r#"service = {{ provider = "compatible", address = "http://{script}/v1" }}"#);
    let experiment = experiment(
        folder.path(),
        3,
        &format!(
            "[selector]\nby = \"listwise\"\n{service}\nmodel = \"scripted\"\nk = 3\nfloor = 0\n"
        ),
    );
    let run = folder.path().join("run");
    let (code, output, error) = call(&["run", &experiment, "--out", run.to_str().unwrap()]);
    assert_eq!(code, 0, "{output}\n{error}");
    let selections = records(&run, "selections");
    let (unparsed, selected): (Vec<&Value>, Vec<&Value>) =
        selections.iter().partition(|s| s["outcome"] == "unparsed");
    assert_eq!(unparsed.len(), 1);
    assert_eq!(unparsed[0]["error"], "passage 2 has no score");
    assert!(unparsed[0]["reply"].is_string());
    assert!(selected.iter().all(|s| s["order"] == json!([1, 2])));
    let (_, output, _) = call(&["failures", run.to_str().unwrap()]);
    assert!(
        output.contains("selection unparsed passage 2 has no score"),
        "{output}"
    );
}

#[test]
fn a_selector_that_cannot_work_is_refused_before_anything_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let service = r#"service = { provider = "compatible", address = "http://127.0.0.1:9/v1" }"#;
    for (settings, named) in [
        ("by = \"decision\"\nk = 9", "selector.k"),
        ("by = \"decision\"\nk = 0", "selector.k"),
        (
            "by = \"yes-no\"\nk = 1\nthreshold = 1.5",
            "selector.threshold",
        ),
        ("by = \"guess\"\nk = 1", "unknown variant `guess`"),
    ] {
        let sections = format!("[selector]\n{service}\nmodel = \"m\"\n{settings}\n");
        let experiment = experiment(folder.path(), 3, &sections);
        let out = folder.path().join("run");
        let (code, _, error) = call(&["run", &experiment, "--out", out.to_str().unwrap()]);
        assert_eq!(code, 3, "{error}");
        assert!(error.contains(named), "{error}");
        assert!(!out.exists());
    }
}
