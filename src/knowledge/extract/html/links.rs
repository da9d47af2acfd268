//! Where a page leads: the targets of its links as they are written, and whether it wants to be followed and kept.

use html5ever::TokenizerResult;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts};
use std::cell::RefCell;

use super::{attributes, rules};

/// Links of one page that are looked at.
const MOST: usize = 5_000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// What relative targets are relative to, where the page says so.
    pub base: Option<String>,
    /// As written, in order; those that are not to be followed are left out.
    pub targets: Vec<String>,
    /// `<meta name="robots" content="noindex">`.
    pub no_index: bool,
    /// The same of `nofollow`; then there are no targets.
    pub no_follow: bool,
}

/// The links of a page of HTML. Linear in its length.
pub fn links(html: &str) -> Links {
    let html = attributes::limit(html);
    let tokenizer = Tokenizer::new(Finder::default(), TokenizerOpts::default());
    let input = BufferQueue::default();
    input.push_back(StrTendril::from_slice(&html));
    while !matches!(tokenizer.feed(&input), TokenizerResult::Done) {}
    tokenizer.end();
    let mut found = tokenizer.sink.found.into_inner();
    if found.no_follow {
        found.targets.clear();
    }
    found
}

/// The tokenizer hands out `&self`; one thread looks.
#[derive(Default)]
struct Finder {
    found: RefCell<Links>,
}

impl TokenSink for Finder {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        if let Token::TagToken(tag) = token
            && tag.kind == TagKind::StartTag
        {
            self.found.borrow_mut().tag(&tag);
            // What a script writes is no markup yet.
            if let Some(kind) = rules::raw_kind(&tag.name) {
                return TokenSinkResult::RawData(kind);
            }
        }
        TokenSinkResult::Continue
    }
}

impl Links {
    fn tag(&mut self, tag: &Tag) {
        let get = |name: &str| {
            tag.attrs
                .iter()
                .find(|attribute| &*attribute.name.local == name)
                .map(|attribute| attribute.value.to_string())
        };
        match &*tag.name {
            "a" | "area" if self.targets.len() < MOST => {
                let is_followed = !get("rel")
                    .unwrap_or_default()
                    .split_whitespace()
                    .any(|word| word.eq_ignore_ascii_case("nofollow"));
                self.targets
                    .extend(get("href").map(|href| href.trim().to_owned()).filter(|h| is_followed && !h.is_empty()));
            }
            "base" if self.base.is_none() => self.base = get("href"),
            "meta" if get("name").is_some_and(|name| name.eq_ignore_ascii_case("robots")) => {
                let rules = get("content").unwrap_or_default().to_ascii_lowercase();
                let says = |rule: &str| rules.split(',').any(|one| one.trim() == rule || one.trim() == "none");
                self.no_index |= says("noindex");
                self.no_follow |= says("nofollow");
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_as_they_are_written() {
        let page = "<base href='/docs/'><a href=' a.html '>A</a><a rel='external nofollow' href=b>B</a><a>C</a>\
                    <script>'<a href=no>'</script><area href='c?x=1&amp;y=2'>";
        let found = links(page);
        assert_eq!(found.targets, ["a.html", "c?x=1&y=2"]);
        assert_eq!((found.base.as_deref(), found.no_index), (Some("/docs/"), false));
        let closed = links("<meta name=ROBOTS content='noindex, NOFOLLOW'><a href=x>X</a>");
        assert_eq!(closed, Links { no_index: true, no_follow: true, ..Links::default() });
    }
}
