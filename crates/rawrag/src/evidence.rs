//! What a reader sees of a question's evidence: the text that is on record, else rebuilt from the
//! history, the ids of the chunks retrieved, what a selector chose among them and the run's settings.
//! Where a pruner left a text, that is what is seen. Nothing is embedded again.

use std::collections::HashMap;

use rawrag_chunking::{Chunk, Encoding, Transcript, chunk};
use rawrag_corpus::{Conversation, Entry, Question};
use rawrag_records::{
    EvidenceItem, Key, Pruning, Retrieval, Run, Search, SearchOutcome, Selection,
};
use rawrag_retrieval::{Assembled, RetrievalError, assemble};

use crate::experiment::Experiment;
use crate::pipeline::{PipelineError, key};

/// The evidence of a run's questions.
#[derive(Debug)]
pub struct Evidence {
    searches: HashMap<Key, Searched>,
    retrievals: HashMap<Key, Retrieval>,
    selections: HashMap<Key, Selection>,
    /// What is left of the evidence, where a pruner left a text.
    pruned: HashMap<Key, String>,
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
    /// The evidence of a run as its reader sees it: searched, selected and pruned.
    ///
    /// # Errors
    /// When records are damaged or missing.
    pub fn of(run: &Run) -> Result<Self, PipelineError> {
        let mut evidence = Self::unpruned(run)?;
        let prunings = run.read::<Pruning>()?.into_iter();
        evidence.pruned = prunings
            .filter_map(|pruning| Some((pruning.question_key(), pruning.text?)))
            .collect();
        Ok(evidence)
    }

    /// The same before anything is pruned.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn unpruned(run: &Run) -> Result<Self, PipelineError> {
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
                selections: HashMap::new(),
                pruned: HashMap::new(),
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
            selections: run
                .read::<Selection>()?
                .into_iter()
                .map(|record| (record.question_key(), record))
                .collect(),
            pruned: HashMap::new(),
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
        if let Some(text) = self.pruned.get(&key) {
            return Ok(Some(Ok(text.clone())));
        }
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
        let selected = selected(experiment, retrieval, self.selections.get(&key));
        let rebuilt = rebuilt(&mut self.rebuilt, experiment, &entry.conversation)?;
        let text = rebuilt.text(
            experiment,
            &entry.conversation,
            retrieval,
            selected.as_deref(),
        )?;
        Ok(Some(Ok(text)))
    }

    /// The items that were retrieved for a question, each as its own text, best first. `None` where
    /// the run did not ask the question.
    ///
    /// # Errors
    /// As [`Self::text`].
    pub fn shortlist(
        &mut self,
        experiment: &Experiment,
        entry: &Entry,
        question: &Question,
    ) -> Result<Option<Vec<String>>, PipelineError> {
        let Some(retrieval) = self.retrievals.get(&key(question)) else {
            return Ok(None);
        };
        let rebuilt = rebuilt(&mut self.rebuilt, experiment, &entry.conversation)?;
        let chosen = rebuilt.chosen(experiment, &entry.conversation, retrieval)?;
        let text = |chunk: &&Chunk| rebuilt.transcript.shown(chunk).to_owned();
        Ok(Some(chosen.iter().map(text).collect()))
    }
}

/// Which of the retrieved items a selector leaves, best first; `None` where there is no selector. A
/// selection that failed leaves the first of the shortlist.
fn selected(
    experiment: &Experiment,
    retrieval: &Retrieval,
    selection: Option<&Selection>,
) -> Option<Vec<usize>> {
    let k = selector_k(experiment)?;
    let order: Vec<usize> = match selection {
        Some(selection) if !selection.order.is_empty() => {
            selection.order.iter().map(|&at| at as usize).collect()
        }
        _ => (0..retrieval.chunks.len()).collect(),
    };
    Some(order.into_iter().take(k).collect())
}

#[cfg(feature = "remote")]
fn selector_k(experiment: &Experiment) -> Option<usize> {
    experiment.selector.as_ref().map(|selector| selector.k)
}

#[cfg(not(feature = "remote"))]
fn selector_k(_: &Experiment) -> Option<usize> {
    None
}

/// The conversation as it was cut, kept while its questions come.
fn rebuilt<'a>(
    kept: &'a mut Option<(String, Rebuilt)>,
    experiment: &Experiment,
    conversation: &Conversation,
) -> Result<&'a Rebuilt, PipelineError> {
    let id = conversation.id.as_str();
    let rebuilt = match kept.take() {
        Some((of, rebuilt)) if of == id => rebuilt,
        _ => Rebuilt::of(experiment, conversation)?,
    };
    Ok(&kept.insert((id.to_owned(), rebuilt)).1)
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

/// A search and its items, as records.
pub(crate) type Rows = (Search, Vec<EvidenceItem>);

/// The evidence of one retrieval as records.
pub(crate) fn rows(
    retrieval: &Retrieval,
    assembled: &Assembled,
    chosen: &[&Chunk],
    conversation: &Conversation,
) -> Rows {
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

    /// The chunks retrieved, if they have the tokens that were counted at retrieval.
    fn chosen(
        &self,
        experiment: &Experiment,
        conversation: &Conversation,
        retrieval: &Retrieval,
    ) -> Result<Vec<&Chunk>, PipelineError> {
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
        match tokens == retrieval.tokens {
            true => Ok(chosen),
            false => Err(other()),
        }
    }

    /// The text of the items retrieved, or of those among them that a selector left.
    fn text(
        &self,
        experiment: &Experiment,
        conversation: &Conversation,
        retrieval: &Retrieval,
        selected: Option<&[usize]>,
    ) -> Result<String, PipelineError> {
        let mut chosen = self.chosen(experiment, conversation, retrieval)?;
        if let Some(selected) = selected {
            let other = || PipelineError::OtherEvidence(Box::new(retrieval.question_key()));
            let left = selected.iter().map(|&at| chosen.get(at).copied());
            chosen = left.collect::<Option<_>>().ok_or_else(other)?;
        }
        let settings = experiment.evidence.assembly();
        Ok(assemble(conversation, &self.transcript, &chosen, &settings).text())
    }
}
