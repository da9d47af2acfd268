//! What commands print: sentences for people, one JSON value a line with `--json`, a progress bar only
//! where somebody watches. Results go to stdout, everything else to stderr.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

/// Why a result could not be written, if one could not: the first time.
static LOST: OnceLock<String> = OnceLock::new();

#[derive(Clone, Copy, Debug)]
pub struct Output {
    json: bool,
}

impl Output {
    pub fn new(json: bool) -> Self {
        Self { json }
    }

    pub fn json(&self) -> bool {
        self.json
    }

    /// A result: `value` with `--json`, else `text`. A closed pipe ends the output, not the command.
    pub fn result(&self, value: &Value, text: &str) {
        let mut out = io::stdout().lock();
        let written = if self.json { writeln!(out, "{value}") } else { writeln!(out, "{text}") };
        note_lost(written.and_then(|()| out.flush()));
    }

    /// A piece of a result that is not a whole line.
    pub fn piece(&self, text: &str) {
        let mut out = io::stdout().lock();
        note_lost(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
    }

    /// Why not all results have been written, if they have not.
    pub fn lost() -> Option<&'static str> {
        LOST.get().map(String::as_str)
    }

    /// A word by the way, for people only.
    pub fn note(&self, text: &str) {
        if !self.json {
            drop(writeln!(io::stderr().lock(), "{text}"));
        }
    }

    /// Why the command failed.
    pub fn failure(&self, why: &str) {
        if self.json {
            drop(writeln!(io::stdout().lock(), "{}", json!({ "error": why })));
        } else {
            drop(writeln!(io::stderr().lock(), "tailrace: {why}"));
        }
    }

    /// Progress over `total` steps: a bar on a terminal, nothing elsewhere (plain lines come from
    /// [`Output::note`]).
    pub fn bar(&self, total: u64) -> ProgressBar {
        self.watched_bar(total).unwrap_or_else(|| {
            let bar = ProgressBar::new(total);
            bar.set_draw_target(ProgressDrawTarget::hidden());
            bar
        })
    }

    /// The bar, where somebody watches.
    pub fn watched_bar(&self, total: u64) -> Option<ProgressBar> {
        if self.json || !io::stderr().is_terminal() {
            return None;
        }
        let bar = ProgressBar::new(total);
        let style = ProgressStyle::with_template("{bar:30.cyan} {pos}/{len} {eta} {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Some(bar)
    }
}

/// A reader that has read enough is no loss.
fn note_lost(written: io::Result<()>) {
    if let Err(error) = written
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        LOST.get_or_init(|| format!("the result could not be written: {error}"));
    }
}
