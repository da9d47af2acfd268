//! The sentences of passages that say most about a question. Pure.

use crate::message::passages::Passage;
use std::collections::{HashMap, HashSet};
use unicode_segmentation::UnicodeSegmentation;

/// A sentence, and the number of the passage it stands in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Quote {
    pub n: u32,
    pub text: String,
}

/// Most sentences in an answer.
const QUOTES: usize = 3;
/// A sentence is quoted beside the best one if it scores this share of the best one's score.
const SHARE: f32 = 0.6;
/// Part of a neighbour's score that a sentence is worth: "It" and "they" point to the sentence before.
const NEIGHBOUR: f32 = 0.25;
/// Part of the title's score.
const TITLE: f32 = 0.3;
/// Longest quoted sentence, in characters.
const LONGEST: usize = 480;

/// At most [`QUOTES`] sentences, best first; none where nothing has to do with the question.
pub(super) fn best(question: &str, passages: &[Passage]) -> Vec<Quote> {
    let asked: HashSet<String> = terms(question).collect();
    let mut sentences: Vec<Sentence> = Vec::new();
    for (place, passage) in passages.iter().enumerate() {
        let title: HashSet<String> = terms(&passage.title).filter(|t| asked.contains(t)).collect();
        for text in split(&passage.text) {
            let found = terms(&text).filter(|t| asked.contains(t)).collect();
            sentences.push(Sentence { place, text, found, title: title.clone() });
        }
    }
    let weights = weights(&asked, &sentences);
    let worth = |found: &HashSet<String>| found.iter().filter_map(|t| weights.get(t)).sum::<f32>();
    let own: Vec<f32> = sentences.iter().map(|s| worth(&s.found)).collect();
    let mut scored: Vec<(f32, usize)> = Vec::new();
    for (i, sentence) in sentences.iter().enumerate() {
        // A sentence that says nothing of the question itself is not an answer, wherever it stands.
        if own[i] <= 0.0 {
            continue;
        }
        let beside = |j: Option<usize>| {
            j.and_then(|j| Some((j, sentences.get(j)?)))
                .filter(|(_, s)| s.place == sentence.place)
                .map_or(0.0, |(j, _)| own[j])
        };
        let beside = beside(i.checked_sub(1)).max(beside(Some(i + 1)));
        // Hits come best first, which only decides between equals.
        let rank = 0.01 * sentence.place as f32;
        scored.push((own[i] + NEIGHBOUR * beside + TITLE * worth(&sentence.title) - rank, i));
    }
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let Some(best) = scored.first().map(|(score, _)| *score) else { return Vec::new() };
    let mut quotes: Vec<Quote> = Vec::new();
    for (_, i) in scored.into_iter().filter(|(score, _)| *score >= SHARE * best) {
        let quote = Quote { n: passages[sentences[i].place].n, text: shortened(&sentences[i].text) };
        // Overlapping chunks hold the same sentence twice.
        if quotes.len() < QUOTES && quotes.iter().all(|q| q.text != quote.text) {
            quotes.push(quote);
        }
    }
    quotes
}

struct Sentence {
    place: usize,
    text: String,
    /// Terms of the question in it, and in its passage's title.
    found: HashSet<String>,
    title: HashSet<String>,
}

/// A term is worth more the fewer sentences hold it.
fn weights(asked: &HashSet<String>, sentences: &[Sentence]) -> HashMap<String, f32> {
    let all = sentences.len() as f32;
    let weight = |term: &String| {
        let holding = sentences.iter().filter(|s| s.found.contains(term)).count() as f32;
        (term.clone(), (1.0 + all / (1.0 + holding)).ln())
    };
    asked.iter().map(weight).collect()
}

/// Sentences of a passage; an empty line, a list item, a heading and a table row end one too.
fn split(text: &str) -> Vec<String> {
    let mut paragraphs: Vec<String> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        let line = line.trim();
        let starts = line.starts_with(['#', '-', '*', '|', '•', '>']) || line.starts_with("```");
        match paragraphs.last_mut() {
            Some(last) if open && !starts && !line.is_empty() => {
                last.push(' ');
                last.push_str(line);
            }
            _ if !line.is_empty() => paragraphs.push(line.to_owned()),
            _ => {}
        }
        open = !line.is_empty() && !line.starts_with(['#', '|']);
    }
    let mut sentences: Vec<String> = Vec::new();
    for paragraph in paragraphs {
        let mut begun = String::new();
        for part in paragraph.split_sentence_bounds() {
            begun.push_str(part);
            if !is_abbreviated(begun.trim_end()) {
                sentences.extend(cleaned(&begun));
                begun.clear();
            }
        }
        sentences.extend(cleaned(&begun));
    }
    sentences
}

/// Whether the full stop at the end belongs to a word: a single letter, or a common short form.
fn is_abbreviated(text: &str) -> bool {
    const SHORT: &[&str] =
        &["Mr", "Mrs", "Ms", "Dr", "St", "No", "vs", "etc", "e.g", "i.e", "bzw", "z.B", "ca", "approx"];
    let Some(text) = text.strip_suffix('.') else { return false };
    let word = text.rsplit(|c: char| c.is_whitespace() || c == '(').next().unwrap_or("");
    SHORT.contains(&word) || word.chars().filter(|c| c.is_alphabetic()).count() == 1
}

/// Without marks of lists and headings, and without numbers in brackets, which would pass for ours.
fn cleaned(sentence: &str) -> Option<String> {
    let text = sentence.trim().trim_start_matches(['#', '-', '*', '•', '>', '|', ' ']);
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('[') {
        let (before, tail) = rest.split_at(at);
        out.push_str(before);
        let digits = tail[1..].find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
        if digits > 0 && tail[1 + digits..].starts_with(']') {
            out.truncate(out.trim_end().len());
            rest = &tail[digits + 2..];
        } else {
            out.push('[');
            rest = &tail[1..];
        }
    }
    out.push_str(rest);
    let out = out.split_whitespace().collect::<Vec<_>>().join(" ");
    (out.chars().filter(|c| c.is_alphanumeric()).count() > 1).then_some(out)
}

fn shortened(sentence: &str) -> String {
    let Some((cut, _)) = sentence.char_indices().nth(LONGEST) else { return sentence.to_owned() };
    format!("{}…", &sentence[..sentence[..cut].rfind(' ').unwrap_or(cut)])
}

/// Words that say what a text is about, lower-cased and without endings.
fn terms(text: &str) -> impl Iterator<Item = String> {
    text.unicode_words()
        .map(str::to_lowercase)
        .filter(|word| !STOP_WORDS.contains(&word.as_str()))
        .map(|word| stem(&word))
}

/// A light stemmer for English that does no harm elsewhere: it only has to make the words of a question and
/// of its answer alike.
fn stem(word: &str) -> String {
    let ends: &[(&str, &str)] = &[
        ("ies", "y"),
        ("sses", "ss"),
        ("'s", ""),
        ("’s", ""),
        ("ing", ""),
        ("ed", ""),
        ("es", ""),
        ("s", ""),
        ("e", ""),
    ];
    for (end, instead) in ends {
        if let Some(stem) = word.strip_suffix(end) {
            let enough = stem.chars().count() >= 3 && !(*end == "s" && stem.ends_with('s'));
            if enough {
                let stem = format!("{stem}{instead}");
                // stopped, stop; but not tell, telling.
                let doubled = ["bb", "dd", "gg", "mm", "nn", "pp", "rr", "tt"].iter().any(|d| stem.ends_with(d));
                return if doubled && matches!(*end, "ing" | "ed") { stem[..stem.len() - 1].to_owned() } else { stem };
            }
        }
    }
    word.to_owned()
}

/// English and German words that questions are made of whatever they ask.
const STOP_WORDS: &[&str] = &[
    "a", "about", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can",
    "could", "did", "do", "does", "for", "from", "had", "has", "have", "he", "her", "his", "how", "i", "if", "in",
    "into", "is", "it", "its", "many", "may", "me", "much", "my", "no", "not", "of", "on", "one", "or", "our",
    "please", "say", "says", "she", "should", "so", "some", "tell", "than", "that", "the", "their", "them", "then",
    "there", "these", "they", "this", "those", "to", "us", "was", "we", "were", "what", "when", "where", "which",
    "who", "whom", "whose", "why", "will", "with", "would", "you", "your", "aber", "als", "am", "an", "auch", "auf",
    "aus", "bei", "bin", "bis", "das", "dem", "den", "der", "des", "die", "du", "durch", "ein", "eine", "einem",
    "einen", "einer", "eines", "er", "es", "für", "gibt", "hat", "hatte", "ich", "ihr", "im", "in", "ist", "kann",
    "man", "mir", "mit", "nach", "nicht", "oder", "sich", "sie", "sind", "über", "und", "uns", "unter", "vom", "von",
    "vor", "wann", "war", "waren", "warum", "was", "welche", "welcher", "welches", "wem", "wen", "wer", "werden",
    "wie", "wieviel", "wieviele", "wir", "wird", "wo", "wurde", "zu", "zum", "zur",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn passage(n: u32, title: &str, text: &str) -> Passage {
        Passage { n, title: title.into(), text: text.into() }
    }

    fn check(question: &str, passages: &[Passage], want: &[(u32, &str)]) {
        let found: Vec<(u32, String)> = best(question, passages).into_iter().map(|q| (q.n, q.text)).collect();
        let want: Vec<(u32, String)> = want.iter().map(|(n, t)| (*n, (*t).to_owned())).collect();
        assert_eq!(found, want, "{question}");
    }

    #[test]
    fn the_sentence_that_answers_is_quoted_with_its_number() {
        let passages = [
            passage(
                3,
                "River report",
                "The Aller flooded twice in 2019. The higher flood reached 4.2 metres at the old\nbridge. Nobody was hurt.",
            ),
            passage(5, "Bridges", "The old bridge was built in 1764 [12]. It has five arches."),
        ];
        check("When was the old bridge built?", &passages, &[(5, "The old bridge was built in 1764.")]);
        check(
            "How high did the flood reach?",
            &passages,
            &[(3, "The higher flood reached 4.2 metres at the old bridge."), (3, "The Aller flooded twice in 2019.")],
        );
        check("Who won the football match?", &passages, &[]);
        check("What is it?", &passages, &[]);
    }

    #[test]
    fn endings_do_not_matter_and_lists_are_taken_apart() {
        let passages = [passage(
            1,
            "Notes",
            "# Repairs\n- The pump was repaired in June.\n- Dr. J. Ade stopped the leak.\n\nCosts",
        )];
        check("Who repairs pumps?", &passages, &[(1, "The pump was repaired in June."), (1, "Repairs")]);
        check("Who stops leaks?", &passages, &[(1, "Dr. J. Ade stopped the leak.")]);
    }

    #[test]
    fn the_same_sentence_is_quoted_once() {
        let text = "Badgers dig wide tunnels.";
        check("Which tunnels do badgers dig?", &[passage(1, "A", text), passage(2, "B", text)], &[(1, text)]);
    }

    #[test]
    fn only_numbers_in_brackets_go() {
        assert_eq!(cleaned("See [12] and [a] and [3").as_deref(), Some("See and [a] and [3"));
        assert_eq!(cleaned(" - *").as_deref(), None);
        let long = "word ".repeat(200);
        assert!(shortened(&long).chars().count() <= LONGEST + 1 && shortened(&long).ends_with('…'));
    }
}
