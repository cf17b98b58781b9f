//! Sessions ranked by the vectors of their turns (Nano-Memory).

use std::ops::Range;

/// Turn isolation retrieval: a session scores the sum of its `top` best turns, which for `top` 1 is
/// their maximum (Nano-Memory, section 3.2). A session without turns scores minus infinity.
pub(crate) fn turn_isolation(turns: &[f32], sessions: &[Range<usize>], top: usize) -> Vec<f32> {
    let score = |session: &Range<usize>| {
        let mut best: Vec<f32> = turns[session.clone()].to_vec();
        best.sort_by(|a, b| b.total_cmp(a));
        best.iter()
            .copied()
            .take(top)
            .reduce(|sum, x| sum + x)
            .unwrap_or(f32::NEG_INFINITY)
    };
    sessions.iter().map(score).collect()
}

/// The means of consecutive rows of `vectors`, end to end: one for each of `groups`, zero for an
/// empty one.
pub(crate) fn means(vectors: &[f32], dimension: usize, groups: &[Range<usize>]) -> Vec<f32> {
    let mut means = vec![0.0; groups.len() * dimension];
    for (group, mean) in groups.iter().zip(means.chunks_exact_mut(dimension)) {
        let rows = &vectors[group.start * dimension..group.end * dimension];
        for row in rows.chunks_exact(dimension) {
            mean.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        }
        let count = group.len().max(1) as f32;
        mean.iter_mut().for_each(|x| *x /= count);
    }
    means
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_as_good_as_its_best_turn_and_an_empty_one_is_last() {
        let turns = [0.2, 0.9, 0.5, 0.4];
        let sessions = [0..2, 2..2, 2..4];
        assert_eq!(
            turn_isolation(&turns, &sessions, 1),
            [0.9, f32::NEG_INFINITY, 0.5]
        );
        assert_eq!(
            turn_isolation(&turns, &sessions, 2),
            [0.9 + 0.2, f32::NEG_INFINITY, 0.5 + 0.4]
        );
    }

    #[test]
    fn means_are_by_group() {
        let means = means(&[1.0, 0.0, 0.0, 1.0, 0.5, 0.5], 2, &[0..2, 2..3, 3..3]);
        assert_eq!(means, [0.5, 0.5, 0.5, 0.5, 0.0, 0.0]);
    }
}
