//! Readers of history files.

mod chat_jsonl;
mod chatgpt;
mod elements;
mod locomo;
mod longmemeval;
mod meme;
mod sessions;
mod synthetic;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek};
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

/// Loads a file, or a folder that holds `history.jsonl`. The format is told from the content
/// unless named.
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
    let file = history_file(path)?;
    let failed = |source| LoadError::Read {
        file: file.clone(),
        source,
    };
    let mut input = BufReader::with_capacity(1 << 16, File::open(&file).map_err(failed)?);
    let format = match format {
        Some(format) => format,
        None => {
            let format = detect(&file, &mut input)?;
            input.rewind().map_err(failed)?;
            format
        }
    };
    let mut entries = Entries::new(format, &file, input)?;
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
        let place = Place::whole(&file);
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

/// The file that `path` means, which may be the folder that it is in.
fn history_file(path: &Path) -> Result<PathBuf, LoadError> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let file = path.join(HISTORY);
    if file.exists() {
        return Ok(file);
    }
    let problem = format!("the folder holds no {HISTORY}");
    Err(Place::whole(path).error("", problem, "give the history file itself"))
}

/// The episodes of a file or folder from which these entries were read as `format`.
pub(crate) fn episodes(
    path: &Path,
    format: Format,
    entries: Vec<Entry>,
) -> Result<Vec<Annotated>, LoadError> {
    let file = history_file(path)?;
    match format {
        Format::Meme => meme::episodes(&file),
        Format::Synthetic => synthetic::episodes(&file, entries),
        _ => Err(Place::whole(&file).error(
            "",
            format!("it was read as {format}, which knows no episodes"),
            "give a MEME release or a folder of synthetic episodes",
        )),
    }
}

/// The file that a folder is read for.
const HISTORY: &str = "history.jsonl";

impl Format {
    const ALL: [Self; 6] = [
        Self::Locomo,
        Self::Longmemeval,
        Self::ChatJsonl,
        Self::Chatgpt,
        Self::Meme,
        Self::Synthetic,
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
    "no format is called {0:?}; the formats are locomo, longmemeval, chat-jsonl, chatgpt, meme and synthetic"
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

const KNOWN: &str = "name the format, or give a LoCoMo release, a LongMemEval release, a MEME \
                     release, chat JSONL (one message a line: conversation, speaker, text) or a \
                     ChatGPT conversations.json";

/// Tells the format from the fields of the first object in the file.
fn detect(file: &Path, input: &mut (impl BufRead + Seek)) -> Result<Format, LoadError> {
    let place = Place::whole(file);
    let (array, keys) = elements::first_keys(file, input)?;
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
        false if synthetic::begins(file, input)? => Ok(Format::Synthetic),
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

/// The entries of a file, one after the other.
enum Entries<'a> {
    Lines(Box<chat_jsonl::Conversations<'a>>),
    Synthetic(Box<chat_jsonl::Conversations<'a>>),
    Array(Elements<'a, BufReader<File>>, ReadElement),
}

/// Makes an entry of one element of an array; `None` where the element holds nothing.
type ReadElement = fn(&str, &Place<'_>, &mut Notes) -> Result<Option<Entry>, LoadError>;

impl<'a> Entries<'a> {
    fn new(format: Format, file: &'a Path, input: BufReader<File>) -> Result<Self, LoadError> {
        let read_element: ReadElement = match format {
            Format::Locomo => locomo::entry,
            Format::Longmemeval => longmemeval::entry,
            Format::Chatgpt => chatgpt::entry,
            Format::ChatJsonl => {
                let lines = chat_jsonl::Conversations::new(file, input)?;
                return Ok(Self::Lines(Box::new(lines)));
            }
            Format::Synthetic => {
                let lines = chat_jsonl::Conversations::new(file, input)?;
                return Ok(Self::Synthetic(Box::new(lines)));
            }
            Format::Meme => meme::entry,
        };
        Ok(Self::Array(Elements::new(file, input), read_element))
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
            Self::Array(elements, read_element) => {
                while let Some((json, place)) = elements.next()? {
                    if let Some(entry) = read_element(json, &place, notes)? {
                        return Ok(Some((entry, place)));
                    }
                }
                Ok(None)
            }
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
