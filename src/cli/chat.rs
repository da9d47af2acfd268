//! `tailrace chat`: a conversation in the terminal, in this process or, where a server runs already,
//! through it. Text goes to stdout; tool lines and sources to stderr, so that an answer can be piped.
//! Ctrl-C stops the answer, at the prompt the command.

use super::Failure;
use super::output::Output;
use super::remote::Remote;
use crate::app::App;
use crate::config::Config;
use crate::engine::event::ToolMode;
use crate::http::frame;
use crate::shutdown::{Shutdown, Signals};
use crate::turns::{Retrieval, Started, TurnInput};
use clap::Args;
use serde_json::{Value, json};
use std::io::{BufRead, IsTerminal};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

#[derive(Debug, Args)]
pub struct ChatArgs {
    /// Ask once and end; without it questions are read line by line
    question: Option<String>,
    /// May be given several times
    #[arg(long, short, default_value = "default")]
    collection: Vec<String>,
    /// Go on with this conversation
    #[arg(long)]
    conversation: Option<Uuid>,
    /// Retrieve only when the model calls vector_search
    #[arg(long)]
    tool_retrieval: bool,
}

/// How long tasks may end after the last answer.
const DRAIN: Duration = Duration::from_secs(5);

/// Who answers.
enum Answerer {
    Here(Box<App>),
    There(Remote),
}

pub async fn run(config: Config, args: ChatArgs, output: &Output) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let shutdown = Shutdown::new();
    let answerer = match App::build(config.clone(), frame::WIRE, shutdown.clone()).await {
        Ok(app) => {
            app.start_background();
            Answerer::Here(Box::new(app))
        }
        Err(error) => match Remote::instead(&error, &config) {
            Some(remote) => Answerer::There(remote),
            None => return Err(error),
        },
    };
    match &answerer {
        Answerer::There(remote) => output.note(&format!("Asking the server at {}.", remote.url())),
        Answerer::Here(app) => {
            if let Some(provider) = app.providers.first() {
                output.note(&format!("Answers come from {} ({}).", provider.id(), provider.model()));
            }
        }
    }
    let done = converse(&answerer, args, output, &mut signals).await;
    if let Answerer::Here(app) = answerer {
        shutdown.drain(DRAIN).await;
        app.close().await;
    }
    done
}

async fn converse(
    answerer: &Answerer,
    mut args: ChatArgs,
    output: &Output,
    signals: &mut Signals,
) -> Result<(), Failure> {
    if let Some(question) = args.question.take() {
        return ask(answerer, question, &mut args, output, signals).await?;
    }
    output.note("Ask a question; an empty line or Ctrl-D ends.");
    let somebody_asks = std::io::stdin().is_terminal();
    loop {
        if somebody_asks {
            output.piece("> ");
        }
        let line = tokio::select! {
            line = tokio::task::spawn_blocking(|| std::io::stdin().lock().lines().next()) => line?,
            () = signals.next() => None,
        };
        let question = match line.transpose()? {
            Some(line) if !line.trim().is_empty() => line,
            _ => return Ok(()),
        };
        // Who sits there may ask again; a script must not take what was said for an answer.
        let answered = ask(answerer, question, &mut args, output, signals).await?;
        if !somebody_asks {
            answered?;
        }
    }
}

/// The inner result says whether the turn came to a good end.
async fn ask(
    answerer: &Answerer,
    question: String,
    args: &mut ChatArgs,
    output: &Output,
    signals: &mut Signals,
) -> Result<Result<(), Failure>, Failure> {
    let mut shown =
        Shown { output: *output, conversation: None, sources: Vec::new(), error: String::new(), failed: None };
    match answerer {
        Answerer::Here(app) => here(app, question, args, &mut shown, signals).await?,
        Answerer::There(remote) => {
            let body = json!({
                "message": question, "conversation_id": args.conversation, "collection": args.collection,
                "retrieval": if args.tool_retrieval { "tool" } else { "auto" }, "on_disconnect": "cancel",
            });
            tokio::select! {
                done = remote.turn(&body, |name, data| shown.show(name, data)) => done?,
                () = signals.next() => output.note("\n  (stopped)"),
            }
        }
    }
    args.conversation = shown.conversation.or(args.conversation);
    Ok(shown.end().map_or(Ok(()), |why| Err(why.into())))
}

async fn here(
    app: &App,
    question: String,
    args: &ChatArgs,
    shown: &mut Shown,
    signals: &mut Signals,
) -> Result<(), Failure> {
    for collection in &args.collection {
        app.base.collection(collection).await?;
    }
    let provider = app.providers.first().cloned().ok_or("no provider is configured")?;
    let engine = app.turns.engine();
    let input = TurnInput {
        message: question,
        conversation_id: args.conversation,
        replace_message_id: None,
        collections: args.collection.clone(),
        mode: if provider.supports_tools() { ToolMode::Native } else { ToolMode::Inline },
        provider,
        tools: engine.tools().iter().map(|tool| tool.name.clone()).collect(),
        retrieval: if args.tool_retrieval { Retrieval::Tool } else { Retrieval::Auto },
        limits: engine.config().limits,
        tool_timeout: engine.config().tool_timeout,
        owner: None,
        idempotency: None,
        asked_by: None,
        cancel: CancellationToken::new(),
    };
    let Started::New(turn) = app.turns.start(input).await? else { return Err("this turn has begun before".into()) };
    let mut reader = turn.log.from_start();
    loop {
        tokio::select! {
            frames = reader.next() => match frames {
                Some(frames) => frames.iter().for_each(|frame| shown.frame(frame)),
                None => return Ok(()),
            },
            // The turn ends itself as cancelled and keeps what was said.
            () = signals.next() => turn.cancel.cancel(),
        }
    }
}

/// What of a turn has been printed.
struct Shown {
    output: Output,
    conversation: Option<Uuid>,
    sources: Vec<Value>,
    /// What the last error frame said.
    error: String,
    /// Why the turn came to no good end.
    failed: Option<String>,
}

impl Shown {
    /// Both ways of asking show the same.
    fn frame(&mut self, frame: &[u8]) {
        if let Some((_, event, json)) = frame::parts(frame) {
            self.show(event.unwrap_or("delta"), &serde_json::from_str(json).unwrap_or(Value::Null));
        }
    }

    fn show(&mut self, name: &str, data: &Value) {
        let output = self.output;
        let word = |key: &str| data[key].as_str().unwrap_or_default().to_owned();
        match name {
            "turn_start" => self.conversation = word("conversation_id").parse().ok(),
            "error" => self.error = word("message"),
            "turn_end" => self.failed = failure(&word("finish"), &self.error),
            _ => {}
        }
        if output.json() {
            return output.result(&json!({"event": name, "data": data}), "");
        }
        match name {
            "delta" => output.piece(data.as_str().unwrap_or_default()),
            "tool_start" => output.note(&format!("\n  → {} {}", word("name"), data["arguments"])),
            "tool_result" => {
                let what = match (data["output"].as_str(), data["rejected"].as_bool()) {
                    (Some(text), _) => format!("{} bytes", text.len()),
                    (None, Some(true)) => format!("refused: {}", word("error")),
                    (None, _) => format!("failed: {}", word("error")),
                };
                output.note(&format!("  ← {} {what} ({} ms)", word("name"), data["duration_ms"]));
            }
            "sources" => {
                for source in data.as_array().into_iter().flatten() {
                    if !self.sources.iter().any(|s| s["n"] == source["n"]) {
                        self.sources.push(source.clone());
                    }
                }
            }
            "notice" => output.note(&format!("  ({})", word("message"))),
            "error" => output.note(&format!("\n  error: {}", word("message"))),
            _ => {}
        }
    }

    fn end(self) -> Option<String> {
        if self.output.json() {
            return self.failed;
        }
        self.output.piece("\n");
        for source in &self.sources {
            let word = |key: &str| source[key].as_str().unwrap_or_default();
            self.output.note(&format!("  [{}] {} — {}", source["n"], word("title"), word("uri")));
        }
        self.failed
    }
}

/// Why a turn with this `finish` is not the answer that was asked for. That it was stopped by the user, or ran out of
/// rounds, is none.
fn failure(finish: &str, error: &str) -> Option<String> {
    match (finish, error) {
        ("complete" | "max_continuations" | "cancelled", _) => None,
        (_, "") => Some(format!("the answer is not complete: {finish}")),
        (_, error) => Some(format!("the answer is not complete: {error}")),
    }
}
