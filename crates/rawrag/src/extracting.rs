//! A chat model behind a service as the extractor of the systems that manage memory.

use std::sync::Arc;

use rawrag_baselines::managed::{Extractor, Managed, Management, Reply, Sizes};
use rawrag_models::prices::Stage;
use rawrag_models::remote::{
    ChatClient, ChatModel, ChatOutcome, Limits, Provider, RemoteError, ReplyFormat, Service,
    Session, Settings,
};
use rawrag_prompts::{Prompt, PromptSet};
use rawrag_retrieval::Models;
use serde_json::{Value, json};

use crate::experiment::Memory;
use crate::memory::Ready;
use crate::pipeline::PipelineError;
use crate::services::request;

/// The most tokens of an extractor's reply.
const LONGEST_REPLY: u32 = 2_048;

/// Extraction by one model of one service.
struct Chat {
    client: ChatClient,
    runtime: tokio::runtime::Runtime,
}

impl Extractor for Chat {
    fn reply(&self, prompt: &Prompt, attempt: u32) -> Result<Reply, String> {
        let mut request = request(prompt.clone(), 0.0, LONGEST_REPLY);
        request.repetition = attempt;
        request.format = ReplyFormat::Json;
        let reply = self.runtime.block_on(self.client.chat(&request));
        let reply = reply.map_err(|error| error.to_string())?;
        let tokens = reply.served.tokens;
        let text = match reply.outcome {
            ChatOutcome::Answered(text) => text,
            ChatOutcome::Empty => String::new(),
            ChatOutcome::Cut(_) => return Err("a reply that was cut off".to_owned()),
            ChatOutcome::Refused(_) | ChatOutcome::Filtered(_) => {
                return Err("a reply that was refused".to_owned());
            }
        };
        Ok(Reply {
            text,
            input_tokens: tokens.as_ref().map_or(0, |tokens| tokens.input),
            output_tokens: tokens.as_ref().map_or(0, |tokens| tokens.output),
        })
    }
}

impl Ready {
    /// Raw-RAG with memory management by the chat model that `memory` names, with the built-in
    /// prompts.
    ///
    /// # Errors
    /// When there is no model, its service cannot be reached, or a setting cannot be used.
    pub fn managed(
        management: Management,
        memory: &Memory,
        models: Models,
    ) -> Result<Self, PipelineError> {
        let at = memory.models.as_ref().ok_or_else(|| {
            let problem = "a chat model extracts: name its service in [memory.models]";
            PipelineError::SystemSettings(problem.to_owned())
        })?;
        let settings = Value::Object(memory.settings.clone());
        let sizes: Sizes = serde_json::from_value(settings)
            .map_err(|error| PipelineError::SystemSettings(error.to_string()))?;
        let service = Settings {
            address: Some(at.address.clone()),
            key_env: std::env::var_os("RAWRAG_API_KEY").map(|_| "RAWRAG_API_KEY".to_owned()),
            limits: Limits {
                concurrency: sizes.concurrency.unwrap_or(80),
                ..Limits::default()
            },
            ..Settings::new(Provider::Compatible)
        };
        let endpoint = service.resolve(&|name| std::env::var(name).ok())?;
        let service = Service::connect(endpoint, &Session::default())?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(|error| RemoteError::Runtime(error.to_string()))?;
        let extractor = Arc::new(Chat {
            client: ChatClient::new(service, &at.chat, Stage::Write),
            runtime,
        });
        let used = Self::models_of(memory, &models);
        let system = Managed::new(management, sizes, models, extractor, PromptSet::builtin())?;
        Ok(Self {
            system: Box::new(system),
            settings: json!(sizes),
            models: used,
        })
    }
}
