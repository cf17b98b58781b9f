//! LoCoMo's release: an array of samples, each a conversation with its questions.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use serde::Deserialize;
use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::elements::Place;
use super::{Entry, answer, note_repeated_questions};
use crate::error::LoadError;
use crate::report::{Notes, Oddity};
use crate::{
    Benchmark, Conversation, ConversationId, Evidence, Gold, Kind, Message, MessagePosition,
    Question, QuestionId, Session, SessionId, SessionPosition, Timestamp,
};

#[derive(Deserialize)]
struct Sample<'a> {
    sample_id: String,
    conversation: Dialogue,
    #[serde(borrow)]
    qa: Vec<Item<'a>>,
}

#[derive(Deserialize)]
struct Turn {
    dia_id: String,
    speaker: String,
    text: String,
    blip_caption: Option<String>,
}

#[derive(Deserialize)]
struct Item<'a> {
    question: String,
    #[serde(borrow)]
    category: &'a RawValue,
    #[serde(borrow)]
    answer: Option<&'a RawValue>,
    #[serde(borrow)]
    adversarial_answer: Option<&'a RawValue>,
    evidence: Option<Vec<String>>,
}

/// `session_N` and `session_N_date_time` under their numbers, so that the order of keys does not
/// matter.
#[derive(Default)]
struct Dialogue {
    sessions: BTreeMap<u32, Vec<Turn>>,
    dates: BTreeMap<u32, String>,
    unknown: Vec<String>,
}

/// Reads one sample.
pub(super) fn entry(
    json: &str,
    element: &Place<'_>,
    notes: &mut Notes,
) -> Result<Option<Entry>, LoadError> {
    let sample: Sample<'_> = element.parse(json)?;
    let place = element.named(&sample.sample_id);
    let conversation = conversation(&sample.sample_id, sample.conversation, &place, notes)?;
    let references = References::of(&conversation);
    let mut questions = Vec::with_capacity(sample.qa.len());
    for (index, item) in sample.qa.into_iter().enumerate() {
        let id = format!("{}/{index}", sample.sample_id);
        let (kind, gold) = kind_and_gold(&item, &id, &place, notes)?;
        questions.push(Question {
            benchmark: Benchmark::Locomo,
            source: None,
            conversation: conversation.id.clone(),
            kind,
            phase: None,
            text: item.question,
            options: Vec::new(),
            cutoff: None,
            gold: Some(gold),
            evidence: references.resolve(item.evidence.unwrap_or_default(), &id, notes),
            id: QuestionId::from(id),
        });
    }
    note_repeated_questions(&questions, notes);
    Ok(Some(Entry {
        conversation,
        questions,
    }))
}

fn conversation(
    id: &str,
    dialogue: Dialogue,
    place: &Place<'_>,
    notes: &mut Notes,
) -> Result<Conversation, LoadError> {
    let Dialogue {
        sessions,
        mut dates,
        unknown,
    } = dialogue;
    if sessions.is_empty() {
        let problem = "the conversation has no session_1, session_2, ...";
        return Err(place.error(
            "conversation",
            problem,
            "give its sessions under these names",
        ));
    }
    let sessions = sessions
        .into_iter()
        .map(|(number, turns)| {
            let name = format!("session_{number}");
            let date = match dates.remove(&number) {
                Some(text) => Some(text.parse::<Timestamp>().map_err(|e| {
                    let field = format!("conversation.{name}_date_time");
                    place.error(
                        &field,
                        e.to_string(),
                        "write the date in one of these forms",
                    )
                })?),
                None => {
                    notes.add(Oddity::DateMissing, || format!("{id} {name}"));
                    None
                }
            };
            Ok(Session {
                id: SessionId::from(name),
                date,
                messages: turns.into_iter().map(Turn::message).collect(),
            })
        })
        .collect::<Result<_, LoadError>>()?;
    for number in dates.keys() {
        notes.add(Oddity::DateWithoutSession, || {
            format!("{id} session_{number}_date_time")
        });
    }
    for field in unknown {
        notes.add(Oddity::FieldUnknown, || {
            format!("{id} conversation.{field}")
        });
    }
    Ok(Conversation {
        id: ConversationId::from(id),
        sessions,
    })
}

impl Turn {
    fn message(self) -> Message {
        Message {
            id: self.dia_id.into(),
            speaker: self.speaker,
            text: self.text,
            captions: self.blip_caption.into_iter().collect(),
            date: None,
        }
    }
}

/// The category's name, after the release's numbering, which its question counts confirm: 282
/// multi-hop, 321 temporal, 96 open-domain, 841 single-hop and 446 adversarial.
fn kind_and_gold(
    item: &Item<'_>,
    id: &str,
    place: &Place<'_>,
    notes: &mut Notes,
) -> Result<(Kind, Gold), LoadError> {
    let at = place.named(format!("question {id}"));
    let written = item.category.get();
    if written.starts_with('"') {
        notes.add(Oddity::CategoryAsText, || id.to_owned());
    }
    let kind = match written.trim_matches('"').trim() {
        "1" => "multi-hop",
        "2" => "temporal",
        "3" => "open-domain",
        "4" => "single-hop",
        "5" => "adversarial",
        _ => {
            let problem = format!(
                "{} is no category",
                written.chars().take(40).collect::<String>()
            );
            return Err(at.error("category", problem, "give a number from 1 to 5"));
        }
    };
    let given = match item.answer {
        Some(raw) => Some(answer(raw, "answer", &at)?),
        None => None,
    };
    if !matches!(given, None | Some(crate::Answer::Text(_))) {
        notes.add(Oddity::AnswerNotText, || id.to_owned());
    }
    let gold = if kind == "adversarial" {
        let Some(raw) = item.adversarial_answer else {
            let problem = "an adversarial question has no lure";
            return Err(at.error(
                "adversarial_answer",
                problem,
                "give the wrong answer it invites",
            ));
        };
        let oddity = match given {
            None => Oddity::AdversarialWithoutAnswer,
            Some(_) => Oddity::AdversarialWithAnswer,
        };
        notes.add(oddity, || id.to_owned());
        let lure = answer(raw, "adversarial_answer", &at)?.to_string();
        Gold::Adversarial {
            lure,
            answer: given,
        }
    } else {
        if item.adversarial_answer.is_some() {
            notes.add(Oddity::LureOutsideCategory5, || id.to_owned());
        }
        let missing = || at.error("answer", "the question has no answer", "give its answer");
        Gold::Answer(given.ok_or_else(missing)?)
    };
    Ok((Kind::from(kind), gold))
}

/// The messages of a conversation by id.
struct References<'a>(HashMap<&'a str, (SessionPosition, MessagePosition)>);

impl<'a> References<'a> {
    fn of(conversation: &'a Conversation) -> Self {
        let mut positions = HashMap::new();
        for (session, position, message) in conversation.messages() {
            // An id that comes again means its first message.
            positions
                .entry(message.id.as_str())
                .or_insert((session, position));
        }
        Self(positions)
    }

    fn resolve(&self, written: Vec<String>, id: &str, notes: &mut Notes) -> Evidence {
        if written.is_empty() {
            notes.add(Oddity::EvidenceAbsent, || id.to_owned());
        }
        let mut unresolved = Vec::new();
        let mut found = Vec::new();
        for text in &written {
            if self.0.contains_key(text.as_str()) {
                found.extend(self.0.get(text.as_str()));
                continue;
            }
            let parts: Vec<&str> = text
                .split(|c: char| c == ';' || c == ',' || c.is_whitespace())
                .filter(|part| !part.is_empty())
                .collect();
            if parts.len() > 1 {
                notes.add_detail(Oddity::EvidenceJoined, || {
                    (
                        id.to_owned(),
                        Some(format!("{text:?} read as {}", parts.join(" and "))),
                    )
                });
            }
            for part in parts {
                match self.0.get(part) {
                    Some(position) => found.push(*position),
                    None => match self.read_malformed(part, id, notes) {
                        Some(position) => found.push(position),
                        None => unresolved.push(part.to_owned()),
                    },
                }
            }
        }
        let named = found.len();
        found.sort_unstable();
        found.dedup();
        if found.len() < named {
            notes.add_detail(Oddity::EvidenceRepeated, || {
                (
                    id.to_owned(),
                    Some(format!("{named} references, {} different", found.len())),
                )
            });
        }
        let mut sessions: Vec<_> = found.iter().map(|&(session, _)| session).collect();
        sessions.dedup();
        let messages = found.into_iter().map(|(_, message)| message).collect();
        Evidence {
            messages,
            sessions,
            written,
            unresolved,
        }
    }

    /// Reads `D:11:26` and `D30:05` as the ids they can only mean.
    fn read_malformed(
        &self,
        part: &str,
        id: &str,
        notes: &mut Notes,
    ) -> Option<(SessionPosition, MessagePosition)> {
        let mut note = |oddity, detail: String| {
            notes.add_detail(oddity, || (id.to_owned(), Some(detail)));
        };
        let numbers = part.strip_prefix('D').and_then(|rest| {
            let (session, turn) = rest.strip_prefix(':').unwrap_or(rest).split_once(':')?;
            Some((digits(session)?, digits(turn)?))
        });
        let Some((session, turn)) = numbers else {
            note(Oddity::EvidenceUnreadable, format!("{part:?}"));
            return None;
        };
        let meant = format!("D{session}:{turn}");
        let position = self.0.get(meant.as_str()).copied();
        match position {
            Some(_) => note(
                Oddity::EvidenceMalformed,
                format!("{part:?} read as {meant}"),
            ),
            None => note(Oddity::EvidenceDangling, format!("{part:?}")),
        }
        position
    }
}

fn digits(text: &str) -> Option<u32> {
    text.bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| text.parse().ok())?
}

impl<'de> Deserialize<'de> for Dialogue {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Dialogue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of session_1, session_1_date_time, session_2, ...")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Dialogue, A::Error> {
                let mut dialogue = Dialogue::default();
                while let Some(key) = map.next_key::<String>()? {
                    let repeated = || A::Error::custom(format_args!("duplicate field `{key}`"));
                    let name = key.strip_prefix("session_");
                    if let Some(number) = name.and_then(digits) {
                        if dialogue
                            .sessions
                            .insert(number, map.next_value()?)
                            .is_some()
                        {
                            return Err(repeated());
                        }
                    } else if let Some(number) = name
                        .and_then(|n| n.strip_suffix("_date_time"))
                        .and_then(digits)
                    {
                        if dialogue.dates.insert(number, map.next_value()?).is_some() {
                            return Err(repeated());
                        }
                    } else {
                        map.next_value::<IgnoredAny>()?;
                        if key != "speaker_a" && key != "speaker_b" {
                            dialogue.unknown.push(key);
                        }
                    }
                }
                Ok(dialogue)
            }
        }
        deserializer.deserialize_map(Fields)
    }
}
