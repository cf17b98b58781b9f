//! Known models.

use std::path::Path;

use sha2::{Digest, Sha256};

/// A model this program knows.
pub struct KnownModel {
    /// Public name.
    pub name: &'static str,
}

/// all-MiniLM-L6-v2.
pub const MINILM: KnownModel = KnownModel {
    name: "sentence-transformers/all-MiniLM-L6-v2",
};

pub(crate) fn weights_sha256(_dir: &Path, bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect()
}
