//! Runs whose evidence is chosen knowing what is asked for: from everything that a memory system
//! stores, or from the sessions that are annotated as evidence (Raw-RAG, C.5).
//!
//! Such a run is derived from another one, whose store it reads and whose questions it asks, and is
//! answered, assessed and graded like any other. What it says of itself is the [`Condition`] in its
//! settings. The selection itself is [`rawrag_diagnostics::oracle`].

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::time::Instant;

use rawrag_chunking::{Encoding, Rendering, Transcript};
use rawrag_corpus::meme::{self, After, Annotated, Asked, Episode, Task};
use rawrag_corpus::{Answer as GoldAnswer, Conversation, Gold as GoldOf, Phase, Question};
use rawrag_diagnostics::oracle::{
    Candidate, Condition, Eligible, Gold, NoProvenance, Object, Packer, Selection, Store,
    StoreKind, Tokens, Uncited, pack, pack_raw,
};
use rawrag_prompts::{PromptError, PromptSet, readout};
use rawrag_records::{
    Answer, Difference, EvidenceItem, Expected, Judgment, Key, Record, RecordError, Run, Search,
    SearchOutcome, StoredObject,
};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::evidence::joined;
use crate::experiment::Experiment;
use crate::memory::unasked;
use crate::pipeline::{Described, Job, PipelineError, Progress, begin, is_wanted, key};

/// How evidence is chosen and packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// From what.
    pub store: StoreKind,
    /// Ceiling in o200k_base tokens on evidence and policy.
    pub budget: Option<usize>,
    /// How stored objects are packed.
    pub packing: Packing,
    /// What is added to the context.
    pub policy: Policy,
    /// What becomes of stored objects whose sessions are not known.
    pub uncited: Uncited,
}

/// How stored objects are packed; the raw conditions have one way only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// As ordinary memory objects.
    Blocks,
    /// As whole chunks of raw text.
    Chunks,
    /// As EMem's units, by task.
    Emem,
}

/// What is added to the context after the evidence. It names the entities asked about, so that a
/// rule that looks for their names finds them there: coverage is to be assessed without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The task policy of every question (Raw-RAG, G.12), within the budget.
    Task,
    /// The dependency instruction of absence questions (G.11).
    Dependency,
    /// Nothing.
    Nothing,
}

impl Packing {
    /// Its name in a [`Condition`].
    pub fn name(self) -> &'static str {
        match self {
            Self::Blocks => "blocks",
            Self::Chunks => "chunks",
            Self::Emem => "emem",
        }
    }

    /// That of the system that made a run: whole chunks for Raw-RAG, and by name for EMem.
    pub fn usual(run: &Run) -> Self {
        let manifest = run.manifest();
        let native = manifest.settings["memory"]["system"].as_str();
        let named = |name: &str| manifest.system.name.to_lowercase() == name;
        match native {
            Some("raw-rag") => Self::Chunks,
            _ if named("emem") => Self::Emem,
            _ => Self::Blocks,
        }
    }

    fn packer(self, task: Task) -> Packer {
        match self {
            Self::Blocks => Packer::Blocks,
            Self::Chunks => Packer::Chunks,
            Self::Emem => Packer::emem(task.name()),
        }
    }
}

impl Policy {
    /// Its name in a [`Condition`].
    pub fn name(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Dependency => "dependency",
            Self::Nothing => "none",
        }
    }
}

/// Why no run can be derived.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum OracleError {
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
    #[error(transparent)]
    Records(#[from] RecordError),
    #[error(transparent)]
    Prompt(#[from] PromptError),
    #[error(transparent)]
    Load(#[from] rawrag_corpus::LoadError),
    #[error(
        "{run} has no exports, which are what a store is chosen from; run its system as [memory] of \
         an experiment, or choose --store raw"
    )]
    NoExports { run: String },
    #[error("{run} has no exports of {conversation}: nothing is known of its store")]
    NotExported { run: String, conversation: String },
    #[error("{run} keeps its exports without text; choose from a run with text")]
    NoText { run: String },
    #[error("{conversation}: {reason}")]
    NoProvenance {
        conversation: String,
        reason: NoProvenance,
    },
    #[error("{run} asks other questions, or was made on other data, than this run would be")]
    OtherQuestions { run: String },
    #[error("{0} is known to no episode of the data")]
    NoEpisode(Box<Key>),
    #[error(
        "answers of {run} cannot be taken over, since it was answered or graded otherwise:\n{}",
        differences.iter().map(|d| format!("  {d}")).collect::<Vec<_>>().join("\n")
    )]
    OtherAnswers {
        run: String,
        differences: Vec<Difference>,
    },
}

/// Writes the run of `job`, with evidence chosen from the store of `base` or from the source, or the
/// rest of it. Every question finished before is on record, and the same call goes on there.
///
/// # Errors
/// [`OracleError`].
pub fn run(
    job: &Job<'_>,
    base: &Run,
    choice: Choice,
    mut progress: impl FnMut(Progress),
) -> Result<Run, OracleError> {
    let builtin = PromptSet::builtin();
    let prompts = job.stages.map_or(&builtin, |stages| &stages.prompts);
    let of = base.manifest().name.clone();
    let mut exports = match choice.store {
        StoreKind::Complete => Some(Exports::of(base)?),
        StoreKind::Raw | StoreKind::Source => None,
    };
    let store_sha256 = exports.as_ref().map(|exports| exports.sha256.clone());
    let version = match choice.store {
        StoreKind::Complete => base.manifest().system.version.clone(),
        StoreKind::Raw | StoreKind::Source => env!("CARGO_PKG_VERSION").to_owned(),
    };
    let condition = choice.condition(of.clone(), store_sha256, prompts)?;
    let (run, _, keys) = begin(job, |_| Described {
        version,
        settings: json!({ "oracle": condition }),
        models: BTreeMap::new(),
    })?;
    let (begun, derived) = (&base.manifest(), run.manifest());
    if begun.data.sha256 != derived.data.sha256 || base_keys(base) != derived_keys(&keys) {
        return Err(OracleError::OtherQuestions { run: of });
    }
    let (mut searches, held) = run.appender::<Search>()?;
    let held: HashSet<Key> = held.iter().map(Search::question_key).collect();
    let (mut items, _) = run.appender::<EvidenceItem>()?;
    items.retain(|item| held.contains(&item.question_key()))?;
    progress(Progress::Begun {
        questions: keys.len(),
        held: held.len(),
    });
    for annotated in meme::load(job.data)?.episodes {
        let is_due = |question: &&Question| !held.contains(&key(question));
        let due: Vec<&Question> = annotated.entry.questions.iter().filter(is_due).collect();
        if due.is_empty() || !is_wanted(job.experiment, &annotated.entry) {
            continue;
        }
        let conversation = &annotated.entry.conversation;
        let from = match &mut exports {
            Some(exports) => From::Stores(exports.stores(conversation.id.as_str())?),
            None => From::Sessions(sessions(conversation)),
        };
        for question in due {
            let chosen = choose(&annotated, question, &from, choice, prompts)?;
            items.append_all(&chosen.items)?;
            searches.append(&chosen.search)?;
            progress(Progress::Question);
        }
    }
    run.require_complete(&run.read::<Search>()?)?;
    Ok(run)
}

/// Takes over from `other`, which was answered and graded alike, the answers to questions that have
/// the very same evidence in `run`, with their grades; how many questions that are.
///
/// # Errors
/// [`OracleError::OtherAnswers`] where reader, judges or prompts differ, and when either run's
/// evidence has no text.
pub fn reuse(run: &Run, other: &Run) -> Result<usize, OracleError> {
    let comparable = |run: &Run| {
        let mut manifest = run.manifest().clone();
        let settings = &run.manifest().settings;
        manifest.settings = json!({
            "reader": settings["reader"],
            "judges": settings["judges"],
        });
        manifest.system.clone_from(&other.manifest().system);
        manifest.code.clone_from(&other.manifest().code);
        manifest
    };
    let differences = comparable(other).differences(&comparable(run));
    if !differences.is_empty() {
        return Err(OracleError::OtherAnswers {
            run: other.manifest().name.clone(),
            differences,
        });
    }
    let theirs = fingerprints(other)?;
    let mut same = fingerprints(run)?;
    same.retain(|key, fingerprint| theirs.get(key) == Some(fingerprint));
    let (mut answers, _) = run.appender::<Answer>()?;
    let (mut judgments, _) = run.appender::<Judgment>()?;
    let mut taken = HashSet::new();
    let mut new = Vec::new();
    for answer in other.read::<Answer>()? {
        if same.contains_key(&answer.question_key()) && !answers.holds(&answer.identity()) {
            taken.insert(answer.question_key());
            new.push(answer);
        }
    }
    answers.append_all(&new)?;
    let mut grades = other.read::<Judgment>()?;
    grades.retain(|grade| {
        taken.contains(&grade.question_key()) && !judgments.holds(&grade.identity())
    });
    judgments.append_all(&grades)?;
    Ok(taken.len())
}

/// sha256 of each question's evidence as a reader sees it.
fn fingerprints(run: &Run) -> Result<HashMap<Key, String>, OracleError> {
    let searches: Vec<Search> = run.read()?;
    run.require_complete(&searches)?;
    let mut items: HashMap<Key, Vec<EvidenceItem>> = HashMap::new();
    for item in run.read::<EvidenceItem>()? {
        items.entry(item.question_key()).or_default().push(item);
    }
    let mut fingerprints = HashMap::new();
    for search in searches {
        let key = search.question_key();
        let mut items = items.remove(&key).unwrap_or_default();
        items.sort_by_key(|item| item.rank);
        let texts: Option<Vec<&str>> = items.iter().map(|item| item.text.as_deref()).collect();
        let texts = texts.ok_or_else(|| OracleError::NoText {
            run: run.manifest().name.clone(),
        })?;
        fingerprints.insert(key, sha256(joined(texts).as_bytes()));
    }
    Ok(fingerprints)
}

fn base_keys(base: &Run) -> (usize, String) {
    let expected = &base.manifest().expected;
    (expected.questions, expected.keys_sha256.clone())
}

fn derived_keys(keys: &[Key]) -> (usize, String) {
    let Expected {
        questions,
        keys_sha256,
        ..
    } = Expected::of(keys);
    (questions, keys_sha256)
}

fn sha256(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Choice {
    fn condition(
        self,
        of: String,
        store_sha256: Option<String>,
        prompts: &PromptSet,
    ) -> Result<Condition, OracleError> {
        Ok(Condition {
            store: self.store,
            of,
            store_sha256,
            budget: self.budget.map(|budget| budget as u64),
            packer: match self.store {
                StoreKind::Complete => self.packing.name(),
                StoreKind::Raw | StoreKind::Source => "sessions",
            }
            .to_owned(),
            policy: self.policy.name().to_owned(),
            policy_sha256: match self.policy {
                Policy::Nothing => None,
                Policy::Dependency => Some(prompts.template(DEPENDENCY)?.fingerprint().to_string()),
                Policy::Task => Some(prompts.fingerprint().to_string()),
            },
            uncited: match self.uncited {
                Uncited::Refuse => "refuse",
                Uncited::LeaveOut => "leave-out",
            }
            .to_owned(),
        })
    }
}

const DEPENDENCY: &str = "meme-dependency-validity";
const POLICY: &str = "meme-readout-policy";

/// Everything that a run's system stores, by conversation.
struct Exports {
    run: String,
    objects: HashMap<String, Vec<StoredObject>>,
    /// Of all of them.
    sha256: String,
}

/// The stores of one conversation: the final one, or one a phase.
struct Stores {
    conversation: String,
    by_phase: Vec<(Option<rawrag_records::Phase>, Stored)>,
}

/// A store that can be asked, and its objects as they are on record, in the same order.
struct Stored {
    store: Store,
    records: Vec<StoredObject>,
}

impl Exports {
    fn of(base: &Run) -> Result<Self, OracleError> {
        let run = base.manifest().name.clone();
        let mut exports: Vec<StoredObject> = base.read()?;
        if exports.is_empty() {
            return Err(OracleError::NoExports { run });
        }
        if exports.iter().any(|object| object.text.is_none()) {
            return Err(OracleError::NoText { run });
        }
        exports.sort_by(|a, b| {
            (&a.conversation, a.phase, a.number).cmp(&(&b.conversation, b.phase, b.number))
        });
        let mut hash = Sha256::new();
        let mut objects: HashMap<String, Vec<StoredObject>> = HashMap::new();
        for object in exports {
            hash.update(json!(object).to_string());
            hash.update(b"\n");
            let of = objects.entry(object.conversation.clone()).or_default();
            of.push(object);
        }
        let hash = hash.finalize();
        Ok(Self {
            run,
            objects,
            sha256: hash.iter().map(|byte| format!("{byte:02x}")).collect(),
        })
    }

    fn stores(&mut self, conversation: &str) -> Result<Stores, OracleError> {
        let of = self.objects.remove(conversation);
        let records = of.ok_or_else(|| OracleError::NotExported {
            run: self.run.clone(),
            conversation: conversation.to_owned(),
        })?;
        let mut by_phase: Vec<(Option<rawrag_records::Phase>, Vec<StoredObject>)> = Vec::new();
        for record in records {
            match by_phase.last_mut() {
                Some((phase, records)) if *phase == record.phase => records.push(record),
                _ => by_phase.push((record.phase, vec![record])),
            }
        }
        let stored = |records: Vec<StoredObject>| Stored {
            store: Store::new(records.iter().map(object).collect()),
            records,
        };
        Ok(Stores {
            conversation: conversation.to_owned(),
            by_phase: by_phase
                .into_iter()
                .map(|(phase, records)| (phase, stored(records)))
                .collect(),
        })
    }
}

/// A stored object as a reader sees it: under a heading with its date, an empty line after it.
fn object(record: &StoredObject) -> Object {
    let text = record.text.clone().unwrap_or_default();
    let heading = match &record.date {
        Some(date) => format!("--- memory, {date} ---"),
        None => "--- memory ---".to_owned(),
    };
    shown(
        heading,
        text,
        record.sessions.clone(),
        record.messages.as_deref(),
    )
}

fn shown(
    heading: String,
    text: String,
    sessions: Option<Vec<u32>>,
    messages: Option<&[u32]>,
) -> Object {
    let block = format!("{heading}\n{}\n\n", text.trim_end_matches('\n'));
    Object {
        tokens: Encoding::O200kBase.count(&block),
        block,
        text,
        sessions,
        first_message: messages.and_then(|messages| messages.iter().min().copied()),
    }
}

/// Every session of a conversation as an object, by position.
fn sessions(conversation: &Conversation) -> Vec<(Object, Vec<u32>)> {
    let transcript = Transcript::new(conversation, Rendering::Dated);
    let mut next = 0_u32;
    let of = conversation.sessions.iter().zip(0..);
    of.map(|(session, position)| {
        let messages = next..next + session.messages.len() as u32;
        next = messages.end;
        let heading = match session.date {
            Some(date) => format!("--- {}, {date} ---", session.id),
            None => format!("--- {} ---", session.id),
        };
        let text = transcript.messages(messages.clone()).to_owned();
        let messages: Vec<u32> = messages.collect();
        let object = shown(heading, text, Some(vec![position]), Some(&messages));
        (object, messages)
    })
    .collect()
}

/// What evidence is chosen from.
enum From {
    Stores(Stores),
    Sessions(Vec<(Object, Vec<u32>)>),
}

impl Stores {
    /// The store that a question may use, and what of it.
    fn for_phase(
        &self,
        phase: Phase,
        session: u32,
        uncited: Uncited,
    ) -> Result<(&Stored, Vec<bool>), OracleError> {
        let phase = Some(crate::pipeline::phase(phase));
        let of = |wanted| self.by_phase.iter().find(|(phase, _)| *phase == wanted);
        let (stored, eligible) = match (of(phase), of(None)) {
            (Some((_, snapshot)), _) => (snapshot, Eligible::Snapshot),
            (None, Some((_, last))) => (last, Eligible::Until { session, uncited }),
            // Exported at the other phase only: nothing is known of this one.
            (None, None) => {
                return Err(OracleError::NotExported {
                    run: "the run".to_owned(),
                    conversation: self.conversation.clone(),
                });
            }
        };
        let eligible = stored.store.eligible(eligible);
        let eligible = eligible.map_err(|reason| OracleError::NoProvenance {
            conversation: self.conversation.clone(),
            reason,
        })?;
        Ok((stored, eligible))
    }
}

/// The evidence of one question, as records.
struct Chosen {
    search: Search,
    items: Vec<EvidenceItem>,
}

fn choose(
    annotated: &Annotated,
    question: &Question,
    from: &From,
    choice: Choice,
    prompts: &PromptSet,
) -> Result<Chosen, OracleError> {
    let begun = Instant::now();
    let episode = &annotated.episode;
    let is_of = |asked: &&Asked| asked.id == question.id && Some(asked.phase) == question.phase;
    let asked = episode.asked.iter().find(is_of);
    let asked = asked.ok_or_else(|| OracleError::NoEpisode(Box::new(key(question))))?;
    let cutoff = asked.last_session.0;
    let gold = gold(episode, asked, question);
    let policy = policy(choice.policy, asked, prompts)?;
    let policy_tokens = policy
        .as_deref()
        .map_or(0, |text| Encoding::O200kBase.count(text));
    let budget = choice
        .budget
        .map(|budget| budget.saturating_sub(policy_tokens));
    let annotated_sessions: Vec<u32> = question
        .evidence
        .sessions
        .iter()
        .map(|session| session.0)
        .filter(|&session| session <= cutoff)
        .collect();
    let (mut search, mut items) = (unasked(question), Vec::new());
    let mut keep = |selection: &Selection, of: &dyn Fn(usize) -> EvidenceItem| {
        items = selection
            .shown
            .iter()
            .map(|shown| EvidenceItem {
                text: Some(shown.text.clone()),
                tokens: shown.tokens as u32,
                ..of(shown.number)
            })
            .collect();
    };
    match from {
        From::Stores(stores) => {
            let (stored, eligible) = stores.for_phase(asked.phase, cutoff, choice.uncited)?;
            let packer = choice.packing.packer(asked.task);
            let favoured = match packer {
                Packer::Chunks => annotated_sessions.as_slice(),
                _ => &[],
            };
            let ranked = stored.store.rank(&gold, &eligible, favoured);
            let selection = pack(packer, &stored.store, &gold, &ranked, budget, TOKENS);
            let scores: HashMap<usize, f64> = ranked
                .iter()
                .map(|candidate: &Candidate| (candidate.number, candidate.score(&gold)))
                .collect();
            search.requested = ranked.len() as u32;
            search.visibility = match stored.records.first().map(|record| record.phase) {
                Some(Some(_)) => "prefix",
                _ => "filter",
            }
            .to_owned();
            keep(&selection, &|number| {
                let record = stored.records.get(number);
                EvidenceItem {
                    messages: record.and_then(|record| record.messages.clone()),
                    sessions: record.and_then(|record| record.sessions.clone()),
                    date: record.and_then(|record| record.date.clone()),
                    score: scores.get(&number).copied(),
                    stored: record.map(|record| record.id.clone()),
                    ..item(&unasked(question))
                }
            });
        }
        From::Sessions(sessions) => {
            let of: Vec<&(Object, Vec<u32>)> = annotated_sessions
                .iter()
                .filter_map(|&session| sessions.get(session as usize))
                .collect();
            let store = Store::new(of.iter().map(|(object, _)| object.clone()).collect());
            let selection = match choice.store {
                StoreKind::Source => whole(&store),
                _ => pack_raw(&store, &gold, budget, TOKENS),
            };
            search.requested = of.len() as u32;
            "filter".clone_into(&mut search.visibility);
            keep(&selection, &|number| {
                let of = of.get(number);
                EvidenceItem {
                    messages: of.map(|(_, messages)| messages.clone()),
                    sessions: of.and_then(|(object, _)| object.sessions.clone()),
                    ..item(&unasked(question))
                }
            });
        }
    }
    if let Some(text) = policy {
        items.push(EvidenceItem {
            tokens: policy_tokens as u32,
            text: Some(text),
            ..item(&search)
        });
    }
    for (item, rank) in items.iter_mut().zip(1..) {
        item.rank = rank;
    }
    let text = joined(items.iter().filter_map(|item| item.text.as_deref()));
    search.outcome = SearchOutcome::Found;
    search.returned = items.len() as u32;
    search.evidence_tokens = Encoding::O200kBase.count(&text) as u32;
    search.milliseconds = begun.elapsed().as_secs_f64() * 1000.0;
    Ok(Chosen { search, items })
}

const TOKENS: Tokens<'static> = Tokens {
    count: &|text| Encoding::O200kBase.count(text),
    prefix: &|text, limit| Encoding::O200kBase.prefix(text, limit),
};

/// All of a store in its order.
fn whole(store: &Store) -> Selection {
    let none = Gold::default();
    pack_raw(store, &none, None, TOKENS)
}

/// The phrases that the selection looks for (Raw-RAG, C.5, "Gold-informed selection"): the targets'
/// values before the change, after it those after it and the history too; both of what the targets
/// directly depend on; the values annotated for the question; the expected answer; and the names
/// of all these entities.
fn gold(episode: &Episode, asked: &Asked, question: &Question) -> Gold {
    let mut values: Vec<&str> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    let mut upstream = Vec::new();
    fn all(of: &[String]) -> impl Iterator<Item = &str> {
        of.iter().map(String::as_str)
    }
    for target in &asked.targets {
        names.push(target.label());
        let Some(entity) = episode.entities.get(target) else {
            continue;
        };
        values.extend(all(&entity.before));
        if asked.phase == Phase::After {
            if let Some(After::Becomes(after)) = &entity.after {
                values.extend(all(after));
            }
            values.extend(all(&entity.history));
        }
        upstream.extend(entity.upstream.as_ref());
    }
    for source in upstream {
        names.push(source.label());
        if let Some(entity) = episode.entities.get(source) {
            values.extend(all(&entity.before));
            if let Some(After::Becomes(after)) = &entity.after {
                values.extend(all(after));
            }
        }
    }
    values.extend(asked.values.iter().flat_map(|values| all(values)));
    match &question.gold {
        Some(GoldOf::Answer(GoldAnswer::Text(answer) | GoldAnswer::Number(answer))) => {
            values.push(answer);
        }
        Some(GoldOf::Answer(GoldAnswer::List(answers) | GoldAnswer::AnyOf(answers))) => {
            values.extend(all(answers));
        }
        _ => {}
    }
    Gold::new(&question.text, values, names.iter().map(String::as_str))
}

/// What is added to a question's context.
fn policy(
    policy: Policy,
    asked: &Asked,
    prompts: &PromptSet,
) -> Result<Option<String>, OracleError> {
    let before = asked.phase == Phase::Before;
    Ok(match policy {
        Policy::Nothing => None,
        Policy::Dependency => match asked.task {
            Task::Absence => Some(prompts.render(DEPENDENCY, &[])?.user),
            _ => None,
        },
        Policy::Task => {
            let rule = readout::rule(before, readout_task(asked.task));
            let rule = prompts.render(rule, &[])?.user;
            let targets: Vec<&str> = asked.targets.iter().map(|target| target.as_str()).collect();
            let targets = targets.join(", ");
            let values = [
                ("phase", if before { "before" } else { "after" }),
                ("task_type", asked.task.name()),
                ("target_entities", targets.as_str()),
                ("task_rule", rule.as_str()),
            ];
            Some(prompts.render(POLICY, &values)?.user)
        }
    })
}

fn readout_task(task: Task) -> readout::Task {
    match task {
        Task::ExactRecall => readout::Task::ExactRecall,
        Task::Aggregation => readout::Task::Aggregation,
        Task::Tracking => readout::Task::Tracking,
        Task::Deletion => readout::Task::Deletion,
        Task::Cascade => readout::Task::Cascade,
        Task::Absence => readout::Task::Absence,
    }
}

/// An item of a search of which nothing is known yet.
fn item(search: &Search) -> EvidenceItem {
    EvidenceItem {
        benchmark: search.benchmark.clone(),
        source: search.source.clone(),
        conversation: search.conversation.clone(),
        question: search.question.clone(),
        phase: search.phase,
        rank: 0,
        text: None,
        tokens: 0,
        messages: None,
        sessions: None,
        date: None,
        score: None,
        stored: None,
    }
}

/// The experiment that a derived run is made by: the base run's, under the name of what is asked.
pub fn experiment(base: &Experiment, store: StoreKind) -> Experiment {
    let system = match store {
        StoreKind::Complete => base.system.clone(),
        StoreKind::Raw => "Raw evidence".to_owned(),
        StoreKind::Source => "Annotated sessions".to_owned(),
    };
    Experiment {
        system,
        ..base.clone()
    }
}

/// Where a run goes that is derived from one in `folder`, unless it is said: beside it.
pub fn usual_folder(folder: &Path, choice: Choice) -> std::path::PathBuf {
    let store = match choice.store {
        StoreKind::Complete => "complete",
        StoreKind::Raw => "raw",
        StoreKind::Source => "source",
    };
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let budget = choice
        .budget
        .map_or_else(String::new, |budget| format!("-{budget}"));
    folder.with_file_name(format!("{name}-{store}{budget}"))
}
