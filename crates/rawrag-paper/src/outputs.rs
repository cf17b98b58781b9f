use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};

use rawrag_records::{History, Manifest, RecordError, Retrieval, Run};

/// The runs of a folder, each read once.
#[derive(Debug)]
pub struct Runs {
    folder: PathBuf,
    opened: BTreeMap<String, RunState>,
}

/// What stands under a run's name.
#[derive(Debug)]
pub enum RunState {
    /// No folder of that name.
    Missing,
    /// A run whose questions are not all answered.
    Incomplete {
        /// Questions on record.
        found: usize,
        /// Questions the run was begun for.
        expected: usize,
    },
    /// A run with every question on record.
    Complete(Box<Outputs>),
}

/// The records of a complete run.
#[derive(Debug)]
pub struct Outputs {
    /// What the run was.
    pub manifest: Manifest,
    /// One a question, ordered by key, so that sums do not depend on the order of work.
    pub retrievals: Vec<Retrieval>,
    /// The indexed conversations by id.
    pub histories: BTreeMap<String, History>,
}

impl Runs {
    /// The runs found in `folder`, which need not exist.
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            opened: BTreeMap::new(),
        }
    }

    /// Reads a run, or recalls it.
    ///
    /// # Errors
    /// When the run is there but damaged, or holds other questions than it was begun for.
    pub fn open(&mut self, name: &str) -> Result<&RunState, RecordError> {
        Ok(match self.opened.entry(name.to_owned()) {
            Entry::Occupied(held) => held.into_mut(),
            Entry::Vacant(free) => free.insert(read(&self.folder.join(name))?),
        })
    }
}

impl Runs {
    /// A run read before.
    pub(crate) fn opened(&self, name: &str) -> Option<&RunState> {
        self.opened.get(name)
    }

    /// The complete runs opened so far, by name.
    pub fn complete(&self) -> impl Iterator<Item = (&str, &Outputs)> {
        self.opened.iter().filter_map(|(name, state)| match state {
            RunState::Complete(outputs) => Some((name.as_str(), outputs.as_ref())),
            _ => None,
        })
    }
}

fn read(folder: &Path) -> Result<RunState, RecordError> {
    if !folder.exists() {
        return Ok(RunState::Missing);
    }
    let run = Run::open(folder)?;
    let mut retrievals: Vec<Retrieval> = run.read()?;
    match run.require_complete(&retrievals) {
        Err(RecordError::Incomplete {
            found, expected, ..
        }) => {
            return Ok(RunState::Incomplete { found, expected });
        }
        other => other?,
    }
    retrievals.sort_by_cached_key(Retrieval::question_key);
    let histories: Vec<History> = run.read()?;
    Ok(RunState::Complete(Box::new(Outputs {
        manifest: run.manifest().clone(),
        retrievals,
        histories: histories
            .into_iter()
            .map(|h| (h.conversation.clone(), h))
            .collect(),
    })))
}
