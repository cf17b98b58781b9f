//! What a reader sees of a question's evidence: the text that is on record, else rebuilt from the
//! history, the ids of the chunks retrieved and the run's settings. Nothing is embedded again.

use std::collections::HashMap;

use rawrag_chunking::{Chunk, Encoding, Transcript, chunk};
use rawrag_corpus::{Conversation, Entry, Question};
use rawrag_records::{EvidenceItem, Key, Retrieval, Run, Search, SearchOutcome};
use rawrag_retrieval::{Assembled, RetrievalError, assemble};

use crate::experiment::Experiment;
use crate::pipeline::{PipelineError, key};

/// The evidence of a run's questions.
#[derive(Debug)]
pub struct Evidence {
    searches: HashMap<Key, Searched>,
    retrievals: HashMap<Key, Retrieval>,
    /// The conversation last rebuilt, by its id.
    rebuilt: Option<(String, Rebuilt)>,
}

/// What is on record of one question's search.
#[derive(Debug)]
struct Searched {
    search: Search,
    /// Every item's text, if all are kept.
    text: Option<String>,
}

impl Evidence {
    /// The evidence of a run whose searches are all on record.
    ///
    /// # Errors
    /// When records are damaged or missing.
    pub fn of(run: &Run) -> Result<Self, PipelineError> {
        let searches: Vec<Search> = run.read()?;
        if !searches.is_empty() {
            run.require_complete(&searches)?;
            let mut items: HashMap<Key, Vec<EvidenceItem>> = HashMap::new();
            for item in run.read::<EvidenceItem>()? {
                items.entry(item.question_key()).or_default().push(item);
            }
            let searches = searches.into_iter().map(|search| {
                let key = search.question_key();
                let mut items = items.remove(&key).unwrap_or_default();
                items.sort_by_key(|item| item.rank);
                let whole = items.len() == search.returned as usize;
                let texts: Option<Vec<&str>> = items.iter().map(|i| i.text.as_deref()).collect();
                let text = texts.filter(|_| whole).map(joined);
                (key, Searched { search, text })
            });
            return Ok(Self {
                searches: searches.collect(),
                retrievals: HashMap::new(),
                rebuilt: None,
            });
        }
        let retrievals: Vec<Retrieval> = run.read()?;
        run.require_complete(&retrievals)?;
        Ok(Self {
            searches: HashMap::new(),
            retrievals: retrievals
                .into_iter()
                .map(|record| (record.question_key(), record))
                .collect(),
            rebuilt: None,
        })
    }

    /// The evidence of `question`, about the conversation of `entry`, as a reader sees it; or why
    /// there is none, since a search that failed did not find nothing. `None` where the run did not
    /// ask the question.
    ///
    /// # Errors
    /// [`PipelineError::NoText`] where the run is kept without text, and
    /// [`PipelineError::OtherEvidence`] where what can be rebuilt is not what was retrieved.
    pub fn text(
        &mut self,
        experiment: &Experiment,
        entry: &Entry,
        question: &Question,
    ) -> Result<Option<Result<String, String>>, PipelineError> {
        let key = key(question);
        if let Some(Searched { search, text }) = self.searches.get(&key) {
            let text = match (search.outcome, text) {
                (SearchOutcome::Failed, _) => {
                    let reason = search.error.as_deref().unwrap_or("no reason is on record");
                    Err(format!("the search failed: {reason}"))
                }
                (SearchOutcome::Found, Some(text)) => Ok(text.clone()),
                (SearchOutcome::Found, None) => return Err(PipelineError::NoText(Box::new(key))),
            };
            return Ok(Some(text));
        }
        let Some(retrieval) = self.retrievals.get(&key) else {
            return Ok(None);
        };
        let id = entry.conversation.id.as_str();
        let rebuilt = match &mut self.rebuilt {
            Some((of, rebuilt)) if of.as_str() == id => rebuilt,
            rebuilt => {
                let new = Rebuilt::of(experiment, &entry.conversation)?;
                &mut rebuilt.insert((id.to_owned(), new)).1
            }
        };
        let text = rebuilt.text(experiment, &entry.conversation, retrieval)?;
        Ok(Some(Ok(text)))
    }
}

/// Items as one text: each ends a line.
pub fn joined<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    let mut text = String::new();
    for item in items {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(item);
    }
    text
}

/// The evidence of one retrieval as records of a search and its items.
pub(crate) fn rows(
    retrieval: &Retrieval,
    assembled: &Assembled,
    chosen: &[&Chunk],
    conversation: &Conversation,
) -> (Search, Vec<EvidenceItem>) {
    let text = assembled.text();
    let search = Search {
        benchmark: retrieval.benchmark.clone(),
        source: retrieval.source.clone(),
        conversation: retrieval.conversation.clone(),
        question: retrieval.question.clone(),
        phase: retrieval.phase,
        kind: retrieval.kind.clone(),
        gold_messages: retrieval.gold_messages.clone(),
        gold_sessions: retrieval.gold_sessions.clone(),
        visibility: "filter".to_owned(),
        outcome: SearchOutcome::Found,
        error: None,
        requested: retrieval.requested,
        returned: assembled.entries.len() as u32,
        evidence_tokens: Encoding::O200kBase.count(&text) as u32,
        milliseconds: retrieval.milliseconds,
    };
    let dates: Vec<_> = conversation
        .messages()
        .map(|(session, _, message)| conversation.date_of(session, message))
        .collect();
    let latest = |chunk: &Chunk| {
        let messages = chunk.messages.start as usize..chunk.messages.end as usize;
        dates.get(messages)?.iter().flatten().max().copied()
    };
    let items = assembled.entries.iter().zip(&assembled.tokens).zip(1..);
    let items = items.map(|(((at, text), &tokens), rank)| {
        let chunk = chosen[*at];
        EvidenceItem {
            benchmark: search.benchmark.clone(),
            source: search.source.clone(),
            conversation: search.conversation.clone(),
            question: search.question.clone(),
            phase: search.phase,
            rank,
            text: Some(text.clone()),
            tokens: tokens as u32,
            messages: Some(chunk.messages.clone().collect()),
            sessions: Some(chunk.sessions.clone().collect()),
            date: latest(chunk).map(|date| date.to_string()),
            score: retrieval.score.get(*at).copied().map(f64::from),
            stored: retrieval.chunks.get(*at).map(ToString::to_string),
        }
    });
    let items = items.collect();
    (search, items)
}

/// A conversation cut as it was when its questions were searched.
#[derive(Debug)]
struct Rebuilt {
    transcript: Transcript,
    chunks: Vec<Chunk>,
}

impl Rebuilt {
    fn of(experiment: &Experiment, conversation: &Conversation) -> Result<Self, PipelineError> {
        let settings = experiment.retrieval.as_ref();
        let settings = settings.ok_or(PipelineError::NoRetrieval)?;
        let transcript = Transcript::new(conversation, settings.rendering);
        let chunks = chunk(&transcript, settings.chunks).map_err(RetrievalError::from)?;
        Ok(Self { transcript, chunks })
    }

    /// The text of the items retrieved, if it has the tokens that were counted at retrieval.
    fn text(
        &self,
        experiment: &Experiment,
        conversation: &Conversation,
        retrieval: &Retrieval,
    ) -> Result<String, PipelineError> {
        let other = || PipelineError::OtherEvidence(Box::new(retrieval.question_key()));
        let chosen: Vec<&Chunk> = retrieval
            .chunks
            .iter()
            .map(|&id| self.chunks.get(id as usize))
            .collect::<Option<_>>()
            .ok_or_else(other)?;
        let settings = experiment.evidence.assembly();
        let assembled = assemble(conversation, &self.transcript, &chosen, &settings);
        let mut tokens = vec![0; chosen.len()];
        for ((item, _), &count) in assembled.entries.iter().zip(&assembled.tokens) {
            tokens[*item] = count as u32;
        }
        if tokens != retrieval.tokens {
            return Err(other());
        }
        Ok(assembled.text())
    }
}
