//! Definitions of tables: TOML files, their schema, and where each published cell stands.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::{self, Visitor};
use toml::Spanned;

use crate::metric::{Named, UnknownMetric};
use crate::reading::{Diagnose, Holds, Reading};

/// The paper that a number without a prefix means.
pub const DEFAULT_PAPER: &str = "raw-rag";

/// A definition file that was found, by the name it is asked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The paper's folder (`nano-memory`).
    pub paper: String,
    /// Number or name of the table or figure in it (`9`, `S-tests`).
    pub name: String,
    path: PathBuf,
}

/// What a definition defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// `table-*.toml`
    Table,
    /// `figure-*.toml`
    Figure,
}

/// A table as its file defines it.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Where it was read from.
    pub place: Place,
    /// A short title.
    pub title: String,
    /// What the table shows, in our words.
    pub caption: String,
    /// How rows and columns are to be read.
    pub layout: Layout,
    /// What the halves of a pairwise table show; `None` in any other.
    pub pairwise: Option<Pairwise>,
    /// How diagnostics work that fill cells.
    pub diagnose: Diagnose,
    /// Which cells are the best of their column.
    pub bold: Bold,
    /// Notes below the table.
    pub notes: Vec<String>,
    /// Columns, left to right.
    pub columns: Vec<ColumnDefinition>,
    /// Rows, top to bottom, each with one published cell a column.
    pub rows: Vec<RowDefinition>,
}

/// How rows and columns are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// A row is a system or setting, a column a metric.
    Grid,
    /// A row is a comparison of two runs, a column a part of its result.
    Tests,
    /// Rows and columns are the same systems and a cell is their difference.
    Pairwise,
    /// Published statements that no run can measure.
    Static,
}

/// What the two halves of a pairwise table show.
#[derive(Clone, Debug)]
pub struct Pairwise {
    /// The metric above the diagonal; `None` where no metric computes it.
    pub upper: Option<Named>,
    /// The metric below.
    pub lower: Option<Named>,
    /// What a measurement would need, where there is no metric.
    pub needs: Option<String>,
    /// What intervals and tests draw.
    pub resample: Resample,
}

/// What a bootstrap replicate draws.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Resample {
    /// Single questions, within their source; where every one is right or wrong they are tested by
    /// exact McNemar tests (Raw-RAG, C.6, MemoryAgentBench).
    Questions,
    /// Whole conversations, as their questions are not independent.
    #[default]
    Conversations,
}

/// Which cells are the best of their column.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bold {
    /// Whether more or less is better; nothing is bold without it.
    pub best: Option<Best>,
    /// The rows among which it is the best.
    pub within: Within,
    /// Ids of rows that take no part.
    pub exclude: Vec<String>,
}

/// Whether more or less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Best {
    /// More is better.
    Maximum,
    /// Less is better.
    Minimum,
    /// The column has no best.
    None,
}

/// The rows among which a cell may be the best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Within {
    /// All rows.
    #[default]
    Table,
    /// The rows of its group.
    Group,
}

/// A column.
#[derive(Clone, Debug)]
pub struct ColumnDefinition {
    /// What a claim calls it.
    pub id: String,
    /// What its head says.
    pub label: String,
    /// The head that spans it and its neighbours.
    pub group: Option<String>,
    /// What is measured; `None` where nothing computes it.
    pub measure: Option<Measure>,
    /// What a measurement would need, where nothing computes it.
    pub needs: Option<String>,
    /// The benchmark that it is about, where its rows have a run of each of several.
    pub benchmark: Option<String>,
    /// The kinds of question it is about; all if empty.
    pub kinds: Vec<String>,
    /// Decimals of a measured value.
    pub digits: usize,
    /// Its own rule for the best, if it differs from the table's.
    pub best: Option<Best>,
}

/// What fills the cells of a column.
#[derive(Clone, Debug)]
pub enum Measure {
    /// A metric over the questions of a run.
    Metric(Named),
    /// A cell of a diagnostic's report on one run or several.
    Reading(Box<Reading>),
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Metric(metric) => metric.fmt(f),
            Self::Reading(reading) => reading.fmt(f),
        }
    }
}

/// A row.
#[derive(Clone, Debug)]
pub struct RowDefinition {
    /// What a claim calls it.
    pub id: String,
    /// What stands at its left.
    pub label: String,
    /// The heading it stands under.
    pub group: Option<String>,
    /// The run that measures it, or those that do together.
    pub runs: Vec<String>,
    /// What the rows of reports that are read for it hold.
    pub holds: Holds,
    /// The kinds of question it is about; all if empty.
    pub kinds: Vec<String>,
    /// The published cells, one a column.
    pub published: Vec<Sourced>,
}

/// A published cell and where it is stated.
#[derive(Clone, Debug, PartialEq)]
pub struct Sourced {
    /// What is stated.
    pub cell: Published,
    /// Where.
    pub source: String,
}

/// What a paper states in one cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Published {
    /// A number.
    Value(Decimal),
    /// An interval, with or without the estimate.
    Interval {
        /// The estimate.
        value: Option<Decimal>,
        /// The lower end.
        low: Decimal,
        /// The upper end.
        high: Decimal,
        /// The p-value of a difference.
        p: Option<Decimal>,
    },
    /// A p-value.
    P {
        /// The value, or a bound from above.
        value: Decimal,
        /// Whether it is the bound.
        bound: bool,
    },
    /// A share as counts.
    Counts {
        /// How many.
        count: u64,
        /// Of how many.
        of: u64,
    },
    /// Words.
    Text(String),
    /// Nothing, and why.
    Missing(String),
}

/// A number as it is printed, with its rounding.
#[derive(Clone, Debug, PartialEq)]
pub struct Decimal {
    text: String,
    value: f64,
    /// Decimals before the exponent, and the exponent.
    decimals: usize,
    exponent: i32,
}

/// Why a definition cannot be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum DefinitionError {
    #[error("{}: {source}", path.display())]
    Io {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{} line {line}: {problem}", path.display())]
    Wrong {
        path: PathBuf,
        line: usize,
        problem: String,
    },
    #[error("there is no {what} {asked}; `list` shows those there are{}", of_paper(.near))]
    NoSuch {
        what: What,
        asked: String,
        near: Vec<String>,
    },
}

fn of_paper(names: &[String]) -> String {
    if names.is_empty() {
        String::new()
    } else {
        format!(" (of that paper: {})", names.join(", "))
    }
}

/// All definitions of tables or of figures under `folder`, a subfolder a paper, in the order of
/// their file names.
///
/// # Errors
/// When the folder cannot be listed.
pub fn find(folder: &Path, what: What) -> Result<Vec<Place>, DefinitionError> {
    let prefix = format!("{what}-");
    let mut found = Vec::new();
    for paper in entries(folder)?.into_iter().filter(|path| path.is_dir()) {
        for path in entries(&paper)? {
            let stem = path
                .file_stem()
                .and_then(|stem| stem.to_str())
                .unwrap_or_default();
            let toml = path
                .extension()
                .is_some_and(|extension| extension == "toml");
            if let (Some(name), Some(paper), true) =
                (stem.strip_prefix(&prefix), paper.file_name(), toml)
            {
                let digits = name.trim_start_matches('0');
                let name = if digits.is_empty() { name } else { digits }.to_owned();
                let paper = paper.to_string_lossy().into_owned();
                found.push(Place {
                    paper,
                    name,
                    path: path.clone(),
                });
            }
        }
    }
    Ok(found)
}

pub(crate) fn entries(folder: &Path) -> Result<Vec<PathBuf>, DefinitionError> {
    let io = |source| DefinitionError::Io {
        path: folder.to_owned(),
        source,
    };
    let mut paths = fs::read_dir(folder)
        .and_then(|entries| {
            entries
                .map(|entry| Ok(entry?.path()))
                .collect::<Result<Vec<_>, _>>()
        })
        .map_err(io)?;
    paths.sort();
    Ok(paths)
}

/// The definition asked for as `nano-memory:9`, or `4` for one of [`DEFAULT_PAPER`].
///
/// # Errors
/// When there is none of that name.
pub fn choose<'a>(
    places: &'a [Place],
    what: What,
    asked: &str,
) -> Result<&'a Place, DefinitionError> {
    let (paper, name) = asked.split_once(':').unwrap_or((DEFAULT_PAPER, asked));
    let of_that = || places.iter().filter(|place| place.paper == paper);
    of_that()
        .find(|place| place.name.eq_ignore_ascii_case(name))
        .ok_or_else(|| DefinitionError::NoSuch {
            what,
            asked: format!("{paper}:{name}"),
            near: of_that().map(|place| place.name.clone()).collect(),
        })
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Table => "table",
            Self::Figure => "figure",
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.paper, self.name)
    }
}

impl Place {
    /// Reads the definition of a table.
    ///
    /// # Errors
    /// [`DefinitionError`] with the file and the line.
    pub fn load(&self) -> Result<Definition, DefinitionError> {
        let text = self.read()?;
        let wrong = |at, problem| self.wrong(&text, at, problem);
        let file: File = toml::from_str(&text).map_err(|error| {
            wrong(
                error.span().map_or(0, |span| span.start),
                error.message().to_owned(),
            )
        })?;
        file.resolve(self, &text)
            .map_err(|Problem(at, problem)| wrong(at, problem))
    }

    pub(crate) fn read(&self) -> Result<String, DefinitionError> {
        let io = |source| DefinitionError::Io {
            path: self.path.clone(),
            source,
        };
        fs::read_to_string(&self.path).map_err(io)
    }

    pub(crate) fn wrong(&self, text: &str, at: usize, problem: String) -> DefinitionError {
        wrong(&self.path, text, at, problem)
    }

    /// The file's name without its extension (`table-09`).
    pub fn stem(&self) -> String {
        self.path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    }
}

/// What is wrong, and at which byte.
pub(crate) struct Problem(pub(crate) usize, pub(crate) String);

pub(crate) fn wrong(path: &Path, text: &str, at: usize, problem: String) -> DefinitionError {
    DefinitionError::Wrong {
        path: path.to_owned(),
        line: line(text, at),
        problem,
    }
}

/// The line, from 1, of a byte.
pub(crate) fn line(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|&byte| byte == b'\n').count() + 1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: String,
    caption: String,
    source: String,
    layout: Layout,
    #[serde(default = "two")]
    digits: usize,
    #[serde(default)]
    diagnose: Diagnose,
    #[serde(default)]
    bold: Bold,
    #[serde(default)]
    notes: Vec<String>,
    pairwise: Option<Spanned<FilePairwise>>,
    #[serde(default)]
    columns: Vec<Spanned<FileColumn>>,
    rows: Vec<Spanned<FileRow>>,
    /// Why cells that a row's `cells` do not name are empty.
    missing: Option<String>,
}

fn two() -> usize {
    2
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FilePairwise {
    upper: Option<Spanned<String>>,
    lower: Option<Spanned<String>>,
    needs: Option<String>,
    #[serde(default)]
    resample: Resample,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileColumn {
    id: String,
    label: String,
    group: Option<String>,
    metric: Option<Spanned<String>>,
    diagnostic: Option<Spanned<String>>,
    #[serde(rename = "where", default)]
    holds: Holds,
    interval: Option<[String; 2]>,
    per: Option<Spanned<f64>>,
    benchmark: Option<String>,
    needs: Option<String>,
    #[serde(default)]
    kinds: Vec<String>,
    digits: Option<usize>,
    best: Option<Best>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRow {
    id: String,
    label: String,
    group: Option<String>,
    run: Option<Spanned<String>>,
    #[serde(default)]
    runs: Vec<Spanned<String>>,
    #[serde(rename = "where", default)]
    holds: Holds,
    source: Option<String>,
    #[serde(default)]
    kinds: Vec<String>,
    published: Option<Spanned<Vec<Spanned<FileCell>>>>,
    cells: Option<BTreeMap<String, Spanned<FileCell>>>,
}

enum FileCell {
    Number,
    Text(String),
    Typed(Box<Typed>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Typed {
    value: Option<Spanned<f64>>,
    low: Option<Spanned<f64>>,
    high: Option<Spanned<f64>>,
    p: Option<Spanned<f64>>,
    p_below: Option<Spanned<f64>>,
    count: Option<u64>,
    of: Option<u64>,
    missing: Option<String>,
    source: Option<String>,
}

impl<'de> Deserialize<'de> for FileCell {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Cell;
        impl<'de> Visitor<'de> for Cell {
            type Value = FileCell;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, words, or a table such as { low = -4.3, high = 0.9 }")
            }

            fn visit_i64<E>(self, _: i64) -> Result<FileCell, E> {
                Ok(FileCell::Number)
            }

            fn visit_f64<E>(self, _: f64) -> Result<FileCell, E> {
                Ok(FileCell::Number)
            }

            fn visit_str<E>(self, text: &str) -> Result<FileCell, E> {
                Ok(FileCell::Text(text.to_owned()))
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<FileCell, A::Error> {
                Typed::deserialize(de::value::MapAccessDeserializer::new(map))
                    .map(|typed| FileCell::Typed(Box::new(typed)))
            }
        }
        deserializer.deserialize_any(Cell)
    }
}

impl File {
    fn resolve(self, place: &Place, text: &str) -> Result<Definition, Problem> {
        let digits = self.digits;
        distinct(
            "column",
            self.columns
                .iter()
                .map(|c| (c.get_ref().id.as_str(), c.span().start)),
        )?;
        distinct(
            "row",
            self.rows
                .iter()
                .map(|r| (r.get_ref().id.as_str(), r.span().start)),
        )?;
        let pairwise = pairwise(self.pairwise, self.layout, !self.columns.is_empty())?;
        let columns = if pairwise.is_some() {
            self.rows
                .iter()
                .map(|row| system_column(row.get_ref(), digits))
                .collect()
        } else {
            self.columns
                .into_iter()
                .map(|column| column_definition(column, self.layout, digits))
                .collect::<Result<Vec<_>, _>>()?
        };
        let rows = self
            .rows
            .into_iter()
            .map(|row| {
                let defaults = (self.source.as_str(), self.missing.as_deref());
                row_definition(row, self.layout, &columns, defaults, text)
            })
            .collect::<Result<Vec<_>, _>>()?;
        if let Some(id) = self
            .bold
            .exclude
            .iter()
            .find(|&id| rows.iter().all(|row| row.id != *id))
        {
            return Err(Problem(
                0,
                format!("bold.exclude names `{id}`, which is no row"),
            ));
        }
        if let Some(id) = &self.diagnose.reference
            && rows.iter().all(|row| row.id != *id)
        {
            let problem = format!("diagnose.reference names `{id}`, which is no row");
            return Err(Problem(0, problem));
        }
        Ok(Definition {
            place: place.clone(),
            title: self.title,
            caption: self.caption,
            layout: self.layout,
            pairwise,
            diagnose: self.diagnose,
            bold: self.bold,
            notes: self.notes,
            columns,
            rows,
        })
    }
}

fn distinct<'a>(what: &str, ids: impl Iterator<Item = (&'a str, usize)>) -> Result<(), Problem> {
    let mut seen = BTreeSet::new();
    for (id, at) in ids {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
        if id.is_empty() || !id.chars().all(plain) {
            let problem = format!("{what} id `{id}` is not letters, digits, `-`, `_`, `.` and `@`");
            return Err(Problem(at, problem));
        }
        if !seen.insert(id) {
            return Err(Problem(at, format!("a second {what} with the id `{id}`")));
        }
    }
    Ok(())
}

fn pairwise(
    file: Option<Spanned<FilePairwise>>,
    layout: Layout,
    has_columns: bool,
) -> Result<Option<Pairwise>, Problem> {
    let Some(file) = file else {
        return if layout == Layout::Pairwise {
            Err(Problem(
                0,
                "a pairwise table says what its halves show under `pairwise`".into(),
            ))
        } else {
            Ok(None)
        };
    };
    if layout != Layout::Pairwise || has_columns {
        let problem = "`pairwise` is for that layout, in which the rows are the columns too";
        return Err(Problem(file.span().start, problem.into()));
    }
    let file = file.into_inner();
    let mean = |name: &Spanned<String>| {
        let problem = |text: String| Problem(name.span().start, text);
        let named = Named::parse(name.get_ref()).map_err(|e| problem(e.to_string()))?;
        if named.is_mean() {
            Ok(named)
        } else {
            Err(problem(format!(
                "`{named}` is no mean over questions and has no paired difference"
            )))
        }
    };
    Ok(Some(Pairwise {
        upper: file.upper.as_ref().map(mean).transpose()?,
        lower: file.lower.as_ref().map(mean).transpose()?,
        needs: file.needs,
        resample: file.resample,
    }))
}

fn system_column(row: &FileRow, digits: usize) -> ColumnDefinition {
    ColumnDefinition {
        id: row.id.clone(),
        label: row.label.clone(),
        group: None,
        measure: None,
        needs: None,
        benchmark: None,
        kinds: Vec::new(),
        digits,
        best: None,
    }
}

fn column_definition(
    column: Spanned<FileColumn>,
    layout: Layout,
    digits: usize,
) -> Result<ColumnDefinition, Problem> {
    let at = column.span().start;
    let column = column.into_inner();
    let fixed = |name: &Spanned<String>| match layout {
        Layout::Static => Err(Problem(
            name.span().start,
            "a static table measures nothing".into(),
        )),
        _ => Ok(name.span().start),
    };
    let read = column.diagnostic.is_some();
    let measure = match (&column.metric, &column.diagnostic) {
        (Some(_), Some(_)) => {
            let problem = "a column has a `metric` or a `diagnostic`, not both";
            return Err(Problem(at, problem.into()));
        }
        (Some(name), None) => {
            let at = fixed(name)?;
            let problem = |e: UnknownMetric| Problem(at, e.to_string());
            Some(Measure::Metric(
                Named::parse(name.get_ref()).map_err(problem)?,
            ))
        }
        (None, Some(name)) => {
            let at = fixed(name)?;
            let mut reading = Reading::parse(name.get_ref()).map_err(|p| Problem(at, p))?;
            reading.holds = column.holds.clone();
            reading.interval = column.interval.clone();
            if let Some(per) = &column.per {
                reading.per = positive(per)?;
            }
            Some(Measure::Reading(Box::new(reading)))
        }
        (None, None) => None,
    };
    if !read && (!column.holds.is_empty() || column.interval.is_some() || column.per.is_some()) {
        let problem = "`where`, `interval` and `per` are for a column with a `diagnostic`";
        return Err(Problem(at, problem.into()));
    }
    Ok(ColumnDefinition {
        measure,
        id: column.id,
        label: column.label,
        group: column.group,
        needs: column.needs,
        benchmark: column.benchmark,
        kinds: column.kinds,
        digits: column.digits.unwrap_or(digits),
        best: column.best,
    })
}

fn positive(number: &Spanned<f64>) -> Result<f64, Problem> {
    let value = *number.get_ref();
    if value.is_finite() && value > 0.0 {
        return Ok(value);
    }
    let problem = format!("`per` is what a number is divided by, and {value} is not above 0");
    Err(Problem(number.span().start, problem))
}

fn row_definition(
    row: Spanned<FileRow>,
    layout: Layout,
    columns: &[ColumnDefinition],
    (source, missing): (&str, Option<&str>),
    text: &str,
) -> Result<RowDefinition, Problem> {
    let at = row.span().start;
    let row = row.into_inner();
    if row.run.is_some() && !row.runs.is_empty() {
        return Err(Problem(at, "a row has a `run` or `runs`, not both".into()));
    }
    for run in row.run.iter().chain(&row.runs) {
        let at = run.span().start;
        if layout == Layout::Static {
            return Err(Problem(at, "a static table has no runs".into()));
        }
        let name = run.get_ref();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if !name.chars().all(plain) || name.starts_with('.') {
            return Err(Problem(at, format!("`{name}` is no name of a run")));
        }
    }
    if !row.runs.is_empty() {
        let of_one = |column: &ColumnDefinition| {
            column.benchmark.is_none() && matches!(column.measure, Some(Measure::Metric(_)))
        };
        if layout == Layout::Pairwise || columns.iter().any(of_one) {
            let problem = "several `runs` are for diagnostics; a metric is of one `run`, or of \
                           that on the column's `benchmark`";
            return Err(Problem(at, problem.into()));
        }
    }
    let source = row.source.as_deref().unwrap_or(source);
    let published = match (row.published, row.cells, missing) {
        (Some(list), None, _) => {
            let found = list.get_ref().len();
            if found != columns.len() {
                let count = columns.len();
                let problem = format!(
                    "row `{}` has {found} published cells for {count} columns",
                    row.id
                );
                return Err(Problem(list.span().start, problem));
            }
            let cells = list.into_inner().into_iter();
            cells
                .map(|cell| sourced(cell, source, text))
                .collect::<Result<_, _>>()?
        }
        (None, Some(mut cells), Some(missing)) => {
            let empty = || Sourced {
                cell: Published::Missing(missing.to_owned()),
                source: source.to_owned(),
            };
            let mut cell = |column: &ColumnDefinition| match cells.remove(&column.id) {
                Some(cell) => sourced(cell, source, text),
                None => Ok(empty()),
            };
            let published = columns.iter().map(&mut cell).collect::<Result<_, _>>()?;
            if let Some((id, cell)) = cells.pop_first() {
                return Err(Problem(
                    cell.span().start,
                    format!("there is no column `{id}`"),
                ));
            }
            published
        }
        _ => {
            let problem = "a row has `published`, a cell a column, or else `cells` by column id \
                           in a table that says why others are `missing`";
            return Err(Problem(at, problem.into()));
        }
    };
    Ok(RowDefinition {
        id: row.id,
        label: row.label,
        group: row.group,
        runs: row
            .run
            .into_iter()
            .chain(row.runs)
            .map(Spanned::into_inner)
            .collect(),
        holds: row.holds,
        kinds: row.kinds,
        published,
    })
}

fn sourced(cell: Spanned<FileCell>, source: &str, text: &str) -> Result<Sourced, Problem> {
    let span = cell.span();
    let (cell, own) = match cell.into_inner() {
        FileCell::Number => (Published::Value(decimal(span, text)?), None),
        FileCell::Text(words) => (Published::Text(words), None),
        FileCell::Typed(typed) => (typed.published(span, text)?, typed.source),
    };
    Ok(Sourced {
        cell,
        source: own.unwrap_or_else(|| source.to_owned()),
    })
}

impl Typed {
    fn published(&self, span: Range<usize>, text: &str) -> Result<Published, Problem> {
        let number = |number: &Spanned<f64>| decimal(number.span(), text);
        let Self {
            value,
            low,
            high,
            p,
            p_below,
            count,
            of,
            missing,
            source: _,
        } = self;
        Ok(match (value, low, high, p, p_below, count, of, missing) {
            (Some(value), None, None, None, None, None, None, None) => {
                Published::Value(number(value)?)
            }
            (value, Some(low), Some(high), p, None, None, None, None) => Published::Interval {
                p: p.as_ref().map(number).transpose()?,
                value: value.as_ref().map(number).transpose()?,
                low: number(low)?,
                high: number(high)?,
            },
            (None, None, None, Some(p), None, None, None, None) => Published::P {
                value: number(p)?,
                bound: false,
            },
            (None, None, None, None, Some(p), None, None, None) => Published::P {
                value: number(p)?,
                bound: true,
            },
            (None, None, None, None, None, Some(count), Some(of), None) if count <= of => {
                Published::Counts {
                    count: *count,
                    of: *of,
                }
            }
            (None, None, None, None, None, None, None, Some(why)) => {
                Published::Missing(why.clone())
            }
            _ => {
                return Err(Problem(
                    span.start,
                    "a cell is `value`, `low` and `high` (with or without `value` and `p`), `p`, \
                     `p_below`, `count` and a larger or equal `of`, or `missing`"
                        .into(),
                ));
            }
        })
    }
}

pub(crate) fn decimal(span: Range<usize>, text: &str) -> Result<Decimal, Problem> {
    let at = span.start;
    let written = text.get(span).unwrap_or_default();
    Decimal::parse(written)
        .ok_or_else(|| Problem(at, format!("`{written}` is not a decimal number")))
}

impl Decimal {
    /// A number as printed: `57.45`, `+0.9`, `1_403`, `2.7e-28`.
    pub fn parse(written: &str) -> Option<Self> {
        let text = written.replace('_', "");
        let value: f64 = text.parse().ok().filter(|value: &f64| value.is_finite())?;
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse().ok()?),
            None => (text.as_str(), 0),
        };
        let decimals = mantissa
            .split_once('.')
            .map_or(0, |(_, decimals)| decimals.len());
        Some(Self {
            value,
            decimals,
            exponent,
            text,
        })
    }

    /// The number.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// Decimals it is printed with.
    pub fn decimals(&self) -> usize {
        self.decimals
    }

    /// `other` rounded as this number is printed.
    pub fn rounded(&self, other: f64) -> f64 {
        let places = self.decimals as i32 - self.exponent;
        let scale = 10f64.powi(places.abs());
        // A power of ten below 1 has no exact double, so divide by its inverse.
        if places < 0 {
            (other / scale).round() * scale
        } else {
            (other * scale).round() / scale
        }
    }

    /// Whether `other` prints as this number.
    ///
    /// A value halfway between two printed ones, which binary arithmetic may put on either side,
    /// prints as both.
    pub fn agrees(&self, other: f64) -> bool {
        (self.value - other).abs() <= self.step() * (0.5 + 1e-9)
    }

    /// One unit of its last printed digit.
    pub fn step(&self) -> f64 {
        10f64.powi(self.exponent - self.decimals as i32)
    }

    /// The same, for a number that is not a whole one and so may have been rounded.
    pub fn quantum(&self) -> Option<f64> {
        (self.decimals > 0 || self.exponent != 0).then(|| self.step())
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => write!(f, "{value}"),
            Self::Interval {
                value,
                low,
                high,
                p,
            } => {
                // A difference with its p stands on three lines, as the papers set it.
                let apart = if p.is_some() { "\n" } else { " " };
                if let Some(value) = value {
                    let star = p.as_ref().is_some_and(|p| p.value() < 0.05);
                    write!(f, "{value}{}{apart}", if star { "*" } else { "" })?;
                }
                write!(f, "[{low}, {high}]")?;
                p.as_ref().map_or(Ok(()), |p| write!(f, "\n{p}"))
            }
            Self::P {
                value,
                bound: false,
            } => write!(f, "{value}"),
            Self::P { value, bound: true } => write!(f, "<{value}"),
            Self::Counts { count, of } => write!(f, "{count}/{of}"),
            Self::Text(text) => f.write_str(text),
            Self::Missing(_) => Ok(()),
        }
    }
}

impl Published {
    /// Whether the text at hand does not have it.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Missing(_))
    }

    /// The number to compare a measurement with.
    pub fn value(&self) -> Option<&Decimal> {
        match self {
            Self::Value(value)
            | Self::P {
                value,
                bound: false,
            } => Some(value),
            Self::Interval { value, .. } => value.as_ref(),
            Self::P { bound: true, .. }
            | Self::Counts { .. }
            | Self::Text(_)
            | Self::Missing(_) => None,
        }
    }
}
