//! Tools with side effects: never before the stream has ended cleanly, never twice, and only with the user's word once
//! somebody else's text is in the context.

use super::*;

fn probes() -> Probes {
    let mut probes = Probes::default().with("look", Act::Answer("a page".into()));
    probes.add("send", Act::Answer("sent".into()), true);
    probes
}

/// Answers the first question as soon as it is asked, and twice.
struct Asked {
    approvals: Arc<Approvals>,
    answer: Option<bool>,
}

impl Asked {
    async fn run(self, upstream: &Upstream, probes: &Probes, given: Given) -> Ran {
        let given = Given { approvals: Arc::clone(&self.approvals), ..given };
        let answering = async {
            let Some(allow) = self.answer else { return };
            // The id of an inline call is made from turn, round and place: it is not known before it is told.
            while !self.approvals.waiting().iter().any(|id| self.approvals.answer(id, allow)) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::join!(run(upstream, probes, given), answering).0
    }
}

#[tokio::test]
async fn without_foreign_text_a_call_runs_when_the_stream_has_ended() {
    for overlap in [true, false] {
        let probes = probes();
        let upstream = Upstream::start([says(&format!("{} and on", block("send", "a"))), says("Done.")]).await;
        let ran = run(&upstream, &probes, Given { overlap, ..Given::default() }).await;
        finished(&ran, Finish::Complete);
        assert_eq!(ran.outcomes(), ["send: ok"]);
        let start = ran.at(|e| matches!(e, RunnerEvent::ToolStart(_)));
        let end = ran.at(|e| matches!(e, RunnerEvent::RoundEnd { round: 0, .. }));
        assert!(end < start, "{:?}", ran.events);
        assert!(!ran.events.iter().any(|(_, e)| matches!(e, RunnerEvent::Approval(_))));
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_starts_nothing() {
    for mode in [ToolMode::Inline, ToolMode::Native] {
        let probes = probes();
        let steps = match mode {
            ToolMode::Native => vec![openai::call(0, "c", "send"), openai::arguments(0, "{\"q\":\"a\"}")],
            _ => vec![openai::text(&block("send", "a"))],
        };
        let upstream = Upstream::start([stream([steps, vec![Step::CutInChunk]].concat())]).await;
        let ran = run(&upstream, &probes, Given { mode, ..Given::default() }).await;
        finished(&ran, Finish::ProviderError);
        assert!(probes.called().is_empty());
    }
}

/// The question is told, and the answer decides.
#[tokio::test]
async fn after_foreign_text_the_user_decides() {
    let twice = format!("{}{}", block("send", "b"), block("send", "b"));
    for (answer, want, called) in [
        (Some(true), ["look: ok", "send: duplicate", "send: ok"], &["a", "b"][..]),
        (Some(false), ["look: ok", "send: duplicate", "send: not_approved"], &["a"]),
        (None, ["look: ok", "send: duplicate", "send: not_approved"], &["a"]),
    ] {
        let probes = probes();
        let upstream = Upstream::start([says(&block("look", "a")), says(&twice), says("Done.")]).await;
        let approval_timeout = if answer.is_none() { Duration::from_millis(80) } else { Duration::from_secs(20) };
        let asked = Asked { approvals: Arc::default(), answer };
        let ran = asked.run(&upstream, &probes, Given { approval_timeout, ..Given::default() }).await;
        finished(&ran, Finish::Complete);
        assert_eq!(ran.outcomes(), want);
        assert_eq!(probes.called(), called);
        let question = ran.at(|e| matches!(e, RunnerEvent::Approval(_)));
        let RunnerEvent::Approval(approval) = &ran.events[question].1 else { unreachable!() };
        assert_eq!((approval.name.as_str(), &approval.arguments["q"]), ("send", &json!("b")));
        let end = ran.at(|e| matches!(e, RunnerEvent::RoundEnd { round: 1, .. }));
        assert!(end < question, "asked before the stream had ended");
        if answer != Some(true) {
            let told = last_user(&upstream.request(2).await);
            assert!(told.contains("send was refused"), "{told}");
        }
    }
}

#[tokio::test]
async fn text_from_earlier_turns_counts_and_a_cancelled_turn_asks_no_longer() {
    let probes = probes();
    let upstream = Upstream::start([says(&block("send", "a"))]).await;
    let cancel = CancellationToken::new();
    let approvals: Arc<Approvals> = Arc::default();
    let given = Given { outside: true, approvals: Arc::clone(&approvals), cancel: cancel.clone(), ..Given::default() };
    let stop = async {
        while approvals.waiting().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        cancel.cancel();
    };
    let (ran, ()) = tokio::join!(run(&upstream, &probes, given), stop);
    finished(&ran, Finish::Cancelled);
    assert_eq!(ran.outcomes(), ["send: failed"]);
    assert!(probes.called().is_empty());
    assert!(approvals.waiting().iter().all(|id| !approvals.answer(id, true)), "a question outlived its turn");
}
