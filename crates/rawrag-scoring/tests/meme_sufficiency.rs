//! The rules of sufficiency on synthetic episodes, where what is needed is known by construction.

use proptest::prelude::*;
use rawrag_corpus::meme::{self, Annotated, Asked, Contract, Statement, StatementKind, Task};
use rawrag_corpus::synthetic::{Recipe, answer_from, episodes, is_right, quarter_of_characters};
use rawrag_corpus::{Gold, MessagePosition, Phase};
use rawrag_scoring::sufficiency::{Mention, Need, Rule, Sufficiency, sufficiency};

fn mention(mention: &meme::Mention) -> Mention<'_> {
    Mention {
        label: &mention.label,
        values: &mention.values,
    }
}

/// Judges evidence against a contract. The known wordings of the rules are left out, so that
/// rules are found by what they name.
fn judged(evidence: &str, contract: &Contract) -> Sufficiency {
    let rules = contract.rules.iter().map(|rule| Rule {
        source: mention(&rule.source),
        target: mention(&rule.target),
        said: &[],
    });
    let rules: Vec<Rule<'_>> = rules.collect();
    let need = match (&contract.trigger, contract.task, contract.phase) {
        (Some(trigger), ..) => Need::Dependent {
            values: &contract.values,
            rules: &rules,
            trigger: &trigger.values,
        },
        (None, Task::Deletion, Phase::After) => Need::Deletion(mention(&contract.targets[0])),
        (None, Task::Tracking, _) => Need::History(&contract.values),
        _ => Need::Values(&contract.values),
    };
    sufficiency(evidence, &need)
}

/// The messages visible to a question, but for one, a line each.
fn lines(
    annotated: &Annotated,
    asked: &Asked,
    left_out: Option<MessagePosition>,
    dated: bool,
) -> Vec<String> {
    let messages = annotated.entry.conversation.messages();
    let visible = messages.filter(|(session, position, _)| {
        *session <= asked.last_session && Some(*position) != left_out
    });
    visible
        .map(|(.., message)| match message.date {
            Some(date) if dated => format!("[{date}] {}: {}", message.speaker, message.text),
            _ => format!("{}: {}", message.speaker, message.text),
        })
        .collect()
}

/// The part of what is needed that a statement supplies.
fn supplied(found: &Sufficiency, statement: &Statement, task: Task) -> Option<bool> {
    match statement.kind {
        StatementKind::Dependency => found.rule,
        StatementKind::Deletion => found.deletion,
        StatementKind::Change if task != Task::Tracking => found.trigger,
        _ => found.value,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_whole_history_suffices_and_without_one_message_exactly_its_part_fails(
        seed: u64, tokens in 0_u32..4000, dated: bool,
    ) {
        let recipe: Recipe = format!(
            "seed = {seed}\n[meme]\nepisodes = 1\ndistractor_tokens = {tokens}\n\
             [meme.tasks]\ncas_two_hop = 100\nabs_two_hop = 100"
        ).parse().unwrap();
        let annotated = episodes(&recipe, &quarter_of_characters).unwrap().next().unwrap();
        for asked in &annotated.episode.asked {
            let contract = annotated.episode.contract(asked);
            let whole = judged(&lines(&annotated, asked, None, dated).join("\n"), &contract);
            prop_assert!(whole.sufficient(), "{asked:?} {whole:?}");
            let support = annotated.episode.support(asked);
            prop_assert!(!support.is_empty());
            for statement in support {
                let without = lines(&annotated, asked, statement.message, dated).join("\n");
                let found = judged(&without, &contract);
                let what = format!("{} without {statement:?}: {found:?}", asked.id);
                prop_assert_eq!(supplied(&found, statement, asked.task), Some(false), "{}", what);
                let Sufficiency { value, chronology, deletion, rule, trigger } = found;
                let parts = [value, chronology, deletion, rule, trigger];
                let failed = parts.iter().filter(|part| **part == Some(false)).count();
                prop_assert_eq!(failed, 1, "{}", what);
            }
        }
    }

    /// What makes coverage and utilization of synthetic runs known numbers: on any evidence of whole
    /// messages, the generator's own reader is right where evidence suffices, and nowhere else but
    /// where not knowing is what is wanted.
    #[test]
    fn sufficient_evidence_is_what_the_reader_answers_rightly_from(
        seed: u64, kept in proptest::collection::vec(proptest::bool::weighted(0.8), 97),
    ) {
        let recipe: Recipe = format!(
            "seed = {seed}\n[meme]\nepisodes = 1\ndistractor_tokens = 600\n\
             [meme.tasks]\ncas_two_hop = 100\nabs_two_hop = 100"
        ).parse().unwrap();
        let annotated = episodes(&recipe, &quarter_of_characters).unwrap().next().unwrap();
        for (asked, question) in annotated.episode.asked.iter().zip(&annotated.entry.questions) {
            let lines = lines(&annotated, asked, None, true);
            let evidence: Vec<String> =
                lines.into_iter().zip(kept.iter().cycle()).filter(|(_, kept)| **kept).map(|(l, _)| l).collect();
            let evidence = evidence.join("\n");
            let sufficient = judged(&evidence, &annotated.episode.contract(asked)).sufficient();
            let right = is_right(question, &answer_from(&evidence, &question.text));
            let abstains = matches!(question.gold, Some(Gold::Abstention { .. }));
            prop_assert!(!sufficient || right, "{}: sufficient, and wrong", asked.id);
            prop_assert!(sufficient || !right || abstains, "{}: insufficient, and right", asked.id);
        }
    }

    /// Reversed, the values are all there, and undated lines no longer say in which order.
    #[test]
    fn only_tracking_depends_on_the_order_of_evidence_and_dates_restore_it(seed: u64) {
        let recipe: Recipe = format!("seed = {seed}\n[meme]\nepisodes = 1").parse().unwrap();
        let annotated = episodes(&recipe, &quarter_of_characters).unwrap().next().unwrap();
        for asked in &annotated.episode.asked {
            let contract = annotated.episode.contract(asked);
            let reversed = |dated| {
                let mut lines = lines(&annotated, asked, None, dated);
                lines.reverse();
                judged(&lines.join("\n"), &contract)
            };
            prop_assert!(reversed(true).sufficient());
            let undated = reversed(false);
            let chronology = (asked.task == Task::Tracking).then_some(false);
            prop_assert_eq!(undated.chronology, chronology);
            prop_assert_eq!(undated.sufficient(), chronology.is_none());
        }
    }
}
