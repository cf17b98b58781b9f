//! Long-MT-Bench+: conversations of several sessions, with the questions asked about each.
//!
//! A row has `conversation_id`, `sessions` (lists of turns, each a text), `questions`, `answers` and
//! `turns` (the sessions in one list, not read). A turn writes its speakers at the beginnings of
//! lines (`[human]: ...`, `[bot]: ...`), and each becomes a message; sessions are undated and
//! questions have no types. JSON, JSON lines and, with the feature `parquet`, Parquet are read. The
//! layout follows a program that reads the release; no real file has exercised this reader.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::elements::Place;
use super::{Entry, answer, note_repeated_questions};
use crate::error::LoadError;
use crate::report::{Notes, Oddity};
use crate::{
    Benchmark, Conversation, ConversationId, Evidence, Gold, Kind, Message, MessageId, Question,
    QuestionId, Session, SessionId,
};

#[derive(Deserialize)]
struct Row<'a> {
    #[serde(borrow)]
    conversation_id: &'a RawValue,
    sessions: Vec<Vec<String>>,
    questions: Vec<String>,
    #[serde(borrow)]
    answers: Vec<&'a RawValue>,
}

/// The type that every question is given.
const KIND: &str = "follow-up";

/// Reads one row.
pub(super) fn entry(
    json: &str,
    element: &Place<'_>,
    notes: &mut Notes,
) -> Result<Option<Entry>, LoadError> {
    let row: Row<'_> = element.parse(json)?;
    let id = row.conversation_id.get().trim_matches('"').to_owned();
    if id.is_empty() || id == "null" {
        let mend = "give each conversation its id";
        return Err(element.error("conversation_id", "the id is empty", mend));
    }
    let place = element.named(format!("conversation {id}"));
    let (asked, answered) = (row.questions.len(), row.answers.len());
    if asked != answered {
        let problem = format!("{asked} questions have {answered} answers");
        return Err(place.error("answers", problem, "give one answer for each question"));
    }
    let sessions = row.sessions.into_iter().zip(1_u32..);
    let conversation = Conversation {
        sessions: sessions
            .map(|(turns, number)| session(&turns, number, &id, notes))
            .collect(),
        id: ConversationId::from(id),
    };
    let mut questions = Vec::with_capacity(asked);
    for (index, (text, raw)) in row.questions.into_iter().zip(row.answers).enumerate() {
        let id = format!("{}/{index}", conversation.id);
        let at = place.named(format!("question {id}"));
        questions.push(Question {
            benchmark: Benchmark::LongMtBenchPlus,
            source: None,
            conversation: conversation.id.clone(),
            id: QuestionId::from(id),
            phase: None,
            kind: Kind::from(KIND),
            text,
            options: Vec::new(),
            cutoff: None,
            gold: Some(Gold::Answer(answer(raw, "answers", &at)?)),
            evidence: Evidence::default(),
        });
    }
    note_repeated_questions(&questions, notes);
    Ok(Some(Entry {
        conversation,
        questions,
    }))
}

fn session(turns: &[String], number: u32, conversation: &str, notes: &mut Notes) -> Session {
    let mut messages: Vec<Message> = Vec::new();
    for turn in turns {
        for (speaker, text) in speeches(turn) {
            let id = format!("{number}:{}", messages.len() + 1);
            if speaker == UNNAMED {
                notes.add(Oddity::SpeakerUnmarked, || format!("{conversation} {id}"));
            }
            messages.push(Message {
                id: MessageId::from(id),
                speaker: speaker.to_owned(),
                text: text.to_owned(),
                captions: Vec::new(),
                date: None,
            });
        }
    }
    Session {
        id: SessionId::from(number.to_string()),
        date: None,
        messages,
    }
}

/// The speaker of words that stand ahead of any mark.
const UNNAMED: &str = "turn";

/// The marks that begin a message, at the beginning of a line.
const MARKS: [(&str, &str); 4] = [
    ("[human]:", "human"),
    ("[bot]:", "bot"),
    ("[user]:", "user"),
    ("[assistant]:", "assistant"),
];

/// The speakers of a turn and what they say, without the marks and the spaces beside them.
fn speeches(turn: &str) -> Vec<(&'static str, &str)> {
    let mut starts = Vec::new();
    let mut at = 0;
    for line in turn.split_inclusive('\n') {
        let mark = MARKS.into_iter().find(|(mark, _)| {
            let begin = line.get(..mark.len());
            begin.is_some_and(|begin| begin.eq_ignore_ascii_case(mark))
        });
        if let Some((mark, speaker)) = mark {
            starts.push((at, at + mark.len(), speaker));
        }
        at += line.len();
    }
    let mut speeches = Vec::new();
    let first = starts.first().map_or(turn.len(), |&(start, ..)| start);
    if !turn[..first].trim().is_empty() {
        speeches.push((UNNAMED, turn[..first].trim()));
    }
    for (n, &(_, begin, speaker)) in starts.iter().enumerate() {
        let end = starts.get(n + 1).map_or(turn.len(), |&(next, ..)| next);
        speeches.push((speaker, turn[begin..end].trim()));
    }
    speeches
}
