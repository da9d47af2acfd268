//! What a setting may be: its kind and limits, as data. Everything that is given for a key, as TOML or
//! as text, is read and checked here, so each source refuses the same things with the same words.

use figment::value::{Num, Value};
use std::fmt::Write;

/// One setting. Each section's file lists its own.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Dotted: `server.listen`.
    pub name: &'static str,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Flag,
    /// A whole number between limits, both included.
    Whole {
        min: u64,
        max: u64,
    },
    Real {
        min: f64,
        max: f64,
    },
    /// One of these words; the empty text, if listed, means "not set".
    Word(&'static [&'static str]),
    Text(Rule),
    /// A text that is never shown.
    Secret,
    List(Rule),
}

/// When a text is right, and in words what would be.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    pub works: &'static str,
    pub accepts: fn(&str) -> bool,
}

impl Rule {
    pub const NOT_EMPTY: Self = Self { works: "a text that is not empty", accepts: |text| !text.trim().is_empty() };
    pub const ANY: Self = Self { works: "a text", accepts: |_| true };
}

/// Why a value is refused: what was given (never a secret), and what would work.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    pub given: String,
    pub works: String,
}

impl Key {
    pub const fn flag(name: &'static str) -> Self {
        Self { name, kind: Kind::Flag }
    }

    pub const fn whole(name: &'static str, min: u64, max: u64) -> Self {
        Self { name, kind: Kind::Whole { min, max } }
    }

    pub const fn real(name: &'static str, min: f64, max: f64) -> Self {
        Self { name, kind: Kind::Real { min, max } }
    }

    pub const fn word(name: &'static str, words: &'static [&'static str]) -> Self {
        Self { name, kind: Kind::Word(words) }
    }

    pub const fn text(name: &'static str, rule: Rule) -> Self {
        Self { name, kind: Kind::Text(rule) }
    }

    pub const fn secret(name: &'static str) -> Self {
        Self { name, kind: Kind::Secret }
    }

    pub const fn list(name: &'static str, rule: Rule) -> Self {
        Self { name, kind: Kind::List(rule) }
    }

    /// Reads a value written as text: an environment variable or a flag.
    pub fn read_text(&self, text: &str) -> Result<Value, Refusal> {
        let trimmed = text.trim();
        let value = match self.kind {
            Kind::Flag => trimmed.parse::<bool>().ok().map(Value::from),
            Kind::Whole { .. } => trimmed.parse::<u64>().ok().map(Value::from),
            Kind::Real { .. } => trimmed.parse::<f64>().ok().map(Value::from),
            Kind::Word(_) | Kind::Text(_) | Kind::Secret => Some(Value::from(trimmed)),
            Kind::List(_) => serde_json::from_str::<Vec<String>>(trimmed).ok().map(Value::from),
        };
        self.read_value(&value.unwrap_or_else(|| Value::from(text)))
    }

    /// Reads a value as TOML gave it, in the one form that the sections are built from.
    pub fn read_value(&self, value: &Value) -> Result<Value, Refusal> {
        let read = match self.kind {
            Kind::Flag => value.to_bool().map(Value::from),
            Kind::Whole { min, max } => whole(value).filter(|n| (min..=max).contains(n)).map(Value::from),
            Kind::Real { min, max } => number(value).filter(|n| (min..=max).contains(n)).map(Value::from),
            Kind::Word(words) => value.as_str().filter(|word| words.contains(word)).map(Value::from),
            Kind::Text(rule) => value.as_str().filter(|text| (rule.accepts)(text)).map(Value::from),
            Kind::Secret => value.as_str().map(Value::from),
            Kind::List(rule) => value
                .as_array()
                .and_then(|items| items.iter().map(Value::as_str).collect::<Option<Vec<_>>>())
                .filter(|items| items.iter().all(|item| (rule.accepts)(item)))
                .map(Value::from),
        };
        read.ok_or_else(|| Refusal { given: self.show(value), works: self.works() })
    }

    /// What would be accepted, as the end of "use …".
    pub fn works(&self) -> String {
        match self.kind {
            Kind::Flag => "true or false".to_owned(),
            Kind::Whole { min, max } => format!("a whole number from {min} to {max}{}", self.unit()),
            Kind::Real { min, max } => format!("a number from {min} to {max}"),
            Kind::Word(words) => {
                let words: Vec<_> = words.iter().map(|w| if w.is_empty() { "nothing" } else { *w }).collect();
                format!("one of {}", words.join(", "))
            }
            Kind::Text(rule) => rule.works.to_owned(),
            Kind::Secret => "a text".to_owned(),
            Kind::List(rule) => format!("a list (JSON in the environment) in which each entry is {}", rule.works),
        }
    }

    fn unit(&self) -> &'static str {
        match self.name {
            name if name.ends_with("_ms") => " (milliseconds)",
            name if name.ends_with("_bytes") => " (bytes)",
            name if name.ends_with("_days") => " (days)",
            name if name.ends_with("_percent") => " (percent)",
            _ => "",
        }
    }

    /// A value for people: secrets and passwords in addresses masked.
    pub fn show(&self, value: &Value) -> String {
        match (self.kind, value) {
            (Kind::Secret, Value::String(_, text)) if text.is_empty() => "\"\"".to_owned(),
            (Kind::Secret, _) => "***".to_owned(),
            (_, value) => plain(value),
        }
    }
}

/// Figment's numbers keep the type they were written in: TOML's are signed.
fn whole(value: &Value) -> Option<u64> {
    let number = value.to_num()?;
    match (number.to_u128(), number.to_i128()) {
        (Some(n), _) => u64::try_from(n).ok(),
        (None, Some(n)) => u64::try_from(n).ok(),
        (None, None) => None,
    }
}

/// A TOML file may say `1` where `1.0` is meant.
fn number(value: &Value) -> Option<f64> {
    let number = match value.to_num()? {
        Num::F32(n) => f64::from(n),
        Num::F64(n) => n,
        other => i32::try_from(other.to_i128().or_else(|| i128::try_from(other.to_u128()?).ok())?).ok()?.into(),
    };
    number.is_finite().then_some(number)
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(_, text) => format!("{:?}", without_password(text)),
        Value::Char(_, c) => format!("{c:?}"),
        Value::Bool(_, flag) => flag.to_string(),
        Value::Num(_, number) => shown_number(*number),
        Value::Empty(..) => "nothing".to_owned(),
        Value::Dict(..) => "a section".to_owned(),
        Value::Array(_, items) => {
            let mut shown = String::from("[");
            for (n, item) in items.iter().enumerate() {
                let comma = if n == 0 { "" } else { ", " };
                // Writing to a String cannot fail.
                let _ = write!(shown, "{comma}{}", plain(item));
            }
            shown + "]"
        }
    }
}

fn shown_number(number: Num) -> String {
    match number {
        Num::F32(n) => n.to_string(),
        Num::F64(n) => n.to_string(),
        whole => match (whole.to_u128(), whole.to_i128()) {
            (Some(n), _) => n.to_string(),
            (None, Some(n)) => n.to_string(),
            (None, None) => format!("{whole:?}"),
        },
    }
}

/// `scheme://user:password@host` loses what stands before the `@`: people paste such addresses.
fn without_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..authority_end].rfind('@') {
        Some(at) => format!("{scheme}://***{}", &rest[at..]),
        None => text.to_owned(),
    }
}
