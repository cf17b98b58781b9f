//! Our own format, one message a line, described at [`Format`](super::Format).

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::elements::{Place, not_utf8, skip_mark};
use super::sessions::Sessions;
use super::{Entry, HISTORY, answer, note_repeated_questions};
use crate::error::LoadError;
use crate::report::{Notes, Oddity};
use crate::{
    Benchmark, Conversation, ConversationId, Evidence, Gold, Kind, Message, MessageId,
    MessagePosition, Phase, Question, QuestionId, SessionPosition, Timestamp,
};

/// The file beside `history.jsonl` that holds the questions about it.
const QUESTIONS: &str = "questions.jsonl";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MessageLine {
    conversation: String,
    session: Option<String>,
    date: Option<String>,
    id: Option<String>,
    speaker: String,
    text: String,
    #[serde(default)]
    captions: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QuestionLine {
    conversation: String,
    id: String,
    kind: String,
    question: String,
    answer: Option<Box<RawValue>>,
    lure: Option<String>,
    explanation: Option<String>,
    #[serde(default)]
    evidence: Vec<String>,
    asked: Option<String>,
    phase: Option<Phase>,
}

/// The conversations of a file, each with its questions.
pub(super) struct Conversations<'a> {
    lines: Lines<'a, BufReader<File>>,
    /// The first line of the conversation that comes next.
    ahead: Option<(u64, MessageLine)>,
    /// Those not yet handed out, by conversation.
    questions: BTreeMap<String, Vec<(u64, Question)>>,
    questions_file: PathBuf,
}

impl<'a> Conversations<'a> {
    pub(super) fn new(file: &'a Path, input: BufReader<File>) -> Result<Self, LoadError> {
        let questions_file = file.with_file_name(QUESTIONS);
        let has_questions = file.file_name().is_some_and(|name| name == HISTORY);
        let questions = if has_questions && questions_file.exists() {
            read_questions(&questions_file)?
        } else {
            BTreeMap::new()
        };
        let mut lines = Lines::new(file, input)?;
        Ok(Self {
            ahead: lines.next()?,
            lines,
            questions,
            questions_file,
        })
    }

    /// The next conversation and where it begins.
    pub(super) fn next(
        &mut self,
        notes: &mut Notes,
    ) -> Result<Option<(Entry, Place<'a>)>, LoadError> {
        let Some((begins, first)) = self.ahead.take() else {
            return self.refuse_questions_left();
        };
        let place = self.lines.place(begins);
        let name = first.conversation.clone();
        if name.is_empty() {
            return Err(place.error(
                "conversation",
                "the id is empty",
                "give the conversation an id",
            ));
        }
        let mut reading = Reading {
            has_sessions: first.session.is_some(),
            ..Reading::default()
        };
        reading.add(first, &place, notes)?;
        while let Some((line, message)) = self.lines.next::<MessageLine>()? {
            if message.conversation != name {
                self.ahead = Some((line, message));
                break;
            }
            reading.add(message, &self.lines.place(line), notes)?;
        }
        let conversation = Conversation {
            id: ConversationId::from(name.as_str()),
            sessions: reading.sessions.finish(),
        };
        let questions = self.questions.remove(&name).unwrap_or_default();
        let questions = with_evidence(questions, &conversation, notes);
        note_repeated_questions(&questions, notes);
        Ok(Some((
            Entry {
                conversation,
                questions,
            },
            place,
        )))
    }

    fn refuse_questions_left<T>(&self) -> Result<Option<T>, LoadError> {
        let left = self
            .questions
            .iter()
            .filter_map(|(name, q)| Some((q.first()?.0, name)));
        let Some((line, name)) = left.min() else {
            return Ok(None);
        };
        let place = Place {
            file: &self.questions_file,
            line: Some(line),
            name: String::new(),
        };
        Err(place.error(
            "conversation",
            format!("the history holds no conversation {name:?}"),
            "correct the id, or take the question out",
        ))
    }
}

/// A conversation while its lines are read.
#[derive(Default)]
struct Reading {
    has_sessions: bool,
    sessions: Sessions,
    /// The line of each message id.
    ids: HashMap<MessageId, u64>,
}

impl Reading {
    fn add(
        &mut self,
        line: MessageLine,
        place: &Place<'_>,
        notes: &mut Notes,
    ) -> Result<(), LoadError> {
        if line.speaker.trim().is_empty() {
            return Err(place.error("speaker", "the speaker is empty", "name the speaker"));
        }
        if line.session.is_some() != self.has_sessions {
            let problem = "some messages of this conversation have a session and some have none";
            return Err(place.error("session", problem, "give it on every line or on none"));
        }
        let date = line
            .date
            .as_deref()
            .map(|text| date(text, "date", place))
            .transpose()?;
        let number = place.line.unwrap_or_default();
        if date.is_none() {
            notes.add(Oddity::DateMissing, || {
                format!("{} line {number}", line.conversation)
            });
        }
        let mut earlier = None;
        self.sessions.push(line.session, date, |session, ordinal| {
            let id = match line.id {
                Some(id) => MessageId::from(id),
                None => MessageId::from(format!("{session}:{ordinal}")),
            };
            earlier = self
                .ids
                .insert(id.clone(), number)
                .map(|line| (line, id.clone()));
            Message {
                id,
                speaker: line.speaker,
                text: line.text,
                captions: line.captions,
                date,
            }
        });
        match earlier {
            None => Ok(()),
            Some((line, id)) => Err(place.error(
                "id",
                format!("message {id} of this conversation stands on line {line} too"),
                "give each message of a conversation its own id",
            )),
        }
    }
}

/// The questions of a file by conversation, each with its line and its evidence unresolved.
fn read_questions(file: &Path) -> Result<BTreeMap<String, Vec<(u64, Question)>>, LoadError> {
    let input = File::open(file).map_err(|source| LoadError::Read {
        file: file.to_owned(),
        source,
    })?;
    let mut lines = Lines::new(file, BufReader::new(input))?;
    let mut questions: BTreeMap<_, Vec<(u64, Question)>> = BTreeMap::new();
    let mut seen = HashMap::new();
    while let Some((number, line)) = lines.next::<QuestionLine>()? {
        let place = lines.place(number);
        let key = (line.conversation.clone(), line.id.clone(), line.phase);
        if let Some(earlier) = seen.insert(key, number) {
            return Err(place.error(
                "id",
                format!(
                    "question {} of this conversation and phase stands on line {earlier} too",
                    line.id
                ),
                "give each question of a conversation and phase its own id",
            ));
        }
        let name = line.conversation.clone();
        questions
            .entry(name)
            .or_default()
            .push((number, question(line, &place)?));
    }
    Ok(questions)
}

fn question(line: QuestionLine, place: &Place<'_>) -> Result<Question, LoadError> {
    let gold = gold(&line, place)?;
    Ok(Question {
        benchmark: Benchmark::Own,
        source: None,
        conversation: ConversationId::from(line.conversation),
        id: QuestionId::from(line.id),
        phase: line.phase,
        kind: Kind::from(line.kind),
        text: line.question,
        options: Vec::new(),
        cutoff: line
            .asked
            .map(|text| date(&text, "asked", place))
            .transpose()?,
        gold,
        evidence: Evidence {
            written: line.evidence,
            ..Evidence::default()
        },
    })
}

fn gold(line: &QuestionLine, place: &Place<'_>) -> Result<Option<Gold>, LoadError> {
    let given = line
        .answer
        .as_deref()
        .map(|raw| answer(raw, "answer", place))
        .transpose()?;
    let text = |field: &str, text: &String| match text.trim() {
        "" => Err(place.error(field, "it is empty", "write it out, or leave the field out")),
        _ => Ok(text.clone()),
    };
    match (given, &line.lure, &line.explanation) {
        (answer, Some(lure), None) => Ok(Some(Gold::Adversarial {
            lure: text("lure", lure)?,
            answer,
        })),
        (None, None, Some(explanation)) => Ok(Some(Gold::Abstention {
            explanation: text("explanation", explanation)?,
        })),
        (answer, None, None) => Ok(answer.map(Gold::Answer)),
        (_, _, Some(_)) => Err(place.error(
            "explanation",
            "a question to abstain from has an answer or a lure too",
            "give explanation alone",
        )),
    }
}

fn with_evidence(
    questions: Vec<(u64, Question)>,
    conversation: &Conversation,
    notes: &mut Notes,
) -> Vec<Question> {
    let positions: HashMap<&str, (SessionPosition, MessagePosition)> = conversation
        .messages()
        .map(|(session, position, message)| (message.id.as_str(), (session, position)))
        .collect();
    let resolve = |(_, mut question): (u64, Question)| {
        let place = || format!("{} question {}", question.conversation, question.id);
        let evidence = &mut question.evidence;
        let mut found = Vec::new();
        for reference in &evidence.written {
            match positions.get(reference.as_str()) {
                Some(position) => found.push(*position),
                None => {
                    let finding = || (place(), Some(format!("{reference:?}")));
                    notes.add_detail(Oddity::EvidenceDangling, finding);
                    evidence.unresolved.push(reference.clone());
                }
            }
        }
        let named = found.len();
        found.sort_unstable();
        found.dedup();
        if found.len() < named {
            notes.add(Oddity::EvidenceRepeated, place);
        }
        evidence.sessions = found.iter().map(|&(session, _)| session).collect();
        evidence.sessions.dedup();
        evidence.messages = found.into_iter().map(|(_, message)| message).collect();
        question
    };
    questions.into_iter().map(resolve).collect()
}

fn date(text: &str, field: &str, place: &Place<'_>) -> Result<Timestamp, LoadError> {
    text.parse::<Timestamp>()
        .map_err(|e| place.error(field, e.to_string(), "write the date in one of these forms"))
}

/// The lines of a file as values, with their numbers from 1. Blank lines are skipped.
struct Lines<'a, R> {
    file: &'a Path,
    input: R,
    number: u64,
    line: Vec<u8>,
}

impl<'a, R: BufRead> Lines<'a, R> {
    fn new(file: &'a Path, mut input: R) -> Result<Self, LoadError> {
        skip_mark(file, &mut input)?;
        Ok(Self {
            file,
            input,
            number: 0,
            line: Vec::new(),
        })
    }

    fn next<T: DeserializeOwned>(&mut self) -> Result<Option<(u64, T)>, LoadError> {
        loop {
            self.line.clear();
            self.number += 1;
            let read = self.input.read_until(b'\n', &mut self.line);
            if read.map_err(|source| LoadError::Read {
                file: self.file.to_owned(),
                source,
            })? == 0
            {
                return Ok(None);
            }
            let place = self.place(self.number);
            let json = std::str::from_utf8(&self.line)
                .map_err(|e| not_utf8(&place, &self.line, e.valid_up_to()))?;
            if !json.trim().is_empty() {
                return Ok(Some((self.number, place.parse(json)?)));
            }
        }
    }

    fn place(&self, line: u64) -> Place<'a> {
        Place {
            file: self.file,
            line: Some(line),
            name: String::new(),
        }
    }
}
