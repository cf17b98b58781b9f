use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Everything that a synthetic data set depends on.
///
/// # TOML
/// ```toml
/// seed = 20270
///
/// [meme]                       # optional
/// episodes = 100               # 1 to 10,000
/// distractor_tokens = 32000    # an episode; 0 by default
///
/// [meme.tasks]                 # optional: of every hundred episodes, how many have the task
/// cas_two_hop = 64
///
/// [meme.domains]               # optional: weights
/// household = 1
/// workshop = 1
/// expedition = 1
///
/// [facts]                      # optional
/// pools = 1
/// facts = 400
/// conflicts = 120
/// single_hop = 50
/// multi_hop = 50
///
/// [labels]                     # optional
/// streams = 1
/// labels = 12
/// demonstrations = 240
/// tests = 60
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// All that is drawn comes from ChaCha8 with this seed, one stream a conversation.
    pub seed: u64,
    /// Episodes in the shape of MEME's.
    pub meme: Option<MemeRecipe>,
    /// Pools of numbered facts.
    pub facts: Option<FactRecipe>,
    /// Streams of labelled lines.
    pub labels: Option<LabelRecipe>,
}

/// Episodes with dependency rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemeRecipe {
    /// How many, 1 to 10,000.
    pub episodes: u32,
    /// Tokens of distractor sessions an episode, at most 10 million. Whole sessions are added
    /// until one more would pass it.
    #[serde(default)]
    pub distractor_tokens: u32,
    /// Which tasks.
    #[serde(default)]
    pub tasks: PerHundred,
    /// The weight of each domain.
    #[serde(default)]
    pub domains: Domains,
}

/// Of every hundred episodes, how many have the task. The first n episodes have n/100 of that,
/// rounded down, spread evenly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PerHundred {
    /// Exact recall.
    pub er: u8,
    /// Aggregation.
    pub agg: u8,
    /// Tracking.
    pub tr: u8,
    /// Deletion.
    pub del: u8,
    /// Cascade over one dependency.
    pub cas: u8,
    /// Cascade over two.
    pub cas_two_hop: u8,
    /// Absence over one dependency.
    pub abs: u8,
    /// Absence over two.
    pub abs_two_hop: u8,
}

impl Default for PerHundred {
    /// MEME's own counts: each task once an episode, 64 cascades and 30 absences over two.
    fn default() -> Self {
        Self {
            er: 100,
            agg: 100,
            tr: 100,
            del: 100,
            cas: 100,
            cas_two_hop: 64,
            abs: 100,
            abs_two_hop: 30,
        }
    }
}

/// The weight of each domain: an episode is of a domain with probability its weight over the sum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Domains {
    /// A household.
    pub household: u16,
    /// A small workshop.
    pub workshop: u16,
    /// An expedition.
    pub expedition: u16,
}

impl Default for Domains {
    fn default() -> Self {
        Self {
            household: 1,
            workshop: 1,
            expedition: 1,
        }
    }
}

/// Numbered facts that contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FactRecipe {
    /// Pools, each a conversation: 1 to 10,000.
    pub pools: u32,
    /// Facts a pool, 24 to 100,000.
    pub facts: u32,
    /// How many of them contradict an earlier one, at most half.
    pub conflicts: u32,
    /// Questions about one fact a pool, at most a quarter of the facts.
    pub single_hop: u32,
    /// Questions about two facts a pool, at most a quarter of the facts.
    pub multi_hop: u32,
}

/// Labelled lines and lines to label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelRecipe {
    /// Streams, each a conversation: 1 to 10,000.
    pub streams: u32,
    /// Labels, numbered from 0: 2 to 1,000.
    pub labels: u32,
    /// Labelled lines a stream: at least 2 a label, at most 100,000.
    pub demonstrations: u32,
    /// Lines to label a stream, 1 to 100,000.
    pub tests: u32,
}

/// Why a recipe cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecipeError {
    /// It is no TOML of this form.
    #[error("{0}")]
    Form(String),
    /// A number is out of range.
    #[error("field {field}: {value} is out of range; give {range}")]
    Range {
        /// The field.
        field: &'static str,
        /// What it says.
        value: u64,
        /// What it may say.
        range: String,
    },
    /// Nothing would be made.
    #[error("the recipe makes nothing; give it a table [meme], [facts] or [labels]")]
    Empty,
}

impl FromStr for Recipe {
    type Err = RecipeError;

    fn from_str(text: &str) -> Result<Self, RecipeError> {
        let recipe: Self = toml::from_str(text).map_err(|e| RecipeError::Form(e.to_string()))?;
        recipe.validate()?;
        Ok(recipe)
    }
}

impl Recipe {
    /// Whether every number is in its range. A recipe that was parsed is.
    ///
    /// # Errors
    /// [`RecipeError::Range`] and [`RecipeError::Empty`].
    pub fn validate(&self) -> Result<(), RecipeError> {
        if self.meme.is_none() && self.facts.is_none() && self.labels.is_none() {
            return Err(RecipeError::Empty);
        }
        if let Some(meme) = &self.meme {
            meme.validate()?;
        }
        if let Some(facts) = &self.facts {
            within("facts.pools", facts.pools, 1, 10_000)?;
            within("facts.facts", facts.facts, 24, 100_000)?;
            within("facts.conflicts", facts.conflicts, 0, facts.facts / 2)?;
            within("facts.single_hop", facts.single_hop, 0, facts.facts / 4)?;
            within("facts.multi_hop", facts.multi_hop, 0, facts.facts / 4)?;
            if facts.single_hop == 0 {
                within("facts.multi_hop", facts.multi_hop, 1, facts.facts / 4)?;
            }
        }
        if let Some(labels) = &self.labels {
            within("labels.streams", labels.streams, 1, 10_000)?;
            within("labels.labels", labels.labels, 2, 1_000)?;
            let least = labels.labels * 2;
            within(
                "labels.demonstrations",
                labels.demonstrations,
                least,
                100_000,
            )?;
            within("labels.tests", labels.tests, 1, 100_000)?;
        }
        Ok(())
    }
}

impl MemeRecipe {
    fn validate(&self) -> Result<(), RecipeError> {
        within("meme.episodes", self.episodes, 1, 10_000)?;
        within(
            "meme.distractor_tokens",
            self.distractor_tokens,
            0,
            10_000_000,
        )?;
        let tasks = &self.tasks;
        let shares = [
            ("meme.tasks.er", tasks.er),
            ("meme.tasks.agg", tasks.agg),
            ("meme.tasks.tr", tasks.tr),
            ("meme.tasks.del", tasks.del),
            ("meme.tasks.cas", tasks.cas),
            ("meme.tasks.cas_two_hop", tasks.cas_two_hop),
            ("meme.tasks.abs", tasks.abs),
            ("meme.tasks.abs_two_hop", tasks.abs_two_hop),
        ];
        for (field, share) in shares {
            within(field, u32::from(share), 0, 100)?;
        }
        let domains = &self.domains;
        let weights = [domains.household, domains.workshop, domains.expedition];
        if weights.iter().all(|&weight| weight == 0) {
            within("meme.domains.household", 0, 1, u32::from(u16::MAX))?;
        }
        Ok(())
    }
}

fn within(field: &'static str, value: u32, least: u32, most: u32) -> Result<(), RecipeError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(RecipeError::Range {
        field,
        value: u64::from(value),
        range: format!("{least} to {most}"),
    })
}
