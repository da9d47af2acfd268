//! Which files a folder offers for ingestion, and which were passed over and why.
//!
//! Invariants: the order is the same each time; no file is found twice; two files never share a URI, and those of two
//! folders do not either, unless the folders are called the same; symbolic links are not followed, so that a folder
//! cannot name what is outside of it, and loops cannot happen.

use super::extract::{self, ExtractError, RawDocument};
use ignore::{DirEntry, WalkBuilder};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;
use unicode_normalization::UnicodeNormalization;

/// A file to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundFile {
    /// As it can be opened from the working directory.
    pub path: PathBuf,
    /// Of a given folder: its name and the path below it. A file that is given itself: its path as given, or its name
    /// after its folder's where that path leads up or begins at the root. With `/`, in NFC.
    pub uri: String,
    pub stamp: Stamp,
}

/// What changes when a file does, as far as can be told without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub bytes_len: u64,
    pub modified: Option<SystemTime>,
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
    walk_again(paths, max_bytes, &HashMap::new())
}

/// The same, without looking into files that are as they were `before`.
pub fn walk_again(paths: &[PathBuf], max_bytes: u64, before: &HashMap<PathBuf, Stamp>) -> Found {
    let mut found = Found::default();
    let mut seen = HashSet::new();
    // The root and the path below it of each file found.
    let mut places: Vec<(PathBuf, String)> = Vec::new();
    for root in paths {
        for entry in walker(root) {
            let (path, result) = match entry {
                Ok(entry) if entry.file_type().is_some_and(|kind| kind.is_dir()) => continue,
                Ok(entry) => (entry.path().to_owned(), look(root, &entry, max_bytes, before)),
                Err(error) => (path_of(&error).unwrap_or(root).to_owned(), Err(Skip::Unreadable(reason(&error)))),
            };
            // Another given path may have led here already.
            if !seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone())) {
                continue;
            }
            match result {
                Ok((below, stamp)) => {
                    let uri = named(root, &below);
                    places.push((root.clone(), below));
                    found.files.push(FoundFile { path, uri, stamp });
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

/// The file's path below the root, and its stamp.
fn look(
    root: &Path,
    entry: &DirEntry,
    max_bytes: u64,
    before: &HashMap<PathBuf, Stamp>,
) -> Result<(String, Stamp), Skip> {
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
    let stamp = Stamp { bytes_len: metadata.len(), modified: metadata.modified().ok() };
    if before.get(path) == Some(&stamp) {
        return Ok((uri, stamp));
    }
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(HEAD).read_to_end(&mut head));
    read.map_err(|e| Skip::Unreadable(e.to_string()))?;
    extract::may_be_read(&RawDocument { bytes: &head, name: &uri, mime: None })?;
    Ok((uri, stamp))
}

/// What stands before the paths below a folder: its own name, wherever it is. `.` and `..` have one too.
pub fn folder_name(folder: &Path) -> String {
    let name = |folder: &Path| folder.file_name().map(Path::new).and_then(uri);
    name(folder).or_else(|| name(&folder.canonicalize().ok()?)).unwrap_or_default()
}

fn named(root: &Path, below: &str) -> String {
    let joined = |name: String| format!("{name}/{below}").trim_start_matches('/').to_owned();
    if root.is_dir() {
        return joined(folder_name(root));
    }
    let plain = root.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let folder = || root.canonicalize().ok().and_then(|path| path.parent().map(folder_name));
    if plain { uri(root).unwrap_or_default() } else { joined(folder().unwrap_or_default()) }
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

/// Where folders that are called the same hold the same name, the folder's path as it was given stands before it; at last
/// a number.
fn tell_apart(files: &mut [FoundFile], places: &[(PathBuf, String)]) {
    let twice = shared(files);
    for (file, (root, below)) in files.iter_mut().zip(places).filter(|(file, _)| twice.contains(&file.uri)) {
        // A file that was given itself has no folder below which it is.
        let folder = if root.is_file() { root.parent().unwrap_or(root) } else { root };
        file.uri = format!("{}/{below}", uri(folder).unwrap_or_default()).trim_start_matches('/').to_owned();
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

    /// URIs without the temporary folder's name, which begins with a dot.
    fn uris(found: &Found) -> Vec<&str> {
        let below = |uri: &str| if uri.starts_with(".tmp") { uri.find('/').map_or(0, |at| at + 1) } else { 0 };
        found.files.iter().map(|file| &file.uri[below(&file.uri)..]).collect()
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
        assert_eq!(found.files.iter().map(|f| f.stamp.bytes_len).collect::<Vec<_>>(), [5, 1, 3, 4]);
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
        // Together, and each by itself.
        for (paths, want) in [
            (vec!["a", "b"], vec!["a/readme.md", "b/more.md", "b/readme.md"]),
            (vec!["a"], vec!["a/readme.md"]),
            (vec!["b"], vec!["b/more.md", "b/readme.md"]),
            (vec!["a/readme.md", "b/readme.md"], vec!["a/readme.md", "b/readme.md"]),
            (vec!["x/../b/more.md"], vec!["b/more.md"]),
            (vec!["b/."], vec!["b/more.md", "b/readme.md"]),
        ] {
            let paths: Vec<PathBuf> = paths.into_iter().map(at).collect();
            assert_eq!(uris(&walk(&paths, 100)), want, "{paths:?}");
        }
        let found = walk(&[at("a"), at("x/a")], 100);
        let uris = uris(&found);
        assert!(
            uris[0] != uris[1] && uris[0].ends_with("a/readme.md") && uris[1].ends_with("x/a/readme.md"),
            "{uris:?}"
        );
    }

    #[test]
    fn a_file_that_is_given_itself_is_called_as_it_was_given() {
        for (root, below, want) in [
            ("notes.md", "notes.md", "notes.md"),
            ("./notes.md", "notes.md", "notes.md"),
            ("docs/no\u{308}tes.md", "no\u{308}tes.md", "docs/n\u{f6}tes.md"),
        ] {
            assert_eq!(named(Path::new(root), below), want);
        }
    }

    #[test]
    fn what_is_as_it_was_is_not_looked_into_again() {
        let folder = folder(&[("a.bin", "\0\u{1}\0\u{2}"), ("b.md", "b")]);
        let paths = [folder.path().to_owned()];
        let path = folder.path().join("a.bin");
        let metadata = fs::metadata(&path).unwrap();
        let stamp = Stamp { bytes_len: 4, modified: metadata.modified().ok() };
        assert_eq!(uris(&walk_again(&paths, 100, &HashMap::from([(path.clone(), stamp)]))), ["a.bin", "b.md"]);
        let other = Stamp { bytes_len: 5, ..stamp };
        assert_eq!(uris(&walk_again(&paths, 100, &HashMap::from([(path, other)]))), ["b.md"]);
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
        assert_eq!(uris(&walk(&[folder.path().join("docs")], 100)), ["docs/a.md"]);
        assert_eq!(uris(&walk(&[folder.path().join(".notes.md")], 100)), [".notes.md"]);
        assert_eq!(uris(&walk(&[folder.path().join("docs/b.tmp")], 100)), ["docs/b.tmp"]);
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
        assert_eq!(uris(&walk(&[folder.path().join("given")], 100)), ["given/secret.txt"]);
    }
}
