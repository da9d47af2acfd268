//! `tailrace ingest URL…`: pages of the web into a collection, with `--depth N` also those that they link to on the
//! same host. Behind the same address guard as the tool `fetch_url`.

use super::Failure;
use super::output::Output;
use super::remote::Remote;
use crate::app::{Knowledge, page_fetcher};
use crate::config::Config;
use crate::knowledge::Priority;
use crate::knowledge::base::AUTO;
use crate::knowledge::ingest::NewDocument;
use crate::tools::fetch_url::{Crawl, Fetched};
use serde_json::{Value, json};
use std::path::PathBuf;

/// The addresses, where it is addresses that were given.
///
/// # Errors
/// Some are addresses and some are paths.
pub fn addresses(paths: &[PathBuf]) -> Result<Vec<String>, Failure> {
    let is_address = |path: &str| path.starts_with("http://") || path.starts_with("https://");
    let found: Vec<String> =
        paths.iter().filter_map(|path| path.to_str()).filter(|p| is_address(p)).map(str::to_owned).collect();
    if !found.is_empty() && found.len() < paths.len() {
        return Err("give either addresses or paths: they follow different rules".into());
    }
    Ok(found)
}

/// Where pages go.
enum Target {
    Here(Box<Knowledge>),
    There(Remote),
}

pub async fn run(
    config: Config,
    urls: Vec<String>,
    depth: usize,
    collection: &str,
    output: &Output,
) -> Result<(), Failure> {
    let target = match Knowledge::open(&config).await {
        Ok(knowledge) => Target::Here(Box::new(knowledge)),
        Err(error) => {
            let remote = Remote::instead(&error, &config).ok_or(error)?;
            output.note(&format!("Through the server at {}.", remote.url()));
            Target::There(remote)
        }
    };
    let crawled = crawl(&config, &target, urls, depth, collection, output).await;
    if let Target::Here(knowledge) = target {
        knowledge.close().await;
    }
    let summary = crawled?;
    summary.print(output);
    match summary.refused.as_slice() {
        // A page that a link led to may well be none; one that was named may not.
        [] => Ok(()),
        refused if summary.ingested + summary.unchanged > 0 => {
            output.note(&format!("{} pages were left out", refused.len()));
            Ok(())
        }
        [(url, why), ..] => Err(format!("{url}: {why}").into()),
    }
}

async fn crawl(
    config: &Config,
    target: &Target,
    urls: Vec<String>,
    depth: usize,
    collection: &str,
    output: &Output,
) -> Result<Summary, Failure> {
    match target {
        Target::Here(knowledge) => drop(knowledge.ingest.create_collection(collection, AUTO).await?),
        Target::There(remote) => drop(remote.json("/api/v1/collections", &json!({"name": collection})).await?),
    }
    let fetch = page_fetcher(config)?;
    let mut summary = Summary::default();
    for url in urls {
        let mut crawl = match Crawl::start(&fetch, &url, depth, config.ingest.max_crawl_pages).await {
            Ok(crawl) => crawl,
            Err(error) => {
                summary.refused.push((url, error.to_string()));
                continue;
            }
        };
        while let Some((url, page)) = crawl.next().await {
            output.note(url.as_str());
            let outcome = match page {
                Ok(page) => put(target, collection, page).await,
                Err(error) => Err(error.into()),
            };
            summary.add(url.to_string(), outcome);
        }
    }
    Ok(summary)
}

/// Whether it was there already, and its chunks.
async fn put(target: &Target, collection: &str, page: Fetched) -> Result<(bool, u64), Failure> {
    match target {
        Target::Here(knowledge) => {
            let new = NewDocument {
                collection: collection.to_owned(),
                uri: Some(page.url.to_string()),
                content: page.bytes,
                mime: page.content_type,
                ..NewDocument::default()
            };
            let done = knowledge.ingest.document(new, Priority::Bulk).await?;
            Ok((done.unchanged, done.chunks))
        }
        // The server fetches it itself: what it stores is what it has seen.
        Target::There(remote) => {
            let path = format!("/api/v1/collections/{collection}/documents?wait=true");
            let answer = remote.json(&path, &json!({"documents": [{"url": page.url.as_str()}]})).await?;
            let document = &answer["documents"][0];
            Ok((document["unchanged"] == true, document["chunks"].as_u64().unwrap_or_default()))
        }
    }
}

#[derive(Default)]
struct Summary {
    ingested: u64,
    unchanged: u64,
    chunks: u64,
    refused: Vec<(String, String)>,
}

impl Summary {
    fn add(&mut self, url: String, outcome: Result<(bool, u64), Failure>) {
        match outcome {
            Ok((true, _)) => self.unchanged += 1,
            Ok((false, chunks)) => {
                self.ingested += 1;
                self.chunks += chunks;
            }
            Err(why) => self.refused.push((url, why.to_string())),
        }
    }

    fn print(&self, output: &Output) {
        let mut lines = vec![format!(
            "{} pages ingested ({} chunks), {} unchanged, {} left out",
            self.ingested,
            self.chunks,
            self.unchanged,
            self.refused.len()
        )];
        lines.extend(self.refused.iter().map(|(url, why)| format!("  left out {url}: {why}")));
        let refused: Vec<Value> = self.refused.iter().map(|(url, why)| json!({"url": url, "error": why})).collect();
        let value = json!({
            "ingested": self.ingested, "chunks": self.chunks, "unchanged": self.unchanged, "failed": refused,
        });
        output.result(&value, &lines.join("\n"));
    }
}
