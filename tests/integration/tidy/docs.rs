//! The documentation names only what is there: links, paths, tests and routes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every page, with its path below the root.
fn pages() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for folder in ["", "docs"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|e| e == "md") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path.strip_prefix(root()).unwrap().to_owned(), text));
            }
        }
    }
    assert!(found.len() > 4, "{found:?}");
    found
}

/// What stands between `open` and `close`, each time.
fn between<'a>(text: &'a str, open: &'a str, close: char) -> impl Iterator<Item = &'a str> {
    text.match_indices(open).filter_map(move |(at, _)| text[at + open.len()..].split(close).next())
}

/// Links and paths on a page that lead nowhere.
fn dead_ends(page: &Path, text: &str) -> Vec<String> {
    let folder = page.parent().unwrap_or(Path::new(""));
    let links = between(text, "](", ')')
        .filter(|link| !link.contains("://") && !link.starts_with('#'))
        .map(|link| folder.join(link.split('#').next().unwrap_or(link)));
    let paths = between(text, "`", '`')
        .filter(|code| ["src/", "tests/", "scripts/", "docs/", ".ci/"].iter().any(|top| code.starts_with(top)))
        .filter(|code| !code.contains(['*', '…', '<']))
        .map(|code| PathBuf::from(code.split([' ', ':']).next().unwrap_or(code)));
    links
        .chain(paths)
        .filter(|path| !root().join(path).exists())
        .map(|path| format!("{}: there is no {}", page.display(), path.display()))
        .collect()
}

fn rust_sources(folder: &Path, found: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

/// The tests that the table in ARCHITECTURE.md names, by invariant.
fn invariants(architecture: &str) -> Vec<(u32, Vec<&str>)> {
    architecture
        .lines()
        .filter_map(|line| {
            let (number, tests) = line.strip_prefix("| ")?.split_once(" | ")?;
            Some((
                number.parse().ok()?,
                between(tests, "`", '`').filter(|name| !name.starts_with([',', ' '])).collect(),
            ))
        })
        .collect()
}

#[test]
fn links_and_paths_in_the_documentation_lead_somewhere() {
    let dead: Vec<_> = pages().iter().flat_map(|(page, text)| dead_ends(page, text)).collect();
    assert!(dead.is_empty(), "\n{}\n", dead.join("\n"));
    let bad = "[x](nowhere.md) `src/nowhere.rs` `scripts/nowhere --flag` [y](https://example.org) `cargo test`";
    assert_eq!(dead_ends(Path::new("docs/x.md"), bad).len(), 3);
}

#[test]
fn every_invariant_is_named_by_a_test_that_exists() {
    let architecture = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let table = invariants(&architecture);
    assert_eq!(table.iter().map(|(number, _)| *number).collect::<Vec<_>>(), (1..=15).collect::<Vec<_>>());
    let mut sources = String::new();
    for folder in ["src", "tests/integration"] {
        rust_sources(&root().join(folder), &mut sources);
    }
    let missing: Vec<_> = table
        .iter()
        .flat_map(|(number, tests)| tests.iter().map(move |test| (number, test)))
        .filter(|(_, test)| !sources.contains(&format!("fn {test}(")))
        .collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md names tests that do not exist: {missing:?}");
    assert!(table.iter().all(|(_, tests)| !tests.is_empty()));
}

#[test]
fn the_api_page_names_every_route() {
    let guard = fs::read_to_string(root().join("src/http/guard.rs")).unwrap();
    let routes: BTreeSet<_> = between(&guard, "(Method::", ')')
        .filter_map(|entry| entry.split('"').nth(1))
        // `{collection}` and `{document}` stand for a name in the examples.
        .map(|path| path.split("/{").next().unwrap_or(path))
        .collect();
    assert!(routes.len() > 4, "{routes:?}");
    let page = fs::read_to_string(root().join("docs/api.md")).unwrap();
    let missing: Vec<_> = routes.into_iter().filter(|route| !page.contains(route)).collect();
    assert!(missing.is_empty(), "docs/api.md does not mention {missing:?}");
}
