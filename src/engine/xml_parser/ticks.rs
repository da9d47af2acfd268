//! Back-tick runs that may yet open a code span.
//!
//! A run is settled by the next run of the same length (a span: nothing between them runs), else by
//! the end of its paragraph, 64 KiB or the end of the text (literal). Until then what lies behind it
//! is read as if it were literal, and calls found there wait. Invariant: `open` holds the undecided
//! runs in text order, no two of one length; the outermost match wins, as in CommonMark.

/// An undecided run is literal after so many bytes.
pub(super) const RUN_LIMIT: u64 = 64 * 1024;

#[derive(Debug, Default)]
pub(super) struct Ticks {
    open: Vec<Run>,
    /// The run being counted in text.
    pending: Option<Pending>,
    /// Length of the run being counted inside a block or comment that may itself stand in a span.
    inner: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) len: u32,
    pub(super) start: u64,
    /// Stands where a fence may open: it is one unless another run follows on its line.
    fence: bool,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    len: u32,
    start: u64,
    /// A backslash takes the first back-tick out of an opening run, though not out of a closing one.
    escaped: bool,
    leads_line: bool,
}

impl Ticks {
    pub(super) fn undecided(&self) -> bool {
        !self.open.is_empty()
    }

    /// Where the outermost undecided run begins: calls behind it wait.
    pub(super) fn first(&self) -> Option<u64> {
        self.open.first().map(|run| run.start)
    }

    /// Where the outermost undecided run becomes literal.
    pub(super) fn expiry(&self) -> Option<u64> {
        self.first().map(|start| start + RUN_LIMIT)
    }

    pub(super) fn expire(&mut self, at: u64) {
        self.open.retain(|run| run.start + RUN_LIMIT > at);
    }

    /// All undecided runs are literal.
    pub(super) fn settle(&mut self) {
        self.open.clear();
    }

    pub(super) fn counting(&self) -> bool {
        self.pending.is_some()
    }

    /// One back-tick of text.
    pub(super) fn tick(&mut self, at: u64, escaped: bool, leads_line: bool) {
        match &mut self.pending {
            Some(run) => run.len += 1,
            None => self.pending = Some(Pending { len: 1, start: at, escaped, leads_line }),
        }
    }

    /// The length of the run being counted if it stands where a fence may open.
    pub(super) fn leading(&self) -> Option<u32> {
        self.pending.filter(|run| run.leads_line).map(|run| run.len)
    }

    pub(super) fn forget_pending(&mut self) {
        self.pending = None;
    }

    /// The run being counted ended before `next`. Where the span that it closes began.
    pub(super) fn end(&mut self, next: u8) -> Option<u64> {
        let run = self.pending.take()?;
        let twin = self.deny_fence();
        // "```xml" opens a fence even if a run of three is undecided; a bare "```" closes that run.
        let opens = run.leads_line && run.len >= 3;
        let tagged = opens && (next.is_ascii_alphanumeric() || matches!(next, b'{' | b'.'));
        if !tagged && let Some(start) = self.close(run.len) {
            return Some(start);
        }
        let (len, start) = if run.escaped { (run.len - 1, run.start + 1) } else { (run.len, run.start) };
        if opens || (len > 0 && self.open.iter().all(|known| known.len != len)) {
            self.open.push(Run { len, start, fence: opens });
        }
        twin
    }

    /// The line ended: the fence that opened on it, if one did. The runs before it are literal.
    pub(super) fn fence(&mut self) -> Option<Run> {
        let run = self.open.last().copied().filter(|run| run.fence)?;
        self.open.clear();
        Some(run)
    }

    pub(super) fn may_be_fence(&self) -> bool {
        self.open.last().is_some_and(|run| run.fence)
    }

    /// One back-tick inside a block or comment.
    pub(super) fn inner_tick(&mut self) {
        self.inner += 1;
    }

    /// A run inside a block or comment ended (or there was none). Where the span began that it closes.
    pub(super) fn end_inner(&mut self) -> Option<u64> {
        let len = std::mem::take(&mut self.inner);
        if len == 0 {
            return None;
        }
        let twin = self.deny_fence();
        self.close(len).or(twin)
    }

    pub(super) fn forget_inner(&mut self) {
        self.inner = 0;
    }

    /// Another run on its line makes a would-be fence an ordinary run, which then may have closed a
    /// span when it came.
    fn deny_fence(&mut self) -> Option<u64> {
        let last = self.open.last_mut().filter(|run| run.fence)?;
        last.fence = false;
        let len = last.len;
        let twin = self.open.iter().position(|run| run.len == len)?;
        if twin + 1 == self.open.len() {
            return None;
        }
        let start = self.open.get(twin).map(|run| run.start);
        self.open.truncate(twin);
        start
    }

    fn close(&mut self, len: u32) -> Option<u64> {
        let at = self.open.iter().position(|run| run.len == len)?;
        let start = self.open.get(at).map(|run| run.start);
        self.open.truncate(at);
        start
    }
}
