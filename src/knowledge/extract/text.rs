//! Plain text, and what is read as such (logs, CSV, JSON, XML): kept as it is.

/// White space at the ends goes, so that offsets begin where the text does.
pub(super) fn read(text: String) -> String {
    if text.trim().len() == text.len() { text } else { text.trim().to_owned() }
}
