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
mod region;
#[cfg(test)]
mod tests;
mod ticks;

use crate::engine::event::Span;
use crate::engine::xml_block::{self, OpenTag, XmlToolCall};
use body::{Body, Found};
use feed::{Feed, Held};
use markdown::{Effect, Markdown};
use opener::{Opener, Verdict, is_space};
use region::{Passed, Region};

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
    /// What the tag of the block being read says.
    open: Option<OpenTag>,
    /// What was found behind undecided back-tick runs, by position: calls, and blocks that count as errors.
    waiting: Vec<(u64, Option<SealedCall>)>,
    parse_errors: u32,
    examined: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Text,
    /// A comment or thinking, or what may become that.
    Region(Region),
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
            open: None,
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
        if self.state == State::Text && self.markdown.is_plain(chunk) {
            // Most pieces by far: nothing in them can matter.
            self.at += chunk.len() as u64;
            self.examined += chunk.len() as u64;
            return out.push(Segment::Text(chunk.to_owned()));
        }
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
        if self.state == State::Text {
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

    /// One look: over a stretch where nothing is decided, or at one byte.
    fn advance(&mut self, feed: &mut Feed<'_>) {
        let mut end = feed.chunk.len();
        if let Some(expiry) = self.markdown.ticks.expiry() {
            let at = feed.at();
            if at >= expiry && feed.chunk.is_char_boundary(feed.i) {
                self.markdown.ticks.expire(at);
                return self.apply(feed, Effect::Settled);
            }
            if self.waits_inside() {
                let effect = self.markdown.inner(feed.byte());
                self.apply(feed, effect);
                end = feed.i + 1;
            } else if at < expiry {
                end = end.min(feed.i + (expiry - at) as usize);
            }
        }
        match self.state {
            State::Text => self.text(feed, end),
            State::Opener(opener) => self.opener(feed, opener, end),
            State::Block { tag, body } => self.block(feed, tag, body, end),
            State::Dead(mut body) => {
                let (looks, found) = body.run(feed.rest(end), feed.at() - self.start);
                self.look(feed, looks);
                match found {
                    Found::Closer => self.close(false),
                    Found::Nothing | Found::Opener => self.state = State::Dead(body),
                }
            }
            State::Region(mut region) => {
                let (looks, passed) = region.run(feed.rest(end));
                self.look(feed, looks);
                match passed {
                    Passed::Inside => self.state = State::Region(region),
                    Passed::NoMark => self.state = State::Text,
                    // What follows a model's thinking is read as if it began there.
                    Passed::Out { thinking } => self.close(thinking),
                }
            }
        }
    }

    fn look(&mut self, feed: &mut Feed<'_>, bytes: usize) {
        feed.i += bytes;
        self.examined += bytes as u64;
    }

    fn text(&mut self, feed: &mut Feed<'_>, end: usize) {
        let line = feed.next_cr(&mut self.examined).min(end);
        let passed = self.markdown.skip(feed.rest(line));
        self.look(feed, passed);
        if feed.i == end {
            return;
        }
        let b = feed.byte();
        let mut first = false;
        if self.first {
            if feed.chunk[feed.i..].starts_with(BOM) {
                return self.look(feed, BOM.len_utf8());
            }
            self.first = is_space(b);
            first = !self.first;
        }
        let at = feed.at();
        let effect = self.markdown.text(b, at);
        self.apply(feed, effect);
        self.look(feed, 1);
        if b == b'<' && self.markdown.at_markup() {
            self.state = State::Opener(Opener::start());
            self.start = at;
            self.first = first;
            self.markdown.enter();
        }
    }

    fn opener(&mut self, feed: &mut Feed<'_>, mut opener: Opener, end: usize) {
        let (looks, verdict) = opener.run(feed.rest(end));
        self.look(feed, looks);
        match verdict {
            Verdict::More => self.state = State::Opener(opener),
            Verdict::TooLong => self.refute(feed, opener),
            Verdict::Refuted => {
                let first = std::mem::take(&mut self.first);
                self.refute(feed, opener);
                // Other markup shares its first bytes with `<tool`.
                match (opener.word(), feed.byte()) {
                    (Some(1), b'!') => self.state = State::Region(Region::CommentStart(1)),
                    (Some(2), b'h') if first => self.state = State::Region(Region::ThinkStart(2)),
                    _ => {}
                }
            }
            Verdict::Complete { self_closing } => {
                let tag = feed.at() - self.start;
                self.examined += tag;
                self.first = false;
                let (held, fed) = self.held.candidate(feed, self.start);
                let text = [held, fed].concat();
                self.open = str::from_utf8(&text).ok().and_then(|text| xml_block::read_tag(text).ok());
                let may_run = self.open.is_some() && tag <= self.max_block_bytes;
                match (may_run, self_closing) {
                    (true, true) => self.seal(feed, tag, tag),
                    (true, false) => self.state = State::Block { tag, body: Body::start() },
                    (false, true) => self.fail(State::Text),
                    (false, false) => self.fail(State::Dead(Body::start())),
                }
            }
        }
    }

    fn block(&mut self, feed: &mut Feed<'_>, tag: u64, mut body: Body, end: usize) {
        let at = feed.at();
        let room = (self.start + self.max_block_bytes).saturating_sub(at) as usize;
        if room == 0 {
            return self.fail(State::Dead(body));
        }
        let (looks, found) = body.run(feed.rest(end.min(feed.i.saturating_add(room))), at - self.start);
        self.look(feed, looks);
        match found {
            Found::Nothing => self.state = State::Block { tag, body },
            Found::Closer => self.seal(feed, tag, body.end()),
            Found::Opener => self.fail(State::Dead(body)),
        }
    }

    /// The would-be opener is text: what it may mean as Markdown is read again, without its `<`.
    fn refute(&mut self, feed: &mut Feed<'_>, opener: Opener) {
        self.first = false;
        self.markdown.enter();
        if opener.word().is_none() {
            let (held, fed) = self.held.candidate(feed, self.start);
            self.examined += (held.len() + fed.len()) as u64;
            if held.iter().chain(fed).any(|b| matches!(b, b'`' | b'\\' | b'\n' | b'\r')) {
                for (at, b) in (self.start..).zip([held, fed].concat()).skip(1) {
                    let effect = self.markdown.text(b, at);
                    self.apply(feed, effect);
                    // Whatever was found, the text is still held from its start.
                    self.state = State::Opener(opener);
                }
            }
        }
        self.state = State::Text;
    }

    /// The block ends at `feed.i`; its body lies from `tag` to `body_end`.
    fn seal(&mut self, feed: &mut Feed<'_>, tag: u64, body_end: u64) {
        self.held.release(feed, self.start);
        let end = feed.at();
        let raw = self.held.take(feed, end);
        self.close(false);
        let body = raw[tag as usize..body_end as usize].to_owned();
        feed.out.push(Segment::Text(raw));
        if let Some(OpenTag { name, attrs }) = self.open.take() {
            let sealed = SealedCall { call: XmlToolCall { name, attrs, body }, span: Span { start: self.start, end } };
            self.waiting.push((self.start, Some(sealed)));
            self.apply(feed, Effect::Settled);
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
    fn close(&mut self, fresh_line: bool) {
        self.state = State::Text;
        self.markdown.leave(fresh_line);
    }

    fn holding(&self) -> bool {
        matches!(self.state, State::Opener(_) | State::Block { .. })
    }

    /// Whether the block or comment being read may turn out to stand inside a code span.
    fn waits_inside(&self) -> bool {
        self.state != State::Text && self.markdown.ticks.undecided()
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
