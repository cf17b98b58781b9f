//! Scores of runs with their intervals, and every pair of runs tested, by Raw-RAG's C.6.

use rawrag_records::Key;
use rawrag_statistics::{
    Adjustment, Contributions, Defined, Family, Interval, IntervalMethod, PValue, PairCounts,
    Population, Scheme, Score, ScoreReport, Scores, Undefined,
};

use crate::questions::{conversation, labels};
use crate::{Column, DiagnosticError, Settings, Unit, Value};

/// What is drawn together when questions are resampled.
#[derive(Debug)]
pub(crate) enum Sampling {
    /// Questions within their source: how the paper resamples MemoryAgentBench.
    QuestionsWithinSources(Vec<usize>),
    /// Whole conversations, since questions share them.
    Conversations(Vec<usize>),
    /// Questions, each of which has a conversation of its own.
    Questions,
}

impl Sampling {
    /// How questions of these keys are drawn.
    pub(crate) fn of(keys: &[&Key]) -> Self {
        let conversations = labels(keys, |key| owned(conversation(key)));
        let shared = conversations.iter().max().map_or(0, |&last| last + 1) < keys.len();
        let stratified =
            !keys.is_empty() && keys.iter().all(|key| key.benchmark == STRATIFIED_BY_SOURCE);
        match (stratified, shared) {
            (true, _) => Self::QuestionsWithinSources(labels(keys, |key| key.source.clone())),
            (false, true) => Self::Conversations(conversations),
            (false, false) => Self::Questions,
        }
    }

    /// Whole conversations, whatever the benchmark.
    pub(crate) fn by_conversation(keys: &[&Key]) -> Self {
        Self::Conversations(labels(keys, |key| owned(conversation(key))))
    }

    pub(crate) fn scheme(&self) -> Scheme<'_> {
        match self {
            Self::QuestionsWithinSources(sources) => Scheme::UnitsWithinStrata(sources),
            Self::Conversations(conversations) => Scheme::Clusters(conversations),
            Self::Questions => Scheme::Units,
        }
    }

    /// Whether questions are taken as independent, so that they can be tested one by one.
    pub(crate) fn one_by_one(&self) -> bool {
        !matches!(self, Self::Conversations(_))
    }

    /// What a reader of the intervals must know.
    pub(crate) fn note(&self, settings: &Settings) -> String {
        let drawn = match self {
            Self::QuestionsWithinSources(sources) => {
                format!("questions within {} sources", distinct(sources))
            }
            Self::Conversations(conversations) => {
                format!("{} whole conversations", distinct(conversations))
            }
            Self::Questions => "questions, one a conversation".to_owned(),
        };
        let replication = settings.replication;
        let few = match self {
            Self::Conversations(conversations) if distinct(conversations) < FEW => {
                "; so few conversations make an interval too narrow"
            }
            _ => "",
        };
        format!(
            "Intervals: {} % percentile, {} paired resamples of {drawn}, seed {}{few}.",
            settings.confidence * 100.0,
            replication.replicates,
            replication.seed
        )
    }
}

const STRATIFIED_BY_SOURCE: &str = "memoryagentbench";

/// Below this many clusters a percentile interval is known to fall short (`docs/validity.md`).
const FEW: usize = 20;

fn owned((benchmark, source, conversation): (&str, Option<&str>, &str)) -> [String; 3] {
    [benchmark, source.unwrap_or_default(), conversation].map(str::to_owned)
}

fn distinct(labels: &[usize]) -> usize {
    labels.iter().max().map_or(0, |&last| last + 1)
}

/// Estimates scores, each against every later one.
pub(crate) fn estimate(
    contributions: &Contributions,
    sampling: &Sampling,
    scores: Vec<Score>,
    settings: &Settings,
) -> Result<ScoreReport, DiagnosticError> {
    let population = Population::new(contributions, sampling.scheme())?;
    let (replication, method) = (settings.replication, IntervalMethod::Percentile);
    Ok(
        Scores::all_pairs(scores).estimate(
            &population,
            replication,
            method,
            settings.confidence,
        )?,
    )
}

/// Value, lower and upper end.
pub(crate) fn with_interval(value: Defined<f64>, interval: Defined<Interval>) -> [Value; 3] {
    [
        Value::number(value),
        Value::number(interval.map(|interval| interval.lower)),
        Value::number(interval.map(|interval| interval.upper)),
    ]
}

/// Every pair of runs under one metric: the columns of a table's rows.
pub(crate) const PAIRS: [Column; 9] = [
    Column::new("metric", Unit::Text, "what is compared"),
    Column::new("a", Unit::Text, "one run"),
    Column::new("b", Unit::Text, "the other"),
    Column::new("difference", Unit::Points, "a minus b"),
    Column::new("low", Unit::Points, "lower end of its interval"),
    Column::new("high", Unit::Points, "upper end"),
    Column::new(
        "test",
        Unit::Text,
        "`exact McNemar` or `bootstrap sign`, two-sided",
    ),
    Column::new("p", Unit::P, "of that test"),
    Column::new(
        "p Holm",
        Unit::P,
        "the same over all pairs of the metric that have one",
    ),
];

/// Omnibus tests: the columns of a table's rows.
pub(crate) const OMNIBUS: [Column; 7] = [
    Column::new("metric", Unit::Text, "what is compared"),
    Column::new(
        "test",
        Unit::Text,
        "`Cochran's Q`, or `range`: the bootstrap of the centred largest difference",
    ),
    Column::new("statistic", Unit::Number, "Q, or the range as a fraction"),
    Column::new("df", Unit::Count, "degrees of freedom, for Q"),
    Column::new("p", Unit::P, "of that test"),
    Column::new("pairs", Unit::Count, "pairs with a p-value: the family"),
    Column::new(
        "differ",
        Unit::Count,
        "pairs with a Holm-corrected p below 0.05",
    ),
];

/// How pairs and all runs together are tested.
pub(crate) enum Test<'a> {
    /// One by one: Cochran's Q and McNemar on these 0/1 scores, a slice a run.
    Exact(&'a [Vec<f64>]),
    /// By the replicates alone.
    Bootstrap,
}

/// What [`compare`] finds: nothing for one run.
#[derive(Default)]
pub(crate) struct Compared {
    /// Rows of [`PAIRS`].
    pub(crate) pairs: Vec<Vec<Value>>,
    /// A row of [`OMNIBUS`].
    pub(crate) omnibus: Option<Vec<Value>>,
}

/// Tests runs under one metric.
pub(crate) fn compare(
    metric: &'static str,
    names: &[&str],
    report: &ScoreReport,
    test: &Test<'_>,
) -> Result<Compared, DiagnosticError> {
    if names.len() < 2 {
        return Ok(Compared::default());
    }
    let p_of = |contrast: &rawrag_statistics::Contrast| match test {
        Test::Exact(scores) => match (scores.get(contrast.a), scores.get(contrast.b)) {
            (Some(a), Some(b)) => PairCounts::tally(a, b).map(|pair| pair.exact()),
            _ => Err(Undefined::TooFewSystems),
        },
        Test::Bootstrap => contrast.p_sign,
    };
    let raw: Vec<Defined<PValue>> = report.contrasts.iter().map(p_of).collect();
    let members = raw.iter().enumerate();
    let members = members.filter(|(_, p)| p.is_ok());
    let family = Family::declare(members.map(|(at, p)| (at.to_string(), *p)))?;
    let mut adjusted = family.adjusted(Adjustment::Holm).into_iter();
    let mut corrected = Vec::new();
    for p in &raw {
        corrected.push(p.and_then(|_| match adjusted.next() {
            Some((_, p)) => Ok(p),
            None => Err(Undefined::NoUnits),
        }));
    }
    let differ = corrected.iter().flatten().filter(|p| p.value() < 0.05);
    let (name, statistic, df, p) = match test {
        Test::Exact(scores) => {
            let tested = rawrag_statistics::CochranQ::new(scores).map(|q| q.test());
            (
                "Cochran's Q",
                Value::number(tested.map(|t| t.statistic)),
                match tested {
                    Ok(t) => Value::Count(u64::from(t.degrees_of_freedom)),
                    Err(reason) => Value::Absent(reason.to_string()),
                },
                tested.map(|t| t.p),
            )
        }
        Test::Bootstrap => (
            "range",
            Value::number(report.range.map(|range| range.range)),
            Value::Absent("the range has none".to_owned()),
            report.range.map(|range| range.p),
        ),
    };
    let omnibus = vec![
        metric.into(),
        name.into(),
        statistic,
        df,
        shown(p),
        family.len().into(),
        differ.count().into(),
    ];
    let rows = report.contrasts.iter().zip(raw.iter().zip(&corrected));
    let rows = rows.map(|(contrast, (&p, &holm))| {
        let [difference, low, high] = with_interval(contrast.difference, contrast.interval);
        let run = |at: usize| names.get(at).copied().unwrap_or_default().into();
        let test = match test {
            Test::Exact(_) => "exact McNemar",
            Test::Bootstrap => "bootstrap sign",
        };
        vec![
            metric.into(),
            run(contrast.a),
            run(contrast.b),
            difference,
            low,
            high,
            test.into(),
            shown(p),
            shown(holm),
        ]
    });
    Ok(Compared {
        pairs: rows.collect(),
        omnibus: Some(omnibus),
    })
}

fn shown(p: Defined<PValue>) -> Value {
    match p {
        Ok(p) => Value::P(p),
        Err(reason) => Value::Absent(reason.to_string()),
    }
}
