use std::collections::BTreeMap;

/// One judgment of one system's answer to one unit (a question).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row<'a> {
    /// The system.
    pub system: &'a str,
    /// Key of the unit, the same for all systems.
    pub unit: &'a str,
    /// Score in \[0, 1\]; `None` if the answer or its judgment is missing.
    pub score: Option<f64>,
    /// Stratum of the unit; declared for all units or for none.
    pub stratum: Option<&'a str>,
    /// Cluster of the unit; declared for all units or for none.
    pub cluster: Option<&'a str>,
}

/// What to do with a missing score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Missing {
    /// An error that names the system and the unit.
    #[default]
    Refuse,
    /// It scores 0 (the rule of the Raw-RAG paper for failures).
    Zero,
    /// The unit is left out for all systems.
    DropUnit,
}

/// A label for each unit, in order of the units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Labels {
    names: Vec<String>,
    of_unit: Vec<usize>,
}

/// Complete paired scores: every system on every unit.
///
/// Units are in order of their keys, whatever the order of the rows. Several rows of one system and
/// unit are repetitions of one answer's judgment: their mean is the score, so that resampling keeps
/// them together.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcomes {
    systems: Vec<String>,
    units: Vec<String>,
    scores: Vec<Vec<f64>>,
    strata: Option<Labels>,
    clusters: Option<Labels>,
    filled: usize,
    dropped: usize,
}

/// Why rows do not form paired outcomes.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OutcomeError {
    /// No row belongs to the systems asked for.
    #[error("there are no outcomes")]
    Empty,
    /// A system asked for that no row names.
    #[error("no outcome of system {system}: the systems are {known}")]
    UnknownSystem {
        /// The name asked for.
        system: String,
        /// The names there are, comma separated.
        known: String,
    },
    /// A score outside \[0, 1\].
    #[error("system {system}, unit {unit}: score {score} is not between 0 and 1")]
    Score {
        /// System.
        system: String,
        /// Unit.
        unit: String,
        /// The score.
        score: f64,
    },
    /// A score that is missing.
    #[error(
        "system {system}, unit {unit}: no score ({count} missing in all); \
         judge it, or ask for missing scores to count 0 or for their units to be dropped"
    )]
    Missing {
        /// System of the first missing score.
        system: String,
        /// Unit of the first missing score.
        unit: String,
        /// Number of missing scores.
        count: usize,
    },
    /// Two different labels for one unit, or a label on some units only.
    #[error("unit {unit}: {field} is {first} in one row and {second} in another")]
    Label {
        /// Unit.
        unit: String,
        /// `stratum` or `cluster`.
        field: &'static str,
        /// One label.
        first: String,
        /// The other.
        second: String,
    },
    /// A label that some units have and this one lacks.
    #[error("unit {unit} has no {field} while other units have one; give all units one, or none")]
    NoLabel {
        /// Unit.
        unit: String,
        /// `stratum` or `cluster`.
        field: &'static str,
    },
}

#[derive(Default)]
struct Cell {
    sum: f64,
    repetitions: usize,
    missing: usize,
}

struct Unit<'a> {
    stratum: Option<&'a str>,
    cluster: Option<&'a str>,
    cells: Vec<Cell>,
}

impl Outcomes {
    /// Joins rows into paired outcomes of `systems`, or of all systems in order of appearance.
    ///
    /// A unit that only some of the systems have is missing for the others, never joined away.
    pub fn collect<'a>(
        rows: impl IntoIterator<Item = Row<'a>>,
        systems: Option<&[String]>,
        missing: Missing,
    ) -> Result<Self, OutcomeError> {
        let rows: Vec<Row<'a>> = rows.into_iter().collect();
        let systems = choose_systems(&rows, systems)?;
        let mut units = gather(&rows, &systems)?;
        if units.is_empty() {
            return Err(OutcomeError::Empty);
        }
        let (filled, dropped) = settle_missing(&mut units, &systems, missing)?;
        if units.is_empty() {
            return Err(OutcomeError::Empty);
        }
        let score = |system: usize| {
            let of = |unit: &Unit<'_>| {
                let cell = &unit.cells[system];
                // A mean of ones must be exactly one, so the sum is divided, not accumulated.
                cell.sum / (cell.repetitions + cell.missing).max(1) as f64
            };
            units.values().map(of).collect()
        };
        Ok(Self {
            scores: (0..systems.len()).map(score).collect(),
            strata: Labels::collect(&units, "stratum", |unit| unit.stratum)?,
            clusters: Labels::collect(&units, "cluster", |unit| unit.cluster)?,
            units: units.into_keys().map(str::to_owned).collect(),
            systems,
            filled,
            dropped,
        })
    }

    /// Names of the systems.
    pub fn systems(&self) -> &[String] {
        &self.systems
    }

    /// Keys of the units, ascending.
    pub fn units(&self) -> &[String] {
        &self.units
    }

    /// Scores of each system, one a unit.
    pub fn scores(&self) -> &[Vec<f64>] {
        &self.scores
    }

    /// Strata, if declared.
    pub fn strata(&self) -> Option<&Labels> {
        self.strata.as_ref()
    }

    /// Clusters, if declared.
    pub fn clusters(&self) -> Option<&Labels> {
        self.clusters.as_ref()
    }

    /// Number of missing scores counted as 0.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// Number of units dropped for a missing score.
    pub fn dropped(&self) -> usize {
        self.dropped
    }
}

impl Labels {
    /// Distinct labels, ascending.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Position in [`Labels::names`] of each unit's label.
    pub fn of_unit(&self) -> &[usize] {
        &self.of_unit
    }

    fn collect<'a>(
        units: &BTreeMap<&'a str, Unit<'a>>,
        field: &'static str,
        label: impl Fn(&Unit<'a>) -> Option<&'a str>,
    ) -> Result<Option<Self>, OutcomeError> {
        let labels: Vec<_> = units.values().map(&label).collect();
        if labels.iter().all(Option::is_none) {
            return Ok(None);
        }
        if let Some((unit, _)) = units.iter().find(|(_, unit)| label(unit).is_none()) {
            return Err(OutcomeError::NoLabel {
                unit: (*unit).to_owned(),
                field,
            });
        }
        let mut positions: BTreeMap<&str, usize> =
            labels.iter().flatten().map(|&name| (name, 0)).collect();
        for (position, slot) in positions.values_mut().enumerate() {
            *slot = position;
        }
        Ok(Some(Self {
            of_unit: labels
                .iter()
                .flatten()
                .map(|name| positions[name])
                .collect(),
            names: positions.into_keys().map(str::to_owned).collect(),
        }))
    }
}

fn choose_systems(rows: &[Row<'_>], asked: Option<&[String]>) -> Result<Vec<String>, OutcomeError> {
    let mut known: Vec<&str> = Vec::new();
    for row in rows {
        if !known.contains(&row.system) {
            known.push(row.system);
        }
    }
    let Some(asked) = asked else {
        return Ok(known.into_iter().map(str::to_owned).collect());
    };
    let mut chosen: Vec<String> = Vec::new();
    for system in asked {
        if !known.contains(&system.as_str()) {
            return Err(OutcomeError::UnknownSystem {
                system: system.clone(),
                known: known.join(", "),
            });
        }
        if !chosen.contains(system) {
            chosen.push(system.clone());
        }
    }
    Ok(chosen)
}

fn gather<'a>(
    rows: &[Row<'a>],
    systems: &[String],
) -> Result<BTreeMap<&'a str, Unit<'a>>, OutcomeError> {
    let positions: BTreeMap<&str, usize> = systems
        .iter()
        .enumerate()
        .map(|(i, name)| (name.as_str(), i))
        .collect();
    let mut units = BTreeMap::new();
    for row in rows {
        let Some(&system) = positions.get(row.system) else {
            continue;
        };
        let unit = units.entry(row.unit).or_insert_with(|| Unit {
            stratum: row.stratum,
            cluster: row.cluster,
            cells: systems.iter().map(|_| Cell::default()).collect(),
        });
        agree(row.unit, "stratum", unit.stratum, row.stratum)?;
        agree(row.unit, "cluster", unit.cluster, row.cluster)?;
        let cell = &mut unit.cells[system];
        match row.score {
            None => cell.missing += 1,
            Some(score) if (0.0..=1.0).contains(&score) => {
                cell.sum += score;
                cell.repetitions += 1;
            }
            Some(score) => {
                return Err(OutcomeError::Score {
                    system: row.system.to_owned(),
                    unit: row.unit.to_owned(),
                    score,
                });
            }
        }
    }
    Ok(units)
}

fn agree(
    unit: &str,
    field: &'static str,
    first: Option<&str>,
    second: Option<&str>,
) -> Result<(), OutcomeError> {
    if first == second {
        return Ok(());
    }
    let shown = |label: Option<&str>| label.unwrap_or("absent").to_owned();
    Err(OutcomeError::Label {
        unit: unit.to_owned(),
        field,
        first: shown(first),
        second: shown(second),
    })
}

/// Applies the policy; returns how many scores were counted 0 and how many units were dropped.
fn settle_missing(
    units: &mut BTreeMap<&str, Unit<'_>>,
    systems: &[String],
    missing: Missing,
) -> Result<(usize, usize), OutcomeError> {
    let lacks = |cell: &Cell| cell.missing > 0 || cell.repetitions == 0;
    let mut count = 0;
    let mut first = None;
    for (key, unit) in units.iter() {
        for (cell, system) in unit.cells.iter().zip(systems) {
            if lacks(cell) {
                count += cell.missing.max(1);
                first.get_or_insert((system, *key));
            }
        }
    }
    let Some((system, unit)) = first else {
        return Ok((0, 0));
    };
    match missing {
        Missing::Refuse => Err(OutcomeError::Missing {
            system: system.clone(),
            unit: unit.to_owned(),
            count,
        }),
        Missing::Zero => Ok((count, 0)),
        Missing::DropUnit => {
            let before = units.len();
            units.retain(|_, unit| !unit.cells.iter().any(lacks));
            Ok((0, before - units.len()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row<'a>(system: &'a str, unit: &'a str, score: Option<f64>) -> Row<'a> {
        Row {
            system,
            unit,
            score,
            stratum: None,
            cluster: None,
        }
    }

    #[test]
    fn a_missing_unit_is_named_and_refused_unless_asked_for() {
        let rows = [
            row("a", "q1", Some(1.0)),
            row("b", "q1", Some(0.0)),
            row("a", "q2", Some(1.0)),
        ];
        insta::assert_snapshot!(
            Outcomes::collect(rows, None, Missing::Refuse).unwrap_err(),
            @"system b, unit q2: no score (1 missing in all); judge it, or ask for missing scores to count 0 or for their units to be dropped"
        );
        let zero = Outcomes::collect(rows, None, Missing::Zero).unwrap();
        assert_eq!(
            (zero.scores()[1].as_slice(), zero.filled()),
            (&[0.0, 0.0][..], 1)
        );
        let dropped = Outcomes::collect(rows, None, Missing::DropUnit).unwrap();
        assert_eq!((dropped.units().len(), dropped.dropped()), (1, 1));
    }

    #[test]
    fn repetitions_are_averaged_within_their_unit() {
        let rows = [
            row("a", "q1", Some(1.0)),
            row("a", "q1", Some(0.0)),
            row("a", "q1", Some(1.0)),
        ];
        let outcomes = Outcomes::collect(rows, None, Missing::Refuse).unwrap();
        assert_eq!(outcomes.scores(), [[2.0 / 3.0]]);
    }

    #[test]
    fn a_score_out_of_range_and_a_torn_label_are_errors() {
        let bad = Outcomes::collect([row("a", "q1", Some(f64::NAN))], None, Missing::Refuse);
        assert!(matches!(bad, Err(OutcomeError::Score { .. })));
        let torn = [
            Row {
                cluster: Some("c1"),
                ..row("a", "q1", Some(1.0))
            },
            Row {
                cluster: Some("c2"),
                ..row("b", "q1", Some(1.0))
            },
        ];
        let torn = Outcomes::collect(torn, None, Missing::Refuse);
        assert!(matches!(
            torn,
            Err(OutcomeError::Label {
                field: "cluster",
                ..
            })
        ));
    }
}
