use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

const BUFFERED: usize = 2_048;

/// Largest count for which 16 random bits choose an index; rejection stays below 1 in 16.
const MOST_FOR_16_BITS: usize = 1 << 12;

/// A source of exactly uniform indices: one ChaCha8 stream, read 16 or 32 bits at a time.
pub(crate) struct Draws {
    rng: ChaCha8Rng,
    words: [u16; BUFFERED],
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
    /// Multiply-shift with rejection (Lemire 2019), so that no index is favoured. `count` must be
    /// positive and below 2^32.
    #[inline]
    pub(crate) fn indices(&mut self, draws: usize, count: usize, mut take: impl FnMut(usize)) {
        if count > MOST_FOR_16_BITS {
            for _ in 0..draws {
                take(self.index(count as u32) as usize);
            }
            return;
        }
        let count = count as u32;
        let rejected_below = (1u32 << 16) % count;
        let mut left = draws;
        while left > 0 {
            let ready = self.ready();
            let used = ready.len().min(left);
            let mut accepted = 0;
            for &word in &ready[..used] {
                let product = u32::from(word) * count;
                if product & 0xffff >= rejected_below {
                    take((product >> 16) as usize);
                    accepted += 1;
                }
            }
            self.next += used;
            left -= accepted;
        }
    }

    /// One index uniform on `0..count`; `count` must be positive.
    pub(crate) fn index(&mut self, count: u32) -> u32 {
        let rejected_below = count.wrapping_neg() % count;
        loop {
            let product = u64::from(self.word32()) * u64::from(count);
            if product as u32 >= rejected_below {
                return (product >> 32) as u32;
            }
        }
    }

    /// A number uniform on \[0, 1), a multiple of 2^-53.
    pub(crate) fn uniform(&mut self) -> f64 {
        let bits = u64::from(self.word32()) << 32 | u64::from(self.word32());
        (bits >> 11) as f64 / (1u64 << 53) as f64
    }

    /// One fair coin in each bit.
    pub(crate) fn word32(&mut self) -> u32 {
        u32::from(self.word()) << 16 | u32::from(self.word())
    }

    fn word(&mut self) -> u16 {
        let word = self.ready()[0];
        self.next += 1;
        word
    }

    /// The unread words, at least one.
    fn ready(&mut self) -> &[u16] {
        if self.next == BUFFERED {
            let mut bytes = [0u8; 2 * BUFFERED];
            self.rng.fill_bytes(&mut bytes);
            for (word, pair) in self.words.iter_mut().zip(bytes.as_chunks().0) {
                *word = u16::from_le_bytes(*pair);
            }
            self.next = 0;
        }
        &self.words[self.next..]
    }
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
