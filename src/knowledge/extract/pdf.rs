//! PDF: the text of each page in reading order, and where each page begins. Pages without text are told; a file
//! that has none at all, or only page numbers and what is stamped on every page, is a scan, and refused as one.

mod fonts;
mod scan;

use super::limits::Budget;
use super::{ExtractError, control};
use pdf_oxide::PdfDocument;
use pdf_oxide::error::Error;
use pdf_oxide::object::Object;

pub(super) struct Pages {
    pub text: String,
    pub title: Option<String>,
    /// Where each page begins; a page without text begins where the next one does.
    pub starts: Vec<usize>,
}

/// Of a page's characters, the share that may be unreadable (1 of 5).
const GARBLED: usize = 5;

pub(super) fn read(bytes: &[u8], budget: &Budget, notes: &mut Vec<String>) -> Result<Pages, ExtractError> {
    let document = PdfDocument::from_bytes(unturned(bytes)).map_err(damaged)?;
    // Without the right password pages are silently empty.
    if document.is_encrypted() && !document.authenticate(b"").map_err(damaged)? {
        return Err(ExtractError::Encrypted);
    }
    let count = document.page_count().map_err(damaged)?;
    budget.check_pages(count)?;
    let mut texts = Vec::with_capacity(count);
    let (mut unreadable, mut garbled, mut lossy, mut nameless) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut removed, mut size) = (0, 0);
    for page in 0..count {
        let found = match document.extract_text(page) {
            Ok(found) => found,
            Err(Error::EncryptedPdf) => return Err(ExtractError::Encrypted),
            Err(_) => {
                unreadable.push(page + 1);
                String::new()
            }
        };
        let lost = found.chars().filter(|c| *c == char::REPLACEMENT_CHARACTER).count();
        if lost > 0 && lost * GARBLED > found.chars().filter(|c| !c.is_whitespace()).count() {
            garbled.push(page + 1);
        } else if lost > 0 {
            lossy.push(page + 1);
        }
        if fonts::are_nameless(&document, page) {
            nameless.push(page + 1);
        }
        let found = control::clean(found.replace([char::REPLACEMENT_CHARACTER, '\u{AD}'], ""), &mut removed);
        let found = tidy(&found);
        size += found.len();
        budget.check_text(size)?;
        texts.push(found);
    }
    if unreadable.len() == count && count > 0 {
        return Err(ExtractError::Corrupt("none of its pages can be read".to_owned()));
    }
    let mut scanned = scan::Scanned::of(&document, &texts);
    if scanned.blank.len() == count {
        // The password may have been the wrong one after all.
        let is_locked = document.is_encrypted() && size == 0;
        return Err(if is_locked { ExtractError::Encrypted } else { ExtractError::NoText { pages: count } });
    }
    scanned.blank.retain(|page| !unreadable.contains(page));
    let mut pages = Pages { text: String::with_capacity(size), title: title(&document), starts: Vec::new() };
    for text in &texts {
        if !text.is_empty() && !pages.text.is_empty() {
            pages.text.push_str("\n\n");
        }
        pages.starts.push(pages.text.len());
        pages.text.push_str(text);
    }
    let mut note = |pages: &[usize], what: &str| {
        if !pages.is_empty() {
            notes.push(format!("{} {what}", ranges(pages)));
        }
    };
    note(&scanned.blank, "no text (probably scanned: run OCR over the file to have them found)");
    note(&scanned.nearly, "a picture with few words beside it (if it is a scan, run OCR over the file)");
    note(&unreadable, "damage, and were left out");
    note(&lossy, "some characters that could not be read; they were left out");
    note(&nameless, "a font that does not tell which characters it shows: what is written in it may be wrong");
    note(&garbled, "characters whose meaning the file does not tell; they were left out");
    if removed > 0 {
        notes.push(format!("{removed} control characters removed"));
    }
    Ok(pages)
}

/// The file with its pages as they were drawn. How a page is turned to be looked at changes nothing about what it says,
/// and its lines are put in order by the direction in which they were written.
fn unturned(bytes: &[u8]) -> Vec<u8> {
    const TURN: &[u8] = b"/Rotate";
    let mut out = bytes.to_vec();
    for at in memchr::memmem::find_iter(bytes, TURN) {
        let after = out.get_mut(at + TURN.len()..).unwrap_or_default();
        let blanks = after.iter().take_while(|b| b.is_ascii_whitespace()).count();
        let angle = after.get_mut(blanks..).unwrap_or_default();
        let digits = angle.iter().take_while(|b| b.is_ascii_digit()).count();
        if let Some(angle) = angle.get_mut(..digits).filter(|angle| matches!(&**angle, b"90" | b"180" | b"270")) {
            // As many bytes as before: the file's table of contents counts them.
            angle.fill(b'0');
        }
    }
    out
}

/// `pages 2-4 have`, `page 7 has`.
fn ranges(pages: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for page in pages {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *page => *last = *page,
            _ => runs.push((*page, *page)),
        }
    }
    let named =
        |(first, last): &(usize, usize)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    let names: Vec<String> = runs.iter().map(named).collect();
    match pages {
        [_] => format!("page {} has", names.join(", ")),
        _ => format!("pages {} have", names.join(", ")),
    }
}

/// Lines without blanks at their ends, and at most one empty line in a row.
fn tidy(page: &str) -> String {
    let mut out = String::with_capacity(page.len());
    let mut empty = 0;
    for line in page.lines().map(str::trim_end) {
        empty = if line.trim().is_empty() { empty + 1 } else { 0 };
        if empty < 2 {
            out.push_str(line);
            out.push('\n');
        }
    }
    out.trim_matches('\n').trim_end().to_owned()
}

/// The title in the file's description, unless it is what some program named its own file.
fn title(document: &PdfDocument) -> Option<String> {
    let info = document.trailer().as_dict()?.get("Info")?;
    let info = document.resolve_object(info).ok()?;
    let title = document.resolve_object(info.as_dict()?.get("Title")?).ok()?;
    let title = match title {
        Object::String(bytes) => text_string(&bytes),
        _ => return None,
    };
    let mut removed = 0;
    let title = control::clean(title, &mut removed).split_whitespace().collect::<Vec<_>>().join(" ");
    let lower = title.to_lowercase();
    let is_file = lower.starts_with("microsoft ") || lower.starts_with("untitled") || lower.starts_with("unbenannt");
    let has_extension = [".doc", ".docx", ".pdf", ".dvi", ".indd", ".ppt", ".pptx", ".xls", ".xlsx", ".tex"]
        .iter()
        .any(|end| lower.ends_with(end));
    (!title.is_empty() && !is_file && !has_extension).then_some(title)
}

/// UTF-16 or UTF-8 with a mark, else nearly Latin-1.
fn text_string(bytes: &[u8]) -> String {
    let units = |from: fn([u8; 2]) -> u16| -> String {
        let pairs = bytes.get(2..).unwrap_or_default().chunks_exact(2);
        let units: Vec<u16> = pairs.filter_map(|pair| pair.try_into().ok().map(from)).collect();
        String::from_utf16_lossy(&units)
    };
    match bytes {
        [0xFE, 0xFF, ..] => units(u16::from_be_bytes),
        [0xFF, 0xFE, ..] => units(u16::from_le_bytes),
        [0xEF, 0xBB, 0xBF, rest @ ..] => String::from_utf8_lossy(rest).into_owned(),
        _ => bytes.iter().map(|b| char::from(*b)).collect(),
    }
}

fn damaged(error: Error) -> ExtractError {
    match error {
        Error::EncryptedPdf => ExtractError::Encrypted,
        other => ExtractError::Corrupt(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_not_turned() {
        let turned = b"<< /Rotate 90 >> << /Rotate\n270>> /Rotate 5 0 R /Rotate 0 /Rotate";
        assert_eq!(unturned(turned), b"<< /Rotate 00 >> << /Rotate\n000>> /Rotate 5 0 R /Rotate 0 /Rotate");
    }

    #[test]
    fn pages_are_named_in_runs() {
        assert_eq!(ranges(&[2, 3, 4]), "pages 2-4 have");
        assert_eq!(ranges(&[7]), "page 7 has");
        assert_eq!(ranges(&[1, 3, 4]), "pages 1, 3-4 have");
    }

    #[test]
    fn a_title_is_decoded() {
        assert_eq!(text_string(b"\xFE\xFF\0D\0\xFC"), "D\u{fc}");
        assert_eq!(text_string(b"D\xFC"), "D\u{fc}");
    }
}
