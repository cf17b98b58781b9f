//! Agreement of judges beyond chance, with bootstrap intervals over items.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    Contributions, Defined, Interval, Population, Replication, ResamplingError, Scheme, Undefined,
    resample, undefined,
};

/// A coefficient with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Agreement {
    /// The coefficient, at most 1; 0 is agreement by chance, except for raw agreement, where it is
    /// none.
    #[serde(serialize_with = "undefined::serialize")]
    pub value: Defined<f64>,
    /// Percentile interval over resampled items or clusters.
    #[serde(serialize_with = "undefined::serialize")]
    pub interval: Defined<Interval>,
    /// Number of items that enter.
    pub items: usize,
}

/// How intervals are resampled.
#[derive(Debug, Clone, Copy)]
pub struct Resampling<'a> {
    /// Cluster of each item, if whole clusters are drawn.
    pub clusters: Option<&'a [usize]>,
    /// Replicates and seed.
    pub replication: Replication,
    /// Confidence in (0, 1).
    pub confidence: f64,
}

/// Two raters on one group of items, such as the answers of one system.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct GroupAgreement {
    /// Label of the group.
    pub group: usize,
    /// Share of items on which the raters agree.
    pub raw: Agreement,
    /// Cohen's kappa.
    pub kappa: Agreement,
}

/// Why ratings cannot be compared.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RatingError {
    /// Raters with different numbers of items.
    #[error("one rater has {first} ratings, another {second}")]
    Lengths {
        /// Ratings of the first rater.
        first: usize,
        /// Ratings of the other.
        second: usize,
    },
    /// An item whose number of ratings differs from the first item's (Fleiss' kappa).
    #[error(
        "item {item} has {found} ratings where the others have {expected}; Krippendorff's alpha allows that"
    )]
    Uneven {
        /// Position of the item.
        item: usize,
        /// Its number of ratings.
        found: usize,
        /// Number of ratings of the first item.
        expected: usize,
    },
    /// Items or clusters that cannot be resampled.
    #[error(transparent)]
    Resampling(#[from] ResamplingError),
}

/// Share of items on which two raters agree.
///
/// Errs on raters with different numbers of items, and on none.
pub fn raw_agreement(
    first: &[usize],
    second: &[usize],
    resampling: Resampling<'_>,
) -> Result<Agreement, RatingError> {
    same_length(first, second)?;
    let mut contributions = Contributions::new(2);
    for (a, b) in first.iter().zip(second) {
        contributions.push(&[f64::from(u8::from(a == b)), 1.0])?;
    }
    estimate(&contributions, resampling, |totals| {
        Ok(totals[0] / totals[1])
    })
}

/// Cohen's kappa of two raters: (p_o - p_e) / (1 - p_e), with p_e from the raters' own margins
/// (Cohen 1960).
///
/// Ratings are category labels, not necessarily dense. Undefined with
/// [`Undefined::OneCategory`] when both raters use one and the same category throughout. Errs as
/// [`raw_agreement`].
pub fn cohen_kappa(
    first: &[usize],
    second: &[usize],
    resampling: Resampling<'_>,
) -> Result<Agreement, RatingError> {
    same_length(first, second)?;
    let categories = dense(first.iter().chain(second).copied());
    let k = categories.len();
    let mut contributions = Contributions::new(k * k);
    for (a, b) in first.iter().zip(second) {
        let mut row = vec![0.0; k * k];
        row[categories[a] * k + categories[b]] = 1.0;
        contributions.push(&row)?;
    }
    estimate(&contributions, resampling, |cells| {
        let n: f64 = cells.iter().sum();
        let cell = |i: usize, j: usize| cells[i * k + j];
        let agreed: f64 = (0..k).map(|i| cell(i, i)).sum();
        let margins = (0..k).map(|i| {
            let row: f64 = (0..k).map(|j| cell(i, j)).sum();
            let column: f64 = (0..k).map(|j| cell(j, i)).sum();
            row * column
        });
        chance_corrected(agreed / n, margins.sum::<f64>() / (n * n))
    })
}

/// Fleiss' kappa of several raters (Fleiss 1971); every item has the same number of ratings, not
/// necessarily by the same raters.
///
/// `items` holds each item's category labels. Undefined with [`Undefined::OneCategory`] when a
/// single category was used, with [`Undefined::ZeroDenominator`] with one rating an item. Errs on
/// uneven items and on none.
pub fn fleiss_kappa(
    items: &[Vec<usize>],
    resampling: Resampling<'_>,
) -> Result<Agreement, RatingError> {
    let ratings = items.first().map_or(0, Vec::len);
    if let Some(item) = items.iter().position(|item| item.len() != ratings) {
        let found = items[item].len();
        return Err(RatingError::Uneven {
            item,
            found,
            expected: ratings,
        });
    }
    let categories = dense(items.iter().flatten().copied());
    let k = categories.len();
    let mut contributions = Contributions::new(k + 2);
    for item in items {
        let mut row = counts(item, &categories);
        let agreeing: f64 = row.iter().map(|n| n * (n - 1.0)).sum();
        row.extend([agreeing, 1.0]);
        contributions.push(&row)?;
    }
    let m = ratings as f64;
    estimate(&contributions, resampling, |totals| {
        if ratings < 2 {
            return Err(Undefined::ZeroDenominator);
        }
        let n = totals[k + 1];
        let agreed = totals[k] / (m * (m - 1.0) * n);
        let chance: f64 = totals[..k].iter().map(|c| (c / (n * m)).powi(2)).sum();
        chance_corrected(agreed, chance)
    })
}

/// Krippendorff's alpha for nominal categories: 1 - D_o / D_e (Krippendorff 2004, chapter 11).
///
/// `items` holds each item's category labels; items may have any number of ratings, and those with
/// fewer than two do not enter. Undefined with [`Undefined::OneCategory`] when a single category
/// was used. Errs when no item has two ratings.
pub fn krippendorff_alpha(
    items: &[Vec<usize>],
    resampling: Resampling<'_>,
) -> Result<Agreement, RatingError> {
    let kept: Vec<usize> = (0..items.len()).filter(|&i| items[i].len() > 1).collect();
    let categories = dense(kept.iter().flat_map(|&i| items[i].iter().copied()));
    let k = categories.len();
    let mut contributions = Contributions::new(k + 1);
    for &i in &kept {
        let mut row = counts(&items[i], &categories);
        let m = items[i].len() as f64;
        let agreeing: f64 = row.iter().map(|n| n * n).sum();
        row.push((m * m - agreeing) / (m - 1.0));
        contributions.push(&row)?;
    }
    let clusters: Option<Vec<usize>> = match resampling.clusters {
        Some(labels) if labels.len() != items.len() => {
            let found = labels.len();
            return Err(ResamplingError::Labels {
                found,
                units: items.len(),
            }
            .into());
        }
        labels => labels.map(|labels| kept.iter().map(|&i| labels[i]).collect()),
    };
    let resampling = Resampling {
        clusters: clusters.as_deref(),
        ..resampling
    };
    estimate(&contributions, resampling, |totals| {
        let n: f64 = totals[..k].iter().sum();
        let squares: f64 = totals[..k].iter().map(|c| c * c).sum();
        let expected = n * n - squares;
        if expected <= 0.0 {
            return Err(Undefined::OneCategory);
        }
        Ok(1.0 - (n - 1.0) * totals[k] / expected)
    })
}

/// Raw agreement and Cohen's kappa within each group (each system's answers), since a judge may be
/// lenient with one style of answer and not with another. Groups are in ascending order.
///
/// Errs as [`raw_agreement`].
pub fn agreement_by_group(
    groups: &[usize],
    first: &[usize],
    second: &[usize],
    resampling: Resampling<'_>,
) -> Result<Vec<GroupAgreement>, RatingError> {
    same_length(first, second)?;
    same_length(groups, first)?;
    if let Some(clusters) = resampling.clusters {
        same_length(clusters, first)?;
    }
    let within = |group: usize| {
        let inside = |labels: &[usize]| -> Vec<usize> {
            let labelled = labels.iter().zip(groups);
            labelled
                .filter(|(_, g)| **g == group)
                .map(|(label, _)| *label)
                .collect()
        };
        let clusters = resampling.clusters.map(inside);
        let resampling = Resampling {
            clusters: clusters.as_deref(),
            ..resampling
        };
        let (first, second) = (inside(first), inside(second));
        Ok(GroupAgreement {
            group,
            raw: raw_agreement(&first, &second, resampling)?,
            kappa: cohen_kappa(&first, &second, resampling)?,
        })
    };
    dense(groups.iter().copied())
        .into_keys()
        .map(within)
        .collect()
}

fn chance_corrected(agreed: f64, chance: f64) -> Defined<f64> {
    if 1.0 - chance < 1e-12 {
        return Err(Undefined::OneCategory);
    }
    Ok((agreed - chance) / (1.0 - chance))
}

fn estimate(
    contributions: &Contributions,
    resampling: Resampling<'_>,
    coefficient: impl Fn(&[f64]) -> Defined<f64> + Sync,
) -> Result<Agreement, RatingError> {
    let scheme = resampling.clusters.map_or(Scheme::Units, Scheme::Clusters);
    let population = Population::new(contributions, scheme)?;
    let samples = resample(&population, resampling.replication, 1, |totals, out| {
        out[0] = coefficient(totals).ok();
    });
    let value = coefficient(population.totals());
    let interval = samples
        .first()
        .map_or(Err(Undefined::NoReplicate), |sample| {
            sample.percentile(resampling.confidence)
        });
    Ok(Agreement {
        value,
        interval: value.and(interval),
        items: contributions.units(),
    })
}

fn same_length(first: &[usize], second: &[usize]) -> Result<(), RatingError> {
    if first.len() == second.len() {
        return Ok(());
    }
    Err(RatingError::Lengths {
        first: first.len(),
        second: second.len(),
    })
}

/// Position of each distinct label, ascending.
fn dense(labels: impl Iterator<Item = usize>) -> BTreeMap<usize, usize> {
    let mut positions: BTreeMap<usize, usize> = labels.map(|label| (label, 0)).collect();
    for (position, slot) in positions.values_mut().enumerate() {
        *slot = position;
    }
    positions
}

fn counts(item: &[usize], categories: &BTreeMap<usize, usize>) -> Vec<f64> {
    let mut counts = vec![0.0; categories.len()];
    for label in item {
        counts[categories[label]] += 1.0;
    }
    counts
}
