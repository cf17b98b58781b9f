//! Fetching from the model hub.

use std::{path::Path, time::Duration};

use ureq::Agent;

use super::{KnownModel, Progress, StoreError, WEIGHTS, write_checked};

/// The hub's own address.
pub(super) const ADDRESS: &str = "https://huggingface.co";

/// Fetches every file of `model` at its revision from the hub at `address` into `to`.
pub(super) fn fetch(
    address: &str,
    model: &'static KnownModel,
    to: &Path,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(), StoreError> {
    let agent: Agent = Agent::config_builder()
        .timeout_connect(Some(Duration::from_secs(20)))
        .timeout_recv_response(Some(Duration::from_secs(60)))
        .user_agent(concat!("rawrag/", env!("CARGO_PKG_VERSION")))
        .build()
        .into();
    for file in &model.files {
        let url = format!(
            "{address}/{}/resolve/{}/{}",
            model.name, model.revision, file.name
        );
        let failed = |e: ureq::Error| StoreError::Hub {
            url: url.clone(),
            reason: e.to_string(),
        };
        let announced = match file.sha256 {
            None if file.name == WEIGHTS => Some(announced_sha256(&agent, &url)?),
            _ => None,
        };
        let expected = file.sha256.or(announced.as_deref());
        let mut response = agent.get(&url).call().map_err(failed)?;
        let total = response.body().content_length();
        write_checked(
            model,
            file,
            expected,
            &mut response.body_mut().as_reader(),
            total,
            to,
            progress,
        )?;
    }
    Ok(())
}

/// The SHA-256 that the hub states for a large file: the `X-Linked-ETag` of the answer that redirects
/// to the file's storage.
fn announced_sha256(agent: &Agent, url: &str) -> Result<String, StoreError> {
    let failed = |reason: String| StoreError::Hub {
        url: url.into(),
        reason,
    };
    let request = agent
        .head(url)
        .config()
        .max_redirects(0)
        .max_redirects_will_error(false)
        .build();
    let response = request.call().map_err(|e| failed(e.to_string()))?;
    let tag = response
        .headers()
        .get("x-linked-etag")
        .and_then(|tag| tag.to_str().ok());
    let sha256 = tag.map(|tag| tag.trim_matches('"').to_ascii_lowercase());
    sha256
        .filter(|sha256| sha256.len() == 64 && sha256.bytes().all(|b| b.is_ascii_hexdigit()))
        .ok_or_else(|| failed("the hub states no SHA-256 for the file".into()))
}
