-- The frames of turns that have ended, as clients get them: one row each, all frames one after the other.
CREATE TABLE turn_log (
    turn_id  TEXT PRIMARY KEY REFERENCES turns (id),
    last_seq BIGINT NOT NULL,
    -- Milliseconds from the turn's beginning to its last frame.
    at_ms    BIGINT NOT NULL,
    frames   BLOB NOT NULL
);

-- What running turns have appended, a row per turn and commit, in the order of commits: an insert touches only the
-- last page, whichever turn it is for. Rows of turns that have ended are of no use any more.
CREATE TABLE turn_log_tail (
    id        INTEGER PRIMARY KEY,
    turn_id   TEXT NOT NULL,
    first_seq BIGINT NOT NULL,
    last_seq  BIGINT NOT NULL,
    at_ms     BIGINT NOT NULL,
    frames    BLOB NOT NULL
);

-- A key that a client sent with a turn, so that the same request, sent again, is the same turn.
CREATE TABLE idempotency_keys (
    -- Id of the API key; empty where there is none.
    owner      TEXT NOT NULL,
    key        TEXT NOT NULL,
    body_hash  TEXT NOT NULL,
    turn_id    TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    PRIMARY KEY (owner, key)
);
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_ms);
