//! One service: every call to it goes through here, whatever its form.

use std::{
    collections::HashMap,
    future::Future,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::{Either, select};
use reqwest::{
    Client, Proxy, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
    redirect::Policy,
};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::{
    RemoteError, Trouble,
    pace::{Breaker, Pace, backoff, is_passing, retry_after},
    settings::{Address, Endpoint, Limits, Provider, Secret},
    time::{Clock, Stop, SystemClock},
};
use crate::{
    cache::{Cache, Entry, Key, Mode, Request},
    prices::{Attempt, Meter, Stage, Tokens, UsageRow},
};

/// What the services of one run share.
#[derive(Debug, Clone)]
pub struct Session {
    /// Where replies are kept; `None` to make every call.
    pub cache: Option<Arc<Cache>>,
    /// The ledger and its limit.
    pub meter: Arc<Meter>,
    /// The switch that stops the run.
    pub stop: Stop,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where the jitter of pauses starts from.
    pub seed: u64,
}

impl Default for Session {
    fn default() -> Self {
        Self {
            cache: None,
            meter: Arc::default(),
            stop: Stop::default(),
            clock: Arc::new(SystemClock::default()),
            seed: 0,
        }
    }
}

/// A service that is ready to be called: its connections, its pace, and the session it serves. All
/// clients of one service should share it, so that its limits hold for them together.
#[derive(Debug)]
pub struct Service {
    provider: Provider,
    address: Address,
    key: Option<Secret>,
    limits: Limits,
    client: Client,
    turns: Semaphore,
    pace: Mutex<Pace>,
    breaker: Mutex<Breaker>,
    under_way: Mutex<HashMap<Key, Arc<tokio::sync::Mutex<()>>>>,
    session: Session,
}

/// One call, as the clients make it.
pub(super) struct Call<'a> {
    pub(super) path: &'a str,
    pub(super) model: &'a str,
    pub(super) stage: Stage,
    /// The canonical body, and those to try where the service refuses the output format of the one
    /// before. The first decides the key.
    pub(super) bodies: Vec<String>,
    pub(super) repetition: u32,
    pub(super) expected: Tokens,
    /// Whether a reply with an error status is an answer all the same.
    pub(super) is_answer: fn(&Reply) -> bool,
}

/// A complete reply, without the key.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) text: String,
}

/// Why a reply that should be an answer is none.
pub(super) enum Unread {
    /// It is not what was asked for.
    Malformed(String),
    /// It says that the service failed, under a status of success.
    Failed { status: u16, code: Option<String> },
}

impl From<serde_json::Error> for Unread {
    fn from(error: serde_json::Error) -> Self {
        Self::Malformed(error.to_string())
    }
}

/// How a call was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// Whether the response cache answered.
    pub from_cache: bool,
    /// Attempts that were sent; 0 from the cache.
    pub attempts: u32,
    /// From the first sending to the last byte, pauses included; 0 from the cache.
    pub elapsed: Duration,
    /// What the service counted; `None` where it said nothing.
    pub tokens: Option<Tokens>,
    /// The body of the reply.
    pub raw: String,
}

impl Service {
    /// Prepares the connections to a service.
    ///
    /// # Errors
    /// [`RemoteError::Prepare`] when the system's certificates or the proxy cannot be used.
    pub fn connect(endpoint: Endpoint, session: &Session) -> Result<Arc<Self>, RemoteError> {
        let client = client(&endpoint).map_err(|reason| RemoteError::Prepare {
            address: endpoint.address.to_string(),
            reason,
        })?;
        Ok(Arc::new(Self {
            provider: endpoint.provider,
            address: endpoint.address,
            key: endpoint.key,
            client,
            turns: Semaphore::new(endpoint.limits.concurrency),
            pace: Mutex::new(Pace::new(&endpoint.limits)),
            breaker: Mutex::default(),
            under_way: Mutex::default(),
            limits: endpoint.limits,
            session: session.clone(),
        }))
    }

    /// The effective address, before a call's path is added.
    pub fn address(&self) -> &Address {
        &self.address
    }

    pub(super) fn provider(&self) -> Provider {
        self.provider
    }

    pub(super) fn concurrency(&self) -> usize {
        self.limits.concurrency
    }

    /// The full address of the calls with this path.
    pub(super) fn url(&self, path: &str) -> String {
        self.address.join(path).into()
    }

    /// Answers `call` from the cache or from the service. `read` turns a reply into a value and the
    /// tokens it cost; only replies that it can read are kept.
    pub(super) async fn call<T>(
        &self,
        call: &Call<'_>,
        read: impl Fn(&Reply) -> Result<(T, Option<Tokens>), Unread>,
    ) -> Result<(T, Served), RemoteError> {
        let url = self.address.join(call.path);
        let request = Request {
            endpoint: url.to_string(),
            body: call.bodies.first().cloned().unwrap_or_default(),
            repetition: call.repetition,
        };
        let key = request.key();
        if self.session.stop.is_requested() {
            return Err(self.stopped(&url));
        }
        let Some(cache) = self.session.cache.as_deref() else {
            let fetched = self.fetch(call, &url, &key, &read).await?;
            return Ok((fetched.value, fetched.served));
        };
        // Equal calls that are made at once wait for the first, and then find its reply.
        let turn = Arc::clone(lock(&self.under_way).entry(key).or_default());
        let _turn = turn.lock().await;
        let _leave = Leave { service: self, key };
        if let Some(entry) = cache.get(&key)? {
            return self.read_kept(call, &url, entry, &read);
        }
        if cache.mode() == Mode::ReadOnly {
            let address = url.into();
            return Err(RemoteError::NotCached { address, key });
        }
        let fetched = self.fetch(call, &url, &key, &read).await?;
        let mut entry = Entry::new(request, fetched.status, fetched.served.raw.clone());
        entry.answered_body = fetched.other_body;
        cache.put(&entry)?;
        Ok((fetched.value, fetched.served))
    }

    /// The value of a kept reply.
    fn read_kept<T>(
        &self,
        call: &Call<'_>,
        url: &Url,
        entry: Entry,
        read: &impl Fn(&Reply) -> Result<(T, Option<Tokens>), Unread>,
    ) -> Result<(T, Served), RemoteError> {
        let reply = Reply {
            status: entry.status,
            text: entry.reply,
        };
        let (value, tokens) = read(&reply).map_err(|unread| self.malformed(url, &reply, unread))?;
        self.session.meter.record(&UsageRow {
            stage: call.stage,
            model: call.model.into(),
            address: url.to_string(),
            attempt: Attempt::Cached,
            tokens,
            expected: call.expected,
            seconds: 0.0,
        });
        let served = Served {
            from_cache: true,
            attempts: 0,
            elapsed: Duration::ZERO,
            tokens,
            raw: reply.text,
        };
        Ok((value, served))
    }

    /// Makes attempts until one is answered or there is no use in another, and tells the breaker.
    async fn fetch<T>(
        &self,
        call: &Call<'_>,
        url: &Url,
        key: &Key,
        read: &impl Fn(&Reply) -> Result<(T, Option<Tokens>), Unread>,
    ) -> Result<Fetched<T>, RemoteError> {
        let fetched = self.attempts(call, url, key, read).await;
        let mut breaker = lock(&self.breaker);
        match &fetched {
            Ok(_) => breaker.succeeded(),
            // That the service counts as down is no new failure.
            Err(RemoteError::Down { .. }) => {}
            Err(error) if error.is_service_failure() => breaker.failed(error.to_string()),
            Err(_) => {}
        }
        fetched
    }

    async fn attempts<T>(
        &self,
        call: &Call<'_>,
        url: &Url,
        key: &Key,
        read: &impl Fn(&Reply) -> Result<(T, Option<Tokens>), Unread>,
    ) -> Result<Fetched<T>, RemoteError> {
        let clock = &self.session.clock;
        let seed = self.session.seed ^ key.first_u64();
        let mut bodies = call.bodies.iter().enumerate().peekable();
        let mut body = bodies.next();
        let mut began = None;
        let (mut attempts, mut of_this_body) = (0, 0);
        while let Some((number, text)) = body {
            let turn = self.enter(url, call.expected).await?;
            let began = *began.get_or_insert_with(|| clock.now());
            attempts += 1;
            of_this_body += 1;
            let failed = match self.attempt(call, url, text, read).await? {
                Ok((reply, value, tokens)) => {
                    return Ok(Fetched {
                        value,
                        status: reply.status,
                        other_body: (number > 0).then(|| text.clone()),
                        served: Served {
                            from_cache: false,
                            attempts,
                            elapsed: clock.now().saturating_sub(began),
                            tokens,
                            raw: reply.text,
                        },
                    });
                }
                Err(failed) => failed,
            };
            drop(turn);
            if failed.may_be_the_format() && bodies.peek().is_some() {
                body = bodies.next();
                of_this_body = 0;
            } else {
                let counts = (attempts, of_this_body);
                self.pause(url, failed, counts, began, seed).await?;
            }
        }
        // The loop ends by returning; a call has at least one body.
        Err(self.stopped(url))
    }

    /// Makes one attempt and enters it in the ledger. The outer error ends the call; the inner one
    /// may pass.
    async fn attempt<T>(
        &self,
        call: &Call<'_>,
        url: &Url,
        body: &str,
        read: &impl Fn(&Reply) -> Result<(T, Option<Tokens>), Unread>,
    ) -> Result<Result<(Reply, T, Option<Tokens>), Failed>, RemoteError> {
        let meter = &self.session.meter;
        let reservation = meter.admit(call.stage, call.model, url.as_str(), call.expected)?;
        let clock = &self.session.clock;
        let sent = clock.now();
        let Some(received) = self.unless_stopped(2, self.send(url, body)).await else {
            return Err(self.stopped(url));
        };
        let seconds = clock.now().saturating_sub(sent).as_secs_f64();
        let received = match received {
            Ok(received) => received,
            Err(trouble) => {
                let attempt = match trouble {
                    Trouble::Unreachable(_) => Attempt::Unsent,
                    _ => Attempt::Unknown,
                };
                reservation.settle(attempt, None, seconds);
                return Ok(Err(Failed::of(trouble)));
            }
        };
        match self.read(call, url, received, read) {
            Ok((reply, value, tokens)) => {
                reservation.settle(Attempt::Answered(reply.status), tokens, seconds);
                Ok(Ok((reply, value, tokens)))
            }
            Err(NoAnswer::Failed(failed)) => {
                reservation.settle(Attempt::Refused(failed.status), None, seconds);
                Ok(Err(failed))
            }
            Err(NoAnswer::Malformed(error)) => {
                reservation.settle(Attempt::Unknown, None, seconds);
                Err(error)
            }
        }
    }

    /// Reads what came back, or says in which way it is no answer.
    fn read<T>(
        &self,
        call: &Call<'_>,
        url: &Url,
        received: Received,
        read: &impl Fn(&Reply) -> Result<(T, Option<Tokens>), Unread>,
    ) -> Result<(Reply, T, Option<Tokens>), NoAnswer> {
        let Received { reply, pause } = received;
        let failed = |status, code: Option<String>, reply: &Reply| {
            NoAnswer::Failed(Failed {
                passing: is_passing(status, code.as_deref()),
                status,
                pause,
                trouble: Trouble::Status {
                    status,
                    code,
                    excerpt: excerpt(&reply.text),
                },
            })
        };
        if !(200..300).contains(&reply.status) && !(call.is_answer)(&reply) {
            return Err(failed(reply.status, code_of(&reply.text), &reply));
        }
        match read(&reply) {
            Ok((value, tokens)) => Ok((reply, value, tokens)),
            Err(Unread::Failed { status, code }) => Err(failed(status, code, &reply)),
            Err(unread) => Err(NoAnswer::Malformed(self.malformed(url, &reply, unread))),
        }
    }

    /// Waits before the next attempt, or says why there is none. `counts` are the attempts of the
    /// call and of its present body.
    async fn pause(
        &self,
        url: &Url,
        failed: Failed,
        (attempts, of_this_body): (u32, u32),
        began: Duration,
        seed: u64,
    ) -> Result<(), RemoteError> {
        let address = || url.to_string();
        if !failed.passing {
            return Err(RemoteError::Refused {
                address: address(),
                trouble: failed.trouble,
            });
        }
        if of_this_body >= self.limits.attempts {
            return Err(RemoteError::GivenUp {
                address: address(),
                attempts,
                last: failed.trouble,
            });
        }
        let now = self.session.clock.now();
        let pause = match failed.pause {
            Some(pause) => {
                lock(&self.pace).hold(now.saturating_add(pause));
                pause
            }
            None => backoff(&self.limits, seed, attempts),
        };
        let end = now.saturating_add(pause).saturating_sub(began);
        if end.as_secs_f64() > self.limits.call_seconds {
            return Err(RemoteError::OutOfTime {
                address: address(),
                attempts,
                last: failed.trouble,
            });
        }
        let slept = self
            .unless_stopped(1, self.session.clock.sleep(pause))
            .await;
        slept.ok_or_else(|| self.stopped(url))
    }

    /// Waits for a turn: a free place among the concurrent calls, and the pace of the service.
    async fn enter(
        &self,
        url: &Url,
        expected: Tokens,
    ) -> Result<tokio::sync::SemaphorePermit<'_>, RemoteError> {
        self.check_breaker()?;
        let turn = self.unless_stopped(1, self.turns.acquire()).await;
        let Some(Ok(turn)) = turn else {
            return Err(self.stopped(url));
        };
        let clock = &self.session.clock;
        let mut wait = lock(&self.pace).book(clock.now(), expected.input + expected.output);
        while !wait.is_zero() {
            let slept = self.unless_stopped(1, clock.sleep(wait)).await;
            slept.ok_or_else(|| self.stopped(url))?;
            // The service may have asked for a pause meanwhile.
            wait = lock(&self.pace).held(clock.now());
        }
        self.check_breaker()?;
        if self.session.stop.is_requested() {
            return Err(self.stopped(url));
        }
        Ok(turn)
    }

    fn check_breaker(&self) -> Result<(), RemoteError> {
        match lock(&self.breaker).tripped(&self.limits) {
            None => Ok(()),
            Some((failures, reason)) => Err(RemoteError::Down {
                address: self.address.to_string(),
                failures,
                reason,
            }),
        }
    }

    /// Sends one body and receives the whole reply within the time of an attempt.
    async fn send(&self, url: &Url, body: &str) -> Result<Received, Trouble> {
        let time = Duration::from_secs_f64(self.limits.attempt_seconds);
        match tokio::time::timeout(time, self.exchange(url, body)).await {
            Ok(received) => received,
            Err(_) => Err(Trouble::Timeout),
        }
    }

    async fn exchange(&self, url: &Url, body: &str) -> Result<Received, Trouble> {
        let trouble = |error: reqwest::Error| self.trouble(error);
        let request = self.client.post(url.clone()).body(body.to_owned());
        let mut response = request.send().await.map_err(trouble)?;
        let status = response.status().as_u16();
        let header = |name| Some(response.headers().get(name)?.to_str().ok()?.to_owned());
        let pause = retry_after(header, self.session.clock.wall());
        let limit = self.limits.reply_bytes;
        let announced = response.content_length().unwrap_or(0);
        let mut bytes = Vec::with_capacity(limit.min(announced as usize));
        while let Some(part) = response.chunk().await.map_err(trouble)? {
            if bytes.len() + part.len() > limit {
                return Err(Trouble::TooLong { limit });
            }
            bytes.extend_from_slice(&part);
        }
        // A reply that is not UTF-8 is no JSON either; what replaces the bytes makes it unreadable.
        let text = String::from_utf8(bytes).unwrap_or_else(|error| {
            format!("\u{fffd}{}", String::from_utf8_lossy(error.as_bytes()))
        });
        let text = self.redact(text);
        Ok(Received {
            reply: Reply { status, text },
            pause,
        })
    }

    fn trouble(&self, error: reqwest::Error) -> Trouble {
        let unsent = error.is_connect();
        if error.is_timeout() && !unsent {
            return Trouble::Timeout;
        }
        let error = error.without_url();
        let mut reason = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(error) = cause {
            reason = error.to_string();
            cause = error.source();
        }
        let reason = self.redact(reason);
        match unsent {
            true => Trouble::Unreachable(reason),
            false => Trouble::Broken(reason),
        }
    }

    fn redact(&self, text: String) -> String {
        match &self.key {
            Some(key) => key.redact(text),
            None => text,
        }
    }

    /// The future's output, or `None` once the run was asked `times` times to stop.
    async fn unless_stopped<F: Future>(&self, times: u8, future: F) -> Option<F::Output> {
        let stopped = pin!(self.session.stop.asked(times));
        match select(pin!(future), stopped).await {
            Either::Left((output, _)) => Some(output),
            Either::Right(_) => None,
        }
    }

    fn stopped(&self, url: &Url) -> RemoteError {
        let address = url.to_string();
        RemoteError::Stopped { address }
    }

    fn malformed(&self, url: &Url, reply: &Reply, unread: Unread) -> RemoteError {
        let reason = match unread {
            Unread::Malformed(reason) => reason,
            Unread::Failed { status, .. } => format!("it states status {status}"),
        };
        RemoteError::Malformed {
            address: url.to_string(),
            reason,
            excerpt: excerpt(&reply.text),
        }
    }
}

/// Takes a call off the list of those under way when no equal one waits.
struct Leave<'a> {
    service: &'a Service,
    key: Key,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        let mut under_way = lock(&self.service.under_way);
        // One count is the list's, one this call's.
        if under_way
            .get(&self.key)
            .is_some_and(|turn| Arc::strong_count(turn) <= 2)
        {
            under_way.remove(&self.key);
        }
    }
}

struct Fetched<T> {
    value: T,
    status: u16,
    other_body: Option<String>,
    served: Served,
}

struct Received {
    reply: Reply,
    pause: Option<Duration>,
}

enum NoAnswer {
    Malformed(RemoteError),
    Failed(Failed),
}

struct Failed {
    /// Whether another attempt may succeed.
    passing: bool,
    /// 0 where the service gave none.
    status: u16,
    pause: Option<Duration>,
    trouble: Trouble,
}

impl Failed {
    fn of(trouble: Trouble) -> Self {
        Self {
            passing: !matches!(trouble, Trouble::TooLong { .. }),
            status: 0,
            pause: None,
            trouble,
        }
    }

    /// Whether the service may have refused the output format. Services have no common code for
    /// it, so every refusal of the body counts except the one that has another known reason.
    fn may_be_the_format(&self) -> bool {
        match &self.trouble {
            Trouble::Status { status, code, .. } => {
                matches!(status, 400 | 422) && code.as_deref() != Some("context_length_exceeded")
            }
            _ => false,
        }
    }
}

fn client(endpoint: &Endpoint) -> Result<Client, String> {
    let seconds = Duration::from_secs_f64;
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(key) = &endpoint.key {
        let value = match endpoint.provider.key_header() {
            "authorization" => format!("Bearer {}", key.expose()),
            _ => key.expose().to_owned(),
        };
        let mut value = HeaderValue::try_from(value).map_err(|error| error.to_string())?;
        value.set_sensitive(true);
        let name = HeaderName::from_static(endpoint.provider.key_header());
        headers.insert(name, value);
    }
    let mut builder = Client::builder()
        .default_headers(headers)
        .user_agent(concat!("rawrag/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(seconds(endpoint.limits.connect_seconds))
        .pool_max_idle_per_host(endpoint.limits.concurrency)
        // A redirected call would take its key along; a proxy is named, never found.
        .redirect(Policy::none())
        .no_proxy();
    if let Some(proxy) = &endpoint.proxy {
        builder = builder.proxy(Proxy::all(proxy).map_err(|error| error.to_string())?);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    if endpoint.address.is_encrypted() {
        // Ignored where the process has chosen one before.
        let _ = rustls::crypto::ring::default_provider().install_default();
    } else {
        let versions = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let none = rustls::RootCertStore::empty();
        let config = versions.with_root_certificates(none).with_no_client_auth();
        builder = builder.tls_backend_preconfigured(config);
    }
    builder.build().map_err(|error| error.to_string())
}

/// A JSON text with the keys of every object in order and nothing between tokens, whatever order
/// the value was built in.
pub(super) fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    text
}

fn write_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(map) => {
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_unstable_by_key(|(key, _)| *key);
            text.push('{');
            for (at, (key, value)) in fields.into_iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write_canonical(&Value::String(key.clone()), text);
                text.push(':');
                write_canonical(value, text);
            }
            text.push('}');
        }
        Value::Array(values) => {
            text.push('[');
            for (at, value) in values.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write_canonical(value, text);
            }
            text.push(']');
        }
        scalar => text.push_str(&scalar.to_string()),
    }
}

/// The service's own code for a failure, where the forms in use put it.
pub(super) fn code_of(text: &str) -> Option<String> {
    let value: Value = serde_json::from_str(text).ok()?;
    let places = [
        "/error/code",
        "/error/type",
        "/detail/error_type",
        "/error_type",
        "/code",
    ];
    places
        .into_iter()
        .find_map(|place| match value.pointer(place)? {
            Value::String(code) if !code.is_empty() => Some(code.clone()),
            Value::Number(code) => Some(code.to_string()),
            _ => None,
        })
}

/// The failure that a reply states under a status of success, as routers of several services do.
pub(super) fn stated_failure(error: Option<&StatedError>) -> Result<(), Unread> {
    let Some(error) = error else { return Ok(()) };
    let code = match &error.code {
        Value::Number(code) => Some(code.to_string()),
        Value::String(code) => Some(code.clone()),
        _ => None,
    };
    let status = code.as_deref().and_then(|code| code.parse().ok());
    Err(Unread::Failed {
        status: status.unwrap_or(502),
        code,
    })
}

/// An error inside a reply.
#[derive(Debug, Deserialize)]
pub(super) struct StatedError {
    #[serde(default)]
    code: Value,
}

/// The first characters of a reply, on one line.
fn excerpt(text: &str) -> String {
    const MOST: usize = 300;
    let mut excerpt: String = text.chars().take(MOST).collect();
    if excerpt.len() < text.len() {
        excerpt.push('…');
    }
    excerpt.replace(['\n', '\r'], " ")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
