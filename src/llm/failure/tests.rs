//! Real error bodies, and their kinds.

use super::*;
use serde_json::json;

#[test]
fn an_http_answer_has_one_kind() {
    let llama_too_long = r#"{"error":{"code":400,"message":"request (9033 tokens) exceeds the available context size (8192 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9033,"n_ctx":8192}}"#;
    for (status, body, kind, message) in [
        (
            401,
            r#"{"error":{"message":"Invalid API Key","type":"authentication_error","code":401}}"#,
            Kind::Auth,
            "Invalid API Key (HTTP 401, authentication_error)",
        ),
        (
            403,
            r#"{"error":{"message":"no","code":"unsupported_country"}}"#,
            Kind::Auth,
            "no (HTTP 403, unsupported_country)",
        ),
        (
            429,
            r#"{"error":{"message":"slow down","type":"tokens","code":"rate_limit_exceeded"}}"#,
            Kind::RateLimited,
            "slow down (HTTP 429, rate_limit_exceeded)",
        ),
        (
            429,
            r#"{"error":{"message":"pay","type":"insufficient_quota","code":"insufficient_quota"}}"#,
            Kind::Quota,
            "pay (HTTP 429, insufficient_quota)",
        ),
        (
            429,
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}"#,
            Kind::RateLimited,
            "slow (HTTP 429, rate_limit_error)",
        ),
        (429, "", Kind::RateLimited, "the provider failed (HTTP 429)"),
        (402, "{}", Kind::Quota, "the provider failed (HTTP 402)"),
        (
            529,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            Kind::Overloaded,
            "Overloaded (HTTP 529, overloaded_error)",
        ),
        (503, "<html>502</html>", Kind::Overloaded, "the provider failed (HTTP 503)"),
        (
            500,
            r#"{"error":{"code":500,"message":"parse error","type":"server_error"}}"#,
            Kind::Overloaded,
            "parse error (HTTP 500, server_error)",
        ),
        (
            400,
            llama_too_long,
            Kind::ContextTooLong,
            "request (9033 tokens) exceeds the available context size (8192 tokens), try increasing it (HTTP 400, exceed_context_size_error)",
        ),
        (
            400,
            r#"{"error":{"message":"m","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
            Kind::ContextTooLong,
            "m (HTTP 400, context_length_exceeded)",
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
            Kind::ContextTooLong,
            "prompt is too long: 210000 tokens > 200000 maximum (HTTP 400, invalid_request_error)",
        ),
        (
            413,
            r#"{"type":"error","error":{"type":"request_too_large","message":"big"}}"#,
            Kind::ContextTooLong,
            "big (HTTP 413, request_too_large)",
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"All non-assistant messages must contain 'content'","type":"invalid_request_error"}}"#,
            Kind::BadRequest,
            "All non-assistant messages must contain 'content' (HTTP 400, invalid_request_error)",
        ),
        // A message that only mentions a limit is no code.
        (
            400,
            r#"{"error":{"message":"your text says rate limit and prompt is too long","type":"invalid_request_error"}}"#,
            Kind::BadRequest,
            "your text says rate limit and prompt is too long (HTTP 400, invalid_request_error)",
        ),
        (404, r#"{"error":"model 'x' not found"}"#, Kind::BadRequest, "model 'x' not found (HTTP 404)"),
        (404, "page not found", Kind::BadRequest, "page not found (HTTP 404)"),
        (
            400,
            r#"[{"error":{"code":400,"message":"API key not valid","status":"INVALID_ARGUMENT"}}]"#,
            Kind::BadRequest,
            "API key not valid (HTTP 400, INVALID_ARGUMENT)",
        ),
        (422, r#"{"detail":[{"loc":["body"],"msg":"field required"}]}"#, Kind::BadRequest, "field required (HTTP 422)"),
        (
            503,
            r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#,
            Kind::Overloaded,
            "Loading model (HTTP 503, unavailable_error)",
        ),
    ] {
        let error = from_http(status, None, body);
        assert_eq!((error.kind, error.message.as_str()), (kind, message), "{status} {body}");
    }
    let wait = Some(Duration::from_secs(7));
    assert_eq!(from_http(429, wait, "").retry_after, wait);
}

#[test]
fn an_event_is_an_error_or_is_not() {
    for (value, kind) in [
        (json!({"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}), Some(Kind::Overloaded)),
        (json!({"error":{"message":"upstream went away","code":502}}), Some(Kind::Overloaded)),
        (json!({"error":{"message":"slow","code":"429"}}), Some(Kind::RateLimited)),
        (json!({"error":{"message":"bad","type":"invalid_request_error"}}), Some(Kind::BadRequest)),
        (json!({"error":"model runner stopped"}), Some(Kind::Interrupted)),
        (json!({"object":"error","message":"token limit passed","code":40303}), Some(Kind::Interrupted)),
        (json!({"message":"no slot","code":500}), Some(Kind::Overloaded)),
        (json!([{"error":{"status":"RESOURCE_EXHAUSTED","message":"m"}}]), Some(Kind::RateLimited)),
        (json!({"choices":[],"error":null}), None),
        (json!({"choices":[],"error":{}}), None),
        (json!({"choices":[],"message":"x","code":1}), None),
        (json!({"type":"message_start","message":{}}), None),
        (json!({"type":"message","content":[],"code":200,"message":"x"}), None),
    ] {
        assert_eq!(in_event(&value, false).map(|e| e.kind), kind, "{value}");
    }
    assert_eq!(in_event(&json!({"message":"m"}), true).unwrap().message, "m");
}

#[test]
fn retry_after_is_read_in_every_form() {
    let now = 1_445_412_480 - 60; // One minute before the date below.
    for (header, millis, want) in [
        (Some("7"), None, Some(7_000)),
        (Some(" 1.5 "), None, Some(1_500)),
        (Some("7"), Some("250"), Some(250)),
        (Some("Wed, 21 Oct 2015 07:28:00 GMT"), None, Some(60_000)),
        (Some("Wed, 21 Oct 2015 07:00:00 GMT"), None, Some(0)),
        (Some("1e300"), None, None),
        (Some("-1"), None, None),
        (Some("soon"), None, None),
        (None, None, None),
    ] {
        assert_eq!(retry_after(header, millis, now), want.map(Duration::from_millis), "{header:?}");
    }
}

#[test]
fn keys_do_not_come_back() {
    let key = Some("sk-proj-0123456789abcdef");
    for (text, want) in [
        ("Incorrect API key provided: sk-proj-0123456789abcdef.", "Incorrect API key provided: ***."),
        ("key=sk-proj-0********cdef, see", "key=***, see"),
        ("Bearer 23456789abcdef is wrong", "Bearer *** is wrong"),
        ("another one: sk-live-1234567", "another one: ***"),
        ("nothing: to hide, at all… (sk-)", "nothing: to hide, at all… (sk-)"),
    ] {
        assert_eq!(mask_key(text, key), want);
    }
    assert_eq!(mask_key("short key abc here, abcd", Some("abc")), "short key *** here, abcd");
    assert_eq!(mask_key("no key, no mask", None), "no key, no mask");
    assert_eq!(mask_key("empty", Some("")), "empty");
}
