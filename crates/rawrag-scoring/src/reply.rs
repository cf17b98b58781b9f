//! Reading what a judge wrote. Every reader returns a value of a closed set or the reason why there
//! is none; nothing is guessed and nothing has a default.

use std::fmt;

use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::Value;

use crate::judge::{Reply, Ungraded, Unparsed};

/// A decoded JSON object: its keys and values in the order written, repeated keys included.
pub(crate) struct Object(Vec<(String, Value)>);

impl Object {
    /// The value of a key. Written twice with different values, it has none.
    pub(crate) fn get(&self, key: &str) -> Result<&Value, Unparsed> {
        let mut values = self.0.iter().filter(|(k, _)| k == key).map(|(_, v)| v);
        let first = values.next().ok_or(Unparsed::NoLabel)?;
        if values.all(|value| value == first) {
            Ok(first)
        } else {
            Err(Unparsed::Conflicting)
        }
    }

    pub(crate) fn truth(&self, key: &str) -> Result<bool, Unparsed> {
        self.get(key)?.as_bool().ok_or(Unparsed::OtherLabel)
    }

    pub(crate) fn count(&self, key: &str) -> Result<u32, Unparsed> {
        let count = self.get(key)?.as_u64();
        count
            .and_then(|count| u32::try_from(count).ok())
            .ok_or(Unparsed::OtherLabel)
    }
}

/// Decodes the object that a reply holds: in a Markdown code block, else the first without braces
/// inside that has `key` before a value that begins as `begins` says, else the whole reply.
///
/// A cut reply is read like any other, since an object that is closed was not cut; what cannot be
/// read of one is put down to the cut.
pub(crate) fn object(
    reply: Reply<'_>,
    key: &str,
    begins: fn(char) -> bool,
) -> Result<Object, Ungraded> {
    let (text, cut) = match reply {
        Reply::Whole(text) => (text, false),
        Reply::Cut(text) => (text, true),
        Reply::Failed(failure) => return Err(Ungraded::Failed(failure)),
    };
    let selected = fenced(text)
        .or_else(|| flat(text, key, begins))
        .unwrap_or_else(|| text.trim());
    decode(selected).map_err(|problem| {
        Ungraded::Unparsed(match problem {
            Unparsed::Empty => Unparsed::Empty,
            _ if cut => Unparsed::Cut,
            other => other,
        })
    })
}

/// Whether a reply says yes: of the words *yes* and *no*, exactly one occurs, in any case, and never
/// behind *not*. A cut reply is not read, since the other word may have followed.
pub(crate) fn yes(reply: Reply<'_>) -> Result<bool, Ungraded> {
    let text = match reply {
        Reply::Whole(text) => text,
        Reply::Cut(_) => return Err(Ungraded::Unparsed(Unparsed::Cut)),
        Reply::Failed(failure) => return Err(Ungraded::Failed(failure)),
    };
    let has = |wanted: &str| words(text).any(|word| word.eq_ignore_ascii_case(wanted));
    let spoken = words(text).filter(|word| !word.is_empty());
    let negated = spoken.clone().zip(spoken.skip(1)).any(|(not, word)| {
        not.eq_ignore_ascii_case("not")
            && ["yes", "no"].iter().any(|w| word.eq_ignore_ascii_case(w))
    });
    match (has("yes"), has("no")) {
        _ if negated => Err(Ungraded::Unparsed(Unparsed::Conflicting)),
        (true, false) => Ok(true),
        (false, true) => Ok(false),
        (true, true) => Err(Ungraded::Unparsed(Unparsed::Conflicting)),
        (false, false) if text.trim().is_empty() => Err(Ungraded::Unparsed(Unparsed::Empty)),
        (false, false) => Err(Ungraded::Unparsed(Unparsed::NoLabel)),
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> + Clone {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
}

/// The object of the first Markdown code block that holds nothing else; the block may be tagged
/// `json`.
fn fenced(text: &str) -> Option<&str> {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("```") {
        let body = after.strip_prefix("json").unwrap_or(after).trim_start();
        if body.starts_with('{') {
            // Without an end for this block there is none for a later one.
            return ends(body).find(|object| object.ends_with('}'));
        }
        rest = after;
    }
    None
}

/// What stands before each closing fence, nearest first, without white space at its end.
fn ends(body: &str) -> impl Iterator<Item = &str> {
    body.match_indices("```")
        .map(|(at, _)| body[..at].trim_end())
}

/// The first object without braces inside that has this key, in double quotes, before a value that
/// begins as it should.
fn flat<'a>(text: &'a str, key: &str, begins: fn(char) -> bool) -> Option<&'a str> {
    let quoted = format!("\"{key}\"");
    let has_key = |object: &str| {
        object.match_indices(&quoted).any(|(at, _)| {
            let after = object[at + quoted.len()..].trim_start();
            let value = after.strip_prefix(':').map(str::trim_start);
            value.is_some_and(|value| value.starts_with(begins))
        })
    };
    let mut open = None;
    for (at, byte) in text.bytes().enumerate() {
        match (byte, open) {
            (b'{', _) => open = Some(at),
            (b'}', Some(start)) => {
                let object = &text[start..=at];
                if has_key(object) {
                    return Some(object);
                }
                open = None;
            }
            _ => {}
        }
    }
    None
}

fn decode(text: &str) -> Result<Object, Unparsed> {
    struct Pairs;

    impl<'de> Visitor<'de> for Pairs {
        type Value = Vec<(String, Value)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut pairs = Vec::new();
            while let Some(pair) = map.next_entry()? {
                pairs.push(pair);
            }
            Ok(pairs)
        }
    }

    if text.is_empty() {
        return Err(Unparsed::Empty);
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let pairs = json.deserialize_map(Pairs).map_err(|error| {
        if error.is_data() {
            Unparsed::NoObject
        } else {
            Unparsed::Malformed
        }
    })?;
    json.end().map_err(|_| Unparsed::Malformed)?;
    Ok(Object(pairs))
}
