//! A stream of labelled lines and lines to label. A label is told by its words.

use jiff::ToSpan;
use jiff::civil::date;

use super::Family;
use super::draws::{Draws, Purpose, Words};
use super::episode::cited;
use super::recipe::LabelRecipe;
use crate::{
    Answer, Benchmark, Conversation, Entry, Gold, Kind, Message, MessageId, MessagePosition,
    Question, QuestionId, Session, SessionId, Timestamp,
};

/// Lines a session.
const SESSION: usize = 50;

/// The most words that tell a label.
const MOST_CUES: usize = 8;

/// Makes the stream numbered `index`.
pub(super) fn make(recipe: &LabelRecipe, seed: u64, index: u32) -> Entry {
    let mut draws = Draws::new(
        seed,
        Family::InContextClassification,
        Purpose::Content,
        index,
    );
    let mut words = Words::default();
    let labels = recipe.labels as usize;
    // Each word stands in two lines or more.
    let cues = (recipe.demonstrations as usize / (2 * labels)).clamp(1, MOST_CUES);
    let cues: Vec<Vec<String>> = (0..labels)
        .map(|_| (0..cues).map(|_| words.new_word(&mut draws)).collect())
        .collect();
    let mut shown: Vec<(usize, usize)> = (0..recipe.demonstrations as usize)
        .map(|n| (n % labels, n / labels % cues[0].len()))
        .collect();
    draws.shuffle(&mut shown);
    let lines: Vec<String> = shown
        .iter()
        .map(|&(label, cue)| format!("{} Label: {label}.", line(&cues[label][cue], &mut draws)))
        .collect();
    let conversation = conversation(index, lines);
    let questions = (1..=recipe.tests)
        .map(|n| {
            let asked = (draws.below(labels), draws.below(cues[0].len()));
            let text = line(&cues[asked.0][asked.1], &mut draws);
            let same = shown.iter().zip(0..).filter(|(shown, _)| **shown == asked);
            let evidence = cited(&conversation, same.map(|(_, place)| MessagePosition(place)));
            Question {
                benchmark: Benchmark::Synthetic,
                source: Some(Family::InContextClassification.source().to_owned()),
                conversation: conversation.id.clone(),
                id: QuestionId::from(format!("q{n}")),
                phase: None,
                kind: Kind::from("classification"),
                text: format!("{ASKED}{text}"),
                options: Vec::new(),
                cutoff: None,
                gold: Some(Gold::Answer(Answer::Number(asked.0.to_string()))),
                evidence,
            }
        })
        .collect();
    Entry {
        conversation,
        questions,
    }
}

const ASKED: &str = "Which label number fits this line? ";

/// A sentence about the thing of that name.
fn line(cue: &str, draws: &mut Draws) -> String {
    let days = ["Monday", "Tuesday", "Thursday", "Saturday"];
    let (day, other) = (draws.pick(&days), draws.pick(&days));
    match draws.below(8) {
        0 => format!("I would like to return the {cue} that came on {day}."),
        1 => format!("Nobody has been able to open the {cue} since {day}."),
        2 => format!("Could a second {cue} be sent by {day}?"),
        3 => format!("My {cue} was charged twice, on {day} and on {other}."),
        4 => format!("The {cue} works, but it has made a noise since {day}."),
        5 => format!("Is it too late to have the {cue} changed before {day}?"),
        6 => format!("They told me that the {cue} would be ready on {day}."),
        _ => format!("How do I give the {cue} to somebody else by {day}?"),
    }
}

fn conversation(index: u32, lines: Vec<String>) -> Conversation {
    let mut day = date(2031, 3, 1);
    let mut sessions: Vec<Session> = Vec::new();
    for (n, text) in lines.into_iter().enumerate() {
        if n % SESSION == 0 {
            let began = Timestamp {
                local: day.at(9, 0, 0, 0),
                offset_minutes: None,
                has_time: true,
            };
            day = day.saturating_add(1.day());
            sessions.push(Session {
                id: SessionId::from(format!("s{:04}", n / SESSION + 1)),
                date: Some(began),
                messages: Vec::new(),
            });
        }
        if let Some(session) = sessions.last_mut() {
            session.messages.push(Message {
                id: MessageId::from(format!("d{}", n + 1)),
                speaker: "Stream".to_owned(),
                text,
                captions: Vec::new(),
                date: session.date,
            });
        }
    }
    Conversation {
        id: Family::InContextClassification.conversation(index, "stream"),
        sessions,
    }
}

/// A labelled line read back: its words and its label.
pub(super) fn read_line(line: &str) -> Option<(&str, u32)> {
    let (text, label) = line.rsplit_once(" Label: ")?;
    let text = text.rsplit_once(": ").map_or(text, |(_, text)| text);
    Some((text, label.strip_suffix('.')?.parse().ok()?))
}

/// The line that a question asks about.
pub(super) fn read_question(question: &str) -> Option<&str> {
    question.strip_prefix(ASKED)
}

/// The words of a line that are no language's: those with a capital inside it, but for days.
pub(super) fn cues(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words
        .skip(1)
        .filter(|word| word.starts_with(|c: char| c.is_uppercase()))
        .filter(|word| word.len() > 4 && !word.ends_with("day"))
}
