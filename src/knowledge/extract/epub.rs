//! Books: the chapters in reading order, read as the pages of HTML that they are.

use super::ExtractError;
use super::archive::{Archive, resolve};
use super::html;
use super::markup::{Token, Tokens};
use percent_encoding::percent_decode_str;
use std::collections::HashMap;

pub(super) fn read(
    archive: &mut Archive<'_>,
    notes: &mut Vec<String>,
) -> Result<(String, Option<String>), ExtractError> {
    // Fonts may be scrambled; a book that is, cannot be read.
    let scrambled = archive.xml("META-INF/encryption.xml")?.unwrap_or_default();
    if archive.has("META-INF/rights.xml") || scrambled.contains("html") {
        return Err(ExtractError::Encrypted);
    }
    let container = archive.must("META-INF/container.xml")?;
    let package = first_attribute(&container, "rootfile", "full-path")?;
    let package = package.ok_or_else(|| ExtractError::Corrupt("the book does not say where it begins".to_owned()))?;
    let xml = archive.must(&package)?;
    let folder = package.rsplit_once('/').map_or("", |(folder, _)| folder);
    let book = contents(&xml, folder)?;
    let mut out = String::new();
    for chapter in &book.chapters {
        let Some(page) = archive.xml(chapter)? else {
            notes.push(format!("the chapter {chapter} is missing"));
            continue;
        };
        let (text, _) = html::read(&page, &mut Vec::new())?;
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
    chapters: Vec<String>,
}

/// The title, and the paths of the chapters in their order.
fn contents(xml: &str, folder: &str) -> Result<Book, ExtractError> {
    let mut title = None;
    let mut files: HashMap<String, String> = HashMap::new();
    let mut order = Vec::new();
    let mut tokens = Tokens::new(xml);
    while let Some(token) = tokens.next()? {
        let Token::Open(tag) = token else { continue };
        match tag.name() {
            "title" if title.is_none() => title = Some(tokens.text()?.trim().to_owned()),
            "item" => {
                if let (Some(id), Some(href)) = (tag.get("id"), tag.get("href")) {
                    let href = percent_decode_str(&href).decode_utf8_lossy().into_owned();
                    files.insert(id, resolve(folder, &href));
                }
            }
            "itemref" => order.extend(tag.get("idref")),
            _ => {}
        }
    }
    let mut chapters: Vec<String> = Vec::new();
    // A chapter that is named twice is read once.
    for path in order.iter().filter_map(|id| files.remove(id)) {
        chapters.push(path);
    }
    Ok(Book { title: title.filter(|title| !title.is_empty()), chapters })
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
