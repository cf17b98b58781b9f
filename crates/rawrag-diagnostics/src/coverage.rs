//! Coverage and utilization (Raw-RAG, C.1, equation 4; Tables 7, 8 and 25 to 28).
//!
//! With C 1 where a question's evidence suffices and else 0, and Y what its answers earned:
//! - *coverage* is the mean of C;
//! - *utilization* is the sum of C Y over the sum of C: undefined where nothing suffices;
//! - accuracy is what sufficient questions add to it, the sum of C Y over their number, and what
//!   the others add, the sum of (1 - C) Y. These two add up to it exactly.
//!
//! Questions weigh alike. Answers count as they were graded, without MEME's gate. A question counts
//! where both C and Y are known in every run, so that all runs are held against the same questions.

use rawrag_records::Phase;
use rawrag_scoring::judge::Policy;
use rawrag_statistics::{Contributions, Score};

use crate::contrasts::{OMNIBUS, PAIRS, Sampling, Test, compare, estimate, with_interval};
use crate::questions::{Aspect, Outcomes, assessed, assessor, judge, score, side_by_side};
use crate::report::{RUN_COLUMN, table};
use crate::{Column, Diagnostic, DiagnosticError, Input, Need, Report, Unit, Value};

pub(crate) const COVERAGE: Diagnostic = Diagnostic {
    name: NAME,
    about: "How often evidence suffices, and how often an answer is right where it does",
    source: "Raw-RAG, C.1, equation 4",
    needs: &[Need::Judgments, Need::Assessments],
    analyse,
};

const NAME: &str = "coverage";

fn analyse(input: &Input<'_>) -> Result<Report, DiagnosticError> {
    let settings = &input.settings;
    let mut notes = Vec::new();
    let side = side_by_side(&input.runs)?;
    let mut measured = Vec::new();
    for (run, questions) in input.runs.iter().zip(&side.runs) {
        let (judge, assessor) = (judge(NAME, run, settings)?, assessor(NAME, run, settings)?);
        notes.push(format!(
            "{}: graded by {judge}, assessed by {assessor}.",
            run.manifest.name
        ));
        measured.push(Measured::of(questions, judge, assessor, settings.ungraded));
    }
    let each: Vec<&[Option<Each>]> = measured.iter().map(|run| run.each.as_slice()).collect();
    let counted = side.counted(&each);
    let (keys, runs) = (&counted.keys, &counted.runs);
    if keys.len() < side.keys.len() {
        notes.push(format!(
            "{} of {} questions are left out of every run, since in one of them they have no grade \
             or no assessment of sufficiency that counts.",
            side.keys.len() - keys.len(),
            side.keys.len()
        ));
    }
    notes.push(
        match settings.ungraded {
            Policy::CountWrong => {
                "Unparsed and failed grades and assessments score 0, as in the paper."
            }
            Policy::Exclude => "Unparsed and failed grades and assessments are left out.",
        }
        .to_owned(),
    );
    let names = input.names();
    let groups = counted.grouped(|at| {
        let question = side.runs.first().and_then(|questions| questions.get(at));
        question.map(|q| (q.key.source.clone(), q.kind.clone(), q.key.phase))
    });

    let mut systems = Vec::new();
    let (mut pairs, mut omnibus) = (Vec::new(), Vec::new());
    if !keys.is_empty() {
        let sampling = Sampling::of(keys);
        notes.push(sampling.note(settings));
        if let Sampling::QuestionsWithinSources(_) = &sampling {
            notes.push(
                "As in the paper, questions about one context are taken as independent.".to_owned(),
            );
        }
        let contributions = contributions(runs)?;
        let coverage = (0..runs.len()).map(|run| Score::ratio(1 + 2 * run, 0));
        let coverage = estimate(&contributions, &sampling, coverage.collect(), settings)?;
        let utilization = (0..runs.len()).map(|run| Score::ratio(2 + 2 * run, 1 + 2 * run));
        let utilization = estimate(&contributions, &sampling, utilization.collect(), settings)?;
        for (at, run) in runs.iter().enumerate() {
            let of = Parts::of(run);
            let (c, u) = (&coverage.scores[at], &utilization.scores[at]);
            let (judged, assessed) = (measured[at].judgments, measured[at].assessments);
            let mut row = vec![names[at].into(), of.questions.into(), of.sufficient.into()];
            row.extend(with_interval(c.value, c.interval));
            row.extend(match of.sufficient {
                0 => [(); 3].map(|()| Value::Absent(NOTHING_SUFFICES.to_owned())),
                _ => with_interval(u.value, u.interval),
            });
            row.extend(of.contributions());
            row.extend(
                [
                    judged.unparsed,
                    judged.failed,
                    assessed.unparsed,
                    assessed.failed,
                ]
                .map(Value::Count),
            );
            systems.push(row);
            if u.undefined_replicates > 0 && of.sufficient > 0 {
                notes.push(format!(
                    "{}: in {} resamples nothing suffices; the interval of utilization is of the \
                     others.",
                    names[at], u.undefined_replicates
                ));
            }
        }
        let zero_one = |run: &Vec<Each>| run.iter().map(|each| each.sufficient).collect();
        let zero_one: Vec<Vec<f64>> = runs.iter().map(zero_one).collect();
        let test = match sampling.one_by_one() {
            true => Test::Exact(&zero_one),
            false => Test::Bootstrap,
        };
        for (metric, report, test) in [
            ("coverage", &coverage, test),
            ("utilization", &utilization, Test::Bootstrap),
        ] {
            let compared = compare(metric, &names, report, &test)?;
            pairs.extend(compared.pairs);
            omnibus.extend(compared.omnibus);
        }
    }

    let mut kinds = Vec::new();
    for (run, name) in runs.iter().zip(&names) {
        for (group, at) in &groups {
            let Some((source, kind, phase)) = group else {
                continue;
            };
            let of: Vec<Each> = at.iter().filter_map(|&at| run.get(at).copied()).collect();
            let of = Parts::of(&of);
            let mut row = vec![
                (*name).into(),
                source.clone().unwrap_or_default().into(),
                kind.clone().into(),
                phase_name(*phase).into(),
                of.questions.into(),
                of.sufficient.into(),
                Value::rate(of.sufficient, of.questions, "questions"),
                of.utilization(),
            ];
            row.extend(of.contributions());
            kinds.push(row);
        }
    }
    let tables = vec![
        table("systems", "one run", &SYSTEMS, systems),
        table("kinds", "one kind of question of one run", &KINDS, kinds),
        table(
            "omnibus",
            "one metric, all runs together",
            &OMNIBUS,
            omnibus,
        ),
        table("pairs", "one pair of runs under one metric", &PAIRS, pairs),
    ];
    Ok(Report { tables, notes })
}

/// `before`, `after` or nothing.
fn phase_name(phase: Option<Phase>) -> &'static str {
    match phase {
        Some(Phase::Before) => "before",
        Some(Phase::After) => "after",
        None => "",
    }
}

/// C and Y of one question.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Each {
    /// 0 or 1.
    sufficient: f64,
    /// 0 to 1.
    earned: f64,
}

/// A run's questions, `None` for one that does not count in it.
struct Measured {
    each: Vec<Option<Each>>,
    judgments: Outcomes,
    assessments: Outcomes,
}

impl Measured {
    fn of(
        questions: &[&crate::QuestionRecords],
        judge: &str,
        assessor: &str,
        policy: Policy,
    ) -> Self {
        let mut measured = Self {
            each: Vec::new(),
            judgments: Outcomes::default(),
            assessments: Outcomes::default(),
        };
        for question in questions {
            let earned = score(question, judge, policy);
            let suffices = assessed(question, assessor, Aspect::Sufficient, policy);
            measured.judgments += earned.outcomes;
            measured.assessments += suffices.outcomes;
            let both = suffices.value.zip(earned.value);
            measured
                .each
                .push(both.map(|(sufficient, earned)| Each { sufficient, earned }));
        }
        measured
    }
}

/// Columns: 1, then C and C Y of each run.
fn contributions(runs: &[Vec<Each>]) -> Result<Contributions, DiagnosticError> {
    let mut contributions = Contributions::new(1 + 2 * runs.len());
    for at in 0..runs.first().map_or(0, Vec::len) {
        let mut row = vec![1.0];
        for each in runs.iter().filter_map(|run| run.get(at)) {
            row.extend([each.sufficient, each.sufficient * each.earned]);
        }
        contributions.push(&row)?;
    }
    Ok(contributions)
}

/// Sums over questions.
struct Parts {
    questions: u64,
    sufficient: u64,
    /// Sums of C Y and of (1 - C) Y.
    earned: f64,
    else_earned: f64,
}

impl Parts {
    fn of(questions: &[Each]) -> Self {
        let sum = |suffices: bool| {
            let of = questions
                .iter()
                .filter(|q| (q.sufficient > 0.5) == suffices);
            let mut earned: Vec<f64> = of.map(|q| q.earned).collect();
            earned.sort_by(f64::total_cmp);
            earned.iter().sum()
        };
        Self {
            questions: questions.len() as u64,
            sufficient: questions.iter().filter(|q| q.sufficient > 0.5).count() as u64,
            earned: sum(true),
            else_earned: sum(false),
        }
    }

    fn utilization(&self) -> Value {
        match self.sufficient {
            0 => Value::Absent(NOTHING_SUFFICES.to_owned()),
            n => Value::Number(self.earned / n as f64),
        }
    }

    /// From sufficient questions, from the others, and their sum.
    fn contributions(&self) -> [Value; 3] {
        match self.questions {
            0 => [(); 3].map(|()| Value::Absent("no questions".to_owned())),
            n => {
                let (with, without) = (self.earned / n as f64, self.else_earned / n as f64);
                [with, without, with + without].map(Value::Number)
            }
        }
    }
}

const NOTHING_SUFFICES: &str = "no question's evidence suffices";

const SYSTEMS: [Column; 16] = [
    RUN_COLUMN,
    Column::new(
        "questions",
        Unit::Count,
        "questions that count in every run",
    ),
    Column::new("sufficient", Unit::Count, "those whose evidence suffices"),
    Column::new("coverage", Unit::Rate, "their share"),
    Column::new("coverage low", Unit::Rate, "lower end of its interval"),
    Column::new("coverage high", Unit::Rate, "upper end"),
    Column::new(
        "utilization",
        Unit::Rate,
        "accuracy where the evidence suffices",
    ),
    Column::new("utilization low", Unit::Rate, "lower end of its interval"),
    Column::new("utilization high", Unit::Rate, "upper end"),
    Column::new(
        "from sufficient",
        Unit::Rate,
        "what sufficient questions add to accuracy: coverage times utilization",
    ),
    Column::new("from others", Unit::Rate, "what the other questions add"),
    Column::new(
        "accuracy",
        Unit::Rate,
        "the sum of the two: the mean of what answers earned, questions alike",
    ),
    Column::new(
        "grades unparsed",
        Unit::Count,
        "grades that could not be read",
    ),
    Column::new(
        "grades failed",
        Unit::Count,
        "grades that there are none of",
    ),
    Column::new(
        "assessments unparsed",
        Unit::Count,
        "assessments that could not be read",
    ),
    Column::new(
        "assessments failed",
        Unit::Count,
        "assessments that there are none of",
    ),
];

const KINDS: [Column; 11] = [
    RUN_COLUMN,
    Column::new("source", Unit::Text, "source inside the benchmark"),
    Column::new("kind", Unit::Text, "the benchmark's type of question"),
    Column::new("phase", Unit::Text, "before or after the change"),
    Column::new(
        "questions",
        Unit::Count,
        "questions that count in every run",
    ),
    Column::new("sufficient", Unit::Count, "those whose evidence suffices"),
    Column::new("coverage", Unit::Rate, "their share"),
    Column::new(
        "utilization",
        Unit::Rate,
        "accuracy where the evidence suffices",
    ),
    Column::new(
        "from sufficient",
        Unit::Rate,
        "what sufficient questions add to accuracy",
    ),
    Column::new("from others", Unit::Rate, "what the other questions add"),
    Column::new("accuracy", Unit::Rate, "the sum of the two"),
];
