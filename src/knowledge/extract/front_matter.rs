//! Front matter: what a Markdown file says of itself before it begins, as YAML between `---` lines or as TOML between
//! `+++` lines. Values, lists and groups are read as such; what is written in another way stays the text that it is, so
//! that nothing of it is lost.

use serde_json::{Map, Value};

/// Every chunk's point carries a document's metadata, so only so much of it may come from a document.
const MOST_BYTES: usize = 16 << 10;
/// Groups in groups.
const MOST_LEVELS: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Syntax {
    Yaml,
    Toml,
}

/// The lines between the fences.
pub(super) struct FrontMatter<'t> {
    lines: &'t str,
    syntax: Syntax,
}

/// What they say.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Said {
    pub title: Option<String>,
    pub fields: Map<String, Value>,
    /// Keys of what would have been too much.
    pub left_out: Vec<String>,
}

/// The front matter at the very start of a text, and the rest.
pub(super) fn split(text: &str) -> (Option<FrontMatter<'_>>, &str) {
    let whole = (None, text);
    let Some((first, rest)) = text.split_once('\n') else { return whole };
    let (fence, syntax) = match first.trim_end() {
        "---" => ("---", Syntax::Yaml),
        "+++" => ("+++", Syntax::Toml),
        _ => return whole,
    };
    let mut end = 0;
    for line in rest.split_inclusive('\n') {
        let bare = line.trim_end();
        if bare == fence || (syntax == Syntax::Yaml && bare == "...") {
            let lines = rest.get(..end).unwrap_or_default();
            return (Some(FrontMatter { lines, syntax }), rest.get(end + line.len()..).unwrap_or_default());
        }
        // A rule above a paragraph is not front matter: that has only keys, lists, comments and continuations.
        let looks_like_data = bare.is_empty()
            || line.starts_with([' ', '\t', '#', '-', ']', '}'])
            || (syntax == Syntax::Toml && line.starts_with('['))
            || bare.split_once([':', '=']).is_some_and(|(key, _)| is_key(key.trim()));
        if !looks_like_data {
            return whole;
        }
        end += line.len();
    }
    whole
}

fn is_key(key: &str) -> bool {
    !key.is_empty()
        && key.chars().all(|c| c.is_alphanumeric() || "_-.\"'[] ".contains(c))
        && key.split(' ').count() <= 3
}

impl FrontMatter<'_> {
    pub fn read(&self) -> Said {
        let mut said = Said::default();
        let mut size = 0;
        for (key, value) in group(&self.lines.lines().collect::<Vec<_>>(), self.syntax, 0) {
            let is_title = said.title.is_none() && key.eq_ignore_ascii_case("title");
            if let (true, Some(title)) = (is_title, one_line(&value)) {
                said.title = Some(title);
                continue;
            }
            let bytes = key.len() + value.to_string().len();
            if size + bytes > MOST_BYTES {
                said.left_out.push(key);
                continue;
            }
            size += bytes;
            said.fields.insert(key, value);
        }
        said
    }
}

fn one_line(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.split_whitespace().collect::<Vec<_>>().join(" "),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    (!text.is_empty()).then_some(text)
}

/// A key, what stands behind it, and the lines below it that belong to it.
struct Entry<'t> {
    key: &'t str,
    value: &'t str,
    below: Vec<&'t str>,
}

fn group(lines: &[&str], syntax: Syntax, level: usize) -> Vec<(String, Value)> {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    let mut in_table = false;
    for line in lines.iter().copied() {
        let table = line.trim().strip_prefix('[').filter(|_| syntax == Syntax::Toml && !line.starts_with([' ', '\t']));
        if let Some(name) = table.and_then(|rest| rest.split(']').next()) {
            in_table = true;
            entries.push(Entry { key: name.trim_start_matches('['), value: "", below: Vec::new() });
            continue;
        }
        let is_below = in_table || line.trim().is_empty() || line.starts_with([' ', '\t', '-', ']', '}']);
        match (entries.last_mut(), line.split_once(separator(syntax))) {
            (Some(entry), _) if is_below => entry.below.push(line),
            (_, Some((key, value))) if !line.starts_with('#') => {
                entries.push(Entry { key: key.trim(), value: value.trim(), below: Vec::new() });
            }
            _ => {}
        }
    }
    let values = entries.into_iter().map(|entry| (unquoted(entry.key), entry.read(syntax, level)));
    values.filter(|(key, value)| !key.is_empty() && !value.is_null()).collect()
}

fn separator(syntax: Syntax) -> char {
    match syntax {
        Syntax::Yaml => ':',
        Syntax::Toml => '=',
    }
}

fn unquoted(key: &str) -> String {
    key.trim_matches(['"', '\'']).to_owned()
}

impl Entry<'_> {
    fn read(&self, syntax: Syntax, level: usize) -> Value {
        let value = without_comment(self.value);
        let is_verbatim = syntax == Syntax::Yaml && value.starts_with(['|', '>']) && value.len() <= 3;
        let below = self.lines_below(is_verbatim);
        let joined = |gap: &str| {
            let lines = std::iter::once(value).chain(below.iter().copied()).map(str::trim);
            lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(gap)
        };
        if is_verbatim {
            let gap = if value.starts_with('|') { "\n" } else { " " };
            return Value::String(below.join(gap).trim_end().to_owned());
        }
        if value.starts_with('[') {
            return list_in_brackets(&joined(" "));
        }
        if !value.is_empty() {
            return if below.is_empty() { scalar(value) } else { scalar(&joined(" ")) };
        }
        if below.is_empty() {
            return Value::Null;
        }
        let outer = || below.iter().filter(|line| !line.starts_with([' ', '\t']));
        if outer().all(|line| line.starts_with("- ") || *line == "-") {
            return list_of_lines(&below);
        }
        let is_group = outer().all(|line| {
            line.starts_with(['#', '-', ']', '}'])
                || line.split_once(separator(syntax)).is_some_and(|(key, _)| is_key(key.trim()))
        });
        if is_group && level < MOST_LEVELS {
            return Value::Object(Map::from_iter(group(&below, syntax, level + 1)));
        }
        Value::String(joined("\n"))
    }

    /// Without the indentation that they share; empty lines and comments count in a text only.
    fn lines_below(&self, is_verbatim: bool) -> Vec<&str> {
        let indent = |line: &str| line.len() - line.trim_start().len();
        let shared = self.below.iter().filter(|line| !line.trim().is_empty()).map(|line| indent(line)).min();
        let lines = self.below.iter().map(|line| line.get(shared.unwrap_or(0)..).unwrap_or_default().trim_end());
        lines.filter(|line| is_verbatim || !(line.is_empty() || line.trim_start().starts_with('#'))).collect()
    }
}

/// `- one` and `- two`; an item of several lines is one text.
fn list_of_lines(lines: &[&str]) -> Value {
    let mut items: Vec<Vec<&str>> = Vec::new();
    for line in lines {
        match (line.strip_prefix('-'), items.last_mut()) {
            (Some(first), _) => items.push(vec![without_comment(first.trim())]),
            (None, Some(item)) => item.push(line.trim()),
            (None, None) => items.push(vec![line.trim()]),
        }
    }
    let read = |item: Vec<&str>| match item.as_slice() {
        [only] => scalar(only),
        lines => Value::String(lines.join("\n")),
    };
    Value::Array(items.into_iter().map(read).filter(|item| !item.is_null()).collect())
}

/// `[a, "b, c"]`; one with lists in it stays as it is written.
fn list_in_brackets(text: &str) -> Value {
    let as_written = || Value::String(text.to_owned());
    let end = text.rfind(']').unwrap_or(text.len());
    let Some(inside) = text.get(1..end) else { return as_written() };
    let (mut items, mut quote) = (vec![String::new()], None);
    for c in inside.chars() {
        match (quote, c) {
            (None, '[' | '{') => return as_written(),
            (None, ',') => {
                items.push(String::new());
                continue;
            }
            // An apostrophe within a word is none.
            (None, '"' | '\'') if items.last().is_some_and(|item| item.trim().is_empty()) => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            _ => {}
        }
        if let Some(item) = items.last_mut() {
            item.push(c);
        }
    }
    let items = items.iter().map(|item| scalar(item.trim()));
    Value::Array(items.filter(|item| !item.is_null()).collect())
}

/// A comment begins with a blank; within quotes there is none.
fn without_comment(text: &str) -> &str {
    let from = match text.chars().next() {
        Some(quote @ ('"' | '\'')) => text.rfind(quote).unwrap_or(0),
        Some('[') => text.rfind(']').unwrap_or(0),
        Some('#') => return "",
        _ => 0,
    };
    let comment = text.get(from..).and_then(|rest| rest.find(" #")).map(|at| from + at);
    text.get(..comment.unwrap_or(text.len())).unwrap_or(text).trim_end()
}

fn scalar(text: &str) -> Value {
    let quoted = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    if let Some(inside) = quoted('"') {
        return serde_json::from_str(text).unwrap_or_else(|_| Value::String(inside.to_owned()));
    }
    if let Some(inside) = quoted('\'') {
        return Value::String(inside.replace("''", "'"));
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return true.into(),
        "false" | "False" | "FALSE" => return false.into(),
        _ => {}
    }
    // `007` is no number, and what is longer than a number can be stays as it is written.
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = digits.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        && digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.ends_with(|c: char| c.is_ascii_digit())
        && (!digits.starts_with('0') || digits == "0" || digits.starts_with("0."));
    let number = match (is_plain, digits.contains('.')) {
        (true, false) => text.parse::<i64>().ok().map(Value::from),
        (true, true) if digits.len() <= 15 => text.parse::<f64>().ok().map(Value::from),
        _ => None,
    };
    number.unwrap_or_else(|| text.to_owned().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(text: &str, title: Option<&str>, fields: Value) {
        let (front, rest) = split(text);
        let said = front.unwrap_or_else(|| panic!("no front matter in {text:?}")).read();
        assert_eq!((said.title.as_deref(), Value::Object(said.fields)), (title, fields), "{text}");
        assert_eq!(rest, "Text", "{text}");
    }

    #[test]
    fn keys_become_fields_with_their_types() {
        check(
            "---\ntitle: Siren policy\ntags: [alarm, 'night, late', \"a\"]\ndraft: false\nlang: de # ours\nyear: 2024\n\
             price: 1.5\ncode: 007\nid: 12345678901234567890123\nversion: 1.2.3\nempty:\n---\nText",
            Some("Siren policy"),
            json!({"tags": ["alarm", "night, late", "a"], "draft": false, "lang": "de", "year": 2024, "price": 1.5,
                   "code": "007", "id": "12345678901234567890123", "version": "1.2.3"}),
        );
        check(
            "---\ntags:\n- one # first\n- two\nauthor:\n  name: Ada\n  mail: a@b\nteam:\n  - name: Bob\n    role: mate\n\
             summary: >\n  In short,\n  this.\nverse: |\n  one\n  two\nlong: it goes\n  on\ndate: 2024-02-29 12:30:00\n...\nText",
            None,
            json!({"tags": ["one", "two"], "author": {"name": "Ada", "mail": "a@b"}, "team": ["name: Bob\nrole: mate"],
                   "summary": "In short, this.", "verse": "one\ntwo", "long": "it goes on", "date": "2024-02-29 12:30:00"}),
        );
        check(
            "+++\ntitle = 'T'\nweight = 3\ntags = [\n  \"a\",\n  \"b\",\n]\nurl = \"x=y#z\"\n[extra]\nkey = 'v'\n[extra.more]\nn = 1\n+++\nText",
            Some("T"),
            json!({"weight": 3, "tags": ["a", "b"], "url": "x=y#z", "extra": {"key": "v"}, "extra.more": {"n": 1}}),
        );
        check(
            "---\nnested: [[1, 2], 3]\nit's: [don't, stop]\n# comment\n---\nText",
            None,
            json!({"nested": "[[1, 2], 3]", "it's": ["don't", "stop"]}),
        );
    }

    #[test]
    fn too_much_is_named() {
        let text = format!("---\nbig: {}\nlang: en\n---\n", "x".repeat(MOST_BYTES));
        let said = split(&text).0.unwrap().read();
        assert_eq!((said.left_out, Value::Object(said.fields)), (vec!["big".to_owned()], json!({"lang": "en"})));
        let deep: String = (0..50).map(|n| format!("{}k{n}:\n", " ".repeat(n))).collect();
        let deep = format!("---\n{deep}{}end: x\n---\n", " ".repeat(50));
        assert!(Value::Object(split(&deep).0.unwrap().read().fields).to_string().contains("end: x"));
    }
}
