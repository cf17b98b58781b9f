//! Raw history on disk: each message is durable before the next is taken in.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rawrag_chunking::{Rendering, Transcript};
use rawrag_corpus::{ConversationId, Timestamp};
use rawrag_models::TokenEncoder;
use rawrag_retrieval::{LateInteraction, RetrievalError, Store, StoreError};
use serde::{Deserialize, Serialize};

use crate::gathered::Gathered;
use crate::system::{
    Capabilities, Decision, Description, Item, MemorySystem, Namespace, Opened, Said, Stored,
    SystemError, Unit, Usage,
};

/// The name by which experiments and the command line know it, and a line on it.
pub const STORED: (&str, &str) = (
    "raw-rag-store",
    "raw history on disk, each message durable before the next: late interaction over messages",
);

/// How its messages are ranked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoredSettings {
    /// Late interaction.
    pub late_interaction: LateInteraction,
}

/// Late interaction over the messages of a [`Store`], a store a conversation.
///
/// Adding returns once every message of the unit is on disk with its vectors, so there is nothing
/// to wait for afterwards. Evidence is whole messages with their dates, best first.
pub struct StoredSystem {
    folder: PathBuf,
    model: Arc<dyn TokenEncoder>,
    settings: StoredSettings,
    description: Description,
    open: Option<Open>,
}

/// A conversation that is open.
struct Open {
    id: ConversationId,
    store: Store,
    gathered: Gathered,
}

impl StoredSystem {
    /// A system that keeps its conversations below `folder`.
    ///
    /// # Errors
    /// When its settings are out of range.
    pub fn new(
        folder: &Path,
        model: Arc<dyn TokenEncoder>,
        settings: StoredSettings,
    ) -> Result<Self, RetrievalError> {
        settings.late_interaction.check()?;
        Ok(Self {
            folder: folder.to_owned(),
            model,
            settings,
            description: Description {
                name: STORED.0.to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                capabilities: Capabilities {
                    dates: true,
                    speakers: true,
                    cutoff: true,
                    provenance: true,
                    export: true,
                    persistence: true,
                    ..Capabilities::default()
                },
                unit: Unit::Session,
                notes: Vec::new(),
            },
            open: None,
        })
    }

    fn opened(&mut self, call: &'static str) -> Result<&mut Open, SystemError> {
        self.open.as_mut().ok_or_else(|| SystemError::Refused {
            call,
            reason: "no conversation is open".into(),
        })
    }
}

impl MemorySystem for StoredSystem {
    fn description(&self) -> &Description {
        &self.description
    }

    fn open(&mut self, namespace: &Namespace) -> Result<Opened, SystemError> {
        namespace.check()?;
        let folder = self.folder.join(&namespace.name);
        let store = Store::open_to_write(&folder, self.model.clone()).map_err(failed("open"))?;
        if namespace.fresh && !store.is_empty() {
            return Err(SystemError::Occupied {
                namespace: folder.display().to_string(),
            });
        }
        let id = ConversationId::from(namespace.name.as_str());
        let mut gathered = Gathered::new(&namespace.name);
        for message in store.messages(&id) {
            gathered.add(&[Said {
                position: number(&folder, &message.id)?,
                session: number(&folder, &message.session)?,
                date: message.date,
                speaker: message.speaker.clone(),
                text: message.text.clone(),
                captions: message.captions.clone(),
            }]);
        }
        self.open = Some(Open {
            id,
            store,
            gathered,
        });
        Ok(Opened { perspectives: 1 })
    }

    fn add(&mut self, unit: &[Said]) -> Result<(), SystemError> {
        let open = self.opened("add")?;
        open.gathered.add(unit);
        let added = open.store.ingest(open.gathered.conversation(), |_| {});
        added.map(drop).map_err(failed("add"))
    }

    fn ready(&mut self) -> Result<(), SystemError> {
        self.opened("ready").map(drop)
    }

    fn search(
        &mut self,
        question: &str,
        k: usize,
        cutoff: Option<Timestamp>,
    ) -> Result<Vec<Item>, SystemError> {
        let settings = self.settings.late_interaction.clone();
        let open = self.opened("search")?;
        if k == 0 || open.store.is_empty() {
            return Ok(Vec::new());
        }
        let hits = open
            .store
            .search(question, k, Some(&open.id), cutoff, &settings)
            .map_err(failed("search"))?;
        let transcript = Transcript::new(open.gathered.conversation(), Rendering::Dated);
        let positions = open.gathered.positions();
        let item = |hit: rawrag_retrieval::Hit| {
            let at = positions
                .iter()
                .position(|position| position.to_string() == hit.message.id)?;
            Some(Item {
                text: transcript.messages(at as u32..at as u32 + 1).to_owned(),
                messages: Some(vec![positions[at]]),
                date: hit.message.date,
                score: Some(f64::from(hit.score)),
                stored: Some(hit.message.id),
            })
        };
        Ok(hits.into_iter().filter_map(item).collect())
    }

    fn export(&mut self) -> Result<Vec<Stored>, SystemError> {
        let open = self.opened("export")?;
        let transcript = Transcript::new(open.gathered.conversation(), Rendering::Dated);
        let messages = open.gathered.positions().iter().zip(open.gathered.dates());
        Ok((0..)
            .zip(messages)
            .map(|(at, (position, date))| Stored {
                id: position.to_string(),
                text: transcript.messages(at..at + 1).to_owned(),
                messages: Some(vec![*position]),
                date: *date,
                perspective: None,
            })
            .collect())
    }

    fn decisions(&mut self) -> Result<Vec<Decision>, SystemError> {
        Ok(Vec::new())
    }

    fn usage(&mut self) -> Result<Usage, SystemError> {
        Ok(Usage::default())
    }

    fn close(&mut self) -> Result<(), SystemError> {
        self.open = None;
        Ok(())
    }
}

/// The number that this program wrote as an id.
fn number(folder: &Path, id: &str) -> Result<u32, SystemError> {
    id.parse().map_err(|_| {
        SystemError::Io(format!(
            "{} holds messages that this system did not add ({id:?} is no position): choose \
             another folder",
            folder.display()
        ))
    })
}

fn failed(call: &'static str) -> impl Fn(StoreError) -> SystemError {
    move |error| match error {
        StoreError::InUse { folder, holder } => SystemError::Held {
            folder: folder.display().to_string(),
            holder: holder.trim_start_matches("process ").to_owned(),
        },
        error => SystemError::Refused {
            call,
            reason: error.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use rawrag_models::{ModelError, ModelIdentity, TokenVectors};

    use super::*;
    use crate::check::{Verdict, check};

    /// A word is its letters' counts: no model, but the same words are found.
    struct Letters(ModelIdentity);

    impl TokenEncoder for Letters {
        fn identity(&self) -> &ModelIdentity {
            &self.0
        }

        fn dimension(&self) -> usize {
            27
        }

        fn encode_tokens(&self, texts: &[&str]) -> Result<Vec<TokenVectors>, ModelError> {
            let encode = |text: &&str| {
                let words: Vec<&str> = text.split_whitespace().collect();
                let vector = |word: &&str| {
                    let mut counts = [0.0_f32; 27];
                    for c in word.to_lowercase().bytes() {
                        let at = c.wrapping_sub(b'a').min(26);
                        counts[at as usize] += 1.0;
                    }
                    let length = counts.iter().map(|x| x * x).sum::<f32>().sqrt();
                    counts.map(|x| x / length)
                };
                TokenVectors {
                    pieces: words.iter().map(|word| word.len() as u32).collect(),
                    vectors: words.iter().flat_map(vector).collect(),
                    pooled: Vec::new(),
                }
            };
            Ok(texts.iter().map(encode).collect())
        }
    }

    fn system(folder: &Path) -> StoredSystem {
        let letters = Letters(ModelIdentity {
            name: "letters".into(),
            kind: rawrag_models::ModelKind::LateInteraction,
            sha256: None,
        });
        StoredSystem::new(folder, Arc::new(letters), StoredSettings::default()).unwrap()
    }

    fn said(position: u32, text: &str) -> Said {
        Said {
            position,
            session: position / 2,
            date: format!("2025-01-0{}", 1 + position).parse().ok(),
            speaker: "Olu".into(),
            text: text.into(),
            captions: Vec::new(),
        }
    }

    #[test]
    fn it_conforms() {
        let folder = tempfile::tempdir().unwrap();
        let report = check(&mut system(folder.path()), "check");
        let failed: Vec<_> = report
            .verdicts
            .iter()
            .filter(|(_, verdict)| !matches!(verdict, Verdict::Passed | Verdict::NotClaimed))
            .collect();
        assert!(failed.is_empty(), "{report}");
    }

    /// A process that is killed after a message was added has lost nothing of it.
    #[test]
    fn what_was_added_outlives_a_system_that_was_never_closed() {
        let folder = tempfile::tempdir().unwrap();
        let namespace = |fresh| Namespace {
            name: "c".into(),
            fresh,
            speakers: vec!["Olu".into()],
        };
        let mut first = system(folder.path());
        first.open(&namespace(true)).unwrap();
        for (position, text) in ["the kettle", "a heron", "two keys"].iter().enumerate() {
            first.add(&[said(position as u32, text)]).unwrap();
        }
        let before = (
            first.export().unwrap(),
            first.search("a heron", 2, None).unwrap(),
        );
        drop(first);
        let mut second = system(folder.path());
        second.open(&namespace(false)).unwrap();
        let after = (
            second.export().unwrap(),
            second.search("a heron", 2, None).unwrap(),
        );
        assert_eq!(before, after);
        assert_eq!(after.1[0].messages, Some(vec![1]));
        second.add(&[said(3, "one more heron")]).unwrap();
        assert_eq!(
            second.search("one more heron", 1, None).unwrap()[0].messages,
            Some(vec![3])
        );
        drop(second);
        let occupied = system(folder.path()).open(&namespace(true)).unwrap_err();
        assert!(matches!(occupied, SystemError::Occupied { .. }));
    }
}
