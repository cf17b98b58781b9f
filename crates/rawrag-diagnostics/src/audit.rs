//! A human audit of a judge: agreement by system, and a comparison of two systems under human
//! grades, each way of reading the grades and each treatment of ungraded answers apart (003,
//! section 5.4 and Appendix C).
//!
//! An audit is of some answers; on the others the judge's labels stand. Two mappings are reported:
//! *strict*, where only a grade whose first word is CORRECT is right, and *lenient*, where a partial
//! or hedged one is too; a grade with WRONG or INCORRECT in it is wrong under both. Answers that
//! were to be audited and have no grade keep the judge's label (a), or their question is dropped
//! for both systems (b).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rawrag_statistics::agreement::{Agreement, Resampling, cohen_kappa, raw_agreement};
use rawrag_statistics::{PairCounts, PairedMethod, noninferiority};
use serde::Deserialize;

use crate::report::table;
use crate::{Column, Report, Settings, Unit, Value};

/// One answer with its judge's label and perhaps a human grade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audited {
    /// The question, in full.
    pub unit: String,
    /// The system that answered.
    pub system: String,
    /// Whether the judge found it correct.
    pub judge: bool,
    /// What the human said.
    pub human: Human,
}

/// What a human said of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Human {
    /// It was not to be audited.
    NotAsked,
    /// It was, and has no grade.
    Ungraded,
    /// In the grader's words.
    Grade(String),
}

/// How grades are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// Only a grade that begins with CORRECT.
    Strict,
    /// A partial or hedged one too.
    Lenient,
}

/// Why a table is no audit, or the audit has no result.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum AuditError {
    #[error("{}: {source}", path.display())]
    Csv { path: PathBuf, source: csv::Error },
    #[error("{} line {line}: {problem}", path.display())]
    Line {
        path: PathBuf,
        line: u64,
        problem: String,
    },
    #[error("{unit} of {system} is there twice")]
    Twice { unit: String, system: String },
    #[error("{unit} has an answer of {has} and none of {lacks}")]
    Unpaired {
        unit: String,
        has: String,
        lacks: String,
    },
    #[error("there is no answer of {0}")]
    NoSystem(String),
    #[error("{0}")]
    Undefined(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    unit: String,
    system: String,
    judge: u8,
    human: Option<String>,
}

/// Reads an audit: a CSV with the columns `unit`, `system`, `judge` (0 or 1) and `human`, which is
/// empty where the answer was not audited and `UNGRADED` where it was and has no grade.
///
/// # Errors
/// When the file cannot be read or a label is neither 0 nor 1, with the line.
pub fn read(path: &Path) -> Result<Vec<Audited>, AuditError> {
    let csv_error = |source| AuditError::Csv {
        path: path.to_owned(),
        source,
    };
    let mut reader = csv::Reader::from_path(path).map_err(csv_error)?;
    let mut rows = Vec::new();
    for (line, row) in (2..).zip(reader.deserialize::<Row>()) {
        let Row {
            unit,
            system,
            judge,
            human,
        } = row.map_err(csv_error)?;
        if judge > 1 {
            return Err(AuditError::Line {
                path: path.to_owned(),
                line,
                problem: format!("the judge's label is {judge}; it is 0 or 1"),
            });
        }
        let human = match human.as_deref().map(str::trim) {
            None | Some("") => Human::NotAsked,
            Some("UNGRADED") => Human::Ungraded,
            Some(grade) => Human::Grade(grade.to_owned()),
        };
        rows.push(Audited {
            unit,
            system,
            judge: judge == 1,
            human,
        });
    }
    Ok(rows)
}

impl Mapping {
    const ALL: [(Self, &'static str); 2] = [(Self::Strict, "strict"), (Self::Lenient, "lenient")];

    /// Whether a grade counts as right. Words are whole: INCORRECT does not hold CORRECT.
    pub fn right(self, grade: &str) -> bool {
        let upper = grade.to_uppercase();
        let words: Vec<&str> = upper
            .split(|c: char| !c.is_alphabetic())
            .filter(|w| !w.is_empty())
            .collect();
        let any = |wanted: &[&str]| words.iter().any(|word| wanted.contains(word));
        if any(&["WRONG", "INCORRECT"]) {
            return false;
        }
        match self {
            Self::Strict => words.first() == Some(&"CORRECT"),
            Self::Lenient => any(&["CORRECT", "PARTIAL", "PARTIALLY"]),
        }
    }
}

/// Compares `new` with `reference` under the judge's and the human's grades.
///
/// # Errors
/// When an answer is there twice, a question has one system's answer alone, or a bound is undefined.
pub fn report(
    rows: &[Audited],
    new: &str,
    reference: &str,
    margin: f64,
    settings: &Settings,
) -> Result<Report, AuditError> {
    let (a, b) = (answers(rows, new)?, answers(rows, reference)?);
    for (one, other, has, lacks) in [(&a, &b, new, reference), (&b, &a, reference, new)] {
        if let Some(unit) = one.keys().find(|unit| !other.contains_key(*unit)) {
            return Err(AuditError::Unpaired {
                unit: (*unit).to_owned(),
                has: has.to_owned(),
                lacks: lacks.to_owned(),
            });
        }
    }
    let pairs: Vec<(&Audited, &Audited)> = a
        .iter()
        .filter_map(|(unit, a)| Some((*a, *b.get(unit)?)))
        .collect();
    let (mut agreement, mut discordant, mut compared) = (Vec::new(), Vec::new(), Vec::new());
    compared.push(row("judge", "all questions", &pairs, margin, |x| {
        Some(x.judge)
    })?);
    for (mapping, name) in Mapping::ALL {
        for (system, of) in [
            ("both", rows.iter().collect()),
            (new, of_system(rows, new)),
            (reference, of_system(rows, reference)),
        ] {
            let of: Vec<&Audited> = of;
            let both = of
                .into_iter()
                .filter(|x| x.system == new || x.system == reference);
            agreement.push(agreed(
                name,
                system,
                mapping,
                &both.collect::<Vec<_>>(),
                settings,
            )?);
        }
        let human = |x: &Audited| match &x.human {
            Human::Grade(grade) => Some(mapping.right(grade)),
            Human::NotAsked | Human::Ungraded => None,
        };
        let graded = pairs.iter().filter_map(|(a, b)| human(a).zip(human(b)));
        let counts = tally(graded);
        discordant.push(vec![
            name.into(),
            counts.units().into(),
            counts.a_only.into(),
            counts.b_only.into(),
            counts.both.into(),
            counts.neither.into(),
        ]);
        // An ungraded answer takes its whole question with it: one grade of two compares nothing.
        let partly = |(a, b): &(&Audited, &Audited)| {
            a.human == Human::Ungraded || b.human == Human::Ungraded
        };
        let kept: Vec<_> = pairs
            .iter()
            .map(|&(a, b)| (a, b, partly(&(a, b))))
            .collect();
        let keeps = |x: &Audited| human(x).or(Some(x.judge));
        let judge = kept.iter().map(|&(a, b, partly)| match partly {
            true => (a.judge, b.judge),
            false => (keeps(a).unwrap_or(a.judge), keeps(b).unwrap_or(b.judge)),
        });
        compared.push(comparison(
            name,
            "ungraded keep the judge's label",
            tally(judge),
            margin,
        )?);
        let dropped: Vec<(&Audited, &Audited)> =
            pairs.iter().copied().filter(|pair| !partly(pair)).collect();
        compared.push(row(
            name,
            "questions with an ungraded answer are dropped",
            &dropped,
            margin,
            keeps,
        )?);
    }
    Ok(Report {
        tables: vec![
            table(
                "agreement",
                "the audited answers of one system under one mapping",
                &AGREEMENT,
                agreement,
            ),
            table(
                "audited",
                "the questions both of whose answers have a human grade, under one mapping",
                &DISCORDANT,
                discordant,
            ),
            table(
                "compared",
                "all questions under one reading of the grades",
                &COMPARED,
                compared,
            ),
        ],
        notes: vec![format!(
            "{new} less {reference}; the bound is one-sided at 5 %, by Wald's method (003, equation 7)."
        )],
    })
}

fn answers<'a>(
    rows: &'a [Audited],
    system: &str,
) -> Result<BTreeMap<&'a str, &'a Audited>, AuditError> {
    let mut found = BTreeMap::new();
    for row in rows.iter().filter(|row| row.system == system) {
        if found.insert(row.unit.as_str(), row).is_some() {
            return Err(AuditError::Twice {
                unit: row.unit.clone(),
                system: system.to_owned(),
            });
        }
    }
    if found.is_empty() {
        return Err(AuditError::NoSystem(system.to_owned()));
    }
    Ok(found)
}

fn of_system<'a>(rows: &'a [Audited], system: &str) -> Vec<&'a Audited> {
    rows.iter().filter(|row| row.system == system).collect()
}

const AGREEMENT: [Column; 8] = [
    Column::new("mapping", Unit::Text, "how grades are read"),
    Column::new("system", Unit::Text, "whose answers"),
    Column::new("answers", Unit::Count, "answers with a human grade"),
    Column::new(
        "agreement",
        Unit::Rate,
        "answers on which judge and human agree",
    ),
    Column::new(
        "low",
        Unit::Rate,
        "lower end of its 95 % interval, answers drawn",
    ),
    Column::new("high", Unit::Rate, "upper end"),
    Column::new("kappa", Unit::Number, "Cohen's kappa"),
    Column::new(
        "judge more lenient",
        Unit::Count,
        "answers that the judge alone found correct",
    ),
];

fn agreed(
    mapping: &str,
    system: &str,
    read: Mapping,
    rows: &[&Audited],
    settings: &Settings,
) -> Result<Vec<Value>, AuditError> {
    let graded: Vec<(usize, usize)> = rows
        .iter()
        .filter_map(|row| match &row.human {
            Human::Grade(grade) => Some((usize::from(row.judge), usize::from(read.right(grade)))),
            _ => None,
        })
        .collect();
    let (judge, human): (Vec<usize>, Vec<usize>) = graded.iter().copied().unzip();
    let mut cells: Vec<Value> = vec![mapping.into(), system.into(), graded.len().into()];
    if graded.is_empty() {
        cells.extend((0..4).map(|_| Value::Absent("no audited answers".to_owned())));
        cells.push(0_u64.into());
        return Ok(cells);
    }
    let resampling = Resampling {
        clusters: None,
        replication: settings.replication,
        confidence: settings.confidence,
    };
    let undefined =
        |error: rawrag_statistics::agreement::RatingError| AuditError::Undefined(error.to_string());
    let raw: Agreement = raw_agreement(&judge, &human, resampling).map_err(undefined)?;
    let kappa = cohen_kappa(&judge, &human, resampling).map_err(undefined)?;
    cells.push(Value::number(raw.value));
    cells.push(Value::number(raw.interval.map(|i| i.lower)));
    cells.push(Value::number(raw.interval.map(|i| i.upper)));
    cells.push(Value::number(kappa.value));
    cells.push(
        graded
            .iter()
            .filter(|(judge, human)| judge > human)
            .count()
            .into(),
    );
    Ok(cells)
}

const DISCORDANT: [Column; 6] = [
    Column::new("mapping", Unit::Text, "how grades are read"),
    Column::new(
        "questions",
        Unit::Count,
        "questions both of whose answers have a grade",
    ),
    Column::new(
        "only new",
        Unit::Count,
        "only the new system's answer is right",
    ),
    Column::new("only reference", Unit::Count, "only the reference's is"),
    Column::new("both", Unit::Count, "both are"),
    Column::new("neither", Unit::Count, "neither is"),
];

const COMPARED: [Column; 10] = [
    Column::new(
        "grades",
        Unit::Text,
        "the judge's, or the human's under a mapping",
    ),
    Column::new(
        "treatment",
        Unit::Text,
        "what becomes of answers that were to be audited and have no grade",
    ),
    Column::new("questions", Unit::Count, "questions"),
    Column::new("new", Unit::Rate, "the new system's share of right answers"),
    Column::new("reference", Unit::Rate, "the reference's"),
    Column::new("difference", Unit::Points, "new less reference"),
    Column::new("bound", Unit::Points, "one-sided 95 % lower bound"),
    Column::new(
        "low",
        Unit::Points,
        "lower end of the two-sided 95 % interval",
    ),
    Column::new("high", Unit::Points, "upper end"),
    Column::new(
        "non-inferior",
        Unit::Text,
        "whether the bound is above minus the margin",
    ),
];

fn row(
    grades: &str,
    treatment: &str,
    pairs: &[(&Audited, &Audited)],
    margin: f64,
    right: impl Fn(&Audited) -> Option<bool>,
) -> Result<Vec<Value>, AuditError> {
    let graded = pairs.iter().filter_map(|(a, b)| right(a).zip(right(b)));
    comparison(grades, treatment, tally(graded), margin)
}

fn comparison(
    grades: &str,
    treatment: &str,
    counts: PairCounts,
    margin: f64,
) -> Result<Vec<Value>, AuditError> {
    let n = counts.units();
    let bound = noninferiority(&counts, margin, 0.05, PairedMethod::Wald)
        .map_err(|error| AuditError::Undefined(format!("{grades}, {treatment}: {error}")))?;
    Ok(vec![
        grades.into(),
        treatment.into(),
        n.into(),
        Value::rate(counts.both + counts.a_only, n, "questions"),
        Value::rate(counts.both + counts.b_only, n, "questions"),
        Value::Number(bound.difference),
        Value::Number(bound.lower_bound),
        Value::Number(bound.interval.lower),
        Value::Number(bound.interval.upper),
        Value::Flag(bound.non_inferior),
    ])
}

fn tally(pairs: impl Iterator<Item = (bool, bool)>) -> PairCounts {
    let mut counts = PairCounts::default();
    for pair in pairs {
        *match pair {
            (true, true) => &mut counts.both,
            (true, false) => &mut counts.a_only,
            (false, true) => &mut counts.b_only,
            (false, false) => &mut counts.neither,
        } += 1;
    }
    counts
}
