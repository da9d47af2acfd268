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

pub async fn run(config: Config) -> Result<(), Failure> {
    let guard = guard::Guard {
        admin_key: config.server.admin_key.clone(),
        allowed_origins: config.server.allowed_origins.clone().into(),
        insecure: config.server.insecure_no_auth,
    };
    guard::may_listen(config.server.listen, &guard)?;
    let mut signals = Signals::listen()?;
    let listener = server::bind(config.server.listen).await?;
    let address = listener.local_addr()?;
    let drain = config.server.drain_timeout;
    let shutdown = Shutdown::new();
    let app = App::build(config, frame::encode, shutdown.clone()).await?;
    let app = Arc::new(app);
    app.start_background();
    announce(&app, address)?;
    let router = crate::http::router(AppState(Arc::clone(&app)), guard);
    tokio::select! {
        () = server::serve(listener, router, &shutdown) => {}
        () = signals.next() => {}
    }
    tracing::info!(drain.ms = drain.as_millis(), "stopping: running turns may finish");
    tokio::select! {
        drained = shutdown.drain(drain) => {
            if !drained {
                tracing::warn!(tasks = shutdown.running(), "stopped before everything had ended");
            }
        }
        () = signals.next() => tracing::warn!("stopped at once"),
    }
    app.close().await;
    Ok(())
}

/// The one line on stdout: scripts wait for it and read the address from it.
fn announce(app: &App, address: std::net::SocketAddr) -> std::io::Result<()> {
    let provider = app.providers.first().map_or_else(String::new, |p| format!("{} ({})", p.id(), p.model()));
    let mut out = std::io::stdout().lock();
    writeln!(out, "Tailrace listens on http://{address}; answers come from {provider}")?;
    out.flush()
}
