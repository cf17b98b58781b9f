use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use crate::corpus::{ConversationId, Format, Timestamp, read};
use crate::retrieval::{Hit, Ingested, LateInteraction, Store};

use super::failure::Failure;
use super::{Weights, models};

/// What is looked for.
pub(super) struct Search {
    pub(super) question: String,
    pub(super) k: usize,
    pub(super) conversation: Option<ConversationId>,
    pub(super) until: Option<Timestamp>,
    pub(super) json: bool,
}

pub(super) fn ingest(
    weights: &Weights,
    file: &Path,
    folder: &Path,
    format: Option<Format>,
) -> Result<(), Failure> {
    let mut store = Store::open_to_write(folder, Arc::new(models::minilm(weights)?))?;
    let bar = super::bar(0, "messages");
    let mut done = Ingested::default();
    let report = read::<Failure>(file, format, |entry| {
        bar.inc_length(entry.conversation.message_count() as u64);
        done += store.ingest(&entry.conversation, |messages| bar.inc(messages as u64))?;
        Ok(())
    })?;
    bar.finish_and_clear();
    let mut out = std::io::stdout().lock();
    let Ingested {
        unchanged,
        moved,
        encoded,
        dropped,
    } = done;
    writeln!(
        out,
        "{encoded} messages encoded, {} already there, {dropped} dropped; the store holds {}",
        unchanged + moved,
        store.len()
    )?;
    let odd: u64 = report
        .oddities
        .values()
        .map(|findings| findings.count)
        .sum();
    if odd > 0 {
        writeln!(
            out,
            "{odd} things in it are odd; `rawrag corpus check {}` lists them",
            file.display()
        )?;
    }
    Ok(())
}

pub(super) fn search(weights: &Weights, folder: &Path, search: &Search) -> Result<(), Failure> {
    if search.question.trim().is_empty() {
        return Err(Failure::Usage("the question is empty".into()));
    }
    let store = Store::open(folder, Arc::new(models::minilm(weights)?))?;
    let hits = store.search(
        &search.question,
        search.k,
        search.conversation.as_ref(),
        search.until,
        &LateInteraction::default(),
    )?;
    let mut out = std::io::stdout().lock();
    for hit in &hits {
        if search.json {
            serde_json::to_writer(&mut out, hit)?;
            writeln!(out)?;
        } else {
            print(&mut out, hit)?;
        }
    }
    if hits.is_empty() {
        models::notice("nothing in the store may answer that");
    }
    Ok(())
}

fn print(out: &mut impl Write, hit: &Hit) -> std::io::Result<()> {
    let Hit {
        rank,
        score,
        message,
    } = hit;
    write!(
        out,
        "{rank:3}. {score:.3}  {}  {}",
        message.conversation, message.id
    )?;
    match message.date {
        Some(date) => writeln!(out, "  {date}")?,
        None => writeln!(out)?,
    }
    writeln!(
        out,
        "     {}: {}",
        message.speaker,
        message.text.replace('\n', "\n     ")
    )?;
    for caption in &message.captions {
        writeln!(out, "     [image: {caption}]")?;
    }
    Ok(())
}
