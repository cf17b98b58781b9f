//! What the sufficiency judge sees of a long context (Raw-RAG, Appendix G.9).

/// Values of fewer characters are not looked for.
pub const SHORTEST_VALUE: usize = 3;
/// Characters shown at most before and after a match.
pub const AROUND: usize = 900;
/// Characters of an excerpt at most.
pub const LONGEST: usize = 9_000;
/// What stands between two snippets. The paper names the mark and not the line ends around it.
pub const SEPARATOR: &str = "\n[…]\n";

/// An excerpt and how it came about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// At most [`LONGEST`] characters.
    pub text: String,
    /// How many values were found. With none, the text is the head of the context.
    pub found: usize,
}

/// Shows a context around the values of the gold answer.
///
/// Each value of [`SHORTEST_VALUE`] characters or more is looked for in order, literally and
/// without regard to case, and its first match gives a snippet: the match with up to [`AROUND`]
/// characters on either side. Snippets are joined in the order of the values, overlapping ones
/// included, and cut at [`LONGEST`]. Characters are Unicode scalar values.
///
/// ```
/// let context = "Ada: I moved to Łódź in May.";
/// let excerpt = rawrag_scoring::excerpt::excerpt(context, &["ŁÓDŹ", "in"]);
/// assert_eq!((excerpt.text.as_str(), excerpt.found), (context, 1));
/// ```
pub fn excerpt(context: &str, values: &[&str]) -> Excerpt {
    let folded = Folded::new(context);
    let snippets: Vec<&str> = values
        .iter()
        .filter(|value| value.chars().count() >= SHORTEST_VALUE)
        .filter_map(|value| folded.snippet(value))
        .collect();
    let found = snippets.len();
    let joined = snippets.join(SEPARATOR);
    let text = if found == 0 { context } else { &joined };
    Excerpt {
        text: text.chars().take(LONGEST).collect(),
        found,
    }
}

/// A text in lower case, with the way back to its characters.
struct Folded<'a> {
    text: &'a str,
    lower: String,
    /// Where each character begins in the text and in its lower case, and their ends.
    starts: Vec<(usize, usize)>,
}

impl<'a> Folded<'a> {
    fn new(text: &'a str) -> Self {
        let mut lower = String::with_capacity(text.len());
        let mut starts = Vec::with_capacity(text.len() + 1);
        for (at, character) in text.char_indices() {
            starts.push((at, lower.len()));
            lower.extend(character.to_lowercase());
        }
        starts.push((text.len(), lower.len()));
        Self {
            text,
            lower,
            starts,
        }
    }

    /// The first match of a value and what stands around it.
    fn snippet(&self, value: &str) -> Option<&'a str> {
        let value: String = value.chars().flat_map(char::to_lowercase).collect();
        let character = |lower: usize| self.starts.binary_search_by_key(&lower, |&(_, at)| at);
        // A match inside the lower case of one character (`i` in that of `İ`) is none.
        let (first, last) = overlapping(&self.lower, &value).find_map(|at| {
            let ends = (character(at).ok()?, character(at + value.len()).ok()?);
            Some(ends)
        })?;
        let begin = self.starts.get(first.saturating_sub(AROUND))?.0;
        let end = self
            .starts
            .get(last + AROUND)
            .map_or(self.text.len(), |&(at, _)| at);
        self.text.get(begin..end)
    }
}

/// Where a text occurs in another, occurrences that overlap included.
fn overlapping<'a>(text: &'a str, wanted: &'a str) -> impl Iterator<Item = usize> + 'a {
    let step = wanted.chars().next().map_or(1, char::len_utf8);
    let mut from = 0;
    std::iter::from_fn(move || {
        let at = from + text.get(from..)?.find(wanted)?;
        from = at + step;
        Some(at)
    })
}
