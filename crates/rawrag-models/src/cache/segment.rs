//! One segment: its bytes, its index, its writer.
//!
//! A segment is [`MAGIC`] and then records: the payload's length, the length's complement, the key,
//! the first 8 bytes of SHA-256 over key and payload, and the payload, an [`Entry`] as JSON under
//! zstd. Integers are little-endian. An index is [`INDEX_MAGIC`], the bytes of the segment that it
//! covers, key and offset of every record in them, and the first 8 bytes of SHA-256 over all that.

use std::{
    cell::RefCell,
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};
use zstd::bulk::Compressor;

use super::{CacheError, Entry, Key, Mode};

const MAGIC: &[u8; 8] = b"rawrag-c";
const INDEX_MAGIC: &[u8; 8] = b"rawrag-i";
const HEADER: usize = 4 + 4 + 32 + 8;
const INDEXED: usize = 32 + 8;
/// Fast, and within a tenth of the densest level on replies of a few kilobytes.
const LEVEL: i32 = 1;

/// Where an entry is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) segment: u32,
    pub(super) offset: u64,
}

/// A segment to read from. Its file is opened when it is first read, as a cache of many runs has
/// many segments.
#[derive(Debug)]
pub(super) struct Segment {
    path: PathBuf,
    file: Option<File>,
}

/// Every record of a segment, and how many bytes they take with what precedes them.
#[derive(Debug)]
pub(super) struct Scan {
    pub(super) places: Vec<(Key, u64)>,
    pub(super) whole: u64,
}

/// The segments of a cache, oldest first.
pub(super) fn list(folder: &Path) -> Result<Vec<PathBuf>, CacheError> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(CacheError::io(folder))? {
        let path = entry.map_err(CacheError::io(folder))?.path();
        if path.extension().is_some_and(|extension| extension == "seg") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

impl Segment {
    /// Opens a segment with the places of its records: from its index where that is whole, and by
    /// reading what the index does not cover. Writes the index anew if there was more to read.
    pub(super) fn open(path: &Path, mode: Mode) -> Result<(Self, Vec<(Key, u64)>), CacheError> {
        let mut segment = Self::new(path);
        let length = segment.length()?;
        let (mut places, covered) = match read_index(path) {
            Some((places, covered)) if covered <= length => (places, covered),
            _ => (Vec::new(), 0),
        };
        if covered < length {
            let scan = segment.scan(covered)?;
            places.extend(scan.places);
            if scan.whole > covered && mode == Mode::ReadWrite {
                // An index only saves time; without room for it, the next opening reads again.
                let _ = write_index(path, &places, scan.whole);
            }
        }
        Ok((segment, places))
    }

    /// A segment without its index.
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            file: None,
        }
    }

    fn file(&mut self) -> Result<&mut File, CacheError> {
        match &mut self.file {
            Some(file) => Ok(file),
            closed => {
                let file = File::open(&self.path).map_err(CacheError::io(&self.path))?;
                Ok(closed.insert(file))
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn length(&self) -> Result<u64, CacheError> {
        let metadata = fs::metadata(&self.path).map_err(CacheError::io(&self.path))?;
        Ok(metadata.len())
    }

    /// Reads records from byte `from` on, 0 or the end of a record, up to the end or a torn tail.
    pub(super) fn scan(&mut self, from: u64) -> Result<Scan, CacheError> {
        let mut bytes = Vec::new();
        let file = self.file()?;
        file.seek(SeekFrom::Start(from))
            .and_then(|_| file.read_to_end(&mut bytes))
            .map_err(CacheError::io(&self.path))?;
        let mut scan = Scan {
            places: Vec::new(),
            whole: from,
        };
        let mut rest = bytes.as_slice();
        if from == 0 {
            match rest.split_first_chunk() {
                None => return Ok(scan),
                Some((magic, records)) if magic == MAGIC => rest = records,
                Some(_) => return Err(self.damaged(0, "not a cache segment".into())),
            }
            scan.whole = MAGIC.len() as u64;
        }
        loop {
            match split_record(rest) {
                Ok(Some((record, after))) => {
                    scan.places.push((record.key, scan.whole));
                    scan.whole += (rest.len() - after.len()) as u64;
                    rest = after;
                }
                Ok(None) => return Ok(scan),
                Err(reason) => return Err(self.damaged(scan.whole, reason)),
            }
        }
    }

    /// The packed entry at `offset`, checked.
    pub(super) fn read(&mut self, offset: u64) -> Result<Vec<u8>, CacheError> {
        let mut bytes = vec![0; HEADER];
        let file = self.file()?;
        file.seek(SeekFrom::Start(offset))
            .and_then(|_| file.read_exact(&mut bytes))
            .map_err(CacheError::io(&self.path))?;
        let Some(length) = payload_length(&bytes) else {
            return Err(self.damaged(offset, "its length is garbled".into()));
        };
        let rest = self.file()?.take(length as u64).read_to_end(&mut bytes);
        let read = rest.map_err(CacheError::io(&self.path))?;
        match split_record(&bytes) {
            Ok(Some((record, []))) if read == length => Ok(record.payload.to_vec()),
            Ok(_) => Err(self.damaged(offset, "the entry is cut off".into())),
            Err(reason) => Err(self.damaged(offset, reason)),
        }
    }

    fn damaged(&self, offset: u64, reason: String) -> CacheError {
        CacheError::Damaged {
            segment: self.path.clone(),
            offset,
            reason,
        }
    }
}

struct Record<'a> {
    key: Key,
    payload: &'a [u8],
}

fn payload_length(header: &[u8]) -> Option<usize> {
    let (length, rest) = header.split_first_chunk()?;
    let (complement, _) = rest.split_first_chunk()?;
    let length = u32::from_le_bytes(*length);
    (u32::from_le_bytes(*complement) == !length).then_some(length as usize)
}

/// The first record of `bytes` and what follows it; `None` for nothing or a torn tail, which is a
/// record that ends beyond the bytes, or zeros that a file system left for what it had not written.
fn split_record(bytes: &[u8]) -> Result<Option<(Record<'_>, &[u8])>, String> {
    let Some((header, rest)) = bytes.split_at_checked(HEADER) else {
        return Ok(None);
    };
    let Some(length) = payload_length(header) else {
        return match bytes.iter().all(|byte| *byte == 0) {
            true => Ok(None),
            false => Err("its length is garbled".into()),
        };
    };
    let Some((payload, after)) = rest.split_at_checked(length) else {
        return Ok(None);
    };
    let (key, sum) = header[8..].split_at(32);
    if checksum(&[key, payload]) != *sum {
        return match after.is_empty() {
            true => Ok(None),
            false => Err("its checksum differs".into()),
        };
    }
    let mut bytes = [0; 32];
    bytes.copy_from_slice(key);
    let key = Key(bytes);
    Ok(Some((Record { key, payload }, after)))
}

fn checksum(parts: &[&[u8]]) -> [u8; 8] {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part));
    let mut sum = [0; 8];
    sum.copy_from_slice(&hash.finalize()[..8]);
    sum
}

thread_local! {
    /// Making one takes longer than what it does for an entry.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
}

/// A record's bytes.
pub(super) fn pack(key: &Key, entry: &Entry) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(entry)?;
    let payload = COMPRESSOR.with_borrow_mut(|compressor| {
        let compressor = match compressor {
            Some(compressor) => compressor,
            None => compressor.insert(Compressor::new(LEVEL)?),
        };
        compressor.compress(&json)
    })?;
    let length = u32::try_from(payload.len())
        .map_err(|_| io::Error::other("a reply of more than 4 GiB cannot be kept"))?;
    let mut bytes = Vec::with_capacity(HEADER + payload.len());
    bytes.extend(length.to_le_bytes());
    bytes.extend((!length).to_le_bytes());
    bytes.extend(key.bytes());
    bytes.extend(checksum(&[key.bytes(), &payload]));
    bytes.extend(payload);
    Ok(bytes)
}

/// The entry in a payload that was read at `offset` of the segment at `path`.
pub(super) fn unpack(payload: &[u8], path: &Path, offset: u64) -> Result<Entry, CacheError> {
    let unpacked = zstd::stream::decode_all(payload);
    unpacked
        .and_then(|json| Ok(serde_json::from_slice(&json)?))
        .map_err(|error| CacheError::Damaged {
            segment: path.to_owned(),
            offset,
            reason: error.to_string(),
        })
}

/// Appends to a segment that belongs to this process alone.
#[derive(Debug)]
pub(super) struct Writer {
    path: PathBuf,
    file: File,
    number: u32,
    places: Vec<(Key, u64)>,
    end: u64,
}

impl Writer {
    /// Makes the next segment of `folder`. `number` is its place among the open segments.
    pub(super) fn create(folder: &Path, number: usize) -> Result<(Segment, Self), CacheError> {
        let last = list(folder)?.pop();
        let last = last.and_then(|path| path.file_stem()?.to_str()?.parse::<u64>().ok());
        let mut next = last.unwrap_or(0) + 1;
        let (path, mut file) = loop {
            let path = folder.join(format!("{next:08}.seg"));
            match File::create_new(&path) {
                Ok(file) => break (path, file),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => next += 1,
                Err(source) => return Err(CacheError::Io { path, source }),
            }
        };
        file.write_all(MAGIC).map_err(CacheError::io(&path))?;
        let segment = Segment::new(&path);
        let writer = Self {
            path,
            file,
            number: number as u32,
            places: Vec::new(),
            end: MAGIC.len() as u64,
        };
        Ok((segment, writer))
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Hands a packed record to the system and gives its offset.
    pub(super) fn append(&mut self, key: Key, packed: &[u8]) -> Result<u64, CacheError> {
        let offset = self.end;
        self.file
            .write_all(packed)
            .map_err(CacheError::io(&self.path))?;
        self.end += packed.len() as u64;
        self.places.push((key, offset));
        Ok(offset)
    }

    pub(super) fn sync(&self) -> Result<(), CacheError> {
        self.file.sync_data().map_err(CacheError::io(&self.path))
    }

    pub(super) fn write_index(&self) -> Result<(), CacheError> {
        write_index(&self.path, &self.places, self.end)
    }
}

/// The index's file of a segment's.
pub(super) fn index_path(segment: &Path) -> PathBuf {
    segment.with_extension("idx")
}

fn write_index(segment: &Path, places: &[(Key, u64)], covered: u64) -> Result<(), CacheError> {
    let mut bytes = Vec::with_capacity(24 + places.len() * INDEXED);
    bytes.extend(INDEX_MAGIC);
    bytes.extend(covered.to_le_bytes());
    for (key, offset) in places {
        bytes.extend(key.bytes());
        bytes.extend(offset.to_le_bytes());
    }
    bytes.extend(checksum(&[&bytes]));
    let path = index_path(segment);
    let folder = segment.parent().unwrap_or(Path::new("."));
    let mut aside = tempfile::NamedTempFile::new_in(folder).map_err(CacheError::io(folder))?;
    aside.write_all(&bytes).map_err(CacheError::io(&path))?;
    let renamed = aside.persist(&path).map_err(|error| error.error);
    renamed.map(drop).map_err(CacheError::io(&path))
}

/// How many bytes of a segment its index covers; 0 without one.
pub(super) fn covered(segment: &Path) -> u64 {
    read_index(segment).map_or(0, |(_, covered)| covered)
}

/// The places in a segment's index, and the bytes that it covers; `None` where it is not there or
/// not whole.
fn read_index(segment: &Path) -> Option<(Vec<(Key, u64)>, u64)> {
    let bytes = fs::read(index_path(segment)).ok()?;
    let (body, sum) = bytes.split_last_chunk::<8>()?;
    if checksum(&[body]) != *sum {
        return None;
    }
    let (magic, rest) = body.split_first_chunk()?;
    let (covered, entries) = rest.split_first_chunk()?;
    if magic != INDEX_MAGIC || entries.len() % INDEXED != 0 {
        return None;
    }
    let place = |entry: &[u8]| {
        let (key, offset) = entry.split_first_chunk()?;
        let (offset, _) = offset.split_first_chunk()?;
        Some((Key(*key), u64::from_le_bytes(*offset)))
    };
    let places = entries.chunks_exact(INDEXED).map(place);
    Some((places.collect::<Option<_>>()?, u64::from_le_bytes(*covered)))
}
