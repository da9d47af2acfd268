//! Clients that leave in the middle of a request: what they have begun goes on, nothing is left between two steps.

use super::*;
use crate::upstream::{Script, Step, Upstream, openai};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// Sends a request and breaks the connection off after `stays`, without having read anything.
async fn send_and_leave(service: &Service, method: &str, path: &str, key: &str, body: &Value, stays: Duration) {
    let address = service.url.trim_start_matches("http://");
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_zero_linger().unwrap();
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    tokio::time::sleep(stays).await;
}

const KEY: (&str, &str) = ("TAILRACE_ADMIN_KEY", "an-operators-key");

/// Conversations, and how many of their answers are still being made.
async fn begun(service: &Service) -> (usize, usize) {
    let get = async |path: &str| -> Value {
        service.get(path).bearer_auth(KEY.1).send().await.unwrap().json().await.unwrap()
    };
    let list = get("/api/v1/conversations?limit=100").await;
    let conversations = list["conversations"].as_array().unwrap();
    let mut running = 0;
    for conversation in conversations {
        let id = conversation["id"].as_str().unwrap();
        let messages = get(&format!("/api/v1/conversations/{id}/messages")).await;
        running += messages["messages"].as_array().unwrap().iter().filter(|m| m["status"] == "running").count();
    }
    (conversations.len(), running)
}

/// Asks `TURNS` times and leaves at another moment each time; then waits until nothing runs any more.
async fn ask_and_leave(service: &Service, on_disconnect: &str) -> usize {
    const TURNS: u64 = 40;
    let body = json!({"message": "Hi", "retrieval": "off", "on_disconnect": on_disconnect});
    for n in 0..TURNS {
        send_and_leave(service, "POST", "/api/v1/chat", KEY.1, &body, Duration::from_micros(250 * n)).await;
    }
    let began = std::time::Instant::now();
    loop {
        // A request that never arrived has begun nothing; the last may be on their way.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let (all, running) = begun(service).await;
        if all > 0 && running == 0 {
            return all;
        }
        assert!(began.elapsed() < PATIENCE, "{running} of {all} run on");
    }
}

#[tokio::test]
async fn a_turn_whose_client_leaves_at_any_moment_is_answered() {
    let upstream = Upstream::answering(|_, _| openai::answer(&["Fine."])).await;
    let service = Service::behind(&upstream, &[KEY]).await;
    let all = ask_and_leave(&service, "continue").await;
    assert_eq!(upstream.requests().len(), all);
}

#[tokio::test]
async fn a_turn_that_its_client_takes_along_ends_at_any_moment() {
    let upstream = Upstream::answering(|_, _| Script::stream([openai::text("word"), Step::Hang])).await;
    let service = Service::behind(&upstream, &[KEY]).await;
    ask_and_leave(&service, "cancel").await;
}

#[tokio::test]
async fn a_key_whose_revocation_is_cut_off_is_revoked() {
    let service = Service::with(&[("TAILRACE__LLM__PROVIDER", "extractive"), KEY]).await;
    for n in 0..10 {
        let body = json!({"name": "k", "scopes": ["chat"]});
        let made: Value =
            service.post("/api/v1/keys", &body).bearer_auth(KEY.1).send().await.unwrap().json().await.unwrap();
        let path = format!("/api/v1/keys/{}", made["id"].as_str().unwrap());
        let key = made["key"].as_str().unwrap();
        let began = std::time::Instant::now();
        while service.get("/api/v1/conversations").bearer_auth(key).send().await.unwrap().status() != 401 {
            // One that never arrived revokes nothing.
            assert!(began.elapsed() < PATIENCE, "it still works");
            send_and_leave(&service, "DELETE", &path, KEY.1, &Value::Null, Duration::from_millis(1 + n)).await;
        }
        let listed: Value = service.get("/api/v1/keys").bearer_auth(KEY.1).send().await.unwrap().json().await.unwrap();
        assert_eq!(listed["keys"], json!([]));
    }
}
