//! Reads Rust sources just far enough for the rules: code without comments, strings and unit tests,
//! and the paths that it names. Knows no rule.

/// The same text with comments, string contents and character literals blanked out; line ends stay,
/// so positions and line numbers do too.
pub fn code_only(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = String::with_capacity(source.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = match &bytes[at..] {
            [b'/', b'/', ..] => find(bytes, at, b"\n").unwrap_or(bytes.len()),
            [b'/', b'*', ..] => block_comment_end(bytes, at),
            [b'r', b'"' | b'#', ..] if !continues_name(bytes, at) => raw_string_end(bytes, at).unwrap_or(at),
            [b'"', ..] => string_end(bytes, at),
            [b'\'', ..] => char_end(bytes, at).unwrap_or(at),
            _ => at,
        };
        if end == at {
            let next = source[at..].chars().next().map_or(1, char::len_utf8);
            out.push_str(&source[at..at + next]);
            at += next;
        } else {
            out.extend(source[at..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    out
}

/// Code before the file's unit tests, which stand at its end and may name what they need.
pub fn without_tests(code: &str) -> &str {
    code.find("#[cfg(test)]\nmod ").filter(|at| code[*at..].contains("mod tests {")).map_or(code, |at| &code[..at])
}

fn find(bytes: &[u8], from: usize, what: &[u8]) -> Option<usize> {
    bytes[from..].windows(what.len()).position(|window| window == what).map(|at| from + at)
}

fn continues_name(bytes: &[u8], at: usize) -> bool {
    // `br"…"` and `cr"…"` are strings too; their first letter is harmless as code.
    at > 0 && is_name(bytes[at - 1]) && !matches!(bytes[at - 1], b'b' | b'c')
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn block_comment_end(bytes: &[u8], at: usize) -> usize {
    let (mut depth, mut i) = (0, at);
    while i < bytes.len() {
        match &bytes[i..] {
            [b'/', b'*', ..] => (depth, i) = (depth + 1, i + 2),
            [b'*', b'/', ..] => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            return i;
        }
    }
    bytes.len()
}

fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut i = at + 1;
    while i < bytes.len() {
        match bytes[i] {
            b'\\' => i += 2,
            b'"' => return i + 1,
            _ => i += 1,
        }
    }
    bytes.len()
}

fn raw_string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let hashes = bytes[at + 1..].iter().take_while(|b| **b == b'#').count();
    // `r#name` is a name.
    (bytes.get(at + 1 + hashes) == Some(&b'"')).then(|| {
        let closer = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
        find(bytes, at + 2 + hashes, &closer).map_or(bytes.len(), |end| end + closer.len())
    })
}

/// `'a'` and `'\n'` are characters, `'a` is a lifetime.
fn char_end(bytes: &[u8], at: usize) -> Option<usize> {
    match &bytes[at + 1..] {
        [b'\\', _, rest @ ..] => rest.iter().position(|b| *b == b'\'').map(|n| at + 4 + n),
        rest => {
            let text = std::str::from_utf8(rest).ok()?;
            let c = text.chars().next()?;
            (rest.get(c.len_utf8()) == Some(&b'\'')).then(|| at + 2 + c.len_utf8())
        }
    }
}

/// Every path in `code` that begins with the name `root`, with its line: use trees are unfolded, so
/// `root::{a, b::c}` gives two. A path ends at the first thing that is not a name.
pub fn paths_from(code: &str, root: &str) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices(root) {
        let before = code[..at].trim_end();
        let inside_path = before.ends_with("::") && code[..at].ends_with("::");
        let whole = !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$');
        if !whole || inside_path {
            continue;
        }
        let line = code[..at].matches('\n').count() + 1;
        let rest = &code[at + root.len()..];
        if rest.starts_with("::") {
            let mut paths = Vec::new();
            tree(rest, vec![root.to_owned()], &mut paths);
            found.extend(paths.into_iter().map(|path| (line, path)));
        } else if before.ends_with("use") && rest.trim_start().starts_with([';', 'a']) {
            found.push((line, vec![root.to_owned()]));
        }
    }
    found
}

/// `rest` begins after a name, maybe with `::`. Returns what follows the tree.
fn tree<'a>(rest: &'a str, prefix: Vec<String>, found: &mut Vec<Vec<String>>) -> &'a str {
    let Some(rest) = rest.strip_prefix("::").map(str::trim_start) else {
        found.push(prefix);
        return rest;
    };
    if let Some(mut inner) = rest.strip_prefix('{') {
        loop {
            inner = inner.trim_start();
            if let Some(after) = inner.strip_prefix('}') {
                return after;
            }
            let name = name_of(inner);
            if name.is_empty() {
                return inner;
            }
            let mut path = prefix.clone();
            path.push(name.to_owned());
            inner = tree(&inner[name.len()..], path, found).trim_start();
            // `a as b`
            if let Some(renamed) = inner.strip_prefix("as ") {
                inner = renamed.trim_start().trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
            }
            inner = inner.trim_start().strip_prefix(',').unwrap_or(inner);
        }
    }
    let name = name_of(rest);
    let mut path = prefix;
    if name.is_empty() {
        found.push(path);
        return rest;
    }
    path.push(name.to_owned());
    tree(&rest[name.len()..], path, found)
}

fn name_of(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    if end == 0 && text.starts_with('*') { "*" } else { &text[..end] }
}

#[test]
fn comments_strings_and_characters_are_no_code() {
    for (source, code) in [
        ("a // sqlx::x\nb", "a b"),
        ("a /* x /* y */ sqlx */ b", "a b"),
        (r#"f("sqlx::\" x", 1)"#, "f( , 1)"),
        (r###"f(r#"a " sqlx"#, r"\")"###, "f( , )"),
        (r#"let c = '"'; x"#, "let c = ; x"),
        (r"let c = '\''; x", "let c = ; x"),
        ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
        (r#"r#type + br"x""#, "r#type + b"),
        ("let ä = 'ö'; \"ü\"", "let ä = ;"),
    ] {
        let found = code_only(source);
        assert_eq!(found.split_whitespace().collect::<Vec<_>>().join(" "), code, "{source}");
        assert_eq!(found.chars().count(), source.chars().count(), "{source}");
    }
    let file = "use a;\n#[cfg(test)]\nmod tests {\n use sqlx; }";
    assert_eq!(without_tests(file), "use a;\n");
    let apart = "#[cfg(test)]\nmod tests;\nuse a;";
    assert_eq!(without_tests(apart), apart);
}

#[test]
fn use_trees_are_unfolded() {
    for (code, root, paths) in [
        ("use crate::a::B;", "crate", vec!["crate::a::B"]),
        (
            "use crate::{a::{self, C}, d as e, f::*};",
            "crate",
            vec!["crate::a::self", "crate::a::C", "crate::d", "crate::f::*"],
        ),
        ("let x = crate::a::f(crate::b::C { d });", "crate", vec!["crate::a::f", "crate::b::C"]),
        ("use sqlx;\nuse sqlx as s;", "sqlx", vec!["sqlx", "sqlx"]),
        ("let sqlx = 1; my_sqlx::x; a::sqlx::y", "sqlx", vec![]),
        ("sqlx::query!(x)", "sqlx", vec!["sqlx::query"]),
    ] {
        let found: Vec<_> = paths_from(code, root).into_iter().map(|(_, path)| path.join("::")).collect();
        assert_eq!(found, paths, "{code}");
    }
    assert_eq!(paths_from("\n\nuse a::b;", "a")[0].0, 3);
}
