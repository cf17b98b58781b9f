use std::collections::{BTreeMap, BTreeSet};

use rawrag_records::{AnswerOutcome, Key, Phase};
use rawrag_scoring::aggregate::{self, MemeGroup, MemeTask, Row, Rules};
use rawrag_scoring::judge::{Combine, Failure, Outcome, Policy, Unparsed};
use rawrag_statistics::{Contributions, IntervalMethod, Population, Score, ScoreReport, Scores};
use serde::{Deserialize, Serialize};

use crate::contrasts::{Sampling, with_interval};
use crate::questions::{SideBySide, judge, side_by_side};
use crate::{
    Column, Diagnostic, DiagnosticError, Input, Need, Outputs, QuestionRecords, Report, Settings,
    Table, Unit, Value,
};

pub(crate) const ORACLE: Diagnostic = Diagnostic {
    name: NAME,
    about: "What answers gain when evidence is chosen knowing what is asked for, from the store and from the source",
    source: "Raw-RAG, 5.3, C.5, Tables 29 to 31",
    needs: &[Need::Judgments],
    analyse,
};

const NAME: &str = "oracle";

/// How the evidence of a run was chosen: `oracle` of its settings. A run without it is native.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// From what.
    pub store: StoreKind,
    /// The run whose store it is, by name; for a raw condition the run whose questions it asks.
    pub of: String,
    /// sha256 of that store's objects, where they were chosen from.
    pub store_sha256: Option<String>,
    /// Ceiling in o200k_base tokens on evidence and policy, if there is one.
    pub budget: Option<u64>,
    /// How candidates were packed (`blocks`, `chunks`, `emem`, `sessions`).
    pub packer: String,
    /// What was added to the context after the evidence (`task`, `dependency`, `none`).
    pub policy: String,
    /// sha256 of the prompts that it was made of, where there is one.
    pub policy_sha256: Option<String>,
    /// What became of objects of unknown sessions (`refuse`, `leave-out`).
    pub uncited: String,
}

/// What evidence was chosen from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreKind {
    /// Everything that a system stores: C.
    Complete,
    /// The annotated sessions that hold a gold phrase: R.
    Raw,
    /// The annotated sessions: S.
    Source,
}

impl Condition {
    /// The condition of a run; `None` for a native one.
    pub fn of(run: &Outputs) -> Option<Self> {
        Self::deserialize(run.manifest.settings.get("oracle")?).ok()
    }

    fn letter(&self) -> &'static str {
        match self.store {
            StoreKind::Complete => "C",
            StoreKind::Raw => "R",
            StoreKind::Source => "S",
        }
    }
}

fn analyse(input: &Input<'_>) -> Result<Report, DiagnosticError> {
    let settings = &input.settings;
    let side = side_by_side(&input.runs)?;
    let conditions: Vec<Option<Condition>> = input.runs.iter().map(|r| Condition::of(r)).collect();
    let mut notes = Vec::new();
    let mut runs = Vec::new();
    for (run, questions) in input.runs.iter().zip(&side.runs) {
        let judge = judge(NAME, run, settings)?;
        notes.push(format!("{}: graded by {judge}.", run.manifest.name));
        runs.push(Graded::of(run, questions, judge, settings.ungraded)?);
    }
    let asked = asked(&side);
    let all: Vec<usize> = (0..asked.len()).collect();
    let contrasts = contrasts(&input.runs, &conditions);
    let pairs: Vec<(usize, usize)> = contrasts.iter().map(|c| (c.a, c.b)).collect();
    let unfiltered = unfiltered(&side, &asked);
    let estimates = |of: &[usize], pairs: &[(usize, usize)]| {
        estimate(&asked, of, &runs, pairs, settings, &MemeTask::ALL)
    };
    let whole = estimates(&all, &pairs)?;
    let common = match unfiltered.len() == all.len() {
        true => None,
        false => Some(estimates(&unfiltered, &pairs)?),
    };
    notes.extend(notes_of(&asked, &unfiltered, settings));

    let mut rows = Vec::new();
    for (at, run) in input.runs.iter().enumerate() {
        let graded = &runs[at];
        let condition = conditions[at].as_ref();
        let estimate = whole.as_ref().map(|report| &report.scores[at]);
        let mut row = vec![
            run.manifest.name.as_str().into(),
            run.manifest.system.name.as_str().into(),
            letter(condition).into(),
            budget(condition),
        ];
        row.extend(match estimate {
            Some(score) => with_interval(score.value, score.interval),
            None => [(); 3].map(|()| incomplete()),
        });
        row.extend(
            MemeTask::ALL.map(|task| match graded.score.tasks.get(&task) {
                Some(cell) => Value::number(cell.score().ok_or("no question counts")),
                None => Value::Absent("no questions of this task".to_owned()),
            }),
        );
        let cells = || graded.score.tasks.values();
        row.extend([
            Value::from(cells().map(aggregate::Cell::questions).sum::<usize>()),
            cells().map(aggregate::Cell::gated).sum::<usize>().into(),
            cells()
                .map(|cell| cell.tally().unparsed)
                .sum::<usize>()
                .into(),
            cells()
                .map(|cell| cell.tally().failed)
                .sum::<usize>()
                .into(),
            side.runs[at]
                .iter()
                .filter(|q| is_filtered(q))
                .count()
                .into(),
            mean_tokens(&side.runs[at]),
        ]);
        row.push(match &common {
            Some(Some(report)) => Value::number(report.scores[at].value),
            Some(None) => incomplete(),
            None => Value::Absent(NOTHING_FILTERED.to_owned()),
        });
        rows.push(row);
    }

    let mut compared = Vec::new();
    for (at, contrast) in contrasts.iter().enumerate() {
        let difference = |report: Option<&Option<ScoreReport>>, missing: &str| match report {
            Some(Some(report)) => {
                let contrast = &report.contrasts[at];
                with_interval(contrast.difference, contrast.interval)
            }
            Some(None) => [(); 3].map(|()| incomplete()),
            None => [(); 3].map(|()| Value::Absent(missing.to_owned())),
        };
        let name = |at: usize| Value::from(input.runs[at].manifest.name.as_str());
        let mut row = vec![
            contrast.name.clone().into(),
            name(contrast.a),
            name(contrast.b),
            budget(contrast.store.and_then(|at| conditions[at].as_ref())),
        ];
        row.extend(difference(Some(&whole), ""));
        row.extend(match affected(&side, contrast) {
            None => [(); 5].map(|()| Value::Absent(NO_EVIDENCE.to_owned())),
            Some(changed) => {
                let of: Vec<usize> = (0..asked.len())
                    .filter(|&after| changed.contains(&asked[after].after))
                    .collect();
                let tasks: BTreeSet<MemeTask> = of.iter().map(|&at| asked[at].task).collect();
                let tasks: Vec<MemeTask> = tasks.into_iter().collect();
                let pair = [(contrast.a, contrast.b)];
                let report = estimate(&asked, &of, &runs, &pair, settings, &tasks)?;
                let [value, low, high] = match &report {
                    Some(report) => {
                        with_interval(report.contrasts[0].difference, report.contrasts[0].interval)
                    }
                    None => [(); 3].map(|()| Value::Absent("no evidence changed".to_owned())),
                };
                [
                    changed.len().into(),
                    value,
                    low,
                    high,
                    dropped(&side.runs[contrast.b], &side.runs[contrast.a]),
                ]
            }
        });
        row.extend(difference(common.as_ref(), NOTHING_FILTERED));
        compared.push(row);
    }
    Ok(Report {
        tables: vec![
            Table {
                name: "conditions",
                about: "one run: a system under one condition",
                columns: CONDITIONS.to_vec(),
                rows,
            },
            Table {
                name: "contrasts",
                about: "one run against another, over the same episodes",
                columns: CONTRASTS.to_vec(),
                rows: compared,
            },
        ],
        notes,
    })
}

const NO_EVIDENCE: &str = "the evidence of one of the runs is not on record";
const NOTHING_FILTERED: &str = "no reply was withheld";

fn incomplete() -> Value {
    Value::Absent("one of MEME's six tasks has no question".to_owned())
}

fn letter(condition: Option<&Condition>) -> &'static str {
    condition.map_or("N", Condition::letter)
}

fn budget(condition: Option<&Condition>) -> Value {
    match condition.map(|condition| condition.budget) {
        Some(Some(budget)) => Value::Count(budget),
        Some(None) => Value::Absent("no budget".to_owned()),
        None => Value::Absent("native".to_owned()),
    }
}

fn notes_of(asked: &[After], unfiltered: &[usize], settings: &Settings) -> Vec<String> {
    let mut notes = vec![
        "Scores are the mean of MEME's six tasks after the change; Del, Cas and Abs count where the \
         same question was right before it. Intervals are pointwise, without correction."
            .to_owned(),
        match settings.ungraded {
            Policy::CountWrong => "Unparsed and failed grades score 0, as in the paper.",
            Policy::Exclude => "Unparsed and failed grades are left out, with their partners.",
        }
        .to_owned(),
    ];
    if unfiltered.len() < asked.len() {
        notes.push(format!(
            "Without withheld replies: {} of {} questions after the change remain, the same in \
             every run; one is left out where a service withheld the reply to it or to its partner \
             before the change, in any run.",
            unfiltered.len(),
            asked.len()
        ));
    }
    let keys: Vec<&Key> = asked.iter().map(|after| after.key).collect();
    notes.push(Sampling::by_conversation(&keys).note(settings));
    notes
}

/// A question after the change.
struct After<'a> {
    key: &'a Key,
    task: MemeTask,
    /// Its place among all questions, and that of the same question before the change.
    after: usize,
    before: Option<usize>,
}

/// The questions after the change. Grading has made sure that all are of MEME's tasks.
fn asked<'a>(side: &SideBySide<'a>) -> Vec<After<'a>> {
    let places: BTreeMap<&Key, usize> = side.keys.iter().copied().zip(0..).collect();
    let kinds = side.runs.first();
    let of = |(after, &key): (usize, &&'a Key)| {
        let kind = kinds.and_then(|questions| questions.get(after));
        let task = task(&kind?.kind)?;
        (key.phase == Some(Phase::After)).then(|| After {
            key,
            task,
            after,
            before: places.get(&before(key)).copied(),
        })
    };
    side.keys.iter().enumerate().filter_map(of).collect()
}

fn before(key: &Key) -> Key {
    Key {
        phase: Some(Phase::Before),
        ..key.clone()
    }
}

fn task(kind: &str) -> Option<MemeTask> {
    const TASKS: [&str; 6] = ["ER", "Agg", "Tr", "Del", "Cas", "Abs"];
    let place = TASKS.iter().position(|name| *name == kind)?;
    MemeTask::ALL.get(place).copied()
}

/// The grades of a run.
struct Graded {
    score: aggregate::Meme,
    /// For each question, whether each grade is right; `None` for one that does not count.
    points: Vec<Vec<Option<bool>>>,
}

impl Graded {
    fn of(
        run: &Outputs,
        questions: &[&QuestionRecords],
        judge: &str,
        policy: Policy,
    ) -> Result<Self, DiagnosticError> {
        let name = &run.manifest.name;
        let again = run
            .manifest
            .expected
            .judgments
            .get(judge)
            .copied()
            .unwrap_or(1);
        let repetitions = run.manifest.expected.answers.max(1) * again;
        let keys: Vec<String> = questions.iter().map(|q| q.key.to_string()).collect();
        let partners: Vec<String> = questions
            .iter()
            .map(|q| before(&q.key).to_string())
            .collect();
        let (mut expected, mut rows, mut points) = (Vec::new(), Vec::new(), Vec::new());
        for (question, (key, partner)) in questions.iter().zip(keys.iter().zip(&partners)) {
            let task = task(&question.kind).ok_or_else(|| DiagnosticError::Contradiction {
                run: name.clone(),
                key: key.clone(),
                problem: format!("`{}` is none of MEME's tasks", question.kind),
            })?;
            let group = match question.key.phase {
                Some(Phase::Before) => MemeGroup::Before(task),
                _ => MemeGroup::After {
                    task,
                    partner: Some(partner.as_str()),
                },
            };
            expected.push(aggregate::Expected {
                key: key.as_str(),
                group,
            });
            let mut of_question = Vec::new();
            for judgment in question.judgments.iter().filter(|j| j.judge == judge) {
                let outcome = outcome(judgment.outcome);
                rows.push(Row {
                    key: key.as_str(),
                    repetition: judgment.repetition * again + judgment.judge_repetition,
                    outcome,
                });
                of_question.push(match (outcome, policy) {
                    (Outcome::Correct, _) => Some(true),
                    (Outcome::Wrong, _) | (_, Policy::CountWrong) => Some(false),
                    _ => None,
                });
            }
            points.push(of_question);
        }
        let rules = Rules {
            repetitions,
            combine: Combine::Mean,
            policy,
        };
        let score = aggregate::meme(&expected, rows, rules)
            .map_err(|error| DiagnosticError::Statistic(format!("{name}: {error}")))?;
        Ok(Self { score, points })
    }

    /// What a question after the change earned, and whether it counts: 0 or 1.
    fn earned(&self, question: &After<'_>) -> (f64, f64) {
        let after = self
            .points
            .get(question.after)
            .map_or(&[][..], Vec::as_slice);
        let before = question.before.and_then(|at| self.points.get(at));
        let passes: Vec<bool> = match question.task.gated() {
            false => after.iter().flatten().copied().collect(),
            true => {
                let before = before.map_or(&[][..], Vec::as_slice);
                let both = after.iter().zip(before);
                both.filter_map(|(after, before)| Some((*after)? && (*before)?))
                    .collect()
            }
        };
        match passes.len() {
            0 => (0.0, 0.0),
            n => (
                passes.iter().filter(|&&pass| pass).count() as f64 / n as f64,
                1.0,
            ),
        }
    }
}

fn outcome(recorded: rawrag_records::JudgmentOutcome) -> Outcome {
    use rawrag_records::JudgmentOutcome::{Correct, Failed, Unparsed as NotRead, Wrong};
    match recorded {
        Correct => Outcome::Correct,
        Wrong => Outcome::Wrong,
        NotRead => Outcome::Unparsed(Unparsed::NoLabel),
        Failed => Outcome::Failed(Failure::Request),
    }
}

/// The macro-average over `tasks` of each run, and the pairs' differences, over some of the
/// questions after the change; `None` where a task has none.
fn estimate(
    asked: &[After<'_>],
    of: &[usize],
    runs: &[Graded],
    pairs: &[(usize, usize)],
    settings: &Settings,
    tasks: &[MemeTask],
) -> Result<Option<ScoreReport>, DiagnosticError> {
    let has = |task: &MemeTask| of.iter().any(|&at| asked[at].task == *task);
    if tasks.is_empty() || !tasks.iter().all(has) {
        return Ok(None);
    }
    // Columns: for each run and task, what was earned and what counts.
    let column = |run: usize, task: usize| 2 * (run * tasks.len() + task);
    let mut contributions = Contributions::new(column(runs.len(), 0));
    for &at in of {
        let question = &asked[at];
        let mut row = vec![0.0; contributions.columns()];
        for (run, graded) in runs.iter().enumerate() {
            if let Some(task) = tasks.iter().position(|&task| task == question.task) {
                let (earned, counts) = graded.earned(question);
                row[column(run, task)] = earned;
                row[column(run, task) + 1] = counts;
            }
        }
        contributions.push(&row)?;
    }
    let keys: Vec<&Key> = of.iter().map(|&at| asked[at].key).collect();
    let sampling = Sampling::by_conversation(&keys);
    let score = |run: usize| {
        let ratios: Vec<(usize, usize)> = (0..tasks.len())
            .map(|task| (column(run, task), column(run, task) + 1))
            .collect();
        Score::macro_average(&ratios)
    };
    let scores = Scores::new((0..runs.len()).map(score).collect(), pairs.to_vec())?;
    let population = Population::new(&contributions, sampling.scheme())?;
    Ok(Some(scores.estimate(
        &population,
        settings.replication,
        IntervalMethod::Percentile,
        settings.confidence,
    )?))
}

/// Two runs to hold against each other, by place: a minus b.
struct Comparison {
    name: String,
    a: usize,
    b: usize,
    /// The run that chose from a store, of those two the first.
    store: Option<usize>,
}

/// C - N and R - C of each store, C without a budget against C with one, S against R.
fn contrasts(runs: &[&Outputs], conditions: &[Option<Condition>]) -> Vec<Comparison> {
    let name = |at: usize| runs[at].manifest.name.as_str();
    let with = |store: StoreKind| {
        conditions
            .iter()
            .enumerate()
            .filter_map(move |(at, condition)| {
                let condition = condition.as_ref()?;
                (condition.store == store).then_some((at, condition))
            })
    };
    let mut found = Vec::new();
    let mut add = |what: &str, a: usize, b: usize| {
        let name = what.to_owned();
        let complete = |at: &usize| {
            let condition = conditions[*at].as_ref();
            condition.is_some_and(|condition| condition.store == StoreKind::Complete)
        };
        let store = [a, b].into_iter().find(complete);
        found.push(Comparison { name, a, b, store });
    };
    for (at, complete) in with(StoreKind::Complete) {
        for native in (0..runs.len()).filter(|&n| conditions[n].is_none()) {
            if name(native) == complete.of {
                add("C - N", at, native);
            }
        }
        let raw: Vec<_> = with(StoreKind::Raw).collect();
        let alike = |(_, raw): &&(usize, &Condition)| raw.budget == complete.budget;
        if let Some(&(raw, _)) = raw.iter().find(alike).or(raw.first()) {
            add("R - C", raw, at);
        }
        if complete.budget.is_none() {
            for (capped, other) in with(StoreKind::Complete) {
                if other.of == complete.of && other.budget.is_some() {
                    add("C without budget - C", at, capped);
                }
            }
        }
    }
    for (raw, _) in with(StoreKind::Raw) {
        for (source, _) in with(StoreKind::Source) {
            add("S - R", source, raw);
        }
    }
    found
}

/// The questions after the change of which, in no run, a service withheld the reply or that to
/// their partner before it.
fn unfiltered(side: &SideBySide<'_>, asked: &[After<'_>]) -> Vec<usize> {
    let filtered = |at: usize| {
        let of_runs = side.runs.iter().filter_map(|questions| questions.get(at));
        of_runs.into_iter().any(|question| is_filtered(question))
    };
    (0..asked.len())
        .filter(|&at| !filtered(asked[at].after) && !asked[at].before.is_some_and(filtered))
        .collect()
}

fn is_filtered(question: &QuestionRecords) -> bool {
    let mut answers = question.answers.iter();
    answers.any(|answer| answer.outcome == AnswerOutcome::Filtered)
}

/// The questions whose evidence differs between two runs, before and after the change; `None`
/// where that is not on record.
fn affected(side: &SideBySide<'_>, contrast: &Comparison) -> Option<BTreeSet<usize>> {
    let (a, b) = (side.runs.get(contrast.a)?, side.runs.get(contrast.b)?);
    let on_record = |questions: &[&QuestionRecords]| questions.iter().all(|q| q.search.is_some());
    if !on_record(a) || !on_record(b) {
        return None;
    }
    let pairs = a.iter().zip(b).enumerate();
    Some(
        pairs
            .filter(|(_, (a, b))| !same_evidence(a, b))
            .map(|(at, _)| at)
            .collect(),
    )
}

/// By text where it is kept, else by all that is known of each item.
fn same_evidence(a: &QuestionRecords, b: &QuestionRecords) -> bool {
    let items = || a.evidence.iter().zip(&b.evidence);
    a.evidence.len() == b.evidence.len()
        && items().all(|(a, b)| match (&a.text, &b.text) {
            (Some(a), Some(b)) => a == b,
            _ => (a.tokens, &a.messages, &a.stored) == (b.tokens, &b.messages, &b.stored),
        })
}

/// The share of the evidence tokens of `all` that `kept` lacks.
fn dropped(kept: &[&QuestionRecords], all: &[&QuestionRecords]) -> Value {
    let total = |questions: &[&QuestionRecords]| -> u64 {
        let items = questions.iter().flat_map(|question| &question.evidence);
        // A policy comes from nowhere.
        let items = items.filter(|item| item.stored.is_some() || item.sessions.is_some());
        items.map(|item| u64::from(item.tokens)).sum()
    };
    let (kept, all) = (total(kept), total(all));
    match all.checked_sub(kept) {
        Some(dropped) => Value::rate(dropped, all, "evidence"),
        None => Value::Absent("the first run has less evidence".to_owned()),
    }
}

fn mean_tokens(questions: &[&QuestionRecords]) -> Value {
    let tokens: Option<Vec<u32>> = questions
        .iter()
        .map(|question| Some(question.search.as_ref()?.evidence_tokens))
        .collect();
    match tokens {
        Some(tokens) if !tokens.is_empty() => {
            let total: u64 = tokens.iter().copied().map(u64::from).sum();
            Value::Number(total as f64 / tokens.len() as f64)
        }
        _ => Value::Absent(NO_EVIDENCE.to_owned()),
    }
}

const CONDITIONS: [Column; 20] = [
    Column::new("run", Unit::Text, "the run"),
    Column::new("system", Unit::Text, "its system"),
    Column::new(
        "condition",
        Unit::Text,
        "N native, C complete store, R raw evidence, S all annotated sessions",
    ),
    Column::new("budget", Unit::Tokens, "ceiling on evidence and policy"),
    Column::new("overall", Unit::Rate, "mean of the six tasks"),
    Column::new("low", Unit::Rate, "lower end of its interval"),
    Column::new("high", Unit::Rate, "upper end"),
    Column::new("ER", Unit::Rate, "exact recall"),
    Column::new("Agg", Unit::Rate, "aggregation"),
    Column::new("Tr", Unit::Rate, "tracking"),
    Column::new("Del", Unit::Rate, "deletion, gated"),
    Column::new("Cas", Unit::Rate, "cascade, gated"),
    Column::new("Abs", Unit::Rate, "absence, gated"),
    Column::new("questions", Unit::Count, "questions after the change"),
    Column::new(
        "gated",
        Unit::Count,
        "right grades that count for nothing, since the one before the change was not right",
    ),
    Column::new(
        "unparsed",
        Unit::Count,
        "grades after the change that could not be read",
    ),
    Column::new(
        "failed",
        Unit::Count,
        "grades after the change that there are none of",
    ),
    Column::new(
        "withheld",
        Unit::Count,
        "questions of both phases with a withheld reply",
    ),
    Column::new("tokens", Unit::Tokens, "evidence of a question, mean"),
    Column::new(
        "without withheld",
        Unit::Rate,
        "overall, without the questions that a reply was withheld for in any run",
    ),
];

const CONTRASTS: [Column; 15] = [
    Column::new("contrast", Unit::Text, "conditions compared"),
    Column::new("a", Unit::Text, "one run"),
    Column::new("b", Unit::Text, "the other"),
    Column::new(
        "budget",
        Unit::Tokens,
        "ceiling of the one that chose from a store",
    ),
    Column::new("difference", Unit::Points, "overall of a minus that of b"),
    Column::new("low", Unit::Points, "lower end of its interval"),
    Column::new("high", Unit::Points, "upper end"),
    Column::new(
        "affected",
        Unit::Count,
        "questions of both phases whose evidence differs",
    ),
    Column::new(
        "affected difference",
        Unit::Points,
        "difference over those after the change, mean of the tasks that have any; partners before \
         the change from all questions",
    ),
    Column::new("affected low", Unit::Points, "lower end of its interval"),
    Column::new("affected high", Unit::Points, "upper end"),
    Column::new(
        "dropped",
        Unit::Rate,
        "share of a's evidence tokens that b lacks",
    ),
    Column::new(
        "difference without withheld",
        Unit::Points,
        "difference over the questions that no reply was withheld for",
    ),
    Column::new("without low", Unit::Points, "lower end of its interval"),
    Column::new("without high", Unit::Points, "upper end"),
];
