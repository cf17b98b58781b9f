//! What an answer is worth by its words: one function a metric, each as its source defines it.
//!
//! A score lies between 0 and 1. It is `None` where the gold answer holds nothing to compare with,
//! never 0 or NaN; an empty answer to a gold answer that does hold something is worth 0. Lower
//! case is Unicode's, and white space is what Python splits at, so that the reference libraries
//! give the same tokens.

mod bert;
mod bleu;
mod f1;
mod matching;
mod porter;
mod rouge;
mod tokens;

pub use bert::{BertScore, WordVectors, bert_score};
pub use bleu::{Smoothing, bleu};
pub use f1::{locomo_f1, multi_answer_f1, set_f1, stemmed_f1};
pub use matching::{
    after_prefix, choice_letter, exact_match, label_number, listed_in_order, listed_titles,
    recommendation_recall, substring_match,
};
pub use porter::stem;
pub use rouge::{Rouge, rouge_l, rouge_n, rouge_tokens};
pub use tokens::treebank_words;
