//! Lexical metrics against the libraries whose numbers are published (tests/reference/lexical.py
//! says which versions), and the laws they keep.

#![expect(
    clippy::unwrap_used,
    reason = "a test whose reference cannot be read has failed"
)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use rawrag_scoring::lexical::{
    self, Rouge, Smoothing, WordVectors, bert_score, bleu, rouge_l, rouge_n, rouge_tokens,
    treebank_words,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Reference {
    cases: Vec<Case>,
    bert: Vec<Bert>,
    stems: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Case {
    answer: String,
    gold: String,
    treebank: Vec<String>,
    set_f1: Option<f64>,
    stemmed_f1: Option<f64>,
    multi_answer_f1: Option<f64>,
    bleu1: Option<f64>,
    bleu4_method1: Option<f64>,
    bleu4: Option<f64>,
    rouge: BTreeMap<String, [f64; 3]>,
    rouge_stemmed: BTreeMap<String, [f64; 3]>,
}

#[derive(Deserialize)]
struct Bert {
    dimension: usize,
    answer: Vec<f32>,
    gold: Vec<f32>,
    answer_weights: Option<Vec<f32>>,
    gold_weights: Option<Vec<f32>>,
    scores: [f64; 3],
}

fn reference() -> Reference {
    serde_json::from_str(include_str!("reference/lexical.json")).unwrap()
}

fn assert_same(ours: Option<f64>, theirs: Option<f64>, what: &str) {
    let same = match (ours, theirs) {
        (Some(a), Some(b)) => (a - b).abs() < 1e-12,
        (ours, theirs) => ours == theirs,
    };
    assert!(same, "{what}: {ours:?}, and the reference has {theirs:?}");
}

#[test]
fn every_metric_equals_the_reference() {
    for case in reference().cases {
        let (answer, gold) = (case.answer.as_str(), case.gold.as_str());
        let about = |metric: &str| format!("{metric} of {answer:?} for {gold:?}");
        assert_eq!(treebank_words(answer), case.treebank, "{answer:?}");
        let scores = [
            (lexical::set_f1(answer, gold), case.set_f1, "set F1"),
            (
                lexical::stemmed_f1(answer, gold),
                case.stemmed_f1,
                "stemmed F1",
            ),
            (
                lexical::multi_answer_f1(answer, gold),
                case.multi_answer_f1,
                "multi-answer F1",
            ),
        ];
        for (ours, theirs, metric) in scores {
            assert_same(ours, theirs, &about(metric));
        }
        let (a, g) = (
            treebank_words(&answer.to_lowercase()),
            treebank_words(&gold.to_lowercase()),
        );
        assert_same(
            bleu(&a, &g, 1, Smoothing::Method1),
            case.bleu1,
            &about("BLEU-1"),
        );
        let smoothed = bleu(&a, &g, 4, Smoothing::Method1);
        assert_same(smoothed, case.bleu4_method1, &about("BLEU-4, method 1"));
        assert_same(
            bleu(&a, &g, 4, Smoothing::None),
            case.bleu4,
            &about("BLEU-4"),
        );
        for (stems, theirs) in [(false, &case.rouge), (true, &case.rouge_stemmed)] {
            let (x, y) = (rouge_tokens(answer, stems), rouge_tokens(gold, stems));
            let ours = [
                ("rouge1", rouge_n(&x, &y, 1)),
                ("rouge2", rouge_n(&x, &y, 2)),
                ("rougeL", rouge_l(&x, &y)),
            ];
            for (name, ours) in ours {
                let theirs = theirs[name];
                // Where the gold answer has nothing to share, the library says 0.
                let Rouge {
                    precision,
                    recall,
                    f1,
                } = ours.unwrap_or(Rouge {
                    precision: 0.0,
                    recall: 0.0,
                    f1: 0.0,
                });
                for (ours, theirs) in [precision, recall, f1].into_iter().zip(theirs) {
                    assert_same(Some(ours), Some(theirs), &about(name));
                }
            }
        }
    }
}

#[test]
fn every_stem_equals_nltks() {
    let wrong: Vec<String> = reference()
        .stems
        .iter()
        .filter(|(word, stem)| lexical::stem(word) != **stem)
        .map(|(word, stem)| format!("{word}: {} and not {stem}", lexical::stem(word)))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn bert_score_equals_numpy() {
    for case in reference().bert {
        let of = |vectors, weights| WordVectors {
            vectors,
            dimension: case.dimension,
            weights,
        };
        let ours = bert_score(
            of(&case.answer, case.answer_weights.as_deref()),
            of(&case.gold, case.gold_weights.as_deref()),
        )
        .unwrap();
        let ours = [ours.precision, ours.recall, ours.f1];
        for (ours, theirs) in ours.into_iter().zip(case.scores) {
            assert!((ours - theirs).abs() < 1e-9, "{ours} {theirs}");
        }
    }
    let empty = WordVectors {
        vectors: &[],
        dimension: 3,
        weights: None,
    };
    assert_eq!(bert_score(empty, empty), None);
}

#[test]
fn locomos_categories_have_their_own_rules() {
    let gold = "Yes; since she grew up by the sea";
    assert_eq!(lexical::locomo_f1(3, "Yes", gold), Some(1.0));
    assert!(lexical::locomo_f1(4, "Yes", gold) < Some(0.5));
    assert_eq!(
        lexical::locomo_f1(5, "That was not mentioned.", "a lure"),
        Some(1.0)
    );
    assert_eq!(lexical::locomo_f1(5, "a lure", "a lure"), Some(0.0));
    assert_eq!(lexical::locomo_f1(6, "x", "x"), None);
    assert_eq!(
        lexical::locomo_f1(1, "hiking, pottery", "pottery, hiking"),
        Some(1.0)
    );
}

proptest! {
    #[test]
    fn scores_lie_between_0_and_1_and_an_answer_to_itself_is_worth_1(a in ".{0,60}", b in ".{0,60}") {
        let scores = |a: &str, b: &str| {
            let (x, y) = (treebank_words(a), treebank_words(b));
            [
                lexical::set_f1(a, b),
                lexical::stemmed_f1(a, b),
                lexical::multi_answer_f1(a, b),
                bleu(&x, &y, 1, Smoothing::Method1),
                rouge_n(&rouge_tokens(a, true), &rouge_tokens(b, true), 1).map(|r| r.f1),
                rouge_l(&rouge_tokens(a, false), &rouge_tokens(b, false)).map(|r| r.f1),
            ]
        };
        for score in scores(&a, &b).into_iter().flatten() {
            prop_assert!((0.0..=1.0 + 1e-12).contains(&score), "{score}");
        }
        let own = scores(&a, &a);
        for score in [own[0], own[1], own[3], own[4], own[5]].into_iter().flatten() {
            prop_assert!((score - 1.0).abs() < 1e-12, "{score}");
        }
        for (one, other) in [(lexical::set_f1(&a, &b), lexical::set_f1(&b, &a)),
            (lexical::stemmed_f1(&a, &b), lexical::stemmed_f1(&b, &a))] {
            if let (Some(one), Some(other)) = (one, other) {
                prop_assert!((one - other).abs() < 1e-12);
            }
        }
    }
}
