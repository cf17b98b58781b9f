//! What an assessor made of evidence, whatever was answered from it.

use serde::{Deserialize, Serialize};

use crate::{Column, Expected, Key, Phase, Record, Schema};

/// What became of an assessment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AssessmentOutcome {
    /// The evidence was assessed.
    Assessed,
    /// The assessor replied, and its reply holds no assessment, or one that contradicts itself.
    Unparsed,
    /// There was no reply.
    Failed,
}

/// One assessment of one question's evidence: `assessments`.
///
/// Sufficiency is Raw-RAG's C.1 (rules) and G.9 (a judge); result and path are its G.10. What an
/// assessor does not say is absent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "each field is described once, in the schema")]
pub struct Assessment {
    pub benchmark: String,
    pub source: Option<String>,
    pub conversation: String,
    pub question: String,
    pub phase: Option<Phase>,
    pub kind: String,
    pub assessor: String,
    pub repetition: u32,
    pub outcome: AssessmentOutcome,
    pub sufficient: Option<bool>,
    pub result: Option<bool>,
    pub path: Option<bool>,
    pub components: Option<String>,
    pub reply: Option<String>,
    pub error: Option<String>,
    pub prompt_sha256: Option<String>,
}

impl Record for Assessment {
    const SCHEMA: Schema = Schema {
        kind: "assessments",
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
                "assessor",
                Column::Text,
                "the assessor's name; `rule` is MEME's sufficiency by rule, without a model",
            ),
            (
                "repetition",
                Column::U32,
                "which of this assessor's assessments of the evidence, from 0",
            ),
            (
                "outcome",
                Column::Text,
                "`assessed`, `unparsed` (a reply without an assessment) or `failed` (no reply)",
            ),
            (
                "sufficient",
                Column::Bool,
                "the evidence is enough to answer; null where that was not assessed",
            ),
            (
                "result",
                Column::Bool,
                "the evidence holds the result; null where that was not assessed",
            ),
            (
                "path",
                Column::Bool,
                "the evidence holds the whole path to the result; null where that was not assessed",
            ),
            (
                "components",
                Column::Text,
                "the parts that were looked for, each with whether it was found, as a JSON object; a rule \
                 adds `hop`, the dependencies between the change and the answer",
            ),
            (
                "reply",
                Column::Text,
                "the assessor's whole reply; null where there is none or the run is kept without text",
            ),
            ("error", Column::Text, "what went wrong, where it failed"),
            (
                "prompt_sha256",
                Column::Text,
                "sha256 of the assessor's prompt file, where it has one",
            ),
        ],
    };

    fn identity(&self) -> String {
        format!(
            "{} by {} {}",
            self.question_key(),
            self.assessor,
            self.repetition
        )
    }

    fn key(&self) -> Option<Key> {
        Some(self.question_key())
    }

    fn slot(&self) -> String {
        slot(&self.assessor, self.repetition)
    }

    fn slots(expected: &Expected) -> Vec<String> {
        let of_assessor = |(assessor, &repetitions): (&String, &u32)| {
            let assessor = assessor.clone();
            (0..repetitions).map(move |again| slot(&assessor, again))
        };
        expected.assessments.iter().flat_map(of_assessor).collect()
    }
}

fn slot(assessor: &str, repetition: u32) -> String {
    format!("by {assessor} {repetition}")
}
