//! Registered plans: what will be tested, by which margin and in which families, and the sentence
//! for every outcome, written down before there are data.
//!
//! A plan is a TOML file. [`Plan::digest`] is the hash of everything that binds it: all but its
//! list of deviations, whatever its layout and comments. [`Plan::report`] runs the registered tests
//! first, in their order, marks every other comparison as exploratory, and lists the deviations.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rawrag_statistics::{
    Adjustment, Family, NonInferiority, PValue, PairCounts, PairedMethod, noninferiority,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::report::table;
use crate::{Column, Report, Unit, Value};

/// A registered plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// What is asked.
    pub title: String,
    /// Where the plan comes from, where it is not this project's.
    #[serde(default)]
    pub source: Option<String>,
    /// The data, and what is left out of them.
    pub data: Data,
    /// Systems by the names that the tests use, each with what it is.
    pub systems: BTreeMap<String, String>,
    /// The one test that decides.
    pub primary: Test,
    /// Families of further tests.
    #[serde(default)]
    pub families: Vec<TestFamily>,
    /// Changes after the plan was fixed. Not part of what binds.
    #[serde(default)]
    pub deviations: Vec<Deviation>,
}

/// The data of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// The benchmark.
    pub benchmark: String,
    /// What the questions are, for a reader.
    pub questions: String,
    /// Conversations that are used; all, where none is named.
    #[serde(default)]
    pub conversations: Vec<String>,
    /// Kinds of question, conversations and questions that are left out.
    #[serde(default)]
    pub exclude: Vec<String>,
}

/// One registered test of a new system against a reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Test {
    /// Its name in the plan.
    pub id: String,
    /// What is tested.
    pub test: Kind,
    /// The system that is to show something.
    pub new: String,
    /// The one that it is compared with.
    pub reference: String,
    /// How much worse the new system may be, as a fraction; for non-inferiority only.
    #[serde(default)]
    pub margin: Option<f64>,
    /// How its bound is found; for non-inferiority only.
    #[serde(default)]
    pub method: Method,
    /// One-sided level of non-inferiority, two-sided level of a difference. A test in a family uses
    /// the family's.
    #[serde(default)]
    pub alpha: Option<f64>,
    /// How the budgets of the two are matched.
    #[serde(default)]
    pub budget: Option<Budget>,
    /// What will be said.
    pub outcomes: Outcomes,
}

/// What a test is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The new system is not worse than the reference by the margin, one-sided.
    NonInferiority,
    /// The systems differ: exact McNemar, two-sided.
    Difference,
}

/// How a bound of non-inferiority is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "as PairedMethod")]
pub enum Method {
    #[default]
    Wald,
    Newcombe,
    Tango,
}

/// How the evidence of two systems is matched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// The rule, for a reader.
    pub rule: String,
    /// By how much mean evidence tokens may differ, as a fraction of the reference's.
    pub tolerance: f64,
}

/// The sentence for every outcome. `{new}`, `{reference}`, `{units}`, `{difference}`, `{bound}`,
/// `{low}`, `{high}`, `{margin}`, `{p}`, `{adjusted}`, `{only_new}` and `{only_reference}` are
/// filled in; differences and bounds in percentage points.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcomes {
    /// The new system is shown to be non-inferior, or better.
    pub shown: String,
    /// It is not.
    pub not_shown: String,
    /// A difference that favours the reference; `not_shown` where none is given.
    #[serde(default)]
    pub reversed: Option<String>,
}

/// Tests that are corrected together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestFamily {
    /// Its name.
    pub id: String,
    /// Family-wise level, by Holm.
    pub alpha: f64,
    /// The tests.
    pub tests: Vec<Test>,
}

/// A dated change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deviation {
    /// Day, `2026-11-30`.
    pub date: String,
    /// What changed.
    pub change: String,
    /// Why.
    pub reason: String,
    /// What it does to the results.
    pub effect: String,
}

/// Why a plan is none.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum PlanError {
    #[error("{0}")]
    Form(#[from] toml::de::Error),
    #[error("{test}: {problem}")]
    Test { test: String, problem: String },
    #[error("deviation of {0:?}: a date is written 2026-11-30")]
    Date(String),
    #[error("two tests are called {0}")]
    Twice(String),
    #[error("no counts for {test}, which compares {new} with {reference}")]
    NoCounts {
        test: String,
        new: String,
        reference: String,
    },
    #[error("{test}: {problem}")]
    Undefined { test: String, problem: String },
}

/// The paired counts of two systems, and how their budgets compare.
#[derive(Clone, Debug, PartialEq)]
pub struct Counts {
    /// The test that the counts are for, where they are for one alone.
    pub test: Option<String>,
    /// System a.
    pub new: String,
    /// System b.
    pub reference: String,
    /// On the same questions.
    pub pairs: PairCounts,
    /// Mean evidence tokens of both, where they are known.
    pub tokens: Option<(f64, f64)>,
}

/// Why a file holds no counts.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum CountsError {
    #[error("{}: {source}", path.display())]
    Csv { path: PathBuf, source: csv::Error },
    #[error("{} line {line}: {problem}", path.display())]
    Line {
        path: PathBuf,
        line: u64,
        problem: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CountsRow {
    test: Option<String>,
    new: String,
    reference: String,
    units: u64,
    only_new: u64,
    only_reference: u64,
    new_tokens: Option<f64>,
    reference_tokens: Option<f64>,
    #[serde(rename = "source")]
    _source: Option<String>,
}

/// Reads counts typed from a publication: a CSV with the columns `test`, `new`, `reference`,
/// `units`, `only_new`, `only_reference`, `new_tokens`, `reference_tokens` and `source`. Questions
/// that both have right are counted with those that neither has, which no test here looks at.
///
/// # Errors
/// When the file cannot be read, or a line has more discordant questions than questions.
pub fn read_counts(path: &Path) -> Result<Vec<Counts>, CountsError> {
    let csv_error = |source| CountsError::Csv {
        path: path.to_owned(),
        source,
    };
    let mut reader = csv::Reader::from_path(path).map_err(csv_error)?;
    let mut counts = Vec::new();
    for (line, row) in (2..).zip(reader.deserialize::<CountsRow>()) {
        let row = row.map_err(csv_error)?;
        let neither = row
            .units
            .checked_sub(row.only_new.saturating_add(row.only_reference));
        let neither = neither.ok_or_else(|| CountsError::Line {
            path: path.to_owned(),
            line,
            problem: format!("more discordant questions than the {} questions", row.units),
        })?;
        counts.push(Counts {
            test: row.test,
            new: row.new,
            reference: row.reference,
            pairs: PairCounts {
                both: 0,
                a_only: row.only_new,
                b_only: row.only_reference,
                neither,
            },
            tokens: row.new_tokens.zip(row.reference_tokens),
        });
    }
    Ok(counts)
}

const PLACES: [&str; 12] = [
    "new",
    "reference",
    "units",
    "difference",
    "bound",
    "low",
    "high",
    "margin",
    "p",
    "adjusted",
    "only_new",
    "only_reference",
];

impl Plan {
    /// Reads a plan and checks that it can be carried out: fields, names of systems, margins,
    /// levels, sentences.
    ///
    /// # Errors
    /// [`PlanError`], naming the test.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        let plan: Self = toml::from_str(text)?;
        let mut ids = BTreeSet::new();
        for test in plan.tests() {
            if !ids.insert(&test.id) {
                return Err(PlanError::Twice(test.id.clone()));
            }
            plan.check(test).map_err(|problem| PlanError::Test {
                test: test.id.clone(),
                problem,
            })?;
        }
        for family in &plan.families {
            if !(family.alpha > 0.0 && family.alpha < 1.0) {
                return Err(PlanError::Test {
                    test: family.id.clone(),
                    problem: "the family's alpha must be between 0 and 1".to_owned(),
                });
            }
        }
        match plan.deviations.iter().find(|d| !is_day(&d.date)) {
            Some(deviation) => Err(PlanError::Date(deviation.date.clone())),
            None => Ok(plan),
        }
    }

    /// The primary test, then every family's.
    pub fn tests(&self) -> impl Iterator<Item = &Test> {
        std::iter::once(&self.primary).chain(self.families.iter().flat_map(|f| &f.tests))
    }

    fn check(&self, test: &Test) -> Result<(), String> {
        for system in [&test.new, &test.reference] {
            if !self.systems.contains_key(system) {
                let names: Vec<&str> = self.systems.keys().map(String::as_str).collect();
                return Err(format!(
                    "no system is called {system}; there are {}",
                    names.join(", ")
                ));
            }
        }
        let fraction = |x: f64| x > 0.0 && x < 1.0;
        match (test.test, test.margin) {
            (Kind::NonInferiority, None) => return Err("non-inferiority needs a margin".to_owned()),
            (Kind::NonInferiority, Some(margin)) if !fraction(margin) => {
                return Err(format!(
                    "the margin {margin} is no fraction between 0 and 1"
                ));
            }
            (Kind::Difference, Some(_)) => {
                return Err("a difference has no margin".to_owned());
            }
            _ => {}
        }
        let in_family = self.primary.id != test.id;
        match test.alpha {
            None if !in_family => return Err("the primary test needs its alpha".to_owned()),
            Some(_) if in_family => {
                return Err("a test in a family has the family's alpha".to_owned());
            }
            Some(alpha) if !fraction(alpha) => {
                return Err("alpha must be between 0 and 1".to_owned());
            }
            _ => {}
        }
        if test
            .budget
            .as_ref()
            .is_some_and(|b| b.tolerance.is_nan() || b.tolerance < 0.0)
        {
            return Err("the budget's tolerance must be 0 or more".to_owned());
        }
        let Outcomes {
            shown,
            not_shown,
            reversed,
        } = &test.outcomes;
        for sentence in [Some(shown), Some(not_shown), reversed.as_ref()]
            .into_iter()
            .flatten()
        {
            for place in sentence.split('{').skip(1) {
                let name = place.split('}').next().unwrap_or_default();
                if !PLACES.contains(&name) {
                    return Err(format!(
                        "nothing fills {{{name}}}; there are {}",
                        PLACES.join(", ")
                    ));
                }
            }
        }
        Ok(())
    }

    /// sha256, in hexadecimal, of everything but the deviations, in a fixed layout.
    pub fn digest(&self) -> String {
        let binding = Self {
            deviations: Vec::new(),
            ..self.clone()
        };
        let text = serde_json::json!(binding).to_string();
        let bytes = Sha256::digest(text.as_bytes());
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Runs the registered tests on paired counts, and shows all others as exploratory.
    ///
    /// # Errors
    /// When a registered test has no counts or its statistic is undefined.
    pub fn report(&self, counts: &[Counts], frozen: Option<&str>) -> Result<Report, PlanError> {
        let mut rows = Vec::new();
        let mut notes = Vec::new();
        let mut used = BTreeSet::new();
        let primary = self.outcome(&self.primary, counts, &mut used)?;
        let alpha = self.primary.alpha.unwrap_or_default();
        rows.push(primary.row("primary", None, alpha));
        notes.push(primary.sentence(None, alpha));
        notes.extend(primary.budget());
        for family in &self.families {
            let mut outcomes = Vec::new();
            for test in &family.tests {
                outcomes.push(self.outcome(test, counts, &mut used)?);
            }
            let members = outcomes.iter().map(|o| (o.test.id.clone(), Ok(o.p)));
            let declared = Family::declare(members).map_err(|error| PlanError::Undefined {
                test: family.id.clone(),
                problem: error.to_string(),
            })?;
            let adjusted = declared.adjusted(Adjustment::Holm);
            for (outcome, (_, p)) in outcomes.iter().zip(adjusted) {
                rows.push(outcome.row(&family.id, Some(p), family.alpha));
                notes.push(outcome.sentence(Some(p), family.alpha));
                notes.extend(outcome.budget());
            }
        }
        let rest = counts
            .iter()
            .enumerate()
            .filter(|(at, _)| !used.contains(at));
        let exploratory = rest.map(|(_, counts)| exploratory(counts)).collect();
        let deviations = self.deviations.iter().map(|deviation| {
            let before = frozen.is_some_and(|frozen| deviation.date.as_str() < frozen);
            vec![
                deviation.date.as_str().into(),
                deviation.change.as_str().into(),
                deviation.reason.as_str().into(),
                deviation.effect.as_str().into(),
                Value::Flag(before),
            ]
        });
        let mut deviations: Vec<Vec<Value>> = deviations.collect();
        deviations.sort_by_key(|row| row[0].written());
        Ok(Report {
            tables: vec![
                table(
                    "registered",
                    "one registered test, in the plan's order",
                    &REGISTERED,
                    rows,
                ),
                table(
                    "exploratory",
                    "one comparison that was not registered: a description, no test of a hypothesis",
                    &EXPLORATORY,
                    exploratory,
                ),
                table(
                    "deviations",
                    "one change after the plan was written",
                    &DEVIATIONS,
                    deviations,
                ),
            ],
            notes,
        })
    }

    fn outcome<'a>(
        &'a self,
        test: &'a Test,
        counts: &[Counts],
        used: &mut BTreeSet<usize>,
    ) -> Result<Outcome<'a>, PlanError> {
        let pair = |c: &Counts| c.new == test.new && c.reference == test.reference;
        let own = |c: &Counts| c.test.as_ref() == Some(&test.id) && pair(c);
        let any = |c: &Counts| c.test.is_none() && pair(c);
        let at = counts
            .iter()
            .position(own)
            .or_else(|| counts.iter().position(any));
        let (at, found) = at
            .and_then(|at| Some((at, counts.get(at)?)))
            .ok_or_else(|| PlanError::NoCounts {
                test: test.id.clone(),
                new: test.new.clone(),
                reference: test.reference.clone(),
            })?;
        used.insert(at);
        let undefined = |problem: rawrag_statistics::Undefined| PlanError::Undefined {
            test: test.id.clone(),
            problem: problem.to_string(),
        };
        let difference = found.pairs.difference().map_err(undefined)?;
        let bound = match (test.test, test.margin) {
            (Kind::NonInferiority, Some(margin)) => {
                let alpha = test
                    .alpha
                    .or_else(|| self.family_alpha(test))
                    .unwrap_or_default();
                let method = match test.method {
                    Method::Wald => PairedMethod::Wald,
                    Method::Newcombe => PairedMethod::Newcombe,
                    Method::Tango => PairedMethod::Tango,
                };
                Some(noninferiority(&found.pairs, margin, alpha, method).map_err(undefined)?)
            }
            _ => None,
        };
        Ok(Outcome {
            plan: self,
            test,
            pairs: found.pairs,
            tokens: found.tokens,
            difference,
            p: bound.map_or_else(|| found.pairs.exact(), |bound| bound.p),
            bound,
        })
    }

    fn family_alpha(&self, test: &Test) -> Option<f64> {
        let holds = |family: &&TestFamily| family.tests.iter().any(|t| t.id == test.id);
        self.families.iter().find(holds).map(|family| family.alpha)
    }
}

/// A test with its result.
struct Outcome<'a> {
    plan: &'a Plan,
    test: &'a Test,
    pairs: PairCounts,
    tokens: Option<(f64, f64)>,
    difference: f64,
    p: PValue,
    bound: Option<NonInferiority>,
}

/// What may be said.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Conclusion {
    Shown,
    NotShown,
    Reversed,
}

impl Outcome<'_> {
    fn conclusion(&self, adjusted: Option<PValue>, alpha: f64) -> Conclusion {
        let significant = adjusted.unwrap_or(self.p).value() < alpha;
        match self.bound {
            // Outside a family the bound itself decides, so that text and interval cannot differ.
            Some(bound) if adjusted.is_none() && bound.non_inferior => Conclusion::Shown,
            Some(bound) if adjusted.is_some() && significant && bound.non_inferior => {
                Conclusion::Shown
            }
            Some(_) => Conclusion::NotShown,
            None if significant && self.difference > 0.0 => Conclusion::Shown,
            None if significant && self.difference < 0.0 => Conclusion::Reversed,
            None => Conclusion::NotShown,
        }
    }

    fn row(&self, family: &str, adjusted: Option<PValue>, alpha: f64) -> Vec<Value> {
        let name = |system: &str| Value::from(self.plan.systems.get(system).map_or(system, |s| s));
        let alone = || Value::Absent("not in a family".to_owned());
        let no_bound = || Value::Absent("a test of a difference".to_owned());
        vec![
            self.test.id.as_str().into(),
            family.into(),
            match self.test.test {
                Kind::NonInferiority => "non-inferiority",
                Kind::Difference => "difference",
            }
            .into(),
            name(&self.test.new),
            name(&self.test.reference),
            self.pairs.units().into(),
            self.pairs.a_only.into(),
            self.pairs.b_only.into(),
            Value::Number(self.difference),
            self.bound
                .map_or_else(no_bound, |b| Value::Number(b.lower_bound)),
            self.bound
                .map_or_else(no_bound, |b| Value::Number(-b.margin)),
            Value::P(self.p),
            adjusted.map_or_else(alone, Value::P),
            match self.conclusion(adjusted, alpha) {
                Conclusion::Shown => "shown",
                Conclusion::NotShown => "not shown",
                Conclusion::Reversed => "reversed",
            }
            .into(),
        ]
    }

    /// The plan's own sentence for what came out.
    fn sentence(&self, adjusted: Option<PValue>, alpha: f64) -> String {
        let Outcomes {
            shown,
            not_shown,
            reversed,
        } = &self.test.outcomes;
        let sentence = match self.conclusion(adjusted, alpha) {
            Conclusion::Shown => shown,
            Conclusion::NotShown => not_shown,
            Conclusion::Reversed => reversed.as_ref().unwrap_or(not_shown),
        };
        let points = |x: f64| format!("{:+.1}", x * 100.0);
        let name = |system: &String| self.plan.systems.get(system).unwrap_or(system).clone();
        let bound = |of: fn(&NonInferiority) -> f64| {
            self.bound
                .as_ref()
                .map_or_else(|| "-".to_owned(), |b| points(of(b)))
        };
        let value = |place: &str| match place {
            "new" => name(&self.test.new),
            "reference" => name(&self.test.reference),
            "units" => self.pairs.units().to_string(),
            "difference" => points(self.difference),
            "bound" => bound(|b| b.lower_bound),
            "low" => bound(|b| b.interval.lower),
            "high" => bound(|b| b.interval.upper),
            "margin" => format!("{:.1}", self.test.margin.unwrap_or_default() * 100.0),
            "p" => self.p.to_string(),
            "adjusted" => adjusted.unwrap_or(self.p).to_string(),
            "only_new" => self.pairs.a_only.to_string(),
            _ => self.pairs.b_only.to_string(),
        };
        let mut filled = format!("{}: ", self.test.id);
        for (at, part) in sentence.split('{').enumerate() {
            match part.split_once('}') {
                Some((place, rest)) if at > 0 => {
                    filled.push_str(&value(place));
                    filled.push_str(rest);
                }
                _ => filled.push_str(part),
            }
        }
        filled
    }

    /// Whether the budgets are matched as registered.
    fn budget(&self) -> Option<String> {
        let budget = self.test.budget.as_ref()?;
        let id = &self.test.id;
        let Some((new, reference)) = self.tokens else {
            return Some(format!(
                "{id}: evidence tokens are not on record, so that budgets are matched ({}) is not shown.",
                budget.rule
            ));
        };
        let off = (new - reference).abs() / reference.max(f64::MIN_POSITIVE);
        Some(if off <= budget.tolerance {
            format!("{id}: budgets are matched: {new:.0} tokens against {reference:.0}.")
        } else {
            format!(
                "{id}: budgets are NOT matched: {new:.0} tokens against {reference:.0}, {:.1} % off where the plan allows {:.1} %. This is not the registered test.",
                off * 100.0,
                budget.tolerance * 100.0
            )
        })
    }
}

fn exploratory(counts: &Counts) -> Vec<Value> {
    let of = counts.test.as_deref().unwrap_or("");
    vec![
        of.into(),
        counts.new.as_str().into(),
        counts.reference.as_str().into(),
        counts.pairs.units().into(),
        counts.pairs.a_only.into(),
        counts.pairs.b_only.into(),
        Value::number(counts.pairs.difference()),
        Value::P(counts.pairs.exact()),
    ]
}

const REGISTERED: [Column; 14] = [
    Column::new("test", Unit::Text, "its name in the plan"),
    Column::new(
        "family",
        Unit::Text,
        "`primary`, or the family that it is corrected in",
    ),
    Column::new(
        "kind",
        Unit::Text,
        "non-inferiority (one-sided) or a difference (exact McNemar, two-sided)",
    ),
    Column::new("new", Unit::Text, "the system that is to show something"),
    Column::new("reference", Unit::Text, "the one that it is compared with"),
    Column::new("units", Unit::Count, "questions"),
    Column::new(
        "only new",
        Unit::Count,
        "questions that only the new system has right",
    ),
    Column::new(
        "only reference",
        Unit::Count,
        "questions that only the reference has right",
    ),
    Column::new("difference", Unit::Points, "new less reference"),
    Column::new(
        "bound",
        Unit::Points,
        "one-sided lower bound of the difference",
    ),
    Column::new("margin", Unit::Points, "what the bound must exceed"),
    Column::new("p", Unit::P, "before correction"),
    Column::new("p, Holm", Unit::P, "after Holm over the family"),
    Column::new(
        "outcome",
        Unit::Text,
        "shown, not shown, or reversed: the reference is better",
    ),
];

const EXPLORATORY: [Column; 8] = [
    Column::new("label", Unit::Text, "what the counts are called"),
    Column::new("a", Unit::Text, "one system"),
    Column::new("b", Unit::Text, "the other"),
    Column::new("units", Unit::Count, "questions"),
    Column::new("only a", Unit::Count, "questions that only a has right"),
    Column::new("only b", Unit::Count, "questions that only b has right"),
    Column::new("difference", Unit::Points, "a less b"),
    Column::new("p", Unit::P, "exact McNemar, not corrected"),
];

const DEVIATIONS: [Column; 5] = [
    Column::new("date", Unit::Text, "day of the change"),
    Column::new("change", Unit::Text, "what changed"),
    Column::new("reason", Unit::Text, "why"),
    Column::new("effect", Unit::Text, "what it does to the results"),
    Column::new(
        "before freezing",
        Unit::Text,
        "whether it is dated before the plan was frozen here",
    ),
];

/// Whether a text is a day of the calendar's form.
pub fn is_day(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let number = |part: &str, digits: usize, within: std::ops::RangeInclusive<u32>| {
        part.len() == digits
            && part.bytes().all(|b| b.is_ascii_digit())
            && part.parse().is_ok_and(|n: u32| within.contains(&n))
    };
    matches!(parts[..], [y, m, d] if number(y, 4, 1970..=9999) && number(m, 2, 1..=12) && number(d, 2, 1..=31))
}
