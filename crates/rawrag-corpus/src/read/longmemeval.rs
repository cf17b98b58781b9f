//! LongMemEval's release (S, M, oracle): an array of questions, each with its own haystack.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::elements::Place;
use super::{Entry, answer};
use crate::error::LoadError;
use crate::report::{Notes, Oddity};
use crate::{
    Answer, Benchmark, Conversation, ConversationId, Evidence, Gold, Kind, Message, MessageId,
    Question, QuestionId, Session, SessionId, SessionPosition, Timestamp,
};

#[derive(Deserialize)]
struct Item<'a> {
    question_id: String,
    question_type: String,
    question: String,
    #[serde(borrow)]
    answer: &'a RawValue,
    question_date: String,
    haystack_dates: Vec<String>,
    haystack_session_ids: Vec<String>,
    haystack_sessions: Vec<Vec<Turn>>,
    answer_session_ids: Vec<String>,
}

#[derive(Deserialize)]
struct Turn {
    role: String,
    content: String,
    has_answer: Option<bool>,
}

/// Reads one question with its haystack, as a conversation with the question's id.
pub(super) fn entry(
    json: &str,
    element: &Place<'_>,
    notes: &mut Notes,
) -> Result<Option<Entry>, LoadError> {
    let item: Item<'_> = element.parse(json)?;
    let id = item.question_id;
    let at = element.named(format!("question {id}"));
    let (sessions, dates) = (item.haystack_sessions.len(), item.haystack_dates.len());
    let ids = item.haystack_session_ids.len();
    if sessions != dates || sessions != ids {
        let problem = format!("{sessions} sessions have {dates} dates and {ids} ids");
        let mend = "give haystack_sessions, haystack_dates and haystack_session_ids one length";
        return Err(at.error("haystack_sessions", problem, mend));
    }
    let gold = gold(&id, answer(item.answer, "answer", &at)?, notes);
    let cutoff = date(&item.question_date, "question_date", &at, &id, notes)?;
    let mut marked = Marked::default();
    let mut conversation = Conversation {
        id: ConversationId::from(id.as_str()),
        sessions: Vec::new(),
    };
    let mut dates = item.haystack_dates.iter();
    for (session_id, turns) in item.haystack_session_ids.iter().zip(item.haystack_sessions) {
        let position = conversation.sessions.len();
        let place = format!("{id} session {session_id}");
        let began = match dates.next() {
            Some(text) => {
                let field = format!("haystack_dates[{position}]");
                Some(date(text, &field, &at, &place, notes)?)
            }
            None => None,
        };
        if began.is_some_and(|began| began > cutoff) {
            notes.add(Oddity::SessionAfterQuestion, || place);
        }
        marked.session(position, &turns);
        conversation
            .sessions
            .push(session(session_id, began, turns));
    }
    let evidence = evidence(&conversation, item.answer_session_ids, &marked, notes);
    let question = Question {
        benchmark: Benchmark::Longmemeval,
        source: None,
        conversation: conversation.id.clone(),
        id: QuestionId::from(id),
        phase: None,
        kind: Kind::from(item.question_type),
        text: item.question,
        options: Vec::new(),
        cutoff: Some(cutoff),
        gold: Some(gold),
        evidence,
    };
    Ok(Some(Entry {
        conversation,
        questions: vec![question],
    }))
}

/// Abstention is told from the id alone; no type of question stands for it.
fn gold(id: &str, answer: Answer, notes: &mut Notes) -> Gold {
    if !matches!(answer, Answer::Text(_)) {
        notes.add(Oddity::AnswerNotText, || id.to_owned());
    }
    if id.ends_with("_abs") {
        Gold::Abstention {
            explanation: answer.to_string(),
        }
    } else {
        Gold::Answer(answer)
    }
}

fn date(
    text: &str,
    field: &str,
    at: &Place<'_>,
    place: &str,
    notes: &mut Notes,
) -> Result<Timestamp, LoadError> {
    let (date, weekday_agrees) = Timestamp::read(text)
        .map_err(|e| at.error(field, e.to_string(), "write the date in one of these forms"))?;
    if !weekday_agrees {
        notes.add_detail(Oddity::WeekdayWrong, || {
            (place.to_owned(), Some(format!("{text:?} read as {date}")))
        });
    }
    Ok(date)
}

fn session(id: &str, date: Option<Timestamp>, turns: Vec<Turn>) -> Session {
    let messages = turns
        .into_iter()
        .zip(1..)
        .map(|(turn, ordinal): (Turn, u32)| Message {
            id: MessageId::from(format!("{id}:{ordinal}")),
            speaker: turn.role,
            text: turn.content,
            captions: Vec::new(),
            date: None,
        })
        .collect();
    Session {
        id: SessionId::from(id),
        date,
        messages,
    }
}

/// What `has_answer` marks.
#[derive(Default)]
struct Marked {
    evidence: Evidence,
    messages_before: u32,
}

impl Marked {
    fn session(&mut self, position: usize, turns: &[Turn]) {
        let before = self.evidence.messages.len();
        for turn in turns {
            if turn.has_answer == Some(true) {
                self.evidence
                    .messages
                    .push(crate::MessagePosition(self.messages_before));
            }
            self.messages_before += 1;
        }
        if self.evidence.messages.len() > before {
            self.evidence
                .sessions
                .push(SessionPosition(position as u32));
        }
    }
}

/// A session id names every session that has it.
fn evidence(
    conversation: &Conversation,
    written: Vec<String>,
    marked: &Marked,
    notes: &mut Notes,
) -> Evidence {
    let id = &conversation.id;
    if written.is_empty() {
        notes.add(Oddity::EvidenceAbsent, || id.to_string());
    }
    let named: HashSet<&str> = written.iter().map(String::as_str).collect();
    if named.len() < written.len() {
        notes.add(Oddity::EvidenceRepeated, || id.to_string());
    }
    let mut sessions = Vec::new();
    for (session, position) in conversation.sessions.iter().zip((0..).map(SessionPosition)) {
        let (is_named, is_marked) = (
            named.contains(session.id.as_str()),
            marked.evidence.sessions.contains(&position),
        );
        let place = || format!("{id} session {}", session.id);
        match (is_named, is_marked) {
            (true, false) => notes.add(Oddity::EvidenceWithoutMessage, place),
            (false, true) => notes.add(Oddity::EvidenceOutsideSessions, place),
            _ => {}
        }
        if is_named || is_marked {
            sessions.push(position);
        }
    }
    let mut unresolved = Vec::new();
    for reference in &written {
        if conversation
            .sessions
            .iter()
            .all(|s| s.id.as_str() != reference)
        {
            notes.add_detail(Oddity::EvidenceDangling, || {
                (id.to_string(), Some(format!("{reference:?}")))
            });
            unresolved.push(reference.clone());
        }
    }
    Evidence {
        messages: marked.evidence.messages.clone(),
        sessions,
        written,
        unresolved,
    }
}
