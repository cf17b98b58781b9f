use std::fmt;

use crate::{cache::CacheError, prices::CostRefused};

/// Why a service did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// A setting is missing or makes no sense.
    #[error("setting `{field}` {reason}")]
    Setting {
        /// The setting.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The client for an address could not be made.
    #[error("{address}: no connection can be prepared: {reason}")]
    Prepare {
        /// The service's address.
        address: String,
        /// Why not.
        reason: String,
    },
    /// The service refused the call, and would refuse it again.
    #[error("{address}: {trouble}")]
    Refused {
        /// Where the call went.
        address: String,
        /// What the service said.
        trouble: Trouble,
    },
    /// Every attempt failed.
    #[error("{address}: given up after {attempts} attempts: {last}")]
    GivenUp {
        /// Where the call went.
        address: String,
        /// How many attempts were made.
        attempts: u32,
        /// How the last one failed.
        last: Trouble,
    },
    /// The time of a call was used up, or would be by the pause that the service demands.
    #[error("{address}: no time left after {attempts} attempts: {last}")]
    OutOfTime {
        /// Where the call went.
        address: String,
        /// How many attempts were made.
        attempts: u32,
        /// How the last one failed.
        last: Trouble,
    },
    /// So many calls failed in a row that the service counts as down; nothing was sent.
    #[error("{address}: {failures} calls failed in a row, no more are made; the last: {reason}")]
    Down {
        /// The service's address.
        address: String,
        /// How many calls failed.
        failures: u32,
        /// How the last one failed.
        reason: String,
    },
    /// The service answered something else than what it is asked for.
    #[error("{address}: unusable reply: {reason}; it begins: {excerpt}")]
    Malformed {
        /// Where the call went.
        address: String,
        /// What is wrong.
        reason: String,
        /// The reply's first characters, without the key.
        excerpt: String,
    },
    /// The run was asked to stop.
    #[error("stopped before {address} answered")]
    Stopped {
        /// Where the call would have gone.
        address: String,
    },
    /// The cache is read-only and does not hold the reply, so nothing was sent.
    #[error("{address}: the read-only cache holds no reply under {key}")]
    NotCached {
        /// Where the call would have gone.
        address: String,
        /// The request's key.
        key: crate::cache::Key,
    },
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The next call could pass the cost limit.
    #[error(transparent)]
    Cost(#[from] CostRefused),
    /// Texts are longer than the model reads, and cutting them was not allowed.
    #[error(
        "{count} of {of} texts are longer than the {limit} tokens that `{model}` reads, the first \
         at position {first} with {tokens}; shorten them or allow cutting"
    )]
    Oversized {
        /// The model.
        model: String,
        /// How many texts are too long.
        count: usize,
        /// Of how many.
        of: usize,
        /// The position of the first.
        first: usize,
        /// Its tokens.
        tokens: usize,
        /// The most that is read.
        limit: usize,
    },
    /// The service says that one item alone is more than it reads.
    #[error("{address}: item {item} alone is more than the service reads")]
    ItemTooLong {
        /// Where the call went.
        address: String,
        /// The item's position.
        item: usize,
    },
    /// A model's reply does not have the form that was asked for.
    #[error("`{model}`: {reason}; the reply: {reply}")]
    Unparsed {
        /// The model.
        model: String,
        /// What is wrong.
        reason: String,
        /// The reply.
        reply: String,
    },
    /// The runtime of a blocking client cannot be used.
    #[error("blocking call: {0}")]
    Runtime(String),
}

impl RemoteError {
    /// Whether the cause lies with a service or the way to it, which a program tells by exit
    /// code 4.
    pub fn is_service_failure(&self) -> bool {
        matches!(
            self,
            Self::Refused { .. }
                | Self::GivenUp { .. }
                | Self::OutOfTime { .. }
                | Self::Down { .. }
                | Self::Malformed { .. }
                | Self::ItemTooLong { .. }
        )
    }
}

/// How one attempt failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trouble {
    /// The service answered with a status that says so.
    Status {
        /// The HTTP status, or the one that the reply states in its place.
        status: u16,
        /// The service's own code for it.
        code: Option<String>,
        /// The reply's first characters, without the key.
        excerpt: String,
    },
    /// No connection could be made, so nothing was sent.
    Unreachable(String),
    /// The connection broke before the reply was complete.
    Broken(String),
    /// The attempt took longer than it may.
    Timeout,
    /// The reply is longer than it may be.
    TooLong {
        /// The most bytes of a reply.
        limit: usize,
    },
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status {
                status,
                code,
                excerpt,
            } => {
                write!(f, "status {status}")?;
                if let Some(code) = code {
                    write!(f, " ({code})")?;
                }
                write!(f, ": {excerpt}")
            }
            Self::Unreachable(reason) => write!(f, "no connection: {reason}"),
            Self::Broken(reason) => write!(f, "the connection broke: {reason}"),
            Self::Timeout => f.write_str("no complete reply in time"),
            Self::TooLong { limit } => write!(f, "the reply is longer than {limit} bytes"),
        }
    }
}
