//! What memory costs: time from adding to ready, time to search, ingestion as a history grows, and
//! what models were asked for.
//!
//! - Latency (Raw-RAG, D.6, Table 6): adding is the time of every ingestion unit and of waiting
//!   until everything can be found; of runs that index, the time to index. Answering and judging
//!   are not in it.
//! - Growth (Figure 1): seconds after each ingestion unit, one after another.
//! - Management (Table 32): what a memory system says that its own models used.
//! - Calls (003, Appendix H): attempts by stage and model. A reply from the cache counts
//!   with the tokens and the price that it cost once.
//! - Dollars a question at several ratios of writing to reading (003, equation 9, Figure 8), where a
//!   list of prices is given.

use std::collections::BTreeMap;

use rawrag_records::{Consumption, Usage};

use crate::prices::cost_per_question;
use crate::report::{RUN_COLUMN, table};
use crate::spread::{Spread, present};
use crate::{Column, Diagnostic, DiagnosticError, Input, Outputs, Report, Unit, Value};

pub(crate) const COST: Diagnostic = Diagnostic {
    name: "cost",
    about: "Time to add and to search, ingestion as a history grows, and what models were asked \
            for",
    source: "Raw-RAG, A.6 and D.6, Tables 6 and 32, Figure 1; 003, equation 9 and Figure 8",
    needs: &[],
    analyse,
};

fn analyse(input: &Input<'_>) -> Result<Report, DiagnosticError> {
    let (mut latency, mut growth, mut calls, mut dollars) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut management = Vec::new();
    let mut notes = Vec::new();
    for &run in &input.runs {
        let nothing = run.usage.is_empty()
            && run.histories.is_empty()
            && run.ingestions.is_empty()
            && run.consumptions.is_empty()
            && searches(run).is_empty();
        if nothing {
            return Err(DiagnosticError::Missing {
                diagnostic: COST.name,
                need: "times or usage",
                run: run.manifest.name.clone(),
            });
        }
        latency.push(times(run));
        growth.extend(curve(run));
        management.extend(consumed(run));
        calls.extend(stages(run, input));
        dollars.extend(per_question(run, input));
        notes.extend(machine(run));
    }
    if input.settings.prices.is_none() {
        notes.push("No list of prices was given, so nothing is in dollars.".to_owned());
    }
    Ok(Report {
        tables: vec![
            table("latency", "one run", &LATENCY, latency),
            table(
                "growth",
                "one conversation of one run after one ingestion unit",
                &GROWTH,
                growth,
            ),
            table(
                "management",
                "what one memory system says that its own models used",
                &MANAGEMENT,
                management,
            ),
            table(
                "calls",
                "the attempts of one stage of one run at one model",
                &CALLS,
                calls,
            ),
            table(
                "dollars",
                "one run at one ratio of writing to reading",
                &DOLLARS,
                dollars,
            ),
        ],
        notes,
    })
}

fn machine(run: &Outputs) -> Option<String> {
    let machine = &run.manifest.machine;
    let processor = machine.processor.as_deref()?;
    Some(format!(
        "{}: measured on {processor}, {} cores, {}.",
        run.manifest.name, machine.cores, machine.system
    ))
}

/// Milliseconds of every search.
fn searches(run: &Outputs) -> Vec<f64> {
    let of = |q: &crate::QuestionRecords| {
        let found = match (&q.search, &q.retrieval) {
            (Some(search), _) => search.milliseconds,
            (None, Some(retrieval)) => retrieval.milliseconds,
            (None, None) => return None,
        };
        // A selector and a pruner work before the reader does, so they belong to the search.
        let selected = q.selection.as_ref().map_or(0.0, |s| s.milliseconds);
        let pruned = q.pruning.as_ref().map_or(0.0, |p| p.milliseconds);
        Some(found + selected + pruned)
    };
    run.questions.iter().filter_map(of).collect()
}

/// Milliseconds until everything of each conversation can be found.
fn adding(run: &Outputs) -> BTreeMap<&str, f64> {
    let mut added: BTreeMap<&str, f64> = BTreeMap::new();
    for unit in &run.ingestions {
        *added.entry(&unit.conversation).or_default() +=
            unit.milliseconds + unit.ready_milliseconds.unwrap_or(0.0);
    }
    if added.is_empty() {
        let used = run.consumptions.iter();
        added.extend(used.map(|c| {
            let milliseconds = c.add_milliseconds + c.ready_milliseconds;
            (c.conversation.as_str(), milliseconds)
        }));
    }
    if added.is_empty() {
        let index = run.histories.values();
        added.extend(index.map(|h| (h.conversation.as_str(), h.milliseconds)));
    }
    added
}

/// Messages that were written.
fn messages(run: &Outputs) -> u64 {
    let span = |u: &rawrag_records::Ingestion| u64::from(u.last_message - u.first_message) + 1;
    if run.ingestions.is_empty() {
        return run.histories.values().map(|h| u64::from(h.messages)).sum();
    }
    run.ingestions
        .iter()
        .filter(|u| u.last_message >= u.first_message)
        .map(span)
        .sum()
}

const LATENCY: [Column; 11] = [
    RUN_COLUMN,
    Column::new("conversations", Unit::Count, "conversations added"),
    Column::new("messages", Unit::Count, "messages added"),
    Column::new("questions", Unit::Count, "questions searched for"),
    Column::new(
        "add",
        Unit::Number,
        "seconds from adding to ready, summed over conversations",
    ),
    Column::new("search", Unit::Number, "seconds of all searches"),
    Column::new("total", Unit::Number, "their sum"),
    Column::new(
        "add median",
        Unit::Milliseconds,
        "milliseconds to add a conversation, median",
    ),
    Column::new(
        "search median",
        Unit::Milliseconds,
        "milliseconds of a search, median",
    ),
    Column::new(
        "search p90",
        Unit::Milliseconds,
        "the same, 90th percentile",
    ),
    Column::new(
        "search p99",
        Unit::Milliseconds,
        "the same, 99th percentile",
    ),
];

fn times(run: &Outputs) -> Vec<Value> {
    let (added, found) = (
        Spread::of(adding(run).into_values()),
        Spread::of(searches(run)),
    );
    let seconds = |spread: &Spread| (!spread.is_empty()).then(|| spread.sum() / 1e3);
    let total = seconds(&added).zip(seconds(&found)).map(|(a, b)| a + b);
    vec![
        run.manifest.name.as_str().into(),
        added.len().into(),
        messages(run).into(),
        found.len().into(),
        present(seconds(&added), ADDED),
        present(seconds(&found), FOUND),
        present(total, "times of both"),
        added.percentile_of(0.5, ADDED),
        found.percentile_of(0.5, FOUND),
        found.percentile_of(0.9, FOUND),
        found.percentile_of(0.99, FOUND),
    ]
}

const ADDED: &str = "times of adding";
const FOUND: &str = "times of searching";

const GROWTH: [Column; 6] = [
    RUN_COLUMN,
    Column::new("conversation", Unit::Text, "the conversation"),
    Column::new("unit", Unit::Count, "its ingestion unit, from 0"),
    Column::new("messages", Unit::Count, "messages added so far"),
    Column::new("tokens", Unit::Count, "their tokens"),
    Column::new("seconds", Unit::Number, "seconds of adding so far"),
];

fn curve(run: &Outputs) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    let mut so_far: BTreeMap<&str, (u64, u64, f64)> = BTreeMap::new();
    for unit in &run.ingestions {
        let (messages, tokens, milliseconds) = so_far.entry(&unit.conversation).or_default();
        *messages += u64::from(unit.last_message.saturating_sub(unit.first_message)) + 1;
        *tokens += u64::from(unit.tokens);
        *milliseconds += unit.milliseconds + unit.ready_milliseconds.unwrap_or(0.0);
        rows.push(vec![
            run.manifest.name.as_str().into(),
            unit.conversation.as_str().into(),
            u64::from(unit.unit).into(),
            (*messages).into(),
            (*tokens).into(),
            Value::Number(*milliseconds / 1e3),
        ]);
    }
    rows
}

const MANAGEMENT: [Column; 11] = [
    RUN_COLUMN,
    Column::new("conversations", Unit::Count, "conversations added"),
    Column::new(
        "failed",
        Unit::Count,
        "of these, those of which the system reports an error",
    ),
    Column::new("calls", Unit::Count, "calls of chat models"),
    Column::new("input", Unit::Count, "tokens sent to them"),
    Column::new("output", Unit::Count, "tokens received"),
    Column::new("tokens", Unit::Count, "both together"),
    Column::new("embedding calls", Unit::Count, "calls of embedders"),
    Column::new(
        "add",
        Unit::Number,
        "seconds of adding and of waiting until all can be found",
    ),
    Column::new("search", Unit::Number, "seconds of all searches"),
    Column::new("total", Unit::Number, "their sum"),
];

/// The cost of managing memory (Table 32); a count that any conversation leaves out is not known.
fn consumed(run: &Outputs) -> Option<Vec<Value>> {
    let used = &run.consumptions;
    let sum = |of: fn(&Consumption) -> Option<u32>| -> Option<u64> {
        used.iter().map(|c| of(c).map(u64::from)).sum()
    };
    let told = |count: Option<u64>| {
        count.map_or_else(
            || Value::Absent("the system does not say of every conversation".to_owned()),
            Value::Count,
        )
    };
    let (input, output) = (sum(|c| c.input_tokens), sum(|c| c.output_tokens));
    let waited = used
        .iter()
        .map(|c| c.add_milliseconds + c.ready_milliseconds);
    let add = Spread::of(waited).sum() / 1e3;
    let search = Spread::of(searches(run)).sum() / 1e3;
    (!used.is_empty()).then(|| {
        vec![
            run.manifest.name.as_str().into(),
            used.len().into(),
            used.iter().filter(|c| c.error.is_some()).count().into(),
            told(sum(|c| c.chat_calls)),
            told(input),
            told(output),
            told(input.zip(output).map(|(input, output)| input + output)),
            told(sum(|c| c.embedding_calls)),
            Value::Number(add),
            Value::Number(search),
            Value::Number(add + search),
        ]
    })
}

const CALLS: [Column; 11] = [
    RUN_COLUMN,
    Column::new("stage", Unit::Text, "what it was for"),
    Column::new("model", Unit::Text, "the model that was asked for"),
    Column::new(
        "calls",
        Unit::Count,
        "calls that were answered, from the cache too",
    ),
    Column::new("cached", Unit::Count, "of these, from the cache"),
    Column::new("failed", Unit::Count, "attempts that were not answered"),
    Column::new("input", Unit::Count, "tokens sent in answered calls"),
    Column::new("output", Unit::Count, "tokens received"),
    Column::new(
        "uncounted",
        Unit::Count,
        "answered calls without a count of tokens",
    ),
    Column::new(
        "seconds",
        Unit::Number,
        "seconds of all attempts, one after another",
    ),
    Column::new(
        "dollars",
        Unit::Dollars,
        "at list price on the day the run began",
    ),
];

/// Whether a call brought a reply.
fn answered(usage: &Usage) -> bool {
    matches!(usage.outcome.as_str(), "answered" | "cached")
}

fn stages(run: &Outputs, input: &Input<'_>) -> Vec<Vec<Value>> {
    let mut groups: BTreeMap<(&str, &str), Vec<&Usage>> = BTreeMap::new();
    for usage in &run.usage {
        groups
            .entry((&usage.stage, &usage.model))
            .or_default()
            .push(usage);
    }
    let row = |((stage, model), attempts): ((&str, &str), Vec<&Usage>)| {
        let replies: Vec<&Usage> = attempts.iter().copied().filter(|u| answered(u)).collect();
        let sum = |of: fn(&Usage) -> Option<u32>| -> u64 {
            replies.iter().filter_map(|u| of(u)).map(u64::from).sum()
        };
        let seconds = Spread::of(attempts.iter().map(|u| u.milliseconds)).sum() / 1e3;
        vec![
            run.manifest.name.as_str().into(),
            stage.into(),
            model.into(),
            replies.len().into(),
            replies
                .iter()
                .filter(|u| u.outcome == "cached")
                .count()
                .into(),
            (attempts.len() - replies.len()).into(),
            sum(|u| u.input_tokens).into(),
            sum(|u| u.output_tokens).into(),
            replies
                .iter()
                .filter(|u| u.input_tokens.is_none())
                .count()
                .into(),
            Value::Number(seconds),
            dollars_of(run, input, &replies),
        ]
    };
    groups.into_iter().map(row).collect()
}

fn dollars_of(run: &Outputs, input: &Input<'_>, replies: &[&Usage]) -> Value {
    let Some(prices) = &input.settings.prices else {
        return Value::Absent("no list of prices".to_owned());
    };
    let day = run.manifest.started.get(..10).unwrap_or_default();
    let each: Option<Vec<f64>> = replies.iter().map(|u| prices.of(u, day)).collect();
    match each {
        Some(each) => Value::Number(Spread::of(each).sum()),
        None => Value::Absent("a call without a price or a count of tokens".to_owned()),
    }
}

const DOLLARS: [Column; 7] = [
    RUN_COLUMN,
    Column::new(
        "turns a question",
        Unit::Number,
        "messages written for each question asked",
    ),
    Column::new("ratio", Unit::Text, "`own` is the run's own ratio"),
    Column::new(
        "write",
        Unit::Dollars,
        "dollars to write a thousand messages",
    ),
    Column::new("read", Unit::Dollars, "dollars to read for a question"),
    Column::new("answer", Unit::Dollars, "dollars to answer it"),
    Column::new("total", Unit::Dollars, "dollars a question in all"),
];

/// Messages written a question asked, beside the run's own.
const RATIOS: [f64; 5] = [0.1, 1.0, 4.0, 10.0, 100.0];

fn per_question(run: &Outputs, input: &Input<'_>) -> Vec<Vec<Value>> {
    let (written, asked) = (messages(run) as f64, run.questions.len() as f64);
    if run.usage.is_empty() || input.settings.prices.is_none() || written < 1.0 || asked < 1.0 {
        return Vec::new();
    }
    let of = |stage: &str| {
        let replies: Vec<&Usage> = run
            .usage
            .iter()
            .filter(|u| u.stage == stage && answered(u))
            .collect();
        dollars_of(run, input, &replies)
    };
    let (write, read, answer) = (of("write"), of("read"), of("answer"));
    let own = written / asked;
    let mut ratios = vec![(own, "own")];
    ratios.extend(RATIOS.map(|ratio| (ratio, "")));
    let row = |(turns, label): (f64, &str)| {
        let per = |value: &Value, by: f64| value.as_f64().map(|dollars| dollars / by);
        let total = per(&write, written)
            .zip(per(&read, asked))
            .zip(per(&answer, asked));
        let shown = |value: &Value, by: f64| per(value, by).map_or(value.clone(), Value::Number);
        vec![
            run.manifest.name.as_str().into(),
            Value::Number(turns),
            label.into(),
            shown(&write, written / 1e3),
            shown(&read, asked),
            shown(&answer, asked),
            present(
                total.map(|((write, read), answer)| cost_per_question(write, read, answer, turns)),
                "price of some call",
            ),
        ]
    };
    ratios.into_iter().map(row).collect()
}
