//! A reader that knows the sentences of the generator and nothing else.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use sha2::{Digest, Sha256};

use super::sentences::questions::{self, Wanted};
use super::sentences::{Said, sentences};
use super::{facts, labels};
use crate::{Answer, Gold, Question, Timestamp};

/// What the reader says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// These values.
    Values(Vec<String>),
    /// That it does not have that information.
    NoInformation,
}

impl Reply {
    const NO_INFORMATION: &str = "I don't have that information.";
    const BETWEEN: &str = "; ";

    /// Reads back what [`Display`](fmt::Display) writes.
    pub fn read(text: &str) -> Self {
        if text == Self::NO_INFORMATION {
            return Self::NoInformation;
        }
        Self::Values(text.split(Self::BETWEEN).map(str::to_owned).collect())
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Values(values) => f.write_str(&values.join(Self::BETWEEN)),
            Self::NoInformation => f.write_str(Self::NO_INFORMATION),
        }
    }
}

/// Answers a synthetic question from evidence, by the generator's sentences alone. It uses
/// nothing but these two texts.
///
/// A sentence counts where it stands whole. Facts are put in order by the dates in the evidence
/// (`[2031-03-01 09:00]` ahead of a line, or any date in a heading), or by where they stand if a
/// fact has none. An entity whose upstream changed has the value that was declared in advance, or
/// none.
pub fn answer_from(evidence: &str, question: &str) -> Reply {
    let values = if let Some(wanted) = questions::read(question) {
        Heard::new(evidence).answer(&wanted)
    } else if let Some((relations, subject)) = facts::read_question(question) {
        newest(evidence, &relations, subject).into_iter().collect()
    } else if let Some(line) = labels::read_question(question) {
        label(evidence, line).into_iter().collect()
    } else {
        Vec::new()
    };
    if values.is_empty() {
        return Reply::NoInformation;
    }
    Reply::Values(values)
}

/// Whether a reply is the question's gold answer. Where several values are wanted, tracking wants
/// them in order. A question without a gold answer of these kinds has no right reply.
pub fn is_right(question: &Question, reply: &Reply) -> bool {
    match (&question.gold, reply) {
        (Some(Gold::Abstention { .. }), reply) => *reply == Reply::NoInformation,
        (Some(Gold::Answer(Answer::List(gold))), Reply::Values(values)) => {
            let (mut gold, mut values) = (gold.clone(), values.clone());
            if question.kind.as_str() != crate::meme::Task::Tracking.name() {
                gold.sort_unstable();
                values.sort_unstable();
            }
            gold == values
        }
        (Some(Gold::Answer(Answer::Text(gold) | Answer::Number(gold))), Reply::Values(values)) => {
            values == std::slice::from_ref(gold)
        }
        _ => false,
    }
}

/// A reader that errs at a known rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reader {
    seed: u64,
    error_rate: f64,
}

impl Reader {
    /// A reader that errs on this share of questions, 0 to 1. On which ones depends on the seed
    /// and the question alone. `None` where it is no share.
    pub fn new(seed: u64, error_rate: f64) -> Option<Self> {
        let is_share = (0.0..=1.0).contains(&error_rate);
        is_share.then_some(Self { seed, error_rate })
    }

    /// As [`answer_from`], unless it errs on this question: then its reply is never right.
    pub fn answer(&self, evidence: &str, question: &Question) -> Reply {
        if self.errs(question) {
            return Reply::Values(vec!["misread".to_owned()]);
        }
        answer_from(evidence, &question.text)
    }

    /// Whether it errs on this question.
    pub fn errs(&self, question: &Question) -> bool {
        let key = format!(
            "{} {} {} {:?}",
            self.seed, question.conversation, question.id, question.phase
        );
        let hash = Sha256::digest(key.as_bytes());
        let word = hash
            .iter()
            .take(8)
            .fold(0_u64, |word, &byte| word << 8 | u64::from(byte));
        // 53 bits: what a f64 holds exactly.
        ((word >> 11) as f64) < self.error_rate * (1_u64 << 53) as f64
    }
}

/// What was said, oldest first.
struct Heard<'a>(Vec<Said<'a>>);

impl<'a> Heard<'a> {
    fn new(evidence: &'a str) -> Self {
        let mut date = None;
        let mut heard: Vec<(Option<Timestamp>, Said<'_>)> = Vec::new();
        for line in evidence.lines() {
            date = written_date(line).or(date);
            let said = sentences(line).filter_map(Said::read);
            heard.extend(said.map(|said| (date.and_then(|date| date.parse().ok()), said)));
        }
        if heard.iter().all(|(date, _)| date.is_some()) {
            // Stable: what has one date stays in the order of the text.
            heard.sort_by_key(|(date, _)| *date);
        }
        Self(heard.into_iter().map(|(_, said)| said).collect())
    }

    fn answer(&self, wanted: &Wanted<'_>) -> Vec<String> {
        match *wanted {
            Wanted::Current(label) => self.current(label).map(str::to_owned).into_iter().collect(),
            Wanted::History(label) => {
                let mut history: Vec<String> = Vec::new();
                for value in self.values(label) {
                    // Evidence may repeat a message.
                    if !history.iter().any(|earlier| earlier == value) {
                        history.push(value.to_owned());
                    }
                }
                history
            }
            Wanted::Topic(topic) => {
                let mut labels: Vec<&str> = Vec::new();
                for said in &self.0 {
                    if let Said::Value { label, .. } = said
                        && label
                            .strip_prefix(topic)
                            .is_some_and(|rest| rest.starts_with(' '))
                        && !labels.contains(label)
                    {
                        labels.push(label);
                    }
                }
                let current = labels.iter().filter_map(|label| self.current(label));
                current.map(str::to_owned).collect()
            }
        }
    }

    /// Every value that an entity was given, oldest first.
    fn values<'s>(&'s self, of: &'s str) -> impl Iterator<Item = &'a str> + 's {
        self.0.iter().filter_map(move |said| match *said {
            Said::Value { label, value } | Said::Change { label, value } if label == of => {
                Some(value)
            }
            _ => None,
        })
    }

    fn current(&self, of: &str) -> Option<&'a str> {
        let is_removed = |said: &Said<'_>| matches!(said, Said::Removed { label } if *label == of);
        if self.0.iter().any(is_removed) {
            return None;
        }
        if !self.upstream_changed(of, DEEPEST) {
            return self.values(of).last();
        }
        self.0.iter().find_map(|said| match *said {
            Said::StandIn { label, value } if label == of => Some(value),
            _ => None,
        })
    }

    /// Whether something that an entity depends on has changed.
    fn upstream_changed(&self, of: &str, deepest: u32) -> bool {
        deepest > 0
            && self.0.iter().any(|said| match *said {
                Said::Depends { label, source } if label == of => {
                    let changed = |said: &Said<'_>| {
                        matches!(said, Said::Change { label, .. } if *label == source)
                    };
                    self.0.iter().any(changed) || self.upstream_changed(source, deepest - 1)
                }
                _ => false,
            })
    }
}

/// How many dependencies are followed: episodes have two, and text may hold a circle of them.
const DEEPEST: u32 = 4;

/// A date as written, in the brackets that a line begins with or in a heading
/// (`--- 1. s0001, 2031-03-01 09:00 ---`).
fn written_date(line: &str) -> Option<&str> {
    let date = match line.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?.0,
        None => {
            let heading = line.strip_prefix("--- ")?.strip_suffix(" ---")?;
            let (_, date) = heading.split_once(", ")?;
            date.split_once(" to ").map_or(date, |(date, _)| date)
        }
    };
    // A name may stand in such brackets too.
    date.starts_with(|c: char| c.is_ascii_digit())
        .then_some(date)
}

/// Follows relations from a thing, the newest fact for each.
fn newest(evidence: &str, relations: &[&str], subject: &str) -> Option<String> {
    let mut facts: HashMap<(&str, &str), (u64, &str)> = HashMap::new();
    for (number, relation, subject, object) in evidence.lines().filter_map(facts::read_fact) {
        let known = facts.entry((relation, subject)).or_insert((number, object));
        if number >= known.0 {
            *known = (number, object);
        }
    }
    let mut at = subject;
    for relation in relations {
        at = facts.get(&(*relation, at))?.1;
    }
    Some(at.to_owned())
}

/// The label that most lines with a word of this line have; of several, the smallest.
fn label(evidence: &str, asked: &str) -> Option<String> {
    let wanted: Vec<&str> = labels::cues(asked).collect();
    let mut votes: BTreeMap<u32, u32> = BTreeMap::new();
    for (text, label) in evidence.lines().filter_map(labels::read_line) {
        if labels::cues(text).any(|cue| wanted.contains(&cue)) {
            *votes.entry(label).or_default() += 1;
        }
    }
    let most = votes.values().max()?;
    let (label, _) = votes.iter().find(|(_, count)| *count == most)?;
    Some(label.to_string())
}
