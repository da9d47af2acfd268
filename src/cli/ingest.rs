//! `tailrace ingest PATH…`: files and folders into a collection. Running it again embeds nothing, so that one that was
//! killed goes on where it was.

mod follow;
mod report;

use super::Failure;
use super::crawl;
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
use report::{Done, Report};
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct IngestArgs {
    /// Files and folders; folders are read with all that is in them, but what .gitignore names. Or addresses of
    /// pages, https://…
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Made if it is not there
    #[arg(long, short, default_value = "default")]
    collection: String,
    /// Follow folders: what comes is ingested, what changes replaced, what goes deleted, until interrupted
    #[arg(long)]
    watch: bool,
    /// For addresses: how many links may lead from them to a page of the same host; robots.txt is obeyed
    #[arg(long, default_value_t = 0, value_name = "N")]
    depth: usize,
}

/// Files that are read at the same time: enough to keep the embedder busy between small ones.
const AT_ONCE: usize = 8;

pub async fn run(config: Config, args: IngestArgs, output: &Output) -> Result<(), Failure> {
    let urls = crawl::addresses(&args.paths)?;
    if !urls.is_empty() {
        if args.watch {
            return Err("--watch follows folders, not addresses".into());
        }
        return crawl::run(config, urls, args.depth, &args.collection, output).await;
    }
    let limit = config.ingest.max_document_bytes as u64;
    if args.watch
        && let Some(file) = args.paths.iter().find(|path| !path.is_dir())
    {
        return Err(format!("--watch follows folders, and {} is none", file.display()).into());
    }
    let knowledge = match Knowledge::open(&config).await {
        Ok(knowledge) => Some(knowledge),
        Err(error) if Remote::instead(&error, &config).is_none() => return Err(error),
        Err(_) => None,
    };
    let Some(knowledge) = knowledge else {
        let remote = Remote::new(&config)?;
        output.note(&format!("Through the server at {}.", remote.url()));
        remote.json("/api/v1/collections", &json!({"name": args.collection})).await?;
        if args.watch {
            return follow::there(&remote, &args.collection, args.paths, limit, *output).await;
        }
        let (files, mut report) = walk(args.paths, limit, output).await?;
        there(&remote, &args.collection, files, &mut report).await;
        return report.finish();
    };
    let done = match knowledge.ingest.create_collection(&args.collection, AUTO).await {
        Err(error) => Err(error.into()),
        Ok(_) if args.watch => follow::here(&knowledge, &args.collection, args.paths, limit, *output).await,
        Ok(_) => match walk(args.paths, limit, output).await {
            Err(error) => Err(error),
            Ok((files, mut report)) => {
                here(&knowledge, &args.collection, files, &mut report).await;
                report.finish()
            }
        },
    };
    knowledge.close().await;
    done
}

async fn walk(paths: Vec<PathBuf>, limit: u64, output: &Output) -> Result<(Vec<FoundFile>, Report<'_>), Failure> {
    let named: HashSet<PathBuf> = paths.iter().cloned().collect();
    let Found { files, skipped } = tokio::task::spawn_blocking(move || walk::walk(&paths, limit)).await?;
    // What was named itself is missed.
    let (missed, skipped): (Vec<_>, Vec<_>) = skipped.into_iter().partition(|skipped| named.contains(&skipped.path));
    let mut report = Report::new(output, (files.len() + missed.len()) as u64, skipped);
    for Skipped { path, why } in missed {
        report.add(path.display().to_string(), Err(why.into()));
    }
    Ok((files, report))
}

async fn here(knowledge: &Knowledge, collection: &str, files: Vec<FoundFile>, report: &mut Report<'_>) {
    let one = async |file: FoundFile| {
        let content = tokio::fs::read(&file.path).await?;
        let new = NewDocument {
            collection: collection.to_owned(),
            uri: Some(file.uri),
            content: Bytes::from(content),
            ..NewDocument::default()
        };
        into(knowledge, &new.uri.clone().unwrap_or_default(), new).await
    };
    all(files, one, report).await;
}

async fn there(remote: &Remote, collection: &str, files: Vec<FoundFile>, report: &mut Report<'_>) {
    let path = format!("/api/v1/collections/{collection}/documents?wait=true");
    let one = async |file: FoundFile| {
        let content = tokio::fs::read(&file.path).await?;
        let answer = remote.upload(&path, &file.uri, &content, &Map::new()).await?;
        Ok(told(&answer))
    };
    all(files, one, report).await;
}

/// One document, or each of an archive: those that are refused stand in its notes.
async fn into(knowledge: &Knowledge, uri: &str, new: NewDocument) -> Result<Done, Failure> {
    let mut whole = Done { unchanged: true, chunks: 0, notes: Vec::new() };
    let mut expanded = knowledge.ingest.expand(new).await?;
    while let Some((of, new)) = expanded.next().await {
        let outcome = match new {
            Ok(new) => knowledge.ingest.document(new, Priority::Bulk).await,
            Err(error) => Err(error),
        };
        match outcome {
            Ok(done) => {
                whole.unchanged &= done.unchanged;
                whole.chunks += done.chunks;
                whole.notes.extend(done.notes);
            }
            Err(error) if of == uri => return Err(error.into()),
            Err(error) => whole.notes.push(format!("{of} was refused: {error}")),
        }
    }
    Ok(whole)
}

/// The same, as a server tells it.
fn told(answer: &Value) -> Done {
    let mut whole = Done { unchanged: true, chunks: 0, notes: Vec::new() };
    for document in answer["documents"].as_array().into_iter().flatten() {
        whole.unchanged &= document["unchanged"] == true;
        whole.chunks += document["chunks"].as_u64().unwrap_or_default();
        whole.notes.extend(document["error"]["detail"].as_str().map(str::to_owned));
        let notes = document["notes"].as_array().into_iter().flatten().filter_map(Value::as_str);
        whole.notes.extend(notes.map(str::to_owned));
    }
    whole
}

/// A few files at a time, with progress.
async fn all(files: Vec<FoundFile>, one: impl AsyncFn(FoundFile) -> Result<Done, Failure>, report: &mut Report<'_>) {
    let one = &one;
    let mut work = stream::iter(files)
        .map(|file| async move {
            let uri = file.uri.clone();
            (uri, one(file).await)
        })
        .buffer_unordered(AT_ONCE);
    while let Some((uri, outcome)) = work.next().await {
        report.add(uri, outcome);
    }
}
