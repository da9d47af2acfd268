//! What is said of each route: a sentence, its query, its body, its answer. Data.

use serde_json::{Value, json};

/// One route, for people.
#[derive(Clone, Copy, Default)]
pub(super) struct Text {
    pub summary: &'static str,
    /// Name, type, meaning.
    pub query: &'static [(&'static str, &'static str, &'static str)],
    /// Name of a schema below.
    pub body: &'static str,
    /// Status and media type.
    pub answer: (&'static str, &'static str),
}

const JSON: (&str, &str) = ("200", "application/json");
const STREAM: (&str, &str) = ("200", "text/event-stream");
const GONE: (&str, &str) = ("204", "");
const COLLECTION: &str = "/api/v1/collections/{collection}";
const DOCUMENTS: &str = "/api/v1/collections/{collection}/documents";
const DOCUMENT: &str = "/api/v1/collections/{collection}/documents/{document}";

type Row = (&'static str, &'static str, &'static str, Text);

const fn text(summary: &'static str, body: &'static str, answer: (&'static str, &'static str)) -> Text {
    Text { summary, query: &[], body, answer }
}

const fn with_query(
    summary: &'static str,
    query: &'static [(&'static str, &'static str, &'static str)],
    answer: (&'static str, &'static str),
) -> Text {
    Text { summary, query, body: "", answer }
}

const PAGE: &[(&str, &str, &str)] =
    &[("limit", "integer", "at most so many"), ("after", "string", "`next` of the page before")];

const JOBS: &[(&str, &str, &str)] = &[
    PAGE[0],
    PAGE[1],
    ("status", "string", "only jobs with this status"),
    ("collection", "string", "only jobs of this collection"),
];

/// Method, path, what follows the path, text.
const ROWS: &[Row] = &[
    ("GET", "/healthz", "", text("The process runs", "", JSON)),
    ("GET", "/readyz", "", text("Questions can be answered", "", JSON)),
    ("GET", "/metrics", "", text("Counters and times for Prometheus", "", ("200", "text/plain"))),
    ("POST", "/api/v1/chat", "", text("Ask; the answer streams as frames", "Chat", STREAM)),
    ("GET", "/api/v1/collections", "", text("Collections", "", JSON)),
    ("POST", "/api/v1/collections", "", text("Make a collection", "NewCollection", ("201", "application/json"))),
    ("GET", COLLECTION, "", text("One collection", "", JSON)),
    ("DELETE", COLLECTION, "", text("Delete a collection with its documents", "", GONE)),
    (
        "POST",
        COLLECTION,
        "/reindex",
        text("Build a collection anew beside itself and switch", "Reindex", ("202", "application/json")),
    ),
    ("POST", COLLECTION, "/search", text("Search", "Search", JSON)),
    ("GET", COLLECTION, "/map", text("Chunks as points on a plane, in clusters", "", JSON)),
    (
        "POST",
        DOCUMENTS,
        "",
        Text {
            summary: "Put documents in: JSON, or files as multipart/form-data",
            query: &[("wait", "boolean", "answer when they can be found")],
            body: "Documents",
            answer: ("202", "application/json"),
        },
    ),
    ("GET", DOCUMENTS, "", with_query("Documents by URI", PAGE, JSON)),
    ("GET", DOCUMENT, "", text("A document, its versions, where it was cited", "", JSON)),
    ("PATCH", DOCUMENT, "", text("Change title and metadata", "Description", JSON)),
    ("DELETE", DOCUMENT, "", text("Delete a document; counts before and after", "", JSON)),
    ("POST", DOCUMENT, "/keep", text("Keep a conversation's finding for everybody", "Keep", JSON)),
    ("POST", DOCUMENT, "/reindex", text("Build a document again from its stored text", "", JSON)),
    ("GET", DOCUMENT, "/chunks", text("Its chunks, with their offsets in the content", "", JSON)),
    (
        "GET",
        DOCUMENT,
        "/content",
        with_query(
            "The text in which offsets count",
            &[("version", "integer", "one that is kept; else the live one")],
            ("200", "text/plain"),
        ),
    ),
    ("GET", "/api/v1/jobs", "", with_query("Ingestion jobs, the newest first", JOBS, JSON)),
    ("GET", "/api/v1/jobs/{job}", "", text("One job", "", JSON)),
    ("GET", "/api/v1/jobs/{job}", "/events", text("A job's progress", "", STREAM)),
    ("POST", "/api/v1/jobs/{job}", "/cancel", text("Stop a job", "", ("202", "application/json"))),
    ("POST", "/api/v1/jobs/{job}", "/retry", text("Try a failed job again", "", ("202", "application/json"))),
    (
        "GET",
        "/api/v1/conversations",
        "",
        with_query(
            "Conversations, the latest first",
            &[
                ("q", "string", "words in the title or a message"),
                ("limit", "integer", "at most so many"),
                ("after", "string", "`next` of the page before"),
            ],
            JSON,
        ),
    ),
    ("GET", "/api/v1/conversations/{conversation}", "", text("One conversation", "", JSON)),
    ("PATCH", "/api/v1/conversations/{conversation}", "", text("Rename it", "Title", JSON)),
    ("DELETE", "/api/v1/conversations/{conversation}", "", text("Delete it and what only it had found", "", GONE)),
    ("GET", "/api/v1/conversations/{conversation}", "/messages", text("Its messages", "", JSON)),
    (
        "GET",
        "/api/v1/conversations/{conversation}",
        "/export",
        with_query("It as a file", &[("format", "string", "md or json")], ("200", "text/markdown")),
    ),
    ("GET", "/api/v1/turns/{turn}", "", text("A turn so far, as one object", "", JSON)),
    (
        "GET",
        "/api/v1/turns/{turn}",
        "/events",
        with_query("Its frames, from any of them on", &[("after", "integer", "the last one that you have")], STREAM),
    ),
    ("POST", "/api/v1/turns/{turn}", "/cancel", text("Stop it; what was said is kept", "", ("202", ""))),
    ("POST", "/api/v1/turns/{turn}", "/approve", text("Allow or refuse a call that waits", "Approval", JSON)),
    ("GET", "/api/v1/ws", "", text("A WebSocket for all turns", "", ("101", ""))),
    ("GET", "/api/v1/keys", "", text("Keys", "", JSON)),
    ("POST", "/api/v1/keys", "", text("Make a key; it is shown once", "NewKey", ("201", "application/json"))),
    ("DELETE", "/api/v1/keys/{key}", "", text("Revoke a key", "", GONE)),
    ("GET", "/api/v1/providers", "", text("Language models that can be chosen", "", JSON)),
    ("GET", "/api/v1/tools", "", text("Tools", "", JSON)),
    ("GET", "/api/v1/status", "", text("What runs, sizes, queues, times", "", JSON)),
    ("GET", "/api/v1/openapi.json", "", text("This document", "", JSON)),
];

/// Empty for a route that nobody has described.
pub(super) fn of(method: &str, path: &str) -> Text {
    let row = ROWS
        .iter()
        .find(|(m, before, after, _)| *m == method && path.strip_prefix(before).is_some_and(|rest| rest == *after));
    row.map_or(Text { answer: JSON, ..Text::default() }, |row| row.3)
}

pub(super) fn schemas() -> Value {
    let string = json!({"type": "string"});
    let names = json!({"type": "array", "items": {"type": "string"}});
    json!({
        "Problem": object(&json!({"type": string, "title": string, "status": {"type": "integer"}, "detail": string,
            "code": string}), &["type", "title", "status", "detail", "code"]),
        "Chat": object(&json!({
            "message": string, "conversation_id": string, "replace_message_id": string,
            "collection": {"oneOf": [string, names]}, "provider": string, "model": string,
            "tool_mode": {"enum": ["auto", "inline", "native", "off"]}, "tools": names,
            "retrieval": {"enum": ["auto", "tool", "required", "off"]},
            "reasoning_effort": {"enum": ["low", "medium", "high"]}, "limits": {"type": "object"},
            "on_disconnect": {"enum": ["continue", "cancel"]}, "stream": {"type": "boolean"},
        }), &["message"]),
        "NewCollection": object(&json!({
            "name": string, "embedding_model": string, "language": string, "keep_versions": {"type": "integer"},
        }), &["name"]),
        "Reindex": object(&json!({"embedding_model": string}), &[]),
        "Search": object(&json!({
            "query": string, "limit": {"type": "integer"}, "mode": {"enum": ["hybrid", "dense", "sparse"]},
            "filter": {"type": "object"}, "rerank": {"type": "boolean"}, "min_score": {"type": "number"},
            "expand": {"type": "integer"}, "explain": {"type": "boolean"}, "as_of": {"type": "string",
            "format": "date-time"},
        }), &["query"]),
        "Documents": object(&json!({"documents": {"type": "array", "items": object(&json!({
            "id": string, "title": string, "uri": string, "text": string, "url": string, "mime": string,
            "metadata": {"type": "object"},
        }), &[])}}), &["documents"]),
        "Description": object(&json!({"title": string, "metadata": {"type": "object"}}), &[]),
        "Keep": object(&json!({"collection": string}), &["collection"]),
        "Title": object(&json!({"title": string}), &["title"]),
        "Approval": object(&json!({"call_id": string, "allow": {"type": "boolean"}}), &["call_id", "allow"]),
        "NewKey": object(&json!({
            "name": string, "scopes": names, "collections": names,
            "expires_at": {"type": "string", "format": "date-time"},
        }), &["name", "scopes"]),
    })
}

fn object(properties: &Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required})
}
