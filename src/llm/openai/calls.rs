//! Which call a fragment of an OpenAI-compatible stream belongs to. Index, id and name may each be
//! missing, repeated or wrong; the rules below are what is left when each of them has lied.
//!
//! Wire indices are keys to look up, never sizes. A call keeps the first name it was given. Nothing
//! completes before the stream has ended well.

use crate::llm::decode::{MAX_CALLS, MAX_KEPT_BYTES, MAX_LABEL, refuse, too_long, why_refused};
use crate::llm::json_scan::{JsonScan, Scan};
use crate::llm::loose::Halves;
use crate::llm::{LlmError, Stop, StreamEvent};
use serde_json::Value;

/// One entry of `tool_calls`, read loosely.
#[derive(Debug, Default)]
pub struct Fragment {
    /// The wire's index as it was written.
    index: Option<String>,
    id: Option<String>,
    name: Option<String>,
    arguments: String,
}

impl Fragment {
    /// From `{index, id, function: {name, arguments}}`.
    pub fn read(entry: &mut Value) -> Self {
        let index = match entry.get("index") {
            Some(Value::Number(number)) => Some(number.to_string()),
            Some(Value::String(text)) if !text.is_empty() => Some(text.clone()),
            _ => None,
        };
        let id = word(entry.get("id"));
        let function = entry.get_mut("function").map(Value::take).unwrap_or_default();
        Self { index, id, ..Self::read_function(function) }
    }

    /// From `{name, arguments}`, which is also all that the old `function_call` has.
    pub fn read_function(mut function: Value) -> Self {
        let arguments = match function.get_mut("arguments").map(Value::take) {
            Some(Value::String(text)) => text,
            Some(value @ (Value::Object(_) | Value::Array(_))) => value.to_string(),
            _ => String::new(),
        };
        Self { name: word(function.get("name")), arguments, ..Self::default() }
    }
}

/// A string that says something: some servers write placeholders where there is nothing.
fn word(value: Option<&Value>) -> Option<String> {
    value?.as_str().map(str::trim).filter(|text| !matches!(*text, "" | "null" | "None")).map(str::to_owned)
}

#[derive(Debug)]
struct Call {
    index: Option<String>,
    label: i64,
    id: Option<String>,
    name: Option<String>,
    arguments: String,
    scan: JsonScan,
    halves: Halves,
    /// The name is known and `ToolCallStart` went out.
    started: bool,
}

/// The calls of one answer, in the order they began.
#[derive(Debug, Default)]
pub struct Calls {
    calls: Vec<Call>,
    /// Makes ids where the server gave none.
    nonce: String,
    kept: usize,
}

impl Calls {
    pub fn new(nonce: String) -> Self {
        Self { nonce, ..Self::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Takes a fragment. `whole`: it stands in a complete message, so it is a call of its own.
    pub fn take(
        &mut self,
        fragment: Fragment,
        whole: bool,
        marked: bool,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), LlmError> {
        let at = match if whole { None } else { self.belongs_to(&fragment) } {
            Some(at) => at,
            None => self.begin(&fragment)?,
        };
        let Self { calls, kept, nonce } = self;
        let Some(call) = calls.get_mut(at) else { return Ok(()) };
        call.index = call.index.take().or(fragment.index);
        call.id = call.id.take().or(fragment.id);
        call.name = call.name.take().or(fragment.name);
        let piece = call.halves.join(fragment.arguments, marked);
        *kept += piece.len();
        if *kept > MAX_KEPT_BYTES {
            return Err(too_long());
        }
        call.scan.feed(&piece);
        call.arguments.push_str(&piece);
        if call.started {
            call.send(piece, out);
        } else if let Some(name) = &call.name {
            call.started = true;
            let id = call.id.get_or_insert_with(|| format!("call_{nonce}{}", call.label)).clone();
            out.push(StreamEvent::ToolCallStart { id, name: name.clone(), index: call.label });
            call.send(call.arguments.clone(), out);
        }
        Ok(())
    }

    /// The newest call that the fragment continues.
    fn belongs_to(&self, fragment: &Fragment) -> Option<usize> {
        let newest = |is: &dyn Fn(&Call) -> bool| self.calls.iter().rposition(is);
        let same_id = || newest(&|call| fragment.id.is_some() && call.id == fragment.id);
        let at = match &fragment.index {
            // An index nobody has used is a new call, unless a known id without a name comes with it.
            Some(index) => newest(&|call| call.index.as_ref() == Some(index)).or_else(|| {
                same_id().filter(|at| {
                    fragment.name.is_none() || self.calls.get(*at).is_some_and(|call| call.index.is_none())
                })
            })?,
            None => same_id().or_else(|| self.calls.len().checked_sub(1))?,
        };
        let call = self.calls.get(at)?;
        match (&fragment.id, &call.id) {
            (Some(id), Some(known)) if id == known => Some(at),
            // All parallel calls under one index: the id tells them apart.
            (Some(_), Some(_)) => same_id().or_else(|| (!call.starts_anew(fragment, true)).then_some(at)),
            _ => (!call.starts_anew(fragment, false)).then_some(at),
        }
    }

    fn begin(&mut self, fragment: &Fragment) -> Result<usize, LlmError> {
        if self.calls.len() >= MAX_CALLS {
            return Err(too_long());
        }
        let free = |label: &i64| self.calls.iter().all(|call| call.label != *label);
        let wanted = fragment.index.as_ref().and_then(|index| index.parse().ok());
        let label = wanted
            .filter(|label| (0..=MAX_LABEL).contains(label) && free(label))
            .unwrap_or_else(|| self.calls.iter().map(|call| call.label + 1).max().unwrap_or(0));
        self.calls.push(Call {
            index: None,
            label,
            id: None,
            name: None,
            arguments: String::new(),
            scan: JsonScan::default(),
            halves: Halves::default(),
            started: false,
        });
        Ok(self.calls.len() - 1)
    }

    /// The stream ended well: each call completes or is refused. Which are refused, and why.
    pub fn settle(&mut self, stop: Stop, out: &mut Vec<StreamEvent>) -> Option<String> {
        let mut refused = Vec::new();
        for call in &mut self.calls {
            if let Some(rest) = call.halves.flush() {
                call.arguments.push(rest);
                call.send(rest.to_string(), out);
            }
            match (&call.name, why_refused(&call.arguments, stop)) {
                (Some(_), None) => out.push(StreamEvent::ToolCallComplete { index: call.label }),
                (Some(name), Some(why)) => refused.push(format!("of {name} (call {}) {why}", call.label)),
                // Never named and never given arguments: nothing was asked for.
                (None, _) if call.arguments.trim().is_empty() => {}
                (None, _) => refused.push(format!("of call {} belong to no tool name", call.label)),
            }
        }
        refuse(&refused)
    }
}

impl Call {
    /// Whether the fragment, which this call's index or position claims, begins a call of its own.
    /// Only a name can begin one. `other_id`: both have an id, and not the same.
    fn starts_anew(&self, fragment: &Fragment, other_id: bool) -> bool {
        let (Some(name), Some(known)) = (&fragment.name, &self.name) else { return false };
        let arguments = fragment.arguments.trim_start();
        match self.scan.state() {
            // These arguments are whole: the name begins the next call, or repeats itself over nothing.
            Scan::Closed | Scan::Broken => other_id || name != known || !arguments.is_empty(),
            // They are open. Some servers repeat the name, or make a new id, with every fragment:
            // only what can be the beginning of an object begins a call.
            Scan::Open if other_id => name != known || arguments.is_empty() || arguments.starts_with('{'),
            Scan::Open => name != known && self.id.is_none() && arguments.starts_with('{'),
            Scan::Empty => other_id || name != known,
        }
    }

    fn send(&self, delta: String, out: &mut Vec<StreamEvent>) {
        if self.started && !delta.is_empty() {
            out.push(StreamEvent::ToolCallArgumentsDelta { index: self.label, delta });
        }
    }
}

/// The entries of a `tool_calls` list, if it is one.
pub fn entries(value: Option<&mut Value>) -> impl Iterator<Item = Fragment> {
    let list = value.and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default();
    list.into_iter().filter(Value::is_object).map(|mut entry| Fragment::read(&mut entry))
}
