//! What synthetic episodes are about. Labels are lower-case words; no label contains another, and
//! none but those of a topic begins with its word.

use super::draws::{Draws, Words};

/// What kind of value an entity has.
#[derive(Clone, Copy)]
pub(super) enum Values {
    Person,
    Place,
    Firm,
    Device,
    Code,
    Title,
    Ware,
}

/// A label and its kind of value.
pub(super) type Spec = (&'static str, Values);

/// An entity whose change sets off others.
pub(super) struct Root {
    pub(super) root: Spec,
    /// The kind of its dependencies.
    pub(super) pattern: &'static str,
    /// What directly depends on it.
    pub(super) leaves: [Spec; 3],
    /// What depends on it and has dependents of its own.
    pub(super) middle: Spec,
    /// The kind of those dependencies.
    pub(super) below_pattern: &'static str,
    pub(super) below: [Spec; 2],
}

pub(super) struct Domain {
    pub(super) name: &'static str,
    /// Who speaks.
    pub(super) speakers: [&'static str; 4],
    pub(super) roots: [Root; 3],
    /// A word, and three labels that begin with it.
    pub(super) topics: [(&'static str, [Spec; 3]); 3],
    /// Values that matter word for word.
    pub(super) verbatim: [&'static str; 2],
    /// What changes several times.
    pub(super) tracked: [Spec; 3],
    /// What nothing depends on.
    pub(super) loose: [Spec; 6],
}

use Values::{Code, Device, Firm, Person, Place, Title, Ware};

pub(super) static DOMAINS: [Domain; 3] = [
    Domain {
        name: "household",
        speakers: ["Ottilie", "Renzo", "Maike", "Tobiah"],
        roots: [
            Root {
                root: ("landlord", Person),
                pattern: "tenancy",
                leaves: [
                    ("rent account", Code),
                    ("repair line", Code),
                    ("lease office", Place),
                ],
                middle: ("key holder", Person),
                below_pattern: "custody",
                below: [("lockbox word", Code), ("cellar cabinet", Device)],
            },
            Root {
                root: ("heating supplier", Firm),
                pattern: "supply",
                leaves: [
                    ("meter reader", Person),
                    ("fuel depot", Place),
                    ("tariff name", Title),
                ],
                middle: ("boiler model", Device),
                below_pattern: "fitting",
                below: [("filter type", Device), ("service manual", Title)],
            },
            Root {
                root: ("childminder", Person),
                pattern: "arrangement",
                leaves: [
                    ("lunch parcel", Ware),
                    ("nap song", Title),
                    ("pickup code", Code),
                ],
                middle: ("drop point", Place),
                below_pattern: "proximity",
                below: [("parking bay", Code), ("bakery stop", Firm)],
            },
        ],
        topics: [
            (
                "garden",
                [
                    ("garden tree", Ware),
                    ("garden pump", Device),
                    ("garden helper", Person),
                ],
            ),
            (
                "choir",
                [
                    ("choir hall", Place),
                    ("choir leader", Person),
                    ("choir piece", Title),
                ],
            ),
            (
                "attic",
                [
                    ("attic trunk", Device),
                    ("attic tenant", Person),
                    ("attic paint", Ware),
                ],
            ),
        ],
        verbatim: ["house motto", "alarm phrase"],
        tracked: [
            ("evening serial", Title),
            ("guest lodger", Person),
            ("bread order", Ware),
        ],
        loose: [
            ("cat sitter", Person),
            ("piano tuner", Person),
            ("swimming pass", Code),
            ("holiday cottage", Place),
            ("recycling firm", Firm),
            ("board game", Title),
        ],
    },
    Domain {
        name: "workshop",
        speakers: ["Hjalmar", "Priska", "Lorcan", "Yevka"],
        roots: [
            Root {
                root: ("main lathe", Device),
                pattern: "compatibility",
                leaves: [
                    ("chuck size", Device),
                    ("coolant brand", Ware),
                    ("floor anchor", Device),
                ],
                middle: ("tool carrier", Device),
                below_pattern: "fitting",
                below: [("insert grade", Code), ("torque chart", Title)],
            },
            Root {
                root: ("timber merchant", Firm),
                pattern: "supply",
                leaves: [
                    ("order form", Code),
                    ("invoice clerk", Person),
                    ("stock species", Ware),
                ],
                middle: ("delivery yard", Place),
                below_pattern: "proximity",
                below: [("forklift stand", Place), ("gate password", Code)],
            },
            Root {
                root: ("shop foreman", Person),
                pattern: "assignment",
                leaves: [
                    ("safety officer", Person),
                    ("overtime code", Code),
                    ("toolroom key", Code),
                ],
                middle: ("shift roster", Title),
                below_pattern: "schedule",
                below: [("relief hand", Person), ("canteen corner", Place)],
            },
        ],
        topics: [
            (
                "kiln",
                [
                    ("kiln lining", Ware),
                    ("kiln minder", Person),
                    ("kiln program", Code),
                ],
            ),
            (
                "spray",
                [
                    ("spray booth", Place),
                    ("spray primer", Ware),
                    ("spray nozzle", Device),
                ],
            ),
            (
                "export",
                [
                    ("export broker", Firm),
                    ("export pallet", Code),
                    ("export harbour", Place),
                ],
            ),
        ],
        verbatim: ["shop oath", "warning text"],
        tracked: [
            ("apprentice name", Person),
            ("glue supply", Ware),
            ("radio hour", Title),
        ],
        loose: [
            ("window cleaner", Firm),
            ("first aider", Person),
            ("scrap dealer", Firm),
            ("display model", Title),
            ("locker number", Code),
            ("van plate", Code),
        ],
    },
    Domain {
        name: "expedition",
        speakers: ["Amarante", "Sigbjorn", "Kalinda", "Dov"],
        roots: [
            Root {
                root: ("base camp", Place),
                pattern: "proximity",
                leaves: [
                    ("water source", Place),
                    ("radio mast", Device),
                    ("porter chief", Person),
                ],
                middle: ("fuel cache", Place),
                below_pattern: "custody",
                below: [("cache marker", Code), ("stove part", Device)],
            },
            Root {
                root: ("lead guide", Person),
                pattern: "assignment",
                leaves: [
                    ("rope team", Title),
                    ("whistle signal", Code),
                    ("trail cook", Person),
                ],
                middle: ("ridge route", Title),
                below_pattern: "route",
                below: [("rest ledge", Place), ("anchor bolt", Device)],
            },
            Root {
                root: ("supply ship", Device),
                pattern: "logistics",
                leaves: [
                    ("cargo agent", Firm),
                    ("landing beach", Place),
                    ("crate seal", Code),
                ],
                middle: ("deck officer", Person),
                below_pattern: "assignment",
                below: [("tide table", Title), ("winch driver", Person)],
            },
        ],
        topics: [
            (
                "glacier",
                [
                    ("glacier probe", Device),
                    ("glacier sector", Code),
                    ("glacier scout", Person),
                ],
            ),
            (
                "kitchen",
                [
                    ("kitchen tent", Place),
                    ("kitchen stew", Ware),
                    ("kitchen stove", Device),
                ],
            ),
            (
                "survey",
                [
                    ("survey drone", Device),
                    ("survey sponsor", Firm),
                    ("survey chart", Title),
                ],
            ),
        ],
        verbatim: ["distress call", "camp creed"],
        tracked: [
            ("weather station", Place),
            ("sled dog", Person),
            ("ration pack", Ware),
        ],
        loose: [
            ("photo printer", Firm),
            ("team doctor", Person),
            ("permit number", Code),
            ("songbook title", Title),
            ("flag sewer", Person),
            ("spare sledge", Device),
        ],
    },
];

impl Values {
    /// A value that was not made before: at least one word of it is in no other.
    pub(super) fn make(self, words: &mut Words, draws: &mut Draws) -> String {
        let word = words.new_word(draws);
        match self {
            Self::Person => format!("{} {word}", words.new_word(draws)),
            Self::Place => {
                let kinds = ["Court", "Landing", "Stair", "Hollow", "Quay", "Terrace"];
                format!("{word} {}", draws.pick(&kinds))
            }
            Self::Firm => {
                let kinds = [
                    "Brothers",
                    "Cooperative",
                    "Traders",
                    "and Daughters",
                    "Supply",
                ];
                format!("{word} {}", draws.pick(&kinds))
            }
            Self::Device => format!("{word} {}", 20 + draws.below(970)),
            Self::Code => format!("{}-{}", word.to_uppercase(), 1000 + draws.below(9000)),
            Self::Title => {
                let kinds = [
                    "Ledger", "Winter", "Crossing", "Lantern", "Almanac", "Refrain",
                ];
                format!("The {word} {}", draws.pick(&kinds))
            }
            Self::Ware => {
                let kinds = ["blend", "stock", "mix", "cut", "loaf", "grade"];
                format!("{word} {}", draws.pick(&kinds))
            }
        }
    }
}

/// A phrase that matters word for word.
pub(super) fn phrase(words: &mut Words, draws: &mut Draws) -> String {
    let counts = ["two", "three", "five", "seven", "nine", "eleven"];
    let things = [
        "lantern",
        "bell",
        "copper gate",
        "west stair",
        "long rope",
        "blue barrel",
    ];
    let (one, other) = (words.new_word(draws), words.new_word(draws));
    match draws.below(3) {
        0 => format!(
            "let {one} knock {} times and carry {other} past the {}",
            draws.pick(&counts),
            draws.pick(&things)
        ),
        1 => format!(
            "whoever greets {one} at the {} owes {other} {} coins",
            draws.pick(&things),
            draws.pick(&counts)
        ),
        _ => format!(
            "{} steps from {one} to the {} and never a word to {other}",
            draws.pick(&counts),
            draws.pick(&things)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Evidence is searched for labels, and topics are told from the first word of a label.
    #[test]
    fn no_label_contains_another_and_topics_are_told_apart() {
        for domain in &DOMAINS {
            let mut labels: Vec<&str> = domain.verbatim.to_vec();
            for root in &domain.roots {
                labels.extend([root.root.0, root.middle.0]);
                labels.extend(root.leaves.iter().chain(&root.below).map(|spec| spec.0));
            }
            labels.extend(
                domain
                    .tracked
                    .iter()
                    .chain(&domain.loose)
                    .map(|spec| spec.0),
            );
            for (topic, specs) in &domain.topics {
                assert!(
                    labels.iter().all(|label| !label.starts_with(topic)),
                    "{topic}"
                );
                assert!(specs.iter().all(|spec| spec.0.starts_with(topic)));
            }
            labels.extend(
                domain
                    .topics
                    .iter()
                    .flat_map(|(_, specs)| specs.iter().map(|s| s.0)),
            );
            let distinct: HashSet<&str> = labels.iter().copied().collect();
            assert_eq!(distinct.len(), labels.len());
            for label in &labels {
                let holds = |other: &&&str| **other != *label && label.contains(**other);
                assert_eq!(labels.iter().find(holds), None, "{label}");
                assert!(label.bytes().all(|b| b.is_ascii_lowercase() || b == b' '));
            }
        }
    }
}
