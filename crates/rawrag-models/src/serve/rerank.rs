use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Fault, Server, parse};

#[derive(Deserialize)]
struct Request {
    model: Option<String>,
    query: String,
    documents: Vec<Document>,
    top_n: Option<usize>,
    #[serde(default)]
    return_documents: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Document {
    Text(String),
    Object { text: String },
}

impl Document {
    fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Object { text } => text,
        }
    }
}

pub(super) async fn answer(
    State(server): State<Server>,
    body: Bytes,
) -> Result<Json<Value>, Fault> {
    let request: Request = parse(&body)?;
    let Some(reranker) = server.models.reranker.clone() else {
        let mend = "start the server with --reranker";
        return Err(Fault::not_served("reranker", mend));
    };
    let name = reranker.identity().name.clone();
    if let Some(wanted) = request.model.filter(|wanted| *wanted != name) {
        return Err(Fault::no_such_model(&wanted, &server.names()));
    }
    if request.top_n == Some(0) {
        return Err(Fault::invalid(Some("top_n"), "top_n is at least 1"));
    }
    let (query, documents) = (request.query, request.documents);
    let scored = tokio::task::spawn_blocking(move || {
        let passages: Vec<&str> = documents.iter().map(Document::text).collect();
        let scores = reranker
            .score(&query, &passages)
            .map(|scores| scores.scores);
        (scores, documents)
    });
    let (scores, documents) = scored
        .await
        .map_err(|error| Fault::internal(error.to_string()))?;
    let scores = scores.map_err(|error| Fault::internal(error.to_string()))?;
    let mut order: Vec<(usize, f32)> = scores.into_iter().enumerate().collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let results: Vec<Value> = order
        .into_iter()
        .take(request.top_n.unwrap_or(usize::MAX))
        .map(|(index, score)| {
            let mut result = json!({ "index": index, "relevance_score": logistic(score) });
            if request.return_documents
                && let Some(document) = documents.get(index)
            {
                result["document"] = json!({ "text": document.text() });
            }
            result
        })
        .collect();
    Ok(Json(json!({ "model": name, "results": results })))
}

/// Cohere's scores lie between 0 and 1; the order is the cross-encoder's own.
fn logistic(score: f32) -> f64 {
    1.0 / (1.0 + (-f64::from(score)).exp())
}
