//! The laws of the configuration: every key is documented, limits are named, nothing secret is shown.

use super::key::Kind;
use super::*;
use std::collections::BTreeSet;
use std::io::Write;

fn load(file: &str, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> Result<Loaded, ConfigErrors> {
    let mut written = tempfile::NamedTempFile::new().unwrap();
    written.write_all(file.as_bytes()).unwrap();
    let args = LoadArgs {
        config_file: (!file.is_empty()).then(|| written.path().to_owned()),
        overrides: flags.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
    };
    Config::load_from(&args, environment.iter().map(|(k, v)| (OsString::from(k), OsString::from(v))))
}

fn problems(file: &str, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> String {
    load(file, environment, flags).unwrap_err().to_string()
}

fn setting(loaded: &Loaded, key: &str) -> (String, String) {
    let found = loaded.settings.iter().find(|s| s.key == key).unwrap();
    (found.value.clone(), found.source.clone())
}

#[test]
fn the_default_file_names_every_key_once_and_explains_it() {
    let text = include_str!("default.toml");
    let (mut section, mut explained, mut named) = (String::new(), false, Vec::new());
    for line in text.lines() {
        match line.trim() {
            "" => explained = false,
            comment if comment.starts_with('#') => explained = true,
            head if head.starts_with('[') => section = head.trim_matches(['[', ']']).to_owned(),
            pair => {
                // Neighbours without an empty line between them share a comment.
                assert!(explained, "no comment before {pair}");
                named.push(format!("{section}.{}", pair.split(' ').next().unwrap()));
            }
        }
    }
    assert_eq!(named.iter().collect::<BTreeSet<_>>().len(), named.len());
    assert_eq!(named, keys().map(|k| k.name).collect::<Vec<_>>());
}

#[test]
fn the_defaults_are_those_of_the_public_contract() {
    let loaded = load("", &[], &[]).unwrap();
    for (key, value) in [
        ("server.listen", "\"127.0.0.1:8787\""),
        ("models.dir", "\"models\""),
        ("engine.max_continuations", "3"),
        ("engine.max_tools_per_round", "3"),
        ("engine.max_tools_total", "5"),
        ("engine.tool_timeout_ms", "30000"),
        ("engine.max_block_bytes", "65536"),
        ("engine.overlap", "true"),
        ("llm.first_byte_timeout_ms", "120000"),
        ("llm.idle_timeout_ms", "45000"),
        ("turns.timeout_ms", "600000"),
        ("server.drain_timeout_ms", "20000"),
        ("ingest.tool_results", "\"conversation\""),
        ("ingest.wait_ms", "2000"),
        ("tools.fetch_url.urls", "\"seen\""),
        ("messages.locale", "\"en\""),
    ] {
        assert_eq!(setting(&loaded, key), (value.to_owned(), "default".to_owned()), "{key}");
    }
    assert!(loaded.config.llm.provider.is_none() && loaded.config.qdrant.url.is_none());
    assert_eq!(loaded.config.engine.tool_timeout, Duration::from_secs(30));
}

#[test]
fn a_higher_source_wins_and_is_named() {
    let file = "[engine]\nmax_tools_total = 7\n[llm.openai]\nbase_url = \"http://file.example\"\n";
    let named = ("OPENAI_BASE_URL", "http://named.example/v1");
    let general = ("TAILRACE__LLM__OPENAI__BASE_URL", "http://general.example");
    let (key, flag) = ("llm.openai.base_url", ("llm.openai.base_url", "http://flag.example"));
    for (environment, flags, value, source) in [
        (vec![], vec![], "http://file.example", "file "),
        (vec![named], vec![], "http://named.example/v1", "environment variable OPENAI_BASE_URL"),
        (
            vec![named, general],
            vec![],
            "http://general.example",
            "environment variable TAILRACE__LLM__OPENAI__BASE_URL",
        ),
        (vec![named, general], vec![flag], "http://flag.example", "command line"),
        (vec![("OPENAI_BASE_URL", "")], vec![], "http://file.example", "file "),
    ] {
        let loaded = load(file, &environment, &flags).unwrap();
        let (found, from) = setting(&loaded, key);
        assert_eq!(found, format!("{value:?}"));
        assert!(from.starts_with(source), "{from}");
        assert_eq!(loaded.config.llm.openai.base_url.as_deref(), Some(value));
        assert_eq!(loaded.config.engine.max_tools_total, 7);
    }
}

#[test]
fn every_kind_is_read_from_a_file_and_from_text() {
    let file = "[server]\nallowed_origins = [\"https://a.example\"]\ninsecure_no_auth = true\n\
                [retrieval]\nmin_cosine = 0\n[llm]\nprovider = \"local\"\n[log]\nlevel = \"debug\"";
    let environment = [
        ("TAILRACE__SERVER__ALLOWED_ORIGINS", r#"["https://a.example"]"#),
        ("TAILRACE__SERVER__INSECURE_NO_AUTH", "true"),
        ("TAILRACE__RETRIEVAL__MIN_COSINE", "0"),
        ("TAILRACE__LLM__PROVIDER", "local"),
        ("TAILRACE__LOG__LEVEL", "debug"),
    ];
    for loaded in [load(file, &[], &[]).unwrap(), load("", &environment, &[]).unwrap()] {
        let config = loaded.config;
        assert_eq!(config.server.allowed_origins, ["https://a.example"]);
        assert!(config.server.insecure_no_auth);
        assert!(config.retrieval.min_cosine.abs() < f32::EPSILON);
        assert_eq!(config.llm.provider, Some(ProviderName::Local));
        assert_eq!(config.log.level, Level::Debug);
    }
    // A text stays a text, whatever it looks like.
    let loaded = load("", &[("TAILRACE__LLM__MODEL", "4")], &[]).unwrap();
    assert_eq!(loaded.config.llm.model.as_deref(), Some("4"));
}

#[test]
fn all_problems_are_named_at_once_with_what_would_work() {
    let file = "stray = 1\n[server]\nlisten = \"localhost\"\nlisten_on = \"x\"\n[engine]\noverlap = \"yes\"\n[engne]\n";
    let environment = [
        ("TAILRACE__ENGINE__MAX_TOOLS_TOTAL", "many"),
        ("TAILRACE__ENGINE__MAX_TOOL_TOTAL", "3"),
        ("TAILRACE__TOOLS__FETCH_URL__ALLOW_HOSTS", "[\"wiki.internal\"]"),
        ("TAILRACE_UNRELATED", "x"),
        ("DATABASE_URL", "postgres://me:canary@db/x"),
    ];
    let text = problems(file, &environment, &[("llm.provider", "oracle"), ("retrieval.limit", "0")]);
    assert!(text.starts_with("the configuration has 11 problems:"), "{text}");
    for part in [
        "stray (file ",
        "server.listen (file ",
        "such as 127.0.0.1:8787",
        "did you mean server.listen?",
        "use true or false",
        "engne (file ",
        "TAILRACE__ENGINE__MAX_TOOLS_TOTAL (environment variable TAILRACE__ENGINE__MAX_TOOLS_TOTAL): \"many\" is refused: use a whole number from 0 to 256",
        "did you mean engine.max_tools_total?",
        "host:port, such as wiki.internal:443",
        "\"postgres://***@db/x\" is refused: use an address such as sqlite:",
        "llm.provider (command line): \"oracle\" is refused: use one of nothing, anthropic, openai, local, extractive",
        "retrieval.limit (command line): 0 is refused: use a whole number from 1 to 100",
    ] {
        assert!(text.contains(part), "{part}\nnot in\n{text}");
    }
    assert!(!text.contains("UNRELATED") && !text.contains("canary"), "{text}");
}

#[test]
fn a_file_that_is_missing_or_not_toml_is_a_problem() {
    let args = LoadArgs { config_file: Some("/nowhere/tailrace.toml".into()), overrides: vec![] };
    let text = Config::load_from(&args, []).unwrap_err().to_string();
    assert!(text.contains("--config (file /nowhere/tailrace.toml): cannot be read"), "{text}");
    let text = problems("[server\n", &[], &[]);
    assert!(text.contains("not valid TOML") && text.contains("line 1"), "{text}");
}

#[test]
fn every_number_has_limits_that_the_refusal_names() {
    let mut numbers = 0;
    for key in keys() {
        let (low, high, inside) = match key.kind {
            Kind::Whole { min, max } => {
                (i128::from(min) - 1, i128::from(max) + 1, vec![min.to_string(), max.to_string()])
            }
            Kind::Real { min, max } => (min as i128 - 1, max as i128 + 1, vec![min.to_string(), max.to_string()]),
            _ => continue,
        };
        numbers += 1;
        for outside in [low, high] {
            let refused = key.read_text(&outside.to_string()).unwrap_err();
            assert!(refused.works.contains(&format!("from {} to {}", inside[0], inside[1])), "{refused:?}");
        }
        assert!(key.read_text("NaN").is_err() && key.read_text("").is_err(), "{}", key.name);
        for inside in &inside {
            assert!(key.read_text(inside).is_ok(), "{} = {inside}", key.name);
        }
    }
    assert!(numbers > 20);
}

#[test]
fn contradictions_are_refused() {
    for (flags, part) in [
        (vec![("retrieval.prefetch", "5")], "retrieval.prefetch (effective values): 5 is below retrieval.limit (6)"),
        (vec![("qdrant.api_key", "x")], "set QDRANT_URL"),
    ] {
        let text = problems("", &[], &flags);
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn no_secret_is_shown() {
    let environment = [
        ("TAILRACE_ADMIN_KEY", "canary-1"),
        ("QDRANT_URL", "http://127.0.0.1:6334"),
        ("QDRANT_API_KEY", "canary-2"),
        ("ANTHROPIC_API_KEY", "canary-3"),
        ("OPENAI_API_KEY", "canary-4"),
    ];
    let loaded = load("", &environment, &[]).unwrap();
    let shown = format!("{loaded:?}");
    assert!(!shown.contains("canary"), "{shown}");
    assert_eq!(setting(&loaded, "server.admin_key").0, "***");
    assert_eq!(loaded.config.llm.openai.api_key.unwrap().expose(), "canary-4");
    // Nor in a refusal: a key that TOML took for a number.
    let text = problems("[qdrant]\napi_key = 4711\n", &[("OPENAI_BASE_URL", "http://u:canary@host/")], &[]);
    assert!(!text.contains("4711") && !text.contains("canary"), "{text}");
    assert!(text.contains("qdrant.api_key") && text.contains("\"http://***@host/\""), "{text}");
}

#[test]
fn the_admin_key_may_stand_in_a_file() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"from-a-file\n").unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    let loaded = load("", &[("TAILRACE_ADMIN_KEY_FILE", &path)], &[]).unwrap();
    assert_eq!(loaded.config.server.admin_key.as_ref().unwrap().expose(), "from-a-file");
    assert_eq!(setting(&loaded, "server.admin_key").1, "environment variable TAILRACE_ADMIN_KEY_FILE");
    let both = problems("", &[("TAILRACE_ADMIN_KEY_FILE", &path), ("TAILRACE_ADMIN_KEY", "x")], &[]);
    assert!(both.contains("unset one of them"), "{both}");
    let missing = problems("", &[("TAILRACE_ADMIN_KEY_FILE", "/nowhere/key")], &[]);
    assert!(missing.contains("/nowhere/key cannot be read"), "{missing}");
}

#[test]
fn addresses_and_origins() {
    for (key, good, bad) in [
        ("server.listen", vec!["0.0.0.0:80", "[::1]:0"], vec!["localhost:80", "1.2.3.4", ":80", ""]),
        (
            "server.allowed_origins",
            vec!["[]", r#"["http://localhost:5173","https://a.example"]"#],
            vec!["https://a.example", r#"["https://a.example/"]"#, r#"["*"]"#, r#"["ftp://a"]"#, "[1]"],
        ),
        (
            "qdrant.url",
            vec!["", "http://q:6334", "https://q"],
            vec!["q:6334", "http://u@q", "http://u:p@q", "grpc://q"],
        ),
        (
            "tools.fetch_url.allow_hosts",
            vec!["[]", r#"["127.0.0.1:80","[::1]:80","wiki:443"]"#],
            vec![r#"["wiki"]"#, r#"["wiki:0"]"#, r#"["*:80"]"#, r#"["http://wiki:80"]"#, r#"[":80"]"#, r#"["u@h:80"]"#],
        ),
        ("embedding.model", vec!["x", "./models/y", "openai:z"], vec!["", " ", "openai:"]),
        ("storage.database_url", vec!["", "sqlite:///x.db", "sqlite::memory:"], vec!["mysql://x", "sqlite:"]),
    ] {
        let key = keys().find(|k| k.name == key).unwrap();
        for text in good {
            assert!(key.read_text(text).is_ok(), "{} = {text}", key.name);
        }
        for text in bad {
            assert!(key.read_text(text).is_err(), "{} = {text}", key.name);
        }
    }
}

#[test]
fn the_documentation_names_every_key_with_its_default() {
    let text = include_str!("../../docs/configuration.md");
    let rows: Vec<_> = text.lines().map(str::trim).filter(|line| line.starts_with("| `")).collect();
    for Setting { key, value, .. } in load("", &[], &[]).unwrap().settings {
        let row = format!("| `{key}` | `{value}` |");
        assert!(rows.iter().any(|r| r.starts_with(&row)), "docs/configuration.md lacks: {row}");
    }
    for (variable, key) in layers::NAMED {
        assert!(rows.iter().any(|row| row.contains(variable) && row.contains(key)), "{variable} is not documented");
    }
    // Nor does it name one that is gone.
    assert_eq!(rows.len(), keys().count() + NAMED_ROWS);
}

/// Some rows name two variables.
const NAMED_ROWS: usize = 5;
