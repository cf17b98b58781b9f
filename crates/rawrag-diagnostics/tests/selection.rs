//! Gold-informed selection: cases worked by hand, and laws.

use proptest::prelude::*;
use rawrag_diagnostics::oracle::{
    Candidate, Eligible, Gold, NoProvenance, Object, Packer, Selection, Store, Tokens, Uncited,
    normal, pack, pack_raw,
};

/// A letter is a token.
const LETTERS: Tokens<'static> = Tokens {
    count: &|text| text.chars().count(),
    prefix: &|text, limit| match text.char_indices().nth(limit) {
        Some((end, _)) => &text[..end],
        None => text,
    },
};

fn object(text: &str, sessions: Option<&[u32]>) -> Object {
    Object {
        block: text.to_owned(),
        tokens: (LETTERS.count)(text),
        text: text.to_owned(),
        sessions: sessions.map(<[u32]>::to_vec),
        first_message: None,
    }
}

fn store(texts: &[&str]) -> Store {
    Store::new(texts.iter().map(|text| object(text, Some(&[0]))).collect())
}

fn ranked(store: &Store, gold: &Gold) -> Vec<Candidate> {
    let all = vec![true; store.objects().len()];
    store.rank(gold, &all, &[])
}

fn numbers(selection: &Selection) -> Vec<usize> {
    selection.shown.iter().map(|shown| shown.number).collect()
}

#[test]
fn phrases_are_words_each_once_values_before_names() {
    let gold = Gold::new(
        "Which tram, which TRAM?",
        ["The No. 7 tram!", "the no 7 TRAM", "…", "Quay"],
        ["way_to_work", "quay"],
    );
    let phrases: Vec<(&str, bool)> = gold
        .phrases()
        .iter()
        .map(|phrase| (phrase.text.as_str(), phrase.is_value))
        .collect();
    assert_eq!(
        phrases,
        [
            ("the no 7 tram", true),
            ("quay", true),
            ("way to work", false)
        ]
    );
    assert_eq!(gold.question_words(), ["tram", "which"]);
}

/// Equation 5 by hand: a phrase of one word adds 4 1/3, one of two 4 2/3, one of twelve or more 8;
/// of the question's four words two add 2 * 2/4.
#[test]
fn equation_5_by_hand() {
    let twelve = "a b c d e f g h i j k l";
    let gold = Gold::new("where is the ferry", ["red ferry", twelve], ["dock"]);
    let store = store(&[
        "The red ferry is at the dock",
        twelve,
        "the rest is nothing",
        "unrelated",
        // A phrase is a substring of the words: `dock` in `docks`, `red ferry` in `tired ferryman`.
        "tired ferryman docks",
    ]);
    let ranked = ranked(&store, &gold);
    let scores: Vec<(usize, f64)> = ranked
        .iter()
        .map(|candidate| (candidate.number, candidate.score(&gold)))
        .collect();
    let expected = [
        (0, 14.0 / 3.0 + 13.0 / 3.0 + 2.0 * 3.0 / 4.0),
        (4, 14.0 / 3.0 + 13.0 / 3.0),
        (1, 8.0),
        (2, 1.0),
    ];
    assert_eq!(scores.len(), expected.len());
    for ((number, score), (at, by_hand)) in scores.iter().zip(expected) {
        assert_eq!(*number, at);
        assert!((score - by_hand).abs() < 1e-12, "{number}: {score}");
    }
    assert_eq!(ranked[0].phrases, [0, 2]);
}

#[test]
fn what_comes_later_or_twice_is_no_candidate() {
    let store = Store::new(vec![
        object("tram", Some(&[1, 5])),
        object("Tram!", Some(&[2])),
        object("TRAM", Some(&[0])),
        object("tram line", Some(&[])),
    ]);
    let until = |uncited| Eligible::Until {
        session: 4,
        uncited,
    };
    // The first of three alike is too late, so that the second stands for them.
    assert_eq!(
        store.eligible(until(Uncited::LeaveOut)),
        Ok(vec![false, true, false, false])
    );
    assert_eq!(
        store.eligible(until(Uncited::Refuse)),
        Err(NoProvenance { number: 3 })
    );
    assert_eq!(
        store.eligible(Eligible::Snapshot),
        Ok(vec![true, false, false, true])
    );
}

#[test]
fn ordinary_blocks_cut_the_first_and_skip_later_ones() {
    let gold = Gold::new("", ["tram", "quay", "ferry"], []);
    let store = store(&["tram quay ferry", "tram quay with more words", "quay"]);
    let ranked = ranked(&store, &gold);
    let packed = |budget| pack(Packer::Blocks, &store, &gold, &ranked, budget, LETTERS);
    let cut = packed(Some(6));
    assert_eq!(numbers(&cut), [0]);
    assert_eq!((cut.text().as_str(), cut.shown[0].cut), ("tram q", true));
    let skipping = packed(Some(20));
    assert_eq!(numbers(&skipping), [0, 2]);
    assert_eq!(skipping.tokens(), 19);
    assert_eq!(skipping.dropped_tokens(), 25);
    assert_eq!(numbers(&packed(None)), [0, 1, 2]);
    assert_eq!(packed(None).dropped_tokens(), 0);
}

#[test]
fn chunks_go_by_new_phrases_and_are_shown_in_source_order() {
    let gold = Gold::new("", ["tram", "quay", "ferry"], []);
    let chunk = |text: &str, session: u32, first_message: u32| Object {
        first_message: Some(first_message),
        ..object(text, Some(&[session]))
    };
    let store = Store::new(vec![
        chunk("ferry", 9, 40),
        chunk("tram quay", 3, 9),
        chunk("quay tram", 4, 12),
        chunk("nothing of it", 7, 30),
        chunk("tram quay ferry and much that is long", 1, 2),
    ]);
    let all = [true; 5];
    let ranked = store.rank(&gold, &all, &[7]);
    // The long one does not fit; the third has no phrase that the second lacks, and comes before the
    // favoured one without any only where both fit.
    let packed = |budget| pack(Packer::Chunks, &store, &gold, &ranked, budget, LETTERS);
    assert_eq!(numbers(&packed(Some(14))), [1, 0]);
    assert_eq!(numbers(&packed(Some(23))), [1, 2, 0]);
    assert_eq!(numbers(&packed(Some(36))), [1, 2, 3, 0]);
    assert_eq!(numbers(&packed(None)), [4, 1, 2, 3, 0]);
    assert!(store.rank(&gold, &all, &[]).iter().all(|c| c.number != 3));
}

#[test]
fn emem_packs_a_compact_set_in_time_order() {
    let gold = Gold::new("which tram", ["tram seven", "ferry"], ["way_to_work"]);
    let store = Store::new(vec![
        object("way to work way", Some(&[6])),
        object("ferry", None),
        object("tram seven", Some(&[5])),
        object("tram seven again, ferry no", Some(&[2, 8])),
        object("way to work is long", Some(&[1])),
        object("way to work, third", Some(&[0])),
        object("tram", Some(&[0])),
    ]);
    let all = vec![true; 7];
    let ranked = store.rank(&gold, &all, &[]);
    let packer = Packer::emem("Cas");
    let packed = |budget| pack(packer, &store, &gold, &ranked, budget, LETTERS);
    // Object 3 holds both values; 0 and 4 name the entity first in rank.
    assert_eq!(numbers(&packed(None)), [4, 3, 0]);
    // What does not fit is skipped and never cut.
    assert_eq!(numbers(&packed(Some(25))), [0]);
    let nothing = Gold::new("which tram", ["absent"], []);
    let ranked = store.rank(&nothing, &all, &[]);
    let fallback = pack(packer, &store, &nothing, &ranked, None, LETTERS);
    assert_eq!(numbers(&fallback), [6, 3, 2]);
    let er = pack(Packer::emem("ER"), &store, &nothing, &ranked, None, LETTERS);
    assert_eq!(numbers(&er), [6, 3, 2]);
    assert_eq!(Packer::emem("Agg"), Packer::Blocks);
}

#[test]
fn the_raw_control_keeps_sessions_with_a_phrase_or_else_all() {
    let store = store(&["only the question", "quay and tram", "the tram"]);
    let with = |value| Gold::new("the question", [value], []);
    let raw = |value, budget| pack_raw(&store, &with(value), budget, LETTERS);
    assert_eq!(numbers(&raw("tram", None)), [1, 2]);
    assert_eq!(numbers(&raw("absent", None)), [0, 1, 2]);
    let cut = raw("tram", Some(4));
    assert_eq!((numbers(&cut), cut.text()), (vec![1], "quay".to_owned()));
}

/// Few words, so that phrases are found; some begin or end with others.
const WORDS: [&str; 8] = ["tram", "trams", "a", "ram", "quay", "the", "seven", "Ferry"];

fn text(words: std::ops::Range<usize>) -> impl Strategy<Value = String> {
    let word = prop::sample::select(&WORDS[..]);
    prop::collection::vec(word, words).prop_map(|words| words.join(" "))
}

fn objects() -> impl Strategy<Value = Vec<Object>> {
    let sessions = prop::option::of(prop::collection::vec(0_u32..6, 0..3));
    let parts = (text(0..8), sessions, prop::option::of(0_u32..50));
    let made = parts.prop_map(|(text, sessions, first_message)| Object {
        first_message,
        ..object(&text, sessions.as_deref())
    });
    prop::collection::vec(made, 0..24)
}

fn gold() -> impl Strategy<Value = Gold> {
    let phrases = || prop::collection::vec(text(0..4), 0..4);
    (text(0..5), phrases(), phrases()).prop_map(|(question, values, names)| {
        let values = values.iter().map(String::as_str);
        Gold::new(&question, values, names.iter().map(String::as_str))
    })
}

/// Equation 5 as it is written, over every object.
fn by_the_letter(gold: &Gold, text: &str) -> f64 {
    let text = normal(text);
    let hits = gold
        .phrases()
        .iter()
        .filter(|phrase| text.contains(&phrase.text));
    let words = |text: &str| text.split(' ').count() as f64;
    let hits: f64 = hits
        .map(|phrase| 4.0 + (words(&phrase.text) / 3.0).min(4.0))
        .sum();
    let asked = gold.question_words();
    let shared = asked
        .iter()
        .filter(|word| text.split(' ').any(|w| w == *word));
    hits + 2.0 * shared.count() as f64 / asked.len().max(1) as f64
}

proptest! {
    #[test]
    fn the_ranking_is_equation_5(objects in objects(), gold in gold()) {
        let store = Store::new(objects);
        let ranked = ranked(&store, &gold);
        let scores: Vec<f64> = store
            .objects()
            .iter()
            .map(|object| by_the_letter(&gold, &object.text))
            .collect();
        let mut expected: Vec<usize> = (0..scores.len()).filter(|&at| scores[at] > 0.0).collect();
        expected.sort_by(|&a, &b| (scores[b] * 1e6).round().total_cmp(&(scores[a] * 1e6).round()));
        let found: Vec<usize> = ranked.iter().map(|candidate| candidate.number).collect();
        prop_assert_eq!(found, expected);
        for candidate in &ranked {
            prop_assert!((candidate.score(&gold) - scores[candidate.number]).abs() < 1e-9);
        }
    }

    #[test]
    fn a_selection_keeps_to_its_budget_and_its_past(
        objects in objects(),
        gold in gold(),
        session in 0_u32..6,
        budget in 0_usize..120,
        packer in prop::sample::select(
            &[Packer::Blocks, Packer::Chunks, Packer::Chronology, Packer::Compact][..]
        ),
    ) {
        let store = Store::new(objects);
        let until = Eligible::Until { session, uncited: Uncited::LeaveOut };
        let eligible = store.eligible(until).unwrap();
        let ranked = store.rank(&gold, &eligible, &[]);
        let capped = pack(packer, &store, &gold, &ranked, Some(budget), LETTERS);
        let whole = pack(packer, &store, &gold, &ranked, None, LETTERS);
        prop_assert!(capped.tokens() <= budget);
        prop_assert_eq!((LETTERS.count)(&capped.text()), capped.tokens());
        prop_assert_eq!(whole.dropped_tokens(), 0);
        prop_assert_eq!(capped.admitted_tokens, whole.tokens());
        // Capping takes away, and leaves the order as it is.
        let (kept, all) = (numbers(&capped), numbers(&whole));
        let rest: Vec<usize> = all.iter().copied().filter(|n| kept.contains(n)).collect();
        prop_assert_eq!(kept, rest);
        let mut texts: Vec<String> = Vec::new();
        for number in all {
            let object = &store.objects()[number];
            prop_assert!(object.sessions.iter().flatten().all(|&of| of <= session));
            prop_assert!(!texts.contains(&normal(&object.text)));
            texts.push(normal(&object.text));
        }
        // Only ordinary blocks are cut, and only the best.
        for shown in &capped.shown {
            let is_cut = shown.cut;
            prop_assert!(!is_cut || packer == Packer::Blocks && shown.number == ranked[0].number);
        }
    }
}
