//! How much of what was said in the right sessions is the answer: the token F1 of every turn with
//! the gold answer (Nano-Memory, Figure 3c).
//!
//! Needs texts, so it works on a benchmark's file and not on records: `cargo xtask density FILE`.

use rawrag_scoring::lexical::{set_f1, stemmed_f1};

use crate::report::table;
use crate::{Column, Report, Unit, Value};

/// Which token F1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// Of sets of lower-case words.
    Words,
    /// Of stems without articles, as LoCoMo's program scores answers.
    Stems,
}

impl Overlap {
    const ALL: [(Self, &'static str); 2] = [(Self::Words, "words"), (Self::Stems, "stems")];

    /// The share of a turn that is the answer, in \[0, 1\]; `None` where the answer has no word that
    /// counts.
    pub fn of(self, turn: &str, gold: &str) -> Option<f64> {
        match self {
            Self::Words => set_f1(turn, gold),
            Self::Stems => stemmed_f1(turn, gold),
        }
    }
}

/// Turns of gold sessions, each with the gold answer of the question that needs the session.
#[derive(Clone, Debug, PartialEq)]
pub struct Turns {
    /// What is counted, for a reader.
    pub counted: String,
    /// Turn and gold answer.
    pub pairs: Vec<(String, String)>,
}

const BINS: usize = 5;

const COLUMNS: [Column; 11] = [
    Column::new("counted", Unit::Text, "which questions and sessions"),
    Column::new(
        "overlap",
        Unit::Text,
        "F1 of sets of words, or of stems without articles",
    ),
    Column::new(
        "turns",
        Unit::Count,
        "turns of gold sessions, once for every question that needs the session",
    ),
    Column::new(
        "none",
        Unit::Count,
        "turns that share nothing with the gold answer",
    ),
    Column::new("share of none", Unit::Rate, "their share"),
    Column::new(
        "to 10 %",
        Unit::Count,
        "turns with an F1 above 0 and up to 10 %",
    ),
    Column::new("to 20 %", Unit::Count, "up to 20 %"),
    Column::new("to 30 %", Unit::Count, "up to 30 %"),
    Column::new("to 40 %", Unit::Count, "up to 40 %"),
    Column::new("to 50 %", Unit::Count, "up to 50 %"),
    Column::new("above", Unit::Count, "above 50 %"),
];

/// The distribution of densities.
pub fn report(all: &[Turns]) -> Report {
    let mut rows = Vec::new();
    let mut notes = Vec::new();
    for turns in all {
        for (overlap, name) in Overlap::ALL {
            let (mut none, mut bins, mut without) = (0_u64, [0_u64; BINS + 1], 0_u64);
            for (turn, gold) in &turns.pairs {
                match overlap.of(turn, gold) {
                    None => without += 1,
                    Some(f1) if f1 <= 0.0 => none += 1,
                    // A hair above a border is rounding of the F1, not density.
                    Some(f1) => bins[((f1 * 10.0 - 1e-9) as usize).min(BINS)] += 1,
                }
            }
            if without > 0 {
                notes.push(format!(
                    "{}, {name}: {without} turns belong to an answer without a word that counts, \
                     and are counted as sharing nothing.",
                    turns.counted
                ));
            }
            let all = turns.pairs.len() as u64;
            let mut row: Vec<Value> = vec![
                turns.counted.as_str().into(),
                name.into(),
                all.into(),
                (none + without).into(),
                Value::rate(none + without, all, "turns"),
            ];
            row.extend(bins.map(Value::Count));
            rows.push(row);
        }
    }
    Report {
        tables: vec![table(
            "density",
            "the turns of one count by one overlap",
            &COLUMNS,
            rows,
        )],
        notes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One word of two against one word: F1 2/3; one of ten against one: 2/11; nothing in common.
    #[test]
    fn turns_fall_into_their_bins() {
        let pair = |turn: &str| (turn.to_owned(), "tea".to_owned());
        let turns = Turns {
            counted: "made".to_owned(),
            pairs: [
                "green tea",
                "tea b c d e f g h i j",
                "nothing at all",
                "tea",
            ]
            .map(pair)
            .into(),
        };
        let report = report(&[turns]);
        let row: Vec<String> = report.tables[0].rows[0][2..]
            .iter()
            .map(Value::written)
            .collect();
        assert_eq!(row, ["4", "1", "0.25", "0", "1", "0", "0", "0", "2"]);
    }
}
