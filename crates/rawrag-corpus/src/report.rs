use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::hash::ContentHash;
use crate::read::{Entry, Format};
use crate::{Benchmark, Gold, Kind, Phase};

/// What a reader found: how much, which content, and everything odd in it.
///
/// Its text (`Display`) is for a person; serialised, it is for a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The format it was read as.
    pub format: Format,
    /// Identifies the content.
    pub hash: ContentHash,
    /// The published release with that content.
    pub known: Option<&'static str>,
    /// How much was read.
    pub totals: Totals,
    /// What was odd, by kind.
    pub oddities: BTreeMap<Oddity, Findings>,
}

/// How much was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Conversations.
    pub conversations: u64,
    /// Sessions, those without messages too.
    pub sessions: u64,
    /// Messages.
    pub messages: u64,
    /// Questions, by kind.
    pub questions: BTreeMap<Kind, u64>,
    /// Those of them that are to be abstained from, by kind.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub abstentions: BTreeMap<Kind, u64>,
    /// Questions by phase, where they have one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub phases: BTreeMap<Phase, u64>,
    /// Questions by the data source inside the benchmark, where they name one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sources: BTreeMap<String, u64>,
}

/// The findings of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// How many there are.
    pub count: u64,
    /// The first of them, at most [`Findings::KEPT`].
    pub first: Vec<Finding>,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The question, message or session, by id (`conv-26/37`, `conv-26 session_20`).
    pub place: String,
    /// What stands there and how it was read, where the kind alone does not say so.
    pub detail: Option<String>,
}

macro_rules! oddities {
    ($($name:ident: $meaning:literal,)*) => {
        /// A kind of oddity that is read, not refused. Its text says what it is and how it is
        /// read.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(rename_all = "kebab-case")]
        #[non_exhaustive]
        pub enum Oddity {
            $(#[doc = $meaning] $name,)*
        }

        impl fmt::Display for Oddity {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self { $(Self::$name => $meaning,)* })
            }
        }
    };
}

oddities! {
    AdversarialWithoutAnswer: "adversarial question without an answer: its lure is kept as the lure, never as a gold answer",
    AdversarialWithAnswer: "adversarial question with a lure and an answer: both are kept, apart",
    LureOutsideCategory5: "lure of a question that is not adversarial: left out",
    AnswerNotText: "gold answer that is not a string: kept with its type",
    CategoryAsText: "category number written as a string: read as the number",
    QuestionRepeated: "question text that stands earlier in the same conversation: kept, told apart by id",
    EvidenceAbsent: "question without evidence: kept, with none",
    EvidenceJoined: "several references in one string: read as each of them",
    EvidenceMalformed: "malformed reference with one possible reading: read so",
    EvidenceUnreadable: "reference that is no id: unresolved",
    EvidenceDangling: "reference to something the conversation does not hold: unresolved",
    EvidenceRepeated: "question that names the same evidence more than once: taken once",
    EvidenceOutsideSessions: "message marked as evidence outside the sessions named as evidence: both are kept",
    EvidenceWithoutMessage: "evidence session in which no message is marked: kept as session evidence",
    DateWithoutSession: "date of a session that does not exist: left out",
    DateMissing: "session or message without a date: kept, undated",
    WeekdayWrong: "weekday that is not the date's: the date is kept",
    SessionOutOfOrder: "session dated before the one ahead of it: kept where it stands",
    SessionAfterQuestion: "session dated after the question is asked: kept, later than the cutoff",
    SessionRepeated: "session id used more than once in a conversation: told apart by position",
    SessionEmpty: "session without messages: kept",
    MessageIdRepeated: "message id used more than once in a conversation: told apart by position",
    MessageEmpty: "message without text or captions: kept",
    FieldUnknown: "unknown field: left out",
    IdMissing: "conversation without an id: named by its place in the file",
    BranchUnmarked: "conversation that does not say which branch is current: the last reply at each fork is followed",
    ConversationEmpty: "conversation without messages: left out",
    MessageOnOtherBranch: "message on an abandoned branch: left out",
    MessageOfSystem: "system message or hidden message: left out",
    MessageOfTool: "tool call, tool result or reasoning: left out",
    MessageWithoutText: "message that holds no text: left out",
    CountWrong: "count or list of positions that is not that of the content: the content is kept",
    RootDisagrees: "root change that is not what its entity says: the root change is kept",
    StatementUnplaced: "annotated fact whose message is not named or not there: kept, with its session alone",
    ValueUnsaid: "annotated fact whose message does not say the value word for word: kept",
    GoldDisagrees: "gold answer that does not hold the values annotated for it: both are kept",
    CutoffDisagrees: "questions whose date and place show different sessions: both are kept",
    EvidenceAmbiguous: "reference to a message id that several messages have: kept as written, unresolved",
    ContextNotSessions: "context of chats that is not written as dated sessions: cut like any other text, without dates",
    FactHeader: "line ahead of the first numbered fact: left out",
    FilmUnknown: "number of a film that entity2id.json does not name: kept as the number",
    IdealRepeated: "second field that holds up a good reply: the first is kept",
    KindUnknown: "type of question that the release does not have: kept under its name",
    OptionsRepeated: "option that stands twice among a question's options: kept",
    PersonaMessage: "system message that describes the persona: left out",
    PlanMark: "message that ends with the mark of the plan it was made from: kept as written",
    QuestionIdRepeated: "question id used more than once in a conversation: the later ones are given a number",
    QuestionsAbsent: "conversation without a file of questions: kept, with none",
    RubricNotList: "rubric that is one string: read as its only point",
    SpeakerUnmarked: "turn that names no speaker: kept whole, under its own name",
    PartNotText: "image, file or other part that is not text: left out of its message",
}

impl Findings {
    /// How many findings of a kind are kept; the rest are counted.
    pub const KEPT: usize = 100;
}

impl Report {
    /// Where the questions come from.
    pub fn benchmark(&self) -> Benchmark {
        self.format.benchmark()
    }
}

impl Totals {
    pub(crate) fn add(&mut self, entry: &Entry) {
        self.conversations += 1;
        self.sessions += entry.conversation.sessions.len() as u64;
        self.messages += entry.conversation.message_count() as u64;
        for question in &entry.questions {
            count(&mut self.questions, &question.kind);
            if matches!(question.gold, Some(Gold::Abstention { .. })) {
                count(&mut self.abstentions, &question.kind);
            }
            if let Some(phase) = &question.phase {
                count(&mut self.phases, phase);
            }
            if let Some(source) = &question.source {
                count(&mut self.sources, source);
            }
        }
    }
}

fn count<K: Ord + Clone>(counts: &mut BTreeMap<K, u64>, key: &K) {
    match counts.get_mut(key) {
        Some(count) => *count += 1,
        None => {
            counts.insert(key.clone(), 1);
        }
    }
}

/// Gathers findings while a file is read.
#[derive(Default)]
pub(crate) struct Notes(pub(crate) BTreeMap<Oddity, Findings>);

impl Notes {
    pub(crate) fn add(&mut self, oddity: Oddity, place: impl FnOnce() -> String) {
        self.add_detail(oddity, || (place(), None));
    }

    pub(crate) fn add_detail(
        &mut self,
        oddity: Oddity,
        finding: impl FnOnce() -> (String, Option<String>),
    ) {
        let findings = self.0.entry(oddity).or_default();
        findings.count += 1;
        if findings.first.len() < Findings::KEPT {
            let (place, detail) = finding();
            findings.first.push(Finding { place, detail });
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<15}{}", "format", self.format)?;
        writeln!(f, "{:<15}{}", "content sha256", self.hash)?;
        match (self.known, self.benchmark()) {
            (Some(name), _) => writeln!(f, "{:<15}{name}", "known as")?,
            (None, Benchmark::Own) => {}
            (None, Benchmark::Synthetic) => writeln!(
                f,
                "{:<15}made by a generator, no benchmark's data",
                "synthetic"
            )?,
            (None, benchmark) => writeln!(
                f,
                "{:<15}nothing: no {benchmark} release on record has this content; it may be \
                 altered, a part, or another version",
                "known as"
            )?,
        }
        writeln!(f, "{}", self.totals)?;
        if self.oddities.is_empty() {
            return writeln!(f, "\nnothing odd");
        }
        writeln!(f, "\nodd, and how it was read:")?;
        for (oddity, findings) in &self.oddities {
            writeln!(f, "{:>6}  {oddity}", findings.count)?;
            for finding in findings.first.iter().take(EXAMPLES) {
                match &finding.detail {
                    Some(detail) => writeln!(f, "          {}: {detail}", finding.place)?,
                    None => writeln!(f, "          {}", finding.place)?,
                }
            }
            if let Some(more @ 1..) = findings.count.checked_sub(EXAMPLES as u64) {
                writeln!(f, "          and {more} more")?;
            }
        }
        Ok(())
    }
}

/// How many findings of a kind the text shows.
const EXAMPLES: usize = 3;

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<15}{}", "conversations", self.conversations)?;
        writeln!(f, "{:<15}{}", "sessions", self.sessions)?;
        writeln!(f, "{:<15}{}", "messages", self.messages)?;
        write!(
            f,
            "{:<15}{}",
            "questions",
            self.questions.values().sum::<u64>()
        )?;
        self.questions
            .iter()
            .try_for_each(|(kind, count)| write!(f, "\n  {kind:<26}{count}"))
    }
}
