//! The ZIP container that office files, books and archives share. Nothing is written to disk, and a name in an
//! archive is only ever compared with names.
//!
//! Invariant: every byte that is unpacked is counted against the document's budget as it appears.

use super::limits::Budget;
use super::markup::{Token, Tokens};
use super::{ExtractError, charset};
use std::collections::HashMap;
use std::io::Cursor;
use zip::ZipArchive;
use zip::result::ZipError;

pub(super) struct Archive<'a> {
    zip: ZipArchive<Cursor<&'a [u8]>>,
    pub budget: &'a Budget,
}

/// A file in an archive.
pub(super) struct Entry {
    pub index: usize,
    /// As it is written there: with `/`, perhaps with `..`.
    pub name: String,
    pub is_encrypted: bool,
}

impl<'a> Archive<'a> {
    pub fn open(bytes: &'a [u8], budget: &'a Budget) -> Result<Self, ExtractError> {
        let zip = ZipArchive::new(Cursor::new(bytes)).map_err(damaged)?;
        budget.check_parts(zip.len())?;
        Ok(Self { zip, budget })
    }

    pub fn has(&self, name: &str) -> bool {
        self.zip.index_for_name(name).is_some()
    }

    /// All files, in the archive's order; folders and links are none.
    pub fn entries(&mut self) -> Result<Vec<Entry>, ExtractError> {
        let mut found = Vec::new();
        for index in 0..self.zip.len() {
            let file = self.zip.by_index_raw(index).map_err(damaged)?;
            if file.is_dir() || file.is_symlink() {
                continue;
            }
            let name = file.name().map_or_else(|_| String::from_utf8_lossy(file.name_raw()).into_owned(), Into::into);
            let is_encrypted = file.encrypted();
            found.push(Entry { index, name: name.replace('\\', "/"), is_encrypted });
        }
        Ok(found)
    }

    pub fn by_index(&mut self, index: usize) -> Result<Vec<u8>, ExtractError> {
        self.budget.inflate(self.zip.by_index(index).map_err(damaged)?)
    }

    /// The bytes of a file; `None` where there is none of that name.
    pub fn bytes(&mut self, name: &str) -> Result<Option<Vec<u8>>, ExtractError> {
        match self.zip.index_for_name(name) {
            Some(index) => self.by_index(index).map(Some),
            None => Ok(None),
        }
    }

    /// An XML file as text.
    pub fn xml(&mut self, name: &str) -> Result<Option<String>, ExtractError> {
        let Some(bytes) = self.bytes(name)? else { return Ok(None) };
        Ok(Some(match String::from_utf8(bytes) {
            Ok(text) => text,
            // A declared charset decides; whatever cannot be decoded is no XML.
            Err(other) => charset::decode(other.as_bytes(), None)?.text,
        }))
    }

    /// A file that the format demands.
    pub fn must(&mut self, name: &str) -> Result<String, ExtractError> {
        self.xml(name)?.ok_or_else(|| ExtractError::Corrupt(format!("its part {name} is missing")))
    }

    /// What the part `name` of an office file refers to.
    pub fn relations(&mut self, name: &str) -> Result<Relations, ExtractError> {
        let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
        let path = if folder.is_empty() { format!("_rels/{file}.rels") } else { format!("{folder}/_rels/{file}.rels") };
        let mut found = Relations::default();
        let Some(xml) = self.xml(&path)? else { return Ok(found) };
        let mut tokens = Tokens::new(&xml);
        while let Some(token) = tokens.next()? {
            let Token::Open(tag) = token else { continue };
            if tag.name() == "Relationship"
                && tag.get("TargetMode").as_deref() != Some("External")
                && let (Some(id), Some(target)) = (tag.get("Id"), tag.get("Target"))
            {
                let kind = tag.get("Type").unwrap_or_default();
                let kind = kind.rsplit('/').next().unwrap_or_default().to_owned();
                found.all.insert(id, (kind, resolve(folder, &target)));
            }
        }
        Ok(found)
    }

    /// A document's title as its properties name it.
    pub fn core_title(&mut self) -> Result<Option<String>, ExtractError> {
        let Some(xml) = self.xml("docProps/core.xml")? else { return Ok(None) };
        let mut tokens = Tokens::new(&xml);
        while let Some(token) = tokens.next()? {
            if let Token::Open(tag) = token
                && tag.name() == "title"
            {
                let title = tokens.text()?.trim().to_owned();
                return Ok((!title.is_empty()).then_some(title));
            }
        }
        Ok(None)
    }
}

/// Id to kind (the last part of its type) and path.
#[derive(Debug, Default)]
pub(super) struct Relations {
    all: HashMap<String, (String, String)>,
}

impl Relations {
    pub fn path(&self, id: &str) -> Option<&str> {
        self.all.get(id).map(|(_, path)| path.as_str())
    }

    /// All of a kind, by name.
    pub fn all_of_kind(&self, kind: &str) -> Vec<String> {
        let mut found: Vec<String> =
            self.all.values().filter(|(of, _)| of == kind).map(|(_, path)| path.clone()).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The first of a kind, by name, so that it is always the same.
    pub fn of_kind(&self, kind: &str) -> Option<&str> {
        self.all.values().filter(|(of, _)| of == kind).map(|(_, path)| path.as_str()).min()
    }
}

/// A reference in an archive from a file in `folder`: relative, or from the root.
pub(super) fn resolve(folder: &str, target: &str) -> String {
    let whole = match target.strip_prefix('/') {
        Some(absolute) => absolute.to_owned(),
        None => format!("{folder}/{target}"),
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn damaged(error: ZipError) -> ExtractError {
    match error {
        ZipError::UnsupportedArchive(why) if why.contains("assword") => ExtractError::Encrypted,
        ZipError::InvalidPassword => ExtractError::Encrypted,
        ZipError::CompressionMethodNotSupported(method) => {
            ExtractError::UnsupportedType(format!("an archive packed with method {method}"))
        }
        ZipError::UnsupportedArchive(why) => ExtractError::UnsupportedType(format!("such an archive ({why})")),
        other => ExtractError::Corrupt(format!("the archive is damaged or cut short ({other})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_stay_in_the_archive() {
        for (folder, target, want) in [
            ("word", "footnotes.xml", "word/footnotes.xml"),
            ("ppt/slides", "../notesSlides/n1.xml", "ppt/notesSlides/n1.xml"),
            ("xl", "/xl/comments/c.xml", "xl/comments/c.xml"),
            ("", "../../etc/passwd", "etc/passwd"),
        ] {
            assert_eq!(resolve(folder, target), want);
        }
    }
}
