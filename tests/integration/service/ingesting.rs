//! Documents from files: the command line with and without a server, the example scripts, followed folders.

use super::hostile::packed;
use super::*;
use serde_json::json;
use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Instant;
use tokio::io::Lines;
use tokio::process::ChildStdout;

/// A folder `docs` in a temporary one.
fn docs(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        write(&folder, name, content);
    }
    folder
}

fn write(folder: &TempDir, name: &str, content: impl AsRef<[u8]>) {
    let path = folder.path().join("docs").join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

/// URIs and statuses of a collection's documents; none where it has not been made yet.
async fn listed(service: &Service, collection: &str) -> BTreeMap<String, String> {
    let path = format!("/api/v1/collections/{collection}/documents?limit=500");
    if service.get(&path).send().await.unwrap().status() == 404 {
        return BTreeMap::new();
    }
    let page = service.json(&path).await;
    let documents = page["documents"].as_array().unwrap().iter();
    let word = |document: &Value, key: &str| document[key].as_str().unwrap().to_owned();
    documents.map(|document| (word(document, "uri"), word(document, "status"))).collect()
}

fn indexed(uris: &[&str]) -> BTreeMap<String, String> {
    uris.iter().map(|uri| ((*uri).to_owned(), "indexed".to_owned())).collect()
}

#[tokio::test]
async fn the_example_scripts_ingest_files_and_folders() {
    let service = Service::with(&[("TAILRACE__LLM__PROVIDER", "extractive"), ("TAILRACE_ADMIN_KEY", "a-key")]).await;
    let folder = docs(&[
        ("a/readme.md", include_str!("../../data/ingest/same_name/a/readme.md")),
        ("b/readme.md", include_str!("../../data/ingest/same_name/b/readme.md")),
        ("u\u{308}ber \"uns\".txt", "Plain text about gulls."),
        (".hidden.md", "not me"),
        ("blank.md", " \n"),
    ]);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (script, arguments, collection) in [
        ("scripts/ingest_docs.py", vec!["docs", "docs/a/readme.md", "--collection", "by-python"], "by-python"),
        ("scripts/ingest.sh", vec!["by-curl", "docs", "docs/a/readme.md"], "by-curl"),
    ] {
        let made = service.post("/api/v1/collections", &json!({"name": collection})).bearer_auth("a-key");
        assert_eq!(made.send().await.unwrap().status(), 201);
        let list = async || {
            let path = format!("/api/v1/collections/{collection}/documents");
            let page: Value = service.get(&path).bearer_auth("a-key").send().await.unwrap().json().await.unwrap();
            let rows = page["documents"].as_array().unwrap().iter();
            rows.map(|d| (d["uri"].as_str().unwrap().to_owned(), d["status"].as_str().unwrap().to_owned()))
                .collect::<BTreeMap<_, _>>()
        };
        let run = async |key: &str| {
            let mut command = Command::new(root.join(script));
            command.args(&arguments).current_dir(folder.path()).env("TAILRACE_URL", &service.url);
            let out = command.env("TAILRACE_KEY", key).output().await.unwrap();
            (
                out.status.code(),
                String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr),
            )
        };
        let (code, said) = run("wrong").await;
        assert_eq!((code, said.contains("not known")), (Some(1), true), "{script}: {said}");
        let (code, said) = run("a-key").await;
        assert_eq!(code, Some(1), "one document is blank: {script}: {said}");
        assert!(said.contains("indexed docs/a/readme.md") && said.contains("failed docs/blank.md"), "{script}: {said}");
        assert_eq!(said.matches(" docs/a/readme.md").count(), 2, "{script}: {said}");
        // The shell sends the name as it is, and the server composes it.
        let quoted = list().await.into_keys().find(|uri| uri.contains("ber")).unwrap();
        assert!(quoted.starts_with("docs/\u{fc}ber ") && quoted.contains("uns"), "{quoted}");
        let mut want = indexed(&["docs/a/readme.md", "docs/b/readme.md", &quoted]);
        want.insert("docs/blank.md".to_owned(), "failed".to_owned());
        assert_eq!(list().await, want, "{script}");
        let (_, said) = run("a-key").await;
        assert_eq!((said.matches("unchanged ").count(), said.matches("indexed ").count()), (4, 0), "{script}: {said}");
    }
}

#[tokio::test]
async fn two_folders_with_the_same_names_are_two_sets_of_documents() {
    let service = Service::start().await;
    let folder = docs(&[("a/readme.md", "The alpha door code."), ("b/readme.md", "The beta door code.")]);
    let address = format!("server.listen={}", service.url.trim_start_matches("http://"));
    for name in ["a", "b"] {
        let mut command = tailrace();
        command.args(["ingest", "--json", "--set", &address, "--data-dir"]).arg(service.data.path());
        let out = command.arg(folder.path().join("docs").join(name)).output().await.unwrap();
        assert!(out.status.success(), "{out:?}");
        let lines = String::from_utf8(out.stdout).unwrap();
        let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((&lines[0]["uri"], &lines[0]["status"]), (&json!(format!("{name}/readme.md")), &json!("indexed")));
        assert_eq!(lines[1]["ingested"], 1, "{lines:?}");
    }
    assert_eq!(listed(&service, "default").await, indexed(&["a/readme.md", "b/readme.md"]));
    for (query, uri) in [("alpha door code", "a/readme.md"), ("beta door code", "b/readme.md")] {
        assert_eq!(service.search("default", query).await[0]["uri"], uri);
    }
}

/// A run that is killed goes on where it was when it is started again; each file is told of.
#[tokio::test]
async fn a_killed_run_over_many_files_goes_on_where_it_was() {
    const FILES: usize = 150;
    let files: Vec<(String, String)> =
        (0..FILES).map(|n| (format!("{n:03}.md"), format!("# Parcel {n}\n\nIt waits in locker {}.", n * 7))).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let folder = docs(&files);
    let data = Arc::new(tempfile::tempdir().unwrap());
    let run = || {
        let mut command = tailrace();
        command.args(["ingest", "--json", "--data-dir"]).arg(data.path()).arg(folder.path().join("docs"));
        command.stdout(Stdio::piped()).spawn().unwrap()
    };
    let mut first = run();
    let mut lines = BufReader::new(first.stdout.take().unwrap()).lines();
    for _ in 0..FILES / 3 {
        let line = tokio::time::timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap().unwrap();
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["status"], "indexed");
    }
    first.kill().await.unwrap();
    let out = tokio::time::timeout(PATIENCE * 3, run().wait_with_output()).await.unwrap().unwrap();
    let lines: Vec<Value> =
        String::from_utf8(out.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((out.status.code(), lines.len()), (Some(0), FILES + 1));
    let summary = &lines[FILES];
    let count = |key: &str| summary[key].as_u64().unwrap() as usize;
    assert!(count("unchanged") >= FILES / 3 && count("unchanged") + count("ingested") == FILES, "{summary}");
    let service = Service::on(data, &[("TAILRACE__LLM__PROVIDER", "extractive")]).await;
    assert_eq!(service.json("/api/v1/collections/default").await["documents"], FILES);
}

/// Files come, change, move and go; each time the collection follows.
async fn follow(
    folder: &TempDir,
    until: impl AsyncFn(BTreeMap<String, String>),
    collection_has: impl AsyncFn(&str) -> Vec<String>,
) {
    until(indexed(&["docs/one.md", "docs/sub/two.md"])).await;
    write(folder, "three.md", "# Three\n\nThe heron stands still.");
    until(indexed(&["docs/one.md", "docs/sub/two.md", "docs/three.md"])).await;
    std::fs::remove_file(folder.path().join("docs/one.md")).unwrap();
    std::fs::rename(folder.path().join("docs/sub"), folder.path().join("docs/moved")).unwrap();
    write(folder, "three.md", "# Three\n\nThe heron flies away.");
    until(indexed(&["docs/moved/two.md", "docs/three.md"])).await;
    for _ in 0..200 {
        if collection_has("what does the heron do").await.iter().any(|text| text.contains("flies away")) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("the change was not followed");
}

/// The index follows within five seconds (here: on a machine that does other things, too).
const FOLLOWS: Duration = Duration::from_secs(10);

async fn soon(service: &Service, want: BTreeMap<String, String>) {
    let began = Instant::now();
    loop {
        let now = listed(service, "handbook").await;
        if now == want {
            return;
        }
        assert!(began.elapsed() < FOLLOWS, "{now:?} is not {want:?}");
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}

#[tokio::test]
async fn watch_existing_and_watch_changed() {
    let folder = docs(&[("one.md", "# One\n\nThe osprey dives."), ("sub/two.md", "# Two\n\nThe gull cries.")]);
    let watched = json!([format!("{}=handbook", folder.path().join("docs").display())]).to_string();
    let env = [("TAILRACE__LLM__PROVIDER", "extractive"), ("TAILRACE__INGEST__WATCH", watched.as_str())];
    let mut service = Service::with(&env).await;
    // Somebody else's document in the same collection is nobody's to delete.
    let found = async |service: &Service, query: &str| {
        let hits = service.search("handbook", query).await;
        hits.iter().map(|hit| hit["text"].as_str().unwrap().to_owned()).collect()
    };
    follow(&folder, async |want| soon(&service, want).await, async |query| found(&service, query).await).await;
    let body = json!({"documents": [{"uri": "docs/by-hand.md", "text": "A text that came another way."}]});
    let sent = service.post("/api/v1/collections/handbook/documents?wait=true", &body).send().await.unwrap();
    assert_eq!(sent.status(), 200);
    service.child.kill().await.unwrap();
    // What happens while it is down is seen when it is back.
    std::fs::remove_file(folder.path().join("docs/moved/two.md")).unwrap();
    write(&folder, "four.md", "# Four\n\nThe kestrel hovers.");
    let service = Service::on(Arc::clone(&service.data), &env).await;
    soon(&service, indexed(&["docs/by-hand.md", "docs/four.md", "docs/three.md"])).await;
    // A folder that is gone as a whole may come back: nothing is deleted for it.
    std::fs::rename(folder.path().join("docs"), folder.path().join("away")).unwrap();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    std::fs::rename(folder.path().join("away"), folder.path().join("docs")).unwrap();
    write(&folder, "five.md", "# Five\n\nThe owl sleeps.");
    soon(&service, indexed(&["docs/by-hand.md", "docs/five.md", "docs/four.md", "docs/three.md"])).await;
}

/// What came of an archive follows it, also where it changed while nobody watched.
#[tokio::test]
async fn a_watched_archive_is_its_files() {
    let folder = docs(&[("one.md", "# One\n\nThe osprey dives.")]);
    let pack = |files: &[&str]| {
        let texts: Vec<(&str, String)> = files.iter().map(|name| (*name, format!("Of {name}."))).collect();
        let texts: Vec<(&str, &[u8])> = texts.iter().map(|(name, text)| (*name, text.as_bytes())).collect();
        write(&folder, "birds.zip", packed(&texts));
    };
    pack(&["gull.md", "sub/tern.md"]);
    let watched = json!([format!("{}=handbook", folder.path().join("docs").display())]).to_string();
    let env = [
        ("TAILRACE__LLM__PROVIDER", "extractive"),
        ("TAILRACE__INGEST__WATCH", watched.as_str()),
        ("TAILRACE__INGEST__MAX_DOCUMENT_BYTES", "100000"),
    ];
    let mut service = Service::with(&env).await;
    soon(&service, indexed(&["docs/birds.zip/gull.md", "docs/birds.zip/sub/tern.md", "docs/one.md"])).await;
    pack(&["gull.md", "kite.md"]);
    soon(&service, indexed(&["docs/birds.zip/gull.md", "docs/birds.zip/kite.md", "docs/one.md"])).await;
    service.child.kill().await.unwrap();
    pack(&["kite.md"]);
    let service = Service::on(Arc::clone(&service.data), &env).await;
    soon(&service, indexed(&["docs/birds.zip/kite.md", "docs/one.md"])).await;
    // Damaged, it keeps what came of it before.
    write(&folder, "birds.zip", b"PK\x03\x04 cut short");
    write(&folder, "two.md", "# Two\n\nThe gull cries.");
    soon(&service, {
        let mut want = indexed(&["docs/birds.zip/kite.md", "docs/one.md", "docs/two.md"]);
        want.insert("docs/birds.zip".to_owned(), "failed".to_owned());
        want
    })
    .await;
    std::fs::remove_file(folder.path().join("docs/birds.zip")).unwrap();
    soon(&service, indexed(&["docs/one.md", "docs/two.md"])).await;
    // The same for an archive in an archive.
    let inner = packed(&[("owl.md", b"The owl sleeps.")]);
    write(&folder, "all.zip", packed(&[("birds.zip", &inner), ("ape.md", b"The ape climbs.")]));
    let all = ["docs/all.zip/ape.md", "docs/all.zip/birds.zip/owl.md", "docs/one.md", "docs/two.md"];
    soon(&service, indexed(&all)).await;
    let cut = inner.len() - 30;
    write(&folder, "all.zip", packed(&[("birds.zip", &inner[..cut]), ("bee.md", b"The bee hums.")]));
    let mut want = indexed(&["docs/all.zip/bee.md", all[1], all[2], all[3]]);
    want.insert("docs/all.zip/birds.zip".to_owned(), "failed".to_owned());
    soon(&service, want.clone()).await;
    // One that has grown too large is not gone.
    let mut noise = vec![0; 200_000];
    blake3::Hasher::new().finalize_xof().fill(&mut noise);
    write(&folder, "all.zip", packed(&[("noise.bin", &noise)]));
    write(&folder, "three.md", "# Three\n\nThe heron stands still.");
    want.insert("docs/three.md".to_owned(), "indexed".to_owned());
    soon(&service, want).await;
}

#[tokio::test]
async fn the_command_line_follows_a_folder_with_and_without_a_server() {
    for served in [true, false] {
        let folder = docs(&[("one.md", "# One\n\nThe osprey dives."), ("blank.md", " \n")]);
        let service = if served { Some(Service::start().await) } else { None };
        let data = service.as_ref().map_or_else(|| Arc::new(tempfile::tempdir().unwrap()), |s| Arc::clone(&s.data));
        let mut command = tailrace();
        if let Some(service) = &service {
            let address = format!("server.listen={}", service.url.trim_start_matches("http://"));
            command.args(["--set", &address]);
        }
        command.args(["ingest", "--watch", "--json", "--data-dir"]).arg(data.path()).arg(folder.path().join("docs"));
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = until_settled(&mut lines).await;
        assert_eq!(first, ["failed docs/blank.md", "indexed docs/one.md"], "served: {served}");
        write(&folder, "two.md", "# Two\n\nThe gull cries.");
        assert_eq!(until_settled(&mut lines).await, ["indexed docs/two.md"]);
        std::fs::remove_file(folder.path().join("docs/one.md")).unwrap();
        assert_eq!(until_settled(&mut lines).await, ["deleted docs/one.md"]);
        write(&folder, "all.zip", packed(&[("a.md", b"The kite hovers."), ("b.md", b"The kite hovers.")]));
        assert_eq!(until_settled(&mut lines).await, ["indexed docs/all.zip"]);
        write(&folder, "all.zip", packed(&[("b.md", b"The kite hovers.")]));
        assert_eq!(until_settled(&mut lines).await, ["deleted docs/all.zip/a.md", "indexed docs/all.zip"]);
        let pid = child.id().unwrap().to_string();
        assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        let ended = tokio::time::timeout(PATIENCE, child.wait()).await.unwrap().unwrap();
        assert_eq!(ended.code(), Some(0));
        let service = match service {
            Some(service) => service,
            None => Service::on(data, &[("TAILRACE__LLM__PROVIDER", "extractive")]).await,
        };
        assert!(service.search("default", "osprey").await.iter().all(|hit| hit["uri"] != "docs/one.md"));
        assert_eq!(service.search("default", "gull").await[0]["uri"], "docs/two.md");
    }
}

/// What is told until everything has been dealt with; looks at which nothing happened are passed over.
async fn until_settled(lines: &mut Lines<BufReader<ChildStdout>>) -> Vec<String> {
    let mut told = Vec::new();
    loop {
        let line = tokio::time::timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap().expect("it ended");
        let event: Value = serde_json::from_str(&line).unwrap();
        match event["status"].as_str().unwrap() {
            "settled" if told.is_empty() => {}
            "settled" => break,
            word => told.push(format!("{word} {}", event["uri"].as_str().unwrap())),
        }
    }
    told.sort();
    told
}
