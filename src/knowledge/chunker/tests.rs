//! The laws of chunking, on the real tokenizer, over the handed documents and hostile texts.

use super::super::extract::{RawDocument, extract};
use super::measure::is_mark;
use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::LazyLock;
use tokenizers::models::bpe::BPE;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use unicode_segmentation::UnicodeSegmentation;

const WINDOW: usize = 256;

/// The default model's tokenizer, as the embedder hands it out.
static TOKENIZER: LazyLock<Arc<Tokenizer>> = LazyLock::new(|| {
    let models = std::env::var_os("TAILRACE_TEST_MODELS")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("models"), PathBuf::from);
    let path = models.join("all-minilm-l6-v2/tokenizer.json");
    let mut tokenizer =
        Tokenizer::from_file(&path).unwrap_or_else(|e| panic!("{}: {e}; `scripts/assets` fetches it", path.display()));
    tokenizer.with_truncation(None).unwrap();
    tokenizer.with_padding(None);
    Arc::new(tokenizer)
});

/// One token for each byte and nothing split off at its right: the worst that a model can do.
static BYTES: LazyLock<Arc<Tokenizer>> = LazyLock::new(|| {
    let bytes =
        ByteLevel::alphabet().into_iter().zip(0..).map(|(c, id)| (c.to_string(), id)).collect::<Vec<(String, u32)>>();
    let vocabulary = <[(String, u32); 256]>::try_from(bytes).unwrap();
    let model = BPE::builder().vocab_and_merges(vocabulary, Vec::new()).build().unwrap();
    let mut tokenizer = Tokenizer::new(model);
    tokenizer.with_pre_tokenizer(Some(ByteLevel::new(false, true, true)));
    Arc::new(tokenizer)
});

fn chunker() -> Chunker {
    Chunker::new(TOKENIZER.clone(), ChunkOptions::for_window(WINDOW))
}

/// Checks every law, and returns the chunks.
fn lawful<'t>(
    tokenizer: &Arc<Tokenizer>,
    window: usize,
    text: &'t str,
    kind: Kind,
    title: Option<&str>,
) -> Vec<ChunkText<'t>> {
    let chunker = Chunker::new(tokenizer.clone(), ChunkOptions::for_window(window));
    let chunks = chunker.chunk(text, kind, title).unwrap();
    assert_eq!(chunks, chunker.chunk(text, kind, title).unwrap(), "the same text again");
    let tokens_of = |text: &str| tokenizer.encode_fast(text, true).unwrap().len();
    let borders: BTreeSet<usize> = text.grapheme_indices(true).map(|(start, _)| start).collect();
    let mut covered = 0;
    let mut before = 0;
    for (i, chunk) in chunks.iter().enumerate() {
        assert_eq!(chunk.ordinal, i);
        assert_eq!(text.get(chunk.start..chunk.end), Some(chunk.text), "offsets are the slice's");
        assert!(!chunk.text.trim().is_empty());
        assert!(chunk.start >= before, "in order");
        before = chunk.start;
        let gap = text.get(covered.min(chunk.start)..chunk.start).unwrap();
        assert!(gap.trim().is_empty(), "lost: {gap:?}");
        covered = covered.max(chunk.end);
        let embedded = chunk.embed_text();
        let tokens = tokens_of(&embedded);
        assert!(tokens <= window, "{tokens} tokens in {embedded:?}");
        // Special tokens that a text spells out are counted as what they look like.
        assert!(
            chunk.tokens == tokens || (chunk.tokens > tokens && text.contains("[CLS]")),
            "{} for {tokens}: {embedded:?}",
            chunk.tokens
        );
        assert!(chunk.tokens <= window);
        // The grapheme that spans a place, if it is one that may be cut.
        let passes_window = |at: usize| {
            let start = borders.range(..at).next_back().copied().unwrap_or(0);
            let grapheme = text.get(start..borders.range(at..).next().copied().unwrap_or(text.len())).unwrap();
            tokens_of(grapheme) > window / 2 || grapheme.len() > 4096
        };
        if chunk.start > 0 && chunk.text.starts_with(is_mark) {
            assert!(passes_window(chunk.start), "begins with a mark: {:?}", chunk.text.get(..8));
        }
        for at in [chunk.start, chunk.end] {
            assert!(at == text.len() || borders.contains(&at) || passes_window(at), "a grapheme is cut at {at}");
        }
    }
    assert!(text.get(covered..).unwrap().trim().is_empty(), "lost the end: {:?}", text.get(covered..));
    chunks
}

fn file(name: &str) -> (String, Kind, Option<String>) {
    let path = format!("{}/tests/data/ingest/{name}", env!("CARGO_MANIFEST_DIR"));
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let read = extract(&RawDocument { bytes: &bytes, name, mime: None }).unwrap();
    (read.text, read.kind, read.title)
}

#[test]
fn handed_files_obey_the_laws() {
    for name in [
        "utf8_bom.txt",
        "latin1.txt",
        "gb18030.txt",
        "shift_jis.txt",
        "control_chars.txt",
        "emoji_combining.txt",
        "ligatures.txt",
        "ar_rtl.txt",
        "big_table.md",
        "front_matter.md",
        "setext_and_html.md",
        "boilerplate.html",
        "deep_nesting.html",
        "minified.js",
        "code_lines.rs",
        "quirky.csv",
    ] {
        let (text, kind, title) = file(name);
        assert!(!lawful(&TOKENIZER, WINDOW, &text, kind, title.as_deref()).is_empty(), "{name}");
    }
}

/// Law "nothing is ever silently cut by the model's window", where the text does its worst.
#[test]
fn hostile_texts_obey_the_laws() {
    let long_heading = format!("# {}\n\n## {}\n\ntext\n", "very long heading ".repeat(60), "sub ".repeat(400));
    let texts = [
        "a".repeat(5_000),
        "0123456789abcdef".repeat(600),
        "x-y_z".repeat(2_000),
        "仓库温度记录".repeat(400),
        "พนักงานตรวจสอบปั๊มทุกวันจันทร์".repeat(60),
        "👩\u{200d}👩\u{200d}👧\u{200d}👦".repeat(400),
        "🇩🇪🇫🇷".repeat(400),
        format!("a{} b", "\u{301}".repeat(400)).repeat(8),
        format!("x \u{301}\u{301}y\n\u{301}z {}", "word \u{200d}".repeat(500)),
        "\u{301}\u{302}starts with marks ".repeat(200),
        format!("{}needle", "\n".repeat(3_000)),
        "word ".repeat(3_000),
        "a b c d e f g h i j k l m n o p q r s t u v w x y z ".repeat(100),
        "## h\n\n".repeat(800),
        format!("{long_heading}{}", "more text. ".repeat(500)),
        format!(
            "| {} |\n|{}\n{}",
            "column name | ".repeat(80),
            "---|".repeat(81),
            format!("| {} |\n", "cell | ".repeat(80)).repeat(20)
        ),
        format!("|a|b|\n|-|-|\n|{}|x|\n", "long cell ".repeat(600)),
        format!("```\n{}\n```\n", "let x = 1;\n".repeat(400)),
        "> ".repeat(500) + "deep quote",
        "[CLS] [SEP] [MASK] [UNK] ".repeat(300),
        "ﷺ".repeat(900),
    ];
    for text in &texts {
        for kind in [Kind::Text, Kind::Markdown, Kind::Code] {
            lawful(&TOKENIZER, WINDOW, text, kind, Some("A title"));
            lawful(&TOKENIZER, 32, text, kind, Some(text.get(..text.floor_char_boundary(300)).unwrap()));
        }
        if text.len() < 6_000 {
            lawful(&BYTES, WINDOW, text, Kind::Markdown, Some("A title"));
        }
    }
}

#[test]
fn rows_of_a_big_table_carry_their_header() {
    let (text, kind, _) = file("big_table.md");
    let chunks = lawful(&TOKENIZER, WINDOW, &text, kind, None);
    let header = "| part | rpm limit | torque Nm | supplier |";
    for chunk in chunks.iter().filter(|c| c.text.contains("| M-")) {
        assert!(chunk.embed_text().contains(header) && chunk.shown_text().contains(header));
        assert_eq!(chunk.heading_path, ["Motor limits"]);
        assert!(chunk.embed_text().contains("Motor limits"));
    }
    let torque = chunks.iter().find(|c| c.text.contains("M-137")).unwrap();
    assert!(
        torque.shown_text().starts_with(&format!("{header}\n| --- | --- | --- | --- |\n| M-1")),
        "{}",
        torque.shown_text()
    );
    let whole_rows = torque.text.lines().all(|line| line.starts_with("| M-") && line.ends_with(" |"));
    assert!(whole_rows, "{}", torque.text);
}

#[test]
fn code_is_cut_between_items_with_line_numbers() {
    let (text, kind, _) = file("code_lines.rs");
    let chunks = lawful(&TOKENIZER, WINDOW, &text, kind, None);
    assert_eq!(chunks.iter().map(|c| c.lines).collect::<Vec<_>>(), [Some((1, 10))]);
    // The same item many times: each doc comment stays with its function, whatever is cut.
    let (item, tests) = text.split_once("\n\n").unwrap();
    let items: Vec<String> = (0..40).map(|i| item.replace("mooring", &format!("mooring_{i}"))).collect();
    let code = format!(
        "{}\n\nimpl Pier {{\n    {}\n}}\n{tests}",
        items.join("\n\n"),
        items.join("\n\n").replace('\n', "\n    ")
    );
    let chunks = lawful(&TOKENIZER, WINDOW, &code, Kind::Code, None);
    let all_lines: Vec<&str> = code.lines().collect();
    let mut enclosed = 0;
    for chunk in &chunks {
        assert_eq!(chunk.text.matches("/// Returns").count(), chunk.text.matches("pub fn").count(), "{}", chunk.text);
        let (first, last) = chunk.lines.unwrap();
        assert_eq!(chunk.text.lines().next().map(str::trim), all_lines.get(first - 1).map(|l| l.trim()));
        assert_eq!(chunk.text.lines().last().map(str::trim), all_lines.get(last - 1).map(|l| l.trim()));
        if chunk.text.starts_with("    ") {
            assert_eq!(chunk.heading_path, ["impl Pier"]);
            assert!(chunk.embed_text().starts_with("impl Pier\n\n"));
            enclosed += 1;
        }
    }
    assert!(enclosed > 5, "{enclosed}");
}

#[test]
fn headings_stand_with_what_is_below_them() {
    let filler = "The crew checks the tank and writes the level down. ".repeat(14);
    let text = format!(
        "# Handbook\n\n{filler}\n\n## Pumps\n\n{filler}{filler}\n\n### Code\n\n```sh\n{}```\n\nend",
        "run --pump 7 --now\n".repeat(60)
    );
    let chunks = lawful(&TOKENIZER, WINDOW, &text, Kind::Markdown, Some("Harbour"));
    for chunk in &chunks {
        let last = chunk.text.lines().last().unwrap();
        assert!(!last.starts_with('#') && last != "```sh", "an orphan at the end of {:?}", chunk.text);
        assert!(!chunk.text.starts_with("```\n\n"), "an orphan at the start of {:?}", chunk.text);
    }
    let middle = chunks.iter().find(|c| c.text.starts_with("run")).unwrap();
    assert_eq!(middle.heading_path, ["Handbook", "Pumps", "Code"]);
    assert!(middle.embed_text().starts_with("Harbour > Handbook > Pumps > Code\n\nrun"), "{}", middle.embed_text());
    let second = chunks.iter().find(|c| c.text.starts_with("## Pumps")).unwrap();
    assert!(second.embed_text().starts_with("Harbour > Handbook\n\n## Pumps"), "{}", second.embed_text());
}

#[test]
fn the_title_is_said_once() {
    let embedded = |text: &str, title: &str| {
        chunker().chunk(text, Kind::Markdown, Some(title)).unwrap().first().unwrap().embed_text()
    };
    assert_eq!(embedded("# Siren policy\n\nNoon.", "Siren policy"), "# Siren policy\n\nNoon.");
    assert_eq!(embedded("Noon.", "Siren policy"), "Siren policy\n\nNoon.");
    assert_eq!(embedded("Noon.", "  "), "Noon.");
    assert_eq!(embedded("## Part\n\nNoon.", "Siren policy"), "Siren policy\n\n## Part\n\nNoon.");
}

#[test]
fn neighbours_overlap() {
    let text = (0..120).map(|i| format!("Sentence number {i} says that tank {i} is full. ")).collect::<String>();
    let chunks = lawful(&TOKENIZER, WINDOW, &text, Kind::Text, None);
    let overlaps: Vec<usize> = chunks.windows(2).map(|w| w[0].end.saturating_sub(w[1].start)).collect();
    assert!(overlaps.iter().all(|bytes| *bytes > 20 && *bytes < 250), "{overlaps:?}");
}

#[test]
fn blank_texts_have_no_chunks() {
    for text in ["", " \n\t\n", "\u{3000}"] {
        assert!(lawful(&TOKENIZER, WINDOW, text, Kind::Markdown, Some("t")).is_empty());
    }
}

/// Megabytes in pieces: nothing is lost at their borders, and the work stays linear (it is counted by time only
/// because text-splitter offers no other measure; a quadratic pass over this takes minutes).
#[test]
fn a_long_text_is_cut_in_pieces() {
    let words = "The crew of the harbour checks each tank before noon. ";
    let lines: String =
        (0..6_000).map(|i| format!("{words}\n{}", if i % 7 == 0 { "\n## A heading\n\n" } else { "" })).collect();
    let begun = std::time::Instant::now();
    for kind in [Kind::Markdown, Kind::Text, Kind::Code] {
        let chunks = chunker().chunk(&lines, kind, None).unwrap();
        let mut covered = 0;
        for chunk in &chunks {
            assert!(lines.get(covered.min(chunk.start)..chunk.start).unwrap().trim().is_empty());
            covered = covered.max(chunk.end);
        }
        assert!(lines.get(covered..).unwrap().trim().is_empty());
    }
    let one_line = words.trim().replace(' ', "").repeat(4_000);
    assert!(!chunker().chunk(&one_line, Kind::Code, None).unwrap().is_empty());
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_obeys_the_laws(
        text in proptest::collection::vec(
            prop_oneof![
                8 => "[a-zA-Zäéß]{1,12}",
                4 => Just(" ".to_owned()),
                2 => Just("\n".to_owned()),
                2 => Just("\n\n".to_owned()),
                1 => Just("# ".to_owned()),
                1 => Just("| a | b |\n|---|---|\n| c | d |\n".to_owned()),
                1 => Just("```\n".to_owned()),
                1 => Just("    fn x() {\n".to_owned()),
                1 => "[中文仓库]{1,9}",
                1 => "\\PC{1,6}",
                1 => "a?[\u{300}-\u{310}\u{200d}]{1,40}",
                1 => "[a-z0-9]{70,200}",
                1 => Just("👩\u{200d}👧🇩🇪".to_owned()),
                1 => "[!-/:-@]{1,30}",
            ],
            0..400,
        ),
        kind in prop_oneof![Just(Kind::Markdown), Just(Kind::Html), Just(Kind::Text), Just(Kind::Code)],
        window in prop_oneof![Just(WINDOW), Just(40)],
        title in proptest::option::of("[a-z ]{0,40}"),
    ) {
        lawful(&TOKENIZER, window, &text.concat(), kind, title.as_deref());
    }
}
