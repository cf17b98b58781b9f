//! What a graded run scores: each benchmark's own aggregate over the run's records, what each number
//! rests on, and what a system without memory would get.
//!
//! The records alone decide the scores. Two floors need the data too ([`Known`]): how many options a
//! question has, and which questions have no answer where the record does not say so.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use rawrag_corpus::synthetic::Family;
use rawrag_corpus::{Errata, Gold, LoadError, Question, QuestionId};
use rawrag_records::{History, Judgment, JudgmentOutcome, Key, Phase, RecordError, Retrieval, Run};
use rawrag_scoring::aggregate::{
    AggregateError, Capability, Cell, Expected, LocomoCategory, LongMemEvalGroup, Mark, Meme,
    MemeGroup, MemeTask, Row, Rules, Source, grouped, locomo, longmemeval, marked, meme,
    memoryagentbench, personamem,
};
use rawrag_scoring::floors::{self, random_recall};
use rawrag_scoring::judge::{Combine, Failure, Outcome, Policy, Unparsed};
use serde::Serialize;

use crate::pipeline::key;

/// What the data says of questions, beyond the records.
#[derive(Clone, Debug, Default)]
pub struct Known {
    options: HashMap<Key, u32>,
    unanswerable: HashSet<Key>,
}

impl Known {
    /// Takes note of a question.
    pub fn add(&mut self, question: &Question) {
        if !question.options.is_empty() {
            self.options
                .insert(key(question), question.options.len() as u32);
        }
        if matches!(
            question.gold,
            Some(Gold::Abstention { .. } | Gold::Adversarial { answer: None, .. })
        ) {
            self.unanswerable.insert(key(question));
        }
    }
}

/// The scores of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scores {
    /// The run.
    pub run: String,
    /// The system's name.
    pub system: String,
    /// The benchmark's name.
    pub benchmark: String,
    /// What unparsed and failed judgments count for: `wrong` or `excluded`.
    pub unread: &'static str,
    /// One a judge, by name.
    pub judges: Vec<JudgeScores>,
    /// How much of the gold evidence was shown, where the run says.
    pub evidence: Vec<Shown>,
    /// What casts doubt on the numbers.
    pub warnings: Vec<String>,
    /// Whether an overall score lies below that of always abstaining.
    pub below_floor: bool,
}

/// What the grades of one judge come to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JudgeScores {
    /// Its name.
    pub judge: String,
    /// Answers to a question.
    pub answers: u32,
    /// Grades of an answer.
    pub grades: u32,
    /// The overall score first.
    pub lines: Vec<Line>,
}

/// A number and what it rests on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// What is scored.
    pub label: String,
    /// In \[0, 1\]; `None` where it is undefined.
    pub score: Option<f64>,
    /// Its questions.
    pub questions: usize,
    /// Grades that say right, in full.
    pub correct: usize,
    /// Grades that say less.
    pub wrong: usize,
    /// Grades that could not be read.
    pub unparsed: usize,
    /// Grades that there are none of.
    pub failed: usize,
    /// Right grades that count for nothing, since what they presuppose was not known before the
    /// change (MEME).
    pub gated: usize,
    /// The score of always abstaining.
    pub abstaining: Option<f64>,
    /// The score expected of a letter drawn at random.
    pub random: Option<f64>,
    /// Why there is no score.
    pub undefined: Option<&'static str>,
}

/// How often the gold evidence was shown, beside as many units drawn at random.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shown {
    /// `messages` or `sessions`.
    pub unit: &'static str,
    /// Questions with gold evidence.
    pub questions: usize,
    /// Share of them with any of it shown.
    pub any: Option<f64>,
    /// Share with all of it.
    pub all: Option<f64>,
    /// The same of a random draw.
    pub random_any: Option<f64>,
    /// The same of a random draw.
    pub random_all: Option<f64>,
}

/// Why a run has no scores.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScoreError {
    /// The records cannot be read, or are not complete.
    #[error(transparent)]
    Records(#[from] RecordError),
    /// Nobody graded the answers.
    #[error(
        "{0} has no judge; add one with `rawrag rejudge`, or [[judges]] to the experiment and run it \
         again"
    )]
    Ungraded(String),
    /// The judgments do not add up.
    #[error(transparent)]
    Aggregate(#[from] AggregateError),
    /// The list of wrong gold answers cannot be read.
    #[error(transparent)]
    Errata(#[from] LoadError),
    /// A question is of no group that its benchmark has.
    #[error("{key}: {problem}")]
    Group {
        /// The question.
        key: Box<Key>,
        /// What is unknown.
        problem: &'static str,
    },
    /// A benchmark that is none.
    #[error("the run is on {0}, whose scores are not known here")]
    Benchmark(String),
}

/// The scores of a run that is complete.
///
/// # Errors
/// [`ScoreError`]; a run with a record missing has no scores.
pub fn of(run: &Run, known: Option<&Known>, policy: Policy) -> Result<Scores, ScoreError> {
    let records = run.read_complete()?;
    let manifest = run.manifest();
    let expected = &manifest.expected;
    if expected.judgments.is_empty() {
        return Err(ScoreError::Ungraded(manifest.name.clone()));
    }
    let mut scores = Scores {
        run: manifest.name.clone(),
        system: manifest.system.name.clone(),
        benchmark: manifest.benchmark.clone(),
        unread: match policy {
            Policy::CountWrong => "wrong",
            Policy::Exclude => "excluded",
        },
        judges: Vec::new(),
        evidence: shown(&records.retrievals, &records.histories),
        warnings: Vec::new(),
        below_floor: false,
    };
    for (judge, &grades) in &expected.judgments {
        let judgments = records.judgments.iter().filter(|j| j.judge == *judge);
        let graded = Graded {
            items: items(judgments, grades),
            repetitions: expected.answers * grades,
            policy,
            known,
        };
        let (lines, warnings) = graded.lines(&manifest.benchmark)?;
        let name = |warning: String| format!("judge {judge}: {warning}");
        scores.warnings.extend(warnings.into_iter().map(name));
        if let Some(overall) = lines.first()
            && let (Some(score), Some(floor)) = (overall.score, overall.abstaining)
            && score < floor
        {
            scores.below_floor = true;
            scores.warnings.push(format!(
                "judge {judge}: {} is below what always abstaining scores; the run is broken",
                overall.label
            ));
        }
        scores.judges.push(JudgeScores {
            judge: judge.clone(),
            answers: expected.answers,
            grades,
            lines,
        });
    }
    Ok(scores)
}

/// A question with all its grades by one judge.
struct Item {
    key: Key,
    /// The key in words, which aggregates name.
    name: String,
    kind: String,
    /// Which grade, and what it is.
    grades: Vec<(u32, JudgmentOutcome, Option<f64>)>,
}

fn items<'a>(judgments: impl Iterator<Item = &'a Judgment>, grades: u32) -> Vec<Item> {
    let mut items: BTreeMap<Key, Item> = BTreeMap::new();
    for judgment in judgments {
        let key = judgment.question_key();
        let item = items.entry(key.clone()).or_insert_with(|| Item {
            name: key.to_string(),
            key,
            kind: judgment.kind.clone(),
            grades: Vec::new(),
        });
        let at = judgment.repetition * grades + judgment.judge_repetition;
        item.grades.push((at, judgment.outcome, judgment.score));
    }
    items.into_values().collect()
}

struct Graded<'a> {
    items: Vec<Item>,
    repetitions: u32,
    policy: Policy,
    known: Option<&'a Known>,
}

type Lines = (Vec<Line>, Vec<String>);

impl Graded<'_> {
    fn lines(&self, benchmark: &str) -> Result<Lines, ScoreError> {
        match benchmark {
            "locomo" => self.locomo(),
            "longmemeval" => self.longmemeval(),
            "meme" => Ok((self.meme(|_| true)?, Vec::new())),
            "memoryagentbench" => self.memoryagentbench(),
            "personamem" => self.personamem(),
            "beam" | "own" | "long-mt-bench-plus" => {
                Ok((self.by_kind("all questions", |_| true)?, Vec::new()))
            }
            "synthetic" => self.synthetic(),
            other => Err(ScoreError::Benchmark(other.to_owned())),
        }
    }

    fn rules(&self) -> Rules {
        Rules {
            repetitions: self.repetitions,
            combine: Combine::Mean,
            policy: self.policy,
        }
    }

    /// Whether the judge gives scores, and not only says right or wrong.
    fn is_scored(&self) -> bool {
        let mut grades = self.items.iter().flat_map(|item| &item.grades);
        grades.any(|(_, _, score)| score.is_some())
    }

    fn rows(&self, wanted: impl Fn(&Item) -> bool) -> Vec<Row<'_>> {
        let items = self.items.iter().filter(|item| wanted(item));
        let rows = items.flat_map(|item| {
            item.grades.iter().map(|&(repetition, outcome, _)| Row {
                key: item.name.as_str(),
                repetition,
                outcome: outcome_of(outcome),
            })
        });
        rows.collect()
    }

    fn marks(&self, wanted: impl Fn(&Item) -> bool) -> Vec<Row<'_, Mark>> {
        let items = self.items.iter().filter(|item| wanted(item));
        let rows = items.flat_map(|item| {
            item.grades.iter().map(|&(repetition, outcome, score)| Row {
                key: item.name.as_str(),
                repetition,
                outcome: match outcome {
                    JudgmentOutcome::Correct => Mark::Score(score.unwrap_or(1.0)),
                    JudgmentOutcome::Wrong => Mark::Score(score.unwrap_or(0.0)),
                    JudgmentOutcome::Unparsed => Mark::Unparsed,
                    JudgmentOutcome::Failed => Mark::Failed,
                },
            })
        });
        rows.collect()
    }

    /// A line over the questions of which this holds.
    fn line(
        &self,
        label: impl Into<String>,
        score: Option<f64>,
        of: impl Fn(&Item) -> bool,
    ) -> Line {
        let mut line = Line {
            label: label.into(),
            score,
            questions: 0,
            correct: 0,
            wrong: 0,
            unparsed: 0,
            failed: 0,
            gated: 0,
            abstaining: None,
            random: None,
            undefined: None,
        };
        for item in self.items.iter().filter(|item| of(item)) {
            line.questions += 1;
            for (_, outcome, _) in &item.grades {
                *match outcome {
                    JudgmentOutcome::Correct => &mut line.correct,
                    JudgmentOutcome::Wrong => &mut line.wrong,
                    JudgmentOutcome::Unparsed => &mut line.unparsed,
                    JudgmentOutcome::Failed => &mut line.failed,
                } += 1;
            }
        }
        line
    }

    fn expected<'s, G>(
        &'s self,
        wanted: impl Fn(&Item) -> bool,
        group: impl Fn(&'s Item) -> Result<G, ScoreError>,
    ) -> Result<Vec<Expected<'s, G>>, ScoreError> {
        let items = self.items.iter().filter(|item| wanted(item));
        items
            .map(|item| {
                Ok(Expected {
                    key: item.name.as_str(),
                    group: group(item)?,
                })
            })
            .collect()
    }

    fn locomo(&self) -> Result<Lines, ScoreError> {
        const NAMES: [&str; 5] = [
            "multi-hop",
            "temporal",
            "open-domain",
            "single-hop",
            "adversarial",
        ];
        let category = |item: &Item| {
            let at = NAMES.iter().position(|name| *name == item.kind);
            at.map(|at| LocomoCategory::ALL[at])
                .ok_or(item.unknown("LoCoMo has no such category"))
        };
        let is_asked = |item: &Item| item.kind != "adversarial";
        let errata = Errata::locomo()?;
        let is_sound = |item: &Item| {
            let id = QuestionId::from(item.key.question.as_str());
            errata.reason(&id).is_none()
        };
        let scores = |wanted: &dyn Fn(&Item) -> bool| -> Result<_, ScoreError> {
            let expected = self.expected(wanted, category)?;
            if !self.is_scored() {
                let score = locomo(&expected, self.rows(wanted), self.rules())?;
                let of = |(category, cell): (&LocomoCategory, &Cell)| (*category, cell.score());
                let categories: BTreeMap<_, _> = score.categories.iter().map(of).collect();
                return Ok((score.overall.score(), categories));
            }
            let asked = |item: &Item| wanted(item) && is_asked(item);
            let overall = self.expected(asked, category)?;
            let (reps, policy) = (self.repetitions, self.policy);
            let overall = marked(&overall, self.marks(asked), reps, policy)?
                .overall
                .score;
            let groups = marked(&expected, self.marks(wanted), reps, policy)?.groups;
            let of = |(category, cell): (LocomoCategory, _)| {
                let cell: rawrag_scoring::aggregate::MarkCell = cell;
                (category, cell.score)
            };
            Ok((overall, groups.into_iter().map(of).collect()))
        };
        let floor = floors::abstaining_locomo(&self.expected(|_| true, category)?)?;
        let (mut lines, mut warnings) = (Vec::new(), Vec::new());
        let sound = self
            .items
            .iter()
            .filter(|item| is_asked(item) && is_sound(item))
            .count();
        let wrong = self.items.iter().filter(|item| is_asked(item)).count() - sound;
        for without in [false, true] {
            if without && wrong == 0 {
                break;
            }
            let wanted = |item: &Item| !without || is_sound(item);
            let (overall, categories) = scores(&wanted)?;
            let named = |name: &str| match without {
                true => format!("{name}, without {wrong} known wrong"),
                false => name.to_owned(),
            };
            let mut line = self.line(named("categories 1 to 4"), overall, |item| {
                wanted(item) && is_asked(item)
            });
            line.abstaining = floor.overall.score();
            lines.push(line);
            for (category, score) in categories {
                let name = NAMES[usize::from(category.number() - 1)];
                let label = match without {
                    true => format!("{} {name}, without known wrong", category.number()),
                    false => format!("{} {name}", category.number()),
                };
                let of = |item: &Item| item.kind == name;
                let mut line = self.line(label, score, |item| wanted(item) && of(item));
                line.abstaining = floor.categories.get(&category).and_then(Cell::score);
                let (all, sound) = self
                    .items
                    .iter()
                    .filter(|i| of(i))
                    .fold((0, 0), |(n, m), i| (n + 1, m + usize::from(is_sound(i))));
                let ceiling = sound as f64 / f64::from(all.max(1));
                if !without && is_asked_name(name) && score.is_some_and(|score| score > ceiling) {
                    warnings.push(format!(
                        "{name} scores above {:.1} %, the share of its gold answers that are not \
                         known to be wrong",
                        100.0 * ceiling
                    ));
                }
                lines.push(line);
            }
        }
        Ok((lines, warnings))
    }

    fn longmemeval(&self) -> Result<Lines, ScoreError> {
        let group = |item| Ok(longmemeval_group(item));
        let expected = self.expected(|_| true, group)?;
        let floor = floors::abstaining_longmemeval(&expected)?;
        let abstains = |item: &Item| longmemeval_group(item).abstention;
        // Under marks each line is an aggregate of its own.
        let marked_line = |of: &dyn Fn(&Item) -> bool| -> Result<Option<f64>, ScoreError> {
            let expected = self.expected(of, |_| Ok(()))?;
            let cell = marked(&expected, self.marks(of), self.repetitions, self.policy)?.overall;
            Ok(cell.score)
        };
        let judged = longmemeval(&expected, self.rows(|_| true), self.rules())?;
        let mut lines = Vec::new();
        let mut push = |label: String,
                        cell: &Cell,
                        floor: Option<&Cell>,
                        of: &dyn Fn(&Item) -> bool|
         -> Result<(), ScoreError> {
            let score = match self.is_scored() {
                true => marked_line(of)?,
                false => cell.score(),
            };
            if cell.questions() > 0 {
                let mut line = self.line(label, score, of);
                line.abstaining = floor.and_then(Cell::score);
                lines.push(line);
            }
            Ok(())
        };
        push("all".into(), &judged.all, Some(&floor.all), &|_| true)?;
        let answerable = |item: &Item| !abstains(item);
        let label = "without abstention".into();
        push(
            label,
            &judged.answerable,
            Some(&floor.answerable),
            &answerable,
        )?;
        push(
            "abstention".into(),
            &judged.abstention,
            Some(&floor.abstention),
            &abstains,
        )?;
        for (kind, cell) in &judged.kinds {
            let floor = floor.kinds.get(kind);
            push(kind.clone(), cell, floor, &|item| item.kind == *kind)?;
        }
        for (kind, cell) in &judged.answerable_kinds {
            let floor = floor.answerable_kinds.get(kind);
            let label = format!("{kind}, without abstention");
            push(label, cell, floor, &|item| {
                item.kind == *kind && !abstains(item)
            })?;
        }
        Ok((lines, Vec::new()))
    }

    fn meme(&self, wanted: impl Fn(&Item) -> bool) -> Result<Vec<Line>, ScoreError> {
        let partners: HashMap<&Key, String> = self
            .items
            .iter()
            .map(|item| {
                let phase = Some(Phase::Before);
                let partner = Key {
                    phase,
                    ..item.key.clone()
                };
                (&item.key, partner.to_string())
            })
            .collect();
        let expected = self.expected(&wanted, |item| {
            let task = meme_task(item)?;
            match item.key.phase {
                Some(Phase::Before) => Ok(MemeGroup::Before(task)),
                Some(Phase::After) => Ok(MemeGroup::After {
                    task,
                    partner: partners.get(&item.key).map(String::as_str),
                }),
                None => Err(item.unknown("it is asked neither before nor after the change")),
            }
        })?;
        let score = meme(&expected, self.rows(&wanted), self.rules())?;
        let floor = floors::abstaining_meme(&expected)?;
        let after = |item: &Item| wanted(item) && item.key.phase == Some(Phase::After);
        let mut overall = self.line("six tasks after the change, mean", score.overall, after);
        overall.abstaining = floor.overall;
        if score.overall.is_none() {
            overall.undefined = Some("a task of the six has no question");
        }
        overall.gated = score.tasks.values().map(Cell::gated).sum();
        let mut lines = vec![overall];
        let tasks = |of: fn(&Meme) -> &BTreeMap<MemeTask, Cell>| {
            let (score, floor) = (of(&score).clone(), of(&floor).clone());
            score.into_iter().map(move |(task, cell)| {
                let floor = floor.get(&task).and_then(Cell::score);
                (task, cell, floor)
            })
        };
        for (task, cell, floor) in tasks(|meme| &meme.tasks) {
            let of = |item: &Item| after(item) && meme_task(item).ok() == Some(task);
            let mut line = self.line(task_name(task), cell.score(), of);
            line.abstaining = floor;
            line.gated = cell.gated();
            lines.push(line);
        }
        for (task, cell, floor) in tasks(|meme| &meme.before) {
            let before = |item: &Item| wanted(item) && item.key.phase == Some(Phase::Before);
            let of = |item: &Item| before(item) && meme_task(item).ok() == Some(task);
            let label = format!("{}, before the change", task_name(task));
            let mut line = self.line(label, cell.score(), of);
            line.abstaining = floor;
            lines.push(line);
        }
        Ok(lines)
    }

    fn memoryagentbench(&self) -> Result<Lines, ScoreError> {
        let expected = self.expected(|_| true, source_of)?;
        let score = memoryagentbench(
            &expected,
            self.marks(|_| true),
            self.repetitions,
            self.policy,
        )?;
        let unanswerable: HashSet<&str> = self
            .items
            .iter()
            .filter(|item| {
                self.known
                    .is_some_and(|k| k.unanswerable.contains(&item.key))
            })
            .map(|item| item.name.as_str())
            .collect();
        let floor =
            floors::abstaining_memoryagentbench(&expected, |name| unanswerable.contains(name))?;
        let mut overall = self.line("four capabilities, mean", score.overall, |_| true);
        overall.abstaining = floor.overall;
        if score.overall.is_none() {
            overall.undefined = Some("a source of the fourteen is missing");
        }
        let mut lines = vec![overall];
        for (capability, value) in &score.capabilities {
            let of = |item: &Item| source_of(item).is_ok_and(|s| s.capability() == *capability);
            let mut line = self.line(capability_name(*capability), *value, of);
            line.abstaining = floor.capabilities.get(capability).copied().flatten();
            if value.is_none() {
                line.undefined = Some("a source of it is missing");
            }
            lines.push(line);
        }
        let mut warnings = Vec::new();
        for (source, cell) in &score.sources {
            let of = |item: &Item| source_of(item).ok() == Some(*source);
            let names: BTreeSet<&str> = self
                .items
                .iter()
                .filter(|item| of(item))
                .filter_map(|item| item.key.source.as_deref())
                .collect();
            let label = names.iter().copied().collect::<Vec<_>>().join(" and ");
            if names.len() > 1 {
                warnings.push(format!(
                    "{label} are sizes of one source, of which the benchmark counts one; their \
                     questions are averaged together"
                ));
            }
            let mut line = self.line(label, cell.score, of);
            line.abstaining = floor.sources.get(source).and_then(|cell| cell.score);
            lines.push(line);
        }
        Ok((lines, warnings))
    }

    fn personamem(&self) -> Result<Lines, ScoreError> {
        let expected = self.expected(|_| true, |item| Ok(item.kind.as_str()))?;
        let score = personamem(&expected, self.rows(|_| true), self.rules())?;
        let floor = floors::abstaining_personamem(&expected)?;
        let guess = |of: &dyn Fn(&Item) -> bool| {
            let items = self.items.iter().filter(|item| of(item));
            let options: Option<Vec<u32>> = items
                .map(|item| self.known?.options.get(&item.key).copied())
                .collect();
            floors::guessing(&options?)
        };
        let mut overall = self.line("all questions", score.overall.score(), |_| true);
        overall.abstaining = floor.overall.score();
        overall.random = guess(&|_| true);
        let mut lines = vec![overall];
        for (scenario, cell) in &score.scenarios {
            let of = |item: &Item| item.kind == *scenario;
            let mut line = self.line(scenario.clone(), cell.score(), of);
            line.abstaining = floor.scenarios.get(scenario).and_then(Cell::score);
            line.random = guess(&of);
            lines.push(line);
        }
        Ok((lines, Vec::new()))
    }

    /// All questions of which this holds, and each of their types.
    fn by_kind(
        &self,
        label: &str,
        wanted: impl Fn(&Item) -> bool,
    ) -> Result<Vec<Line>, ScoreError> {
        let expected = self.expected(&wanted, |item| Ok(item.kind.as_str()))?;
        let (overall, kinds): (Option<f64>, BTreeMap<&str, Option<f64>>) = match self.is_scored() {
            true => {
                let marks = self.marks(&wanted);
                let score = marked(&expected, marks, self.repetitions, self.policy)?;
                let kinds = score.groups.iter().map(|(kind, cell)| (*kind, cell.score));
                (score.overall.score, kinds.collect())
            }
            false => {
                let score = grouped(&expected, self.rows(&wanted), self.rules())?;
                let kinds = score
                    .groups
                    .iter()
                    .map(|(kind, cell)| (*kind, cell.score()));
                (score.overall.score(), kinds.collect())
            }
        };
        let abstained = |of: &dyn Fn(&Item) -> bool| -> Option<f64> {
            let items: Vec<&Item> = self.items.iter().filter(|item| of(item)).collect();
            let known = self.known?;
            let right = |item: &&&Item| known.unanswerable.contains(&item.key);
            let right = items.iter().filter(right).count();
            (!items.is_empty()).then(|| right as f64 / items.len() as f64)
        };
        let mut line = self.line(label, overall, &wanted);
        line.abstaining = abstained(&wanted);
        let mut lines = vec![line];
        for (kind, score) in kinds {
            let of = |item: &Item| wanted(item) && item.kind == kind;
            let mut line = self.line(kind, score, of);
            line.abstaining = abstained(&of);
            lines.push(line);
        }
        Ok(lines)
    }

    /// Episodes by MEME's rules, and each other family by its types.
    fn synthetic(&self) -> Result<Lines, ScoreError> {
        let mut lines = Vec::new();
        for family in Family::ALL {
            let name = family.source();
            let of = |item: &Item| item.key.source.as_deref() == Some(name);
            if !self.items.iter().any(of) {
                continue;
            }
            let of_family = match family {
                Family::Meme => self.meme(of)?,
                _ => self.by_kind("all questions", of)?,
            };
            lines.extend(of_family.into_iter().map(|line| Line {
                label: format!("synthetic {name}: {}", line.label),
                ..line
            }));
        }
        Ok((lines, Vec::new()))
    }
}

impl Item {
    fn unknown(&self, problem: &'static str) -> ScoreError {
        let key = Box::new(self.key.clone());
        ScoreError::Group { key, problem }
    }
}

fn is_asked_name(category: &str) -> bool {
    category != "adversarial"
}

/// Reasons are in the records; here only what a grade counts for is needed.
fn outcome_of(outcome: JudgmentOutcome) -> Outcome {
    match outcome {
        JudgmentOutcome::Correct => Outcome::Correct,
        JudgmentOutcome::Wrong => Outcome::Wrong,
        JudgmentOutcome::Unparsed => Outcome::Unparsed(Unparsed::NoLabel),
        JudgmentOutcome::Failed => Outcome::Failed(Failure::Request),
    }
}

fn longmemeval_group(item: &Item) -> LongMemEvalGroup<'_> {
    LongMemEvalGroup::new(&item.kind, &item.key.question)
}

fn meme_task(item: &Item) -> Result<MemeTask, ScoreError> {
    let named = |task: &&MemeTask| tag(**task) == item.kind;
    let task = MemeTask::ALL.iter().find(named);
    task.copied()
        .ok_or_else(|| item.unknown("MEME has no such task"))
}

fn tag(task: MemeTask) -> &'static str {
    use rawrag_corpus::meme::Task;
    let at = MemeTask::ALL.iter().position(|other| *other == task);
    at.map_or("", |at| Task::ALL[at].name())
}

fn task_name(task: MemeTask) -> &'static str {
    match task {
        MemeTask::ExactRecall => "exact recall",
        MemeTask::Aggregation => "aggregation",
        MemeTask::Tracking => "tracking",
        MemeTask::Deletion => "deletion",
        MemeTask::Cascade => "cascade",
        MemeTask::Absence => "absence",
    }
}

fn source_of(item: &Item) -> Result<Source, ScoreError> {
    let source = item.key.source.as_deref().and_then(Source::named);
    source.ok_or_else(|| item.unknown("MemoryAgentBench has no such source"))
}

fn capability_name(capability: Capability) -> &'static str {
    match capability {
        Capability::AccurateRetrieval => "accurate retrieval",
        Capability::TestTimeLearning => "test-time learning",
        Capability::LongRangeUnderstanding => "long-range understanding",
        Capability::ConflictResolution => "conflict resolution",
    }
}

/// How much of the gold evidence the retrieved chunks hold, and how much of it as many messages or
/// sessions would hold that are drawn at random from the whole conversation.
fn shown(retrievals: &[Retrieval], histories: &[History]) -> Vec<Shown> {
    let sizes: HashMap<&str, &History> = histories
        .iter()
        .map(|history| (history.conversation.as_str(), history))
        .collect();
    let units = [
        Unit {
            name: "messages",
            parts: |r| (&r.gold_messages, &r.first_message, &r.last_message),
            size: |h| h.messages,
        },
        Unit {
            name: "sessions",
            parts: |r| (&r.gold_sessions, &r.first_session, &r.last_session),
            size: |h| h.sessions.len() as u32,
        },
    ];
    let measured = units.into_iter().map(|unit| {
        let mut tallies: [Vec<f64>; 4] = Default::default();
        for retrieval in retrievals {
            let (gold, first, last) = (unit.parts)(retrieval);
            let gold: BTreeSet<u32> = gold.iter().copied().collect();
            let Some(history) = sizes.get(retrieval.conversation.as_str()) else {
                continue;
            };
            let spans = first.iter().zip(last);
            let drawn: BTreeSet<u32> = spans.flat_map(|(&first, &last)| first..=last).collect();
            let (n, k) = (gold.len() as u32, drawn.len() as u32);
            let Some(random) = random_recall((unit.size)(history), n, k) else {
                continue;
            };
            let held = gold.intersection(&drawn).count();
            let share = |hit: bool| f64::from(u8::from(hit));
            let values = [
                share(held > 0),
                share(held == gold.len()),
                random.any,
                random.all,
            ];
            tallies
                .iter_mut()
                .zip(values)
                .for_each(|(all, one)| all.push(one));
        }
        let [any, all, random_any, random_all] = &tallies;
        Shown {
            unit: unit.name,
            questions: any.len(),
            any: mean(any),
            all: mean(all),
            random_any: mean(random_any),
            random_all: mean(random_all),
        }
    });
    measured.filter(|shown| shown.questions > 0).collect()
}

/// What evidence is counted in.
struct Unit {
    name: &'static str,
    parts: fn(&Retrieval) -> Parts<'_>,
    /// How many a conversation has.
    size: fn(&History) -> u32,
}

/// Gold units, and the first and last unit of each item.
type Parts<'a> = (&'a [u32], &'a [u32], &'a [u32]);

/// The mean, whatever the order.
fn mean(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let n = sorted.len();
    (n > 0).then(|| sorted.iter().sum::<f64>() / n as f64)
}
