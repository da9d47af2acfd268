//! `tailrace serve`: the API until SIGINT or SIGTERM; a second signal ends it at once.

use super::Failure;
use crate::app::App;
use crate::config::Config;
use crate::http::state::AppState;
use crate::http::{frame, guard, server};
use crate::shutdown::{Shutdown, Signals};
use clap::Args;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Address to listen on (server.listen); port 0 takes a free one
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Let anyone in who can reach the address, without a key
    #[arg(long)]
    insecure_no_auth: bool,
}

impl ServeArgs {
    pub fn overrides(&self) -> Vec<(String, String)> {
        let mut overrides = Vec::new();
        if let Some(listen) = &self.listen {
            overrides.push(("server.listen".to_owned(), listen.clone()));
        }
        if self.insecure_no_auth {
            overrides.push(("server.insecure_no_auth".to_owned(), "true".to_owned()));
        }
        overrides
    }
}

/// How long turns that were stopped have to store how far they came.
const CHECKPOINT: Duration = Duration::from_millis(500);

/// How long closing the database and the index may take.
const CLOSE: Duration = Duration::from_millis(400);

pub async fn run(config: Config) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let listener = server::bind(config.server.listen).await?;
    let address = listener.local_addr()?;
    let server = config.server.clone();
    let shutdown = Shutdown::new();
    let app = App::build(config, frame::WIRE, shutdown.clone()).await?;
    let app = Arc::new(app);
    let guard = guard::Guard {
        keys: app.keys.clone(),
        allowed_origins: server.allowed_origins.into(),
        insecure: server.insecure_no_auth,
    };
    guard::may_listen(server.listen, &guard)?;
    app.start_background();
    announce(&app, address)?;
    let router = crate::http::router(AppState(Arc::clone(&app)), guard);
    drop(shutdown.spawn_connection(server::serve(listener, router, shutdown.clone(), server.stall_timeout)));
    signals.next().await;
    let drain = server.drain_timeout;
    tracing::info!(drain.ms = drain.as_millis(), "stopping: running turns may finish");
    tokio::select! {
        drained = shutdown.drain(drain) => {
            if !drained {
                tracing::warn!(tasks = shutdown.running(), "stopping before everything has ended");
                app.turns.live().stop();
                shutdown.drain(CHECKPOINT).await;
            }
        }
        () = signals.next() => {
            // Nothing is lost: the next start marks what ran as interrupted and brings the index up to date.
            tracing::warn!("stopped at once");
            return Ok(());
        }
    }
    // The next start brings up to date what is not stored by then.
    let closed = tokio::select! {
        () = app.close() => true,
        () = tokio::time::sleep(CLOSE) => false,
        () = signals.next() => false,
    };
    if !closed {
        tracing::warn!("stopped before database and index were closed");
    }
    Ok(())
}

/// The one line on stdout: scripts wait for it and read the address from it.
fn announce(app: &App, address: std::net::SocketAddr) -> std::io::Result<()> {
    let provider = app.providers.first().map_or_else(String::new, |p| format!("{} ({})", p.id(), p.model()));
    let mut out = std::io::stdout().lock();
    writeln!(out, "Tailrace listens on http://{address}; answers come from {provider}")?;
    out.flush()
}
