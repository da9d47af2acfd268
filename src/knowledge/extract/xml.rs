//! XML as text: what each element says, behind the element's name where it says nothing else. No document type, no
//! entities but the five.

use super::ExtractError;
use super::limits::Budget;
use super::markup::{Token, Tokens};
use super::text;

/// Open elements beyond this are refused.
const MOST_OPEN: usize = 10_000;
/// Characters of an attribute that are shown.
const ATTRIBUTE: usize = 200;

pub(super) fn read(
    source: &str,
    budget: &Budget,
    notes: &mut Vec<String>,
) -> Result<(String, Option<String>), ExtractError> {
    match lines(source, budget) {
        Ok((out, title)) if !out.trim().is_empty() => Ok((out, title)),
        Ok(_) => Ok((text::read(source.to_owned()), None)),
        Err(ExtractError::Corrupt(why)) => {
            notes.push(format!("it is not well formed ({why}) and was read as plain text"));
            Ok((text::read(source.to_owned()), None))
        }
        Err(other) => Err(other),
    }
}

/// What a sitemap lists: pages, and further sitemaps. One that cannot be read lists what could be read of it.
pub fn locations(source: &str) -> (Vec<String>, Vec<String>) {
    let (mut pages, mut maps, mut in_map) = (Vec::new(), Vec::new(), false);
    let mut tokens = Tokens::new(source);
    while let Ok(Some(token)) = tokens.next() {
        let Token::Open(tag) = token else { continue };
        match tag.name() {
            "sitemap" => in_map = true,
            "url" => in_map = false,
            "loc" => {
                let Ok(location) = tokens.text() else { break };
                let list = if in_map { &mut maps } else { &mut pages };
                list.push(location.trim().to_owned());
            }
            _ => {}
        }
    }
    (pages, maps)
}

/// An open element.
struct Open {
    name: String,
    /// Text since the last tag.
    text: String,
    has_children: bool,
}

fn lines(source: &str, budget: &Budget) -> Result<(String, Option<String>), ExtractError> {
    let mut out = String::new();
    let mut title = None;
    let mut open: Vec<Open> = Vec::new();
    let mut tokens = Tokens::new(source);
    while let Some(token) = tokens.next()? {
        match token {
            Token::Open(tag) => {
                if let Some(parent) = open.last_mut() {
                    parent.has_children = true;
                    line(&mut out, "", &std::mem::take(&mut parent.text));
                }
                if open.len() >= MOST_OPEN {
                    return Err(ExtractError::TooDeep(MOST_OPEN));
                }
                let attributes = tag.all().filter(|(key, value)| is_said(key, value));
                let attributes: Vec<String> = attributes.map(|(key, value)| format!("{key}: {value}")).collect();
                if !attributes.is_empty() {
                    line(&mut out, tag.name(), &attributes.join("; "));
                }
                open.push(Open { name: tag.name().to_owned(), text: String::new(), has_children: false });
            }
            Token::Text(text) => {
                if let Some(inner) = open.last_mut() {
                    inner.text.push_str(&text);
                }
            }
            Token::Close(_) => {
                let Some(done) = open.pop() else { continue };
                let name = if done.has_children { "" } else { done.name.as_str() };
                line(&mut out, name, &done.text);
                let is_title = title.is_none() && done.name == "title" && !done.text.trim().is_empty();
                title = if is_title { Some(one_line(&done.text)) } else { title };
                // An element that held others ends a paragraph.
                if done.has_children && !out.is_empty() && !out.ends_with("\n\n") {
                    out.push('\n');
                }
            }
        }
        budget.check_text(out.len())?;
    }
    for unfinished in open {
        line(&mut out, "", &unfinished.text);
    }
    Ok((out.trim().to_owned(), title))
}

/// Names of schemas, styles and drawing are not what a document says.
fn is_said(key: &str, value: &str) -> bool {
    let is_word = value.chars().any(char::is_alphanumeric) && value.len() <= ATTRIBUTE;
    is_word
        && !value.contains("://")
        && !matches!(key, "xmlns" | "schemaLocation" | "style" | "class" | "d" | "transform")
}

fn line(out: &mut String, name: &str, text: &str) {
    let text = one_line(text);
    if text.is_empty() {
        return;
    }
    if !name.is_empty() {
        out.push_str(name);
        out.push_str(": ");
    }
    out.push_str(&text);
    out.push('\n');
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knowledge::extract::Limits;

    fn check(source: &str, want: Result<&str, &str>) {
        let found = read(source, &Budget::new(Limits::default(), source.len()), &mut Vec::new());
        assert_eq!(found.as_ref().map(|(text, _)| text.as_str()).map_err(ExtractError::code), want, "{source}");
    }

    #[test]
    fn elements_say_their_text_behind_their_name() {
        check(
            "<?xml version='1.0'?><parts xmlns='http://x/y'><part id='A-1'><name>Bolt &amp; nut</name><qty>04</qty></part></parts>",
            Ok("part: id: A-1\nname: Bolt & nut\nqty: 04"),
        );
        check("<p>Mixed <b>text</b> here</p>", Ok("Mixed\nb: text\nhere"));
        check("<a/>", Ok("<a/>"));
        check("no xml & <", Ok("no xml & <"));
    }

    #[test]
    fn a_sitemap_lists_pages_and_sitemaps() {
        let map = "<sitemapindex><sitemap><loc> https://h/a.xml </loc></sitemap></sitemapindex>";
        assert_eq!(locations(map), (vec![], vec!["https://h/a.xml".to_owned()]));
        let map = "<urlset><url><loc>https://h/?a=1&amp;b=2</loc><lastmod>2026</lastmod></url>";
        assert_eq!(locations(map), (vec!["https://h/?a=1&b=2".to_owned()], vec![]));
    }

    #[test]
    fn entities_and_depth_end() {
        check("<!DOCTYPE a [<!ENTITY b 'x'>]><a>&b;</a>", Err("entity_declarations"));
        check(&"<a>".repeat(20_000), Err("too_deep"));
    }
}
