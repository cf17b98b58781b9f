//! Conditions against a reference on the same questions: differences with paired intervals, tests
//! and Holm's correction.

use rawrag_statistics::{
    Adjustment, Contributions, Family, Interval, IntervalMethod, PValue, Population,
    ResamplingError, Scheme, Score, ScoreReport, Scores, sign_flip,
};

use crate::{DiagnosticError, Settings, Value};

/// A condition against the reference.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Against {
    /// Mean over the questions.
    pub(crate) value: f64,
    /// Condition minus reference.
    pub(crate) difference: f64,
    /// Interval of the difference, questions drawn within their strata.
    pub(crate) stratified: Option<Interval>,
    /// Interval of the difference, whole clusters drawn.
    pub(crate) clustered: Option<Interval>,
    /// Bootstrap sign test of the stratified draws.
    pub(crate) p: Option<PValue>,
    /// Sign-flip test over clusters.
    pub(crate) p_clusters: PValue,
    /// `p` after Holm over the family.
    pub(crate) p_holm: Option<PValue>,
    /// `p_clusters` after Holm over the family.
    pub(crate) p_clusters_holm: Option<PValue>,
}

/// Questions of several conditions.
pub(crate) struct Paired<'a> {
    /// One list a condition, one value a question, all defined.
    pub(crate) values: Vec<Vec<f64>>,
    /// Stratum of each question.
    pub(crate) strata: &'a [usize],
    /// Cluster of each question.
    pub(crate) clusters: &'a [usize],
}

impl Paired<'_> {
    /// Every condition against the one at `reference`, whose own entry compares it with itself.
    /// The family is every condition but the reference.
    pub(crate) fn against(
        &self,
        reference: usize,
        settings: &Settings,
    ) -> Result<Vec<Against>, DiagnosticError> {
        let conditions = self.values.len();
        let questions = self.values.first().map_or(0, Vec::len);
        if questions == 0 {
            return Err(statistic(ResamplingError::NoUnits));
        }
        let mut contributions = Contributions::new(conditions + 1);
        for question in 0..questions {
            let mut row: Vec<f64> = self.values.iter().map(|values| values[question]).collect();
            row.push(1.0);
            contributions.push(&row).map_err(statistic)?;
        }
        let report = |scheme| -> Result<ScoreReport, DiagnosticError> {
            let population = Population::new(&contributions, scheme).map_err(statistic)?;
            let scores = (0..conditions)
                .map(|c| Score::ratio(c, conditions))
                .collect();
            let pairs = (0..conditions).map(|c| (c, reference)).collect();
            Scores::new(scores, pairs)
                .and_then(|scores| {
                    scores.estimate(
                        &population,
                        settings.replication,
                        IntervalMethod::Percentile,
                        settings.confidence,
                    )
                })
                .map_err(statistic)
        };
        let stratified = report(Scheme::UnitsWithinStrata(self.strata))?;
        let clustered = report(Scheme::Clusters(self.clusters))?;
        let mut against = Vec::new();
        for c in 0..conditions {
            let contrast = &stratified.contrasts[c];
            against.push(Against {
                value: stratified.scores[c]
                    .value
                    .map_err(|e| DiagnosticError::Statistic(e.to_string()))?,
                difference: contrast
                    .difference
                    .map_err(|e| DiagnosticError::Statistic(e.to_string()))?,
                stratified: contrast.interval.ok(),
                clustered: clustered.contrasts[c].interval.ok(),
                p: contrast.p_sign.ok(),
                p_clusters: sign_flip(&self.by_cluster(c, reference), settings.replication).p,
                p_holm: None,
                p_clusters_holm: None,
            });
        }
        let others: Vec<usize> = (0..conditions).filter(|&c| c != reference).collect();
        let by_question = holm(others.iter().map(|&c| against[c].p));
        let by_cluster = holm(others.iter().map(|&c| Some(against[c].p_clusters)));
        for (place, &c) in others.iter().enumerate() {
            against[c].p_holm = by_question.get(place).copied();
            against[c].p_clusters_holm = by_cluster.get(place).copied();
        }
        Ok(against)
    }

    /// Summed differences of each cluster.
    fn by_cluster(&self, a: usize, b: usize) -> Vec<f64> {
        let clusters = self.clusters.iter().max().map_or(0, |last| last + 1);
        let mut sums = vec![0.0; clusters];
        for (question, &cluster) in self.clusters.iter().enumerate() {
            sums[cluster] += self.values[a][question] - self.values[b][question];
        }
        sums
    }
}

impl Against {
    /// An end of an interval, as a value.
    pub(crate) fn ends(interval: Option<Interval>) -> [Value; 2] {
        match interval {
            Some(interval) => [Value::Number(interval.lower), Value::Number(interval.upper)],
            None => [(); 2].map(|()| Value::Absent("no interval".to_owned())),
        }
    }
}

/// A p-value, or `the reference`.
pub(crate) fn p_value(p: Option<PValue>) -> Value {
    p.map_or_else(
        || Value::Absent("the reference itself".to_owned()),
        Value::P,
    )
}

/// Holm over a family; empty where a member has no p-value.
fn holm(members: impl Iterator<Item = Option<PValue>>) -> Vec<PValue> {
    let named = members.enumerate().map(|(at, p)| {
        let p = p.ok_or(rawrag_statistics::Undefined::NoReplicate);
        (at.to_string(), p)
    });
    Family::declare(named).map_or_else(
        |_| Vec::new(),
        |family| {
            family
                .adjusted(Adjustment::Holm)
                .into_iter()
                .map(|(_, p)| p)
                .collect()
        },
    )
}

pub(crate) fn statistic(error: ResamplingError) -> DiagnosticError {
    error.into()
}
