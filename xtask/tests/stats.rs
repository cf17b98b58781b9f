//! `stats` and `validity` as a reviewer calls them.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test whose input cannot be made has failed; a skipped one says why"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn xtask(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(arguments)
        .output()
        .unwrap()
}

#[track_caller]
fn refused(arguments: &[&str], status: i32, told: &str) {
    let output = xtask(arguments);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(status), "{error}");
    assert!(error.contains(told), "{error}");
    assert!(output.stdout.is_empty());
}

/// Path in the shared data folder: `$RAWRAG_SHARED`, or `shared` beside the workspace.
fn shared(file: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    let path = std::env::var_os("RAWRAG_SHARED")
        .map_or(beside, PathBuf::from)
        .join(file);
    if !path.exists() {
        println!("skipped: {} is missing", path.display());
        return None;
    }
    Some(path)
}

fn close(found: &Value, expected: &Value) {
    let (found, expected) = (found.as_f64().unwrap(), expected.as_f64().unwrap());
    assert!(
        (found - expected).abs() <= 1e-9 * expected.abs(),
        "{found} is not {expected}"
    );
}

/// Every pair's figures from statsmodels and scipy; the tail of Q, which is 0 there, from mpmath.
#[test]
fn ten_published_systems_end_to_end() {
    let (Some(labels), Some(reference)) = (
        shared("data/locomo/labels_10_systems.csv"),
        shared("data/locomo/labels_10_systems.reference.json"),
    ) else {
        return;
    };
    let labels = labels.to_str().unwrap();
    let output = xtask(&[
        "stats",
        labels,
        "--unit",
        "sample_id,qa_index",
        "--cluster",
        "sample_id",
        "--replicates",
        "200",
        "--format",
        "json",
    ]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let reference = std::fs::read(reference).unwrap();
    let reference: Value = serde_json::from_slice(&reference).unwrap();
    let expected = &reference["locomo_core_all"];
    assert_eq!(
        found["columns"]["passed_over"],
        serde_json::json!(["category"])
    );
    close(&found["cochran_q"]["statistic"], &2367.908978091738.into());
    close(&found["cochran_q"]["log10_p"], &(-504.4925884686431).into());
    for system in found["systems"].as_array().unwrap() {
        let name = system["system"].as_str().unwrap();
        assert_eq!(system["correct"], expected["correct"][name]);
    }
    let pairs = found["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), 45);
    for wanted in expected["pairwise_mcnemar"].as_array().unwrap() {
        let of = |a: &str, b: &str| {
            let named = |p: &&Value| p["a"] == wanted[a] && p["b"] == wanted[b];
            pairs.iter().find(named)
        };
        let straight = of("a", "b");
        let pair = straight.or_else(|| of("b", "a")).unwrap();
        let (a_only, b_only) = match straight {
            Some(_) => ("a_only", "b_only"),
            None => ("b_only", "a_only"),
        };
        assert_eq!(pair["both"], wanted["both"]);
        assert_eq!(pair[a_only], wanted["a_only"]);
        assert_eq!(pair[b_only], wanted["b_only"]);
        close(&pair["p_exact"], &wanted["p_exact"]);
        close(&pair["p_holm"], &wanted["p_exact_holm"]);
        close(&pair["p_bh"], &wanted["p_exact_fdr_bh"]);
    }
}

#[test]
fn exit_codes_tell_usage_from_input() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let good = file("good.csv", "q,a,b\n1,1,0\n2,0,0\n3,1,1\n");
    let bad = file("bad.csv", "q,a,b\n1,1,0\n2,1,0\n3,7,1\n");
    let torn = file("torn.csv", "q,a,b\n1,1,\n2,0,0\n");
    let unit = ["--unit", "q"];
    let with = |file: &str, more: &[&str], status, told| {
        let arguments: Vec<&str> = ["stats", file].iter().chain(more).copied().collect();
        refused(&arguments, status, told);
    };
    with(&bad, &unit, 3, "bad.csv: line 4: \"7\" of system a");
    with(&torn, &unit, 3, "torn.csv: system b, unit 1: no score");
    with("no.csv", &unit, 3, "no.csv: No such file");
    with(
        &good,
        &["--unit", "id"],
        2,
        "no column id; the columns are q, a, b",
    );
    with(
        &good,
        &["--unit", "q", "--systems", "a,c"],
        2,
        "no system c",
    );
    with(
        &good,
        &["--unit", "q", "--margin", "5"],
        2,
        "5 points or percent are 0.05",
    );
    with(
        &good,
        &["--unit", "q", "--replicates", "0"],
        2,
        "replicates",
    );
    with(&good, &[], 2, "--unit");
    refused(
        &["stats", "mcnemar", "3", "4", "--units", "6"],
        2,
        "more than 6 units",
    );
    let dropped = xtask(&["stats", &torn, "--unit", "q", "--missing", "drop"]);
    assert!(dropped.status.success());
    let typed = xtask(&["stats", "mcnemar", "3", "4", "--format", "csv"]);
    assert!(typed.stdout.starts_with(b"a_only,b_only,p_exact"));
}

#[test]
fn validity_writes_both_files() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("new");
    let to = to.to_str().unwrap();
    let output = xtask(&[
        "validity",
        "--out",
        to,
        "--samples",
        "2",
        "--replicates",
        "20",
    ]);
    assert!(output.status.success());
    let csv = std::fs::read_to_string(Path::new(to).join("behaviour.csv")).unwrap();
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/validity/behaviour.csv");
    let committed = std::fs::read_to_string(committed).unwrap();
    assert_eq!(csv.lines().count(), committed.lines().count());
    assert_eq!(csv.lines().next(), committed.lines().next());
    assert_eq!(std::fs::read_dir(to).unwrap().count(), 2);
}
