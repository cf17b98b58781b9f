//! Correction for testing a declared family of hypotheses.

use serde::Serialize;

use crate::{Defined, PValue, Undefined};

/// How a family's p-values are adjusted. All methods return p-values that are monotone in the raw
/// ones, at most 1, and independent of the order of the members; ties get equal values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Adjustment {
    /// m p. Controls the family-wise error rate.
    Bonferroni,
    /// Running maximum of (m - i + 1) p(i), ascending (Holm 1979). Family-wise error rate.
    Holm,
    /// Running minimum of (m - i + 1) p(i), descending (Hochberg 1988). Family-wise error rate
    /// under independence or positive dependence.
    Hochberg,
    /// Running minimum of m p(i) / i, descending (Benjamini and Hochberg 1995). False discovery
    /// rate under independence or positive dependence.
    BenjaminiHochberg,
}

/// A declared family: every hypothesis that was tested, named, each with a p-value.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    members: Vec<(String, PValue)>,
}

/// Why a family cannot be declared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FamilyError {
    /// A member has no p-value; counting or dropping it silently would change every other one.
    #[error(
        "{member} has no p-value ({reason}): leave it out of the family before testing, or give it p = 1"
    )]
    UndefinedMember {
        /// Name of the hypothesis.
        member: String,
        /// Why it has no p-value.
        reason: Undefined,
    },
    /// Two hypotheses share a name.
    #[error("{member} is in the family twice")]
    Repeated {
        /// Name of the hypothesis.
        member: String,
    },
}

impl Family {
    /// Declares the family. Errs on a repeated name or a member without p-value.
    pub fn declare(
        members: impl IntoIterator<Item = (String, Defined<PValue>)>,
    ) -> Result<Self, FamilyError> {
        let mut declared = Vec::new();
        let mut names = std::collections::BTreeSet::new();
        for (member, p) in members {
            let p = p.map_err(|reason| FamilyError::UndefinedMember {
                member: member.clone(),
                reason,
            })?;
            if !names.insert(member.clone()) {
                return Err(FamilyError::Repeated { member });
            }
            declared.push((member, p));
        }
        Ok(Self { members: declared })
    }

    /// Number of hypotheses.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether no hypothesis was declared.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The names with their adjusted p-values, in the order declared.
    pub fn adjusted(&self, adjustment: Adjustment) -> Vec<(&str, PValue)> {
        let raw: Vec<_> = self.members.iter().map(|(_, p)| *p).collect();
        let names = self.members.iter().map(|(name, _)| name.as_str());
        names.zip(adjust(&raw, adjustment)).collect()
    }
}

/// The p-values adjusted over the family they form, in the order given.
pub fn adjust(raw: &[PValue], adjustment: Adjustment) -> Vec<PValue> {
    let m = raw.len();
    let mut ascending: Vec<usize> = (0..m).collect();
    ascending.sort_by(|&i, &j| raw[i].ln().total_cmp(&raw[j].ln()));
    let mut adjusted = vec![PValue::ONE; m];
    let remaining = |rank: usize| (m - rank) as f64;
    match adjustment {
        Adjustment::Bonferroni => {
            for (out, p) in adjusted.iter_mut().zip(raw) {
                *out = p.times(m as f64);
            }
        }
        Adjustment::Holm => {
            let mut running = f64::NEG_INFINITY;
            for (rank, &i) in ascending.iter().enumerate() {
                running = running.max(raw[i].times(remaining(rank)).ln());
                adjusted[i] = PValue::clamped_ln(running);
            }
        }
        Adjustment::Hochberg | Adjustment::BenjaminiHochberg => {
            let mut running = 0f64;
            for (rank, &i) in ascending.iter().enumerate().rev() {
                let factor = match adjustment {
                    Adjustment::Hochberg => remaining(rank),
                    _ => m as f64 / (rank + 1) as f64,
                };
                running = running.min(raw[i].times(factor).ln());
                adjusted[i] = PValue::clamped_ln(running);
            }
        }
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_undefined_member_is_an_error_that_names_it() {
        let family = Family::declare([
            ("a-b".to_owned(), Ok(PValue::ONE)),
            ("a-c".to_owned(), Err(Undefined::NotBinary)),
        ]);
        insta::assert_snapshot!(
            family.unwrap_err(),
            @"a-c has no p-value (the scores are not all 0 or 1): leave it out of the family before testing, or give it p = 1"
        );
    }

    #[test]
    fn a_hypothesis_counts_once() {
        let twice = [
            ("a-b".to_owned(), Ok(PValue::ONE)),
            ("a-b".to_owned(), Ok(PValue::ONE)),
        ];
        assert_eq!(
            Family::declare(twice),
            Err(FamilyError::Repeated {
                member: "a-b".to_owned()
            })
        );
    }

    #[test]
    fn tied_p_values_stay_tied() {
        let p = PValue::new(0.02).unwrap();
        for adjustment in [
            Adjustment::Holm,
            Adjustment::Hochberg,
            Adjustment::BenjaminiHochberg,
        ] {
            let adjusted = adjust(&[p, PValue::ONE, p], adjustment);
            assert_eq!(adjusted[0], adjusted[2], "{adjustment:?}");
        }
    }
}
