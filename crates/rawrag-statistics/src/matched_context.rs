//! Comparing systems at matched context: equations 5 and 8 of the selection paper.

use crate::{Defined, Undefined};

/// The setting whose tokens a question come closest to `target`, ties to the later one (equation 5).
///
/// `tokens` holds the mean tokens a question at k = 1, 2, ..; the result is k. Errs with
/// [`Undefined::NoUnits`] without settings. Token counts must be finite.
pub fn matched_setting(tokens: &[f64], target: f64) -> Defined<usize> {
    let closest = tokens.iter().enumerate().min_by(|(i, a), (j, b)| {
        let distances = (*a - target).abs().total_cmp(&(*b - target).abs());
        distances.then(j.cmp(i))
    });
    closest.map(|(i, _)| i + 1).ok_or(Undefined::NoUnits)
}

/// The share of the gap between a simple and a rich system that a selector closes (equation 8):
/// (selected - simple) / (rich - simple).
///
/// Above 1 when the selector passes the rich system, negative when it falls below the simple one.
/// Errs with [`Undefined::ZeroDenominator`] without a gap.
pub fn gap_closed(simple: f64, selected: f64, rich: f64) -> Defined<f64> {
    let gap = rich - simple;
    if gap.abs() < f64::EPSILON {
        return Err(Undefined::ZeroDenominator);
    }
    Ok((selected - simple) / gap)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tie_goes_to_the_larger_setting() {
        assert_eq!(matched_setting(&[40.0, 90.0, 110.0, 150.0], 100.0), Ok(3));
        assert_eq!(matched_setting(&[], 100.0), Err(Undefined::NoUnits));
    }

    #[test]
    fn without_a_gap_no_share_of_it_is_closed() {
        assert_eq!(gap_closed(0.5, 0.6, 0.5), Err(Undefined::ZeroDenominator));
    }
}
