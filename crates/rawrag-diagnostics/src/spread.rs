//! How numbers are spread: mean and linearly interpolated percentiles.

use crate::Value;

/// Numbers in ascending order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spread(Vec<f64>);

impl Spread {
    /// Of these numbers, in any order; what is not finite is left out.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().filter(|x| x.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Their mean; summed in ascending order, so that the order given does not matter.
    pub fn mean(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.iter().sum::<f64>() / self.0.len() as f64)
    }

    /// Their sum.
    pub fn sum(&self) -> f64 {
        self.0.iter().sum()
    }

    /// The percentile at a share in \[0, 1\], linearly interpolated (numpy's default).
    pub fn percentile(&self, share: f64) -> Option<f64> {
        let last = self.0.len().checked_sub(1)?;
        let place = share.clamp(0.0, 1.0) * last as f64;
        let below = place.floor() as usize;
        let above = (below + 1).min(last);
        let part = place - below as f64;
        Some(self.0[below] + (self.0[above] - self.0[below]) * part)
    }

    /// The mean as a value; absent for nothing at all.
    pub fn mean_of(&self, what: &str) -> Value {
        present(self.mean(), what)
    }

    /// A percentile as a value; absent for nothing at all.
    pub fn percentile_of(&self, share: f64, what: &str) -> Value {
        present(self.percentile(share), what)
    }
}

/// The number, or `no WHAT`.
pub(crate) fn present(number: Option<f64>, what: &str) -> Value {
    number.map_or_else(|| Value::Absent(format!("no {what}")), Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// numpy.percentile([1, 2, 4, 8], [50, 95]) is [3, 7.4].
    #[test]
    fn percentiles_are_numpys() {
        let spread = Spread::of([8.0, 1.0, 4.0, 2.0, f64::NAN]);
        assert_eq!(spread.mean(), Some(3.75));
        assert_eq!(spread.percentile(0.5), Some(3.0));
        assert!((spread.percentile(0.95).unwrap_or(0.0) - 7.4).abs() < 1e-12);
        assert_eq!(Spread::default().percentile(0.5), None);
    }
}
