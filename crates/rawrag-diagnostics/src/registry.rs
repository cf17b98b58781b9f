use rawrag_records::RecordError;
use rawrag_scoring::judge::Policy;
use rawrag_statistics::{FamilyError, Replication, ResamplingError};

use crate::{
    Outputs, Report, Shown, cost, coverage, depth, evidence, failure, length, mutation, nano,
    oracle, path, ranking, selection,
};

/// Every diagnostic.
pub const DIAGNOSTICS: &[Diagnostic] = &[
    coverage::COVERAGE,
    path::PATH,
    oracle::ORACLE,
    mutation::MUTATION,
    evidence::EVIDENCE,
    failure::FAILURE,
    depth::DEPTH,
    nano::NANO,
    ranking::RANKING,
    selection::SELECTION,
    cost::COST,
    length::LENGTH,
];

/// A named analysis of the records of runs.
#[derive(Debug)]
pub struct Diagnostic {
    /// Its name on the command line.
    pub name: &'static str,
    /// The question it answers.
    pub about: &'static str,
    /// Where it is defined: paper and section, or `rawrag` for our own.
    pub source: &'static str,
    /// The records that it cannot do without.
    pub needs: &'static [Need],
    /// The analysis.
    pub analyse: fn(&Input<'_>) -> Result<Report, DiagnosticError>,
}

/// A kind of record that a diagnostic needs of every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the kinds of records")]
pub enum Need {
    Retrievals,
    Searches,
    Evidence,
    /// Evidence with its text.
    EvidenceText,
    Exports,
    Decisions,
    Ingestions,
    Answers,
    Judgments,
    Assessments,
    Usage,
}

/// What a diagnostic works on.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    /// The runs, in the order in which they were named.
    pub runs: Vec<&'a Outputs>,
    /// How it works.
    pub settings: Settings,
}

/// Choices that every diagnostic understands alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The judge whose grades count, where runs have several.
    pub judge: Option<String>,
    /// The assessor whose assessments count, where runs have several.
    pub assessor: Option<String>,
    /// How many items are looked at; without one, those at which a run counted its evidence.
    pub depth: Option<usize>,
    /// Questions whose gold answer is known to be wrong.
    pub errata: crate::Errata,
    /// What services charge.
    pub prices: Option<crate::prices::Prices>,
    /// What unparsed and failed judgments and assessments count for.
    pub ungraded: Policy,
    /// Resamples and their seed.
    pub replication: Replication,
    /// Confidence of intervals, between 0 and 1.
    pub confidence: f64,
}

/// Why an analysis cannot be made of these records.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiagnosticError {
    /// Records are missing.
    #[error("{diagnostic} needs {need} of {run}, which are not on record")]
    Missing {
        /// The diagnostic.
        diagnostic: &'static str,
        /// The records.
        need: &'static str,
        /// The run.
        run: String,
    },
    /// Not as many runs as it takes.
    #[error("{diagnostic} takes {takes}, and {given} were named")]
    Runs {
        /// The diagnostic.
        diagnostic: &'static str,
        /// How many it takes, in words.
        takes: &'static str,
        /// How many were named.
        given: usize,
    },
    /// Runs that cannot be compared.
    #[error("{a} and {b} cannot be compared: {problem}")]
    Incomparable {
        /// One run.
        a: String,
        /// The other.
        b: String,
        /// What differs.
        problem: String,
    },
    /// More items are to be looked at than a run asked for.
    #[error("{run} asked for {requested} items, so nothing can be said of {depth}")]
    Depth {
        /// The run.
        run: String,
        /// The depth asked for.
        depth: usize,
        /// What the run asked for.
        requested: usize,
    },
    /// Several judges or assessors, and none was named.
    #[error("{run} has several {what}s ({}): name one with --{what}", names.join(", "))]
    Ambiguous {
        /// The run.
        run: String,
        /// `judge` or `assessor`.
        what: &'static str,
        /// Those there are.
        names: Vec<String>,
    },
    /// A judge or assessor that a run does not have.
    #[error("{run} has no {what} {name}; it has {}", names.join(", "))]
    NoSuch {
        /// The run.
        run: String,
        /// `judge` or `assessor`.
        what: &'static str,
        /// As named.
        name: String,
        /// Those there are.
        names: Vec<String>,
    },
    /// Records that contradict each other or the diagnostic's rules.
    #[error("{run}: {key}: {problem}")]
    Contradiction {
        /// The run.
        run: String,
        /// The question or conversation.
        key: String,
        /// What is wrong.
        problem: String,
    },
    /// A run cannot be read.
    #[error(transparent)]
    Records(#[from] RecordError),
    /// A statistic cannot be computed.
    #[error("{0}")]
    Statistic(String),
    /// Questions cannot be resampled.
    #[error(transparent)]
    Resampling(#[from] ResamplingError),
    /// Tests make no family.
    #[error(transparent)]
    Family(#[from] FamilyError),
}

/// A name that no diagnostic has.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("no diagnostic is called `{0}`; there are {list}", list = names())]
pub struct UnknownDiagnostic(pub String);

/// The diagnostic of a name.
///
/// # Errors
/// [`UnknownDiagnostic`] lists those there are.
pub fn diagnostic(name: &str) -> Result<&'static Diagnostic, UnknownDiagnostic> {
    let found = DIAGNOSTICS
        .iter()
        .find(|diagnostic| diagnostic.name == name);
    found.ok_or_else(|| UnknownDiagnostic(name.to_owned()))
}

fn names() -> String {
    let names: Vec<&str> = DIAGNOSTICS.iter().map(|d| d.name).collect();
    names.join(", ")
}

impl Diagnostic {
    /// Checks that every run has the records it needs, and analyses them.
    ///
    /// # Errors
    /// [`DiagnosticError`].
    pub fn report(&self, input: &Input<'_>) -> Result<Report, DiagnosticError> {
        for run in &input.runs {
            if let Some(need) = self.missing(run).first() {
                return Err(DiagnosticError::Missing {
                    diagnostic: self.name,
                    need: need.name(),
                    run: run.manifest.name.clone(),
                });
            }
        }
        if let Some(depth) = input.settings.depth {
            for run in &input.runs {
                let asked = run.questions.iter().filter_map(Shown::before_selection);
                if let Some(requested) = asked.map(|shown| shown.requested).min()
                    && requested < depth
                {
                    return Err(DiagnosticError::Depth {
                        run: run.manifest.name.clone(),
                        depth,
                        requested,
                    });
                }
            }
        }
        (self.analyse)(input)
    }

    /// What it needs that a run does not have.
    pub fn missing(&self, run: &Outputs) -> Vec<Need> {
        let needs = self.needs.iter().copied();
        needs.filter(|need| !need.is_met_by(run)).collect()
    }
}

impl Need {
    /// What it is called, for a message.
    pub fn name(self) -> &'static str {
        match self {
            Self::Retrievals => "retrievals",
            Self::Searches => "searches",
            Self::Evidence => "evidence",
            Self::EvidenceText => "evidence with its text",
            Self::Exports => "exports",
            Self::Decisions => "decisions",
            Self::Ingestions => "ingestions",
            Self::Answers => "answers",
            Self::Judgments => "judgments",
            Self::Assessments => "assessments",
            Self::Usage => "usage",
        }
    }

    /// Whether any question of a run has such a record.
    pub fn is_met_by(self, run: &Outputs) -> bool {
        let any = |has: fn(&crate::QuestionRecords) -> bool| run.questions.iter().any(has);
        match self {
            Self::Retrievals => any(|q| q.retrieval.is_some()),
            Self::Searches => any(|q| q.search.is_some()),
            Self::Evidence => any(|q| !q.evidence.is_empty()),
            Self::EvidenceText => any(|q| q.evidence.iter().any(|item| item.text.is_some())),
            Self::Exports => !run.exports.is_empty(),
            Self::Decisions => !run.decisions.is_empty(),
            Self::Ingestions => !run.ingestions.is_empty(),
            Self::Answers => any(|q| !q.answers.is_empty()),
            Self::Judgments => any(|q| !q.judgments.is_empty()),
            Self::Assessments => any(|q| !q.assessments.is_empty()),
            Self::Usage => !run.usage.is_empty(),
        }
    }
}

impl<'a> Input<'a> {
    /// The runs' names.
    pub fn names(&self) -> Vec<&'a str> {
        let runs = self.runs.iter();
        runs.map(|run| run.manifest.name.as_str()).collect()
    }

    /// Runs to analyse.
    pub fn new(runs: &[&'a Outputs], settings: Settings) -> Self {
        Self {
            runs: runs.to_vec(),
            settings,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            judge: None,
            assessor: None,
            depth: None,
            errata: crate::Errata::default(),
            prices: None,
            ungraded: Policy::CountWrong,
            replication: Replication {
                replicates: 20_000,
                seed: 0,
            },
            confidence: 0.95,
        }
    }
}
