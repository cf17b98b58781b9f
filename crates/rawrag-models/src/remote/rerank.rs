//! Reranking services in Cohere's form and in that of text-embeddings-inference.

use std::{fmt, ops::Range, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    Pending, RemoteError, RemoteReranker,
    batches::{ByteEstimate, Fitted, InputLimits, Oversize, TokenCounter, all, by_index},
    service::{Call, Reply, Service, Unread, canonical},
    settings::Provider,
};
use crate::{
    ModelIdentity, ModelKind, Scores,
    prices::{Stage, Tokens},
};

const PATH: &str = "/rerank";
/// Documents that one search unit covers, where a service charges by them.
const UNIT: usize = 100;

/// Which reranker is wanted of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RerankSettings {
    /// The model.
    pub model: String,
    /// What it takes; a query's tokens count with each passage.
    #[serde(default)]
    pub inputs: InputLimits,
}

/// A reranker of a service.
pub struct RerankClient {
    service: Arc<Service>,
    settings: RerankSettings,
    identity: ModelIdentity,
    address: String,
    stage: Stage,
    counter: Arc<dyn TokenCounter>,
}

impl fmt::Debug for RerankClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "RerankClient({} at {})",
            self.identity.name, self.address
        )
    }
}

impl RerankClient {
    /// A model of a service, for one stage of a run.
    pub fn new(service: Arc<Service>, settings: RerankSettings, stage: Stage) -> Self {
        Self {
            address: service.url(PATH),
            service,
            identity: ModelIdentity {
                name: settings.model.clone(),
                kind: ModelKind::CrossEncoder,
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

    async fn batch(
        &self,
        query: &str,
        query_tokens: usize,
        fitted: &Fitted<'_>,
        range: Range<usize>,
    ) -> Result<Vec<f32>, RemoteError> {
        let passages = &fitted.texts[range.clone()];
        let count = passages.len();
        let tei = self.service.provider() == Provider::Tei;
        let body = if tei {
            let cut = self.settings.inputs.oversize == Oversize::Cut;
            json!({"query": query, "texts": passages, "raw_scores": true, "truncate": cut})
        } else {
            let model = &self.identity.name;
            json!({"model": model, "query": query, "documents": passages, "top_n": count})
        };
        let tokens: usize = fitted.tokens[range].iter().map(|n| n + query_tokens).sum();
        let call = Call {
            path: PATH,
            model: &self.identity.name,
            stage: self.stage,
            bodies: vec![canonical(&body)],
            repetition: 0,
            expected: Tokens {
                input: tokens as u64,
                searches: count.div_ceil(UNIT) as u64,
                ..Tokens::default()
            },
            is_answer: |_| false,
        };
        let read = |reply: &Reply| {
            let (scores, tokens) = if tei {
                read_tei(reply)?
            } else {
                read_cohere(reply)?
            };
            let scores = by_index(scores, count).map_err(Unread::Malformed)?;
            match scores.iter().position(|score| !score.is_finite()) {
                Some(at) => Err(Unread::Malformed(format!("score {at} is not finite"))),
                None => Ok((scores, tokens)),
            }
        };
        let (scores, _) = self.service.call(&call, read).await?;
        Ok(scores)
    }
}

impl RemoteReranker for RerankClient {
    fn identity(&self) -> &ModelIdentity {
        &self.identity
    }

    fn address(&self) -> &str {
        &self.address
    }

    fn score<'a>(&'a self, query: &'a str, passages: &'a [&'a str]) -> Pending<'a, Scores> {
        Box::pin(async move {
            let inputs = &self.settings.inputs;
            let asked = self.counter.count(query);
            let fitted = inputs.fit(passages, asked, &*self.counter, &self.identity.name)?;
            let mut batches: Vec<Pending<'_, _>> = Vec::new();
            for range in inputs.split(&fitted) {
                batches.push(Box::pin(self.batch(query, asked, &fitted, range)));
            }
            let scores = all(batches, self.service.concurrency()).await?;
            Ok(Scores {
                scores: scores.into_iter().flatten().collect(),
                truncated: fitted.cut,
            })
        })
    }
}

type Indexed = (Vec<(usize, f32)>, Option<Tokens>);

fn read_cohere(reply: &Reply) -> Result<Indexed, Unread> {
    #[derive(Deserialize)]
    struct Body {
        results: Vec<Ranked>,
        meta: Option<Meta>,
        usage: Option<Usage>,
    }
    #[derive(Deserialize)]
    struct Ranked {
        index: usize,
        relevance_score: f32,
    }
    #[derive(Deserialize)]
    struct Meta {
        billed_units: Option<Units>,
    }
    #[derive(Deserialize)]
    struct Units {
        search_units: Option<u64>,
    }
    #[derive(Deserialize)]
    struct Usage {
        total_tokens: u64,
    }
    let body: Body = serde_json::from_str(&reply.text)?;
    let units = body.meta.and_then(|meta| meta.billed_units?.search_units);
    let read = body.usage.map(|usage| usage.total_tokens);
    let tokens = (units.is_some() || read.is_some()).then(|| Tokens {
        input: read.unwrap_or(0),
        searches: units.unwrap_or(0),
        ..Tokens::default()
    });
    let results = body.results.into_iter();
    Ok((
        results.map(|r| (r.index, r.relevance_score)).collect(),
        tokens,
    ))
}

fn read_tei(reply: &Reply) -> Result<Indexed, Unread> {
    #[derive(Deserialize)]
    struct Ranked {
        index: usize,
        score: f32,
    }
    let ranked: Vec<Ranked> = serde_json::from_str(&reply.text)?;
    Ok((
        ranked.into_iter().map(|r| (r.index, r.score)).collect(),
        None,
    ))
}
