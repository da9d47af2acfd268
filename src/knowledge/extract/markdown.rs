//! Markdown: front matter gives the title and metadata and goes, comments and tags go, the text of raw HTML stays.
//! What is inside code is left alone, because the same parser that chunks the text says what is code.

use super::{ExtractError, front_matter, html};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use serde_json::{Map, Value};
use std::ops::Range;

/// The title is looked for in this many bytes.
const TITLE_WITHIN: usize = 64 << 10;

/// A Markdown file, read.
pub(super) struct Page {
    pub text: String,
    pub title: Option<String>,
    /// From its front matter.
    pub fields: Map<String, Value>,
}

pub(super) fn read(text: &str, notes: &mut Vec<String>) -> Result<Page, ExtractError> {
    let (front, body) = front_matter::split(text);
    let said = front.map(|front| front.read()).unwrap_or_default();
    if !said.left_out.is_empty() {
        notes.push(format!("too large for metadata and left out: {}", said.left_out.join(", ")));
    }
    let body = without_html(body)?;
    let start = body.find(|c: char| c != '\n').unwrap_or(body.len());
    let text = body.get(start..).unwrap_or_default().trim_end().to_owned();
    let title = said.title.or_else(|| first_heading(&text));
    Ok(Page { text, title, fields: said.fields })
}

/// The text of the first heading, its markup left out.
pub(super) fn first_heading(text: &str) -> Option<String> {
    let start = text.get(..text.floor_char_boundary(TITLE_WITHIN.min(text.len())))?;
    let mut heading: Option<String> = None;
    for event in Parser::new_ext(start, Options::ENABLE_TABLES) {
        match (event, &mut heading) {
            (Event::Start(Tag::Heading { .. }), _) => heading = Some(String::new()),
            (Event::End(TagEnd::Heading(_)), Some(found)) if found.trim().is_empty() => heading = None,
            (Event::End(TagEnd::Heading(_)), Some(found)) => {
                return Some(found.split_whitespace().collect::<Vec<_>>().join(" "));
            }
            (Event::Text(piece) | Event::Code(piece), Some(found)) => found.push_str(&piece),
            (Event::SoftBreak | Event::HardBreak, Some(found)) => found.push(' '),
            _ => {}
        }
    }
    None
}

/// The text with HTML blocks replaced by what they say and inline tags left out.
fn without_html(text: &str) -> Result<String, ExtractError> {
    if !text.contains('<') {
        return Ok(text.to_owned());
    }
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    let mut hidden_until: Option<String> = None;
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::HtmlBlock) if range.start >= done => {
                let block = text.get(range.clone()).unwrap_or_default();
                if is_placeholder(block.lines().next().unwrap_or_default().trim()) {
                    continue;
                }
                copy(&mut out, text, done..range.start);
                out.push_str(&block_text(block)?);
                if block.ends_with('\n') {
                    out.push('\n');
                }
                done = range.end;
            }
            Event::InlineHtml(tag) if hidden_until.is_none() && is_placeholder(&tag) => {}
            Event::InlineHtml(tag) if range.start >= done => {
                match hidden_until.take() {
                    None => copy(&mut out, text, done..range.start),
                    // What a script or style says goes with its tags.
                    Some(closer) if tag.to_ascii_lowercase().starts_with(&closer) => {}
                    still => hidden_until = still,
                }
                let lower = tag.to_ascii_lowercase();
                if lower.starts_with("<br") {
                    out.push(' ');
                } else if let Some(name) = ["script", "style"]
                    .iter()
                    .find(|name| lower.strip_prefix('<').is_some_and(|t| t.starts_with(**name)))
                {
                    hidden_until = Some(format!("</{name}"));
                }
                done = range.end;
            }
            Event::End(TagEnd::Paragraph | TagEnd::Heading(_)) => hidden_until = None,
            _ => {}
        }
    }
    copy(&mut out, text, done..text.len());
    Ok(out)
}

/// `<your-name>`, `List<String>`: a word in angle brackets that HTML does not know is one for the reader.
fn is_placeholder(tag: &str) -> bool {
    let inside = tag.strip_prefix('<').and_then(|rest| rest.strip_suffix('>'));
    let name = inside.map(|inside| inside.strip_prefix('/').unwrap_or(inside)).unwrap_or_default();
    let is_word = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    is_word && !html::is_element(&name.to_ascii_lowercase())
}

fn copy(out: &mut String, text: &str, range: Range<usize>) {
    out.push_str(text.get(range).unwrap_or_default());
}

/// What an HTML block says. One that is never closed reaches to the end of the text: that was no block, so only
/// its opening tag goes.
fn block_text(block: &str) -> Result<String, ExtractError> {
    let start = block.trim_start();
    let lower = start.get(..start.floor_char_boundary(9)).unwrap_or(start).to_ascii_lowercase();
    let closers = [("<!--", "-->"), ("<script", "</script"), ("<style", "</style"), ("<![cdata[", "]]>"), ("<?", "?>")];
    for (opener, closer) in closers {
        if lower.starts_with(opener) && !block.to_ascii_lowercase().contains(closer) {
            return Ok(start.get(opener.len()..).unwrap_or_default().trim_start_matches('>').to_owned());
        }
    }
    html::fragment(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &str, expected: &str, title: Option<&str>) {
        let found = read(input, &mut Vec::new()).unwrap();
        assert_eq!((found.text.as_str(), found.title.as_deref()), (expected, title), "{input:?}");
    }

    #[test]
    fn front_matter_gives_the_title_and_goes() {
        check(
            "---\ntitle: Siren policy\ntags: [a, b]\ndraft: false\n---\n\n# Other\n\nText.\n",
            "# Other\n\nText.",
            Some("Siren policy"),
        );
        check("---\ntitle: \"A: \\\"b\\\"\" # c\nlist:\n  - x\n- y\n...\nText", "Text", Some("A: \"b\""));
        check("+++\ntitle = 'T'\n[extra]\n+++\nText", "Text", Some("T"));
        check(
            "---\nA rule above a paragraph.\n---\nText",
            "---\nA rule above a paragraph.\n---\nText",
            Some("A rule above a paragraph."),
        );
        check("---\ntitle: never closed\n", "---\ntitle: never closed", None);
    }

    #[test]
    fn html_goes_and_its_text_stays() {
        check("a <!-- zinc --> b", "a  b", None);
        check("x\n\n<!-- zinc\n\nlead -->\n\ny", "x\n\n\n\ny", None);
        check("<h1 align=center>Name</h1>\n\nText", "# Name\n\nText", Some("Name"));
        check("<details>\n<summary>More</summary>\n\nHidden *text*\n\n</details>\n", "More\n\nHidden *text*", None);
        check("a<br>b <b>c</b> <script>no</script>d", "a b c d", None);
        check("`<b>` and\n\n```\n<!-- code -->\n```", "`<b>` and\n\n```\n<!-- code -->\n```", None);
        check(
            "run foo <file> as <your-name> with List<String>",
            "run foo <file> as <your-name> with List<String>",
            None,
        );
        check("<file>\n\nthen <b>", "<file>\n\nthen", None);
        check("see <https://example.org> now, 1 < 2", "see <https://example.org> now, 1 < 2", None);
        check("<table><tr><th>A<th>B<tr><td>1<td>2</table>\n", "| A | B |\n| --- | --- |\n| 1 | 2 |", None);
        check("start\n\n<!-- never closed\n\n# Title\n", "start\n\n never closed\n\n# Title", Some("Title"));
    }

    #[test]
    fn both_heading_forms_give_a_title() {
        check("Main *title*\n====\n\nx", "Main *title*\n====\n\nx", Some("Main title"));
        check("text\n\n## `b` c ##\n", "text\n\n## `b` c ##", Some("b c"));
    }
}
