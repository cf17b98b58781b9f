use std::io;
use std::path::PathBuf;

/// Why a text is no template. Lines count from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum TemplateError {
    #[error("line 1: a template begins with a line `---`, then its header, then `---` again")]
    NoHeader,
    #[error("line {line}: `{text}` is no header line; write `key: value`")]
    HeaderLine { line: usize, text: String },
    #[error(
        "line {line}: the header has no key `{key}`; its keys are name, purpose, placeholders and \
         output"
    )]
    UnknownKey { line: usize, key: String },
    #[error("line {line}: the header has `{key}` twice; keep one")]
    KeyTwice { line: usize, key: String },
    #[error("the header has no `{0}`; add it (the value of `placeholders` may be empty)")]
    NoKey(&'static str),
    #[error(
        "`{0}` is no placeholder name: lower-case letters, digits and `_`, a letter first, each \
         name once, separated by commas"
    )]
    PlaceholderName(String),
    #[error(
        "the messages begin with a line `<!-- system -->` or `<!-- user -->`, and there is one \
         user message, preceded by one system message or none"
    )]
    Messages,
    #[error("the {0} message is empty")]
    EmptyMessage(&'static str),
    #[error(
        "`{{{0}}}` is used and not declared; add it to `placeholders`, or write `{{{{{0}}}}}` for \
         the text itself"
    )]
    Undeclared(String),
    #[error("placeholder `{0}` is declared and not used; use it or take it out of `placeholders`")]
    Unused(String),
}

/// Why a set of prompts cannot be had, or a prompt of it not be rendered.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum PromptError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{}: {source}", path.display())]
    Template {
        path: PathBuf,
        source: TemplateError,
    },
    #[error(
        "{}: no prompt is called `{name}`{}; a file is named after the prompt it replaces, as \
         NAME.md", path.display(), near(nearest)
    )]
    UnknownFile {
        path: PathBuf,
        name: String,
        nearest: Option<String>,
    },
    #[error("{}: the header says `{written}`; name the file {written}.md or mend the header", path.display())]
    NameDiffers { path: PathBuf, written: String },
    #[error(
        "{}: the placeholders are {found}; whoever fills this prompt gives {wanted}, so it has to \
         use these and no other", path.display()
    )]
    PlaceholdersDiffer {
        path: PathBuf,
        found: String,
        wanted: String,
    },
    #[error("no prompt is called `{name}`{}", near(nearest))]
    UnknownPrompt {
        name: String,
        nearest: Option<String>,
    },
    #[error("prompt `{prompt}` needs a value for `{placeholder}`")]
    Missing { prompt: String, placeholder: String },
    #[error("prompt `{prompt}` has no placeholder `{placeholder}`; it has {declared}")]
    Surplus {
        prompt: String,
        placeholder: String,
        declared: String,
    },
    #[error("prompt `{prompt}` is given `{placeholder}` twice")]
    Twice { prompt: String, placeholder: String },
}

fn near(nearest: &Option<String>) -> String {
    match nearest {
        Some(name) => format!("; did you mean `{name}`?"),
        None => String::new(),
    }
}
