//! Remote models behind the traits that retrieval is written against.

use tokio::runtime::{Builder, Handle, Runtime};

use super::{Pending, RemoteEmbedder, RemoteError, RemoteReranker};
use crate::{Embedder, Embeddings, ModelError, ModelIdentity, Reranker, Scores};

/// A remote model as one that computes here: it runs its calls on threads of its own and waits for
/// them. Any number of threads may use it at once; an asynchronous task may not, and gets an error; nor may it be dropped in one.
#[derive(Debug)]
pub struct Blocking<M> {
    model: M,
    runtime: Runtime,
}

impl<M> Blocking<M> {
    /// Starts the threads.
    ///
    /// # Errors
    /// [`RemoteError::Runtime`] when the system gives none.
    pub fn new(model: M) -> Result<Self, RemoteError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .thread_name("rawrag-remote")
            .build()
            .map_err(|error| RemoteError::Runtime(error.to_string()))?;
        Ok(Self { model, runtime })
    }

    /// The model itself.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// Waits for what a call gives.
    ///
    /// # Errors
    /// Those of the call, and [`RemoteError::Runtime`] inside an asynchronous task.
    pub fn wait<T>(&self, pending: Pending<'_, T>) -> Result<T, RemoteError> {
        if Handle::try_current().is_ok() {
            let reason = "made inside an asynchronous task; use the remote trait there";
            return Err(RemoteError::Runtime(reason.into()));
        }
        self.runtime.block_on(pending)
    }
}

impl<M: RemoteEmbedder> Embedder for Blocking<M> {
    fn identity(&self) -> &ModelIdentity {
        self.model.identity()
    }

    fn dimension(&self) -> usize {
        self.model.dimension()
    }

    fn embed(&self, texts: &[&str]) -> Result<Embeddings, ModelError> {
        Ok(self.wait(self.model.embed(texts))?)
    }

    fn count_tokens(&self, text: &str) -> usize {
        self.model.count_tokens(text)
    }
}

impl<M: RemoteReranker> Reranker for Blocking<M> {
    fn identity(&self) -> &ModelIdentity {
        self.model.identity()
    }

    fn score(&self, query: &str, passages: &[&str]) -> Result<Scores, ModelError> {
        Ok(self.wait(self.model.score(query, passages))?)
    }
}
