//! Stopping: what runs may finish, what does not is stored, nobody holds the exit.

use super::*;
use crate::upstream::{Script, Signal, Step, Upstream, openai};
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use serde_json::json;
use std::time::Instant;

fn terminate(service: &Service) {
    let pid = service.child.id().unwrap().to_string();
    assert!(std::process::Command::new("kill").arg(&pid).status().unwrap().success());
}

/// How long the process takes to end, and its exit code.
async fn ended(service: &mut Service) -> (Duration, Option<i32>) {
    let began = Instant::now();
    let status = tokio::time::timeout(PATIENCE, service.child.wait()).await.expect("it does not end").unwrap();
    (began.elapsed(), status.code())
}

async fn begin(service: &Service) -> (String, BoxStream<'static, reqwest::Result<bytes::Bytes>>) {
    let body = json!({"message": "Hi", "retrieval": "off"});
    let mut stream = service.post("/api/v1/chat", &body).send().await.unwrap().bytes_stream().boxed();
    let mut seen = String::new();
    while !seen.contains("word") {
        seen.push_str(&String::from_utf8_lossy(&stream.next().await.unwrap().unwrap()));
    }
    (seen, stream)
}

#[tokio::test]
async fn an_idle_server_ends_at_once_though_hundreds_read() {
    let hang = Script::stream([openai::text("word"), Step::Wait(Signal::new())]);
    let upstream = Upstream::start([openai::answer(&["word"]), hang]).await;
    let mut service = Service::behind(&upstream, &[]).await;
    // Keep-alive connections, sockets and readers of a turn that has ended.
    let (seen, stream) = begin(&service).await;
    drop(stream);
    let turn = seen.split("\"turn_id\":\"").nth(1).unwrap()[..36].to_owned();
    let mut sockets = Vec::new();
    for _ in 0..100 {
        sockets.push(service.socket().await);
    }
    let path = format!("/api/v1/turns/{turn}/events");
    let readers = (0..200).map(|_| service.get(&path).send());
    let readers = futures_util::future::join_all(readers).await;
    terminate(&service);
    let (time, code) = ended(&mut service).await;
    assert!(time < Duration::from_millis(1000), "{time:?}");
    assert_eq!(code, Some(0));
    drop(readers);
}

#[tokio::test]
async fn running_turns_finish_while_new_ones_are_refused() {
    let go = Signal::new();
    let slow = Script::stream([openai::text("word"), Step::Wait(go.clone()), openai::finish("stop"), openai::done()]);
    let upstream = Upstream::start([slow]).await;
    let mut service = Service::behind(&upstream, &[]).await;
    let (seen, mut stream) = begin(&service).await;
    terminate(&service);
    let refused = loop {
        let response = service.post("/api/v1/chat", &json!({"message": "Hi"})).send().await.unwrap();
        if response.status() != 200 {
            break response;
        }
    };
    assert_eq!((refused.status().as_u16(), refused.headers().contains_key("retry-after")), (503, true));
    assert_eq!(service.get("/readyz").send().await.unwrap().status(), 503);
    // Whoever lost the connection may still come back.
    let turn = seen.split("\"turn_id\":\"").nth(1).unwrap()[..36].to_owned();
    let again = service.get(&format!("/api/v1/turns/{turn}/events")).send().await.unwrap();
    go.send();
    assert_eq!(Frames::parse(&again.text().await.unwrap()).end()["finish"], "complete");
    let mut rest = String::new();
    while let Some(Ok(bytes)) = stream.next().await {
        rest.push_str(&String::from_utf8_lossy(&bytes));
    }
    assert!(rest.ends_with("data: [DONE]\n\n"), "{rest}");
    assert_eq!(ended(&mut service).await.1, Some(0));
}

#[tokio::test]
async fn what_does_not_finish_in_time_is_stored_as_interrupted() {
    let endless = Script::stream([openai::text("word"), Step::Hang]);
    let upstream = Upstream::start([endless]).await;
    let mut service = Service::behind(&upstream, &[("TAILRACE__SERVER__DRAIN_TIMEOUT_MS", "400")]).await;
    let (seen, mut stream) = begin(&service).await;
    terminate(&service);
    let mut whole = seen;
    while let Some(Ok(bytes)) = stream.next().await {
        whole.push_str(&String::from_utf8_lossy(&bytes));
    }
    let (time, code) = ended(&mut service).await;
    assert!(time < Duration::from_millis(1400), "{time:?}");
    assert_eq!(code, Some(0));
    let frames = Frames::parse(&whole);
    assert_eq!((frames.text().as_str(), &frames.end()["finish"]), ("word", &json!("interrupted")));
    let service = Service::on(std::sync::Arc::clone(&service.data), &[("TAILRACE__LLM__PROVIDER", "extractive")]).await;
    let path = format!("/api/v1/turns/{}/events", frames.named("turn_start")[0]["turn_id"].as_str().unwrap());
    assert_eq!(service.get(&path).send().await.unwrap().text().await.unwrap(), whole);
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let upstream = Upstream::start([Script::stream([openai::text("word"), Step::Hang])]).await;
    let mut service = Service::behind(&upstream, &[]).await;
    let (_seen, _stream) = begin(&service).await;
    terminate(&service);
    tokio::time::sleep(Duration::from_millis(100)).await;
    terminate(&service);
    let (time, _) = ended(&mut service).await;
    assert!(time < Duration::from_millis(1000), "{time:?}");
}
