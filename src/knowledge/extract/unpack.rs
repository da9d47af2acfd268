//! Archives of documents: each file in one is a document of its own, also those of archives inside.
//! Names are names: they are shown and compared, never opened.

use super::archive::Archive;
use super::limits::Budget;
use super::{ExtractError, Kind, office};

/// Whether the bytes are an archive of documents: a ZIP container that is no office file and no book. Walks the
/// archive's own list of names, and trusts nothing else in it.
pub fn is_archive(bytes: &[u8]) -> bool {
    if !bytes.starts_with(b"PK") {
        return false;
    }
    const END: &[u8] = b"PK\x05\x06";
    const ENTRY: &[u8] = b"PK\x01\x02";
    const HEADER: usize = 46;
    let number = |at: usize, length: usize| -> Option<usize> {
        let digits = bytes.get(at..at + length)?.iter().rev();
        Some(digits.fold(0usize, |sum, digit| sum << 8 | usize::from(*digit)))
    };
    let walk = || -> Option<bool> {
        let end = memchr::memmem::rfind(bytes, END)?;
        let mut at = number(end + 16, 4)?;
        for _ in 0..number(end + 10, 2)? {
            if bytes.get(at..at + 4)? != ENTRY {
                return None;
            }
            let name = number(at + 28, 2)?;
            let whole = bytes.get(at + HEADER..at + HEADER + name)?;
            if matches!(whole, b"[Content_Types].xml" | b"META-INF/container.xml" | b"mimetype") {
                return Some(false);
            }
            at += HEADER + name + number(at + 30, 2)? + number(at + 32, 2)?;
        }
        Some(true)
    };
    walk().unwrap_or(false)
}

/// Takes what is found: the name below the archive's own, and the bytes or why there are none.
pub(super) type Taker<'t> = dyn FnMut(&str, Result<Vec<u8>, ExtractError>) -> Result<(), ExtractError> + 't;

/// Hands out every file. An entry that is refused does not stop the others; too much of everything does.
pub(super) fn unpack(bytes: &[u8], budget: &Budget, take: &mut Taker<'_>) -> Result<(), ExtractError> {
    let mut seen = 0;
    folder(bytes, "", budget, &mut seen, take)
}

fn folder(
    bytes: &[u8],
    prefix: &str,
    budget: &Budget,
    seen: &mut usize,
    take: &mut Taker<'_>,
) -> Result<(), ExtractError> {
    let mut archive = Archive::open(bytes, budget)?;
    if office::kind(&mut archive)?.0 != Kind::Zip {
        return Err(ExtractError::Corrupt("it is no archive of documents".to_owned()));
    }
    let entries: Vec<_> = archive.entries()?.into_iter().filter(|entry| !is_litter(&entry.name)).collect();
    *seen += entries.len();
    budget.check_entries(*seen)?;
    for entry in entries {
        let name = format!("{prefix}{}", plain_name(&entry.name));
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

/// What systems leave in folders.
fn is_litter(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    name.starts_with("__MACOSX/") || file.starts_with('.') || matches!(file, "Thumbs.db" | "desktop.ini")
}

/// The entry's name without what would lead out of the archive, or hide what it is.
fn plain_name(name: &str) -> String {
    let parts = name.split('/').map(|part| part.chars().filter(|c| !c.is_control()).collect::<String>());
    let kept = parts.filter(|part| !matches!(part.as_str(), "" | "." | "..") && !part.ends_with(':'));
    let name = kept.collect::<Vec<_>>().join("/");
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
        assert!(!is_archive(b"PK\x03\x04 cut short"));
        assert!(!is_archive(b"no archive"));
    }
}
