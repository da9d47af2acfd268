//! A folder that a collection follows: what comes into it is ingested, what changes replaced, what goes deleted.
//!
//! Events of the file system only say that it is time to look: what there is to do comes from comparing the folder with
//! the collection, so that lost events, renames and whatever happened while nobody watched are all the same.
//! Invariant: only documents that a watch of a folder of this name has put in are ever deleted.

use super::error::KnowledgeError;
use super::ingest::{Ingest, NewDocument};
use super::walk::{self, FoundFile, Skip, Skipped, Stamp};
use crate::storage::documents;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use notify_debouncer_full::notify::RecursiveMode;
use notify_debouncer_full::{DebounceEventResult, new_debouncer};
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The metadata of a watched document that holds its folder's name.
pub const WATCHED: &str = "watched";

/// Silence after the last event before the folder is looked at: a file that is being written is read once.
const QUIET: Duration = Duration::from_millis(400);
/// Between two looks without any event: some file systems send none, and what failed is tried again.
const RESCAN: Duration = Duration::from_secs(60);
/// The same where the system cannot watch the folder.
const POLL: Duration = Duration::from_secs(3);
/// Files that are handed over at the same time.
const AT_ONCE: usize = 8;

/// Where a watched folder's documents go.
#[async_trait]
pub trait WatchSink: Send + Sync {
    /// Ids and URIs of the documents that a watch of a folder of this name has put in.
    async fn watched(&self, folder: &str) -> Result<Vec<(String, String)>, WatchError>;
    /// Puts a file in; `Ok` once a crash does not lose it.
    async fn put(&self, uri: &str, content: Bytes, metadata: Map<String, Value>) -> Result<(), WatchError>;
    /// That it is gone already is no error.
    async fn delete(&self, id: &str) -> Result<(), WatchError>;
    /// What has happened, for whoever watches the watch.
    fn tell(&self, event: WatchEvent<'_>);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchEvent<'a> {
    Put(&'a str),
    Gone(&'a str),
    Failed(&'a str, &'a WatchError),
    /// All that there was to do has been done.
    Settled,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// It will not do until the file changes.
    #[error("{0}")]
    Refused(String),
    /// It may do later.
    #[error("{0}")]
    Later(String),
}

/// One folder that is followed.
pub struct Watch<S> {
    folder: PathBuf,
    name: String,
    max_bytes: u64,
    sink: S,
    /// Files that were dealt with, as they were then.
    known: HashMap<PathBuf, Stamp>,
}

impl<S: WatchSink> Watch<S> {
    pub fn new(folder: PathBuf, max_bytes: u64, sink: S) -> Self {
        Self { name: walk::folder_name(&folder), folder, max_bytes, sink, known: HashMap::new() }
    }

    /// Follows the folder until `stop` is cancelled.
    pub async fn run(mut self, stop: CancellationToken) {
        let (wake, mut woken) = mpsc::channel(1);
        let look_again = move |_: DebounceEventResult| {
            // Full: somebody will look anyway.
            let _ = wake.try_send(());
        };
        let mut watcher = new_debouncer(QUIET, None, look_again);
        let mut watching = false;
        loop {
            // The folder may come later than the watch, or go and come back.
            if !watching && let Ok(watcher) = &mut watcher {
                watching = watcher.watch(&self.folder, RecursiveMode::Recursive).is_ok();
            }
            tokio::select! {
                () = stop.cancelled() => return,
                done = self.look() => if let Err(error) = done {
                    self.sink.tell(WatchEvent::Failed(&self.name, &error));
                },
            }
            watching &= self.folder.is_dir();
            let pause = if watching { RESCAN } else { POLL };
            tokio::select! {
                () = stop.cancelled() => return,
                _ = woken.recv() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Does what there is to do now.
    async fn look(&mut self) -> Result<(), WatchError> {
        let (folder, max_bytes) = (self.folder.clone(), self.max_bytes);
        let known = std::mem::take(&mut self.known);
        let look = move || {
            let found = folder.is_dir().then(|| walk::walk_again(&[folder], max_bytes, &known));
            (found, known)
        };
        let walked = tokio::task::spawn_blocking(look).await;
        let (found, known) = walked.map_err(|error| WatchError::Later(error.to_string()))?;
        self.known = known;
        // A folder that is not there may be a disk that is not mounted: nothing is deleted for it.
        let Some(found) = found else {
            return Err(WatchError::Later(format!("there is no folder {}", self.folder.display())));
        };
        let there: HashSet<&PathBuf> = found.files.iter().map(|file| &file.path).collect();
        self.known.retain(|path, _| there.contains(path));
        let fresh = found.files.iter().filter(|file| self.known.get(&file.path) != Some(&file.stamp));
        let fresh: Vec<FoundFile> = fresh.cloned().collect();
        // First what is new: the text of a file that was renamed is not embedded again.
        let this = &*self;
        let done = stream::iter(fresh).map(|file| this.put(file)).buffer_unordered(AT_ONCE);
        let done: Vec<Option<(PathBuf, Stamp)>> = done.collect().await;
        self.known.extend(done.into_iter().flatten());
        self.delete_missing(&found.files, &found.skipped).await?;
        self.sink.tell(WatchEvent::Settled);
        Ok(())
    }

    /// The file's stamp if it has been dealt with as it is.
    async fn put(&self, file: FoundFile) -> Option<(PathBuf, Stamp)> {
        // Gone again, or not to be read yet: the next look finds out.
        let content = Bytes::from(tokio::fs::read(&file.path).await.ok()?);
        let metadata = Map::from_iter([(WATCHED.to_owned(), Value::from(self.name.as_str()))]);
        match self.sink.put(&file.uri, content, metadata).await {
            Ok(()) => self.sink.tell(WatchEvent::Put(&file.uri)),
            Err(error) => {
                self.sink.tell(WatchEvent::Failed(&file.uri, &error));
                if matches!(error, WatchError::Later(_)) {
                    return None;
                }
            }
        }
        Some((file.path, file.stamp))
    }

    async fn delete_missing(&self, files: &[FoundFile], skipped: &[Skipped]) -> Result<(), WatchError> {
        let there: HashSet<&str> = files.iter().map(|file| file.uri.as_str()).collect();
        // What cannot be read just now is not gone.
        let unreadable = skipped.iter().filter(|skipped| matches!(skipped.why, Skip::Unreadable(_)));
        let unreadable: Vec<String> = unreadable
            .filter_map(|skipped| skipped.path.strip_prefix(&self.folder).ok())
            .map(|below| super::identity::file_uri(&format!("{}/{}", self.name, below.to_string_lossy())))
            .collect();
        for (id, uri) in self.sink.watched(&self.name).await? {
            let hidden = unreadable
                .iter()
                .any(|path| uri.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')));
            if there.contains(uri.as_str()) || hidden {
                continue;
            }
            match self.sink.delete(&id).await {
                Ok(()) => self.sink.tell(WatchEvent::Gone(&uri)),
                Err(error) => self.sink.tell(WatchEvent::Failed(&uri, &error)),
            }
        }
        Ok(())
    }
}

/// Into the queue of this process.
pub struct Queue {
    pub ingest: Ingest,
    pub collection: String,
}

#[async_trait]
impl WatchSink for Queue {
    async fn watched(&self, folder: &str) -> Result<Vec<(String, String)>, WatchError> {
        watched(&self.ingest, &self.collection, folder).await.map_err(sorted)
    }

    async fn put(&self, uri: &str, content: Bytes, metadata: Map<String, Value>) -> Result<(), WatchError> {
        let new = document(&self.collection, uri, content, metadata);
        self.ingest.accept(new, None, false).await.map(drop).map_err(sorted)
    }

    async fn delete(&self, id: &str) -> Result<(), WatchError> {
        delete(&self.ingest, &self.collection, id).await.map_err(sorted)
    }

    fn tell(&self, event: WatchEvent<'_>) {
        match event {
            WatchEvent::Put(uri) => tracing::debug!(document.uri = uri, "a watched file is new or has changed"),
            WatchEvent::Gone(uri) => tracing::info!(document.uri = uri, "a watched file is gone, and its document"),
            WatchEvent::Failed(what, error) => tracing::warn!(document.uri = what, error = %error, "a watched folder"),
            WatchEvent::Settled => {}
        }
    }
}

/// A watched file as a document.
pub fn document(collection: &str, uri: &str, content: Bytes, metadata: Map<String, Value>) -> NewDocument {
    NewDocument {
        collection: collection.to_owned(),
        uri: Some(uri.to_owned()),
        content,
        metadata,
        ..NewDocument::default()
    }
}

/// Ids and URIs of the documents that a watch of a folder of this name has put in.
///
/// # Errors
/// What the database says.
pub async fn watched(ingest: &Ingest, collection: &str, folder: &str) -> Result<Vec<(String, String)>, KnowledgeError> {
    let below = documents::below(ingest.db(), collection, &format!("{folder}/")).await?;
    let put = below.into_iter().filter(|(_, _, metadata)| metadata.get(WATCHED).is_some_and(|name| name == folder));
    Ok(put.map(|(id, uri, _)| (id, uri)).collect())
}

/// # Errors
/// As [`Ingest::delete_document`], but for a document that is gone already.
pub async fn delete(ingest: &Ingest, collection: &str, id: &str) -> Result<(), KnowledgeError> {
    match ingest.delete_document(collection, id).await {
        Ok(_) | Err(KnowledgeError::NoDocument(_)) => Ok(()),
        Err(other) => Err(other),
    }
}

/// Whether another try may help.
pub fn sorted(error: KnowledgeError) -> WatchError {
    if error.may_pass() { WatchError::Later(error.to_string()) } else { WatchError::Refused(error.to_string()) }
}
