//! The command line, as a function: `rawrag` is this and nothing else.
//!
//! Exit codes: 0 done, 2 wrong usage, 3 bad input, 4 a service failed, 1 anything else.

#[cfg(feature = "remote")]
mod cache;
mod corpus;
mod data;
mod failure;
mod history;
mod memory;
mod models;
#[cfg(feature = "remote")]
mod oracle;
mod runs;
mod score;
#[cfg(feature = "remote")]
mod stages;
#[cfg(unix)]
mod system;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::corpus::{Format, Timestamp};
use clap::{Args, Parser, Subcommand};

use self::failure::Failure;

/// Parses the process's arguments, does what they ask, and reports what went wrong.
pub fn main() -> ExitCode {
    match Arguments::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Raw conversation history as memory: run it on a benchmark, or search your own.
#[derive(Parser)]
#[command(name = "rawrag", version)]
struct Arguments {
    #[command(flatten)]
    weights: Weights,
    #[command(subcommand)]
    command: Command,
}

/// Where model weights are.
#[derive(Args)]
struct Weights {
    /// Folder that holds model weights [default: RAWRAG_MODELS, else the user's cache folder]
    #[arg(long, global = true, value_name = "DIR")]
    models: Option<PathBuf>,
    /// Never fetch anything: missing weights are an error
    #[arg(long, global = true)]
    offline: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Run an experiment, or the rest of it if it was begun
    Run {
        /// The experiment's TOML file
        experiment: PathBuf,
        /// The benchmark's file or folder [default: what the experiment names]
        #[arg(long, value_name = "PATH")]
        data: Option<PathBuf>,
        /// The run's folder [default: runs/ and the experiment's name]
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
        /// Measure on data that is no known release
        #[arg(long)]
        unknown_data: bool,
        /// Find the evidence, then count the calls and tokens that are left and their price, and
        /// make none
        #[cfg(feature = "remote")]
        #[arg(long)]
        dry_run: bool,
        #[cfg(feature = "remote")]
        #[command(flatten)]
        calls: stages::Calls,
    },
    /// Go on with a run that was stopped
    Resume {
        /// The run's folder, or its name below runs/
        run: PathBuf,
        #[cfg(feature = "remote")]
        #[command(flatten)]
        calls: stages::Calls,
    },
    /// Say how far a run is, what came of its calls, and what they cost
    #[cfg(feature = "remote")]
    Status {
        /// The run's folder, or its name below runs/
        run: PathBuf,
    },
    /// List the answers and grades of a run that failed, and why
    #[cfg(feature = "remote")]
    Failures {
        /// The run's folder, or its name below runs/
        run: PathBuf,
    },
    /// Grade the answers of a run by another judge too
    #[cfg(feature = "remote")]
    Rejudge {
        /// The run's folder, or its name below runs/
        run: PathBuf,
        /// A judge of the run's experiment, or a TOML file of [[judges]]
        #[arg(long, value_name = "NAME or FILE")]
        judge: String,
        #[command(flatten)]
        calls: stages::Calls,
    },
    /// Score a run as its benchmark does, beside what no memory would score
    Score(score::Asked),
    /// Choose evidence knowing what is asked for, from a run's store or from the source, and have it
    /// answered and graded as that run was
    #[cfg(feature = "remote")]
    Oracle(Box<oracle::Arguments>),
    /// List the runs in a folder
    Runs {
        /// The folder
        #[arg(default_value = "runs")]
        folder: PathBuf,
    },
    /// Show what a run retrieved for one question, and which evidence it missed
    Show {
        /// The run's folder, or its name below runs/
        run: PathBuf,
        /// The question's id, or the end of it
        question: String,
        /// The benchmark's file or folder [default: what the run was made on]
        #[arg(long, value_name = "PATH")]
        data: Option<PathBuf>,
    },
    /// Compare two runs: what they did differently, and what came of it
    Compare {
        /// The first run
        left: PathBuf,
        /// The second run
        right: PathBuf,
    },
    /// Put a history into a store, encoding only what is new
    Ingest {
        /// Chat JSONL, a ChatGPT export, or a benchmark's file
        file: PathBuf,
        /// The store's folder
        #[arg(long, value_name = "DIR")]
        store: PathBuf,
        /// locomo, longmemeval, beam, chat-jsonl, ... [default: told from the content]
        #[arg(long)]
        format: Option<Format>,
    },
    /// Find the messages of a store that answer a question
    Search {
        /// The question
        question: String,
        /// The store's folder
        #[arg(long, value_name = "DIR")]
        store: PathBuf,
        /// How many messages
        #[arg(short, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
        k: u32,
        /// Only this conversation
        #[arg(long, value_name = "ID")]
        conversation: Option<String>,
        /// Nothing dated later than this
        #[arg(long, value_name = "DATE")]
        until: Option<Timestamp>,
        /// One JSON object a message
        #[arg(long)]
        json: bool,
    },
    /// Turn published result files of another system into a run of this project
    Import(rawrag_import::command::Arguments),
    /// Paired statistics of a table of labels, or of numbers typed in
    Stats(Box<rawrag_paper::statistics::command::Arguments>),
    /// Look at histories and benchmark files
    #[command(subcommand)]
    Corpus(corpus::Command),
    /// Fetch and check benchmark data
    #[command(subcommand)]
    Data(data::Command),
    /// Fetch and list model weights
    #[command(subcommand)]
    Models(models::Command),
    /// Set up, check and run other memory systems
    #[cfg(unix)]
    #[command(subcommand)]
    System(Box<system::Command>),
    /// Look after a cache of services' replies
    #[cfg(feature = "remote")]
    #[command(subcommand)]
    Cache(cache::Command),
}

impl Arguments {
    fn run(self) -> Result<(), Failure> {
        let weights = self.weights;
        match self.command {
            Command::Run {
                experiment,
                data,
                out,
                unknown_data,
                #[cfg(feature = "remote")]
                dry_run,
                #[cfg(feature = "remote")]
                calls,
            } => {
                let asked = runs::Asked {
                    data,
                    out,
                    unknown_data,
                    systems: None,
                    #[cfg(feature = "remote")]
                    dry_run,
                    #[cfg(feature = "remote")]
                    calls,
                };
                runs::run(&weights, &experiment, asked)
            }
            Command::Resume {
                run,
                #[cfg(feature = "remote")]
                calls,
            } => runs::resume(
                &weights,
                &run,
                #[cfg(feature = "remote")]
                calls,
            ),
            #[cfg(feature = "remote")]
            Command::Status { run } => stages::status(&run),
            #[cfg(feature = "remote")]
            Command::Failures { run } => stages::failures(&run),
            #[cfg(feature = "remote")]
            Command::Rejudge { run, judge, calls } => stages::rejudge(&run, &judge, &calls),
            Command::Score(asked) => score::score(&asked),
            #[cfg(feature = "remote")]
            Command::Oracle(arguments) => oracle::run(&arguments),
            Command::Runs { folder } => runs::list(&folder),
            Command::Show {
                run,
                question,
                data,
            } => runs::show(&run, &question, data),
            Command::Compare { left, right } => runs::compare(&left, &right),
            Command::Ingest {
                file,
                store,
                format,
            } => history::ingest(&weights, &file, &store, format),
            Command::Search {
                question,
                store,
                k,
                conversation,
                until,
                json,
            } => {
                let conversation = conversation.map(Into::into);
                let search = history::Search {
                    question,
                    k: k as usize,
                    conversation,
                    until,
                    json,
                };
                history::search(&weights, &store, &search)
            }
            Command::Import(arguments) => Ok(arguments.import(&mut std::io::stdout().lock())?),
            Command::Stats(arguments) => {
                std::io::stdout().write_all(arguments.answer()?.as_bytes())?;
                Ok(())
            }
            Command::Corpus(command) => corpus::run(command),
            Command::Data(command) => data::run(&weights, command),
            Command::Models(command) => models::run(&weights, command),
            #[cfg(unix)]
            Command::System(command) => system::run(&weights, *command),
            #[cfg(feature = "remote")]
            Command::Cache(command) => cache::run(command),
        }
    }
}

/// A progress bar on a terminal, nothing elsewhere.
fn bar(total: u64, what: &'static str) -> indicatif::ProgressBar {
    let style = "{msg} {wide_bar} {pos}/{len} {per_sec} {eta} left";
    let bar = indicatif::ProgressBar::new(total).with_message(what);
    match indicatif::ProgressStyle::with_template(style) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
