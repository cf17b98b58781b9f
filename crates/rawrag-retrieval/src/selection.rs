use serde::{Deserialize, Serialize};

use crate::RetrievalError;

/// How the items of a shortlist are chosen by their probabilities of bearing on the question.
///
/// The default is Turns + Jev of the selection paper (003, section 3); [`wide`](Self::wide) is its
/// post-hoc variant over a longer shortlist.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Selection {
    /// What a probability must exceed, 0 to 1; without one, every item is kept.
    pub threshold: Option<f64>,
    /// How many of the shortlist's first items follow those that are kept, whatever their
    /// probability.
    pub floor: usize,
}

impl Default for Selection {
    fn default() -> Self {
        Self {
            threshold: Some(0.5),
            floor: 10,
        }
    }
}

/// The order that a selection makes of a shortlist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selected {
    /// Places in the shortlist, best first. The first k of them are what a reader sees at k.
    pub order: Vec<u32>,
    /// How many of these were kept for their probability; the others are the floor.
    pub kept: usize,
}

impl Selection {
    /// Every item, by probability alone.
    pub const fn wide() -> Self {
        Self {
            threshold: None,
            floor: 0,
        }
    }

    /// Orders a shortlist, whose `probabilities` stand in its own order: the items above the
    /// threshold by falling probability, equal ones in the shortlist's order; then the first
    /// `floor` items of the shortlist that are not among them.
    ///
    /// # Errors
    /// [`RetrievalError::Probability`] for a value outside 0 to 1.
    pub fn order(&self, probabilities: &[f64]) -> Result<Selected, RetrievalError> {
        if let Some(&value) = probabilities.iter().find(|p| !(0.0..=1.0).contains(*p)) {
            return Err(RetrievalError::Probability { value });
        }
        let is_kept = |place: &u32| {
            let above = |threshold| probabilities[*place as usize] > threshold;
            self.threshold.is_none_or(above)
        };
        let places = 0..probabilities.len() as u32;
        let mut order: Vec<u32> = places.filter(is_kept).collect();
        // Stable: equal probabilities stay in the shortlist's order.
        order.sort_by(|a, b| probabilities[*b as usize].total_cmp(&probabilities[*a as usize]));
        let kept = order.len();
        let floor = 0..self.floor.min(probabilities.len()) as u32;
        order.extend(floor.filter(|place| !is_kept(place)));
        Ok(Selected { order, kept })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn order(selection: Selection, probabilities: &[f64]) -> (Vec<u32>, usize) {
        let selected = selection.order(probabilities).unwrap();
        (selected.order, selected.kept)
    }

    #[test]
    fn what_is_kept_comes_first_and_the_floor_follows() {
        let probabilities = [0.1, 0.9, 0.5, 0.7, 0.2, 0.9];
        let jev = Selection {
            floor: 3,
            ..Selection::default()
        };
        // 0.5 does not exceed the threshold; the floor is places 0 to 2, of which 1 is kept.
        assert_eq!(order(jev, &probabilities), (vec![1, 5, 3, 0, 2], 3));
        assert_eq!(
            order(Selection::wide(), &probabilities),
            (vec![1, 5, 3, 2, 4, 0], 6)
        );
        assert_eq!(order(jev, &[]), (vec![], 0));
        assert_eq!(order(jev, &[0.0]), (vec![0], 0));
    }

    #[test]
    fn what_is_no_probability_is_refused() {
        for bad in [f64::NAN, -0.1, 1.5, f64::INFINITY] {
            let error = Selection::default().order(&[0.3, bad]).unwrap_err();
            assert!(matches!(error, RetrievalError::Probability { .. }), "{bad}");
        }
    }

    proptest! {
        /// No item twice, and a shortlist without anything kept is read in its own order: a selector
        /// that says no to everything does no harm up to the floor.
        #[test]
        fn the_floor_is_the_shortlist(
            probabilities in prop::collection::vec(0.0..=1.0f64, 0..40),
            floor in 0usize..50,
        ) {
            let selection = Selection { threshold: Some(0.5), floor };
            let Selected { order, kept } = selection.order(&probabilities).unwrap();
            let mut seen = order.clone();
            seen.sort_unstable();
            seen.dedup();
            prop_assert_eq!(seen.len(), order.len());
            prop_assert!(order[kept..].is_sorted());
            prop_assert!(order.len() >= floor.min(probabilities.len()));
            let none = vec![0.0; probabilities.len()];
            let Selected { order, kept } = selection.order(&none).unwrap();
            prop_assert_eq!(kept, 0);
            let first: Vec<u32> = (0..floor.min(none.len()) as u32).collect();
            prop_assert_eq!(order, first);
        }
    }
}
