//! The models beside their reference implementations; `data/reference.py` made the expected values.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "test support outside of test functions"
)]

use std::{
    fs,
    path::{Path, PathBuf},
};

use rawrag_models::{
    CrossEncoder, Embedder, Minilm, ModelError, ModelKind, Reranker, TokenEncoder, store,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Expected {
    pieces: Vec<Pieces>,
    minilm: Vec<Vectors>,
    cross_encoder: Vec<Pairs>,
}

#[derive(Deserialize)]
struct Pieces {
    text: String,
    ids: Vec<u32>,
}

#[derive(Deserialize)]
struct Vectors {
    text: String,
    vector: Vec<f32>,
    token_sums: Vec<f32>,
}

#[derive(Deserialize)]
struct Pairs {
    query: String,
    passages: Vec<String>,
    scores: Vec<f32>,
    truncated: usize,
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

fn expected() -> Expected {
    serde_json::from_slice(&fs::read(data("expected.json")).unwrap()).unwrap()
}

/// The model, or `None` after saying why the test is skipped.
fn minilm() -> Option<Minilm> {
    match store::folder(None).and_then(|folder| store::locate(&store::MINILM, &folder)) {
        Ok(dir) => Some(Minilm::load(&dir).unwrap()),
        Err(reason) => {
            eprintln!("skipped: {reason}");
            None
        }
    }
}

fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter()
        .zip(b)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max)
}

#[test]
fn word_pieces_equal_those_of_the_tokenizers_library() {
    let Some(model) = minilm() else { return };
    for case in expected().pieces {
        let encoded = model.encode_tokens(&[&case.text]).unwrap().remove(0);
        assert_eq!(encoded.pieces, case.ids, "{:?}", case.text);
        assert_eq!(model.count_tokens(&case.text), case.ids.len());
    }
}

#[test]
fn minilm_equals_transformers_to_1e_5() {
    let Some(model) = minilm() else { return };
    let cases = expected().minilm;
    let texts: Vec<&str> = cases.iter().map(|case| &*case.text).collect();
    let embeddings = model.embed(&texts).unwrap();
    assert_eq!((embeddings.dimension, embeddings.truncated), (384, 1));
    let tokens = model.encode_tokens(&texts).unwrap();
    for ((case, vector), tokens) in cases
        .iter()
        .zip(embeddings.vectors.chunks(384))
        .zip(&tokens)
    {
        assert!(
            largest_difference(vector, &case.vector) < 1e-5,
            "{}",
            case.text
        );
        assert!(
            largest_difference(&tokens.pooled, vector) < 1e-6,
            "{}",
            case.text
        );
        // transformers reads the beginning of the long one, which is the first pass here.
        let sums: Vec<f32> = tokens
            .vectors
            .chunks(384)
            .take(case.token_sums.len())
            .map(|row| row.iter().sum())
            .collect();
        assert!(
            largest_difference(&sums, &case.token_sums) < 1e-4,
            "{}",
            case.text
        );
        assert_eq!(tokens.pieces.len(), model.count_tokens(&case.text));
    }
}

/// A long message's end is found like its beginning: it is read in a pass of its own.
#[test]
fn token_vectors_reach_to_the_end_of_a_long_text() {
    let Some(model) = minilm() else { return };
    let long = "It rained again. ".repeat(90) + "The heron took the silver key.";
    let end = "the heron took the silver key.";
    let [whole, end] = [&*long, end].map(|text| model.encode_tokens(&[text]).unwrap().remove(0));
    assert_eq!(whole.pieces.len(), model.count_tokens(&long));
    assert_eq!(whole.vectors.len(), 384 * whole.pieces.len());
    assert!(whole.pieces.len() > 254 && whole.pieces.ends_with(&end.pieces));
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    for piece in end.vectors.chunks(384) {
        let best = whole.vectors.chunks(384).map(|row| dot(row, piece));
        assert!(best.fold(-1.0, f32::max) > 0.4);
    }
    let empty = model.encode_tokens(&["", "a"]).unwrap();
    assert!(empty[0].pieces.is_empty() && empty[1].pieces.len() == 1);
}

#[test]
fn a_text_has_one_vector_whatever_it_is_batched_with() {
    let Some(model) = minilm() else { return };
    let texts: Vec<String> = (0..24)
        .map(|i| format!("Message {i}. {}", "It rained again. ".repeat(i * i % 47)))
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let together = model.embed(&texts).unwrap();
    for (i, row) in together.vectors.chunks(384).enumerate().step_by(5) {
        let alone = model.embed(&texts[i..=i]).unwrap();
        assert!(largest_difference(&alone.vectors, row) < 1e-6, "{i}");
    }
    assert!(model.embed(&[]).unwrap().vectors.is_empty());
}

#[test]
fn minilm_says_which_weights_it_has() {
    let Some(model) = minilm() else { return };
    let identity = Embedder::identity(&model);
    assert_eq!(identity.name, "sentence-transformers/all-MiniLM-L6-v2");
    assert_eq!(identity.kind, ModelKind::Embedder);
    assert_eq!(identity.sha256.as_deref(), store::MINILM.files[2].sha256);
}

#[test]
fn cross_encoder_equals_transformers_at_any_length() {
    let model = CrossEncoder::load(&data("cross-encoder")).unwrap();
    assert_eq!(
        (&*model.identity().name, model.identity().kind),
        ("cross-encoder", ModelKind::CrossEncoder)
    );
    for case in expected().cross_encoder {
        let passages: Vec<&str> = case.passages.iter().map(String::as_str).collect();
        let scores = model.score(&case.query, &passages).unwrap();
        assert!(
            largest_difference(&scores.scores, &case.scores) < 1e-5,
            "{:?} {:?}",
            scores.scores,
            case.scores
        );
        assert_eq!(scores.truncated, case.truncated);
    }
}

#[test]
fn damaged_models_are_refused_with_the_file_and_the_part() {
    let replaced = |file: &str, from: &str, to: &str| {
        let dir = tempfile::tempdir().unwrap();
        for name in ["config.json", "tokenizer.json", "model.safetensors"] {
            let mut bytes = fs::read(data("cross-encoder").join(name)).unwrap();
            if name == file {
                let at = bytes
                    .windows(from.len())
                    .position(|w| w == from.as_bytes())
                    .unwrap();
                bytes.splice(at..at + from.len(), to.bytes());
            }
            fs::write(dir.path().join(name), bytes).unwrap();
        }
        let error = CrossEncoder::load(dir.path()).err().unwrap();
        error
            .to_string()
            .replace(&*dir.path().to_string_lossy(), "DIR")
    };
    let weights = "model.safetensors";
    let cases = [
        replaced("config.json", "\"gelu\"", "\"relu\""),
        replaced(
            "config.json",
            "\"num_attention_heads\": 3",
            "\"num_attention_heads\": 0",
        ),
        replaced("config.json", "\"vocab_size\": 51", "\"vocab_size\": 50"),
        replaced(
            "config.json",
            "\"intermediate_size\": 40",
            "\"intermediate_size\": 41",
        ),
        replaced("config.json", "\"hidden_size\": 24,", ""),
        replaced(
            "tokenizer.json",
            "\"WordPiece\",\n  \"unk_token\"",
            "\"BPE\",\n  \"unk_token\"",
        ),
        replaced("tokenizer.json", "\"[CLS]\": 2", "\"[CLX]\": 2"),
        replaced(weights, "classifier.bias", "classifier.bios"),
        replaced(weights, "\"dtype\":\"F32\"", "\"dtype\":\"I32\""),
        replaced(weights, "}}", "}"),
    ];
    insta::assert_snapshot!(cases.join("\n"));
}

#[test]
fn an_absent_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let error = Minilm::load(dir.path()).err().unwrap();
    assert!(
        matches!(&error, ModelError::Read { path, .. } if path.ends_with("config.json")),
        "{error}"
    );
}
