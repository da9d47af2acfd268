//! `tailrace doctor`: whether the models, the database and the index are there and agree. With
//! `--health` it only asks the running server, for container health checks.

use super::Failure;
use super::output::Output;
use crate::app::Knowledge;
use crate::config::Config;
use crate::knowledge::ingest::Mended;
use crate::knowledge::{Priority, reconcile};
use crate::storage::audit::{self, Orphans};
use clap::Args;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Only ask the server at server.listen whether it is ready
    #[arg(long)]
    health: bool,
    /// Mend what does not agree: points that were lost or that no row knows, rows that nothing leads to
    #[arg(long)]
    repair: bool,
}

const HEALTH: Duration = Duration::from_secs(3);

pub async fn run(config: Config, args: DoctorArgs, output: &Output) -> Result<(), Failure> {
    if args.health {
        tokio::time::timeout(HEALTH, ready(&config)).await.map_err(|_| "the server did not answer")??;
        output.result(&json!({"ready": true}), "The server is ready.");
        return Ok(());
    }
    let knowledge = Knowledge::open(&config).await?;
    let embedded = knowledge.base.embedders.default().embed(vec!["a test".to_owned()], Priority::Turn).await;
    let mended = if args.repair { Some(knowledge.ingest.audit(Duration::ZERO).await) } else { None };
    let compared = reconcile::compare(&knowledge.base).await;
    let orphans = audit::orphans(&knowledge.base.db).await;
    knowledge.close().await;
    let mut checks = Vec::new();
    if let Some(mended) = mended.transpose()? {
        let Mended { missing, extra, orphans } = mended;
        let detail = format!("mended: {missing} points were missing, {extra} were extra; rows: {}", rows_of(orphans));
        checks.push(check(true, "repair", detail));
    }
    let model = &config.embedding.model;
    checks.push(match &embedded {
        Ok(_) => check(true, "embedding", format!("model `{model}` loads and embeds")),
        Err(error) => check(false, "embedding", error.to_string()),
    });
    for c in compared? {
        let detail = format!(
            "collection `{}`: {} chunks in SQL, {} points in the index, {} missing, {} extra",
            c.collection,
            c.rows,
            c.points,
            c.missing.len(),
            c.extra.len()
        );
        checks.push(check(c.agrees(), "index", detail));
    }
    let orphans = orphans?;
    checks.push(check(orphans.none(), "rows", format!("rows that nothing leads to: {}", rows_of(orphans))));
    let failed = checks.iter().filter(|c| c["ok"] == false).count();
    let lines: Vec<String> = checks
        .iter()
        .map(|c| {
            format!("{} {}", if c["ok"] == true { "ok  " } else { "FAIL" }, c["detail"].as_str().unwrap_or_default())
        })
        .collect();
    output.result(&json!({"ok": failed == 0, "checks": checks}), &lines.join("\n"));
    match (failed, args.repair) {
        (0, _) => Ok(()),
        (_, true) => Err(format!("{failed} checks failed").into()),
        (_, false) => Err(format!("{failed} checks failed; `tailrace doctor --repair` mends rows and index").into()),
    }
}

fn rows_of(orphans: Orphans) -> String {
    let Orphans { chunks, versions, contents, stuck } = orphans;
    format!("{chunks} chunks, {versions} versions, {contents} uploads, {stuck} documents that nobody works on")
}

fn check(ok: bool, name: &str, detail: String) -> Value {
    json!({"ok": ok, "check": name, "detail": detail})
}

/// `GET /readyz`, without a client: one line in, the status out.
async fn ready(config: &Config) -> Result<(), Failure> {
    let mut address = config.server.listen;
    if address.ip().is_unspecified() {
        address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
    }
    let mut stream = TcpStream::connect(address).await.map_err(|e| format!("nothing answers at {address}: {e}"))?;
    let request = format!("GET /readyz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut head = [0; 64];
    let read = stream.read(&mut head).await?;
    let head = String::from_utf8_lossy(&head[..read]).into_owned();
    if head.starts_with("HTTP/1.1 200") {
        return Ok(());
    }
    Err(format!("the server at {address} is not ready: {}", head.lines().next().unwrap_or_default()).into())
}
