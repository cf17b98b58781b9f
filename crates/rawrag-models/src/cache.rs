//! Replies of services, kept by the whole request, so that no call is paid for twice and a reviewer
//! can prove that none was made.
//!
//! A cache is a folder. Every process appends to a segment of its own (`00000001.seg`), so any
//! number of processes may write at once; an index beside each segment (`00000001.idx`) makes
//! opening fast and can always be rebuilt. An entry is with the system as soon as [`Cache::put`]
//! returns: a killed process loses nothing, and after a power cut at most the end of its segment is
//! torn, which is dropped and fetched again. Damage anywhere else is an error that names the
//! segment and the offset. What other processes append is seen when the cache is next opened.
//!
//! ```
//! use rawrag_models::cache::{Cache, Entry, Mode, Request};
//!
//! # let folder = tempfile::tempdir()?;
//! let cache = Cache::open(folder.path(), Mode::ReadWrite)?;
//! let request = Request {
//!     endpoint: "http://127.0.0.1:8000/v1/embeddings".into(),
//!     body: r#"{"input":["Under the third flowerpot."],"model":"small"}"#.into(),
//!     repetition: 0,
//! };
//! let key = request.key();
//! assert!(cache.get(&key)?.is_none());
//! cache.put(&Entry::new(request, 200, r#"{"data":[]}"#.into()))?;
//! assert_eq!(cache.get(&key)?.map(|entry| entry.status), Some(200));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod maintenance;
mod segment;

use std::{
    collections::HashMap,
    fmt,
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use rustc_hash::FxBuildHasher;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use maintenance::{
    Damage, EndpointStats, Imported, Pruned, Stats, Verified, export, import, prune, stats, verify,
};

use segment::{Place, Segment, Writer};

/// The version of what a key covers and an entry holds. Part of every key.
pub const SCHEMA_VERSION: u32 = 1;

/// A request as its key covers it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The full address that the request was sent to.
    pub endpoint: String,
    /// The JSON body with its keys in order.
    pub body: String,
    /// Which of several identical requests this is, counted from 0, where an experiment asks the
    /// same thing more than once on purpose.
    pub repetition: u32,
}

impl Request {
    /// The address of its entry: SHA-256 over the schema version and every field, each preceded by
    /// its length.
    pub fn key(&self) -> Key {
        let mut hash = Sha256::new();
        let fields = [
            &SCHEMA_VERSION.to_le_bytes()[..],
            self.endpoint.as_bytes(),
            self.body.as_bytes(),
            &self.repetition.to_le_bytes(),
        ];
        for field in fields {
            hash.update((field.len() as u64).to_le_bytes());
            hash.update(field);
        }
        Key(hash.finalize().into())
    }
}

/// The content address of an entry; shown as lower-case hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key([u8; 32]);

impl Key {
    /// Its 32 bytes.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Its first 8 bytes as a number.
    pub(crate) fn first_u64(&self) -> u64 {
        let mut first = [0; 8];
        first.copy_from_slice(&self.0[..8]);
        u64::from_le_bytes(first)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A request and what came back, to the byte.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// What was asked.
    pub request: Request,
    /// The body that was answered, where the service refused the first one's output format and
    /// was asked again without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_body: Option<String>,
    /// The HTTP status.
    pub status: u16,
    /// The reply's body.
    pub reply: String,
    /// Seconds since 1970 when it was kept.
    pub kept_at: u64,
}

impl Entry {
    /// An entry that is kept now.
    pub fn new(request: Request, status: u16, reply: String) -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self {
            request,
            answered_body: None,
            status,
            reply,
            kept_at: now.map_or(0, |now| now.as_secs()),
        }
    }
}

/// Whether a cache may grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Misses are fetched and kept.
    ReadWrite,
    /// Nothing is written, and clients answer a miss with an error instead of a call.
    ReadOnly,
}

/// Why the cache cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// A file or folder cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A segment is not what was written.
    #[error(
        "{}: damaged at byte {offset}: {reason}; restore the file, or move it away and its calls are \
         made again", segment.display()
    )]
    Damaged {
        /// The segment.
        segment: PathBuf,
        /// Where the damaged entry begins.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
    /// Another process has the cache open, and what was asked needs it alone.
    #[error("{}: in use by another process; wait for it to end", folder.display())]
    InUse {
        /// The cache's folder.
        folder: PathBuf,
    },
    /// A cache that was opened to be read was asked to keep something.
    #[error("{}: opened read-only", folder.display())]
    ReadOnly {
        /// The cache's folder.
        folder: PathBuf,
    },
    /// A line that is imported is no entry.
    #[error("line {line}: not a cache entry: {source}")]
    Line {
        /// The line, counted from 1.
        line: usize,
        /// What is wrong.
        source: serde_json::Error,
    },
}

impl CacheError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}

/// An open cache.
#[derive(Debug)]
pub struct Cache {
    folder: PathBuf,
    mode: Mode,
    state: Mutex<State>,
    /// Held shared while the cache is open; [`prune`] needs it alone.
    _lock: Option<File>,
}

type Index = HashMap<Key, Place, FxBuildHasher>;

#[derive(Debug, Default)]
struct State {
    segments: Vec<Segment>,
    index: Index,
    writer: Option<Writer>,
}

impl Cache {
    /// Opens the cache in `folder`, which is made if it is not there and may be written.
    ///
    /// # Errors
    /// When files cannot be read or made, or a segment without an index is damaged.
    pub fn open(folder: &Path, mode: Mode) -> Result<Self, CacheError> {
        if mode == Mode::ReadWrite {
            fs::create_dir_all(folder).map_err(CacheError::io(folder))?;
        }
        let lock = shared_lock(folder, mode)?;
        Self::load(folder, mode, lock)
    }

    fn load(folder: &Path, mode: Mode, lock: Option<File>) -> Result<Self, CacheError> {
        let mut state = State::default();
        for path in segment::list(folder)? {
            let (segment, places) = Segment::open(&path, mode)?;
            let number = state.segments.len() as u32;
            state.index.reserve(places.len());
            for (key, offset) in places {
                let segment = number;
                state.index.insert(key, Place { segment, offset });
            }
            state.segments.push(segment);
        }
        Ok(Self {
            folder: folder.to_owned(),
            mode,
            state: Mutex::new(state),
            _lock: lock,
        })
    }

    /// Whether it may grow.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// How many requests it can answer.
    pub fn len(&self) -> usize {
        self.state().index.len()
    }

    /// Whether it can answer none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entry of `key`, checked against its checksum.
    ///
    /// # Errors
    /// When the segment cannot be read or is damaged there.
    pub fn get(&self, key: &Key) -> Result<Option<Entry>, CacheError> {
        let (packed, path, offset) = {
            let mut state = self.state();
            let Some(&place) = state.index.get(key) else {
                return Ok(None);
            };
            let Some(segment) = state.segments.get_mut(place.segment as usize) else {
                return Ok(None);
            };
            let packed = segment.read(place.offset)?;
            (packed, segment.path().to_owned(), place.offset)
        };
        segment::unpack(&packed, &path, offset).map(Some)
    }

    /// Keeps an entry and gives its key; an entry that is there already stays.
    ///
    /// # Errors
    /// When the cache is read-only or the segment cannot be written.
    pub fn put(&self, entry: &Entry) -> Result<Key, CacheError> {
        if self.mode == Mode::ReadOnly {
            let folder = self.folder.clone();
            return Err(CacheError::ReadOnly { folder });
        }
        let key = entry.request.key();
        let packed = segment::pack(&key, entry).map_err(CacheError::io(&self.folder))?;
        let mut state = self.state();
        if state.index.contains_key(&key) {
            return Ok(key);
        }
        let mut writer = match state.writer.take() {
            Some(writer) => writer,
            None => {
                let (segment, writer) = Writer::create(&self.folder, state.segments.len())?;
                state.segments.push(segment);
                writer
            }
        };
        // A writer that failed may have left half an entry, so it is not used again: the next
        // entry begins a new segment.
        let offset = writer.append(key, &packed)?;
        let segment = writer.number();
        state.index.insert(key, Place { segment, offset });
        state.writer = Some(writer);
        Ok(key)
    }

    /// Waits until what was kept is on the disk, so that it outlives a power cut.
    ///
    /// # Errors
    /// When the system cannot write.
    pub fn sync(&self) -> Result<(), CacheError> {
        match &self.state().writer {
            Some(writer) => writer.sync(),
            None => Ok(()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes the index of this process's segment. A failure costs the next opening time, nothing else.
impl Drop for Cache {
    fn drop(&mut self) {
        if let Some(writer) = self.state().writer.take() {
            let _ = writer.sync().and_then(|()| writer.write_index());
        }
    }
}

const LOCK: &str = "lock";

/// `None` where only reading is asked for and no writer left a lock, as in a committed cache.
fn shared_lock(folder: &Path, mode: Mode) -> Result<Option<File>, CacheError> {
    let path = folder.join(LOCK);
    let opened = match mode {
        Mode::ReadWrite => open_lock(&path),
        Mode::ReadOnly => File::open(&path),
    };
    let file = match (opened, mode) {
        (Ok(file), _) => file,
        (Err(_), Mode::ReadOnly) if folder.is_dir() => return Ok(None),
        (Err(source), _) => return Err(CacheError::Io { path, source }),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Err(CacheError::InUse {
            folder: folder.to_owned(),
        }),
        Err(TryLockError::Error(source)) => Err(CacheError::Io { path, source }),
    }
}

fn open_lock(path: &Path) -> io::Result<File> {
    File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
}

/// Takes the cache alone.
fn exclusive_lock(folder: &Path) -> Result<File, CacheError> {
    let path = folder.join(LOCK);
    let file = open_lock(&path).map_err(CacheError::io(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(CacheError::InUse {
            folder: folder.to_owned(),
        }),
        Err(TryLockError::Error(source)) => Err(CacheError::Io { path, source }),
    }
}
