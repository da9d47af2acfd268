//! JSON as lines that name where each value stands: `address.city: London`. Elements of a list of objects are
//! records, with an empty line between them, so that a chunk holds whole ones.

mod values;

use super::limits::Budget;
use super::{ExtractError, Kind, text};
use serde::de::IgnoredAny;
use serde_json::Deserializer;
use values::{Next, Values};

/// Deeper documents are refused.
const MOST_LEVELS: usize = 128;

/// One document, or several after one another: then they are records.
pub(super) fn read(source: &str, budget: &Budget, notes: &mut Vec<String>) -> Result<(String, Kind), ExtractError> {
    let mut documents = 0usize;
    for document in Deserializer::from_str(source).into_iter::<IgnoredAny>() {
        if let Err(error) = document {
            notes.push(format!("it is not valid JSON ({error}) and was read as plain text"));
            return Ok((text::read(source.to_owned()), Kind::Json));
        }
        documents += 1;
    }
    let mut out = Lines::new(budget);
    let mut values = Values::of(source);
    if documents > 1 {
        while values.next() != Next::End {
            out.record(&mut values, "")?;
        }
        return Ok((out.finish(source), Kind::Ndjson));
    }
    match values.next() {
        Next::List => {
            values.enter();
            while values.more() {
                out.record(&mut values, "")?;
            }
        }
        Next::Object => out.fields(&mut values)?,
        Next::Scalar => out.record(&mut values, "")?,
        Next::End => {}
    }
    Ok((out.finish(source), Kind::Json))
}

/// One document a line. A line that is none stays as it is.
pub(super) fn read_lines(source: &str, budget: &Budget, notes: &mut Vec<String>) -> Result<String, ExtractError> {
    let mut out = Lines::new(budget);
    let mut broken = 0usize;
    for line in source.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if serde_json::from_str::<IgnoredAny>(line).is_ok() {
            out.record(&mut Values::of(line), "")?;
        } else {
            broken += 1;
            out.paragraph(line)?;
        }
    }
    if broken > 0 {
        notes.push(format!("{broken} lines are not valid JSON and were read as plain text"));
    }
    Ok(out.finish(source))
}

struct Lines<'b> {
    out: String,
    budget: &'b Budget,
}

impl<'b> Lines<'b> {
    fn new(budget: &'b Budget) -> Self {
        Self { out: String::new(), budget }
    }

    fn record(&mut self, values: &mut Values<'_>, name: &str) -> Result<(), ExtractError> {
        let mut record = Record::new(self.budget, name);
        record.value(values, 1)?;
        self.paragraph(record.out.trim_end())
    }

    /// A list of records inside a document is one of records, each below the list's name. The rest comes after them.
    fn fields(&mut self, values: &mut Values<'_>) -> Result<(), ExtractError> {
        let mut loose = Record::new(self.budget, "");
        values.enter();
        while values.more() {
            let name = values.name();
            if values.next() == Next::List && values.has_object() {
                values.enter();
                while values.more() {
                    self.record(values, &name)?;
                }
            } else {
                loose.field(&name, values, 1)?;
            }
        }
        self.paragraph(loose.out.trim_end())
    }

    fn paragraph(&mut self, text: &str) -> Result<(), ExtractError> {
        if text.is_empty() {
            return Ok(());
        }
        if !self.out.is_empty() {
            // Single values of a list stand below each other.
            let is_record = text.contains('\n') || text.contains(": ");
            self.out.push_str(if is_record { "\n\n" } else { "\n" });
        }
        self.out.push_str(text);
        self.budget.check_text(self.out.len())
    }

    /// A document without any value is shown as it is written.
    fn finish(self, source: &str) -> String {
        if self.out.is_empty() { text::read(source.to_owned()) } else { self.out }
    }
}

/// Each value on a line, behind the names that lead to it.
struct Record<'b> {
    out: String,
    path: String,
    budget: &'b Budget,
}

impl<'b> Record<'b> {
    fn new(budget: &'b Budget, name: &str) -> Self {
        Self { out: String::new(), path: name.to_owned(), budget }
    }

    fn value(&mut self, values: &mut Values<'_>, level: usize) -> Result<(), ExtractError> {
        if level > MOST_LEVELS {
            return Err(ExtractError::TooDeep(MOST_LEVELS));
        }
        match values.next() {
            Next::Scalar => {
                let text = values.scalar();
                self.line(&text)
            }
            Next::List => {
                if let Some(list) = values.scalars() {
                    let list: Vec<_> = list.into_iter().filter(|text| !text.is_empty()).collect();
                    return self.line(&list.join(", "));
                }
                values.enter();
                let mut at = 0usize;
                while values.more() {
                    self.below(&format!("[{at}]"), values, level)?;
                    at += 1;
                }
                Ok(())
            }
            Next::Object => {
                values.enter();
                while values.more() {
                    let name = values.name();
                    self.field(&name, values, level)?;
                }
                Ok(())
            }
            Next::End => Ok(()),
        }
    }

    fn field(&mut self, name: &str, values: &mut Values<'_>, level: usize) -> Result<(), ExtractError> {
        let gap = if self.path.is_empty() { "" } else { "." };
        self.below(&format!("{gap}{name}"), values, level)
    }

    fn below(&mut self, step: &str, values: &mut Values<'_>, level: usize) -> Result<(), ExtractError> {
        let length = self.path.len();
        self.path.push_str(step);
        self.value(values, level + 1)?;
        self.path.truncate(length);
        Ok(())
    }

    fn line(&mut self, text: &str) -> Result<(), ExtractError> {
        if text.trim().is_empty() {
            return Ok(());
        }
        if !self.path.is_empty() {
            self.out.push_str(&self.path);
            self.out.push_str(": ");
        }
        self.out.push_str(text);
        self.out.push('\n');
        self.budget.check_text(self.out.len())
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
            (r#"{"rows": [1, {"a": "]}"}, [2]]}"#, "rows: 1\n\nrows.a: ]}\n\nrows: 2"),
            // As they are written: no digit is lost, and no field.
            (
                "[{\"id\":12345678901234567890123456789,\"price\":1.10,\"far\":1E400,\"k\":\"one\",\"k\":\"two\"}]",
                "id: 12345678901234567890123456789\nprice: 1.10\nfar: 1E400\nk: one\nk: two",
            ),
            // One after the other is as good as one a line.
            ("{\"a\":1}\n{\"a\": 2}\n", "a: 1\n\na: 2"),
            ("{\n \"a\":1\n}\n{\n \"a\": 2\n}", "a: 1\n\na: 2"),
        ] {
            let found = read(source, &budget(), &mut Vec::new()).map(|(text, _)| text);
            assert_eq!(found.as_deref(), Ok(want), "{source}");
        }
    }

    #[test]
    fn what_is_no_json_is_text_and_depth_ends() {
        let mut notes = Vec::new();
        let found = read("{a: 1} // note", &budget(), &mut notes).unwrap();
        assert_eq!(found, ("{a: 1} // note".to_owned(), Kind::Json));
        assert!(notes[0].contains("not valid JSON"), "{notes:?}");
        let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
        assert_eq!(read(&deep, &budget(), &mut notes).map_err(|e| e.code()), Err("too_deep"));
        let deep = format!("{{\"a\":{}1{}}}", "{\"b\":".repeat(5000), "}".repeat(5000));
        assert_eq!(read(&deep, &budget(), &mut notes).map_err(|e| e.code()), Err("too_deep"));
        let lines = "{\"a\":1}\n\nbroken\n{\"b\":12345678901234567890123}\n";
        let found = read_lines(lines, &budget(), &mut notes);
        assert_eq!(found.as_deref(), Ok("a: 1\nbroken\n\nb: 12345678901234567890123"));
    }
}
