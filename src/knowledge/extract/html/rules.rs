//! What an element is to a reader: kept, dropped, or doubtful; which tags close which.

use super::page::{Block, Form, Place};
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
    /// A page's menus and footer: shown where there is nothing at all.
    Furniture,
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
        "select" | "button" | "textarea" | "datalist" | "del" | "rt" | "rp" | "title" => Role::Drop,
        "nav" | "footer" | "menu" => Role::Furniture,
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

/// Elements that are only part of a line.
const PHRASES: &str = "a abbr acronym b bdi bdo big blink cite code colgroup data dfn em font i img input ins kbd label map mark \
     marquee math meter nobr object output picture progress q ruby s samp slot small span strike strong sub sup svg \
     time tt u var";

/// Whether HTML knows an element of this name, in lower case.
pub(in super::super) fn is_element(name: &str) -> bool {
    role(name) != Role::Inline || is_void(name) || raw_kind(name).is_some() || PHRASES.split(' ').any(|one| one == name)
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
            | Role::Furniture
            | Role::Heading(_)
            | Role::Pre
            | Role::List { .. }
            | Role::Item
            | Role::Table => true,
            Role::Block => !matches!(name, "caption" | "thead" | "tbody" | "tfoot" | "legend" | "option" | "optgroup"),
            Role::Drop | Role::Inline | Role::Link | Role::Row | Role::Cell { .. } => false,
        }
}

/// A start tag that no button or list of choices holds: one that was not closed ends there.
pub(super) fn closes_control(role: Role, name: &str) -> bool {
    matches!(role, Role::Main | Role::Article | Role::Heading(_) | Role::List { .. } | Role::Table)
        || matches!(name, "p" | "section")
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

/// Hidden by attribute, inline style or one of the usual classes.
pub(super) fn is_hidden(tag: &Tag, name: &str) -> bool {
    tag.attrs.iter().any(|attribute| {
        let value = attribute.value.trim();
        match &*attribute.name.local {
            "hidden" => !value.eq_ignore_ascii_case("until-found"),
            "aria-hidden" => value.eq_ignore_ascii_case("true"),
            "style" => value.split(';').any(hides),
            _ => false,
        }
    }) || tokens(tag, "class").any(|class| matches!(class, "sr-only" | "visually-hidden" | "screen-reader-text"))
        || (name == "dialog" && !tag.attrs.iter().any(|a| &*a.name.local == "open"))
}

fn hides(declaration: &str) -> bool {
    let Some((property, value)) = declaration.split_once(':') else { return false };
    let value = value.trim().trim_end_matches("!important").trim_end();
    let is = |p: &str, v: &str| property.trim().eq_ignore_ascii_case(p) && value.eq_ignore_ascii_case(v);
    is("display", "none") || is("visibility", "hidden") || is("visibility", "collapse")
}

/// What an element's ARIA role makes of it.
pub(super) fn aria_role(tag: &Tag) -> Option<Role> {
    const FURNITURE: &[&str] =
        &["navigation", "contentinfo", "search", "dialog", "alertdialog", "menu", "menubar", "toolbar", "tablist"];
    let role = tag.attrs.iter().find(|a| &*a.name.local == "role")?.value.trim().to_ascii_lowercase();
    match role.as_str() {
        "banner" | "complementary" => Some(Role::Doubtful),
        role if FURNITURE.contains(&role) => Some(Role::Furniture),
        _ => None,
    }
}

/// Page furniture by its class or id. It is a suspicion only: an article may well be about cookies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Suspicion {
    of: Suspected,
    /// Only a section's id says so, and that may be the anchor of its heading.
    is_anchor: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suspected {
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
        let is_content = |b: &Block| {
            b.place >= Place::Article || b.text.starts_with("# ") || (self.is_anchor && b.form == Form::Heading)
        };
        !inside.iter().any(is_content)
            && match self.of {
                Suspected::Banner => chars <= BANNER_CHARS,
                Suspected::Links => link_chars * 2 > chars,
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
    let of = |attribute: &str| {
        let words: Vec<String> = tokens(tag, attribute).flat_map(words).collect();
        let any = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
        match (any(BANNERS), any(LINKS)) {
            (true, _) => Some(Suspected::Banner),
            (false, true) => Some(Suspected::Links),
            (false, false) => None,
        }
    };
    match (of("class"), of("id")) {
        (None, None) => None,
        (None, Some(of)) => Some(Suspicion { of, is_anchor: &*tag.name == "section" }),
        (Some(Suspected::Links), Some(of)) | (Some(of), _) => Some(Suspicion { of, is_anchor: false }),
    }
}

fn tokens<'t>(tag: &'t Tag, attribute: &'t str) -> impl Iterator<Item = &'t str> {
    let named = tag.attrs.iter().filter(move |a| &*a.name.local == attribute);
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
