use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a file was not loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be opened or read.
    #[error("{}: {source}", .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What stands in the file cannot be taken as it is.
    #[error("{0}")]
    Content(Box<Fault>),
}

/// What is wrong in a file, where, and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1. In a JSON array whose element is whole but wrong, the element's first.
    pub line: Option<u64>,
    /// The element, id and field; empty where the whole file is meant.
    pub place: String,
    /// What is wrong.
    pub problem: String,
    /// How to mend it.
    pub mend: &'static str,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        if !self.place.is_empty() {
            write!(f, ", {}", self.place)?;
        }
        write!(f, ": {}; {}", self.problem, self.mend)
    }
}

impl From<Fault> for LoadError {
    fn from(fault: Fault) -> Self {
        Self::Content(Box::new(fault))
    }
}
