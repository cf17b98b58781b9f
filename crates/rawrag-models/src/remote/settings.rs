//! Where a service is, with which key, and how hard it may be driven.

use std::{fmt, fs, path::PathBuf, time::Duration};

use reqwest::Url;
use serde::{Deserialize, Serialize};

use super::RemoteError;

/// The kind of a service: its usual address, the name of its key, and its dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provider {
    /// OpenAI.
    Openai,
    /// Azure OpenAI. The address is a deployment's, with its `api-version` as query, or that of the
    /// resource, whose `/openai/v1` is then used.
    Azure,
    /// OpenRouter.
    Openrouter,
    /// A vLLM server.
    Vllm,
    /// An Ollama server.
    Ollama,
    /// A llama.cpp server.
    LlamaCpp,
    /// A text-embeddings-inference server.
    Tei,
    /// Cohere.
    Cohere,
    /// Jina.
    Jina,
    /// A typed decision service; the address ends in `/v1/systemone`.
    Systemone,
    /// Any server of the OpenAI dialect.
    Compatible,
}

impl Provider {
    /// The address that is used where none is set. Local servers have the one they listen on
    /// unless told otherwise.
    pub fn default_address(self) -> Option<&'static str> {
        match self {
            Self::Openai => Some("https://api.openai.com/v1"),
            Self::Openrouter => Some("https://openrouter.ai/api/v1"),
            Self::Vllm => Some("http://127.0.0.1:8000/v1"),
            Self::Ollama => Some("http://127.0.0.1:11434/v1"),
            Self::LlamaCpp => Some("http://127.0.0.1:8080/v1"),
            Self::Cohere => Some("https://api.cohere.com/v2"),
            Self::Jina => Some("https://api.jina.ai/v1"),
            Self::Azure | Self::Tei | Self::Systemone | Self::Compatible => None,
        }
    }

    /// The environment variable that may hold the address.
    pub fn address_variable(self) -> Option<&'static str> {
        match self {
            Self::Openai => Some("OPENAI_BASE_URL"),
            Self::Azure => Some("AZURE_OPENAI_ENDPOINT"),
            Self::Systemone => Some("SYSTEMONE_BASE_URL"),
            _ => None,
        }
    }

    /// The environment variable that usually holds the key.
    pub fn key_variable(self) -> Option<&'static str> {
        match self {
            Self::Openai => Some("OPENAI_API_KEY"),
            Self::Azure => Some("AZURE_OPENAI_API_KEY"),
            Self::Openrouter => Some("OPENROUTER_API_KEY"),
            Self::Vllm => Some("VLLM_API_KEY"),
            Self::Cohere => Some("CO_API_KEY"),
            Self::Jina => Some("JINA_API_KEY"),
            Self::Systemone => Some("SYSTEMONE_API_KEY"),
            Self::Ollama | Self::LlamaCpp | Self::Tei | Self::Compatible => None,
        }
    }

    fn needs_key(self) -> bool {
        !matches!(
            self,
            Self::Vllm | Self::Ollama | Self::LlamaCpp | Self::Tei | Self::Compatible
        )
    }

    pub(super) fn key_header(self) -> &'static str {
        match self {
            Self::Azure => "api-key",
            _ => "authorization",
        }
    }

    /// What the service calls the output allowance of a chat.
    pub(super) fn output_limit_field(self) -> &'static str {
        match self {
            Self::Openai | Self::Azure => "max_completion_tokens",
            _ => "max_tokens",
        }
    }

    /// Whether embeddings may be asked for as base64, which is a third of the bytes.
    pub(super) fn sends_base64(self) -> bool {
        matches!(
            self,
            Self::Openai | Self::Azure | Self::Vllm | Self::LlamaCpp
        )
    }
}

/// A service as an experiment's file names it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Its kind.
    pub provider: Provider,
    /// Its address. Beats the environment, which beats the provider's usual address.
    pub address: Option<String>,
    /// The environment variable that holds the key.
    pub key_env: Option<String>,
    /// The file that holds the key and nothing else.
    pub key_file: Option<PathBuf>,
    /// A proxy to go through. The environment is not asked for one.
    pub proxy: Option<String>,
    /// How hard it may be driven.
    #[serde(default)]
    pub limits: Limits,
}

impl Settings {
    /// A service with its usual address, key variable and limits.
    pub fn new(provider: Provider) -> Self {
        Self {
            provider,
            address: None,
            key_env: None,
            key_file: None,
            proxy: None,
            limits: Limits::default(),
        }
    }

    /// The same at another address.
    #[must_use]
    pub fn at(mut self, address: impl Into<String>) -> Self {
        self.address = Some(address.into());
        self
    }

    /// Settles address and key. `environment` gives the value of a variable, as
    /// `|name| std::env::var(name).ok()` does.
    ///
    /// The provider's own key variable is read only for an address that belongs to the provider:
    /// its usual one, one that came from the environment too, or any where the provider has no
    /// usual one. For an address of one's own, name `key_env` or `key_file`, so that a key never
    /// goes where it was not meant to.
    ///
    /// # Errors
    /// [`RemoteError::Setting`] when a setting is missing or makes no sense.
    pub fn resolve(
        &self,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Endpoint, RemoteError> {
        self.limits.check()?;
        let provider = self.provider;
        let set = |name: &str| environment(name).filter(|value| !value.trim().is_empty());
        let from_environment = || provider.address_variable().and_then(set);
        let chosen = self.address.clone();
        let usual = chosen.is_none() || provider.default_address().is_none();
        let address = chosen
            .or_else(from_environment)
            .or_else(|| provider.default_address().map(str::to_owned))
            .ok_or_else(|| setting("address", "is missing; this provider has no usual one"))?;
        let mut address = Address::parse(&address)?;
        if provider == Provider::Azure && address.0.path() == "/" {
            address.0.set_path("/openai/v1");
        }
        let variable = provider.key_variable().filter(|_| usual);
        let (key, source) = match (&self.key_env, &self.key_file, variable) {
            (Some(_), Some(_), _) => {
                return Err(setting("key-env", "and `key-file` exclude each other"));
            }
            (Some(name), None, _) => {
                let key = set(name).ok_or_else(|| {
                    setting("key-env", &format!("names {name}, which is not set"))
                })?;
                (Some(Secret::new(&key)?), format!("variable {name}"))
            }
            (None, Some(path), _) => {
                let key = fs::read_to_string(path).map_err(|error| {
                    setting("key-file", &format!("{}: {error}", path.display()))
                })?;
                (Some(Secret::new(&key)?), format!("file {}", path.display()))
            }
            (None, None, Some(name)) => match set(name) {
                Some(key) => (Some(Secret::new(&key)?), format!("variable {name}")),
                None if provider.needs_key() => {
                    let reason = format!("is missing: set {name}, or name `key-env` or `key-file`");
                    return Err(setting("key", &reason));
                }
                None => (None, "none".into()),
            },
            (None, None, None) => (None, "none".into()),
        };
        Ok(Endpoint {
            provider,
            address,
            key,
            key_source: source,
            proxy: self.proxy.clone(),
            limits: self.limits.clone(),
        })
    }
}

fn setting(field: &'static str, reason: &str) -> RemoteError {
    RemoteError::Setting {
        field,
        reason: reason.into(),
    }
}

/// How hard a service may be driven, and when it is given up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Limits {
    /// Calls at the same time, at least 1.
    pub concurrency: usize,
    /// Calls a minute; `None` for no limit.
    pub requests_per_minute: Option<u32>,
    /// Expected tokens a minute, input and output; `None` for no limit.
    pub tokens_per_minute: Option<u64>,
    /// Attempts of one call, at least 1.
    pub attempts: u32,
    /// Seconds to connect.
    pub connect_seconds: f64,
    /// Seconds of one attempt, to the last byte.
    pub attempt_seconds: f64,
    /// Seconds of one call, waiting and all attempts together.
    pub call_seconds: f64,
    /// The longest first pause after a failure, in seconds; each further one may be twice as long.
    pub pause_seconds: f64,
    /// The longest pause, in seconds.
    pub longest_pause_seconds: f64,
    /// Calls that fail in a row before the service counts as down; 0 for never.
    pub failures_in_a_row: u32,
    /// The most bytes of a reply.
    pub reply_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            concurrency: 8,
            requests_per_minute: None,
            tokens_per_minute: None,
            attempts: 6,
            connect_seconds: 10.0,
            attempt_seconds: 120.0,
            call_seconds: 900.0,
            pause_seconds: 1.0,
            longest_pause_seconds: 60.0,
            failures_in_a_row: 10,
            reply_bytes: 64 << 20,
        }
    }
}

impl Limits {
    fn check(&self) -> Result<(), RemoteError> {
        let at_least_1 = [
            ("concurrency", self.concurrency as u64),
            ("attempts", self.attempts.into()),
            ("reply-bytes", self.reply_bytes as u64),
            (
                "requests-per-minute",
                self.requests_per_minute.map_or(1, u64::from),
            ),
            ("tokens-per-minute", self.tokens_per_minute.unwrap_or(1)),
        ];
        for (field, value) in at_least_1 {
            if value == 0 {
                return Err(setting(field, "is 0; expected at least 1"));
            }
        }
        let seconds = [
            ("connect-seconds", self.connect_seconds),
            ("attempt-seconds", self.attempt_seconds),
            ("call-seconds", self.call_seconds),
            ("pause-seconds", self.pause_seconds),
            ("longest-pause-seconds", self.longest_pause_seconds),
        ];
        for (field, value) in seconds {
            if !(value > 0.0 && Duration::try_from_secs_f64(value).is_ok()) {
                return Err(setting(
                    field,
                    &format!("is {value}; expected seconds above 0"),
                ));
            }
        }
        Ok(())
    }
}

/// A service whose address and key are settled.
#[derive(Debug, Clone)]
pub struct Endpoint {
    pub(super) provider: Provider,
    pub(super) address: Address,
    pub(super) key: Option<Secret>,
    key_source: String,
    pub(super) proxy: Option<String>,
    pub(super) limits: Limits,
}

impl Endpoint {
    /// The effective address, before a call's path is added.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Where the key came from: `variable NAME`, `file PATH` or `none`; never the key.
    pub fn key_source(&self) -> &str {
        &self.key_source
    }
}

/// The address of a service: `http` or `https`, without user, password or key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address(Url);

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    /// [`RemoteError::Setting`] when it is none, or holds what should be a key.
    pub fn parse(text: &str) -> Result<Self, RemoteError> {
        let fail = |reason: &str| Err(setting("address", reason));
        let Ok(url) = Url::parse(text.trim()) else {
            return fail("is no URL; expected http://HOST/PATH or https://HOST/PATH");
        };
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return fail("is no web address; expected http://HOST/PATH or https://HOST/PATH");
        }
        let secret = |(name, _): (std::borrow::Cow<'_, str>, _)| {
            let name = name.to_ascii_lowercase();
            ["key", "token", "secret", "sig"]
                .iter()
                .any(|word| name.contains(word))
        };
        let named = !url.username().is_empty() || url.password().is_some();
        if named || url.query_pairs().any(secret) {
            return fail("holds a password or key; name `key-env` or `key-file` instead");
        }
        Ok(Self(url))
    }

    /// The address of a call: `path` after the service's own path, before its query.
    pub(super) fn join(&self, path: &str) -> Url {
        let mut url = self.0.clone();
        let base = url.path().trim_end_matches('/').to_owned();
        if !base.ends_with(path) {
            url.set_path(&format!("{base}{path}"));
        }
        url.set_fragment(None);
        url
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.0.scheme() == "https"
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A key. It can be sent and taken out of a text, and is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// What stands where a key stood.
    pub const MARK: &'static str = "[key]";

    /// A key without the white space around it.
    ///
    /// # Errors
    /// [`RemoteError::Setting`] when it is empty or cannot stand in a header.
    pub fn new(key: &str) -> Result<Self, RemoteError> {
        let key = key.trim();
        if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            let reason = "is empty or holds characters that no key has";
            return Err(setting("key", reason));
        }
        Ok(Self(key.into()))
    }

    /// `text` with [`Secret::MARK`] wherever it spells the key. A key of fewer than 8 characters is a
    /// placeholder, as local servers ask for, and stays: it may be an ordinary word.
    pub fn redact(&self, text: String) -> String {
        match self.0.len() >= 8 && text.contains(&self.0) {
            true => text.replace(&self.0, Self::MARK),
            false => text,
        }
    }

    pub(super) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::MARK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(name: &str) -> Option<String> {
        match name {
            "OPENAI_API_KEY" => Some("sk-of-openai\n".into()),
            "OPENAI_BASE_URL" => Some("https://elsewhere.example/v1".into()),
            "OPENROUTER_API_KEY" => Some("sk-of-openrouter".into()),
            "MINE" => Some("sk-mine".into()),
            _ => None,
        }
    }

    fn resolve(settings: &Settings) -> Result<Endpoint, RemoteError> {
        settings.resolve(&environment)
    }

    fn key(endpoint: &Endpoint) -> Option<&str> {
        endpoint.key.as_ref().map(Secret::expose)
    }

    #[test]
    fn explicit_settings_beat_the_environment_and_keys_stay_at_home() {
        let named = resolve(&Settings::new(Provider::Openai)).unwrap();
        assert_eq!(named.address().to_string(), "https://elsewhere.example/v1");
        assert_eq!(key(&named), Some("sk-of-openai"));
        assert_eq!(named.key_source(), "variable OPENAI_API_KEY");

        let own = Settings::new(Provider::Openai).at("http://127.0.0.1:9/v1");
        let explicit = resolve(&own).unwrap();
        assert_eq!(explicit.address().to_string(), "http://127.0.0.1:9/v1");
        assert_eq!(
            key(&explicit),
            None,
            "a usual key went to an unusual address"
        );

        let mut own = own;
        own.key_env = Some("MINE".into());
        assert_eq!(key(&resolve(&own).unwrap()), Some("sk-mine"));
        own.key_env = Some("ABSENT".into());
        let error = resolve(&own).unwrap_err().to_string();
        assert!(error.contains("ABSENT"), "{error}");
    }

    #[test]
    fn one_providers_variables_never_reach_another() {
        let openrouter = resolve(&Settings::new(Provider::Openrouter)).unwrap();
        assert_eq!(
            openrouter.address().to_string(),
            "https://openrouter.ai/api/v1"
        );
        assert_eq!(key(&openrouter), Some("sk-of-openrouter"));
        let missing = resolve(&Settings::new(Provider::Cohere)).unwrap_err();
        assert!(missing.to_string().contains("CO_API_KEY"), "{missing}");
        let ollama = resolve(&Settings::new(Provider::Ollama)).unwrap();
        assert_eq!(key(&ollama), None);
    }

    #[test]
    fn a_deployments_query_stays_behind_the_path_of_the_call() {
        let address =
            Address::parse("https://x.example/openai/deployments/d?api-version=1").unwrap();
        assert_eq!(
            address.join("/chat/completions").as_str(),
            "https://x.example/openai/deployments/d/chat/completions?api-version=1"
        );
        let whole = Address::parse("https://d.example/v1/systemone").unwrap();
        assert_eq!(
            whole.join("/v1/systemone").as_str(),
            "https://d.example/v1/systemone"
        );
        for bad in [
            "localhost:80",
            "ftp://x",
            "http://u:p@x/",
            "http://x/?api_key=1",
            "x",
        ] {
            Address::parse(bad).unwrap_err();
        }
    }

    #[test]
    fn an_azure_resource_stands_for_its_openai_path() {
        let mut settings = Settings::new(Provider::Azure).at("https://x.openai.azure.com");
        settings.key_env = Some("MINE".into());
        let address = resolve(&settings).unwrap().address().to_string();
        assert_eq!(address, "https://x.openai.azure.com/openai/v1");
    }

    #[test]
    fn a_key_is_never_shown() {
        let mut settings = Settings::new(Provider::Openai);
        settings.key_env = Some("MINE".into());
        let endpoint = resolve(&settings).unwrap();
        assert!(!format!("{endpoint:?}").contains("sk-mine"));
        let secret = Secret::new("sk-mine-alone").unwrap();
        assert_eq!(
            secret.redact("bad key sk-mine-alone.".into()),
            "bad key [key]."
        );
        let placeholder = Secret::new("EMPTY").unwrap();
        assert_eq!(placeholder.redact("EMPTY".into()), "EMPTY");
        Secret::new("two words").unwrap_err();
    }

    #[test]
    fn limits_that_would_hang_or_never_call_are_refused() {
        let mut settings = Settings::new(Provider::Ollama);
        settings.limits.concurrency = 0;
        resolve(&settings).unwrap_err();
        settings.limits = Limits::default();
        settings.limits.attempt_seconds = f64::NAN;
        resolve(&settings).unwrap_err();
    }
}
