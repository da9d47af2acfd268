//! Invariant 4: a call starts before its round's stream ends, and the pull loop never awaits a tool.
//! Each script goes on only after the tool was called, so a late start would hang, not just be slow.

use super::*;
use crate::upstream::anthropic;

/// The rest of the stream, and the tool's answer, come only after the tool has been called; the tool's
/// result is announced while the stream is still open.
fn gated(first: Vec<Step>, called: &Signal, settled: &Signal, rest: Vec<Step>) -> Script {
    let mut steps = first;
    steps.push(Step::Wait(called.clone()));
    steps.push(Step::Wait(settled.clone()));
    steps.extend(rest);
    stream(steps)
}

async fn check(script: impl Fn(&Signal, &Signal) -> Script, second: Script, given: Given) {
    let (called, settled) = (Signal::new(), Signal::new());
    let probes = Probes::default().with("t", Act::Gate { called: called.clone(), answer: settled.clone() });
    let upstream = Upstream::start([script(&called, &settled), second]).await;
    let release = async {
        called.wait().await;
        settled.send();
    };
    let (ran, ()) = tokio::join!(run(&upstream, &probes, given), release);
    finished(&ran, Finish::Complete);
    assert_eq!(ran.outcomes(), ["t: ok"]);
    let start = ran.at(|e| matches!(e, RunnerEvent::ToolStart(_)));
    let end = ran.at(|e| matches!(e, RunnerEvent::RoundEnd { round: 0, .. }));
    assert!(start < end, "{:?}", ran.events);
}

#[tokio::test]
async fn invariant_4_an_inline_call_starts_while_the_stream_is_open() {
    let first = format!("Look: {}", block("t", "a"));
    let script = |called: &Signal, settled: &Signal| {
        let rest = vec![openai::text(" and on."), openai::finish("stop"), openai::done()];
        gated(vec![openai::text(&first)], called, settled, rest)
    };
    check(script, says("Done."), Given::default()).await;
}

#[tokio::test]
async fn invariant_4_a_native_openai_call_starts_once_its_object_has_closed() {
    let script = |called: &Signal, settled: &Signal| {
        let first = vec![openai::call(0, "c1", "t"), openai::arguments(0, "{\"q\":"), openai::arguments(0, "\"a\"}")];
        gated(first, called, settled, vec![openai::finish("tool_calls"), openai::done()])
    };
    check(script, says("Done."), Given { mode: ToolMode::Native, ..Given::default() }).await;
}

#[tokio::test]
async fn invariant_4_a_native_anthropic_call_starts_once_its_object_has_closed() {
    let script = |called: &Signal, settled: &Signal| {
        let first = vec![anthropic::start(5), anthropic::call(0, "c1", "t"), anthropic::arguments(0, "{\"q\": \"a\"}")];
        let mut rest = vec![anthropic::stop(0)];
        rest.extend(anthropic::finish("tool_use", 9));
        gated(first, called, settled, rest)
    };
    let given = Given { mode: ToolMode::Native, anthropic: true, ..Given::default() };
    check(script, anthropic::answer(&["Done."]), given).await;
}

#[tokio::test]
async fn without_overlap_a_tool_starts_after_the_stream() {
    let probes = Probes::default().with("t", Act::Answer("r".into()));
    let text = format!("Look: {} and on.", block("t", "a"));
    let upstream = Upstream::start([says(&text), says("Done.")]).await;
    let ran = run(&upstream, &probes, Given { overlap: false, ..Given::default() }).await;
    let start = ran.at(|e| matches!(e, RunnerEvent::ToolStart(_)));
    let end = ran.at(|e| matches!(e, RunnerEvent::RoundEnd { round: 0, .. }));
    assert!(end < start, "{:?}", ran.events);
    assert_eq!(ran.outcome.telemetry.overlap_ms, 0);
}
