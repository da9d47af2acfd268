//! Every handed file over HTTP: what is ready, what is refused and with which word, and that the program lives
//! through all of it and leaves nothing behind.

use super::documents::multipart;
use super::*;
use serde_json::json;
use std::time::Instant;

pub(super) const DOCUMENTS: &str = "/api/v1/collections/default/documents";

pub(super) fn handed(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/ingest").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Uploads one file and waits until it can be found.
pub(super) async fn upload(service: &Service, name: &str, bytes: &[u8]) -> (u16, Value) {
    let response = multipart(service, &format!("{DOCUMENTS}?wait=true"), &[("file", name, bytes)]).await;
    (response.status().as_u16(), response.json().await.unwrap())
}

async fn upload_handed(service: &Service, name: &str) -> (u16, Value) {
    upload(service, name, &handed(name)).await
}

pub(super) async fn get(service: &Service, path: &str) -> Value {
    service.get(path).send().await.unwrap().json().await.unwrap()
}

async fn content(service: &Service, id: &str) -> String {
    service.get(&format!("{DOCUMENTS}/{id}/content")).send().await.unwrap().text().await.unwrap()
}

async fn chunks(service: &Service, id: &str) -> Vec<Value> {
    get(service, &format!("{DOCUMENTS}/{id}/chunks")).await["chunks"].as_array().unwrap().clone()
}

/// Uploads a handed file that has to be ready; its id.
async fn ready(service: &Service, name: &str) -> String {
    let (status, answer) = upload_handed(service, name).await;
    assert_eq!((status, &answer["documents"][0]["status"]), (200, &json!("indexed")), "{name}: {answer}");
    answer["documents"][0]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn handed_files_are_ready_with_their_text() {
    let service = Service::start().await;
    let cases: &[(&str, &[&str], &[&str])] = &[
        ("utf8_bom.txt", &["KESTREL-BOM"], &["\u{FEFF}"]),
        ("latin1.txt", &["Flügelschraube"], &["\u{FFFD}"]),
        ("cp1252.txt", &["€40", "“Osprey”"], &["\u{80}", "\u{FFFD}"]),
        ("utf16be_bom.txt", &["Puffin"], &["\0"]),
        ("utf16le_nobom.txt", &["Plover memo"], &["\0"]),
        ("gb18030.txt", &["零下十八度"], &["\u{FFFD}"]),
        ("shift_jis.txt", &["三号ポンプ"], &["\u{FFFD}"]),
        ("control_chars.txt", &["amber wrench"], &["\u{1b}", "\u{8}"]),
        ("ar_rtl.txt", &["الياسمين"], &[]),
        ("front_matter.md", &["Sirens are tested at noon."], &["draft: false"]),
        ("setext_and_html.md", &["Main title", "Sub title"], &["zinc"]),
        (
            "boilerplate.html",
            &["K7 holds 250 m & weighs 31 kg", "| K7 | 250 |", "drum --type K7"],
            &["SCRIPTWORD", "NOSCRIPTWORD", "TEMPLATEWORD", "JSONLDWORD", "Accept all", "Imprint", "HIDDENWORD"],
        ),
        ("latin1_meta.html", &["Schöne Grüße aus Fürth."], &[]),
        ("deep_nesting.html", &["needle at depth"], &[]),
        ("quirky.csv", &["| part | note | qty |", "line one line two; still same cell", "04"], &["sep="]),
        (
            "table_notes.docx",
            &["Model | Max load", "C-9 | 4 t", "FOOTNOTEWORD", "INSERTEDWORD", "splitrun"],
            &["DELETEDWORD", "VANISHWORD"],
        ),
        ("docx_renamed.txt", &["This is a Word file with the wrong extension."], &["PK"]),
        (
            "sheets.xlsx",
            &["## Stock", "2024-02-29", "007", "FARWORD", "Revenue Q1 | Revenue Q2", "HIDDENSHEETWORD"],
            &["B3*2"],
        ),
        ("sparse_corner.xlsx", &["corner"], &[]),
        ("slides.pptx", &["Slide 1: Dock plan", "NOTESWORD", "| 4 | 11 m |"], &[]),
        ("encrypted_owner_rc4.pdf", &["The speed limit inside the mole is four knots."], &[]),
        ("real_pdfs/copyright-release.pdf", &["SQLite is software"], &[]),
    ];
    for (name, has, lacks) in cases {
        let id = ready(&service, name).await;
        let text = content(&service, &id).await;
        for part in *has {
            assert!(text.contains(part), "{name} lacks {part:?}: {text}");
        }
        for part in *lacks {
            assert!(!text.contains(part), "{name} has {part:?}: {text}");
        }
    }
    for (query, uri) in
        [("KESTREL-BOM", "utf8_bom.txt"), ("amber wrench", "control_chars.txt"), ("FARWORD", "sheets.xlsx")]
    {
        let hits = service.search("default", query).await;
        assert_eq!(hits[0]["uri"], uri, "{query}: {hits:?}");
        assert!(hits[0]["page"].is_null(), "{hits:?}");
    }
    let docx = content(&service, &ready(&service, "table_notes.docx").await).await;
    assert_eq!(docx.matches("BOXWORD").count(), 1, "{docx}");
    let latin = get(&service, &format!("{DOCUMENTS}/{}", ready(&service, "latin1.txt").await)).await;
    assert_eq!(latin["metadata"]["charset_guessed"], true, "{latin}");
    let matter = get(&service, &format!("{DOCUMENTS}/{}", ready(&service, "front_matter.md").await)).await;
    assert_eq!((&matter["title"], &matter["metadata"]["draft"]), (&json!("Siren policy"), &json!(false)), "{matter}");
    let tagged = json!({"query": "sirens", "filter": {"must": [{"key": "metadata.tags", "match": "night"}]}});
    let path = "/api/v1/collections/default/search";
    let found: Value = service.post(path, &tagged).send().await.unwrap().json().await.unwrap();
    assert_eq!((&found["hits"][0]["uri"], found["hits"].as_array().unwrap().len()), (&json!("front_matter.md"), 1));
    let sparse = chunks(&service, &ready(&service, "sparse_corner.xlsx").await).await;
    assert!(sparse.len() < 5, "{sparse:?}");
}

#[tokio::test]
async fn handed_files_are_refused_by_name_and_the_next_one_is_read() {
    let service = Service::start().await;
    for (name, status, code) in [
        ("whitespace_only.md", 422, "empty_document"),
        ("png_named.txt", 415, "binary_content"),
        ("deep.json", 422, "too_deep"),
        ("bomb_lying_sizes.docx", 413, "expands_too_far"),
        ("truncated.docx", 422, "corrupt_document"),
        ("ole_header.doc", 415, "unsupported_type"),
        ("zip_many_entries.zip", 413, "too_many_entries"),
        ("scanned.pdf", 422, "no_text"),
        ("footer_only_scan.pdf", 422, "no_text"),
        ("encrypted_user_aes256.pdf", 422, "encrypted_document"),
    ] {
        let began = Instant::now();
        let (found, problem) = upload_handed(&service, name).await;
        assert_eq!((found, problem["code"].as_str()), (status, Some(code)), "{name}: {problem}");
        assert!(began.elapsed() < Duration::from_secs(5), "{name} took {:?}", began.elapsed());
        assert!(service.search("default", "Page").await.is_empty(), "{name} left something to be found");
    }
    let id = ready(&service, "docx_renamed.txt").await;
    assert_eq!(chunks(&service, &id).await.len(), 1);
}

#[tokio::test]
async fn pages_are_cited_for_pdf_and_for_nothing_else() {
    let service = Service::start().await;
    let id = ready(&service, "many_pages.pdf").await;
    ready(&service, "front_matter.md").await;
    let hits = service.search("default", "Entry 900").await;
    let found = hits.iter().find(|hit| hit["text"].as_str().unwrap().contains("Entry 900.")).unwrap();
    assert_eq!(found["page"], 300, "{found}");
    for chunk in chunks(&service, &id).await {
        let said: Vec<&str> = chunk["text"].as_str().unwrap().split_whitespace().collect();
        assert_eq!(chunk["page"].to_string(), said[1], "{chunk}");
    }
    let hits = service.search("default", "siren policy").await;
    assert_eq!((&hits[0]["uri"], &hits[0]["page"]), (&json!("front_matter.md"), &Value::Null), "{hits:?}");

    let mixed = ready(&service, "mixed_scan.pdf").await;
    let notes = get(&service, &format!("{DOCUMENTS}/{mixed}")).await["notes"].to_string();
    assert!(notes.contains("pages 2-4 have no text"), "{notes}");
    let columns = content(&service, &ready(&service, "two_columns.pdf").await).await;
    assert!(columns.rfind("Left column").unwrap() < columns.find("Right column").unwrap(), "{columns}");
}

#[tokio::test]
async fn rows_keep_their_header_and_code_its_comment() {
    let service = Service::start().await;
    let id = ready(&service, "big_table.md").await;
    assert!(chunks(&service, &id).await.len() > 3);
    let hits = service.search("default", "torque of M-137").await;
    let row = hits.iter().find(|hit| hit["text"].as_str().unwrap().contains("| M-137 |")).unwrap();
    assert!(row["text"].as_str().unwrap().contains("| part | rpm limit | torque Nm | supplier |"), "{row}");

    let rows: String = (0..150).map(|n| format!("M-{n:03},{},steady state\n", 1000 + n)).collect();
    let (status, _) = upload(&service, "motors.csv", format!("part,rpm limit,note\n{rows}").as_bytes()).await;
    assert_eq!(status, 200);
    let hits = service.search("default", "rpm limit of M-133").await;
    let row = hits.iter().find(|hit| hit["text"].as_str().unwrap().contains("| M-133 | 1133 |")).unwrap();
    assert!(row["text"].as_str().unwrap().starts_with("| part | rpm limit | note |"), "{row}");

    let code = ready(&service, "code_lines.rs").await;
    let chunk = &chunks(&service, &code).await[0];
    let text = chunk["text"].as_str().unwrap();
    assert!(text.contains("/// Returns the mooring tension in newtons.\npub fn mooring_tension"), "{text}");
    assert_eq!(chunk["lines"][0], 1, "{chunk}");
    let hits = service.search("default", "mooring tension in newtons").await;
    assert_eq!((&hits[0]["uri"], &hits[0]["lines"][0]), (&json!("code_lines.rs"), &json!(1)), "{hits:?}");
}

/// One line of 96 KB: cut into what the model reads, and no request waits for it.
#[tokio::test]
async fn a_minified_file_becomes_searchable_in_its_turn() {
    let service = Service::start().await;
    let response = multipart(&service, DOCUMENTS, &[("file", "minified.js", &handed("minified.js"))]).await;
    assert_eq!(response.status(), 202);
    let answer: Value = response.json().await.unwrap();
    let id = answer["documents"][0]["id"].as_str().unwrap().to_owned();
    for _ in 0..1200 {
        let found = get(&service, &format!("{DOCUMENTS}/{id}")).await;
        if found["status"] == "indexed" {
            assert!(chunks(&service, &id).await.len() > 100);
            return;
        }
        assert_ne!(found["status"], "failed", "{found}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("it was never indexed");
}
