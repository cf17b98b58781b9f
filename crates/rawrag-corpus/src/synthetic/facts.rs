//! A pool of numbered facts that contradict each other: the larger number holds.

use std::collections::{HashMap, HashSet};

use jiff::ToSpan;
use jiff::civil::date;

use super::Family;
use super::draws::{Draws, Purpose, Words};
use super::episode::cited;
use super::recipe::FactRecipe;
use crate::{
    Answer, Benchmark, Conversation, Entry, Gold, Kind, Message, MessageId, MessagePosition,
    Question, QuestionId, Session, SessionId, Timestamp,
};

/// What a kind of thing is related to: people to towns and guilds, and so on round.
const RELATIONS: [[(&str, usize); 2]; KINDS] = [
    [("home town", 1), ("patron", 2)],
    [("mayor", 0), ("trade house", 2)],
    [("seat", 1), ("treasurer", 0)],
];
const KINDS: usize = 3;

/// Facts a session.
const SESSION: usize = 100;

/// A thing's relation: the thing's number (whose kind is its remainder by [`KINDS`]) and which of
/// its kind's two relations.
type Relation = (usize, usize);

/// A fact: what it says of which relation. Its number is its place, from 1.
struct Fact {
    of: Relation,
    object: usize,
}

/// Makes the pool numbered `index`.
pub(super) fn make(recipe: &FactRecipe, seed: u64, index: u32) -> Entry {
    let mut draws = Draws::new(seed, Family::FactConsolidation, Purpose::Content, index);
    let mut words = Words::default();
    let relations = (recipe.facts - recipe.conflicts) as usize;
    let names: Vec<String> = (0..relations.div_ceil(2))
        .map(|_| words.new_word(&mut draws))
        .collect();
    let facts = facts(recipe, names.len(), &mut draws);
    let newest: HashMap<Relation, usize> = facts
        .iter()
        .zip(0..)
        .map(|(fact, place)| (fact.of, place))
        .collect();
    let conversation = conversation(index, &facts, &names);
    let questions = questions(recipe, &facts, &newest, &mut draws)
        .into_iter()
        .zip(1..)
        .map(|(hops, n)| question(&conversation, &facts, &names, &hops, n))
        .collect();
    Entry {
        conversation,
        questions,
    }
}

/// Every relation once and some again, in random order; each time with another object than
/// before.
fn facts(recipe: &FactRecipe, things: usize, draws: &mut Draws) -> Vec<Fact> {
    let relations = (recipe.facts - recipe.conflicts) as usize;
    let mut order: Vec<Relation> = (0..relations).map(|n| (n / 2, n % 2)).collect();
    for _ in 0..recipe.conflicts {
        order.push(order[draws.below(relations)]);
    }
    draws.shuffle(&mut order);
    let mut now: HashMap<Relation, usize> = HashMap::new();
    let tell = |of: Relation| {
        let (_, kind) = RELATIONS[of.0 % KINDS][of.1];
        // Things of a kind are those whose number has the kind as remainder.
        let of_kind = (things - kind).div_ceil(KINDS);
        let object = loop {
            let object = kind + KINDS * draws.below(of_kind);
            if now.get(&of) != Some(&object) {
                break object;
            }
        };
        now.insert(of, object);
        Fact { of, object }
    };
    order.into_iter().map(tell).collect()
}

fn conversation(index: u32, facts: &[Fact], names: &[String]) -> Conversation {
    let mut day = date(2031, 3, 1);
    let mut sessions = Vec::new();
    for (session, facts) in facts.chunks(SESSION).enumerate() {
        let began = Timestamp {
            local: day.at(9, 0, 0, 0),
            offset_minutes: None,
            has_time: true,
        };
        day = day.saturating_add(1.day());
        let message = |(fact, place): (&Fact, usize)| Message {
            id: MessageId::from(format!("f{}", place + 1)),
            speaker: "Pool".to_owned(),
            text: fact.text(place, names),
            captions: Vec::new(),
            date: Some(began),
        };
        sessions.push(Session {
            id: SessionId::from(format!("s{:04}", session + 1)),
            date: Some(began),
            messages: facts.iter().zip(session * SESSION..).map(message).collect(),
        });
    }
    Conversation {
        id: Family::FactConsolidation.conversation(index, "pool"),
        sessions,
    }
}

impl Fact {
    fn text(&self, place: usize, names: &[String]) -> String {
        let (relation, _) = RELATIONS[self.of.0 % KINDS][self.of.1];
        let (subject, object) = (&names[self.of.0], &names[self.object]);
        format!(
            "Fact {}. The {relation} of {subject} is {object}.",
            place + 1
        )
    }
}

/// The places of the facts that each question turns on, in the order in which they are needed.
/// Relations that were contradicted come first.
fn questions(
    recipe: &FactRecipe,
    facts: &[Fact],
    newest: &HashMap<Relation, usize>,
    draws: &mut Draws,
) -> Vec<Vec<usize>> {
    let mut seen = HashSet::new();
    let contradicted: HashSet<Relation> = facts
        .iter()
        .filter(|fact| !seen.insert(fact.of))
        .map(|fact| fact.of)
        .collect();
    let mut relations: Vec<Relation> = newest.keys().copied().collect();
    relations.sort_unstable();
    draws.shuffle(&mut relations);
    relations.sort_by_key(|of| !contradicted.contains(of));
    let single = relations.iter().take(recipe.single_hop as usize);
    let single: Vec<Vec<usize>> = single.map(|of| vec![newest[of]]).collect();
    let multi = relations.iter().filter_map(|of| {
        let first = newest[of];
        let next = (facts[first].object, draws.below(2));
        let second = newest.get(&next)?;
        Some(vec![first, *second])
    });
    let multi: Vec<Vec<usize>> = multi.take(recipe.multi_hop as usize).collect();
    [single, multi].concat()
}

fn question(
    conversation: &Conversation,
    facts: &[Fact],
    names: &[String],
    hops: &[usize],
    n: u32,
) -> Question {
    let relation = |place: usize| {
        let (thing, which) = facts[place].of;
        RELATIONS[thing % KINDS][which].0
    };
    let (first, last) = (hops[0], hops[hops.len() - 1]);
    let mut asked = format!("{} of {}", relation(first), names[facts[first].of.0]);
    if hops.len() > 1 {
        asked = format!("{} of the {asked}", relation(last));
    }
    let positions = hops.iter().map(|&place| MessagePosition(place as u32));
    Question {
        benchmark: Benchmark::Synthetic,
        source: Some(Family::FactConsolidation.source().to_owned()),
        conversation: conversation.id.clone(),
        id: QuestionId::from(format!("q{n}")),
        phase: None,
        kind: Kind::from(if hops.len() > 1 {
            "multi-hop"
        } else {
            "single-hop"
        }),
        text: format!("By the newest numbered facts, what is the {asked}?"),
        options: Vec::new(),
        cutoff: None,
        gold: Some(Gold::Answer(Answer::Text(
            names[facts[last].object].clone(),
        ))),
        evidence: cited(conversation, positions),
    }
}

/// A fact read back: its number, relation, subject and object.
pub(super) fn read_fact(line: &str) -> Option<(u64, &str, &str, &str)> {
    let (_, rest) = line.rsplit_once("Fact ")?;
    let (number, rest) = rest.split_once(". The ")?;
    let (relation, rest) = rest.split_once(" of ")?;
    let (subject, object) = rest.strip_suffix('.')?.split_once(" is ")?;
    Some((number.parse().ok()?, relation, subject, object))
}

/// The relations that a question asks for, nearest first, and of which thing.
pub(super) fn read_question(question: &str) -> Option<(Vec<&str>, &str)> {
    let asked = question
        .strip_prefix("By the newest numbered facts, what is the ")?
        .strip_suffix('?')?;
    let (chain, subject) = asked.rsplit_once(" of ")?;
    let relations = chain.split(" of the ").collect::<Vec<_>>();
    Some((relations.into_iter().rev().collect(), subject))
}
