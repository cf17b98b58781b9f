use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// Why a request is not answered, in OpenAI's form.
#[derive(Debug)]
pub(super) struct Fault {
    status: StatusCode,
    kind: &'static str,
    code: Option<&'static str>,
    param: Option<&'static str>,
    message: String,
}

impl Fault {
    /// The caller's mistake in one parameter, or in the whole.
    pub(super) fn invalid(param: Option<&'static str>, message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            kind: "invalid_request_error",
            code: None,
            param,
            message: message.into(),
        }
    }

    pub(super) fn no_such_model(name: &str, served: &[String]) -> Self {
        let message = format!(
            "the model `{name}` is not served here; served are {}",
            served.join(", ")
        );
        Self {
            status: StatusCode::NOT_FOUND,
            code: Some("model_not_found"),
            ..Self::invalid(Some("model"), message)
        }
    }

    pub(super) fn not_served(what: &str, mend: &str) -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            ..Self::invalid(None, format!("no {what} is served here; {mend}"))
        }
    }

    pub(super) fn no_such_path() -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            ..Self::invalid(
                None,
                "served are POST /v1/embeddings, /v1/rerank, /v1/chat/completions, /v1/completions and GET \
                 /v1/models",
            )
        }
    }

    /// The prompt does not fit into the model's context.
    pub(super) fn too_long(message: impl Into<String>) -> Self {
        Self {
            code: Some("context_length_exceeded"),
            ..Self::invalid(Some("messages"), message)
        }
    }

    /// No rule of the script fits.
    pub(super) fn unscripted(message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::UNPROCESSABLE_ENTITY,
            code: Some("no_rule_fits"),
            ..Self::invalid(Some("messages"), message)
        }
    }

    /// The model's own failure.
    pub(super) fn internal(message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            kind: "server_error",
            ..Self::invalid(None, message)
        }
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let Self {
            status,
            kind,
            code,
            param,
            message,
        } = self;
        let error = json!({ "message": message, "type": kind, "param": param, "code": code });
        (status, Json(json!({ "error": error }))).into_response()
    }
}
