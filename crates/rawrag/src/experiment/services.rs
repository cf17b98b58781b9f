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
    pub service: ServiceSettings,
    /// Its name there.
    pub model: String,
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

/// Which part of a reply is the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnswerPart {
    /// All of it.
    Whole,
    /// What follows the last `FINAL ANSWER:`, or all of it where there is none (Raw-RAG, G.4).
    Final,
}

/// A model that grades answers: `[[judges]]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JudgeSettings {
    /// What records call it.
    pub name: String,
    /// Where it is.
    pub service: ServiceSettings,
    /// Its name there.
    pub model: String,
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

    fn check_stages(&self) -> Result<(), (String, &'static str)> {
        let none = "is 0; it must be at least 1";
        if let Some(reader) = &self.reader {
            for (field, value) in [
                ("max_output", reader.max_output),
                ("repetitions", reader.repetitions),
                ("attempts", reader.attempts),
                ("concurrency", u32::from(reader.concurrency > 0)),
            ] {
                if value == 0 {
                    return Err((format!("reader.{field}"), none));
                }
            }
            check_temperature("reader.temperature", reader.temperature)?;
        } else if !self.judges.is_empty() {
            let problem = "grade answers, and there is no [reader] to give any";
            return Err(("judges".to_owned(), problem));
        }
        for (at, judge) in self.judges.iter().enumerate() {
            let field = |name: &str| format!("judges.{}.{name}", judge.name);
            for (name, value) in [
                ("max_output", judge.max_output),
                ("repetitions", judge.repetitions.unwrap_or(1)),
                ("concurrency", u32::from(judge.concurrency > 0)),
            ] {
                if value == 0 {
                    return Err((field(name), none));
                }
            }
            check_temperature(&field("temperature"), judge.temperature)?;
            if judge.name.trim().is_empty()
                || self.judges[..at].iter().any(|j| j.name == judge.name)
            {
                return Err((field("name"), "must be given, and to one judge alone"));
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
