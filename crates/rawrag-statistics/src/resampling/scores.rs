use rayon::prelude::*;
use serde::Serialize;

use super::{Interval, Population, Replication, ResamplingError, Sample, acceleration, resample};
use crate::{Defined, PValue, Undefined, undefined};

/// A weighted sum of ratios of totals: the score of one system.
///
/// Covers rates (one ratio over the count), utilization (equation 4 of the Raw-RAG paper), path
/// given result, macro-averages over tasks, and the capability weighting of its equation 6. Gates
/// belong in the contributions: a gated numerator is the after-score times the before-pass.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    terms: Vec<(f64, usize, usize)>,
}

impl Score {
    /// Total of `numerator` over total of `denominator`.
    pub fn ratio(numerator: usize, denominator: usize) -> Self {
        Self {
            terms: vec![(1.0, numerator, denominator)],
        }
    }

    /// The plain average of ratios, each (numerator, denominator). Undefined without any.
    pub fn macro_average(ratios: &[(usize, usize)]) -> Self {
        let parts: Vec<_> = ratios.iter().map(|&(n, d)| Self::ratio(n, d)).collect();
        Self::average(&parts)
    }

    /// The plain average of scores; averages may be nested, as in equation 6.
    pub fn average(scores: &[Self]) -> Self {
        let share = 1.0 / scores.len() as f64;
        let terms = scores.iter().flat_map(|score| &score.terms);
        Self {
            terms: terms
                .map(|&(weight, n, d)| (share * weight, n, d))
                .collect(),
        }
    }

    /// The score of given totals. Errs with [`Undefined::ZeroDenominator`], and with
    /// [`Undefined::NoUnits`] for an average of nothing.
    fn evaluate(&self, totals: &[f64]) -> Defined<f64> {
        if self.terms.is_empty() {
            return Err(Undefined::NoUnits);
        }
        let mut sum = 0.0;
        for &(weight, numerator, denominator) in &self.terms {
            if totals[denominator].abs() < f64::MIN_POSITIVE {
                return Err(Undefined::ZeroDenominator);
            }
            sum += weight * totals[numerator] / totals[denominator];
        }
        Ok(sum)
    }
}

/// Scores of several systems and the pairs to contrast.
#[derive(Debug, Clone, PartialEq)]
pub struct Scores {
    scores: Vec<Score>,
    pairs: Vec<(usize, usize)>,
}

/// Which bootstrap interval to take from the replicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IntervalMethod {
    /// [`Sample::percentile`], the papers' choice.
    Percentile,
    /// [`Sample::basic`].
    Basic,
    /// [`Sample::bca`], with the acceleration from leaving out one unit or cluster at a time.
    BiasCorrected,
}

/// A score with its interval.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScoreEstimate {
    /// The score of the sample.
    #[serde(serialize_with = "undefined::serialize")]
    pub value: Defined<f64>,
    /// Bootstrap interval.
    #[serde(serialize_with = "undefined::serialize")]
    pub interval: Defined<Interval>,
    /// Replicates in which the score is undefined; the interval is of the others.
    pub undefined_replicates: usize,
}

/// Score a minus score b, with interval and test.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Contrast {
    /// Position of score a.
    pub a: usize,
    /// Position of score b.
    pub b: usize,
    /// Score a minus score b of the sample.
    #[serde(serialize_with = "undefined::serialize")]
    pub difference: Defined<f64>,
    /// Bootstrap interval.
    #[serde(serialize_with = "undefined::serialize")]
    pub interval: Defined<Interval>,
    /// Two-sided bootstrap sign test ([`Sample::sign_test`]).
    #[serde(serialize_with = "undefined::serialize")]
    pub p_sign: Defined<PValue>,
    /// Replicates in which the difference is undefined.
    pub undefined_replicates: usize,
}

/// The omnibus test that all scores are equal.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RangeTest {
    /// Largest minus smallest score.
    pub range: f64,
    /// Share of replicates, counted as (1 + hits) / (1 + B), whose range of centred scores
    /// (replicate minus estimate) reaches the observed range. An undefined replicate is a hit.
    pub p: PValue,
}

/// Estimates, contrasts and omnibus test from one set of replicates.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScoreReport {
    /// One a score, in order.
    pub scores: Vec<ScoreEstimate>,
    /// One a pair, in order.
    pub contrasts: Vec<Contrast>,
    /// Centred max-minus-min range bootstrap. Undefined if a score is, or with fewer than two.
    #[serde(serialize_with = "undefined::serialize")]
    pub range: Defined<RangeTest>,
}

impl Scores {
    /// Scores to estimate and pairs of positions to contrast. Errs on a pair that names no score.
    pub fn new(scores: Vec<Score>, pairs: Vec<(usize, usize)>) -> Result<Self, ResamplingError> {
        let beyond = pairs
            .iter()
            .flat_map(|&(a, b)| [a, b])
            .find(|&s| s >= scores.len());
        match beyond {
            Some(score) => Err(ResamplingError::NoScore {
                score,
                scores: scores.len(),
            }),
            None => Ok(Self { scores, pairs }),
        }
    }

    /// Scores to estimate, contrasting each with every later one.
    pub fn all_pairs(scores: Vec<Score>) -> Self {
        let n = scores.len();
        let pairs = (0..n)
            .flat_map(|a| (a + 1..n).map(move |b| (a, b)))
            .collect();
        Self { scores, pairs }
    }

    /// Estimates everything from one set of paired replicates.
    ///
    /// Errs when a score names a column that the population does not have.
    pub fn estimate(
        &self,
        population: &Population,
        replication: Replication,
        method: IntervalMethod,
        confidence: f64,
    ) -> Result<ScoreReport, ResamplingError> {
        self.check_columns(population)?;
        let observed = self.values(population.totals());
        let left_out = match method {
            IntervalMethod::BiasCorrected => population.leave_one_out(),
            IntervalMethod::Percentile | IntervalMethod::Basic => Vec::new(),
        };
        let interval =
            |sample: &Sample, value: Defined<f64>, of: &(dyn Fn(&[f64]) -> Defined<f64> + Sync)| {
                let value = value?;
                match method {
                    IntervalMethod::Percentile => sample.percentile(confidence),
                    IntervalMethod::Basic => sample.basic(value, confidence),
                    IntervalMethod::BiasCorrected => {
                        let without: Defined<Vec<Vec<f64>>> = left_out
                            .iter()
                            .map(|stratum| stratum.iter().map(|totals| of(totals)).collect())
                            .collect();
                        sample.bca(value, acceleration(&without?), confidence)
                    }
                }
            };
        let samples = self.samples(population, replication, &observed);
        let (scores, rest) = samples.split_at(self.scores.len());
        let (contrasts, range) = rest.split_at(self.pairs.len());
        Ok(ScoreReport {
            scores: (scores, &self.scores, &observed)
                .into_par_iter()
                .map(|(sample, score, &value)| ScoreEstimate {
                    value,
                    interval: interval(sample, value, &|totals| score.evaluate(totals)),
                    undefined_replicates: sample.undefined(),
                })
                .collect(),
            contrasts: (contrasts, &self.pairs)
                .into_par_iter()
                .map(|(sample, &(a, b))| {
                    let difference = subtract(observed[a], observed[b]);
                    let of = |totals: &[f64]| {
                        subtract(
                            self.scores[a].evaluate(totals),
                            self.scores[b].evaluate(totals),
                        )
                    };
                    Contrast {
                        a,
                        b,
                        difference,
                        interval: interval(sample, difference, &of),
                        p_sign: difference.map(|_| sample.sign_test()),
                        undefined_replicates: sample.undefined(),
                    }
                })
                .collect(),
            range: range_test(&observed, range),
        })
    }

    /// The replicates of every score, then of every contrast, then of the centred range.
    fn samples(
        &self,
        population: &Population,
        replication: Replication,
        observed: &[Defined<f64>],
    ) -> Vec<Sample> {
        let scores = self.scores.len();
        let statistics = scores + self.pairs.len() + 1;
        resample(population, replication, statistics, |totals, out| {
            for (value, score) in out.iter_mut().zip(&self.scores) {
                *value = score.evaluate(totals).ok();
            }
            for (i, &(a, b)) in self.pairs.iter().enumerate() {
                out[scores + i] = out[a].zip(out[b]).map(|(a, b)| a - b);
            }
            let centred = out.iter().zip(observed).map(|(value, observed)| {
                value
                    .zip(observed.ok())
                    .map(|(value, observed)| value - observed)
            });
            out[statistics - 1] = spread(centred);
        })
    }

    fn values(&self, totals: &[f64]) -> Vec<Defined<f64>> {
        self.scores
            .iter()
            .map(|score| score.evaluate(totals))
            .collect()
    }

    fn check_columns(&self, population: &Population) -> Result<(), ResamplingError> {
        let columns = population.totals().len();
        let terms = self.scores.iter().flat_map(|score| &score.terms);
        match terms
            .flat_map(|&(_, n, d)| [n, d])
            .find(|&column| column >= columns)
        {
            Some(column) => Err(ResamplingError::NoColumn { column, columns }),
            None => Ok(()),
        }
    }
}

fn subtract(a: Defined<f64>, b: Defined<f64>) -> Defined<f64> {
    Ok(a? - b?)
}

/// Largest minus smallest; `None` if any is undefined or there are none.
fn spread(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values {
        let value = value?;
        least = least.min(value);
        most = most.max(value);
    }
    (least <= most).then_some(most - least)
}

fn range_test(observed: &[Defined<f64>], centred: &[Sample]) -> Defined<RangeTest> {
    if observed.len() < 2 {
        return Err(Undefined::TooFewSystems);
    }
    let observed: Vec<f64> = observed.iter().copied().collect::<Defined<_>>()?;
    let range = spread(observed.into_iter().map(Some)).ok_or(Undefined::TooFewSystems)?;
    // Rounding must not turn a tie into a miss.
    let reached = range - 1e-12;
    let hits = centred.iter().map(|sample| {
        sample
            .values()
            .iter()
            .filter(|&&value| value >= reached)
            .count()
            + sample.undefined()
    });
    let replicates: usize = centred.iter().map(Sample::replicates).sum();
    Ok(RangeTest {
        range,
        p: PValue::monte_carlo(hits.sum::<usize>() as u64, replicates as u64),
    })
}
