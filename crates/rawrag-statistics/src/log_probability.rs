use std::fmt;

use serde::{Serialize, Serializer};

/// A p-value, held as its natural logarithm so that it cannot underflow.
///
/// Range (0, 1]. Ordering is by size; `Display` and serialisation never show 0: below
/// [`PValue::SMALLEST_SHOWN`] they show that bound, and [`PValue::log10`] has the magnitude.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct PValue {
    ln: f64,
}

impl PValue {
    /// Certainty under the null hypothesis.
    pub const ONE: Self = Self { ln: 0.0 };

    /// The smallest value that is shown as a number rather than as a bound.
    pub const SMALLEST_SHOWN: f64 = 1e-300;

    /// From a natural logarithm; values above 0 (rounding of a sum of probabilities) become 0.
    ///
    /// Returns `None` for NaN and for negative infinity: no test here has p exactly 0.
    pub fn from_ln(ln: f64) -> Option<Self> {
        (ln > f64::NEG_INFINITY).then_some(Self { ln: ln.min(0.0) })
    }

    /// From a probability in (0, 1]; `None` outside that range and for NaN.
    pub fn new(p: f64) -> Option<Self> {
        (p > 0.0 && p <= 1.0).then(|| Self { ln: p.ln() })
    }

    /// The Monte-Carlo p-value (1 + hits) / (1 + replicates), at most 1.
    ///
    /// Counting the observed statistic among its own replicates keeps the test valid and p above
    /// zero (Davison and Hinkley 1997, equation 4.11).
    pub fn monte_carlo(hits: u64, replicates: u64) -> Self {
        let ratio = (1.0 + hits as f64) / (1.0 + replicates as f64);
        Self {
            ln: ratio.ln().min(0.0),
        }
    }

    /// The probability in \[0, 1\]; 0 only when the logarithm is below what a double can hold.
    pub fn value(self) -> f64 {
        self.ln.exp()
    }

    /// Natural logarithm, at most 0.
    pub fn ln(self) -> f64 {
        self.ln
    }

    /// Decimal logarithm, at most 0.
    pub fn log10(self) -> f64 {
        self.ln / std::f64::consts::LN_10
    }

    /// The probability times `factor`, at most 1. `factor` must be positive.
    pub(crate) fn times(self, factor: f64) -> Self {
        Self {
            ln: (self.ln + factor.ln()).min(0.0),
        }
    }

    /// From a probability that may have been rounded out of (0, 1]. Values below
    /// [`PValue::SMALLEST_SHOWN`] become that bound.
    pub(crate) fn clamped(p: f64) -> Self {
        Self {
            ln: p.clamp(Self::SMALLEST_SHOWN, 1.0).ln(),
        }
    }

    /// From a logarithm known to be finite.
    pub(crate) fn clamped_ln(ln: f64) -> Self {
        Self {
            ln: ln.clamp(f64::MIN, 0.0),
        }
    }
}

impl fmt::Display for PValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let p = self.value();
        if p < Self::SMALLEST_SHOWN {
            write!(f, "<1e-300")
        } else if p < 1e-4 {
            write!(f, "{p:.1e}")
        } else {
            write!(f, "{p:.4}")
        }
    }
}

impl Serialize for PValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.value().max(Self::SMALLEST_SHOWN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_probability_is_refused() {
        for p in [f64::NAN, 0.0, -0.1, 1.1] {
            assert_eq!(PValue::new(p), None);
        }
        assert_eq!(PValue::from_ln(f64::NAN), None);
        assert_eq!(PValue::from_ln(f64::NEG_INFINITY), None);
    }

    #[test]
    fn a_tiny_p_is_shown_as_a_bound_and_keeps_its_magnitude() {
        let p = PValue::clamped_ln(-1000.0 * std::f64::consts::LN_10);
        assert_eq!(p.to_string(), "<1e-300");
        assert_eq!(serde_json::to_string(&p).unwrap(), "1e-300");
        assert!((p.log10() + 1000.0).abs() < 1e-9);
    }

    #[test]
    fn monte_carlo_counts_the_observation() {
        assert_eq!(PValue::monte_carlo(0, 999).to_string(), "0.0010");
        assert_eq!(PValue::monte_carlo(2_000, 999), PValue::ONE);
    }
}
