use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use rawrag_records::{
    Answer, AnswerOutcome, Code, Data, Expected, Import, ImportedFile, Judgment, JudgmentOutcome,
    Key, Machine, Manifest, Model, RecordError, Run, SCHEMA_VERSION, System,
};
use sha2::{Digest, Sha256};

use crate::join::{Question, Questions};
use crate::lines::{self, hex};
use crate::report::{Notes, Oddity, Report};
use crate::results::{self, Part};
use crate::row::{Grade, Results, Row};
use crate::{Format, ImportError};

/// What [`import`] works on.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// Result files of one format, each a repetition. A file of Zep's responses goes with the
    /// grades and is none.
    pub files: &'a [PathBuf],
    /// Their format; told from the content unless named.
    pub format: Option<Format>,
    /// The file that holds the questions.
    pub benchmark_file: Option<&'a Path>,
    /// The system's name in tables.
    pub system: &'a str,
    /// The run's folder, which must not be there yet. Its name is the run's.
    pub folder: &'a Path,
    /// Whether answers and replies are kept as text.
    pub text: bool,
    /// Kinds and ids of questions that the files leave out on purpose.
    pub exclude: &'a [String],
}

/// A run that was made from result files.
#[derive(Debug)]
pub struct Imported {
    /// The run, complete if the report says so.
    pub run: Run,
    /// What was read and what was odd.
    pub report: Report,
}

/// The judge of a file that does not say who graded.
const UNNAMED: &str = "not named";

/// Reads result files and writes them as a run.
///
/// A question that no row is about is missing: the run is then written, and incomplete.
///
/// # Errors
/// [`ImportError`], and then there is no run.
pub fn import(job: &Job<'_>) -> Result<Imported, ImportError> {
    if job.folder.exists() {
        return Err(ImportError::Exists(job.folder.to_owned()));
    }
    let mut notes = Notes::default();
    let files = Files::read(job, &mut notes)?;
    let (mut questions, data) = questions(job, &files)?;
    for name in job.exclude {
        questions.exclude(name)?;
    }
    let mut missing = BTreeMap::new();
    let mut records = Records::default();
    for (repetition, (path, results)) in (0..).zip(&files.results) {
        notes.file = (files.results.len() > 1).then(|| name(path));
        let row_of = questions.join(path, &results.rows, &mut notes)?;
        questions.add_missing(&row_of, &mut missing);
        for (question, row) in questions.all.iter().zip(row_of) {
            if let Some(row) = row.and_then(|at| results.rows.get(at)) {
                records.add(question, row, repetition, results, job.text);
            }
        }
    }
    notes.file = None;
    records.note_uneven(&mut notes);
    let report = Report {
        format: files.format,
        rows: files.results.iter().map(|(_, r)| r.rows.len()).sum(),
        joined: records.answers.len(),
        repetitions: files.results.len(),
        questions: questions.all.iter().filter(|q| !q.excluded).count(),
        excluded: questions.all.iter().filter(|q| q.excluded).count(),
        missing,
        answers: tally(records.answers.iter().map(|a| word(&a.outcome))),
        judgments: tally(records.judgments.iter().map(|j| word(&j.outcome))),
        questions_from_results: job.benchmark_file.is_none(),
        oddities: notes.oddities,
    };
    let manifest = manifest(job, &files, &questions, &records, &report, data);
    Ok(Imported {
        run: write(job.folder, manifest, &records)?,
        report,
    })
}

/// The result files as read.
struct Files {
    format: Format,
    read: Vec<ImportedFile>,
    /// Those that hold rows, with where they are.
    results: Vec<(PathBuf, Results)>,
}

impl Files {
    fn read(job: &Job<'_>, notes: &mut Notes) -> Result<Self, ImportError> {
        let mut first: Option<(&PathBuf, Format)> = None;
        let (mut read, mut results, mut responses) = (Vec::new(), Vec::new(), Vec::new());
        for path in job.files {
            notes.file = (job.files.len() > 1).then(|| name(path));
            let (text, sha256) = lines::load(path)?;
            let (format, part) = lines::read(path, &text, job.format, notes)?;
            let (earlier, expected) = *first.get_or_insert((path, format));
            if format != expected {
                return Err(ImportError::Mixed {
                    path: earlier.clone(),
                    first: expected,
                    other: path.clone(),
                    second: format,
                });
            }
            read.push(ImportedFile {
                name: name(path),
                sha256,
            });
            match part {
                Part::Results(of_file) => results.push((path.clone(), of_file)),
                Part::Responses(of_file) => responses.push((path, of_file)),
            }
        }
        let Some((_, format)) = first else {
            return Err(ImportError::NoFiles);
        };
        for (path, of_file) in responses {
            notes.file = Some(name(path));
            match results.as_mut_slice() {
                [(_, graded)] => results::add_responses(&mut graded.rows, of_file, notes),
                _ => return Err(ImportError::ResponsesAlone(path.clone())),
            }
        }
        Ok(Self {
            format,
            read,
            results,
        })
    }

    /// What all files say of their reader, judge or endpoint, if they agree.
    fn agreed(&self, of: impl Fn(&Results) -> &Option<String>) -> Option<String> {
        let all: BTreeSet<&Option<String>> = self.results.iter().map(|(_, r)| of(r)).collect();
        match all.into_iter().collect::<Vec<_>>().as_slice() {
            [Some(only)] => Some(only.clone()),
            _ => None,
        }
    }
}

/// The questions, and what identifies them.
fn questions(job: &Job<'_>, files: &Files) -> Result<(Questions, Data), ImportError> {
    let format = files.format;
    let benchmark = format.benchmark();
    match (job.benchmark_file, files.results.first()) {
        (Some(path), _) => {
            let (questions, report) = Questions::read(path)?;
            if report.benchmark() != benchmark {
                return Err(ImportError::OtherBenchmark {
                    path: path.to_owned(),
                    found: report.benchmark(),
                    format,
                    expected: benchmark,
                });
            }
            let data = Data {
                sha256: report.hash.to_string(),
                release: report.known.map(str::to_owned),
            };
            Ok((questions, data))
        }
        (None, Some((_, results))) if format.stands_alone() => {
            let questions = Questions::of_rows(&results.rows, benchmark.name());
            let data = Data {
                sha256: hash(&questions),
                release: None,
            };
            Ok((questions, data))
        }
        _ => Err(ImportError::NeedsBenchmark { format, benchmark }),
    }
}

/// Identifies what was asked, whoever answered it.
fn hash(questions: &Questions) -> String {
    let mut lines: Vec<String> = questions
        .content()
        .map(|(key, text, gold)| serde_json::json!([key, text, gold]).to_string())
        .collect();
    lines.sort_unstable();
    let mut hash = Sha256::new();
    for line in lines {
        hash.update(line);
        hash.update(b"\n");
    }
    hex(&hash.finalize())
}

#[derive(Default)]
struct Records {
    answers: Vec<Answer>,
    judgments: Vec<Judgment>,
}

impl Records {
    fn add(&mut self, question: &Question, row: &Row, repetition: u32, file: &Results, text: bool) {
        let Key {
            benchmark,
            source,
            conversation,
            question: id,
            phase,
        } = &question.key;
        let written = row.answer.text.as_deref();
        self.answers.push(Answer {
            benchmark: benchmark.clone(),
            source: source.clone(),
            conversation: conversation.clone(),
            question: id.clone(),
            phase: *phase,
            kind: question.kind.clone(),
            repetition,
            outcome: match written {
                None => AnswerOutcome::Failed,
                Some(written) if written.trim().is_empty() => AnswerOutcome::Empty,
                Some(_) => AnswerOutcome::Answered,
            },
            text: row.answer.text.clone().filter(|_| text),
            words: written.map(|written| written.split_whitespace().count() as u32),
            error: row.answer.error.clone().filter(|_| text),
            model: file.reader.clone(),
            prompt_sha256: None,
            input_tokens: None,
            output_tokens: None,
            milliseconds: row.answer.milliseconds,
        });
        for (judge_repetition, grade) in (0..).zip(&row.grades) {
            self.judgments.push(Judgment {
                benchmark: benchmark.clone(),
                source: source.clone(),
                conversation: conversation.clone(),
                question: id.clone(),
                phase: *phase,
                kind: question.kind.clone(),
                repetition,
                judge: judge(grade, file),
                judge_repetition,
                outcome: grade.outcome,
                score: grade.score,
                reply: grade.reply.clone().filter(|_| text),
                error: match grade.outcome {
                    JudgmentOutcome::Failed => Some("the file holds no label".to_owned()),
                    _ => None,
                },
                prompt_sha256: None,
            });
        }
    }

    /// How often each judge grades an answer: as often as it grades the answer it grades most.
    fn judges(&self) -> BTreeMap<String, u32> {
        let mut judges = BTreeMap::new();
        for judgment in &self.judgments {
            let most = judges.entry(judgment.judge.clone()).or_default();
            *most = u32::max(*most, judgment.judge_repetition + 1);
        }
        judges
    }

    fn note_uneven(&self, notes: &mut Notes) {
        let wanted: usize = self.judges().values().map(|&most| most as usize).sum();
        let mut judgments: BTreeMap<(Key, u32), usize> = BTreeMap::new();
        for judgment in &self.judgments {
            let answer = (judgment.question_key(), judgment.repetition);
            *judgments.entry(answer).or_default() += 1;
        }
        for answer in &self.answers {
            let held = judgments.get(&(answer.question_key(), answer.repetition));
            if held.copied().unwrap_or_default() < wanted {
                notes.add(Oddity::JudgmentsUneven, &answer.question);
            }
        }
    }
}

fn judge(grade: &Grade, file: &Results) -> String {
    let named = grade.judge.as_ref().or(file.judge.as_ref());
    named.map_or_else(|| UNNAMED.to_owned(), Clone::clone)
}

fn tally(outcomes: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for outcome in outcomes {
        *counts.entry(outcome).or_default() += 1;
    }
    counts
}

/// An outcome as records spell it.
fn word(outcome: &impl serde::Serialize) -> String {
    match serde_json::to_value(outcome) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

/// The sources that decide what an import's records say.
const SOURCES: [&str; 5] = [
    include_str!("join.rs"),
    include_str!("lines.rs"),
    include_str!("results.rs"),
    include_str!("row.rs"),
    include_str!("write.rs"),
];

fn manifest(
    job: &Job<'_>,
    files: &Files,
    questions: &Questions,
    records: &Records,
    report: &Report,
    data: Data,
) -> Manifest {
    let asked = questions.all.iter().filter(|question| !question.excluded);
    let expected = Expected::of(asked.map(|question| &question.key));
    let judges = records.judges();
    let count =
        |(oddity, findings): (&Oddity, &rawrag_corpus::Findings)| (oddity.name(), findings.count);
    let import = Import {
        format: files.format.name().to_owned(),
        files: files.read.clone(),
        benchmark_file: job.benchmark_file.map(name),
        text: job.text,
        excluded: job.exclude.to_vec(),
        findings: report.oddities.iter().map(count).collect(),
    };
    let sources = SOURCES.concat();
    Manifest {
        schema: SCHEMA_VERSION,
        name: name(job.folder),
        system: System {
            name: job.system.to_owned(),
            version: "as imported".to_owned(),
        },
        benchmark: files.format.benchmark().name().to_owned(),
        data,
        expected: judges.iter().fold(
            expected.answered(files.results.len() as u32),
            |expected, (judge, &repetitions)| expected.judged(judge, repetitions),
        ),
        settings: serde_json::json!({ "import": import }),
        models: models(files, judges.keys()),
        prompts: BTreeMap::new(),
        seed: 0,
        code: Code {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            sources: hex(&Sha256::digest(sources.as_bytes()))
                .chars()
                .take(16)
                .collect(),
        },
        machine: Machine::default(),
        started: jiff::Timestamp::now()
            .strftime("%Y-%m-%dT%H:%M:%SZ")
            .to_string(),
    }
}

/// The reader and the judges that the files name.
fn models<'a>(files: &Files, judges: impl Iterator<Item = &'a String>) -> BTreeMap<String, Model> {
    let endpoint = files.agreed(|results| &results.endpoint);
    let model = |name: String, kind: &str| Model {
        name,
        kind: kind.to_owned(),
        weights_sha256: None,
        endpoint: endpoint.clone(),
    };
    let reader = files.agreed(|results| &results.reader);
    let reader = reader.map(|name| ("reader".to_owned(), model(name, "reader")));
    let named: Vec<&String> = judges.filter(|judge| *judge != UNNAMED).collect();
    let part = |nth: usize| match named.len() {
        1 => "judge".to_owned(),
        _ => format!("judge {}", nth + 1),
    };
    let judges = named.iter().enumerate();
    let judges = judges.map(|(nth, judge)| (part(nth), model((*judge).clone(), "judge")));
    reader.into_iter().chain(judges).collect()
}

fn write(folder: &Path, manifest: Manifest, records: &Records) -> Result<Run, ImportError> {
    aside(folder, manifest, |run| {
        run.appender()?.0.append_all(&records.answers)?;
        if !records.judgments.is_empty() {
            run.appender()?.0.append_all(&records.judgments)?;
        }
        Ok(())
    })
}

/// Writes a run aside and renames it into place.
pub(crate) fn aside(
    folder: &Path,
    manifest: Manifest,
    append: impl FnOnce(&Run) -> Result<(), RecordError>,
) -> Result<Run, ImportError> {
    let aside = folder.with_file_name(format!("{}.{}.part", name(folder), std::process::id()));
    let written = (|| -> Result<(), RecordError> {
        let run = Run::resume(&aside, manifest)?;
        append(&run)?;
        drop(run);
        let io = |source| RecordError::Io {
            path: folder.to_owned(),
            source,
        };
        fs::remove_file(aside.join("owner")).map_err(io)?;
        fs::rename(&aside, folder).map_err(io)
    })();
    if let Err(error) = written {
        // What was begun is of no use, and the error says what went wrong.
        let _ = fs::remove_dir_all(&aside);
        return Err(error.into());
    }
    Ok(Run::open(folder)?)
}

pub(crate) fn name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}
