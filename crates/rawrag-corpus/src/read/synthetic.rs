//! Synthetic histories as [`write`](crate::synthetic::write) writes them: chat JSONL whose
//! conversation ids name the family of tasks, with `episodes.json` beside it.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek};
use std::path::Path;

use serde::Deserialize;

use super::Entry;
use super::elements::{Elements, Place, skip_mark};
use crate::error::LoadError;
use crate::meme::{Annotated, Episode};
use crate::synthetic::{EPISODES, Family};
use crate::{Benchmark, ConversationId};

#[derive(Deserialize)]
struct Begins {
    conversation: ConversationId,
}

/// Whether the file begins with a message of a synthetic conversation.
pub(super) fn begins(file: &Path, input: &mut (impl BufRead + Seek)) -> Result<bool, LoadError> {
    let failed = |source| LoadError::Read {
        file: file.to_owned(),
        source,
    };
    input.rewind().map_err(failed)?;
    skip_mark(file, input)?;
    let first = serde_json::Deserializer::from_reader(input)
        .into_iter::<Begins>()
        .next();
    Ok(matches!(first, Some(Ok(first)) if Family::of(&first.conversation).is_some()))
}

/// Says of every question that it is synthetic, and of which family.
pub(super) fn label<'a>(
    (mut entry, place): (Entry, Place<'a>),
) -> Result<(Entry, Place<'a>), LoadError> {
    let id = &entry.conversation.id;
    let Some(family) = Family::of(id) else {
        let problem = format!("conversation {id} is not synthetic, and those ahead of it are");
        return Err(place.error(
            "conversation",
            problem,
            "keep the two in files of their own",
        ));
    };
    for question in &mut entry.questions {
        question.benchmark = Benchmark::Synthetic;
        question.source = Some(family.source().to_owned());
    }
    Ok((entry, place))
}

/// Refuses a synthetic conversation among a user's own.
pub(super) fn refuse<'a>(
    (entry, place): (Entry, Place<'a>),
) -> Result<(Entry, Place<'a>), LoadError> {
    let id = &entry.conversation.id;
    if Family::of(id).is_none() {
        return Ok((entry, place));
    }
    let problem = format!("conversation {id} is synthetic, and is not to be read as anything else");
    Err(place.error("conversation", problem, "read it as the format synthetic"))
}

/// The entries of a history file that are of episodes, each with its own.
pub(super) fn episodes(history: &Path, entries: Vec<Entry>) -> Result<Vec<Annotated>, LoadError> {
    let file = history.with_file_name(EPISODES);
    let input = File::open(&file).map_err(|source| LoadError::Read {
        file: file.clone(),
        source,
    })?;
    let of_meme = |entry: &Entry| Family::of(&entry.conversation.id) == Some(Family::Meme);
    let mut entries = entries.into_iter().filter(of_meme);
    let mut elements = Elements::new(&file, BufReader::new(input));
    let mut episodes = Vec::new();
    while let Some((json, place)) = elements.next()? {
        let episode: Episode = place.parse(json)?;
        let Some(entry) = entries.next().filter(|entry| fits(entry, &episode)) else {
            let problem = format!(
                "episode {} is not what stands at its place in the history",
                episode.conversation
            );
            return Err(place.error("conversation", problem, AGAIN));
        };
        episodes.push(Annotated { entry, episode });
    }
    match entries.next() {
        None => Ok(episodes),
        Some(entry) => {
            let problem = format!("conversation {} has no episode", entry.conversation.id);
            Err(Place::whole(&file).error("", problem, AGAIN))
        }
    }
}

const AGAIN: &str = "generate the folder again from its recipe";

/// Whether the episode is the entry's: its questions are, and no position points past its end.
fn fits(entry: &Entry, episode: &Episode) -> bool {
    let sessions = entry.conversation.sessions.len();
    let messages = entry.conversation.message_count();
    let same = |(question, asked): (&crate::Question, &crate::meme::Asked)| {
        question.id == asked.id
            && question.phase == Some(asked.phase)
            && question.kind.as_str() == asked.task.name()
            && (asked.last_session.0 as usize) < sessions
            && asked.targets.len() == asked.values.len()
    };
    entry.conversation.id == episode.conversation
        && entry.questions.len() == episode.asked.len()
        && entry.questions.iter().zip(&episode.asked).all(same)
        && episode
            .distractors
            .iter()
            .all(|s| (s.0 as usize) < sessions)
        && episode.statements.iter().all(|s| {
            (s.session.0 as usize) < sessions && s.message.is_none_or(|m| (m.0 as usize) < messages)
        })
}
