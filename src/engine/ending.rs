//! How a turn ends, and what the client is told besides.

use super::course::End;
use super::event::{Finish, Notice, Rejection, RunnerEvent};
use super::loop_guard::Intervention;
use super::nudge::Nudge;
use super::{TurnOutcome, TurnState, timeline};
use crate::config::Locale;
use crate::llm::LlmError;

/// How the text begins that stands for an answer where the model gave none.
fn begins(locale: Locale) -> &'static str {
    match locale {
        Locale::De => "⚠️ LLM-Fehler: ",
        Locale::En => "⚠️ LLM error: ",
    }
}

/// Whether the answer of a turn that its provider failed is the service's text, not the model's.
pub fn is_error_text(text: &str) -> bool {
    [Locale::De, Locale::En].into_iter().any(|locale| text.starts_with(begins(locale)))
}

/// Why the loop over rounds ended.
pub(super) enum Ended {
    Course(End),
    Provider(LlmError),
}

impl TurnState<'_> {
    pub(super) fn finish(mut self, ended: Result<Ended, Finish>) -> TurnOutcome {
        let mut fallback_reason = None;
        let finish = match ended {
            Ok(Ended::Course(End::Complete)) => Finish::Complete,
            Ok(Ended::Course(End::MaxContinuations)) => {
                fallback_reason = Some("max_continuations_reached");
                self.notice_max_continuations();
                Finish::MaxContinuations
            }
            Ok(Ended::Course(End::Loop)) => {
                fallback_reason = Some("loop_detected");
                self.notice_loop(Intervention::Stop);
                // Where the circle took all rounds there were, that is what it was too.
                let all = self.course.round() >= self.turn.limits.max_continuations;
                if all { Finish::MaxContinuations } else { Finish::Complete }
            }
            Ok(Ended::Provider(error)) => {
                self.abandon("the model's answer was cut off before this tool had answered");
                self.provider_failed(error);
                Finish::ProviderError
            }
            Err(finish) => {
                let why = if finish == Finish::Cancelled { "the turn was cancelled" } else { "the turn took too long" };
                self.abandon(why);
                if finish == Finish::Timeout {
                    let limit = self.turn.deadline.saturating_duration_since(self.turn.began).as_millis();
                    let message = format!("the turn took longer than {limit} ms (turns.timeout_ms)");
                    (self.emit)(RunnerEvent::Error {
                        code: "turn_timeout",
                        message,
                        retryable: true,
                        retry_after_ms: None,
                    });
                }
                finish
            }
        };
        self.sum_up();
        let summary = self.fit.into_summary();
        TurnOutcome { finish, fallback_reason, usage: self.usage, telemetry: self.telemetry, summary }
    }

    fn sum_up(&mut self) {
        let tools = timeline::union(&self.calls.intervals);
        self.telemetry.tool_wall_ms = timeline::length(&tools);
        self.telemetry.overlap_ms = timeline::common(&tools, &self.streams);
        self.telemetry.tools_run = self.calls.run;
        self.telemetry.tools_rejected = self.calls.rejected;
        self.telemetry.ingest_ms = self.calls.ingest_ms;
        self.telemetry.total_ms = self.now_ms();
    }

    fn provider_failed(&mut self, error: LlmError) {
        if self.visible == 0 {
            self.say(format!("{}{}", begins(self.engine.config.locale), error.message));
        }
        (self.emit)(RunnerEvent::Error {
            code: error.kind.code(),
            message: error.message,
            retryable: error.kind.retryable(),
            retry_after_ms: error.retry_after.and_then(|d| u64::try_from(d.as_millis()).ok()),
        });
    }

    fn notice_max_continuations(&mut self) {
        let limit = self.turn.limits.max_continuations;
        let message = format!(
            "The model asked for another tool after {limit} continuations (engine.max_continuations); the answer \
             stands as it is."
        );
        self.notice("max_continuations_reached", "No further rounds", message);
    }

    /// Says once per turn which cap was hit.
    pub(super) fn notice_cap(&mut self, reason: Rejection) {
        let (limit, key) = match reason {
            Rejection::CapRound => (self.turn.limits.max_tools_per_round, "engine.max_tools_per_round"),
            Rejection::CapTotal => (self.turn.limits.max_tools_total, "engine.max_tools_total"),
            _ => return,
        };
        if self.calls.first_cap(reason) {
            let message = format!("The model wanted more tools than allowed: {limit} ({key}).");
            self.notice("tool_cap_reached", "Tool limit reached", message);
        }
    }

    pub(super) fn notice_nudge(&mut self, nudge: Nudge) {
        let (title, message) = nudge.notice();
        self.notice("auto_continue", title, message);
    }

    pub(super) fn notice_loop(&mut self, intervention: Intervention) {
        let message = match intervention {
            Intervention::Direct => "The model repeated a call; it was told to go on with what it has.",
            Intervention::WithoutTools => "The model repeats its calls; it answers without tools now.",
            Intervention::Stop => "The model repeats its calls even without tools; the answer stands as it is.",
        };
        self.notice("loop_detected", "Going round in circles", message);
    }

    pub(super) fn notice(&mut self, code: &'static str, title: &str, message: impl Into<String>) {
        (self.emit)(RunnerEvent::Notice(Notice { code, title: title.to_owned(), message: message.into() }));
    }
}
