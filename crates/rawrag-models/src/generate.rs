//! Text from a model on this machine, greedily: what the local server answers chats with.

use crate::ModelIdentity;

/// A model that continues text by its likeliest token, one after the other.
///
/// The same request gives the same reply on the same machine.
pub trait Generator: Send + Sync {
    /// Which model this is.
    fn identity(&self) -> &ModelIdentity;

    /// The next message of a conversation, in the model's own chat form. What the messages say is
    /// ordinary text, whatever it spells.
    ///
    /// # Errors
    /// [`GenerateError`].
    fn chat(&self, messages: &[Turn], options: &Options) -> Result<Generated, GenerateError>;

    /// What follows `prompt` as it stands. Text that spells a control token is that token: the
    /// prompt is the caller's own.
    ///
    /// # Errors
    /// [`GenerateError`].
    fn complete(&self, prompt: &str, options: &Options) -> Result<Generated, GenerateError>;
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// `system`, `user` or `assistant`, as the model's template knows them.
    pub role: String,
    /// What it says.
    pub text: String,
}

/// How far a reply goes and what is told about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The most tokens of a reply; without it, what the context has room for.
    pub max_tokens: Option<usize>,
    /// Texts at which a reply ends, themselves left out.
    pub stop: Vec<String>,
    /// Whether the reply must be one JSON object.
    pub json: bool,
    /// How many of the likeliest tokens are told at each place.
    pub alternatives: usize,
}

/// A reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    /// Its text. Bytes that are no UTF-8 stand as U+FFFD.
    pub text: String,
    /// Whether it was cut at its maximum length.
    pub cut: bool,
    /// Tokens read.
    pub prompt_tokens: usize,
    /// The tokens of the reply, in order.
    pub tokens: Vec<Token>,
}

/// One token of a reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// Its bytes, which need not be whole characters.
    pub bytes: Vec<u8>,
    /// Natural logarithm of its probability among all tokens.
    pub logprob: f64,
    /// The likeliest tokens at its place, falling, equal ones by their number.
    pub alternatives: Vec<(Vec<u8>, f64)>,
}

/// Why there is no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// The prompt leaves no room for a reply.
    #[error(
        "the prompt has {tokens} tokens, and the context holds {context}: shorten it, or serve the \
         model with a larger context"
    )]
    TooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Tokens that the context holds.
        context: usize,
    },
    /// The messages do not fit the model's template.
    #[error("the model's chat template: {0}")]
    Template(String),
    /// The model failed.
    #[error("{0}")]
    Model(String),
}
