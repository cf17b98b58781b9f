//! Query-driven pruning (Nano-Memory, 3.2 and Appendix C): a model copies out of the evidence what
//! bears on the question, and the reader sees that alone.

use std::collections::HashSet;
use std::time::Instant;

use rawrag_chunking::Encoding;
use rawrag_corpus::Question;
use rawrag_models::prices::Planned;
use rawrag_models::remote::{ChatModel, ChatOutcome, ChatReply, ChatRequest, RemoteError};
use rawrag_records::{AnswerOutcome, Pruning, Record};

use crate::answering::{Work, conversations};
use crate::evidence::Evidence;
use crate::experiment::PrunerSettings;
use crate::pipeline::{PipelineError, key};
use crate::services::{
    Failures, Services, Step, drive, input_tokens, is_of_this_call, narrow, request, time,
};

const STAGE: &str = "pruning";
const TEMPLATE: &str = "prune-query-driven";

/// Prunes the evidence of every question that has no pruning on record. A question whose search
/// failed, or found nothing, leaves nothing to prune and is put on record without a call.
///
/// # Errors
/// [`PipelineError`]. Every pruning had before is on record, and the same call goes on there.
pub fn run(
    work: &Work<'_>,
    services: &Services,
    mut progress: impl FnMut(Step),
) -> Result<(), PipelineError> {
    let (Some(settings), Some(client)) = (work.stages.pruner, services.pruner(work.stages)?) else {
        return Ok(());
    };
    let begun = Instant::now();
    let (mut prunings, held) = work.run.appender::<Pruning>()?;
    let total = work.run.manifest().expected.questions;
    progress(Step::Begun {
        stage: STAGE.to_owned(),
        total,
        held: held.len(),
    });
    if held.len() == total {
        return Ok(());
    }
    let ask = move |job: Job| {
        let client = client.clone();
        async move {
            let begun = Instant::now();
            let reply = match &job.request {
                Some(request) => Some(client.chat(request).await),
                None => None,
            };
            (job, reply, begun.elapsed().as_secs_f64() * 1000.0)
        }
    };
    let held: HashSet<String> = held.iter().map(Record::identity).collect();
    let (mut failures, mut recorded) = (Failures::new(), 0);
    let driven = drive(
        settings.concurrency,
        services,
        |send| due(work, settings, &held, send),
        ask,
        |(job, reply, milliseconds): (Job, Option<Result<ChatReply, RemoteError>>, f64)| {
            let mut pruning = job.pruning;
            pruning.milliseconds = milliseconds;
            let failed = match reply {
                Some(Err(error)) if is_of_this_call(&error) => {
                    pruning.error = Some(error.to_string());
                    failures.hold(pruning, &error);
                    true
                }
                Some(Err(RemoteError::Stopped { .. })) => return Err(PipelineError::Stopped),
                Some(Err(error)) => return Err(error.into()),
                reply => {
                    if let Some(Ok(reply)) = reply {
                        fill(&mut pruning, reply);
                    }
                    prunings.append(&pruning)?;
                    recorded += 1;
                    false
                }
            };
            progress(Step::One { failed });
            Ok(())
        },
    );
    let settled = driven.and_then(|()| failures.settle(STAGE, total, work.failures_allowed));
    if let Ok(failed) = &settled {
        prunings.append_all(failed)?;
        recorded += failed.len();
    }
    time(work.run, STAGE, recorded, begun)?;
    settled?;
    Ok(work.run.require_complete(&work.run.read::<Pruning>()?)?)
}

/// The calls that [`run`] would make, were none of their replies kept. Where a selector has not
/// chosen yet, the evidence is taken to be the first of the shortlist. `None` without a pruner.
///
/// # Errors
/// As [`run`], without those of services.
pub fn plan(work: &Work<'_>) -> Result<Option<Planned>, PipelineError> {
    let Some(settings) = work.stages.pruner else {
        return Ok(None);
    };
    let held: HashSet<String> = work
        .run
        .read::<Pruning>()?
        .iter()
        .map(Record::identity)
        .collect();
    let (mut calls, mut input) = (0, 0);
    due(work, settings, &held, &mut |job| {
        if let Some(request) = &job.request {
            calls += 1;
            input += input_tokens(request);
        }
        true
    })?;
    Ok(Some(Planned {
        model: settings.model.clone(),
        calls,
        input,
        max_output: settings.max_output.into(),
        searches: 0,
    }))
}

/// The prompts that a pruner is sent.
pub(crate) fn templates(settings: Option<&PrunerSettings>) -> Vec<String> {
    settings.map(|_| TEMPLATE.to_owned()).into_iter().collect()
}

struct Job {
    /// The pruning without what the reply decides.
    pruning: Pruning,
    /// What is sent; absent where there is nothing to prune.
    request: Option<ChatRequest>,
}

/// Gives out what has no pruning on record.
fn due(
    work: &Work<'_>,
    settings: &PrunerSettings,
    held: &HashSet<String>,
    send: &mut dyn FnMut(Job) -> bool,
) -> Result<(), PipelineError> {
    let mut evidence = Evidence::unpruned(work.run)?;
    conversations(work.data, |entry| {
        for question in &entry.questions {
            if held.contains(&key(question).to_string()) {
                continue;
            }
            let Some(text) = evidence.text(work.experiment, entry, question)? else {
                continue;
            };
            if !send(job(work, settings, question, text)?) {
                return Ok(false);
            }
        }
        Ok(true)
    })
}

fn job(
    work: &Work<'_>,
    settings: &PrunerSettings,
    question: &Question,
    evidence: Result<String, String>,
) -> Result<Job, PipelineError> {
    let key = key(question);
    let template = work.stages.prompts.template(TEMPLATE)?;
    let mut pruning = Pruning {
        benchmark: key.benchmark,
        source: key.source,
        conversation: key.conversation,
        question: key.question,
        phase: key.phase,
        outcome: AnswerOutcome::Failed,
        text: None,
        tokens_before: 0,
        tokens: None,
        error: None,
        model: Some(settings.model.clone()),
        prompt_sha256: Some(template.fingerprint().to_string()),
        input_tokens: None,
        output_tokens: None,
        milliseconds: 0.0,
    };
    let text = match evidence {
        Ok(text) => text,
        Err(reason) => {
            pruning.error = Some(reason);
            return Ok(Job {
                pruning,
                request: None,
            });
        }
    };
    pruning.tokens_before = Encoding::O200kBase.count(&text) as u32;
    if text.is_empty() {
        pruning.outcome = AnswerOutcome::Empty;
        return Ok(Job {
            pruning,
            request: None,
        });
    }
    let date = question.cutoff.map(|date| date.to_string());
    let values = [
        ("fused_event", text.as_str()),
        ("question_date", date.as_deref().unwrap_or("unknown")),
        ("question", question.text.as_str()),
    ];
    let prompt = template.render(&values)?;
    Ok(Job {
        pruning,
        request: Some(request(prompt, settings.temperature, settings.max_output)),
    })
}

/// What is left. An empty reply is one: nothing bears on the question. What a model says instead of
/// pruning is no evidence.
fn fill(pruning: &mut Pruning, reply: ChatReply) {
    let (outcome, text, said) = match reply.outcome {
        ChatOutcome::Answered(text) => (AnswerOutcome::Answered, Some(text), None),
        ChatOutcome::Cut(text) => (AnswerOutcome::Cut, Some(text), None),
        ChatOutcome::Empty => (AnswerOutcome::Empty, Some(String::new()), None),
        ChatOutcome::Refused(said) => (AnswerOutcome::Refused, None, Some(said)),
        ChatOutcome::Filtered(said) => (AnswerOutcome::Filtered, None, Some(said)),
    };
    pruning.outcome = outcome;
    pruning.error = said;
    pruning.tokens = text
        .as_deref()
        .map(|text| Encoding::O200kBase.count(text) as u32);
    pruning.text = text;
    if reply.model.is_some() {
        pruning.model = reply.model;
    }
    let tokens = reply.served.tokens;
    pruning.input_tokens = tokens.map(|tokens| narrow(tokens.input));
    pruning.output_tokens = tokens.map(|tokens| narrow(tokens.output));
}
