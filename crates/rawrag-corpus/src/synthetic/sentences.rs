//! The sentences in which synthetic episodes say things, made and read.

/// What a sentence says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said<'a> {
    /// An entity has a value.
    Value { label: &'a str, value: &'a str },
    /// An entity has another value from now on.
    Change { label: &'a str, value: &'a str },
    /// An entity depends on another.
    Depends { label: &'a str, source: &'a str },
    /// What an entity will be if it has to change.
    StandIn { label: &'a str, value: &'a str },
    /// An entity is to be forgotten.
    Removed { label: &'a str },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Value,
    Change,
    Depends,
    StandIn,
    Removed,
}

/// Every wording. `{a}` is the entity's label; `{b}` the value, or the label of what it depends
/// on. No sentence fits two of them, since a label is lower-case words alone.
const WORDINGS: [(Form, &str); 15] = [
    (Form::Value, "Our {a} is {b}."),
    (Form::Value, "We settled on {b} as our {a}."),
    (Form::Value, "Please note that our {a} is {b}."),
    (Form::Change, "We have now switched our {a} to {b}."),
    (Form::Change, "Our {a} has since become {b}."),
    (Form::Change, "As of today {b} has replaced our former {a}."),
    (Form::Depends, "Our {a} depends on our {b}."),
    (
        Form::Depends,
        "Whenever our {b} changes, our {a} has to change with it.",
    ),
    (Form::Depends, "It is our {b} that determines our {a}."),
    (
        Form::StandIn,
        "If our {a} ever has to change, it will be {b}.",
    ),
    (
        Form::StandIn,
        "Should we ever need another {a}, it will be {b}.",
    ),
    (Form::StandIn, "We keep {b} in reserve as our next {a}."),
    (Form::Removed, "Please erase our {a} from your notes."),
    (Form::Removed, "Forget our {a} from here on."),
    (Form::Removed, "Delete whatever you hold on our {a}."),
];

/// Wordings a form has.
pub(super) const VARIANTS: usize = 3;

impl<'a> Said<'a> {
    fn parts(self) -> (Form, &'a str, &'a str) {
        match self {
            Self::Value { label, value } => (Form::Value, label, value),
            Self::Change { label, value } => (Form::Change, label, value),
            Self::Depends { label, source } => (Form::Depends, label, source),
            Self::StandIn { label, value } => (Form::StandIn, label, value),
            Self::Removed { label } => (Form::Removed, label, ""),
        }
    }

    /// The sentence, in one of its wordings (`variant` is taken modulo [`VARIANTS`]).
    pub(super) fn sentence(self, variant: usize) -> String {
        let (form, a, b) = self.parts();
        let mut wordings = WORDINGS.iter().filter(|(of, _)| *of == form);
        let (_, wording) = wordings.nth(variant % VARIANTS).unwrap_or(&WORDINGS[0]);
        wording.replace("{a}", a).replace("{b}", b)
    }

    /// What a sentence says, if it is one of ours.
    pub(super) fn read(sentence: &'a str) -> Option<Self> {
        let begins = sentence.as_bytes().first()?;
        let fitting = WORDINGS
            .iter()
            .filter(|(_, w)| w.as_bytes().first() == Some(begins));
        fitting.into_iter().find_map(|&(form, wording)| {
            let (a, b) = captures(wording, sentence)?;
            let said = match form {
                Form::Value => Self::Value { label: a, value: b },
                Form::Change => Self::Change { label: a, value: b },
                Form::Depends => Self::Depends {
                    label: a,
                    source: b,
                },
                Form::StandIn => Self::StandIn { label: a, value: b },
                Form::Removed => Self::Removed { label: a },
            };
            let labels_fit = is_label(a) && (form != Form::Depends || is_label(b));
            let value_fits = form == Form::Removed || !b.is_empty();
            (labels_fit && value_fits).then_some(said)
        })
    }
}

/// Lower-case words.
fn is_label(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase() || b == b' ')
}

/// What stands for `{a}` and `{b}`; `{b}` is empty where the wording has none.
fn captures<'a>(wording: &str, sentence: &'a str) -> Option<(&'a str, &'a str)> {
    let first = wording.find('{')?;
    let (head, rest) = (&wording[..first], &wording[first + 3..]);
    let sentence = sentence.strip_prefix(head)?;
    let a_first = wording[first..].starts_with("{a}");
    let Some(second) = rest.find('{') else {
        return Some((sentence.strip_suffix(rest)?, ""));
    };
    let (between, tail) = (&rest[..second], &rest[second + 3..]);
    let (one, sentence) = sentence.split_once(between)?;
    let other = sentence.strip_suffix(tail)?;
    Some(if a_first { (one, other) } else { (other, one) })
}

/// The whole sentences of a line, each with its closing mark. What a cut line begins or ends with
/// is left out at its end; at its beginning it fits no wording.
pub(super) fn sentences(line: &str) -> impl Iterator<Item = &str> {
    let body = line.rsplit_once(": ").map_or(line, |(_, body)| body);
    body.split_inclusive(['.', '?', '!'])
        .filter(|sentence| sentence.ends_with(['.', '?', '!']))
        .map(|sentence| sentence.trim_start_matches([' ', '-', '*', '>']))
}

/// How questions are put.
pub(super) mod questions {
    /// An entity's value.
    pub(crate) fn current(label: &str) -> String {
        format!("What is our {label}?")
    }

    /// A value word for word.
    pub(crate) fn verbatim(label: &str) -> String {
        format!("What is our {label}, word for word?")
    }

    /// Every value in order.
    pub(crate) fn history(label: &str) -> String {
        format!("List every {label} we have had, from the first to the latest.")
    }

    /// Everything whose label begins with a word.
    pub(crate) fn topic(topic: &str) -> String {
        format!("What do you know about our {topic}? Name everything.")
    }

    /// What a question about an episode asks for.
    #[derive(Debug, PartialEq, Eq)]
    pub(crate) enum Wanted<'a> {
        /// The value of this entity.
        Current(&'a str),
        /// All values of this entity.
        History(&'a str),
        /// The values of all entities whose label begins so.
        Topic(&'a str),
    }

    /// Reads a question back.
    pub(crate) fn read(question: &str) -> Option<Wanted<'_>> {
        let between = |head: &str, tail: &str| question.strip_prefix(head)?.strip_suffix(tail);
        between("What is our ", ", word for word?")
            .or_else(|| between("What is our ", "?"))
            .map(Wanted::Current)
            .or_else(|| {
                between("List every ", " we have had, from the first to the latest.")
                    .map(Wanted::History)
            })
            .or_else(|| {
                between("What do you know about our ", "? Name everything.").map(Wanted::Topic)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wording_is_read_as_what_it_says_and_as_nothing_else() {
        let (label, value, source) = ("guest room", "The Zhalkov Ledger 40", "boiler model");
        let all = [
            Said::Value { label, value },
            Said::Change { label, value },
            Said::Depends { label, source },
            Said::StandIn { label, value },
            Said::Removed { label },
        ];
        for said in all {
            for variant in 0..VARIANTS {
                let sentence = said.sentence(variant);
                assert_eq!(Said::read(&sentence), Some(said), "{sentence}");
                // A window may cut a sentence anywhere.
                for cut in 1..sentence.len() {
                    assert_eq!(sentences(&sentence[..cut]).find_map(Said::read), None);
                    let rest = &sentence[cut..];
                    assert_eq!(sentences(rest).find_map(Said::read), None, "{rest}");
                }
            }
        }
    }
}
