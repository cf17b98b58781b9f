//! Proof, for one conversation, of what the generator promises.

use super::reader::{Reply, answer_from, is_right};
use crate::meme::{After, Annotated};
use crate::{Conversation, Entry, MessageId, Phase, QuestionId, Timestamp};

/// A promise that a conversation breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// A gold answer cannot be reached from what is visible when its question is asked.
    #[error("question {question} ({phase:?}) cannot be answered from its history: {reply}")]
    Unsolvable {
        /// The question.
        question: QuestionId,
        /// Its phase.
        phase: Option<Phase>,
        /// What is reached instead.
        reply: Reply,
    },
    /// A value stands in a message that is not there to say it.
    #[error("the value {value:?} stands in message {message}, which is not there to say it")]
    Leak {
        /// The value.
        value: String,
        /// The message.
        message: MessageId,
    },
}

/// Whether every gold answer can be reached from the messages that are visible when its question
/// is asked, by a reader of the generator's sentences.
///
/// # Errors
/// [`Flaw::Unsolvable`], the first.
pub fn check(entry: &Entry) -> Result<(), Flaw> {
    let mut visible: Option<(Option<Timestamp>, String)> = None;
    for question in &entry.questions {
        let text = match visible.take() {
            Some((cutoff, text)) if cutoff == question.cutoff => text,
            _ => text_until(&entry.conversation, question.cutoff),
        };
        let reply = answer_from(&text, &question.text);
        if !is_right(question, &reply) {
            return Err(Flaw::Unsolvable {
                question: question.id.clone(),
                phase: question.phase,
                reply,
            });
        }
        visible = Some((question.cutoff, text));
    }
    Ok(())
}

/// As [`check`]; and whether every value of the episode stands in no message but those annotated
/// as saying it: neither in a distractor nor in a reply. Case and white space make no difference.
///
/// # Errors
/// A [`Flaw`], the first.
pub fn check_episode(annotated: &Annotated) -> Result<(), Flaw> {
    check(&annotated.entry)?;
    let episode = &annotated.episode;
    let entities = episode.entities.values();
    let values = entities.flat_map(|entity| {
        let after: &[String] = match &entity.after {
            Some(After::Becomes(values)) => values,
            _ => &[],
        };
        entity.before.iter().chain(&entity.history).chain(after)
    });
    let (text, begins) = normal_messages(&annotated.entry.conversation);
    for value in values {
        for (at, _) in text.match_indices(&normal(value)) {
            let position = begins
                .partition_point(|begin| *begin <= at)
                .saturating_sub(1);
            let said = episode.statements.iter().any(|statement| {
                statement.message.is_some_and(|m| m.0 as usize == position)
                    && statement.value.as_ref() == Some(value)
            });
            let mut messages = annotated.entry.conversation.messages();
            if let (false, Some((.., message))) = (said, messages.nth(position)) {
                return Err(Flaw::Leak {
                    value: value.clone(),
                    message: message.id.clone(),
                });
            }
        }
    }
    Ok(())
}

/// All messages, normalised, a line each, and where each begins.
fn normal_messages(conversation: &Conversation) -> (String, Vec<usize>) {
    let mut text = String::new();
    let mut begins = Vec::new();
    for (.., message) in conversation.messages() {
        begins.push(text.len());
        text += &normal(&message.text);
        text.push('\n');
    }
    (text, begins)
}

fn normal(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").to_lowercase()
}

/// The messages dated no later than `cutoff`, a line each with its date.
fn text_until(conversation: &Conversation, cutoff: Option<Timestamp>) -> String {
    let mut text = String::new();
    for (_, _, message) in conversation.messages() {
        let too_late = |cutoff| message.date.is_some_and(|date| date > cutoff);
        if cutoff.is_some_and(too_late) {
            continue;
        }
        if let Some(date) = message.date {
            text += &format!("[{date}] ");
        }
        text += &format!("{}: {}\n", message.speaker, message.text);
    }
    text
}
