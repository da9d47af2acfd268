//! E-mail: who wrote to whom and when, what the message says, and its attachments as far as they can be read.

mod parts;

use super::limits::Budget;
use super::{ExtractError, Form, Origin, RawDocument, html, read_part};
use mail_parser::{Address, Message, MessageParser, MessagePart, MimeHeaders, PartType};

pub(super) fn read(
    bytes: &[u8],
    budget: &Budget,
    notes: &mut Vec<String>,
) -> Result<(String, Option<String>), ExtractError> {
    let legible = parts::legible(bytes, notes);
    let message = MessageParser::default().parse(legible.as_ref());
    let message = message.ok_or_else(|| ExtractError::Corrupt("it has no headers of an e-mail".to_owned()))?;
    let text = budget.inside(|| whole(&message, budget, notes))?;
    Ok((text, message.subject().map(one_line).filter(|subject| !subject.is_empty())))
}

fn whole(message: &Message<'_>, budget: &Budget, notes: &mut Vec<String>) -> Result<String, ExtractError> {
    let mut blocks = Vec::new();
    if let Some(subject) = message.subject() {
        blocks.push(format!("# {}", one_line(subject)));
    }
    let mut head = Vec::new();
    for (name, address) in [("From", message.from()), ("To", message.to()), ("Cc", message.cc())] {
        head.extend(address.map(people).filter(|p| !p.is_empty()).map(|people| format!("{name}: {people}")));
    }
    head.extend(message.date().map(|date| format!("Date: {}", date.to_rfc3339())));
    blocks.push(head.join("\n"));
    for part in bodies(message) {
        let text = match &part.body {
            PartType::Text(_) => parts::text(message, part, notes)?.replace("\r\n", "\n"),
            PartType::Html(_) => html::read(&parts::text(message, part, notes)?, notes)?.0,
            _ => continue,
        };
        blocks.push(text.trim().to_owned());
    }
    budget.check_entries(message.attachment_count())?;
    for (at, part) in message.attachments().enumerate() {
        let name = part.attachment_name().map_or_else(|| format!("attachment {}", at + 1), one_line);
        let found = match &part.body {
            PartType::Message(inner) => {
                budget.inside(|| whole(inner, budget, notes)).map(|text| (text, Form::Markdown))
            }
            _ => attached(message, part, &name, budget, notes),
        };
        match found {
            Ok((text, Form::Code)) => blocks.push(format!("## {name}\n\n{}", fenced(&text))),
            Ok((text, _)) => blocks.push(format!("## {name}\n\n{text}")),
            // Too much is too much of the whole.
            Err(refused @ (ExtractError::ExpandsTooFar(_) | ExtractError::TooNested(_))) => return Err(refused),
            Err(refused) => notes.push(format!("the attachment {name} was left out: {refused}")),
        }
        budget.check_text(blocks.iter().map(String::len).sum())?;
    }
    blocks.retain(|block| !block.trim().is_empty());
    Ok(blocks.join("\n\n"))
}

/// What the message says. Of what is there twice, plainly and as a page, the plain form, which needs no reading, unless
/// one is empty. What has only one form is in both lists.
fn bodies<'m>(message: &'m Message<'m>) -> Vec<&'m MessagePart<'m>> {
    let says = |id: &u32| message.part(*id).and_then(MessagePart::text_contents).is_some_and(|t| !t.trim().is_empty());
    let mut plain = message.text_body.iter().filter(|id| !message.html_body.contains(id)).peekable();
    let is_plain = plain.peek().is_some() && plain.all(says);
    let chosen = if is_plain { &message.text_body } else { &message.html_body };
    chosen.iter().filter_map(|id| message.part(*id)).collect()
}

/// An attachment's type is what its bytes and its name say; a text may be declared to be one.
fn attached(
    message: &Message<'_>,
    part: &MessagePart<'_>,
    name: &str,
    budget: &Budget,
    notes: &mut Vec<String>,
) -> Result<(String, Form), ExtractError> {
    let bytes = parts::bytes(message, part);
    let mime = parts::mime(part);
    let raw = RawDocument { bytes: &bytes, name, mime: mime.as_deref() };
    let read = budget.inside(|| read_part(&raw, Origin::Document, budget))?;
    notes.extend(read.notes.into_iter().map(|note| format!("{name}: {note}")));
    Ok((read.text, read.kind.form()))
}

fn people(address: &Address<'_>) -> String {
    let person = |one: &mail_parser::Addr<'_>| match (one.name(), one.address()) {
        (Some(name), Some(address)) => format!("{} <{address}>", one_line(name)),
        (Some(only), None) | (None, Some(only)) => one_line(only),
        (None, None) => String::new(),
    };
    address.iter().map(person).filter(|person| !person.is_empty()).collect::<Vec<_>>().join(", ")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Code between fences that are longer than any in it.
fn fenced(code: &str) -> String {
    let longest = code.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat((longest + 1).max(3));
    format!("{fence}\n{code}\n{fence}")
}
