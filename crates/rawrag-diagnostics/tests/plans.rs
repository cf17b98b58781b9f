//! Registered plans on the selection paper's published counts, and what is refused.
#![expect(
    clippy::unwrap_used,
    reason = "a test whose input cannot be made has failed"
)]

use std::path::PathBuf;

use rawrag_diagnostics::Value;
use rawrag_diagnostics::plan::{Counts, Plan, read_counts};

fn plans() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../experiments/plans")
}

fn selection() -> String {
    std::fs::read_to_string(plans().join("selection.toml")).unwrap()
}

fn published() -> Vec<Counts> {
    read_counts(&plans().join("selection.counts.csv")).unwrap()
}

/// 003, sections 5.1 and 5.2: -0.5 with a bound of -3.0 and p = 0.0017; Holm p-values of the seven
/// secondary tests; S5 and S6 are not rejected.
#[test]
fn the_selection_papers_tests_come_out_as_published() {
    let plan = Plan::parse(&selection()).unwrap();
    let report = plan.report(&published(), None).unwrap();
    let rows = &report.tables[0].rows;
    let shown =
        |row: usize, column: usize| rows[row][column].shown(report.tables[0].columns[column].unit);
    assert_eq!(
        [shown(0, 8), shown(0, 9), shown(0, 11)],
        ["-0.51", "-3.03", "0.0017"]
    );
    let adjusted: Vec<String> = (1..8).map(|row| shown(row, 12)).collect();
    assert_eq!(
        adjusted,
        [
            "1.9e-27", "0.0001", "7.6e-6", "7.6e-6", "1.0000", "1.0000", "7.6e-6"
        ]
    );
    let outcomes: Vec<String> = (0..8).map(|row| shown(row, 13)).collect();
    let (yes, no) = ("shown", "not shown");
    assert_eq!(outcomes, [yes, yes, yes, yes, yes, no, no, yes]);
    assert_eq!(
        report.tables[1].rows.len(),
        1,
        "what was not registered is exploratory"
    );
    assert_eq!(
        report.tables[1].rows[0][7].shown(rawrag_diagnostics::Unit::P),
        "1.6e-20"
    );
    insta::assert_snapshot!(report.notes.join("\n"));
}

/// Layout, comments and deviations do not bind; a margin does.
#[test]
fn a_digest_is_of_what_binds() {
    let text = selection();
    let digest = |text: &str| Plan::parse(text).unwrap().digest();
    let frozen = digest(&text);
    assert_eq!(frozen, digest(&format!("# read again\n{text}")));
    let later =
        "\n[[deviations]]\ndate = \"2026-12-01\"\nchange = \"a\"\nreason = \"b\"\neffect = \"c\"\n";
    assert_eq!(frozen, digest(&format!("{text}{later}")));
    assert_ne!(
        frozen,
        digest(&text.replacen("margin = 0.05", "margin = 0.06", 1))
    );
    assert_ne!(
        frozen,
        digest(&text.replacen("was non-inferior", "is non-inferior", 1))
    );
}

#[test]
fn what_cannot_be_carried_out_is_refused_and_named() {
    let text = selection();
    let refused = |from: &str, to: &str| {
        Plan::parse(&text.replacen(from, to, 1))
            .unwrap_err()
            .to_string()
    };
    let messages = [
        refused("margin = 0.05\n", ""),
        refused("margin = 0.05", "margin = 5"),
        refused("reference = \"engram\"", "reference = \"engramm\""),
        refused("{difference} points", "{diff} points"),
        refused("id = \"S2\"", "id = \"S1\""),
        refused("alpha = 0.05\nbudget", "budget"),
        refused("date = \"2026-09-26\"", "date = \"26 September\""),
    ];
    insta::assert_snapshot!(messages.join("\n"));
    assert!(refused("[primary]", "[primary]\nlevel = 1").contains("unknown field `level`"));
}

/// Budgets that are further apart than registered make another test of it.
#[test]
fn unmatched_budgets_are_said() {
    let plan = Plan::parse(&selection()).unwrap();
    let mut counts = published();
    counts[0].tokens = Some((500.0, 251.0));
    let report = plan.report(&counts, None).unwrap();
    assert!(
        report
            .notes
            .iter()
            .any(|note| note.contains("NOT matched: 500 tokens against 251"))
    );
    counts.remove(0);
    let error = plan.report(&counts, None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no counts for H1, which compares jev with engram"
    );
    assert_eq!(Value::Flag(true).written(), "true");
}
