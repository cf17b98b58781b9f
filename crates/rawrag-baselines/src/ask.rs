use std::collections::HashSet;
use std::time::Instant;

use rawrag_corpus::{Conversation, Phase, Question, Timestamp};
use serde::{Deserialize, Serialize};

use crate::system::{
    Capabilities, Decision, Item, MemorySystem, Namespace, Said, Stored, SystemError, Unit, Usage,
};

/// How a question asked at an earlier time is kept from what was said later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Visibility {
    /// Everything is ingested, and the system leaves out what is later.
    Filter,
    /// Only what was said until then has been ingested when the question is asked.
    Prefix,
}

/// What a system did with one conversation and its questions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Asked {
    /// The conversation's id.
    pub conversation: String,
    /// How phases were kept apart.
    pub visibility: Visibility,
    /// The ingestion units, in the order of adding.
    pub units: Vec<Taken>,
    /// Milliseconds that the barriers took, all together.
    pub ready_milliseconds: f64,
    /// One a question, in the order of asking.
    pub searches: Vec<Search>,
    /// What was persisted at each phase whose questions were all asked of one prefix, and at the end.
    pub exports: Vec<Export>,
    /// The write decisions, or why they are not known.
    pub decisions: Result<Vec<Decision>, String>,
    /// What was used, or why it is not known.
    pub usage: Result<Usage, String>,
}

/// A store as it was at one time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Export {
    /// The phase whose questions had just been asked; `None` at the end.
    pub phase: Option<Phase>,
    /// Everything persisted, or why it is not known.
    pub stored: Result<Vec<Stored>, String>,
}

/// One ingestion unit that a system took in.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Taken {
    /// Its messages' positions, in source order. Never empty.
    pub messages: Vec<u32>,
    /// Milliseconds that adding took.
    pub milliseconds: f64,
    /// Milliseconds until everything added could be found, where that was waited for after it.
    pub ready_milliseconds: Option<f64>,
}

/// One question's search.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Search {
    /// The question's place among those given.
    pub question: usize,
    /// Items asked for, all perspectives together.
    pub requested: usize,
    /// Items returned.
    pub returned: usize,
    /// The evidence, or why there is none: a failure is no empty answer.
    pub found: Result<Vec<Item>, String>,
    /// Milliseconds from question to evidence.
    pub milliseconds: f64,
}

/// What [`ask`] tells of while it is at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// One more ingestion unit was taken in.
    Unit,
    /// One more question was asked.
    Search,
}

/// Why a conversation could not be taken through a system.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// Nothing can be asked of a system that did not take the history.
    #[error("{conversation}: {error}")]
    Ingestion {
        /// The conversation.
        conversation: String,
        /// What went wrong.
        error: SystemError,
    },
    /// A unit of no messages.
    #[error("the system's unit holds at most 0 messages; it must hold at least 1")]
    EmptyUnit,
}

impl Asked {
    /// Messages added.
    pub fn messages(&self) -> usize {
        self.units.iter().map(|unit| unit.messages.len()).sum()
    }

    /// Milliseconds that adding took, all units together.
    pub fn add_milliseconds(&self) -> f64 {
        self.units.iter().map(|unit| unit.milliseconds).sum()
    }
}

/// How a system is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asking {
    /// Items a perspective that a search asks for.
    pub k: usize,
    /// Whether messages are added one at a time, each waited for until it can be found, in place of
    /// the system's own units (the sequential ingestion of Raw-RAG's Figure 1).
    pub one_by_one: bool,
}

/// Takes `conversation` and its `questions` through `system`, as `asking` says, in a fresh
/// namespace of the conversation's own under `run`. `progress` hears of each unit and search.
///
/// A search that fails is recorded as failed and the next question asked. A system that lacks
/// [`Capabilities::cutoff`] gets the history in prefixes, and its questions in the order of their
/// cutoffs.
///
/// # Errors
/// When the history could not be ingested whole.
pub fn ask(
    system: &mut dyn MemorySystem,
    run: &str,
    conversation: &Conversation,
    questions: &[Question],
    asking: Asking,
    mut progress: impl FnMut(Step),
) -> Result<Asked, AskError> {
    let id = conversation.id.to_string();
    let failed = |error| AskError::Ingestion {
        conversation: id.clone(),
        error,
    };
    let messages = said(conversation);
    let capabilities = system.description().capabilities;
    let unit = match asking.one_by_one {
        true => Unit::Messages(1),
        false => system.description().unit,
    };
    let opened = system
        .open(&namespace(run, conversation, &messages))
        .map_err(failed)?;
    let mut asked = Asked {
        conversation: id.clone(),
        visibility: visibility(capabilities),
        units: Vec::new(),
        ready_milliseconds: 0.0,
        searches: Vec::new(),
        exports: Vec::new(),
        decisions: Ok(Vec::new()),
        usage: Ok(Usage::default()),
    };
    let requested = asking.k * opened.perspectives as usize;
    let mut added = HashSet::new();
    let stages = stages(asked.visibility, questions);
    let phases: Vec<Option<Phase>> = stages.iter().map(|stage| stage.phase(questions)).collect();
    for (stage, phase) in stages.iter().zip(&phases) {
        let due: Vec<Said> = messages
            .iter()
            .filter(|said| !added.contains(&said.position) && stage.shows(said.date))
            .cloned()
            .collect();
        for unit in units(&due, unit)? {
            let begun = Instant::now();
            system.add(unit).map_err(failed)?;
            let took = milliseconds(begun);
            let waited = match asking.one_by_one {
                true => Some(ready(system).map_err(failed)?),
                false => None,
            };
            asked.ready_milliseconds += waited.unwrap_or_default();
            asked.units.push(Taken {
                messages: unit.iter().map(|said| said.position).collect(),
                milliseconds: took,
                ready_milliseconds: waited,
            });
            progress(Step::Unit);
        }
        if !asking.one_by_one || due.is_empty() {
            let waited = ready(system).map_err(failed)?;
            asked.ready_milliseconds += waited;
            if let (false, Some(last)) = (due.is_empty(), asked.units.last_mut()) {
                last.ready_milliseconds = Some(waited);
            }
        }
        added.extend(due.iter().map(|said| said.position));
        for &question in &stage.questions {
            let text = &questions[question];
            let begun = Instant::now();
            let found = system
                .search(&text.text, asking.k, text.cutoff)
                .and_then(|items| {
                    let allowed = Allowed {
                        items: requested,
                        added: &added,
                        cutoff: text.cutoff.filter(|_| capabilities.cutoff),
                    };
                    allowed.check(&items)?;
                    Ok(items)
                });
            asked.searches.push(Search {
                question,
                requested,
                returned: found.as_ref().map_or(0, Vec::len),
                found: found.map_err(|error| error.to_string()),
                milliseconds: milliseconds(begun),
            });
            progress(Step::Search);
        }
        // A phase of which questions were asked at several times has no one store.
        if phase.is_some() && phases.iter().filter(|other| *other == phase).count() == 1 {
            let stored = system.export().map_err(|error| error.to_string());
            let phase = *phase;
            asked.exports.push(Export { phase, stored });
        }
    }
    let stored = system.export().map_err(|error| error.to_string());
    let phase = None;
    asked.exports.push(Export { phase, stored });
    asked.decisions = system.decisions().map_err(|error| error.to_string());
    asked.usage = system.usage().map_err(|error| error.to_string());
    let closed = system.close();
    // A system that died at a question cannot close; that it died is on record with the question.
    if asked.searches.iter().all(|search| search.found.is_ok()) {
        closed.map_err(failed)?;
    }
    Ok(asked)
}

/// Cuts messages into ingestion units, in order; none crosses a session.
///
/// # Errors
/// [`AskError::EmptyUnit`] for units of no messages.
pub fn units(messages: &[Said], unit: Unit) -> Result<impl Iterator<Item = &[Said]>, AskError> {
    let size = match unit {
        Unit::Messages(0) => return Err(AskError::EmptyUnit),
        Unit::Messages(size) => size as usize,
        Unit::Session => usize::MAX,
    };
    Ok(messages
        .chunk_by(|a, b| a.session == b.session)
        .flat_map(move |session| session.chunks(size)))
}

/// Every message on its way to a system, in source order.
pub(crate) fn said(conversation: &Conversation) -> Vec<Said> {
    conversation
        .messages()
        .map(|(session, position, message)| Said {
            position: position.0,
            session: session.0,
            date: conversation.date_of(session, message),
            speaker: message.speaker.clone(),
            text: message.text.clone(),
            captions: message.captions.clone(),
        })
        .collect()
}

/// A fresh namespace for `conversation`, whose id may hold what a folder's name cannot.
pub(crate) fn namespace(run: &str, conversation: &Conversation, messages: &[Said]) -> Namespace {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let id: String = conversation.id.as_str().chars().map(plain).collect();
    let mut speakers: Vec<String> = Vec::new();
    for message in messages {
        if !speakers.contains(&message.speaker) {
            speakers.push(message.speaker.clone());
        }
    }
    Namespace {
        name: format!("{run}-{id}"),
        fresh: true,
        speakers,
    }
}

/// How a system of these capabilities keeps phases apart.
pub fn visibility(capabilities: Capabilities) -> Visibility {
    if capabilities.cutoff {
        Visibility::Filter
    } else {
        Visibility::Prefix
    }
}

/// Questions that are asked of the same ingested messages.
struct Stage {
    until: Option<Timestamp>,
    questions: Vec<usize>,
}

impl Stage {
    fn shows(&self, date: Option<Timestamp>) -> bool {
        self.until
            .is_none_or(|until| date.is_none_or(|date| date <= until))
    }

    /// The phase of its questions, where it is an earlier stage and they share one.
    fn phase(&self, questions: &[Question]) -> Option<Phase> {
        self.until?;
        let mut phases = self.questions.iter().map(|&at| questions[at].phase);
        let first = phases.next()??;
        phases.all(|phase| phase == Some(first)).then_some(first)
    }
}

/// The stages of a conversation, the earliest first; a last one brings in the whole history, so
/// that exports are of the same store whatever is asked.
fn stages(visibility: Visibility, questions: &[Question]) -> Vec<Stage> {
    let mut stages = Vec::new();
    let mut rest: Vec<usize> = (0..questions.len()).collect();
    if visibility == Visibility::Prefix {
        let mut cutoffs: Vec<Timestamp> = questions.iter().filter_map(|q| q.cutoff).collect();
        cutoffs.sort_unstable();
        cutoffs.dedup();
        rest.retain(|&at| questions[at].cutoff.is_none());
        stages.extend(cutoffs.into_iter().map(|until| {
            Stage {
                until: Some(until),
                questions: (0..questions.len())
                    .filter(|&at| questions[at].cutoff == Some(until))
                    .collect(),
            }
        }));
    }
    stages.push(Stage {
        until: None,
        questions: rest,
    });
    stages
}

/// What a search may return.
pub(crate) struct Allowed<'a> {
    pub(crate) items: usize,
    pub(crate) added: &'a HashSet<u32>,
    pub(crate) cutoff: Option<Timestamp>,
}

impl Allowed<'_> {
    pub(crate) fn check(&self, items: &[Item]) -> Result<(), SystemError> {
        let wrong = |problem: String| {
            Err(SystemError::Contract {
                call: "search",
                problem,
            })
        };
        if items.len() > self.items {
            return wrong(format!(
                "{} items were returned where {} were asked for",
                items.len(),
                self.items
            ));
        }
        for (at, item) in items.iter().enumerate() {
            if item.text.is_empty() {
                return wrong(format!("items[{at}].text is empty"));
            }
            if item.score.is_some_and(|score| !score.is_finite()) {
                return wrong(format!("items[{at}].score is not a finite number"));
            }
            if let (Some(date), Some(cutoff)) = (item.date, self.cutoff)
                && date > cutoff
            {
                return wrong(format!(
                    "items[{at}] is dated {date}, after the cutoff {cutoff}"
                ));
            }
            let positions = item.messages.iter().flatten();
            if let Some(unknown) = positions.copied().find(|p| !self.added.contains(p)) {
                return wrong(format!(
                    "items[{at}].messages names {unknown}, which was not added"
                ));
            }
        }
        Ok(())
    }
}

/// The milliseconds until everything added can be found.
fn ready(system: &mut dyn MemorySystem) -> Result<f64, SystemError> {
    let begun = Instant::now();
    system.ready()?;
    Ok(milliseconds(begun))
}

fn milliseconds(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use rawrag_corpus::{Benchmark, Evidence, Message, Session};

    use super::*;
    use crate::native::{Native, NativeSystem};
    use crate::system::{Description, Opened};

    fn conversation() -> Conversation {
        let session = |id: &str, date: &str, texts: &[&str]| Session {
            id: id.into(),
            date: date.parse().ok(),
            messages: texts
                .iter()
                .map(|text| Message {
                    id: "m".into(),
                    speaker: "Olu".into(),
                    text: (*text).into(),
                    captions: vec![],
                    date: None,
                })
                .collect(),
        };
        Conversation {
            id: "c/1".into(),
            sessions: vec![
                session("a", "2025-01-01", &["one", "two", "three"]),
                session("b", "2025-02-01", &["four"]),
            ],
        }
    }

    fn question(cutoff: Option<&str>) -> Question {
        Question {
            benchmark: Benchmark::Own,
            source: None,
            conversation: "c/1".into(),
            id: "q".into(),
            phase: None,
            kind: "single-hop".into(),
            text: "what?".into(),
            options: vec![],
            cutoff: cutoff.and_then(|date| date.parse().ok()),
            gold: None,
            evidence: Evidence::default(),
        }
    }

    /// Recency that misbehaves in one way.
    struct Odd {
        inner: NativeSystem,
        description: Description,
        more: usize,
    }

    impl Odd {
        fn new(cutoff: bool, more: usize) -> Self {
            let inner = NativeSystem::new("odd", Native::Recency).unwrap();
            let mut description = inner.description().clone();
            description.capabilities.cutoff = cutoff;
            description.unit = Unit::Messages(2);
            Self {
                inner,
                description,
                more,
            }
        }
    }

    impl MemorySystem for Odd {
        fn description(&self) -> &Description {
            &self.description
        }
        fn open(&mut self, namespace: &Namespace) -> Result<Opened, SystemError> {
            assert_eq!(namespace.name, "run-c-1");
            self.inner.open(namespace)
        }
        fn add(&mut self, unit: &[Said]) -> Result<(), SystemError> {
            assert!(unit.len() <= 2 && unit.iter().all(|said| said.session == unit[0].session));
            self.inner.add(unit)
        }
        fn ready(&mut self) -> Result<(), SystemError> {
            self.inner.ready()
        }
        fn search(
            &mut self,
            question: &str,
            k: usize,
            _: Option<Timestamp>,
        ) -> Result<Vec<Item>, SystemError> {
            self.inner.search(question, k + self.more, None)
        }
        fn export(&mut self) -> Result<Vec<Stored>, SystemError> {
            self.inner.export()
        }
        fn decisions(&mut self) -> Result<Vec<Decision>, SystemError> {
            self.inner.decisions()
        }
        fn usage(&mut self) -> Result<Usage, SystemError> {
            self.inner.usage()
        }
        fn close(&mut self) -> Result<(), SystemError> {
            self.inner.close()
        }
    }

    /// Several times before a change are no one phase with one store.
    #[test]
    fn a_store_is_exported_at_a_phase_that_has_one_time() {
        let phases = |asked: &Asked| -> Vec<Option<Phase>> {
            asked.exports.iter().map(|export| export.phase).collect()
        };
        let before = |date: &str| Question {
            phase: Some(Phase::Before),
            ..question(Some(date))
        };
        let mut questions = vec![before("2025-01-15"), question(None)];
        let run = |questions: &[Question]| {
            let mut system = Odd::new(false, 0);
            let asking = Asking {
                k: 1,
                one_by_one: false,
            };
            ask(
                &mut system,
                "run",
                &conversation(),
                questions,
                asking,
                |_| {},
            )
            .unwrap()
        };
        assert_eq!(phases(&run(&questions)), [Some(Phase::Before), None]);
        questions.push(before("2025-01-20"));
        assert_eq!(phases(&run(&questions)), [None]);
    }

    fn outcome(system: &mut Odd, k: usize) -> Asked {
        let questions = [question(None), question(Some("2025-01-15"))];
        let asking = Asking {
            k,
            one_by_one: false,
        };
        ask(system, "run", &conversation(), &questions, asking, |_| {}).unwrap()
    }

    #[test]
    fn a_system_without_cutoffs_is_asked_before_it_hears_the_rest() {
        let asked = outcome(&mut Odd::new(false, 0), 1);
        assert_eq!(asked.visibility, Visibility::Prefix);
        let taken: Vec<_> = asked
            .units
            .iter()
            .map(|unit| (unit.messages.clone(), unit.ready_milliseconds.is_some()))
            .collect();
        assert_eq!(
            taken,
            [(vec![0, 1], false), (vec![2], true), (vec![3], true)]
        );
        let seen: Vec<_> = asked
            .searches
            .iter()
            .map(|s| (s.question, s.found.as_ref().unwrap()[0].messages.clone()))
            .collect();
        assert_eq!(seen, [(1, Some(vec![2])), (0, Some(vec![3]))]);
        assert_eq!(asked.exports[0].stored.as_ref().unwrap().len(), 4);
    }

    /// Raw-RAG, Figure 1: each message is there before the next is sent.
    #[test]
    fn one_by_one_waits_for_every_message() {
        let asking = Asking {
            k: 1,
            one_by_one: true,
        };
        let mut system = Odd::new(true, 0);
        let asked = ask(&mut system, "run", &conversation(), &[], asking, |_| {}).unwrap();
        let waited = |unit: &Taken| unit.messages.len() == 1 && unit.ready_milliseconds.is_some();
        assert!(asked.units.len() == 4 && asked.units.iter().all(waited));
        let each = asked
            .units
            .iter()
            .filter_map(|unit| unit.ready_milliseconds);
        assert_eq!(asked.ready_milliseconds, each.sum::<f64>());
    }

    /// mem0#5404: a system that ignores k.
    #[test]
    fn more_than_asked_for_is_a_failure_and_not_evidence() {
        let asked = outcome(&mut Odd::new(false, 1), 1);
        let reason = asked.searches[0].found.clone().unwrap_err();
        assert_eq!(
            reason,
            "search: 2 items were returned where 1 were asked for"
        );
        assert_eq!(asked.searches[0].returned, 0);
    }

    #[test]
    fn what_is_later_than_a_cutoff_is_a_failure_where_the_system_claims_to_filter() {
        let asked = outcome(&mut Odd::new(true, 0), 2);
        assert_eq!(asked.visibility, Visibility::Filter);
        assert!(asked.searches[0].found.is_ok());
        let reason = asked.searches[1].found.clone().unwrap_err();
        assert!(reason.contains("after the cutoff 2025-01-15"), "{reason}");
    }
}
