//! `GET /api/v1/openapi.json`: the routes for programs that read OpenAPI, made from the one route table.
//! Invariant: every route of the table is in it, with its scope.

use super::guard::{Access, ROUTES};
use super::state::AppState;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

mod texts;

pub fn router() -> Router<AppState> {
    Router::new().route("/api/v1/openapi.json", get(async || Json(&*DOCUMENT)))
}

static DOCUMENT: LazyLock<Value> = LazyLock::new(document);

fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for (method, path, access) in ROUTES {
        let operation = operation(method.as_str(), path, *access);
        paths.entry(*path).or_insert_with(|| json!({}))[method.as_str().to_lowercase()] = operation;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tailrace",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Chat over your documents. docs/api.md tells the same in prose, frames included.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "schemas": texts::schemas(),
            "responses": {"Problem": {
                "description": "Refused; `code` is a stable word, `detail` a sentence.",
                "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
            }},
        },
    })
}

fn operation(method: &str, path: &str, access: Access) -> Value {
    let text = texts::of(method, path);
    let parameters: Vec<Value> = path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .chain(text.query.iter().map(
            |(name, kind, what)| json!({"name": name, "in": "query", "description": what, "schema": {"type": kind}}),
        ))
        .collect();
    let (status, kind) = text.answer;
    let mut answer = json!({"description": "Done"});
    if !kind.is_empty() {
        answer["content"][kind] = json!({});
    }
    let mut operation = json!({
        "summary": text.summary,
        "tags": [tag(path)],
        "parameters": parameters,
        "responses": {status: answer, "default": {"$ref": "#/components/responses/Problem"}},
    });
    if !text.body.is_empty() {
        let schema = json!({"$ref": format!("#/components/schemas/{}", text.body)});
        operation["requestBody"] = json!({"content": {"application/json": {"schema": schema}}});
    }
    operation["security"] = match access {
        Access::Public => json!([]),
        Access::Key(scope) => json!([{"key": [scope.as_str()]}]),
        Access::FirstMessage => json!([{"key": ["chat"]}, {}]),
    };
    operation
}

/// The noun that a route is about.
fn tag(path: &str) -> &str {
    let rest = path.strip_prefix("/api/v1/").unwrap_or(path.trim_start_matches('/'));
    rest.split('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_in_it_and_is_described() {
        let document = document();
        for (method, path, access) in ROUTES {
            let operation = &document["paths"][path][method.as_str().to_lowercase()];
            let summary = operation["summary"].as_str().unwrap_or_default();
            assert!(!summary.is_empty(), "src/http/openapi/texts.rs says nothing of {method} {path}");
            assert_eq!(operation["security"] == json!([]), *access == Access::Public, "{method} {path}");
            let named = operation["parameters"].as_array().unwrap().iter().filter(|p| p["in"] == "path").count();
            assert_eq!(named, path.matches('{').count(), "{path}");
        }
        let count: usize = document["paths"].as_object().unwrap().values().map(|p| p.as_object().unwrap().len()).sum();
        assert_eq!(count, ROUTES.len());
    }

    #[test]
    fn every_reference_leads_somewhere() {
        fn references(value: &Value, found: &mut Vec<String>) {
            match value {
                Value::Object(fields) => {
                    found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
                    fields.values().for_each(|value| references(value, found));
                }
                Value::Array(items) => items.iter().for_each(|value| references(value, found)),
                _ => {}
            }
        }
        let (document, mut found) = (document(), Vec::new());
        references(&document, &mut found);
        assert!(found.len() > 10, "{found:?}");
        for reference in found {
            assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
        }
    }
}
