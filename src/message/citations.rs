//! The `[n]` of an answer: found outside code, checked against the numbers a conversation has given. Pure.
//! Invariant: a number that was not given is never taken for a source.

use super::code_spans;
use std::collections::BTreeSet;

/// One bracket: `[3]`, or `[1, 4]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Citation {
    pub start: usize,
    pub end: usize,
    pub numbers: Vec<u32>,
}

/// Longest bracket.
const MOST_BYTES: usize = 40;

/// Every citation, in order. A Markdown link or image that is called by a number is none, nor is a footnote's target.
pub fn find(text: &str) -> Vec<Citation> {
    let code = code_spans::ranges(text);
    let mut found = Vec::new();
    for (start, _) in text.match_indices('[') {
        if code_spans::holds(&code, start) || text[..start].ends_with(['!', '\\']) {
            continue;
        }
        // Only so far, so that many open brackets stay cheap.
        let near = &text[start + 1..text.floor_char_boundary(start + 1 + MOST_BYTES)];
        let Some((inside, _)) = near.split_once(']') else { continue };
        let end = start + inside.len() + 2;
        if let Some(numbers) = numbers(inside)
            && !text[end..].starts_with(['(', ':'])
        {
            found.push(Citation { start, end, numbers });
        }
    }
    found
}

fn numbers(inside: &str) -> Option<Vec<u32>> {
    // Four digits and more are years and the like.
    let read = |word: &str| {
        let word = word.trim();
        let plain = (1..=3).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_digit());
        word.parse().ok().filter(|n| plain && *n > 0)
    };
    inside.split(',').map(read).collect()
}

/// The numbers cited that `known` does not know.
pub fn unknown(text: &str, known: impl Fn(u32) -> bool) -> BTreeSet<u32> {
    find(text).into_iter().flat_map(|citation| citation.numbers).filter(|n| !known(*n)).collect()
}

/// The text without the numbers that `known` does not know; a bracket that becomes empty goes with the space before.
pub fn without_unknown(text: &str, known: impl Fn(u32) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for citation in find(text) {
        let kept: Vec<String> = citation.numbers.iter().filter(|n| known(**n)).map(u32::to_string).collect();
        if kept.len() == citation.numbers.len() {
            continue;
        }
        out.push_str(&text[at..citation.start]);
        at = citation.end;
        if kept.is_empty() {
            out.truncate(out.trim_end_matches(' ').len());
        } else {
            out.push_str(&format!("[{}]", kept.join(", ")));
        }
    }
    out.push_str(&text[at..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn citations_are_brackets_of_small_numbers_outside_code() {
        let check = |text: &str, expected: &[&[u32]]| {
            let found = find(text);
            assert_eq!(found.iter().map(|c| c.numbers.as_slice()).collect::<Vec<_>>(), expected, "{text:?}");
            assert!(found.iter().all(|c| text[c.start..c.end].starts_with('[') && text[..c.end].ends_with(']')));
        };
        check("A fact [1]. Others [2][3], [4, 5].", &[&[1], &[2], &[3], &[4, 5]]);
        check("Prices [12] 三[7]。", &[&[12], &[7]]);
        check("`a[1]` and\n```\nb[2]\n```\n[3]", &[&[3]]);
        check("[1](https://example.org) ![2] \\[3] [4]: note [2020] [0] [x] [] [1", &[]);
        check("[[1]]", &[&[1]]);
    }

    #[test]
    fn what_nobody_gave_a_number_goes() {
        let known = |n: u32| n <= 2;
        let check = |text: &str, expected: &str, numbers: &[u32]| {
            assert_eq!(without_unknown(text, known), expected);
            assert_eq!(unknown(text, known).into_iter().collect::<Vec<_>>(), numbers);
        };
        check("True [1]. False [9].", "True [1]. False.", &[9]);
        check("Both [1, 7] here [8][2].", "Both [1] here[2].", &[7, 8]);
        check("Kept: `x[9]`.", "Kept: `x[9]`.", &[]);
        check("", "", &[]);
    }
}
