//! What a question says about who spoke and when, by its plain words.

use rawrag_corpus::Timestamp;

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// The words of a question, as far as they name speakers or months.
#[derive(Debug)]
pub(crate) struct Cues {
    /// Maximal runs of alphanumeric characters, lower case.
    words: Vec<String>,
    months: Vec<Month>,
}

#[derive(Debug, PartialEq, Eq)]
struct Month {
    month: i8,
    year: Option<i16>,
}

impl Cues {
    pub(crate) fn of(question: &str) -> Self {
        let written: Vec<&str> = split(question).collect();
        let words: Vec<String> = written.iter().map(|word| word.to_lowercase()).collect();
        let months = (0..words.len())
            .filter_map(|at| {
                let month = MONTHS.iter().position(|month| *month == words[at])? as i8 + 1;
                // `may` and `march` are words too: a month only with a capital inside a sentence.
                let word = matches!(words[at].as_str(), "may" | "march");
                if word && (at == 0 || written[at] == words[at]) {
                    return None;
                }
                let year =
                    words.iter().skip(at + 1).take(2).find_map(|word| {
                        word.parse().ok().filter(|year| (1900..2100).contains(year))
                    });
                Some(Month { month, year })
            })
            .collect();
        Self { words, months }
    }

    /// Whether the question holds the speaker's whole name, word by word.
    pub(crate) fn names(&self, speaker: &str) -> bool {
        let name: Vec<String> = split(speaker).map(str::to_lowercase).collect();
        !name.is_empty() && self.words.windows(name.len()).any(|words| words == name)
    }

    /// Whether the question names the month of `date`, and its year where it gives one.
    pub(crate) fn dates(&self, date: Timestamp) -> bool {
        let (month, year) = (date.local.month(), date.local.year());
        self.months
            .iter()
            .any(|named| named.month == month && named.year.is_none_or(|y| y == year))
    }
}

fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speakers_are_named_by_whole_words() {
        let cues = Cues::of("What did Mary Ann's sister tell ÉLODIE?");
        assert!(cues.names("Mary Ann"));
        assert!(cues.names("élodie"));
        assert!(!cues.names("Ann Mary"));
        assert!(!cues.names("Ma"));
        assert!(!cues.names(""));
    }

    #[test]
    fn months_are_named_with_their_year_if_given() {
        let date = |text: &str| text.parse::<Timestamp>().expect("a date");
        let cues = Cues::of("Who called in June 2023, or on 3 may?");
        assert!(cues.dates(date("2023-06-30")));
        assert!(!cues.dates(date("2022-06-30")));
        assert!(!cues.dates(date("2023-05-03")));
        assert!(Cues::of("Was it on 3 May?").dates(date("1999-05-09")));
        assert!(!Cues::of("May I ask who marched?").dates(date("1999-05-09")));
    }
}
