//! From a benchmark file through a memory system to records: each conversation is taken in once, its
//! questions are asked, and everything that came back is on record before the next begins.
//!
//! A conversation counts once every question about it has its search on record; one that was cut off
//! is taken out and begun again in a namespace of its own.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use rawrag_baselines::native::{FullContext, Native, NativeSystem, Retrieval};
use rawrag_baselines::stored::{STORED, StoredSettings, StoredSystem};
use rawrag_baselines::{
    Asked, Asking, Capabilities, Event, Export, Item, MemorySystem, Step, Stored, ask, visibility,
};
use rawrag_chunking::Encoding;
use rawrag_corpus::{Conversation, Entry, Question};
use rawrag_models::ModelKind;
use rawrag_records::{
    Appender, Consumption, EvidenceItem, Ingestion, Key, Level, Model, Run, Search, SearchOutcome,
    StoredObject, WriteDecision, WriteEvent,
};
use rawrag_retrieval::{EvidenceSettings, Models, Settings};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::evidence::joined;
use crate::experiment::{Experiment, Memory};
use crate::pipeline::{
    Described, Job, PipelineError, Progress, begin, is_script, is_wanted, key, used,
};

/// A memory system that is ready to be asked, and what a manifest says of it beside that.
pub struct Ready {
    /// The system.
    pub system: Box<dyn MemorySystem>,
    /// Its settings, defaults included.
    pub settings: Value,
    /// The models that it uses, by the part that they play.
    pub models: BTreeMap<String, Model>,
}

impl Ready {
    /// The native system that `memory` names, showing its evidence so and keeping what it keeps in
    /// `folder`; `None` where it names another. `models` are loaded only where the system needs
    /// them.
    ///
    /// # Errors
    /// When its settings cannot be used, and when `models` fails.
    pub fn native<E: From<PipelineError>>(
        memory: &Memory,
        evidence: EvidenceSettings,
        folder: &Path,
        models: impl FnOnce() -> Result<Models, E>,
    ) -> Result<Option<Self>, E> {
        let Some(name) = memory.system.as_deref() else {
            return Ok(None);
        };
        if name == STORED.0 {
            let settings: StoredSettings = parsed(memory)?;
            let tokens = models()?.tokens.ok_or_else(|| {
                let problem = "it needs a model that gives token vectors";
                PipelineError::SystemSettings(problem.to_owned())
            })?;
            let kind = ModelKind::LateInteraction;
            let identity = crate::pipeline::model(tokens.identity(), kind);
            let described = json!(settings);
            let system = StoredSystem::new(folder, tokens, settings);
            return Ok(Some(Self {
                system: Box::new(system.map_err(PipelineError::from)?),
                settings: described,
                models: BTreeMap::from([("late_interaction".to_owned(), identity)]),
            }));
        }
        let mut used_models = BTreeMap::new();
        let (kind, settings) = match name {
            "raw-rag" => {
                let mut settings: Settings = parsed(memory)?;
                settings.k = memory.k;
                let models = models()?;
                used_models = used(&settings, &models);
                let listed = json!(settings);
                let kind = Native::Retrieval(Box::new(Retrieval {
                    settings,
                    evidence,
                    models,
                }));
                (kind, listed)
            }
            "full-context" => {
                let policy: FullContext = parsed(memory)?;
                (Native::FullContext(policy), json!(policy))
            }
            "recency" => (Native::Recency, json!(parsed::<Nothing>(memory)?)),
            "abstain" => (Native::Abstain, json!(parsed::<Nothing>(memory)?)),
            _ => return Ok(None),
        };
        let system = NativeSystem::new(name, kind).map_err(PipelineError::from)?;
        Ok(Some(Self {
            system: Box::new(system),
            settings,
            models: used_models,
        }))
    }

    /// A system of another's, with the service that its models are at.
    pub fn wrapped(system: Box<dyn MemorySystem>, memory: &Memory) -> Self {
        Self {
            system,
            settings: json!(memory.settings),
            models: named_models(memory, true),
        }
    }

    /// The local models of a system that has a chat model of a service beside them.
    #[cfg(feature = "remote")]
    pub(crate) fn models_of(memory: &Memory, models: &Models) -> BTreeMap<String, Model> {
        let mut used = named_models(memory, false);
        let of = |identity, kind| crate::pipeline::model(identity, kind);
        let embedder = of(models.embedder.identity(), ModelKind::Embedder);
        used.insert("embedder".to_owned(), embedder);
        if let Some(reranker) = &models.reranker {
            let reranker = of(reranker.identity(), ModelKind::CrossEncoder);
            used.insert("reranker".to_owned(), reranker);
        }
        used
    }
}

/// The models of a service that a system is told to use.
fn named_models(memory: &Memory, embedder: bool) -> BTreeMap<String, Model> {
    let model = |name: &str, kind: &str, address: &str| Model {
        name: name.to_owned(),
        kind: match is_script(name) {
            true => "scripted replies; no measure of quality".to_owned(),
            false => kind.to_owned(),
        },
        weights_sha256: None,
        endpoint: Some(address.to_owned()),
    };
    let mut models = BTreeMap::new();
    if let Some(at) = &memory.models {
        let chat = model(&at.chat, "chat", &at.address);
        models.insert("system's chat model".to_owned(), chat);
        if embedder {
            let embedder = model(&at.embedding, "embedder", &at.address);
            models.insert("system's embedder".to_owned(), embedder);
        }
    }
    models
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

fn parsed<T: DeserializeOwned>(memory: &Memory) -> Result<T, PipelineError> {
    let settings = Value::Object(memory.settings.clone());
    serde_json::from_value(settings).map_err(|e| PipelineError::SystemSettings(e.to_string()))
}

/// Takes every conversation of an experiment's data through its memory system, or the rest of them.
///
/// A search that fails is on record as failed. If more than the share `failures_allowed` of all
/// failed, the run ends in an error, and the next call asks those conversations again.
///
/// # Errors
/// [`PipelineError`]. Every conversation finished before is on record, and the same call goes on
/// there.
pub fn run(
    job: &Job<'_>,
    mut ready: Ready,
    failures_allowed: f64,
    mut progress: impl FnMut(Progress),
) -> Result<Run, PipelineError> {
    let memory = job.experiment.memory.as_ref();
    let memory = memory.ok_or(PipelineError::NoMemory)?;
    let (run, report, keys) = begin(job, |_| described(job.experiment, memory, &ready))?;
    let mut records = Records::open(&run)?;
    let mut wanted: HashMap<&str, usize> = HashMap::new();
    for key in &keys {
        *wanted.entry(&key.conversation).or_default() += 1;
    }
    let held = records.keep_whole(&wanted, failures_allowed)?;
    progress(Progress::Begun {
        questions: keys.len(),
        held,
    });
    // No two processes may meet in a namespace, not even of a service that keeps what it was told.
    let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%S");
    let namespaces = format!("{now}-{}", std::process::id());
    rawrag_corpus::read::<PipelineError>(job.data, Some(report.format), |entry| {
        if !is_wanted(job.experiment, &entry) || records.holds(&entry) {
            return Ok(());
        }
        let asked = ask(
            ready.system.as_mut(),
            &namespaces,
            &entry.conversation,
            &entry.questions,
            Asking {
                k: memory.k,
                one_by_one: memory.one_by_one,
            },
            |step| {
                if step == Step::Search {
                    progress(Progress::Question);
                }
            },
        )?;
        records.append(&entry, asked)
    })?;
    let searches: Vec<Search> = run.read()?;
    run.require_complete(&searches)?;
    verdict(&searches, failures_allowed, memory.is_floor())?;
    Ok(run)
}

fn described(experiment: &Experiment, memory: &Memory, ready: &Ready) -> Described {
    let description = ready.system.description();
    let lacks = |capabilities: Capabilities| -> Vec<&str> {
        let listed = capabilities.listed().into_iter();
        listed
            .filter(|(_, has)| !has)
            .map(|(name, _)| name)
            .collect()
    };
    Described {
        version: description.version.clone(),
        settings: json!({
            "memory": {
                "system": memory.system,
                "command": memory.command,
                "address": memory.address,
                "k": memory.k,
                "one_by_one": memory.one_by_one,
                "conversations": memory.conversations,
                "settings": ready.settings,
                "description": description,
                "lacks": lacks(description.capabilities),
                "visibility": visibility(description.capabilities),
            },
            "evidence": experiment.evidence,
        }),
        models: ready.models.clone(),
    }
}

/// Whether what is on record can be measured on.
fn verdict(searches: &[Search], allowed: f64, floor: bool) -> Result<(), PipelineError> {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for search in searches.iter().filter(|search| failed(search)) {
        *reasons
            .entry(search.error.as_deref().unwrap_or(""))
            .or_default() += 1;
    }
    let (failed, total) = (reasons.values().sum::<usize>(), searches.len());
    if failed as f64 > allowed * total as f64 {
        let mut reasons: Vec<(String, usize)> = reasons
            .into_iter()
            .map(|(reason, count)| (reason.to_owned(), count))
            .collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        reasons.truncate(3);
        return Err(PipelineError::TooManyFailures {
            stage: "searching".to_owned(),
            failed,
            total,
            percent: 100.0 * allowed,
            reasons,
        });
    }
    if !floor && searches.iter().all(|search| search.returned == 0) {
        return Err(PipelineError::NothingFound);
    }
    Ok(())
}

fn failed(search: &Search) -> bool {
    search.outcome == SearchOutcome::Failed
}

/// The files that a memory system's run is written to.
struct Records {
    searches: Appender<Search>,
    evidence: Appender<EvidenceItem>,
    ingestions: Appender<Ingestion>,
    exports: Appender<StoredObject>,
    decisions: Appender<WriteDecision>,
    consumptions: Appender<Consumption>,
}

impl Records {
    fn open(run: &Run) -> Result<Self, PipelineError> {
        Ok(Self {
            searches: run.appender()?.0,
            evidence: run.appender()?.0,
            ingestions: run.appender()?.0,
            exports: run.appender()?.0,
            decisions: run.appender()?.0,
            consumptions: run.appender()?.0,
        })
    }

    /// Takes out what belongs to conversations that were cut off, to those whose evidence is not all
    /// there, and to those with failed searches if too many failed. Returns how many searches stay.
    fn keep_whole(
        &mut self,
        wanted: &HashMap<&str, usize>,
        allowed: f64,
    ) -> Result<usize, PipelineError> {
        let held = self.searches.retain(|_| true)?;
        let mut found: HashMap<&str, usize> = HashMap::new();
        for search in &held {
            *found.entry(&search.conversation).or_default() += 1;
        }
        let mut shown: HashMap<Key, usize> = HashMap::new();
        for item in self.evidence.retain(|_| true)? {
            *shown.entry(item.question_key()).or_default() += 1;
        }
        let short = held.iter().filter(|search| {
            let items = shown.get(&search.question_key()).copied();
            items.unwrap_or_default() != search.returned as usize
        });
        let short: HashSet<&str> = short.map(|search| search.conversation.as_str()).collect();
        let lost = held.iter().filter(|search| failed(search)).count();
        let again: HashSet<&str> = match lost as f64 > allowed * held.len() as f64 {
            true => held
                .iter()
                .filter(|search| failed(search))
                .map(|search| search.conversation.as_str())
                .collect(),
            false => HashSet::new(),
        };
        let whole = |conversation: &str| {
            found.get(conversation) == wanted.get(conversation)
                && !again.contains(conversation)
                && !short.contains(conversation)
        };
        // Searches go first: without them a conversation counts for nothing.
        let kept = self.searches.retain(|r| whole(&r.conversation))?.len();
        self.evidence.retain(|r| whole(&r.conversation))?;
        self.ingestions.retain(|r| whole(&r.conversation))?;
        self.exports.retain(|r| whole(&r.conversation))?;
        self.decisions.retain(|r| whole(&r.conversation))?;
        self.consumptions.retain(|r| whole(&r.conversation))?;
        Ok(kept)
    }

    fn holds(&self, entry: &Entry) -> bool {
        let mut questions = entry.questions.iter();
        questions.all(|question| self.searches.holds(&key(question).to_string()))
    }

    /// Appends all that came of a conversation, its searches last.
    fn append(&mut self, entry: &Entry, asked: Asked) -> Result<(), PipelineError> {
        let Entry {
            conversation,
            questions,
        } = entry;
        let history = Positions::of(conversation);
        self.ingestions.append_all(&ingestions(&asked, &history))?;
        let mut exports = Vec::new();
        let mut export_error = None;
        for Export { phase, stored } in &asked.exports {
            match stored {
                Ok(stored) => exports.extend(objects(&asked, *phase, stored, &history)),
                Err(reason) => export_error = Some(reason.clone()),
            }
        }
        self.exports.append_all(&exports)?;
        self.decisions.append_all(&decisions(&asked))?;
        let consumption = consumption(&asked, export_error);
        self.consumptions.append(&consumption)?;
        let (mut searches, mut evidence) = (Vec::new(), Vec::new());
        let visibility = json!(asked.visibility);
        for search in asked.searches {
            let Some(question) = questions.get(search.question) else {
                continue;
            };
            let items = search.found.as_deref().unwrap_or_default();
            let text = joined(items.iter().map(|item| item.text.as_str()));
            let record = Search {
                visibility: visibility.as_str().unwrap_or_default().to_owned(),
                outcome: match search.found {
                    Ok(_) => SearchOutcome::Found,
                    Err(_) => SearchOutcome::Failed,
                },
                error: search.found.as_ref().err().cloned(),
                requested: search.requested as u32,
                returned: items.len() as u32,
                evidence_tokens: count(&text),
                milliseconds: search.milliseconds,
                ..unasked(question)
            };
            let ranked = items.iter().zip(1..);
            evidence.extend(ranked.map(|(item, rank)| shown(&record, item, rank, &history)));
            searches.push(record);
        }
        self.evidence.append_all(&evidence)?;
        Ok(self.searches.append_all(&searches)?)
    }
}

/// What is known of a conversation's messages by position.
struct Positions {
    sessions: Vec<u32>,
    tokens: Vec<u32>,
}

impl Positions {
    fn of(conversation: &Conversation) -> Self {
        let (mut sessions, mut tokens) = (Vec::new(), Vec::new());
        for (session, _, message) in conversation.messages() {
            sessions.push(session.0);
            tokens.push(count(&message.text));
        }
        Self { sessions, tokens }
    }

    /// The sessions of these messages, ascending.
    fn sessions_of(&self, messages: Option<&Vec<u32>>) -> Option<Vec<u32>> {
        let of = |&position: &u32| self.sessions.get(position as usize).copied();
        let mut sessions: Vec<u32> = messages?.iter().filter_map(of).collect();
        sessions.sort_unstable();
        sessions.dedup();
        Some(sessions)
    }
}

fn ingestions(asked: &Asked, history: &Positions) -> Vec<Ingestion> {
    let units = (0..).zip(&asked.units);
    units
        .map(|(unit, taken)| {
            let tokens = taken.messages.iter();
            let tokens = tokens.filter_map(|&at| history.tokens.get(at as usize));
            Ingestion {
                conversation: asked.conversation.clone(),
                unit,
                first_message: taken.messages.first().copied().unwrap_or_default(),
                last_message: taken.messages.last().copied().unwrap_or_default(),
                tokens: tokens.sum(),
                milliseconds: taken.milliseconds,
                ready_milliseconds: taken.ready_milliseconds,
            }
        })
        .collect()
}

fn objects(
    asked: &Asked,
    phase: Option<rawrag_corpus::Phase>,
    stored: &[Stored],
    history: &Positions,
) -> Vec<StoredObject> {
    let numbered = (0..).zip(stored);
    numbered
        .map(|(number, stored)| StoredObject {
            conversation: asked.conversation.clone(),
            phase: phase.map(crate::pipeline::phase),
            number,
            id: stored.id.clone(),
            tokens: count(&stored.text),
            text: Some(stored.text.clone()),
            sessions: history.sessions_of(stored.messages.as_ref()),
            messages: stored.messages.clone(),
            date: stored.date.map(|date| date.to_string()),
            perspective: stored.perspective.clone(),
        })
        .collect()
}

fn decisions(asked: &Asked) -> Vec<WriteDecision> {
    let numbered = (0..).zip(asked.decisions.as_deref().unwrap_or_default());
    numbered
        .map(|(number, decision)| WriteDecision {
            conversation: asked.conversation.clone(),
            number,
            unit: Some(decision.unit),
            level: match decision.level {
                rawrag_baselines::Level::Proposed => Level::Proposed,
                rawrag_baselines::Level::Returned => Level::Returned,
                rawrag_baselines::Level::Persisted => Level::Persisted,
            },
            event: match decision.event {
                Event::Add => WriteEvent::Add,
                Event::Update => WriteEvent::Update,
                Event::Delete => WriteEvent::Delete,
                Event::None => WriteEvent::None,
            },
            memory: decision.memory.clone(),
            changed: match (&decision.old, &decision.new) {
                (Some(old), Some(new)) => Some(old != new),
                _ => None,
            },
            old: decision.old.clone(),
            new: decision.new.clone(),
            perspective: decision.perspective.clone(),
        })
        .collect()
}

fn consumption(asked: &Asked, export_error: Option<String>) -> Consumption {
    let known = asked.usage.as_ref().ok();
    let count = |of: fn(&rawrag_baselines::Usage) -> u64| {
        known.map(|usage| u32::try_from(of(usage)).unwrap_or(u32::MAX))
    };
    Consumption {
        conversation: asked.conversation.clone(),
        error: asked.usage.as_ref().err().cloned(),
        chat_calls: count(|usage| usage.chat_calls),
        input_tokens: count(|usage| usage.input_tokens),
        output_tokens: count(|usage| usage.output_tokens),
        embedding_calls: count(|usage| usage.embedding_calls),
        truncated: count(|usage| usage.truncated),
        add_milliseconds: asked.add_milliseconds(),
        ready_milliseconds: asked.ready_milliseconds,
        export_error,
        decisions_error: asked.decisions.as_ref().err().cloned(),
    }
}

fn shown(search: &Search, item: &Item, rank: u32, history: &Positions) -> EvidenceItem {
    EvidenceItem {
        benchmark: search.benchmark.clone(),
        source: search.source.clone(),
        conversation: search.conversation.clone(),
        question: search.question.clone(),
        phase: search.phase,
        rank,
        tokens: count(&item.text),
        text: Some(item.text.clone()),
        sessions: history.sessions_of(item.messages.as_ref()),
        messages: item.messages.clone(),
        date: item.date.map(|date| date.to_string()),
        score: item.score,
        stored: item.stored.clone(),
    }
}

/// A search of which only the question is known.
pub(crate) fn unasked(asked: &Question) -> Search {
    let Key {
        benchmark,
        source,
        conversation,
        question,
        phase,
    } = key(asked);
    Search {
        benchmark,
        source,
        conversation,
        question,
        phase,
        kind: asked.kind.to_string(),
        gold_messages: asked.evidence.messages.iter().map(|m| m.0).collect(),
        gold_sessions: asked.evidence.sessions.iter().map(|s| s.0).collect(),
        visibility: String::new(),
        outcome: SearchOutcome::Failed,
        error: None,
        requested: 0,
        returned: 0,
        evidence_tokens: 0,
        milliseconds: 0.0,
    }
}

fn count(text: &str) -> u32 {
    Encoding::O200kBase.count(text) as u32
}
