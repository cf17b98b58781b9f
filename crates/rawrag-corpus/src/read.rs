//! Readers of history files.

mod beam;
mod chat_jsonl;
mod chatgpt;
mod elements;
mod films;
mod locomo;
mod long_mt_bench;
mod longmemeval;
mod meme;
mod memoryagentbench;
#[cfg(feature = "parquet")]
mod parquet;
mod personamem;
#[cfg(feature = "pieces")]
mod pieces;
mod python;
mod quoted;
mod sessions;
mod synthetic;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::LoadError;
use crate::hash::{ContentHasher, known_release};
use crate::meme::Annotated;
use crate::report::{Notes, Oddity, Report, Totals};
use crate::{Answer, Benchmark, Conversation, ConversationId, Question};
use elements::{Elements, Place, WRONG_FILE};

/// A layout of history files.
///
/// # Chat JSONL
/// Our own format: UTF-8, one message a line, each line an object.
///
/// | field | | |
/// | --- | --- | --- |
/// | `conversation` | required | Conversation id. A conversation's lines stand together. |
/// | `speaker` | required | The speaker's name. |
/// | `text` | required | What was said; may be empty. |
/// | `session` | optional | Session id, on all lines of a conversation or on none. Without it, each calendar day is a session, or the whole conversation (`undated`) where no message has a date; an undated message belongs to the session of the message ahead of it. |
/// | `date` | optional | As [`Timestamp`](crate::Timestamp) reads it. A session begins at its first date. |
/// | `id` | optional | Unique in the conversation. Without it, `SESSION:N`, N counted from 1 in the session. |
/// | `captions` | optional | Captions of images shared with the message, a list of strings. |
///
/// Any other field is an error, so that a misspelt one is not lost. Questions about
/// `history.jsonl` stand beside it in `questions.jsonl`, one a line:
///
/// | field | | |
/// | --- | --- | --- |
/// | `conversation`, `id`, `kind`, `question` | required | `id` is unique in its conversation and phase. |
/// | `answer` | optional | A string, number, truth value or list of them; not empty. |
/// | `lure` | optional | The wrong answer that an adversarial question invites. |
/// | `explanation` | optional | Why the right thing is to abstain. Neither `answer` nor `lure` may stand beside it. |
/// | `evidence` | optional | Message ids, a list of strings. |
/// | `asked` | optional | The date that it is asked at: nothing later may be used. |
/// | `phase` | optional | `before` or `after`. |
///
/// # ChatGPT
/// `conversations.json` of an export: the branch that ends at `current_node`, messages of user and
/// assistant only, dates in UTC with offset 0, a session for each calendar day.
///
/// # BEAM
/// A chat is a folder with `chat.json` and `probing_questions/probing_questions.json`; a folder of
/// such folders is read in the order of their numbers. Each batch is a session; a chat of 10M tokens
/// is the batches of its plans. Rubrics are kept point by point; `abstention` questions are
/// [`Gold::Abstention`](crate::Gold::Abstention). Real chats of 100K and 1M tokens have exercised
/// this reader, one of 10M has not.
///
/// # MemoryAgentBench
/// The four splits as JSON, JSON lines or (feature `parquet`) Parquet, one or all in a folder. A
/// context becomes ingestion units: the dated sessions of its LongMemEval source, the numbered facts
/// of FactConsolidation, else pieces of at most 4,096 tokens (o200k_base) that end where a sentence
/// or a labelled example does. A question's source is the release's `metadata.source`. No real file
/// has exercised this reader.
///
/// # PersonaMem
/// PersonaMem-v2's `benchmark.csv` with the 32k histories it links to, or the release's folder.
/// System messages are left out. Options are in an order of their own, the same in every run, since
/// the release has none but the right reply first. No real file has exercised this reader.
///
/// # Long-MT-Bench+
/// Rows of `sessions`, `questions`, `answers` and `conversation_id`, as JSON, JSON lines or (feature
/// `parquet`) Parquet. No real file has exercised this reader.
///
/// # LongMemEval
/// S, M and oracle have one layout; they differ in the number of sessions. Real S and oracle
/// questions have exercised the reader, M has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// LoCoMo's release: an array of samples.
    Locomo,
    /// LongMemEval's release (S, M, oracle): an array of questions, each with its own haystack.
    Longmemeval,
    /// Our own: one message a line.
    ChatJsonl,
    /// `conversations.json` of a ChatGPT export: an array of conversations.
    Chatgpt,
    /// MEME's release: an array of episodes.
    Meme,
    /// Chat JSONL made by [`synthetic`](crate::synthetic), told by its conversation ids.
    Synthetic,
    /// BEAM's release: a folder a chat.
    Beam,
    /// MemoryAgentBench's release: rows of a context and its questions.
    Memoryagentbench,
    /// PersonaMem-v2's release: `benchmark.csv` and the histories it links to.
    Personamem,
    /// Long-MT-Bench+: rows of sessions and their questions.
    LongMtBenchPlus,
}

/// One conversation and the questions about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The conversation.
    pub conversation: Conversation,
    /// In source order.
    pub questions: Vec<Question>,
}

/// A whole file in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// In source order.
    pub entries: Vec<Entry>,
    /// Format, content hash, totals and everything odd.
    pub report: Report,
}

/// Loads a file, or a folder: one that holds `history.jsonl`, BEAM chats, the splits of
/// MemoryAgentBench or PersonaMem's release. The format is told from the content unless named.
///
/// # Errors
/// [`LoadError`]: the file cannot be read, is in no known format, is damaged, or holds something
/// that cannot be taken as it is (an empty gold answer, a bad date, a repeated id).
pub fn load(path: &Path, format: Option<Format>) -> Result<Loaded, LoadError> {
    let mut entries = Vec::new();
    let report = read::<LoadError>(path, format, |entry| {
        entries.push(entry);
        Ok(())
    })?;
    Ok(Loaded { entries, report })
}

/// Reads as [`load`] does, but hands over one conversation at a time and keeps none: memory is
/// bounded by the largest conversation (and, for chat JSONL, its questions file).
///
/// # Errors
/// As [`load`], and the first error that `each` returns.
pub fn read<E: From<LoadError>>(
    path: &Path,
    format: Option<Format>,
    mut each: impl FnMut(Entry) -> Result<(), E>,
) -> Result<Report, E> {
    let mut files = history_files(path)?;
    let format = match format {
        Some(format) => format,
        None => detect(path, &files)?,
    };
    if format == Format::Beam {
        files = beam::chats(path);
    }
    let mut entries = Entries::new(format, path, &files)?;
    let mut notes = Notes::default();
    let mut totals = Totals::default();
    let mut hasher = ContentHasher::new(format.benchmark());
    let mut seen: HashMap<ConversationId, String> = HashMap::new();
    while let Some((entry, place)) = entries.next(&mut notes)? {
        if let Some(earlier) = seen.insert(entry.conversation.id.clone(), place.to_string()) {
            let problem = format!(
                "conversation {} stands in the file more than once, first at {earlier}",
                entry.conversation.id
            );
            let mend = "give each conversation its own id, and keep its lines together";
            return Err(place.error("", problem, mend).into());
        }
        note_messages(&entry.conversation, &mut notes);
        totals.add(&entry);
        hasher.entry(&entry.conversation, &entry.questions);
        each(entry)?;
    }
    if totals.messages == 0 {
        let place = Place::whole(files.first().map_or(path, PathBuf::as_path));
        return Err(place
            .error(
                "",
                format!("no message was found in it as {format}"),
                WRONG_FILE,
            )
            .into());
    }
    let hash = hasher.finish();
    Ok(Report {
        format,
        hash,
        known: known_release(hash),
        totals,
        oddities: notes.0,
    })
}

/// The files that `path` means, which may be the folder that they are in. For BEAM that is the
/// folder itself, whose chats are folders.
fn history_files(path: &Path) -> Result<Vec<PathBuf>, LoadError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    for name in [HISTORY, personamem::QUESTIONS] {
        let file = path.join(name);
        if file.exists() {
            return Ok(vec![file]);
        }
    }
    if !beam::chats(path).is_empty() {
        return Ok(vec![path.to_owned()]);
    }
    for folder in [path.to_owned(), path.join("data")] {
        let splits = memoryagentbench::splits(&folder);
        if !splits.is_empty() {
            return Ok(splits);
        }
    }
    let problem = format!(
        "the folder holds no {HISTORY}, no BEAM chat, no split of MemoryAgentBench and no \
         {} of PersonaMem",
        personamem::QUESTIONS
    );
    Err(Place::whole(path).error("", problem, "give the history file itself"))
}

/// The episodes of a file or folder from which these entries were read as `format`.
pub(crate) fn episodes(
    path: &Path,
    format: Format,
    entries: Vec<Entry>,
) -> Result<Vec<Annotated>, LoadError> {
    let files = history_files(path)?;
    let file = files.first().map_or(path, PathBuf::as_path);
    match format {
        Format::Meme => meme::episodes(file),
        Format::Synthetic => synthetic::episodes(file, entries),
        _ => Err(Place::whole(file).error(
            "",
            format!("it was read as {format}, which knows no episodes"),
            "give a MEME release or a folder of synthetic episodes",
        )),
    }
}

/// The file that a folder is read for.
const HISTORY: &str = "history.jsonl";

impl Format {
    const ALL: [Self; 10] = [
        Self::Locomo,
        Self::Longmemeval,
        Self::ChatJsonl,
        Self::Chatgpt,
        Self::Meme,
        Self::Synthetic,
        Self::Beam,
        Self::Memoryagentbench,
        Self::Personamem,
        Self::LongMtBenchPlus,
    ];

    /// The name used on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Locomo => "locomo",
            Self::Longmemeval => "longmemeval",
            Self::ChatJsonl => "chat-jsonl",
            Self::Chatgpt => "chatgpt",
            Self::Meme => "meme",
            Self::Synthetic => "synthetic",
            Self::Beam => "beam",
            Self::Memoryagentbench => "memoryagentbench",
            Self::Personamem => "personamem",
            Self::LongMtBenchPlus => "long-mt-bench-plus",
        }
    }

    /// What its histories belong to.
    pub fn benchmark(self) -> Benchmark {
        match self {
            Self::Locomo => Benchmark::Locomo,
            Self::Longmemeval => Benchmark::Longmemeval,
            Self::ChatJsonl | Self::Chatgpt => Benchmark::Own,
            Self::Meme => Benchmark::Meme,
            Self::Synthetic => Benchmark::Synthetic,
            Self::Beam => Benchmark::Beam,
            Self::Memoryagentbench => Benchmark::Memoryagentbench,
            Self::Personamem => Benchmark::Personamem,
            Self::LongMtBenchPlus => Benchmark::LongMtBenchPlus,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no format's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no format is called {0:?}; the formats are locomo, longmemeval, chat-jsonl, chatgpt, meme, synthetic, beam, memoryagentbench, personamem and long-mt-bench-plus"
)]
pub struct UnknownFormat(pub String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        Self::ALL
            .into_iter()
            .find(|format| format.name() == name)
            .ok_or_else(|| UnknownFormat(name.to_owned()))
    }
}

const KNOWN: &str = "name the format, or give the release of a benchmark (LoCoMo, LongMemEval, \
                     MEME, MemoryAgentBench, PersonaMem-v2, BEAM, Long-MT-Bench+), chat JSONL (one \
                     message a line: conversation, speaker, text) or a ChatGPT conversations.json";

/// Tells the format from the layout of the folder, or the fields of the first object in the file.
fn detect(path: &Path, files: &[PathBuf]) -> Result<Format, LoadError> {
    let [file] = files else {
        // Only the splits of MemoryAgentBench are several.
        return Ok(Format::Memoryagentbench);
    };
    if file.is_dir() {
        return Ok(Format::Beam);
    }
    let place = Place::whole(file);
    let mut input = open(file)?;
    let begins = elements::fill(file, &mut input)?;
    let (array, keys) = if begins.starts_with(PARQUET) {
        (false, Some(parquet_columns(path, file)?))
    } else if first_line(begins).is_some_and(personamem::is_header) {
        return Ok(Format::Personamem);
    } else {
        elements::first_keys(file, &mut input)?
    };
    let Some(keys) = keys else {
        // A torn or damaged first line, about which its reader says more.
        return Ok(Format::ChatJsonl);
    };
    let has = |key: &str| keys.iter().any(|k| k == key);
    if has("scenarios") || has("case_id") {
        return Err(place.error(
            "",
            "this is LongMemEval as converted by another project, whose sessions or gold answers \
             are not those of the release",
            "give the release file, an array of questions with haystack_sessions",
        ));
    }
    match array {
        true if has("haystack_sessions") => Ok(Format::Longmemeval),
        true if has("mapping") => Ok(Format::Chatgpt),
        true if has("qa") && has("conversation") => Ok(Format::Locomo),
        true if has("before_questions") && has("after_questions") => Ok(Format::Meme),
        false if has("before_questions") && has("after_questions") => Err(place.error(
            "",
            "this is a single MEME episode, as unpacked from the release",
            "give the release file, an array of episodes",
        )),
        false if synthetic::begins(file, &mut input)? => Ok(Format::Synthetic),
        true if has("turns") && has("batch_number") => Ok(Format::Beam),
        true if keys.iter().all(|key| key.starts_with("plan")) => Ok(Format::Beam),
        _ if has("context") && has("questions") && has("metadata") => Ok(Format::Memoryagentbench),
        _ if has("sessions") && has("questions") && has("answers") => Ok(Format::LongMtBenchPlus),
        false if has("speaker") || has("text") || has("conversation") => Ok(Format::ChatJsonl),
        _ => {
            let what = if array {
                "an array of objects"
            } else {
                "an object"
            };
            let problem =
                format!("format not recognised: it begins with {what} with the fields {keys:?}");
            Err(place.error("", problem, KNOWN))
        }
    }
}

/// What a Parquet file begins with.
const PARQUET: &[u8] = b"PAR1";

#[cfg(feature = "parquet")]
fn parquet_columns(_: &Path, file: &Path) -> Result<Vec<String>, LoadError> {
    parquet::columns(file)
}

#[cfg(not(feature = "parquet"))]
fn parquet_columns(path: &Path, _: &Path) -> Result<Vec<String>, LoadError> {
    Err(no_parquet(path))
}

#[cfg(not(feature = "parquet"))]
fn no_parquet(path: &Path) -> LoadError {
    Place::whole(path).error(
        "",
        "this build does not read Parquet",
        "build with `--features parquet`, or give the rows as JSON lines",
    )
}

/// The text ahead of the first line's end, where it is text.
fn first_line(begins: &[u8]) -> Option<&str> {
    let begins = begins.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(begins);
    let line = begins.split(|&byte| byte == b'\n').next()?;
    std::str::from_utf8(line).ok()
}

fn open(file: &Path) -> Result<BufReader<File>, LoadError> {
    let opened = File::open(file).map_err(|source| LoadError::Read {
        file: file.to_owned(),
        source,
    })?;
    Ok(BufReader::with_capacity(1 << 16, opened))
}

/// The entries of a file, or of several, one after the other.
enum Entries<'a> {
    Lines(Box<chat_jsonl::Conversations<'a>>),
    Synthetic(Box<chat_jsonl::Conversations<'a>>),
    Rows {
        /// The files that come next.
        files: std::slice::Iter<'a, PathBuf>,
        rows: Rows<'a>,
        read: ReadRow,
        /// Whether the rows may be JSON lines.
        or_lines: bool,
    },
    Histories(personamem::Histories<'a>),
    Chats(std::slice::Iter<'a, PathBuf>),
}

/// The objects of one file.
enum Rows<'a> {
    Json(Elements<'a, BufReader<File>>),
    #[cfg(feature = "parquet")]
    Parquet(Box<parquet::Rows<'a>>),
}

/// Makes an entry of one object; `None` where it holds nothing.
type ReadRow = Box<dyn FnMut(&str, &Place<'_>, &mut Notes) -> Result<Option<Entry>, LoadError>>;

impl<'a> Entries<'a> {
    fn new(format: Format, path: &'a Path, files: &'a [PathBuf]) -> Result<Self, LoadError> {
        let first = files.first().map_or(path, PathBuf::as_path);
        let mut memoryagentbench = memoryagentbench::Rows::default();
        let (read, or_lines): (ReadRow, bool) = match format {
            Format::Locomo => (Box::new(locomo::entry), false),
            Format::Longmemeval => (Box::new(longmemeval::entry), false),
            Format::Chatgpt => (Box::new(chatgpt::entry), false),
            Format::LongMtBenchPlus => (Box::new(long_mt_bench::entry), true),
            Format::Memoryagentbench => (
                Box::new(move |json, place, notes| memoryagentbench.entry(json, place, notes)),
                true,
            ),
            Format::Personamem => {
                return Ok(Self::Histories(personamem::Histories::new(first)?));
            }
            Format::Beam => return Ok(Self::Chats(files.iter())),
            Format::ChatJsonl => {
                let lines = chat_jsonl::Conversations::new(first, open(first)?)?;
                return Ok(Self::Lines(Box::new(lines)));
            }
            Format::Synthetic => {
                let lines = chat_jsonl::Conversations::new(first, open(first)?)?;
                return Ok(Self::Synthetic(Box::new(lines)));
            }
            Format::Meme => (Box::new(meme::entry), false),
        };
        Ok(Self::Rows {
            rows: Rows::open(first, or_lines)?,
            files: files.get(1..).unwrap_or_default().iter(),
            read,
            or_lines,
        })
    }

    fn next(&mut self, notes: &mut Notes) -> Result<Option<(Entry, Place<'a>)>, LoadError> {
        match self {
            Self::Lines(conversations) => {
                let next = conversations.next(notes)?;
                next.map(synthetic::refuse).transpose()
            }
            Self::Synthetic(conversations) => {
                let next = conversations.next(notes)?;
                next.map(synthetic::label).transpose()
            }
            Self::Histories(histories) => histories.next(notes),
            Self::Chats(folders) => match folders.next() {
                Some(folder) => Ok(Some((beam::entry(folder, notes)?, Place::whole(folder)))),
                None => Ok(None),
            },
            Self::Rows {
                files,
                rows,
                read,
                or_lines,
            } => loop {
                while let Some((json, place)) = rows.next()? {
                    if let Some(entry) = read(json, &place, notes)? {
                        return Ok(Some((entry, place)));
                    }
                }
                match files.next() {
                    Some(file) => *rows = Rows::open(file, *or_lines)?,
                    None => return Ok(None),
                }
            },
        }
    }
}

impl<'a> Rows<'a> {
    fn open(file: &'a Path, or_lines: bool) -> Result<Self, LoadError> {
        let mut input = open(file)?;
        if or_lines && elements::fill(file, &mut input)?.starts_with(PARQUET) {
            #[cfg(feature = "parquet")]
            return Ok(Self::Parquet(Box::new(parquet::Rows::new(file)?)));
            #[cfg(not(feature = "parquet"))]
            return Err(no_parquet(file));
        }
        Ok(Self::Json(match or_lines {
            true => Elements::or_lines(file, input),
            false => Elements::new(file, input),
        }))
    }

    fn next(&mut self) -> Result<Option<(&str, Place<'a>)>, LoadError> {
        match self {
            Self::Json(elements) => elements.next(),
            #[cfg(feature = "parquet")]
            Self::Parquet(rows) => rows.next(),
        }
    }
}

/// Notes what any format's conversation can have.
fn note_messages(conversation: &Conversation, notes: &mut Notes) {
    let id = &conversation.id;
    let mut sessions = HashSet::new();
    let mut latest = None;
    for session in &conversation.sessions {
        let place = || format!("{id} session {}", session.id);
        if !sessions.insert(&session.id) {
            notes.add(Oddity::SessionRepeated, place);
        }
        if session.messages.is_empty() {
            notes.add(Oddity::SessionEmpty, place);
        }
        if let (Some(date), Some(before)) = (session.date, latest)
            && date < before
        {
            let detail = || (place(), Some(format!("{date} follows {before}")));
            notes.add_detail(Oddity::SessionOutOfOrder, detail);
        }
        latest = session.date.or(latest);
    }
    let mut messages = HashSet::new();
    for (_, _, message) in conversation.messages() {
        if !messages.insert(&message.id) {
            notes.add(Oddity::MessageIdRepeated, || format!("{id} {}", message.id));
        }
        if message.text.trim().is_empty() && message.captions.is_empty() {
            notes.add(Oddity::MessageEmpty, || format!("{id} {}", message.id));
        }
    }
}

/// Notes each question whose text stands earlier in its conversation, in the same phase.
fn note_repeated_questions(questions: &[Question], notes: &mut Notes) {
    let mut seen = HashSet::new();
    for question in questions {
        if !seen.insert((question.phase, question.text.as_str())) {
            notes.add(Oddity::QuestionRepeated, || question.id.to_string());
        }
    }
}

/// Types a gold answer, which is never empty.
fn answer(
    raw: &serde_json::value::RawValue,
    field: &str,
    place: &Place<'_>,
) -> Result<Answer, LoadError> {
    let json = raw.get();
    let wrong = |problem: &str| {
        place.error(
            field,
            problem,
            "give a string, number, truth value, or a list of them",
        )
    };
    let scalar = |json: &str| match json.as_bytes().first() {
        Some(b'"') => serde_json::from_str(json).ok().map(Answer::Text),
        Some(b't') => Some(Answer::Bool(true)),
        Some(b'f') => Some(Answer::Bool(false)),
        Some(b'-' | b'0'..=b'9') => Some(Answer::Number(json.to_owned())),
        _ => None,
    };
    let answer = if json.starts_with('[') {
        let items: Vec<&serde_json::value::RawValue> =
            serde_json::from_str(json).map_err(|e| wrong(&e.to_string()))?;
        let texts: Option<Vec<String>> = items
            .iter()
            .map(|item| Some(scalar(item.get())?.to_string()))
            .collect();
        Answer::List(texts.ok_or_else(|| wrong("a gold answer lists something that is no value"))?)
    } else {
        scalar(json).ok_or_else(|| wrong("a gold answer is neither a value nor a list"))?
    };
    let empty = match &answer {
        Answer::Text(text) => text.trim().is_empty(),
        Answer::List(items) | Answer::AnyOf(items) => {
            items.is_empty() || items.iter().any(|i| i.trim().is_empty())
        }
        Answer::Number(_) | Answer::Bool(_) => false,
    };
    if empty {
        return Err(place.error(
            field,
            "a gold answer is empty, and an empty answer is contained in every reply",
            "give the answer, or take the question out",
        ));
    }
    Ok(answer)
}
