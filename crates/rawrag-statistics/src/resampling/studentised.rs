use super::{Contributions, Interval, Population, Replication, ResamplingError, Scheme, resample};
use crate::{Defined, Undefined};

/// Studentised (bootstrap-t) interval of the mean difference of two systems, by unit or cluster.
///
/// `differences` holds score a minus score b of each unit. The estimate is their mean; its standard
/// error treats the mean as a ratio of cluster totals to cluster sizes (linearised, divided by
/// c - 1), which for single units is the ordinary one. Each replicate is scaled by its own
/// standard error (Davison and Hinkley 1997, section 5.2.1); replicates without variation are left
/// out.
///
/// With `clusters` (one label a unit) whole clusters are drawn, otherwise units. The inner result
/// is [`Undefined::NoVariation`] when the sample itself does not vary; the outer errs on labels
/// that do not match the units.
pub fn studentised_difference(
    differences: &[f64],
    clusters: Option<&[usize]>,
    replication: Replication,
    confidence: f64,
) -> Result<Defined<Interval>, ResamplingError> {
    let labels: Vec<usize> = match clusters {
        Some(labels) => labels.to_vec(),
        None => (0..differences.len()).collect(),
    };
    if labels.len() != differences.len() {
        return Err(ResamplingError::Labels {
            found: labels.len(),
            units: differences.len(),
        });
    }
    let mut totals = std::collections::BTreeMap::<usize, (f64, f64)>::new();
    for (&label, &difference) in labels.iter().zip(differences) {
        let (sum, size) = totals.entry(label).or_default();
        *sum += difference;
        *size += 1.0;
    }
    let mut contributions = Contributions::new(6);
    for (sum, size) in totals.into_values() {
        contributions.push(&[sum, size, sum * sum, sum * size, size * size, 1.0])?;
    }
    let population = Population::new(&contributions, Scheme::Units)?;
    let Some((estimate, error)) = mean_and_error(population.totals()) else {
        return Ok(Err(Undefined::NoVariation));
    };
    let samples = resample(&population, replication, 1, |totals, out| {
        out[0] = mean_and_error(totals).map(|(mean, error)| (mean - estimate) / error);
    });
    let pivots = samples
        .first()
        .map_or(Err(Undefined::NoReplicate), |s| s.percentile(confidence));
    Ok(pivots.map(|t| Interval {
        lower: estimate - t.upper * error,
        upper: estimate - t.lower * error,
    }))
}

/// Ratio of sums and its linearised standard error, from the columns sum, size, their squares and
/// product, and the count. `None` without variation.
fn mean_and_error(totals: &[f64]) -> Option<(f64, f64)> {
    let &[sum, size, sums_squared, products, sizes_squared, count] = totals else {
        return None;
    };
    let mean = sum / size;
    let residuals = sums_squared - 2.0 * mean * products + mean * mean * sizes_squared;
    let variance = residuals * count / (count - 1.0) / (size * size);
    // Residuals of data that do not vary are rounding error.
    (count > 1.0 && residuals > 1e-12 * sums_squared).then(|| (mean, variance.sqrt()))
}
