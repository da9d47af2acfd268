//! Caring for a collection: built anew, drawn as a map; what the server says of itself.

use super::*;
use serde_json::json;
use tailrace::http::guard::ROUTES;

async fn json_of(request: reqwest::RequestBuilder) -> (u16, Value) {
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

#[tokio::test]
async fn a_collection_is_re_indexed_with_another_model_over_http() {
    let tiny = format!("{}/tests/data/tiny-embedder", env!("CARGO_MANIFEST_DIR"));
    let more = json!([tiny]).to_string();
    let env = [("TAILRACE__LLM__PROVIDER", "extractive"), ("TAILRACE__EMBEDDING__MORE", more.as_str())];
    let service = Service::with(&env).await;
    let put = service.ingest("kestrel.md", "# Birds\n\nThe kestrel hovers at dawn.").await;
    let path = "/api/v1/collections/default";
    let (_, before) = json_of(service.get(path)).await;
    let (status, begun) = json_of(service.post(&format!("{path}/reindex"), &json!({"embedding_model": tiny}))).await;
    assert_eq!((status, &begun["total"]), (202, &json!(1)), "{begun}");
    let mut now = json!(null);
    for _ in 0..600 {
        now = json_of(service.get(path)).await.1;
        if now["embedding_model"] == begun["embedding_model"] && now.get("reindex").is_none() {
            break;
        }
        assert!(now["reindex"]["error"].is_null(), "{now}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_ne!(now["dimension"], before["dimension"], "{now}");
    assert_eq!(service.search("default", "kestrel").await[0]["uri"], "kestrel.md");
    let (_, job) = json_of(service.get(&format!("/api/v1/jobs/{}", begun["job_id"].as_str().unwrap()))).await;
    assert_eq!(
        (&job["kind"], &job["status"], &job["done"]),
        (&json!("reindex"), &json!("indexed"), &json!(1)),
        "{job}"
    );
    // Back to the model that is the default, without a body: its own model runs here, so that is what it stays with.
    let begun = service.client.post(format!("{}{path}/reindex", service.url)).send().await.unwrap();
    assert_eq!(begun.status(), 202);
    assert_eq!(begun.json::<Value>().await.unwrap()["embedding_model"], now["embedding_model"]);
    let document = format!("{path}/documents/{}", put["documents"][0]["id"].as_str().unwrap());
    let (status, again) = json_of(service.client.post(format!("{}{document}/reindex", service.url))).await;
    assert_eq!((status, &again["version"]), (200, &json!(2)), "{again}");
    for (path, body, want) in [
        ("/api/v1/collections/nobody/reindex", json!({}), 404),
        ("/api/v1/collections/default/reindex", json!({"embedding_model": "nobody's"}), 422),
        ("/api/v1/collections/default/reindex", json!({"model": "x"}), 422),
        ("/api/v1/collections/default/documents/nobody/reindex", json!({}), 404),
    ] {
        assert_eq!(json_of(service.post(path, &body)).await.0, want, "{path} {body}");
    }
}

#[tokio::test]
async fn a_collection_is_drawn_with_groups_that_have_names() {
    let service = Service::start().await;
    let path = "/api/v1/collections/default/map";
    let (status, empty) = json_of(service.get(path)).await;
    assert_eq!((status, &empty["points"], &empty["clusters"]), (200, &json!([]), &json!([])));
    for n in 0..8 {
        service.ingest(&format!("bird{n}.md"), &format!("The kestrel and the heron hunt in valley number {n}.")).await;
        service.ingest(&format!("bill{n}.md"), &format!("The invoice over {n} euros was paid by the bank.")).await;
    }
    let (_, map) = json_of(service.get(path)).await;
    let points = map["points"].as_array().unwrap();
    assert_eq!((points.len(), &map["total"]), (16, &json!(16)));
    let clusters = map["clusters"].as_array().unwrap();
    assert_eq!(clusters.iter().map(|c| c["points"].as_u64().unwrap()).sum::<u64>(), 16);
    let within = |x: &Value| (-1.0..=1.0).contains(&x.as_f64().unwrap());
    assert!(points.iter().all(|p| within(&p["x"]) && within(&p["y"])));
    let uri = |p: &Value| {
        map["documents"][usize::try_from(p["document"].as_u64().unwrap()).unwrap()]["uri"].as_str().unwrap().to_owned()
    };
    // Birds and bills lie apart on the first axis, and no group holds both.
    let side = |kind: &str| {
        let of_kind = points.iter().filter(|p| uri(p).starts_with(kind));
        of_kind.map(|p| p["x"].as_f64().unwrap() > 0.0).collect::<Vec<_>>()
    };
    let (birds, bills) = (side("bird"), side("bill"));
    assert!(birds.iter().all(|s| *s == birds[0]) && bills.iter().all(|s| *s != birds[0]), "{birds:?} {bills:?}");
    let terms: Vec<&str> =
        clusters.iter().flat_map(|c| c["terms"].as_array().unwrap()).map(|t| t.as_str().unwrap()).collect();
    assert!(terms.contains(&"invoice") || terms.contains(&"bank") || terms.contains(&"euros"), "{terms:?}");
    // Another state of the collection is another map.
    let id = map["documents"][0]["id"].as_str().unwrap();
    service.delete(&format!("/api/v1/collections/default/documents/{id}")).send().await.unwrap();
    assert_eq!(json_of(service.get(path)).await.1["points"].as_array().unwrap().len(), 15);
    assert_eq!(json_of(service.get("/api/v1/collections/nobody/map")).await.0, 404);
}

#[tokio::test]
async fn the_server_tells_what_runs_and_what_there_is() {
    let service = Service::start().await;
    service.ingest("kestrel.md", "The kestrel hovers at dawn.").await;
    service.chat(json!({"message": "When does the kestrel hover?", "retrieval": "tool"})).await;
    // The last frame is sent a moment before the turn's task has ended.
    let mut told = json!(null);
    for _ in 0..200 {
        let (status, now) = json_of(service.get("/api/v1/status")).await;
        assert_eq!(status, 200, "{now}");
        told = now;
        if told["turns"]["running"] == 0 && told["turns"]["ended"]["complete"] == 1.0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!((&told["turns"]["running"], &told["turns"]["ended"]["complete"]), (&json!(0), &json!(1.0)), "{told}");
    assert_eq!(told["knowledge"], json!({"collections": 1, "documents": 1, "chunks": 1}));
    assert_eq!(told["tools"]["vector_search"]["calls"], json!(1.0), "{told}");
    for size in ["/memory/resident_bytes", "/storage/database_bytes", "/storage/vectors_bytes"] {
        assert!(told.pointer(size).unwrap().as_u64().unwrap() > 1000, "{size}: {told}");
    }
    assert_eq!(told["embedding_models"][0], json!({"name": "all-minilm-l6-v2", "dimension": 384}));
}

#[tokio::test]
async fn the_api_describes_itself_to_anybody() {
    let service = Service::with(&[("TAILRACE__LLM__PROVIDER", "extractive"), ("TAILRACE_ADMIN_KEY", "k")]).await;
    let (status, document) = json_of(service.get("/api/v1/openapi.json")).await;
    assert_eq!((status, &document["openapi"]), (200, &json!("3.1.0")));
    for (method, path, _) in ROUTES {
        let operation = &document["paths"][path][method.as_str().to_lowercase()];
        assert!(operation["summary"].is_string(), "{method} {path}");
    }
}
