//! Selection: a model tells of each item retrieved how likely it bears on the question, and that
//! orders what the reader sees (003, section 3: Turns + Jev, its wide variant, Turns + LLM).
//!
//! The whole order is on record, so that what a reader sees at another k follows without a call.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use rawrag_corpus::Question;
use rawrag_models::prices::{Planned, Stage};
use rawrag_models::remote::{
    ChatClient, ChatModel, ChatOutcome, ChatRequest, Decider, DecisionClient, DecisionSettings,
    InputLimits, Message, RemoteError, RemoteReranker, YesNoClient, YesNoQuestion, YesNoSettings,
};
use rawrag_prompts::PromptSet;
use rawrag_records::{Key, Record, Selection, SelectionOutcome};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::answering::{Work, conversations};
use crate::evidence::Evidence;
use crate::experiment::{SelectorKind, SelectorSettings};
use crate::pipeline::{PipelineError, key};
use crate::services::{Failures, O200k, Services, Step, drive, is_of_this_call, time};

const STAGE: &str = "selecting";
const LISTWISE: &str = "rerank-listwise";
const YES_NO: &str = "relevance-yes-no";
const DECISION: [&str; 3] = ["select-question", "select-true", "select-false"];

/// Orders the items of every question that has no selection on record.
///
/// # Errors
/// [`PipelineError`]. Every selection had before is on record, and the same call goes on there.
pub fn run(
    work: &Work<'_>,
    services: &Services,
    mut progress: impl FnMut(Step),
) -> Result<(), PipelineError> {
    let (Some(settings), Some(service)) = (work.stages.selector, services.selector(work.stages)?)
    else {
        return Ok(());
    };
    let begun = Instant::now();
    let (mut selections, held) = work.run.appender::<Selection>()?;
    let total = work.run.manifest().expected.questions;
    progress(Step::Begun {
        stage: STAGE.to_owned(),
        total,
        held: held.len(),
    });
    if held.len() == total {
        return Ok(());
    }
    let prompts = &work.stages.prompts;
    let selector = Arc::new(match settings.by {
        SelectorKind::Decision => Selector::Decision(
            DecisionClient::new(service, DecisionSettings::new(&settings.model), Stage::Read)
                .with_counter(Arc::new(O200k)),
            decision(prompts)?,
        ),
        SelectorKind::Listwise => Selector::Listwise(
            ChatClient::new(service, &settings.model, Stage::Read).with_counter(Arc::new(O200k)),
        ),
        SelectorKind::YesNo => Selector::YesNo(
            YesNoClient::new(service, yes_no(prompts, settings)?, Stage::Read)
                .with_counter(Arc::new(O200k)),
        ),
    });
    let ask = move |job: Job| {
        let selector = Arc::clone(&selector);
        async move {
            let begun = Instant::now();
            let found = selector.ask(&job).await;
            let milliseconds = begun.elapsed().as_secs_f64() * 1000.0;
            (job, found, milliseconds)
        }
    };
    let held: HashSet<String> = held.iter().map(Record::identity).collect();
    let choice = settings.selection();
    let (mut failures, mut recorded) = (Failures::new(), 0);
    let driven = drive(
        settings.concurrency,
        services,
        |send| due(work, settings, &held, send),
        ask,
        |(job, found, milliseconds): (Job, Result<Found, RemoteError>, f64)| {
            let mut selection = job.selection;
            selection.milliseconds = milliseconds;
            let failed = match found {
                Ok(found) => {
                    selection.requests = found.requests;
                    selection.reply = found.reply;
                    match found.probabilities {
                        Ok(probabilities) => {
                            let selected = choice.order(&probabilities)?;
                            selection.order = selected.order;
                            selection.kept = selected.kept as u32;
                            selection.probabilities =
                                probabilities.iter().map(|&p| p as f32).collect();
                        }
                        Err(reason) => {
                            selection.outcome = SelectionOutcome::Unparsed;
                            selection.error = Some(reason);
                        }
                    }
                    selections.append(&selection)?;
                    recorded += 1;
                    false
                }
                Err(error) if is_of_this_call(&error) => {
                    selection.outcome = SelectionOutcome::Failed;
                    selection.error = Some(error.to_string());
                    failures.hold(selection, &error);
                    true
                }
                Err(RemoteError::Stopped { .. }) => return Err(PipelineError::Stopped),
                Err(error) => return Err(error.into()),
            };
            progress(Step::One { failed });
            Ok(())
        },
    );
    let settled = driven.and_then(|()| failures.settle(STAGE, total, work.failures_allowed));
    if let Ok(failed) = &settled {
        selections.append_all(failed)?;
        recorded += failed.len();
    }
    time(work.run, STAGE, recorded, begun)?;
    settled?;
    Ok(work.run.require_complete(&work.run.read::<Selection>()?)?)
}

/// The calls that [`run`] would make, were none of their replies kept; a request that a decision
/// service finds too long takes more. `None` without a selector.
///
/// # Errors
/// As [`run`], without those of services.
pub fn plan(work: &Work<'_>) -> Result<Option<Planned>, PipelineError> {
    let Some(settings) = work.stages.selector else {
        return Ok(None);
    };
    let held: HashSet<String> = work
        .run
        .read::<Selection>()?
        .iter()
        .map(Record::identity)
        .collect();
    let per_item = match settings.by {
        SelectorKind::Decision => {
            let question = decision(&work.stages.prompts)?;
            count(&format!(
                "{} {} {}",
                question.instructions, question.yes, question.no
            ))
        }
        SelectorKind::Listwise => 0,
        SelectorKind::YesNo => count(&yes_no(&work.stages.prompts, settings)?.prompt("", "")),
    };
    let (mut calls, mut input) = (0, 0);
    due(work, settings, &held, &mut |job| {
        let items = job.items.len();
        let tokens: u64 = job.items.iter().map(|item| count(item)).sum();
        let (made, query) = match settings.by {
            SelectorKind::Decision => {
                let made = items.div_ceil(DecisionSettings::new("").items);
                (made as u64, made as u64 * count(&job.query))
            }
            SelectorKind::Listwise => (1, count(&job.query)),
            SelectorKind::YesNo => (items as u64, items as u64 * count(&job.query)),
        };
        let frame = job
            .request
            .as_ref()
            .map_or(items as u64 * per_item, |request| {
                let sent: u64 = request.messages.iter().map(|m| count(&m.content)).sum();
                sent.saturating_sub(tokens + query)
            });
        calls += made;
        input += tokens + query + frame;
        true
    })?;
    Ok(Some(Planned {
        model: settings.model.clone(),
        calls,
        input,
        max_output: match settings.by {
            SelectorKind::Listwise => settings.max_output.into(),
            // One token an item, at most thirty items a request.
            SelectorKind::Decision => 30,
            SelectorKind::YesNo => 1,
        },
        searches: 0,
    }))
}

/// The prompts that a selector is sent.
pub(crate) fn templates(settings: Option<&SelectorSettings>) -> Vec<String> {
    let names: &[&str] = match settings.map(|settings| settings.by) {
        None => &[],
        Some(SelectorKind::Decision) => &DECISION,
        Some(SelectorKind::Listwise) => &[LISTWISE],
        Some(SelectorKind::YesNo) => &[YES_NO],
    };
    names.iter().map(|&name| name.to_owned()).collect()
}

fn count(text: &str) -> u64 {
    rawrag_chunking::Encoding::O200kBase.count(text) as u64
}

enum Selector {
    Decision(DecisionClient, YesNoQuestion),
    Listwise(ChatClient),
    YesNo(YesNoClient),
}

struct Job {
    /// The selection without what the reply decides.
    selection: Selection,
    query: String,
    items: Vec<String>,
    /// What a chat model is sent; absent for the other kinds.
    request: Option<ChatRequest>,
}

/// What a selector said.
struct Found {
    /// One an item, in the shortlist's order; or why the reply holds none.
    probabilities: Result<Vec<f64>, String>,
    requests: u32,
    reply: Option<String>,
}

impl Selector {
    async fn ask(&self, job: &Job) -> Result<Found, RemoteError> {
        let items: Vec<&str> = job.items.iter().map(String::as_str).collect();
        if items.is_empty() {
            return Ok(Found {
                probabilities: Ok(Vec::new()),
                requests: 0,
                reply: None,
            });
        }
        Ok(match (self, &job.request) {
            (Self::Decision(client, question), _) => {
                let decisions = client.decide(&job.query, &items, question).await?;
                Found {
                    probabilities: Ok(decisions.probabilities),
                    requests: decisions.requests,
                    reply: None,
                }
            }
            (Self::YesNo(client), _) => {
                let scores = client.score(&job.query, &items).await?.scores;
                Found {
                    probabilities: Ok(scores.into_iter().map(f64::from).collect()),
                    requests: items.len() as u32,
                    reply: None,
                }
            }
            (Self::Listwise(client), Some(request)) => match client.chat(request).await?.outcome {
                ChatOutcome::Answered(reply) => Found {
                    probabilities: scores(&reply, items.len()),
                    requests: 1,
                    reply: Some(reply),
                },
                ChatOutcome::Cut(reply) => Found {
                    probabilities: Err("the reply was cut at its maximum length".to_owned()),
                    requests: 1,
                    reply: Some(reply),
                },
                ChatOutcome::Refused(reply) | ChatOutcome::Filtered(reply) => Found {
                    probabilities: Err("the model declined, or a filter held it back".to_owned()),
                    requests: 1,
                    reply: Some(reply),
                },
                ChatOutcome::Empty => Found {
                    probabilities: Err("the reply is empty".to_owned()),
                    requests: 1,
                    reply: None,
                },
            },
            (Self::Listwise(_), None) => Found {
                probabilities: Err("nothing was asked".to_owned()),
                requests: 0,
                reply: None,
            },
        })
    }
}

/// Gives out what has no selection on record.
fn due(
    work: &Work<'_>,
    settings: &SelectorSettings,
    held: &HashSet<String>,
    send: &mut dyn FnMut(Job) -> bool,
) -> Result<(), PipelineError> {
    let mut evidence = Evidence::unpruned(work.run)?;
    conversations(work.data, |entry| {
        for question in &entry.questions {
            let key = key(question);
            if held.contains(&key.to_string()) {
                continue;
            }
            let Some(items) = evidence.shortlist(work.experiment, entry, question)? else {
                continue;
            };
            if !send(job(&work.stages.prompts, settings, question, key, items)?) {
                return Ok(false);
            }
        }
        Ok(true)
    })
}

fn job(
    prompts: &PromptSet,
    settings: &SelectorSettings,
    question: &Question,
    key: Key,
    items: Vec<String>,
) -> Result<Job, PipelineError> {
    let mut request = None;
    if settings.by == SelectorKind::Listwise {
        let candidates: Vec<String> = (1..)
            .zip(&items)
            .map(|(number, item)| format!("[{number}] {item}"))
            .collect();
        let candidates = candidates.join("\n");
        let values = [
            ("query", question.text.as_str()),
            ("candidates", candidates.as_str()),
        ];
        let prompt = prompts.render(LISTWISE, &values)?;
        let mut messages: Vec<Message> = prompt.system.into_iter().map(Message::system).collect();
        messages.push(Message::user(prompt.user));
        let mut chat = ChatRequest::new(messages, settings.max_output);
        chat.temperature = Some(0.0);
        request = Some(chat);
    }
    Ok(Job {
        selection: Selection {
            benchmark: key.benchmark,
            source: key.source,
            conversation: key.conversation,
            question: key.question,
            phase: key.phase,
            outcome: SelectionOutcome::Selected,
            order: Vec::new(),
            kept: 0,
            probabilities: Vec::new(),
            reply: None,
            error: None,
            requests: 0,
            prompt_sha256: Some(fingerprint(prompts, settings)?),
            milliseconds: 0.0,
        },
        query: question.text.clone(),
        items,
        request,
    })
}

/// That of the prompt file; of several, sha256 over their fingerprints in order, one a line.
fn fingerprint(prompts: &PromptSet, settings: &SelectorSettings) -> Result<String, PipelineError> {
    let names = templates(Some(settings));
    let mut fingerprints = Vec::new();
    for name in &names {
        fingerprints.push(prompts.template(name)?.fingerprint().to_string());
    }
    if let [only] = fingerprints.as_slice() {
        return Ok(only.clone());
    }
    let mut hash = Sha256::new();
    for fingerprint in &fingerprints {
        hash.update(fingerprint);
        hash.update(b"\n");
    }
    Ok(hash.finalize().iter().map(|b| format!("{b:02x}")).collect())
}

fn decision(prompts: &PromptSet) -> Result<YesNoQuestion, PipelineError> {
    let text = |name| Ok::<_, PipelineError>(prompts.render(name, &[])?.user);
    let [instructions, yes, no] = DECISION;
    Ok(YesNoQuestion {
        instructions: text(instructions)?,
        yes: text(yes)?,
        no: text(no)?,
    })
}

/// The yes/no reranker takes the system message and the instruction of the prompt; query and
/// document have their places in the reranker's own frame.
fn yes_no(
    prompts: &PromptSet,
    settings: &SelectorSettings,
) -> Result<YesNoSettings, PipelineError> {
    let values = [("retrieval_query", ""), ("passage", "")];
    let prompt = prompts.render(YES_NO, &values)?;
    let instruction = prompt
        .user
        .lines()
        .find_map(|line| line.strip_prefix("Instruction:"));
    Ok(YesNoSettings {
        model: settings.model.clone(),
        system: prompt.system.unwrap_or_default(),
        instruction: instruction.unwrap_or(&prompt.user).trim().to_owned(),
        inputs: InputLimits::default(),
    })
}

/// The scores of a listwise reply, one an item: a JSON object, in a code fence or not, whose `scores`
/// hold every `index` from 1 to `count` once with a `score` from 0 to 1.
fn scores(reply: &str, count: usize) -> Result<Vec<f64>, String> {
    #[derive(Deserialize)]
    struct Scores {
        scores: Vec<Scored>,
    }
    #[derive(Deserialize)]
    struct Scored {
        index: usize,
        score: f64,
    }
    let text = reply.trim();
    let fenced = text
        .strip_prefix("```")
        .and_then(|rest| rest.strip_suffix("```"));
    let text = fenced.map_or(text, |inner| inner.strip_prefix("json").unwrap_or(inner));
    let found: Scores = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut scores = vec![None; count];
    for Scored { index, score } in found.scores {
        if !(0.0..=1.0).contains(&score) {
            return Err(format!(
                "passage {index} has the score {score}, which is not from 0 to 1"
            ));
        }
        let place = index.checked_sub(1).and_then(|at| scores.get_mut(at));
        let place = place.ok_or_else(|| format!("{index} is no passage from 1 to {count}"))?;
        if place.replace(score).is_some() {
            return Err(format!("passage {index} has two scores"));
        }
    }
    let numbered = (1..).zip(scores);
    numbered
        .map(|(number, score)| score.ok_or_else(|| format!("passage {number} has no score")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listwise_reply_scores_every_passage_once_or_is_none() {
        let reply = "```json\n{\"scores\": [{\"index\": 2, \"score\": 1}, {\"index\": 1, \"score\": 0.25}]}\n```";
        assert_eq!(scores(reply, 2).unwrap(), [0.25, 1.0]);
        for (reply, count) in [
            ("", 1),
            ("[0.5]", 1),
            (r#"{"scores": [{"index": 1, "score": 0.5}]}"#, 2),
            (r#"{"scores": [{"index": 0, "score": 0.5}]}"#, 1),
            (r#"{"scores": [{"index": 1, "score": 1.5}]}"#, 1),
            (
                r#"{"scores": [{"index": 1, "score": 0.5}, {"index": 1, "score": 0.5}]}"#,
                2,
            ),
        ] {
            scores(reply, count).unwrap_err();
        }
    }
}
