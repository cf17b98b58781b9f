//! Synthetic episodes through native systems and oracles, answered by a reader whose errors are
//! known: what the diagnostics estimate is held against what was constructed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use rawrag::corpus::Phase;
use rawrag::corpus::meme::{self, Loaded, StatementKind, Task};
use rawrag::corpus::synthetic::Reader;
use rawrag::diagnostics::{Input, Outputs, Report, Settings, diagnostic};
use rawrag::pipeline::key;
use rawrag::records::Key;
use rawrag::statistics::Replication;
use rawrag_tests::{finish, rawrag};

const PROGRAM: &str = env!("CARGO_BIN_EXE_rawrag-under-test");
const SEED: u64 = 3;
const ERROR_RATE: f64 = 0.25;

/// What is constructed of a question.
struct Truth {
    task: Task,
    after: bool,
    /// The messages that are needed and enough.
    needed: BTreeSet<u32>,
    /// Of these, those that state the values asked for.
    values: BTreeSet<u32>,
    errs: bool,
}

impl Truth {
    /// Whether these messages are enough.
    fn suffices(&self, shown: &BTreeSet<u32>) -> bool {
        self.needed.is_subset(shown)
    }

    /// Whoever lacks what is needed may be right only where nothing is to be known.
    fn may_be_right_without(&self) -> bool {
        self.after && matches!(self.task, Task::Deletion | Task::Absence)
    }

    /// Whether the values can be had and the way to them told apart.
    fn has_path(&self) -> bool {
        self.after && matches!(self.task, Task::Tracking | Task::Cascade)
    }
}

fn truths(data: &Path) -> BTreeMap<Key, Truth> {
    let Loaded { episodes, .. } = meme::load(data).unwrap();
    let reader = Reader::new(SEED, ERROR_RATE).unwrap();
    let mut truths = BTreeMap::new();
    for annotated in &episodes {
        let episode = &annotated.episode;
        for (question, asked) in annotated.entry.questions.iter().zip(&episode.asked) {
            let said = |kinds: &[StatementKind]| {
                let support = episode.support(asked);
                let of = support.iter().filter(|s| kinds.contains(&s.kind));
                of.filter_map(|s| Some(s.message?.0)).collect()
            };
            let values = match asked.task {
                Task::Cascade => said(&[StatementKind::Replacement]),
                _ => said(&[StatementKind::Value, StatementKind::Change]),
            };
            let truth = Truth {
                task: asked.task,
                after: asked.phase == Phase::After,
                needed: question.evidence.messages.iter().map(|m| m.0).collect(),
                values,
                errs: reader.errs(question),
            };
            truths.insert(key(question), truth);
        }
    }
    truths
}

/// Generates the data, runs a native system on it, and gives the folders of both.
fn native(folder: &Path, system: &str, k: u32) -> (std::path::PathBuf, std::path::PathBuf) {
    let (data, run) = (folder.join("data"), folder.join(system));
    if !data.exists() {
        let recipe = folder.join("recipe.toml");
        let text = "seed = 11\n[meme]\nepisodes = 12\ndistractor_tokens = 1500\n";
        fs::write(&recipe, text).unwrap();
        call(&[
            "data",
            "generate",
            text_of(&recipe),
            "--out",
            text_of(&data),
        ]);
    }
    let experiment = folder.join(format!("{system}.toml"));
    fs::write(
        &experiment,
        format!(
            r#"about = "A native system on synthetic episodes."
system = "{system}"
benchmark = "synthetic"
[memory]
system = "{system}"
k = {k}
[evidence]
cutoffs = [1]
[reader]
pattern = {{ seed = {SEED}, error_rate = {ERROR_RATE} }}
[[judges]]
name = "equality"
rule = "benchmark"
[[assessors]]
name = "rule"
rule = "meme"
"#
        ),
    )
    .unwrap();
    let (experiment, data_of) = (text_of(&experiment), text_of(&data));
    call(&["run", experiment, "--data", data_of, "--out", text_of(&run)]);
    (data, run)
}

fn text_of(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn call(arguments: &[&str]) -> String {
    let (code, out, error) = finish(rawrag(PROGRAM, arguments));
    assert_eq!(code, 0, "{arguments:?}\n{out}{error}");
    format!("{out}{error}")
}

fn settings() -> Settings {
    Settings {
        replication: Replication {
            replicates: 500,
            seed: 0,
        },
        ..Settings::default()
    }
}

fn report(name: &str, runs: &[&Outputs]) -> Report {
    let input = Input::new(runs, settings());
    diagnostic(name).unwrap().report(&input).unwrap()
}

fn number(report: &Report, table: usize, row: usize, column: &str) -> f64 {
    let table = &report.tables[table];
    let at = table.columns.iter().position(|c| c.name == column).unwrap();
    table.rows[row][at].as_f64().unwrap()
}

fn near(estimate: f64, truth: f64) {
    assert!((estimate - truth).abs() < 1e-9, "{estimate} is not {truth}");
}

/// The messages that a run shows for each question.
fn shown(run: &Outputs) -> BTreeMap<Key, BTreeSet<u32>> {
    let of = |question: &rawrag::diagnostics::QuestionRecords| {
        let items = question.evidence.iter();
        let messages = items.flat_map(|item| item.messages.iter().flatten().copied());
        (question.key.clone(), messages.collect())
    };
    run.questions.iter().map(of).collect()
}

#[test]
fn coverage_utilization_and_paths_are_those_constructed() {
    let folder = tempfile::tempdir().unwrap();
    let (data, run) = native(folder.path(), "recency", 40);
    let (truths, run) = (truths(&data), Outputs::read(&run).unwrap());
    let shown = shown(&run);
    let n = truths.len() as f64;
    let sufficient: Vec<(&Key, &Truth)> = truths
        .iter()
        .filter(|(key, truth)| truth.suffices(&shown[*key]))
        .collect();
    assert!(!sufficient.is_empty() && sufficient.len() < truths.len());

    let made = report("coverage", &[&run]);
    near(number(&made, 0, 0, "coverage"), sufficient.len() as f64 / n);
    let used = sufficient.iter().filter(|(_, truth)| !truth.errs).count() as f64;
    near(
        number(&made, 0, 0, "utilization"),
        used / sufficient.len() as f64,
    );
    // What insufficient questions add is what is right for want of the old value.
    let others = truths
        .iter()
        .filter(|(key, truth)| !truth.suffices(&shown[*key]));
    let most = others
        .filter(|(_, truth)| truth.may_be_right_without() && !truth.errs)
        .count() as f64;
    let others = number(&made, 0, 0, "from others");
    assert!(others > 0.0 && others <= most / n + 1e-9, "{others}");
    near(number(&made, 0, 0, "from sufficient"), used / n);

    let made = report("path", &[&run]);
    let told: Vec<(&Key, &Truth)> = truths.iter().filter(|(_, t)| t.has_path()).collect();
    let result = |(key, truth): &&(&Key, &Truth)| truth.values.is_subset(&shown[*key]);
    let results = told.iter().filter(result).count() as f64;
    let paths = told
        .iter()
        .filter(|(key, truth)| truth.suffices(&shown[*key]));
    let paths = paths.count() as f64;
    assert!(0.0 < paths && paths < results, "{paths} of {results}");
    near(number(&made, 0, 0, "questions"), told.len() as f64);
    near(number(&made, 0, 0, "result"), results / told.len() as f64);
    near(number(&made, 0, 0, "path given result"), paths / results);
    let kinds = made.tables[1].rows.iter();
    let kinds: Vec<[String; 2]> = kinds
        .map(|row| [1, 2].map(|at| row[at].written()))
        .collect();
    assert_eq!(kinds, [["Cas", "1"], ["Cas", "2"], ["Tr", ""]]);
}

#[test]
fn oracle_gaps_are_those_constructed_and_unchanged_evidence_is_not_answered_again() {
    let folder = tempfile::tempdir().unwrap();
    let (data, native_folder) = native(folder.path(), "recency", 40);
    let truths = truths(&data);
    let derive = |name: &str, arguments: &[&str]| {
        let out = folder.path().join(name);
        let first = ["oracle", text_of(&native_folder), "--out", text_of(&out)];
        let said = call(&[&first[..], arguments].concat());
        (Outputs::read(&out).unwrap(), said, out)
    };
    let bare = ["--policy", "none"];
    let (source, _, _) = derive("source", &[&["--store", "source"][..], &bare].concat());
    let whole = ["--budget", "none"];
    let (complete, _, complete_folder) = derive("complete", &[&whole[..], &bare].concat());
    let (raw, _, _) = derive("raw", &["--store", "raw"]);
    let native = Outputs::read(&native_folder).unwrap();

    // The annotated sessions hold everything that is needed, so only the reader's errors are left.
    let made = report("coverage", &[&source]);
    near(number(&made, 0, 0, "coverage"), 1.0);
    let used = truths.values().filter(|truth| !truth.errs).count() as f64;
    near(
        number(&made, 0, 0, "utilization"),
        used / truths.len() as f64,
    );
    let right = |key: &Key| truths.get(key).is_some_and(|truth| !truth.errs);
    let mut by_task: BTreeMap<Task, (f64, f64)> = BTreeMap::new();
    for (key, truth) in truths.iter().filter(|(_, truth)| truth.after) {
        let before = Key {
            phase: Some(rawrag::records::Phase::Before),
            ..key.clone()
        };
        let earns = right(key) && (!truth.task.gated() || right(&before));
        let of = by_task.entry(truth.task).or_default();
        of.0 += f64::from(u8::from(earns));
        of.1 += 1.0;
    }
    let truth = by_task.values().map(|(earned, n)| earned / n).sum::<f64>() / 6.0;
    let made = report("oracle", &[&native, &complete, &raw, &source]);
    let overall = |row| number(&made, 0, row, "overall");
    near(overall(3), truth);
    // Knowing what is asked for, everything stored gives as much as the annotated sessions or less,
    // and more than the last messages alone.
    assert!(overall(0) < overall(1) && overall(1) <= truth + 1e-9);
    assert!(overall(2) <= truth + 1e-9);
    let contrasts: Vec<String> = made.tables[1]
        .rows
        .iter()
        .map(|row| row[0].written())
        .collect();
    assert_eq!(contrasts, ["C - N", "R - C", "S - R"]);
    near(number(&made, 1, 0, "difference"), overall(1) - overall(0));
    near(number(&made, 1, 2, "difference"), truth - overall(2));

    // Nothing that the question may not use is in any evidence.
    for run in [&complete, &raw, &source] {
        for question in run.questions.iter().filter(|q| q.evidence.len() > 1) {
            let last = native
                .questions
                .iter()
                .find(|q| q.key == question.key)
                .unwrap();
            let visible = last
                .evidence
                .iter()
                .filter_map(|item| item.sessions.clone());
            let visible = visible.flatten().max().unwrap();
            let mut sessions = question
                .evidence
                .iter()
                .filter_map(|item| item.sessions.clone());
            assert!(sessions.all(|of| of.iter().all(|&session| session <= visible)));
        }
    }

    // Under a budget that leaves everything as it is, nothing is answered again.
    let large = ["--budget", "1000000", "--policy", "none", "--reuse"];
    let reused = [&large[..], &[text_of(&complete_folder)]].concat();
    let (capped, said, _) = derive("capped", &reused);
    let all = format!("{} questions have the evidence", truths.len());
    assert!(said.contains(&all), "{said}");
    let made = report("oracle", &[&complete, &capped]);
    assert_eq!(number(&made, 1, 0, "affected"), 0.0);
    near(number(&made, 1, 0, "difference"), 0.0);
    // Under a tight one it is, and says of how much.
    let tight = ["--budget", "60", "--policy", "none", "--reuse"];
    let reused = [&tight[..], &[text_of(&complete_folder)]].concat();
    let (capped, _, _) = derive("tight", &reused);
    let made = report("oracle", &[&complete, &capped]);
    let affected = number(&made, 1, 0, "affected");
    let differs = complete
        .questions
        .iter()
        .zip(&capped.questions)
        .filter(|(a, b)| {
            let texts = |q: &rawrag::diagnostics::QuestionRecords| {
                let items = q.evidence.iter();
                items.map(|item| item.text.clone()).collect::<Vec<_>>()
            };
            texts(a) != texts(b)
        });
    near(affected, differs.count() as f64);
    assert!(affected > 0.0);
    assert!(number(&made, 1, 0, "dropped") > 0.5);
    let tokens = |q: &rawrag::diagnostics::QuestionRecords| {
        q.evidence.iter().map(|item| item.tokens).sum::<u32>()
    };
    assert!(
        capped
            .questions
            .iter()
            .all(|question| tokens(question) <= 60)
    );
}

#[test]
fn a_store_that_is_not_on_record_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (_, run) = native(folder.path(), "abstain", 1);
    fs::remove_file(run.join("exports.jsonl")).unwrap();
    let out = folder.path().join("out");
    let oracle = ["oracle", text_of(&run), "--out", text_of(&out)];
    let (code, _, error) = finish(rawrag(PROGRAM, &oracle));
    assert_eq!(code, 3);
    assert!(error.contains("has no exports"), "{error}");
    let budget = [&oracle[..], &["--budget", "0"]].concat();
    let (code, _, error) = finish(rawrag(PROGRAM, &budget));
    assert_eq!(code, 2);
    assert!(error.contains("at least 1, or none"), "{error}");
}
