-- Versions that are kept, and collections that are built anew beside the one that answers.

-- Versions of a document that are kept, the live one included.
ALTER TABLE collections ADD COLUMN keep_versions BIGINT NOT NULL DEFAULT 1;
-- Which build of the collection answers: its chunks have this number, its points are in the store's collection of
-- that number. A re-index makes the next one aside and then changes this one number.
ALTER TABLE collections ADD COLUMN generation BIGINT NOT NULL DEFAULT 0;

-- When another version took its place; NULL: it is the live one. Older rows that are still here were live.
ALTER TABLE versions ADD COLUMN superseded_ms BIGINT;
-- What counting and checking need, so that nobody reads past a long `content` for it.
CREATE INDEX versions_in_short ON versions (collection, document_id, version, superseded_ms, created_ms, chunks,
    keyword_language, seq);

ALTER TABLE chunks ADD COLUMN generation BIGINT NOT NULL DEFAULT 0;
DROP INDEX chunks_by_document;
DROP INDEX chunks_by_seq;
DROP INDEX chunks_by_hash;
CREATE UNIQUE INDEX chunks_by_document ON chunks (collection, document_id, version, generation, ordinal);
CREATE INDEX chunks_by_seq ON chunks (collection, generation, seq);
CREATE INDEX chunks_by_hash ON chunks (collection, generation, embed_hash);

-- Builds of a collection that do not answer: one that is being made, one that is being taken away.
CREATE TABLE generations (
    collection      TEXT NOT NULL REFERENCES collections (name),
    generation      BIGINT NOT NULL,
    embedding_model TEXT NOT NULL,
    dimension       BIGINT NOT NULL,
    -- `building`, or `leaving`: its rows and its points go.
    state           TEXT NOT NULL,
    -- Why the last try to build it stopped.
    error           TEXT,
    created_ms      BIGINT NOT NULL,
    PRIMARY KEY (collection, generation)
);

-- Versions that a build aside has in full.
CREATE TABLE rebuilt (
    collection       TEXT NOT NULL,
    generation       BIGINT NOT NULL,
    document_id      TEXT NOT NULL,
    version          BIGINT NOT NULL,
    chunks           BIGINT NOT NULL,
    keyword_language TEXT NOT NULL,
    -- `versions.seq` as it was built: when that has grown, it is built again.
    seq              BIGINT NOT NULL,
    PRIMARY KEY (collection, generation, document_id, version)
);

-- Where a document was cited.
CREATE INDEX sources_by_document ON sources (document_id);
