//! Statistics that the selection paper (arXiv 2609.34227) prints with the counts they follow from.

#![expect(clippy::unwrap_used, reason = "a test's own helpers fail the test")]

use rawrag_statistics::{
    Adjustment, Contributions, IntervalMethod, NonInferiority, PValue, PairCounts, PairedMethod,
    Population, Replication, Scheme, Score, Scores, adjust, gap_closed, matched_setting,
    noninferiority,
};

fn counts(units: u64, a_only: u64, b_only: u64) -> PairCounts {
    PairCounts {
        a_only,
        b_only,
        both: units - a_only - b_only,
        neither: 0,
    }
}

fn wald(counts: PairCounts) -> NonInferiority {
    noninferiority(&counts, 0.05, 0.05, PairedMethod::Wald).unwrap()
}

/// To as many digits as the paper prints.
#[track_caller]
fn prints(p: PValue, published: &str) {
    let value = p.value();
    let shown = if published.contains('e') {
        let digits = published.split('e').next().unwrap().len().saturating_sub(2);
        format!("{value:.digits$e}")
    } else {
        format!("{value:.2}")
    };
    assert_eq!(shown, published);
}

/// Section 5.2, tests S1 to S7: exact McNemar, S4 non-inferiority, Holm over the seven.
#[test]
fn secondary_tests_and_their_holm_values() {
    let raw = [
        counts(778, 152, 17).exact(),
        counts(778, 98, 48).exact(),
        counts(778, 134, 66).exact(),
        wald(counts(778, 28, 31)).p,
        counts(30, 4, 4).exact(),
        counts(70, 7, 5).exact(),
        counts(470, 61, 18).exact(),
    ];
    let published = [
        ("2.7e-28", "1.9e-27"),
        ("4.3e-5", "1.3e-4"),
        ("1.7e-6", "7.6e-6"),
        ("1.5e-6", "7.6e-6"),
        ("1.00", "1.00"),
        ("0.77", "1.00"),
        ("1.3e-6", "7.6e-6"),
    ];
    for ((p, holm), (expected, expected_holm)) in raw
        .iter()
        .zip(adjust(&raw, Adjustment::Holm))
        .zip(published)
    {
        prints(*p, expected);
        prints(holm, expected_holm);
    }
}

/// Section 5.1 and Appendix C: H1 under the judge and both human gradings, the ungraded question
/// kept (a) or dropped (b). In points: difference, one-sided bound, two-sided interval.
#[test]
fn primary_test_under_every_grading() {
    let rows = [
        (counts(778, 69, 73), "-0.5 -3.0 -3.5 2.5"),
        (counts(778, 47, 60), "-1.7 -3.9 -4.3 0.9"),
        (counts(777, 47, 59), "-1.5 -3.7 -4.1 1.1"),
        (counts(778, 41, 61), "-2.6 -4.7 -5.1 -0.0"),
        (counts(777, 41, 60), "-2.4 -4.6 -5.0 0.1"),
    ];
    for (counts, published) in rows {
        let test = wald(counts);
        let values = [
            test.difference,
            test.lower_bound,
            test.interval.lower,
            test.interval.upper,
        ];
        let shown: Vec<String> = values.iter().map(|v| format!("{:.1}", 100.0 * v)).collect();
        assert_eq!(shown.join(" "), published);
        assert!(test.non_inferior);
    }
    prints(wald(counts(778, 69, 73)).p, "1.7e-3");
}

/// Section 5.1: the conversation bootstrap puts the fifth percentile of the H1 difference at -2.3
/// points. Appendix A gives each conversation's size and both accuracies, hence whole counts.
#[test]
fn conversation_bootstrap_of_the_primary_test() {
    let mut contributions = Contributions::new(3);
    for (size, selected, extracted) in [
        (123.0, 0.797, 0.772),
        (150.0, 0.767, 0.807),
        (191.0, 0.785, 0.785),
        (156.0, 0.737, 0.763),
        (158.0, 0.766, 0.747),
    ] {
        let correct = |rate: f64| f64::round(size * rate);
        contributions
            .push(&[correct(selected), correct(extracted), size])
            .unwrap();
    }
    let population = Population::new(&contributions, Scheme::Units).unwrap();
    let scores = Scores::all_pairs(vec![Score::ratio(0, 2), Score::ratio(1, 2)]);
    let replication = Replication {
        replicates: 50_000,
        seed: 1,
    };
    let report = scores
        .estimate(&population, replication, IntervalMethod::Percentile, 0.9)
        .unwrap();
    let contrast = &report.contrasts[0];
    assert!((contrast.difference.unwrap() + 4.0 / 778.0).abs() < 1e-12);
    assert_eq!(
        format!("{:.1}", 100.0 * contrast.interval.unwrap().lower),
        "-2.3"
    );
}

/// Sections 5.1 and 5.3: Turns + Jev reads 265 tokens at k = 6, closest to engram v2's 251, and
/// its selection closes 94% of the gap between cosine order and extraction at that budget.
#[test]
fn matched_context_and_the_gap_closed() {
    // Tokens at k = 3, 6 and 20 are printed; the settings between them are not.
    assert_eq!(matched_setting(&[139.0, 265.0, 496.0], 251.0), Ok(2));
    let rate = |correct: f64| correct / 778.0;
    let closed = gap_closed(rate(534.0), rate(599.0), rate(603.0)).unwrap();
    assert_eq!(format!("{:.0}%", 100.0 * closed), "94%");
}
