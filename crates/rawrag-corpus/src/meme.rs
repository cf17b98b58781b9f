//! What MEME knows of an episode beyond its history and questions: entities and their values
//! before and after a change, the rules that tie them together, what each question needs, and
//! which message says what.
//!
//! [`load`] reads a MEME release, or a folder of synthetic episodes in the same shape
//! ([`synthetic`](crate::synthetic)), and gives each history with its [`Episode`]. What evidence
//! must hold for a question to be answerable is its [`Contract`] (Raw-RAG, C.1 and G.10).
//!
//! Task names and their meaning: Raw-RAG, Appendix D.1.3.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::conversation::id;
use crate::read::episodes;
use crate::{
    ConversationId, Entry, LoadError, MessagePosition, Phase, QuestionId, Report, SessionPosition,
};

id! {
    /// An entity's id (`commute_method`).
    EntityId
}

impl EntityId {
    /// The id in words (`commute method`).
    pub fn label(&self) -> String {
        self.as_str().replace('_', " ")
    }
}

/// What a question asks of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Task {
    /// Exact recall: a value that never changes, word for word.
    #[serde(rename = "ER")]
    ExactRecall,
    /// Aggregation: the values of several entities.
    #[serde(rename = "Agg")]
    Aggregation,
    /// Tracking: all values that an entity has had, in order.
    #[serde(rename = "Tr")]
    Tracking,
    /// Deletion: a value that the user had removed.
    #[serde(rename = "Del")]
    Deletion,
    /// Cascade: the value that a stated rule gives after something upstream changed.
    #[serde(rename = "Cas")]
    Cascade,
    /// Absence: a value that no longer holds after something upstream changed, with none in its
    /// place.
    #[serde(rename = "Abs")]
    Absence,
}

impl Task {
    /// Every task, in the order of the paper's tables.
    pub const ALL: [Self; 6] = [
        Self::ExactRecall,
        Self::Aggregation,
        Self::Tracking,
        Self::Deletion,
        Self::Cascade,
        Self::Absence,
    ];

    /// MEME's tag, which is the [`Kind`](crate::Kind) of its questions.
    pub fn name(self) -> &'static str {
        match self {
            Self::ExactRecall => "ER",
            Self::Aggregation => "Agg",
            Self::Tracking => "Tr",
            Self::Deletion => "Del",
            Self::Cascade => "Cas",
            Self::Absence => "Abs",
        }
    }

    /// Whether an answer after the change counts only where the one before it was right too.
    pub fn gated(self) -> bool {
        matches!(self, Self::Deletion | Self::Cascade | Self::Absence)
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What an episode is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Episode {
    /// Its history.
    pub conversation: ConversationId,
    /// The release's name for what it is about (`personal_life`).
    pub domain: String,
    /// The entity whose change sets off the rest.
    pub root: EntityId,
    /// Every entity with a value.
    pub entities: BTreeMap<EntityId, Entity>,
    /// The dependencies that hold in it.
    pub edges: Vec<Edge>,
    /// One for each question of the entry, in the same order.
    pub asked: Vec<Asked>,
    /// What is said where, in source order.
    pub statements: Vec<Statement>,
    /// Sessions that hold none of the episode's facts, ascending.
    pub distractors: Vec<SessionPosition>,
}

/// An entity's values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entity {
    /// Before the change: one value, or several.
    pub before: Vec<String>,
    /// After it. Absent where nothing new is stated: the value stands, unless something upstream
    /// of it changed.
    pub after: Option<After>,
    /// All values it has had, in order, where a question asks for them; else empty.
    pub history: Vec<String>,
    /// The entity that it directly depends on, where a question turns on that.
    pub upstream: Option<EntityId>,
    /// How many dependencies lie between it and the root.
    pub hop: Option<u8>,
}

/// What became of an entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum After {
    /// The user had it removed.
    Deleted,
    /// It has these values now.
    Becomes(Vec<String>),
}

/// A dependency: when `source` changes, `target` no longer holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edge {
    /// Upstream.
    pub source: EntityId,
    /// Downstream.
    pub target: EntityId,
    /// Dependencies from the root to `target`: 1 or 2.
    pub hop: u8,
    /// What kind of dependency (`proximity`). Its wording stands in
    /// [`Episode::rule`]'s statements.
    pub pattern: String,
}

/// What one question is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// The question, by phase and id. Before and after the change the same task has the same id.
    pub id: QuestionId,
    /// When it is asked.
    pub phase: Phase,
    /// What it asks.
    pub task: Task,
    /// Dependencies from the root to the target (Cas, Abs).
    pub hop: Option<u8>,
    /// The entities asked about.
    pub targets: Vec<EntityId>,
    /// The values annotated for each target: for Abs and Del after the change the old one, which
    /// is not the answer; for Tr all in order.
    pub values: Vec<Vec<String>>,
    /// The last session that is visible. Nothing later may be used.
    pub last_session: SessionPosition,
}

/// A fact, and the message that says it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// What kind of fact.
    pub kind: StatementKind,
    /// What it is about.
    pub entity: EntityId,
    /// The value that it states: for a deletion the one removed.
    pub value: Option<String>,
    /// The entity that it says `entity` depends on.
    pub upstream: Option<EntityId>,
    /// The session that says it.
    pub session: SessionPosition,
    /// The message that says it, where the file says so.
    pub message: Option<MessagePosition>,
    /// The fact in words: the release's account of it, which need not be the message's.
    pub text: String,
}

/// What a statement does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StatementKind {
    /// Gives an entity its value.
    Value,
    /// Gives an entity another value from now on.
    Change,
    /// Says that an entity depends on another, and nothing else.
    Dependency,
    /// Says in advance what an entity will be once it has to change.
    Replacement,
    /// Asks that an entity be forgotten.
    Deletion,
}

/// An entry with its episode.
#[derive(Clone, Debug, PartialEq)]
pub struct Annotated {
    /// History and questions.
    pub entry: Entry,
    /// What is known of them.
    pub episode: Episode,
}

/// A whole file in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// In source order.
    pub episodes: Vec<Annotated>,
    /// As [`load`](crate::load) gives it.
    pub report: Report,
}

/// How many episodes and questions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Episodes.
    pub episodes: u64,
    /// Questions asked before the change.
    pub before: u64,
    /// Questions asked after it.
    pub after: u64,
}

/// The release with 32k tokens of distractors, and the one with none (Raw-RAG, A.5.2).
pub const RELEASE: Counts = Counts {
    episodes: 100,
    before: 494,
    after: 694,
};

/// Loads a MEME release (`meme_filler32k.json` and its like), or a folder of synthetic episodes.
///
/// # Errors
/// [`LoadError`]: as [`load`](crate::load), and where the file holds histories without episodes.
pub fn load(path: &Path) -> Result<Loaded, LoadError> {
    let crate::Loaded { entries, report } = crate::load(path, None)?;
    let episodes = episodes(path, report.format, entries)?;
    Ok(Loaded { episodes, report })
}

impl Loaded {
    /// What was loaded, to compare with [`RELEASE`].
    pub fn counts(&self) -> Counts {
        let of = |phase| {
            let asked = self.episodes.iter().flat_map(|a| &a.episode.asked);
            asked.filter(|a| a.phase == phase).count() as u64
        };
        Counts {
            episodes: self.episodes.len() as u64,
            before: of(Phase::Before),
            after: of(Phase::After),
        }
    }
}

/// What evidence must hold for a question to be answerable from it (Raw-RAG, C.1, and the
/// evidence contract of G.10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contract {
    /// The task.
    pub task: Task,
    /// The phase.
    pub phase: Phase,
    /// The entities asked about, with every value they have or had.
    pub targets: Vec<Mention>,
    /// The values that must appear: ER and every question before the change the value; Agg all of
    /// them; Tr all, in order; Cas the new one; Abs the old one; Del after the change none.
    pub values: Vec<String>,
    /// The dependencies that must appear, from the root down (Cas and Abs after the change).
    pub rules: Vec<Rule>,
    /// The change that sets them off: the root with its new values (Cas and Abs after the change).
    pub trigger: Option<Mention>,
}

/// An entity as text may name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    /// In words.
    pub label: String,
    /// Its values.
    pub values: Vec<String>,
}

/// A dependency as text may state it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Upstream.
    pub source: Mention,
    /// Downstream.
    pub target: Mention,
    /// The wordings annotated for it.
    pub said: Vec<String>,
}

impl Episode {
    /// The statements that say that `edge` holds.
    pub fn rule<'a>(&'a self, edge: &'a Edge) -> impl Iterator<Item = &'a Statement> + 'a {
        self.statements.iter().filter(|statement| {
            statement.entity == edge.target && statement.upstream.as_ref() == Some(&edge.source)
        })
    }

    /// The dependencies between the root and `target`, from the root down. Empty where none is
    /// known.
    pub fn chain(&self, target: &EntityId) -> Vec<&Edge> {
        let mut chain = Vec::new();
        let mut at = target;
        while *at != self.root
            && chain.len() < self.edges.len()
            && let Some(edge) = self.edges.iter().find(|edge| edge.target == *at)
        {
            chain.push(edge);
            at = &edge.source;
        }
        chain.reverse();
        chain
    }

    /// The statements that answer a question: visible when it is asked, in source order.
    pub fn support(&self, asked: &Asked) -> Vec<&Statement> {
        use StatementKind::{Change, Deletion, Replacement, Value};
        let after = asked.phase == Phase::After;
        let chain: Vec<&Edge> = match asked.task {
            Task::Cascade | Task::Absence if after => {
                asked.targets.iter().flat_map(|t| self.chain(t)).collect()
            }
            _ => Vec::new(),
        };
        let valued = |s: &Statement| {
            let annotated = asked.targets.iter().zip(&asked.values);
            annotated.into_iter().any(|(target, values)| {
                s.entity == *target && s.value.as_ref().is_none_or(|value| values.contains(value))
            })
        };
        let answers = |s: &&Statement| {
            let on_chain = || {
                (s.kind == Change && s.entity == self.root)
                    || chain.iter().any(|edge| {
                        s.entity == edge.target && s.upstream.as_ref() == Some(&edge.source)
                    })
            };
            s.session <= asked.last_session
                && match asked.task {
                    Task::Deletion if after => {
                        s.kind == Deletion && asked.targets.contains(&s.entity)
                    }
                    Task::Cascade if after => (s.kind == Replacement && valued(s)) || on_chain(),
                    Task::Absence if after => (s.kind == Value && valued(s)) || on_chain(),
                    _ => matches!(s.kind, Value | Change) && valued(s),
                }
        };
        self.statements.iter().filter(answers).collect()
    }

    /// What evidence must hold to answer a question.
    pub fn contract(&self, asked: &Asked) -> Contract {
        let changed =
            asked.phase == Phase::After && matches!(asked.task, Task::Cascade | Task::Absence);
        let rules = if changed {
            let chains = asked.targets.iter().flat_map(|target| self.chain(target));
            chains.map(|edge| self.stated(edge)).collect()
        } else {
            Vec::new()
        };
        let removed = asked.phase == Phase::After && asked.task == Task::Deletion;
        Contract {
            task: asked.task,
            phase: asked.phase,
            targets: asked.targets.iter().map(|t| self.mention(t)).collect(),
            values: if removed {
                Vec::new()
            } else {
                asked.values.concat()
            },
            rules,
            trigger: changed.then(|| Mention {
                label: self.root.label(),
                values: match self.entities.get(&self.root).map(|root| &root.after) {
                    Some(Some(After::Becomes(values))) => values.clone(),
                    _ => Vec::new(),
                },
            }),
        }
    }

    fn stated(&self, edge: &Edge) -> Rule {
        Rule {
            source: self.mention(&edge.source),
            target: self.mention(&edge.target),
            said: self.rule(edge).map(|s| s.text.clone()).collect(),
        }
    }

    fn mention(&self, id: &EntityId) -> Mention {
        let mut values = Vec::new();
        if let Some(entity) = self.entities.get(id) {
            values.extend(entity.before.iter().chain(&entity.history).cloned());
            if let Some(After::Becomes(after)) = &entity.after {
                values.extend(after.iter().cloned());
            }
        }
        let mut seen = std::collections::HashSet::new();
        values.retain(|value| seen.insert(value.clone()));
        Mention {
            label: id.label(),
            values,
        }
    }
}
