/// Returned items in rank order, by the gold units (messages or sessions) that each holds.
///
/// With no gold unit every metric is undefined. An item may hold several units, and a unit may
/// stand in several items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranking {
    gold: usize,
    /// Rank, from 0, of the first item that holds each gold unit.
    found_at: Vec<Option<usize>>,
    /// Whether each item holds a gold unit, best first.
    relevant: Vec<bool>,
}

impl Ranking {
    /// A ranking of items given by the gold units each holds, numbered from 0 to `gold` - 1;
    /// other numbers are no gold units and count for nothing.
    pub fn new<'a>(gold: usize, items: impl IntoIterator<Item = &'a [usize]>) -> Self {
        let mut found_at = vec![None; gold];
        let mut relevant = Vec::new();
        for (rank, units) in items.into_iter().enumerate() {
            let mut any = false;
            for &unit in units {
                if let Some(at) = found_at.get_mut(unit) {
                    at.get_or_insert(rank);
                    any = true;
                }
            }
            relevant.push(any);
        }
        Self {
            gold,
            found_at,
            relevant,
        }
    }

    /// A ranking of items that each hold the positions from the first to the last of a span, against
    /// the gold positions, each given once.
    pub fn of_spans(gold: &[u32], spans: impl IntoIterator<Item = (u32, u32)>) -> Self {
        let held = |(first, last): (u32, u32)| -> Vec<usize> {
            (0..)
                .zip(gold)
                .filter(|&(_, g)| (first..=last).contains(g))
                .map(|(i, _)| i)
                .collect()
        };
        let items: Vec<Vec<usize>> = spans.into_iter().map(held).collect();
        Self::new(gold.len(), items.iter().map(Vec::as_slice))
    }

    /// Whether the first `k` items hold at least one gold unit.
    pub fn recall_any(&self, k: usize) -> Option<bool> {
        self.defined().then(|| self.found(k) > 0)
    }

    /// Whether the first `k` items hold every gold unit (Selection or extraction, Appendix D).
    pub fn recall_all(&self, k: usize) -> Option<bool> {
        self.defined().then(|| self.found(k) == self.gold)
    }

    /// The share of gold units that the first `k` items hold.
    pub fn recall(&self, k: usize) -> Option<f64> {
        self.defined()
            .then(|| self.found(k) as f64 / self.gold as f64)
    }

    /// One over the rank of the first item that holds a gold unit, 0 where none does.
    pub fn reciprocal_rank(&self) -> Option<f64> {
        let first = self.relevant.iter().position(|&relevant| relevant);
        self.defined()
            .then(|| first.map_or(0.0, |rank| 1.0 / (rank + 1) as f64))
    }

    /// Normalised discounted cumulative gain of the first `k` items with binary relevance and
    /// discount log2(rank + 1) (Järvelin and Kekäläinen 2002), the ideal being `relevant_items`
    /// relevant items at the top.
    pub fn ndcg(&self, k: usize, relevant_items: usize) -> Option<f64> {
        self.gain(k, relevant_items, |rank| ((rank + 1) as f64).log2())
    }

    /// The same as Nano-Memory computes it: the first item undiscounted, every later one divided
    /// by log2(rank), so that the first two ranks count alike.
    pub fn ndcg_nano_memory(&self, k: usize, relevant_items: usize) -> Option<f64> {
        self.gain(k, relevant_items, |rank| (rank.max(2) as f64).log2())
    }

    fn defined(&self) -> bool {
        self.gold > 0
    }

    fn found(&self, k: usize) -> usize {
        self.found_at
            .iter()
            .filter(|at| at.is_some_and(|rank| rank < k))
            .count()
    }

    fn gain(&self, k: usize, relevant_items: usize, discount: fn(usize) -> f64) -> Option<f64> {
        let sum = |relevant: &mut dyn Iterator<Item = bool>| -> f64 {
            (1..=k)
                .zip(relevant)
                .filter(|&(_, r)| r)
                .map(|(rank, _)| 1.0 / discount(rank))
                .sum()
        };
        let gained = sum(&mut self.relevant.iter().copied());
        let ideal = sum(&mut std::iter::repeat_n(true, relevant_items));
        (ideal > 0.0).then(|| gained / ideal)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn close(left: Option<f64>, right: f64) -> bool {
        left.is_some_and(|left| (left - right).abs() < 1e-12)
    }

    /// Written out by hand from the two definitions: relevant at ranks 2, 4 and 5, cut at 4.
    #[test]
    fn gains_are_discounted_by_their_definitions() {
        let ranking = Ranking::new(3, [&[][..], &[0], &[], &[1], &[2]]);
        let standard = (1.0 / 3f64.log2() + 1.0 / 5f64.log2()) / (1.0 + 1.0 / 3f64.log2() + 0.5);
        assert!(close(ranking.ndcg(4, 3), standard));
        let nano = (1.0 + 0.5) / (1.0 + 1.0 + 1.0 / 3f64.log2());
        assert!(close(ranking.ndcg_nano_memory(4, 3), nano));
    }

    #[test]
    fn without_gold_nothing_is_defined() {
        let ranking = Ranking::new(0, [&[][..], &[]]);
        assert_eq!(ranking.recall_any(2), None);
        assert_eq!(ranking.recall_all(2), None);
        assert_eq!(ranking.recall(2), None);
        assert_eq!(ranking.reciprocal_rank(), None);
        assert_eq!(ranking.ndcg(2, 0), None);
    }

    #[test]
    fn gold_that_was_not_returned_is_missed() {
        let ranking = Ranking::new(2, [&[1][..]]);
        assert_eq!(ranking.recall_any(10), Some(true));
        assert_eq!(ranking.recall_all(10), Some(false));
        assert_eq!(Ranking::new(1, []).reciprocal_rank(), Some(0.0));
    }

    proptest! {
        #[test]
        fn deeper_is_never_worse_and_all_implies_any(
            gold in 1usize..5,
            items in prop::collection::vec(prop::collection::vec(0usize..6, 0..3), 0..12),
        ) {
            let ranking = Ranking::new(gold, items.iter().map(Vec::as_slice));
            for k in 0..=items.len() {
                prop_assert!(ranking.recall(k) <= ranking.recall(k + 1));
                prop_assert!(ranking.recall_all(k) <= ranking.recall_any(k));
                prop_assert_eq!(ranking.recall(k) == Some(1.0), ranking.recall_all(k) == Some(true));
                let relevant = ranking.relevant.iter().filter(|&&r| r).count();
                prop_assert!(ranking.ndcg(k, relevant).is_none_or(|x| (0.0..=1.0 + 1e-12).contains(&x)));
            }
        }
    }
}
