//! MEME's release, read from a small episode that holds every oddity.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use rawrag_corpus::meme::{self, Counts, Episode, Task};
use rawrag_corpus::{Format, Phase, load};

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/meme.json")
}

fn shown(episode: &Episode) -> String {
    let Episode {
        domain,
        root,
        entities,
        edges,
        asked,
        statements,
        distractors,
        ..
    } = episode;
    let mut shown = format!("{domain}, root {root}, distractors {distractors:?}\n");
    for (id, entity) in entities {
        shown += &format!("entity {id}: {entity:?}\n");
    }
    for edge in edges {
        let rule: Vec<&str> = episode.rule(edge).map(|s| s.text.as_str()).collect();
        shown += &format!(
            "edge {} -> {} (hop {}, {}): {rule:?}\n",
            edge.source, edge.target, edge.hop, edge.pattern
        );
    }
    for s in statements {
        shown += &format!(
            "{:?} {} = {:?} from {:?} at {} {:?}\n",
            s.kind,
            s.entity,
            s.value,
            s.upstream.as_ref().map(|u| u.as_str()),
            s.session.0,
            s.message.map(|m| m.0)
        );
    }
    for asked in asked {
        let contract = episode.contract(asked);
        let rules: Vec<String> = contract
            .rules
            .iter()
            .map(|r| format!("{} -> {}", r.source.label, r.target.label))
            .collect();
        shown += &format!(
            "{:?} {} hop {:?} until session {}: {:?}, rules {rules:?}, trigger {:?}\n",
            asked.phase,
            asked.id,
            asked.hop,
            asked.last_session.0,
            contract.values,
            contract.trigger.map(|t| t.values)
        );
    }
    shown
}

#[test]
fn an_episode_is_read_with_what_is_known_of_it() {
    let loaded = meme::load(&fixture()).unwrap();
    let [annotated] = loaded.episodes.as_slice() else {
        panic!("one episode")
    };
    assert_eq!(
        loaded.counts(),
        Counts {
            episodes: 1,
            before: 4,
            after: 5
        }
    );
    // The same entries as the common reader gives, told from the content.
    let common = load(&fixture(), None).unwrap();
    assert_eq!(common.report.format, Format::Meme);
    assert_eq!(
        common.entries.as_slice(),
        std::slice::from_ref(&annotated.entry)
    );
    let mut text = shown(&annotated.episode);
    for q in &annotated.entry.questions {
        text += &format!(
            "{} {:?} ({}) {:?} asked {}: {:?}\n    messages {:?} sessions {:?}\n",
            q.id,
            q.phase.unwrap(),
            q.kind,
            q.text,
            q.cutoff.unwrap(),
            q.gold,
            q.evidence.messages.iter().map(|m| m.0).collect::<Vec<_>>(),
            q.evidence.sessions.iter().map(|s| s.0).collect::<Vec<_>>(),
        );
    }
    insta::assert_snapshot!(format!("{text}\n{}", loaded.report));
}

/// Before and after the change the same task has the same id, so that a gate can pair them.
#[test]
fn gated_questions_have_their_pair() {
    let loaded = meme::load(&fixture()).unwrap();
    let asked = &loaded.episodes[0].episode.asked;
    let gated = |phase| {
        let of_phase = asked
            .iter()
            .filter(move |a| a.phase == phase && a.task.gated());
        of_phase.map(|a| a.id.clone()).collect::<Vec<_>>()
    };
    assert_eq!(gated(Phase::After).len(), 3);
    assert_eq!(gated(Phase::After), gated(Phase::Before));
    assert!(!Task::Tracking.gated());
}

#[test]
fn what_cannot_be_taken_is_refused() {
    let text = fs::read_to_string(fixture()).unwrap();
    let alterations = [
        (
            r#""expected_answer": "Ana Brisk""#,
            r#""expected_answer": """#,
        ),
        (r#", "expected_answer": "Ana Brisk""#, ""),
        (
            r#""expected_answer": "Biscuit", "gold_answer": "Biscuit""#,
            r#""expected_answer": "Biscuit", "gold_answer": "Ginger""#,
        ),
        (r#""task_type": "ER""#, r#""task_type": "Recall""#),
        (
            r#""task_type": "Cas (1-hop)", "hop": 1"#,
            r#""task_type": "Cas""#,
        ),
        (r#""entity": ["ship_cat"]"#, r#""entity": []"#),
        (r#""entity": ["ship_cat"]"#, r#""entity": ["ship_dog"]"#),
        (
            r#""position_after_session": 2"#,
            r#""position_after_session": -1"#,
        ),
        (
            r#""position_after_session": 3"#,
            r#""position_after_session": 4"#,
        ),
        (
            r#""position_after_session": 3"#,
            r#""position_after_session": 1"#,
        ),
        (
            r#""timestamp": "2023/03/06 (Mon) 07:00""#,
            r#""timestamp": "soon""#,
        ),
        (
            r#""timestamp": "2023/03/03 (Fri) 08:00",
        "conversation""#,
            r#""timestamp": "2023/13/03 (Fri) 08:00",
        "conversation""#,
        ),
        (r#""type": "filler""#, r#""type": "padding""#),
        (r#""episode_id": "pl_001""#, r#""episode_id": 1"#),
        (r#""root": "moorage","#, ""),
        (
            r#""before_questions": {"#,
            r#""before_questions": [], "was": {"#,
        ),
    ];
    let refuse = |(from, to): (&str, &str)| {
        assert!(text.contains(from), "{from}");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("FILE");
        fs::write(&file, text.replacen(from, to, 1)).unwrap();
        let error = match meme::load(&file) {
            Ok(_) => panic!("{from} -> {to} was read"),
            Err(error) => error.to_string(),
        };
        let error = error.replace(&format!("{}", folder.path().display()), "DIR");
        format!("{from} -> {to}\n    {error}\n")
    };
    let mut errors: String = alterations.map(refuse).concat();
    // An episode by itself, and a history that knows none.
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in [
        (
            "single.json",
            text.trim().trim_matches(['[', ']']).to_owned(),
        ),
        (
            "own.jsonl",
            r#"{"conversation":"a","speaker":"b","text":"c"}"#.to_owned(),
        ),
    ] {
        let file = folder.path().join(name);
        fs::write(&file, content).unwrap();
        let error = meme::load(&file).unwrap_err().to_string();
        errors += &error.replace(&format!("{}", folder.path().display()), "DIR");
        errors.push('\n');
    }
    insta::assert_snapshot!(errors);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// No bytes make the reader panic, nor what is asked of an episode that it read.
    #[test]
    fn altered_files_never_panic(
        edits in proptest::collection::vec((any::<prop::sample::Index>(), 0..PIECES.len()), 1..6),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = fs::read(fixture()).unwrap();
        for (at, piece) in edits {
            let at = at.index(bytes.len());
            bytes.splice(at..=at, PIECES[piece].iter().copied());
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, bytes).unwrap();
        match meme::load(&file) {
            Ok(loaded) => {
                for annotated in &loaded.episodes {
                    prop_assert!(!shown(&annotated.episode).is_empty());
                }
            }
            Err(error) => prop_assert!(error.to_string().contains("file")),
        }
    }
}

const PIECES: [&[u8]; 12] = [
    b"",
    b"\"",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b"null",
    b"-1",
    b"\xFF",
    b"moorage",
    b"99999999999",
];
