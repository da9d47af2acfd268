-- What stands for the oldest messages of a conversation, up to this one, when they no longer fit a model. The messages
-- themselves stay as they are.
CREATE TABLE summaries (
    message_id TEXT PRIMARY KEY REFERENCES messages (id),
    text       TEXT NOT NULL,
    created_ms BIGINT NOT NULL
);
