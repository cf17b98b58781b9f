//! Comparisons of conditions, on grades counted by hand.

mod made;

use made::{Made, cell, condition, number, question, report, run, settings};
use rawrag_diagnostics::oracle::StoreKind;
use rawrag_diagnostics::{Outputs, Value};
use rawrag_records::Phase;

const TASKS: [&str; 6] = ["ER", "Agg", "Tr", "Del", "Cas", "Abs"];

/// 30 episodes, each with a question of every task after the change and of four before it.
fn episodes(of: impl Fn(usize, &str, Phase) -> Made) -> Vec<Made> {
    let mut made = Vec::new();
    for episode in 0..30 {
        for task in TASKS {
            if !matches!(task, "Agg" | "Tr") {
                made.push(of(episode, task, Phase::Before));
            }
            made.push(of(episode, task, Phase::After));
        }
    }
    made
}

fn asked(episode: usize, task: &str, phase: Phase) -> Made {
    question(&format!("c{episode:02}"), task, task, Some(phase))
}

fn runs() -> [Outputs; 4] {
    let text = |task: &str, long: bool| match (task, long) {
        ("Cas", true) => Some("12345678".to_owned()),
        _ => Some("1234".to_owned()),
    };
    // Native: everything right before; after it ER alone.
    let native = episodes(|episode, task, phase| Made {
        evidence: Some("other".into()),
        ..asked(episode, task, phase).right(phase == Phase::Before || task == "ER")
    });
    // Complete: all right after; before it every second episode is wrong, so that the three gated
    // tasks earn a half.
    let complete = |long: bool| {
        episodes(move |episode, task, phase| {
            let right = match phase {
                Phase::Before => episode % 2 == 0,
                // Without the budget cascades are wrong in episodes 0 to 2.
                Phase::After => !(long && task == "Cas" && episode < 3),
            };
            Made {
                evidence: text(task, long),
                filtered: long && task == "Cas" && phase == Phase::Before && episode < 3,
                ..asked(episode, task, phase).right(right)
            }
        })
    };
    let raw = episodes(|episode, task, phase| Made {
        evidence: text(task, false),
        ..asked(episode, task, phase).right(true)
    });
    [
        run("native", "meme", None, &native),
        run(
            "complete",
            "meme",
            Some(condition(StoreKind::Complete, "native", Some(5000))),
            &complete(false),
        ),
        run(
            "whole",
            "meme",
            Some(condition(StoreKind::Complete, "native", None)),
            &complete(true),
        ),
        run(
            "raw",
            "meme",
            Some(condition(StoreKind::Raw, "native", Some(5000))),
            &raw,
        ),
    ]
}

#[test]
fn gates_gaps_affected_questions_and_withheld_replies_by_hand() {
    let [native, complete, whole, raw] = runs();
    let made = report("oracle", &[&native, &complete, &whole, &raw], settings());
    let overall = |row| number(&made, "conditions", row, "overall");
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
    near(overall(0), 1.0 / 6.0);
    near(overall(1), (3.0 + 3.0 * 0.5) / 6.0);
    // Episodes 0 and 2 lose their cascade; episode 1 had none to lose.
    near(overall(2), (3.0 + 2.0 * 0.5 + 13.0 / 30.0) / 6.0);
    near(overall(3), 1.0);
    assert_eq!(number(&made, "conditions", 1, "gated"), 45.0);
    assert_eq!(cell(&made, "conditions", 0, "condition"), &"N".into());
    assert_eq!(number(&made, "conditions", 2, "withheld"), 3.0);
    near(number(&made, "conditions", 0, "tokens"), 5.0);

    let contrasts: Vec<&Value> = made.tables[1].rows.iter().map(|row| &row[0]).collect();
    let expected = ["C - N", "R - C", "C - N", "R - C", "C without budget - C"];
    assert_eq!(
        contrasts,
        expected.map(Value::from).iter().collect::<Vec<_>>()
    );
    near(
        number(&made, "contrasts", 0, "difference"),
        0.75 - 1.0 / 6.0,
    );
    near(number(&made, "contrasts", 1, "difference"), 0.25);
    let cap = 4;
    near(
        number(&made, "contrasts", cap, "difference"),
        -2.0 / 30.0 / 6.0,
    );
    assert!(number(&made, "contrasts", cap, "low") < -2.0 / 30.0 / 6.0);
    // Only cascades have other evidence, 30 before and 30 after the change: one task of one.
    assert_eq!(number(&made, "contrasts", cap, "affected"), 60.0);
    near(
        number(&made, "contrasts", cap, "affected difference"),
        -2.0 / 30.0,
    );
    // 60 of 300 questions have 8 tokens in place of 4.
    near(
        number(&made, "contrasts", cap, "dropped"),
        240.0 / (300.0 * 4.0 + 240.0),
    );
    // The three withheld replies were to the cascades that differ.
    near(
        number(&made, "contrasts", cap, "difference without withheld"),
        0.0,
    );
    near(
        number(&made, "conditions", 1, "without withheld"),
        (3.0 + 2.0 * 0.5 + 13.0 / 27.0) / 6.0,
    );
}

#[test]
fn a_question_of_no_task_is_named() {
    let odd = run("odd", "meme", None, &[asked(0, "Riddle", Phase::After)]);
    let oracle = rawrag_diagnostics::diagnostic("oracle").unwrap();
    let input = rawrag_diagnostics::Input::new(&[&odd], settings());
    let error = oracle.report(&input).unwrap_err();
    assert_eq!(
        error.to_string(),
        "odd: meme c00 Riddle (after): `Riddle` is none of MEME's tasks"
    );
}
