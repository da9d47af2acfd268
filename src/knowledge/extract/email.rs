//! E-mail: who wrote to whom and when, what the message says, and its attachments as far as they can be read.

use super::limits::Budget;
use super::{ExtractError, Form, Origin, RawDocument, html, read_part};
use mail_parser::{Address, Message, MessageParser, MimeHeaders, PartType};

pub(super) fn read(
    bytes: &[u8],
    budget: &Budget,
    notes: &mut Vec<String>,
) -> Result<(String, Option<String>), ExtractError> {
    let message = MessageParser::default().parse(bytes);
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
    // Both bodies say the same; the plain one needs no reading.
    let has_text =
        message.text_bodies().any(|part| matches!(&part.body, PartType::Text(text) if !text.trim().is_empty()));
    if has_text {
        for part in message.text_bodies() {
            blocks.extend(match &part.body {
                PartType::Text(text) => Some(text.replace("\r\n", "\n").trim().to_owned()),
                _ => None,
            });
        }
    } else {
        for part in message.html_bodies() {
            if let PartType::Html(page) = &part.body {
                blocks.push(html::read(page, &mut Vec::new())?.0);
            }
        }
    }
    budget.check_entries(message.attachment_count())?;
    for (at, part) in message.attachments().enumerate() {
        let name = part.attachment_name().map_or_else(|| format!("attachment {}", at + 1), one_line);
        let found = match &part.body {
            PartType::Message(inner) => {
                budget.inside(|| whole(inner, budget, notes)).map(|text| (text, Form::Markdown))
            }
            _ => attached(part.contents(), &name, budget, notes),
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

/// An attachment's type is what its bytes and its name say.
fn attached(
    bytes: &[u8],
    name: &str,
    budget: &Budget,
    notes: &mut Vec<String>,
) -> Result<(String, Form), ExtractError> {
    let raw = RawDocument { bytes, name, mime: None };
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
