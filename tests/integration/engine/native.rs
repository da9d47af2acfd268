//! Native calls on both wires: one gate, results in the provider's own role.

use super::*;
use crate::upstream::anthropic;
use tailrace::engine::event::RoundStop;
use tailrace::llm::Stop;

fn native() -> Given {
    Given { mode: ToolMode::Native, ..Given::default() }
}

#[tokio::test]
async fn results_go_back_in_openais_tool_role() {
    let probes = Probes::default().with("t", Act::Answer("r1".into()));
    let upstream =
        Upstream::start([openai::calls(&[("c1", "t", "{\"q\":\"a\"}"), ("c2", "nope", "{}")]), says("Done.")]).await;
    let ran = run(&upstream, &probes, native()).await;
    finished(&ran, Finish::Complete);
    assert_eq!(ran.outcomes().len(), 2);
    let body = upstream.request(1).await.json();
    let messages = body["messages"].as_array().unwrap();
    let tools: Vec<_> = messages.iter().filter(|m| m["role"] == "tool").collect();
    assert_eq!(tools.iter().map(|m| m["tool_call_id"].as_str().unwrap()).collect::<Vec<_>>(), ["c1", "c2"]);
    assert!(tools[0]["content"].as_str().unwrap().contains("r1"));
    assert!(tools[1]["content"].as_str().unwrap().contains("refused"));
}

#[tokio::test]
async fn results_go_back_as_anthropic_tool_results_with_the_thinking_unchanged() {
    let probes = Probes::default().with("t", Act::Answer("r1".into()));
    let mut steps = vec![anthropic::start(5)];
    steps.extend(anthropic::thinking(0, "let me see", "sig123"));
    steps.extend([anthropic::call(1, "c1", "t"), anthropic::arguments(1, "{\"q\":\"a\"}"), anthropic::stop(1)]);
    steps.extend(anthropic::finish("tool_use", 9));
    let upstream = Upstream::start([stream(steps), anthropic::answer(&["Done."])]).await;
    let ran = run(&upstream, &probes, Given { anthropic: true, ..native() }).await;
    finished(&ran, Finish::Complete);
    let body = upstream.request(1).await.json().to_string();
    for needed in ["sig123", "\"tool_use_id\":\"c1\"", "r1"] {
        assert!(body.contains(needed), "{needed} is not in {body}");
    }
}

/// A call that had been started and whose arguments then go on is taken back.
#[tokio::test]
async fn arguments_that_go_on_after_their_object_take_the_call_back() {
    let called = Signal::new();
    let probes = Probes::default().with("t", Act::Gate { called: called.clone(), answer: Signal::new() });
    let steps = vec![
        openai::call(0, "c1", "t"),
        openai::arguments(0, "{\"q\":\"a\"}"),
        Step::Wait(called),
        openai::arguments(0, "{\"q\":\"b\"}"),
        openai::finish("tool_calls"),
        openai::done(),
    ];
    let upstream = Upstream::start([stream(steps), says("Done.")]).await;
    let ran = run(&upstream, &probes, native()).await;
    finished(&ran, Finish::Complete);
    assert_eq!(ran.outcomes(), ["t: bad_arguments"]);
    assert_eq!(probes.called(), ["a"]);
    while probes.dropped.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
}

/// A tool with side effects waits for `ToolCallComplete`, which OpenAI's wire gives at the end.
#[tokio::test]
async fn side_effects_wait_until_the_call_is_complete() {
    let mut probes = Probes::default();
    probes.add("t", Act::Answer("r".into()), true);
    let (sent, go) = (Signal::new(), Signal::new());
    let steps = vec![
        openai::call(0, "c1", "t"),
        openai::arguments(0, "{\"q\":\"a\"}"),
        openai::text("Now."),
        Step::Tell(sent.clone()),
        Step::Wait(go.clone()),
        openai::finish("tool_calls"),
        openai::done(),
    ];
    let upstream = Upstream::start([stream(steps), says("Done.")]).await;
    let early = async {
        sent.wait().await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        let called = probes.called();
        go.send();
        called
    };
    let (ran, early) = tokio::join!(run(&upstream, &probes, native()), early);
    finished(&ran, Finish::Complete);
    assert!(early.is_empty());
    assert_eq!(ran.outcomes(), ["t: ok"]);
}

#[tokio::test]
async fn broken_arguments_are_a_refused_call_not_a_failed_turn() {
    let probes = Probes::default().with("t", Act::Answer("r".into()));
    let upstream = Upstream::start([openai::calls(&[("c1", "t", "{\"q\": \"half")]), says("Sorry.")]).await;
    let ran = run(&upstream, &probes, native()).await;
    finished(&ran, Finish::Complete);
    assert_eq!(ran.outcomes(), ["t: bad_arguments"]);
    assert_eq!(ran.text(), "Sorry.");
    assert!(probes.called().is_empty());
    assert!(last_user(&upstream.request(1).await).contains("refused"));
}

/// What a round used counts, and its message goes back with its thoughts, although a call of it was refused.
#[tokio::test]
async fn a_refused_call_costs_its_round_neither_usage_nor_thoughts() {
    let probes = Probes::default().with("t", Act::Answer("r".into()));
    for broken in ["{\"q\": \"half", "[1, 2]", "null"] {
        let mut steps = vec![anthropic::start(5)];
        steps.extend(anthropic::thinking(0, "let me see", "sig123"));
        steps.extend([anthropic::call(1, "c1", "t"), anthropic::arguments(1, broken), anthropic::stop(1)]);
        steps.extend(anthropic::finish("max_tokens", 9));
        let upstream = Upstream::start([stream(steps), anthropic::answer(&["Sorry."])]).await;
        let ran = run(&upstream, &probes, Given { anthropic: true, ..native() }).await;
        finished(&ran, Finish::Complete);
        assert_eq!(ran.outcomes(), ["t: bad_arguments"]);
        let ends = ran.events.iter().filter_map(|(_, event)| match event {
            RunnerEvent::RoundEnd { stop, usage, .. } => Some((*stop, usage.input_tokens, usage.output_tokens)),
            _ => None,
        });
        let want = [(RoundStop::Model(Stop::Length), 5, 9), (RoundStop::Model(Stop::End), 7, 1)];
        assert_eq!(ends.collect::<Vec<_>>(), want, "{broken}");
        assert_eq!(ran.outcome.usage.input_tokens, 12);
        let body = upstream.request(1).await.json().to_string();
        assert!(body.contains("sig123") && body.contains("\"input\":{}"), "{body}");
    }
    let script = Script::stream([
        openai::call(0, "c1", "t"),
        openai::arguments(0, "[1]"),
        openai::finish("tool_calls"),
        openai::usage(20, 5),
        openai::done(),
    ]);
    let upstream = Upstream::start([script, says("Sorry.")]).await;
    let ran = run(&upstream, &probes, native()).await;
    assert_eq!((ran.outcome.usage.input_tokens, ran.outcome.usage.output_tokens), (27, 6));
}

/// Models call what they were not offered, from habit.
#[tokio::test]
async fn a_turn_without_tools_runs_none() {
    let probes = Probes::default().with("t", Act::Answer("r".into()));
    let upstream = Upstream::start([openai::calls(&[("c1", "t", "{\"q\":\"a\"}")]), says("Well.")]).await;
    let ran = run(&upstream, &probes, Given { mode: ToolMode::Off, ..native() }).await;
    finished(&ran, Finish::Complete);
    assert_eq!(ran.outcomes(), ["t: not_allowed"]);
    assert!(probes.called().is_empty());
}
