//! The stream of tags to blocks. Keeps a stack of open elements, as a browser does, but no tree.
//! Invariant: work per tag is bounded (searches down the stack end after [`SEARCH`] elements).

mod text;

use super::super::ExtractError;
use super::line::Line;
use super::page::{Block, Place};
use super::rules::{self, Role, Suspicion};
use super::table::{Cell, MOST_COLUMNS, MOST_ROWS, TableFrame};
use html5ever::tokenizer::{Tag, TagKind, Token, TokenSink, TokenSinkResult};
use html5ever::{LocalName, local_name};
use std::cell::RefCell;
use std::collections::HashMap;

/// Open elements beyond this are refused.
const MOST_OPEN: usize = 65_536;
/// How far down the stack a tag looks for the element it closes.
const SEARCH: usize = 512;
/// Tables in tables beyond this are read as blocks.
const MOST_TABLES: usize = 16;

/// What a page held.
pub(super) struct Walked {
    pub blocks: Vec<Block>,
    title: String,
}

impl Walked {
    pub fn title(&self) -> Option<String> {
        let title = self.title.split_whitespace().collect::<Vec<_>>().join(" ");
        (!title.is_empty()).then_some(title)
    }
}

/// The tokenizer hands out `&self`; one thread walks.
pub(super) struct Walk {
    state: RefCell<State>,
}

#[derive(Debug)]
struct Open {
    name: LocalName,
    role: Role,
    /// Starts a part in which nothing is shown.
    drops: bool,
    /// Why this element may be page furniture.
    suspect: Option<Suspicion>,
    /// Blocks there were when it began.
    from: usize,
    /// A table cell's spans.
    cell: Option<(usize, usize)>,
    /// The element's number among the list items of its list.
    number: usize,
}

#[derive(Debug, Default)]
struct State {
    /// XML syntax: a tag may close itself.
    xml: bool,
    open: Vec<Open>,
    counts: HashMap<LocalName, usize>,
    too_deep: bool,
    dropping: usize,
    main: usize,
    article: usize,
    doubtful: usize,
    furniture: usize,
    links: usize,
    pres: usize,
    lists: usize,
    heading: Option<u8>,
    tables: Vec<(TableFrame, bool)>,
    blocks: Vec<Block>,
    line: Line,
    /// The marker of a list item that has no text yet.
    marker: Option<String>,
    title: String,
    in_title: bool,
    title_done: bool,
    repeat_budget: usize,
}

impl Walk {
    pub fn new(html: &str) -> Self {
        let xml = html.trim_start().starts_with("<?xml");
        Self { state: RefCell::new(State { xml, repeat_budget: html.len(), ..State::default() }) }
    }

    pub fn check_depth(&self) -> Result<(), ExtractError> {
        if self.state.borrow().too_deep { Err(ExtractError::TooDeep(MOST_OPEN)) } else { Ok(()) }
    }

    pub fn finish(self) -> Walked {
        let mut state = self.state.into_inner();
        let unclosed = state.open.iter().find(|open| open.role == Role::Furniture);
        let unclosed = unclosed.map(|open| (open.from, &*open.name == "footer"));
        state.pop_to(0);
        state.flush();
        if let Some((from, is_footer)) = unclosed {
            let from = from.min(state.blocks.len());
            let (before, after) = state.blocks.split_at_mut(from);
            let chars = |blocks: &[Block]| blocks.iter().map(|b| b.chars).sum::<usize>();
            // A menu that never ends was not closed where it should have been: what follows it is the page. A footer
            // may just be the end of it.
            if !is_footer || chars(&*after) > chars(&*before) {
                after.iter_mut().for_each(|block| block.place = block.place.max(Place::Page));
            }
        }
        Walked { blocks: state.blocks, title: state.title }
    }
}

impl TokenSink for Walk {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let mut state = self.state.borrow_mut();
        match token {
            Token::CharacterTokens(text) => state.text(&text),
            Token::TagToken(tag) if tag.kind == TagKind::StartTag => return state.start(&tag),
            Token::TagToken(tag) => state.end(&tag.name),
            Token::DoctypeToken(_)
            | Token::CommentToken(_)
            | Token::NullCharacterToken
            | Token::EOFToken
            | Token::ParseError(_) => {}
        }
        TokenSinkResult::Continue
    }
}

impl State {
    fn start(&mut self, tag: &Tag) -> TokenSinkResult<()> {
        let name: &str = &tag.name;
        let raw = match rules::raw_kind(name) {
            Some(kind) => TokenSinkResult::RawData(kind),
            None if name == "plaintext" => TokenSinkResult::Plaintext,
            None => TokenSinkResult::Continue,
        };
        if rules::is_void(name) {
            self.void(name);
            return TokenSinkResult::Continue;
        }
        let mut role = rules::role(name);
        if matches!(role, Role::Block | Role::Inline | Role::Doubtful) {
            role = rules::aria_role(tag).unwrap_or(role);
        }
        // Rows outside of a table, and tables that are nested too deep, are just blocks.
        let is_flat = match role {
            Role::Table => self.tables.len() >= MOST_TABLES,
            Role::Row | Role::Cell { .. } => {
                self.tables.len() != self.counts.get(&local_name!("table")).copied().unwrap_or(0)
                    || self.tables.is_empty()
            }
            _ => false,
        };
        if is_flat {
            role = Role::Block;
        }
        if rules::closes_paragraph(role, name) {
            self.close_first(&["p"], &["button", "td", "th", "table", "caption"]);
        }
        if matches!(role, Role::Heading(_))
            && self.open.last().is_some_and(|open| matches!(open.role, Role::Heading(_)))
        {
            self.pop_to(self.open.len() - 1);
        }
        if rules::closes_control(role, name) {
            self.close_first(&["button", "select", "datalist"], &["table"]);
        }
        if let Some((names, stops)) = rules::implied_ends(name) {
            self.close_first(names, stops);
        }
        let is_foreign = self.is_open(&local_name!("svg")) || self.is_open(&local_name!("math"));
        let self_closed = tag.self_closing && (self.xml || is_foreign);
        if self_closed {
            // Nothing can be in it, so raw text must not begin either.
            return TokenSinkResult::Continue;
        }
        if self.open.len() >= MOST_OPEN {
            self.too_deep = true;
            return TokenSinkResult::Continue;
        }
        self.push(tag, role);
        raw
    }

    fn push(&mut self, tag: &Tag, role: Role) {
        let name: &str = &tag.name;
        let is_root = matches!(name, "html" | "body" | "head");
        let drops = role == Role::Drop || (!is_root && rules::is_hidden(tag, name));
        if !matches!(role, Role::Inline | Role::Link | Role::Drop) {
            self.flush();
        }
        let shown = self.dropping == 0 && !drops;
        let may_be_furniture =
            !is_root && matches!(role, Role::Block | Role::Doubtful | Role::List { .. } | Role::Item | Role::Table);
        let suspect = if shown && may_be_furniture { rules::suspicion(tag) } else { None };
        let from = self.blocks.len();
        let mut open = Open { name: tag.name.clone(), role, drops, suspect, from, cell: None, number: 0 };
        self.dropping += usize::from(drops);
        self.in_title = name == "title" && !self.title_done && !self.is_open(&local_name!("svg"));
        match role {
            Role::Main => self.main += 1,
            Role::Article => self.article += 1,
            Role::Doubtful => self.doubtful += 1,
            Role::Furniture => self.furniture += 1,
            Role::Link => self.links += 1,
            Role::Pre => self.pres += 1,
            Role::List { .. } => self.lists += 1,
            Role::Heading(level) => self.heading = Some(level),
            Role::Item if shown => self.marker = Some(self.item_marker()),
            Role::Table => {
                let presentation =
                    tag.attrs.iter().any(|a| &*a.name.local == "role" && matches!(&*a.value, "presentation" | "none"));
                self.tables.push((TableFrame::default(), presentation));
            }
            Role::Row => {
                if let Some((table, _)) = self.tables.last_mut() {
                    table.row();
                }
            }
            Role::Cell { .. } => {
                let span = |key: &str, most: usize| {
                    let value = tag.attrs.iter().find(|a| &*a.name.local == key);
                    value.and_then(|a| a.value.trim().parse::<usize>().ok()).unwrap_or(1).clamp(1, most)
                };
                open.cell = Some((span("colspan", MOST_COLUMNS), span("rowspan", MOST_ROWS)));
            }
            Role::Inline | Role::Block | Role::Drop | Role::Item => {}
        }
        *self.counts.entry(tag.name.clone()).or_default() += 1;
        self.open.push(open);
    }

    fn end(&mut self, name: &LocalName) {
        match &**name {
            "br" => return self.void("br"),
            // What follows them still belongs to the page.
            "html" | "body" => return,
            _ => {}
        }
        if !self.is_open(name) {
            return;
        }
        let is_table_part = matches!(&**name, "table" | "thead" | "tbody" | "tfoot" | "tr" | "td" | "th" | "caption");
        let is_inline = rules::is_phrasing(name, rules::role(name));
        for (at, open) in self.open.iter().enumerate().rev().take(SEARCH) {
            if open.name == *name {
                self.pop_to(at);
                return;
            }
            let stops = match &*open.name {
                "table" => true,
                "td" | "th" | "caption" => !is_table_part,
                _ => is_inline && !rules::is_phrasing(&open.name, open.role),
            };
            if stops {
                return;
            }
        }
    }

    /// Closes the nearest open element of these names, unless a stop is nearer.
    fn close_first(&mut self, names: &[&str], stops: &[&str]) {
        if !names.iter().any(|name| self.is_open(&LocalName::from(*name))) {
            return;
        }
        for (at, open) in self.open.iter().enumerate().rev().take(SEARCH) {
            if names.contains(&&*open.name) {
                self.pop_to(at);
                return;
            }
            if stops.contains(&&*open.name) {
                return;
            }
        }
    }

    fn pop_to(&mut self, depth: usize) {
        while self.open.len() > depth {
            let Some(open) = self.open.pop() else { return };
            if let Some(count) = self.counts.get_mut(&open.name) {
                *count -= 1;
            }
            self.close(open);
        }
    }

    fn close(&mut self, open: Open) {
        if !matches!(open.role, Role::Inline | Role::Link | Role::Drop) {
            self.flush();
        }
        self.dropping -= usize::from(open.drops);
        match open.role {
            Role::Main => self.main -= 1,
            Role::Article => self.article -= 1,
            Role::Doubtful => self.doubtful -= 1,
            Role::Furniture => self.furniture -= 1,
            Role::Link => self.links -= 1,
            Role::Pre => self.pres -= 1,
            Role::List { .. } => self.lists -= 1,
            Role::Heading(_) => self.heading = None,
            Role::Item => self.marker = None,
            Role::Table => {
                if let Some((table, presentation)) = self.tables.pop() {
                    let place = self.place();
                    self.blocks.extend(table.finish(place, presentation, &mut self.repeat_budget));
                }
            }
            Role::Cell { header } => {
                if let (Some((columns, rows)), Some((table, _))) = (open.cell, self.tables.last_mut()) {
                    let inside = self.blocks.split_off(open.from.min(self.blocks.len()));
                    // Furniture is no part of a row.
                    let (aside, blocks) = inside.into_iter().partition(|block| block.place == Place::Furniture);
                    self.blocks.extend::<Vec<Block>>(aside);
                    table.cell(Cell { blocks, header, columns, rows });
                }
            }
            Role::Drop => {
                if self.in_title {
                    self.in_title = false;
                    self.title_done = true;
                }
            }
            Role::Inline | Role::Block | Role::Row => {}
        }
        if let Some(why) = open.suspect {
            let inside = self.blocks.get_mut(open.from..).unwrap_or_default();
            if why.holds(inside) {
                inside.iter_mut().for_each(|block| block.place = Place::Furniture);
            }
        }
    }

    fn is_open(&self, name: &LocalName) -> bool {
        self.counts.get(name).is_some_and(|count| *count > 0)
    }
}
