//! Documents of the kinds that are read in the server itself: an error or clean text, never a panic. What others read
//! for us (PDF, archives, mail) runs in a process of its own, which may end as it likes.
//! The first byte chooses the file's name, the rest is the file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tailrace::knowledge::extract::{Origin, RawDocument, Reader};

const NAMES: &[&str] = &["a.md", "a.html", "a.txt", "a.rs", "a", "a.json", "a.csv", "a.xml"];

fuzz_target!(|data: &[u8]| {
    let Some((name, bytes)) = data.split_first() else { return };
    let name = NAMES[usize::from(*name) % NAMES.len()];
    let raw = RawDocument { bytes, name, mime: None };
    if let Some(Ok(document)) = Reader::default().here(&raw, Origin::Document) {
        assert!(!document.text.trim().is_empty());
        assert!(!document.text.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
    }
});
