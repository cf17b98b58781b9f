//! Oracles over MEME: native retrieval (N), gold-informed selection from everything stored (C), and
//! from the raw sessions that are annotated as evidence (R), or all of these sessions (S)
//! (Raw-RAG, 5.3, C.5, C.6; Tables 2 and 29 to 31, Figure 5).
//!
//! The diagnostic `oracle` compares runs that were answered and graded under these conditions.
//! `rawrag oracle` makes such runs, by the selection in this module: [`Gold`] has a question's
//! phrases, [`Store`] ranks objects by equation 5, and [`pack`] and [`pack_raw`] make evidence of
//! them. The selection is over plain texts and counts tokens by whatever it is given.
//!
//! Where the paper leaves open what it does, this is done here:
//! - a word is a run of letters and digits; a phrase is looked for as a substring of the words of an
//!   object, so that its first word may be the end of a longer one and its last the beginning;
//! - objects that a question may not use are taken out before duplicates are;
//! - new phrase coverage counts phrases, and every value and every name is one;
//! - the macro-average over questions whose evidence changed is over the tasks that have any.

mod comparison;
mod pack;
mod phrases;
mod store;

pub(crate) use comparison::ORACLE;
pub use comparison::{Condition, StoreKind};
pub use pack::{Packer, Selection, Shown, Tokens, pack, pack_raw};
pub use phrases::{Gold, Phrase, normal};
pub use store::{Candidate, Eligible, NoProvenance, Object, Store, Uncited};
