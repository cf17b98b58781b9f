//! What each part of late interaction is worth on LoCoMo.
//!
//! `cargo run -p rawrag --example ingredients LOCOMO_JSON` writes the tables between the markers of
//! `docs/retrieval-without-a-key.md`, and the counts behind them beside it as CSV. The intervals
//! are exact: all 24,310 ways of drawing nine conversations out of nine, each by its probability.

#![expect(
    clippy::print_stderr,
    reason = "an example program that says how far it is"
)]

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use rawrag::chunking::{Chunk, Rendering, Transcript, Unit, chunk};
use rawrag::corpus::{Conversation, Entry, Format, Question, load};
use rawrag::models::{Embedder, Minilm, TokenEncoder, store};
use rawrag::retrieval::late_interaction::MessageFacts;
use rawrag::retrieval::{
    EvidenceSettings, LateInteraction, TokenIndex, VectorIndex, assemble, best,
};

/// What the formula was developed on.
const DEVELOPMENT: &str = "conv-26";
const ITEMS: [usize; 4] = [3, 10, 15, 30];
const TOKENS: [usize; 4] = [500, 1000, 2000, 5000];
/// More entries than fit into 5,000 tokens: a header alone takes more than fifteen.
const LONGEST: usize = 300;
const FULL: &str = "F: all of it";

/// Evidence found of the questions of one conversation, by one variant.
#[derive(Clone, Default)]
struct Counts {
    questions: u32,
    /// Questions with any, and with all, of their evidence in the first [`ITEMS`].
    any: [u32; 4],
    all: [u32; 4],
    /// The same among the complete entries that fit into [`TOKENS`].
    any_in_tokens: [u32; 4],
    all_in_tokens: [u32; 4],
}

/// Variant, then conversation.
type Results = BTreeMap<usize, BTreeMap<String, Counts>>;

/// What is ranked, and by what.
struct Variant {
    name: &'static str,
    units: Units,
    by: Ranking,
}

#[derive(Clone, Copy, PartialEq)]
enum Units {
    Messages,
    Windows,
    Pairs,
}

enum Ranking {
    Cosine,
    /// Late interaction; a chunk scores the mean of this many of its best messages.
    Late(LateInteraction, usize),
}

fn main() -> Result<(), Box<dyn Error>> {
    let locomo = std::env::args()
        .nth(1)
        .ok_or("usage: ingredients LOCOMO_JSON")?;
    let model = Minilm::load(&store::locate(&store::MINILM, &store::folder(None)?)?)?;
    let variants = variants();
    let mut results = Results::new();
    for entry in load(locomo.as_ref(), Some(Format::Locomo))?.entries {
        eprintln!("{}", entry.conversation.id);
        measure(&entry, &model, &variants, &mut results)?;
    }
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    fs::write(
        docs.join("retrieval-without-a-key.csv"),
        csv(&variants, &results),
    )?;
    let page = docs.join("retrieval-without-a-key.md");
    let text = fs::read_to_string(&page)?;
    fs::write(page, with_tables(&text, &tables(&variants, &results)?)?)?;
    Ok(())
}

fn variants() -> Vec<Variant> {
    let full = LateInteraction::default;
    let plain = || LateInteraction {
        contexts: vec![[0, 0]],
        idf: false,
        speaker: 0.0,
        month: 0.0,
        session: 0.0,
    };
    let all = full();
    let messages = [
        (FULL, full()),
        (
            "F without the speaker",
            LateInteraction {
                speaker: 0.0,
                ..full()
            },
        ),
        (
            "F without the month",
            LateInteraction {
                month: 0.0,
                ..full()
            },
        ),
        (
            "F without the session",
            LateInteraction {
                session: 0.0,
                ..full()
            },
        ),
        (
            "F without IDF",
            LateInteraction {
                idf: false,
                ..full()
            },
        ),
        (
            "F without contexts",
            LateInteraction {
                contexts: vec![[0, 0]],
                ..full()
            },
        ),
        ("MaxSim", plain()),
        (
            "MaxSim with IDF",
            LateInteraction {
                idf: true,
                ..plain()
            },
        ),
        (
            "MaxSim with contexts",
            LateInteraction {
                contexts: all.contexts,
                ..plain()
            },
        ),
        (
            "MaxSim with the speaker",
            LateInteraction {
                speaker: all.speaker,
                ..plain()
            },
        ),
        (
            "MaxSim with the month",
            LateInteraction {
                month: all.month,
                ..plain()
            },
        ),
        (
            "MaxSim with the session",
            LateInteraction {
                session: all.session,
                ..plain()
            },
        ),
    ];
    let late = |units, name, settings, best| Variant {
        name,
        units,
        by: Ranking::Late(settings, best),
    };
    let cosine = |units, name| Variant {
        name,
        units,
        by: Ranking::Cosine,
    };
    let mut variants: Vec<Variant> = messages
        .into_iter()
        .map(|(name, settings)| late(Units::Messages, name, settings, 1))
        .collect();
    variants.extend([
        cosine(Units::Messages, "cosine"),
        cosine(Units::Windows, "windows: cosine"),
        late(Units::Windows, "windows: F of the best message", full(), 1),
        late(Units::Windows, "windows: F of the best two", full(), 2),
        late(Units::Pairs, "pairs: F of the best message", full(), 1),
        late(Units::Pairs, "pairs: F of both", full(), 2),
    ]);
    variants
}

/// One conversation, encoded once for all variants.
struct Encoded<'a> {
    conversation: &'a Conversation,
    transcript: Transcript,
    messages: Vec<Chunk>,
    windows: Vec<Chunk>,
    pairs: Vec<Chunk>,
    tokens: TokenIndex,
    facts: Vec<MessageFacts>,
    /// The vectors of messages without their dates, as their token vectors have them.
    message_vectors: VectorIndex,
    /// The vectors of windows as they are shown.
    window_vectors: VectorIndex,
}

impl<'a> Encoded<'a> {
    fn new(conversation: &'a Conversation, model: &Minilm) -> Result<Self, Box<dyn Error>> {
        let dimension = Embedder::dimension(model);
        let spoken = Transcript::new(conversation, Rendering::Speaker);
        let count = conversation.message_count() as u32;
        let texts: Vec<&str> = (0..count).map(|m| spoken.messages(m..m + 1)).collect();
        let mut tokens = TokenIndex::new(dimension);
        let mut message_vectors = VectorIndex::new(dimension);
        for text in model.encode_tokens(&texts)? {
            tokens.push(&text)?;
            message_vectors.append(&text.pooled)?;
        }
        let transcript = Transcript::new(conversation, Rendering::Dated);
        let windows = chunk(&transcript, Unit::WINDOW)?;
        let shown: Vec<&str> = windows.iter().map(|w| transcript.shown(w)).collect();
        let mut window_vectors = VectorIndex::new(dimension);
        window_vectors.append(&model.embed(&shown)?.vectors)?;
        let facts = conversation
            .messages()
            .map(|(session, _, message)| MessageFacts {
                session: session.0,
                speaker: message.speaker.clone(),
                date: conversation.date_of(session, message),
            })
            .collect();
        Ok(Self {
            conversation,
            messages: chunk(&transcript, Unit::Message)?,
            pairs: chunk(&transcript, Unit::Turn)?,
            transcript,
            windows,
            tokens,
            facts,
            message_vectors,
            window_vectors,
        })
    }

    fn chunks(&self, units: Units) -> &[Chunk] {
        match units {
            Units::Messages => &self.messages,
            Units::Windows => &self.windows,
            Units::Pairs => &self.pairs,
        }
    }
}

fn measure(
    entry: &Entry,
    model: &Minilm,
    variants: &[Variant],
    results: &mut Results,
) -> Result<(), Box<dyn Error>> {
    let asked: Vec<&Question> = entry
        .questions
        .iter()
        .filter(|q| q.kind.as_str() != "adversarial" && !q.evidence.messages.is_empty())
        .collect();
    let encoded = Encoded::new(&entry.conversation, model)?;
    let texts: Vec<&str> = asked
        .iter()
        .map(|question| question.text.as_str())
        .collect();
    for (question, query) in asked.iter().zip(model.encode_tokens(&texts)?) {
        let maxima = encoded.tokens.maxima(&query)?;
        // Several variants rank by the scores of the same settings.
        let mut known: Vec<(&LateInteraction, Vec<f32>)> = Vec::new();
        for (number, Variant { units, by, .. }) in variants.iter().enumerate() {
            let chunks = encoded.chunks(*units);
            let scores = match by {
                Ranking::Cosine if *units == Units::Windows => {
                    encoded.window_vectors.scores(&query.pooled)?
                }
                Ranking::Cosine => encoded.message_vectors.scores(&query.pooled)?,
                Ranking::Late(settings, best) => {
                    let at = match known.iter().position(|(known, _)| known == &settings) {
                        Some(at) => at,
                        None => {
                            let Encoded { tokens, facts, .. } = &encoded;
                            let (maxima, text) = (maxima.clone(), &question.text);
                            let scores =
                                settings
                                    .score_from(maxima, tokens, facts, text, &query, |_| true)?;
                            known.push((settings, scores));
                            known.len() - 1
                        }
                    };
                    of_chunks(&known[at].1, chunks, *best)
                }
            };
            let counts = results
                .entry(number)
                .or_default()
                .entry(entry.conversation.id.to_string())
                .or_default();
            count(&encoded, question, chunks, &scores, counts)?;
        }
    }
    Ok(())
}

/// The mean of the `best` highest scores among each chunk's messages.
fn of_chunks(messages: &[f32], chunks: &[Chunk], best: usize) -> Vec<f32> {
    let of_chunk = |chunk: &Chunk| {
        let range = chunk.messages.start as usize..chunk.messages.end as usize;
        let mut scores = messages[range].to_vec();
        scores.sort_unstable_by(|a, b| b.total_cmp(a));
        scores.truncate(best);
        scores.iter().sum::<f32>() / scores.len() as f32
    };
    chunks.iter().map(of_chunk).collect()
}

/// Ranks `chunks` by `scores` and adds what the question finds to `counts`.
fn count(
    encoded: &Encoded<'_>,
    question: &Question,
    chunks: &[Chunk],
    scores: &[f32],
    counts: &mut Counts,
) -> Result<(), Box<dyn Error>> {
    let ranked: Vec<&Chunk> = best(scores, LONGEST)?
        .iter()
        .map(|scored| &chunks[scored.row as usize])
        .collect();
    // For each message of the evidence, how many entries it takes to show it.
    let needed: Vec<usize> = question
        .evidence
        .messages
        .iter()
        .map(|message| {
            let holds = |chunk: &&Chunk| chunk.messages.contains(&message.0);
            ranked.iter().position(holds).map_or(usize::MAX, |i| i + 1)
        })
        .collect();
    let first = needed.iter().copied().min().unwrap_or(usize::MAX);
    let last = needed.iter().copied().max().unwrap_or(usize::MAX);
    counts.questions += 1;
    for (at, k) in ITEMS.into_iter().enumerate() {
        counts.any[at] += u32::from(first <= k);
        counts.all[at] += u32::from(last <= k);
    }
    let assembled = assemble(
        encoded.conversation,
        &encoded.transcript,
        &ranked,
        &EvidenceSettings::default(),
    );
    let ends: Vec<usize> = assembled
        .tokens
        .iter()
        .scan(0, |sum, tokens| {
            *sum += tokens;
            Some(*sum)
        })
        .collect();
    for (at, budget) in TOKENS.into_iter().enumerate() {
        let complete = ends.partition_point(|&end| end <= budget);
        counts.any_in_tokens[at] += u32::from(first <= complete);
        counts.all_in_tokens[at] += u32::from(last <= complete);
    }
    Ok(())
}

fn csv(variants: &[Variant], results: &Results) -> String {
    let mut csv = String::from("conversation,variant,cut,at,questions,any,all\n");
    for (number, conversations) in results {
        for (conversation, c) in conversations {
            let items = ("items", ITEMS, c.any, c.all);
            let tokens = ("tokens", TOKENS, c.any_in_tokens, c.all_in_tokens);
            for (cut, at, any, all) in [items, tokens] {
                for i in 0..at.len() {
                    // Writing into a String cannot fail.
                    let _ = writeln!(
                        csv,
                        "{conversation},{},{cut},{},{},{},{}",
                        variants[*number].name, at[i], c.questions, any[i], all[i]
                    );
                }
            }
        }
    }
    csv
}

fn with_tables(page: &str, tables: &str) -> Result<String, Box<dyn Error>> {
    const BEGIN: &str = "<!-- tables: written by the example `ingredients` -->\n";
    const END: &str = "<!-- end of tables -->";
    let (before, rest) = page
        .split_once(BEGIN)
        .ok_or("the page has no mark where tables begin")?;
    let (_, after) = rest
        .split_once(END)
        .ok_or("the page has no mark where tables end")?;
    Ok(format!("{before}{BEGIN}\n{tables}{END}{after}"))
}

/// A column: which of the counts of a conversation it is the rate of.
type Hits = fn(&Counts, usize) -> u32;

const ANY: Hits = |c, i| c.any[i];
const ALL: Hits = |c, i| c.all[i];
const ANY_IN_TOKENS: Hits = |c, i| c.any_in_tokens[i];
const ALL_IN_TOKENS: Hits = |c, i| c.all_in_tokens[i];

fn tables(variants: &[Variant], results: &Results) -> Result<String, Box<dyn Error>> {
    let split = |development: bool| {
        let of = |conversations: &BTreeMap<String, Counts>| -> Vec<Counts> {
            let is = |id: &str| (id == DEVELOPMENT) == development;
            conversations
                .iter()
                .filter(|(id, _)| is(id))
                .map(|(_, counts)| counts.clone())
                .collect()
        };
        results.values().map(of).collect::<Vec<Vec<Counts>>>()
    };
    let (development, nine) = (split(true), split(false));
    let full = variants.iter().position(|variant| variant.name == FULL);
    let full = &nine[full.ok_or("no variant is the whole formula")?];
    let questions = |of: &[Counts]| of.iter().map(|c| c.questions).sum::<u32>();
    let mut out = String::new();
    let heads = |at: [usize; 4], unit: &str| at.map(|at| format!("{at}{unit}")).join(" | ");
    let (items, tokens) = (heads(ITEMS, ""), heads(TOKENS, " tokens"));

    let _ = writeln!(
        out,
        "### {} questions of nine conversations: any / all evidence recalled, %\n",
        questions(full)
    );
    levels(variants, &nine, &items, &tokens, &mut out);
    let _ = writeln!(
        out,
        "\n### All evidence recalled on the nine, minus F: points [95 % interval over conversations]\n"
    );
    let _ = writeln!(out, "| | {items} | {tokens} |\n|---|{}", "---|".repeat(8));
    for (variant, counts) in variants.iter().zip(&nine).filter(|(v, _)| v.name != FULL) {
        let cell = |hits: Hits| (0..4).map(move |i| difference(counts, full, hits, i));
        let cells: Vec<String> = cell(ALL).chain(cell(ALL_IN_TOKENS)).collect();
        let _ = writeln!(out, "| {} | {} |", variant.name, cells.join(" | "));
    }
    let _ = writeln!(
        out,
        "\n### Any evidence recalled on the nine, minus F: points [95 % interval over conversations]\n"
    );
    let _ = writeln!(out, "| | {items} | {tokens} |\n|---|{}", "---|".repeat(8));
    for (variant, counts) in variants.iter().zip(&nine).filter(|(v, _)| v.name != FULL) {
        let cell = |hits: Hits| (0..4).map(move |i| difference(counts, full, hits, i));
        let cells: Vec<String> = cell(ANY).chain(cell(ANY_IN_TOKENS)).collect();
        let _ = writeln!(out, "| {} | {} |", variant.name, cells.join(" | "));
    }
    let _ = writeln!(
        out,
        "\n### {} questions of {DEVELOPMENT}: any / all evidence recalled, %\n",
        development.first().map_or(0, |of| questions(of))
    );
    levels(variants, &development, &items, &tokens, &mut out);
    out.push('\n');
    Ok(out)
}

fn levels(
    variants: &[Variant],
    counts: &[Vec<Counts>],
    items: &str,
    tokens: &str,
    out: &mut String,
) {
    let _ = writeln!(out, "| | {items} | {tokens} |\n|---|{}", "---|".repeat(8));
    for (variant, counts) in variants.iter().zip(counts) {
        let rate = |hits: Hits, i| {
            let n: u32 = counts.iter().map(|c| c.questions).sum();
            100.0 * f64::from(counts.iter().map(|c| hits(c, i)).sum::<u32>()) / f64::from(n)
        };
        let cell =
            |any, all| (0..4).map(move |i| format!("{:.1} / {:.1}", rate(any, i), rate(all, i)));
        let cells: Vec<String> = cell(ANY, ALL)
            .chain(cell(ANY_IN_TOKENS, ALL_IN_TOKENS))
            .collect();
        let _ = writeln!(out, "| {} | {} |", variant.name, cells.join(" | "));
    }
}

/// The difference of two rates over the same questions, with its interval.
fn difference(new: &[Counts], old: &[Counts], hits: Hits, at: usize) -> String {
    let clusters: Vec<(f64, f64)> = new
        .iter()
        .zip(old)
        .map(|(new, old)| {
            let gained = f64::from(hits(new, at)) - f64::from(hits(old, at));
            (gained, f64::from(new.questions))
        })
        .collect();
    let rate = |(gained, n): (f64, f64)| 100.0 * gained / n;
    let total = |sum: (f64, f64), one: &(f64, f64)| (sum.0 + one.0, sum.1 + one.1);
    let estimate = rate(clusters.iter().fold((0.0, 0.0), total));
    let mut draws = Vec::new();
    resamples(&clusters, clusters.len(), (0.0, 0.0), 1.0, &mut draws);
    let mut draws: Vec<(f64, f64)> = draws.into_iter().map(|(sum, p)| (rate(sum), p)).collect();
    draws.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let whole: f64 = draws.iter().map(|(_, p)| p).sum();
    let quantile = |share: f64| {
        let mut below = 0.0;
        let reached = draws.iter().find(|(_, p)| {
            below += p / whole;
            below >= share
        });
        reached
            .or(draws.last())
            .map_or(estimate, |(value, _)| *value)
    };
    format!(
        "{estimate:+.1} [{:+.1}, {:+.1}]",
        quantile(0.025),
        quantile(0.975)
    )
}

/// Every way of drawing `left` times with replacement from `clusters`, as the sum drawn and a number
/// proportional to its probability: 1 over the product of the factorials of how often each came.
fn resamples(
    clusters: &[(f64, f64)],
    left: usize,
    sum: (f64, f64),
    weight: f64,
    out: &mut Vec<((f64, f64), f64)>,
) {
    let Some(((gained, n), rest)) = clusters.split_first() else {
        if left == 0 {
            out.push((sum, weight));
        }
        return;
    };
    let (mut sum, mut weight) = (sum, weight);
    for times in 0..=left {
        if times > 0 {
            sum = (sum.0 + gained, sum.1 + n);
            weight /= times as f64;
        }
        resamples(rest, left - times, sum, weight, out);
    }
}
