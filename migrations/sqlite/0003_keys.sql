-- Keys that the operator gave out. What is stored cannot be turned back into a key.
CREATE TABLE api_keys (
    id          TEXT PRIMARY KEY,
    name        TEXT NOT NULL,
    -- SHA-256 of the key, in hexadecimal.
    hash        TEXT NOT NULL UNIQUE,
    -- JSON lists of words; collections: NULL for all.
    scopes      TEXT NOT NULL,
    collections TEXT,
    created_ms  BIGINT NOT NULL,
    expires_ms  BIGINT
);
