//! Statistics of numbers typed in: each call gives a small table.

use rawrag_statistics::agreement::{
    Agreement, RatingError, Resampling, cohen_kappa, fleiss_kappa, krippendorff_alpha,
    raw_agreement,
};
use rawrag_statistics::power::{
    PoweredTest, clusters_needed, mcnemar_power, mcnemar_units, noninferiority_power,
    noninferiority_units, simulated_power,
};
use rawrag_statistics::{
    Adjustment, CochranQ, Conclusion, Defined, Family, FamilyError, PValue, PairCounts,
    PairedDesign, PairedMethod, Replication, noninferiority_then_superiority, paired_interval,
};
use serde_json::{Map, Value, json};

use super::StatisticsError;
use crate::sheet::{Column, Format, Line, Sheet};

/// Most units whose counts are spelled out unit by unit.
const MOST_UNITS: u64 = 1_000_000;

/// Most units for which the exact power is summed.
const MOST_SUMMED: u64 = 200_000;

/// Confidence of intervals.
const CONFIDENCE: f64 = 0.95;

/// Rows of named values.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    columns: &'static [&'static str],
    rows: Vec<Vec<Cell>>,
}

/// A value of an [`Answer`].
#[derive(Debug, Clone, PartialEq)]
enum Cell {
    Text(String),
    Count(u64),
    Number(f64),
    P(PValue),
    Flag(bool),
    /// There is no value, for this reason; no reason where the column does not apply.
    Absent(String),
}

impl Answer {
    /// The rows as text. JSON is `{"rows": [...]}` with an object a row; a value that is undefined
    /// is `{"undefined": "<reason>"}` there, and one that does not apply is left out.
    pub fn render(&self, format: Format) -> String {
        if format == Format::Json {
            let rows: Vec<Value> = self.rows.iter().map(|row| self.object(row)).collect();
            return crate::sheet::json(&json!({ "rows": rows }));
        }
        let exact = format == Format::Csv;
        let line =
            |row: &Vec<Cell>| Line::Cells(row.iter().map(|cell| cell.text(exact).into()).collect());
        let head = |(at, name): (usize, &&str)| {
            let words = |row: &Vec<Cell>| matches!(row.get(at), Some(Cell::Text(_)));
            let label = if exact {
                (*name).to_owned()
            } else {
                name.replace('_', " ")
            };
            if self.rows.iter().any(words) {
                Column::words(label)
            } else {
                Column::numbers(label)
            }
        };
        let sheet = Sheet {
            columns: self.columns.iter().enumerate().map(head).collect(),
            lines: self.rows.iter().map(line).collect(),
            ..Sheet::default()
        };
        sheet.render(format)
    }

    fn object(&self, row: &[Cell]) -> Value {
        let mut object = Map::new();
        for (&name, cell) in self.columns.iter().zip(row) {
            let value = match cell {
                Cell::Text(text) => json!(text),
                Cell::Count(count) => json!(count),
                Cell::Number(number) => json!(number),
                Cell::P(p) => json!(p),
                Cell::Flag(flag) => json!(flag),
                Cell::Absent(reason) if reason.is_empty() => continue,
                Cell::Absent(reason) => json!({ "undefined": reason }),
            };
            object.insert(name.to_owned(), value);
        }
        Value::Object(object)
    }
}

impl Cell {
    const NONE: Self = Self::Absent(String::new());

    fn of<T>(value: Defined<T>, cell: impl Fn(T) -> Self) -> Self {
        value.map_or_else(|reason| Self::Absent(reason.to_string()), cell)
    }

    fn text(&self, exact: bool) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Count(count) => count.to_string(),
            Self::Number(number) if exact => number.to_string(),
            Self::Number(number) => format!("{number:.4}"),
            Self::P(p) if exact => super::number(*p),
            Self::P(p) => p.to_string(),
            Self::Flag(flag) if exact => flag.to_string(),
            Self::Flag(flag) => super::yes(*flag),
            Self::Absent(_) if exact => String::new(),
            Self::Absent(reason) if reason.is_empty() => "-".to_owned(),
            Self::Absent(reason) => reason.clone(),
        }
    }
}

/// Discordant counts and, if known, the number of units.
///
/// # Errors
/// When there are fewer units than discordant ones.
pub fn counts(a_only: u64, b_only: u64, units: u64) -> Result<PairCounts, StatisticsError> {
    let agreed = a_only
        .checked_add(b_only)
        .and_then(|discordant| units.checked_sub(discordant));
    match agreed {
        // How the units the systems agree on are divided matters to no paired test.
        Some(both) => Ok(PairCounts {
            both,
            a_only,
            b_only,
            neither: 0,
        }),
        None => Err(StatisticsError::Typed(format!(
            "{a_only} and {b_only} units of one system only are more than {units} units"
        ))),
    }
}

/// McNemar's test in every form; the difference and its Tango interval if the units are known.
///
/// # Errors
/// As [`counts`].
pub fn mcnemar(a_only: u64, b_only: u64, units: Option<u64>) -> Result<Answer, StatisticsError> {
    let table = counts(
        a_only,
        b_only,
        units.unwrap_or(a_only.saturating_add(b_only)),
    )?;
    let mut row = vec![
        Cell::Count(a_only),
        Cell::Count(b_only),
        Cell::P(table.exact()),
        Cell::Number(table.exact().log10()),
        Cell::P(table.mid_p()),
    ];
    for test in [table.chi_squared(), table.chi_squared_corrected()] {
        row.push(Cell::of(test, |test| Cell::Number(test.statistic)));
        row.push(Cell::of(test, |test| Cell::P(test.p)));
    }
    if units.is_some() {
        let interval = paired_interval(&table, CONFIDENCE, PairedMethod::Tango);
        row.push(Cell::of(table.difference(), Cell::Number));
        row.push(Cell::of(interval, |i| Cell::Number(i.lower)));
        row.push(Cell::of(interval, |i| Cell::Number(i.upper)));
    } else {
        row.extend([Cell::NONE, Cell::NONE, Cell::NONE]);
    }
    Ok(Answer {
        columns: &[
            "a_only",
            "b_only",
            "p_exact",
            "log10_p_exact",
            "p_mid",
            "chi_squared",
            "p_chi_squared",
            "chi_squared_corrected",
            "p_chi_squared_corrected",
            "difference",
            "lower",
            "upper",
        ],
        rows: vec![row],
    })
}

/// Non-inferiority of a to b and superiority after it, by three methods.
///
/// # Errors
/// As [`counts`].
pub fn noninferiority(
    a_only: u64,
    b_only: u64,
    units: u64,
    margin: f64,
    alpha: f64,
) -> Result<Answer, StatisticsError> {
    let table = counts(a_only, b_only, units)?;
    let methods = [
        ("tango", PairedMethod::Tango),
        ("newcombe", PairedMethod::Newcombe),
        ("wald", PairedMethod::Wald),
    ];
    let row = |(name, method): (&str, PairedMethod)| {
        let both = noninferiority_then_superiority(&table, margin, alpha, method);
        let first = both.map(|both| both.non_inferiority);
        vec![
            Cell::Text(name.to_owned()),
            Cell::of(table.difference(), Cell::Number),
            Cell::of(first, |test| Cell::Number(test.lower_bound)),
            Cell::of(first, |test| Cell::Number(test.interval.lower)),
            Cell::of(first, |test| Cell::Number(test.interval.upper)),
            Cell::of(first, |test| Cell::P(test.p)),
            Cell::of(first, |test| Cell::Flag(test.non_inferior)),
            Cell::of(both, |both| both.p_superiority.map_or(Cell::NONE, Cell::P)),
            Cell::of(both, |both| {
                let conclusion = match both.conclusion {
                    Conclusion::Inconclusive => "inconclusive",
                    Conclusion::NonInferior => "non_inferior",
                    Conclusion::Superior => "superior",
                };
                Cell::Text(conclusion.to_owned())
            }),
        ]
    };
    Ok(Answer {
        columns: &[
            "method",
            "difference",
            "lower_bound",
            "lower",
            "upper",
            "p",
            "non_inferior",
            "p_superiority",
            "conclusion",
        ],
        rows: methods.into_iter().map(row).collect(),
    })
}

/// A family of p-values, each adjusted in four ways. Members are `0.01` or `name=0.01`.
///
/// # Errors
/// When a member is no p-value or is named twice.
pub fn holm(members: &[String]) -> Result<Answer, StatisticsError> {
    let parsed: Vec<(String, PValue)> = members
        .iter()
        .enumerate()
        .map(|(at, member)| {
            let (name, p) = match member.split_once('=') {
                Some((name, p)) => (name.to_owned(), p),
                None => ((at + 1).to_string(), member.as_str()),
            };
            let p = p_value(p).ok_or_else(|| {
                StatisticsError::Typed(format!(
                    "`{member}` is no p-value: a number above 0 and at most 1, such as 0.012, \
                     3e-9 or S1=0.012"
                ))
            })?;
            Ok((name, p))
        })
        .collect::<Result<_, StatisticsError>>()?;
    let family = Family::declare(parsed.iter().map(|(name, p)| (name.clone(), Ok(*p))))
        .map_err(|error: FamilyError| StatisticsError::Typed(error.to_string()))?;
    let adjusted = [
        Adjustment::Holm,
        Adjustment::Hochberg,
        Adjustment::BenjaminiHochberg,
        Adjustment::Bonferroni,
    ]
    .map(|adjustment| family.adjusted(adjustment));
    let row = |(at, (name, p)): (usize, &(String, PValue))| {
        let mut row = vec![Cell::Text(name.clone()), Cell::P(*p)];
        row.extend(adjusted.iter().map(|values| Cell::P(values[at].1)));
        row
    };
    Ok(Answer {
        columns: &["member", "p", "holm", "hochberg", "bh", "bonferroni"],
        rows: parsed.iter().enumerate().map(row).collect(),
    })
}

/// A p-value that may be too small for a double, such as 4e-500.
fn p_value(text: &str) -> Option<PValue> {
    let (digits, exponent) = match text.split_once(['e', 'E']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let digits: f64 = digits.parse().ok()?;
    let ln = digits.ln() + f64::from(exponent) * std::f64::consts::LN_10;
    // A rounding error above 1 is 1; anything more is no probability.
    (digits > 0.0 && digits.is_finite() && ln <= 1e-12)
        .then(|| PValue::from_ln(ln))
        .flatten()
}

/// Agreement of two raters from their table of counts: row i, column j counts the items that the
/// first put in category i and the second in j.
///
/// # Errors
/// When the table is not square or has no or too many items.
pub fn kappa(rows: &[Vec<u64>], replication: Replication) -> Result<Answer, StatisticsError> {
    let typed = |problem: String| Err(StatisticsError::Typed(problem));
    if let Some(row) = rows.iter().find(|row| row.len() != rows.len()) {
        return typed(format!(
            "{} rows, and one of {} counts: give as many counts a row as rows, such as `40,3 5,52`",
            rows.len(),
            row.len()
        ));
    }
    let items = rows
        .iter()
        .flatten()
        .try_fold(0, |sum: u64, &n| sum.checked_add(n));
    check_units(items, "items")?;
    let mut first = Vec::new();
    let mut second = Vec::new();
    for (i, row) in rows.iter().enumerate() {
        for (j, &count) in row.iter().enumerate() {
            first.extend(std::iter::repeat_n(i, count as usize));
            second.extend(std::iter::repeat_n(j, count as usize));
        }
    }
    let items: Vec<Vec<usize>> = first
        .iter()
        .zip(&second)
        .map(|(&a, &b)| vec![a, b])
        .collect();
    let resampling = Resampling {
        clusters: None,
        replication,
        confidence: CONFIDENCE,
    };
    let row = |name: &str, agreement: Result<Agreement, RatingError>| {
        let agreement = agreement.map_err(|error| StatisticsError::Typed(error.to_string()))?;
        Ok::<_, StatisticsError>(vec![
            Cell::Text(name.to_owned()),
            Cell::of(agreement.value, Cell::Number),
            Cell::of(agreement.interval, |i| Cell::Number(i.lower)),
            Cell::of(agreement.interval, |i| Cell::Number(i.upper)),
            Cell::Count(agreement.items as u64),
        ])
    };
    Ok(Answer {
        columns: &["coefficient", "value", "lower", "upper", "items"],
        rows: vec![
            row("cohen_kappa", cohen_kappa(&first, &second, resampling))?,
            row("fleiss_kappa", fleiss_kappa(&items, resampling))?,
            row("krippendorff_alpha", krippendorff_alpha(&items, resampling))?,
            row("raw_agreement", raw_agreement(&first, &second, resampling))?,
        ],
    })
}

fn check_units(units: Option<u64>, what: &str) -> Result<(), StatisticsError> {
    let problem = match units {
        Some(0) => format!("there are no {what}"),
        Some(units) if units <= MOST_UNITS => return Ok(()),
        _ => format!("more than {MOST_UNITS} {what}"),
    };
    Err(StatisticsError::Typed(problem))
}

/// Cochran's Q from how many units have each pattern of outcomes: `110=25` are 25 units on which
/// the first two of three systems are correct.
///
/// # Errors
/// When a pattern is not of 0 and 1, patterns differ in length, or there are no or too many units.
pub fn q(patterns: &[String], replication: Replication) -> Result<Answer, StatisticsError> {
    let mut scores: Vec<Vec<f64>> = Vec::new();
    let mut units = Some(0u64);
    for text in patterns {
        let parsed = text.split_once('=').and_then(|(pattern, count)| {
            let outcomes: Option<Vec<f64>> = pattern
                .chars()
                .map(|c| c.to_digit(2).map(f64::from))
                .collect();
            Some((outcomes?, count.parse::<u64>().ok()?))
        });
        let Some((outcomes, count)) = parsed else {
            return Err(StatisticsError::Typed(format!(
                "`{text}` is no pattern of outcomes: give a 0 or 1 a system and the number of \
                 units, such as 110=25"
            )));
        };
        if scores.is_empty() {
            scores = vec![Vec::new(); outcomes.len()];
        }
        if scores.len() != outcomes.len() {
            return Err(StatisticsError::Typed(format!(
                "`{text}` has {} systems where the first pattern has {}",
                outcomes.len(),
                scores.len()
            )));
        }
        units = units.and_then(|units| units.checked_add(count));
        check_units(units.map(|units| units.max(1)), "units")?;
        for (scores, outcome) in scores.iter_mut().zip(outcomes) {
            scores.extend(std::iter::repeat_n(outcome, count as usize));
        }
    }
    check_units(units, "units")?;
    let q = CochranQ::new(&scores);
    let test = q.as_ref().map(CochranQ::test).map_err(|&reason| reason);
    let permutation = q.map(|q| q.permutation(replication));
    Ok(Answer {
        columns: &[
            "systems",
            "n",
            "statistic",
            "degrees_of_freedom",
            "p",
            "log10_p",
            "p_permutation",
        ],
        rows: vec![vec![
            Cell::Count(scores.len() as u64),
            Cell::Count(units.unwrap_or_default()),
            Cell::of(test, |q| Cell::Number(q.statistic)),
            Cell::of(test, |q| Cell::Count(q.degrees_of_freedom.into())),
            Cell::of(test, |q| Cell::P(q.p)),
            Cell::of(test, |q| Cell::Number(q.p.log10())),
            Cell::of(permutation, Cell::P),
        ]],
    })
}

/// What power is asked about. All but counts are fractions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PowerQuestion {
    /// True difference, a minus b.
    pub difference: f64,
    /// Share of units on which the systems disagree.
    pub discordant: f64,
    /// Level: two-sided for differences, one-sided for non-inferiority.
    pub alpha: f64,
    /// Power to reach.
    pub power: f64,
    /// Units there are; without it, as many as the power needs.
    pub units: Option<u64>,
    /// Non-inferiority margin, if that is asked about as well.
    pub margin: Option<f64>,
    /// Units a cluster and standard deviation of the difference between clusters, if units come in
    /// clusters.
    pub clusters: Option<(u64, f64)>,
    /// Samples and seed of the simulation of clusters.
    pub replication: Replication,
}

/// Units each test needs, or its power with the units there are.
///
/// McNemar by formula and exactly; non-inferiority by formula; the sign-flip test over clusters by
/// formula and simulation.
///
/// # Errors
/// When the difference is larger than the share of discordant units.
pub fn power(question: &PowerQuestion) -> Result<Answer, StatisticsError> {
    let PowerQuestion {
        difference,
        discordant,
        alpha,
        ..
    } = *question;
    if difference.abs() > discordant {
        return Err(StatisticsError::Typed(format!(
            "a difference of {difference} needs at least that share of discordant units, and \
             --discordant is {discordant}"
        )));
    }
    let needed = mcnemar_units(discordant, difference, alpha, question.power);
    let units = question.units.map_or(needed, Ok);
    let exact = match units {
        Ok(units) if units > MOST_SUMMED => {
            Cell::Absent(format!("not summed beyond {MOST_SUMMED} units"))
        }
        Ok(units) => Cell::of(
            mcnemar_power(units, discordant, difference, alpha),
            Cell::Number,
        ),
        Err(reason) => Cell::Absent(reason.to_string()),
    };
    let mut rows = vec![vec![
        Cell::Text("mcnemar_exact".to_owned()),
        Cell::NONE,
        Cell::of(units, Cell::Count),
        exact,
        Cell::NONE,
    ]];
    if let Some(margin) = question.margin {
        let needed = noninferiority_units(discordant, difference, margin, alpha, question.power);
        let units = question.units.map_or(needed, Ok);
        let power = units
            .and_then(|units| noninferiority_power(units, discordant, difference, margin, alpha));
        rows.push(vec![
            Cell::Text("noninferiority".to_owned()),
            Cell::NONE,
            Cell::of(units, Cell::Count),
            Cell::of(power, Cell::Number),
            Cell::NONE,
        ]);
    }
    if let Some((size, between_sd)) = question.clusters {
        rows.push(clustered(question, size, between_sd)?);
    }
    Ok(Answer {
        columns: &["test", "clusters", "units", "power", "standard_error"],
        rows,
    })
}

fn clustered(
    question: &PowerQuestion,
    size: u64,
    between_sd: f64,
) -> Result<Vec<Cell>, StatisticsError> {
    let mut design = PairedDesign {
        clusters: 1,
        units_per_cluster: size as usize,
        // Only the discordant share matters to the test; this rate and correlation give it.
        rate: 0.5,
        correlation: 1.0 - 2.0 * question.discordant,
        difference: question.difference,
        between_sd,
    };
    let clusters = match question.units {
        Some(units) => Ok(units / size.max(1)),
        None => clusters_needed(&design, question.alpha, question.power),
    };
    let name = Cell::Text("signflip_clusters".to_owned());
    let clusters = match clusters {
        Ok(clusters) => clusters,
        Err(reason) => {
            let absent = || Cell::Absent(reason.to_string());
            return Ok(vec![name, absent(), absent(), absent(), Cell::NONE]);
        }
    };
    let units = clusters.checked_mul(size);
    check_units(units, "units in whole clusters to simulate")?;
    design.clusters = clusters as usize;
    let simulated = simulated_power(
        &design,
        PoweredTest::SignFlip,
        question.alpha,
        question.replication,
    );
    Ok(vec![
        name,
        Cell::Count(clusters),
        Cell::Count(units.unwrap_or_default()),
        Cell::Number(simulated.power),
        Cell::Number(simulated.standard_error),
    ])
}
