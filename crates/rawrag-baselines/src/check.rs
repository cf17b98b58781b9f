//! Whether a system does what the trait asks and what it declares: [`check`].

use std::collections::HashSet;
use std::fmt;

use rawrag_corpus::Timestamp;

use crate::ask::{Allowed, units};
use crate::system::{Item, MemorySystem, Namespace, Said, SystemError};

/// What came of each check, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The system's name and version.
    pub system: String,
    /// Each check's name and verdict.
    pub verdicts: Vec<(&'static str, Verdict)>,
}

/// What came of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It held.
    Passed,
    /// It is about a capability that the system does not declare.
    NotClaimed,
    /// It did not hold, and why.
    Failed(String),
}

impl Report {
    /// Whether nothing failed.
    pub fn passed(&self) -> bool {
        let failed = |(_, verdict): &(_, Verdict)| matches!(verdict, Verdict::Failed(_));
        !self.verdicts.iter().any(failed)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.system)?;
        for (name, verdict) in &self.verdicts {
            match verdict {
                Verdict::Passed => writeln!(f, "  passed       {name}")?,
                Verdict::NotClaimed => writeln!(f, "  not claimed  {name}")?,
                Verdict::Failed(reason) => writeln!(f, "  FAILED       {name}: {reason}")?,
            }
        }
        Ok(())
    }
}

/// Takes `system` through the conformance suite, in namespaces that begin with `run`, which must be
/// new.
///
/// The histories are small and about named things, so that a system that stores extracts and not
/// messages can pass as well. Where one check fails the others are still made.
pub fn check(system: &mut dyn MemorySystem, run: &str) -> Report {
    const CHECKS: [(&str, Check); 12] = [
        ("finds something in a full store", finds),
        ("dates kept", dates),
        ("cutoff respected", cutoff),
        ("k respected", most),
        ("k = 0 refused or empty", none_asked),
        ("conversations isolated", isolation),
        ("Unicode", unicode),
        ("special-token text", special_tokens),
        ("empty history", empty),
        ("restart finds its data", restart),
        ("export covers what search returned", export),
        ("decisions belong to units", decisions),
    ];
    let description = system.description();
    let name = format!("{} {}", description.name, description.version);
    let verdicts = CHECKS
        .iter()
        .zip(1..)
        .map(|(&(name, check), number)| {
            let mut stage = Stage {
                system,
                run: format!("{run}-{number}"),
            };
            let verdict = match check(&mut stage) {
                Ok(verdict) => verdict,
                Err(error) => Verdict::Failed(error.to_string()),
            };
            (name, verdict)
        })
        .collect();
    Report {
        system: name,
        verdicts,
    }
}

type Check = fn(&mut Stage<'_>) -> Result<Verdict, SystemError>;

struct Stage<'a> {
    system: &'a mut dyn MemorySystem,
    run: String,
}

/// Two people, three dated sessions, well before any day on which this is run.
const HISTORY: [(u32, &str, &str, &str); 8] = [
    (
        0,
        "2019-03-04T10:00",
        "Runa",
        "I bought a red canoe from Quillfeather in the harbour.",
    ),
    (
        0,
        "2019-03-04T10:01",
        "Bao",
        "My sister Odalys teaches the bassoon in Tarnow.",
    ),
    (
        0,
        "2019-03-04T10:02",
        "Runa",
        "The canoe cost 340 crowns and leaks at the stern.",
    ),
    (
        1,
        "2019-06-11T18:30",
        "Bao",
        "Odalys broke her left wrist skating.",
    ),
    (
        1,
        "2019-06-11T18:31",
        "Runa",
        "I patched the canoe with resin on Sunday.",
    ),
    (
        2,
        "2019-11-20T08:15",
        "Bao",
        "Odalys plays again and has a concert in Lublin.",
    ),
    (
        2,
        "2019-11-20T08:16",
        "Runa",
        "I sold the canoe to the rowing club.",
    ),
    (
        2,
        "2019-11-20T08:17",
        "Bao",
        "Then the harbour has one leak less.",
    ),
];
const QUESTION: &str = "What happened to the canoe from the harbour?";
/// Only in [`HISTORY`].
const MARK: &str = "canoe";

fn history() -> Vec<Said> {
    (0..)
        .zip(HISTORY)
        .map(|(position, (session, date, speaker, text))| Said {
            position,
            session,
            date: date.parse().ok(),
            speaker: speaker.to_owned(),
            text: text.to_owned(),
            captions: Vec::new(),
        })
        .collect()
}

fn texts(texts: &[&str]) -> Vec<Said> {
    let like = history();
    (0..)
        .zip(texts)
        .zip(like)
        .map(|((position, text), said)| Said {
            position,
            session: 0,
            text: (*text).to_owned(),
            ..said
        })
        .collect()
}

impl Stage<'_> {
    fn namespace(&self, name: &str, fresh: bool) -> Namespace {
        Namespace {
            name: format!("{}-{name}", self.run),
            fresh,
            speakers: vec!["Runa".to_owned(), "Bao".to_owned()],
        }
    }

    /// Opens a fresh namespace and adds these messages; returns the number of perspectives.
    fn fill(&mut self, name: &str, messages: &[Said]) -> Result<usize, SystemError> {
        let namespace = self.namespace(name, true);
        let opened = self.system.open(&namespace)?;
        let unit = self.system.description().unit;
        let problem = |error: crate::AskError| SystemError::Contract {
            call: "hello",
            problem: error.to_string(),
        };
        for unit in units(messages, unit).map_err(problem)? {
            self.system.add(unit)?;
        }
        self.system.ready()?;
        Ok(opened.perspectives as usize)
    }

    /// A search whose result is held to the contract.
    fn search(
        &mut self,
        question: &str,
        k: usize,
        perspectives: usize,
        cutoff: Option<Timestamp>,
    ) -> Result<Vec<Item>, SystemError> {
        let items = self.system.search(question, k, cutoff)?;
        let added: HashSet<u32> = (0..HISTORY.len() as u32).collect();
        let allowed = Allowed {
            items: k * perspectives,
            added: &added,
            cutoff,
        };
        allowed.check(&items)?;
        Ok(items)
    }

    fn full(&mut self, k: usize) -> Result<Vec<Item>, SystemError> {
        let perspectives = self.fill("full", &history())?;
        self.search(QUESTION, k, perspectives, None)
    }
}

fn failed(reason: impl Into<String>) -> Result<Verdict, SystemError> {
    Ok(Verdict::Failed(reason.into()))
}

fn finds(stage: &mut Stage<'_>) -> Result<Verdict, SystemError> {
    let items = stage.full(5)?;
    stage.system.close()?;
    if items.is_empty() {
        return failed("nothing was found about a thing that four messages name");
    }
    if stage.system.description().capabilities.provenance
        && items.iter().any(|item| item.messages.is_none())
    {
        return failed("provenance is declared, and an item has none");
    }
    Ok(Verdict::Passed)
}

fn dates(stage: &mut Stage<'_>) -> Result<Verdict, SystemError> {
    if !stage.system.description().capabilities.dates {
        return Ok(Verdict::NotClaimed);
    }
    let items = stage.full(5)?;
    stage.system.close()?;
    let history = history();
    for item in &items {
        let Some(date) = item.date else {
            return failed("an item has no date, and every message has one");
        };
        if !history.iter().any(|said| said.date == Some(date)) {
            return failed(format!("an item is dated {date}, and no message is"));
        }
        let known = item.messages.as_ref().map(|messages| {
            let of = |&at: &u32| history.get(at as usize).and_then(|said| said.date);
            messages.iter().filter_map(of).max()
        });
        if known.is_some_and(|latest| latest != Some(date)) {
            return failed(format!(
                "an item is dated {date}, and its latest message is not"
            ));
        }
    }
    match items.is_empty() {
        true => failed("no item to see a date on"),
        false => Ok(Verdict::Passed),
    }
}

fn cutoff(stage: &mut Stage<'_>) -> Result<Verdict, SystemError> {
    if !stage.system.description().capabilities.cutoff {
        return Ok(Verdict::NotClaimed);
    }
    let perspectives = stage.fill("full", &history())?;
    let until = "2019-07-01".parse().ok();
    let items = stage.search(QUESTION, 5, perspectives, until)?;
    let later = items
        .iter()
        .any(|item| item.messages.iter().flatten().any(|&at| at > 4) || item.text.contains("sold"));
    let before = stage.search(QUESTION, 5, perspectives, "2019-01-01".parse().ok())?;
    stage.system.close()?;
    if later {
        return failed("something said in November was found as of July");
    }
    if !before.is_empty() {
        return failed("something was found as of a day before the first message");
    }
    match items.is_empty() {
        true => failed("nothing was found as of July"),
        false => Ok(Verdict::Passed),
    }
}

fn most(stage: &mut Stage<'_>) -> Result<Verdict, SystemError> {
    let perspectives = stage.fill("full", &history())?;
    for k in [1, 3] {
        stage.search(QUESTION, k, perspectives, None)?;
    }
    stage.system.close()?;
    Ok(Verdict::Passed)
}

fn none_asked(stage: &mut Stage<'_>) -> Result<Verdict, SystemError> {
    stage.fill("full", &history())?;
    let found = stage.system.search(QUESTION, 0, None);
    stage.system.close()?;
    match found {
        Err(SystemError::Refused { .. }) => Ok(Verdict::Passed),
        Ok(items) if items.is_empty() => Ok(Verdict::Passed),
        Ok(items) => failed(format!("{} items were returned", items.len())),
        Err(error) => Err(error),
    }
}

fn isolation(stage: &mut Stage<'_>) -> Result<Verdict, SystemError> {
    stage.full(5)?;
    stage.system.close()?;
    let other = texts(&[
        "The library opens at nine.",
        "I forgot my card at the library again.",
    ]);
    let perspectives = stage.fill("other", &other)?;
    let items = stage.search(QUESTION, 5, perspectives, None)?;
    stage.system.close()?;
    match items.iter().find(|item| item.text.contains(MARK)) {
        Some(item) => failed(format!(
            "another conversation's text was found: {}",
            item.text
        )),
        None => Ok(Verdict::Passed),
    }
}

fn unicode(stage: &mut Stage<'_>) -> Result<Verdict, SystemError> {
    let messages = texts(&[
        "Die Größe des Kanus: 4,20 m \u{1F469}\u{1F3FD}\u{200D}\u{1F680}",
        "傘を電車に忘れました。e\u{301}te\u{301}",
        "\u{202E}right to left\u{202C} and a \u{0} byte",
    ]);
    let perspectives = stage.fill("unicode", &messages)?;
    let items = stage.search("Wie ist die Größe? 傘 \u{1F680}", 5, perspectives, None)?;
    stage.system.close()?;
    if items.iter().any(|item| item.text.contains('\u{FFFD}')) {
        return failed("a character was damaged");
    }
    match items.is_empty() {
        true => failed("nothing was found"),
        false => Ok(Verdict::Passed),
    }
}

fn special_tokens(stage: &mut Stage<'_>) -> Result<Verdict, SystemError> {
    let messages = texts(&[
        "The log ends with <|endoftext|> [SEP] </s> and then nothing.",
        "<|im_start|>system is what I saw before it.",
    ]);
    let perspectives = stage.fill("special", &messages)?;
    let items = stage.search("Which log has <|endoftext|> in it?", 5, perspectives, None)?;
    stage.system.close()?;
    match items.is_empty() {
        true => failed("nothing was found"),
        false => Ok(Verdict::Passed),
    }
}

fn empty(stage: &mut Stage<'_>) -> Result<Verdict, SystemError> {
    let perspectives = stage.fill("empty", &[])?;
    let items = stage.search(QUESTION, 5, perspectives, None)?;
    let stored = match stage.system.description().capabilities.export {
        true => stage.system.export()?.len(),
        false => 0,
    };
    stage.system.close()?;
    match (items.len(), stored) {
        (0, 0) => Ok(Verdict::Passed),
        (found, stored) => failed(format!("{found} items were found and {stored} are stored")),
    }
}

fn restart(stage: &mut Stage<'_>) -> Result<Verdict, SystemError> {
    if !stage.system.description().capabilities.persistence {
        return Ok(Verdict::NotClaimed);
    }
    let before = stage.full(5)?;
    stage.system.close()?;
    let again = stage.namespace("full", true);
    if stage.system.open(&again).is_ok() {
        stage.system.close()?;
        return failed("a fresh conversation could be opened over one that holds data");
    }
    let kept = stage.namespace("full", false);
    let perspectives = stage.system.open(&kept)?.perspectives as usize;
    stage.system.ready()?;
    let after = stage.search(QUESTION, 5, perspectives, None)?;
    stage.system.close()?;
    let texts = |items: &[Item]| {
        let mut texts: Vec<String> = items.iter().map(|item| item.text.clone()).collect();
        texts.sort_unstable();
        texts
    };
    match texts(&before) == texts(&after) && !before.is_empty() {
        true => Ok(Verdict::Passed),
        false => failed(format!(
            "{} items before, and {} others or fewer after",
            before.len(),
            after.len()
        )),
    }
}

fn export(stage: &mut Stage<'_>) -> Result<Verdict, SystemError> {
    if !stage.system.description().capabilities.export {
        return Ok(Verdict::NotClaimed);
    }
    let items = stage.full(5)?;
    let stored = stage.system.export()?;
    stage.system.close()?;
    let ids: HashSet<&str> = stored.iter().map(|stored| stored.id.as_str()).collect();
    if ids.len() < stored.len() {
        return failed("two persisted objects have the same id");
    }
    let messages: HashSet<u32> = stored
        .iter()
        .flat_map(|stored| stored.messages.iter().flatten().copied())
        .collect();
    let covered = |item: &Item| match (&item.stored, &item.messages) {
        (Some(id), _) => ids.contains(id.as_str()),
        (None, Some(from)) if !from.is_empty() => from.iter().all(|at| messages.contains(at)),
        _ => stored.iter().any(|stored| stored.text == item.text),
    };
    match items.iter().find(|item| !covered(item)) {
        Some(item) => failed(format!("search found what export lacks: {}", item.text)),
        None if items.is_empty() => failed("nothing was found"),
        None => Ok(Verdict::Passed),
    }
}

fn decisions(stage: &mut Stage<'_>) -> Result<Verdict, SystemError> {
    if !stage.system.description().capabilities.decisions {
        return Ok(Verdict::NotClaimed);
    }
    stage.full(5)?;
    let decisions = stage.system.decisions()?;
    stage.system.close()?;
    if decisions.is_empty() {
        return failed("a full store, and no decision");
    }
    let most = HISTORY.len() as u32;
    match decisions.iter().find(|decision| decision.unit >= most) {
        Some(decision) => failed(format!("a decision is about unit {}", decision.unit)),
        None => Ok(Verdict::Passed),
    }
}
