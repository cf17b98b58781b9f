//! The selection paper's diagnostics (003): what a selector adds to a similarity search of the same
//! chunks, at which budget, and where it loses the answer.
//!
//! Runs are named in this order: the similarity search, one selector or more, and last, where there
//! are three runs or more, the system to catch up with. All are runs of the same questions.
//!
//! - Shortlist (Appendix D): whether the similarity search's items hold the answer, and of those
//!   questions, for which a selector's first k items keep none of it.
//! - Gain (equation 6): a selector less the similarity search at the same k.
//! - Matching (equation 5): the k of each run whose mean tokens come closest to those of the last
//!   run at its k, ties to the larger.
//! - Gap (equation 8): the share of the gap between the first and the last run that a selector
//!   closes, each at its matched k. Without grades, of the questions all of whose messages are
//!   found.
//! - Abstention (5.8): correct refusals of questions without an answer.
//! - Examples (3.2, Appendix J): the question won with the shortest evidence, and the first one
//!   lost by conversation and question.

use std::collections::BTreeMap;

use rawrag_statistics::{gap_closed, matched_setting};

use crate::against::{Against, Paired};
use crate::depth::{Measure, numbered};
use crate::questions::{SideBySide, conversation, judge, labels, score, side_by_side};
use crate::report::{RUN_COLUMN, table};
use crate::shown::cutoffs;
use crate::spread::{Spread, present};
use crate::{
    Column, Diagnostic, DiagnosticError, Input, Need, Outputs, QuestionRecords, Report, Shown,
    Unit, Value,
};

pub(crate) const SELECTION: Diagnostic = Diagnostic {
    name: "selection",
    about: "What a selector adds to similarity search, at which budget, and where it loses the \
            answer",
    source: "003, equations 5 to 8, sections 3.2 and 5.8, Appendices D and J",
    needs: &[],
    analyse,
};

/// The comparator's natural setting (003, section 4).
const NATURAL: usize = 3;

fn analyse(input: &Input<'_>) -> Result<Report, DiagnosticError> {
    let (Some((&simple, others)), true) = (input.runs.split_first(), input.runs.len() > 1) else {
        return Err(DiagnosticError::Runs {
            diagnostic: SELECTION.name,
            takes: "a run of similarity search and then one selector or more",
            given: input.runs.len(),
        });
    };
    for run in &input.runs {
        if !Need::Retrievals.is_met_by(run) && !Need::Searches.is_met_by(run) {
            return Err(DiagnosticError::Missing {
                diagnostic: SELECTION.name,
                need: "retrievals or searches",
                run: run.manifest.name.clone(),
            });
        }
    }
    let runs = side_by_side(&input.runs)?;
    let depths = shared_depths(input);
    let mut notes = Vec::new();
    let mut shortlist = Vec::new();
    let mut gains = Vec::new();
    for (at, &run) in (1..).zip(others) {
        for &k in &depths {
            shortlist.extend(kept(&runs, at, run, k));
            gains.extend(gain(&runs, at, run, k, input)?);
        }
        let narrows = |q: &&QuestionRecords| {
            q.retrieval
                .as_ref()
                .is_some_and(|r| r.shortlist < r.available)
        };
        if !run.questions.iter().any(|q| narrows(&q)) {
            notes.push(format!(
                "{}: chooses among everything there is, not from {}'s items, so `keeps none` is \
                 what the two differ in and no loss of one stage.",
                run.manifest.name, simple.manifest.name
            ));
        }
    }
    let matching = matching(input, &mut notes);
    Ok(Report {
        tables: vec![
            table(
                "shortlist",
                "one kind of question, of one selector at one depth",
                &SHORTLIST,
                shortlist,
            ),
            table(
                "gain",
                "one selector at one depth, by one measure",
                &GAIN,
                gains,
            ),
            table(
                "matching",
                "one run at the depth that matches the last run's tokens",
                &MATCHING,
                matching,
            ),
            table(
                "abstention",
                "one judged run",
                &ABSTENTION,
                abstention(input)?,
            ),
            table(
                "examples",
                "one question that tells a selector from similarity search",
                &EXAMPLES,
                examples(&runs, input)?,
            ),
        ],
        notes,
    })
}

/// The depth asked for, or those at which every run counted its evidence, or the natural one where
/// there are none: memory systems count no depths.
fn shared_depths(input: &Input<'_>) -> Vec<usize> {
    if let Some(depth) = input.settings.depth {
        return vec![depth];
    }
    let mut all = input.runs.iter().map(|run| cutoffs(run));
    let first = all.next().unwrap_or_default();
    let rest: Vec<Vec<usize>> = all.collect();
    let shared = first
        .into_iter()
        .filter(|k| rest.iter().all(|r| r.contains(k)));
    let shared: Vec<usize> = shared.collect();
    if shared.is_empty() {
        return vec![NATURAL];
    }
    shared
}

const K: Column = Column::new("k", Unit::Count, "items of the selector that are looked at");

const SHORTLIST: [Column; 8] = [
    Column::new("selector", Unit::Text, "the run that selects"),
    K,
    Column::new(
        "kind",
        Unit::Text,
        "the benchmark's type of question; `all` are all with gold messages",
    ),
    Column::new("questions", Unit::Count, "questions with gold messages"),
    Column::new(
        "all in shortlist",
        Unit::Rate,
        "the similarity search's items hold every gold message",
    ),
    Column::new("at least one", Unit::Rate, "they hold at least one"),
    Column::new(
        "keeps none",
        Unit::Rate,
        "of these, those for which the selector's first k items hold none",
    ),
    Column::new(
        "missed",
        Unit::Rate,
        "of all questions, those with no gold message in the shortlist",
    ),
];

fn kept(runs: &SideBySide<'_>, at: usize, run: &Outputs, k: usize) -> Vec<Vec<Value>> {
    #[derive(Default)]
    struct Kind {
        questions: u64,
        all: u64,
        any: u64,
        none: u64,
    }
    let mut kinds: BTreeMap<&str, Kind> = BTreeMap::new();
    for (first, second) in runs.runs[0].iter().zip(&runs.runs[at]) {
        let found = |question: &QuestionRecords, depth| {
            let shown = Shown::of(question, depth)?;
            let (ranking, n) = (shown.ranking()?, shown.items.len());
            Some((ranking.recall_all(n)?, ranking.recall_any(n)?))
        };
        let Some(((all, any), (_, kept))) = found(first, None).zip(found(second, Some(k))) else {
            continue;
        };
        for kind in [first.kind.as_str(), "all"] {
            let kind = kinds.entry(kind).or_default();
            kind.questions += 1;
            kind.all += u64::from(all);
            kind.any += u64::from(any);
            kind.none += u64::from(any && !kept);
        }
    }
    let row = |(kind, n): (&str, Kind)| {
        vec![
            run.manifest.name.as_str().into(),
            k.into(),
            kind.into(),
            n.questions.into(),
            Value::rate(n.all, n.questions, GOLD),
            Value::rate(n.any, n.questions, GOLD),
            Value::rate(
                n.none,
                n.any,
                "questions with a gold message in the shortlist",
            ),
            Value::rate(n.questions - n.any, n.questions, GOLD),
        ]
    };
    let all = kinds.remove("all");
    let rows = kinds.into_iter().map(row);
    rows.chain(all.map(|all| row(("all", all)))).collect()
}

const GOLD: &str = "questions with gold messages";

const GAIN: [Column; 10] = [
    Column::new("selector", Unit::Text, "the run that selects"),
    K,
    Column::new(
        "measure",
        Unit::Text,
        "any or all gold messages among the first k items, or graded accuracy",
    ),
    Column::new(
        "questions",
        Unit::Count,
        "questions on which both are defined",
    ),
    Column::new("similarity", Unit::Rate, "the similarity search at that k"),
    Column::new("selected", Unit::Rate, "the selector at that k"),
    Column::new(
        "gain",
        Unit::Points,
        "selector less similarity search (equation 6)",
    ),
    Column::new(
        "low",
        Unit::Points,
        "lower end of its interval, conversations drawn",
    ),
    Column::new("high", Unit::Points, "upper end"),
    Column::new(
        "p",
        Unit::P,
        "sign-flip test over conversations; not corrected, since depths are no family of their own",
    ),
];

fn gain(
    runs: &SideBySide<'_>,
    at: usize,
    run: &Outputs,
    k: usize,
    input: &Input<'_>,
) -> Result<Vec<Vec<Value>>, DiagnosticError> {
    let mut rows = Vec::new();
    for measure in [Measure::Any, Measure::All] {
        let mut values = vec![Vec::new(); 2];
        let mut kept = Vec::new();
        for question in 0..runs.keys.len() {
            let of = |at: usize| measure.of(runs.runs[at][question], Some(k), None, input);
            if let Some((simple, selected)) = of(0).zip(of(at)) {
                kept.push(question);
                values[0].push(simple);
                values[1].push(selected);
            }
        }
        if kept.is_empty() {
            continue;
        }
        let keys: Vec<_> = kept.iter().map(|&q| runs.keys[q]).collect();
        let kinds: Vec<&str> = kept
            .iter()
            .map(|&q| runs.runs[0][q].kind.as_str())
            .collect();
        let paired = Paired {
            values,
            strata: &numbered(&kinds),
            clusters: &labels(&keys, |key| {
                let (benchmark, source, conversation) = conversation(key);
                (
                    benchmark.to_owned(),
                    source.map(str::to_owned),
                    conversation.to_owned(),
                )
            }),
        };
        let against = paired.against(0, &input.settings)?;
        let mut row = vec![
            run.manifest.name.as_str().into(),
            k.into(),
            measure.name().into(),
            kept.len().into(),
            Value::Number(against[0].value),
            Value::Number(against[1].value),
            Value::Number(against[1].difference),
        ];
        row.extend(Against::ends(against[1].clustered));
        row.push(Value::P(against[1].p_clusters));
        rows.push(row);
    }
    Ok(rows)
}

const MATCHING: [Column; 7] = [
    RUN_COLUMN,
    Column::new(
        "target",
        Unit::Tokens,
        "mean tokens of the last run's items at its k",
    ),
    Column::new(
        "k",
        Unit::Count,
        "the k whose tokens come closest, ties to the larger (equation 5)",
    ),
    Column::new("tokens", Unit::Tokens, "mean tokens of its items there"),
    Column::new(
        "all gold",
        Unit::Rate,
        "questions all of whose messages are found there",
    ),
    Column::new(
        "gap closed",
        Unit::Rate,
        "share of the gap between the first and the last run (equation 8)",
    ),
    Column::new(
        "off target",
        Unit::Tokens,
        "tokens above or below the target",
    ),
];

/// Mean tokens of a run's items at k = 1, 2, and so on.
fn tokens_by_depth(run: &Outputs) -> Vec<f64> {
    let questions: Vec<Shown<'_>> = run
        .questions
        .iter()
        .filter_map(|q| Shown::of(q, None))
        .collect();
    let deepest = questions.iter().map(|q| q.items.len()).max().unwrap_or(0);
    let mut sums = vec![0_u64; deepest];
    for question in &questions {
        let mut so_far = 0;
        for (at, sum) in sums.iter_mut().enumerate() {
            so_far += question
                .items
                .get(at)
                .map_or(0, |item| u64::from(item.tokens));
            *sum += so_far;
        }
    }
    sums.iter()
        .map(|&sum| sum as f64 / questions.len().max(1) as f64)
        .collect()
}

fn matching(input: &Input<'_>, notes: &mut Vec<String>) -> Vec<Vec<Value>> {
    let Some(&last) = input.runs.last() else {
        return Vec::new();
    };
    let own = input.settings.depth.unwrap_or(NATURAL);
    let Some(&target) = tokens_by_depth(last).get(own.saturating_sub(1)) else {
        notes.push(format!(
            "{} returned fewer than {own} items, so nothing is matched to it.",
            last.manifest.name
        ));
        return Vec::new();
    };
    notes.push(format!("{} is matched at k = {own}.", last.manifest.name));
    let at = |run: &Outputs| {
        let tokens = tokens_by_depth(run);
        let k = match std::ptr::eq(run, last) {
            true => Ok(own),
            false => matched_setting(&tokens, target),
        };
        k.ok().map(|k| (k, tokens[k - 1], all_gold(run, k)))
    };
    let matched: Vec<_> = input.runs.iter().map(|&run| at(run)).collect();
    let rate = |at: usize| matched.get(at).and_then(|m| m.as_ref()).and_then(|m| m.2);
    let row = |(place, run): (usize, &&Outputs)| {
        let inner = place > 0 && place + 1 < input.runs.len();
        let gap = match (inner, rate(0), rate(place), rate(input.runs.len() - 1)) {
            (true, Some(simple), Some(selected), Some(rich)) => {
                Value::number(gap_closed(simple, selected, rich))
            }
            (true, ..) => Value::Absent("no questions with gold messages".to_owned()),
            (false, ..) => Value::Absent("an end of the gap".to_owned()),
        };
        let of = |pick: fn(&(usize, f64, Option<f64>)) -> f64| {
            present(matched[place].as_ref().map(pick), "items")
        };
        vec![
            run.manifest.name.as_str().into(),
            Value::Number(target),
            matched[place]
                .as_ref()
                .map_or_else(|| Value::Absent("no items".to_owned()), |m| m.0.into()),
            of(|m| m.1),
            present(rate(place), GOLD),
            gap,
            present(matched[place].as_ref().map(|m| m.1 - target), "items"),
        ]
    };
    input.runs.iter().enumerate().map(row).collect()
}

/// The share of questions all of whose gold messages are among the first `k` items.
fn all_gold(run: &Outputs, k: usize) -> Option<f64> {
    let found = run.questions.iter().filter_map(|q| {
        let found = Shown::of(q, Some(k))?.ranking()?.recall_all(k)?;
        Some(f64::from(u8::from(found)))
    });
    Spread::of(found).mean()
}

const ABSTENTION: [Column; 4] = [
    RUN_COLUMN,
    Column::new(
        "questions",
        Unit::Count,
        "questions to abstain from: adversarial, or with an id that ends in `_abs`",
    ),
    Column::new(
        "correct",
        Unit::Rate,
        "mean share of their grades that are correct",
    ),
    Column::new(
        "of the others",
        Unit::Rate,
        "the same of all other questions",
    ),
];

fn abstention(input: &Input<'_>) -> Result<Vec<Vec<Value>>, DiagnosticError> {
    let mut rows = Vec::new();
    for run in &input.runs {
        if !Need::Judgments.is_met_by(run) {
            continue;
        }
        let judge = judge(SELECTION.name, run, &input.settings)?;
        let abstain =
            |q: &QuestionRecords| q.kind == "adversarial" || q.key.question.ends_with("_abs");
        let mean = |wanted: bool| {
            let asked = run.questions.iter().filter(|q| abstain(q) == wanted);
            Spread::of(asked.filter_map(|q| score(q, judge, input.settings.ungraded).value))
        };
        let (abstained, others) = (mean(true), mean(false));
        rows.push(vec![
            run.manifest.name.as_str().into(),
            abstained.len().into(),
            abstained.mean_of("questions to abstain from"),
            others.mean_of("other questions"),
        ]);
    }
    Ok(rows)
}

const EXAMPLES: [Column; 7] = [
    Column::new("selector", Unit::Text, "the run that selects"),
    Column::new(
        "example",
        Unit::Text,
        "`won`: right where similarity search is wrong; `lost`: the other way",
    ),
    Column::new("kind", Unit::Text, "the benchmark's type of question"),
    Column::new(
        "candidates",
        Unit::Count,
        "questions of that kind that meet the rule",
    ),
    Column::new("question", Unit::Text, "the one that is chosen"),
    Column::new(
        "tokens",
        Unit::Tokens,
        "tokens of the selector's items for it",
    ),
    Column::new(
        "by",
        Unit::Text,
        "what right means: a majority of grades, or every gold message among the first k items",
    ),
];

fn examples(runs: &SideBySide<'_>, input: &Input<'_>) -> Result<Vec<Vec<Value>>, DiagnosticError> {
    let k = input.settings.depth.unwrap_or(NATURAL);
    let judged = input.runs.iter().all(|run| Need::Judgments.is_met_by(run));
    let mut judges = Vec::new();
    for run in &input.runs {
        judges.push(match judged {
            true => Some(judge(SELECTION.name, run, &input.settings)?),
            false => None,
        });
    }
    let right = |at: usize, question: usize| {
        let measure = if judged {
            Measure::Accuracy
        } else {
            Measure::All
        };
        let value = measure.of(runs.runs[at][question], Some(k), judges[at], input)?;
        Some(value > 0.5)
    };
    let mut rows = Vec::new();
    for (at, run) in input.runs.iter().enumerate().skip(1) {
        for (won, name) in [(true, "won"), (false, "lost")] {
            let mut candidates: BTreeMap<&str, Vec<(u64, usize)>> = BTreeMap::new();
            for question in 0..runs.keys.len() {
                if right(at, question).zip(right(0, question)) != Some((won, !won)) {
                    continue;
                }
                let records = runs.runs[at][question];
                let tokens = Shown::of(records, Some(k)).map_or(0, |shown| shown.tokens());
                candidates
                    .entry(&records.kind)
                    .or_default()
                    .push((tokens, question));
            }
            for (kind, mut candidates) in candidates {
                let n = candidates.len();
                if won {
                    candidates.sort_unstable();
                }
                let Some(&(tokens, question)) = candidates.first() else {
                    continue;
                };
                rows.push(vec![
                    run.manifest.name.as_str().into(),
                    name.into(),
                    kind.into(),
                    n.into(),
                    runs.keys[question].to_string().into(),
                    Value::Number(tokens as f64),
                    if judged { "grades" } else { "gold messages" }.into(),
                ]);
            }
        }
    }
    Ok(rows)
}
