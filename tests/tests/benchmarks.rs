//! Every benchmark from files alone: a small file of its release's shape, in words of our own, is
//! searched, read by a script or a pattern, graded, and scored as its authors score it. The
//! expected scores are worked out by hand beside each test.
//!
//! Marks in the scripted answers tell the scripted judges what to say: `sound` is right, `unsound`
//! wrong, `mumbled` brings a reply that holds no grade. Nothing here measures a model.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread;

use rawrag::corpus::synthetic::Reader;
use rawrag::corpus::{Phase, Question, load};
use rawrag::models::serve::{Bound, Models, Script};
use rawrag_tests::{finish, need_weights, rawrag, write_lines};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_rawrag-under-test");

/// The judges and assessors first, since they are shown the question too; then the reader.
const SCRIPT: &str = include_str!("benchmarks.toml");

/// One server for all tests.
fn served() -> SocketAddr {
    static SERVED: OnceLock<SocketAddr> = OnceLock::new();
    *SERVED.get_or_init(|| {
        let models = Models {
            script: Some(Arc::new(Script::parse(SCRIPT).unwrap())),
            count: Some(|text| rawrag::chunking::Encoding::O200kBase.count(text)),
            ..Models::default()
        };
        let bound = Bound::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = bound.address();
        thread::spawn(move || bound.serve(models).unwrap());
        address
    })
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn done(arguments: &[&str]) -> String {
    let (code, output, error) = finish(rawrag(PROGRAM, arguments));
    assert_eq!(code, 0, "{arguments:?}\n{output}\n{error}");
    output
}

/// A run of `benchmark` on `data`, with these sections after the retrieval's.
struct Run {
    folder: tempfile::TempDir,
    experiment: PathBuf,
}

impl Run {
    fn new(benchmark: &str, data: &Path, sections: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let experiment = folder.path().join("experiment.toml");
        let service = format!(
            "service = {{ provider = \"compatible\", address = \"http://{}/v1\" }}\nmodel = \
             \"scripted\"\nconcurrency = 4",
            served()
        );
        let text = format!(
            "about = \"A dry run.\"\nsystem = \"everything\"\nbenchmark = \"{benchmark}\"\ndata = \
             '{}'\n\n[retrieval]\nk = 40\nchunks = {{ unit = \"message\" }}\nrendering = \
             \"dated\"\nranking = {{ method = \"dense\" }}\n\n[evidence]\ncutoffs = [40]\norder = \
             \"source\"\n\n{}",
            data.display(),
            sections.replace("SERVICE", &service)
        );
        fs::write(&experiment, text).unwrap();
        Self { folder, experiment }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// Runs it: what it prints.
    fn run(&self) -> String {
        let out = self.path();
        let arguments = [
            "run",
            text(&self.experiment),
            "--out",
            text(&out),
            "--unknown-data",
        ];
        done(&arguments)
    }

    fn score(&self) -> Value {
        let out = self.path();
        serde_json::from_str(&done(&["score", text(&out), "--format", "json"])).unwrap()
    }

    fn records(&self, kind: &str) -> Vec<Value> {
        let file = self.path().join(format!("{kind}.jsonl"));
        let lines = fs::read_to_string(file).unwrap();
        lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

/// Runs a benchmark with these sections, and scores it.
fn scored(benchmark: &str, data: &Path, sections: &str) -> (Run, Value) {
    let run = Run::new(benchmark, data, sections);
    run.run();
    let scores = run.score();
    (run, scores)
}

const READ_AND_JUDGED: &str = "[reader]\nSERVICE\n[[judges]]\nname = \"scripted\"\nSERVICE\n";
const READ_AND_RULED: &str =
    "[reader]\nSERVICE\n[[judges]]\nname = \"rule\"\nrule = \"benchmark\"\n";

/// `label: score n right/wrong/unparsed/failed floor`, one a line.
fn lines(scores: &Value, judge: usize) -> String {
    let percent = |value: &Value| match value.as_f64() {
        Some(share) => format!("{:.2}", 100.0 * share),
        None => "-".to_owned(),
    };
    let mut shown = String::new();
    for line in scores["judges"][judge]["lines"].as_array().unwrap() {
        let counts = ["correct", "wrong", "unparsed", "failed"].map(|name| line[name].to_string());
        writeln!(
            shown,
            "{}: {} n {} {} abstaining {}",
            line["label"].as_str().unwrap(),
            percent(&line["score"]),
            line["questions"],
            counts.join("/"),
            percent(&line["abstaining"]),
        )
        .unwrap();
    }
    shown
}

fn file(value: &Value) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.json");
    fs::write(&path, value.to_string()).unwrap();
    (folder, path)
}

/// Question 2 of conv-26 is one of the gold answers that are known to be wrong.
#[test]
fn locomo() {
    need_weights!();
    let question = |text: &str, category: u8| json!({ "question": text, "answer": "a red tent", "evidence": ["D1:1"], "category": category });
    let (_folder, data) = file(&json!([{
        "sample_id": "conv-26",
        "qa": [
            question("sound: what did Pia pitch?", 4),
            question("unsound: what did Pia mend?", 4),
            question("sound: what did both carry?", 1),
            question("mumbled: when did it rain?", 2),
            question("unsound: would Pia camp again?", 3),
            { "question": "sound: what did Oke pitch?", "adversarial_answer": "a red tent",
              "evidence": [], "category": 5 },
        ],
        "conversation": {
            "speaker_a": "Pia", "speaker_b": "Oke",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                { "speaker": "Pia", "dia_id": "D1:1", "text": "I pitched a red tent." },
                { "speaker": "Oke", "dia_id": "D1:2", "text": "Mine leaks." },
            ],
        },
    }]));
    let (run, scores) = scored("locomo", &data, READ_AND_JUDGED);
    // Three grades of each answer. Categories 1 to 4: 2 of 5 right; without question 2, the
    // multi-hop one, 1 of 4. The mumbled grade counts as wrong and is told apart.
    assert_eq!(
        lines(&scores, 0),
        "\
categories 1 to 4: 40.00 n 5 6/6/3/0 abstaining 0.00
1 multi-hop: 100.00 n 1 3/0/0/0 abstaining 0.00
2 temporal: 0.00 n 1 0/0/3/0 abstaining 0.00
3 open-domain: 0.00 n 1 0/3/0/0 abstaining 0.00
4 single-hop: 50.00 n 2 3/3/0/0 abstaining 0.00
5 adversarial: 100.00 n 1 3/0/0/0 abstaining 100.00
categories 1 to 4, without 1 known wrong: 25.00 n 4 3/6/3/0 abstaining 0.00
2 temporal, without known wrong: 0.00 n 1 0/0/3/0 abstaining 0.00
3 open-domain, without known wrong: 0.00 n 1 0/3/0/0 abstaining 0.00
4 single-hop, without known wrong: 50.00 n 2 3/3/0/0 abstaining 0.00
"
    );
    // Every multi-hop question was right, and the one there is has a wrong gold answer.
    assert_eq!(scores["warnings"].as_array().unwrap().len(), 1);
    assert_eq!(scores["notices"].as_array().unwrap().len(), 1);
    // All of both messages was shown, so a draw of as many finds as much.
    let evidence = &scores["evidence"][0];
    assert_eq!(
        (&evidence["unit"], &evidence["all"]),
        (&json!("messages"), &json!(1.0))
    );
    assert_eq!(evidence["random_all"], json!(1.0));

    // The same answers by LoCoMo's F1: of the words *it, was, red, tent, sound* the gold answer has
    // two and no other, so that each F1 is 4/7; the reply to the adversarial question declines
    // nothing. No call is made.
    let judge = run.folder.path().join("f1.toml");
    fs::write(&judge, "[[judges]]\nname = \"f1\"\nrule = \"benchmark\"\n").unwrap();
    let (out, calls) = (run.path(), run.records("usage").len());
    done(&["rejudge", text(&out), "--judge", text(&judge)]);
    assert_eq!(run.records("usage").len(), calls);
    let scores = run.score();
    assert_eq!(
        (
            &scores["judges"][0]["judge"],
            &scores["judges"][0]["grades"]
        ),
        (&json!("f1"), &json!(1))
    );
    let f1 = lines(&scores, 0);
    assert!(
        f1.starts_with("categories 1 to 4: 57.14 n 5 0/5/0/0 "),
        "{f1}"
    );
    assert!(f1.contains("\n5 adversarial: 0.00 n 1 "), "{f1}");

    // A run that lacks a grade has no score.
    let file = run.path().join("judgments.jsonl");
    let whole = fs::read_to_string(&file).unwrap();
    let (cut, _) = whole.trim_end().rsplit_once('\n').unwrap();
    fs::write(&file, format!("{cut}\n")).unwrap();
    let (code, _, error) = finish(rawrag(PROGRAM, &["score", text(&out)]));
    assert_eq!(code, 3, "{error}");
}

#[test]
fn longmemeval() {
    need_weights!();
    let item = |id: &str, kind: &str, question: &str| {
        json!({
            "question_id": id, "question_type": kind, "question": question, "answer": "a red tent",
            "question_date": "2023/05/30 (Tue) 23:40",
            "haystack_dates": ["2023/05/20 (Sat) 02:21"],
            "haystack_session_ids": [format!("{id}-s")],
            "haystack_sessions": [[
                { "role": "user", "content": "I pitched a red tent.", "has_answer": true },
                { "role": "assistant", "content": "Stay dry." },
            ]],
            "answer_session_ids": [format!("{id}-s")],
        })
    };
    let (_folder, data) = file(&json!([
        item("q1", "multi-session", "sound: what did I pitch?"),
        item("q2", "multi-session", "unsound: what did I mend?"),
        item("q3_abs", "multi-session", "sound: what did I sell?"),
        item("q4", "temporal-reasoning", "mumbled: when did I pitch it?"),
    ]));
    let (_run, scores) = scored("longmemeval", &data, READ_AND_JUDGED);
    // One of four questions has no answer, and abstaining is right there.
    assert_eq!(
        lines(&scores, 0),
        "\
all: 50.00 n 4 6/3/3/0 abstaining 25.00
without abstention: 33.33 n 3 3/3/3/0 abstaining 0.00
abstention: 100.00 n 1 3/0/0/0 abstaining 100.00
multi-session: 66.67 n 3 6/3/0/0 abstaining 33.33
temporal-reasoning: 0.00 n 1 0/0/3/0 abstaining 0.00
multi-session, without abstention: 50.00 n 2 3/3/0/0 abstaining 0.00
temporal-reasoning, without abstention: 0.00 n 1 0/0/3/0 abstaining 0.00
"
    );
}

/// [mem0#5141]: a score below what always abstaining scores is no result.
#[test]
fn a_score_below_the_floor_is_refused() {
    need_weights!();
    let (_folder, data) = file(&json!([{
        "question_id": "q1_abs", "question_type": "multi-session",
        "question": "unsound: what did I sell?", "answer": "never said",
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_dates": ["2023/05/20 (Sat) 02:21"], "haystack_session_ids": ["s"],
        "haystack_sessions": [[{ "role": "user", "content": "I pitched a red tent." }]],
        "answer_session_ids": [],
    }]));
    let run = Run::new("longmemeval", &data, READ_AND_JUDGED);
    run.run();
    let out = run.path();
    let (code, output, error) = finish(rawrag(PROGRAM, &["score", text(&out)]));
    assert_eq!(code, 1, "{error}");
    assert!(
        output.contains("below what always abstaining scores"),
        "{output}"
    );
    done(&["score", text(&out), "--below-floor"]);
}

#[test]
fn long_mt_bench_plus() {
    need_weights!();
    let (_folder, data) = file(&json!([{
        "conversation_id": 3,
        "sessions": [["[human]: Name a tent.\n[bot]: The red one."], ["[human]: And a river?"]],
        "turns": [],
        "questions": ["sound: which tent?", "unsound: which river?", "unsound: which lake?"],
        "answers": ["a red tent", "the Ouse", "none"],
    }]));
    let (_run, scores) = scored("long-mt-bench-plus", &data, READ_AND_JUDGED);
    assert_eq!(
        lines(&scores, 0),
        "\
all questions: 33.33 n 3 3/6/0/0 abstaining 0.00
follow-up: 33.33 n 3 3/6/0/0 abstaining 0.00
"
    );
}

/// An episode with every task; both phases where the gate needs them.
fn episode() -> Value {
    let fact = |entity: &str, value: &str, turn: u32| {
        json!({ "entity": entity, "value": value, "fact_text": value, "conveyed_in_turn": turn,
                "conveyed": true })
    };
    let session = |id: &str, date: &str, said: &[&str], facts: Vec<Value>| {
        let turns: Vec<Value> = said
            .iter()
            .map(|text| json!({ "role": "user", "content": text }))
            .collect();
        json!({ "session_id": id, "type": "evidence", "evidence_type": id, "timestamp": date,
                "conversation": turns, "gold_facts": facts })
    };
    let asked = |task: &str, entity: &str, values: &[&str], mark: &str, gold: &str| {
        let mut question = json!({
            "task_type": task, "entity": [entity], "entity_values": { entity: values },
            "question": format!("{mark}: what of the {entity}?"), "gold_answer": gold,
        });
        if matches!(task, "Cas" | "Abs") {
            question["hop"] = json!(1);
        }
        question
    };
    let mut rule = fact("pilot", "Odo Flint", 2);
    rule["dependency_source"] = json!("moorage");
    rule["is_if_then"] = json!(true);
    let mut tie = fact("boat", "the Skua", 3);
    tie["dependency_source"] = json!("moorage");
    let mut change = fact("moorage", "Quay Vimber", 0);
    change["type"] = json!("root_change");
    let mut removal = fact("cat", "Biscuit", 1);
    removal["type"] = json!("delete");
    let after = [
        asked("ER", "horn", &["two long"], "sound", "two long"),
        json!({
            "task_type": "Agg", "entity": ["paint", "horn"],
            "entity_values": { "paint": "grey", "horn": "two long" },
            "question": "mumbled: what of paint and horn?", "gold_answer": "grey and two long",
        }),
        asked(
            "Tr",
            "oil",
            &["Merl 3", "Merl 5"],
            "sound",
            "Merl 3, Merl 5",
        ),
        asked("Cas", "pilot", &["Odo Flint"], "unsound", "Odo Flint"),
        asked(
            "Abs",
            "boat",
            &["the Skua"],
            "sound",
            "Uncertain, before that the Skua",
        ),
        asked("Del", "cat", &["Biscuit"], "sound", "Removed"),
    ];
    json!({
        "episode_id": "pl_001", "domain": "personal_life", "root": "moorage",
        "root_change": { "before": "Quay Ostrel", "after": "Quay Vimber" },
        "entities": {
            "moorage": { "before": "Quay Ostrel", "after": "Quay Vimber" },
            "pilot": { "before": "Ana Brisk", "after": "Odo Flint", "cascade_source": "moorage", "hop": 1 },
            "boat": { "before": "the Skua", "after": null, "cascade_source": "moorage", "hop": 1 },
            "horn": { "before": "two long", "after": null },
            "paint": { "before": "grey", "after": null },
            "cat": { "before": "Biscuit", "after": "deleted" },
            "oil": { "before": "Merl 3", "after": "Merl 5", "history": ["Merl 3", "Merl 5"] },
        },
        "dependency_edges_used": [
            { "source": "moorage", "target": "pilot", "hop": 1, "pattern": "proximity" },
            { "source": "moorage", "target": "boat", "hop": 1, "pattern": "proximity" },
        ],
        "sessions": [
            session("one", "2023/03/01 (Wed) 09:00", &[
                "We moor at Quay Ostrel.",
                "Our pilot is Ana Brisk.",
                "If the moorage changes, the pilot will be Odo Flint.",
                "The boat is the Skua because of the moorage.",
                "Our horn: two long. The paint is grey. The cat is called Biscuit. The oil is Merl 3.",
            ], vec![fact("moorage", "Quay Ostrel", 0), fact("pilot", "Ana Brisk", 1), rule, tie,
                    fact("horn", "two long", 4), fact("paint", "grey", 4), fact("cat", "Biscuit", 4),
                    fact("oil", "Merl 3", 4)]),
            session("two", "2023/03/05 (Sun) 21:15", &[
                "We moved to Quay Vimber.",
                "The cat was wonderful company.",
                "We switched to Merl 5 now.",
            ], vec![change, removal, fact("oil", "Merl 5", 2)]),
        ],
        "before_questions": {
            "timestamp": "2023/03/03 (Fri) 08:00", "position_after_session": 0,
            "questions": [
                asked("Cas", "pilot", &["Ana Brisk"], "sound", "Ana Brisk"),
                asked("Abs", "boat", &["the Skua"], "unsound", "the Skua"),
                asked("Del", "cat", &["Biscuit"], "sound", "Biscuit"),
            ],
        },
        "after_questions": {
            "timestamp": "2023/03/06 (Mon) 07:00", "position_after_session": 1,
            "questions": after,
        },
    })
}

#[test]
fn meme() {
    need_weights!();
    let (_folder, data) = file(&json!([episode()]));
    let sections = format!(
        "{READ_AND_JUDGED}[[assessors]]\nname = \"rule\"\nrule = \"meme\"\n\
         [[assessors]]\nname = \"audit\"\nprompt = \"assess-result-path\"\nSERVICE\n"
    );
    let (run, scores) = scored("meme", &data, &sections);
    // Right after the change: ER, Tr and Del, and Abs, which the gate takes back, since the value
    // before was not known. Three of six tasks.
    assert_eq!(
        lines(&scores, 0),
        "\
six tasks after the change, mean: 50.00 n 6 12/3/3/0 abstaining 0.00
exact recall: 100.00 n 1 3/0/0/0 abstaining 0.00
aggregation: 0.00 n 1 0/0/3/0 abstaining 0.00
tracking: 100.00 n 1 3/0/0/0 abstaining 0.00
deletion: 100.00 n 1 3/0/0/0 abstaining 0.00
cascade: 0.00 n 1 0/3/0/0 abstaining 0.00
absence: 0.00 n 1 3/0/0/0 abstaining 0.00
deletion, before the change: 100.00 n 1 3/0/0/0 abstaining 0.00
cascade, before the change: 100.00 n 1 3/0/0/0 abstaining 0.00
absence, before the change: 0.00 n 1 0/3/0/0 abstaining 0.00
"
    );
    assert_eq!(scores["judges"][0]["lines"][6]["gated"], 3);
    // Everything was shown, and nobody asked to forget the cat.
    let shown = |assessor: &str| {
        let mut shown: Vec<String> = run
            .records("assessments")
            .into_iter()
            .filter(|assessment| assessment["assessor"] == assessor)
            .map(|a| {
                let of = ["kind", "phase", "outcome", "sufficient", "result", "path"];
                of.map(|field| a[field].to_string().replace('"', ""))
                    .join(" ")
            })
            .collect();
        shown.sort_unstable();
        shown.join("\n")
    };
    assert_eq!(
        shown("rule"),
        "\
Abs after assessed true true true
Abs before assessed true null null
Agg after assessed true null null
Cas after assessed true true true
Cas before assessed true null null
Del after assessed false null null
Del before assessed true null null
ER after assessed true null null
Tr after assessed true true true"
    );
    // The audit of the cascade contradicts itself. What is not audited is judged by an excerpt.
    assert_eq!(
        shown("audit"),
        "\
Abs after assessed true null null
Abs before assessed true null null
Agg after assessed true null null
Cas after unparsed null null null
Cas before assessed true null null
Del after assessed true null null
Del before assessed true null null
ER after assessed true null null
Tr after assessed true true true"
    );
    let parts = run
        .records("assessments")
        .into_iter()
        .find(|a| a["assessor"] == "rule" && a["kind"] == "Cas" && a["phase"] == "after");
    let parts: Value =
        serde_json::from_str(parts.unwrap()["components"].as_str().unwrap()).unwrap();
    assert_eq!(
        parts,
        json!({ "value": true, "rule": true, "trigger": true, "hop": 1 })
    );
}

#[test]
fn memoryagentbench() {
    need_weights!();
    // Every source with its questions: what is said, and the gold answer.
    let row = |source: &str, context: &str, asked: &[(&str, Value)]| {
        let questions: Vec<String> = asked
            .iter()
            .map(|(said, _)| format!("say [{said}] what is it?"))
            .collect();
        let answers: Vec<&Value> = asked.iter().map(|(_, gold)| gold).collect();
        json!({ "context": context, "questions": questions, "answers": answers,
                "metadata": { "source": source } })
    };
    let chats =
        "['Chat Time: 2023/05/20 (Sat) 02:21', [{'role': 'user', 'content': 'A red tent.'}]]";
    let mut judged = row(
        "longmemeval_s*",
        chats,
        &[
            ("red (sound)", json!(["red"])),
            ("blue (unsound)", json!(["red"])),
        ],
    );
    judged["metadata"]["question_types"] = json!(["multi-session", "multi-session"]);
    judged["metadata"]["question_ids"] = json!(["q1", "q2"]);
    let mut summary = row(
        "infbench_sum_eng_shots2",
        "A tent. A storm.",
        &[("A tent.", json!(["A tent in a storm."]))],
    );
    summary["metadata"]["keypoints"] = json!(["a tent", "a storm"]);
    let examples = "How far? label: 1\nHow tall? label: 2\n";
    let label = |source: &str, said: &str| row(source, examples, &[(said, json!(["2"]))]);
    let rows = [
        judged,
        row(
            "eventqa_full",
            "They meet. They part.",
            &[("They part.", json!(["They part"]))],
        ),
        row(
            "ruler_qa1_197K",
            "Oslo.",
            &[
                ("It is Oslo.", json!(["Oslo"])),
                ("Bergen", json!(["Oslo"])),
            ],
        ),
        row("ruler_qa2_421K", "Oslo.", &[("Bergen", json!(["Oslo"]))]),
        label("icl_banking77_5900shot_balance", "label: 2"),
        label("icl_clinic150_7050shot_balance", "2"),
        label("icl_nlu_8296shot_balance", "label: 1"),
        label("icl_trec_coarse_6600shot_balance", "I cannot tell"),
        label("icl_trec_fine_6400shot_balance", "label: 2"),
        row(
            "recsys_redial_full",
            "Try Heat.",
            &[("1. Ran (1985)", json!(["Ran", "Heat"]))],
        ),
        row(
            "detective_qa",
            "It was Bo.",
            &[
                ("The answer is B.", json!(["B. Bo"])),
                ("A. Al", json!(["B. Bo"])),
            ],
        ),
        summary,
        row(
            "factconsolidation_sh_6k",
            "0. Bo is mayor.\n1. Cy is mayor.\n",
            &[("Cy", json!(["Cy"]))],
        ),
        row(
            "factconsolidation_mh_6k",
            "0. Bo is mayor.\n1. Cy is mayor.\n",
            &[("Bo", json!(["Cy"]))],
        ),
    ];
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("rows.jsonl");
    write_lines(&data, &rows).unwrap();
    let (run, scores) = scored("memoryagentbench", &data, READ_AND_JUDGED);
    // Accurate retrieval (1/2 + 1 + 1/2 + 0) / 4 = 1/2. Test-time learning (1/2 + 3/5) / 2 = 0.55.
    // Long range: choice 1/2; summary 2 * 1/2 * 1/4 / (1/2 + 1/4) = 1/3; together 5/12. Conflict
    // (1 + 0) / 2. The mean of the four is (0.5 + 0.55 + 0.41666... + 0.5) / 4 = 0.49166...
    let shown = lines(&scores, 0);
    let score = |label: &str| {
        let line = shown
            .lines()
            .find_map(|line| line.strip_prefix(label)?.strip_prefix(": "));
        line.unwrap().split(' ').next().unwrap().to_owned()
    };
    assert!(
        shown.starts_with("four capabilities, mean: 49.17 n 17 "),
        "{shown}"
    );
    for (label, expected) in [
        ("accurate retrieval", "50.00"),
        ("test-time learning", "55.00"),
        ("long-range understanding", "41.67"),
        ("conflict resolution", "50.00"),
        ("longmemeval_s*", "50.00"),
        ("infbench_sum_eng_shots2", "33.33"),
        ("recsys_redial_full", "50.00"),
        ("icl_trec_coarse_6600shot_balance", "0.00"),
    ] {
        assert_eq!(score(label), expected, "{label}\n{shown}");
    }
    // Two questions and three counts are asked about; the other sources are marked without calls.
    let calls = run.records("usage");
    let judging = calls.iter().filter(|row| row["stage"] == "judge").count();
    assert_eq!(judging, 2 + 3);

    // A rule alone cannot grade what a model has to, and says so before anything is spent.
    let run = Run::new("memoryagentbench", &data, READ_AND_RULED);
    let out = run.path();
    let arguments = [
        "run",
        text(&run.experiment),
        "--out",
        text(&out),
        "--unknown-data",
    ];
    let (code, _, error) = finish(rawrag(PROGRAM, &arguments));
    assert_eq!(code, 3, "{error}");
    assert!(
        error.contains("is judged by a model; name a service"),
        "{error}"
    );
}

#[test]
fn personamem() {
    need_weights!();
    let folder = tempfile::tempdir().unwrap();
    let histories = folder.path().join("data/chat_history_32k");
    let questions = folder.path().join("benchmark/text");
    fs::create_dir_all(&histories).unwrap();
    fs::create_dir_all(&questions).unwrap();
    let history = json!([
        { "role": "system", "content": "You are Pia." },
        { "role": "user", "content": "I eat no meat." },
        { "role": "assistant", "content": "Noted." },
    ]);
    fs::write(histories.join("p1.json"), history.to_string()).unwrap();
    let mut csv = "chat_history_32k_link,user_query,correct_answer,incorrect_answers,\
                   conversation_scenario\n"
        .to_owned();
    for (query, scenario) in [
        ("sound: what shall I cook?", "consultation"),
        ("sound: what shall I order?", "consultation"),
        ("unsound: what shall I bake?", "chat"),
        ("mumbled: what shall I fry?", "chat"),
    ] {
        let wrong = r#""['an odd reply', 'a dull one', 'a cold one']""#;
        writeln!(
            csv,
            "data/chat_history_32k/p1.json,{query},the fitting reply,{wrong},{scenario}"
        )
        .unwrap();
    }
    fs::write(questions.join("benchmark.csv"), csv).unwrap();
    let (run, scores) = scored("personamem", folder.path(), READ_AND_RULED);
    // A reply that names no letter is wrong. A letter of four drawn at random: one in four.
    assert_eq!(
        lines(&scores, 0),
        "\
all questions: 50.00 n 4 2/2/0/0 abstaining 0.00
chat: 0.00 n 2 0/2/0/0 abstaining 0.00
consultation: 100.00 n 2 2/0/0/0 abstaining 0.00
"
    );
    assert_eq!(scores["judges"][0]["lines"][0]["random"], 0.25);
    assert!(
        run.records("usage")
            .iter()
            .all(|row| row["stage"] == "answer")
    );
}

#[test]
fn beam() {
    need_weights!();
    let folder = tempfile::tempdir().unwrap();
    let chat = folder.path().join("100K/7");
    fs::create_dir_all(chat.join("probing_questions")).unwrap();
    let turns = json!([{
        "batch_number": 1, "time_anchor": "March-15-2024",
        "turns": [[
            { "role": "user", "id": 0, "content": "I pitched a red tent." },
            { "role": "assistant", "id": 1, "content": "Noted." },
        ]],
    }]);
    fs::write(chat.join("chat.json"), turns.to_string()).unwrap();
    let question = |text: &str, rubric: &[&str]| json!({ "question": text, "answer": "a red tent", "source_chat_ids": [0], "rubric": rubric });
    let probing = json!({
        "abstention": [{ "question": "sound: who sold it?", "ideal_response": "Nobody said.",
                         "rubric": ["says that nobody said"] }],
        "event_ordering": [question("sound: in which order?", &["in part: first", "in part: then"])],
        "information_extraction": [
            question("sound: what was it?", &["in full: names it", "in part: its colour", "not at all: its age"]),
            question("sound: whose was it?", &["in full: names Pia"]),
        ],
        "knowledge_update": [question("sound: what is it now?", &["in full: names it", "mumbled"])],
    });
    fs::write(
        chat.join("probing_questions/probing_questions.json"),
        probing.to_string(),
    )
    .unwrap();
    let (_run, scores) = scored("beam", &folder.path().join("100K"), READ_AND_JUDGED);
    // Points of rubrics averaged: 1; 1/2; (1/2 and 1) / 2 = 3/4; one that cannot be read, 0. The
    // five questions: (1 + 1/2 + 1/2 + 1 + 0) / 5.
    assert_eq!(
        lines(&scores, 0),
        "\
all questions: 60.00 n 5 2/2/1/0 abstaining 20.00
abstention: 100.00 n 1 1/0/0/0 abstaining 100.00
event_ordering: 50.00 n 1 0/1/0/0 abstaining 0.00
information_extraction: 75.00 n 2 1/1/0/0 abstaining 0.00
knowledge_update: 0.00 n 1 0/0/1/0 abstaining 0.00
"
    );
}

/// Synthetic histories, read by the generator's own reader from all of their messages: where it does
/// not err it is right, so that the scores follow from where it errs.
#[test]
fn synthetic() {
    need_weights!();
    let folder = tempfile::tempdir().unwrap();
    let recipe = folder.path().join("recipe.toml");
    fs::write(
        &recipe,
        "seed = 11\n[meme]\nepisodes = 12\n[facts]\npools = 1\nfacts = 40\nconflicts = 10\n\
         single_hop = 6\nmulti_hop = 6\n[labels]\nstreams = 1\nlabels = 4\n\
         demonstrations = 24\ntests = 8\n",
    )
    .unwrap();
    let data = folder.path().join("made");
    done(&["data", "generate", text(&recipe), "--out", text(&data)]);
    let sections = "[reader]\npattern = { seed = 5, error_rate = 0.3 }\n\
                    [[judges]]\nname = \"rule\"\nrule = \"benchmark\"\n";
    let run = Run::new("synthetic", &data, sections);
    let written = fs::read_to_string(&run.experiment).unwrap();
    fs::write(&run.experiment, written.replace("k = 40\n", "k = 400\n")).unwrap();
    let output = run.run();
    assert!(
        output.contains("Synthetic: the reader knows the generator's sentences"),
        "{output}"
    );
    let scores = run.score();
    assert_eq!(scores["notices"].as_array().unwrap().len(), 2);

    let by = Reader::new(5, 0.3).unwrap();
    let questions: Vec<Question> = load(&data, None)
        .unwrap()
        .entries
        .into_iter()
        .flat_map(|entry| entry.questions)
        .collect();
    let right = |question: &Question| !by.errs(question);
    let before = |after: &Question| {
        let same = |q: &&Question| {
            (&q.conversation, &q.id, q.phase)
                == (&after.conversation, &after.id, Some(Phase::Before))
        };
        questions.iter().find(same)
    };
    let mut expected = Vec::new();
    for task in ["ER", "Agg", "Tr", "Del", "Cas", "Abs"] {
        let asked: Vec<&Question> = questions
            .iter()
            .filter(|q| q.kind.as_str() == task && q.phase == Some(Phase::After))
            .collect();
        let gated = matches!(task, "Del" | "Cas" | "Abs");
        let passes = |q: &&&Question| right(q) && (!gated || right(before(q).unwrap()));
        let passed = asked.iter().filter(passes).count();
        assert!(passed > 0 && passed < asked.len(), "{task} shows nothing");
        expected.push(passed as f64 / asked.len() as f64);
    }
    let close = |found: &Value, expected: f64| (found.as_f64().unwrap() - expected).abs() < 1e-12;
    let found = scores["judges"][0]["lines"].as_array().unwrap();
    assert!(close(
        &found[0]["score"],
        expected.iter().sum::<f64>() / 6.0
    ));
    for (line, expected) in found[1..7].iter().zip(&expected) {
        assert!(close(&line["score"], *expected), "{line} {expected}");
    }
    for family in ["fact-consolidation", "in-context-classification"] {
        let of: Vec<&Question> = questions
            .iter()
            .filter(|q| q.source.as_deref() == Some(family))
            .collect();
        let share = of.iter().filter(|q| right(q)).count() as f64 / of.len() as f64;
        let label = format!("synthetic {family}: all questions");
        let line = found.iter().find(|line| line["label"] == label).unwrap();
        assert!(close(&line["score"], share), "{line} {share}");
    }
    assert!(!run.path().join("usage.jsonl").exists() || run.records("usage").is_empty());
}

/// The coverage of synthetic episodes by rule, without a reader: all of the history is enough for
/// every question, and one message for hardly any.
#[test]
fn synthetic_evidence_is_assessed_without_a_reader() {
    need_weights!();
    let folder = tempfile::tempdir().unwrap();
    let recipe = folder.path().join("recipe.toml");
    fs::write(&recipe, "seed = 12\n[meme]\nepisodes = 2\n").unwrap();
    let data = folder.path().join("made");
    done(&["data", "generate", text(&recipe), "--out", text(&data)]);
    let sections = "[[assessors]]\nname = \"rule\"\nrule = \"meme\"\n";
    let assessed = |k: &str| {
        let run = Run::new("synthetic", &data, sections);
        let written = fs::read_to_string(&run.experiment).unwrap();
        let written = written.replace("k = 40\n", &format!("k = {k}\n"));
        fs::write(&run.experiment, written.replace("[40]", "[1]")).unwrap();
        run.run();
        let records = run.records("assessments");
        let path_without_result =
            |a: &&Value| a["path"] == json!(true) && a["result"] != json!(true);
        assert_eq!(records.iter().filter(path_without_result).count(), 0);
        let sufficient = records
            .iter()
            .filter(|a| a["sufficient"] == json!(true))
            .count();
        (sufficient, records.len())
    };
    let (sufficient, all) = assessed("400");
    assert_eq!(sufficient, all);
    let (sufficient, all) = assessed("1");
    assert!(sufficient < all / 2, "{sufficient} of {all}");
}
