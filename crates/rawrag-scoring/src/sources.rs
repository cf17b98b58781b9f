//! What each source of MemoryAgentBench is scored by (Raw-RAG, D.1.4: substring matching, label or
//! choice accuracy, recommendation recall, a judge, summary scoring).
//!
//! ```
//! use rawrag_scoring::aggregate::Source;
//! use rawrag_scoring::sources::{Metric, mark};
//!
//! let source = Source::named("icl_banking77_5900shot_balance").unwrap();
//! assert_eq!(source.metric(), Metric::Label);
//! assert_eq!(mark(source, "label: 7", &["7"]), Some(1.0));
//! ```

use serde_json::Value;

use crate::aggregate::Source;
use crate::lexical::{
    after_prefix, choice_letter, exact_match, label_number, listed_titles, recommendation_recall,
    substring_match,
};

/// A source's own metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Whether the reply contains a gold answer.
    Substring,
    /// Whether the reply gives the number of the gold label.
    Label,
    /// Whether the reply chooses the gold option, by its letter or its words.
    Choice,
    /// The share of the gold titles among the first [`RECOMMENDED`] of the reply.
    Recommendation,
    /// A model judges the reply (LongMemEval's judges).
    Judge,
    /// A model counts for three figures ([`Summary`](crate::judge::Summary)).
    Summary,
}

/// How many titles of a reply are looked at: the benchmark reports recall at 1, 5 and 10 and tables
/// the one at 5.
pub const RECOMMENDED: usize = 5;

impl Source {
    /// The source that a name of the release belongs to, whatever the size of its contexts
    /// (`factconsolidation_mh_32k`).
    pub fn named(name: &str) -> Option<Self> {
        const NAMES: [(&str, Source); 14] = [
            ("longmemeval", Source::LongMemEval),
            ("eventqa", Source::EventQa),
            ("ruler_qa1", Source::RulerQa1),
            ("ruler_qa2", Source::RulerQa2),
            ("icl_banking77", Source::Banking77),
            ("icl_clinic150", Source::Clinc150),
            ("icl_nlu", Source::Nlu),
            ("icl_trec_coarse", Source::TrecCoarse),
            ("icl_trec_fine", Source::TrecFine),
            ("recsys_redial", Source::ReDial),
            ("detective_qa", Source::DetectiveQa),
            ("infbench_sum", Source::InfBench),
            ("factconsolidation_sh", Source::FactSingleHop),
            ("factconsolidation_mh", Source::FactMultiHop),
        ];
        let named = NAMES.iter().find(|(begins, _)| name.starts_with(begins));
        named.map(|(_, source)| *source)
    }

    /// What it is scored by.
    pub fn metric(self) -> Metric {
        match self {
            Self::LongMemEval => Metric::Judge,
            Self::EventQa | Self::RulerQa1 | Self::RulerQa2 => Metric::Substring,
            Self::FactSingleHop | Self::FactMultiHop => Metric::Substring,
            Self::ReDial => Metric::Recommendation,
            Self::DetectiveQa => Metric::Choice,
            Self::InfBench => Metric::Summary,
            _ => Metric::Label,
        }
    }
}

/// What a reply is worth by its source's metric, in \[0, 1\]; `None` where a model has to say it,
/// or the gold answers hold nothing to compare with.
///
/// Several gold answers are spellings of one, but for recommendations, where each is wanted.
pub fn mark(source: Source, reply: &str, golds: &[&str]) -> Option<f64> {
    let hit = match source.metric() {
        Metric::Substring => substring_match(reply, golds)?,
        Metric::Label => {
            let wanted: Vec<u64> = golds.iter().filter_map(|gold| label_number(gold)).collect();
            if wanted.is_empty() {
                return None;
            }
            // The template ends with `label:`, so that a reply may begin behind it.
            label_number(reply).is_some_and(|label| wanted.contains(&label))
        }
        Metric::Choice => chooses(reply, golds)?,
        Metric::Recommendation => {
            return recommendation_recall(&listed_titles(reply), golds, RECOMMENDED);
        }
        Metric::Judge | Metric::Summary => return None,
    };
    Some(f64::from(u8::from(hit)))
}

/// Gold options are `B. The gardener`; a reply is that, a letter, or an object with `answer`. A gold
/// answer without a letter is compared by its words, as is the reply behind `Answer:`.
fn chooses(reply: &str, golds: &[&str]) -> Option<bool> {
    let answer = answer_of(reply);
    let reply = answer.as_deref().unwrap_or(reply);
    let letters: Vec<char> = golds.iter().filter_map(|g| letter(g)).collect();
    if letters.is_empty() {
        let behind = after_prefix(reply, "Answer:").unwrap_or(reply);
        return Some(exact_match(reply, golds)? || exact_match(behind, golds)?);
    }
    let behind = after_prefix(reply, "Answer:").and_then(letter);
    let chosen = letter(reply)
        .or(behind)
        .or_else(|| choice_letter(reply, 26));
    Some(chosen.is_some_and(|chosen| letters.contains(&chosen)))
}

/// The letter that a text begins with as an option does: alone, or before a closing mark.
fn letter(text: &str) -> Option<char> {
    let text = text.trim_start_matches(|c: char| !c.is_alphanumeric());
    let mut characters = text.chars();
    let letter = characters.next()?.to_ascii_uppercase();
    let ends = characters
        .next()
        .is_none_or(|c| matches!(c, '.' | ')' | ':' | ']'));
    (letter.is_ascii_uppercase() && ends).then_some(letter)
}

/// The `answer` of a JSON object that a reply consists of, in a code block or not.
fn answer_of(reply: &str) -> Option<String> {
    let (begin, end) = (reply.find('{')?, reply.rfind('}')?);
    let object: Value = serde_json::from_str(reply.get(begin..=end)?).ok()?;
    Some(object.get("answer")?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_has_its_metric() {
        let marks = |source: &str, reply: &str, golds: &[&str]| {
            mark(Source::named(source).unwrap(), reply, golds)
        };
        assert_eq!(
            marks("ruler_qa1_197K", "It is Oslo.", &["Oslo", "oslo town"]),
            Some(1.0)
        );
        assert_eq!(
            marks("eventqa_full", "They part", &["They meet"]),
            Some(0.0)
        );
        assert_eq!(
            marks("factconsolidation_mh_6k", "the Tram", &["tram"]),
            Some(1.0)
        );
        assert_eq!(
            marks("icl_trec_fine_6400shot_balance", "label: 12", &["12"]),
            Some(1.0)
        );
        assert_eq!(marks("icl_nlu_8296shot_balance", "3", &["12"]), Some(0.0));
        assert_eq!(marks("icl_nlu_8296shot_balance", "3", &["none"]), None);
        let films = "Recommendations:\n1. Heat (1995)\n2. Ran\n3. Alien";
        assert_eq!(
            marks("recsys_redial_full", films, &["Ran", "Ikiru"]),
            Some(0.5)
        );
        assert_eq!(marks("longmemeval_s*", "Oslo", &["Oslo"]), None);
        assert_eq!(
            marks("infbench_sum_eng_shots2", "A book", &["A book"]),
            None
        );
        assert_eq!(Source::named("detective"), None);
    }

    #[test]
    fn a_detective_names_an_option() {
        let marks = |reply: &str, golds: &[&str]| mark(Source::DetectiveQa, reply, golds);
        let gold = ["B. The gardener"];
        for reply in [
            "B. The gardener",
            "B",
            "(b)",
            "The answer is B.",
            "Option A has no motive.\nAnswer: B. The gardener",
            r#"{"answer": "B. The gardener", "reasoning": "A. would not fit"}"#,
            "```json\n{\"answer\": \"B\", \"reasoning\": \"\"}\n```",
        ] {
            assert_eq!(marks(reply, &gold), Some(1.0), "{reply}");
        }
        for reply in [
            "A. The butler",
            "The gardener or the butler",
            "",
            "{\"answer\": 2}",
        ] {
            assert_eq!(marks(reply, &gold), Some(0.0), "{reply}");
        }
        assert_eq!(marks("Answer: the gardener", &["The gardener"]), Some(1.0));
        assert_eq!(marks("the butler", &["The gardener"]), Some(0.0));
    }
}
