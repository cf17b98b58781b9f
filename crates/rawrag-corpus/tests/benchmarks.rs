//! The benchmarks' layouts: small files of each kind with every oddity, and the published files
//! where the shared data folder is at hand.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test stops where its input fails, and says why it is skipped"
)]

use std::path::{Path, PathBuf};

use rawrag_corpus::{Entry, Format, Gold, Loaded, load};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

fn shared(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("RAWRAG_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let path = folder.join("data").join(name);
    if !path.exists() {
        println!(
            "skipped: {} is not there; RAWRAG_SHARED names the folder",
            path.display()
        );
    }
    path.exists().then_some(path)
}

fn shown(loaded: &Loaded) -> String {
    let entries: String = loaded.entries.iter().map(entry).collect();
    format!("{entries}\n{}", loaded.report)
}

fn entry(entry: &Entry) -> String {
    let mut text = format!("conversation {}\n", entry.conversation.id);
    for session in &entry.conversation.sessions {
        let date = session.date.map_or("-".into(), |date| date.to_string());
        text += &format!("  session {} [{date}]\n", session.id);
        for m in &session.messages {
            let date = m.date.map_or(String::new(), |date| format!(" [{date}]"));
            text += &format!("    {}{date} {}: {:?}\n", m.id, m.speaker, m.text);
        }
    }
    for q in &entry.questions {
        let source = q.source.as_deref().unwrap_or("-");
        let asked = q
            .cutoff
            .map_or(String::new(), |date| format!(", asked {date}"));
        let gold = q.gold.as_ref().unwrap();
        let messages: Vec<u32> = q.evidence.messages.iter().map(|m| m.0).collect();
        let sessions: Vec<u32> = q.evidence.sessions.iter().map(|s| s.0).collect();
        text += &format!(
            "  question {} ({source}, {}{asked}) {:?}\n",
            q.id, q.kind, q.text
        );
        text += &format!("    {gold:?}\n");
        if !q.options.is_empty() {
            text += &format!("    options {:?}\n", q.options);
        }
        text += &format!("    messages {messages:?} sessions {sessions:?}");
        text += &format!(
            " written {:?} unresolved {:?}\n",
            q.evidence.written, q.evidence.unresolved
        );
    }
    text
}

#[test]
fn beam() {
    let folder = load(&fixture("beam/100K"), None).unwrap();
    for path in ["beam/100K/7", "beam/100K/7/chat.json"] {
        assert_eq!(load(&fixture(path), None).unwrap(), folder, "{path}");
    }
    insta::assert_snapshot!(shown(&folder));
}

/// Plans in folders, and the same plans in one file.
#[test]
fn beam_of_plans() {
    let folders = load(&fixture("beam/10M"), None).unwrap();
    insta::assert_snapshot!(shown(&folders));
    let folder = tempfile::tempdir().unwrap();
    let chat = folder.path().join("10M/4");
    std::fs::create_dir_all(&chat).unwrap();
    let plan = |name: &str| {
        let file = fixture("beam/10M/4").join(name).join("chat.json");
        std::fs::read_to_string(file).unwrap()
    };
    let one = format!(
        "[{{\"plan-2\": {}}}, {{\"plan-10\": {}}}]",
        plan("plan-2"),
        plan("plan-10")
    );
    std::fs::write(chat.join("chat.json"), one).unwrap();
    let together = load(folder.path().join("10M").as_path(), None).unwrap();
    assert_eq!(together.entries, folders.entries);
    assert_eq!(load(&chat.join("chat.json"), None).unwrap(), together);
}

#[test]
fn memoryagentbench() {
    insta::assert_snapshot!(shown(
        &load(&fixture("memoryagentbench.jsonl"), None).unwrap()
    ));
}

/// A folder of splits is read in the release's order, and JSON lines, an array and Parquet with
/// the same rows are the same data.
#[test]
fn memoryagentbench_of_any_layout_is_the_same_data() {
    let lines = load(&fixture("memoryagentbench.jsonl"), None).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(fixture("memoryagentbench.jsonl")).unwrap();
    let rows: Vec<&str> = text.lines().collect();
    let array = folder.path().join("array.json");
    std::fs::write(&array, format!("[{}]", rows.join(",\n"))).unwrap();
    assert_eq!(load(&array, None).unwrap(), lines);
    let data = folder.path().join("release/data");
    std::fs::create_dir_all(&data).unwrap();
    let (first, rest) = rows.split_at(2);
    std::fs::write(
        data.join("Accurate_Retrieval-00000-of-00001.jsonl"),
        first.join("\n"),
    )
    .unwrap();
    std::fs::write(
        data.join("Conflict_Resolution.json"),
        format!("[{}]", rest.join(",")),
    )
    .unwrap();
    assert_eq!(load(&folder.path().join("release"), None).unwrap(), lines);
    let parquet = load(&fixture("memoryagentbench.parquet"), None);
    if cfg!(feature = "parquet") {
        assert_eq!(parquet.unwrap(), lines);
    } else {
        let error = parquet.unwrap_err().to_string();
        assert!(error.contains("does not read Parquet"), "{error}");
    }
}

/// ReDial's films are numbers in the release, and titles once its list of films is at hand.
#[test]
fn films_are_named_by_the_list_of_the_release() {
    let folder = tempfile::tempdir().unwrap();
    let rows = folder.path().join("data/Test_Time_Learning.jsonl");
    std::fs::create_dir_all(rows.parent().unwrap()).unwrap();
    let row = r#"{"context": "Try Ran.", "questions": ["Which?", "Which else?"],
        "answers": [["7", 12], ["99"]], "metadata": {"source": "recsys_redial_full"}}"#;
    std::fs::write(&rows, row.replace('\n', " ")).unwrap();
    let error = load(folder.path(), None).unwrap_err().to_string();
    assert!(
        error.contains("numbers of films") && error.contains("entity2id.json"),
        "{error}"
    );
    let list = r#"{"<http://dbpedia.org/resource/Panic_Room>": 7, "Heat (1995)": 12}"#;
    std::fs::write(folder.path().join("entity2id.json"), list).unwrap();
    let loaded = load(folder.path(), None).unwrap();
    let golds: Vec<String> = loaded.entries[0]
        .questions
        .iter()
        .map(|q| format!("{:?}", q.gold.as_ref().unwrap()))
        .collect();
    assert!(golds[0].contains(r#"["Panic Room", "Heat"]"#), "{golds:?}");
    assert!(golds[1].contains("99"), "{golds:?}");
    assert!(
        loaded.report.to_string().contains("number of a film"),
        "{}",
        loaded.report
    );
}

#[test]
fn long_mt_bench_plus() {
    let loaded = load(&fixture("long_mt_bench.json"), None).unwrap();
    insta::assert_snapshot!(shown(&loaded));
    if cfg!(feature = "parquet") {
        let parquet = load(&fixture("long_mt_bench.parquet"), None).unwrap();
        assert_eq!(
            parquet.entries[0].conversation,
            loaded.entries[0].conversation
        );
        assert_eq!(
            parquet.entries[0].questions[0],
            loaded.entries[0].questions[0]
        );
    }
}

#[test]
fn personamem() {
    let folder = load(&fixture("personamem"), None).unwrap();
    let csv = fixture("personamem/benchmark/text/benchmark.csv");
    assert_eq!(load(&csv, Some(Format::Personamem)).unwrap(), folder);
    assert_eq!(load(&csv, None).unwrap(), folder);
    insta::assert_snapshot!(shown(&folder));
}

/// The right reply must not be told by where it stands.
#[test]
fn personamem_options_give_nothing_away() {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("data/chat_history_32k");
    std::fs::create_dir_all(&history).unwrap();
    std::fs::write(
        history.join("p.json"),
        r#"[{"role": "user", "content": "Hello."}]"#,
    )
    .unwrap();
    let mut csv =
        "chat_history_32k_link,user_query,correct_answer,incorrect_answers,conversation_scenario\n"
            .to_owned();
    for n in 0..400 {
        csv += &format!("data/chat_history_32k/p.json,q{n},right{n},\"['a', 'b', 'c']\",chat\n");
    }
    let file = folder.path().join("benchmark.csv");
    std::fs::write(&file, csv).unwrap();
    let loaded = load(&file, None).unwrap();
    let mut places = [0_u32; 4];
    for q in &loaded.entries[0].questions {
        let Some(Gold::Choice { option }) = q.gold else {
            continue;
        };
        assert!(q.options[option as usize].starts_with("right"));
        places[option as usize] += 1;
    }
    // 100 each on average; 60 lies more than four standard deviations off.
    assert!(places.iter().all(|&n| n > 60), "{places:?}");
}

#[test]
fn beam_100k() {
    if let Some(folder) = shared("beam/100K-1") {
        insta::assert_snapshot!(load(&folder, None).unwrap().report);
    }
}

#[test]
fn beam_1m() {
    if let Some(folder) = shared("beam/1M-3") {
        insta::assert_snapshot!(load(&folder, None).unwrap().report);
    }
}

/// Both chats below one folder are one benchmark, smallest number last in the name first.
#[test]
fn beam_folder_of_chats() {
    if let Some(folder) = shared("beam") {
        let loaded = load(&folder, None).unwrap();
        let ids: Vec<&str> = loaded
            .entries
            .iter()
            .map(|entry| entry.conversation.id.as_str())
            .collect();
        assert_eq!(ids, ["100K-1", "1M-3"]);
        assert_eq!(loaded.report.totals.messages, 188 + 1556);
    }
}

/// One line an alteration of a fixture: what was altered, and the error.
fn refusals(copy: &[&str], altered: &str, read: &str, alterations: &[(&str, &str)]) -> String {
    let text = std::fs::read_to_string(fixture(altered)).unwrap();
    let mut lines = String::new();
    for (from, to) in alterations {
        assert!(text.contains(from), "{altered} does not hold {from:?}");
        let folder = tempfile::tempdir().unwrap();
        for name in copy {
            let to = folder.path().join(name);
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::copy(fixture(name), to).unwrap();
        }
        let file = folder.path().join(altered);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text.replacen(from, to, 1)).unwrap();
        let error = match load(&folder.path().join(read), None) {
            Ok(loaded) => format!("READ: {}", loaded.report.totals),
            Err(error) => error.to_string(),
        };
        let error = error.replace(&format!("{}", folder.path().display()), "DIR");
        lines += &format!("{from} -> {to}\n    {error}\n");
    }
    lines
}

const CHAT: &str = "beam/100K/7/chat.json";
const PROBING: &str = "beam/100K/7/probing_questions/probing_questions.json";

#[test]
fn beam_refused() {
    let chat = refusals(
        &[CHAT, PROBING],
        CHAT,
        "beam/100K/7",
        &[
            ("March-15-2024", "Mars-15-2024"),
            ("\"id\": 2", "\"id\": \"two\""),
            ("\"content\": \"Noted.\"", "\"text\": \"Noted.\""),
            (
                "\"batch_number\": 2",
                "\"plan\": [], \"batch_number\": \"two\"",
            ),
            ("\n]", ""),
        ],
    );
    let questions = refusals(
        &[CHAT, PROBING],
        PROBING,
        "beam/100K",
        &[
            ("\"states: eleven\"\n", "\"\"\n"),
            ("\"answer\": \"Eleven\"", "\"answer\": \" \""),
            ("\"rubric\": \"states: eleven\"", "\"rubric\": {\"a\": 1}"),
            ("\"rubric\": \"states: eleven\",", ""),
            ("\"ideal_response\"", "\"reply\""),
            ("99", "\"turn 99\""),
            ("\"question\": \"What colour?\"", "\"question\": null"),
            ("\"guessing\": [", "\"guessing\": 3, \"more\": ["),
        ],
    );
    insta::assert_snapshot!(format!("{chat}{questions}"));
}

#[test]
fn memoryagentbench_refused() {
    let name = "memoryagentbench.jsonl";
    insta::assert_snapshot!(refusals(
        &[],
        name,
        name,
        &[
            ("[[\"Oslo\"], ", "["),
            ("[\"Oslo\"]", "[]"),
            ("[\"Oslo\"]", "[\"\"]"),
            ("[\"Oslo\"]", "{\"a\": 1}"),
            ("\"question_ids\": [\"q7\", ", "\"question_ids\": ["),
            ("2023/05/30 (Tue) 23:40", "soon"),
            ("Chat Time: 2023/05/22", "Chat Time: 2023/22/05"),
            ("'content': 'Enjoy", "'words': 'Enjoy"),
            (
                "['Chat Time: 2023/05/20 (Sat) 02:21', [",
                "[[], 'Chat Time: 2023/05/20 (Sat) 02:21', ["
            ),
            ("'Back from Oslo.'}]", "'Back from Oslo.'}"),
            ("\"there was a mill\"", "\"\""),
            ("\"source\": \"longmemeval_s*\"", "\"source\": \" \""),
            (
                "\"source\": \"longmemeval_s*\"",
                "\"origin\": \"longmemeval_s*\""
            ),
            (
                "\"context\": \"Try Heat.\\nTry Ran.\"",
                "\"context\": \" \""
            ),
            ("{\"context\": \"Once", "7 {\"context\": \"Once"),
            ("\"source\": \"infbench_sum_eng_shots2\", ", ""),
        ],
    ));
}

#[test]
fn personamem_refused() {
    let csv = "personamem/benchmark/text/benchmark.csv";
    let histories = [
        "personamem/data/chat_history_32k/p1.json",
        "personamem/data/chat_history_32k/p2.json",
    ];
    let rows = refusals(
        &histories,
        csv,
        "personamem",
        &[
            ("correct_answer", "answer"),
            ("\"Lentils, as you like.\"", "\" \""),
            ("\"[\"\"Steak.\"\", \"\"Fish.\"\", \"\"Eggs.\"\"]\"", "[]"),
            (
                "\"[\"\"Steak.\"\", \"\"Fish.\"\", \"\"Eggs.\"\"]\"",
                "Steak",
            ),
            (
                "data/chat_history_32k/p2.json",
                "data/chat_history_32k/p3.json",
            ),
            ("data/chat_history_32k/p2.json", "../../etc/p2.json"),
            ("consultation,x", "consultation"),
        ],
    );
    let history = refusals(
        &[csv, histories[1]],
        histories[0],
        "personamem",
        &[("\"chat_history\"", "\"history\""), ("}]}", "")],
    );
    insta::assert_snapshot!(format!("{rows}{history}"));
}

#[test]
fn long_mt_bench_plus_refused() {
    let name = "long_mt_bench.json";
    insta::assert_snapshot!(refusals(
        &[],
        name,
        name,
        &[
            ("[\"The Ouse\", ", "["),
            ("\"The Ouse\", [\"one\"", "\"\", [\"one\""),
            ("\"conversation_id\": 3", "\"conversation_id\": null"),
            ("\"[human]: Another.\"", "{\"human\": \"Another.\"}"),
        ],
    ));
}
