//! Where code stands in Markdown. Pure, linear. What a model writes there is neither a citation nor a claim.

use std::ops::Range;

/// Fenced blocks (an open one reaches to the end) and code spans, in order, without overlap.
pub fn ranges(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut fence: Option<(usize, char, usize)> = None;
    // Where the paragraph that may hold code spans began.
    let mut paragraph = 0;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let (start, end) = (at, at + line.len());
        at = end;
        let mark = fence_mark(line);
        match fence {
            Some((from, c, length)) => {
                if mark.is_some_and(|(d, n)| d == c && n >= length && line.trim().trim_matches(c).is_empty()) {
                    found.push(from..end);
                    fence = None;
                    paragraph = end;
                }
            }
            None => {
                if mark.is_some() || line.trim().is_empty() {
                    spans(text, paragraph..start, &mut found);
                    paragraph = end;
                }
                if let Some((c, length)) = mark {
                    fence = Some((start, c, length));
                }
            }
        }
    }
    match fence {
        Some((from, ..)) => found.push(from..text.len()),
        None => spans(text, paragraph..text.len(), &mut found),
    }
    found
}

/// Whether `at` is within one of `ranges`, which are in order.
pub fn holds(ranges: &[Range<usize>], at: usize) -> bool {
    let next = ranges.partition_point(|range| range.end <= at);
    ranges.get(next).is_some_and(|range| range.start <= at)
}

/// The character of a fence and how many of it open the line, at least three.
fn fence_mark(line: &str) -> Option<(char, usize)> {
    let body = line.trim_start_matches(' ');
    let c = body.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = body.len() - body.trim_start_matches(c).len();
    let indented = line.len() - body.len();
    // A line like ```x``` is a code span.
    let inline = c == '`' && body[length..].contains('`');
    (length >= 3 && indented <= 3 && !inline).then_some((c, length))
}

/// Pairs of equally long runs of back-ticks within `part`.
fn spans(text: &str, part: Range<usize>, found: &mut Vec<Range<usize>>) {
    let bytes = text.as_bytes();
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut at = part.start;
    while at < part.end {
        let Some(tick) = memchr::memchr(b'`', &bytes[at..part.end]) else { break };
        let start = at + tick;
        let length = bytes[start..part.end].iter().take_while(|b| **b == b'`').count();
        runs.push(start..start + length);
        at = start + length;
    }
    // The next run of each length, from the back, so that a run without a partner costs nothing.
    let mut next_of: std::collections::HashMap<usize, usize> = std::collections::HashMap::new();
    let mut partner = vec![None; runs.len()];
    for (i, run) in runs.iter().enumerate().rev() {
        partner[i] = next_of.insert(run.len(), i);
    }
    let mut i = 0;
    while let Some(run) = runs.get(i) {
        match partner[i] {
            Some(close) => {
                found.push(run.start..runs[close].end);
                i = close + 1;
            }
            None => i += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_found_and_nothing_else() {
        let check = |text: &str, expected: &[&str]| {
            let found: Vec<&str> = ranges(text).into_iter().map(|range| &text[range]).collect();
            assert_eq!(found, expected, "{text:?}");
        };
        check("no code", &[]);
        check("a `b` c ``d ` e`` f", &["`b`", "``d ` e``"]);
        check("a ` b\n\nc ` d", &[]);
        check("x\n```rust\na[1]\n```\ny `z`", &["```rust\na[1]\n```\n", "`z`"]);
        check("~~~\n```\n~~~\n", &["~~~\n```\n~~~\n"]);
        check("```\nopen [1]", &["```\nopen [1]"]);
        check("````\n```\n````\nrest", &["````\n```\n````\n"]);
        check("    ```\nindented", &[]);
        check("", &[]);
    }

    #[test]
    fn places_are_looked_up() {
        let text = "a `b` c `d`";
        let code = ranges(text);
        let inside: Vec<bool> = (0..text.len()).map(|at| holds(&code, at)).collect();
        let expected: Vec<bool> = (0..text.len()).map(|at| (2..5).contains(&at) || (8..11).contains(&at)).collect();
        assert_eq!(inside, expected);
    }
}
