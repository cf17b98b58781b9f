//! Outcomes of chat, forms of replies, and what the cache key covers.

use std::collections::HashSet;

use rawrag_models::{
    cache::Mode,
    prices::{Stage, Tokens},
    remote::{
        ChatClient, ChatModel, ChatOutcome, ChatRequest, Message, Provider, RemoteError,
        ReplyFormat,
    },
};
use serde_json::{Value, json};

use crate::{
    Bench, ask, finished, run, said,
    server::{Answer, Server},
};

#[test]
fn every_way_a_service_answers_is_an_outcome_that_is_kept() {
    let content = |text: Value| json!({"role": "assistant", "content": text});
    let refusal = json!({"role": "assistant", "content": null, "refusal": "I will not."});
    let filtered = json!({"error": {"code": "content_filter", "message": "held back"}});
    let cases = [
        (200, said("yes"), ChatOutcome::Answered("yes".into())),
        (
            200,
            finished(content(json!("ye")), "length"),
            ChatOutcome::Cut("ye".into()),
        ),
        (
            200,
            finished(content(json!(" \n")), "stop"),
            ChatOutcome::Empty,
        ),
        (
            200,
            finished(content(Value::Null), "stop"),
            ChatOutcome::Empty,
        ),
        (
            200,
            finished(refusal, "stop"),
            ChatOutcome::Refused("I will not.".into()),
        ),
        (
            200,
            finished(content(json!("so")), "content_filter"),
            ChatOutcome::Filtered("so".into()),
        ),
        (400, filtered, ChatOutcome::Filtered(String::new())),
    ];
    for (status, body, outcome) in cases {
        run(async {
            let mut bench = Bench::new();
            let text = body.to_string();
            let server = Server::start(move |_| Answer::status(status, &text)).await;
            let reply = bench.chat(&server.address).chat(&ask("?")).await.unwrap();
            assert_eq!(reply.outcome, outcome);
            assert_eq!(reply.served.raw, body.to_string());
            bench.reopen(Mode::ReadOnly);
            let again = bench.chat(&server.address).chat(&ask("?")).await.unwrap();
            assert_eq!((again.outcome, again.served.from_cache), (outcome, true));
            assert_eq!(server.calls(), 1);
        });
    }
}

#[test]
fn usage_is_what_the_service_counted() {
    run(async {
        let bench = Bench::new();
        let server = Server::start(|_| Answer::ok(said("yes"))).await;
        let reply = bench.chat(&server.address).chat(&ask("?")).await.unwrap();
        let tokens = Tokens {
            input: 12,
            cached_input: 8,
            output: 3,
            searches: 0,
        };
        assert_eq!(reply.served.tokens, Some(tokens));
        assert_eq!(reply.model.as_deref(), Some("small-2026"));
        assert_eq!(reply.finish_reason.as_deref(), Some("stop"));
    });
}

fn schema() -> ReplyFormat {
    ReplyFormat::Schema {
        name: "label".into(),
        schema: json!({"type": "object"}),
    }
}

#[test]
fn a_service_that_refuses_a_schema_is_asked_for_json_and_then_for_text() {
    run(async {
        let mut bench = Bench::new();
        let server =
            Server::start(
                |request| match request.json()["response_format"]["type"].as_str() {
                    None => Answer::ok(said("yes")),
                    Some(_) => Answer::status(400, json!({"error": {"message": "unknown field"}})),
                },
            )
            .await;
        let mut request = ask("?");
        request.format = schema();
        let reply = bench.chat(&server.address).chat(&request).await.unwrap();
        assert_eq!(reply.outcome.answer(), Some("yes"));
        assert_eq!(bench.clock.slept(), []);
        let asked: Vec<Value> = server.requests().iter().map(|r| r.json()).collect();
        let forms: Vec<&Value> = asked
            .iter()
            .map(|r| &r["response_format"]["type"])
            .collect();
        assert_eq!(
            forms,
            [&json!("json_schema"), &json!("json_object"), &Value::Null]
        );

        // The reviewer replays the same question, not the form that was answered.
        bench.reopen(Mode::ReadOnly);
        let again = bench.chat(&server.address).chat(&request).await.unwrap();
        assert_eq!(again.outcome.answer(), Some("yes"));
        request.format = ReplyFormat::Text;
        let other = bench.chat(&server.address).chat(&request).await;
        assert!(matches!(other, Err(RemoteError::NotCached { .. })));
        assert_eq!(server.calls(), 3);
    });
}

#[test]
fn a_prompt_beyond_the_context_is_no_matter_of_form() {
    run(async {
        let server = Server::start(|_| {
            Answer::status(400, json!({"error": {"code": "context_length_exceeded"}}))
        })
        .await;
        let mut request = ask("?");
        request.format = schema();
        let error = Bench::new()
            .chat(&server.address)
            .chat(&request)
            .await
            .unwrap_err();
        assert!(matches!(error, RemoteError::Refused { .. }), "{error}");
        assert_eq!(server.calls(), 1);
    });
}

#[test]
fn every_field_of_a_request_has_its_own_entry() {
    let base = ask("?");
    let change = |change: fn(&mut ChatRequest)| {
        let mut request = base.clone();
        change(&mut request);
        request
    };
    let requests = [
        base.clone(),
        change(|r| r.messages[0].content = "??".into()),
        change(|r| r.messages[0].role = rawrag_models::remote::Role::System),
        change(|r| r.messages.push(Message::user(""))),
        change(|r| r.temperature = None),
        change(|r| r.temperature = Some(0.7)),
        change(|r| r.max_output = 101),
        change(|r| r.seed = Some(0)),
        change(|r| r.format = ReplyFormat::Json),
        change(|r| r.format = schema()),
        change(|r| r.repetition = 1),
    ];
    run(async {
        let bench = Bench::new();
        let server = Server::start(|_| Answer::ok(said("yes"))).await;
        let chat = bench.chat(&server.address);
        for request in &requests {
            assert!(
                !chat.chat(request).await.unwrap().served.from_cache,
                "{request:?}"
            );
        }
        // So have the model and the address.
        let service = bench.service(Provider::Compatible, &server.address);
        let other = ChatClient::new(service, "large", Stage::Answer);
        assert!(!other.chat(&base).await.unwrap().served.from_cache);
        let elsewhere = bench.chat(&format!("{}/v1", server.address));
        assert!(!elsewhere.chat(&base).await.unwrap().served.from_cache);
        for request in &requests {
            assert!(
                chat.chat(request).await.unwrap().served.from_cache,
                "{request:?}"
            );
        }
        let bodies: HashSet<String> = server.requests().into_iter().map(|r| r.body).collect();
        // A repetition and another address send the same body; all else differs.
        assert_eq!(
            (bodies.len(), server.calls()),
            (requests.len(), requests.len() + 2)
        );
    });
}
