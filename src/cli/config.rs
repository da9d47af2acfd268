//! `tailrace config`: every setting with its value and origin; secrets are masked.

use super::Failure;
use super::output::Output;
use crate::config::{Loaded, Setting};
use serde_json::{Map, Value, json};

pub fn run(loaded: &Loaded, output: &Output) -> Result<(), Failure> {
    let entries: Map<String, Value> =
        loaded.settings.iter().map(|s| (s.key.to_owned(), json!({"value": s.value, "source": s.source}))).collect();
    let width = loaded.settings.iter().map(|s| s.key.len() + s.value.len()).max().unwrap_or(0) + 3;
    let lines: Vec<String> = loaded
        .settings
        .iter()
        .map(|Setting { key, value, source }| format!("{:width$}  # {source}", format!("{key} = {value}")))
        .collect();
    output.result(&Value::Object(entries), &lines.join("\n"));
    Ok(())
}
