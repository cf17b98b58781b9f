//! Whether evidence is enough for a MEME question, by rule and without a model (Raw-RAG, C.1,
//! "Task-specific sufficiency"): the target value for ER and before the change; every value for
//! Agg; for Tr their order too; an explicit deletion for Del; the new target, the rule and the
//! trigger for Cas; the old target, the rule and the trigger for Abs.
//!
//! The paper names these parts and not how its check finds them. What counts here as finding one
//! stands at each field of [`Sufficiency`]. All text is compared normalised: NFKC, lower case,
//! typographic quotes and dashes as plain ones, runs of white space as one space. A value or
//! label is found where it stands as whole words, so that `10 min` is not in `110 minutes`. An
//! empty one is never found.
//!
//! The rules are literal: a paraphrase of a value is not found, and a hypothetical is not told
//! from a fact. They say the same of the same text on every machine, which a judge does not.
//!
//! ```
//! use rawrag_scoring::sufficiency::{Mention, Need, Rule, sufficiency};
//!
//! let (source, target) = (["Orvath Lane".to_owned()], ["tram".to_owned(), "ferry".to_owned()]);
//! let rule = Rule {
//!     source: Mention { label: "home", values: &source },
//!     target: Mention { label: "way to work", values: &target },
//!     said: &[],
//! };
//! let moved = ["Quay Street".to_owned()];
//! let need = Need::Dependent {
//!     values: &target[1..],
//!     rules: &[rule],
//!     trigger: &moved,
//! };
//! let found = sufficiency("If my home changes, my way to work will be the ferry.", &need);
//! assert_eq!((found.value, found.rule, found.trigger), (Some(true), Some(true), Some(false)));
//! assert!(!found.sufficient());
//! ```

use unicode_normalization::UnicodeNormalization as _;

/// What a question needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need<'a> {
    /// All of these values (ER, Agg, and every question before the change).
    Values(&'a [String]),
    /// All of these values, and their order (Tr).
    History(&'a [String]),
    /// That this was deleted (Del after the change).
    Deletion(Mention<'a>),
    /// A value that hangs on others (Cas and Abs after the change).
    Dependent {
        /// The new values for Cas, the old ones for Abs.
        values: &'a [String],
        /// Every dependency from what changed down to the target. Without any, none is found.
        rules: &'a [Rule<'a>],
        /// What the changed entity became: any of them will do.
        trigger: &'a [String],
    },
}

/// An entity as text may name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mention<'a> {
    /// In words (`way to work`).
    pub label: &'a str,
    /// Every value it has or had.
    pub values: &'a [String],
}

/// A dependency as text may state it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule<'a> {
    /// Upstream.
    pub source: Mention<'a>,
    /// Downstream.
    pub target: Mention<'a>,
    /// Wordings known to state it.
    pub said: &'a [String],
}

/// Which parts of what is needed were found; `None` for a part that the task does not need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sufficiency {
    /// Every value stands in the evidence.
    pub value: Option<bool>,
    /// The values that stand in the evidence stand in order: by the dates of their lines, each
    /// value's earliest later than that of the one before it; or by the text, each first standing
    /// after the one before it, in a line with a word of time or change (*now*, *since*,
    /// *switched*). A line's date is the first in it (`2031-03-01` or `2031/03/01`, with or
    /// without a time), or else that of the line ahead. With fewer than two of several values
    /// there is no order.
    pub chronology: Option<bool>,
    /// A word of deletion (*remove*, *forget*) stands in the same sentence as the entity's label
    /// or value, or in a sentence beside it in the same line.
    pub deletion: Option<bool>,
    /// Each dependency is stated: in a known wording, or by a sentence that names both ends, by
    /// label or by value, with a word of dependence (*if*, *depends*, *whenever*).
    pub rule: Option<bool>,
    /// What the changed entity became stands in the evidence.
    pub trigger: Option<bool>,
}

impl Sufficiency {
    /// Whether every part that is needed was found.
    pub fn sufficient(&self) -> bool {
        let parts = [
            self.value,
            self.chronology,
            self.deletion,
            self.rule,
            self.trigger,
        ];
        parts.into_iter().flatten().all(|found| found)
    }
}

/// Looks in `evidence` for what a question needs. Lines of the evidence are taken as messages.
pub fn sufficiency(evidence: &str, need: &Need<'_>) -> Sufficiency {
    let evidence = Evidence::new(evidence);
    let none = Sufficiency::default();
    match *need {
        Need::Values(values) => Sufficiency {
            value: Some(evidence.has_all(values)),
            ..none
        },
        Need::History(values) => Sufficiency {
            value: Some(evidence.has_all(values)),
            chronology: Some(evidence.orders(values)),
            ..none
        },
        Need::Deletion(target) => Sufficiency {
            deletion: Some(evidence.deletes(&Names::of(target))),
            ..none
        },
        Need::Dependent {
            values,
            rules,
            trigger,
        } => Sufficiency {
            value: Some(evidence.has_all(values)),
            rule: Some(!rules.is_empty() && rules.iter().all(|rule| evidence.states(rule))),
            trigger: Some(trigger.iter().any(|value| evidence.has(value))),
            ..none
        },
    }
}

/// Words that tie one thing to another.
const DEPENDENCE: [&str; 20] = [
    "if",
    "when",
    "whenever",
    "unless",
    "should",
    "depend",
    "depends",
    "depending",
    "dependent",
    "determine",
    "determines",
    "determined",
    "because",
    "due to",
    "based on",
    "tied to",
    "relies on",
    "as long as",
    "follows from",
    "goes with",
];

/// Words that take something away for good.
const DELETION: [&str; 16] = [
    "remove",
    "removed",
    "removal",
    "delete",
    "deleted",
    "deletion",
    "erase",
    "erased",
    "forget",
    "forgotten",
    "discard",
    "discarded",
    "retract",
    "retracted",
    "wipe",
    "wiped",
];

/// Words of time and change.
const TIME: [&str; 36] = [
    "now",
    "then",
    "later",
    "after",
    "afterwards",
    "since",
    "next",
    "before",
    "previous",
    "previously",
    "former",
    "formerly",
    "earlier",
    "first",
    "finally",
    "latest",
    "again",
    "anymore",
    "no longer",
    "update",
    "updated",
    "change",
    "changed",
    "switch",
    "switched",
    "switching",
    "replace",
    "replaced",
    "replaces",
    "became",
    "become",
    "moved",
    "migrated",
    "new",
    "newer",
    "currently",
];

/// Evidence, normalised.
struct Evidence {
    /// All of it on one line.
    whole: String,
    lines: Vec<String>,
}

/// An entity's label and values, normalised.
struct Names(Vec<String>);

impl Names {
    fn of(mention: Mention<'_>) -> Self {
        let values = mention.values.iter().map(String::as_str);
        Self(values.chain([mention.label]).map(normal).collect())
    }

    fn stand_in(&self, text: &str) -> bool {
        self.0.iter().any(|name| found(text, name))
    }
}

impl Evidence {
    fn new(text: &str) -> Self {
        let lines: Vec<String> = text.lines().map(normal).collect();
        Self {
            whole: lines.join(" "),
            lines,
        }
    }

    fn has(&self, value: &str) -> bool {
        found(&self.whole, &normal(value))
    }

    fn has_all(&self, values: &[String]) -> bool {
        !values.is_empty() && values.iter().all(|value| self.has(value))
    }

    fn states(&self, rule: &Rule<'_>) -> bool {
        let (source, target) = (Names::of(rule.source), Names::of(rule.target));
        rule.said.iter().any(|wording| self.has(wording))
            || self
                .lines
                .iter()
                .flat_map(|line| sentences(line))
                .any(|sentence| {
                    source.stand_in(sentence)
                        && target.stand_in(sentence)
                        && DEPENDENCE.iter().any(|word| found(sentence, word))
                })
    }

    fn deletes(&self, target: &Names) -> bool {
        let deletion = |sentence: &str| DELETION.iter().any(|word| found(sentence, word));
        self.lines.iter().any(|line| {
            let sentences: Vec<&str> = sentences(line).collect();
            let of = sentences.iter().map(|s| (deletion(s), target.stand_in(s)));
            let of: Vec<(bool, bool)> = of.collect();
            of.iter().any(|&(deletion, named)| deletion && named)
                || of.windows(2).any(|pair| match pair {
                    [(one, one_named), (other, other_named)] => {
                        (*one && *other_named) || (*other && *one_named)
                    }
                    _ => false,
                })
        })
    }

    fn orders(&self, values: &[String]) -> bool {
        let values: Vec<String> = values.iter().map(|value| normal(value)).collect();
        let dates = self.dates(&values);
        let places = values
            .iter()
            .map(|value| Places::of(value, &self.lines, &dates));
        let places: Vec<Places> = places.flatten().collect();
        if places.len() < values.len().min(2) {
            return false;
        }
        let pairs = || places.iter().zip(places.iter().skip(1));
        let by_date = pairs().all(|(one, next)| match (one.earliest, next.earliest) {
            (Some(one), Some(next)) => one < next,
            _ => false,
        });
        by_date || pairs().all(|(one, next)| one.first < next.first && next.in_time)
    }

    /// The date that each line has.
    fn dates(&self, values: &[String]) -> Vec<Option<Date>> {
        let mut date = None;
        let of_line = |line: &String| {
            // A value may be a date itself.
            let mut rest = line.clone();
            for value in values.iter().filter(|value| !value.is_empty()) {
                rest = rest.replace(value, " ");
            }
            date = first_date(&rest).or(date);
            date
        };
        self.lines.iter().map(of_line).collect()
    }
}

/// Where a value stands.
struct Places {
    /// The line and the byte of its first standing.
    first: (usize, usize),
    /// The earliest date of its lines; `None` where one has none.
    earliest: Option<Date>,
    /// Whether a line of it has a word of time.
    in_time: bool,
}

impl Places {
    fn of(value: &str, lines: &[String], dates: &[Option<Date>]) -> Option<Self> {
        let standing = lines.iter().zip(dates).enumerate();
        let standing =
            standing.filter_map(|(n, (line, date))| Some((n, position(line, value)?, line, date)));
        let mut first = None;
        let mut earliest: Option<Option<Date>> = None;
        let mut in_time = false;
        for (n, at, line, date) in standing {
            first = first.or(Some((n, at)));
            earliest = Some(match (earliest, date) {
                (None, date) => *date,
                (Some(Some(earlier)), Some(date)) => Some(earlier.min(*date)),
                _ => None,
            });
            in_time |= TIME.iter().any(|word| found(line, word));
        }
        Some(Self {
            first: first?,
            earliest: earliest?,
            in_time,
        })
    }
}

/// Year, month, day and minutes of the day, as digits in one number; a day without a time begins
/// it.
type Date = u64;

/// The first date written `2031-03-01` or `2031/03/01` in a text, with the time that follows it
/// at most eight bytes on.
fn first_date(text: &str) -> Option<Date> {
    let bytes = text.as_bytes();
    let number = |at: usize, length: usize| {
        let digits = bytes.get(at..at + length)?;
        let value = |value: u64, digit: &u8| {
            digit
                .is_ascii_digit()
                .then(|| value * 10 + u64::from(digit - b'0'))
        };
        digits.iter().try_fold(0, value)
    };
    let mark = |at: usize, marks: &[u8]| bytes.get(at).is_some_and(|byte| marks.contains(byte));
    (0..bytes.len().saturating_sub(9)).find_map(|at| {
        let separated = mark(at + 4, b"-/") && mark(at + 7, b"-/");
        let day = (separated && (at == 0 || !bytes[at - 1].is_ascii_digit()))
            .then(|| Some(number(at, 4)? * 10_000 + number(at + 5, 2)? * 100 + number(at + 8, 2)?))
            .flatten()?;
        let time = (at + 11..at + 18).find_map(|at| {
            let hours = mark(at + 2, b":").then(|| number(at, 2)).flatten()?;
            Some(hours * 60 + number(at + 3, 2)?)
        });
        Some(day * 10_000 + time.unwrap_or(0))
    })
}

/// The sentences of a line.
fn sentences(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = [". ", "? ", "! "]
            .iter()
            .filter_map(|mark| text.find(mark))
            .min();
        let (sentence, after) = match end {
            Some(end) => (&text[..=end], Some(&text[end + 2..])),
            None => (text, None),
        };
        rest = after;
        Some(sentence)
    })
}

fn found(text: &str, wanted: &str) -> bool {
    position(text, wanted).is_some()
}

/// Where `wanted` first stands in `text` as whole words.
fn position(text: &str, wanted: &str) -> Option<usize> {
    let joins = |inner: Option<char>, outer: Option<char>| {
        inner.is_some_and(char::is_alphanumeric) && outer.is_some_and(char::is_alphanumeric)
    };
    if wanted.is_empty() {
        return None;
    }
    let stands = |at: &usize| {
        let (before, after) = (&text[..*at], &text[at + wanted.len()..]);
        !joins(wanted.chars().next(), before.chars().next_back())
            && !joins(wanted.chars().next_back(), after.chars().next())
    };
    text.match_indices(wanted).map(|(at, _)| at).find(stands)
}

/// NFKC, lower case, plain quotes and dashes, single spaces.
fn normal(text: &str) -> String {
    let text = text.trim();
    let is_tidy = |text: &str| {
        let other_space = |byte: u8| (b'\t'..=b'\r').contains(&byte);
        !text.bytes().any(other_space) && !text.contains("  ")
    };
    if text.is_ascii() && is_tidy(text) {
        return text.to_ascii_lowercase();
    }
    let mut normal = String::with_capacity(text.len());
    for c in text.nfkc().flat_map(char::to_lowercase) {
        let c = match c {
            '\u{2018}' | '\u{2019}' => '\'',
            '\u{201C}' | '\u{201D}' => '"',
            '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
            c if c.is_whitespace() => ' ',
            c => c,
        };
        if c != ' ' || !(normal.is_empty() || normal.ends_with(' ')) {
            normal.push(c);
        }
    }
    if normal.ends_with(' ') {
        normal.pop();
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn values_stand_as_whole_words_in_normalised_text() {
        let has = |text: &str, value: &str| {
            sufficiency(text, &Need::Values(&strings(&[value]))).sufficient()
        };
        assert!(has("It takes 10  MIN.", "10 min"));
        assert!(!has("It takes 110 minutes.", "10 min"));
        assert!(has(
            "user: \u{201C}Don\u{2019}t stop\u{201D} \u{2014} she said",
            "\"don't stop\" - she"
        ));
        assert!(has("the values\nstand over lines", "values stand"));
        assert!(has("\u{FB01}lter \u{212B}", "filter \u{E5}"));
        assert!(has("set 'C++' as it was", "c++"));
        assert!(!has("anything", " "));
        let none = sufficiency("anything", &Need::Values(&[]));
        assert!(!none.sufficient());
    }

    #[test]
    fn order_is_by_date_or_by_words_of_time() {
        let values = strings(&["Alva", "Brum", "Corv"]);
        let orders = |text: &str| {
            let found = sufficiency(text, &Need::History(&values));
            assert_eq!(found.value, Some(true));
            found.chronology == Some(true)
        };
        assert!(orders(
            "It was Alva.\nNow it is Brum.\nWe switched to Corv."
        ));
        assert!(orders("First Alva, then Brum, then Corv."));
        assert!(
            !orders("Alva, Brum, Corv"),
            "a bare list says nothing of order"
        );
        assert!(!orders(
            "Now it is Brum.\nIt was Alva.\nWe switched to Corv."
        ));
        // Dates order lines that stand in any order, and a heading dates what is below it.
        assert!(orders(
            "[2031-03-09 10:00] a: Corv\n[2031-03-01 09:00] a: Alva\n[2031-03-01 09:30] a: Brum"
        ));
        assert!(orders(
            "--- 1. s2, 2031/03/05 (Wed) 08:00 ---\nb: Brum\n--- 2. s1, 2031/03/02 ---\nAlva\n2031/03/07 Corv"
        ));
        assert!(!orders(
            "[2031-03-01] Alva\n[2031-03-01] Brum\n[2031-03-02] Corv"
        ));
        // A date that is a value dates nothing.
        let dates = strings(&["2031-05-01", "2031-04-01"]);
        let need = Need::History(&dates);
        let bare = sufficiency("due 2031-05-01\ndue 2031-04-01", &need);
        assert_eq!(bare.chronology, Some(false));
        let told = sufficiency("due 2031-05-01\nnow due 2031-04-01", &need);
        assert_eq!(told.chronology, Some(true));
        // One value of several has no order; a single one needs none.
        let only = sufficiency("It was Alva.", &Need::History(&values));
        assert_eq!((only.value, only.chronology), (Some(false), Some(false)));
        assert!(sufficiency("It was Alva.", &Need::History(&values[..1])).sufficient());
    }

    #[test]
    fn a_deletion_names_what_it_deletes() {
        let values = strings(&["Mr. Zhal"]);
        let target = Mention {
            label: "cat sitter",
            values: &values,
        };
        let deletes = |text: &str| sufficiency(text, &Need::Deletion(target)).sufficient();
        assert!(deletes("Please forget our cat sitter."));
        assert!(deletes(
            "My cat sitter is Zhal. Please remove that from your memory. Thoughts?"
        ));
        assert!(!deletes(
            "My cat sitter is Zhal. She is kind. Please remove the old rug."
        ));
        assert!(!deletes(
            "My cat sitter is Zhal.\nPlease forget the piano tuner."
        ));
        assert!(
            !deletes(""),
            "a value that is not there is not one that was removed"
        );
    }

    #[test]
    fn isolated_mentions_are_no_rule() {
        let (source, target) = (strings(&["Orvath"]), strings(&["tram"]));
        let said = strings(&["The tram comes with living in Orvath."]);
        let rule = |said| Rule {
            source: Mention {
                label: "home",
                values: &source,
            },
            target: Mention {
                label: "commute",
                values: &target,
            },
            said,
        };
        let states = |text: &str, said| {
            let rules = [rule(said)];
            let need = Need::Dependent {
                values: &target,
                rules: &rules,
                trigger: &source,
            };
            sufficiency(text, &need).rule == Some(true)
        };
        assert!(states("The tram depends on my home.", &[]));
        assert!(states("I take the tram because I live in Orvath.", &[]));
        assert!(!states(
            "My home is Orvath. If it rains I take the tram.",
            &[]
        ));
        assert!(!states("The tram comes with living in Orvath.", &[]));
        assert!(states("The tram comes with living in Orvath.", &said));
        let none = Need::Dependent {
            values: &target,
            rules: &[],
            trigger: &source,
        };
        assert_eq!(
            sufficiency("The tram depends on my home.", &none).rule,
            Some(false)
        );
    }
}
