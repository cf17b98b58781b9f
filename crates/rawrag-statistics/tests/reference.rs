//! Numbers of other implementations: scipy, statsmodels, scikit-learn, krippendorff, mpmath
//! (`fixtures/make_reference.py`, versions in `fixtures/reference.json`), and statsmodels on the
//! published LoCoMo labels of ten systems (shared data, skipped where missing).

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test's own helpers fail the test"
)]

use std::path::PathBuf;

use rawrag_statistics::agreement::{self, Resampling};
use rawrag_statistics::power::mcnemar_power;
use rawrag_statistics::{
    Adjustment, CochranQ, DifferenceDistribution, Missing, Outcomes, PValue, PairCounts,
    PairedMethod, Replication, Row, Sample, acceleration, adjust, noninferiority, paired_interval,
    report, sign_flip,
};
use serde_json::Value;

const REPLICATION: Replication = Replication {
    replicates: 200,
    seed: 1,
};

fn reference() -> Value {
    serde_json::from_str(include_str!("fixtures/reference.json")).unwrap()
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(number).collect()
}

fn table(value: &Value) -> PairCounts {
    let cells: Vec<u64> = value
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v.as_u64().unwrap())
        .collect();
    PairCounts {
        both: cells[0],
        a_only: cells[1],
        b_only: cells[2],
        neither: cells[3],
    }
}

#[track_caller]
fn close(found: f64, expected: f64, relative: f64) {
    let scale = expected.abs().max(1e-300);
    assert!(
        (found - expected).abs() <= relative * scale,
        "found {found}, expected {expected}"
    );
}

#[test]
fn paired_tests_and_intervals() {
    for row in reference()["paired"].as_array().unwrap() {
        let counts = table(&row["table"]);
        // The logarithm may be 0, so it is compared as a difference: relative in p.
        assert!(
            (counts.exact().log10() - number(&row["log10_exact"])).abs() < 1e-10,
            "{row}"
        );
        assert!(
            (counts.mid_p().log10() - number(&row["log10_mid"])).abs() < 1e-10,
            "{row}"
        );
        let statsmodels = number(&row["p_exact_statsmodels"]);
        if statsmodels > 0.0 {
            close(counts.exact().value(), statsmodels, 1e-9);
        }
        for (name, found) in [
            ("chi2", counts.chi_squared()),
            ("chi2_corrected", counts.chi_squared_corrected()),
        ] {
            if let Some(expected) = row.get(name).map(numbers) {
                let found = found.unwrap();
                close(found.statistic, expected[0], 1e-12);
                if expected[1] > 0.0 {
                    close(found.p.value(), expected[1], 1e-9);
                }
            }
        }
        let newcombe = paired_interval(&counts, 0.95, PairedMethod::Newcombe).unwrap();
        let expected = numbers(&row["newcombe"]);
        assert!(
            (newcombe.lower - expected[0]).abs() < 1e-9,
            "{row} {newcombe:?}"
        );
        assert!(
            (newcombe.upper - expected[1]).abs() < 1e-9,
            "{row} {newcombe:?}"
        );
        if let Some(expected) = row.get("tango").map(numbers) {
            // The reference maximises the likelihood numerically, to about 1e-8.
            let tango = paired_interval(&counts, 0.95, PairedMethod::Tango).unwrap();
            assert!((tango.lower - expected[0]).abs() < 1e-6, "{row} {tango:?}");
            assert!((tango.upper - expected[1]).abs() < 1e-6, "{row} {tango:?}");
            let test = noninferiority(&counts, 0.05, 0.05, PairedMethod::Tango).unwrap();
            close(test.p.value(), number(&row["tango_p_5_points"]), 1e-5);
        }
    }
}

#[test]
fn families() {
    for row in reference()["families"].as_array().unwrap() {
        let raw: Vec<_> = numbers(&row["raw"])
            .into_iter()
            .map(|p| PValue::new(p).unwrap())
            .collect();
        for (name, adjustment) in [
            ("bonferroni", Adjustment::Bonferroni),
            ("holm", Adjustment::Holm),
            ("hochberg", Adjustment::Hochberg),
            ("benjamini_hochberg", Adjustment::BenjaminiHochberg),
        ] {
            let expected = numbers(&row[name]);
            for (found, expected) in adjust(&raw, adjustment).iter().zip(expected) {
                close(found.value(), expected, 1e-12);
            }
        }
    }
}

#[test]
fn cochran() {
    for row in reference()["cochran"].as_array().unwrap() {
        let scores: Vec<Vec<f64>> = row["scores"]
            .as_array()
            .unwrap()
            .iter()
            .map(numbers)
            .collect();
        let test = CochranQ::new(&scores).unwrap().test();
        close(test.statistic, number(&row["q"]), 1e-12);
        close(test.p.value(), number(&row["p"]), 1e-9);
    }
}

#[test]
fn sign_flips() {
    for row in reference()["sign_flip"].as_array().unwrap() {
        let flip = sign_flip(&numbers(&row["differences"]), REPLICATION);
        close(flip.p.value(), number(&row["p"]), 1e-12);
    }
}

/// The intervals of scipy from scipy's own replicates.
#[test]
fn bootstrap_intervals() {
    for row in reference()["bootstrap"].as_array().unwrap() {
        let data = numbers(&row["data"]);
        let n = data.len() as f64;
        let sum: f64 = data.iter().sum();
        let left_out: Vec<f64> = data.iter().map(|x| (sum - x) / (n - 1.0)).collect();
        let sample = Sample::new(numbers(&row["replicates"]).into_iter().map(Some));
        let estimate = sum / n;
        for (name, found) in [
            ("percentile", sample.percentile(0.95)),
            ("basic", sample.basic(estimate, 0.95)),
            (
                "BCa",
                sample.bca(
                    estimate,
                    acceleration(std::slice::from_ref(&left_out)),
                    0.95,
                ),
            ),
        ] {
            let expected = numbers(&row[name]);
            close(found.unwrap().lower, expected[0], 1e-9);
            close(found.unwrap().upper, expected[1], 1e-9);
        }
    }
}

#[test]
fn exact_bootstrap_distributions() {
    for row in reference()["exact_bootstrap"].as_array().unwrap() {
        let strata: Vec<_> = row["strata"]
            .as_array()
            .unwrap()
            .iter()
            .map(table)
            .collect();
        let units: u64 = strata.iter().map(PairCounts::units).sum();
        let exact = DifferenceDistribution::new(&strata).unwrap().summary(0.95);
        close(
            exact.interval.lower * units as f64,
            number(&row["lower"]),
            1e-12,
        );
        close(
            exact.interval.upper * units as f64,
            number(&row["upper"]),
            1e-12,
        );
        // All units discordant on one side leave nothing on the other: the limit is 0, shown as a
        // bound.
        let p = number(&row["p"]).max(PValue::SMALLEST_SHOWN);
        close(exact.p.value(), p, 1e-9);
    }
}

#[test]
fn agreement_coefficients() {
    let row = &reference()["agreement"];
    let items = |value: &Value| -> Vec<Vec<usize>> {
        let item = |v: &Value| numbers(v).into_iter().map(|x| x as usize).collect();
        value.as_array().unwrap().iter().map(item).collect()
    };
    let resampling = Resampling {
        clusters: None,
        replication: REPLICATION,
        confidence: 0.95,
    };
    let panel = items(&row["panel"]);
    let rater = |r: usize| -> Vec<usize> { panel.iter().map(|item| item[r]).collect() };
    let cohen = agreement::cohen_kappa(&rater(0), &rater(1), resampling).unwrap();
    close(cohen.value.unwrap(), number(&row["cohen"]), 1e-12);
    assert!(cohen.interval.unwrap().contains(cohen.value.unwrap()));
    let fleiss = agreement::fleiss_kappa(&panel, resampling).unwrap();
    close(fleiss.value.unwrap(), number(&row["fleiss"]), 1e-12);
    let alpha = agreement::krippendorff_alpha(&items(&row["holes"]), resampling).unwrap();
    close(alpha.value.unwrap(), number(&row["krippendorff"]), 1e-12);
}

#[test]
fn exact_power() {
    for row in reference()["mcnemar_power"].as_array().unwrap() {
        let row = numbers(row);
        close(
            mcnemar_power(row[0] as u64, row[1], row[2], row[3]).unwrap(),
            row[4],
            1e-9,
        );
    }
}

/// Path in the shared data folder: `$RAWRAG_SHARED`, or `shared` beside the workspace.
fn shared(file: &str) -> Option<PathBuf> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let path = std::env::var_os("RAWRAG_SHARED")
        .map_or(beside, PathBuf::from)
        .join(file);
    if !path.exists() {
        println!("skipped: {} is missing", path.display());
        return None;
    }
    Some(path)
}

/// The published labels, of one category or of all.
fn labels(csv: &str, category: Option<&str>) -> Outcomes {
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let kept: Vec<_> = lines
        .filter(|cells| category.is_none_or(|c| cells[2] == c))
        .collect();
    let keys: Vec<String> = kept.iter().map(|c| format!("{}/{}", c[0], c[1])).collect();
    let rows = kept.iter().zip(&keys).flat_map(|(cells, key)| {
        header.iter().zip(cells).skip(3).map(|(system, label)| Row {
            system,
            unit: key,
            score: Some(label.parse().unwrap()),
            stratum: None,
            cluster: Some(cells[0]),
        })
    });
    Outcomes::collect(rows, None, Missing::Refuse).unwrap()
}

#[test]
fn ten_systems_on_locomo() {
    let Some(csv) = shared("data/locomo/labels_10_systems.csv") else {
        return;
    };
    let Some(json) = shared("data/locomo/labels_10_systems.reference.json") else {
        return;
    };
    let csv = std::fs::read_to_string(csv).unwrap();
    let json: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    let options = report::Options {
        alpha: 0.05,
        replication: REPLICATION,
        margin: None,
        unit: "question".to_owned(),
        cluster: "conversation".to_owned(),
    };
    for (name, category) in [
        ("locomo_core_all", None),
        ("locomo_core_cat1", Some("1")),
        ("locomo_core_cat2", Some("2")),
    ] {
        let expected = &json[name];
        let outcomes = labels(&csv, category);
        let report = report::report(&outcomes, &options).unwrap();
        let q = report.cochran_q.unwrap();
        close(q.test.statistic, number(&expected["cochran_q"]["Q"]), 1e-9);
        assert_eq!(q.test.degrees_of_freedom, 9);
        let p = number(&expected["cochran_q"]["p"]);
        if p > 0.0 {
            close(q.test.p.value(), p, 1e-9);
        }
        for system in &report.systems {
            assert_eq!(
                system.correct,
                Ok(expected["correct"][&system.system].as_u64().unwrap())
            );
        }
        let raw: Vec<_> = report
            .pairs
            .iter()
            .map(|pair| pair.p_exact.unwrap())
            .collect();
        let bonferroni = adjust(&raw, Adjustment::Bonferroni);
        let pairs = expected["pairwise_mcnemar"].as_array().unwrap();
        assert_eq!(pairs.len(), report.pairs.len());
        for wanted in pairs {
            let (at, swapped) = find(&report.pairs, wanted);
            let pair = &report.pairs[at];
            let counts = PairCounts {
                both: pair.both.unwrap(),
                a_only: pair.a_only.unwrap(),
                b_only: pair.b_only.unwrap(),
                neither: pair.neither.unwrap(),
            };
            let counts = if swapped { counts.swapped() } else { counts };
            for (field, found) in [
                ("both", counts.both),
                ("a_only", counts.a_only),
                ("b_only", counts.b_only),
                ("neither", counts.neither),
            ] {
                assert_eq!(wanted[field].as_u64().unwrap(), found, "{field}");
            }
            let (plain, corrected) = (
                counts.chi_squared().unwrap(),
                counts.chi_squared_corrected().unwrap(),
            );
            for (field, found) in [
                ("p_exact", pair.p_exact.unwrap().value()),
                ("chi2", plain.statistic),
                ("p_chi2", plain.p.value()),
                ("chi2_cc", corrected.statistic),
                ("p_chi2_cc", corrected.p.value()),
                ("p_exact_holm", pair.p_holm.value()),
                ("p_exact_fdr_bh", pair.p_bh.value()),
                ("p_exact_bonferroni", bonferroni[at].value()),
            ] {
                close(found, number(&wanted[field]), 1e-9);
            }
        }
    }
}

/// Where references print 0: Q = 2367.908978 on 9 degrees of freedom. Arbitrary precision
/// (mpmath) gives the tail.
#[test]
fn the_tail_of_q_does_not_underflow() {
    let rows = reference();
    let rows = rows["log10_chi_squared_tail"].as_array().unwrap();
    let expected = rows
        .iter()
        .map(numbers)
        .find(|row| row[1] > 8.5 && row[1] < 9.5)
        .unwrap()[2];
    let Some(csv) = shared("data/locomo/labels_10_systems.csv") else {
        return;
    };
    let outcomes = labels(&std::fs::read_to_string(csv).unwrap(), None);
    let test = CochranQ::new(outcomes.scores()).unwrap().test();
    close(test.statistic, 2367.908978, 1e-9);
    close(test.p.log10(), expected, 1e-9);
}

fn find(pairs: &[report::PairRow], wanted: &Value) -> (usize, bool) {
    let (a, b) = (wanted["a"].as_str().unwrap(), wanted["b"].as_str().unwrap());
    let same = pairs.iter().position(|p| p.a == a && p.b == b);
    let mirrored = || pairs.iter().position(|p| p.a == b && p.b == a).unwrap();
    same.map_or_else(|| (mirrored(), true), |at| (at, false))
}
