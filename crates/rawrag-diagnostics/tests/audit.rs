//! The selection paper's human audit, rebuilt from its published counts (003, Appendix C).
#![expect(
    clippy::unwrap_used,
    reason = "a test whose input cannot be made has failed"
)]

use rawrag_diagnostics::Settings;
use rawrag_diagnostics::audit::{Audited, Human, Mapping, report};
use rawrag_statistics::Replication;

/// 778 questions: 530 that the judge found right for both systems and 106 for neither, 69 and 73
/// for one. The human graded the 142, but for one that the judge gave to the reference.
fn audit(cells: [usize; 4]) -> Vec<Audited> {
    let [only_new, only_reference, both, neither] = cells;
    let right = |yes| Human::Grade(if yes { "CORRECT" } else { "WRONG" }.to_owned());
    let mut rows = Vec::new();
    let mut ask = |judge: (bool, bool), human: (Human, Human)| {
        let unit = rows.len().to_string();
        for (system, judge, human) in [("new", judge.0, human.0), ("old", judge.1, human.1)] {
            rows.push(Audited {
                unit: unit.clone(),
                system: system.to_owned(),
                judge,
                human,
            });
        }
    };
    for at in 0..636 {
        ask((at < 530, at < 530), (Human::NotAsked, Human::NotAsked));
    }
    ask(
        (false, true),
        (Human::Grade("WRONG".to_owned()), Human::Ungraded),
    );
    let grades = [
        (only_new, (true, false)),
        (only_reference, (false, true)),
        (both, (true, true)),
        (neither, (false, false)),
    ];
    let mut judged = 0;
    for (count, (new, old)) in grades {
        for _ in 0..count {
            // Which of the 142 the judge gave to whom does not matter here.
            ask((judged < 69, judged >= 69), (right(new), right(old)));
            judged += 1;
        }
    }
    assert_eq!(judged, 141);
    rows
}

fn shown(cells: [usize; 4]) -> Vec<Vec<String>> {
    let settings = Settings {
        replication: Replication {
            replicates: 200,
            seed: 0,
        },
        ..Settings::default()
    };
    let report = report(&audit(cells), "new", "old", 0.05, &settings).unwrap();
    let table = &report.tables[2];
    let cell = |(value, column): (&rawrag_diagnostics::Value, &rawrag_diagnostics::Column)| {
        value
            .as_f64()
            .map_or_else(|| value.shown(column.unit), |x| format!("{:.1}", x * 100.0))
    };
    let cells = |row: &Vec<_>| row.iter().zip(&table.columns).map(cell).skip(3).collect();
    table.rows.iter().map(cells).collect()
}

#[test]
fn both_mappings_and_both_treatments_come_out_as_published() {
    let strict = shown([47, 59, 17, 18]);
    assert_eq!(
        strict[0],
        ["77.0", "77.5", "-0.5", "-3.0", "-3.5", "2.5", "yes"]
    );
    assert_eq!(
        strict[1],
        ["76.3", "78.0", "-1.7", "-3.9", "-4.3", "0.9", "yes"]
    );
    assert_eq!(
        strict[2],
        ["76.4", "78.0", "-1.5", "-3.7", "-4.1", "1.1", "yes"]
    );
    let lenient = shown([41, 60, 31, 9]);
    assert_eq!(lenient[1][..5], ["77.4", "79.9", "-2.6", "-4.7", "-5.1"]);
    assert_eq!(lenient[2][..5], ["77.5", "79.9", "-2.4", "-4.6", "-5.0"]);
}

#[test]
fn grades_are_read_by_whole_words() {
    use Mapping::{Lenient, Strict};
    for (grade, strict, lenient) in [
        ("CORRECT", true, true),
        ("correct, with more", true, true),
        ("INCORRECT", false, false),
        ("PARTIAL", false, true),
        ("mostly CORRECT", false, true),
        ("CORRECT date, WRONG place", false, false),
        ("", false, false),
    ] {
        assert_eq!(
            (Strict.right(grade), Lenient.right(grade)),
            (strict, lenient),
            "{grade}"
        );
    }
}

#[test]
fn a_question_with_one_answer_is_named() {
    let mut rows = audit([47, 59, 17, 18]);
    rows.pop();
    let error = report(&rows, "new", "old", 0.05, &Settings::default()).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("has an answer of new and none of old"),
        "{error}"
    );
}
