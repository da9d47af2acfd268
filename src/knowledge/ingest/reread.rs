//! Versions cut and embedded again from their stored text: one document within the build that answers, or each version
//! into a build aside.

use super::super::chunker::ChunkError;
use super::super::error::KnowledgeError;
use super::super::extract::Kind;
use super::super::keyword::Keywords;
use super::super::{Embedder, Priority, base};
use super::attempt::Attempt;
use super::build::{Read, Started};
use super::slice::{self, Piece, Slice, Subject, Target};
use super::{Ingest, IngestOutcome, Task};
use crate::storage::chunks::NewChunk;
use crate::storage::documents::{self, Description, DocumentKey, DocumentStatus, LiveVersion};
use crate::storage::generations::Build;
use crate::storage::rebuilt::{self, Behind, FinishedRebuild};
use bytes::Bytes;
use serde_json::{Map, Value};
use std::sync::Arc;

impl Ingest {
    /// Builds a document again from its stored text, with the chunk sizes and the model of now, and puts the new
    /// version into the place of the old one, which answers until then. Nothing that was embedded is taken over.
    ///
    /// # Errors
    /// [`KnowledgeError::NoDocument`], [`KnowledgeError::NotIndexed`]; as [`Ingest::document`].
    pub async fn rebuild_document(&self, key: &DocumentKey) -> Result<IngestOutcome, KnowledgeError> {
        let base = &self.inner.base;
        let _writing = self.inner.gates.write(&key.collection).await;
        let collection = self.usable(&key.collection).await?;
        let _inside = self.inner.turnstile.enter(key).await;
        let found = documents::find(&base.db, key).await?;
        let found = found.ok_or_else(|| KnowledgeError::NoDocument(key.id.clone()))?;
        let (Some(live), Some(content)) = (found.live, documents::content(&base.db, key).await?) else {
            return Err(KnowledgeError::NotIndexed(key.id.clone()));
        };
        let LiveVersion { hash, bytes, mime, notes, .. } = live;
        let pages = documents::pages(&base.db, key).await?;
        let about = found.description;
        let version = documents::begin(&base.db, key.clone(), about.clone(), DocumentStatus::Chunking, None).await?;
        let attempt = Attempt::anew(&self.inner, key.clone(), version);
        let task = Task {
            key: key.clone(),
            title: Some(about.title.clone()),
            uri: about.uri.clone(),
            metadata: about.metadata.clone(),
            scope: base::read_scope(&about.scope)?,
            expires_at: about.expires_at,
            content: Bytes::new(),
            mime: Some(mime),
            hash,
            priority: Priority::Bulk,
            job: None,
        };
        let started = async {
            let target = Target { anew: true, ..self.target(&collection, Priority::Bulk)? };
            let keywords = base.keywords(&collection.keyword_language)?;
            let (content, pieces) = self.cut_again(&target.embedder, content, &pages, &about).await?;
            let chunks = pieces.len() as u64;
            let mut slices: Vec<Slice> = slice::cut(pieces).collect();
            let first = self.embed(&target, &content, &keywords, slices.remove(0)).await?;
            let read = Read {
                content,
                title: Some(about.title.clone()),
                format: "",
                metadata: Map::new(),
                notes,
                bytes,
                pieces: Vec::new(),
                pages,
                language: None,
            };
            Ok::<_, KnowledgeError>(Started { target, rebuilt: true, read, keywords, first, rest: slices, chunks })
        };
        match started.await {
            Ok(started) => self.complete(task, attempt, started, true).await,
            Err(error) => Err(attempt.failed(error).await),
        }
    }

    /// Puts one version into a build aside, in slices.
    ///
    /// # Errors
    /// [`KnowledgeError::Overtaken`] where the version has changed meanwhile; what the model, the store and the
    /// database say.
    pub(super) async fn rebuild_version(
        &self,
        build: &Build,
        target: &Target,
        keywords: &Keywords,
        behind: Behind,
    ) -> Result<(), KnowledgeError> {
        let base = &self.inner.base;
        let (key, about) = (&behind.key, &behind.description);
        rebuilt::clear(&base.db, build, key.clone(), behind.version).await?;
        let (content, pieces) = self.cut_again(&target.embedder, behind.content, &behind.pages, about).await?;
        let chunks = pieces.len() as u64;
        let slices: Vec<Slice> = slice::cut(pieces).collect();
        let last = slices.len() - 1;
        for (n, slice) in slices.into_iter().enumerate() {
            let ready = self.embed(target, &content, keywords, slice).await?;
            let of = Subject { document: &key.id, version: behind.version, about, content: &content };
            let (points, rows) = ready.made(target, of)?;
            base.builds.parts().upsert(&target.part(), points).await?;
            if n < last {
                let version = (key.clone(), behind.version, behind.seq);
                rebuilt::insert(&base.db, build, version, rows).await?;
            } else {
                self.end_version(build, keywords, &behind.key, (behind.version, behind.seq, chunks), rows).await?;
            }
        }
        Ok(())
    }

    async fn end_version(
        &self,
        build: &Build,
        keywords: &Keywords,
        key: &DocumentKey,
        (version, seq, chunks): (i64, i64, u64),
        last: Vec<NewChunk>,
    ) -> Result<(), KnowledgeError> {
        let keyword_language = keywords.language().name().to_owned();
        let done = FinishedRebuild { key: key.clone(), version, seq, chunks, keyword_language, last };
        Ok(rebuilt::finish(&self.inner.base.db, build, done).await?)
    }

    async fn cut_again(
        &self,
        embedder: &Arc<dyn Embedder>,
        content: String,
        pages: &[u64],
        about: &Description,
    ) -> Result<(Arc<str>, Vec<Piece>), KnowledgeError> {
        let chunker = self.chunker(embedder)?;
        let kind = kind_of(&about.metadata);
        let pages: Vec<usize> = pages.iter().filter_map(|page| usize::try_from(*page).ok()).collect();
        // A name that only stands for a missing title was not embedded before either.
        let title = Some(about.title.clone()).filter(|title| title != base::last_part(&about.uri));
        let cut = move || {
            let chunks = chunker.chunk_pages(&content, kind, title.as_deref(), &pages)?;
            let pieces: Vec<Piece> = chunks.iter().map(|chunk| Piece::of(chunk, &pages)).collect();
            drop(chunks);
            Ok::<_, ChunkError>((Arc::from(content), pieces))
        };
        Ok(self.inner.base.off_runtime(Priority::Bulk, cut).await??)
    }
}

/// What the stored text was read from; Markdown where nothing says so.
fn kind_of(metadata: &Map<String, Value>) -> Kind {
    metadata.get("format").and_then(Value::as_str).and_then(Kind::named).unwrap_or(Kind::Markdown)
}
