//! The sections of an experiment that put models behind services to work.

use std::path::{Path, PathBuf};

use rawrag_models::remote::{Limits, Provider, Settings};
use serde::{Deserialize, Serialize};

use super::{Experiment, ExperimentError};

/// The model that answers questions from their evidence: `[reader]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reader {
    /// Where it is.
    #[serde(default)]
    pub service: Option<ServiceSettings>,
    /// Its name there.
    #[serde(default)]
    pub model: Option<String>,
    /// In place of these: no model, but the reader of synthetic histories, which knows the
    /// generator's sentences.
    #[serde(default)]
    pub pattern: Option<Pattern>,
    /// The prompt's name; the benchmark's own by default.
    #[serde(default)]
    pub prompt: Option<String>,
    /// How freely it chooses its words.
    #[serde(default)]
    pub temperature: f64,
    /// The most tokens of a reply, apart from the input, which is always sent whole.
    #[serde(default = "reader_output")]
    pub max_output: u32,
    /// Answers to each question.
    #[serde(default = "one")]
    pub repetitions: u32,
    /// Questions under way at the same time (Raw-RAG, Appendix D.3: 50).
    #[serde(default = "fifty")]
    pub concurrency: usize,
    /// How often the same input is sent in all where the reply is empty (Raw-RAG, Appendix B.3: 3).
    #[serde(default = "three")]
    pub attempts: u32,
    /// Which part of a reply is the answer; that which its prompt asks for by default.
    #[serde(default)]
    pub answer: Option<AnswerPart>,
}

/// The reader of synthetic histories ([`rawrag_corpus::synthetic::Reader`]). It measures no model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pattern {
    /// Decides, with the question, where it errs.
    #[serde(default)]
    pub seed: u64,
    /// The share of questions on which it errs, from 0 to 1.
    #[serde(default)]
    pub error_rate: f64,
}

/// A model behind a service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Called<'a> {
    /// Where it is.
    pub service: &'a ServiceSettings,
    /// Its name there.
    pub model: &'a str,
}

impl Reader {
    /// The model that answers, where one does.
    pub fn called(&self) -> Option<Called<'_>> {
        called(self.service.as_ref(), self.model.as_deref())
    }
}

fn called<'a>(service: Option<&'a ServiceSettings>, model: Option<&'a str>) -> Option<Called<'a>> {
    Some(Called {
        service: service?,
        model: model?,
    })
}

/// Which part of a reply is the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnswerPart {
    /// All of it.
    Whole,
    /// What follows the last `FINAL ANSWER:`, or all of it where there is none (Raw-RAG, G.4).
    Final,
}

/// A model or a rule that grades answers: `[[judges]]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JudgeSettings {
    /// What records call it.
    pub name: String,
    /// Where it is.
    #[serde(default)]
    pub service: Option<ServiceSettings>,
    /// Its name there.
    #[serde(default)]
    pub model: Option<String>,
    /// In place of these: a metric, which costs nothing.
    #[serde(default)]
    pub rule: Option<JudgeRule>,
    /// The prompt's name; the benchmark's own by default.
    #[serde(default)]
    pub prompt: Option<String>,
    /// How freely it chooses its words.
    #[serde(default)]
    pub temperature: f64,
    /// The most tokens of a reply.
    #[serde(default = "judge_output")]
    pub max_output: u32,
    /// Grades of each answer; as often as the benchmark's judge is asked by default.
    #[serde(default)]
    pub repetitions: Option<u32>,
    /// Answers under way at the same time.
    #[serde(default = "fifty")]
    pub concurrency: usize,
}

/// A metric that grades answers without a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JudgeRule {
    /// The benchmark's own, where it needs no model: LoCoMo's F1, PersonaMem's letter, each
    /// source's of MemoryAgentBench but two, and equality on synthetic questions.
    Benchmark,
    /// F1 over the sets of tokens ([`rawrag_scoring::lexical::set_f1`]).
    TokenF1,
    /// BLEU-1 with method-1 smoothing.
    Bleu1,
    /// F1 of the longest common subsequence of words, stemmed.
    RougeL,
    /// The gold answer and nothing else.
    ExactMatch,
    /// The gold answer, anywhere in the answer.
    SubstringMatch,
}

impl JudgeSettings {
    /// The model that grades, where one does.
    pub fn called(&self) -> Option<Called<'_>> {
        called(self.service.as_ref(), self.model.as_deref())
    }
}

/// A model or a rule that assesses evidence: `[[assessors]]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AssessorSettings {
    /// What records call it.
    pub name: String,
    /// Where it is.
    #[serde(default)]
    pub service: Option<ServiceSettings>,
    /// Its name there.
    #[serde(default)]
    pub model: Option<String>,
    /// In place of these: a rule, which costs nothing.
    #[serde(default)]
    pub rule: Option<AssessorRule>,
    /// The prompt's name: `assess-sufficiency`, the default (Raw-RAG, G.9), or
    /// `assess-result-path` (G.10).
    #[serde(default)]
    pub prompt: Option<String>,
    /// How freely it chooses its words.
    #[serde(default)]
    pub temperature: f64,
    /// The most tokens of a reply.
    #[serde(default = "judge_output")]
    pub max_output: u32,
    /// Assessments of each question's evidence.
    #[serde(default = "one")]
    pub repetitions: u32,
    /// Questions under way at the same time.
    #[serde(default = "fifty")]
    pub concurrency: usize,
}

/// A rule that assesses evidence without a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AssessorRule {
    /// MEME's sufficiency, part by part ([`rawrag_scoring::sufficiency`]).
    Meme,
}

impl AssessorSettings {
    /// The model that assesses, where one does.
    pub fn called(&self) -> Option<Called<'_>> {
        called(self.service.as_ref(), self.model.as_deref())
    }
}

/// A service of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceSettings {
    /// Its kind.
    pub provider: Provider,
    /// Its address; beats the environment, which beats the provider's usual one.
    #[serde(default)]
    pub address: Option<String>,
    /// The environment variable that holds the key.
    #[serde(default)]
    pub key_env: Option<String>,
    /// The file that holds the key; relative to the working directory.
    #[serde(default)]
    pub key_file: Option<PathBuf>,
    /// A proxy to go through.
    #[serde(default)]
    pub proxy: Option<String>,
    /// How hard it may be driven; without it, as many calls at once as its stage asks for.
    #[serde(default)]
    pub limits: Option<Limits>,
}

impl ServiceSettings {
    /// As the clients take it, for a stage that makes so many calls at once.
    pub fn settings(&self, concurrency: usize) -> Settings {
        Settings {
            provider: self.provider,
            address: self.address.clone(),
            key_env: self.key_env.clone(),
            key_file: self.key_file.clone(),
            proxy: self.proxy.clone(),
            limits: self.limits.clone().unwrap_or_else(|| Limits {
                concurrency,
                ..Limits::default()
            }),
        }
    }
}

/// Prices and a limit: `[prices]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// The price table; relative to the experiment's file.
    pub file: PathBuf,
    /// Dollars that the run may cost in all, at most.
    #[serde(default)]
    pub max_cost: Option<f64>,
}

impl Experiment {
    /// Makes paths relative to the working directory, and refuses what cannot be run.
    pub(super) fn settle_stages(&mut self, path: &Path) -> Result<(), ExperimentError> {
        let beside = path.parent().unwrap_or(Path::new(""));
        if let Some(folder) = &mut self.prompts {
            *folder = beside.join(&*folder);
        }
        if let Some(prices) = &mut self.prices {
            prices.file = beside.join(&prices.file);
        }
        self.check(path)
    }

    /// Refuses stages that cannot be run; `path` is named in the error.
    ///
    /// # Errors
    /// [`ExperimentError::Stage`] names the setting.
    pub fn check(&self, path: &Path) -> Result<(), ExperimentError> {
        self.check_stages()
            .map_err(|(field, problem)| ExperimentError::Stage {
                path: path.to_owned(),
                field,
                problem: problem.to_owned(),
            })
    }

    fn check_reader(&self, reader: &Reader) -> Result<(), (String, &'static str)> {
        let part = Part {
            section: "reader",
            name: "",
            model: (reader.service.is_some(), reader.model.is_some()),
            rule: reader.pattern.is_some().then_some("pattern"),
        };
        part.check_model()?;
        part.check_numbers(
            reader.temperature,
            reader.max_output,
            reader.repetitions,
            reader.concurrency,
        )?;
        if reader.attempts == 0 {
            return Err((part.field("attempts"), "is 0; it must be at least 1"));
        }
        let Some(pattern) = reader.pattern else {
            return Ok(());
        };
        if self.benchmark != rawrag_corpus::Benchmark::Synthetic {
            let problem =
                "reads the generator's sentences only; take it for the benchmark synthetic";
            return Err((part.field("pattern"), problem));
        }
        if reader.prompt.is_some() || reader.answer.is_some() {
            let problem = "reads no prompt; leave out prompt and answer";
            return Err((part.field("pattern"), problem));
        }
        match rawrag_corpus::synthetic::Reader::new(pattern.seed, pattern.error_rate) {
            Some(_) => Ok(()),
            None => Err((part.field("pattern.error_rate"), "must be from 0 to 1")),
        }
    }

    fn check_stages(&self) -> Result<(), (String, &'static str)> {
        self.check_refining()?;
        if let Some(reader) = &self.reader {
            self.check_reader(reader)?;
        } else if !self.judges.is_empty() {
            let problem = "grade answers, and there is no [reader] to give any";
            return Err(("judges".to_owned(), problem));
        }
        for (at, judge) in self.judges.iter().enumerate() {
            let part = Part {
                section: "judges",
                name: &judge.name,
                model: (judge.service.is_some(), judge.model.is_some()),
                rule: judge.rule.is_some().then_some("rule"),
            };
            let before = self.judges[..at].iter().map(|judge| judge.name.as_str());
            part.check(before)?;
            part.check_numbers(
                judge.temperature,
                judge.max_output,
                judge.repetitions.unwrap_or(1),
                judge.concurrency,
            )?;
            if judge.rule.is_some() && (judge.prompt.is_some() || judge.repetitions.is_some()) {
                let problem = "grades once and reads no prompt; leave out prompt and repetitions";
                return Err((part.field("rule"), problem));
            }
        }
        for (at, assessor) in self.assessors.iter().enumerate() {
            let part = Part {
                section: "assessors",
                name: &assessor.name,
                model: (assessor.service.is_some(), assessor.model.is_some()),
                rule: assessor.rule.is_some().then_some("rule"),
            };
            let before = self.assessors[..at].iter().map(|other| other.name.as_str());
            part.check(before)?;
            part.check_numbers(
                assessor.temperature,
                assessor.max_output,
                assessor.repetitions,
                assessor.concurrency,
            )?;
            if assessor.rule.is_some() && (assessor.prompt.is_some() || assessor.repetitions > 1) {
                let problem = "assesses once and reads no prompt; leave out prompt and repetitions";
                return Err((part.field("rule"), problem));
            }
        }
        let limit = self.prices.as_ref().and_then(|prices| prices.max_cost);
        if limit.is_some_and(|limit| !(limit.is_finite() && limit >= 0.0)) {
            let problem = "must be dollars, 0 or more";
            return Err(("prices.max_cost".to_owned(), problem));
        }
        Ok(())
    }
}

/// A section that a model or a rule does the work of.
struct Part<'a> {
    section: &'static str,
    name: &'a str,
    /// Whether a service and a model are named.
    model: (bool, bool),
    /// What is named in place of them.
    rule: Option<&'static str>,
}

impl Part<'_> {
    fn field(&self, field: &str) -> String {
        match self.name {
            "" => format!("{}.{field}", self.section),
            name => format!("{}.{name}.{field}", self.section),
        }
    }

    /// Who does it is named once, under a name of its own.
    fn check<'b>(
        &self,
        mut before: impl Iterator<Item = &'b str>,
    ) -> Result<(), (String, &'static str)> {
        if self.name.trim().is_empty() || before.any(|name| name == self.name) {
            let problem = "must be given, and to one of them alone";
            return Err((format!("{}.name", self.section), problem));
        }
        self.check_model()
    }

    fn check_model(&self) -> Result<(), (String, &'static str)> {
        match (self.model, self.rule) {
            ((true, true), None) | ((false, false), Some(_)) => Ok(()),
            (_, Some(rule)) => Err((
                self.field(rule),
                "stands in place of service and model; leave them out, or leave it out",
            )),
            ((false, _), None) => Err((
                self.field("service"),
                "is missing; name a service and its model, or what stands in their place",
            )),
            ((true, false), None) => Err((self.field("model"), "is missing; name the model")),
        }
    }

    fn check_numbers(
        &self,
        temperature: f64,
        max_output: u32,
        repetitions: u32,
        concurrency: usize,
    ) -> Result<(), (String, &'static str)> {
        for (name, is_none) in [
            ("max_output", max_output == 0),
            ("repetitions", repetitions == 0),
            ("concurrency", concurrency == 0),
        ] {
            if is_none {
                return Err((self.field(name), "is 0; it must be at least 1"));
            }
        }
        check_temperature(&self.field("temperature"), temperature)
    }
}

fn check_temperature(field: &str, temperature: f64) -> Result<(), (String, &'static str)> {
    if temperature.is_finite() && temperature >= 0.0 {
        return Ok(());
    }
    Err((field.to_owned(), "must be a number from 0 up"))
}

fn reader_output() -> u32 {
    4096
}

fn judge_output() -> u32 {
    512
}

fn one() -> u32 {
    1
}

fn three() -> u32 {
    3
}

fn fifty() -> usize {
    50
}
