//! What is counted, and what goes first.

use super::*;
use crate::engine::continuation::SettledCall;
use crate::engine::event::ToolMode;
use crate::engine::transcript::Opening;
use crate::message::Arguments;

fn usage(input_tokens: u64, cache_read_tokens: u64) -> Usage {
    Usage { input_tokens, output_tokens: 1, cache_read_tokens }
}

#[test]
fn the_rate_follows_what_providers_say_within_reason() {
    for (bytes, said, want) in [
        (1000, usage(250, 0), 250),
        (1000, usage(250, 200), 250),
        // Beside the cache, not with it.
        (1000, usage(50, 300), 350),
        (1000, usage(0, 0), 300),
        (0, usage(10, 0), 300),
        // Nonsense.
        (1000, usage(1, 0), 100),
        (1000, usage(90_000, 0), 1000),
    ] {
        let mut rate = TokenRate::default();
        rate.learn(bytes, said);
        assert_eq!(rate.tokens(1000), want, "{said:?}");
        assert!(rate.bytes(want).abs_diff(1000) <= 4);
    }
}

fn transcript(rounds: &[&[usize]]) -> Transcript {
    let mut transcript = Transcript::new(Opening {
        mode: ToolMode::Inline,
        tools: &[],
        examples: false,
        history: vec![],
        passages: &[],
        question: "When?",
    });
    for (i, round) in rounds.iter().enumerate() {
        let call = |(j, length): (usize, &usize)| SettledCall {
            call_id: format!("{i}/{j}"),
            name: "t".into(),
            arguments: Some(Arguments::new()),
            outcome: ToolOutcome::Ok { output: "é".repeat(length / 2) },
            full_bytes: None,
        };
        let calls = round.iter().enumerate().map(call).collect();
        transcript.legs.push(Leg::Results(RoundRecord { calls, ..RoundRecord::default() }));
    }
    transcript
}

/// Lengths of all results; notes are 0.
fn lengths(transcript: &Transcript) -> Vec<Vec<usize>> {
    let length = |call: &SettledCall| match &call.outcome {
        ToolOutcome::Ok { output } if output.starts_with("(left out") => 0,
        ToolOutcome::Ok { output } => output.len(),
        _ => usize::MAX,
    };
    let of_leg = |leg: &Leg| match leg {
        Leg::Results(record) => record.calls.iter().map(length).collect(),
        Leg::Nudged { .. } => vec![],
    };
    transcript.legs.iter().map(of_leg).collect()
}

#[test]
fn oldest_results_go_first_and_the_last_rounds_stay() {
    for (excess, want) in [
        (0, [vec![1000, 200], vec![2000], vec![4000]]),
        (1, [vec![0, 200], vec![2000], vec![4000]]),
        (2000, [vec![0, 200], vec![0], vec![4000]]),
        (9000, [vec![0, 200], vec![0], vec![4000]]),
    ] {
        let mut transcript = transcript(&[&[1000, 200], &[2000], &[4000]]);
        let before = size(&transcript.messages(true), &[]);
        let freed = drop_results(&mut transcript, excess);
        assert_eq!(lengths(&transcript), want, "{excess}");
        assert_eq!(before - size(&transcript.messages(true), &[]), freed);
    }
}

#[test]
fn the_last_results_are_cut_at_a_characters_border_and_say_so() {
    for (excess, want, freed) in [
        (0, vec![4000, 1000], 0),
        (1001, vec![2998, 1000], 1002),
        (4000, vec![300, 700], 4000),
        (9000, vec![300, 300], 4400),
    ] {
        let mut transcript = transcript(&[&[4000, 1000]]);
        assert_eq!(cut_last_results(&mut transcript, excess), freed, "{excess}");
        assert_eq!(lengths(&transcript)[0], want, "{excess}");
        let Leg::Results(record) = &transcript.legs[0] else { unreachable!() };
        assert_eq!(record.calls[0].full_bytes, (want[0] < 4000).then_some(4000));
    }
}

#[test]
fn whole_turns_go_and_no_more_than_needed() {
    let user = |n: usize| ChatMessage::User("u".repeat(n));
    let said = |n: usize| ChatMessage::Assistant(AssistantMessage { text: "a".repeat(n), ..Default::default() });
    let history = [user(10), said(90), user(10), said(90), user(10), said(90)];
    for (excess, summary, want) in [(0, 0, 0), (1, 0, 2), (100, 0, 2), (101, 0, 4), (90, 20, 4), (1000, 0, 6)] {
        assert_eq!(oldest(&history, excess, summary), want, "{excess} {summary}");
    }
    assert_eq!(oldest(&[], 10, 10), 0);
}
