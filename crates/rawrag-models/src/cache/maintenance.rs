//! Looking after a cache: counting, checking, shrinking and moving it.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    io::{BufRead, Write},
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::{
    Cache, CacheError, Entry, Key, Mode, exclusive_lock,
    segment::{self, Segment, Writer},
};

/// What a cache holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Requests that it can answer.
    pub entries: u64,
    /// Its segment files.
    pub segments: u64,
    /// Bytes of the segments.
    pub bytes: u64,
    /// Bytes of requests and replies before compression.
    pub unpacked_bytes: u64,
    /// By address.
    pub endpoints: BTreeMap<String, EndpointStats>,
}

/// What a cache holds of one address.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct EndpointStats {
    /// Requests that it can answer.
    pub entries: u64,
    /// Bytes of requests and replies before compression.
    pub unpacked_bytes: u64,
}

/// Counts what the cache in `folder` holds.
///
/// # Errors
/// When it cannot be read or is damaged.
pub fn stats(folder: &Path) -> Result<Stats, CacheError> {
    let mut stats = Stats::default();
    for path in segment::list(folder)? {
        stats.segments += 1;
        stats.bytes += fs::metadata(&path).map_err(CacheError::io(&path))?.len();
    }
    let cache = Cache::open(folder, Mode::ReadOnly)?;
    for key in keys(&cache) {
        let Some(entry) = cache.get(&key)? else {
            continue;
        };
        let bytes = (entry.request.body.len() + entry.reply.len()) as u64;
        stats.entries += 1;
        stats.unpacked_bytes += bytes;
        let endpoint = stats.endpoints.entry(entry.request.endpoint).or_default();
        endpoint.entries += 1;
        endpoint.unpacked_bytes += bytes;
    }
    Ok(stats)
}

/// What a check of every byte found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Entries that are whole, each under the key that its request has.
    pub entries: u64,
    /// Of those, how many repeat an earlier one, as when two processes asked the same.
    pub repeated: u64,
    /// Bytes of torn tails, which are no loss: their calls were never counted as made.
    pub torn_bytes: u64,
    /// What is damaged.
    pub damage: Vec<Damage>,
}

/// One damaged place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// The segment.
    pub segment: PathBuf,
    /// The first byte of the damaged entry.
    pub offset: u64,
    /// What is wrong.
    pub reason: String,
}

/// Reads every entry of the cache in `folder`, and compares each with its checksum and its key. What follows a damaged length in a segment cannot be read and is not
/// counted.
///
/// # Errors
/// When a file cannot be read; damage is no error here but the result.
pub fn verify(folder: &Path) -> Result<Verified, CacheError> {
    let mut verified = Verified::default();
    let mut seen = HashSet::new();
    for path in segment::list(folder)? {
        let mut segment = Segment::new(&path);
        let scan = match segment.scan(0) {
            Ok(scan) => scan,
            Err(error) => {
                verified.damage.push(damage(error)?);
                continue;
            }
        };
        if segment::covered(&path) > scan.whole {
            // What an index once covered was whole, so it is not torn.
            verified.damage.push(Damage {
                segment: path,
                offset: scan.whole,
                reason: "an entry that the index knows is not whole".into(),
            });
        } else {
            verified.torn_bytes += segment.length()?.saturating_sub(scan.whole);
        }
        for (key, offset) in scan.places {
            match check(&mut segment, key, offset) {
                Ok(()) => {
                    verified.entries += 1;
                    verified.repeated += u64::from(!seen.insert(key));
                }
                Err(error) => verified.damage.push(damage(error)?),
            }
        }
    }
    Ok(verified)
}

fn check(segment: &mut Segment, key: Key, offset: u64) -> Result<(), CacheError> {
    let packed = segment.read(offset)?;
    let entry = segment::unpack(&packed, segment.path(), offset)?;
    if entry.request.key() == key {
        return Ok(());
    }
    Err(CacheError::Damaged {
        segment: segment.path().to_owned(),
        offset,
        reason: "the entry's request has another key".into(),
    })
}

/// The damage that an error tells of; any other error stays one.
fn damage(error: CacheError) -> Result<Damage, CacheError> {
    match error {
        CacheError::Damaged {
            segment,
            offset,
            reason,
        } => Ok(Damage {
            segment,
            offset,
            reason,
        }),
        other => Err(other),
    }
}

/// What pruning did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Pruned {
    /// Entries that stayed.
    pub kept: u64,
    /// Entries that went.
    pub removed: u64,
}

/// Keeps the entries that `keep` picks, in one segment, and removes all others. The new segment is
/// complete before the first old one goes, so stopping half-way loses nothing.
///
/// # Errors
/// When another process has the cache open, an entry is damaged, or a file cannot be written.
pub fn prune(folder: &Path, keep: impl Fn(&Entry) -> bool) -> Result<Pruned, CacheError> {
    let _alone = exclusive_lock(folder)?;
    let old = segment::list(folder)?;
    let cache = Cache::load(folder, Mode::ReadOnly, None)?;
    let mut pruned = Pruned::default();
    let (_, mut writer) = Writer::create(folder, 0)?;
    for key in keys(&cache) {
        let Some(entry) = cache.get(&key)? else {
            continue;
        };
        if keep(&entry) {
            let packed = segment::pack(&key, &entry).map_err(CacheError::io(folder))?;
            writer.append(key, &packed)?;
            pruned.kept += 1;
        } else {
            pruned.removed += 1;
        }
    }
    writer.sync()?;
    writer.write_index()?;
    for path in old {
        fs::remove_file(&path).map_err(CacheError::io(&path))?;
        let index = segment::index_path(&path);
        if index.exists() {
            fs::remove_file(&index).map_err(CacheError::io(&index))?;
        }
    }
    Ok(pruned)
}

/// Writes every entry as a line of JSON, in the order of their keys, and gives their number. Equal
/// caches give equal bytes, however they came about.
///
/// # Errors
/// When an entry cannot be read or `to` cannot be written.
pub fn export(folder: &Path, to: &mut dyn Write) -> Result<u64, CacheError> {
    let cache = Cache::open(folder, Mode::ReadOnly)?;
    let mut count = 0;
    for key in keys(&cache) {
        let Some(entry) = cache.get(&key)? else {
            continue;
        };
        serde_json::to_writer(&mut *to, &entry)
            .map_err(std::io::Error::from)
            .and_then(|()| to.write_all(b"\n"))
            .map_err(CacheError::io(folder))?;
        count += 1;
    }
    to.flush().map_err(CacheError::io(folder))?;
    Ok(count)
}

/// What importing did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// Entries that are new.
    pub added: u64,
    /// Entries that were there.
    pub present: u64,
}

/// Adds entries that [`export`] wrote; one whose request is there already is left as it is.
///
/// # Errors
/// When a line is no entry, or the cache cannot be written.
pub fn import(folder: &Path, from: &mut dyn BufRead) -> Result<Imported, CacheError> {
    let cache = Cache::open(folder, Mode::ReadWrite)?;
    let mut imported = Imported::default();
    for (number, line) in from.lines().enumerate() {
        let line = line.map_err(CacheError::io(folder))?;
        let entry: Entry = serde_json::from_str(&line).map_err(|source| CacheError::Line {
            line: number + 1,
            source,
        })?;
        let before = cache.len();
        cache.put(&entry)?;
        if cache.len() > before {
            imported.added += 1;
        } else {
            imported.present += 1;
        }
    }
    cache.sync()?;
    Ok(imported)
}

/// The keys of a cache in order.
fn keys(cache: &Cache) -> Vec<Key> {
    let mut keys: Vec<Key> = cache.state().index.keys().copied().collect();
    keys.sort_unstable();
    keys
}
