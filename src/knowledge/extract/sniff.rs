//! Whether bytes can be text at all. Magic numbers alone do not decide: "BMW" begins like a bitmap and "MZ…"
//! like a program, so a name from the magic table counts only where the bytes are not clean text.

use super::{ExtractError, charset};

/// Formats whose bytes may look like text and yet are none that a reader wants.
const TEXTUAL_CONTAINERS: &[(&[u8], &str)] = &[(b"%PDF-", "a PDF file"), (b"{\\rtf", "an RTF file")];
/// `Err` for office files, archives and PDF (`unsupported_type`) and for all other binary content.
pub(super) fn refuse_binary(bytes: &[u8]) -> Result<(), ExtractError> {
    let start = bytes.trim_ascii_start();
    let start = start.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(start);
    if let Some((_, name)) = TEXTUAL_CONTAINERS.iter().find(|(magic, _)| start.starts_with(magic)) {
        return Err(ExtractError::UnsupportedType((*name).to_owned()));
    }
    let magic = infer::get(bytes).filter(|found| found.matcher_type() != infer::MatcherType::Text);
    if !looks_binary(bytes, magic.is_some()) {
        return Ok(());
    }
    Err(match magic {
        Some(found) if is_container(found.mime_type()) => {
            ExtractError::UnsupportedType(format!("a file of type {}", found.mime_type()))
        }
        Some(found) => ExtractError::Binary(found.mime_type().to_owned()),
        None => ExtractError::Binary("control bytes".to_owned()),
    })
}

/// Documents and archives: a later reader may open them, so the refusal is about the type, not the bytes.
fn is_container(mime: &str) -> bool {
    const ENDS: &[&str] = &[
        "zip",
        "pdf",
        "rtf",
        "msword",
        "vnd.ms-excel",
        "vnd.ms-powerpoint",
        "x-ole-storage",
        "x-tar",
        "gzip",
        "x-bzip2",
        "x-xz",
        "zstd",
        "x-7z-compressed",
        "vnd.rar",
        "x-mobipocket-ebook",
        "vnd.ms-cab-compressed",
        "x-compress",
        "x-lzip",
        "x-lz4",
    ];
    mime.strip_prefix("application/").is_some_and(|kind| {
        ENDS.contains(&kind)
            || kind.ends_with("+zip")
            || kind.starts_with("vnd.openxmlformats")
            || kind.starts_with("vnd.oasis.opendocument")
    })
}

/// True for more NULs and control characters (white space, ESC, BS and FF aside) than a text can have picked up
/// by accident; with a magic number one is enough.
fn looks_binary(bytes: &[u8], magic: bool) -> bool {
    if let Some(form) = charset::unicode_form(bytes) {
        return magic && !form.has_mark();
    }
    let nuls = memchr::memchr_iter(0, bytes).count();
    let controls = bytes.iter().filter(|b| matches!(b, 0x01..=0x07 | 0x0E..=0x1A | 0x1C..=0x1F | 0x7F)).count();
    let odd = nuls + controls;
    if std::str::from_utf8(bytes).is_ok() {
        return odd * 10 > bytes.len() || (magic && nuls > 0);
    }
    odd * 20 > bytes.len() || nuls * 50 > bytes.len() || (magic && odd > 0)
}
