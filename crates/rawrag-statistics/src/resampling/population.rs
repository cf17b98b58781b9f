use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Range;

use super::draws::Draws;

/// What each unit adds to the totals that a statistic is computed from.
///
/// A statistic of resampled units is a function of column totals: for a rate a numerator and a
/// count column, for a ratio two, for a macro-average two per task.
#[derive(Debug, Clone, PartialEq)]
pub struct Contributions {
    columns: usize,
    rows: Vec<f64>,
}

/// Which units are drawn together, and from where.
///
/// Slices hold one label a unit; labels need not be dense.
#[derive(Debug, Clone, Copy)]
pub enum Scheme<'a> {
    /// Units, from all units.
    Units,
    /// Units, from their own stratum; every stratum keeps its size.
    UnitsWithinStrata(&'a [usize]),
    /// Whole clusters, from all clusters.
    Clusters(&'a [usize]),
    /// Whole clusters, from the clusters of their kind; every kind keeps its number of clusters.
    ClustersWithinKinds {
        /// Cluster of each unit.
        clusters: &'a [usize],
        /// Kind of each unit's cluster; one kind a cluster.
        kinds: &'a [usize],
    },
    /// Clusters first, then as many units from each drawn cluster as it has.
    ClustersThenUnits(&'a [usize]),
}

/// Why a sample cannot be resampled.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ResamplingError {
    /// No unit was given.
    #[error("there are no units to resample")]
    NoUnits,
    /// A row of another width than the first.
    #[error("unit {unit} contributes {found} columns where {expected} are declared")]
    Columns {
        /// Position of the unit.
        unit: usize,
        /// Its number of columns.
        found: usize,
        /// Declared number of columns.
        expected: usize,
    },
    /// A contribution that is not a finite number.
    #[error("unit {unit}, column {column}: {value} is not a finite number")]
    NotFinite {
        /// Position of the unit.
        unit: usize,
        /// Column.
        column: usize,
        /// The contribution.
        value: f64,
    },
    /// Labels that do not match the units one to one.
    #[error("{found} labels for {units} units")]
    Labels {
        /// Number of labels.
        found: usize,
        /// Number of units.
        units: usize,
    },
    /// A cluster whose units carry two kinds.
    #[error("cluster {cluster} has units of kinds {first} and {second}; a cluster has one kind")]
    MixedCluster {
        /// Label of the cluster.
        cluster: usize,
        /// Kind seen first.
        first: usize,
        /// Another kind.
        second: usize,
    },
    /// A score that names a column beyond the last.
    #[error("column {column} does not exist: there are {columns}")]
    NoColumn {
        /// The column named.
        column: usize,
        /// Number of columns.
        columns: usize,
    },
    /// A contrast that names a score beyond the last.
    #[error("score {score} does not exist: there are {scores}")]
    NoScore {
        /// The score named.
        score: usize,
        /// Number of scores.
        scores: usize,
    },
}

impl Contributions {
    /// No units yet, `columns` totals.
    pub fn new(columns: usize) -> Self {
        Self {
            columns,
            rows: Vec::new(),
        }
    }

    /// Adds a unit. Errs on a row of another width and on a value that is not finite.
    pub fn push(&mut self, row: &[f64]) -> Result<(), ResamplingError> {
        let unit = self.units();
        if row.len() != self.columns {
            return Err(ResamplingError::Columns {
                unit,
                found: row.len(),
                expected: self.columns,
            });
        }
        if let Some(column) = row.iter().position(|value| !value.is_finite()) {
            return Err(ResamplingError::NotFinite {
                unit,
                column,
                value: row[column],
            });
        }
        self.rows.extend_from_slice(row);
        Ok(())
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        self.rows.len().checked_div(self.columns).unwrap_or(0)
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    fn row(&self, unit: usize) -> &[f64] {
        &self.rows[unit * self.columns..(unit + 1) * self.columns]
    }
}

/// A sample prepared for resampling under one scheme.
///
/// Members (units or clusters) are held in the order of what they contribute, so neither the order
/// of the units nor the labels of clusters and strata influence any replicate.
#[derive(Debug, Clone)]
pub struct Population {
    columns: usize,
    table: Table,
    strata: Vec<Range<usize>>,
    /// Rows of each member when units are drawn within drawn clusters; otherwise a member is one
    /// row.
    nested: Option<Vec<Range<usize>>>,
    totals: Vec<f64>,
}

type Rows = Vec<Vec<f64>>;

impl Population {
    /// Prepares the sample. Errs on no units, labels that do not match the units, and a cluster of
    /// two kinds.
    pub fn new(contributions: &Contributions, scheme: Scheme<'_>) -> Result<Self, ResamplingError> {
        let units = contributions.units();
        if units == 0 {
            return Err(ResamplingError::NoUnits);
        }
        let all_alike = vec![0; units];
        let each_apart: Vec<usize> = (0..units).collect();
        let (kinds, clusters, nest) = match scheme {
            Scheme::Units => (&all_alike[..], &each_apart[..], false),
            Scheme::UnitsWithinStrata(strata) => (strata, &each_apart[..], false),
            Scheme::Clusters(clusters) => (&all_alike[..], clusters, false),
            Scheme::ClustersWithinKinds { clusters, kinds } => (kinds, clusters, false),
            Scheme::ClustersThenUnits(clusters) => (&all_alike[..], clusters, true),
        };
        for labels in [kinds, clusters] {
            if labels.len() != units {
                return Err(ResamplingError::Labels {
                    found: labels.len(),
                    units,
                });
            }
        }

        let mut members: BTreeMap<usize, (usize, Rows)> = BTreeMap::new();
        for (unit, (&cluster, &kind)) in clusters.iter().zip(kinds).enumerate() {
            let (first, rows) = members.entry(cluster).or_insert_with(|| (kind, Vec::new()));
            if *first != kind {
                return Err(ResamplingError::MixedCluster {
                    cluster,
                    first: *first,
                    second: kind,
                });
            }
            rows.push(contributions.row(unit).to_vec());
        }
        let mut strata: BTreeMap<usize, Vec<Rows>> = BTreeMap::new();
        for (kind, mut rows) in members.into_values() {
            rows.sort_by(|a, b| compare(a, b));
            if !nest {
                rows = vec![total(&rows, contributions.columns)];
            }
            strata.entry(kind).or_default().push(rows);
        }
        let mut strata: Vec<Vec<Rows>> = strata.into_values().collect();
        for stratum in &mut strata {
            stratum.sort_by(|a, b| compare_rows(a, b));
        }
        strata.sort_by(|a, b| compare_strata(a, b));
        Ok(Self::lay_out(strata, contributions.columns, nest))
    }

    fn lay_out(strata: Vec<Vec<Rows>>, columns: usize, nest: bool) -> Self {
        let mut rows = Vec::new();
        let mut member_rows = Vec::new();
        let mut ranges = Vec::with_capacity(strata.len());
        for stratum in strata {
            let first = member_rows.len();
            for member in stratum {
                let start = rows.len();
                rows.extend(member);
                member_rows.push(start..rows.len());
            }
            ranges.push(first..member_rows.len());
        }
        Self {
            columns,
            totals: total(&rows, columns),
            table: Table::new(rows, columns),
            strata: ranges,
            nested: nest.then_some(member_rows),
        }
    }

    /// Totals of the sample itself, one a column.
    pub fn totals(&self) -> &[f64] {
        &self.totals
    }

    /// Number of members that are drawn: clusters if whole clusters are, otherwise units.
    pub fn members(&self) -> usize {
        self.strata.last().map_or(0, |last| last.end)
    }

    /// For each stratum, its size and the totals with each of its members left out and the
    /// stratum scaled back to its size. Strata of one member have nothing to leave out.
    pub(crate) fn leave_one_out(&self) -> Vec<Vec<Vec<f64>>> {
        let member_totals: Rows = (0..self.members()).map(|m| self.member_total(m)).collect();
        let sizeable = self.strata.iter().filter(|stratum| stratum.len() > 1);
        sizeable
            .map(|stratum| {
                let whole = total(&member_totals[stratum.clone()], self.columns);
                let n = stratum.len() as f64;
                let without = |member: usize| {
                    let left_out = &member_totals[member];
                    let shift = |c: usize| (whole[c] - n * left_out[c]) / (n - 1.0);
                    (0..self.columns)
                        .map(|c| self.totals[c] + shift(c))
                        .collect()
                };
                stratum.clone().map(without).collect()
            })
            .collect()
    }

    fn member_total(&self, member: usize) -> Vec<f64> {
        let rows = match &self.nested {
            Some(nested) => nested[member].clone(),
            None => member..member + 1,
        };
        let rows: Rows = rows.map(|row| self.table.row(row, self.columns)).collect();
        total(&rows, self.columns)
    }

    /// Fills `totals` with those of one resample.
    pub(crate) fn resample(&self, draws: &mut Draws, totals: &mut [f64]) {
        match &self.table {
            Table::Real(rows) => {
                totals.fill(0.0);
                self.visit(draws, |draws, within, count| {
                    draws.indices(count, within.len(), |i| {
                        let row = (within.start + i) * self.columns;
                        for (t, x) in totals.iter_mut().zip(&rows[row..row + self.columns]) {
                            *t += x;
                        }
                    });
                });
            }
            Table::Packed(packed) => match packed.words {
                1 => self.resample_packed::<1>(packed, draws, totals),
                2 => self.resample_packed::<2>(packed, draws, totals),
                3 => self.resample_packed::<3>(packed, draws, totals),
                4 => self.resample_packed::<4>(packed, draws, totals),
                5 => self.resample_packed::<5>(packed, draws, totals),
                6 => self.resample_packed::<6>(packed, draws, totals),
                7 => self.resample_packed::<7>(packed, draws, totals),
                _ => self.resample_packed::<MOST_WORDS>(packed, draws, totals),
            },
        }
    }

    fn resample_packed<const W: usize>(
        &self,
        packed: &Packed,
        draws: &mut Draws,
        totals: &mut [f64],
    ) {
        let rows = packed.rows.as_chunks::<W>().0;
        let mut lanes = [0u64; W];
        let mut room = packed.capacity;
        totals.fill(0.0);
        self.visit(draws, |draws, within, count| {
            let rows = &rows[within];
            let mut left = count;
            while left > 0 {
                if room == 0 {
                    packed.unpack(&mut lanes, totals);
                    room = packed.capacity;
                }
                let now = left.min(room);
                let mut sum = lanes;
                draws.indices(now, rows.len(), |i| {
                    for (lane, word) in sum.iter_mut().zip(&rows[i]) {
                        *lane += word;
                    }
                });
                lanes = sum;
                left -= now;
                room -= now;
            }
        });
        packed.unpack(&mut lanes, totals);
    }

    /// Calls `draw` with each range of rows to draw from and the number of rows to draw.
    #[inline]
    fn visit(&self, draws: &mut Draws, mut draw: impl FnMut(&mut Draws, Range<usize>, usize)) {
        for stratum in &self.strata {
            match &self.nested {
                None => draw(draws, stratum.clone(), stratum.len()),
                Some(members) => {
                    for _ in 0..stratum.len() {
                        let chosen = stratum.start + draws.index(stratum.len() as u32) as usize;
                        let rows = members[chosen].clone();
                        let count = rows.len();
                        draw(draws, rows, count);
                    }
                }
            }
        }
    }
}

/// Rows of contributions, packed when they are small whole numbers.
#[derive(Debug, Clone)]
enum Table {
    Packed(Packed),
    Real(Vec<f64>),
}

/// Several columns a word: adding two words adds every column, until a lane could overflow.
#[derive(Debug, Clone)]
struct Packed {
    bits: usize,
    words: usize,
    /// Number of rows that can be added before a lane could overflow.
    capacity: usize,
    rows: Vec<u64>,
}

const MOST_WORDS: usize = 8;

/// Fewest rows a lane must hold, so that unpacking stays rare.
const FEWEST_ROWS_A_LANE: usize = 32;

impl Table {
    fn new(rows: Rows, columns: usize) -> Self {
        match Packed::new(&rows, columns) {
            Some(packed) => Self::Packed(packed),
            None => Self::Real(rows.concat()),
        }
    }

    fn row(&self, row: usize, columns: usize) -> Vec<f64> {
        match self {
            Self::Real(rows) => rows[row * columns..(row + 1) * columns].to_vec(),
            Self::Packed(packed) => {
                let mut lanes = packed.rows[row * packed.words..(row + 1) * packed.words].to_vec();
                let mut values = vec![0.0; columns];
                packed.unpack(&mut lanes, &mut values);
                values
            }
        }
    }
}

impl Packed {
    /// Packs whole numbers from 0 up; `None` for other values and for too many columns.
    fn new(rows: &Rows, columns: usize) -> Option<Self> {
        let most = rows.iter().flatten().copied().fold(0.0, f64::max);
        let whole = |x: &f64| *x >= 0.0 && x.fract().abs() < f64::MIN_POSITIVE;
        if columns == 0 || most > f64::from(u16::MAX) || !rows.iter().flatten().all(whole) {
            return None;
        }
        let most = (most as usize).max(1);
        let capacity = |bits: usize| ((1usize << bits) - 1) / most;
        let bits = [8, 16, 32]
            .into_iter()
            .find(|&b| capacity(b) >= FEWEST_ROWS_A_LANE)?;
        let per_word = 64 / bits;
        let words = columns.div_ceil(per_word);
        if words > MOST_WORDS {
            return None;
        }
        let pack = |chunk: &[f64]| {
            chunk
                .iter()
                .enumerate()
                .fold(0u64, |word, (i, &x)| word | (x as u64) << (i * bits))
        };
        let packed = rows
            .iter()
            .flat_map(|row| row.chunks(per_word).map(pack))
            .collect();
        Some(Self {
            bits,
            words,
            capacity: capacity(bits),
            rows: packed,
        })
    }

    /// Adds the lanes to the totals and clears them.
    fn unpack(&self, lanes: &mut [u64], totals: &mut [f64]) {
        let mask = (1u64 << self.bits) - 1;
        for (lane, totals) in lanes.iter_mut().zip(totals.chunks_mut(64 / self.bits)) {
            let mut word = std::mem::take(lane);
            for total in totals {
                *total += (word & mask) as f64;
                word >>= self.bits;
            }
        }
    }
}

fn total(rows: &[Vec<f64>], columns: usize) -> Vec<f64> {
    let mut totals = vec![0.0; columns];
    for row in rows {
        for (total, x) in totals.iter_mut().zip(row) {
            *total += x;
        }
    }
    totals
}

fn compare(a: &[f64], b: &[f64]) -> Ordering {
    let differing = a
        .iter()
        .zip(b)
        .map(|(x, y)| x.total_cmp(y))
        .find(|o| o.is_ne());
    differing.unwrap_or(Ordering::Equal)
}

fn compare_rows(a: &Rows, b: &Rows) -> Ordering {
    let differing = a
        .iter()
        .zip(b)
        .map(|(x, y)| compare(x, y))
        .find(|o| o.is_ne());
    differing.unwrap_or_else(|| a.len().cmp(&b.len()))
}

fn compare_strata(a: &[Rows], b: &[Rows]) -> Ordering {
    let differing = a
        .iter()
        .zip(b)
        .map(|(x, y)| compare_rows(x, y))
        .find(|o| o.is_ne());
    differing.unwrap_or_else(|| a.len().cmp(&b.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The packed and the plain table see the same draws, so every resample agrees exactly.
    #[test]
    fn packing_changes_no_resample() {
        for (columns, most) in [(3, 1u32), (9, 3), (48, 3), (2, 200), (4, 60_000)] {
            let mut draws = Draws::new(1, 0);
            let rows: Rows = (0..40)
                .map(|_| {
                    (0..columns)
                        .map(|_| f64::from(draws.index(most + 1)))
                        .collect()
                })
                .collect();
            let strata = vec![
                rows[..25].iter().map(|r| vec![r.clone()]).collect(),
                rows[25..].iter().map(|r| vec![r.clone()]).collect(),
            ];
            let packed = Population::lay_out(strata, columns, false);
            assert!(matches!(packed.table, Table::Packed(_)), "{columns} {most}");
            let plain = Population {
                table: Table::Real(rows.concat()),
                ..packed.clone()
            };
            let (mut a, mut b) = (vec![0.0; columns], vec![0.0; columns]);
            for stream in 0..50 {
                packed.resample(&mut Draws::new(9, stream), &mut a);
                plain.resample(&mut Draws::new(9, stream), &mut b);
                assert_eq!(a, b);
            }
        }
    }

    /// Each unit of a one-hot table is drawn once on average, in each scheme that keeps sizes.
    #[test]
    fn mean_multiplicity_is_one() {
        let units = 12;
        let mut contributions = Contributions::new(units);
        for unit in 0..units {
            let row: Vec<f64> = (0..units).map(|c| f64::from(u8::from(c == unit))).collect();
            contributions.push(&row).unwrap();
        }
        let labels: Vec<usize> = (0..units).map(|u| u / 4).collect();
        let kinds: Vec<usize> = (0..units).map(|u| u / 8).collect();
        let schemes = [
            Scheme::Units,
            Scheme::UnitsWithinStrata(&labels),
            Scheme::Clusters(&labels),
            Scheme::ClustersWithinKinds {
                clusters: &labels,
                kinds: &kinds,
            },
            Scheme::ClustersThenUnits(&labels),
        ];
        let replicates = 4_000;
        for scheme in schemes {
            let population = Population::new(&contributions, scheme).unwrap();
            let mut sums = vec![0.0; units];
            let mut totals = vec![0.0; units];
            let mut draws = Draws::new(3, 0);
            for _ in 0..replicates {
                population.resample(&mut draws, &mut totals);
                assert!(
                    (totals.iter().sum::<f64>() - units as f64).abs() < 1e-9,
                    "{scheme:?}"
                );
                for (sum, total) in sums.iter_mut().zip(&totals) {
                    *sum += total / f64::from(replicates);
                }
            }
            // The variance of a multiplicity is below 3, two-stage included.
            let tolerance = 5.0 * (3.0 / f64::from(replicates)).sqrt();
            assert!(
                sums.iter().all(|m| (m - 1.0).abs() < tolerance),
                "{scheme:?}: {sums:?}"
            );
        }
    }

    #[test]
    fn a_cluster_of_two_kinds_is_refused() {
        let mut contributions = Contributions::new(1);
        contributions.push(&[1.0]).unwrap();
        contributions.push(&[0.0]).unwrap();
        let scheme = Scheme::ClustersWithinKinds {
            clusters: &[4, 4],
            kinds: &[0, 1],
        };
        insta::assert_snapshot!(
            Population::new(&contributions, scheme).unwrap_err(),
            @"cluster 4 has units of kinds 0 and 1; a cluster has one kind"
        );
    }
}
