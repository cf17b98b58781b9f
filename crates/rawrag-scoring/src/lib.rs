//! What an answer or a ranking is worth: one definition a metric, each with its source; and the
//! scores of benchmarks that follow from it ([`aggregate`]).
//!
//! Pure functions over plain values. Nothing here reads records or asks a model; a metric that is
//! undefined for a question is `None` and never 0.
//!
//! ```
//! use rawrag_scoring::Ranking;
//!
//! // The items returned, best first, by the gold units that each holds, of three in all.
//! let ranking = Ranking::new(3, [&[2][..], &[], &[0, 2]]);
//! assert_eq!(ranking.recall_any(1), Some(true));
//! assert_eq!(ranking.recall_all(3), Some(false));
//! assert_eq!(ranking.recall(3), Some(2.0 / 3.0));
//! ```

pub mod aggregate;
pub mod excerpt;
pub mod floors;
pub mod judge;
pub mod lexical;
mod ranking;
mod reply;
pub mod sources;
pub mod sufficiency;

pub use ranking::Ranking;
