//! What our side of a call costs, against servers on loopback that answer at once.
//!
//! `cargo bench -p rawrag-models --features remote --bench remote` prints three measurements: chat
//! calls at 200 at a time with every reply kept in the cache, 100,000 short texts embedded, and
//! opening a cache of 100,000 entries. Each of the first two is set beside what a bare HTTP client
//! gets out of the same server, which is the most that any client could.

#[allow(dead_code, reason = "the tests use the rest")]
#[expect(
    clippy::unwrap_used,
    reason = "a bench without its server has nothing to measure"
)]
#[path = "../../tests/remote/server.rs"]
mod server;

use std::{
    error::Error,
    io::{Write, stdout},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use rawrag_models::{
    cache::{Cache, Entry, Mode, Request},
    prices::Stage,
    remote::{
        ChatClient, ChatModel, ChatRequest, EmbeddingClient, EmbeddingSettings, InputLimits,
        Message, Provider, RemoteEmbedder, Service, Session, Settings,
    },
};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

use server::{Answer, Server};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const AT_ONCE: usize = 200;
const CALLS: usize = 40_000;
const TEXTS: usize = 100_000;
const BATCH: usize = 128;
const DIMENSION: usize = 384;

fn main() -> Result<()> {
    // `cargo test --all-targets` runs this too, with options of its own.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let mut out = stdout();
    let folder = tempfile::tempdir()?;
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;

    let chat = serve(|_| {
        Answer::ok(
            r#"{"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Under the third flowerpot."},"finish_reason":"stop"}],"usage":{"prompt_tokens":900,"completion_tokens":7}}"#,
        )
    })?;
    let bare = runtime.block_on(bare_calls(&chat, &chat_body(0).to_string(), CALLS))?;
    writeln!(out, "chat, bare client          {bare:8.0} calls/s")?;
    let cached = runtime.block_on(chat_calls(&chat, &folder.path().join("chat")))?;
    writeln!(out, "chat, with cache writes    {cached:8.0} calls/s")?;

    let rows = embedding_reply();
    let embeddings = serve(move |_| Answer::ok(&rows))?;
    let body = json!({"model": "m", "input": vec!["a short text"; BATCH]}).to_string();
    let calls = TEXTS.div_ceil(BATCH);
    let bare = runtime.block_on(bare_calls(&embeddings, &body, calls))?;
    writeln!(
        out,
        "embeddings, bare client    {:8.0} texts/s",
        bare * BATCH as f64
    )?;
    let embedded = embed(&runtime, &embeddings, None)?;
    writeln!(out, "embeddings, without cache  {embedded:8.0} texts/s")?;
    let embedded = embed(
        &runtime,
        &embeddings,
        Some(&folder.path().join("embeddings")),
    )?;
    writeln!(out, "embeddings, kept in cache  {embedded:8.0} texts/s")?;

    let (opened, read) = open_cache(&folder.path().join("large"))?;
    writeln!(
        out,
        "cache of {TEXTS} entries: opened in {opened:.1} ms, read in {read:.1} us an entry"
    )?;
    Ok(())
}

/// A server on a thread and a runtime of its own.
fn serve(rule: impl Fn(&server::Request) -> Answer + Send + Sync + 'static) -> Result<String> {
    let (send, receive) = std::sync::mpsc::channel();
    let runtime = Builder::new_current_thread().enable_all().build()?;
    thread::spawn(move || {
        runtime.block_on(async {
            let server = Server::serve(rule, false).await;
            // The bench waits for the address, so somebody receives it.
            let _ = send.send(server.address.clone());
            std::future::pending::<()>().await
        })
    });
    Ok(receive.recv()?)
}

fn chat_body(number: usize) -> serde_json::Value {
    let content = format!("{number}: {}", "What was said about the keys? ".repeat(30));
    json!({"model": "m", "messages": [{"role": "user", "content": content}], "max_tokens": 100})
}

/// Calls a second of a client that sends one body over and over and looks at nothing.
async fn bare_calls(address: &str, body: &str, calls: usize) -> Result<f64> {
    let client = reqwest::Client::builder()
        .no_proxy()
        .tls_backend_preconfigured(no_tls()?)
        .build()?;
    let left = Arc::new(AtomicUsize::new(calls));
    let begun = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..AT_ONCE {
        let (client, left) = (client.clone(), Arc::clone(&left));
        let (address, body) = (address.to_owned(), body.to_owned());
        tasks.push(tokio::spawn(async move {
            while take(&left) {
                let response = client.post(&address).body(body.clone()).send().await?;
                response.bytes().await?;
            }
            Result::Ok(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(calls as f64 / begun.elapsed().as_secs_f64())
}

fn no_tls() -> Result<rustls::ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth())
}

/// Takes one of what is left.
fn take(left: &AtomicUsize) -> bool {
    let order = Ordering::Relaxed;
    let taken = left.fetch_update(order, order, |left| left.checked_sub(1));
    taken.is_ok()
}

fn service(address: &str, cache: Option<&Path>) -> Result<Arc<Service>> {
    let mut settings = Settings::new(Provider::LlamaCpp).at(address);
    settings.limits.concurrency = AT_ONCE;
    let cache = cache.map(|folder| Cache::open(folder, Mode::ReadWrite));
    let session = Session {
        cache: cache.transpose()?.map(Arc::new),
        ..Session::default()
    };
    Ok(Service::connect(settings.resolve(&|_| None)?, &session)?)
}

/// Calls a second, each with a question of its own.
async fn chat_calls(address: &str, folder: &Path) -> Result<f64> {
    let client = ChatClient::new(service(address, Some(folder))?, "m", Stage::Answer);
    let client = Arc::new(client);
    let left = Arc::new(AtomicUsize::new(CALLS));
    let begun = Instant::now();
    let mut tasks = Vec::new();
    for worker in 0..AT_ONCE {
        let (client, left) = (Arc::clone(&client), Arc::clone(&left));
        tasks.push(tokio::spawn(async move {
            let mut number = 0;
            while take(&left) {
                number += 1;
                let question = "What was said about the keys? ".repeat(30);
                let text = format!("{worker}-{number}: {question}");
                let request = ChatRequest::new(vec![Message::user(text)], 100);
                let reply = client.chat(&request).await?;
                assert!(!reply.served.from_cache);
            }
            Result::Ok(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(CALLS as f64 / begun.elapsed().as_secs_f64())
}

/// The reply to a full batch, as base64.
fn embedding_reply() -> String {
    use base64::Engine;
    let row = |index: usize| {
        let numbers = (0..DIMENSION).map(|at| ((index * 31 + at * 7) % 97) as f32 - 48.0);
        let bytes: Vec<u8> = numbers.flat_map(f32::to_le_bytes).collect();
        json!({"index": index, "embedding": base64::prelude::BASE64_STANDARD.encode(bytes)})
    };
    let rows: Vec<_> = (0..BATCH).map(row).collect();
    json!({"data": rows, "usage": {"prompt_tokens": 4 * BATCH}}).to_string()
}

/// Texts a second through the client.
fn embed(runtime: &Runtime, address: &str, cache: Option<&Path>) -> Result<f64> {
    let settings = EmbeddingSettings {
        model: "m".into(),
        dimension: DIMENSION,
        shorten: false,
        inputs: InputLimits::default(),
    };
    let client = EmbeddingClient::new(service(address, cache)?, settings, Stage::Write);
    let count = TEXTS / BATCH * BATCH;
    let texts: Vec<String> = (0..count)
        .map(|n| format!("short text {n} about keys"))
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let begun = Instant::now();
    let embeddings = runtime.block_on(client.embed(&texts))?;
    let seconds = begun.elapsed().as_secs_f64();
    assert_eq!(embeddings.vectors.len(), count * DIMENSION);
    Ok(count as f64 / seconds)
}

/// Milliseconds to open, and microseconds to read an entry.
fn open_cache(folder: &Path) -> Result<(f64, f64)> {
    let request = |number: usize| Request {
        endpoint: "http://127.0.0.1/v1/chat/completions".into(),
        body: chat_body(number).to_string(),
        repetition: 0,
    };
    let cache = Cache::open(folder, Mode::ReadWrite)?;
    for number in 0..TEXTS {
        cache.put(&Entry::new(
            request(number),
            200,
            "under the flowerpot".into(),
        ))?;
    }
    drop(cache);
    let begun = Instant::now();
    let cache = Cache::open(folder, Mode::ReadWrite)?;
    let opened = begun.elapsed().as_secs_f64() * 1e3;
    assert_eq!(cache.len(), TEXTS);
    let begun = Instant::now();
    const READ: usize = 10_000;
    for number in 0..READ {
        let key = request(number * 7919 % TEXTS).key();
        assert!(cache.get(&key)?.is_some());
    }
    Ok((opened, begun.elapsed().as_secs_f64() * 1e6 / READ as f64))
}
