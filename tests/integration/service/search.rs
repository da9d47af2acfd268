//! The search route: what it explains, what it refuses.

use super::*;
use serde_json::json;

const ROUTE: &str = "/api/v1/collections/default/search";

#[tokio::test]
async fn a_search_explains_itself_and_refuses_scores_that_cannot_be_compared() {
    let service = Service::start().await;
    service.ingest("tides.md", "# Tides\n\n## Where\n\nThe tide table lies in drawer six.").await;
    service.ingest("copy.md", "# Tides\n\n## Where\n\nThe tide table lies in drawer six.").await;
    service.ingest("hull.md", "# Paint\n\nThe hull of the boat is painted red.").await;
    let body = json!({"query": "In which drawer is the tide table?", "explain": true, "limit": 1});
    let answer: Value = service.post(ROUTE, &body).send().await.unwrap().json().await.unwrap();
    let explain = &answer["hits"][0]["explain"];
    assert!(explain["dense"]["rank"].as_u64() <= Some(2) && explain["bm25"]["score"].as_f64() > Some(0.0), "{answer}");
    assert!(explain["fused"].as_f64() > Some(0.25), "{answer}");
    assert_eq!(explain["heading_path"], json!(["Tides", "Where"]), "{answer}");
    let dropped = answer["dropped"].as_array().unwrap();
    assert_eq!(dropped.len(), 2, "{answer}");
    assert!(dropped.iter().all(|d| d["reason"] == "beyond_limit" && d["document_id"].is_string()), "{answer}");
    let plain: Value = service.post(ROUTE, &json!({"query": "tide"})).send().await.unwrap().json().await.unwrap();
    assert!(plain.get("dropped").is_none() && plain["hits"][0].get("explain").is_none(), "{plain}");

    let near = json!({"query": "In which drawer is the tide table?", "mode": "dense", "min_score": 0.5});
    let near: Value = service.post(ROUTE, &near).send().await.unwrap().json().await.unwrap();
    assert_eq!(near["hits"].as_array().unwrap().len(), 1, "{near}");
    for (body, code) in [
        (json!({"query": "x", "min_score": 0.5}), "invalid_field"),
        (json!({"query": "x", "mode": "sparse", "min_score": 0.5}), "invalid_field"),
        (json!({"query": "x", "rerank": true}), "no_reranker"),
        (json!({"query": "x", "expand": 6}), "invalid_field"),
        (json!({"query": "x", "filter": {"must": [{"key": "scope", "match": "x"}]}}), "bad_filter"),
    ] {
        let refused = service.post(ROUTE, &body).send().await.unwrap();
        assert_eq!(refused.status(), 422, "{body}");
        assert_eq!(refused.json::<Value>().await.unwrap()["code"], code, "{body}");
    }
}

#[tokio::test]
async fn a_configured_reranker_puts_hits_in_order_and_its_scores_can_be_compared() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tiny-reranker");
    let env =
        [("TAILRACE__LLM__PROVIDER", "extractive"), ("TAILRACE__RETRIEVAL__RERANK_MODEL", folder.to_str().unwrap())];
    let service = Service::with(&env).await;
    service.ingest("low", "w10 w10 w10").await;
    service.ingest("high", "w50 w50 w50").await;
    let body = json!({"query": "w10", "rerank": true, "explain": true});
    let answer: Value = service.post(ROUTE, &body).send().await.unwrap().json().await.unwrap();
    assert_eq!(answer["hits"][0]["uri"], "high", "{answer}");
    assert_eq!(answer["hits"][0]["explain"]["rerank"], answer["hits"][0]["score"], "{answer}");
    let body = json!({"query": "w10", "rerank": true, "min_score": 1.0});
    let none: Value = service.post(ROUTE, &body).send().await.unwrap().json().await.unwrap();
    assert_eq!(none["hits"], json!([]), "{none}");
    let data = tempfile::tempdir().unwrap();
    let search = ["search", "x", "--set", "retrieval.rerank_model=/nowhere", "--data-dir"];
    let wrong = tailrace().args(search).arg(data.path()).output().await.unwrap();
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("retrieval.rerank_model"), "{wrong:?}");
}

/// Chinese, Japanese and Thai are written without spaces; words inside a sentence are found all the same.
#[tokio::test]
async fn keywords_are_found_in_scripts_without_spaces() {
    let service = Service::start().await;
    for (uri, text) in [
        ("zh", "黑豹队的防守只丢了308分，在联赛中排名第六。"),
        ("ja", "潮汐表は六番目の引き出しにあります。"),
        ("th", "ตารางน้ำขึ้นน้ำลงอยู่ในลิ้นชักที่หก"),
        ("code", "fn read_line_fast(maxBytes: usize) {}"),
    ] {
        service.ingest(uri, text).await;
    }
    for (query, uri) in
        [("防守", "zh"), ("引き出し", "ja"), ("ลิ้นชัก", "th"), ("readLineFast", "code"), ("max bytes", "code")]
    {
        let body = json!({"query": query, "mode": "sparse"});
        let answer: Value = service.post(ROUTE, &body).send().await.unwrap().json().await.unwrap();
        assert_eq!(answer["hits"][0]["uri"], uri, "{query}: {answer}");
    }
}
