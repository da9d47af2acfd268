//! Fonts that name glyphs by number and do not say which characters these are.

use pdf_oxide::PdfDocument;
use pdf_oxide::object::Object;

/// Fonts of a page that are looked at, and pages above it that may hold them.
const MOST_FONTS: usize = 64;
const MOST_PARENTS: usize = 32;

/// Whether the page has such a font.
pub(super) fn are_nameless(document: &PdfDocument, page: usize) -> bool {
    let Some(fonts) = document.get_page(page).ok().and_then(|page| fonts_of(document, page)) else { return false };
    let fonts = fonts.as_dict().into_iter().flat_map(|fonts| fonts.values()).take(MOST_FONTS);
    fonts.filter_map(|font| document.resolve_object(font).ok()).any(|font| is_nameless(document, &font))
}

/// The page's own fonts, or those of the pages that it belongs to.
fn fonts_of(document: &PdfDocument, page: Object) -> Option<Object> {
    let mut node = page;
    for _ in 0..MOST_PARENTS {
        if let Some(resources) = field(document, &node, "Resources") {
            return field(document, &resources, "Font");
        }
        node = field(document, &node, "Parent")?;
    }
    None
}

/// Glyph numbers go in, nothing maps them to characters, and the collection that they are of is the font's own.
fn is_nameless(document: &PdfDocument, font: &Object) -> bool {
    let name = |key: &str| field(document, font, key).and_then(|value| value.as_name().map(str::to_owned));
    if field(document, font, "ToUnicode").is_some() {
        return false;
    }
    let kind = name("Subtype").unwrap_or_default();
    if kind == "TrueType" {
        return field(document, font, "Encoding").is_none();
    }
    if kind != "Type0" || !name("Encoding").is_some_and(|encoding| encoding.starts_with("Identity")) {
        return false;
    }
    let below = field(document, font, "DescendantFonts");
    let below = below.as_ref().and_then(Object::as_array).and_then(|fonts| fonts.first());
    let Some(below) = below.and_then(|font| document.resolve_object(font).ok()) else { return false };
    let system = field(document, &below, "CIDSystemInfo");
    let ordering = system.and_then(|system| field(document, &system, "Ordering"));
    ordering.is_none_or(|ordering| ordering.as_string() == Some(b"Identity".as_slice()))
}

fn field(document: &PdfDocument, of: &Object, key: &str) -> Option<Object> {
    document.resolve_object(of.as_dict()?.get(key)?).ok().filter(|value| !matches!(value, Object::Null))
}
