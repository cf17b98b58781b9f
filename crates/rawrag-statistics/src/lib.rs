//! Paired statistics for comparing memory systems.
//!
//! Systems are compared on the same questions, so everything here is paired: one draw of units
//! serves all systems, tests look at units on which systems differ, and questions of one
//! conversation can be kept together. The main call is [`report::report`], which turns labelled
//! [`Outcomes`] into every statistic of the Raw-RAG paper's Appendix C.6; [`Scores`] does the same
//! for any score that is a function of totals (utilization, macro-averages).
//!
//! Nothing here reads a file, prints, or knows the clock. A quantity that does not exist for the
//! data is [`Undefined`] with a reason, never NaN; p-values keep their logarithm ([`PValue`]), so
//! none is ever 0. The same data and seed give the same result at any thread count.

pub mod agreement;
mod cochran;
mod distributions;
mod exact;
mod families;
mod log_probability;
mod matched_context;
mod noninferiority;
mod outcomes;
mod paired;
mod paired_design;
pub mod power;
pub mod report;
mod resampling;
mod signflip;
mod undefined;
pub mod validity;

pub use cochran::{CochranQ, CochranTest};
pub use exact::{DifferenceDistribution, ExactBootstrap};
pub use families::{Adjustment, Family, FamilyError, adjust};
pub use log_probability::PValue;
pub use matched_context::{gap_closed, matched_setting};
pub use noninferiority::{
    Conclusion, Equivalence, NonInferiority, NonInferiorityThenSuperiority, PairedMethod,
    equivalence, noninferiority, noninferiority_then_superiority, paired_interval,
};
pub use outcomes::{Labels, Missing, OutcomeError, Outcomes, Row};
pub use paired::{ChiSquared, PairCounts};
pub use paired_design::PairedDesign;
pub use resampling::{
    Contrast, Contributions, Interval, IntervalMethod, Population, RangeTest, Replication,
    ResamplingError, Sample, Scheme, Score, ScoreEstimate, ScoreReport, Scores, acceleration,
    resample, studentised_difference,
};
pub use signflip::{SignFlip, sign_flip};
pub use undefined::{Defined, Undefined};
