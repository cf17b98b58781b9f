//! Histories made by a generator, with questions whose answers are known by construction.
//!
//! Three families, after the shapes of published benchmarks and with none of their text:
//! - **meme**: episodes with dependency rules, asked before and after a change ([`episodes`]);
//! - **fact-consolidation**: numbered facts that contradict each other ([`fact_pools`]);
//! - **in-context-classification**: labelled lines and lines to label ([`label_streams`]).
//!
//! A [`Recipe`] fixes everything: the same recipe gives the same bytes on every machine, and the
//! n-th conversation is the same however many there are. [`check`] proves of one conversation
//! that its gold answers can be reached from its text alone and stand nowhere that they should
//! not. [`answer_from`] is a reader that knows the sentences of the generator and nothing else:
//! with it, how often a system's evidence suffices and how often it is used well are known
//! numbers, which an estimate can be held against.
//!
//! Nothing here can be taken for a benchmark: every conversation id begins with `synthetic-`, and
//! every question belongs to [`Benchmark::Synthetic`](crate::Benchmark::Synthetic). What is
//! generated, and what is guaranteed, stands in `docs/synthetic.md`.
//!
//! ```
//! use rawrag_corpus::synthetic::{self, Recipe};
//!
//! let recipe: Recipe = "seed = 7\n[meme]\nepisodes = 2".parse().unwrap();
//! let made = synthetic::episodes(&recipe, &synthetic::quarter_of_characters).unwrap();
//! for episode in made {
//!     synthetic::check_episode(&episode).unwrap();
//!     for question in &episode.entry.questions {
//!         println!("{}: {}", question.kind, question.text);
//!     }
//! }
//! ```

mod check;
mod distractors;
mod domains;
mod draws;
mod episode;
mod facts;
mod labels;
mod reader;
mod recipe;
mod sentences;
mod write;

pub use check::{Flaw, check, check_episode};
pub use reader::{Reader, Reply, answer_from, is_right};
pub use recipe::{FactRecipe, LabelRecipe, MemeRecipe, PerHundred, Recipe, RecipeError};
pub use write::{WriteError, write};

use crate::meme::Annotated;
use crate::{ConversationId, Entry};

/// The file beside the history that holds what is known of each episode.
pub(crate) const EPISODES: &str = "episodes.json";

/// A family of synthetic tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Episodes with dependency rules.
    Meme,
    /// Numbered facts that contradict each other.
    FactConsolidation,
    /// Labelled lines and lines to label.
    InContextClassification,
}

impl Family {
    /// Every family.
    pub const ALL: [Self; 3] = [
        Self::Meme,
        Self::FactConsolidation,
        Self::InContextClassification,
    ];

    /// The source of its questions.
    pub fn source(self) -> &'static str {
        match self {
            Self::Meme => "meme",
            Self::FactConsolidation => "fact-consolidation",
            Self::InContextClassification => "in-context-classification",
        }
    }

    /// The family that a conversation says it is of, if it is synthetic.
    pub fn of(conversation: &ConversationId) -> Option<Self> {
        let name = conversation.as_str().strip_prefix("synthetic-")?;
        let is_of = |family: &Self| {
            let rest = name.strip_prefix(family.source());
            rest.is_some_and(|rest| rest.starts_with('-'))
        };
        Self::ALL.into_iter().find(is_of)
    }

    /// The id of a conversation of this family.
    fn conversation(self, index: u32, name: &str) -> ConversationId {
        ConversationId::from(format!("synthetic-{}-{name}-{index:05}", self.source()))
    }
}

/// The episodes of a recipe, made as they are asked for.
///
/// `count` counts the tokens of a text: distractor sessions are added until one more would pass
/// the recipe's budget. It decides nothing else.
///
/// # Errors
/// As [`Recipe::validate`].
pub fn episodes<'a>(
    recipe: &'a Recipe,
    count: &'a dyn Fn(&str) -> usize,
) -> Result<impl Iterator<Item = Annotated> + 'a, RecipeError> {
    recipe.validate()?;
    Ok(recipe.meme.iter().flat_map(move |meme| {
        (0..meme.episodes).map(move |index| episode::make(meme, recipe.seed, index, count))
    }))
}

/// The fact pools of a recipe, made as they are asked for.
///
/// # Errors
/// As [`Recipe::validate`].
pub fn fact_pools(recipe: &Recipe) -> Result<impl Iterator<Item = Entry> + '_, RecipeError> {
    recipe.validate()?;
    Ok(recipe
        .facts
        .iter()
        .flat_map(|facts| (0..facts.pools).map(|index| facts::make(facts, recipe.seed, index))))
}

/// The classification streams of a recipe, made as they are asked for.
///
/// # Errors
/// As [`Recipe::validate`].
pub fn label_streams(recipe: &Recipe) -> Result<impl Iterator<Item = Entry> + '_, RecipeError> {
    recipe.validate()?;
    Ok(recipe.labels.iter().flat_map(|labels| {
        (0..labels.streams).map(|index| labels::make(labels, recipe.seed, index))
    }))
}

/// A quarter of the characters, rounded up: a count of tokens that needs no tokenizer.
pub fn quarter_of_characters(text: &str) -> usize {
    text.chars().count().div_ceil(4)
}
