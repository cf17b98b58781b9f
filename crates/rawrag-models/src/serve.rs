//! Models on this machine behind the HTTP interfaces that other programs speak, so that a memory
//! system written for a paid service runs without one.
//!
//! | path | |
//! | --- | --- |
//! | `POST /v1/embeddings` | OpenAI's form, floats or base64 |
//! | `POST /v1/rerank`, `/v2/rerank`, `/rerank` | Cohere's form; a score is the logistic of the cross-encoder's |
//! | `POST /v1/chat/completions` | OpenAI's form, answered by a [`Script`], streamed or whole |
//! | `GET /v1/models`, `/v1/models/NAME` | what is served |
//!
//! What cannot be done is an error in OpenAI's form that says what to change: a model that is not
//! served is never answered by another one, and nothing is made up for a parameter that is not
//! understood. The server keeps nothing and logs nothing.
//!
//! ```no_run
//! use std::sync::Arc;
//! use rawrag_models::serve::{Bound, Models};
//! use rawrag_models::{Minilm, store};
//!
//! let weights = store::locate(&store::MINILM, &store::folder(None)?)?;
//! let models = Models {
//!     embedder: Some(Arc::new(Minilm::load(&weights)?)),
//!     ..Models::default()
//! };
//! let bound = Bound::listen("127.0.0.1:8787".parse()?)?;
//! println!("serving on http://{}", bound.address());
//! bound.serve(models)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod chat;
mod embeddings;
mod fault;
mod generated;
mod queue;
mod rerank;
mod script;

use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Path, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::generate::Generator;
use crate::{Embedder, Reranker};
use fault::Fault;
use queue::Queue;
pub use script::{Script, ScriptError};

/// What is served. What is `None` is answered with an error that says so.
#[derive(Clone, Default)]
pub struct Models {
    /// Behind `/v1/embeddings`.
    pub embedder: Option<Arc<dyn Embedder>>,
    /// Behind `/v1/rerank`.
    pub reranker: Option<Arc<dyn Reranker>>,
    /// Behind `/v1/chat/completions`, under [`Script::NAME`].
    pub script: Option<Arc<Script>>,
    /// Behind `/v1/chat/completions` and `/v1/completions`, under its own name.
    pub generator: Option<Arc<dyn Generator>>,
    /// Further names that the embedder answers to, for programs that cannot be told another one.
    pub aliases: Vec<String>,
    /// Counts the tokens that a chat's usage reports; words are counted without it.
    pub count: Option<fn(&str) -> usize>,
}

/// A server that listens and does not answer yet.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
}

impl Bound {
    /// Takes an address; port 0 takes any that is free.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn listen(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until the process is interrupted; requests under way are finished.
    ///
    /// # Errors
    /// When the network fails for good.
    pub fn serve(self, models: Models) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        runtime.block_on(self.serve_until(models, async {
            // Without a signal to wait for, the process ends as any other.
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        }))
    }

    /// Answers until `stop` is done, on the runtime of the caller.
    ///
    /// # Errors
    /// When the network fails for good.
    pub async fn serve_until(
        self,
        models: Models,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        let listener = tokio::net::TcpListener::from_std(self.listener)?;
        axum::serve(listener, router(models))
            .with_graceful_shutdown(stop)
            .await
    }
}

/// Bytes of a request that are read; OpenAI's own limit on an embeddings request is far lower.
const BODY: usize = 64 << 20;

#[derive(Clone)]
struct Server {
    models: Models,
    queue: Option<Queue>,
}

fn router(models: Models) -> Router {
    let queue = models.embedder.clone().map(Queue::start);
    Router::new()
        .route("/v1/embeddings", post(embeddings::answer))
        .route("/v1/rerank", post(rerank::answer))
        .route("/v2/rerank", post(rerank::answer))
        .route("/rerank", post(rerank::answer))
        .route("/v1/chat/completions", post(chat::answer))
        .route("/v1/completions", post(generated::complete))
        .route("/v1/models", get(list))
        .route("/v1/models/{*name}", get(show))
        .fallback(|| async { Fault::no_such_path() })
        .method_not_allowed_fallback(|| async { Fault::no_such_path() })
        .layer(DefaultBodyLimit::max(BODY))
        .with_state(Server { models, queue })
}

async fn list(State(server): State<Server>) -> Json<Value> {
    let data: Vec<Value> = server.names().iter().map(|name| about(name)).collect();
    Json(json!({ "object": "list", "data": data }))
}

async fn show(
    State(server): State<Server>,
    Path(name): Path<String>,
) -> Result<Json<Value>, Fault> {
    if server.names().contains(&name) {
        Ok(Json(about(&name)))
    } else {
        Err(Fault::no_such_model(&name, &server.names()))
    }
}

fn about(name: &str) -> Value {
    json!({ "id": name, "object": "model", "created": 0, "owned_by": "rawrag" })
}

impl Server {
    fn names(&self) -> Vec<String> {
        let Models {
            embedder,
            reranker,
            script,
            generator,
            aliases,
            ..
        } = &self.models;
        let mut names = Vec::new();
        if let Some(embedder) = embedder {
            names.push(embedder.identity().name.clone());
            names.extend(aliases.iter().cloned());
        }
        names.extend(reranker.iter().map(|model| model.identity().name.clone()));
        names.extend(generator.iter().map(|model| model.identity().name.clone()));
        names.extend(script.iter().map(|_| Script::NAME.to_owned()));
        names
    }
}

/// Reads a request's body, whatever content type it claims.
fn parse<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, Fault> {
    serde_json::from_slice(body).map_err(|error| Fault::invalid(None, error.to_string()))
}
