//! Answers: each question is put to the reader with the evidence that the run retrieved for it.
//!
//! The evidence is what [`crate::evidence`] has of it. It is sent whole, however long, with the
//! output allowance apart (Raw-RAG, Appendix B.3). Where the search failed nothing is sent, and the
//! answer is failed with its reason.

use std::path::Path;
use std::time::Instant;

use rawrag_corpus::{Benchmark, Entry, Format, LoadError, Question, synthetic};
use rawrag_models::prices::Planned;
use rawrag_models::remote::{ChatModel, ChatOutcome, ChatReply, ChatRequest, RemoteError};
use rawrag_prompts::PromptSet;
use rawrag_records::{Answer, AnswerOutcome, Appender, Key, Record, Run};

use crate::evidence::Evidence;
use crate::experiment::{AnswerPart, Experiment, Reader};
use crate::judging::AT_ONCE;
use crate::pipeline::{PipelineError, key};
use crate::services::{
    Failures, PATTERN, Services, Stages, Step, drive, input_tokens, is_of_this_call, narrow,
    request, time,
};

/// What [`run`] and [`crate::judging::run`] work on.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// Its stages.
    pub stages: &'a Stages<'a>,
    /// The benchmark file or folder.
    pub data: &'a Path,
    /// The run, whose questions all have their retrieval on record.
    pub run: &'a Run,
    /// The share of a stage's calls that may fail and be put on record as failed.
    pub failures_allowed: f64,
}

/// Answers every question that has no answer on record.
///
/// # Errors
/// [`PipelineError`]. Every answer had before is on record, and the same call goes on there.
pub fn run(
    work: &Work<'_>,
    services: &Services,
    mut progress: impl FnMut(Step),
) -> Result<(), PipelineError> {
    let begun = Instant::now();
    let Some(reader) = work.stages.reader else {
        return Ok(());
    };
    let (mut answers, held) = work.run.appender::<Answer>()?;
    let on_record = held.len();
    let total = work.run.manifest().expected.questions * reader.repetitions as usize;
    progress(Step::Begun {
        stage: "answering".to_owned(),
        total,
        held: on_record,
    });
    if on_record == total {
        return Ok(());
    }
    let Some(client) = services.reader(work.stages)? else {
        let held: Vec<String> = held.iter().map(Record::identity).collect();
        let recorded = read_by_pattern(work, reader, &held, &mut answers, &mut progress)?;
        time(work.run, "answering", recorded, begun)?;
        work.run.require_complete(&work.run.read::<Answer>()?)?;
        return Ok(());
    };
    let attempts = reader.attempts;
    let ask = move |job: Job| {
        let client = client.clone();
        async move {
            let begun = Instant::now();
            let reply = match &job.request {
                Some(request) => Some(ask(&*client, request, attempts).await),
                None => None,
            };
            let milliseconds = begun.elapsed().as_secs_f64() * 1000.0;
            (job.answer, reply, milliseconds)
        }
    };
    let part = answer_part(reader, work.experiment.benchmark);
    let (mut failures, mut recorded) = (Failures::new(), 0);
    let held: Vec<String> = held.iter().map(Record::identity).collect();
    let stage = drive(
        reader.concurrency,
        services,
        |send| {
            due(work, reader, &held, &mut |due| {
                Ok(send(due.job(work.stages, reader)?))
            })
        },
        ask,
        |(mut answer, reply, milliseconds)| {
            answer.milliseconds = reply.is_some().then_some(milliseconds);
            let failed = match reply {
                None => {
                    answers.append(&answer)?;
                    recorded += 1;
                    true
                }
                Some(Ok(reply)) => {
                    fill(&mut answer, reply, part);
                    answers.append(&answer)?;
                    recorded += 1;
                    false
                }
                Some(Err(error)) if is_of_this_call(&error) => {
                    answer.error = Some(error.to_string());
                    failures.hold(answer, &error);
                    true
                }
                Some(Err(RemoteError::Stopped { .. })) => return Err(PipelineError::Stopped),
                Some(Err(error)) => return Err(error.into()),
            };
            progress(Step::One { failed });
            Ok(())
        },
    );
    let settled = stage.and_then(|()| failures.settle("answering", total, work.failures_allowed));
    if let Ok(failed) = &settled {
        answers.append_all(failed)?;
        recorded += failed.len();
    }
    time(work.run, "answering", recorded, begun)?;
    settled?;
    work.run.require_complete(&work.run.read::<Answer>()?)?;
    Ok(())
}

/// The calls that [`run`] would make, were none of their replies kept; `None` where no model
/// answers.
///
/// # Errors
/// As [`run`], without those of services.
pub fn plan(work: &Work<'_>) -> Result<Option<Planned>, PipelineError> {
    let Some((reader, called)) = work.stages.reader.and_then(|r| Some((r, r.called()?))) else {
        return Ok(None);
    };
    let held: Vec<String> = work
        .run
        .read::<Answer>()?
        .iter()
        .map(Record::identity)
        .collect();
    let (mut calls, mut input) = (0, 0);
    due(work, reader, &held, &mut |due| {
        if let Some(request) = &due.job(work.stages, reader)?.request {
            calls += 1;
            input += input_tokens(request);
        }
        Ok(true)
    })?;
    Ok(Some(Planned {
        model: called.model.to_owned(),
        calls,
        input,
        max_output: reader.max_output.into(),
        searches: 0,
    }))
}

/// Answers by the reader of synthetic histories; how many answers are new.
fn read_by_pattern(
    work: &Work<'_>,
    reader: &Reader,
    held: &[String],
    answers: &mut Appender<Answer>,
    progress: &mut dyn FnMut(Step),
) -> Result<usize, PipelineError> {
    let pattern = reader.pattern.unwrap_or_default();
    let Some(by) = synthetic::Reader::new(pattern.seed, pattern.error_rate) else {
        return Ok(0);
    };
    let (mut read, mut recorded) = (Vec::new(), 0);
    let mut keep = |read: &mut Vec<Answer>| {
        recorded += read.len();
        read.iter().for_each(|answer: &Answer| {
            progress(Step::One {
                failed: answer.error.is_some(),
            })
        });
        answers.append_all(&std::mem::take(read))
    };
    due(work, reader, held, &mut |due| {
        let mut answer = due.answer;
        match due.evidence {
            Ok(evidence) => {
                let text = by.answer(evidence, due.question).to_string();
                answer.outcome = AnswerOutcome::Answered;
                answer.words = Some(text.split_whitespace().count() as u32);
                answer.text = Some(text);
                answer.model = Some(PATTERN.to_owned());
            }
            Err(reason) => answer.error = Some(reason.to_owned()),
        }
        read.push(answer);
        if read.len() == AT_ONCE {
            keep(&mut read)?;
        }
        Ok(true)
    })?;
    keep(&mut read)?;
    Ok(recorded)
}

/// A question that is to be answered.
struct Due<'a> {
    question: &'a Question,
    /// What the reader sees, or why there is nothing to see.
    evidence: Result<&'a str, &'a str>,
    /// The answer without what the reader decides.
    answer: Answer,
}

impl Due<'_> {
    fn job(self, stages: &Stages<'_>, reader: &Reader) -> Result<Job, PipelineError> {
        match self.evidence {
            Ok(evidence) => job(stages, reader, self.question, evidence, self.answer),
            Err(reason) => {
                let mut answer = self.answer;
                answer.error = Some(reason.to_owned());
                let request = None;
                Ok(Job { answer, request })
            }
        }
    }
}

struct Job {
    /// The answer without what the reply decides.
    answer: Answer,
    /// `None` where there is no evidence to read.
    request: Option<ChatRequest>,
}

/// Why no more jobs are given out.
enum Ended {
    Failed(PipelineError),
    NobodyAsks,
}

impl From<LoadError> for Ended {
    fn from(error: LoadError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<PipelineError> for Ended {
    fn from(error: PipelineError) -> Self {
        Self::Failed(error)
    }
}

/// Reads the data and visits each conversation, until `visit` says that nobody asks.
pub(crate) fn conversations(
    data: &Path,
    mut visit: impl FnMut(&Entry) -> Result<bool, PipelineError>,
) -> Result<(), PipelineError> {
    let read = rawrag_corpus::read::<Ended>(data, None::<Format>, |entry| match visit(&entry)? {
        true => Ok(()),
        false => Err(Ended::NobodyAsks),
    });
    match read {
        Err(Ended::Failed(error)) => Err(error),
        Ok(_) | Err(Ended::NobodyAsks) => Ok(()),
    }
}

/// Visits what has no answer on record, until `visit` says that nobody asks.
fn due(
    work: &Work<'_>,
    reader: &Reader,
    held: &[String],
    visit: &mut dyn FnMut(Due<'_>) -> Result<bool, PipelineError>,
) -> Result<(), PipelineError> {
    let held: std::collections::HashSet<&str> = held.iter().map(String::as_str).collect();
    let mut evidence = Evidence::of(work.run)?;
    conversations(work.data, |entry| {
        for question in &entry.questions {
            let mut read = None;
            for repetition in 0..reader.repetitions {
                let answer = unanswered(question, repetition);
                if held.contains(answer.identity().as_str()) {
                    continue;
                }
                if read.is_none() {
                    read = evidence.text(work.experiment, entry, question)?;
                }
                let Some(text) = &read else { break };
                let due = Due {
                    question,
                    evidence: text.as_deref().map_err(String::as_str),
                    answer,
                };
                if !visit(due)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    })
}

fn job(
    stages: &Stages<'_>,
    reader: &Reader,
    question: &Question,
    evidence: &str,
    mut answer: Answer,
) -> Result<Job, PipelineError> {
    let template = stages
        .prompts
        .template(reader_template(reader, question.benchmark))?;
    let mut values = Vec::new();
    for placeholder in template.placeholders() {
        let value = value(&stages.prompts, reader, question, evidence, placeholder)?;
        values.extend(value.map(|value| (placeholder.as_str(), value)));
    }
    let values: Vec<(&str, &str)> = values.iter().map(|(name, v)| (*name, v.as_str())).collect();
    let mut request = request(
        template.render(&values)?,
        reader.temperature,
        reader.max_output,
    );
    request.repetition = answer.repetition;
    answer.prompt_sha256 = Some(template.fingerprint().to_string());
    let request = Some(request);
    Ok(Job { answer, request })
}

/// What stands for a placeholder of a reader's prompt; `None` for one that no reader has.
fn value(
    prompts: &PromptSet,
    reader: &Reader,
    question: &Question,
    evidence: &str,
    placeholder: &str,
) -> Result<Option<String>, PipelineError> {
    let date = question.cutoff.map(|date| date.to_string());
    Ok(match (placeholder, date) {
        ("context" | "history", _) => Some(evidence.to_owned()),
        ("raw_question", _) => Some(question.text.clone()),
        ("question", Some(date)) if states_date(reader, question) => {
            let values = [
                ("question_date", date.as_str()),
                ("raw_question", &question.text),
            ];
            Some(prompts.render(WITH_DATE, &values)?.user)
        }
        ("question", _) => Some(question.text.clone()),
        ("question_date" | "current_time", Some(date)) => Some(date),
        ("question_date" | "current_time", None) => Some("unknown".to_owned()),
        ("options_text", _) => Some(options(question)),
        ("task_query", _) => {
            let values = [("question", question.text.as_str())];
            Some(prompts.render(task(question)?, &values)?.user)
        }
        _ => None,
    })
}

/// `(a) first`, one a line, in the order of the file.
fn options(question: &Question) -> String {
    let lettered = ('a'..='z').zip(&question.options);
    let lines: Vec<String> = lettered
        .map(|(letter, text)| format!("({letter}) {text}"))
        .collect();
    lines.join("\n")
}

const WITH_DATE: &str = "question-with-date";

/// Whether the question is put together with the day it is asked (Raw-RAG, G.5). MEME's phases are
/// no dates to be read, and the prompt of Nano-Memory has a place of its own for the date.
fn states_date(reader: &Reader, question: &Question) -> bool {
    let dated = matches!(
        question.benchmark,
        Benchmark::Longmemeval | Benchmark::LongMtBenchPlus | Benchmark::Own
    );
    dated && question.cutoff.is_some() && reader.prompt.as_deref() != Some("reader-nano-memory")
}

/// The reader's prompt: the one set, else the benchmark's (Raw-RAG, Appendices G.4 to G.8).
fn reader_template(reader: &Reader, benchmark: Benchmark) -> &str {
    reader.prompt.as_deref().unwrap_or(match benchmark {
        Benchmark::Meme => "reader-meme",
        Benchmark::Memoryagentbench => "reader-memoryagentbench",
        Benchmark::Personamem => "reader-personamem",
        _ => "reader-seven-step",
    })
}

/// The task prompt of a MemoryAgentBench question, by its source.
fn task(question: &Question) -> Result<&'static str, PipelineError> {
    const TASKS: [(&str, &str); 8] = [
        ("detective", "task-detectiveqa"),
        ("eventqa", "task-eventqa"),
        ("factconsolidation", "task-factconsolidation"),
        ("icl", "task-icl"),
        ("infbench", "task-infbench"),
        ("longmemeval", "task-longmemeval"),
        ("recsys", "task-redial"),
        ("ruler", "task-ruler-qa"),
    ];
    let source = question.source.clone().unwrap_or_default();
    let named = TASKS.iter().find(|(prefix, _)| source.starts_with(prefix));
    named
        .map(|(_, task)| *task)
        .ok_or_else(|| PipelineError::NoTask {
            key: Box::new(key(question)),
            source_name: source,
        })
}

/// Every prompt that the reader's request for a question is made of.
pub(crate) fn templates(
    reader: &Reader,
    question: &Question,
) -> Result<Vec<String>, PipelineError> {
    if reader.pattern.is_some() {
        return Ok(Vec::new());
    }
    let template = reader_template(reader, question.benchmark);
    let mut templates = vec![template.to_owned()];
    if states_date(reader, question) {
        templates.push(WITH_DATE.to_owned());
    }
    if template == "reader-memoryagentbench" {
        templates.push(task(question)?.to_owned());
    }
    Ok(templates)
}

fn answer_part(reader: &Reader, benchmark: Benchmark) -> AnswerPart {
    let steps = reader_template(reader, benchmark).starts_with("reader-seven-step");
    reader.answer.unwrap_or(match steps {
        true => AnswerPart::Final,
        false => AnswerPart::Whole,
    })
}

/// Asks, and again while the reply is empty. Each of these requests is kept under a key of its own.
async fn ask(
    client: &dyn ChatModel,
    request: &ChatRequest,
    attempts: u32,
) -> Result<ChatReply, RemoteError> {
    let mut reply = client.chat(request).await?;
    for attempt in 1..attempts {
        if reply.outcome != ChatOutcome::Empty {
            break;
        }
        let again = ChatRequest {
            repetition: request.repetition | (attempt << 16),
            ..request.clone()
        };
        reply = client.chat(&again).await?;
    }
    Ok(reply)
}

fn fill(answer: &mut Answer, reply: ChatReply, part: AnswerPart) {
    let (outcome, text) = match reply.outcome {
        ChatOutcome::Answered(text) => (AnswerOutcome::Answered, Some(text)),
        ChatOutcome::Cut(text) => (AnswerOutcome::Cut, Some(text)),
        ChatOutcome::Refused(text) => (AnswerOutcome::Refused, Some(text)),
        ChatOutcome::Filtered(text) => (AnswerOutcome::Filtered, Some(text)),
        ChatOutcome::Empty => (AnswerOutcome::Empty, None),
    };
    let text = text.map(|text| part_of(&text, part).trim().to_owned());
    let text = text.filter(|text| !text.is_empty());
    answer.outcome = match (outcome, &text) {
        // Steps that lead to no answer are none.
        (AnswerOutcome::Answered, None) => AnswerOutcome::Empty,
        (outcome, _) => outcome,
    };
    answer.words = text
        .as_ref()
        .map(|text| text.split_whitespace().count() as u32);
    answer.text = text;
    if reply.model.is_some() {
        answer.model = reply.model;
    }
    let tokens = reply.served.tokens;
    answer.input_tokens = tokens.map(|tokens| narrow(tokens.input));
    answer.output_tokens = tokens.map(|tokens| narrow(tokens.output));
}

fn part_of(text: &str, part: AnswerPart) -> &str {
    match part {
        AnswerPart::Whole => text,
        AnswerPart::Final => text
            .rsplit_once("FINAL ANSWER:")
            .map_or(text, |(_, last)| last),
    }
}

fn unanswered(question: &Question, repetition: u32) -> Answer {
    let kind = question.kind.to_string();
    let Key {
        benchmark,
        source,
        conversation,
        question,
        phase,
    } = key(question);
    Answer {
        benchmark,
        source,
        conversation,
        question,
        phase,
        kind,
        repetition,
        outcome: AnswerOutcome::Failed,
        text: None,
        words: None,
        error: None,
        model: None,
        prompt_sha256: None,
        input_tokens: None,
        output_tokens: None,
        milliseconds: None,
    }
}
