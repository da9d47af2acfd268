//! `tailrace eval DIR`: retrieval measured on a BEIR folder (`corpus.jsonl`, `queries.jsonl`,
//! `qrels/test.tsv`), in a temporary store, through the same path that answers use. Documents are ranked by
//! their best chunk, without a cap per document. Where the questions come with answers (`metadata.answers`), it also
//! judges how chunks cut these, and whether the passages that an answer would be made from have them.

mod answered;
mod scores;
mod spans;

use super::Failure;
use super::output::Output;
use crate::app::Knowledge;
use crate::config::Config;
use crate::knowledge::Priority;
use crate::knowledge::ingest::NewDocument;
use crate::knowledge::retrieve::{SearchMode, SearchRequest};
use crate::shutdown::wait_for_signal;
use answered::Answered;
use bytes::Bytes;
use clap::Args;
use futures_util::stream::{self, StreamExt};
use scores::{Scores, score};
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
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    answers: Vec<String>,
}

/// What was measured in one mode.
struct Measured {
    mode: &'static str,
    scores: Vec<Scores>,
    took_ms: u64,
}

/// Relevance by query, then by document.
type Judgements = HashMap<String, HashMap<String, f64>>;

pub async fn run(mut config: Config, args: EvalArgs, output: &Output) -> Result<(), Failure> {
    let corpus = records(&args.dir.join("corpus.jsonl"))?;
    let judged = judgements(&args.dir.join("qrels/test.tsv"))?;
    let queries: Vec<Record> =
        records(&args.dir.join("queries.jsonl"))?.into_iter().filter(|q| judged.contains_key(&q.id)).collect();
    let folder = tempfile::Builder::new().prefix("tailrace-eval-").tempdir()?;
    config.storage.data_dir = folder.path().to_owned();
    config.storage.database_url = None;
    config.qdrant.url = None;
    let model = config.embedding.model.clone();
    let measured = tokio::select! {
        measured = measure(&config, corpus, &queries, &judged, &args.language, output) => measured,
        signal = wait_for_signal() => signal.map_err(Failure::from).and_then(|()| Err("interrupted".into())),
    };
    folder.close()?;
    let (results, answered) = measured?;
    let dataset = args.dir.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let mut text = vec![format!("{dataset}: mode, nDCG@10 (95 % interval), Recall@100, MRR@10")];
    let mut rows: Vec<Value> = Vec::new();
    for Measured { mode, scores, took_ms } in &results {
        let (mean, (low, high)) = (Scores::mean(scores), Scores::ndcg_interval(scores));
        text.push(format!("  {mode:7} {:.3} ({low:.3} to {high:.3})  {:.3}  {:.3}", mean.ndcg, mean.recall, mean.mrr));
        rows.push(json!({"mode": mode, "ndcg@10": mean.ndcg, "recall@100": mean.recall, "mrr@10": mean.mrr,
            "queries": queries.len(), "took_ms": took_ms, "ndcg@10_interval": [low, high]}));
    }
    let mut report = json!({"dataset": dataset, "model": model, "results": rows});
    if let Some(answered) = answered {
        text.extend(answered.lines());
        answered.write(&mut report);
    }
    output.result(&report, &text.join("\n"));
    Ok(())
}

async fn measure(
    config: &Config,
    corpus: Vec<Record>,
    queries: &[Record],
    judged: &Judgements,
    language: &str,
    output: &Output,
) -> Result<(Vec<Measured>, Option<Answered>), Failure> {
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
        let mut scores = Vec::with_capacity(queries.len());
        for query in queries {
            let request = SearchRequest { mode, ..SearchRequest::new(COLLECTION, &query.text, DEPTH) };
            let hits = knowledge.retrieve.search(&request).await?.hits;
            let mut seen = HashSet::new();
            let ranked: Vec<String> =
                hits.into_iter().map(|h| h.document_id).filter(|d| seen.insert(d.clone())).collect();
            if let Some(relevant) = judged.get(&query.id) {
                scores.push(score(&ranked, relevant));
            }
        }
        let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        results.push(Measured { mode: name, scores, took_ms });
    }
    let answered = Answered::of(&knowledge, config, queries, judged).await?;
    knowledge.close().await;
    Ok((results, answered))
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
