use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use rawrag_baselines::known::{KNOWN, Known, Needs, SetupError, State, known};
use rawrag_baselines::managed::MANAGED;
use rawrag_baselines::native::NAMED;
use rawrag_baselines::protocol::Models;
use rawrag_baselines::{Launch, ProcessSystem, check};

use crate::experiment::{Ceilings, Evidence, Experiment, Memory};
use crate::memory::Ready;
use crate::retrieval::EvidenceSettings;

use super::Weights;
use super::failure::Failure;
use super::models::notice;
use super::{memory, runs};

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
        /// The Python to make it with, 3.11 or later; 3.13 for memu
        #[arg(long, default_value = "python3", value_name = "PROGRAM")]
        python: String,
        #[command(flatten)]
        place: Place,
    },
    /// Find out whether a system does what the wrapper protocol asks and what it declares
    Check {
        /// Folder for the wrapper's stores, home and error stream [default: one that is removed]
        #[arg(long, value_name = "DIR")]
        store: Option<PathBuf>,
        #[command(flatten)]
        target: Target,
    },
    /// Take a history and its questions through a system: a run like any other, whose experiment is
    /// written into its folder
    Run {
        /// The history: a benchmark's file, or a folder with history.jsonl and questions.jsonl
        #[arg(long, value_name = "PATH")]
        data: PathBuf,
        /// The run's folder, which must be new
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
        #[cfg(feature = "remote")]
        #[command(flatten)]
        calls: super::stages::Calls,
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
    #[arg(required_unless_present_any = ["command", "address"], conflicts_with = "command")]
    name: Option<String>,
    /// Where a system listens that speaks the wrapper protocol over HTTP
    #[arg(long, value_name = "URL", conflicts_with_all = ["name", "command"])]
    address: Option<String>,
    /// A wrapper's command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
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
            if weights.offline && matches!(known.needs, Needs::Environment { .. }) {
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
        Command::Check { store, target } => {
            let scratch = tempfile::tempdir()?;
            let folder = store.as_deref().unwrap_or(scratch.path());
            let Target { place, .. } = &target;
            let systems = place.systems.clone();
            let asked = target.memory(1, None)?;
            let evidence = EvidenceSettings::default();
            let ready = memory::ready(weights, &asked, evidence, None, folder, systems.as_deref());
            let mut ready = ready?;
            let report = check::check(ready.system.as_mut(), "check");
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
            #[cfg(feature = "remote")]
            calls,
        } => {
            let systems = target.place.systems.clone();
            let experiment = target.experiment(&data, k as usize, conversation)?;
            let asked = runs::Asked {
                data: Some(data),
                out: Some(out.clone()),
                unknown_data: true,
                systems,
                #[cfg(feature = "remote")]
                dry_run: false,
                #[cfg(feature = "remote")]
                calls,
            };
            let begun = runs::run(weights, &keep(&experiment, &out)?, asked);
            if begun.is_err() && !out.join("manifest.json").exists() {
                // Nothing was recorded, and a folder that is no run could not be gone on with.
                fs::remove_dir_all(&out)?;
            }
            begun
        }
    }
}

/// Begins a run's folder with its experiment.
fn keep(experiment: &Experiment, out: &Path) -> Result<PathBuf, Failure> {
    let named = |problem: String| Failure::Input(format!("{}: {problem}", out.display()).into());
    if let Some(beside) = out.parent() {
        fs::create_dir_all(beside)?;
    }
    fs::create_dir(out).map_err(|error| {
        named(format!(
            "{error}; name a new folder, or go on there with `rawrag resume`"
        ))
    })?;
    let path = out.join("experiment.toml");
    let text = toml::to_string(experiment).map_err(|error| named(error.to_string()))?;
    fs::write(&path, text)?;
    Ok(path)
}

fn list(systems: &Path) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    for (name, about) in NAMED {
        writeln!(out, "{name:14} ready    {about}")?;
    }
    for (name, _, about) in MANAGED {
        writeln!(out, "{name:14} ready    {about}; asks a chat model")?;
    }
    for known in &KNOWN {
        let (name, about, package) = (known.name, known.about, known.package);
        match known.state(systems) {
            State::Ready(folder) => writeln!(
                out,
                "{name:14} ready    {about}; {package} in {}",
                folder.display()
            )?,
            State::Missing(error) => writeln!(out, "{name:14} missing  {about}; {error}")?,
            State::NeedsAddress => writeln!(
                out,
                "{name:14} address  {about}; {package}; name your service: --setting address=URL"
            )?,
            State::NeedsCheckout => writeln!(
                out,
                "{name:14} checkout {about}; {package}; name your clone: --setting checkout=DIR"
            )?,
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
    fn memory(self, k: usize, conversation: Option<String>) -> Result<Memory, Failure> {
        let models = self.models_at.map(|address| Models {
            address: address.trim_end_matches('/').to_owned(),
            chat: self.chat,
            embedding: self.embedding,
            dimension: self.dimension,
        });
        let settings = self.settings.into_iter();
        let memory = Memory {
            system: self.name,
            command: self.command,
            address: self.address,
            k,
            one_by_one: false,
            conversations: conversation.into_iter().collect(),
            settings: settings.map(|(name, value)| (name, value.into())).collect(),
            models,
            limits: Ceilings {
                seconds: self.deadline,
                memory_mib: self.memory,
            },
        };
        let checked = memory.check();
        checked.map_err(|(field, problem)| Failure::Usage(format!("{field} {problem}")))?;
        Ok(memory)
    }

    fn experiment(
        self,
        data: &Path,
        k: usize,
        conversation: Option<String>,
    ) -> Result<Experiment, Failure> {
        let name = self.name.clone().unwrap_or_else(|| "wrapper".to_owned());
        let memory = self.memory(k, conversation)?;
        let report = crate::corpus::read::<crate::corpus::LoadError>(data, None, |_| Ok(()))?;
        let mut cutoffs: Vec<usize> = Evidence::default().cutoffs;
        cutoffs.retain(|&cutoff| cutoff < k);
        cutoffs.push(k);
        Ok(Experiment {
            about: format!("{name}, asked from the command line."),
            system: name,
            benchmark: report.benchmark(),
            data: None,
            retrieval: None,
            memory: Some(memory),
            evidence: Evidence {
                cutoffs,
                ..Evidence::default()
            },
            cross_encoder: None,
            #[cfg(feature = "remote")]
            prompts: None,
            #[cfg(feature = "remote")]
            selector: None,
            #[cfg(feature = "remote")]
            pruner: None,
            #[cfg(feature = "remote")]
            reader: None,
            #[cfg(feature = "remote")]
            judges: Vec::new(),
            #[cfg(feature = "remote")]
            assessors: Vec::new(),
            #[cfg(feature = "remote")]
            prices: None,
        })
    }
}

/// Starts the wrapper that `memory` names, with `folder` for its stores, home and error stream.
pub(super) fn launch(
    weights: &Weights,
    memory: &Memory,
    folder: &Path,
    systems: Option<&Path>,
) -> Result<Ready, Failure> {
    if let Some(models) = &memory.models {
        notice(&format!(
            "system's models: {} and {} at {}",
            models.chat, models.embedding, models.address
        ));
    }
    let command = match &memory.system {
        Some(name) => {
            let systems = match systems {
                Some(systems) => systems.to_owned(),
                None => Place { systems: None }.folder(weights)?,
            };
            named(name)?.command(&systems, &memory.settings)?
        }
        None => memory.command.clone(),
    };
    let system = ProcessSystem::start(Launch {
        command,
        folder: folder.to_owned(),
        models: memory.models.clone(),
        settings: memory.settings.clone(),
        limits: memory.limits.limits(),
    })?;
    Ok(Ready::wrapped(Box::new(system), memory))
}

impl From<SetupError> for Failure {
    fn from(error: SetupError) -> Self {
        match error {
            SetupError::Program { .. } => Self::Service(Box::new(error)),
            SetupError::NothingToSetUp { .. } => Self::Usage(error.to_string()),
            _ => Self::Input(Box::new(error)),
        }
    }
}
