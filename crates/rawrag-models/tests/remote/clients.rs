//! What each kind of client sends, and how it reads what comes back.

use std::sync::Arc;

use rawrag_models::{
    Embedder, ModelError, ModelKind, Reranker,
    prices::{Stage, Tokens},
    remote::{
        Blocking, ChatClient, ChatModel, Decider, DecisionClient, DecisionSettings,
        EmbeddingClient, EmbeddingSettings, InputLimits, ListwiseReranker, Message, Oversize,
        Provider, RemoteEmbedder, RemoteError, RemoteReranker, ReplyFormat, RerankClient,
        RerankSettings, YesNoClient, YesNoQuestion, YesNoSettings,
    },
};
use serde_json::{Value, json};

use crate::{
    Bench, ask, embedded, run, said,
    server::{Answer, Request, Server},
};

/// Path and body of every request, each on its line.
fn sent(server: &Server) -> String {
    let line = |request: Request| format!("{} {}\n", request.path, request.body);
    server.requests().into_iter().map(line).collect()
}

#[test]
fn chat_in_the_dialect_of_each_provider() {
    run(async {
        let server = Server::start(|_| Answer::ok(said("yes"))).await;
        let bench = Bench::new();
        let deployment = format!("{}/openai/deployments/d?api-version=1", server.address);
        for (provider, address) in [
            (Provider::Openai, &server.address),
            (Provider::Azure, &deployment),
            (Provider::Ollama, &server.address),
        ] {
            let mut request = ask("Where?");
            request.repetition = provider as u32;
            let chat = ChatClient::new(bench.service(provider, address), "small", Stage::Answer);
            chat.chat(&request).await.unwrap();
        }
        let heads: Vec<String> = server.requests().into_iter().map(|r| r.head).collect();
        assert!(heads[1].contains("\r\napi-key: sk-") && !heads[1].contains("bearer"));
        insta::assert_snapshot!(sent(&server));
    });
}

#[test]
fn embeddings_are_split_and_put_together_in_order() {
    run(async {
        let server = Server::start(|request| Answer::ok(embedded(&request.json()))).await;
        let bench = Bench::new();
        let found = bench
            .embedder(&server.address)
            .embed(&["a", "", "ccc"])
            .await
            .unwrap();
        insta::assert_snapshot!(sent(&server));
        let length = |x: f32| (x * x + 1.0).sqrt();
        assert_eq!(found.dimension, 3);
        for (row, x) in found.vectors.chunks(3).zip([1.0, 1.0, 3.0]) {
            assert!((row[0] - x / length(x)).abs() < 1e-6, "{row:?}");
        }
    });
}

#[test]
fn embeddings_as_base64_and_shortened() {
    run(async {
        // 3, 0 and 4 in little-endian single precision.
        let row = json!({"index": 0, "embedding": "AABAQAAAAAAAAIBA"});
        let reply = json!({"data": [row]}).to_string();
        let server = Server::start(move |_| Answer::ok(&reply)).await;
        let bench = Bench::new();
        let service = bench.service(Provider::Openai, &server.address);
        let settings = EmbeddingSettings {
            model: "m".into(),
            dimension: 3,
            shorten: true,
            inputs: InputLimits::default(),
        };
        let client = EmbeddingClient::new(service, settings, Stage::Write);
        assert_eq!(client.embed(&["a"]).await.unwrap().vectors, [0.6, 0.0, 0.8]);
        insta::assert_snapshot!(sent(&server));
    });
}

#[test]
fn text_embeddings_inference_embeds_and_reranks() {
    run(async {
        let server = Server::start(|request| match request.path.as_str() {
            "/embed" => Answer::ok("[[3, 4], [0, 2]]"),
            _ => Answer::ok(r#"[{"index": 1, "score": 2.5}, {"index": 0, "score": -1}]"#),
        })
        .await;
        let bench = Bench::new();
        let service = bench.service(Provider::Tei, &server.address);
        let inputs = InputLimits {
            oversize: Oversize::Cut,
            ..InputLimits::default()
        };
        let settings = EmbeddingSettings {
            model: "m".into(),
            dimension: 2,
            shorten: false,
            inputs,
        };
        let embedder = EmbeddingClient::new(Arc::clone(&service), settings, Stage::Write);
        let found = embedder.embed(&["a", "b"]).await.unwrap();
        assert_eq!(found.vectors, [0.6, 0.8, 0.0, 1.0]);
        let settings = RerankSettings {
            model: "m".into(),
            inputs: InputLimits::default(),
        };
        let reranker = RerankClient::new(service, settings, Stage::Read);
        let scores = reranker.score("q", &["a", "b"]).await.unwrap();
        assert_eq!(scores.scores, [-1.0, 2.5]);
        insta::assert_snapshot!(sent(&server));
        // This service counts no tokens, so what was expected stands in as uncounted.
        let totals = bench.session.meter.totals();
        assert!(totals.iter().all(|(_, _, sum)| sum.uncounted.input > 0));
    });
}

#[test]
fn coheres_form_of_reranking() {
    run(async {
        let server = Server::start(|_| {
            Answer::ok(json!({
                "results": [
                    {"index": 1, "relevance_score": 0.9},
                    {"index": 0, "relevance_score": 0.1},
                ],
                "meta": {"billed_units": {"search_units": 1}},
            }))
        })
        .await;
        let bench = Bench::new();
        let service = bench.service(Provider::Cohere, &format!("{}/v2", server.address));
        let settings = RerankSettings {
            model: "rerank-v3.5".into(),
            inputs: InputLimits::default(),
        };
        let reranker = RerankClient::new(service, settings, Stage::Read);
        let scores = reranker.score("q", &["a", "b"]).await.unwrap();
        assert_eq!(scores.scores, [0.1, 0.9]);
        assert_eq!(reranker.identity().kind, ModelKind::CrossEncoder);
        assert_eq!(reranker.address(), format!("{}/v2/rerank", server.address));
        insta::assert_snapshot!(sent(&server));
        let totals = bench.session.meter.totals();
        let searches = totals.iter().next().unwrap().2.tokens;
        assert_eq!(
            searches,
            Tokens {
                searches: 1,
                ..Tokens::default()
            }
        );
    });
}

#[test]
fn yes_or_no_reranking_by_probabilities() {
    run(async {
        let server = Server::start(|_| {
            let choice = |index: usize, yes: f64| {
                let no = (1.0 - yes).ln();
                json!({"index": index, "logprobs": {"top_logprobs": [{"yes": yes.ln(), "no": no}]}})
            };
            Answer::ok(json!({
                "choices": [choice(1, 0.25), choice(0, 0.75)],
                "usage": {"prompt_tokens": 60, "completion_tokens": 2},
            }))
        })
        .await;
        let settings = YesNoSettings {
            model: "m".into(),
            system: "Say yes or no.".into(),
            instruction: "Find the keys.".into(),
            inputs: InputLimits::default(),
        };
        let bench = Bench::new();
        let service = bench.service(Provider::Vllm, &server.address);
        let reranker = YesNoClient::new(service, settings, Stage::Read);
        let scores = reranker.score("q", &["a", "b"]).await.unwrap().scores;
        assert!((scores[0] - 0.75).abs() < 1e-6 && (scores[1] - 0.25).abs() < 1e-6);
        insta::assert_snapshot!(sent(&server));
    });
}

#[test]
fn listwise_reranking_by_a_chat_model() {
    run(async {
        let bench = Bench::new();
        let server = Server::start(|request| match request.number {
            0 => Answer::ok(said("[3, 1, 2]")),
            _ => Answer::ok(said("The third one.")),
        })
        .await;
        let reranker = |question: &'static str| {
            let prompt = move |query: &str, passages: &[&str]| {
                vec![Message::user(format!(
                    "{question} {query} {}",
                    passages.join("|")
                ))]
            };
            let chat = Arc::new(bench.chat(&server.address));
            ListwiseReranker::new(chat, Arc::new(prompt), 50, ReplyFormat::Text)
        };
        let orders = reranker("Order by relevance:");
        let scores = orders.score("q", &["a", "b", "c"]).await.unwrap();
        assert_eq!(scores.scores, [1.0, 0.0, 2.0]);
        assert_eq!(orders.identity().kind, ModelKind::Listwise);
        let alone = orders.score("q", &["a"]).await.unwrap();
        assert_eq!((alone.scores, server.calls()), (vec![0.0], 1));
        let error = reranker("Talk about:")
            .score("q", &["a", "b"])
            .await
            .unwrap_err();
        let RemoteError::Unparsed { reply, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(reply, "The third one.");
    });
}

fn question() -> YesNoQuestion {
    YesNoQuestion {
        instructions: "Is `{item}` of use for `query`?".into(),
        yes: "It is.".into(),
        no: "It is not.".into(),
    }
}

/// Answers every question with a tenth of the number of letters of its item, and finds more than
/// `most` letters too long.
fn decided(request: &Value, most: usize) -> Answer {
    let questions = request["questions"].as_object().unwrap();
    let letters = |key: &String| request["state"][key].as_str().unwrap().len();
    if questions.keys().map(letters).sum::<usize>() > most {
        let detail = json!({"error_type": "max_tokens_exceeded"});
        return Answer::status(422, json!({"detail": detail}));
    }
    let answers: serde_json::Map<String, Value> = questions
        .keys()
        .map(|key| {
            (
                key.clone(),
                json!({"type": "noul", "noul": letters(key) as f64 / 10.0}),
            )
        })
        .collect();
    Answer::ok(json!({
        "model": "jev-1.13.0",
        "usage": {"input_tokens": 100, "output_tokens": 0},
        "answers": answers,
    }))
}

fn decider(bench: &Bench, server: &Server, items: usize) -> DecisionClient {
    let service = bench.service(Provider::Systemone, &server.address);
    let mut settings = DecisionSettings::new("jev-1.13.0");
    settings.items = items;
    DecisionClient::new(service, settings, Stage::Read)
}

#[test]
fn decisions_are_asked_in_jevs_form() {
    run(async {
        let bench = Bench::new();
        let server = Server::start(|request| decided(&request.json(), 100)).await;
        let decider = decider(&bench, &server, 2);
        let items = ["a", "bb", "ccc"];
        let decisions = decider.decide("q", &items, &question()).await.unwrap();
        assert_eq!(decisions.probabilities, [0.1, 0.2, 0.3]);
        assert_eq!(decisions.requests, 2);
        insta::assert_snapshot!(sent(&server));
    });
}

#[test]
fn requests_that_the_service_finds_too_long_are_halved() {
    run(async {
        let bench = Bench::new();
        let server = Server::start(|request| decided(&request.json(), 4)).await;
        let client = decider(&bench, &server, 30);
        let items = ["a", "bb", "ccc", "dddd"];
        let decisions = client.decide("q", &items, &question()).await.unwrap();
        assert_eq!(decisions.probabilities, [0.1, 0.2, 0.3, 0.4]);
        assert_eq!((decisions.requests, server.calls()), (5, 5));
        // The whole path is replayed from the cache.
        client.decide("q", &items, &question()).await.unwrap();
        assert_eq!(server.calls(), 5);
        let error = client
            .decide("q", &["a", "eeeee"], &question())
            .await
            .unwrap_err();
        assert!(
            matches!(error, RemoteError::ItemTooLong { item: 1, .. }),
            "{error}"
        );
    });
}

#[test]
fn decisions_must_match_the_questions_asked() {
    run(async {
        let yes = json!({"type": "noul", "noul": 0.5});
        for answers in [
            json!({}),
            json!({"item_1": yes, "item_2": yes}),
            json!({"item_2": yes}),
            json!({"item_1": {"type": "choice", "noul": 0.5}}),
            json!({"item_1": {"type": "noul", "noul": 1.5}}),
            json!({"item_1": {"type": "noul", "noul": null}}),
        ] {
            let reply = json!({"answers": answers}).to_string();
            let server = Server::start(move |_| Answer::ok(&reply)).await;
            let decider = decider(&Bench::new(), &server, 30);
            let error = decider.decide("q", &["a"], &question()).await.unwrap_err();
            assert!(
                matches!(error, RemoteError::Malformed { .. }),
                "{answers}: {error}"
            );
        }
    });
}

#[test]
fn retrieval_uses_remote_models_as_it_uses_local_ones() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let server = runtime.block_on(Server::start(|request| match request.path.as_str() {
        "/embeddings" => Answer::ok(embedded(&request.json())),
        _ => Answer::ok(json!({"results": [{"index": 0, "relevance_score": 0.5}]})),
    }));
    let bench = Bench::new();
    let embedder = Blocking::new(bench.embedder(&server.address)).unwrap();
    let embedder: &dyn Embedder = &embedder;
    let found = embedder.embed(&["a", "b", "c"]).unwrap();
    assert_eq!((found.vectors.len(), embedder.dimension()), (9, 3));
    let settings = RerankSettings {
        model: "m".into(),
        inputs: InputLimits::default(),
    };
    let service = bench.service(Provider::Compatible, &server.address);
    let reranker = Blocking::new(RerankClient::new(service, settings, Stage::Read)).unwrap();
    let reranker: &dyn Reranker = &reranker;
    assert_eq!(reranker.score("q", &["a"]).unwrap().scores, [0.5]);
    let inside = runtime.block_on(async { embedder.embed(&["d"]) });
    assert!(matches!(
        inside,
        Err(ModelError::Remote(RemoteError::Runtime(_)))
    ));
}
