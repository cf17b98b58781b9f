//! The prompts that readers, judges, extractors and selectors are sent, as files that can be
//! swapped.
//!
//! A [`Template`] is a Markdown file with a header and one or two messages; a [`PromptSet`] is all
//! of them by name. [`PromptSet::builtin`] holds this project's own wording, which follows the
//! papers in fields, structure and what a reply has to look like, and in no sentence.
//! [`PromptSet::from_folder`] puts other files in place of some. Both are fingerprinted, so that a
//! record can say what was sent.
//!
//! Nothing here sends anything, counts tokens or reads a reply.
//!
//! ```
//! use rawrag_prompts::PromptSet;
//!
//! let prompts = PromptSet::builtin();
//! let prompt = prompts.render(
//!     "reader-meme",
//!     &[("context", "2031-03-01 Ada: I moved to {question}."), ("question", "Where is Ada?")],
//! )?;
//! assert!(prompt.system.is_none());
//! // What is put in is never read for placeholders again.
//! assert!(prompt.user.contains("I moved to {question}."));
//! # Ok::<(), rawrag_prompts::PromptError>(())
//! ```

mod builtin;
mod error;
mod fingerprint;
pub mod readout;
mod set;
mod template;

pub use error::{PromptError, TemplateError};
pub use fingerprint::Fingerprint;
pub use set::PromptSet;
pub use template::{Prompt, Template};
