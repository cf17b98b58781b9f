//! One episode: facts over three sessions, the rules in a fourth, questions, the change in a
//! fifth, questions again, and distractor sessions between.

use std::collections::BTreeMap;

use jiff::civil::{DateTime, date};
use jiff::{Span, ToSpan};

use super::Family;
use super::distractors::{self, ASSISTANT};
use super::domains::{DOMAINS, Domain, Root, Spec, phrase};
use super::draws::{Draws, Purpose, Words};
use super::recipe::{Domains, MemeRecipe};
use super::sentences::{Said, VARIANTS, questions};
use crate::meme::{After, Annotated, Asked, Edge, Entity, EntityId, Episode};
use crate::meme::{Statement, StatementKind, Task};
use crate::{
    Answer, Benchmark, Conversation, Entry, Evidence, Gold, Kind, Message, MessageId,
    MessagePosition, Phase, Question, QuestionId, Session, SessionId, SessionPosition, Timestamp,
};

/// Evidence sessions ahead of the first questions. One more follows, with the change.
const BEFORE: usize = 4;
/// Distractors stand ahead of each evidence session but the last, after the fourth and at the end.
const GAPS: usize = 6;

/// Makes the episode numbered `index`.
pub(super) fn make(
    recipe: &MemeRecipe,
    seed: u64,
    index: u32,
    count: &dyn Fn(&str) -> usize,
) -> Annotated {
    let mut draws = Draws::new(seed, Family::Meme, Purpose::Content, index);
    let Domains {
        household,
        workshop,
        expedition,
    } = recipe.domains;
    let domain = &DOMAINS[draws.weighted(&[household, workshop, expedition])];
    let speaker = *draws.pick(&domain.speakers);
    let mut plan = Plan::new(recipe, index, domain, &mut draws);
    let (sessions, distractors) = sessions(recipe, seed, index, domain, speaker, &mut plan, count);
    let id = Family::Meme.conversation(index, domain.name);
    let mut dates = Draws::new(seed, Family::Meme, Purpose::Dates, index);
    let (conversation, statements, cutoffs) =
        history(id, speaker, sessions, &plan.facts, &mut draws, &mut dates);
    let episode = Episode {
        conversation: conversation.id.clone(),
        domain: domain.name.to_owned(),
        root: plan.root,
        entities: plan.entities,
        edges: plan.edges,
        asked: Vec::new(),
        statements,
        distractors,
    };
    ask(conversation, episode, plan.tasks, cutoffs)
}

/// Whether the n-th episode, from 0, is one of `share` in a hundred spread evenly.
fn falls_to(share: u8, index: u32) -> bool {
    let up_to = |n: u32| u64::from(n) * u64::from(share) / 100;
    up_to(index + 1) > up_to(index)
}

/// A fact to be said.
struct Fact {
    kind: StatementKind,
    label: &'static str,
    /// The value, or the label of what it depends on.
    other: String,
    /// Which evidence session says it.
    slot: usize,
}

impl Fact {
    fn said(&self) -> Said<'_> {
        let (label, value) = (self.label, self.other.as_str());
        match self.kind {
            StatementKind::Value => Said::Value { label, value },
            StatementKind::Change => Said::Change { label, value },
            StatementKind::Dependency => Said::Depends {
                label,
                source: value,
            },
            StatementKind::Replacement => Said::StandIn { label, value },
            StatementKind::Deletion => Said::Removed { label },
        }
    }
}

/// A task of the episode, with the labels it asks about.
struct Assigned {
    task: Task,
    hop: Option<u8>,
    labels: Vec<&'static str>,
    /// The word that stands for the labels of an aggregation.
    topic: &'static str,
}

/// What an episode holds.
struct Plan {
    root: EntityId,
    entities: BTreeMap<EntityId, Entity>,
    edges: Vec<Edge>,
    facts: Vec<Fact>,
    tasks: Vec<Assigned>,
    words: Words,
}

fn entity_id(label: &str) -> EntityId {
    EntityId::from(label.replace(' ', "_"))
}

impl Plan {
    fn new(recipe: &MemeRecipe, index: u32, domain: &'static Domain, draws: &mut Draws) -> Self {
        let root = draws.pick(&domain.roots);
        let mut plan = Self {
            root: entity_id(root.root.0),
            entities: BTreeMap::new(),
            edges: Vec::new(),
            facts: Vec::new(),
            tasks: Vec::new(),
            words: Words::default(),
        };
        let shares = &recipe.tasks;
        if falls_to(shares.tr, index) {
            plan.tracking(draws.pick(&domain.tracked), draws);
        }
        plan.rules(recipe, index, root, draws);
        let mut loose = domain.loose;
        draws.shuffle(&mut loose);
        let [deleted, told @ .., late, later] = loose;
        plan.value(told[0], draws.below(3), draws);
        plan.value(late, BEFORE, draws);
        plan.value(later, BEFORE, draws);
        if falls_to(shares.del, index) {
            let value = plan.value(deleted, draws.below(3), draws);
            plan.fact(StatementKind::Deletion, deleted.0, value, BEFORE);
            if let Some(entity) = plan.entities.get_mut(&entity_id(deleted.0)) {
                entity.after = Some(After::Deleted);
            }
            plan.task(Task::Deletion, None, vec![deleted.0], "");
        }
        if falls_to(shares.agg, index) {
            let (topic, specs) = draws.pick(&domain.topics);
            for (slot, spec) in specs.iter().enumerate() {
                plan.value(*spec, slot, draws);
            }
            plan.task(
                Task::Aggregation,
                None,
                specs.map(|spec| spec.0).to_vec(),
                topic,
            );
        }
        if falls_to(shares.er, index) {
            let label = draws.pick(&domain.verbatim);
            let value = phrase(&mut plan.words, draws);
            plan.told(label, value, BEFORE - 1);
            plan.task(Task::ExactRecall, None, vec![label], "");
        }
        // Within a session facts stand in no particular order.
        draws.shuffle(&mut plan.facts);
        plan.facts.sort_by_key(|fact| fact.slot);
        plan
    }

    fn tracking(&mut self, spec: &Spec, draws: &mut Draws) {
        let label = spec.0;
        let history: Vec<String> = (0..3)
            .map(|_| spec.1.make(&mut self.words, draws))
            .collect();
        for (slot, value) in history.iter().enumerate() {
            let kind = match slot {
                0 => StatementKind::Value,
                _ => StatementKind::Change,
            };
            self.fact(kind, label, value.clone(), slot);
        }
        let entity = Entity {
            before: history[..1].to_vec(),
            after: Some(After::Becomes(history[2..].to_vec())),
            history,
            ..Entity::default()
        };
        self.entities.insert(entity_id(label), entity);
        self.task(Task::Tracking, None, vec![label], "");
    }

    /// The root, what depends on it, and the tasks about that.
    fn rules(&mut self, recipe: &MemeRecipe, index: u32, root: &'static Root, draws: &mut Draws) {
        let shares = &recipe.tasks;
        let has = |share| falls_to(share, index);
        self.value(root.root, draws.below(3), draws);
        let after = root.root.1.make(&mut self.words, draws);
        self.fact(StatementKind::Change, root.root.0, after.clone(), BEFORE);
        self.becomes(root.root.0, after);

        let mut leaves = root.leaves;
        draws.shuffle(&mut leaves);
        let mut below = root.below;
        draws.shuffle(&mut below);
        if has(shares.cas_two_hop) || has(shares.abs_two_hop) {
            self.dependent(root.middle, root.root, 1, root.pattern, draws);
            if has(shares.cas_two_hop) {
                self.stand_in(root.middle, draws);
            }
        }
        let assignments = [
            (Task::Cascade, shares.cas, leaves[0], 1),
            (Task::Cascade, shares.cas_two_hop, below[0], 2),
            (Task::Absence, shares.abs, leaves[1], 1),
            (Task::Absence, shares.abs_two_hop, below[1], 2),
        ];
        for (task, share, spec, hop) in assignments {
            if !has(share) {
                continue;
            }
            match hop {
                1 => self.dependent(spec, root.root, 1, root.pattern, draws),
                _ => self.dependent(spec, root.middle, 2, root.below_pattern, draws),
            }
            if task == Task::Cascade {
                self.stand_in(spec, draws);
            }
            self.task(task, Some(hop), vec![spec.0], "");
        }
    }

    /// Gives an entity a value that depends on another entity.
    fn dependent(&mut self, spec: Spec, source: Spec, hop: u8, pattern: &str, draws: &mut Draws) {
        self.value(spec, draws.below(3), draws);
        self.fact(
            StatementKind::Dependency,
            spec.0,
            source.0.to_owned(),
            BEFORE - 1,
        );
        if let Some(entity) = self.entities.get_mut(&entity_id(spec.0)) {
            entity.upstream = Some(entity_id(source.0));
            entity.hop = Some(hop);
        }
        self.edges.push(Edge {
            source: entity_id(source.0),
            target: entity_id(spec.0),
            hop,
            pattern: pattern.to_owned(),
        });
    }

    /// Says in advance what an entity will be.
    fn stand_in(&mut self, spec: Spec, draws: &mut Draws) {
        let value = spec.1.make(&mut self.words, draws);
        self.fact(
            StatementKind::Replacement,
            spec.0,
            value.clone(),
            BEFORE - 1,
        );
        self.becomes(spec.0, value);
    }

    fn becomes(&mut self, label: &str, value: String) {
        if let Some(entity) = self.entities.get_mut(&entity_id(label)) {
            entity.after = Some(After::Becomes(vec![value]));
        }
    }

    /// Gives an entity a value, told in session `slot`.
    fn value(&mut self, spec: Spec, slot: usize, draws: &mut Draws) -> String {
        let value = spec.1.make(&mut self.words, draws);
        self.told(spec.0, value.clone(), slot);
        value
    }

    fn told(&mut self, label: &'static str, value: String, slot: usize) {
        self.fact(StatementKind::Value, label, value.clone(), slot);
        let entity = Entity {
            before: vec![value],
            ..Entity::default()
        };
        self.entities.insert(entity_id(label), entity);
    }

    fn fact(&mut self, kind: StatementKind, label: &'static str, other: String, slot: usize) {
        self.facts.push(Fact {
            kind,
            label,
            other,
            slot,
        });
    }

    fn task(
        &mut self,
        task: Task,
        hop: Option<u8>,
        labels: Vec<&'static str>,
        topic: &'static str,
    ) {
        self.tasks.push(Assigned {
            task,
            hop,
            labels,
            topic,
        });
    }
}

/// A session to be written: the evidence session of that number, or a distractor's messages.
enum Planned {
    Evidence(usize),
    Distractor(Vec<(String, String)>),
}

/// All sessions in order, and where the distractors stand.
fn sessions(
    recipe: &MemeRecipe,
    seed: u64,
    index: u32,
    domain: &Domain,
    speaker: &str,
    plan: &mut Plan,
    count: &dyn Fn(&str) -> usize,
) -> (Vec<Planned>, Vec<SessionPosition>) {
    let mut draws = Draws::new(seed, Family::Meme, Purpose::Distractors, index);
    let mut gaps: [Vec<Planned>; GAPS] = Default::default();
    let mut left = recipe.distractor_tokens as usize;
    for gap in (0..GAPS).cycle() {
        if left == 0 {
            break;
        }
        let messages = distractors::session(domain, speaker, &mut plan.words, &mut draws);
        let text: Vec<&str> = messages.iter().map(|(_, text)| text.as_str()).collect();
        // A counter that counts nothing would never end.
        let tokens = count(&text.join(" ")).max(1);
        let Some(rest) = left.checked_sub(tokens) else {
            break;
        };
        left = rest;
        gaps[gap].push(Planned::Distractor(messages));
    }
    let mut order = Vec::new();
    for (gap, distractors) in gaps.into_iter().enumerate() {
        order.extend(distractors);
        match gap {
            0..BEFORE => order.push(Planned::Evidence(gap)),
            BEFORE => order.push(Planned::Evidence(BEFORE)),
            _ => {}
        }
    }
    let places = order.iter().zip((0..).map(SessionPosition));
    let distractors = places
        .filter(|(session, _)| matches!(session, Planned::Distractor(_)))
        .map(|(_, place)| place)
        .collect();
    (order, distractors)
}

/// When questions are asked, and after which session.
type Cutoffs = [(Timestamp, SessionPosition); 2];

/// Writes out the sessions, with the place of every fact.
fn history(
    id: crate::ConversationId,
    speaker: &str,
    planned: Vec<Planned>,
    facts: &[Fact],
    draws: &mut Draws,
    dates: &mut Draws,
) -> (Conversation, Vec<Statement>, Cutoffs) {
    let mut conversation = Conversation {
        id,
        sessions: Vec::with_capacity(planned.len()),
    };
    let mut statements = Vec::with_capacity(facts.len());
    let mut now = date(2031, 3, 1).at(9, 0, 0, 0);
    let mut messages_before = 0;
    let mut last = SessionPosition(0);
    let mut before = (stamp(now), last);
    for (session, position) in planned.into_iter().zip((0..).map(SessionPosition)) {
        if matches!(session, Planned::Evidence(BEFORE)) {
            before = (stamp(later(now, (-60).minutes())), last);
        }
        let said = match session {
            Planned::Distractor(messages) => messages,
            Planned::Evidence(slot) => {
                let slot = facts.iter().filter(|fact| fact.slot == slot);
                evidence(
                    slot,
                    speaker,
                    position,
                    messages_before,
                    &mut statements,
                    draws,
                )
            }
        };
        messages_before += said.len() as u32;
        conversation.sessions.push(written(said, position, now));
        last = position;
        // Long enough for the longest session and for questions after it.
        let minutes = 180 + dates.below(46 * 60) as i64;
        now = later(now, minutes.minutes());
    }
    let after = (stamp(later(now, (-60).minutes())), last);
    (conversation, statements, [before, after])
}

fn later(now: DateTime, span: Span) -> DateTime {
    now.saturating_add(span)
}

fn stamp(local: DateTime) -> Timestamp {
    Timestamp {
        local,
        offset_minutes: None,
        has_time: true,
    }
}

/// Messages a minute apart, as chat JSONL is read back.
fn written(said: Vec<(String, String)>, position: SessionPosition, began: DateTime) -> Session {
    let id = SessionId::from(format!("s{:04}", position.0 + 1));
    let messages = said
        .into_iter()
        .zip(0_i64..)
        .map(|((speaker, text), n)| Message {
            id: MessageId::from(format!("{id}:{}", n + 1)),
            speaker,
            text,
            captions: Vec::new(),
            date: Some(stamp(later(began, n.minutes()))),
        });
    Session {
        messages: messages.collect(),
        date: Some(stamp(began)),
        id,
    }
}

/// The messages of an evidence session: a greeting, then each fact and a reply to it.
fn evidence<'a>(
    facts: impl Iterator<Item = &'a Fact>,
    speaker: &str,
    session: SessionPosition,
    messages_before: u32,
    statements: &mut Vec<Statement>,
    draws: &mut Draws,
) -> Vec<(String, String)> {
    let greeting = (*draws.pick(&GREETINGS)).to_owned();
    let mut messages = vec![(ASSISTANT.to_owned(), greeting)];
    for fact in facts {
        let sentence = fact.said().sentence(draws.below(VARIANTS));
        let message = MessagePosition(messages_before + messages.len() as u32);
        let stated =
            |value: &String| (fact.kind != StatementKind::Dependency).then(|| value.clone());
        statements.push(Statement {
            kind: fact.kind,
            entity: entity_id(fact.label),
            value: stated(&fact.other),
            upstream: (fact.kind == StatementKind::Dependency).then(|| entity_id(&fact.other)),
            session,
            message: Some(message),
            text: sentence.clone(),
        });
        let text = match draws.below(3) {
            0 => sentence,
            _ => format!("{sentence} {}", draws.pick(&ASIDES)),
        };
        messages.push((speaker.to_owned(), text));
        messages.push((ASSISTANT.to_owned(), (*draws.pick(&REPLIES)).to_owned()));
    }
    messages
}

// What stands around a fact says nothing of order, removal or dependency.
const GREETINGS: [&str; 4] = [
    "Hello! What would you like to talk about?",
    "Good to see you. What is on your mind?",
    "Hi there, what can I do for you?",
    "Welcome. Tell me what you need.",
];
const ASIDES: [&str; 6] = [
    "Any thoughts on that?",
    "I wanted you to know.",
    "It took us a while to agree.",
    "What would you watch out for?",
    "Nobody objected.",
    "That is all there is to say about it.",
];
const REPLIES: [&str; 6] = [
    "Understood. Is there anything you would like to work out about it?",
    "Good to know. I can help you plan around that.",
    "Noted. What matters most to you there?",
    "Thanks for telling me. Shall we go through the details?",
    "All right. I am happy to think it over with you.",
    "I see. Would a short checklist help?",
];

/// Adds the questions of both phases.
fn ask(
    conversation: Conversation,
    mut episode: Episode,
    tasks: Vec<Assigned>,
    cutoffs: Cutoffs,
) -> Annotated {
    let mut questions = Vec::new();
    for (phase, (cutoff, last_session)) in [Phase::Before, Phase::After].into_iter().zip(cutoffs) {
        for assigned in &tasks {
            // As in MEME, these two are asked once all there is has been said.
            if phase == Phase::Before && matches!(assigned.task, Task::Tracking | Task::Aggregation)
            {
                continue;
            }
            let (asked, gold) = assigned.asked(phase, last_session, &episode);
            let support = episode.support(&asked);
            questions.push(Question {
                benchmark: Benchmark::Synthetic,
                source: Some(Family::Meme.source().to_owned()),
                conversation: conversation.id.clone(),
                id: asked.id.clone(),
                phase: Some(phase),
                kind: Kind::from(assigned.task.name()),
                text: assigned.question(),
                options: Vec::new(),
                cutoff: Some(cutoff),
                gold: Some(gold),
                evidence: cited(&conversation, support.iter().filter_map(|s| s.message)),
            });
            episode.asked.push(asked);
        }
    }
    let entry = Entry {
        conversation,
        questions,
    };
    Annotated { entry, episode }
}

/// Evidence as chat JSONL is read back: by message id.
pub(super) fn cited(
    conversation: &Conversation,
    messages: impl Iterator<Item = MessagePosition>,
) -> Evidence {
    let mut messages: Vec<MessagePosition> = messages.collect();
    messages.sort_unstable();
    messages.dedup();
    let mut evidence = Evidence::default();
    let mut wanted = messages.iter().peekable();
    for (session, position, message) in conversation.messages() {
        if wanted.next_if_eq(&&position).is_some() {
            evidence.written.push(message.id.to_string());
            evidence.sessions.push(session);
        }
    }
    evidence.sessions.dedup();
    evidence.messages = messages;
    evidence
}

impl Assigned {
    fn question(&self) -> String {
        let label = self.labels.first().copied().unwrap_or_default();
        match self.task {
            Task::ExactRecall => questions::verbatim(label),
            Task::Aggregation => questions::topic(self.topic),
            Task::Tracking => questions::history(label),
            Task::Deletion | Task::Cascade | Task::Absence => questions::current(label),
        }
    }

    fn asked(
        &self,
        phase: Phase,
        last_session: SessionPosition,
        episode: &Episode,
    ) -> (Asked, Gold) {
        let targets: Vec<EntityId> = self.labels.iter().map(|label| entity_id(label)).collect();
        let values: Vec<Vec<String>> = targets
            .iter()
            .map(|target| {
                let entity = episode.entities.get(target);
                let entity = entity.cloned().unwrap_or_default();
                match (self.task, phase, entity.after) {
                    (Task::Tracking, ..) => entity.history,
                    (Task::Cascade, Phase::After, Some(After::Becomes(after))) => after,
                    _ => entity.before,
                }
            })
            .collect();
        let label = self.labels.first().copied().unwrap_or_default();
        let gold = match (self.task, phase) {
            (Task::Deletion, Phase::After) => Gold::Abstention {
                explanation: format!("the {label} was removed at the speaker's request"),
            },
            (Task::Absence, Phase::After) => Gold::Abstention {
                explanation: format!(
                    "the {label} depends on the {}, directly or not, which has changed, and \
                     nothing is said to take its place",
                    episode.root.label()
                ),
            },
            (Task::Aggregation | Task::Tracking, _) => Gold::Answer(Answer::List(values.concat())),
            _ => Gold::Answer(Answer::Text(values.concat().join(" "))),
        };
        let targets_named = self.labels.join("+").replace(' ', "_");
        let asked = Asked {
            id: QuestionId::from(format!("{}:{targets_named}", self.task)),
            phase,
            task: self.task,
            hop: self.hop,
            targets,
            values,
            last_session,
        };
        (asked, gold)
    }
}
