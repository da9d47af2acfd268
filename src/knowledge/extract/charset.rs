//! Bytes to characters. A byte order mark decides, then validity as UTF-8, then what was declared, then
//! detection; a decoding is taken only if it is whole and reads like text. Never mojibake: rather refused.

use super::{ExtractError, Kind, RawDocument};
use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

pub(super) struct Decoded {
    pub text: String,
    /// The charset's WHATWG name in lower case.
    pub charset: String,
    pub guessed: bool,
    pub notes: Vec<String>,
}

/// A Unicode encoding form other than plain UTF-8, told by its mark or by where its NULs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnicodeForm {
    unit: Unit,
    little: bool,
    /// Bytes of the mark; 0 where the NULs told.
    mark: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Two,
    Four,
}

/// A guess reads like text if at most this share of its non-ASCII characters is odd (1 of 3).
const ODD_SHARE: usize = 3;
/// HTML and XML declare their charset within this many bytes.
const PRESCAN: usize = 4096;
/// Where nobody says that it is UTF-8: chance could have made one such character, or two.
const LEAST_GOOD: usize = 3;
/// Detection needs no more than this to be sure.
const DETECT: usize = 4 << 20;

pub(super) fn decode(bytes: &[u8], declared: Option<&str>) -> Result<Decoded, ExtractError> {
    if let Some(form) = unicode_form(bytes) {
        return decode_form(bytes, form);
    }
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let declared = declared.filter(|label| says_more_than_ascii(label)).and_then(encoding);
    if escapes_as_2022(bytes)
        && declared.is_none_or(|e| e.name() == "ISO-2022-JP")
        && let Some(text) = whole(encoding_rs::ISO_2022_JP, bytes)
    {
        return Ok(done(text, "iso-2022-jp", declared.is_none()));
    }
    // Valid UTF-8 with multi-byte characters is hardly ever anything else, whatever a header says.
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Ok(done(text.to_owned(), "utf-8", false));
    }
    // A declared UTF-16 without NULs is a lie that the HTML standard reads as UTF-8.
    if let Some(encoding) = declared.filter(|e| *e != UTF_8 && *e != UTF_16LE && *e != UTF_16BE)
        && let Some(text) = whole(encoding, bytes)
        && c1_free(&text)
    {
        return Ok(done(text, encoding.name(), false));
    }
    if let Some((text, lost)) = damaged_utf8(bytes, if declared == Some(UTF_8) { 1 } else { LEAST_GOOD }) {
        let notes = vec![format!("{lost} bytes that are not UTF-8 removed")];
        return Ok(Decoded { text, charset: "utf-8".to_owned(), guessed: false, notes });
    }
    detect(bytes)
}

/// Whether it can be decoded here by its name.
pub(super) fn is_known(label: &str) -> bool {
    encoding(label).is_some()
}

fn encoding(label: &str) -> Option<&'static Encoding> {
    Encoding::for_label_no_replacement(label.trim().as_bytes())
}

/// ASCII is what programs declare that declare anything; of other bytes it says nothing.
fn says_more_than_ascii(label: &str) -> bool {
    !["us-ascii", "ascii"].iter().any(|ascii| label.trim().eq_ignore_ascii_case(ascii))
}

/// What the MIME type, the HTML or the XML says of the charset.
pub(super) fn declared(raw: &RawDocument<'_>, kind: Kind) -> Option<String> {
    let header = raw.mime.and_then(|mime| label_after(mime, "charset"));
    header.or_else(|| {
        let head = raw.bytes.get(..PRESCAN).unwrap_or(raw.bytes);
        let head = String::from_utf8_lossy(head).to_ascii_lowercase();
        if head.starts_with("<?xml") {
            let end = head.find("?>")?;
            return label_after(head.get(..end)?, "encoding");
        }
        if kind != Kind::Html {
            return None;
        }
        head.split("<meta").skip(1).find_map(|tag| label_after(tag.split('>').next()?, "charset"))
    })
}

/// The value in `key = "value"` or `key=value`.
fn label_after(text: &str, key: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let after = lower.get(lower.find(key)? + key.len()..)?.trim_start().strip_prefix('=')?;
    let value = after.trim_start().trim_start_matches(['"', '\'']);
    let end =
        value.find(|c: char| c == ';' || c == '"' || c == '\'' || c == '/' || c.is_whitespace()).unwrap_or(value.len());
    value.get(..end).filter(|label| !label.is_empty()).map(str::to_owned)
}

impl UnicodeForm {
    pub fn has_mark(self) -> bool {
        self.mark > 0
    }
}

/// UTF-16 or UTF-32, by mark or by the places of NULs: text in one of them has NULs on one side of its units
/// (even Chinese has line ends and spaces), data has them anywhere.
pub(super) fn unicode_form(bytes: &[u8]) -> Option<UnicodeForm> {
    let form = |unit, little, mark| Some(UnicodeForm { unit, little, mark });
    match bytes {
        [0xFF, 0xFE, 0, 0, ..] if bytes.len().is_multiple_of(4) => return form(Unit::Four, true, 4),
        [0, 0, 0xFE, 0xFF, ..] => return form(Unit::Four, false, 4),
        [0xFF, 0xFE, ..] => return form(Unit::Two, true, 2),
        [0xFE, 0xFF, ..] => return form(Unit::Two, false, 2),
        _ => {}
    }
    let mut nuls = [0usize; 4];
    for unit in bytes.chunks_exact(4) {
        for (count, byte) in nuls.iter_mut().zip(unit) {
            *count += usize::from(*byte == 0);
        }
    }
    let units = bytes.len() / 4;
    let most = |n: usize| units >= 2 && n * 10 >= units * 9;
    let told = |unit, little| Some(UnicodeForm { unit, little, mark: 0 }).filter(|form| holds_text(bytes, *form));
    if bytes.len().is_multiple_of(4) && most(nuls[2]) && most(nuls[3]) && !most(nuls[0]) {
        return told(Unit::Four, true);
    }
    if bytes.len().is_multiple_of(4) && most(nuls[0]) && most(nuls[1]) && !most(nuls[3]) {
        return told(Unit::Four, false);
    }
    let (even, odd) = (nuls[0] + nuls[2], nuls[1] + nuls[3]);
    // One byte too many is a truncated copy.
    let pairs = bytes.len() / 2;
    if pairs < 4 || even + odd == 0 {
        return None;
    }
    // Cyrillic in UTF-16 is valid UTF-8, and full of control characters; UTF-8 with a stray NUL is not.
    let controls = bytes.iter().filter(|b| matches!(b, 0x01..=0x08 | 0x0E..=0x1F)).count();
    if (even + odd) * 4 < pairs && controls * 10 < bytes.len() && std::str::from_utf8(bytes).is_ok() {
        return None;
    }
    let little = odd > even;
    // A few characters end in a zero byte themselves (U+4E00 is "one").
    if even.min(odd) * 2 > even.max(odd) {
        return None;
    }
    told(Unit::Two, little)
}

/// Whether the units are characters of a text. Small numbers, such as a quiet sound is made of, have their NULs in the
/// same places, and are control characters.
fn holds_text(bytes: &[u8], form: UnicodeForm) -> bool {
    let (text, lost) = units_to_text(bytes, form);
    let controls = text.chars().filter(|c| c.is_control() && !c.is_whitespace()).count();
    lost <= usize::from(bytes.len() % 2 == 1) && controls * 50 <= text.chars().count() && reads_like_text(&text)
}

fn decode_form(bytes: &[u8], form: UnicodeForm) -> Result<Decoded, ExtractError> {
    let (text, lost) = units_to_text(bytes.get(form.mark..).unwrap_or_default(), form);
    if lost * 50 > text.chars().count().max(50) {
        return Err(ExtractError::UnknownEncoding);
    }
    let charset = match (form.unit, form.little) {
        (Unit::Two, true) => "utf-16le",
        (Unit::Two, false) => "utf-16be",
        (Unit::Four, true) => "utf-32le",
        (Unit::Four, false) => "utf-32be",
    };
    let mut out = done(text, charset, form.mark == 0);
    if lost > 0 {
        out.notes.push(format!("{lost} code units that are not {charset} removed"));
    }
    Ok(out)
}

/// The text, and how many units were no characters; those are left out.
fn units_to_text(bytes: &[u8], form: UnicodeForm) -> (String, usize) {
    let mut text = String::with_capacity(bytes.len());
    let mut lost = 0;
    match form.unit {
        Unit::Two => {
            let pairs = bytes.chunks_exact(2);
            lost += pairs.remainder().len();
            let units = pairs.filter_map(|pair| <[u8; 2]>::try_from(pair).ok());
            let units = units.map(|pair| if form.little { u16::from_le_bytes(pair) } else { u16::from_be_bytes(pair) });
            for unit in char::decode_utf16(units) {
                match unit {
                    Ok(c) => text.push(c),
                    Err(_) => lost += 1,
                }
            }
        }
        Unit::Four => {
            let quads = bytes.chunks_exact(4);
            lost += quads.remainder().len();
            for quad in quads.filter_map(|quad| <[u8; 4]>::try_from(quad).ok()) {
                match char::from_u32(if form.little { u32::from_le_bytes(quad) } else { u32::from_be_bytes(quad) }) {
                    Some(c) => text.push(c),
                    None => lost += 1,
                }
            }
        }
    }
    (text, lost)
}

/// UTF-8 that was cut short or has foreign bytes. Its multi-byte characters hardly ever come about by chance, so more
/// of them than foreign bytes are proof enough, and so is an unfinished last one with nothing else wrong.
fn damaged_utf8(bytes: &[u8], least: usize) -> Option<(String, usize)> {
    let mut text = String::with_capacity(bytes.len());
    let (mut lost, mut good) = (0, 0);
    for chunk in bytes.utf8_chunks() {
        good += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        text.push_str(chunk.valid());
        lost += chunk.invalid().len();
    }
    let cut_short = std::str::from_utf8(bytes).is_err_and(|e| e.error_len().is_none()) && good > 0;
    (cut_short || (good >= least && good > lost)).then_some((text, lost))
}

fn detect(bytes: &[u8]) -> Result<Decoded, ExtractError> {
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(bytes.get(..DETECT).unwrap_or(bytes), true);
    let best = detector.guess(None, Utf8Detection::Deny);
    // Without letters there is nothing to tell a language by: typographic quotes and currency signs then mean
    // the most common code page. It also comes second, where the guess does not decode.
    let western = whole(WINDOWS_1252, bytes).filter(|text| !text.chars().any(|c| !c.is_ascii() && c.is_alphabetic()));
    let order = if western.is_some() { [WINDOWS_1252, best] } else { [best, WINDOWS_1252] };
    for encoding in order {
        if let Some(text) = whole(encoding, bytes)
            && reads_like_text(&text)
        {
            let mut out = done(text, encoding.name(), true);
            out.notes.push(format!("charset guessed: {}", out.charset));
            return Ok(out);
        }
    }
    Err(ExtractError::UnknownEncoding)
}

fn done(text: String, charset: &str, guessed: bool) -> Decoded {
    Decoded { text, charset: charset.to_ascii_lowercase(), guessed, notes: Vec::new() }
}

fn whole(encoding: &'static Encoding, bytes: &[u8]) -> Option<String> {
    encoding.decode_without_bom_handling_and_without_replacement(bytes).map(|text| text.into_owned())
}

/// ISO-2022-JP is seven-bit, so it would pass as UTF-8; its escapes give it away.
fn escapes_as_2022(bytes: &[u8]) -> bool {
    memchr::memchr_iter(0x1B, bytes)
        .take(1000)
        .any(|at| matches!(bytes.get(at + 1..at + 3), Some([b'$', b'@' | b'B'] | [b'(', b'J' | b'I'])))
}

fn c1_free(text: &str) -> bool {
    !text.chars().any(|c| matches!(c, '\u{80}'..='\u{9F}'))
}

/// Letters, digits, the usual punctuation: most of what is not ASCII in a text. A wrong code page turns letters
/// into symbols, a wrong byte order turns them into unassigned or private characters.
fn reads_like_text(text: &str) -> bool {
    let (mut all, mut odd) = (0usize, 0usize);
    for c in text.chars().filter(|c| !c.is_ascii()) {
        all += 1;
        match c {
            '\u{80}'..='\u{9F}' | '\u{E000}'..='\u{F8FF}' | '\u{F0000}'.. => return false,
            '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{205E}' | '\u{20A0}'..='\u{20BF}' | '\u{3000}'..='\u{303F}' => {}
            '\u{A0}' | '£' | '§' | '©' | '«' | '®' | '°' | '±' | '·' | '»' | '½' | '¿' | '¡' | '×' | '²' | '³'
            | '¼' | '¾' => {}
            '\u{FF00}'..='\u{FFEF}' | '\u{300}'..='\u{36F}' | '\u{FEFF}' | '™' => {}
            _ if c.is_alphanumeric() => {}
            _ => odd += 1,
        }
    }
    odd * ODD_SHARE <= all
}
