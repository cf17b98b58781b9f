use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

const BUFFERED: usize = 512;

/// A batch of indices is drawn from one 64-bit word as long as its outcomes number at most this;
/// fewer than 1 word in 32 is then rejected.
const MOST_OUTCOMES: u64 = 1 << 59;

/// A source of exactly uniform indices: one ChaCha8 stream, read 64 bits at a time.
pub(crate) struct Draws {
    rng: ChaCha8Rng,
    words: [u64; BUFFERED],
    next: usize,
}

impl Draws {
    /// The stream numbered `stream` of `seed`. Streams do not overlap.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        Self {
            rng,
            words: [0; BUFFERED],
            next: BUFFERED,
        }
    }

    /// Calls `take` with `draws` independent indices, each uniform on `0..count`.
    ///
    /// Several indices come from each word by repeated multiply-shift, with one rejection test for
    /// the batch, so that no index is favoured (Brackett-Rozinsky and Lemire 2025). `count` must be
    /// positive and below 2^32.
    #[inline]
    pub(crate) fn indices(&mut self, draws: usize, count: usize, take: impl FnMut(usize)) {
        match MOST_OUTCOMES.ilog(count.max(2) as u64) {
            0 | 1 => self.batches::<1>(draws, count, take),
            2 => self.batches::<2>(draws, count, take),
            3 => self.batches::<3>(draws, count, take),
            4 => self.batches::<4>(draws, count, take),
            5 => self.batches::<5>(draws, count, take),
            6 => self.batches::<6>(draws, count, take),
            7 => self.batches::<7>(draws, count, take),
            _ => self.batches::<8>(draws, count, take),
        }
    }

    #[inline]
    fn batches<const SIZE: usize>(
        &mut self,
        draws: usize,
        count: usize,
        mut take: impl FnMut(usize),
    ) {
        let count = count as u64;
        let outcomes = count.pow(SIZE as u32);
        let rejected_below = outcomes.wrapping_neg() % outcomes;
        let mut left = draws;
        while left > 0 {
            let ready = self.ready();
            let mut used = 0;
            for &word in ready {
                used += 1;
                let (indices, rest) = split::<SIZE>(word, count);
                if rest < rejected_below {
                    continue;
                }
                if left <= SIZE {
                    indices[..left].iter().for_each(|&i| take(i));
                    left = 0;
                    break;
                }
                indices.into_iter().for_each(&mut take);
                left -= SIZE;
            }
            self.next += used;
        }
    }

    /// One index uniform on `0..count`; `count` must be positive.
    pub(crate) fn index(&mut self, count: u32) -> u32 {
        let mut index = 0;
        self.batches::<1>(1, count as usize, |i| index = i as u32);
        index
    }

    /// A number uniform on \[0, 1), a multiple of 2^-53.
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// One fair coin in each bit.
    pub(crate) fn word(&mut self) -> u64 {
        let word = self.ready()[0];
        self.next += 1;
        word
    }

    /// The unread words, at least one.
    fn ready(&mut self) -> &[u64] {
        if self.next == BUFFERED {
            let mut bytes = [0u8; 8 * BUFFERED];
            self.rng.fill_bytes(&mut bytes);
            for (word, eight) in self.words.iter_mut().zip(bytes.as_chunks().0) {
                *word = u64::from_le_bytes(*eight);
            }
            self.next = 0;
        }
        &self.words[self.next..]
    }
}

/// The leading `SIZE` digits of `word` / 2^64 to the base `count`, and what is left of it.
#[inline]
fn split<const SIZE: usize>(mut word: u64, count: u64) -> ([usize; SIZE], u64) {
    let mut indices = [0; SIZE];
    for index in &mut indices {
        let product = u128::from(word) * u128::from(count);
        *index = (product >> 64) as usize;
        word = product as u64;
    }
    (indices, word)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chi-squared of 200,000 draws against the uniform stays within five standard deviations.
    #[test]
    fn every_index_is_as_likely() {
        for count in [1usize, 3, 148, 2_071, 5_000] {
            let mut seen = vec![0u32; count];
            let draws = 200_000;
            Draws::new(7, 1).indices(draws, count, |i| seen[i] += 1);
            let expected = draws as f64 / count as f64;
            let statistic: f64 = seen
                .iter()
                .map(|&n| (f64::from(n) - expected).powi(2) / expected)
                .sum();
            let degrees = count as f64 - 1.0;
            assert!(
                (statistic - degrees).abs() <= 5.0 * (2.0 * degrees).sqrt(),
                "{count}"
            );
        }
    }
}
