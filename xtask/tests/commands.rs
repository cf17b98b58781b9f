//! The commands as a reviewer calls them.

#![expect(
    clippy::unwrap_used,
    reason = "a test whose input cannot be made has failed"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Calls the program as `cargo xtask` does in the workspace at `root`.
fn xtask(root: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask"))
        .env("CARGO_MANIFEST_DIR", root.join("xtask"))
        .args(arguments)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn exit_codes_tell_usage_from_input() {
    let code = |arguments: &[&str]| xtask(&root(), arguments).status.code().unwrap();
    assert_eq!(code(&["table", "nano-memory:9"]), 0);
    assert_eq!(code(&["table", "nano-memory:99"]), 2);
    assert_eq!(code(&["verify", "nobody:nothing"]), 2);
    assert_eq!(code(&["table", "1", "--format", "pdf"]), 2);
    assert_eq!(code(&["table", "1", "--definitions", "no such folder"]), 3);
}

#[test]
fn reproducing_twice_changes_nothing_and_a_change_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().to_str().unwrap();
    let runs = ["--runs", "no such folder"];
    assert!(
        xtask(&root(), &[&["reproduce", "--out", to], &runs[..]].concat())
            .status
            .success()
    );
    let check = [&["reproduce", "--check", "--out", to], &runs[..]].concat();
    assert!(xtask(&root(), &check).status.success());
    let page = fs::read_to_string(folder.path().join("index.html")).unwrap();
    assert!(
        !page.contains("http-equiv") && !page.contains("src="),
        "the page loads something"
    );
    fs::write(folder.path().join("nano-memory/table-09.csv"), "other").unwrap();
    fs::remove_file(folder.path().join("selection/figure-06.svg")).unwrap();
    let output = xtask(&root(), &check);
    assert_eq!(output.status.code(), Some(1));
    let named = text(&output.stdout);
    assert!(named.contains("table-09.csv differs") && named.contains("figure-06.svg is missing"));
}

/// The blocks of docs/add-a-table.md: files are written where the page says, commands are run and
/// must print the block that follows them, and Rust must stand in the registry as shown.
#[test]
fn the_walk_through_works_as_written() {
    let page = fs::read_to_string(root().join("docs/add-a-table.md")).unwrap();
    let registry = fs::read_to_string(root().join("crates/rawrag-paper/src/metric.rs")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for run in [
        "sample-mem0-classic-scripted",
        "sample-mem0-classic-add-only-scripted",
    ] {
        let held = root().join("data/runs").join(run);
        let copy = folder.path().join("data/runs").join(run);
        fs::create_dir_all(&copy).unwrap();
        for file in fs::read_dir(held).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), copy.join(file.file_name())).unwrap();
        }
    }
    let mut printed = String::new();
    let mut before = "";
    let mut commands = 0;
    for (at, part) in page.split("```").enumerate() {
        if at % 2 == 0 {
            before = part;
            continue;
        }
        let (language, body) = part.split_once('\n').unwrap();
        match language {
            "toml" => {
                let name = before
                    .rsplit('`')
                    .find(|piece| piece.ends_with(".toml"))
                    .unwrap();
                let path = folder.path().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, body).unwrap();
            }
            "sh" => {
                let arguments: Vec<&str> = body
                    .trim()
                    .strip_prefix("cargo xtask ")
                    .unwrap()
                    .split(' ')
                    .collect();
                let output = xtask(folder.path(), &arguments);
                assert!(output.status.success(), "{body}{}", text(&output.stderr));
                printed = text(&output.stdout);
                commands += 1;
            }
            "text" => assert_eq!(printed, body),
            "rust" => assert!(registry.contains(body), "{body}"),
            other => panic!("a block of {other}"),
        }
    }
    assert_eq!(commands, 4);
    let metrics = xtask(&root(), &["list", "--metrics"]);
    assert!(text(&metrics.stdout).contains("recall.any@k"));
}
