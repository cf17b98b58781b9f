//! One thread that embeds, whatever number of requests wait for it: texts of several requests go
//! through the model together.

use std::sync::Arc;
use std::thread;

use tokio::sync::{mpsc, oneshot};

use crate::{Embedder, ModelError};

/// Texts that go through the model in one call, unless one request alone has more.
const TOGETHER: usize = 512;
/// Requests that may wait; the next one waits at the door.
const WAITING: usize = 1024;

#[derive(Clone)]
pub(super) struct Queue {
    jobs: mpsc::Sender<Job>,
}

struct Job {
    texts: Vec<String>,
    reply: oneshot::Sender<Result<Embedded, String>>,
}

/// The vectors of one request.
pub(super) struct Embedded {
    /// Row-major, in the order of the request.
    pub(super) vectors: Vec<f32>,
    /// Tokens of all texts.
    pub(super) tokens: usize,
}

impl Queue {
    pub(super) fn start(embedder: Arc<dyn Embedder>) -> Self {
        let (jobs, waiting) = mpsc::channel(WAITING);
        thread::spawn(move || work(&*embedder, waiting));
        Self { jobs }
    }

    pub(super) async fn embed(&self, texts: Vec<String>) -> Result<Embedded, String> {
        let (reply, answer) = oneshot::channel();
        let gone = || "the embedder has stopped".to_owned();
        self.jobs
            .send(Job { texts, reply })
            .await
            .map_err(|_| gone())?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }
}

fn work(embedder: &dyn Embedder, mut waiting: mpsc::Receiver<Job>) {
    while let Some(first) = waiting.blocking_recv() {
        let mut jobs = vec![first];
        let mut texts = jobs.iter().map(|job| job.texts.len()).sum::<usize>();
        while texts < TOGETHER {
            let Ok(job) = waiting.try_recv() else { break };
            texts += job.texts.len();
            jobs.push(job);
        }
        // Nobody waits any more for a request whose connection was cut.
        jobs.retain(|job| !job.reply.is_closed());
        answer(embedder, jobs);
    }
}

fn answer(embedder: &dyn Embedder, jobs: Vec<Job>) {
    let texts: Vec<&str> = jobs
        .iter()
        .flat_map(|job| job.texts.iter().map(String::as_str))
        .collect();
    let embedded = embedder.embed(&texts);
    let mut from = 0;
    for Job { texts, reply } in jobs {
        let result = match &embedded {
            Ok(all) => {
                let end = from + texts.len() * all.dimension;
                let vectors = all.vectors.get(from..end).map(<[f32]>::to_vec);
                from = end;
                vectors
                    .ok_or_else(|| "the embedder returned too few vectors".to_owned())
                    .map(|vectors| Embedded {
                        vectors,
                        tokens: texts.iter().map(|text| embedder.count_tokens(text)).sum(),
                    })
            }
            Err(error) => Err(ModelError::to_string(error)),
        };
        // The other end may be gone.
        let _ = reply.send(result);
    }
}
