//! Models behind services: embeddings, relevance scores, chat and typed decisions over HTTP.
//!
//! A [`Service`] is one address with its key, its limits and its connections; clients of several
//! kinds share it. Every call goes through the session's response cache and ledger, keeps to the
//! service's pace, and is made again only where that may help:
//!
//! - Statuses 408, 409, 429 and 5xx, connections that break and attempts that take too long are
//!   tried again after the pause that the service names, or one that doubles with seeded jitter, up
//!   to [`Limits::attempts`] and [`Limits::call_seconds`]. What went wrong is told by status and
//!   code, never by the words of a message.
//! - Replies that are damaged, incomplete, of another dimension or not finite are errors, and are
//!   never kept. Content filters, length cuts, refusals and empty replies are no errors but
//!   [`ChatOutcome`]s.
//! - When [`Limits::failures_in_a_row`] calls fail in a row, no more are made and the error says why.
//! - [`Stop`] lets calls under way finish the first time it is asked, and breaks them off the second.
//!
//! Nothing here reads the process's environment or follows a redirect, and a key is in no error,
//! record, log or cache entry.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use rawrag_models::{
//!     prices::Stage,
//!     remote::{ChatClient, ChatModel, ChatRequest, Message, Provider, Service, Session, Settings},
//! };
//!
//! let settings = Settings::new(Provider::Openai);
//! let endpoint = settings.resolve(&|name| std::env::var(name).ok())?;
//! let service = Service::connect(endpoint, &Session::default())?;
//! let chat = ChatClient::new(service, "gpt-4o-mini", Stage::Answer);
//! let request = ChatRequest::new(vec![Message::user("Where are the keys?")], 200);
//! let reply = chat.chat(&request).await?;
//! println!("{}: {:?}", chat.address(), reply.outcome);
//! # Ok(())
//! # }
//! ```

mod batches;
mod blocking;
mod chat;
mod decisions;
mod embeddings;
mod error;
mod listwise;
mod pace;
mod rerank;
mod service;
mod settings;
mod time;
mod yes_no;

use std::{future::Future, pin::Pin};

use serde::{Deserialize, Serialize};

use crate::{Embeddings, ModelIdentity, Scores};

pub use batches::{BatchLimits, ByteEstimate, InputLimits, Oversize, TokenCounter};
pub use blocking::Blocking;
pub use chat::{ChatClient, ChatOutcome, ChatReply, ChatRequest, Message, ReplyFormat, Role};
pub use decisions::{DecisionClient, DecisionSettings};
pub use embeddings::{EmbeddingClient, EmbeddingSettings};
pub use error::{RemoteError, Trouble};
pub use listwise::{ListwisePrompt, ListwiseReranker, parse_order};
pub use rerank::{RerankClient, RerankSettings};
pub use service::{Served, Service, Session};
pub use settings::{Address, Endpoint, Limits, Provider, Secret, Settings};
pub use time::{Clock, Stop, SystemClock};
pub use yes_no::{YesNoClient, YesNoSettings};

/// A call that was made and is to be awaited.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T, RemoteError>> + Send + 'a>>;

/// A model that replies to messages.
pub trait ChatModel: Send + Sync {
    /// Which model this is, for the record of a run.
    fn identity(&self) -> &ModelIdentity;

    /// Where its calls go, for the record of a run.
    fn address(&self) -> &str;

    /// Asks once. The input is sent whole, however long.
    ///
    /// # Errors
    /// When no usable reply was had; see [`RemoteError`].
    fn chat<'a>(&'a self, request: &'a ChatRequest) -> Pending<'a, ChatReply>;
}

/// A model that answers one yes-or-no question about each of several items with a probability.
pub trait Decider: Send + Sync {
    /// Which model this is, for the record of a run.
    fn identity(&self) -> &ModelIdentity;

    /// Where its calls go, for the record of a run.
    fn address(&self) -> &str;

    /// Decides about `items` in the light of `query`, in as many requests as they need.
    ///
    /// # Errors
    /// When a request had no usable reply; see [`RemoteError`].
    fn decide<'a>(
        &'a self,
        query: &'a str,
        items: &'a [&'a str],
        question: &'a YesNoQuestion,
    ) -> Pending<'a, Decisions>;
}

/// A question that is put about each item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct YesNoQuestion {
    /// The question. `{item}` stands for the name of the item in the request; the query's is `query`.
    pub instructions: String,
    /// What makes the answer yes.
    pub yes: String,
    /// What makes it no.
    pub no: String,
}

impl YesNoQuestion {
    /// The question about the item of this name.
    fn about(&self, item: &str) -> String {
        self.instructions.replace("{item}", item)
    }
}

/// The decisions about a list of items.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decisions {
    /// `probabilities[i]`, from 0 to 1, is that of yes for `items[i]`.
    pub probabilities: Vec<f64>,
    /// How many requests they took, those the service found too long included.
    pub requests: u32,
}

impl Decisions {
    fn followed_by(mut self, more: Self) -> Self {
        self.probabilities.extend(more.probabilities);
        self.requests += more.requests;
        self
    }
}

/// A model behind a service that maps each text to one vector; [`Blocking`] makes it an
/// [`Embedder`](crate::Embedder).
pub trait RemoteEmbedder: Send + Sync {
    /// Which model this is, for the record of a run.
    fn identity(&self) -> &ModelIdentity;

    /// Where its calls go, for the record of a run.
    fn address(&self) -> &str;

    /// Components of a vector, at least 1.
    fn dimension(&self) -> usize;

    /// Tokens of `text`, by the counter that the client was given.
    fn count_tokens(&self, text: &str) -> usize;

    /// Embeds any number of texts, in as many calls as they need; row `i` of the result belongs to
    /// `texts[i]`. An empty text is embedded as a space.
    ///
    /// # Errors
    /// When a call had no usable reply, or a text is too long and may not be cut.
    fn embed<'a>(&'a self, texts: &'a [&'a str]) -> Pending<'a, Embeddings>;
}

/// A model behind a service that scores how well passages answer a query; [`Blocking`] makes it a
/// [`Reranker`](crate::Reranker).
pub trait RemoteReranker: Send + Sync {
    /// Which model this is, for the record of a run.
    fn identity(&self) -> &ModelIdentity;

    /// Where its calls go, for the record of a run.
    fn address(&self) -> &str;

    /// Scores `passages` against `query`; higher is better, and only the order within one query
    /// means anything.
    ///
    /// # Errors
    /// When a call had no usable reply, or a passage is too long and may not be cut.
    fn score<'a>(&'a self, query: &'a str, passages: &'a [&'a str]) -> Pending<'a, Scores>;
}
