use std::collections::BTreeMap;
use std::fmt;

use rawrag_corpus::{Finding, Findings};
use serde::Serialize;

use crate::Format;

/// What was read, what of it became records, and everything odd on the way.
///
/// Its text (`Display`) is for a person; serialised, it is for a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The format of the files.
    pub format: Format,
    /// Rows in all files.
    pub rows: usize,
    /// Rows that became records.
    pub joined: usize,
    /// How often each question is answered: the number of files of rows.
    pub repetitions: usize,
    /// Questions that the run has to answer.
    pub questions: usize,
    /// Questions left out by name.
    pub excluded: usize,
    /// Questions without a row, by kind. Any make the run incomplete.
    pub missing: BTreeMap<String, Missing>,
    /// Answers by outcome.
    pub answers: BTreeMap<String, usize>,
    /// Judgments by outcome.
    pub judgments: BTreeMap<String, usize>,
    /// Whether only the results say what was asked, so that nobody can tell what is missing.
    pub questions_from_results: bool,
    /// What was odd, by kind.
    pub oddities: BTreeMap<Oddity, Findings>,
}

/// Questions of one kind that have no row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// How many, over all repetitions.
    pub count: usize,
    /// The first of them, by id.
    pub first: Vec<String>,
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
    RowExcluded: "row about an excluded question: left out",
    RowUnknown: "row about no question of the benchmark: left out",
    RowAmbiguous: "row that may be about several questions: left out",
    RowRepeated: "row that says of a question what an earlier row says: left out",
    LineTorn: "last line, cut off: left out",
    TextDiffers: "question text that differs from the benchmark's: joined by its position and kind",
    IndexDiffers: "question number that is not the benchmark's: joined by its text",
    ConversationUnknown: "conversation whose name is no number or id of the benchmark: joined by text alone",
    QuestionRepeated: "question that the benchmark asks more than once, with one gold answer: taken in file order",
    GoldDiffers: "gold answer that differs from the benchmark's: joined, graded against another answer",
    CategoryAsText: "category number written as a string: read as the number",
    CategoryNamed: "category that is no number from 1 to 5: the benchmark's is used",
    CategoryDiffers: "category that is not the benchmark's: the benchmark's is used",
    AnswerMissing: "row without an answer: failed",
    AnswerEmpty: "empty answer: kept as empty",
    AnswerNotText: "answer that is not a string: kept as it is spelt",
    AnswerFailed: "row that reports an error: failed",
    LabelMissing: "row without a label: its judgment failed",
    LabelUnreadable: "label that is neither true, false, 0 nor 1: unparsed, and kept",
    JudgmentsUneven: "row with fewer judgments than others: the run is incomplete",
    ResponseMissing: "graded row without its row in the file of responses: kept, without a duration",
    ResponseDiffers: "row of the file of responses that is not the graded one: its duration is left out",
}

impl Oddity {
    /// Its name in manifests.
    pub(crate) fn name(self) -> String {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::String(name)) => name,
            _ => self.to_string(),
        }
    }
}

/// Gathers findings while files are read.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) oddities: BTreeMap<Oddity, Findings>,
    /// The file that is read, where there are several.
    pub(crate) file: Option<String>,
}

impl Notes {
    pub(crate) fn add(&mut self, oddity: Oddity, place: &str) {
        self.push(oddity, place, None);
    }

    pub(crate) fn add_detail(&mut self, oddity: Oddity, place: &str, detail: String) {
        self.push(oddity, place, Some(detail));
    }

    fn push(&mut self, oddity: Oddity, place: &str, detail: Option<String>) {
        let findings = self.oddities.entry(oddity).or_default();
        findings.count += 1;
        if findings.first.len() < Findings::KEPT {
            let place = match &self.file {
                Some(file) => format!("{file} {place}"),
                None => place.to_owned(),
            };
            findings.first.push(Finding { place, detail });
        }
    }
}

impl Missing {
    /// How many are kept by id; the rest are counted.
    const KEPT: usize = 100;

    pub(crate) fn add(&mut self, id: &str) {
        self.count += 1;
        if self.first.len() < Self::KEPT {
            self.first.push(id.to_owned());
        }
    }
}

impl Report {
    /// Whether every question has its row, and every answer its judgments.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty() && !self.oddities.contains_key(&Oddity::JudgmentsUneven)
    }
}

/// How many findings of a kind the text shows.
const EXAMPLES: usize = 3;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = |counts: &BTreeMap<String, usize>| {
            let each: Vec<String> = counts.iter().map(|(o, n)| format!("{n} {o}")).collect();
            each.join(", ")
        };
        writeln!(f, "{:<12}{}", "format", self.format)?;
        write!(
            f,
            "{:<12}{}, of which {} became records",
            "rows", self.rows, self.joined
        )?;
        match self.repetitions {
            1 => writeln!(f)?,
            files => writeln!(f, "; {files} files, a repetition each")?,
        }
        write!(f, "{:<12}{}", "questions", self.questions)?;
        match self.excluded {
            0 => writeln!(f)?,
            excluded => writeln!(f, ", and {excluded} left out by name")?,
        }
        if self.questions_from_results {
            writeln!(
                f,
                "            taken from the results: no benchmark file says which are missing"
            )?;
        }
        for (kind, missing) in &self.missing {
            let Missing { count, first } = missing;
            let shown: Vec<&str> = first.iter().take(EXAMPLES).map(String::as_str).collect();
            let more = if *count > shown.len() { ", ..." } else { "" };
            writeln!(
                f,
                "{:<12}{count} {kind}: {}{more}",
                "missing",
                shown.join(", ")
            )?;
        }
        writeln!(f, "{:<12}{}", "answers", counts(&self.answers))?;
        writeln!(f, "{:<12}{}", "judgments", counts(&self.judgments))?;
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
