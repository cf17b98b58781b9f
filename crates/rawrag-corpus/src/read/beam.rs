//! BEAM: a folder a chat, with `chat.json` and `probing_questions/probing_questions.json`.
//!
//! Chats of 100 thousand and 1 million tokens are batches of dated turns; each batch becomes a
//! session. A chat of 10 million tokens is made of plans, either in its `chat.json` (an array of
//! objects, each of one plan and its batches) or a folder each (`plan-0`, `plan-1`, ...), whose
//! batches follow one another in the plans' order. Two real chats exercise the first layout; the
//! plans' layouts follow the repository's listing, and no real file has exercised them.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use jiff::fmt::strtime::BrokenDownTime;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::elements::{Elements, Place};
use super::{Entry, answer, note_repeated_questions};
use crate::error::LoadError;
use crate::report::{Notes, Oddity};
use crate::{
    Benchmark, Conversation, ConversationId, Evidence, Gold, Kind, Message, MessageId,
    MessagePosition, Question, QuestionId, Session, SessionId, SessionPosition, Timestamp,
};

/// The file that holds the messages of a chat.
pub(super) const CHAT: &str = "chat.json";

/// The questions of a chat, in the chat's folder.
const QUESTIONS: &str = "probing_questions/probing_questions.json";

/// What ends a message that was made from a bullet of the chat's plan.
const MARK: &str = "->->";

#[derive(Deserialize)]
struct Batch {
    batch_number: Option<i64>,
    time_anchor: Option<String>,
    turns: Vec<Vec<Turn>>,
}

#[derive(Deserialize)]
struct Turn {
    id: i64,
    role: String,
    content: String,
    time_anchor: Option<String>,
}

/// Whether a folder is a chat, in either layout.
pub(super) fn is_chat(folder: &Path) -> bool {
    folder.join(CHAT).is_file() || !plans(folder).is_empty()
}

/// The folders of chats that `path` means: itself, its folder, or those in it, by the numbers in
/// their names.
pub(super) fn chats(path: &Path) -> Vec<PathBuf> {
    let folder = if path.is_file() {
        match path.parent() {
            Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
            Some(parent) => parent.to_owned(),
            None => return Vec::new(),
        }
    } else {
        path.to_owned()
    };
    if is_chat(&folder) {
        return vec![folder];
    }
    // The release has a folder for each size, in it one for each chat.
    let mut found: Vec<PathBuf> = folders(&folder)
        .flat_map(|inner| match is_chat(&inner) {
            true => vec![inner],
            false => folders(&inner).filter(|f| is_chat(f)).collect(),
        })
        .collect();
    found.sort_by_key(|chat| (chat.parent().map(Path::to_owned), natural(chat)));
    found
}

/// Reads the chat in `folder`, with its questions.
pub(super) fn entry(folder: &Path, notes: &mut Notes) -> Result<Entry, LoadError> {
    let id = conversation_id(folder);
    let mut sessions = Vec::new();
    let whole = folder.join(CHAT);
    if whole.is_file() {
        read_chat(&whole, "", &id, &mut sessions, notes)?;
    } else {
        for plan in plans(folder) {
            let name = file_name(&plan);
            read_chat(&plan.join(CHAT), &name, &id, &mut sessions, notes)?;
        }
    }
    let conversation = Conversation {
        id: ConversationId::from(id),
        sessions,
    };
    let file = folder.join(QUESTIONS);
    let questions = if file.is_file() {
        read_questions(&file, &conversation, notes)?
    } else {
        notes.add(Oddity::QuestionsAbsent, || conversation.id.to_string());
        Vec::new()
    };
    Ok(Entry {
        conversation,
        questions,
    })
}

/// The chat's number under the name of its size (`1M-3`), which are two folders in the release.
fn conversation_id(folder: &Path) -> String {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let name = file_name(&folder);
    match folder.parent() {
        Some(parent) if name.bytes().all(|b| b.is_ascii_digit()) => {
            format!("{}-{name}", file_name(parent))
        }
        _ => name,
    }
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn folders(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
}

/// The folders of plans in a chat's folder, in the plans' order.
fn plans(folder: &Path) -> Vec<PathBuf> {
    let mut plans: Vec<PathBuf> = folders(folder)
        .filter(|path| file_name(path).starts_with("plan") && path.join(CHAT).is_file())
        .collect();
    plans.sort_by_key(|plan| natural(plan));
    plans
}

/// Orders names by the number that they end with, then as text: `plan-2` before `plan-10`.
fn natural(path: &Path) -> (u64, String) {
    let name = file_name(path);
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let number = name[name.len() - digits..].parse().unwrap_or(u64::MAX);
    (number, name)
}

fn open(file: &Path) -> Result<std::io::BufReader<fs::File>, LoadError> {
    let opened = fs::File::open(file).map_err(|source| LoadError::Read {
        file: file.to_owned(),
        source,
    })?;
    Ok(std::io::BufReader::with_capacity(1 << 16, opened))
}

/// Appends the batches of a `chat.json` as sessions.
fn read_chat(
    file: &Path,
    plan: &str,
    id: &str,
    sessions: &mut Vec<Session>,
    notes: &mut Notes,
) -> Result<(), LoadError> {
    let mut elements = Elements::new(file, open(file)?);
    while let Some((json, place)) = elements.next()? {
        // An element is a batch, or plans with their batches.
        let fields: BTreeMap<String, &RawValue> = place.parse(json)?;
        if fields.contains_key("turns") {
            let batch: Batch = place.parse(json)?;
            sessions.push(session(batch, plan, sessions.len(), id, &place, notes)?);
            continue;
        }
        let mut plans: Vec<(String, Vec<Batch>)> =
            place.parse::<BTreeMap<_, _>>(json)?.into_iter().collect();
        plans.sort_by_key(|(name, _)| natural(Path::new(name)));
        for (name, batches) in plans {
            for batch in batches {
                sessions.push(session(batch, &name, sessions.len(), id, &place, notes)?);
            }
        }
    }
    Ok(())
}

fn session(
    batch: Batch,
    plan: &str,
    position: usize,
    id: &str,
    place: &Place<'_>,
    notes: &mut Notes,
) -> Result<Session, LoadError> {
    let number = batch.batch_number.unwrap_or(position as i64 + 1);
    let name = match plan {
        "" => number.to_string(),
        plan => format!("{plan}/{number}"),
    };
    let mut date = match &batch.time_anchor {
        Some(text) => Some(anchor(text, "time_anchor", place)?),
        None => None,
    };
    let mut messages = Vec::new();
    for turn in batch.turns.into_iter().flatten() {
        let said = match &turn.time_anchor {
            Some(text) => Some(anchor(text, "turns.time_anchor", place)?),
            None => None,
        };
        if messages.is_empty() {
            date = date.or(said);
        }
        if turn.role == "user" && turn.content.contains(MARK) {
            notes.add(Oddity::PlanMark, || format!("{id} {}", turn.id));
        }
        messages.push(Message {
            id: MessageId::from(turn.id.to_string()),
            speaker: turn.role,
            text: turn.content,
            captions: Vec::new(),
            date: said.filter(|said| Some(*said) != date),
        });
    }
    if date.is_none() {
        notes.add(Oddity::DateMissing, || format!("{id} session {name}"));
    }
    Ok(Session {
        id: SessionId::from(name),
        date,
        messages,
    })
}

/// Reads `March-15-2024`, or a date in any of the forms of [`Timestamp`].
fn anchor(text: &str, field: &str, place: &Place<'_>) -> Result<Timestamp, LoadError> {
    let named = BrokenDownTime::parse("%B-%d-%Y", text.trim())
        .ok()
        .and_then(|parsed| parsed.to_date().ok())
        .filter(|day| day.year() >= 1);
    match named {
        Some(day) => Ok(Timestamp {
            local: day.at(0, 0, 0, 0),
            offset_minutes: None,
            has_time: false,
        }),
        None => text.parse().map_err(|e: crate::TimestampError| {
            let problem = format!("{e}, or March-15-2024");
            place.error(field, problem, "write the date in one of these forms")
        }),
    }
}

/// The fields of a question that are read.
#[derive(Deserialize)]
struct Item<'a> {
    question: String,
    #[serde(borrow)]
    rubric: Option<&'a RawValue>,
    #[serde(borrow)]
    source_chat_ids: Option<&'a RawValue>,
    #[serde(borrow)]
    answer: Option<&'a RawValue>,
    #[serde(borrow)]
    ideal_answer: Option<&'a RawValue>,
    #[serde(borrow)]
    ideal_response: Option<&'a RawValue>,
    #[serde(borrow)]
    ideal_summary: Option<&'a RawValue>,
    #[serde(borrow)]
    expected_compliance: Option<&'a RawValue>,
    #[serde(flatten)]
    rest: BTreeMap<String, serde::de::IgnoredAny>,
}

/// The types of question that the release has.
const KINDS: [&str; 10] = [
    "abstention",
    "contradiction_resolution",
    "event_ordering",
    "information_extraction",
    "instruction_following",
    "knowledge_update",
    "multi_session_reasoning",
    "preference_following",
    "summarization",
    "temporal_reasoning",
];

/// How a question was made; nothing here is needed to ask or to score it.
const ANNOTATIONS: [&str; 36] = [
    "abstention_type",
    "bullet_points_covered",
    "calculation_required",
    "complexity_factors",
    "compliance_indicators",
    "contradiction_type",
    "conversation_reference",
    "conversation_references",
    "conversation_sessions",
    "difficulty",
    "extraction_challenge",
    "instruction_being_tested",
    "instruction_type",
    "key_elements_tested",
    "key_facts_tested",
    "non_compliance_signs",
    "ordering_tested",
    "ordering_type",
    "plan_reference",
    "potential_confusion",
    "preference_being_tested",
    "preference_type",
    "question_type",
    "reasoning_steps",
    "reasoning_type",
    "sessions_required",
    "summarization_type",
    "synthesis_required",
    "temporal_type",
    "tests_for",
    "tests_retention_of",
    "time_points",
    "topic_questioned",
    "total_mentions",
    "update_type",
    "why_unanswerable",
];

fn read_questions(
    file: &Path,
    conversation: &Conversation,
    notes: &mut Notes,
) -> Result<Vec<Question>, LoadError> {
    let text = fs::read_to_string(file).map_err(|source| LoadError::Read {
        file: file.to_owned(),
        source,
    })?;
    let whole = Place {
        file,
        line: Some(1),
        name: String::new(),
    };
    let kinds: BTreeMap<String, Vec<&RawValue>> = whole.parse(&text)?;
    let references = References::of(conversation);
    let mut questions = Vec::new();
    for (kind, items) in kinds {
        if !KINDS.contains(&kind.as_str()) {
            notes.add_detail(Oddity::KindUnknown, || {
                (conversation.id.to_string(), Some(format!("{kind:?}")))
            });
        }
        for (index, raw) in items.into_iter().enumerate() {
            let id = format!("{}/{kind}/{index}", conversation.id);
            let place = Place::whole(file).named(format!("question {id}"));
            let item: Item<'_> = place.parse(raw.get())?;
            for field in item.rest.keys() {
                if !ANNOTATIONS.contains(&field.as_str()) {
                    notes.add(Oddity::FieldUnknown, || format!("{id} {field}"));
                }
            }
            let gold = gold(&item, &kind, &id, &place, notes)?;
            let evidence = match item.source_chat_ids {
                Some(raw) => references.resolve(raw, &id, &place, notes)?,
                None => Evidence::default(),
            };
            if evidence.written.is_empty() && !matches!(gold, Gold::Abstention { .. }) {
                notes.add(Oddity::EvidenceAbsent, || id.clone());
            }
            questions.push(Question {
                benchmark: Benchmark::Beam,
                source: None,
                conversation: conversation.id.clone(),
                id: QuestionId::from(id),
                phase: None,
                kind: Kind::from(kind.as_str()),
                text: item.question,
                options: Vec::new(),
                cutoff: None,
                gold: Some(gold),
                evidence,
            });
        }
    }
    note_repeated_questions(&questions, notes);
    Ok(questions)
}

/// A rubric and the reply that the file holds up; for `abstention` that reply says why to abstain.
fn gold(
    item: &Item<'_>,
    kind: &str,
    id: &str,
    place: &Place<'_>,
    notes: &mut Notes,
) -> Result<Gold, LoadError> {
    let ideals = [
        ("answer", item.answer),
        ("ideal_answer", item.ideal_answer),
        ("ideal_summary", item.ideal_summary),
        ("ideal_response", item.ideal_response),
        ("expected_compliance", item.expected_compliance),
    ];
    let mut ideal = None;
    for (field, raw) in ideals {
        let Some(raw) = raw.filter(|raw| raw.get() != "null") else {
            continue;
        };
        if ideal.is_some() {
            notes.add(Oddity::IdealRepeated, || format!("{id} {field}"));
            continue;
        }
        ideal = Some(answer(raw, field, place)?);
    }
    if kind == "abstention" {
        let Some(explanation) = ideal else {
            let problem = "an abstention question has no ideal_response";
            let mend = "give the reply that says why there is no answer";
            return Err(place.error("ideal_response", problem, mend));
        };
        return Ok(Gold::Abstention {
            explanation: explanation.to_string(),
        });
    }
    Ok(Gold::Rubric {
        ideal,
        points: points(item.rubric, id, place, notes)?,
    })
}

/// The points of a rubric: a list of strings, or one string.
fn points(
    rubric: Option<&RawValue>,
    id: &str,
    place: &Place<'_>,
    notes: &mut Notes,
) -> Result<Vec<String>, LoadError> {
    let wrong = |problem: &str| {
        let mend = "give a list of the points that a reply is graded by";
        place.error("rubric", problem, mend)
    };
    let Some(raw) = rubric else {
        return Err(wrong("the question has no rubric"));
    };
    let points: Vec<String> = match raw.get().as_bytes().first() {
        Some(b'[') => serde_json::from_str(raw.get())
            .map_err(|_| wrong("the rubric lists something that is no string"))?,
        Some(b'"') => {
            notes.add(Oddity::RubricNotList, || id.to_owned());
            vec![serde_json::from_str(raw.get()).map_err(|e| wrong(&e.to_string()))?]
        }
        _ => return Err(wrong("the rubric is neither a list nor a string")),
    };
    if points.is_empty() || points.iter().any(|point| point.trim().is_empty()) {
        return Err(wrong("the rubric is empty or has an empty point"));
    }
    Ok(points)
}

/// The messages of a chat by id; `None` where an id is used more than once.
struct References<'a>(HashMap<&'a str, Option<(SessionPosition, MessagePosition)>>);

impl<'a> References<'a> {
    fn of(conversation: &'a Conversation) -> Self {
        let mut positions = HashMap::new();
        for (session, position, message) in conversation.messages() {
            positions
                .entry(message.id.as_str())
                .and_modify(|at| *at = None)
                .or_insert(Some((session, position)));
        }
        Self(positions)
    }

    fn resolve(
        &self,
        raw: &RawValue,
        id: &str,
        place: &Place<'_>,
        notes: &mut Notes,
    ) -> Result<Evidence, LoadError> {
        let value: serde_json::Value = serde_json::from_str(raw.get())
            .map_err(|e| place.error("source_chat_ids", e.to_string(), "give message ids"))?;
        let mut written = Vec::new();
        flatten(&value, &mut written).map_err(|odd| {
            let problem = format!("{odd} is no message id");
            place.error("source_chat_ids", problem, "give the ids of messages")
        })?;
        let mut unresolved = Vec::new();
        let mut found = Vec::new();
        for reference in &written {
            let oddity = match self.0.get(reference.as_str()) {
                Some(Some(position)) => {
                    found.push(*position);
                    continue;
                }
                Some(None) => Oddity::EvidenceAmbiguous,
                None => Oddity::EvidenceDangling,
            };
            notes.add_detail(oddity, || (id.to_owned(), Some(reference.clone())));
            unresolved.push(reference.clone());
        }
        let named = found.len();
        found.sort_unstable();
        found.dedup();
        if found.len() < named {
            notes.add_detail(Oddity::EvidenceRepeated, || {
                let detail = format!("{named} references, {} different", found.len());
                (id.to_owned(), Some(detail))
            });
        }
        let mut sessions: Vec<_> = found.iter().map(|&(session, _)| session).collect();
        sessions.dedup();
        Ok(Evidence {
            messages: found.into_iter().map(|(_, message)| message).collect(),
            sessions,
            written,
            unresolved,
        })
    }
}

/// The ids in a number, a list, or an object of lists, in their order; or what is no id.
fn flatten(value: &serde_json::Value, into: &mut Vec<String>) -> Result<(), String> {
    use serde_json::Value;
    match value {
        Value::Null => Ok(()),
        Value::Number(id) => {
            into.push(id.to_string());
            Ok(())
        }
        Value::String(id) if !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit()) => {
            into.push(id.clone());
            Ok(())
        }
        Value::Array(items) => items.iter().try_for_each(|item| flatten(item, into)),
        Value::Object(fields) => fields.values().try_for_each(|item| flatten(item, into)),
        odd => Err(odd.to_string().chars().take(40).collect()),
    }
}
