//! Assessments: whether the evidence of each question is enough to answer it, by rule or by a model,
//! whatever is answered from it.

use std::collections::HashSet;
use std::time::Instant;

use rawrag_corpus::meme::{After, Asked, Contract, Entity, Episode, Mention, Task};
use rawrag_corpus::{Answer, Gold, Phase, Question};
use rawrag_models::prices::Planned;
use rawrag_models::remote::{ChatModel, ChatReply, ChatRequest, RemoteError};
use rawrag_prompts::PromptSet;
use rawrag_records::{Assessment, AssessmentOutcome, Key, Record, RecordError};
use rawrag_scoring::excerpt::excerpt;
use rawrag_scoring::judge::{self, Coverage, Ungraded, audit};
use rawrag_scoring::sufficiency::{self, Need, Sufficiency};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::answering::{Work, conversations};
use crate::episodes::{Episodes, is_of_an_episode};
use crate::evidence::Evidence;
use crate::experiment::{AssessorRule, AssessorSettings};
use crate::grading::gold;
use crate::judging::{AT_ONCE, reply_of, text_of};
use crate::pipeline::{PipelineError, key};
use crate::services::{
    Failures, Services, Step, drive, input_tokens, is_of_this_call, request, time,
};

/// Assesses with each assessor what it has not assessed yet.
///
/// # Errors
/// [`PipelineError`]. Every assessment had before is on record, and the same call goes on there.
pub fn run(
    work: &Work<'_>,
    services: &Services,
    mut progress: impl FnMut(Step),
) -> Result<(), PipelineError> {
    for assessor in 0..work.stages.assessors.len() {
        assess_all(work, services, assessor, &mut progress)?;
    }
    Ok(())
}

/// The calls that [`run`] would make, were none of their replies kept; `None` for an assessor by
/// rule.
///
/// # Errors
/// As [`run`], without those of services.
pub fn plan(work: &Work<'_>) -> Result<Vec<Option<Planned>>, PipelineError> {
    let held: HashSet<String> = work
        .run
        .read::<Assessment>()?
        .iter()
        .map(Record::identity)
        .collect();
    let mut plan = Vec::new();
    for settings in work.stages.assessors {
        let Some(called) = settings.called() else {
            plan.push(None);
            continue;
        };
        let (mut calls, mut input) = (0, 0);
        due(work, settings, &held, &mut |job| {
            if let Some(request) = &job.request {
                calls += 1;
                input += input_tokens(request);
            }
            Ok(true)
        })?;
        plan.push(Some(Planned {
            model: called.model.to_owned(),
            calls,
            input,
            max_output: settings.max_output.into(),
            searches: 0,
        }));
    }
    Ok(plan)
}

fn assess_all(
    work: &Work<'_>,
    services: &Services,
    at: usize,
    progress: &mut dyn FnMut(Step),
) -> Result<(), PipelineError> {
    let begun = Instant::now();
    let settings = &work.stages.assessors[at];
    let stage = format!("assessing by {}", settings.name);
    let (mut assessments, mut held) = work.run.appender::<Assessment>()?;
    held.retain(|assessment| assessment.assessor == settings.name);
    let total = work.run.manifest().expected.questions * settings.repetitions as usize;
    progress(Step::Begun {
        stage: stage.clone(),
        total,
        held: held.len(),
    });
    if held.len() == total {
        return Ok(());
    }
    let held: HashSet<String> = held.iter().map(Record::identity).collect();
    let Some(client) = services.assessor(work.stages, at)? else {
        let (mut assessed, mut recorded) = (Vec::new(), 0);
        let mut keep = |assessed: &mut Vec<Assessment>| {
            recorded += assessed.len();
            assessed
                .iter()
                .for_each(|_| progress(Step::One { failed: false }));
            assessments.append_all(&std::mem::take(assessed))
        };
        due(work, settings, &held, &mut |job| {
            assessed.push(job.assessment);
            match assessed.len() {
                AT_ONCE => keep(&mut assessed).map(|()| true),
                _ => Ok(true),
            }
        })?;
        keep(&mut assessed)?;
        return Ok(time(work.run, &stage, recorded, begun)?);
    };
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
    let driven = drive(
        settings.concurrency,
        services,
        |send| due(work, settings, &held, &mut |job| Ok(send(job))),
        ask,
        |(job, reply): (Job, Option<Result<ChatReply, RemoteError>>)| {
            let mut assessment = job.assessment;
            let failed = match reply {
                Some(Err(error)) if is_of_this_call(&error) => {
                    assessment.error = Some(error.to_string());
                    failures.hold(assessment, &error);
                    true
                }
                Some(Err(RemoteError::Stopped { .. })) => return Err(PipelineError::Stopped),
                Some(Err(error)) => return Err(error.into()),
                None => {
                    assessments.append(&assessment)?;
                    recorded += 1;
                    true
                }
                Some(Ok(reply)) => {
                    fill(&mut assessment, job.way, &reply);
                    assessments.append(&assessment)?;
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
        assessments.append_all(failed)?;
        recorded += failed.len();
    }
    time(work.run, &stage, recorded, begun)?;
    settled.map(drop)
}

/// How the evidence of a question is assessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// By MEME's rules.
    Rule,
    /// By an excerpt of the evidence (Raw-RAG, G.9).
    Excerpt,
    /// By all of it and the contract of a task (G.10).
    Audit(Task),
}

impl Way {
    fn templates(self) -> Vec<&'static str> {
        match self {
            Self::Rule => Vec::new(),
            Self::Excerpt => vec![SUFFICIENCY],
            Self::Audit(task) => {
                let contract = contract_template(task);
                std::iter::once(AUDIT).chain(contract).collect()
            }
        }
    }
}

const SUFFICIENCY: &str = "assess-sufficiency";
const AUDIT: &str = "assess-result-path";

/// The prompt that says what a task's contract requires; the four tasks that are audited have one.
fn contract_template(task: Task) -> Option<&'static str> {
    match task {
        Task::Tracking => Some("contract-tracking"),
        Task::Deletion => Some("contract-deletion"),
        Task::Cascade => Some("contract-cascade"),
        Task::Absence => Some("contract-absence"),
        Task::ExactRecall | Task::Aggregation => None,
    }
}

/// The audit reassesses tracking in both phases and deletion, cascade and absence after the change;
/// other questions keep the judgment of an excerpt (Raw-RAG, G.10).
fn way(settings: &AssessorSettings, question: &Question) -> Result<Way, PipelineError> {
    let no_assessor = |problem| {
        Err(PipelineError::NoAssessor {
            key: Box::new(key(question)),
            problem,
        })
    };
    if question.gold.is_none() {
        return no_assessor("the question has no gold answer, so nobody can say what is enough");
    }
    let of_an_episode = is_of_an_episode(question);
    match (settings.rule, settings.prompt.as_deref()) {
        (Some(AssessorRule::Meme), _) if of_an_episode => Ok(Way::Rule),
        (Some(AssessorRule::Meme), _) => no_assessor(
            "the rule `meme` assesses questions of MEME and of synthetic episodes only; take the \
             assessor out, or name a service for it",
        ),
        (None, None) => Ok(Way::Excerpt),
        (None, Some(SUFFICIENCY)) => Ok(Way::Excerpt),
        (None, Some(AUDIT)) if of_an_episode => Ok(audited(question)),
        (None, Some(AUDIT)) => no_assessor(
            "assess-result-path audits questions of MEME and of synthetic episodes only; take the \
             default prompt",
        ),
        (None, Some(_)) => {
            no_assessor("an assessor's prompt is assess-sufficiency, assess-result-path or not set")
        }
    }
}

fn audited(question: &Question) -> Way {
    let named = |task: &Task| task.name() == question.kind.as_str();
    let after = question.phase == Some(Phase::After);
    match Task::ALL.into_iter().find(named) {
        Some(Task::Tracking) => Way::Audit(Task::Tracking),
        Some(task @ (Task::Deletion | Task::Cascade | Task::Absence)) if after => Way::Audit(task),
        _ => Way::Excerpt,
    }
}

/// The prompts that an assessor is sent about a question.
pub(crate) fn templates_of(
    settings: &AssessorSettings,
    question: &Question,
) -> Result<Vec<&'static str>, PipelineError> {
    Ok(way(settings, question)?.templates())
}

struct Job {
    /// Whole where a rule assesses or there is no evidence, else without what the reply decides.
    assessment: Assessment,
    way: Way,
    request: Option<ChatRequest>,
}

fn due(
    work: &Work<'_>,
    settings: &AssessorSettings,
    held: &HashSet<String>,
    send: &mut dyn FnMut(Job) -> Result<bool, RecordError>,
) -> Result<(), PipelineError> {
    let episodes = Episodes::new(work.data);
    let mut evidence = Evidence::of(work.run)?;
    conversations(work.data, |entry| {
        for question in &entry.questions {
            let mut shown = None;
            for repetition in 0..settings.repetitions {
                let assessment = unassessed(question, settings, repetition);
                if held.contains(&assessment.identity()) {
                    continue;
                }
                if shown.is_none() {
                    shown = evidence.text(work.experiment, entry, question)?;
                }
                let Some(text) = &shown else { break };
                let job = match text {
                    Ok(text) => job(work, settings, &episodes, question, text, assessment)?,
                    Err(reason) => Job {
                        assessment: Assessment {
                            error: Some(reason.clone()),
                            ..assessment
                        },
                        way: way(settings, question)?,
                        request: None,
                    },
                };
                if !send(job)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    })
}

fn job(
    work: &Work<'_>,
    settings: &AssessorSettings,
    episodes: &Episodes<'_>,
    question: &Question,
    evidence: &str,
    mut assessment: Assessment,
) -> Result<Job, PipelineError> {
    let way = way(settings, question)?;
    let prompts = &work.stages.prompts;
    let prompt = match way {
        Way::Rule => {
            let (episode, asked) = episodes.of(question)?;
            by_rule(&mut assessment, episode, asked, evidence);
            let request = None;
            return Ok(Job {
                assessment,
                way,
                request,
            });
        }
        Way::Excerpt => {
            let values = match is_of_an_episode(question) {
                true => episodes.of(question)?.1.values.concat(),
                false => values(question),
            };
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            let excerpt = excerpt(evidence, &values).text;
            let gold = gold(question);
            let values = [
                ("question", question.text.as_str()),
                ("golden_answer", gold.as_str()),
                ("excerpt", excerpt.as_str()),
            ];
            prompts.render(SUFFICIENCY, &values)?
        }
        Way::Audit(task) => {
            let (episode, asked) = episodes.of(question)?;
            let contract = contract(prompts, task, episode, asked)?;
            let values = [
                ("question_text", question.text.as_str()),
                ("contract_json", contract.as_str()),
                ("context", evidence),
            ];
            prompts.render(AUDIT, &values)?
        }
    };
    if let Some(template) = way.templates().first() {
        let fingerprint = prompts.template(template)?.fingerprint();
        assessment.prompt_sha256 = Some(fingerprint.to_string());
    }
    let mut request = request(prompt, settings.temperature, settings.max_output);
    request.repetition = assessment.repetition;
    Ok(Job {
        assessment,
        way,
        request: Some(request),
    })
}

/// The values of a gold answer, in order.
fn values(question: &Question) -> Vec<String> {
    match &question.gold {
        Some(
            Gold::Answer(Answer::List(values) | Answer::AnyOf(values))
            | Gold::Rubric {
                ideal: Some(Answer::List(values) | Answer::AnyOf(values)),
                ..
            },
        ) => values.clone(),
        Some(Gold::Rubric {
            ideal: None,
            points,
        }) => points.clone(),
        _ => vec![gold(question)],
    }
}

fn unassessed(question: &Question, settings: &AssessorSettings, repetition: u32) -> Assessment {
    let kind = question.kind.to_string();
    let Key {
        benchmark,
        source,
        conversation,
        question,
        phase,
    } = key(question);
    Assessment {
        benchmark,
        source,
        conversation,
        question,
        phase,
        kind,
        assessor: settings.name.clone(),
        repetition,
        outcome: AssessmentOutcome::Failed,
        sufficient: None,
        result: None,
        path: None,
        components: None,
        reply: None,
        error: None,
        prompt_sha256: None,
    }
}

/// Result and path are told where values and the way to them come apart: for tracking (its values,
/// and their order), cascade and absence (the value, and rule and trigger) after the change. A path
/// is only one that leads to its result.
fn by_rule(assessment: &mut Assessment, episode: &Episode, asked: &Asked, evidence: &str) {
    let contract = episode.contract(asked);
    let found = found(evidence, &contract);
    let sufficient = found.sufficient();
    assessment.outcome = AssessmentOutcome::Assessed;
    assessment.sufficient = Some(sufficient);
    let chained = matches!(asked.task, Task::Tracking | Task::Cascade | Task::Absence);
    if chained && asked.phase == Phase::After {
        assessment.result = found.value;
        assessment.path = Some(sufficient);
    }
    let parts = [
        ("value", found.value),
        ("chronology", found.chronology),
        ("deletion", found.deletion),
        ("rule", found.rule),
        ("trigger", found.trigger),
    ];
    let mut parts = components(parts);
    parts.extend(asked.hop.map(|hop| ("hop".to_owned(), json!(hop))));
    assessment.components = Some(Value::Object(parts).to_string());
}

fn components<const N: usize>(parts: [(&str, Option<bool>); N]) -> Map<String, Value> {
    let parts = parts.into_iter();
    parts
        .filter_map(|(name, found)| Some((name.to_owned(), json!(found?))))
        .collect()
}

fn found(evidence: &str, contract: &Contract) -> Sufficiency {
    fn named(mention: &Mention) -> sufficiency::Mention<'_> {
        sufficiency::Mention {
            label: &mention.label,
            values: &mention.values,
        }
    }
    let rules: Vec<sufficiency::Rule<'_>> = contract
        .rules
        .iter()
        .map(|rule| sufficiency::Rule {
            source: named(&rule.source),
            target: named(&rule.target),
            said: &rule.said,
        })
        .collect();
    let target = contract.targets.first();
    let need = match (&contract.trigger, contract.task, contract.phase, target) {
        (Some(trigger), ..) => Need::Dependent {
            values: &contract.values,
            rules: &rules,
            trigger: &trigger.values,
        },
        (None, Task::Deletion, Phase::After, Some(target)) => Need::Deletion(named(target)),
        (None, Task::Tracking, ..) => Need::History(&contract.values),
        _ => Need::Values(&contract.values),
    };
    sufficiency::sufficiency(evidence, &need)
}

/// What the audit looks for (Raw-RAG, G.10), in the paper's fields and their order.
#[derive(Serialize)]
struct Audited<'a> {
    task_type: &'static str,
    phase: Phase,
    target_entities: Vec<&'a str>,
    history_values: Vec<&'a str>,
    old_target_values: Vec<&'a str>,
    new_target_values: Vec<&'a str>,
    upstream_entity: &'a str,
    upstream_before_values: Vec<&'a str>,
    upstream_after_values: Vec<&'a str>,
    sufficiency_rule: String,
}

/// The contract as JSON, indented by two spaces: targets and history from the question's
/// annotations, everything else from the episode's entities.
fn contract(
    prompts: &PromptSet,
    task: Task,
    episode: &Episode,
    asked: &Asked,
) -> Result<String, PipelineError> {
    let entity = |id| episode.entities.get(id);
    let targets = || asked.targets.iter().filter_map(entity);
    let upstream = targets().find_map(|target| target.upstream.as_ref());
    let rule = match contract_template(task) {
        Some(name) => prompts.render(name, &[])?.user.trim().to_owned(),
        None => String::new(),
    };
    let audited = Audited {
        task_type: task.name(),
        phase: asked.phase,
        target_entities: asked.targets.iter().map(|id| id.as_str()).collect(),
        history_values: distinct(asked.values.iter().flatten()),
        old_target_values: distinct(targets().flat_map(|target| &target.before)),
        new_target_values: distinct(targets().flat_map(after)),
        upstream_entity: upstream.map_or("", |id| id.as_str()),
        upstream_before_values: distinct(
            upstream
                .and_then(entity)
                .into_iter()
                .flat_map(|e| &e.before),
        ),
        upstream_after_values: distinct(upstream.and_then(entity).into_iter().flat_map(after)),
        sufficiency_rule: rule,
    };
    serde_json::to_string_pretty(&audited)
        .map_err(|error| PipelineError::Contract(error.to_string()))
}

fn after(entity: &Entity) -> &[String] {
    match &entity.after {
        Some(After::Becomes(values)) => values,
        Some(After::Deleted) | None => &[],
    }
}

/// Values in their order, each once.
fn distinct<'a>(values: impl Iterator<Item = &'a String>) -> Vec<&'a str> {
    let mut seen = HashSet::new();
    let values = values.map(String::as_str);
    values.filter(|value| seen.insert(*value)).collect()
}

fn fill(assessment: &mut Assessment, way: Way, reply: &ChatReply) {
    assessment.reply = text_of(reply).map(str::to_owned);
    let read = match way {
        Way::Audit(task) => audit(reply_of(reply)).and_then(|audit| {
            // Only for these is a complete value a result that a path may lead to.
            if matches!(task, Task::Tracking | Task::Cascade) {
                let coverage = audit.coverage()?;
                assessment.result = Some(coverage != Coverage::Neither);
                assessment.path = Some(coverage == Coverage::ResultAndPath);
            }
            let parts = components([
                ("value_complete", Some(audit.value_complete)),
                ("temporal_chain", Some(audit.temporal_chain)),
                ("deletion_targeted", Some(audit.deletion_targeted)),
                ("dependency_rule", Some(audit.dependency_rule)),
                ("upstream_trigger_state", Some(audit.upstream_trigger_state)),
                ("linked", Some(audit.linked)),
            ]);
            assessment.components = Some(Value::Object(parts).to_string());
            Ok(audit.sufficient)
        }),
        Way::Excerpt | Way::Rule => {
            judge::sufficiency(reply_of(reply)).map(|sufficiency| sufficiency.answerable)
        }
    };
    match read {
        Ok(sufficient) => {
            assessment.outcome = AssessmentOutcome::Assessed;
            assessment.sufficient = Some(sufficient);
        }
        Err(Ungraded::Unparsed(reason)) => {
            assessment.outcome = AssessmentOutcome::Unparsed;
            assessment.error = Some(reason.to_string());
        }
        Err(Ungraded::Failed(reason)) => assessment.error = Some(reason.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The fields of G.10 in their order, indented by two spaces; values each once, from the place
    /// that the paper names for them.
    #[test]
    fn a_contract_is_written_as_the_paper_writes_it() {
        let file =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../rawrag-corpus/tests/fixtures/meme.json");
        let loaded = rawrag_corpus::meme::load(&file).unwrap();
        let episode = &loaded.episodes[0].episode;
        let asked = episode
            .asked
            .iter()
            .find(|asked| (asked.task, asked.phase) == (Task::Cascade, Phase::After));
        let prompts = PromptSet::builtin();
        let written = contract(&prompts, Task::Cascade, episode, asked.unwrap()).unwrap();
        let rule = prompts.render("contract-cascade", &[]).unwrap().user;
        let expected = format!(
            r#"{{
  "task_type": "Cas",
  "phase": "after",
  "target_entities": [
    "harbour_pilot"
  ],
  "history_values": [
    "Odo Flint"
  ],
  "old_target_values": [
    "Ana Brisk"
  ],
  "new_target_values": [
    "Odo Flint"
  ],
  "upstream_entity": "moorage",
  "upstream_before_values": [
    "Quay Ostrel"
  ],
  "upstream_after_values": [
    "Quay Vimber"
  ],
  "sufficiency_rule": {}
}}"#,
            json!(rule.trim())
        );
        assert_eq!(written, expected);
    }
}
