//! Readers that take nothing: they are cut off, are told how far they came, and go on from there.

use super::*;
use crate::upstream::{Script, Upstream, openai};
use serde_json::json;

const STALL: &[(&str, &str)] = &[("TAILRACE__SERVER__STALL_TIMEOUT_MS", "300")];
/// More than the buffers of both ends hold.
const DELTAS: usize = 400;
const DELTA: usize = 32 * 1024;
/// Several times the limit, so that a busy machine has noticed.
const NOT_READING: Duration = Duration::from_millis(1500);

fn long_answer() -> Script {
    let mut steps: Vec<_> = (0..DELTAS).map(|n| openai::text(&format!("{n:>DELTA$}"))).collect();
    steps.extend([openai::finish("stop"), openai::done()]);
    Script::stream(steps)
}

fn long_text() -> String {
    (0..DELTAS).map(|n| format!("{n:>DELTA$}")).collect()
}

#[tokio::test]
async fn a_socket_that_takes_nothing_is_closed_with_the_number_of_the_last_frame() {
    let upstream = Upstream::start([long_answer()]).await;
    let service = Service::behind(&upstream, STALL).await;
    let mut socket = service.socket().await;
    socket.send(json!({"type": "chat", "message": "Hi", "retrieval": "off"})).await;
    upstream.over(0).await;
    tokio::time::sleep(NOT_READING).await;
    let mut events: Vec<Value> = Vec::new();
    let closed = loop {
        match socket.next().await {
            Ok(event) => events.push(event),
            Err(closed) => break closed.expect("it was cut without a word"),
        }
    };
    let last = events.last().unwrap()["seq"].clone();
    assert_eq!(u16::from(closed.code), 4408);
    assert!(closed.reason.ends_with(&format!(" {last}")), "{} after {last}", closed.reason);
    assert!(events.len() < DELTAS, "all of it was taken");
    let mut again = service.socket().await;
    again.send(json!({"type": "subscribe", "turn_id": events[0]["turn_id"], "after": last})).await;
    events.extend(again.turn().await);
    let seqs: Vec<_> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert!(seqs.iter().copied().eq(1..=seqs.len() as u64), "{seqs:?}");
    let text: String = events.iter().filter_map(|event| event["text"].as_str()).collect();
    assert!(text == long_text(), "{} bytes", text.len());
}

#[tokio::test]
async fn an_event_stream_that_is_not_taken_ends_without_its_end_mark() {
    let upstream = Upstream::start([long_answer()]).await;
    let service = Service::behind(&upstream, STALL).await;
    let body = json!({"message": "Hi", "retrieval": "off"});
    let mut response = service.post("/api/v1/chat", &body).send().await.unwrap();
    upstream.over(0).await;
    tokio::time::sleep(NOT_READING).await;
    let mut bytes = Vec::new();
    while let Ok(Some(piece)) = response.chunk().await {
        bytes.extend_from_slice(&piece);
    }
    let cut = String::from_utf8_lossy(&bytes).into_owned();
    assert!(!cut.contains("[DONE]") && cut.len() < DELTAS * DELTA, "{} bytes were taken", cut.len());
    // A frame that is not whole is not there, as every client of event streams has it.
    let whole = &cut[..cut.rfind("\n\n").unwrap() + 2];
    let id = whole.rsplit("id: ").next().unwrap().lines().next().unwrap();
    let turn = whole.split("\"turn_id\":\"").nth(1).unwrap()[..36].to_owned();
    let rest = service.get(&format!("/api/v1/turns/{turn}/events?after={id}")).send().await.unwrap();
    let frames = Frames::parse(&format!("{whole}{}", rest.text().await.unwrap()));
    assert!(frames.text() == long_text(), "{} frames", frames.all.len());
}

/// A request whose body stops in the middle is answered, and its connection closed.
#[tokio::test]
async fn a_body_that_stalls_is_not_waited_for() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let service = Service::with(STALL).await;
    let address = service.url.trim_start_matches("http://").to_owned();
    let part = "--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.md\"\r\n\r\nhalf";
    for (path, kind, body, length, status) in [
        ("/api/v1/chat", "application/json", "{\"message\":", 100, "408"),
        ("/api/v1/collections/default/documents", "multipart/form-data; boundary=b", part, 1000, "408"),
        // Whoever asks whether so much may be sent is told before it is.
        ("/api/v1/chat", "application/json", "{", 1_u64 << 40, "413"),
        ("/api/v1/collections/default/documents", "multipart/form-data; boundary=b", part, 1 << 40, "413"),
    ] {
        let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
        let asks = if status == "413" { "expect: 100-continue\r\n" } else { "" };
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: {kind}\r\n{asks}content-length: {length}\r\n\r\n\
             {body}"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer)).await.expect("it waits").unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{path}: {answer}");
        assert!(status == "413" || answer.contains("server.stall_timeout_ms"), "{answer}");
    }
}
