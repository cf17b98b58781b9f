//! What the end-to-end tests share: where the built program is, where the workspace is, and
//! whether the model's weights and the shared benchmark files are at hand.
//!
//! A test whose weights or files are missing prints why and passes; `.ci/run` fetches the weights
//! first, so there every test runs.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{fs, io};

use rawrag::models::store;
use serde_json::{Value, json};

/// The workspace's folder.
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The sample history's folder.
pub fn sample() -> PathBuf {
    workspace().join("data/sample")
}

/// The folder of benchmark files: `RAWRAG_SHARED`, else `../shared` beside the workspace.
pub fn shared(file: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("RAWRAG_SHARED").map(PathBuf::from);
    let path = folder
        .unwrap_or_else(|| workspace().join("../shared"))
        .join(file);
    path.exists().then_some(path)
}

/// Whether the encoder's weights are in the store.
pub fn has_weights() -> bool {
    let folder = store::folder(None);
    folder.is_ok_and(|folder| store::locate(&store::MINILM, &folder).is_ok())
}

/// Ends the calling test where the encoder's weights are missing.
#[macro_export]
macro_rules! need_weights {
    () => {
        if !$crate::has_weights() {
            println!("skipped: the weights are not here; `cargo rawrag models pull minilm`");
            return;
        }
    };
}

/// The program called with these arguments. It may not fetch.
pub fn rawrag(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command
        .arg("--offline")
        .args(arguments)
        .current_dir(workspace());
    command
}

/// Runs a command to its end: its exit code (-1 if a signal ended it), output and error stream.
pub fn finish(mut command: Command) -> (i32, String, String) {
    let Ok(Output {
        status,
        stdout,
        stderr,
    }) = command.output()
    else {
        return (-1, String::new(), format!("{command:?} does not start"));
    };
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.code().unwrap_or(-1), text(stdout), text(stderr))
}

/// Writes a history of two conversations, 24 messages and 12 questions into `folder`, and an
/// experiment on it; returns the experiment's path.
///
/// # Errors
/// When a file cannot be written.
pub fn small_experiment(folder: &Path) -> io::Result<PathBuf> {
    let (mut history, mut questions) = (Vec::new(), Vec::new());
    for conversation in ["orchard", "workshop"] {
        for (at, thing) in THINGS.iter().enumerate() {
            let (session, day) = (at / 4 + 1, at / 4 + 10);
            let speaker = if at % 2 == 0 { "Runa" } else { "Bao" };
            history.push(json!({
                "conversation": conversation, "session": format!("s{session}"),
                "date": format!("2025-04-{day}T09:{at:02}"), "id": format!("m{at}"),
                "speaker": speaker, "text": format!("I left the {thing} in the {conversation} shed."),
            }));
            if at % 2 == 0 {
                questions.push(json!({
                    "conversation": conversation, "id": format!("q{at}"), "kind": "single-hop",
                    "question": format!("Where is the {thing}?"), "answer": "in the shed",
                    "evidence": [format!("m{at}")],
                }));
            }
        }
    }
    write_lines(&folder.join("history.jsonl"), &history)?;
    write_lines(&folder.join("questions.jsonl"), &questions)?;
    let experiment = folder.join("small.toml");
    fs::write(&experiment, EXPERIMENT)?;
    Ok(experiment)
}

/// Writes JSON Lines.
///
/// # Errors
/// When the file cannot be written.
pub fn write_lines(path: &Path, lines: &[Value]) -> io::Result<()> {
    fs::write(
        path,
        lines
            .iter()
            .map(|line| format!("{line}\n"))
            .collect::<String>(),
    )
}

const THINGS: [&str; 12] = [
    "ladder",
    "pruning saw",
    "kettle",
    "rope",
    "red bucket",
    "radio",
    "watering can",
    "lantern",
    "bicycle pump",
    "seed tray",
    "glove",
    "whetstone",
];

const EXPERIMENT: &str = r#"
about = "A small history for tests."
system = "rawrag"
benchmark = "own"
data = "."

[retrieval]
k = 3
chunks = { unit = "message" }
ranking = { method = "late-interaction" }

[evidence]
cutoffs = [1, 3]
"#;
