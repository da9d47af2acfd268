//! The sentences of a growing answer that can be judged. Pure.
//!
//! Invariant: offsets are bytes of the text as it was shown, and what was found finished stays as it is however the
//! text goes on. Left out: tool blocks, code, headings, tables, questions, and what is too short to claim anything.

use crate::message::citations;
use crate::message::code_spans;
use std::ops::Range;

/// Words that a claim has at least; of scripts without spaces, twice as many letters.
const LEAST_WORDS: usize = 4;
/// Abbreviations after which a sentence goes on.
const ABBREVIATIONS: [&str; 24] = [
    "dr", "mr", "mrs", "ms", "prof", "st", "vs", "etc", "e.g", "i.e", "z.b", "bzw", "ca", "al", "nr", "vol", "fig",
    "approx", "inc", "ltd", "jr", "sr", "u.s", "d.h",
];

/// One finished sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence {
    pub start: usize,
    pub end: usize,
    /// Without citations and emphasis.
    pub text: String,
    /// The numbers it cites.
    pub cites: Vec<u32>,
}

/// The sentences of `text` from byte `from` on that are claims, and where to look from next time.
/// `blocks`: the tool blocks in `text`, in order; no sentence goes on behind one, also where it is empty. `ended`: nothing
/// follows.
pub fn finished(text: &str, from: usize, blocks: &[Range<usize>], ended: bool) -> (Vec<Sentence>, usize) {
    let mut reader = Reader { text, from, code: code_spans::ranges(text), found: Vec::new(), next: from };
    let mut start = 0;
    for block in blocks.iter().filter(|block| block.end <= text.len() && block.start <= block.end) {
        reader.read(start..block.start.max(start), true);
        start = start.max(block.end);
        reader.next = reader.next.max(block.end);
    }
    reader.read(start..text.len(), ended);
    (reader.found, reader.next)
}

struct Reader<'t> {
    text: &'t str,
    from: usize,
    code: Vec<Range<usize>>,
    found: Vec<Sentence>,
    next: usize,
}

impl Reader<'_> {
    /// A part without tool blocks; `closed`: nothing will be added at its end.
    fn read(&mut self, part: Range<usize>, closed: bool) {
        let mut at = line_start(self.text, self.from.clamp(part.start, part.end)).max(part.start);
        for line in self.text.get(at..part.end).unwrap_or_default().split_inclusive('\n') {
            let (start, end) = (at, at + line.len());
            at = end;
            let whole_line = closed || line.ends_with('\n');
            if !is_structure(line) && !inside(&self.code, start..end) {
                for (piece, complete) in pieces(line, start, &self.code) {
                    if piece.end <= self.from {
                        continue;
                    }
                    if !complete && !whole_line {
                        return;
                    }
                    self.found.extend(claim(self.text, piece.clone(), &self.code));
                    self.next = self.next.max(piece.end);
                }
            }
            if whole_line {
                self.next = self.next.max(end);
            }
        }
    }
}

/// Every sentence of a source, in order, whatever it says.
pub fn all(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        found.extend(pieces(line, at, &[]).into_iter().map(|(piece, _)| text[piece].trim()));
        at += line.len();
    }
    found.retain(|sentence| !sentence.is_empty());
    found
}

fn line_start(text: &str, at: usize) -> usize {
    text.get(..at).and_then(|head| head.rfind('\n')).map_or(0, |line| line + 1)
}

/// A heading, a row of a table, a rule.
fn is_structure(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with(['#', '|']) || line.trim().bytes().all(|b| b"-=*_ ".contains(&b))
}

/// Whether one of `ranges` covers all of `part`.
fn inside(ranges: &[Range<usize>], part: Range<usize>) -> bool {
    ranges.iter().any(|range| range.start <= part.start && range.end >= part.end)
}

/// A line in sentences; `true` for those that have their end mark and something behind it.
fn pieces(line: &str, base: usize, left_out: &[Range<usize>]) -> Vec<(Range<usize>, bool)> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut chars = line.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let wide = matches!(c, '。' | '！' | '？' | '．');
        if !(wide || matches!(c, '.' | '!' | '?')) || code_spans::holds(left_out, base + at) {
            continue;
        }
        let end = at + c.len_utf8() + trailer(&line[at + c.len_utf8()..]);
        if end <= start {
            continue;
        }
        let rest = &line[end..];
        let open = rest.is_empty();
        let ends = wide || open || rest.starts_with(char::is_whitespace);
        if !ends || (c == '.' && goes_on(&line[start..at], rest)) {
            continue;
        }
        if open {
            break;
        }
        // An open back-tick may become a code span; and what follows may still belong to the sentence.
        let mut ticks = line[start..end].match_indices('`');
        let literal = ticks.any(|(tick, _)| !code_spans::holds(left_out, base + start + tick));
        found.push((base + start..base + end, !literal && has_arrived(rest)));
        start = end;
        while chars.peek().is_some_and(|(next, _)| *next < end) {
            chars.next();
        }
    }
    if !line[start..].trim().is_empty() {
        found.push((base + start..base + line.trim_end().len().max(start), false));
    }
    found
}

/// Whether what stands behind a sentence is the beginning of another, and not perhaps a citation's.
fn has_arrived(rest: &str) -> bool {
    let next = rest.trim_start_matches(' ');
    match next.strip_prefix('[') {
        Some(inside) => !inside.bytes().all(|b| b.is_ascii_digit() || b", ".contains(&b)),
        None => !next.is_empty(),
    }
}

/// Closing marks and citations that belong to the sentence before them: their bytes.
fn trailer(rest: &str) -> usize {
    let mut end = 0;
    loop {
        let tail = &rest[end..];
        let closing = tail.len() - tail.trim_start_matches(['"', '\'', '”', '’', '»', ')', '*', '_', '」', '』']).len();
        end += closing;
        let tail = &rest[end..];
        let spaced = tail.trim_start_matches(' ');
        let bracket = spaced.find(']').filter(|close| {
            *close <= 40
                && spaced.starts_with('[')
                && spaced[1..*close].bytes().all(|b| b.is_ascii_digit() || b", ".contains(&b))
        });
        match bracket {
            Some(close) => end += tail.len() - spaced.len() + close + 1,
            None if closing == 0 => return end,
            None => {}
        }
    }
}

/// Whether the full stop after `before` ends nothing: an abbreviation, an initial, a number in a list.
fn goes_on(before: &str, rest: &str) -> bool {
    let word = before.rsplit(|c: char| c.is_whitespace() || matches!(c, '(' | '"' | '“')).next().unwrap_or_default();
    let lower = word.to_lowercase();
    let initial = word.chars().count() == 1 && word.chars().all(|c| c.is_uppercase());
    let item = !word.is_empty() && before.trim() == word && word.bytes().all(|b| b.is_ascii_digit());
    let small = rest.trim_start().chars().next().is_some_and(char::is_lowercase);
    initial || item || small || ABBREVIATIONS.contains(&lower.as_str())
}

fn claim(text: &str, piece: Range<usize>, left_out: &[Range<usize>]) -> Option<Sentence> {
    let whole = text.get(piece.clone())?;
    let body = whole.trim_start();
    // The mark of a list's item is not part of what it says.
    let marks = body.trim_start_matches(['-', '*', '+', '>', ' ', '•']);
    let start = piece.start + (whole.len() - if marks.is_empty() { body } else { marks }.len());
    let end = piece.start + whole.trim_end().len();
    let touches = left_out.iter().any(|range| range.start < end && range.end > start);
    let shown = text.get(start..end)?;
    let asks = shown.trim_end_matches(['"', '*', '_', ')', '”', ' ']).ends_with(['?', '？']);
    if touches || asks || shown.is_empty() {
        return None;
    }
    let cites: Vec<u32> = citations::find(shown).into_iter().flat_map(|citation| citation.numbers).collect();
    let plain = citations::without_unknown(shown, |_| false).replace(['*', '`'], "");
    let words = plain.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric)).count();
    let wide = plain.chars().filter(|c| u32::from(*c) >= 0x0e00 && c.is_alphabetic()).count();
    (words >= LEAST_WORDS || wide >= 2 * LEAST_WORDS).then(|| Sentence {
        start,
        end,
        text: plain.trim().to_owned(),
        cites,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, blocks: &[Range<usize>], ended: bool) -> Vec<String> {
        let (found, _) = finished(text, 0, blocks, ended);
        found.iter().map(|sentence| text[sentence.start..sentence.end].to_owned()).collect()
    }

    #[test]
    fn finished_claims_are_found_and_nothing_else() {
        let check = |text: &str, expected: &[&str]| assert_eq!(shown(text, &[], true), expected, "{text:?}");
        check("The tide turns at noon. It comes back at six. ", &["The tide turns at noon.", "It comes back at six."]);
        check(
            "The tide turns at noon. [1] The ebb is at six [2].",
            &["The tide turns at noon. [1]", "The ebb is at six [2]."],
        );
        check("Dr. Smith wrote 3.5 pages, e.g. on tides. Yes.", &["Dr. Smith wrote 3.5 pages, e.g. on tides."]);
        check(
            "J. R. Hale went to the sea. He came back in May.",
            &["J. R. Hale went to the sea.", "He came back in May."],
        );
        check("Does the tide turn at noon? It turns at noon sharp!", &["It turns at noon sharp!"]);
        check("# The tide turns at noon.\n| a | b | c | d. |\n", &[]);
        check("- The tide turns at noon\n- The ebb is at six\n", &["The tide turns at noon", "The ebb is at six"]);
        check("1. The tide turns at noon.\n", &["1. The tide turns at noon."]);
        check("```\nThe tide turns at noon.\n```\nCall `turn(noon)` when the tide turns.", &[]);
        check("潮水在中午转向。退潮是在傍晚六点钟。", &["退潮是在傍晚六点钟。"]);
        check(
            "He said \"the tide turns now.\" Then he went to sleep.",
            &["He said \"the tide turns now.\"", "Then he went to sleep."],
        );
    }

    #[test]
    fn tool_blocks_are_no_claims() {
        let text = "I look it up. <tool name=\"x\">a b c d. e f g h.</tool> The tide turns at noon.";
        let block = text.find('<').unwrap()..text.find("</tool>").unwrap() + 7;
        assert_eq!(shown(text, &[block], true), ["I look it up.", "The tide turns at noon."]);
        // A round ends without a full stop, and the next begins without a space.
        let text = "I will look that up nowThe tide turns at noon.";
        let border = text.find("The").unwrap();
        assert_eq!(
            shown(text, std::slice::from_ref(&(border..border)), true),
            ["I will look that up now", "The tide turns at noon."]
        );
    }

    #[test]
    fn growing_text_gives_each_sentence_once_and_the_same_ones() {
        let text = "The tide turns at noon. [1] It comes back at six.\n\n- One item of the list\n- Dr. Hale says so too [2].\n\
                    ```\ncode. is. no. claim.\n```\nThe end came in the year 1999. And then nothing more was said";
        let (whole, _) = finished(text, 0, &[], true);
        let mut grown = Vec::new();
        let mut from = 0;
        for end in (0..=text.len()).filter(|end| text.is_char_boundary(*end)) {
            let (found, next) = finished(&text[..end], from, &[], end == text.len());
            grown.extend(found);
            from = next;
        }
        assert_eq!(grown, whole);
        assert_eq!(whole[0].cites, [1]);
        assert_eq!(whole.len(), 6, "{whole:#?}");
    }

    #[test]
    fn a_source_is_cut_into_all_its_sentences() {
        assert_eq!(all("One. Two is\nhere. Three?"), ["One.", "Two is", "here.", "Three?"]);
    }
}
