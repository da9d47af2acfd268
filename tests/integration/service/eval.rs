//! `tailrace eval` on real judgements (`tests/data/eval`), and the other commands that need no server.

use super::*;
use serde_json::json;
use std::process::Output;

async fn run(arguments: &[&str]) -> Output {
    tailrace().args(arguments).output().await.unwrap()
}

/// The quality that retrieval is held to, on SciFact's judged abstracts and 717 others.
#[tokio::test]
async fn retrieval_finds_what_people_judged_relevant() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/eval/scifact-mini");
    let out = run(&["eval", "--json", folder.to_str().unwrap()]).await;
    assert!(out.status.success(), "{out:?}");
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    let results = report["results"].as_array().unwrap();
    for (mode, least) in [("dense", 0.78), ("sparse", 0.79), ("hybrid", 0.84)] {
        let found = results.iter().find(|r| r["mode"] == mode).unwrap();
        let ndcg = found["ndcg@10"].as_f64().unwrap();
        assert!(ndcg >= least, "{report}");
        let end = |at: usize| found["ndcg@10_interval"][at].as_f64().unwrap();
        assert!(end(0) < ndcg && ndcg < end(1), "{report}");
    }
    assert!(report.get("chunking").is_none(), "these queries come without answers");
}

#[tokio::test]
async fn answers_that_are_known_judge_chunks_and_whole_questions() {
    let folder = tempfile::tempdir().unwrap();
    let filler = "The keeper wrote it into the log and went to sleep again. ".repeat(80);
    let corpus = [
        json!({"_id": "a", "title": "Tides", "text": format!("{filler}The tide table lies in drawer six. {filler}")}),
        json!({"_id": "b", "title": "Paint", "text": "The hull of the boat is painted red."}),
        json!({"_id": "c", "title": "", "text": "黑豹队的防守只丢了308分，在联赛中排名第六。"}),
        json!({"_id": "d", "title": "", "text": "卡万·肖特以11次擒杀领先于全队，另外还有三次迫使掉球。"}),
    ];
    let queries = [
        json!({"_id": "1", "text": "Where does the tide table lie?", "metadata": {"answers": ["drawer six"]}}),
        json!({"_id": "2", "text": "What colour is the hull painted?", "metadata": {"answers": ["red", "blue"]}}),
        json!({"_id": "3", "text": "黑豹队的防守丢了多少分？", "metadata": {"answers": ["308分"]}}),
        json!({"_id": "4", "text": "Is this one judged without an answer that stands there?", "metadata": {}}),
    ];
    let lines = |rows: &[Value]| rows.iter().map(|row| format!("{row}\n")).collect::<String>();
    std::fs::create_dir(folder.path().join("qrels")).unwrap();
    std::fs::write(folder.path().join("corpus.jsonl"), lines(&corpus)).unwrap();
    std::fs::write(folder.path().join("queries.jsonl"), lines(&queries)).unwrap();
    let qrels = "query-id\tcorpus-id\tscore\n1\ta\t1\n2\tb\t1\n3\tc\t1\n4\td\t1\n";
    std::fs::write(folder.path().join("qrels/test.tsv"), qrels).unwrap();
    let out = run(&["eval", "--json", folder.path().to_str().unwrap()]).await;
    assert!(out.status.success(), "{out:?}");
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(report["chunking"]["spans"], 3, "{report}");
    assert_eq!(report["chunking"]["whole"], 1.0, "{report}");
    let precision = report["chunking"]["span_precision"].as_f64().unwrap();
    assert!(precision > 0.0 && precision < 0.2, "{report}");
    assert_eq!(report["end_to_end"]["questions"], 3, "{report}");
    assert!(report["end_to_end"]["context_has_answer"].as_f64().unwrap() > 0.6, "{report}");
    let keys: Vec<&str> = report["results"][0].as_object().unwrap().keys().map(String::as_str).collect();
    for key in ["mode", "ndcg@10", "recall@100", "mrr@10", "queries", "took_ms"] {
        assert!(keys.contains(&key), "{report}");
    }
}

#[tokio::test]
async fn wrong_use_and_wrong_settings_say_what_would_work() {
    for (arguments, code, said) in [
        (&["fly"][..], 2, "unrecognized subcommand"),
        (&["serve", "--set", "server.listen=here"], 1, "server.listen"),
        (&["serve", "--set", "engine.colour=red"], 1, "engine.colour"),
        (&["eval", "/nowhere"], 1, "/nowhere"),
        (&["config", "--set", "llm.provider=parrot"], 1, "llm.provider"),
    ] {
        let out = run(arguments).await;
        let text = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(text.contains(said), "{arguments:?}: {text}");
    }
    let out = run(&["config", "--json"]).await;
    let settings: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(settings["engine.max_tools_total"]["value"], "5");
}

#[tokio::test]
async fn a_missing_model_is_named_with_the_command_that_fetches_it() {
    let data = tempfile::tempdir().unwrap();
    let empty = tempfile::tempdir().unwrap();
    let file = data.path().join("a.md");
    std::fs::write(&file, "Text.").unwrap();
    let out = tailrace()
        .env("TAILRACE__MODELS__DIR", empty.path())
        .args(["ingest", file.to_str().unwrap(), "--data-dir"])
        .arg(data.path().join("data"))
        .output()
        .await
        .unwrap();
    let text = String::from_utf8_lossy(&out.stderr) + String::from_utf8_lossy(&out.stdout);
    assert_eq!(out.status.code(), Some(1), "{text}");
    assert!(text.contains("scripts/assets"), "{text}");
}

#[tokio::test]
async fn ingesting_a_folder_says_what_was_left_out_and_again_changes_nothing() {
    let data = tempfile::tempdir().unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in [
        ("notes.md", &b"# Notes\n\nThe mooring is at pier 7."[..]),
        ("sub/page.html", b"<html><body><nav>Home</nav><p>The tide turns at noon.</p></body></html>"),
        ("ignored.md", b"not me"),
        (".gitignore", b"ignored.md\n"),
        ("image.png", include_bytes!("../../data/ingest/png_named.txt")),
    ] {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let ingest = async || {
        let out = tailrace()
            .args(["ingest", "--json", folder.path().to_str().unwrap(), "--data-dir"])
            .arg(data.path())
            .output()
            .await
            .unwrap();
        let lines = String::from_utf8(out.stdout).unwrap();
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut lines: Vec<Value> = lines.collect();
        let summary = lines.pop().unwrap();
        let mut files: Vec<String> = lines.iter().map(|l| format!("{} {}", l["status"], l["uri"])).collect();
        files.sort();
        let name = folder.path().file_name().unwrap().to_str().unwrap();
        let want = |status| ["notes.md", "sub/page.html"].map(|below| format!("\"{status}\" \"{name}/{below}\""));
        let status = if summary["ingested"] == 0 { "unchanged" } else { "indexed" };
        assert_eq!(files, want(status));
        summary
    };
    let first = ingest().await;
    assert_eq!((&first["ingested"], &first["unchanged"]), (&2.into(), &0.into()), "{first}");
    assert!(first["skipped"].to_string().contains("image.png"), "{first}");
    let again = ingest().await;
    assert_eq!((&again["ingested"], &again["unchanged"]), (&0.into(), &2.into()), "{again}");
}
