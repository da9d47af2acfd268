//! HTML to Markdown: what a reader of the page reads. Scripts, styles, navigation, banners and hidden elements
//! are dropped; headings, lists, tables and `pre` keep their structure, so that the chunker sees it.
//!
//! The page is read as a stream of tags with a stack of open elements; no tree is built. So depth costs no call
//! stack, a mis-nested page cannot multiply its nodes, and work stays linear.

mod attributes;
mod line;
mod links;
mod page;
mod rules;
mod table;
mod walk;

pub use links::{Links, links};
pub(super) use rules::is_element;

use super::ExtractError;
use html5ever::TokenizerResult;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{BufferQueue, Tokenizer, TokenizerOpts};
use walk::Walk;

/// The page as Markdown, and its title.
pub(super) fn read(html: &str, notes: &mut Vec<String>) -> Result<(String, Option<String>), ExtractError> {
    let walked = walk(html)?;
    let title = walked.title();
    let chosen = page::choose(walked.blocks);
    if chosen.dropped > 0 {
        notes.push(format!("{} characters of navigation and other page furniture left out", chosen.dropped));
    }
    let title = title.or_else(|| chosen.first_heading.clone());
    Ok((chosen.text, title))
}

/// A piece of HTML inside Markdown: its text, with nothing judged to be page furniture.
pub(super) fn fragment(html: &str) -> Result<String, ExtractError> {
    Ok(page::all(&walk(html)?.blocks))
}

/// Bytes fed at once; between two pieces a page that is nested too deep is given up.
const PIECE: usize = 16 << 10;

fn walk(html: &str) -> Result<walk::Walked, ExtractError> {
    let html = attributes::limit(html);
    let tokenizer = Tokenizer::new(Walk::new(&html), TokenizerOpts::default());
    let input = BufferQueue::default();
    let mut rest: &str = &html;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE.min(rest.len())));
        rest = after;
        input.push_back(StrTendril::from_slice(piece));
        while !matches!(tokenizer.feed(&input), TokenizerResult::Done) {}
        tokenizer.sink.check_depth()?;
    }
    tokenizer.end();
    tokenizer.sink.check_depth()?;
    Ok(tokenizer.sink.finish())
}

#[cfg(test)]
mod tests;
