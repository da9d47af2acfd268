-- The frames of each turn as clients get them, several to a row: what had been appended when a commit began.
CREATE TABLE turn_log (
    turn_id   TEXT NOT NULL REFERENCES turns (id),
    first_seq BIGINT NOT NULL,
    last_seq  BIGINT NOT NULL,
    -- Milliseconds from the turn's beginning to the row's last frame.
    at_ms     BIGINT NOT NULL,
    frames    BLOB NOT NULL,
    PRIMARY KEY (turn_id, first_seq)
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
