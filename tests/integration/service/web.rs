//! Documents of the web: given by their address over HTTP, and by `tailrace ingest URL`.

use super::formats::handed;
use super::*;
use crate::upstream::Script;
use serde_json::json;

async fn site() -> Upstream {
    Upstream::answering(|_, request| match request.path.as_str() {
        "/robots.txt" => Script::body(200, "text/plain", "User-agent: tailrace\nDisallow: /private\n"),
        "/guide" => Script::body(
            200,
            "text/html",
            "<html><body><h1>Guide</h1><p>The lock opens at dawn.</p><a href='/log.pdf'>log</a>\
             <a href='/private'>no</a></body></html>",
        ),
        "/log.pdf" => Script::body(200, "application/pdf", handed("many_pages.pdf")),
        _ => Script::body(404, "text/plain", "nothing"),
    })
    .await
}

fn allowing(server: &Upstream) -> String {
    json!([server.base_url().trim_start_matches("http://")]).to_string()
}

#[tokio::test]
async fn a_document_is_named_by_its_address() {
    let web = site().await;
    let allowed = allowing(&web);
    let service = Service::with(&[
        ("TAILRACE__LLM__PROVIDER", "extractive"),
        ("TAILRACE__TOOLS__FETCH_URL__ALLOW_HOSTS", &allowed),
    ])
    .await;
    let path = "/api/v1/collections/default/documents?wait=true";
    let url = format!("{}/log.pdf", web.base_url());
    let answer: Value =
        service.post(path, &json!({"documents": [{"url": url}]})).send().await.unwrap().json().await.unwrap();
    assert_eq!(answer["documents"][0]["status"], "indexed", "{answer}");
    let hits = service.search("default", "Entry 900").await;
    let hit = hits.iter().find(|hit| hit["text"].as_str().unwrap().contains("Entry 900.")).unwrap();
    assert_eq!((&hit["uri"], &hit["page"]), (&json!(url), &json!(300)), "{hit}");
    for url in [format!("{}/gone", web.base_url()), "http://127.0.0.1:9/".to_owned()] {
        let response = service.post(path, &json!({"documents": [{"url": url}]})).send().await.unwrap();
        assert_eq!(response.status(), 422, "{url}");
        assert_eq!(response.json::<Value>().await.unwrap()["code"], "fetch_failed", "{url}");
    }
}

#[tokio::test]
async fn a_command_ingests_a_page_and_what_it_links_to() {
    let web = site().await;
    let data = tempfile::tempdir().unwrap();
    let run = async |depth: &str| {
        let out = tailrace()
            .env("TAILRACE__TOOLS__FETCH_URL__ALLOW_HOSTS", allowing(&web))
            .args(["ingest", &format!("{}/guide", web.base_url()), "--depth", depth, "--json", "--data-dir"])
            .arg(data.path())
            .output()
            .await
            .unwrap();
        assert!(out.status.success(), "{out:?}");
        serde_json::from_slice::<Value>(&out.stdout).unwrap()
    };
    let one = run("0").await;
    assert_eq!((&one["ingested"], &one["failed"]), (&json!(1), &json!([])), "{one}");
    let all = run("1").await;
    assert_eq!((&all["ingested"], &all["unchanged"]), (&json!(1), &json!(1)), "{all}");
    assert!(all["failed"][0]["error"].as_str().unwrap().contains("robots.txt"), "{all}");
    let out =
        tailrace().args(["search", "the lock opens", "--json", "--data-dir"]).arg(data.path()).output().await.unwrap();
    assert!(String::from_utf8_lossy(&out.stdout).contains("/guide"), "{out:?}");
}
