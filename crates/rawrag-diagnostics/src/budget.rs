//! The 5,000-token controls of Raw-RAG's C.4, over the tokens of items: what a reader would still
//! see under a ceiling.
//!
//! An item's tokens are those of its text; `between` is what headers and separators add for every
//! item but the first. Counting by items is exact up to tokens that span the border of two items.

/// Evidence under a ceiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capped {
    /// Whole items kept, from the front.
    pub kept: usize,
    /// Tokens kept of the first item, where it alone exceeds the budget and is cut.
    pub clipped: Option<u32>,
    /// Tokens of what is kept.
    pub tokens: u64,
    /// Whether items are shown without the messages around them.
    pub plain: bool,
}

impl Capped {
    /// Whether the evidence differs from what was within no budget.
    pub fn changed(&self, items: usize) -> bool {
        self.plain || self.kept < items
    }
}

/// Keeps the longest prefix of whole items that fits, and stops at the first that does not; if the
/// first alone is too long, keeps its first `budget` tokens (C.4, prefix-based truncation).
pub fn prefix(items: &[u32], between: u32, budget: u32) -> Capped {
    let mut tokens = 0_u64;
    for (at, &item) in items.iter().enumerate() {
        let separator = if at == 0 { 0 } else { u64::from(between) };
        let with = tokens + separator + u64::from(item);
        if with > u64::from(budget) {
            let clipped = (at == 0).then_some(budget);
            return Capped {
                kept: at,
                clipped,
                tokens: clipped.map_or(tokens, u64::from),
                plain: false,
            };
        }
        tokens = with;
    }
    Capped {
        kept: items.len(),
        clipped: None,
        tokens,
        plain: false,
    }
}

/// Leaves evidence within the budget as it is; else shows every item without its expansion, and
/// keeps a [`prefix`] of these only if they still exceed it (C.4, expansion-aware budgeting).
///
/// `shown` and `plain` hold the same items, with and without expansion.
pub fn expansion_aware(shown: &[u32], plain: &[u32], between: u32, budget: u32) -> Capped {
    let whole = prefix(shown, between, budget);
    if whole.kept == shown.len() {
        return whole;
    }
    Capped {
        plain: true,
        ..prefix(plain, between, budget)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// By hand from C.4: the third item does not fit, and a later one that would is not taken.
    #[test]
    fn the_first_item_that_does_not_fit_ends_the_prefix() {
        let capped = prefix(&[2_000, 2_000, 1_500, 10], 5, 5_000);
        assert_eq!(
            (capped.kept, capped.clipped, capped.tokens),
            (2, None, 4_005)
        );
        let capped = prefix(&[6_000, 10], 5, 5_000);
        assert_eq!(
            (capped.kept, capped.clipped, capped.tokens),
            (0, Some(5_000), 5_000)
        );
        assert_eq!(prefix(&[], 5, 5_000).tokens, 0);
    }

    #[test]
    fn expansion_goes_before_any_item_does() {
        let capped = expansion_aware(&[3_000, 3_000], &[1_000, 1_000], 0, 5_000);
        assert_eq!((capped.kept, capped.tokens, capped.plain), (2, 2_000, true));
        let capped = expansion_aware(&[2_000, 2_000], &[1_000, 1_000], 0, 5_000);
        assert_eq!(
            (capped.kept, capped.tokens, capped.plain),
            (2, 4_000, false)
        );
        let capped = expansion_aware(&[4_000, 4_000], &[3_000, 3_000], 0, 5_000);
        assert_eq!((capped.kept, capped.plain), (1, true));
    }

    proptest! {
        /// What is kept fits, and one item more would not.
        #[test]
        fn a_prefix_is_the_longest_that_fits(
            items in prop::collection::vec(0_u32..3_000, 0..12),
            between in 0_u32..9,
            budget in 1_u32..8_000,
        ) {
            let total = |n: usize| {
                let body: u64 = items[..n].iter().map(|&t| u64::from(t)).sum();
                body + u64::from(between) * n.saturating_sub(1) as u64
            };
            let capped = prefix(&items, between, budget);
            prop_assert!(capped.tokens <= u64::from(budget));
            if capped.clipped.is_none() {
                prop_assert_eq!(capped.tokens, total(capped.kept));
            }
            if capped.kept < items.len() {
                prop_assert!(total(capped.kept + 1) > u64::from(budget));
            }
        }
    }
}
