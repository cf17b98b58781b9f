//! What a local model wrote, in OpenAI's forms; and `/v1/completions`, which continues a prompt as it
//! stands.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Fault, Server, parse};
use crate::ModelIdentity;
use crate::generate::{GenerateError, Generated, Generator, Options};

#[derive(Deserialize)]
struct Request {
    model: String,
    prompt: Prompt,
    max_tokens: Option<usize>,
    logprobs: Option<usize>,
    stop: Option<Stop>,
    n: Option<u32>,
    #[serde(default)]
    echo: bool,
    #[serde(default)]
    stream: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Prompt {
    One(String),
    Several(Vec<String>),
}

/// One text or several at which a reply ends.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Stop {
    One(String),
    Several(Vec<String>),
}

impl Stop {
    pub(super) fn texts(self) -> Vec<String> {
        match self {
            Self::One(text) => vec![text],
            Self::Several(texts) => texts,
        }
    }
}

/// The most tokens of a completion where the request does not say, as OpenAI has it.
const UNSAID: usize = 16;

pub(super) async fn complete(
    State(server): State<Server>,
    body: Bytes,
) -> Result<Json<Value>, Fault> {
    let request: Request = parse(&body)?;
    if server.models.generator.is_none() {
        let mend = "start the server with --gguf FILE";
        return Err(Fault::not_served("model that continues a prompt", mend));
    }
    let only_false = [("echo", request.echo), ("stream", request.stream)];
    if let Some((name, _)) = only_false.into_iter().find(|(_, is_set)| *is_set) {
        return Err(Fault::invalid(
            Some(name),
            format!("{name} is not served here; send false"),
        ));
    }
    if request.n.is_some_and(|n| n != 1) {
        let message = "the same request has one reply; send n = 1";
        return Err(Fault::invalid(Some("n"), message));
    }
    let prompts = match request.prompt {
        Prompt::One(prompt) => vec![prompt],
        Prompt::Several(prompts) => prompts,
    };
    let options = Options {
        max_tokens: Some(request.max_tokens.unwrap_or(UNSAID)),
        stop: request.stop.map(Stop::texts).unwrap_or_default(),
        json: false,
        alternatives: request.logprobs.unwrap_or(0),
    };
    let told = request.logprobs.is_some();
    let (model, replies) = server
        .generate(&request.model, move |model| {
            let replies = prompts
                .iter()
                .map(|prompt| model.complete(prompt, &options));
            replies.collect::<Result<Vec<Generated>, GenerateError>>()
        })
        .await?;
    let choices: Vec<Value> = (0..)
        .zip(&replies)
        .map(|(index, reply): (usize, &Generated)| {
            json!({
                "index": index,
                "text": reply.text,
                "logprobs": if told { text_logprobs(reply) } else { Value::Null },
                "finish_reason": finish(reply),
            })
        })
        .collect();
    let prompt = replies.iter().map(|reply| reply.prompt_tokens).sum();
    let written = replies.iter().map(|reply| reply.tokens.len()).sum();
    Ok(Json(json!({
        "id": "cmpl",
        "object": "text_completion",
        "created": 0,
        "model": model.name,
        "choices": choices,
        "usage": usage(prompt, written),
    })))
}

pub(super) fn finish(reply: &Generated) -> &'static str {
    if reply.cut { "length" } else { "stop" }
}

pub(super) fn usage(prompt: usize, completion: usize) -> Value {
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    })
}

/// The tokens of a reply as the chat form tells them.
pub(super) fn chat_logprobs(reply: &Generated) -> Vec<Value> {
    let one = |bytes: &[u8], logprob: f64| json!({ "token": String::from_utf8_lossy(bytes), "logprob": logprob, "bytes": bytes });
    let token = |token: &crate::generate::Token| {
        let mut told = one(&token.bytes, token.logprob);
        let alternatives = token.alternatives.iter();
        told["top_logprobs"] = alternatives
            .map(|(bytes, logprob)| one(bytes, *logprob))
            .collect();
        told
    };
    reply.tokens.iter().map(token).collect()
}

/// The same as the older form tells them. Alternatives that are spelled alike are one, of their
/// summed probability.
fn text_logprobs(reply: &Generated) -> Value {
    let spelled = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (mut offset, mut offsets) = (0, Vec::new());
    for token in &reply.tokens {
        offsets.push(offset);
        offset += spelled(&token.bytes).chars().count();
    }
    let alternatives = |token: &crate::generate::Token| {
        let mut told: Map<String, Value> = Map::new();
        for (bytes, logprob) in &token.alternatives {
            let text = spelled(bytes);
            let earlier = told.get(&text).and_then(Value::as_f64);
            let sum = earlier.map_or(*logprob, |earlier| (earlier.exp() + logprob.exp()).ln());
            told.insert(text, json!(sum));
        }
        Value::Object(told)
    };
    json!({
        "tokens": reply.tokens.iter().map(|t| spelled(&t.bytes)).collect::<Vec<_>>(),
        "token_logprobs": reply.tokens.iter().map(|t| t.logprob).collect::<Vec<_>>(),
        "top_logprobs": reply.tokens.iter().map(alternatives).collect::<Vec<_>>(),
        "text_offset": offsets,
    })
}

impl Server {
    /// The local model of a name.
    pub(super) fn generator(&self, name: &str) -> Option<std::sync::Arc<dyn Generator>> {
        let generator = self.models.generator.clone()?;
        (generator.identity().name == name).then_some(generator)
    }

    /// What the local model of a name makes of a request, off the threads that answer others.
    pub(super) async fn generate<T: Send + 'static>(
        &self,
        name: &str,
        ask: impl FnOnce(&dyn Generator) -> Result<T, GenerateError> + Send + 'static,
    ) -> Result<(ModelIdentity, T), Fault> {
        let Some(model) = self.generator(name) else {
            return Err(Fault::no_such_model(name, &self.names()));
        };
        let identity = model.identity().clone();
        let reply = tokio::task::spawn_blocking(move || ask(&*model))
            .await
            .map_err(|error| Fault::internal(error.to_string()))?;
        let reply = reply.map_err(|error| match error {
            GenerateError::TooLong { .. } => Fault::too_long(error.to_string()),
            GenerateError::Template(_) => Fault::invalid(Some("messages"), error.to_string()),
            GenerateError::Model(_) => Fault::internal(error.to_string()),
        })?;
        Ok((identity, reply))
    }
}
