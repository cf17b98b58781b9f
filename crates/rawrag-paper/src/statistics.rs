//! Paired statistics of a table of labels, as text.
//!
//! [`Comparison::of`] reads a table and computes; [`Comparison::render`] prints. The statistics are
//! those of [`rawrag_statistics::report`], and the fields of the JSON are described in
//! `docs/statistics.md`. [`typed`] does the same for numbers typed in, and `command` (feature
//! `cli`) is the command line of both.

#[cfg(feature = "cli")]
pub mod command;
pub mod typed;

use std::path::{Path, PathBuf};

use rawrag_records::labels::{Columns, LabelError, LabelProblem, LabelTable};
use rawrag_statistics::report::{Options, PairRow, Report, ReportError, SystemRow, report};
use rawrag_statistics::{Defined, Interval, Missing, OutcomeError, Outcomes, PValue, Row};
use serde::Serialize;

use crate::sheet::{Column, Format, Line, Sheet, Text, json};

/// Version of the JSON that [`Comparison::render`] writes; fields are added within a version and
/// never change their meaning.
pub const SCHEMA: u32 = 1;

/// A table of labels with all its statistics.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: u32,
    /// What the columns were taken for.
    pub columns: ColumnsRead,
    /// The statistics.
    #[serde(flatten)]
    pub report: Report,
}

/// What the columns of a table were taken for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ColumnsRead {
    /// Columns that identify a unit.
    pub unit: Vec<String>,
    /// Columns that identify a cluster.
    pub cluster: Vec<String>,
    /// Columns that identify a stratum.
    pub strata: Vec<String>,
    /// Columns that were taken for nothing, since most of their values are no labels.
    pub passed_over: Vec<String>,
}

/// Why there are no statistics.
#[derive(Debug, thiserror::Error)]
pub enum StatisticsError {
    /// The file is no table of labels.
    #[error(transparent)]
    Labels(#[from] LabelError),
    /// The labels form no paired outcomes.
    #[error("{}: {source}; see --missing", path.display())]
    Outcomes {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: OutcomeError,
    },
    /// The outcomes allow no report.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// Numbers typed in make no sense.
    #[error("{0}")]
    Typed(String),
}

impl StatisticsError {
    /// Whether what was asked for is at fault, rather than the file.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Labels(LabelError { problem, .. }) => matches!(
                problem,
                LabelProblem::NoColumn { .. } | LabelProblem::NoSystem { .. }
            ),
            Self::Outcomes { .. } => false,
            Self::Report(error) => matches!(
                error,
                ReportError::Alpha(_) | ReportError::Margin(_) | ReportError::NoReplicates
            ),
            Self::Typed(_) => true,
        }
    }
}

impl Comparison {
    /// Reads a table of labels and computes every statistic of it.
    ///
    /// # Errors
    /// When the file is no table of labels, labels are missing and `missing` refuses that, or fewer
    /// than two systems are left.
    pub fn of(
        path: &Path,
        columns: &Columns,
        missing: Missing,
        options: &Options,
    ) -> Result<Self, StatisticsError> {
        let table = LabelTable::read(path, columns)?;
        let outcomes = outcomes(&table, missing).map_err(|source| StatisticsError::Outcomes {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            schema: SCHEMA,
            report: report(&outcomes, options)?,
            columns: ColumnsRead {
                unit: columns.unit.clone(),
                cluster: columns.cluster.clone(),
                strata: columns.strata.clone(),
                passed_over: table.passed_over,
            },
        })
    }

    /// The comparison as text: JSON and CSV at full precision, the others rounded for people.
    ///
    /// CSV is one table: a line a system, a line a pair, and a line for Cochran's Q, told apart by
    /// the first column.
    pub fn render(&self, format: Format) -> String {
        match format {
            Format::Json => json(self),
            Format::Csv => self.lines().render(format),
            Format::Markdown | Format::Latex | Format::Html => {
                let mut sheets = vec![self.systems(), self.matrix(), self.pairs()];
                sheets.extend(self.noninferiority());
                let texts: Vec<String> = sheets.iter().map(|sheet| sheet.render(format)).collect();
                texts.join("\n")
            }
        }
    }

    fn systems(&self) -> Sheet {
        let report = &self.report;
        let level = format!("{}% interval", report.confidence * 100.0);
        let column = |by: &str| Column {
            group: Some(level.clone()),
            ..Column::numbers(format!("by {by}"))
        };
        let mut columns = vec![
            Column::words("System"),
            Column::numbers("n"),
            Column::numbers("Correct"),
            Column::numbers("Rate"),
            column(&report.unit),
        ];
        if let Some(clusters) = &report.clusters {
            columns.push(column(&clusters.name));
        }
        let line = |row: &SystemRow| {
            let mut cells: Vec<Text> = vec![
                row.system.as_str().into(),
                row.n.to_string().into(),
                shown(&row.correct, u64::to_string).into(),
                percent(row.rate).into(),
                shown(&row.interval, |i| span(i, percent)).into(),
            ];
            if report.clusters.is_some() {
                cells.push(shown(&row.interval_cluster, |i| span(i, percent)).into());
            }
            Line::Cells(cells)
        };
        Sheet {
            title: "Systems".to_owned(),
            caption: format!("{} Rates and intervals in percent.", report.sentence),
            columns,
            lines: report.systems.iter().map(line).collect(),
            notes: self.notes(),
        }
    }

    /// The omnibus tests, how it was computed, and the warnings.
    fn notes(&self) -> Vec<String> {
        let report = &self.report;
        let mut notes = vec![match &report.cochran_q {
            Ok(q) => format!(
                "Cochran's Q({}) = {:.2}, p {}, log10 p = {:.2}; permutation p {}.",
                q.test.degrees_of_freedom,
                q.test.statistic,
                equals(q.test.p),
                q.log10_p,
                equals(q.p_permutation),
            ),
            Err(reason) => format!("Cochran's Q is undefined: {reason}."),
        }];
        for (range, by) in [
            (&report.range, report.unit.as_str()),
            (
                &report.range_cluster,
                report.clusters.as_ref().map_or("", |c| c.name.as_str()),
            ),
        ] {
            if let Ok(range) = range {
                notes.push(format!(
                    "Largest minus smallest rate: {} points; centred range bootstrap by {by}, p {}.",
                    percent(range.range),
                    equals(range.p),
                ));
            }
        }
        notes.push(self.basis());
        if !self.columns.passed_over.is_empty() {
            notes.push(format!(
                "Columns taken for no system, as most of their values are no labels: {}.",
                named(&self.columns.passed_over)
            ));
        }
        let warnings = report.warnings.iter();
        notes.extend(warnings.map(|warning| format!("Warning: {warning}")));
        notes
    }

    /// Units, clusters, strata, replicates and seed, in one sentence.
    fn basis(&self) -> String {
        let report = &self.report;
        let mut parts = vec![format!(
            "{} {}s ({})",
            report.n,
            report.unit,
            named(&self.columns.unit)
        )];
        if let Some(clusters) = &report.clusters {
            parts.push(format!(
                "{} {}s ({})",
                clusters.count,
                clusters.name,
                named(&self.columns.cluster)
            ));
        }
        if let Some(strata) = report.strata {
            parts.push(format!("{strata} strata ({})", named(&self.columns.strata)));
        }
        format!(
            "{}; {} replicates, seed {}.",
            parts.join(", "),
            report.replication.replicates,
            report.replication.seed
        )
    }

    /// All pairs as the Raw-RAG paper prints them (Tables 27 and 28): difference, interval and
    /// adjusted p, row minus column. The upper triangle is by unit, the lower by cluster.
    fn matrix(&self) -> Sheet {
        let report = &self.report;
        let names: Vec<&str> = report.systems.iter().map(|s| s.system.as_str()).collect();
        let mut grid = vec![vec![Text::from("-"); names.len()]; names.len()];
        let places = (0..names.len()).flat_map(|a| (a + 1..names.len()).map(move |b| (a, b)));
        for ((a, b), pair) in places.zip(&report.pairs) {
            grid[a][b] = self.cell(pair.difference, &pair.interval, pair.p_holm);
            grid[b][a] = match &report.clusters {
                Some(_) => self.cell(
                    0.0 - pair.difference,
                    &pair.interval_studentised.map(Interval::negated),
                    pair.p_signflip_holm,
                ),
                None => Text::default(),
            };
        }
        let lines = names.iter().zip(grid).map(|(name, cells)| {
            let head = Text::from(*name);
            Line::Cells(std::iter::once(head).chain(cells).collect())
        });
        Sheet {
            title: "Pairwise differences".to_owned(),
            caption: self.matrix_caption(),
            columns: std::iter::once(Column::words("Row minus column"))
                .chain(names.iter().map(|name| Column::numbers(*name)))
                .collect(),
            lines: lines.collect(),
            notes: Vec::new(),
        }
    }

    fn matrix_caption(&self) -> String {
        let report = &self.report;
        let test = match report.family.over {
            "p_exact" => "exact McNemar",
            _ => "bootstrap sign test",
        };
        let lower = match &report.clusters {
            Some(clusters) => format!(
                " Lower triangle: studentised bootstrap interval by {0}, sign-flip p over {0}s.",
                clusters.name
            ),
            None => String::new(),
        };
        format!(
            "Each cell: row minus column in percentage points, {}% interval, Holm-adjusted p over \
             {} pairs; bold where p < {}. Upper triangle: percentile bootstrap interval by \
             {}, {test} p.{lower}",
            report.confidence * 100.0,
            report.family.members,
            report.alpha,
            report.unit,
        )
    }

    fn cell(&self, difference: f64, interval: &Defined<Interval>, p: PValue) -> Text {
        Text {
            text: format!(
                "{}\n{}\n{p}",
                points(difference),
                shown(interval, |i| span(i, points))
            ),
            bold: p.value() < self.report.alpha,
        }
    }

    /// Counts and every p-value of each pair, and a sentence to quote.
    fn pairs(&self) -> Sheet {
        let group = |group: &str, label: &str| Column {
            group: Some(group.to_owned()),
            ..Column::numbers(label)
        };
        let columns = vec![
            Column::words("a"),
            Column::words("b"),
            group("Correct", "both"),
            group("Correct", "a only"),
            group("Correct", "b only"),
            group("Correct", "neither"),
            group("McNemar p", "exact"),
            group("McNemar p", "mid-p"),
            group("Adjusted p", "Holm"),
            group("Adjusted p", "BH"),
            group("Bootstrap sign p", &format!("by {}", self.report.unit)),
            group("Bootstrap sign p", "by cluster"),
            group("Sign-flip p", "raw"),
            group("Sign-flip p", "Holm"),
        ];
        let line = |pair: &PairRow| {
            let count = |count: &Defined<u64>| shown(count, u64::to_string);
            let p = |p: &Defined<PValue>| shown(p, PValue::to_string);
            Line::Cells(
                [
                    pair.a.clone(),
                    pair.b.clone(),
                    count(&pair.both),
                    count(&pair.a_only),
                    count(&pair.b_only),
                    count(&pair.neither),
                    p(&pair.p_exact),
                    p(&pair.p_mid),
                    pair.p_holm.to_string(),
                    pair.p_bh.to_string(),
                    pair.p_sign.to_string(),
                    p(&pair.p_sign_cluster),
                    pair.p_signflip.to_string(),
                    pair.p_signflip_holm.to_string(),
                ]
                .map(Text::from)
                .to_vec(),
            )
        };
        let over = match &self.report.clusters {
            Some(clusters) => &clusters.name,
            None => &self.report.unit,
        };
        Sheet {
            title: "Pairs".to_owned(),
            caption: format!(
                "{}s on which both, one or neither is correct, and the tests of each pair; the \
                 sign-flip test is over {over}s.",
                capitalised(&self.report.unit)
            ),
            columns,
            lines: self.report.pairs.iter().map(line).collect(),
            notes: self
                .report
                .pairs
                .iter()
                .map(|pair| pair.sentence.clone())
                .collect(),
        }
    }

    fn noninferiority(&self) -> Option<Sheet> {
        let tests: Vec<_> = self
            .report
            .pairs
            .iter()
            .filter_map(|pair| Some((pair, &pair.noninferiority.as_ref()?.test)))
            .collect();
        if tests.is_empty() {
            return None;
        }
        // A margin that no pair could be tested with is in no result.
        let margin = match tests.iter().find_map(|(_, test)| test.as_ref().ok()) {
            Some(test) => format!("{} points", percent(test.margin)),
            None => "the margin (undefined: the scores are not all 0 or 1)".to_owned(),
        };
        let lines = tests.into_iter().map(|(pair, test)| {
            let mut cells = vec![pair.a.clone(), pair.b.clone(), points(pair.difference)];
            cells.push(shown(test, |t| points(t.lower_bound)));
            cells.push(shown(test, |t| t.p.to_string()));
            cells.push(shown(test, |t| yes(t.non_inferior)));
            Line::Cells(cells.into_iter().map(Text::from).collect())
        });
        Some(Sheet {
            title: "Non-inferiority".to_owned(),
            caption: format!(
                "Is the new system worse than the reference by less than {margin}? Tango's score \
                 test by {}, one-sided at {}; points. The order of --systems decides which is new.",
                self.report.unit, self.report.alpha,
            ),
            columns: vec![
                Column::words("New"),
                Column::words("Reference"),
                Column::numbers("Difference"),
                Column::numbers("Lower bound"),
                Column::numbers("p"),
                Column::words("Non-inferior"),
            ],
            lines: lines.collect(),
            notes: Vec::new(),
        })
    }

    /// One line a system, a pair, and Cochran's Q, unrounded.
    fn lines(&self) -> Sheet {
        let report = &self.report;
        let mut lines: Vec<Line> = report.systems.iter().map(system_line).collect();
        lines.extend(report.pairs.iter().map(|pair| pair_line(pair, report.n)));
        if let Ok(q) = &report.cochran_q {
            lines.push(csv_line(|column| match column {
                "kind" => "cochran_q".to_owned(),
                "n" => report.n.to_string(),
                "value" => q.test.statistic.to_string(),
                "p" => number(q.test.p),
                "log10_p" => q.log10_p.to_string(),
                "p_permutation" => number(q.p_permutation),
                _ => String::new(),
            }));
        }
        Sheet {
            columns: CSV.iter().map(|name| Column::words(*name)).collect(),
            lines,
            ..Sheet::default()
        }
    }
}

/// Columns of the CSV.
const CSV: [&str; 32] = [
    "kind",
    "a",
    "b",
    "n",
    "correct",
    "value",
    "lower",
    "upper",
    "cluster_lower",
    "cluster_upper",
    "two_stage_lower",
    "two_stage_upper",
    "studentised_lower",
    "studentised_upper",
    "both",
    "a_only",
    "b_only",
    "neither",
    "p",
    "log10_p",
    "p_permutation",
    "p_mid",
    "p_holm",
    "p_bh",
    "p_sign",
    "p_sign_cluster",
    "p_signflip",
    "p_signflip_holm",
    "margin",
    "noninferiority_lower",
    "p_noninferiority",
    "non_inferior",
];

fn csv_line(cell: impl Fn(&str) -> String) -> Line {
    Line::Cells(CSV.iter().map(|&column| cell(column).into()).collect())
}

fn system_line(row: &SystemRow) -> Line {
    csv_line(|column| match column {
        "kind" => "system".to_owned(),
        "a" => row.system.clone(),
        "n" => row.n.to_string(),
        "correct" => given(&row.correct, u64::to_string),
        "value" => row.rate.to_string(),
        "lower" => lower(&row.interval),
        "upper" => upper(&row.interval),
        "cluster_lower" => lower(&row.interval_cluster),
        "cluster_upper" => upper(&row.interval_cluster),
        "two_stage_lower" => lower(&row.interval_two_stage),
        "two_stage_upper" => upper(&row.interval_two_stage),
        _ => String::new(),
    })
}

fn pair_line(pair: &PairRow, n: usize) -> Line {
    let test = pair.noninferiority.as_ref().and_then(|row| row.test.ok());
    csv_line(|column| match column {
        "kind" => "pair".to_owned(),
        "a" => pair.a.clone(),
        "b" => pair.b.clone(),
        "n" => n.to_string(),
        "value" => pair.difference.to_string(),
        "lower" => lower(&pair.interval),
        "upper" => upper(&pair.interval),
        "cluster_lower" => lower(&pair.interval_cluster),
        "cluster_upper" => upper(&pair.interval_cluster),
        "two_stage_lower" => lower(&pair.interval_two_stage),
        "two_stage_upper" => upper(&pair.interval_two_stage),
        "studentised_lower" => lower(&pair.interval_studentised),
        "studentised_upper" => upper(&pair.interval_studentised),
        "both" => given(&pair.both, u64::to_string),
        "a_only" => given(&pair.a_only, u64::to_string),
        "b_only" => given(&pair.b_only, u64::to_string),
        "neither" => given(&pair.neither, u64::to_string),
        "p" => given(&pair.p_exact, |&p| number(p)),
        "log10_p" => given(&pair.log10_p_exact, f64::to_string),
        "p_mid" => given(&pair.p_mid, |&p| number(p)),
        "p_holm" => number(pair.p_holm),
        "p_bh" => number(pair.p_bh),
        "p_sign" => number(pair.p_sign),
        "p_sign_cluster" => given(&pair.p_sign_cluster, |&p| number(p)),
        "p_signflip" => number(pair.p_signflip),
        "p_signflip_holm" => number(pair.p_signflip_holm),
        "margin" => test.map_or(String::new(), |t| t.margin.to_string()),
        "noninferiority_lower" => test.map_or(String::new(), |t| t.lower_bound.to_string()),
        "p_noninferiority" => test.map_or(String::new(), |t| number(t.p)),
        "non_inferior" => test.map_or(String::new(), |t| t.non_inferior.to_string()),
        _ => String::new(),
    })
}

fn outcomes(table: &LabelTable, missing: Missing) -> Result<Outcomes, OutcomeError> {
    let rows = table.labels.iter().map(|label| {
        let unit = &table.units[label.unit];
        Row {
            system: &table.systems[label.system],
            unit: &unit.key,
            score: label.value,
            stratum: unit.stratum.as_deref(),
            cluster: unit.cluster.as_deref(),
        }
    });
    Outcomes::collect(rows, Some(&table.systems), missing)
}

/// A value for people; `-` where it is undefined.
fn shown<T>(value: &Defined<T>, show: impl Fn(&T) -> String) -> String {
    value.as_ref().map_or_else(|_| "-".to_owned(), show)
}

/// A value for programs; nothing where it is undefined.
fn given<T>(value: &Defined<T>, show: impl Fn(&T) -> String) -> String {
    value.as_ref().map_or_else(|_| String::new(), show)
}

fn lower(interval: &Defined<Interval>) -> String {
    given(interval, |i| i.lower.to_string())
}

fn upper(interval: &Defined<Interval>) -> String {
    given(interval, |i| i.upper.to_string())
}

/// A p-value as in JSON: never 0.
fn number(p: PValue) -> String {
    match p.value().max(PValue::SMALLEST_SHOWN) {
        p if p < 1e-4 => format!("{p:e}"),
        p => p.to_string(),
    }
}

fn percent(fraction: f64) -> String {
    format!("{:.1}", tenths(fraction))
}

fn points(fraction: f64) -> String {
    match tenths(fraction) {
        level if level.abs() < 0.05 => "0.0".to_owned(),
        points => format!("{points:+.1}"),
    }
}

/// In hundredths, to one decimal, halves away from 0, and no negative 0.
fn tenths(fraction: f64) -> f64 {
    (fraction * 1000.0).round() / 10.0 + 0.0
}

fn span(interval: &Interval, show: impl Fn(f64) -> String) -> String {
    format!("[{}, {}]", show(interval.lower), show(interval.upper))
}

/// `= 0.0123`, or `< 1e-300`.
fn equals(p: PValue) -> String {
    let shown = p.to_string();
    match shown.strip_prefix('<') {
        Some(bound) => format!("< {bound}"),
        None => format!("= {shown}"),
    }
}

fn named(columns: &[String]) -> String {
    columns.join(", ")
}

fn yes(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters
        .next()
        .map(|first| first.to_uppercase().chain(letters).collect())
        .unwrap_or_default()
}
