//! What a run promises about its records: nothing lost, nothing twice, nothing silently smaller.

use std::fs;
use std::io::Write;
use std::path::Path;

use proptest::prelude::*;
use rawrag_records::{
    Answer, AnswerOutcome, Assessment, AssessmentOutcome, Code, Data, EvidenceItem, Expected,
    History, Ingestion, Judgment, JudgmentOutcome, Key, Level, Machine, Manifest, Phase, Pruning,
    Record, RecordError, Retrieval, Run, SCHEMA_VERSION, Search, SearchOutcome, Selection,
    SelectionOutcome, StoredObject, System, WriteDecision, WriteEvent,
};
use serde_json::json;

fn retrieval(question: &str) -> Retrieval {
    Retrieval {
        benchmark: "locomo".into(),
        source: None,
        conversation: "conv-0".into(),
        question: question.into(),
        phase: None,
        kind: "temporal".into(),
        gold_messages: vec![3],
        gold_sessions: vec![0],
        gold_written: vec!["D1:4".into()],
        available: 140,
        shortlist: 128,
        requested: 2,
        chunks: vec![7, 0],
        first_message: vec![3, 0],
        last_message: vec![5, 2],
        first_session: vec![0, 0],
        last_session: vec![1, 0],
        dense_score: vec![0.25, 0.1],
        dense_rank: vec![1, 9],
        score: vec![1.5, -0.3],
        tokens: vec![210, 198],
        evidence_tokens: vec![408],
        milliseconds: 1.25,
    }
}

fn manifest(records: &[Retrieval]) -> Manifest {
    let keys: Vec<Key> = records.iter().map(Retrieval::question_key).collect();
    Manifest {
        schema: SCHEMA_VERSION,
        name: "test".into(),
        system: System {
            name: "raw-rag".into(),
            version: "1".into(),
        },
        benchmark: "locomo".into(),
        data: Data {
            sha256: "ab".into(),
            release: None,
        },
        expected: Expected::of(&keys),
        settings: json!({"retrieval": {"k": 15, "shortlist": 128}}),
        models: Default::default(),
        prompts: Default::default(),
        seed: 0,
        code: Code {
            version: "0".into(),
            sources: "cd".into(),
        },
        machine: Machine::default(),
        started: "2026-01-01T00:00:00Z".into(),
    }
}

fn lines(folder: &Path) -> std::path::PathBuf {
    folder.join("retrievals.jsonl")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// memorybench#57: whatever byte the process was stopped at, resuming gives the records of an
    /// undisturbed run.
    #[test]
    fn a_run_cut_at_any_byte_resumes_to_the_same_records(count in 1usize..5, cut in 0.0..1.0f64) {
        let wanted: Vec<Retrieval> = (0..count).map(|i| retrieval(&format!("q{i} \u{2028}é"))).collect();
        let folder = tempfile::tempdir()?;
        let run = Run::resume(folder.path(), manifest(&wanted))?;
        let (mut appender, _) = run.appender()?;
        for record in &wanted {
            appender.append(record)?;
        }
        drop((appender, run));
        let bytes = fs::read(lines(folder.path()))?;
        fs::write(lines(folder.path()), &bytes[..(bytes.len() as f64 * cut) as usize])?;

        let run = Run::resume(folder.path(), manifest(&wanted))?;
        let (mut appender, held) = run.appender::<Retrieval>()?;
        prop_assert_eq!(&held[..], &wanted[..held.len()]);
        for record in &wanted {
            if !appender.holds(&record.identity()) {
                appender.append(record)?;
            }
        }
        prop_assert_eq!(fs::read(lines(folder.path()))?, bytes);
        run.require_complete(&run.read::<Retrieval>()?)?;
    }
}

#[test]
fn damage_before_the_last_line_is_an_error_that_names_the_line() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::resume(folder.path(), manifest(&[])).unwrap();
    let (mut appender, _) = run.appender().unwrap();
    appender.append(&retrieval("q0")).unwrap();
    let mut file = fs::File::options()
        .append(true)
        .open(lines(folder.path()))
        .unwrap();
    file.write_all(b"{\"benchmark\": \"loc\n").unwrap();
    let error = run.read::<Retrieval>().unwrap_err();
    assert!(
        matches!(error, RecordError::Damaged { line: 2, .. }),
        "{error}"
    );
}

#[test]
fn the_same_question_twice_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::resume(folder.path(), manifest(&[])).unwrap();
    let (mut appender, _) = run.appender().unwrap();
    appender.append(&retrieval("q0")).unwrap();
    assert!(matches!(
        appender.append(&retrieval("q0")),
        Err(RecordError::Duplicate { .. })
    ));
    let mut after = retrieval("q0");
    after.phase = Some(Phase::After);
    appender.append(&after).unwrap();
    let text = fs::read_to_string(lines(folder.path())).unwrap();
    fs::write(lines(folder.path()), format!("{text}{text}")).unwrap();
    let error = run.read::<Retrieval>().unwrap_err();
    assert!(
        matches!(error, RecordError::Duplicate { line: 3, .. }),
        "{error}"
    );
}

/// goldenmatch#2591: a run taken up under other settings measures nothing.
#[test]
fn other_settings_are_refused_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let begun = manifest(&[]);
    drop(Run::resume(folder.path(), begun.clone()).unwrap());
    let mut other = begun.clone();
    other.settings["retrieval"]["k"] = json!(20);
    other.data.release = Some("release".into());
    other.machine.cores = 64;
    let error = Run::resume(folder.path(), other).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("settings.retrieval.k: 15 -> 20"), "{text}");
    assert!(text.contains("data.release: null -> \"release\""), "{text}");
    assert!(!text.contains("cores"), "{text}");
    assert!(Run::resume(folder.path(), begun).is_ok());
}

/// qdrant-client#1018: one owner at a time, and the message says which.
#[test]
fn a_run_being_written_names_its_owner() {
    let folder = tempfile::tempdir().unwrap();
    let _owner = Run::resume(folder.path(), manifest(&[])).unwrap();
    let error = Run::resume(folder.path(), manifest(&[])).unwrap_err();
    assert!(
        error
            .to_string()
            .contains(&format!("process {}", std::process::id())),
        "{error}"
    );
    assert!(Run::open(folder.path()).is_ok());
}

#[test]
fn an_incomplete_run_is_never_silently_smaller() {
    let all = [retrieval("q0"), retrieval("q1")];
    let folder = tempfile::tempdir().unwrap();
    let run = Run::resume(folder.path(), manifest(&all)).unwrap();
    assert!(matches!(
        run.require_complete(&all[..1]),
        Err(RecordError::Incomplete {
            found: 1,
            expected: 2,
            ..
        })
    ));
    let other = [retrieval("q0"), retrieval("q2")];
    assert!(matches!(
        run.require_complete(&other),
        Err(RecordError::OtherQuestions { .. })
    ));
    let swapped = [all[1].clone(), all[0].clone()];
    run.require_complete(&swapped).unwrap();
}

#[test]
fn schemas_name_every_field_of_their_records() {
    fn check<R: Record>(record: &R) {
        let value = serde_json::to_value(record).unwrap();
        let mut fields: Vec<_> = value.as_object().unwrap().keys().cloned().collect();
        let mut columns: Vec<_> = R::SCHEMA.columns.iter().map(|c| c.0.to_owned()).collect();
        fields.sort();
        columns.sort();
        assert_eq!(fields, columns, "{}", R::SCHEMA.kind);
    }
    check(&retrieval("q"));
    check(&history());
    check(&answer("q", 0));
    check(&judgment("q", 0, 0));
    check(&search("q", 0));
    check(&item("q", 1));
    check(&ingestion());
    check(&stored());
    check(&decision());
    check(&assessment("q", "rule"));
    check(&selection());
    check(&pruning());
}

fn selection() -> Selection {
    Selection {
        benchmark: "locomo".into(),
        source: None,
        conversation: "conv-0".into(),
        question: "q0".into(),
        phase: None,
        outcome: SelectionOutcome::Selected,
        order: vec![1, 0],
        kept: 1,
        probabilities: vec![0.25, 0.75],
        reply: None,
        error: None,
        requests: 1,
        prompt_sha256: Some("ef".into()),
        milliseconds: 273.0,
    }
}

fn pruning() -> Pruning {
    Pruning {
        benchmark: "locomo".into(),
        source: None,
        conversation: "conv-0".into(),
        question: "q0".into(),
        phase: Some(Phase::After),
        outcome: AnswerOutcome::Answered,
        text: Some("Mara keeps bees".into()),
        tokens_before: 31,
        tokens: Some(5),
        error: None,
        model: Some("pruner".into()),
        prompt_sha256: None,
        input_tokens: None,
        output_tokens: Some(6),
        milliseconds: 900.0,
    }
}

fn search(question: &str, returned: u32) -> Search {
    Search {
        benchmark: "locomo".into(),
        source: None,
        conversation: "conv-0".into(),
        question: question.into(),
        phase: None,
        kind: "temporal".into(),
        gold_messages: vec![3],
        gold_sessions: vec![],
        visibility: "prefix".into(),
        outcome: SearchOutcome::Found,
        error: None,
        requested: 40,
        returned,
        evidence_tokens: 31,
        milliseconds: 2.5,
    }
}

fn item(question: &str, rank: u32) -> EvidenceItem {
    EvidenceItem {
        benchmark: "locomo".into(),
        source: None,
        conversation: "conv-0".into(),
        question: question.into(),
        phase: None,
        rank,
        text: Some("Mara keeps bees \u{1f41d}".into()),
        tokens: 7,
        messages: (rank > 1).then(|| vec![3, 4]),
        sessions: Some(vec![]),
        date: None,
        score: Some(0.1),
        stored: None,
    }
}

fn ingestion() -> Ingestion {
    Ingestion {
        conversation: "conv-0".into(),
        unit: 0,
        first_message: 0,
        last_message: 4,
        tokens: 90,
        milliseconds: 12.0,
        ready_milliseconds: None,
    }
}

fn stored() -> StoredObject {
    StoredObject {
        conversation: "conv-0".into(),
        phase: Some(Phase::Before),
        number: 0,
        id: "m1".into(),
        text: Some("keeps bees".into()),
        tokens: 3,
        messages: None,
        sessions: Some(vec![0, 2]),
        date: Some("2031-03-01 09:00".into()),
        perspective: None,
    }
}

fn decision() -> WriteDecision {
    WriteDecision {
        conversation: "conv-0".into(),
        number: 0,
        unit: None,
        level: Level::Persisted,
        event: WriteEvent::Update,
        memory: Some("m1".into()),
        old: Some("keeps a bee".into()),
        new: Some("keeps bees".into()),
        changed: Some(true),
        perspective: None,
    }
}

fn assessment(question: &str, assessor: &str) -> Assessment {
    Assessment {
        benchmark: "locomo".into(),
        source: None,
        conversation: "conv-0".into(),
        question: question.into(),
        phase: None,
        kind: "temporal".into(),
        assessor: assessor.into(),
        repetition: 0,
        outcome: AssessmentOutcome::Assessed,
        sufficient: Some(true),
        result: None,
        path: None,
        components: Some(r#"{"value":true}"#.into()),
        reply: None,
        error: None,
        prompt_sha256: None,
    }
}

/// A run of two questions put to a memory system, the second with nothing found.
fn asked_run(folder: &Path) -> Result<Run, RecordError> {
    let questions = [retrieval("q0"), retrieval("q1")];
    let mut manifest = manifest(&questions);
    manifest.expected = manifest.expected.assessed("rule", 1);
    let run = Run::resume(folder, manifest)?;
    run.appender()?
        .0
        .append_all(&[item("q0", 1), item("q0", 2)])?;
    run.appender()?
        .0
        .append_all(&[search("q0", 2), search("q1", 0)])?;
    Ok(run)
}

#[test]
fn a_search_counts_only_with_all_its_evidence() {
    let folder = tempfile::tempdir().unwrap();
    let run = asked_run(folder.path()).unwrap();
    let error = run.read_complete().unwrap_err();
    assert!(
        matches!(
            error,
            RecordError::Incomplete {
                kind: "assessments",
                found: 0,
                ..
            }
        ),
        "{error}"
    );
    let of = |question| assessment(question, "rule");
    run.appender()
        .unwrap()
        .0
        .append_all(&[of("q0"), of("q1")])
        .unwrap();
    assert_eq!(run.read_complete().unwrap().evidence.len(), 2);

    let (mut evidence, _) = run.appender::<EvidenceItem>().unwrap();
    evidence.append(&item("q2", 1)).unwrap();
    let error = run.read_complete().unwrap_err();
    assert!(matches!(error, RecordError::Unexpected { .. }), "{error}");
    let searches: Vec<Key> = run
        .read::<Search>()
        .unwrap()
        .iter()
        .map(Search::question_key)
        .collect();
    let kept = evidence
        .retain(|item| searches.contains(&item.question_key()))
        .unwrap();
    assert_eq!(kept, [item("q0", 1), item("q0", 2)]);
    run.read_complete().unwrap();

    // What was taken out may come again, and goes to the file that is there now.
    evidence.append(&item("q2", 1)).unwrap();
    assert_eq!(run.read::<EvidenceItem>().unwrap().len(), 3);
    evidence
        .retain(|item| item.question != "q2" && item.rank == 1)
        .unwrap();
    let error = run.read_complete().unwrap_err();
    assert!(
        matches!(
            error,
            RecordError::Incomplete {
                kind: "evidence",
                found: 1,
                ..
            }
        ),
        "{error}"
    );
}

fn answer(question: &str, repetition: u32) -> Answer {
    Answer {
        benchmark: "locomo".into(),
        source: None,
        conversation: "conv-0".into(),
        question: question.into(),
        phase: None,
        kind: "temporal".into(),
        repetition,
        outcome: AnswerOutcome::Answered,
        text: Some("in May \u{2028}".into()),
        words: Some(2),
        error: None,
        model: Some("reader-1".into()),
        prompt_sha256: None,
        input_tokens: Some(812),
        output_tokens: None,
        milliseconds: Some(20.5),
    }
}

fn judgment(question: &str, repetition: u32, judge_repetition: u32) -> Judgment {
    Judgment {
        benchmark: "locomo".into(),
        source: None,
        conversation: "conv-0".into(),
        question: question.into(),
        phase: None,
        kind: "temporal".into(),
        repetition,
        judge: "judge-1".into(),
        judge_repetition,
        outcome: JudgmentOutcome::Unparsed,
        score: Some(0.5),
        reply: Some("it depends".into()),
        error: None,
        prompt_sha256: None,
    }
}

/// Two questions, each answered twice, each answer graded twice.
fn judged_run(folder: &Path) -> Result<(Run, Vec<Answer>, Vec<Judgment>), RecordError> {
    let mut manifest = manifest(&[retrieval("q0"), retrieval("q1")]);
    manifest.expected = manifest.expected.answered(2).judged("judge-1", 2);
    let pairs = || ["q0", "q1"].into_iter().flat_map(|q| [(q, 0), (q, 1)]);
    let answers = pairs().map(|(q, again)| answer(q, again)).collect();
    let judgments = pairs().flat_map(|(q, again)| [judgment(q, again, 0), judgment(q, again, 1)]);
    let judgments = judgments.collect();
    Ok((Run::resume(folder, manifest)?, answers, judgments))
}

#[test]
fn a_run_is_complete_with_every_repetition_once() {
    let folder = tempfile::tempdir().unwrap();
    let (run, answers, judgments) = judged_run(folder.path()).unwrap();
    run.appender().unwrap().0.append_all(&answers).unwrap();
    let (mut appender, _) = run.appender::<Judgment>().unwrap();
    appender.append_all(&judgments[1..]).unwrap();
    let error = run.read_complete().unwrap_err();
    assert!(
        matches!(
            error,
            RecordError::Incomplete {
                kind: "judgments",
                found: 1,
                expected: 2,
                ..
            }
        ),
        "{error}"
    );
    // The same repetition again is an error, and nothing of the batch is written.
    let twice = [judgments[0].clone(), judgments[1].clone()];
    let error = appender.append_all(&twice).unwrap_err();
    assert!(matches!(error, RecordError::Duplicate { .. }), "{error}");
    appender.append(&judgments[0]).unwrap();
    let complete = run.read_complete().unwrap();
    assert_eq!((complete.answers.len(), complete.judgments.len()), (4, 8));
    // One more than the run was begun for is no silent surplus.
    appender.append(&judgment("q0", 0, 2)).unwrap();
    let error = run.read_complete().unwrap_err();
    assert!(
        error.to_string().contains("answer 0 by judge-1 2"),
        "{error}"
    );
}

#[test]
fn a_run_that_only_retrieves_is_still_complete_and_its_manifest_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::resume(folder.path(), manifest(&[retrieval("q0")])).unwrap();
    run.appender().unwrap().0.append(&retrieval("q0")).unwrap();
    assert_eq!(run.read_complete().unwrap().retrievals.len(), 1);
    let text = fs::read_to_string(folder.path().join("manifest.json")).unwrap();
    assert!(
        !text.contains("\"answers\"") && !text.contains("\"judgments\""),
        "{text}"
    );
    assert_eq!(run.manifest().import(), None);
}

fn history() -> History {
    History {
        conversation: "conv-0".into(),
        sessions: vec!["session_1".into(), "session_2".into()],
        messages: 40,
        chunks: 12,
        truncated: 1,
        milliseconds: 80.0,
    }
}

#[cfg(feature = "frames")]
#[test]
fn packing_keeps_every_value() {
    let mut records = vec![retrieval("q0"), retrieval("q1 é"), retrieval("q2")];
    records[0].source = Some("eventqa".into());
    records[1].phase = Some(Phase::Before);
    records[1].chunks = vec![];
    records[1].gold_written = vec![];
    records[2].score = vec![f32::MIN_POSITIVE, 0.1];
    let folder = tempfile::tempdir().unwrap();
    drop(Run::resume(folder.path(), manifest(&records)).unwrap());
    let write = |name: &str| folder.path().join(name);
    rawrag_records::frames::write(&write("retrievals.parquet"), &records).unwrap();
    rawrag_records::frames::write(&write("histories.parquet"), &[history()]).unwrap();
    let run = Run::open(folder.path()).unwrap();
    assert_eq!(run.read::<Retrieval>().unwrap(), records);
    assert_eq!(run.read::<History>().unwrap(), [history()]);

    let folder = tempfile::tempdir().unwrap();
    let (run, mut answers, judgments) = judged_run(folder.path()).unwrap();
    answers[1].text = None;
    let write = |name: &str| folder.path().join(name);
    rawrag_records::frames::write(&write("answers.parquet"), &answers).unwrap();
    rawrag_records::frames::write(&write("judgments.parquet"), &judgments).unwrap();
    let complete = run.read_complete().unwrap();
    assert_eq!((complete.answers, complete.judgments), (answers, judgments));

    fn packed<R: Record + PartialEq + std::fmt::Debug>(records: &[R]) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("packed.parquet");
        rawrag_records::frames::write(&path, records).unwrap();
        assert_eq!(rawrag_records::frames::read::<R>(&path).unwrap(), records);
    }
    packed(&[search("q0", 2), search("q1", 0)]);
    packed(&[item("q0", 1), item("q0", 2)]);
    packed(&[ingestion()]);
    packed(&[stored()]);
    packed(&[decision()]);
    packed(&[assessment("q0", "rule")]);
    packed(&[selection()]);
    packed(&[pruning()]);
}
