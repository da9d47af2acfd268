//! JSON as lines that name where each value stands: `address.city: London`. Elements of a list of objects are
//! records, with an empty line between them, so that a chunk holds whole ones.

use super::limits::Budget;
use super::{ExtractError, text};
use serde::de::{DeserializeSeed, Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::Value;
use std::fmt;

/// What serde_json itself nests; deeper documents are refused.
const MOST_LEVELS: usize = 128;

pub(super) fn read(source: &str, budget: &Budget, notes: &mut Vec<String>) -> Result<String, ExtractError> {
    let mut out = Lines { out: String::new(), budget, refused: None };
    let mut reader = serde_json::Deserializer::from_str(source);
    let done = Top(&mut out).deserialize(&mut reader).and_then(|()| reader.end());
    match (done, out.refused.take()) {
        (_, Some(refused)) => Err(refused),
        (Err(error), None) if is_too_deep(&error) => Err(ExtractError::TooDeep(MOST_LEVELS)),
        (Err(error), None) => {
            notes.push(format!("it is not valid JSON ({error}) and was read as plain text"));
            Ok(text::read(source.to_owned()))
        }
        (Ok(()), None) => Ok(out.finish(source)),
    }
}

/// One document a line. A line that is none stays as it is.
pub(super) fn read_lines(source: &str, budget: &Budget, notes: &mut Vec<String>) -> Result<String, ExtractError> {
    let mut out = Lines { out: String::new(), budget, refused: None };
    let mut broken = 0usize;
    for line in source.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match serde_json::from_str::<Value>(line) {
            Ok(value) => out.record(&value),
            Err(error) if is_too_deep(&error) => return Err(ExtractError::TooDeep(MOST_LEVELS)),
            Err(_) => {
                broken += 1;
                out.paragraph(line);
            }
        }
        if let Some(refused) = out.refused.take() {
            return Err(refused);
        }
    }
    if broken > 0 {
        notes.push(format!("{broken} lines are not valid JSON and were read as plain text"));
    }
    Ok(out.finish(source))
}

fn is_too_deep(error: &serde_json::Error) -> bool {
    error.to_string().starts_with("recursion limit")
}

struct Lines<'b> {
    out: String,
    budget: &'b Budget,
    refused: Option<ExtractError>,
}

impl Lines<'_> {
    fn record(&mut self, value: &Value) {
        let mut record = String::new();
        flatten(value, &mut String::new(), &mut record);
        self.paragraph(record.trim_end());
    }

    fn paragraph(&mut self, text: &str) {
        if text.is_empty() || self.refused.is_some() {
            return;
        }
        if !self.out.is_empty() {
            // Single values of a list stand below each other.
            let is_record = text.contains('\n') || text.contains(": ");
            self.out.push_str(if is_record { "\n\n" } else { "\n" });
        }
        self.out.push_str(text);
        self.refused = self.budget.check_text(self.out.len()).err();
    }

    /// A document without any value is shown as it is written.
    fn finish(self, source: &str) -> String {
        if self.out.is_empty() { text::read(source.to_owned()) } else { self.out }
    }
}

/// Each value on a line, behind the names that lead to it.
fn flatten(value: &Value, path: &mut String, out: &mut String) {
    let (length, mut line) = (path.len(), |text: &str, path: &str| {
        if !text.trim().is_empty() {
            if !path.is_empty() {
                out.push_str(path);
                out.push_str(": ");
            }
            out.push_str(text);
            out.push('\n');
        }
    });
    match value {
        Value::Null => {}
        Value::Bool(flag) => line(&flag.to_string(), path),
        Value::Number(number) => line(&number.to_string(), path),
        Value::String(text) => line(text, path),
        Value::Array(items) if items.iter().all(|item| !item.is_array() && !item.is_object()) => {
            let items: Vec<String> = items.iter().map(scalar).filter(|text| !text.is_empty()).collect();
            line(&items.join(", "), path);
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                path.push_str(&format!("[{at}]"));
                flatten(item, path, out);
                path.truncate(length);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
                flatten(field, path, out);
                path.truncate(length);
            }
        }
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The whole document; of a list, one element at a time is held in memory.
struct Top<'l, 'b>(&'l mut Lines<'b>);

impl<'de> DeserializeSeed<'de> for Top<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Top<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        while let Some(element) = elements.next_element::<Value>()? {
            self.0.record(&element);
            if self.0.refused.is_some() {
                return Err(A::Error::custom("refused"));
            }
        }
        Ok(())
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let (mut loose, mut path) = (String::new(), String::new());
        while let Some((name, field)) = fields.next_entry::<String, Value>()? {
            match &field {
                // A list of records inside a document: as records, each below the list's name.
                Value::Array(items) if items.iter().any(Value::is_object) => {
                    for item in items {
                        let mut record = String::new();
                        flatten(item, &mut name.clone(), &mut record);
                        self.0.paragraph(record.trim_end());
                    }
                }
                other => {
                    path.clear();
                    path.push_str(&name);
                    flatten(other, &mut path, &mut loose);
                }
            }
        }
        self.0.paragraph(loose.trim_end());
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.0.record(&value.into());
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.0.record(&value.into());
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.0.record(&value.into());
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.0.record(&value.into());
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.0.record(&value.into());
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knowledge::extract::Limits;

    fn budget() -> Budget {
        Budget::new(Limits::default(), 1000)
    }

    #[test]
    fn values_keep_the_names_that_lead_to_them() {
        for (source, want) in [
            (r#"[{"name":"Ada","n":1},{"name":"Bob","tags":["a","b"]}]"#, "name: Ada\nn: 1\n\nname: Bob\ntags: a, b"),
            (r#"{"a":{"b":"x"},"rows":[{"c":1}],"z":null}"#, "rows.c: 1\n\na.b: x"),
            (r#"{"m":[[1,2],[3]]}"#, "m[0]: 1, 2\nm[1]: 3"),
            ("[1,\"two\"]", "1\ntwo"),
            ("\"only\"", "only"),
            ("{}", "{}"),
        ] {
            assert_eq!(read(source, &budget(), &mut Vec::new()).as_deref(), Ok(want), "{source}");
        }
    }

    #[test]
    fn what_is_no_json_is_text_and_depth_ends() {
        let mut notes = Vec::new();
        assert_eq!(read("{a: 1} // note", &budget(), &mut notes).as_deref(), Ok("{a: 1} // note"));
        assert!(notes[0].contains("not valid JSON"), "{notes:?}");
        let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
        assert_eq!(read(&deep, &budget(), &mut notes).map_err(|e| e.code()), Err("too_deep"));
        let lines = "{\"a\":1}\n\nbroken\n{\"b\":2}\n";
        assert_eq!(read_lines(lines, &budget(), &mut notes).as_deref(), Ok("a: 1\nbroken\n\nb: 2"));
    }
}
