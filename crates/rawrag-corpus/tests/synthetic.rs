//! Synthetic data keep their promises, for any seed.

#![expect(clippy::unwrap_used, reason = "a test stops where its input fails")]

use std::collections::{BTreeMap, HashSet};
use std::fs;

use proptest::prelude::*;
use rawrag_corpus::meme::{self, Annotated};
use rawrag_corpus::synthetic::{
    self, Family, Flaw, Reader, Recipe, answer_from, check, check_episode, episodes, fact_pools,
    is_right, label_streams, quarter_of_characters, write,
};
use rawrag_corpus::{Benchmark, Entry, Format, Gold, Phase, load};

const ALL_TASKS: &str = "
[meme.tasks]
cas_two_hop = 100
abs_two_hop = 100
";

fn recipe(text: &str) -> Recipe {
    text.parse().unwrap()
}

fn made(recipe: &Recipe) -> Vec<Annotated> {
    episodes(recipe, &quarter_of_characters).unwrap().collect()
}

fn with_seed(seed: u64, tokens: u32) -> Recipe {
    let meme = format!("[meme]\nepisodes = 3\ndistractor_tokens = {tokens}\n{ALL_TASKS}");
    let facts = "[facts]\npools = 1\nfacts = 90\nconflicts = 40\nsingle_hop = 20\nmulti_hop = 20\n";
    let labels = "[labels]\nstreams = 1\nlabels = 7\ndemonstrations = 60\ntests = 25\n";
    recipe(&format!("seed = {seed}\n{meme}{facts}{labels}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn gold_is_reached_from_the_text_and_leaks_nowhere(seed: u64, tokens in 0_u32..6000) {
        let recipe = with_seed(seed, tokens);
        for annotated in made(&recipe) {
            prop_assert_eq!(check_episode(&annotated), Ok(()));
            let counted: usize = annotated.episode.distractors.iter().map(|place| {
                let session = &annotated.entry.conversation.sessions[place.0 as usize];
                let text: Vec<&str> = session.messages.iter().map(|m| m.text.as_str()).collect();
                quarter_of_characters(&text.join(" "))
            }).sum();
            prop_assert!(counted <= tokens as usize);
            prop_assert!(counted + 900 > tokens as usize, "{} of {}", counted, tokens);
        }
        for entry in fact_pools(&recipe).unwrap().chain(label_streams(&recipe).unwrap()) {
            prop_assert_eq!(check(&entry), Ok(()));
        }
    }

    /// The evidence named for a question is enough for it, and no message of it can be spared,
    /// except where not knowing is what is wanted.
    #[test]
    fn the_evidence_named_is_what_an_answer_needs(seed: u64) {
        let recipe = with_seed(seed, 0);
        let entries = made(&recipe).into_iter().map(|a| a.entry);
        for entry in entries.chain(fact_pools(&recipe).unwrap()) {
            for question in &entry.questions {
                let text = |left_out: Option<usize>| {
                    let kept = question.evidence.messages.iter().enumerate();
                    let kept = kept.filter(|(n, _)| Some(*n) != left_out);
                    let lines = kept.map(|(_, position)| {
                        let (.., message) =
                            entry.conversation.messages().nth(position.0 as usize).unwrap();
                        format!("{}: {}\n", message.speaker, message.text)
                    });
                    lines.collect::<String>()
                };
                let right = |text: &str| is_right(question, &answer_from(text, &question.text));
                prop_assert!(right(&text(None)), "{} {:?}", question.text, question.gold);
                let abstains = matches!(question.gold, Some(Gold::Abstention { .. }));
                for n in 0..question.evidence.messages.len() {
                    let spared = right(&text(Some(n)));
                    prop_assert!(!spared || abstains, "{} without {n}", question.text);
                }
            }
        }
    }

    #[test]
    fn an_episode_is_the_same_whatever_the_number_and_the_distractors(seed: u64, tokens in 0_u32..3000) {
        let few = recipe(&format!("seed = {seed}\n[meme]\nepisodes = 2\ndistractor_tokens = {tokens}"));
        let many = recipe(&format!("seed = {seed}\n[meme]\nepisodes = 5\ndistractor_tokens = {tokens}"));
        let bare = recipe(&format!("seed = {seed}\n[meme]\nepisodes = 2"));
        let (few, many, bare) = (made(&few), made(&many), made(&bare));
        prop_assert_eq!(&few[..], &many[..2]);
        for (few, bare) in few.iter().zip(&bare) {
            prop_assert_eq!(&few.episode.entities, &bare.episode.entities);
            let said = |a: &Annotated| {
                a.episode.statements.iter().map(|s| s.text.clone()).collect::<Vec<_>>()
            };
            prop_assert_eq!(said(few), said(bare));
        }
    }
}

/// The recipe that is shipped has MEME's own counts (Raw-RAG, A.5.2; by task as its printed
/// percentages allow).
#[test]
fn the_shipped_recipe_has_the_counts_of_meme() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../experiments/synthetic/meme-100.toml"
    );
    let mut recipe = recipe(&fs::read_to_string(file).unwrap());
    let meme = recipe.meme.as_mut().unwrap();
    assert_eq!(meme.distractor_tokens, 32_000);
    meme.distractor_tokens = 0;
    let episodes = made(&recipe);
    let mut counts: BTreeMap<(Phase, &str), u32> = BTreeMap::new();
    for asked in episodes.iter().flat_map(|a| &a.episode.asked) {
        *counts.entry((asked.phase, asked.task.name())).or_default() += 1;
    }
    let (before, after) = (Phase::Before, Phase::After);
    let expected = [
        ((before, "ER"), 100),
        ((before, "Del"), 100),
        ((before, "Cas"), 164),
        ((before, "Abs"), 130),
        ((after, "ER"), 100),
        ((after, "Agg"), 100),
        ((after, "Tr"), 100),
        ((after, "Del"), 100),
        ((after, "Cas"), 164),
        ((after, "Abs"), 130),
    ];
    assert_eq!(counts, BTreeMap::from(expected));
    let of = |phase| {
        counts
            .iter()
            .filter(|((p, _), _)| *p == phase)
            .map(|(_, n)| u64::from(*n))
            .sum()
    };
    let counts = meme::Counts {
        episodes: episodes.len() as u64,
        before: of(before),
        after: of(after),
    };
    assert_eq!(counts, meme::RELEASE);
}

#[test]
fn what_is_written_is_read_back_and_is_synthetic_wherever_it_is_named() {
    let recipe = with_seed(3, 1500);
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("made");
    write(&recipe, &quarter_of_characters, &data).unwrap();

    let episodes = made(&recipe);
    let rest: Vec<Entry> = fact_pools(&recipe)
        .unwrap()
        .chain(label_streams(&recipe).unwrap())
        .collect();
    let entries: Vec<Entry> = episodes
        .iter()
        .map(|a| a.entry.clone())
        .chain(rest.clone())
        .collect();
    let loaded = load(&data, None).unwrap();
    assert_eq!(loaded.entries, entries);
    let with_episodes = meme::load(&data).unwrap();
    assert_eq!(with_episodes.episodes, episodes);
    assert_eq!(with_episodes.report, loaded.report);

    assert_eq!(loaded.report.format, Format::Synthetic);
    assert_eq!(loaded.report.benchmark(), Benchmark::Synthetic);
    assert!(loaded.report.to_string().contains("no benchmark's data"));
    assert!(loaded.report.oddities.is_empty(), "{}", loaded.report);
    let sources: HashSet<&str> = entries
        .iter()
        .flat_map(|e| &e.questions)
        .map(|q| q.source.as_deref().unwrap())
        .collect();
    assert_eq!(sources, Family::ALL.map(Family::source).into());
    for entry in &entries {
        assert!(entry.conversation.id.as_str().starts_with("synthetic-"));
        assert!(
            entry
                .questions
                .iter()
                .all(|q| q.benchmark == Benchmark::Synthetic)
        );
    }
    let as_own = load(&data, Some(Format::ChatJsonl))
        .unwrap_err()
        .to_string();
    assert!(
        as_own.contains("is synthetic, and is not to be read as anything else"),
        "{as_own}"
    );
    // A second time would mix two recipes.
    let again = write(&recipe, &quarter_of_characters, &data)
        .unwrap_err()
        .to_string();
    assert!(again.contains("it is there already"), "{again}");
    assert!(fs::read_dir(&data).unwrap().all(|f| {
        !f.unwrap()
            .file_name()
            .to_string_lossy()
            .ends_with(".partial")
    }));
}

/// The same on every machine: what is pinned here was made on another.
#[test]
fn the_bytes_of_a_recipe_are_fixed() {
    let folder = tempfile::tempdir().unwrap();
    write(&with_seed(11, 2000), &quarter_of_characters, folder.path()).unwrap();
    let report = load(folder.path(), None).unwrap().report;
    let episode = &made(&recipe(
        "seed = 11\n[meme]\nepisodes = 1\ndistractor_tokens = 400",
    ))[0];
    let mut shown = format!("{}\n", report);
    for (session, _, message) in episode.entry.conversation.messages() {
        let date = message.date.unwrap();
        shown += &format!(
            "{:>3} [{date}] {}: {}\n",
            session.0, message.speaker, message.text
        );
    }
    for question in &episode.entry.questions {
        shown += &format!(
            "{} {:?} {}\n    {:?}\n    {:?}\n",
            question.id, question.phase, question.text, question.gold, question.evidence.written
        );
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn a_leak_and_a_missing_fact_are_found() {
    let whole = made(&with_seed(5, 1500)).remove(0);
    let mut leaking = whole.clone();
    let value = leaking.episode.asked[0].values[0][0].clone();
    let place = leaking.episode.distractors[0].0 as usize;
    let message = &mut leaking.entry.conversation.sessions[place].messages[0];
    message.text += &format!(" They call it  {}", value.to_uppercase());
    let id = message.id.clone();
    assert_eq!(
        check_episode(&leaking),
        Err(Flaw::Leak { value, message: id })
    );

    let mut missing = whole.clone();
    let statement = &whole.episode.statements[0];
    let (mut left, place) = (statement.message.unwrap().0, statement.session.0 as usize);
    left -= whole.entry.conversation.sessions[..place]
        .iter()
        .map(|s| s.messages.len() as u32)
        .sum::<u32>();
    missing.entry.conversation.sessions[place].messages[left as usize]
        .text
        .clear();
    let asked = whole
        .episode
        .asked
        .iter()
        .any(|asked| whole.episode.support(asked).contains(&statement));
    assert_eq!(
        matches!(check(&missing.entry), Err(Flaw::Unsolvable { .. })),
        asked
    );
}

#[test]
fn the_reader_errs_at_its_rate_and_is_then_never_right() {
    let recipe = recipe(
        "seed = 2\n[facts]\npools = 20\nfacts = 400\nconflicts = 100\nsingle_hop = 100\nmulti_hop = 0",
    );
    let reader = Reader::new(9, 0.25).unwrap();
    let (mut right, mut all) = (0, 0);
    for entry in fact_pools(&recipe).unwrap() {
        let text: String = entry
            .conversation
            .messages()
            .map(|(.., m)| format!("{}\n", m.text))
            .collect();
        for question in &entry.questions {
            let is_right = is_right(question, &reader.answer(&text, question));
            assert_eq!(is_right, !reader.errs(question));
            right += u32::from(is_right);
            all += 1;
        }
    }
    // Four standard errors of 2,000 draws at 3/4.
    assert_eq!(all, 2000);
    assert!((1423..=1577).contains(&right), "{right}");
    assert_eq!(Reader::new(9, 1.1), None);
    assert_eq!(Reader::new(9, f64::NAN), None);
    for reply in [
        synthetic::Reply::NoInformation,
        synthetic::Reply::Values(vec!["a b".into(), "c".into()]),
    ] {
        assert_eq!(synthetic::Reply::read(&reply.to_string()), reply);
    }
}

/// Evidence may stand in any order, under headings, and begin or end inside a sentence.
#[test]
fn the_reader_goes_by_dates_and_wants_whole_sentences() {
    let windows = "--- 1. s0007, 2031-03-09 08:00 to s0008, 2031-03-10 09:00 ---\n\
                   dy. As of today Gresk has replaced our former bread order. What\n\n\
                   --- 2. s0001, 2031-03-01 09:00 ---\n\
                   Renzo: Our bread order is Alm. Nobody objected.\nRenzo: Our sled dog is Bru";
    let history = "List every bread order we have had, from the first to the latest.";
    assert_eq!(answer_from(windows, history).to_string(), "Alm; Gresk");
    let none = answer_from(windows, "What is our sled dog?");
    assert_eq!(none, synthetic::Reply::NoInformation);
    assert_eq!(
        answer_from(windows, "How are you?"),
        synthetic::Reply::NoInformation
    );
    // A circle of dependencies ends.
    let circle = "Our a depends on our b.\nOur b depends on our a.\nOur a is One.";
    assert_eq!(answer_from(circle, "What is our a?").to_string(), "One");
}

#[test]
fn recipes_are_refused_by_field_and_range() {
    let refused = [
        "seed = 1",
        "seed = 1\n[meme]\nepisodes = 0",
        "seed = 1\n[meme]\nepisodes = 1\ndistractors = 3",
        "seed = 1\n[meme]\nepisodes = 1\n[meme.tasks]\ncas = 101",
        "seed = 1\n[meme]\nepisodes = 1\n[meme.domains]\nhousehold = 0\nworkshop = 0\nexpedition = 0",
        "seed = -1\n[meme]\nepisodes = 1",
        "seed = 1\n[facts]\npools = 1\nfacts = 30\nconflicts = 16\nsingle_hop = 1\nmulti_hop = 1",
        "seed = 1\n[facts]\npools = 1\nfacts = 30\nconflicts = 6\nsingle_hop = 0\nmulti_hop = 0",
        "seed = 1\n[labels]\nstreams = 1\nlabels = 9\ndemonstrations = 17\ntests = 1",
    ];
    let errors: Vec<String> = refused
        .iter()
        .map(|text| match text.parse::<Recipe>() {
            Ok(recipe) => panic!("{recipe:?}"),
            Err(error) => format!(
                "{text:?}\n    {}\n",
                error.to_string().replace('\n', "\n    ")
            ),
        })
        .collect();
    insta::assert_snapshot!(errors.concat());
}
