//! Nano-Memory's diagnostics of sessions: how many a question needs, what returned sessions add
//! beside those that hold the answer, and whether long sessions are harder to find.
//!
//! - A run's sessions are those its items come from, in the order in which they first appear.
//! - Contexts (002, Figure 3b): of the first k sessions all, those that hold a message of the
//!   answer (*hit*), and the others (*non-hit*), by their tokens as shown.
//! - Quartiles (002, Figures 2c and 11): questions by the mean number of messages of their gold
//!   sessions. Lengths are read off the retrieved chunks, and used only where these cover the
//!   conversation without a gap.
//! - Session scores (002, Figure 8): runs that differ in how turns make a session's score.
//!
//! The share of a turn's words that are the answer's (002, Figure 3c) needs texts, which records of
//! a benchmark do not hold: see `density`.

use std::collections::{BTreeMap, BTreeSet};

use rawrag_records::Retrieval;
use rawrag_scoring::Ranking;

use crate::report::{RUN_COLUMN, table};
use crate::shown::cutoffs;
use crate::spread::Spread;
use crate::{Column, Diagnostic, DiagnosticError, Input, Need, Outputs, Report, Unit, Value};

pub(crate) const NANO: Diagnostic = Diagnostic {
    name: "nano",
    about: "How many sessions a question needs, what the other sessions cost, and whether long \
            sessions are harder to find",
    source: "Nano-Memory, Figures 2, 3, 8 and 11",
    needs: &[Need::Retrievals],
    analyse,
};

fn analyse(input: &Input<'_>) -> Result<Report, DiagnosticError> {
    let (mut needed, mut contexts, mut quartiles, mut scores) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut notes = Vec::new();
    let mut data = BTreeSet::new();
    for &run in &input.runs {
        if data.insert((
            &run.manifest.data.sha256,
            &run.manifest.expected.keys_sha256,
        )) {
            needed.extend(sessions_needed(run));
        }
        let lengths = session_lengths(run, &input.runs);
        if lengths.is_none() {
            notes.push(format!(
                "{}: its items and those of the other runs do not cover every message of its \
                 conversations, so lengths of sessions are not known.",
                run.manifest.name
            ));
        }
        for k in depths(run, input.settings.depth) {
            contexts.push(context(run, k));
            scores.push(score(run, k));
            if let Some(lengths) = &lengths {
                quartiles.extend(by_length(run, k, lengths));
            }
        }
    }
    Ok(Report {
        tables: vec![
            table(
                "needed",
                "questions of one release that need some number of sessions",
                &NEEDED,
                needed,
            ),
            table(
                "contexts",
                "one run at one number of sessions",
                &CONTEXTS,
                contexts,
            ),
            table(
                "quartiles",
                "a quarter of one run's questions, by the length of their gold sessions",
                &QUARTILES,
                quartiles,
            ),
            table(
                "scores",
                "one run at one number of sessions",
                &SCORES,
                scores,
            ),
        ],
        notes,
    })
}

fn depths(run: &Outputs, asked: Option<usize>) -> Vec<usize> {
    match asked {
        Some(k) => vec![k],
        None => cutoffs(run),
    }
}

const NEEDED: [Column; 4] = [
    Column::new("benchmark", Unit::Text, "the benchmark"),
    Column::new(
        "sessions",
        Unit::Text,
        "sessions that hold a message of the answer",
    ),
    Column::new("questions", Unit::Count, "questions that need so many"),
    Column::new(
        "share",
        Unit::Rate,
        "their share of the questions with a gold session",
    ),
];

fn sessions_needed(run: &Outputs) -> Vec<Vec<Value>> {
    let mut counts: BTreeMap<usize, u64> = BTreeMap::new();
    for retrieval in retrievals(run) {
        *counts.entry(retrieval.gold_sessions.len()).or_default() += 1;
    }
    let none = counts.remove(&0).unwrap_or(0);
    let all: u64 = counts.values().sum();
    let row = |sessions: String, questions: u64, share: Value| {
        vec![
            run.manifest.benchmark.as_str().into(),
            sessions.into(),
            questions.into(),
            share,
        ]
    };
    let mut rows = Vec::new();
    let many: u64 = counts.range(5..).map(|(_, n)| n).sum();
    for (sessions, questions) in counts.range(..5) {
        let share = Value::rate(*questions, all, GOLD);
        rows.push(row(sessions.to_string(), *questions, share));
    }
    rows.push(row(
        "5 or more".to_owned(),
        many,
        Value::rate(many, all, GOLD),
    ));
    let none_of = Value::Absent("no gold session".to_owned());
    rows.push(row("none on record".to_owned(), none, none_of));
    rows
}

const GOLD: &str = "questions with a gold session";

fn retrievals(run: &Outputs) -> impl Iterator<Item = &Retrieval> {
    run.questions.iter().filter_map(|q| q.retrieval.as_ref())
}

/// The first `k` sessions, with the tokens of their items and whether one of these holds gold.
fn sessions(retrieval: &Retrieval, k: usize) -> Vec<(u32, u64, bool)> {
    let mut found: Vec<(u32, u64, bool)> = Vec::new();
    for at in 0..retrieval.chunks.len() {
        let span = retrieval.first_message[at]..=retrieval.last_message[at];
        let holds = retrieval
            .gold_messages
            .iter()
            .any(|gold| span.contains(gold));
        // An item over two sessions belongs to the one it begins in; both are reached.
        for session in retrieval.first_session[at]..=retrieval.last_session[at] {
            let tokens = match session == retrieval.first_session[at] {
                true => u64::from(retrieval.tokens[at]),
                false => 0,
            };
            let hit = holds && retrieval.gold_sessions.contains(&session);
            let known = found.iter().position(|(id, ..)| *id == session);
            if let Some(known) = known {
                found[known].1 += tokens;
                found[known].2 |= hit;
            } else if found.len() < k {
                found.push((session, tokens, hit));
            }
        }
    }
    found
}

const CONTEXTS: [Column; 10] = [
    RUN_COLUMN,
    K,
    Column::new("questions", Unit::Count, "questions with a gold session"),
    Column::new(
        "hit",
        Unit::Rate,
        "those with a hit among the first k sessions",
    ),
    Column::new(
        "all",
        Unit::Tokens,
        "mean tokens of the items of the first k sessions",
    ),
    Column::new(
        "hit only",
        Unit::Tokens,
        "of the sessions that hold a message of the answer",
    ),
    Column::new("non-hit", Unit::Tokens, "of the others"),
    Column::new("hit share", Unit::Rate, "tokens of hits, of all"),
    Column::new("hit sessions", Unit::Number, "mean number of hits"),
    Column::new("non-hit sessions", Unit::Number, "mean number of others"),
];

const K: Column = Column::new("k", Unit::Count, "sessions that are looked at");

fn context(run: &Outputs, k: usize) -> Vec<Value> {
    let (mut hits, mut others, mut hit_count, mut other_count) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for retrieval in retrievals(run).filter(|r| !r.gold_sessions.is_empty()) {
        let found = sessions(retrieval, k);
        let sum = |hit| -> u64 { found.iter().filter(|s| s.2 == hit).map(|s| s.1).sum() };
        let count = |hit| found.iter().filter(|s| s.2 == hit).count();
        hits.push(sum(true) as f64);
        others.push(sum(false) as f64);
        hit_count.push(count(true) as f64);
        other_count.push(count(false) as f64);
    }
    let with_hit = hit_count.iter().filter(|&&n| n > 0.0).count() as u64;
    let asked = hits.len() as u64;
    let all = Spread::of(hits.iter().zip(&others).map(|(a, b)| a + b));
    let hits = Spread::of(hits);
    let share = (all.sum() > 0.0).then(|| hits.sum() / all.sum());
    vec![
        run.manifest.name.as_str().into(),
        k.into(),
        asked.into(),
        Value::rate(with_hit, asked, GOLD),
        all.mean_of(GOLD),
        hits.mean_of(GOLD),
        Spread::of(others).mean_of(GOLD),
        crate::spread::present(share, "tokens"),
        Spread::of(hit_count).mean_of(GOLD),
        Spread::of(other_count).mean_of(GOLD),
    ]
}

/// A question's sessions against its gold sessions.
fn ranking(retrieval: &Retrieval) -> Ranking {
    let found = sessions(retrieval, usize::MAX);
    let place = |id: u32| -> Vec<usize> {
        retrieval
            .gold_sessions
            .iter()
            .position(|&gold| gold == id)
            .into_iter()
            .collect()
    };
    let held: Vec<Vec<usize>> = found.iter().map(|(id, ..)| place(*id)).collect();
    Ranking::new(
        retrieval.gold_sessions.len(),
        held.iter().map(Vec::as_slice),
    )
}

/// Number of messages of a session.
type Lengths = BTreeMap<(String, u32), u32>;

/// The length of every session of a run's conversations; `None` where the chunks of these runs over
/// the same data leave a gap.
fn session_lengths(run: &Outputs, runs: &[&Outputs]) -> Option<Lengths> {
    let mut spans: BTreeMap<(&str, u32), (u32, u32)> = BTreeMap::new();
    let same = |other: &&&Outputs| other.manifest.data.sha256 == run.manifest.data.sha256;
    for retrieval in runs.iter().filter(same).flat_map(|run| retrievals(run)) {
        for at in 0..retrieval.chunks.len() {
            let session = retrieval.first_session[at];
            if session == retrieval.last_session[at] {
                let (first, last) = (retrieval.first_message[at], retrieval.last_message[at]);
                let span = spans
                    .entry((&retrieval.conversation, session))
                    .or_insert((first, last));
                *span = (span.0.min(first), span.1.max(last));
            }
        }
    }
    for (conversation, history) in &run.histories {
        let mut next = 0;
        for (_, &(first, last)) in
            spans.range((conversation.as_str(), 0)..=(conversation.as_str(), u32::MAX))
        {
            if first != next {
                return None;
            }
            next = last + 1;
        }
        if next != history.messages {
            return None;
        }
    }
    let length = |(&(conversation, session), &(first, last)): (&(&str, u32), &(u32, u32))| {
        ((conversation.to_owned(), session), last - first + 1)
    };
    (!run.histories.is_empty()).then(|| spans.iter().map(length).collect())
}

const QUARTILES: [Column; 8] = [
    RUN_COLUMN,
    K,
    Column::new(
        "quartile",
        Unit::Text,
        "a quarter of the questions, shortest gold sessions first; equal lengths stay together",
    ),
    Column::new(
        "from",
        Unit::Number,
        "shortest mean length of the gold sessions, in messages",
    ),
    Column::new("to", Unit::Number, "longest"),
    Column::new("questions", Unit::Count, "questions with a gold session"),
    Column::new(
        "any",
        Unit::Rate,
        "those with a gold session among the first k",
    ),
    Column::new(
        "all",
        Unit::Rate,
        "those with every gold session among the first k",
    ),
];

fn by_length(run: &Outputs, k: usize, lengths: &Lengths) -> Vec<Vec<Value>> {
    let mut questions: Vec<(f64, &Retrieval)> = Vec::new();
    for retrieval in retrievals(run) {
        let length = |session: &u32| {
            let key = (retrieval.conversation.clone(), *session);
            lengths.get(&key).map(|&length| f64::from(length))
        };
        let of_gold: Option<Vec<f64>> = retrieval.gold_sessions.iter().map(length).collect();
        if let Some(mean) = of_gold.and_then(|of_gold| Spread::of(of_gold).mean()) {
            questions.push((mean, retrieval));
        }
    }
    let spread = Spread::of(questions.iter().map(|(length, _)| *length));
    let borders: Vec<f64> = [0.25, 0.5, 0.75]
        .iter()
        .filter_map(|&q| spread.percentile(q))
        .collect();
    let quarter = |length: f64| borders.iter().filter(|&&border| length > border).count();
    let row = |at: usize| {
        let inside: Vec<&(f64, &Retrieval)> = questions
            .iter()
            .filter(|(length, _)| quarter(*length) == at)
            .collect();
        let lengths = Spread::of(inside.iter().map(|(length, _)| *length));
        let count = |found: fn(&Ranking, usize) -> Option<bool>| {
            let found =
                |(_, retrieval): &&&(f64, &Retrieval)| found(&ranking(retrieval), k) == Some(true);
            inside.iter().filter(found).count() as u64
        };
        let n = inside.len() as u64;
        vec![
            run.manifest.name.as_str().into(),
            k.into(),
            ["first", "second", "third", "fourth"][at].into(),
            lengths.percentile_of(0.0, GOLD),
            lengths.percentile_of(1.0, GOLD),
            n.into(),
            Value::rate(count(Ranking::recall_any), n, GOLD),
            Value::rate(count(Ranking::recall_all), n, GOLD),
        ]
    };
    (0..4).map(row).collect()
}

const SCORES: [Column; 7] = [
    RUN_COLUMN,
    Column::new(
        "session score",
        Unit::Text,
        "how a session gets its score, by the run's settings",
    ),
    K,
    Column::new("questions", Unit::Count, "questions with a gold session"),
    Column::new(
        "any",
        Unit::Rate,
        "those with a gold session among the first k",
    ),
    Column::new(
        "all",
        Unit::Rate,
        "those with every gold session among the first k",
    ),
    Column::new(
        "reciprocal rank",
        Unit::Number,
        "mean of one over the rank of the first gold session",
    ),
];

fn score(run: &Outputs, k: usize) -> Vec<Value> {
    let asked: Vec<Ranking> = retrievals(run)
        .filter(|r| !r.gold_sessions.is_empty())
        .map(ranking)
        .collect();
    let n = asked.len() as u64;
    let count = |found: fn(&Ranking, usize) -> Option<bool>| {
        asked.iter().filter(|r| found(r, k) == Some(true)).count() as u64
    };
    vec![
        run.manifest.name.as_str().into(),
        session_score(run).into(),
        k.into(),
        n.into(),
        Value::rate(count(Ranking::recall_any), n, GOLD),
        Value::rate(count(Ranking::recall_all), n, GOLD),
        Spread::of(asked.iter().filter_map(Ranking::reciprocal_rank)).mean_of(GOLD),
    ]
}

/// How a session gets its score, in words.
fn session_score(run: &Outputs) -> String {
    let ranking = &run.manifest.settings["retrieval"]["ranking"];
    let unit = run.manifest.settings["retrieval"]["chunks"]["unit"].as_str();
    match (ranking["method"].as_str(), ranking["top_turns"].as_u64()) {
        (Some("turn-isolation"), Some(1)) => "its best turn".to_owned(),
        (Some("turn-isolation"), Some(m)) => format!("mean of its best {m} turns"),
        (Some("turn-mean"), _) => "mean of all its turns".to_owned(),
        (Some("dense"), _) if unit == Some("session") => "its text as one".to_owned(),
        _ => format!("its best {}", unit.unwrap_or("item")),
    }
}
