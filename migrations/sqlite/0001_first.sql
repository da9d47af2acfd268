-- The first schema. Times are milliseconds since 1970, UTC; ids are UUIDs as text, except where a
-- client may choose them. Statements elsewhere use only what SQLite and PostgreSQL both take; what
-- differs between the two (BLOB here, BYTEA there) stays in these files, one folder a database.

-- One row: numbers that only grow. Each commit that changes what a search can find takes the next
-- one, so that "everything up to n" is a statement about order of commits.
CREATE TABLE sequence (
    name  TEXT PRIMARY KEY,
    value BIGINT NOT NULL
);
INSERT INTO sequence (name, value) VALUES ('knowledge', 0);

-- A conversation and what was said in it.
CREATE TABLE conversations (
    id         TEXT PRIMARY KEY,
    title      TEXT NOT NULL,
    -- Id of the API key that began it; NULL where no key is needed.
    owner      TEXT,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL
);
CREATE INDEX conversations_by_update ON conversations (updated_ms, id);

-- A turn is the user's message and everything until its answer is complete. A row that still says
-- `running` when the process starts belongs to a crash.
CREATE TABLE turns (
    id                   TEXT PRIMARY KEY,
    conversation_id      TEXT NOT NULL REFERENCES conversations (id),
    owner                TEXT,
    user_message_id      TEXT NOT NULL,
    assistant_message_id TEXT NOT NULL,
    tool_mode            TEXT NOT NULL,
    status               TEXT NOT NULL,
    finish               TEXT,
    fallback_reason      TEXT,
    -- JSON objects as the turn's end reported them.
    telemetry            TEXT,
    error                TEXT,
    created_ms           BIGINT NOT NULL,
    ended_ms             BIGINT
);
CREATE INDEX turns_by_conversation ON turns (conversation_id, created_ms);
CREATE INDEX turns_by_status ON turns (status);

CREATE TABLE messages (
    id                TEXT PRIMARY KEY,
    conversation_id   TEXT NOT NULL REFERENCES conversations (id),
    turn_id           TEXT NOT NULL REFERENCES turns (id),
    -- Order within the conversation. It has gaps where messages were replaced.
    position          BIGINT NOT NULL,
    role              TEXT NOT NULL,
    text              TEXT NOT NULL,
    status            TEXT NOT NULL,
    finish            TEXT,
    provider          TEXT,
    model             TEXT,
    input_tokens      BIGINT NOT NULL DEFAULT 0,
    output_tokens     BIGINT NOT NULL DEFAULT 0,
    cache_read_tokens BIGINT NOT NULL DEFAULT 0,
    created_ms        BIGINT NOT NULL,
    UNIQUE (conversation_id, position)
);
CREATE INDEX messages_by_turn ON messages (turn_id);

-- Calls of an answer, in the order they were sealed. Call ids come from providers and are not
-- unique over rounds, so the position is the key.
CREATE TABLE tool_calls (
    message_id  TEXT NOT NULL REFERENCES messages (id),
    position    BIGINT NOT NULL,
    call_id     TEXT NOT NULL,
    name        TEXT NOT NULL,
    arguments   TEXT NOT NULL,
    round       BIGINT NOT NULL,
    round_index BIGINT NOT NULL,
    span_start  BIGINT,
    span_end    BIGINT,
    outcome     TEXT NOT NULL,
    reason      TEXT,
    output      TEXT NOT NULL,
    duration_ms BIGINT NOT NULL DEFAULT 0,
    ingest_ms   BIGINT,
    truncated   BIGINT NOT NULL DEFAULT 0,
    -- JSON: what became of the result in the knowledge base.
    ingested    TEXT,
    PRIMARY KEY (message_id, position)
);

-- What `[n]` refers to. Rows outlive the documents they cite: an old answer keeps its sources.
CREATE TABLE sources (
    conversation_id TEXT NOT NULL REFERENCES conversations (id),
    n               BIGINT NOT NULL,
    chunk_id        TEXT NOT NULL,
    document_id     TEXT NOT NULL,
    title           TEXT NOT NULL,
    uri             TEXT NOT NULL,
    snippet         TEXT NOT NULL,
    start_byte      BIGINT NOT NULL,
    end_byte        BIGINT NOT NULL,
    page            BIGINT,
    PRIMARY KEY (conversation_id, n)
);

CREATE TABLE message_sources (
    message_id TEXT NOT NULL REFERENCES messages (id),
    n          BIGINT NOT NULL,
    score      DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (message_id, n)
);

-- A collection: one embedding model, one set of documents.
CREATE TABLE collections (
    name             TEXT PRIMARY KEY,
    embedding_model  TEXT NOT NULL,
    dimension        BIGINT NOT NULL,
    -- As asked for: a language code, `multilingual` or `auto`.
    language         TEXT NOT NULL,
    -- What new points and queries are written with now; empty until a first document decides, and
    -- follows the documents where `auto`.
    keyword_language TEXT NOT NULL,
    -- Documents there were when the language was last looked at.
    language_seen    BIGINT NOT NULL DEFAULT 0,
    -- Rows up to this sequence are known to have outlived a crash in the store.
    flushed_seq      BIGINT NOT NULL DEFAULT 0,
    -- 1 from the moment a delete was asked for until store and rows are gone.
    deleting         BIGINT NOT NULL DEFAULT 0,
    created_ms       BIGINT NOT NULL
);

-- A document is found through its live version only; `status` tells of the last attempt to build one.
CREATE TABLE documents (
    collection      TEXT NOT NULL REFERENCES collections (name),
    id              TEXT NOT NULL,
    title           TEXT NOT NULL,
    uri             TEXT NOT NULL,
    -- JSON object.
    metadata        TEXT NOT NULL,
    -- `collection`, or the id of the one conversation that finds it.
    scope           TEXT NOT NULL,
    expires_at      BIGINT,
    status          TEXT NOT NULL,
    error_code      TEXT,
    error           TEXT,
    -- NULL until a first version is complete.
    live_version    BIGINT,
    -- The version being built, if any: what a crash leaves to be cleaned.
    building        BIGINT,
    seq             BIGINT NOT NULL,
    created_ms      BIGINT NOT NULL,
    updated_ms      BIGINT NOT NULL,
    PRIMARY KEY (collection, id)
);
CREATE INDEX documents_by_scope ON documents (scope);
CREATE INDEX documents_by_expiry ON documents (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX documents_by_building ON documents (building) WHERE building IS NOT NULL;

CREATE TABLE versions (
    collection       TEXT NOT NULL,
    document_id      TEXT NOT NULL,
    version          BIGINT NOT NULL,
    -- BLAKE3 of the bytes that were sent, in hex.
    hash             TEXT NOT NULL,
    bytes            BIGINT NOT NULL,
    mime             TEXT NOT NULL,
    -- The extracted text, in which chunks' offsets count.
    content          TEXT NOT NULL,
    -- JSON array: what the extractor has to say (a guessed charset, removed characters).
    notes            TEXT NOT NULL,
    chunks           BIGINT NOT NULL,
    -- What the sparse vectors of its points were written with.
    keyword_language TEXT NOT NULL,
    seq              BIGINT NOT NULL,
    created_ms       BIGINT NOT NULL,
    PRIMARY KEY (collection, document_id, version)
);

CREATE TABLE chunks (
    point_id     TEXT PRIMARY KEY,
    chunk_id     TEXT NOT NULL,
    collection   TEXT NOT NULL,
    document_id  TEXT NOT NULL,
    version      BIGINT NOT NULL,
    ordinal      BIGINT NOT NULL,
    -- The exact piece of the content; what is shown is `shown_prefix` (a cut table's header) and it.
    text         TEXT NOT NULL,
    shown_prefix TEXT NOT NULL,
    -- JSON array of headings, outermost first.
    heading_path TEXT NOT NULL,
    start_byte   BIGINT NOT NULL,
    end_byte     BIGINT NOT NULL,
    page         BIGINT,
    -- In source code, from 1.
    first_line   BIGINT,
    last_line    BIGINT,
    -- What was embedded is `embed_prefix` (title, headings) and the text; its BLAKE3, so that the same
    -- text is not embedded twice in a collection.
    embed_prefix TEXT NOT NULL,
    embed_hash   BLOB NOT NULL,
    -- Numbers as little-endian f32.
    embedding    BLOB NOT NULL,
    seq          BIGINT NOT NULL
);
CREATE UNIQUE INDEX chunks_by_document ON chunks (collection, document_id, version, ordinal);
CREATE INDEX chunks_by_seq ON chunks (collection, seq);
CREATE INDEX chunks_by_hash ON chunks (collection, embed_hash);

-- Points that must not be in the store any more. A row goes once the store has forgotten its point
-- and that is known to outlive a crash. Version numbers of a document are not used again while
-- rows of it are left, so that a late delete cannot hit a new point.
CREATE TABLE tombstones (
    point_id    TEXT PRIMARY KEY,
    collection  TEXT NOT NULL,
    document_id TEXT NOT NULL,
    version     BIGINT NOT NULL,
    seq         BIGINT NOT NULL
);
CREATE INDEX tombstones_by_collection ON tombstones (collection, document_id);

-- Documents that were accepted and wait for their turn, with the bytes that were sent: an accepted
-- document is not lost by a crash.
CREATE TABLE uploads (
    job_id      TEXT PRIMARY KEY,
    collection  TEXT NOT NULL REFERENCES collections (name),
    document_id TEXT NOT NULL,
    -- JSON: everything but the bytes.
    request     TEXT NOT NULL,
    bytes       BLOB NOT NULL,
    created_ms  BIGINT NOT NULL
);
