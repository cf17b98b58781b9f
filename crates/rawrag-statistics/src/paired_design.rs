use serde::Serialize;

use crate::PairCounts;
use crate::distributions::normal_quantile;
use crate::resampling::Draws;

/// A population of paired 0/1 outcomes in clusters, from which samples can be drawn.
///
/// Each cluster's true difference is normal around `difference`. Within a cluster units are
/// independent. The two systems' outcomes are correlated: `correlation` fixes how often they
/// disagree, 2 rate (1 - rate)(1 - correlation) of the units.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PairedDesign {
    /// Number of clusters.
    pub clusters: usize,
    /// Units a cluster; 1 makes units independent.
    pub units_per_cluster: usize,
    /// Mean rate of the two systems, in (0, 1).
    pub rate: f64,
    /// Correlation of the two systems' outcomes on a unit, in \[0, 1).
    pub correlation: f64,
    /// Rate of a minus rate of b, in the population.
    pub difference: f64,
    /// Standard deviation of the difference between clusters.
    pub between_sd: f64,
}

impl PairedDesign {
    /// Number of units of a sample.
    pub fn units(&self) -> usize {
        self.clusters * self.units_per_cluster
    }

    /// Expected share of units on which the systems disagree, at no difference.
    pub fn discordant(&self) -> f64 {
        2.0 * self.rate * (1.0 - self.rate) * (1.0 - self.correlation)
    }

    /// Draws a sample, one table a cluster.
    pub(crate) fn draw(&self, draws: &mut Draws) -> Vec<PairCounts> {
        (0..self.clusters)
            .map(|_| self.draw_cluster(draws))
            .collect()
    }

    fn draw_cluster(&self, draws: &mut Draws) -> PairCounts {
        let shift = if self.between_sd > 0.0 {
            // Half a step inwards, so that the quantile is finite.
            self.between_sd * normal_quantile(draws.uniform() + f64::EPSILON / 4.0)
        } else {
            0.0
        };
        let difference = (self.difference + shift).clamp(-1.0, 1.0);
        let discordant = self.discordant().max(difference.abs());
        let a_only = 0.5 * (discordant + difference);
        let both = (self.rate - 0.5 * discordant).clamp(0.0, 1.0 - discordant);
        let threshold = |p: f64| (p * 2f64.powi(32)) as u64;
        let (a_only, discordant, both) = (
            threshold(a_only),
            threshold(discordant),
            threshold(discordant + both),
        );
        let mut counts = PairCounts::default();
        for _ in 0..self.units_per_cluster {
            let u = draws.word() >> 32;
            let count = if u < a_only {
                &mut counts.a_only
            } else if u < discordant {
                &mut counts.b_only
            } else if u < both {
                &mut counts.both
            } else {
                &mut counts.neither
            };
            *count += 1;
        }
        counts
    }
}
