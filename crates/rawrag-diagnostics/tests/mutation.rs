//! The mutation audit on decisions counted by hand.

use rawrag_diagnostics::{Input, Outputs, Settings, Value, diagnostic};
use rawrag_records::{
    Code, Complete, Data, Expected, Level, Machine, Manifest, SCHEMA_VERSION, System,
    WriteDecision, WriteEvent,
};
use serde_json::json;

fn outputs(decisions: &[(&str, Level, WriteEvent, Option<bool>)]) -> Outputs {
    let manifest = Manifest {
        schema: SCHEMA_VERSION,
        name: "made".into(),
        system: System {
            name: "made".into(),
            version: "1".into(),
        },
        benchmark: "own".into(),
        data: Data {
            sha256: "ab".into(),
            release: None,
        },
        expected: Expected::of(&[]),
        settings: json!({}),
        models: Default::default(),
        prompts: Default::default(),
        seed: 0,
        code: Code {
            version: "0".into(),
            sources: "cd".into(),
        },
        machine: Machine::default(),
        started: "2026-01-01T00:00:00Z".into(),
    };
    let decision = |(number, &(conversation, level, event, changed)): (
        usize,
        &(&str, Level, WriteEvent, Option<bool>),
    )| {
        WriteDecision {
            conversation: conversation.into(),
            number: number as u32,
            unit: None,
            level,
            event,
            memory: None,
            old: None,
            new: None,
            changed,
            perspective: None,
        }
    };
    let records = Complete {
        decisions: decisions.iter().enumerate().map(decision).collect(),
        ..Complete::default()
    };
    Outputs::of(manifest, records)
}

/// An update that changes nothing is no mutation, and one whose texts are not on record is not
/// taken for one.
#[test]
fn only_updates_that_change_a_text_are_effective() {
    use Level::{Persisted, Proposed, Returned};
    use WriteEvent::{Add, Delete, None as Nothing, Update};
    let run = outputs(&[
        ("a", Proposed, Add, None),
        ("a", Proposed, Update, None),
        ("a", Proposed, Update, None),
        ("a", Proposed, Nothing, None),
        ("a", Returned, Update, None),
        ("a", Persisted, Update, Some(true)),
        ("a", Persisted, Update, Some(false)),
        ("a", Persisted, Update, None),
        ("b", Proposed, Delete, None),
        ("b", Persisted, Delete, None),
        ("b", Proposed, Add, None),
        ("c", Persisted, Add, None),
    ]);
    let audit = diagnostic("mutation").unwrap();
    let report = audit
        .report(&Input::new(&[&run], Settings::default()))
        .unwrap();
    let rates = &report.tables[0].rows[0][1..];
    // a: 2 of 4 proposed, 1 effective; b: 1 of 2 proposed and effective; c emitted nothing.
    let counts = [3, 6, 3, 2, 1, 1].map(Value::Count);
    assert_eq!(rates[..6], counts);
    let numbers = [3.0 / 6.0, 2.0 / 6.0, (0.5 + 0.5) / 2.0, (0.25 + 0.5) / 2.0].map(Value::Number);
    assert_eq!(rates[6..], numbers);
    let conversations: Vec<&Value> = report.tables[2].rows.iter().map(|row| &row[2]).collect();
    assert_eq!(conversations, [&Value::from("a"), &"b".into(), &"c".into()]);
    assert_eq!(
        report.tables[2].rows[2][6],
        Value::Absent("no emitted decisions".into())
    );
    assert_eq!(report.notes.len(), 1);
}

#[test]
fn a_run_without_decisions_is_named() {
    let error = diagnostic("mutation")
        .unwrap()
        .report(&Input::new(&[&outputs(&[])], Settings::default()))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "mutation needs decisions of made, which are not on record"
    );
}
