//! Diagnostics, plans and skeletons as a researcher calls them.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test whose input cannot be made has failed"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn xtask(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask"))
        .env("CARGO_MANIFEST_DIR", root().join("xtask"))
        .args(arguments)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn said(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), text(&output.stderr))
}

/// The blocks of docs/add-a-diagnostic.md: Rust stands in the source as shown, commands print what
/// follows them, and the skeleton is made in a copy.
#[test]
#[cfg(feature = "frames")]
fn the_walk_through_works_as_written() {
    let source =
        fs::read_to_string(root().join("crates/rawrag-diagnostics/src/length.rs")).unwrap();
    assert_eq!(walk("docs/add-a-diagnostic.md", &source), 2);
}

/// The findings of docs/diagnostics-retrieval.md are what the commands on it print.
#[test]
#[cfg(feature = "frames")]
fn the_findings_are_what_the_commands_print() {
    assert!(walk("docs/diagnostics-retrieval.md", "") > 8);
}

/// Runs the commands of a page and compares what they print with the block that follows each; its
/// Rust has to stand in `source`. With `RAWRAG_WRITE_DOCS` set, writes what they print into the page
/// instead. Returns the number of commands.
#[cfg(feature = "frames")]
fn walk(page: &str, source: &str) -> usize {
    let path = root().join(page);
    let page = fs::read_to_string(&path).unwrap();
    let copy = copied();
    let mut printed = String::new();
    let mut commands = 0;
    let mut written = Vec::new();
    for (at, part) in page.split("```").enumerate() {
        let mut part = part.to_owned();
        if at % 2 == 1 {
            let (language, body) = part.split_once('\n').unwrap();
            match language {
                "rust" => assert!(source.contains(body.trim_end()), "{body}"),
                "sh" => {
                    let line = body.trim().replace(" \\\n    ", " ");
                    let line = line.strip_prefix("cargo xtask ").unwrap();
                    let mut arguments: Vec<&str> = line.split(' ').collect();
                    if arguments[0] == "new" {
                        arguments.extend(["--root", copy.path().to_str().unwrap()]);
                    }
                    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
                        .env("CARGO_MANIFEST_DIR", root().join("xtask"))
                        .current_dir(root())
                        .args(&arguments)
                        .output()
                        .unwrap();
                    assert!(output.status.success(), "{line}: {}", text(&output.stderr));
                    printed = text(&output.stdout);
                    commands += 1;
                }
                "text" if std::env::var_os("RAWRAG_WRITE_DOCS").is_some() => {
                    part = format!("text\n{printed}");
                }
                "text" => assert_eq!(printed, body),
                other => panic!("a block of {other}"),
            }
        }
        written.push(part);
    }
    if std::env::var_os("RAWRAG_WRITE_DOCS").is_some() {
        fs::write(path, written.join("```")).unwrap();
    }
    commands
}

/// The two files that the skeleton edits, in a workspace of nothing else.
fn copied() -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    let (from, to) = (sources(&root()), sources(copy.path()));
    fs::create_dir_all(&to).unwrap();
    for file in ["lib.rs", "registry.rs"] {
        fs::copy(from.join(file), to.join(file)).unwrap();
    }
    copy
}

fn sources(root: &Path) -> PathBuf {
    root.join("crates/rawrag-diagnostics/src")
}

/// The new file says what it is, its module stands in order, its line ends the list, and a second
/// one of that name is refused. Whether it compiles is seen by rustfmt, which parses it, and by the
/// path and names it shares with every other diagnostic.
#[test]
fn a_skeleton_is_registered_once() {
    let copy = copied();
    let root = copy.path().to_str().unwrap();
    let output = xtask(&["new", "diagnostic", "gold-age", "--root", root]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let read = |file: &str| fs::read_to_string(sources(copy.path()).join(file)).unwrap();
    let file = read("gold_age.rs");
    assert!(
        file.contains("pub(crate) const GOLD_AGE: Diagnostic")
            && file.contains("name: \"gold-age\"")
    );
    let (library, registry) = (read("lib.rs"), read("registry.rs"));
    let modules: Vec<&str> = library
        .lines()
        .filter_map(|line| {
            line.strip_prefix("pub ")
                .unwrap_or(line)
                .strip_prefix("mod ")
        })
        .collect();
    assert!(
        modules.contains(&"gold_age;") && modules.is_sorted(),
        "{modules:?}"
    );
    let list = registry.split("pub const DIAGNOSTICS").nth(1).unwrap();
    let list = list.split("\n];").next().unwrap();
    assert!(list.ends_with("    crate::gold_age::GOLD_AGE,"), "{list}");
    let parsed = Command::new("rustfmt")
        .args([
            "--check",
            "--edition",
            "2024",
            "--config",
            "skip_children=true",
        ])
        .arg(sources(copy.path()).join("gold_age.rs"))
        .output();
    match parsed {
        Ok(output) => assert!(
            !text(&output.stderr).contains("error: "),
            "{}",
            text(&output.stderr)
        ),
        Err(error) => println!("skipped: rustfmt is not here ({error})"),
    }
    let (code, message) = said(&xtask(&["new", "diagnostic", "gold-age", "--root", root]));
    assert_eq!(code, Some(2));
    assert!(
        message.contains("gold_age.rs is there already"),
        "{message}"
    );
    for name in ["Gold", "9lives", "a--b", "a-", ""] {
        assert_eq!(
            xtask(&["new", "diagnostic", name, "--root", root])
                .status
                .code(),
            Some(2),
            "{name}"
        );
    }
}

/// A plan is frozen once, is refused once it was changed, and comes before its data.
#[test]
fn a_frozen_plan_binds() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.toml");
    let path = plan.to_str().unwrap();
    let counts = root().join("experiments/plans/selection.counts.csv");
    let counts = counts.to_str().unwrap();
    let written = fs::read_to_string(root().join("experiments/plans/selection.toml")).unwrap();
    fs::write(&plan, &written).unwrap();
    let report = || xtask(&["plan", "report", path, "--counts", counts]);
    let (code, message) = said(&report());
    assert_eq!(code, Some(3));
    assert!(message.contains("is not frozen"), "{message}");

    assert!(xtask(&["plan", "freeze", path]).status.success());
    let (code, message) = said(&xtask(&["plan", "freeze", path]));
    assert!(
        code == Some(3) && message.contains("is frozen already"),
        "{message}"
    );
    assert!(report().status.success());
    assert!(text(&xtask(&["plan", "check", path]).stdout).contains("unchanged since"));

    let deviation =
        "\n[[deviations]]\ndate = \"2026-12-01\"\nchange = \"x\"\nreason = \"y\"\neffect = \"z\"\n";
    fs::write(&plan, format!("{written}{deviation}")).unwrap();
    let output = report();
    assert!(output.status.success() && text(&output.stdout).contains("2026-12-01"));

    fs::write(&plan, written.replacen("margin = 0.05", "margin = 0.04", 1)).unwrap();
    for output in [report(), xtask(&["plan", "check", path])] {
        let (code, message) = said(&output);
        assert_eq!(code, Some(3));
        assert!(
            message.contains("was changed after it was frozen"),
            "{message}"
        );
    }
}

#[test]
#[cfg(feature = "frames")]
fn a_plan_frozen_after_its_runs_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.toml");
    let path = plan.to_str().unwrap();
    fs::write(
        &plan,
        "title = \"t\"\n[data]\nbenchmark = \"locomo\"\nquestions = \"all\"\n[systems]\na = \"A\"\nb = \"B\"\n\
         [primary]\nid = \"P\"\ntest = \"difference\"\nnew = \"a\"\nreference = \"b\"\nalpha = 0.05\n\
         [primary.outcomes]\nshown = \"{new} is better, p = {p}.\"\nnot_shown = \"Nothing was shown.\"\n",
    )
    .unwrap();
    assert!(xtask(&["plan", "freeze", path]).status.success());
    let runs = ["a=imported-mirix", "b=imported-mirix-langmem"];
    let report = || {
        xtask(&[
            "plan", "report", path, "--system", runs[0], "--system", runs[1],
        ])
    };
    let seal = folder.path().join("plan.toml.frozen");
    let digest = fs::read_to_string(&seal).unwrap();
    let digest = digest.split(' ').next().unwrap();
    fs::write(&seal, format!("{digest} 2999-01-01\n")).unwrap();
    let (code, message) = said(&report());
    assert_eq!(code, Some(3));
    assert!(
        message.contains("a plan comes before its data"),
        "{message}"
    );
    fs::write(&seal, format!("{digest} 2026-01-01\n")).unwrap();
    let output = report();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("P: A is better"));
}

/// docs/records.md is what the schemas say.
#[test]
fn the_page_of_columns_is_not_stale() {
    let written = fs::read_to_string(root().join("docs/records.md")).unwrap();
    assert_eq!(
        text(&xtask(&["records"]).stdout),
        written,
        "write it anew: cargo xtask records > docs/records.md"
    );
}

#[test]
#[cfg(feature = "frames")]
fn a_run_is_exported_whole() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().to_str().unwrap();
    let output = xtask(&["export", "quickstart", "--out", to]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "histories: 2\nretrievals: 84\n");
    let csv = fs::read_to_string(folder.path().join("retrievals.csv")).unwrap();
    assert_eq!(csv.lines().count(), 85);
    assert!(csv.starts_with("benchmark,source,conversation,question,phase,kind,gold_messages"));
    assert!(folder.path().join("retrievals.parquet").exists());
    assert_eq!(
        xtask(&["export", "no such run", "--out", to]).status.code(),
        Some(3)
    );
}

#[test]
fn wrong_names_are_wrong_usage() {
    let code = |arguments: &[&str]| xtask(arguments).status.code();
    assert_eq!(code(&["diagnose", "nothing", "quickstart"]), Some(2));
    assert_eq!(code(&["diagnose", "evidence"]), Some(2));
    assert_eq!(code(&["diagnose", "evidence", "no such run"]), Some(3));
    assert_eq!(code(&["plan", "report", "no such plan"]), Some(3));
}

/// Nano-Memory's Figure 3c counts 29,705 turns in gold sessions: pairs of messages, over all five
/// categories, of references that are one message and nothing else. Of its 18,360 turns without
/// overlap no common definition of a token is given; two of ours stand on either side of it.
#[test]
fn the_turns_of_gold_sessions_are_as_many_as_published() {
    let shared = std::env::var_os("RAWRAG_SHARED").map(PathBuf::from);
    let file = shared.map(|shared| shared.join("data/locomo/locomo10.json"));
    let Some(file) = file.filter(|file| file.exists()) else {
        println!("skipped: RAWRAG_SHARED names no folder with LoCoMo");
        return;
    };
    let output = xtask(&["density", file.to_str().unwrap(), "--format", "csv"]);
    let printed = text(&output.stdout);
    let rows: Vec<&str> = printed
        .lines()
        .filter(|line| line.contains("lures"))
        .collect();
    assert!(
        rows[0].contains(",words,29705,16983,") && rows[1].contains(",stems,29705,20455,"),
        "{printed}"
    );
}
