//! Tests of one pair of systems on the same units (McNemar).

use serde::Serialize;

use crate::distributions::{ln_binomial, ln_chi_squared_tail, ln_fair_binomial_cdf};
use crate::{Defined, PValue, Undefined};

/// The two-by-two table of paired 0/1 outcomes of systems a and b.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct PairCounts {
    /// Units on which both are correct.
    pub both: u64,
    /// Units on which only a is correct.
    pub a_only: u64,
    /// Units on which only b is correct.
    pub b_only: u64,
    /// Units on which neither is correct.
    pub neither: u64,
}

/// An asymptotic McNemar test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ChiSquared {
    /// The statistic, with one degree of freedom.
    pub statistic: f64,
    /// Its upper tail.
    pub p: PValue,
}

impl PairCounts {
    /// Counts paired scores. Errs with [`Undefined::NotBinary`] unless every score is 0 or 1.
    ///
    /// Scores beyond the shorter slice have no partner and are not counted.
    pub fn tally(a: &[f64], b: &[f64]) -> Defined<Self> {
        let mut counts = Self::default();
        for (&a, &b) in a.iter().zip(b) {
            match (as_binary(a)?, as_binary(b)?) {
                (true, true) => counts.both += 1,
                (true, false) => counts.a_only += 1,
                (false, true) => counts.b_only += 1,
                (false, false) => counts.neither += 1,
            }
        }
        Ok(counts)
    }

    /// Number of units.
    pub fn units(&self) -> u64 {
        self.both + self.a_only + self.b_only + self.neither
    }

    /// Number of units on which exactly one system is correct.
    pub fn discordant(&self) -> u64 {
        self.a_only + self.b_only
    }

    /// Rate of a minus rate of b, in \[-1, 1\].
    pub fn difference(&self) -> Defined<f64> {
        match self.units() {
            0 => Err(Undefined::NoUnits),
            n => Ok((self.a_only as f64 - self.b_only as f64) / n as f64),
        }
    }

    /// The same table seen from b.
    pub fn swapped(&self) -> Self {
        Self {
            a_only: self.b_only,
            b_only: self.a_only,
            ..*self
        }
    }

    /// Exact McNemar test, two-sided: twice the binomial(discordant, 1/2) tail up to the smaller
    /// discordant count, at most 1.
    ///
    /// With no discordant units p is 1: nothing speaks against equality. It is the distribution
    /// of the paired permutation test as well, since only discordant units change sign.
    pub fn exact(&self) -> PValue {
        let n = self.discordant();
        let ln_tail = ln_fair_binomial_cdf(self.a_only.min(self.b_only), n);
        PValue::clamped_ln(ln_tail + std::f64::consts::LN_2)
    }

    /// Mid-p McNemar test: the exact p minus the probability of the observed split
    /// (Fagerland, Lydersen and Laake 2013). 1 with no discordant units.
    pub fn mid_p(&self) -> PValue {
        let n = self.discordant();
        let smaller = self.a_only.min(self.b_only);
        if 2 * smaller == n {
            return PValue::ONE;
        }
        let ln_tail = ln_fair_binomial_cdf(smaller, n);
        let ln_point = ln_binomial(smaller, n, 0.5);
        // tail - point / 2 = tail (1 - point / (2 tail))
        let ln_kept = (-0.5 * (ln_point - ln_tail).exp()).ln_1p();
        PValue::clamped_ln(std::f64::consts::LN_2 + ln_tail + ln_kept)
    }

    /// McNemar's chi-squared without correction: (a_only - b_only)^2 / discordant, one degree of
    /// freedom. Errs with [`Undefined::NoDisagreement`] with no discordant units.
    pub fn chi_squared(&self) -> Defined<ChiSquared> {
        self.chi_squared_less(0.0)
    }

    /// McNemar's chi-squared with Edwards' correction: (max(|a_only - b_only| - 1, 0))^2 /
    /// discordant. Equal counts give 0 as in R; statsmodels squares the -1 there.
    ///
    /// Errs with [`Undefined::NoDisagreement`] with no discordant units.
    pub fn chi_squared_corrected(&self) -> Defined<ChiSquared> {
        self.chi_squared_less(1.0)
    }

    fn chi_squared_less(&self, correction: f64) -> Defined<ChiSquared> {
        let n = self.discordant();
        if n == 0 {
            return Err(Undefined::NoDisagreement);
        }
        let excess = (self.a_only.abs_diff(self.b_only) as f64 - correction).max(0.0);
        let statistic = excess * excess / n as f64;
        let p = PValue::clamped_ln(ln_chi_squared_tail(statistic, 1));
        Ok(ChiSquared { statistic, p })
    }
}

/// Whether a score is 1; errs unless it is 0 or 1.
pub(crate) fn as_binary(score: f64) -> Defined<bool> {
    if score.to_bits() == 1f64.to_bits() {
        Ok(true)
    } else if score.abs().to_bits() == 0 {
        Ok(false)
    } else {
        Err(Undefined::NotBinary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_discordant_pairs_is_p_one_and_no_chi_squared() {
        let counts = PairCounts {
            both: 5,
            neither: 3,
            ..PairCounts::default()
        };
        assert_eq!(counts.exact(), PValue::ONE);
        assert_eq!(counts.mid_p(), PValue::ONE);
        assert_eq!(counts.chi_squared(), Err(Undefined::NoDisagreement));
        assert_eq!(counts.difference(), Ok(0.0));
    }

    #[test]
    fn two_thousand_on_one_side_does_not_underflow() {
        let counts = PairCounts {
            a_only: 2_000,
            ..PairCounts::default()
        };
        let expected = 2f64.log10() - 2_000.0 * 2f64.log10();
        assert!((counts.exact().log10() - expected).abs() < 1e-9);
        assert!((counts.mid_p().log10() - (expected - 2f64.log10())).abs() < 1e-9);
    }
}
