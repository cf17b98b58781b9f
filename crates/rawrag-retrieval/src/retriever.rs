use std::ops::Range;
use std::sync::Arc;

use rawrag_chunking::{Chunk, Rendering, Transcript, Unit, chunk};
use rawrag_corpus::{Conversation, Timestamp};
use rawrag_models::{Embedder, Minilm, Reranker, TokenEncoder, TokenVectors};
use serde::{Deserialize, Serialize};

use crate::late_interaction::MessageFacts;
use crate::sessions::{means, turn_isolation};
use crate::{LateInteraction, RetrievalError, TokenIndex, VectorIndex, best, best_of};

/// A window is as good as its two best messages on average, which on LoCoMo finds more evidence than
/// the best alone (`docs/retrieval-without-a-key.md`).
const WINDOW_BEST: usize = 2;

/// How a conversation is cut, and how its chunks are ranked against a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// What is indexed.
    pub chunks: Unit,
    /// How messages are written out for the embedder and the reader.
    pub rendering: Rendering,
    /// How chunks are ranked.
    pub ranking: Method,
    /// How many items are returned, at least 1.
    pub k: usize,
    /// Late interaction, where [`Self::ranking`] uses it.
    pub late_interaction: LateInteraction,
}

impl Default for Settings {
    /// Late interaction over messages, best 15: what works without a key.
    fn default() -> Self {
        Self {
            chunks: Unit::Message,
            rendering: Rendering::Dated,
            ranking: Method::LateInteraction,
            k: 15,
            late_interaction: LateInteraction::default(),
        }
    }
}

/// How chunks are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "method", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Method {
    /// By cosine.
    Dense,
    /// The best by cosine, in the order of a second stage (Raw-RAG, equations 2 and 3).
    Rerank {
        /// How many chunks the dense stage passes on, at least 1; Raw-RAG has 128.
        shortlist: usize,
        /// The second stage.
        by: RerankKind,
    },
    /// By late interaction over all chunks.
    LateInteraction,
    /// Sessions by the sum of their best turns (Nano-Memory's turn isolation retrieval).
    TurnIsolation {
        /// How many turns count, at least 1; Nano-Memory's default is 1, their maximum.
        top_turns: usize,
    },
    /// Sessions by the mean of their turns' vectors.
    TurnMean,
}

/// A second stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RerankKind {
    /// A model that reads question and passage together.
    CrossEncoder,
    /// MaxSim over token vectors.
    LateInteraction,
}

/// The models that a retriever uses.
#[derive(Clone)]
pub struct Models {
    /// Embeds chunks and questions.
    pub embedder: Arc<dyn Embedder>,
    /// Encodes messages and questions word-piece by word-piece.
    pub tokens: Option<Arc<dyn TokenEncoder>>,
    /// Reads question and passage together.
    pub reranker: Option<Arc<dyn Reranker>>,
}

impl Models {
    /// One local encoder for vectors and token vectors, and no cross-encoder.
    pub fn local(model: Minilm) -> Self {
        let model = Arc::new(model);
        Self {
            embedder: model.clone(),
            tokens: Some(model),
            reranker: None,
        }
    }
}

/// Indexes conversations and searches them under one configuration.
#[derive(Clone)]
pub struct Retriever {
    settings: Settings,
    models: Models,
}

/// One conversation, indexed.
#[derive(Debug)]
pub struct HistoryIndex {
    /// The conversation written out as its chunks are cut.
    pub transcript: Transcript,
    /// What is ranked, in source order.
    pub chunks: Vec<Chunk>,
    /// How many chunks were longer than the embedder reads, and so were cut.
    pub truncated: usize,
    dense: Option<VectorIndex>,
    /// For turn isolation, which rows of `dense` are each chunk's turns.
    turns: Vec<Range<usize>>,
    tokens: Option<TokenIndex>,
    facts: Vec<MessageFacts>,
}

/// What a search returned.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Chunks visible to the question.
    pub available: usize,
    /// Chunks that the dense stage passed on; all of them where there is none.
    pub shortlist: usize,
    /// Best first, at most k.
    pub items: Vec<Item>,
}

/// One chunk that was returned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Item {
    /// Its index among the history's chunks.
    pub chunk: u32,
    /// What ordered it.
    pub score: f32,
    /// Its cosine to the question and its rank by it, from 1, where there was a dense stage.
    pub dense: Option<(f32, u32)>,
}

impl Retriever {
    /// A retriever of these settings and models.
    ///
    /// # Errors
    /// [`RetrievalError::Setting`] when a setting is out of range or asks for a model that is not
    /// given.
    pub fn new(settings: Settings, models: Models) -> Result<Self, RetrievalError> {
        settings.chunks.check()?;
        let wrong = |field, problem: &str| {
            Err(RetrievalError::Setting {
                field,
                problem: problem.to_owned(),
            })
        };
        let (shortlist, top_turns) = match settings.ranking {
            Method::Rerank { shortlist, .. } => (shortlist, 1),
            Method::TurnIsolation { top_turns } => (1, top_turns),
            _ => (1, 1),
        };
        if settings.k == 0 {
            return wrong("k", "0 items would be no evidence; ask for at least 1");
        }
        if shortlist == 0 {
            return wrong(
                "ranking.shortlist",
                "0 chunks leave nothing to rank; Raw-RAG has 128",
            );
        }
        if top_turns == 0 {
            return wrong(
                "ranking.top_turns",
                "0 turns give no score; Nano-Memory has 1",
            );
        }
        if settings.uses_turns() && settings.chunks != Unit::Session {
            return wrong(
                "chunks.unit",
                "ranking by turns ranks sessions: choose unit = \"session\"",
            );
        }
        if settings.uses_tokens() && models.tokens.is_none() {
            return wrong(
                "ranking",
                "late interaction needs a model that gives token vectors",
            );
        }
        if settings.uses_tokens() {
            settings.late_interaction.check()?;
        }
        let by_cross_encoder = matches!(
            settings.ranking,
            Method::Rerank {
                by: RerankKind::CrossEncoder,
                ..
            }
        );
        if by_cross_encoder && models.reranker.is_none() {
            return wrong("ranking.by", "a cross-encoder is needed and none is loaded");
        }
        Ok(Self { settings, models })
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Cuts and encodes a conversation.
    ///
    /// # Errors
    /// When sizes of chunks are out of range or a model cannot compute.
    pub fn index(&self, conversation: &Conversation) -> Result<HistoryIndex, RetrievalError> {
        let Settings {
            chunks: unit,
            rendering,
            ..
        } = self.settings;
        let transcript = Transcript::new(conversation, rendering);
        let chunks = chunk(&transcript, unit)?;
        let facts = conversation
            .messages()
            .map(|(session, _, message)| MessageFacts {
                session: session.0,
                speaker: message.speaker.clone(),
                date: conversation.date_of(session, message),
            })
            .collect();
        let mut history = HistoryIndex {
            transcript,
            chunks,
            truncated: 0,
            dense: None,
            turns: Vec::new(),
            tokens: None,
            facts,
        };
        if self.settings.uses_vectors() {
            self.embed_chunks(&mut history)?;
        }
        if self.settings.uses_tokens() {
            let model = self.models.tokens.as_deref().ok_or_else(missing_tokens)?;
            let spoken = Transcript::new(conversation, Rendering::Speaker);
            let texts: Vec<&str> = (0..history.facts.len() as u32)
                .map(|m| spoken.messages(m..m + 1))
                .collect();
            let mut tokens = TokenIndex::new(model.dimension());
            for text in model.encode_tokens(&texts)? {
                tokens.push(&text)?;
            }
            history.tokens = Some(tokens);
        }
        Ok(history)
    }

    /// Ranks the chunks of `history` against `question`, leaving out everything dated after
    /// `cutoff`. What has no date is never left out.
    ///
    /// # Errors
    /// When a model cannot compute.
    pub fn search(
        &self,
        history: &HistoryIndex,
        question: &str,
        cutoff: Option<Timestamp>,
    ) -> Result<Found, RetrievalError> {
        let visible_message = |message: usize| {
            let date = history.facts.get(message).and_then(|facts| facts.date);
            cutoff.is_none_or(|cutoff| date.is_none_or(|date| date <= cutoff))
        };
        let visible: Vec<u32> = (0..)
            .zip(&history.chunks)
            .filter(|(_, chunk)| {
                let messages = chunk.messages.start as usize..chunk.messages.end as usize;
                messages.into_iter().all(visible_message)
            })
            .map(|(row, _)| row)
            .collect();
        let available = visible.len();
        let k = self.settings.k;
        let plain = |scores: &[f32], shortlist| -> Result<Found, RetrievalError> {
            let scores = visible.iter().map(|&row| (row, scores[row as usize]));
            let items = best_of(scores, k)?
                .into_iter()
                .map(|s| Item {
                    chunk: s.row,
                    score: s.score,
                    dense: None,
                })
                .collect();
            Ok(Found {
                available,
                shortlist,
                items,
            })
        };
        match self.settings.ranking {
            Method::TurnIsolation { top_turns } => {
                let turns = self.cosines(history, question)?;
                plain(
                    &turn_isolation(&turns, &history.turns, top_turns),
                    available,
                )
            }
            Method::LateInteraction => {
                let scores = self.interact(history, question, &visible_message)?;
                plain(&scores, available)
            }
            Method::Dense | Method::TurnMean => {
                let cosines = self.cosines(history, question)?;
                let mut found = plain(&cosines, available)?;
                for (item, rank) in found.items.iter_mut().zip(1..) {
                    item.dense = Some((item.score, rank));
                }
                Ok(found)
            }
            Method::Rerank { shortlist, by } => {
                let cosines = self.cosines(history, question)?;
                let scores = visible.iter().map(|&row| (row, cosines[row as usize]));
                let candidates = best_of(scores, shortlist)?;
                let rows: Vec<u32> = candidates.iter().map(|candidate| candidate.row).collect();
                let scores = match by {
                    RerankKind::LateInteraction => {
                        let all = self.interact(history, question, &visible_message)?;
                        rows.iter().map(|&row| all[row as usize]).collect()
                    }
                    RerankKind::CrossEncoder => self.read_together(history, question, &rows)?,
                };
                // Ties go by source order, so candidates are put back into it first.
                let mut by_row: Vec<(u32, f32, f32, u32)> = candidates
                    .iter()
                    .zip(scores)
                    .zip(1..)
                    .map(|((candidate, score), rank)| (candidate.row, score, candidate.score, rank))
                    .collect();
                by_row.sort_by_key(|&(row, ..)| row);
                let scores: Vec<f32> = by_row.iter().map(|&(_, score, ..)| score).collect();
                let items = best(&scores, k)?
                    .into_iter()
                    .map(|scored| {
                        let (chunk, score, cosine, rank) = by_row[scored.row as usize];
                        Item {
                            chunk,
                            score,
                            dense: Some((cosine, rank)),
                        }
                    })
                    .collect();
                Ok(Found {
                    available,
                    shortlist: candidates.len(),
                    items,
                })
            }
        }
    }

    fn embed_chunks(&self, history: &mut HistoryIndex) -> Result<(), RetrievalError> {
        let turns = if self.settings.uses_turns() {
            chunk(&history.transcript, Unit::Turn)?
        } else {
            Vec::new()
        };
        let rows = if self.settings.uses_turns() {
            &turns
        } else {
            &history.chunks
        };
        let texts: Vec<&str> = rows
            .iter()
            .map(|row| history.transcript.shown(row))
            .collect();
        let embeddings = self.models.embedder.embed(&texts)?;
        history.truncated += embeddings.truncated;
        history.turns = sessions_of(&history.chunks, &turns);
        let mut vectors = embeddings.vectors;
        if self.settings.ranking == Method::TurnMean {
            vectors = means(&vectors, embeddings.dimension, &history.turns);
        }
        let mut index = VectorIndex::new(embeddings.dimension.max(1));
        index.append(&vectors)?;
        history.dense = Some(index);
        Ok(())
    }

    /// The question's cosine to every row of the dense index.
    fn cosines(&self, history: &HistoryIndex, question: &str) -> Result<Vec<f32>, RetrievalError> {
        let Some(index) = &history.dense else {
            return Ok(Vec::new());
        };
        index.scores(&self.models.embedder.embed(&[question])?.vectors)
    }

    /// The late-interaction score of every chunk: that of its best message, and for a window the
    /// mean of its best [`WINDOW_BEST`].
    fn interact(
        &self,
        history: &HistoryIndex,
        question: &str,
        visible: &(impl Fn(usize) -> bool + Sync),
    ) -> Result<Vec<f32>, RetrievalError> {
        let (Some(model), Some(tokens)) = (self.models.tokens.as_deref(), &history.tokens) else {
            return Err(missing_tokens());
        };
        let query = encode(model, question)?;
        let settings = &self.settings.late_interaction;
        let messages = settings.score(tokens, &history.facts, question, &query, visible)?;
        let kept = if matches!(self.settings.chunks, Unit::Window { .. }) {
            WINDOW_BEST
        } else {
            1
        };
        let chunk = |chunk: &Chunk| {
            let mut scores =
                messages[chunk.messages.start as usize..chunk.messages.end as usize].to_vec();
            scores.sort_unstable_by(|a, b| b.total_cmp(a));
            scores.truncate(kept);
            match scores.len() {
                0 => f32::NEG_INFINITY,
                n => scores.iter().sum::<f32>() / n as f32,
            }
        };
        Ok(history.chunks.iter().map(chunk).collect())
    }

    fn read_together(
        &self,
        history: &HistoryIndex,
        question: &str,
        rows: &[u32],
    ) -> Result<Vec<f32>, RetrievalError> {
        let Some(reranker) = self.models.reranker.as_deref() else {
            return Ok(Vec::new());
        };
        let shown = |&row: &u32| history.transcript.shown(&history.chunks[row as usize]);
        let passages: Vec<&str> = rows.iter().map(shown).collect();
        Ok(reranker.score(question, &passages)?.scores)
    }
}

impl Settings {
    /// Whether a bi-encoder's vectors are used.
    pub fn uses_vectors(&self) -> bool {
        self.ranking != Method::LateInteraction
    }

    /// Whether token vectors are used.
    pub fn uses_tokens(&self) -> bool {
        matches!(
            self.ranking,
            Method::LateInteraction
                | Method::Rerank {
                    by: RerankKind::LateInteraction,
                    ..
                }
        )
    }

    fn uses_turns(&self) -> bool {
        matches!(
            self.ranking,
            Method::TurnIsolation { .. } | Method::TurnMean
        )
    }
}

/// Encodes one text.
pub(crate) fn encode(model: &dyn TokenEncoder, text: &str) -> Result<TokenVectors, RetrievalError> {
    model
        .encode_tokens(&[text])?
        .pop()
        .ok_or_else(missing_tokens)
}

fn missing_tokens() -> RetrievalError {
    let problem = "the model gave no token vectors".to_owned();
    RetrievalError::Setting {
        field: "ranking",
        problem,
    }
}

/// For each chunk, which of the turns lie in it.
fn sessions_of(chunks: &[Chunk], turns: &[Chunk]) -> Vec<Range<usize>> {
    let at = |message: u32| turns.partition_point(|turn| turn.messages.start < message);
    chunks
        .iter()
        .map(|chunk| at(chunk.messages.start)..at(chunk.messages.end))
        .collect()
}
