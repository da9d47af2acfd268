//! A sealed block to an [`XmlToolCall`], or why not. The only place that knows XML's rules for tags.
//!
//! Invariant: names and attribute values are decoded exactly once here, the body never.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

/// A call as the model wrote it in its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XmlToolCall {
    /// `[A-Za-z0-9_.-]{1,64}`.
    pub name: String,
    /// All attributes but `name`, in order, no key twice, references decoded.
    pub attrs: Vec<(String, String)>,
    /// The exact slice between the tags.
    pub body: String,
}

/// Why a block is shown but can never run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    #[error("the tag has no name attribute")]
    NoName,
    #[error("the tool name {0:?} is not 1 to 64 of A-Z, a-z, 0-9, _, . and -")]
    BadName(String),
    #[error("the attribute {0} is given twice")]
    RepeatedAttribute(String),
    #[error("the attribute {0} holds a reference that XML does not know")]
    UnknownReference(String),
    #[error("the tag is not well formed")]
    Malformed,
}

/// A whole opening tag, `<tool …>` or `<tool …/>`, with the fields of [`XmlToolCall`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenTag {
    pub name: String,
    pub attrs: Vec<(String, String)>,
}

/// Reads an opening tag; its block can run if this succeeds.
pub fn read_tag(tag: &str) -> Result<OpenTag, BlockError> {
    let content = tag.strip_prefix('<').and_then(|t| t.strip_suffix('>')).ok_or(BlockError::Malformed)?;
    let start = BytesStart::from_content(content.strip_suffix('/').unwrap_or(content), "tool".len());
    let mut name = None;
    let mut attrs: Vec<(String, String)> = Vec::new();
    // Repeats are looked for below, so that the message can name the attribute.
    for attribute in start.attributes().with_checks(false) {
        let attribute = attribute.map_err(|_| BlockError::Malformed)?;
        let key = attribute.key.as_ref();
        let value = decode_strict(&attribute.value).ok_or_else(|| BlockError::UnknownReference(key.to_owned()))?;
        let repeated = if key == "name" {
            name.replace(value).is_some()
        } else {
            let repeated = attrs.iter().any(|(known, _)| known == key);
            attrs.push((key.to_owned(), value));
            repeated
        };
        if repeated {
            return Err(BlockError::RepeatedAttribute(key.to_owned()));
        }
    }
    let name = name.ok_or(BlockError::NoName)?;
    if !is_tool_name(&name) {
        return Err(BlockError::BadName(name.chars().take(64).collect()));
    }
    Ok(OpenTag { name, attrs })
}

/// `[A-Za-z0-9_.-]{1,64}`.
pub fn is_tool_name(name: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    (1..=64).contains(&name.len()) && name.bytes().all(legal)
}

/// XML white space at both ends of `text` removed.
pub fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\r', '\n'])
}

/// `body` as a list of elements, if it is nothing else but white space and elements that `known` names:
/// each with its raw content up to its first closer. Attributes make it something else.
pub fn child_elements(body: &str, known: impl Fn(&str) -> bool) -> Option<Vec<(String, &str)>> {
    let mut elements = Vec::new();
    let mut rest = trim(body);
    while !rest.is_empty() {
        let mut reader = Reader::from_str(rest);
        let (tag, empty) = match reader.read_event().ok()? {
            Event::Start(tag) => (tag, false),
            Event::Empty(tag) => (tag, true),
            _ => return None,
        };
        let name = tag.name().as_ref().to_owned();
        if !known(&name) || tag.attributes().next().is_some() {
            return None;
        }
        let content = rest.get(usize::try_from(reader.buffer_position()).ok()?..)?;
        let (inner, behind) = if empty { ("", content) } else { split_at_closer(content, &name)? };
        elements.push((name, inner));
        rest = trim(behind);
    }
    Some(elements)
}

/// What is in front of `</name>` and what is behind; one inside a CDATA section is data.
fn split_at_closer<'a>(text: &'a str, name: &str) -> Option<(&'a str, &'a str)> {
    let mut at = 0;
    loop {
        at += text[at..].find('<')?;
        let rest = &text[at..];
        if rest.starts_with(CDATA) {
            at += rest.find(CDATA_END)? + CDATA_END.len();
        } else if let Some(tail) = rest.strip_prefix("</").and_then(|r| r.strip_prefix(name))
            && let Some(behind) = tail.trim_start_matches([' ', '\t', '\r', '\n']).strip_prefix('>')
        {
            return Some((&text[..at], behind));
        } else {
            at += 1;
        }
    }
}

const CDATA: &str = "<![CDATA[";
const CDATA_END: &str = "]]>";

/// Raw text of a body or element as what it means: CDATA sections unwrapped, the rest decoded once.
pub fn plain_text(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((before, tail)) = rest.split_once(CDATA)
        && let Some((data, behind)) = tail.split_once(CDATA_END)
    {
        out.push_str(&decode(before));
        out.push_str(data);
        rest = behind;
    }
    out.push_str(&decode(rest));
    out
}

/// `text` with each of the five named and all numeric references decoded once; whatever else an `&`
/// begins stays as it is.
pub fn decode(text: &str) -> String {
    references(text).0
}

/// The same, or nothing if there is a reference that XML does not know. A bare `&` is text here too:
/// addresses with `&` in them are what models write.
fn decode_strict(text: &str) -> Option<String> {
    let (decoded, unknown) = references(text);
    (!unknown).then_some(decoded)
}

/// The decoded text, and whether a well-formed reference stood in it that could not be decoded.
fn references(text: &str) -> (String, bool) {
    let mut out = String::with_capacity(text.len());
    let mut unknown = false;
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let name = rest[1..].find(|c: char| !(c.is_alphanumeric() || matches!(c, '#' | '_' | ':' | '.' | '-')));
        let name = name.filter(|&len| len > 0 && rest[1 + len..].starts_with(';')).map(|len| &rest[1..=len]);
        match name.map(|name| (name, reference(name))) {
            Some((name, Some(c))) => {
                out.push(c);
                rest = &rest[name.len() + 2..];
            }
            other => {
                unknown |= other.is_some();
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    (out, unknown)
}

/// The character that `&name;` stands for. Never an expansion: a reference is one character.
fn reference(name: &str) -> Option<char> {
    let code = match name.strip_prefix('#') {
        Some(number) => match number.strip_prefix('x') {
            Some(hex) if hex.bytes().all(|b| b.is_ascii_hexdigit()) => u32::from_str_radix(hex, 16).ok()?,
            None if number.bytes().all(|b| b.is_ascii_digit()) => number.parse().ok()?,
            _ => return None,
        },
        None => {
            return match name {
                "lt" => Some('<'),
                "gt" => Some('>'),
                "amp" => Some('&'),
                "quot" => Some('"'),
                "apos" => Some('\''),
                _ => None,
            };
        }
    };
    let legal = matches!(code, 0x9 | 0xA | 0xD | 0x20..=0xFFFD | 0x1_0000..=0x10_FFFF);
    char::from_u32(code).filter(|_| legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_read_or_refused_with_a_reason() {
        use BlockError::{BadName, Malformed, NoName, RepeatedAttribute, UnknownReference};
        let long = format!("<tool name='{}'>", "x".repeat(65));
        type Read<'a> = Result<(&'a str, &'a [(&'a str, &'a str)]), BlockError>;
        let cases: [(&str, Read<'_>); 14] = [
            (r#"<tool name="a"/>"#, Ok(("a", &[]))),
            ("<tool\n q = 'it\"s > 3'\tname='a.b-c_1' >", Ok(("a.b-c_1", &[("q", "it\"s > 3")]))),
            (r#"<tool name="a" q="R&amp;D &lt;x&gt; &#8364;&#x41; &amp;lt;">"#, Ok(("a", &[("q", "R&D <x> €A &lt;")]))),
            (r#"<tool name="&#x61;">"#, Ok(("a", &[]))),
            (r#"<tool name="a" url="http://h/?a=1&b=2&c">"#, Ok(("a", &[("url", "http://h/?a=1&b=2&c")]))),
            (r#"<tool name="a" q="&nbsp;">"#, Err(UnknownReference("q".into()))),
            (r#"<tool name="a" q="&#0;">"#, Err(UnknownReference("q".into()))),
            (r#"<tool name="a" q="&#xD800;">"#, Err(UnknownReference("q".into()))),
            (r#"<tool id="7">"#, Err(NoName)),
            (r#"<tool name="a" name="a">"#, Err(RepeatedAttribute("name".into()))),
            (r#"<tool name="a" q="1" q="2">"#, Err(RepeatedAttribute("q".into()))),
            (r#"<tool name="a b">"#, Err(BadName("a b".into()))),
            (r#"<tool name="a" q>"#, Err(Malformed)),
            (&long, Err(BadName("x".repeat(64)))),
        ];
        for (tag, want) in cases {
            let got = read_tag(tag);
            let want = want.map(|(name, attrs)| OpenTag {
                name: name.to_owned(),
                attrs: attrs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            });
            assert_eq!(got, want, "{tag}");
        }
    }

    #[test]
    fn plain_text_is_decoded_once_and_never_broken() {
        for (text, want) in [
            ("R&amp;D &lt;draft&gt; &#8364;5", "R&D <draft> €5"),
            ("AT&T && &nbsp; &; &#; &#x; &#xZ; &", "AT&T && &nbsp; &; &#; &#x; &#xZ; &"),
            ("&amp;amp; &&amp;", "&amp; &&"),
            ("&#1114112; &#xFFFE; &#10;", "&#1114112; &#xFFFE; \n"),
        ] {
            assert_eq!(decode(text), want, "{text}");
        }
    }

    #[test]
    fn a_body_of_known_elements_is_a_list_of_them() {
        let known = |name: &str| matches!(name, "q" | "top");
        let read = |body| child_elements(body, known);
        let list = |pairs: &[(&str, &'static str)]| Some(pairs.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect());
        for (body, want) in [
            ("<q>a</q><top>3</top>", list(&[("q", "a"), ("top", "3")])),
            ("\n <q>\na < b && c</q >\n<top/>\n", list(&[("q", "\na < b && c"), ("top", "")])),
            ("<q><![CDATA[</q>]]></q>", list(&[("q", "<![CDATA[</q>]]>")])),
            ("<q>a</q><q>b</q>", list(&[("q", "a"), ("q", "b")])),
            ("<q>a <b>c</b></q>", list(&[("q", "a <b>c</b>")])),
            ("<q>a</q> text", None),
            ("text <q>a</q>", None),
            ("<q>a", None),
            ("<q lang=\"x\">a</q>", None),
            ("<other>a</other>", None),
            ("<!-- x --><q>a</q>", None),
            ("<!DOCTYPE q [<!ENTITY x \"y\">]><q>&x;</q>", None),
        ] {
            assert_eq!(read(body), want, "{body}");
        }
    }

    #[test]
    fn cdata_is_unwrapped_and_not_decoded() {
        for (raw, want) in [
            ("<![CDATA[x</tool>y]]>", "x</tool>y"),
            ("a &amp; <![CDATA[b &amp; c]]> &lt;", "a & b &amp; c <"),
            ("<![CDATA[]]><![CDATA[a]]]]>", "a]]"),
            ("<![CDATA[open &amp;", "<![CDATA[open &"),
        ] {
            assert_eq!(plain_text(raw), want);
        }
    }
}
