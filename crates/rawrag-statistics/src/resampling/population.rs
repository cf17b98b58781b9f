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
            stratum.sort_by(compare_rows);
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
            table: Table::new(rows, columns, if nest { &member_rows } else { &ranges }),
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

    /// Adds to `totals` those of one resample a row, for as many rows as it has.
    ///
    /// A stratum serves all resamples before the next one does, so that its rows stay in cache.
    pub(crate) fn resample(&self, draws: &mut Draws, totals: &mut [f64]) {
        for stratum in &self.strata {
            for totals in totals.chunks_exact_mut(self.columns) {
                match &self.table {
                    Table::Real(rows) => self.draw_real(rows, stratum, draws, totals),
                    Table::Packed(packed) => self.draw_packed(packed, stratum, draws, totals),
                }
            }
        }
    }

    fn draw_real(
        &self,
        rows: &[f64],
        stratum: &Range<usize>,
        draws: &mut Draws,
        totals: &mut [f64],
    ) {
        self.visit(stratum, draws, |draws, within| {
            draws.indices(within.len(), within.len(), |i| {
                let row = (within.start + i) * self.columns;
                for (total, x) in totals.iter_mut().zip(&rows[row..row + self.columns]) {
                    *total += x;
                }
            });
        });
    }

    fn draw_packed(
        &self,
        packed: &Packed,
        stratum: &Range<usize>,
        draws: &mut Draws,
        totals: &mut [f64],
    ) {
        match packed.words {
            1 => self.draw_words::<1>(packed, stratum, draws, totals),
            2 => self.draw_words::<2>(packed, stratum, draws, totals),
            3 => self.draw_words::<3>(packed, stratum, draws, totals),
            4 => self.draw_words::<4>(packed, stratum, draws, totals),
            5 => self.draw_words::<5>(packed, stratum, draws, totals),
            6 => self.draw_words::<6>(packed, stratum, draws, totals),
            7 => self.draw_words::<7>(packed, stratum, draws, totals),
            _ => self.draw_words::<MOST_WORDS>(packed, stratum, draws, totals),
        }
    }

    fn draw_words<const W: usize>(
        &self,
        packed: &Packed,
        stratum: &Range<usize>,
        draws: &mut Draws,
        totals: &mut [f64],
    ) {
        let rows = packed.rows.as_chunks::<W>().0;
        let mut sum = Sum {
            lanes: [0; W],
            room: packed.capacity,
        };
        self.visit(stratum, draws, |draws, within| {
            let count = within.len();
            match packed.pairs.get(&within.start) {
                Some(pairs) => {
                    sum.draw(pairs.as_chunks().0, 2, count / 2, packed, draws, totals);
                    sum.draw(&rows[within], 1, count % 2, packed, draws, totals);
                }
                None => sum.draw(&rows[within], 1, count, packed, draws, totals),
            }
        });
        packed.unpack(&mut sum.lanes, totals);
    }

    /// Calls `draw` with each range of rows from which as many rows are to be drawn.
    #[inline]
    fn visit(
        &self,
        stratum: &Range<usize>,
        draws: &mut Draws,
        mut draw: impl FnMut(&mut Draws, Range<usize>),
    ) {
        match &self.nested {
            None => draw(draws, stratum.clone()),
            Some(members) => {
                for _ in 0..stratum.len() {
                    let chosen = stratum.start + draws.index(stratum.len() as u32) as usize;
                    draw(draws, members[chosen].clone());
                }
            }
        }
    }
}

/// Packed totals of the rows drawn so far.
struct Sum<const W: usize> {
    lanes: [u64; W],
    /// Number of rows that still fit.
    room: usize,
}

impl<const W: usize> Sum<W> {
    /// Adds `count` entries drawn from a table whose entries are sums of `rows` rows each.
    #[inline]
    fn draw(
        &mut self,
        table: &[[u64; W]],
        rows: usize,
        count: usize,
        packed: &Packed,
        draws: &mut Draws,
        totals: &mut [f64],
    ) {
        let mut left = count;
        while left > 0 {
            if self.room < rows {
                packed.unpack(&mut self.lanes, totals);
                self.room = packed.capacity;
            }
            let now = left.min(self.room / rows);
            let mut lanes = self.lanes;
            draws.indices(now, table.len(), |i| {
                for (lane, word) in lanes.iter_mut().zip(&table[i]) {
                    *lane += word;
                }
            });
            self.lanes = lanes;
            self.room -= now * rows;
            left -= now;
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
    /// The sum of every ordered pair of rows, by first row of the range they are drawn from: two
    /// independent draws are one draw of a pair.
    pairs: BTreeMap<usize, Vec<u64>>,
}

const MOST_WORDS: usize = 8;

/// Largest table of pairs, in words: a quarter of a megabyte, which a core's own cache holds.
const MOST_PAIR_WORDS: usize = 1 << 15;

/// Fewest rows a lane must hold, so that unpacking stays rare.
const FEWEST_ROWS_A_LANE: usize = 32;

impl Table {
    /// `within` holds the ranges of rows that are drawn from.
    fn new(rows: Rows, columns: usize, within: &[Range<usize>]) -> Self {
        let Some(mut packed) = Packed::new(&rows, columns) else {
            return Self::Real(rows.concat());
        };
        within
            .iter()
            .for_each(|range| packed.prepare_pairs(range.clone()));
        Self::Packed(packed)
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
            pairs: BTreeMap::new(),
        })
    }

    /// Prepares drawing two rows at a time from a range of rows, if their pairs fit.
    fn prepare_pairs(&mut self, within: Range<usize>) {
        if within.len() < 2 || within.len() * within.len() * self.words > MOST_PAIR_WORDS {
            return;
        }
        let rows = &self.rows[within.start * self.words..within.end * self.words];
        let mut pairs = Vec::with_capacity(rows.len() * within.len());
        for first in rows.chunks(self.words) {
            for second in rows.chunks(self.words) {
                pairs.extend(first.iter().zip(second).map(|(a, b)| a + b));
            }
        }
        self.pairs.insert(within.start, pairs);
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

    /// With strata too large for tables of pairs and lanes that hold them, the packed and the plain table see the same draws,
    /// so every resample agrees exactly.
    #[test]
    fn packing_changes_no_resample() {
        for (columns, most, units) in [
            (3, 1u32, 200),
            (9, 1, 200),
            (48, 3, 80),
            (2, 200, 200),
            (4, 60_000, 200),
        ] {
            let mut draws = Draws::new(1, 0);
            let mut row = || {
                (0..columns)
                    .map(|_| f64::from(draws.index(most + 1)))
                    .collect()
            };
            let rows: Rows = (0..2 * units).map(|_| row()).collect();
            let stratum = |rows: &[Vec<f64>]| rows.iter().map(|r| vec![r.clone()]).collect();
            let strata = vec![stratum(&rows[..units]), stratum(&rows[units..])];
            let packed = Population::lay_out(strata, columns, false);
            assert!(
                matches!(&packed.table, Table::Packed(p) if p.pairs.is_empty()),
                "{columns}"
            );
            let plain = Population {
                table: Table::Real(rows.concat()),
                ..packed.clone()
            };
            for stream in 0..5 {
                let resamples = |population: &Population| {
                    let mut totals = vec![0.0; 4 * columns];
                    population.resample(&mut Draws::new(9, stream), &mut totals);
                    totals
                };
                assert_eq!(resamples(&packed), resamples(&plain));
            }
        }
    }

    /// Lanes that fill up are emptied into the totals in time.
    #[test]
    fn full_lanes_are_carried_over() {
        for (units, value) in [(40, 9.0), (700, 1.0), (700, 40.0)] {
            let mut contributions = Contributions::new(9);
            for _ in 0..units {
                contributions.push(&[value; 9]).unwrap();
            }
            let population = Population::new(&contributions, Scheme::Units).unwrap();
            let mut totals = [0.0; 9];
            population.resample(&mut Draws::new(1, 1), &mut totals);
            assert_eq!(totals.to_vec(), vec![f64::from(units) * value; 9]);
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
                totals.fill(0.0);
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
