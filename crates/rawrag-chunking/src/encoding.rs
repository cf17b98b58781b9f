use std::fmt;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use tiktoken::CoreBpe;

/// A byte-pair encoding of the `tiktoken` family.
///
/// Text that spells a special token (`<|endoftext|>`) is ordinary text here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// Builds windows (Raw-RAG, B.1).
    Cl100kBase,
    /// Counts evidence (Raw-RAG, C.4).
    O200kBase,
}

impl Encoding {
    /// Number of tokens in `text`.
    pub fn count(self, text: &str) -> usize {
        self.tables().bpe.count(text)
    }

    /// The longest prefix of `text` of at most `limit` tokens, in whole characters.
    pub fn prefix(self, text: &str, limit: usize) -> &str {
        let mut lengths = Vec::new();
        self.token_lengths(text, &mut lengths);
        if lengths.len() <= limit {
            return text;
        }
        let end = lengths[..limit].iter().map(|&l| usize::from(l)).sum();
        &text[..text.floor_char_boundary(end)]
    }

    /// Appends the length in bytes of each token of `text`; the lengths add up to `text.len()`.
    pub(crate) fn token_lengths(self, text: &str, lengths: &mut Vec<u16>) {
        let tables = self.tables();
        lengths.extend(
            tables
                .bpe
                .encode(text)
                .iter()
                .map(|&id| tables.length_of(id)),
        );
    }

    fn tables(self) -> &'static Tables {
        static TABLES: [OnceLock<Tables>; 2] = [OnceLock::new(), OnceLock::new()];
        TABLES[self as usize].get_or_init(|| Tables::new(self))
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cl100kBase => "cl100k_base",
            Self::O200kBase => "o200k_base",
        })
    }
}

struct Tables {
    bpe: CoreBpe,
    lengths: Vec<u16>,
}

impl Tables {
    fn new(encoding: Encoding) -> Self {
        let bpe = match encoding {
            Encoding::Cl100kBase => tiktoken::encoding::cl100k_base(),
            Encoding::O200kBase => tiktoken::encoding::o200k_base(),
        };
        let ids = u32::try_from(bpe.vocab_size()).unwrap_or(u32::MAX);
        let lengths = (0..ids)
            .map(|id| u16::try_from(bpe.decode(&[id]).len()).unwrap_or(u16::MAX))
            .collect();
        Self { bpe, lengths }
    }

    fn length_of(&self, id: u32) -> u16 {
        self.lengths.get(id as usize).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AWKWARD: &[&str] = &[
        "",
        "\0",
        "<|endoftext|> then <|fim_prefix|>",
        "family 👨‍👩‍👧‍👦 and e\u{301}\u{302}",
        "٠١٢٣٤٥ ١٢٣",
        "line\u{2028}separator\u{85}next",
        "trailing  \n\n  \t\r\n",
        "don't DON'T we'LL",
        ".\n/path //\r\n//",
        "汉字かな交じり文 한국어 ไทย",
    ];

    fn reference(encoding: Encoding) -> tiktoken_rs::CoreBPE {
        match encoding {
            Encoding::Cl100kBase => tiktoken_rs::cl100k_base(),
            Encoding::O200kBase => tiktoken_rs::o200k_base(),
        }
        .expect("the reference tables load")
    }

    #[test]
    fn ids_equal_tiktoken_rs_on_awkward_text() {
        for encoding in [Encoding::Cl100kBase, Encoding::O200kBase] {
            let reference = reference(encoding);
            for text in AWKWARD {
                let ids = encoding.tables().bpe.encode(text);
                assert_eq!(ids, reference.encode_ordinary(text), "{encoding} {text:?}");
            }
        }
    }

    /// langchain#923: a history that quotes a special token is not an error and not one token.
    #[test]
    fn special_token_text_is_ordinary_text() {
        assert_eq!(Encoding::Cl100kBase.count("<|endoftext|>"), 7);
    }

    #[test]
    fn a_prefix_never_cuts_a_character() {
        let text = "ok 👨‍👩‍👧‍👦";
        for limit in 0..20 {
            assert!(text.starts_with(Encoding::O200kBase.prefix(text, limit)));
        }
        assert_eq!(Encoding::O200kBase.prefix(text, 1), "ok");
        assert_eq!(Encoding::O200kBase.prefix("one two three", 2), "one two");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn ids_equal_tiktoken_rs(text in "(\\PC|[ \\r\\n\\t']){0,60}") {
            static REFERENCE: OnceLock<[tiktoken_rs::CoreBPE; 2]> = OnceLock::new();
            let references = REFERENCE.get_or_init(|| [reference(Encoding::Cl100kBase), reference(Encoding::O200kBase)]);
            for (encoding, reference) in [Encoding::Cl100kBase, Encoding::O200kBase].into_iter().zip(references) {
                prop_assert_eq!(encoding.tables().bpe.encode(&text), reference.encode_ordinary(&text));
                let mut lengths = Vec::new();
                encoding.token_lengths(&text, &mut lengths);
                prop_assert_eq!(lengths.iter().map(|&l| usize::from(l)).sum::<usize>(), text.len());
            }
        }
    }
}
