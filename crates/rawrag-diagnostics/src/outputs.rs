use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};

use rawrag_records::{
    Answer, Assessment, Complete, Consumption, EvidenceItem, History, Ingestion, Judgment, Key,
    Manifest, Pruning, RecordError, Retrieval, Run, Search, Selection, StoredObject, Timing, Usage,
    WriteDecision,
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
#[derive(Clone, Debug)]
pub struct Outputs {
    /// What the run was.
    pub manifest: Manifest,
    /// Every question, ordered by key, so that sums do not depend on the order of work.
    pub questions: Vec<QuestionRecords>,
    /// The indexed conversations by id.
    pub histories: BTreeMap<String, History>,
    /// What a memory system took in, ordered by conversation and unit.
    pub ingestions: Vec<Ingestion>,
    /// What it keeps, ordered by conversation, phase and its own enumeration.
    pub exports: Vec<StoredObject>,
    /// What it decided about writes, ordered by conversation and number.
    pub decisions: Vec<WriteDecision>,
    /// What it says that it used, ordered by conversation.
    pub consumptions: Vec<Consumption>,
    /// Every attempt at a call to a service, in order.
    pub usage: Vec<Usage>,
    /// Every stage in every process, in order.
    pub timings: Vec<Timing>,
}

/// Everything on record about one question.
#[derive(Clone, Debug)]
pub struct QuestionRecords {
    /// The question.
    pub key: Key,
    /// The benchmark's type of question.
    pub kind: String,
    /// What was returned for it, where the run retrieves.
    pub retrieval: Option<Retrieval>,
    /// What a memory system was asked, where the run asks one.
    pub search: Option<Search>,
    /// What the reader sees, in its order, where that is on record.
    pub evidence: Vec<EvidenceItem>,
    /// What a selector made of the shortlist, where the run has one.
    pub selection: Option<Selection>,
    /// What a pruner left of the evidence, where the run has one.
    pub pruning: Option<Pruning>,
    /// One a repetition, in their order; none where the run does not answer.
    pub answers: Vec<Answer>,
    /// Ordered by answer, judge and the judge's repetition.
    pub judgments: Vec<Judgment>,
    /// Ordered by assessor and repetition.
    pub assessments: Vec<Assessment>,
}

impl QuestionRecords {
    fn of(questions: &mut BTreeMap<Key, Self>, key: Key) -> &mut Self {
        questions.entry(key).or_insert_with_key(|key| Self {
            key: key.clone(),
            kind: String::new(),
            retrieval: None,
            search: None,
            evidence: Vec::new(),
            selection: None,
            pruning: None,
            answers: Vec::new(),
            judgments: Vec::new(),
            assessments: Vec::new(),
        })
    }

    fn sort(&mut self) {
        self.evidence.sort_by_key(|item| item.rank);
        self.answers.sort_by_key(|answer| answer.repetition);
        self.judgments.sort_by(|a, b| {
            let order = |j: &Judgment| (j.repetition, j.judge_repetition);
            (order(a), &a.judge).cmp(&(order(b), &b.judge))
        });
        self.assessments
            .sort_by(|a, b| (&a.assessor, a.repetition).cmp(&(&b.assessor, b.repetition)));
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
    pub fn opened(&self, name: &str) -> Option<&RunState> {
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

impl Outputs {
    /// Reads a complete run.
    ///
    /// # Errors
    /// As [`Run::read_complete`].
    pub fn read(folder: &Path) -> Result<Self, RecordError> {
        let run = Run::open(folder)?;
        let records = run.read_complete()?;
        Ok(Self::of(run.manifest().clone(), records))
    }

    /// The same run with its questions of these kinds alone.
    pub fn of_kinds(&self, kinds: &[String]) -> Self {
        let mut narrowed = self.clone();
        narrowed.questions.retain(|q| kinds.contains(&q.kind));
        narrowed
    }

    /// Records of a run that nobody made, for examples and tests: its manifest says so.
    pub fn made(name: &str, records: Complete) -> Self {
        let manifest = Manifest {
            schema: rawrag_records::SCHEMA_VERSION,
            name: name.to_owned(),
            system: rawrag_records::System {
                name: name.to_owned(),
                version: "made for a test".to_owned(),
            },
            benchmark: "own".to_owned(),
            data: rawrag_records::Data {
                sha256: String::new(),
                release: None,
            },
            expected: rawrag_records::Expected::of(&[]),
            settings: serde_json::json!({}),
            models: BTreeMap::new(),
            prompts: BTreeMap::new(),
            seed: 0,
            code: rawrag_records::Code {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                sources: String::new(),
            },
            machine: rawrag_records::Machine::default(),
            started: "1970-01-01T00:00:00Z".to_owned(),
        };
        Self::of(manifest, records)
    }

    /// The outputs of a run whose records were read before.
    pub fn of(manifest: Manifest, records: Complete) -> Self {
        let Complete {
            retrievals,
            histories,
            searches,
            evidence,
            mut ingestions,
            mut exports,
            mut decisions,
            mut consumptions,
            selections,
            prunings,
            answers,
            judgments,
            assessments,
            usage,
            timings,
        } = records;
        let mut by_key = BTreeMap::new();
        for retrieval in retrievals {
            let question = QuestionRecords::of(&mut by_key, retrieval.question_key());
            question.kind.clone_from(&retrieval.kind);
            question.retrieval = Some(retrieval);
        }
        for search in searches {
            let question = QuestionRecords::of(&mut by_key, search.question_key());
            question.kind.clone_from(&search.kind);
            question.search = Some(search);
        }
        for item in evidence {
            let question = QuestionRecords::of(&mut by_key, item.question_key());
            question.evidence.push(item);
        }
        for selection in selections {
            let question = QuestionRecords::of(&mut by_key, selection.question_key());
            question.selection = Some(selection);
        }
        for pruning in prunings {
            let question = QuestionRecords::of(&mut by_key, pruning.question_key());
            question.pruning = Some(pruning);
        }
        for answer in answers {
            let question = QuestionRecords::of(&mut by_key, answer.question_key());
            question.kind.clone_from(&answer.kind);
            question.answers.push(answer);
        }
        for judgment in judgments {
            let question = QuestionRecords::of(&mut by_key, judgment.question_key());
            question.judgments.push(judgment);
        }
        for assessment in assessments {
            let question = QuestionRecords::of(&mut by_key, assessment.question_key());
            question.assessments.push(assessment);
        }
        let mut questions: Vec<QuestionRecords> = by_key.into_values().collect();
        for question in &mut questions {
            question.sort();
        }
        ingestions.sort_by(|a, b| (&a.conversation, a.unit).cmp(&(&b.conversation, b.unit)));
        exports.sort_by(|a, b| {
            let place = |o: &StoredObject| (o.phase, o.number);
            (&a.conversation, place(a)).cmp(&(&b.conversation, place(b)))
        });
        decisions.sort_by(|a, b| (&a.conversation, a.number).cmp(&(&b.conversation, b.number)));
        consumptions.sort_by(|a, b| a.conversation.cmp(&b.conversation));
        Self {
            manifest,
            questions,
            histories: histories
                .into_iter()
                .map(|h| (h.conversation.clone(), h))
                .collect(),
            ingestions,
            exports,
            decisions,
            consumptions,
            usage,
            timings,
        }
    }
}

fn read(folder: &Path) -> Result<RunState, RecordError> {
    if !folder.exists() {
        return Ok(RunState::Missing);
    }
    match Outputs::read(folder) {
        Ok(outputs) => Ok(RunState::Complete(Box::new(outputs))),
        Err(RecordError::Incomplete {
            found, expected, ..
        }) => Ok(RunState::Incomplete { found, expected }),
        Err(error) => Err(error),
    }
}
