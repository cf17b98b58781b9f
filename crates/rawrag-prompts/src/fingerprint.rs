use std::fmt;

use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};

/// A SHA-256, written as 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Of several texts in order. Each is led by its length in bytes as a little-endian u64, so
    /// that no two lists share a fingerprint by where one text ends.
    pub(crate) fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hasher = Sha256::new();
        for text in texts {
            hasher.update((text.len() as u64).to_le_bytes());
            hasher.update(text);
        }
        Self(hasher.finalize().into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
