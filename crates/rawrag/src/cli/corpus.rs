use std::io::Write;
use std::path::PathBuf;

use crate::corpus::{Format, LoadError, read};

use super::failure::Failure;

#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Read a history or benchmark file and report everything odd in it
    Check {
        /// The file, or a folder with history.jsonl
        file: PathBuf,
        /// locomo, longmemeval, beam, chat-jsonl, ... [default: told from the content]
        #[arg(long)]
        format: Option<Format>,
    },
}

pub(super) fn run(command: Command) -> Result<(), Failure> {
    let Command::Check { file, format } = command;
    let report = read::<LoadError>(&file, format, |_| Ok(()))?;
    writeln!(std::io::stdout(), "{report}")?;
    Ok(())
}
