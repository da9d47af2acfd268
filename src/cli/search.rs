//! `tailrace search QUERY`: the retrieval path in the terminal.

use super::Failure;
use super::output::Output;
use super::remote::Remote;
use crate::app::Knowledge;
use crate::config::Config;
use crate::knowledge::retrieve::{SearchMode, SearchRequest};
use crate::message::sources::snippet;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

#[derive(Debug, Args)]
pub struct SearchArgs {
    query: String,
    #[arg(long, short, default_value = "default")]
    collection: String,
    #[arg(long, short = 'n', default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    limit: u16,
    #[arg(long, value_enum, default_value_t)]
    mode: Mode,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Mode {
    #[default]
    Hybrid,
    Dense,
    Sparse,
}

pub async fn run(config: Config, args: SearchArgs, output: &Output) -> Result<(), Failure> {
    let answer = match Knowledge::open(&config).await {
        Ok(knowledge) => {
            let found = here(&knowledge, &args).await;
            knowledge.close().await;
            found?
        }
        Err(error) => {
            let remote = Remote::instead(&error, &config).ok_or(error)?;
            let body = json!({"query": args.query, "limit": args.limit, "mode": args.mode.word(), "explain": true});
            remote.json(&format!("/api/v1/collections/{}/search", args.collection), &body).await?
        }
    };
    let hits = answer["hits"].as_array().map(Vec::as_slice).unwrap_or_default();
    let shown: Vec<String> = hits.iter().enumerate().map(|(i, hit)| show(i + 1, hit)).collect();
    let text = if shown.is_empty() { "Nothing found.".to_owned() } else { shown.join("\n\n") };
    output.result(&answer, &text);
    Ok(())
}

/// As the search route answers.
async fn here(knowledge: &Knowledge, args: &SearchArgs) -> Result<Value, Failure> {
    let mode = match args.mode {
        Mode::Hybrid => SearchMode::Hybrid,
        Mode::Dense => SearchMode::Dense,
        Mode::Sparse => SearchMode::Sparse,
    };
    let request =
        SearchRequest { mode, explain: true, ..SearchRequest::new(&args.collection, &args.query, args.limit.into()) };
    Ok(serde_json::to_value(crate::http::search::Answer::new(knowledge.retrieve.search(&request).await?, true))?)
}

fn show(n: usize, hit: &Value) -> String {
    let word = |key: &str| hit[key].as_str().unwrap_or_default();
    let path = hit["explain"]["heading_path"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let place: Vec<&str> = std::iter::once(word("uri")).chain(path).collect();
    let score = hit["score"].as_f64().unwrap_or_default();
    format!("{n}. {}  {score:.3}\n   {}\n   {}", word("title"), place.join(" › "), snippet(word("text")))
}

impl Mode {
    fn word(self) -> &'static str {
        match self {
            Self::Hybrid => "hybrid",
            Self::Dense => "dense",
            Self::Sparse => "sparse",
        }
    }
}
