//! `tailrace inspect sse`: what a provider's recorded stream decodes to, one event a line, for those
//! who add a provider or report a fault. The output is a contract (API.md section 4), so it has its
//! own wire form here.

use crate::llm::anthropic::wire::AnthropicDecoder;
use crate::llm::decode::{AnswerDecoder, WireDecoder};
use crate::llm::openai::wire::OpenAiDecoder;
use crate::llm::{Done, StreamEvent};
use serde::Serialize;
use serde_json::Value;
use std::io::{self, Read, Write};

/// Whose stream it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Wire {
    Anthropic,
    Openai,
}

/// One line of output.
#[derive(Serialize)]
enum Line<'e> {
    Delta(&'e str),
    ProviderRaw(&'e Value),
    ReasoningDelta(&'e str),
    ToolCallStart { id: &'e str, name: &'e str, index: i64 },
    ToolCallArgumentsDelta { index: i64, delta: &'e str },
    ToolCallComplete { index: i64 },
    Done { input_tokens: u64, output_tokens: u64, stop: &'static str },
    Error(&'e str),
}

/// Decodes the response body in `input` and writes each event as it is known. The body is cut at the
/// byte offsets `chunk_at`, which must not change the result. `raw` adds the vendor's own events.
pub fn run(wire: Wire, chunk_at: &[usize], raw: bool, input: impl Read, output: impl Write) -> io::Result<()> {
    match wire {
        Wire::Anthropic => decode(AnthropicDecoder::new("", raw), chunk_at, input, output),
        Wire::Openai => decode(OpenAiDecoder::new("", raw), chunk_at, input, output),
    }
}

fn decode(wire: impl WireDecoder, chunk_at: &[usize], mut input: impl Read, mut output: impl Write) -> io::Result<()> {
    let mut cuts = chunk_at.to_vec();
    cuts.sort_unstable();
    let mut cuts = cuts.into_iter().peekable();
    let mut decoder = AnswerDecoder::new(wire);
    let mut events = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    let mut at = 0;
    loop {
        while cuts.next_if(|cut| *cut <= at).is_some() {}
        let most = cuts.peek().map_or(buffer.len(), |cut| buffer.len().min(cut - at));
        let read = match input.read(&mut buffer[..most]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if read == 0 {
            break;
        }
        at += read;
        decoder.feed(&buffer[..read], &mut events);
        write(&mut events, &mut output)?;
    }
    decoder.finish(&mut events);
    write(&mut events, &mut output)?;
    output.flush()
}

fn write(events: &mut Vec<StreamEvent>, output: &mut impl Write) -> io::Result<()> {
    for event in events.drain(..) {
        serde_json::to_writer(&mut *output, &line(&event))?;
        output.write_all(b"\n")?;
    }
    Ok(())
}

fn line(event: &StreamEvent) -> Line<'_> {
    match event {
        StreamEvent::Delta(text) => Line::Delta(text),
        StreamEvent::ProviderRaw(value) => Line::ProviderRaw(value),
        StreamEvent::ReasoningDelta(text) => Line::ReasoningDelta(text),
        StreamEvent::ToolCallStart { id, name, index } => Line::ToolCallStart { id, name, index: *index },
        StreamEvent::ToolCallArgumentsDelta { index, delta } => Line::ToolCallArgumentsDelta { index: *index, delta },
        StreamEvent::ToolCallComplete { index } => Line::ToolCallComplete { index: *index },
        StreamEvent::Done(Done { refused: Some(why), .. }) => Line::Error(why),
        StreamEvent::Done(done) => Line::Done {
            input_tokens: done.usage.input_tokens,
            output_tokens: done.usage.output_tokens,
            stop: done.stop.as_str(),
        },
        // A decoder never asks again.
        StreamEvent::Error(error) | StreamEvent::Retry { error, .. } => Line::Error(&error.message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(wire: Wire, chunk_at: &[usize], raw: bool, body: &str) -> String {
        let mut output = Vec::new();
        run(wire, chunk_at, raw, body.as_bytes(), &mut output).unwrap();
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn each_event_is_a_line_of_the_contract() {
        let openai = concat!(
            "data: {\"choices\":[{\"delta\":{\"reasoning\":\"hm\",\"content\":\"北\\n\"}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}}]}\n\n",
            "data: {\"choices\":[{\"finish_reason\":\"tool_calls\"}],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}\n\n",
        );
        let want = concat!(
            "{\"ReasoningDelta\":\"hm\"}\n",
            "{\"Delta\":\"北\\n\"}\n",
            "{\"ToolCallStart\":{\"id\":\"c\",\"name\":\"f\",\"index\":0}}\n",
            "{\"ToolCallArgumentsDelta\":{\"index\":0,\"delta\":\"{}\"}}\n",
            "{\"ToolCallComplete\":{\"index\":0}}\n",
            "{\"Done\":{\"input_tokens\":3,\"output_tokens\":4,\"stop\":\"tools\"}}\n",
        );
        for cuts in [vec![], vec![0], vec![57, 3, 58, 3, 9_999], (1..openai.len()).collect()] {
            assert_eq!(shown(Wire::Openai, &cuts, false, openai), want, "{cuts:?}");
        }
        let anthropic = "data: {\"type\":\"message_stop\"}\n\n";
        assert_eq!(
            shown(Wire::Anthropic, &[], true, anthropic),
            "{\"ProviderRaw\":{\"type\":\"message_stop\"}}\n{\"Done\":{\"input_tokens\":0,\"output_tokens\":0,\"stop\":\"end\"}}\n"
        );
        assert!(shown(Wire::Anthropic, &[], false, "").starts_with("{\"Error\":\"truncated"));
    }
}
