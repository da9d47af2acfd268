//! What a client gets: frames of every turn it follows, replies, pings. A reader that takes nothing for too long is
//! closed, and told how far it came.

use super::super::caller::Caller;
use super::super::state::AppState;
use super::{PING, code, wire};
use crate::turns::Live;
use crate::turns::log::LogReader;
use axum::extract::ws::{CloseFrame, Message, WebSocket};
use bytes::Bytes;
use futures_util::stream::{BoxStream, SplitSink};
use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{broadcast, mpsc};
use tokio::time::MissedTickBehavior;
use tokio_stream::StreamMap;
use tokio_util::sync::DropGuard;
use uuid::Uuid;

/// How long a client that was too slow has to take the message that says so.
const SLOW_LAST_WORD: Duration = Duration::from_secs(30);

/// What the reading loop asks for.
pub enum Request {
    Reply(String),
    Follow {
        turn_id: Uuid,
        reader: LogReader,
        request_id: Option<Value>,
        /// Cancels the turn when the socket goes.
        guard: Option<DropGuard>,
    },
    /// Every turn of it, those that run and those that begin.
    Conversation(Uuid),
}

/// Why writing ended.
enum End {
    /// The other side is gone.
    Gone,
    Stalled,
}

/// Until the client is gone or stalls, or the server stops and nothing more follows.
pub async fn write(
    app: AppState,
    caller: Caller,
    socket: Uuid,
    sink: SplitSink<WebSocket, Message>,
    mut asked: mpsc::Receiver<Request>,
    stall: Duration,
) {
    let mut writer = Writer { sink, stall, last_seq: 0 };
    let mut following = Following { socket, ..Following::default() };
    let (stopping, gone) = (app.shutdown.token(), caller.gone());
    let mut ping = tokio::time::interval(PING);
    ping.reset();
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let sent = tokio::select! {
            Some((turn_id, batch)) = following.turns.next() => {
                if batch.is_last {
                    following.ended(turn_id);
                }
                writer.frames(turn_id, batch).await
            }
            request = asked.recv() => match request {
                Some(Request::Reply(text)) => writer.message(Message::Text(text.into())).await,
                Some(Request::Follow { turn_id, reader, request_id, guard }) => {
                    following.add(turn_id, reader, request_id, guard);
                    Ok(())
                }
                Some(Request::Conversation(id)) => {
                    following.conversation(&app, id);
                    Ok(())
                }
                None => return,
            },
            begun = begun(&mut following.begun) => {
                following.begun(&app, &caller, begun);
                Ok(())
            }
            _ = ping.tick() => writer.message(Message::Ping(Bytes::new())).await,
            () = gone.cancelled() => {
                return writer.close(code::UNAUTHORIZED, "this key has been revoked or has expired").await;
            }
            () = stopping.cancelled(), if following.turns.is_empty() => {
                return writer.close(code::GOING_AWAY, "the server is stopping").await;
            }
        };
        match sent {
            Ok(()) => {}
            Err(End::Gone) => return,
            Err(End::Stalled) => {
                let reason = format!("too slow a reader; the last frame that was sent is seq {}", writer.last_seq);
                return writer.close(code::SLOW_READER, &reason).await;
            }
        }
    }
}

/// The next turn that begins, if any conversation is followed; `None`: some were missed.
async fn begun(receiver: &mut Option<broadcast::Receiver<Arc<Live>>>) -> Option<Arc<Live>> {
    match receiver {
        Some(receiver) => receiver.recv().await.ok(),
        None => std::future::pending().await,
    }
}

/// Frames of one turn, as many as there were.
struct Batch {
    frames: Vec<Bytes>,
    request_id: Option<Value>,
    /// Nothing follows: the turn has ended.
    is_last: bool,
}

#[derive(Default)]
struct Following {
    /// The socket's id: turns that it asks for itself are followed without being announced.
    socket: Uuid,
    /// One reader for each turn: each frame leaves once, or again where the client has asked for it.
    turns: StreamMap<Uuid, BoxStream<'static, Batch>>,
    /// What cancels turns when the socket goes.
    guards: HashMap<Uuid, DropGuard>,
    conversations: HashSet<Uuid>,
    begun: Option<broadcast::Receiver<Arc<Live>>>,
}

impl Following {
    fn add(&mut self, turn_id: Uuid, reader: LogReader, request_id: Option<Value>, guard: Option<DropGuard>) {
        if let Some(guard) = guard {
            self.guards.insert(turn_id, guard);
        }
        let batches = futures_util::stream::unfold(Some((reader, request_id)), |state| async {
            let (mut reader, request_id) = state?;
            Some(match reader.next().await {
                Some(frames) => (Batch { frames, request_id, is_last: false }, Some((reader, None))),
                None => (Batch { frames: Vec::new(), request_id: None, is_last: true }, None),
            })
        });
        self.turns.insert(turn_id, batches.boxed());
    }

    /// Nothing follows, and there is nothing to cancel any more.
    fn ended(&mut self, turn_id: Uuid) {
        self.turns.remove(&turn_id);
        let _: Option<_> = self.guards.remove(&turn_id).map(DropGuard::disarm);
    }

    fn conversation(&mut self, app: &AppState, id: Uuid) {
        if self.begun.is_none() {
            self.begun = Some(app.turns.live().begun());
        }
        self.conversations.insert(id);
        self.catch_up(app, id);
    }

    fn catch_up(&mut self, app: &AppState, id: Uuid) {
        // One that has not begun yet is announced when it does.
        for turn in app.turns.live().of_conversation(id).iter().filter(|turn| !turn.log.is_empty()) {
            self.join(turn);
        }
    }

    fn join(&mut self, turn: &Live) {
        if turn.asked_by != Some(self.socket) && !self.turns.contains_key(&turn.turn_id) {
            self.add(turn.turn_id, turn.log.from_start(), None, None);
        }
    }

    fn begun(&mut self, app: &AppState, caller: &Caller, begun: Option<Arc<Live>>) {
        match begun {
            Some(turn) => {
                if self.conversations.contains(&turn.conversation_id) && caller.owner().may_see(turn.owner.as_deref()) {
                    self.join(&turn);
                }
            }
            // Too many began at once: those that still run are found.
            None => self.conversations.clone().into_iter().for_each(|id| self.catch_up(app, id)),
        }
    }
}

struct Writer {
    sink: SplitSink<WebSocket, Message>,
    /// How long one message may take to leave.
    stall: Duration,
    /// Of the frame that was handed to the socket last.
    last_seq: u64,
}

impl Writer {
    async fn frames(&mut self, turn_id: Uuid, batch: Batch) -> Result<(), End> {
        for frame in &batch.frames {
            let Some(text) = wire::event(turn_id, frame, batch.request_id.as_ref()) else { continue };
            let sent = self.sink.feed(Message::Text(text.into()));
            in_time(self.stall, sent).await?;
            if let Some((seq, ..)) = super::super::frame::parts(frame) {
                self.last_seq = seq;
            }
        }
        in_time(self.stall, self.sink.flush()).await
    }

    async fn message(&mut self, message: Message) -> Result<(), End> {
        in_time(self.stall, self.sink.send(message)).await
    }

    async fn close(&mut self, code: u16, reason: &str) {
        let frame = Message::Close(Some(CloseFrame { code, reason: reason.into() }));
        // A client that does not read does not hear it.
        drop(tokio::time::timeout(SLOW_LAST_WORD, self.sink.send(frame)).await);
    }
}

async fn in_time(stall: Duration, sent: impl Future<Output = Result<(), axum::Error>>) -> Result<(), End> {
    match tokio::time::timeout(stall, sent).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(End::Gone),
        Err(_) => Err(End::Stalled),
    }
}
