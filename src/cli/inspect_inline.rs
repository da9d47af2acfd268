//! `tailrace inspect inline`: what the inline grammar makes of recorded chunks, for bug reports and for
//! those who write prompts. The output is a contract (API.md section 4), so it has its own wire form
//! here. It parses only: which tools there are and what they take is not known.

use crate::engine::xml_parser::{SealedCall, Segment, XmlParseState};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::io::{self, BufRead, Write};

/// One line of input; other fields are passed over, so that test cases can be fed as they are.
#[derive(Deserialize)]
struct Recording {
    chunks: Vec<String>,
}

/// One line of output.
#[derive(Default, Serialize)]
struct Report {
    visible: String,
    calls: Vec<Call>,
    /// Bytes of visible text that each chunk released; the end of the text may release more.
    released: Vec<usize>,
    calls_after: Vec<usize>,
    parse_errors: u32,
}

#[derive(Serialize)]
struct Call {
    name: String,
    attrs: Map<String, Value>,
    body: String,
}

/// Parses each line of `input` by itself, blocks up to `max_block_bytes`, and writes what came of it.
pub fn run(max_block_bytes: usize, input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    for (n, line) in input.lines().enumerate() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let recording: Recording = serde_json::from_str(&line)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("line {}: {error}", n + 1)))?;
        serde_json::to_writer(&mut output, &report(&recording, max_block_bytes))?;
        output.write_all(b"\n")?;
    }
    output.flush()
}

fn report(recording: &Recording, max_block_bytes: usize) -> Report {
    let mut parser = XmlParseState::new(max_block_bytes);
    let mut report = Report::default();
    let mut segments = Vec::new();
    for chunk in &recording.chunks {
        let before = report.visible.len();
        parser.feed(chunk, &mut segments);
        report.take(&mut segments);
        report.released.push(report.visible.len() - before);
        report.calls_after.push(report.calls.len());
    }
    parser.flush(&mut segments);
    report.take(&mut segments);
    report.parse_errors = parser.parse_errors();
    report
}

impl Report {
    fn take(&mut self, segments: &mut Vec<Segment>) {
        for segment in segments.drain(..) {
            match segment {
                Segment::Text(text) => self.visible.push_str(&text),
                Segment::Call(SealedCall { call, .. }) => self.calls.push(Call {
                    name: call.name,
                    attrs: call.attrs.into_iter().map(|(key, value)| (key, Value::String(value))).collect(),
                    body: call.body,
                }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inspect(input: &str) -> io::Result<String> {
        let mut output = Vec::new();
        run(64 * 1024, input.as_bytes(), &mut output)?;
        Ok(String::from_utf8(output).unwrap())
    }

    #[test]
    fn one_line_in_is_one_line_out() {
        let input = "{\"id\":\"x\",\"chunks\":[\"Hm <to\",\"ol name='a' q='1&amp;2' top='3'>x</tool> <\",\"tool id='7'/>\",\"<\"]}\n\n\
                     {\"chunks\":[]}\n";
        let want = "{\"visible\":\"Hm <tool name='a' q='1&amp;2' top='3'>x</tool> <tool id='7'/><\",\
                    \"calls\":[{\"name\":\"a\",\"attrs\":{\"q\":\"1&2\",\"top\":\"3\"},\"body\":\"x\"}],\
                    \"released\":[3,44,14,0],\"calls_after\":[0,1,1,1],\"parse_errors\":1}\n\
                    {\"visible\":\"\",\"calls\":[],\"released\":[],\"calls_after\":[],\"parse_errors\":0}\n";
        assert_eq!(inspect(input).unwrap(), want);
    }

    #[test]
    fn a_line_that_is_no_recording_is_named() {
        let error = inspect("{\"chunks\":[]}\n{\"chunks\":\"x\"}\n").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.to_string().starts_with("line 2: "), "{error}");
    }

    #[test]
    fn the_handed_cases_pass_through_it() {
        for line in include_str!("../../tests/data/stream/inline.jsonl").lines() {
            let case: Value = serde_json::from_str(line).unwrap();
            let got: Value = serde_json::from_str(&inspect(line).unwrap()).unwrap();
            assert_eq!(got["visible"], case["expect_visible"], "{}", case["id"]);
            assert_eq!(got["calls"], case["expect_calls"], "{}", case["id"]);
            assert_eq!(got["released"].as_array().map(Vec::len), case["chunks"].as_array().map(Vec::len));
        }
    }
}
