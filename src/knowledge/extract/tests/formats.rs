//! The handed office files and PDFs, and small ones that are made here.

use super::*;
use std::io::{Cursor, Write};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

fn check(name: &str, has: &[&str], lacks: &[&str]) -> Extracted {
    let found = read_file(name).unwrap_or_else(|e| panic!("{name}: {e}"));
    for part in has {
        assert!(found.text.contains(part), "{name} lacks {part:?}: {}", found.text);
    }
    for part in lacks {
        assert!(!found.text.contains(part), "{name} has {part:?}: {}", found.text);
    }
    assert_clean(&found.text);
    found
}

#[test]
fn a_word_document_keeps_its_order_and_its_tables() {
    let found = check(
        "table_notes.docx",
        &[
            "# Crane sheet",
            "| Model | Max load |\n| --- | --- |\n| C-9 | 4 t |",
            "Main text with a note [note: FOOTNOTEWORD]",
            "INSERTEDWORD",
            "splitrun after tab\nafter break",
        ],
        &["DELETEDWORD", "VANISHWORD"],
    );
    assert_eq!(found.text.matches("BOXWORD").count(), 1, "{}", found.text);
    assert_eq!((found.kind, found.title.as_deref()), (Kind::Docx, Some("Crane sheet")));
    let renamed = check("docx_renamed.txt", &["This is a Word file with the wrong extension."], &[]);
    assert_eq!(renamed.kind, Kind::Docx);
}

#[test]
fn a_workbook_shows_what_its_reader_sees() {
    let found = check(
        "sheets.xlsx",
        &[
            "## Stock\n\n| Region | Revenue Q1 | Revenue Q2 |\n| --- | --- | --- |\n| North",
            "1200.5 |",
            "| South | 2024-02-29 | TRUE |",
            "| 007 | 12345678901234600 | 0.1 |",
            "[comment: ",
            "## Hidden (hidden sheet)\n\nHIDDENSHEETWORD",
            "## Notizen äöü\n\nfar cell FARWORD",
        ],
        &["B3*2", "45351", "## Empty"],
    );
    assert!(found.notes.contains(&"hidden sheets were read too: Hidden".to_owned()), "{:?}", found.notes);
    let sparse = check("sparse_corner.xlsx", &["corner"], &["| |"]);
    assert!(sparse.text.len() < 100, "{}", sparse.text);
}

#[test]
fn a_presentation_numbers_its_slides() {
    let found = check(
        "slides.pptx",
        &[
            "## Slide 1: Dock plan\n\nBerth four opens in May\n\nNotes: NOTESWORD: tell the pilots",
            "## Slide 2: Table slide\n\n| Berth | Depth |\n| --- | --- |\n| 4 | 11 m |",
        ],
        &[],
    );
    assert_eq!(found.kind, Kind::Pptx);
}

#[test]
fn a_pdf_keeps_its_pages_and_says_what_it_lacks() {
    let found = check("many_pages.pdf", &["Page 300 of the log. Entry 900."], &[]);
    let start = found.text.find("Page 300 of").unwrap();
    assert_eq!((found.pages.len(), found.pages[299]), (400, start));
    assert!(found.notes.is_empty(), "{:?}", found.notes);

    let mixed = check("mixed_scan.pdf", &["The speed limit inside the mole is four knots."], &[]);
    assert!(mixed.notes[0].starts_with("pages 2-4 have no text"), "{:?}", mixed.notes);
    check("encrypted_owner_rc4.pdf", &["Night arrivals use berth two."], &[]);

    let columns = check("two_columns.pdf", &[], &[]);
    let words = columns.text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (left, right) = (words.rfind("how to store them dry.").unwrap(), words.find("Right column").unwrap());
    assert!(left < right, "{words}");

    let release = check("real_pdfs/copyright-release.pdf", &["SQLite is software that implements"], &[]);
    assert!(release.text.len() > 1500, "{}", release.text);
}

#[test]
fn entities_are_not_expanded_anywhere() {
    let laughs = b"<?xml version='1.0'?><!DOCTYPE l [<!ENTITY a 'lol'><!ENTITY b '&a;&a;'>]><l>&b;</l>";
    assert_eq!(read_bytes(laughs, "a.xml").map_err(|e| e.code()), Err("entity_declarations"));
    assert_eq!(read_bytes(laughs, "a").map_err(|e| e.code()), Err("entity_declarations"));
}

#[test]
fn mail_says_who_and_what_and_brings_its_attachments() {
    let mail = "From: \"Ada L\" <ada@example.org>\r\nTo: crew@example.org\r\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\n\
                Date: Tue, 1 Dec 2026 10:00:00 +0100\r\nMIME-Version: 1.0\r\n\
                Content-Type: multipart/mixed; boundary=\"b\"\r\n\r\n--b\r\nContent-Type: text/html; charset=iso-8859-1\r\n\
                Content-Transfer-Encoding: quoted-printable\r\n\r\n<p>The k=F6ln pump <b>stops</b> at noon.</p>\r\n--b\r\n\
                Content-Type: text/csv; name=\"list.csv\"\r\nContent-Disposition: attachment; filename=\"list.csv\"\r\n\r\n\
                part,qty\r\nA-1,04\r\n--b\r\nContent-Type: image/png; name=\"x.png\"\r\nContent-Disposition: attachment; \
                filename=\"x.png\"\r\nContent-Transfer-Encoding: base64\r\n\r\niVBORw0KGgoAAAANSUhEUgAAAAEAAAAB\r\n--b--\r\n";
    let found = read_bytes(mail.as_bytes(), "a.eml").unwrap();
    for part in [
        "# Grüße",
        "From: Ada L <ada@example.org>",
        "To: crew@example.org",
        "Date: 2026-12-01T10:00:00+01:00",
        "The köln pump",
        "## list.csv\n\n| part | qty |\n| --- | --- |\n| A-1 | 04 |",
    ] {
        assert!(found.text.contains(part), "no {part:?} in {}", found.text);
    }
    assert!(found.notes.iter().any(|note| note.starts_with("the attachment x.png was left out")), "{:?}", found.notes);
    assert_eq!((found.kind, found.title.as_deref()), (Kind::Email, Some("Grüße")));
    // Without a name its headers give it away.
    assert_eq!(read_bytes(mail.as_bytes(), "a").map(|e| e.kind), Ok(Kind::Email));
}

/// No body is lost, and none is decoded by a charset that it does not have.
#[test]
fn mail_bodies_are_whole_and_rightly_decoded() {
    let two = |kind: &str, plain: &str, html: &str, more: &str| {
        format!(
            "From: a@b\nContent-Type: multipart/{kind}; boundary=b\n\n--b\nContent-Type: text/plain\n\n{plain}\n--b\n\
             Content-Type: text/html\n\n{html}\n{more}--b--\n"
        )
    };
    let plain = |kind: &str, body: &[u8]| [format!("From: a@b\n{kind}\n\n").as_bytes(), body].concat();
    let footer = "--b\nContent-Type: text/plain\n\nlist footer\n";
    let base64 = "Content-Type: text/plain\nContent-Transfer-Encoding: base64";
    for (mail, text) in [
        (two("mixed", "see below", "<p>the page</p>", "").into_bytes(), "see below\n\nthe page"),
        (two("mixed", "", "<p>the page</p>", footer).into_bytes(), "the page\n\nlist footer"),
        (two("alternative", "once", "<p>twice</p>", "").into_bytes(), "once"),
        (two("alternative", " ", "<p>the page</p>", "").into_bytes(), "the page"),
        (plain("Content-Type: text/plain", b"Gr\xFC\xDFe aus K\xF6ln, M\xFCnchen"), "Grüße aus Köln, München"),
        (plain("Content-Type: text/plain; charset=us-ascii", "Größe".as_bytes()), "Größe"),
        (plain("Content-Type: text/plain; charset=iso-8859-1", "Größe".as_bytes()), "Größe"),
        (plain("Content-Type: text/plain; charset=iso-8859-1", b"Gr\xF6\xDFe"), "Größe"),
        (plain("Content-Type: text/plain; charset=utf-7", b"Gr+APYA3w-e"), "Größe"),
        (plain("Content-Type: text/html", b"<meta charset=iso-8859-1><p>Gr\xF6\xDFe"), "Größe"),
        (plain(base64, b"R3L832UgYXVzIEv2bG4sIE38bmNoZW4=\n"), "Grüße aus Köln, München"),
    ] {
        let found = read_bytes(&mail, "a.eml").unwrap();
        let want = format!("From: a@b\n\n{text}");
        assert_eq!(found.text, want, "{}", String::from_utf8_lossy(&mail));
    }
    let attached = [two("mixed", "x", "y", "").trim_end_matches("--b--\n").as_bytes(),
        b"--b\nContent-Type: text/plain; name=n.txt\nContent-Disposition: attachment\n\nDie K\xF6ln Gr\xF6\xDFe\n--b--\n"].concat();
    assert!(read_bytes(&attached, "a.eml").unwrap().text.ends_with("## n.txt\n\nDie Köln Größe"));
    let subject = read_bytes(b"Subject: Gr\xF6\xDFe f\xFCr \xD6l\nFrom: a@b\n\nx", "a.eml").unwrap();
    assert_eq!(subject.title.as_deref(), Some("Größe für Öl"));
}

#[test]
fn a_book_is_read_in_the_order_of_its_chapters() {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in [
        ("mimetype", "application/epub+zip"),
        ("META-INF/container.xml", "<container><rootfile full-path='OEBPS/book.opf'/></container>"),
        (
            "OEBPS/book.opf",
            "<package><metadata><dc:title>The Lock</dc:title></metadata><manifest><item id='b' href='two.xhtml'/>\
             <item id='a' href='ch%201.xhtml'/></manifest><spine><itemref idref='a'/><itemref idref='b'/></spine></package>",
        ),
        (
            "OEBPS/two.xhtml",
            "<html><body><section><header><h1>Two</h1></header><p>The gate closes.</p><aside>A note.</aside></section></body></html>",
        ),
        ("META-INF/encryption.xml", "<encryption><CipherReference URI='OEBPS/xhtml/fonts/a.otf'/></encryption>"),
        ("OEBPS/ch 1.xhtml", "<html><body><h1>One</h1><p>The gate opens.</p></body></html>"),
    ] {
        zip.start_file(name, SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    let book = zip.finish().unwrap().into_inner();
    let found = read_bytes(&book, "book.epub").unwrap();
    assert_eq!(found.text, "# One\n\nThe gate opens.\n\n# Two\n\nThe gate closes.\n\nA note.");
    assert_eq!((found.kind, found.title.as_deref()), (Kind::Epub, Some("The Lock")));
}
