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

#[cfg(test)]
mod tests {
    use std::{
        fs,
        io::{BufRead, BufReader, Write},
        net::TcpListener,
        path::Path,
        thread,
    };

    use sha2::{Digest, Sha256};

    use super::fetch;
    use crate::store::{MS_MARCO_MINILM, StoreError, WEIGHTS, hex};

    const BODY: &[u8] = b"not really weights";

    /// A hub of one host: a weights file is announced with `sha256` and redirected, as large files are.
    fn serve(sha256: String) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap())
                    .lines()
                    .map_while(Result::ok);
                let request = lines.next().unwrap_or_default();
                lines.take_while(|line| !line.is_empty()).for_each(drop);
                let answer = if request.contains("/storage/") || !request.contains(WEIGHTS) {
                    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n", BODY.len())
                } else {
                    format!(
                        "HTTP/1.1 302 Found\r\nLocation: /storage/w\r\nX-Linked-ETag: \"{sha256}\"\r\nContent-Length: 0\r\n"
                    )
                };
                let body = if answer.contains("200 OK") { BODY } else { b"" };
                stream
                    .write_all(format!("{answer}Connection: close\r\n\r\n").as_bytes())
                    .unwrap();
                stream.write_all(body).unwrap();
            }
        });
        address
    }

    fn fetch_from(address: &str, to: &Path) -> Result<(), StoreError> {
        fetch(address, &MS_MARCO_MINILM, to, &mut |_| {})
    }

    #[test]
    fn files_are_fetched_and_checked_with_the_announced_hash() {
        let to = tempfile::tempdir().unwrap();
        fetch_from(&serve(hex(Sha256::digest(BODY).as_slice())), to.path()).unwrap();
        for file in &MS_MARCO_MINILM.files {
            assert_eq!(
                fs::read(to.path().join(file.name)).unwrap(),
                BODY,
                "{}",
                file.name
            );
        }
    }

    #[test]
    fn weights_that_differ_from_the_announced_hash_are_refused() {
        let to = tempfile::tempdir().unwrap();
        let error = fetch_from(&serve("0".repeat(64)), to.path()).unwrap_err();
        assert!(
            matches!(error, StoreError::Mismatch { file: WEIGHTS, .. }),
            "{error}"
        );
        let error = fetch_from(&serve("no hash".into()), to.path()).unwrap_err();
        assert!(error.to_string().contains("states no SHA-256"), "{error}");
    }
}
