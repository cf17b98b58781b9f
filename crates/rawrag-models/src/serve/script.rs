//! Replies by rule: what lets a system that needs some chat model run without one.

use std::time::Duration;

use regex::{Captures, Regex};
use serde::Deserialize;
use sha2::{Digest, Sha256};

/// Rules from patterns to replies, for tests and demonstrations of systems that need some model.
///
/// What a script makes a system answer says nothing of the quality of its answers.
///
/// # Form
/// A TOML file. The first rule whose pattern is found replies.
///
/// | field | |
/// | --- | --- |
/// | `otherwise` | The reply where no rule fits; without it such a request is an error. |
/// | `[[rules]]` | |
/// | `when` | Required. A regular expression. |
/// | `in` | Where it is looked for: `all` messages (default), the `system` ones, or the `last`. |
/// | `each`, `item`, `between` | A second pattern, looked for as often as it occurs in the text between the ends of the first's match; what each occurrence becomes; and what stands between them (`,` by default). |
/// | `reply` | Required. The reply. |
/// | `finish` | `stop` (default), `length` or `content_filter`. |
/// | `delay_milliseconds` | How long the reply takes, 0 by default. |
///
/// In `reply`, `<<name>>` is a group of `when` (`<<0>>` all of it), `<<json name>>` the same as a
/// JSON string with its quotes, and `<<items>>` what `each` gave. In `item` the groups are those
/// of `each`, and `<<index>>` counts from 0.
#[derive(Debug)]
pub struct Script {
    rules: Vec<Rule>,
    otherwise: Option<String>,
    fingerprint: String,
}

/// Why a script cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// Not TOML of this form.
    #[error("{0}")]
    Form(#[from] toml::de::Error),
    /// A rule cannot work.
    #[error("rule {rule} ({field}): {problem}")]
    Rule {
        /// Which, from 1.
        rule: usize,
        /// Its field.
        field: &'static str,
        /// What is wrong, and how to mend it.
        problem: String,
    },
}

/// A reply and how it comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) text: String,
    pub(super) finish: Finish,
    pub(super) delay: Duration,
}

/// How a reply ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Finish {
    #[default]
    Stop,
    Length,
    ContentFilter,
}

impl Finish {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ContentFilter => "content_filter",
        }
    }
}

/// The messages of a request as a rule may look at them.
pub(super) struct Conversation {
    /// Role and text, in order.
    pub(super) messages: Vec<(String, String)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    otherwise: Option<String>,
    #[serde(default)]
    rules: Vec<FileRule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRule {
    when: String,
    #[serde(default, rename = "in")]
    part: Part,
    each: Option<String>,
    item: Option<String>,
    between: Option<String>,
    reply: String,
    #[serde(default)]
    finish: Finish,
    #[serde(default)]
    delay_milliseconds: u64,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Part {
    #[default]
    All,
    System,
    Last,
}

#[derive(Debug)]
struct Rule {
    when: Regex,
    part: Part,
    each: Option<Each>,
    reply: Template,
    finish: Finish,
    delay: Duration,
}

#[derive(Debug)]
struct Each {
    pattern: Regex,
    item: Template,
    between: String,
}

#[derive(Debug)]
struct Template(Vec<Piece>);

#[derive(Debug)]
enum Piece {
    Text(String),
    Group { name: String, json: bool },
    Items,
    Index,
}

impl Script {
    /// The name of the model that a script is served as. With a `+`, a number and `ms` behind it,
    /// as in `scripted+500ms`, every reply takes that much longer, so that the time that a system
    /// spends on its model can be simulated, and is on record as such.
    pub const NAME: &str = "scripted";

    /// How much longer replies take under this name; `None` where it is no script's.
    pub fn delay(name: &str) -> Option<Duration> {
        match name.strip_prefix(Self::NAME)? {
            "" => Some(Duration::ZERO),
            rest => {
                let milliseconds = rest.strip_prefix('+')?.strip_suffix("ms")?;
                milliseconds.parse().ok().map(Duration::from_millis)
            }
        }
    }

    /// Reads a script.
    ///
    /// # Errors
    /// [`ScriptError`] for a file of another form, a pattern that is none, or a placeholder that
    /// names no group.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        let file: File = toml::from_str(text)?;
        let rules = (1..)
            .zip(file.rules)
            .map(|(number, rule)| {
                Rule::new(rule).map_err(|(field, problem)| ScriptError::Rule {
                    rule: number,
                    field,
                    problem,
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let digest = Sha256::digest(text.as_bytes());
        Ok(Self {
            rules,
            otherwise: file.otherwise,
            fingerprint: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
        })
    }

    /// Lower-case hexadecimal SHA-256 of the file.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// What it replies; `None` where nothing fits.
    pub(super) fn reply(&self, conversation: &Conversation) -> Option<Reply> {
        let ruled = self.rules.iter().find_map(|rule| rule.reply(conversation));
        ruled.or_else(|| {
            Some(Reply {
                text: self.otherwise.clone()?,
                finish: Finish::Stop,
                delay: Duration::ZERO,
            })
        })
    }
}

impl Rule {
    fn new(rule: FileRule) -> Result<Self, (&'static str, String)> {
        let pattern = |field, text: &str| Regex::new(text).map_err(|e| (field, e.to_string()));
        let when = pattern("when", &rule.when)?;
        let each = match (rule.each, rule.item) {
            (Some(each), Some(item)) => {
                let each = pattern("each", &each)?;
                let item = Template::parse(&item, &each, false).map_err(|e| ("item", e))?;
                Some(Each {
                    pattern: each,
                    item,
                    between: rule.between.unwrap_or_else(|| ",".to_owned()),
                })
            }
            (None, None) if rule.between.is_none() => None,
            _ => {
                let problem = "`each` and `item` stand together, `between` only with them";
                return Err(("each", problem.to_owned()));
            }
        };
        let reply =
            Template::parse(&rule.reply, &when, each.is_some()).map_err(|e| ("reply", e))?;
        Ok(Self {
            when,
            part: rule.part,
            each,
            reply,
            finish: rule.finish,
            delay: Duration::from_millis(rule.delay_milliseconds),
        })
    }

    fn reply(&self, conversation: &Conversation) -> Option<Reply> {
        let text = conversation.part(self.part);
        let found = self.when.captures(&text)?;
        let items = self.each.as_ref().map(|each| {
            let within = found.get(0).map_or("", |all| all.as_str());
            let items = each.pattern.captures_iter(within).enumerate();
            items
                .map(|(index, groups)| each.item.fill(&groups, "", index))
                .collect::<Vec<_>>()
                .join(&each.between)
        });
        Some(Reply {
            text: self.reply.fill(&found, &items.unwrap_or_default(), 0),
            finish: self.finish,
            delay: self.delay,
        })
    }
}

impl Conversation {
    fn part(&self, part: Part) -> String {
        let join = |wanted: &dyn Fn(&str) -> bool| {
            let texts = self.messages.iter().filter(|(role, _)| wanted(role));
            texts
                .map(|(_, text)| text.as_str())
                .collect::<Vec<_>>()
                .join("\n\n")
        };
        match part {
            Part::All => join(&|_| true),
            Part::System => join(&|role| matches!(role, "system" | "developer")),
            Part::Last => {
                let last = self.messages.last();
                last.map(|(_, text)| text.clone()).unwrap_or_default()
            }
        }
    }
}

impl Template {
    fn parse(text: &str, groups: &Regex, items: bool) -> Result<Self, String> {
        let known = |name: &str| {
            groups.capture_names().flatten().any(|group| group == name)
                || name
                    .parse::<usize>()
                    .is_ok_and(|number| number < groups.captures_len())
        };
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("<<") {
            let (inside, behind) = after
                .split_once(">>")
                .ok_or_else(|| format!("`<<{after}` is not closed by `>>`"))?;
            pieces.push(Piece::Text(before.to_owned()));
            let (json, name) = match inside.strip_prefix("json ") {
                Some(name) => (true, name),
                None => (false, inside),
            };
            pieces.push(match name {
                "items" if items && !json => Piece::Items,
                "index" if !json => Piece::Index,
                name if known(name) => Piece::Group {
                    name: name.to_owned(),
                    json,
                },
                name => return Err(format!("`<<{inside}>>`: the pattern has no group `{name}`")),
            });
            rest = behind;
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Ok(Self(pieces))
    }

    fn fill(&self, groups: &Captures<'_>, items: &str, index: usize) -> String {
        let mut out = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Items => out.push_str(items),
                Piece::Index => out.push_str(&index.to_string()),
                Piece::Group { name, json } => {
                    let group = match name.parse::<usize>() {
                        Ok(number) => groups.get(number),
                        Err(_) => groups.name(name),
                    };
                    let text = group.map_or("", |found| found.as_str());
                    if *json {
                        out.push_str(&serde_json::Value::from(text).to_string());
                    } else {
                        out.push_str(text);
                    }
                }
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(messages: &[(&str, &str)]) -> Conversation {
        let own = |&(role, text): &(&str, &str)| (role.to_owned(), text.to_owned());
        Conversation {
            messages: messages.iter().map(own).collect(),
        }
    }

    #[test]
    fn each_occurrence_becomes_an_item_with_its_quotes_escaped() {
        let script = Script::parse(
            r#"
            [[rules]]
            when = '(?s)Messages:\n(.*)End'
            each = '(?m)^(?<who>\w+): (?<what>.+)$'
            item = '{"id":"<<index>>","text":<<json what>>,"of":"<<who>>"}'
            reply = '{"memory":[<<items>>]}'
            "#,
        )
        .unwrap();
        let chat = "Ignored: yes\nMessages:\nAda: I say \"tea\"\nBo: Tea\\coffee\nEnd";
        let reply = script.reply(&said(&[("user", chat)])).unwrap();
        let json: serde_json::Value = serde_json::from_str(&reply.text).unwrap();
        assert_eq!(
            json,
            serde_json::json!({ "memory": [
                { "id": "0", "text": "I say \"tea\"", "of": "Ada" },
                { "id": "1", "text": "Tea\\coffee", "of": "Bo" },
            ]})
        );
    }

    #[test]
    fn the_first_rule_that_fits_replies_and_looks_only_where_it_says() {
        let script = Script::parse(
            r#"
            otherwise = "nothing fits"
            [[rules]]
            when = "judge"
            in = "system"
            reply = "CORRECT"
            [[rules]]
            when = "judge"
            in = "last"
            reply = "the last message judges"
            finish = "length"
            "#,
        )
        .unwrap();
        let of = |messages: &[(&str, &str)]| script.reply(&said(messages)).unwrap().text;
        assert_eq!(of(&[("system", "You judge."), ("user", "x")]), "CORRECT");
        assert_eq!(
            of(&[("user", "judge me"), ("user", "and this")]),
            "nothing fits"
        );
        assert_eq!(of(&[("user", "judge me")]), "the last message judges");
    }

    #[test]
    fn a_rule_that_cannot_work_is_refused_with_its_number() {
        let wrong = [
            "[[rules]]\nwhen = '('\nreply = ''",
            "[[rules]]\nwhen = 'a'\nreply = '<<1>>'",
            "[[rules]]\nwhen = 'a'\nreply = '<<items>>'",
            "[[rules]]\nwhen = 'a'\nreply = '<<open'",
            "[[rules]]\nwhen = 'a'\neach = 'b'\nreply = ''",
            "[[rules]]\nwhen = 'a'\nreplies = ''",
        ];
        for text in wrong {
            assert!(Script::parse(text).is_err(), "{text}");
        }
        let error = Script::parse(&format!(
            "{}\n{}",
            "[[rules]]\nwhen='a'\nreply='b'", wrong[1]
        ));
        let message = error.unwrap_err().to_string();
        assert!(message.starts_with("rule 2 (reply)"), "{message}");
    }
}
