//! Archives of documents: each file in one is a document of its own, also those of archives inside.
//! Names are names: they are shown and compared, never opened.

use super::archive::Archive;
use super::limits::Budget;
use super::{ExtractError, Kind, office};
use std::collections::HashSet;
use unicode_normalization::UnicodeNormalization;

/// Whether the bytes are an archive of documents: a ZIP container that is no office file and no book. Walks the
/// archive's own list of names, and trusts nothing else in it.
pub fn is_archive(bytes: &[u8]) -> bool {
    const OTHERS: &[&[u8]] = &[b"[Content_Types].xml", b"META-INF/container.xml"];
    // Where it means something, it comes first.
    let is_other = |names: &[&[u8]]| {
        names.first() == Some(&b"mimetype".as_slice()) || names.iter().any(|name| OTHERS.contains(name))
    };
    bytes.starts_with(b"PK") && names(bytes).is_some_and(|names| !is_other(names.as_slice()))
}

/// Whether the bytes begin like an archive (or an office file) and are not whole.
pub fn is_damaged_archive(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PK\x03\x04") && names(bytes).is_none()
}

/// Places that look like the archive's end and are looked at.
const MOST_ENDS: usize = 100;

/// Every name in the archive's own list, also one that is there twice; `None` where the list is not whole.
fn names(bytes: &[u8]) -> Option<Vec<&[u8]>> {
    const END: &[u8] = b"PK\x05\x06";
    const ENTRY: &[u8] = b"PK\x01\x02";
    const HEADER: usize = 46;
    let number = |at: usize, length: usize| -> Option<usize> {
        let digits = bytes.get(at..at + length)?.iter().rev();
        Some(digits.fold(0usize, |sum, digit| sum << 8 | usize::from(*digit)))
    };
    // A comment may hold anything, and reaches to the end.
    let is_end = |end: &usize| number(end + 20, 2).is_some_and(|comment| end + 22 + comment == bytes.len());
    let mut ends = memchr::memmem::rfind_iter(bytes, END).take(MOST_ENDS);
    let end = ends.find(is_end).or_else(|| memchr::memmem::rfind(bytes, END))?;
    let mut at = number(end + 16, 4)?;
    let mut found = Vec::new();
    for _ in 0..number(end + 10, 2)? {
        if bytes.get(at..at + 4)? != ENTRY {
            return None;
        }
        let name = number(at + 28, 2)?;
        found.push(bytes.get(at + HEADER..at + HEADER + name)?);
        at += HEADER + name + number(at + 30, 2)? + number(at + 32, 2)?;
    }
    Some(found)
}

/// Takes what is found: the name below the archive's own, and the bytes or why there are none.
pub(super) type Taker<'t> = dyn FnMut(&str, Result<Vec<u8>, ExtractError>) -> Result<(), ExtractError> + 't;

/// Hands out every file. An entry that is refused does not stop the others; too much of everything does.
pub(super) fn unpack(bytes: &[u8], budget: &Budget, take: &mut Taker<'_>) -> Result<(), ExtractError> {
    folder(bytes, "", budget, &mut Seen::default(), take)
}

#[derive(Default)]
struct Seen {
    entries: usize,
    /// Under which names files were handed out.
    names: HashSet<String>,
}

impl Seen {
    /// A name that no other file has: `notes (2).txt` for a second `notes.txt`.
    fn only(&mut self, name: String) -> String {
        let mut only = name.clone();
        let mut count = 1usize;
        while !self.names.insert(only.clone()) {
            count += 1;
            let file = name.rfind('/').map_or(0, |slash| slash + 1);
            let dot = name.rfind('.').filter(|dot| *dot > file).unwrap_or(name.len());
            let (stem, extension) = name.split_at(dot);
            only = format!("{stem} ({count}){extension}");
        }
        only
    }
}

fn folder(
    bytes: &[u8],
    prefix: &str,
    budget: &Budget,
    seen: &mut Seen,
    take: &mut Taker<'_>,
) -> Result<(), ExtractError> {
    let mut archive = Archive::open(bytes, budget)?;
    if office::kind(&mut archive)?.0 != Kind::Zip {
        return Err(ExtractError::Corrupt("it is no archive of documents".to_owned()));
    }
    let entries: Vec<_> = archive.entries()?.into_iter().filter(|entry| !is_litter(&entry.name)).collect();
    let hidden = overwritten(bytes);
    seen.entries += entries.len() + hidden.len();
    budget.check_entries(seen.entries)?;
    if entries.is_empty() {
        return Err(ExtractError::EmptyArchive);
    }
    for name in hidden.iter().filter(|name| !is_litter(name)) {
        take(&format!("{prefix}{}", plain_name(name)), Err(ExtractError::SameName))?;
    }
    for entry in entries {
        let name = seen.only(format!("{prefix}{}", plain_name(&entry.name)));
        let read = if entry.is_encrypted { Err(ExtractError::Encrypted) } else { archive.by_index(entry.index) };
        match read {
            Err(refused @ ExtractError::ExpandsTooFar(_)) => return Err(refused),
            Ok(inner) if is_archive(&inner) => {
                let inside = format!("{name}/");
                match budget.inside(|| folder(&inner, &inside, budget, seen, take)) {
                    Err(refused @ (ExtractError::ExpandsTooFar(_) | ExtractError::TooMany(_))) => return Err(refused),
                    Err(refused) => take(&name, Err(refused))?,
                    Ok(()) => {}
                }
            }
            read => take(&name, read)?,
        }
    }
    Ok(())
}

/// Names under which another file comes later: of these only the last can be read.
fn overwritten(bytes: &[u8]) -> Vec<String> {
    let mut once = HashSet::new();
    let twice = names(bytes).unwrap_or_default().into_iter().filter(|name| !once.insert(*name));
    let readable = twice.map(|name| String::from_utf8_lossy(name).replace('\\', "/"));
    readable.filter(|name| !name.ends_with('/')).collect()
}

/// What systems leave in folders.
fn is_litter(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    name.starts_with("__MACOSX/") || file.starts_with('.') || matches!(file, "Thumbs.db" | "desktop.ini")
}

/// The entry's name without what would lead out of the archive, or hide what it is.
fn plain_name(name: &str) -> String {
    let parts = name.split('/').map(|part| part.chars().filter(|c| !c.is_control()).collect::<String>());
    let kept = parts.filter(|part| !matches!(part.as_str(), "" | "." | "..") && !part.ends_with(':'));
    // Names that look the same are the same.
    let name: String = kept.collect::<Vec<_>>().join("/").nfc().collect();
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knowledge::extract::Limits;
    use std::io::{Cursor, Write};
    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    fn packed(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, bytes) in files {
            zip.start_file(*name, SimpleFileOptions::default()).unwrap();
            zip.write_all(bytes).unwrap();
        }
        zip.finish().unwrap().into_inner()
    }

    /// A file's name, and its size or the word for why there is none.
    type Found = (String, Result<usize, &'static str>);

    fn unpacked(bytes: &[u8]) -> Result<Vec<Found>, ExtractError> {
        let mut found = Vec::new();
        let budget = Budget::new(Limits::default(), bytes.len());
        unpack(bytes, &budget, &mut |name, read| {
            found.push((name.to_owned(), read.map(|bytes| bytes.len()).map_err(|e| e.code())));
            Ok(())
        })?;
        Ok(found)
    }

    #[test]
    fn files_come_out_under_plain_names() {
        let inner = packed(&[("deep.txt", b"12345")]);
        let bytes = packed(&[
            ("a/notes.md", b"# n"),
            ("../../etc/passwd", b"x"),
            ("__MACOSX/a", b"x"),
            ("a/.DS_Store", b"x"),
            ("inner.zip", &inner),
            ("C:/x.txt", b"xy"),
        ]);
        let found = unpacked(&bytes).unwrap();
        let found: Vec<_> = found.iter().map(|(name, size)| (name.as_str(), *size)).collect();
        assert_eq!(
            found,
            [("a/notes.md", Ok(3)), ("etc/passwd", Ok(1)), ("inner.zip/deep.txt", Ok(5)), ("x.txt", Ok(2))]
        );
    }

    #[test]
    fn no_file_takes_the_place_of_another() {
        let bytes =
            packed(&[("x.txt", b"1"), ("../x.txt", b"22"), ("/x.txt", b"333"), ("e\u{301}", b"1"), ("\u{e9}", b"22")]);
        let found = unpacked(&bytes).unwrap();
        let found: Vec<_> = found.iter().map(|(name, size)| (name.as_str(), *size)).collect();
        assert_eq!(
            found,
            [("x.txt", Ok(1)), ("x (2).txt", Ok(2)), ("x (3).txt", Ok(3)), ("\u{e9}", Ok(1)), ("\u{e9} (2)", Ok(2))]
        );
        // The same name twice: the writer of tests refuses that, so one is renamed.
        let mut bytes = packed(&[("a.txt", b"1"), ("b.txt", b"22")]);
        while let Some(at) = memchr::memmem::find(&bytes, b"b.txt") {
            bytes[at] = b'a';
        }
        assert_eq!(
            unpacked(&bytes).unwrap(),
            [("a.txt".to_owned(), Err("corrupt_document")), ("a.txt".to_owned(), Ok(2))]
        );
    }

    #[test]
    fn an_archive_without_files_is_refused() {
        let inner = packed(&[]);
        for empty in [&packed(&[]), &packed(&[(".hidden", b"x"), ("__MACOSX/a", b"x")])] {
            assert!(is_archive(empty));
            assert_eq!(unpacked(empty).map_err(|e| e.code()), Err("empty_document"));
        }
        let outer = packed(&[("in.zip", &inner), ("a.txt", b"x")]);
        assert_eq!(
            unpacked(&outer).unwrap(),
            [("in.zip".to_owned(), Err("empty_document")), ("a.txt".to_owned(), Ok(1))]
        );
    }

    #[test]
    fn archives_in_archives_and_bombs_end() {
        let mut nested = packed(&[("a.txt", b"x")]);
        for _ in 0..6 {
            nested = packed(&[("in.zip", &nested)]);
        }
        assert_eq!(unpacked(&nested).unwrap(), [("in.zip/in.zip/in.zip/in.zip".to_owned(), Err("too_deep"))]);
        let bomb = packed(&[("zeros", &vec![0; 64 << 20])]);
        assert_eq!(unpacked(&bomb).map_err(|e| e.code()), Err("expands_too_far"));
    }

    #[test]
    fn office_files_are_no_archives() {
        assert!(is_archive(&packed(&[("a.txt", b"x")])));
        assert!(!is_archive(&packed(&[("[Content_Types].xml", b"x"), ("a.txt", b"x")])));
        assert!(!is_archive(&packed(&[("mimetype", b"x")])));
        assert!(is_archive(&packed(&[("a.txt", b"x"), ("mimetype", b"x")])));
        let mut commented = packed(&[("a.txt", b"x")]);
        let length = commented.len();
        commented[length - 2] = 8;
        commented.extend_from_slice(b"PK\x05\x06 end");
        assert!(is_archive(&commented));
        assert!(!is_archive(b"PK\x03\x04 cut short"));
        assert!(!is_archive(b"no archive"));
    }
}
