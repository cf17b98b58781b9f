//! A local chat model against what numpy computes for the same weights (`tests/gguf/reference.py`).

#![expect(
    clippy::unwrap_used,
    reason = "a test whose model is not there has failed"
)]

use std::path::Path;

use rawrag_models::generate::{GenerateError, Generator, Options, Turn};
use rawrag_models::{Gguf, GgufError};
use serde::Deserialize;

#[derive(Deserialize)]
struct Expected {
    said: String,
    chat_tokens: usize,
    chat: Vec<(u8, f64)>,
    prompt: String,
    top: Vec<(u8, f64)>,
}

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/gguf"))
}

fn tiny() -> (Gguf, Expected) {
    let model = Gguf::load(&folder().join("tiny.gguf"), None).unwrap();
    let text = std::fs::read_to_string(folder().join("expected.json")).unwrap();
    (model, serde_json::from_str(&text).unwrap())
}

fn near(found: f64, wanted: f64) -> bool {
    (found - wanted).abs() < 1e-4
}

/// langchain#923: the message spells a control token, and is read as its letters.
#[test]
fn a_chat_equals_the_reference_and_text_is_no_control_token() {
    let (model, expected) = tiny();
    let messages = [Turn {
        role: "user".into(),
        text: expected.said,
    }];
    let options = Options {
        max_tokens: Some(expected.chat.len()),
        alternatives: 1,
        ..Options::default()
    };
    let reply = model.chat(&messages, &options).unwrap();
    assert_eq!(reply.prompt_tokens, expected.chat_tokens);
    assert!(reply.cut);
    let found: Vec<u8> = reply.tokens.iter().flat_map(|t| t.bytes.clone()).collect();
    let wanted: Vec<u8> = expected.chat.iter().map(|(byte, _)| *byte).collect();
    assert_eq!(found, wanted);
    for (token, (_, logprob)) in reply.tokens.iter().zip(&expected.chat) {
        assert!(near(token.logprob, *logprob), "{} {logprob}", token.logprob);
        assert_eq!(token.alternatives[0], (token.bytes.clone(), token.logprob));
    }
    assert_eq!(reply.text, String::from_utf8_lossy(&wanted));

    // The same again is the same again, whatever was asked between.
    model
        .complete(
            "something else",
            &Options {
                max_tokens: Some(2),
                ..Options::default()
            },
        )
        .unwrap();
    assert_eq!(model.chat(&messages, &options).unwrap(), reply);
    let cut_at = Options {
        stop: vec![String::from_utf8_lossy(&wanted[6..8]).into_owned()],
        ..options
    };
    let stopped = model.chat(&messages, &cut_at).unwrap();
    assert_eq!(
        (stopped.cut, stopped.text),
        (false, String::from_utf8_lossy(&wanted[..6]).into_owned())
    );
}

#[test]
fn a_prompt_of_ones_own_may_hold_control_tokens_and_probabilities_are_told() {
    let (model, expected) = tiny();
    let options = Options {
        max_tokens: Some(1),
        alternatives: expected.top.len(),
        ..Options::default()
    };
    let reply = model.complete(&expected.prompt, &options).unwrap();
    let told = &reply.tokens[0].alternatives;
    assert_eq!(told.len(), expected.top.len());
    for ((bytes, found), (byte, wanted)) in told.iter().zip(&expected.top) {
        assert_eq!(bytes, &[*byte]);
        assert!(near(*found, *wanted), "{found} {wanted}");
    }
}

#[test]
fn a_reply_that_must_be_json_is_an_object_as_far_as_it_goes() {
    let (model, _) = tiny();
    let options = Options {
        max_tokens: Some(20),
        json: true,
        ..Options::default()
    };
    let reply = model.complete("{", &options).unwrap();
    assert!(reply.text.starts_with('{'), "{}", reply.text);
    let begun = reply.text.trim_start_matches('{').trim_start();
    assert!(
        begun.is_empty() || begun.starts_with(['"', '}']),
        "{}",
        reply.text
    );
}

#[test]
fn what_does_not_fit_says_so() {
    let (model, _) = tiny();
    let error = model
        .complete(&"x".repeat(256), &Options::default())
        .unwrap_err();
    assert_eq!(
        error,
        GenerateError::TooLong {
            tokens: 256,
            context: 256
        }
    );
    let error = Gguf::load(Path::new("no-such.gguf"), None).unwrap_err();
    assert!(matches!(error, GgufError::Read { .. }), "{error}");
    let error = Gguf::load(&folder().join("expected.json"), None).unwrap_err();
    assert!(matches!(error, GgufError::Model { .. }), "{error}");
}
