/// One vector a word-piece, special tokens left out or in as the encoder's user decides.
#[derive(Clone, Copy, Debug)]
pub struct WordVectors<'a> {
    /// Row-major, pieces x `dimension`; rows of any length but 0.
    pub vectors: &'a [f32],
    /// Components of a row.
    pub dimension: usize,
    /// The weight of each piece, its inverse document frequency say; equal weights without.
    pub weights: Option<&'a [f32]>,
}

/// BERTScore of an answer against a gold answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BertScore {
    /// How near the answer's pieces have one in the gold answer.
    pub precision: f64,
    /// How near the gold answer's pieces have one in the answer.
    pub recall: f64,
    /// Their harmonic mean.
    pub f1: f64,
}

/// BERTScore (Zhang et al. 2020, equations 1 to 3 and its weighting): each piece is matched with the
/// piece of the other text whose cosine is highest. The number belongs to the encoder whose vectors
/// these are and to its layer, and has to be named with them; nothing is rescaled to a baseline.
///
/// `None` when either text has no piece, when the shapes do not fit one another, or when the weights
/// of a text are all 0, or one is negative or not finite.
pub fn bert_score(answer: WordVectors<'_>, gold: WordVectors<'_>) -> Option<BertScore> {
    if answer.dimension != gold.dimension {
        return None;
    }
    let (answer_rows, gold_rows) = (answer.rows()?, gold.rows()?);
    let mut best_answer = vec![f64::NEG_INFINITY; answer_rows.len()];
    let mut best_gold = vec![f64::NEG_INFINITY; gold_rows.len()];
    for (a, best) in answer_rows.iter().zip(&mut best_answer) {
        for (b, other) in gold_rows.iter().zip(&mut best_gold) {
            let cosine: f64 = a.iter().zip(b).map(|(x, y)| x * y).sum();
            *best = best.max(cosine);
            *other = other.max(cosine);
        }
    }
    let precision = answer.mean(&best_answer)?;
    let recall = gold.mean(&best_gold)?;
    let sum = precision + recall;
    let f1 = if sum == 0.0 {
        0.0
    } else {
        2.0 * precision * recall / sum
    };
    Some(BertScore {
        precision,
        recall,
        f1,
    })
}

impl WordVectors<'_> {
    /// The rows at unit length.
    fn rows(&self) -> Option<Vec<Vec<f64>>> {
        let whole = self.dimension > 0 && self.vectors.len().is_multiple_of(self.dimension);
        if !whole || self.vectors.is_empty() {
            return None;
        }
        let unit = |row: &[f32]| {
            let length = row
                .iter()
                .map(|&x| f64::from(x).powi(2))
                .sum::<f64>()
                .sqrt();
            (length > 0.0 && length.is_finite())
                .then(|| row.iter().map(|&x| f64::from(x) / length).collect())
        };
        self.vectors
            .chunks_exact(self.dimension)
            .map(unit)
            .collect()
    }

    fn mean(&self, best: &[f64]) -> Option<f64> {
        let Some(weights) = self.weights else {
            return Some(best.iter().sum::<f64>() / best.len() as f64);
        };
        if weights.iter().any(|w| !w.is_finite() || *w < 0.0) {
            return None;
        }
        let total: f64 = weights.iter().map(|&w| f64::from(w)).sum();
        let sum = best
            .iter()
            .zip(weights)
            .map(|(b, &w)| b * f64::from(w))
            .sum::<f64>();
        (weights.len() == best.len() && total > 0.0).then_some(sum / total)
    }
}
