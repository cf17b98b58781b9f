//! Published statements with numbers, and what recomputing them from published numbers gives.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::definition::{self, Decimal, Definition, DefinitionError, Published, What};
use crate::formula::{Failed, Formula, Outcome, Rounded};
use crate::sheet::{self, Column, Line, Sheet};

/// What can be referred to: every published cell and fact, by paper.
#[derive(Debug, Default)]
pub struct Statements {
    tables: BTreeMap<(String, String), Definition>,
    facts: BTreeMap<(String, String), Decimal>,
    claims: Vec<Claim>,
}

/// A published statement.
#[derive(Debug)]
struct Claim {
    paper: String,
    path: PathBuf,
    line: usize,
    file: FileClaim,
    basis: Basis,
}

#[derive(Debug)]
enum Basis {
    /// A formula, and the number it should come to; a comparison has none.
    Formula(Formula, Option<Decimal>),
    /// What recomputing would need.
    Needs(String),
}

/// A claim with its verdict.
#[derive(Debug, Serialize)]
pub struct Judged {
    /// The paper's folder.
    pub paper: String,
    /// Unique within the paper.
    pub id: String,
    /// Where it is stated.
    pub stated_in: String,
    /// What is stated, in our words.
    pub claim: String,
    /// The formula as written.
    pub formula: Option<String>,
    /// The formula with its numbers, and what it comes to.
    pub computation: Option<String>,
    /// The verdict.
    pub verdict: Verdict,
    /// Why it is known to differ, where it is.
    pub known: Option<String>,
}

/// What recomputing a claim gives.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It comes out as stated.
    Verified,
    /// It comes out as stated for some values that print as its rounded inputs do.
    VerifiedWithinRounding,
    /// It comes out otherwise.
    Differs {
        /// What is stated, where that is a number.
        stated: Option<String>,
        /// What comes out, where that is a number.
        computed: Option<f64>,
    },
    /// The texts at hand do not have what it takes.
    Needs(String),
}

impl Judged {
    /// Whether the verdict is the one to be expected: verified or needing outputs, or differing
    /// where that is known.
    pub fn is_expected(&self) -> bool {
        matches!(self.verdict, Verdict::Differs { .. }) == self.known.is_some()
    }
}

impl Verdict {
    /// One or a few words.
    pub fn name(&self) -> String {
        match self {
            Self::Verified => "verified".into(),
            Self::VerifiedWithinRounding => "verified within rounding".into(),
            Self::Differs {
                stated: Some(stated),
                computed: Some(computed),
            } => {
                format!("differs: {stated} stated, {} computed", short(*computed))
            }
            Self::Differs { .. } => "differs".into(),
            Self::Needs(what) => format!("needs: {what}"),
        }
    }
}

/// Six significant digits, trailing zeros dropped.
fn short(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude > 0.0 && magnitude < 1e-4 {
        return format!("{value:.3e}");
    }
    let digits = (5.0 - magnitude.max(1.0).log10().floor()).max(0.0) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    facts: Vec<Spanned<FileFact>>,
    #[serde(default)]
    claims: Vec<Spanned<FileClaim>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileFact {
    id: String,
    value: Spanned<f64>,
    /// Read only by people, but never left out.
    #[serde(rename = "source")]
    _source: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileClaim {
    id: String,
    stated: String,
    claim: String,
    formula: Option<Spanned<String>>,
    value: Option<Spanned<f64>>,
    needs: Option<String>,
    known: Option<String>,
}

impl Statements {
    /// Reads every definition and every `claims.toml` under `folder`, a subfolder a paper.
    ///
    /// # Errors
    /// [`DefinitionError`] with the file and the line.
    pub fn read(folder: &Path) -> Result<Self, DefinitionError> {
        let mut statements = Self::default();
        let places = definition::find(folder, What::Table)?;
        for place in &places {
            let key = (place.paper.clone(), place.name.clone());
            statements.tables.insert(key, place.load()?);
        }
        for paper in definition::entries(folder)? {
            let path = paper.join("claims.toml");
            if path.is_file() {
                let name = paper
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned();
                let io = |source| DefinitionError::Io {
                    path: path.clone(),
                    source,
                };
                statements.add(&name, &path, &fs::read_to_string(&path).map_err(io)?)?;
            }
        }
        Ok(statements)
    }

    fn add(&mut self, paper: &str, path: &Path, text: &str) -> Result<(), DefinitionError> {
        let wrong = |at: usize, problem: String| definition::wrong(path, text, at, problem);
        let file: File = toml::from_str(text).map_err(|error| {
            wrong(
                error.span().map_or(0, |span| span.start),
                error.message().to_owned(),
            )
        })?;
        for fact in file.facts {
            let at = fact.span().start;
            let fact = fact.into_inner();
            let value = definition::decimal(fact.value.span(), text)
                .map_err(|definition::Problem(at, problem)| wrong(at, problem))?;
            if self
                .facts
                .insert((paper.to_owned(), fact.id.clone()), value)
                .is_some()
            {
                return Err(wrong(
                    at,
                    format!("a second fact with the id `{}`", fact.id),
                ));
            }
        }
        for claim in file.claims {
            let at = claim.span().start;
            let file = claim.into_inner();
            if self
                .claims
                .iter()
                .any(|c| c.paper == paper && c.file.id == file.id)
            {
                return Err(wrong(
                    at,
                    format!("a second claim with the id `{}`", file.id),
                ));
            }
            let basis = match (&file.formula, &file.needs, &file.value) {
                (Some(formula), None, value) => {
                    let parsed = Formula::parse(formula.get_ref())
                        .map_err(|problem| wrong(formula.span().start, problem))?;
                    let value = value
                        .as_ref()
                        .map(|value| definition::decimal(value.span(), text))
                        .transpose()
                        .map_err(|definition::Problem(at, problem)| wrong(at, problem))?;
                    Basis::Formula(parsed, value)
                }
                (None, Some(needs), None) => Basis::Needs(needs.clone()),
                _ => {
                    let problem = "a claim has a `formula`, with the `value` it should come to \
                                   unless it is a comparison, or else says what it `needs`";
                    return Err(wrong(at, problem.to_owned()));
                }
            };
            let line = definition::line(text, at);
            self.claims.push(Claim {
                paper: paper.to_owned(),
                path: path.to_owned(),
                line,
                file,
                basis,
            });
        }
        Ok(())
    }

    /// The verdict on every claim, in the order they are written.
    ///
    /// # Errors
    /// When a formula refers to no cell, or computes what cannot be computed.
    pub fn judge(&self) -> Result<Vec<Judged>, DefinitionError> {
        self.claims.iter().map(|claim| self.judged(claim)).collect()
    }

    fn judged(&self, claim: &Claim) -> Result<Judged, DefinitionError> {
        let wrong = |problem: String| DefinitionError::Wrong {
            path: claim.path.clone(),
            line: claim.line,
            problem: format!("claim `{}`: {problem}", claim.file.id),
        };
        let look_up = |name: &str| self.numbers(&claim.paper, name);
        let (verdict, computation) = match &claim.basis {
            Basis::Needs(needs) => (Verdict::Needs(needs.clone()), None),
            Basis::Formula(formula, value) => match (formula.outcome(&look_up), value) {
                (Err(Failed::Wrong(problem)), _) => return Err(wrong(problem)),
                (Err(Failed::Missing(what)), _) => (Verdict::Needs(what), None),
                (Ok(outcome), value) => {
                    let verdict = compare(&outcome, value.as_ref()).map_err(wrong)?;
                    (verdict, Some(self.computation(claim, formula, &outcome)))
                }
            },
        };
        Ok(Judged {
            paper: claim.paper.clone(),
            id: claim.file.id.clone(),
            stated_in: claim.file.stated.clone(),
            claim: claim.file.claim.clone(),
            formula: claim
                .file
                .formula
                .as_ref()
                .map(|formula| formula.get_ref().clone()),
            computation,
            verdict,
            known: claim.file.known.clone(),
        })
    }

    /// The formula as written with every reference replaced by what is published.
    fn computation(&self, claim: &Claim, formula: &Formula, outcome: &Outcome) -> String {
        let written = claim
            .file
            .formula
            .as_ref()
            .map(|f| f.get_ref().as_str())
            .unwrap_or_default();
        let mut text = String::new();
        let mut rest = written;
        while let Some((before, after)) = rest.split_once('[') {
            let (name, after) = after.split_once(']').unwrap_or((after, ""));
            text.push_str(before);
            let numbers = self.numbers(&claim.paper, name).unwrap_or_default();
            let shown: Vec<String> = numbers.iter().map(|number| short(number.value)).collect();
            text.push_str(&shown.join(", "));
            rest = after;
        }
        text.push_str(rest);
        match (outcome, formula) {
            // A reference alone is its own computation.
            (Outcome::Number(_), Formula::Reference(_)) => text,
            (Outcome::Number(number), _) => format!("{text} = {}", short(number.value)),
            (Outcome::Truth(true), _) => format!("{text}: true"),
            (Outcome::Truth(false), _) => format!("{text}: false"),
            (Outcome::List(_), _) => text,
        }
    }

    /// The published numbers that a reference names: a fact's id, or `table/row/column`, with
    /// `paper:` before it for another paper's, `.low`, `.high`, `.count` or `.of` after it for a
    /// part of a cell, and `*` and `!row` in the row for several.
    pub(crate) fn numbers(&self, paper: &str, name: &str) -> Result<Vec<Rounded>, Failed> {
        let (paper, local) = name.split_once(':').unwrap_or((paper, name));
        let mut parts = local.split('/');
        let (Some(table), Some(rows), Some(column), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            let fact = self.facts.get(&(paper.to_owned(), local.to_owned()));
            let unknown = || Failed::Wrong(format!("there is no fact or cell `{name}`"));
            return fact.map(|value| vec![rounded(value)]).ok_or_else(unknown);
        };
        let wrong = |what: String| Failed::Wrong(format!("`{name}`: {what}"));
        let table = self
            .tables
            .get(&(paper.to_owned(), table.to_owned()))
            .ok_or_else(|| wrong("there is no such table".into()))?;
        let (column, part) = match column.rsplit_once('.') {
            Some((column, part @ ("low" | "high" | "count" | "of"))) => (column, Some(part)),
            _ => (column, None),
        };
        let at = table
            .columns
            .iter()
            .position(|c| c.id == column)
            .ok_or_else(|| wrong(format!("the table has no column `{column}`")))?;
        let mut numbers = Vec::new();
        for row in table.rows.iter().filter(|row| selects(rows, &row.id)) {
            let Some(cell) = row.published.get(at).map(|sourced| &sourced.cell) else {
                continue;
            };
            match part_of(cell, part) {
                Some(number) => numbers.push(number),
                None if rows.contains('*') => {}
                None => {
                    return Err(match cell {
                        Published::Missing(why) => Failed::Missing(format!("{name} ({why})")),
                        _ => wrong(format!("the cell has no such number: {cell}")),
                    });
                }
            }
        }
        if numbers.is_empty() {
            return Err(wrong(format!("no row `{rows}` has a number there")));
        }
        Ok(numbers)
    }
}

/// Whether a pattern such as `locomo-*!locomo-nano` selects a row.
fn selects(pattern: &str, id: &str) -> bool {
    let mut parts = pattern.split('!');
    let wanted = parts.next().unwrap_or_default();
    let matches = match wanted.split_once('*') {
        Some((start, end)) => {
            id.len() >= start.len() + end.len() && id.starts_with(start) && id.ends_with(end)
        }
        None => id == wanted,
    };
    matches && parts.all(|excluded| excluded != id)
}

fn part_of(cell: &Published, part: Option<&str>) -> Option<Rounded> {
    match (cell, part) {
        (Published::Interval { low, .. }, Some("low")) => Some(rounded(low)),
        (Published::Interval { high, .. }, Some("high")) => Some(rounded(high)),
        (Published::Counts { count, .. }, Some("count")) => Some(Rounded::exact(*count as f64)),
        (Published::Counts { of, .. }, Some("of")) => Some(Rounded::exact(*of as f64)),
        (cell, None) => cell.value().map(rounded),
        _ => None,
    }
}

/// A whole number is a count and exact; any other is known up to half of its last digit.
fn rounded(value: &Decimal) -> Rounded {
    let half = value.quantum().map_or(0.0, |quantum| quantum / 2.0);
    Rounded {
        low: value.value() - half,
        value: value.value(),
        high: value.value() + half,
    }
}

fn compare(outcome: &Outcome, stated: Option<&Decimal>) -> Result<Verdict, String> {
    match (outcome, stated) {
        (Outcome::Truth(true), None) => Ok(Verdict::Verified),
        (Outcome::Truth(false), None) => Ok(Verdict::Differs {
            stated: None,
            computed: None,
        }),
        (Outcome::Number(number), Some(stated)) => {
            let differs = Verdict::Differs {
                stated: Some(stated.to_string()),
                computed: Some(number.value),
            };
            // Halves of last digits meet at their ends: those are not in doubt, but rounded.
            let half = stated.step() / 2.0 * (1.0 + 1e-9);
            Ok(if stated.agrees(number.value) {
                Verdict::Verified
            } else if number.low <= stated.value() + half && number.high >= stated.value() - half {
                Verdict::VerifiedWithinRounding
            } else {
                differs
            })
        }
        (Outcome::Number(_), None) => Err("a number needs the `value` it should come to".into()),
        (Outcome::Truth(_), Some(_)) => Err("a comparison has no `value`".into()),
        (Outcome::List(_), _) => Err("a list is no statement; take its max, sum, ...".into()),
    }
}

/// The verdicts as a table.
pub fn table(judged: &[Judged]) -> Sheet {
    let lines = judged.iter().map(|claim| {
        let unexpected = if claim.is_expected() {
            ""
        } else {
            "UNEXPECTED "
        };
        Line::Cells(vec![
            format!("{}:{}", claim.paper, claim.id).into(),
            claim.stated_in.as_str().into(),
            claim.claim.as_str().into(),
            claim.computation.clone().unwrap_or_default().into(),
            format!("{unexpected}{}", claim.verdict.name()).into(),
        ])
    });
    Sheet {
        columns: ["Claim", "Stated in", "Statement", "Computation", "Verdict"]
            .map(Column::words)
            .into(),
        lines: lines.collect(),
        notes: vec![summary(judged)],
        ..Sheet::default()
    }
}

/// The verdicts with everything known about each, as JSON.
pub fn json(judged: &[Judged]) -> String {
    sheet::json(judged)
}

/// How many claims have each verdict.
pub fn summary(judged: &[Judged]) -> String {
    let count = |test: fn(&Judged) -> bool| judged.iter().filter(|claim| test(claim)).count();
    format!(
        "{} claims: {} verified, {} verified within the rounding of their inputs, {} differ, {} \
         need outputs; {} unexpected",
        judged.len(),
        count(|claim| claim.verdict == Verdict::Verified),
        count(|claim| claim.verdict == Verdict::VerifiedWithinRounding),
        count(|claim| matches!(claim.verdict, Verdict::Differs { .. })),
        count(|claim| matches!(claim.verdict, Verdict::Needs(_))),
        count(|claim| !claim.is_expected()),
    )
}

/// What turned out otherwise than stated, with its computation, as Markdown.
pub fn findings(judged: &[Judged]) -> String {
    let mut text = String::from(
        "# Findings\n\nPublished statements that do not follow from the published numbers they \
         rest on, as `cargo xtask verify` computes them. This page is written by `cargo xtask \
         verify --findings`.\n",
    );
    let mut paper = "";
    for claim in judged
        .iter()
        .filter(|claim| matches!(claim.verdict, Verdict::Differs { .. }))
    {
        if claim.paper != paper {
            paper = &claim.paper;
            text.push_str(&format!("\n## {paper}\n"));
        }
        text.push_str(&format!(
            "\n### {}\n\n{} ({}).\n",
            claim.id, claim.claim, claim.stated_in
        ));
        if let Some(computation) = &claim.computation {
            text.push_str(&format!("\n    {computation}\n"));
        }
        text.push_str(&format!("\n{}", claim.verdict.name()));
        if let Some(known) = &claim.known {
            text.push_str(&format!(". {known}"));
        }
        text.push('\n');
    }
    text
}
