//! Keys: who may call what, whose turns are whose, and how a key ends.

use super::*;
use crate::upstream::{Script, Step, Upstream, openai};
use reqwest::Method;
use serde_json::json;
use tailrace::http::guard::{Access, ROUTES};
use tailrace::keys::Scope;

const ADMIN: &str = "an-operators-key";

async fn guarded(upstream: Option<&Upstream>) -> Service {
    let env = [("TAILRACE_ADMIN_KEY", ADMIN)];
    match upstream {
        Some(upstream) => Service::behind(upstream, &env).await,
        None => Service::with(&[("TAILRACE__LLM__PROVIDER", "extractive"), env[0]]).await,
    }
}

/// Id and text of a new key.
async fn make(service: &Service, body: Value) -> (String, String) {
    let response = service.post("/api/v1/keys", &body).bearer_auth(ADMIN).send().await.unwrap();
    assert_eq!(response.status(), 201, "{body}");
    let made: Value = response.json().await.unwrap();
    (made["id"].as_str().unwrap().to_owned(), made["key"].as_str().unwrap().to_owned())
}

/// Every route × every key × every way of carrying it.
#[tokio::test]
async fn each_route_takes_only_keys_with_its_scope_and_only_in_the_header() {
    let service = guarded(None).await;
    let mut keys =
        vec![(None, None), (None, Some("tr_wrong".to_owned())), (Some(Scope::Admin), Some(ADMIN.to_owned()))];
    for scope in Scope::ALL {
        let (_, key) = make(&service, json!({"name": scope.as_str(), "scopes": [scope.as_str()]})).await;
        keys.push((Some(scope), Some(key)));
    }
    for (method, route, access) in ROUTES {
        let path: Vec<&str> = route.split('/').map(|part| if part.starts_with('{') { "x" } else { part }).collect();
        let url = format!("{}{}", service.url, path.join("/"));
        for (scope, key) in &keys {
            let needed = match access {
                Access::Public => None,
                Access::Key(scope) => Some(*scope),
                // Without a header the first message decides; what it takes is tested below.
                Access::FirstMessage if key.is_none() => None,
                Access::FirstMessage => Some(Scope::Chat),
            };
            let allowed = needed.is_none_or(|needed| scope.is_some_and(|has| has == needed || has == Scope::Admin));
            let asked = |url: &str| service.client.request(method.clone(), url);
            let request = || asked(&url);
            let carried = |key: &str| {
                [
                    ("header", request().bearer_auth(key), allowed),
                    ("query", asked(&format!("{url}?key={key}&access_token={key}")), access == &Access::Public),
                    ("x-api-key", request().header("x-api-key", key), access == &Access::Public),
                    ("basic", request().basic_auth(key, Some(key)), access == &Access::Public),
                    ("cookie", request().header("cookie", format!("key={key}")), access == &Access::Public),
                ]
            };
            let ways = match key {
                Some(key) => carried(key).into(),
                None => vec![("nothing", request(), allowed)],
            };
            for (way, request, allowed) in ways {
                if access == &Access::FirstMessage && matches!(way, "query" | "x-api-key" | "cookie") {
                    continue;
                }
                let status = request.send().await.unwrap().status().as_u16();
                let refused = status == 401 || status == 403;
                assert_eq!(!refused, allowed, "{method} {route} with {scope:?} by {way}: {status}");
            }
        }
    }
}

#[tokio::test]
async fn conversations_and_turns_belong_to_the_key_that_began_them() {
    let upstream = Upstream::answering(|_, _| openai::answer(&["Hello."])).await;
    let service = guarded(Some(&upstream)).await;
    let (_, one) = make(&service, json!({"name": "one", "scopes": ["chat"]})).await;
    let (_, two) = make(&service, json!({"name": "two", "scopes": ["chat"]})).await;
    let body = json!({"message": "Hi", "retrieval": "off", "stream": false});
    let asked = service.post("/api/v1/chat", &body).bearer_auth(&one).header("idempotency-key", "k").send().await;
    let turn: Value = asked.unwrap().json().await.unwrap();
    let (id, conversation) = (turn["turn_id"].as_str().unwrap(), turn["conversation_id"].as_str().unwrap());
    let routes = [
        (Method::GET, format!("/api/v1/turns/{id}")),
        (Method::GET, format!("/api/v1/turns/{id}/events")),
        (Method::POST, format!("/api/v1/turns/{id}/cancel")),
        (Method::GET, format!("/api/v1/conversations/{conversation}")),
        (Method::GET, format!("/api/v1/conversations/{conversation}/messages")),
        (Method::PATCH, format!("/api/v1/conversations/{conversation}")),
        (Method::DELETE, format!("/api/v1/conversations/{conversation}")),
    ];
    for (key, may) in [(two.as_str(), false), (ADMIN, true), (one.as_str(), true)] {
        for (method, path) in &routes {
            if method == Method::DELETE && key != one {
                continue;
            }
            let request = service.client.request(method.clone(), format!("{}{path}", service.url)).bearer_auth(key);
            let status = request.json(&json!({"title": "t"})).send().await.unwrap().status();
            assert_eq!(status != 404, may, "{method} {path}: {status}");
        }
        let list = service.get("/api/v1/conversations").bearer_auth(key).send().await.unwrap();
        let list: Value = list.json().await.unwrap();
        // The owner's has been deleted by then.
        assert_eq!(list["conversations"].as_array().unwrap().len(), usize::from(key == ADMIN));
    }
    // Another key's idempotency key is another key.
    let other = service.post("/api/v1/chat", &body).bearer_auth(&two).header("idempotency-key", "k").send().await;
    assert_ne!(other.unwrap().json::<Value>().await.unwrap()["turn_id"], id);
    let go_on = json!({"message": "Hi", "conversation_id": conversation});
    assert_eq!(service.post("/api/v1/chat", &go_on).bearer_auth(&two).send().await.unwrap().status(), 404);
}

#[tokio::test]
async fn a_key_may_be_limited_to_collections() {
    let service = guarded(None).await;
    for name in ["mine", "theirs"] {
        let made = service.post("/api/v1/collections", &json!({"name": name})).bearer_auth(ADMIN).send().await.unwrap();
        assert_eq!(made.status(), 201);
    }
    let body = json!({"name": "k", "scopes": ["chat", "search", "ingest"], "collections": ["mine"]});
    let (_, key) = make(&service, body).await;
    let list: Value = service.get("/api/v1/collections").bearer_auth(&key).send().await.unwrap().json().await.unwrap();
    let names: Vec<&str> = list["collections"].as_array().unwrap().iter().filter_map(|c| c["name"].as_str()).collect();
    assert_eq!(names, ["mine"]);
    for (name, status) in [("mine", 200), ("theirs", 403), ("%74heirs", 403), ("default", 403)] {
        let path = format!("/api/v1/collections/{name}/search");
        let found = service.post(&path, &json!({"query": "x"})).bearer_auth(&key).send().await.unwrap();
        assert_eq!(found.status(), status, "{name}");
    }
    for (collection, status) in [(json!("mine"), 200), (json!(["mine", "theirs"]), 403), (Value::Null, 403)] {
        let mut body = json!({"message": "x", "stream": false});
        if !collection.is_null() {
            body["collection"] = collection.clone();
        }
        let answer = service.post("/api/v1/chat", &body).bearer_auth(&key).send().await.unwrap();
        assert_eq!(answer.status(), status, "{collection}");
    }
}

#[tokio::test]
async fn jobs_belong_to_the_key_that_sent_the_document_and_to_its_collections() {
    let service = guarded(None).await;
    let made = service.post("/api/v1/collections", &json!({"name": "mine"})).bearer_auth(ADMIN).send().await.unwrap();
    assert_eq!(made.status(), 201);
    let (_, one) = make(&service, json!({"name": "one", "scopes": ["ingest"]})).await;
    let (_, two) = make(&service, json!({"name": "two", "scopes": ["ingest"], "collections": ["mine"]})).await;
    let body = json!({"documents": [{"uri": "a.md", "text": "The heron stands still."}]});
    let send = async |collection: &str, key: &str| {
        let path = format!("/api/v1/collections/{collection}/documents?wait=true");
        let response = service.post(&path, &body).bearer_auth(key).send().await.unwrap();
        assert_eq!(response.status(), 200);
        response.json::<Value>().await.unwrap()["documents"][0]["job_id"].as_str().unwrap().to_owned()
    };
    let jobs = [send("default", &one).await, send("mine", &two).await, send("mine", ADMIN).await];
    for (key, seen) in [(one.as_str(), [true, false, false]), (&two, [false, true, false]), (ADMIN, [true; 3])] {
        for (job, seen) in jobs.iter().zip(seen) {
            for (method, action) in [("GET", ""), ("GET", "/events"), ("POST", "/cancel"), ("POST", "/retry")] {
                let url = format!("{}/api/v1/jobs/{job}{action}", service.url);
                let request = service.client.request(method.parse().unwrap(), url).bearer_auth(key);
                let status = request.send().await.unwrap().status();
                assert_eq!(status != 404, seen, "{method} {action} {status}");
            }
        }
        let list: Value = service.get("/api/v1/jobs").bearer_auth(key).send().await.unwrap().json().await.unwrap();
        let ids: Vec<&str> = list["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap()).collect();
        let want: Vec<&str> = jobs.iter().zip(seen).rev().filter(|(_, seen)| *seen).map(|(job, _)| &**job).collect();
        assert_eq!(ids, want);
    }
    let foreign = service.get("/api/v1/jobs?collection=default").bearer_auth(&two).send().await.unwrap();
    assert_eq!(foreign.status(), 403);
}

#[tokio::test]
async fn a_revoked_or_expired_key_ends_its_streams() {
    let hang = || Script::stream([openai::text("word"), Step::Hang]);
    let upstream = Upstream::start([hang(), hang(), hang()]).await;
    let service = guarded(Some(&upstream)).await;
    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(2);
    let (_, ends) = make(&service, json!({"name": "ends", "scopes": ["chat"], "expires_at": soon})).await;
    let (id, key) = make(&service, json!({"name": "k", "scopes": ["chat"]})).await;
    let body = json!({"message": "Hi", "retrieval": "off"});
    let streams = [&ends, &key].map(|key| {
        let request = service.post("/api/v1/chat", &body).bearer_auth(key);
        async move { request.send().await.unwrap().text().await.unwrap() }
    });
    let mut socket = service.socket().await;
    socket.send(json!({"type": "auth", "key": key})).await;
    socket.send(json!({"type": "chat", "message": "Hi", "retrieval": "off"})).await;
    let revoke = async {
        while socket.next().await.unwrap()["state"] != "delta" {}
        tokio::time::sleep(Duration::from_millis(300)).await;
        let path = format!("/api/v1/keys/{id}");
        assert_eq!(service.delete(&path).bearer_auth(ADMIN).send().await.unwrap().status(), 204);
        assert_eq!(service.delete(&path).bearer_auth(ADMIN).send().await.unwrap().status(), 404);
        while socket.next().await.is_ok() {}
    };
    let [first, second] = streams;
    let began = std::time::Instant::now();
    let (first, second, ()) = tokio::join!(first, second, revoke);
    assert!(began.elapsed() < Duration::from_secs(8));
    for seen in [first, second] {
        assert!(seen.contains("word") && !seen.contains("[DONE]"), "{seen}");
    }
    for key in [&ends, &key] {
        assert_eq!(service.get("/api/v1/conversations").bearer_auth(key).send().await.unwrap().status(), 401);
    }
}

#[tokio::test]
async fn a_socket_shows_its_key_first_and_soon() {
    let service = guarded(None).await;
    let (_, search) = make(&service, json!({"name": "s", "scopes": ["search"]})).await;
    let (_, chat) = make(&service, json!({"name": "c", "scopes": ["chat"]})).await;
    for (message, may) in [
        (json!({"type": "auth", "key": chat}), true),
        (json!({"type": "auth", "key": ADMIN}), true),
        (json!({"type": "auth", "key": search}), false),
        (json!({"type": "auth", "key": "tr_0"}), false),
        (json!({"type": "auth", "key": "x".repeat(5000)}), false),
        (json!({"type": "ping"}), false),
    ] {
        let mut socket = service.socket().await;
        socket.send(message.clone()).await;
        if may {
            socket.send(json!({"type": "ping"})).await;
            assert_eq!(socket.next().await.unwrap()["type"], "pong", "{message}");
        } else {
            let closed = socket.next().await.unwrap_err().unwrap();
            assert_eq!(u16::from(closed.code), 4401, "{message}");
        }
    }
    let mut silent = service.socket().await;
    let began = std::time::Instant::now();
    assert_eq!(u16::from(silent.next().await.unwrap_err().unwrap().code), 4401);
    assert!(began.elapsed() < Duration::from_secs(7));
    let header = format!("Bearer {chat}");
    let mut by_header = service.socket_with(&[("authorization", &header)]).await.unwrap();
    by_header.send(json!({"type": "ping"})).await;
    assert_eq!(by_header.next().await.unwrap()["type"], "pong");
}

#[tokio::test]
async fn the_command_line_makes_lists_and_revokes_keys_with_and_without_a_server() {
    let service = guarded(None).await;
    let run = async |args: &[&str]| {
        let address = service.url.trim_start_matches("http://");
        let listen = format!("server.listen={address}");
        let mut command = tailrace();
        command
            .env("TAILRACE_ADMIN_KEY", ADMIN)
            .args(["--json", "--set", &listen, "--data-dir"])
            .arg(service.data.path());
        let output = command.arg("keys").args(args).output().await.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.success(), serde_json::from_str::<Value>(text.trim()).unwrap_or_else(|e| panic!("{e}: {text}")))
    };
    let check = async || {
        let (done, made) = run(&["create", "front end", "--scope", "chat", "--scope", "search"]).await;
        assert!(done && made["key"].as_str().unwrap().starts_with("tr_"), "{made}");
        let (_, list) = run(&["list"]).await;
        let listed = &list["keys"].as_array().unwrap()[0];
        assert_eq!((&listed["id"], &listed["name"]), (&made["id"], &json!("front end")));
        assert!(listed.get("key").is_none() && !list.to_string().contains(made["key"].as_str().unwrap()));
        assert!(run(&["revoke", made["id"].as_str().unwrap()]).await.0);
        assert!(!run(&["revoke", made["id"].as_str().unwrap()]).await.0);
        assert!(!run(&["create", "x", "--scope", "chat", "--expires", "2020-01-01T00:00:00Z"]).await.0);
    };
    check().await;
    let mut service_child = service.child;
    service_child.kill().await.unwrap();
    let service = Service { child: service_child, ..service };
    let _ = &service;
}
