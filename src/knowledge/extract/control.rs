//! Cleaning decoded text: line ends become `\n`, terminal escapes and control characters go, and are counted.

/// Blank for the question "is there any text": white space and characters that show nothing.
pub(super) fn is_blank(c: char) -> bool {
    c.is_whitespace()
        || matches!(c, '\u{200B}'..='\u{200F}' | '\u{2060}'..='\u{2064}' | '\u{FEFF}' | '\u{AD}' | '\u{202A}'..='\u{202E}')
        // Empty Braille and the fillers of Hangul and Mongolian.
        || matches!(c, '\u{2800}' | '\u{3164}' | '\u{FFA0}' | '\u{115F}' | '\u{1160}' | '\u{180E}')
}

/// Removes what must reach neither a prompt nor a terminal. Typewriter overstrikes (`a BS a`, `_ BS a`) become
/// the letter they mean; form feeds, vertical tabs and the Unicode line ends become line ends. Adds to `removed` the
/// number of characters that went.
pub(super) fn clean(text: String, removed: &mut usize) -> String {
    if !text.chars().any(is_odd) {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' => {
                chars.next_if_eq(&'\n');
                out.push('\n');
            }
            '\u{0B}' | '\u{0C}' | '\u{85}' | '\u{2028}' | '\u{2029}' => out.push('\n'),
            '\u{1B}' | '\u{9B}' => *removed += 1 + skip_escape(c, &mut chars),
            '\u{08}' => {
                *removed += 1;
                if out.ends_with('_') || out.chars().next_back() == chars.peek().copied() {
                    out.pop();
                    *removed += 1;
                }
            }
            _ if is_odd(c) => *removed += 1,
            _ => out.push(c),
        }
    }
    out
}

fn is_odd(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{2028}' | '\u{2029}' | '\u{FEFF}' => true,
        // Stands for what somebody could not decode.
        '\u{FFFD}' => true,
        // Noncharacters are never text.
        '\u{FDD0}'..='\u{FDEF}' => true,
        _ => c.is_control() || u32::from(c) & 0xFFFE == 0xFFFE,
    }
}

/// Characters of a control sequence's parameters, and of an operating system command, that are looked at.
const LONGEST_CONTROL: usize = 32;
const LONGEST_COMMAND: usize = 128;

/// Skips a terminal's control sequence after its introducer; how many characters. One that does not end soon is
/// none, and only its introducer goes.
fn skip_escape(introducer: char, chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> usize {
    let mut rest = chars.clone();
    let (start, kind) = if introducer == '\u{9B}' { (0, Some('[')) } else { (1, rest.next()) };
    let end = match kind {
        Some('[') => {
            let parameters = rest.by_ref().take(LONGEST_CONTROL).take_while(|c| matches!(c, ' '..='?')).count();
            // The one that ended the parameters has been taken: it is the final one, or nothing is.
            chars.clone().nth(start + parameters).filter(|c| matches!(c, '@'..='~')).map(|_| parameters + 1)
        }
        Some(']') => {
            let text = rest.by_ref().take(LONGEST_COMMAND).take_while(|c| !matches!(c, '\u{07}' | '\u{1B}')).count();
            // It ends with BEL, or with ESC and a backslash.
            match chars.clone().nth(start + text) {
                Some('\u{07}') => Some(text + 1),
                Some('\u{1B}') => Some(text + 1 + usize::from(rest.next() == Some('\\'))),
                _ => None,
            }
        }
        Some('(' | ')') => Some(usize::from(rest.next().is_some())),
        _ => None,
    };
    let Some(end) = end else { return 0 };
    chars.by_ref().take(start + end).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_go_and_what_they_mean_stays() {
        let cases = [
            ("a\r\nb\rc\u{85}d\u{2028}e", "a\nb\nc\nd\ne"),
            ("Vulture\u{8}\u{1b}[31m red\u{1b}[0m", "Vulture red"),
            ("N\u{8}NA\u{8}A _\u{8}x", "NA x"),
            ("\u{1b}]0;title\u{7}after \u{1b}]8;;http://h\u{1b}\\link", "after link"),
            ("\u{9b}1;2mtext\u{0}\u{7f}\u{fffe}", "text"),
            ("lone \u{1b} and \u{1b}[", "lone  and ["),
            ("tab\tand\u{feff} zwj 👩\u{200d}👧 stay", "tab\tand zwj 👩\u{200d}👧 stay"),
        ];
        for (input, expected) in cases {
            let out = clean(input.to_owned(), &mut 0);
            assert_eq!(out, expected, "{input:?}");
            assert!(!out.chars().any(is_odd));
        }
    }

    #[test]
    fn clean_text_is_left_alone() {
        let mut removed = 0;
        assert_eq!(clean("é\n\tz".to_owned(), &mut removed), "é\n\tz");
        assert_eq!(removed, 0);
    }
}
