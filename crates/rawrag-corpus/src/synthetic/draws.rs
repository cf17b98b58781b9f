use std::collections::HashSet;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::Family;

/// What a stream is drawn for. Distractors and dates have their own, so that what an episode says
/// is the same whatever surrounds it.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    Content,
    Distractors,
    Dates,
}

/// Draws from one ChaCha8 stream.
pub(super) struct Draws(ChaCha8Rng);

impl Draws {
    pub(super) fn new(seed: u64, family: Family, purpose: Purpose, index: u32) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let kind = (family as u64) << 8 | purpose as u64;
        rng.set_stream(kind << 32 | u64::from(index));
        Self(rng)
    }

    /// Uniform on `0..count`; 0 where `count` is 0.
    pub(super) fn below(&mut self, count: usize) -> usize {
        let count = (count as u64).max(1);
        // Words past the last whole multiple of `count` would favour the small numbers.
        let whole = u64::MAX - u64::MAX % count;
        loop {
            let word = self.0.next_u64();
            if word < whole {
                return (word % count) as usize;
            }
        }
    }

    /// One of several, of which there is at least one.
    pub(super) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    /// The position that a draw falls on where position `i` has `weights[i]` chances.
    pub(super) fn weighted(&mut self, weights: &[u16]) -> usize {
        let total = weights.iter().map(|&w| usize::from(w)).sum();
        let mut left = self.below(total);
        for (position, &weight) in weights.iter().enumerate() {
            match left.checked_sub(usize::from(weight)) {
                Some(rest) => left = rest,
                None => return position,
            }
        }
        0
    }
}

/// Makes words that no language has, each once.
#[derive(Default)]
pub(super) struct Words(HashSet<String>);

impl Words {
    /// A word of three syllables that was not made before, capitalised.
    pub(super) fn new_word(&mut self, draws: &mut Draws) -> String {
        const ONSETS: [&str; 16] = [
            "br", "dr", "f", "gl", "j", "kv", "m", "n", "pl", "sk", "t", "thr", "v", "vr", "z",
            "zh",
        ];
        const VOWELS: [&str; 7] = ["a", "e", "i", "o", "u", "ae", "y"];
        const MIDDLES: [&str; 12] = [
            "b", "d", "lm", "ndr", "q", "rz", "st", "v", "x", "gn", "lk", "rv",
        ];
        const CODAS: [&str; 10] = ["sk", "rn", "x", "lt", "th", "nd", "zd", "rm", "v", "k"];
        loop {
            let onset = *draws.pick(&ONSETS);
            let mut word = onset[..1].to_uppercase() + &onset[1..];
            for parts in [&VOWELS[..], &MIDDLES, &VOWELS, &MIDDLES, &VOWELS, &CODAS] {
                let part: &&str = draws.pick(parts);
                word += part;
            }
            if self.0.insert(word.clone()) {
                return word;
            }
        }
    }
}
