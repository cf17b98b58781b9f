//! How far a ranking of systems depends on choices that a paper makes for its readers: the judge
//! and how its grades are counted, the weights of kinds of question, and gold answers known to be
//! wrong.
//!
//! Every combination is a variant. The base is the run's own judge (or the one named), the mean of
//! its grades, every question alike, errata counted as if they were right. A pair of systems is
//! reversed where one is strictly ahead in the base and the other in the variant.

use std::collections::{BTreeMap, BTreeSet};

use rawrag_records::JudgmentOutcome;
use rawrag_scoring::judge::Policy;

use crate::questions::{SideBySide, judge, side_by_side};
use crate::report::{RUN_COLUMN, table};
use crate::{
    Column, Diagnostic, DiagnosticError, Input, Need, QuestionRecords, Report, Unit, Value,
};

pub(crate) const RANKING: Diagnostic = Diagnostic {
    name: "ranking",
    about: "Whether a ranking of systems survives another judge, other weights, and the gold \
            errata",
    source: "rawrag",
    needs: &[Need::Judgments],
    analyse,
};

/// How the grades of one question become its score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counting {
    Mean,
    Every,
    Any,
}

impl Counting {
    const ALL: [(Self, &'static str); 3] = [
        (Self::Mean, "mean of the grades"),
        (Self::Every, "right if every grade is"),
        (Self::Any, "right if any grade is"),
    ];
}

/// How questions are weighted.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Weights {
    Questions,
    Kinds,
    Without(String),
}

impl Weights {
    fn name(&self) -> String {
        match self {
            Self::Questions => "every question alike".to_owned(),
            Self::Kinds => "every kind alike".to_owned(),
            Self::Without(kind) => format!("without {kind}"),
        }
    }
}

/// One way to score all systems.
struct Variant {
    judge: String,
    counting: &'static str,
    weights: Weights,
    errata: bool,
    scores: Vec<Option<f64>>,
}

fn analyse(input: &Input<'_>) -> Result<Report, DiagnosticError> {
    if input.runs.len() < 2 {
        return Err(DiagnosticError::Runs {
            diagnostic: RANKING.name,
            takes: "two runs or more of the same questions",
            given: input.runs.len(),
        });
    }
    let runs = side_by_side(&input.runs)?;
    let mut notes = Vec::new();
    let variants = variants(input, &runs, &mut notes)?;
    let Some(base) = variants.first() else {
        return Err(DiagnosticError::Statistic(
            "there is no question to rank by".to_owned(),
        ));
    };
    let name = |at: usize| Value::from(input.runs[at].manifest.name.as_str());
    let systems = (0..input.runs.len()).map(|at| {
        let ranks: Vec<usize> = variants.iter().map(|v| rank(&v.scores, at)).collect();
        let scores = || variants.iter().filter_map(|v| v.scores[at]);
        let ends =
            |pick: fn(f64, f64) -> f64| scores().reduce(pick).map_or_else(unscored, Value::Number);
        let worst = ranks.iter().max().copied().unwrap_or(0);
        let best = ranks.iter().min().copied().unwrap_or(0);
        vec![
            name(at),
            base.scores[at].map_or_else(unscored, Value::Number),
            ranks[0].into(),
            best.into(),
            worst.into(),
            ends(f64::min),
            ends(f64::max),
        ]
    });
    let mut systems: Vec<Vec<Value>> = systems.collect();
    systems.sort_by(|a, b| {
        let rank = |row: &Vec<Value>| row[2].as_f64().unwrap_or(f64::MAX);
        rank(a).total_cmp(&rank(b))
    });
    let each = variants.iter().map(|variant| {
        let (tau, reversed) = agreement(&base.scores, &variant.scores);
        let first = (0..input.runs.len()).find(|&at| rank(&variant.scores, at) == 1);
        vec![
            variant.judge.as_str().into(),
            variant.counting.into(),
            variant.weights.name().into(),
            if variant.errata {
                "left out"
            } else {
                "counted"
            }
            .into(),
            tau.map_or_else(unscored, Value::Number),
            reversed.into(),
            first.map_or_else(unscored, name),
        ]
    });
    let each = each.collect();
    Ok(Report {
        tables: vec![
            table(
                "systems",
                "one run, the best in the base variant first",
                &SYSTEMS,
                systems,
            ),
            table(
                "variants",
                "one way to score all runs; the first is the base",
                &VARIANTS,
                each,
            ),
            table(
                "pairs",
                "a pair of runs that some variant reverses, the most often reversed first",
                &PAIRS,
                pairs(input, &variants),
            ),
        ],
        notes,
    })
}

fn unscored() -> Value {
    Value::Absent("nothing to score by".to_owned())
}

const SYSTEMS: [Column; 7] = [
    RUN_COLUMN,
    Column::new("score", Unit::Rate, "its score in the base variant"),
    Column::new(
        "rank",
        Unit::Count,
        "its rank there; equal scores share the better rank",
    ),
    Column::new("best rank", Unit::Count, "its best rank in any variant"),
    Column::new("worst rank", Unit::Count, "its worst"),
    Column::new("lowest", Unit::Rate, "its lowest score in any variant"),
    Column::new("highest", Unit::Rate, "its highest"),
];

const VARIANTS: [Column; 7] = [
    Column::new("judge", Unit::Text, "whose grades count"),
    Column::new("grades", Unit::Text, "how the grades of a question count"),
    Column::new("weights", Unit::Text, "how questions are weighted"),
    Column::new(
        "errata",
        Unit::Text,
        "what becomes of questions whose gold answer is known to be wrong",
    ),
    Column::new(
        "tau",
        Unit::Number,
        "pairs in the base's order less pairs reversed, of all pairs (Kendall)",
    ),
    Column::new("reversed", Unit::Count, "pairs reversed"),
    Column::new("first", Unit::Text, "the run that is ahead"),
];

const PAIRS: [Column; 5] = [
    Column::new("ahead", Unit::Text, "the run that is ahead in the base"),
    Column::new("behind", Unit::Text, "the other"),
    Column::new("difference", Unit::Points, "by how much"),
    Column::new(
        "reversed",
        Unit::Count,
        "variants in which it is the other way",
    ),
    Column::new("variants", Unit::Count, "variants"),
];

fn pairs(input: &Input<'_>, variants: &[Variant]) -> Vec<Vec<Value>> {
    let base = &variants[0].scores;
    let mut found = Vec::new();
    for (a, of_a) in base.iter().enumerate() {
        for (b, of_b) in base.iter().enumerate() {
            let Some((of_a, of_b)) = of_a.zip(*of_b) else {
                continue;
            };
            if of_a <= of_b {
                continue;
            }
            let other_way = |v: &&Variant| v.scores[a].zip(v.scores[b]).is_some_and(|(a, b)| a < b);
            let reversed = variants.iter().filter(other_way).count();
            if reversed > 0 {
                found.push((reversed, of_a - of_b, a, b));
            }
        }
    }
    found.sort_by(|x, y| {
        y.0.cmp(&x.0)
            .then(x.1.total_cmp(&y.1))
            .then((x.2, x.3).cmp(&(y.2, y.3)))
    });
    let name = |at: usize| Value::from(input.runs[at].manifest.name.as_str());
    found
        .into_iter()
        .map(|(reversed, by, a, b)| {
            vec![
                name(a),
                name(b),
                Value::Number(by),
                reversed.into(),
                variants.len().into(),
            ]
        })
        .collect()
}

/// Kendall's tau against the base and the number of reversed pairs; ties count for neither.
fn agreement(base: &[Option<f64>], other: &[Option<f64>]) -> (Option<f64>, u64) {
    let (mut same, mut reversed, mut all) = (0_u64, 0_u64, 0_u64);
    for a in 0..base.len() {
        for b in a + 1..base.len() {
            let sign = |scores: &[Option<f64>]| Some(scores[a]?.total_cmp(&scores[b]?));
            let Some((before, after)) = sign(base).zip(sign(other)) else {
                continue;
            };
            all += 1;
            same += u64::from(before == after && before.is_ne());
            reversed += u64::from(before == after.reverse() && before.is_ne());
        }
    }
    let tau = (all > 0).then(|| (same as f64 - reversed as f64) / all as f64);
    (tau, reversed)
}

/// One more than the number of systems strictly ahead.
fn rank(scores: &[Option<f64>], at: usize) -> usize {
    let ahead = |other: &&Option<f64>| match (other, scores[at]) {
        (Some(other), Some(own)) => *other > own,
        (Some(_), None) => true,
        (None, _) => false,
    };
    1 + scores.iter().filter(ahead).count()
}

fn variants(
    input: &Input<'_>,
    runs: &SideBySide<'_>,
    notes: &mut Vec<String>,
) -> Result<Vec<Variant>, DiagnosticError> {
    let judges = judges(input, notes)?;
    let mut kinds: Vec<String> = runs.runs[0].iter().map(|q| q.kind.clone()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let mut weights = vec![Weights::Questions];
    if kinds.len() > 1 {
        weights.push(Weights::Kinds);
        weights.extend(kinds.iter().cloned().map(Weights::Without));
    }
    let listed = runs
        .keys
        .iter()
        .filter(|key| input.settings.errata.lists(key))
        .count();
    if listed == 0 {
        notes.push("No list of errata was given, or it names none of these questions.".to_owned());
    } else {
        notes.push(format!(
            "{listed} of {} questions are errata.",
            runs.keys.len()
        ));
    }
    let errata: &[bool] = if listed > 0 { &[false, true] } else { &[false] };
    // Ways of counting differ only where a judge graded some question more than once.
    let graded_again = |q: &&QuestionRecords| {
        let mut by: Vec<&str> = q.judgments.iter().map(|j| j.judge.as_str()).collect();
        by.sort_unstable();
        by.windows(2).any(|pair| pair[0] == pair[1])
    };
    let repeated = runs.runs.iter().flatten().any(graded_again);
    let counting = if repeated {
        &Counting::ALL[..]
    } else {
        &Counting::ALL[..1]
    };
    let mut variants = Vec::new();
    for (label, of_run) in &judges {
        for &(counting, counted) in counting {
            for weights in &weights {
                for &errata in errata {
                    let score = |at: usize| {
                        let own = of_run[at].as_str();
                        weighted(runs, at, weights, |question| {
                            let out = errata && input.settings.errata.lists(&question.key);
                            (!out)
                                .then(|| graded(question, own, counting, input.settings.ungraded))
                                .flatten()
                        })
                    };
                    variants.push(Variant {
                        judge: label.clone(),
                        counting: counted,
                        weights: weights.clone(),
                        errata,
                        scores: (0..input.runs.len()).map(score).collect(),
                    });
                }
            }
        }
    }
    Ok(variants)
}

/// The judges to rank by, each with the name of every run's judge. The base comes first.
fn judges(
    input: &Input<'_>,
    notes: &mut Vec<String>,
) -> Result<Vec<(String, Vec<String>)>, DiagnosticError> {
    let names = |run: &&crate::Outputs| -> BTreeSet<String> {
        let judgments = run.questions.iter().flat_map(|q| &q.judgments);
        judgments.map(|j| j.judge.clone()).collect()
    };
    let of_runs: Vec<BTreeSet<String>> = input.runs.iter().map(names).collect();
    let shared: BTreeSet<String> = of_runs
        .iter()
        .skip(1)
        .fold(of_runs[0].clone(), |all, names| &all & names);
    let everywhere = |name: &String| (name.clone(), vec![name.clone(); input.runs.len()]);
    if let Some(named) = &input.settings.judge {
        for run in &input.runs {
            judge(RANKING.name, run, &input.settings)?;
        }
        let others = shared.iter().filter(|name| *name != named);
        return Ok(std::iter::once(named)
            .chain(others)
            .map(everywhere)
            .collect());
    }
    if of_runs.iter().all(|names| names.len() == 1) {
        let own: Vec<String> = of_runs.iter().flatten().cloned().collect();
        let different: BTreeSet<&String> = own.iter().collect();
        let label = if different.len() == 1 {
            own[0].clone()
        } else {
            let mut counts: BTreeMap<&String, usize> = BTreeMap::new();
            for name in &own {
                *counts.entry(name).or_default() += 1;
            }
            let list: Vec<String> = counts
                .iter()
                .map(|(name, n)| format!("{name} of {n}"))
                .collect();
            notes.push(format!(
                "The runs were judged by different judges ({}): their scores are not of one scale, \
                 and no variant mends that.",
                list.join(", ")
            ));
            "each run's own".to_owned()
        };
        return Ok(vec![(label, own)]);
    }
    if shared.is_empty() {
        let run = input.runs[0];
        return Err(DiagnosticError::Ambiguous {
            run: run.manifest.name.clone(),
            what: "judge",
            names: of_runs[0].iter().cloned().collect(),
        });
    }
    Ok(shared.iter().map(everywhere).collect())
}

/// A question's score by one judge; `None` where nothing counts.
fn graded(
    question: &QuestionRecords,
    judge: &str,
    counting: Counting,
    ungraded: Policy,
) -> Option<f64> {
    let grades: Vec<f64> = question
        .judgments
        .iter()
        .filter(|j| j.judge == judge)
        .filter_map(|judgment| match judgment.outcome {
            JudgmentOutcome::Correct => Some(1.0),
            JudgmentOutcome::Wrong => Some(0.0),
            JudgmentOutcome::Unparsed | JudgmentOutcome::Failed => match ungraded {
                Policy::CountWrong => Some(0.0),
                Policy::Exclude => None,
            },
        })
        .collect();
    if grades.is_empty() {
        return None;
    }
    Some(match counting {
        Counting::Mean => grades.iter().sum::<f64>() / grades.len() as f64,
        Counting::Every => grades.iter().copied().fold(1.0, f64::min),
        Counting::Any => grades.iter().copied().fold(0.0, f64::max),
    })
}

/// A run's score, the questions in the order of their keys.
fn weighted(
    runs: &SideBySide<'_>,
    at: usize,
    weights: &Weights,
    score: impl Fn(&QuestionRecords) -> Option<f64>,
) -> Option<f64> {
    let mut kinds: BTreeMap<&str, (f64, u64)> = BTreeMap::new();
    for question in &runs.runs[at] {
        if let Some(score) = score(question) {
            let (sum, n) = kinds.entry(&question.kind).or_default();
            *sum += score;
            *n += 1;
        }
    }
    if let Weights::Without(kind) = weights {
        kinds.remove(kind.as_str());
    }
    let all = kinds.len() as f64;
    if kinds.is_empty() {
        return None;
    }
    Some(match weights {
        Weights::Kinds => kinds.values().map(|(sum, n)| sum / *n as f64).sum::<f64>() / all,
        Weights::Questions | Weights::Without(_) => {
            let n: u64 = kinds.values().map(|(_, n)| n).sum();
            kinds.values().map(|(sum, _)| sum).sum::<f64>() / n as f64
        }
    })
}
