//! Clients against a server that misbehaves in every known way. Nothing sleeps: pauses run on a
//! clock that jumps, and only attempts that are to time out take their few milliseconds.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "what the tests share fails as a test does"
)]

mod cache;
mod chat;
mod clients;
mod faults;
mod server;

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use rawrag_models::{
    cache::{Cache, Mode},
    prices::{Meter, Stage},
    remote::{
        ChatClient, ChatRequest, Clock, EmbeddingClient, EmbeddingSettings, InputLimits, Limits,
        Message, Provider, Service, Session, Settings,
    },
};
use serde_json::{Value, json};

/// A clock that jumps over every pause and remembers it.
#[derive(Debug, Default)]
pub(crate) struct Jumping {
    now: Mutex<Duration>,
    slept: Mutex<Vec<Duration>>,
}

impl Jumping {
    pub(crate) fn slept(&self) -> Vec<Duration> {
        self.slept.lock().unwrap().clone()
    }
}

impl Clock for Jumping {
    fn now(&self) -> Duration {
        *self.now.lock().unwrap()
    }

    /// 1 January 2026, and what was slept since.
    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600) + self.now()
    }

    fn sleep(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        *self.now.lock().unwrap() += time;
        self.slept.lock().unwrap().push(time);
        Box::pin(std::future::ready(()))
    }
}

/// What one test works with.
pub(crate) struct Bench {
    pub(crate) session: Session,
    pub(crate) clock: Arc<Jumping>,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) limits: Limits,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(Jumping::default());
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path(), Mode::ReadWrite).unwrap();
        Self {
            session: Session {
                cache: Some(Arc::new(cache)),
                meter: Arc::new(Meter::default()),
                clock: Arc::clone(&clock) as Arc<dyn Clock>,
                ..Session::default()
            },
            clock,
            folder,
            limits: Limits::default(),
        }
    }

    /// The same cache, as it is found when the program starts again.
    pub(crate) fn reopen(&mut self, mode: Mode) {
        self.session.cache = None;
        let cache = Cache::open(self.folder.path(), mode).unwrap();
        self.session.cache = Some(Arc::new(cache));
    }

    pub(crate) fn service(&self, provider: Provider, address: &str) -> Arc<Service> {
        let mut settings = Settings::new(provider).at(address);
        settings.limits = self.limits.clone();
        settings.key_env = Some("KEY".into());
        let endpoint = settings.resolve(&|_| Some(KEY.into())).unwrap();
        Service::connect(endpoint, &self.session).unwrap()
    }

    pub(crate) fn chat(&self, address: &str) -> ChatClient {
        let service = self.service(Provider::Compatible, address);
        ChatClient::new(service, "small", Stage::Answer)
    }

    /// An embedder of three components that sends two texts a call.
    pub(crate) fn embedder(&self, address: &str) -> EmbeddingClient {
        let service = self.service(Provider::Compatible, address);
        let mut inputs = InputLimits::default();
        inputs.batch.texts = 2;
        let settings = EmbeddingSettings {
            model: "small-embedder".into(),
            dimension: 3,
            shorten: false,
            inputs,
        };
        EmbeddingClient::new(service, settings, Stage::Write)
    }

    /// Attempts by what became of them: answered, refused or unsent, unknown, from the cache.
    pub(crate) fn counts(&self) -> (u64, u64, u64, u64) {
        let totals = self.session.meter.totals();
        totals.iter().fold((0, 0, 0, 0), |sum, (_, _, more)| {
            (
                sum.0 + more.answered,
                sum.1 + more.refused,
                sum.2 + more.unknown,
                sum.3 + more.cached,
            )
        })
    }
}

pub(crate) const KEY: &str = "sk-a-key-that-must-not-be-seen";

pub(crate) fn ask(text: &str) -> ChatRequest {
    ChatRequest::new(vec![Message::user(text)], 100)
}

/// A complete chat reply.
pub(crate) fn said(text: &str) -> Value {
    finished(json!({"role": "assistant", "content": text}), "stop")
}

pub(crate) fn finished(message: Value, reason: &str) -> Value {
    json!({
        "id": "x",
        "model": "small-2026",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {
            "prompt_tokens": 12,
            "completion_tokens": 3,
            "prompt_tokens_details": {"cached_tokens": 8},
        },
    })
}

/// The embeddings of a request: a text's length, 1 and 0, in the order asked for.
pub(crate) fn embedded(request: &Value) -> Value {
    let texts = request["input"].as_array().unwrap();
    let rows: Vec<Value> = texts
        .iter()
        .enumerate()
        .map(|(index, text)| {
            let length = text.as_str().unwrap().len();
            json!({"index": index, "embedding": [length, 1, 0]})
        })
        .collect();
    json!({"data": rows, "usage": {"prompt_tokens": 4 * texts.len()}})
}

/// Runs a test on one thread.
pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(test)
}
