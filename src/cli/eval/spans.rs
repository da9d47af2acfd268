//! Questions whose answers are pieces of their documents: how chunks cut these pieces, and whether what an answer is
//! made from has them. Pure.

use std::ops::Range;

/// What one question shows of the chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cut {
    /// 1 where one chunk has the whole span.
    pub whole: f64,
    /// Share of the span that the chunk with most of it has.
    pub recall: f64,
    /// Share of that chunk that is the span.
    pub precision: f64,
}

/// How the chunks of a document, as bytes of its content, cut `span`.
pub fn cut(span: &Range<usize>, chunks: &[Range<usize>]) -> Cut {
    let best = chunks.iter().max_by_key(|chunk| (common(span, chunk), std::cmp::Reverse(chunk.len())));
    let Some(best) = best.filter(|_| !span.is_empty()) else { return Cut::default() };
    let held = common(span, best);
    let whole = if held == span.len() { 1.0 } else { 0.0 };
    Cut { whole, recall: share(held, span.len()), precision: share(held, best.len()) }
}

/// Of what was found: the share of the span that is in it, and the share of it that is the span.
pub fn found(span: &Range<usize>, in_document: &[Range<usize>], all_bytes: usize) -> (f64, f64) {
    let mut pieces: Vec<Range<usize>> =
        in_document.iter().map(|hit| hit.start.max(span.start)..hit.end.min(span.end)).collect();
    pieces.retain(|piece| !piece.is_empty());
    pieces.sort_by_key(|piece| piece.start);
    let mut held = 0;
    let mut at = span.start;
    for piece in pieces {
        held += piece.end.saturating_sub(piece.start.max(at));
        at = at.max(piece.end);
    }
    (share(held, span.len()), share(held, all_bytes))
}

/// Whether `context` has one of the answers, whatever the case and the white space.
pub fn answers(context: &str, answers: &[String]) -> bool {
    let plain = |text: &str| text.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
    let context = plain(context);
    answers.iter().map(|answer| plain(answer)).any(|answer| !answer.is_empty() && context.contains(&answer))
}

fn common(a: &Range<usize>, b: &Range<usize>) -> usize {
    a.end.min(b.end).saturating_sub(a.start.max(b.start))
}

#[expect(clippy::cast_precision_loss, reason = "bytes of documents")]
fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chunk_with_most_of_the_span_counts() {
        let chunks = [0..100, 80..200, 190..200];
        let check = |span: Range<usize>, whole, recall, precision| {
            assert_eq!(cut(&span, &chunks), Cut { whole, recall, precision }, "{span:?}");
        };
        check(10..20, 1.0, 1.0, 0.1);
        check(70..110, 0.0, 0.75, 0.3);
        check(192..194, 1.0, 1.0, 0.2);
        check(300..310, 0.0, 0.0, 0.0);
        assert_eq!(cut(&(5..5), &chunks), Cut::default());
    }

    #[test]
    fn what_several_hits_hold_counts_once() {
        assert_eq!(found(&(10..20), &[0..15, 12..18], 100), (0.8, 0.08));
        assert_eq!(found(&(10..20), &[], 100), (0.0, 0.0));
        assert!(answers("The  Broncos\nwon", &["broncos won".to_owned()]));
        assert!(!answers("The Broncos", &["Panthers".to_owned(), " ".to_owned()]));
    }
}
