//! What MEME, and synthetic episodes of its shape, know of their questions beyond history and gold
//! answers: read once, when it is first asked for.

use std::collections::HashMap;
use std::path::Path;
use std::sync::OnceLock;

use rawrag_corpus::meme::{self, Asked, Episode};
use rawrag_corpus::synthetic::Family;
use rawrag_corpus::{Benchmark, Question};

use crate::pipeline::{PipelineError, key};

/// The episodes of a benchmark file.
pub(crate) struct Episodes<'a> {
    data: &'a Path,
    by_conversation: OnceLock<HashMap<String, Episode>>,
}

impl<'a> Episodes<'a> {
    /// Those of `data`, of which nothing is read yet.
    pub(crate) fn new(data: &'a Path) -> Self {
        Self {
            data,
            by_conversation: OnceLock::new(),
        }
    }

    /// What is known of a question.
    ///
    /// # Errors
    /// When the data cannot be read, or knows nothing of the question.
    pub(crate) fn of(&self, question: &Question) -> Result<(&Episode, &Asked), PipelineError> {
        let episodes = match self.by_conversation.get() {
            Some(episodes) => episodes,
            None => {
                let read = self.read()?;
                self.by_conversation.get_or_init(|| read)
            }
        };
        let found = episodes.get(question.conversation.as_str()).and_then(|e| {
            let same = |a: &&Asked| a.id == question.id && Some(a.phase) == question.phase;
            Some((e, e.asked.iter().find(same)?))
        });
        found.ok_or_else(|| PipelineError::NoEpisode(Box::new(key(question))))
    }

    fn read(&self) -> Result<HashMap<String, Episode>, PipelineError> {
        let loaded = meme::load(self.data)?;
        let episodes = loaded.episodes.into_iter().map(|annotated| {
            let episode = annotated.episode;
            (episode.conversation.to_string(), episode)
        });
        Ok(episodes.collect())
    }
}

/// Whether a question is one of an episode, in MEME or synthetic.
pub(crate) fn is_of_an_episode(question: &Question) -> bool {
    match question.benchmark {
        Benchmark::Meme => true,
        Benchmark::Synthetic => question.source.as_deref() == Some(Family::Meme.source()),
        _ => false,
    }
}
