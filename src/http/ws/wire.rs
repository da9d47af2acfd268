//! What goes over the socket. Pure.

use super::super::frame;
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

/// The first message where keys are configured.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub enum Auth {
    Auth { key: String },
}

/// The kind of a message and what it is answered under; its other fields depend on the kind.
#[derive(Deserialize)]
pub struct Head {
    pub r#type: String,
    pub request_id: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subscribe {
    pub turn_id: Option<Uuid>,
    pub conversation_id: Option<Uuid>,
    #[serde(default)]
    pub after: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cancel {
    pub turn_id: Uuid,
}

/// An SSE frame as a socket's message: the same payload, with the turn and a state instead of a name.
/// `request_id`: what the `turn_start` of the client's own turn echoes.
pub fn event(turn_id: Uuid, sse: &[u8], request_id: Option<&Value>) -> Option<String> {
    let (seq, name, json) = frame::parts(sse)?;
    let state = state(name, json);
    let mut out = String::with_capacity(json.len() + 112);
    out.push_str("{\"type\":\"event\",\"turn_id\":\"");
    out.push_str(turn_id.hyphenated().encode_lower(&mut Uuid::encode_buffer()));
    out.push_str("\",\"seq\":");
    out.push_str(&seq.to_string());
    out.push_str(",\"state\":\"");
    out.push_str(state);
    out.push('"');
    if let (Some(id), "turn_start") = (request_id, state) {
        out.push_str(",\"request_id\":");
        out.push_str(&id.to_string());
    }
    match state {
        "delta" | "thinking_text" => field(&mut out, "text", json),
        "sources" => field(&mut out, "sources", json),
        // An object that is never empty: it has `at_ms` at least.
        _ => {
            out.push(',');
            out.push_str(json.strip_prefix('{')?);
            return Some(out);
        }
    }
    out.push('}');
    Some(out)
}

fn field(out: &mut String, name: &str, json: &str) {
    out.push_str(",\"");
    out.push_str(name);
    out.push_str("\":");
    out.push_str(json);
}

fn state<'a>(name: Option<&'a str>, json: &str) -> &'a str {
    match name {
        None => "delta",
        Some("reasoning") => "thinking_text",
        Some("tool_start") => "tool_call_start",
        Some("tool_result") => "tool_call_end",
        Some("round") => "iteration",
        Some("round_end") => "iteration_end",
        Some("retry") => "retrying",
        Some("turn_end")
            if json.contains("\"finish\":\"cancelled\"") || json.contains("\"finish\":\"interrupted\"") =>
        {
            "aborted"
        }
        Some("turn_end") => "final",
        Some(other) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn frames_have_the_contracts_form() {
        let id = Uuid::nil();
        let cases = [
            ("id: 3\ndata: \"a\\n\"\n\n", json!({"seq": 3, "state": "delta", "text": "a\n"})),
            ("id: 4\nevent: reasoning\ndata: \"r\"\n\n", json!({"seq": 4, "state": "thinking_text", "text": "r"})),
            ("id: 5\nevent: sources\ndata: [1]\n\n", json!({"seq": 5, "state": "sources", "sources": [1]})),
            ("id: 6\nevent: thinking\ndata: {\"at_ms\":1}\n\n", json!({"seq": 6, "state": "thinking", "at_ms": 1})),
            (
                "id: 7\nevent: tool_result\ndata: {\"at_ms\":1,\"ok\":true}\n\n",
                json!({"seq": 7, "state": "tool_call_end", "at_ms": 1, "ok": true}),
            ),
            (
                "id: 1\nevent: turn_start\ndata: {\"at_ms\":0}\n\n",
                json!({"seq": 1, "state": "turn_start", "at_ms": 0, "request_id": "r1"}),
            ),
            (
                "id: 9\nevent: turn_end\ndata: {\"at_ms\":2,\"finish\":\"cancelled\"}\n\n",
                json!({"seq": 9, "state": "aborted", "at_ms": 2, "finish": "cancelled"}),
            ),
            (
                "id: 9\nevent: turn_end\ndata: {\"at_ms\":2,\"finish\":\"timeout\"}\n\n",
                json!({"seq": 9, "state": "final", "at_ms": 2, "finish": "timeout"}),
            ),
        ];
        for (sse, mut want) in cases {
            want["type"] = "event".into();
            want["turn_id"] = id.to_string().into();
            let got = event(id, sse.as_bytes(), Some(&json!("r1"))).unwrap();
            assert_eq!(serde_json::from_str::<Value>(&got).unwrap(), want, "{sse}");
        }
    }
}
