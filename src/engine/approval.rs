//! Calls with side effects that wait for the user's word.
//!
//! Once text that somebody else wrote is in the model's context, such a call may be that text's idea: it runs only if
//! the user says so, and is refused if nobody answers.

use super::TurnState;
use super::calls::Work;
use super::event::{Approval, Rejection, RunnerEvent};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// Why a call waits, for the user.
const WHY: &str = "this tool changes something outside of the conversation, and the model has read text that somebody \
                   else wrote (documents or tool results)";

/// The calls of one turn that wait. Answered from outside the engine.
#[derive(Debug, Default)]
pub struct Approvals {
    waiting: Mutex<HashMap<String, oneshot::Sender<bool>>>,
}

impl Approvals {
    /// `false`: no such call waits (any more).
    pub fn answer(&self, call_id: &str, allow: bool) -> bool {
        self.lock().remove(call_id).is_some_and(|asked| asked.send(allow).is_ok())
    }

    fn ask(&self, call_id: &str) -> oneshot::Receiver<bool> {
        let (answer, asked) = oneshot::channel();
        self.lock().insert(call_id.to_owned(), answer);
        asked
    }

    /// The ids of the calls that wait.
    pub fn waiting(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    pub(super) fn forget(&self, call_id: &str) {
        self.lock().remove(call_id);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, oneshot::Sender<bool>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Allowed,
    Denied,
    /// Nobody answered in time.
    None,
}

/// Waits for the answer, at most so long.
async fn word(asked: oneshot::Receiver<bool>, patience: Duration) -> Word {
    match tokio::time::timeout(patience, asked).await {
        Ok(Ok(true)) => Word::Allowed,
        Ok(Ok(false)) => Word::Denied,
        Ok(Err(_)) | Err(_) => Word::None,
    }
}

impl TurnState<'_> {
    /// Asks the user about an admitted call.
    pub(super) fn ask(&mut self, at: usize, work: Work) {
        let Some(call) = self.calls.list.get(at) else { return };
        let approval = Approval {
            call_id: call.id.clone(),
            name: call.name.clone(),
            arguments: work.arguments().clone(),
            why: WHY.to_owned(),
        };
        let asked = self.turn.approvals.ask(&approval.call_id);
        self.calls.spawn_question(at, work, word(asked, self.engine.config.approval_timeout));
        (self.emit)(RunnerEvent::Approval(approval));
    }

    /// The user has answered, or not.
    pub(super) fn answered(&mut self, at: usize, word: Word) {
        let Some(work) = self.calls.take_asked(at) else { return };
        if let Some(call) = self.calls.list.get(at) {
            self.turn.approvals.forget(&call.id);
        }
        let why = match word {
            Word::Allowed => return self.launch(at, work),
            Word::Denied => "the user did not allow this call".to_owned(),
            Word::None => {
                let limit = self.engine.config.approval_timeout.as_millis();
                format!("the user did not answer within {limit} ms whether this call may run")
            }
        };
        self.calls.release(at);
        self.refuse(at, Rejection::NotApproved, why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the paused clock is exact to.
    const TICK: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn a_question_has_one_answer_or_none() {
        let patience = Duration::from_secs(60);
        for (answer, want) in [(Some(true), Word::Allowed), (Some(false), Word::Denied), (None, Word::None)] {
            let approvals = Approvals::default();
            let asked = approvals.ask("c");
            assert!(!approvals.answer("other", true));
            if let Some(allow) = answer {
                assert!(approvals.answer("c", allow));
                assert!(!approvals.answer("c", allow), "said twice");
            }
            let began = tokio::time::Instant::now();
            assert_eq!(word(asked, patience).await, want);
            let least = if answer.is_none() { patience } else { Duration::ZERO };
            assert!((least..=least + TICK).contains(&began.elapsed()));
            assert!(!approvals.answer("c", true), "too late");
        }
    }
}
