//! What recomputing a claim may say.

#![expect(
    clippy::unwrap_used,
    reason = "a test whose input cannot be made has failed"
)]

use std::fs;

use rawrag_paper::DefinitionError;
use rawrag_paper::claims::{self, Statements};

const TABLE: &str = r#"title = "t"
caption = "c"
source = "s"
layout = "static"
columns = [{ id = "x", label = "X" }, { id = "n", label = "N" }]
rows = [
  { id = "a", label = "A", published = [77.2, { count = 505, of = 4620 }] },
  { id = "b", label = "B", published = [59.9, { low = -1.5, high = 2.5 }] },
  { id = "c", label = "C", published = [{ missing = "torn" }, "words"] },
]
"#;

fn judge(claims: &str) -> Result<Vec<claims::Judged>, DefinitionError> {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("p")).unwrap();
    fs::write(folder.path().join("p/table-01.toml"), TABLE).unwrap();
    fs::write(folder.path().join("p/claims.toml"), claims).unwrap();
    Statements::read(folder.path())?.judge()
}

fn claim(formula: &str, rest: &str) -> String {
    format!(
        "[[claims]]\nid = \"i\"\nstated = \"s\"\nclaim = \"c\"\nformula = \"{formula}\"\n{rest}\n"
    )
}

#[test]
fn verdicts_tell_rounding_from_difference() {
    let verdict = |formula: &str, rest: &str| {
        let judged = judge(&claim(formula, rest)).unwrap();
        let mark = if judged[0].is_expected() {
            ""
        } else {
            "unexpectedly "
        };
        format!("{formula}: {mark}{}", judged[0].verdict.name())
    };
    insta::assert_snapshot!(
        [
            verdict("100 * (1 - [1/a/n.count] / [1/a/n.of])", "value = 89.07"),
            verdict("[1/a/x] - [1/b/x]", "value = 17.3"),
            verdict("[1/a/x] - [1/b/x]", "value = 17.4"),
            verdict("[1/a/x] - [1/b/x]", "value = 17.5"),
            verdict("[1/a/x] - [1/b/x]", "value = 17.5\nknown = \"printed so\""),
            verdict("[1/a/x] - [1/b/x]", "value = 17.3\nknown = \"no longer\""),
            verdict("[1/a/x] > max([1/*!a/x])", ""),
            verdict("[1/b/n.low] < 0 and [1/b/n.high] < 0", ""),
            verdict("[1/c/x] + 1", "value = 2"),
            verdict("3 + 0", "value = 4"),
        ]
        .join("\n")
    );
}

#[test]
fn a_wrong_claim_names_file_line_and_mend() {
    let wrong = |text: &str| {
        let error = judge(text).unwrap_err().to_string();
        error.split_once("claims.toml").unwrap().1.to_owned()
    };
    let needs = "[[claims]]\nid = \"i\"\nstated = \"s\"\nclaim = \"c\"\nneeds = \"n\"\n";
    insta::assert_snapshot!(
        [
            wrong(&claim("[1/d/x]", "value = 1")),
            wrong(&claim("[1/a/y]", "value = 1")),
            wrong(&claim("[2/a/x]", "value = 1")),
            wrong(&claim("[fact]", "value = 1")),
            wrong(&claim("[1/c/n]", "value = 1")),
            wrong(&claim("[1/a/x] +", "value = 1")),
            wrong(&claim("[1/a/x]", "")),
            wrong(&claim("[1/a/x] > 1", "value = 1")),
            wrong(&claim("[1/*/x]", "value = 1")),
            wrong(&format!("{needs}value = 1\n")),
            wrong(&format!("{needs}{needs}")),
            wrong(&needs.replace("stated", "state")),
        ]
        .join("\n")
    );
}
