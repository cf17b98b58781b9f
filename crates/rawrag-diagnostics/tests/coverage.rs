//! Coverage and utilization, result and path, on grades and assessments counted by hand.

mod made;

use made::{Made, cell, number, question, report, run, settings};
use proptest::prelude::*;
use rawrag_diagnostics::{Input, Settings, Value, diagnostic};
use rawrag_records::JudgmentOutcome::{Correct, Failed, Unparsed, Wrong};
use rawrag_records::{AssessmentOutcome, Phase};
use rawrag_scoring::judge::Policy;

fn asked(at: usize) -> Made {
    question(&format!("c{}", at / 2), &format!("q{at}"), "ER", None)
}

#[test]
fn what_sufficient_questions_add_and_the_others_is_the_accuracy() {
    let run = run(
        "a",
        "meme",
        None,
        &[
            asked(0).suffices(true).grades(&[Correct, Correct, Wrong]),
            asked(1).suffices(true).grades(&[Correct, Unparsed, Failed]),
            asked(2)
                .suffices(false)
                .grades(&[Correct, Correct, Correct]),
            asked(3).suffices(false).grades(&[Wrong, Wrong, Wrong]),
        ],
    );
    let made = report("coverage", &[&run], settings());
    let of = |column| number(&made, "systems", 0, column);
    assert_eq!((of("questions"), of("sufficient")), (4.0, 2.0));
    assert_eq!((of("coverage"), of("utilization")), (0.5, 0.5));
    assert_eq!((of("from sufficient"), of("from others")), (0.25, 0.25));
    assert_eq!(of("accuracy"), of("from sufficient") + of("from others"));
    assert_eq!((of("grades unparsed"), of("grades failed")), (1.0, 1.0));
    // Left out, the two ungraded ones leave one grade, which is right.
    let excluding = Settings {
        ungraded: Policy::Exclude,
        ..settings()
    };
    let made = report("coverage", &[&run], excluding);
    let utilization = number(&made, "systems", 0, "utilization");
    assert!((utilization - (2.0 / 3.0 + 1.0) / 2.0).abs() < 1e-12);
}

#[test]
fn utilization_without_sufficient_questions_is_undefined() {
    let of = |suffices: bool| {
        let questions: Vec<Made> = (0..6)
            .map(|at| asked(at).suffices(suffices && at == 0).right(true))
            .collect();
        run(
            if suffices { "some" } else { "none" },
            "meme",
            None,
            &questions,
        )
    };
    let (some, none) = (of(true), of(false));
    let made = report("coverage", &[&none, &some], settings());
    assert_eq!(
        cell(&made, "systems", 0, "utilization"),
        &Value::Absent("no question's evidence suffices".into())
    );
    assert_eq!(number(&made, "systems", 0, "from others"), 1.0);
    // No difference of utilization, so no member of its family.
    let utilization = made.tables[2]
        .rows
        .iter()
        .position(|r| r[0] == "utilization".into());
    assert_eq!(number(&made, "omnibus", utilization.unwrap(), "pairs"), 0.0);
}

/// Questions about conversations of their own are tested one by one, shared ones by conversation.
#[test]
fn tests_follow_how_questions_share_conversations() {
    let runs = |shared: bool| {
        let of = |name: &str, right: fn(usize) -> bool| {
            let questions: Vec<Made> = (0..24)
                .map(|at| {
                    let conversation = format!("c{}", if shared { at / 4 } else { at });
                    question(&conversation, &format!("q{at}"), "ER", None)
                        .suffices(right(at))
                        .right(right(at))
                })
                .collect();
            run(name, "meme", None, &questions)
        };
        [of("a", |at| at % 8 != 0), of("b", |at| at % 2 == 0)]
    };
    let [a, b] = runs(false);
    let made = report("coverage", &[&a, &b], settings());
    // a alone on 12, b alone on 3 of 24: 2 (1 + 15 + 105 + 455) / 2^15.
    assert_eq!(cell(&made, "pairs", 0, "test"), &"exact McNemar".into());
    assert!((number(&made, "pairs", 0, "p") - 0.035_156_25).abs() < 1e-12);
    assert!((number(&made, "pairs", 0, "difference") - 9.0 / 24.0).abs() < 1e-12);
    // With two systems Q is (12 - 3)^2 / (12 + 3).
    assert!((number(&made, "omnibus", 0, "statistic") - 81.0 / 15.0).abs() < 1e-12);
    let [a, b] = runs(true);
    let made = report("coverage", &[&a, &b], settings());
    assert_eq!(cell(&made, "pairs", 0, "test"), &"bootstrap sign".into());
    assert_eq!(cell(&made, "omnibus", 0, "test"), &"range".into());
    assert!(
        made.notes
            .iter()
            .any(|note| note.contains("6 whole conversations"))
    );
    // A run against itself differs by nothing, whatever is drawn.
    let twice = report("coverage", &[&a, &a], settings());
    for end in ["difference", "low", "high"] {
        assert_eq!(number(&twice, "pairs", 0, end), 0.0);
    }
    assert_eq!(number(&twice, "pairs", 0, "p"), 1.0);
}

#[test]
fn runs_of_other_questions_are_refused_by_name() {
    let a = run("a", "meme", None, &[asked(0).suffices(true)]);
    let b = run("b", "meme", None, &[asked(1).suffices(true)]);
    let coverage = diagnostic("coverage").unwrap();
    let error = coverage
        .report(&Input::new(&[&a, &b], settings()))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "a and b cannot be compared: b has no question meme c0 q0, which a has"
    );
}

proptest! {
    #[test]
    fn the_parts_add_up(
        questions in prop::collection::vec((any::<bool>(), prop::collection::vec(0_u8..4, 3)), 1..40)
    ) {
        let questions: Vec<Made> = questions.iter().enumerate().map(|(at, (suffices, grades))| {
            let grade = |&grade: &u8| [Correct, Wrong, Unparsed, Failed][grade as usize];
            let grades: Vec<_> = grades.iter().map(grade).collect();
            asked(at).suffices(*suffices).grades(&grades)
        }).collect();
        let right: usize = questions.iter().flat_map(|q| &q.graded).filter(|g| **g == Correct).count();
        let n = questions.len();
        let run = run("a", "meme", None, &questions);
        let settings = Settings { replication: rawrag_statistics::Replication { replicates: 10, seed: 0 }, ..settings() };
        let made = report("coverage", &[&run], settings);
        let of = |column| number(&made, "systems", 0, column);
        prop_assert_eq!(of("accuracy"), of("from sufficient") + of("from others"));
        prop_assert!((of("accuracy") - right as f64 / (3 * n) as f64).abs() < 1e-12);
        if let Some(utilization) = cell(&made, "systems", 0, "utilization").as_f64() {
            prop_assert!((of("coverage") * utilization - of("from sufficient")).abs() < 1e-12);
        }
    }
}

fn told(at: usize, kind: &str) -> Made {
    question(
        &format!("c{}", at / 3),
        &format!("q{at}"),
        kind,
        Some(Phase::After),
    )
}

#[test]
fn path_given_result_by_hand() {
    let run = run(
        "a",
        "meme",
        None,
        &[
            told(0, "Tr").holds(true, true),
            told(1, "Tr").holds(true, false),
            told(2, "Cas").holds(true, false),
            told(3, "Cas").holds(false, false),
            Made {
                sufficient: Some(AssessmentOutcome::Unparsed),
                ..told(4, "Cas")
            },
            // An old value is no result, and what was never asked about does not count.
            told(5, "Abs").holds(true, true),
            told(6, "ER").suffices(true),
        ],
    );
    let made = report("path", &[&run], settings());
    let of = |column| number(&made, "systems", 0, column);
    assert_eq!(
        ["questions", "both", "result alone", "neither", "unparsed"].map(of),
        [5.0, 1.0, 2.0, 2.0, 1.0]
    );
    assert_eq!((of("result"), of("path")), (0.6, 0.2));
    assert!((of("path given result") - 1.0 / 3.0).abs() < 1e-12);
    assert_eq!(number(&made, "kinds", 0, "path given result"), 0.0);
    assert_eq!(number(&made, "kinds", 1, "path given result"), 0.5);
    let excluding = Settings {
        ungraded: Policy::Exclude,
        ..settings()
    };
    let made = report("path", &[&run], excluding);
    assert_eq!(number(&made, "systems", 0, "questions"), 4.0);
}

#[test]
fn a_path_without_its_result_is_refused_by_name() {
    let contradiction = run("a", "meme", None, &[told(0, "Tr").holds(false, true)]);
    let path = diagnostic("path").unwrap();
    let error = path
        .report(&Input::new(&[&contradiction], settings()))
        .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("a: meme c0 q0 (after): rule finds a path"),
        "{error}"
    );
    let silent = run("b", "meme", None, &[told(0, "Tr").suffices(true)]);
    let error = path
        .report(&Input::new(&[&silent], settings()))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "path needs assessments of result and path of b, which are not on record"
    );
}
