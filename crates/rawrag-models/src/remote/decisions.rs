//! A typed decision service in Jev's form: a state, questions about it, and a probability for each.

use std::{collections::HashMap, fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    Decider, Decisions, Pending, RemoteError, YesNoQuestion,
    batches::{BatchLimits, ByteEstimate, InputLimits, TokenCounter, all},
    service::{Call, Reply, Service, Unread, canonical, code_of},
};
use crate::{
    ModelIdentity, ModelKind,
    prices::{Stage, Tokens},
};

const PATH: &str = "/v1/systemone";
const TOO_LONG: &str = "max_tokens_exceeded";
const TYPE: &str = "noul";

/// Which decision model is wanted of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DecisionSettings {
    /// The model.
    pub model: String,
    /// Items of one request.
    #[serde(default = "items")]
    pub items: usize,
    /// Expected tokens of the items of one request. The service has the last word: a request that
    /// it finds too long is halved.
    #[serde(default = "tokens")]
    pub tokens: usize,
}

fn items() -> usize {
    30
}

fn tokens() -> usize {
    32_000
}

impl DecisionSettings {
    /// A model at 30 items and 32,000 tokens a request.
    pub fn new(model: &str) -> Self {
        Self {
            model: model.into(),
            items: items(),
            tokens: tokens(),
        }
    }
}

/// A decision model of a service.
pub struct DecisionClient {
    service: Arc<Service>,
    settings: DecisionSettings,
    identity: ModelIdentity,
    address: String,
    stage: Stage,
    counter: Arc<dyn TokenCounter>,
}

impl fmt::Debug for DecisionClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "DecisionClient({} at {})",
            self.identity.name, self.address
        )
    }
}

impl DecisionClient {
    /// A model of a service, for one stage of a run.
    pub fn new(service: Arc<Service>, settings: DecisionSettings, stage: Stage) -> Self {
        Self {
            address: service.url(PATH),
            service,
            identity: ModelIdentity {
                name: settings.model.clone(),
                kind: ModelKind::Decider,
                sha256: None,
            },
            settings,
            stage,
            counter: Arc::new(ByteEstimate),
        }
    }

    /// The same with the model's own tokenizer.
    #[must_use]
    pub fn with_counter(mut self, counter: Arc<dyn TokenCounter>) -> Self {
        self.counter = counter;
        self
    }

    /// Asks about items that begin at position `first`, in halves if the service finds them too long.
    fn ask<'a>(
        &'a self,
        query: &'a str,
        first: usize,
        items: &'a [&'a str],
        question: &'a YesNoQuestion,
    ) -> Pending<'a, Decisions> {
        Box::pin(async move {
            let body = self.body(query, items, question);
            let call = Call {
                path: PATH,
                model: &self.identity.name,
                stage: self.stage,
                expected: Tokens {
                    input: self.counter.count(&body) as u64,
                    ..Tokens::default()
                },
                bodies: vec![body],
                repetition: 0,
                is_answer: is_too_long,
            };
            let count = items.len();
            let (answers, _) = self.service.call(&call, |reply| read(reply, count)).await?;
            if let Some(probabilities) = answers {
                let requests = 1;
                return Ok(Decisions {
                    probabilities,
                    requests,
                });
            }
            if count == 1 {
                return Err(RemoteError::ItemTooLong {
                    address: self.address.clone(),
                    item: first,
                });
            }
            let (left, right) = items.split_at(count / 2);
            let halves = [(first, left), (first + left.len(), right)];
            let mut asked = Vec::new();
            for (first, items) in halves {
                asked.push(self.ask(query, first, items, question));
            }
            let halves = all(asked, self.service.concurrency()).await?;
            Ok(halves.into_iter().fold(
                Decisions {
                    requests: 1,
                    ..Decisions::default()
                },
                Decisions::followed_by,
            ))
        })
    }

    fn body(&self, query: &str, items: &[&str], question: &YesNoQuestion) -> String {
        let mut state = Map::from_iter([("query".to_owned(), json!(query))]);
        let mut questions = Map::new();
        for (at, item) in items.iter().enumerate() {
            let key = key(at);
            let question = json!({
                "type": TYPE,
                "instructions": question.about(&key),
                "criteria": {"true": question.yes, "false": question.no},
            });
            state.insert(key.clone(), json!(item));
            questions.insert(key, question);
        }
        canonical(&json!({
            "model": self.identity.name,
            "state": state,
            "questions": questions,
        }))
    }
}

/// The key of an item among those of its request.
fn key(at: usize) -> String {
    format!("item_{}", at + 1)
}

impl Decider for DecisionClient {
    fn identity(&self) -> &ModelIdentity {
        &self.identity
    }

    fn address(&self) -> &str {
        &self.address
    }

    fn decide<'a>(
        &'a self,
        query: &'a str,
        items: &'a [&'a str],
        question: &'a YesNoQuestion,
    ) -> Pending<'a, Decisions> {
        Box::pin(async move {
            let limits = InputLimits {
                batch: BatchLimits {
                    texts: self.settings.items,
                    tokens: self.settings.tokens,
                    bytes: usize::MAX,
                },
                ..InputLimits::default()
            };
            let fitted = limits.fit(items, 0, &*self.counter, &self.identity.name)?;
            let mut asked = Vec::new();
            for range in limits.split(&fitted) {
                asked.push(self.ask(query, range.start, &items[range], question));
            }
            let parts = all(asked, self.service.concurrency()).await?;
            Ok(parts
                .into_iter()
                .fold(Decisions::default(), Decisions::followed_by))
        })
    }
}

fn is_too_long(reply: &Reply) -> bool {
    matches!(reply.status, 400 | 422) && code_of(&reply.text).as_deref() == Some(TOO_LONG)
}

/// The probabilities of `count` items, or `None` if the service finds them too long.
fn read(reply: &Reply, count: usize) -> Result<(Option<Vec<f64>>, Option<Tokens>), Unread> {
    #[derive(Deserialize)]
    struct Body {
        usage: Option<Usage>,
        answers: HashMap<String, Value>,
    }
    #[derive(Deserialize)]
    struct Usage {
        input_tokens: u64,
        #[serde(default)]
        output_tokens: u64,
    }
    if is_too_long(reply) {
        return Ok((None, Some(Tokens::default())));
    }
    let mut body: Body = serde_json::from_str(&reply.text)?;
    let mut probability = |at| {
        let key = key(at);
        let answer = body.answers.remove(&key);
        let answer = answer.ok_or_else(|| format!("no answer to `{key}`"))?;
        if answer["type"] != TYPE {
            return Err(format!("the answer to `{key}` is not of type {TYPE}"));
        }
        let probability = answer[TYPE].as_f64();
        let probability = probability.filter(|p| (0.0..=1.0).contains(p));
        probability.ok_or_else(|| format!("the answer to `{key}` is no probability"))
    };
    let probabilities = (0..count).map(&mut probability).collect::<Result<_, _>>();
    let probabilities = probabilities.map_err(Unread::Malformed)?;
    if let Some(key) = body.answers.keys().min() {
        return Err(Unread::Malformed(format!("`{key}` was not asked")));
    }
    let tokens = body.usage.map(|usage| Tokens {
        input: usage.input_tokens,
        output: usage.output_tokens,
        ..Tokens::default()
    });
    Ok((Some(probabilities), tokens))
}
