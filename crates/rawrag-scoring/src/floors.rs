//! What is scored without any memory: a system that always abstains, one that guesses a letter, one
//! that retrieves at random. A measured score under its floor is a broken run.
//!
//! The scores of always abstaining are the benchmarks' own aggregates over the outcomes that such a
//! system would get, so that gates and weights are the same.

use crate::aggregate::{
    AggregateError, Expected, Locomo, LocomoCategory, LongMemEval, LongMemEvalGroup, Mark, Meme,
    MemeGroup, MemeTask, MemoryAgentBench, PersonaMem, Row, Rules, Source, locomo, longmemeval,
    meme, memoryagentbench, personamem,
};
use crate::judge::{Combine, Outcome, Policy};

const ONCE: Rules = Rules {
    repetitions: 1,
    combine: Combine::Mean,
    policy: Policy::CountWrong,
};

/// LoCoMo, always abstaining: wrong in categories 1 to 4, right on adversarial questions.
///
/// # Errors
/// When a question is expected twice.
pub fn abstaining_locomo(
    expected: &[Expected<'_, LocomoCategory>],
) -> Result<Locomo, AggregateError> {
    let right = |category: &LocomoCategory| *category == LocomoCategory::Adversarial;
    locomo(expected, outcomes(expected, right), ONCE)
}

/// LongMemEval, always abstaining: right where the history does not answer (30 of 500, so 6 %).
///
/// # Errors
/// When a question is expected twice.
pub fn abstaining_longmemeval(
    expected: &[Expected<'_, LongMemEvalGroup<'_>>],
) -> Result<LongMemEval, AggregateError> {
    longmemeval(expected, outcomes(expected, |group| group.abstention), ONCE)
}

/// MEME, always saying that the information is not there: right for an absence after the change,
/// which the gate takes back, since the value before it was not known. It acknowledges no
/// deletion.
///
/// # Errors
/// When a question is expected twice, or a gated one has no partner before the change.
pub fn abstaining_meme(expected: &[Expected<'_, MemeGroup<'_>>]) -> Result<Meme, AggregateError> {
    let right = |group: &MemeGroup<'_>| {
        let task = MemeTask::Absence;
        matches!(group, MemeGroup::After { task: t, .. } if *t == task)
    };
    meme(expected, outcomes(expected, right), ONCE)
}

/// PersonaMem, never naming a letter: always wrong.
///
/// # Errors
/// When a question is expected twice.
pub fn abstaining_personamem(
    expected: &[Expected<'_, &str>],
) -> Result<PersonaMem, AggregateError> {
    personamem(expected, outcomes(expected, |_| false), ONCE)
}

/// MemoryAgentBench, always abstaining: 0 under every metric of its sources. Questions of its
/// LongMemEval source that the history does not answer are those of `abstention`, by key; there it
/// is right.
///
/// # Errors
/// When a question is expected twice.
pub fn abstaining_memoryagentbench(
    expected: &[Expected<'_, Source>],
    abstention: impl Fn(&str) -> bool,
) -> Result<MemoryAgentBench, AggregateError> {
    let rows = expected.iter().map(|question| {
        let right = question.group == Source::LongMemEval && abstention(question.key);
        Row {
            key: question.key,
            repetition: 0,
            outcome: Mark::Score(f64::from(u8::from(right))),
        }
    });
    memoryagentbench(expected, rows, 1, Policy::CountWrong)
}

/// The expected score of a letter drawn at random, from how many options each question has; `None`
/// without questions. A question without options cannot be guessed.
pub fn guessing(options: &[u32]) -> Option<f64> {
    let mut counts = options.to_vec();
    counts.sort_unstable();
    let chances = counts
        .iter()
        .map(|&n| if n == 0 { 0.0 } else { 1.0 / f64::from(n) });
    (!counts.is_empty()).then(|| chances.sum::<f64>() / counts.len() as f64)
}

/// The expected recall of units drawn at random.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomRecall {
    /// The chance that at least one gold unit is drawn.
    pub any: f64,
    /// The chance that all are.
    pub all: f64,
    /// The expected share of them.
    pub share: f64,
}

/// The recall of one question's `gold` units when `drawn` of `units` are drawn without replacement:
/// messages, chunks or sessions alike. A benchmark's floor is its mean over the questions.
///
/// The number of gold units drawn is hypergeometric, so that *any* is
/// 1 - C(units - gold, drawn) / C(units, drawn), *all* is
/// C(units - gold, drawn - gold) / C(units, drawn), and the share is drawn / units. They are
/// computed as products over the gold units, without large binomials. More drawn than there are
/// draws all. `None` without gold units, or with more than there are units.
///
/// ```
/// use rawrag_scoring::floors::random_recall;
///
/// // Two of the four sessions hold evidence, and one session is drawn.
/// let floor = random_recall(4, 2, 1).unwrap();
/// assert_eq!((floor.any, floor.all, floor.share), (0.5, 0.0, 0.25));
/// ```
pub fn random_recall(units: u32, gold: u32, drawn: u32) -> Option<RandomRecall> {
    if gold == 0 || gold > units {
        return None;
    }
    let drawn = drawn.min(units);
    let product = |pool: u32| -> f64 {
        (0..gold)
            .map(|taken| f64::from(pool.saturating_sub(taken)) / f64::from(units - taken))
            .product()
    };
    Some(RandomRecall {
        any: 1.0 - product(units - drawn),
        all: product(drawn),
        share: f64::from(drawn) / f64::from(units),
    })
}

fn outcomes<'a, G>(
    expected: &[Expected<'a, G>],
    right: impl Fn(&G) -> bool,
) -> impl Iterator<Item = Row<'a>> {
    expected.iter().map(move |question| Row {
        key: question.key,
        repetition: 0,
        outcome: if right(&question.group) {
            Outcome::Correct
        } else {
            Outcome::Wrong
        },
    })
}
