//! Runs made so that every answer is known: where each message was lost, how much repeats, what a
//! ceiling takes, who is ahead, what it costs.
#![expect(
    clippy::unwrap_used,
    reason = "a test whose input cannot be made has failed"
)]

use rawrag_diagnostics::prices::Prices;
use rawrag_diagnostics::{Errata, Input, Outputs, Report, Settings, Value, diagnostic};
use rawrag_records::{
    AnswerOutcome, Complete, Consumption, EvidenceItem, Ingestion, Judgment, JudgmentOutcome,
    Retrieval, Search, SearchOutcome, StoredObject, Usage,
};
use rawrag_statistics::Replication;
use serde_json::json;

fn report(name: &str, runs: &[&Outputs], settings: Settings) -> Report {
    diagnostic(name)
        .unwrap()
        .report(&Input::new(runs, settings))
        .unwrap()
}

fn quick() -> Settings {
    Settings {
        replication: Replication {
            replicates: 200,
            seed: 0,
        },
        ..Settings::default()
    }
}

fn column<'a>(report: &'a Report, table: &str, column: &str) -> Vec<&'a Value> {
    let table = report.tables.iter().find(|t| t.name == table).unwrap();
    let at = table.columns.iter().position(|c| c.name == column).unwrap();
    table.rows.iter().map(|row| &row[at]).collect()
}

fn numbers(report: &Report, table: &str, name: &str) -> Vec<Option<f64>> {
    column(report, table, name)
        .into_iter()
        .map(Value::as_f64)
        .collect()
}

/// Chunks of one message each, in this order of score; `dense` are their ranks by cosine.
fn retrieval(
    question: &str,
    gold: &[u32],
    chunks: &[u32],
    dense: &[u32],
    shortlist: u32,
) -> Retrieval {
    Retrieval {
        benchmark: "own".into(),
        source: None,
        conversation: "a".into(),
        question: question.into(),
        phase: None,
        kind: "fact".into(),
        gold_messages: gold.to_vec(),
        gold_sessions: if gold.is_empty() { vec![] } else { vec![0] },
        gold_written: vec![],
        available: 10,
        shortlist,
        requested: 10,
        chunks: chunks.to_vec(),
        first_message: chunks.to_vec(),
        last_message: chunks.to_vec(),
        first_session: vec![0; chunks.len()],
        last_session: vec![0; chunks.len()],
        dense_score: vec![0.5; dense.len()],
        dense_rank: dense.to_vec(),
        score: (0..chunks.len()).map(|at| -(at as f32)).collect(),
        tokens: vec![10; chunks.len()],
        evidence_tokens: vec![10 * chunks.len() as u32],
        milliseconds: 2.0,
    }
}

fn search(question: &str, gold: &[u32], returned: u32) -> Search {
    Search {
        benchmark: "own".into(),
        source: None,
        conversation: "a".into(),
        question: question.into(),
        phase: None,
        kind: "fact".into(),
        gold_messages: gold.to_vec(),
        gold_sessions: vec![],
        visibility: "filter".into(),
        outcome: SearchOutcome::Found,
        error: None,
        requested: 5,
        returned,
        evidence_tokens: 100,
        milliseconds: 4.0,
    }
}

fn item(question: &str, rank: u32, messages: Option<&[u32]>, text: &str) -> EvidenceItem {
    EvidenceItem {
        benchmark: "own".into(),
        source: None,
        conversation: "a".into(),
        question: question.into(),
        phase: None,
        rank,
        text: Some(text.into()),
        tokens: 10,
        messages: messages.map(<[u32]>::to_vec),
        sessions: None,
        date: None,
        score: None,
        stored: None,
    }
}

fn stored(number: u32, messages: Option<&[u32]>) -> StoredObject {
    StoredObject {
        conversation: "a".into(),
        phase: None,
        number,
        id: number.to_string(),
        text: None,
        tokens: 5,
        messages: messages.map(<[u32]>::to_vec),
        sessions: None,
        date: None,
        perspective: None,
    }
}

fn judgment(question: &str, kind: &str, repetition: u32, outcome: JudgmentOutcome) -> Judgment {
    Judgment {
        benchmark: "own".into(),
        source: None,
        conversation: "a".into(),
        question: question.into(),
        phase: None,
        kind: kind.into(),
        repetition: 0,
        judge: "made".into(),
        judge_repetition: repetition,
        outcome,
        score: None,
        reply: None,
        error: None,
        prompt_sha256: None,
    }
}

fn points(run: &Outputs) -> Vec<String> {
    let report = report("failure", &[run], quick());
    let (questions, points) = (
        column(&report, "questions", "question"),
        column(&report, "questions", "point"),
    );
    let pairs = questions.iter().zip(points);
    pairs
        .map(|(q, p)| format!("{}: {}", q.written(), p.written()))
        .collect()
}

/// Two stages: ten chunks, of which a cosine passes on some and a second stage returns three. The
/// dense stage is credited only where it removed something and everything it passed on came back.
#[test]
fn a_loss_is_placed_where_the_records_show_it() {
    let run = Outputs::made(
        "two stages",
        Complete {
            retrievals: vec![
                retrieval("found", &[1], &[1, 2, 3], &[4, 5, 6], 10),
                retrieval("dropped", &[7], &[1, 2, 3], &[4, 5, 6], 10),
                retrieval("dense", &[7], &[1, 2, 3], &[3, 2, 1], 3),
                retrieval("either", &[7], &[1, 2, 3], &[4, 5, 6], 8),
                retrieval("partly", &[1, 7], &[1, 2, 3], &[4, 5, 6], 10),
                retrieval("no gold", &[], &[1, 2, 3], &[4, 5, 6], 10),
                retrieval(
                    "all back",
                    &[77],
                    &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
                    &[9; 10],
                    10,
                ),
            ],
            ..Complete::default()
        },
    );
    // That of "no gold" cannot fail: nothing was to be found.
    assert_eq!(
        points(&run),
        [
            "all back: not stored",
            "dense: not shortlisted",
            "dropped: dropped by the selector",
            "either: unknown",
            "partly: dropped by the selector",
        ]
    );
}

/// In a run of one stage what is not among the k nearest is that stage's loss.
#[test]
fn of_one_stage_every_loss_is_its_own() {
    let run = Outputs::made(
        "one stage",
        Complete {
            retrievals: vec![retrieval("missed", &[7], &[1, 2, 3], &[1, 2, 3], 10)],
            ..Complete::default()
        },
    );
    assert_eq!(points(&run), ["missed: not shortlisted"]);
}

#[test]
fn what_a_budget_leaves_out_is_cut_and_what_is_shown_and_wrong_is_unused() {
    let mut cut = retrieval("cut", &[3], &[1, 2, 3], &[4, 5, 6], 10);
    cut.tokens[2] = 0;
    let wrong = |question| judgment(question, "fact", 0, JudgmentOutcome::Wrong);
    let mut run = Outputs::made(
        "budget",
        Complete {
            retrievals: vec![
                cut,
                retrieval("unused", &[3], &[1, 2, 3], &[4, 5, 6], 10),
                retrieval("right", &[3], &[1, 2, 3], &[4, 5, 6], 10),
            ],
            judgments: vec![
                wrong("cut"),
                wrong("unused"),
                judgment("right", "fact", 0, JudgmentOutcome::Correct),
            ],
            ..Complete::default()
        },
    );
    run.manifest.settings = json!({ "evidence": { "budget": 20 } });
    assert_eq!(
        points(&run),
        ["cut: cut by the budget", "unused: present but unused"]
    );
}

/// A memory system: what its store does not hold was never there, what its store holds and its
/// search left out cannot be placed, and without sources nothing can be said.
#[test]
fn a_store_tells_what_was_never_stored() {
    let complete = |objects: Vec<StoredObject>| Complete {
        searches: vec![
            search("absent", &[9], 1),
            search("kept", &[5], 1),
            search("shown", &[1], 1),
            search("sourceless", &[1], 1),
        ],
        evidence: vec![
            item("absent", 1, Some(&[1]), "x"),
            item("kept", 1, Some(&[1]), "x"),
            item("shown", 1, Some(&[1]), "x"),
            item("sourceless", 1, None, "x"),
        ],
        exports: objects,
        ..Complete::default()
    };
    let known = Outputs::made(
        "known",
        complete(vec![stored(0, Some(&[1])), stored(1, Some(&[5]))]),
    );
    assert_eq!(
        points(&known),
        ["absent: not stored", "kept: unknown", "sourceless: unknown"]
    );
    let untold = Outputs::made(
        "untold",
        complete(vec![stored(0, Some(&[1])), stored(1, None)]),
    );
    assert_eq!(
        points(&untold),
        ["absent: unknown", "kept: unknown", "sourceless: unknown"]
    );
}

/// Nine words, then the same nine: two runs of eight in each, of which the second item's two repeat.
#[test]
fn repeated_text_is_counted_by_runs_of_eight_words() {
    let words = "one two three four five six seven eight nine";
    let run = Outputs::made(
        "text",
        Complete {
            searches: vec![search("q", &[1], 2)],
            evidence: vec![
                item("q", 1, Some(&[0, 1]), words),
                item("q", 2, Some(&[1, 2]), words),
            ],
            ..Complete::default()
        },
    );
    let report = report("evidence", &[&run], quick());
    assert_eq!(numbers(&report, "items", "repeated text"), [Some(0.5)]);
    assert_eq!(numbers(&report, "items", "repeated messages"), [Some(0.25)]);
    assert_eq!(numbers(&report, "items", "formatting"), [Some(80.0)]);
    assert_eq!(
        numbers(&report, "novelty", "novelty"),
        [Some(1.0), Some(0.5)]
    );
    assert_eq!(numbers(&report, "position", "median rank"), [Some(1.0)]);
}

/// The same items with and without expansion: over the ceiling expansion goes first.
#[test]
fn a_run_and_its_plain_twin_make_the_expansion_aware_control() {
    let made = |name, tokens: [u32; 2], expand: bool| {
        let mut retrieval = retrieval("q", &[2], &[1, 2], &[1, 2], 10);
        retrieval.tokens = tokens.to_vec();
        retrieval.evidence_tokens = vec![tokens.iter().sum()];
        let mut run = Outputs::made(
            name,
            Complete {
                retrievals: vec![retrieval],
                ..Complete::default()
            },
        );
        run.manifest.system.name = "one".into();
        run.manifest.settings = json!({ "evidence": { "expand": expand, "cutoffs": [2] } });
        run
    };
    let (expanded, plain) = (
        made("expanded", [3_000, 3_000], true),
        made("plain", [1_000, 1_000], false),
    );
    let both = report("evidence", &[&expanded, &plain], quick());
    assert_eq!(
        column(&both, "ceiling", "control")[0].written(),
        "expansion-aware"
    );
    assert_eq!(
        numbers(&both, "ceiling", "capped mean"),
        [Some(2_000.0), Some(2_000.0)]
    );
    assert_eq!(
        numbers(&both, "ceiling", "gold lost"),
        [Some(0.0), Some(0.0)]
    );
    assert_eq!(numbers(&both, "expansion", "overhead"), [Some(2.0)]);
    let alone = report("evidence", &[&expanded], quick());
    assert_eq!(numbers(&alone, "ceiling", "capped mean"), [Some(3_000.0)]);
    assert_eq!(numbers(&alone, "ceiling", "gold lost"), [Some(1.0)]);
}

/// Two systems: `facts` is right on both facts, `dates` on both dates and one fact that is an
/// erratum. By question dates lead 3 to 2; without the erratum they tie; without dates facts lead.
#[test]
fn a_ranking_turns_with_weights_and_errata() {
    use JudgmentOutcome::{Correct, Wrong};
    let run = |name, right: [bool; 4]| {
        let kinds = ["fact", "fact", "date", "date"];
        let outcome = |right| if right { Correct } else { Wrong };
        let each = right.iter().zip(kinds).enumerate();
        let judgments =
            each.map(|(at, (&right, kind))| judgment(&format!("a/{at}"), kind, 0, outcome(right)));
        let answers = kinds
            .iter()
            .enumerate()
            .map(|(at, kind)| rawrag_records::Answer {
                benchmark: "own".into(),
                source: None,
                conversation: "a".into(),
                question: format!("a/{at}"),
                phase: None,
                kind: (*kind).into(),
                repetition: 0,
                outcome: AnswerOutcome::Answered,
                text: None,
                words: None,
                error: None,
                model: None,
                prompt_sha256: None,
                input_tokens: None,
                output_tokens: None,
                milliseconds: None,
            });
        Outputs::made(
            name,
            Complete {
                answers: answers.collect(),
                judgments: judgments.collect(),
                ..Complete::default()
            },
        )
    };
    let (facts, dates) = (
        run("facts", [true, true, false, false]),
        run("dates", [true, false, true, true]),
    );
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("errata.tsv");
    std::fs::write(
        &list,
        "# by hand\nconversation\tquestion\treason\na\t0\tambiguous\n",
    )
    .unwrap();
    let settings = Settings {
        errata: Errata::read(&list).unwrap(),
        ..quick()
    };
    let report = report("ranking", &[&facts, &dates], settings);
    let first = |at: usize| column(&report, "variants", "first")[at].written();
    assert_eq!(column(&report, "systems", "run")[0].written(), "dates");
    // Variants: by question, by kind, without dates, without facts; each with and without errata.
    assert_eq!([first(0), first(4), first(6)], ["dates", "facts", "dates"]);
    assert_eq!(numbers(&report, "pairs", "reversed"), [Some(2.0)]);
    assert_eq!(
        numbers(&report, "systems", "score"),
        [Some(0.75), Some(0.5)]
    );

    std::fs::write(&list, "conversation\tquestion\na\n").unwrap();
    let error = Errata::read(&list).unwrap_err().to_string();
    assert!(
        error.ends_with("line 2: a line needs a conversation and a question"),
        "{error}"
    );
}

/// Two ingestion units of 1 s and 2 s, ready after another 0.5 s; a write of a million tokens at
/// $0.15, half of it again from the cache at half the price.
#[test]
fn time_and_money_add_up() {
    let unit = |unit, ready| Ingestion {
        conversation: "a".into(),
        unit,
        first_message: unit * 2,
        last_message: unit * 2 + 1,
        tokens: 50,
        milliseconds: 1_000.0 * f64::from(unit + 1),
        ready_milliseconds: ready,
    };
    let usage = |number, stage: &str, input, cached| Usage {
        number,
        stage: stage.into(),
        model: "m".into(),
        address: "here".into(),
        outcome: "answered".into(),
        status: Some(200),
        input_tokens: Some(input),
        cached_input_tokens: cached,
        output_tokens: Some(0),
        searches: None,
        expected_input_tokens: input,
        expected_output_tokens: 0,
        milliseconds: 100.0,
    };
    let run = Outputs::made(
        "costs",
        Complete {
            searches: vec![search("q", &[1], 0), search("r", &[1], 0)],
            ingestions: vec![unit(0, None), unit(1, Some(500.0))],
            usage: vec![
                usage(0, "write", 1_000_000, Some(500_000)),
                usage(1, "read", 2_000, None),
                usage(2, "answer", 4_000, None),
            ],
            ..Complete::default()
        },
    );
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("prices.toml");
    let price = |dollars, day| {
        format!(
            "[[price]]\nmodel = \"m\"\ninput = {dollars}\ncached_input = 0.075\ndated = \"{day}\"\nsource = \"made\"\n"
        )
    };
    // The run is of 1970, so a later price does not hold.
    std::fs::write(&list, price(0.15, "1969-01-01") + &price(9.0, "1980-01-01")).unwrap();
    let settings = Settings {
        prices: Some(Prices::read(&list).unwrap()),
        ..quick()
    };
    let report = report("cost", &[&run], settings);
    assert_eq!(numbers(&report, "latency", "add"), [Some(3.5)]);
    assert_eq!(numbers(&report, "latency", "search"), [Some(0.008)]);
    assert_eq!(
        numbers(&report, "growth", "seconds"),
        [Some(1.0), Some(3.5)]
    );
    assert_eq!(
        numbers(&report, "growth", "messages"),
        [Some(2.0), Some(4.0)]
    );
    let close = |found: Option<f64>, expected: f64| (found.unwrap() - expected).abs() < 1e-12;
    let written = 0.5 * 0.15 + 0.5 * 0.075;
    let calls = numbers(&report, "calls", "dollars");
    assert!(close(calls[2], written), "{calls:?}");
    // Its own ratio is two messages a question: 2 of 4 messages, one of two reads, one of two answers.
    let totals = numbers(&report, "dollars", "total");
    assert!(
        close(totals[0], written / 2.0 + 0.0003 / 2.0 + 0.0006 / 2.0),
        "{totals:?}"
    );
    assert!(
        close(totals[2], written / 4.0 + 0.0003 / 2.0 + 0.0006 / 2.0),
        "{totals:?}"
    );
    std::fs::write(&list, "[[price]]\nmodle = \"m\"\n").unwrap();
    assert!(
        Prices::read(&list)
            .unwrap_err()
            .to_string()
            .contains("unknown field `modle`")
    );
}

/// What a system does not say of one conversation is not known of all of them.
#[test]
fn a_system_that_leaves_out_a_count_has_no_total() {
    let used = |conversation: &str, output| Consumption {
        conversation: conversation.into(),
        error: None,
        chat_calls: Some(3),
        input_tokens: Some(100),
        output_tokens: output,
        embedding_calls: Some(2),
        truncated: None,
        add_milliseconds: 1_000.0,
        ready_milliseconds: 500.0,
        export_error: None,
        decisions_error: None,
    };
    let run = Outputs::made(
        "told",
        Complete {
            consumptions: vec![used("a", Some(7)), used("b", None)],
            ..Complete::default()
        },
    );
    let report = report("cost", &[&run], quick());
    assert_eq!(numbers(&report, "management", "calls"), [Some(6.0)]);
    assert_eq!(numbers(&report, "management", "input"), [Some(200.0)]);
    assert_eq!(numbers(&report, "management", "tokens"), [None]);
    assert_eq!(numbers(&report, "management", "add"), [Some(3.0)]);
    assert_eq!(numbers(&report, "latency", "add"), [Some(3.0)]);
}

#[test]
fn a_depth_beyond_what_was_asked_for_is_refused() {
    let run = Outputs::made(
        "shallow",
        Complete {
            retrievals: vec![retrieval("q", &[1], &[1, 2, 3], &[1, 2, 3], 10)],
            ..Complete::default()
        },
    );
    let settings = Settings {
        depth: Some(11),
        ..quick()
    };
    let error = diagnostic("evidence")
        .unwrap()
        .report(&Input::new(&[&run], settings));
    assert_eq!(
        error.unwrap_err().to_string(),
        "shallow asked for 10 items, so nothing can be said of 11"
    );
}

/// Two judges of the same two systems, who disagree about which is better.
#[test]
fn every_judge_that_all_runs_share_is_a_variant() {
    use JudgmentOutcome::{Correct, Wrong};
    let run = |name, lenient, strict| {
        let by = |judge: &str, outcome| Judgment {
            judge: judge.into(),
            ..judgment("a/0", "fact", 0, outcome)
        };
        let judgments = vec![by("lenient", lenient), by("strict", strict)];
        Outputs::made(
            name,
            Complete {
                judgments,
                ..Complete::default()
            },
        )
    };
    let (one, other) = (run("one", Correct, Wrong), run("other", Wrong, Correct));
    let report = report("ranking", &[&one, &other], quick());
    let (judges, first) = (
        column(&report, "variants", "judge"),
        column(&report, "variants", "first"),
    );
    let pairs: Vec<String> = judges
        .iter()
        .zip(first)
        .map(|(j, f)| format!("{}: {}", j.written(), f.written()))
        .collect();
    assert_eq!(pairs, ["lenient: one", "strict: other"]);
}

/// Four questions of two conversations in two memory systems: the second finds one more. By question
/// that is 0.25; no sign of two conversations says more than p = 1.
#[test]
fn memory_systems_are_compared_on_everything_they_returned() {
    let run = |name, found: [u32; 4]| {
        let ask = |at: usize| Search {
            conversation: (if at < 2 { "a" } else { "b" }).into(),
            ..search(&at.to_string(), &[1], 1)
        };
        let show = |at: usize| EvidenceItem {
            conversation: (if at < 2 { "a" } else { "b" }).into(),
            ..item(&at.to_string(), 1, Some(&[found[at]]), "x")
        };
        Outputs::made(
            name,
            Complete {
                searches: (0..4).map(ask).collect(),
                evidence: (0..4).map(show).collect(),
                ..Complete::default()
            },
        )
    };
    let (first, second) = (run("first", [1, 0, 0, 0]), run("second", [1, 1, 0, 0]));
    let report = report("depth", &[&first, &second], quick());
    assert_eq!(
        numbers(&report, "ablations", "value"),
        [0.25, 0.5, 0.25, 0.5].map(Some)
    );
    assert_eq!(
        numbers(&report, "ablations", "difference"),
        [None, Some(0.25), None, Some(0.25)]
    );
    assert_eq!(
        numbers(&report, "ablations", "p, by conversation")[1],
        Some(1.0)
    );
}
