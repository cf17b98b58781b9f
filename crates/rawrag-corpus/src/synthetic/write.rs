//! A recipe's data as files.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::recipe::{Recipe, RecipeError};
use super::{EPISODES, episodes, fact_pools, label_streams};
use crate::meme::Episode;
use crate::{Answer, Entry, Gold, Message, Question};

const HISTORY: &str = "history.jsonl";
const QUESTIONS: &str = "questions.jsonl";
const RECIPE: &str = "synthetic.json";

/// Why a recipe's data were not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The recipe cannot be used.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// The folder holds something of that name.
    #[error("{}: it is there already; give another folder, or remove it", .0.display())]
    Exists(PathBuf),
    /// A file cannot be written.
    #[error("{}: {source}", .file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Makes everything a recipe asks for and writes it into a folder, which is made if need be:
/// `history.jsonl` and `questions.jsonl` as [`Format`](crate::Format) describes them,
/// `episodes.json` with what is known of each episode, and `synthetic.json` with the recipe.
/// [`load`](crate::load) and [`meme::load`](crate::meme::load) read it back as it was made.
///
/// `count` is as for [`episodes`]. Memory is bounded by one conversation.
///
/// # Errors
/// [`WriteError`]. The four files are there together or not at all, short of a crash while they
/// are given their names.
pub fn write(
    recipe: &Recipe,
    count: &dyn Fn(&str) -> usize,
    folder: &Path,
) -> Result<(), WriteError> {
    // Nothing is made for a recipe that cannot be used.
    let (episodes, pools) = (episodes(recipe, count)?, fact_pools(recipe)?);
    let entries = pools.chain(label_streams(recipe)?);
    fs::create_dir_all(folder).map_err(|source| WriteError::File {
        file: folder.to_owned(),
        source,
    })?;
    let fill = |mut files: Files| {
        for annotated in episodes {
            files.entry(&annotated.entry)?;
            files.episode(&annotated.episode)?;
        }
        for entry in entries {
            files.entry(&entry)?;
        }
        files.finish(recipe)
    };
    let written = Files::create(folder).and_then(fill);
    if written.is_err() {
        for name in [HISTORY, QUESTIONS, EPISODES, RECIPE] {
            // What failed is the error to tell; one left behind is replaced the next time.
            let _ = fs::remove_file(aside(folder, name));
        }
    }
    written
}

/// Where a file is written until it is whole.
fn aside(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.partial"))
}

struct Files {
    history: Aside,
    questions: Aside,
    episodes: Aside,
    recipe: Aside,
    episodes_written: u32,
}

impl Files {
    fn create(folder: &Path) -> Result<Self, WriteError> {
        let mut episodes = Aside::create(folder, EPISODES)?;
        episodes.write(b"[")?;
        Ok(Self {
            history: Aside::create(folder, HISTORY)?,
            questions: Aside::create(folder, QUESTIONS)?,
            episodes,
            recipe: Aside::create(folder, RECIPE)?,
            episodes_written: 0,
        })
    }

    fn entry(&mut self, entry: &Entry) -> Result<(), WriteError> {
        let conversation = entry.conversation.id.as_str();
        for session in &entry.conversation.sessions {
            for message in &session.messages {
                let line = MessageLine::new(conversation, session.id.as_str(), message);
                self.history.json(&line)?;
                self.history.write(b"\n")?;
            }
        }
        for question in &entry.questions {
            self.questions.json(&QuestionLine::new(question))?;
            self.questions.write(b"\n")?;
        }
        Ok(())
    }

    fn episode(&mut self, episode: &Episode) -> Result<(), WriteError> {
        let lead: &[u8] = if self.episodes_written == 0 {
            b"\n"
        } else {
            b",\n"
        };
        self.episodes_written += 1;
        self.episodes.write(lead)?;
        self.episodes.json(episode)
    }

    fn finish(mut self, recipe: &Recipe) -> Result<(), WriteError> {
        self.episodes.write(b"\n]\n")?;
        let about = About {
            about: "synthetic: made by a generator from this recipe, no benchmark's data",
            recipe,
        };
        self.recipe.json(&about)?;
        self.recipe.write(b"\n")?;
        let files = [self.history, self.questions, self.episodes, self.recipe];
        let synced = files.map(Aside::sync);
        for file in synced {
            file?.rename()?;
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct About<'a> {
    about: &'static str,
    recipe: &'a Recipe,
}

/// A file that is written under another name until it is whole.
struct Aside {
    name: PathBuf,
    aside: PathBuf,
    out: BufWriter<File>,
}

/// A whole file that has not been given its name yet.
struct Whole {
    name: PathBuf,
    aside: PathBuf,
}

impl Aside {
    fn create(folder: &Path, name: &str) -> Result<Self, WriteError> {
        let (name, aside) = (folder.join(name), aside(folder, name));
        if name.exists() {
            return Err(WriteError::Exists(name));
        }
        let out = File::create(&aside).map_err(|source| WriteError::File {
            file: aside.clone(),
            source,
        })?;
        Ok(Self {
            name,
            aside,
            out: BufWriter::with_capacity(1 << 16, out),
        })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.out.write_all(bytes).map_err(|e| self.failed(e))
    }

    fn json(&mut self, value: &impl Serialize) -> Result<(), WriteError> {
        serde_json::to_writer(&mut self.out, value).map_err(|e| self.failed(e.into()))
    }

    fn failed(&self, source: io::Error) -> WriteError {
        WriteError::File {
            file: self.aside.clone(),
            source,
        }
    }

    fn sync(mut self) -> Result<Whole, WriteError> {
        let synced = self
            .out
            .flush()
            .and_then(|()| self.out.get_ref().sync_all());
        synced.map_err(|e| self.failed(e))?;
        Ok(Whole {
            name: self.name,
            aside: self.aside,
        })
    }
}

impl Whole {
    fn rename(self) -> Result<(), WriteError> {
        fs::rename(&self.aside, &self.name).map_err(|source| WriteError::File {
            file: self.name,
            source,
        })
    }
}

#[derive(Serialize)]
struct MessageLine<'a> {
    conversation: &'a str,
    session: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    date: Option<String>,
    id: &'a str,
    speaker: &'a str,
    text: &'a str,
}

impl<'a> MessageLine<'a> {
    fn new(conversation: &'a str, session: &'a str, message: &'a Message) -> Self {
        Self {
            conversation,
            session,
            date: message.date.map(|date| date.to_string()),
            id: message.id.as_str(),
            speaker: &message.speaker,
            text: &message.text,
        }
    }
}

#[derive(Serialize)]
struct QuestionLine<'a> {
    conversation: &'a str,
    id: &'a str,
    kind: &'a str,
    question: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<&'a str>,
    evidence: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    asked: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<crate::Phase>,
}

impl<'a> QuestionLine<'a> {
    fn new(question: &'a Question) -> Self {
        let (answer, explanation) = match &question.gold {
            Some(Gold::Abstention { explanation }) => (None, Some(explanation.as_str())),
            Some(Gold::Answer(answer)) => (Some(json(answer)), None),
            _ => (None, None),
        };
        Self {
            conversation: question.conversation.as_str(),
            id: question.id.as_str(),
            kind: question.kind.as_str(),
            question: &question.text,
            answer,
            explanation,
            evidence: &question.evidence.written,
            asked: question.cutoff.map(|date| date.to_string()),
            phase: question.phase,
        }
    }
}

fn json(answer: &Answer) -> serde_json::Value {
    match answer {
        Answer::Text(text) => text.as_str().into(),
        Answer::Number(number) => {
            serde_json::from_str(number).unwrap_or_else(|_| number.as_str().into())
        }
        Answer::Bool(value) => (*value).into(),
        Answer::List(values) | Answer::AnyOf(values) => values.as_slice().into(),
    }
}
