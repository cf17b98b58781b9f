//! What a reader answered, and what a judge made of it.

use serde::{Deserialize, Serialize};

use crate::{Column, Expected, Key, Phase, Record, Schema};

/// What became of a question that was put to a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AnswerOutcome {
    /// The reader answered.
    Answered,
    /// The reader replied with nothing.
    Empty,
    /// The reader declined.
    Refused,
    /// The service withheld the reply.
    Filtered,
    /// The reply was cut at its maximum length.
    Cut,
    /// There was no reply.
    Failed,
}

/// What a judge made of an answer. Only `Correct` counts in a numerator; all four count in the
/// denominator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JudgmentOutcome {
    /// Graded as right.
    Correct,
    /// Graded as wrong.
    Wrong,
    /// The judge replied, and its reply holds no grade.
    Unparsed,
    /// There was no reply, or nothing to grade.
    Failed,
}

/// One reader's answer to one question: `answers`.
///
/// What an import cannot know is absent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "each field is described once, in the schema")]
pub struct Answer {
    pub benchmark: String,
    pub source: Option<String>,
    pub conversation: String,
    pub question: String,
    pub phase: Option<Phase>,
    pub kind: String,
    pub repetition: u32,
    pub outcome: AnswerOutcome,
    pub text: Option<String>,
    pub words: Option<u32>,
    pub error: Option<String>,
    pub model: Option<String>,
    pub prompt_sha256: Option<String>,
    pub input_tokens: Option<u32>,
    pub output_tokens: Option<u32>,
    pub milliseconds: Option<f64>,
}

/// One judge's grade of one answer: `judgments`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "each field is described once, in the schema")]
pub struct Judgment {
    pub benchmark: String,
    pub source: Option<String>,
    pub conversation: String,
    pub question: String,
    pub phase: Option<Phase>,
    pub kind: String,
    pub repetition: u32,
    pub judge: String,
    pub judge_repetition: u32,
    pub outcome: JudgmentOutcome,
    pub score: Option<f64>,
    pub reply: Option<String>,
    pub error: Option<String>,
    pub prompt_sha256: Option<String>,
}

impl Record for Answer {
    const SCHEMA: Schema = Schema {
        kind: "answers",
        columns: &[
            ("benchmark", Column::Text, "benchmark"),
            (
                "source",
                Column::Text,
                "data source inside the benchmark, where it has several",
            ),
            ("conversation", Column::Text, "conversation asked about"),
            ("question", Column::Text, "question id"),
            (
                "phase",
                Column::Text,
                "`before` or `after`, where the question is asked twice",
            ),
            ("kind", Column::Text, "the benchmark's type of question"),
            (
                "repetition",
                Column::U32,
                "which of the reader's answers to the question, from 0",
            ),
            (
                "outcome",
                Column::Text,
                "`answered`, `empty`, `refused`, `filtered`, `cut` (at its maximum length) or `failed`",
            ),
            (
                "text",
                Column::Text,
                "the answer; null where there is none or the run is kept without text",
            ),
            (
                "words",
                Column::U32,
                "words of the answer, parted by white space; known without its text too",
            ),
            ("error", Column::Text, "what went wrong, where it failed"),
            ("model", Column::Text, "the reader, where it is known"),
            (
                "prompt_sha256",
                Column::Text,
                "sha256 of the reader's prompt file, where it is known",
            ),
            (
                "input_tokens",
                Column::U32,
                "tokens sent, as the service counts them",
            ),
            (
                "output_tokens",
                Column::U32,
                "tokens received, as the service counts them",
            ),
            (
                "milliseconds",
                Column::F64,
                "time from the request to the whole answer",
            ),
        ],
    };

    fn identity(&self) -> String {
        format!("{} answer {}", self.question_key(), self.repetition)
    }

    fn key(&self) -> Option<Key> {
        Some(self.question_key())
    }

    fn slot(&self) -> String {
        answer_slot(self.repetition)
    }

    fn slots(expected: &Expected) -> Vec<String> {
        (0..expected.answers).map(answer_slot).collect()
    }
}

impl Record for Judgment {
    const SCHEMA: Schema = Schema {
        kind: "judgments",
        columns: &[
            ("benchmark", Column::Text, "benchmark"),
            (
                "source",
                Column::Text,
                "data source inside the benchmark, where it has several",
            ),
            ("conversation", Column::Text, "conversation asked about"),
            ("question", Column::Text, "question id"),
            (
                "phase",
                Column::Text,
                "`before` or `after`, where the question is asked twice",
            ),
            ("kind", Column::Text, "the benchmark's type of question"),
            (
                "repetition",
                Column::U32,
                "repetition of the answer that is graded",
            ),
            ("judge", Column::Text, "the judge's name"),
            (
                "judge_repetition",
                Column::U32,
                "which of this judge's grades of the answer, from 0",
            ),
            (
                "outcome",
                Column::Text,
                "`correct`, `wrong`, `unparsed` (a reply without a grade) or `failed` (no reply)",
            ),
            (
                "score",
                Column::F64,
                "the grade on the judge's own scale, where it has one beside right and wrong",
            ),
            (
                "reply",
                Column::Text,
                "the judge's whole reply; null where there is none or the run is kept without text",
            ),
            ("error", Column::Text, "what went wrong, where it failed"),
            (
                "prompt_sha256",
                Column::Text,
                "sha256 of the judge's prompt file, where it is known",
            ),
        ],
    };

    fn identity(&self) -> String {
        format!(
            "{} answer {} by {} {}",
            self.question_key(),
            self.repetition,
            self.judge,
            self.judge_repetition
        )
    }

    fn key(&self) -> Option<Key> {
        Some(self.question_key())
    }

    fn slot(&self) -> String {
        judgment_slot(self.repetition, &self.judge, self.judge_repetition)
    }

    fn slots(expected: &Expected) -> Vec<String> {
        let of_answer = |answer| {
            let of_judge = move |(judge, &repetitions): (&String, &u32)| {
                let judge = judge.clone();
                (0..repetitions).map(move |again| judgment_slot(answer, &judge, again))
            };
            expected.judgments.iter().flat_map(of_judge)
        };
        (0..expected.answers).flat_map(of_answer).collect()
    }
}

fn answer_slot(repetition: u32) -> String {
    format!("answer {repetition}")
}

fn judgment_slot(repetition: u32, judge: &str, judge_repetition: u32) -> String {
    format!("answer {repetition} by {judge} {judge_repetition}")
}
