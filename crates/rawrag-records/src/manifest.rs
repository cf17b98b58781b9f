use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::Key;

/// The version of the manifest and of every record schema.
pub const SCHEMA_VERSION: u32 = 1;

/// What a run was: `manifest.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`SCHEMA_VERSION`] of the program that wrote it.
    pub schema: u32,
    /// The run's name.
    pub name: String,
    /// The system that was run.
    pub system: System,
    /// The benchmark's name.
    pub benchmark: String,
    /// The data it ran on.
    pub data: Data,
    /// The questions it has to answer.
    pub expected: Expected,
    /// Every setting, defaults included.
    pub settings: Value,
    /// Every model used, by the part it played (`embedder`, `reranker`).
    pub models: BTreeMap<String, Model>,
    /// sha256 of every prompt file used, by name.
    pub prompts: BTreeMap<String, String>,
    /// Seed of whatever is random.
    pub seed: u64,
    /// The program.
    pub code: Code,
    /// Where it ran. Not compared on resume.
    pub machine: Machine,
    /// When it was begun, UTC, ISO 8601. Not compared on resume.
    pub started: String,
}

/// A memory system under its name and version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// Its name in tables.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// The data of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// sha256 of the canonical content.
    pub sha256: String,
    /// The name of the release with that content, if it is a known one.
    pub release: Option<String>,
}

/// Which questions a complete run holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// Their number.
    pub questions: usize,
    /// sha256 over the sorted keys, one JSON object a line.
    pub keys_sha256: String,
    /// How often each question is answered; 0 for a run that only retrieves.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub answers: u32,
    /// How often each judge, by name, grades each answer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub judgments: BTreeMap<String, u32>,
    /// How often each assessor, by name, assesses each question's evidence.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub assessments: BTreeMap<String, u32>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Expected {
    /// The expectation that exactly these keys are on record, each once. Order does not matter.
    pub fn of<'a>(keys: impl IntoIterator<Item = &'a Key>) -> Self {
        let mut keys: Vec<&Key> = keys.into_iter().collect();
        keys.sort_unstable();
        let mut hash = Sha256::new();
        for key in &keys {
            hash.update(serde_json::json!(key).to_string());
            hash.update(b"\n");
        }
        Self {
            questions: keys.len(),
            keys_sha256: hex(&hash.finalize()),
            answers: 0,
            judgments: BTreeMap::new(),
            assessments: BTreeMap::new(),
        }
    }

    /// The same questions, each answered this often.
    #[must_use]
    pub fn answered(self, repetitions: u32) -> Self {
        Self {
            answers: repetitions,
            ..self
        }
    }

    /// The same questions, each answer graded this often by `judge` too.
    #[must_use]
    pub fn judged(mut self, judge: &str, repetitions: u32) -> Self {
        self.judgments.insert(judge.to_owned(), repetitions);
        self
    }

    /// The same questions, the evidence of each assessed this often by `assessor` too.
    #[must_use]
    pub fn assessed(mut self, assessor: &str, repetitions: u32) -> Self {
        self.assessments.insert(assessor.to_owned(), repetitions);
        self
    }

    /// Whether these are exactly the questions meant.
    pub(crate) fn are<'a>(&self, keys: impl IntoIterator<Item = &'a Key>) -> bool {
        let found = Self::of(keys);
        (found.questions, &found.keys_sha256) == (self.questions, &self.keys_sha256)
    }
}

/// A model as it was used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Its name (`all-MiniLM-L6-v2`).
    pub name: String,
    /// What it did (`bi-encoder`, `late interaction`, `cross-encoder`).
    pub kind: String,
    /// sha256 of its weights, for a local model.
    pub weights_sha256: Option<String>,
    /// Effective address, for a remote one.
    pub endpoint: Option<String>,
}

/// The program that made a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Code {
    /// Its version.
    pub version: String,
    /// sha256 over its sources, first 16 digits.
    pub sources: String,
}

/// The machine that made a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Processor model, if the system tells.
    pub processor: Option<String>,
    /// Cores available to the process.
    pub cores: usize,
    /// Memory in MiB, if the system tells.
    pub memory_mib: Option<u64>,
    /// Operating system and architecture (`linux x86_64`).
    pub system: String,
    /// Compiler that built the program.
    pub toolchain: String,
}

/// Where a run comes from whose system ran elsewhere: `settings.import`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Import {
    /// The layout of the files.
    pub format: String,
    /// The files, in the order given.
    pub files: Vec<ImportedFile>,
    /// The file that the questions come from, by name; none where the results alone say what was
    /// asked.
    pub benchmark_file: Option<String>,
    /// Whether answers and replies are kept as text.
    pub text: bool,
    /// Kinds and ids of questions left out on purpose.
    pub excluded: Vec<String>,
    /// How often each oddity was found, by name.
    pub findings: BTreeMap<String, u64>,
}

/// A file that records were made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImportedFile {
    /// Its name, without folders.
    pub name: String,
    /// sha256 of its bytes.
    pub sha256: String,
}

/// One thing in which two manifests differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Where (`settings.retrieval.k`).
    pub field: String,
    /// What the first says, `null` where it says nothing.
    pub left: Value,
    /// What the second says.
    pub right: Value,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} -> {}", self.field, self.left, self.right)
    }
}

impl Manifest {
    /// Where the records come from, if they were imported.
    pub fn import(&self) -> Option<Import> {
        Import::deserialize(self.settings.get("import")?).ok()
    }

    /// Everything that decides what the records say, where `other` has it differently: name,
    /// machine and start time are left out.
    pub fn differences(&self, other: &Self) -> Vec<Difference> {
        let comparable = |manifest: &Self| {
            let mut value = serde_json::json!(manifest);
            if let Some(object) = value.as_object_mut() {
                for provenance in ["name", "machine", "started"] {
                    object.remove(provenance);
                }
            }
            value
        };
        let mut found = Vec::new();
        compare(
            &mut String::new(),
            &comparable(self),
            &comparable(other),
            &mut found,
        );
        found
    }
}

fn compare(at: &mut String, left: &Value, right: &Value, found: &mut Vec<Difference>) {
    let (Value::Object(l), Value::Object(r)) = (left, right) else {
        if left != right {
            found.push(Difference {
                field: at.clone(),
                left: left.clone(),
                right: right.clone(),
            });
        }
        return;
    };
    let length = at.len();
    let names: std::collections::BTreeSet<&String> = l.keys().chain(r.keys()).collect();
    for name in names {
        if length > 0 {
            at.push('.');
        }
        at.push_str(name);
        compare(
            at,
            l.get(name).unwrap_or(&Value::Null),
            r.get(name).unwrap_or(&Value::Null),
            found,
        );
        at.truncate(length);
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
