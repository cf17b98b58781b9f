//! Which row is about which question.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use rawrag_corpus::{Gold, LoadError, Phase};
use rawrag_records::Key;

use crate::ImportError;
use crate::report::{Missing, Notes, Oddity};
use crate::results::trailing_number;
use crate::row::{Row, short};

/// The questions of a benchmark file, in its order.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    pub(crate) all: Vec<Question>,
    /// Conversation ids, by position.
    conversations: Vec<String>,
}

/// A question as rows may name it.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) key: Key,
    pub(crate) kind: String,
    pub(crate) excluded: bool,
    text: String,
    gold: Option<String>,
    /// Position of its conversation in the file.
    conversation: usize,
    /// Its position in the conversation.
    index: usize,
}

impl Questions {
    /// The questions of a benchmark file, and the report on it.
    pub(crate) fn read(path: &Path) -> Result<(Self, rawrag_corpus::Report), LoadError> {
        let mut questions = Self::default();
        let report = rawrag_corpus::read::<LoadError>(path, None, |entry| {
            let conversation = questions.conversations.len();
            questions
                .conversations
                .push(entry.conversation.id.to_string());
            let each = (0..).zip(entry.questions);
            questions.all.extend(each.map(|(index, question)| Question {
                key: key(&question),
                kind: question.kind.to_string(),
                excluded: false,
                gold: question.gold.as_ref().map(gold),
                text: question.text,
                conversation,
                index,
            }));
            Ok(())
        })?;
        Ok((questions, report))
    }

    /// The questions that rows are about, where only they say what was asked.
    pub(crate) fn of_rows(rows: &[Row], benchmark: &str) -> Self {
        let mut questions = Self::default();
        let mut seen = BTreeSet::new();
        for row in rows {
            let name = row.conversation.clone().unwrap_or_default();
            let id = row.id.clone().unwrap_or_default();
            if !seen.insert((row.source.clone(), name.clone(), id.clone())) {
                continue;
            }
            let known = questions.conversations.iter().position(|c| *c == name);
            let conversation = known.unwrap_or_else(|| {
                questions.conversations.push(name.clone());
                questions.conversations.len() - 1
            });
            let same = |q: &&Question| q.conversation == conversation;
            questions.all.push(Question {
                index: questions.all.iter().filter(same).count(),
                key: Key {
                    benchmark: benchmark.to_owned(),
                    source: row.source.clone(),
                    conversation: name,
                    question: id,
                    phase: None,
                },
                kind: row.source.clone().unwrap_or_default(),
                excluded: false,
                text: row.question.clone().unwrap_or_default(),
                gold: row.gold.clone(),
                conversation,
            });
        }
        questions
    }

    /// Every question with its text and gold answer, for a hash of what was asked.
    pub(crate) fn content(&self) -> impl Iterator<Item = (&Key, &str, Option<&str>)> {
        self.all
            .iter()
            .map(|q| (&q.key, q.text.as_str(), q.gold.as_deref()))
    }

    /// Marks the questions of a kind, or the one of an id, as excluded.
    pub(crate) fn exclude(&mut self, name: &str) -> Result<(), ImportError> {
        let mut found = false;
        for question in &mut self.all {
            if question.kind == name || question.key.question == name {
                (question.excluded, found) = (true, true);
            }
        }
        if found {
            return Ok(());
        }
        let kinds: BTreeSet<&str> = self.all.iter().map(|q| q.kind.as_str()).collect();
        Err(ImportError::UnknownExclusion {
            name: name.to_owned(),
            kinds: kinds.into_iter().collect::<Vec<_>>().join(", "),
        })
    }

    /// The row of every question, by the question's position: none where it is excluded or has no
    /// row.
    ///
    /// # Errors
    /// [`ImportError::Conflict`] when two rows say different things of one question, and
    /// [`ImportError::NothingJoined`] when no row is about any.
    pub(crate) fn join(
        &self,
        path: &Path,
        rows: &[Row],
        notes: &mut Notes,
    ) -> Result<Vec<Option<usize>>, ImportError> {
        let mut join = Join {
            questions: self,
            by_text: HashMap::new(),
            by_id: HashMap::new(),
            rows,
            row_of: vec![None; self.all.len()],
        };
        for (at, question) in self.all.iter().enumerate() {
            join.by_text.entry(&question.text).or_default().push(at);
            join.by_id
                .entry(&question.key.question)
                .or_default()
                .push(at);
        }
        let positions = join.positions(notes);
        let mut unknown = 0;
        for (at, position) in positions.into_iter().enumerate() {
            let Some(row) = rows.get(at) else { continue };
            match join.question_of(row, position, notes) {
                Some(question) => join.take(path, question, at, notes)?,
                None => unknown += 1,
            }
        }
        if unknown == rows.len() {
            let example = |row: &Row| {
                let asked = row.question.as_ref().or(row.id.as_ref());
                let asked = asked.map(|text| short(text));
                format!("{} asks: {}", row.place, asked.unwrap_or_default())
            };
            return Err(ImportError::NothingJoined {
                path: path.to_owned(),
                rows: rows.len(),
                example: rows.first().map(example).unwrap_or_default(),
            });
        }
        Ok(join.row_of)
    }

    /// Adds the questions that have no row to those missing.
    pub(crate) fn add_missing(
        &self,
        row_of: &[Option<usize>],
        missing: &mut BTreeMap<String, Missing>,
    ) {
        for (question, row) in self.all.iter().zip(row_of) {
            if !question.excluded && row.is_none() {
                let of_kind = missing.entry(question.kind.clone()).or_default();
                of_kind.add(&question.key.question);
            }
        }
    }
}

struct Join<'a> {
    questions: &'a Questions,
    by_text: HashMap<&'a str, Vec<usize>>,
    by_id: HashMap<&'a str, Vec<usize>>,
    rows: &'a [Row],
    row_of: Vec<Option<usize>>,
}

/// Where a row stands among its conversation's questions.
#[derive(Clone, Copy, Default)]
struct Position {
    conversation: Option<usize>,
    index: Option<usize>,
}

impl<'a> Join<'a> {
    /// The question that a row is about, by its id, else by its text, else by its position.
    fn question_of(&self, row: &Row, position: Position, notes: &mut Notes) -> Option<usize> {
        let named = row.id.as_deref().and_then(|id| self.by_id.get(id));
        let found = match (named, &row.question) {
            (Some(named), _) => named
                .iter()
                .copied()
                .find(|&at| self.fits(row, position, at)),
            (None, Some(text)) => match self.by_text.get(text.as_str()) {
                Some(same) => self.one_of(same, row, position, notes)?,
                None => None,
            },
            (None, None) => None,
        };
        let found = found.or_else(|| self.by_position(row, position, notes));
        if found.is_none() {
            let asked = row.question.as_ref().or(row.id.as_ref());
            let asked = asked.map(|text| short(text)).unwrap_or_default();
            notes.add_detail(Oddity::RowUnknown, &row.place, asked);
        }
        found
    }

    /// Which of the questions of one text a row is about: `None` if that cannot be told,
    /// `Some(None)` if it is about none of them.
    #[expect(clippy::option_option, reason = "undecided is not the same as none")]
    fn one_of(
        &self,
        same: &[usize],
        row: &Row,
        position: Position,
        notes: &mut Notes,
    ) -> Option<Option<usize>> {
        let fitting = |&at: &usize| self.fits(row, position, at);
        let places: Vec<usize> = same.iter().copied().filter(fitting).collect();
        let narrow = |places: Vec<usize>, fits: &dyn Fn(usize, &Question) -> bool| {
            let fitting = |&at: &usize| self.questions.all.get(at).is_some_and(|q| fits(at, q));
            let narrowed: Vec<usize> = places.iter().copied().filter(fitting).collect();
            if narrowed.is_empty() {
                places
            } else {
                narrowed
            }
        };
        let gold = row.gold.as_deref();
        let mut places = narrow(places, &|_, q| q.gold.as_deref() == gold);
        places = narrow(places, &|_, q| Some(q.kind.as_str()) == row.kind);
        places = narrow(places, &|_, q| Some(q.index) == position.index);
        places = narrow(places, &|at, _| self.row_of.get(at) == Some(&None));
        let Some(&first) = places.first() else {
            return Some(None);
        };
        let question = self.questions.all.get(first)?;
        let alike = |&at: &usize| {
            self.questions.all.get(at).is_some_and(|other| {
                (other.conversation, &other.gold, &other.kind)
                    == (question.conversation, &question.gold, &question.kind)
            })
        };
        if !places.iter().all(alike) {
            notes.add(Oddity::RowAmbiguous, &row.place);
            return None;
        }
        let differs = |a: Option<usize>| a.is_some_and(|a| a != question.index);
        if differs(position.index) {
            let detail = format!("joined to {}", question.key.question);
            notes.add_detail(Oddity::IndexDiffers, &row.place, detail);
        } else if places.len() > 1 {
            let detail = format!("taken for {}", question.key.question);
            notes.add_detail(Oddity::QuestionRepeated, &row.place, detail);
        }
        if gold.is_some() && question.gold.as_deref() != gold {
            notes.add(Oddity::GoldDiffers, &row.place);
        }
        if row.kind.is_some_and(|kind| kind != question.kind) {
            notes.add(Oddity::CategoryDiffers, &row.place);
        }
        Some(Some(first))
    }

    /// The question at the row's position, if it is of the row's kind and nearly its text.
    fn by_position(&self, row: &Row, position: Position, notes: &mut Notes) -> Option<usize> {
        let text = row.question.as_deref()?;
        let (at, question) = self
            .questions
            .all
            .iter()
            .enumerate()
            .find(|(_, question)| {
                Some(question.conversation) == position.conversation
                    && Some(question.index) == position.index
            })?;
        let of_kind = row.kind.is_none_or(|kind| kind == question.kind);
        let free = self.row_of.get(at) == Some(&None);
        if !of_kind || !free || !alike(&question.text, text) {
            return None;
        }
        let id = &question.key.question;
        let detail = format!("joined to {id}: {}", short(text));
        notes.add_detail(Oddity::TextDiffers, &row.place, detail);
        Some(at)
    }

    /// Whether a question is of the row's conversation and source, as far as the row names them.
    fn fits(&self, row: &Row, position: Position, at: usize) -> bool {
        self.questions.all.get(at).is_some_and(|question| {
            position
                .conversation
                .is_none_or(|conversation| conversation == question.conversation)
                && (row.source.is_none() || row.source == question.key.source)
        })
    }

    /// Gives a question its row.
    fn take(
        &mut self,
        path: &Path,
        at: usize,
        row_at: usize,
        notes: &mut Notes,
    ) -> Result<(), ImportError> {
        let (Some(question), Some(held), Some(row)) = (
            self.questions.all.get(at),
            self.row_of.get_mut(at),
            self.rows.get(row_at),
        ) else {
            return Ok(());
        };
        if question.excluded {
            notes.add_detail(
                Oddity::RowExcluded,
                &row.place,
                question.key.question.clone(),
            );
            return Ok(());
        }
        let earlier = held.and_then(|earlier| self.rows.get(earlier));
        match earlier {
            None => *held = Some(row_at),
            Some(earlier) if (&earlier.answer, &earlier.grades) == (&row.answer, &row.grades) => {
                let id = question.key.question.clone();
                notes.add_detail(Oddity::RowRepeated, &row.place, id);
            }
            Some(earlier) => {
                return Err(ImportError::Conflict {
                    path: path.to_owned(),
                    question: question.key.question.clone(),
                    first: earlier.place.clone(),
                    second: row.place.clone(),
                });
            }
        }
        Ok(())
    }

    /// The position of every row. A row without a number of its own has one if its conversation
    /// has as many rows as questions of the kinds that the rows are of.
    fn positions(&self, notes: &mut Notes) -> Vec<Position> {
        let mut members: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, row) in self.rows.iter().enumerate() {
            if let Some(name) = &row.conversation {
                members.entry(name).or_default().push(at);
            }
        }
        let mut positions = vec![Position::default(); self.rows.len()];
        for (name, members) in members {
            let Some(conversation) = self.conversation(name) else {
                notes.add(Oddity::ConversationUnknown, name);
                continue;
            };
            let rows: Vec<&Row> = members.iter().filter_map(|&at| self.rows.get(at)).collect();
            let kinds: BTreeSet<&str> = rows.iter().filter_map(|row| row.kind).collect();
            let indices: Vec<usize> = self
                .questions
                .all
                .iter()
                .filter(|q| q.conversation == conversation)
                .filter(|q| kinds.is_empty() || kinds.contains(q.kind.as_str()))
                .map(|q| q.index)
                .collect();
            let aligned = indices.len() == members.len();
            for (nth, (at, row)) in members.iter().zip(rows).enumerate() {
                let nth = indices.get(nth).copied().filter(|_| aligned);
                if let Some(position) = positions.get_mut(*at) {
                    position.conversation = Some(conversation);
                    position.index = row.index.or(nth);
                }
            }
        }
        positions
    }

    /// A conversation by its id, or by the number that its name ends with.
    fn conversation(&self, name: &str) -> Option<usize> {
        let conversations = &self.questions.conversations;
        let by_id = conversations.iter().position(|id| id == name);
        by_id.or_else(|| trailing_number(name).filter(|&number| number < conversations.len()))
    }
}

fn key(question: &rawrag_corpus::Question) -> Key {
    Key {
        benchmark: question.benchmark.name().to_owned(),
        source: question.source.clone(),
        conversation: question.conversation.to_string(),
        question: question.id.to_string(),
        phase: question.phase.map(|phase| match phase {
            Phase::Before => rawrag_records::Phase::Before,
            Phase::After => rawrag_records::Phase::After,
        }),
    }
}

fn gold(gold: &Gold) -> String {
    match gold {
        Gold::Answer(answer)
        | Gold::Adversarial {
            answer: Some(answer),
            ..
        } => answer.to_string(),
        Gold::Adversarial { lure, .. } => lure.clone(),
        Gold::Abstention { explanation } => explanation.clone(),
        Gold::Choice { option } => option.to_string(),
        Gold::Rubric { points, .. } => points.join("\n"),
    }
}

/// Whether two texts share at least half of their words: a changed name, spelling or punctuation
/// mark, not another question.
fn alike(a: &str, b: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        let parts = text.split(|c: char| !c.is_alphanumeric());
        let words = parts.filter(|word| !word.is_empty());
        words.map(str::to_lowercase).collect()
    };
    let (a, mut b) = (words(a), words(b));
    let total = a.len() + b.len();
    let mut shared = 0;
    for word in &a {
        if let Some(at) = b.iter().position(|other| other == word) {
            b.swap_remove(at);
            shared += 1;
        }
    }
    4 * shared >= total && shared > 0
}
