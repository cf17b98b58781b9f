//! All of LongMemEval-S, read, windowed and counted: `cargo bench -p rawrag-corpus --bench
//! longmemeval_s`. The target is under 60 seconds and 2 GB on two cores.
//!
//! The release is not at hand, so a file of its size is written aside: 500 histories, made by
//! repeating real ones from the shared data with a number added to every message, so that no two
//! messages are alike. One thread reads, two cut windows and count tokens.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench is no library, and stops where its input fails"
)]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::sync_channel;
use std::time::Instant;

use rawrag_chunking::{Encoding, Rendering, Transcript, Unit, chunk};
use rawrag_corpus::{Entry, LoadError, read};
use serde_json::{Value, json};

const HISTORIES: usize = 500;
const WORKERS: usize = 2;

#[derive(Default)]
struct Counts {
    windows: usize,
    window_tokens: usize,
    counted: usize,
}

fn main() {
    // Only `cargo bench` says so; `cargo test --all-targets` must not take a minute.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let folder = std::env::var_os("RAWRAG_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let cases = folder.join("data/longmemeval/reme-cases");
    if !cases.exists() {
        println!(
            "skipped: {} is not there; RAWRAG_SHARED names the folder",
            cases.display()
        );
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let file = temporary.path().join("longmemeval_s.json");
    write(&cases, &file);
    // The tables of the encodings are made at their first use.
    let _ = (
        Encoding::Cl100kBase.count("a"),
        Encoding::O200kBase.count("a"),
    );
    let begun = Instant::now();
    let report = read::<LoadError>(&file, None, |entry| {
        drop(entry);
        Ok(())
    });
    let read_alone = begun.elapsed();
    let begun = Instant::now();
    let counts = count(&file);
    let took = begun.elapsed();
    let totals = report.unwrap().totals;
    println!(
        "file            {} MB",
        file.metadata().unwrap().len() / 1_000_000
    );
    println!("histories       {}", totals.conversations);
    println!("sessions        {}", totals.sessions);
    println!("messages        {}", totals.messages);
    println!("windows         {}", counts.windows);
    println!("window tokens   {}", counts.window_tokens);
    println!("counted tokens  {}", counts.counted);
    println!("read alone      {:.1} s", read_alone.as_secs_f64());
    println!("read and cut    {:.1} s", took.as_secs_f64());
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|line| line.starts_with("VmHWM"));
    println!("{}", peak.unwrap_or("VmHWM: not told by this system"));
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load            {}", load.trim());
}

/// Reads the file on this thread, and cuts and counts on the workers.
fn count(file: &Path) -> Counts {
    let (send, receive) = sync_channel::<Entry>(WORKERS);
    let receive = Mutex::new(receive);
    let work = || {
        let mut counts = Counts::default();
        loop {
            let Ok(entry) = receive.lock().unwrap().recv() else {
                return counts;
            };
            let transcript = Transcript::new(&entry.conversation, Rendering::Dated);
            for window in chunk(&transcript, Unit::WINDOW).unwrap() {
                let text = transcript.shown(&window);
                counts.windows += 1;
                counts.window_tokens += window.tokens.map_or(0, |tokens| tokens.len());
                counts.counted += Encoding::O200kBase.count(text);
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        let report = read::<LoadError>(file, None, |entry| {
            send.send(entry).unwrap();
            Ok(())
        });
        drop(send);
        assert_eq!(report.unwrap().totals.conversations, HISTORIES as u64);
        workers.into_iter().fold(Counts::default(), |sum, worker| {
            let counts = worker.join().unwrap();
            Counts {
                windows: sum.windows + counts.windows,
                window_tokens: sum.window_tokens + counts.window_tokens,
                counted: sum.counted + counts.counted,
            }
        })
    })
}

fn write(cases: &Path, file: &Path) {
    let cases: Vec<Value> = (0..5)
        .map(|number| {
            let text = std::fs::read_to_string(cases.join(format!("{number:06}.json"))).unwrap();
            serde_json::from_str(&text).unwrap()
        })
        .collect();
    let mut out = BufWriter::new(File::create(file).unwrap());
    for copy in 0..HISTORIES {
        let item = released(&cases[copy % cases.len()], copy);
        write!(out, "{}{item}", if copy == 0 { "[" } else { ",\n" }).unwrap();
    }
    writeln!(out, "]").unwrap();
    out.flush().unwrap();
}

/// A case in the release's layout, with the copy's number in every message.
fn released(case: &Value, copy: usize) -> Value {
    let query = &case["queries"][0];
    let sessions = case["sessions"].as_array().unwrap();
    let each = |f: &dyn Fn(&Value) -> Value| sessions.iter().map(f).collect::<Value>();
    let altered = |message: &Value| {
        let text = message["content"].as_str().unwrap();
        json!({"role": message["role"], "content": format!("{text} ({copy})")})
    };
    json!({
        "question_id": format!("q{copy}"),
        "question_type": query["metadata"]["question_type"],
        "question": query["query_id"],
        "question_date": query["metadata"]["question_date"],
        "answer": query["metadata"]["original_answer"],
        "answer_session_ids": query["metadata"]["original_answer_session_ids"],
        "haystack_session_ids": each(&|s| s["session_id"].clone()),
        "haystack_dates": each(&|s| s["metadata"]["date"].clone()),
        "haystack_sessions": each(&|s| s["messages"].as_array().unwrap().iter().map(altered).collect()),
    })
}
