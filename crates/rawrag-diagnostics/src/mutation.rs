//! The mutation audit (Raw-RAG, C.2, Figure 2 and Table 1): how many writes a system proposes to
//! change, and how many change anything.
//!
//! - *Proposed*: UPDATE and DELETE of all decisions that the model emitted, NONE included.
//! - *Effective*: persisted UPDATE whose old and new text are both on record and differ, and
//!   persisted DELETE, of the same number of emitted decisions.
//! - A persisted UPDATE whose texts are equal is a no-op; one without both texts cannot be told and
//!   is counted apart.
//!
//! A rate over a run is given by decisions (all conversations in one) and as the mean of its
//! conversations' rates.

use std::collections::BTreeMap;

use rawrag_records::{Level, WriteDecision, WriteEvent};

use crate::report::{RUN_COLUMN, table};
use crate::{Column, Diagnostic, DiagnosticError, Input, Need, Report, Unit, Value};

pub(crate) const MUTATION: Diagnostic = Diagnostic {
    name: "mutation",
    about: "How many writes a system proposes to change, and how many of them change anything",
    source: "Raw-RAG, C.2, Figure 2",
    needs: &[Need::Decisions],
    analyse,
};

fn analyse(input: &Input<'_>) -> Result<Report, DiagnosticError> {
    let (mut events, mut rates, mut conversations) = (Vec::new(), Vec::new(), Vec::new());
    let mut notes = Vec::new();
    for run in &input.runs {
        let name = run.manifest.name.as_str();
        let mut by_conversation: BTreeMap<&str, Writes> = BTreeMap::new();
        for decision in &run.decisions {
            let writes = by_conversation.entry(&decision.conversation).or_default();
            writes.count(decision);
        }
        let mut total = Writes::default();
        for writes in by_conversation.values() {
            total.add(writes);
        }
        let at = |level| total.counts.keys().any(|(of, _)| *of == level);
        // A log of what calls returned tells of no other level, and its silence is no zero.
        let returned_only = !at(Level::Proposed) && !at(Level::Persisted) && at(Level::Returned);
        if returned_only {
            notes.push(format!(
                "{name}: only what calls returned is on record, not what was emitted or persisted."
            ));
        }
        for (level, label) in LEVELS {
            if returned_only && level != Level::Returned {
                continue;
            }
            let count = |event| total.counts.get(&(level, event)).copied().unwrap_or(0);
            events.push(vec![
                name.into(),
                label.into(),
                count(WriteEvent::Add).into(),
                count(WriteEvent::Update).into(),
                count(WriteEvent::Delete).into(),
                count(WriteEvent::None).into(),
                total.updates(level, Some(true)).into(),
                total.updates(level, Some(false)).into(),
                total.updates(level, None).into(),
            ]);
        }
        let known = |count: u64| match returned_only {
            true => Value::Absent("decisions of that level".to_owned()),
            false => count.into(),
        };
        rates.push(vec![
            name.into(),
            by_conversation.len().into(),
            known(total.proposed()),
            known(total.mutations(Level::Proposed)),
            known(total.effective()),
            known(total.updates(Level::Persisted, Some(false))),
            known(total.updates(Level::Persisted, None)),
            Value::rate(total.mutations(Level::Proposed), total.proposed(), EMITTED),
            Value::rate(total.effective(), total.proposed(), EMITTED),
            mean(&by_conversation, |w| w.mutations(Level::Proposed)),
            mean(&by_conversation, Writes::effective),
        ]);
        let silent = by_conversation
            .values()
            .filter(|w| w.proposed() == 0)
            .count();
        if silent > 0 {
            notes.push(format!(
                "{name}: {silent} of {} conversations emitted no decision and have no rate.",
                by_conversation.len()
            ));
        }
        let ranked = (1_u64..).zip(ranked(&by_conversation));
        conversations.extend(ranked.map(|(rank, (id, writes))| {
            vec![
                name.into(),
                rank.into(),
                id.into(),
                writes.proposed().into(),
                writes.mutations(Level::Proposed).into(),
                writes.effective().into(),
                Value::rate(
                    writes.mutations(Level::Proposed),
                    writes.proposed(),
                    EMITTED,
                ),
                Value::rate(writes.effective(), writes.proposed(), EMITTED),
            ]
        }));
    }
    Ok(Report {
        tables: vec![
            table("rates", "one run", &RATES, rates),
            table(
                "events",
                "one level of one run's decisions",
                &EVENTS,
                events,
            ),
            table(
                "conversations",
                "one conversation, the highest proposed rate first",
                &CONVERSATIONS,
                conversations,
            ),
        ],
        notes,
    })
}

const EMITTED: &str = "emitted decisions";

const LEVELS: [(Level, &str); 3] = [
    (Level::Proposed, "emitted"),
    (Level::Returned, "returned"),
    (Level::Persisted, "persisted"),
];

const RATES: [Column; 11] = [
    RUN_COLUMN,
    Column::new(
        "conversations",
        Unit::Count,
        "conversations with a decision of any level",
    ),
    Column::new(
        "emitted",
        Unit::Count,
        "decisions that the model emitted, NONE included",
    ),
    Column::new("proposed", Unit::Count, "UPDATE and DELETE among them"),
    Column::new(
        "effective",
        Unit::Count,
        "persisted UPDATE with differing texts, and persisted DELETE",
    ),
    Column::new("no-op", Unit::Count, "persisted UPDATE with equal texts"),
    Column::new(
        "unknown",
        Unit::Count,
        "persisted UPDATE without both texts",
    ),
    Column::new(
        "proposed rate",
        Unit::Rate,
        "proposed of emitted, by decision",
    ),
    Column::new(
        "effective rate",
        Unit::Rate,
        "effective of emitted, by decision",
    ),
    Column::new(
        "proposed mean",
        Unit::Rate,
        "mean of the conversations' proposed rates",
    ),
    Column::new(
        "effective mean",
        Unit::Rate,
        "mean of the conversations' effective rates",
    ),
];

const EVENTS: [Column; 9] = [
    RUN_COLUMN,
    Column::new(
        "level",
        Unit::Text,
        "emitted by the model, returned by the system, or persisted",
    ),
    Column::new("add", Unit::Count, "ADD"),
    Column::new("update", Unit::Count, "UPDATE"),
    Column::new("delete", Unit::Count, "DELETE"),
    Column::new("none", Unit::Count, "NONE"),
    Column::new("changed", Unit::Count, "UPDATE with differing texts"),
    Column::new("same", Unit::Count, "UPDATE with equal texts"),
    Column::new("unknown", Unit::Count, "UPDATE without both texts"),
];

const CONVERSATIONS: [Column; 8] = [
    RUN_COLUMN,
    Column::new("rank", Unit::Count, "its place by proposed rate, from 1"),
    Column::new("conversation", Unit::Text, "the conversation"),
    Column::new(
        "emitted",
        Unit::Count,
        "decisions that the model emitted, NONE included",
    ),
    Column::new("proposed", Unit::Count, "UPDATE and DELETE among them"),
    Column::new(
        "effective",
        Unit::Count,
        "persisted writes that changed a text or deleted one",
    ),
    Column::new("proposed rate", Unit::Rate, "proposed of emitted"),
    Column::new("effective rate", Unit::Rate, "effective of emitted"),
];

/// The decisions of one conversation, or of several.
#[derive(Default)]
struct Writes {
    counts: BTreeMap<(Level, WriteEvent), u64>,
    /// Updates by whether their texts differ, `None` where they are not both on record.
    updates: BTreeMap<(Level, Option<bool>), u64>,
}

impl Writes {
    fn count(&mut self, decision: &WriteDecision) {
        *self
            .counts
            .entry((decision.level, decision.event))
            .or_default() += 1;
        if decision.event == WriteEvent::Update {
            let of = (decision.level, decision.changed);
            *self.updates.entry(of).or_default() += 1;
        }
    }

    fn add(&mut self, other: &Self) {
        for (&of, &count) in &other.counts {
            *self.counts.entry(of).or_default() += count;
        }
        for (&of, &count) in &other.updates {
            *self.updates.entry(of).or_default() += count;
        }
    }

    fn updates(&self, level: Level, changed: Option<bool>) -> u64 {
        self.updates.get(&(level, changed)).copied().unwrap_or(0)
    }

    fn of(&self, level: Level, events: &[WriteEvent]) -> u64 {
        let count = |&event| self.counts.get(&(level, event)).copied().unwrap_or(0);
        events.iter().map(count).sum()
    }

    fn proposed(&self) -> u64 {
        use WriteEvent::{Add, Delete, None, Update};
        self.of(Level::Proposed, &[Add, Update, Delete, None])
    }

    fn mutations(&self, level: Level) -> u64 {
        self.of(level, &[WriteEvent::Update, WriteEvent::Delete])
    }

    fn effective(&self) -> u64 {
        self.updates(Level::Persisted, Some(true))
            + self.of(Level::Persisted, &[WriteEvent::Delete])
    }
}

/// The mean over conversations that emitted anything.
fn mean(of: &BTreeMap<&str, Writes>, hits: impl Fn(&Writes) -> u64) -> Value {
    let rates: Vec<f64> = of
        .values()
        .filter(|writes| writes.proposed() > 0)
        .map(|writes| hits(writes) as f64 / writes.proposed() as f64)
        .collect();
    match rates.len() {
        0 => Value::Absent(format!("no {EMITTED}")),
        n => Value::Number(rates.iter().sum::<f64>() / n as f64),
    }
}

/// Conversations as Figure 2 orders them: by proposed rate, then by name.
fn ranked<'a, 'b>(of: &'b BTreeMap<&'a str, Writes>) -> Vec<(&'a str, &'b Writes)> {
    let rate = |writes: &Writes| match writes.proposed() {
        0 => -1.0,
        emitted => writes.mutations(Level::Proposed) as f64 / emitted as f64,
    };
    let mut ranked: Vec<(&str, &Writes)> = of.iter().map(|(id, writes)| (*id, writes)).collect();
    ranked.sort_by(|a, b| rate(b.1).total_cmp(&rate(a.1)).then(a.0.cmp(b.0)));
    ranked
}
