//! What the diagnostics say of the committed runs: the findings of docs/diagnostics-retrieval.md.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test whose input cannot be made has failed"
)]

use std::fmt::Write;
use std::path::PathBuf;

use rawrag_diagnostics::{Errata, Input, Outputs, Report, Settings, diagnostic};
use rawrag_records::RecordError;
use rawrag_statistics::Replication;

/// The runs without the adversarial questions, which have no answer to find; nothing, with a
/// reason, where they are packed and this build cannot read that. `RAWRAG_RUNS` names another
/// folder of the same runs.
fn scored(names: &[&str]) -> Option<Vec<Outputs>> {
    let committed = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../data/runs");
    let folder = std::env::var_os("RAWRAG_RUNS").map_or_else(committed, PathBuf::from);
    let mut runs = Vec::new();
    for name in names {
        match Outputs::read(&folder.join(name)) {
            Ok(mut run) => {
                run.questions.retain(|q| q.kind != "adversarial");
                runs.push(run);
            }
            Err(RecordError::Packed(path)) => {
                eprintln!(
                    "skipped: {} is packed; test with --features frames",
                    path.display()
                );
                return None;
            }
            Err(error) => panic!("{error}"),
        }
    }
    Some(runs)
}

fn report(name: &str, runs: &[Outputs], settings: Settings) -> Report {
    let input = Input::new(&runs.iter().collect::<Vec<_>>(), settings);
    diagnostic(name).unwrap().report(&input).unwrap()
}

fn quick() -> Settings {
    Settings {
        replication: Replication {
            replicates: 2_000,
            seed: 0,
        },
        ..Settings::default()
    }
}

/// The tables as a reader sees them, at most `rows` rows of each.
fn shown(report: &Report, rows: usize) -> String {
    let mut text = String::new();
    for table in &report.tables {
        let names: Vec<&str> = table.columns.iter().map(|c| c.name).collect();
        writeln!(text, "{}\n{}", table.name, names.join(" | ")).unwrap();
        for row in table.rows.iter().take(rows) {
            let cells = row.iter().zip(&table.columns);
            let cells: Vec<String> = cells.map(|(v, c)| v.shown(c.unit)).collect();
            writeln!(text, "{}", cells.join(" | ")).unwrap();
        }
        if table.rows.len() > rows {
            writeln!(text, ".. {} rows", table.rows.len()).unwrap();
        }
        text.push('\n');
    }
    for note in &report.notes {
        writeln!(text, "{note}").unwrap();
    }
    text
}

#[test]
fn evidence_of_the_windows_and_messages() {
    let Some(runs) = scored(&[
        "locomo-minilm-windows",
        "locomo-minilm-late-interaction-windows",
        "locomo-minilm-late-interaction-messages",
    ]) else {
        return;
    };
    insta::assert_snapshot!(shown(&report("evidence", &runs, Settings::default()), 40));
}

#[test]
fn first_points_of_failure() {
    let Some(runs) = scored(&[
        "locomo-minilm-late-interaction-windows",
        "locomo-minilm-turns-cosine",
        "imported-mirix",
    ]) else {
        return;
    };
    insta::assert_snapshot!(shown(&report("failure", &runs, Settings::default()), 15));
}

#[test]
fn depths_and_parts() {
    let Some(runs) = scored(&[
        "locomo-minilm-late-interaction-windows",
        "locomo-minilm-windows",
    ]) else {
        return;
    };
    insta::assert_snapshot!(shown(&report("depth", &runs, quick()), 30));
}

#[test]
fn sessions_of_nano_memory() {
    let Some(runs) = scored(&[
        "locomo-minilm-tir",
        "locomo-minilm-turn-mean",
        "locomo-minilm-session",
    ]) else {
        return;
    };
    insta::assert_snapshot!(shown(&report("nano", &runs, Settings::default()), 40));
}

#[test]
fn rankings_of_the_imported_systems() {
    let Some(runs) = scored(&[
        "imported-evermemos",
        "imported-full-context-gpt-4.1-mini-cot",
        "imported-memobase-0710",
        "imported-mirix",
        "imported-mirix-langmem",
        "imported-mirix-mem0",
        "imported-mirix-rag-500",
        "imported-mirix-zep",
        "imported-zep",
    ]) else {
        return;
    };
    let list = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../rawrag-corpus/errata/locomo.tsv");
    let settings = Settings {
        errata: Errata::read(&list).unwrap(),
        ..quick()
    };
    insta::assert_snapshot!(shown(&report("ranking", &runs, settings), 40));
}

#[test]
fn selection_by_late_interaction() {
    let Some(runs) = scored(&[
        "locomo-minilm-turns-cosine",
        "locomo-minilm-late-interaction-messages",
    ]) else {
        return;
    };
    insta::assert_snapshot!(shown(&report("selection", &runs, quick()), 40));
}

#[test]
fn times_of_indexing_and_searching() {
    let Some(runs) = scored(&[
        "locomo-minilm-late-interaction-messages",
        "locomo-minilm-windows",
    ]) else {
        return;
    };
    insta::assert_snapshot!(shown(&report("cost", &runs, Settings::default()), 40));
}
