//! Documents and collections over HTTP.

use super::*;
use serde_json::json;

/// Parts as (name, file name or nothing, bytes).
pub async fn multipart(service: &Service, path: &str, parts: &[(&str, &str, &[u8])]) -> reqwest::Response {
    let mut body = Vec::new();
    for (name, file, bytes) in parts {
        let file = if file.is_empty() { String::new() } else { format!("; filename=\"{file}\"") };
        let head = format!("--border\r\ncontent-disposition: form-data; name=\"{name}\"{file}\r\n\r\n");
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(bytes);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--border--\r\n");
    let request = service.client.post(format!("{}{path}", service.url));
    request.header("content-type", "multipart/form-data; boundary=border").body(body).send().await.unwrap()
}

#[tokio::test]
async fn a_document_comes_is_found_changes_and_goes() {
    let service = Service::start().await;
    let path = "/api/v1/collections/default/documents";
    let first = service.ingest("a/kestrel.md", "The kestrel hovers at dawn.").await;
    let id = first["documents"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(first["documents"][0]["unchanged"], false);
    let again = service.ingest("a/kestrel.md", "The kestrel hovers at dawn.").await;
    assert_eq!((&again["documents"][0]["id"], &again["documents"][0]["unchanged"]), (&json!(id), &json!(true)));
    assert_eq!(service.search("default", "kestrel").await[0]["document_id"], id.as_str());

    service.ingest("a/kestrel.md", "The kestrel sleeps at noon.").await;
    let hits = service.search("default", "kestrel").await;
    assert_eq!((hits.len(), hits[0]["text"].as_str().unwrap().contains("noon")), (1, true), "{hits:?}");
    let found: Value = service.get(&format!("{path}/{id}")).send().await.unwrap().json().await.unwrap();
    assert_eq!((&found["status"], &found["uri"]), (&json!("indexed"), &json!("a/kestrel.md")));

    let content = service.get(&format!("{path}/{id}/content")).send().await.unwrap().text().await.unwrap();
    assert_eq!(content, "The kestrel sleeps at noon.");
    let chunks: Value = service.get(&format!("{path}/{id}/chunks")).send().await.unwrap().json().await.unwrap();
    let chunk = &chunks["chunks"][0];
    let at = |key: &str| usize::try_from(chunk[key].as_u64().unwrap()).unwrap();
    assert_eq!(&content[at("start")..at("end")], chunk["text"].as_str().unwrap());

    let gone: Value = service.delete(&format!("{path}/{id}")).send().await.unwrap().json().await.unwrap();
    assert_eq!((&gone["points_before"], &gone["points_after"]), (&json!(1), &json!(0)));
    assert!(service.search("default", "kestrel").await.is_empty());
    assert_eq!(service.get(&format!("{path}/{id}")).send().await.unwrap().status(), 404);
}

#[tokio::test]
async fn files_come_as_multipart_and_one_bad_file_does_not_stop_the_others() {
    let service = Service::start().await;
    let path = "/api/v1/collections/default/documents?wait=true";
    let parts: [(&str, &str, &[u8]); 4] = [
        ("metadata", "", b"{\"lang\": \"en\"}"),
        ("file", "notes.md", b"# Otter\n\nThe otter swims."),
        ("file", "blank.md", b" \n"),
        ("file", "image.txt", include_bytes!("../../data/ingest/png_named.txt")),
    ];
    let response = multipart(&service, path, &parts).await;
    assert_eq!(response.status(), 207);
    let answer: Value = response.json().await.unwrap();
    let codes: Vec<_> = answer["documents"].as_array().unwrap().iter().map(|d| d["error"]["code"].clone()).collect();
    assert_eq!(codes, [Value::Null, json!("empty_document"), json!("binary_content")]);
    let refused = answer["documents"][2]["id"].as_str().unwrap();
    let content =
        service.get(&format!("/api/v1/collections/default/documents/{refused}/content")).send().await.unwrap();
    let (status, problem): (u16, Value) = (content.status().as_u16(), content.json().await.unwrap());
    assert_eq!((status, &problem["code"]), (409, &json!("no_live_version")));
    let body = json!({"query": "otter", "filter": {"must": [{"key": "metadata.lang", "match": "en"}]}});
    let found: Value =
        service.post("/api/v1/collections/default/search", &body).send().await.unwrap().json().await.unwrap();
    assert_eq!(found["hits"].as_array().unwrap().len(), 1);

    for parts in [
        vec![("metadata", "", &b"{nope"[..]), ("file", "a.md", b"Text.")],
        vec![("metadata", "", b"[1]"), ("file", "a.md", b"Text.")],
        vec![("metadata", "", b"{}"), ("file", "a.md", b"Text."), ("metadata", "", b"{}")],
    ] {
        let response = multipart(&service, path, &parts).await;
        assert_eq!(response.status(), 422);
        let problem: Value = response.json().await.unwrap();
        assert!(problem["detail"].as_str().unwrap().starts_with("part `metadata`: "), "{problem}");
    }

    let response = multipart(&service, path, &[("file", "blank.md", b" \n")]).await;
    assert_eq!(response.status(), 422);
    assert_eq!(response.json::<Value>().await.unwrap()["code"], "empty_document");
}

#[tokio::test]
async fn an_upload_that_does_not_wait_is_accepted_and_then_indexed() {
    let service = Service::start().await;
    let path = "/api/v1/collections/default/documents";
    let body = json!({"documents": [{"id": "mine", "title": "T", "text": "A heron stands still."}]});
    let response = service.post(path, &body).send().await.unwrap();
    assert_eq!(response.status(), 202);
    let answer: Value = response.json().await.unwrap();
    assert_eq!(answer["documents"][0]["id"], "mine");
    assert!(answer["watermark"].is_number());
    for _ in 0..600 {
        let found: Value = service.get(&format!("{path}/mine")).send().await.unwrap().json().await.unwrap();
        if found["status"] == "indexed" {
            assert_eq!(service.search("default", "heron").await.len(), 1);
            return;
        }
        assert_ne!(found["status"], "failed", "{found}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it was never indexed");
}

#[tokio::test]
async fn collections_are_made_listed_and_deleted() {
    let service = Service::start().await;
    let made = service.post("/api/v1/collections", &json!({"name": "birds", "language": "en"})).send().await.unwrap();
    assert_eq!(made.status(), 201);
    let listed: Value = service.get("/api/v1/collections").send().await.unwrap().json().await.unwrap();
    let names: Vec<_> = listed["collections"].as_array().unwrap().iter().map(|c| c["name"].clone()).collect();
    assert!(names.contains(&json!("birds")) && names.contains(&json!("default")), "{names:?}");
    for (body, status) in [
        (json!({"name": "No Good"}), 422),
        (json!({"name": "x", "embedding_model": "other"}), 422),
        (json!({"name": "x", "colour": 1}), 422),
    ] {
        assert_eq!(service.post("/api/v1/collections", &body).send().await.unwrap().status(), status, "{body}");
    }
    assert_eq!(service.delete("/api/v1/collections/birds").send().await.unwrap().status(), 204);
    assert_eq!(service.get("/api/v1/collections/birds").send().await.unwrap().status(), 404);
}

#[tokio::test]
async fn searches_that_make_no_sense_are_refused() {
    let service = Service::start().await;
    for (body, names) in [
        (json!({"query": ""}), "query"),
        (json!({"query": "x", "limit": 101}), "limit"),
        (json!({"query": "x", "min_score": 0.5}), "min_score"),
        (json!({"query": "x", "filter": {"must": [{"key": "scope", "match": "collection"}]}}), "scope"),
        (json!({"query": "x", "colour": 1}), "colour"),
    ] {
        let response = service.post("/api/v1/collections/default/search", &body).send().await.unwrap();
        assert_eq!(response.status(), 422, "{body}");
        let problem: Value = response.json().await.unwrap();
        assert!(problem["detail"].as_str().unwrap().contains(names), "{problem}");
    }
}
