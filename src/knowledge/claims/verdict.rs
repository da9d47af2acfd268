//! How a claim stands against texts, by words. Pure.
//!
//! Names and numbers are what a wrong claim gets wrong while all else stays as it was: one that no source has is
//! decisive. The other words only say how much of the claim is there.

use super::sentences;
use crate::knowledge::keyword::{Keywords, Language};
use std::collections::HashSet;

/// Sentences of a source that are looked at together, at most.
const WINDOW: usize = 3;
/// Share of a claim's words from which the words alone decide.
pub(super) const COVERED: f32 = 0.7;

/// A claim in the parts that are looked for.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    /// Terms as the keyword search has them: without stop words, stemmed.
    terms: HashSet<u32>,
    /// The terms of each name.
    names: Vec<HashSet<u32>>,
    /// Those of a first word that may be a name.
    opener: HashSet<u32>,
    /// As digits, without separators between thousands.
    numbers: HashSet<String>,
}

/// A source in its sentences, ready to be looked through.
#[derive(Clone, Debug)]
pub(super) struct Evidence {
    /// What the document is called: said everywhere in it.
    title: (HashSet<u32>, HashSet<String>),
    sentences: Vec<(String, HashSet<u32>, HashSet<String>)>,
}

/// How much of a claim a source has.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Match {
    /// Share of the claim's terms in the best place.
    pub covered: f32,
    /// Names and numbers that the best place does not have.
    pub missing_here: usize,
    /// Those that the whole source does not have.
    pub missing: usize,
    /// The best place.
    pub text: String,
}

impl Parts {
    pub fn of(keywords: &Keywords, claim: &str) -> Self {
        let terms = |text: &str| keywords.query(text).indices.into_iter().collect::<HashSet<u32>>();
        let capitals = keywords.language() != Language::German;
        let names = names(claim, capitals).iter().map(|name| terms(name)).filter(|terms| !terms.is_empty()).collect();
        let opener = opener(claim).filter(|_| capitals).map(|word| terms(&word)).unwrap_or_default();
        Self { terms: terms(claim), names, opener, numbers: numbers(claim) }
    }
}

impl Evidence {
    pub fn of(keywords: &Keywords, title: &str, source: &str) -> Self {
        let terms = |text: &str| keywords.document(text).indices.into_iter().collect();
        let read = |sentence: &str| (sentence.to_owned(), terms(sentence), numbers(sentence));
        let sentences = sentences::all(source).into_iter().map(read).collect();
        Self { title: (terms(title), numbers(title)), sentences }
    }

    /// The best place for the claim: the fewest neighbours that have enough of its words, so that a name from the
    /// next sentence does not count; else those that have most of it, names and numbers first.
    pub fn look_for(&self, claim: &Parts) -> Option<Match> {
        let whole = self.join(&self.sentences);
        let missing = claim.missing(&whole.0, &whole.1);
        let windows = |size: usize| {
            let count = self.sentences.len();
            let places = (0..count.saturating_sub(size - 1).max(1)).filter(move |at| *at < count);
            places.map(move |at| {
                let window = &self.sentences[at..(at + size).min(count)];
                let (terms, numbers) = self.join(window);
                let covered = claim.covered(&terms);
                // Where all else is there, a first word that is not may well be a name.
                let unnamed = covered >= COVERED && !claim.opener.is_subset(&terms);
                (window, covered, claim.missing(&terms, &numbers) + usize::from(unnamed))
            })
        };
        let enough = (1..=WINDOW).find_map(|size| {
            let full = windows(size).filter(|(_, covered, _)| *covered >= COVERED);
            full.max_by(|a, b| a.1.total_cmp(&b.1).then(b.2.cmp(&a.2)))
        });
        let most = || windows(WINDOW).max_by(|a, b| b.2.cmp(&a.2).then(a.1.total_cmp(&b.1)));
        let best = enough.or_else(most)?;
        let text = best.0.iter().map(|(text, ..)| text.as_str()).collect::<Vec<_>>().join(" ");
        Some(Match { covered: best.1, missing_here: best.2, missing, text })
    }

    fn join(&self, window: &[(String, HashSet<u32>, HashSet<String>)]) -> (HashSet<u32>, HashSet<String>) {
        let (title, title_numbers) = &self.title;
        let terms = window.iter().flat_map(|(_, terms, _)| terms).chain(title).copied().collect();
        let numbers = window.iter().flat_map(|(.., numbers)| numbers).chain(title_numbers).cloned().collect();
        (terms, numbers)
    }
}

impl Parts {
    #[expect(clippy::cast_precision_loss, reason = "words of a sentence")]
    fn covered(&self, terms: &HashSet<u32>) -> f32 {
        if self.terms.is_empty() {
            return 0.0;
        }
        self.terms.intersection(terms).count() as f32 / self.terms.len() as f32
    }

    fn missing(&self, terms: &HashSet<u32>, numbers: &HashSet<String>) -> usize {
        let names = self.names.iter().filter(|name| !name.is_subset(terms)).count();
        names + self.numbers.difference(numbers).count()
    }
}

/// Words that are written large inside a sentence, each by itself. The first word only where its form or the word
/// behind it says that it is a name. `capitals`: only names are written large in this language.
fn names(claim: &str, capitals: bool) -> Vec<String> {
    let words: Vec<&str> = claim.split(|c: char| !c.is_alphanumeric() && c != '\'' && c != '’').collect();
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    let large = |word: &str| word.chars().next().is_some_and(char::is_uppercase);
    let opens = opener(claim).is_some();
    let shaped = |word: &str| word.chars().skip(1).any(|c| c.is_uppercase() || c.is_numeric());
    let is_name = |(at, word): &(usize, &&str)| {
        let follows = words.get(at + 1).is_some_and(|next| large(next) && next.chars().count() > 1);
        let long = word.chars().count() > 1;
        large(word) && long && (shaped(word) || capitals && (*at > 0 || opens && follows))
    };
    words.iter().enumerate().filter(is_name).map(|(_, word)| (*word).to_owned()).collect()
}

/// The first word, where it may be a name: "Luther wrote", but not "However, he wrote" or "Sadly he wrote".
fn opener(claim: &str) -> Option<String> {
    let end = claim.find(|c: char| !c.is_alphanumeric())?;
    let word = &claim[..end];
    let large = word.chars().next().is_some_and(char::is_uppercase) && word.chars().count() > 1;
    (large && !claim[end..].starts_with(',') && !word.ends_with("ly")).then(|| word.to_owned())
}

/// The small numbers that are written as words.
const WRITTEN: [(&str, &str); 24] = [
    ("two", "2"),
    ("three", "3"),
    ("four", "4"),
    ("five", "5"),
    ("six", "6"),
    ("seven", "7"),
    ("eight", "8"),
    ("nine", "9"),
    ("ten", "10"),
    ("eleven", "11"),
    ("twelve", "12"),
    ("hundred", "100"),
    ("zwei", "2"),
    ("drei", "3"),
    ("vier", "4"),
    ("fünf", "5"),
    ("sechs", "6"),
    ("sieben", "7"),
    ("acht", "8"),
    ("neun", "9"),
    ("zehn", "10"),
    ("elf", "11"),
    ("zwölf", "12"),
    ("hundert", "100"),
];

/// Every number, in digits and in words alike.
fn numbers(text: &str) -> HashSet<String> {
    let mut found = HashSet::new();
    for word in text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '.' | ','))) {
        let digits: String = word.trim_matches(['.', ',']).chars().filter(|c| *c != ',').collect();
        let written = WRITTEN.iter().find(|(name, _)| digits.eq_ignore_ascii_case(name) || digits == *name);
        if let Some((_, number)) = written {
            found.insert((*number).to_owned());
        }
        // Also what stands inside a word, as in 50th or 308分.
        let runs = digits.split(|c: char| !(c.is_ascii_digit() || c == '.')).map(|run| run.trim_matches('.'));
        found.extend(runs.filter(|run| !run.is_empty()).map(str::to_owned));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_seen() {
        let check = |claim: &str, expected_names: &[&str], expected_numbers: &[&str]| {
            assert_eq!(names(claim, true), expected_names, "{claim}");
            let mut found: Vec<String> = numbers(claim).into_iter().collect();
            found.sort();
            assert_eq!(found, expected_numbers, "{claim}");
        };
        // An article before a name is a stop word, and drops out with those.
        check("The Panthers gave up 308 points.", &["The", "Panthers"], &["308"]);
        check("Cam Newton won five of 1,200 games in Denver.", &["Cam", "Newton", "Denver"], &["1200", "5"]);
        check("Interestingly, the NFL's 50th game cost $3.5 million.", &["NFL's"], &["3.5", "50"]);
        check("NASA paid nothing at all.", &["NASA"], &[]);
        check("防守只丢了308分", &[], &["308"]);
    }

    #[test]
    fn where_every_noun_is_written_large_only_the_form_says_that_it_is_a_name() {
        assert_eq!(names("Die Flut kommt nach Meinung der NASA um zwölf.", false), ["NASA"]);
    }

    #[test]
    fn the_best_place_is_found_and_what_it_lacks() {
        let keywords = Keywords::new(Language::English).unwrap();
        let source = "The Panthers defense gave up just 308 points. They ranked sixth. Kawann Short led the team in sacks \
                      with 11. The offense was led by Cam Newton. He threw many passes. Jared Allen had 136 sacks.";
        let evidence = Evidence::of(&keywords, "Super Bowl 50", source);
        let check = |claim: &str, full: bool, missing_here: usize, missing: usize| {
            let found = evidence.look_for(&Parts::of(&keywords, claim)).unwrap();
            assert_eq!((found.missing_here, found.missing), (missing_here, missing), "{claim}: {found:?}");
            assert_eq!(found.covered >= COVERED, full, "{claim}: {found:?}");
        };
        check("The defense of the Panthers gave up 308 points.", true, 0, 0);
        check("The defense of the Panthers gave up 309 points.", true, 1, 1);
        check("The defense of the Panthers gave up 136 points.", true, 1, 0);
        check("The Broncos defense gave up 308 points.", true, 1, 1);
        // What the next sentence has does not count where one sentence has the rest.
        check("Kawann Short led the team in sacks with 136.", true, 1, 0);
        check("Newton led the team in sacks with 11.", true, 1, 0);
        check("Kurt led the team in sacks with 11.", true, 1, 0);
        check("However, Kawann Short led the team in sacks with 11.", true, 0, 0);
        check("The offense was led by Newton and he threw many passes.", true, 0, 0);
        check("In Super Bowl 50 the Panthers gave up 308 points.", true, 0, 0);
        check("Kittens sleep all day and night.", false, 0, 0);
        assert_eq!(Evidence::of(&keywords, "", "").look_for(&Parts::of(&keywords, "x")), None);
    }
}
