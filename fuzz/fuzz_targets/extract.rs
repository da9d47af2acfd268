//! Documents of any kind: an error or clean text, never a panic.
//! The first byte chooses the file's name, the rest is the file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tailrace::knowledge::extract::{RawDocument, extract};

const NAMES: &[&str] = &["a.md", "a.html", "a.txt", "a.rs", "a", "a.json", "a.csv", "a.xml"];

fuzz_target!(|data: &[u8]| {
    let Some((name, bytes)) = data.split_first() else { return };
    let name = NAMES[usize::from(*name) % NAMES.len()];
    if let Ok(document) = extract(&RawDocument { bytes, name, mime: None }) {
        assert!(!document.text.trim().is_empty());
        assert!(!document.text.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
    }
});
