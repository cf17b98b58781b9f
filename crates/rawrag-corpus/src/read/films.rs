//! The films of ReDial: MemoryAgentBench gives its gold answers by number, and the names in
//! `entity2id.json` at the root of its release.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use super::elements::Place;
use crate::error::LoadError;

const FILE: &str = "entity2id.json";

/// Titles by number.
pub(super) struct Films(HashMap<u64, String>);

impl Films {
    /// The list in the folder of `file` or one of the two above it, as the release lies on disk.
    pub(super) fn near(file: &Path) -> Result<Option<Self>, LoadError> {
        let folder = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let mut lists = folder.ancestors().skip(1).take(3).map(|f| f.join(FILE));
        let Some(list) = lists.find(|list| list.is_file()) else {
            return Ok(None);
        };
        let text = fs::read_to_string(&list).map_err(|source| LoadError::Read {
            file: list.clone(),
            source,
        })?;
        let numbers: BTreeMap<String, u64> = Place::whole(&list).parse(&text)?;
        let titles = numbers
            .into_iter()
            .map(|(name, number)| (number, title(&name)));
        Ok(Some(Self(titles.collect())))
    }

    /// The title of a number.
    pub(super) fn title(&self, number: &str) -> Option<&str> {
        let number: u64 = number.parse().ok()?;
        self.0.get(&number).map(String::as_str)
    }
}

/// Whether an answer is a number of a film.
pub(super) fn is_number(answer: &str) -> bool {
    !answer.is_empty() && answer.bytes().all(|byte| byte.is_ascii_digit())
}

/// `<http://dbpedia.org/resource/Panic_Room_(film)>` is `Panic Room`.
fn title(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    let mut title = String::new();
    let mut depth = 0_u32;
    for character in last.chars() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            '_' | '-' | '<' | '>' => title.push(' '),
            other => title.push(other),
        }
    }
    title.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::title;

    #[test]
    fn titles_are_the_ends_of_addresses() {
        for (name, wanted) in [
            (
                "<http://dbpedia.org/resource/Panic_Room_(film)>",
                "Panic Room",
            ),
            ("http://dbpedia.org/resource/Spider-Man", "Spider Man"),
            ("Heat (1995)", "Heat"),
            ("300", "300"),
        ] {
            assert_eq!(title(name), wanted);
        }
    }
}
