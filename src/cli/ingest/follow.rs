//! `tailrace ingest --watch FOLDER…`: follows folders until it is interrupted, in this process or through the server.

use super::super::Failure;
use super::super::output::Output;
use super::super::remote::Remote;
use crate::app::Knowledge;
use crate::knowledge::Priority;
use crate::knowledge::ingest::Ingest;
use crate::knowledge::watch::{self, Files, Made, WATCHED, Watch, WatchError, WatchEvent, WatchSink};
use crate::shutdown::wait_for_signal;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::join_all;
use percent_encoding::{NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::path::PathBuf;
use tokio_util::sync::CancellationToken;

/// Follows the folders in this process until SIGINT or SIGTERM.
pub async fn here(
    knowledge: &Knowledge,
    collection: &str,
    folders: Vec<PathBuf>,
    max_bytes: u64,
    output: Output,
) -> Result<(), Failure> {
    let ingest = &knowledge.ingest;
    let sink = || Here { ingest: ingest.clone(), collection: collection.to_owned(), output };
    let stop = CancellationToken::new();
    let watches = folders.into_iter().map(|folder| Watch::new(folder, max_bytes, sink()).run(stop.clone()));
    let upkeep = ingest.clone().run_upkeep(stop.clone());
    let (_, (), signal) = tokio::join!(join_all(watches), upkeep, stopping(&stop));
    Ok(signal?)
}

/// The same through the server that holds the data folder.
pub async fn there(
    remote: &Remote,
    collection: &str,
    folders: Vec<PathBuf>,
    max_bytes: u64,
    output: Output,
) -> Result<(), Failure> {
    let stop = CancellationToken::new();
    let sink = || There { remote: remote.clone(), collection: collection.to_owned(), output };
    let watches = folders.into_iter().map(|folder| Watch::new(folder, max_bytes, sink()).run(stop.clone()));
    let (_, signal) = tokio::join!(join_all(watches), stopping(&stop));
    Ok(signal?)
}

async fn stopping(stop: &CancellationToken) -> std::io::Result<()> {
    let heard = wait_for_signal().await;
    stop.cancel();
    heard
}

struct Here {
    ingest: Ingest,
    collection: String,
    output: Output,
}

#[async_trait]
impl WatchSink for Here {
    async fn watched(&self, folder: &str) -> Result<Vec<(String, String)>, WatchError> {
        watch::watched(&self.ingest, &self.collection, folder).await.map_err(watch::sorted)
    }

    async fn put(&self, uri: &str, content: Bytes, metadata: Map<String, Value>) -> Result<Made, WatchError> {
        let mut files = Files::of(&self.ingest, &self.collection, uri, content, metadata).await?;
        while let Some(new) = files.next(|event| self.tell(event)).await? {
            let done = self.ingest.document(new, Priority::Bulk).await;
            files.came(done.map(|done| done.document_id), |event| self.tell(event))?;
        }
        Ok(files.made())
    }

    async fn delete(&self, id: &str) -> Result<(), WatchError> {
        watch::delete(&self.ingest, &self.collection, id).await.map_err(watch::sorted)
    }

    fn tell(&self, event: WatchEvent<'_>) {
        tell(self.output, event);
    }
}

struct There {
    remote: Remote,
    collection: String,
    output: Output,
}

impl There {
    fn documents(&self) -> String {
        format!("/api/v1/collections/{}/documents", self.collection)
    }
}

#[async_trait]
impl WatchSink for There {
    async fn watched(&self, folder: &str) -> Result<Vec<(String, String)>, WatchError> {
        let mut found = Vec::new();
        let mut path = format!("{}?limit=500", self.documents());
        loop {
            let page = self.remote.get(&path).await.map_err(later)?;
            for document in page["documents"].as_array().into_iter().flatten() {
                if document["metadata"][WATCHED] == folder
                    && let (Some(id), Some(uri)) = (document["id"].as_str(), document["uri"].as_str())
                {
                    found.push((id.to_owned(), uri.to_owned()));
                }
            }
            let Some(next) = page["next"].as_str() else { return Ok(found) };
            path = format!("{}?limit=500&after={}", self.documents(), encoded(next));
        }
    }

    async fn put(&self, uri: &str, content: Bytes, metadata: Map<String, Value>) -> Result<Made, WatchError> {
        let path = format!("{}?wait=true", self.documents());
        let sent = self.remote.upload(&path, uri, &content, &metadata).await;
        let answer = sent.map_err(|error| sort(&*error))?;
        let mut made = HashSet::new();
        let mut all = true;
        for document in answer["documents"].as_array().into_iter().flatten() {
            let id = document["id"].as_str().unwrap_or_default();
            if let Some(why) = document["error"]["detail"].as_str().map(str::to_owned) {
                if document["error"]["status"].as_u64().is_some_and(|status| status >= 500) {
                    return Err(WatchError::Later(why));
                }
                self.tell(WatchEvent::Failed(id, &WatchError::Refused(why)));
                all = false;
            }
            made.insert(id.to_owned());
        }
        // What one that is damaged held before, only the server could tell.
        Ok(all.then_some(made))
    }

    async fn delete(&self, id: &str) -> Result<(), WatchError> {
        match self.remote.delete(&format!("{}/{}", self.documents(), encoded(id))).await.map_err(|error| sort(&*error))
        {
            // It was deleted by somebody else.
            Ok(()) | Err(WatchError::Refused(_)) => Ok(()),
            later => later,
        }
    }

    fn tell(&self, event: WatchEvent<'_>) {
        tell(self.output, event);
    }
}

/// An id in an address.
fn encoded(id: &str) -> PercentEncode<'_> {
    utf8_percent_encode(id, NON_ALPHANUMERIC)
}

fn later(error: Failure) -> WatchError {
    WatchError::Later(error.to_string())
}

fn sort(error: &(dyn std::error::Error + Send + Sync + 'static)) -> WatchError {
    match error.downcast_ref::<super::super::remote::Refused>() {
        Some(refused) if refused.for_good() => WatchError::Refused(refused.to_string()),
        _ => WatchError::Later(error.to_string()),
    }
}

fn tell(output: Output, event: WatchEvent<'_>) {
    let (word, uri, why) = match event {
        WatchEvent::Put(uri) => ("indexed", uri, None),
        WatchEvent::Gone(uri) => ("deleted", uri, None),
        WatchEvent::Failed(uri, error) => ("failed", uri, Some(error.to_string())),
        WatchEvent::Settled => ("settled", "", None),
    };
    let value = json!({"uri": uri, "status": word, "error": why});
    let text = format!("{word} {uri}{}", why.map(|why| format!(": {why}")).unwrap_or_default());
    if output.json() || event != WatchEvent::Settled {
        output.result(&value, &text);
    }
}
