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
const BLOCK: usize = 512;

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

    fn with_capacity(replicates: usize) -> Self {
        Self {
            values: Vec::with_capacity(replicates),
            undefined: 0,
        }
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
    let columns = population.totals().len();
    let blocks: Vec<Vec<Sample>> = (0..replicates.div_ceil(BLOCK))
        .into_par_iter()
        .map(|block| {
            let size = BLOCK.min(replicates - block * BLOCK);
            let mut totals = vec![0.0; size * columns];
            population.resample(&mut Draws::new(seed, block as u64), &mut totals);
            let mut values = vec![None; statistics];
            let mut samples: Vec<_> = (0..statistics)
                .map(|_| Sample::with_capacity(size))
                .collect();
            for totals in totals.chunks_exact(columns) {
                evaluate(totals, &mut values);
                for (sample, value) in samples.iter_mut().zip(&mut values) {
                    sample.push(value.take());
                }
            }
            samples
        })
        .collect();
    let gather = |statistic: usize| {
        let mut gathered = Sample::with_capacity(replicates);
        for block in &blocks {
            gathered.values.extend_from_slice(&block[statistic].values);
            gathered.undefined += block[statistic].undefined;
        }
        gathered
    };
    (0..statistics).map(gather).collect()
}
