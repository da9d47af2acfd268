//! The four sources of values and their precedence. Each value is checked where it stands, also one
//! that a higher source replaces: a wrong line in a file is a wrong line.

use super::key::{Key, Refusal};
use super::problem::nearest;
use super::{Config, ConfigErrors, LoadArgs, Loaded, Problem, Setting, keys};
use figment::providers::{Format, Toml};
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

const DEFAULTS: &str = include_str!("default.toml");
const PREFIX: &str = "TAILRACE__";
const ADMIN_KEY_FILE: &str = "TAILRACE_ADMIN_KEY_FILE";

/// The variables with names of their own. An empty one counts as unset, as others treat them.
pub(super) const NAMED: &[(&str, &str)] = &[
    ("TAILRACE_ADMIN_KEY", "server.admin_key"),
    ("DATABASE_URL", "storage.database_url"),
    ("QDRANT_URL", "qdrant.url"),
    ("QDRANT_API_KEY", "qdrant.api_key"),
    ("ANTHROPIC_API_KEY", "llm.anthropic.api_key"),
    ("ANTHROPIC_BASE_URL", "llm.anthropic.base_url"),
    ("OPENAI_API_KEY", "llm.openai.api_key"),
    ("OPENAI_BASE_URL", "llm.openai.base_url"),
];

/// Values from one place.
struct Layer {
    source: String,
    values: Vec<(&'static Key, Value)>,
}

// Values read by `Key` carry no origin yet: figment stamps them with this layer's when it merges them.
impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.source.clone())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        let mut dict = Dict::new();
        for (key, value) in &self.values {
            nest(&mut dict, key.name, value.clone());
        }
        Ok(Profile::Default.collect(dict))
    }
}

#[derive(Default)]
struct Layers {
    figment: Figment,
    problems: Vec<Problem>,
}

pub(super) fn load(
    args: &LoadArgs,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Loaded, ConfigErrors> {
    let mut layers = Layers::default();
    layers.toml("default".to_owned(), DEFAULTS);
    if let Some(path) = &args.config_file {
        layers.file(path);
    }
    layers.environment(environment);
    for (name, text) in &args.overrides {
        layers.text(name, name, "command line", text);
    }
    layers.finish()
}

impl Layers {
    fn file(&mut self, path: &Path) {
        let source = format!("file {}", path.display());
        match std::fs::read_to_string(path) {
            Ok(text) => self.toml(source, &text),
            Err(error) => self.refuse("--config", &source, format!("cannot be read: {error}")),
        }
    }

    fn toml(&mut self, source: String, text: &str) {
        let dict = match Toml::string(text).data() {
            Ok(mut profiles) => profiles.remove(&Profile::Default).unwrap_or_default(),
            Err(error) => {
                return self.refuse("TOML", &source, format!("not valid TOML: {}", one_line(&error.to_string())));
            }
        };
        let mut found = Vec::new();
        flatten("", dict, &mut found);
        let mut values = Vec::new();
        for (name, value) in found {
            match find(&name) {
                Some(key) => self.keep(key, &name, &source, key.read_value(&value), &mut values),
                None => self.unknown(&name, &name, &source),
            }
        }
        self.merge(source, values);
    }

    fn environment(&mut self, environment: impl IntoIterator<Item = (OsString, OsString)>) {
        // Sorted, so that problems come in the same order every time.
        let variables: BTreeMap<OsString, OsString> = environment.into_iter().collect();
        for (variable, name) in NAMED {
            if let Some(text) = variables.get(OsStr::new(variable)).filter(|text| !text.is_empty()) {
                self.variable(variable, name, text);
            }
        }
        self.admin_key_file(&variables);
        for (variable, text) in &variables {
            if let Some(rest) = variable.to_str().and_then(|v| v.strip_prefix(PREFIX)) {
                let name = rest.to_ascii_lowercase().replace("__", ".");
                self.variable(&variable.to_string_lossy(), &name, text);
            }
        }
    }

    fn variable(&mut self, variable: &str, name: &str, text: &OsStr) {
        let source = format!("environment variable {variable}");
        match text.to_str() {
            Some(text) => self.text(name, variable, &source, text),
            None => self.refuse(variable, &source, "is not UTF-8 text".to_owned()),
        }
    }

    fn admin_key_file(&mut self, variables: &BTreeMap<OsString, OsString>) {
        let Some(path) = variables.get(OsStr::new(ADMIN_KEY_FILE)).filter(|path| !path.is_empty()) else { return };
        let source = format!("environment variable {ADMIN_KEY_FILE}");
        if variables.get(OsStr::new("TAILRACE_ADMIN_KEY")).is_some_and(|key| !key.is_empty()) {
            return self.refuse(ADMIN_KEY_FILE, &source, "TAILRACE_ADMIN_KEY is set too: unset one of them".to_owned());
        }
        match std::fs::read_to_string(path) {
            Ok(text) if text.trim().is_empty() => {
                self.refuse(ADMIN_KEY_FILE, &source, format!("{} is empty: put the key into it", path.display()));
            }
            Ok(text) => self.text("server.admin_key", ADMIN_KEY_FILE, &source, &text),
            Err(error) => {
                self.refuse(ADMIN_KEY_FILE, &source, format!("{} cannot be read: {error}", path.display()));
            }
        }
    }

    /// One value that was written as text. `written` is what a person would look for.
    fn text(&mut self, name: &str, written: &str, source: &str, text: &str) {
        let Some(key) = find(name) else { return self.unknown(name, written, source) };
        let mut values = Vec::new();
        self.keep(key, written, source, key.read_text(text), &mut values);
        self.merge(source.to_owned(), values);
    }

    fn keep(
        &mut self,
        key: &'static Key,
        written: &str,
        source: &str,
        read: Result<Value, Refusal>,
        values: &mut Vec<(&'static Key, Value)>,
    ) {
        match read {
            Ok(value) => values.push((key, value)),
            Err(Refusal { given, works }) => self.refuse(written, source, format!("{given} is refused: use {works}")),
        }
    }

    fn unknown(&mut self, name: &str, written: &str, source: &str) {
        let hint = match nearest(name, keys().map(|key| key.name)) {
            Some(near) => format!("did you mean {near}?"),
            None => "`tailrace config` lists all keys".to_owned(),
        };
        self.refuse(written, source, format!("there is no setting of this name; {hint}"));
    }

    fn refuse(&mut self, name: &str, source: &str, message: String) {
        self.problems.push(Problem { name: name.to_owned(), source: source.to_owned(), message });
    }

    fn merge(&mut self, source: String, values: Vec<(&'static Key, Value)>) {
        self.figment = std::mem::take(&mut self.figment).merge(Layer { source, values });
    }

    fn finish(self) -> Result<Loaded, ConfigErrors> {
        if !self.problems.is_empty() {
            return Err(ConfigErrors(self.problems));
        }
        let internal = |error: Box<figment::Error>| {
            let name = error.path.join(".");
            let message = one_line(&error.to_string());
            ConfigErrors(vec![Problem { name, source: "effective values".to_owned(), message }])
        };
        let config: Config = self.figment.extract().map_err(Box::new).map_err(internal)?;
        let contradictions = config.contradictions();
        if !contradictions.is_empty() {
            return Err(ConfigErrors(contradictions));
        }
        let settings = keys().map(|key| self.setting(key)).collect::<Result<_, _>>().map_err(internal)?;
        Ok(Loaded { config, settings })
    }

    fn setting(&self, key: &'static Key) -> Result<Setting, Box<figment::Error>> {
        let value = self.figment.find_value(key.name).map_err(Box::new)?;
        let source = self.figment.get_metadata(value.tag()).map_or_else(String::new, |found| found.name.to_string());
        Ok(Setting { key: key.name, value: key.show(&value), source })
    }
}

fn find(name: &str) -> Option<&'static Key> {
    keys().find(|key| key.name == name)
}

/// Puts a value under its dotted name. A key is never the beginning of another, so each head is a table.
fn nest(dict: &mut Dict, name: &str, value: Value) {
    match name.split_once('.') {
        None => {
            dict.insert(name.to_owned(), value);
        }
        Some((head, rest)) => {
            if let Value::Dict(_, inner) = dict.entry(head.to_owned()).or_insert_with(|| Dict::new().into()) {
                nest(inner, rest, value);
            }
        }
    }
}

/// Leaves of nested tables under dotted names. An empty table of a wrong name is a leaf too.
fn flatten(above: &str, dict: Dict, found: &mut Vec<(String, Value)>) {
    for (name, value) in dict {
        let name = if above.is_empty() { name } else { format!("{above}.{name}") };
        let is_section = keys().any(|key| key.name.strip_prefix(&*name).is_some_and(|rest| rest.starts_with('.')));
        match value {
            Value::Dict(_, inner) if is_section || !inner.is_empty() && find(&name).is_none() => {
                flatten(&name, inner, found)
            }
            value => found.push((name, value)),
        }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
