//! How often claims are judged rightly, on sentences of XQuAD with and without a swapped name or number. The real
//! embedding model reads what words leave open. `TAILRACE_CLAIMS` is the number of questions (1,190 are all);
//! docs/retrieval.md has the figures of all of them.

use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use tailrace::knowledge::base::Base;
use tailrace::knowledge::claims::sentences::{Sentence, finished};
use tailrace::knowledge::claims::{Claims, Standing, Support};
use tailrace::knowledge::embed::fastembed::{BUILT_IN, FastembedEmbedder, FastembedOptions};
use tailrace::knowledge::store::edge::EdgeStore;
use tailrace::storage::{Db, DbOptions};
use tempfile::TempDir;

struct Question {
    paragraph: usize,
    /// The sentence of the paragraph that has the answer.
    sentence: String,
    answer: String,
}

fn jsonl(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A name or a number: what can be swapped so that the sentence becomes wrong.
fn kind(answer: &str) -> Option<&'static str> {
    if answer.chars().any(|c| c.is_ascii_digit()) {
        return Some("number");
    }
    answer.split_whitespace().all(|word| word.chars().next().is_some_and(char::is_uppercase)).then_some("name")
}

fn questions(paragraphs: &[(String, String)], ids: &HashMap<String, usize>) -> Vec<Question> {
    let qrels = include_str!("../../data/eval/xquad-en/qrels/test.tsv");
    let of: HashMap<&str, usize> = qrels
        .lines()
        .skip(1)
        .filter_map(|line| {
            let mut fields = line.split('\t');
            Some((fields.next()?, *ids.get(fields.next()?)?))
        })
        .collect();
    let all = jsonl(include_str!("../../data/eval/xquad-en/queries.jsonl"));
    let read = |question: &Value| {
        let paragraph = *of.get(question["_id"].as_str()?)?;
        let answer = question["metadata"]["answers"][0].as_str()?.to_owned();
        kind(&answer)?;
        let (found, _) = finished(&paragraphs[paragraph].1, 0, &[], true);
        let sentence = found.into_iter().find(|sentence| sentence.text.contains(&answer))?.text;
        Some(Question { paragraph, sentence, answer })
    };
    all.iter().filter_map(read).collect()
}

fn claim(text: &str) -> Sentence {
    Sentence { start: 0, end: text.len(), text: text.to_owned(), cites: Vec::new() }
}

#[derive(Default)]
struct Count {
    supported: u32,
    weak: u32,
    unsupported: u32,
}

impl Count {
    fn add(&mut self, standing: Standing) {
        match standing {
            Standing::Supported => self.supported += 1,
            Standing::Weak => self.weak += 1,
            Standing::Unsupported => self.unsupported += 1,
        }
    }

    fn share(&self, of: u32) -> f64 {
        f64::from(of) / f64::from(self.supported + self.weak + self.unsupported).max(1.0)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_are_judged_rightly_where_a_name_or_number_was_swapped() {
    let wanted: usize = std::env::var("TAILRACE_CLAIMS").ok().and_then(|n| n.parse().ok()).unwrap_or(80);
    let corpus = jsonl(include_str!("../../data/eval/xquad-en/corpus.jsonl"));
    let word = |value: &Value, key: &str| value[key].as_str().unwrap().to_owned();
    let paragraphs: Vec<(String, String)> = corpus.iter().map(|p| (word(p, "title"), word(p, "text"))).collect();
    let ids: HashMap<String, usize> = corpus.iter().zip(0..).map(|(p, n)| (word(p, "_id"), n)).collect();
    let questions = questions(&paragraphs, &ids);
    assert!(questions.len() > 300, "{}", questions.len());

    let folder = TempDir::new().unwrap();
    let db = Db::open(&DbOptions { data_dir: folder.path().to_owned(), url: None }).await.unwrap();
    let store = Arc::new(EdgeStore::open(&folder.path().join("vectors")).unwrap());
    let options = FastembedOptions {
        models_dir: crate::service::models(),
        model: BUILT_IN.to_owned(),
        threads: 1,
        queue: 64,
        batch: 1,
    };
    let claims = Claims::new(Base::new(db, store, Arc::new(FastembedEmbedder::new(options).unwrap())));

    let (mut right, mut elsewhere, mut nearby) = (Count::default(), Count::default(), Count::default());
    let step = (questions.len() / wanted).max(1);
    for (at, question) in questions.iter().enumerate().step_by(step) {
        // The paragraph and its neighbours, which are mostly of the same article.
        let near = (question.paragraph..(question.paragraph + 3).min(paragraphs.len())).zip(1..);
        let supports = near.map(|(p, n)| {
            let (title, text) = paragraphs[p].clone();
            Support { n: Some(n), title, text }
        });
        let ground = claims.ground(supports.collect()).await.unwrap();
        let judge = async |text: &str| claims.judge(&ground, vec![claim(text)]).await.unwrap()[0].standing;
        right.add(judge(&question.sentence).await);
        let swaps = |other: &&Question| {
            kind(&other.answer) == kind(&question.answer) && !question.sentence.contains(&other.answer)
        };
        let swapped = |other: &Question| question.sentence.replace(&question.answer, &other.answer);
        let text = &paragraphs[question.paragraph].1;
        let foreign = questions.iter().cycle().skip(at + 200).take(questions.len());
        if let Some(other) = foreign.clone().filter(swaps).find(|other| !text.contains(&other.answer)) {
            elsewhere.add(judge(&swapped(other)).await);
        }
        let same = questions.iter().filter(|other| other.paragraph == question.paragraph);
        if let Some(other) = same.clone().find(swaps) {
            nearby.add(judge(&swapped(other)).await);
        }
    }
    for (name, count) in [("right", &right), ("swapped, from elsewhere", &elsewhere), ("swapped, from nearby", &nearby)]
    {
        let Count { supported, weak, unsupported } = count;
        eprintln!("{name}: supported {supported}, weak {weak}, unsupported {unsupported}");
    }
    assert!(right.share(right.supported) >= 0.97, "right sentences");
    assert!(elsewhere.share(elsewhere.unsupported) >= 0.9, "names and numbers from elsewhere");
    assert!(nearby.share(nearby.supported) <= 0.2, "names and numbers of the same paragraph");
}
