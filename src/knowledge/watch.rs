//! A folder that a collection follows: what comes into it is ingested, what changes replaced, what goes deleted.
//!
//! Events of the file system only say that it is time to look: what there is to do comes from comparing the folder with
//! the collection, so that lost events, renames and whatever happened while nobody watched are all the same.
//! Invariant: only documents that a watch of a folder of this name has put in are ever deleted.

use super::error::KnowledgeError;
use super::extract::is_damaged_archive;
use super::ingest::{Expanded, Ingest, NewDocument};
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
    async fn put(&self, uri: &str, content: Bytes, metadata: Map<String, Value>) -> Result<Made, WatchError>;
    /// That it is gone already is no error.
    async fn delete(&self, id: &str) -> Result<(), WatchError>;
    /// What has happened, for whoever watches the watch.
    fn tell(&self, event: WatchEvent<'_>);
}

/// Ids (or URIs) of what came of a file, of an archive one for each file in it, also for those that were refused.
/// `None`: that cannot be told, so what came of it before stays.
pub type Made = Option<HashSet<String>>;

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
    /// By the file's URI, what came of it; nothing where it was refused as a whole.
    made: HashMap<String, HashSet<String>>,
    /// URIs of files that were passed over at the last look, and why.
    told: HashSet<(String, String)>,
}

impl<S: WatchSink> Watch<S> {
    pub fn new(folder: PathBuf, max_bytes: u64, sink: S) -> Self {
        let name = walk::folder_name(&folder);
        Self { name, folder, max_bytes, sink, known: HashMap::new(), made: HashMap::new(), told: HashSet::new() }
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
        let done: Vec<Dealt> = done.filter_map(async |dealt| dealt).collect().await;
        for Dealt { file, made } in done {
            self.known.insert(file.path, file.stamp);
            match made {
                Some(made) => self.made.insert(file.uri, made),
                None => self.made.remove(&file.uri),
            };
        }
        self.tell_passed_over(&found.skipped);
        self.delete_missing(&found.files, &found.skipped).await?;
        self.sink.tell(WatchEvent::Settled);
        Ok(())
    }

    /// `None` if it has not been dealt with as it is.
    async fn put(&self, file: FoundFile) -> Option<Dealt> {
        // Gone again, or not to be read yet: the next look finds out.
        let content = Bytes::from(tokio::fs::read(&file.path).await.ok()?);
        let metadata = Map::from_iter([(WATCHED.to_owned(), Value::from(self.name.as_str()))]);
        let made = match self.sink.put(&file.uri, content, metadata).await {
            Ok(made) => {
                self.sink.tell(WatchEvent::Put(&file.uri));
                made
            }
            Err(error) => {
                self.sink.tell(WatchEvent::Failed(&file.uri, &error));
                if matches!(error, WatchError::Later(_)) {
                    return None;
                }
                None
            }
        };
        Some(Dealt { file, made })
    }

    async fn delete_missing(&self, files: &[FoundFile], skipped: &[Skipped]) -> Result<(), WatchError> {
        let there: HashSet<&str> = files.iter().map(|file| file.uri.as_str()).collect();
        let unreadable: Vec<String> = self.passed_over(skipped).map(|(uri, _)| uri).collect();
        for (id, uri) in self.sink.watched(&self.name).await? {
            let hidden = unreadable
                .iter()
                .any(|path| uri.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')));
            if hidden || self_and_above(&uri).any(|file| there.contains(file) && self.may_be_of(file, &id, &uri)) {
                continue;
            }
            match self.sink.delete(&id).await {
                Ok(()) => self.sink.tell(WatchEvent::Gone(&uri)),
                Err(error) => self.sink.tell(WatchEvent::Failed(&uri, &error)),
            }
        }
        Ok(())
    }

    /// What is there and cannot be read just now, or is too large: not gone.
    fn passed_over<'s>(&self, skipped: &'s [Skipped]) -> impl Iterator<Item = (String, &'s Skip)> {
        skipped.iter().filter_map(|Skipped { path, why }| {
            let counts = matches!(why, Skip::Unreadable(_) | Skip::TooLarge { .. });
            let below = path.strip_prefix(&self.folder).ok().filter(|_| counts)?;
            Some((super::identity::file_uri(&format!("{}/{}", self.name, below.to_string_lossy())), why))
        })
    }

    /// Tells of files that are passed over, once for each reason.
    fn tell_passed_over(&mut self, skipped: &[Skipped]) {
        let now: HashSet<(String, String)> =
            self.passed_over(skipped).map(|(uri, why)| (uri, why.to_string())).collect();
        for (uri, why) in now.difference(&self.told) {
            self.sink.tell(WatchEvent::Failed(uri, &WatchError::Refused(why.clone())));
        }
        self.told = now;
    }

    /// Whether a document is what came of a file that is there: one that was refused keeps what came of it before.
    fn may_be_of(&self, file: &str, id: &str, uri: &str) -> bool {
        // A part that was refused, or is damaged, stands there by its URI: that goes for all that is below it.
        let refused = |made: &HashSet<String>| self_and_above(uri).any(|part| made.contains(part));
        self.made.get(file).is_none_or(|made| made.contains(id) || refused(made))
    }
}

/// A file that has been dealt with, and what came of it.
struct Dealt {
    file: FoundFile,
    made: Made,
}

/// A URI and all that it is below of: a file of an archive is below the archive.
fn self_and_above(uri: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(uri), |path| path.rsplit_once('/').map(|(above, _)| above))
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

    async fn put(&self, uri: &str, content: Bytes, metadata: Map<String, Value>) -> Result<Made, WatchError> {
        let mut files = Files::of(&self.ingest, &self.collection, uri, content, metadata).await?;
        while let Some(new) = files.next(|event| self.tell(event)).await? {
            files.came(self.ingest.accept(new, None, false).await.map(|taken| taken.document_id), |e| self.tell(e))?;
        }
        Ok(files.made())
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

/// A watched file as documents: itself, or what an archive holds.
pub struct Files {
    uri: String,
    expanded: Expanded,
    /// The one that is being dealt with.
    at: String,
    made: HashSet<String>,
}

impl Files {
    /// # Errors
    /// It is too large, or cannot be unpacked now.
    pub async fn of(
        ingest: &Ingest,
        collection: &str,
        uri: &str,
        content: Bytes,
        metadata: Map<String, Value>,
    ) -> Result<Self, WatchError> {
        let new = NewDocument {
            collection: collection.to_owned(),
            uri: Some(uri.to_owned()),
            content,
            metadata,
            ..NewDocument::default()
        };
        let expanded = ingest.expand(new).await.map_err(sorted)?;
        Ok(Self { uri: uri.to_owned(), expanded, at: uri.to_owned(), made: HashSet::new() })
    }

    /// The next; one of an archive that cannot be read is told and passed over.
    ///
    /// # Errors
    /// The archive itself cannot be read.
    pub async fn next(&mut self, tell: impl Fn(WatchEvent<'_>)) -> Result<Option<NewDocument>, WatchError> {
        while let Some((uri, next)) = self.expanded.next().await {
            self.at = uri;
            match next {
                Ok(new) => {
                    // One that is damaged keeps what came of it.
                    if is_damaged_archive(&new.content) {
                        self.made.insert(self.at.clone());
                    }
                    return Ok(Some(new));
                }
                Err(error) => self.came(Err(error), &tell)?,
            }
        }
        Ok(None)
    }

    /// What came of the last one.
    ///
    /// # Errors
    /// It may do later, or it was no archive's but the file itself that was refused.
    pub fn came(
        &mut self,
        id: Result<String, KnowledgeError>,
        tell: impl Fn(WatchEvent<'_>),
    ) -> Result<(), WatchError> {
        let error = match id {
            Ok(id) => {
                self.made.insert(id);
                return Ok(());
            }
            Err(error) => sorted(error),
        };
        if self.at == self.uri || matches!(error, WatchError::Later(_)) {
            return Err(error);
        }
        tell(WatchEvent::Failed(&self.at, &error));
        self.made.insert(self.at.clone());
        Ok(())
    }

    /// What came of all of them.
    pub fn made(self) -> Made {
        Some(self.made)
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
