//! The inline grammar: the assistant's text in, visible text and sealed calls out.
//!
//! What leaves as [`Segment::Text`] is the input, byte for byte, in order; a call never changes it.
//! Parsing cannot fail, looks at each byte a bounded number of times whatever the chunking, keeps at
//! most one block and one opening tag, and gives the same segments for every split of the same text.
//! Only the assistant's own text may be fed. The parser knows nothing of tools or arguments.

mod body;
mod feed;
mod markdown;
mod opener;
#[cfg(test)]
mod tests;
mod ticks;

use crate::engine::event::Span;
use crate::engine::xml_block::{self, XmlToolCall};
use body::{Body, Found};
use feed::{Feed, Held, find};
use markdown::{Effect, Markdown};
use opener::{Opener, Verdict, is_space};

/// A piece of what the model said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Visible text, never empty. The text of a block that may run is a segment of its own.
    Text(String),
    /// A sealed call. Its text has left before, directly unless it stood behind a back-tick run that
    /// was undecided until now.
    Call(SealedCall),
}

/// A block that may run, as far as the grammar says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedCall {
    pub call: XmlToolCall,
    /// The block's bytes in all that this parser was fed.
    pub span: Span,
}

/// One round's parser.
#[derive(Debug)]
pub struct XmlParseState {
    max_block_bytes: u64,
    state: State,
    markdown: Markdown,
    /// Bytes fed so far.
    at: u64,
    /// Nothing but white space has been fed: `<think>` may follow.
    first: bool,
    held: Held,
    /// Where the would-be block begins.
    start: u64,
    /// What was found behind undecided back-tick runs, by position: calls, and blocks that count as errors.
    waiting: Vec<(u64, Option<SealedCall>)>,
    parse_errors: u32,
    examined: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Text,
    /// So many bytes of `<!--` have matched.
    CommentStart(u8),
    /// Behind so many dashes (two at most are counted).
    Comment(u8),
    /// So many bytes of `<think>` or `</think>` have matched.
    ThinkStart(u8),
    Think(u8),
    /// Held: may become an opening tag.
    Opener(Opener),
    /// Held: a block whose tag takes so many bytes.
    Block {
        tag: u64,
        body: Body,
    },
    /// A block that can never run: shown as it comes, and nothing inside it counts.
    Dead(Body),
}

const COMMENT: &[u8] = b"<!--";
const THINK: &[u8] = b"<think>";
const THINK_END: &[u8] = b"</think>";
const BOM: char = '\u{feff}';

impl XmlParseState {
    /// `max_block_bytes`: a longer block is shown and not run.
    pub fn new(max_block_bytes: usize) -> Self {
        Self {
            max_block_bytes: max_block_bytes as u64,
            state: State::Text,
            markdown: Markdown::start(),
            at: 0,
            first: true,
            held: Held::new(max_block_bytes as u64),
            start: 0,
            waiting: Vec::new(),
            parse_errors: 0,
            examined: 0,
        }
    }

    /// Blocks so far that were closed or cut off without ever being able to run: without a proper
    /// name, with another opener in a plain body, or too long.
    pub fn parse_errors(&self) -> u32 {
        self.parse_errors
    }

    /// Looks at bytes so far; a byte looked at twice counts twice.
    pub fn examined(&self) -> u64 {
        self.examined
    }

    /// Bytes of text kept for later.
    pub fn retained(&self) -> usize {
        let call = |c: &SealedCall| (c.span.end - c.span.start) as usize;
        self.held.len() + self.waiting.iter().filter_map(|(_, c)| c.as_ref().map(call)).sum::<usize>()
    }

    /// Takes the next piece of the model's text; pushes what can be said of it.
    pub fn feed(&mut self, chunk: &str, out: &mut Vec<Segment>) {
        let mut feed = Feed::new(chunk, self.at, out);
        while feed.i < chunk.len() {
            self.advance(&mut feed);
        }
        self.at = feed.base + chunk.len() as u64;
        if self.holding() {
            self.held.release(&mut feed, self.start);
            self.held.keep(&feed);
        } else {
            self.held.release(&mut feed, self.at);
        }
    }

    /// The model's text ended: what is held leaves as text, and what waited is decided.
    pub fn flush(&mut self, out: &mut Vec<Segment>) {
        let mut feed = Feed::new("", self.at, out);
        if self.waits_inside() {
            let effect = self.markdown.inner(b'\n');
            self.apply(&mut feed, effect);
        }
        if matches!(self.state, State::Text | State::CommentStart(_)) {
            let effect = self.markdown.text(b'\n', self.at);
            self.apply(&mut feed, effect);
        }
        self.markdown.ticks.settle();
        self.apply(&mut feed, Effect::Settled);
        self.state = State::Text;
        self.held.release(&mut feed, self.at);
        self.markdown = Markdown::start();
        self.first = true;
    }

    /// One look: over a stretch where nothing can happen, or at one byte.
    fn advance(&mut self, feed: &mut Feed<'_>) {
        let at = feed.at();
        let mut end = feed.chunk.len();
        if let Some(expiry) = self.markdown.ticks.expiry() {
            if at < expiry {
                end = end.min(feed.i + (expiry - at) as usize);
            } else if feed.chunk.is_char_boundary(feed.i) {
                self.markdown.ticks.expire(at);
                return self.apply(feed, Effect::Settled);
            }
        }
        if let State::Block { body, .. } = self.state {
            let room = (self.start + self.max_block_bytes).saturating_sub(at);
            if room == 0 {
                return self.fail(State::Dead(body));
            }
            end = end.min(feed.i + room as usize);
        }
        let skipped = self.skip(feed, end);
        self.examined += (skipped as u64).max(1);
        if skipped > 0 {
            feed.i += skipped;
            return;
        }
        let b = feed.chunk.as_bytes()[feed.i];
        self.step(feed, b, at);
    }

    /// How many bytes from `feed.i` on, up to `end`, change nothing.
    fn skip(&mut self, feed: &mut Feed<'_>, end: usize) -> usize {
        let bytes = feed.chunk.as_bytes();
        match self.state {
            State::Text => {
                let cr = feed.next_cr(&mut self.examined).min(end);
                self.markdown.skip(&bytes[feed.i..cr])
            }
            State::Block { body, .. } | State::Dead(body) if !self.markdown.ticks.undecided() => {
                body.skip(&bytes[feed.i..end])
            }
            State::Comment(0) if !self.markdown.ticks.undecided() => find(b'-', &bytes[feed.i..end]),
            State::Think(0) => find(b'<', &bytes[feed.i..end]),
            _ => 0,
        }
    }

    /// Consumes the byte at `feed.i`.
    fn step(&mut self, feed: &mut Feed<'_>, b: u8, at: u64) {
        if self.waits_inside() {
            let effect = self.markdown.inner(b);
            self.apply(feed, effect);
        }
        match self.state {
            State::Text => return self.text(feed, b, at),
            State::CommentStart(n) if COMMENT.get(usize::from(n)) == Some(&b) => {
                self.state = if usize::from(n) + 1 == COMMENT.len() {
                    self.markdown.enter();
                    State::Comment(0)
                } else {
                    State::CommentStart(n + 1)
                };
            }
            State::ThinkStart(n) if THINK.get(usize::from(n)) == Some(&b) => {
                let whole = usize::from(n) + 1 == THINK.len();
                self.state = if whole { State::Think(0) } else { State::ThinkStart(n + 1) };
            }
            State::CommentStart(_) | State::ThinkStart(_) => {
                self.state = State::Text;
                return self.text(feed, b, at);
            }
            State::Comment(2) if b == b'>' => self.close_region(false),
            State::Comment(n) => self.state = State::Comment(if b == b'-' { 2.min(n + 1) } else { 0 }),
            State::Think(n) if THINK_END.get(usize::from(n)) == Some(&b) => {
                if usize::from(n) + 1 == THINK_END.len() {
                    self.close_region(true);
                } else {
                    self.state = State::Think(n + 1);
                }
            }
            State::Think(_) => self.state = State::Think(u8::from(b == b'<')),
            State::Opener(opener) => return self.opener(feed, opener, b, at),
            State::Block { tag, mut body } => {
                let found = body.step(b, at - self.start);
                self.state = State::Block { tag, body };
                feed.i += 1;
                return match found {
                    Found::Nothing => {}
                    Found::Closer => self.seal(feed, tag, body.end()),
                    Found::Opener => self.fail(State::Dead(body)),
                };
            }
            State::Dead(mut body) => match body.step(b, at - self.start) {
                Found::Closer => self.close_region(false),
                Found::Nothing | Found::Opener => self.state = State::Dead(body),
            },
        }
        feed.i += 1;
    }

    fn text(&mut self, feed: &mut Feed<'_>, b: u8, at: u64) {
        let mut first = false;
        if self.first {
            if feed.chunk[feed.i..].starts_with(BOM) {
                feed.i += BOM.len_utf8();
                return;
            }
            self.first = is_space(b);
            first = !self.first;
        }
        let effect = self.markdown.text(b, at);
        self.apply(feed, effect);
        feed.i += 1;
        if b == b'<' && self.markdown.at_markup() {
            self.state = State::Opener(Opener::start());
            self.start = at;
            self.first = first;
            self.markdown.enter();
        }
    }

    fn opener(&mut self, feed: &mut Feed<'_>, mut opener: Opener, b: u8, at: u64) {
        match opener.step(b) {
            Verdict::More => self.state = State::Opener(opener),
            Verdict::TooLong => {
                feed.i += 1;
                return self.refute(feed, opener);
            }
            Verdict::Refuted => {
                let first = std::mem::take(&mut self.first);
                self.refute(feed, opener);
                self.state = match (opener.word(), b) {
                    (Some(1), b'!') => State::CommentStart(2),
                    (Some(2), b'h') if first => State::ThinkStart(3),
                    _ => return self.text(feed, b, at),
                };
            }
            Verdict::Complete { self_closing } => {
                feed.i += 1;
                let tag = feed.at() - self.start;
                self.first = false;
                let text = self.held.candidate(feed, self.start);
                let read = str::from_utf8(&text).is_ok_and(|text| xml_block::read_tag(text).is_ok());
                let well_formed = read && tag <= self.max_block_bytes;
                self.examined += tag;
                self.state = State::Block { tag, body: Body::start() };
                return match (well_formed, self_closing) {
                    (true, true) => self.seal(feed, tag, tag),
                    (true, false) => {}
                    (false, true) => self.fail(State::Text),
                    (false, false) => self.fail(State::Dead(Body::start())),
                };
            }
        }
        feed.i += 1;
    }

    /// The would-be opener is text: what it may mean as Markdown is read again, without its `<`.
    fn refute(&mut self, feed: &mut Feed<'_>, opener: Opener) {
        self.first = false;
        self.markdown.enter();
        if opener.word().is_none() {
            let text = self.held.candidate(feed, self.start);
            self.examined += text.len() as u64;
            for (at, b) in (self.start..).zip(text).skip(1) {
                let effect = self.markdown.text(b, at);
                self.apply(feed, effect);
                // Whatever was found, the text is still held from its start.
                self.state = State::Opener(opener);
            }
        }
        self.state = State::Text;
    }

    /// The block ends at `feed.i`; its body lies from `tag` to `body_end`.
    fn seal(&mut self, feed: &mut Feed<'_>, tag: u64, body_end: u64) {
        self.held.release(feed, self.start);
        let end = feed.at();
        let raw = self.held.take(feed, end);
        self.close_region(false);
        match xml_block::read(&raw, tag as usize, tag as usize..body_end as usize) {
            Ok(call) => {
                self.examined += tag;
                feed.out.push(Segment::Text(raw));
                self.waiting.push((self.start, Some(SealedCall { call, span: Span { start: self.start, end } })));
                self.apply(feed, Effect::Settled);
            }
            Err(_) => {
                feed.out.push(Segment::Text(raw));
                self.fail(State::Text);
            }
        }
    }

    /// The block will never run.
    fn fail(&mut self, next: State) {
        self.state = next;
        if self.markdown.ticks.undecided() {
            self.waiting.push((self.start, None));
        } else {
            self.parse_errors += 1;
        }
    }

    /// A block, comment or think block ended.
    fn close_region(&mut self, fresh_line: bool) {
        self.state = State::Text;
        self.markdown.leave(fresh_line);
    }

    fn holding(&self) -> bool {
        matches!(self.state, State::Opener(_) | State::Block { .. })
    }

    /// Whether the block or comment being read may turn out to stand inside a code span.
    fn waits_inside(&self) -> bool {
        let inside = matches!(self.state, State::Comment(_) | State::Opener(_) | State::Block { .. } | State::Dead(_));
        inside && self.markdown.ticks.undecided()
    }

    /// Draws the conclusions: what stands in code is forgotten, what no longer waits leaves.
    fn apply(&mut self, feed: &mut Feed<'_>, effect: Effect) {
        match effect {
            Effect::None => return,
            Effect::Settled => {}
            Effect::Code(from) => {
                self.waiting.retain(|(start, _)| *start < from);
                self.state = State::Text;
            }
        }
        let bound = self.markdown.ticks.first().unwrap_or(u64::MAX);
        let ready = self.waiting.iter().take_while(|(start, _)| *start < bound).count();
        if ready == 0 {
            return;
        }
        let until = if self.holding() { self.start } else { feed.at() };
        self.held.release(feed, until);
        for (_, call) in self.waiting.drain(..ready) {
            match call {
                Some(call) => feed.out.push(Segment::Call(call)),
                None => self.parse_errors += 1,
            }
        }
    }
}
