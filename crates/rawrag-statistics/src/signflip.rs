//! The sign-flip test: under the null hypothesis each cluster's difference may as well be negated.

use rayon::prelude::*;
use serde::Serialize;

use crate::resampling::Draws;
use crate::{PValue, Replication};

/// Sampled assignments a random stream.
const BLOCK: usize = 256;

/// Result of a sign-flip test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SignFlip {
    /// Two-sided p-value.
    pub p: PValue,
    /// Number of non-zero differences; zeros have no sign to flip.
    pub informative: usize,
    /// Whether all 2^informative assignments were counted.
    pub exact: bool,
}

impl SignFlip {
    /// Largest number of non-zero differences for which all sign assignments are counted.
    pub const MOST_EXACT: usize = 20;

    /// The smallest p-value any data of this size could give, 2^(1 - informative).
    pub fn smallest_attainable(informative: usize) -> f64 {
        2f64.powi(1 - informative.min(1_000) as i32).min(1.0)
    }
}

/// Two-sided sign-flip test that the differences are symmetric about 0.
///
/// `differences` are totals of one independent cluster each (summed score a minus score b); with
/// single units in place of clusters this is the paired permutation test, which for 0/1 scores is
/// the exact McNemar test. p is the share of sign assignments whose absolute sum reaches the
/// observed one: exact up to [`SignFlip::MOST_EXACT`] non-zero differences, beyond that
/// (1 + hits) / (1 + replicates) over sampled assignments. No difference, or zeros only: p = 1.
///
/// Sums within 1e-12 of the largest possible one count as ties, in favour of the null.
pub fn sign_flip(differences: &[f64], replication: Replication) -> SignFlip {
    let mut sizes: Vec<f64> = differences
        .iter()
        .map(|d| d.abs())
        .filter(|&d| d > 0.0)
        .collect();
    // In order of size, so that neither the order of the clusters nor their signs matter.
    sizes.sort_by(f64::total_cmp);
    let observed = differences.iter().filter(|d| **d != 0.0).sum::<f64>().abs();
    let reached = observed - 1e-12 * sizes.iter().sum::<f64>();
    let informative = sizes.len();
    let exact = informative <= SignFlip::MOST_EXACT;
    let p = if exact {
        count_all(&sizes, reached)
    } else {
        sample(&sizes, reached, replication)
    };
    SignFlip {
        p,
        informative,
        exact,
    }
}

/// Share of all sign assignments whose absolute sum reaches `reached`.
///
/// Every sum is one of the first half's plus one of the second half's; for each of the former the
/// latter are counted by bisection.
fn count_all(sizes: &[f64], reached: f64) -> PValue {
    let (first, second) = sizes.split_at(sizes.len() / 2);
    let mut second = signed_sums(second);
    second.sort_by(f64::total_cmp);
    let hits: usize = signed_sums(first)
        .into_iter()
        .map(|sum| {
            let below = second.partition_point(|x| sum + x < reached);
            let at_most = second.partition_point(|x| sum + x <= -reached);
            if reached <= 0.0 {
                second.len()
            } else {
                second.len() - below + at_most
            }
        })
        .sum();
    PValue::clamped(hits as f64 / 2f64.powi(sizes.len() as i32))
}

fn signed_sums(sizes: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0];
    for size in sizes {
        sums = sums
            .iter()
            .flat_map(|sum| [sum - size, sum + size])
            .collect();
    }
    sums
}

fn sample(sizes: &[f64], reached: f64, replication: Replication) -> PValue {
    let Replication { replicates, seed } = replication;
    let flipped = |draws: &mut Draws| {
        let mut sum = 0.0;
        for chunk in sizes.chunks(64) {
            let coins = draws.word();
            for (i, size) in chunk.iter().enumerate() {
                sum += if coins >> i & 1 == 1 { *size } else { -size };
            }
        }
        sum.abs()
    };
    let hits: usize = (0..replicates.div_ceil(BLOCK))
        .into_par_iter()
        .map(|block| {
            let mut draws = Draws::new(seed, block as u64);
            let size = BLOCK.min(replicates - block * BLOCK);
            (0..size).filter(|_| flipped(&mut draws) >= reached).count()
        })
        .sum();
    PValue::monte_carlo(hits as u64, replicates as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PairCounts;

    const REPLICATION: Replication = Replication {
        replicates: 20_000,
        seed: 11,
    };

    #[test]
    fn on_single_units_it_is_the_exact_mcnemar_test() {
        for (a_only, b_only) in [(0, 0), (1, 0), (5, 2), (9, 9), (0, 12), (14, 6)] {
            let mut differences = vec![1.0; a_only];
            differences.resize(a_only + b_only, -1.0);
            differences.push(0.0);
            let counts = PairCounts {
                a_only: a_only as u64,
                b_only: b_only as u64,
                both: 1,
                neither: 0,
            };
            let flip = sign_flip(&differences, REPLICATION);
            assert!(flip.exact);
            assert!(
                (flip.p.value() - counts.exact().value()).abs() < 1e-12,
                "{a_only} {b_only}"
            );
        }
    }

    #[test]
    fn unequal_clusters_against_plain_enumeration() {
        let differences = [0.1, 0.2, -0.3, 0.7, 1.1, -0.05, 0.4];
        let observed = differences.iter().sum::<f64>().abs();
        let hits = (0..1u32 << differences.len())
            .filter(|signs| {
                let flip = |(i, d): (usize, &f64)| if signs >> i & 1 == 1 { *d } else { -d };
                differences.iter().enumerate().map(flip).sum::<f64>().abs() >= observed - 1e-12
            })
            .count();
        let expected = hits as f64 / 128.0;
        assert!((sign_flip(&differences, REPLICATION).p.value() - expected).abs() < 1e-15);
    }

    #[test]
    fn beyond_the_exact_size_sampling_estimates_the_same() {
        let counts = PairCounts {
            a_only: 18,
            b_only: 9,
            ..PairCounts::default()
        };
        let differences: Vec<f64> = (0..27).map(|i| if i < 18 { 1.0 } else { -1.0 }).collect();
        let flip = sign_flip(&differences, REPLICATION);
        let exact = counts.exact().value();
        assert!(!flip.exact);
        assert!((flip.p.value() - exact).abs() < 5.0 * (exact * (1.0 - exact) / 20_000.0).sqrt());
    }
}
