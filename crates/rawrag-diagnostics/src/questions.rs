//! What a question earned, whether its evidence suffices, and the questions of several runs side
//! by side: the numbers that most diagnostics begin with.
//!
//! An outcome is *graded* where a judge or assessor said something, *unparsed* where its reply
//! holds no grade, and *failed* where there was no reply. What the last two count for is a
//! [`Policy`]: by the paper's rule a failure scores 0 ([`Policy::CountWrong`]); under
//! [`Policy::Exclude`] it leaves numerator and denominator. How many there were is an [`Outcomes`],
//! which stands beside every number made of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;

use rawrag_records::{AssessmentOutcome, JudgmentOutcome, Key};
use rawrag_scoring::judge::Policy;

use crate::{DiagnosticError, Outputs, QuestionRecords, Settings};

/// A number of one question and what it rests on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored {
    /// A share between 0 and 1; `None` where nothing counts.
    pub value: Option<f64>,
    /// The outcomes behind it.
    pub outcomes: Outcomes,
}

/// How many judgments or assessments said something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// With a grade or an assessment.
    pub graded: u64,
    /// With a reply that holds none.
    pub unparsed: u64,
    /// Without a reply.
    pub failed: u64,
}

impl Outcomes {
    /// Those without a grade.
    pub fn ungraded(self) -> u64 {
        self.unparsed + self.failed
    }
}

impl AddAssign for Outcomes {
    fn add_assign(&mut self, other: Self) {
        self.graded += other.graded;
        self.unparsed += other.unparsed;
        self.failed += other.failed;
    }
}

/// The judge whose grades count: the one named, or the only one there is.
///
/// # Errors
/// [`DiagnosticError::NoSuch`], [`DiagnosticError::Ambiguous`], or [`DiagnosticError::Missing`]
/// where a run was not judged.
pub fn judge<'a>(
    diagnostic: &'static str,
    run: &'a Outputs,
    settings: &Settings,
) -> Result<&'a str, DiagnosticError> {
    let judgments = run.questions.iter().flat_map(|q| &q.judgments);
    let names = judgments.map(|j| j.judge.as_str()).collect();
    let named = settings.judge.as_deref();
    one_of(diagnostic, run, "judge", "judgments", named, &names)
}

/// The assessor whose assessments count: the one named, or the only one there is.
///
/// # Errors
/// As [`judge`].
pub fn assessor<'a>(
    diagnostic: &'static str,
    run: &'a Outputs,
    settings: &Settings,
) -> Result<&'a str, DiagnosticError> {
    let assessments = run.questions.iter().flat_map(|q| &q.assessments);
    let names = assessments.map(|a| a.assessor.as_str()).collect();
    let named = settings.assessor.as_deref();
    one_of(diagnostic, run, "assessor", "assessments", named, &names)
}

fn one_of<'a>(
    diagnostic: &'static str,
    run: &Outputs,
    what: &'static str,
    records: &'static str,
    named: Option<&str>,
    there: &BTreeSet<&'a str>,
) -> Result<&'a str, DiagnosticError> {
    let (name, names) = (run.manifest.name.clone(), || {
        there.iter().map(|&name| name.to_owned()).collect()
    });
    match (named, there.first()) {
        (_, None) => Err(DiagnosticError::Missing {
            diagnostic,
            need: records,
            run: name,
        }),
        (Some(named), _) => there
            .get(named)
            .copied()
            .ok_or_else(|| DiagnosticError::NoSuch {
                run: name,
                what,
                name: named.to_owned(),
                names: names(),
            }),
        (None, Some(&only)) if there.len() == 1 => Ok(only),
        (None, Some(_)) => Err(DiagnosticError::Ambiguous {
            run: name,
            what,
            names: names(),
        }),
    }
}

/// What a question's answers earned under a judge: the share of its judgments, of all its answers,
/// that are correct. Repeated judgments stay together in one number.
pub fn score(question: &QuestionRecords, judge: &str, policy: Policy) -> Scored {
    let of_judge = question.judgments.iter().filter(|j| j.judge == judge);
    let said = of_judge.map(|judgment| match judgment.outcome {
        JudgmentOutcome::Correct => Said::Yes,
        JudgmentOutcome::Wrong => Said::No,
        JudgmentOutcome::Unparsed => Said::Unparsed,
        JudgmentOutcome::Failed => Said::Failed,
    });
    share(said, policy)
}

/// What a question's answers are worth by its source's own metric, in \[0, 1\]: the mean of their
/// scores, or of right and wrong where a judgment has none.
pub fn mark(question: &QuestionRecords, judge: &str, policy: Policy) -> Option<f64> {
    let of_judge = question.judgments.iter().filter(|j| j.judge == judge);
    let marks = of_judge.filter_map(|judgment| match (judgment.outcome, policy) {
        (JudgmentOutcome::Correct, _) => Some(judgment.score.unwrap_or(1.0)),
        (JudgmentOutcome::Wrong, _) => Some(judgment.score.unwrap_or(0.0)),
        (_, Policy::CountWrong) => Some(0.0),
        (_, Policy::Exclude) => None,
    });
    let mut marks: Vec<f64> = marks.collect();
    marks.sort_unstable_by(f64::total_cmp);
    (!marks.is_empty()).then(|| marks.iter().sum::<f64>() / marks.len() as f64)
}

/// What an assessment may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aspect {
    /// Whether the evidence suffices.
    Sufficient,
    /// Whether it holds the result.
    Result,
    /// Whether it holds the whole path to the result.
    Path,
}

/// Whether a question's evidence has an aspect by an assessor: 1 where more than half of its
/// assessments say so, else 0. `None` where none speaks of it.
///
/// An assessment that was made and leaves the aspect out does not count under either policy: it
/// was not asked for.
pub fn assessed(
    question: &QuestionRecords,
    assessor: &str,
    aspect: Aspect,
    policy: Policy,
) -> Scored {
    let by = question
        .assessments
        .iter()
        .filter(|a| a.assessor == assessor);
    let said = by.filter_map(|assessment| {
        let says = match aspect {
            Aspect::Sufficient => assessment.sufficient,
            Aspect::Result => assessment.result,
            Aspect::Path => assessment.path,
        };
        match (assessment.outcome, says) {
            (AssessmentOutcome::Assessed, Some(true)) => Some(Said::Yes),
            (AssessmentOutcome::Assessed, Some(false)) => Some(Said::No),
            (AssessmentOutcome::Assessed, None) => None,
            (AssessmentOutcome::Unparsed, _) => Some(Said::Unparsed),
            (AssessmentOutcome::Failed, _) => Some(Said::Failed),
        }
    });
    let Scored { value, outcomes } = share(said, policy);
    let most = |share: f64| if share > 0.5 { 1.0 } else { 0.0 };
    Scored {
        value: value.map(most),
        outcomes,
    }
}

/// The questions of several runs side by side: all of the same keys, in their order.
#[derive(Debug)]
pub struct SideBySide<'a> {
    /// The questions' keys, ascending.
    pub keys: Vec<&'a Key>,
    /// For each run, in the order given, one question a key.
    pub runs: Vec<Vec<&'a QuestionRecords>>,
}

/// Puts the questions of runs side by side. Nothing is dropped: runs are compared on the same
/// questions or not at all.
///
/// # Errors
/// [`DiagnosticError::Incomparable`] names the first questions that one run has and another has
/// not.
pub fn side_by_side<'a>(runs: &[&'a Outputs]) -> Result<SideBySide<'a>, DiagnosticError> {
    let Some((first, rest)) = runs.split_first() else {
        return Ok(SideBySide {
            keys: Vec::new(),
            runs: Vec::new(),
        });
    };
    let keys = |run: &'a Outputs| run.questions.iter().map(|question| &question.key);
    for other in rest {
        let (a, b): (BTreeSet<&Key>, BTreeSet<&Key>) =
            (keys(first).collect(), keys(other).collect());
        for (has, lacks, missing) in [
            (first, other, a.difference(&b).collect::<Vec<_>>()),
            (other, first, b.difference(&a).collect()),
        ] {
            if let Some(missing) = named(&missing) {
                let lacks = &lacks.manifest.name;
                return Err(DiagnosticError::Incomparable {
                    a: first.manifest.name.clone(),
                    b: other.manifest.name.clone(),
                    problem: format!("{lacks} has no {missing}, which {} has", has.manifest.name),
                });
            }
        }
    }
    Ok(SideBySide {
        keys: keys(first).collect(),
        runs: runs
            .iter()
            .map(|run| run.questions.iter().collect())
            .collect(),
    })
}

/// Questions that count in every run, and what each run has of them.
pub(crate) struct Counted<'a, T> {
    /// Their places among all questions, ascending.
    pub(crate) at: Vec<usize>,
    /// Their keys.
    pub(crate) keys: Vec<&'a Key>,
    /// For each run, one value a question.
    pub(crate) runs: Vec<Vec<T>>,
}

impl<'a> SideBySide<'a> {
    /// The questions of which every run knows something: what `each` has of them, one list a run
    /// and one entry a question.
    pub(crate) fn counted<T: Copy>(&self, each: &[&[Option<T>]]) -> Counted<'a, T> {
        let known = |at: usize| {
            each.iter()
                .all(|run| run.get(at).is_some_and(Option::is_some))
        };
        let at: Vec<usize> = (0..self.keys.len()).filter(|&at| known(at)).collect();
        let of_run = |run: &&[Option<T>]| at.iter().filter_map(|&at| *run.get(at)?).collect();
        Counted {
            keys: at
                .iter()
                .filter_map(|&at| self.keys.get(at).copied())
                .collect(),
            runs: each.iter().map(of_run).collect(),
            at,
        }
    }
}

impl<T: Copy> Counted<'_, T> {
    /// Places among the questions that count, by group, groups in ascending order. `of` takes a
    /// place among all questions.
    pub(crate) fn grouped<G: Ord>(&self, of: impl Fn(usize) -> G) -> BTreeMap<G, Vec<usize>> {
        let mut groups: BTreeMap<G, Vec<usize>> = BTreeMap::new();
        for (place, &at) in self.at.iter().enumerate() {
            groups.entry(of(at)).or_default().push(place);
        }
        groups
    }
}

/// The first few of some keys, and how many more there are; `None` without any.
fn named(keys: &[&&Key]) -> Option<String> {
    const SHOWN: usize = 3;
    let shown: Vec<String> = keys.iter().take(SHOWN).map(ToString::to_string).collect();
    let more = keys.len().saturating_sub(SHOWN);
    (!shown.is_empty()).then(|| {
        let and_more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        format!("question {}{and_more}", shown.join(", "))
    })
}

/// A label for each question, equal where `of` is equal: what [`Scheme`](rawrag_statistics::Scheme)
/// takes for clusters and strata.
pub fn labels<T: Ord>(keys: &[&Key], of: impl Fn(&Key) -> T) -> Vec<usize> {
    let values: Vec<T> = keys.iter().map(|key| of(key)).collect();
    let mut numbers: BTreeMap<&T, usize> = BTreeMap::new();
    for value in &values {
        let next = numbers.len();
        numbers.entry(value).or_insert(next);
    }
    values
        .iter()
        .filter_map(|value| numbers.get(value).copied())
        .collect()
}

/// The conversation that a question belongs to: the cluster that it is drawn with. The same
/// conversation of two sources of a benchmark counts twice.
pub fn conversation(key: &Key) -> (&str, Option<&str>, &str) {
    (&key.benchmark, key.source.as_deref(), &key.conversation)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    Yes,
    No,
    Unparsed,
    Failed,
}

/// The share of yes among those that count.
fn share(said: impl Iterator<Item = Said>, policy: Policy) -> Scored {
    let mut outcomes = Outcomes::default();
    let mut yes = 0_u64;
    for said in said {
        *match said {
            Said::Yes | Said::No => &mut outcomes.graded,
            Said::Unparsed => &mut outcomes.unparsed,
            Said::Failed => &mut outcomes.failed,
        } += 1;
        yes += u64::from(said == Said::Yes);
    }
    let counting = match policy {
        Policy::CountWrong => outcomes.graded + outcomes.ungraded(),
        Policy::Exclude => outcomes.graded,
    };
    Scored {
        value: (counting > 0).then(|| yes as f64 / counting as f64),
        outcomes,
    }
}
