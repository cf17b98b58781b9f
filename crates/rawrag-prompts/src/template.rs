use crate::{Fingerprint, PromptError, TemplateError};

const SYSTEM: &str = "<!-- system -->";
const USER: &str = "<!-- user -->";

/// A prompt with places to fill.
///
/// # File format
/// ```text
/// ---
/// name: reader-meme
/// purpose: Answers a question of MEME with the bare value.
/// placeholders: context, question
/// output: The value alone.
/// ---
/// <!-- system -->
/// Optional; the system message.
/// <!-- user -->
/// The user message, with {context} and {question}.
/// ```
/// The header has these four keys, each once, each on a line. `{name}` with a name of lower-case
/// letters, digits and `_` is a placeholder; every other brace is itself, so JSON needs no care.
/// `{{name}}` stands for the text `{name}`. Blank lines around a message are dropped, and line
/// ends are `\n` whatever the file has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    name: String,
    purpose: String,
    placeholders: Vec<String>,
    output: String,
    system: Option<String>,
    user: String,
}

/// What is sent: an optional system message and the user message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The system message; absent where the template has none.
    pub system: Option<String>,
    /// The user message.
    pub user: String,
}

impl Template {
    /// Reads a template from the text of its file.
    ///
    /// # Errors
    /// When the text is not in the format, uses a placeholder that it does not declare, or declares
    /// one that it does not use.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let text = text.replace("\r\n", "\n");
        let (header, body) = text
            .trim_start_matches('\u{feff}')
            .strip_prefix("---\n")
            .and_then(|rest| rest.split_once("\n---\n"))
            .ok_or(TemplateError::NoHeader)?;
        let [name, purpose, placeholders, output] = header_values(header)?;
        let (system, user) = messages(body)?;
        let template = Self {
            name,
            purpose,
            placeholders: placeholder_names(&placeholders)?,
            output,
            system,
            user,
        };
        template.check()?;
        Ok(template)
    }

    /// Its name, which is also its file's stem.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is for, in a sentence.
    pub fn purpose(&self) -> &str {
        &self.purpose
    }

    /// The names of the values it needs, in the order of the header.
    pub fn placeholders(&self) -> &[String] {
        &self.placeholders
    }

    /// What a reply has to look like.
    pub fn output(&self) -> &str {
        &self.output
    }

    /// SHA-256 over what is sent, before anything is filled in: the byte 0 or 1 for the absence or
    /// presence of a system message, that message, the user message. A change of the header alone
    /// leaves it as it is.
    pub fn fingerprint(&self) -> Fingerprint {
        let presence = if self.system.is_some() { "\u{1}" } else { "\0" };
        let system = self.system.as_deref().unwrap_or_default();
        Fingerprint::of([presence, system, &self.user])
    }

    /// Fills every placeholder. What is filled in is taken as it is: a placeholder inside it stays
    /// text.
    ///
    /// # Errors
    /// When a placeholder has no value, or a value no placeholder.
    pub fn render(&self, values: &[(&str, &str)]) -> Result<Prompt, PromptError> {
        for (position, &(name, _)) in values.iter().enumerate() {
            let placeholder = name.to_owned();
            let prompt = self.name.clone();
            if !self.placeholders.iter().any(|declared| declared == name) {
                let declared = list(&self.placeholders);
                return Err(PromptError::Surplus {
                    prompt,
                    placeholder,
                    declared,
                });
            }
            if values.iter().skip(position + 1).any(|&(n, _)| n == name) {
                return Err(PromptError::Twice {
                    prompt,
                    placeholder,
                });
            }
        }
        let fill = |message: &str| -> Result<String, PromptError> {
            let mut filled = String::with_capacity(message.len());
            for piece in Pieces(message) {
                filled.push_str(match piece {
                    Piece::Text(text) => text,
                    Piece::Placeholder(name) => values
                        .iter()
                        .find(|&&(given, _)| given == name)
                        .map(|&(_, value)| value)
                        .ok_or_else(|| PromptError::Missing {
                            prompt: self.name.clone(),
                            placeholder: name.to_owned(),
                        })?,
                });
            }
            Ok(filled)
        };
        Ok(Prompt {
            system: self.system.as_deref().map(fill).transpose()?,
            user: fill(&self.user)?,
        })
    }

    fn check(&self) -> Result<(), TemplateError> {
        let messages = self.system.iter().chain([&self.user]);
        let used: Vec<&str> = messages
            .flat_map(|message| Pieces(message))
            .filter_map(|piece| match piece {
                Piece::Placeholder(name) => Some(name),
                Piece::Text(_) => None,
            })
            .collect();
        let declared = |name: &&str| self.placeholders.iter().any(|p| p == name);
        if let Some(name) = used.iter().find(|name| !declared(name)) {
            return Err(TemplateError::Undeclared((*name).to_owned()));
        }
        match self
            .placeholders
            .iter()
            .find(|p| !used.contains(&p.as_str()))
        {
            Some(name) => Err(TemplateError::Unused(name.clone())),
            None => Ok(()),
        }
    }
}

/// Names in a message for a person.
pub(crate) fn list(names: &[String]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

/// Name, purpose, placeholders and output.
fn header_values(header: &str) -> Result<[String; 4], TemplateError> {
    const KEYS: [&str; 4] = ["name", "purpose", "placeholders", "output"];
    let mut values: [Option<String>; 4] = Default::default();
    // The first line of the file is the opening `---`.
    for (line, text) in (2..).zip(header.lines()) {
        let (key, value) = text
            .split_once(':')
            .ok_or_else(|| TemplateError::HeaderLine {
                line,
                text: text.to_owned(),
            })?;
        let key = key.trim().to_owned();
        let mut places = KEYS.iter().zip(&mut values);
        match places.find(|(known, _)| **known == key) {
            None => return Err(TemplateError::UnknownKey { line, key }),
            Some((_, Some(_))) => return Err(TemplateError::KeyTwice { line, key }),
            Some((_, place)) => *place = Some(value.trim().to_owned()),
        }
    }
    for (key, value) in KEYS.iter().zip(&values) {
        if value
            .as_deref()
            .is_none_or(|v| v.is_empty() && *key != "placeholders")
        {
            return Err(TemplateError::NoKey(key));
        }
    }
    Ok(values.map(Option::unwrap_or_default))
}

fn placeholder_names(written: &str) -> Result<Vec<String>, TemplateError> {
    let mut names: Vec<String> = Vec::new();
    for name in written.split(',').map(str::trim) {
        if name.is_empty() && written.trim().is_empty() {
            continue;
        }
        if name_length(name) != name.len() || name.is_empty() || names.iter().any(|n| n == name) {
            return Err(TemplateError::PlaceholderName(name.to_owned()));
        }
        names.push(name.to_owned());
    }
    Ok(names)
}

/// The system message, if there is one, and the user message.
fn messages(body: &str) -> Result<(Option<String>, String), TemplateError> {
    let mut system: Option<Vec<&str>> = None;
    let mut user: Option<Vec<&str>> = None;
    for line in body.lines() {
        match (line.trim_end(), &mut system, &mut user) {
            (SYSTEM, None, None) => system = Some(Vec::new()),
            (USER, _, None) => user = Some(Vec::new()),
            (SYSTEM | USER, ..) => return Err(TemplateError::Messages),
            (_, _, Some(lines)) | (_, Some(lines), None) => lines.push(line),
            ("", None, None) => {}
            (_, None, None) => return Err(TemplateError::Messages),
        }
    }
    let text = |lines: Vec<&str>, which| match lines.join("\n").trim_matches('\n') {
        "" => Err(TemplateError::EmptyMessage(which)),
        text => Ok(text.to_owned()),
    };
    let system = system.map(|lines| text(lines, "system")).transpose()?;
    Ok((system, text(user.ok_or(TemplateError::Messages)?, "user")?))
}

/// How many bytes at the head of a text make up a placeholder's name.
fn name_length(text: &str) -> usize {
    let in_name = |(at, byte): (usize, u8)| match byte {
        b'a'..=b'z' => true,
        b'0'..=b'9' | b'_' => at > 0,
        _ => false,
    };
    (0..)
        .zip(text.bytes())
        .take_while(|&pair| in_name(pair))
        .count()
}

#[derive(Debug, PartialEq)]
enum Piece<'a> {
    Text(&'a str),
    Placeholder(&'a str),
}

/// A message cut into text and placeholders.
struct Pieces<'a>(&'a str);

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let text = self.0;
        if let Some(name) = braced(text) {
            self.0 = &text[name.len() + 2..];
            return Some(Piece::Placeholder(name));
        }
        if let Some(name) = text.strip_prefix('{').and_then(braced) {
            let inner = name.len() + 2;
            if text[1 + inner..].starts_with('}') {
                self.0 = &text[inner + 2..];
                return Some(Piece::Text(&text[1..1 + inner]));
            }
        }
        let length = text.chars().next()?.len_utf8();
        let end = text[length..]
            .find('{')
            .map_or(text.len(), |at| length + at);
        self.0 = &text[end..];
        Some(Piece::Text(&text[..end]))
    }
}

/// The name, if a text begins with `{name}`.
fn braced(text: &str) -> Option<&str> {
    let rest = text.strip_prefix('{')?;
    let (name, after) = rest.split_at(name_length(rest));
    (!name.is_empty() && after.starts_with('}')).then_some(name)
}
