//! Turns outlive connections (invariant 11): whoever comes back gets every frame once, over either transport, while
//! the turn runs, after it, and after a restart.

use super::*;
use crate::upstream::{Script, Step, Upstream, openai};
use futures_util::StreamExt;
use serde_json::json;

/// A turn of about 300 frames: text with line breaks and other alphabets, reasoning, a call, a second round.
fn long_turn(gap: Option<Duration>) -> [Script; 2] {
    let mut first = vec![openai::reasoning("Let me see.")];
    for n in 0..140 {
        first.push(openai::text(&format!("word {n} \"ü\\\n\n")));
        first.extend(gap.map(Step::Sleep));
    }
    first.extend([
        openai::text("<tool name=\"vector_search\">{\"query\": \"leave\"}</tool>"),
        openai::finish("stop"),
        openai::usage(5, 140),
        openai::done(),
    ]);
    let second: Vec<String> = (0..140).map(|n| format!(" 答{n}")).collect();
    [Script::stream(first), openai::answer(&second.iter().map(String::as_str).collect::<Vec<_>>())]
}

/// A response body's frames, `[DONE]` among them, keep-alive comments not.
fn apart(body: &str) -> Vec<&str> {
    body.split_inclusive("\n\n").filter(|frame| !frame.starts_with(':')).collect()
}

fn turn_id(frames: &[&str]) -> String {
    frames[0].split("\"turn_id\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
}

async fn events(service: &Service, turn: &str, after: usize) -> String {
    let path = format!("/api/v1/turns/{turn}/events?after={after}");
    let response = service.get(&path).send().await.unwrap();
    assert_eq!(response.status(), 200);
    response.text().await.unwrap()
}

async fn whole(service: &Service) -> String {
    let body = json!({"message": "How long is leave?", "tool_mode": "inline", "retrieval": "off"});
    service.post("/api/v1/chat", &body).send().await.unwrap().text().await.unwrap()
}

/// What the socket's events and the frames both say.
fn payloads(frames: &[&str]) -> Vec<Value> {
    let payload = |frame: &&str| serde_json::from_str(frame.lines().find_map(|line| line.strip_prefix("data: "))?).ok();
    frames.iter().filter_map(payload).collect()
}

fn of_event(mut event: Value) -> Value {
    for key in ["text", "sources"] {
        if let Some(value) = event.get(key) {
            return value.clone();
        }
    }
    for key in ["type", "turn_id", "seq", "state"] {
        if !(key == "turn_id" && event["state"] == "turn_start") {
            event.as_object_mut().unwrap().remove(key);
        }
    }
    event
}

#[tokio::test]
async fn a_cut_at_every_frame_loses_and_doubles_nothing() {
    let upstream = Upstream::start(long_turn(None)).await;
    let mut service = Service::behind(&upstream, &[]).await;
    let body = whole(&service).await;
    Frames::parse(&body);
    let frames = apart(&body);
    assert!((290..330).contains(&frames.len()), "{}", frames.len());
    let turn = turn_id(&frames);
    for after in 0..frames.len() {
        assert_eq!(events(&service, &turn, after).await, frames[after..].concat(), "after {after}");
    }
    let by_header = service.get(&format!("/api/v1/turns/{turn}/events?after=1")).header("last-event-id", "7");
    assert_eq!(by_header.send().await.unwrap().text().await.unwrap(), frames[7..].concat());

    // The same over a socket, again and again on one.
    let mut socket = service.socket().await;
    let last = frames.len() - 1;
    for after in (0..last).step_by(3) {
        socket.send(json!({"type": "subscribe", "turn_id": turn, "after": after})).await;
        let events = socket.turn().await;
        assert_eq!(events[0]["seq"], after + 1);
        let seen: Vec<Value> = events.into_iter().map(of_event).collect();
        assert_eq!(seen, payloads(&frames[after..last]), "after {after}");
    }

    // Beyond the end: what a client has that a crash took from the server.
    let beyond = service.get(&format!("/api/v1/turns/{turn}/events?after={}", frames.len())).send().await.unwrap();
    assert_eq!(beyond.status(), 410);
    let beyond: Value = beyond.json().await.unwrap();
    let text = Frames::parse(&body).text();
    assert_eq!((&beyond["code"], &beyond["last"]), (&json!("log_rewound"), &json!(last)));
    assert_eq!(beyond["text_bytes"], text.len());
    socket.send(json!({"type": "subscribe", "turn_id": turn, "after": 9999})).await;
    assert_eq!(socket.next().await.unwrap()["code"], "log_rewound");

    let one: Value = service.get(&format!("/api/v1/turns/{turn}")).send().await.unwrap().json().await.unwrap();
    assert_eq!((&one["text"], &one["finish"]), (&json!(text), &json!("complete")));
    assert_eq!(one["tool_results"][0]["name"], "vector_search");

    service.child.kill().await.unwrap();
    let service = Service::on(std::sync::Arc::clone(&service.data), &[("TAILRACE__LLM__PROVIDER", "extractive")]).await;
    for after in [0, 1, 77, last] {
        assert_eq!(events(&service, &turn, after).await, frames[after..].concat(), "restarted, after {after}");
    }
    let again: Value = service.get(&format!("/api/v1/turns/{turn}")).send().await.unwrap().json().await.unwrap();
    assert_eq!(again, one);
}

#[tokio::test]
async fn readers_that_change_while_the_turn_runs_get_every_frame_once() {
    let upstream = Upstream::start(long_turn(Some(Duration::from_millis(4)))).await;
    let service = Service::behind(&upstream, &[]).await;
    let body = json!({"message": "How long is leave?", "tool_mode": "inline", "retrieval": "off"});
    let response = service.post("/api/v1/chat", &body).send().await.unwrap();
    let mut stream = response.bytes_stream();
    let mut seen = String::new();
    while seen.matches("\n\n").count() < 20 {
        seen.push_str(&String::from_utf8_lossy(&stream.next().await.unwrap().unwrap()));
    }
    drop(stream);
    seen.truncate(seen.rfind("\n\n").unwrap() + 2);
    let turn = turn_id(&apart(&seen));
    let running: Value = service.get(&format!("/api/v1/turns/{turn}")).send().await.unwrap().json().await.unwrap();
    assert!(running.get("finish").is_none() && running["text"].as_str().unwrap().starts_with("word 0"), "{running}");
    // Twelve readers, each for a few frames, over both transports by turns.
    let mut socket_seen = Vec::new();
    for reader in 0..12 {
        let count = seen.matches("\n\n").count();
        if reader % 3 == 2 {
            let mut socket = service.socket().await;
            socket.send(json!({"type": "subscribe", "turn_id": turn, "after": count})).await;
            let event = socket.next().await.unwrap();
            assert_eq!(event["seq"], count + 1);
            socket_seen.push((count, event));
            continue;
        }
        let path = format!("/api/v1/turns/{turn}/events?after={count}");
        let mut stream = service.get(&path).send().await.unwrap().bytes_stream();
        let mut part = String::new();
        while part.matches("\n\n").count() < 3 {
            part.push_str(&String::from_utf8_lossy(&stream.next().await.unwrap().unwrap()));
        }
        seen.push_str(&part[..part.rfind("\n\n").unwrap() + 2]);
    }
    let count = seen.matches("\n\n").count();
    seen.push_str(&events(&service, &turn, count).await);
    let stored = events(&service, &turn, 0).await;
    assert_eq!(seen, stored);
    let frames = apart(&stored);
    for (count, event) in socket_seen {
        assert_eq!(of_event(event), payloads(&frames[count..=count])[0]);
    }
}

#[tokio::test]
async fn a_turn_is_begun_once_for_each_idempotency_key() {
    let go = crate::upstream::Signal::new();
    let first = Script::stream([openai::text("One."), Step::Wait(go.clone()), openai::finish("stop"), openai::done()]);
    let upstream = Upstream::start([first]).await;
    let service = Service::behind(&upstream, &[]).await;
    let ask = |message: &str, stream: bool| {
        let body = json!({"message": message, "retrieval": "off", "stream": stream});
        service.post("/api/v1/chat", &body).header("idempotency-key", "k-1").send()
    };
    let running = ask("Hi", true).await.unwrap();
    let again = ask("Hi", true).await.unwrap();
    assert_eq!(again.status(), 409);
    let problem: Value = again.json().await.unwrap();
    go.send();
    let body = running.text().await.unwrap();
    assert_eq!((&problem["code"], &problem["turn_id"]), (&json!("turn_running"), &json!(turn_id(&apart(&body)))));
    assert_eq!(ask("Hi", true).await.unwrap().text().await.unwrap(), body);
    assert_eq!(ask("Other", true).await.unwrap().status(), 422);
    assert_eq!(upstream.requests().len(), 1);
}

/// Sent many times at once: one is answered, the others are told that it runs.
#[tokio::test]
async fn a_request_that_is_sent_many_times_at_once_is_one_turn() {
    const COPIES: usize = 12;
    let go = crate::upstream::Signal::new();
    let answer = || Script::stream([openai::text("One."), Step::Wait(go.clone()), openai::finish("stop")]);
    let upstream = Upstream::start((0..8).map(|_| answer())).await;
    let service = Service::behind(&upstream, &[]).await;
    for round in 0..8 {
        let body = json!({"message": "Hi", "retrieval": "off"});
        let copies = (0..COPIES).map(|_| {
            let sent = service.post("/api/v1/chat", &body).header("idempotency-key", format!("k-{round}")).send();
            async { sent.await.unwrap().status().as_u16() }
        });
        let mut statuses = futures_util::future::join_all(copies).await;
        statuses.sort_unstable();
        assert_eq!(statuses, [vec![200], vec![409; COPIES - 1]].concat(), "round {round}");
    }
    go.send();
}
