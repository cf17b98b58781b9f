//! The registry of metrics: what a column may name, and how each is computed.
//!
//! A metric is a function from one question's records to a value or to nothing, and one line in
//! [`METRICS`] that names it and says how the questions are put together. A question for which it
//! is undefined is left out, and the number of those that remain stands in the cell's data.

use std::collections::BTreeSet;
use std::fmt;

use rawrag_diagnostics::questions::{self, Aspect};
use rawrag_records::{
    Answer, AnswerOutcome, EvidenceItem, History, Judgment, JudgmentOutcome, Phase, Retrieval,
    Search,
};
use rawrag_scoring::Ranking;
use rawrag_scoring::judge::Policy;

use crate::{Outputs, QuestionRecords};

/// Every metric.
pub const METRICS: &[Metric] = &[
    Metric::at(
        "recall.any",
        Unit::Rate,
        Mean,
        recall_any,
        "the first k items hold at least one gold message",
    ),
    Metric::at(
        "recall.all",
        Unit::Rate,
        Mean,
        recall_all,
        "the first k items hold every gold message",
    ),
    Metric::at(
        "recall",
        Unit::Rate,
        Mean,
        recall,
        "share of the gold messages that the first k items hold",
    ),
    Metric::of(
        "mrr",
        Unit::Rate,
        Mean,
        reciprocal_rank,
        "one over the rank of the first item that holds a gold message",
    ),
    Metric::at(
        "ndcg",
        Unit::Rate,
        Mean,
        ndcg,
        "nDCG of the first k items; each gold message counts once, at the first item that holds it",
    ),
    Metric::at(
        "session.recall.any",
        Unit::Rate,
        Mean,
        session_recall_any,
        "the first k items reach at least one gold session",
    ),
    Metric::at(
        "session.recall.all",
        Unit::Rate,
        Mean,
        session_recall_all,
        "the first k items reach every gold session",
    ),
    Metric::of(
        "session.mrr",
        Unit::Rate,
        Mean,
        session_reciprocal_rank,
        "one over the rank of the first item that reaches a gold session",
    ),
    Metric::at(
        "nano.recall",
        Unit::Rate,
        Mean,
        nano_recall,
        "the first k sessions are all gold sessions written; Nano-Memory's own rule",
    ),
    Metric::at(
        "nano.ndcg",
        Unit::Rate,
        Mean,
        nano_ndcg,
        "nDCG of the first k sessions; Nano-Memory's own rule",
    ),
    Metric::at(
        "evidence.tokens.mean",
        Unit::Tokens,
        Mean,
        evidence_tokens,
        "o200k_base tokens of the evidence of k items",
    ),
    Metric::at(
        "evidence.tokens.median",
        Unit::Tokens,
        Percentile(0.5),
        evidence_tokens,
        "the same, median",
    ),
    Metric::at(
        "evidence.tokens.p95",
        Unit::Tokens,
        Percentile(0.95),
        evidence_tokens,
        "the same, 95th percentile",
    ),
    Metric::at(
        "evidence.tokens.max",
        Unit::Tokens,
        Percentile(1.0),
        evidence_tokens,
        "the same, maximum",
    ),
    Metric::at(
        "evidence.over-5000",
        Unit::Count,
        Sum,
        over_5000,
        "questions whose evidence of k items exceeds 5,000 o200k_base tokens",
    ),
    Metric::of("questions", Unit::Count, Sum, one, "questions"),
    Metric::of(
        "dense.removed",
        Unit::Rate,
        Mean,
        dense_removed,
        "the dense stage passed on fewer chunks than there were",
    ),
    Metric::of(
        "latency.median",
        Unit::Milliseconds,
        Percentile(0.5),
        milliseconds,
        "time from question to evidence, median",
    ),
    Metric::of(
        "judge.accuracy",
        Unit::Rate,
        Mean,
        judged_correct,
        "share of the answer's judgments that are correct; unparsed and failed ones are not (failures score 0)",
    ),
    Metric::of(
        "judge.majority",
        Unit::Rate,
        Mean,
        judged_correct_by_most,
        "more than half of an answer's judgments are correct; unparsed and failed ones are not (failures score 0)",
    ),
    Metric::of(
        "judge.unparsed",
        Unit::Count,
        Sum,
        unparsed,
        "judgments whose reply holds no grade",
    ),
    Metric::of(
        "judge.failed",
        Unit::Count,
        Sum,
        not_judged,
        "judgments without a reply",
    ),
    Metric::of(
        "answer.failed",
        Unit::Count,
        Sum,
        not_answered,
        "answers that are empty, refused, filtered, cut or failed",
    ),
    Metric::of(
        "answer.words.mean",
        Unit::Words,
        Mean,
        answer_words,
        "words of the answer",
    ),
    Metric::of(
        "answer.words.median",
        Unit::Words,
        Percentile(0.5),
        answer_words,
        "the same, median",
    ),
    Metric::of(
        "coverage",
        Unit::Rate,
        Mean,
        sufficient,
        "the evidence suffices by most of its assessments; unparsed and failed ones say it does not",
    ),
    Metric::of(
        "utilization",
        Unit::Rate,
        Mean,
        utilized,
        "judge.accuracy of the questions whose evidence suffices",
    ),
    Metric::of(
        "path.result",
        Unit::Rate,
        Mean,
        holds_result,
        "the evidence holds the result: tracking and cascade after the change",
    ),
    Metric::of(
        "path.path",
        Unit::Rate,
        Mean,
        holds_path,
        "the evidence holds the whole path to the result, of the same questions",
    ),
    Metric::of(
        "path.given-result",
        Unit::Rate,
        Mean,
        holds_path_given_result,
        "the same, of the questions whose evidence holds the result",
    ),
];

use Aggregate::{Mean, Percentile, Sum};

/// A named way to turn the records of a run into one number.
#[derive(Debug)]
pub struct Metric {
    /// Its name, without the cutoff.
    pub name: &'static str,
    /// What it says of a question, for `list`.
    pub about: &'static str,
    /// The unit of its value.
    pub unit: Unit,
    aggregate: Aggregate,
    each: Each,
}

/// The unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A share between 0 and 1, shown as a percentage.
    Rate,
    /// A number of questions.
    Count,
    /// Tokens of o200k_base.
    Tokens,
    /// Words, parted by white space.
    Words,
    /// Milliseconds.
    Milliseconds,
}

#[derive(Clone, Copy, Debug)]
enum Aggregate {
    Mean,
    Sum,
    /// Linearly interpolated between order statistics, as numpy does by default.
    Percentile(f64),
}

type PerQuestion = fn(&Question<'_>) -> Result<Option<f64>, Unmeasurable>;
type PerQuestionAtK = fn(&Question<'_>, usize) -> Result<Option<f64>, Unmeasurable>;

#[derive(Clone, Copy, Debug)]
enum Each {
    Plain(PerQuestion),
    AtK(PerQuestionAtK),
}

/// One question with everything on record about it.
#[derive(Debug)]
pub struct Question<'a> {
    /// What was returned, answered and judged.
    pub records: &'a QuestionRecords,
    /// Its conversation as it was indexed, where that is on record.
    pub history: Option<&'a History>,
    /// The cutoffs at which the run counted evidence tokens.
    pub cutoffs: &'a [usize],
}

/// A metric, with its cutoff where it takes one: `recall.any@10`.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    metric: &'static Metric,
    k: Option<usize>,
}

/// A metric's value over the questions of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    /// The value in its unit; `None` where it is defined for no question.
    pub value: Option<f64>,
    /// Questions it is defined for.
    pub n: usize,
}

/// Why a name is no metric.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum UnknownMetric {
    #[error("no metric is called `{0}`; there are {list}", list = names())]
    Name(String),
    #[error("`{0}` needs a cutoff, such as `{0}@10`")]
    NoCutoff(String),
    #[error("`{0}` takes no cutoff")]
    Cutoff(String),
    #[error("`{0}` is not a cutoff; write a whole number of at least 1")]
    BadCutoff(String),
}

/// Why a run's records cannot give a metric.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Unmeasurable {
    #[error("a run that asks for {k} items (this one asked for {requested})")]
    TooFewItems { k: usize, requested: u32 },
    #[error("evidence tokens at {0} items, which is not among the run's cutoffs")]
    NoSuchCutoff(usize),
    #[error("the record of conversation {0} as it was indexed")]
    NoHistory(String),
    #[error("the messages that each item comes from, which the system does not know")]
    UnknownOrigin,
    #[error("the run's {0}, which are not on record")]
    NoRecords(&'static str),
    #[error("judgments of one judge; these are by {0}")]
    SeveralJudges(String),
    #[error("assessments of one assessor; these are by {0}")]
    SeveralAssessors(String),
}

impl Metric {
    const fn of(
        name: &'static str,
        unit: Unit,
        aggregate: Aggregate,
        each: PerQuestion,
        about: &'static str,
    ) -> Self {
        Self {
            name,
            about,
            unit,
            aggregate,
            each: Each::Plain(each),
        }
    }

    const fn at(
        name: &'static str,
        unit: Unit,
        aggregate: Aggregate,
        each: PerQuestionAtK,
        about: &'static str,
    ) -> Self {
        Self {
            name,
            about,
            unit,
            aggregate,
            each: Each::AtK(each),
        }
    }

    /// Whether its name is written with a cutoff.
    pub fn takes_cutoff(&self) -> bool {
        matches!(self.each, Each::AtK(_))
    }
}

impl Named {
    /// Looks a metric up by the name a definition gives it.
    ///
    /// # Errors
    /// [`UnknownMetric`], with the names there are.
    pub fn parse(text: &str) -> Result<Self, UnknownMetric> {
        let (name, k) = match text.split_once('@') {
            Some((name, k)) => (name, Some(k)),
            None => (text, None),
        };
        let metric = METRICS
            .iter()
            .find(|metric| metric.name == name)
            .ok_or_else(|| UnknownMetric::Name(text.to_owned()))?;
        let k = match (metric.takes_cutoff(), k) {
            (true, None) => return Err(UnknownMetric::NoCutoff(name.to_owned())),
            (false, Some(_)) => return Err(UnknownMetric::Cutoff(name.to_owned())),
            (false, None) => None,
            (true, Some(k)) => match k.parse() {
                Ok(k) if k > 0 => Some(k),
                _ => return Err(UnknownMetric::BadCutoff(k.to_owned())),
            },
        };
        Ok(Self { metric, k })
    }

    /// What its value is multiplied with to be shown: rates are shown in percent.
    pub fn scale(&self) -> f64 {
        if self.metric.unit == Unit::Rate {
            100.0
        } else {
            1.0
        }
    }

    /// Whether its value over questions is the mean of their values.
    pub fn is_mean(&self) -> bool {
        matches!(self.metric.aggregate, Mean)
    }

    /// The value of every question of these kinds (of all, if none is given), in record order.
    ///
    /// # Errors
    /// [`Unmeasurable`] when the run was not made so that the metric can be read off it.
    pub fn per_question(
        &self,
        outputs: &Outputs,
        kinds: &[String],
    ) -> Result<Vec<Option<f64>>, Unmeasurable> {
        let cutoffs = cutoffs(outputs);
        outputs
            .questions
            .iter()
            .filter(|records| kinds.is_empty() || kinds.contains(&records.kind))
            .map(|records| {
                let history = outputs.histories.get(&records.key.conversation);
                let question = Question {
                    records,
                    history,
                    cutoffs: &cutoffs,
                };
                match (self.metric.each, self.k) {
                    (Each::AtK(each), Some(k)) => each(&question, k),
                    (Each::Plain(each), _) => each(&question),
                    (Each::AtK(_), None) => Ok(None),
                }
            })
            .collect()
    }

    /// The value over all questions of these kinds (over all, if none is given).
    ///
    /// # Errors
    /// As [`Named::per_question`].
    pub fn over(&self, outputs: &Outputs, kinds: &[String]) -> Result<Value, Unmeasurable> {
        let mut defined: Vec<f64> = self
            .per_question(outputs, kinds)?
            .into_iter()
            .flatten()
            .collect();
        let value = match self.metric.aggregate {
            Mean => mean(&defined),
            Sum => Some(defined.iter().sum()),
            Percentile(p) => percentile(&mut defined, p),
        };
        Ok(Value {
            value,
            n: defined.len(),
        })
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.metric.name)?;
        self.k.map_or(Ok(()), |k| write!(f, "@{k}"))
    }
}

fn names() -> String {
    let name = |m: &Metric| format!("{}{}", m.name, if m.takes_cutoff() { "@k" } else { "" });
    METRICS.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn cutoffs(outputs: &Outputs) -> Vec<usize> {
    let listed = outputs.manifest.settings["evidence"]["cutoffs"].as_array();
    let number = |cutoff: &serde_json::Value| cutoff.as_u64().and_then(|k| k.try_into().ok());
    listed.into_iter().flatten().filter_map(number).collect()
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn percentile(values: &mut [f64], p: f64) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let at = p * values.len().checked_sub(1)? as f64;
    let (below, above) = (
        values.get(at.floor() as usize)?,
        values.get(at.ceil() as usize)?,
    );
    Some(below + (above - below) * at.fract())
}

impl Question<'_> {
    fn retrieval(&self) -> Result<&Retrieval, Unmeasurable> {
        let retrieval = self.records.retrieval.as_ref();
        retrieval.ok_or(Unmeasurable::NoRecords("retrievals"))
    }

    /// One a repetition.
    fn answers(&self) -> Result<&[Answer], Unmeasurable> {
        match self.records.answers.as_slice() {
            [] => Err(Unmeasurable::NoRecords("answers")),
            answers => Ok(answers),
        }
    }

    /// All judgments, which are of one judge.
    fn judgments(&self) -> Result<&[Judgment], Unmeasurable> {
        let judgments = self.records.judgments.as_slice();
        let judges: BTreeSet<&str> = judgments.iter().map(|j| j.judge.as_str()).collect();
        match judges.len() {
            0 => Err(Unmeasurable::NoRecords("judgments")),
            1 => Ok(judgments),
            _ => {
                let names: Vec<&str> = judges.into_iter().collect();
                Err(Unmeasurable::SeveralJudges(names.join(", ")))
            }
        }
    }

    /// Whether the evidence has an aspect, by its only assessor; failures say no.
    fn assessed(&self, aspect: Aspect) -> Result<Option<f64>, Unmeasurable> {
        let assessments = self.records.assessments.iter();
        let assessors: BTreeSet<&str> = assessments.map(|a| a.assessor.as_str()).collect();
        match assessors.iter().collect::<Vec<_>>().as_slice() {
            [] => Err(Unmeasurable::NoRecords("assessments")),
            [assessor] => {
                let policy = Policy::CountWrong;
                Ok(questions::assessed(self.records, assessor, aspect, policy).value)
            }
            _ => {
                let names: Vec<&str> = assessors.into_iter().collect();
                Err(Unmeasurable::SeveralAssessors(names.join(", ")))
            }
        }
    }

    /// Whether result and path are told apart for it (Raw-RAG, Table 9).
    fn has_path(&self) -> bool {
        matches!(self.records.kind.as_str(), "Tr" | "Cas")
            && self.records.key.phase == Some(Phase::After)
    }

    /// How many judgments have this outcome.
    fn judged(&self, outcome: JudgmentOutcome) -> Result<f64, Unmeasurable> {
        let with = |j: &&Judgment| j.outcome == outcome;
        Ok(self.judgments()?.iter().filter(with).count() as f64)
    }

    /// The gold messages (or sessions) by the items that overlap them.
    fn ranking(&self, k: usize, level: Level) -> Result<Ranking, Unmeasurable> {
        if let (None, Some(search)) = (&self.records.retrieval, &self.records.search) {
            return searched(search, &self.records.evidence, k, level);
        }
        let record = self.retrieval()?;
        if (record.requested as usize) < k && record.requested < record.available {
            return Err(Unmeasurable::TooFewItems {
                k,
                requested: record.requested,
            });
        }
        let (gold, first, last) = match level {
            Level::Message => (
                &record.gold_messages,
                &record.first_message,
                &record.last_message,
            ),
            Level::Session => (
                &record.gold_sessions,
                &record.first_session,
                &record.last_session,
            ),
        };
        Ok(Ranking::of_spans(
            gold,
            first.iter().copied().zip(last.iter().copied()),
        ))
    }

    fn messages(&self, k: usize) -> Result<Ranking, Unmeasurable> {
        self.ranking(k, Level::Message)
    }

    fn sessions(&self, k: usize) -> Result<Ranking, Unmeasurable> {
        self.ranking(k, Level::Session)
    }
}

/// The gold messages (or sessions) by the items of a memory system that come from them.
fn searched(
    search: &Search,
    items: &[EvidenceItem],
    k: usize,
    level: Level,
) -> Result<Ranking, Unmeasurable> {
    if (search.requested as usize) < k {
        return Err(Unmeasurable::TooFewItems {
            k,
            requested: search.requested,
        });
    }
    let gold = match level {
        Level::Message => &search.gold_messages,
        Level::Session => &search.gold_sessions,
    };
    let held = |item: &EvidenceItem| -> Option<Vec<usize>> {
        let from = match level {
            Level::Message => item.messages.as_ref()?,
            Level::Session => item.sessions.as_ref()?,
        };
        let held = (0..).zip(gold).filter(|(_, gold)| from.contains(gold));
        Some(held.map(|(at, _)| at).collect())
    };
    let items: Option<Vec<Vec<usize>>> = items.iter().map(held).collect();
    let items = items.ok_or(Unmeasurable::UnknownOrigin)?;
    Ok(Ranking::new(gold.len(), items.iter().map(Vec::as_slice)))
}

#[derive(Clone, Copy)]
enum Level {
    Message,
    Session,
}

fn rate(holds: Option<bool>) -> Option<f64> {
    holds.map(|holds| if holds { 1.0 } else { 0.0 })
}

fn recall_any(q: &Question<'_>, k: usize) -> Result<Option<f64>, Unmeasurable> {
    Ok(rate(q.messages(k)?.recall_any(k)))
}

fn recall_all(q: &Question<'_>, k: usize) -> Result<Option<f64>, Unmeasurable> {
    Ok(rate(q.messages(k)?.recall_all(k)))
}

fn recall(q: &Question<'_>, k: usize) -> Result<Option<f64>, Unmeasurable> {
    Ok(q.messages(k)?.recall(k))
}

fn reciprocal_rank(q: &Question<'_>) -> Result<Option<f64>, Unmeasurable> {
    Ok(q.messages(1)?.reciprocal_rank())
}

/// Overlapping windows may hold one message several times; counted once, the ideal ranking of one
/// gold message an item is never beaten.
fn ndcg(q: &Question<'_>, k: usize) -> Result<Option<f64>, Unmeasurable> {
    let record = q.retrieval()?;
    q.messages(k)?;
    let mut sought: BTreeSet<u32> = record.gold_messages.iter().copied().collect();
    let gold = sought.len();
    let mut items = Vec::new();
    for (&first, &last) in record.first_message.iter().zip(&record.last_message) {
        let before = sought.len();
        sought.retain(|message| !(first..=last).contains(message));
        items.push(if sought.len() < before { &[0][..] } else { &[] });
    }
    Ok(Ranking::new(gold, items).ndcg(k, gold))
}

fn session_recall_any(q: &Question<'_>, k: usize) -> Result<Option<f64>, Unmeasurable> {
    Ok(rate(q.sessions(k)?.recall_any(k)))
}

fn session_recall_all(q: &Question<'_>, k: usize) -> Result<Option<f64>, Unmeasurable> {
    Ok(rate(q.sessions(k)?.recall_all(k)))
}

fn session_reciprocal_rank(q: &Question<'_>) -> Result<Option<f64>, Unmeasurable> {
    Ok(q.sessions(1)?.reciprocal_rank())
}

/// The ranking of sessions as Nano-Memory scores it, and the number of sessions that are gold.
///
/// A session is gold when an evidence reference names it before its first colon and has a whole
/// number after it; several references in one string are therefore lost, and `D:11:26` names a
/// session that is never found.
fn nano_ranking(q: &Question<'_>, k: usize) -> Result<(Ranking, usize), Unmeasurable> {
    q.sessions(k)?;
    let no_history = || Unmeasurable::NoHistory(q.records.key.conversation.clone());
    let sessions = &q.history.ok_or_else(no_history)?.sessions;
    let gold: BTreeSet<String> = q
        .retrieval()?
        .gold_written
        .iter()
        .filter_map(|written| nano_session(written))
        .collect();
    let unit = |session: &String| gold.iter().position(|label| label == session);
    let mut seen = BTreeSet::new();
    let items: Vec<Vec<usize>> = q
        .retrieval()?
        .first_session
        .iter()
        .filter(|&&session| seen.insert(session))
        .map(|&session| {
            sessions
                .get(session as usize)
                .and_then(unit)
                .into_iter()
                .collect()
        })
        .collect();
    let found = sessions
        .iter()
        .filter(|&session| gold.contains(session))
        .count();
    Ok((
        Ranking::new(gold.len(), items.iter().map(Vec::as_slice)),
        found,
    ))
}

fn nano_session(written: &str) -> Option<String> {
    let mut fields = written.split(':');
    let (session, message) = (fields.next()?, fields.next()?);
    message.trim().parse::<i64>().ok()?;
    Some(session.replace('D', "session_"))
}

fn nano_recall(q: &Question<'_>, k: usize) -> Result<Option<f64>, Unmeasurable> {
    let (ranking, _) = nano_ranking(q, k)?;
    Ok(Some(if ranking.recall_all(k).unwrap_or(true) {
        1.0
    } else {
        0.0
    }))
}

fn nano_ndcg(q: &Question<'_>, k: usize) -> Result<Option<f64>, Unmeasurable> {
    let (ranking, gold) = nano_ranking(q, k)?;
    Ok(Some(ranking.ndcg_nano_memory(k, gold).unwrap_or(0.0)))
}

fn evidence_tokens(q: &Question<'_>, k: usize) -> Result<Option<f64>, Unmeasurable> {
    if let (None, Some(search)) = (&q.records.retrieval, &q.records.search) {
        let items = &q.records.evidence;
        let first = items.iter().take(k).map(|item| item.tokens);
        let tokens = match items.len() > k {
            true => first.sum(),
            false => search.evidence_tokens,
        };
        return Ok(Some(f64::from(tokens)));
    }
    let at = q.cutoffs.iter().position(|&cutoff| cutoff == k);
    let tokens = q
        .retrieval()
        .map(|r| at.and_then(|at| r.evidence_tokens.get(at)))?;
    tokens
        .map(|&tokens| Some(f64::from(tokens)))
        .ok_or(Unmeasurable::NoSuchCutoff(k))
}

fn over_5000(q: &Question<'_>, k: usize) -> Result<Option<f64>, Unmeasurable> {
    Ok(evidence_tokens(q, k)?.map(|tokens| if tokens > 5000.0 { 1.0 } else { 0.0 }))
}

fn one(_: &Question<'_>) -> Result<Option<f64>, Unmeasurable> {
    Ok(Some(1.0))
}

fn dense_removed(q: &Question<'_>) -> Result<Option<f64>, Unmeasurable> {
    let record = q.retrieval()?;
    Ok(rate(Some(record.shortlist < record.available)))
}

fn milliseconds(q: &Question<'_>) -> Result<Option<f64>, Unmeasurable> {
    if let (None, Some(search)) = (&q.records.retrieval, &q.records.search) {
        return Ok(Some(search.milliseconds));
    }
    Ok(Some(q.retrieval()?.milliseconds))
}

fn judged_correct(q: &Question<'_>) -> Result<Option<f64>, Unmeasurable> {
    let judgments = q.judgments()?.len() as f64;
    Ok(Some(q.judged(JudgmentOutcome::Correct)? / judgments))
}

/// A tie is not a majority.
fn judged_correct_by_most(q: &Question<'_>) -> Result<Option<f64>, Unmeasurable> {
    let of_answer = q.judgments()?.chunk_by(|a, b| a.repetition == b.repetition);
    let correct = |judgments: &[Judgment]| {
        let correct = |j: &&Judgment| j.outcome == JudgmentOutcome::Correct;
        2 * judgments.iter().filter(correct).count() > judgments.len()
    };
    let answers: Vec<f64> = of_answer
        .filter_map(|judgments| rate(Some(correct(judgments))))
        .collect();
    Ok(mean(&answers))
}

fn unparsed(q: &Question<'_>) -> Result<Option<f64>, Unmeasurable> {
    q.judged(JudgmentOutcome::Unparsed).map(Some)
}

fn not_judged(q: &Question<'_>) -> Result<Option<f64>, Unmeasurable> {
    q.judged(JudgmentOutcome::Failed).map(Some)
}

fn not_answered(q: &Question<'_>) -> Result<Option<f64>, Unmeasurable> {
    let lost = |answer: &&Answer| answer.outcome != AnswerOutcome::Answered;
    Ok(Some(q.answers()?.iter().filter(lost).count() as f64))
}

/// The mean over repetitions that have an answer.
fn answer_words(q: &Question<'_>) -> Result<Option<f64>, Unmeasurable> {
    let words = q.answers()?.iter().filter_map(|answer| answer.words);
    Ok(mean(&words.map(f64::from).collect::<Vec<_>>()))
}

fn sufficient(q: &Question<'_>) -> Result<Option<f64>, Unmeasurable> {
    q.assessed(Aspect::Sufficient)
}

/// Undefined where the evidence does not suffice, so that the mean is over the others.
fn utilized(q: &Question<'_>) -> Result<Option<f64>, Unmeasurable> {
    let earned = judged_correct(q)?;
    let suffices = sufficient(q)?.is_some_and(|suffices| suffices > 0.5);
    Ok(earned.filter(|_| suffices))
}

fn holds_result(q: &Question<'_>) -> Result<Option<f64>, Unmeasurable> {
    let result = q.assessed(Aspect::Result)?;
    Ok(result.filter(|_| q.has_path()))
}

fn holds_path(q: &Question<'_>) -> Result<Option<f64>, Unmeasurable> {
    let path = q.assessed(Aspect::Path)?;
    Ok(path.filter(|_| q.has_path()))
}

fn holds_path_given_result(q: &Question<'_>) -> Result<Option<f64>, Unmeasurable> {
    Ok(match holds_result(q)? {
        Some(result) if result > 0.5 => holds_path(q)?,
        _ => None,
    })
}
