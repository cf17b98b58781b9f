//! BERT's word-piece tokenizer, read from a `tokenizer.json`.
//!
//! Cleaning, spacing of CJK ideographs, accent stripping, lower-casing, splitting at whitespace and
//! punctuation, and greedy longest-match-first word-pieces follow the reference implementation of
//! BERT (`tokenization.py`) as the `tokenizers` library applies it, with one intended difference:
//! text that spells a special token, such as `[SEP]`, is ordinary text. The truncation and padding
//! that the file carries are ignored; the caller knows what the model reads.

use std::{borrow::Cow, collections::HashMap, fs, path::Path};

use rustc_hash::FxBuildHasher;
use serde::Deserialize;
use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

use crate::ModelError;

/// Splits text into word-pieces of one vocabulary.
#[derive(Debug)]
pub(crate) struct WordPiece {
    /// Pieces that start a word as they are, pieces that continue one behind `prefix`.
    vocabulary: Vocabulary,
    prefix: String,
    max_word_chars: usize,
    normalizer: Normalizer,
    unknown: u32,
    /// Id of `[CLS]`, which opens every input.
    pub(crate) cls: u32,
    /// Id of `[SEP]`, which closes every part of an input.
    pub(crate) sep: u32,
}

impl WordPiece {
    /// Reads a `tokenizer.json` whose model is `WordPiece` with BERT's normalizer and splitter.
    pub(crate) fn load(path: &Path) -> Result<Self, ModelError> {
        let read = |source| ModelError::Read {
            path: path.into(),
            source,
        };
        let json = |source| ModelError::Json {
            path: path.into(),
            source,
        };
        let text = fs::read_to_string(path).map_err(read)?;
        let file: TokenizerFile = serde_json::from_str(&text).map_err(json)?;
        let setting = |field, found: &str, supported| ModelError::Setting {
            path: path.into(),
            field,
            found: format!("`{found}`"),
            supported,
        };
        if file.pre_tokenizer.kind != "BertPreTokenizer" {
            return Err(setting(
                "pre_tokenizer.type",
                &file.pre_tokenizer.kind,
                "`BertPreTokenizer`",
            ));
        }
        if file.normalizer.kind != "BertNormalizer" {
            return Err(setting(
                "normalizer.type",
                &file.normalizer.kind,
                "`BertNormalizer`",
            ));
        }
        let model = file.model;
        if model.kind != "WordPiece" {
            return Err(setting("model.type", &model.kind, "`WordPiece`"));
        }
        let id = |token: &str| {
            model
                .vocab
                .get(token)
                .copied()
                .ok_or_else(|| ModelError::Setting {
                    path: path.into(),
                    field: "model.vocab",
                    found: format!("without `{token}`"),
                    supported: "a vocabulary with `[CLS]`, `[SEP]` and the unknown token",
                })
        };
        let (unknown, cls, sep) = (id(&model.unk_token)?, id("[CLS]")?, id("[SEP]")?);
        Ok(Self {
            vocabulary: model.vocab,
            prefix: model.continuing_subword_prefix,
            max_word_chars: model.max_input_chars_per_word,
            normalizer: file.normalizer,
            unknown,
            cls,
            sep,
        })
    }

    /// One more than the largest id.
    pub(crate) fn size(&self) -> usize {
        self.vocabulary
            .values()
            .max()
            .map_or(0, |&id| id as usize + 1)
    }

    /// The word-pieces of `text`, special tokens not added.
    pub(crate) fn pieces(&self, text: &str) -> Vec<u32> {
        let normal = self.normalizer.apply(text);
        let mut pieces = Vec::with_capacity(normal.len() / 4);
        for word in normal.split(char::is_whitespace) {
            let mut rest = word;
            while let Some(first) = rest.chars().next() {
                let len = if is_punctuation(first) {
                    first.len_utf8()
                } else {
                    rest.find(is_punctuation).unwrap_or(rest.len())
                };
                let (token, after) = rest.split_at(len);
                self.split_word(token, &mut pieces);
                rest = after;
            }
        }
        pieces
    }

    fn split_word(&self, word: &str, pieces: &mut Vec<u32>) {
        let before = pieces.len();
        let readable = word.chars().count() <= self.max_word_chars;
        // What is left of the word, and how much of that is the prefix.
        let mut rest = Cow::Borrowed(word);
        let mut prefix = 0;
        while readable && rest.len() > prefix {
            let longest = rest[prefix..].char_indices().rev().find_map(|(at, c)| {
                let end = prefix + at + c.len_utf8();
                self.vocabulary.get(&rest[..end]).map(|&id| (id, end))
            });
            let Some((id, end)) = longest else { break };
            pieces.push(id);
            rest = Cow::Owned([&self.prefix, &rest[end..]].concat());
            prefix = self.prefix.len();
        }
        if rest.len() > prefix {
            pieces.truncate(before);
            pieces.push(self.unknown);
        }
    }
}

/// Ids of pieces. The keys come from the model's own file, so a hash that is quick is enough.
type Vocabulary = HashMap<Box<str>, u32, FxBuildHasher>;

#[derive(Deserialize)]
struct TokenizerFile {
    normalizer: Normalizer,
    pre_tokenizer: PreTokenizer,
    model: Model,
}

#[derive(Deserialize)]
struct PreTokenizer {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct Model {
    #[serde(rename = "type", default = "word_piece")]
    kind: String,
    unk_token: String,
    continuing_subword_prefix: String,
    max_input_chars_per_word: usize,
    vocab: Vocabulary,
}

/// Files of older versions do not name their model's type.
fn word_piece() -> String {
    "WordPiece".into()
}

#[derive(Debug, Deserialize)]
struct Normalizer {
    #[serde(rename = "type")]
    kind: String,
    clean_text: bool,
    handle_chinese_chars: bool,
    strip_accents: Option<bool>,
    lowercase: bool,
}

impl Normalizer {
    fn apply(&self, text: &str) -> String {
        let cleaned = text.chars().filter(|&c| !self.clean_text || !is_removed(c));
        let spaced = cleaned.flat_map(|c| {
            let space = (self.handle_chinese_chars && is_ideograph(c)).then_some(' ');
            space.into_iter().chain([c]).chain(space)
        });
        if self.strip_accents.unwrap_or(self.lowercase) {
            let stripped = spaced
                .nfd()
                .filter(|&c| c.general_category() != GeneralCategory::NonspacingMark);
            self.fold_case(stripped)
        } else {
            self.fold_case(spaced)
        }
    }

    fn fold_case(&self, chars: impl Iterator<Item = char>) -> String {
        if self.lowercase {
            chars.flat_map(char::to_lowercase).collect()
        } else {
            chars.collect()
        }
    }
}

/// Control, format and private-use characters, NUL and the replacement character are dropped;
/// tab and line ends are whitespace; unassigned code points stay and become unknown words.
fn is_removed(c: char) -> bool {
    use GeneralCategory::{Control, Format, PrivateUse};
    match c {
        '\t' | '\n' | '\r' => false,
        '\u{fffd}' => true,
        _ if c.is_ascii() => c.is_ascii_control(),
        _ => matches!(c.general_category(), Control | Format | PrivateUse),
    }
}

/// The CJK blocks that BERT treats as words of one character.
fn is_ideograph(c: char) -> bool {
    matches!(u32::from(c),
        0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x2A6DF | 0x2A700..=0x2B73F
        | 0x2B740..=0x2B81F | 0x2B920..=0x2CEAF | 0x2F800..=0x2FA1F)
}

fn is_punctuation(c: char) -> bool {
    if c.is_ascii() {
        c.is_ascii_punctuation()
    } else {
        c.general_category_group() == GeneralCategoryGroup::Punctuation
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::WordPiece;

    fn small() -> WordPiece {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/cross-encoder/tokenizer.json");
        WordPiece::load(&path).unwrap()
    }

    #[test]
    fn text_that_spells_a_special_token_is_ordinary_text() {
        let tokenizer = small();
        for token in ["[CLS]", "[SEP]", "[MASK]", "[PAD]", "<|endoftext|>"] {
            let pieces = tokenizer.pieces(&format!("the {token} boat"));
            let special = [tokenizer.cls, tokenizer.sep, 0, 4];
            assert!(
                pieces.len() > 3 && !pieces.iter().any(|id| special.contains(id)),
                "{token}: {pieces:?}"
            );
        }
    }

    #[test]
    fn the_longest_piece_wins_and_a_word_that_does_not_split_is_unknown() {
        let tokenizer = small();
        let id = |piece: &str| tokenizer.pieces(piece)[0];
        assert_eq!(
            tokenizer.pieces("Painted, tied."),
            [
                id("paint"),
                tokenizer.vocabulary["##ed"],
                id(","),
                id("tied"),
                id(".")
            ]
        );
        assert_eq!(
            tokenizer.pieces("boatz the"),
            [tokenizer.unknown, id("the")]
        );
    }

    proptest! {
        /// Words never reach over a space, so the pieces of a text are those of its parts.
        #[test]
        fn pieces_of_joined_texts_are_joined(a in any::<String>(), b in any::<String>()) {
            let tokenizer = small();
            let joined = [tokenizer.pieces(&a), tokenizer.pieces(&b)].concat();
            prop_assert!(joined.iter().all(|&id| (id as usize) < tokenizer.size()));
            prop_assert_eq!(tokenizer.pieces(&format!("{a} {b}")), joined);
        }
    }
}
