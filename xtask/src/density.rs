//! `cargo xtask density`: how much of the right sessions is the answer, from a benchmark's file.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use rawrag_corpus::{Answer, Entry, Gold, LoadError, Question, Session};
use rawrag_diagnostics::density::{self, Turns};

use crate::commands::{Failure, FormatName};
use crate::diagnose;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The benchmark's file.
    file: PathBuf,
    /// How it is written.
    #[arg(long, value_enum, default_value = "md")]
    format: FormatName,
}

impl Arguments {
    pub(crate) fn report(&self, out: &mut impl Write) -> Result<(), Failure> {
        let count = |counted: &str| Turns {
            counted: counted.to_owned(),
            pairs: Vec::new(),
        };
        let mut answered = count("questions with an answer");
        let mut all = count("all questions, lures as answers, single references only");
        rawrag_corpus::read::<LoadError>(&self.file, None, |entry| {
            for question in &entry.questions {
                if let Some(gold) = answer(question, false) {
                    let sessions = question.evidence.sessions.iter();
                    let sessions = sessions.map(|position| position.0 as usize);
                    add(&mut answered, &entry, sessions, &gold);
                }
                if let Some(gold) = answer(question, true) {
                    let ids = single(question);
                    let named = entry.conversation.sessions.iter().enumerate();
                    let named = named.filter(|(_, session)| ids.contains(&digits(session)));
                    add(&mut all, &entry, named.map(|(at, _)| at), &gold);
                }
            }
            Ok(())
        })?;
        let report = density::report(&[answered, all]);
        Ok(out.write_all(diagnose::rendered(&report, self.format.into())?.as_bytes())?)
    }
}

/// The gold answer; of an adversarial question its lure, where that is asked for.
fn answer(question: &Question, lures: bool) -> Option<String> {
    let one = |answer: &Answer| answer.to_string();
    match question.gold.as_ref()? {
        Gold::Answer(answer) => Some(one(answer)),
        Gold::Adversarial { answer, lure } if lures => {
            Some(answer.as_ref().map_or_else(|| lure.clone(), one))
        }
        _ => None,
    }
}

/// Adds the turns of sessions: two messages each, the last one perhaps alone.
fn add(to: &mut Turns, entry: &Entry, sessions: impl Iterator<Item = usize>, gold: &str) {
    for session in sessions.filter_map(|at| entry.conversation.sessions.get(at)) {
        for turn in session.messages.chunks(2) {
            let said: Vec<&str> = turn.iter().map(|message| message.text.as_str()).collect();
            to.pairs.push((said.join(" "), gold.to_owned()));
        }
    }
}

/// The sessions of references that are one `D4:12` and nothing else, each once: Nano-Memory's count
/// of turns is met by these alone.
fn single(question: &Question) -> Vec<String> {
    let mut sessions: Vec<String> = question
        .evidence
        .written
        .iter()
        .filter_map(|reference| {
            let (session, message) = reference.strip_prefix('D')?.split_once(':')?;
            let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            (digits(session) && digits(message)).then(|| session.to_owned())
        })
        .collect();
    sessions.sort_unstable();
    sessions.dedup();
    sessions
}

/// A session's number: the digits at the end of its id.
fn digits(session: &Session) -> String {
    let id = session.id.to_string();
    let start = id.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    id[start..].to_owned()
}
