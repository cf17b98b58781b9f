use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use half::f16;
use memmap2::Mmap;
use rawrag_chunking::{Rendering, Transcript};
use rawrag_corpus::{Conversation, ConversationId, Timestamp};
use rawrag_models::{ModelIdentity, TokenEncoder, TokenVectors};
use serde::{Deserialize, Serialize};

use crate::late_interaction::MessageFacts;
use crate::retriever::encode;
use crate::{LateInteraction, RetrievalError, TokenIndex, best_of};

const SCHEMA: u32 = 2;
/// Messages encoded and made durable at a time.
const BATCH: usize = 256;

/// A history on disk, for everyday search by late interaction.
///
/// A store is a folder: `store.json` names the model and the generation, and the generation's
/// folder holds `messages.jsonl`, one message a line and the truth about what is stored, and
/// `tokens.f16`, the token vectors of the same messages in the same order (little-endian f16, each
/// word-piece `dimension` components). A message is stored once its line is on disk. Lines are
/// only appended: a conversation that changed is dropped by a line and appended anew, with the
/// vectors of its unchanged messages copied, and a generation half of which is dropped is written
/// afresh.
pub struct Store {
    folder: PathBuf,
    model: Arc<dyn TokenEncoder>,
    about: About,
    lines: Vec<Line>,
    /// Whether each line's message is part of its conversation as it is now.
    live: Vec<bool>,
    facts: Vec<MessageFacts>,
    tokens: TokenIndex,
    /// Held while the store is written to.
    owner: Option<File>,
}

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// There is no store in the folder.
    #[error("{} holds no store: make one with `rawrag ingest FILE --store {}`", .0.display(), .0.display())]
    Missing(PathBuf),
    /// A line or the description of the store is damaged.
    #[error("{} line {line}: {source}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// Fewer vectors than messages.
    #[error("{} is shorter than its messages need: ingest the history into a new store", .0.display())]
    Short(PathBuf),
    /// Another layout.
    #[error("{} has layout {found}, and this program reads {SCHEMA}: ingest the history into a new store", folder.display())]
    Schema {
        /// The store.
        folder: PathBuf,
        /// The layout it has.
        found: u32,
    },
    /// Another model's vectors.
    #[error("{} was made with {theirs}, not with {ours}: use that model, or ingest into a new store", folder.display())]
    OtherModel {
        /// The store.
        folder: PathBuf,
        /// The model it was made with.
        theirs: String,
        /// The model given.
        ours: String,
    },
    /// Another process is writing.
    #[error("{} is being written by {holder}; wait for it", folder.display())]
    InUse {
        /// The store.
        folder: PathBuf,
        /// Who writes.
        holder: String,
    },
    /// No such conversation.
    #[error("the store holds no conversation {asked:?}; it holds {held}")]
    NoConversation {
        /// The one asked for.
        asked: String,
        /// The first few that there are.
        held: String,
    },
    /// Encoding or scoring failed.
    #[error(transparent)]
    Retrieval(#[from] RetrievalError),
}

/// A message found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hit {
    /// Rank, from 1.
    pub rank: usize,
    /// What ordered it; only comparable within one search.
    pub score: f32,
    /// The message.
    #[serde(flatten)]
    pub message: StoredMessage,
}

/// A message as it is stored: the fields of chat JSONL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredMessage {
    /// Its conversation.
    pub conversation: String,
    /// Its session, as written.
    pub session: String,
    /// Its own date, else its session's.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub date: Option<Timestamp>,
    /// As written.
    pub id: String,
    /// Who said it.
    pub speaker: String,
    /// What was said.
    pub text: String,
    /// Captions of its images.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub captions: Vec<String>,
}

/// What an ingestion did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ingested {
    /// Messages that were stored already and have not changed.
    pub unchanged: usize,
    /// Messages stored again in another place without encoding them again.
    pub moved: usize,
    /// Messages encoded.
    pub encoded: usize,
    /// Messages dropped.
    pub dropped: usize,
}

impl std::ops::AddAssign for Ingested {
    fn add_assign(&mut self, other: Self) {
        self.unchanged += other.unchanged;
        self.moved += other.moved;
        self.encoded += other.encoded;
        self.dropped += other.dropped;
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct About {
    schema: u32,
    model: ModelIdentity,
    dimension: usize,
    generation: u32,
}

/// A line of `messages.jsonl`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Message {
        #[serde(flatten)]
        message: StoredMessage,
        /// Its session's position in the conversation.
        position: u32,
        pieces: Vec<u32>,
    },
    /// All lines of this conversation before here are dropped.
    Drop { drop: String },
}

impl Store {
    /// Opens a store to search it.
    ///
    /// # Errors
    /// When there is none, it is damaged, or it was made with another model.
    pub fn open(folder: &Path, model: Arc<dyn TokenEncoder>) -> Result<Self, StoreError> {
        let path = folder.join("store.json");
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Err(StoreError::Missing(folder.to_owned()));
            }
            Err(source) => return Err(StoreError::Io { path, source }),
        };
        let about: About = serde_json::from_slice(&text).map_err(|source| StoreError::Damaged {
            path,
            line: 1,
            source,
        })?;
        if about.schema != SCHEMA {
            return Err(StoreError::Schema {
                folder: folder.to_owned(),
                found: about.schema,
            });
        }
        if about.model != *model.identity() {
            return Err(StoreError::OtherModel {
                folder: folder.to_owned(),
                theirs: describe(&about.model),
                ours: describe(model.identity()),
            });
        }
        let generation = folder.join(about.generation.to_string());
        let (lines, _) = read_lines(&generation.join("messages.jsonl"))?;
        let path = generation.join("tokens.f16");
        let file = open_file(&path)?;
        // SAFETY: a store's files are only appended to or replaced, never changed in place.
        let map = unsafe { Mmap::map(&file) }.map_err(|source| StoreError::Io {
            path: path.clone(),
            source,
        })?;
        let rows = lines.iter().map(Line::pieces);
        let tokens =
            TokenIndex::mapped(about.dimension, map, rows).map_err(|_| StoreError::Short(path))?;
        let live = live(&lines);
        let facts = facts(&lines);
        Ok(Self {
            folder: folder.to_owned(),
            model,
            about,
            lines,
            live,
            facts,
            tokens,
            owner: None,
        })
    }

    /// Opens a store to add to it, or makes an empty one.
    ///
    /// # Errors
    /// As [`Self::open`], and when another process is writing to it.
    pub fn open_to_write(folder: &Path, model: Arc<dyn TokenEncoder>) -> Result<Self, StoreError> {
        fs::create_dir_all(folder).map_err(|source| StoreError::Io {
            path: folder.to_owned(),
            source,
        })?;
        let owner = own(folder)?;
        if !folder.join("store.json").exists() {
            let about = About {
                schema: SCHEMA,
                model: model.identity().clone(),
                dimension: model.dimension(),
                generation: 0,
            };
            start_generation(folder, &about)?;
            publish(folder, &about)?;
        }
        let mut store = Self::open(folder, model)?;
        store.owner = Some(owner);
        store.drop_torn()?;
        Ok(store)
    }

    /// Number of messages stored.
    pub fn len(&self) -> usize {
        self.live.iter().filter(|&&live| live).count()
    }

    /// Whether nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The messages of a conversation in their order; none where it is not stored.
    pub fn messages(&self, conversation: &ConversationId) -> impl Iterator<Item = &StoredMessage> {
        let live = self.lines.iter().zip(&self.live);
        live.filter(|&(_, &live)| live)
            .filter_map(move |(line, _)| match line {
                Line::Message { message, .. } if message.conversation == conversation.as_str() => {
                    Some(message)
                }
                _ => None,
            })
    }

    /// Makes the stored conversation of this id equal to `conversation`, encoding only messages
    /// that the store does not hold yet. Each batch of messages is on disk before `progress` is
    /// told how many of them that were.
    ///
    /// # Errors
    /// When the store was not opened to write, cannot be written, or the model cannot compute.
    /// What was reported to `progress` stays stored.
    pub fn ingest(
        &mut self,
        conversation: &Conversation,
        mut progress: impl FnMut(usize),
    ) -> Result<Ingested, StoreError> {
        let new = stored_messages(conversation);
        let old: Vec<usize> = (0..self.lines.len())
            .filter(|&row| {
                self.live[row] && self.lines[row].conversation() == conversation.id.as_str()
            })
            .collect();
        let same = old
            .iter()
            .zip(&new)
            .take_while(|&(&row, (position, message))| self.lines[row].is(*position, message))
            .count();
        // Rows of one conversation must stay together for the context of its last messages.
        let at_end = old.last().is_none_or(|&last| last + 1 == self.lines.len());
        let mut done = Ingested::default();
        let extends = same == old.len() && (at_end || same == new.len());
        let mut reuse: HashMap<String, usize> = HashMap::new();
        let mut pending = Vec::new();
        if extends {
            done.unchanged = same;
            progress(same);
        } else {
            reuse = old
                .iter()
                .map(|&row| (self.lines[row].spoken(), row))
                .collect();
            pending.push(Line::Drop {
                drop: conversation.id.to_string(),
            });
        }
        let spoken = Transcript::new(conversation, Rendering::Speaker);
        let rest = if extends { same } else { 0 };
        for batch in (rest..new.len()).collect::<Vec<_>>().chunks(BATCH) {
            let texts: Vec<&str> = batch
                .iter()
                .map(|&m| spoken.messages(m as u32..m as u32 + 1))
                .collect();
            let fresh: Vec<&str> = texts
                .iter()
                .copied()
                .filter(|text| !reuse.contains_key(*text))
                .collect();
            let mut encoded = self
                .model
                .encode_tokens(&fresh)
                .map_err(RetrievalError::from)?
                .into_iter();
            let mut rows = Vec::with_capacity(batch.len());
            for text in texts {
                rows.push(match reuse.get(text) {
                    Some(&row) => {
                        done.moved += 1;
                        self.stored_vectors(row)
                    }
                    None => {
                        done.encoded += 1;
                        let missing = RetrievalError::Dimension {
                            expected: fresh.len(),
                            found: 0,
                        };
                        encoded.next().ok_or(missing)?
                    }
                });
            }
            pending.extend(batch.iter().zip(&rows).map(|(&m, row)| Line::Message {
                message: new[m].1.clone(),
                position: new[m].0,
                pieces: row.pieces.clone(),
            }));
            self.append(&mut pending, &rows)?;
            progress(batch.len());
        }
        if !pending.is_empty() {
            self.append(&mut pending, &[])?;
        }
        if !extends {
            let kept = done.moved.min(old.len());
            done.dropped = old.len() - kept;
        }
        self.live = live(&self.lines);
        if self.live.len() > 2 * self.len() + BATCH {
            self.write_afresh()?;
        }
        Ok(done)
    }

    /// The `k` messages that answer `question` best, of one conversation or of all, leaving out
    /// everything dated after `cutoff`.
    ///
    /// # Errors
    /// When there is no such conversation, or the model cannot compute.
    pub fn search(
        &self,
        question: &str,
        k: usize,
        conversation: Option<&ConversationId>,
        cutoff: Option<Timestamp>,
        settings: &LateInteraction,
    ) -> Result<Vec<Hit>, StoreError> {
        if let Some(asked) = conversation {
            self.require(asked)?;
        }
        let visible = |row: usize| {
            self.live[row]
                && conversation.is_none_or(|c| self.lines[row].conversation() == c.as_str())
                && cutoff
                    .is_none_or(|cutoff| self.facts[row].date.is_none_or(|date| date <= cutoff))
        };
        let query = encode(self.model.as_ref(), question)?;
        let scores = settings.score(&self.tokens, &self.facts, question, &query, visible)?;
        let candidates = (0..)
            .zip(scores)
            .filter(|&(row, score)| visible(row as usize) && score.is_finite());
        let hits = best_of(candidates, k)?;
        let hit = |(rank, scored): (usize, crate::Scored)| match &self.lines[scored.row as usize] {
            Line::Message { message, .. } => Some(Hit {
                rank,
                score: scored.score,
                message: message.clone(),
            }),
            Line::Drop { .. } => None,
        };
        Ok((1..).zip(hits).filter_map(hit).collect())
    }

    fn require(&self, asked: &ConversationId) -> Result<(), StoreError> {
        let mut held: Vec<&str> = (0..self.lines.len())
            .filter(|&row| self.live[row])
            .map(|row| self.lines[row].conversation())
            .collect();
        held.dedup();
        if held.contains(&asked.as_str()) {
            return Ok(());
        }
        let more = held.len().saturating_sub(5);
        held.truncate(5);
        let mut held = held.join(", ");
        if more > 0 {
            held.push_str(&format!(" and {more} more"));
        }
        Err(StoreError::NoConversation {
            asked: asked.to_string(),
            held,
        })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder
            .join(self.about.generation.to_string())
            .join(name)
    }

    fn stored_vectors(&self, row: usize) -> TokenVectors {
        let vectors = self.tokens.vectors(self.tokens.row(row));
        TokenVectors {
            pieces: self.lines[row].pieces().to_vec(),
            vectors: vectors.iter().map(|x| x.to_f32()).collect(),
            pooled: Vec::new(),
        }
    }

    /// Makes lines durable, the vectors of their messages first.
    fn append(&mut self, lines: &mut Vec<Line>, rows: &[TokenVectors]) -> Result<(), StoreError> {
        if self.owner.is_none() {
            let source = io::Error::new(io::ErrorKind::PermissionDenied, "opened to search only");
            return Err(StoreError::Io {
                path: self.folder.clone(),
                source,
            });
        }
        let halves: Vec<f16> = rows
            .iter()
            .flat_map(|row| &row.vectors)
            .map(|&x| f16::from_f32(x))
            .collect();
        append_bytes(&self.file("tokens.f16"), bytemuck::cast_slice(&halves))?;
        let path = self.file("messages.jsonl");
        let mut text = Vec::new();
        for line in lines.iter() {
            serde_json::to_writer(&mut text, line).map_err(|e| StoreError::Io {
                path: path.clone(),
                source: e.into(),
            })?;
            text.push(b'\n');
        }
        append_bytes(&path, &text)?;
        let mut rows = rows.iter();
        for line in lines.drain(..) {
            let empty = TokenVectors {
                pieces: vec![],
                vectors: vec![],
                pooled: vec![],
            };
            self.tokens.push(match &line {
                Line::Message { .. } => rows.next().unwrap_or(&empty),
                Line::Drop { .. } => &empty,
            })?;
            self.facts
                .push(next_facts(self.lines.last(), self.facts.last(), &line));
            self.lines.push(line);
            self.live.push(true);
        }
        Ok(())
    }

    /// Cuts off what an interrupted ingestion wrote beyond its last whole line.
    fn drop_torn(&self) -> Result<(), StoreError> {
        let messages = self.file("messages.jsonl");
        let (_, whole) = read_lines(&messages)?;
        cut(&messages, whole)?;
        let tokens = (self.tokens.tokens() * self.about.dimension * size_of::<f16>()) as u64;
        cut(&self.file("tokens.f16"), tokens)
    }

    /// Writes what is live into a new generation.
    fn write_afresh(&mut self) -> Result<(), StoreError> {
        let before = self.file("");
        let about = About {
            generation: self.about.generation + 1,
            ..self.about.clone()
        };
        start_generation(&self.folder, &about)?;
        let generation = self.folder.join(about.generation.to_string());
        let path = generation.join("tokens.f16");
        let io = |source| StoreError::Io {
            path: path.clone(),
            source,
        };
        let mut file = BufWriter::new(File::create(&path).map_err(io)?);
        for row in (0..self.lines.len()).filter(|&row| self.live[row]) {
            let vectors = self.tokens.vectors(self.tokens.row(row));
            file.write_all(bytemuck::cast_slice(vectors)).map_err(io)?;
        }
        file.into_inner()
            .map_err(|e| io(e.into_error()))?
            .sync_all()
            .map_err(io)?;
        let path = generation.join("messages.jsonl");
        let mut text = Vec::new();
        for (line, _) in self.lines.iter().zip(&self.live).filter(|&(_, &live)| live) {
            serde_json::to_writer(&mut text, line).map_err(|e| StoreError::Io {
                path: path.clone(),
                source: e.into(),
            })?;
            text.push(b'\n');
        }
        append_bytes(&path, &text)?;
        publish(&self.folder, &about)?;
        let owner = self.owner.take();
        *self = Self::open(&self.folder.clone(), self.model.clone())?;
        self.owner = owner;
        // The old generation is no longer named; leaving it behind would only cost space.
        let _ = fs::remove_dir_all(before);
        Ok(())
    }
}

impl Line {
    fn conversation(&self) -> &str {
        match self {
            Self::Message { message, .. } => &message.conversation,
            Self::Drop { drop } => drop,
        }
    }

    fn pieces(&self) -> &[u32] {
        match self {
            Self::Message { pieces, .. } => pieces,
            Self::Drop { .. } => &[],
        }
    }

    fn is(&self, at: u32, other: &StoredMessage) -> bool {
        matches!(self, Self::Message { message, position, .. } if *position == at && message == other)
    }

    /// The text that was encoded.
    fn spoken(&self) -> String {
        let Self::Message { message, .. } = self else {
            return String::new();
        };
        let captions = message
            .captions
            .iter()
            .map(|caption| format!(" [image: {caption}]"));
        format!(
            "{}: {}{}",
            message.speaker,
            message.text,
            captions.collect::<String>()
        )
    }
}

fn stored_messages(conversation: &Conversation) -> Vec<(u32, StoredMessage)> {
    let session = |position: u32| &conversation.sessions[position as usize];
    conversation
        .messages()
        .map(|(position, _, message)| {
            let stored = StoredMessage {
                conversation: conversation.id.to_string(),
                session: session(position.0).id.to_string(),
                date: conversation.date_of(position, message),
                id: message.id.to_string(),
                speaker: message.speaker.clone(),
                text: message.text.clone(),
                captions: message.captions.clone(),
            };
            (position.0, stored)
        })
        .collect()
}

fn live(lines: &[Line]) -> Vec<bool> {
    let mut dropped = std::collections::HashSet::new();
    let mut live: Vec<bool> = lines
        .iter()
        .rev()
        .map(|line| match line {
            Line::Message { message, .. } => !dropped.contains(message.conversation.as_str()),
            Line::Drop { drop } => {
                dropped.insert(drop.as_str());
                false
            }
        })
        .collect();
    live.reverse();
    live
}

fn facts(lines: &[Line]) -> Vec<MessageFacts> {
    let mut facts: Vec<MessageFacts> = Vec::with_capacity(lines.len());
    for (row, line) in lines.iter().enumerate() {
        let before = row.checked_sub(1).map(|row| &lines[row]);
        let next = next_facts(before, facts.last(), line);
        facts.push(next);
    }
    facts
}

/// The facts of a line, given the line before it and that line's facts. Sessions are numbered over
/// the whole store, so that neighbouring sessions never share a number.
fn next_facts(before: Option<&Line>, last: Option<&MessageFacts>, line: &Line) -> MessageFacts {
    let last = last.map_or(0, |facts| facts.session);
    match (before, line) {
        (_, Line::Drop { .. }) => MessageFacts {
            session: last + 1,
            speaker: String::new(),
            date: None,
        },
        (
            before,
            Line::Message {
                message, position, ..
            },
        ) => {
            let goes_on = matches!(before, Some(Line::Message { message: m, position: p, .. })
                if m.conversation == message.conversation && p == position);
            MessageFacts {
                session: if goes_on { last } else { last + 1 },
                speaker: message.speaker.clone(),
                date: message.date,
            }
        }
    }
}

fn read_lines(path: &Path) -> Result<(Vec<Line>, u64), StoreError> {
    let mut reader = BufReader::new(open_file(path)?);
    let (mut lines, mut whole, mut text) = (Vec::new(), 0, Vec::new());
    loop {
        text.clear();
        let read = reader
            .read_until(b'\n', &mut text)
            .map_err(|source| StoreError::Io {
                path: path.to_owned(),
                source,
            })?;
        if text.last() != Some(&b'\n') {
            return Ok((lines, whole));
        }
        let line = serde_json::from_slice(&text).map_err(|source| StoreError::Damaged {
            path: path.to_owned(),
            line: lines.len() + 1,
            source,
        })?;
        lines.push(line);
        whole += read as u64;
    }
}

fn open_file(path: &Path) -> Result<File, StoreError> {
    File::open(path).map_err(|source| StoreError::Io {
        path: path.to_owned(),
        source,
    })
}

fn append_bytes(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let append = || {
        let mut file = OpenOptions::new().append(true).open(path)?;
        file.write_all(bytes)?;
        file.sync_data()
    };
    append().map_err(|source| StoreError::Io {
        path: path.to_owned(),
        source,
    })
}

fn cut(path: &Path, length: u64) -> Result<(), StoreError> {
    let cut = || {
        let mut file = OpenOptions::new().write(true).open(path)?;
        if file.seek(SeekFrom::End(0))? > length {
            file.set_len(length)?;
            file.sync_data()?;
        }
        Ok(())
    };
    cut().map_err(|source| StoreError::Io {
        path: path.to_owned(),
        source,
    })
}

fn start_generation(folder: &Path, about: &About) -> Result<(), StoreError> {
    let generation = folder.join(about.generation.to_string());
    let start = || {
        fs::create_dir_all(&generation)?;
        for name in ["messages.jsonl", "tokens.f16"] {
            File::create(generation.join(name))?.sync_all()?;
        }
        Ok(())
    };
    start().map_err(|source| StoreError::Io {
        path: generation.clone(),
        source,
    })
}

fn publish(folder: &Path, about: &About) -> Result<(), StoreError> {
    let path = folder.join("store.json");
    let publish = || {
        let aside = path.with_extension("part");
        let mut file = File::create(&aside)?;
        serde_json::to_writer_pretty(&mut file, about)?;
        file.sync_all()?;
        fs::rename(&aside, &path)
    };
    publish().map_err(|source| StoreError::Io {
        path: path.clone(),
        source,
    })
}

/// Takes the folder's lock, which the system gives back when the process ends however it ends.
fn own(folder: &Path) -> Result<File, StoreError> {
    let path = folder.join("owner");
    let io = |source| StoreError::Io {
        path: path.clone(),
        source,
    };
    let mut options = File::options();
    let mut file = options
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
            return Err(StoreError::InUse {
                folder: folder.to_owned(),
                holder,
            });
        }
        Err(TryLockError::Error(source)) => return Err(io(source)),
    }
    file.set_len(0)
        .and_then(|()| write!(file, "process {}", std::process::id()))
        .map_err(io)?;
    Ok(file)
}

fn describe(model: &ModelIdentity) -> String {
    match &model.sha256 {
        Some(hash) => format!("{} ({})", model.name, hash.get(..12).unwrap_or(hash)),
        None => model.name.clone(),
    }
}
