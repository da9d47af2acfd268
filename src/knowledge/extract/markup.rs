//! XML that others wrote, as a flat stream of tags and text. Nothing is resolved but the five entities and
//! character references; no tree is built, so depth costs nothing.

use super::ExtractError;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use std::borrow::Cow;

/// What a document consists of. Names are without their prefix.
pub(super) enum Token<'a> {
    Open(Tag<'a>),
    /// Also follows the `Open` of an element that closes itself.
    Close(String),
    /// Between two tags there may be several.
    Text(Cow<'a, str>),
}

pub(super) struct Tag<'a>(BytesStart<'a>);

impl Tag<'_> {
    pub fn name(&self) -> &str {
        local(&self.0)
    }

    /// An attribute by its name without prefix.
    pub fn get(&self, name: &str) -> Option<String> {
        self.all().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    pub fn all(&self) -> impl Iterator<Item = (String, String)> {
        let mut attributes = self.0.attributes();
        attributes.with_checks(false);
        attributes.filter_map(|attribute| {
            let attribute = attribute.ok()?;
            let key: &str = attribute.key.as_ref();
            let key = key.rsplit(':').next().unwrap_or(key).to_owned();
            let value = attribute.normalized_value(XmlVersion::Implicit1_0);
            Some((key, value.map_or_else(|_| AsRef::<str>::as_ref(&attribute.value).to_owned(), Cow::into_owned)))
        })
    }

    /// An on-off element: `<w:b/>` is on, `<w:b w:val="0"/>` is off.
    pub fn is_on(&self) -> bool {
        !matches!(self.get("val").as_deref(), Some("0" | "false" | "off" | "none"))
    }
}

fn local<'t>(tag: &'t BytesStart<'_>) -> &'t str {
    let name: &str = tag;
    let name = name.split([' ', '\t', '\r', '\n', '/']).next().unwrap_or(name);
    name.rsplit(':').next().unwrap_or(name)
}

pub(super) struct Tokens<'a> {
    reader: Reader<&'a [u8]>,
    closing: Option<String>,
}

impl<'a> Tokens<'a> {
    pub fn new(xml: &'a str) -> Self {
        let mut reader = Reader::from_str(xml.trim_start_matches('\u{FEFF}'));
        let config = reader.config_mut();
        // Mended as a browser would: text is wanted, not validity.
        config.check_end_names = false;
        config.allow_unmatched_ends = true;
        config.allow_dangling_amp = true;
        Self { reader, closing: None }
    }

    /// The next token; `None` at the end.
    pub fn next(&mut self) -> Result<Option<Token<'a>>, ExtractError> {
        if let Some(name) = self.closing.take() {
            return Ok(Some(Token::Close(name)));
        }
        loop {
            let event = self.reader.read_event();
            let event = event.map_err(|error| ExtractError::Corrupt(format!("XML: {error}")))?;
            return Ok(Some(match event {
                Event::Start(tag) => Token::Open(Tag(tag)),
                Event::Empty(tag) => {
                    self.closing = Some(local(&tag).to_owned());
                    Token::Open(Tag(tag))
                }
                Event::End(end) => {
                    let name: &str = &end;
                    let name = name.trim_end();
                    Token::Close(name.rsplit(':').next().unwrap_or(name).to_owned())
                }
                Event::Text(text) => Token::Text(text.into_inner()),
                Event::CData(text) => Token::Text(text.into_inner()),
                Event::GeneralRef(reference) => Token::Text(Cow::Owned(resolved(&reference))),
                // An internal subset that declares entities wants them expanded.
                Event::DocType(doctype) if doctype.contains("<!ENTITY") => return Err(ExtractError::Entities),
                Event::DocType(_) | Event::Decl(_) | Event::PI(_) | Event::Comment(_) => continue,
                Event::Eof => return Ok(None),
            }));
        }
    }

    /// Passes over what is inside the element that has just opened.
    pub fn skip(&mut self) -> Result<(), ExtractError> {
        let mut open = 1usize;
        while open > 0 {
            match self.next()? {
                Some(Token::Open(_)) => open += 1,
                Some(Token::Close(_)) => open -= 1,
                Some(Token::Text(_)) => {}
                None => break,
            }
        }
        Ok(())
    }

    /// All text inside the element that has just opened.
    pub fn text(&mut self) -> Result<String, ExtractError> {
        let (mut out, mut open) = (String::new(), 1usize);
        while open > 0 {
            match self.next()? {
                Some(Token::Open(_)) => open += 1,
                Some(Token::Close(_)) => open -= 1,
                Some(Token::Text(text)) => out.push_str(&text),
                None => break,
            }
        }
        Ok(out)
    }
}

/// The five entities and character references; any other is left as it is written.
fn resolved(name: &str) -> String {
    let known = match name {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => name.strip_prefix('#').and_then(|number| {
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)
        }),
    };
    known.map_or_else(|| format!("&{name};"), String::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(xml: &str) -> Result<String, ExtractError> {
        let mut tokens = Tokens::new(xml);
        let mut out = String::new();
        while let Some(token) = tokens.next()? {
            match token {
                Token::Open(tag) => out.push_str(&format!("<{}>", tag.name())),
                Token::Close(name) => out.push_str(&format!("</{name}>")),
                Token::Text(text) => out.push_str(&text),
            }
        }
        Ok(out)
    }

    #[test]
    fn names_lose_their_prefix_and_only_five_entities_are_known() {
        for (xml, want) in [
            ("<w:p a='1'><w:t>x &amp; &#x41;&#66; &foo;</w:t><w:br/></w:p>", "<p><t>x & AB &foo;</t><br></br></p>"),
            ("<?xml version='1.0'?><!DOCTYPE a SYSTEM 'x'><a><!-- c --><![CDATA[<b>]]></a >", "<a><b></a>"),
            ("<a><b>open", "<a><b>open"),
            ("</z><a>AT&T</a>", "</z><a>AT&T</a>"),
        ] {
            assert_eq!(shown(xml).as_deref(), Ok(want), "{xml}");
        }
        let laughs = "<!DOCTYPE lolz [<!ENTITY lol 'lol'><!ENTITY lol2 '&lol;&lol;'>]><lolz>&lol2;</lolz>";
        assert_eq!(shown(laughs), Err(ExtractError::Entities));
    }

    #[test]
    fn attributes_are_found_without_their_prefix() {
        let mut tokens = Tokens::new("<w:style w:styleId='A&amp;B' w:type='x'/>");
        let Ok(Some(Token::Open(tag))) = tokens.next() else { panic!("no tag") };
        assert_eq!((tag.get("styleId").as_deref(), tag.get("none")), (Some("A&B"), None));
    }
}
