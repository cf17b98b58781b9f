//! Memory systems behind one trait, so that each gets the same history, question and cutoff, and what
//! it really did is on record.
//!
//! [`MemorySystem`] is the trait. [`native`] holds this project's own systems, and
//! [`managed`] those of them that ask a model when a history is taken in, [`stored`] the one that
//! keeps it on disk; [`ProcessSystem`] is
//! any other, in whatever language, that speaks the [`protocol`] over its standard streams, [`HttpSystem`] one that speaks it over
//! HTTP;
//! [`known`] names those that this project wraps itself. [`ask`] is the main call: it takes one
//! conversation and its questions through a system. [`check`] finds out whether a system does
//! what it declares.
//!
//! A failure is never an answer: what a system could not do is a [`SystemError`] with the reason,
//! and is recorded as such. Nothing here reads an answer or scores one.

mod ask;
pub mod check;
mod gathered;
mod http;
pub mod known;
pub mod managed;
pub mod native;
#[cfg(unix)]
mod process;
pub mod protocol;
pub mod stored;
mod system;

pub use ask::{
    AskError, Asked, Asking, Export, Search, Step, Taken, Visibility, ask, units, visibility,
};
pub use http::{HttpSystem, Remote};
#[cfg(unix)]
pub use process::{Launch, Limits, ProcessSystem};
pub use system::{
    Capabilities, Decision, Description, Event, Item, Level, MemorySystem, Namespace, Opened, Said,
    Stored, SystemError, Unit, Usage,
};
