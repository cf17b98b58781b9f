use serde::{Serialize, Serializer};

/// Why a statistic has no value for the given data.
///
/// Not an error of the caller: the data are well formed, the quantity does not exist for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Undefined {
    /// There is nothing to average.
    #[error("there are no units")]
    NoUnits,
    /// A ratio whose denominator is zero.
    #[error("the denominator is zero")]
    ZeroDenominator,
    /// Every unit has the same outcome in all systems, so nothing can be compared.
    #[error("the systems agree on every unit")]
    NoDisagreement,
    /// The data do not vary, so there is no standard error to scale by.
    #[error("the data do not vary")]
    NoVariation,
    /// The method needs scores that are all 0 or 1.
    #[error("the scores are not all 0 or 1")]
    NotBinary,
    /// No clusters were declared.
    #[error("no clusters were declared")]
    NoClusters,
    /// Fewer clusters than a between-cluster standard error needs.
    #[error("fewer than two clusters")]
    TooFewClusters,
    /// Fewer systems than the test compares.
    #[error("fewer than two systems")]
    TooFewSystems,
    /// The statistic is undefined in every bootstrap replicate.
    #[error("the statistic is undefined in every replicate")]
    NoReplicate,
    /// All replicates lie on one side of the estimate, so the bias correction is infinite.
    #[error("all replicates lie on one side of the estimate")]
    OneSided,
    /// A level, confidence, power, share or margin outside its range, or not a number.
    #[error("a level, confidence, power, share or margin is outside (0, 1)")]
    OutOfRange,
    /// Expected agreement by chance is complete: a single category was used.
    #[error("only one category was used")]
    OneCategory,
}

/// A value, or the reason there is none.
pub type Defined<T> = Result<T, Undefined>;

/// Errs with [`Undefined::OutOfRange`] unless all fractions lie in (0, 1).
pub(crate) fn check_fractions(fractions: &[f64]) -> Defined<()> {
    let inside = fractions.iter().all(|&x| x > 0.0 && x < 1.0);
    inside.then_some(()).ok_or(Undefined::OutOfRange)
}

/// Serialises a value as itself and an absent one as `{"undefined": "<reason>"}`.
pub(crate) fn serialize<T: Serialize, S: Serializer>(
    defined: &Defined<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Absent {
        undefined: String,
    }
    match defined {
        Ok(value) => value.serialize(serializer),
        Err(reason) => Absent {
            undefined: reason.to_string(),
        }
        .serialize(serializer),
    }
}
