//! Labelled outcomes in, every statistic of a paired comparison out.

use std::fmt;

use rayon::prelude::*;
use serde::Serialize;

use crate::{
    Adjustment, CochranQ, CochranTest, Contributions, Defined, DifferenceDistribution, Interval,
    IntervalMethod, NonInferiority, PValue, PairCounts, PairedMethod, Population, RangeTest,
    Replication, ResamplingError, Scheme, Score, ScoreReport, Scores, SignFlip, Undefined, adjust,
    noninferiority, sign_flip, studentised_difference, undefined,
};
use crate::{Outcomes, outcomes::Labels};

/// Clusters below which cluster intervals are too narrow to be taken at face value: in the
/// committed simulations (`docs/validity.md`) the percentile interval's coverage falls below its
/// level by more than one point in a hundred there.
pub const FEW_CLUSTERS: usize = 50;

/// Discordant units below which a pair has too little to decide on.
pub const FEW_DISCORDANT: u64 = 10;

/// What to compute and how to name it.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Level of all tests, in (0, 1), such as 0.05; intervals have confidence 1 - alpha.
    pub alpha: f64,
    /// Replicates and seed of every resampling procedure.
    pub replication: Replication,
    /// Non-inferiority margin, a fraction in (0, 1), if that is to be tested (b is the reference).
    pub margin: Option<f64>,
    /// What a unit is, in the singular: `question`.
    pub unit: String,
    /// What a cluster is, in the singular: `conversation`.
    pub cluster: String,
}

impl Options {
    fn confidence(&self) -> f64 {
        1.0 - self.alpha
    }
}

/// Why no report can be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ReportError {
    /// Fewer systems than a comparison needs.
    #[error("a comparison needs two systems, there is {0}")]
    TooFewSystems(usize),
    /// A level outside (0, 1).
    #[error("alpha {0} is not between 0 and 1; five percent are 0.05")]
    Alpha(f64),
    /// A margin outside (0, 1).
    #[error("margin {0} is not between 0 and 1; 5 points are 0.05")]
    Margin(f64),
    /// No replicates asked for.
    #[error("replicates must be at least 1")]
    NoReplicates,
    /// The outcomes cannot be resampled as declared.
    #[error(transparent)]
    Resampling(#[from] ResamplingError),
}

/// Everything about one set of paired outcomes. Rates and differences are fractions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Number of units.
    pub n: usize,
    /// What a unit is.
    pub unit: String,
    /// Number of strata units are resampled within; absent without strata.
    pub strata: Option<usize>,
    /// What a cluster is, and how many there are; absent without clusters.
    pub clusters: Option<ClusterCount>,
    /// Level of all tests.
    pub alpha: f64,
    /// Confidence of all intervals, 1 - alpha.
    pub confidence: f64,
    /// Replicates and seed of every resampling procedure.
    #[serde(flatten)]
    pub replication: Replication,
    /// Missing scores that were counted 0.
    pub missing_counted_zero: usize,
    /// Units dropped because a score was missing.
    pub units_dropped: usize,
    /// One a system, in the order of the outcomes.
    pub systems: Vec<SystemRow>,
    /// Cochran's Q over all systems.
    #[serde(serialize_with = "undefined::serialize")]
    pub cochran_q: Defined<CochranRow>,
    /// Centred max-minus-min range bootstrap over all systems, by unit.
    #[serde(serialize_with = "undefined::serialize")]
    pub range: Defined<RangeTest>,
    /// The same by cluster.
    #[serde(serialize_with = "undefined::serialize")]
    pub range_cluster: Defined<RangeTest>,
    /// The family that `p_holm` and `p_bh` are adjusted over.
    pub family: FamilyRow,
    /// Every pair, in the order (0, 1), (0, 2), .., (1, 2), ..
    pub pairs: Vec<PairRow>,
    /// One sentence on all systems together.
    pub sentence: String,
    /// What a reader must know before quoting.
    pub warnings: Vec<Warning>,
}

/// Clusters of a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClusterCount {
    /// What a cluster is.
    pub name: String,
    /// Number of clusters.
    pub count: usize,
}

/// One system.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SystemRow {
    /// Its name.
    pub system: String,
    /// Number of units.
    pub n: usize,
    /// Number of correct units, if scores are 0 or 1.
    #[serde(serialize_with = "undefined::serialize")]
    pub correct: Defined<u64>,
    /// Mean score.
    pub rate: f64,
    /// Percentile interval of the rate, units resampled (within strata if declared).
    #[serde(serialize_with = "undefined::serialize")]
    pub interval: Defined<Interval>,
    /// Percentile interval, whole clusters resampled.
    #[serde(serialize_with = "undefined::serialize")]
    pub interval_cluster: Defined<Interval>,
    /// Percentile interval, clusters resampled and units within them.
    #[serde(serialize_with = "undefined::serialize")]
    pub interval_two_stage: Defined<Interval>,
}

/// Cochran's Q with both of its p-values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CochranRow {
    /// Statistic, degrees of freedom and chi-squared p.
    #[serde(flatten)]
    pub test: CochranTest,
    /// Decimal logarithm of p.
    pub log10_p: f64,
    /// Permutation p.
    pub p_permutation: PValue,
}

/// The declared family of pairwise tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FamilyRow {
    /// The p-value that is adjusted: `p_exact` for 0/1 scores, otherwise `p_sign`.
    pub over: &'static str,
    /// Number of pairs.
    pub members: usize,
}

/// One pair of systems; differences are a minus b.
///
/// The first fifteen fields are the stable ones documented for users.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PairRow {
    /// System a.
    pub a: String,
    /// System b.
    pub b: String,
    /// Units on which both are correct, if scores are 0 or 1; so the next three.
    #[serde(serialize_with = "undefined::serialize")]
    pub both: Defined<u64>,
    /// Units on which only a is correct.
    #[serde(serialize_with = "undefined::serialize")]
    pub a_only: Defined<u64>,
    /// Units on which only b is correct.
    #[serde(serialize_with = "undefined::serialize")]
    pub b_only: Defined<u64>,
    /// Units on which neither is correct.
    #[serde(serialize_with = "undefined::serialize")]
    pub neither: Defined<u64>,
    /// Rate of a minus rate of b.
    pub difference: f64,
    /// Percentile interval, units resampled (within strata if declared).
    #[serde(serialize_with = "undefined::serialize")]
    pub interval: Defined<Interval>,
    /// Exact McNemar test.
    #[serde(serialize_with = "undefined::serialize")]
    pub p_exact: Defined<PValue>,
    /// Mid-p McNemar test.
    #[serde(serialize_with = "undefined::serialize")]
    pub p_mid: Defined<PValue>,
    /// The family's p-value after Holm.
    pub p_holm: PValue,
    /// The family's p-value after Benjamini-Hochberg.
    pub p_bh: PValue,
    /// Two-sided bootstrap sign test, units resampled.
    pub p_sign: PValue,
    /// Sign-flip test over clusters; without clusters, over units.
    pub p_signflip: PValue,
    /// Decimal logarithm of `p_exact`.
    #[serde(serialize_with = "undefined::serialize")]
    pub log10_p_exact: Defined<f64>,
    /// Whether `p_signflip` counts all assignments.
    pub signflip_exact: bool,
    /// `p_signflip` after Holm over all pairs.
    pub p_signflip_holm: PValue,
    /// The limit of `interval` as replicates increase, in closed form.
    #[serde(serialize_with = "undefined::serialize")]
    pub interval_exact: Defined<Interval>,
    /// The limit of `p_sign`, in closed form.
    #[serde(serialize_with = "undefined::serialize")]
    pub p_sign_exact: Defined<PValue>,
    /// Percentile interval, whole clusters resampled.
    #[serde(serialize_with = "undefined::serialize")]
    pub interval_cluster: Defined<Interval>,
    /// Two-sided bootstrap sign test, whole clusters resampled.
    #[serde(serialize_with = "undefined::serialize")]
    pub p_sign_cluster: Defined<PValue>,
    /// Studentised interval, whole clusters resampled: the one to read with few clusters.
    #[serde(serialize_with = "undefined::serialize")]
    pub interval_studentised: Defined<Interval>,
    /// Percentile interval, clusters resampled and units within them.
    #[serde(serialize_with = "undefined::serialize")]
    pub interval_two_stage: Defined<Interval>,
    /// Is a non-inferior to b, by Tango's score method? Absent without a margin.
    pub noninferiority: Option<NonInferiorityRow>,
    /// A sentence to quote.
    pub sentence: String,
}

/// A non-inferiority test of a pair, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct NonInferiorityRow {
    /// The test.
    #[serde(serialize_with = "undefined::serialize")]
    pub test: Defined<NonInferiority>,
}

/// Something that limits what the numbers can carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WarningKind {
    /// Fewer clusters than [`FEW_CLUSTERS`].
    FewClusters,
    /// Units share clusters, so intervals by unit are too narrow if clusters matter.
    UnitsShareClusters,
    /// A pair with fewer discordant units than [`FEW_DISCORDANT`].
    FewDiscordant,
    /// A pair that cannot become significant after Holm whatever its discordant units say.
    CannotReject,
    /// So few clusters that the sign-flip test cannot reject, alone or after Holm.
    SignFlipCannotReject,
    /// Two systems with the same score on every unit.
    IdenticalSystems,
    /// Missing scores were counted 0, or their units dropped.
    MissingScores,
}

/// A warning with its wording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// What it is about.
    pub kind: WarningKind,
    /// The wording, one sentence.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Makes the report: intervals by unit and cluster, omnibus tests, and all pairs.
///
/// Follows Appendix C.6 of the Raw-RAG paper: paired resampling (within strata if declared), exact
/// McNemar tests, bootstrap sign tests, Holm over all pairs. The order of systems changes no number
/// but the signs of differences, and the order of units nothing.
pub fn report(outcomes: &Outcomes, options: &Options) -> Result<Report, ReportError> {
    check(outcomes, options)?;
    let resampled = Resampled::new(outcomes, options)?;
    let systems = system_rows(outcomes, &resampled);
    let (pairs, family) = pair_rows(outcomes, options, &systems, &resampled)?;
    let cochran_q = CochranQ::new(outcomes.scores()).map(|q| {
        let test = q.test();
        let p_permutation = q.permutation(options.replication);
        CochranRow {
            test,
            log10_p: test.p.log10(),
            p_permutation,
        }
    });
    let warnings = warnings(outcomes, options, &pairs, family);
    Ok(Report {
        n: outcomes.units().len(),
        unit: options.unit.clone(),
        strata: outcomes.strata().map(|strata| strata.names().len()),
        clusters: outcomes.clusters().map(|clusters| ClusterCount {
            name: options.cluster.clone(),
            count: clusters.names().len(),
        }),
        alpha: options.alpha,
        confidence: options.confidence(),
        replication: options.replication,
        missing_counted_zero: outcomes.filled(),
        units_dropped: outcomes.dropped(),
        sentence: summary(outcomes, options, &cochran_q, &pairs),
        systems,
        cochran_q,
        range: resampled.by_unit.range,
        range_cluster: resampled
            .by_cluster
            .as_ref()
            .map_or(Err(Undefined::NoClusters), |r| r.range),
        family,
        pairs,
        warnings,
    })
}

fn check(outcomes: &Outcomes, options: &Options) -> Result<(), ReportError> {
    let inside = |x: f64| x > 0.0 && x < 1.0;
    if outcomes.systems().len() < 2 {
        return Err(ReportError::TooFewSystems(outcomes.systems().len()));
    }
    if !inside(options.alpha) {
        return Err(ReportError::Alpha(options.alpha));
    }
    if let Some(margin) = options.margin.filter(|&margin| !inside(margin)) {
        return Err(ReportError::Margin(margin));
    }
    if options.replication.replicates == 0 {
        return Err(ReportError::NoReplicates);
    }
    Ok(())
}

/// The same scores and pairs under each resampling scheme.
struct Resampled {
    by_unit: ScoreReport,
    by_cluster: Option<ScoreReport>,
    two_stage: Option<ScoreReport>,
}

impl Resampled {
    fn new(outcomes: &Outcomes, options: &Options) -> Result<Self, ReportError> {
        // Columns in order of the systems' names, so that listing systems in another order draws
        // the same resamples.
        let systems = outcomes.systems();
        let mut by_name: Vec<usize> = (0..systems.len()).collect();
        by_name.sort_by_key(|&system| &systems[system]);
        let mut contributions = Contributions::new(systems.len() + 1);
        let mut row = vec![1.0; systems.len() + 1];
        for unit in 0..outcomes.units().len() {
            for (value, &system) in row.iter_mut().zip(&by_name) {
                *value = outcomes.scores()[system][unit];
            }
            contributions.push(&row)?;
        }
        let mut scores = vec![Score::ratio(0, systems.len()); systems.len()];
        for (column, &system) in by_name.iter().enumerate() {
            scores[system] = Score::ratio(column, systems.len());
        }
        let scores = Scores::all_pairs(scores);

        let estimate = |scheme: Scheme<'_>| {
            let population = Population::new(&contributions, scheme)?;
            let method = IntervalMethod::Percentile;
            scores.estimate(
                &population,
                options.replication,
                method,
                options.confidence(),
            )
        };
        let clusters = outcomes.clusters().map(Labels::of_unit);
        Ok(Self {
            by_unit: estimate(match outcomes.strata() {
                Some(strata) => Scheme::UnitsWithinStrata(strata.of_unit()),
                None => Scheme::Units,
            })?,
            by_cluster: clusters
                .map(|c| estimate(Scheme::Clusters(c)))
                .transpose()?,
            two_stage: clusters
                .map(|c| estimate(Scheme::ClustersThenUnits(c)))
                .transpose()?,
        })
    }
}

fn system_rows(outcomes: &Outcomes, resampled: &Resampled) -> Vec<SystemRow> {
    let n = outcomes.units().len();
    let row = |(i, (system, scores)): (usize, (&String, &Vec<f64>))| SystemRow {
        system: system.clone(),
        n,
        correct: PairCounts::tally(scores, scores).map(|counts| counts.both),
        rate: scores.iter().sum::<f64>() / n as f64,
        interval: resampled.by_unit.scores[i].interval,
        interval_cluster: of_clusters(&resampled.by_cluster, |r| r.scores[i].interval),
        interval_two_stage: of_clusters(&resampled.two_stage, |r| r.scores[i].interval),
    };
    outcomes
        .systems()
        .iter()
        .zip(outcomes.scores())
        .enumerate()
        .map(row)
        .collect()
}

fn of_clusters<T>(
    report: &Option<ScoreReport>,
    get: impl Fn(&ScoreReport) -> Defined<T>,
) -> Defined<T> {
    report.as_ref().map_or(Err(Undefined::NoClusters), get)
}

fn pair_rows(
    outcomes: &Outcomes,
    options: &Options,
    systems: &[SystemRow],
    resampled: &Resampled,
) -> Result<(Vec<PairRow>, FamilyRow), ResamplingError> {
    let contrasts = &resampled.by_unit.contrasts;
    let mut rows: Vec<PairRow> = (0..contrasts.len())
        .into_par_iter()
        .map(|i| pair_row(outcomes, options, systems, resampled, i))
        .collect::<Result<_, _>>()?;
    let binary = rows.iter().all(|row| row.p_exact.is_ok());
    let raw: Vec<PValue> = rows
        .iter()
        .map(|row| {
            if binary {
                row.p_exact.unwrap_or(PValue::ONE)
            } else {
                row.p_sign
            }
        })
        .collect();
    let family = FamilyRow {
        over: if binary { "p_exact" } else { "p_sign" },
        members: rows.len(),
    };
    let holm = adjust(&raw, Adjustment::Holm);
    let bh = adjust(&raw, Adjustment::BenjaminiHochberg);
    let flips: Vec<PValue> = rows.iter().map(|row| row.p_signflip).collect();
    let flips = adjust(&flips, Adjustment::Holm);
    let clusters = outcomes.clusters().map_or(0, |c| c.names().len());
    for (((row, p_holm), p_bh), p_signflip) in rows.iter_mut().zip(holm).zip(bh).zip(flips) {
        row.p_holm = p_holm;
        row.p_bh = p_bh;
        row.p_signflip_holm = p_signflip;
        row.sentence = sentence(row, options, systems, family, clusters);
    }
    Ok((rows, family))
}

/// A pair's row, still without its place in the family.
fn pair_row(
    outcomes: &Outcomes,
    options: &Options,
    systems: &[SystemRow],
    resampled: &Resampled,
    i: usize,
) -> Result<PairRow, ResamplingError> {
    let contrast = &resampled.by_unit.contrasts[i];
    let (a, b) = (contrast.a, contrast.b);
    let (scores_a, scores_b) = (&outcomes.scores()[a], &outcomes.scores()[b]);
    let counts = PairCounts::tally(scores_a, scores_b);
    let flip = sign_flip(&cluster_differences(outcomes, a, b), options.replication);
    let exact = stratum_counts(outcomes, a, b)
        .and_then(|strata| DifferenceDistribution::new(&strata))
        .map(|distribution| distribution.summary(options.confidence()));
    let p_exact = counts.map(|c| c.exact());
    Ok(PairRow {
        a: systems[a].system.clone(),
        b: systems[b].system.clone(),
        both: counts.map(|c| c.both),
        a_only: counts.map(|c| c.a_only),
        b_only: counts.map(|c| c.b_only),
        neither: counts.map(|c| c.neither),
        difference: counts
            .and_then(|c| c.difference())
            .unwrap_or(systems[a].rate - systems[b].rate),
        interval: contrast.interval,
        p_exact,
        p_mid: counts.map(|c| c.mid_p()),
        p_holm: PValue::ONE,
        p_bh: PValue::ONE,
        p_sign: contrast.p_sign.unwrap_or(PValue::ONE),
        p_signflip: flip.p,
        log10_p_exact: p_exact.map(PValue::log10),
        signflip_exact: flip.exact,
        p_signflip_holm: PValue::ONE,
        interval_exact: exact.map(|e| e.interval),
        p_sign_exact: exact.map(|e| e.p),
        interval_cluster: of_clusters(&resampled.by_cluster, |r| r.contrasts[i].interval),
        p_sign_cluster: of_clusters(&resampled.by_cluster, |r| r.contrasts[i].p_sign),
        interval_studentised: studentised(outcomes, options, a, b)?,
        interval_two_stage: of_clusters(&resampled.two_stage, |r| r.contrasts[i].interval),
        noninferiority: options.margin.map(|margin| NonInferiorityRow {
            test: counts.and_then(|counts| {
                noninferiority(&counts, margin, options.alpha, PairedMethod::Tango)
            }),
        }),
        sentence: String::new(),
    })
}

/// Studentised interval by cluster, drawn for the pair in order of its names, so that swapping the
/// systems negates it exactly.
fn studentised(
    outcomes: &Outcomes,
    options: &Options,
    a: usize,
    b: usize,
) -> Result<Defined<Interval>, ResamplingError> {
    let Some(clusters) = outcomes.clusters() else {
        return Ok(Err(Undefined::NoClusters));
    };
    let swapped = outcomes.systems()[a] > outcomes.systems()[b];
    let (first, second) = if swapped { (b, a) } else { (a, b) };
    let scores = outcomes.scores();
    let differences: Vec<f64> = scores[first]
        .iter()
        .zip(&scores[second])
        .map(|(x, y)| x - y)
        .collect();
    let interval = studentised_difference(
        &differences,
        Some(clusters.of_unit()),
        options.replication,
        options.confidence(),
    )?;
    Ok(if swapped {
        interval.map(Interval::negated)
    } else {
        interval
    })
}

/// Summed differences of each cluster, or of each unit without clusters.
fn cluster_differences(outcomes: &Outcomes, a: usize, b: usize) -> Vec<f64> {
    let scores = outcomes.scores();
    let differences = scores[a].iter().zip(&scores[b]).map(|(a, b)| a - b);
    match outcomes.clusters() {
        None => differences.collect(),
        Some(clusters) => {
            let mut sums = vec![0.0; clusters.names().len()];
            for (difference, &cluster) in differences.zip(clusters.of_unit()) {
                sums[cluster] += difference;
            }
            sums
        }
    }
}

fn stratum_counts(outcomes: &Outcomes, a: usize, b: usize) -> Defined<Vec<PairCounts>> {
    let (a, b) = (&outcomes.scores()[a], &outcomes.scores()[b]);
    let Some(strata) = outcomes.strata() else {
        return Ok(vec![PairCounts::tally(a, b)?]);
    };
    let tally = |stratum: usize| {
        let inside = |scores: &[f64]| -> Vec<f64> {
            let labelled = scores.iter().zip(strata.of_unit());
            labelled
                .filter(|(_, s)| **s == stratum)
                .map(|(score, _)| *score)
                .collect()
        };
        PairCounts::tally(&inside(a), &inside(b))
    };
    (0..strata.names().len()).map(tally).collect()
}

fn sentence(
    row: &PairRow,
    options: &Options,
    systems: &[SystemRow],
    family: FamilyRow,
    clusters: usize,
) -> String {
    let rate = |name: &str| {
        systems
            .iter()
            .find(|system| system.system == name)
            .map_or(0.0, |system| system.rate)
    };
    let n = systems.first().map_or(0, |system| system.n);
    let direction = if row.difference > 0.0 {
        format!("{} points above", points(row.difference))
    } else if row.difference < 0.0 {
        format!("{} points below", points(-row.difference))
    } else {
        "level with".to_owned()
    };
    let level = options.confidence() * 100.0;
    let interval = |interval: &Defined<Interval>, by: &str| match interval {
        Ok(i) => format!(
            "; {level}% interval {} to {} by {by}",
            points(i.lower),
            points(i.upper)
        ),
        Err(_) => String::new(),
    };
    // The interval that keeps its level with so many clusters.
    let by_cluster = if clusters < FEW_CLUSTERS {
        &row.interval_studentised
    } else {
        &row.interval_cluster
    };
    let test = match row.p_exact {
        Ok(p) => format!("exact McNemar p {}", equals(p)),
        Err(_) => format!("bootstrap sign test p {}", equals(row.p_sign)),
    };
    format!(
        "{} is {direction} {} ({}% against {}% of {n} {}s{}{}; {test}, Holm over {} p {}).",
        row.a,
        row.b,
        points(rate(&row.a)),
        points(rate(&row.b)),
        options.unit,
        interval(&row.interval, &options.unit),
        interval(by_cluster, &options.cluster),
        in_pairs(family.members),
        equals(row.p_holm),
    )
}

fn summary(
    outcomes: &Outcomes,
    options: &Options,
    cochran: &Defined<CochranRow>,
    pairs: &[PairRow],
) -> String {
    let alpha = options.alpha;
    let rejected = pairs
        .iter()
        .filter(|pair| pair.p_holm.value() <= alpha)
        .count();
    let (systems, n) = (outcomes.systems().len(), outcomes.units().len());
    let omnibus = match cochran {
        Ok(q) => format!(
            "Cochran's Q({}) = {:.2}, log10 p = {:.1}",
            q.test.degrees_of_freedom, q.test.statistic, q.log10_p
        ),
        Err(reason) => format!("Cochran's Q is undefined: {reason}"),
    };
    format!(
        "{systems} systems on {n} {}s: {omnibus}; {rejected} of {} differ at {:.3} after Holm.",
        options.unit,
        in_pairs(pairs.len()),
        alpha,
    )
}

fn warnings(
    outcomes: &Outcomes,
    options: &Options,
    pairs: &[PairRow],
    family: FamilyRow,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |kind, message| warnings.push(Warning { kind, message });
    let alpha = options.alpha;
    let (filled, dropped) = (outcomes.filled(), outcomes.dropped());
    if filled + dropped > 0 {
        warn(
            WarningKind::MissingScores,
            format!(
                "{filled} missing scores count as 0 and {dropped} {}s are left out.",
                options.unit
            ),
        );
    }
    if let Some(clusters) = outcomes.clusters() {
        cluster_warnings(
            clusters.names().len(),
            outcomes.units().len(),
            options,
            family,
            &mut warn,
        );
    }
    let named = |pair: &PairRow| format!("{} and {}", pair.a, pair.b);
    for pair in pairs {
        let (Ok(a_only), Ok(b_only)) = (pair.a_only, pair.b_only) else {
            continue;
        };
        let discordant = a_only + b_only;
        let smallest = SignFlip::smallest_attainable(discordant as usize);
        if discordant == 0 {
            warn(
                WarningKind::IdenticalSystems,
                format!(
                    "{} agree on every {}; p is 1 by convention.",
                    named(pair),
                    options.unit
                ),
            );
        } else if smallest * family.members as f64 > alpha {
            warn(
                WarningKind::CannotReject,
                format!(
                    "{} differ on {discordant} {}s: the smallest p possible is {smallest:.2e}, \
                     which Holm over {} pairs may not bring below {alpha:.3}.",
                    named(pair),
                    options.unit,
                    family.members
                ),
            );
        } else if discordant < FEW_DISCORDANT {
            warn(
                WarningKind::FewDiscordant,
                format!(
                    "{} differ on only {discordant} {}s.",
                    named(pair),
                    options.unit
                ),
            );
        }
    }
    warnings
}

fn cluster_warnings(
    clusters: usize,
    units: usize,
    options: &Options,
    family: FamilyRow,
    warn: &mut impl FnMut(WarningKind, String),
) {
    let (unit, cluster) = (&options.unit, &options.cluster);
    if units > clusters {
        warn(
            WarningKind::UnitsShareClusters,
            format!(
                "{units} {unit}s come from {clusters} {cluster}s: intervals and tests by {unit} hold \
                 for these {cluster}s, not for new ones."
            ),
        );
    }
    if clusters < FEW_CLUSTERS {
        warn(
            WarningKind::FewClusters,
            format!(
                "Only {clusters} {cluster}s: percentile intervals by {cluster} are too narrow; \
                 read the studentised interval and the sign-flip test."
            ),
        );
    }
    let smallest = SignFlip::smallest_attainable(clusters);
    if smallest > options.alpha {
        warn(
            WarningKind::SignFlipCannotReject,
            format!(
                "With {clusters} {cluster}s the sign-flip test cannot give p below {smallest:.3}."
            ),
        );
    } else if smallest * family.members as f64 > options.alpha {
        warn(
            WarningKind::SignFlipCannotReject,
            format!(
                "With {clusters} {cluster}s the sign-flip test cannot give p below {smallest:.4}, \
                 which Holm over {} pairs cannot bring below {:.3}: declare fewer systems.",
                family.members, options.alpha
            ),
        );
    }
}

fn in_pairs(count: usize) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} pair{plural}")
}

/// A fraction in percentage points, one decimal, without a negative zero.
fn points(fraction: f64) -> String {
    let tenths = (fraction * 1000.0).round() + 0.0;
    format!("{:.1}", tenths / 10.0)
}

/// `= 0.0123`, or `< 1e-300`.
fn equals(p: PValue) -> String {
    let shown = p.to_string();
    match shown.strip_prefix('<') {
        Some(bound) => format!("< {bound}"),
        None => format!("= {shown}"),
    }
}
