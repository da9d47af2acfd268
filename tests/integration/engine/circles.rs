//! A model that goes round in circles, falls silent or is cut for length: the turn ends with an answer, or with what
//! there is, and never takes more rounds than it may.

use super::*;

const MANY: Limits = Limits { max_continuations: 9, max_tools_per_round: 3, max_tools_total: 20 };

/// A round that stopped for length.
fn cut(text: &str) -> Script {
    stream(vec![openai::text(text), openai::finish("length"), openai::done()])
}

struct Want<'w> {
    rounds: u32,
    outcomes: &'w [&'w str],
    notices: &'w [&'w str],
    finish: Finish,
    fallback: Option<&'static str>,
}

async fn check(mode: ToolMode, limits: Limits, scripts: Vec<Script>, want: Want<'_>) -> Upstream {
    let probes = Probes::default().with("t", Act::Answer("r".into())).with("u", Act::Fail("no".into()));
    let upstream = Upstream::start(scripts).await;
    let ran = run(&upstream, &probes, Given { mode, limits, ..Given::default() }).await;
    finished(&ran, want.finish);
    assert_eq!(ran.outcome.telemetry.rounds, want.rounds);
    assert_eq!(ran.outcomes(), want.outcomes);
    assert_eq!(ran.notices(), want.notices);
    assert_eq!(ran.outcome.fallback_reason, want.fallback);
    assert_eq!(upstream.requests().len(), want.rounds as usize);
    upstream
}

#[tokio::test]
async fn a_repeated_inline_call_is_talked_out_of_then_goes_without_tools_then_ends() {
    let again = || says(&block("t", "a"));
    let want = Want {
        rounds: 4,
        outcomes: &["t: ok", "t: duplicate", "t: duplicate", "t: not_allowed"],
        notices: &["loop_detected", "loop_detected", "loop_detected"],
        finish: Finish::Complete,
        fallback: Some("loop_detected"),
    };
    let upstream = check(ToolMode::Inline, MANY, vec![again(), again(), again(), again()], want).await;
    assert!(last_user(&upstream.request(2).await).contains("Do not repeat it"));
    assert!(!upstream.request(3).await.body.contains("You can call tools"));
    assert!(last_user(&upstream.request(3).await).contains("no further call will run"));
}

#[tokio::test]
async fn two_native_calls_in_turns_are_a_circle_too_even_if_they_fail() {
    let call = |name: &str, q: &str| openai::calls(&[("c", name, &format!("{{\"q\":\"{q}\"}}"))]);
    let want = Want {
        rounds: 5,
        // The third and fourth are not the same, but as good as: they run, and are counted all the same.
        outcomes: &["t: ok", "u: failed", "t: ok", "u: failed"],
        notices: &["loop_detected", "loop_detected"],
        finish: Finish::Complete,
        fallback: None,
    };
    let scripts = vec![call("t", "a"), call("u", "b"), call("t", "A."), call("u", " b"), says("So be it.")];
    let upstream = check(ToolMode::Native, MANY, scripts, want).await;
    let with = upstream.request(3).await.json();
    assert!(with["tools"].is_array() && with.to_string().contains("tool_calls"));
    let without = upstream.request(4).await.json();
    assert!(without["tools"].is_null() && !without.to_string().contains("tool_calls"), "{without}");
    assert!(without.to_string().contains("t answered"), "{without}");
}

#[tokio::test]
async fn a_silent_round_after_tools_is_asked_to_answer_twice_at_most() {
    let silent = || says(" \n");
    let want =
        Want { rounds: 3, outcomes: &["t: ok"], notices: &["auto_continue"], finish: Finish::Complete, fallback: None };
    let upstream = check(ToolMode::Inline, LIMITS, vec![says(&block("t", "a")), silent(), says("Four.")], want).await;
    assert!(last_user(&upstream.request(2).await).contains("You have not answered yet"));
    let want = Want {
        rounds: 4,
        outcomes: &["t: ok"],
        notices: &["auto_continue", "auto_continue"],
        finish: Finish::Complete,
        fallback: None,
    };
    let one = Limits { max_continuations: 1, ..LIMITS };
    check(ToolMode::Inline, one, vec![says(&block("t", "a")), silent(), silent(), silent()], want).await;
    let want = Want { rounds: 1, outcomes: &[], notices: &[], finish: Finish::Complete, fallback: None };
    check(ToolMode::Inline, LIMITS, vec![silent()], want).await;
}

#[tokio::test]
async fn an_answer_that_was_cut_for_length_goes_on() {
    let want = Want {
        rounds: 3,
        outcomes: &[],
        notices: &["auto_continue", "auto_continue"],
        finish: Finish::Complete,
        fallback: None,
    };
    let upstream = check(ToolMode::Off, LIMITS, vec![cut("one "), cut("two "), cut("three")], want).await;
    let body = upstream.request(2).await.json();
    let said: Vec<_> = body["messages"].as_array().unwrap().iter().filter(|m| m["role"] == "assistant").collect();
    assert_eq!(said.iter().map(|m| m["content"].as_str().unwrap()).collect::<Vec<_>>(), ["one ", "two "]);
    let none = Limits { max_continuations: 0, ..LIMITS };
    let want = Want {
        rounds: 2,
        outcomes: &["t: max_continuations"],
        notices: &["auto_continue", "max_continuations_reached"],
        finish: Finish::MaxContinuations,
        fallback: Some("max_continuations_reached"),
    };
    check(ToolMode::Inline, none, vec![cut("one "), says(&block("t", "a"))], want).await;
}

/// What was wrong and what was sent reach the model in one line, and a refused call keeps what was sent.
#[tokio::test]
async fn a_refused_call_says_what_was_sent() {
    let probes = Probes::default().with("t", Act::Answer("r".into()));
    for (mode, script, told, kept) in [
        (ToolMode::Inline, says("<tool name=\"t\">{\"z\": 1}</tool>"), "sent: {\"z\": 1}", json!({"z": 1})),
        (ToolMode::Native, openai::calls(&[("c", "t", "{\"z\": 1}")]), "sent: {\"z\": 1}", json!({"z": 1})),
        (ToolMode::Native, openai::calls(&[("c", "t", "{\"q\": \"ha")]), "sent: {\"q\": \"ha", json!({})),
        (ToolMode::Native, openai::calls(&[("c", "nope", "{\"q\": 2}")]), "there is no tool nope", json!({"q": 2})),
    ] {
        let upstream = Upstream::start([script, says("Sorry.")]).await;
        let ran = run(&upstream, &probes, Given { mode, ..Given::default() }).await;
        let body = upstream.request(1).await.json();
        let last = body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap().to_owned();
        assert_eq!(last.matches(told).count(), 1, "{told} is not in {last}");
        assert_eq!(json!(ran.results()[0].arguments), kept);
    }
}
