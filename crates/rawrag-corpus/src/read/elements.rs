use std::fmt;
use std::io::BufRead;
use std::path::Path;

use memchr::{memchr_iter, memchr2};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::error::{Fault, LoadError};

/// Where in a file something stands, for errors and reports.
pub(super) struct Place<'a> {
    pub(super) file: &'a Path,
    pub(super) line: Option<u64>,
    /// The element or object meant; empty for the file.
    pub(super) name: String,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) if self.name.is_empty() => write!(f, "line {line}"),
            Some(line) => write!(f, "line {line}, {}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl<'a> Place<'a> {
    /// A file as a whole.
    pub(super) fn whole(file: &'a Path) -> Self {
        Self {
            file,
            line: None,
            name: String::new(),
        }
    }

    /// The same line, under another name.
    pub(super) fn named(&self, name: impl Into<String>) -> Self {
        Self {
            file: self.file,
            line: self.line,
            name: name.into(),
        }
    }

    pub(super) fn error(
        &self,
        field: &str,
        problem: impl Into<String>,
        mend: &'static str,
    ) -> LoadError {
        let joint = if self.name.is_empty() || field.is_empty() {
            ""
        } else {
            ", "
        };
        let field = if field.is_empty() {
            String::new()
        } else {
            format!("field {field}")
        };
        Fault {
            file: self.file.to_owned(),
            line: self.line,
            place: format!("{}{joint}{field}", self.name),
            problem: problem.into(),
            mend,
        }
        .into()
    }

    /// Parses one JSON object, naming line and field of what is wrong in it.
    pub(super) fn parse<'de, T: Deserialize<'de>>(&self, json: &'de str) -> Result<T, LoadError> {
        // Serde would take a list for a struct.
        if !json.trim_start().starts_with('{') {
            return Err(self.error("", "an object was expected here", MISTYPED));
        }
        self.parse_any(json)
    }

    /// Parses one JSON array, as [`Place::parse`] does an object.
    pub(super) fn parse_list<'de, T: Deserialize<'de>>(
        &self,
        json: &'de str,
    ) -> Result<Vec<T>, LoadError> {
        self.parse_any(json)
    }

    fn parse_any<'de, T: Deserialize<'de>>(&self, json: &'de str) -> Result<T, LoadError> {
        serde_json::from_str(json).or_else(|_| {
            // Only now is it worth keeping the path to the field.
            let mut input = serde_json::Deserializer::from_str(json);
            let error = match serde_path_to_error::deserialize(&mut input) {
                Ok(value) => match input.end() {
                    Ok(()) => return Ok(value),
                    Err(error) => return Err(self.json_error("", &error)),
                },
                Err(error) => error,
            };
            let path = error.path().to_string();
            // `.` is the value itself, `?` a field whose name was not reached.
            Err(self.json_error(
                if path == "." || path == "?" {
                    ""
                } else {
                    &path
                },
                error.inner(),
            ))
        })
    }

    fn json_error(&self, field: &str, error: &serde_json::Error) -> LoadError {
        let below = (error.line() as u64).saturating_sub(1);
        let at = Self {
            line: self.line.map(|line| line + below),
            ..self.named(self.name.clone())
        };
        let message = error.to_string();
        let problem = match message.rfind(" at line ") {
            Some(end) => &message[..end],
            None => &message,
        };
        let mend = if error.is_data() {
            MISTYPED
        } else {
            "the JSON is damaged, cut short or nested too deep here: mend it or get the file again"
        };
        at.error(field, problem, mend)
    }
}

/// The elements of the JSON array, or the objects of the JSON lines, that a file consists of, each
/// as text.
///
/// Only the ends of elements are found here; whether an element is valid shows when it is parsed.
pub(super) struct Elements<'a, R> {
    file: &'a Path,
    input: R,
    /// The line that the next byte stands on.
    line: u64,
    /// Elements begun so far.
    count: u64,
    state: State,
    element: Vec<u8>,
    /// Whether JSON lines are read where there is no array.
    lines_too: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    /// Inside an array.
    Inside,
    /// Among objects that stand one after the other.
    Lines,
    End,
}

impl<'a, R: BufRead> Elements<'a, R> {
    pub(super) fn new(file: &'a Path, input: R) -> Self {
        Self {
            file,
            input,
            line: 1,
            count: 0,
            state: State::Start,
            element: Vec::new(),
            lines_too: false,
        }
    }

    /// Reads a file that is an array or JSON lines.
    pub(super) fn or_lines(file: &'a Path, input: R) -> Self {
        Self {
            lines_too: true,
            ..Self::new(file, input)
        }
    }

    /// The next element and where it begins.
    pub(super) fn next(&mut self) -> Result<Option<(&str, Place<'a>)>, LoadError> {
        if self.state == State::Start {
            self.open()?;
        }
        if self.state == State::End {
            return Ok(None);
        }
        let first = self.skip_space()?;
        if self.state == State::Lines {
            return self.next_line(first);
        }
        if first == Some(b']') && self.count == 0 {
            self.input.consume(1);
            self.close()?;
            return Ok(None);
        }
        let place = self.place(format!("element {}", self.count));
        self.count += 1;
        self.take_element(&place)?;
        if self.state == State::End {
            self.close()?;
        }
        if self.element.is_empty() {
            return Err(place.error("", "an element is missing beside a comma", DAMAGED));
        }
        match std::str::from_utf8(&self.element) {
            Ok(json) => Ok(Some((json, place))),
            Err(error) => Err(not_utf8(&place, &self.element, error.valid_up_to())),
        }
    }

    /// As [`Elements::next`], where objects stand one after the other; `first` begins the next one.
    fn next_line(&mut self, first: Option<u8>) -> Result<Option<(&str, Place<'a>)>, LoadError> {
        let place = self.place(format!("object {}", self.count));
        match first {
            None => {
                self.state = State::End;
                return Ok(None);
            }
            Some(b'{') => {}
            Some(_) => {
                let problem = "something other than an object stands between the objects";
                return Err(place.error("", problem, DAMAGED));
            }
        }
        self.count += 1;
        self.element.clear();
        let mut scan = Scan::default();
        loop {
            let available = fill(self.file, &mut self.input)?;
            if available.is_empty() {
                return Err(place.error("", "the file ends inside this object", DAMAGED));
            }
            let (taken, closed) = scan.find_close(available);
            self.element.extend_from_slice(&available[..taken]);
            self.line += lines(&available[..taken]);
            self.input.consume(taken);
            if closed {
                break;
            }
        }
        match std::str::from_utf8(&self.element) {
            Ok(json) => Ok(Some((json, place))),
            Err(error) => Err(not_utf8(&place, &self.element, error.valid_up_to())),
        }
    }

    fn open(&mut self) -> Result<(), LoadError> {
        skip_mark(self.file, &mut self.input)?;
        match self.skip_space()? {
            Some(b'[') => self.input.consume(1),
            Some(b'{') if self.lines_too => {
                self.state = State::Lines;
                return Ok(());
            }
            None => {
                return Err(self.here().error("", "the file is empty", WRONG_FILE));
            }
            Some(_) => {
                return Err(self.here().error(
                    "",
                    "the file is not a JSON array",
                    "give the file as it was released or exported, beginning with [",
                ));
            }
        }
        self.state = State::Inside;
        Ok(())
    }

    fn close(&mut self) -> Result<(), LoadError> {
        self.state = State::End;
        match self.skip_space()? {
            None => Ok(()),
            Some(_) => {
                Err(self
                    .here()
                    .error("", "something follows the end of the array", DAMAGED))
            }
        }
    }

    /// Takes all bytes up to the comma or bracket that ends the element, and that too.
    fn take_element(&mut self, place: &Place<'_>) -> Result<(), LoadError> {
        self.element.clear();
        let mut scan = Scan::default();
        loop {
            let available = fill(self.file, &mut self.input)?;
            if available.is_empty() {
                return Err(place.error("", "the file ends inside this element", DAMAGED));
            }
            let (taken, end) = scan.find_end(available);
            self.element.extend_from_slice(&available[..taken]);
            self.line += lines(&available[..taken]);
            self.input.consume(taken + usize::from(end.is_some()));
            match end {
                None => {}
                Some(b',') => return Ok(()),
                Some(b']') => {
                    self.state = State::End;
                    return Ok(());
                }
                Some(_) => {
                    return Err(place.error("", "a brace closes what was not opened", DAMAGED));
                }
            }
        }
    }

    /// Skips white space; the byte after it, or `None` at the end of the file.
    fn skip_space(&mut self) -> Result<Option<u8>, LoadError> {
        loop {
            let available = fill(self.file, &mut self.input)?;
            if available.is_empty() {
                return Ok(None);
            }
            let spaces = available.iter().position(|byte| !b" \t\r\n".contains(byte));
            let next = spaces.map(|at| available[at]);
            let spaces = spaces.unwrap_or(available.len());
            self.line += lines(&available[..spaces]);
            self.input.consume(spaces);
            if next.is_some() {
                return Ok(next);
            }
        }
    }

    fn here(&self) -> Place<'a> {
        self.place(String::new())
    }

    fn place(&self, name: String) -> Place<'a> {
        Place {
            file: self.file,
            line: Some(self.line),
            name,
        }
    }
}

/// How far an element has been scanned.
#[derive(Default)]
struct Scan {
    depth: u64,
    in_string: bool,
    escaped: bool,
}

impl Scan {
    /// How many of these bytes belong to the element, and the byte that ends it if it does here.
    fn find_end(&mut self, bytes: &[u8]) -> (usize, Option<u8>) {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if self.escaped {
                self.escaped = false;
            } else if self.in_string {
                match memchr2(b'"', b'\\', &bytes[at..]) {
                    None => return (bytes.len(), None),
                    Some(ahead) => {
                        at += ahead;
                        self.escaped = bytes[at] == b'\\';
                        self.in_string = self.escaped;
                    }
                }
            } else {
                match byte {
                    b'"' => self.in_string = true,
                    b'{' | b'[' => self.depth += 1,
                    b'}' | b']' | b',' if self.depth == 0 => return (at, Some(byte)),
                    b'}' | b']' => self.depth -= 1,
                    _ => {}
                }
            }
            at += 1;
        }
        (at, None)
    }

    /// How many of these bytes belong to an object, its closing brace counted, and whether it
    /// closes here.
    fn find_close(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut at = 0;
        while at < bytes.len() {
            let (taken, end) = match self.depth {
                // Only the brace that opens the object stands at depth 0.
                0 => {
                    self.depth = 1;
                    (1, None)
                }
                _ => {
                    // At depth 0 inside the object, so that its own brace is what ends it.
                    self.depth -= 1;
                    let found = self.find_end(&bytes[at..]);
                    self.depth += 1;
                    found
                }
            };
            at += taken;
            match end {
                Some(b'}') => return (at + 1, true),
                // A comma between two fields, or a bracket that closes nothing: parsing tells.
                Some(_) => at += 1,
                None => {}
            }
        }
        (at, false)
    }
}

/// Whether the file is an array, and the field names of the first object in it; no names where
/// the file begins with an object that is damaged.
pub(super) fn first_keys(
    file: &Path,
    input: &mut impl BufRead,
) -> Result<(bool, Option<Vec<String>>), LoadError> {
    skip_mark(file, input)?;
    let mut elements = Elements::new(file, input);
    match elements.skip_space()? {
        None => Err(elements.here().error("", "the file is empty", WRONG_FILE)),
        Some(b'[') => match elements.next()? {
            // Values are not looked at, so anything wrong in them is reported where it is read.
            Some((json, place)) => Ok((true, Some(place.parse::<Keys>(json)?.0))),
            None => Err(elements.here().error("", "the array is empty", WRONG_FILE)),
        },
        Some(b'{') => {
            let mut json = serde_json::Deserializer::from_reader(elements.input);
            Ok((
                false,
                Keys::deserialize(&mut json).ok().map(|Keys(keys)| keys),
            ))
        }
        Some(_) => Err(elements.here().error(
            "",
            "the file is neither a JSON array nor JSON lines",
            "give a file of a known format: LoCoMo, LongMemEval, chat JSONL or ChatGPT export",
        )),
    }
}

/// The field names of an object.
struct Keys(Vec<String>);

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Keys;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
                let mut keys = Vec::new();
                while let Some((key, IgnoredAny)) = map.next_entry()? {
                    keys.push(key);
                }
                Ok(Keys(keys))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

/// Skips a UTF-8 byte order mark and refuses a UTF-16 one.
pub(super) fn skip_mark(file: &Path, input: &mut impl BufRead) -> Result<(), LoadError> {
    let available = fill(file, input)?;
    if available.starts_with(b"\xFF\xFE") || available.starts_with(b"\xFE\xFF") {
        let place = Place {
            file,
            line: Some(1),
            name: String::new(),
        };
        return Err(place.error("", "the file is UTF-16", "save it as UTF-8"));
    }
    if available.starts_with(b"\xEF\xBB\xBF") {
        input.consume(3);
    }
    Ok(())
}

pub(super) fn not_utf8(place: &Place<'_>, bytes: &[u8], valid: usize) -> LoadError {
    let below = lines(&bytes[..valid]);
    let at = Place {
        line: place.line.map(|line| line + below),
        ..place.named(place.name.clone())
    };
    at.error("", "the text is not UTF-8", "save the file as UTF-8")
}

fn lines(bytes: &[u8]) -> u64 {
    memchr_iter(b'\n', bytes).count() as u64
}

pub(super) fn fill<'r>(file: &Path, input: &'r mut impl BufRead) -> Result<&'r [u8], LoadError> {
    input.fill_buf().map_err(|source| LoadError::Read {
        file: file.to_owned(),
        source,
    })
}

pub(super) const WRONG_FILE: &str = "check that it is the file you mean";
const MISTYPED: &str = "rename, add or correct the field as the format asks";
const DAMAGED: &str = "the JSON is damaged or cut short: mend it or get the file again";
