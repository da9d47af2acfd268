//! What an element is to a reader: kept, dropped, or doubtful; which tags close which.

use super::page::{Block, Place};
use html5ever::tokenizer::Tag;
use html5ever::tokenizer::states::RawKind;

/// How an element's start changes what is collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Part of a line of text.
    Inline,
    /// Begins and ends a paragraph.
    Block,
    /// Nothing in it is shown.
    Drop,
    Main,
    Article,
    /// A page's header or aside: shown only where there is nothing better.
    Doubtful,
    Heading(u8),
    Pre,
    List {
        ordered: bool,
    },
    Item,
    Link,
    Table,
    Row,
    Cell {
        header: bool,
    },
}

pub(super) fn role(name: &str) -> Role {
    match name {
        "script" | "style" | "noscript" | "template" | "svg" | "iframe" | "canvas" | "audio" | "video" | "embed"
        | "applet" => Role::Drop,
        "nav" | "footer" | "select" | "button" | "textarea" | "datalist" | "menu" | "del" | "rt" | "rp" | "title" => {
            Role::Drop
        }
        "annotation" | "annotation-xml" | "noframes" | "noembed" => Role::Drop,
        "main" => Role::Main,
        "article" => Role::Article,
        "header" | "aside" => Role::Doubtful,
        "h1" => Role::Heading(1),
        "h2" => Role::Heading(2),
        "h3" => Role::Heading(3),
        "h4" => Role::Heading(4),
        "h5" => Role::Heading(5),
        "h6" => Role::Heading(6),
        "pre" | "listing" | "xmp" | "plaintext" => Role::Pre,
        "ul" | "dir" => Role::List { ordered: false },
        "ol" => Role::List { ordered: true },
        "li" => Role::Item,
        "a" => Role::Link,
        "table" => Role::Table,
        "tr" => Role::Row,
        "td" => Role::Cell { header: false },
        "th" => Role::Cell { header: true },
        "html" | "head" | "body" | "address" | "blockquote" | "center" | "details" | "dialog" | "div" | "dl" | "dt"
        | "dd" | "fieldset" | "figcaption" | "figure" | "form" | "hgroup" | "p" | "search" | "section" | "summary"
        | "thead" | "tbody" | "tfoot" | "caption" | "legend" | "optgroup" | "option" | "frameset" => Role::Block,
        _ => Role::Inline,
    }
}

/// Elements that are part of a line, shown or not: their end tags do not reach through blocks.
pub(super) fn is_phrasing(name: &str, role: Role) -> bool {
    matches!(role, Role::Inline | Role::Link) || matches!(name, "del" | "rt" | "rp")
}

/// Elements without content.
pub(super) fn is_void(name: &str) -> bool {
    matches!(
        name,
        "area"
            | "base"
            | "basefont"
            | "bgsound"
            | "br"
            | "col"
            | "frame"
            | "hr"
            | "img"
            | "input"
            | "keygen"
            | "link"
            | "meta"
            | "param"
            | "source"
            | "track"
            | "wbr"
            | "embed"
    )
}

/// Elements whose content is not markup.
pub(super) fn raw_kind(name: &str) -> Option<RawKind> {
    match name {
        "title" | "textarea" => Some(RawKind::Rcdata),
        "style" | "xmp" | "iframe" | "noembed" | "noframes" | "noscript" => Some(RawKind::Rawtext),
        "script" => Some(RawKind::ScriptData),
        _ => None,
    }
}

/// A start tag that ends an open paragraph.
pub(super) fn closes_paragraph(role: Role, name: &str) -> bool {
    name == "hr"
        || match role {
            Role::Main
            | Role::Article
            | Role::Doubtful
            | Role::Heading(_)
            | Role::Pre
            | Role::List { .. }
            | Role::Item
            | Role::Table => true,
            Role::Block => !matches!(name, "caption" | "thead" | "tbody" | "tfoot" | "legend" | "option" | "optgroup"),
            Role::Drop => matches!(name, "nav" | "footer" | "menu"),
            Role::Inline | Role::Link | Role::Row | Role::Cell { .. } => false,
        }
}

/// The open elements that a start tag ends, and the ones at which the search for them stops.
pub(super) fn implied_ends(name: &str) -> Option<(&'static [&'static str], &'static [&'static str])> {
    Some(match name {
        "li" => (&["li"], &["ul", "ol", "menu", "dir", "table", "td", "th"]),
        "dt" | "dd" => (&["dt", "dd"], &["dl", "table", "td", "th"]),
        "td" | "th" => (&["td", "th", "caption"], &["tr", "table"]),
        "tr" => (&["tr", "caption"], &["thead", "tbody", "tfoot", "table"]),
        "thead" | "tbody" | "tfoot" => (&["thead", "tbody", "tfoot", "caption"], &["table"]),
        "rt" | "rp" => (&["rt", "rp"], &["ruby"]),
        _ => return None,
    })
}

/// Hidden by attribute, inline style or one of the usual classes, or no part of the page's text by its ARIA role.
pub(super) fn is_hidden(tag: &Tag, name: &str) -> bool {
    tag.attrs.iter().any(|attribute| {
        let value = attribute.value.trim();
        match &*attribute.name.local {
            "hidden" => !value.eq_ignore_ascii_case("until-found"),
            "aria-hidden" => value.eq_ignore_ascii_case("true"),
            "style" => value.split(';').any(hides),
            "role" => {
                let role = value.to_ascii_lowercase();
                matches!(
                    role.as_str(),
                    "navigation"
                        | "contentinfo"
                        | "search"
                        | "dialog"
                        | "alertdialog"
                        | "menu"
                        | "menubar"
                        | "toolbar"
                        | "tablist"
                )
            }
            _ => false,
        }
    }) || classes(tag).any(|class| matches!(class, "sr-only" | "visually-hidden" | "screen-reader-text"))
        || (name == "dialog" && !tag.attrs.iter().any(|a| &*a.name.local == "open"))
}

fn hides(declaration: &str) -> bool {
    let Some((property, value)) = declaration.split_once(':') else { return false };
    let value = value.trim().trim_end_matches("!important").trim_end();
    let is = |p: &str, v: &str| property.trim().eq_ignore_ascii_case(p) && value.eq_ignore_ascii_case(v);
    is("display", "none") || is("visibility", "hidden") || is("visibility", "collapse")
}

/// ARIA roles of a page's header and aside.
pub(super) fn is_doubtful(tag: &Tag) -> bool {
    tag.attrs.iter().any(|a| &*a.name.local == "role" && matches!(a.value.trim(), "banner" | "complementary"))
}

/// Page furniture by its class or id. It is a suspicion only: an article may well be about cookies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suspicion {
    /// Cookie banners, footers, pop-ups.
    Banner,
    /// Menus, share bars.
    Links,
}

impl Suspicion {
    /// Whether what the element held bears it out: short, no content of `main` or an article, no page title;
    /// a menu is mostly links besides.
    pub fn holds(self, inside: &[Block]) -> bool {
        const BANNER_CHARS: usize = 1500;
        let chars: usize = inside.iter().map(|b| b.chars).sum();
        let link_chars: usize = inside.iter().map(|b| b.link_chars).sum();
        let is_content = |b: &Block| b.place >= Place::Article || b.text.starts_with("# ");
        !inside.iter().any(is_content)
            && match self {
                Self::Banner => chars <= BANNER_CHARS,
                Self::Links => link_chars * 2 > chars,
            }
    }
}

pub(super) fn suspicion(tag: &Tag) -> Option<Suspicion> {
    const BANNERS: &[&str] = &[
        "cookie",
        "cookies",
        "cookiebar",
        "cookiebanner",
        "cookieconsent",
        "consent",
        "gdpr",
        "ccpa",
        "onetrust",
        "cmp",
        "footer",
        "newsletter",
        "subscribe",
        "advert",
        "advertisement",
        "ads",
        "promo",
        "popup",
        "modal",
        "imprint",
    ];
    const LINKS: &[&str] = &[
        "nav",
        "navbar",
        "navigation",
        "navmenu",
        "menu",
        "breadcrumb",
        "breadcrumbs",
        "sidebar",
        "skip",
        "skiplink",
        "share",
        "sharing",
        "social",
        "toolbar",
        "pagination",
        "pager",
        "masthead",
        "topbar",
        "header",
    ];
    let mut found = None;
    for token in classes(tag) {
        for word in words(token) {
            if BANNERS.contains(&word.as_str()) {
                return Some(Suspicion::Banner);
            }
            if LINKS.contains(&word.as_str()) {
                found = Some(Suspicion::Links);
            }
        }
    }
    found
}

fn classes(tag: &Tag) -> impl Iterator<Item = &str> {
    let named = tag.attrs.iter().filter(|a| matches!(&*a.name.local, "class" | "id"));
    named.flat_map(|a| a.value.split_ascii_whitespace().take(32))
}

/// The words in `site-Footer_linkList`, in lower case.
fn words(token: &str) -> impl Iterator<Item = String> {
    let mut words = vec![String::new()];
    let mut lower_before = false;
    for c in token.chars().take(128) {
        if !c.is_ascii_alphanumeric() || (c.is_ascii_uppercase() && lower_before) {
            words.push(String::new());
        }
        if let (true, Some(word)) = (c.is_ascii_alphanumeric(), words.last_mut()) {
            word.push(c.to_ascii_lowercase());
        }
        lower_before = c.is_ascii_lowercase();
    }
    words.into_iter()
}
