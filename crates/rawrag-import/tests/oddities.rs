//! What result files get wrong, one test a kind, on self-made files.

#![expect(
    clippy::unwrap_used,
    reason = "a test whose input cannot be made has failed"
)]

use std::fs;
use std::ops::Deref;
use std::path::PathBuf;

use rawrag_import::{Format, ImportError, Imported, Job, Oddity, import};
use rawrag_records::{Answer, AnswerOutcome, Judgment, JudgmentOutcome, RecordError};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Two conversations. In the first, question 2 is asked again as question 4, and question 3 is
/// adversarial.
fn benchmark() -> Value {
    let question = |text: &str, answer: &str, category: u32| {
        let lure = if category == 5 {
            "adversarial_answer"
        } else {
            "answer"
        };
        json!({"question": text, lure: answer, "category": category, "evidence": ["D1:1"]})
    };
    let conversation = |id: &str, questions: Vec<Value>| {
        json!({
            "sample_id": id,
            "qa": questions,
            "conversation": {
                "speaker_a": "John", "speaker_b": "Mia",
                "session_1_date_time": "1:00 pm on 8 May, 2023",
                "session_1": [{"speaker": "John", "dia_id": "D1:1", "text": "The kiln is warm."}],
            },
        })
    };
    json!([
        conversation(
            "conv-7",
            vec![
                question("When did John's kiln arrive?", "in May", 2),
                question("Which glaze does Mia mix?", "celadon", 4),
                question("How many bowls broke?", "two", 4),
                question("Why did Mia sell the kiln?", "for rent", 5),
                question("How many bowls broke?", "two", 4),
            ]
        ),
        conversation(
            "conv-9",
            vec![
                question("Who taught John to throw?", "his aunt", 1),
                question("Would Mia like raku?", "yes", 3),
            ]
        ),
    ])
}

/// A row of the mem0 format.
fn row(question: &str, gold: &str, answer: &str, category: u32, label: u32) -> Value {
    json!({"question": question, "answer": gold, "response": answer, "category": category,
           "llm_score": label, "bleu_score": 0.5})
}

fn first_conversation() -> Vec<Value> {
    vec![
        row("When did John's kiln arrive?", "in May", "May", 2, 1),
        row(
            "Which glaze does Mia mix?",
            "celadon",
            "a green glaze",
            4,
            0,
        ),
        row("How many bowls broke?", "two", "two bowls", 4, 1),
        row("How many bowls broke?", "two", "three", 4, 0),
    ]
}

fn second_conversation() -> Vec<Value> {
    vec![
        row("Who taught John to throw?", "his aunt", "an aunt", 1, 1),
        row("Would Mia like raku?", "yes", "I think so", 3, 1),
    ]
}

fn mem0(first: &[Value], second: &[Value]) -> Value {
    json!({"0": first, "1": second})
}

struct Case {
    folder: TempDir,
    files: Vec<PathBuf>,
    format: Option<Format>,
    text: bool,
    exclude: Vec<String>,
    with_benchmark: bool,
}

impl Case {
    fn of(content: impl AsRef<[u8]>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("locomo.json"), benchmark().to_string()).unwrap();
        let case = Self {
            folder,
            files: Vec::new(),
            format: None,
            text: true,
            exclude: vec!["adversarial".into()],
            with_benchmark: true,
        };
        case.and(content)
    }

    fn and(mut self, content: impl AsRef<[u8]>) -> Self {
        let name = format!("results-{}", self.files.len());
        let path = self.folder.path().join(name);
        fs::write(&path, content).unwrap();
        self.files.push(path);
        self
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    fn import(&self) -> Result<Imported, ImportError> {
        let benchmark = self.folder.path().join("locomo.json");
        import(&Job {
            files: &self.files,
            format: self.format,
            benchmark_file: self.with_benchmark.then_some(benchmark.as_path()),
            system: "potter",
            folder: &self.out(),
            text: self.text,
            exclude: &self.exclude,
        })
    }

    fn imported(self) -> Made {
        let imported = self.import().unwrap();
        Made {
            imported,
            _folder: self.folder,
        }
    }

    /// The message, in which the folder's name is left out.
    fn refusal(&self) -> String {
        let message = self.import().unwrap_err().to_string();
        assert!(!self.out().exists(), "nothing half-written stays");
        message.replace(self.folder.path().to_str().unwrap(), "DIR")
    }
}

/// A run, which lasts as long as its folder.
struct Made {
    imported: Imported,
    _folder: TempDir,
}

impl Deref for Made {
    type Target = Imported;

    fn deref(&self) -> &Imported {
        &self.imported
    }
}

fn found(imported: &Imported, oddity: Oddity) -> u64 {
    imported.report.oddities.get(&oddity).map_or(0, |f| f.count)
}

fn answers(imported: &Imported) -> Vec<Answer> {
    imported.run.read().unwrap()
}

fn judgments(imported: &Imported) -> Vec<Judgment> {
    imported.run.read().unwrap()
}

fn answer_to(imported: &Imported, question: &str) -> Option<String> {
    let answers = answers(imported);
    answers.into_iter().find(|a| a.question == question)?.text
}

#[test]
fn a_clean_file_becomes_a_complete_run_marked_as_imported() {
    let case = Case::of(mem0(&first_conversation(), &second_conversation()).to_string());
    let imported = case.imported();
    assert!(imported.report.is_complete());
    let records = imported.run.read_complete().unwrap();
    assert_eq!((records.answers.len(), records.judgments.len()), (6, 6));
    let source = imported.run.manifest().import().unwrap();
    assert_eq!((source.format.as_str(), source.text), ("mem0", true));
    assert_eq!(source.files[0].name, "results-0");
    assert_eq!(source.files[0].sha256.len(), 64);
    assert_eq!(imported.run.manifest().name, "run");
    let first = &records.answers[0];
    assert_eq!(
        (first.question.as_str(), first.kind.as_str()),
        ("conv-7/0", "temporal")
    );
    assert_eq!(
        (first.words, first.outcome),
        (Some(1), AnswerOutcome::Answered)
    );
}

/// A file whose John is called Juan.
#[test]
fn a_renamed_speaker_is_joined_by_position_and_reported() {
    let mut first = first_conversation();
    first[0]["question"] = json!("When did Juan's kiln arrive?");
    let imported = Case::of(mem0(&first, &second_conversation()).to_string()).imported();
    assert_eq!(found(&imported, Oddity::TextDiffers), 1);
    assert_eq!(answer_to(&imported, "conv-7/0").as_deref(), Some("May"));
    assert!(imported.report.is_complete());
}

#[test]
fn another_question_in_its_place_is_not_joined() {
    let mut first = first_conversation();
    first[0]["question"] = json!("Does the wheel squeak at night?");
    let imported = Case::of(mem0(&first, &second_conversation()).to_string()).imported();
    assert_eq!(found(&imported, Oddity::RowUnknown), 1);
    assert_eq!(imported.report.missing["temporal"].first, ["conv-7/0"]);
}

/// MIRIX's 1,542 rows: two of them about adversarial questions.
#[test]
fn rows_about_excluded_questions_are_left_out_and_counted() {
    let mut rows = first_conversation();
    rows.extend(second_conversation());
    rows.push(row(
        "Why did Mia sell the kiln?",
        "for rent",
        "for rent",
        5,
        1,
    ));
    let imported = Case::of(json!({"detailed_results": rows}).to_string()).imported();
    assert_eq!(imported.report.format, Format::Mirix);
    assert_eq!((imported.report.rows, imported.report.joined), (7, 6));
    assert_eq!(found(&imported, Oddity::RowExcluded), 1);
}

#[test]
fn a_question_without_a_row_leaves_the_run_incomplete_unless_it_is_excluded() {
    let file = mem0(&first_conversation(), &second_conversation()[..1]).to_string();
    let mut case = Case::of(&file);
    let imported = case.imported();
    assert_eq!(imported.report.missing["open-domain"].first, ["conv-9/1"]);
    let error = imported.run.read_complete().unwrap_err();
    assert!(
        matches!(
            error,
            RecordError::Incomplete {
                found: 5,
                expected: 6,
                ..
            }
        ),
        "{error}"
    );
    case = Case::of(&file);
    case.exclude.push("conv-9/1".into());
    assert!(case.imported().run.read_complete().is_ok());
    case = Case::of(&file);
    case.exclude.clear();
    assert_eq!(case.imported().report.missing["adversarial"].count, 1);
}

#[test]
fn a_repeated_question_goes_by_position_or_else_by_the_order_of_the_file() {
    let (first, second) = (first_conversation(), second_conversation());
    let grouped = Case::of(mem0(&first, &second).to_string()).imported();
    assert_eq!(found(&grouped, Oddity::QuestionRepeated), 0);
    let mut rows = second;
    rows.extend(first);
    let listed = Case::of(json!({"detailed_results": rows}).to_string()).imported();
    assert_eq!(found(&listed, Oddity::QuestionRepeated), 1);
    for imported in [&grouped, &listed] {
        assert_eq!(
            answer_to(imported, "conv-7/2").as_deref(),
            Some("two bowls")
        );
        assert_eq!(answer_to(imported, "conv-7/4").as_deref(), Some("three"));
    }
}

#[test]
fn a_row_that_stands_twice_is_taken_once_and_a_contradiction_is_refused() {
    let mut second = second_conversation();
    second.push(second[0].clone());
    let imported = Case::of(mem0(&first_conversation(), &second).to_string()).imported();
    assert_eq!(found(&imported, Oddity::RowRepeated), 1);
    assert_eq!(answers(&imported).len(), 6);
    second[2]["llm_score"] = json!(0);
    let case = Case::of(mem0(&first_conversation(), &second).to_string());
    insta::assert_snapshot!(case.refusal(), @"DIR/results-0: conversation 1 row 0 and conversation 1 row 2 are both about question conv-9/0, and say different things; take one of them out");
}

#[test]
fn a_conversation_that_stands_twice_is_refused() {
    let rows = json!(second_conversation());
    let case = Case::of(format!("{{\"1\": {rows}, \"1\": {rows}}}"));
    assert!(
        case.refusal().contains("`1` stands here twice"),
        "{}",
        case.refusal()
    );
}

/// locomo#6, memobase#79: the kind is the benchmark's, whatever a file calls it.
#[test]
fn categories_as_text_by_name_or_wrong_do_not_change_the_kind() {
    let mut first = first_conversation();
    first[0]["category"] = json!("2");
    first[1]["category"] = json!("single_hop");
    first[2]["category"] = json!(1);
    let imported = Case::of(mem0(&first, &second_conversation()).to_string()).imported();
    let counts = [
        Oddity::CategoryAsText,
        Oddity::CategoryNamed,
        Oddity::CategoryDiffers,
    ]
    .map(|oddity| found(&imported, oddity));
    assert_eq!(counts, [1, 1, 1]);
    let kinds: Vec<String> = answers(&imported).into_iter().map(|a| a.kind).collect();
    assert_eq!(
        kinds[..4],
        ["temporal", "single-hop", "single-hop", "single-hop"]
    );
}

#[test]
fn a_gold_answer_that_differs_is_reported() {
    let mut first = first_conversation();
    first[1]["answer"] = json!("jade");
    let imported = Case::of(mem0(&first, &second_conversation()).to_string()).imported();
    assert_eq!(found(&imported, Oddity::GoldDiffers), 1);
}

/// taosmd#176 and its kin: no label is guessed, and none is dropped.
#[test]
fn labels_that_are_none_are_unparsed_or_failed_never_wrong() {
    let mut first = first_conversation();
    first[0]["llm_score"] = json!("INCORRECT");
    first[1]["llm_score"] = json!(0.5);
    first[2]["llm_score"] = Value::Null;
    first[3].as_object_mut().unwrap().remove("llm_score");
    let imported = Case::of(mem0(&second_conversation(), &first).to_string());
    assert!(
        imported.import().is_err(),
        "the conversations are exchanged"
    );
    let imported = Case::of(mem0(&first, &second_conversation()).to_string()).imported();
    let outcomes: Vec<_> = judgments(&imported)
        .into_iter()
        .map(|j| (j.outcome, j.score))
        .collect();
    use JudgmentOutcome::{Correct, Failed, Unparsed};
    assert_eq!(
        outcomes,
        [
            (Unparsed, None),
            (Unparsed, Some(0.5)),
            (Failed, None),
            (Failed, None),
            (Correct, None),
            (Correct, None)
        ]
    );
    assert!(imported.report.is_complete());
}

#[test]
fn answers_that_are_empty_missing_or_no_text() {
    let mut first = first_conversation();
    first[0]["response"] = json!(" ");
    first[1]["response"] = Value::Null;
    first[2]["response"] = json!(2);
    let imported = Case::of(mem0(&first, &second_conversation()).to_string()).imported();
    let outcomes: Vec<_> = answers(&imported)
        .into_iter()
        .map(|a| (a.outcome, a.text))
        .collect();
    assert_eq!(outcomes[0], (AnswerOutcome::Empty, Some(" ".into())));
    assert_eq!(outcomes[1], (AnswerOutcome::Failed, None));
    assert_eq!(outcomes[2], (AnswerOutcome::Answered, Some("2".into())));
}

fn judged(rows: &[Value], judgments: &Value) -> Vec<Value> {
    let with = |row: &Value| {
        json!({"question": row["question"], "golden_answer": row["answer"], "answer": row["response"],
               "generated_answer": row["response"], "category": row["category"],
               "llm_judgments": judgments, "response_duration_ms": 7.5})
    };
    rows.iter().map(with).collect()
}

#[test]
fn several_judge_runs_are_repetitions_in_the_order_of_their_numbers() {
    let votes = json!({"judgment_10": false, "judgment_2": true, "judgment_1": true});
    let (first, second) = (
        judged(&first_conversation(), &votes),
        judged(&second_conversation(), &votes),
    );
    let imported = Case::of(mem0(&first, &second).to_string()).imported();
    assert_eq!(imported.report.format, Format::Evermemos);
    let of_first: Vec<_> = judgments(&imported)
        .into_iter()
        .take(3)
        .map(|j| j.outcome)
        .collect();
    use JudgmentOutcome::{Correct, Wrong};
    assert_eq!(of_first, [Correct, Correct, Wrong]);
    assert_eq!(answers(&imported)[0].milliseconds, Some(7.5));
    let mut uneven = second;
    uneven[1]["llm_judgments"] = json!({"judgment_1": true});
    let imported = Case::of(mem0(&first, &uneven).to_string()).imported();
    assert_eq!(found(&imported, Oddity::JudgmentsUneven), 1);
    assert!(!imported.report.is_complete());
    assert!(imported.run.read_complete().is_err());
}

#[test]
fn results_with_ids_name_reader_and_judge_and_text_outweighs_a_wrong_id() {
    let votes = json!({"judgment_1": true});
    let mut first = judged(&first_conversation(), &votes);
    for (row, index) in first.iter_mut().zip([0, 1, 2, 4]) {
        row["question_id"] = json!(format!("locomo_0_qa{index}"));
    }
    first[1]["question_id"] = json!("locomo_0_qa0");
    let file = json!({
        "detailed_results": {"user_0": first, "user_1": judged(&second_conversation(), &votes)},
        "metadata": {"answer_model": "reader-1", "judge_model": "judge-1", "base_url": "https://models.test"},
    });
    let imported = Case::of(file.to_string()).imported();
    assert_eq!(imported.report.format, Format::EvalResults);
    assert_eq!(found(&imported, Oddity::IndexDiffers), 1);
    assert_eq!(
        answer_to(&imported, "conv-7/1").as_deref(),
        Some("a green glaze")
    );
    assert_eq!(judgments(&imported)[0].judge, "judge-1");
    let models = &imported.run.manifest().models;
    assert_eq!(models["reader"].name, "reader-1");
    assert_eq!(
        models["judge"].endpoint.as_deref(),
        Some("https://models.test")
    );
}

#[test]
fn responses_add_durations_to_the_grades_that_they_are_of() {
    let rows = |rows: &[Value], field: &str, value: Value| -> Vec<Value> {
        let with = |row: &Value| {
            json!({"question": row["question"], "golden_answer": row["answer"],
                   "answer": row["response"], "category": row["category"], field: value})
        };
        rows.iter().map(with).collect()
    };
    let (first, second) = (first_conversation(), second_conversation());
    let grades = json!({"user_0": rows(&first, "grade", json!(true)), "user_1": rows(&second, "grade", json!(false))});
    let mut responses = json!({"user_0": rows(&first, "duration_ms", json!(12.5)), "user_1": rows(&second, "duration_ms", json!(12.5))});
    responses["user_1"][0]["answer"] = json!("a cousin");
    let case = Case::of(responses.to_string()).and(grades.to_string());
    let imported = case.imported();
    assert_eq!(
        (imported.report.format, imported.report.repetitions),
        (Format::Zep, 1)
    );
    assert_eq!(found(&imported, Oddity::ResponseDiffers), 1);
    assert_eq!(found(&imported, Oddity::ResponseMissing), 1);
    let timed = answers(&imported)
        .iter()
        .filter(|a| a.milliseconds == Some(12.5))
        .count();
    assert_eq!(timed, 5);
    let alone = Case::of(responses.to_string());
    assert!(alone.refusal().contains("give the file of grades with it"));
}

#[test]
fn several_files_are_repetitions_and_each_must_be_whole() {
    let file = mem0(&first_conversation(), &second_conversation()).to_string();
    let imported = Case::of(&file).and(&file).imported();
    assert_eq!(imported.run.manifest().expected.answers, 2);
    assert_eq!(imported.run.read_complete().unwrap().judgments.len(), 12);
    let short = mem0(&first_conversation(), &second_conversation()[..1]).to_string();
    let imported = Case::of(&file).and(short).imported();
    let error = imported.run.read_complete().unwrap_err();
    assert!(
        matches!(
            error,
            RecordError::Incomplete {
                found: 5,
                expected: 6,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_conversation_of_no_known_name_is_joined_by_text_alone() {
    let file = json!({"potters": first_conversation(), "1": second_conversation()});
    let imported = Case::of(file.to_string()).imported();
    assert_eq!(found(&imported, Oddity::ConversationUnknown), 1);
    assert!(imported.report.is_complete());
}

/// memorybench#82: the abstention question is of its kind by its id; LongMemEval's own labels.
#[test]
fn longmemeval_hypotheses_are_joined_by_id_graded_or_not() {
    let question = |id: &str| {
        json!({"question_id": id, "question_type": "multi-session", "question": "Which day?",
               "answer": "Monday", "question_date": "2023/05/30 (Tue) 23:40",
               "haystack_dates": ["2023/05/20 (Sat) 02:21"], "haystack_session_ids": ["s1"],
               "haystack_sessions": [[{"role": "user", "content": "On Monday."}]],
               "answer_session_ids": ["s1"]})
    };
    let line = |id: &str, label: Option<bool>| match label {
        Some(label) => json!({"question_id": id, "hypothesis": "Monday",
                              "autoeval_label": {"model": "judge-2", "label": label}}),
        None => json!({"question_id": id, "hypothesis": "Monday"}),
    };
    let lines = |lines: &[Value]| lines.iter().map(|l| format!("{l}\n")).collect::<String>();
    let case = |content: String| {
        let mut case = Case::of(content);
        let benchmark = json!([question("q1"), question("q2_abs")]);
        fs::write(
            case.folder.path().join("locomo.json"),
            benchmark.to_string(),
        )
        .unwrap();
        case.exclude.clear();
        case
    };
    let graded = lines(&[line("q2_abs", Some(true)), line("q1", Some(false))]);
    let imported = case(graded.clone()).imported();
    assert_eq!(imported.report.format, Format::Longmemeval);
    let of: Vec<_> = judgments(&imported)
        .into_iter()
        .map(|j| (j.question, j.judge, j.outcome))
        .collect();
    assert_eq!(
        of[0],
        ("q1".into(), "judge-2".into(), JudgmentOutcome::Wrong)
    );
    assert_eq!(
        of[1],
        ("q2_abs".into(), "judge-2".into(), JudgmentOutcome::Correct)
    );
    let ungraded = case(lines(&[line("q1", None), line("q2_abs", None)])).imported();
    assert!(ungraded.run.read_complete().unwrap().judgments.is_empty());
    let half = case(lines(&[line("q1", Some(true)), line("q2_abs", None)])).imported();
    assert_eq!(judgments(&half)[1].outcome, JudgmentOutcome::Failed);

    // A torn last line is left out; its question is missing.
    let torn = case(graded[..graded.len() - 9].to_owned()).imported();
    assert_eq!(found(&torn, Oddity::LineTorn), 1);
    assert_eq!(torn.report.missing["multi-session"].first, ["q1"]);
    // Damage anywhere else is an error.
    let damaged = graded.replace(
        "\"hypothesis\":\"Monday\",\"question_id\":\"q1\"",
        "\"hypothesis\":Monday",
    );
    insta::assert_snapshot!(case(damaged).refusal(), @"DIR/results-0 line 2 column 66: expected value; it is no JSON there; where Python wrote NaN, put null");
}

#[test]
fn memoryagentbench_results_stand_alone_and_say_so() {
    let line = |instance: u32, pair: u32, correct: bool, error: Value| {
        json!({"source": "facts_6k", "instance_id": format!("facts_6k#{instance}"),
               "qa_pair_id": format!("facts_6k_no{pair}"), "prompt": "Who?", "answer": "Ada",
               "golds": ["Ada", "Ada L."], "correct": correct, "error": error, "score": 0.75})
    };
    let lines = [
        line(0, 0, true, Value::Null),
        line(1, 0, false, Value::Null),
        line(1, 1, true, json!("timeout")),
    ];
    let text: String = lines.iter().map(|l| format!("{l}\n")).collect();
    let mut case = Case::of(&text);
    (case.with_benchmark, case.exclude) = (false, Vec::new());
    let imported = case.imported();
    assert!(imported.report.questions_from_results);
    assert!(
        imported
            .report
            .to_string()
            .contains("no benchmark file says which are missing")
    );
    let records = imported.run.read_complete().unwrap();
    let first = &records.answers[0];
    assert_eq!(first.source.as_deref(), Some("facts_6k"));
    assert_eq!(
        (first.conversation.as_str(), first.question.as_str()),
        ("facts_6k#0", "facts_6k_no0")
    );
    let last = (&records.answers[2], &records.judgments[2]);
    assert_eq!(
        (last.0.outcome, last.1.outcome),
        (AnswerOutcome::Failed, JudgmentOutcome::Failed)
    );
    assert_eq!(records.judgments[0].score, Some(0.75));

    let mut other = Case::of(text.replace("\"correct\":false", "\"correct\":true"));
    (other.with_benchmark, other.exclude) = (false, Vec::new());
    let (a, b) = (
        imported.run.manifest().data.clone(),
        other.imported().run.manifest().data.clone(),
    );
    assert_eq!(a, b, "the same questions are the same data");
}

#[test]
fn a_run_without_text_holds_none() {
    let mut case = Case::of(mem0(&first_conversation(), &second_conversation()).to_string());
    case.text = false;
    let imported = case.import().unwrap();
    let records = imported.run.read_complete().unwrap();
    assert!(
        records
            .answers
            .iter()
            .all(|a| a.text.is_none() && a.error.is_none())
    );
    assert_eq!(records.answers[1].words, Some(3));
    for entry in fs::read_dir(case.out()).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        for said in ["glaze", "bowls", "aunt"] {
            assert!(!text.contains(said), "{text}");
        }
    }
}

#[test]
fn a_file_of_no_known_format_is_told_what_is_known() {
    let case = Case::of(json!({"scores": [1, 2], "name": "x"}).to_string());
    insta::assert_snapshot!(case.refusal());
}

#[test]
fn a_format_that_is_named_is_read_as_that() {
    let mut rows = first_conversation();
    rows[0].as_object_mut().unwrap().remove("llm_score");
    let mut case = Case::of(json!({"detailed_results": rows}).to_string());
    case.exclude.extend(["conv-9/0".into(), "conv-9/1".into()]);
    assert!(case.refusal().contains("no known result format"));
    case.format = Some(Format::Mirix);
    assert_eq!(found(&case.imported(), Oddity::LabelMissing), 1);
    let mut case = Case::of(mem0(&first_conversation(), &[]).to_string());
    case.format = Some(Format::Evermemos);
    insta::assert_snapshot!(case.refusal(), @"DIR/results-0 line 1 column 128: 0[0]: missing field `llm_judgments`; the file is of another format, or damaged; say which with --format");
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let file = mem0(&first_conversation(), &second_conversation()).to_string();
    let mut case = Case::of(&file);
    case.exclude = vec!["five".into()];
    insta::assert_snapshot!(case.refusal(), @"nothing is called five to exclude: name a question's id, or one of the kinds adversarial, multi-hop, open-domain, single-hop, temporal");
    let mut case = Case::of(&file);
    case.with_benchmark = false;
    insta::assert_snapshot!(case.refusal(), @"mem0 names questions of locomo; give that benchmark's file with --benchmark-file");
    let case = Case::of(&file).and(json!({"detailed_results": first_conversation()}).to_string());
    insta::assert_snapshot!(case.refusal(), @"DIR/results-1 is mirix and DIR/results-0 is mem0; import files of one format together");
    let other = [row("What is the capital?", "Oslo", "Oslo", 4, 1)];
    let case = Case::of(mem0(&other, &[]).to_string());
    insta::assert_snapshot!(case.refusal(), @"DIR/results-0: none of its 1 rows is about a question of the benchmark; is it about another benchmark, or another release? conversation 0 row 0 asks: What is the capital?");
    let case = Case::of(&file);
    case.import().unwrap();
    let again = case.import().unwrap_err().to_string();
    assert!(
        again.ends_with("is there already; name another folder, or remove it"),
        "{again}"
    );
}

/// Truncated, mistyped, empty, huge, not UTF-8, nested: a message with a place, and no run.
#[test]
fn hostile_files_are_refused_with_their_place() {
    let file = mem0(&first_conversation(), &second_conversation()).to_string();
    let mut wrong = first_conversation();
    wrong[1]["question"] = json!(["a", "list"]);
    let mut not_utf8 = file.clone().into_bytes();
    not_utf8[100] = 0xff;
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("cut", file.as_bytes()[..file.len() / 2].to_vec()),
        (
            "no question",
            br#"{"0": [{"llm_score": 1, "response": "x"}]}"#.to_vec(),
        ),
        (
            "question is a list",
            mem0(&wrong, &[]).to_string().into_bytes(),
        ),
        (
            "rows are numbers",
            br#"{"0": [{"llm_score": 1, "question": "q"}, 7]}"#.to_vec(),
        ),
        ("empty", Vec::new()),
        ("blank", b" \n\t\n".to_vec()),
        ("empty object", b"{}".to_vec()),
        ("empty list", b"[]".to_vec()),
        ("a number", b"17".to_vec()),
        ("not UTF-8", not_utf8),
        ("a binary file", vec![0x50, 0x4b, 3, 4, 0, 0, 0xff]),
        (
            "NaN",
            file.replacen("\"llm_score\":1", "\"llm_score\":NaN", 1)
                .into_bytes(),
        ),
        ("nested", "[".repeat(100_000).into_bytes()),
        (
            "a huge line",
            format!("{{\"x\": \"{}\"}}", "y".repeat(20_000_000)).into_bytes(),
        ),
        ("more after the end", format!("{file} {file}").into_bytes()),
        (
            "a number too large",
            br#"{"0": [{"llm_score": 1e999, "question": "q"}]}"#.to_vec(),
        ),
    ];
    let said: Vec<String> = cases
        .into_iter()
        .map(|(name, content)| {
            let message = Case::of(content).refusal();
            format!("{name}\n  {}\n", message.lines().next().unwrap_or_default())
        })
        .collect();
    insta::assert_snapshot!(said.concat());
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let mut case = Case::of("");
    case.files = vec![case.folder.path().join("nowhere.json")];
    assert!(case.refusal().starts_with("DIR/nowhere.json: "));
}
