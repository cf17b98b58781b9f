//! MemoryAgentBench: rows of a long context and the questions asked about it.
//!
//! A row has `context`, `questions`, `answers` and `metadata`, as the release's four splits give it;
//! the splits are read from JSON, JSON lines or, with the feature `parquet`, Parquet. A context
//! becomes ingestion units, each a message:
//! - `longmemeval_*`: the sessions that the context writes out as a Python list of `Chat Time: ...`
//!   and messages, with their dates. Evidence is the marked messages of a question's
//!   `haystack_sessions`, found again by role and words, since those carry no dates and their order
//!   is another.
//! - `factconsolidation_*`: the numbered facts, each under its serial number.
//! - every other source: pieces of at most 4,096 tokens (o200k_base) that end where a sentence or line does
//!   (in `icl_*`, where a labelled example does). Undated, so positions alone say what came first.
//!
//! The films that ReDial's questions ask for are given by number, and named by `entity2id.json` at
//! the root of the release.
//!
//! The release's own program joins sentences found by a trained splitter and by that loses line
//! ends; here a piece is a slice of the context. The layout follows the release's documentation
//! and programs that read it; no real file has exercised this reader.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::elements::Place;
use super::films::{Films, is_number};
use super::python::{Literal, literal};
use super::quoted::Said;
use super::{Entry, answer, note_repeated_questions};
use crate::error::LoadError;
use crate::report::{Notes, Oddity};
use crate::{
    Answer, Benchmark, Conversation, ConversationId, Evidence, Gold, Kind, Message, MessageId,
    Question, QuestionId, Session, SessionId, Timestamp,
};

/// What begins the date of a session in a context.
const CHAT_TIME: &str = "Chat Time:";

#[derive(Deserialize)]
struct Row<'a> {
    context: String,
    questions: Vec<String>,
    #[serde(borrow)]
    answers: Vec<&'a RawValue>,
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    source: String,
    question_dates: Option<Vec<String>>,
    question_types: Option<Vec<String>>,
    question_ids: Option<Vec<String>>,
    qa_pair_ids: Option<Vec<String>>,
    keypoints: Option<Vec<String>>,
    haystack_sessions: Option<Vec<Vec<Vec<Turn>>>>,
}

#[derive(Deserialize)]
struct Turn {
    role: String,
    content: String,
    has_answer: Option<bool>,
}

/// Reads rows, and counts those of each source to name them.
#[derive(Default)]
pub(super) struct Rows {
    of_source: BTreeMap<String, u32>,
    /// The titles of ReDial's films, once they were needed.
    films: Option<Films>,
}

impl Rows {
    /// Reads one row, as the conversation `SOURCE/N`, N counted from 0 in the source.
    pub(super) fn entry(
        &mut self,
        json: &str,
        element: &Place<'_>,
        notes: &mut Notes,
    ) -> Result<Option<Entry>, LoadError> {
        let row: Row<'_> = element.parse(json)?;
        let source = row.metadata.source.trim();
        if source.is_empty() {
            let problem = "the source is empty";
            return Err(element.error("metadata.source", problem, "name the row's source"));
        }
        let number = self.of_source.entry(source.to_owned()).or_default();
        let id = format!("{source}/{number}");
        *number += 1;
        let place = element.named(format!("context {id}"));
        check_lengths(&row, &place)?;
        let sessions = sessions(&row, &id, &place, notes)?;
        let conversation = Conversation {
            id: ConversationId::from(id),
            sessions,
        };
        let mut questions = questions(&row, &conversation, &place, notes)?;
        if source.starts_with(RECOMMENDATIONS) {
            self.name_films(&mut questions, &place, notes)?;
        }
        note_repeated_questions(&questions, notes);
        Ok(Some(Entry {
            conversation,
            questions,
        }))
    }
}

/// What begins the name of ReDial, the source of recommendations.
const RECOMMENDATIONS: &str = "recsys";

impl Rows {
    /// Puts titles in place of the numbers by which the release gives the films to recommend.
    fn name_films(
        &mut self,
        questions: &mut [Question],
        place: &Place<'_>,
        notes: &mut Notes,
    ) -> Result<(), LoadError> {
        for question in questions {
            let (Some(Gold::Answer(Answer::List(films))), id) = (&mut question.gold, &question.id)
            else {
                continue;
            };
            if !films.iter().all(|film| is_number(film)) {
                continue;
            }
            let titles = match &mut self.films {
                Some(titles) => titles,
                none => none.insert(Films::near(place.file)?.ok_or_else(|| {
                    let problem = "the answers are numbers of films";
                    let mend = "put entity2id.json of the release beside its folder `data`";
                    place.error("answers", problem, mend)
                })?),
            };
            for film in films {
                match titles.title(film) {
                    Some(title) => title.clone_into(film),
                    None => notes
                        .add_detail(Oddity::FilmUnknown, || (id.to_string(), Some(film.clone()))),
                }
            }
        }
        Ok(())
    }
}

/// The release's splits, in its order.
const SPLITS: [&str; 4] = [
    "Accurate_Retrieval",
    "Test_Time_Learning",
    "Long_Range_Understanding",
    "Conflict_Resolution",
];

/// The files of the splits in a folder, in the release's order.
pub(super) fn splits(folder: &Path) -> Vec<PathBuf> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| {
            let extension = Path::new(name).extension().and_then(|e| e.to_str());
            matches!(extension, Some("json" | "jsonl" | "parquet"))
        })
        .collect();
    names.sort();
    SPLITS
        .iter()
        .flat_map(|split| names.iter().filter(move |name| name.starts_with(split)))
        .map(|name| folder.join(name))
        .collect()
}

/// Every list that goes with the questions must be as long as they are.
fn check_lengths(row: &Row<'_>, place: &Place<'_>) -> Result<(), LoadError> {
    let wanted = row.questions.len();
    let length = |list: &Option<Vec<String>>| list.as_ref().map(Vec::len);
    let meta = &row.metadata;
    let lists = [
        ("answers", Some(row.answers.len())),
        ("metadata.question_dates", length(&meta.question_dates)),
        ("metadata.question_types", length(&meta.question_types)),
        ("metadata.question_ids", length(&meta.question_ids)),
        ("metadata.qa_pair_ids", length(&meta.qa_pair_ids)),
    ];
    for (field, length) in lists {
        // Converters write an empty list where the release has none.
        if let Some(length) = length.filter(|&n| n != wanted && (n > 0 || field == "answers")) {
            let problem = format!("{wanted} questions have {length} of these");
            return Err(place.error(field, problem, "give one for each question"));
        }
    }
    Ok(())
}

fn sessions(
    row: &Row<'_>,
    id: &str,
    place: &Place<'_>,
    notes: &mut Notes,
) -> Result<Vec<Session>, LoadError> {
    let source = &row.metadata.source;
    if source.starts_with("longmemeval") {
        if let Some(sessions) = chats(&row.context, place)? {
            return Ok(sessions);
        }
        notes.add(Oddity::ContextNotSessions, || id.to_owned());
    }
    let messages = if source.starts_with("factconsolidation") {
        facts(&row.context, id, notes)
    } else {
        pieces(&row.context, source.starts_with("icl_"), place)?
            .into_iter()
            .zip(1..)
            .map(|(piece, n): (&str, u32)| unit(n.to_string(), piece))
            .collect()
    };
    if messages.is_empty() {
        let problem = "no ingestion unit was found in the context";
        return Err(place.error("context", problem, "give the context of the release"));
    }
    Ok(vec![Session {
        id: SessionId::from("context"),
        date: None,
        messages,
    }])
}

#[cfg(feature = "pieces")]
fn pieces<'a>(text: &'a str, examples: bool, _: &Place<'_>) -> Result<Vec<&'a str>, LoadError> {
    Ok(super::pieces::pieces(text, examples))
}

#[cfg(not(feature = "pieces"))]
fn pieces<'a>(_: &'a str, _: bool, place: &Place<'_>) -> Result<Vec<&'a str>, LoadError> {
    let problem = "this build does not count tokens, so it cannot cut the context into pieces";
    let mend = "use a build with the feature `pieces` of rawrag-corpus, as that of `rawrag` is";
    Err(place.error("context", problem, mend))
}

/// A unit as the benchmark hands it over: said by the user, undated.
fn unit(id: String, text: &str) -> Message {
    Message {
        id: MessageId::from(id),
        speaker: "user".to_owned(),
        text: text.to_owned(),
        captions: Vec::new(),
        date: None,
    }
}

/// The dated sessions of a context that is a Python list; `None` where it is none.
fn chats(context: &str, place: &Place<'_>) -> Result<Option<Vec<Session>>, LoadError> {
    let begins = context.trim_start();
    if !(begins.starts_with('[') && begins.contains(CHAT_TIME)) {
        return Ok(None);
    }
    let mend = "give the context as released: a list of \"Chat Time: ...\" and messages";
    let wrong = |problem: String| place.error("context", problem, mend);
    let items = match literal(begins) {
        Ok(Literal::List(items)) => items,
        Ok(_) => return Err(wrong("the context is a literal, but no list".into())),
        Err(error) => return Err(wrong(format!("{} at byte {}", error.problem, error.at))),
    };
    let mut sessions: Vec<Session> = Vec::new();
    for item in &items {
        match item {
            Literal::Text(text) => {
                let date = text
                    .trim()
                    .strip_prefix(CHAT_TIME)
                    .ok_or_else(|| wrong("a text between the sessions is no Chat Time".into()))?;
                let (date, _) = Timestamp::read(date).map_err(|e| wrong(e.to_string()))?;
                sessions.push(Session {
                    id: SessionId::from((sessions.len() + 1).to_string()),
                    date: Some(date),
                    messages: Vec::new(),
                });
            }
            Literal::List(turns) => {
                let session = sessions
                    .last_mut()
                    .ok_or_else(|| wrong("a session has no Chat Time ahead of it".into()))?;
                for turn in turns {
                    let field = |key| turn.get(key).and_then(Literal::text);
                    let (Some(role), Some(content)) = (field("role"), field("content")) else {
                        return Err(wrong("a message lacks its role or content".into()));
                    };
                    let id = format!("{}:{}", session.id, session.messages.len() + 1);
                    session.messages.push(Message {
                        speaker: role.to_owned(),
                        ..unit(id, content)
                    });
                }
            }
            _ => return Err(wrong("the list holds what is no session".into())),
        }
    }
    Ok(Some(sessions))
}

/// The facts, each under the number that begins its line; lines without one continue a fact.
fn facts(context: &str, id: &str, notes: &mut Notes) -> Vec<Message> {
    let mut facts: Vec<Message> = Vec::new();
    for line in context.lines() {
        let number = line.split_once(". ").map(|(number, _)| number.trim());
        match number.filter(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())) {
            Some(number) => facts.push(unit(number.to_owned(), line.trim_end())),
            None if line.trim().is_empty() => {}
            None => match facts.last_mut() {
                Some(fact) => {
                    fact.text.push('\n');
                    fact.text.push_str(line.trim_end());
                }
                None => notes.add(Oddity::FactHeader, || id.to_owned()),
            },
        }
    }
    facts
}

fn questions(
    row: &Row<'_>,
    conversation: &Conversation,
    place: &Place<'_>,
    notes: &mut Notes,
) -> Result<Vec<Question>, LoadError> {
    let meta = &row.metadata;
    let source = meta.source.trim();
    let at = |list: &Option<Vec<String>>, index: usize| {
        let text = list.as_ref()?.get(index)?;
        (!text.trim().is_empty()).then(|| text.clone())
    };
    let said = Said::of(conversation, |message| {
        (message.speaker.as_str(), message.text.as_str())
    });
    let mut seen: HashMap<String, u32> = HashMap::new();
    let mut questions = Vec::with_capacity(row.questions.len());
    for (index, (text, raw)) in row.questions.iter().zip(&row.answers).enumerate() {
        let mut id =
            at(&meta.qa_pair_ids, index).unwrap_or_else(|| format!("{}/{index}", conversation.id));
        let times = seen.entry(id.clone()).or_default();
        *times += 1;
        if *times > 1 {
            notes.add(Oddity::QuestionIdRepeated, || id.clone());
            id = format!("{id}#{times}");
        }
        let place = place.named(format!("question {id}"));
        let cutoff = match at(&meta.question_dates, index) {
            Some(date) => Some(Timestamp::read(&date).map(|(date, _)| date).map_err(|e| {
                let mend = "write the date in one of these forms";
                place.error("metadata.question_dates", e.to_string(), mend)
            })?),
            None => None,
        };
        let abstains = at(&meta.question_ids, index).is_some_and(|id| id.ends_with("_abs"));
        let gold = gold(raw, abstains, row, &place)?;
        let marked = meta.haystack_sessions.as_ref().and_then(|h| h.get(index));
        let evidence = match marked {
            Some(sessions) => said.evidence(self::marked(sessions, index), &id, notes),
            None => Evidence::default(),
        };
        questions.push(Question {
            benchmark: Benchmark::Memoryagentbench,
            source: Some(source.to_owned()),
            conversation: conversation.id.clone(),
            id: QuestionId::from(id),
            phase: None,
            kind: Kind::from(at(&meta.question_types, index).unwrap_or_else(|| source.to_owned())),
            text: text.clone(),
            options: Vec::new(),
            cutoff,
            gold: Some(gold),
            evidence,
        });
    }
    Ok(questions)
}

/// Several answers are spellings of one, except the recommendations of ReDial, each of which is
/// wanted. A summary's key points are its rubric.
fn gold(
    raw: &RawValue,
    abstains: bool,
    row: &Row<'_>,
    place: &Place<'_>,
) -> Result<Gold, LoadError> {
    let recommends = row.metadata.source.starts_with(RECOMMENDATIONS);
    let answer = match answer(raw, "answers", place)? {
        Answer::List(values) if recommends => Answer::List(values),
        Answer::List(mut values) => match values.len() {
            1 => Answer::Text(values.remove(0)),
            _ => Answer::AnyOf(values),
        },
        other => other,
    };
    if abstains {
        return Ok(Gold::Abstention {
            explanation: answer.to_string(),
        });
    }
    match row.metadata.keypoints.as_deref() {
        Some(points) if !points.is_empty() && row.questions.len() == 1 => {
            if points.iter().any(|point| point.trim().is_empty()) {
                let problem = "a key point is empty";
                let mend = "give the point, or take it out";
                return Err(place.error("metadata.keypoints", problem, mend));
            }
            Ok(Gold::Rubric {
                ideal: Some(answer),
                points: points.to_vec(),
            })
        }
        _ => Ok(Gold::Answer(answer)),
    }
}

/// The turns that are marked as holding a question's answer, and how the file refers to them.
fn marked(
    sessions: &[Vec<Turn>],
    question: usize,
) -> impl Iterator<Item = (String, Option<Words<'_>>)> {
    sessions.iter().enumerate().flat_map(move |(s, session)| {
        let marked = session.iter().enumerate();
        let marked = marked.filter(|(_, turn)| turn.has_answer == Some(true));
        marked.map(move |(t, turn)| {
            let written = format!("haystack_sessions[{question}][{s}][{t}]");
            (written, Some((turn.role.as_str(), turn.content.as_str())))
        })
    })
}

/// A speaker and what was said.
type Words<'a> = (&'a str, &'a str);

#[cfg(test)]
mod tests {
    use super::facts;
    use crate::report::Notes;

    #[test]
    fn facts_keep_their_numbers() {
        let mut notes = Notes::default();
        let text = "Here is a list of facts:\n0. A. B. is C.\n12. D is E.\nmore\n\n3. F is G.";
        let shown: Vec<String> = facts(text, "c", &mut notes)
            .into_iter()
            .map(|fact| format!("{} {:?}", fact.id, fact.text))
            .collect();
        assert_eq!(
            shown,
            [
                r#"0 "0. A. B. is C.""#,
                r#"12 "12. D is E.\nmore""#,
                r#"3 "3. F is G.""#
            ]
        );
        assert_eq!(notes.0.len(), 1);
    }
}
