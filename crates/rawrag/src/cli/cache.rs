use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::models::cache::{self, CacheError, Entry};

use super::failure::Failure;

#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Count what a cache holds, by address
    Stats {
        /// The cache's folder
        folder: PathBuf,
    },
    /// Read every entry and compare it with its checksum and its key
    Verify {
        /// The cache's folder
        folder: PathBuf,
    },
    /// Remove entries, and what was torn or kept twice
    Prune {
        /// The cache's folder
        folder: PathBuf,
        /// Remove entries that were kept more than this many days ago
        #[arg(long, value_name = "DAYS")]
        older_than: Option<u32>,
        /// Remove entries of addresses that begin so
        #[arg(long, value_name = "ADDRESS")]
        endpoint: Option<String>,
    },
    /// Write every entry as a line of JSON
    Export {
        /// The cache's folder
        folder: PathBuf,
        /// The file to write
        file: PathBuf,
    },
    /// Add entries that were exported
    Import {
        /// The cache's folder
        folder: PathBuf,
        /// The file to read
        file: PathBuf,
    },
}

pub(super) fn run(command: Command) -> Result<(), Failure> {
    let text = match command {
        Command::Stats { folder } => stats(&folder)?,
        Command::Verify { folder } => verify(&folder)?,
        Command::Prune {
            folder,
            older_than,
            endpoint,
        } => {
            let pruned = cache::prune(&folder, |entry| {
                !is_older(entry, older_than) && !is_at(entry, endpoint.as_deref())
            })?;
            format!("{} kept, {} removed\n", pruned.kept, pruned.removed)
        }
        Command::Export { folder, file } => {
            let mut to = BufWriter::new(File::create(&file).map_err(|e| about(&file, e))?);
            let count = cache::export(&folder, &mut to)?;
            format!("{count} entries in {}\n", file.display())
        }
        Command::Import { folder, file } => {
            let mut from = BufReader::new(File::open(&file).map_err(|e| about(&file, e))?);
            let imported = cache::import(&folder, &mut from)?;
            format!(
                "{} added, {} there already\n",
                imported.added, imported.present
            )
        }
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

fn stats(folder: &Path) -> Result<String, Failure> {
    let stats = cache::stats(folder)?;
    let mut text = format!(
        "entries: {}\nsegments: {}\nbytes: {}, {} before compression\n",
        stats.entries, stats.segments, stats.bytes, stats.unpacked_bytes
    );
    for (endpoint, held) in &stats.endpoints {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:8}  {endpoint}", held.entries);
    }
    Ok(text)
}

/// The counts, or all damage as a failure.
fn verify(folder: &Path) -> Result<String, Failure> {
    let found = cache::verify(folder)?;
    let mut text = format!(
        "{} entries whole, {} of them repeated; {} bytes torn\n",
        found.entries, found.repeated, found.torn_bytes
    );
    if found.damage.is_empty() {
        return Ok(text);
    }
    for damage in &found.damage {
        let (segment, offset) = (damage.segment.display(), damage.offset);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{segment}: damaged at byte {offset}: {}",
            damage.reason
        );
    }
    Err(Failure::Input(text.into()))
}

fn is_older(entry: &Entry, days: Option<u32>) -> bool {
    let kept = SystemTime::UNIX_EPOCH + Duration::from_secs(entry.kept_at);
    let age = SystemTime::now().duration_since(kept).unwrap_or_default();
    days.is_some_and(|days| age > Duration::from_secs(86_400) * days)
}

fn is_at(entry: &Entry, endpoint: Option<&str>) -> bool {
    endpoint.is_some_and(|begins| entry.request.endpoint.starts_with(begins))
}

fn about(file: &Path, error: std::io::Error) -> Failure {
    Failure::Input(format!("{}: {error}", file.display()).into())
}

impl From<CacheError> for Failure {
    fn from(error: CacheError) -> Self {
        match error {
            CacheError::Damaged { .. } | CacheError::Line { .. } => Self::Input(Box::new(error)),
            CacheError::Io { ref source, .. } if source.kind() == ErrorKind::NotFound => {
                Self::Input(Box::new(error))
            }
            _ => Self::Other(Box::new(error)),
        }
    }
}
