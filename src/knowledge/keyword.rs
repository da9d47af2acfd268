//! Text to keyword terms, in two pure steps and one vendor step: the language of a collection, the words
//! of a text (here), their BM25 weights ([`Bm25`], Qdrant's own).
//!
//! Invariant: a text gives the same terms whatever store it goes to, and a query is cut into words by the
//! same rules as a document. Stored vectors depend on these rules: change them and collections must be
//! built again.

use crate::knowledge::store::bm25::Bm25;
use crate::knowledge::{SparseVector, StoreError};
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use unicode_normalization::UnicodeNormalization;
use whatlang::Lang;

/// How a collection's words are reduced before they are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Language {
    Arabic,
    Danish,
    Dutch,
    English,
    Finnish,
    French,
    German,
    Greek,
    Hungarian,
    Italian,
    Norwegian,
    Portuguese,
    Romanian,
    Russian,
    Spanish,
    Swedish,
    Turkish,
    /// Several, or one without a stemmer: words as they are.
    Multilingual,
}

/// Each language with a stemmer and stop words: its name (also Qdrant's), its ISO 639-1 code, the detector's name.
const STEMMED: [(Language, &str, &str, Lang); 17] = [
    (Language::Arabic, "arabic", "ar", Lang::Ara),
    (Language::Danish, "danish", "da", Lang::Dan),
    (Language::Dutch, "dutch", "nl", Lang::Nld),
    (Language::English, "english", "en", Lang::Eng),
    (Language::Finnish, "finnish", "fi", Lang::Fin),
    (Language::French, "french", "fr", Lang::Fra),
    (Language::German, "german", "de", Lang::Deu),
    (Language::Greek, "greek", "el", Lang::Ell),
    (Language::Hungarian, "hungarian", "hu", Lang::Hun),
    (Language::Italian, "italian", "it", Lang::Ita),
    (Language::Norwegian, "norwegian", "no", Lang::Nob),
    (Language::Portuguese, "portuguese", "pt", Lang::Por),
    (Language::Romanian, "romanian", "ro", Lang::Ron),
    (Language::Russian, "russian", "ru", Lang::Rus),
    (Language::Spanish, "spanish", "es", Lang::Spa),
    (Language::Swedish, "swedish", "sv", Lang::Swe),
    (Language::Turkish, "turkish", "tr", Lang::Tur),
];

const MULTILINGUAL: &str = "multilingual";

impl Language {
    /// The word stored with a collection.
    pub fn name(self) -> &'static str {
        STEMMED.iter().find(|row| row.0 == self).map_or(MULTILINGUAL, |row| row.1)
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The message lists the names that are known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no keyword language `{name}`: use auto, multilingual, {known}")]
pub struct UnknownLanguage {
    name: String,
    known: String,
}

impl FromStr for Language {
    type Err = UnknownLanguage;

    /// A name or an ISO 639-1 code. `auto` is none: it is what [`detect`] decides.
    fn from_str(name: &str) -> Result<Self, UnknownLanguage> {
        let known = STEMMED.iter().find(|row| row.1 == name || row.2 == name).map(|row| row.0);
        known
            .or((name == MULTILINGUAL).then_some(Self::Multilingual))
            .ok_or_else(|| UnknownLanguage { name: name.to_owned(), known: STEMMED.map(|row| row.1).join(", ") })
    }
}

/// At most this many texts are looked at, spread over all that were given.
const SAMPLE_TEXTS: usize = 256;
/// Of each text, this many characters.
const SAMPLE_CHARS: usize = 1000;
/// Share of the sure votes that one language needs: source code alone casts 4 % of them for others.
const MAJORITY: f64 = 0.9;
/// What is believed of all texts together when none alone is long enough to be sure.
const JOINT_CONFIDENCE: f64 = 0.5;

/// The keyword language of documents with these texts: the one that nearly all of them are in, if it has a
/// stemmer. Looks at a sample; CPU-bound, so it belongs off the async runtime.
pub fn detect<T: AsRef<str>>(texts: &[T]) -> Language {
    let step = texts.len().div_ceil(SAMPLE_TEXTS).max(1);
    let samples: Vec<&str> = texts.iter().step_by(step).map(|text| head(text.as_ref(), SAMPLE_CHARS)).collect();
    let mut votes: HashMap<Lang, usize> = HashMap::new();
    for found in samples.iter().filter_map(|sample| whatlang::detect(sample)).filter(whatlang::Info::is_reliable) {
        *votes.entry(found.lang()).or_default() += 1;
    }
    let sure: usize = votes.values().sum();
    let winner = if sure == 0 {
        whatlang::detect(&samples.join("\n"))
            .filter(|found| found.confidence() > JOINT_CONFIDENCE)
            .map(|found| found.lang())
    } else {
        votes.into_iter().find(|(_, count)| *count as f64 >= MAJORITY * sure as f64).map(|(lang, _)| lang)
    };
    STEMMED.iter().find(|row| Some(row.3) == winner).map_or(Language::Multilingual, |row| row.0)
}

fn head(text: &str, chars: usize) -> &str {
    text.char_indices().nth(chars).map_or(text, |(end, _)| &text[..end])
}

/// Makes the `bm25` vectors of one collection. Cheap to clone, made once and kept. CPU-bound.
#[derive(Clone, Debug)]
pub struct Keywords {
    language: Language,
    model: Arc<Bm25>,
}

impl Keywords {
    pub fn new(language: Language) -> Result<Self, StoreError> {
        let model = match language {
            Language::Multilingual => Bm25::plain()?,
            stemmed => Bm25::stemmed(stemmed.name())?,
        };
        Ok(Self { language, model: Arc::new(model) })
    }

    pub fn language(&self) -> Language {
        self.language
    }

    /// Weighted terms of a chunk; the text is what is embedded, heading path included.
    pub fn document(&self, text: &str) -> SparseVector {
        self.model.document(&words(text, Side::Document))
    }

    /// Terms of a query, 1 each. Empty if it has no word but stop words: search by `dense` alone then.
    pub fn query(&self, text: &str) -> SparseVector {
        self.model.query(&words(text, Side::Query))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Document,
    Query,
}

/// The words of a text, one space apart, in NFKC (so that the ligature in "oﬃce" is found by "office").
/// - Names are both split and kept whole: `read_line` and `readLine` give `read line readline`.
/// - Scripts that are written without spaces give pairs of neighbours; documents also give each character,
///   for queries of one character.
fn words(text: &str, side: Side) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 4);
    let mut word: Vec<char> = Vec::new();
    let mut run: Vec<char> = Vec::new();
    for c in text.nfkc() {
        if is_unspaced(c) {
            end_word(&mut word, &mut out);
            // Tone marks and the like are left out, on both sides: the term hasher would cut there.
            if c.is_alphanumeric() {
                run.push(c);
            }
        } else if c.is_alphanumeric() || c == '_' {
            end_run(&mut run, side, &mut out);
            word.push(c);
        } else if !is_inside_word(c) {
            end_word(&mut word, &mut out);
            end_run(&mut run, side, &mut out);
        }
    }
    end_word(&mut word, &mut out);
    end_run(&mut run, side, &mut out);
    out
}

/// Han, kana, bopomofo, Hangul, Thai, Lao, Burmese, Khmer. Korean has spaces, but its particles stick to the words.
fn is_unspaced(c: char) -> bool {
    matches!(u32::from(c),
        0x0e00..=0x0eff | 0x1000..=0x109f | 0x1100..=0x11ff | 0x1780..=0x17ff | 0x3005..=0x3007 | 0x3040..=0x318f
        | 0x31a0..=0x31bf | 0x31f0..=0x31ff | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xac00..=0xd7ff | 0xf900..=0xfaff
        | 0x20000..=0x3ffff)
}

/// Neither part of a word nor its end: accents that did not compose, soft hyphens, joiners.
fn is_inside_word(c: char) -> bool {
    unicode_normalization::char::is_combining_mark(c)
        || matches!(c, '\u{ad}' | '\u{200c}' | '\u{200d}' | '\u{2060}' | '\u{feff}')
}

fn end_word(word: &mut Vec<char>, out: &mut String) {
    let mut parts = 0;
    for name in word.split(|c| *c == '_').filter(|name| !name.is_empty()) {
        let mut start = 0;
        for end in (1..=name.len()).filter(|end| *end == name.len() || begins_part(name, *end)) {
            push(&name[start..end], out);
            start = end;
            parts += 1;
        }
    }
    if parts > 1 {
        push(word.iter().filter(|c| **c != '_'), out);
    }
    word.clear();
}

/// Whether a new part begins at `at` (not the first): `readLine` before L, `HTTPServer` before S.
fn begins_part(name: &[char], at: usize) -> bool {
    let (before, here, after) = (name[at - 1], name[at], name.get(at + 1));
    here.is_uppercase()
        && before.is_alphabetic()
        && (!before.is_uppercase() || after.is_some_and(|after| after.is_lowercase()))
}

fn end_run(run: &mut Vec<char>, side: Side, out: &mut String) {
    run.windows(2).for_each(|pair| push(pair, out));
    if side == Side::Document || run.len() == 1 {
        run.iter().for_each(|c| push([c], out));
    }
    run.clear();
}

fn push<'a>(word: impl IntoIterator<Item = &'a char>, out: &mut String) {
    out.extend(word);
    out.push(' ');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_the_same_way_on_both_sides() {
        let check = |text: &str, document: &str, query: &str| {
            assert_eq!(words(text, Side::Document).trim_end(), document, "document {text:?}");
            assert_eq!(words(text, Side::Query).trim_end(), query, "query {text:?}");
        };
        let same = |text: &str, expected: &str| check(text, expected, expected);
        same("Plain words, twice.", "Plain words twice");
        same("oﬃce eﬃciency", "office efficiency");
        same("ABC123 and ＡＢＣ１２３", "ABC123 and ABC123");
        same("ef\u{ad}fort", "effort");
        same("read_line", "read line readline");
        same("readLine", "read Line readLine");
        same("HTTPServer2 parseURL", "HTTP Server2 HTTPServer2 parse URL parseURL");
        same("__init__ _ __", "init");
        same("MAX_BODY_BYTES", "MAX BODY BYTES MAXBODYBYTES");
        same("readLine_fast", "read Line fast readLinefast");
        same("DNA mRNA", "DNA m RNA mRNA");
        same("crème cre\u{300}me x\u{304}y", "crème crème xy");
        same("हिन्दी", "हिनदी");
        same("", "");
        check("防守丢分", "防守 守丢 丢分 防 守 丢 分", "防守 守丢 丢分");
        check("茶", "茶", "茶");
        check("用Rust写 308分", "用 Rust 写 308 分", "用 Rust 写 308 分");
        check("ｶﾀｶﾅ", "カタ タカ カナ カ タ カ ナ", "カタ タカ カナ");
        check("ก่อน", "กอ อน ก อ น", "กอ อน");
        check("서울은", "서울 울은 서 울 은", "서울 울은");
    }

    /// Whether a query in `language` shares a term with a document.
    fn finds(language: Language, query: &str, document: &str) -> bool {
        let keywords = Keywords::new(language).unwrap();
        let document = keywords.document(document);
        keywords.query(query).indices.iter().any(|term| document.indices.contains(term))
    }

    #[test]
    fn a_query_finds_what_a_reader_would_expect() {
        let cases = [
            (Language::English, "office efficiency", "The oﬃce's eﬃciency report", true),
            (Language::English, "abc123", "Invoice ABC123 was paid", true),
            (Language::English, "paying invoices", "an invoice", true),
            (Language::English, "the and of", "the and of", false),
            (Language::English, "read line", "fn readLine()", true),
            (Language::English, "readLine", "fn read_line()", true),
            (Language::English, "猫", "English text about 猫 only", true),
            (Language::German, "Rechnung", "alle Rechnungen", true),
            (Language::German, "und", "dies und das", false),
            (Language::Multilingual, "invoices", "invoice", false),
            (Language::Multilingual, "the", "the word", true),
            (Language::Multilingual, "2024", "im Jahr 2024", true),
            (Language::Multilingual, "数据库", "图数据库系统", true),
            (Language::Multilingual, "茶", "喝茶去", true),
            (Language::Multilingual, "ชา", "ดื่มชาเขียว", true),
        ];
        for (language, query, document, expected) in cases {
            assert_eq!(finds(language, query, document), expected, "{language}: {query:?} in {document:?}");
        }
    }

    #[test]
    fn weights_are_those_of_bm25_with_a_fixed_length() {
        let keywords = Keywords::new(Language::English).unwrap();
        let document = keywords.document("rust rust tokio");
        let weight = |n: f32| n * 2.2 / (n + 1.2 * (1.0 - 0.75 + 0.75 * 3.0 / 256.0));
        let mut values = document.values;
        values.sort_by(f32::total_cmp);
        assert_eq!(values.len(), 2);
        assert!((values[0] - weight(1.0)).abs() < 1e-5 && (values[1] - weight(2.0)).abs() < 1e-5, "{values:?}");
        assert_eq!(keywords.query("rust rust tokio").values, [1.0, 1.0]);
    }

    #[test]
    fn every_language_has_a_model_and_a_name_that_reads_back() {
        for language in STEMMED.iter().map(|row| row.0).chain([Language::Multilingual]) {
            assert_eq!(language.name().parse(), Ok(language));
            assert!(!Keywords::new(language).unwrap().document("Tailrace 2024").indices.is_empty(), "{language}");
        }
        assert_eq!("de".parse(), Ok(Language::German));
        let refused = "klingon".parse::<Language>().unwrap_err().to_string();
        assert!(refused.contains("klingon") && refused.contains("english"), "{refused}");
    }

    #[test]
    fn the_language_is_the_one_nearly_all_texts_are_in() {
        const ENGLISH: &str = "The river carried the boats slowly past the old mill, and nobody on the bank seemed to \
             notice that evening had come.";
        const GERMAN: &str = "Der Fluss trug die Boote langsam an der alten Mühle vorbei, und niemand am Ufer schien zu \
             bemerken, dass es Abend geworden war.";
        const POLISH: &str = "Rzeka niosła łodzie powoli obok starego młyna i nikt na brzegu nie zauważył, że nadszedł \
             już wieczór nad doliną.";
        const CHINESE: &str = "河水载着小船缓缓流过古老的磨坊，岸上似乎没有人注意到夜晚已经来临。";
        let check = |texts: &[&str], expected: Language| assert_eq!(detect(texts), expected, "{texts:?}");
        check(&[ENGLISH], Language::English);
        check(&[GERMAN], Language::German);
        check(&["Die Rechnung wurde", "im März bezahlt."], Language::German);
        check(&[ENGLISH; 20], Language::English);
        check(&[ENGLISH, GERMAN], Language::Multilingual);
        check(&[POLISH], Language::Multilingual);
        check(&[CHINESE], Language::Multilingual);
        check(&["x = 1", "ok"], Language::Multilingual);
        check(&[], Language::Multilingual);
        let mut mostly = vec![ENGLISH; 19];
        mostly.push(GERMAN);
        check(&mostly, Language::English);
    }
}
