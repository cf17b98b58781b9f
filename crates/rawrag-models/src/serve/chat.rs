use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::generated::{self, Stop};
use super::script::{Conversation, Script};
use super::{Fault, Server, parse};
use crate::generate::{Options, Turn};

#[derive(Deserialize)]
struct Request {
    model: String,
    messages: Vec<Message>,
    #[serde(default)]
    stream: bool,
    stream_options: Option<StreamOptions>,
    n: Option<u32>,
    logprobs: Option<bool>,
    top_logprobs: Option<usize>,
    max_tokens: Option<usize>,
    max_completion_tokens: Option<usize>,
    stop: Option<Stop>,
    response_format: Option<ResponseFormat>,
}

#[derive(Deserialize)]
struct ResponseFormat {
    r#type: String,
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
    if server.models.script.is_none() && server.models.generator.is_none() {
        let mend = "start the server with --script FILE or --gguf FILE";
        return Err(Fault::not_served("chat model", mend));
    }
    if request.n.is_some_and(|n| n != 1) {
        let message = "the same request has one reply; send n = 1";
        return Err(Fault::invalid(Some("n"), message));
    }
    if request.messages.is_empty() {
        return Err(Fault::invalid(Some("messages"), "there is no message"));
    }
    let (stream, stream_options) = (request.stream, &request.stream_options);
    let with_usage = stream_options.as_ref().is_some_and(|o| o.include_usage);
    let (about, reply) = if server.generator(&request.model).is_some() {
        generated(&server, request).await?
    } else if let (Some(script), Some(delay)) =
        (&server.models.script, Script::delay(&request.model))
    {
        scripted(&server, script, delay, request).await?
    } else {
        return Err(Fault::no_such_model(&request.model, &server.names()));
    };
    Ok(match stream {
        true => about.stream(&reply, with_usage),
        false => Json(about.whole(&reply)).into_response(),
    })
}

/// What is sent, whoever made it.
struct Reply {
    text: String,
    finish: &'static str,
    logprobs: Value,
    usage: Value,
}

async fn scripted(
    server: &Server,
    script: &Script,
    delay: Duration,
    request: Request,
) -> Result<(About, Reply), Fault> {
    if request.logprobs == Some(true) {
        let message = "a script has no probabilities; leave logprobs out";
        return Err(Fault::invalid(Some("logprobs"), message));
    }
    let conversation = conversation(request.messages);
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
    let delay = delay.saturating_add(reply.delay);
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    let count = server
        .models
        .count
        .unwrap_or(|text| text.split_whitespace().count());
    let prompt: usize = conversation.messages.iter().map(|(_, t)| count(t)).sum();
    let about = About::of(&request.model, script.fingerprint(), &conversation);
    let usage = generated::usage(prompt, count(&reply.text));
    let reply = Reply {
        text: reply.text,
        finish: reply.finish.name(),
        logprobs: Value::Null,
        usage,
    };
    Ok((about, reply))
}

async fn generated(server: &Server, request: Request) -> Result<(About, Reply), Fault> {
    let json = match request.response_format.as_ref().map(|f| f.r#type.as_str()) {
        None | Some("text") => false,
        Some("json_object") => true,
        Some(other) => {
            let message = format!("`{other}` is not served here; send `json_object` or `text`");
            return Err(Fault::invalid(Some("response_format"), message));
        }
    };
    let told = request.logprobs == Some(true);
    let options = Options {
        max_tokens: request.max_completion_tokens.or(request.max_tokens),
        stop: request.stop.map(Stop::texts).unwrap_or_default(),
        json,
        alternatives: if told {
            request.top_logprobs.unwrap_or(0)
        } else {
            0
        },
    };
    let conversation = conversation(request.messages);
    let turn = |(role, text): &(String, String)| Turn {
        role: role.clone(),
        text: text.clone(),
    };
    let turns: Vec<Turn> = conversation.messages.iter().map(turn).collect();
    let (model, reply) = server
        .generate(&request.model, move |model| model.chat(&turns, &options))
        .await?;
    let content = || json!({ "content": generated::chat_logprobs(&reply), "refusal": null });
    let about = About::of(
        &model.name,
        model.sha256.as_deref().unwrap_or_default(),
        &conversation,
    );
    let reply = Reply {
        finish: generated::finish(&reply),
        logprobs: if told { content() } else { Value::Null },
        usage: generated::usage(reply.prompt_tokens, reply.tokens.len()),
        text: reply.text,
    };
    Ok((about, reply))
}

fn conversation(messages: Vec<Message>) -> Conversation {
    let messages = messages.into_iter();
    Conversation {
        messages: messages
            .map(|message| (message.role.clone(), message.text()))
            .collect(),
    }
}

/// The same request to the same model has the same id.
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
    model: String,
    fingerprint: String,
}

impl About {
    fn of(model: &str, fingerprint: &str, conversation: &Conversation) -> Self {
        Self {
            id: format!("chatcmpl-{}", id(fingerprint, conversation)),
            model: model.to_owned(),
            fingerprint: fingerprint.chars().take(16).collect(),
        }
    }

    fn envelope(&self, object: &str) -> Value {
        json!({
            "id": self.id,
            "object": object,
            "created": 0,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
        })
    }

    fn whole(&self, reply: &Reply) -> Value {
        let mut whole = self.envelope("chat.completion");
        whole["choices"] = json!([{
            "index": 0,
            "message": { "role": "assistant", "content": reply.text, "refusal": null },
            "logprobs": reply.logprobs,
            "finish_reason": reply.finish,
        }]);
        whole["usage"] = reply.usage.clone();
        whole
    }

    fn stream(&self, reply: &Reply, with_usage: bool) -> Response {
        let chunk = |choices: Value| {
            let mut chunk = self.envelope("chat.completion.chunk");
            chunk["choices"] = choices;
            chunk
        };
        let delta = json!({ "role": "assistant", "content": reply.text });
        let logprobs = &reply.logprobs;
        let mut chunks = vec![
            chunk(json!([
                { "index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": null }
            ])),
            chunk(json!([{ "index": 0, "delta": {}, "finish_reason": reply.finish }])),
        ];
        if with_usage {
            let mut last = chunk(json!([]));
            last["usage"] = reply.usage.clone();
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
