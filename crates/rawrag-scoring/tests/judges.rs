//! What judges write, and what is read of it.

use proptest::prelude::*;
use rawrag_prompts::PromptSet;
use rawrag_scoring::judge::Outcome::{self, Correct, Wrong};
use rawrag_scoring::judge::Unparsed::{
    Conflicting, Cut, Empty, Inconsistent, Malformed, NoLabel, NoObject, OtherLabel,
};
use rawrag_scoring::judge::{
    Audit, Coverage, Failure, Judge, LOCOMO, MEME_ABSENCE, MEME_AGGREGATION, MEME_CASCADE,
    MEME_DELETION, MEME_TRACKING, MEME_VALUE, NANO_MEMORY, Parser, Reply, Summary, Support,
    Ungraded, audit, sufficiency,
};

const MEME: [Judge; 6] = [
    MEME_VALUE,
    MEME_AGGREGATION,
    MEME_TRACKING,
    MEME_DELETION,
    MEME_CASCADE,
    MEME_ABSENCE,
];

fn locomo(reply: &str) -> Outcome {
    LOCOMO.grade(Reply::Whole(reply))
}

fn yes_no(reply: &str) -> Outcome {
    NANO_MEMORY.grade(Reply::Whole(reply))
}

fn unparsed(reason: rawrag_scoring::judge::Unparsed) -> Outcome {
    Outcome::Unparsed(reason)
}

#[test]
fn incorrect_does_not_hold_correct() {
    assert_eq!(locomo(r#"{"label": "INCORRECT"}"#), unparsed(OtherLabel));
    assert_eq!(locomo(r#"{"label": "CORRECT."}"#), unparsed(OtherLabel));
    assert_eq!(locomo(r#"{"label": "NOT CORRECT"}"#), unparsed(OtherLabel));
}

#[test]
fn yesterday_does_not_hold_yes_nor_know_no() {
    assert_eq!(yes_no("It was yesterday."), unparsed(NoLabel));
    assert_eq!(yes_no("I know; nothing else. yes_"), unparsed(NoLabel));
    assert_eq!(yes_no("**Yes**, since yesterday."), Correct);
    assert_eq!(yes_no("<no>"), Wrong);
}

#[test]
fn a_label_that_is_negated_is_no_label() {
    assert_eq!(yes_no("Not yes."), unparsed(Conflicting));
    assert_eq!(yes_no("It is not, yes."), unparsed(Conflicting));
    assert_eq!(yes_no("Yes, it is not far."), Correct);
}

#[test]
fn a_label_is_stripped_and_compared_in_upper_case() {
    assert_eq!(locomo("{\"label\": \" correct\\n\"}"), Correct);
    assert_eq!(locomo("{ \"label\" :\n\"Wrong\" }"), Wrong);
}

#[test]
fn bare_labels_are_rejected() {
    assert_eq!(locomo("CORRECT"), unparsed(Malformed));
    assert_eq!(locomo("The answer is WRONG"), unparsed(Malformed));
    assert_eq!(locomo("\"CORRECT\""), unparsed(NoObject));
    assert_eq!(locomo("[{\"a\": 1}]"), unparsed(NoObject));
}

/// A code block comes first, whatever stands outside it.
#[test]
fn fenced_objects_come_first() {
    let fenced = "{\"label\": \"WRONG\"}\n```json\n{\"label\": \"CORRECT\"}\n```\n";
    assert_eq!(locomo(fenced), Correct);
    assert_eq!(locomo("```\n  {\"label\": \"WRONG\"}```"), Wrong);
    // Nesting is no hindrance inside a block.
    let nested = "```json\n{\"why\": {\"a\": {}}, \"label\": \"CORRECT\"}\n```";
    assert_eq!(locomo(nested), Correct);
    // A block of something else is passed over, one that is no object in the end too.
    let second = "```text\nx\n```\n```json\n{\"label\": \"CORRECT\"}\n```";
    assert_eq!(locomo(second), Correct);
    assert_eq!(
        locomo("```json\n{\"label\": \"CORRECT\"} done\n```"),
        Correct
    );
    // What a block selects is final, even if it is no JSON.
    let broken = "```json\n{label}\n``` {\"label\": \"CORRECT\"}";
    assert_eq!(locomo(broken), unparsed(Malformed));
}

#[test]
fn the_first_flat_object_with_a_label_comes_next() {
    let text = "So {\"note\": 1} it is {\"why\": \"same\", \"label\": \"CORRECT\"} indeed.";
    assert_eq!(locomo(text), Correct);
    // An object that has objects inside is not selected from text, but is as the whole reply.
    let nested = "{\"why\": {\"a\": 1}, \"label\": \"CORRECT\"}";
    assert_eq!(locomo(nested), Correct);
    assert_eq!(locomo(&format!("So: {nested}")), unparsed(Malformed));
    // A label that is no string does not select.
    let number = "{\"label\": 1} {\"label\": \"WRONG\"}";
    assert_eq!(locomo(number), Wrong);
}

#[test]
fn single_quotes_are_no_json() {
    assert_eq!(locomo("{'label': 'CORRECT'}"), unparsed(Malformed));
}

/// Of two objects the first is selected, as the paper says. Two labels inside one object are a
/// conflict, and two that agree are none.
#[test]
fn two_conflicting_labels() {
    let objects = "{\"label\": \"WRONG\"} or {\"label\": \"CORRECT\"}";
    assert_eq!(locomo(objects), Wrong);
    let keys = "{\"label\": \"CORRECT\", \"label\": \"WRONG\"}";
    assert_eq!(locomo(keys), unparsed(Conflicting));
    let same = "{\"label\": \"CORRECT\", \"label\": \"CORRECT\"}";
    assert_eq!(locomo(same), Correct);
    assert_eq!(yes_no("yes... no"), unparsed(Conflicting));
}

#[test]
fn a_missing_label() {
    assert_eq!(locomo("{\"grade\": \"CORRECT\"}"), unparsed(NoLabel));
    assert_eq!(locomo("{\"label\": null}"), unparsed(OtherLabel));
    assert_eq!(yes_no("Correct."), unparsed(NoLabel));
}

#[test]
fn an_empty_reply() {
    for judge in [LOCOMO, NANO_MEMORY, MEME_VALUE] {
        for reply in [Reply::Whole(""), Reply::Whole(" \n")] {
            assert_eq!(judge.grade(reply), unparsed(Empty), "{}", judge.name);
        }
    }
}

/// An object that is closed was not cut; of a word nothing says that the other did not follow.
#[test]
fn a_reply_cut_by_length() {
    let cut = |text| LOCOMO.grade(Reply::Cut(text));
    assert_eq!(cut("Since both {\"label\": \"CORR"), unparsed(Cut));
    assert_eq!(cut("{\"label\": \"CORRECT\"} Let me add"), Correct);
    assert_eq!(NANO_MEMORY.grade(Reply::Cut("yes")), unparsed(Cut));
    // The same text without the cut is told apart.
    assert_eq!(locomo("Since both {\"label\": \"CORR"), unparsed(Malformed));
}

#[test]
fn a_judge_that_did_not_reply_has_failed() {
    for judge in [LOCOMO, NANO_MEMORY, MEME_CASCADE] {
        let outcome = judge.grade(Reply::Failed(Failure::Request));
        assert_eq!(outcome, Outcome::Failed(Failure::Request));
    }
}

#[test]
fn longmemeval_is_judged_by_type_and_abstention() {
    let template = |kind, abstention| Judge::longmemeval(kind, abstention).map(|j| j.template);
    let fact = Some("judge-longmemeval-fact");
    assert_eq!(template("multi-session", false), fact);
    assert_eq!(
        template("temporal-reasoning", false),
        Some("judge-longmemeval-temporal")
    );
    let abstention = Some("judge-longmemeval-abstention");
    assert_eq!(template("temporal-reasoning", true), abstention);
    assert_eq!(template("abstention", true), None);
}

/// Every judge of MEME over every combination of its truth values: right in exactly one.
#[test]
fn meme_is_right_only_if_every_condition_of_the_task_holds() {
    for judge in MEME {
        let Parser::Checklist { all, none } = judge.parser else {
            panic!("{} reads no checklist", judge.template);
        };
        let keys: Vec<&str> = all.iter().chain(none).copied().collect();
        let right = (1_u32 << all.len()) - 1;
        for values in 0..1_u32 << keys.len() {
            let pairs: Vec<String> = (0..)
                .zip(&keys)
                .map(|(bit, key)| format!("\"{key}\": {}", values >> bit & 1 == 1))
                .collect();
            let reply = format!("Here: {{{}}}", pairs.join(", "));
            let expected = if values == right { Correct } else { Wrong };
            assert_eq!(judge.grade(Reply::Whole(&reply)), expected, "{reply}");
        }
    }
}

#[test]
fn a_deletion_that_is_acknowledged_and_revealed_is_wrong() {
    let reply = "{\"acknowledged\": true, \"revealed\": true}";
    assert_eq!(MEME_DELETION.grade(Reply::Whole(reply)), Wrong);
    let half = "{\"acknowledged\": false}";
    assert_eq!(MEME_DELETION.grade(Reply::Whole(half)), unparsed(NoLabel));
    let text = "{\"acknowledged\": true, \"revealed\": \"no\"}";
    assert_eq!(
        MEME_DELETION.grade(Reply::Whole(text)),
        unparsed(OtherLabel)
    );
}

#[test]
fn sufficiency_is_the_truth_value_and_support_is_beside_it() {
    let read = |text| sufficiency(Reply::Whole(text));
    let answer =
        read("{\"answerable\": true, \"support\": \"partial\", \"notes\": \"x\"}").unwrap();
    assert!(answer.answerable);
    assert_eq!(answer.support, Some(Support::Partial));
    let other = read("{\"answerable\": false, \"support\": \"some\"}").unwrap();
    assert_eq!((other.answerable, other.support), (false, None));
    let missing = read("{\"support\": \"sufficient\"}");
    assert_eq!(missing, Err(Ungraded::Unparsed(NoLabel)));
    let quoted = read("{\"answerable\": \"true\"}");
    assert_eq!(quoted, Err(Ungraded::Unparsed(OtherLabel)));
}

#[test]
fn a_path_without_its_result_is_refused() {
    let reply = |sufficient, complete| {
        format!(
            "{{\"sufficient\": {sufficient}, \"value_complete\": {complete}, \"temporal_chain\": \
             false, \"deletion_targeted\": false, \"dependency_rule\": true, \
             \"upstream_trigger_state\": true, \"linked\": true, \"notes\": \"a {{b}}\"}}"
        )
    };
    let coverage = |sufficient, complete| {
        let audit: Audit = audit(Reply::Whole(&reply(sufficient, complete))).unwrap();
        audit.coverage()
    };
    assert_eq!(coverage(true, false), Err(Inconsistent));
    assert_eq!(coverage(true, true), Ok(Coverage::ResultAndPath));
    assert_eq!(coverage(false, true), Ok(Coverage::Result));
    assert_eq!(coverage(false, false), Ok(Coverage::Neither));
    let short = reply(true, true).replace("\"linked\": true, ", "");
    assert_eq!(
        audit(Reply::Whole(&short)),
        Err(Ungraded::Unparsed(NoLabel))
    );
}

/// By hand: recall 3 of 4, precision 1 of 2, so 2 * 0.375 / 1.25.
#[test]
fn a_summary_is_scored_by_its_three_counts() {
    let read = |fluency, recall, precision| {
        let [fluency, recall, precision] = [fluency, recall, precision].map(Reply::Whole);
        Summary::read(fluency, recall, precision, 4)
    };
    let (recall, precision) = (
        "{\"supported\": 3}",
        "{\"supported\": 5, \"sentences\": 10}",
    );
    let score = read("{\"fluency\": 1}", recall, precision).unwrap().score();
    assert!((score - 0.6).abs() < 1e-12);
    assert_eq!(
        read("{\"fluency\": 0}", recall, precision).unwrap().score(),
        0.0
    );
    let none = "{\"supported\": 0, \"sentences\": 10}";
    let nothing = read("{\"fluency\": 1}", "{\"supported\": 0}", none).unwrap();
    assert_eq!(nothing.score(), 0.0);
    let problem = |fluency, recall, precision| match read(fluency, recall, precision) {
        Err(Ungraded::Unparsed(reason)) => reason,
        other => panic!("{other:?}"),
    };
    let one = "{\"fluency\": 1}";
    assert_eq!(problem("{\"fluency\": 5}", recall, precision), OtherLabel);
    assert_eq!(problem(one, "{\"supported\": 5}", precision), Inconsistent);
    assert_eq!(problem(one, "{\"supported\": -1}", precision), OtherLabel);
    let empty = "{\"supported\": 0, \"sentences\": 0}";
    assert_eq!(problem(one, recall, empty), Inconsistent);
}

#[test]
fn every_judge_names_a_prompt_whose_contract_names_its_keys() {
    let set = PromptSet::builtin();
    let kinds = [
        "multi-session",
        "single-session-preference",
        "temporal-reasoning",
    ];
    let longmemeval = kinds.iter().chain(&["knowledge-update"]).flat_map(|kind| {
        [false, true].map(|abstention| Judge::longmemeval(kind, abstention).unwrap())
    });
    for judge in longmemeval.chain([LOCOMO, NANO_MEMORY]).chain(MEME) {
        let output = set.template(judge.template).unwrap().output();
        let keys: Vec<&str> = match judge.parser {
            Parser::Label => vec!["label"],
            Parser::YesNo => vec!["yes", "no"],
            Parser::Checklist { all, none } => all.iter().chain(none).copied().collect(),
        };
        for key in keys {
            assert!(output.contains(key), "{}: {output}", judge.template);
        }
    }
}

proptest! {
    /// No reply makes a reader panic, whole or cut, and none that lacks both words gets a grade.
    #[test]
    fn any_reply_is_read_or_refused(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "```", "json", "{", "}", "\"label\"", "\"CORRECT\"", "\"value\"", "true", ":", ",",
                "yes", "no", "\n", "é", "\"", "\\", " ", "1", "[", "]", "\u{2028}",
            ]),
            0..24,
        ),
        noise in "(?s).{0,16}",
    ) {
        let text = format!("{}{noise}", parts.concat());
        for reply in [Reply::Whole(&text), Reply::Cut(&text)] {
            for judge in MEME.iter().chain(&[LOCOMO, NANO_MEMORY]) {
                let outcome = judge.grade(reply);
                prop_assert!(!matches!(outcome, Outcome::Failed(_)));
                if judge == &LOCOMO && !text.to_uppercase().contains("CORRECT") {
                    prop_assert_ne!(outcome, Correct);
                }
            }
            let _ = (sufficiency(reply), audit(reply), Summary::read(reply, reply, reply, 3));
        }
    }
}
