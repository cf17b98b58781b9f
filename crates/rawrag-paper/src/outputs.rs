use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};

use rawrag_records::{
    Answer, EvidenceItem, History, Judgment, Key, Manifest, RecordError, Retrieval, Run, Search,
};

/// The runs of a folder, each read once.
#[derive(Debug)]
pub struct Runs {
    folder: PathBuf,
    opened: BTreeMap<String, RunState>,
}

/// What stands under a run's name.
#[derive(Debug)]
pub enum RunState {
    /// No folder of that name.
    Missing,
    /// A run whose questions are not all answered.
    Incomplete {
        /// Questions on record.
        found: usize,
        /// Questions the run was begun for.
        expected: usize,
    },
    /// A run with every question on record.
    Complete(Box<Outputs>),
}

/// The records of a complete run.
#[derive(Debug)]
pub struct Outputs {
    /// What the run was.
    pub manifest: Manifest,
    /// Every question, ordered by key, so that sums do not depend on the order of work.
    pub questions: Vec<QuestionRecords>,
    /// The indexed conversations by id.
    pub histories: BTreeMap<String, History>,
}

/// Everything on record about one question.
#[derive(Debug)]
pub struct QuestionRecords {
    /// The question.
    pub key: Key,
    /// The benchmark's type of question.
    pub kind: String,
    /// What was returned for it, where the run retrieves.
    pub retrieval: Option<Retrieval>,
    /// What a memory system returned for it, in the order shown, where the run asks one.
    pub search: Option<(Search, Vec<EvidenceItem>)>,
    /// One a repetition, in their order; none where the run does not answer.
    pub answers: Vec<Answer>,
    /// Ordered by answer, judge and the judge's repetition.
    pub judgments: Vec<Judgment>,
}

impl QuestionRecords {
    fn of(questions: &mut BTreeMap<Key, Self>, key: Key) -> &mut Self {
        questions.entry(key).or_insert_with_key(|key| Self {
            key: key.clone(),
            kind: String::new(),
            retrieval: None,
            search: None,
            answers: Vec::new(),
            judgments: Vec::new(),
        })
    }
}

impl Runs {
    /// The runs found in `folder`, which need not exist.
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            opened: BTreeMap::new(),
        }
    }

    /// Reads a run, or recalls it.
    ///
    /// # Errors
    /// When the run is there but damaged, or holds other questions than it was begun for.
    pub fn open(&mut self, name: &str) -> Result<&RunState, RecordError> {
        Ok(match self.opened.entry(name.to_owned()) {
            Entry::Occupied(held) => held.into_mut(),
            Entry::Vacant(free) => free.insert(read(&self.folder.join(name))?),
        })
    }
}

impl Runs {
    /// A run read before.
    pub(crate) fn opened(&self, name: &str) -> Option<&RunState> {
        self.opened.get(name)
    }

    /// The complete runs opened so far, by name.
    pub fn complete(&self) -> impl Iterator<Item = (&str, &Outputs)> {
        self.opened.iter().filter_map(|(name, state)| match state {
            RunState::Complete(outputs) => Some((name.as_str(), outputs.as_ref())),
            _ => None,
        })
    }
}

fn read(folder: &Path) -> Result<RunState, RecordError> {
    if !folder.exists() {
        return Ok(RunState::Missing);
    }
    let run = Run::open(folder)?;
    let records = match run.read_complete() {
        Err(RecordError::Incomplete {
            found, expected, ..
        }) => {
            return Ok(RunState::Incomplete { found, expected });
        }
        other => other?,
    };
    let histories = records.histories.into_iter();
    Ok(RunState::Complete(Box::new(Outputs {
        manifest: run.manifest().clone(),
        questions: by_question(
            records.retrievals,
            (records.searches, records.evidence),
            records.answers,
            records.judgments,
        ),
        histories: histories.map(|h| (h.conversation.clone(), h)).collect(),
    })))
}

fn by_question(
    retrievals: Vec<Retrieval>,
    (searches, mut evidence): (Vec<Search>, Vec<EvidenceItem>),
    answers: Vec<Answer>,
    judgments: Vec<Judgment>,
) -> Vec<QuestionRecords> {
    let mut questions: BTreeMap<Key, QuestionRecords> = BTreeMap::new();
    for retrieval in retrievals {
        let question = QuestionRecords::of(&mut questions, retrieval.question_key());
        question.kind.clone_from(&retrieval.kind);
        question.retrieval = Some(retrieval);
    }
    for search in searches {
        let question = QuestionRecords::of(&mut questions, search.question_key());
        question.kind.clone_from(&search.kind);
        question.search = Some((search, Vec::new()));
    }
    evidence.sort_by_key(|item| item.rank);
    for item in evidence {
        let question = QuestionRecords::of(&mut questions, item.question_key());
        if let Some((_, items)) = &mut question.search {
            items.push(item);
        }
    }
    for answer in answers {
        let question = QuestionRecords::of(&mut questions, answer.question_key());
        question.kind.clone_from(&answer.kind);
        question.answers.push(answer);
    }
    for judgment in judgments {
        let question = QuestionRecords::of(&mut questions, judgment.question_key());
        question.judgments.push(judgment);
    }
    let mut questions: Vec<QuestionRecords> = questions.into_values().collect();
    for question in &mut questions {
        question.answers.sort_by_key(|answer| answer.repetition);
        question.judgments.sort_by(|a, b| {
            let order = |j: &Judgment| (j.repetition, j.judge_repetition);
            (order(a), &a.judge).cmp(&(order(b), &b.judge))
        });
    }
    questions
}
