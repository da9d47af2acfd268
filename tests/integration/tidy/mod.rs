//! The sources obey the rules of the house. Each rule is data in `rules.rs`; each has a test here that
//! shows it can fail.

mod docs;
mod rules;
mod source;

use rules::{ADAPTERS, DRAWERS, FORBIDDEN, LONG_FILES, MAY_IMPORT, MAY_NAME_ADAPTERS, MOST_LINES, UNBOUND, VENDORS};
use source::{code_only, paths_from, without_tests};
use std::path::Path;

/// What is wrong with one file, a sentence each.
fn faults(path: &str, text: &str) -> Vec<String> {
    let mut faults = [drawer(path), length(path, text), header(path, text)].concat();
    let code = code_only(text);
    if let Some(module) = module_of(path) {
        let code = without_tests(&code);
        faults.extend(vendors(path, code));
        faults.extend(forbidden(path, code));
        faults.extend(imports(path, &module, code));
    }
    faults
}

fn drawer(path: &str) -> Vec<String> {
    path.split(['/', '.'])
        .filter(|part| DRAWERS.contains(part))
        .map(|part| format!("{path}: `{part}` says nothing: name it after its subject"))
        .collect()
}

fn length(path: &str, text: &str) -> Vec<String> {
    let (lines, excused) = (text.lines().count(), LONG_FILES.iter().any(|(long, _)| *long == path));
    match (lines > MOST_LINES, excused) {
        (true, false) => {
            vec![format!("{path}: {lines} lines; split it by subject, or give a reason in LONG_FILES ({MOST_LINES})")]
        }
        (false, true) => vec![format!("{path}: {lines} lines; it needs no entry in LONG_FILES any more")],
        _ => vec![],
    }
}

fn header(path: &str, text: &str) -> Vec<String> {
    let missing = path.ends_with(".rs") && !text.starts_with("//! ");
    if missing {
        vec![format!("{path}: begin with `//!`: what the file owns and the invariant it keeps")]
    } else {
        vec![]
    }
}

fn vendors(path: &str, code: &str) -> Vec<String> {
    VENDORS
        .iter()
        .filter(|(_, places)| !places.iter().any(|place| path.starts_with(place)))
        .flat_map(|(vendor, places)| {
            paths_from(code, vendor)
                .into_iter()
                .map(move |(line, _)| format!("{path}:{line}: `{vendor}` may be used only in {}", places.join(", ")))
        })
        .collect()
}

fn forbidden(path: &str, code: &str) -> Vec<String> {
    FORBIDDEN
        .iter()
        .filter(|(_, places, _)| !places.iter().any(|place| path.starts_with(place)))
        .filter(|(name, _, _)| code.contains(name))
        .map(|(name, _, why)| format!("{path}: `{name}`: {why}"))
        .collect()
}

fn imports(path: &str, module: &str, code: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for (line, target) in named_modules(module, code) {
        if within(&target, module) {
            continue;
        }
        if let Some(allowed) = allowed(module)
            && top(&target) != top(module)
            && !allowed.iter().any(|entry| permits(entry, &target))
        {
            faults.push(format!("{path}:{line}: `{module}` may not import `{target}`, only {}", allowed.join(", ")));
        }
        if let Some(adapter) = ADAPTERS.iter().find(|adapter| within(&target, adapter))
            && !within(module, adapter)
            && !MAY_NAME_ADAPTERS.iter().any(|place| within(module, place))
        {
            faults.push(format!("{path}:{line}: `{adapter}` is concrete: only app names it, others use its port"));
        }
    }
    faults
}

/// Every path into our own crate that a file names, from the crate's root.
fn named_modules(module: &str, code: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> =
        paths_from(code, "crate").into_iter().map(|(line, path)| (line, path[1..].join("::"))).collect();
    for (line, path) in paths_from(code, "super") {
        let ups = path.iter().take_while(|part| *part == "super").count();
        let mut from: Vec<&str> = module.split("::").collect();
        from.truncate(from.len().saturating_sub(ups));
        from.extend(path[ups..].iter().map(String::as_str));
        found.push((line, from.join("::")));
    }
    found
}

fn allowed(module: &str) -> Option<&'static [&'static str]> {
    if UNBOUND.iter().any(|free| top(module) == *free) {
        return None;
    }
    let fits = MAY_IMPORT.iter().filter(|(of, _)| within(module, of)).max_by_key(|(of, _)| of.len());
    Some(fits.map_or(&[], |(_, allowed)| *allowed))
}

fn permits(entry: &str, target: &str) -> bool {
    match entry.strip_suffix("::") {
        None => within(target, entry),
        Some(port) => {
            target == port
                || target
                    .strip_prefix(entry)
                    .is_some_and(|item| item == "self" || item.starts_with(|c: char| c.is_ascii_uppercase()))
        }
    }
}

fn within(path: &str, module: &str) -> bool {
    path.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

fn top(module: &str) -> &str {
    module.split("::").next().unwrap_or(module)
}

/// `src/engine/round.rs` is `engine::round`; `None` for what is not shipped.
fn module_of(path: &str) -> Option<String> {
    let inner = path.strip_prefix("src/")?.strip_suffix(".rs")?;
    if inner.split('/').any(|part| part == "tests") {
        return None;
    }
    let inner = inner.strip_suffix("/mod").unwrap_or(inner);
    Some(if inner == "lib" { String::new() } else { inner.replace('/', "::") })
}

fn sources(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs" || e == "py") || folder.ends_with("scripts") {
            found.push(path);
        }
    }
}

#[test]
fn the_sources_obey_the_rules_of_the_house() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["src", "tests", "benches", "fuzz", "scripts"] {
        sources(&root.join(folder), &mut files);
    }
    assert!(files.len() > 40, "only {} files found: do the rules see the sources?", files.len());
    let mut all = Vec::new();
    for file in files {
        let path = file.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        if path.starts_with("tests/data/") || path.contains("/target/") || path.contains("__pycache__") {
            continue;
        }
        all.extend(faults(&path, &std::fs::read_to_string(&file).unwrap()));
    }
    for (path, _) in LONG_FILES {
        if !root.join(path).exists() {
            all.push(format!("{path}: is in LONG_FILES and does not exist"));
        }
    }
    assert!(all.is_empty(), "\n{}\n", all.join("\n"));
}

#[test]
fn each_rule_can_fail() {
    let long = format!("//! x\n{}", "\n".repeat(MOST_LINES));
    for (path, text, fault) in [
        ("src/engine/utils.rs", "//! x", "`utils` says nothing"),
        ("tests/common/mod.rs", "//! x", "`common` says nothing"),
        ("src/engine/mod.rs", long.as_str(), "401 lines"),
        ("src/engine/mod.rs", "use std::fmt;", "begin with `//!`"),
        ("src/http/chat.rs", "//! x\nuse sqlx::query;", "src/http/chat.rs:2: `sqlx` may be used only in src/storage/"),
        ("src/turns/mod.rs", "//! x\nfn f() -> axum::Router", "`axum` may be used only in src/http/"),
        ("src/llm/openai/mod.rs", "//! x\nuse reqwest::Client;", "`reqwest` may be used only in src/llm/transport"),
        ("src/engine/round.rs", "//! x\nuse crate::http::frame;", "`engine::round` may not import `http::frame`"),
        ("src/engine/budget.rs", "//! x\nuse crate::knowledge::ingest::Ingest;", "may not import `knowledge::ingest"),
        ("src/engine/round.rs", "//! x\nuse crate::llm::{LlmError, sse};", "may not import `llm::sse`"),
        ("src/message/mod.rs", "//! x\nuse super::llm::LlmError;", "`message` may not import `llm::LlmError`"),
        ("src/storage/turns.rs", "//! x\nuse crate::{message, turns::Log};", "may not import `turns::Log`"),
        ("src/newcomer.rs", "//! x\nuse crate::config::Config;", "`newcomer` may not import"),
        ("src/turns/mod.rs", "//! x\nlet (a, b) = mpsc::unbounded_channel();", "give the channel a bound"),
        ("src/turns/mod.rs", "//! x\nhandle.block_on(work)", "it stops a thread of the runtime"),
        ("src/turns/mod.rs", "//! x\nuse crate::llm::openai::OpenAi;", "`llm::openai` is concrete"),
        ("src/llm/anthropic/mod.rs", "//! x\nuse crate::llm::openai::wire;", "`llm::openai` is concrete"),
    ] {
        let found = faults(path, text).join("\n");
        assert!(found.contains(fault), "{path}\n{text}\nshould say: {fault}\nsays: {found}");
    }
}

#[test]
fn what_is_allowed_passes() {
    for (path, text) in [
        ("src/storage/turns.rs", "//! x\nuse sqlx::query;\nuse crate::knowledge::Scope;"),
        ("src/engine/round.rs", "//! x\nuse super::budget::ToolBudget;\nuse crate::llm::LlmProvider;"),
        ("src/engine/tool_task.rs", "//! x\nuse crate::knowledge::ingest::Ingest;"),
        ("src/tools/vector_search.rs", "//! x\nuse crate::knowledge::{retrieve::Retrieve, Hit};"),
        ("src/llm/openai/wire.rs", "//! x\nuse crate::llm::openai::x; use super::super::sse::Event;"),
        ("src/app.rs", "//! x\nuse crate::llm::openai::OpenAi;"),
        ("src/cli/inspect.rs", "//! x\nuse crate::llm::openai::decode;"),
        ("src/http/chat.rs", "//! x\n// sqlx::query\nconst X: &str = \"sqlx::query\";"),
        ("src/http/chat.rs", "//! x\n#[cfg(test)]\nmod tests {\n    use sqlx::query;\n}"),
        ("src/http/tests.rs", "//! x\nuse sqlx::query;"),
    ] {
        assert_eq!(faults(path, text), Vec::<String>::new(), "{path}\n{text}");
    }
}
