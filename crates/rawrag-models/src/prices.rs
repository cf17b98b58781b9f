//! What calls cost: a table of list prices, usage summed from rows, a range before a run, and a
//! limit that refuses the next call.
//!
//! Tokens are counted as integers and priced once, at the end, so that a sum does not depend on
//! the order in which calls came back. A model without a price is an error, never free.
//!
//! ```
//! use rawrag_models::prices::{PriceTable, Stage, Tokens, Totals, UsageRow};
//!
//! let table = PriceTable::parse(
//!     r#"
//!     [[price]]
//!     model = "small"
//!     input = 0.15
//!     output = 0.60
//!     dated = "2026-01-31"
//!     source = "the service's price page"
//!     "#,
//! )?;
//! let tokens = Tokens { input: 1_000_000, output: 500_000, ..Tokens::default() };
//! assert_eq!(table.cost("small", "2026-11-30", &tokens)?, 0.45);
//! # Ok::<(), rawrag_models::prices::PriceError>(())
//! ```

use std::{
    collections::BTreeMap,
    fmt,
    ops::AddAssign,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, Serialize};

/// What a call was for, so that cost is told per write, per read and per question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Putting history into a memory.
    Write,
    /// Finding evidence for a question.
    Read,
    /// Answering from the evidence.
    Answer,
    /// Grading an answer.
    Judge,
    /// Assessing evidence for a diagnostic.
    Assess,
}

/// What a service counted, or what is expected of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Tokens read, those below included.
    pub input: u64,
    /// Of `input`, those the service had kept from earlier calls and sells cheaper.
    #[serde(default)]
    pub cached_input: u64,
    /// Tokens written.
    #[serde(default)]
    pub output: u64,
    /// Search units, by which some rerankers charge.
    #[serde(default)]
    pub searches: u64,
}

impl AddAssign for Tokens {
    fn add_assign(&mut self, more: Self) {
        self.input += more.input;
        self.cached_input += more.cached_input;
        self.output += more.output;
        self.searches += more.searches;
    }
}

impl Tokens {
    fn subtract(&mut self, less: &Self) {
        self.input = self.input.saturating_sub(less.input);
        self.cached_input = self.cached_input.saturating_sub(less.cached_input);
        self.output = self.output.saturating_sub(less.output);
        self.searches = self.searches.saturating_sub(less.searches);
    }
}

/// The list price of one model from one day on, in US dollars.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// The model's name as the service takes it.
    pub model: String,
    /// Other names of the same model at the same price, such as its dated snapshots.
    #[serde(default)]
    pub also: Vec<String>,
    /// Per million input tokens.
    #[serde(default)]
    pub input: f64,
    /// Per million input tokens that the service had kept; `None` where it gives no discount.
    pub cached_input: Option<f64>,
    /// Per million output tokens.
    #[serde(default)]
    pub output: f64,
    /// Per thousand search units.
    #[serde(default)]
    pub thousand_searches: f64,
    /// The first day of this price, or the day it was read, as YYYY-MM-DD.
    pub dated: String,
    /// Where the price is published.
    pub source: String,
}

impl Price {
    fn of(&self, tokens: &Tokens) -> f64 {
        let kept = tokens.cached_input.min(tokens.input);
        let fresh = (tokens.input - kept) as f64 * self.input;
        let kept = kept as f64 * self.cached_input.unwrap_or(self.input);
        let written = tokens.output as f64 * self.output;
        (fresh + kept + written) / 1e6 + tokens.searches as f64 * self.thousand_searches / 1e3
    }
}

/// Prices by model and day.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PriceTable {
    prices: Vec<Price>,
}

/// Why a price cannot be told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PriceError {
    /// The file cannot be read.
    #[error("{}: cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The file is not a price table.
    #[error("price table: {0}")]
    Syntax(#[from] toml::de::Error),
    /// A price is not a finite number of at least 0, or a day is not one.
    #[error("price table: model `{model}`: field `{field}` is {found}; expected {expected}")]
    Field {
        /// The model of the entry.
        model: String,
        /// The field.
        field: &'static str,
        /// Its value.
        found: String,
        /// What it should be.
        expected: &'static str,
    },
    /// Two entries give one model two prices on the same day.
    #[error("price table: `{model}` has two prices dated {dated}; remove one")]
    Twice {
        /// The model.
        model: String,
        /// The day.
        dated: String,
    },
    /// No entry names the model at that day.
    #[error("no price of `{model}` on {day}; add an entry to the price table (0 if it is free)")]
    Unknown {
        /// The model.
        model: String,
        /// The day.
        day: String,
    },
}

impl PriceTable {
    /// Reads a price table: `[[price]]` entries with the fields of [`Price`].
    ///
    /// # Errors
    /// When the text is no such table, a number is negative, or a model has two prices on one day.
    pub fn parse(text: &str) -> Result<Self, PriceError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct File {
            price: Vec<Price>,
        }
        let prices = toml::from_str::<File>(text)?.price;
        for price in &prices {
            check(price)?;
        }
        let mut seen = std::collections::BTreeSet::new();
        for price in &prices {
            for model in price.also.iter().chain([&price.model]) {
                if !seen.insert((model, &price.dated)) {
                    return Err(PriceError::Twice {
                        model: model.clone(),
                        dated: price.dated.clone(),
                    });
                }
            }
        }
        Ok(Self { prices })
    }

    /// Reads a price table from a file.
    ///
    /// # Errors
    /// As [`PriceTable::parse`], and when the file cannot be read.
    pub fn load(path: &Path) -> Result<Self, PriceError> {
        let text = std::fs::read_to_string(path).map_err(|source| PriceError::Read {
            path: path.into(),
            source,
        })?;
        Self::parse(&text)
    }

    /// The price of `model` that held on `day` (YYYY-MM-DD): the latest dated no later.
    ///
    /// # Errors
    /// [`PriceError::Unknown`] where there is none.
    pub fn price(&self, model: &str, day: &str) -> Result<&Price, PriceError> {
        let named = |price: &&Price| price.model == model || price.also.iter().any(|m| m == model);
        self.prices
            .iter()
            .filter(named)
            .filter(|price| price.dated.as_str() <= day)
            .max_by(|a, b| a.dated.cmp(&b.dated))
            .ok_or_else(|| PriceError::Unknown {
                model: model.into(),
                day: day.into(),
            })
    }

    /// Dollars for `tokens` of `model` on `day`.
    ///
    /// # Errors
    /// [`PriceError::Unknown`] where the model has no price.
    pub fn cost(&self, model: &str, day: &str, tokens: &Tokens) -> Result<f64, PriceError> {
        Ok(self.price(model, day)?.of(tokens))
    }

    /// What `plan` will cost on `day`: every reply empty, and every reply as long as allowed.
    /// Retries and what the service keeps of earlier calls are not foreseen.
    ///
    /// # Errors
    /// [`PriceError::Unknown`] where a model has no price.
    pub fn estimate(&self, plan: &[Planned], day: &str) -> Result<CostRange, PriceError> {
        let mut range = CostRange::default();
        for planned in plan {
            let price = self.price(&planned.model, day)?;
            let mut tokens = Tokens {
                input: planned.input,
                searches: planned.searches,
                ..Tokens::default()
            };
            range.low += price.of(&tokens);
            tokens.output = planned.calls * planned.max_output;
            range.high += price.of(&tokens);
        }
        Ok(range)
    }
}

fn check(price: &Price) -> Result<(), PriceError> {
    let fail = |field, found: String, expected| {
        Err(PriceError::Field {
            model: price.model.clone(),
            field,
            found,
            expected,
        })
    };
    let amounts = [
        ("input", price.input),
        ("cached_input", price.cached_input.unwrap_or(0.0)),
        ("output", price.output),
        ("thousand_searches", price.thousand_searches),
    ];
    for (field, amount) in amounts {
        if !(amount.is_finite() && amount >= 0.0) {
            return fail(field, amount.to_string(), "dollars, 0 or more");
        }
    }
    let shape = |(at, byte): (usize, u8)| match at {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    if price.dated.len() != 10 || !price.dated.bytes().enumerate().all(shape) {
        return fail("dated", price.dated.clone(), "a day as YYYY-MM-DD");
    }
    Ok(())
}

/// Calls that a run would make of one model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// The model.
    pub model: String,
    /// How many calls.
    pub calls: u64,
    /// Input tokens of all calls together.
    pub input: u64,
    /// The output allowance of one call; 0 for models that write nothing.
    pub max_output: u64,
    /// Search units of all calls together.
    pub searches: u64,
}

/// Dollars, from the least that can be meant to the most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CostRange {
    /// The least.
    pub low: f64,
    /// The most.
    pub high: f64,
}

/// One dollar amount where both ends print alike, else both.
impl fmt::Display for CostRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = (dollars(self.low), dollars(self.high));
        if low == high {
            f.write_str(&low)
        } else {
            write!(f, "{low} to {high}")
        }
    }
}

/// Dollars with cents from ten cents up, below with three significant digits.
fn dollars(amount: f64) -> String {
    if amount == 0.0 || amount >= 0.1 {
        return format!("${amount:.2}");
    }
    let digits = (2.0 - amount.log10().floor()).clamp(2.0, 12.0) as usize;
    format!("${amount:.digits$}")
}

/// How one attempt at a call ended, as far as money is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "outcome", content = "status")]
pub enum Attempt {
    /// The service answered.
    Answered(u16),
    /// The service refused with this status, and such refusals are not charged.
    Refused(u16),
    /// No connection could be made.
    Unsent,
    /// Nobody knows whether the service finished and charged: the connection broke, time ran out,
    /// the reply was damaged, or the run was stopped.
    Unknown,
    /// The response cache answered and nothing was sent.
    Cached,
}

/// One attempt at a call, as a run records it. A call that was retried leaves several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UsageRow {
    /// What the call was for.
    pub stage: Stage,
    /// The model that was asked for.
    pub model: String,
    /// Where the call went.
    pub address: String,
    /// How the attempt ended.
    #[serde(flatten)]
    pub attempt: Attempt,
    /// What the service counted; `None` where it said nothing.
    pub tokens: Option<Tokens>,
    /// What was expected before the call, output at its allowance.
    pub expected: Tokens,
    /// From sending to the last byte, in seconds; 0 from the cache.
    pub seconds: f64,
}

/// Sums of the usage of one model in one stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// Attempts that were answered, with or without a count of tokens.
    pub answered: u64,
    /// Attempts that were refused or never arrived, and so were made again or given up.
    pub refused: u64,
    /// Attempts of which nobody knows whether they were charged.
    pub unknown: u64,
    /// Answers out of the response cache.
    pub cached: u64,
    /// What the service counted over the answered attempts.
    pub tokens: Tokens,
    /// What was expected of attempts that may have been charged and were not counted.
    pub uncounted: Tokens,
    /// What the answers out of the cache cost when they were first fetched.
    pub saved: Tokens,
}

/// Usage by stage and model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    sums: BTreeMap<(Stage, String), Sum>,
}

impl<'a> FromIterator<&'a UsageRow> for Totals {
    fn from_iter<I: IntoIterator<Item = &'a UsageRow>>(rows: I) -> Self {
        let mut totals = Self::default();
        rows.into_iter().for_each(|row| totals.add(row));
        totals
    }
}

impl Totals {
    /// Adds one attempt.
    pub fn add(&mut self, row: &UsageRow) {
        let sum = self.sums.entry((row.stage, row.model.clone())).or_default();
        match row.attempt {
            Attempt::Cached => {
                sum.cached += 1;
                sum.saved += row.tokens.unwrap_or_default();
                return;
            }
            Attempt::Refused(_) | Attempt::Unsent => {
                sum.refused += 1;
                return;
            }
            Attempt::Answered(_) => sum.answered += 1,
            Attempt::Unknown => sum.unknown += 1,
        }
        match row.tokens {
            Some(tokens) => sum.tokens += tokens,
            None => sum.uncounted += row.expected,
        }
    }

    /// The sums, by stage and then by model.
    pub fn iter(&self) -> impl Iterator<Item = (Stage, &str, &Sum)> {
        self.sums
            .iter()
            .map(|((stage, model), sum)| (*stage, model.as_str(), sum))
    }

    /// What was spent in the stages that `which` picks. The low end prices what services counted;
    /// the high end adds what they may have charged without a count.
    ///
    /// # Errors
    /// [`PriceError::Unknown`] where a model that was called has no price.
    pub fn cost(
        &self,
        table: &PriceTable,
        day: &str,
        which: impl Fn(Stage) -> bool,
    ) -> Result<CostRange, PriceError> {
        let mut range = CostRange::default();
        let paid = |sum: &Sum| sum.answered + sum.unknown > 0;
        for (_, model, sum) in self.iter().filter(|(s, _, sum)| which(*s) && paid(sum)) {
            let price = table.price(model, day)?;
            let counted = price.of(&sum.tokens);
            range.low += counted;
            range.high += counted + price.of(&sum.uncounted);
        }
        Ok(range)
    }

    /// The cost of one write, one read and one answer, by what services counted.
    ///
    /// # Errors
    /// [`PriceError::Unknown`] where a model that was called has no price.
    pub fn unit_costs(
        &self,
        table: &PriceTable,
        day: &str,
        counts: &Counts,
    ) -> Result<UnitCosts, PriceError> {
        let share = |stage, count: u64| {
            let cost = self.cost(table, day, |s| s == stage)?.low;
            Ok::<_, PriceError>((count > 0).then(|| cost / count as f64))
        };
        Ok(UnitCosts {
            write: share(Stage::Write, counts.writes)?,
            read: share(Stage::Read, counts.reads)?,
            answer: share(Stage::Answer, counts.answers)?,
        })
    }
}

/// How often each thing was done that cost is told for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Turns written.
    pub writes: u64,
    /// Searches made.
    pub reads: u64,
    /// Questions answered.
    pub answers: u64,
}

/// Dollars for one of each; `None` where nothing of the kind was done.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct UnitCosts {
    /// Writing one turn.
    pub write: Option<f64>,
    /// Finding the evidence of one question.
    pub read: Option<f64>,
    /// Answering one question from its evidence.
    pub answer: Option<f64>,
}

impl UnitCosts {
    /// Equation (9) of "When Does Selection Replace Extraction?": the total cost of a question is the cost of the
    /// `turns_per_question` turns that are written for each question asked, plus its read and its
    /// answer. Grading is no part of it. `None` where one of the three was not measured.
    pub fn per_question(&self, turns_per_question: f64) -> Option<f64> {
        Some(turns_per_question * self.write? + self.read? + self.answer?)
    }

    /// The same with the ratio turned round: `reads_per_write` questions for each turn written.
    /// `None` where a cost was not measured or the ratio is not above 0.
    pub fn per_question_at(&self, reads_per_write: f64) -> Option<f64> {
        (reads_per_write > 0.0).then(|| self.per_question(1.0 / reads_per_write))?
    }
}

/// Why the next call is not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CostRefused {
    /// It could pass the limit.
    #[error(
        "the next call could cost {}, and {} of the limit of {} is spent or under way; raise the limit and resume",
        dollars(*.next), dollars(*.spent), dollars(*.limit)
    )]
    Limit {
        /// Dollars that are spent or reserved by calls under way, uncounted attempts at their most.
        spent: f64,
        /// The most that the call can cost.
        next: f64,
        /// The limit.
        limit: f64,
    },
    /// Its model has no price, so no limit can be kept.
    #[error(transparent)]
    Price(#[from] PriceError),
}

type Sink = Box<dyn Fn(&UsageRow) + Send + Sync>;

/// The ledger of a run that is under way: hands on every row, and keeps to a limit.
pub struct Meter {
    limit: Option<Limit>,
    sink: Option<Sink>,
    state: Mutex<State>,
}

struct Limit {
    table: PriceTable,
    day: String,
    dollars: f64,
}

#[derive(Default)]
struct State {
    totals: Totals,
    reserved: BTreeMap<String, Tokens>,
}

impl Default for Meter {
    fn default() -> Self {
        Self::new(Totals::default())
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meter").finish_non_exhaustive()
    }
}

impl Meter {
    /// A ledger that goes on from what a run spent before it was resumed.
    pub fn new(before: Totals) -> Self {
        Self {
            limit: None,
            sink: None,
            state: Mutex::new(State {
                totals: before,
                reserved: BTreeMap::new(),
            }),
        }
    }

    /// Refuses every call that could bring the whole above `dollars` at the prices of `day`.
    #[must_use]
    pub fn with_limit(mut self, table: PriceTable, day: &str, dollars: f64) -> Self {
        self.limit = Some(Limit {
            table,
            day: day.into(),
            dollars,
        });
        self
    }

    /// Hands every row to `sink` as soon as it is known.
    #[must_use]
    pub fn with_sink(mut self, sink: impl Fn(&UsageRow) + Send + Sync + 'static) -> Self {
        self.sink = Some(Box::new(sink));
        self
    }

    /// What was used so far, earlier parts of the run included.
    pub fn totals(&self) -> Totals {
        self.state().totals.clone()
    }

    /// Records an attempt that needed no reservation.
    pub fn record(&self, row: &UsageRow) {
        self.state().totals.add(row);
        if let Some(sink) = &self.sink {
            sink(row);
        }
    }

    /// Reserves what a call may cost; settle it with the attempt's outcome.
    ///
    /// # Errors
    /// When the call could pass the limit, or its model has no price to compare with a limit.
    pub fn admit(
        &self,
        stage: Stage,
        model: &str,
        address: &str,
        expected: Tokens,
    ) -> Result<Reservation<'_>, CostRefused> {
        let mut state = self.state();
        if let Some(limit) = &self.limit {
            let next = limit.table.cost(model, &limit.day, &expected)?;
            let mut spent = state.totals.cost(&limit.table, &limit.day, |_| true)?.high;
            for (model, tokens) in &state.reserved {
                spent += limit.table.cost(model, &limit.day, tokens)?;
            }
            if spent + next > limit.dollars {
                return Err(CostRefused::Limit {
                    spent,
                    next,
                    limit: limit.dollars,
                });
            }
            *state.reserved.entry(model.into()).or_default() += expected;
        }
        Ok(Reservation {
            meter: self,
            row: UsageRow {
                stage,
                model: model.into(),
                address: address.into(),
                attempt: Attempt::Unknown,
                tokens: None,
                expected,
                seconds: 0.0,
            },
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Money set aside for one attempt. Dropped without being settled, as when the run is stopped, the
/// attempt counts as possibly charged.
#[derive(Debug)]
pub struct Reservation<'a> {
    meter: &'a Meter,
    row: UsageRow,
}

impl Reservation<'_> {
    /// Says how the attempt ended.
    pub fn settle(mut self, attempt: Attempt, tokens: Option<Tokens>, seconds: f64) {
        self.row.attempt = attempt;
        self.row.tokens = tokens;
        self.row.seconds = seconds;
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if let Some(reserved) = self.meter.state().reserved.get_mut(&self.row.model) {
            reserved.subtract(&self.row.expected);
        }
        self.meter.record(&self.row);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const DAY: &str = "2026-11-30";

    fn committed() -> PriceTable {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/prices.toml");
        PriceTable::load(&path).unwrap()
    }

    fn row(stage: Stage, attempt: Attempt, tokens: Option<Tokens>) -> UsageRow {
        UsageRow {
            stage,
            model: "gpt-4o-mini".into(),
            address: "http://service/v1/chat/completions".into(),
            attempt,
            tokens,
            expected: tokens_of(1000, 1000),
            seconds: 0.5,
        }
    }

    fn tokens_of(input: u64, output: u64) -> Tokens {
        Tokens {
            input,
            output,
            ..Tokens::default()
        }
    }

    #[test]
    fn committed_prices_are_those_the_paper_states() {
        let table = committed();
        let million = tokens_of(1_000_000, 1_000_000);
        for (model, dollars) in [
            ("gpt-4o-mini-2024-07-18", 0.15 + 0.60),
            ("jev-1.13.0", 0.042),
            ("meta-llama/llama-3.3-70b-instruct", 0.10 + 0.32),
        ] {
            let cost = table.cost(model, DAY, &million).unwrap();
            assert!((cost - dollars).abs() < 1e-12, "{model}: {cost}");
        }
        let error = table.cost("gpt-5000", DAY, &million).unwrap_err();
        assert!(matches!(error, PriceError::Unknown { .. }), "{error}");
    }

    #[test]
    fn kept_input_is_priced_at_its_discount() {
        let tokens = Tokens {
            cached_input: 600_000,
            ..tokens_of(1_000_000, 0)
        };
        let cost = committed().cost("gpt-4o-mini", DAY, &tokens).unwrap();
        assert!((cost - (0.4 * 0.15 + 0.6 * 0.075)).abs() < 1e-12);
    }

    #[test]
    fn the_price_of_the_day_is_the_latest_no_later() {
        let entry = |dated, input| {
            format!(
                "[[price]]\nmodel = \"m\"\ninput = {input}\ndated = \"{dated}\"\nsource = \"s\"\n"
            )
        };
        let text = entry("2026-01-01", 1.0) + &entry("2026-06-01", 2.0);
        let table = PriceTable::parse(&text).unwrap();
        assert_eq!(table.price("m", "2026-05-31").unwrap().input, 1.0);
        assert_eq!(table.price("m", "2026-06-01").unwrap().input, 2.0);
        table.price("m", "2025-12-31").unwrap_err();
        let twice = PriceTable::parse(&(entry("2026-01-01", 1.0) + &entry("2026-01-01", 2.0)));
        assert!(matches!(twice, Err(PriceError::Twice { .. })));
        let negative = PriceTable::parse(&entry("2026-01-01", -1.0));
        assert!(matches!(
            negative,
            Err(PriceError::Field { field: "input", .. })
        ));
        let undated = PriceTable::parse(&entry("2026-1-1", 1.0));
        assert!(matches!(
            undated,
            Err(PriceError::Field { field: "dated", .. })
        ));
    }

    #[test]
    fn retries_and_uncounted_attempts_are_in_the_ledger() {
        let rows = [
            row(Stage::Answer, Attempt::Refused(429), None),
            row(Stage::Answer, Attempt::Unknown, None),
            row(
                Stage::Answer,
                Attempt::Answered(200),
                Some(tokens_of(2000, 100)),
            ),
            row(Stage::Answer, Attempt::Cached, Some(tokens_of(2000, 100))),
        ];
        // As a run records them.
        let lines = rows.map(|row| serde_json::to_string(&row).unwrap());
        let rows = lines.map(|line| serde_json::from_str::<UsageRow>(&line).unwrap());
        let totals: Totals = rows.iter().collect();
        let (_, _, sum) = totals.iter().next().unwrap();
        let counts = (sum.refused, sum.unknown, sum.answered, sum.cached);
        assert_eq!(counts, (1, 1, 1, 1));
        let cost = totals.cost(&committed(), DAY, |_| true).unwrap();
        let counted = 2000.0 * 0.15e-6 + 100.0 * 0.60e-6;
        assert!((cost.low - counted).abs() < 1e-15);
        assert!((cost.high - counted - 1000.0 * 0.75e-6).abs() < 1e-15);
        assert_eq!(cost.to_string(), "$0.000360 to $0.00111");
    }

    /// Section 5.7 of the paper: engram v2 at 3,122 turns for 778 questions, and at one turn a
    /// question. Its printed totals differ by the write cost of the other turns.
    #[test]
    fn equation_9_gives_the_published_difference() {
        let costs = UnitCosts {
            write: Some(1.865 / 1000.0),
            read: Some(0.00018),
            answer: Some(0.00011),
        };
        let ratio = 3122.0 / 778.0;
        let many = costs.per_question(ratio).unwrap();
        let one = costs.per_question_at(1.0).unwrap();
        assert!(
            (many - one - (0.00778 - 0.00216)).abs() < 5e-6,
            "{many} {one}"
        );
        assert_eq!(costs.per_question_at(0.0), None);
        let unmeasured = UnitCosts {
            read: None,
            ..costs
        };
        assert_eq!(unmeasured.per_question(ratio), None);
    }

    #[test]
    fn unit_costs_divide_each_stage_by_its_own_count() {
        let rows = [
            row(
                Stage::Write,
                Attempt::Answered(200),
                Some(tokens_of(1_000_000, 0)),
            ),
            row(
                Stage::Read,
                Attempt::Answered(200),
                Some(tokens_of(0, 1_000_000)),
            ),
        ];
        let counts = Counts {
            writes: 1000,
            reads: 10,
            answers: 0,
        };
        let totals: Totals = rows.iter().collect();
        let costs = totals.unit_costs(&committed(), DAY, &counts).unwrap();
        assert_eq!(costs.write, Some(0.15 / 1000.0));
        assert_eq!(costs.read, Some(0.6 / 10.0));
        assert_eq!(costs.answer, None);
    }

    #[test]
    fn an_estimate_spans_empty_replies_to_full_allowances() {
        let plan = [Planned {
            model: "gpt-4o-mini".into(),
            calls: 1000,
            input: 2_000_000,
            max_output: 500,
            searches: 0,
        }];
        let range = committed().estimate(&plan, DAY).unwrap();
        assert_eq!(range.to_string(), "$0.30 to $0.60");
    }

    #[test]
    fn a_limit_counts_calls_under_way_and_refuses_the_next() {
        let rows = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&rows);
        let meter = Meter::default()
            .with_limit(committed(), DAY, 2.0)
            .with_sink(move |row| kept.lock().unwrap().push(row.clone()));
        let most = tokens_of(1_000_000, 1_000_000);
        let admit = || meter.admit(Stage::Answer, "gpt-4o-mini", "http://service", most);
        let first = admit().unwrap();
        let second = admit().unwrap();
        let refused = admit().unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the next call could cost $0.75, and $1.50 of the limit of $2.00 is spent or under way; \
             raise the limit and resume"
        );
        first.settle(Attempt::Answered(200), Some(tokens_of(1_000_000, 0)), 1.0);
        drop(second);
        // 0.15 counted and, of the dropped attempt, 0.75 at most.
        drop(admit().unwrap());
        admit().unwrap_err();
        let unpriced = meter.admit(Stage::Answer, "unpriced", "http://service", most);
        assert!(matches!(unpriced, Err(CostRefused::Price(_))));
        assert_eq!(rows.lock().unwrap().len(), 3);
    }
}
