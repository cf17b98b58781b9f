//! Questions whose gold answer is known to be wrong: ids and reasons, no text of the benchmark.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::error::{Fault, LoadError};
use crate::{Benchmark, Question, QuestionId};

/// A list of wrong gold answers. Reading a benchmark never looks at one: a score with it stands
/// beside the score without.
///
/// # File
/// Lines of `conversation`, `question` and `reason`, with tabs between them and these names at the
/// top: the conversation's id, the question's place in the conversation's list from 0, and a
/// [`Reason`] in lower case with hyphens. Lines that begin with `#` say where the list comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Errata(BTreeMap<QuestionId, Erratum>);

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Erratum {
    /// What is wrong.
    pub reason: Reason,
}

/// What is wrong with a gold answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// It states what the conversation does not hold.
    Hallucination,
    /// Its date or duration is miscalculated.
    TemporalError,
    /// It is said of, or by, the other speaker.
    AttributionError,
    /// It leaves out what the conversation states.
    Incomplete,
    /// It is debatable, or the question presumes something false.
    Ambiguous,
}

/// The list that ships with the crate.
const LOCOMO: &str = include_str!("../errata/locomo.tsv");

impl Errata {
    /// The 99 wrong answers among LoCoMo's 1,540 that an audit published
    /// (github.com/dial481/locomo-audit); its ceilings are 90.1 % of multi-hop, 91.9 % of temporal,
    /// 90.6 % of open-domain and 95.7 % of single-hop questions.
    ///
    /// # Errors
    /// None but a list that was damaged when the crate was built.
    pub fn locomo() -> Result<Self, LoadError> {
        Self::parse(LOCOMO, Path::new("errata/locomo.tsv"))
    }

    /// Reads a list.
    ///
    /// # Errors
    /// [`LoadError`]: the file cannot be read, a line has another shape or an unknown reason, or a
    /// question comes twice.
    pub fn load(file: &Path) -> Result<Self, LoadError> {
        let text = fs::read_to_string(file).map_err(|source| LoadError::Read {
            file: file.to_owned(),
            source,
        })?;
        Self::parse(&text, file)
    }

    fn parse(text: &str, file: &Path) -> Result<Self, LoadError> {
        let mut errata = BTreeMap::new();
        for (line, number) in text.lines().zip(1_u64..) {
            if line.trim().is_empty() || line.starts_with('#') || line.starts_with("conversation\t")
            {
                continue;
            }
            let fault = |problem: String| {
                LoadError::from(Fault {
                    file: file.to_owned(),
                    line: Some(number),
                    place: String::new(),
                    problem,
                    mend: "write conversation, question and reason, with tabs between them",
                })
            };
            let columns: Vec<&str> = line.trim_end().split('\t').collect();
            let [conversation, question, reason] = columns[..] else {
                return Err(fault(format!("{} columns instead of 3", columns.len())));
            };
            let index: u32 = question
                .parse()
                .map_err(|_| fault(format!("{question:?} is no place in a list, from 0")))?;
            let name: serde::de::value::StrDeserializer<'_, serde::de::value::Error> =
                serde::de::IntoDeserializer::into_deserializer(reason);
            let reason = Reason::deserialize(name).map_err(|e| fault(e.to_string()))?;
            let id = QuestionId::from(format!("{conversation}/{index}"));
            if errata.insert(id, Erratum { reason }).is_some() {
                return Err(fault(format!("{conversation} {index} stands here twice")));
            }
        }
        Ok(Self(errata))
    }

    /// What the list says about a question of LoCoMo.
    pub fn of(&self, question: &Question) -> Option<Erratum> {
        match question.benchmark {
            Benchmark::Locomo => self.0.get(&question.id).copied(),
            _ => None,
        }
    }

    /// The same by a question's id alone, for records of LoCoMo.
    pub fn reason(&self, id: &QuestionId) -> Option<Reason> {
        self.0.get(id).map(|erratum| erratum.reason)
    }

    /// How many questions it names.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it names none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The highest share, from 0 to 1, of a group of questions that can be right without agreeing
    /// with a wrong gold answer; `None` for no questions. A score above it is cause for a warning.
    pub fn ceiling<'a>(&self, questions: impl IntoIterator<Item = &'a Question>) -> Option<f64> {
        let (mut all, mut sound) = (0_u32, 0_u32);
        for question in questions {
            all += 1;
            sound += u32::from(self.of(question).is_none());
        }
        (all > 0).then(|| f64::from(sound) / f64::from(all))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Errata;

    #[test]
    fn what_is_no_list_is_refused() {
        let shown: Vec<String> = [
            "conv-1\t3",
            "conv-1\tq3\tincomplete",
            "conv-1\t3\twrong",
            "conv-1\t3\tincomplete\nconv-1\t3\tambiguous",
        ]
        .map(|text| match Errata::parse(text, Path::new("FILE")) {
            Ok(errata) => format!("{errata:?}"),
            Err(error) => error.to_string(),
        })
        .into();
        insta::assert_snapshot!(shown.join("\n"));
    }
}
