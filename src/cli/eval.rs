//! `tailrace eval DIR`: retrieval measured on a BEIR folder (`corpus.jsonl`, `queries.jsonl`,
//! `qrels/test.tsv`), in a temporary store, through the same path that answers use. Documents are ranked by
//! their best chunk, without a cap per document.

use super::Failure;
use super::output::Output;
use crate::app::Knowledge;
use crate::config::Config;
use crate::knowledge::Priority;
use crate::knowledge::ingest::NewDocument;
use crate::knowledge::retrieve::{SearchMode, SearchRequest};
use bytes::Bytes;
use clap::Args;
use futures_util::stream::{self, StreamExt};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

#[derive(Debug, Args)]
pub struct EvalArgs {
    /// A folder with corpus.jsonl, queries.jsonl and qrels/test.tsv
    dir: PathBuf,
    /// Keyword language; auto finds it in the documents
    #[arg(long, default_value = "auto")]
    language: String,
}

const COLLECTION: &str = "eval";
/// Chunks asked for, so that the best 100 documents are among them.
const DEPTH: usize = 400;
const AT_ONCE: usize = 8;

#[derive(Deserialize)]
struct Record {
    #[serde(rename = "_id")]
    id: String,
    #[serde(default)]
    title: String,
    text: String,
}

/// Relevance by query, then by document.
type Judgements = HashMap<String, HashMap<String, f64>>;

pub async fn run(mut config: Config, args: EvalArgs, output: &Output) -> Result<(), Failure> {
    let corpus = records(&args.dir.join("corpus.jsonl"))?;
    let judged = judgements(&args.dir.join("qrels/test.tsv"))?;
    let queries: Vec<Record> =
        records(&args.dir.join("queries.jsonl"))?.into_iter().filter(|q| judged.contains_key(&q.id)).collect();
    let folder = std::env::temp_dir().join(format!("tailrace-eval-{}", std::process::id()));
    config.storage.data_dir = folder.clone();
    config.storage.database_url = None;
    config.qdrant.url = None;
    let model = config.embedding.model.clone();
    let measured = measure(&config, corpus, &queries, &judged, &args.language, output).await;
    drop(fs::remove_dir_all(&folder));
    let results = measured?;
    let dataset = args.dir.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let table: Vec<String> = std::iter::once(format!("{dataset}: mode, nDCG@10, Recall@100, MRR@10"))
        .chain(results.iter().map(|(mode, s, _)| format!("  {mode:7} {:.3}  {:.3}  {:.3}", s.ndcg, s.recall, s.mrr)))
        .collect();
    let rows: Vec<Value> = results
        .iter()
        .map(|(mode, s, took_ms)| {
            json!({"mode": mode, "ndcg@10": s.ndcg, "recall@100": s.recall, "mrr@10": s.mrr, "queries": queries.len(),
                "took_ms": took_ms})
        })
        .collect();
    output.result(&json!({"dataset": dataset, "model": model, "results": rows}), &table.join("\n"));
    Ok(())
}

async fn measure(
    config: &Config,
    corpus: Vec<Record>,
    queries: &[Record],
    judged: &Judgements,
    language: &str,
    output: &Output,
) -> Result<Vec<(&'static str, Scores, u64)>, Failure> {
    let knowledge = Knowledge::open(config).await?;
    knowledge.ingest.create_collection(COLLECTION, language).await?;
    let bar = output.bar(corpus.len() as u64);
    let mut work = stream::iter(corpus)
        .map(|record| {
            let text =
                if record.title.is_empty() { record.text } else { format!("{}\n\n{}", record.title, record.text) };
            let new = NewDocument {
                collection: COLLECTION.to_owned(),
                id: Some(record.id),
                title: Some(record.title).filter(|t| !t.is_empty()),
                mime: Some("text/plain".to_owned()),
                content: Bytes::from(text),
                ..NewDocument::default()
            };
            knowledge.ingest.document(new, Priority::Bulk)
        })
        .buffer_unordered(AT_ONCE);
    while let Some(done) = work.next().await {
        done?;
        bar.inc(1);
    }
    drop(work);
    bar.finish_and_clear();
    let mut results = Vec::new();
    for (name, mode) in [("dense", SearchMode::Dense), ("sparse", SearchMode::Sparse), ("hybrid", SearchMode::Hybrid)] {
        let began = Instant::now();
        let mut sum = Scores::default();
        for query in queries {
            let request = SearchRequest { mode, ..SearchRequest::new(COLLECTION, &query.text, DEPTH) };
            let hits = knowledge.retrieve.search(&request).await?.hits;
            let mut seen = HashSet::new();
            let ranked: Vec<String> =
                hits.into_iter().map(|h| h.document_id).filter(|d| seen.insert(d.clone())).collect();
            if let Some(relevant) = judged.get(&query.id) {
                sum.add(&score(&ranked, relevant));
            }
        }
        let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        results.push((name, sum.mean(queries.len()), took_ms));
    }
    knowledge.close().await;
    Ok(results)
}

fn records(path: &Path) -> Result<Vec<Record>, Failure> {
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(i, line)| serde_json::from_str(line).map_err(|e| format!("{}:{}: {e}", path.display(), i + 1).into()))
        .collect()
}

fn judgements(path: &Path) -> Result<Judgements, Failure> {
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut judged = Judgements::new();
    for (i, line) in text.lines().enumerate().skip(1).filter(|(_, line)| !line.trim().is_empty()) {
        let mut fields = line.split('\t');
        let (Some(query), Some(document), Some(Ok(relevance))) =
            (fields.next(), fields.next(), fields.next().map(|r| r.trim().parse::<f64>()))
        else {
            return Err(format!("{}:{}: three fields with tabs between are needed", path.display(), i + 1).into());
        };
        if relevance > 0.0 {
            judged.entry(query.to_owned()).or_default().insert(document.to_owned(), relevance);
        }
    }
    Ok(judged)
}

/// The three measures of one query, or their means.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Scores {
    ndcg: f64,
    recall: f64,
    mrr: f64,
}

impl Scores {
    fn add(&mut self, other: &Self) {
        self.ndcg += other.ndcg;
        self.recall += other.recall;
        self.mrr += other.mrr;
    }

    #[expect(clippy::cast_precision_loss, reason = "a count of queries")]
    fn mean(self, queries: usize) -> Self {
        let n = queries.max(1) as f64;
        Self { ndcg: self.ndcg / n, recall: self.recall / n, mrr: self.mrr / n }
    }
}

/// nDCG@10 with linear gains, Recall@100 and MRR@10, as BEIR's own evaluation computes them.
fn score(ranked: &[String], relevant: &HashMap<String, f64>) -> Scores {
    let gain = |id: &String| relevant.get(id).copied().unwrap_or(0.0);
    let discounted = |gains: &[f64]| -> f64 { (2u32..).zip(gains).map(|(at, gain)| gain / f64::from(at).log2()).sum() };
    let gains: Vec<f64> = ranked.iter().take(10).map(gain).collect();
    let mut ideal: Vec<f64> = relevant.values().copied().collect();
    ideal.sort_by(|a, b| b.total_cmp(a));
    ideal.truncate(10);
    let best = discounted(&ideal);
    let found = ranked.iter().take(100).filter(|id| gain(id) > 0.0).count();
    let first = (1u32..).zip(&gains).find(|(_, gain)| **gain > 0.0).map_or(0.0, |(at, _)| 1.0 / f64::from(at));
    #[expect(clippy::cast_precision_loss, reason = "counts of documents")]
    let recall = if relevant.is_empty() { 0.0 } else { found as f64 / relevant.len() as f64 };
    Scores { ndcg: if best > 0.0 { discounted(&gains) / best } else { 0.0 }, recall, mrr: first }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_agree_with_hand_made_ones() {
        let relevant = HashMap::from([("a".to_owned(), 1.0), ("b".to_owned(), 1.0)]);
        let ranked = |ids: &[&str]| ids.iter().map(|i| (*i).to_owned()).collect::<Vec<_>>();
        assert_eq!(score(&ranked(&["a", "b"]), &relevant), Scores { ndcg: 1.0, recall: 1.0, mrr: 1.0 });
        let late = score(&ranked(&["x", "a"]), &relevant);
        assert_eq!((late.recall, late.mrr), (0.5, 0.5));
        let ideal = 1.0 + 1.0 / 3f64.log2();
        assert!((late.ndcg - (1.0 / 3f64.log2()) / ideal).abs() < 1e-12);
        assert_eq!(score(&[], &relevant), Scores::default());
    }
}
