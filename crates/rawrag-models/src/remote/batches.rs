//! Cutting a list of texts into calls that a service takes, and putting replies together again.

use std::{
    ops::Range,
    sync::atomic::{AtomicBool, Ordering},
};

use futures_util::{StreamExt, stream};
use serde::{Deserialize, Serialize};

use super::{Pending, RemoteError};

/// Counts tokens as the model behind a service does.
pub trait TokenCounter: Send + Sync {
    /// Tokens of `text`, without those that the model adds.
    fn count(&self, text: &str) -> usize;
}

/// One token for every four bytes, where the model's own tokenizer is not at hand. On English text
/// this is right within a third; it is no ground for cutting.
#[derive(Debug, Clone, Copy, Default)]
pub struct ByteEstimate;

impl TokenCounter for ByteEstimate {
    fn count(&self, text: &str) -> usize {
        text.len().div_ceil(4)
    }
}

/// What one call may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct BatchLimits {
    /// Texts.
    pub texts: usize,
    /// Tokens of all texts together.
    pub tokens: usize,
    /// Bytes of all texts together.
    pub bytes: usize,
}

impl Default for BatchLimits {
    /// 128 texts as in Appendix D.3.1 of the Raw-RAG paper; tokens and bytes as the smaller hosted
    /// services take them.
    fn default() -> Self {
        Self {
            texts: 128,
            tokens: 100_000,
            bytes: 1 << 20,
        }
    }
}

/// What is done with a text that is longer than the model reads. Either way such texts are counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Oversize {
    /// Nothing is sent, and the error tells how many there are.
    #[default]
    Refuse,
    /// Its end is cut off.
    Cut,
}

/// What a model takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct InputLimits {
    /// What one call may hold.
    pub batch: BatchLimits,
    /// The most tokens of one text, query included where there is one; `None` where it is not known.
    pub longest: Option<usize>,
    /// What is done with a longer one.
    pub oversize: Oversize,
}

/// Texts that the model reads whole.
pub(super) struct Fitted<'a> {
    pub(super) texts: Vec<&'a str>,
    pub(super) tokens: Vec<usize>,
    pub(super) cut: usize,
}

impl InputLimits {
    /// Counts `texts`, each of which is read after `before` tokens of a query, and cuts what is too
    /// long if that is allowed.
    pub(super) fn fit<'a>(
        &self,
        texts: &[&'a str],
        before: usize,
        counter: &dyn TokenCounter,
        model: &str,
    ) -> Result<Fitted<'a>, RemoteError> {
        let mut fitted = Fitted {
            texts: texts.to_vec(),
            tokens: texts.iter().map(|text| counter.count(text)).collect(),
            cut: 0,
        };
        let Some(limit) = self.longest else {
            return Ok(fitted);
        };
        let room = limit.saturating_sub(before);
        let mut first = None;
        for (at, (text, tokens)) in fitted.texts.iter_mut().zip(&mut fitted.tokens).enumerate() {
            if *tokens > room {
                first.get_or_insert((at, before + *tokens));
                fitted.cut += 1;
                if self.oversize == Oversize::Cut {
                    *text = beginning(text, room, counter);
                    *tokens = counter.count(text);
                }
            }
        }
        match (first, self.oversize) {
            (Some((first, tokens)), Oversize::Refuse) => Err(RemoteError::Oversized {
                model: model.into(),
                count: fitted.cut,
                of: texts.len(),
                first,
                tokens,
                limit,
            }),
            _ => Ok(fitted),
        }
    }

    /// Ranges of texts that go into one call each, in order. A text that alone is more than a call
    /// may hold goes alone.
    pub(super) fn split(&self, fitted: &Fitted<'_>) -> Vec<Range<usize>> {
        let limits = self.batch;
        let mut ranges = Vec::new();
        let (mut start, mut tokens, mut bytes) = (0, 0, 0);
        for (at, (text, count)) in fitted.texts.iter().zip(&fitted.tokens).enumerate() {
            let full = at - start >= limits.texts.max(1)
                || tokens + count > limits.tokens
                || bytes + text.len() > limits.bytes;
            if at > start && full {
                ranges.push(start..at);
                (start, tokens, bytes) = (at, 0, 0);
            }
            tokens += count;
            bytes += text.len();
        }
        if start < fitted.texts.len() {
            ranges.push(start..fitted.texts.len());
        }
        ranges
    }
}

/// The longest beginning of `text` with at most `room` tokens, up to the rare step back of a
/// tokenizer; ends between two characters.
fn beginning<'a>(text: &'a str, room: usize, counter: &dyn TokenCounter) -> &'a str {
    let (mut fits, mut over) = (0, text.len());
    while over - fits > 1 {
        let middle = text.floor_char_boundary(fits + (over - fits) / 2);
        if middle == fits {
            // The next boundary is the first after `fits`.
            let next = text[fits..]
                .chars()
                .next()
                .map_or(over, |c| fits + c.len_utf8());
            if next >= over || counter.count(&text[..next]) > room {
                break;
            }
            fits = next;
        } else if counter.count(&text[..middle]) <= room {
            fits = middle;
        } else {
            over = middle;
        }
    }
    &text[..fits]
}

/// Awaits calls, at most `concurrency` at once, and gives their results in order. After a failure no
/// other begins, and those under way finish, so that what is paid for is kept.
pub(super) async fn all<T: Send>(
    calls: Vec<Pending<'_, T>>,
    concurrency: usize,
) -> Result<Vec<T>, RemoteError> {
    let failed = AtomicBool::new(false);
    let mut begun = Vec::with_capacity(calls.len());
    for call in calls {
        begun.push(unless_failed(call, &failed));
    }
    let results: Vec<_> = stream::iter(begun).buffered(concurrency).collect().await;
    // Calls that did not begin are `None`, and then one that failed is among the others.
    results.into_iter().flatten().collect()
}

async fn unless_failed<T>(
    call: Pending<'_, T>,
    failed: &AtomicBool,
) -> Option<Result<T, RemoteError>> {
    if failed.load(Ordering::Relaxed) {
        return None;
    }
    let result = call.await;
    failed.fetch_or(result.is_err(), Ordering::Relaxed);
    Some(result)
}

/// Puts parts that carry the index of what they answer into its order.
pub(super) fn by_index<T>(
    parts: impl IntoIterator<Item = (usize, T)>,
    count: usize,
) -> Result<Vec<T>, String> {
    let mut places: Vec<Option<T>> = (0..count).map(|_| None).collect();
    let mut received = 0;
    for (index, part) in parts {
        received += 1;
        match places.get_mut(index) {
            None => return Err(format!("index {index} where {count} were asked for")),
            Some(Some(_)) => return Err(format!("index {index} twice")),
            Some(place) => *place = Some(part),
        }
    }
    let all: Option<Vec<T>> = places.into_iter().collect();
    all.ok_or_else(|| format!("{received} results where {count} were asked for"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    struct Words;

    impl TokenCounter for Words {
        fn count(&self, text: &str) -> usize {
            text.split_whitespace().count()
        }
    }

    proptest! {
        #[test]
        fn batches_hold_every_text_once_in_order_within_every_limit(
            texts in prop::collection::vec("[a-z é]{0,30}", 0..60),
            limits in (1usize..9, 1usize..20, 1usize..80),
        ) {
            let (count, tokens, bytes) = limits;
            let limits = InputLimits {
                batch: BatchLimits { texts: count, tokens, bytes },
                ..InputLimits::default()
            };
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let fitted = limits.fit(&texts, 0, &Words, "m").unwrap();
            let ranges = limits.split(&fitted);
            let joined: Vec<usize> = ranges.iter().cloned().flatten().collect();
            prop_assert_eq!(joined, (0..texts.len()).collect::<Vec<_>>());
            for range in ranges {
                prop_assert!(range.len() <= count);
                if range.len() > 1 {
                    let held = &fitted.texts[range.clone()];
                    prop_assert!(fitted.tokens[range].iter().sum::<usize>() <= tokens);
                    prop_assert!(held.iter().map(|text| text.len()).sum::<usize>() <= bytes);
                }
            }
        }

        #[test]
        fn cut_texts_are_beginnings_that_fit_and_could_not_be_longer(
            text in "[a-zé日 ]{0,60}",
            room in 0usize..12,
        ) {
            let cut = beginning(&text, room, &ByteEstimate);
            if ByteEstimate.count(&text) > room {
                prop_assert!(text.starts_with(cut) && ByteEstimate.count(cut) <= room);
                let next = text[cut.len()..].chars().next().unwrap();
                prop_assert!(ByteEstimate.count(&text[..cut.len() + next.len_utf8()]) > room);
            }
        }
    }

    #[test]
    fn long_texts_are_counted_and_cut_only_when_told() {
        let mut limits = InputLimits {
            longest: Some(4),
            ..InputLimits::default()
        };
        let texts = ["one two", "one two three", "a b c d e"];
        let error = limits.fit(&texts, 2, &Words, "m").err().unwrap();
        assert_eq!(
            error.to_string(),
            "2 of 3 texts are longer than the 4 tokens that `m` reads, the first at position 1 \
             with 5; shorten them or allow cutting"
        );
        limits.oversize = Oversize::Cut;
        let fitted = limits.fit(&texts, 2, &Words, "m").unwrap();
        assert_eq!(fitted.cut, 2);
        let trimmed: Vec<&str> = fitted.texts.iter().map(|text| text.trim()).collect();
        assert_eq!(trimmed, ["one two", "one two", "a b"]);
    }

    #[test]
    fn parts_are_ordered_by_index_and_none_may_lack_or_repeat() {
        assert_eq!(by_index([(1, 'b'), (0, 'a')], 2).unwrap(), ['a', 'b']);
        by_index([(0, 'a')], 2).unwrap_err();
        by_index([(0, 'a'), (0, 'b')], 2).unwrap_err();
        by_index([(0, 'a'), (2, 'b')], 2).unwrap_err();
    }
}
