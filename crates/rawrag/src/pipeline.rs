//! From a benchmark file to records: each conversation is indexed once, each question searched and
//! recorded once, and whatever is on record already is not done again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rawrag_chunking::Chunk;
use rawrag_corpus::{Benchmark, Entry, Format, LoadError, Question, Report};
use rawrag_models::{ModelIdentity, ModelKind};
use rawrag_records::{
    Appender, Code, Data, EvidenceItem, Expected, History, Key, Machine, Manifest, Model, Phase,
    Record, RecordError, Retrieval, Run, SCHEMA_VERSION, Search, System, Timing,
};
use rawrag_retrieval::{
    Found, HistoryIndex, Method, Models, RerankKind, RetrievalError, Retriever, Settings, assemble,
};

use crate::evidence;
use crate::experiment::Experiment;

/// What [`run`] works on.
pub struct Job<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// The run's name.
    pub name: &'a str,
    /// The benchmark file or folder.
    pub data: &'a Path,
    /// The run's folder, new or begun.
    pub folder: &'a Path,
    /// Whether data of no known release may be measured on.
    pub unknown_data: bool,
    /// The stages that follow retrieval, for the manifest; `None` where there are none.
    #[cfg(feature = "remote")]
    pub stages: Option<&'a crate::services::Stages<'a>>,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The data was read: this many questions in all, and how many are on record already.
    Begun {
        /// In all.
        questions: usize,
        /// On record before.
        held: usize,
    },
    /// One more question is on record.
    Question,
}

/// Why a run stopped. What is on record stays.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PipelineError {
    /// The data cannot be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The data is of another benchmark.
    #[error("{} is {found} data, and the experiment measures on {expected}", data.display())]
    OtherBenchmark {
        /// The data.
        data: PathBuf,
        /// What it is.
        found: Benchmark,
        /// What it should be.
        expected: Benchmark,
    },
    /// The data is no known release.
    #[error(
        "{} has the content {hash}, which is no known release of {benchmark}; \
         to measure on it all the same, say --unknown-data",
        data.display()
    )]
    UnknownData {
        /// The data.
        data: PathBuf,
        /// sha256 of its canonical content.
        hash: String,
        /// The benchmark.
        benchmark: Benchmark,
    },
    /// The data holds no question.
    #[error("{} holds no question about its histories", .0.display())]
    NoQuestions(PathBuf),
    /// The experiment has no `[retrieval]`.
    #[error("the experiment has no [retrieval] to find evidence by")]
    NoRetrieval,
    /// The experiment has no `[memory]`.
    #[error("the experiment has no [memory] system to ask")]
    NoMemory,
    /// A conversation could not be taken through a memory system.
    #[error(transparent)]
    Ask(#[from] rawrag_baselines::AskError),
    /// A memory system cannot be had.
    #[error(transparent)]
    System(#[from] rawrag_baselines::SystemError),
    /// A setting of a native memory system cannot be used.
    #[error("memory.settings: {0}")]
    SystemSettings(String),
    /// The run was kept without the text of its evidence.
    #[error("{0}: the run is kept without the text of its evidence, so nobody can read it")]
    NoText(Box<Key>),
    /// Nothing was found for any question.
    #[error("no question found any evidence: the system is broken, and nothing is measured")]
    NothingFound,
    /// Retrieval failed.
    #[error(transparent)]
    Retrieval(#[from] RetrievalError),
    /// Records failed.
    #[error(transparent)]
    Records(#[from] RecordError),
    /// A service failed, or a call was not allowed.
    #[cfg(feature = "remote")]
    #[error(transparent)]
    Remote(#[from] rawrag_models::remote::RemoteError),
    /// A prompt cannot be had or filled in.
    #[cfg(feature = "remote")]
    #[error(transparent)]
    Prompt(#[from] rawrag_prompts::PromptError),
    /// A price cannot be told.
    #[cfg(feature = "remote")]
    #[error(transparent)]
    Price(#[from] rawrag_models::prices::PriceError),
    /// A limit in dollars, and no prices.
    #[cfg(feature = "remote")]
    #[error("a limit on the cost needs prices: name a price table as `file` of [prices]")]
    LimitWithoutPrices,
    /// The run was asked to stop.
    #[cfg(feature = "remote")]
    #[error("stopped; what is on record stays, and `rawrag resume` goes on there")]
    Stopped,
    /// Evidence that was rebuilt is not what the run retrieved.
    #[error("{0}: the evidence that can be rebuilt is not what was retrieved; start a new run")]
    OtherEvidence(Box<Key>),
    /// The data is not what the run was made on.
    #[cfg(feature = "remote")]
    #[error("{} is not the data that the run was made on", .0.display())]
    OtherData(PathBuf),
    /// A judge of the run has the name of another one.
    #[cfg(feature = "remote")]
    #[error(
        "the run has a judge {name} with other settings; give the new one a name of its own:\n{}",
        differences.iter().map(|d| format!("  {d}")).collect::<Vec<_>>().join("\n")
    )]
    OtherJudge {
        /// The name.
        name: String,
        /// What differs.
        differences: Vec<rawrag_records::Difference>,
    },
    /// No prompt of the benchmark's reader fits a question.
    #[cfg(feature = "remote")]
    #[error(
        "{key}: no task prompt is known for the source `{source_name}`; name a `prompt` in [reader]"
    )]
    NoTask {
        /// The question.
        key: Box<Key>,
        /// Its data source.
        source_name: String,
    },
    /// No judge fits a question.
    #[cfg(feature = "remote")]
    #[error("{key}: {problem}")]
    NoJudge {
        /// The question.
        key: Box<Key>,
        /// Why none fits, and what to change.
        problem: &'static str,
    },
    /// No assessor fits a question.
    #[cfg(feature = "remote")]
    #[error("{key}: {problem}")]
    NoAssessor {
        /// The question.
        key: Box<Key>,
        /// Why none fits, and what to change.
        problem: &'static str,
    },
    /// The data tells nothing of a question's entities.
    #[cfg(feature = "remote")]
    #[error("{0}: the data holds no episode with this question; give the whole release or folder")]
    NoEpisode(Box<Key>),
    /// What an audit looks for cannot be written as JSON.
    #[cfg(feature = "remote")]
    #[error("a contract cannot be written: {0}")]
    Contract(String),
    /// More calls or searches failed than may be scored as failures.
    #[error(
        "{stage}: {failed} of {total} gave nothing, and at most {percent} % may; `rawrag resume` \
         asks for these again{}",
        reasons.iter().map(|(reason, n)| format!("\n  {n} times: {reason}")).collect::<String>()
    )]
    TooManyFailures {
        /// The stage.
        stage: String,
        /// Calls that gave nothing.
        failed: usize,
        /// Of how many.
        total: usize,
        /// How many may, of a hundred.
        percent: f64,
        /// The commonest reasons, and how often each.
        reasons: Vec<(String, usize)>,
    },
}

/// Runs an experiment, or the rest of it.
///
/// # Errors
/// [`PipelineError`]. Every question finished before is on record, and the same call goes on there.
///
/// A cross-encoder is among the `models` only where the experiment has one.
pub fn run(
    job: &Job<'_>,
    models: Models,
    mut progress: impl FnMut(Progress),
) -> Result<Run, PipelineError> {
    let experiment = job.experiment;
    let settings = experiment.retrieval.as_ref();
    let settings = settings.ok_or(PipelineError::NoRetrieval)?;
    let retriever = Retriever::new(settings.clone(), models.clone())?;
    let (run, report, keys) = begin(job, |_| Described {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        settings: serde_json::json!({
            "retrieval": settings,
            "evidence": experiment.evidence,
        }),
        models: used(settings, &models),
    })?;
    let (mut retrievals, held) = run.appender::<Retrieval>()?;
    let mut texts = match experiment.evidence.keep_text {
        true => Some(texts(&run, &retrievals)?),
        false => None,
    };
    let (mut histories, _) = run.appender::<History>()?;
    progress(Progress::Begun {
        questions: keys.len(),
        held: held.len(),
    });
    let mut found_any = held.iter().any(|record| !record.chunks.is_empty());
    rawrag_corpus::read::<PipelineError>(job.data, Some(report.format), |entry| {
        let due: Vec<&Question> = entry
            .questions
            .iter()
            .filter(|question| !retrievals.holds(&key(question).to_string()))
            .collect();
        if due.is_empty() {
            return Ok(());
        }
        let history = index(&retriever, &entry, &mut histories)?;
        for question in due {
            let (record, shown) = search(experiment, &retriever, &entry, &history, question)?;
            found_any |= !record.chunks.is_empty();
            if let (Some((searches, items)), Some((search, shown))) = (&mut texts, shown) {
                items.append_all(&shown)?;
                searches.append(&search)?;
            }
            retrievals.append(&record)?;
            progress(Progress::Question);
        }
        Ok(())
    })?;
    if !found_any {
        return Err(PipelineError::NothingFound);
    }
    Ok(run)
}

/// The appenders of evidence as text, without what belongs to no retrieval on record.
fn texts(
    run: &Run,
    retrievals: &Appender<Retrieval>,
) -> Result<(Appender<Search>, Appender<EvidenceItem>), PipelineError> {
    let held = |key: Key| retrievals.holds(&key.to_string());
    let (mut searches, _) = run.appender::<Search>()?;
    searches.retain(|search| held(search.question_key()))?;
    let (mut items, _) = run.appender::<EvidenceItem>()?;
    items.retain(|item| held(item.question_key()))?;
    Ok((searches, items))
}

/// What a way of finding evidence enters into a manifest.
pub(crate) struct Described {
    pub(crate) version: String,
    pub(crate) settings: serde_json::Value,
    pub(crate) models: BTreeMap<String, Model>,
}

/// Reads the data, checks that it is the experiment's, and opens the run; with the report of the
/// data and the keys of its questions.
pub(crate) fn begin(
    job: &Job<'_>,
    describe: impl FnOnce(&Report) -> Described,
) -> Result<(Run, Report, Vec<Key>), PipelineError> {
    let Survey {
        report,
        keys,
        templates,
    } = survey(job)?;
    check(job, &report, &keys)?;
    let mut manifest = manifest(job, &report, &keys, describe(&report));
    describe_stages(job, &mut manifest, &templates)?;
    Ok((Run::resume(job.folder, manifest)?, report, keys))
}

/// Whether the experiment asks about this conversation.
pub(crate) fn is_wanted(experiment: &Experiment, entry: &Entry) -> bool {
    let only = experiment
        .memory
        .as_ref()
        .map_or(&[][..], |m| &m.conversations);
    only.is_empty() || only.iter().any(|id| id == entry.conversation.id.as_str())
}

/// The key of a question in every record about it.
pub fn key(question: &Question) -> Key {
    Key {
        benchmark: question.benchmark.name().to_owned(),
        source: question.source.clone(),
        conversation: question.conversation.to_string(),
        question: question.id.to_string(),
        phase: question.phase.map(phase),
    }
}

/// A phase as records have it.
pub(crate) fn phase(phase: rawrag_corpus::Phase) -> Phase {
    match phase {
        rawrag_corpus::Phase::Before => Phase::Before,
        rawrag_corpus::Phase::After => Phase::After,
    }
}

/// What one reading of the data tells.
struct Survey {
    report: Report,
    keys: Vec<Key>,
    /// The prompts that the stages after retrieval use.
    templates: BTreeSet<String>,
}

fn survey(job: &Job<'_>) -> Result<Survey, PipelineError> {
    let (mut keys, mut templates) = (Vec::new(), BTreeSet::new());
    let report = rawrag_corpus::read::<PipelineError>(job.data, None::<Format>, |entry| {
        if !is_wanted(job.experiment, &entry) {
            return Ok(());
        }
        keys.extend(entry.questions.iter().map(key));
        for question in &entry.questions {
            templates.extend(stage_templates(job, question)?);
        }
        Ok(())
    })?;
    Ok(Survey {
        report,
        keys,
        templates,
    })
}

#[cfg(feature = "remote")]
fn stage_templates(job: &Job<'_>, question: &Question) -> Result<Vec<String>, PipelineError> {
    let Some(stages) = job.stages else {
        return Ok(Vec::new());
    };
    let mut templates = crate::selecting::templates(stages.selector);
    templates.extend(crate::pruning::templates(stages.pruner));
    templates.extend(match stages.reader {
        Some(reader) => crate::answering::templates(reader, question)?,
        None => Vec::new(),
    });
    for judge in stages.judges {
        let names = crate::judging::templates_of(judge, question)?;
        templates.extend(names.into_iter().map(str::to_owned));
    }
    for assessor in stages.assessors {
        let names = crate::assessing::templates_of(assessor, question)?;
        templates.extend(names.into_iter().map(str::to_owned));
    }
    Ok(templates)
}

#[cfg(not(feature = "remote"))]
fn stage_templates(_: &Job<'_>, _: &Question) -> Result<Vec<String>, PipelineError> {
    Ok(Vec::new())
}

#[cfg(feature = "remote")]
fn describe_stages(
    job: &Job<'_>,
    manifest: &mut Manifest,
    templates: &BTreeSet<String>,
) -> Result<(), PipelineError> {
    if let Some(stages) = job.stages {
        let templates: Vec<String> = templates.iter().cloned().collect();
        stages.describe(manifest, &templates);
        if job.folder.join("manifest.json").exists() {
            crate::services::keep_added_judges(Run::open(job.folder)?.manifest(), manifest);
        }
    }
    Ok(())
}

#[cfg(not(feature = "remote"))]
fn describe_stages(
    _: &Job<'_>,
    _: &mut Manifest,
    _: &BTreeSet<String>,
) -> Result<(), PipelineError> {
    Ok(())
}

fn check(job: &Job<'_>, report: &Report, keys: &[Key]) -> Result<(), PipelineError> {
    let (found, expected) = (report.benchmark(), job.experiment.benchmark);
    let data = job.data.to_owned();
    if found != expected {
        return Err(PipelineError::OtherBenchmark {
            data,
            found,
            expected,
        });
    }
    // A history of one's own has no release to be known by, nor has a generated one.
    let has_release = !matches!(found, Benchmark::Own | Benchmark::Synthetic);
    if report.known.is_none() && has_release && !job.unknown_data {
        let hash = report.hash.to_string();
        return Err(PipelineError::UnknownData {
            data,
            hash,
            benchmark: found,
        });
    }
    if keys.is_empty() {
        return Err(PipelineError::NoQuestions(data));
    }
    Ok(())
}

fn index(
    retriever: &Retriever,
    entry: &Entry,
    histories: &mut Appender<History>,
) -> Result<HistoryIndex, PipelineError> {
    let begun = Instant::now();
    let history = retriever.index(&entry.conversation)?;
    let record = History {
        conversation: entry.conversation.id.to_string(),
        sessions: entry
            .conversation
            .sessions
            .iter()
            .map(|s| s.id.to_string())
            .collect(),
        messages: entry.conversation.message_count() as u32,
        chunks: history.chunks.len() as u32,
        truncated: history.truncated as u32,
        milliseconds: milliseconds(begun),
    };
    if !histories.holds(&record.identity()) {
        histories.append(&record)?;
    }
    Ok(history)
}

fn search(
    experiment: &Experiment,
    retriever: &Retriever,
    entry: &Entry,
    history: &HistoryIndex,
    question: &Question,
) -> Result<(Retrieval, Option<evidence::Rows>), PipelineError> {
    let begun = Instant::now();
    let found = retriever.search(history, &question.text, question.cutoff)?;
    let chosen: Vec<&Chunk> = found
        .items
        .iter()
        .map(|item| &history.chunks[item.chunk as usize])
        .collect();
    let settings = experiment.evidence.assembly();
    let assemble = |k: usize| {
        assemble(
            &entry.conversation,
            &history.transcript,
            &chosen[..k],
            &settings,
        )
    };
    let full = assemble(chosen.len());
    let milliseconds = milliseconds(begun);
    let mut tokens = vec![0; chosen.len()];
    for ((item, _), &count) in full.entries.iter().zip(&full.tokens) {
        tokens[*item] = count as u32;
    }
    let cutoffs = &experiment.evidence.cutoffs;
    let evidence_tokens = cutoffs
        .iter()
        .map(|&k| assemble(k.min(chosen.len())).total_tokens() as u32)
        .collect();
    let record = record(
        question,
        &found,
        &chosen,
        retriever.settings().k,
        tokens,
        evidence_tokens,
        milliseconds,
    );
    let keep = experiment.evidence.keep_text;
    let shown = keep.then(|| evidence::rows(&record, &full, &chosen, &entry.conversation));
    Ok((record, shown))
}

fn record(
    question: &Question,
    found: &Found,
    chosen: &[&Chunk],
    requested: usize,
    tokens: Vec<u32>,
    evidence_tokens: Vec<u32>,
    milliseconds: f64,
) -> Retrieval {
    let Key {
        benchmark,
        source,
        conversation,
        question: id,
        phase,
    } = key(question);
    let each = |of: fn(&Chunk) -> u32| chosen.iter().map(|chunk| of(chunk)).collect();
    Retrieval {
        benchmark,
        source,
        conversation,
        question: id,
        phase,
        kind: question.kind.to_string(),
        gold_messages: question.evidence.messages.iter().map(|m| m.0).collect(),
        gold_sessions: question.evidence.sessions.iter().map(|s| s.0).collect(),
        gold_written: question.evidence.written.clone(),
        available: found.available as u32,
        shortlist: found.shortlist as u32,
        requested: requested as u32,
        chunks: found.items.iter().map(|item| item.chunk).collect(),
        first_message: each(|chunk| chunk.messages.start),
        last_message: each(|chunk| chunk.messages.end.saturating_sub(1)),
        first_session: each(|chunk| chunk.sessions.start),
        last_session: each(|chunk| chunk.sessions.end.saturating_sub(1)),
        dense_score: found
            .items
            .iter()
            .filter_map(|item| item.dense)
            .map(|(s, _)| s)
            .collect(),
        dense_rank: found
            .items
            .iter()
            .filter_map(|item| item.dense)
            .map(|(_, r)| r)
            .collect(),
        score: found.items.iter().map(|item| item.score).collect(),
        tokens,
        evidence_tokens,
        milliseconds,
    }
}

fn manifest(job: &Job<'_>, report: &Report, keys: &[Key], described: Described) -> Manifest {
    let experiment = job.experiment;
    let Described {
        version,
        settings,
        models,
    } = described;
    Manifest {
        schema: SCHEMA_VERSION,
        name: job.name.to_owned(),
        system: System {
            name: experiment.system.clone(),
            version,
        },
        benchmark: experiment.benchmark.name().to_owned(),
        data: Data {
            sha256: report.hash.to_string(),
            release: report.known.map(str::to_owned),
        },
        expected: Expected::of(keys),
        settings,
        models,
        prompts: BTreeMap::new(),
        seed: 0,
        code: Code {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            sources: env!("RAWRAG_SOURCES").to_owned(),
        },
        machine: machine(),
        started: jiff::Timestamp::now()
            .strftime("%Y-%m-%dT%H:%M:%SZ")
            .to_string(),
    }
}

/// The models that a retriever of these settings uses, by the part that they play.
pub(crate) fn used(settings: &Settings, models: &Models) -> BTreeMap<String, Model> {
    let mut used = BTreeMap::new();
    if settings.uses_vectors() {
        used.insert(
            "embedder".to_owned(),
            model(models.embedder.identity(), ModelKind::Embedder),
        );
    }
    if let (true, Some(tokens)) = (settings.uses_tokens(), &models.tokens) {
        let kind = ModelKind::LateInteraction;
        used.insert(
            "late_interaction".to_owned(),
            model(tokens.identity(), kind),
        );
    }
    let by_cross_encoder = matches!(
        settings.ranking,
        Method::Rerank {
            by: RerankKind::CrossEncoder,
            ..
        }
    );
    if let (true, Some(reranker)) = (by_cross_encoder, &models.reranker) {
        used.insert(
            "reranker".to_owned(),
            model(reranker.identity(), ModelKind::CrossEncoder),
        );
    }
    used
}

/// Whether replies under a model's name come from a script, at once or after a delay
/// (`scripted+500ms`).
pub fn is_script(name: &str) -> bool {
    let rest = name.strip_prefix("scripted");
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('+'))
}

pub(crate) fn model(identity: &ModelIdentity, kind: ModelKind) -> Model {
    Model {
        name: identity.name.clone(),
        kind: kind.label().to_owned(),
        weights_sha256: identity.sha256.clone(),
        endpoint: None,
    }
}

fn machine() -> Machine {
    let field = |file: &str, name: &str| {
        let text = std::fs::read_to_string(file).ok()?;
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let kib = |text: String| text.split(' ').next()?.parse::<u64>().ok();
    Machine {
        processor: field("/proc/cpuinfo", "model name"),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        memory_mib: field("/proc/meminfo", "MemTotal")
            .and_then(kib)
            .map(|kib| kib / 1024),
        system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        toolchain: env!("RAWRAG_TOOLCHAIN").to_owned(),
    }
}

/// Puts on record how long a stage took here.
pub(crate) fn time(
    run: &Run,
    stage: &str,
    recorded: usize,
    begun: Instant,
) -> Result<(), RecordError> {
    if recorded == 0 {
        return Ok(());
    }
    let (mut timings, before) = run.appender::<Timing>()?;
    timings.append(&Timing {
        number: before.len() as u32,
        stage: stage.to_owned(),
        recorded: recorded as u32,
        milliseconds: milliseconds(begun),
    })
}

fn milliseconds(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64() * 1000.0
}
