//! Which document a ZIP container is, told by what is in it, and its text.

use super::archive::Archive;
use super::limits::Budget;
use super::markup::{Token, Tokens};
use super::{Content, ExtractError, Kind, docx, epub, pptx, xlsx};

/// Reads an office file or a book. An archive of documents is none.
pub(super) fn read(bytes: &[u8], budget: &Budget, notes: &mut Vec<String>) -> Result<Content, ExtractError> {
    let mut archive = Archive::open(bytes, budget)?;
    let (kind, main) = kind(&mut archive)?;
    let (text, title) = match kind {
        Kind::Docx => docx::read(&mut archive, &main)?,
        Kind::Pptx => pptx::read(&mut archive, &main)?,
        Kind::Xlsx => xlsx::read(&mut archive, &main, notes)?,
        Kind::Epub => epub::read(&mut archive, notes)?,
        _ => return Err(ExtractError::UnsupportedType("an archive in this place".to_owned())),
    };
    budget.check_text(text.len())?;
    Ok(Content::new(text, title, kind))
}

/// The kind, and the name of the part that an office file begins with.
pub(super) fn kind(archive: &mut Archive<'_>) -> Result<(Kind, String), ExtractError> {
    if let Some(types) = archive.xml("[Content_Types].xml")? {
        let main = archive.relations("")?.of_kind("officeDocument").map(str::to_owned);
        let found = office_kind(&types, main.as_deref())?;
        return found.ok_or_else(|| ExtractError::UnsupportedType("this kind of office file".to_owned()));
    }
    if archive.has("META-INF/container.xml") {
        return Ok((Kind::Epub, String::new()));
    }
    let mimetype = archive.bytes("mimetype")?.unwrap_or_default();
    if mimetype.starts_with(b"application/vnd.oasis.opendocument") {
        return Err(ExtractError::UnsupportedType("an OpenDocument file".to_owned()));
    }
    Ok((Kind::Zip, String::new()))
}

/// By the declared type of the main part.
fn office_kind(types: &str, main: Option<&str>) -> Result<Option<(Kind, String)>, ExtractError> {
    let mut tokens = Tokens::new(types);
    while let Some(token) = tokens.next()? {
        let Token::Open(tag) = token else { continue };
        let Some(name) = tag.get("PartName") else { continue };
        let kind = tag.get("ContentType").unwrap_or_default();
        let name = name.trim_start_matches('/');
        if !kind.ends_with(".main+xml") || main.is_some_and(|main| main != name) {
            continue;
        }
        let found = match () {
            () if kind.contains("wordprocessingml") || kind.contains("ms-word") => Kind::Docx,
            () if kind.contains("spreadsheetml") || kind.contains("ms-excel.sheet.macro") => Kind::Xlsx,
            () if kind.contains("presentationml") || kind.contains("ms-powerpoint") => Kind::Pptx,
            () => continue,
        };
        return Ok(Some((found, name.to_owned())));
    }
    // Some writers declare only what an extension means.
    Ok(main.and_then(|main| {
        let folder = main.split('/').next()?;
        let kind = match folder {
            "word" => Kind::Docx,
            "xl" => Kind::Xlsx,
            "ppt" => Kind::Pptx,
            _ => return None,
        };
        main.ends_with(".xml").then(|| (kind, main.to_owned()))
    }))
}
