/// A text as its words: lower case, everything but letters and digits parting them, one space
/// between two.
pub fn normal(text: &str) -> String {
    let mut normal = String::with_capacity(text.len());
    for word in words(text) {
        if !normal.is_empty() {
            normal.push(' ');
        }
        normal.extend(word.chars().flat_map(char::to_lowercase));
    }
    normal
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
}

/// What the selection knows of a question (Raw-RAG, C.5, "Gold-informed selection").
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gold {
    phrases: Vec<Phrase>,
    /// The question's words, each once, ascending.
    question: Vec<String>,
}

/// A normalised phrase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phrase {
    /// Its words, a space between two. Never empty.
    pub text: String,
    /// Whether it is a value or an answer, rather than an entity's name.
    pub is_value: bool,
}

impl Phrase {
    /// What it adds to a score, in thirds of a point: three times 4 + min(4, words / 3).
    pub(super) fn thirds(&self) -> u64 {
        12 + self.words().min(12)
    }

    fn words(&self) -> u64 {
        self.text.split(' ').count() as u64
    }
}

impl Gold {
    /// The phrases of a question: `values` (values of entities and the expected answer), then
    /// `names` (of entities, `_` parting words), normalised, each once where it first stands, and
    /// without those that have no word.
    pub fn new<'a>(
        question: &str,
        values: impl IntoIterator<Item = &'a str>,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let values = values.into_iter().map(|value| (value, true));
        let names = names.into_iter().map(|name| (name, false));
        let mut phrases: Vec<Phrase> = Vec::new();
        for (text, is_value) in values.chain(names) {
            let text = normal(text);
            if !text.is_empty() && phrases.iter().all(|phrase| phrase.text != text) {
                phrases.push(Phrase { text, is_value });
            }
        }
        let question = normal(question);
        let mut question: Vec<String> = question.split(' ').map(str::to_owned).collect();
        question.retain(|word| !word.is_empty());
        question.sort_unstable();
        question.dedup();
        Self { phrases, question }
    }

    /// The phrases, in the order given.
    pub fn phrases(&self) -> &[Phrase] {
        &self.phrases
    }

    /// The question's words, each once, ascending.
    pub fn question_words(&self) -> &[String] {
        &self.question
    }
}
