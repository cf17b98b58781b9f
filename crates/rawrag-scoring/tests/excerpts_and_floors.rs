//! Excerpts on characters, and floors against enumeration.

use proptest::prelude::*;
use rawrag_scoring::excerpt::{AROUND, LONGEST, SEPARATOR, excerpt};
use rawrag_scoring::floors::{guessing, random_recall};

#[test]
fn a_match_is_shown_with_900_characters_on_either_side() {
    let context = format!("{}Lisbon{}", "é".repeat(1_000), "ü".repeat(1_000));
    let found = excerpt(&context, &["LISBON"]);
    let wanted = format!("{}Lisbon{}", "é".repeat(AROUND), "ü".repeat(AROUND));
    assert_eq!((found.text, found.found), (wanted, 1));
}

#[test]
fn snippets_come_in_the_order_of_the_values_and_may_overlap() {
    let context = "first Ada, then Bert";
    let found = excerpt(context, &["Bert", "it", "Ada", "Zoe"]);
    assert_eq!(found.text, format!("{context}{SEPARATOR}{context}"));
    assert_eq!(found.found, 2);
}

#[test]
fn values_of_two_characters_are_not_looked_for() {
    let context = format!("{}éé and ééé", "x".repeat(2_000));
    assert_eq!(excerpt(&context, &["éé"]).found, 0);
    assert_eq!(excerpt(&context, &["ééé"]).found, 1);
}

#[test]
fn without_a_match_the_head_is_shown_and_an_excerpt_is_never_longer() {
    let context = "ß".repeat(10_000);
    let head = excerpt(&context, &["abc"]);
    assert_eq!((head.text.chars().count(), head.found), (LONGEST, 0));
    let many = vec!["ßßß"; 20];
    assert_eq!(excerpt(&context, &many).text.chars().count(), LONGEST);
    assert_eq!(excerpt("", &["abc"]).text, "");
}

/// Lower case may be longer than the letter (`İ`), and half of it is no match.
#[test]
fn letters_that_grow_in_lower_case_do_not_shift_the_excerpt() {
    let context = format!("{}Berlin{}", "İ".repeat(950), "İ".repeat(950));
    let found = excerpt(&context, &["berlin"]);
    let side = "İ".repeat(AROUND);
    assert_eq!(found.text, format!("{side}Berlin{side}"));
    assert_eq!(excerpt("xxİ", &["xxi"]).found, 0);
    assert_eq!(excerpt("xxİ xxi", &["xxi"]).found, 1);
}

/// Every draw of `drawn` of `units` units, the first `gold` of which are gold.
fn enumerated(units: u32, gold: u32, drawn: u32) -> (f64, f64, f64) {
    let (mut draws, mut any, mut all, mut found) = (0.0, 0.0, 0.0, 0.0);
    for draw in (0..1_u32 << units).filter(|draw| draw.count_ones() == drawn) {
        let hits = (draw & ((1 << gold) - 1)).count_ones();
        draws += 1.0;
        any += f64::from(u8::from(hits > 0));
        all += f64::from(u8::from(hits == gold));
        found += f64::from(hits) / f64::from(gold);
    }
    (any / draws, all / draws, found / draws)
}

#[test]
fn random_recall_equals_the_count_over_all_draws() {
    for units in 1..=9 {
        for gold in 1..=units {
            for drawn in 0..=units {
                let floor = random_recall(units, gold, drawn).unwrap();
                let (any, all, share) = enumerated(units, gold, drawn);
                for (found, wanted) in [(floor.any, any), (floor.all, all), (floor.share, share)] {
                    assert!((found - wanted).abs() < 1e-12, "{units} {gold} {drawn}");
                }
            }
        }
    }
}

#[test]
fn random_recall_is_undefined_without_gold_and_full_when_all_is_drawn() {
    assert_eq!(random_recall(5, 0, 1), None);
    assert_eq!(random_recall(5, 6, 1), None);
    let full = random_recall(5, 5, 9).unwrap();
    assert_eq!((full.any, full.all, full.share), (1.0, 1.0, 1.0));
    let huge = random_recall(u32::MAX, 3, 1).unwrap();
    assert!(huge.any > 0.0 && huge.all == 0.0);
}

#[test]
fn guessing_is_the_mean_of_the_chances() {
    assert_eq!(guessing(&[4, 2, 4, 0]), Some(0.25));
    assert_eq!(guessing(&[]), None);
}

proptest! {
    /// An excerpt is made of pieces of the context, and a value that is found stands in it.
    #[test]
    fn excerpts_show_the_context(context in "[a-cİßéς ]{0,40}", value in "[a-cİßéς]{1,4}") {
        let found = excerpt(&context, &[&value]);
        prop_assert!(context.contains(&found.text));
        if value.chars().count() >= 3 && context.contains(&value) {
            prop_assert_eq!(found.found, 1);
        }
    }
}
