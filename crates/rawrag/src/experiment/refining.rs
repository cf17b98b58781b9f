//! The sections of an experiment that let a model change the evidence before a reader sees it.

use rawrag_retrieval::Selection;
use serde::{Deserialize, Serialize};

use super::{Called, Experiment, ServiceSettings};

/// The model that chooses among the items retrieved: `[selector]` (003, section 3).
///
/// The shortlist is what `[retrieval]` returns, so `retrieval.k` is its length: 30 in the paper, 150
/// for its wide variant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SelectorSettings {
    /// How it is asked.
    pub by: SelectorKind,
    /// Where it is.
    pub service: ServiceSettings,
    /// Its name there.
    pub model: String,
    /// Items that the reader sees, at most.
    pub k: usize,
    /// What an item's probability must exceed to be kept, from 0 to 1.
    #[serde(default = "half")]
    pub threshold: f64,
    /// How many of the shortlist's first items follow those that are kept.
    #[serde(default = "ten")]
    pub floor: usize,
    /// The paper's wide variant: every item by probability alone, neither threshold nor floor.
    #[serde(default)]
    pub wide: bool,
    /// The most tokens of a reply, where it is text.
    #[serde(default = "thousand")]
    pub max_output: u32,
    /// Questions under way at the same time.
    #[serde(default = "fifty")]
    pub concurrency: usize,
}

/// How a selector is asked for the probability that an item bears on the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SelectorKind {
    /// One typed decision an item, up to thirty in a request (Turns + Jev).
    Decision,
    /// A score for every item, in one reply of a chat model (Turns + LLM).
    Listwise,
    /// The likelihood of yes against no, item by item.
    YesNo,
}

/// The model that takes out of the evidence what does not bear on the question: `[pruner]`
/// (Nano-Memory, query-driven pruning).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrunerSettings {
    /// Where it is.
    pub service: ServiceSettings,
    /// Its name there.
    pub model: String,
    /// How freely it chooses its words.
    #[serde(default)]
    pub temperature: f64,
    /// The most tokens of a reply.
    #[serde(default = "two_thousand")]
    pub max_output: u32,
    /// Questions under way at the same time.
    #[serde(default = "fifty")]
    pub concurrency: usize,
}

impl PrunerSettings {
    /// The model that prunes.
    pub fn called(&self) -> Option<Called<'_>> {
        Some(Called {
            service: &self.service,
            model: &self.model,
        })
    }
}

impl SelectorSettings {
    /// The model that selects.
    pub fn called(&self) -> Option<Called<'_>> {
        Some(Called {
            service: &self.service,
            model: &self.model,
        })
    }

    /// How its probabilities order a shortlist.
    pub fn selection(&self) -> Selection {
        match self.wide {
            true => Selection::wide(),
            false => Selection {
                threshold: Some(self.threshold),
                floor: self.floor,
            },
        }
    }
}

impl Experiment {
    pub(super) fn check_refining(&self) -> Result<(), (String, &'static str)> {
        if let Some(selector) = &self.selector {
            let field = |name: &str| format!("selector.{name}");
            let Some(retrieval) = &self.retrieval else {
                let problem = "chooses among the items of [retrieval], and there is none";
                return Err(("selector".to_owned(), problem));
            };
            if self.evidence.keep_text {
                let problem = "keeps the shortlist's text, and a selector changes what is read; leave \
                               one of them out";
                return Err(("evidence.keep_text".to_owned(), problem));
            }
            if !(1..=retrieval.k).contains(&selector.k) {
                return Err((field("k"), "must be from 1 to retrieval.k, the shortlist"));
            }
            if !(0.0..=1.0).contains(&selector.threshold) {
                return Err((field("threshold"), "must be from 0 to 1"));
            }
            if selector.max_output == 0 || selector.concurrency == 0 {
                return Err((field("concurrency"), "and max_output must be at least 1"));
            }
        }
        if let Some(pruner) = &self.pruner {
            if pruner.max_output == 0 || pruner.concurrency == 0 {
                let problem = "and max_output must be at least 1";
                return Err(("pruner.concurrency".to_owned(), problem));
            }
            if !(0.0..=2.0).contains(&pruner.temperature) {
                return Err(("pruner.temperature".to_owned(), "must be from 0 to 2"));
            }
        }
        Ok(())
    }
}

fn half() -> f64 {
    0.5
}

fn ten() -> usize {
    10
}

fn fifty() -> usize {
    50
}

fn thousand() -> u32 {
    1000
}

fn two_thousand() -> u32 {
    2000
}
