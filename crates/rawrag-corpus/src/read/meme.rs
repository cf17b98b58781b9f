//! MEME's release: an array of episodes (`meme_filler32k.json`, `meme_filler128k.json`,
//! `meme_nofiller.json`).

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::elements::{Elements, Place};
use super::{Entry, answer, note_repeated_questions};
use crate::error::LoadError;
use crate::meme::{After, Annotated, Asked, Edge, Entity, EntityId, Episode};
use crate::meme::{Statement, StatementKind, Task};
use crate::report::{Notes, Oddity};
use crate::{
    Answer, Benchmark, Conversation, ConversationId, Evidence, Gold, Kind, Message, MessageId,
    MessagePosition, Phase, Question, QuestionId, Session, SessionId, SessionPosition, Timestamp,
};

/// Fields that hold nothing beyond what is read from the others.
const DERIVED: [&str; 6] = [
    "chain_entities",
    "filler_entities",
    "has_2hop",
    "total_tokens",
    "evidence_tokens",
    "filler_tokens",
];

#[derive(Deserialize)]
struct RawEpisode<'a> {
    episode_id: String,
    domain: String,
    root: EntityId,
    root_change: RootChange,
    entities: BTreeMap<EntityId, RawEntity>,
    dependency_edges_used: Vec<RawEdge>,
    #[serde(default)]
    tasks: Vec<RawTask>,
    sessions: Vec<RawSession>,
    #[serde(borrow)]
    before_questions: Block<'a>,
    #[serde(borrow)]
    after_questions: Block<'a>,
    total_sessions: Option<u64>,
    evidence_sessions: Option<u64>,
    filler_sessions: Option<u64>,
    evidence_session_indices: Option<Vec<u64>>,
    #[serde(flatten)]
    other: BTreeMap<String, IgnoredAny>,
}

#[derive(Deserialize)]
struct RootChange {
    before: Values,
    after: Values,
}

#[derive(Deserialize)]
struct RawEntity {
    before: Option<Values>,
    after: Option<Values>,
    #[serde(default)]
    history: Vec<String>,
    cascade_source: Option<EntityId>,
    hop: Option<u8>,
}

/// One value, or a list of them.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a string or a list of strings")]
enum Values {
    One(String),
    Many(Vec<String>),
}

impl Values {
    fn list(self) -> Vec<String> {
        match self {
            Self::One(value) => vec![value],
            Self::Many(values) => values,
        }
    }
}

/// What a model wrote when the release was made: of the type it was asked for, or not.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written<T> {
    AsAsked(T),
    Otherwise(IgnoredAny),
}

#[derive(Deserialize)]
struct RawEdge {
    source: EntityId,
    target: EntityId,
    hop: u8,
    pattern: String,
}

#[derive(Deserialize)]
struct RawTask {
    #[serde(rename = "type")]
    task: String,
    target_entities: Values,
}

#[derive(Deserialize)]
struct RawSession {
    session_id: String,
    #[serde(rename = "type")]
    kind: SessionKind,
    timestamp: String,
    conversation: Vec<Turn>,
    #[serde(default)]
    gold_facts: Vec<Fact>,
}

#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum SessionKind {
    Evidence,
    Filler,
}

#[derive(Deserialize)]
struct Turn {
    role: String,
    content: String,
}

#[derive(Deserialize)]
struct Fact {
    entity: EntityId,
    value: Option<Values>,
    fact_text: Option<Written<String>>,
    original_seed: Option<String>,
    conveyed_in_turn: Option<Written<u32>>,
    dependency_source: Option<EntityId>,
    #[serde(default)]
    is_if_then: bool,
    #[serde(rename = "type")]
    event: Option<String>,
}

#[derive(Deserialize)]
struct Block<'a> {
    timestamp: String,
    /// -1 where nothing was said yet.
    position_after_session: i64,
    #[serde(borrow)]
    questions: Vec<RawQuestion<'a>>,
}

#[derive(Deserialize)]
struct RawQuestion<'a> {
    task_type: String,
    entity: Values,
    entity_values: BTreeMap<EntityId, Values>,
    question: String,
    #[serde(borrow)]
    gold_answer: Option<&'a RawValue>,
    #[serde(borrow)]
    expected_answer: Option<&'a RawValue>,
    hop: Option<u8>,
}

/// The episodes of a release that was read without error before.
pub(super) fn episodes(file: &Path) -> Result<Vec<Annotated>, LoadError> {
    let input = File::open(file).map_err(|source| LoadError::Read {
        file: file.to_owned(),
        source,
    })?;
    let mut elements = Elements::new(file, BufReader::with_capacity(1 << 16, input));
    let mut notes = Notes::default();
    let mut episodes = Vec::new();
    while let Some((json, place)) = elements.next()? {
        episodes.push(annotated(json, &place, &mut notes)?);
    }
    Ok(episodes)
}

/// Reads one episode as a conversation with its questions.
pub(super) fn entry(
    json: &str,
    element: &Place<'_>,
    notes: &mut Notes,
) -> Result<Option<Entry>, LoadError> {
    Ok(Some(annotated(json, element, notes)?.entry))
}

fn annotated(json: &str, element: &Place<'_>, notes: &mut Notes) -> Result<Annotated, LoadError> {
    let mut raw: RawEpisode<'_> = element.parse(json)?;
    let id = std::mem::take(&mut raw.episode_id);
    let at = element.named(format!("episode {id}"));
    for field in raw.other.keys().filter(|f| !DERIVED.contains(&f.as_str())) {
        notes.add(Oddity::FieldUnknown, || format!("{id} {field}"));
    }
    let (before, after) = (raw.before_questions, raw.after_questions);
    note_tasks(&id, &raw.tasks, &after, notes);
    let declared = [
        (raw.total_sessions, None),
        (raw.evidence_sessions, Some(SessionKind::Evidence)),
        (raw.filler_sessions, Some(SessionKind::Filler)),
    ];
    note_sessions(&id, &raw.sessions, declared, notes);
    note_evidence_indices(&id, raw.evidence_session_indices, &raw.sessions, notes);
    let distractors = raw
        .sessions
        .iter()
        .zip((0..).map(SessionPosition))
        .filter(|(session, _)| session.kind == SessionKind::Filler)
        .map(|(_, position)| position)
        .collect();
    let (conversation, statements) = history(&id, raw.sessions, &at, notes)?;
    let entities = entities(raw.entities, &raw.root, raw.root_change, &id, notes);
    let edges = raw.dependency_edges_used.into_iter();
    let mut episode = Episode {
        conversation: conversation.id.clone(),
        domain: raw.domain,
        root: raw.root,
        entities,
        edges: edges.map(RawEdge::read).collect(),
        asked: Vec::new(),
        statements,
        distractors,
    };
    let mut questions = Vec::new();
    for (block, phase) in [(before, Phase::Before), (after, Phase::After)] {
        ask(
            block,
            phase,
            &conversation,
            &mut episode,
            &mut questions,
            &at,
            notes,
        )?;
    }
    if let [first, .., last] = episode.asked.as_slice()
        && first.last_session > last.last_session
    {
        return Err(at.error(
            "after_questions.position_after_session",
            "the questions after the change are asked ahead of those before it",
            "correct the positions",
        ));
    }
    note_repeated_questions(&questions, notes);
    let entry = Entry {
        conversation,
        questions,
    };
    Ok(Annotated { entry, episode })
}

impl RawEdge {
    fn read(self) -> Edge {
        Edge {
            source: self.source,
            target: self.target,
            hop: self.hop,
            pattern: self.pattern,
        }
    }
}

/// Notes tasks that are not asked after the change, and questions that no task stands for.
fn note_tasks(id: &str, tasks: &[RawTask], after: &Block<'_>, notes: &mut Notes) {
    let key = |task: &str, targets: &Values| {
        let targets = match targets {
            Values::One(target) => target.clone(),
            Values::Many(targets) => targets.join("+"),
        };
        format!("{} {targets}", tag(task))
    };
    let mut planned: Vec<String> = tasks
        .iter()
        .map(|t| key(&t.task, &t.target_entities))
        .collect();
    let asked = after.questions.iter().map(|q| key(&q.task_type, &q.entity));
    let mut asked: Vec<String> = asked.collect();
    planned.sort_unstable();
    asked.sort_unstable();
    if planned != asked {
        let detail = || {
            let detail = format!(
                "{} tasks, {} questions after the change",
                planned.len(),
                asked.len()
            );
            (id.to_owned(), Some(detail))
        };
        notes.add_detail(Oddity::CountWrong, detail);
    }
}

/// Notes declared numbers of sessions, of a kind or in all, that are not those of the content.
fn note_sessions(
    id: &str,
    sessions: &[RawSession],
    declared: [(Option<u64>, Option<SessionKind>); 3],
    notes: &mut Notes,
) {
    for (declared, kind) in declared {
        let of_kind = |s: &&RawSession| kind.is_none_or(|kind| s.kind == kind);
        let found = sessions.iter().filter(of_kind).count() as u64;
        let name = match kind {
            None => "sessions",
            Some(SessionKind::Evidence) => "evidence sessions",
            Some(SessionKind::Filler) => "filler sessions",
        };
        if let Some(declared) = declared
            && declared != found
        {
            let detail = format!("{declared} {name}, read {found}");
            notes.add_detail(Oddity::CountWrong, || (id.to_owned(), Some(detail)));
        }
    }
}

fn note_evidence_indices(
    id: &str,
    declared: Option<Vec<u64>>,
    sessions: &[RawSession],
    notes: &mut Notes,
) {
    let found: Vec<u64> = sessions
        .iter()
        .zip(0..)
        .filter(|(session, _)| session.kind == SessionKind::Evidence)
        .map(|(_, position)| position)
        .collect();
    if let Some(declared) = declared
        && declared != found
    {
        let detail = format!("evidence_session_indices {declared:?}, read {found:?}");
        notes.add_detail(Oddity::CountWrong, || (id.to_owned(), Some(detail)));
    }
}

fn entities(
    raw: BTreeMap<EntityId, RawEntity>,
    root: &EntityId,
    change: RootChange,
    id: &str,
    notes: &mut Notes,
) -> BTreeMap<EntityId, Entity> {
    let read = |raw: RawEntity| Entity {
        before: raw.before.map(Values::list).unwrap_or_default(),
        after: raw.after.map(|after| match after.list() {
            values if values == ["deleted"] => After::Deleted,
            values => After::Becomes(values),
        }),
        history: raw.history,
        upstream: raw.cascade_source,
        hop: raw.hop,
    };
    let mut entities: BTreeMap<EntityId, Entity> = raw
        .into_iter()
        .map(|(id, entity)| (id, read(entity)))
        .collect();
    let changed = Entity {
        before: change.before.list(),
        after: Some(After::Becomes(change.after.list())),
        ..Entity::default()
    };
    let declared = entities.get(root);
    if declared.is_none_or(|e| e.before != changed.before || e.after != changed.after) {
        notes.add(Oddity::RootDisagrees, || format!("{id} {root}"));
    }
    entities.insert(root.clone(), changed);
    entities
}

fn history(
    id: &str,
    raw: Vec<RawSession>,
    at: &Place<'_>,
    notes: &mut Notes,
) -> Result<(Conversation, Vec<Statement>), LoadError> {
    let mut sessions = Vec::with_capacity(raw.len());
    let mut statements = Vec::new();
    let mut messages_before = 0;
    for (session, position) in raw.into_iter().zip((0..).map(SessionPosition)) {
        let place = format!("{id} session {}", session.session_id);
        let field = format!("sessions[{}].timestamp", position.0);
        let date = date(&session.timestamp, &field, at, &place, notes)?;
        for fact in session.gold_facts {
            let turn = fact.turn(&session.conversation, &place, notes);
            let message = turn.map(|turn| MessagePosition(messages_before + turn));
            fact.statements(position, message, &mut statements);
        }
        messages_before += session.conversation.len() as u32;
        let message = |(turn, ordinal): (Turn, u32)| Message {
            id: MessageId::from(format!("{}:{ordinal}", session.session_id)),
            speaker: turn.role,
            text: turn.content,
            captions: Vec::new(),
            date: None,
        };
        sessions.push(Session {
            messages: session
                .conversation
                .into_iter()
                .zip(1..)
                .map(message)
                .collect(),
            id: SessionId::from(session.session_id),
            date: Some(date),
        });
    }
    let conversation = Conversation {
        id: ConversationId::from(id),
        sessions,
    };
    Ok((conversation, statements))
}

impl Fact {
    /// The turn that says it, if the file names one that the session has.
    fn turn(&self, turns: &[Turn], place: &str, notes: &mut Notes) -> Option<u32> {
        let finding =
            |detail: String| (place.to_owned(), Some(format!("{}: {detail}", self.entity)));
        let turn = match self.conveyed_in_turn {
            Some(Written::AsAsked(turn)) => Some(turn),
            _ => None,
        };
        let Some((turn, said)) = turn.and_then(|turn| Some((turn, turns.get(turn as usize)?)))
        else {
            let detail = turn.map_or("no turn".to_owned(), |turn| format!("turn {turn}"));
            notes.add_detail(Oddity::StatementUnplaced, || finding(detail));
            return None;
        };
        let said = said.content.to_lowercase();
        let values: &[String] = match &self.value {
            None => &[],
            Some(Values::One(value)) => std::slice::from_ref(value),
            Some(Values::Many(values)) => values,
        };
        if let Some(unsaid) = values
            .iter()
            .find(|value| !said.contains(&value.to_lowercase()))
        {
            notes.add_detail(Oddity::ValueUnsaid, || finding(format!("{unsaid:?}")));
        }
        Some(turn)
    }

    fn statements(
        self,
        session: SessionPosition,
        message: Option<MessagePosition>,
        out: &mut Vec<Statement>,
    ) {
        let kind = match self.event.as_deref() {
            Some(event) if event.contains("change") => StatementKind::Change,
            Some(event) if event.contains("delete") => StatementKind::Deletion,
            _ if self.is_if_then => StatementKind::Replacement,
            _ => StatementKind::Value,
        };
        let text = match self.fact_text {
            Some(Written::AsAsked(text)) => text,
            _ => self.original_seed.unwrap_or_default(),
        };
        let values = match self.value {
            None => vec![None],
            Some(values) => values.list().into_iter().map(Some).collect(),
        };
        out.extend(values.into_iter().map(|value| Statement {
            kind,
            entity: self.entity.clone(),
            value,
            upstream: self.dependency_source.clone(),
            session,
            message,
            text: text.clone(),
        }));
    }
}

/// Adds the questions of a block to the episode and to `questions`.
fn ask(
    block: Block<'_>,
    phase: Phase,
    conversation: &Conversation,
    episode: &mut Episode,
    questions: &mut Vec<Question>,
    at: &Place<'_>,
    notes: &mut Notes,
) -> Result<(), LoadError> {
    let name = match phase {
        Phase::Before => "before_questions",
        Phase::After => "after_questions",
    };
    let field = |field: &str| format!("{name}.{field}");
    let cutoff = date(
        &block.timestamp,
        &field("timestamp"),
        at,
        &field("timestamp"),
        notes,
    )?;
    let last = u32::try_from(block.position_after_session)
        .ok()
        .filter(|&last| (last as usize) < conversation.sessions.len());
    let Some(last_session) = last.map(SessionPosition) else {
        let problem = format!(
            "session {} does not stand in a history of {} sessions",
            block.position_after_session,
            conversation.sessions.len()
        );
        let mend = "give the position of the last session ahead of the questions, from 0";
        return Err(at.error(&field("position_after_session"), problem, mend));
    };
    let misplaced = |(session, position): (&Session, u32)| {
        session
            .date
            .is_some_and(|date| (date <= cutoff) != (position <= last_session.0))
    };
    if conversation.sessions.iter().zip(0..).any(misplaced) {
        notes.add(Oddity::CutoffDisagrees, || {
            format!("{} {name}", conversation.id)
        });
    }
    let mut used: HashMap<String, u32> = HashMap::new();
    for (raw, index) in block.questions.into_iter().zip(0_u32..) {
        let place = at.named(format!("{}, {name}.questions[{index}]", at.name));
        let (asked, mut question) = raw.read(
            phase,
            last_session,
            cutoff,
            &conversation.id,
            &mut used,
            &place,
            notes,
        )?;
        question.evidence = evidence(episode, &asked);
        if question.evidence.sessions.is_empty() {
            notes.add(Oddity::EvidenceAbsent, || {
                format!("{} {} {name}", conversation.id, question.id)
            });
        }
        episode.asked.push(asked);
        questions.push(question);
    }
    Ok(())
}

/// The statements that support a question. The release writes no references of its own.
fn evidence(episode: &Episode, asked: &Asked) -> Evidence {
    let support = episode.support(asked);
    let mut messages: Vec<_> = support.iter().filter_map(|s| s.message).collect();
    let mut sessions: Vec<_> = support.iter().map(|s| s.session).collect();
    messages.sort_unstable();
    messages.dedup();
    sessions.sort_unstable();
    sessions.dedup();
    Evidence {
        messages,
        sessions,
        ..Evidence::default()
    }
}

impl RawQuestion<'_> {
    #[expect(
        clippy::too_many_arguments,
        reason = "what surrounds a question in its file"
    )]
    fn read(
        self,
        phase: Phase,
        last_session: SessionPosition,
        cutoff: Timestamp,
        conversation: &ConversationId,
        used: &mut HashMap<String, u32>,
        place: &Place<'_>,
        notes: &mut Notes,
    ) -> Result<(Asked, Question), LoadError> {
        let task = task(&self.task_type, place)?;
        let targets: Vec<EntityId> = self.entity.list().into_iter().map(EntityId::from).collect();
        if targets.is_empty() {
            return Err(place.error("entity", "it names no entity", "name what is asked about"));
        }
        let mut annotated = self.entity_values;
        let values = targets
            .iter()
            .map(|target| {
                annotated
                    .remove(target)
                    .map(Values::list)
                    .unwrap_or_default()
            })
            .collect::<Vec<_>>();
        if let Some(unvalued) = values
            .iter()
            .position(|v| v.iter().all(|v| v.trim().is_empty()))
        {
            let problem = format!("it holds no value of {}", targets[unvalued]);
            return Err(place.error("entity_values", problem, "give the value of each entity"));
        }
        if self.hop.is_none() && matches!(task, Task::Cascade | Task::Absence) {
            let problem = format!("a question of type {task} has no hop");
            return Err(place.error("hop", problem, "give 1 or 2"));
        }
        let mut id = format!("{task}:{}", join(&targets));
        let uses = used.entry(id.clone()).or_default();
        *uses += 1;
        if *uses > 1 {
            id = format!("{id}#{uses}");
        }
        let id = QuestionId::from(id);
        let asked = Asked {
            id: id.clone(),
            phase,
            task,
            hop: self.hop,
            targets,
            values,
            last_session,
        };
        let answer = gold(self.gold_answer, self.expected_answer, place)?;
        let finding = || format!("{conversation} {id} {phase:?}");
        if !matches!(answer, Answer::Text(_)) {
            notes.add(Oddity::AnswerNotText, finding);
        }
        let gone = phase == Phase::After && matches!(task, Task::Deletion | Task::Absence);
        let shown = answer.to_string().to_lowercase();
        let stated = |value: &String| shown.contains(&value.to_lowercase());
        if !gone && !asked.values.iter().flatten().all(stated) {
            notes.add(Oddity::GoldDisagrees, finding);
        }
        let gold = if gone {
            Gold::Abstention {
                explanation: answer.to_string(),
            }
        } else {
            Gold::Answer(answer)
        };
        let question = Question {
            benchmark: Benchmark::Meme,
            source: None,
            conversation: conversation.clone(),
            id,
            phase: Some(phase),
            kind: Kind::from(task.name()),
            text: self.question,
            options: Vec::new(),
            cutoff: Some(cutoff),
            gold: Some(gold),
            evidence: Evidence::default(),
        };
        Ok((asked, question))
    }
}

fn join(targets: &[EntityId]) -> String {
    let targets: Vec<&str> = targets.iter().map(EntityId::as_str).collect();
    targets.join("+")
}

/// The tag alone: some versions write `Cas (2-hop)`.
fn tag(text: &str) -> &str {
    text.split(" (").next().unwrap_or(text)
}

fn task(text: &str, place: &Place<'_>) -> Result<Task, LoadError> {
    let named = Task::ALL.into_iter().find(|task| task.name() == tag(text));
    named.ok_or_else(|| {
        let problem = format!("{text:?} is no task");
        place.error("task_type", problem, "give ER, Agg, Tr, Del, Cas or Abs")
    })
}

/// The gold answer under either of its names.
fn gold(
    gold: Option<&RawValue>,
    expected: Option<&RawValue>,
    place: &Place<'_>,
) -> Result<Answer, LoadError> {
    let read = |raw, field| answer(raw, field, place);
    match (gold, expected) {
        (Some(gold), None) => read(gold, "gold_answer"),
        (None, Some(expected)) => read(expected, "expected_answer"),
        (Some(gold), Some(expected)) => {
            let (gold, expected) = (
                read(gold, "gold_answer")?,
                read(expected, "expected_answer")?,
            );
            if gold == expected {
                return Ok(gold);
            }
            let problem = "gold_answer and expected_answer differ";
            Err(place.error("gold_answer", problem, "leave one of them out"))
        }
        (None, None) => {
            let problem = "it has neither gold_answer nor expected_answer";
            Err(place.error(
                "gold_answer",
                problem,
                "give the answer under one of these names",
            ))
        }
    }
}

fn date(
    text: &str,
    field: &str,
    at: &Place<'_>,
    place: &str,
    notes: &mut Notes,
) -> Result<Timestamp, LoadError> {
    let (date, weekday_agrees) = Timestamp::read(text)
        .map_err(|e| at.error(field, e.to_string(), "write the date in one of these forms"))?;
    if !weekday_agrees {
        let detail = || (place.to_owned(), Some(format!("{text:?} read as {date}")));
        notes.add_detail(Oddity::WeekdayWrong, detail);
    }
    Ok(date)
}
