//! The bytes of a message's parts, and the text that they are: many programs declare no charset, or a wrong one.

use super::super::{ExtractError, Kind, RawDocument, charset};
use mail_parser::decoders::base64::base64_decode;
use mail_parser::decoders::quoted_printable::quoted_printable_decode;
use mail_parser::{Encoding, Message, MessagePart, MimeHeaders, PartType};
use std::borrow::Cow;

/// The message with headers in UTF-8: where they hold other bytes, these are decoded like any text. What could stand
/// before the first header goes.
pub(super) fn legible<'b>(bytes: &'b [u8], notes: &mut Vec<String>) -> Cow<'b, [u8]> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes).trim_ascii_start();
    let ends = [&b"\n\n"[..], b"\n\r\n"].into_iter().filter_map(|end| memchr::memmem::find(bytes, end));
    let (head, rest) = bytes.split_at(ends.min().unwrap_or(bytes.len()));
    if std::str::from_utf8(head).is_ok() {
        return bytes.into();
    }
    let Ok(decoded) = charset::decode(head, None) else { return bytes.into() };
    notes.extend(decoded.notes.into_iter().map(|note| format!("headers: {note}")));
    [decoded.text.as_bytes(), rest].concat().into()
}

/// What a part holds, as it was before it was packed for the way.
pub(super) fn bytes<'m>(message: &'m Message<'_>, part: &'m MessagePart<'_>) -> Cow<'m, [u8]> {
    let span = part.offset_body as usize..part.offset_end as usize;
    let packed = match &part.body {
        PartType::Text(_) | PartType::Html(_) => message.raw_message.get(span),
        _ => None,
    };
    let unpacked = packed.and_then(|packed| match part.encoding {
        Encoding::None => Some(Cow::Borrowed(packed)),
        Encoding::QuotedPrintable => quoted_printable_decode(packed).map(Cow::Owned),
        Encoding::Base64 => base64_decode(packed).map(Cow::Owned),
    });
    unpacked.unwrap_or_else(|| part.contents().into())
}

/// The text of a body.
pub(super) fn text(
    message: &Message<'_>,
    part: &MessagePart<'_>,
    notes: &mut Vec<String>,
) -> Result<String, ExtractError> {
    let declared = part.content_type().and_then(|kind| kind.attribute("charset"));
    // Some charsets are known to mail only.
    if declared.is_some_and(|label| !charset::is_known(label))
        && let Some(text) = part.text_contents().filter(|text| !text.contains(char::REPLACEMENT_CHARACTER))
    {
        return Ok(text.to_owned());
    }
    let bytes = bytes(message, part);
    // A page says it itself where the message does not.
    let own = match part.body {
        PartType::Html(_) => charset::declared(&RawDocument { bytes: &bytes, ..RawDocument::default() }, Kind::Html),
        _ => None,
    };
    let decoded = charset::decode(&bytes, declared.or(own.as_deref()))?;
    notes.extend(decoded.notes);
    Ok(decoded.text)
}

/// The declared type of a text; of other bytes it says less than they do.
pub(super) fn mime(part: &MessagePart<'_>) -> Option<String> {
    let kind = part.content_type().filter(|kind| kind.ctype().eq_ignore_ascii_case("text"))?;
    let charset = kind.attribute("charset").map(|label| format!("; charset=\"{label}\"")).unwrap_or_default();
    Some(format!("{}/{}{charset}", kind.ctype(), kind.subtype()?))
}
