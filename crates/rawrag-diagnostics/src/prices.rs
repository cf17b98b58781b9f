//! What services charge, from a list of prices such as `experiments/prices.toml`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rawrag_records::Usage;
use serde::Deserialize;

/// A list of prices. The entry that holds on a day is the latest one dated no later.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// The entries.
    #[serde(default)]
    price: Vec<Price>,
}

/// Dollars per million tokens, and per thousand search units.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Price {
    model: String,
    #[serde(default)]
    also: Vec<String>,
    #[serde(default)]
    input: f64,
    cached_input: Option<f64>,
    #[serde(default)]
    output: f64,
    #[serde(default)]
    thousand_searches: f64,
    dated: String,
    #[serde(rename = "source")]
    _source: String,
}

/// Why a file is no list of prices.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum PriceError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{}: {source}", path.display())]
    Form {
        path: PathBuf,
        source: toml::de::Error,
    },
}

impl Prices {
    /// Reads a list.
    ///
    /// # Errors
    /// When the file cannot be read or has a field that prices do not have.
    pub fn read(path: &Path) -> Result<Self, PriceError> {
        let text = fs::read_to_string(path).map_err(|source| PriceError::Io {
            path: path.to_owned(),
            source,
        })?;
        toml::from_str(&text).map_err(|source| PriceError::Form {
            path: path.to_owned(),
            source,
        })
    }

    /// Dollars that one attempt cost at list price on a day (`2026-11-30`); a reply from the cache
    /// costs what it cost once, so that no system looks cheaper for being run again. `None` where
    /// the model has no price on that day or the service gave no count of tokens.
    pub fn of(&self, usage: &Usage, day: &str) -> Option<f64> {
        let entries = self.price.iter().filter(|price| {
            let named = price.model == usage.model || price.also.contains(&usage.model);
            named && price.dated.as_str() <= day
        });
        let price = entries.max_by(|a, b| a.dated.cmp(&b.dated))?;
        let per_million = |tokens: u32, dollars: f64| f64::from(tokens) * dollars / 1e6;
        let searches = f64::from(usage.searches.unwrap_or(0)) * price.thousand_searches / 1e3;
        if usage.input_tokens.is_none() && usage.searches.is_some() {
            return Some(searches);
        }
        let (input, cached) = (usage.input_tokens?, usage.cached_input_tokens.unwrap_or(0));
        let fresh = input.saturating_sub(cached);
        Some(
            per_million(fresh, price.input)
                + per_million(cached, price.cached_input.unwrap_or(price.input))
                + per_million(usage.output_tokens.unwrap_or(0), price.output)
                + searches,
        )
    }
}

/// Dollars a question: what writing costs for the turns written a question asked, reading and
/// answering (003, equation 9).
///
/// `write` is a turn's, `read` and `answer` a question's; `turns` are written a question asked.
pub fn cost_per_question(write: f64, read: f64, answer: f64, turns: f64) -> f64 {
    turns * write + read + answer
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 003, 5.7: $0.00061 and $1.865 a thousand turns, reads of $0.00020 and $0.00018, totals of
    /// $0.00030 and $0.00778 at four turns a question; answers are what remains.
    #[test]
    fn the_published_totals_add_up() {
        let jev = cost_per_question(0.00061 / 1e3, 0.00020, 0.0001, 4.0);
        assert!((jev - 0.00030).abs() < 0.000_005, "{jev}");
        let engram = cost_per_question(1.865 / 1e3, 0.00018, 0.00014, 4.0);
        assert!((engram - 0.00778).abs() < 0.000_005, "{engram}");
    }
}
