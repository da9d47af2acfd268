//! The lifecycle cases of `cases/ingest` over HTTP, each under its own name.

use super::documents::multipart;
use super::*;
use futures_util::StreamExt;
use futures_util::future::join_all;
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Instant;

const DOCUMENTS: &str = "/api/v1/collections/default/documents";
const FIRE_DRILL: &[u8] = include_bytes!("../../data/ingest/dup_one.md");

/// Sends one file and waits; the answer's one document.
async fn put(service: &Service, collection: &str, name: &str, bytes: &[u8]) -> Value {
    let path = format!("/api/v1/collections/{collection}/documents?wait=true");
    let response = multipart(service, &path, &[("file", name, bytes)]).await;
    assert_eq!(response.status(), 200, "{name}");
    response.json::<Value>().await.unwrap()["documents"][0].clone()
}

async fn collection(service: &Service, name: &str) {
    assert_eq!(service.post("/api/v1/collections", &json!({"name": name})).send().await.unwrap().status(), 201);
}

async fn uris(service: &Service, collection: &str) -> BTreeSet<String> {
    let page = service.json(&format!("/api/v1/collections/{collection}/documents")).await;
    page["documents"].as_array().unwrap().iter().map(|d| d["uri"].as_str().unwrap().to_owned()).collect()
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[tokio::test]
async fn documents_keep_their_identity() {
    let service = Service::start().await;
    // nfd_name
    let composed = put(&service, "default", "\u{fc}bergr\u{f6}\u{df}e.txt", b"Plain text about gulls.").await;
    let decomposed = put(&service, "default", "u\u{308}bergro\u{308}\u{df}e.txt", b"Plain text about gulls.").await;
    assert_eq!((&decomposed["id"], &decomposed["unchanged"]), (&composed["id"], &json!(true)));
    assert_eq!(uris(&service, "default").await, names(&["\u{fc}bergr\u{f6}\u{df}e.txt"]));
    let content = format!("{DOCUMENTS}/{}/content", composed["id"].as_str().unwrap());
    assert_eq!(service.get(&content).send().await.unwrap().text().await.unwrap(), "Plain text about gulls.");

    // reupload_same, same_content_two_names
    let one = put(&service, "default", "dup_one.md", FIRE_DRILL).await;
    let again = put(&service, "default", "dup_one.md", FIRE_DRILL).await;
    assert_eq!((&again["id"], &again["unchanged"], &again["chunks"]), (&one["id"], &json!(true), &one["chunks"]));
    put(&service, "default", "dup_two.md", FIRE_DRILL).await;
    assert_eq!(uris(&service, "default").await.len(), 3);
    let drills = async |collection: &str| {
        let hits = service.search(collection, "When is the fire drill?").await;
        hits.into_iter().filter(|hit| hit["text"].as_str().unwrap().contains("drill")).collect::<Vec<_>>()
    };
    assert_eq!(drills("default").await.len(), 1, "the passage is shown once");

    // same_content_two_kbs
    collection(&service, "other").await;
    put(&service, "other", "dup_one.md", FIRE_DRILL).await;

    // delete_doc
    let path = format!("{DOCUMENTS}/{}", one["id"].as_str().unwrap());
    let gone: Value = service.delete(&path).send().await.unwrap().json().await.unwrap();
    assert_eq!((&gone["points_before"], &gone["points_after"]), (&one["chunks"], &json!(0)));
    for path in [path.clone(), format!("{path}/content"), format!("{path}/chunks")] {
        assert_eq!(service.get(&path).send().await.unwrap().status(), 404, "{path}");
    }
    let left = drills("default").await;
    assert_eq!((left.len(), &left[0]["uri"]), (1, &json!("dup_two.md")));
    assert_eq!(drills("other").await.len(), 1);

    // delete_then_reupload
    let back = put(&service, "default", "dup_one.md", FIRE_DRILL).await;
    assert_eq!((&back["status"], &back["unchanged"]), (&json!("indexed"), &json!(false)));

    // same_name
    put(&service, "default", "a/readme.md", include_bytes!("../../data/ingest/same_name/a/readme.md")).await;
    put(&service, "default", "b/readme.md", include_bytes!("../../data/ingest/same_name/b/readme.md")).await;
    for (query, uri) in [("alpha door code", "a/readme.md"), ("beta door code", "b/readme.md")] {
        assert_eq!(service.search("default", query).await[0]["uri"], uri);
    }
}

#[tokio::test]
async fn concurrent_first_docs_and_search_after_ingest() {
    let service = Service::start().await;
    collection(&service, "fresh").await;
    let texts: Vec<String> = (0..8).map(|n| format!("The number of buoy {n} is painted on its side.")).collect();
    let sends = texts
        .iter()
        .enumerate()
        .map(async |(n, text)| put(&service, "fresh", &format!("{n}.md"), text.as_bytes()).await);
    let done = join_all(sends).await;
    assert!(done.iter().all(|document| document["status"] == "indexed"), "{done:?}");
    assert_eq!(uris(&service, "fresh").await.len(), 8);
    for n in 0..200 {
        let mark = format!("gannet{n}");
        put(&service, "fresh", "changing.md", format!("The bird of the day is the {mark}.").as_bytes()).await;
        let hits = service.search("fresh", &mark).await;
        assert!(hits.iter().any(|hit| hit["text"].as_str().unwrap().contains(&mark)), "{mark}: {hits:?}");
    }
}

#[tokio::test]
async fn many_small() {
    let service = Service::start().await;
    let send = async |n: usize| {
        let text = format!("Parcel {n} waits in locker {}.", n * 7);
        let body = json!({"documents": [{"uri": format!("{n}.txt"), "text": text}]});
        let response = service.post(DOCUMENTS, &body).send().await.unwrap();
        assert_eq!(response.status(), 202);
        response.json::<Value>().await.unwrap()["documents"][0]["job_id"].clone()
    };
    let jobs: Vec<Value> = futures_util::stream::iter(0..800).map(&send).buffer_unordered(20).collect().await;
    let began = Instant::now();
    while !service.json("/api/v1/jobs?status=queued&limit=1").await["jobs"].as_array().unwrap().is_empty() {
        assert!(began.elapsed() < Duration::from_secs(240), "they take too long");
        // Others are answered meanwhile.
        tokio::time::timeout(Duration::from_secs(5), service.json("/api/v1/collections")).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for job in &jobs {
        assert_eq!(service.ended(job).await["status"], "indexed");
    }
    let found = service.json("/api/v1/collections/default").await;
    assert_eq!((&found["documents"], &found["chunks"]), (&json!(800), &json!(800)));
}

#[tokio::test]
async fn traversal_names() {
    let service = Service::start().await;
    let long = "x".repeat(300);
    for (name, stored) in [
        ("../../outside.txt", Some("outside.txt")),
        ("..\\..\\outside.txt", Some("outside.txt")),
        ("/etc/outside.txt", Some("etc/outside.txt")),
        ("C:\\x.txt", Some("x.txt")),
        ("a\u{0}b.txt", Some("ab.txt")),
        (".", None),
        ("CON", Some("CON")),
        (long.as_str(), Some(long.as_str())),
        ("\u{202E}txt.exe", Some("txt.exe")),
    ] {
        let text = format!("The text of {name:?}.");
        let response = multipart(&service, &format!("{DOCUMENTS}?wait=true"), &[("file", name, text.as_bytes())]).await;
        match stored {
            None => assert_eq!(response.status(), 422, "{name:?}"),
            // A program's name is refused for what it is called, and not because it climbs.
            Some("txt.exe") if response.status() == 415 => {}
            // Some servers and clients do not take a NUL or a bare CR in a header at all.
            Some(_) if response.status() == 400 => {}
            Some(stored) => {
                assert_eq!(response.status(), 200, "{name:?}");
                assert!(uris(&service, "default").await.contains(stored), "{name:?}");
            }
        }
    }
    // A line break in a name is text of the JSON that shows it, never of a header.
    let body = json!({"documents": [{"uri": "x\r\nSet-Cookie: a=b", "text": "A text."}]});
    let response = service.post(&format!("{DOCUMENTS}?wait=true"), &body).send().await.unwrap();
    let id = response.json::<Value>().await.unwrap()["documents"][0]["id"].as_str().unwrap().to_owned();
    let content = service.get(&format!("{DOCUMENTS}/{id}/content")).send().await.unwrap();
    assert!(content.headers().get("set-cookie").is_none(), "{:?}", content.headers());
    // Nothing but the database and the index is in the data folder, and nothing beside it.
    let mut found = Vec::new();
    let mut folders = vec![service.data.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { found.push(path.display().to_string()) }
        }
    }
    assert!(
        !found.iter().any(|path| path.contains("outside") || path.contains("x.txt") || path.contains("CON")),
        "{found:?}"
    );
}
