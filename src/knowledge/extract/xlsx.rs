//! Workbooks: each sheet under its name, its cells as tables that keep what a reader sees: dates as dates, numbers
//! without the noise of their binary form, merged headers over all their columns. A formula counts with the value
//! that was stored for it, and is empty without one. Hidden sheets are read, and said to be hidden.

mod sheet;
mod styles;

use super::ExtractError;
use super::archive::Archive;
use super::markup::{Token, Tokens};
use styles::Styles;

pub(super) fn read(
    archive: &mut Archive<'_>,
    main: &str,
    notes: &mut Vec<String>,
) -> Result<(String, Option<String>), ExtractError> {
    let relations = archive.relations(main)?;
    let book = archive.must(main)?;
    let part = |kind: &str| relations.of_kind(kind).map(str::to_owned);
    let strings = part("sharedStrings").map(|path| archive.xml(&path)).transpose()?.flatten();
    let strings = strings.map_or_else(|| Ok(Vec::new()), |xml| shared_strings(&xml))?;
    let mut styles = Styles::default();
    if let Some(xml) = part("styles").map(|path| archive.xml(&path)).transpose()?.flatten() {
        styles = Styles::read(&xml)?;
    }
    let mut sheets = Vec::new();
    let mut tokens = Tokens::new(&book);
    while let Some(token) = tokens.next()? {
        let Token::Open(tag) = token else { continue };
        match tag.name() {
            "workbookPr" => styles.since_1904 = matches!(tag.get("date1904").as_deref(), Some("1" | "true")),
            "sheet" => {
                let path =
                    tag.all().filter(|(key, _)| key == "id").find_map(|(_, id)| relations.path(&id).map(str::to_owned));
                let hidden = tag.get("state").is_some_and(|state| state != "visible");
                sheets.extend(path.map(|path| (tag.get("name").unwrap_or_default(), hidden, path)));
            }
            _ => {}
        }
    }
    archive.budget.check_entries(sheets.len())?;
    let mut out = String::new();
    let mut hidden_names = Vec::new();
    for (name, hidden, path) in sheets {
        let Some(xml) = archive.xml(&path)? else { continue };
        let comments = archive.relations(&path)?.of_kind("comments").map(str::to_owned);
        let comments = comments.map(|path| archive.xml(&path)).transpose()?.flatten();
        let text = sheet::read(&xml, comments.as_deref(), &strings, &styles, archive.budget)?;
        if text.is_empty() {
            continue;
        }
        if !out.is_empty() {
            out.push_str("\n\n");
        }
        let mark = if hidden { " (hidden sheet)" } else { "" };
        out.push_str(&format!("## {name}{mark}\n\n{text}"));
        if hidden {
            hidden_names.push(name);
        }
        archive.budget.check_text(out.len())?;
    }
    if !hidden_names.is_empty() {
        notes.push(format!("hidden sheets were read too: {}", hidden_names.join(", ")));
    }
    Ok((out, archive.core_title()?))
}

/// The texts that cells name by number; readings in small script above them are left out.
fn shared_strings(xml: &str) -> Result<Vec<String>, ExtractError> {
    let mut found = Vec::new();
    let mut tokens = Tokens::new(xml);
    let mut current = String::new();
    while let Some(token) = tokens.next()? {
        match token {
            Token::Open(tag) => match tag.name() {
                "si" => current.clear(),
                "rPh" => tokens.skip()?,
                "t" => current.push_str(&tokens.text()?),
                _ => {}
            },
            Token::Close(name) if name == "si" => found.push(std::mem::take(&mut current)),
            _ => {}
        }
    }
    Ok(found)
}
