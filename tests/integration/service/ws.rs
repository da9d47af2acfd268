//! The socket: several turns on one, cancel, refusals.

use super::*;
use crate::upstream::{Script, Signal, Step, Upstream, openai};
use serde_json::json;
use std::time::Instant;

#[tokio::test]
async fn two_turns_share_a_socket_and_a_second_one_watches_the_conversation() {
    let go = Signal::new();
    let slow = Script::stream([openai::text("slow"), Step::Wait(go.clone()), openai::finish("stop"), openai::done()]);
    let upstream = Upstream::start([slow, openai::answer(&["quick"])]).await;
    let service = Service::behind(&upstream, &[]).await;
    let mut socket = service.socket().await;
    let mut chat = json!({"type": "chat", "request_id": "a", "message": "Hi", "retrieval": "off"});
    socket.send(chat.clone()).await;
    let start = socket.next().await.unwrap();
    assert_eq!((&start["state"], &start["request_id"], &start["seq"]), (&json!("turn_start"), &json!("a"), &json!(1)));
    while socket.next().await.unwrap()["state"] != "delta" {}

    let mut watcher = service.socket().await;
    watcher.send(json!({"type": "subscribe", "conversation_id": start["conversation_id"]})).await;
    let seen = watcher.next().await.unwrap();
    assert_eq!((&seen["turn_id"], &seen["seq"], seen.get("request_id")), (&start["turn_id"], &json!(1), None));

    chat["request_id"] = json!(2);
    socket.send(chat).await;
    let quick = socket.turn().await;
    assert_eq!((&quick[0]["request_id"], &quick.last().unwrap()["finish"]), (&json!(2), &json!("complete")));
    go.send();
    let rest = socket.turn().await;
    assert_eq!(rest.last().unwrap()["turn_id"], start["turn_id"]);
    watcher.turn().await;
    // A turn that somebody else begins in the conversation.
    let body = json!({"message": "More", "conversation_id": start["conversation_id"], "retrieval": "off"});
    let other = service.chat(body).await;
    let seen = watcher.turn().await;
    assert_eq!(seen[0]["turn_id"], other.named("turn_start")[0]["turn_id"]);
    assert_eq!(seen.len(), other.all.len());
}

#[tokio::test]
async fn one_who_follows_a_conversation_and_asks_in_it_gets_each_frame_once() {
    let upstream = Upstream::start((0..11).map(|_| openai::answer(&["one ", "two"]))).await;
    let service = Service::behind(&upstream, &[]).await;
    let mut socket = service.socket().await;
    let mut chat = json!({"type": "chat", "request_id": 0, "message": "Hi", "retrieval": "off"});
    socket.send(chat.clone()).await;
    let first = socket.turn().await;
    chat["conversation_id"] = first[0]["conversation_id"].clone();
    socket.send(json!({"type": "subscribe", "conversation_id": chat["conversation_id"]})).await;
    for request in 1..=10 {
        chat["request_id"] = json!(request);
        socket.send(chat.clone()).await;
        let frames = socket.turn().await;
        let seqs: Vec<u64> = frames.iter().map(|frame| frame["seq"].as_u64().unwrap()).collect();
        assert_eq!(seqs, (1..=frames.len() as u64).collect::<Vec<_>>());
        assert_eq!(frames[0]["request_id"], request);
    }
    // Nothing is left of them: the next that comes is the answer to this.
    socket.send(json!({"type": "ping"})).await;
    assert_eq!(socket.next().await.unwrap()["type"], "pong");
    // Asked for again, a turn is sent again from there.
    let last = first.last().unwrap()["seq"].as_u64().unwrap();
    socket.send(json!({"type": "subscribe", "turn_id": first[0]["turn_id"], "after": last - 1})).await;
    assert_eq!(socket.next().await.unwrap()["seq"], last);
}

#[tokio::test]
async fn cancel_stops_the_provider_within_a_quarter_of_a_second() {
    let endless = || {
        let words = (0..2000).flat_map(|_| [openai::text("word "), Step::Sleep(Duration::from_millis(5))]);
        Script::stream(words.collect::<Vec<_>>())
    };
    let upstream = Upstream::start([endless(), endless()]).await;
    let service = Service::behind(&upstream, &[]).await;
    let mut socket = service.socket().await;
    for by_socket in [true, false] {
        socket.send(json!({"type": "chat", "message": "Hi", "retrieval": "off"})).await;
        let start = socket.next().await.unwrap();
        while socket.next().await.unwrap()["state"] != "delta" {}
        let asked = Instant::now();
        if by_socket {
            socket.send(json!({"type": "cancel", "turn_id": start["turn_id"]})).await;
        } else {
            let path = format!("/api/v1/turns/{}/cancel", start["turn_id"].as_str().unwrap());
            assert_eq!(service.post(&path, &json!({})).send().await.unwrap().status(), 202);
        }
        let end = socket.turn().await.pop().unwrap();
        assert!(asked.elapsed() < Duration::from_millis(250), "{:?}", asked.elapsed());
        assert_eq!((&end["state"], &end["finish"]), (&json!("aborted"), &json!("cancelled")));
        let served = upstream.over(usize::from(!by_socket)).await;
        assert!(served.left.unwrap() - asked < Duration::from_millis(250));
        assert!(served.bytes_after_left < 2048, "{served:?}");
        let path = format!("/api/v1/turns/{}", start["turn_id"].as_str().unwrap());
        let kept: Value = service.get(&path).send().await.unwrap().json().await.unwrap();
        assert!(kept["text"].as_str().unwrap().starts_with("word "), "{kept}");
    }
}

#[tokio::test]
async fn what_cannot_be_is_refused_with_a_problem_and_the_socket_stays() {
    let service = Service::start().await;
    let mut socket = service.socket().await;
    let cases = [
        (json!({"type": "ping"}), "pong", ""),
        (json!({"type": "dance", "request_id": 1}), "problem", "invalid_message"),
        (json!({"type": "chat", "request_id": 1}), "problem", "invalid_field"),
        (json!({"type": "chat", "request_id": 1, "message": "x", "colour": 1}), "problem", "invalid_field"),
        (
            json!({"type": "chat", "request_id": 1, "message": "x", "collection": "none"}),
            "problem",
            "unknown_collection",
        ),
        (json!({"type": "subscribe", "request_id": 1}), "problem", "invalid_message"),
        (json!({"type": "subscribe", "request_id": 1, "turn_id": uuid::Uuid::nil()}), "problem", "not_found"),
        (json!({"type": "subscribe", "request_id": 1, "conversation_id": uuid::Uuid::nil()}), "problem", "not_found"),
        (json!({"type": "cancel", "request_id": 1, "turn_id": uuid::Uuid::nil()}), "problem", "not_found"),
        (json!([]), "problem", "invalid_field"),
    ];
    for (message, kind, code) in cases {
        socket.send(message.clone()).await;
        let answer = socket.next().await.unwrap();
        assert_eq!(answer["type"], kind, "{message}: {answer}");
        if kind == "problem" {
            assert_eq!(answer["code"], code, "{message}: {answer}");
            assert_eq!(answer.get("request_id"), message.get("request_id"), "{message}");
        }
    }
    assert_eq!(service.socket_with(&[("origin", "http://evil.example")]).await.err(), Some(403));
    assert_eq!(service.socket_with(&[("host", "evil.example")]).await.err(), Some(421));
}

#[tokio::test]
async fn a_socket_is_closed_with_a_word_and_sends_little_before_it_has_a_key() {
    let service = Service::with(&[("TAILRACE__LLM__PROVIDER", "extractive")]).await;
    let mut polite = service.socket().await;
    polite.close().await;
    assert!(polite.next().await.unwrap_err().is_some(), "a close is answered");
    // Whoever came before there was a key has none now.
    let mut early = service.socket().await;
    early.send(json!({"type": "ping"})).await;
    early.next().await.unwrap();
    let made = service.post("/api/v1/keys", &json!({"name": "first", "scopes": ["chat"]})).send().await.unwrap();
    let key = made.json::<Value>().await.unwrap()["key"].as_str().unwrap().to_owned();
    assert_eq!(u16::from(early.next().await.unwrap_err().unwrap().code), 4401);
    let mut late = service.socket().await;
    late.send(json!({"type": "auth", "key": "x".repeat(200_000)})).await;
    assert!(late.next().await.is_err());
    let mut keyed = service.socket().await;
    keyed.send(json!({"type": "auth", "key": key})).await;
    // With it, a message may be long.
    keyed.send(json!({"type": "ping", "request_id": "x".repeat(200_000)})).await;
    assert_eq!(keyed.next().await.unwrap()["type"], "pong");
}
