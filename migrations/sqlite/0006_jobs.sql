-- Documents on their way in: one row for each that was accepted, until some days after its end, so that who sent it
-- can see what became of it.
CREATE TABLE jobs (
    -- UUIDv7: in the order of arrival.
    id            TEXT PRIMARY KEY,
    -- What is done: `ingest`.
    kind          TEXT NOT NULL,
    collection    TEXT NOT NULL,
    document_id   TEXT,
    -- Id of the API key that sent it; NULL where no key is needed.
    owner         TEXT,
    -- JSON: everything but the bytes.
    request       TEXT NOT NULL,
    status        TEXT NOT NULL,
    -- How far it came; the same word as the status until it fails.
    stage         TEXT NOT NULL,
    -- Chunks.
    done          BIGINT NOT NULL DEFAULT 0,
    total         BIGINT NOT NULL DEFAULT 0,
    -- How often it was begun.
    attempts      BIGINT NOT NULL DEFAULT 0,
    error_code    TEXT,
    error         TEXT,
    -- 1: a client waits for the end, so it goes before those that nobody waits for.
    waited        BIGINT NOT NULL DEFAULT 0,
    -- Set while somebody works on it, who moves it on; once it has passed, nobody does.
    lease_ms      BIGINT,
    -- Not to be begun again before.
    not_before_ms BIGINT NOT NULL DEFAULT 0,
    created_ms    BIGINT NOT NULL,
    updated_ms    BIGINT NOT NULL,
    ended_ms      BIGINT
);
CREATE INDEX jobs_waiting ON jobs (waited DESC, id) WHERE status = 'queued';
CREATE INDEX jobs_leased ON jobs (lease_ms) WHERE lease_ms IS NOT NULL;
CREATE INDEX jobs_by_document ON jobs (collection, document_id, id);
CREATE INDEX jobs_by_end ON jobs (ended_ms) WHERE ended_ms IS NOT NULL;

-- What was sent, until it has been ingested: an accepted document is not lost by a crash, and one that failed can
-- be tried again.
CREATE TABLE job_contents (
    job_id TEXT PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    bytes  BLOB NOT NULL
);

INSERT INTO jobs (id, kind, collection, document_id, request, status, stage, created_ms, updated_ms)
    SELECT job_id, 'ingest', collection, document_id, request, 'queued', 'queued', created_ms, created_ms FROM uploads;
INSERT INTO job_contents (job_id, bytes) SELECT job_id, bytes FROM uploads;
DROP TABLE uploads;
