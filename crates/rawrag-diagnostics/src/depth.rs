//! How many items to return, and which parts of a system matter: retrieval depths of one run, and
//! runs against the first one named, on the same questions.
//!
//! MemoryAgentBench's scores are those of its four capabilities and their mean, by equation 6: with
//! each question weighed by its source's share over the source's questions, the mean over questions
//! is that score, and drawing questions within sources keeps the weights.
//!
//! Differences come with two 95 % intervals: questions drawn within their kind (Raw-RAG, C.6, as in
//! its Tables 5 and 19 and Figure 4), and whole conversations drawn, which does not take questions
//! of one conversation for independent. Their p-values are a bootstrap sign test and an exact
//! sign-flip over conversations, each after Holm over its family: all other depths of one run and
//! measure, or all other runs at one depth and measure.

use std::collections::BTreeMap;

use rawrag_scoring::aggregate::{Capability, Source};

use crate::against::{Against, Paired, p_value};
use crate::questions::{SideBySide, conversation, judge, labels, mark, score, side_by_side};
use crate::report::{RUN_COLUMN, table};
use crate::shown::cutoffs;
use crate::spread::Spread;
use crate::{
    Column, Diagnostic, DiagnosticError, Input, Outputs, QuestionRecords, Report, Shown, Unit,
    Value, assembled,
};

pub(crate) const DEPTH: Diagnostic = Diagnostic {
    name: "depth",
    about: "What depth and each part of a system are worth: recall and accuracy against a \
            reference, paired",
    source: "Raw-RAG, 4.3 and C.6, Tables 5 and 19, Figure 4",
    needs: &[],
    analyse,
};

/// The default depth of Raw-RAG, against which a sweep is read where the run counted at it.
const DEFAULT: usize = 15;

/// What is measured of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    Any,
    All,
    Accuracy,
    /// MemoryAgentBench's score of a capability, or the mean of all four.
    Score(Option<Capability>),
}

impl Measure {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Any => "any gold",
            Self::All => "all gold",
            Self::Accuracy => "accuracy",
            Self::Score(None) => "four capabilities",
            Self::Score(Some(capability)) => capability.name(),
        }
    }

    /// The measure of one question; `None` where it is not defined.
    pub(crate) fn of(
        self,
        question: &QuestionRecords,
        depth: Option<usize>,
        judge: Option<&str>,
        input: &Input<'_>,
    ) -> Option<f64> {
        if self == Self::Accuracy {
            return score(question, judge?, input.settings.ungraded).value;
        }
        if let Self::Score(of) = self {
            let source = source(question)?;
            let asked = of.is_none_or(|capability| source.capability() == capability);
            return mark(question, judge?, input.settings.ungraded).filter(|_| asked);
        }
        let shown = Shown::of(question, depth)?;
        let ranking = shown.ranking()?;
        let k = shown.items.len();
        let found = match self {
            Self::Any => ranking.recall_any(k),
            _ => ranking.recall_all(k),
        };
        found.map(|found| f64::from(u8::from(found)))
    }
}

fn analyse(input: &Input<'_>) -> Result<Report, DiagnosticError> {
    let mut sweep = Vec::new();
    let mut ablations = Vec::new();
    let mut notes = Vec::new();
    for &run in &input.runs {
        sweep.extend(sweep_of(run, input, &mut notes)?);
    }
    let judged = |run: &&Outputs| run.questions.iter().any(|q| !q.judgments.is_empty());
    if input.runs.len() > 1 || input.runs.iter().any(judged) {
        ablations = ablations_of(input, &mut notes)?;
    }
    if sweep.is_empty() && ablations.is_empty() {
        return Err(DiagnosticError::Runs {
            diagnostic: DEPTH.name,
            takes: "a run with several depths, or several runs of the same questions",
            given: input.runs.len(),
        });
    }
    let clusters = input.runs.first().map_or(0, |run| conversations(run));
    notes.push(format!(
        "Intervals are {:.0} % percentiles of {} resamples, seed {}; {clusters} conversations carry \
         the second interval and the second p-value.",
        100.0 * input.settings.confidence, input.settings.replication.replicates,
        input.settings.replication.seed
    ));
    Ok(Report {
        tables: vec![
            table(
                "sweep",
                "one depth of one run, by one measure",
                &columns("the run's reference depth"),
                sweep,
            ),
            table(
                "ablations",
                "one run at one depth, by one measure",
                &columns("the first run named"),
                ablations,
            ),
        ],
        notes,
    })
}

/// The source of a question of MemoryAgentBench.
fn source(question: &QuestionRecords) -> Option<Source> {
    let named = question.key.source.as_deref().and_then(Source::named);
    named.filter(|_| question.key.benchmark == "memoryagentbench")
}

/// What each question weighs, so that the mean over them is a score of equation 6; `None` while a
/// source is missing. `of` is the capability, or all of them.
fn weights(sources: &[Source], of: Option<Capability>) -> Option<Vec<f64>> {
    let asked = |source: &&Source| of.is_none_or(|of| source.capability() == of);
    let mut questions: BTreeMap<Source, usize> = BTreeMap::new();
    for &source in sources {
        *questions.entry(source).or_default() += 1;
    }
    let mut wanted = Source::ALL.iter().filter(asked);
    if !wanted.all(|source| questions.contains_key(source)) {
        return None;
    }
    let whole: f64 = Source::ALL.iter().filter(asked).map(|s| s.share()).sum();
    let weight = |source: &Source| {
        let n = *questions.get(source)? as f64;
        Some(source.share() / whole * sources.len() as f64 / n)
    };
    sources.iter().map(weight).collect()
}

fn conversations(run: &Outputs) -> usize {
    let mut all: Vec<_> = run.questions.iter().map(|q| conversation(&q.key)).collect();
    all.sort_unstable();
    all.dedup();
    all.len()
}

fn columns(reference: &'static str) -> Vec<Column> {
    let about = match reference {
        "the first run named" => "this run less the first run named, at the same depth",
        _ => {
            "this depth less the run's reference depth: 15 where it counted at 15, else its largest"
        }
    };
    vec![
        RUN_COLUMN,
        crate::evidence::DEPTH,
        Column::new(
            "measure",
            Unit::Text,
            "any or all gold messages among the first k items, graded accuracy, or \
             MemoryAgentBench's score of a capability and of all four",
        ),
        Column::new(
            "questions",
            Unit::Count,
            "questions on which it is defined in every condition",
        ),
        Column::new(
            "tokens",
            Unit::Tokens,
            "mean tokens of the evidence of all questions at that depth",
        ),
        Column::new("value", Unit::Rate, "mean over questions"),
        Column::new("difference", Unit::Points, about),
        Column::new(
            "low",
            Unit::Points,
            "lower end of its interval, questions drawn within their kind",
        ),
        Column::new("high", Unit::Points, "upper end"),
        Column::new(
            "low, by conversation",
            Unit::Points,
            "lower end of its interval, conversations drawn",
        ),
        Column::new("high, by conversation", Unit::Points, "upper end"),
        Column::new(
            "p",
            Unit::P,
            "two-sided bootstrap sign test, questions drawn within their kind",
        ),
        Column::new("p, Holm", Unit::P, "the same after Holm"),
        Column::new(
            "p, by conversation",
            Unit::P,
            "two-sided sign-flip test over conversations",
        ),
        Column::new("p, by conversation, Holm", Unit::P, "the same after Holm"),
    ]
}

/// A condition: a run at a depth.
#[derive(Clone, Copy)]
struct Condition<'a> {
    run: &'a Outputs,
    /// Its place among the runs side by side.
    at: usize,
    depth: Option<usize>,
}

fn sweep_of(
    run: &Outputs,
    input: &Input<'_>,
    notes: &mut Vec<String>,
) -> Result<Vec<Vec<Value>>, DiagnosticError> {
    let depths = cutoffs(run);
    if depths.len() < 2 {
        return Ok(Vec::new());
    }
    let wanted = input.settings.depth.unwrap_or(DEFAULT);
    let reference = depths
        .iter()
        .position(|&k| k == wanted)
        .unwrap_or(depths.len() - 1);
    notes.push(format!(
        "{}: the reference depth is {}.",
        run.manifest.name, depths[reference]
    ));
    let runs = side_by_side(&[run])?;
    let conditions: Vec<Condition<'_>> = depths
        .iter()
        .map(|&k| Condition {
            run,
            at: 0,
            depth: Some(k),
        })
        .collect();
    let mut rows = Vec::new();
    for measure in [Measure::Any, Measure::All] {
        rows.extend(compare(measure, &conditions, reference, &runs, input)?);
    }
    Ok(rows)
}

fn ablations_of(
    input: &Input<'_>,
    notes: &mut Vec<String>,
) -> Result<Vec<Vec<Value>>, DiagnosticError> {
    let runs = side_by_side(&input.runs)?;
    let shared = shared_depths(input);
    let at = |depth| -> Vec<Condition<'_>> {
        let each = input.runs.iter().enumerate();
        each.map(|(at, &run)| Condition { run, at, depth })
            .collect()
    };
    let mut rows = Vec::new();
    // A single run has its depths in the sweep.
    for k in shared.into_iter().filter(|_| input.runs.len() > 1) {
        for measure in [Measure::Any, Measure::All] {
            rows.extend(compare(measure, &at(k), 0, &runs, input)?);
        }
    }
    let judged = |run: &&Outputs| run.questions.iter().any(|q| !q.judgments.is_empty());
    if input.runs.iter().all(judged) {
        rows.extend(compare(Measure::Accuracy, &at(None), 0, &runs, input)?);
        for of in [None].into_iter().chain(Capability::ALL.map(Some)) {
            rows.extend(compare(Measure::Score(of), &at(None), 0, &runs, input)?);
        }
    } else if input.runs.iter().any(judged) {
        notes.push("Some of the runs are not judged, so accuracy is not compared.".to_owned());
    }
    Ok(rows)
}

/// The depth asked for, or those at which every run counted its evidence, or everything returned
/// where there are none: memory systems count no depths.
fn shared_depths(input: &Input<'_>) -> Vec<Option<usize>> {
    if input.settings.depth.is_some() {
        return vec![input.settings.depth];
    }
    let mut all = input.runs.iter().map(|run| cutoffs(run));
    let first = all.next().unwrap_or_default();
    let rest: Vec<Vec<usize>> = all.collect();
    let shared = first
        .into_iter()
        .filter(|k| rest.iter().all(|r| r.contains(k)));
    let shared: Vec<Option<usize>> = shared.map(Some).collect();
    if shared.is_empty() {
        return vec![None];
    }
    shared
}

/// The questions on which a measure is defined in every condition, with their strata and clusters.
fn compare(
    measure: Measure,
    conditions: &[Condition<'_>],
    reference: usize,
    runs: &SideBySide<'_>,
    input: &Input<'_>,
) -> Result<Vec<Vec<Value>>, DiagnosticError> {
    let mut judges = Vec::new();
    for condition in conditions {
        judges.push(match measure {
            Measure::Accuracy | Measure::Score(_) => {
                Some(judge(DEPTH.name, condition.run, &input.settings)?)
            }
            Measure::Any | Measure::All => None,
        });
    }
    let mut values = vec![Vec::new(); conditions.len()];
    let mut kept = Vec::new();
    for question in 0..runs.keys.len() {
        let of = |(condition, judge): (&Condition<'_>, &Option<&str>)| {
            measure.of(
                runs.runs[condition.at][question],
                condition.depth,
                *judge,
                input,
            )
        };
        let row: Option<Vec<f64>> = conditions.iter().zip(&judges).map(of).collect();
        if let Some(row) = row {
            kept.push(question);
            for (values, value) in values.iter_mut().zip(row) {
                values.push(value);
            }
        }
    }
    if kept.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<_> = kept.iter().map(|&q| runs.keys[q]).collect();
    let mut drawn_within = None;
    if let Measure::Score(of) = measure {
        let sources = kept.iter().filter_map(|&q| source(runs.runs[0][q]));
        let sources: Vec<Source> = sources.collect();
        let Some(weights) = weights(&sources, of) else {
            return Ok(Vec::new());
        };
        for values in &mut values {
            for (value, weight) in values.iter_mut().zip(&weights) {
                *value *= weight;
            }
        }
        // Sizes of one source are averaged together, so they are one stratum.
        drawn_within = Some(numbered(&sources));
    }
    // MemoryAgentBench's strata are its sources, other benchmarks' their kinds of question.
    let stratum = |&q: &usize| {
        let question = runs.runs[0][q];
        question.key.source.as_deref().unwrap_or(&question.kind)
    };
    let kinds: Vec<&str> = kept.iter().map(stratum).collect();
    let paired = Paired {
        values,
        strata: &drawn_within.unwrap_or_else(|| numbered(&kinds)),
        clusters: &labels(&keys, |key| {
            let (benchmark, source, conversation) = conversation(key);
            (
                benchmark.to_owned(),
                source.map(str::to_owned),
                conversation.to_owned(),
            )
        }),
    };
    let against = paired.against(reference, &input.settings)?;
    let row = |(place, (condition, against)): (usize, (&Condition<'_>, Against))| {
        let counted = condition.run.questions.iter();
        let tokens = Spread::of(
            counted
                .filter_map(|q| assembled(condition.run, q, condition.depth))
                .map(f64::from),
        );
        let mut row = vec![
            condition.run.manifest.name.as_str().into(),
            crate::evidence::depth_value(condition.depth),
            measure.name().into(),
            kept.len().into(),
            tokens.mean_of("evidence counted at that depth"),
            Value::Number(against.value),
        ];
        if place == reference {
            row.extend((0..9).map(|_| Value::Absent("the reference itself".to_owned())));
        } else {
            row.push(Value::Number(against.difference));
            row.extend(Against::ends(against.stratified));
            let by_source = matches!(measure, Measure::Score(_));
            let unless = |value: Value| match by_source {
                true => Value::Absent("the score weighs sources, not conversations".to_owned()),
                false => value,
            };
            row.extend(Against::ends(against.clustered).map(unless));
            row.push(p_value(against.p));
            row.push(p_value(against.p_holm));
            row.push(unless(Value::P(against.p_clusters)));
            row.push(unless(p_value(against.p_clusters_holm)));
        }
        row
    };
    let rows = conditions.iter().zip(against).enumerate();
    Ok(rows.map(row).collect())
}

/// A number for each value, from 0 without a gap, equal where the values are.
pub(crate) fn numbered<T: Ord + Copy>(values: &[T]) -> Vec<usize> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let place = |value: &T| sorted.binary_search(value).unwrap_or(0);
    values.iter().map(place).collect()
}
