//! MemoryAgentBench's scores of `depth` against the aggregate of the scoring crate.

#![expect(
    clippy::unwrap_used,
    reason = "a test whose input cannot be made has failed"
)]

use rawrag_diagnostics::{Input, Outputs, Settings, Value, diagnostic};
use rawrag_records::{Complete, Judgment, JudgmentOutcome};
use rawrag_scoring::aggregate::{
    Capability, Expected, Mark, MemoryAgentBench, Row, Source, memoryagentbench,
};
use rawrag_scoring::judge::Policy;
use rawrag_statistics::Replication;

/// A name of each source in the release, and how many questions it has here; one source has two
/// sizes.
const SOURCES: [(&str, u32); 15] = [
    ("longmemeval_s*", 3),
    ("eventqa_full", 5),
    ("ruler_qa1_197K", 2),
    ("ruler_qa2_421K", 4),
    ("icl_banking77_5900shot_balance", 6),
    ("icl_clinic150_7050shot_balance", 2),
    ("icl_nlu_8296shot_balance", 3),
    ("icl_trec_coarse_6600shot_balance", 4),
    ("icl_trec_fine_6400shot_balance", 2),
    ("recsys_redial_full", 5),
    ("detective_qa", 3),
    ("infbench_sum_eng_shots2", 4),
    ("factconsolidation_sh_6k", 3),
    ("factconsolidation_sh_32k", 4),
    ("factconsolidation_mh_6k", 2),
];

fn judgments(system: u32) -> Vec<Judgment> {
    let questions = SOURCES
        .iter()
        .flat_map(|(source, n)| (0..*n).map(move |at| (*source, at)));
    let judged = |(number, (source, at)): (u32, (&str, u32))| {
        let draw = (number * 7 + system * 5 + number * number * 3) % 10;
        Judgment {
            benchmark: "memoryagentbench".into(),
            source: Some(source.into()),
            conversation: format!("{source}/{}", at % 2),
            question: format!("q{at}"),
            phase: None,
            kind: source.into(),
            repetition: 0,
            judge: "made".into(),
            judge_repetition: 0,
            outcome: match draw {
                0..5 => JudgmentOutcome::Correct,
                9 => JudgmentOutcome::Unparsed,
                _ => JudgmentOutcome::Wrong,
            },
            // Summaries have a score between right and wrong.
            score: source
                .starts_with("infbench")
                .then(|| f64::from(draw) / 10.0),
            reply: None,
            error: None,
            prompt_sha256: None,
        }
    };
    (0..).zip(questions).map(judged).collect()
}

fn run(name: &str, judgments: Vec<Judgment>) -> Outputs {
    let records = Complete {
        judgments,
        ..Complete::default()
    };
    Outputs::made(name, records)
}

fn score(judgments: &[Judgment]) -> MemoryAgentBench {
    let names: Vec<String> = judgments
        .iter()
        .map(|j| j.question_key().to_string())
        .collect();
    let keyed = || judgments.iter().zip(&names);
    let expected: Vec<Expected<'_, Source>> = keyed()
        .map(|(j, name)| Expected {
            key: name,
            group: Source::named(j.source.as_deref().unwrap()).unwrap(),
        })
        .collect();
    let rows = keyed().map(|(j, name)| Row {
        key: name.as_str(),
        repetition: 0,
        outcome: match j.outcome {
            JudgmentOutcome::Correct => Mark::Score(j.score.unwrap_or(1.0)),
            JudgmentOutcome::Wrong => Mark::Score(j.score.unwrap_or(0.0)),
            JudgmentOutcome::Unparsed => Mark::Unparsed,
            JudgmentOutcome::Failed => Mark::Failed,
        },
    });
    memoryagentbench(&expected, rows, 1, Policy::CountWrong).unwrap()
}

fn cell(rows: &[Vec<Value>], run: &str, measure: &str, column: usize) -> Option<f64> {
    let is = |row: &&Vec<Value>| row[0] == Value::from(run) && row[2] == Value::from(measure);
    rows.iter().find(is)?[column].as_f64()
}

/// Value and difference of each score are those of equation 6, and the interval of a difference
/// holds it; a run without one source has no score of that capability, nor of all four.
#[test]
fn capabilities_are_weighed_by_equation_6() {
    let (a, b) = (judgments(0), judgments(1));
    let (scored_a, scored_b) = (score(&a), score(&b));
    let settings = Settings {
        replication: Replication {
            replicates: 500,
            seed: 0,
        },
        ..Settings::default()
    };
    let depth = diagnostic("depth").unwrap();
    let (one, other) = (run("a", a.clone()), run("b", b.clone()));
    let report = depth
        .report(&Input::new(&[&one, &other], settings.clone()))
        .unwrap();
    let table = report
        .tables
        .iter()
        .find(|t| t.name == "ablations")
        .unwrap();
    let at = |name: &str| table.columns.iter().position(|c| c.name == name).unwrap();
    let mut scores = vec![("four capabilities", scored_a.overall, scored_b.overall)];
    scores.extend(Capability::ALL.map(|capability| {
        let of = |score: &MemoryAgentBench| score.capabilities[&capability];
        (capability.name(), of(&scored_a), of(&scored_b))
    }));
    for (measure, of_a, of_b) in scores {
        let (of_a, of_b) = (of_a.unwrap(), of_b.unwrap());
        let shown = |run: &str, column: &str| cell(&table.rows, run, measure, at(column));
        assert!(
            (shown("a", "value").unwrap() - of_a).abs() < 1e-12,
            "{measure}"
        );
        assert!(
            (shown("b", "value").unwrap() - of_b).abs() < 1e-12,
            "{measure}"
        );
        let difference = shown("b", "difference").unwrap();
        assert!((difference - (of_b - of_a)).abs() < 1e-12, "{measure}");
        assert!(
            shown("b", "low").unwrap() <= difference && difference <= shown("b", "high").unwrap()
        );
        assert!(shown("b", "p").is_some() && shown("b", "p, by conversation").is_none());
    }
    let alone = depth
        .report(&Input::new(&[&one], settings.clone()))
        .unwrap();
    let rows = &alone
        .tables
        .iter()
        .find(|t| t.name == "ablations")
        .unwrap()
        .rows;
    let overall = cell(rows, "a", "four capabilities", at("value")).unwrap();
    assert!((overall - scored_a.overall.unwrap()).abs() < 1e-12);
    let without = |judgments: Vec<Judgment>, name: &str| {
        let kept = judgments
            .into_iter()
            .filter(|j| !j.kind.starts_with("detective"));
        run(name, kept.collect())
    };
    let (one, other) = (without(a, "a"), without(b, "b"));
    let report = depth
        .report(&Input::new(&[&one, &other], settings))
        .unwrap();
    let rows = &report
        .tables
        .iter()
        .find(|t| t.name == "ablations")
        .unwrap()
        .rows;
    for (measure, there) in [
        ("four capabilities", false),
        ("long-range understanding", false),
        ("conflict resolution", true),
    ] {
        assert_eq!(
            cell(rows, "b", measure, at("value")).is_some(),
            there,
            "{measure}"
        );
    }
}

/// The shares of the sources are those that the aggregate of the benchmark gives them.
#[test]
fn shares_add_up() {
    let all: f64 = Source::ALL.iter().map(|source| source.share()).sum();
    assert!((all - 1.0).abs() < 1e-15);
}
