//! Times the two resampling workloads of the Raw-RAG paper and a whole report, and prints one JSON line each:
//! name, seconds (best of twenty), processor seconds over all threads (mean of the twenty), peak
//! resident memory in MB, one interval.
//!
//! `against_numpy.py` in this folder runs this beside vectorised numpy on the same data.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench on data it makes itself"
)]

use std::time::Instant;

use rawrag_statistics::report::{Options, report};
use rawrag_statistics::{
    Contributions, Interval, IntervalMethod, Missing, Outcomes, Population, Replication, Row,
    Scheme, Score, Scores,
};

const SYSTEMS: usize = 7;
const RUNS: u32 = 20;

fn main() {
    stratified();
    episodes();
    whole_report();
}

/// A 0/1 outcome that Python computes alike.
fn outcome(unit: usize, system: usize) -> f64 {
    let mixed = (unit * 7_919 + system * 104_729 + unit * unit * (system + 3) * 31) % 1_009;
    f64::from(u8::from(mixed < 450 + 60 * system))
}

/// 7 systems, 2,071 questions in 14 strata, all 21 contrasts with intervals and sign tests, 50,000
/// paired replicates.
fn stratified() {
    const UNITS: usize = 2_071;
    let mut contributions = Contributions::new(SYSTEMS + 1);
    for unit in 0..UNITS {
        let mut row: Vec<f64> = (0..SYSTEMS).map(|s| outcome(unit, s)).collect();
        row.push(1.0);
        contributions.push(&row).unwrap();
    }
    let strata: Vec<usize> = (0..UNITS).map(|unit| unit * 14 / UNITS).collect();
    let scores = Scores::all_pairs((0..SYSTEMS).map(|s| Score::ratio(s, SYSTEMS)).collect());
    let replication = Replication {
        replicates: 50_000,
        seed: 1,
    };
    measure("stratified", || {
        let scheme = Scheme::UnitsWithinStrata(&strata);
        let population = Population::new(&contributions, scheme).unwrap();
        let report = scores
            .estimate(&population, replication, IntervalMethod::Percentile, 0.95)
            .unwrap();
        report.contrasts[0].interval.unwrap()
    });
}

/// 7 systems on 100 episodes of six tasks, the last three gated by their before-question, 20,000
/// replicates of whole episodes.
fn episodes() {
    const EPISODES: usize = 100;
    const TASKS: usize = 6;
    let mut contributions = Contributions::new(SYSTEMS * TASKS + TASKS);
    for episode in 0..EPISODES {
        let mut row = vec![0.0; SYSTEMS * TASKS + TASKS];
        for task in 0..TASKS {
            let questions = 1 + (episode + task) % 2;
            row[SYSTEMS * TASKS + task] = questions as f64;
            for question in 0..questions {
                let unit = (episode * TASKS + task) * 2 + question;
                for system in 0..SYSTEMS {
                    let gate = if task < 3 {
                        1.0
                    } else {
                        outcome(unit + 5_000, system)
                    };
                    row[system * TASKS + task] += gate * outcome(unit, system);
                }
            }
        }
        contributions.push(&row).unwrap();
    }
    let score = |system: usize| {
        let ratio = |task| (system * TASKS + task, SYSTEMS * TASKS + task);
        Score::macro_average(&(0..TASKS).map(ratio).collect::<Vec<_>>())
    };
    let scores = Scores::all_pairs((0..SYSTEMS).map(score).collect());
    let replication = Replication {
        replicates: 20_000,
        seed: 1,
    };
    measure("episodes", || {
        let population = Population::new(&contributions, Scheme::Units).unwrap();
        let report = scores
            .estimate(&population, replication, IntervalMethod::Percentile, 0.95)
            .unwrap();
        report.contrasts[0].interval.unwrap()
    });
}

/// The whole report on LoCoMo's shape: 10 systems, 1,540 questions in 10 conversations, 45 pairs,
/// 10,000 replicates of each of the three schemes and of the permutation test.
fn whole_report() {
    let keys: Vec<[String; 2]> = (0..1_540)
        .map(|unit| [format!("{unit:04}"), format!("{}", unit / 154)])
        .collect();
    let systems: Vec<String> = (0..10).map(|system| format!("system {system}")).collect();
    let rows = keys.iter().enumerate().flat_map(|(unit, [key, cluster])| {
        systems.iter().enumerate().map(move |(i, system)| Row {
            system,
            unit: key,
            score: Some(outcome(unit, i % SYSTEMS)),
            stratum: None,
            cluster: Some(cluster),
        })
    });
    let outcomes = Outcomes::collect(rows, None, Missing::Refuse).unwrap();
    let options = Options {
        alpha: 0.05,
        replication: Replication {
            replicates: 10_000,
            seed: 1,
        },
        margin: Some(0.05),
        unit: "question".to_owned(),
        cluster: "conversation".to_owned(),
    };
    measure("report", || {
        report(&outcomes, &options).unwrap().pairs[0]
            .interval
            .unwrap()
    });
}

fn measure(name: &str, run: impl Fn() -> Interval) {
    let mut best = f64::INFINITY;
    let mut interval = run();
    let started = cpu_seconds();
    for _ in 0..RUNS {
        let start = Instant::now();
        interval = run();
        best = best.min(start.elapsed().as_secs_f64());
    }
    let line = serde_json::json!({
        "name": name,
        "seconds": best,
        "cpu_seconds": cpu_seconds().zip(started).map(|(now, then)| (now - then) / f64::from(RUNS)),
        "peak_mb": peak_mb(),
        "interval": [interval.lower, interval.upper],
    });
    println!("{line}");
}

/// Peak resident memory of this process, where the system tells.
fn peak_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace()
        .nth(1)?
        .parse::<f64>()
        .ok()
        .map(|kb| kb / 1024.0)
}

/// Processor time of this process so far, where the system tells (in ticks of a hundredth second).
fn cpu_seconds() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Fields after the command's name, which may hold spaces: the 12th and 13th are user and system.
    let (_, fields) = status.rsplit_once(')')?;
    let ticks = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(str::parse::<f64>);
    ticks
        .sum::<Result<f64, _>>()
        .ok()
        .map(|ticks| ticks / 100.0)
}
