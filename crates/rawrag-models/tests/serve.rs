//! The server, asked by our own clients over real HTTP.

#![expect(
    clippy::unwrap_used,
    reason = "a test whose server cannot be asked has failed"
)]

use std::net::SocketAddr;
use std::sync::Arc;

use rawrag_models::generate::{GenerateError, Generated, Generator, Options, Token, Turn};
use rawrag_models::prices::Stage;
use rawrag_models::remote::{
    ChatClient, ChatModel, ChatOutcome, ChatRequest, EmbeddingClient, EmbeddingSettings,
    InputLimits, Message, Provider, RemoteEmbedder, RemoteReranker, RerankClient, RerankSettings,
    Service, Session, Settings, YesNoClient, YesNoSettings,
};
use rawrag_models::serve::{Bound, Models, Script};
use rawrag_models::{Embedder, Embeddings, ModelError, ModelIdentity, ModelKind, Reranker, Scores};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Embeds a text as its length and its words, on the unit circle.
struct Lengths(ModelIdentity);

impl Embedder for Lengths {
    fn identity(&self) -> &ModelIdentity {
        &self.0
    }

    fn dimension(&self) -> usize {
        2
    }

    fn embed(&self, texts: &[&str]) -> Result<Embeddings, ModelError> {
        let row = |text: &&str| {
            let angle = text.len() as f32 / 100.0;
            [angle.cos(), angle.sin()]
        };
        Ok(Embeddings {
            vectors: texts.iter().flat_map(row).collect(),
            dimension: 2,
            truncated: 0,
        })
    }

    fn count_tokens(&self, text: &str) -> usize {
        text.split_whitespace().count()
    }
}

/// Scores a passage by the words it shares with the query.
struct Shared(ModelIdentity);

impl Reranker for Shared {
    fn identity(&self) -> &ModelIdentity {
        &self.0
    }

    fn score(&self, query: &str, passages: &[&str]) -> Result<Scores, ModelError> {
        let shared = |passage: &&str| {
            let words = passage.split(' ').filter(|w| query.contains(*w));
            words.count() as f32 - 1.0
        };
        Ok(Scores {
            scores: passages.iter().map(shared).collect(),
            truncated: 0,
        })
    }
}

/// Says yes to a prompt that speaks of bees, with nine parts of ten; has a context of four messages.
struct Keeper(ModelIdentity);

impl Generator for Keeper {
    fn identity(&self) -> &ModelIdentity {
        &self.0
    }

    fn chat(&self, messages: &[Turn], options: &Options) -> Result<Generated, GenerateError> {
        if messages.len() > 4 {
            return Err(GenerateError::TooLong {
                tokens: messages.len(),
                context: 4,
            });
        }
        let roles: Vec<&str> = messages.iter().map(|turn| turn.role.as_str()).collect();
        let text = match options.json {
            true => json!({ "roles": roles }).to_string(),
            false => roles.join(" "),
        };
        Ok(Generated {
            cut: options.max_tokens == Some(1),
            prompt_tokens: messages.len(),
            tokens: vec![token(text.as_bytes(), 0.5, &[])],
            text,
        })
    }

    fn complete(&self, prompt: &str, options: &Options) -> Result<Generated, GenerateError> {
        let yes = if prompt.contains("bees") { 0.9 } else { 0.2 };
        let told: [(&[u8], f64); 3] = [(b"yes", yes), (b"no", 0.75 - yes / 2.0), (b"\xff", 0.01)];
        let told = &told[..options.alternatives.min(3)];
        Ok(Generated {
            text: "yes".to_owned(),
            cut: true,
            prompt_tokens: 7,
            tokens: vec![token(b"yes", yes, told)],
        })
    }
}

fn token(bytes: &[u8], probability: f64, alternatives: &[(&[u8], f64)]) -> Token {
    let told = alternatives.iter();
    Token {
        bytes: bytes.to_vec(),
        logprob: probability.ln(),
        alternatives: told.map(|(bytes, p)| (bytes.to_vec(), p.ln())).collect(),
    }
}

fn models() -> Models {
    let identity = |name: &str, kind| ModelIdentity {
        name: name.into(),
        kind,
        sha256: None,
    };
    let script = r#"
        [[rules]]
        when = 'capital of (\w+)'
        reply = 'I was asked of <<1>>.'
        [[rules]]
        when = 'long'
        reply = 'A long re'
        finish = 'length'
    "#;
    Models {
        embedder: Some(Arc::new(Lengths(identity("lengths", ModelKind::Embedder)))),
        reranker: Some(Arc::new(Shared(identity(
            "shared",
            ModelKind::CrossEncoder,
        )))),
        script: Some(Arc::new(Script::parse(script).unwrap())),
        generator: Some(Arc::new(Keeper(identity("keeper", ModelKind::Chat)))),
        aliases: vec!["text-embedding-3-small".into()],
        count: None,
    }
}

/// Runs `test` against a server of `models`, which is stopped after it.
fn with_server<F: Future<Output = ()>>(models: Models, test: impl FnOnce(SocketAddr) -> F) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let bound = Bound::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = bound.address();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let server = tokio::spawn(bound.serve_until(models, async {
            let _ = stopped.await;
        }));
        test(address).await;
        drop(stop);
        server.await.unwrap().unwrap();
    });
}

fn service(address: SocketAddr) -> Arc<Service> {
    let settings = Settings::new(Provider::Compatible).at(format!("http://{address}/v1"));
    let endpoint = settings.resolve(&|_| None).unwrap();
    Service::connect(endpoint, &Session::default()).unwrap()
}

/// Status and body of one request, written by hand.
async fn ask(address: SocketAddr, request: &str, body: &str) -> (u16, String) {
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let head = format!(
        "{request} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

#[test]
fn our_clients_embed_rerank_and_chat() {
    with_server(models(), |address| async move {
        let settings = EmbeddingSettings {
            model: "lengths".into(),
            dimension: 2,
            shorten: false,
            inputs: InputLimits::default(),
        };
        let client = EmbeddingClient::new(service(address), settings, Stage::Write);
        let texts = ["one", "", "a longer one with ünïcödé"];
        let over_http = client.embed(&texts).await.unwrap();
        let local = models()
            .embedder
            .unwrap()
            .embed(&["one", " ", texts[2]])
            .unwrap();
        assert_eq!(over_http.vectors, local.vectors);

        let settings = RerankSettings {
            model: "shared".into(),
            inputs: InputLimits::default(),
        };
        let client = RerankClient::new(service(address), settings, Stage::Read);
        let scores = client
            .score("green tea leaves", &["red wine", "green tea", "tea"])
            .await
            .unwrap()
            .scores;
        assert!(scores[1] > scores[2] && scores[2] > scores[0], "{scores:?}");

        let client = ChatClient::new(service(address), Script::NAME, Stage::Answer);
        let question = ChatRequest::new(vec![Message::user("The capital of Peru?")], 50);
        let reply = client.chat(&question).await.unwrap();
        assert_eq!(reply.outcome.answer(), Some("I was asked of Peru."));
        let question = ChatRequest::new(vec![Message::user("Something long")], 50);
        let cut = client.chat(&question).await.unwrap();
        assert!(
            !matches!(cut.outcome, ChatOutcome::Answered { .. }),
            "{cut:?}"
        );
    });
}

#[test]
fn requests_that_wait_together_get_each_their_own_vectors() {
    with_server(models(), |address| async move {
        let ask_for = |n: usize| async move {
            let text = "x".repeat(n);
            let body = json!({ "model": "text-embedding-3-small", "input": [text, "y"] });
            let (status, body) = ask(address, "POST /v1/embeddings", &body.to_string()).await;
            assert_eq!(status, 200);
            let body: Value = serde_json::from_str(&body).unwrap();
            let first = body["data"][0]["embedding"][1].as_f64().unwrap();
            assert!(
                (first - (n as f64 / 100.0).sin()).abs() < 1e-6,
                "{n}: {first}"
            );
        };
        futures_util::future::join_all((1..120).map(ask_for)).await;
    });
}

#[test]
fn what_cannot_be_done_says_so_and_the_server_goes_on() {
    with_server(models(), |address| async move {
        let chat = |body: Value| async move {
            ask(address, "POST /v1/chat/completions", &body.to_string()).await
        };
        let embed = |body: Value| async move {
            ask(address, "POST /v1/embeddings", &body.to_string()).await
        };
        let hello = json!([{ "role": "user", "content": "hello" }]);
        let faults = [
            embed(json!({ "model": "ada", "input": "x" })).await,
            embed(json!({ "model": "lengths", "input": [[1, 2]] })).await,
            embed(json!({ "model": "lengths", "input": 7 })).await,
            embed(json!({ "model": "lengths", "input": [] })).await,
            embed(json!({ "model": "lengths", "input": "x", "dimensions": 1 })).await,
            embed(json!({ "model": "lengths", "input": "x", "encoding_format": "hex" })).await,
            chat(json!({ "model": "gpt-4o-mini", "messages": hello })).await,
            chat(json!({ "model": "scripted", "messages": hello })).await,
            chat(json!({ "model": "scripted", "messages": hello, "n": 2 })).await,
            chat(json!({ "model": "scripted", "messages": hello, "logprobs": true })).await,
            chat(json!({ "model": "scripted", "messages": [] })).await,
            ask(address, "POST /v1/embeddings", "{\"model\":").await,
            ask(
                address,
                "POST /v1/rerank",
                r#"{"query":"q","documents":["d"],"top_n":0}"#,
            )
            .await,
            ask(address, "POST /v1/completions", "{}").await,
            ask(
                address,
                "POST /v1/completions",
                r#"{"model":"scripted","prompt":"x"}"#,
            )
            .await,
            ask(
                address,
                "POST /v1/completions",
                r#"{"model":"keeper","prompt":"x","echo":true}"#,
            )
            .await,
            chat(json!({ "model": "keeper", "messages": vec![hello[0].clone(); 5] })).await,
            chat(json!({
                "model": "keeper", "messages": hello, "response_format": { "type": "json_schema" },
            }))
            .await,
            ask(address, "POST /v1/speech", "{}").await,
            ask(address, "GET /v1/embeddings", "").await,
        ];
        let told: Vec<String> = faults
            .iter()
            .map(|(status, body)| {
                let body: Value = serde_json::from_str(body).unwrap();
                format!("{status} {}", body["error"]["message"].as_str().unwrap())
            })
            .collect();
        insta::assert_snapshot!(told.join("\n"));
        let (status, body) = ask(address, "GET /v1/models", "").await;
        assert_eq!(status, 200);
        let body: Value = serde_json::from_str(&body).unwrap();
        let names: Vec<&str> = body["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|model| model["id"].as_str().unwrap())
            .collect();
        assert_eq!(
            names,
            [
                "lengths",
                "text-embedding-3-small",
                "shared",
                "keeper",
                "scripted"
            ]
        );
    });
}

/// A simulated model's time is part of its name, so that records hold it.
#[test]
fn a_script_replies_as_late_as_its_name_says() {
    let delay = |name| Script::delay(name).map(|delay| delay.as_millis());
    assert_eq!(delay("scripted"), Some(0));
    assert_eq!(delay("scripted+250ms"), Some(250));
    for no in [
        "scripted+ms",
        "scripted250ms",
        "scripted+1s",
        "scripted+-1ms",
        "other",
    ] {
        assert_eq!(delay(no), None, "{no}");
    }
    with_server(models(), |address| async move {
        let body = json!({
            "model": "scripted+20ms",
            "messages": [{ "role": "user", "content": "capital of Chad" }],
        });
        let begun = std::time::Instant::now();
        let (status, body) = ask(address, "POST /v1/chat/completions", &body.to_string()).await;
        assert_eq!(status, 200);
        assert!(body.contains(r#""model":"scripted+20ms""#), "{body}");
        assert!(begun.elapsed().as_millis() >= 20);
    });
}

#[test]
fn a_streamed_reply_says_the_same_and_ends() {
    with_server(models(), |address| async move {
        let body = json!({
            "model": "scripted",
            "messages": [{ "role": "user", "content": [{ "type": "text", "text": "capital of Chad" }] }],
            "stream": true,
            "stream_options": { "include_usage": true },
        });
        let (status, body) = ask(address, "POST /v1/chat/completions", &body.to_string()).await;
        assert_eq!(status, 200);
        assert!(body.contains("I was asked of Chad."), "{body}");
        assert!(body.contains(r#""completion_tokens":5"#), "{body}");
        assert!(body.contains("data: [DONE]"), "{body}");
    });
}

/// What a local model is likely to say reaches the yes/no reranker, over real HTTP.
#[test]
fn a_local_model_answers_chats_and_tells_how_likely_yes_is() {
    with_server(models(), |address| async move {
        let settings = YesNoSettings {
            model: "keeper".into(),
            system: "Say yes or no.".into(),
            instruction: "Is it about the question?".into(),
            inputs: InputLimits::default(),
        };
        let client = YesNoClient::new(service(address), settings, Stage::Read);
        let scores = client
            .score("What does Mara keep?", &["Mara keeps bees.", "It rained."])
            .await
            .unwrap();
        // 0.9 of 0.9 + 0.3, and 0.2 of 0.2 + 0.65.
        let wanted = [0.75, 0.2 / 0.85];
        for (score, wanted) in scores.scores.iter().zip(wanted) {
            assert!((f64::from(*score) - wanted).abs() < 1e-6, "{scores:?}");
        }

        let body = json!({
            "model": "keeper",
            "messages": [{ "role": "system", "content": "s" }, { "role": "user", "content": "u" }],
            "logprobs": true,
            "top_logprobs": 2,
            "response_format": { "type": "json_object" },
            "max_completion_tokens": 1,
        });
        let (status, body) = ask(address, "POST /v1/chat/completions", &body.to_string()).await;
        assert_eq!(status, 200, "{body}");
        let body: Value = serde_json::from_str(&body).unwrap();
        let choice = &body["choices"][0];
        assert_eq!(
            choice["message"]["content"],
            r#"{"roles":["system","user"]}"#
        );
        assert_eq!(choice["finish_reason"], "length");
        assert_eq!(choice["logprobs"]["content"][0]["logprob"], 0.5_f64.ln());
        assert_eq!(body["usage"]["prompt_tokens"], 2);
        assert_eq!(body["model"], "keeper");
    });
}
