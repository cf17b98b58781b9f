//! Logs of what a memory system's add calls returned, as `decisions` of a run.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use rawrag_records::{
    Code, Data, Expected, Import, ImportedFile, Level, Machine, Manifest, Run, SCHEMA_VERSION,
    System, WriteDecision, WriteEvent,
};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::ImportError;
use crate::lines::{hex, load};
use crate::write::{aside, name};

/// What [`import_decisions`] works on.
#[derive(Clone, Copy, Debug)]
pub struct DecisionsJob<'a> {
    /// Mem0's add log: one JSON object a call, with `user_id` and `result.results`.
    pub file: &'a Path,
    /// The system's name in tables.
    pub system: &'a str,
    /// The run's folder, which must not be there yet. Its name is the run's.
    pub folder: &'a Path,
    /// Whether memories are kept as text.
    pub text: bool,
}

/// What a log held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecisionsReport {
    /// Calls.
    pub calls: usize,
    /// Of these, those that returned nothing.
    pub silent: usize,
    /// Conversations, by the number at the end of `user_id`.
    pub conversations: usize,
    /// Stores: distinct `user_id`s.
    pub stores: usize,
    /// Decisions returned, by event.
    pub events: BTreeMap<&'static str, usize>,
    /// UPDATEs whose texts differ, are equal, and are not both there.
    pub updates: [usize; 3],
}

impl fmt::Display for DecisionsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            calls,
            silent,
            conversations,
            stores,
            events,
            updates: [changed, same, unknown],
        } = self;
        writeln!(
            f,
            "{calls} calls about {conversations} conversations in {stores} stores, {silent} of them \
             without a decision"
        )?;
        for (event, count) in events {
            writeln!(f, "{event}: {count} returned")?;
        }
        writeln!(
            f,
            "UPDATE: {changed} change a text, {same} do not, {unknown} lack a text"
        )?;
        writeln!(
            f,
            "The log holds what the calls returned. What the model proposed, NONE included, and what \
             the store's history holds are not in it, so there is no rate of emitted decisions."
        )
    }
}

/// A run that was made from a log, and what the log held.
#[derive(Debug)]
pub struct ImportedDecisions {
    /// The run. It asks no question.
    pub run: Run,
    /// What was read.
    pub report: DecisionsReport,
}

#[derive(Deserialize)]
struct Call {
    user_id: String,
    result: Option<Returned>,
}

#[derive(Deserialize)]
struct Returned {
    #[serde(default)]
    results: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    id: Option<String>,
    memory: Option<String>,
    previous_memory: Option<String>,
    event: Event,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Event {
    Add,
    Update,
    Delete,
    #[serde(alias = "NOOP")]
    None,
}

/// Reads a log and writes it as a run of `decisions` of level `returned`.
///
/// A store is one of a speaker: `user_id` is the speaker's name, `_`, and the conversation's number.
/// Units number the calls of a store, in the order of the log.
///
/// # Errors
/// [`ImportError`], and then there is no run.
pub fn import_decisions(job: &DecisionsJob<'_>) -> Result<ImportedDecisions, ImportError> {
    if job.folder.exists() {
        return Err(ImportError::Exists(job.folder.to_owned()));
    }
    let (text, sha256) = load(job.file)?;
    let mut report = DecisionsReport::default();
    let mut decisions: Vec<WriteDecision> = Vec::new();
    let mut units: BTreeMap<String, u32> = BTreeMap::new();
    let mut numbers: BTreeMap<String, u32> = BTreeMap::new();
    for (line, text) in (1..).zip(text.lines()) {
        if text.trim().is_empty() {
            continue;
        }
        let call: Call = serde_json::from_str(text).map_err(|error| ImportError::Damaged {
            path: job.file.to_owned(),
            line,
            column: error.column(),
            problem: error.to_string(),
            mend: "take the line out, or export the log again",
        })?;
        let (perspective, conversation) = store(&call.user_id);
        let unit = units.entry(call.user_id.clone()).or_default();
        let number = numbers.entry(conversation.to_owned()).or_default();
        let entries = call.result.map_or_else(Vec::new, |result| result.results);
        report.calls += 1;
        report.silent += usize::from(entries.is_empty());
        for entry in entries {
            let (old, new) = match entry.event {
                Event::Delete => (entry.previous_memory.or(entry.memory), None),
                _ => (entry.previous_memory, entry.memory),
            };
            let changed = old.as_ref().zip(new.as_ref()).map(|(old, new)| old != new);
            let event = report.count(entry.event, changed);
            decisions.push(WriteDecision {
                conversation: conversation.to_owned(),
                number: *number,
                unit: Some(*unit),
                level: Level::Returned,
                event,
                memory: entry.id,
                old: old.filter(|_| job.text),
                new: new.filter(|_| job.text),
                changed,
                perspective: perspective.map(str::to_owned),
            });
            *number += 1;
        }
        *unit += 1;
    }
    (report.conversations, report.stores) = (numbers.len(), units.len());
    let run = aside(job.folder, manifest(job, sha256), |run| {
        run.appender()?.0.append_all(&decisions)
    })?;
    Ok(ImportedDecisions { run, report })
}

impl DecisionsReport {
    fn count(&mut self, event: Event, changed: Option<bool>) -> WriteEvent {
        let (name, event) = match event {
            Event::Add => ("ADD", WriteEvent::Add),
            Event::Update => ("UPDATE", WriteEvent::Update),
            Event::Delete => ("DELETE", WriteEvent::Delete),
            Event::None => ("NONE", WriteEvent::None),
        };
        *self.events.entry(name).or_default() += 1;
        if event == WriteEvent::Update {
            let [differ, same, unknown] = &mut self.updates;
            *match changed {
                Some(true) => differ,
                Some(false) => same,
                None => unknown,
            } += 1;
        }
        event
    }
}

/// Speaker and conversation of a store's name; one without a number is a conversation of its own.
fn store(user: &str) -> (Option<&str>, &str) {
    match user.rsplit_once('_') {
        Some((speaker, number)) if number.parse::<u32>().is_ok() && !speaker.is_empty() => {
            (Some(speaker), number)
        }
        _ => (None, user),
    }
}

fn manifest(job: &DecisionsJob<'_>, sha256: String) -> Manifest {
    let import = Import {
        format: FORMAT.to_owned(),
        files: vec![ImportedFile {
            name: name(job.file),
            sha256: sha256.clone(),
        }],
        benchmark_file: None,
        text: job.text,
        excluded: Vec::new(),
        findings: BTreeMap::new(),
    };
    let sources = include_str!("decisions.rs");
    Manifest {
        schema: SCHEMA_VERSION,
        name: name(job.folder),
        system: System {
            name: job.system.to_owned(),
            version: "as imported".to_owned(),
        },
        benchmark: "own".to_owned(),
        data: Data {
            sha256,
            release: None,
        },
        expected: Expected::of(&[]),
        settings: serde_json::json!({ "import": import }),
        models: BTreeMap::new(),
        prompts: BTreeMap::new(),
        seed: 0,
        code: Code {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            sources: hex(&Sha256::digest(sources.as_bytes()))
                .chars()
                .take(16)
                .collect(),
        },
        machine: Machine::default(),
        started: jiff::Timestamp::now()
            .strftime("%Y-%m-%dT%H:%M:%SZ")
            .to_string(),
    }
}

const FORMAT: &str = "mem0-add-log";
