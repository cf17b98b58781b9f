//! Questions whose gold answer is known to be wrong, as a list of ids.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rawrag_records::Key;

/// Questions by conversation and place.
///
/// # File
/// Lines of conversation, question and anything else, with tabs between them and the names
/// `conversation` and `question` at the top; the question is its place in the conversation's list,
/// from 0, or its id. Lines that begin with `#` are comments. `crates/rawrag-corpus/errata` has
/// LoCoMo's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Errata(BTreeSet<(String, String)>);

/// Why a file is no list of errata.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ErrataError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} line {line}: {problem}", path.display())]
    Line {
        path: PathBuf,
        line: usize,
        problem: String,
    },
}

impl Errata {
    /// Reads a list.
    ///
    /// # Errors
    /// When the file cannot be read, its first line does not name the columns, or a line has fewer
    /// than two.
    pub fn read(path: &Path) -> Result<Self, ErrataError> {
        let text = fs::read_to_string(path).map_err(|source| ErrataError::Io {
            path: path.to_owned(),
            source,
        })?;
        let wrong = |line: usize, problem: &str| ErrataError::Line {
            path: path.to_owned(),
            line,
            problem: problem.to_owned(),
        };
        let lines = (1..).zip(text.lines());
        let mut lines = lines.filter(|(_, line)| !line.starts_with('#') && !line.trim().is_empty());
        let (line, header) = lines.next().ok_or_else(|| wrong(1, "the list is empty"))?;
        if !header.starts_with("conversation\tquestion") {
            return Err(wrong(
                line,
                "the first columns must be `conversation` and `question`",
            ));
        }
        let mut listed = BTreeSet::new();
        for (line, text) in lines {
            let mut fields = text.split('\t').map(str::trim);
            match (fields.next(), fields.next()) {
                (Some(conversation), Some(question)) if !question.is_empty() => {
                    listed.insert((conversation.to_owned(), question.to_owned()));
                }
                _ => return Err(wrong(line, "a line needs a conversation and a question")),
            }
        }
        Ok(Self(listed))
    }

    /// Whether a question is on the list.
    pub fn lists(&self, key: &Key) -> bool {
        let named = |question: &str| {
            self.0
                .contains(&(key.conversation.clone(), question.to_owned()))
        };
        // LoCoMo's questions are called by conversation and place: `conv-26/5`.
        let place = key.question.strip_prefix(&key.conversation);
        named(&key.question) || place.and_then(|p| p.strip_prefix('/')).is_some_and(named)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
