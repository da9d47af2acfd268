//! Building a version: read and chunk, then slice by slice embed, put into the store, store in SQL; the
//! last slice goes into SQL with the commit that makes the version live.

use super::super::base;
use super::super::chunker::{ChunkError, ChunkOptions, Chunker};
use super::super::error::KnowledgeError;
use super::super::extract::{Extracted, Origin, RawDocument};
use super::super::keyword::{self, Keywords};
use super::super::watch::WATCHED;
use super::super::{Embedder, Priority};
use super::attempt::Attempt;
use super::slice::{self, Embedded, Piece, Slice, Subject, Target};
use super::{Ingest, IngestOutcome, Task};
use crate::storage::chunks::{self, FinishedVersion, NewChunk};
use crate::storage::collections::{self, Collection};
use crate::storage::documents::{self, Description, DocumentKey, DocumentStatus};
use crate::storage::jobs::{self, JobStatus};
use crate::storage::{StorageError, tombstones};
use bytes::Bytes;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::Arc;

/// A document that has been read and cut.
pub(super) struct Read {
    pub content: Arc<str>,
    pub title: Option<String>,
    pub format: &'static str,
    pub metadata: Map<String, Value>,
    pub notes: Vec<String>,
    /// Of what was sent.
    pub bytes: u64,
    pub pieces: Vec<Piece>,
    /// Where each page begins.
    pub pages: Vec<u64>,
    /// Wanted where the collection has not decided yet.
    pub language: Option<&'static str>,
}

/// What is known once the first slice has been embedded.
pub(super) struct Started {
    pub target: Target,
    /// The text is that of the version before.
    pub rebuilt: bool,
    pub read: Read,
    pub keywords: Keywords,
    pub first: Embedded,
    pub rest: Vec<Slice>,
    pub chunks: u64,
}

impl Ingest {
    pub(super) async fn run(&self, mut task: Task) -> Result<IngestOutcome, KnowledgeError> {
        let base = &self.inner.base;
        let _writing = self.inner.gates.write(&task.key.collection).await;
        let collection = self.usable(&task.key.collection).await?;
        let _inside = self.inner.turnstile.enter(&task.key).await;
        let existing = documents::find(&base.db, &task.key).await?;
        if let Some(outcome) = self.unchanged(&task, existing.as_ref()).await? {
            return Ok(outcome);
        }
        let about = Description {
            title: task.title.clone().unwrap_or_else(|| task.uri.clone()),
            uri: task.uri.clone(),
            metadata: task.metadata.clone(),
            scope: task.scope.key(),
            expires_at: task.expires_at,
        };
        // The row is written while the text is read and its beginning embedded: neither needs the other.
        let content = std::mem::take(&mut task.content);
        let begun = async {
            let version =
                documents::begin(&base.db, task.key.clone(), about, DocumentStatus::Extracting, task.job).await?;
            // From here on somebody knows of it, also where this future is dropped while the text is read.
            Ok::<_, KnowledgeError>(Attempt::new(&self.inner, task.key.clone(), version))
        };
        let (attempt, started) = tokio::join!(begun, self.start(&task, content, &collection));
        match (attempt?, started) {
            (attempt, Ok(started)) => self.complete(task, attempt, started, existing.is_some()).await,
            (attempt, Err(error)) => Err(attempt.failed(error).await),
        }
    }

    /// Reads, cuts and embeds the first slice.
    async fn start(&self, task: &Task, content: Bytes, collection: &Collection) -> Result<Started, KnowledgeError> {
        let base = &self.inner.base;
        let target = self.target(collection, task.priority)?;
        let mut read = self.read(task, content, collection, &target).await?;
        let keywords = match read.language {
            None => base.keywords(&collection.keyword_language)?,
            Some(found) => {
                let decided = collections::decide_language(&base.db, collection.name.clone(), found.to_owned()).await?;
                base.keywords(&decided)?
            }
        };
        let pieces = std::mem::take(&mut read.pieces);
        let chunks = pieces.len() as u64;
        self.inner.running.reached(task.job, JobStatus::Embedding, 0, chunks);
        let mut slices = slice::cut(pieces).collect::<Vec<_>>();
        let first = self.embed(&target, &read.content, &keywords, slices.remove(0)).await?;
        Ok(Started { target, rebuilt: false, read, keywords, first, rest: slices, chunks })
    }

    async fn read(
        &self,
        task: &Task,
        content: Bytes,
        collection: &Collection,
        target: &Target,
    ) -> Result<Read, KnowledgeError> {
        let bytes = content.len() as u64;
        let extracted = self.extract(task, content).await?;
        let (chunker, title) = (self.chunker(&target.embedder)?, task.title.clone());
        let (inner, job) = (Arc::clone(&self.inner), task.job);
        let undecided = collection.keyword_language.is_empty();
        let read = move || {
            inner.running.reached(job, JobStatus::Chunking, 0, 0);
            let title = title.or_else(|| extracted.title.clone());
            let chunks = chunker.chunk_pages(&extracted.text, extracted.kind, title.as_deref(), &extracted.pages)?;
            let language = undecided.then(|| {
                let texts: Vec<&str> = chunks.iter().map(|chunk| chunk.text).collect();
                keyword::detect(&texts).name()
            });
            let pieces = chunks.iter().map(|chunk| Piece::of(chunk, &extracted.pages)).collect();
            drop(chunks);
            Ok(Read {
                metadata: extracted.metadata(),
                format: extracted.kind.name(),
                content: Arc::from(extracted.text),
                title,
                pages: extracted.pages.iter().map(|page| *page as u64).collect(),
                notes: extracted.notes,
                bytes,
                pieces,
                language,
            })
        };
        self.inner.base.off_runtime(task.priority, read).await?
    }

    /// The text of what was sent, read here or by a process of its own.
    async fn extract(&self, task: &Task, content: Bytes) -> Result<Extracted, KnowledgeError> {
        let reader = self.inner.reader.clone();
        // What a server says of a page outweighs how its address ends.
        let is_page = task.mime.is_some() && (task.uri.starts_with("https://") || task.uri.starts_with("http://"));
        let origin = if is_page { Origin::Page } else { Origin::Document };
        let (uri, mime, bytes) = (task.uri.clone(), task.mime.clone(), content.clone());
        let here = move || {
            let raw = RawDocument { bytes: &bytes, name: &uri, mime: mime.as_deref() };
            reader.here(&raw, origin)
        };
        if let Some(read) = self.inner.base.off_runtime(task.priority, here).await? {
            return Ok(read?);
        }
        Ok(self.inner.reader.apart(content, &task.uri, task.mime.as_deref(), origin).await?)
    }

    /// The build of the collection that answers.
    pub(super) fn target(&self, collection: &Collection, priority: Priority) -> Result<Target, KnowledgeError> {
        Ok(Target {
            collection: collection.name.clone(),
            generation: collection.generation,
            embedder: self.inner.base.embedder_of(collection)?,
            priority,
            anew: false,
        })
    }

    /// One for all documents of a model: it remembers what it has measured.
    pub(super) fn chunker(&self, embedder: &Arc<dyn Embedder>) -> Result<Arc<Chunker>, KnowledgeError> {
        let model = embedder.model();
        let known = |chunkers: &HashMap<String, Arc<Chunker>>| chunkers.get(&model.name).cloned();
        if let Some(chunker) = known(&self.inner.chunkers()) {
            return Ok(chunker);
        }
        let options = self.inner.options;
        let tokenizer = embedder.tokenizer()?;
        let prefix = tokenizer.encode_fast(model.passage_prefix.as_str(), false);
        let prefix = prefix.map_err(|error| KnowledgeError::Chunk(ChunkError(error.to_string())))?.len();
        let options = ChunkOptions {
            max_tokens: options.chunk_tokens,
            overlap: options.chunk_tokens * options.chunk_overlap_percent / 100,
            window: model.window.saturating_sub(prefix),
        };
        let chunker = Arc::new(Chunker::new(tokenizer, options));
        // Somebody may have been faster; theirs has measured something already.
        Ok(Arc::clone(self.inner.chunkers().entry(model.name.clone()).or_insert(chunker)))
    }

    /// Everything after the first embedding. Whatever goes wrong from here on is noted in the row.
    pub(super) async fn complete(
        &self,
        task: Task,
        mut attempt: Attempt,
        started: Started,
        replaces: bool,
    ) -> Result<IngestOutcome, KnowledgeError> {
        match self.fill(&task, &mut attempt, started).await {
            Err(error) => Err(attempt.failed(error).await),
            Ok(done) => {
                let (chunks, notes) = (done.chunks, done.notes.clone());
                let (document, version) = (done.key.clone(), done.version);
                let watermark = match chunks::finish(&self.inner.base.db, done).await {
                    Ok(seq) => seq,
                    Err(error) => return Err(attempt.failed(error.into()).await),
                };
                attempt.succeeded();
                if replaces {
                    self.forget(&document).await;
                    self.set_aside(&document).await;
                }
                self.inner.stirred.notify_one();
                Ok(IngestOutcome {
                    document_id: document.id,
                    version,
                    chunks,
                    status: DocumentStatus::Indexed,
                    unchanged: false,
                    watermark,
                    notes,
                })
            }
        }
    }

    /// Puts every slice into the store, and all but the last into SQL, embedding the next meanwhile.
    async fn fill(
        &self,
        task: &Task,
        attempt: &mut Attempt,
        started: Started,
    ) -> Result<FinishedVersion, KnowledgeError> {
        let Started { target, rebuilt, read, keywords, first, rest, chunks } = started;
        let (db, content) = (&self.inner.base.db, &read.content);
        let about = description(task, &read);
        if !rest.is_empty() {
            let (status, noted) = tokio::join!(
                documents::set_status(db, task.key.clone(), DocumentStatus::Embedding),
                self.note_progress(task, 0, chunks)
            );
            status.and(noted)?;
        }
        let mut ready = first;
        let mut done = 0;
        for coming in rest {
            let store = async {
                let rows = self.put(&target, attempt, &about, content, ready).await?;
                done += rows.len() as u64;
                // Both in one commit, as they come one after the other.
                let (stored, noted) = tokio::join!(
                    chunks::insert(db, attempt.key.clone(), attempt.version, target.generation, rows),
                    self.note_progress(task, done, chunks)
                );
                stored.and(noted)?;
                attempt.points.clear();
                Ok::<_, KnowledgeError>(())
            };
            let (stored, embedded) = tokio::join!(store, self.embed(&target, content, &keywords, coming));
            stored?;
            ready = embedded?;
        }
        let last = self.put(&target, attempt, &about, content, ready).await?;
        Ok(FinishedVersion {
            key: task.key.clone(),
            version: attempt.version,
            generation: target.generation,
            rebuilt,
            description: about,
            hash: task.hash.clone(),
            bytes: read.bytes,
            mime: task.mime.clone().unwrap_or_else(|| read.format.to_owned()),
            content: read.content,
            notes: read.notes,
            pages: read.pages,
            chunks,
            keyword_language: keywords.language().name().to_owned(),
            last,
            job: task.job,
        })
    }

    /// How many of its chunks are stored, for whoever looks at the job now or after a restart.
    async fn note_progress(&self, task: &Task, done: u64, total: u64) -> Result<(), StorageError> {
        let Some(job) = task.job else { return Ok(()) };
        self.inner.running.reached(task.job, JobStatus::Embedding, done, total);
        jobs::progress(&self.inner.base.db, job, JobStatus::Embedding, done, total).await
    }

    /// Puts a slice's points into the store. What is left to do is to store the rows.
    async fn put(
        &self,
        target: &Target,
        attempt: &mut Attempt,
        about: &Description,
        content: &str,
        ready: Embedded,
    ) -> Result<Vec<NewChunk>, KnowledgeError> {
        let document = attempt.key.id.clone();
        let of = Subject { document: &document, version: attempt.version, about, content };
        let (points, rows) = ready.made(target, of)?;
        attempt.points.extend(points.iter().map(|point| point.id));
        self.inner.base.builds.parts().upsert(&target.part(), points).await?;
        Ok(rows)
    }

    /// Deletes the points that a document's tombstones name. If the store cannot, upkeep does it later:
    /// no search shows them any more.
    pub(super) async fn forget(&self, key: &DocumentKey) {
        let base = &self.inner.base;
        let deleted = async {
            let dead = tombstones::of_document(&base.db, key).await?;
            if !dead.is_empty() {
                base.store.delete(&key.collection, &dead).await?;
            }
            Ok::<_, KnowledgeError>(())
        };
        if let Err(error) = deleted.await {
            tracing::warn!(document.id = %key.id, error = %error, "old points are deleted later");
        }
    }

    /// The collection, if documents may go into it. One without any chunk follows the model that runs.
    pub(super) async fn usable(&self, name: &str) -> Result<Collection, KnowledgeError> {
        let base = &self.inner.base;
        match base.collection(name).await {
            Err(KnowledgeError::Model { .. }) if self.follow_model(name).await? => base.collection(name).await,
            other => other,
        }
    }
}

/// What the document will be shown as: what the client said, else what the document says of itself.
fn description(task: &Task, read: &Read) -> Description {
    let mut metadata = read.metadata.clone();
    // Which folder a document follows is not for the document to say.
    metadata.remove(WATCHED);
    metadata.extend(task.metadata.clone());
    let named = read.title.clone().filter(|title| !title.trim().is_empty());
    Description {
        title: named.unwrap_or_else(|| base::last_part(&task.uri).to_owned()),
        uri: task.uri.clone(),
        metadata,
        scope: task.scope.key(),
        expires_at: task.expires_at,
    }
}
