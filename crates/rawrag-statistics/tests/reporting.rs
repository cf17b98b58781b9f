//! The report's fields, sentences and warnings on a small made-up comparison.

#![expect(clippy::unwrap_used, reason = "a test's own helpers fail the test")]

use rawrag_statistics::report::{Options, ReportError, report};
use rawrag_statistics::{Missing, Outcomes, Replication, Row};

fn options() -> Options {
    Options {
        alpha: 0.05,
        replication: Replication {
            replicates: 2_000,
            seed: 7,
        },
        margin: Some(0.05),
        unit: "question".to_owned(),
        cluster: "conversation".to_owned(),
    }
}

/// Three systems on 24 questions of four conversations; `plain` and `copy` agree throughout.
fn outcomes(score: impl Fn(usize, &str) -> f64) -> Outcomes {
    let keys: Vec<(String, String)> = (0..24)
        .map(|q| (format!("q{q:02}"), format!("conv-{}", q / 6)))
        .collect();
    let rows = keys.iter().enumerate().flat_map(|(q, (unit, cluster))| {
        let score = &score;
        ["strong", "plain", "copy"]
            .into_iter()
            .map(move |system| Row {
                system,
                unit,
                score: Some(score(q, system)),
                stratum: None,
                cluster: Some(cluster),
            })
    });
    Outcomes::collect(rows, None, Missing::Refuse).unwrap()
}

fn binary(question: usize, system: &str) -> f64 {
    let correct = match system {
        "strong" => !question.is_multiple_of(8),
        _ => question.is_multiple_of(2),
    };
    f64::from(u8::from(correct))
}

#[test]
fn sentences_and_warnings() {
    let report = report(&outcomes(binary), &options()).unwrap();
    let mut text = format!("{}\n", report.sentence);
    for pair in &report.pairs {
        text.push_str(&format!("{}\n", pair.sentence));
    }
    for warning in &report.warnings {
        text.push_str(&format!("{:?}: {warning}\n", warning.kind));
    }
    insta::assert_snapshot!(text);
}

/// The stable field names, in their order.
#[test]
fn a_pair_as_json() {
    let report = report(&outcomes(binary), &options()).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&report.pairs[0]).unwrap());
}

/// Scores between 0 and 1 have no McNemar test: those fields say why, and the family is over the
/// bootstrap sign test.
#[test]
fn fractional_scores_say_what_is_undefined() {
    let graded = |question: usize, system: &str| 0.5 * binary(question, system) + 0.25;
    let report = report(&outcomes(graded), &options()).unwrap();
    assert_eq!(report.family.over, "p_sign");
    let json = serde_json::to_value(&report).unwrap();
    let reason = serde_json::json!({ "undefined": "the scores are not all 0 or 1" });
    for field in [
        "both",
        "a_only",
        "p_exact",
        "p_mid",
        "log10_p_exact",
        "interval_exact",
    ] {
        assert_eq!(json["pairs"][0][field], reason, "{field}");
    }
    assert_eq!(json["cochran_q"], reason);
    assert!(json["pairs"][0]["p_holm"].as_f64().unwrap() > 0.0);
}

/// A score that is undefined nowhere is no NaN anywhere either: NaN would be null in JSON.
#[test]
fn one_question_and_one_conversation_give_no_null() {
    let rows = ["a", "b"].map(|system| Row {
        system,
        unit: "q",
        score: Some(f64::from(u8::from(system == "a"))),
        stratum: Some("s"),
        cluster: Some("c"),
    });
    let outcomes = Outcomes::collect(rows, None, Missing::Refuse).unwrap();
    let report = report(&outcomes, &options()).unwrap();
    let json = serde_json::to_string(&report).unwrap();
    assert!(!json.contains("null"), "{json}");
}

#[test]
fn options_out_of_range_are_refused() {
    let outcomes = outcomes(binary);
    let refused = |options: Options| report(&outcomes, &options).unwrap_err();
    let alpha = Options {
        alpha: 5.0,
        ..options()
    };
    assert_eq!(refused(alpha), ReportError::Alpha(5.0));
    let margin = Options {
        margin: Some(-0.05),
        ..options()
    };
    insta::assert_snapshot!(
        refused(margin),
        @"margin -0.05 is not between 0 and 1; 5 points are 0.05"
    );
}
