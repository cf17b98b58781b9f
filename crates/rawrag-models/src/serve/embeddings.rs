use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use base64::Engine as _;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Fault, Server, parse};

#[derive(Deserialize)]
struct Request {
    model: String,
    input: Input,
    encoding_format: Option<String>,
    dimensions: Option<usize>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Input {
    One(String),
    Many(Vec<String>),
    Other(Value),
}

/// OpenAI's limit, which clients count on.
const INPUTS: usize = 2048;

pub(super) async fn answer(
    State(server): State<Server>,
    body: Bytes,
) -> Result<Json<Value>, Fault> {
    let request: Request = parse(&body)?;
    let (Some(embedder), Some(queue)) = (&server.models.embedder, &server.queue) else {
        let mend = "start the server with weights that are here";
        return Err(Fault::not_served("embedder", mend));
    };
    let name = &embedder.identity().name;
    if request.model != *name && !server.models.aliases.contains(&request.model) {
        return Err(Fault::no_such_model(&request.model, &server.names()));
    }
    let dimension = embedder.dimension();
    if request.dimensions.is_some_and(|wanted| wanted != dimension) {
        let message = format!("{name} has {dimension} dimensions and cannot be shortened");
        return Err(Fault::invalid(Some("dimensions"), message));
    }
    let base64 = match request.encoding_format.as_deref() {
        None | Some("float") => false,
        Some("base64") => true,
        Some(other) => {
            let message = format!("encoding_format is float or base64, not {other}");
            return Err(Fault::invalid(Some("encoding_format"), message));
        }
    };
    let texts = match request.input {
        Input::One(text) => vec![text],
        Input::Many(texts) => texts,
        Input::Other(Value::Array(_)) => {
            let message = "input holds token ids, which are of another model's vocabulary; send \
                           text (for LangChain: check_embedding_ctx_length=False)";
            return Err(Fault::invalid(Some("input"), message));
        }
        Input::Other(_) => {
            let message = "input is a text or a list of texts";
            return Err(Fault::invalid(Some("input"), message));
        }
    };
    if texts.is_empty() || texts.len() > INPUTS {
        let message = format!("input has {} texts; send 1 to {INPUTS}", texts.len());
        return Err(Fault::invalid(Some("input"), message));
    }
    let embedded = queue.embed(texts).await.map_err(Fault::internal)?;
    let data: Vec<Value> = embedded
        .vectors
        .chunks_exact(dimension)
        .enumerate()
        .map(|(index, row)| {
            let embedding = if base64 {
                let bytes: Vec<u8> = row.iter().flat_map(|x| x.to_le_bytes()).collect();
                json!(base64::engine::general_purpose::STANDARD.encode(bytes))
            } else {
                json!(row)
            };
            json!({ "object": "embedding", "index": index, "embedding": embedding })
        })
        .collect();
    let tokens = embedded.tokens;
    Ok(Json(json!({
        "object": "list",
        "data": data,
        "model": request.model,
        "usage": { "prompt_tokens": tokens, "total_tokens": tokens },
    })))
}
