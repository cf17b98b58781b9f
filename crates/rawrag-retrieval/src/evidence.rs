use std::fmt::Write as _;
use std::ops::Range;

use rawrag_chunking::{Chunk, Encoding, Transcript};
use rawrag_corpus::Conversation;
use serde::{Deserialize, Serialize};

/// How chosen chunks become the text that a reader sees.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EvidenceSettings {
    /// Whether each chunk is shown as the complete messages that it overlaps (Raw-RAG, B.1).
    pub expand: bool,
    /// In which order.
    pub order: Order,
    /// Whether text that an earlier entry showed is shown again.
    pub repeats: Repeats,
    /// The ceiling on evidence tokens, if there is one.
    pub budget: Option<Budget>,
}

/// The order of entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Best first.
    #[default]
    Relevance,
    /// As in the history (Raw-RAG on MEME).
    Source,
}

/// What happens to text that several chunks hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Repeats {
    /// It is shown each time (Raw-RAG's default).
    #[default]
    Keep,
    /// It is shown once, in the first entry that has it; an entry left without text is left out.
    Remove,
}

/// A ceiling on the assembled evidence in o200k_base tokens, headers and separators included
/// (Raw-RAG, C.4).
///
/// What fits is left as it is. Otherwise the longest prefix of complete entries is kept; if not even
/// the first fits, its first tokens are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// The ceiling, at least 1.
    pub tokens: usize,
    /// Whether expansion is turned off for all entries before any is dropped.
    #[serde(default)]
    pub expansion_first: bool,
}

/// Assembled evidence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assembled {
    /// The entries kept, in display order: the place of each in the chosen list, and its text with
    /// header and separator.
    pub entries: Vec<(usize, String)>,
    /// o200k_base tokens of each entry.
    pub tokens: Vec<usize>,
    /// Whether an entry was dropped or cut for the budget.
    pub over_budget: bool,
}

impl Assembled {
    /// The text that the reader sees.
    pub fn text(&self) -> String {
        self.entries.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// o200k_base tokens of [`Self::text`].
    pub fn total_tokens(&self) -> usize {
        self.tokens.iter().sum()
    }
}

/// Assembles `chosen`, best first, each a chunk of `transcript`, which is `conversation`'s.
///
/// An entry is a header with its number, its session and the session's date, its text, and an
/// empty line. Several sessions are named from first to last.
pub fn assemble(
    conversation: &Conversation,
    transcript: &Transcript,
    chosen: &[&Chunk],
    settings: &EvidenceSettings,
) -> Assembled {
    let entries = |expand| entries(conversation, transcript, chosen, settings, expand);
    let mut assembled = entries(settings.expand);
    let Some(budget) = settings.budget else {
        return assembled;
    };
    if assembled.total_tokens() > budget.tokens && budget.expansion_first && settings.expand {
        assembled = entries(false);
    }
    if assembled.total_tokens() <= budget.tokens {
        return assembled;
    }
    let mut used = 0;
    let fits = |tokens: &&usize| {
        used += **tokens;
        used <= budget.tokens
    };
    let kept = assembled.tokens.iter().take_while(fits).count();
    assembled.over_budget = true;
    assembled.entries.truncate(kept.max(1));
    assembled.tokens.truncate(kept.max(1));
    if kept == 0 {
        let (_, text) = &mut assembled.entries[0];
        text.truncate(Encoding::O200kBase.prefix(text, budget.tokens).len());
        assembled.tokens[0] = Encoding::O200kBase.count(text);
    }
    assembled
}

fn entries(
    conversation: &Conversation,
    transcript: &Transcript,
    chosen: &[&Chunk],
    settings: &EvidenceSettings,
    expand: bool,
) -> Assembled {
    let mut order: Vec<usize> = (0..chosen.len()).collect();
    if settings.order == Order::Source {
        order.sort_by_key(|&i| (chosen[i].bytes.start, i));
    }
    let mut shown = Vec::new();
    let mut assembled = Assembled::default();
    for i in order {
        let chunk = chosen[i];
        let span = if expand {
            whole_messages(transcript, chunk)
        } else {
            chunk.shown.clone()
        };
        let parts = match settings.repeats {
            Repeats::Keep => vec![span],
            Repeats::Remove => unseen(span, &mut shown),
        };
        if parts.is_empty() {
            continue;
        }
        let mut text = String::new();
        header(conversation, chunk, assembled.entries.len() + 1, &mut text);
        for part in parts {
            text.push_str(transcript.text()[part].trim_end_matches('\n'));
            text.push('\n');
        }
        text.push('\n');
        assembled.tokens.push(Encoding::O200kBase.count(&text));
        assembled.entries.push((i, text));
    }
    assembled
}

fn header(conversation: &Conversation, chunk: &Chunk, number: usize, out: &mut String) {
    let session = |position: u32| conversation.sessions.get(position as usize);
    let name = |position: u32, out: &mut String| {
        let _ = match session(position).map(|session| (&session.id, session.date)) {
            Some((id, Some(date))) => write!(out, "{id}, {date}"),
            Some((id, None)) => write!(out, "{id}, date unknown"),
            None => Ok(()),
        };
    };
    // Writing into a String cannot fail.
    let _ = write!(out, "--- {number}. ");
    name(chunk.sessions.start, out);
    if chunk.sessions.len() > 1 {
        out.push_str(" to ");
        name(chunk.sessions.end - 1, out);
    }
    out.push_str(" ---\n");
}

fn whole_messages(transcript: &Transcript, chunk: &Chunk) -> Range<usize> {
    let entries = transcript.entries();
    let at = |message: u32| {
        entries
            .get(message as usize)
            .map(|entry| entry.bytes.clone())
    };
    match (
        at(chunk.messages.start),
        at(chunk.messages.end.saturating_sub(1)),
    ) {
        (Some(first), Some(last)) => first.start..last.end - 1,
        _ => chunk.shown.clone(),
    }
}

/// The parts of `span` that lie in none of the spans `shown`, to which it is added.
fn unseen(span: Range<usize>, shown: &mut Vec<Range<usize>>) -> Vec<Range<usize>> {
    let mut parts = vec![span.clone()];
    for seen in shown.iter() {
        parts = parts
            .into_iter()
            .flat_map(|part| {
                let before = part.start..part.end.min(seen.start);
                let after = part.start.max(seen.end)..part.end;
                if seen.start >= part.end || seen.end <= part.start {
                    [part, 0..0]
                } else {
                    [before, after]
                }
            })
            .filter(|part| part.start < part.end)
            .collect();
    }
    shown.push(span);
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rawrag_chunking::{Rendering, Unit, chunk};
    use rawrag_corpus::{Message, Session};

    use super::*;

    fn conversation() -> Conversation {
        let message = |text: &str| Message {
            id: "m".into(),
            speaker: "Ana".into(),
            text: text.into(),
            captions: vec![],
            date: None,
        };
        let session = |id: &str, date: Option<&str>, texts: &[&str]| Session {
            id: id.into(),
            date: date.and_then(|date| date.parse().ok()),
            messages: texts.iter().map(|text| message(text)).collect(),
        };
        Conversation {
            id: "c".into(),
            sessions: vec![
                session(
                    "s1",
                    Some("2025-03-02T09:15"),
                    &["one two three four five six", "seven eight"],
                ),
                session("s2", None, &["nine ten eleven twelve.\n", "Größe 👩🏽‍🚀"]),
            ],
        }
    }

    fn with<T>(
        unit: Unit,
        use_chunks: impl FnOnce(&Conversation, &Transcript, &[Chunk]) -> T,
    ) -> T {
        let conversation = conversation();
        let transcript = Transcript::new(&conversation, Rendering::Speaker);
        let chunks = chunk(&transcript, unit).expect("sizes in range");
        use_chunks(&conversation, &transcript, &chunks)
    }

    const WINDOW: Unit = Unit::Window {
        tokens: 8,
        overlap: 4,
    };

    #[test]
    fn entries_carry_number_session_and_date() {
        let text = with(Unit::Message, |conversation, transcript, chunks| {
            assemble(
                conversation,
                transcript,
                &[&chunks[2], &chunks[0]],
                &EvidenceSettings::default(),
            )
            .text()
        });
        assert_eq!(
            text,
            "--- 1. s2, date unknown ---\nAna: nine ten eleven twelve.\n\n\
             --- 2. s1, 2025-03-02 09:15 ---\nAna: one two three four five six\n\n"
        );
    }

    #[test]
    fn expansion_shows_whole_messages_and_removal_shows_them_once() {
        let settings = |repeats| EvidenceSettings {
            expand: true,
            order: Order::Source,
            repeats,
            budget: None,
        };
        with(WINDOW, |conversation, transcript, chunks| {
            let chosen = [&chunks[1], &chunks[0]];
            let kept = assemble(conversation, transcript, &chosen, &settings(Repeats::Keep)).text();
            assert_eq!(
                kept.matches("one two three four five six").count(),
                2,
                "{kept}"
            );
            let once = assemble(
                conversation,
                transcript,
                &chosen,
                &settings(Repeats::Remove),
            )
            .text();
            assert_eq!(
                once.matches("one two three four five six").count(),
                1,
                "{once}"
            );
            assert_eq!(once.matches("seven eight").count(), 1, "{once}");
        });
    }

    #[test]
    fn the_budget_keeps_whole_entries_and_cuts_only_the_first() {
        with(Unit::Message, |conversation, transcript, chunks| {
            let chosen: Vec<&Chunk> = chunks.iter().collect();
            let assembled = |tokens, expansion_first| {
                let budget = Some(Budget {
                    tokens,
                    expansion_first,
                });
                let settings = EvidenceSettings {
                    budget,
                    ..EvidenceSettings::default()
                };
                assemble(conversation, transcript, &chosen, &settings)
            };
            let all = assembled(1000, false);
            assert!(!all.over_budget && all.entries.len() == 4);
            let exact = all.tokens[0] + all.tokens[1];
            assert_eq!(assembled(exact, true).entries.len(), 2);
            assert_eq!(assembled(exact - 1, false).entries.len(), 1);
            let cut = assembled(all.tokens[0] - 1, false);
            assert!(cut.over_budget && cut.total_tokens() == all.tokens[0] - 1);
            assert!(all.entries[0].1.starts_with(&cut.entries[0].1));
        });
    }

    proptest! {
        #[test]
        fn tokens_add_up_and_budgets_hold(
            picks in prop::collection::vec(0usize..100, 0..8),
            expand in any::<bool>(),
            source in any::<bool>(),
            remove in any::<bool>(),
            tokens in 1usize..200,
            expansion_first in any::<bool>(),
        ) {
            with(WINDOW, |conversation, transcript, chunks| {
                let chosen: Vec<&Chunk> = picks.iter().map(|&i| &chunks[i % chunks.len()]).collect();
                let settings = EvidenceSettings {
                    expand,
                    order: if source { Order::Source } else { Order::Relevance },
                    repeats: if remove { Repeats::Remove } else { Repeats::Keep },
                    budget: Some(Budget { tokens, expansion_first }),
                };
                let assembled = assemble(conversation, transcript, &chosen, &settings);
                prop_assert_eq!(Encoding::O200kBase.count(&assembled.text()), assembled.total_tokens());
                prop_assert!(assembled.total_tokens() <= tokens);
                prop_assert!(chosen.is_empty() || !assembled.entries.is_empty());
                Ok(())
            })?;
        }
    }
}
