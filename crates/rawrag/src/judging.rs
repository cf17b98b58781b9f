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
use rawrag_records::{Answer, Judgment, JudgmentOutcome, Key, Record, RecordError, Run};
use rawrag_scoring::judge::{
    Failure, LOCOMO, NANO_MEMORY, Outcome, Reply, Summary, Ungraded, nugget,
};

use crate::answering::{Work, conversations};
use crate::episodes::Episodes;
use crate::experiment::JudgeSettings;
use crate::grading::{self, Material, Way};
use crate::pipeline::{PipelineError, is_wanted, key};
use crate::services::{
    ADDED, Failures, Services, Stages, Step, drive, input_tokens, is_of_this_call, time,
};

/// How often a judge grades an answer: as set, else as often as the papers ask it. A metric says the
/// same each time, and a summary or a rubric is counted once.
pub fn repetitions(judge: &JudgeSettings, benchmark: Benchmark) -> u32 {
    let nano_memory = judge.prompt.as_deref() == Some(NANO_MEMORY.template);
    let once = judge.rule.is_some()
        || nano_memory
        || matches!(
            benchmark,
            Benchmark::Memoryagentbench | Benchmark::Personamem | Benchmark::Beam
        );
    let usual = if once { 1 } else { LOCOMO.repetitions };
    judge.repetitions.unwrap_or(usual)
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
                templates.extend(templates_of(judge, question)?);
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
    let repetitions = repetitions(settings, work.stages.benchmark);
    let total = answers.len() * repetitions as usize;
    progress(Step::Begun {
        stage: stage.clone(),
        total,
        held: held.len(),
    });
    if held.len() == total {
        return Ok(());
    }
    let held: HashSet<String> = held.iter().map(Record::identity).collect();
    let Some(client) = services.judge(work.stages, at)? else {
        let mut recorded = 0;
        let mut graded = Vec::new();
        let mut keep = |graded: &mut Vec<Judgment>| {
            recorded += graded.len();
            graded
                .iter()
                .for_each(|_| progress(Step::One { failed: false }));
            judgments.append_all(&std::mem::take(graded))
        };
        due(work, settings, &answers, &held, &mut |mut job| {
            fill(&mut job.judgment, &job.read, &[]);
            graded.push(job.judgment);
            match graded.len() {
                AT_ONCE => keep(&mut graded).map(|()| true),
                _ => Ok(true),
            }
        })?;
        keep(&mut graded)?;
        return Ok(time(work.run, &stage, recorded, begun)?);
    };
    let ask = move |job: Job| {
        let client = client.clone();
        async move {
            let mut replies = Vec::with_capacity(job.requests.len());
            for request in &job.requests {
                match client.chat(request).await {
                    Ok(reply) => replies.push(reply),
                    Err(error) => return (job, Err(error)),
                }
            }
            (job, Ok(replies))
        }
    };
    let (mut failures, mut recorded) = (Failures::new(), 0);
    let driven = drive(
        settings.concurrency,
        services,
        |send| due(work, settings, &answers, &held, &mut |job| Ok(send(job))),
        ask,
        |(job, replies): (Job, Result<Vec<ChatReply>, RemoteError>)| {
            let mut judgment = job.judgment;
            let failed = match replies {
                Err(error) if is_of_this_call(&error) => {
                    judgment.error = Some(error.to_string());
                    failures.hold(judgment, &error);
                    true
                }
                Err(RemoteError::Stopped { .. }) => return Err(PipelineError::Stopped),
                Err(error) => return Err(error.into()),
                Ok(replies) => {
                    fill(&mut judgment, &job.read, &replies);
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

/// Records that rules make together before they are put on disk.
pub(crate) const AT_ONCE: usize = 256;

/// The calls that [`run`] would make, were none of their replies kept: with answers that are not
/// yet there empty, and with these as long as the reader may write. `None` for a judge by rule.
///
/// # Errors
/// As [`run`], without those of services.
pub fn plan(work: &Work<'_>) -> Result<Vec<Option<(Planned, Planned)>>, PipelineError> {
    let answers = work.run.read::<Answer>()?;
    let judgments = work.run.read::<Judgment>()?;
    let held: HashSet<String> = judgments.iter().map(Record::identity).collect();
    let answers: HashMap<(Key, u32), Answer> = answers
        .into_iter()
        .map(|answer| ((answer.question_key(), answer.repetition), answer))
        .collect();
    let Some(reader) = work.stages.reader else {
        return Ok(Vec::new());
    };
    let episodes = Episodes::new(work.data);
    let material = Material {
        stages: work.stages,
        episodes: &episodes,
    };
    let mut plan = Vec::new();
    for settings in work.stages.judges {
        let Some(called) = settings.called() else {
            plan.push(None);
            continue;
        };
        let wanted = repetitions(settings, work.stages.benchmark);
        let (mut calls, mut input, mut unknown) = (0, 0, 0);
        conversations(work.data, |entry| {
            if !is_wanted(work.experiment, entry) {
                return Ok(true);
            }
            for question in &entry.questions {
                let way = grading::way(settings, question)?;
                for repetition in 0..reader.repetitions {
                    let answer = answers.get(&(key(question), repetition));
                    let text = answer.map(|answer| answer.text.as_deref());
                    let graded = (0..wanted)
                        .filter(|&again| {
                            let graded = ungraded(question, repetition, settings, again);
                            held.contains(&graded.identity())
                        })
                        .count() as u64;
                    let due = u64::from(wanted) - graded;
                    if due == 0 || text == Some(None) {
                        continue;
                    }
                    let shown = text.flatten().unwrap_or_default();
                    for request in material.requests(&way, settings, question, shown)? {
                        calls += due;
                        input += due * input_tokens(&request);
                        if text.is_none() {
                            unknown += due * u64::from(reader.max_output);
                        }
                    }
                }
            }
            Ok(true)
        })?;
        let low = Planned {
            model: called.model.to_owned(),
            calls,
            input,
            max_output: settings.max_output.into(),
            searches: 0,
        };
        let mut high = low.clone();
        high.input += unknown;
        plan.push(Some((low, high)));
    }
    Ok(plan)
}

struct Job {
    /// The judgment without what is read.
    judgment: Judgment,
    read: Read,
    /// What is asked, in order; nothing where a rule grades or there is nothing to grade.
    requests: Vec<ChatRequest>,
}

/// What a grade is read from.
enum Read {
    /// There is no answer.
    Nothing,
    /// What a metric says; `None` where the gold answer holds nothing to compare with.
    Mark(Option<f64>),
    /// Replies, by the judge's way; a summary has so many key points.
    Replies(Way, u32),
}

fn due(
    work: &Work<'_>,
    settings: &JudgeSettings,
    answers: &[Answer],
    held: &HashSet<String>,
    send: &mut dyn FnMut(Job) -> Result<bool, RecordError>,
) -> Result<(), PipelineError> {
    let mut by_question: HashMap<Key, Vec<&Answer>> = HashMap::new();
    for answer in answers {
        by_question
            .entry(answer.question_key())
            .or_default()
            .push(answer);
    }
    let episodes = Episodes::new(work.data);
    let material = Material {
        stages: work.stages,
        episodes: &episodes,
    };
    conversations(work.data, |entry| {
        for question in &entry.questions {
            for answer in by_question.get(&key(question)).into_iter().flatten() {
                for again in 0..repetitions(settings, work.stages.benchmark) {
                    let judgment = ungraded(question, answer.repetition, settings, again);
                    if held.contains(&judgment.identity()) {
                        continue;
                    }
                    let text = answer.text.as_deref();
                    if !send(job(&material, settings, question, text, judgment)?)? {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    })
}

fn job(
    material: &Material<'_>,
    settings: &JudgeSettings,
    question: &Question,
    answer: Option<&str>,
    mut judgment: Judgment,
) -> Result<Job, PipelineError> {
    let way = grading::way(settings, question)?;
    let Some(answer) = answer else {
        return Ok(Job {
            judgment,
            read: Read::Nothing,
            requests: Vec::new(),
        });
    };
    if let Way::Mark(by) = way {
        return Ok(Job {
            judgment,
            read: Read::Mark(grading::mark(by, question, answer)),
            requests: Vec::new(),
        });
    }
    let mut requests = material.requests(&way, settings, question, answer)?;
    for request in &mut requests {
        request.repetition = judgment.judge_repetition;
    }
    if let [template] = way.templates()[..] {
        let template = material.stages.prompts.template(template)?;
        judgment.prompt_sha256 = Some(template.fingerprint().to_string());
    }
    let points = match &question.gold {
        Some(Gold::Rubric { points, .. }) => points.len() as u32,
        _ => 0,
    };
    Ok(Job {
        judgment,
        read: Read::Replies(way, points),
        requests,
    })
}

/// The prompts that a judge is sent about a question.
pub(crate) fn templates_of(
    settings: &JudgeSettings,
    question: &Question,
) -> Result<Vec<&'static str>, PipelineError> {
    Ok(grading::way(settings, question)?.templates())
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

fn fill(judgment: &mut Judgment, read: &Read, replies: &[ChatReply]) {
    let texts: Vec<&str> = replies.iter().filter_map(text_of).collect();
    judgment.reply = match texts[..] {
        [] => None,
        [text] if replies.len() == 1 => Some(text.to_owned()),
        // Several replies stay apart, in the order in which they were asked for.
        _ => Some(serde_json::json!(texts).to_string()),
    };
    let graded = match read {
        Read::Nothing => Err(Ungraded::Failed(Failure::NoAnswer)),
        Read::Mark(None) => {
            judgment.error = Some("the gold answer holds nothing to compare with".to_owned());
            return;
        }
        Read::Mark(Some(score)) => Ok((Some(*score), *score == 1.0)),
        Read::Replies(way, points) => grade(way, *points, replies),
    };
    match graded {
        Ok((score, correct)) => {
            judgment.score = score;
            judgment.outcome = match correct {
                true => JudgmentOutcome::Correct,
                false => JudgmentOutcome::Wrong,
            };
        }
        Err(Ungraded::Unparsed(reason)) => {
            judgment.outcome = JudgmentOutcome::Unparsed;
            judgment.error = Some(reason.to_string());
        }
        Err(Ungraded::Failed(reason)) => judgment.error = Some(reason.to_string()),
    }
}

/// The score, where the way has one, and whether it is the whole.
fn grade(way: &Way, points: u32, replies: &[ChatReply]) -> Result<(Option<f64>, bool), Ungraded> {
    let read: Vec<Reply<'_>> = replies.iter().map(reply_of).collect();
    match (way, &read[..]) {
        (Way::Judge(judge), [reply]) => match judge.grade(*reply) {
            Outcome::Correct => Ok((None, true)),
            Outcome::Wrong => Ok((None, false)),
            Outcome::Unparsed(reason) => Err(reason.into()),
            Outcome::Failed(reason) => Err(reason.into()),
        },
        (Way::Nuggets, [_, ..]) => {
            let scores: Vec<f64> = read
                .iter()
                .map(|reply| nugget(*reply))
                .collect::<Result<_, _>>()?;
            let score = scores.iter().sum::<f64>() / scores.len() as f64;
            Ok((Some(score), score == 1.0))
        }
        (Way::Summary, [fluency, recall, precision]) => {
            let score = Summary::read(*fluency, *recall, *precision, points)?.score();
            Ok((Some(score), score == 1.0))
        }
        _ => Err(Failure::NoAnswer.into()),
    }
}

/// A model's reply as judges and assessors read it.
pub(crate) fn reply_of(reply: &ChatReply) -> Reply<'_> {
    match &reply.outcome {
        ChatOutcome::Answered(text) | ChatOutcome::Refused(text) => Reply::Whole(text),
        ChatOutcome::Cut(text) => Reply::Cut(text),
        ChatOutcome::Empty => Reply::Whole(""),
        ChatOutcome::Filtered(_) => Reply::Failed(Failure::Filtered),
    }
}

/// Its text; `None` where the service withheld it.
pub(crate) fn text_of(reply: &ChatReply) -> Option<&str> {
    match reply_of(reply) {
        Reply::Whole(text) | Reply::Cut(text) => Some(text),
        Reply::Failed(_) => None,
    }
}
