use serde::Serialize;

use super::Sample;
use crate::distributions::{normal_cdf, normal_quantile};
use crate::{Defined, PValue, Undefined};

/// A two-sided interval; `lower <= upper`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// Lower end.
    pub lower: f64,
    /// Upper end.
    pub upper: f64,
}

impl Interval {
    /// The interval of the negated quantity.
    pub fn negated(self) -> Self {
        // 0 - x rather than -x, so that 0 stays +0.
        Self {
            lower: 0.0 - self.upper,
            upper: 0.0 - self.lower,
        }
    }

    /// Whether `value` lies in the closed interval.
    pub fn contains(self, value: f64) -> bool {
        self.lower <= value && value <= self.upper
    }
}

impl Sample {
    /// Percentile interval: the (1 - confidence)/2 and (1 + confidence)/2 quantiles of the defined
    /// replicates, interpolated linearly (numpy's default).
    ///
    /// Negated replicates give exactly the negated interval. Errs with [`Undefined::NoReplicate`], and
    /// with [`Undefined::OutOfRange`] unless the confidence is in \[0, 1\].
    pub fn percentile(&self, confidence: f64) -> Defined<Interval> {
        let tail = 0.5 * (1.0 - confidence);
        self.between(tail, tail)
    }

    /// Basic interval: 2 estimate minus the percentile ends, swapped.
    pub fn basic(&self, estimate: f64, confidence: f64) -> Defined<Interval> {
        let Interval { lower, upper } = self.percentile(confidence)?;
        Ok(Interval {
            lower: 2.0 * estimate - upper,
            upper: 2.0 * estimate - lower,
        })
    }

    /// Bias-corrected and accelerated interval (Efron 1987).
    ///
    /// `acceleration` comes from [`acceleration`]. Replicates equal to the estimate count half for
    /// the bias correction, as in scipy. Errs with [`Undefined::OneSided`] when all replicates lie
    /// on one side of the estimate.
    pub fn bca(&self, estimate: f64, acceleration: f64, confidence: f64) -> Defined<Interval> {
        if self.values.is_empty() {
            return Err(Undefined::NoReplicate);
        }
        let below = self.values.iter().filter(|&&v| v < estimate).count() as f64;
        let above = self.values.iter().filter(|&&v| v > estimate).count() as f64;
        let n = self.values.len() as f64;
        let share = 0.5 * (n + below - above) / n;
        if share <= 0.0 || share >= 1.0 {
            return Err(Undefined::OneSided);
        }
        let bias = normal_quantile(share);
        let quantile = normal_quantile(0.5 * (1.0 - confidence));
        let adjusted = |z: f64| bias + (bias + z) / (1.0 - acceleration * (bias + z));
        self.between(
            normal_cdf(adjusted(quantile)),
            normal_cdf(-adjusted(-quantile)),
        )
    }

    /// Two-sided bootstrap sign test of a difference being 0: twice the smaller of the shares of
    /// replicates at or below and at or above 0, each counted as (1 + hits) / (1 + B), at most 1.
    ///
    /// An undefined replicate speaks against neither side, so it counts as a hit on both.
    pub fn sign_test(&self) -> PValue {
        let at_most = self.values.iter().filter(|&&v| v <= 0.0).count();
        let at_least = self.values.iter().filter(|&&v| v >= 0.0).count();
        let hits = at_most.min(at_least) + self.undefined;
        PValue::monte_carlo(hits as u64, self.replicates() as u64).times(2.0)
    }

    /// Ends that leave `below` and `above` of the replicates outside, interpolated linearly. The
    /// upper end is found as the mirrored lower one, so that negation is exact.
    fn between(&self, below: f64, above: f64) -> Defined<Interval> {
        let last = self
            .values
            .len()
            .checked_sub(1)
            .ok_or(Undefined::NoReplicate)?;
        if !(0.0..=1.0).contains(&below) || !(0.0..=1.0).contains(&above) {
            return Err(Undefined::OutOfRange);
        }
        let place = |share: f64| {
            let position = share * last as f64;
            let whole = (position.floor() as usize).min(last);
            (whole, position - whole as f64)
        };
        let mut values = self.values.clone();
        let (rank, weight) = place(below);
        let (_, &mut low, rest) = values.select_nth_unstable_by(rank, f64::total_cmp);
        let next = rest.iter().copied().min_by(f64::total_cmp).unwrap_or(low);
        let lower = low + weight * (next - low);
        let (rank, weight) = place(above);
        let (rest, &mut high, _) = values.select_nth_unstable_by(last - rank, f64::total_cmp);
        let next = rest.iter().copied().max_by(f64::total_cmp).unwrap_or(high);
        Ok(Interval {
            lower,
            upper: high - weight * (high - next),
        })
    }
}

/// The acceleration of the BCa interval from leave-one-out values of the statistic, a slice a
/// stratum (Davison and Hinkley 1997, equation 5.28; one stratum gives Efron's jackknife form).
///
/// 0 when leaving out a unit never changes the statistic.
pub fn acceleration(leave_one_out: &[Vec<f64>]) -> f64 {
    let (mut cubes, mut squares) = (0.0, 0.0);
    for stratum in leave_one_out {
        let n = stratum.len() as f64;
        let mean = stratum.iter().sum::<f64>() / n;
        for value in stratum {
            let influence = (n - 1.0) * (mean - value) / n;
            squares += influence * influence;
            cubes += influence * influence * influence;
        }
    }
    if squares > 0.0 {
        cubes / (6.0 * squares.powf(1.5))
    } else {
        0.0
    }
}
