//! How an answer is graded: by which metric or which prompts, and what these are filled with.

use rawrag_corpus::meme::{Asked, Task};
use rawrag_corpus::synthetic::{self, Family};
use rawrag_corpus::{Answer, Benchmark, Gold, Phase, Question};
use rawrag_models::remote::ChatRequest;
use rawrag_scoring::aggregate::{LocomoCategory, MemeTask, Source};
use rawrag_scoring::judge::{Judge, LOCOMO, MEME_VALUE, NANO_MEMORY, NUGGET, SUMMARY};
use rawrag_scoring::lexical::{self, Smoothing};
use rawrag_scoring::sources::{self, Metric};

use crate::episodes::{Episodes, is_of_an_episode};
use crate::experiment::{JudgeRule, JudgeSettings};
use crate::pipeline::{PipelineError, key};
use crate::services::{Stages, request};

/// How the answers to a question are graded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    /// Without a model.
    Mark(Mark),
    /// By one reply.
    Judge(Judge),
    /// By one reply to each point of the question's rubric.
    Nuggets,
    /// By the three counts of a summary.
    Summary,
}

/// A metric that needs no model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// LoCoMo's F1 for a category.
    LocomoF1(u8),
    /// The letter of an option.
    Letter,
    /// The metric of a source of MemoryAgentBench.
    Source(Source),
    /// Equality with what a synthetic question has for its answer.
    Synthetic,
    /// A lexical metric.
    Lexical(JudgeRule),
}

/// How a judge grades the answers to a question.
///
/// # Errors
/// [`PipelineError::NoJudge`] where it cannot, with what to change.
pub(crate) fn way(settings: &JudgeSettings, question: &Question) -> Result<Way, PipelineError> {
    let found = match (&question.gold, settings.rule) {
        (None, _) => Err(
            "the question has no gold answer to grade by; give it one, or take [[judges]] out of \
             the experiment",
        ),
        (Some(_), Some(rule)) => by_rule(rule, question).map(Way::Mark),
        (Some(gold), None) => by_model(settings.prompt.as_deref(), question, gold),
    };
    found.map_err(|problem| PipelineError::NoJudge {
        key: Box::new(key(question)),
        problem,
    })
}

impl Way {
    /// The prompts that are sent.
    pub(crate) fn templates(&self) -> Vec<&'static str> {
        match self {
            Self::Mark(_) => Vec::new(),
            Self::Judge(judge) => vec![judge.template],
            Self::Nuggets => vec![NUGGET],
            Self::Summary => SUMMARY.to_vec(),
        }
    }
}

fn by_rule(rule: JudgeRule, question: &Question) -> Result<Mark, &'static str> {
    if rule != JudgeRule::Benchmark {
        return match question.gold {
            Some(Gold::Adversarial { answer: None, .. } | Gold::Rubric { ideal: None, .. }) => Err(
                "it has no gold text, which a lexical metric compares with; name a service that \
                 judges it",
            ),
            _ => Ok(Mark::Lexical(rule)),
        };
    }
    match question.benchmark {
        Benchmark::Locomo => {
            let categories = [
                "multi-hop",
                "temporal",
                "open-domain",
                "single-hop",
                "adversarial",
            ];
            let kind = question.kind.as_str();
            let at = LocomoCategory::ALL
                .iter()
                .zip(categories)
                .find(|(_, name)| *name == kind);
            let (category, _) = at.ok_or("LoCoMo has no such category of questions")?;
            Ok(Mark::LocomoF1(category.number()))
        }
        Benchmark::Personamem => Ok(Mark::Letter),
        Benchmark::Synthetic => Ok(Mark::Synthetic),
        Benchmark::Memoryagentbench => {
            let source = source(question)?;
            match source.metric() {
                Metric::Judge | Metric::Summary => Err(
                    "its source is judged by a model; name a service for the judge, which then \
                     marks the other sources without calls",
                ),
                _ => Ok(Mark::Source(source)),
            }
        }
        _ => Err("the benchmark's own metric needs a model; name a service for the judge"),
    }
}

/// Whether it was right to say that the history does not tell is asked in words of its own.
fn by_model(prompt: Option<&str>, question: &Question, gold: &Gold) -> Result<Way, &'static str> {
    if is_of_an_episode(question) {
        return match prompt {
            None => meme(question),
            Some(_) => Err("each of its tasks has a judge's prompt of its own; leave out `prompt`"),
        };
    }
    if matches!(
        gold,
        Gold::Abstention { .. } | Gold::Adversarial { answer: None, .. }
    ) {
        const ABSTENTION: &str = "multi-session";
        let judge = Judge::longmemeval(ABSTENTION, true);
        return judge.map(Way::Judge).ok_or("no judge is known for it");
    }
    if let Some(prompt) = prompt {
        return match prompt {
            _ if matches!(gold, Gold::Choice { .. }) => Err(CHOICE),
            _ if prompt == LOCOMO.template => Ok(Way::Judge(LOCOMO)),
            _ if prompt == NANO_MEMORY.template => Ok(Way::Judge(NANO_MEMORY)),
            _ => Err("a judge's prompt is judge-locomo, judge-nano-memory or not set"),
        };
    }
    match (question.benchmark, gold) {
        (_, Gold::Choice { .. }) => Err(CHOICE),
        (Benchmark::Locomo | Benchmark::Own | Benchmark::LongMtBenchPlus, _) => {
            Ok(Way::Judge(LOCOMO))
        }
        (Benchmark::Longmemeval, _) => longmemeval(question),
        (Benchmark::Memoryagentbench, _) => {
            let source = source(question)?;
            match (source.metric(), gold) {
                (Metric::Judge, _) => longmemeval(question),
                (Metric::Summary, Gold::Rubric { .. }) => Ok(Way::Summary),
                (Metric::Summary, _) => Err("its source is graded by key points, and it has none"),
                _ => Ok(Way::Mark(Mark::Source(source))),
            }
        }
        (Benchmark::Beam, Gold::Rubric { .. }) => Ok(Way::Nuggets),
        (Benchmark::Synthetic, _) => match question.source.as_deref() {
            Some(family) if family == Family::FactConsolidation.source() => {
                Ok(Way::Judge(MEME_VALUE))
            }
            _ => Err("a label is compared, not judged; give the judge rule = \"benchmark\""),
        },
        _ => Err("no judge is known for it; take [[judges]] out of the experiment"),
    }
}

const CHOICE: &str = "a letter is compared, not judged; give the judge rule = \"benchmark\"";

fn longmemeval(question: &Question) -> Result<Way, &'static str> {
    let judge = Judge::longmemeval(question.kind.as_str(), false);
    judge
        .map(Way::Judge)
        .ok_or("no judge of LongMemEval knows questions of this type")
}

fn meme(question: &Question) -> Result<Way, &'static str> {
    let named = |task: &Task| task.name() == question.kind.as_str();
    let task = Task::ALL.into_iter().find(named);
    let task = task.ok_or("MEME has no such task")?;
    let after = question.phase == Some(Phase::After);
    Ok(Way::Judge(Judge::meme(task_of(task), after)))
}

pub(crate) fn task_of(task: Task) -> MemeTask {
    match task {
        Task::ExactRecall => MemeTask::ExactRecall,
        Task::Aggregation => MemeTask::Aggregation,
        Task::Tracking => MemeTask::Tracking,
        Task::Deletion => MemeTask::Deletion,
        Task::Cascade => MemeTask::Cascade,
        Task::Absence => MemeTask::Absence,
    }
}

fn source(question: &Question) -> Result<Source, &'static str> {
    let named = question.source.as_deref().and_then(Source::named);
    named.ok_or("MemoryAgentBench has no such source")
}

/// What an answer is worth, in \[0, 1\]; `None` where the gold answer holds nothing to compare
/// with.
pub(crate) fn mark(by: Mark, question: &Question, answer: &str) -> Option<f64> {
    let whole = |hit: bool| Some(f64::from(u8::from(hit)));
    match by {
        Mark::LocomoF1(category) => {
            let gold = match &question.gold {
                Some(Gold::Answer(gold)) => gold.to_string(),
                _ => String::new(),
            };
            lexical::locomo_f1(category, answer, &gold)
        }
        Mark::Letter => {
            let Some(Gold::Choice { option }) = question.gold else {
                return None;
            };
            let options = u8::try_from(question.options.len()).unwrap_or(u8::MAX);
            let right = char::from(b'A'.saturating_add(u8::try_from(option).unwrap_or(u8::MAX)));
            // Reasons name other options; what is chosen stands behind the announcement.
            let chosen = lexical::after_prefix(answer, "Final Answer:").unwrap_or(answer);
            whole(lexical::choice_letter(chosen, options) == Some(right))
        }
        Mark::Source(source) => {
            let golds = golds(question);
            let golds: Vec<&str> = golds.iter().map(String::as_str).collect();
            sources::mark(source, answer, &golds)
        }
        Mark::Synthetic => {
            let reply = synthetic::Reply::read(answer);
            whole(synthetic::is_right(question, &reply))
        }
        Mark::Lexical(rule) => {
            let golds = golds(question);
            let best = |score: &dyn Fn(&str) -> Option<f64>| {
                let scores = golds.iter().filter_map(|gold| score(gold));
                scores.reduce(f64::max)
            };
            match rule {
                JudgeRule::TokenF1 => best(&|gold| lexical::set_f1(answer, gold)),
                JudgeRule::Bleu1 => {
                    let words = |text: &str| lexical::treebank_words(&text.to_lowercase());
                    let answer = words(answer);
                    best(&|gold| lexical::bleu(&answer, &words(gold), 1, Smoothing::Method1))
                }
                JudgeRule::RougeL => {
                    let answer = lexical::rouge_tokens(answer, true);
                    best(&|gold| {
                        let gold = lexical::rouge_tokens(gold, true);
                        Some(lexical::rouge_l(&answer, &gold)?.f1)
                    })
                }
                JudgeRule::SubstringMatch => whole(lexical::substring_match(answer, &golds)?),
                JudgeRule::ExactMatch | JudgeRule::Benchmark => {
                    whole(lexical::exact_match(answer, &golds)?)
                }
            }
        }
    }
}

/// Texts of which any is right, but for a list, of which each is wanted: for recommendations one
/// by one, else as one text.
fn golds(question: &Question) -> Vec<String> {
    let recommends = question.benchmark == Benchmark::Memoryagentbench;
    match &question.gold {
        Some(Gold::Answer(Answer::AnyOf(spellings))) => spellings.clone(),
        Some(Gold::Answer(Answer::List(values))) if recommends => values.clone(),
        _ => vec![gold(question)],
    }
}

/// What the prompts of a judge are filled with.
pub(crate) struct Material<'a> {
    pub(crate) stages: &'a Stages<'a>,
    pub(crate) episodes: &'a Episodes<'a>,
}

impl Material<'_> {
    /// The requests that an answer is graded by, in the order in which their replies are read.
    ///
    /// # Errors
    /// When a prompt cannot be filled in.
    pub(crate) fn requests(
        &self,
        way: &Way,
        settings: &JudgeSettings,
        question: &Question,
        answer: &str,
    ) -> Result<Vec<ChatRequest>, PipelineError> {
        let points: Vec<Option<&str>> = match (&way, &question.gold) {
            (Way::Nuggets, Some(Gold::Rubric { points, .. })) => {
                points.iter().map(|point| Some(point.as_str())).collect()
            }
            _ => vec![None; way.templates().len()],
        };
        let templates = way.templates();
        let names = templates.iter().cycle().take(points.len());
        names
            .zip(points)
            .map(|(name, point)| {
                let prompts = &self.stages.prompts;
                let mut values = Vec::new();
                for placeholder in prompts.template(name)?.placeholders() {
                    let value = self.value(placeholder, question, answer, point)?;
                    values.extend(value.map(|value| (placeholder.as_str(), value)));
                }
                let values: Vec<(&str, &str)> = values
                    .iter()
                    .map(|(name, value)| (*name, value.as_str()))
                    .collect();
                let prompt = prompts.render(name, &values)?;
                Ok(request(prompt, settings.temperature, settings.max_output))
            })
            .collect()
    }

    /// What stands for a placeholder; `None` for one that no judge has. A lure is never shown.
    fn value(
        &self,
        placeholder: &str,
        question: &Question,
        answer: &str,
        point: Option<&str>,
    ) -> Result<Option<String>, PipelineError> {
        let asked = || self.episodes.of(question);
        Ok(match placeholder {
            "question" => Some(question.text.clone()),
            "golden_answer" | "expert_summary" => Some(gold(question)),
            "generated_answer" | "summary" => Some(answer.to_owned()),
            "point" => point.map(str::to_owned),
            "key_points" => match &question.gold {
                Some(Gold::Rubric { points, .. }) => {
                    let lines = (1..).zip(points).map(|(n, point)| format!("{n}. {point}"));
                    Some(lines.collect::<Vec<_>>().join("\n"))
                }
                _ => None,
            },
            "deleted_value" => Some(asked()?.1.values.concat().join(", ")),
            "old_value" => {
                let (episode, asked) = asked()?;
                let before = values_before(episode, asked);
                Some(before.join(", "))
            }
            _ => None,
        })
    }
}

/// The values that a question's targets had before the change: the annotated ones, where the
/// episode has none.
fn values_before(episode: &rawrag_corpus::meme::Episode, asked: &Asked) -> Vec<String> {
    let before = asked
        .targets
        .iter()
        .filter_map(|id| episode.entities.get(id));
    let before: Vec<String> = before.flat_map(|entity| entity.before.clone()).collect();
    match before.is_empty() {
        true => asked.values.concat(),
        false => before,
    }
}

/// What an answer is compared with, in words.
pub(crate) fn gold(question: &Question) -> String {
    match &question.gold {
        Some(
            Gold::Answer(answer)
            | Gold::Adversarial {
                answer: Some(answer),
                ..
            }
            | Gold::Rubric {
                ideal: Some(answer),
                ..
            },
        ) => answer.to_string(),
        Some(Gold::Abstention { explanation }) => explanation.clone(),
        Some(Gold::Adversarial { answer: None, .. }) => {
            "The question presumes something that the history does not say.".to_owned()
        }
        Some(Gold::Choice { option }) => {
            let option = question.options.get(*option as usize);
            option.cloned().unwrap_or_default()
        }
        Some(Gold::Rubric { points, .. }) => points.join("\n"),
        None => String::new(),
    }
}
