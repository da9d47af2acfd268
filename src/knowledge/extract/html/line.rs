//! A line of text that is being collected: white space collapsed as a browser shows it, unless preformatted.

/// The text since the last block.
#[derive(Debug, Default)]
pub(super) struct Line {
    text: String,
    /// Characters of it that are in links.
    link_chars: usize,
    pending_space: bool,
}

impl Line {
    pub fn push(&mut self, text: &str, preformatted: bool, in_link: bool) {
        let before = self.text.len();
        if preformatted {
            self.text.push_str(text);
        } else {
            text.chars().for_each(|c| self.collapse(c));
        }
        if in_link {
            self.link_chars += self.text.get(before..).unwrap_or_default().chars().count();
        }
    }

    fn collapse(&mut self, c: char) {
        match c {
            // Soft hyphens and zero-width spaces say where a line may break; inside a word they hide it from search.
            '\u{AD}' | '\u{200B}' | '\u{2060}' => {}
            _ if c.is_whitespace() => self.pending_space = !self.text.is_empty(),
            _ => {
                if std::mem::take(&mut self.pending_space) && !self.text.ends_with('\n') {
                    self.text.push(' ');
                }
                self.text.push(c);
            }
        }
    }

    /// A `br`.
    pub fn end(&mut self, preformatted: bool) {
        self.pending_space = false;
        if preformatted || !self.text.is_empty() {
            self.text.push('\n');
        }
    }

    /// The text and the characters in links; the line is empty afterwards.
    pub fn take(&mut self) -> (String, usize) {
        let taken = std::mem::take(self);
        (taken.text, taken.link_chars)
    }
}

/// Preformatted text between fences that are longer than any in it.
pub(super) fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat((longest + 1).max(3));
    format!("{fence}\n{text}\n{fence}")
}
