use rawrag_statistics::PValue;
use serde::{Serialize, Serializer};

/// What a diagnostic found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// In the order in which they should be read.
    pub tables: Vec<Table>,
    /// What a reader of the tables must know: units of resampling, what was left out, warnings.
    pub notes: Vec<String>,
}

/// One table: every row has one value a column.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// Its name within the report, which is its file's stem too (`systems`).
    pub name: &'static str,
    /// What a row is.
    pub about: &'static str,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows, in a fixed order.
    pub rows: Vec<Vec<Value>>,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Column {
    /// Its name, unique in its table.
    pub name: &'static str,
    /// How its values are shown.
    pub unit: Unit,
    /// What they mean.
    pub about: &'static str,
}

/// How the values of a column are shown. Values themselves are never rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Words.
    Text,
    /// A whole number.
    Count,
    /// A share between 0 and 1, shown as a percentage.
    Rate,
    /// A difference of rates, shown in percentage points.
    Points,
    /// Tokens of o200k_base.
    Tokens,
    /// Milliseconds.
    Milliseconds,
    /// US dollars.
    Dollars,
    /// A number without a unit.
    Number,
    /// A p-value.
    P,
}

/// One value of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Words.
    Text(String),
    /// A whole number.
    Count(u64),
    /// A finite number in its column's unit: rates and points as fractions.
    Number(f64),
    /// A p-value, which is never 0.
    P(PValue),
    /// Yes or no.
    Flag(bool),
    /// Nothing, and why.
    Absent(String),
}

impl Column {
    /// A column.
    pub const fn new(name: &'static str, unit: Unit, about: &'static str) -> Self {
        Self { name, unit, about }
    }
}

impl Value {
    /// `hits` of `of` as a rate; absent for no units at all.
    pub fn rate(hits: u64, of: u64, of_what: &str) -> Self {
        match of {
            0 => Self::Absent(format!("no {of_what}")),
            _ => Self::Number(hits as f64 / of as f64),
        }
    }

    /// A number that may be undefined. One that is not finite is absent too.
    pub fn number<E: ToString>(value: Result<f64, E>) -> Self {
        match value {
            Ok(value) if value.is_finite() => Self::Number(value),
            Ok(_) => Self::Absent("not finite".to_owned()),
            Err(reason) => Self::Absent(reason.to_string()),
        }
    }

    /// The number, where it is one.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Count(count) => Some(*count as f64),
            Self::Number(number) => Some(*number),
            Self::P(p) => Some(p.value()),
            Self::Text(_) | Self::Flag(_) | Self::Absent(_) => None,
        }
    }

    /// The value as a table shows it; what is absent is a dash.
    pub fn shown(&self, unit: Unit) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Count(count) => count.to_string(),
            Self::Flag(true) => "yes".to_owned(),
            Self::Flag(false) => "no".to_owned(),
            Self::P(p) => p.to_string(),
            Self::Absent(_) => "–".to_owned(),
            Self::Number(x) => match unit {
                Unit::Rate => format!("{:.2}", x * 100.0),
                Unit::Points => format!("{:+.2}", x * 100.0),
                Unit::Tokens | Unit::Count => format!("{x:.1}"),
                Unit::Milliseconds => format!("{x:.2}"),
                Unit::Dollars => format!("{x:.6}"),
                Unit::Number | Unit::P | Unit::Text => format!("{x:.4}"),
            },
        }
    }

    /// The value in full, for a file that programs read; what is absent is empty.
    pub fn written(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Count(count) => count.to_string(),
            Self::Number(number) => number.to_string(),
            Self::P(p) => p.value().to_string(),
            Self::Flag(flag) => flag.to_string(),
            Self::Absent(_) => String::new(),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<usize> for Value {
    fn from(count: usize) -> Self {
        Self::Count(count as u64)
    }
}

/// What is absent is written as its reason: `{"absent": "no decisions"}`.
impl Serialize for Value {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => text.serialize(to),
            Self::Count(count) => count.serialize(to),
            Self::Number(number) => number.serialize(to),
            Self::P(p) => p.value().serialize(to),
            Self::Flag(flag) => flag.serialize(to),
            Self::Absent(reason) => to.collect_map([("absent", reason)]),
        }
    }
}

/// The column that tells runs apart.
pub(crate) const RUN_COLUMN: Column = Column::new("run", Unit::Text, "the run");

/// A table of these columns.
pub(crate) fn table(
    name: &'static str,
    about: &'static str,
    columns: &[Column],
    rows: Vec<Vec<Value>>,
) -> Table {
    Table {
        name,
        about,
        columns: columns.to_vec(),
        rows,
    }
}
