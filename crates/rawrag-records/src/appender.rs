use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::Record;
use crate::run::{RecordError, parse_lines, write_aside};

/// Appends records of one kind to a run. Made by [`crate::Run::appender`].
#[derive(Debug)]
pub struct Appender<R> {
    path: PathBuf,
    file: File,
    /// Half a hash of each identity: 16 bytes a record, whatever its key is.
    held: HashSet<[u8; 16]>,
    record: PhantomData<fn(&R)>,
}

impl<R: Record> Appender<R> {
    /// Opens the file at its last whole line, cutting off a torn one.
    pub(crate) fn open(path: &Path) -> Result<(Self, Vec<R>), RecordError> {
        let io = |source| RecordError::Io {
            path: path.to_owned(),
            source,
        };
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .map_err(io)?;
        let (records, whole) = parse_lines::<R>(path)?;
        if file.seek(SeekFrom::End(0)).map_err(io)? > whole {
            file.set_len(whole)
                .and_then(|()| file.sync_data())
                .map_err(io)?;
        }
        let held = records.iter().map(|r| mark(&r.identity())).collect();
        Ok((
            Self {
                path: path.to_owned(),
                file,
                held,
                record: PhantomData,
            },
            records,
        ))
    }

    /// Appends one record; it is on disk when this returns.
    ///
    /// # Errors
    /// When the file already holds a record of the same identity, or cannot be written.
    pub fn append(&mut self, record: &R) -> Result<(), RecordError> {
        self.append_all(std::slice::from_ref(record))
    }

    /// Appends records that were made together; all are on disk when this returns.
    ///
    /// # Errors
    /// As [`Appender::append`], and then none of them is written.
    pub fn append_all(&mut self, records: &[R]) -> Result<(), RecordError> {
        let io = |source| RecordError::Io {
            path: self.path.clone(),
            source,
        };
        let (mut lines, mut new) = (Vec::new(), HashSet::new());
        for record in records {
            let identity = record.identity();
            let mark = mark(&identity);
            if self.held.contains(&mark) || !new.insert(mark) {
                return Err(RecordError::Duplicate {
                    path: self.path.clone(),
                    line: self.held.len() + new.len() + 1,
                    identity,
                });
            }
            serde_json::to_writer(&mut lines, record).map_err(|e| io(e.into()))?;
            lines.push(b'\n');
        }
        self.file
            .write_all(&lines)
            .and_then(|()| self.file.sync_data())
            .map_err(io)?;
        self.held.extend(new);
        Ok(())
    }

    /// Takes out the records that `keep` refuses, all at once: those of a group that was cut off
    /// before it was whole. The file is written aside and then renamed into place.
    ///
    /// # Errors
    /// When the file is damaged or cannot be written; it is as it was then.
    pub fn retain(&mut self, keep: impl Fn(&R) -> bool) -> Result<Vec<R>, RecordError> {
        let (mut records, _) = parse_lines::<R>(&self.path)?;
        let before = records.len();
        records.retain(keep);
        if records.len() < before {
            write_aside(&self.path, |file| {
                let mut lines = Vec::new();
                for record in &records {
                    serde_json::to_writer(&mut lines, record)?;
                    lines.push(b'\n');
                }
                file.write_all(&lines)
            })
            .and_then(|()| OpenOptions::new().read(true).append(true).open(&self.path))
            .map(|file| self.file = file)
            .map_err(|source| RecordError::Io {
                path: self.path.clone(),
                source,
            })?;
            self.held = records.iter().map(|r| mark(&r.identity())).collect();
        }
        Ok(records)
    }

    /// Whether a record of this identity is on disk.
    pub fn holds(&self, identity: &str) -> bool {
        self.held.contains(&mark(identity))
    }
}

fn mark(identity: &str) -> [u8; 16] {
    let mut mark = [0; 16];
    mark.copy_from_slice(&Sha256::digest(identity)[..16]);
    mark
}
