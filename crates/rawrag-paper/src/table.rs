use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use rawrag_statistics::{PValue, Replication};

use crate::definition::{
    Best, ColumnDefinition, Definition, Layout, Measure, Pairwise, Resample, RowDefinition, Within,
};
use crate::pairwise::{self, REPLICATION};
use crate::reading::{Measuring, Reports};
use crate::sheet::{self, Format, Line, Sheet, Text};
use crate::{Outputs, PaperError, Published, RunState, Runs};

/// A definition with what was measured.
#[derive(Debug, Serialize)]
pub struct Table {
    /// The paper's folder.
    pub paper: String,
    /// Its number or name in the paper.
    pub table: String,
    /// A short title.
    pub title: String,
    /// What it shows.
    pub caption: String,
    /// Columns, left to right.
    pub columns: Vec<Head>,
    /// Rows, top to bottom.
    pub rows: Vec<Row>,
    /// Notes of the definition.
    pub notes: Vec<String>,
}

/// The head of a column.
#[derive(Debug, Serialize)]
pub struct Head {
    /// What a claim calls it.
    pub id: String,
    /// What it says.
    pub label: String,
    /// The head over it and its neighbours.
    pub group: Option<String>,
    /// The metric, as the registry names it, or the diagnostic's table and column.
    pub metric: Option<String>,
}

/// A row of a [`Table`].
#[derive(Debug, Serialize)]
pub struct Row {
    /// What a claim calls it.
    pub id: String,
    /// What stands at its left.
    pub label: String,
    /// The heading it stands under.
    pub group: Option<String>,
    /// The runs that measure it.
    pub runs: Vec<String>,
    /// One cell a column.
    pub cells: Vec<Cell>,
}

/// A cell of a [`Table`].
#[derive(Debug, Serialize)]
pub struct Cell {
    /// What the paper states.
    #[serde(serialize_with = "published_data")]
    pub published: Published,
    /// Where it states it.
    pub source: String,
    /// What was measured.
    pub measured: Measured,
    /// Measured minus published, measured being rounded as published is.
    pub difference: Option<f64>,
    /// Whether what is published is the best of its column.
    pub best_published: bool,
    /// Whether what was measured is the best of its column.
    pub best_measured: bool,
    #[serde(skip)]
    digits: usize,
}

/// What was measured for a cell.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Measured {
    /// A value, rates in percent.
    Value {
        /// Unrounded.
        value: f64,
        /// Questions it is over.
        n: usize,
    },
    /// The difference of two systems, rates in points.
    Contrast {
        /// Row minus column.
        value: f64,
        /// Lower end of its 95% interval.
        low: f64,
        /// Upper end.
        high: f64,
        /// Holm-corrected over the pairs of the metric.
        p: f64,
        /// Questions it is over.
        n: usize,
    },
    /// A number of a diagnostic's report, rates in percent and their differences in points.
    Found {
        /// Unrounded.
        value: f64,
        /// Its interval, where the definition names one and the report has it.
        interval: Option<[f64; 2]>,
        /// Whether it is a difference, shown with its sign.
        signed: bool,
    },
    /// A p-value of a diagnostic's report.
    P(PValue),
    /// What a diagnostic says is undefined, and why.
    Undefined(String),
    /// Nothing, ever: a table of statements, or a system beside itself.
    Never,
    /// Nothing: no run measures the row.
    NoRun,
    /// Nothing until a run is there and whole.
    NeedsRun {
        /// The run.
        run: String,
        /// What is lacking.
        need: String,
    },
    /// Nothing, and what else it needs.
    Needs(String),
}

impl Measured {
    /// Whether something was measured.
    pub fn is_value(&self) -> bool {
        self.value().is_some()
    }

    /// The number, where something was measured.
    pub fn value(&self) -> Option<f64> {
        match self {
            Self::Value { value, .. }
            | Self::Contrast { value, .. }
            | Self::Found { value, .. } => Some(*value),
            Self::P(p) => Some(p.value()),
            _ => None,
        }
    }

    /// The ends of its interval, where there is one.
    pub fn interval(&self) -> Option<[f64; 2]> {
        match self {
            Self::Contrast { low, high, .. } => Some([*low, *high]),
            Self::Found { interval, .. } => *interval,
            _ => None,
        }
    }
}

/// What of each cell is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Only {
    /// Published, measured and their difference below one another.
    Beside,
    /// What was measured.
    Measured,
    /// What was published.
    Published,
    /// Measured minus published.
    Difference,
}

fn published_data<S: serde::Serializer>(
    published: &Published,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    use serde_json::json;
    match published {
        Published::Value(value) => json!({"value": value.value(), "printed": value.to_string()}),
        Published::Interval {
            value,
            low,
            high,
            p,
        } => json!({
            "p": p.as_ref().map(|p| p.value()),
            "value": value.as_ref().map(|value| value.value()),
            "low": low.value(),
            "high": high.value(),
        }),
        Published::P {
            value,
            bound: false,
        } => json!({"p": value.value()}),
        Published::P { value, bound: true } => json!({"p_below": value.value()}),
        Published::Counts { count, of } => json!({"count": count, "of": of}),
        Published::Text(text) => json!({"text": text}),
        Published::Missing(why) => json!({"missing": why}),
    }
    .serialize(serializer)
}

impl Table {
    /// Measures every cell that the runs on record allow.
    ///
    /// # Errors
    /// When a run that a row names is damaged. A missing or incomplete one leaves cells empty.
    pub fn evaluate(definition: &Definition, runs: &mut Runs) -> Result<Self, PaperError> {
        let mut rows = Vec::new();
        for run in definition.rows.iter().flat_map(|row| &row.runs) {
            runs.open(run)?;
        }
        let runs = &*runs;
        let pairs = match &definition.pairwise {
            Some(pairwise) => pairs(pairwise, definition, runs),
            None => Vec::new(),
        };
        let mut reports = Reports::new(&definition.diagnose);
        for (at, row) in definition.rows.iter().enumerate() {
            let columns = definition.columns.iter().zip(&row.published).enumerate();
            let mut cells = Vec::new();
            for (column_at, (column, published)) in columns {
                let pair = pairs.get(at).and_then(|row| row.get(column_at));
                let measured = match pair {
                    Some(pair) => pair.clone(),
                    None => measure(definition, row, column, runs, &mut reports)?,
                };
                cells.push(Cell {
                    difference: difference(&published.cell, &measured),
                    published: published.cell.clone(),
                    source: published.source.clone(),
                    measured,
                    best_published: false,
                    best_measured: false,
                    digits: column.digits,
                });
            }
            rows.push(Row {
                id: row.id.clone(),
                label: row.label.clone(),
                group: row.group.clone(),
                runs: row.runs.clone(),
                cells,
            });
        }
        mark_best(definition, &mut rows);
        Ok(Self {
            paper: definition.place.paper.clone(),
            table: definition.place.name.clone(),
            title: definition.title.clone(),
            caption: definition.caption.clone(),
            columns: definition.columns.iter().map(Head::of).collect(),
            rows,
            notes: notes(definition)
                .into_iter()
                .chain(undeclared(definition, runs))
                .collect(),
        })
    }

    /// The table as text, ending in a line break.
    pub fn render(&self, format: Format, only: Only) -> String {
        match format {
            Format::Json => sheet::json(self),
            format => self.sheet(only).render(format),
        }
    }

    /// The table ready to be printed.
    pub fn sheet(&self, only: Only) -> Sheet {
        let mut columns = vec![sheet::Column::words("")];
        if only == Only::Beside {
            columns.push(sheet::Column::words("shown"));
        }
        let has_words = |at: usize| {
            let cells = || self.rows.iter().filter_map(|row| row.cells.get(at));
            let words = cells()
                .filter(|cell| matches!(cell.published, Published::Text(_)))
                .count();
            let values = cells().filter(|cell| !cell.published.is_missing()).count();
            2 * words > values
        };
        columns.extend(
            self.columns
                .iter()
                .enumerate()
                .map(|(at, head)| sheet::Column {
                    group: head.group.clone(),
                    numeric: !has_words(at),
                    ..sheet::Column::numbers(&head.label)
                }),
        );
        let mut lines = Vec::new();
        let mut group = &None;
        for row in &self.rows {
            if row.group != *group {
                lines.extend(row.group.clone().map(Line::Heading));
                group = &row.group;
            }
            lines.extend(row.lines(only));
        }
        let notes = match only {
            Only::Published => self.missing(),
            _ => self.missing().into_iter().chain(self.needs()).collect(),
        };
        Sheet {
            title: format!("{}:{} {}", self.paper, self.table, self.title),
            caption: self.caption.clone(),
            columns,
            lines,
            notes: self.notes.iter().cloned().chain(notes).collect(),
        }
    }

    /// What the empty measured cells need, each need once.
    pub fn needs(&self) -> Vec<String> {
        let need = |cell: &Cell| match &cell.measured {
            Measured::Needs(need) | Measured::NeedsRun { need, .. } => {
                Some(format!("needs: {need}"))
            }
            Measured::Undefined(reason) => Some(format!("–: {reason}")),
            _ => None,
        };
        let unrun = |row: &&Row| {
            row.cells
                .iter()
                .any(|cell| matches!(cell.measured, Measured::NoRun))
        };
        let systems: Vec<String> =
            once(self.rows.iter().filter(unrun).map(|row| row.label.clone())).collect();
        let systems =
            (!systems.is_empty()).then(|| format!("needs: runs of {}", systems.join(", ")));
        let others = once(
            self.rows
                .iter()
                .flat_map(|row| row.cells.iter().filter_map(need)),
        );
        others.chain(systems).collect()
    }

    /// The runs that rows name and that would fill an empty cell, each once.
    pub fn runs_needed(&self) -> Vec<String> {
        let needed = |cell: &Cell| match &cell.measured {
            Measured::NeedsRun { run, .. } => Some(run.clone()),
            _ => None,
        };
        once(
            self.rows
                .iter()
                .flat_map(|row| row.cells.iter().filter_map(needed)),
        )
        .collect()
    }

    fn missing(&self) -> Vec<String> {
        let why = |cell: &Cell| match &cell.published {
            Published::Missing(why) => Some(format!("not in the text: {why}")),
            _ => None,
        };
        once(
            self.rows
                .iter()
                .flat_map(|row| row.cells.iter().filter_map(why)),
        )
        .collect()
    }
}

/// Each of the texts once, where it first stands.
fn once(texts: impl Iterator<Item = String>) -> impl Iterator<Item = String> {
    let mut seen = BTreeSet::new();
    texts.filter(move |text| seen.insert(text.clone()))
}

impl Head {
    fn of(column: &ColumnDefinition) -> Self {
        Self {
            id: column.id.clone(),
            label: column.label.clone(),
            group: column.group.clone(),
            metric: column.measure.as_ref().map(ToString::to_string),
        }
    }
}

impl Row {
    fn lines(&self, only: Only) -> Vec<Line> {
        let line = |word: Option<&str>, cell: fn(&Cell) -> Text| {
            let head = [Some(Text::from(&*self.label)), word.map(Text::from)];
            Line::Cells(
                head.into_iter()
                    .flatten()
                    .chain(self.cells.iter().map(cell))
                    .collect(),
            )
        };
        match only {
            Only::Published => vec![line(None, Cell::published_text)],
            Only::Measured => vec![line(None, Cell::measured_text)],
            Only::Difference => vec![line(None, Cell::difference_text)],
            Only::Beside => {
                let published = self.cells.iter().any(|c| !c.published.is_missing());
                let mut lines = Vec::new();
                if published || self.runs.is_empty() {
                    lines.push(line(Some("published"), Cell::published_text));
                }
                if !self.runs.is_empty() {
                    lines.push(line(Some("measured"), Cell::measured_text));
                }
                if self.cells.iter().any(|cell| cell.difference.is_some()) {
                    lines.push(line(Some("difference"), Cell::difference_text));
                }
                lines
            }
        }
    }
}

impl Cell {
    fn published_text(&self) -> Text {
        Text {
            text: self.published.to_string(),
            bold: self.best_published,
        }
    }

    fn measured_text(&self) -> Text {
        match &self.measured {
            Measured::Value { value, .. } => Text {
                text: fixed(*value, self.digits()),
                bold: self.best_measured,
            },
            Measured::Contrast {
                value,
                low,
                high,
                p,
                ..
            } => {
                let digits = self.digits();
                let (star, bold) = if *p < 0.05 { ("*", true) } else { ("", false) };
                let ends = (fixed(*low, digits), fixed(*high, digits));
                let p = if *p < 0.001 {
                    format!("{p:.1e}")
                } else {
                    format!("{p:.3}")
                };
                let text = format!(
                    "{}{star}\n[{}, {}]\n{p}",
                    fixed(*value, digits),
                    ends.0,
                    ends.1
                );
                Text { text, bold }
            }
            Measured::Found {
                value,
                interval,
                signed: with_sign,
            } => {
                let digits = self.digits();
                let show = |value| match with_sign {
                    true => signed(value, digits),
                    false => fixed(value, digits),
                };
                let text = match interval {
                    Some([low, high]) => {
                        format!("{} [{}, {}]", show(*value), show(*low), show(*high))
                    }
                    None => show(*value),
                };
                Text {
                    text,
                    bold: self.best_measured,
                }
            }
            Measured::P(p) => p.to_string().into(),
            _ => "–".into(),
        }
    }

    fn difference_text(&self) -> Text {
        self.difference.map_or_else(Text::default, |difference| {
            signed(difference, self.digits()).into()
        })
    }

    /// As published, so that both show alike; as defined, where nothing is published.
    fn digits(&self) -> usize {
        self.published
            .value()
            .map_or(self.digits, |value| value.decimals())
    }
}

fn fixed(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    match text.strip_prefix('-') {
        Some(zero) if zero.chars().all(|c| c == '0' || c == '.') => zero.to_owned(),
        _ => text,
    }
}

fn signed(value: f64, digits: usize) -> String {
    let text = fixed(value, digits);
    if value > 0.0 && text.chars().any(|c| ('1'..='9').contains(&c)) {
        format!("+{text}")
    } else {
        text
    }
}

fn notes(definition: &Definition) -> Vec<String> {
    let mut notes = definition.notes.clone();
    let measured = |pairwise: &&Pairwise| pairwise.upper.is_some() || pairwise.lower.is_some();
    if let Some(pairwise) = definition.pairwise.as_ref().filter(measured) {
        let drawn = match pairwise.resample {
            Resample::Questions => "questions",
            Resample::Conversations => "conversations",
        };
        let Replication { replicates, seed } = REPLICATION;
        notes.push(format!(
            "Measured: row minus column, 95% percentile interval from {replicates} paired draws of \
             {drawn} (seed {seed}), Holm-corrected bootstrap sign test over the pairs; * below 0.05."
        ));
    }
    notes
}

/// What the memory systems of the rows do not declare that they can do, as their manifests have it.
fn undeclared(definition: &Definition, runs: &Runs) -> Option<String> {
    let mut lacking: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for row in &definition.rows {
        for run in &row.runs {
            let Some(RunState::Complete(outputs)) = runs.opened(run) else {
                continue;
            };
            let lacks = outputs.manifest.settings["memory"]["lacks"].as_array();
            let lacks = lacks.into_iter().flatten().filter_map(|name| name.as_str());
            let lacks: Vec<&str> = lacks.collect();
            if !lacks.is_empty() {
                let rows = lacking.entry(lacks.join(", ")).or_default();
                if !rows.contains(&row.label.as_str()) {
                    rows.push(&row.label);
                }
            }
        }
    }
    let listed = lacking
        .iter()
        .map(|(lacks, rows)| format!("{lacks} ({})", rows.join("; ")));
    let listed: Vec<String> = listed.collect();
    (!listed.is_empty()).then(|| format!("Not declared by the systems: {}.", listed.join("; ")))
}

fn pairs(pairwise: &Pairwise, definition: &Definition, runs: &Runs) -> Vec<Vec<Measured>> {
    let systems: Vec<Result<&Outputs, Measured>> = definition
        .rows
        .iter()
        .map(|row| of_one(row, runs))
        .collect();
    pairwise::measure(pairwise, &systems)
}

/// The records of a row's run, or what they need.
fn of_one<'a>(row: &RowDefinition, runs: &'a Runs) -> Result<&'a Outputs, Measured> {
    let run = row.runs.first().ok_or(Measured::NoRun)?;
    outputs(run, runs)
}

/// The records of a run that was opened, or what they need.
fn outputs<'a>(run: &str, runs: &'a Runs) -> Result<&'a Outputs, Measured> {
    let needs = |need: String| {
        Err(Measured::NeedsRun {
            run: run.to_owned(),
            need,
        })
    };
    match runs.opened(run) {
        None | Some(RunState::Missing) => needs(format!("run {run}")),
        Some(RunState::Incomplete { found, expected }) => needs(format!(
            "the rest of run {run}, which holds {found} of {expected} questions"
        )),
        Some(RunState::Complete(outputs)) => Ok(outputs),
    }
}

fn measure(
    definition: &Definition,
    row: &RowDefinition,
    column: &ColumnDefinition,
    runs: &Runs,
    reports: &mut Reports<'_>,
) -> Result<Measured, PaperError> {
    if definition.layout == Layout::Static {
        return Ok(Measured::Never);
    }
    let Some(measure) = &column.measure else {
        let unnamed = || format!("a metric for {}", column.label);
        let needs = column.needs.clone().unwrap_or_else(unnamed);
        return Ok(Measured::Needs(needs));
    };
    let names: Vec<&str> = row.runs.iter().map(String::as_str).collect();
    let of_row = match on_benchmark(&names, column, runs) {
        Ok(of_row) => of_row,
        Err(needs) => return Ok(needs),
    };
    let reading = match measure {
        Measure::Reading(reading) => reading,
        Measure::Metric(metric) => {
            return Ok(match of_row.as_slice() {
                [run] => over(*metric, &kinds(row, column), run.outputs),
                _ => Measured::Needs("one run a row on that benchmark".to_owned()),
            });
        }
    };
    let together = match definition.diagnose.together {
        true => match on_benchmark(&beside(definition), column, runs) {
            Ok(together) => together,
            Err(needs) => return Ok(needs),
        },
        false => of_row.clone(),
    };
    let run = match of_row.as_slice() {
        [run] => Some(run.outputs.manifest.name.as_str()),
        _ => None,
    };
    reports
        .read(reading, &together, run, &row.holds, &kinds(row, column))
        .map_err(|source| PaperError::Reading {
            definition: definition.place.to_string(),
            source,
        })
}

/// The records of the runs that are on a column's benchmark, or what they need.
fn on_benchmark<'a>(
    names: &[&'a str],
    column: &ColumnDefinition,
    runs: &'a Runs,
) -> Result<Vec<Measuring<'a>>, Measured> {
    let mut found = Vec::new();
    for &name in names {
        let outputs = outputs(name, runs)?;
        let benchmark = &outputs.manifest.benchmark;
        if column.benchmark.as_ref().is_none_or(|of| of == benchmark) {
            found.push(Measuring { name, outputs });
        }
    }
    match (found.is_empty(), &column.benchmark) {
        (false, _) => Ok(found),
        (true, Some(benchmark)) if !names.is_empty() => {
            Err(Measured::Needs(format!("a run on {benchmark}")))
        }
        (true, _) => Err(Measured::NoRun),
    }
}

/// The runs of all rows, each once, those of the reference first.
fn beside(definition: &Definition) -> Vec<&str> {
    let reference = definition.diagnose.reference.as_ref();
    let mut rows: Vec<&RowDefinition> = definition.rows.iter().collect();
    rows.sort_by_key(|row| Some(&row.id) != reference);
    let mut found: Vec<&str> = Vec::new();
    for run in rows.into_iter().flat_map(|row| &row.runs) {
        if !found.contains(&run.as_str()) {
            found.push(run);
        }
    }
    found
}

/// The kinds of question that a row and a column both are about; all if empty.
fn kinds(row: &RowDefinition, column: &ColumnDefinition) -> Vec<String> {
    match (row.kinds.is_empty(), column.kinds.is_empty()) {
        (true, _) => column.kinds.clone(),
        (_, true) => row.kinds.clone(),
        _ => row
            .kinds
            .iter()
            .filter(|kind| column.kinds.contains(kind))
            .cloned()
            .collect(),
    }
}

fn over(metric: crate::metric::Named, kinds: &[String], outputs: &Outputs) -> Measured {
    match metric.over(outputs, kinds) {
        Err(unmeasurable) => Measured::Needs(unmeasurable.to_string()),
        Ok(crate::metric::Value { value: None, .. }) => {
            Measured::Needs(format!("questions for which {metric} is defined"))
        }
        Ok(crate::metric::Value {
            value: Some(value),
            n,
        }) => Measured::Value {
            value: value * metric.scale(),
            n,
        },
    }
}

fn difference(published: &Published, measured: &Measured) -> Option<f64> {
    let measured = measured.value()?;
    let published = published.value()?;
    Some(published.rounded(measured) - published.value())
}

fn mark_best(definition: &Definition, rows: &mut [Row]) {
    let bold = &definition.bold;
    for (at, column) in definition.columns.iter().enumerate() {
        let best = match column.best.or(bold.best) {
            Some(Best::Maximum) => f64::max,
            Some(Best::Minimum) => f64::min,
            Some(Best::None) | None => continue,
        };
        let mut scopes: Vec<Option<&str>> = vec![None];
        if bold.within == Within::Group {
            scopes = definition
                .rows
                .iter()
                .map(|row| row.group.as_deref())
                .collect();
            scopes.dedup();
        }
        for scope in scopes {
            let members: Vec<usize> = (0..definition.rows.len())
                .filter(|&row| {
                    definition.rows.get(row).is_some_and(|row| {
                        !bold.exclude.contains(&row.id)
                            && (bold.within == Within::Table || row.group.as_deref() == scope)
                    })
                })
                .collect();
            let published = |cell: &Cell| cell.published.value().map(|value| value.value());
            let measured = |cell: &Cell| match cell.measured {
                Measured::Value { value, .. } | Measured::Found { value, .. } => Some(value),
                _ => None,
            };
            for row in best_of(rows, &members, at, best, published) {
                if let Some(cell) = rows.get_mut(row).and_then(|row| row.cells.get_mut(at)) {
                    cell.best_published = true;
                }
            }
            for row in best_of(rows, &members, at, best, measured) {
                if let Some(cell) = rows.get_mut(row).and_then(|row| row.cells.get_mut(at)) {
                    cell.best_measured = true;
                }
            }
        }
    }
}

/// The rows of `members` with the best value; none unless two have a value to compare.
fn best_of(
    rows: &[Row],
    members: &[usize],
    column: usize,
    best: fn(f64, f64) -> f64,
    value: impl Fn(&Cell) -> Option<f64>,
) -> Vec<usize> {
    let values: Vec<(usize, f64)> = members
        .iter()
        .filter_map(|&row| Some((row, value(rows.get(row)?.cells.get(column)?)?)))
        .collect();
    let top = values.iter().map(|&(_, value)| value).reduce(best);
    match top {
        Some(top) if values.len() > 1 => values
            .iter()
            .filter(|&&(_, v)| v.total_cmp(&top).is_eq())
            .map(|&(row, _)| row)
            .collect(),
        _ => Vec::new(),
    }
}
