//! Source code: kept as it is, so that line numbers are the file's.

/// Only what follows the last line goes.
pub(super) fn read(mut text: String) -> String {
    text.truncate(text.trim_end().len());
    text
}
