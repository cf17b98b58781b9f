//! The bootstrap distribution of a paired difference, without Monte-Carlo error.

use serde::Serialize;

use crate::{Defined, Interval, PValue, PairCounts, Undefined};

/// Distribution of the resampled difference of two systems' rates on 0/1 outcomes.
///
/// Drawing n units with replacement gives (a only, b only, concordant) counts that are multinomial
/// with the observed shares; the difference of the first two has the coefficients of
/// (q/x + r + p x)^n as its distribution. Strata are independent, so theirs are convolved. This is
/// what the plain or stratified paired bootstrap converges to as its replicates increase.
#[derive(Debug, Clone, PartialEq)]
pub struct DifferenceDistribution {
    /// Probability of each value of a-only minus b-only, from -units to units.
    probabilities: Vec<f64>,
    units: usize,
    observed: i64,
}

/// The closed-form counterparts of a percentile interval and a bootstrap sign test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ExactBootstrap {
    /// Interval of the difference.
    pub interval: Interval,
    /// Two-sided sign test.
    pub p: PValue,
}

impl DifferenceDistribution {
    /// The distribution under resampling within each stratum; one table a stratum, empty strata
    /// allowed. Errs with [`Undefined::NoUnits`] if all are.
    pub fn new(strata: &[PairCounts]) -> Defined<Self> {
        let units: u64 = strata.iter().map(PairCounts::units).sum();
        if units == 0 {
            return Err(Undefined::NoUnits);
        }
        let mut probabilities = vec![1.0];
        for stratum in strata.iter().filter(|stratum| stratum.units() > 0) {
            probabilities = convolve(&probabilities, &stratum_distribution(stratum));
        }
        let observed = strata
            .iter()
            .map(|s| s.a_only as i64 - s.b_only as i64)
            .sum();
        Ok(Self {
            probabilities,
            units: units as usize,
            observed,
        })
    }

    /// Observed difference of rates.
    pub fn difference(&self) -> f64 {
        self.observed as f64 / self.units as f64
    }

    /// The limit of the percentile interval: the largest interval whose ends each leave less than
    /// (1 - confidence)/2 strictly outside.
    pub fn interval(&self, confidence: f64) -> Interval {
        let tail = 0.5 * (1.0 - confidence);
        let lower = first_reaching(self.probabilities.iter(), tail) as i64 - self.units as i64;
        let upper =
            self.units as i64 - first_reaching(self.probabilities.iter().rev(), tail) as i64;
        let rate = |count: i64| count as f64 / self.units as f64;
        Interval {
            lower: rate(lower),
            upper: rate(upper),
        }
    }

    /// The limit of the two-sided bootstrap sign test: twice the smaller of P(D <= 0) and
    /// P(D >= 0), at most 1. Below 1e-300 that bound is returned.
    pub fn sign_test(&self) -> PValue {
        let at_most: f64 = self.probabilities[..=self.units].iter().sum();
        let at_least: f64 = self.probabilities[self.units..].iter().rev().sum();
        PValue::clamped(2.0 * at_most.min(at_least))
    }

    /// Interval and test together.
    pub fn summary(&self, confidence: f64) -> ExactBootstrap {
        ExactBootstrap {
            interval: self.interval(confidence),
            p: self.sign_test(),
        }
    }

    /// P(D <= `count` / units), for a count of a-only minus b-only.
    pub fn cumulative(&self, count: i64) -> f64 {
        let through = (count + self.units as i64 + 1).clamp(0, self.probabilities.len() as i64);
        self.probabilities[..through as usize]
            .iter()
            .sum::<f64>()
            .min(1.0)
    }
}

/// Position at which the running sum first reaches `share`.
fn first_reaching<'a>(probabilities: impl Iterator<Item = &'a f64>, share: f64) -> usize {
    let mut sum = 0.0;
    let mut position = 0;
    for (i, p) in probabilities.enumerate() {
        sum += p;
        position = i;
        // A tail that equals the share up to rounding reaches it.
        if sum >= share * (1.0 - 1e-12) {
            break;
        }
    }
    position
}

/// Distribution of a-only minus b-only for one stratum, from -n to n.
fn stratum_distribution(counts: &PairCounts) -> Vec<f64> {
    let n = counts.units() as usize;
    let (p, q) = (counts.a_only as f64, counts.b_only as f64);
    let r = (counts.both + counts.neither) as f64;
    // Each end of the polynomial is followed inwards, where its recurrence only adds positive
    // terms; the halves share the middle coefficient.
    let (mut high, mut low) = (inwards(n, p, r, q), inwards(n, q, r, p));
    let main = if p >= q {
        (&mut high, &mut low)
    } else {
        (&mut low, &mut high)
    };
    let (kept, scaled) = main;
    let factor = if scaled[n] > 0.0 {
        kept[n] / scaled[n]
    } else {
        0.0
    };
    scaled.iter_mut().for_each(|x| *x *= factor);
    high.pop();
    low.extend(high.into_iter().rev());
    let sum: f64 = low.iter().sum();
    low.iter_mut().for_each(|x| *x /= sum);
    low
}

/// Coefficients of (`outer` + `middle` x + `inner` x^2)^n from the constant one to that of x^n, up
/// to a common factor.
///
/// Miller's recurrence for powers: k c0 f(k) = (n + 1 - k) c1 f(k-1) + (2n + 2 - k) c2 f(k-2).
fn inwards(n: usize, outer: f64, middle: f64, inner: f64) -> Vec<f64> {
    const LARGE: f64 = 1e200;
    let mut f = vec![0.0; n + 1];
    if outer <= 0.0 {
        // The polynomial is x^n (middle + inner x)^n: only the last coefficient can remain.
        f[n] = if middle > 0.0 { 1.0 } else { 0.0 };
        return f;
    }
    f[0] = 1.0;
    for k in 1..=n {
        let before_last = if k > 1 {
            (2 * n + 2 - k) as f64 * inner * f[k - 2]
        } else {
            0.0
        };
        f[k] = ((n + 1 - k) as f64 * middle * f[k - 1] + before_last) / (k as f64 * outer);
        if f[k] > LARGE {
            f[..=k].iter_mut().for_each(|x| *x /= LARGE);
        }
    }
    f
}

fn convolve(a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut sum = vec![0.0; a.len() + b.len() - 1];
    for (i, x) in a.iter().enumerate().filter(|(_, x)| **x > 0.0) {
        for (s, y) in sum[i..].iter_mut().zip(b) {
            *s += x * y;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The recurrence against the plain n-fold convolution.
    #[test]
    fn the_closed_form_is_the_multinomial_convolution() {
        for (a_only, b_only, both) in [
            (3, 2, 5),
            (0, 4, 1),
            (4, 0, 0),
            (0, 0, 6),
            (40, 1, 300),
            (1, 1, 0),
        ] {
            let counts = PairCounts {
                a_only,
                b_only,
                both,
                neither: 0,
            };
            let n = counts.units() as f64;
            let step = [b_only as f64 / n, both as f64 / n, a_only as f64 / n];
            let mut expected = vec![1.0];
            for _ in 0..counts.units() {
                expected = convolve(&expected, &step);
            }
            for (x, y) in stratum_distribution(&counts).iter().zip(&expected) {
                assert!((x - y).abs() <= 1e-12 * y.max(1e-3), "{counts:?}: {x} {y}");
            }
        }
    }

    #[test]
    fn a_system_against_itself_is_exactly_zero() {
        let counts = PairCounts {
            both: 90,
            neither: 10,
            ..PairCounts::default()
        };
        let exact = DifferenceDistribution::new(&[counts])
            .unwrap()
            .summary(0.95);
        assert_eq!(
            exact.interval,
            Interval {
                lower: 0.0,
                upper: 0.0
            }
        );
        assert_eq!(exact.p, PValue::ONE);
    }
}
