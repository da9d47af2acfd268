//! Frames as the contract wants them.

use super::*;
use crate::engine::event::Rejection;
use crate::llm::Stop;

fn check(event: &RunnerEvent, want: &str) {
    let bytes = encode(7, 12, event);
    assert_eq!(std::str::from_utf8(&bytes).unwrap(), want);
}

#[test]
fn stored_frames_come_apart() {
    let events = [
        RunnerEvent::Thinking,
        RunnerEvent::Delta("a\n\n\"é\"".into()),
        RunnerEvent::Reasoning("r".into()),
        RunnerEvent::Delta("b".into()),
    ];
    let frames: Vec<Bytes> = (1..).zip(&events).map(|(seq, event)| encode(seq, 3, event)).collect();
    assert_eq!(split(&frames.concat().into()), frames);
    assert_eq!(parts(&frames[2]), Some((3, Some("reasoning"), "\"r\"")));
    assert!(split(&Bytes::new()).is_empty());
}

#[test]
fn frames_have_the_contracts_form() {
    check(&RunnerEvent::Delta("a\n\"b\" \u{2028}".into()), "id: 7\ndata: \"a\\n\\\"b\\\" \u{2028}\"\n\n");
    check(&RunnerEvent::Reasoning("hm".into()), "id: 7\nevent: reasoning\ndata: \"hm\"\n\n");
    check(&RunnerEvent::Thinking, "id: 7\nevent: thinking\ndata: {\"at_ms\":12}\n\n");
    check(&RunnerEvent::Round { round: 1 }, "id: 7\nevent: round\ndata: {\"at_ms\":12,\"round\":1}\n\n");
    check(
        &RunnerEvent::RoundEnd {
            round: 0,
            stop: RoundStop::Model(Stop::Tools),
            usage: Usage { input_tokens: 3, output_tokens: 4, cache_read_tokens: 0 },
            spoke: vec![(1, 5)],
        },
        "id: 7\nevent: round_end\ndata: {\"at_ms\":12,\"round\":0,\"stop\":\"tools\",\"usage\":\
         {\"input_tokens\":3,\"output_tokens\":4},\"spoke\":[[1,5]]}\n\n",
    );
    check(&RunnerEvent::Sources(vec![]), "id: 7\nevent: sources\ndata: []\n\n");
    check(
        &RunnerEvent::Claim(Claim { span: Span { start: 2, end: 9 }, verdict: Verdict::Weak, sources: vec![1, 4] }),
        "id: 7\nevent: claim\ndata: {\"at_ms\":12,\"start\":2,\"end\":9,\"verdict\":\"weak\",\"sources\":[1,4]}\n\n",
    );
    check(
        &RunnerEvent::ToolResult(ToolSettled {
            call_id: "c".into(),
            name: "t".into(),
            arguments: Default::default(),
            outcome: ToolOutcome::Rejected { reason: Rejection::Duplicate, error: "again".into() },
            duration_ms: 0,
            ingest_ms: None,
            truncated: false,
            span: Some(Span { start: 2, end: 9 }),
            ingested: None,
            depth: 0,
        }),
        "id: 7\nevent: tool_result\ndata: {\"at_ms\":12,\"call_id\":\"c\",\"name\":\"t\",\"ok\":false,\"error\":\
         \"again\",\"rejected\":true,\"reason\":\"duplicate\",\"duration_ms\":0,\"truncated\":false,\"span\":{\"start\":2,\"end\":9}}\n\n",
    );
    check(
        &RunnerEvent::Approval(Approval {
            call_id: "c".into(),
            name: "t".into(),
            arguments: Arguments::new(),
            why: "so".into(),
        }),
        "id: 7\nevent: approval\ndata: {\"at_ms\":12,\"call_id\":\"c\",\"name\":\"t\",\"arguments\":{},\"why\":\"so\"}\n\n",
    );
    check(
        &RunnerEvent::SubAgentEnd { call_id: "c".into(), task: "t".into(), depth: 1, rounds: 2, tools_run: 3 },
        "id: 7\nevent: sub_agent_end\ndata: {\"at_ms\":12,\"call_id\":\"c\",\"task\":\"t\",\"depth\":1,\"rounds\":2,\
         \"tools_run\":3}\n\n",
    );
    check(
        &RunnerEvent::ToolStart(ToolStart {
            call_id: "c".into(),
            name: "t".into(),
            arguments: Arguments::new(),
            round: 0,
            index: 1,
            span: None,
            depth: 1,
        }),
        "id: 7\nevent: tool_start\ndata: {\"at_ms\":12,\"call_id\":\"c\",\"name\":\"t\",\"arguments\":{},\"round\":0,\
         \"index\":1,\"depth\":1}\n\n",
    );
}

#[test]
fn what_recovery_needs_is_read_back() {
    let retry = RunnerEvent::Retry { attempt: 1, after_ms: 5, error: "e".into(), discard_from: 7 };
    let usage = Usage { input_tokens: 7, output_tokens: 5, cache_read_tokens: 1 };
    for (event, want) in [
        (RunnerEvent::Delta("a\n\"b\"".into()), Some(Logged::Text("a\n\"b\"".into()))),
        (RunnerEvent::Reasoning("r".into()), None),
        (RunnerEvent::Thinking, Some(Logged::Thinking(true))),
        (RunnerEvent::ThinkingDone, Some(Logged::Thinking(false))),
        (RunnerEvent::Round { round: 2 }, Some(Logged::Round(2))),
        (
            RunnerEvent::RoundEnd { round: 2, stop: RoundStop::Cut, usage, spoke: vec![(1, 2)] },
            Some(Logged::RoundEnd(usage)),
        ),
        (retry, Some(Logged::Discard(7))),
        (
            RunnerEvent::SubAgentStart { call_id: "c".into(), task: "t".into(), depth: 1 },
            Some(Logged::SubAgentStart { call_id: "c".into(), task: "t".into(), depth: 1 }),
        ),
        (
            RunnerEvent::SubAgentEnd { call_id: "c".into(), task: "t".into(), depth: 1, rounds: 2, tools_run: 3 },
            Some(Logged::SubAgentEnd { call_id: "c".into() }),
        ),
    ] {
        assert_eq!((WIRE.read)(&(WIRE.encode)(3, 9, &event)), want, "{event:?}");
    }
}
