use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::builtin::BUILTIN;
use crate::template::list;
use crate::{Fingerprint, Prompt, PromptError, Template};

/// Every prompt by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptSet {
    templates: BTreeMap<String, Template>,
}

impl PromptSet {
    /// This project's own wording.
    pub fn builtin() -> Self {
        let templates = BUILTIN.iter().map(|&(name, text)| {
            #[expect(
                clippy::expect_used,
                reason = "a test parses every file that is embedded"
            )]
            let template = Template::parse(text).expect("the embedded prompts are templates");
            (name.to_owned(), template)
        });
        Self {
            templates: templates.collect(),
        }
    }

    /// The built-in set with the files of a folder in place of those they are named after. Every
    /// file of the folder has to be one; a folder with none gives the built-in set.
    ///
    /// # Errors
    /// When the folder or a file cannot be read, a file is named after no prompt or other than in
    /// its header, is no template, or has other placeholders than the prompt it replaces. Files
    /// are read in the order of their names, so the same folder gives the same error.
    pub fn from_folder(folder: &Path) -> Result<Self, PromptError> {
        let io = |path: &Path, source| PromptError::Io {
            path: path.to_owned(),
            source,
        };
        let entries = fs::read_dir(folder).map_err(|source| io(folder, source))?;
        let mut paths = entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|source| io(folder, source))?;
        paths.sort_unstable();
        let mut set = Self::builtin();
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let stem = name.strip_suffix(".md").unwrap_or(&name);
            let known = name.ends_with(".md") && set.templates.contains_key(stem);
            if !known {
                return Err(PromptError::UnknownFile {
                    nearest: set.nearest(stem),
                    name: stem.to_owned(),
                    path: path.clone(),
                });
            }
            let text = fs::read_to_string(&path).map_err(|source| io(&path, source))?;
            let template = Template::parse(&text).map_err(|source| PromptError::Template {
                path: path.clone(),
                source,
            })?;
            set.replace(stem, template, &path)?;
        }
        Ok(set)
    }

    /// The prompts, by name in order.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        self.templates.values()
    }

    /// The prompt of this name.
    ///
    /// # Errors
    /// When there is none; a near name is given.
    pub fn template(&self, name: &str) -> Result<&Template, PromptError> {
        self.templates
            .get(name)
            .ok_or_else(|| PromptError::UnknownPrompt {
                name: name.to_owned(),
                nearest: self.nearest(name),
            })
    }

    /// Fills a prompt, as [`Template::render`] does.
    ///
    /// # Errors
    /// When there is no such prompt, a placeholder has no value, or a value no placeholder.
    pub fn render(&self, name: &str, values: &[(&str, &str)]) -> Result<Prompt, PromptError> {
        self.template(name)?.render(values)
    }

    /// SHA-256 over the names and fingerprints of all prompts, by name in order.
    pub fn fingerprint(&self) -> Fingerprint {
        let entries: Vec<String> = self
            .templates
            .iter()
            .flat_map(|(name, template)| [name.clone(), template.fingerprint().to_string()])
            .collect();
        Fingerprint::of(entries.iter().map(String::as_str))
    }

    fn replace(&mut self, name: &str, new: Template, path: &Path) -> Result<(), PromptError> {
        let path = path.to_owned();
        if new.name() != name {
            return Err(PromptError::NameDiffers {
                path,
                written: new.name().to_owned(),
            });
        }
        let sorted = |template: &Template| {
            let mut names = template.placeholders().to_vec();
            names.sort_unstable();
            names
        };
        let (found, wanted) = (sorted(&new), sorted(self.template(name)?));
        if found != wanted {
            return Err(PromptError::PlaceholdersDiffer {
                path,
                found: list(&found),
                wanted: list(&wanted),
            });
        }
        self.templates.insert(name.to_owned(), new);
        Ok(())
    }

    /// The known name that shares the most words with this one, if any does.
    fn nearest(&self, name: &str) -> Option<String> {
        let words: Vec<&str> = name.split(['-', '_', '.', ' ']).collect();
        let shared = |known: &&String| known.split('-').filter(|w| words.contains(w)).count();
        let best = self.templates.keys().rev().max_by_key(shared)?;
        (shared(&best) > 0).then(|| best.clone())
    }
}
