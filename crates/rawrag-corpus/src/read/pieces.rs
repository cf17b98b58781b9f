//! MemoryAgentBench's contexts cut into pieces.

use std::sync::OnceLock;

/// The most tokens (o200k_base, the encoding of gpt-4o-mini) of a piece: `chunk_size` in the
/// configurations that the benchmark's authors publish. A single sentence may be longer.
pub(super) const PIECE: usize = 4096;

/// Cuts a text into pieces of at most [`PIECE`] tokens, at the ends of sentences or lines, or of
/// labelled examples. Together the pieces are the text, without white space at their ends.
pub(super) fn pieces(text: &str, examples: bool) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut start, mut tokens) = (0, 0);
    let mut at = 0;
    for end in ends(text, examples) {
        let count = count(&text[at..end]);
        if tokens > 0 && tokens + count > PIECE {
            pieces.push(text[start..at].trim());
            (start, tokens) = (at, 0);
        }
        tokens += count;
        at = end;
    }
    pieces.push(text[start..].trim());
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

/// Where sentences and lines, or examples, end, in bytes, ascending; the last is the text's end.
fn ends(text: &str, examples: bool) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if !examples {
            sentence_ends(line, at, &mut ends);
        }
        at += line.len();
        let label = line.trim_start().get(..6);
        if !examples || label.is_some_and(|word| word.eq_ignore_ascii_case("label:")) {
            ends.push(at);
        }
    }
    if ends.last() != Some(&text.len()) {
        ends.push(text.len());
    }
    ends
}

/// A sentence ends after `.`, `!` or `?`, and quotes or brackets that close there, before white
/// space.
fn sentence_ends(line: &str, offset: usize, ends: &mut Vec<usize>) {
    let mut ended = false;
    for (at, character) in line.char_indices() {
        match character {
            '.' | '!' | '?' => ended = true,
            '"' | '\'' | ')' | ']' | '\u{201d}' | '\u{2019}' => {}
            ' ' | '\t' if ended => {
                ends.push(offset + at + 1);
                ended = false;
            }
            _ => ended = false,
        }
    }
}

fn count(text: &str) -> usize {
    static ENCODING: OnceLock<tiktoken::CoreBpe> = OnceLock::new();
    ENCODING
        .get_or_init(tiktoken::encoding::o200k_base)
        .count(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{PIECE, count, pieces};

    #[test]
    fn pieces_end_where_sentences_do() {
        let sentence = "The lighthouse keeper, Dr. Voss, wrote \"All is well.\" in the log. ";
        let text = sentence.repeat(1000);
        let cut = pieces(&text, false);
        assert!(cut.len() > 1);
        for piece in &cut {
            assert!(
                count(piece) <= PIECE && piece.ends_with(['.', '"']),
                "{piece}"
            );
        }
    }

    #[test]
    fn examples_stay_with_their_labels() {
        let text = "How much? And why?\nlabel: 7\n\n".repeat(2000);
        for piece in pieces(&text, true) {
            assert!(piece.starts_with("How much?") && piece.ends_with("label: 7"));
        }
    }

    proptest! {
        /// Nothing but white space is lost, and the order stays.
        #[test]
        fn pieces_are_the_text(text in "[a-z.!? \n\"é]{0,300}", examples: bool) {
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            let joined = pieces(&text, examples).join(" ");
            prop_assert_eq!(words(&joined), words(&text));
        }
    }
}
