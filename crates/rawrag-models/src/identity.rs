use serde::{Deserialize, Serialize};

/// Names a model so that a record says exactly what computed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelIdentity {
    /// The model's public name, such as `sentence-transformers/all-MiniLM-L6-v2`.
    pub name: String,
    /// What the model does.
    pub kind: ModelKind,
    /// Lower-case hexadecimal SHA-256 of the weights file; `None` for a model behind a service,
    /// whose weights cannot be seen.
    pub sha256: Option<String>,
}

/// What a model does, so that a run which did not rerank with a cross-encoder never says it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelKind {
    /// One vector per text.
    Embedder,
    /// One score per query and passage read together.
    CrossEncoder,
    /// One score per query and passage read apart, from their token vectors (MaxSim).
    LateInteraction,
    /// A reply to messages.
    Chat,
    /// A probability of yes per item.
    Decider,
    /// One order of all passages of a query, read together by a chat model.
    Listwise,
}

impl ModelKind {
    /// The word for it in the record of a run.
    pub fn label(self) -> &'static str {
        match self {
            Self::Embedder => "bi-encoder",
            Self::CrossEncoder => "cross-encoder",
            Self::LateInteraction => "late interaction",
            Self::Listwise => "listwise",
            Self::Decider => "typed decision",
            Self::Chat => "chat",
        }
    }
}
