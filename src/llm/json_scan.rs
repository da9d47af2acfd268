//! Follows JSON text that arrives in pieces and says when its first object or array has closed.
//! Each byte is looked at once; nothing is kept. It does not validate: the parser does, once, later.

/// Where the text stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scan {
    /// Only white space so far.
    #[default]
    Empty,
    /// Inside the value.
    Open,
    /// The value has closed; only white space followed.
    Closed,
    /// It does not start like an object or array, or something follows the closed value.
    Broken,
}

#[derive(Clone, Debug, Default)]
pub struct JsonScan {
    state: Scan,
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl JsonScan {
    pub fn state(&self) -> Scan {
        self.state
    }

    /// Takes the next piece; pieces may be cut anywhere.
    pub fn feed(&mut self, piece: &str) -> Scan {
        for byte in piece.bytes() {
            self.byte(byte);
        }
        self.state
    }

    fn byte(&mut self, byte: u8) {
        match (self.state, byte) {
            (Scan::Empty | Scan::Closed, b' ' | b'\t' | b'\n' | b'\r') | (Scan::Broken, _) => {}
            (Scan::Empty, b'{' | b'[') => (self.state, self.depth) = (Scan::Open, 1),
            (Scan::Empty | Scan::Closed, _) => self.state = Scan::Broken,
            (Scan::Open, _) if self.escaped => self.escaped = false,
            (Scan::Open, b'\\') if self.in_string => self.escaped = true,
            (Scan::Open, b'"') => self.in_string = !self.in_string,
            (Scan::Open, b'{' | b'[') if !self.in_string => self.depth += 1,
            (Scan::Open, b'}' | b']') if !self.in_string => {
                self.depth -= 1;
                if self.depth == 0 {
                    self.state = Scan::Closed;
                }
            }
            (Scan::Open, _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_the_same_however_the_text_is_cut() {
        for (text, want) in [
            ("", Scan::Empty),
            (" \n", Scan::Empty),
            ("{\"a\":\"}\"", Scan::Open),
            ("{\"a\":\"}\\\"\\\\\"}", Scan::Closed),
            (" [1,{\"b\":[]}] ", Scan::Closed),
            ("{}{}", Scan::Broken),
            ("{} x", Scan::Broken),
            ("null", Scan::Broken),
            ("\"{}\"", Scan::Broken),
            ("}", Scan::Broken),
        ] {
            for cut in 0..=text.len() {
                let mut scan = JsonScan::default();
                scan.feed(&text[..cut]);
                assert_eq!(scan.feed(&text[cut..]), want, "{text:?} cut at {cut}");
            }
        }
    }
}
