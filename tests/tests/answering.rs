//! All stages over real HTTP, with scripted replies: answered, graded, killed, taken up, graded
//! again, compared.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rawrag::models::serve::{Bound, Models, Script};
use rawrag_tests::{finish, need_weights, rawrag, workspace, write_lines};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_rawrag-under-test");
/// Calls under way at the same time in these experiments.
const CONCURRENCY: usize = 8;

fn call(arguments: &[&str]) -> (i32, String, String) {
    finish(rawrag(PROGRAM, arguments))
}

fn done(arguments: &[&str]) -> String {
    let (code, output, error) = call(arguments);
    assert_eq!(code, 0, "{arguments:?}\n{output}\n{error}");
    output
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The arguments of `rawrag run`.
fn run<'a>(experiment: &'a Path, out: &'a Path, cache: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["run", text(experiment), "--out", text(out)];
    arguments.extend(["--cache", text(cache)]);
    arguments.extend(more);
    arguments
}

/// Serves a script until the test ends.
fn serve(script: &str) -> SocketAddr {
    let models = Models {
        script: Some(Arc::new(Script::parse(script).unwrap())),
        count: Some(|text| rawrag::chunking::Encoding::O200kBase.count(text)),
        ..Models::default()
    };
    let bound = Bound::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = bound.address();
    thread::spawn(move || bound.serve(models).unwrap());
    address
}

fn script() -> String {
    fs::read_to_string(workspace().join("experiments/scripts/quickstart.toml")).unwrap()
}

/// The quickstart with the served address, in a folder of its own.
fn quickstart(folder: &Path, address: SocketAddr) -> PathBuf {
    let experiments = workspace().join("experiments");
    let written = fs::read_to_string(experiments.join("quickstart-scripted.toml")).unwrap();
    let data = fs::canonicalize(rawrag_tests::sample()).unwrap();
    let moved = written
        .replace("127.0.0.1:8787", &address.to_string())
        .replace("../data/sample", text(&data));
    assert!(moved.contains(&address.to_string()) && moved.contains(text(&data)));
    fs::copy(experiments.join("prices.toml"), folder.join("prices.toml")).unwrap();
    let path = folder.join("quickstart-scripted.toml");
    fs::write(&path, moved).unwrap();
    path
}

fn lines(run: &Path, kind: &str) -> Vec<Value> {
    let text = fs::read_to_string(run.join(format!("{kind}.jsonl"))).unwrap_or_default();
    let whole = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    whole.collect()
}

/// Records without times, in an order of their own: calls finish in any.
fn records(run: &Path, kind: &str) -> Vec<String> {
    let untimed = |mut record: Value| {
        record.as_object_mut().unwrap().remove("milliseconds");
        record.to_string()
    };
    let mut records: Vec<String> = lines(run, kind).into_iter().map(untimed).collect();
    records.sort_unstable();
    records
}

/// Attempts that the service answered, each of which is paid for.
fn paid(run: &Path) -> usize {
    let rows = lines(run, "usage");
    rows.iter()
        .filter(|row| row["outcome"] == "answered")
        .count()
}

/// Starts the program and ends it with SIGKILL when `due` says so. Whether it was still running.
fn kill_when(arguments: &[&str], due: impl Fn() -> bool) -> bool {
    let mut command: Command = rawrag(PROGRAM, arguments);
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !due() {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        thread::yield_now();
    }
    child.kill().unwrap();
    !child.wait().unwrap().success()
}

#[test]
fn every_stage_is_recorded_resumed_regraded_and_compared() {
    need_weights!();
    let folder = tempfile::tempdir().unwrap();
    let experiment = quickstart(folder.path(), serve(&script()));
    let (whole, killed, again) = (
        folder.path().join("whole"),
        folder.path().join("killed"),
        folder.path().join("again"),
    );
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));

    // A dry run makes no call, and its price is told.
    let planned = done(&run(&experiment, &whole, &first, &["--dry-run"]));
    assert!(planned.contains("No call was made."), "{planned}");
    assert!(planned.contains("Price: $0.00"), "{planned}");
    assert_eq!(paid(&whole), 0);

    let output = done(&run(&experiment, &whole, &first, &[]));
    let (answers, judgments) = (records(&whole, "answers"), records(&whole, "judgments"));
    let questions = lines(&whole, "retrievals").len();
    assert_eq!((answers.len(), judgments.len()), (questions, 3 * questions));
    assert!(
        output.contains("nothing here measures the quality"),
        "{output}"
    );
    let manifest = fs::read_to_string(whole.join("manifest.json")).unwrap();
    assert!(manifest.contains("scripted replies; no measure of answer quality"));

    // Killed in each stage, the run goes on and ends as the undisturbed one.
    let mut kills = 0;
    for (kind, count) in [
        ("answers", 5),
        ("answers", 40),
        ("judgments", 3),
        ("judgments", 150),
    ] {
        let arguments = run(&experiment, &killed, &second, &[]);
        let due = || lines(&killed, kind).len() >= count;
        kills += usize::from(kill_when(&arguments, due));
    }
    assert!(kills > 1, "the run was too fast to be killed");
    done(&["resume", text(&killed), "--cache", text(&second)]);
    assert_eq!(records(&killed, "answers"), answers);
    assert_eq!(records(&killed, "judgments"), judgments);
    // What was under way when the process was killed is all that may be paid for again.
    assert!(paid(&killed) <= paid(&whole) + kills * CONCURRENCY);

    // Every reply was kept: the whole experiment can be done again without a call.
    done(&run(&experiment, &again, &second, &["--cached-only"]));
    assert_eq!((paid(&again), records(&again, "judgments")), (0, judgments));

    let judge = folder.path().join("second-judge.toml");
    let written = fs::read_to_string(&experiment).unwrap();
    let (_, section) = written.split_once("[[judges]]").unwrap();
    let (section, _) = section.split_once("[prices]").unwrap();
    let section = section.replace("figures", "severe") + "prompt = \"judge-nano-memory\"\n";
    fs::write(&judge, format!("[[judges]]{section}")).unwrap();
    let regraded = done(&[
        "rejudge",
        text(&whole),
        "--judge",
        text(&judge),
        "--cache",
        text(&first),
    ]);
    assert!(regraded.contains("judge severe:"), "{regraded}");
    assert_eq!(lines(&whole, "judgments").len(), 4 * questions);
    // The run is still that of its experiment.
    done(&["resume", text(&whole), "--cache", text(&first)]);

    let status = done(&["status", text(&whole)]);
    assert!(
        status.contains("\ncomplete\n") && status.contains("Cost so far: $0.00"),
        "{status}"
    );
    let compared = done(&["compare", text(&whole), text(&killed)]);
    assert!(compared.contains("judge figures:") && compared.contains("0 only in A, 0 only in B"));
    let listed = done(&["runs", text(folder.path())]);
    let counts = format!(
        "{questions}/{questions} answers, {0}/{0} judgments",
        4 * questions
    );
    assert!(listed.contains(&counts), "{listed}");
    let shown = done(&["show", text(&whole), "own net-loft q01"]);
    assert!(
        shown.contains("answer (answered): ") && shown.contains("  figures: "),
        "{shown}"
    );
}

/// [EverCore, MemOS, LongMemEval code]: what failed is no wrong answer. Where much fails the run
/// says so, ends with code 4 and asks again when it is taken up.
#[test]
fn failures_are_counted_and_asked_again_and_never_wrong() {
    need_weights!();
    let folder = tempfile::tempdir().unwrap();
    // Nothing replies to the reader of one conversation.
    let partial = script().replace("(?<line>", "(?<line>[^\\n]*orchard");
    let broken = serve(&partial);
    let experiment = small(folder.path(), broken, &["orchard", "workshop"], 6);
    let run = folder.path().join("run");
    let (code, _, error) = call(&["run", text(&experiment), "--out", text(&run)]);
    assert_eq!(code, 4, "{error}");
    assert!(
        error.contains("gave nothing") && error.contains("times:"),
        "{error}"
    );
    let held = lines(&run, "answers").len();
    assert!(held < 12 && lines(&run, "judgments").is_empty());

    let out = [
        "run",
        text(&experiment),
        "--out",
        text(&run),
        "--failures-allowed",
        "1",
    ];
    done(&out);
    let failed = |kind| {
        let records = lines(&run, kind);
        records
            .iter()
            .filter(|record| record["outcome"] == "failed")
            .count()
    };
    assert_eq!(
        (failed("answers"), failed("judgments")),
        (12 - held, 3 * (12 - held))
    );
    let listed = done(&["failures", text(&run)]);
    assert_eq!(listed.lines().count(), 4 * (12 - held), "{listed}");
}

/// A small history about `conversations`, with `things` questions each, read and graded at `address`.
fn small(folder: &Path, address: SocketAddr, conversations: &[&str], things: usize) -> PathBuf {
    let (mut history, mut questions) = (Vec::new(), Vec::new());
    for conversation in conversations {
        for at in 0..things {
            history.push(json!({
                "conversation": conversation, "session": "s1", "date": "2025-04-10T09:00",
                "id": format!("m{at}"), "speaker": "Runa",
                "text": format!("I left tool number {at} in the {conversation} shed."),
            }));
            questions.push(json!({
                "conversation": conversation, "id": format!("q{at}"), "kind": "single-hop",
                "question": format!("Where is tool number {at}?"), "answer": "in the shed",
                "evidence": [format!("m{at}")],
            }));
        }
    }
    write_lines(&folder.join("history.jsonl"), &history).unwrap();
    write_lines(&folder.join("questions.jsonl"), &questions).unwrap();
    let service = format!(
        "service = {{ provider = \"compatible\", address = \"http://{address}/v1\", limits = {{ \
         concurrency = {CONCURRENCY}, failures-in-a-row = 0 }} }}\nmodel = \"scripted\"\n"
    );
    let experiment = folder.join("small.toml");
    let text = format!(
        "about = \"A small history.\"\nsystem = \"rawrag\"\nbenchmark = \"own\"\ndata = \".\"\n\n\
         [retrieval]\nk = 1\nchunks = {{ unit = \"message\" }}\nrendering = \"dated\"\n\
         ranking = {{ method = \"dense\" }}\n\n[evidence]\ncutoffs = [1]\n\n\
         [reader]\n{service}\n[[judges]]\nname = \"figures\"\n{service}"
    );
    fs::write(&experiment, text).unwrap();
    experiment
}

/// Killed at 200 random moments, a run of 500 questions ends as an undisturbed one.
/// `cargo test -p rawrag-tests --test answering -- --ignored`
#[test]
#[ignore = "takes minutes"]
fn two_hundred_kills_lose_nothing() {
    need_weights!();
    let folder = tempfile::tempdir().unwrap();
    let slow = script().replace("\nreply = ", "\ndelay_milliseconds = 40\nreply = ");
    let names: Vec<String> = (0..10).map(|n| format!("place-{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let experiment = small(folder.path(), serve(&slow), &names, 50);
    let whole = folder.path().join("whole");
    done(&run(
        &experiment,
        &whole,
        &folder.path().join("cache-whole"),
        &[],
    ));
    let (mut state, mut kills, mut round) = (6_u64, 0, 0);
    while kills < 200 {
        round += 1;
        let killed = folder.path().join(format!("killed-{round}"));
        let cache = folder.path().join(format!("cache-{round}"));
        let arguments = run(&experiment, &killed, &cache, &[]);
        let before = kills;
        loop {
            // Knuth's MMIX generator.
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let moment = Duration::from_millis(100 + (state >> 33) % 1_500);
            let begun = Instant::now();
            if kills == 200 || !kill_when(&arguments, || begun.elapsed() >= moment) {
                break;
            }
            kills += 1;
        }
        done(&arguments);
        for kind in ["retrievals", "answers", "judgments"] {
            assert_eq!(records(&killed, kind), records(&whole, kind), "{kind}");
        }
        let (again, once) = (paid(&killed), paid(&whole));
        println!(
            "round {round}: {} kills, {again} calls for {once}",
            kills - before
        );
        assert!(again <= once + (kills - before) * CONCURRENCY);
    }
}
