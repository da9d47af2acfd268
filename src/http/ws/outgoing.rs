//! What a client gets: frames of every turn it follows, replies, pings. A reader that takes nothing for too long is
//! closed, and told how far it came.

use super::super::caller::Caller;
use super::super::state::AppState;
use super::{PING, code, wire};
use crate::turns::Live;
use crate::turns::log::LogReader;
use axum::extract::ws::{CloseFrame, Message, WebSocket};
use bytes::Bytes;
use futures_util::stream::{BoxStream, SelectAll, SplitSink};
use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{broadcast, mpsc};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::DropGuard;
use uuid::Uuid;

/// How long a client that was too slow has to take the message that says so.
const LAST_WORD: Duration = Duration::from_secs(30);

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
    sink: SplitSink<WebSocket, Message>,
    mut asked: mpsc::Receiver<Request>,
    stall: Duration,
) {
    let mut writer = Writer { sink, stall, last_seq: 0 };
    let mut following = Following::default();
    let stopping = app.shutdown.token();
    let mut ping = tokio::time::interval(PING);
    ping.reset();
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let sent = tokio::select! {
            Some(frames) = following.turns.next() => {
                if frames.is_last {
                    following.ids.remove(&frames.turn_id);
                }
                writer.frames(frames).await
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
    turn_id: Uuid,
    frames: Vec<Bytes>,
    request_id: Option<Value>,
    /// Nothing follows: the turn has ended.
    is_last: bool,
}

#[derive(Default)]
struct Following {
    turns: SelectAll<BoxStream<'static, Batch>>,
    ids: HashSet<Uuid>,
    conversations: HashSet<Uuid>,
    begun: Option<broadcast::Receiver<Arc<Live>>>,
}

impl Following {
    fn add(&mut self, turn_id: Uuid, reader: LogReader, request_id: Option<Value>, guard: Option<DropGuard>) {
        self.ids.insert(turn_id);
        let state = Some((reader, request_id, guard));
        let batches = futures_util::stream::unfold(state, move |state| async move {
            let (mut reader, mut request_id, guard) = state?;
            let batch = |frames, request_id, is_last| Batch { turn_id, frames, request_id, is_last };
            Some(match reader.next().await {
                Some(frames) => (batch(frames, request_id.take(), false), Some((reader, None, guard))),
                None => {
                    // The turn has ended by itself: there is nothing to cancel.
                    let _: Option<_> = guard.map(DropGuard::disarm);
                    (batch(Vec::new(), None, true), None)
                }
            })
        });
        self.turns.push(batches.boxed());
    }

    fn conversation(&mut self, app: &AppState, id: Uuid) {
        if self.begun.is_none() {
            self.begun = Some(app.turns.live().begun());
        }
        self.conversations.insert(id);
        self.catch_up(app, id);
    }

    fn catch_up(&mut self, app: &AppState, id: Uuid) {
        for turn in app.turns.live().of_conversation(id) {
            self.join(&turn);
        }
    }

    fn join(&mut self, turn: &Live) {
        if !self.ids.contains(&turn.turn_id) {
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
    async fn frames(&mut self, batch: Batch) -> Result<(), End> {
        for frame in &batch.frames {
            let Some(text) = wire::event(batch.turn_id, frame, batch.request_id.as_ref()) else { continue };
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
        drop(tokio::time::timeout(LAST_WORD, self.sink.send(frame)).await);
    }
}

async fn in_time(stall: Duration, sent: impl Future<Output = Result<(), axum::Error>>) -> Result<(), End> {
    match tokio::time::timeout(stall, sent).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(End::Gone),
        Err(_) => Err(End::Stalled),
    }
}
