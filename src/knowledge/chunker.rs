//! Text to chunks at structural borders, measured in the embedding model's own tokens. Pure.
//!
//! Invariants: a chunk's text is an exact slice of the document; the slices cover all text but white space, in
//! order; what is embedded of a chunk, special tokens included, never exceeds the model's window; no chunk
//! begins or ends inside a grapheme that fits into the window; the same input gives the same chunks.

mod borders;
mod code;
mod context;
mod measure;
mod outline;
mod prose;

#[cfg(test)]
mod tests;

use super::extract::{Form, Kind};
use context::Context;
use measure::{Counter, Measure, Weight};
use outline::{Outline, Path};
use prose::Sizes;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use tokenizers::Tokenizer;

/// How large chunks are, in tokens without the special ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkOptions {
    /// A chunk's own text.
    pub max_tokens: usize,
    /// What neighbours share, at most.
    pub overlap: usize,
    /// What the model reads, special tokens included.
    pub window: usize,
}

impl ChunkOptions {
    /// 220 tokens with 15 % overlap, or what fits into a smaller window.
    pub fn for_window(window: usize) -> Self {
        let max_tokens = (window - window / 8).clamp(1, 220);
        Self { max_tokens, overlap: max_tokens * 15 / 100, window }
    }
}

/// A piece of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkText<'t> {
    /// From 0, dense.
    pub ordinal: usize,
    /// UTF-8 byte offsets into the document's extracted text.
    pub start: usize,
    pub end: usize,
    /// The exact slice `start..end`.
    pub text: &'t str,
    /// The headings above the text, outermost first; in code, the lines that enclose it.
    pub heading_path: Vec<String>,
    /// The header row of the table in whose middle the chunk begins.
    pub table_header: Option<String>,
    /// First and last line in the file, from 1; code only.
    pub lines: Option<(usize, usize)>,
    /// Tokens of `embed_text`, special tokens included; never fewer than the model counts.
    pub tokens: usize,
    /// What of title and headings goes before the text.
    context: String,
}

impl ChunkText<'_> {
    /// What is embedded and indexed for keywords: title and headings that the text itself lacks, the table's
    /// header row, the text.
    pub fn embed_text(&self) -> String {
        joined(&self.context, self.table_header.as_deref(), self.text)
    }

    /// What a reader is shown: the text, below its table's header where it begins in the middle of one.
    pub fn shown_text(&self) -> Cow<'_, str> {
        let Some(header) = &self.table_header else { return Cow::Borrowed(self.text) };
        let first_line = self.text.lines().next().unwrap_or_default();
        if outline::is_delimiter_row(first_line) {
            return Cow::Owned(format!("{header}\n{}", self.text));
        }
        let columns = outline::columns(header);
        Cow::Owned(format!("{header}\n|{}\n{}", " --- |".repeat(columns), self.text))
    }
}

fn joined(context: &str, table_header: Option<&str>, text: &str) -> String {
    let header = table_header.unwrap_or_default();
    let mut out = String::with_capacity(context.len() + header.len() + text.len() + 3);
    if !context.is_empty() {
        out.push_str(context);
        out.push_str("\n\n");
    }
    if !header.is_empty() {
        out.push_str(header);
        out.push('\n');
    }
    out.push_str(text);
    out
}

/// The tokenizer refused a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the embedding model's tokenizer failed: {0}")]
pub struct ChunkError(pub String);

/// Cuts documents for one embedding model. Share it: it remembers how many tokens common words have.
pub struct Chunker {
    options: ChunkOptions,
    counter: Mutex<Counter>,
}

/// Tokens kept for the context before the text; a larger window allows more, up to this.
const MOST_CONTEXT: usize = 48;

impl Chunker {
    /// `tokenizer` must neither truncate nor pad (as `Embedder::tokenizer` promises).
    pub fn new(tokenizer: Arc<Tokenizer>, options: ChunkOptions) -> Self {
        Self { options, counter: Mutex::new(Counter::new(tokenizer)) }
    }

    /// The chunks of a document; none if it is blank. `title` is put before each chunk that does not say it.
    /// CPU-bound: call it off the runtime.
    pub fn chunk<'t>(&self, text: &'t str, kind: Kind, title: Option<&str>) -> Result<Vec<ChunkText<'t>>, ChunkError> {
        self.chunk_pages(text, kind, title, &[])
    }

    /// The same for a text with pages, each given by where it begins: no chunk reaches over the end of one, so that
    /// the page it names is the page it is on.
    pub fn chunk_pages<'t>(
        &self,
        text: &'t str,
        kind: Kind,
        title: Option<&str>,
        pages: &[usize],
    ) -> Result<Vec<ChunkText<'t>>, ChunkError> {
        let form = kind.form();
        let outline = match form {
            Form::Markdown => Outline::of(text),
            Form::Text | Form::Code => Outline::default(),
        };
        let mut lines = code::Lines::new(text);
        let mut chunks: Vec<ChunkText<'t>> = Vec::new();
        for piece in borders::split_at(text, borders::pieces(text, &outline, form), pages) {
            // The lock is held for one piece, so that a short text waits little for a long one.
            let mut counter = self.counter.lock().unwrap_or_else(PoisonError::into_inner);
            let limits = Limits::new(&self.options, counter.special_tokens());
            let measure = Measure::new(text, piece.range.clone(), &mut counter)?;
            let sizes = Sizes::new(text, &measure, &outline, limits);
            let cuts = match form {
                Form::Markdown if !piece.is_plain => prose::markdown(&sizes, &piece.range),
                Form::Markdown | Form::Text => prose::text(&sizes, &piece.range),
                Form::Code => code::cut(&sizes, &piece.range),
            };
            let cuts = prose::merge_small(prose::mend_ends(cuts, &sizes), &sizes);
            let cuts = borders::mend(text, cuts, &measure, limits.text);
            measure.check()?;
            for range in cuts {
                let path = if form == Form::Code { lines.enclosing(range.start) } else { outline.path(text, &range) };
                for mut chunk in fitted(text, range, title, &path, &sizes)? {
                    chunk.ordinal = chunks.len();
                    chunk.lines = (form == Form::Code).then(|| lines.numbers(chunk.start, chunk.end));
                    chunks.push(chunk);
                }
            }
            measure.check()?;
        }
        Ok(chunks)
    }
}

/// What chunks may cost with one model.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Tokens that the model reads, special ones included, and without them.
    window: usize,
    room: usize,
    /// A chunk's text with its table header.
    text: usize,
    overlap: usize,
    context: usize,
}

impl Limits {
    fn new(options: &ChunkOptions, special: usize) -> Self {
        let room = options.window.saturating_sub(special).max(1);
        let text = options.max_tokens.min(room - room / 8).max(1);
        Self {
            window: options.window,
            room,
            text,
            overlap: options.overlap.min(text / 2),
            context: (room - text).min(MOST_CONTEXT),
        }
    }
}

/// The chunk of `range`, or several where the model would not read it whole: the tokenizer may make more of a text
/// than the sums say, and a single character may be many tokens. Context goes before text does.
fn fitted<'t>(
    text: &'t str,
    range: Range<usize>,
    title: Option<&str>,
    path: &Path,
    sizes: &Sizes<'_, 't, '_>,
) -> Result<Vec<ChunkText<'t>>, ChunkError> {
    let (measure, limits) = (sizes.measure, sizes.limits);
    let mut done = Vec::new();
    let mut todo = vec![range];
    while let Some(range) = todo.pop() {
        let slice = text.get(range.clone()).unwrap_or_default();
        if slice.trim().is_empty() {
            continue;
        }
        let header = sizes.header(range.start);
        // A chunk that begins with its heading has a larger text, and needs the less context.
        let room = limits.room.saturating_sub(sizes.cost(&range)).min(limits.context);
        let (context, mut around) = Context::new(title, path, slice).fitted(room, measure);
        around.add(header.as_ref().map_or(Weight::NOTHING, |(_, weight)| *weight));
        let mut chunk = ChunkText {
            ordinal: 0,
            start: range.start,
            end: range.end,
            text: slice,
            heading_path: path.names.clone(),
            table_header: header.map(|(header, _)| header),
            lines: None,
            tokens: 0,
            context,
        };
        chunk.tokens = measure.tokens(&range, around, &chunk)?;
        if chunk.tokens > limits.window && !chunk.context.is_empty() {
            chunk.context.clear();
            chunk.tokens = measure.whole(&chunk)?;
        }
        match borders::middle(text, &range) {
            Some(middle) if chunk.tokens > limits.window => todo.extend([middle..range.end, range.start..middle]),
            _ => done.push(chunk),
        }
    }
    Ok(done)
}
