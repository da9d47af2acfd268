//! `tailrace ingest PATH…`: files and folders into a collection, with a summary that names what was
//! left out and why. Running it again embeds nothing.

use super::Failure;
use super::output::Output;
use super::remote::Remote;
use crate::app::Knowledge;
use crate::config::Config;
use crate::knowledge::Priority;
use crate::knowledge::base::AUTO;
use crate::knowledge::ingest::NewDocument;
use crate::knowledge::walk::{self, Found, FoundFile, Skipped};
use bytes::Bytes;
use clap::Args;
use futures_util::stream::{self, StreamExt};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Instant;

#[derive(Debug, Args)]
pub struct IngestArgs {
    /// Files and folders; folders are read with all that is in them, but what .gitignore names
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Made if it is not there
    #[arg(long, short, default_value = "default")]
    collection: String,
}

/// Files that are read at the same time: enough to keep the embedder busy between small ones.
const AT_ONCE: usize = 4;

pub async fn run(config: Config, args: IngestArgs, output: &Output) -> Result<(), Failure> {
    let began = Instant::now();
    let limit = config.ingest.max_document_bytes as u64;
    let paths = args.paths;
    let Found { files, skipped } = tokio::task::spawn_blocking(move || walk::walk(&paths, limit)).await?;
    let mut summary = match Knowledge::open(&config).await {
        Ok(knowledge) => {
            let done = here(&knowledge, &args.collection, files, output).await;
            knowledge.close().await;
            done?
        }
        Err(error) => {
            let remote = Remote::instead(&error, &config).ok_or(error)?;
            output.note(&format!("Through the server at {}.", remote.url()));
            there(&remote, &args.collection, files, output).await?
        }
    };
    summary.skipped = skipped;
    summary.print(began, output);
    match summary.failed.as_slice() {
        [] => Ok(()),
        [(uri, why)] => Err(format!("{uri} was refused: {why}").into()),
        failed => Err(format!("{} documents were refused", failed.len()).into()),
    }
}

async fn here(
    knowledge: &Knowledge,
    collection: &str,
    files: Vec<FoundFile>,
    output: &Output,
) -> Result<Summary, Failure> {
    knowledge.ingest.create_collection(collection, AUTO).await?;
    let one = async |file: FoundFile| {
        let content = tokio::fs::read(&file.path).await?;
        let new = NewDocument {
            collection: collection.to_owned(),
            uri: Some(file.uri),
            content: Bytes::from(content),
            ..NewDocument::default()
        };
        let done = knowledge.ingest.document(new, Priority::Bulk).await?;
        Ok(Done { unchanged: done.unchanged, chunks: done.chunks, notes: done.notes })
    };
    all(files, one, output).await
}

async fn there(remote: &Remote, collection: &str, files: Vec<FoundFile>, output: &Output) -> Result<Summary, Failure> {
    remote.json("/api/v1/collections", &json!({"name": collection})).await?;
    let path = format!("/api/v1/collections/{collection}/documents?wait=true");
    let one = async |file: FoundFile| {
        let content = tokio::fs::read(&file.path).await?;
        let answer = remote.upload(&path, &file.uri, &content).await?;
        let document = &answer["documents"][0];
        let notes = document["notes"].as_array().into_iter().flatten().filter_map(Value::as_str);
        Ok(Done {
            unchanged: document["unchanged"] == true,
            chunks: document["chunks"].as_u64().unwrap_or_default(),
            notes: notes.map(str::to_owned).collect(),
        })
    };
    all(files, one, output).await
}

/// What became of one file.
struct Done {
    unchanged: bool,
    chunks: u64,
    notes: Vec<String>,
}

/// A few files at a time, with progress.
async fn all(
    files: Vec<FoundFile>,
    one: impl AsyncFn(FoundFile) -> Result<Done, Failure>,
    output: &Output,
) -> Result<Summary, Failure> {
    let bar = output.bar(files.len() as u64);
    let mut summary = Summary::default();
    let one = &one;
    let mut work = stream::iter(files)
        .map(|file| async move {
            let uri = file.uri.clone();
            (uri, one(file).await)
        })
        .buffer_unordered(AT_ONCE);
    while let Some((uri, outcome)) = work.next().await {
        bar.set_message(uri.clone());
        bar.inc(1);
        summary.add(uri, outcome);
    }
    bar.finish_and_clear();
    Ok(summary)
}

#[derive(Default)]
struct Summary {
    ingested: u64,
    unchanged: u64,
    chunks: u64,
    notes: Vec<(String, String)>,
    failed: Vec<(String, String)>,
    skipped: Vec<Skipped>,
}

impl Summary {
    fn add(&mut self, uri: String, outcome: Result<Done, Failure>) {
        match outcome {
            Ok(done) => {
                if done.unchanged {
                    self.unchanged += 1;
                } else {
                    self.ingested += 1;
                    self.chunks += done.chunks;
                }
                self.notes.extend(done.notes.into_iter().map(|note| (uri.clone(), note)));
            }
            Err(why) => self.failed.push((uri, why.to_string())),
        }
    }

    fn print(&self, began: Instant, output: &Output) {
        let seconds = began.elapsed().as_secs_f64();
        let mut lines = vec![format!(
            "{} ingested ({} chunks), {} unchanged, {} refused, {} skipped in {seconds:.1} s",
            self.ingested,
            self.chunks,
            self.unchanged,
            self.failed.len(),
            self.skipped.len()
        )];
        lines.extend(self.skipped.iter().map(|s| format!("  skipped {}: {}", s.path.display(), s.why)));
        lines.extend(self.failed.iter().map(|(uri, why)| format!("  refused {uri}: {why}")));
        lines.extend(self.notes.iter().map(|(uri, note)| format!("  {uri}: {note}")));
        let pairs = |list: &[(String, String)], what: &str| -> Vec<Value> {
            list.iter().map(|(uri, why)| json!({"uri": uri, what: why})).collect()
        };
        let value = json!({
            "ingested": self.ingested, "chunks": self.chunks, "unchanged": self.unchanged,
            "failed": pairs(&self.failed, "error"), "notes": pairs(&self.notes, "note"),
            "skipped": self.skipped.iter().map(|s| json!({"path": s.path, "why": s.why.to_string()})).collect::<Vec<_>>(),
            "took_ms": u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
        output.result(&value, &lines.join("\n"));
    }
}
