//! The text between the tags, as blocks.

use super::super::line;
use super::super::page::{Block, Form, Place};
use super::super::rules::Role;
use super::{SEARCH, State};

/// List markers are indented for this many levels.
const MOST_INDENT: usize = 8;

impl State {
    pub(super) fn void(&mut self, name: &str) {
        if self.dropping > 0 {
            return;
        }
        match name {
            "br" => self.line.end(self.pres > 0),
            "hr" => {
                self.close_first(&["p"], &["button", "td", "th", "table", "caption"]);
                self.flush();
            }
            _ => {}
        }
    }

    pub(super) fn text(&mut self, text: &str) {
        if self.in_title {
            self.title.push_str(text);
        }
        if self.dropping > 0 {
            return;
        }
        self.line.push(text, self.pres > 0, self.links > 0);
    }

    pub(super) fn place(&self) -> Place {
        if self.furniture > 0 {
            Place::Furniture
        } else if self.main > 0 {
            Place::Main
        } else if self.article > 0 {
            Place::Article
        } else if self.doubtful > 0 {
            Place::Doubtful
        } else {
            Place::Page
        }
    }

    pub(super) fn item_marker(&mut self) -> String {
        let list = self.open.iter_mut().rev().take(SEARCH).find(|open| matches!(open.role, Role::List { .. }));
        match list {
            Some(list) if list.role == (Role::List { ordered: true }) => {
                list.number += 1;
                format!("{}. ", list.number)
            }
            _ => "- ".to_owned(),
        }
    }

    /// Makes a block of the text since the last one.
    pub(super) fn flush(&mut self) {
        let (line, link_chars) = self.line.take();
        let text = if self.pres > 0 { line.trim_matches('\n') } else { line.trim() };
        if text.trim().is_empty() {
            return;
        }
        let chars = text.chars().count();
        let (form, text) = match (self.heading, self.pres > 0) {
            (_, true) => (Form::Pre, line::fenced(text)),
            (Some(level), false) => {
                let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
                (Form::Heading, format!("{} {line}", "#".repeat(usize::from(level))))
            }
            (None, false) if self.lists > 0 => {
                let indent = "  ".repeat((self.lists - 1).min(MOST_INDENT));
                let marker = self.marker.take().unwrap_or_else(|| "  ".to_owned());
                (Form::Item, format!("{indent}{marker}{}", text.replace('\n', &format!("\n{indent}  "))))
            }
            (None, false) => (Form::Paragraph, text.to_owned()),
        };
        let place = self.place();
        self.blocks.push(Block { text, form, place, chars, link_chars });
    }
}
