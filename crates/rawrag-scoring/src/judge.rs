//! Judges: which template a model is sent, how its reply is read, how often it is asked and what
//! becomes of the repetitions.
//!
//! A [`Judge`] is data. What a reply says is one of a closed set ([`Outcome`]): a reply that cannot
//! be read is *unparsed* and one that never came is *failed*, each with its reason, and neither is
//! ever read as an opinion. What they count for is decided once, by a named [`Policy`], where
//! outcomes are aggregated. Labels are compared as whole words or whole strings, so that INCORRECT
//! does not hold CORRECT, nor *yesterday* *yes*.
//!
//! ```
//! use rawrag_scoring::judge::{LOCOMO, Outcome, Reply, Unparsed};
//!
//! let reply = "The dates agree.\n{\"label\": \" correct \"}";
//! assert_eq!(LOCOMO.grade(Reply::Whole(reply)), Outcome::Correct);
//! let reply = "CORRECT";
//! assert_eq!(LOCOMO.grade(Reply::Whole(reply)), Outcome::Unparsed(Unparsed::Malformed));
//! ```

use crate::aggregate::MemeTask;
use crate::reply::{self, Object};

/// What a judge made of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// Graded as right.
    Correct,
    /// Graded as wrong.
    Wrong,
    /// The judge replied, and its reply holds no grade.
    Unparsed(Unparsed),
    /// There is no reply, or there was nothing to grade.
    Failed(Failure),
}

/// Why a reply holds no grade.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Unparsed {
    /// Nothing but white space.
    #[error("the reply is empty")]
    Empty,
    /// It ended at its maximum length, before what could be read.
    #[error("the reply was cut at its maximum length")]
    Cut,
    /// Where an object should be, the text is no JSON.
    #[error("the reply is no JSON")]
    Malformed,
    /// JSON, and no object.
    #[error("the reply is JSON and no object")]
    NoObject,
    /// The label or key looked for is not there.
    #[error("the reply has no label")]
    NoLabel,
    /// The label is there, and its value is none of those asked for.
    #[error("the reply has another label than those asked for")]
    OtherLabel,
    /// Two labels that contradict each other.
    #[error("the reply has two labels that contradict each other")]
    Conflicting,
    /// Parts of the reply that cannot be true together.
    #[error("parts of the reply cannot be true together")]
    Inconsistent,
}

/// Why there is no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Failure {
    /// The request to the judge failed for good.
    #[error("the judge's service failed")]
    Request,
    /// The service withheld the reply.
    #[error("the judge's service withheld the reply")]
    Filtered,
    /// There is no answer to grade.
    #[error("there is no answer to grade")]
    NoAnswer,
}

/// Why nothing could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(
    missing_docs,
    reason = "the two kinds are described where they are defined"
)]
pub enum Ungraded {
    #[error(transparent)]
    Unparsed(#[from] Unparsed),
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// What came back from a judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// A reply that ended by itself.
    Whole(&'a str),
    /// A reply that ended at its maximum length.
    Cut(&'a str),
    /// None.
    Failed(Failure),
}

/// What unparsed and failed judgments count for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// They are wrong answers: 0 in the numerator, 1 in the denominator. The rule of the Raw-RAG
    /// paper (Appendix G.3).
    CountWrong,
    /// They count in neither.
    Exclude,
}

/// What becomes of the judgments that one answer was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Combine {
    /// The share of them that are correct.
    Mean,
    /// 1 if more than half of them are correct, else 0.
    Majority,
}

/// How a judge's reply is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parser {
    /// The key `label` of an object with a value that is exactly `CORRECT` or `WRONG` once white
    /// space around it is gone and it is in upper case (Raw-RAG, Appendix G.3). The object is the
    /// first that fills a Markdown code block (tagged `json` or not), else the first without braces
    /// inside that has the quoted key with a string value, else the whole reply. The same key
    /// twice in it with different values is a conflict, of which the paper says nothing.
    Label,
    /// Exactly one of the words *yes* and *no* occurs.
    YesNo,
    /// Truth values of an object, found as [`Parser::Label`] finds it by its first key: correct if
    /// every key of `all` is true and every key of `none` false. A key that is missing or no truth
    /// value leaves the reply unparsed, whatever the others say.
    Checklist {
        /// Keys that have to be true; at least one.
        all: &'static [&'static str],
        /// Keys that have to be false.
        none: &'static [&'static str],
    },
}

/// A judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judge {
    /// What records call it.
    pub name: &'static str,
    /// The prompt it is sent, by its name in a set of prompts.
    pub template: &'static str,
    /// How its reply is read.
    pub parser: Parser,
    /// How often an answer is judged; at least 1.
    pub repetitions: u32,
    /// What becomes of the repetitions.
    pub combine: Combine,
}

impl Judge {
    /// Reads a reply.
    pub fn grade(&self, reply: Reply<'_>) -> Outcome {
        let graded = match self.parser {
            Parser::Label => label(reply),
            Parser::YesNo => reply::yes(reply),
            Parser::Checklist { all, none } => checklist(reply, all, none),
        };
        match graded {
            Ok(true) => Outcome::Correct,
            Ok(false) => Outcome::Wrong,
            Err(Ungraded::Unparsed(reason)) => Outcome::Unparsed(reason),
            Err(Ungraded::Failed(reason)) => Outcome::Failed(reason),
        }
    }

    /// The judge of a LongMemEval question, by the type its file gives it and by whether its id
    /// ends in `_abs`. `None` for a type that is none of the six.
    pub fn longmemeval(kind: &str, abstention: bool) -> Option<Self> {
        let template = match kind {
            "single-session-user" | "single-session-assistant" | "multi-session" => {
                "judge-longmemeval-fact"
            }
            "single-session-preference" => "judge-longmemeval-preference",
            "temporal-reasoning" => "judge-longmemeval-temporal",
            "knowledge-update" => "judge-longmemeval-update",
            _ => return None,
        };
        let template = if abstention {
            "judge-longmemeval-abstention"
        } else {
            template
        };
        Some(Self {
            name: "longmemeval",
            template,
            parser: Parser::YesNo,
            repetitions: 3,
            combine: Combine::Mean,
        })
    }

    /// The judge of a MEME question. Before the change, and for exact recall, one value is asked
    /// for, except that aggregation and tracking always ask for several.
    pub fn meme(task: MemeTask, after: bool) -> Self {
        match (task, after) {
            (MemeTask::Aggregation, _) => MEME_AGGREGATION,
            (MemeTask::Tracking, _) => MEME_TRACKING,
            (MemeTask::Deletion, true) => MEME_DELETION,
            (MemeTask::Cascade, true) => MEME_CASCADE,
            (MemeTask::Absence, true) => MEME_ABSENCE,
            _ => MEME_VALUE,
        }
    }
}

/// LoCoMo: three judgments an answer, their mean (Raw-RAG, Appendix G.3).
pub const LOCOMO: Judge = Judge {
    name: "locomo",
    template: "judge-locomo",
    parser: Parser::Label,
    repetitions: 3,
    combine: Combine::Mean,
};

/// Nano-Memory: yes or no, once (Nano-Memory, Appendix C).
pub const NANO_MEMORY: Judge = Judge {
    name: "nano-memory",
    template: "judge-nano-memory",
    parser: Parser::YesNo,
    repetitions: 1,
    combine: Combine::Mean,
};

/// MEME, one value: exact recall, and a single value before the change.
pub const MEME_VALUE: Judge = meme("judge-meme-value", &["value"], &[]);
/// MEME, aggregation: every value and none beside them.
pub const MEME_AGGREGATION: Judge = meme("judge-meme-aggregation", &["complete"], &["surplus"]);
/// MEME, tracking: the whole history, in its order, and nothing beside it.
pub const MEME_TRACKING: Judge = meme(
    "judge-meme-tracking",
    &["complete", "ordered"],
    &["surplus"],
);
/// MEME, deletion: acknowledged, and the deleted value not given away.
pub const MEME_DELETION: Judge = meme("judge-meme-deletion", &["acknowledged"], &["revealed"]);
/// MEME, cascade: the value that now holds, and not the one before it as present.
pub const MEME_CASCADE: Judge = meme("judge-meme-cascade", &["current"], &["stale"]);
/// MEME, absence: said to be uncertain, and no value put forward as present.
pub const MEME_ABSENCE: Judge = meme("judge-meme-absence", &["uncertain"], &["asserted"]);

const fn meme(
    template: &'static str,
    all: &'static [&'static str],
    none: &'static [&'static str],
) -> Judge {
    Judge {
        name: "meme",
        template,
        parser: Parser::Checklist { all, none },
        repetitions: 3,
        combine: Combine::Mean,
    }
}

/// What the sufficiency judge says (Raw-RAG, Appendix G.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sufficiency {
    /// The label: the excerpt is enough to derive the gold answer.
    pub answerable: bool,
    /// The judge's own grading, for diagnosis; absent where it is none of the four.
    pub support: Option<Support>,
}

/// How far an excerpt carries the gold answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the judge's words")]
pub enum Support {
    Sufficient,
    Partial,
    None,
    Contradictory,
}

/// Reads the reply to `assess-sufficiency`.
///
/// # Errors
/// When `answerable` is not there or no truth value, or there is no reply.
pub fn sufficiency(reply: Reply<'_>) -> Result<Sufficiency, Ungraded> {
    let object = truths(reply, "answerable")?;
    let support = match object.get("support").ok().and_then(|value| value.as_str()) {
        Some("sufficient") => Some(Support::Sufficient),
        Some("partial") => Some(Support::Partial),
        Some("none") => Some(Support::None),
        Some("contradictory") => Some(Support::Contradictory),
        _ => None,
    };
    Ok(Sufficiency {
        answerable: object.truth("answerable")?,
        support,
    })
}

/// What the task-aware audit of evidence says (Raw-RAG, Appendix G.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Audit {
    /// The contract of the task is met.
    pub sufficient: bool,
    /// Every value that the answer needs is there.
    pub value_complete: bool,
    /// The order of the values is established.
    pub temporal_chain: bool,
    /// A deletion is aimed at the target.
    pub deletion_targeted: bool,
    /// The rule of dependency is there.
    pub dependency_rule: bool,
    /// The state that sets it off is there.
    pub upstream_trigger_state: bool,
    /// Rule, trigger and target are connected.
    pub linked: bool,
}

/// Result and path coverage of a question of tracking or cascade after the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// Not all values are there.
    Neither,
    /// All values are there and the path to them is not.
    Result,
    /// All values and the path to them.
    ResultAndPath,
}

impl Audit {
    /// The pair that P(path | result) is computed from: `value_complete` is the result and
    /// `sufficient` the path. For tracking and cascade after the change only; a deleted or
    /// invalidated value is no result.
    ///
    /// # Errors
    /// When the path is there without the result, which is refused rather than counted.
    pub fn coverage(&self) -> Result<Coverage, Unparsed> {
        match (self.value_complete, self.sufficient) {
            (false, true) => Err(Unparsed::Inconsistent),
            (false, false) => Ok(Coverage::Neither),
            (true, false) => Ok(Coverage::Result),
            (true, true) => Ok(Coverage::ResultAndPath),
        }
    }
}

/// Reads the reply to `assess-result-path`.
///
/// # Errors
/// When one of the seven truth values is not there or is none, or there is no reply.
pub fn audit(reply: Reply<'_>) -> Result<Audit, Ungraded> {
    let object = truths(reply, "sufficient")?;
    Ok(Audit {
        sufficient: object.truth("sufficient")?,
        value_complete: object.truth("value_complete")?,
        temporal_chain: object.truth("temporal_chain")?,
        deletion_targeted: object.truth("deletion_targeted")?,
        dependency_rule: object.truth("dependency_rule")?,
        upstream_trigger_state: object.truth("upstream_trigger_state")?,
        linked: object.truth("linked")?,
    })
}

/// The prompt that grades a reply by one point of a rubric (BEAM).
pub const NUGGET: &str = "judge-beam-nugget";

/// Reads the reply to `judge-beam-nugget`: how far one point of a rubric is met, 0, 0.5 or 1. A
/// reply's score is the mean over the points.
///
/// BEAM's own program cuts 0.5 down to 0 for every type of question but event ordering; here it
/// counts as what its prompt says it is.
///
/// # Errors
/// When `score` is not there or none of the three, or there is no reply.
pub fn nugget(reply: Reply<'_>) -> Result<f64, Ungraded> {
    let object = counts(reply, "score")?;
    match object.get("score")?.as_f64() {
        Some(score) if [0.0, 0.5, 1.0].contains(&score) => Ok(score),
        _ => Err(Unparsed::OtherLabel.into()),
    }
}

/// The prompts of a summary's three counts, in the order of [`Summary::read`].
pub const SUMMARY: [&str; 3] = [
    "judge-summary-fluency",
    "judge-summary-recall",
    "judge-summary-precision",
];

/// The three counts that MemoryAgentBench scores a summary by (InfBench).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    fluent: bool,
    points: (u32, u32),
    sentences: (u32, u32),
}

impl Summary {
    /// Reads the replies to `judge-summary-fluency`, `-recall` (of `points` key points) and
    /// `-precision`.
    ///
    /// # Errors
    /// When one of them holds no number that was asked for, counts more than there are, or is not
    /// there. A summary of no sentence has no precision and is inconsistent, as is one judged by
    /// no key point.
    pub fn read(
        fluency: Reply<'_>,
        recall: Reply<'_>,
        precision: Reply<'_>,
        points: u32,
    ) -> Result<Self, Ungraded> {
        let fluent = match counts(fluency, "fluency")?.count("fluency")? {
            0 => false,
            1 => true,
            _ => return Err(Unparsed::OtherLabel.into()),
        };
        let covered = counts(recall, "supported")?.count("supported")?;
        let precision = counts(precision, "supported")?;
        let sentences = precision.count("sentences")?;
        let supported = precision.count("supported")?;
        if points == 0 || sentences == 0 || covered > points || supported > sentences {
            return Err(Unparsed::Inconsistent.into());
        }
        Ok(Self {
            fluent,
            points: (covered, points),
            sentences: (supported, sentences),
        })
    }

    /// The harmonic mean of the share of key points covered and the share of sentences supported,
    /// in \[0, 1\]; 0 for a summary that is not fluent.
    pub fn score(&self) -> f64 {
        let share = |(part, of): (u32, u32)| f64::from(part) / f64::from(of);
        let (recall, precision) = (share(self.points), share(self.sentences));
        if !self.fluent || recall + precision == 0.0 {
            0.0
        } else {
            2.0 * recall * precision / (recall + precision)
        }
    }
}

fn label(reply: Reply<'_>) -> Result<bool, Ungraded> {
    let object = reply::object(reply, "label", |c| c == '"')?;
    let label = object.get("label")?.as_str().ok_or(Unparsed::OtherLabel)?;
    match label.trim().to_uppercase().as_str() {
        "CORRECT" => Ok(true),
        "WRONG" => Ok(false),
        _ => Err(Unparsed::OtherLabel.into()),
    }
}

fn checklist(reply: Reply<'_>, all: &[&str], none: &[&str]) -> Result<bool, Ungraded> {
    let object = truths(reply, all.first().copied().unwrap_or_default())?;
    let mut correct = true;
    for (keys, wanted) in [(all, true), (none, false)] {
        for key in keys {
            correct &= object.truth(key)? == wanted;
        }
    }
    Ok(correct)
}

fn truths(reply: Reply<'_>, key: &str) -> Result<Object, Ungraded> {
    reply::object(reply, key, |c| matches!(c, 't' | 'f'))
}

fn counts(reply: Reply<'_>, key: &str) -> Result<Object, Ungraded> {
    reply::object(reply, key, |c| c.is_ascii_digit())
}
