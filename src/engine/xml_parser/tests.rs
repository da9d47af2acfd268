//! The handed cases, more of their kinds, and the grammar's laws.

mod laws;

use super::{Segment, XmlParseState};
use serde::Deserialize;
use std::collections::BTreeMap;

const CASES: &str = include_str!("../../../tests/data/stream/inline.jsonl");
const MORE: &str = include_str!("../../../tests/data/stream/inline_more.jsonl");
const CAP: usize = 64 * 1024;

#[derive(Deserialize)]
struct Case {
    id: String,
    chunks: Vec<String>,
    expect_visible: String,
    expect_calls: Vec<Call>,
    #[serde(default)]
    checkpoints: Vec<Checkpoint>,
    #[serde(default)]
    parse_errors: Option<u32>,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
struct Call {
    name: String,
    body: String,
    #[serde(default)]
    attrs: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Checkpoint {
    after_chunk: usize,
    calls: usize,
    #[serde(default)]
    visible_min: String,
}

/// What a text gave, fed in pieces.
#[derive(Debug, Default)]
struct Outcome {
    /// Neighbouring texts joined.
    segments: Vec<Segment>,
    /// After each piece: the visible text and the calls so far.
    after: Vec<(usize, usize)>,
    parse_errors: u32,
}

fn push(segments: &mut Vec<Segment>, segment: Segment) {
    match (segments.last_mut(), segment) {
        (Some(Segment::Text(text)), Segment::Text(more)) => text.push_str(&more),
        (_, segment) => segments.push(segment),
    }
}

fn run<'a>(chunks: impl IntoIterator<Item = &'a str>, cap: usize) -> Outcome {
    let mut parser = XmlParseState::new(cap);
    let mut outcome = Outcome::default();
    let mut out = Vec::new();
    let (mut released, mut calls) = (0, 0);
    let mut take = |out: &mut Vec<Segment>, outcome: &mut Outcome| {
        for segment in out.drain(..) {
            match &segment {
                Segment::Text(text) => {
                    assert!(!text.is_empty());
                    released += text.len();
                }
                Segment::Call(call) => {
                    assert!(call.span.end as usize <= released, "a call's text leaves before the call");
                    calls += 1;
                }
            }
            push(&mut outcome.segments, segment);
        }
        outcome.after.push((released, calls));
    };
    for chunk in chunks {
        parser.feed(chunk, &mut out);
        take(&mut out, &mut outcome);
    }
    parser.flush(&mut out);
    take(&mut out, &mut outcome);
    outcome.parse_errors = parser.parse_errors();
    outcome
}

impl Outcome {
    fn visible(&self) -> String {
        self.segments.iter().filter_map(|s| if let Segment::Text(t) = s { Some(t.as_str()) } else { None }).collect()
    }

    fn calls(&self) -> Vec<Call> {
        let visible = self.visible();
        let call = |s: &Segment| match s {
            Segment::Text(_) => None,
            Segment::Call(sealed) => {
                let block = &visible[sealed.span.start as usize..sealed.span.end as usize];
                assert!(block.starts_with("<tool") && block.ends_with('>') && block.contains(&sealed.call.body));
                Some(Call {
                    name: sealed.call.name.clone(),
                    body: sealed.call.body.clone(),
                    attrs: sealed.call.attrs.iter().cloned().collect(),
                })
            }
        };
        self.segments.iter().filter_map(call).collect()
    }
}

fn by_chars(text: &str) -> impl Iterator<Item = &str> {
    text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()])
}

fn check(case: &Case) {
    let id = &case.id;
    let as_written = run(case.chunks.iter().map(String::as_str), CAP);
    assert_eq!(as_written.visible(), case.expect_visible, "{id}: visible");
    assert_eq!(as_written.calls(), case.expect_calls, "{id}: calls");
    if let Some(errors) = case.parse_errors {
        assert_eq!(as_written.parse_errors, errors, "{id}: parse errors");
    }
    for point in &case.checkpoints {
        let (released, calls) = as_written.after[point.after_chunk];
        assert_eq!(calls, point.calls, "{id}: calls after chunk {}", point.after_chunk);
        let shown = &case.expect_visible[..released];
        assert!(shown.starts_with(&point.visible_min), "{id}: after chunk {} only {shown:?}", point.after_chunk);
    }
    let text = case.chunks.concat();
    let same = |got: Outcome, how: &str| {
        assert_eq!(got.segments, as_written.segments, "{id}: {how}");
        assert_eq!(got.parse_errors, as_written.parse_errors, "{id}: {how}");
    };
    same(run([text.as_str()], CAP), "uncut");
    same(run(by_chars(&text), CAP), "character by character");
    let cuts: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    for &cut in &cuts {
        same(run([&text[..cut], &text[cut..]], CAP), "in two");
        if text.len() <= 80 {
            for &second in cuts.iter().filter(|&&second| second > cut) {
                same(run([&text[..cut], &text[cut..second], &text[second..]], CAP), "in three");
            }
        }
    }
}

fn cases(data: &str) -> Vec<Case> {
    data.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_handed_cases_hold_however_they_are_cut() {
    let cases = cases(CASES);
    assert_eq!(cases.len(), 74);
    cases.iter().for_each(check);
}

#[test]
fn more_cases_of_the_same_kinds_hold_however_they_are_cut() {
    let cases = cases(MORE);
    assert!(cases.len() >= 200);
    cases.iter().for_each(check);
}
