use std::collections::HashSet;

use super::tokens::{content_words, words};

/// Whether the answer is one of the gold answers, both in lower case, without ASCII punctuation and
/// the words *a, an, the* (MemoryAgentBench's exact match). `None` without a gold answer that holds
/// a word.
pub fn exact_match<S: AsRef<str>>(answer: &str, golds: &[S]) -> Option<bool> {
    any_of(answer, golds, |answer, gold| answer == gold)
}

/// Whether the answer contains one of the gold answers, normalised as in [`exact_match`]
/// (MemoryAgentBench's substring match). It looks for characters, not words: *cat* is in
/// *concatenate*. `None` without a gold answer that holds a word, since nothing is in every answer.
pub fn substring_match<S: AsRef<str>>(answer: &str, golds: &[S]) -> Option<bool> {
    any_of(answer, golds, |answer, gold| answer.contains(gold))
}

fn any_of<S: AsRef<str>>(answer: &str, golds: &[S], fits: fn(&str, &str) -> bool) -> Option<bool> {
    let plain = |text: &str| content_words(text, &["a", "an", "the"]).join(" ");
    let mut golds = golds
        .iter()
        .map(|gold| plain(gold.as_ref()))
        .filter(|gold| !gold.is_empty())
        .peekable();
    golds.peek()?;
    let answer = plain(answer);
    Some(golds.any(|gold| fits(&answer, &gold)))
}

/// What stands on the line behind the last `prefix` (`Answer:`), in any case; `None` where there is
/// no prefix or nothing behind it. MemoryAgentBench scores a reply as it is and so, and takes the
/// better.
pub fn after_prefix<'a>(reply: &'a str, prefix: &str) -> Option<&'a str> {
    if prefix.is_empty() {
        return None;
    }
    let mut starts = reply.char_indices().map(|(at, _)| at).rev();
    let behind = starts.find_map(|at| {
        let (head, rest) = reply.get(at..)?.split_at_checked(prefix.len())?;
        head.eq_ignore_ascii_case(prefix).then_some(rest)
    });
    let line = behind?.trim_start().lines().next()?.trim();
    (!line.is_empty()).then_some(line)
}

/// The option that a reply chooses, as its upper-case letter, of the first `options` letters (at
/// most 26).
///
/// In this order: the reply is a letter and marks around it (`(b)`, `**B**`); a letter follows the
/// word *answer*, *option* or *choice* (`The answer is B.`), the last of them if they agree; the
/// reply begins with a letter and a closing mark (`B) because`); exactly one letter stands in
/// round brackets. `None` where none of these holds or two letters contradict one another: a lone
/// *A* or *I* in prose is a word.
pub fn choice_letter(reply: &str, options: u8) -> Option<char> {
    let letter = |text: &str| {
        let mut letters = text.chars();
        let c = letters.next()?.to_ascii_uppercase();
        let known = c.is_ascii_uppercase() && (c as u8 - b'A') < options.min(26);
        (known && letters.next().is_none()).then_some(c)
    };
    let bare = |text: &'_ str| {
        let marks = |c: char| !c.is_alphanumeric();
        letter(text.trim_matches(marks))
    };
    if let Some(found) = bare(reply) {
        return Some(found);
    }
    let tokens: Vec<&str> = words(reply).collect();
    let announced = tokens.iter().enumerate().filter_map(|(i, token)| {
        let word = plain_word(token);
        if !matches!(word.as_str(), "answer" | "option" | "choice") {
            return None;
        }
        let rest = tokens.get(i + 1..)?;
        let (colon, rest) = match rest.first() {
            Some(&(":" | "is:")) => (true, rest.get(1..)?),
            Some(&"is") => (false, rest.get(1..)?),
            _ => (token.ends_with(':'), rest),
        };
        let next = *rest.first()?;
        let alone = next.chars().count() == 1;
        // Without a mark, a lower-case letter is a word, and so may a capital A be.
        let goes_on = |word: &&str| {
            !matches!(
                plain_word(word).as_str(),
                "because" | "since" | "as" | "for" | "and"
            )
        };
        let article = next == "A" && word == "answer" && !colon && rest.get(1).is_some_and(goes_on);
        bare(next).filter(|_| !(alone && (next.chars().all(char::is_lowercase) || article)))
    });
    if let Some(found) = one(announced) {
        return found;
    }
    let first = tokens.first().copied().unwrap_or_default();
    if first.ends_with([')', '.', ':'])
        && first.chars().count() <= 4
        && let Some(found) = bare(first)
    {
        return Some(found);
    }
    let parts: Vec<&str> = reply.split('(').collect();
    let bracketed = parts.windows(2).filter_map(|pair| {
        let [before, part] = pair else { return None };
        let negated = words(before).last().is_some_and(|word| {
            let word = word.to_ascii_lowercase();
            word == "not" || word.ends_with("n't")
        });
        let (inside, _) = part.split_once(')')?;
        letter(inside.trim()).filter(|_| !negated)
    });
    one(bracketed).flatten()
}

/// A token in lower case, without the marks around it.
fn plain_word(token: &str) -> String {
    token
        .trim_matches(|c: char| !c.is_alphanumeric())
        .to_ascii_lowercase()
}

/// `None` without any letter, `Some(None)` where they contradict one another.
fn one(letters: impl Iterator<Item = char>) -> Option<Option<char>> {
    let found: HashSet<char> = letters.collect();
    let mut found = found.into_iter();
    let first = found.next()?;
    Some(found.next().is_none().then_some(first))
}

/// The number of a class that a reply gives: the reply is a number and marks around it, or a number
/// follows the word *label* (`label: 7`, `the label is 7`) and no other number stands behind it.
/// `None` otherwise: a number in prose is no label, nor is a negative one.
pub fn label_number(reply: &str) -> Option<u64> {
    let number = |token: &str| {
        let digits = token.trim_matches(|c: char| !c.is_alphanumeric() && c != '-');
        let whole = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        whole.then(|| digits.parse().ok()).flatten()
    };
    if let Some(found) = number(reply.trim()) {
        return Some(found);
    }
    let spaced = reply.replace([':', '='], " ");
    let tokens: Vec<&str> = words(&spaced).collect();
    let at = tokens
        .iter()
        .rposition(|token| plain_word(token) == "label")?;
    let behind = tokens.get(at + 1..)?;
    let behind = match behind.first() {
        Some(&"is") => behind.get(1..)?,
        _ => behind,
    };
    let (first, rest) = behind.split_first()?;
    let other = |token: &&str| token.bytes().any(|b| b.is_ascii_digit());
    number(first).filter(|_| !rest.iter().any(other))
}

/// The titles that a reply recommends, one a line in its order: of its numbered lines (`1. Heat`,
/// `2) Ran`), or of all that are not empty where none is numbered.
pub fn listed_titles(reply: &str) -> Vec<&str> {
    let lines = || reply.lines().map(str::trim).filter(|line| !line.is_empty());
    let numbered: Vec<&str> = lines()
        .filter_map(|line| {
            let line = line.trim_start_matches(['*', '#', ' ']);
            let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
            let title = rest.strip_prefix(['.', ')'])?;
            (rest.len() < line.len()).then(|| title.trim())
        })
        .filter(|title| !title.is_empty())
        .collect();
    if numbered.is_empty() {
        return lines().collect();
    }
    numbered
}

/// Share of the gold titles among the first `k` recommended ones. Titles are compared in lower
/// case, without a year in brackets, marks, and an article at their beginning or behind a last comma
/// (`Matrix, The (1999)` is `the matrix`); a title counts once. `None` without a gold title.
pub fn recommendation_recall<A: AsRef<str>, G: AsRef<str>>(
    recommended: &[A],
    golds: &[G],
    k: usize,
) -> Option<f64> {
    let set = |titles: &mut dyn Iterator<Item = &str>| -> HashSet<String> {
        titles
            .map(title)
            .filter(|title| !title.is_empty())
            .collect()
    };
    let golds = set(&mut golds.iter().map(AsRef::as_ref));
    let shown = set(&mut recommended.iter().take(k).map(AsRef::as_ref));
    let found = golds.intersection(&shown).count();
    (!golds.is_empty()).then(|| found as f64 / golds.len() as f64)
}

fn title(text: &str) -> String {
    let mut text = text.trim().to_lowercase();
    if let Some((name, year)) = text.rsplit_once('(')
        && let Some(year) = year.strip_suffix(')')
        && year.len() == 4
        && year.bytes().all(|b| b.is_ascii_digit())
    {
        text = name.trim_end().to_owned();
    }
    const ARTICLES: [&str; 3] = ["a", "an", "the"];
    if let Some((name, article)) = text.rsplit_once(',')
        && ARTICLES.contains(&article.trim())
    {
        text = name.to_owned();
    }
    let spaced: String = text
        .chars()
        .map(|c| if c.is_alphanumeric() { c } else { ' ' })
        .collect();
    let mut words: Vec<&str> = words(&spaced).collect();
    if words.len() > 1 && words.first().is_some_and(|word| ARTICLES.contains(word)) {
        words.remove(0);
    }
    words.join(" ")
}

/// Whether the answer names every value, and names them in this order: the values are found one
/// behind the other, normalised as in [`exact_match`] and as whole words. `None` without a value
/// that holds a word.
pub fn listed_in_order<S: AsRef<str>>(answer: &str, values: &[S]) -> Option<bool> {
    let plain = |text: &str| content_words(text, &["a", "an", "the"]);
    let values: Vec<Vec<String>> = values
        .iter()
        .map(|value| plain(value.as_ref()))
        .filter(|value| !value.is_empty())
        .collect();
    if values.is_empty() {
        return None;
    }
    let answer = plain(answer);
    let mut rest = answer.as_slice();
    Some(values.iter().all(|value| {
        let at = rest.windows(value.len()).position(|words| words == value);
        at.is_some_and(|at| {
            rest = rest.get(at + value.len()..).unwrap_or_default();
            true
        })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_gold_answer_is_in_no_answer() {
        assert_eq!(substring_match("anything", &["", " . "]), None);
        assert_eq!(substring_match("anything", &["", "thing"]), Some(true));
        assert_eq!(exact_match::<&str>("", &[]), None);
        assert_eq!(exact_match("The  Cat!", &["dog", "cat"]), Some(true));
        assert_eq!(exact_match("", &["cat"]), Some(false));
    }

    #[test]
    fn the_letter_is_the_chosen_one_and_never_a_word_of_the_prose() {
        let cases = [
            ("B", Some('B')),
            ("(c)", Some('C')),
            ("**D**", Some('D')),
            ("Answer: b.", Some('B')),
            ("The answer is (A).", Some('A')),
            ("The answer is A", Some('A')),
            ("The answer is A dog", None),
            ("the answer is a long one", None),
            ("B) because of the rain", Some('B')),
            ("I would choose (b), since (b) fits", Some('B')),
            ("Either (a) or (b)", None),
            ("Answer: A\nFinal answer: C", None),
            ("A good reply is hard to find", None),
            ("E", None),
            ("", None),
            ("option C", Some('C')),
            ("Option B is wrong, option A is right", None),
            ("The answer is A because it fits", Some('A')),
            ("The answer is not (B)", None),
            ("Not (A)", None),
            ("Final Answer: [D]", Some('D')),
        ];
        for (reply, letter) in cases {
            assert_eq!(choice_letter(reply, 4), letter, "{reply}");
        }
        assert_eq!(choice_letter("A", 0), None);
    }

    #[test]
    fn a_label_is_one_number() {
        let cases = [
            ("23", Some(23)),
            ("label: 7", Some(7)),
            ("Of 77 classes, label 12", Some(12)),
            ("3 or 4", None),
            ("none", None),
            ("(42).", Some(42)),
            ("the label is 5.", Some(5)),
            ("The labels are 3 and 4", None),
            ("label: 5 or 6", None),
            ("I can't label this; there are 77 classes", None),
            ("unlabelled 5", None),
            ("label: -5", None),
            ("label: 99999999999999999999999", None),
        ];
        for (reply, number) in cases {
            assert_eq!(label_number(reply), number, "{reply}");
        }
    }

    #[test]
    fn titles_are_compared_without_year_article_and_marks() {
        let gold = ["Matrix, The (1999)", "Amélie"];
        let shown = ["the matrix", "Amelie", "amélie (2001)", "The Matrix"];
        assert_eq!(recommendation_recall(&shown, &gold, 1), Some(0.5));
        assert_eq!(recommendation_recall(&shown, &gold, 2), Some(0.5));
        assert_eq!(recommendation_recall(&shown, &gold, 3), Some(1.0));
        assert_eq!(recommendation_recall(&shown, &gold, 0), Some(0.0));
        assert_eq!(recommendation_recall(&shown, &[] as &[&str], 3), None);
    }

    #[test]
    fn numbered_lines_are_titles_and_without_any_every_line_is() {
        let numbered = "Here you are:\n1. Heat (1995)\n 2) 12 Angry Men\n**3. Ran**\nEnjoy!";
        let titles = ["Heat (1995)", "12 Angry Men", "Ran**"];
        assert_eq!(listed_titles(numbered), titles);
        assert_eq!(listed_titles("Heat\n\n Ran "), ["Heat", "Ran"]);
        assert_eq!(recommendation_recall(&titles, &["ran"], 3), Some(1.0));
    }

    #[test]
    fn a_history_is_listed_whole_and_in_order() {
        let values = ["Oslo", "New York", "Oslo"];
        let listed = |answer| listed_in_order(answer, &values);
        assert_eq!(
            listed("First Oslo, then the New York, then Oslo."),
            Some(true)
        );
        assert_eq!(listed("Oslo, New York"), Some(false));
        assert_eq!(listed("New York, Oslo, Oslo"), Some(false));
        assert_eq!(listed("Oslos, New York, Oslo"), Some(false));
        assert_eq!(listed_in_order("x", &["!"]), None);
    }

    #[test]
    fn the_last_prefix_counts_and_its_line_only() {
        let reply = "Answer: no\nthinking\nanswer:  Yes, Zürich \nmore";
        assert_eq!(after_prefix(reply, "Answer:"), Some("Yes, Zürich"));
        assert_eq!(after_prefix("ÄAnswer:", "Answer:"), None);
        assert_eq!(after_prefix("nothing", "Answer:"), None);
    }
}
