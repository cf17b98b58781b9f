//! Late interaction over a conversation's messages: MaxSim at several widths of context.
//!
//! For each word-piece of the question the best cosine among a message's word-pieces is found
//! once ([`TokenIndex::maxima`]). A message is then scored several times, each time with the best
//! over the messages around it too, and the scores are averaged: a short reply is found by the
//! words of the message it answers. Word-pieces weigh by how rare they are in the conversation.

use rawrag_corpus::Timestamp;
use rawrag_models::TokenVectors;
use serde::{Deserialize, Serialize};

use crate::cues::Cues;
use crate::tokens::Maxima;
use crate::{RetrievalError, TokenIndex};

/// Settings of late interaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LateInteraction {
    /// How many messages before and after each message its score looks at, never past the ends of
    /// its session; one score each, averaged. `[[0, 0]]` is plain MaxSim.
    pub contexts: Vec<[u8; 2]>,
    /// Whether word-pieces of the question weigh by their inverse document frequency among the
    /// conversation's messages, ln(1 + (n - df + 0.5) / (df + 0.5)); otherwise all weigh 1.
    pub idf: bool,
    /// Added where the question names the message's speaker.
    pub speaker: f32,
    /// Added where the question names the month of the message's date.
    pub month: f32,
    /// How much of the mean of a session's three best scores is added to each of its messages.
    pub session: f32,
}

impl Default for LateInteraction {
    fn default() -> Self {
        Self {
            contexts: vec![[0, 0], [1, 0], [2, 0], [2, 2]],
            idf: true,
            speaker: 0.1,
            month: 0.1,
            session: 0.25,
        }
    }
}

/// What late interaction knows of a message besides its token vectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageFacts {
    /// Position of its session, from 0; a session's messages stand together.
    pub session: u32,
    /// Who said it.
    pub speaker: String,
    /// When it was said.
    pub date: Option<Timestamp>,
}

impl LateInteraction {
    /// Whether it can be used.
    ///
    /// # Errors
    /// [`RetrievalError::Setting`] where there is no context to score with.
    pub fn check(&self) -> Result<(), RetrievalError> {
        if self.contexts.is_empty() {
            let problem =
                "needs at least one pair of messages before and after, as [[0, 0]]".into();
            return Err(RetrievalError::Setting {
                field: "late_interaction.contexts",
                problem,
            });
        }
        Ok(())
    }

    /// Scores every message of `tokens` against a question, whose own encoding is `query`.
    ///
    /// Messages that `visible` excludes score minus infinity, and neither their words nor their
    /// frequencies count for others. `facts` has one element a row of `tokens`.
    ///
    /// # Errors
    /// When there is no context to score with, or the query does not fit the index.
    pub fn score(
        &self,
        tokens: &TokenIndex,
        facts: &[MessageFacts],
        question: &str,
        query: &TokenVectors,
        visible: impl Fn(usize) -> bool + Sync,
    ) -> Result<Vec<f32>, RetrievalError> {
        self.score_from(
            tokens.maxima(query)?,
            tokens,
            facts,
            question,
            query,
            visible,
        )
    }

    /// [`Self::score`] from what [`TokenIndex::maxima`] gave, which is most of the work and the same
    /// for all settings.
    ///
    /// # Errors
    /// When there is no context to score with.
    pub fn score_from(
        &self,
        mut maxima: Maxima,
        tokens: &TokenIndex,
        facts: &[MessageFacts],
        question: &str,
        query: &TokenVectors,
        visible: impl Fn(usize) -> bool + Sync,
    ) -> Result<Vec<f32>, RetrievalError> {
        self.check()?;
        for (row, best) in maxima
            .values
            .chunks_exact_mut(maxima.pieces.max(1))
            .enumerate()
        {
            if !visible(row) {
                best.fill(f32::NEG_INFINITY);
            }
        }
        let weights = self.weights(tokens, query, &visible);
        let cues = Cues::of(question);
        let mut wide = vec![0.0; maxima.pieces];
        let score = |row: usize| {
            if !visible(row) {
                return f32::NEG_INFINITY;
            }
            let contexts = self.contexts.iter().map(|context| {
                self.context(&maxima, facts, row, *context, &mut wide);
                weighted_mean(&wide, &weights)
            });
            let mean = contexts.sum::<f32>() / self.contexts.len() as f32;
            let named = cues.names(&facts[row].speaker);
            let dated = facts[row].date.is_some_and(|date| cues.dates(date));
            mean + if named { self.speaker } else { 0.0 } + if dated { self.month } else { 0.0 }
        };
        let mut scores: Vec<f32> = (0..facts.len().min(tokens.len())).map(score).collect();
        if self.session > 0.0 {
            self.add_sessions(facts, &mut scores);
        }
        Ok(scores)
    }

    /// Adds to each message's score its session's part.
    fn add_sessions(&self, facts: &[MessageFacts], scores: &mut [f32]) {
        const BEST: usize = 3;
        let mut rest = scores;
        for session in facts.chunk_by(|a, b| a.session == b.session) {
            let (scores, after) = rest.split_at_mut(session.len());
            let mut best: Vec<f32> = scores.iter().copied().filter(|s| s.is_finite()).collect();
            best.sort_unstable_by(|a, b| b.total_cmp(a));
            best.truncate(BEST);
            let mean = best.iter().sum::<f32>() / best.len().max(1) as f32;
            scores
                .iter_mut()
                .for_each(|score| *score += self.session * mean);
            rest = after;
        }
    }

    /// The weight of each word-piece of the query.
    fn weights(
        &self,
        tokens: &TokenIndex,
        query: &TokenVectors,
        visible: &impl Fn(usize) -> bool,
    ) -> Vec<f32> {
        if !self.idf {
            return vec![1.0; query.pieces.len()];
        }
        let n = (0..tokens.len()).filter(|&row| visible(row)).count() as f64;
        let idf = |&piece: &u32| {
            let df = tokens.document_frequency(piece, visible) as f64;
            (1.0 + (n - df + 0.5) / (df + 0.5)).ln() as f32
        };
        query.pieces.iter().map(idf).collect()
    }

    /// The best of each word-piece over the messages around `row`.
    fn context(
        &self,
        maxima: &Maxima,
        facts: &[MessageFacts],
        row: usize,
        [before, after]: [u8; 2],
        wide: &mut [f32],
    ) {
        let session = facts[row].session;
        let first = row.saturating_sub(before.into());
        let last = (row + usize::from(after)).min(facts.len() - 1);
        wide.fill(f32::NEG_INFINITY);
        for (near, facts) in (first..).zip(&facts[first..=last]) {
            if facts.session == session {
                let best = &maxima.values[near * maxima.pieces..][..maxima.pieces];
                wide.iter_mut()
                    .zip(best)
                    .for_each(|(wide, &best)| *wide = wide.max(best));
            }
        }
    }
}

/// The weighted mean of `best`; minus infinity where nothing can match.
fn weighted_mean(best: &[f32], weights: &[f32]) -> f32 {
    let total: f32 = weights.iter().sum();
    if total <= 0.0 {
        return f32::NEG_INFINITY;
    }
    best.iter()
        .zip(weights)
        .map(|(best, weight)| best * weight)
        .sum::<f32>()
        / total
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts whose word-pieces are unit vectors along their own axis.
    fn text(pieces: &[u32]) -> TokenVectors {
        let axis = |&p: &u32| (0..8).map(move |i| if i == p { 1.0 } else { 0.0 });
        TokenVectors {
            pieces: pieces.to_vec(),
            vectors: pieces.iter().flat_map(axis).collect(),
            pooled: vec![],
        }
    }

    fn index(rows: &[&[u32]]) -> TokenIndex {
        let mut index = TokenIndex::new(8);
        for row in rows {
            index.push(&text(row)).expect("numbers");
        }
        index
    }

    fn facts(sessions: &[u32]) -> Vec<MessageFacts> {
        let date = "2023-06-01".parse().ok();
        let fact = |&session| MessageFacts {
            session,
            speaker: format!("S{session}"),
            date,
        };
        sessions.iter().map(fact).collect()
    }

    fn plain(contexts: &[[u8; 2]]) -> LateInteraction {
        LateInteraction {
            contexts: contexts.to_vec(),
            idf: false,
            speaker: 0.0,
            month: 0.0,
            session: 0.0,
        }
    }

    #[test]
    fn a_reply_is_found_by_what_it_answers_but_not_across_sessions() {
        let index = index(&[&[1], &[2], &[3], &[4]]);
        let facts = facts(&[0, 0, 1, 1]);
        let score = |contexts: &[[u8; 2]]| {
            plain(contexts)
                .score(&index, &facts, "", &text(&[1, 2, 3]), |_| true)
                .expect("fits")
        };
        let third = 1.0 / 3.0;
        assert_eq!(score(&[[0, 0]]), [third, third, third, 0.0]);
        assert_eq!(score(&[[1, 0]]), [third, 2.0 * third, third, third]);
        assert_eq!(score(&[[0, 0], [1, 0]])[1], (third + 2.0 * third) / 2.0);
    }

    #[test]
    fn rare_words_weigh_more() {
        let index = index(&[&[1, 2], &[1, 3], &[1]]);
        let settings = LateInteraction {
            idf: true,
            ..plain(&[[0, 0]])
        };
        let scores = settings.score(&index, &facts(&[0, 1, 2]), "", &text(&[1, 2]), |_| true);
        let idf = |df: f32| (1.0 + (3.0 - df + 0.5) / (df + 0.5)).ln();
        let expected = idf(3.0) / (idf(3.0) + idf(1.0));
        let scores = scores.expect("fits");
        assert!((scores[0] - 1.0).abs() < 1e-6 && (scores[1] - expected).abs() < 1e-6);
    }

    #[test]
    fn what_is_not_visible_neither_ranks_nor_helps() {
        let index = index(&[&[1], &[2]]);
        let facts = facts(&[0, 0]);
        let score = |visible: fn(usize) -> bool| {
            plain(&[[1, 0]])
                .score(&index, &facts, "", &text(&[1]), visible)
                .expect("fits")
        };
        assert_eq!(score(|_| true), [1.0, 1.0]);
        assert_eq!(score(|row| row == 1)[0], f32::NEG_INFINITY);
        assert!(score(|row| row == 1)[1] <= 0.0);
    }

    #[test]
    fn named_speakers_and_months_are_preferred() {
        let index = index(&[&[1], &[1]]);
        let settings = LateInteraction {
            speaker: 0.1,
            month: 0.2,
            ..plain(&[[0, 0]])
        };
        let facts = facts(&[0, 1]);
        let scores = settings.score(
            &index,
            &facts,
            "What did s1 say in June?",
            &text(&[1]),
            |_| true,
        );
        let scores = scores.expect("fits");
        assert!((scores[0] - 1.2).abs() < 1e-6 && (scores[1] - 1.3).abs() < 1e-6);
    }

    #[test]
    fn a_good_session_lifts_its_messages() {
        let index = index(&[&[1], &[2], &[3], &[3]]);
        let settings = LateInteraction {
            session: 0.5,
            ..plain(&[[0, 0]])
        };
        let scores = settings.score(&index, &facts(&[0, 0, 1, 1]), "", &text(&[1]), |row| {
            row != 3
        });
        assert_eq!(scores.expect("fits"), [1.25, 0.25, 0.0, f32::NEG_INFINITY]);
    }

    #[test]
    fn no_context_is_refused() {
        let error = plain(&[])
            .score(&index(&[]), &[], "", &text(&[1]), |_| true)
            .unwrap_err();
        assert!(error.to_string().starts_with("late_interaction.contexts: "));
    }
}
