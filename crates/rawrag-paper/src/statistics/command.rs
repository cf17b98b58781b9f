//! `stats`, the same under every binary that takes it.

use std::path::{Path, PathBuf};

use clap::builder::PossibleValue;
use clap::{Args, Subcommand, ValueEnum};
use rawrag_records::labels::Columns;
use rawrag_statistics::report::Options;
use rawrag_statistics::{Missing, Replication};

use super::typed::{self, PowerQuestion};
use super::{Comparison, StatisticsError};
use crate::Format;

/// Level of the tests of a table.
const ALPHA: f64 = 0.05;

/// Arguments of `stats`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    arg_required_else_help = true
)]
pub struct Arguments {
    #[command(flatten)]
    table: TableArguments,
    #[command(subcommand)]
    numbers: Option<Numbers>,
    /// How it is written
    #[arg(long, global = true, value_enum, default_value = "md")]
    format: Format,
}

#[derive(Debug, Args)]
struct TableArguments {
    /// Labels as CSV, JSONL or Parquet: a column a system, or columns `system` and `label`
    #[arg(required = true)]
    file: Option<PathBuf>,
    /// Columns that together identify a question
    #[arg(long, required = true, value_delimiter = ',', value_name = "COLUMNS")]
    unit: Vec<String>,
    /// Columns that identify the group of questions that belong together, such as a conversation
    #[arg(long, value_delimiter = ',', value_name = "COLUMNS")]
    cluster: Vec<String>,
    /// Columns that identify the stratum questions are resampled within
    #[arg(long, value_delimiter = ',', value_name = "COLUMNS")]
    strata: Vec<String>,
    /// The systems to compare, in this order [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    systems: Vec<String>,
    /// Non-inferiority margin: the first of two systems may be this much worse, 0.05 for 5 points
    #[arg(long, value_parser = fraction)]
    margin: Option<f64>,
    /// What a missing label counts as [default: it is refused]
    #[arg(long, value_enum)]
    missing: Option<MissingName>,
    /// Lines of one system and question are repeated judgments, to be averaged
    #[arg(long)]
    repeated: bool,
    #[command(flatten)]
    draws: Draws,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum MissingName {
    /// It scores 0
    Zero,
    /// Its question is left out for all systems
    Drop,
}

#[derive(Debug, Clone, Copy, Args)]
struct Draws {
    /// Replicates of every resampling and sampled test
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    replicates: u32,
    /// Seed of every random draw
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

impl From<Draws> for Replication {
    fn from(draws: Draws) -> Self {
        Self {
            replicates: draws.replicates as usize,
            seed: draws.seed,
        }
    }
}

#[derive(Debug, Subcommand)]
enum Numbers {
    /// McNemar's test from the questions that only one system answers right
    Mcnemar {
        /// Questions that only a answers right
        a_only: u64,
        /// Questions that only b answers right
        b_only: u64,
        /// Number of questions, for the difference and its interval
        #[arg(long)]
        units: Option<u64>,
    },
    /// Holm, Hochberg, Benjamini-Hochberg and Bonferroni over a family of p-values
    Holm {
        /// `0.012`, or with a name `S1=0.012`
        #[arg(required = true)]
        p: Vec<String>,
    },
    /// Is a at most a margin worse than b, and if so, better?
    Noninferiority {
        /// Questions that only a, the new system, answers right
        a_only: u64,
        /// Questions that only b, the reference, answers right
        b_only: u64,
        /// Number of questions
        #[arg(long)]
        units: u64,
        /// How much worse a may be, 0.05 for 5 points
        #[arg(long, default_value_t = 0.05, value_parser = fraction)]
        margin: f64,
        /// One-sided level
        #[arg(long, default_value_t = ALPHA, value_parser = fraction)]
        alpha: f64,
    },
    /// Agreement of two judges from their table of counts
    Kappa {
        /// Counts of one category of the first judge, by category of the second: `40,3 5,52`
        #[arg(required = true, value_parser = counts)]
        rows: Vec<Counts>,
        #[command(flatten)]
        draws: Draws,
    },
    /// How many questions a difference takes, or the power that a number of questions gives
    Power {
        /// True difference, 0.01 for one point
        #[arg(long, value_parser = difference, allow_hyphen_values = true)]
        difference: f64,
        /// Share of questions that one system answers right and the other wrong
        #[arg(long, value_parser = fraction)]
        discordant: f64,
        /// Power to reach
        #[arg(long, default_value_t = 0.8, value_parser = fraction)]
        power: f64,
        /// Level: two-sided, for non-inferiority one-sided
        #[arg(long, default_value_t = ALPHA, value_parser = fraction)]
        alpha: f64,
        /// Number of questions there are [default: as many as the power takes]
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
        units: Option<u64>,
        /// Non-inferiority margin, to ask about that too
        #[arg(long, value_parser = fraction)]
        margin: Option<f64>,
        /// Questions a cluster, to ask about the sign-flip test over clusters too
        #[arg(long, requires = "between_sd", value_parser = clap::value_parser!(u64).range(1..))]
        cluster_size: Option<u64>,
        /// Standard deviation of the difference between clusters
        #[arg(long, requires = "cluster_size", value_parser = deviation)]
        between_sd: Option<f64>,
        /// Simulated samples
        #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        samples: u32,
        /// Seed of the simulation
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
    /// Cochran's Q from how many questions have each pattern of right and wrong
    Q {
        /// A 0 or 1 a system and the number of questions: `110=25`
        #[arg(required = true)]
        patterns: Vec<String>,
        #[command(flatten)]
        draws: Draws,
    },
}

impl Arguments {
    /// What is asked for, as text.
    ///
    /// # Errors
    /// As [`Comparison::of`] and the calls of [`typed`].
    pub fn answer(&self) -> Result<String, StatisticsError> {
        match (&self.numbers, &self.table.file) {
            (Some(numbers), _) => Ok(numbers.answer()?.render(self.format)),
            (None, Some(file)) => Ok(self.table.comparison(file)?.render(self.format)),
            (None, None) => Err(StatisticsError::Typed("which file of labels?".to_owned())),
        }
    }
}

impl TableArguments {
    fn comparison(&self, file: &Path) -> Result<Comparison, StatisticsError> {
        let columns = Columns {
            unit: self.unit.clone(),
            cluster: self.cluster.clone(),
            strata: self.strata.clone(),
            systems: self.systems.clone(),
            repeated: self.repeated,
        };
        let missing = match self.missing {
            None => Missing::Refuse,
            Some(MissingName::Zero) => Missing::Zero,
            Some(MissingName::Drop) => Missing::DropUnit,
        };
        let options = Options {
            alpha: ALPHA,
            replication: self.draws.into(),
            margin: self.margin,
            unit: "question".to_owned(),
            cluster: "cluster".to_owned(),
        };
        Comparison::of(file, &columns, missing, &options)
    }
}

impl Numbers {
    fn answer(&self) -> Result<typed::Answer, StatisticsError> {
        match self {
            Self::Mcnemar {
                a_only,
                b_only,
                units,
            } => typed::mcnemar(*a_only, *b_only, *units),
            Self::Holm { p } => typed::holm(p),
            Self::Noninferiority {
                a_only,
                b_only,
                units,
                margin,
                alpha,
            } => typed::noninferiority(*a_only, *b_only, *units, *margin, *alpha),
            Self::Kappa { rows, draws } => {
                let rows: Vec<Vec<u64>> = rows.iter().map(|row| row.0.clone()).collect();
                typed::kappa(&rows, (*draws).into())
            }
            Self::Power {
                difference,
                discordant,
                power,
                alpha,
                units,
                margin,
                cluster_size,
                between_sd,
                samples,
                seed,
            } => typed::power(&PowerQuestion {
                difference: *difference,
                discordant: *discordant,
                alpha: *alpha,
                power: *power,
                units: *units,
                margin: *margin,
                clusters: cluster_size.zip(*between_sd),
                replication: Replication {
                    replicates: *samples as usize,
                    seed: *seed,
                },
            }),
            Self::Q { patterns, draws } => typed::q(patterns, (*draws).into()),
        }
    }
}

impl ValueEnum for Format {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            Self::Markdown,
            Self::Csv,
            Self::Json,
            Self::Latex,
            Self::Html,
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(match self {
            Self::Markdown => "md",
            Self::Csv => "csv",
            Self::Json => "json",
            Self::Latex => "tex",
            Self::Html => "html",
        }))
    }
}

/// Counts of one row of a table.
#[derive(Debug, Clone)]
struct Counts(Vec<u64>);

fn counts(text: &str) -> Result<Counts, String> {
    let count = |part: &str| part.trim().parse();
    let counts: Result<_, std::num::ParseIntError> = text.split(',').map(count).collect();
    counts
        .map(Counts)
        .map_err(|_| "counts of a row, separated by commas, such as 40,3".to_owned())
}

fn fraction(text: &str) -> Result<f64, String> {
    number(text, |x| x > 0.0 && x < 1.0)
        .ok_or_else(|| "a number between 0 and 1; 5 points or percent are 0.05".to_owned())
}

fn difference(text: &str) -> Result<f64, String> {
    number(text, |x| x > -1.0 && x < 1.0)
        .ok_or_else(|| "a number between -1 and 1; one point is 0.01".to_owned())
}

fn deviation(text: &str) -> Result<f64, String> {
    number(text, |x| (0.0..1.0).contains(&x))
        .ok_or_else(|| "a number from 0 and below 1; five points are 0.05".to_owned())
}

fn number(text: &str, allowed: impl Fn(f64) -> bool) -> Option<f64> {
    text.parse().ok().filter(|&x| allowed(x))
}
