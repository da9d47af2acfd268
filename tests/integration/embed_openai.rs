//! Embedding by an OpenAI-compatible server: a scripted one, real HTTP, and the whole program before it.

use crate::service::Service;
use crate::upstream::{Request, Script, Upstream};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tailrace::knowledge::embed::openai::{OpenAiEmbedder, OpenAiEmbedderOptions};
use tailrace::knowledge::{Embedder, Priority};
use tailrace::secret::Secret;

const KEY: &str = "sk-canary-0123456789";
const DIMENSION: usize = 64;

fn options(upstream: &Upstream) -> OpenAiEmbedderOptions {
    OpenAiEmbedderOptions {
        base_url: upstream.base_url().to_owned(),
        api_key: Some(Secret::new(KEY)),
        model: "words".to_owned(),
        dimension: None,
        window: 512,
        batch: 3,
        parallel: 2,
        timeout: Duration::from_secs(10),
        max_retries: 2,
        query_prefix: String::new(),
        passage_prefix: String::new(),
    }
}

/// Vectors in which texts that share words are near each other, in reverse order: the index counts.
fn answer(request: &Request, dimension: usize) -> Script {
    let body = request.json();
    let texts: Vec<String> =
        body["input"].as_array().unwrap().iter().map(|t| t.as_str().unwrap().to_lowercase()).collect();
    let vector = |text: &str| {
        let mut sum = vec![0.01f64; dimension];
        for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 3) {
            let hash = word.bytes().fold(7usize, |h, b| h.wrapping_mul(31).wrapping_add(b.into()));
            sum[hash % dimension] += 1.0;
        }
        sum
    };
    let data: Vec<Value> = texts
        .iter()
        .enumerate()
        .rev()
        .map(|(index, text)| json!({"object": "embedding", "index": index, "embedding": vector(text)}))
        .collect();
    Script::json(200, &json!({"object": "list", "model": body["model"], "data": data}))
}

fn texts(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("text number{n}")).collect()
}

#[tokio::test]
async fn texts_go_in_batches_with_the_key_and_come_back_in_order() {
    let upstream = Upstream::answering(|_, request| answer(request, DIMENSION)).await;
    let embedder = OpenAiEmbedder::connect(options(&upstream), None).await.unwrap();
    assert_eq!((embedder.model().name.as_str(), embedder.model().dimension), ("openai:words", DIMENSION));
    let together = embedder.embed(texts(8), Priority::Bulk).await.unwrap();
    let mut alone = Vec::new();
    for text in texts(8) {
        alone.extend(embedder.embed(vec![text], Priority::Turn).await.unwrap());
    }
    assert_eq!(together, alone);
    assert!(together.iter().all(|v| (v.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-4));
    let requests = upstream.requests();
    let sizes: Vec<usize> = requests.iter().map(|r| r.json()["input"].as_array().unwrap().len()).collect();
    // The probe, then 3 + 3 + 2, which may overtake each other, then one by one.
    assert_eq!((sizes.len(), sizes[0], sizes[1..4].iter().sum::<usize>(), sizes.iter().max()), (12, 1, 8, Some(&3)));
    for request in &requests {
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/v1/embeddings"));
        assert_eq!(request.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
        assert_eq!(request.json()["model"], "words");
        assert!(request.json().get("dimensions").is_none());
    }
}

#[tokio::test]
async fn a_configured_dimension_is_asked_for_and_not_probed() {
    let upstream = Upstream::answering(|_, request| answer(request, 16)).await;
    let options = OpenAiEmbedderOptions { dimension: Some(16), ..options(&upstream) };
    let embedder = OpenAiEmbedder::connect(options, None).await.unwrap();
    assert!(upstream.requests().is_empty());
    embedder.embed(texts(1), Priority::Turn).await.unwrap();
    assert_eq!(upstream.requests()[0].json()["dimensions"], 16);
}

/// One refusal or fault before the answer: how many requests go out, and what is said if it does not help.
#[tokio::test]
async fn what_may_pass_is_asked_again_and_what_may_not_is_told() {
    let error = |message: &str| json!({"error": {"message": message}});
    let quota = json!({"error": {"message": "no money", "code": "insufficient_quota"}});
    let cases: [(&str, Vec<Script>, usize, Option<&str>); 8] = [
        ("busy once", vec![Script::json(429, &error("slow")).header("retry-after", "0")], 2, None),
        ("busy twice", vec![Script::body(503, "text/plain", "x").header("retry-after", "0"); 2], 3, None),
        ("busy for ever", vec![Script::json(500, &error("on fire")).header("retry-after", "0"); 3], 3, Some("on fire")),
        ("no money", vec![Script::json(429, &quota)], 1, Some("no money")),
        ("a wrong key", vec![Script::json(401, &error(&format!("bad key {KEY}")))], 1, Some("bad key ***")),
        ("too long", vec![Script::json(400, &error("input is too long"))], 1, Some("input is too long")),
        ("a web page", vec![Script::body(200, "text/html", "<html>")], 1, Some("no list of embeddings")),
        ("a redirect", vec![Script::body(302, "text/plain", "").header("location", "/elsewhere")], 1, Some("302")),
    ];
    for (what, scripts, requests, says) in cases {
        let upstream = Upstream::answering(move |n, request| {
            scripts.get(n).cloned().unwrap_or_else(|| answer(request, DIMENSION))
        })
        .await;
        let options = OpenAiEmbedderOptions { dimension: Some(DIMENSION), ..options(&upstream) };
        let embedder = OpenAiEmbedder::connect(options, None).await.unwrap();
        let embedded = embedder.embed(texts(2), Priority::Turn).await;
        match says {
            None => assert_eq!(embedded.unwrap().len(), 2, "{what}"),
            Some(says) => {
                let said = embedded.unwrap_err().to_string();
                assert!(said.contains(says) && !said.contains(KEY), "{what}: {said}");
            }
        }
        assert_eq!(upstream.requests().len(), requests, "{what}");
    }
}

#[tokio::test]
async fn another_length_than_the_collections_is_an_error_and_a_silent_server_a_late_one() {
    let upstream = Upstream::answering(|n, request| answer(request, if n == 0 { DIMENSION } else { 8 })).await;
    let embedder = OpenAiEmbedder::connect(options(&upstream), None).await.unwrap();
    let said = embedder.embed(texts(1), Priority::Turn).await.unwrap_err().to_string();
    assert!(said.contains("8 numbers") && said.contains("64"), "{said}");

    let silent = Upstream::answering(|_, _| Script::stream([crate::upstream::Step::Hang])).await;
    let options = OpenAiEmbedderOptions { timeout: Duration::from_millis(50), max_retries: 0, ..options(&silent) };
    let said = OpenAiEmbedder::connect(options.clone(), None).await.err().unwrap().to_string();
    assert!(said.contains("embedding.openai.timeout_ms") && said.contains("embedding.openai.dimension"), "{said}");
    let remembered = OpenAiEmbedder::connect(options, Some(DIMENSION)).await.unwrap();
    assert_eq!(remembered.model().dimension, DIMENSION);
}

#[tokio::test]
async fn the_program_embeds_documents_and_queries_with_the_servers_model() {
    let upstream = Upstream::answering(|_, request| answer(request, DIMENSION)).await;
    let address = upstream.base_url().to_owned();
    let env = [
        ("TAILRACE__LLM__PROVIDER", "extractive"),
        ("TAILRACE__EMBEDDING__MODEL", "openai:multilingual-e5-words"),
        ("TAILRACE__EMBEDDING__MORE", "[\"all-minilm-l6-v2\"]"),
        ("TAILRACE__EMBEDDING__OPENAI__MAX_RETRIES", "0"),
        ("OPENAI_BASE_URL", address.as_str()),
        ("OPENAI_API_KEY", KEY),
    ];
    let service = Service::with(&env).await;
    service.ingest("kestrel.md", "# Birds\n\nThe kestrel hovers above the meadow at dawn.").await;
    service.ingest("otter.md", "# Beasts\n\nThe otter swims below the bridge at noon.").await;
    let dense = async |service: &Service, collection: &str, query: &str| {
        let body = json!({"query": query, "mode": "dense"});
        let response = service.post(&format!("/api/v1/collections/{collection}/search"), &body).send().await.unwrap();
        (response.status().as_u16(), response.json::<Value>().await.unwrap())
    };
    let (status, found) = dense(&service, "default", "swims below").await;
    assert_eq!((status, &found["hits"][0]["uri"]), (200, &json!("otter.md")), "{found}");
    let asked: Vec<String> = upstream
        .requests()
        .iter()
        .flat_map(|r| r.json()["input"].as_array().unwrap().clone())
        .map(|t| t.as_str().unwrap().to_owned())
        .collect();
    assert!(asked.iter().any(|text| text.starts_with("passage: ") && text.contains("otter swims")), "{asked:?}");
    assert!(asked.contains(&"query: swims below".to_owned()), "{asked:?}");

    // Another collection with the built-in model, beside it in one process; both are searched by their own.
    let made = service
        .post("/api/v1/collections", &json!({"name": "local", "embedding_model": "all-minilm-l6-v2"}))
        .send()
        .await
        .unwrap();
    assert_eq!(made.status(), 201);
    assert_eq!(made.json::<Value>().await.unwrap()["dimension"], 384);
    let documents = json!({"documents": [{"uri": "heron.md", "text": "The heron stands still in the shallow water."}]});
    let put = service.post("/api/v1/collections/local/documents?wait=true", &documents).send().await.unwrap();
    assert_eq!(put.status(), 200);
    let before = upstream.requests().len();
    let (_, found) = dense(&service, "local", "a bird that waits for fish").await;
    assert_eq!(found["hits"][0]["uri"], "heron.md");
    assert_eq!(upstream.requests().len(), before, "the server has no part in it");
    let unknown = json!({"name": "x", "embedding_model": "openai:other"});
    let refused = service.post("/api/v1/collections", &unknown).send().await.unwrap();
    assert_eq!(refused.status(), 422);
    assert!(refused.text().await.unwrap().contains("openai:multilingual-e5-words"));

    // The server is gone: the program starts with the length that it remembers, and says what fails.
    let data = Arc::clone(&service.data);
    let mut child = service.child;
    child.kill().await.unwrap();
    drop(upstream);
    let service = Service::on(data, &env).await;
    let (status, problem) = dense(&service, "default", "kestrel").await;
    assert_eq!((status, &problem["code"]), (503, &json!("embedding_unavailable")), "{problem}");
    let body = json!({"query": "kestrel", "mode": "sparse"});
    let found: Value =
        service.post("/api/v1/collections/default/search", &body).send().await.unwrap().json().await.unwrap();
    assert_eq!(found["hits"][0]["uri"], "kestrel.md");
}
