//! Power and sample size of paired comparisons: how many questions to see one point?
//!
//! Levels, powers and margins are fractions in (0, 1); others are [`Undefined::OutOfRange`].

use rayon::prelude::*;
use serde::Serialize;

use crate::distributions::{ln_binomial, ln_fair_binomial_cdf, normal_cdf, normal_quantile};
use crate::resampling::Draws;
use crate::undefined::check_fractions;
use crate::{
    Defined, PValue, PairCounts, PairedDesign, PairedMethod, Replication, Undefined,
    noninferiority, sign_flip,
};

/// Simulated samples a random stream.
const BLOCK: usize = 32;

/// A test whose power can be simulated.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PoweredTest {
    /// Exact McNemar over all units.
    Exact,
    /// Mid-p McNemar over all units.
    MidP,
    /// Sign-flip over clusters.
    SignFlip,
    /// Non-inferiority over all units by Wald bounds; level is one-sided.
    NonInferiority {
        /// Margin, positive.
        margin: f64,
    },
}

/// A simulated rejection rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SimulatedPower {
    /// Share of samples in which the test rejects.
    pub power: f64,
    /// Its Monte-Carlo standard error.
    pub standard_error: f64,
}

/// Units for McNemar's test to reach `power` at two-sided level `alpha`:
/// (z(alpha/2) sqrt(psi) + z(beta) sqrt(psi - delta^2))^2 / delta^2, rounded up (Connor 1987).
///
/// `discordant` (psi) is the share of units on which the systems disagree, `difference` (delta)
/// theirs of rates. Errs with [`Undefined::NoDisagreement`] unless 0 < |delta| <= psi <= 1.
pub fn mcnemar_units(discordant: f64, difference: f64, alpha: f64, power: f64) -> Defined<u64> {
    check_fractions(&[alpha, power])?;
    check_shares(discordant, difference)?;
    let square = difference * difference;
    let reach = -normal_quantile(0.5 * alpha) * discordant.sqrt()
        + normal_quantile(power) * (discordant - square).max(0.0).sqrt();
    Ok((reach * reach / square).ceil() as u64)
}

/// Exact unconditional power of the exact McNemar test on `units` units at two-sided level
/// `alpha`: the conditional power summed over the binomial number of discordant units.
///
/// Errs with [`Undefined::NoDisagreement`] unless |difference| <= discordant <= 1 and
/// discordant > 0.
pub fn mcnemar_power(units: u64, discordant: f64, difference: f64, alpha: f64) -> Defined<f64> {
    check_fractions(&[alpha])?;
    if !(discordant > 0.0 && discordant <= 1.0 && difference.abs() <= discordant) {
        return Err(Undefined::NoDisagreement);
    }
    let favourable = 0.5 * (1.0 + difference / discordant);
    let mut power = 0.0;
    let mut critical = 0;
    for n in 0..=units {
        // The largest smaller count that rejects grows by at most one with each discordant unit.
        let rejects = |k: u64| (ln_fair_binomial_cdf(k, n) + std::f64::consts::LN_2).exp() <= alpha;
        if !rejects(0) {
            continue;
        }
        if rejects(critical + 1) {
            critical += 1;
        }
        let weight = ln_binomial(n, units, discordant).exp();
        if weight < 1e-17 {
            continue;
        }
        let both_tails =
            |k: u64| ln_binomial(k, n, favourable).exp() + ln_binomial(n - k, n, favourable).exp();
        power += weight * (0..=critical).map(both_tails).sum::<f64>();
    }
    Ok(power.min(1.0))
}

/// Units for non-inferiority at one-sided level `alpha`, by the normal approximation behind
/// equation 7 of the selection paper: (z(alpha) + z(beta))^2 (psi - delta^2) / (delta + margin)^2.
///
/// `difference` is the true new minus reference. Errs with [`Undefined::ZeroDenominator`] unless
/// it is above minus the margin, and with [`Undefined::NoVariation`] unless psi > delta^2.
pub fn noninferiority_units(
    discordant: f64,
    difference: f64,
    margin: f64,
    alpha: f64,
    power: f64,
) -> Defined<u64> {
    check_fractions(&[margin, alpha, power])?;
    let distance = difference + margin;
    let variance = difference_variance(discordant, difference)?;
    if distance <= 0.0 {
        return Err(Undefined::ZeroDenominator);
    }
    let reach = normal_quantile(power) - normal_quantile(alpha);
    Ok((reach * reach * variance / (distance * distance)).ceil() as u64)
}

/// Power of that test with `units` units. Errs with [`Undefined::NoVariation`] unless
/// psi > delta^2.
pub fn noninferiority_power(
    units: u64,
    discordant: f64,
    difference: f64,
    margin: f64,
    alpha: f64,
) -> Defined<f64> {
    check_fractions(&[margin, alpha])?;
    if units == 0 {
        return Err(Undefined::NoUnits);
    }
    let error = (difference_variance(discordant, difference)? / units as f64).sqrt();
    Ok(normal_cdf(
        (difference + margin) / error + normal_quantile(alpha),
    ))
}

/// Variance inflation of a mean over clusters of `cluster_size` units with intracluster correlation
/// `icc`: 1 + (m - 1) icc.
pub fn design_effect(cluster_size: f64, icc: f64) -> f64 {
    1.0 + (cluster_size - 1.0) * icc
}

/// Clusters to see the design's difference with a two-sided z-test on cluster means:
/// (z(alpha/2) + z(beta))^2 (tau^2 + (psi - delta^2 - tau^2) / m) / delta^2, rounded up, for
/// between-cluster standard deviation tau and m units a cluster.
///
/// The design's own number of clusters is not used. Below about 30 clusters a z-test is too
/// optimistic; check the answer with [`simulated_power`]. Errs with [`Undefined::NoDisagreement`]
/// without a difference.
pub fn clusters_needed(design: &PairedDesign, alpha: f64, power: f64) -> Defined<u64> {
    check_fractions(&[alpha, power])?;
    check_shares(design.discordant(), design.difference)?;
    let square = design.difference * design.difference;
    let between = design.between_sd * design.between_sd;
    let within = (design.discordant() - square - between).max(0.0);
    let variance = between + within / design.units_per_cluster as f64;
    let reach = normal_quantile(power) - normal_quantile(0.5 * alpha);
    Ok((reach * reach * variance / square).ceil() as u64)
}

/// Share of `replication.replicates` samples of the design in which the test rejects at `alpha`.
pub fn simulated_power(
    design: &PairedDesign,
    test: PoweredTest,
    alpha: f64,
    replication: Replication,
) -> SimulatedPower {
    let Replication { replicates, seed } = replication;
    let rejections: usize = (0..replicates.div_ceil(BLOCK))
        .into_par_iter()
        .map(|block| {
            let mut draws = Draws::new(seed, block as u64);
            let size = BLOCK.min(replicates - block * BLOCK);
            (0..size)
                .filter(|_| test.rejects(&design.draw(&mut draws), alpha, replication))
                .count()
        })
        .sum();
    let power = rejections as f64 / replicates.max(1) as f64;
    let standard_error = (power * (1.0 - power) / replicates.max(1) as f64).sqrt();
    SimulatedPower {
        power,
        standard_error,
    }
}

impl PoweredTest {
    fn rejects(self, clusters: &[PairCounts], alpha: f64, replication: Replication) -> bool {
        let p = |p: PValue| p.value() <= alpha;
        match self {
            Self::Exact => p(pooled(clusters).exact()),
            Self::MidP => p(pooled(clusters).mid_p()),
            Self::SignFlip => p(sign_flip(&signed_totals(clusters), replication).p),
            Self::NonInferiority { margin } => {
                noninferiority(&pooled(clusters), margin, alpha, PairedMethod::Wald)
                    .is_ok_and(|test| test.non_inferior)
            }
        }
    }
}

/// The tables of all clusters in one.
pub(crate) fn pooled(clusters: &[PairCounts]) -> PairCounts {
    clusters
        .iter()
        .fold(PairCounts::default(), |sum, c| PairCounts {
            both: sum.both + c.both,
            a_only: sum.a_only + c.a_only,
            b_only: sum.b_only + c.b_only,
            neither: sum.neither + c.neither,
        })
}

/// a-only minus b-only of each cluster.
pub(crate) fn signed_totals(clusters: &[PairCounts]) -> Vec<f64> {
    clusters
        .iter()
        .map(|c| c.a_only as f64 - c.b_only as f64)
        .collect()
}

fn check_shares(discordant: f64, difference: f64) -> Defined<()> {
    let sound = difference.abs() > 0.0 && difference.abs() <= discordant && discordant <= 1.0;
    sound.then_some(()).ok_or(Undefined::NoDisagreement)
}

fn difference_variance(discordant: f64, difference: f64) -> Defined<f64> {
    let variance = discordant - difference * difference;
    if variance > 0.0 {
        Ok(variance)
    } else {
        Err(Undefined::NoVariation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exact_power_is_what_simulation_finds() {
        let design = PairedDesign {
            clusters: 150,
            units_per_cluster: 1,
            rate: 0.6,
            correlation: 0.5,
            difference: 0.12,
            between_sd: 0.0,
        };
        let exact = mcnemar_power(150, design.discordant(), 0.12, 0.05).unwrap();
        let replication = Replication {
            replicates: 4_000,
            seed: 2,
        };
        let simulated = simulated_power(&design, PoweredTest::Exact, 0.05, replication);
        assert!((exact - simulated.power).abs() < 4.0 * simulated.standard_error);
    }

    /// A sample of the size the formula gives has about the power asked for.
    #[test]
    fn sample_sizes_reach_their_power() {
        let units = mcnemar_units(0.2, 0.05, 0.05, 0.8).unwrap();
        let power = mcnemar_power(units, 0.2, 0.05, 0.05).unwrap();
        // The formula is for the asymptotic test; the exact one gives up about two points.
        assert!((0.77..0.8).contains(&power), "{units}: {power}");
        let units = noninferiority_units(0.18, 0.0, 0.05, 0.05, 0.9).unwrap();
        let power = noninferiority_power(units, 0.18, 0.0, 0.05, 0.05).unwrap();
        assert!((0.9..0.902).contains(&power), "{units}: {power}");
    }

    #[test]
    fn no_difference_has_no_sample_size() {
        assert_eq!(
            mcnemar_units(0.2, 0.05, f64::NAN, 0.8),
            Err(Undefined::OutOfRange)
        );
        assert_eq!(
            mcnemar_units(0.2, 0.0, 0.05, 0.8),
            Err(Undefined::NoDisagreement)
        );
        assert_eq!(
            noninferiority_units(0.2, -0.05, 0.05, 0.05, 0.8),
            Err(Undefined::ZeroDenominator)
        );
    }
}
