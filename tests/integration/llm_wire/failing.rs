//! Every way a provider can fail, told from the wire.

use super::*;

#[tokio::test]
async fn error_statuses_have_their_kinds_and_the_providers_own_words() {
    use LlmErrorKind as Kind;
    let error = |message: &str, kind: &str| json!({"error": {"message": message, "type": kind}});
    let shown = json!({"error": {"message": format!("Incorrect API key provided: {KEY}. Also sk-cana***6789."), "code": "invalid_api_key"}});
    for (script, kind, message, retry_after) in [
        (Script::json(401, &shown), Kind::Auth, "Incorrect API key provided: ***. Also ***.", None),
        (Script::json(403, &error("no", "permission_error")), Kind::Auth, "no (HTTP 403", None),
        (
            Script::json(429, &error("slow", "x")).header("retry-after", "7"),
            Kind::RateLimited,
            "slow (HTTP 429",
            Some(7_000),
        ),
        (Script::json(429, &error("slow", "x")).header("retry-after-ms", "70"), Kind::RateLimited, "slow", Some(70)),
        (Script::json(429, &error("slow", "rate_limit_error")), Kind::RateLimited, "slow", None),
        (Script::json(429, &error("pay", "insufficient_quota")), Kind::Quota, "pay", None),
        (Script::json(529, &error("Overloaded", "overloaded_error")), Kind::Overloaded, "Overloaded", None),
        (
            Script::json(503, &error("Loading model", "unavailable_error")).header("retry-after", "1"),
            Kind::Overloaded,
            "Loading model",
            Some(1_000),
        ),
        (Script::body(502, "text/html", "<html>nginx</html>"), Kind::Overloaded, "HTTP 502", None),
        (Script::json(400, &error("too big", "exceed_context_size_error")), Kind::ContextTooLong, "too big", None),
        (
            Script::json(400, &error("prompt is too long: 9 > 8", "invalid_request_error")),
            Kind::ContextTooLong,
            "prompt is too long",
            None,
        ),
        (Script::json(400, &error("bad role", "invalid_request_error")), Kind::BadRequest, "bad role", None),
        (Script::json(404, &error("no such model", "not_found_error")), Kind::BadRequest, "no such model", None),
        (
            Script::body(302, "text/plain", "").header("location", "http://127.0.0.1:1/"),
            Kind::BadRequest,
            "redirect",
            None,
        ),
        (Script::body(200, "text/html; charset=utf-8", "<html>log in</html>"), Kind::Decode, "web page", None),
        (
            Script { status: 500, headers: vec![], steps: vec![Step::Head, Step::Reset] },
            Kind::Overloaded,
            "HTTP 500",
            None,
        ),
    ] {
        for name in BOTH {
            let got = ask(name, script.clone()).await.expect_err("an error");
            assert_eq!(got.kind, kind, "{name} {script:?}: {got:?}");
            assert!(got.message.contains(message), "{name}: {:?} has no {message:?}", got.message);
            assert_eq!(got.retry_after, retry_after.map(Duration::from_millis), "{name} {script:?}");
            assert!(!got.message.contains("sk-") && !got.message.contains('\n'), "{}", got.message);
        }
    }
}

#[tokio::test]
async fn errors_inside_a_stream_and_json_bodies() {
    let overloaded =
        json!({"type": "error", "error": {"type": "overloaded_error", "message": format!("Overloaded, key {KEY}")}});
    let inside = event("error", &overloaded.to_string());
    for (name, first) in [("openai", openai::text("Hi")), ("anthropic", anthropic::text(0, "Hi"))] {
        let events = ask(name, Script::stream([first, inside.clone(), openai::done()])).await.unwrap();
        assert_eq!(text_of(&events), "Hi");
        assert_eq!(failure(&events).kind, LlmErrorKind::Overloaded);
        assert_eq!(failure(&events).message, "Overloaded, key *** (overloaded_error)");
        let events = ask(name, Script::json(200, &overloaded)).await.unwrap();
        assert_eq!(failure(&events).kind, LlmErrorKind::Overloaded, "{name}: a 200 that is no stream");
    }
    let whole = json!({"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1, "completion_tokens": 2}});
    assert_eq!(text_of(&ask("openai", Script::json(200, &whole)).await.unwrap()), "Hello");
    let whole = json!({"type": "message", "content": [{"type": "text", "text": "Hello"}], "stop_reason": "end_turn"});
    assert_eq!(text_of(&ask("anthropic", Script::json(200, &whole)).await.unwrap()), "Hello");
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_an_interruption_with_its_text_kept() {
    for name in BOTH {
        let begin = || {
            if name == "openai" {
                vec![openai::text("Hi")]
            } else {
                vec![anthropic::start(1), anthropic::text(0, "Hi")]
            }
        };
        for end in [vec![], vec![Step::CutInChunk], vec![Step::Send(b"data: {\"cho".to_vec())]] {
            let events = ask(name, Script::stream([begin(), end.clone()].concat())).await.unwrap();
            assert_eq!(text_of(&events), "Hi", "{name} {end:?}");
            assert_eq!(failure(&events).kind, LlmErrorKind::Interrupted, "{name} {end:?}");
            assert!(failure(&events).message.starts_with("truncated"), "{:?}", failure(&events));
        }
        // A reset may overtake bytes that were sent before it: only the end is certain.
        let events = ask(name, Script::stream([begin(), vec![Step::Reset]].concat())).await.unwrap();
        assert_eq!(failure(&events).kind, LlmErrorKind::Interrupted, "{name}");
        let none = ask(name, Script::stream([])).await.unwrap();
        assert_eq!(failure(&none).kind, LlmErrorKind::Interrupted, "{name}: nothing at all");
    }
    // The finish reason was seen: a lost end mark spoils nothing.
    let events =
        ask("openai", Script::stream([openai::text("Hi"), openai::finish("stop"), Step::CutInChunk])).await.unwrap();
    assert!(matches!(events.last(), Some(StreamEvent::Done(_))), "{events:?}");
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_or_does_not_answer() {
    let gone = Upstream::start([]).await;
    let base_url = gone.base_url().to_owned();
    drop(gone);
    let reset = Upstream::start([Script::stream([Step::Reset])]).await;
    for name in BOTH {
        let error = provider(name, &base_url).stream(&question()).await.err().expect("an error");
        assert_eq!(error.kind, LlmErrorKind::Transport);
        assert!(error.message.contains("127.0.0.1") && error.message.contains("cannot be reached"), "{error}");
    }
    let error = provider("openai", reset.base_url()).stream(&question()).await.err().expect("an error");
    assert_eq!(error.kind, LlmErrorKind::Transport, "{error}");
}

#[tokio::test]
async fn both_waits_end_with_an_error_that_names_the_setting() {
    let short = Duration::from_millis(120);
    let long = Duration::from_secs(60);
    for name in BOTH {
        let first = if name == "openai" { openai::text("Hi") } else { anthropic::text(0, "Hi") };
        let options = TransportOptions { first_byte_timeout: short, idle_timeout: long };
        for steps in [vec![Step::Hang], vec![Step::Head, Step::Hang]] {
            let upstream = Upstream::start([Script::stream(steps)]).await;
            let begun = Instant::now();
            let error = match provider_with(name, upstream.base_url(), options).stream(&question()).await {
                Err(error) => error,
                Ok(mut stream) => failure(&rest(&mut stream).await).clone(),
            };
            assert!(begun.elapsed() >= short);
            assert_eq!(error.kind, LlmErrorKind::Transport);
            assert!(error.message.contains("120 ms (llm.first_byte_timeout_ms)"), "{error}");
            upstream.left(0).await;
        }
        let options = TransportOptions { first_byte_timeout: long, idle_timeout: short };
        let upstream = Upstream::start([Script::stream([first, Step::Send(b"data: {".to_vec()), Step::Hang])]).await;
        let mut stream = provider_with(name, upstream.base_url(), options).stream(&question()).await.unwrap();
        let events = rest(&mut stream).await;
        assert_eq!(text_of(&events), "Hi");
        assert_eq!(failure(&events).kind, LlmErrorKind::Transport);
        assert!(failure(&events).message.contains("120 ms inside its answer (llm.idle_timeout_ms)"), "{events:?}");
        upstream.left(0).await;
    }
}
