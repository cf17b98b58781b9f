use std::sync::LazyLock;

use regex::Regex;

/// What Python's `str.split()` splits at: Unicode's white space and four ASCII separators.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// The pieces between white space.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_space).filter(|word| !word.is_empty())
}

/// Lower case, without ASCII punctuation and without `articles` that stand as words of their own;
/// the words that are left.
pub(super) fn content_words(text: &str, articles: &[&str]) -> Vec<String> {
    let kept: String = text
        .to_lowercase()
        .chars()
        .filter(|c| !c.is_ascii_punctuation())
        .collect();
    let mut out = String::with_capacity(kept.len());
    let mut word = String::new();
    // A word ends where a letter or digit stands beside anything else.
    let end = |word: &mut String, out: &mut String| {
        out.push_str(if articles.contains(&word.as_str()) {
            " "
        } else {
            word
        });
        word.clear();
    };
    for c in kept.chars() {
        if c.is_alphanumeric() {
            word.push(c);
        } else {
            end(&mut word, &mut out);
            out.push(c);
        }
    }
    end(&mut word, &mut out);
    words(&out).map(str::to_owned).collect()
}

/// Words and punctuation marks by the rules of the Penn Treebank, as nltk 3.9.1 applies them
/// (`word_tokenize` with `preserve_line`): the text is not cut into sentences first, so a full stop
/// is a word of its own only at the end of the text.
pub fn treebank_words(text: &str) -> Vec<String> {
    // Most texts meet few of the rules, and a rule costs more than looking for what it needs.
    let lower = text.to_lowercase();
    let is_due = |rule: &&Rule| rule.needs.iter().any(|needed| lower.contains(needed));
    let mut text = text.to_owned();
    for rule in RULES.before.iter().filter(is_due) {
        rule.apply(&mut text);
    }
    let spaced = text.chars().map(|c| if is_space(c) { ' ' } else { c });
    text = [' '].into_iter().chain(spaced).chain([' ']).collect();
    for rule in RULES.after.iter().filter(is_due) {
        rule.apply(&mut text);
    }
    words(&text).map(str::to_owned).collect()
}

struct Rule {
    pattern: Regex,
    to: &'static str,
    /// Of which the text in lower case holds one, or the rule changes nothing.
    needs: &'static [&'static str],
}

impl Rule {
    fn apply(&self, text: &mut String) {
        if let std::borrow::Cow::Owned(new) = self.pattern.replace_all(text, self.to) {
            *text = new;
        }
    }
}

struct Rules {
    /// For the text as it is.
    before: Vec<Rule>,
    /// For the text between two spaces, with spaces alone as white space.
    after: Vec<Rule>,
}

static RULES: LazyLock<Rules> = LazyLock::new(|| Rules {
    before: compiled(&[
        // Quotation marks that open.
        (r"[«“‘„]|`+", " ${0} ", &["«", "“", "‘", "„", "`"]),
        (r#"^""#, "``", &["\""]),
        (r"``", " ${0} ", &["`", "\""]),
        (r#"([ (\[{<])("|'{2})"#, "${1} `` ", &["\"", "''"]),
        // A letter alone behind an apostrophe, unless it is the rest of a contraction.
        (r"(')([\w--[mtsdnMTSDN]])\b", "${1} ${2}", &["'"]),
        // Punctuation.
        (
            r#"([^.])(\.)([\])}>"'»”’ ]*)\s*$"#,
            "${1} ${2} ${3} ",
            &["."],
        ),
        (r"([:,])([^\d])", " ${1} ${2}", &[":", ","]),
        (r"([:,])$", " ${1} ", &[":", ","]),
        (r"\.{2,}", " ${0} ", &[".."]),
        (r"[;@#$%&]", " ${0} ", &[";", "@", "#", "$", "%", "&"]),
        (r#"([^.])(\.)([\])}>"']*)\s*$"#, "${1} ${2}${3} ", &["."]),
        (r"[?!]", " ${0} ", &["?", "!"]),
        (r"([^'])' ", "${1} ' ", &["'"]),
        (r"[*]", " ${0} ", &["*"]),
        (
            r"[\]\[(){}<>]",
            " ${0} ",
            &["[", "]", "(", ")", "{", "}", "<", ">"],
        ),
        (r"--", " -- ", &["--"]),
    ]),
    after: compiled(&[
        // Quotation marks that close, and contractions.
        (r"[»”’]", " ${0} ", &["»", "”", "’"]),
        (r"''", " '' ", &["'"]),
        (r#"""#, " '' ", &["\""]),
        (r"([^' ])('[sS]|'[mM]|'[dD]|') ", "${1} ${2} ", &["'"]),
        (
            r"([^' ])('ll|'LL|'re|'RE|'ve|'VE|n't|N'T) ",
            "${1} ${2} ",
            &["'"],
        ),
        (r"(?i)\b(can)(not)\b", " ${1} ${2} ", &["cannot"]),
        (r"(?i)\b(d)('ye)\b", " ${1} ${2} ", &["d'ye"]),
        (r"(?i)\b(gim)(me)\b", " ${1} ${2} ", &["gimme"]),
        (r"(?i)\b(gon)(na)\b", " ${1} ${2} ", &["gonna"]),
        (r"(?i)\b(got)(ta)\b", " ${1} ${2} ", &["gotta"]),
        (r"(?i)\b(lem)(me)\b", " ${1} ${2} ", &["lemme"]),
        (r"(?i)\b(more)('n)\b", " ${1} ${2} ", &["more'n"]),
        (r"(?i)\b(wan)(na)(\s)", " ${1} ${2} ${3}", &["wanna"]),
        (r"(?i) ('t)(is)\b", " ${1} ${2} ", &["'tis"]),
        (r"(?i) ('t)(was)\b", " ${1} ${2} ", &["'twas"]),
    ]),
});

fn compiled(rules: &[(&str, &'static str, &'static [&'static str])]) -> Vec<Rule> {
    let compile = |&(pattern, to, needs): &(&str, &'static str, &'static [&'static str])| Rule {
        #[expect(
            clippy::expect_used,
            reason = "the patterns are constants, compiled by every test"
        )]
        pattern: Regex::new(pattern).expect("a constant pattern"),
        to,
        needs,
    };
    rules.iter().map(compile).collect()
}
