//! How many tokens a slice has, without running the tokenizer on each candidate: the text's words are counted
//! once, common words are remembered, and a slice is a difference of sums.
//!
//! For tokenizers that split at white space and punctuation (BERT's) the sums are exact. For all others, and where
//! an overlong word was cut, they are an estimate, and `Measure::tokens` asks the tokenizer itself.

use super::{ChunkError, ChunkText};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use tokenizers::{NormalizerWrapper, PostProcessor, PreTokenizerWrapper, Tokenizer};
use unicode_normalization::char::is_combining_mark;

/// Words remembered; then the memory starts anew.
const MOST_WORDS: usize = 100_000;
/// A word of more characters is cut into pieces of [`CUT`]: the tokenizer may make one unknown token of it, but many
/// of a part of it.
const LONG: usize = 64;
const CUT: usize = 32;
/// However few its tokens, a chunk has at most this many bytes for each.
const BYTES_A_TOKEN: usize = 64;

/// Where words end for sure, whatever is around them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// White space, ASCII punctuation, Chinese characters.
    Bert { chinese: bool },
    /// White space, probably.
    Words,
}

/// Counts words with one tokenizer and remembers them.
pub(super) struct Counter {
    tokenizer: Arc<Tokenizer>,
    rule: Rule,
    special: usize,
    words: HashMap<Box<str>, u32>,
}

impl Counter {
    pub fn new(tokenizer: Arc<Tokenizer>) -> Self {
        let bert = matches!(tokenizer.get_pre_tokenizer(), Some(PreTokenizerWrapper::BertPreTokenizer(_)));
        let rule = match tokenizer.get_normalizer() {
            Some(NormalizerWrapper::BertNormalizer(normalizer)) if bert => {
                Rule::Bert { chinese: normalizer.handle_chinese_chars }
            }
            None if bert => Rule::Bert { chinese: false },
            _ => Rule::Words,
        };
        let special = tokenizer.get_post_processor().map_or(0, |processor| processor.added_tokens(false));
        Self { tokenizer, rule, special, words: HashMap::new() }
    }

    /// Tokens that the model puts around a text.
    pub fn special_tokens(&self) -> usize {
        self.special
    }

    fn word(&mut self, word: &str) -> Result<u32, ChunkError> {
        if let Some(count) = self.words.get(word) {
            return Ok(*count);
        }
        let encoding = match self.rule {
            Rule::Bert { .. } => self.tokenizer.encode_fast(word, false),
            // Inside a text a blank is before it, and belongs to its first token.
            Rule::Words => self.tokenizer.encode_fast(format!(" {word}"), false),
        };
        let count = u32::try_from(encoding.map_err(|e| ChunkError(e.to_string()))?.len()).unwrap_or(u32::MAX);
        if self.words.len() >= MOST_WORDS {
            self.words.clear();
        }
        self.words.insert(word.into(), count);
        Ok(count)
    }
}

/// A word or a part of one.
#[derive(Clone, Copy, Debug)]
struct Atom {
    start: usize,
    end: usize,
    /// Sums of those before: tokens, what they cost a chunk, parts of cut words.
    tokens: u32,
    cost: u32,
    parts: u32,
    is_part: bool,
}

/// The counted words of one piece of a document.
pub(super) struct Measure<'t, 'c> {
    text: &'t str,
    /// Atoms in order; the last one is empty and holds the totals.
    atoms: Vec<Atom>,
    counter: RefCell<&'c mut Counter>,
    /// The first failure inside a callback that cannot return one.
    failed: Cell<Option<ChunkError>>,
    pub piece: Range<usize>,
}

impl<'t, 'c> Measure<'t, 'c> {
    /// Counts the words of `text[piece]`.
    pub fn new(text: &'t str, piece: Range<usize>, counter: &'c mut Counter) -> Result<Self, ChunkError> {
        let mut atoms = Vec::new();
        let mut sum = Atom { start: piece.start, end: piece.start, tokens: 0, cost: 0, parts: 0, is_part: false };
        for (range, is_part) in split(text.get(piece.clone()).unwrap_or_default(), counter.rule) {
            let (start, end) = (piece.start + range.start, piece.start + range.end);
            let (tokens, cost) = weigh(text.get(start..end).unwrap_or_default(), is_part, counter)?;
            atoms.push(Atom { start, end, is_part, ..sum });
            sum.tokens += tokens;
            sum.cost += cost;
            sum.parts += u32::from(is_part);
        }
        atoms.push(Atom { start: piece.end, end: piece.end, ..sum });
        Ok(Self { text, atoms, counter: RefCell::new(counter), failed: Cell::new(None), piece })
    }

    /// What a slice of the piece costs a chunk: its tokens, or more where few tokens stand for many bytes.
    pub fn cost(&self, range: &Range<usize>) -> usize {
        self.weigh_slice(range).cost.max(range.len() / BYTES_A_TOKEN)
    }

    /// Where a slice of the document begins in it.
    pub fn offset_of(&self, slice: &str) -> usize {
        (slice.as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize).min(self.text.len())
    }

    /// What a short text costs that is not in the document.
    pub fn count(&self, text: &str) -> Weight {
        let rule = self.counter.borrow().rule;
        let mut sum = Weight { tokens: 0, cost: 0, exact: rule != Rule::Words };
        for (range, is_part) in split(text, rule) {
            sum.add(self.weigh_atom(text.get(range).unwrap_or_default(), is_part));
        }
        sum
    }

    /// Tokens of what is embedded of a chunk, special tokens included: `range` of the document with `around` it.
    pub fn tokens(&self, range: &Range<usize>, around: Weight, chunk: &ChunkText<'_>) -> Result<usize, ChunkError> {
        let mut sum = self.weigh_slice(range);
        sum.add(around);
        if sum.exact { Ok(sum.tokens + self.counter.borrow().special) } else { self.whole(chunk) }
    }

    /// The same as the tokenizer itself says.
    pub fn whole(&self, chunk: &ChunkText<'_>) -> Result<usize, ChunkError> {
        let counter = self.counter.borrow();
        counter.tokenizer.encode_fast(chunk.embed_text(), true).map(|e| e.len()).map_err(|e| ChunkError(e.to_string()))
    }

    pub fn check(&self) -> Result<(), ChunkError> {
        self.failed.take().map_or(Ok(()), Err)
    }

    fn weigh_slice(&self, range: &Range<usize>) -> Weight {
        let first = self.atoms.partition_point(|atom| atom.end <= range.start);
        let last = self.atoms.partition_point(|atom| atom.start < range.end);
        let mut sum = Weight { tokens: 0, cost: 0, exact: self.counter.borrow().rule != Rule::Words };
        // Words that are cut by the slice's ends are counted as the model will see them.
        let (mut whole_from, mut whole_to) = (first, last);
        if let Some(atom) = self.atoms.get(first)
            && first < last
            && (atom.start < range.start || atom.end > range.end)
        {
            sum.add(self.weigh_part(atom, range));
            whole_from += 1;
        }
        if let Some(atom) = last.checked_sub(1).and_then(|at| self.atoms.get(at))
            && whole_from < last
            && atom.end > range.end
        {
            sum.add(self.weigh_part(atom, range));
            whole_to -= 1;
        }
        if let (Some(from), Some(to)) = (self.atoms.get(whole_from), self.atoms.get(whole_to))
            && whole_from < whole_to
        {
            let of = |difference: u32| difference as usize;
            let is_word = to.parts == from.parts;
            sum.add(Weight { tokens: of(to.tokens - from.tokens), cost: of(to.cost - from.cost), exact: is_word });
        }
        sum
    }

    fn weigh_part(&self, atom: &Atom, range: &Range<usize>) -> Weight {
        let part = atom.start.max(range.start)..atom.end.min(range.end);
        let mut weight = self.weigh_atom(self.text.get(part).unwrap_or_default(), atom.is_part);
        weight.exact &= !atom.is_part;
        weight
    }

    fn weigh_atom(&self, atom: &str, is_part: bool) -> Weight {
        match weigh(atom, is_part, &mut self.counter.borrow_mut()) {
            Ok((tokens, cost)) => Weight { tokens: tokens as usize, cost: cost as usize, exact: !is_part },
            Err(error) => {
                let first = self.failed.take().unwrap_or(error);
                self.failed.set(Some(first));
                Weight { tokens: 0, cost: 0, exact: false }
            }
        }
    }
}

/// Tokens, what they cost a chunk, and whether the tokenizer is known to agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Weight {
    pub tokens: usize,
    pub cost: usize,
    exact: bool,
}

impl Weight {
    pub const NOTHING: Self = Self { tokens: 0, cost: 0, exact: true };

    pub fn add(&mut self, other: Self) {
        self.tokens += other.tokens;
        self.cost += other.cost;
        self.exact &= other.exact;
    }
}

/// Tokens and cost of a word or of a part of a cut one.
fn weigh(atom: &str, is_part: bool, counter: &mut Counter) -> Result<(u32, u32), ChunkError> {
    let tokens = counter.word(atom)?;
    // The tokenizer may see the cut word as one unknown token, or as many: a token for four letters is usual.
    let letters = if is_part { atom.chars().filter(|c| !is_mark(*c)).count() / 4 } else { 0 };
    Ok((tokens, tokens.max(u32::try_from(letters).unwrap_or(u32::MAX))))
}

/// Characters that extend the one before them.
pub(super) fn is_mark(c: char) -> bool {
    is_combining_mark(c) || matches!(c, '\u{200C}' | '\u{200D}' | '\u{FE00}'..='\u{FE0F}' | '\u{E0100}'..='\u{E01EF}')
}

/// The words of a text, and whether they are parts of a cut one.
fn split(text: &str, rule: Rule) -> impl Iterator<Item = (Range<usize>, bool)> {
    let mut rest = 0;
    let mut cut_until = 0;
    std::iter::from_fn(move || {
        let blank = text.get(rest..)?.chars().take_while(|c| is_blank(*c)).map(char::len_utf8).sum::<usize>();
        let start = rest + blank;
        let word = text.get(start..)?;
        let first = word.chars().next()?;
        if is_alone(first, rule) {
            rest = start + first.len_utf8();
            return Some((start..rest, false));
        }
        let mut chars = word.char_indices().take_while(|(_, c)| !is_blank(*c) && !is_alone(*c, rule));
        let is_part = if start < cut_until {
            true
        } else {
            let mut length = 0;
            let mut count = 0;
            for (at, c) in chars.by_ref() {
                length = at + c.len_utf8();
                count += 1;
            }
            if count > LONG {
                cut_until = start + length;
            }
            rest = start + length;
            count > LONG
        };
        if is_part {
            let part = word.char_indices().nth(CUT).map_or(word.len(), |(at, _)| at);
            rest = (start + part).min(cut_until);
        }
        Some((start..rest, is_part))
    })
}

/// White space that survives a tokenizer's cleaning; other control characters vanish there and join what is
/// beside them.
fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r') || (c.is_whitespace() && !c.is_control())
}

/// Characters that are a word of their own.
fn is_alone(c: char, rule: Rule) -> bool {
    let Rule::Bert { chinese } = rule else { return false };
    c.is_ascii_punctuation()
        || (chinese
            && matches!(c, '\u{4E00}'..='\u{9FFF}' | '\u{3400}'..='\u{4DBF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{2A6DF}'))
}
