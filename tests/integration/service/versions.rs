//! Versions, descriptions and findings over HTTP.

use super::*;
use crate::upstream::{Upstream, openai};
use serde_json::json;

async fn patch(service: &Service, path: &str, body: &Value) -> (u16, Value) {
    let response = service.client.patch(format!("{}{path}", service.url)).json(body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

#[tokio::test]
async fn a_collection_is_searched_as_it_was() {
    let service = Service::start().await;
    let made = service.post("/api/v1/collections", &json!({"name": "laws", "keep_versions": 2})).send().await.unwrap();
    assert_eq!((made.status().as_u16(), &made.json::<Value>().await.unwrap()["keep_versions"]), (201, &json!(2)));
    let path = "/api/v1/collections/laws/documents";
    for text in ["The toll is one penny.", "The toll is two pence.", "The toll is three pence."] {
        let body = json!({"documents": [{"id": "toll", "title": "Toll", "text": text}]});
        assert_eq!(service.post(&format!("{path}?wait=true"), &body).send().await.unwrap().status(), 200);
    }
    let found: Value = service.get(&format!("{path}/toll")).send().await.unwrap().json().await.unwrap();
    let versions = found["versions"].as_array().unwrap();
    assert_eq!(versions.iter().map(|v| v["version"].as_i64().unwrap()).collect::<Vec<_>>(), [3, 2]);
    assert_eq!(versions[1]["superseded_at"], versions[0]["created_at"]);
    let search = async |body: Value| {
        let response = service.post("/api/v1/collections/laws/search", &body).send().await.unwrap();
        (response.status().as_u16(), response.json::<Value>().await.unwrap())
    };
    for (as_of, says) in [(&versions[1]["created_at"], "two"), (&versions[0]["created_at"], "three")] {
        let (_, found) = search(json!({"query": "What is the toll?", "as_of": as_of})).await;
        assert!(found["hits"][0]["text"].as_str().unwrap().contains(says), "{as_of}: {found}");
        assert_eq!(found["hits"].as_array().unwrap().len(), 1);
    }
    let (_, found) = search(json!({"query": "What is the toll?", "as_of": "2001-01-01T00:00:00Z"})).await;
    assert_eq!(found["hits"], json!([]));
    let (status, problem) = search(json!({"query": "toll", "as_of": "yesterday"})).await;
    assert!(status == 422 && problem["detail"].as_str().unwrap().contains("as_of"), "{problem}");
    let content = async |query: &str| service.get(&format!("{path}/toll/content{query}")).send().await.unwrap();
    assert_eq!(content("?version=2").await.text().await.unwrap(), "The toll is two pence.");
    assert_eq!(content("").await.text().await.unwrap(), "The toll is three pence.");
    assert_eq!(content("?version=1").await.status(), 404);
    for keep_versions in [json!(0), json!(101), json!("2")] {
        let body = json!({"name": "x", "keep_versions": keep_versions});
        assert_eq!(service.post("/api/v1/collections", &body).send().await.unwrap().status(), 422, "{body}");
    }
    // Made again: it is as asked for, or the answer says what is not.
    for (body, status) in [
        (json!({"name": "laws"}), 200),
        (json!({"name": "laws", "keep_versions": 2, "language": "auto"}), 200),
        (json!({"name": "laws", "keep_versions": 3}), 409),
        (json!({"name": "laws", "language": "de"}), 409),
        (json!({"name": "gesetze", "language": "de"}), 201),
        (json!({"name": "gesetze", "language": "de"}), 200),
        (json!({"name": "gesetze", "language": "german"}), 200),
    ] {
        assert_eq!(service.post("/api/v1/collections", &body).send().await.unwrap().status(), status, "{body}");
    }
}

#[tokio::test]
async fn a_description_is_patched() {
    let service = Service::start().await;
    let put = service.ingest("kestrel.md", "The kestrel hovers at dawn.").await;
    let path = format!("/api/v1/collections/default/documents/{}", put["documents"][0]["id"].as_str().unwrap());
    let (status, changed) = patch(&service, &path, &json!({"title": "Birds", "metadata": {"team": "ops"}})).await;
    assert_eq!((status, &changed["title"], &changed["metadata"]["team"]), (200, &json!("Birds"), &json!("ops")));
    let filter = json!({"must": [{"key": "metadata.team", "match": "ops"}, {"key": "title", "match": "Birds"}]});
    let body = json!({"query": "kestrel", "filter": filter});
    let found: Value =
        service.post("/api/v1/collections/default/search", &body).send().await.unwrap().json().await.unwrap();
    assert_eq!(found["hits"][0]["title"], "Birds");
    assert_eq!(found["hits"][0]["metadata"], changed["metadata"]);
    for (path, body, want) in [
        (path.as_str(), json!({"uri": "other"}), 422),
        (path.as_str(), json!({"metadata": []}), 422),
        ("/api/v1/collections/default/documents/nobody", json!({"title": "x"}), 404),
        ("/api/v1/collections/nobody/documents/nobody", json!({"title": "x"}), 404),
    ] {
        assert_eq!(patch(&service, path, &body).await.0, want, "{path} {body}");
    }
}

/// A page that a turn fetched is found by its conversation only, until it is kept; and it says where it was cited.
#[tokio::test]
async fn a_finding_is_kept_and_says_where_it_was_cited() {
    let page = Upstream::answering(|_, _| {
        crate::upstream::Script::body(200, "text/plain", "The ferry to Skomer leaves at nine from the north pier.")
    })
    .await;
    let url = format!("{}/ferry.txt", page.base_url());
    let host = url.trim_start_matches("http://").split('/').next().unwrap().to_owned();
    let call = format!("<tool name=\"fetch_url\">{{\"url\": \"{url}\"}}</tool>");
    let upstream = Upstream::answering(move |n, _| match n {
        0 => openai::answer(&["I look. ", &call]),
        1 => openai::answer(&["<tool name=\"vector_search\">{\"query\": \"ferry to Skomer\"}</tool>"]),
        _ => openai::answer(&["At nine [1]."]),
    })
    .await;
    let hosts = format!("[\"{host}\"]");
    let service = Service::behind(&upstream, &[("TAILRACE__TOOLS__FETCH_URL__ALLOW_HOSTS", &hosts)]).await;
    let frames = service.chat(json!({"message": "When does the ferry leave?", "tool_mode": "inline"})).await;
    let results = frames.named("tool_result");
    let finding = results[0]["ingested"]["document_id"].as_str().unwrap();
    assert!(service.search("default", "ferry to Skomer").await.is_empty());
    let path = format!("/api/v1/collections/default/documents/{finding}");
    let found: Value = service.get(&path).send().await.unwrap().json().await.unwrap();
    assert_eq!(found["cited_in"][0]["id"].as_str().unwrap(), frames.conversation(), "{found}");
    let keep = async |path: &str, into: &str| {
        let response = service.post(&format!("{path}/keep"), &json!({"collection": into})).send().await.unwrap();
        (response.status().as_u16(), response.json::<Value>().await.unwrap())
    };
    let (status, kept) = keep(&path, "default").await;
    assert_eq!((status, &kept["collection"]), (200, &json!("default")), "{kept}");
    let hits = service.search("default", "ferry to Skomer").await;
    assert_eq!((&hits[0]["document_id"], &hits[0]["uri"]), (&kept["document_id"], &json!(url)));
    let kept = format!("/api/v1/collections/default/documents/{}", kept["document_id"].as_str().unwrap());
    let (status, problem) = keep(&kept, "default").await;
    assert_eq!((status, &problem["code"]), (409, &json!("not_a_finding")));
    assert_eq!(keep(&path, "nowhere").await.0, 404);
}
