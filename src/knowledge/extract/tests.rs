//! The handed documents that broke ingestion elsewhere, and more of the same kinds.

mod formats;

use super::*;
use proptest::prelude::*;

fn file(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/data/ingest/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn read_file(name: &str) -> Result<Extracted, ExtractError> {
    extract(&RawDocument { bytes: &file(name), name, mime: None })
}

fn read_bytes(bytes: &[u8], name: &str) -> Result<Extracted, ExtractError> {
    extract(&RawDocument { bytes, name, mime: None })
}

#[test]
fn handed_files_are_read() {
    let cases: &[(&str, &[&str], &[&str])] = &[
        ("utf8_bom.txt", &["KESTREL-BOM marker", "Die Prüfung"], &["\u{FEFF}"]),
        ("latin1.txt", &["Wärmepumpe", "Flügelschraube. Übergabe am Dönerstand."], &["\u{FFFD}"]),
        ("cp1252.txt", &["The “Osprey” licence costs €40 – not £38. Don’t round it…"], &["\u{FFFD}"]),
        ("utf16be_bom.txt", &["Puffin ledger closes on Friday."], &[]),
        ("utf16le_nobom.txt", &["Plover memo without a byte order mark. It is plain English."], &[]),
        ("gb18030.txt", &["零下十八度", "负责人每日早晚各检查一次"], &[]),
        ("shift_jis.txt", &["三号ポンプの点検は毎週月曜日に行います。"], &[]),
        (
            "control_chars.txt",
            &["Vulture red text  and a form feed\npage two says amber wrench."],
            &["\u{1b}", "\u{8}", "[31m"],
        ),
        ("emoji_combining.txt", &["👩\u{200d}👩\u{200d}👧\u{200d}👦", "quagga"], &[]),
        ("ligatures.txt", &["oﬃce eﬃciency", "ＡＢＣ１２３"], &[]),
        ("ar_rtl.txt", &["كلمة السر هي الياسمين"], &[]),
        ("big_table.md", &["| part | rpm limit | torque Nm | supplier |", "| M-137 |"], &[]),
        ("front_matter.md", &["# Siren policy", "Sirens are tested at noon."], &["draft", "alarm"]),
        (
            "setext_and_html.md",
            &["Main title\n==========", "Sub title\n---------", "Text under sub title."],
            &["zinc", "<div", "<img"],
        ),
        (
            "boilerplate.html",
            &[
                "# Cable drums",
                "A drum of type K7 holds 250 m & weighs 31 kg.",
                "| Type | Length |\n| --- | --- |\n| K7 | 250 |",
                "drum --type K7\n  --unroll",
            ],
            &[
                "SCRIPTWORD",
                "NOSCRIPTWORD",
                "TEMPLATEWORD",
                "JSONLDWORD",
                "HIDDENWORD",
                "Accept all",
                "Imprint",
                "Home",
                "color:red",
            ],
        ),
        ("latin1_meta.html", &["Schöne Grüße aus Fürth."], &["\u{FFFD}"]),
        ("deep_nesting.html", &["needle at depth"], &["<div"]),
        ("minified.js", &["var a={k0:function(){return \"v0\"}"], &[]),
        ("code_lines.rs", &["/// Returns the mooring tension in newtons.\npub fn mooring_tension"], &[]),
        (
            "quirky.csv",
            &[
                "| part | note | qty |",
                "| A-1 | line one line two; still same cell | 3 |",
                "says \"handle with care\" | 04 |",
                "| A-3 | short row |",
            ],
            &["sep="],
        ),
        ("instruction_in_text.md", &["The tide table is kept in drawer six."], &[]),
        ("dup_one.md", &[], &[]),
    ];
    for (name, has, lacks) in cases {
        let found = read_file(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        for part in *has {
            assert!(
                found.text.contains(part),
                "{name} lacks {part:?}: {:?}",
                found.text.get(..400.min(found.text.len()))
            );
        }
        for part in *lacks {
            assert!(!found.text.contains(part), "{name} has {part:?}");
        }
        assert_clean(&found.text);
    }
}

#[test]
fn handed_files_tell_their_charset_and_title() {
    let charset = |name| read_file(name).map(|e| (e.charset, e.charset_guessed)).unwrap();
    assert_eq!(charset("utf8_bom.txt"), ("utf-8".into(), false));
    assert_eq!(charset("latin1.txt"), ("windows-1252".into(), true));
    assert_eq!(charset("utf16be_bom.txt"), ("utf-16be".into(), false));
    assert_eq!(charset("utf16le_nobom.txt"), ("utf-16le".into(), true));
    assert_eq!(charset("shift_jis.txt"), ("shift_jis".into(), true));
    assert_eq!(charset("gb18030.txt"), ("gbk".into(), true));
    assert_eq!(charset("latin1_meta.html"), ("windows-1252".into(), false));
    let siren = read_file("front_matter.md").unwrap().metadata();
    assert_eq!((&siren["tags"], &siren["draft"]), (&serde_json::json!(["alarm", "night"]), &false.into()));
    // What the reader finds out is not for a document to say, and the beginning alone says the same.
    let text = b"---\nlang: de\nformat: spoof\ncharset_guessed: true\n---\nText";
    let raw = RawDocument { bytes: text, name: "a.md", mime: None };
    assert_eq!(Value::Object(fields(&raw)), serde_json::json!({"lang": "de"}));
    let found = extract(&raw).unwrap();
    assert_eq!(
        Value::Object(found.metadata()),
        serde_json::json!({"lang": "de", "format": "markdown", "charset": "utf-8"})
    );
    let title = |name| read_file(name).unwrap().title;
    assert_eq!(title("front_matter.md").as_deref(), Some("Siren policy"));
    assert_eq!(title("setext_and_html.md").as_deref(), Some("Main title"));
    assert_eq!(title("boilerplate.html").as_deref(), Some("Cable drums"));
    assert_eq!(title("latin1_meta.html").as_deref(), Some("Grüße"));
    assert_eq!(title("latin1.txt"), None);
    let guessed = read_file("latin1.txt").unwrap();
    assert_eq!(guessed.metadata().get("charset_guessed"), Some(&true.into()));
    assert!(guessed.notes.contains(&"charset guessed: windows-1252".to_owned()), "{:?}", guessed.notes);
    assert!(read_file("control_chars.txt").unwrap().notes.iter().any(|n| n.ends_with("control characters removed")));
}

#[test]
fn handed_files_are_refused() {
    for (name, code, status) in [
        ("whitespace_only.md", "empty_document", 422),
        ("png_named.txt", "binary_content", 415),
        ("ole_header.doc", "unsupported_type", 415),
        ("zip_many_entries.zip", "unsupported_type", 415),
        ("deep.json", "too_deep", 422),
        ("truncated.docx", "corrupt_document", 422),
        ("bomb_lying_sizes.docx", "expands_too_far", 413),
        ("scanned.pdf", "no_text", 422),
        ("footer_only_scan.pdf", "no_text", 422),
        ("encrypted_user_aes256.pdf", "encrypted_document", 422),
    ] {
        let error = read_file(name).unwrap_err();
        assert_eq!((error.code(), error.status()), (code, status), "{name}");
    }
}

#[test]
fn more_binaries_and_empties_are_refused() {
    let noise: Vec<u8> = (0..4096u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let elf = [b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".as_slice(), &noise].concat();
    let gzip = [b"\x1f\x8b\x08\0\0\0\0\0\0\x03".as_slice(), &noise].concat();
    // Small numbers look like UTF-16 and UTF-32 from afar.
    let quiet: Vec<u8> = (0..2000i16).flat_map(|i| (i * 7 % 90 - 20).to_le_bytes()).collect();
    let wave = [b"RIFF\x84\x0f\0\0WAVEfmt ".as_slice(), &quiet].concat();
    let numbers: Vec<u8> = (0..1000u32).flat_map(|i| (i * 7 % 120).to_le_bytes()).collect();
    let cases: &[(&[u8], &str, &str)] = &[
        (b"", "a.txt", "empty_document"),
        (b"\xEF\xBB\xBF", "a.md", "empty_document"),
        ("\u{200B}\u{AD}\u{2003}\u{FEFF}\n".as_bytes(), "a.txt", "empty_document"),
        (b"<html><body><script>x()</script></body></html>", "a.html", "empty_document"),
        (b"<!-- nothing -->", "a.md", "empty_document"),
        (b"---\ntitle: x\n---\n", "a.md", "empty_document"),
        (&[0; 64], "a.txt", "binary_content"),
        (&wave, "a.txt", "binary_content"),
        (&numbers, "a.dat", "binary_content"),
        (&noise, "a.txt", "binary_content"),
        (&elf, "a.rs", "binary_content"),
        (&gzip, "a.txt", "unsupported_type"),
        (b"%PDF-1.4 1 0 obj << >> endobj", "a.txt", "corrupt_document"),
        (b"{\\rtf1\\ansi Hello}", "a.txt", "unsupported_type"),
        (&[&b"PK\x03\x04"[..], &noise].concat(), "a.docx", "corrupt_document"),
        (b"just text", "PHOTO.JPG", "unsupported_type"),
        (b"\xFF\xFE\x00\xD8\x00\xD8\x00\xD8\x00\xD8", "a.txt", "unknown_encoding"),
    ];
    for (bytes, name, code) in cases {
        match read_bytes(bytes, name) {
            Err(error) => assert_eq!(error.code(), *code, "{name} {:?}", bytes.get(..16.min(bytes.len()))),
            Ok(found) => panic!("{name} {:?} was read as {:?}", bytes.get(..16.min(bytes.len())), found.text),
        }
    }
    let message = read_bytes(b"x", "a.rtf").unwrap_err().to_string();
    assert!(message.contains("PDF, Word, Excel and PowerPoint"), "{message}");
    // What is called a container and is none is what it is.
    assert_eq!(read_bytes(b"just text", "a.docx").map(|e| e.kind), Ok(Kind::Text));
}

/// Text that begins like a binary format is text.
#[test]
fn magic_numbers_in_text_do_not_mislead() {
    for text in [
        "BMW is a car",
        "MZ is a prefix",
        "GIF or JIF",
        "ID3 tags",
        "II* and MM",
        "FWS",
        "Rar! said he",
        "%!PS is ours",
        "OggS",
        "#!/bin/sh\necho",
    ] {
        assert_eq!(read_bytes(text.as_bytes(), "a.txt").map(|e| e.text).as_deref(), Ok(text));
    }
}

#[test]
fn charsets_are_found() {
    let german = "Die Prüfung der Wärmepumpe im Gästehaus läuft störungsfrei. Größe und Maß stehen im Übergabeprotokoll für die Äpfel.";
    let russian = "Насосная станция проверяется каждый понедельник утром, журнал хранится у дежурного.";
    let chinese = "仓库温度记录：三号冷柜的温度不得高于零下十八度。负责人每日早晚各检查一次。";
    let japanese = "三号ポンプの点検は毎週月曜日に行います。異音がある場合はすぐに停止してください。";
    let korean = "삼호 펌프의 점검은 매주 월요일에 합니다. 이상한 소리가 나면 즉시 멈추십시오.";
    let greek = "Η αντλία ελέγχεται κάθε Δευτέρα το πρωί από τον υπεύθυνο βάρδιας.";
    let polish = "Pompa numer trzy jest sprawdzana w każdy poniedziałek rano, żółta książka leży w szufladzie.";
    let cases = [
        ("windows-1252", german),
        ("iso-8859-15", german),
        ("macintosh", german),
        ("windows-1251", russian),
        ("koi8-r", russian),
        ("gb18030", chinese),
        ("big5", "倉庫溫度記錄：三號冷櫃的溫度不得高於零下十八度。負責人每日早晚各檢查一次。"),
        ("shift_jis", japanese),
        ("euc-jp", japanese),
        ("iso-2022-jp", japanese),
        ("euc-kr", korean),
        ("windows-1253", greek),
        ("windows-1250", polish),
        ("iso-8859-2", polish),
    ];
    for (label, text) in cases {
        let encoding = encoding_rs::Encoding::for_label(label.as_bytes()).unwrap();
        let bytes = encoding.encode(text).0.into_owned();
        let declared = format!("text/plain; charset=\"{label}\"");
        let found = extract(&RawDocument { bytes: &bytes, name: "a.txt", mime: Some(&declared) }).unwrap();
        assert_eq!((found.text.as_str(), found.charset_guessed), (text, false), "{label} declared");
        // Without a declaration: right, or refused. (Old Macintosh is in no detector's list.)
        match read_bytes(&bytes, "a.txt") {
            Ok(found) => {
                assert!(found.text == text || label == "macintosh", "{label} read as {}: {}", found.charset, found.text)
            }
            Err(error) => assert_eq!(error, ExtractError::UnknownEncoding, "{label}"),
        }
        let page = format!(
            "<html><head><meta http-equiv='Content-Type' content='text/html; charset={label}'></head><p>{text}</p>"
        );
        let page = encoding.encode(&page).0.into_owned();
        assert_eq!(read_bytes(&page, "a.html").unwrap().text, text, "{label} in a meta tag");
    }
}

#[test]
fn unicode_forms_are_found_with_and_without_a_mark() {
    let texts = [
        "Plover memo without a mark.\nIt is plain English.",
        "仓库温度记录，三号冷柜 A1\n负责人每日早晚各检查一次。\n",
        "Насосная станция №3\nжурнал",
    ];
    for text in texts {
        let two = |little: bool| {
            let unit = move |u: u16| if little { u.to_le_bytes() } else { u.to_be_bytes() };
            text.encode_utf16().flat_map(unit).collect::<Vec<u8>>()
        };
        let four = |little: bool| {
            let unit = move |c: char| if little { u32::from(c).to_le_bytes() } else { u32::from(c).to_be_bytes() };
            text.chars().flat_map(unit).collect::<Vec<u8>>()
        };
        let forms = [
            ("utf-16le", two(true), &b"\xFF\xFE"[..]),
            ("utf-16be", two(false), b"\xFE\xFF"),
            ("utf-32le", four(true), b"\xFF\xFE\0\0"),
            ("utf-32be", four(false), b"\0\0\xFE\xFF"),
        ];
        for (charset, bytes, mark) in forms {
            let found = read_bytes(&bytes, "a.txt").unwrap_or_else(|e| panic!("{charset} {text}: {e}"));
            assert_eq!(
                (found.text.as_str(), found.charset.as_str(), found.charset_guessed),
                (text.trim_end(), charset, true)
            );
            let found = read_bytes(&[mark, &bytes].concat(), "a.txt").unwrap();
            assert_eq!(
                (found.text.as_str(), found.charset.as_str(), found.charset_guessed),
                (text.trim_end(), charset, false)
            );
        }
    }
}

#[test]
fn damaged_and_misdeclared_utf8_is_mended() {
    let text = "Größe, Maß, Übermut, Äpfel, Öl, süß, Bär, Tür, Stück, Höhe, Füße, Käse, Wörter, Züge, Bögen, Gäste, Hüte, Nüsse.";
    let cut = [text.as_bytes(), b"\xC3"].concat();
    let found = read_bytes(&cut, "a.txt").unwrap();
    assert_eq!((found.text.as_str(), found.charset.as_str()), (text, "utf-8"));
    assert_eq!(found.notes, ["1 bytes that are not UTF-8 removed"]);
    // One wrong byte does not make another language of it, nor do a few right ones make UTF-8 of Latin-1.
    for stray in [&b"\x80"[..], b"\xE9", b"\xFF"] {
        let found = read_bytes(&["Größe für Öl".as_bytes(), stray, b" Ende."].concat(), "a.txt").unwrap();
        assert_eq!((found.text.as_str(), found.charset.as_str()), ("Größe für Öl Ende.", "utf-8"));
    }
    let declared = RawDocument { bytes: b"K\xC3\xB6ln\xE9", name: "a.txt", mime: Some("text/plain; charset=utf-8") };
    assert_eq!(extract(&declared).unwrap().text, "Köln");
    let wrong =
        extract(&RawDocument { bytes: text.as_bytes(), name: "a.txt", mime: Some("text/plain; charset=iso-8859-1") })
            .unwrap();
    assert_eq!(wrong.text, text);
    let nul = read_bytes(b"amber\0 wrench in drawer four", "a.txt").unwrap();
    assert_eq!((nul.text.as_str(), nul.notes.len()), ("amber wrench in drawer four", 1));
}

#[test]
fn kinds_follow_name_type_and_content() {
    let kind =
        |name: &str, mime: Option<&str>, bytes: &[u8]| extract(&RawDocument { bytes, name, mime }).map(|e| e.kind);
    assert_eq!(kind("a/b.RS", Some("application/octet-stream"), b"fn x() {}"), Ok(Kind::Code));
    assert_eq!(kind("Dockerfile", None, b"FROM x"), Ok(Kind::Code));
    assert_eq!(kind("notes", Some("text/markdown; charset=utf-8"), b"# x"), Ok(Kind::Markdown));
    assert_eq!(kind("notes", None, b"  <!-- c --><!DOCTYPE html><p>x"), Ok(Kind::Html));
    assert_eq!(kind("notes.txt", Some("text/html"), b"<html><p>x"), Ok(Kind::Html));
    assert_eq!(kind("notes.md", Some("text/html"), b"# x"), Ok(Kind::Markdown));
    assert_eq!(kind("notes.xyz", None, b"x"), Ok(Kind::Text));
    // A text is what it is, not what it is called; code may hold anything.
    for (name, bytes, want) in [
        ("a.txt", "<!doctype html><script>var SCRIPTWORD</script><p>x", Kind::Html),
        ("a.md", "<html><body><p>x</body></html>", Kind::Html),
        ("a.json", "<!DOCTYPE html><p>x", Kind::Html),
        ("a.php", "<!DOCTYPE html><p>x", Kind::Code),
        ("a.txt", "<header>no page</header>", Kind::Text),
        ("a.txt", "<?xml version='1.0'?><a>x</a>", Kind::Xml),
        ("a.log", "{\"a\":1}\n{\"a\":2}\n", Kind::Ndjson),
        ("a.txt", "[{\"a\":1}]", Kind::Json),
        ("a.txt", "{\"a\":1} and more", Kind::Text),
        ("a", "{\"a\":1} and more", Kind::Text),
        ("a.json", "{\"a\":1}\n{\"a\":2}\n", Kind::Ndjson),
        ("a.txt", "From: a@b\nMime-Version: 1.0\n\nx", Kind::Email),
        ("a.txt", "He said\nFrom: a@b\nMime-Version: 1.0\n\nx", Kind::Text),
        ("a.eml", "From: a@b\n\nx", Kind::Email),
        ("a.eml", "no headers, only words\n\nx", Kind::Text),
    ] {
        assert_eq!(kind(name, None, bytes.as_bytes()), Ok(want), "{name} {bytes}");
    }
    let page = |bytes: &[u8], mime, url| {
        read(&RawDocument { bytes, name: url, mime }, Origin::Page, Limits::default()).map(|e| e.kind)
    };
    assert_eq!(page(b"<p>x", Some("text/html; charset=utf-8"), "https://h/main.rs"), Ok(Kind::Html));
    assert_eq!(page(b"# x", Some("text/plain"), "https://h/README.md?raw=1"), Ok(Kind::Markdown));
    assert_eq!(page(b"x", Some("text/plain"), "https://h/index.html"), Ok(Kind::Text));
    assert_eq!(page(b"<!doctype html><p>x", None, "https://example.org"), Ok(Kind::Html));
    assert_eq!(page(b"{}", Some("application/ld+json"), "https://h/"), Ok(Kind::Json));
    assert_eq!(page(b"x", Some("image/png"), "https://h/a").map_err(|e| e.code()), Err("unsupported_type"));
}

#[test]
fn a_character_reference_brings_no_control_character() {
    let cases = [
        ("a.html", "<title>t&#7;</title>&#1a", "a", "t"),
        ("a.html", "x&#27;[31mred&#xFFFE;", "xred", ""),
        ("a.md", "# h\n\n<p>&#8;b</p>", "# h\n\nb", "h"),
    ];
    for (name, input, text, title) in cases {
        let found = read_bytes(input.as_bytes(), name).unwrap();
        assert_eq!((found.text.as_str(), found.title.as_deref().unwrap_or("")), (text, title), "{input}");
        assert!(found.notes.iter().any(|note| note.ends_with("control characters removed")), "{:?}", found.notes);
    }
}

fn assert_clean(text: &str) {
    assert!(!text.chars().any(|c| c.is_control() && c != '\n' && c != '\t'), "control character in {text:?}");
    assert!(!text.contains('\u{FEFF}'));
    assert!(text.chars().any(|c| !control::is_blank(c)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Whatever the bytes: a refusal with a code, or clean text; the same twice.
    #[test]
    fn any_bytes_are_read_cleanly_or_refused(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        text in "[ -~äöüß中文\u{301}\u{200d}👩\n<>/&;|#`-]{0,200}",
        name in prop_oneof![Just("a.txt"), Just("a.md"), Just("a.html"), Just("a.rs"), Just("a")],
    ) {
        for input in [bytes.as_slice(), text.as_bytes(), &[text.as_bytes(), &bytes].concat()] {
            let once = read_bytes(input, name);
            if let Ok(found) = &once {
                assert_clean(&found.text);
            }
            prop_assert_eq!(&once, &read_bytes(input, name));
        }
    }
}
