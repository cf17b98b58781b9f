//! What the stages that call services share: prompts, addresses, the ledger, and how many calls are
//! under way.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

use rawrag_chunking::Encoding;
use rawrag_corpus::Benchmark;
use rawrag_models::ModelKind;
use rawrag_models::cache::{Cache, Mode};
use rawrag_models::prices::{Attempt, Meter, PriceTable, Stage, Tokens, Totals, UsageRow};
use rawrag_models::remote::{
    ChatClient, ChatRequest, Endpoint, Message, RemoteError, Service, Session, Settings, Stop,
    TokenCounter,
};
use rawrag_prompts::{Prompt, PromptSet};
use rawrag_records::{Appender, Manifest, Model, RecordError, Run, Usage};
use serde_json::json;

use crate::experiment::SelectorKind;
use crate::experiment::{
    AssessorSettings, Called, Experiment, JudgeSettings, Prices, PrunerSettings, Reader,
    SelectorSettings, ServiceSettings,
};
use crate::judging;
use crate::pipeline::PipelineError;
pub(crate) use crate::pipeline::{is_script, time};

/// The name under which a manifest has the reader of synthetic histories, which is no model.
pub const PATTERN: &str = "pattern";

/// The stages of an experiment that follow retrieval, with their prompts read and the addresses of
/// their services settled.
#[derive(Debug)]
pub struct Stages<'a> {
    pub(crate) selector: Option<&'a SelectorSettings>,
    pub(crate) pruner: Option<&'a PrunerSettings>,
    pub(crate) reader: Option<&'a Reader>,
    pub(crate) judges: &'a [JudgeSettings],
    pub(crate) assessors: &'a [AssessorSettings],
    pub(crate) prompts: PromptSet,
    pub(crate) benchmark: Benchmark,
    selector_at: Option<Endpoint>,
    pruner_at: Option<Endpoint>,
    reader_at: Option<Endpoint>,
    judges_at: Vec<Option<Endpoint>>,
    assessors_at: Vec<Option<Endpoint>>,
}

impl<'a> Stages<'a> {
    /// The stages of an experiment; `None` where it only retrieves.
    ///
    /// # Errors
    /// When prompts cannot be read, or an address or key is missing.
    pub fn prepare(
        experiment: &'a Experiment,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, PipelineError> {
        let refines = experiment.selector.is_some() || experiment.pruner.is_some();
        if experiment.reader.is_none() && experiment.assessors.is_empty() && !refines {
            return Ok(None);
        }
        Self::with_judges(experiment, &experiment.judges, environment).map(Some)
    }

    /// The same stages with other judges.
    ///
    /// # Errors
    /// As [`Self::prepare`].
    pub fn with_judges(
        experiment: &'a Experiment,
        judges: &'a [JudgeSettings],
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, PipelineError> {
        let prompts = match &experiment.prompts {
            Some(folder) => PromptSet::from_folder(folder)?,
            None => PromptSet::builtin(),
        };
        let at = |service: &ServiceSettings, concurrency: usize| {
            service.settings(concurrency).resolve(environment)
        };
        let resolve = |called: Option<Called<'_>>, concurrency: usize| {
            let resolved = called.map(|called| at(called.service, concurrency));
            resolved.transpose()
        };
        let (selector, pruner) = (experiment.selector.as_ref(), experiment.pruner.as_ref());
        let selector_at = selector.map(|s| at(&s.service, s.concurrency));
        let pruner_at = pruner.map(|p| at(&p.service, p.concurrency));
        let reader = experiment.reader.as_ref();
        let assessors = experiment.assessors.as_slice();
        let judges_at = judges.iter().map(|j| resolve(j.called(), j.concurrency));
        let assessors_at = assessors.iter().map(|a| resolve(a.called(), a.concurrency));
        Ok(Self {
            selector,
            pruner,
            selector_at: selector_at.transpose()?,
            pruner_at: pruner_at.transpose()?,
            reader,
            judges,
            assessors,
            prompts,
            benchmark: experiment.benchmark,
            reader_at: match reader {
                Some(reader) => resolve(reader.called(), reader.concurrency)?,
                None => None,
            },
            judges_at: judges_at.collect::<Result<_, _>>()?,
            assessors_at: assessors_at.collect::<Result<_, _>>()?,
        })
    }

    /// Where each model is, by the part that it plays.
    pub fn addresses(&self) -> Vec<(String, String, String)> {
        let mut addresses = Vec::new();
        let mut add = |part: String, called: Option<Called<'_>>, at: &Option<Endpoint>| {
            if let (Some(called), Some(at)) = (called, at) {
                addresses.push((part, called.model.to_owned(), at.address().to_string()));
            }
        };
        if let Some(selector) = self.selector {
            add(SELECTOR.to_owned(), selector.called(), &self.selector_at);
        }
        if let Some(pruner) = self.pruner {
            add(PRUNER.to_owned(), pruner.called(), &self.pruner_at);
        }
        if let Some(reader) = self.reader {
            add("reader".to_owned(), reader.called(), &self.reader_at);
        }
        for (judge, at) in self.judges.iter().zip(&self.judges_at) {
            add(part(&judge.name), judge.called(), at);
        }
        for (assessor, at) in self.assessors.iter().zip(&self.assessors_at) {
            add(assessor_part(&assessor.name), assessor.called(), at);
        }
        addresses
    }

    /// Whether any reply comes from a script, so that nothing here measures a model.
    pub fn is_scripted(&self) -> bool {
        self.addresses()
            .iter()
            .any(|(_, model, _)| is_script(model))
    }

    /// Whether no model answers, but the reader of synthetic histories.
    pub fn reads_by_pattern(&self) -> bool {
        self.reader.is_some_and(|reader| reader.pattern.is_some())
    }

    /// Adds to a manifest what these stages are: all that decides what they record, and no limit
    /// or pace.
    pub(crate) fn describe(&self, manifest: &mut Manifest, templates: &[String]) {
        self.describe_refining(manifest);
        if let Some(reader) = self.reader {
            self.describe_reader(manifest, reader);
        }
        self.describe_prompts(manifest, templates.iter().map(String::as_str));
        for at in 0..self.judges.len() {
            self.describe_judge(manifest, at, false);
        }
        for (assessor, at) in self.assessors.iter().zip(&self.assessors_at) {
            let repetitions = assessor.repetitions;
            manifest.settings["assessors"][&assessor.name] =
                match (&assessor.service, assessor.rule) {
                    (Some(service), _) => json!({
                        "provider": service.provider,
                        "prompt": assessor.prompt,
                        "temperature": assessor.temperature,
                        "max_output": assessor.max_output,
                        "repetitions": repetitions,
                    }),
                    (None, rule) => json!({ "rule": rule }),
                };
            let expected = manifest.expected.clone();
            manifest.expected = expected.assessed(&assessor.name, repetitions);
            if let (Some(called), Some(at)) = (assessor.called(), at) {
                let model = model(called.model, at.address().to_string());
                manifest.models.insert(assessor_part(&assessor.name), model);
            }
        }
    }

    fn describe_refining(&self, manifest: &mut Manifest) {
        if let (Some(selector), Some(at)) = (self.selector, &self.selector_at) {
            manifest.settings["selector"] = json!({
                "by": selector.by,
                "provider": selector.service.provider,
                "k": selector.k,
                "choice": selector.selection(),
                "max_output": selector.max_output,
            });
            let kind = match selector.by {
                SelectorKind::Decision => ModelKind::Decider,
                SelectorKind::Listwise => ModelKind::Listwise,
                SelectorKind::YesNo => ModelKind::CrossEncoder,
            };
            let model = Model {
                kind: kind.label().to_owned(),
                ..model(&selector.model, at.address().to_string())
            };
            manifest.models.insert(SELECTOR.to_owned(), model);
        }
        if let (Some(pruner), Some(at)) = (self.pruner, &self.pruner_at) {
            manifest.settings["pruner"] = json!({
                "provider": pruner.service.provider,
                "temperature": pruner.temperature,
                "max_output": pruner.max_output,
            });
            let model = model(&pruner.model, at.address().to_string());
            manifest.models.insert(PRUNER.to_owned(), model);
        }
    }

    fn describe_reader(&self, manifest: &mut Manifest, reader: &Reader) {
        manifest.settings["reader"] = match (&reader.service, reader.pattern) {
            (Some(service), _) => json!({
                "provider": service.provider,
                "prompt": reader.prompt,
                "temperature": reader.temperature,
                "max_output": reader.max_output,
                "repetitions": reader.repetitions,
                "attempts": reader.attempts,
                "answer": reader.answer,
            }),
            (None, pattern) => json!({ "pattern": pattern, "repetitions": reader.repetitions }),
        };
        manifest.expected = manifest.expected.clone().answered(reader.repetitions);
        let model = match (reader.called(), &self.reader_at) {
            (Some(called), Some(at)) => model(called.model, at.address().to_string()),
            _ => Model {
                name: PATTERN.to_owned(),
                kind: "synthetic: reads the generator's sentences; no model, and no measure of one"
                    .to_owned(),
                weights_sha256: None,
                endpoint: None,
            },
        };
        manifest.models.insert("reader".to_owned(), model);
    }

    pub(crate) fn describe_prompts<'t>(
        &self,
        manifest: &mut Manifest,
        templates: impl IntoIterator<Item = &'t str>,
    ) {
        for name in templates {
            if let Ok(template) = self.prompts.template(name) {
                let fingerprint = template.fingerprint().to_string();
                manifest.prompts.insert(name.to_owned(), fingerprint);
            }
        }
    }

    /// Adds one judge, marked where it comes after the run was begun.
    pub(crate) fn describe_judge(&self, manifest: &mut Manifest, at: usize, added: bool) {
        let (judge, at) = (&self.judges[at], &self.judges_at[at]);
        let repetitions = judging::repetitions(judge, self.benchmark);
        let mut settings = match (&judge.service, judge.rule) {
            (Some(service), _) => json!({
                "provider": service.provider,
                "prompt": judge.prompt,
                "temperature": judge.temperature,
                "max_output": judge.max_output,
                "repetitions": repetitions,
            }),
            (None, rule) => json!({ "rule": rule }),
        };
        if added {
            settings[ADDED] = true.into();
        }
        manifest.settings["judges"][&judge.name] = settings;
        manifest.expected = manifest.expected.clone().judged(&judge.name, repetitions);
        if let (Some(called), Some(at)) = (judge.called(), at) {
            let model = model(called.model, at.address().to_string());
            manifest.models.insert(part(&judge.name), model);
        }
    }
}

const SELECTOR: &str = "selector";
const PRUNER: &str = "pruner";

/// What marks a judge in a manifest's settings that was added to the run later.
pub(crate) const ADDED: &str = "added";

/// Takes over the judges that `begun` was given later, so that the run can go on with its own
/// experiment.
pub(crate) fn keep_added_judges(begun: &Manifest, manifest: &mut Manifest) {
    let Some(judges) = begun.settings["judges"].as_object() else {
        return;
    };
    for (name, settings) in judges.iter().filter(|(_, s)| s[ADDED] == true) {
        if !manifest.settings["judges"][name].is_null() {
            continue;
        }
        manifest.settings["judges"][name] = settings.clone();
        if let Some(&repetitions) = begun.expected.judgments.get(name) {
            manifest.expected = manifest.expected.clone().judged(name, repetitions);
        }
        if let Some(model) = begun.models.get(&part(name)) {
            manifest.models.insert(part(name), model.clone());
        }
        for (prompt, fingerprint) in &begun.prompts {
            let prompts = &mut manifest.prompts;
            prompts.entry(prompt.clone()).or_insert(fingerprint.clone());
        }
    }
}

fn part(judge: &str) -> String {
    format!("judge {judge}")
}

fn assessor_part(assessor: &str) -> String {
    format!("assessor {assessor}")
}

fn model(name: &str, endpoint: String) -> Model {
    let kind = match is_script(name) {
        true => "scripted replies; no measure of answer quality",
        false => "chat",
    };
    Model {
        name: name.to_owned(),
        kind: kind.to_owned(),
        weights_sha256: None,
        endpoint: Some(endpoint),
    }
}

/// How the services of a run are called.
#[derive(Debug, Default)]
pub struct Calling<'a> {
    /// The folder of the response cache; `None` to make every call.
    pub cache: Option<&'a Path>,
    /// Whether a reply that the cache does not hold is an error instead of a call.
    pub cached_only: bool,
    /// Prices, and dollars that the run may cost in all; `None` for no limit.
    pub limit: Option<(PriceTable, f64)>,
    /// The switch that stops the run.
    pub stop: Stop,
}

/// The services of a run, connected, with its ledger.
#[derive(Debug)]
pub struct Services {
    session: Session,
    ledger: Arc<Ledger>,
    connected: Mutex<Vec<(Settings, Arc<Service>)>>,
}

impl Services {
    /// Opens the cache and the run's ledger. What the run spent before counts towards the limit.
    ///
    /// # Errors
    /// When the cache or the ledger cannot be opened.
    pub fn open(run: &Run, calling: Calling<'_>) -> Result<Self, PipelineError> {
        let cache = calling
            .cache
            .map(|folder| {
                let mode = match calling.cached_only {
                    true => Mode::ReadOnly,
                    false => Mode::ReadWrite,
                };
                Cache::open(folder, mode).map(Arc::new)
            })
            .transpose()
            .map_err(RemoteError::from)?;
        let (appender, before) = run.appender::<Usage>()?;
        let ledger = Arc::new(Ledger {
            state: Mutex::new((appender, before.len() as u32, None)),
            stop: calling.stop.clone(),
        });
        let mut meter = Meter::new(totals(&before));
        if let Some((table, dollars)) = calling.limit {
            meter = meter.with_limit(table, &today(), dollars);
        }
        let sink = Arc::clone(&ledger);
        let meter = Arc::new(meter.with_sink(move |row| sink.append(row)));
        let session = Session {
            cache,
            meter,
            stop: calling.stop,
            ..Session::default()
        };
        Ok(Self {
            session,
            ledger,
            connected: Mutex::default(),
        })
    }

    /// What the run used so far.
    pub fn totals(&self) -> Totals {
        self.session.meter.totals()
    }

    pub(crate) fn stop(&self) -> &Stop {
        &self.session.stop
    }

    /// The service of the selector; `None` where there is none.
    pub(crate) fn selector(
        &self,
        stages: &Stages<'_>,
    ) -> Result<Option<Arc<Service>>, PipelineError> {
        let (Some(selector), Some(at)) = (stages.selector, &stages.selector_at) else {
            return Ok(None);
        };
        let settings = selector.service.settings(selector.concurrency);
        self.service(settings, at).map(Some)
    }

    /// The pruner's client; `None` where there is none.
    pub(crate) fn pruner(
        &self,
        stages: &Stages<'_>,
    ) -> Result<Option<Arc<ChatClient>>, PipelineError> {
        let Some(pruner) = stages.pruner else {
            return Ok(None);
        };
        let at = stages.pruner_at.as_ref();
        self.client(pruner.called(), at, pruner.concurrency, Stage::Read)
    }

    /// The reader's client; `None` where no model answers.
    pub(crate) fn reader(
        &self,
        stages: &Stages<'_>,
    ) -> Result<Option<Arc<ChatClient>>, PipelineError> {
        let Some(reader) = stages.reader else {
            return Ok(None);
        };
        let at = stages.reader_at.as_ref();
        self.client(reader.called(), at, reader.concurrency, Stage::Answer)
    }

    /// A judge's client; `None` where a rule grades.
    pub(crate) fn judge(
        &self,
        stages: &Stages<'_>,
        judge: usize,
    ) -> Result<Option<Arc<ChatClient>>, PipelineError> {
        let (settings, at) = (&stages.judges[judge], stages.judges_at[judge].as_ref());
        self.client(settings.called(), at, settings.concurrency, Stage::Judge)
    }

    /// An assessor's client; `None` where a rule assesses.
    pub(crate) fn assessor(
        &self,
        stages: &Stages<'_>,
        assessor: usize,
    ) -> Result<Option<Arc<ChatClient>>, PipelineError> {
        let settings = &stages.assessors[assessor];
        let at = stages.assessors_at[assessor].as_ref();
        self.client(settings.called(), at, settings.concurrency, Stage::Assess)
    }

    fn client(
        &self,
        called: Option<Called<'_>>,
        at: Option<&Endpoint>,
        concurrency: usize,
        stage: Stage,
    ) -> Result<Option<Arc<ChatClient>>, PipelineError> {
        let (Some(called), Some(at)) = (called, at) else {
            return Ok(None);
        };
        let settings = called.service.settings(concurrency);
        self.chat(settings, at, called.model, stage).map(Some)
    }

    fn chat(
        &self,
        settings: Settings,
        at: &Endpoint,
        model: &str,
        stage: Stage,
    ) -> Result<Arc<ChatClient>, PipelineError> {
        let service = self.service(settings, at)?;
        let client = ChatClient::new(service, model, stage).with_counter(Arc::new(O200k));
        Ok(Arc::new(client))
    }

    /// Equal settings share one service, so that its limits hold for all stages together.
    fn service(&self, settings: Settings, at: &Endpoint) -> Result<Arc<Service>, PipelineError> {
        let mut connected = lock(&self.connected);
        let known = connected.iter().find(|(known, _)| *known == settings);
        Ok(match known {
            Some((_, service)) => Arc::clone(service),
            None => {
                let service = Service::connect(at.clone(), &self.session)?;
                connected.push((settings, Arc::clone(&service)));
                service
            }
        })
    }

    /// Whether every attempt is on disk.
    fn check(&self) -> Result<(), RecordError> {
        lock(&self.ledger.state).2.take().map_or(Ok(()), Err)
    }
}

pub(crate) struct O200k;

impl TokenCounter for O200k {
    fn count(&self, text: &str) -> usize {
        Encoding::O200kBase.count(text)
    }
}

/// The attempts of a run, on disk as they are made.
#[derive(Debug)]
struct Ledger {
    /// The file, the number of the next row, and what went wrong first.
    state: Mutex<(Appender<Usage>, u32, Option<RecordError>)>,
    stop: Stop,
}

impl Ledger {
    fn append(&self, row: &UsageRow) {
        let mut state = lock(&self.state);
        let (appender, number, failed) = &mut *state;
        if let Err(error) = appender.append(&usage(row, *number)) {
            // Nothing may be spent that is not on record.
            self.stop.request();
            failed.get_or_insert(error);
        }
        *number += 1;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const STAGES: [(Stage, &str); 5] = [
    (Stage::Write, "write"),
    (Stage::Read, "read"),
    (Stage::Answer, "answer"),
    (Stage::Judge, "judge"),
    (Stage::Assess, "assess"),
];

/// A stage of the ledger by the name that records give it.
pub fn stage_name(stage: Stage) -> &'static str {
    let named = STAGES.iter().find(|(known, _)| *known == stage);
    named.map_or("", |(_, name)| name)
}

fn usage(row: &UsageRow, number: u32) -> Usage {
    let (outcome, status) = match row.attempt {
        Attempt::Answered(status) => ("answered", Some(status)),
        Attempt::Refused(status) => ("refused", Some(status)),
        Attempt::Unsent => ("unsent", None),
        Attempt::Unknown => ("unknown", None),
        Attempt::Cached => ("cached", None),
    };
    let count = |of: fn(&Tokens) -> u64| row.tokens.as_ref().map(|tokens| narrow(of(tokens)));
    Usage {
        number,
        stage: stage_name(row.stage).to_owned(),
        model: row.model.clone(),
        address: row.address.clone(),
        outcome: outcome.to_owned(),
        status: status.map(u32::from),
        input_tokens: count(|tokens| tokens.input),
        cached_input_tokens: count(|tokens| tokens.cached_input),
        output_tokens: count(|tokens| tokens.output),
        searches: count(|tokens| tokens.searches),
        expected_input_tokens: narrow(row.expected.input),
        expected_output_tokens: narrow(row.expected.output),
        milliseconds: row.seconds * 1000.0,
    }
}

/// Tokens of one call, which no service counts in more than 32 bits.
pub(crate) fn narrow(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The sums of a run's ledger.
pub fn totals(usage: &[Usage]) -> Totals {
    let rows: Vec<UsageRow> = usage.iter().filter_map(row).collect();
    rows.iter().collect()
}

fn row(usage: &Usage) -> Option<UsageRow> {
    let &(stage, _) = STAGES.iter().find(|(_, name)| *name == usage.stage)?;
    let status = u16::try_from(usage.status.unwrap_or(0)).ok()?;
    let attempt = match usage.outcome.as_str() {
        "answered" => Attempt::Answered(status),
        "refused" => Attempt::Refused(status),
        "unsent" => Attempt::Unsent,
        "cached" => Attempt::Cached,
        _ => Attempt::Unknown,
    };
    let some = |count: Option<u32>| count.unwrap_or(0).into();
    Some(UsageRow {
        stage,
        model: usage.model.clone(),
        address: usage.address.clone(),
        attempt,
        tokens: usage.input_tokens.map(|input| Tokens {
            input: input.into(),
            cached_input: some(usage.cached_input_tokens),
            output: some(usage.output_tokens),
            searches: some(usage.searches),
        }),
        expected: Tokens {
            input: usage.expected_input_tokens.into(),
            output: usage.expected_output_tokens.into(),
            ..Tokens::default()
        },
        seconds: usage.milliseconds / 1000.0,
    })
}

/// The price table and limit of an experiment; a limit of the caller's own beats it.
///
/// # Errors
/// When the table cannot be read, or a limit has no table.
pub fn prices(
    prices: Option<&Prices>,
    max_cost: Option<f64>,
) -> Result<(Option<PriceTable>, Option<f64>), PipelineError> {
    let table = prices.map(|prices| PriceTable::load(&prices.file));
    let limit = max_cost.or(prices.and_then(|prices| prices.max_cost));
    match (table.transpose()?, limit) {
        (None, Some(_)) => Err(PipelineError::LimitWithoutPrices),
        settled => Ok(settled),
    }
}

/// The day whose prices hold, UTC.
pub fn today() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%d").to_string()
}

pub(crate) fn request(prompt: Prompt, temperature: f64, max_output: u32) -> ChatRequest {
    let mut messages: Vec<Message> = prompt.system.into_iter().map(Message::system).collect();
    messages.push(Message::user(prompt.user));
    let mut request = ChatRequest::new(messages, max_output);
    request.temperature = Some(temperature);
    request
}

/// o200k_base tokens of a request's messages.
pub(crate) fn input_tokens(request: &ChatRequest) -> u64 {
    let messages = request.messages.iter();
    messages.map(|m| O200k.count(&m.content) as u64).sum()
}

/// How far a stage has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It begins.
    Begun {
        /// `answering` or `judging by NAME`.
        stage: String,
        /// Records in all.
        total: usize,
        /// Of these, on record already.
        held: usize,
    },
    /// One more call is finished.
    One {
        /// Whether it gave nothing.
        failed: bool,
    },
}

/// Calls that gave nothing, held back until the stage is through: they are put on record as failed
/// if they are few, and made again by the next process if they are many or the stage was stopped.
pub(crate) struct Failures<R> {
    records: Vec<R>,
    reasons: BTreeMap<String, usize>,
}

impl<R> Failures<R> {
    pub(crate) fn new() -> Self {
        Self {
            records: Vec::new(),
            reasons: BTreeMap::new(),
        }
    }

    pub(crate) fn hold(&mut self, record: R, reason: &RemoteError) {
        *self.reasons.entry(reason.to_string()).or_default() += 1;
        self.records.push(record);
    }

    /// The records, if they are no more than the share `allowed` of `total`.
    pub(crate) fn settle(
        self,
        stage: &str,
        total: usize,
        allowed: f64,
    ) -> Result<Vec<R>, PipelineError> {
        let failed = self.records.len();
        if failed as f64 <= allowed * total as f64 {
            return Ok(self.records);
        }
        let mut reasons: Vec<(String, usize)> = self.reasons.into_iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        reasons.truncate(3);
        Err(PipelineError::TooManyFailures {
            stage: stage.to_owned(),
            failed,
            total,
            percent: 100.0 * allowed,
            reasons,
        })
    }
}

/// Whether an error is about this call alone, and not about the run.
pub(crate) fn is_of_this_call(error: &RemoteError) -> bool {
    error.is_service_failure() && !matches!(error, RemoteError::Down { .. })
}

/// Makes calls: `produce` gives out jobs, `ask` does one, and `finish` puts its result on record.
/// At most `concurrency` are under way. The first error ends the stage once calls under way are
/// finished and recorded.
pub(crate) fn drive<J, R, F>(
    concurrency: usize,
    services: &Services,
    produce: impl FnOnce(&mut dyn FnMut(J) -> bool) -> Result<(), PipelineError> + Send,
    ask: impl Fn(J) -> F + Send + 'static,
    mut finish: impl FnMut(R) -> Result<(), PipelineError>,
) -> Result<(), PipelineError>
where
    J: Send + 'static,
    R: Send + 'static,
    F: Future<Output = R> + Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .thread_name("rawrag-calls")
        .build()
        .map_err(|error| RemoteError::Runtime(error.to_string()))?;
    let (jobs, mut due) = tokio::sync::mpsc::channel::<J>(concurrency);
    let (results, finished) = mpsc::channel::<R>();
    let halted = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&halted);
    runtime.spawn(async move {
        let turns = Arc::new(tokio::sync::Semaphore::new(concurrency));
        while let Ok(turn) = Arc::clone(&turns).acquire_owned().await {
            // Dropping `due` ends whoever gives out the jobs.
            let Some(job) = due.recv().await else { break };
            if seen.load(Ordering::Relaxed) {
                break;
            }
            let (asked, results) = (ask(job), results.clone());
            tokio::spawn(async move {
                let _ = results.send(asked.await);
                drop(turn);
            });
        }
    });
    let mut first = None;
    let produced = thread::scope(|scope| {
        let stop = services.stop().clone();
        let producer = scope.spawn(move || {
            produce(&mut |job| !stop.is_requested() && jobs.blocking_send(job).is_ok())
        });
        for result in finished {
            if let Err(error) = finish(result) {
                halted.store(true, Ordering::Relaxed);
                first.get_or_insert(error);
            }
        }
        producer.join()
    });
    services.check()?;
    if let Some(error) = first {
        return Err(error);
    }
    match produced {
        Ok(produced) => produced?,
        Err(panic) => std::panic::resume_unwind(panic),
    }
    match services.stop().is_requested() {
        true => Err(PipelineError::Stopped),
        false => Ok(()),
    }
}
