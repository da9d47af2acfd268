//! Files on the web: read by the same readers as files that are sent, in a process of its own, within the tool's caps.

use super::{fetch, tool};
use crate::upstream::{Script, Upstream};
use std::path::{Path, PathBuf};
use tailrace::knowledge::extract::{Limits, Reader};
use tailrace::tools::fetch_url::{FetchUrl, FetchUrlOptions};

fn handed(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/ingest").join(name)).unwrap()
}

async fn serving() -> Upstream {
    Upstream::answering(|_, request| {
        let file = request.path.trim_start_matches('/').to_owned();
        let kind = match file.rsplit('.').next() {
            Some("pdf") => "application/pdf",
            Some("docx") => "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            _ => "text/plain",
        };
        Script::body(200, kind, handed(&file))
    })
    .await
}

fn reading(server: &Upstream, change: impl FnOnce(&mut FetchUrlOptions)) -> FetchUrl {
    tool(server, change)
        .with_reader(Reader::new(Limits::default(), Some(PathBuf::from(env!("CARGO_BIN_EXE_tailrace")))))
}

#[tokio::test]
async fn files_are_read_as_what_their_bytes_are() {
    let server = serving().await;
    let tool = reading(&server, |_| {});
    for (file, has) in [
        ("two_columns.pdf", "Left column talks about anchors"),
        ("table_notes.docx", "| C-9 | 4 t |"),
        // Declared as text.
        ("docx_renamed.txt", "This is a Word file with the wrong extension."),
    ] {
        let output = fetch(&tool, &format!("{}/{file}", server.base_url())).await.expect(file);
        assert!(output.text.contains(has), "{file}: {}", output.text);
    }
    for (file, why) in [
        ("encrypted_user_aes256.pdf", "the document is encrypted"),
        ("scanned.pdf", "probably scanned"),
        ("bomb_lying_sizes.docx", "unpacks to more"),
        ("truncated.docx", "the document is damaged"),
    ] {
        let error = fetch(&tool, &format!("{}/{file}", server.base_url())).await.expect_err(file).to_string();
        assert!(error.contains(why), "{file}: {error}");
    }
}

#[tokio::test]
async fn half_of_a_file_is_refused_and_not_read() {
    let server = serving().await;
    let tool = reading(&server, |options| options.max_bytes = 20_000);
    let error = fetch(&tool, &format!("{}/many_pages.pdf", server.base_url())).await.expect_err("too large");
    assert!(error.to_string().contains("tools.fetch_url.max_bytes"), "{error}");
}
