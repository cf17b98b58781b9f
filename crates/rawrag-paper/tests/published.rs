//! The definitions, figures and claims of this repository.

#![expect(
    clippy::unwrap_used,
    reason = "a test whose input cannot be read has failed"
)]

use std::path::PathBuf;

use rawrag_paper::claims::{self, Statements, Verdict};
use rawrag_paper::definition::{self, What};
use rawrag_paper::figure::{Figure, Numbers};
use rawrag_paper::{Runs, Table};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn tables() -> Vec<Table> {
    let mut runs = Runs::new(&root().join("no runs"));
    definition::find(&root().join("paper-tables"), What::Table)
        .unwrap()
        .iter()
        .map(|place| Table::evaluate(&place.load().unwrap(), &mut runs).unwrap())
        .collect()
}

#[test]
fn every_table_of_the_papers_is_defined() {
    let tables = tables();
    for (paper, last) in [("raw-rag", 34), ("nano-memory", 11)] {
        for number in 1..=last {
            let found = tables
                .iter()
                .any(|t| t.paper == paper && t.table == number.to_string());
            assert!(found, "{paper}:{number}");
        }
    }
    for name in [
        "1",
        "S-tests",
        "3",
        "4",
        "5",
        "6",
        "A",
        "C-agreement",
        "C-H1",
        "D",
        "E",
    ] {
        assert!(
            tables
                .iter()
                .any(|t| t.paper == "selection" && t.table == name),
            "{name}"
        );
    }
}

/// The bold numbers of two tables of Nano-Memory, which the text extraction lost, follow from
/// their rule; the paper's prose names both.
#[test]
fn bold_cells_follow_from_their_rule() {
    let best = |table: &str, column: &str| {
        let tables = tables();
        let table = tables
            .iter()
            .find(|t| t.paper == "nano-memory" && t.table == table)
            .unwrap();
        let at = table.columns.iter().position(|c| c.id == column).unwrap();
        let best = table.rows.iter().filter(|row| row.cells[at].best_published);
        best.map(|row| row.id.clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        best("7", "recall@3"),
        ["locomo-nano", "lme-s-memgas", "lme-m-nano"]
    );
    assert_eq!(best("3", "total"), ["nano"]);
}

#[test]
fn no_claim_has_an_unexpected_verdict_and_findings_are_current() {
    let judged = Statements::read(&root().join("paper-tables"))
        .unwrap()
        .judge()
        .unwrap();
    assert!(judged.len() >= 250);
    let unexpected: Vec<String> = judged
        .iter()
        .filter(|claim| !claim.is_expected())
        .map(|claim| format!("{}:{} {}", claim.paper, claim.id, claim.verdict.name()))
        .collect();
    assert!(unexpected.is_empty(), "{unexpected:#?}");
    let differ = judged
        .iter()
        .filter(|c| matches!(c.verdict, Verdict::Differs { .. }))
        .count();
    assert!(differ > 0);
    let written = std::fs::read_to_string(root().join("docs/findings.md")).unwrap();
    assert!(
        written == claims::findings(&judged),
        "docs/findings.md is out of date: cargo xtask verify --findings docs/findings.md"
    );
}

/// Same bytes every run, and no text that reaches over an edge, taking a letter for 0.55 em.
#[test]
fn figures_are_the_same_every_time_and_clip_no_text() {
    let statements = Statements::read(&root().join("paper-tables")).unwrap();
    let tables = tables();
    let numbers = Numbers {
        statements: &statements,
        tables: &tables,
    };
    let mut runs = Runs::new(&root().join("no runs"));
    for place in definition::find(&root().join("paper-tables"), What::Figure).unwrap() {
        let figure = Figure::load(&place).unwrap();
        let svg = figure.draw(&numbers, &mut runs).unwrap().svg;
        let again = figure.draw(&numbers, &mut runs).unwrap().svg;
        assert!(svg == again, "{place}");
        let attribute = |text: &str, name: &str| -> Option<String> {
            let start = text.split_once(&format!(" {name}=\""))?.1;
            Some(start.split_once('"')?.0.to_owned())
        };
        for text in svg
            .split("<text")
            .skip(1)
            .filter(|text| attribute(text, "transform").is_none())
        {
            let words = text
                .split_once('>')
                .unwrap()
                .1
                .split('<')
                .next()
                .unwrap()
                .trim();
            let number = |name| attribute(text, name).unwrap().parse::<f64>().unwrap();
            let wide = words.chars().count() as f64 * number("font-size") * 0.55;
            let (left, right) = match attribute(text, "text-anchor").as_deref() {
                Some("middle") => (number("x") - wide / 2.0, number("x") + wide / 2.0),
                Some("end") => (number("x") - wide, number("x")),
                _ => (number("x"), number("x") + wide),
            };
            assert!(
                left >= 0.0 && right <= 640.0,
                "{place}: `{words}` from {left} to {right}"
            );
        }
    }
}
