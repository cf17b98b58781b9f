//! Paired differences of all systems of a table: above the diagonal in one metric, below in
//! another.

use rawrag_diagnostics::questions::labels;
use rawrag_statistics::{
    Adjustment, Contributions, IntervalMethod, PValue, PairCounts, Population, Replication,
    ResamplingError, Scheme, Score, ScoreReport, Scores, adjust,
};

use crate::Outputs;
use crate::definition::{Pairwise, Resample};
use crate::metric::Named;
use crate::table::Measured;

/// Replicates of every interval, as in Appendix C.6 of the Raw-RAG paper.
pub(crate) const REPLICATION: Replication = Replication {
    replicates: 20_000,
    seed: 0,
};

/// What the pairs measure: the cell of a row and a column, by their positions among `systems`.
///
/// Systems without a complete run are `Err` with what they need, and so are their cells.
pub(crate) fn measure(
    pairwise: &Pairwise,
    systems: &[Result<&Outputs, Measured>],
) -> Vec<Vec<Measured>> {
    let half = |metric: &Option<Named>| match (metric, &pairwise.needs) {
        (Some(metric), _) => contrasts(*metric, pairwise.resample, systems),
        (None, needs) => Err(needs
            .clone()
            .unwrap_or_else(|| "a metric for these pairs".into())),
    };
    let (upper, lower) = (half(&pairwise.upper), half(&pairwise.lower));
    let cell = |row: usize, column: usize| {
        if row == column {
            return Measured::Never;
        }
        if let Some(Err(needs)) = [row, column]
            .iter()
            .filter_map(|&at| systems.get(at))
            .find(|s| s.is_err())
        {
            return needs.clone();
        }
        match if row < column { &upper } else { &lower } {
            Err(needs) => Measured::Needs(needs.clone()),
            Ok(found) => found
                .iter()
                .find(|contrast| (contrast.row, contrast.column) == (row, column))
                .map_or_else(
                    || Measured::Needs("questions for which both are defined".into()),
                    |contrast| contrast.measured.clone(),
                ),
        }
    };
    let all = 0..systems.len();
    all.clone()
        .map(|row| all.clone().map(|column| cell(row, column)).collect())
        .collect()
}

struct Contrast {
    row: usize,
    column: usize,
    measured: Measured,
}

/// Both directions of every pair of complete systems, with Holm's correction over the pairs.
fn contrasts(
    metric: Named,
    resample: Resample,
    systems: &[Result<&Outputs, Measured>],
) -> Result<Vec<Contrast>, String> {
    let present: Vec<(usize, &Outputs)> = (0..)
        .zip(systems)
        .filter_map(|(at, system)| Some((at, *system.as_ref().ok()?)))
        .collect();
    let Some((_, first)) = present.first().filter(|_| present.len() > 1) else {
        return Err("a second complete run to compare with".into());
    };
    let keys = |outputs: &Outputs| -> Vec<_> {
        outputs
            .questions
            .iter()
            .map(|question| question.key.clone())
            .collect()
    };
    let questions = keys(first);
    if present
        .iter()
        .any(|(_, outputs)| keys(outputs) != questions)
    {
        return Err("runs over the same questions".into());
    }
    let values = present
        .iter()
        .map(|(_, outputs)| metric.per_question(outputs, &[]).map_err(|e| e.to_string()))
        .collect::<Result<Vec<_>, _>>()?;
    let report = estimate(&values, first, resample).map_err(|error| error.to_string())?;
    // Questions drawn one by one are tested one by one, where every one is right or wrong.
    let exact = |a: usize, b: usize| {
        let of = |system: usize| {
            values
                .get(system)?
                .iter()
                .copied()
                .collect::<Option<Vec<_>>>()
        };
        let tested = resample == Resample::Questions;
        let (a, b) = (of(a).filter(|_| tested)?, of(b)?);
        PairCounts::tally(&a, &b).ok().map(|pair| pair.exact())
    };
    let raw: Option<Vec<PValue>> = report
        .contrasts
        .iter()
        .map(|contrast| exact(contrast.a, contrast.b).or(contrast.p_sign.ok()))
        .collect();
    let corrected = adjust(&raw.ok_or("a difference for every pair")?, Adjustment::Holm);
    let scale = metric.scale();
    let mut found = Vec::new();
    for (contrast, p) in report.contrasts.iter().zip(corrected) {
        let (Some((a, _)), Some((b, _))) = (present.get(contrast.a), present.get(contrast.b))
        else {
            continue;
        };
        let (Ok(value), Ok(interval)) = (&contrast.difference, &contrast.interval) else {
            continue;
        };
        let n = questions.len();
        let measured = |value: f64, low: f64, high: f64| Measured::Contrast {
            value: value * scale,
            low: low * scale,
            high: high * scale,
            p: p.value(),
            n,
        };
        let forward = measured(*value, interval.lower, interval.upper);
        let backward = measured(-*value, -interval.upper, -interval.lower);
        found.push(Contrast {
            row: *a,
            column: *b,
            measured: forward,
        });
        found.push(Contrast {
            row: *b,
            column: *a,
            measured: backward,
        });
    }
    Ok(found)
}

/// Two totals a system: its values, and how many are defined.
fn estimate(
    values: &[Vec<Option<f64>>],
    first: &Outputs,
    resample: Resample,
) -> Result<ScoreReport, ResamplingError> {
    let mut contributions = Contributions::new(2 * values.len());
    for question in 0..first.questions.len() {
        let of_system = |system: &Vec<Option<f64>>| system.get(question).copied().flatten();
        let row: Vec<f64> = values
            .iter()
            .map(of_system)
            .flat_map(|value| value.map_or([0.0, 0.0], |value| [value, 1.0]))
            .collect();
        contributions.push(&row)?;
    }
    let mut names: Vec<&str> = first
        .questions
        .iter()
        .map(|question| question.key.conversation.as_str())
        .collect();
    let conversations = names.clone();
    names.sort_unstable();
    names.dedup();
    let clusters: Vec<usize> = conversations
        .iter()
        .map(|name| names.binary_search(name).unwrap_or_default())
        .collect();
    let keys = first.questions.iter().map(|question| &question.key);
    let sources = labels(&keys.collect::<Vec<_>>(), |key| key.source.clone());
    let scheme = match resample {
        Resample::Questions => Scheme::UnitsWithinStrata(&sources),
        Resample::Conversations => Scheme::Clusters(&clusters),
    };
    let scores = (0..values.len())
        .map(|system| Score::ratio(2 * system, 2 * system + 1))
        .collect();
    Scores::all_pairs(scores).estimate(
        &Population::new(&contributions, scheme)?,
        REPLICATION,
        IntervalMethod::Percentile,
        0.95,
    )
}
