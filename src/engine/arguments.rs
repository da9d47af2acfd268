//! What a call was given, as JSON that fits its tool's schema, or in one line why not.
//!
//! Invariant: nothing is guessed or repaired. Broken arguments are refused, a key given twice is
//! refused, JSON values keep their types, and text is read by the type that the schema names.

mod json;
#[cfg(test)]
mod tests;

use crate::engine::xml_block::{self, XmlToolCall};
use crate::message::Arguments;
use crate::tools::ToolSpec;
use jsonschema::Validator;
use jsonschema::error::{ValidationError, ValidationErrorKind};
use serde_json::{Number, Value};
use std::collections::BTreeMap;

/// What was wrong: one line, for the model and the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ArgumentError(String);

impl ArgumentError {
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// The same, and what was sent.
    pub fn with_sent(self, sent: &Sent) -> Self {
        match cut(&sent.text) {
            text if text.is_empty() => Self(format!("{}; no arguments were sent", self.0)),
            text => Self(format!("{}; sent: {text}", self.0)),
        }
    }
}

/// A call's arguments as the model wrote them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sent {
    pub text: String,
    /// Where they are an object at all, read without any schema.
    pub arguments: Option<Arguments>,
}

impl Sent {
    pub fn native(text: &str) -> Self {
        let nothing = xml_block::trim(text).is_empty();
        let arguments = if nothing { Some(Arguments::new()) } else { serde_json::from_str(text).ok() };
        Self { text: text.to_owned(), arguments }
    }

    /// Attributes, and the body where that is an object.
    pub fn inline(call: &XmlToolCall) -> Self {
        let mut text: String = call.attrs.iter().map(|(name, value)| format!("{name}={value:?} ")).collect();
        text.push_str(&call.body);
        let mut arguments: Arguments =
            call.attrs.iter().map(|(name, value)| (name.clone(), Value::String(value.clone()))).collect();
        if let Ok(body) = json::object(xml_block::trim(&call.body)) {
            arguments.extend(body);
        }
        Self { text, arguments: Some(arguments) }
    }
}

/// The compiled schemas of a set of tools, each compiled once.
#[derive(Debug, Default)]
pub struct ToolSchemas {
    by_name: BTreeMap<String, ArgumentSchema>,
}

impl ToolSchemas {
    /// Fails with the name of the first tool whose `parameters` are not a usable schema.
    pub fn compile<'a>(tools: impl IntoIterator<Item = &'a ToolSpec>) -> Result<Self, ArgumentError> {
        let compile = |spec: &ToolSpec| match ArgumentSchema::compile(&spec.parameters) {
            Ok(schema) => Ok((spec.name.clone(), schema)),
            Err(error) => Err(ArgumentError(format!("the schema of tool {} is not usable: {error}", spec.name))),
        };
        Ok(Self { by_name: tools.into_iter().map(compile).collect::<Result<_, _>>()? })
    }

    pub fn get(&self, tool: &str) -> Option<&ArgumentSchema> {
        self.by_name.get(tool)
    }
}

/// The arguments that one tool takes.
#[derive(Debug)]
pub struct ArgumentSchema {
    /// How text for each named argument is read.
    kinds: BTreeMap<String, Kinds>,
    required: Vec<String>,
    validator: Validator,
}

/// The JSON types that a schema allows; all false where it does not say.
#[derive(Clone, Copy, Debug, Default)]
struct Kinds {
    string: bool,
    integer: bool,
    number: bool,
    boolean: bool,
    null: bool,
    json: bool,
}

impl ArgumentSchema {
    /// `parameters`: JSON Schema (draft 2020-12 unless it names another) of the arguments object.
    pub fn compile(parameters: &Value) -> Result<Self, ArgumentError> {
        let validator =
            jsonschema::validator_for(parameters).map_err(|error| ArgumentError(cut(&error.to_string())))?;
        let names = parameters.get("required").and_then(Value::as_array).into_iter().flatten();
        let properties = parameters.get("properties").and_then(Value::as_object).into_iter().flatten();
        Ok(Self {
            kinds: properties.map(|(name, schema)| (name.clone(), Kinds::of(schema, parameters, 8))).collect(),
            required: names.filter_map(Value::as_str).map(str::to_owned).collect(),
            validator,
        })
    }

    /// The arguments of an inline call: its attributes, and its body as a JSON object, as elements
    /// named in the schema, or as the text of the one required string still missing.
    pub fn read_inline(&self, call: &XmlToolCall) -> Result<Arguments, ArgumentError> {
        let mut arguments = Arguments::new();
        for (name, text) in &call.attrs {
            put(&mut arguments, name, self.read_text(name, text.clone())?)?;
        }
        let body = xml_block::trim(&call.body);
        if body.starts_with('{') {
            for (name, value) in json::object(body).map_err(|why| wrong("the body", &why))? {
                put(&mut arguments, &name, value)?;
            }
        } else if let Some(elements) = xml_block::child_elements(body, |name| self.kinds.contains_key(name)) {
            for (name, raw) in elements {
                let text = xml_block::plain_text(xml_block::trim(raw));
                put(&mut arguments, &name, self.read_text(&name, text)?)?;
            }
        } else {
            let name = self.missing_string(&arguments)?.to_owned();
            arguments.insert(name, Value::String(xml_block::plain_text(body)));
        }
        self.validate(arguments)
    }

    /// The arguments of a native call: one JSON object. Nothing at all is an empty one.
    pub fn read_native(&self, text: &str) -> Result<Arguments, ArgumentError> {
        let text = xml_block::trim(text);
        if text.is_empty() {
            return self.validate(Arguments::new());
        }
        self.validate(json::object(text).map_err(|why| wrong("the arguments", &why))?)
    }

    fn validate(&self, arguments: Arguments) -> Result<Arguments, ArgumentError> {
        let value = Value::Object(arguments);
        if let Err(error) = self.validator.validate(&value) {
            return Err(self.describe(&error));
        }
        match value {
            Value::Object(arguments) => Ok(arguments),
            _ => Err(wrong("the arguments", "not a JSON object")),
        }
    }

    fn describe(&self, error: &ValidationError<'_>) -> ArgumentError {
        let path = error.instance_path().as_str().trim_start_matches('/').replace('/', ".");
        let message = match error.kind() {
            ValidationErrorKind::Required { property } => {
                let missing = property.as_str().unwrap_or_default();
                return ArgumentError(format!("{} is missing", join(&path, missing)));
            }
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                let known = self.kinds.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
                let unknown = unexpected.iter().map(|name| join(&path, name)).collect::<Vec<_>>().join(", ");
                let hint = if path.is_empty() { format!(": the tool takes {known}") } else { String::new() };
                return ArgumentError(cut(&format!("{unknown} is not known{hint}")));
            }
            _ => error.to_string(),
        };
        ArgumentError(if path.is_empty() { cut(&message) } else { format!("{path}: {}", cut(&message)) })
    }

    /// Text for the argument `name`, by the type that the schema gives it.
    fn read_text(&self, name: &str, text: String) -> Result<Value, ArgumentError> {
        let kinds = self.kinds.get(name).copied().unwrap_or_default();
        if kinds.string || kinds.names().is_empty() {
            return Ok(Value::String(text));
        }
        let word = xml_block::trim(&text);
        let integer = || word.parse::<i64>().map(Number::from).or_else(|_| word.parse::<u64>().map(Number::from)).ok();
        let read = match word {
            "true" if kinds.boolean => Some(Value::Bool(true)),
            "false" if kinds.boolean => Some(Value::Bool(false)),
            "null" if kinds.null => Some(Value::Null),
            _ if kinds.integer && integer().is_some() => integer().map(Value::Number),
            _ if kinds.number && serde_json::from_str::<Number>(word).is_ok() => serde_json::from_str(word).ok(),
            _ if kinds.json => json::value(word).ok(),
            _ => None,
        };
        read.ok_or_else(|| wrong(name, &format!("expected {}", kinds.names().join(" or "))))
    }

    /// The one required string that no attribute gave.
    fn missing_string(&self, given: &Arguments) -> Result<&str, ArgumentError> {
        let takes_text = |name: &str| self.kinds.get(name).is_none_or(|kinds| kinds.string || kinds.names().is_empty());
        let missing: Vec<&str> = self
            .required
            .iter()
            .map(String::as_str)
            .filter(|name| !given.contains_key(*name) && takes_text(name))
            .collect();
        match missing.as_slice() {
            [name] => Ok(name),
            [] => Err(wrong("the body", "no required text argument is missing that it could be")),
            many => Err(wrong("the body", &format!("it could be any of {}; write a JSON object", many.join(", ")))),
        }
    }
}

impl Kinds {
    /// `depth`: how many references and alternatives are followed.
    fn of(schema: &Value, root: &Value, depth: u8) -> Self {
        let mut kinds = Self::default();
        match schema.get("type") {
            Some(Value::String(name)) => kinds.add(name),
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).for_each(|name| kinds.add(name)),
            _ => {}
        }
        if depth > 0 {
            let target = schema.get("$ref").and_then(Value::as_str).and_then(|at| root.pointer(at.strip_prefix('#')?));
            let branches = ["anyOf", "oneOf"].iter().filter_map(|key| schema.get(key)?.as_array()).flatten();
            branches.chain(target).for_each(|schema| kinds.merge(Self::of(schema, root, depth - 1)));
        }
        kinds
    }

    fn add(&mut self, name: &str) {
        match name {
            "string" => self.string = true,
            "integer" => self.integer = true,
            "number" => self.number = true,
            "boolean" => self.boolean = true,
            "null" => self.null = true,
            _ => self.json = true,
        }
    }

    fn merge(&mut self, other: Self) {
        other.names().into_iter().for_each(|name| self.add(name));
    }

    fn names(self) -> Vec<&'static str> {
        let named = [
            (self.string, "string"),
            (self.integer, "integer"),
            (self.number, "number"),
            (self.boolean, "boolean"),
            (self.null, "null"),
            (self.json, "JSON array or object"),
        ];
        named.into_iter().filter_map(|(allowed, name)| allowed.then_some(name)).collect()
    }
}

fn put(arguments: &mut Arguments, name: &str, value: Value) -> Result<(), ArgumentError> {
    match arguments.insert(name.to_owned(), value) {
        None => Ok(()),
        Some(_) => Err(ArgumentError(format!("{} is given twice", cut(name)))),
    }
}

fn wrong(what: &str, why: &str) -> ArgumentError {
    ArgumentError(format!("{what}: {why}"))
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// At most 160 characters on one line.
fn cut(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(160) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}
