//! One test per fault of a service or of the way to it.

use std::{net::TcpListener, sync::Arc, time::Duration};

use rawrag_models::{
    cache::{Mode, export},
    prices::{CostRefused, Meter, PriceTable, Stage, Totals},
    remote::{
        ChatClient, ChatModel, ChatOutcome, Limits, Provider, RemoteEmbedder, RemoteError, Service,
        Settings, Trouble,
    },
};
use serde_json::json;

use crate::{
    Bench, KEY, ask, embedded, run, said,
    server::{Answer, Server},
};

const SECOND: Duration = Duration::from_secs(1);

/// Answers with `faults` in turn, and then well.
async fn after(faults: Vec<fn() -> Answer>) -> Server {
    Server::start(move |request| match faults.get(request.number) {
        Some(fault) => fault(),
        None => Answer::ok(said("under the flowerpot")),
    })
    .await
}

/// The answer that a client gets from such a server in the end.
async fn answer(bench: &Bench, server: &Server) -> Result<String, RemoteError> {
    let reply = bench.chat(&server.address).chat(&ask("Where?")).await?;
    match reply.outcome {
        ChatOutcome::Answered(text) => Ok(text),
        other => panic!("{other:?}"),
    }
}

/// Asks a server that misbehaves throughout.
async fn failure(bench: &Bench, fault: fn() -> Answer) -> (RemoteError, usize) {
    let server = Server::start(move |_| fault()).await;
    let error = answer(bench, &server).await.unwrap_err();
    (error, server.calls())
}

#[test]
fn a_reply_that_never_comes_is_asked_for_again() {
    run(async {
        let mut bench = Bench::new();
        bench.limits.attempt_seconds = 0.3;
        let server = after(vec![|| Answer::Silence]).await;
        assert_eq!(
            answer(&bench, &server).await.unwrap(),
            "under the flowerpot"
        );
        let (answered, _, unknown, _) = bench.counts();
        assert_eq!(answered, 1);
        assert_eq!(unknown as usize, server.calls() - 1);
    });
}

#[test]
fn a_service_that_never_answers_is_given_up() {
    run(async {
        let mut bench = Bench::new();
        bench.limits.attempt_seconds = 0.02;
        bench.limits.attempts = 2;
        let (error, _) = failure(&bench, || Answer::Silence).await;
        let last = Trouble::Timeout;
        assert!(
            matches!(&error, RemoteError::GivenUp { attempts: 2, last: l, .. } if *l == last),
            "{error}"
        );
    });
}

#[test]
fn a_body_that_breaks_off_is_asked_for_again_and_counted_as_maybe_paid() {
    run(async {
        let bench = Bench::new();
        let server = after(vec![|| Answer::CutShort(said("half").to_string())]).await;
        assert_eq!(
            answer(&bench, &server).await.unwrap(),
            "under the flowerpot"
        );
        assert_eq!(server.calls(), 2);
        assert_eq!(bench.counts(), (1, 0, 1, 0));
    });
}

#[test]
fn a_connection_closed_without_a_word_is_tried_again() {
    run(async {
        let bench = Bench::new();
        let server = after(vec![|| Answer::Close, || Answer::Close]).await;
        assert_eq!(
            answer(&bench, &server).await.unwrap(),
            "under the flowerpot"
        );
        assert_eq!(server.calls(), 3);
    });
}

#[test]
fn a_port_where_nobody_listens_costs_nothing() {
    run(async {
        let bench = Bench::new();
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", free.local_addr().unwrap());
        drop(free);
        let error = bench.chat(&address).chat(&ask("Where?")).await.unwrap_err();
        assert!(
            matches!(
                error,
                RemoteError::GivenUp {
                    attempts: 6,
                    last: Trouble::Unreachable(_),
                    ..
                }
            ),
            "{error}"
        );
        assert_eq!(bench.counts(), (0, 6, 0, 0));
    });
}

#[test]
fn encrypted_connections_are_prepared_with_the_systems_certificates() {
    run(async {
        let bench = Bench::new();
        // Every connection is closed before the handshake.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("https://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || listener.incoming().for_each(drop));
        let mut settings = Settings::new(Provider::Compatible).at(address);
        settings.limits.attempts = 1;
        let endpoint = settings.resolve(&|_| None).unwrap();
        let service = match Service::connect(endpoint, &bench.session) {
            Ok(service) => service,
            Err(RemoteError::Prepare { reason, .. }) => {
                println!("skipped: this machine has no usable certificates: {reason}");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        let chat = ChatClient::new(service, "small", Stage::Answer);
        let error = chat.chat(&ask("Where?")).await.unwrap_err();
        assert!(
            matches!(
                error,
                RemoteError::GivenUp {
                    last: Trouble::Unreachable(_),
                    ..
                }
            ),
            "{error}"
        );
        assert_eq!(bench.counts(), (0, 1, 0, 0));
    });
}

#[test]
fn a_busy_service_names_its_pause_in_seconds() {
    run(async {
        let bench = Bench::new();
        let server = after(vec![|| Answer::status(429, "{}").header("retry-after", 7)]).await;
        answer(&bench, &server).await.unwrap();
        assert_eq!(bench.clock.slept(), [7 * SECOND]);
        assert_eq!(bench.counts(), (1, 1, 0, 0));
    });
}

#[test]
fn a_busy_service_names_its_pause_as_a_date() {
    run(async {
        let bench = Bench::new();
        let date = "Thu, 01 Jan 2026 00:00:11 GMT";
        let server = Server::start(move |request| match request.number {
            0 => Answer::status(429, "{}").header("Retry-After", date),
            _ => Answer::ok(said("now")),
        })
        .await;
        answer(&bench, &server).await.unwrap();
        assert_eq!(bench.clock.slept(), [11 * SECOND]);
    });
}

#[test]
fn a_busy_service_that_names_no_pause_gets_doubling_ones() {
    run(async {
        let bench = Bench::new();
        let busy: fn() -> Answer = || Answer::status(429, "{}");
        let server = after(vec![busy; 4]).await;
        answer(&bench, &server).await.unwrap();
        let slept = bench.clock.slept();
        assert_eq!(slept.len(), 4);
        for (pause, most) in slept.iter().zip([1, 2, 4, 8]) {
            assert!(
                *pause <= most * SECOND && *pause >= most * SECOND / 2,
                "{slept:?}"
            );
        }
    });
}

#[test]
fn a_pause_longer_than_the_call_may_take_ends_it_at_once() {
    run(async {
        let mut bench = Bench::new();
        bench.limits.call_seconds = 60.0;
        let busy = || Answer::status(429, "{}").header("retry-after", 3600);
        let (error, calls) = failure(&bench, busy).await;
        assert!(
            matches!(error, RemoteError::OutOfTime { attempts: 1, .. }),
            "{error}"
        );
        assert_eq!((calls, bench.clock.slept().len()), (1, 0));
    });
}

#[test]
fn a_broken_service_is_tried_again_and_then_given_up() {
    run(async {
        let bench = Bench::new();
        let server = after(vec![
            || Answer::status(500, "oops"),
            || Answer::status(529, "{}"),
            || Answer::status(503, ""),
        ])
        .await;
        answer(&bench, &server).await.unwrap();
        assert_eq!(server.calls(), 4);
        let (error, calls) = failure(&Bench::new(), || Answer::status(500, "oops")).await;
        let text = error.to_string();
        assert!(
            text.ends_with("given up after 6 attempts: status 500: oops"),
            "{text}"
        );
        assert_eq!(calls, 6);
    });
}

#[test]
fn a_refusal_that_will_not_change_is_not_repeated() {
    run(async {
        // The words say "rate limit"; the status and the code decide.
        let refusals: [fn() -> Answer; 3] = [
            || {
                Answer::status(
                    401,
                    json!({"error": {"message": "no rate limit", "code": "bad_key"}}),
                )
            },
            || Answer::status(413, "too many requests"),
            || Answer::status(429, json!({"error": {"code": "insufficient_quota"}})),
        ];
        for refusal in refusals {
            let bench = Bench::new();
            let (error, calls) = failure(&bench, refusal).await;
            assert!(matches!(error, RemoteError::Refused { .. }), "{error}");
            assert!(error.is_service_failure());
            assert_eq!((calls, bench.clock.slept().len()), (1, 0));
            assert!(bench.session.cache.as_ref().unwrap().is_empty());
        }
    });
}

#[test]
fn a_failure_under_a_status_of_success_is_one() {
    run(async {
        let bench = Bench::new();
        let server = after(vec![
            || Answer::ok(json!({"error": {"code": 429, "message": "later"}})),
            || {
                Answer::ok(json!({"choices": [{
                    "finish_reason": "error",
                    "message": {"content": ""},
                    "error": {"code": 502},
                }]}))
            },
        ])
        .await;
        assert_eq!(
            answer(&bench, &server).await.unwrap(),
            "under the flowerpot"
        );
        assert_eq!((server.calls(), bench.counts()), (3, (1, 2, 0, 0)));
    });
}

#[test]
fn malformed_replies_are_reported_and_never_kept() {
    run(async {
        let replies: [fn() -> Answer; 4] = [
            || Answer::ok("{\"choices\": [{"),
            || Answer::ok("<html>"),
            || Answer::ok("{}"),
            || Answer::ok(json!({"choices": [said("a")["choices"][0], said("b")["choices"][0]]})),
        ];
        for reply in replies {
            let bench = Bench::new();
            let (error, calls) = failure(&bench, reply).await;
            assert!(matches!(error, RemoteError::Malformed { .. }), "{error}");
            assert_eq!((calls, bench.counts()), (1, (0, 0, 1, 0)));
            assert!(bench.session.cache.as_ref().unwrap().is_empty());
        }
    });
}

#[test]
fn a_reply_without_end_is_broken_off() {
    run(async {
        let mut bench = Bench::new();
        bench.limits.reply_bytes = 10_000;
        let (error, calls) = failure(&bench, || Answer::ok(said(&"a".repeat(20_000)))).await;
        assert!(
            matches!(
                error,
                RemoteError::Refused {
                    trouble: Trouble::TooLong { limit: 10_000 },
                    ..
                }
            ),
            "{error}"
        );
        assert_eq!(calls, 1);
    });
}

#[test]
fn a_redirect_is_not_followed() {
    run(async {
        let elsewhere = Server::start(|_| Answer::ok(said("caught"))).await;
        let address = elsewhere.address.clone();
        let server =
            Server::start(move |_| Answer::status(307, "").header("location", &address)).await;
        let error = answer(&Bench::new(), &server).await.unwrap_err();
        assert!(matches!(error, RemoteError::Refused { .. }), "{error}");
        assert_eq!(elsewhere.calls(), 0);
    });
}

#[test]
fn a_key_that_a_service_echoes_is_seen_nowhere() {
    run(async {
        let bench = Bench::new();
        let server = Server::start(|request| {
            assert!(
                request
                    .head
                    .contains(&format!("authorization: bearer {KEY}"))
            );
            match request.number {
                0 => Answer::status(401, format!("key {KEY} is wrong")),
                1 => Answer::ok(format!("{{{KEY}")),
                _ => Answer::ok(said(&format!("your key is {KEY}"))),
            }
        })
        .await;
        for fault in ["refused", "malformed"] {
            let error = answer(&bench, &server).await.unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(
                shown.contains("[key]") && !shown.contains(KEY),
                "{fault}: {shown}"
            );
        }
        let text = answer(&bench, &server).await.unwrap();
        assert_eq!(text, "your key is [key]");
        let service = bench.service(Provider::Compatible, &server.address);
        let mut kept = Vec::new();
        export(bench.folder.path(), &mut kept).unwrap();
        let rows = format!("{:?}", bench.session.meter.totals());
        let shown = String::from_utf8(kept).unwrap() + &rows + &format!("{service:?}");
        assert!(shown.contains("[key]") && !shown.contains(KEY));
    });
}

#[test]
fn a_service_that_fails_throughout_stops_the_run_with_the_reason() {
    run(async {
        let mut bench = Bench::new();
        bench.limits.failures_in_a_row = 3;
        let server =
            Server::start(|_| Answer::status(404, json!({"error": {"code": "no_model"}}))).await;
        let chat = bench.chat(&server.address);
        for question in 0..3 {
            let error = chat.chat(&ask(&question.to_string())).await.unwrap_err();
            assert!(matches!(error, RemoteError::Refused { .. }), "{error}");
        }
        let error = chat.chat(&ask("one more")).await.unwrap_err();
        let RemoteError::Down {
            failures: 3,
            reason,
            ..
        } = &error
        else {
            panic!("{error}");
        };
        assert!(reason.contains("status 404 (no_model)"), "{reason}");
        assert_eq!(server.calls(), 3);
    });
}

#[test]
fn wrong_counts_orders_and_numbers_of_embeddings() {
    run(async {
        let bench = Bench::new();
        let row = |index: usize, x: f64| json!({"index": index, "embedding": [x, 0, 0]});
        let wrong = [
            json!({"data": [row(0, 1.0)]}),
            json!({"data": [row(0, 1.0), row(0, 2.0)]}),
            json!({"data": [row(0, 1.0), row(2, 2.0)]}),
            json!({"data": [row(0, 1.0), row(1, 1.0), row(2, 1.0)]}),
            json!({"data": [row(0, 1.0), {"index": 1, "embedding": [1, 0]}]}),
            json!({"data": [row(0, 1.0), row(1, 0.0)]}),
            json!({"data": [row(0, 1.0), {"index": 1, "embedding": [1e39, 0, 0]}]}),
            json!({"data": [row(0, 1.0), {"index": 1, "embedding": "AACAfwAAAAAAAAAA"}]}),
            json!({"data": [row(0, 1.0), {"index": 1, "embedding": "AAAA"}]}),
        ];
        for reply in wrong {
            let text = reply.to_string();
            let server = Server::start(move |_| Answer::ok(&text)).await;
            let error = bench
                .embedder(&server.address)
                .embed(&["a", "b"])
                .await
                .unwrap_err();
            assert!(
                matches!(error, RemoteError::Malformed { .. }),
                "{reply}: {error}"
            );
        }
        let turned = json!({"data": [row(1, -4.0), row(0, 3.0)]}).to_string();
        let server = Server::start(move |_| Answer::ok(&turned)).await;
        let found = bench
            .embedder(&server.address)
            .embed(&["a", "b"])
            .await
            .unwrap();
        assert_eq!(found.vectors, [1.0, 0.0, 0.0, -1.0, 0.0, 0.0]);
    });
}

#[test]
fn a_run_that_failed_half_way_pays_only_for_the_rest() {
    run(async {
        let mut bench = Bench::new();
        bench.limits.concurrency = 1;
        let texts = ["a", "bb", "ccc", "dddd", "eeeee", "ffffff", "ggggggg"];
        let failing = Server::start(|request| match request.number {
            2.. => Answer::status(403, "no more money"),
            _ => Answer::ok(embedded(&request.json())),
        })
        .await;
        let client = bench.embedder(&failing.address);
        let error = client.embed(&texts).await.unwrap_err();
        assert!(matches!(error, RemoteError::Refused { .. }), "{error}");
        assert_eq!(failing.calls(), 3, "batches after the failure were sent");
        drop(client);

        // The same address answers again, as after the bill was paid.
        let port = failing.address.clone();
        let whole = Server::start(|request| Answer::ok(embedded(&request.json()))).await;
        let undisturbed = bench.embedder(&whole.address).embed(&texts).await.unwrap();
        assert_eq!(whole.calls(), 4);
        bench.reopen(Mode::ReadOnly);
        let client = bench.embedder(&port);
        let first = client.embed(&texts[..4]).await.unwrap();
        assert_eq!(first.vectors, undisturbed.vectors[..12]);
        let missing = client.embed(&texts).await.unwrap_err();
        assert!(
            matches!(missing, RemoteError::NotCached { .. }),
            "{missing}"
        );
        assert_eq!(failing.calls(), 3, "a read-only run made a call");
    });
}

#[test]
fn equal_calls_made_at_once_are_paid_once() {
    run(async {
        let bench = Bench::new();
        let server = after(vec![]).await;
        let chat = Arc::new(bench.chat(&server.address));
        let tasks: Vec<_> = (0..50)
            .map(|_| {
                let chat = Arc::clone(&chat);
                tokio::spawn(async move { chat.chat(&ask("Where?")).await.unwrap() })
            })
            .collect();
        let mut cached = 0;
        for task in tasks {
            cached += usize::from(task.await.unwrap().served.from_cache);
        }
        assert_eq!((server.calls(), cached), (1, 49));
        assert_eq!(bench.counts(), (1, 0, 0, 49));
    });
}

#[test]
fn asked_to_stop_once_a_run_finishes_what_is_under_way() {
    run(async {
        let bench = Bench::new();
        let stop = bench.session.stop.clone();
        let server = Server::start(move |_| {
            stop.request();
            Answer::ok(said("in time"))
        })
        .await;
        assert_eq!(answer(&bench, &server).await.unwrap(), "in time");
        let error = bench
            .chat(&server.address)
            .chat(&ask("More?"))
            .await
            .unwrap_err();
        assert!(matches!(error, RemoteError::Stopped { .. }), "{error}");
        assert_eq!(server.calls(), 1);
        assert_eq!(bench.session.cache.as_ref().unwrap().len(), 1);
    });
}

#[test]
fn asked_to_stop_twice_a_run_breaks_off() {
    run(async {
        let bench = Bench::new();
        let stop = bench.session.stop.clone();
        let (error, calls) = {
            let server = Server::start(move |_| {
                stop.request();
                stop.request();
                Answer::Silence
            })
            .await;
            (answer(&bench, &server).await.unwrap_err(), server.calls())
        };
        assert!(matches!(error, RemoteError::Stopped { .. }), "{error}");
        assert_eq!((calls, bench.counts()), (1, (0, 0, 1, 0)));
    });
}

#[test]
fn asked_to_stop_a_run_does_not_wait_for_another_attempt() {
    run(async {
        let bench = Bench::new();
        let stop = bench.session.stop.clone();
        let server = Server::start(move |_| {
            stop.request();
            Answer::status(503, "")
        })
        .await;
        let error = answer(&bench, &server).await.unwrap_err();
        assert!(matches!(error, RemoteError::Stopped { .. }), "{error}");
        assert_eq!(server.calls(), 1);
    });
}

#[test]
fn a_cost_limit_refuses_the_call_that_could_pass_it() {
    run(async {
        let mut bench = Bench::new();
        let table = PriceTable::parse(
            "[[price]]\nmodel = \"small\"\ninput = 0.0\noutput = 1000.0\ndated = \"2026-01-01\"\nsource = \"test\"",
        )
        .unwrap();
        // 0.10 expected of a call, 0.003 counted after it.
        let meter = Meter::new(Totals::default()).with_limit(table, "2026-11-30", 0.105);
        bench.session.meter = Arc::new(meter);
        let server = after(vec![]).await;
        let chat = bench.chat(&server.address);
        chat.chat(&ask("one")).await.unwrap();
        chat.chat(&ask("two")).await.unwrap();
        let error = chat.chat(&ask("three")).await.unwrap_err();
        assert!(
            matches!(error, RemoteError::Cost(CostRefused::Limit { .. })),
            "{error}"
        );
        assert_eq!(server.calls(), 2);
        // What is paid for is still there.
        assert!(chat.chat(&ask("two")).await.unwrap().served.from_cache);
    });
}

#[test]
fn calls_keep_to_the_pace_of_the_service() {
    run(async {
        let mut bench = Bench::new();
        bench.limits = Limits {
            requests_per_minute: Some(2),
            ..Limits::default()
        };
        let server = after(vec![]).await;
        let chat = bench.chat(&server.address);
        for question in ["one", "two", "three", "four"] {
            chat.chat(&ask(question)).await.unwrap();
        }
        assert_eq!(bench.clock.slept(), [30 * SECOND; 2]);
    });
}
