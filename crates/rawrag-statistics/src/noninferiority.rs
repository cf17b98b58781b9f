//! Non-inferiority and equivalence of paired proportions.
//!
//! The difference is always new (a) minus reference (b), and higher is better; the margin is a
//! positive fraction: the new system may be at most that much worse.

use serde::Serialize;

use crate::distributions::{ln_normal_tail, normal_quantile};
use crate::undefined::check_fractions;
use crate::{Defined, Interval, PValue, PairCounts, Undefined};

/// How the bounds of a paired difference of proportions are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PairedMethod {
    /// Mean of the differences -1, 0, 1 plus or minus z s / sqrt(n), with s over n - 1: equation 7
    /// of the selection paper. Undefined without discordant units.
    Wald,
    /// Square-and-add of Wilson intervals with the corrected phi (Newcombe 1998, method 10).
    Newcombe,
    /// Inversion of the score test (Tango 1998). Keeps its level best in small samples.
    Tango,
}

/// A one-sided test that the new system is worse by at least the margin.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct NonInferiority {
    /// New minus reference.
    pub difference: f64,
    /// Margin, positive.
    pub margin: f64,
    /// One-sided level of the test.
    pub alpha: f64,
    /// One-sided lower bound of confidence 1 - alpha, to be compared with minus the margin.
    pub lower_bound: f64,
    /// The two-sided interval whose lower end is that bound, of confidence 1 - 2 alpha.
    pub matching_interval: Interval,
    /// The two-sided interval of confidence 1 - alpha, for reporting beside other intervals.
    pub interval: Interval,
    /// One-sided p-value of "worse by the margin or more".
    pub p: PValue,
    /// Whether the lower bound is above minus the margin.
    pub non_inferior: bool,
}

/// What the closed sequence non-inferiority, then superiority, allows to claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Conclusion {
    /// Non-inferiority was not shown; superiority is not tested.
    Inconclusive,
    /// Non-inferior, superiority not shown.
    NonInferior,
    /// Non-inferior and superior.
    Superior,
}

/// Non-inferiority, and superiority if it holds. Both at the full level, since the second is only
/// tested after the first.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct NonInferiorityThenSuperiority {
    /// The first step.
    pub non_inferiority: NonInferiority,
    /// One-sided p-value of the second step; absent if the first failed.
    pub p_superiority: Option<PValue>,
    /// What may be claimed.
    pub conclusion: Conclusion,
}

/// Two one-sided tests that the difference lies within the margin on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Equivalence {
    /// New minus reference.
    pub difference: f64,
    /// Margin, positive.
    pub margin: f64,
    /// The interval of confidence 1 - 2 alpha that must lie inside the margins.
    pub matching_interval: Interval,
    /// The larger of the two one-sided p-values.
    pub p: PValue,
    /// Whether the interval lies strictly inside.
    pub equivalent: bool,
}

/// Tests whether a is non-inferior to b, at one-sided level `alpha`.
///
/// Errs with [`Undefined::OutOfRange`] unless margin and level are in (0, 1), with
/// [`Undefined::NoUnits`] on an empty table and, by [`PairedMethod::Wald`], with
/// [`Undefined::NoVariation`] when all units have the same difference.
pub fn noninferiority(
    counts: &PairCounts,
    margin: f64,
    alpha: f64,
    method: PairedMethod,
) -> Defined<NonInferiority> {
    check_fractions(&[margin, alpha])?;
    let matching_interval = score_interval(counts, -normal_quantile(alpha), method)?;
    Ok(NonInferiority {
        difference: counts.difference()?,
        margin,
        alpha,
        lower_bound: matching_interval.lower,
        matching_interval,
        interval: score_interval(counts, -normal_quantile(0.5 * alpha), method)?,
        p: tail_at(counts, -margin, method)?,
        non_inferior: matching_interval.lower > -margin,
    })
}

/// Non-inferiority first, superiority (the same test with margin 0) only after it.
///
/// Errs as [`noninferiority`].
pub fn noninferiority_then_superiority(
    counts: &PairCounts,
    margin: f64,
    alpha: f64,
    method: PairedMethod,
) -> Defined<NonInferiorityThenSuperiority> {
    let non_inferiority = noninferiority(counts, margin, alpha, method)?;
    let p_superiority = non_inferiority
        .non_inferior
        .then(|| tail_at(counts, 0.0, method))
        .transpose()?;
    let conclusion = match p_superiority {
        None => Conclusion::Inconclusive,
        Some(_) if non_inferiority.lower_bound > 0.0 => Conclusion::Superior,
        Some(_) => Conclusion::NonInferior,
    };
    Ok(NonInferiorityThenSuperiority {
        non_inferiority,
        p_superiority,
        conclusion,
    })
}

/// Tests whether a and b differ by less than the margin, each side at level `alpha`.
///
/// Errs as [`noninferiority`].
pub fn equivalence(
    counts: &PairCounts,
    margin: f64,
    alpha: f64,
    method: PairedMethod,
) -> Defined<Equivalence> {
    check_fractions(&[margin, alpha])?;
    let matching_interval = score_interval(counts, -normal_quantile(alpha), method)?;
    let above = tail_at(counts, -margin, method)?;
    let below = tail_at(&counts.swapped(), -margin, method)?;
    Ok(Equivalence {
        difference: counts.difference()?,
        margin,
        matching_interval,
        p: if above > below { above } else { below },
        equivalent: matching_interval.lower > -margin && matching_interval.upper < margin,
    })
}

/// Two-sided interval of the difference, a minus b, at the given confidence.
///
/// Errs as [`noninferiority`].
pub fn paired_interval(
    counts: &PairCounts,
    confidence: f64,
    method: PairedMethod,
) -> Defined<Interval> {
    check_fractions(&[confidence])?;
    score_interval(counts, -normal_quantile(0.5 * (1.0 - confidence)), method)
}

/// The interval with `z` standard errors, or their score counterpart, on each side.
fn score_interval(counts: &PairCounts, z: f64, method: PairedMethod) -> Defined<Interval> {
    let swapped = counts.swapped();
    let (lower, upper) = match method {
        PairedMethod::Wald => {
            let reach = z * wald_error(counts)?;
            let difference = counts.difference()?;
            (difference - reach, difference + reach)
        }
        PairedMethod::Newcombe => (
            newcombe_lower(counts, z)?,
            0.0 - newcombe_lower(&swapped, z)?,
        ),
        PairedMethod::Tango => (tango_lower(counts, z)?, 0.0 - tango_lower(&swapped, z)?),
    };
    Ok(Interval { lower, upper })
}

/// One-sided p-value of a difference at or below `null`: the level at which the lower bound is
/// `null`.
fn tail_at(counts: &PairCounts, null: f64, method: PairedMethod) -> Defined<PValue> {
    let z = match method {
        PairedMethod::Wald => (counts.difference()? - null) / wald_error(counts)?,
        PairedMethod::Tango => tango_statistic(counts, null)?,
        PairedMethod::Newcombe => newcombe_z(counts, null)?,
    };
    Ok(PValue::clamped_ln(ln_normal_tail(z)))
}

fn wald_error(counts: &PairCounts) -> Defined<f64> {
    let difference = counts.difference()?;
    let n = counts.units() as f64;
    let squares = counts.discordant() as f64 - n * difference * difference;
    if squares <= 0.0 || n < 2.0 {
        return Err(Undefined::NoVariation);
    }
    Ok((squares / (n - 1.0) / n).sqrt())
}

/// Wilson bounds of x successes in n.
fn wilson(x: f64, n: f64, z: f64) -> (f64, f64) {
    let square = z * z;
    let centre = x + 0.5 * square;
    let reach = z * (x * (n - x) / n + 0.25 * square).max(0.0).sqrt();
    (
        (centre - reach) / (n + square),
        (centre + reach) / (n + square),
    )
}

fn newcombe_lower(counts: &PairCounts, z: f64) -> Defined<f64> {
    let difference = counts.difference()?;
    let n = counts.units() as f64;
    let (both, neither) = (counts.both as f64, counts.neither as f64);
    let (a_only, b_only) = (counts.a_only as f64, counts.b_only as f64);
    let (a, b) = (both + a_only, both + b_only);
    let product = a * (n - a) * b * (n - b);
    let covariance = both * neither - a_only * b_only;
    let corrected = if covariance > 0.0 {
        (covariance - 0.5 * n).max(0.0)
    } else {
        covariance
    };
    let phi = if product > 0.0 {
        corrected / product.sqrt()
    } else {
        0.0
    };
    let below = a / n - wilson(a, n, z).0;
    let above = wilson(b, n, z).1 - b / n;
    let square = below * below - 2.0 * phi * below * above + above * above;
    Ok(difference - square.max(0.0).sqrt())
}

/// The z at which Newcombe's bound on the side of `null` is `null`, by bisection.
fn newcombe_z(counts: &PairCounts, null: f64) -> Defined<f64> {
    const FARTHEST: f64 = 40.0;
    let difference = counts.difference()?;
    let swapped = counts.swapped();
    let above = difference >= null;
    let (mut near, mut far) = (0.0, FARTHEST);
    for _ in 0..100 {
        let z = 0.5 * (near + far);
        let passed = if above {
            newcombe_lower(counts, z)? <= null
        } else {
            0.0 - newcombe_lower(&swapped, z)? >= null
        };
        if passed { far = z } else { near = z }
    }
    Ok(if above { far } else { -far })
}

/// Tango's score statistic for a true difference `null`: (b - c - n null) over its standard error
/// with the discordant probabilities fitted under `null`. 0 where the fitted error is 0 and the
/// observed difference is `null`.
fn tango_statistic(counts: &PairCounts, null: f64) -> Defined<f64> {
    if counts.units() == 0 {
        return Err(Undefined::NoUnits);
    }
    let n = counts.units() as f64;
    let (a_only, b_only) = (counts.a_only as f64, counts.b_only as f64);
    let excess = a_only - b_only - n * null;
    // Maximum-likelihood probability of b-only given the difference: the larger root of
    // A q^2 + B q + C = 0.
    let quadratic = 2.0 * n;
    let linear = -a_only - b_only + (2.0 * n - a_only + b_only) * null;
    let constant = -b_only * null * (1.0 - null);
    let root = (linear * linear - 4.0 * quadratic * constant)
        .max(0.0)
        .sqrt();
    let b_probability = ((root - linear) / (2.0 * quadratic)).max(0.0);
    let variance = n * (2.0 * b_probability + null * (1.0 - null));
    Ok(if variance > 1e-12 * n {
        excess / variance.sqrt()
    } else if excess.abs() < 1e-9 {
        0.0
    } else {
        excess.signum() * f64::MAX.sqrt()
    })
}

/// The smallest difference that the score test does not reject at `z`, by bisection.
fn tango_lower(counts: &PairCounts, z: f64) -> Defined<f64> {
    let (mut low, mut high) = (-1.0, counts.difference()?);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if tango_statistic(counts, middle)? > z {
            low = middle
        } else {
            high = middle
        }
    }
    Ok(high)
}
