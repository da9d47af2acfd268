//! Turns inside turns: what they say is a result, what their tools do is told, and they end with what is around them.

use super::*;

fn call(task: &str) -> String {
    format!("<tool name=\"sub_agent\">{{\"task\": \"{task}\"}}</tool>")
}

/// The nested turn's requests are told by their question.
async fn upstream(outer: Vec<Script>, inner: Vec<Script>) -> Upstream {
    let (outer_asked, inner_asked) = (AtomicUsize::new(0), AtomicUsize::new(0));
    Upstream::answering(move |_, request| {
        let nested = request.body.contains("\"dig\"");
        let (scripts, asked) = if nested { (&inner, &inner_asked) } else { (&outer, &outer_asked) };
        scripts[asked.fetch_add(1, Ordering::SeqCst)].clone()
    })
    .await
}

/// The events that the client sees of it, as words.
fn told(ran: &Ran) -> Vec<String> {
    ran.events
        .iter()
        .filter_map(|(_, event)| match event {
            RunnerEvent::ToolStart(s) => Some(format!("start {} {}", s.name, s.depth)),
            RunnerEvent::ToolResult(s) => Some(format!("result {} {}", s.name, s.depth)),
            RunnerEvent::SubAgentStart { task, depth, .. } => Some(format!("agent {task} {depth}")),
            RunnerEvent::SubAgentEnd { depth, rounds, tools_run, .. } => {
                Some(format!("end {depth} {rounds} {tools_run}"))
            }
            RunnerEvent::Round { round } => Some(format!("round {round}")),
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn a_nested_turn_answers_its_call_and_stays_out_of_the_text() {
    let probes = Probes::default().with("t", Act::Answer("found it".into()));
    let first = format!("Ask. {}", call("dig"));
    let upstream = upstream(
        vec![says(&first), says("The answer.")],
        vec![says(&format!("Digging {}", block("t", "a"))), says("It is <b>four</b>.")],
    )
    .await;
    let ran = run(&upstream, &probes, Given { depth: 1, ..Given::default() }).await;
    finished(&ran, Finish::Complete);
    assert_eq!(ran.text(), format!("{first}The answer."));
    assert_eq!(
        told(&ran),
        [
            "round 0",
            "start sub_agent 0",
            "agent dig 1",
            "start t 1",
            "result t 1",
            "end 1 2 1",
            "result sub_agent 0",
            "round 1",
        ]
    );
    let last = ran.results().into_iter().find(|r| r.name == "sub_agent").unwrap();
    assert_eq!(last.outcome, ToolOutcome::Ok { output: "It is <b>four</b>.".into() });
    // Four rounds of seven tokens in: the nested ones cost too.
    assert_eq!(ran.outcome.usage.input_tokens, 28);
    assert_eq!((ran.outcome.telemetry.rounds, ran.outcome.telemetry.tools_run), (2, 1));
    let requests = upstream.requests();
    let nested = requests.iter().find(|r| r.body.contains("\"dig\"")).unwrap();
    assert!(!nested.body.contains("sub_agent"), "no deeper than it may be");
    assert!(requests.iter().any(|r| r.body.contains("It is <b>four</b>.") && r.body.contains("result of sub_agent")));
}

/// Its budget is its own and smaller, and it cannot call itself for ever.
#[tokio::test]
async fn its_limits_are_its_own() {
    let probes = Probes::default().with("t", Act::Answer("r".into()));
    let many: String = ["a", "b", "c"].map(|q| block("t", q)).concat();
    let upstream = upstream(
        vec![says(&call("dig")), says("End.")],
        vec![says(&format!("{many}{}", call("deeper"))), says("Enough.")],
    )
    .await;
    let ran = run(&upstream, &probes, Given { depth: 1, ..Given::default() }).await;
    let mut outcomes = ran.outcomes();
    outcomes.sort();
    assert_eq!(outcomes, ["sub_agent: not_allowed", "sub_agent: ok", "t: cap_total", "t: ok", "t: ok"]);
    assert_eq!(ran.outcome.telemetry.tools_run, 1);
}

#[tokio::test]
async fn its_failure_is_a_result() {
    let error = Script::json(400, &json!({"error": {"message": "no such model", "type": "invalid_request_error"}}));
    for (script, shown) in [
        (error, "no such model"),
        (says(" "), "ended without an answer"),
        (stream(vec![openai::text("x"), Step::Hang]), "engine.sub_agent.timeout_ms"),
    ] {
        let upstream = upstream(vec![says(&call("dig")), says("So.")], vec![script]).await;
        let given = Given { depth: 1, tool_timeout: Duration::from_millis(300), ..Given::default() };
        let ran = run(&upstream, &Probes::default(), given).await;
        finished(&ran, Finish::Complete);
        let ToolOutcome::Failed { error } = &ran.results()[0].outcome else { panic!("{:?}", ran.results()) };
        assert!(error.contains(shown), "{error}");
        assert!(!ran.text().contains("LLM error"));
    }
}

/// Cancelled with its parent: its stream and its tools stop, and whatever had begun in it has an end.
#[tokio::test]
async fn it_ends_with_the_turn_around_it() {
    let called = Signal::new();
    let probes = Probes::default().with("t", Act::Gate { called: called.clone(), answer: Signal::new() });
    let upstream = upstream(
        vec![stream(vec![openai::text(&call("dig")), Step::Hang])],
        vec![stream(vec![openai::text(&block("t", "a")), Step::Hang])],
    )
    .await;
    let cancel = CancellationToken::new();
    let given = Given { depth: 1, cancel: cancel.clone(), ..Given::default() };
    let stop = async {
        called.wait().await;
        cancel.cancel();
        Instant::now()
    };
    let (ran, stopped) = tokio::join!(run(&upstream, &probes, given), stop);
    finished(&ran, Finish::Cancelled);
    let told = told(&ran);
    assert_eq!(told[told.len() - 3..], ["result t 1", "end 1 1 0", "result sub_agent 0"]);
    for n in 0..2 {
        let left = upstream.left(n).await.left.unwrap();
        assert!(left.duration_since(stopped) < Duration::from_millis(250));
    }
    while probes.dropped.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
}
