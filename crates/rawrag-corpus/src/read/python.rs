//! Python literals, which some releases hold as text: the `repr` of a string, list or dictionary.

/// A value that a Python literal stands for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Literal {
    Text(String),
    /// A number, in its own spelling.
    Number(String),
    Bool(bool),
    None,
    List(Vec<Literal>),
    Dict(Vec<(Literal, Literal)>),
}

/// Where and why a text is no Python literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NotLiteral {
    /// Bytes before what is wrong.
    pub(super) at: usize,
    pub(super) problem: &'static str,
}

/// How deep lists and dictionaries may stand in one another.
const DEPTH: u32 = 32;

/// Reads a text that is one literal: strings (`'`, `"`, `'''`, `"""`, with or without `u`), numbers,
/// `True`, `False`, `None`, lists, tuples and dictionaries of them.
pub(super) fn literal(text: &str) -> Result<Literal, NotLiteral> {
    let mut parser = Parser { text, at: 0 };
    let value = parser.value(0)?;
    parser.skip_space();
    match parser.peek() {
        None => Ok(value),
        Some(_) => Err(parser.wrong("something follows the value")),
    }
}

impl Literal {
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The value under a key of a dictionary.
    pub(super) fn get(&self, key: &str) -> Option<&Literal> {
        match self {
            Self::Dict(items) => items
                .iter()
                .find(|(k, _)| k.text() == Some(key))
                .map(|(_, value)| value),
            _ => None,
        }
    }

    /// The texts of a list that holds nothing else.
    pub(super) fn texts(&self) -> Option<Vec<String>> {
        match self {
            Self::List(items) => items
                .iter()
                .map(|item| item.text().map(str::to_owned))
                .collect(),
            _ => None,
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn value(&mut self, depth: u32) -> Result<Literal, NotLiteral> {
        if depth > DEPTH {
            return Err(self.wrong("lists stand too deep in one another"));
        }
        self.skip_space();
        match self.peek() {
            Some(b'[') => Ok(Literal::List(self.items(b']', depth, Self::value)?)),
            Some(b'(') => Ok(Literal::List(self.items(b')', depth, Self::value)?)),
            Some(b'{') => Ok(Literal::Dict(self.items(b'}', depth, Self::pair)?)),
            Some(b'\'' | b'"') => Ok(Literal::Text(self.strings()?)),
            Some(b'u') if matches!(self.byte(1), Some(b'\'' | b'"')) => {
                self.at += 1;
                Ok(Literal::Text(self.strings()?))
            }
            Some(b'-' | b'+' | b'.' | b'0'..=b'9') => {
                let number = self.take_while(|b| b.is_ascii_alphanumeric() || b"+-._".contains(&b));
                Ok(Literal::Number(number.to_owned()))
            }
            Some(b'A'..=b'Z' | b'a'..=b'z') => self.word(),
            Some(_) => Err(self.wrong("no value begins like this")),
            None => Err(self.wrong("a value is missing")),
        }
    }

    fn pair(&mut self, depth: u32) -> Result<(Literal, Literal), NotLiteral> {
        let key = self.value(depth)?;
        self.skip_space();
        if self.peek() != Some(b':') {
            return Err(self.wrong("a colon is missing after a key"));
        }
        self.at += 1;
        Ok((key, self.value(depth)?))
    }

    fn items<T>(
        &mut self,
        close: u8,
        depth: u32,
        item: fn(&mut Self, u32) -> Result<T, NotLiteral>,
    ) -> Result<Vec<T>, NotLiteral> {
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.skip_space();
            if self.peek() == Some(close) {
                self.at += 1;
                return Ok(items);
            }
            items.push(item(self, depth + 1)?);
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(byte) if byte == close => {}
                _ => return Err(self.wrong("a comma or the closing bracket is missing")),
            }
        }
    }

    /// One string, or several that stand beside each other and are one.
    fn strings(&mut self) -> Result<String, NotLiteral> {
        let mut text = String::new();
        while matches!(self.peek(), Some(b'\'' | b'"')) {
            self.string(&mut text)?;
            self.skip_space();
        }
        Ok(text)
    }

    fn string(&mut self, into: &mut String) -> Result<(), NotLiteral> {
        let rest = &self.text[self.at..];
        let quote = ["'''", "\"\"\"", "'", "\""]
            .into_iter()
            .find(|quote| rest.starts_with(quote))
            .ok_or_else(|| self.wrong("no quote begins the string"))?;
        self.at += quote.len();
        loop {
            let rest = &self.text[self.at..];
            let Some(special) = rest.find(['\\', '\'', '"']) else {
                return Err(self.wrong("a string does not end"));
            };
            into.push_str(&rest[..special]);
            self.at += special;
            let rest = &rest[special..];
            if rest.starts_with(quote) {
                self.at += quote.len();
                return Ok(());
            }
            if rest.starts_with('\\') {
                self.escape(into)?;
            } else {
                // The other quote, or one alone in a string between three.
                into.push_str(&rest[..1]);
                self.at += 1;
            }
        }
    }

    fn escape(&mut self, into: &mut String) -> Result<(), NotLiteral> {
        let character = self.byte(1);
        self.at += 1;
        let plain = match character {
            Some(b'n') => Some('\n'),
            Some(b't') => Some('\t'),
            Some(b'r') => Some('\r'),
            Some(b'\\') => Some('\\'),
            Some(b'\'') => Some('\''),
            Some(b'"') => Some('"'),
            Some(b'0') => Some('\0'),
            Some(b'a') => Some('\u{7}'),
            Some(b'b') => Some('\u{8}'),
            Some(b'f') => Some('\u{c}'),
            Some(b'v') => Some('\u{b}'),
            _ => None,
        };
        if let Some(plain) = plain {
            self.at += 1;
            into.push(plain);
            return Ok(());
        }
        let digits = match character {
            Some(b'x') => 2,
            Some(b'u') => 4,
            Some(b'U') => 8,
            Some(b'\n') => {
                self.at += 1;
                return Ok(());
            }
            // Python keeps the backslash of an escape that it does not know.
            Some(_) => {
                into.push('\\');
                return Ok(());
            }
            None => return Err(self.wrong("a string does not end")),
        };
        let hex = self.text.get(self.at + 1..self.at + 1 + digits);
        let code = hex.and_then(|hex| u32::from_str_radix(hex, 16).ok());
        match code.and_then(char::from_u32) {
            Some(character) => {
                self.at += 1 + digits;
                into.push(character);
                Ok(())
            }
            None => Err(self.wrong("an escape stands for no character")),
        }
    }

    fn word(&mut self) -> Result<Literal, NotLiteral> {
        let at = self.at;
        let word = self.take_while(|b| b.is_ascii_alphanumeric() || b == b'_');
        match word {
            "True" | "true" => Ok(Literal::Bool(true)),
            "False" | "false" => Ok(Literal::Bool(false)),
            "None" | "null" => Ok(Literal::None),
            // `nan`, which pandas leaves where a cell is empty.
            "nan" => Ok(Literal::None),
            _ => Err(NotLiteral {
                at,
                problem: "a word stands where a value is expected",
            }),
        }
    }

    fn take_while(&mut self, test: impl Fn(u8) -> bool) -> &str {
        let start = self.at;
        while self.peek().is_some_and(&test) {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(|b| b.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.byte(0)
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    fn wrong(&self, problem: &'static str) -> NotLiteral {
        NotLiteral {
            at: self.at,
            problem,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Literal, literal};

    fn text(text: &str) -> Literal {
        Literal::Text(text.into())
    }

    /// The right sides are what CPython 3.12 `ast.literal_eval` gives for the left ones.
    #[test]
    fn reads_what_python_writes() {
        for (written, value) in [
            (r#"'it\'s'"#, text("it's")),
            (r#""it's""#, text("it's")),
            (r#"'a\n\t\\b\x41\u00e9\U0001f600'"#, text("a\n\t\\bAé😀")),
            (r#"'\d'"#, text(r"\d")),
            ("'''a'b''c'''", text("a'b''c")),
            ("'a' 'b'", text("ab")),
            ("u'x'", text("x")),
            ("-1.5e3", Literal::Number("-1.5e3".into())),
            (
                "{'role': 'user', 'n': [True, None, 2,], }",
                Literal::Dict(vec![
                    (text("role"), text("user")),
                    (
                        text("n"),
                        Literal::List(vec![
                            Literal::Bool(true),
                            Literal::None,
                            Literal::Number("2".into()),
                        ]),
                    ),
                ]),
            ),
            ("()", Literal::List(vec![])),
        ] {
            assert_eq!(literal(written), Ok(value), "{written}");
        }
    }

    #[test]
    fn names_what_is_no_literal() {
        let shown: Vec<String> = [
            "",
            "'a",
            "'a\\",
            r"'\ud800'",
            r"'\x4'",
            "[1 2]",
            "{'a' 1}",
            "print(1)",
            "1, 2",
            "é",
            &"[".repeat(100),
        ]
        .map(|written| match literal(written) {
            Ok(value) => format!("{written}: {value:?}"),
            Err(error) => format!("{written}: byte {}: {}", error.at, error.problem),
        })
        .into();
        insta::assert_snapshot!(shown.join("\n"));
    }

    proptest! {
        #[test]
        fn never_panics(written in ".*|[\\[{('\"\\\\xuU,:a-f0-9 é]{0,40}") {
            let _ = literal(&written);
        }
    }
}
