//! Which document, chunk and point something is. Pure: the same words give the same id on every machine.
//! Invariant: ids of different things differ, because each part is written with its length.

use super::NAMESPACE;
use unicode_normalization::UnicodeNormalization;
use uuid::Uuid;

/// Id of a document that came without one: derived from its collection and URI.
pub fn document_id(collection: &str, uri: &str) -> String {
    derive("document", &[collection, uri]).to_string()
}

/// Id of a text that one conversation found: one document per conversation and URI.
pub fn finding_id(collection: &str, conversation: Uuid, uri: &str) -> String {
    derive("finding", &[collection, &conversation.to_string(), uri]).to_string()
}

/// Id of a chunk; it stays when another model embeds the same version.
pub fn chunk_id(collection: &str, document: &str, version: i64, ordinal: u32) -> Uuid {
    derive("chunk", &[collection, document, &version.to_string(), &ordinal.to_string()])
}

/// Id of the point of a chunk.
pub fn point_id(collection: &str, document: &str, version: i64, ordinal: u32, model: &str) -> Uuid {
    derive("point", &[collection, document, &version.to_string(), &ordinal.to_string(), model])
}

/// A file's URI: its relative path in NFC with `/` between the parts, however the system spells it.
pub fn file_uri(path: &str) -> String {
    let path = path.replace('\\', "/");
    let parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
    parts.collect::<Vec<_>>().join("/").nfc().collect()
}

/// URI of a text that came with neither id nor URI: the text itself names it.
pub fn text_uri(hash: &str) -> String {
    format!("text:{hash}")
}

fn derive(kind: &str, parts: &[&str]) -> Uuid {
    let mut name = Vec::new();
    for part in std::iter::once(&kind).chain(parts) {
        name.extend_from_slice(&(part.len() as u64).to_le_bytes());
        name.extend_from_slice(part.as_bytes());
    }
    Uuid::new_v5(&NAMESPACE, &name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn different_things_have_different_ids() {
        let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let ids = [
            document_id("a", "bc"),
            document_id("ab", "c"),
            document_id("a", "bd"),
            finding_id("a", one, "bc"),
            finding_id("a", two, "bc"),
            chunk_id("a", "bc", 1, 0).to_string(),
            chunk_id("a", "bc", 1, 1).to_string(),
            chunk_id("a", "bc", 11, 0).to_string(),
            point_id("a", "bc", 1, 0, "m").to_string(),
            point_id("a", "bc", 1, 0, "n").to_string(),
        ];
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
        assert_eq!(document_id("a", "bc"), document_id("a", "bc"));
    }

    #[test]
    fn a_file_has_one_uri_however_its_name_is_spelled() {
        for (path, uri) in [
            ("u\u{308}bergro\u{308}ße re\u{301}sume\u{301}.txt", "übergröße résumé.txt"),
            ("./a//b.md", "a/b.md"),
            ("a\\b.md", "a/b.md"),
            ("a/readme.md", "a/readme.md"),
            ("/etc/x", "etc/x"),
        ] {
            assert_eq!(file_uri(path), uri);
        }
    }
}
