use std::convert::Infallible;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::script::{Conversation, Reply, Script};
use super::{Fault, Server, parse};

#[derive(Deserialize)]
struct Request {
    model: String,
    messages: Vec<Message>,
    #[serde(default)]
    stream: bool,
    stream_options: Option<StreamOptions>,
    n: Option<u32>,
    logprobs: Option<bool>,
}

#[derive(Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    content: Option<Content>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
struct Part {
    text: Option<String>,
}

impl Message {
    fn text(self) -> String {
        match self.content {
            Some(Content::Text(text)) => text,
            Some(Content::Parts(parts)) => {
                let texts = parts.into_iter().filter_map(|part| part.text);
                texts.collect::<Vec<_>>().join("\n")
            }
            None => String::new(),
        }
    }
}

pub(super) async fn answer(State(server): State<Server>, body: Bytes) -> Result<Response, Fault> {
    let request: Request = parse(&body)?;
    let Some(script) = &server.models.script else {
        let mend = "start the server with --script FILE";
        return Err(Fault::not_served("chat model", mend));
    };
    if request.model != Script::NAME {
        return Err(Fault::no_such_model(&request.model, &server.names()));
    }
    if request.n.is_some_and(|n| n != 1) {
        return Err(Fault::invalid(
            Some("n"),
            "a script has one reply; send n = 1",
        ));
    }
    if request.logprobs == Some(true) {
        let message = "a script has no probabilities; leave logprobs out";
        return Err(Fault::invalid(Some("logprobs"), message));
    }
    if request.messages.is_empty() {
        return Err(Fault::invalid(Some("messages"), "there is no message"));
    }
    let conversation = Conversation {
        messages: request
            .messages
            .into_iter()
            .map(|message| (message.role.clone(), message.text()))
            .collect(),
    };
    let reply = script.reply(&conversation).ok_or_else(|| {
        let last = conversation.messages.last();
        let begins: String = last
            .map(|(_, text)| text.chars().take(120).collect())
            .unwrap_or_default();
        Fault::unscripted(format!(
            "no rule of the script fits, and it has no `otherwise`; the last message begins: \
             {begins}"
        ))
    })?;
    if !reply.delay.is_zero() {
        tokio::time::sleep(reply.delay).await;
    }
    let count = server
        .models
        .count
        .unwrap_or(|text| text.split_whitespace().count());
    let prompt: usize = conversation.messages.iter().map(|(_, t)| count(t)).sum();
    let completion = count(&reply.text);
    let usage = json!({
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    });
    let about = About {
        id: format!("chatcmpl-{}", id(script.fingerprint(), &conversation)),
        fingerprint: script.fingerprint().chars().take(16).collect(),
    };
    if request.stream {
        let with_usage = request.stream_options.is_some_and(|o| o.include_usage);
        Ok(about.stream(&reply, with_usage.then_some(usage)))
    } else {
        Ok(Json(about.whole(&reply, usage)).into_response())
    }
}

/// The same request to the same script has the same id.
fn id(fingerprint: &str, conversation: &Conversation) -> String {
    use sha2::{Digest, Sha256};
    let mut hash = Sha256::new();
    hash.update(fingerprint);
    for (role, text) in &conversation.messages {
        hash.update((role.len() as u64).to_le_bytes());
        hash.update(role);
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    let digest = hash.finalize();
    digest
        .iter()
        .take(12)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

struct About {
    id: String,
    fingerprint: String,
}

impl About {
    fn envelope(&self, object: &str) -> Value {
        json!({
            "id": self.id,
            "object": object,
            "created": 0,
            "model": Script::NAME,
            "system_fingerprint": self.fingerprint,
        })
    }

    fn whole(&self, reply: &Reply, usage: Value) -> Value {
        let mut whole = self.envelope("chat.completion");
        whole["choices"] = json!([{
            "index": 0,
            "message": { "role": "assistant", "content": reply.text, "refusal": null },
            "logprobs": null,
            "finish_reason": reply.finish.name(),
        }]);
        whole["usage"] = usage;
        whole
    }

    fn stream(&self, reply: &Reply, usage: Option<Value>) -> Response {
        let chunk = |choices: Value| {
            let mut chunk = self.envelope("chat.completion.chunk");
            chunk["choices"] = choices;
            chunk
        };
        let delta = json!({ "role": "assistant", "content": reply.text });
        let mut chunks = vec![
            chunk(json!([{ "index": 0, "delta": delta, "finish_reason": null }])),
            chunk(json!([{ "index": 0, "delta": {}, "finish_reason": reply.finish.name() }])),
        ];
        if let Some(usage) = usage {
            let mut last = chunk(json!([]));
            last["usage"] = usage;
            chunks.push(last);
        }
        let events = chunks
            .into_iter()
            .map(|chunk| chunk.to_string())
            .chain(["[DONE]".to_owned()])
            .map(|data| Ok::<_, Infallible>(Event::default().data(data)));
        Sse::new(futures_util::stream::iter(events)).into_response()
    }
}
