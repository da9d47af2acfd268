//! Jobs over HTTP: followed, cancelled, tried again, gone on with after kill -9. Cases of `cases/ingest` under their
//! own names.

use super::*;
use futures_util::StreamExt;
use futures_util::future::join_all;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

const DOCUMENTS: &str = "/api/v1/collections/default/documents";
/// Chunks so small that a text of some pages takes seconds.
const SLOW: [(&str, &str); 2] = [("TAILRACE__LLM__PROVIDER", "extractive"), ("TAILRACE__INGEST__CHUNK_TOKENS", "24")];

/// Some pages in which no two paragraphs are alike.
pub fn pages(mark: &str, paragraphs: usize) -> String {
    let line = |n| format!("In part {n} of {mark} the crew checked valve {n} and wrote the pressure of line {n} down.");
    (0..paragraphs).map(line).collect::<Vec<_>>().join("\n\n")
}

impl Service {
    /// Sends a text without waiting; the answer's one document.
    pub async fn send(&self, uri: &str, text: &str) -> Value {
        let body = json!({"documents": [{"uri": uri, "text": text}]});
        let response = self.post(DOCUMENTS, &body).send().await.unwrap();
        assert_eq!(response.status(), 202, "{uri}");
        response.json::<Value>().await.unwrap()["documents"][0].clone()
    }

    pub async fn json(&self, path: &str) -> Value {
        let response = self.get(path).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        response.json().await.unwrap()
    }

    /// Everything that is told of a job until it has ended.
    pub async fn follow(&self, job: &Value) -> Vec<Value> {
        let path = format!("/api/v1/jobs/{}/events", job.as_str().unwrap());
        let response = self.get(&path).timeout(Duration::from_secs(300)).send().await.unwrap();
        assert_eq!(
            (response.status().as_u16(), &response.headers()["content-type"]),
            (200, &"text/event-stream".parse().unwrap())
        );
        let body = response.text().await.unwrap();
        let data = body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(|data| serde_json::from_str(data).unwrap()).collect()
    }

    /// The job after its end.
    pub async fn ended(&self, job: &Value) -> Value {
        self.follow(job).await.pop().unwrap()
    }

    /// Until the job runs and has stored some chunks.
    async fn until_half(&self, job: &Value) {
        let path = format!("/api/v1/jobs/{}/events", job.as_str().unwrap());
        let mut stream = self.get(&path).send().await.unwrap().bytes_stream();
        let mut seen = String::new();
        loop {
            seen.push_str(&String::from_utf8_lossy(&stream.next().await.expect("it ended too soon").unwrap()));
            let last = seen.lines().rev().find_map(|line| line.strip_prefix("data: "));
            let last = last.and_then(|data| serde_json::from_str::<Value>(data).ok()).unwrap_or_default();
            assert!(last["ended_at"].is_null(), "it ended too soon: {last}");
            if last["done"].as_u64().unwrap_or_default() > 0 {
                return;
            }
        }
    }
}

#[tokio::test]
async fn status_visible() {
    let service = Service::with(&SLOW).await;
    let began = Instant::now();
    let sent = service.send("pages.md", &pages("osprey", 400)).await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!((&sent["status"], &sent["unchanged"]), (&json!("queued"), &json!(false)));
    service.until_half(&sent["job_id"]).await;
    // progress_survives_reload: whoever asks later sees the same.
    let document = service.json(&format!("{DOCUMENTS}/{}", sent["id"].as_str().unwrap())).await;
    let listed = service.json(DOCUMENTS).await["documents"][0].clone();
    for seen in [&document, &listed] {
        assert_eq!((&seen["status"], &seen["stage"]), (&json!("embedding"), &json!("embedding")), "{seen}");
        assert!(seen["done"].as_u64() > Some(0) && seen["done"].as_u64() < seen["total"].as_u64(), "{seen}");
        assert_eq!(seen["job_id"], sent["job_id"]);
    }
    let told = service.follow(&sent["job_id"]).await;
    let words: Vec<&str> = told.iter().map(|job| job["status"].as_str().unwrap()).collect();
    assert!(words.is_sorted_by_key(|word| *word == "indexed") && words.len() > 1, "{words:?}");
    assert!(told.is_sorted_by_key(|job| job["done"].as_u64()), "{told:?}");
    let last = told.last().unwrap();
    assert_eq!((&last["status"], &last["done"], &last["attempts"]), (&json!("indexed"), &last["total"], &json!(1)));
    let document = service.json(&format!("{DOCUMENTS}/{}", sent["id"].as_str().unwrap())).await;
    assert_eq!((&document["status"], &document["chunks"]), (&json!("indexed"), &last["total"]));

    let refused = service.send("blank.md", " \n").await;
    let ended = service.ended(&refused["job_id"]).await;
    assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("failed"), &json!("empty_document")), "{ended}");
    let document = service.json(&format!("{DOCUMENTS}/{}", refused["id"].as_str().unwrap())).await;
    assert_eq!((&document["status"], &document["stage"]), (&json!("failed"), &json!("extracting")));
    assert_eq!(document["error"]["code"], "empty_document");
    // The same bytes again: a job that had nothing to do.
    let again = service.send("pages.md", &pages("osprey", 400)).await;
    assert_eq!((&again["unchanged"], &again["status"]), (&json!(true), &json!("indexed")));
    assert_eq!(service.ended(&again["job_id"]).await["status"], "indexed");
}

#[tokio::test]
async fn batch_partial_failure() {
    let service = Service::start().await;
    let text = |n: usize| if n % 7 == 3 { "\u{feff} \n".to_owned() } else { format!("Bird number {n} sings at dawn.") };
    let documents: Vec<Value> = (0..20).map(|n| json!({"uri": format!("{n}.md"), "text": text(n)})).collect();
    for (wait, status) in [("", 202), ("?wait=true", 207)] {
        let answer =
            service.post(&format!("{DOCUMENTS}{wait}"), &json!({"documents": documents})).send().await.unwrap();
        assert_eq!(answer.status(), status);
        let answer: Value = answer.json().await.unwrap();
        let jobs = answer["documents"].as_array().unwrap().iter().map(|document| &document["job_id"]);
        let ended = join_all(jobs.map(|job| service.ended(job))).await;
        for (n, job) in ended.iter().enumerate() {
            let want = if n % 7 == 3 { "failed" } else { "indexed" };
            assert_eq!((&job["status"], &job["uri"]), (&json!(want), &json!(format!("{n}.md"))), "{job}");
        }
        let (good, bad) = (&ended[0]["id"], &ended[3]["id"]);
        for (job, action, status, code) in [
            (good, "retry", 409, "job_not_failed"),
            (good, "cancel", 409, "job_ended"),
            (bad, "cancel", 409, "job_ended"),
            (bad, "retry", 202, ""),
            (&json!("x"), "retry", 404, "not_found"),
        ] {
            let path = format!("/api/v1/jobs/{}/{action}", job.as_str().unwrap());
            let response = service.post(&path, &Value::Null).send().await.unwrap();
            assert_eq!(response.status(), status, "{path}");
            let body: Value = response.json().await.unwrap();
            assert!(code.is_empty() || body["code"] == code, "{body}");
        }
        let again = service.ended(bad).await;
        assert_eq!((&again["status"], &again["attempts"]), (&json!("failed"), &json!(2)), "{again}");
    }
    let mut seen = Vec::new();
    let mut path = "/api/v1/jobs?status=failed&limit=4".to_owned();
    loop {
        let page = service.json(&path).await;
        seen.extend(page["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/v1/jobs?status=failed&limit=4&after={next}");
    }
    assert!(seen.len() == 6 && seen.is_sorted_by(|a, b| a > b), "the newest first: {seen:?}");
    let oldest = format!("/api/v1/jobs/{}/retry", seen.last().unwrap());
    let superseded = service.post(&oldest, &Value::Null).send().await.unwrap();
    assert_eq!(superseded.json::<Value>().await.unwrap()["code"], "job_superseded");
    for (query, status) in [("status=done", 422), ("collection=default", 200), ("limit=0", 422), ("colour=1", 422)] {
        assert_eq!(service.get(&format!("/api/v1/jobs?{query}")).send().await.unwrap().status(), status, "{query}");
    }
}

#[tokio::test]
async fn a_job_is_cancelled_whether_it_runs_or_waits_and_can_be_tried_again() {
    let service = Service::with(&[SLOW[0], SLOW[1], ("TAILRACE__INGEST__PARALLEL", "1")]).await;
    let running = service.send("running.md", &pages("osprey", 300)).await;
    let waiting = service.send("waiting.md", &pages("heron", 5)).await;
    service.until_half(&running["job_id"]).await;
    // No version of it is there yet, which is said at once.
    let document = format!("{DOCUMENTS}/{}", running["id"].as_str().unwrap());
    let titled = service.client.patch(format!("{}{document}", service.url)).json(&json!({"title": "x"}));
    for (request, code) in
        [(titled, "not_indexed"), (service.get(&format!("{document}/chunks?version=1")), "invalid_parameter")]
    {
        let answer: Value = request.timeout(Duration::from_secs(4)).send().await.unwrap().json().await.unwrap();
        assert_eq!(answer["code"], code, "{answer}");
    }
    for (sent, stage) in [(&waiting, "queued"), (&running, "embedding")] {
        let path = format!("/api/v1/jobs/{}/cancel", sent["job_id"].as_str().unwrap());
        assert_eq!(service.post(&path, &Value::Null).send().await.unwrap().status(), 202);
        let ended = service.ended(&sent["job_id"]).await;
        assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("cancelled"), &json!("cancelled")), "{ended}");
        assert_eq!(ended["stage"], stage, "{ended}");
        let document = service.json(&format!("{DOCUMENTS}/{}", sent["id"].as_str().unwrap())).await;
        assert_eq!((&document["status"], &document["error"]["code"]), (&json!("failed"), &json!("cancelled")));
    }
    assert!(service.search("default", "osprey heron valve").await.is_empty());
    for sent in [&running, &waiting] {
        let path = format!("/api/v1/jobs/{}/retry", sent["job_id"].as_str().unwrap());
        assert_eq!(service.post(&path, &Value::Null).send().await.unwrap().status(), 202);
        assert_eq!(service.ended(&sent["job_id"]).await["status"], "indexed");
    }
    assert!(!service.search("default", "heron valve").await.is_empty());
    // What was live of it stays so, and nothing is wrong with it.
    let before = service.json(&document).await["version"].clone();
    let newer = service.send("running.md", &pages("kestrel", 300)).await;
    service.until_half(&newer["job_id"]).await;
    let path = format!("/api/v1/jobs/{}/cancel", newer["job_id"].as_str().unwrap());
    assert_eq!(service.post(&path, &Value::Null).send().await.unwrap().status(), 202);
    assert_eq!(service.ended(&newer["job_id"]).await["stage"], "embedding");
    let found = service.json(&document).await;
    assert_eq!((&found["status"], &found["error"], &found["version"]), (&json!("indexed"), &Value::Null, &before));
}

/// Whatever comes between, whoever waits hears of an end.
#[tokio::test]
async fn sent_and_deleted_at_once_every_request_is_answered() {
    let service = Service::start().await;
    let sent = async |round: usize| {
        let body = json!({"documents": [{"id": "same", "text": format!("Round {round} of the osprey.")}]});
        service.post(&format!("{DOCUMENTS}?wait=true"), &body).send().await.unwrap().status().as_u16()
    };
    let deleted = async || service.delete(&format!("{DOCUMENTS}/same")).send().await.unwrap().status().as_u16();
    for round in 0..12 {
        let (first, gone, second, gone_too) = tokio::join!(sent(2 * round), deleted(), sent(2 * round + 1), deleted());
        assert!([first, second].iter().all(|status| [200, 409].contains(status)), "{first} {second}");
        assert!([gone, gone_too].iter().all(|status| [200, 404].contains(status)), "{gone} {gone_too}");
    }
}

#[tokio::test]
async fn a_document_that_is_deleted_while_it_is_read_leaves_nothing() {
    let service = Service::with(&SLOW).await;
    let sent = service.send("pages.md", &pages("osprey", 600)).await;
    service.until_half(&sent["job_id"]).await;
    let path = format!("{DOCUMENTS}/{}", sent["id"].as_str().unwrap());
    let gone: Value = service.delete(&path).send().await.unwrap().json().await.unwrap();
    assert_eq!(gone["points_after"], 0, "{gone}");
    let ended = service.ended(&sent["job_id"]).await;
    assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("cancelled"), &json!("deleted")), "{ended}");
    assert!(service.search("default", "osprey valve").await.is_empty());
    let retried = service.post(&format!("/api/v1/jobs/{}/retry", sent["job_id"].as_str().unwrap()), &Value::Null);
    assert_eq!(retried.send().await.unwrap().json::<Value>().await.unwrap()["code"], "content_gone");
    // The name is free at once.
    let again = service.send("pages.md", "The osprey dives.").await;
    assert_eq!(service.ended(&again["job_id"]).await["status"], "indexed");
    assert_eq!(service.search("default", "osprey").await.len(), 1);
}

#[tokio::test]
async fn crash_mid_ingest() {
    let text = pages("osprey", 400);
    let mut service = Service::with(&SLOW).await;
    let waiting: Vec<Value> = {
        let sent = service.send("pages.md", &text).await;
        let others = join_all((0..20).map(|n| service.send_owned(format!("{n}.md")))).await;
        service.until_half(&sent["job_id"]).await;
        [vec![sent], others].concat()
    };
    service.child.kill().await.unwrap();
    let service = Service::on(Arc::clone(&service.data), &SLOW).await;
    for sent in &waiting {
        let ended = service.ended(&sent["job_id"]).await;
        assert_eq!(ended["status"], "indexed", "{ended}");
    }
    let found = service.json(&format!("{DOCUMENTS}/{}", waiting[0]["id"].as_str().unwrap())).await;
    let clean = service.ingest("clean.md", &text).await;
    assert_eq!(found["chunks"], clean["documents"][0]["chunks"]);
    // The same file again is accepted, and there already.
    assert_eq!(service.send("pages.md", &text).await["unchanged"], true);
}

impl Service {
    async fn send_owned(&self, uri: String) -> Value {
        self.send(&uri, &format!("The file {uri} is about gulls.")).await
    }
}

#[tokio::test]
async fn concurrent_same_doc_ends_with_one_version() {
    let service = Service::start().await;
    let texts = [pages("osprey", 40), pages("heron", 90)];
    for wait in [true, false] {
        let sends = (0..8).map(|n| {
            let body = json!({"documents": [{"uri": "one.md", "text": texts[n % 2]}]});
            let path = format!("{DOCUMENTS}?wait={wait}");
            service.post(&path, &body).send()
        });
        let mut jobs = BTreeMap::new();
        for response in join_all(sends).await {
            let response = response.unwrap();
            assert!(response.status().is_success(), "{}", response.status());
            let document = response.json::<Value>().await.unwrap()["documents"][0].clone();
            jobs.insert(document["job_id"].as_str().unwrap().to_owned(), document);
        }
        let ended = join_all(jobs.values().map(|document| service.ended(&document["job_id"]))).await;
        let words: Vec<&str> = ended.iter().map(|job| job["status"].as_str().unwrap()).collect();
        assert!(words.iter().all(|word| *word == "indexed" || (!wait && *word == "cancelled")), "{words:?}");
        // Requests at the same time have no order, so which of them is the last is open.
        assert!(words.contains(&"indexed"), "{words:?}");
        let listed = service.json(DOCUMENTS).await;
        assert_eq!(listed["documents"].as_array().unwrap().len(), 1);
        let id = listed["documents"][0]["id"].as_str().unwrap();
        let content = service.get(&format!("{DOCUMENTS}/{id}/content")).send().await.unwrap().text().await.unwrap();
        let chunks = service.json(&format!("{DOCUMENTS}/{id}/chunks")).await;
        assert_eq!(
            chunks["chunks"].as_array().unwrap().len() as u64,
            listed["documents"][0]["chunks"].as_u64().unwrap()
        );
        let birds = ["osprey", "heron"].map(|bird| content.contains(bird));
        let hits = service.search("default", "valve pressure of the line").await;
        assert!(!hits.is_empty());
        for hit in hits {
            assert_eq!(["osprey", "heron"].map(|bird| hit["text"].as_str().unwrap().contains(bird)), birds, "{hit}");
        }
    }
}

/// Deleted while it is being begun, a document does not come back.
#[tokio::test]
async fn what_is_deleted_as_it_is_begun_stays_deleted() {
    let service = Service::with(&[("TAILRACE__LLM__PROVIDER", "extractive")]).await;
    let path = DOCUMENTS;
    for round in 0..25u64 {
        let ids: Vec<String> = (0..4).map(|n| format!("{round}-{n}")).collect();
        let documents: Vec<Value> =
            ids.iter().map(|id| json!({"id": id, "text": format!("The parcel {id} waits.").repeat(50)})).collect();
        service.post(path, &json!({"documents": documents})).send().await.unwrap();
        tokio::time::sleep(Duration::from_millis(round % 10 * 2)).await;
        let gone = ids.iter().map(|id| service.delete(&format!("{path}/{id}")).send());
        for answer in join_all(gone).await {
            assert_eq!(answer.unwrap().status(), 200);
        }
    }
    // What would come back has come by the time that later work is done.
    service.ingest("last.md", "The last one.").await;
    let listed = service.json(&format!("{path}?limit=500")).await;
    let uris: Vec<&Value> = listed["documents"].as_array().unwrap().iter().map(|d| &d["uri"]).collect();
    assert_eq!(uris, [&json!("last.md")]);
}
