//! Which files a folder offers for ingestion, and which were passed over and why.
//!
//! Invariants: the order is the same each time; no file is found twice; two files never share a URI; symbolic
//! links are not followed, so that a folder cannot name what is outside of it, and loops cannot happen.

use super::extract::{self, ExtractError, RawDocument};
use ignore::{DirEntry, WalkBuilder};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use unicode_normalization::UnicodeNormalization;

/// A file to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundFile {
    /// As it can be opened from the working directory.
    pub path: PathBuf,
    /// The path relative to the given folder, with `/`, in NFC. Where several given folders hold the same one, the
    /// folder's name stands before it.
    pub uri: String,
    pub bytes_len: u64,
}

/// A file that was passed over. Hidden files, and what `.gitignore` names, are not mentioned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    pub path: PathBuf,
    pub why: Skip,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Skip {
    /// Binary, of a type that cannot be read, or empty.
    #[error("{0}")]
    Refused(#[from] ExtractError),
    #[error("{bytes} bytes are more than the limit of {limit}")]
    TooLarge { bytes: u64, limit: u64 },
    #[error("cannot be read: {0}")]
    Unreadable(String),
    #[error("a symbolic link")]
    Symlink,
    #[error("not a regular file")]
    Special,
    #[error("its name is not UTF-8")]
    Name,
}

/// What the given paths hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub files: Vec<FoundFile>,
    pub skipped: Vec<Skipped>,
}

/// How much of a file is looked at to tell whether it is text.
const HEAD: u64 = 8 << 10;

/// Goes through files and folders, in the order given, below each in the order of names. Blocking I/O.
/// A path that is given itself is taken even if it is hidden or ignored.
pub fn walk(paths: &[PathBuf], max_bytes: u64) -> Found {
    let mut found = Found::default();
    let mut seen = HashSet::new();
    // The root and the path below it of each file found.
    let mut places: Vec<(PathBuf, String)> = Vec::new();
    for root in paths {
        for entry in walker(root) {
            let (path, result) = match entry {
                Ok(entry) if entry.file_type().is_some_and(|kind| kind.is_dir()) => continue,
                Ok(entry) => (entry.path().to_owned(), look(root, &entry, max_bytes)),
                Err(error) => (path_of(&error).unwrap_or(root).to_owned(), Err(Skip::Unreadable(reason(&error)))),
            };
            // Another given path may have led here already.
            if !seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone())) {
                continue;
            }
            match result {
                Ok((uri, bytes_len)) => {
                    places.push((root.clone(), uri.clone()));
                    found.files.push(FoundFile { path, uri, bytes_len });
                }
                Err(why) => found.skipped.push(Skipped { path, why }),
            }
        }
    }
    tell_apart(&mut found.files, &places);
    found
}

fn walker(root: &Path) -> ignore::Walk {
    let mut builder = WalkBuilder::new(root);
    // `.gitignore` holds outside of repositories too; the person's own global excludes are about other things.
    builder.require_git(false).git_global(false).follow_links(false);
    builder.sort_by_file_name(|a, b| a.cmp(b));
    builder.build()
}

/// The file's URI below the root and its size.
fn look(root: &Path, entry: &DirEntry, max_bytes: u64) -> Result<(String, u64), Skip> {
    let path = entry.path();
    if entry.depth() > 0 && entry.path_is_symlink() {
        return Err(Skip::Symlink);
    }
    let metadata = std::fs::metadata(path).map_err(|e| Skip::Unreadable(e.to_string()))?;
    // A pipe would block whoever opens it.
    if !metadata.is_file() {
        return Err(Skip::Special);
    }
    let below = if entry.depth() == 0 { path.file_name().map(Path::new) } else { path.strip_prefix(root).ok() };
    let uri = below.and_then(uri).ok_or(Skip::Name)?;
    if metadata.len() > max_bytes {
        return Err(Skip::TooLarge { bytes: metadata.len(), limit: max_bytes });
    }
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(HEAD).read_to_end(&mut head));
    read.map_err(|e| Skip::Unreadable(e.to_string()))?;
    extract::may_be_read(&RawDocument { bytes: &head, name: &uri, mime: None })?;
    Ok((uri, metadata.len()))
}

/// A relative path with `/` between its parts, in NFC. `None` if a part is not UTF-8.
fn uri(path: &Path) -> Option<String> {
    let mut out = String::new();
    for part in path.components() {
        let Component::Normal(part) = part else { continue };
        if !out.is_empty() {
            out.push('/');
        }
        out.extend(part.to_str()?.nfc());
    }
    (!out.is_empty()).then_some(out)
}

/// Puts the folder's name before URIs that several folders share; where the folders are named alike too, the
/// path as it was given; at last a number.
fn tell_apart(files: &mut [FoundFile], places: &[(PathBuf, String)]) {
    let name = |root: &Path| {
        let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        root.file_name().map(Path::new).and_then(uri).unwrap_or_default()
    };
    let longer: [&dyn Fn(&Path) -> String; 2] = [&name, &|root| uri(root).unwrap_or_default()];
    for prefix in longer {
        let shared = shared(files);
        for (file, (root, below)) in files.iter_mut().zip(places) {
            // A file that was given itself has no folder below which it is.
            let folder = if root.is_file() { root.parent().unwrap_or(root) } else { root };
            if shared.contains(&file.uri) {
                file.uri = format!("{}/{below}", prefix(folder)).trim_start_matches('/').to_owned();
            }
        }
    }
    let shared = shared(files);
    let mut numbers: HashMap<String, usize> = HashMap::new();
    for file in files.iter_mut().filter(|file| shared.contains(&file.uri)) {
        let number = numbers.entry(file.uri.clone()).or_default();
        *number += 1;
        if *number > 1 {
            file.uri = format!("{}#{number}", file.uri);
        }
    }
}

fn shared(files: &[FoundFile]) -> HashSet<String> {
    let mut seen = HashSet::new();
    files.iter().filter(|file| !seen.insert(file.uri.as_str())).map(|file| file.uri.clone()).collect()
}

fn path_of(error: &ignore::Error) -> Option<&Path> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => path_of(err),
        ignore::Error::Loop { child, .. } => Some(child),
        ignore::Error::Partial(errors) => errors.iter().find_map(path_of),
        ignore::Error::Io(_)
        | ignore::Error::Glob { .. }
        | ignore::Error::UnrecognizedFileType(_)
        | ignore::Error::InvalidDefinition => None,
    }
}

/// The error without the path, which is told beside it.
fn reason(error: &ignore::Error) -> String {
    match error {
        ignore::Error::WithPath { err, .. } | ignore::Error::WithDepth { err, .. } => reason(err),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        folder
    }

    fn uris(found: &Found) -> Vec<&str> {
        found.files.iter().map(|file| file.uri.as_str()).collect()
    }

    #[test]
    fn files_are_found_in_order_and_the_rest_is_accounted_for() {
        let folder = folder(&[
            ("b.md", "# b"),
            ("a/z.txt", "z"),
            ("a/readme.md", "alpha"),
            ("c/readme.md", "beta"),
            ("empty.txt", ""),
            ("photo.png", "x"),
            ("data.bin", "\0\u{1}\0\u{2}"),
            (".hidden.md", "h"),
            (".git/config", "c"),
            ("skip.log", "l"),
            (".gitignore", "*.log\n/out/\n"),
            ("out/o.md", "o"),
            ("large.txt", &"x".repeat(2_000)),
        ]);
        let found = walk(&[folder.path().to_owned()], 1_000);
        assert_eq!(uris(&found), ["a/readme.md", "a/z.txt", "b.md", "c/readme.md"]);
        assert_eq!(found.files.iter().map(|f| f.bytes_len).collect::<Vec<_>>(), [5, 1, 3, 4]);
        let skipped: Vec<(String, String)> = found
            .skipped
            .iter()
            .map(|s| (s.path.file_name().unwrap().to_string_lossy().into_owned(), s.why.to_string()))
            .collect();
        let names: Vec<&str> = skipped.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["data.bin", "empty.txt", "large.txt", "photo.png"]);
        let whys: Vec<&str> = skipped.iter().map(|(_, why)| why.as_str()).collect();
        assert_eq!(whys[0], "the content is binary (control bytes), not text");
        assert_eq!(whys[1], "the document has no text");
        assert_eq!(whys[2], "2000 bytes are more than the limit of 1000");
        assert!(whys[3].starts_with("a .png file cannot be read"), "{}", whys[3]);
        assert_eq!(found, walk(&[folder.path().to_owned()], 1_000));
    }

    #[test]
    fn names_are_normalised() {
        let folder = folder(&[("u\u{308}ber/re\u{301}sume\u{301}.txt", "x")]);
        assert_eq!(uris(&walk(&[folder.path().to_owned()], 100)), ["\u{fc}ber/r\u{e9}sum\u{e9}.txt"]);
    }

    #[test]
    fn folders_that_hold_the_same_names_are_told_apart() {
        let folder = folder(&[
            ("a/readme.md", "alpha"),
            ("b/readme.md", "beta"),
            ("b/more.md", "m"),
            ("x/a/readme.md", "gamma"),
        ]);
        let at = |name: &str| folder.path().join(name);
        let found = walk(&[at("a"), at("b")], 100);
        assert_eq!(uris(&found), ["a/readme.md", "more.md", "b/readme.md"]);
        let found = walk(&[at("a/readme.md"), at("b/readme.md")], 100);
        assert_eq!(uris(&found), ["a/readme.md", "b/readme.md"]);
        let found = walk(&[at("a"), at("x/a")], 100);
        let uris = uris(&found);
        assert!(
            uris[0] != uris[1] && uris[0].ends_with("a/readme.md") && uris[1].ends_with("x/a/readme.md"),
            "{uris:?}"
        );
    }

    #[test]
    fn a_file_reached_twice_is_found_once() {
        let folder = folder(&[("a/readme.md", "alpha")]);
        let found = walk(&[folder.path().to_owned(), folder.path().join("a"), folder.path().join("a/readme.md")], 100);
        assert_eq!(uris(&found), ["a/readme.md"]);
    }

    #[test]
    fn what_is_given_itself_is_taken() {
        let folder =
            folder(&[(".gitignore", "docs/\n*.tmp\n"), ("docs/a.md", "a"), ("docs/b.tmp", "b"), (".notes.md", "n")]);
        assert_eq!(uris(&walk(&[folder.path().join("docs")], 100)), ["a.md"]);
        assert_eq!(uris(&walk(&[folder.path().join(".notes.md")], 100)), [".notes.md"]);
        assert_eq!(uris(&walk(&[folder.path().join("docs/b.tmp")], 100)), ["b.tmp"]);
    }

    #[test]
    fn a_missing_path_is_told() {
        let found = walk(&[PathBuf::from("/no/such/folder")], 100);
        assert!(found.files.is_empty());
        assert!(
            matches!(found.skipped.as_slice(), [Skipped { path, why: Skip::Unreadable(_) }] if path == Path::new("/no/such/folder")),
            "{found:?}"
        );
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_followed() {
        let outside = folder(&[("secret.txt", "s")]);
        let folder = folder(&[("a/x.md", "x")]);
        std::os::unix::fs::symlink(folder.path(), folder.path().join("a/loop")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("secret.txt"), folder.path().join("link.txt")).unwrap();
        let found = walk(&[folder.path().to_owned()], 100);
        assert_eq!(uris(&found), ["a/x.md"]);
        assert!(
            found.skipped.iter().all(|s| s.why == Skip::Symlink) && found.skipped.len() == 2,
            "{:?}",
            found.skipped
        );
        // A link that is given itself is meant.
        std::os::unix::fs::symlink(outside.path(), folder.path().join("given")).unwrap();
        assert_eq!(uris(&walk(&[folder.path().join("given")], 100)), ["secret.txt"]);
    }
}
