//! The resampling engine: one draw of units, shared by all systems, and statistics of its totals.

mod draws;
mod intervals;
mod population;
mod scores;
mod studentised;

use rayon::prelude::*;

pub(crate) use draws::Draws;
pub use intervals::{Interval, acceleration};
pub use population::{Contributions, Population, ResamplingError, Scheme};
pub use scores::{Contrast, IntervalMethod, RangeTest, Score, ScoreEstimate, ScoreReport, Scores};
pub use studentised::studentised_difference;

/// Replicates a block: one ChaCha8 stream each, so that the thread count changes nothing.
const BLOCK: usize = 256;

/// How many replicates to draw, and from which seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Replication {
    /// Number of replicates.
    pub replicates: usize,
    /// Seed of all streams.
    pub seed: u64,
}

/// The bootstrap replicates of one statistic.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sample {
    /// The defined replicates, in the order drawn.
    values: Vec<f64>,
    /// Number of replicates in which the statistic is undefined.
    undefined: usize,
}

impl Sample {
    /// From replicates, `None` where the statistic is undefined.
    pub fn new(replicates: impl IntoIterator<Item = Option<f64>>) -> Self {
        let mut sample = Self::default();
        replicates.into_iter().for_each(|value| sample.push(value));
        sample
    }

    /// The defined replicates, in the order drawn.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Number of replicates in which the statistic is undefined.
    pub fn undefined(&self) -> usize {
        self.undefined
    }

    /// Number of replicates, defined or not.
    pub fn replicates(&self) -> usize {
        self.values.len() + self.undefined
    }

    fn push(&mut self, value: Option<f64>) {
        match value {
            Some(value) => self.values.push(value),
            None => self.undefined += 1,
        }
    }
}

/// Draws the replicates and evaluates `statistics` values from the totals of each.
///
/// `evaluate` receives the totals of a resample (one a column of the contributions) and writes
/// each statistic, `None` where it is undefined. The result has a [`Sample`] a statistic; replicate
/// i of each comes from the same draw. Equal seeds give equal results at any thread count.
pub fn resample(
    population: &Population,
    replication: Replication,
    statistics: usize,
    evaluate: impl Fn(&[f64], &mut [Option<f64>]) + Sync,
) -> Vec<Sample> {
    let Replication { replicates, seed } = replication;
    let blocks: Vec<Vec<Sample>> = (0..replicates.div_ceil(BLOCK))
        .into_par_iter()
        .map(|block| {
            let mut draws = Draws::new(seed, block as u64);
            let mut totals = vec![0.0; population.totals().len()];
            let mut values = vec![None; statistics];
            let mut samples = vec![Sample::default(); statistics];
            for _ in block * BLOCK..replicates.min((block + 1) * BLOCK) {
                population.resample(&mut draws, &mut totals);
                evaluate(&totals, &mut values);
                for (sample, value) in samples.iter_mut().zip(&mut values) {
                    sample.push(value.take());
                }
            }
            samples
        })
        .collect();
    let gather = |statistic: usize| {
        let mut gathered = Sample::default();
        gathered.values.reserve_exact(replicates);
        for block in &blocks {
            gathered.values.extend_from_slice(&block[statistic].values);
            gathered.undefined += block[statistic].undefined;
        }
        gathered
    };
    (0..statistics).map(gather).collect()
}
