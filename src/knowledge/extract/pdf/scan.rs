//! Which pages of a PDF are pictures of text: those that say nothing, and those with a large picture and next to
//! nothing beside it but what is stamped on every page.

use pdf_oxide::PdfDocument;
use std::collections::{HashMap, HashSet};

/// Words that may stand beside a page's number.
const FURNITURE: &[&str] =
    &["page", "pages", "seite", "seiten", "pagina", "página", "p", "s", "of", "von", "de", "sur", "di"];
/// Letters and digits that a page with a large picture must have beside it to count as text.
const FEW: usize = 50;
/// Of a page, the share that a large picture covers (1 of 2).
const LARGE: f32 = 0.5;

/// Numbers of pages, from 1.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Scanned {
    /// They say nothing.
    pub blank: Vec<usize>,
    /// They hardly say anything.
    pub nearly: Vec<usize>,
}

impl Scanned {
    pub fn of(document: &PdfDocument, texts: &[String]) -> Self {
        Self::among(texts, |page| has_large_picture(document, page))
    }

    /// Only pages with few words are looked at, because only for those it matters.
    fn among(texts: &[String], is_picture: impl Fn(usize) -> bool) -> Self {
        let stamps = stamps(texts);
        let mut found = Self::default();
        for (page, text) in texts.iter().enumerate() {
            let own = without(text, &stamps);
            let is_picture = own.chars().filter(|c| c.is_alphanumeric()).count() < FEW && is_picture(page);
            if !says_something(if is_picture { &own } else { text }) {
                found.blank.push(page + 1);
            } else if is_picture {
                found.nearly.push(page + 1);
            }
        }
        found
    }
}

/// Lines that stand on most pages, their digits aside.
fn stamps(texts: &[String]) -> HashSet<String> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for text in texts {
        let lines: HashSet<String> = text.lines().map(stamp).filter(|line| !line.is_empty()).collect();
        lines.into_iter().for_each(|line| *counts.entry(line).or_default() += 1);
    }
    counts.into_iter().filter(|(_, count)| *count > 1 && count * 2 > texts.len()).map(|(line, _)| line).collect()
}

fn stamp(line: &str) -> String {
    line.chars().filter(|c| c.is_alphabetic()).collect()
}

fn without(text: &str, stamps: &HashSet<String>) -> String {
    text.lines().filter(|line| !stamps.contains(&stamp(line))).collect::<Vec<_>>().join("\n")
}

fn has_large_picture(document: &PdfDocument, page: usize) -> bool {
    let Ok((left, bottom, right, top)) = document.get_page_media_box(page) else { return false };
    let area = ((right - left) * (top - bottom)).abs();
    let pictures = document.page_image_handles(page).unwrap_or_default();
    pictures.iter().any(|picture| (picture.bbox.width * picture.bbox.height).abs() >= area * LARGE)
}

/// Whether a page has more on it than its number.
fn says_something(page: &str) -> bool {
    page.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .any(|word| !(is_number(word) || FURNITURE.contains(&word.to_lowercase().as_str())))
}

fn is_number(word: &str) -> bool {
    word.chars().all(char::is_numeric)
        || word.chars().all(|c| matches!(c, 'i' | 'v' | 'x' | 'l' | 'I' | 'V' | 'X' | 'L'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_numbers_say_nothing() {
        for (page, says) in [
            ("Page 1 of 2", false),
            ("- 17 -", false),
            ("Seite iv", false),
            ("", false),
            ("Berth 4", true),
            ("Page of facts", true),
        ] {
            assert_eq!(says_something(page), says, "{page}");
        }
    }

    #[test]
    fn stamps_on_pictures_say_nothing() {
        let pages = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let check = |texts: &[&str], is_picture: bool, blank: &[usize], nearly: &[usize]| {
            let want = Scanned { blank: blank.to_vec(), nearly: nearly.to_vec() };
            assert_eq!(Scanned::among(&pages(texts), |_| is_picture), want, "{texts:?}");
        };
        let stamped = ["ACME - Page 1 of 3", "ACME - Page 2 of 3", "ACME - Page 3 of 3"];
        check(&stamped, true, &[1, 2, 3], &[]);
        check(&stamped, false, &[], &[]);
        check(&["Made by a scanner"], true, &[], &[1]);
        check(&["Made by a scanner"], false, &[], &[]);
        let words = "Berth four opens in May, and all who wait for it shall come by the northern gate.";
        check(&["ACME 1\nBerth 4 opens", "ACME 2", words], true, &[2], &[1]);
    }
}
