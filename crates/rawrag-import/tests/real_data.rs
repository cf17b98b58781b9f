//! Every published result file at hand: its report in counts, its labels against a table of them
//! made with other code, and the numbers that its authors state.
//!
//! The files are read from `RAWRAG_SHARED`, else from `../shared` beside the workspace.

#![expect(
    clippy::unwrap_used,
    reason = "a test whose input cannot be read has failed"
)]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use rawrag_import::{Imported, Job, import};
use rawrag_records::{Judgment, JudgmentOutcome};

const BASELINES: &str = "locomo/results/mirix/baselines/mem0/evaluation/eval_results";
const FULL_CONTEXT: &str = "locomo/results/dial481-full-context/results";

/// Where the shared files are; says so and gives nothing where they are not.
#[expect(clippy::print_stdout, reason = "a test that is skipped says why")]
fn shared() -> Option<PathBuf> {
    let folder = std::env::var_os("RAWRAG_SHARED").map(PathBuf::from);
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let data = folder.unwrap_or_else(beside).join("data");
    if data.join("locomo/results").exists() {
        return Some(data);
    }
    println!(
        "skipped: {} holds no published results; set RAWRAG_SHARED",
        data.display()
    );
    None
}

/// Files by the name of the run that they become, with the column of labels they should give.
fn locomo() -> Vec<(&'static str, Vec<String>, Option<&'static str>)> {
    let baseline = |name: &str| vec![format!("{BASELINES}/{name}.json")];
    let memobase = |name: &str| {
        vec![format!(
            "locomo/results/memobase/memobase/memobase_eval_{name}.json"
        )]
    };
    let full = |name: &str| vec![format!("{FULL_CONTEXT}/{name}/eval_results.json")];
    let mirix = |run: u32| {
        format!("locomo/results/mirix/evaluation_metrics/evaluation_metrics_run{run}.json")
    };
    let zep =
        |part: &str| format!("locomo/results/zep-papers/locomo_eval/data/zep_locomo_{part}.json");
    let evermemos = "locomo/results/evermemos/locomo_evaluation_event_log/judged.json";
    vec![
        ("memobase-0503", memobase("0503_3000"), None),
        (
            "memobase-0710",
            memobase("0710_3000"),
            Some("memobase_0710"),
        ),
        ("mirix-1", vec![mirix(1)], None),
        ("mirix-2", vec![mirix(2)], Some("mirix_run2")),
        ("mirix-3", vec![mirix(3)], None),
        (
            "mirix-langmem",
            baseline("langmem_results"),
            Some("mirix_langmem"),
        ),
        (
            "mirix-mem0",
            baseline("mem0_results_top_30_filter_False_graph_False"),
            Some("mirix_mem0_top30"),
        ),
        (
            "mirix-rag-500",
            baseline("rag_results_500_k1"),
            Some("mirix_rag500_k1"),
        ),
        (
            "mirix-full-context",
            baseline("rag_results_-1_k1"),
            Some("mirix_fullcontext"),
        ),
        (
            "mirix-zep",
            baseline("zep_search_results"),
            Some("mirix_zep"),
        ),
        (
            "zep",
            vec![zep("grades"), zep("responses")],
            Some("zep_official"),
        ),
        (
            "evermemos",
            vec![evermemos.to_owned()],
            Some("evermemos_2025-10"),
        ),
        (
            "full-context-gpt-4o-mini-memos",
            full("gpt-4o-mini-memos"),
            None,
        ),
        (
            "full-context-gpt-4o-mini-cot",
            full("gpt-4o-mini-cot"),
            None,
        ),
        (
            "full-context-gpt-4.1-mini-memos",
            full("gpt-4.1-mini-memos"),
            None,
        ),
        (
            "full-context-gpt-4.1-mini-cot",
            full("gpt-4.1-mini-cot"),
            Some("fc_gpt-4.1-mini-cot"),
        ),
    ]
}

fn imported(
    data: &Path,
    files: &[String],
    benchmark: Option<&str>,
) -> (tempfile::TempDir, Imported) {
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<PathBuf> = files.iter().map(|file| data.join(file)).collect();
    let benchmark = benchmark.map(|file| data.join(file));
    let exclude = benchmark
        .iter()
        .map(|_| "adversarial".to_owned())
        .collect::<Vec<_>>();
    let imported = import(&Job {
        files: &files,
        format: None,
        benchmark_file: benchmark.as_deref(),
        system: "published",
        folder: &folder.path().join("run"),
        text: true,
        exclude: &exclude,
    })
    .unwrap();
    (folder, imported)
}

/// The report without places, which may hold text.
fn counts(imported: &Imported) -> String {
    let report = &imported.report;
    let mut text = format!(
        "{}: {} rows, {} joined, {} questions, {} excluded, {} missing; answers {:?}; judgments {:?}\n",
        report.format,
        report.rows,
        report.joined,
        report.questions,
        report.excluded,
        report
            .missing
            .values()
            .map(|missing| missing.count)
            .sum::<usize>(),
        report.answers,
        report.judgments,
    );
    for (oddity, findings) in &report.oddities {
        writeln!(text, "  {} {oddity:?}", findings.count).unwrap();
    }
    text
}

/// Whether most of each question's judgments are correct, and the judgments that say otherwise
/// than the first.
fn labels(imported: &Imported) -> (BTreeMap<String, bool>, usize) {
    let judgments: Vec<Judgment> = imported.run.read().unwrap();
    let mut votes: BTreeMap<String, Vec<bool>> = BTreeMap::new();
    for judgment in judgments {
        let correct = judgment.outcome == JudgmentOutcome::Correct;
        votes.entry(judgment.question).or_default().push(correct);
    }
    let most = |votes: &Vec<bool>| 2 * votes.iter().filter(|&&vote| vote).count() > votes.len();
    let torn = votes
        .values()
        .filter(|votes| votes[0] != most(votes))
        .count();
    (
        votes
            .iter()
            .map(|(question, votes)| (question.clone(), most(votes)))
            .collect(),
        torn,
    )
}

#[test]
fn every_file_is_read_and_its_labels_are_those_of_the_table() {
    let Some(data) = shared() else { return };
    let table = data.join("locomo/labels_10_systems.csv");
    let mut reader = csv::Reader::from_path(table).unwrap();
    let head: Vec<String> = reader
        .headers()
        .unwrap()
        .iter()
        .map(str::to_owned)
        .collect();
    let lines: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let (mut text, mut compared) = (String::new(), 0);
    for (name, files, column) in locomo() {
        let (_folder, imported) = imported(&data, &files, Some("locomo/locomo10.json"));
        imported.run.read_complete().unwrap();
        write!(text, "{name}\n{}", counts(&imported)).unwrap();
        let Some(column) = column else { continue };
        let at = head.iter().position(|head| head == column).unwrap();
        let (labels, torn) = labels(&imported);
        assert_eq!((labels.len(), lines.len()), (1540, 1540));
        for line in &lines {
            let question = format!("{}/{}", &line[0], &line[1]);
            let expected = match &line[at] {
                "1" => true,
                "0" => false,
                other => panic!("{other} is no label"),
            };
            assert_eq!(labels[&question], expected, "{column} {question}");
        }
        compared += 1;
        if torn > 0 {
            // The table holds the vote of three judgments.
            writeln!(
                text,
                "  {torn} labels by vote differ from the first judgment"
            )
            .unwrap();
        }
    }
    assert_eq!(compared, 10);
    insta::assert_snapshot!(text);
}

/// `metadata.mean_answer_words` of the full-context files, which other code counted.
#[test]
fn answer_lengths_are_those_that_the_full_context_files_state() {
    let Some(data) = shared() else { return };
    for name in [
        "gpt-4o-mini-memos",
        "gpt-4o-mini-cot",
        "gpt-4.1-mini-memos",
        "gpt-4.1-mini-cot",
    ] {
        let file = format!("{FULL_CONTEXT}/{name}/eval_results.json");
        let text = std::fs::read_to_string(data.join(&file)).unwrap();
        let stated: serde_json::Value = serde_json::from_str(&text).unwrap();
        let (_folder, imported) = imported(&data, &[file], Some("locomo/locomo10.json"));
        let answers = imported.run.read_complete().unwrap().answers;
        let words: u32 = answers.iter().filter_map(|answer| answer.words).sum();
        let mean = f64::from(words) / answers.len() as f64;
        let stated = stated["metadata"]["mean_answer_words"].as_f64().unwrap();
        assert!((mean - stated).abs() < 1e-9, "{name}: {mean} and {stated}");
    }
}

#[test]
fn memoryagentbench_results_are_read() {
    let Some(data) = shared() else { return };
    let mut text = String::new();
    for name in [
        "results_accurate_retrieval_eventqa_65536",
        "results_conflict_resolution_replay_n320",
        "results_conflict_resolution_replay_n320_keyedleg",
        "results_icl_replay_n200_exemplar",
    ] {
        let file = format!("memoryagentbench/{name}.jsonl");
        let (_folder, imported) = imported(&data, &[file], None);
        imported.run.read_complete().unwrap();
        let hash = &imported.run.manifest().data.sha256[..8];
        write!(text, "{name}\nquestions {hash} {}", counts(&imported)).unwrap();
    }
    insta::assert_snapshot!(text);
}
