//! Embeddings in the OpenAI dialect and in that of text-embeddings-inference.

use std::{fmt, ops::Range, sync::Arc};

use base64::Engine;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, SeqAccess, Visitor},
};
use serde_json::json;

use super::{
    Pending, RemoteEmbedder, RemoteError,
    batches::{ByteEstimate, Fitted, InputLimits, Oversize, TokenCounter, all, by_index},
    chat::Usage,
    service::{Call, Reply, Service, StatedError, Unread, canonical, stated_failure},
    settings::Provider,
};
use crate::{
    Embeddings, ModelIdentity, ModelKind,
    prices::{Stage, Tokens},
};

/// Which embeddings are wanted of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct EmbeddingSettings {
    /// The model.
    pub model: String,
    /// Components of a vector; a reply with another number is an error.
    pub dimension: usize,
    /// Whether the service is asked to shorten its vectors to that dimension.
    #[serde(default)]
    pub shorten: bool,
    /// What the model takes.
    #[serde(default)]
    pub inputs: InputLimits,
}

/// An embedding model of a service.
pub struct EmbeddingClient {
    service: Arc<Service>,
    settings: EmbeddingSettings,
    identity: ModelIdentity,
    address: String,
    stage: Stage,
    counter: Arc<dyn TokenCounter>,
}

impl fmt::Debug for EmbeddingClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "EmbeddingClient({} at {})",
            self.identity.name, self.address
        )
    }
}

impl EmbeddingClient {
    /// A model of a service, for one stage of a run.
    pub fn new(service: Arc<Service>, settings: EmbeddingSettings, stage: Stage) -> Self {
        Self {
            address: service.url(path(service.provider())),
            service,
            identity: ModelIdentity {
                name: settings.model.clone(),
                kind: ModelKind::Embedder,
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
        fitted: &Fitted<'_>,
        range: Range<usize>,
    ) -> Result<Vec<Vec<f32>>, RemoteError> {
        // Services refuse a text of no characters.
        let texts: Vec<&str> = fitted.texts[range.clone()]
            .iter()
            .map(|text| if text.is_empty() { " " } else { text })
            .collect();
        let count = texts.len();
        let dimension = self.settings.dimension;
        let call = Call {
            path: path(self.service.provider()),
            model: &self.identity.name,
            stage: self.stage,
            bodies: vec![self.body(&texts)],
            repetition: 0,
            expected: Tokens {
                input: fitted.tokens[range].iter().sum::<usize>() as u64,
                ..Tokens::default()
            },
            is_answer: |_| false,
        };
        let tei = self.service.provider() == Provider::Tei;
        let read = |reply: &Reply| {
            let (rows, tokens) = if tei {
                read_tei(reply)?
            } else {
                read_openai(reply)?
            };
            let rows = by_index(rows, count).and_then(|rows| unit_rows(rows, dimension));
            Ok((rows.map_err(Unread::Malformed)?, tokens))
        };
        let (rows, _) = self.service.call(&call, read).await?;
        Ok(rows)
    }

    fn body(&self, texts: &[&str]) -> String {
        let provider = self.service.provider();
        if provider == Provider::Tei {
            let cut = self.settings.inputs.oversize == Oversize::Cut;
            return canonical(&json!({"inputs": texts, "truncate": cut, "normalize": true}));
        }
        let encoding = if provider.sends_base64() {
            "base64"
        } else {
            "float"
        };
        let mut body = json!({
            "model": self.identity.name,
            "input": texts,
            "encoding_format": encoding,
        });
        if self.settings.shorten {
            body["dimensions"] = json!(self.settings.dimension);
        }
        canonical(&body)
    }
}

fn path(provider: Provider) -> &'static str {
    match provider {
        Provider::Tei => "/embed",
        _ => "/embeddings",
    }
}

impl RemoteEmbedder for EmbeddingClient {
    fn identity(&self) -> &ModelIdentity {
        &self.identity
    }

    fn address(&self) -> &str {
        &self.address
    }

    fn dimension(&self) -> usize {
        self.settings.dimension
    }

    fn count_tokens(&self, text: &str) -> usize {
        self.counter.count(text)
    }

    fn embed<'a>(&'a self, texts: &'a [&'a str]) -> Pending<'a, Embeddings> {
        Box::pin(async move {
            let inputs = &self.settings.inputs;
            let fitted = inputs.fit(texts, 0, &*self.counter, &self.identity.name)?;
            let mut batches: Vec<Pending<'_, _>> = Vec::new();
            for range in inputs.split(&fitted) {
                batches.push(Box::pin(self.batch(&fitted, range)));
            }
            let rows = all(batches, self.service.concurrency()).await?;
            let rows: Vec<Vec<f32>> = rows.into_iter().flatten().collect();
            Ok(Embeddings {
                vectors: rows.concat(),
                dimension: self.settings.dimension,
                truncated: fitted.cut,
            })
        })
    }
}

type Rows = (Vec<(usize, Vec<f32>)>, Option<Tokens>);

fn read_openai(reply: &Reply) -> Result<Rows, Unread> {
    #[derive(Deserialize)]
    struct Body {
        #[serde(default)]
        data: Vec<Row>,
        usage: Option<Usage>,
        error: Option<StatedError>,
    }
    #[derive(Deserialize)]
    struct Row {
        index: usize,
        embedding: Vector,
    }
    let body: Body = serde_json::from_str(&reply.text)?;
    stated_failure(body.error.as_ref())?;
    let rows = body
        .data
        .into_iter()
        .map(|row| (row.index, row.embedding.0));
    Ok((rows.collect(), body.usage.map(Tokens::from)))
}

fn read_tei(reply: &Reply) -> Result<Rows, Unread> {
    let rows: Vec<Vector> = serde_json::from_str(&reply.text)?;
    let rows = rows.into_iter().map(|row| row.0).enumerate();
    Ok((rows.collect(), None))
}

/// A vector as numbers, or as the base64 of little-endian single-precision numbers.
struct Vector(Vec<f32>);

impl<'de> Deserialize<'de> for Vector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl<'de> Visitor<'de> for Form {
            type Value = Vector;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of numbers or its base64")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Vector, E> {
                let bytes = base64::prelude::BASE64_STANDARD
                    .decode(text)
                    .map_err(E::custom)?;
                let (numbers, rest) = bytes.as_chunks::<4>();
                if !rest.is_empty() {
                    return Err(E::custom("base64 of a broken number"));
                }
                let number = |bytes: &[u8; 4]| f32::from_le_bytes(*bytes);
                Ok(Vector(numbers.iter().map(number).collect()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vector, A::Error> {
                let mut numbers = Vec::with_capacity(seq.size_hint().unwrap_or(0));
                while let Some(number) = seq.next_element()? {
                    numbers.push(number);
                }
                Ok(Vector(numbers))
            }
        }
        deserializer.deserialize_any(Form)
    }
}

/// Checks dimension and finiteness, and brings every row to length 1.
fn unit_rows(mut rows: Vec<Vec<f32>>, dimension: usize) -> Result<Vec<Vec<f32>>, String> {
    for (at, row) in rows.iter_mut().enumerate() {
        if row.len() != dimension {
            let found = row.len();
            return Err(format!(
                "vector {at} has {found} components, not {dimension}"
            ));
        }
        let length = row
            .iter()
            .map(|x| f64::from(*x).powi(2))
            .sum::<f64>()
            .sqrt();
        if !(length.is_finite() && length > 0.0) {
            return Err(format!("vector {at} has no finite direction"));
        }
        row.iter_mut()
            .for_each(|x| *x = (f64::from(*x) / length) as f32);
    }
    Ok(rows)
}
