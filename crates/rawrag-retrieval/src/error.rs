use std::path::PathBuf;

use rawrag_chunking::UnitError;
use rawrag_models::ModelError;

/// Why something cannot be indexed or retrieved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RetrievalError {
    /// A vector or a score holds what is no number.
    #[error("row {row} holds a value that is not a finite number")]
    NotANumber {
        /// The row.
        row: u32,
    },
    /// What a selector gave is no probability.
    #[error("{value} is no probability: a selector gives numbers from 0 to 1")]
    Probability {
        /// The value.
        value: f64,
    },
    /// Vectors of another length than the index holds.
    #[error("{found} components are no whole number of vectors of {expected}")]
    Dimension {
        /// Components of a vector in the index.
        expected: usize,
        /// Components given.
        found: usize,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file that is not an index.
    #[error("{} is not an index of this program, or is damaged: build it again", .0.display())]
    NotAnIndex(PathBuf),
    /// Settings that make no sense.
    #[error("{field}: {problem}")]
    Setting {
        /// Where in the settings.
        field: &'static str,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// A model could not compute.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Sizes of chunks that make no sense.
    #[error("chunks: {0}")]
    Unit(#[from] UnitError),
}
