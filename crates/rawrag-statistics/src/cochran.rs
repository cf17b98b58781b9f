//! Cochran's Q: do several systems have the same rate on the same units?

use rayon::prelude::*;
use serde::Serialize;

use crate::distributions::ln_chi_squared_tail;
use crate::paired::as_binary;
use crate::resampling::Draws;
use crate::{Defined, PValue, Replication, Undefined};

/// Permutations a random stream.
const BLOCK: usize = 64;

/// The statistic and its asymptotic test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CochranTest {
    /// Q.
    pub statistic: f64,
    /// Systems minus one.
    pub degrees_of_freedom: u32,
    /// Upper chi-squared tail.
    pub p: PValue,
}

/// 0/1 outcomes reduced to what Cochran's Q needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CochranQ {
    /// Number of correct units of each system.
    system_totals: Vec<u64>,
    /// Number of correct systems of each unit that discriminates between systems.
    unit_totals: Vec<u32>,
}

impl CochranQ {
    /// From the scores of each system, one a unit. Errs with [`Undefined::NotBinary`], with
    /// [`Undefined::TooFewSystems`] below two systems, and with [`Undefined::NoDisagreement`] when
    /// the systems agree on every unit (Q would be 0/0).
    pub fn new(scores: &[Vec<f64>]) -> Defined<Self> {
        if scores.len() < 2 {
            return Err(Undefined::TooFewSystems);
        }
        let units = scores.iter().map(Vec::len).min().unwrap_or(0);
        let mut system_totals = vec![0u64; scores.len()];
        let mut unit_totals = vec![0u32; units];
        for (system_total, scores) in system_totals.iter_mut().zip(scores) {
            for (unit_total, &score) in unit_totals.iter_mut().zip(scores) {
                let correct = as_binary(score)?;
                *system_total += u64::from(correct);
                *unit_total += u32::from(correct);
            }
        }
        let systems = scores.len() as u32;
        let settled = unit_totals.iter().filter(|&&t| t == systems).count() as u64;
        unit_totals.retain(|&t| t > 0 && t < systems);
        if unit_totals.is_empty() {
            return Err(Undefined::NoDisagreement);
        }
        // Units that all systems answer alike add the same to every total.
        system_totals.iter_mut().for_each(|total| *total -= settled);
        Ok(Self {
            system_totals,
            unit_totals,
        })
    }

    /// Q = (k - 1)(k sum C^2 - N^2) / (k N - sum R^2) with system totals C, unit totals R and their
    /// sum N (Cochran 1950), against chi-squared with k - 1 degrees of freedom.
    pub fn test(&self) -> CochranTest {
        let k = self.system_totals.len() as f64;
        let n: f64 = self.system_totals.iter().map(|&c| c as f64).sum();
        let rows: f64 = self.unit_totals.iter().map(|&r| f64::from(r).powi(2)).sum();
        let statistic =
            (k - 1.0) * (k * sum_of_squares(&self.system_totals) - n * n) / (k * n - rows);
        let degrees_of_freedom = self.system_totals.len() as u32 - 1;
        CochranTest {
            statistic,
            degrees_of_freedom,
            p: PValue::clamped_ln(ln_chi_squared_tail(statistic, degrees_of_freedom)),
        }
    }

    /// Permutation test: each unit's outcomes are shuffled over the systems. Given the unit totals
    /// Q grows with the sum of squared system totals, which is compared exactly.
    pub fn permutation(&self, replication: Replication) -> PValue {
        let observed = sum_of_squares(&self.system_totals);
        let Replication { replicates, seed } = replication;
        let pools = self.pools();
        let hits: usize = (0..replicates.div_ceil(BLOCK))
            .into_par_iter()
            .map(|block| {
                let mut draws = Draws::new(seed, block as u64);
                let size = BLOCK.min(replicates - block * BLOCK);
                let shuffle = |draws: &mut Draws| match &pools {
                    Some(pools) => shuffled_pools(pools, draws),
                    None => self.shuffled(draws),
                };
                (0..size)
                    .filter(|_| shuffle(&mut draws) >= observed)
                    .count()
            })
            .sum();
        PValue::monte_carlo(hits as u64, replicates as u64)
    }

    /// One pool a number of correct systems; `None` with too many systems to list their subsets.
    fn pools(&self) -> Option<Vec<Pool>> {
        let systems = self.system_totals.len();
        if systems > MOST_POOLED {
            return None;
        }
        let pool = |correct: u32| Pool {
            units: self
                .unit_totals
                .iter()
                .filter(|&&total| total == correct)
                .count(),
            subsets: (0u32..1 << systems)
                .filter(|subset| subset.count_ones() == correct)
                .map(lanes)
                .collect(),
        };
        Some((1..systems as u32).map(pool).collect())
    }

    /// Sum of squared system totals after one shuffle.
    fn shuffled(&self, draws: &mut Draws) -> f64 {
        let systems = self.system_totals.len();
        let mut order: Vec<u32> = (0..systems as u32).collect();
        let mut totals = vec![0u64; systems];
        for &correct in &self.unit_totals {
            // Any starting order will do, so the last shuffle's is kept.
            for i in 0..correct as usize {
                let j = i + draws.index((systems - i) as u32) as usize;
                order.swap(i, j);
                totals[order[i] as usize] += 1;
            }
        }
        sum_of_squares(&totals)
    }
}

/// Most systems whose subsets are listed.
const MOST_POOLED: usize = 16;

/// The units with one number of correct systems, and all sets of systems of that size: shuffling a
/// unit is drawing one of the sets.
struct Pool {
    units: usize,
    subsets: Vec<[u64; 2]>,
}

/// A byte a system: 1 for those in the subset.
fn lanes(subset: u32) -> [u64; 2] {
    let mut lanes = [0; 2];
    for system in 0..MOST_POOLED {
        lanes[system / 8] |= u64::from(subset >> system & 1) << (8 * (system % 8));
    }
    lanes
}

/// Sum of squared system totals after one shuffle of all pools.
fn shuffled_pools(pools: &[Pool], draws: &mut Draws) -> f64 {
    let mut totals = [0u64; MOST_POOLED];
    for pool in pools {
        let mut left = pool.units;
        while left > 0 {
            let now = left.min(255);
            let mut sum = [0u64; 2];
            draws.indices(now, pool.subsets.len(), |i| {
                sum[0] += pool.subsets[i][0];
                sum[1] += pool.subsets[i][1];
            });
            for (system, total) in totals.iter_mut().enumerate() {
                *total += sum[system / 8] >> (8 * (system % 8)) & 255;
            }
            left -= now;
        }
    }
    sum_of_squares(&totals)
}

/// Exact in a double as long as totals stay below 2^24 for 32 systems.
fn sum_of_squares(totals: &[u64]) -> f64 {
    totals.iter().map(|&t| (t * t) as f64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identical_systems_have_no_q() {
        let scores = vec![vec![1.0, 0.0, 1.0]; 3];
        assert_eq!(CochranQ::new(&scores), Err(Undefined::NoDisagreement));
    }

    /// With two systems Q is McNemar's chi-squared, and the permutation test estimates the exact
    /// one.
    #[test]
    fn two_systems_reduce_to_mcnemar() {
        let a: Vec<f64> = (0..40).map(|i| f64::from(u8::from(i < 30))).collect();
        let b: Vec<f64> = (0..40)
            .map(|i| f64::from(u8::from(!(10..=24).contains(&i))))
            .collect();
        let counts = crate::PairCounts::tally(&a, &b).unwrap();
        let q = CochranQ::new(&[a, b]).unwrap();
        let chi_squared = counts.chi_squared().unwrap();
        assert!((q.test().statistic - chi_squared.statistic).abs() < 1e-12);
        assert_eq!(q.test().p, chi_squared.p);
        // Pools and plain shuffles are two ways to the same distribution.
        let mut draws = Draws::new(5, 0);
        let reached = sum_of_squares(&q.system_totals);
        let hits = (0..20_000)
            .filter(|_| q.shuffled(&mut draws) >= reached)
            .count();
        let shuffled = PValue::monte_carlo(hits as u64, 20_000).value();
        let sampled = q
            .permutation(Replication {
                replicates: 20_000,
                seed: 5,
            })
            .value();
        let exact = counts.exact().value();
        let error = (exact * (1.0 - exact) / 20_000.0).sqrt();
        assert!((shuffled - exact).abs() < 5.0 * error);
        assert!((sampled - exact).abs() < 5.0 * (exact * (1.0 - exact) / 20_000.0).sqrt());
    }
}
