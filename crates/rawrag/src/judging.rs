//! Judgments: each answer is graded against the gold answer by each judge, as often as it is asked.
//!
//! A reply without a grade is unparsed, no reply is failed, and neither is ever a wrong answer. The
//! whole reply stays on record.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::time::Instant;

use rawrag_corpus::{Benchmark, Format, Gold, Question};
use rawrag_models::prices::Planned;
use rawrag_models::remote::{ChatModel, ChatOutcome, ChatReply, ChatRequest, RemoteError};
use rawrag_records::{Answer, Judgment, JudgmentOutcome, Key, Record, Run};
use rawrag_scoring::judge::{Failure, Judge, LOCOMO, NANO_MEMORY, Outcome, Reply};

use crate::answering::{Work, conversations};
use crate::experiment::JudgeSettings;
use crate::pipeline::{PipelineError, key};
use crate::services::{
    ADDED, Failures, Services, Stages, Step, drive, input_tokens, is_of_this_call, request, time,
};

/// How often a judge grades an answer: as set, else as often as the papers ask it.
pub fn repetitions(judge: &JudgeSettings) -> u32 {
    let nano_memory = judge.prompt.as_deref() == Some(NANO_MEMORY.template);
    let usual = if nano_memory { NANO_MEMORY } else { LOCOMO };
    judge.repetitions.unwrap_or(usual.repetitions)
}

/// Grades with each judge what it has not graded yet.
///
/// # Errors
/// [`PipelineError`]. Every grade had before is on record, and the same call goes on there.
pub fn run(
    work: &Work<'_>,
    services: &Services,
    mut progress: impl FnMut(Step),
) -> Result<(), PipelineError> {
    for judge in 0..work.stages.judges.len() {
        grade_all(work, services, judge, &mut progress)?;
    }
    Ok(())
}

/// Opens a run to have its answers graded by the judges of `stages` too, and enters them in its
/// manifest. A judge that is there already stays as it is.
///
/// # Errors
/// [`PipelineError::OtherJudge`] where the run has a judge of this name with other settings, and
/// when data or run cannot be used.
pub fn add(folder: &Path, data: &Path, stages: &Stages<'_>) -> Result<Run, PipelineError> {
    let mut templates = BTreeSet::new();
    let report = rawrag_corpus::read::<PipelineError>(data, None::<Format>, |entry| {
        for question in &entry.questions {
            for judge in stages.judges {
                templates.insert(template(judge, question)?);
            }
        }
        Ok(())
    })?;
    let begun = Run::open(folder)?;
    if report.hash.to_string() != begun.manifest().data.sha256 {
        return Err(PipelineError::OtherData(data.to_owned()));
    }
    let mut amended = begun.manifest().clone();
    stages.describe_prompts(&mut amended, templates);
    for (at, judge) in stages.judges.iter().enumerate() {
        let held = &begun.manifest().settings["judges"][&judge.name];
        stages.describe_judge(&mut amended, at, true);
        if held.is_null() {
            continue;
        }
        if held[ADDED].is_null() {
            stages.describe_judge(&mut amended, at, false);
        }
        let differences = begun.manifest().differences(&amended);
        if !differences.is_empty() {
            return Err(PipelineError::OtherJudge {
                name: judge.name.clone(),
                differences,
            });
        }
    }
    Ok(Run::amend(folder, |manifest| *manifest = amended)?)
}

fn grade_all(
    work: &Work<'_>,
    services: &Services,
    at: usize,
    progress: &mut dyn FnMut(Step),
) -> Result<(), PipelineError> {
    let begun = Instant::now();
    let settings = &work.stages.judges[at];
    let stage = format!("judging by {}", settings.name);
    let (mut judgments, mut held) = work.run.appender::<Judgment>()?;
    held.retain(|judgment| judgment.judge == settings.name);
    let answers = work.run.read::<Answer>()?;
    let total = answers.len() * repetitions(settings) as usize;
    progress(Step::Begun {
        stage: stage.clone(),
        total,
        held: held.len(),
    });
    if held.len() == total {
        return Ok(());
    }
    let client = services.judge(work.stages, at)?;
    let ask = move |job: Job| {
        let client = client.clone();
        async move {
            let reply = match &job.request {
                Some(request) => Some(client.chat(request).await),
                None => None,
            };
            (job, reply)
        }
    };
    let (mut failures, mut recorded) = (Failures::new(), 0);
    let held: HashSet<String> = held.iter().map(Record::identity).collect();
    let driven = drive(
        settings.concurrency,
        services,
        |send| due(work, settings, &answers, &held, send),
        ask,
        |(job, reply): (Job, Option<Result<ChatReply, RemoteError>>)| {
            let mut judgment = job.judgment;
            let failed = match reply {
                Some(Err(error)) if is_of_this_call(&error) => {
                    judgment.error = Some(error.to_string());
                    failures.hold(judgment, &error);
                    true
                }
                Some(Err(RemoteError::Stopped { .. })) => return Err(PipelineError::Stopped),
                Some(Err(error)) => return Err(error.into()),
                reply => {
                    let reply = reply.and_then(Result::ok);
                    fill(&mut judgment, &job.judge, reply.as_ref());
                    judgments.append(&judgment)?;
                    recorded += 1;
                    false
                }
            };
            progress(Step::One { failed });
            Ok(())
        },
    );
    let settled = driven.and_then(|()| failures.settle(&stage, total, work.failures_allowed));
    if let Ok(failed) = &settled {
        judgments.append_all(failed)?;
        recorded += failed.len();
    }
    time(work.run, &stage, recorded, begun)?;
    settled.map(drop)
}

/// The calls that [`run`] would make, were none of their replies kept: with answers that are not
/// yet there empty, and with these as long as the reader may write.
///
/// # Errors
/// As [`run`], without those of services.
pub fn plan(work: &Work<'_>) -> Result<Vec<(Planned, Planned)>, PipelineError> {
    let answers = work.run.read::<Answer>()?;
    let judgments = work.run.read::<Judgment>()?;
    let held: HashSet<String> = judgments.iter().map(Record::identity).collect();
    let answers: HashMap<(Key, u32), Answer> = answers
        .into_iter()
        .map(|answer| ((answer.question_key(), answer.repetition), answer))
        .collect();
    let reader = work.stages.reader;
    let mut plan = Vec::new();
    for settings in work.stages.judges {
        let (mut calls, mut input, mut unknown) = (0, 0, 0);
        conversations(work.data, |entry| {
            for question in &entry.questions {
                for repetition in 0..reader.repetitions {
                    let answer = answers.get(&(key(question), repetition));
                    let text = answer.map(|answer| answer.text.as_deref());
                    let graded = (0..repetitions(settings))
                        .filter(|&again| {
                            let graded = ungraded(question, repetition, settings, again);
                            held.contains(&graded.identity())
                        })
                        .count() as u64;
                    let due = u64::from(repetitions(settings)) - graded;
                    if due == 0 || text == Some(None) {
                        continue;
                    }
                    let request = ask_about(
                        work.stages,
                        settings,
                        question,
                        text.flatten().unwrap_or_default(),
                    )?;
                    calls += due;
                    input += due * input_tokens(&request);
                    if text.is_none() {
                        unknown += due * u64::from(reader.max_output);
                    }
                }
            }
            Ok(true)
        })?;
        let low = Planned {
            model: settings.model.clone(),
            calls,
            input,
            max_output: settings.max_output.into(),
            searches: 0,
        };
        let mut high = low.clone();
        high.input += unknown;
        plan.push((low, high));
    }
    Ok(plan)
}

struct Job {
    /// The judgment without what the reply decides.
    judgment: Judgment,
    judge: Judge,
    /// `None` where there is nothing to grade.
    request: Option<ChatRequest>,
}

fn due(
    work: &Work<'_>,
    settings: &JudgeSettings,
    answers: &[Answer],
    held: &HashSet<String>,
    send: &mut dyn FnMut(Job) -> bool,
) -> Result<(), PipelineError> {
    let mut by_question: HashMap<Key, Vec<&Answer>> = HashMap::new();
    for answer in answers {
        by_question
            .entry(answer.question_key())
            .or_default()
            .push(answer);
    }
    conversations(work.data, |entry| {
        for question in &entry.questions {
            for answer in by_question.get(&key(question)).into_iter().flatten() {
                for again in 0..repetitions(settings) {
                    let mut judgment = ungraded(question, answer.repetition, settings, again);
                    if held.contains(&judgment.identity()) {
                        continue;
                    }
                    let judge = judge_of(settings, question)?;
                    let request = match answer.text.as_deref() {
                        Some(text) => {
                            let mut request = ask_about(work.stages, settings, question, text)?;
                            request.repetition = again;
                            let template = work.stages.prompts.template(judge.template)?;
                            judgment.prompt_sha256 = Some(template.fingerprint().to_string());
                            Some(request)
                        }
                        None => None,
                    };
                    let job = Job {
                        judgment,
                        judge,
                        request,
                    };
                    if !send(job) {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    })
}

fn ask_about(
    stages: &Stages<'_>,
    settings: &JudgeSettings,
    question: &Question,
    answer: &str,
) -> Result<ChatRequest, PipelineError> {
    let judge = judge_of(settings, question)?;
    let gold = gold(question)?;
    let values = [
        ("question", question.text.as_str()),
        ("golden_answer", gold.as_str()),
        ("generated_answer", answer),
    ];
    let prompt = stages.prompts.render(judge.template, &values)?;
    Ok(request(prompt, settings.temperature, settings.max_output))
}

/// The prompt that a judge is sent about a question.
pub(crate) fn template(
    settings: &JudgeSettings,
    question: &Question,
) -> Result<&'static str, PipelineError> {
    gold(question)?;
    judge_of(settings, question).map(|judge| judge.template)
}

/// The judge of a question: the one set, else the benchmark's. Whether it was right to say that the
/// history does not tell is always asked in words of its own.
fn judge_of(settings: &JudgeSettings, question: &Question) -> Result<Judge, PipelineError> {
    let no_judge = |problem| {
        Err(PipelineError::NoJudge {
            key: Box::new(key(question)),
            problem,
        })
    };
    if is_unanswerable(question) {
        const ABSTENTION: &str = "multi-session";
        return Judge::longmemeval(ABSTENTION, true).map_or_else(|| no_judge(UNGRADED), Ok);
    }
    match (settings.prompt.as_deref(), question.benchmark) {
        (Some(prompt), _) if prompt == LOCOMO.template => Ok(LOCOMO),
        (Some(prompt), _) if prompt == NANO_MEMORY.template => Ok(NANO_MEMORY),
        (Some(_), _) => no_judge("a judge's prompt is judge-locomo, judge-nano-memory or not set"),
        (None, Benchmark::Locomo | Benchmark::Own | Benchmark::LongMtBenchPlus) => Ok(LOCOMO),
        (None, Benchmark::Longmemeval) => Judge::longmemeval(question.kind.as_str(), false)
            .map_or_else(
                || no_judge("no judge of LongMemEval knows questions of this type"),
                Ok,
            ),
        (None, _) => no_judge(UNGRADED),
    }
}

const UNGRADED: &str =
    "the benchmark has no judge that grades free text here; take [[judges]] out of the experiment";

fn is_unanswerable(question: &Question) -> bool {
    matches!(
        question.gold,
        Some(Gold::Abstention { .. } | Gold::Adversarial { answer: None, .. })
    )
}

/// What the answer is compared with. A lure is never shown to a judge.
fn gold(question: &Question) -> Result<String, PipelineError> {
    match &question.gold {
        Some(
            Gold::Answer(answer)
            | Gold::Adversarial {
                answer: Some(answer),
                ..
            },
        ) => Ok(answer.to_string()),
        Some(Gold::Abstention { explanation }) => Ok(explanation.clone()),
        Some(Gold::Adversarial { answer: None, .. }) => {
            Ok("The question presumes something that the history does not say.".to_owned())
        }
        Some(Gold::Choice { .. } | Gold::Rubric { .. }) => Err(PipelineError::NoJudge {
            key: Box::new(key(question)),
            problem: UNGRADED,
        }),
        None => Err(PipelineError::NoJudge {
            key: Box::new(key(question)),
            problem: "the question has no gold answer to grade by; give it one, or take [[judges]] \
                      out of the experiment",
        }),
    }
}

fn ungraded(question: &Question, repetition: u32, judge: &JudgeSettings, again: u32) -> Judgment {
    let kind = question.kind.to_string();
    let Key {
        benchmark,
        source,
        conversation,
        question,
        phase,
    } = key(question);
    Judgment {
        benchmark,
        source,
        conversation,
        question,
        phase,
        kind,
        repetition,
        judge: judge.name.clone(),
        judge_repetition: again,
        outcome: JudgmentOutcome::Failed,
        score: None,
        reply: None,
        error: None,
        prompt_sha256: None,
    }
}

fn fill(judgment: &mut Judgment, judge: &Judge, reply: Option<&ChatReply>) {
    let read = match reply.map(|reply| &reply.outcome) {
        Some(ChatOutcome::Answered(text) | ChatOutcome::Refused(text)) => Reply::Whole(text),
        Some(ChatOutcome::Cut(text)) => Reply::Cut(text),
        Some(ChatOutcome::Empty) => Reply::Whole(""),
        Some(ChatOutcome::Filtered(_)) => Reply::Failed(Failure::Filtered),
        None => Reply::Failed(Failure::NoAnswer),
    };
    judgment.reply = match read {
        Reply::Whole(text) | Reply::Cut(text) => Some(text.to_owned()),
        Reply::Failed(_) => None,
    };
    (judgment.outcome, judgment.error) = match judge.grade(read) {
        Outcome::Correct => (JudgmentOutcome::Correct, None),
        Outcome::Wrong => (JudgmentOutcome::Wrong, None),
        Outcome::Unparsed(reason) => (JudgmentOutcome::Unparsed, Some(reason.to_string())),
        Outcome::Failed(reason) => (JudgmentOutcome::Failed, Some(reason.to_string())),
    };
}
