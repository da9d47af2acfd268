//! What a group of texts is about: the words that say most of what sets it apart from the others. Pure.

use std::collections::{HashMap, HashSet};
use unicode_segmentation::UnicodeSegmentation;

/// Words of a text that are looked at.
const WORDS: usize = 200;
/// Longer "words" are hashes and the like.
const LONGEST: usize = 32;
/// Words of so many letters count in full.
const FULL: usize = 8;

/// For each group its telling words, the best first, at most `most`. `of`: the group of each text.
pub(super) fn name(texts: &[String], of: &[usize], most: usize) -> Vec<Vec<String>> {
    let groups = of.iter().max().map_or(0, |most| most + 1);
    let mut everywhere: HashMap<String, f64> = HashMap::new();
    let mut inside: Vec<HashMap<String, f64>> = vec![HashMap::new(); groups];
    let mut sizes = vec![0f64; groups];
    for (text, group) in texts.iter().zip(of) {
        sizes[*group] += 1.0;
        for word in words(text) {
            *everywhere.entry(word.clone()).or_default() += 1.0;
            *inside[*group].entry(word).or_default() += 1.0;
        }
    }
    let all = texts.len().max(1) as f64;
    let mut names = Vec::with_capacity(groups);
    for (counts, size) in inside.into_iter().zip(sizes) {
        let mut scored: Vec<(f64, String)> = counts
            .into_iter()
            // What one text of many says is no subject.
            .filter(|(_, count)| *count >= 2.0 || size < 4.0)
            .map(|(word, count)| {
                let (here, anywhere) = (count / size, everywhere.get(&word).copied().unwrap_or(count) / all);
                // How much the word tells of being here. With one group nothing does: then the frequent long ones.
                let apart = if groups > 1 { (here / anywhere).ln() } else { word.chars().count() as f64 };
                (here * apart * weight(&word), word)
            })
            .filter(|(score, _)| *score > 0.0)
            .collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        names.push(scored.into_iter().take(most).map(|(_, word)| word).collect());
    }
    names
}

/// Short words are mostly those that every text needs (`are`, `und`, `les`): there are no lists of them for all languages.
/// A pair of ideographs is a word of its own.
fn weight(word: &str) -> f64 {
    let letters = word.chars().count();
    if word.is_ascii() || letters > 2 { letters.min(FULL) as f64 / FULL as f64 } else { 1.0 }
}

/// The different words of a text in lower case: at least three letters, or a pair of neighbours in scripts without
/// spaces.
fn words(text: &str) -> HashSet<String> {
    let mut found = HashSet::new();
    let mut before: Option<&str> = None;
    for word in text.unicode_words().take(WORDS) {
        let length = word.chars().count();
        let ideograph = length == 1 && !word.is_ascii() && word.chars().all(char::is_alphabetic);
        if ideograph {
            if let Some(before) = before {
                found.insert(format!("{before}{word}"));
            }
            before = Some(word);
            continue;
        }
        before = None;
        let tells = (3..=LONGEST).contains(&length) && word.chars().any(char::is_alphabetic);
        if tells {
            found.insert(word.to_lowercase());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_named_by_what_the_others_do_not_say() {
        let birds = ["the kestrel hovers over the field", "the kestrel and the heron", "a heron in the field"];
        let money = ["the invoice was paid", "the second invoice and the bank", "the bank sent an invoice"];
        let texts: Vec<String> = birds.iter().chain(&money).map(|text| (*text).to_owned()).collect();
        let names = name(&texts, &[0, 0, 0, 1, 1, 1], 2);
        assert_eq!(names[1], ["invoice", "bank"]);
        assert!(names[0].iter().all(|word| ["kestrel", "heron", "field"].contains(&word.as_str())), "{names:?}");
        assert_eq!(name(&[], &[], 3), Vec::<Vec<String>>::new());
        // Words that every text needs are in all of these, and one group uses them more.
        let rows = [
            "rows that are locked are left out",
            "which rows are locked, and which are not",
            "locked rows are waited for",
        ];
        let mills = ["the mill and its wheel", "a wheel that turns are two", "the wheel of the mill"];
        let ruled: Vec<String> = rows.iter().chain(&mills).map(|text| (*text).to_owned()).collect();
        assert_eq!(name(&ruled, &[0, 0, 0, 1, 1, 1], 1), [["locked"], ["wheel"]]);
        assert_eq!(name(&texts[..1], &[0], 1), [["kestrel"]]);
    }

    #[test]
    fn scripts_without_spaces_give_pairs() {
        let found = words("数据库 of 2024 and x1");
        let expected = ["数据", "据库", "and"].map(str::to_owned);
        assert_eq!(found, HashSet::from(expected));
    }
}
