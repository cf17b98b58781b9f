//! A real HTTP server on loopback that answers as it is told, and counts what it is asked.

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// What the server does with one request.
pub(crate) enum Answer {
    /// A whole reply.
    Reply {
        status: u16,
        headers: Vec<(&'static str, String)>,
        body: String,
    },
    /// The head of a reply and half its body; then the connection is closed.
    CutShort(String),
    /// The connection is closed without a word.
    Close,
    /// Nothing, for as long as the client waits.
    Silence,
}

impl Answer {
    pub(crate) fn ok(body: impl ToString) -> Self {
        Self::status(200, body)
    }

    pub(crate) fn status(status: u16, body: impl ToString) -> Self {
        Self::Reply {
            status,
            headers: Vec::new(),
            body: body.to_string(),
        }
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl ToString) -> Self {
        if let Self::Reply { headers, .. } = &mut self {
            headers.push((name, value.to_string()));
        }
        self
    }
}

/// A request as it arrived.
#[derive(Clone)]
pub(crate) struct Request {
    /// How many came before it.
    pub(crate) number: usize,
    pub(crate) path: String,
    /// Names in lower case, as in the request's head.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// A running server; it ends with its runtime.
pub(crate) struct Server {
    pub(crate) address: String,
    calls: Arc<AtomicUsize>,
    kept: Arc<Mutex<Vec<Request>>>,
}

type Rule = dyn Fn(&Request) -> Answer + Send + Sync;

impl Server {
    /// Starts a server on the current runtime that keeps what it is asked.
    pub(crate) async fn start(rule: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        Self::serve(rule, true).await
    }

    /// Starts a server on the current runtime.
    pub(crate) async fn serve(
        rule: impl Fn(&Request) -> Answer + Send + Sync + 'static,
        keep: bool,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            address: format!("http://{}", listener.local_addr().unwrap()),
            calls: Arc::default(),
            kept: Arc::default(),
        };
        let rule: Arc<Rule> = Arc::new(rule);
        let calls = Arc::clone(&server.calls);
        let kept = keep.then(|| Arc::clone(&server.kept));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (rule, calls, kept) = (Arc::clone(&rule), Arc::clone(&calls), kept.clone());
                tokio::spawn(async move {
                    // An error is the client's going away.
                    let _ = answer_all(stream, &*rule, &calls, kept.as_deref()).await;
                });
            }
        });
        server
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.kept.lock().unwrap().clone()
    }
}

async fn answer_all(
    mut stream: TcpStream,
    rule: &Rule,
    calls: &AtomicUsize,
    kept: Option<&Mutex<Vec<Request>>>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut bytes = Vec::new();
    loop {
        let Some((head, body)) = read_request(&mut stream, &mut bytes).await? else {
            return Ok(());
        };
        let request = Request {
            number: calls.fetch_add(1, Ordering::SeqCst),
            path: head.split(' ').nth(1).unwrap_or_default().to_owned(),
            head,
            body,
        };
        if let Some(kept) = kept {
            kept.lock().unwrap().push(request.clone());
        }
        match rule(&request) {
            Answer::Reply {
                status,
                headers,
                body,
            } => {
                let mut reply = format!("HTTP/1.1 {status} Said\r\n");
                for (name, value) in headers {
                    reply += &format!("{name}: {value}\r\n");
                }
                reply += &format!("content-length: {}\r\n\r\n{body}", body.len());
                stream.write_all(reply.as_bytes()).await?;
            }
            Answer::CutShort(body) => {
                let half = &body[..body.len() / 2];
                let length = body.len();
                let reply = format!("HTTP/1.1 200 Said\r\ncontent-length: {length}\r\n\r\n{half}");
                stream.write_all(reply.as_bytes()).await?;
                return Ok(());
            }
            Answer::Close => return Ok(()),
            Answer::Silence => {
                // Until the client closes.
                stream.read_u8().await?;
            }
        }
    }
}

/// Head (in lower case) and body of the next request; `None` at the end of the connection.
async fn read_request(
    stream: &mut TcpStream,
    bytes: &mut Vec<u8>,
) -> io::Result<Option<(String, String)>> {
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(bytes).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |length| length.trim().parse().unwrap());
    while bytes.len() < end + 4 + length {
        if stream.read_buf(bytes).await? == 0 {
            return Ok(None);
        }
    }
    let rest = bytes.split_off(end + 4 + length);
    let body = String::from_utf8_lossy(&bytes[end + 4..]).into_owned();
    *bytes = rest;
    Ok(Some((head, body)))
}
