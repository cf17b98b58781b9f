use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::{
    Answer, Appender, Assessment, Consumption, Difference, EvidenceItem, History, Ingestion,
    Judgment, Key, Manifest, Pruning, Record, Retrieval, SCHEMA_VERSION, Search, Selection,
    StoredObject, Timing, Usage, WriteDecision,
};

/// A run's folder.
#[derive(Debug)]
pub struct Run {
    folder: PathBuf,
    manifest: Manifest,
    /// Held while the run is written to.
    _owner: Option<File>,
}

/// The records of a complete run, in file order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Complete {
    /// One a question.
    pub retrievals: Vec<Retrieval>,
    /// One a conversation that was indexed.
    pub histories: Vec<History>,
    /// One a question, of a run that asks a memory system.
    pub searches: Vec<Search>,
    /// What the searches returned.
    pub evidence: Vec<EvidenceItem>,
    /// What memory systems took in.
    pub ingestions: Vec<Ingestion>,
    /// What they keep.
    pub exports: Vec<StoredObject>,
    /// What they decided about writes.
    pub decisions: Vec<WriteDecision>,
    /// What they say that they used.
    pub consumptions: Vec<Consumption>,
    /// One a question, of a run whose evidence a model selects.
    pub selections: Vec<Selection>,
    /// One a question, of a run whose evidence a model prunes.
    pub prunings: Vec<Pruning>,
    /// One a question and repetition.
    pub answers: Vec<Answer>,
    /// One an answer, judge and repetition of the judge.
    pub judgments: Vec<Judgment>,
    /// One a question, assessor and repetition of the assessor.
    pub assessments: Vec<Assessment>,
    /// Every attempt at a call to a service.
    pub usage: Vec<Usage>,
    /// Every stage in every process.
    pub timings: Vec<Timing>,
}

/// Why records cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum RecordError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is not a run: it has no manifest.json", .0.display())]
    NotARun(PathBuf),
    #[error("{}: {source}", path.display())]
    Manifest {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error(
        "{}: written with schema {found}, and this program reads schema {SCHEMA_VERSION}",
        path.display()
    )]
    Schema { path: PathBuf, found: u32 },
    #[error("{} line {line}: {source}", path.display())]
    Damaged {
        path: PathBuf,
        line: usize,
        source: serde_json::Error,
    },
    #[error("{} line {line}: a second record for {identity}", path.display())]
    Duplicate {
        path: PathBuf,
        line: usize,
        identity: String,
    },
    #[error(
        "{} was begun with other settings; start a new run, or restore these:\n{}",
        folder.display(),
        differences.iter().map(|d| format!("  {d}")).collect::<Vec<_>>().join("\n")
    )]
    Differs {
        folder: PathBuf,
        differences: Vec<Difference>,
    },
    #[error("{} is being written by {holder}; wait for it or choose another run", folder.display())]
    InUse { folder: PathBuf, holder: String },
    #[error(
        "{} is incomplete: its {kind} cover {found} of {expected} questions; resume it first",
        folder.display()
    )]
    Incomplete {
        folder: PathBuf,
        kind: &'static str,
        found: usize,
        expected: usize,
    },
    #[error("{} holds {found} questions, but not the {expected} it was begun for", folder.display())]
    OtherQuestions {
        folder: PathBuf,
        found: usize,
        expected: usize,
    },
    #[error("{} holds {kind} for {identity}, which it was not begun for", folder.display())]
    Unexpected {
        folder: PathBuf,
        kind: &'static str,
        identity: String,
    },
    #[error("{}: column {column}: {problem}", path.display())]
    Column {
        path: PathBuf,
        column: String,
        problem: String,
    },
    #[error("{} is packed as Parquet; build with the `frames` feature to read it", .0.display())]
    Packed(PathBuf),
}

impl Run {
    /// Begins a run in `folder`, or takes up the one that is there.
    ///
    /// # Errors
    /// [`RecordError::Differs`] when the run there was begun with other settings, data, models or
    /// code; [`RecordError::InUse`] when another process writes to it.
    pub fn resume(folder: &Path, manifest: Manifest) -> Result<Self, RecordError> {
        let io = |source| RecordError::Io {
            path: folder.to_owned(),
            source,
        };
        fs::create_dir_all(folder).map_err(io)?;
        let owner = own(folder)?;
        let path = folder.join("manifest.json");
        if path.exists() {
            let begun = read_manifest(folder)?;
            let differences = begun.differences(&manifest);
            if !differences.is_empty() {
                return Err(RecordError::Differs {
                    folder: folder.to_owned(),
                    differences,
                });
            }
            return Ok(Self {
                folder: folder.to_owned(),
                manifest: begun,
                _owner: Some(owner),
            });
        }
        write_aside(&path, |file| {
            Ok(serde_json::to_writer_pretty(file, &manifest)?)
        })
        .map_err(io)?;
        Ok(Self {
            folder: folder.to_owned(),
            manifest,
            _owner: Some(owner),
        })
    }

    /// Opens a run to write to it, with `change` made to its manifest: another judge, say.
    ///
    /// # Errors
    /// When there is no readable manifest, or another process writes to the run.
    pub fn amend(folder: &Path, change: impl FnOnce(&mut Manifest)) -> Result<Self, RecordError> {
        let mut manifest = read_manifest(folder)?;
        let owner = own(folder)?;
        change(&mut manifest);
        let path = folder.join("manifest.json");
        write_aside(&path, |file| {
            Ok(serde_json::to_writer_pretty(file, &manifest)?)
        })
        .map_err(|source| RecordError::Io {
            path: folder.to_owned(),
            source,
        })?;
        Ok(Self {
            folder: folder.to_owned(),
            manifest,
            _owner: Some(owner),
        })
    }

    /// Opens a run to read it, whether JSONL or packed.
    ///
    /// # Errors
    /// When there is no readable manifest of this schema.
    pub fn open(folder: &Path) -> Result<Self, RecordError> {
        Ok(Self {
            folder: folder.to_owned(),
            manifest: read_manifest(folder)?,
            _owner: None,
        })
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What it is.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Opens a kind of record for appending, with the records already there.
    ///
    /// # Errors
    /// When the file is damaged anywhere but in a torn last line, or holds an identity twice.
    pub fn appender<R: Record>(&self) -> Result<(Appender<R>, Vec<R>), RecordError> {
        Appender::open(&self.path::<R>("jsonl"))
    }

    /// All records of a kind, in file order: none when the run has no such file. A torn last
    /// line is left out.
    ///
    /// # Errors
    /// When the file is damaged elsewhere, or holds an identity twice.
    pub fn read<R: Record>(&self) -> Result<Vec<R>, RecordError> {
        let lines = self.path::<R>("jsonl");
        if lines.exists() {
            return Ok(parse_lines(&lines)?.0);
        }
        let packed = self.path::<R>("parquet");
        if packed.exists() {
            return read_packed(&packed);
        }
        Ok(Vec::new())
    }

    /// Checks that `records` are about exactly the questions the run was begun for, each once, or
    /// once in each of its repetitions.
    ///
    /// # Errors
    /// [`RecordError::Incomplete`], [`RecordError::OtherQuestions`] or [`RecordError::Unexpected`].
    pub fn require_complete<R: Record>(&self, records: &[R]) -> Result<(), RecordError> {
        let (folder, kind) = (|| self.folder.clone(), R::SCHEMA.kind);
        let wanted = &self.manifest.expected;
        let mut slots: BTreeMap<String, Vec<Key>> = R::slots(wanted)
            .into_iter()
            .map(|slot| (slot, Vec::new()))
            .collect();
        for record in records {
            let Some(key) = record.key() else { continue };
            match slots.get_mut(&record.slot()) {
                Some(keys) => keys.push(key),
                None => {
                    return Err(RecordError::Unexpected {
                        folder: folder(),
                        kind,
                        identity: record.identity(),
                    });
                }
            }
        }
        let expected = wanted.questions;
        let mut checked: Option<Vec<Key>> = None;
        for mut keys in slots.into_values() {
            keys.sort_unstable();
            let found = keys.len();
            if found < expected {
                return Err(RecordError::Incomplete {
                    folder: folder(),
                    kind,
                    found,
                    expected,
                });
            }
            if checked.as_ref() != Some(&keys) && !wanted.are(&keys) {
                return Err(RecordError::OtherQuestions {
                    folder: folder(),
                    found,
                    expected,
                });
            }
            checked = Some(keys);
        }
        Ok(())
    }

    /// Everything on record, if the run is complete.
    ///
    /// Answers, judgments and assessments are required where the manifest expects them, searches
    /// where there are any, retrievals where there are any or nothing else is there or expected: an
    /// imported run need not say what was retrieved.
    ///
    /// # Errors
    /// As [`Run::read`] and [`Run::require_complete`].
    pub fn read_complete(&self) -> Result<Complete, RecordError> {
        let complete = Complete {
            retrievals: self.read()?,
            histories: self.read()?,
            searches: self.read()?,
            evidence: self.read()?,
            ingestions: self.read()?,
            exports: self.read()?,
            decisions: self.read()?,
            consumptions: self.read()?,
            selections: self.read()?,
            prunings: self.read()?,
            answers: self.read()?,
            judgments: self.read()?,
            assessments: self.read()?,
            usage: self.read()?,
            timings: self.read()?,
        };
        if !complete.searches.is_empty() {
            self.require_complete(&complete.searches)?;
            self.require_evidence(&complete.searches, &complete.evidence)?;
        }
        let nothing_else = complete.searches.is_empty() && self.manifest.expected.answers == 0;
        if !complete.retrievals.is_empty() || nothing_else {
            self.require_complete(&complete.retrievals)?;
        }
        let refined_by = |part: &str| self.manifest.settings[part].is_object();
        if !complete.selections.is_empty() || refined_by("selector") {
            self.require_complete(&complete.selections)?;
        }
        if !complete.prunings.is_empty() || refined_by("pruner") {
            self.require_complete(&complete.prunings)?;
        }
        self.require_complete(&complete.answers)?;
        self.require_complete(&complete.judgments)?;
        self.require_complete(&complete.assessments)?;
        Ok(complete)
    }

    /// Checks that every search has the items that it says it returned, and nothing else has any.
    fn require_evidence(
        &self,
        searches: &[Search],
        evidence: &[EvidenceItem],
    ) -> Result<(), RecordError> {
        let mut items: HashMap<Key, u32> = HashMap::new();
        for item in evidence {
            *items.entry(item.question_key()).or_default() += 1;
        }
        let whole = searches
            .iter()
            .filter(|s| items.remove(&s.question_key()).unwrap_or(0) == s.returned)
            .count();
        if whole < searches.len() {
            return Err(RecordError::Incomplete {
                folder: self.folder.clone(),
                kind: EvidenceItem::SCHEMA.kind,
                found: whole,
                expected: searches.len(),
            });
        }
        match items.into_keys().min() {
            Some(key) => Err(RecordError::Unexpected {
                folder: self.folder.clone(),
                kind: EvidenceItem::SCHEMA.kind,
                identity: key.to_string(),
            }),
            None => Ok(()),
        }
    }

    pub(crate) fn path<R: Record>(&self, extension: &str) -> PathBuf {
        self.folder.join(format!("{}.{extension}", R::SCHEMA.kind))
    }
}

/// Writes a file beside `path` and renames it into place once it is on disk.
pub(crate) fn write_aside(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let aside = path.with_extension("part");
    let mut file = File::create(&aside)?;
    write(&mut file)?;
    file.sync_all()?;
    fs::rename(&aside, path)
}

/// Records of a JSONL file and the length in bytes of its whole lines.
pub(crate) fn parse_lines<R: Record>(path: &Path) -> Result<(Vec<R>, u64), RecordError> {
    let bytes = fs::read(path).map_err(|source| RecordError::Io {
        path: path.to_owned(),
        source,
    })?;
    let whole = bytes
        .iter()
        .rposition(|&byte| byte == b'\n')
        .map_or(0, |at| at + 1);
    let mut records = Vec::new();
    let mut lines = HashMap::new();
    for (line, text) in (1..).zip(bytes[..whole].split_inclusive(|&byte| byte == b'\n')) {
        let record: R = serde_json::from_slice(text).map_err(|source| RecordError::Damaged {
            path: path.to_owned(),
            line,
            source,
        })?;
        if lines.insert(record.identity(), line).is_some() {
            let identity = record.identity();
            return Err(RecordError::Duplicate {
                path: path.to_owned(),
                line,
                identity,
            });
        }
        records.push(record);
    }
    Ok((records, whole as u64))
}

#[cfg(feature = "frames")]
fn read_packed<R: Record>(path: &Path) -> Result<Vec<R>, RecordError> {
    crate::frames::read(path)
}

#[cfg(not(feature = "frames"))]
fn read_packed<R: Record>(path: &Path) -> Result<Vec<R>, RecordError> {
    Err(RecordError::Packed(path.to_owned()))
}

fn read_manifest(folder: &Path) -> Result<Manifest, RecordError> {
    #[derive(serde::Deserialize)]
    struct Version {
        schema: u32,
    }
    let path = folder.join("manifest.json");
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(RecordError::NotARun(folder.to_owned()));
        }
        Err(source) => return Err(RecordError::Io { path, source }),
    };
    let bad = |source| RecordError::Manifest {
        path: path.clone(),
        source,
    };
    let Version { schema } = serde_json::from_slice(&text).map_err(bad)?;
    if schema != SCHEMA_VERSION {
        return Err(RecordError::Schema {
            path,
            found: schema,
        });
    }
    serde_json::from_slice(&text).map_err(bad)
}

/// Takes the folder's lock, which the system gives back when the process ends however it ends.
fn own(folder: &Path) -> Result<File, RecordError> {
    let path = folder.join("owner");
    let io = |source| RecordError::Io {
        path: path.clone(),
        source,
    };
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(io)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let holder = fs::read_to_string(&path).unwrap_or_default();
            return Err(RecordError::InUse {
                folder: folder.to_owned(),
                holder: if holder.is_empty() {
                    "another process".to_owned()
                } else {
                    holder
                },
            });
        }
        Err(TryLockError::Error(source)) => return Err(io(source)),
    }
    file.set_len(0)
        .and_then(|()| write!(file, "process {}", std::process::id()))
        .map_err(io)?;
    Ok(file)
}
