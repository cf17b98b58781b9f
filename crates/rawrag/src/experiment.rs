//! One experiment, one TOML file.

use std::path::{Path, PathBuf};
use std::{fs, io};

use rawrag_retrieval::{Budget, EvidenceSettings, Order, Repeats, Settings};
use serde::{Deserialize, Serialize};

mod memory;
#[cfg(feature = "remote")]
mod refining;
#[cfg(feature = "remote")]
mod services;
pub use memory::{Ceilings, Memory};
#[cfg(feature = "remote")]
pub use refining::{PrunerSettings, SelectorKind, SelectorSettings};
#[cfg(feature = "remote")]
pub use services::{
    AnswerPart, AssessorRule, AssessorSettings, Called, JudgeRule, JudgeSettings, Pattern, Prices,
    Reader, ServiceSettings,
};

/// What is run on what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// One sentence on what it shows.
    pub about: String,
    /// The system's name in tables.
    pub system: String,
    /// The benchmark that its data must be of.
    pub benchmark: rawrag_corpus::Benchmark,
    /// The data, where it ships with the project; relative to the experiment's file.
    #[serde(default)]
    pub data: Option<PathBuf>,
    /// How evidence is found, unless a memory system finds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retrieval: Option<Settings>,
    /// The memory system that finds the evidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// How evidence is shown and counted.
    #[serde(default)]
    pub evidence: Evidence,
    /// A cross-encoder: a known model's name, or a folder relative to the working directory.
    #[serde(default)]
    pub cross_encoder: Option<String>,
    /// A folder of prompts in place of built-in ones; relative to the experiment's file.
    #[cfg(feature = "remote")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts: Option<PathBuf>,
    /// Who chooses among the items retrieved.
    #[cfg(feature = "remote")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<SelectorSettings>,
    /// Who takes out of the evidence what does not matter.
    #[cfg(feature = "remote")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pruner: Option<PrunerSettings>,
    /// Who answers from the evidence; without one, the experiment only retrieves.
    #[cfg(feature = "remote")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reader: Option<Reader>,
    /// Who grades the answers.
    #[cfg(feature = "remote")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub judges: Vec<JudgeSettings>,
    /// Who assesses the evidence.
    #[cfg(feature = "remote")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assessors: Vec<AssessorSettings>,
    /// What the calls may cost.
    #[cfg(feature = "remote")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<Prices>,
}

/// How evidence is shown and counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Evidence {
    /// See [`EvidenceSettings::expand`].
    pub expand: bool,
    /// See [`EvidenceSettings::order`].
    pub order: Order,
    /// See [`EvidenceSettings::repeats`].
    pub repeats: Repeats,
    /// See [`EvidenceSettings::budget`].
    pub budget: Option<Budget>,
    /// The numbers of items at which evidence tokens are counted, ascending.
    pub cutoffs: Vec<usize>,
    /// Whether a run of `[retrieval]` keeps the evidence as text too; one of `[memory]` always does.
    #[serde(skip_serializing_if = "is_false")]
    pub keep_text: bool,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
fn is_false(value: &bool) -> bool {
    !value
}

impl Default for Evidence {
    fn default() -> Self {
        Self {
            expand: false,
            order: Order::default(),
            repeats: Repeats::default(),
            budget: None,
            cutoffs: vec![5, 10, 15],
            keep_text: false,
        }
    }
}

impl Evidence {
    /// The settings of the assembly.
    pub fn assembly(&self) -> EvidenceSettings {
        let Self {
            expand,
            order,
            repeats,
            budget,
            ..
        } = *self;
        EvidenceSettings {
            expand,
            order,
            repeats,
            budget,
        }
    }
}

/// Why an experiment cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file is not an experiment.
    #[error("{}: {source}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column.
        source: Box<toml::de::Error>,
    },
    /// Neither or both of the ways in which evidence is found.
    #[error(
        "{}: evidence is found by [retrieval] or by a [memory] system; give exactly one of the two",
        .0.display()
    )]
    Means(PathBuf),
    /// A memory system that cannot be run as it is given.
    #[error("{}: memory.{field} {problem}", path.display())]
    Memory {
        /// The file.
        path: PathBuf,
        /// The setting.
        field: &'static str,
        /// What is wrong, and how to mend it.
        problem: String,
    },
    /// Cutoffs that cannot be counted.
    #[error("{}: evidence.cutoffs {cutoffs:?} must ascend from 1 to k, which is {k}", path.display())]
    Cutoffs {
        /// The file.
        path: PathBuf,
        /// As written.
        cutoffs: Vec<usize>,
        /// Items returned.
        k: usize,
    },
    /// A reader, a judge or a limit that cannot be used.
    #[cfg(feature = "remote")]
    #[error("{}: {field} {problem}", path.display())]
    Stage {
        /// The file.
        path: PathBuf,
        /// The setting.
        field: String,
        /// What is wrong, and how to mend it.
        problem: String,
    },
}

impl Experiment {
    /// Reads an experiment, and makes its data's path relative to the working directory.
    ///
    /// # Errors
    /// [`ExperimentError`] names the file and the place in it.
    pub fn read(path: &Path) -> Result<Self, ExperimentError> {
        let text = fs::read_to_string(path).map_err(|source| ExperimentError::Read {
            path: path.to_owned(),
            source,
        })?;
        let mut experiment: Self =
            toml::from_str(&text).map_err(|source| ExperimentError::Parse {
                path: path.to_owned(),
                source: Box::new(source),
            })?;
        if let Some(data) = &mut experiment.data {
            *data = path.parent().unwrap_or(Path::new("")).join(&*data);
        }
        #[cfg(feature = "remote")]
        experiment.settle_stages(path)?;
        let k = match (&experiment.retrieval, &experiment.memory) {
            (Some(settings), None) => settings.k,
            (None, Some(memory)) => {
                memory
                    .check()
                    .map_err(|(field, problem)| ExperimentError::Memory {
                        path: path.to_owned(),
                        field,
                        problem,
                    })?;
                memory.most_items()
            }
            _ => return Err(ExperimentError::Means(path.to_owned())),
        };
        let cutoffs = &experiment.evidence.cutoffs;
        let ascend = cutoffs.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascend || cutoffs.first() == Some(&0) || cutoffs.last().is_some_and(|&last| last > k) {
            let cutoffs = cutoffs.clone();
            return Err(ExperimentError::Cutoffs {
                path: path.to_owned(),
                cutoffs,
                k,
            });
        }
        Ok(experiment)
    }
}
