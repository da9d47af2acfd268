//! What holds for every text: nothing is lost, cuts do not matter, memory and work are bounded, and
//! code spans are CommonMark's.

use super::super::{Segment, XmlParseState};
use super::{CAP, by_chars, run};
use crate::engine::xml_parser::ticks::RUN_LIMIT;
use proptest::prelude::*;

/// What trips parsers up, whole and in pieces.
const FRAGMENTS: &[&str] = &[
    "<tool name=\"a\">",
    "<tool name='b' q=\"1>2\">",
    "<tool name=\"c\"/>",
    "<tool id=\"7\">",
    "<tool name=\"d\" name=\"e\">",
    "<tool ",
    "<tool",
    "<to",
    "<",
    "name=\"f\"",
    ">",
    "/>",
    "\"",
    "'",
    "</tool>",
    "</tool >",
    "</tool",
    "</too",
    "<toolbar>",
    "{\"q\":\"",
    "{",
    "}",
    "[",
    "\\",
    "\\\"",
    "<![CDATA[",
    "]]>",
    "]",
    "<!--",
    "-->",
    "-",
    "<think>",
    "</think>",
    "<th",
    "`",
    "``",
    "```",
    "````",
    "~~~",
    "~",
    "\n",
    "\n\n",
    "\r\n",
    "\r",
    "\t",
    " ",
    "    ",
    "> ",
    ">",
    "- ",
    "1. ",
    "```xml\n",
    "\n```\n",
    "a",
    "word ",
    "é",
    "👩‍👧",
    "\u{feff}",
    "\u{2028}",
    "\0",
    "&amp;",
    "#",
];

fn nasty() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(FRAGMENTS), 0..40).prop_map(|parts| parts.concat())
}

/// Cuts `text` at (the character borders below) `cuts`.
fn cut<'a>(text: &'a str, cuts: &[prop::sample::Index]) -> Vec<&'a str> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
    at.iter_mut().for_each(|at| *at = (0..=*at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0));
    at.extend([0, text.len()]);
    at.sort_unstable();
    at.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn invariants_1_and_2_visible_text_is_the_input_and_cuts_do_not_matter(
        text in nasty(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        cap in prop_oneof![Just(CAP), 16_usize..120],
    ) {
        let whole = run([text.as_str()], cap);
        prop_assert_eq!(whole.visible(), text.as_str());
        let calls = whole.calls();
        for other in [run(cut(&text, &cuts), cap), run(by_chars(&text), cap)] {
            prop_assert_eq!(&other.segments, &whole.segments);
            prop_assert_eq!(other.parse_errors, whole.parse_errors);
            prop_assert_eq!(other.calls(), calls.clone());
        }
    }

    #[test]
    fn code_spans_are_those_of_commonmark(parts in prop::collection::vec(prop::sample::select(SPANS), 0..24)) {
        let text = format!("x {}", parts.concat());
        let spans: Vec<_> = run(by_chars(&text), CAP).segments.into_iter().filter_map(|segment| match segment {
            Segment::Call(call) => Some(call.span.start as usize),
            Segment::Text(_) => None,
        }).collect();
        prop_assert_eq!(spans, calls_outside_spans(&text), "{}", text);
    }
}

const CALL: &str = "<tool name=\"x\">a</tool>";
const CALL_WITH_TICKS: &str = "<tool name=\"x\">`` \\` a</tool>";
const SPANS: &[&str] = &["`", "``", "```", " a ", "\\", CALL, CALL_WITH_TICKS, " "];

/// The same question answered by looking ahead over the whole text, as the CommonMark text describes it.
fn calls_outside_spans(text: &str) -> Vec<usize> {
    let ticks = |at: usize| text[at..].bytes().take_while(|&b| b == b'`').count();
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let block = [CALL, CALL_WITH_TICKS].into_iter().find(|call| rest.starts_with(call));
        if let Some(call) = block {
            found.push(at);
            at += call.len();
        } else if rest.starts_with('\\') {
            at += 2;
        } else if rest.starts_with('`') {
            let len = ticks(at);
            let mut next = at + len;
            while next < text.len() && ticks(next) != len {
                next += ticks(next).max(1);
            }
            at = if next < text.len() { next + len } else { at + len };
        } else {
            at += 1;
        }
    }
    found
}

/// Feeds `text` in pieces of `size` bytes (ASCII only); the looks it took and the most it kept.
fn work(text: &str, size: usize, cap: usize) -> (u64, usize) {
    let mut parser = XmlParseState::new(cap);
    let mut out = Vec::new();
    let mut kept = 0;
    for from in (0..text.len()).step_by(size) {
        parser.feed(&text[from..text.len().min(from + size)], &mut out);
        kept = kept.max(parser.retained());
        out.clear();
    }
    parser.flush(&mut out);
    (parser.examined(), kept)
}

#[test]
fn invariant_3_each_byte_is_looked_at_a_bounded_number_of_times_and_memory_is_bounded() {
    let patterns = [
        "<",
        "<tool",
        "<tool n",
        "<tool name=\"",
        "<tool a='`' ",
        "`",
        "` ",
        "`` ` ",
        "\\",
        "\\`",
        "\r",
        "\n",
        "> ",
        "- ",
        "1. ",
        "~",
        "</too</tool>",
        "<!--",
        "-->",
        "<tool name=\"a\">",
        "<tool name=\"a\">x</tool>",
        "` <tool name=\"a\">x</tool>",
        "{\"",
        "<tool name=\"a\">{\"",
        "<tool name=\"a\">]]></too<![CDATA[",
        "plain text, no more. ",
        "```\n",
        "&",
    ];
    for pattern in patterns {
        for lead in ["", "<tool name=\"a\">", "<tool name=\"a\">{\"q\":\"", "x ` "] {
            let text = |len: usize| format!("{lead}{}", pattern.repeat(len / pattern.len()));
            for size in [1, 4, 4096] {
                let (small, _) = work(&text(4_000), size, CAP);
                let (large, _) = work(&text(40_000), size, CAP);
                assert!(large <= 12 * small, "{lead:?} {pattern:?} by {size}: {small} then {large}");
                assert!(large <= 5 * 40_100, "{lead:?} {pattern:?} by {size}: {large}");
            }
            let (_, kept) = work(&text(100_000), 64, CAP);
            assert!(kept <= CAP + 4096, "{lead:?} {pattern:?}: kept {kept}");
        }
    }
}

#[test]
fn many_runs_of_distinct_lengths_stay_linear() {
    let text: String = (2..300).map(|n| format!("{} ", "`".repeat(n))).chain(["` a ".repeat(20_000)]).collect();
    let (looks, kept) = work(&text, 4, CAP);
    assert!(looks <= 4 * text.len() as u64, "{looks}");
    assert!(kept <= RUN_LIMIT as usize);
}

#[test]
fn a_block_of_four_megabytes_costs_ten_times_one_of_four_hundred_kilobytes() {
    for body in ["{\"q\":\"", "a<b "] {
        let block = |len: usize| format!("<tool name=\"a\">{}</tool>", body.repeat(len / body.len()));
        let (small, _) = work(&block(400 << 10), 4, 8 << 20);
        let (large, _) = work(&block(4 << 20), 4, 8 << 20);
        assert!(large <= 12 * small, "{body:?}: {small} then {large}");
    }
}

#[test]
fn a_block_that_may_run_is_a_delta_of_its_own() {
    let block = "<tool name=\"a\">x</tool>";
    let text = format!("before {block} after");
    for cut in 0..text.len() {
        let mut parser = XmlParseState::new(CAP);
        let mut out = Vec::new();
        parser.feed(&text[..cut], &mut out);
        parser.feed(&text[cut..], &mut out);
        let at = out.iter().position(|segment| *segment == Segment::Text(block.to_owned()));
        assert!(at.is_some_and(|at| matches!(out.get(at + 1), Some(Segment::Call(_)))), "cut at {cut}: {out:?}");
    }
}

#[test]
fn a_block_at_the_cap_runs_and_a_longer_one_is_shown_and_counted() {
    for (extra, calls, errors) in [(0, 1, 0), (1, 0, 1), (70_000, 0, 1)] {
        let block = |body: usize| format!("<tool name=\"a\">{}</tool>", "x".repeat(body));
        let text = block(CAP - block(0).len() + extra);
        let got = run([text.as_str(), " then"], CAP);
        assert_eq!((got.calls().len(), got.parse_errors), (calls, errors), "{extra} too long");
        assert_eq!(got.visible(), text.clone() + " then");
    }
    let got = run(["<tool name=\"a\"/> <tool name=\"a\">x</tool>"], 8);
    assert_eq!((got.calls().len(), got.parse_errors), (0, 2), "a tag longer than the cap");
}

#[test]
fn an_opener_at_four_kibibytes_runs_and_a_longer_one_is_text() {
    for (extra, calls) in [(0, 1), (1, 0)] {
        let tag = |value: usize| format!("<tool name=\"a\" q=\"{}\">", "x".repeat(value));
        let text = tag(4096 - tag(0).len() + extra) + "b</tool>";
        let got = run([text.as_str()], CAP);
        assert_eq!((got.calls().len(), got.parse_errors), (calls, 0), "{extra} too long");
    }
}

#[test]
fn an_undecided_run_is_literal_after_64_kibibytes() {
    let call = "<tool name=\"a\">x</tool>";
    for lead in ["a", "ab", "abc"] {
        let text = format!("{lead} ` {call}{}", "é ".repeat(30_000));
        let got = run(by_chars(&text), CAP);
        let chars = got.after.iter().position(|(_, calls)| *calls == 1).unwrap();
        let at: usize = text.chars().take(chars).map(char::len_utf8).sum();
        let limit = lead.len() + 1 + RUN_LIMIT as usize;
        assert!((limit..limit + 4).contains(&at), "{at}, not {limit}");
    }
}
