//! Listwise reranking: a chat model orders all passages in one reply.

use std::{fmt, sync::Arc};

use serde_json::Value;

use super::{
    ChatModel, ChatRequest, Message, Pending, RemoteError, RemoteReranker, ReplyFormat,
    chat::answer_of,
};
use crate::{ModelIdentity, ModelKind, Scores};

/// Puts a query and its numbered passages to the model. The reply must order the passages by
/// relevance, best first, numbered from 1.
pub type ListwisePrompt = Arc<dyn Fn(&str, &[&str]) -> Vec<Message> + Send + Sync>;

/// A chat model that reranks. The score of a passage is the number of passages placed behind it.
pub struct ListwiseReranker {
    chat: Arc<dyn ChatModel>,
    identity: ModelIdentity,
    prompt: ListwisePrompt,
    max_output: u32,
    format: ReplyFormat,
}

impl fmt::Debug for ListwiseReranker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ListwiseReranker({})", self.identity.name)
    }
}

impl ListwiseReranker {
    /// A reranker that asks `chat` with `prompt`, at temperature 0, for at most `max_output` tokens.
    pub fn new(
        chat: Arc<dyn ChatModel>,
        prompt: ListwisePrompt,
        max_output: u32,
        format: ReplyFormat,
    ) -> Self {
        let identity = ModelIdentity {
            kind: ModelKind::Listwise,
            ..chat.identity().clone()
        };
        Self {
            chat,
            identity,
            prompt,
            max_output,
            format,
        }
    }
}

impl RemoteReranker for ListwiseReranker {
    fn identity(&self) -> &ModelIdentity {
        &self.identity
    }

    fn address(&self) -> &str {
        self.chat.address()
    }

    fn score<'a>(&'a self, query: &'a str, passages: &'a [&'a str]) -> Pending<'a, Scores> {
        Box::pin(async move {
            let count = passages.len();
            let mut scores = vec![0.0; count];
            // One passage has one order.
            if count > 1 {
                let messages = (self.prompt)(query, passages);
                let mut request = ChatRequest::new(messages, self.max_output);
                request.format = self.format.clone();
                let reply = self.chat.chat(&request).await?;
                let text = answer_of(&self.identity.name, reply.outcome)?;
                let order = parse_order(&text, count).map_err(|reason| RemoteError::Unparsed {
                    model: self.identity.name.clone(),
                    reason,
                    reply: text,
                })?;
                for (rank, passage) in order.into_iter().enumerate() {
                    scores[passage] = (count - 1 - rank) as f32;
                }
            }
            let truncated = 0;
            Ok(Scores { scores, truncated })
        })
    }
}

/// The order in a reply, as positions from 0. The whole reply, in a code fence or not, must be a
/// JSON array of numbers, a JSON object whose only field is one, or numbers in brackets joined by
/// `>`; and it must hold every number from 1 to `count` once.
pub fn parse_order(reply: &str, count: usize) -> Result<Vec<usize>, String> {
    let text = unfenced(reply.trim());
    let numbers = match serde_json::from_str(text) {
        Ok(Value::Array(numbers)) => json_numbers(&numbers)?,
        Ok(Value::Object(fields)) => match fields.values().next() {
            Some(Value::Array(numbers)) if fields.len() == 1 => json_numbers(numbers)?,
            _ => return Err("the object's one field is no array".into()),
        },
        _ => chained_numbers(text)?,
    };
    let mut placed = vec![false; count];
    for number in &numbers {
        match number.checked_sub(1).and_then(|at| placed.get_mut(at)) {
            None => return Err(format!("{number} is no passage from 1 to {count}")),
            Some(true) => return Err(format!("passage {number} is placed twice")),
            Some(place) => *place = true,
        }
    }
    match placed.iter().position(|placed| !placed) {
        Some(at) => Err(format!("passage {} is not placed", at + 1)),
        None => Ok(numbers.into_iter().map(|number| number - 1).collect()),
    }
}

fn unfenced(text: &str) -> &str {
    let inner = text
        .strip_prefix("```")
        .and_then(|rest| rest.strip_suffix("```"));
    match inner {
        // The first line names the language or is empty.
        Some(inner) => inner
            .split_once('\n')
            .map_or(inner, |(_, rest)| rest)
            .trim(),
        None => text,
    }
}

fn json_numbers(values: &[Value]) -> Result<Vec<usize>, String> {
    let number = |value: &Value| {
        let number = value.as_u64().and_then(|n| usize::try_from(n).ok());
        number.ok_or_else(|| format!("{value} is no passage number"))
    };
    values.iter().map(number).collect()
}

fn chained_numbers(text: &str) -> Result<Vec<usize>, String> {
    let number = |part: &str| {
        let part = part.trim();
        let digits = part.strip_prefix('[').and_then(|p| p.strip_suffix(']'));
        let number = digits.and_then(|digits| digits.trim().parse().ok());
        number.ok_or_else(|| "neither a JSON array nor numbers in brackets joined by `>`".into())
    };
    text.split('>').map(number).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::parse_order;

    #[test]
    fn every_accepted_form_gives_the_same_order() {
        for reply in [
            "[2, 3, 1]",
            " [2] > [3] > [1]\n",
            "{\"ranking\": [2, 3, 1]}",
            "```json\n[2, 3, 1]\n```",
            "```\n[2] > [3] > [1]\n```",
        ] {
            assert_eq!(
                parse_order(reply, 3).as_deref(),
                Ok(&[1, 2, 0][..]),
                "{reply}"
            );
        }
    }

    #[test]
    fn anything_but_a_permutation_is_refused_with_its_fault() {
        for (reply, fault) in [
            ("[1, 2]", "passage 3 is not placed"),
            ("[1, 2, 2]", "passage 2 is placed twice"),
            ("[1, 2, 4]", "4 is no passage from 1 to 3"),
            ("[0, 1, 2]", "0 is no passage from 1 to 3"),
            ("[1, 2, 3.5]", "3.5 is no passage number"),
            ("[1, 2, \"3\"]", "\"3\" is no passage number"),
            (
                "{\"a\": [1, 2, 3], \"b\": 1}",
                "the object's one field is no array",
            ),
            ("", "neither a JSON array"),
            ("The order is [1] > [2] > [3]", "neither a JSON array"),
            ("[1] > [2] > [3] because", "neither a JSON array"),
        ] {
            let error = parse_order(reply, 3).unwrap_err();
            assert!(error.starts_with(fault), "{reply}: {error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_accepted_is_a_permutation(reply in "[\\[\\]0-9,> `\n]{0,24}", count in 0usize..5) {
            if let Ok(mut order) = parse_order(&reply, count) {
                order.sort_unstable();
                prop_assert_eq!(order, (0..count).collect::<Vec<_>>());
            }
        }
    }
}
