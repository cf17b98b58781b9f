//! Chat in the OpenAI dialect.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    ChatModel, Pending, RemoteError,
    batches::{ByteEstimate, TokenCounter},
    service::{
        Call, Reply, Served, Service, StatedError, Unread, canonical, code_of, stated_failure,
    },
};
use crate::{
    ModelIdentity, ModelKind,
    prices::{Stage, Tokens},
};

const PATH: &str = "/chat/completions";
/// Tokens that the chat form adds to each message, about.
const MESSAGE_OVERHEAD: usize = 4;

/// What a chat model is asked. Every field is part of the cache key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatRequest {
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// How freely the model chooses its words, from 0; `None` leaves it to the service.
    pub temperature: Option<f64>,
    /// The most tokens of the reply; a longer one is cut and says so.
    pub max_output: u32,
    /// Asks for the same reply to the same request, where the service can.
    pub seed: Option<u64>,
    /// The form of the reply.
    pub format: ReplyFormat,
    /// Which of several identical requests this is, counted from 0.
    pub repetition: u32,
}

impl ChatRequest {
    /// A request at temperature 0 for a reply in free text.
    pub fn new(messages: Vec<Message>, max_output: u32) -> Self {
        Self {
            messages,
            temperature: Some(0.0),
            max_output,
            seed: None,
            format: ReplyFormat::Text,
            repetition: 0,
        }
    }
}

/// One message of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub content: String,
}

impl Message {
    /// An instruction.
    pub fn system(content: impl Into<String>) -> Self {
        Self {
            role: Role::System,
            content: content.into(),
        }
    }

    /// What is put to the model.
    pub fn user(content: impl Into<String>) -> Self {
        Self {
            role: Role::User,
            content: content.into(),
        }
    }
}

/// Who says a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Who instructs the model.
    System,
    /// Who asks it.
    User,
    /// The model.
    Assistant,
}

/// The form of a reply. A service that refuses a form is asked again for the next looser one, in the
/// order schema, JSON, text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplyFormat {
    /// Free text.
    #[default]
    Text,
    /// A JSON object.
    Json,
    /// JSON of a schema.
    Schema {
        /// The schema's name: letters, digits, `_` and `-`.
        name: String,
        /// The JSON schema.
        schema: Value,
    },
}

impl ReplyFormat {
    /// The fields that ask for it and for each looser form.
    fn fields(&self) -> Vec<Option<Value>> {
        let object = json!({"type": "json_object"});
        match self {
            Self::Text => vec![None],
            Self::Json => vec![Some(object), None],
            Self::Schema { name, schema } => {
                let schema = json!({"name": name, "schema": schema, "strict": true});
                let schema = json!({"type": "json_schema", "json_schema": schema});
                vec![Some(schema), Some(object), None]
            }
        }
    }
}

/// What a chat model gave back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatReply {
    /// What became of the request.
    pub outcome: ChatOutcome,
    /// Why the model ended, in the service's words.
    pub finish_reason: Option<String>,
    /// The model that answered, as the service names it.
    pub model: Option<String>,
    /// How the call went, with the tokens and the whole body.
    pub served: Served,
}

/// What became of a request that a service answered. None of them is a failure of the service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "outcome", content = "text")]
pub enum ChatOutcome {
    /// A complete reply.
    Answered(String),
    /// A reply that the output allowance cut.
    Cut(String),
    /// Nothing, or white space.
    Empty,
    /// The model declined, in these words.
    Refused(String),
    /// A content filter held the request or the reply back; what came through of the reply.
    Filtered(String),
}

impl ChatOutcome {
    /// The text of a complete reply.
    pub fn answer(&self) -> Option<&str> {
        match self {
            Self::Answered(text) => Some(text),
            _ => None,
        }
    }
}

/// A chat model of a service.
pub struct ChatClient {
    service: Arc<Service>,
    identity: ModelIdentity,
    address: String,
    stage: Stage,
    counter: Arc<dyn TokenCounter>,
}

impl fmt::Debug for ChatClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChatClient({} at {})", self.identity.name, self.address)
    }
}

impl ChatClient {
    /// `model` of a service, for one stage of a run.
    pub fn new(service: Arc<Service>, model: &str, stage: Stage) -> Self {
        Self {
            address: service.url(PATH),
            service,
            identity: ModelIdentity {
                name: model.into(),
                kind: ModelKind::Chat,
                sha256: None,
            },
            stage,
            counter: Arc::new(ByteEstimate),
        }
    }

    /// The same with the model's own tokenizer for its expectations.
    #[must_use]
    pub fn with_counter(mut self, counter: Arc<dyn TokenCounter>) -> Self {
        self.counter = counter;
        self
    }

    /// What a request is expected to cost: its input, and its whole output allowance.
    pub fn expected(&self, request: &ChatRequest) -> Tokens {
        let messages = request.messages.iter();
        let input: usize = messages
            .map(|message| MESSAGE_OVERHEAD + self.counter.count(&message.content))
            .sum();
        Tokens {
            input: input as u64,
            output: request.max_output.into(),
            ..Tokens::default()
        }
    }

    fn bodies(&self, request: &ChatRequest) -> Vec<String> {
        let mut body = json!({
            "model": self.identity.name,
            "messages": request.messages,
            self.service.provider().output_limit_field(): request.max_output,
        });
        if let Some(temperature) = request.temperature {
            body["temperature"] = json!(temperature);
        }
        if let Some(seed) = request.seed {
            body["seed"] = json!(seed);
        }
        let with = |format: Option<Value>| {
            let mut body = body.clone();
            if let Some(format) = format {
                body["response_format"] = format;
            }
            canonical(&body)
        };
        request.format.fields().into_iter().map(with).collect()
    }
}

impl ChatModel for ChatClient {
    fn identity(&self) -> &ModelIdentity {
        &self.identity
    }

    fn address(&self) -> &str {
        &self.address
    }

    fn chat<'a>(&'a self, request: &'a ChatRequest) -> Pending<'a, ChatReply> {
        Box::pin(async move {
            let call = Call {
                path: PATH,
                model: &self.identity.name,
                stage: self.stage,
                bodies: self.bodies(request),
                repetition: request.repetition,
                expected: self.expected(request),
                is_answer: is_filtered,
            };
            let (read, served) = self.service.call(&call, read).await?;
            Ok(ChatReply {
                outcome: read.outcome,
                finish_reason: read.finish_reason,
                model: read.model,
                served,
            })
        })
    }
}

/// Azure answers a prompt that its filter holds back with a status of failure.
fn is_filtered(reply: &Reply) -> bool {
    reply.status == 400 && code_of(&reply.text).as_deref() == Some("content_filter")
}

struct Read {
    outcome: ChatOutcome,
    finish_reason: Option<String>,
    model: Option<String>,
}

#[derive(Deserialize)]
struct Completion {
    model: Option<String>,
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Usage>,
    error: Option<StatedError>,
}

#[derive(Deserialize)]
struct Choice {
    finish_reason: Option<String>,
    message: ReplyMessage,
    error: Option<StatedError>,
}

#[derive(Deserialize)]
struct ReplyMessage {
    content: Option<String>,
    refusal: Option<String>,
}

/// Usage in the OpenAI dialect.
#[derive(Deserialize)]
pub(super) struct Usage {
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptTokens>,
}

#[derive(Deserialize)]
struct PromptTokens {
    cached_tokens: Option<u64>,
}

impl From<Usage> for Tokens {
    fn from(usage: Usage) -> Self {
        let details = usage.prompt_tokens_details;
        Self {
            input: usage.prompt_tokens,
            cached_input: details.and_then(|d| d.cached_tokens).unwrap_or(0),
            output: usage.completion_tokens.unwrap_or(0),
            searches: 0,
        }
    }
}

fn read(reply: &Reply) -> Result<(Read, Option<Tokens>), Unread> {
    if is_filtered(reply) {
        let read = Read {
            outcome: ChatOutcome::Filtered(String::new()),
            finish_reason: Some("content_filter".into()),
            model: None,
        };
        return Ok((read, Some(Tokens::default())));
    }
    let completion: Completion = serde_json::from_str(&reply.text)?;
    stated_failure(completion.error.as_ref())?;
    let tokens = completion.usage.map(Tokens::from);
    let mut choices = completion.choices.into_iter();
    let (Some(choice), None) = (choices.next(), choices.next()) else {
        let reason = "not exactly one choice";
        return Err(Unread::Malformed(reason.into()));
    };
    stated_failure(choice.error.as_ref())?;
    let read = Read {
        outcome: outcome(choice.finish_reason.as_deref(), choice.message),
        finish_reason: choice.finish_reason,
        model: completion.model,
    };
    Ok((read, tokens))
}

fn outcome(finish: Option<&str>, message: ReplyMessage) -> ChatOutcome {
    if let Some(refusal) = message.refusal.filter(|text| !text.trim().is_empty()) {
        return ChatOutcome::Refused(refusal);
    }
    let text = message.content.unwrap_or_default();
    match finish {
        Some("content_filter") => ChatOutcome::Filtered(text),
        // An allowance that was used up without a word, as by hidden reasoning, is a cut too.
        Some("length") => ChatOutcome::Cut(text),
        _ if text.trim().is_empty() => ChatOutcome::Empty,
        _ => ChatOutcome::Answered(text),
    }
}

/// The text of an answer, or the error that a use which needs one gives for any other outcome.
pub(super) fn answer_of(model: &str, outcome: ChatOutcome) -> Result<String, RemoteError> {
    let (reason, reply) = match outcome {
        ChatOutcome::Answered(text) => return Ok(text),
        ChatOutcome::Cut(text) => ("the reply was cut by the output allowance", text),
        ChatOutcome::Empty => ("the reply is empty", String::new()),
        ChatOutcome::Refused(text) => ("the model declined", text),
        ChatOutcome::Filtered(text) => ("a content filter held the reply back", text),
    };
    Err(RemoteError::Unparsed {
        model: model.into(),
        reason: reason.into(),
        reply,
    })
}
