//! Scores of benchmarks: from one row a judgment to the numbers of a table.
//!
//! What is expected is given apart from what was judged. The expected questions alone are the
//! denominator, so that a numerator cannot leave it, and every aggregate first checks that each of
//! them was judged as often as it should be, once a repetition: a judgment that is missing, doubled
//! or of an unknown question is an error that names it. Every [`Cell`] says how many questions and
//! judgments stand behind it and how many of these were unparsed or failed.
//!
//! Sums are over integers, or over numbers in ascending order, so the order of rows changes nothing.
//!
//! ```
//! use rawrag_scoring::aggregate::{Expected, LocomoCategory, Row, Rules, locomo};
//! use rawrag_scoring::judge::{Combine, Outcome, Policy};
//!
//! let expected = [Expected { key: "conv-1/0", group: LocomoCategory::Temporal }];
//! let rules = Rules { repetitions: 2, combine: Combine::Mean, policy: Policy::CountWrong };
//! let rows = [Outcome::Correct, Outcome::Wrong]
//!     .into_iter()
//!     .zip(0..)
//!     .map(|(outcome, repetition)| Row { key: "conv-1/0", repetition, outcome });
//! let score = locomo(&expected, rows, rules)?;
//! assert_eq!(score.overall.score(), Some(0.5));
//! # Ok::<(), rawrag_scoring::aggregate::AggregateError>(())
//! ```

use std::collections::BTreeMap;

use crate::judge::{Combine, Outcome, Policy};

/// A question that has to be judged, and the group it counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected<'a, G> {
    /// What identifies it, in the words that an error should use.
    pub key: &'a str,
    /// Its group.
    pub group: G,
}

/// One judgment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a, T = Outcome> {
    /// The question.
    pub key: &'a str,
    /// Which judgment of it, from 0.
    pub repetition: u32,
    /// What it says.
    pub outcome: T,
}

/// How judgments become scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Judgments a question.
    pub repetitions: u32,
    /// What becomes of the repetitions.
    pub combine: Combine,
    /// What unparsed and failed judgments count for.
    pub policy: Policy,
}

/// Why there is no aggregate.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum AggregateError {
    #[error("no repetition is asked for; ask for one at least")]
    NoRepetition,
    #[error("question {0} is expected twice; a key has to name one question")]
    ExpectedTwice(String),
    #[error(
        "{missing} of {expected} judgments are missing, the first of them repetition {repetition} \
         of question {key}; complete the run"
    )]
    Missing {
        key: String,
        repetition: u32,
        missing: usize,
        expected: usize,
    },
    #[error("repetition {repetition} of question {key} was judged twice; keep one")]
    Doubled { key: String, repetition: u32 },
    #[error("question {key} was judged and is not expected")]
    Unexpected { key: String },
    #[error(
        "question {key} has a repetition {repetition}; {repetitions} are expected, numbered from 0"
    )]
    Surplus {
        key: String,
        repetition: u32,
        repetitions: u32,
    },
    #[error(
        "question {key} counts only where the same was right before the change, and its partner \
         {partner} is not expected as a question before the change"
    )]
    NoPartner { key: String, partner: String },
    #[error("question {key} is scored {score}; a score lies between 0 and 1")]
    NoScore { key: String, score: f64 },
}

/// How many judgments said what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the outcomes'")]
pub struct Tally {
    pub correct: usize,
    pub wrong: usize,
    pub unparsed: usize,
    pub failed: usize,
}

impl Tally {
    /// All judgments.
    pub fn judgments(&self) -> usize {
        self.correct + self.wrong + self.unparsed + self.failed
    }

    fn add(&mut self, outcome: Outcome) {
        *match outcome {
            Outcome::Correct => &mut self.correct,
            Outcome::Wrong => &mut self.wrong,
            Outcome::Unparsed(_) => &mut self.unparsed,
            Outcome::Failed(_) => &mut self.failed,
        } += 1;
    }
}

/// The score of a group of questions, and what it rests on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    questions: usize,
    tally: Tally,
    gated: usize,
    /// Points earned and questions that count, by the number of judgments that count for each.
    earned: BTreeMap<u32, (u64, usize)>,
}

impl Cell {
    /// The questions of the group.
    pub fn questions(&self) -> usize {
        self.questions
    }

    /// Those of them that are in the denominator. Fewer than all only under [`Policy::Exclude`].
    pub fn counted(&self) -> usize {
        self.earned.values().map(|&(_, questions)| questions).sum()
    }

    /// The judgments of the group's questions.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Correct judgments that earn nothing, since what they presuppose was not right before the
    /// change (MEME); by majority, such questions. 0 for every other benchmark.
    pub fn gated(&self) -> usize {
        self.gated
    }

    /// The mean over the questions that count of what each earned, in \[0, 1\]; `None` if none
    /// counts.
    pub fn score(&self) -> Option<f64> {
        let counted = self.counted();
        let sum: f64 = self
            .earned
            .iter()
            .map(|(&judgments, &(points, _))| points as f64 / f64::from(judgments))
            .sum();
        (counted > 0).then(|| sum / counted as f64)
    }

    /// Adds a question by its judgments: whether each earned its point, or `None` where it does
    /// not count.
    fn add(&mut self, points: &[Option<bool>], combine: Combine) {
        self.questions += 1;
        let counting = points.iter().flatten().count() as u32;
        let earned = points.iter().flatten().filter(|&&point| point).count() as u32;
        let (judgments, earned) = match combine {
            Combine::Mean => (counting, earned),
            Combine::Majority => (1, u32::from(majority(points) == Some(true))),
        };
        if counting == 0 {
            return;
        }
        let (points, questions) = self.earned.entry(judgments).or_default();
        *points += u64::from(earned);
        *questions += 1;
    }

    fn tally_all(&mut self, outcomes: &[Outcome]) {
        for &outcome in outcomes {
            self.tally.add(outcome);
        }
    }
}

/// Categories of LoCoMo by the numbers in its file. Of the four namings in public code this is the
/// one that the release's counts confirm: 282, 321, 96, 841 and 446 questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names are the categories'")]
pub enum LocomoCategory {
    MultiHop,
    Temporal,
    OpenDomain,
    SingleHop,
    Adversarial,
}

impl LocomoCategory {
    /// All of them, by number.
    pub const ALL: [Self; 5] = [
        Self::MultiHop,
        Self::Temporal,
        Self::OpenDomain,
        Self::SingleHop,
        Self::Adversarial,
    ];

    /// Its number, from 1 to 5.
    pub fn number(self) -> u8 {
        self as u8 + 1
    }

    /// The category of a number; `None` unless it is from 1 to 5.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.number() == number)
    }
}

/// LoCoMo's scores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locomo {
    /// Categories 1 to 4 together, each question alike. Adversarial questions have no gold answer
    /// and are never part of it.
    pub overall: Cell,
    /// Each category that has questions, by number.
    pub categories: BTreeMap<LocomoCategory, Cell>,
}

/// LoCoMo: question-weighted over the repetitions (Raw-RAG, Appendices A.1 and G.3).
///
/// # Errors
/// When the judgments are not those expected.
pub fn locomo<'a>(
    expected: &[Expected<'a, LocomoCategory>],
    rows: impl IntoIterator<Item = Row<'a>>,
    rules: Rules,
) -> Result<Locomo, AggregateError> {
    let judged = Judged::complete(expected, rows, rules)?;
    Ok(Locomo {
        overall: judged.cell(|&category| category != LocomoCategory::Adversarial),
        categories: judged.cells(|&category| Some(category)),
    })
}

/// A question of LongMemEval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongMemEvalGroup<'a> {
    /// The type that its file gives it.
    pub kind: &'a str,
    /// Whether the history does not answer it: its id ends in `_abs`.
    pub abstention: bool,
}

impl<'a> LongMemEvalGroup<'a> {
    /// The group of a question by its type and id.
    pub fn new(kind: &'a str, id: &str) -> Self {
        Self {
            kind,
            abstention: id.ends_with("_abs"),
        }
    }
}

/// LongMemEval's scores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongMemEval {
    /// All questions (500 in the release).
    pub all: Cell,
    /// Those that the history answers (470; Raw-RAG, equation 1).
    pub answerable: Cell,
    /// Those that it does not (30), where saying so is right.
    pub abstention: Cell,
    /// All questions of each type.
    pub kinds: BTreeMap<String, Cell>,
    /// Of each type those that the history answers.
    pub answerable_kinds: BTreeMap<String, Cell>,
}

/// LongMemEval, with and without abstention (Raw-RAG, Appendix A.2).
///
/// # Errors
/// When the judgments are not those expected.
pub fn longmemeval<'a>(
    expected: &[Expected<'a, LongMemEvalGroup<'a>>],
    rows: impl IntoIterator<Item = Row<'a>>,
    rules: Rules,
) -> Result<LongMemEval, AggregateError> {
    let judged = Judged::complete(expected, rows, rules)?;
    Ok(LongMemEval {
        all: judged.cell(|_| true),
        answerable: judged.cell(|group| !group.abstention),
        abstention: judged.cell(|group| group.abstention),
        kinds: judged.cells(|group| Some(group.kind.to_owned())),
        answerable_kinds: judged.cells(|group| (!group.abstention).then(|| group.kind.to_owned())),
    })
}

/// MEME's tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names are the tasks'")]
pub enum MemeTask {
    ExactRecall,
    Aggregation,
    Tracking,
    Deletion,
    Cascade,
    Absence,
}

impl MemeTask {
    /// All of them, in the order of the tables.
    pub const ALL: [Self; 6] = [
        Self::ExactRecall,
        Self::Aggregation,
        Self::Tracking,
        Self::Deletion,
        Self::Cascade,
        Self::Absence,
    ];

    /// Whether a pass after the change counts only if the value was known before it.
    pub fn gated(self) -> bool {
        matches!(self, Self::Deletion | Self::Cascade | Self::Absence)
    }
}

/// A question of MEME.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemeGroup<'a> {
    /// Asked before the change; it gates its partner and has no score of its own.
    Before(MemeTask),
    /// Asked after the change.
    After {
        /// The task.
        task: MemeTask,
        /// The key of the same question before the change; needed by gated tasks alone.
        partner: Option<&'a str>,
    },
}

/// MEME's scores.
#[derive(Clone, Debug, PartialEq)]
pub struct Meme {
    /// The mean of the six tasks, each alike; `None` unless all six have a score.
    pub overall: Option<f64>,
    /// Each task's answers after the change.
    pub tasks: BTreeMap<MemeTask, Cell>,
    /// Each task's answers before the change, for diagnosis.
    pub before: BTreeMap<MemeTask, Cell>,
}

/// MEME: six tasks after the change, with the gate of what was right before it (Raw-RAG, Appendix
/// D.1.3).
///
/// A judgment after the change earns its point if that of the same repetition before it was correct
/// too; by majority, if both majorities are. Under [`Policy::Exclude`] a judgment counts only if
/// both do.
///
/// # Errors
/// When the judgments are not those expected, or a gated question has no partner before the change.
pub fn meme<'a>(
    expected: &[Expected<'a, MemeGroup<'a>>],
    rows: impl IntoIterator<Item = Row<'a>>,
    rules: Rules,
) -> Result<Meme, AggregateError> {
    let judged = Judged::complete(expected, rows, rules)?;
    let mut tasks: BTreeMap<MemeTask, Cell> = BTreeMap::new();
    for question in expected {
        let MemeGroup::After { task, partner } = question.group else {
            continue;
        };
        let outcomes = judged.outcomes(question.key);
        let cell = tasks.entry(task).or_default();
        cell.tally_all(outcomes);
        let after = judged.points(outcomes);
        if !task.gated() {
            cell.add(&after, rules.combine);
            continue;
        }
        let before = judged.points(judged.before(question.key, partner)?);
        let (after, before) = match rules.combine {
            Combine::Mean => (after, before),
            Combine::Majority => (vec![majority(&after)], vec![majority(&before)]),
        };
        let pairs = || after.iter().zip(&before);
        // Either of them not counting takes the pair out, whatever the other says.
        let passes = pairs().map(|(after, before)| after.zip(*before).map(|(a, b)| a && b));
        cell.gated += pairs()
            .filter(|&pair| pair == (&Some(true), &Some(false)))
            .count();
        cell.add(&passes.collect::<Vec<_>>(), rules.combine);
    }
    let scores: Option<Vec<f64>> = MemeTask::ALL
        .iter()
        .map(|task| tasks.get(task)?.score())
        .collect();
    Ok(Meme {
        overall: scores.map(|scores| mean(&scores)),
        tasks,
        before: judged.cells(|&group| match group {
            MemeGroup::Before(task) => Some(task),
            MemeGroup::After { .. } => None,
        }),
    })
}

/// PersonaMem's scores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonaMem {
    /// All questions, each alike.
    pub overall: Cell,
    /// Each scenario, by the name its file gives it.
    pub scenarios: BTreeMap<String, Cell>,
}

/// PersonaMem: accuracy of the letter chosen, by scenario (Raw-RAG, Appendix A.3). Groups are
/// scenarios.
///
/// # Errors
/// When the judgments are not those expected.
pub fn personamem<'a>(
    expected: &[Expected<'a, &'a str>],
    rows: impl IntoIterator<Item = Row<'a>>,
    rules: Rules,
) -> Result<PersonaMem, AggregateError> {
    let judged = Judged::complete(expected, rows, rules)?;
    Ok(PersonaMem {
        overall: judged.cell(|_| true),
        scenarios: judged.cells(|&scenario| Some(scenario.to_owned())),
    })
}

/// MemoryAgentBench's capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names are the capabilities'")]
pub enum Capability {
    AccurateRetrieval,
    TestTimeLearning,
    LongRangeUnderstanding,
    ConflictResolution,
}

impl Capability {
    /// All of them, in the order of the tables.
    pub const ALL: [Self; 4] = [
        Self::AccurateRetrieval,
        Self::TestTimeLearning,
        Self::LongRangeUnderstanding,
        Self::ConflictResolution,
    ];

    /// What it is called in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::AccurateRetrieval => "accurate retrieval",
            Self::TestTimeLearning => "test-time learning",
            Self::LongRangeUnderstanding => "long-range understanding",
            Self::ConflictResolution => "conflict resolution",
        }
    }
}

/// MemoryAgentBench's fourteen sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names are the sources'")]
pub enum Source {
    LongMemEval,
    EventQa,
    RulerQa1,
    RulerQa2,
    Banking77,
    Clinc150,
    Nlu,
    TrecCoarse,
    TrecFine,
    ReDial,
    DetectiveQa,
    InfBench,
    FactSingleHop,
    FactMultiHop,
}

impl Source {
    /// All of them, by capability.
    pub const ALL: [Self; 14] = [
        Self::LongMemEval,
        Self::EventQa,
        Self::RulerQa1,
        Self::RulerQa2,
        Self::Banking77,
        Self::Clinc150,
        Self::Nlu,
        Self::TrecCoarse,
        Self::TrecFine,
        Self::ReDial,
        Self::DetectiveQa,
        Self::InfBench,
        Self::FactSingleHop,
        Self::FactMultiHop,
    ];

    /// What it is a test of.
    pub fn capability(self) -> Capability {
        match self {
            Self::LongMemEval | Self::EventQa | Self::RulerQa1 | Self::RulerQa2 => {
                Capability::AccurateRetrieval
            }
            Self::Banking77
            | Self::Clinc150
            | Self::Nlu
            | Self::TrecCoarse
            | Self::TrecFine
            | Self::ReDial => Capability::TestTimeLearning,
            Self::DetectiveQa | Self::InfBench => Capability::LongRangeUnderstanding,
            Self::FactSingleHop | Self::FactMultiHop => Capability::ConflictResolution,
        }
    }

    /// Its share of the mean of the four capabilities (Raw-RAG, equation 6); all of them add up
    /// to 1.
    pub fn share(self) -> f64 {
        let of_capability = match self.capability() {
            Capability::AccurateRetrieval => 1.0 / 4.0,
            Capability::TestTimeLearning if self.in_context() => 1.0 / 10.0,
            Capability::TestTimeLearning => 1.0 / 2.0,
            Capability::LongRangeUnderstanding | Capability::ConflictResolution => 1.0 / 2.0,
        };
        of_capability / Capability::ALL.len() as f64
    }

    /// Whether it is one of the five sources of in-context classification.
    pub fn in_context(self) -> bool {
        self.capability() == Capability::TestTimeLearning && self != Self::ReDial
    }
}

/// What an answer is worth by its source's own metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mark {
    /// A score in \[0, 1\].
    Score(f64),
    /// The judge replied, and its reply holds no score.
    Unparsed,
    /// There is no reply, or no answer to score.
    Failed,
}

/// The mean mark of a source's questions, and what it rests on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MarkCell {
    /// Its questions.
    pub questions: usize,
    /// Those of them with a mark that counts.
    pub counted: usize,
    /// Marks that could not be read.
    pub unparsed: usize,
    /// Marks that there are none of.
    pub failed: usize,
    /// The mean over the questions that count of the mean of their marks, in \[0, 1\].
    pub score: Option<f64>,
}

/// MemoryAgentBench's scores.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryAgentBench {
    /// The mean of the four capabilities; `None` unless all four have a score.
    pub overall: Option<f64>,
    /// Each capability; `None` unless all of its sources have a score.
    pub capabilities: BTreeMap<Capability, Option<f64>>,
    /// Each source that has questions.
    pub sources: BTreeMap<Source, MarkCell>,
}

/// MemoryAgentBench: sources, then capabilities, then their mean, with the five classification
/// sources together weighing as much as ReDial (Raw-RAG, equation 6).
///
/// # Errors
/// When the marks are not those expected, or a score does not lie in \[0, 1\].
pub fn memoryagentbench<'a>(
    expected: &[Expected<'a, Source>],
    rows: impl IntoIterator<Item = Row<'a, Mark>>,
    repetitions: u32,
    policy: Policy,
) -> Result<MemoryAgentBench, AggregateError> {
    let rules = averaged(repetitions, policy);
    let judged = Judged::complete(expected, rows, rules)?;
    let sources = judged.marks(|source| Some(*source))?;
    let score = |source: &Source| sources.get(source)?.score;
    let capabilities = Capability::ALL
        .iter()
        .map(|&capability| (capability, capability_score(capability, score)));
    let capabilities: BTreeMap<Capability, Option<f64>> = capabilities.collect();
    let all: Option<Vec<f64>> = capabilities.values().copied().collect();
    Ok(MemoryAgentBench {
        overall: all.map(|scores| mean(&scores)),
        capabilities,
        sources,
    })
}

/// The marks of groups of questions.
#[derive(Clone, Debug, PartialEq)]
pub struct Marked<G> {
    /// All questions, each alike.
    pub overall: MarkCell,
    /// Each group that has questions.
    pub groups: BTreeMap<G, MarkCell>,
}

/// Questions that are marked rather than judged right or wrong (a lexical metric; BEAM's rubrics):
/// all of them and each group, every question alike.
///
/// # Errors
/// When the marks are not those expected, or a score does not lie in \[0, 1\].
pub fn marked<'a, G: Ord + Clone>(
    expected: &[Expected<'a, G>],
    rows: impl IntoIterator<Item = Row<'a, Mark>>,
    repetitions: u32,
    policy: Policy,
) -> Result<Marked<G>, AggregateError> {
    let judged = Judged::complete(expected, rows, averaged(repetitions, policy))?;
    let mut overall = judged.marks(|_| Some(()))?;
    Ok(Marked {
        overall: overall.remove(&()).unwrap_or_default(),
        groups: judged.marks(|group| Some(group.clone()))?,
    })
}

/// The judgments of groups of questions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgments<G> {
    /// All questions, each alike.
    pub overall: Cell,
    /// Each group that has questions.
    pub groups: BTreeMap<G, Cell>,
}

/// Questions of a benchmark without weights of its own: all of them and each group, every question
/// alike.
///
/// # Errors
/// When the judgments are not those expected.
pub fn grouped<'a, G: Ord + Clone>(
    expected: &[Expected<'a, G>],
    rows: impl IntoIterator<Item = Row<'a>>,
    rules: Rules,
) -> Result<Judgments<G>, AggregateError> {
    let judged = Judged::complete(expected, rows, rules)?;
    Ok(Judgments {
        overall: judged.cell(|_| true),
        groups: judged.cells(|group| Some(group.clone())),
    })
}

fn averaged(repetitions: u32, policy: Policy) -> Rules {
    Rules {
        repetitions,
        combine: Combine::Mean,
        policy,
    }
}

fn capability_score(capability: Capability, score: impl Fn(&Source) -> Option<f64>) -> Option<f64> {
    let of = |wanted: &dyn Fn(&Source) -> bool| -> Option<Vec<f64>> {
        let sources = Source::ALL.iter().filter(|source| wanted(source));
        sources.map(&score).collect()
    };
    if capability == Capability::TestTimeLearning {
        let in_context = of(&|source| source.in_context())?;
        Some(mean(&[score(&Source::ReDial)?, mean(&in_context)]))
    } else {
        Some(mean(&of(&|source| source.capability() == capability)?))
    }
}

/// The mean of some numbers, whatever their order; at least one.
fn mean(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.iter().sum::<f64>() / sorted.len() as f64
}

/// Whether more than half of the points that count are earned; `None` if none counts.
fn majority(points: &[Option<bool>]) -> Option<bool> {
    let counting = points.iter().flatten().count();
    let earned = points.iter().flatten().filter(|&&point| point).count();
    (counting > 0).then_some(2 * earned > counting)
}

/// Expected questions, each with all its judgments in the order of repetitions.
struct Judged<'e, 'a, G, T> {
    expected: &'e [Expected<'a, G>],
    outcomes: BTreeMap<&'a str, (&'e G, Vec<T>)>,
    rules: Rules,
}

impl<'e, 'a, G, T: Copy> Judged<'e, 'a, G, T> {
    fn complete(
        expected: &'e [Expected<'a, G>],
        rows: impl IntoIterator<Item = Row<'a, T>>,
        rules: Rules,
    ) -> Result<Self, AggregateError> {
        if rules.repetitions == 0 {
            return Err(AggregateError::NoRepetition);
        }
        let mut slots: BTreeMap<&'a str, (&'e G, Vec<Option<T>>)> = BTreeMap::new();
        for question in expected {
            let empty = vec![None; rules.repetitions as usize];
            if slots
                .insert(question.key, (&question.group, empty))
                .is_some()
            {
                return Err(AggregateError::ExpectedTwice(question.key.to_owned()));
            }
        }
        for row in rows {
            let key = || row.key.to_owned();
            let (_, judgments) = slots
                .get_mut(row.key)
                .ok_or_else(|| AggregateError::Unexpected { key: key() })?;
            let slot = judgments.get_mut(row.repetition as usize).ok_or_else(|| {
                AggregateError::Surplus {
                    key: key(),
                    repetition: row.repetition,
                    repetitions: rules.repetitions,
                }
            })?;
            if slot.replace(row.outcome).is_some() {
                return Err(AggregateError::Doubled {
                    key: key(),
                    repetition: row.repetition,
                });
            }
        }
        if let Some(error) = first_missing(expected, &slots, rules.repetitions) {
            return Err(error);
        }
        let full = slots
            .into_iter()
            .map(|(key, (group, slots))| (key, (group, slots.into_iter().flatten().collect())));
        Ok(Self {
            expected,
            outcomes: full.collect(),
            rules,
        })
    }

    /// The judgments of an expected question; none of another.
    fn outcomes(&self, key: &str) -> &[T] {
        self.outcomes.get(key).map_or(&[], |(_, outcomes)| outcomes)
    }
}

/// The first slot that is empty, in the order of what is expected.
fn first_missing<G, T>(
    expected: &[Expected<'_, G>],
    slots: &BTreeMap<&str, (&G, Vec<Option<T>>)>,
    repetitions: u32,
) -> Option<AggregateError> {
    let empty = |key: &str| {
        let judgments = slots.get(key).map_or(&[][..], |(_, judgments)| judgments);
        (0..)
            .zip(judgments)
            .filter(|(_, slot)| slot.is_none())
            .map(|(repetition, _)| repetition)
    };
    let mut missing = expected.iter().flat_map(|question| {
        let key = question.key;
        empty(key).map(move |repetition: u32| (key, repetition))
    });
    let (key, repetition) = missing.next()?;
    Some(AggregateError::Missing {
        key: key.to_owned(),
        repetition,
        missing: 1 + missing.count(),
        expected: expected.len() * repetitions as usize,
    })
}

impl<'a, G> Judged<'_, 'a, G, Mark> {
    /// The marks of the questions by their groups; those without one are left out.
    fn marks<K: Ord>(
        &self,
        group: impl Fn(&G) -> Option<K>,
    ) -> Result<BTreeMap<K, MarkCell>, AggregateError> {
        let mut groups: BTreeMap<K, (MarkCell, Vec<f64>)> = BTreeMap::new();
        for question in self.expected {
            let Some(key) = group(&question.group) else {
                continue;
            };
            let (cell, scores) = groups.entry(key).or_default();
            cell.questions += 1;
            let mut counting = Vec::new();
            for &mark in self.outcomes(question.key) {
                match mark {
                    Mark::Score(score) if (0.0..=1.0).contains(&score) => counting.push(score),
                    Mark::Score(score) => {
                        let key = question.key.to_owned();
                        return Err(AggregateError::NoScore { key, score });
                    }
                    Mark::Unparsed => cell.unparsed += 1,
                    Mark::Failed => cell.failed += 1,
                }
                if !matches!(mark, Mark::Score(_)) && self.rules.policy == Policy::CountWrong {
                    counting.push(0.0);
                }
            }
            if !counting.is_empty() {
                cell.counted += 1;
                scores.push(mean(&counting));
            }
        }
        let cells = groups.into_iter().map(|(key, (mut cell, scores))| {
            cell.score = (!scores.is_empty()).then(|| mean(&scores));
            (key, cell)
        });
        Ok(cells.collect())
    }
}

impl<'a, G> Judged<'_, 'a, G, Outcome> {
    /// Which judgments earn a point, and which do not count.
    fn points(&self, outcomes: &[Outcome]) -> Vec<Option<bool>> {
        let point = |outcome: &Outcome| match outcome {
            Outcome::Correct => Some(true),
            Outcome::Wrong => Some(false),
            Outcome::Unparsed(_) | Outcome::Failed(_) => match self.rules.policy {
                Policy::CountWrong => Some(false),
                Policy::Exclude => None,
            },
        };
        outcomes.iter().map(point).collect()
    }

    /// The questions of which this holds, together.
    fn cell(&self, wanted: impl Fn(&G) -> bool) -> Cell {
        self.cells(|group| wanted(group).then_some(()))
            .remove(&())
            .unwrap_or_default()
    }

    /// The questions by their groups; those without one are left out.
    fn cells<K: Ord>(&self, group: impl Fn(&G) -> Option<K>) -> BTreeMap<K, Cell> {
        let mut cells: BTreeMap<K, Cell> = BTreeMap::new();
        for question in self.expected {
            if let Some(key) = group(&question.group) {
                let outcomes = self.outcomes(question.key);
                let cell = cells.entry(key).or_default();
                cell.tally_all(outcomes);
                cell.add(&self.points(outcomes), self.rules.combine);
            }
        }
        cells
    }
}

impl<'a> Judged<'_, 'a, MemeGroup<'a>, Outcome> {
    /// The judgments of a gated question's partner before the change.
    fn before(&self, key: &str, partner: Option<&str>) -> Result<&[Outcome], AggregateError> {
        let found = partner.and_then(|partner| self.outcomes.get(partner));
        match found {
            Some((MemeGroup::Before(_), outcomes)) => Ok(outcomes),
            _ => Err(AggregateError::NoPartner {
                key: key.to_owned(),
                partner: partner.unwrap_or("(none named)").to_owned(),
            }),
        }
    }
}
