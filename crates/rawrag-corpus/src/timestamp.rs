use std::fmt;

use jiff::civil::DateTime;

/// A date and time as a file gives it: local, and without an offset unless the file has one.
///
/// No time zone is ever assumed. Two timestamps are ordered by local time when either lacks an
/// offset, by instant when both have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timestamp {
    /// Local date and time.
    pub local: DateTime,
    /// Minutes east of UTC, where the file states them.
    pub offset_minutes: Option<i16>,
}

/// A date that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read {text:?} as a date: expected {expected}")]
pub struct TimestampError {
    /// What the file says.
    pub text: String,
    /// The forms that would have been read.
    pub expected: &'static str,
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.local.strftime("%Y-%m-%d %H:%M").to_string())
    }
}
