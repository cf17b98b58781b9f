use std::io;
use std::path::PathBuf;

use rawrag_corpus::{Benchmark, LoadError};
use rawrag_records::RecordError;

use crate::Format;

/// Why nothing was imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ImportError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{}: the file is empty; download it again", .0.display())]
    Empty(PathBuf),
    #[error(
        "{} line {line}: byte {byte} is not UTF-8; download the file again, or convert it",
        path.display()
    )]
    NotUtf8 {
        path: PathBuf,
        line: usize,
        byte: usize,
    },
    #[error("{} line {line} column {column}: {problem}; {mend}", path.display())]
    Damaged {
        path: PathBuf,
        line: usize,
        column: usize,
        problem: String,
        mend: &'static str,
    },
    #[error(
        "{}: no known result format: it holds {found}. Known are:\n{}name one with --format if the \
         file is a variant of it",
        path.display(),
        Format::list()
    )]
    UnknownFormat { path: PathBuf, found: String },
    #[error("{} is {second} and {} is {first}; import files of one format together", other.display(), path.display())]
    Mixed {
        path: PathBuf,
        first: Format,
        other: PathBuf,
        second: Format,
    },
    #[error(
        "{}: holds answers without grades (Zep's responses); give the file of grades with it",
        .0.display()
    )]
    ResponsesAlone(PathBuf),
    #[error(
        "{format} names questions of {benchmark}; give that benchmark's file with --benchmark-file"
    )]
    NeedsBenchmark {
        format: Format,
        benchmark: Benchmark,
    },
    #[error(
        "{} is {found} data, and {format} results are about {expected}",
        path.display()
    )]
    OtherBenchmark {
        path: PathBuf,
        found: Benchmark,
        format: Format,
        expected: Benchmark,
    },
    #[error(
        "nothing is called {name} to exclude: name a question's id, or one of the kinds {kinds}"
    )]
    UnknownExclusion { name: String, kinds: String },
    #[error(
        "{}: none of its {rows} rows is about a question of the benchmark; is it about another \
         benchmark, or another release? {example}",
        path.display()
    )]
    NothingJoined {
        path: PathBuf,
        rows: usize,
        example: String,
    },
    #[error(
        "{}: {first} and {second} are both about question {question}, and say different things; \
         take one of them out",
        path.display()
    )]
    Conflict {
        path: PathBuf,
        question: String,
        first: String,
        second: String,
    },
    #[error("{} is there already; name another folder, or remove it", .0.display())]
    Exists(PathBuf),
    #[error("give at least one result file")]
    NoFiles,
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Records(#[from] RecordError),
}

impl ImportError {
    /// Whether what was asked for makes no sense, whatever the files hold.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::NoFiles | Self::NeedsBenchmark { .. } | Self::UnknownExclusion { .. }
        )
    }
}
