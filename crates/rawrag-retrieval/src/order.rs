use crate::RetrievalError;

/// A row of an index and what it scored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored {
    /// The row's number.
    pub row: u32,
    /// Higher is better; may be minus infinity, never NaN.
    pub score: f32,
}

/// The `n` best of these scores in the one order that rankings have here: higher first, and among
/// equals the earlier row first.
///
/// # Errors
/// [`RetrievalError::NotANumber`] with the row whose score is NaN.
pub fn best(scores: &[f32], n: usize) -> Result<Vec<Scored>, RetrievalError> {
    best_of(
        scores
            .iter()
            .copied()
            .enumerate()
            .map(|(row, score)| (row as u32, score)),
        n,
    )
}

/// The same over some of the rows.
///
/// # Errors
/// As [`best`].
pub fn best_of(
    scores: impl IntoIterator<Item = (u32, f32)>,
    n: usize,
) -> Result<Vec<Scored>, RetrievalError> {
    let mut keys = Vec::new();
    for (row, score) in scores {
        if score.is_nan() {
            return Err(RetrievalError::NotANumber { row });
        }
        keys.push(key(row, score));
    }
    if n < keys.len() {
        keys.select_nth_unstable(n);
        keys.truncate(n);
    }
    keys.sort_unstable();
    Ok(keys.into_iter().map(scored).collect())
}

/// A number that is smaller for what comes first in the order.
pub(crate) fn key(row: u32, score: f32) -> u64 {
    // Adding zero makes the two zeros one; the rest maps floats to integers of the same order.
    let bits = (score + 0.0).to_bits();
    let ascending = if bits >> 31 == 1 {
        !bits
    } else {
        bits | 1 << 31
    };
    u64::from(!ascending) << 32 | u64::from(row)
}

pub(crate) fn scored(key: u64) -> Scored {
    let ascending = !((key >> 32) as u32);
    let bits = if ascending >> 31 == 1 {
        ascending & !(1 << 31)
    } else {
        !ascending
    };
    Scored {
        row: key as u32,
        score: f32::from_bits(bits),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_order_is_total_and_a_prefix_of_itself(
            scores in prop::collection::vec(
                prop_oneof![Just(0.0f32), Just(-0.0), Just(f32::NEG_INFINITY), -2f32..2.0, Just(0.5)], 0..40),
            n in 0usize..50,
        ) {
            let all = best(&scores, scores.len()).expect("no NaN");
            prop_assert_eq!(all.len(), scores.len());
            for pair in all.windows(2) {
                prop_assert!(pair[0].score > pair[1].score
                    || (pair[0].score == pair[1].score && pair[0].row < pair[1].row));
            }
            for scored in &all {
                prop_assert_eq!(scored.score, scores[scored.row as usize]);
            }
            let some = best(&scores, n).expect("no NaN");
            prop_assert_eq!(&some[..], &all[..n.min(all.len())]);
        }
    }

    #[test]
    fn nan_is_refused() {
        let error = best(&[0.1, f32::NAN], 1).unwrap_err();
        assert!(matches!(error, RetrievalError::NotANumber { row: 1 }));
    }
}
