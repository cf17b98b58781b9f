//! Tails and quantiles of the normal, chi-squared and binomial distributions, in log space.

use std::f64::consts::{LN_2, PI, SQRT_2};

/// ln P(Z > z) for a standard normal Z.
pub(crate) fn ln_normal_tail(z: f64) -> f64 {
    ln_erfc(z / SQRT_2) - LN_2
}

/// P(Z > z) for a standard normal Z.
pub(crate) fn normal_tail(z: f64) -> f64 {
    0.5 * libm::erfc(z / SQRT_2)
}

/// P(Z <= z) for a standard normal Z.
pub(crate) fn normal_cdf(z: f64) -> f64 {
    normal_tail(-z)
}

/// The z with P(Z <= z) = `p`; infinite at 0 and 1.
///
/// A rational start (Abramowitz and Stegun 26.2.23, error below 4.5e-4) and Halley steps on the
/// error function, which reach full precision in three.
pub(crate) fn normal_quantile(p: f64) -> f64 {
    if p <= 0.0 {
        return f64::NEG_INFINITY;
    }
    if p >= 1.0 {
        return f64::INFINITY;
    }
    if p > 0.5 {
        return -normal_quantile(1.0 - p);
    }
    let t = (-2.0 * p.ln()).sqrt();
    let numerator = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let denominator = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    let mut z = -(t - numerator / denominator);
    for _ in 0..3 {
        let density = (-0.5 * z * z).exp() / (2.0 * PI).sqrt();
        let step = (normal_cdf(z) - p) / density;
        z -= step / (1.0 + 0.5 * z * step);
    }
    z
}

/// ln P(X > x) for a chi-squared X with `degrees` >= 1 degrees of freedom.
///
/// For whole degrees of freedom the upper incomplete gamma function is a finite sum of positive
/// terms (Abramowitz and Stegun 26.4.4 and 26.4.5), so nothing cancels or underflows.
pub(crate) fn ln_chi_squared_tail(x: f64, degrees: u32) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let half = 0.5 * x;
    let mut terms = Vec::with_capacity(degrees as usize / 2 + 1);
    // ln of half^e exp(-half) / Gamma(e + 1), for e = 0, 1, .. or 1/2, 3/2, ..
    let (mut exponent, mut ln_term) = if degrees.is_multiple_of(2) {
        (0.0, -half)
    } else {
        terms.push(ln_erfc(half.sqrt()));
        (0.5, 0.5 * half.ln() - half - (0.5 * PI.sqrt()).ln())
    };
    for _ in 0..degrees / 2 {
        terms.push(ln_term);
        exponent += 1.0;
        ln_term += half.ln() - f64::ln(exponent);
    }
    ln_sum(&terms).min(0.0)
}

/// ln of the binomial probability of `k` successes in `n` trials of probability `p`.
///
/// Saddle-point form (Loader 2000), accurate to about 1e-14 relative at any n.
pub(crate) fn ln_binomial(k: u64, n: u64, p: f64) -> f64 {
    if k > n {
        return f64::NEG_INFINITY;
    }
    let q = 1.0 - p;
    let (kf, nf) = (k as f64, n as f64);
    let rest = nf - kf;
    if k == 0 {
        return if n == 0 { 0.0 } else { nf * (-p).ln_1p() };
    }
    if k == n {
        return nf * p.ln();
    }
    stirling_error(n)
        - stirling_error(k)
        - stirling_error(n - k)
        - deviance(kf, nf * p)
        - deviance(rest, nf * q)
        + 0.5 * (nf / (2.0 * PI * kf * rest)).ln()
}

/// ln P(X <= k) for X binomial with `n` fair trials.
pub(crate) fn ln_fair_binomial_cdf(k: u64, n: u64) -> f64 {
    if k >= n {
        return 0.0;
    }
    if 2 * k >= n {
        // The upper tail is the short one.
        return (-ln_fair_binomial_cdf(n - k - 1, n).exp()).ln_1p();
    }
    let (mut term, mut sum) = (1.0, 1.0);
    for below in 0..k {
        term *= (k - below) as f64 / (n - k + 1 + below) as f64;
        sum += term;
        if term < 1e-18 * sum {
            break;
        }
    }
    ln_binomial(k, n, 0.5) + f64::ln(sum)
}

/// ln of the sum of exponentials.
fn ln_sum(terms: &[f64]) -> f64 {
    let largest = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return largest;
    }
    largest + terms.iter().map(|t| (t - largest).exp()).sum::<f64>().ln()
}

/// ln erfc(x), by the asymptotic series once erfc itself would lose precision.
fn ln_erfc(x: f64) -> f64 {
    if x < 20.0 {
        return libm::erfc(x).ln();
    }
    let inverse = 1.0 / (2.0 * x * x);
    let (mut term, mut sum) = (1.0, 1.0);
    for k in 1..12 {
        term *= -f64::from(2 * k - 1) * inverse;
        sum += term;
    }
    -x * x - (x * PI.sqrt()).ln() + f64::ln(sum)
}

/// ln n! minus Stirling's approximation of it.
fn stirling_error(n: u64) -> f64 {
    let nf = n as f64;
    if n <= 15 {
        let factorial: f64 = (2..=n).map(|i| i as f64).product();
        let stirling = if n == 0 {
            0.0
        } else {
            (nf + 0.5) * nf.ln() - nf + 0.5 * (2.0 * PI).ln()
        };
        return factorial.ln() - stirling;
    }
    let square = nf * nf;
    (1.0 / 12.0
        - (1.0 / 360.0 - (1.0 / 1260.0 - (1.0 / 1680.0 - 1.0 / 1188.0 / square) / square) / square)
            / square)
        / nf
}

/// x ln(x / mean) + mean - x, without cancellation when the two are close.
fn deviance(x: f64, mean: f64) -> f64 {
    if (x - mean).abs() >= 0.1 * (x + mean) {
        return x * (x / mean).ln() + mean - x;
    }
    let ratio = (x - mean) / (x + mean);
    let square = ratio * ratio;
    let mut sum = (x - mean) * ratio;
    let mut power = 2.0 * x * ratio;
    for j in 1..1000 {
        power *= square;
        let next = sum + power / f64::from(2 * j + 1);
        if next.to_bits() == sum.to_bits() {
            break;
        }
        sum = next;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arbitrary-precision values (mpmath), down to 10^-505.
    #[test]
    fn chi_squared_tails_do_not_underflow() {
        let json = include_str!("../tests/fixtures/reference.json");
        let reference: serde_json::Value = serde_json::from_str(json).unwrap();
        for row in reference["log10_chi_squared_tail"].as_array().unwrap() {
            let [x, degrees, expected] = [0, 1, 2].map(|i| row[i].as_f64().unwrap());
            let log10 = ln_chi_squared_tail(x, degrees as u32) / std::f64::consts::LN_10;
            assert!((log10 / expected - 1.0).abs() < 1e-13, "{row}: {log10}");
        }
    }

    #[test]
    fn quantile_inverts_the_tail() {
        for p in [1e-300, 1e-20, 0.001, 0.025, 0.3, 0.5, 0.9] {
            let z = normal_quantile(p);
            assert!((normal_cdf(z) / p - 1.0).abs() < 1e-12, "{p}");
        }
    }

    #[test]
    fn the_two_forms_of_the_normal_tail_meet() {
        let below = ln_erfc(19.999_999_999);
        let above = ln_erfc(20.000_000_001);
        assert!((below - above).abs() < 1e-7);
        assert!((ln_erfc(26.0) - libm::erfc(26.0).ln()).abs() < 1e-12);
    }

    #[test]
    fn binomial_probabilities_sum_to_one() {
        for (n, p) in [(1, 0.5), (7, 0.2), (30, 0.9), (900, 0.03)] {
            let sum: f64 = (0..=n).map(|k| ln_binomial(k, n, p).exp()).sum();
            assert!((sum - 1.0).abs() < 1e-12, "{n} {p}: {sum}");
        }
    }
}
