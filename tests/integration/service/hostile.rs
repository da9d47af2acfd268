//! Documents that are made to harm, over HTTP: each gets an answer with a name, the program lives, the next document
//! is read, and no process is left.

use super::documents::multipart;
use super::formats::{DOCUMENTS, get, handed, upload};
use super::*;
use serde_json::json;
use std::io::{Cursor, Write};
use std::time::Instant;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

pub(super) fn packed(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        zip.start_file(*name, SimpleFileOptions::default().compression_level(Some(1))).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// A Word file with this as its text.
fn word(document: &str) -> Vec<u8> {
    const TYPES: &str = "<Types><Override PartName='/word/document.xml' ContentType='application/\
                         vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml'/></Types>";
    const RELATIONS: &str = "<Relationships><Relationship Id='r1' Type='http://x/officeDocument' \
                             Target='word/document.xml'/></Relationships>";
    packed(&[
        ("[Content_Types].xml", TYPES.as_bytes()),
        ("_rels/.rels", RELATIONS.as_bytes()),
        ("word/document.xml", document.as_bytes()),
    ])
}

/// A workbook with these rows.
fn workbook(rows: &str) -> Vec<u8> {
    const TYPES: &str = "<Types><Override PartName='/xl/workbook.xml' ContentType='application/\
                         vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml'/></Types>";
    const RELATIONS: &str = "<Relationships><Relationship Id='r1' Type='http://x/officeDocument' \
                             Target='xl/workbook.xml'/></Relationships>";
    const SHEETS: &str =
        "<Relationships><Relationship Id='r1' Type='http://x/worksheet' Target='s.xml'/></Relationships>";
    packed(&[
        ("[Content_Types].xml", TYPES.as_bytes()),
        ("_rels/.rels", RELATIONS.as_bytes()),
        ("xl/_rels/workbook.xml.rels", SHEETS.as_bytes()),
        ("xl/workbook.xml", b"<workbook><sheets><sheet name='S' r:id='r1'/></sheets></workbook>"),
        ("xl/s.xml", format!("<worksheet><sheetData>{rows}</sheetData></worksheet>").as_bytes()),
    ])
}

/// Processes that the program has started and that are still there.
#[cfg(target_os = "linux")]
fn left_behind(service: &Service) -> Vec<String> {
    let tasks = format!("/proc/{}/task", service.child.id().unwrap());
    std::fs::read_dir(tasks)
        .unwrap()
        .filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("children")).ok())
        .flat_map(|children| children.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

#[cfg(not(target_os = "linux"))]
fn left_behind(_: &Service) -> Vec<String> {
    Vec::new()
}

/// Still answers, and still reads.
async fn assert_alive(service: &Service) {
    let (status, answer) = upload(service, "after.docx", &word("<w:p><w:t>Still here.</w:t></w:p>")).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(left_behind(service), Vec::<String>::new());
}

#[tokio::test]
async fn bombs_and_abysses_get_a_name() {
    let service = Service::with(&[
        ("TAILRACE__LLM__PROVIDER", "extractive"),
        ("TAILRACE__INGEST__EXTRACT__MAX_MEMORY_BYTES", "70000000"),
        ("TAILRACE__INGEST__EXTRACT__MAX_INFLATED_BYTES", "20000000"),
        ("TAILRACE__INGEST__EXTRACT__MAX_INFLATE_RATIO", "100000"),
    ])
    .await;
    let laughs = "<!DOCTYPE l [<!ENTITY a 'lol'><!ENTITY b '&a;&a;&a;&a;'>]><l>&b;</l>";
    let abyss = format!("%PDF-1.4\n1 0 obj\n{}\nendobj\ntrailer << /Root 1 0 R >>\n", "[".repeat(200_000));
    let xml_abyss = "<a>".repeat(50_000);
    let zeros = packed(&[("zeros.txt", &vec![b'0'; 21 << 20])]);
    let cells = workbook(&format!("<row>{}</row>", "<c><v>1</v></c>".repeat(1_300_000)));
    let deep_mail = (0..9).fold("Subject: s\r\n\r\nend".to_owned(), |inner, _| {
        format!(
            "From: a@b\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b{0}\r\n\r\n--b{0}\r\n\
                 Content-Type: message/rfc822\r\n\r\n{inner}\r\n--b{0}--\r\n",
            inner.len()
        )
    });
    let cases: &[(&str, &[u8], u16, &[&str])] = &[
        ("laughs.xml", laughs.as_bytes(), 422, &["entity_declarations"]),
        ("laughs.docx", &word(laughs), 422, &["entity_declarations"]),
        ("abyss.pdf", abyss.as_bytes(), 422, &["corrupt_document", "too_deep"]),
        ("abyss.xml", xml_abyss.as_bytes(), 422, &["too_deep"]),
        ("zeros.zip", &zeros, 413, &["expands_too_far"]),
        ("cells.xlsx", &cells, 413, &["expands_too_far"]),
        ("deep.eml", deep_mail.as_bytes(), 422, &["too_deep"]),
        ("nothing.pdf", b"%PDF-1.7\n", 422, &["corrupt_document"]),
        ("cut.zip", &zeros[..zeros.len() / 2], 422, &["corrupt_document"]),
    ];
    for (name, bytes, status, codes) in cases {
        let (found, problem) = upload(&service, name, bytes).await;
        let code = problem["code"].as_str().unwrap_or_default();
        assert!(found == *status && codes.contains(&code), "{name}: {found} {problem}");
        if *name == "cells.xlsx" {
            assert!(problem["detail"].as_str().unwrap().contains("max_memory_bytes"), "{problem}");
        }
    }
    assert_alive(&service).await;
}

#[tokio::test]
async fn damaged_files_never_end_the_program() {
    let service = Service::start().await;
    let mut dice: u32 = 7;
    let mut roll = |most: usize| {
        dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (dice >> 8) as usize % most
    };
    for name in ["two_columns.pdf", "encrypted_owner_rc4.pdf", "table_notes.docx", "sheets.xlsx", "slides.pptx"] {
        for _ in 0..5 {
            let mut bytes = handed(name);
            for _ in 0..4 {
                let at = roll(bytes.len());
                bytes[at] = roll(256) as u8;
            }
            bytes.truncate(bytes.len() - roll(bytes.len() / 8));
            let (status, answer) = upload(&service, name, &bytes).await;
            assert!(status == 200 || (400..500).contains(&status), "{name}: {status} {answer}");
        }
    }
    assert_alive(&service).await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_reader_that_does_not_end_is_ended() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let sleeper = folder.path().join("sleeper");
    std::fs::write(&sleeper, "#!/bin/sh\nexec sleep 600\n").unwrap();
    std::fs::set_permissions(&sleeper, std::fs::Permissions::from_mode(0o755)).unwrap();
    let service = Service::with(&[
        ("TAILRACE__LLM__PROVIDER", "extractive"),
        ("TAILRACE__INGEST__EXTRACT__PROGRAM", sleeper.to_str().unwrap()),
        ("TAILRACE__INGEST__EXTRACT__TIMEOUT_MS", "1000"),
    ])
    .await;
    let began = Instant::now();
    for (name, bytes) in [("slides.pptx", handed("slides.pptx")), ("some.zip", packed(&[("a.txt", b"text")]))] {
        let (status, problem) = upload(&service, name, &bytes).await;
        assert_eq!((status, &problem["code"]), (422, &json!("extraction_timeout")), "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains("ingest.extract.timeout_ms"), "{problem}");
    }
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert_eq!(left_behind(&service), Vec::<String>::new());
    // What needs no other process is read all the same.
    let (status, answer) = upload(&service, "plain.md", b"# Plain\n\nText.").await;
    assert_eq!(status, 200, "{answer}");
}

#[tokio::test]
async fn each_file_of_an_archive_is_a_document() {
    let service = Service::start().await;
    let inner = packed(&[("deep/tide.txt", b"Spring tides follow the full moon.")]);
    let archive = packed(&[
        ("notes/otter.md", b"# Otter\n\nThe otter swims at dawn."),
        ("notes/dock.docx", &word("<w:p><w:t>The dock closes at nine.</w:t></w:p>")),
        ("../../outside.txt", b"The path leads nowhere."),
        ("picture.png", &handed("png_named.txt")),
        ("inner.zip", &inner),
        ("__MACOSX/._otter.md", b"litter"),
    ]);
    let path = format!("{DOCUMENTS}?wait=true");
    let response = multipart(&service, &path, &[("file", "files/all.zip", &archive)]).await;
    assert_eq!(response.status(), 207);
    let answer: Value = response.json().await.unwrap();
    let documents = answer["documents"].as_array().unwrap();
    let codes: Vec<_> = documents.iter().map(|document| document["error"]["code"].clone()).collect();
    assert_eq!(codes.iter().filter(|code| code.is_null()).count(), 4, "{answer}");
    assert!(codes.contains(&json!("binary_content")), "{answer}");
    let mut uris: Vec<String> = Vec::new();
    for document in get(&service, DOCUMENTS).await["documents"].as_array().unwrap() {
        if document["status"] == "indexed" {
            uris.push(document["uri"].as_str().unwrap().to_owned());
        }
    }
    uris.sort();
    assert_eq!(
        uris,
        [
            "files/all.zip/inner.zip/deep/tide.txt",
            "files/all.zip/notes/dock.docx",
            "files/all.zip/notes/otter.md",
            "files/all.zip/outside.txt",
        ]
    );
    assert_eq!(service.search("default", "otter dawn").await[0]["uri"], "files/all.zip/notes/otter.md");
    // The same archive again changes nothing.
    let again: Value = multipart(&service, &path, &[("file", "files/all.zip", &archive)]).await.json().await.unwrap();
    let unchanged = again["documents"].as_array().unwrap().iter().filter(|document| document["unchanged"] == true);
    assert_eq!(unchanged.count(), 4, "{again}");
}
