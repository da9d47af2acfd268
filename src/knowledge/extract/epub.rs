//! Books: the chapters in reading order, read as the pages of HTML that they are.

use super::ExtractError;
use super::archive::{Archive, resolve};
use super::html;
use super::markup::{Token, Tokens};
use percent_encoding::percent_decode_str;
use std::collections::{HashMap, HashSet};

pub(super) fn read(
    archive: &mut Archive<'_>,
    notes: &mut Vec<String>,
) -> Result<(String, Option<String>), ExtractError> {
    let container = archive.must("META-INF/container.xml")?;
    let package = first_attribute(&container, "rootfile", "full-path")?;
    let package = package.ok_or_else(|| ExtractError::Corrupt("the book does not say where it begins".to_owned()))?;
    let xml = archive.must(&package)?;
    let folder = package.rsplit_once('/').map_or("", |(folder, _)| folder);
    let book = contents(&xml, folder)?;
    // Fonts may be scrambled; a book that is, cannot be read.
    let scrambled = archive.xml("META-INF/encryption.xml")?.unwrap_or_default();
    let scrambled = scrambled_files(&scrambled)?;
    if archive.has("META-INF/rights.xml") || book.chapters.iter().any(|chapter| scrambled.contains(&chapter.path)) {
        return Err(ExtractError::Encrypted);
    }
    let mut out = String::new();
    for Chapter { path, is_contents } in &book.chapters {
        let Some(page) = archive.xml(path)? else {
            notes.push(format!("the chapter {path} is missing"));
            continue;
        };
        // Nothing in a chapter is page furniture: an aside is a footnote. A list of the chapters says nothing new.
        let text = if *is_contents { html::read(&page, &mut Vec::new())?.0 } else { html::fragment(&page)? };
        if text.trim().is_empty() {
            continue;
        }
        if !out.is_empty() {
            out.push_str("\n\n");
        }
        out.push_str(text.trim());
        archive.budget.check_text(out.len())?;
    }
    Ok((out, book.title))
}

struct Book {
    title: Option<String>,
    chapters: Vec<Chapter>,
}

struct Chapter {
    path: String,
    /// It holds the book's table of contents.
    is_contents: bool,
}

/// The title, and the paths of the chapters in their order.
fn contents(xml: &str, folder: &str) -> Result<Book, ExtractError> {
    let mut title = None;
    let mut files: HashMap<String, Chapter> = HashMap::new();
    let mut order = Vec::new();
    let mut tokens = Tokens::new(xml);
    while let Some(token) = tokens.next()? {
        let Token::Open(tag) = token else { continue };
        match tag.name() {
            "title" if title.is_none() => title = Some(tokens.text()?.trim().to_owned()),
            "item" => {
                if let (Some(id), Some(href)) = (tag.get("id"), tag.get("href")) {
                    let href = percent_decode_str(&href).decode_utf8_lossy().into_owned();
                    let properties = tag.get("properties").unwrap_or_default();
                    let is_contents = properties.split_whitespace().any(|property| property == "nav");
                    files.insert(id, Chapter { path: resolve(folder, &href), is_contents });
                }
            }
            "itemref" => order.extend(tag.get("idref")),
            _ => {}
        }
    }
    // A chapter that is named twice is read once.
    let chapters = order.iter().filter_map(|id| files.remove(id)).collect();
    Ok(Book { title: title.filter(|title| !title.is_empty()), chapters })
}

/// What is encrypted, as paths from the book's root.
fn scrambled_files(xml: &str) -> Result<HashSet<String>, ExtractError> {
    let mut found = HashSet::new();
    let mut tokens = Tokens::new(xml);
    while let Some(token) = tokens.next()? {
        if let Token::Open(tag) = token
            && tag.name() == "CipherReference"
            && let Some(path) = tag.get("URI")
        {
            found.insert(resolve("", &percent_decode_str(&path).decode_utf8_lossy()));
        }
    }
    Ok(found)
}

fn first_attribute(xml: &str, element: &str, attribute: &str) -> Result<Option<String>, ExtractError> {
    let mut tokens = Tokens::new(xml);
    while let Some(token) = tokens.next()? {
        if let Token::Open(tag) = token
            && tag.name() == element
        {
            return Ok(tag.get(attribute));
        }
    }
    Ok(None)
}
