//! A turn as one object: so far, or as it was stored.

use super::fold::{Ended, Fold};
use super::live::Live;
use crate::message::Usage;
use crate::storage::messages::StoredMessage;
use crate::storage::turns::{Progress, StoredTurn};
use serde_json::Value;
use uuid::Uuid;

#[derive(Clone, Debug)]
pub struct TurnView {
    pub turn_id: Uuid,
    pub conversation_id: Uuid,
    pub progress: Progress,
    /// `None` while it runs, like the telemetry.
    pub finish: Option<String>,
    pub fallback_reason: Option<String>,
    pub usage: Usage,
    pub telemetry: Option<Value>,
    pub error: Option<Value>,
}

impl TurnView {
    pub fn of(turn: &Live) -> Self {
        Self::folded(turn, turn.log.fold())
    }

    pub fn folded(turn: &Live, fold: Fold) -> Self {
        let Fold { progress, error, end, .. } = fold;
        let finish = end.map(|Ended { finish, .. }| finish.as_str().to_owned());
        Self {
            turn_id: turn.turn_id,
            conversation_id: turn.conversation_id,
            progress,
            finish,
            fallback_reason: end.and_then(|end| end.fallback_reason).map(str::to_owned),
            usage: end.map(|end| end.usage).unwrap_or_default(),
            telemetry: end.map(|end| serde_json::to_value(end.telemetry).unwrap_or_default()),
            error: error.map(|error| error.to_value()),
        }
    }

    pub(super) fn stored(turn: StoredTurn, answer: StoredMessage) -> Self {
        Self {
            turn_id: turn.id,
            conversation_id: turn.conversation_id,
            progress: Progress { text: answer.text, calls: answer.calls, sources: answer.sources },
            finish: turn.finish,
            fallback_reason: turn.fallback_reason,
            usage: answer.usage,
            telemetry: turn.telemetry,
            error: turn.error,
        }
    }
}
