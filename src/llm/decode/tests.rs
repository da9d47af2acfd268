//! Both wires against the collected cases and against recordings of real servers: as written, uncut,
//! cut at every byte, and in pieces between. (`sse/tests.rs` tries every split of small bodies.)

use super::*;
use crate::llm::Done;
use crate::llm::anthropic::wire::AnthropicDecoder;
use crate::llm::openai::wire::OpenAiDecoder;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn data(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(path)
}

fn decode<W: WireDecoder>(wire: W, pieces: &[&[u8]]) -> Vec<StreamEvent> {
    let mut decoder = AnswerDecoder::new(wire);
    let mut out = Vec::new();
    pieces.iter().for_each(|piece| decoder.feed(piece, &mut out));
    decoder.finish(&mut out);
    let terminal = out.iter().position(is_terminal);
    assert_eq!(terminal, Some(out.len() - 1), "exactly one terminal event, at the end: {out:?}");
    out
}

fn decode_as(provider: &str, pieces: &[&[u8]]) -> Vec<StreamEvent> {
    match provider {
        "openai" => decode(OpenAiDecoder::new("", false), pieces),
        "anthropic" => decode(AnthropicDecoder::new("", false), pieces),
        other => panic!("no provider {other}"),
    }
}

/// The events in the words of the cases, neighbours joined.
fn in_words(events: &[StreamEvent]) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::new();
    for event in events {
        let value = match event {
            StreamEvent::Delta(text) => json!({"Delta": text}),
            StreamEvent::ReasoningDelta(text) => json!({"ReasoningDelta": text}),
            StreamEvent::ProviderRaw(_) => continue,
            StreamEvent::ToolCallStart { id, name, index } => {
                json!({"ToolCallStart": {"id": id, "name": name, "index": index}})
            }
            StreamEvent::ToolCallArgumentsDelta { index, delta } => {
                json!({"ToolCallArgumentsDelta": {"index": index, "delta": delta}})
            }
            StreamEvent::ToolCallComplete { index } => json!({"ToolCallComplete": {"index": index}}),
            StreamEvent::Done(Done { refused: Some(why), .. }) => json!({"Error": why}),
            StreamEvent::Done(done) => json!({"Done": {
                "input_tokens": done.usage.input_tokens, "output_tokens": done.usage.output_tokens,
            }}),
            StreamEvent::Error(error) | StreamEvent::Retry { error, .. } => json!({"Error": error.message}),
        };
        if !out.last_mut().and_then(Value::as_object_mut).is_some_and(|last| join(last, &value)) {
            out.push(value);
        }
    }
    out
}

fn join(last: &mut Map<String, Value>, next: &Value) -> bool {
    for key in ["Delta", "ReasoningDelta"] {
        if let (Some(Value::String(text)), Some(more)) = (last.get_mut(key), next[key].as_str()) {
            text.push_str(more);
            return true;
        }
    }
    let more = &next["ToolCallArgumentsDelta"];
    match last.get_mut("ToolCallArgumentsDelta") {
        Some(call) if !more.is_null() && call["index"] == more["index"] => {
            call["delta"] = format!("{}{}", call["delta"].as_str().unwrap(), more["delta"].as_str().unwrap()).into();
            true
        }
        _ => false,
    }
}

fn same(got: &[Value], want: &[Value]) -> bool {
    got.len() == want.len()
        && got.iter().zip(want).all(|(got, want)| match (got["Error"].as_str(), want["Error"].as_str()) {
            (Some(got), Some(want)) => got.to_lowercase().contains(&want.to_lowercase()),
            _ => got == want,
        })
}

/// Uncut, byte by byte, and in pieces of some sizes: a cut at every byte, with few and many beside it.
fn every_cut(body: &[u8]) -> impl Iterator<Item = Vec<&[u8]>> {
    [usize::MAX, 1, 2, 3, 5, 7, 64].into_iter().map(|size| body.chunks(size).collect())
}

fn check(name: &str, provider: &str, body: &[u8], cuts: &[usize], want: &[Vec<Value>]) {
    let at: Vec<usize> = [&[0], cuts, &[body.len()]].concat();
    let as_written: Vec<&[u8]> = at.windows(2).map(|w| &body[w[0]..w[1]]).collect();
    for pieces in every_cut(body).chain([as_written]) {
        let got = in_words(&decode_as(provider, &pieces));
        assert!(
            want.iter().any(|want| same(&got, want)),
            "{name}: {} pieces\n got {got:?}\nwant {want:?}",
            pieces.len()
        );
    }
}

#[test]
fn collected_cases() {
    #[derive(serde::Deserialize)]
    struct Case {
        id: String,
        provider: String,
        bytes: String,
        chunk_at: Vec<usize>,
        expect_events: Vec<Value>,
        #[serde(default)]
        also: Vec<Vec<Value>>,
    }
    let mut count = 0;
    for file in ["stream/sse.jsonl", "stream/sse_more.jsonl"] {
        for line in fs::read_to_string(data(file)).unwrap().lines() {
            let case: Case = serde_json::from_str(line).unwrap();
            let want: Vec<_> = [vec![case.expect_events], case.also].concat();
            check(&case.id, &case.provider, case.bytes.as_bytes(), &case.chunk_at, &want);
            count += 1;
        }
    }
    assert!(count > 81, "{count} cases");
}

#[test]
fn recorded_streams() {
    #[derive(serde::Deserialize, PartialEq, Debug)]
    struct Call {
        index: i64,
        id: String,
        name: String,
        arguments: String,
    }
    #[derive(serde::Deserialize, PartialEq, Debug)]
    struct Expected {
        text: String,
        calls: Vec<Call>,
        usage: crate::message::Usage,
        stop: String,
    }
    let expected: BTreeMap<String, Expected> =
        serde_json::from_str(&fs::read_to_string(data("captures/expected.json")).unwrap()).unwrap();
    assert!(expected.len() >= 14);
    for (file, want) in expected {
        let body = unframe(&fs::read(data("captures").join(&file)).unwrap());
        let provider = if file.contains("anthropic") { "anthropic" } else { "openai" };
        let cuts = [vec![&body[..]], body.chunks(1).collect(), body.chunks(7).collect(), body.chunks(1460).collect()];
        for pieces in cuts {
            let mut got =
                Expected { text: String::new(), calls: Vec::new(), usage: Default::default(), stop: String::new() };
            let mut complete = Vec::new();
            for event in decode_as(provider, &pieces) {
                match event {
                    StreamEvent::Delta(text) => got.text.push_str(&text),
                    StreamEvent::ToolCallStart { id, name, index } => {
                        got.calls.push(Call { index, id, name, arguments: String::new() });
                    }
                    StreamEvent::ToolCallArgumentsDelta { index, delta } => {
                        got.calls.iter_mut().find(|c| c.index == index).unwrap().arguments.push_str(&delta);
                    }
                    StreamEvent::ToolCallComplete { index } => complete.push(index),
                    StreamEvent::Done(done) => (got.usage, got.stop) = (done.usage, done.stop.as_str().into()),
                    other => panic!("{file}: {other:?}"),
                }
            }
            assert_eq!(got, want, "{file}");
            assert_eq!(complete, want.calls.iter().map(|c| c.index).collect::<Vec<_>>(), "{file}");
        }
    }
}

/// The body of a recorded answer, without its head and its chunk framing.
fn unframe(answer: &[u8]) -> Vec<u8> {
    let head = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    let (mut rest, mut body) = (&answer[head + 4..], Vec::new());
    loop {
        let end = rest.windows(2).position(|w| w == b"\r\n").unwrap();
        let len = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        if len == 0 {
            return body;
        }
        body.extend_from_slice(&rest[end + 2..end + 2 + len]);
        rest = &rest[end + 2 + len + 2..];
    }
}

#[test]
fn the_anthropic_message_goes_back_as_it_came() {
    let body = fs::read_to_string(data("stream/sse.jsonl")).unwrap();
    let case = |id: &str| {
        let case = body.lines().map(|l| serde_json::from_str::<Value>(l).unwrap()).find(|c| c["id"] == id).unwrap();
        let events = decode_as("anthropic", &[case["bytes"].as_str().unwrap().as_bytes()]);
        let Some(StreamEvent::Done(done)) = events.last() else { panic!("{events:?}") };
        let message = done.message.clone().unwrap();
        assert_eq!(message.provider, "anthropic");
        (done.stop, message.content)
    };
    assert_eq!(
        case("an-thinking"),
        (
            Stop::End,
            json!([
                {"type": "thinking", "thinking": "plan", "signature": "c2ln"},
                {"type": "redacted_thinking", "data": "eHg="},
                {"type": "text", "text": "Hello"},
            ])
        )
    );
    assert_eq!(
        case("an-tool"),
        (
            Stop::Tools,
            json!([
                {"type": "text", "text": "Looking. "},
                {"type": "tool_use", "id": "tu_1", "name": "search_kb", "input": {"query": "leave"}},
            ])
        )
    );
    assert_eq!(
        case("an-server-tool-use").1,
        json!([
            {"type": "server_tool_use", "id": "st_1", "name": "web_search", "input": {"query": "x"}},
            {"type": "web_search_tool_result", "tool_use_id": "st_1", "content": []},
            {"type": "text", "text": "Hello"},
        ])
    );
    assert_eq!(case("an-tool-no-args-no-delta").1[0]["input"], json!({}));
}

#[test]
fn a_broken_connection_does_not_spoil_a_whole_answer() {
    let lost = || LlmError::new(LlmErrorKind::Interrupted, "lost");
    for (body, whole) in [
        ("data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: {\"cho", true),
        ("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"cho", false),
        ("", false),
    ] {
        let mut decoder = AnswerDecoder::new(OpenAiDecoder::new("", false));
        let mut out = Vec::new();
        decoder.feed(body.as_bytes(), &mut out);
        assert_eq!(decoder.is_whole(), whole);
        decoder.fail(lost(), &mut out);
        decoder.fail(lost(), &mut out);
        decoder.finish(&mut out);
        assert_eq!(out.iter().filter(|e| is_terminal(e)).count(), 1);
        assert_eq!(matches!(out.last(), Some(StreamEvent::Done(_))), whole, "{body}");
    }
}

#[test]
fn an_endless_answer_is_refused() {
    let piece = "a".repeat(1 << 20);
    let arguments = format!(
        "data: {}\n\n",
        json!({"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":piece}}]}}]})
    );
    let calls = |n: usize| {
        format!(
            "data: {}\n\n",
            json!({"choices":[{"delta":{"tool_calls":[{"index":n,"function":{"name":"f","arguments":"{}"}}]}}]})
        )
    };
    let block = format!(
        "data: {}\n\n",
        json!({"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":piece}})
    );
    let ends = |provider: &str, event: &dyn Fn(usize) -> String, most: usize| {
        let body: String = (0..most).map(event).collect();
        let out = decode_as(provider, &[body.as_bytes()]);
        matches!(out.last(), Some(StreamEvent::Error(error)) if error.kind == LlmErrorKind::Decode)
    };
    assert!(ends("openai", &|_| arguments.clone(), 40));
    assert!(ends("openai", &calls, MAX_CALLS + 1));
    assert!(ends("anthropic", &|_| block.clone(), 40));
}
