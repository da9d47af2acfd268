//! Calls as text, so that they can be compared: the keys of every object sorted. Pure.

use crate::message::Arguments;
use serde_json::Value;

/// Name and arguments of a call; `text` says what of a text counts. Equal exactly for calls that mean the same by it.
pub fn key(name: &str, arguments: &Arguments, text: fn(&str) -> String) -> String {
    let mut key = format!("{name} ");
    write_object(&mut key, arguments, text);
    key
}

fn write(out: &mut String, value: &Value, text: fn(&str) -> String) {
    match value {
        Value::String(string) => out.push_str(&text(string)),
        Value::Object(object) => write_object(out, object, text),
        Value::Array(items) => {
            out.push('[');
            for item in items {
                write(out, item, text);
                out.push(',');
            }
            out.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
    }
}

fn write_object(out: &mut String, object: &Arguments, text: fn(&str) -> String) {
    let mut entries: Vec<_> = object.iter().collect();
    entries.sort_unstable_by_key(|(name, _)| *name);
    out.push('{');
    for (name, value) in entries {
        out.push_str(&quoted(name));
        out.push(':');
        write(out, value, text);
        out.push(',');
    }
    out.push('}');
}

/// The text itself, as JSON has it.
pub fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
