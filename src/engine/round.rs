//! One LLM stream: pull, feed, admit, spawn, settle. The pull loop never awaits a tool (invariant 4):
//! it takes whatever comes first, the model's next event or a tool that has ended.

use super::TurnState;
use super::arguments::{ArgumentError, Sent};
use super::call_assembler::{CallAssembler, CallState, Progress};
use super::calls::Sealed;
use super::continuation::RoundRecord;
use super::course::RoundFacts;
use super::event::{RoundStop, RunnerEvent, Span, ToolMode};
use super::nudge;
use super::timeline::Spoken;
use super::transcript::Transcript;
use super::window;
use super::xml_parser::{Segment, XmlParseState};
use crate::llm::{Done, EventStream, LlmError, LlmErrorKind, Stop, StreamEvent};
use crate::message::Usage;
use crate::tools::ToolSpec;
use futures_util::StreamExt;
use std::time::Duration;

/// How often a round may begin anew after text of it was shown, and how long is waited before that.
const MOST_RESTARTS: u32 = 3;
const RESTART_WAIT: Duration = Duration::from_secs(1);
const LONGEST_RESTART_WAIT: Duration = Duration::from_secs(60);

/// How a round went.
pub(super) enum RoundOutcome {
    Ended(RoundRecord, RoundFacts),
    Failed(LlmError),
}

/// The state of the round that streams now; kept in the turn, so that a turn that is cut can still
/// release what the parser held.
pub(super) struct Round {
    number: u32,
    open: bool,
    began_ms: u64,
    /// Visible bytes of the turn before this round.
    base: u64,
    text: String,
    parser: XmlParseState,
    native: CallAssembler,
    /// Where each native call stands among the round's sealed calls, once the gate has seen it.
    placed: Vec<Option<usize>>,
    spoken: Spoken,
    has_spoken: bool,
}

impl Round {
    pub fn new(number: u32, base: u64, max_block_bytes: usize) -> Self {
        Self {
            number,
            open: false,
            began_ms: 0,
            base,
            text: String::new(),
            parser: XmlParseState::new(max_block_bytes),
            native: CallAssembler::new(max_block_bytes),
            placed: Vec::new(),
            spoken: Spoken::default(),
            has_spoken: false,
        }
    }
}

impl TurnState<'_> {
    /// Streams one round and waits for its tools.
    pub(super) async fn stream(
        &mut self,
        number: u32,
        transcript: &mut Transcript,
        tools: bool,
        specs: &[ToolSpec],
    ) -> RoundOutcome {
        self.open_round(number);
        let mut messages = self.fitting(transcript, tools, specs).await;
        let mut restarts = 0;
        let ended = loop {
            let bytes = window::size(&messages, specs);
            let asked = match self.turn.mode {
                ToolMode::Native if !specs.is_empty() => self.turn.provider.stream_with_tools(&messages, specs).await,
                ToolMode::Native | ToolMode::Inline | ToolMode::Off => self.turn.provider.stream(&messages).await,
            };
            let ended = match asked {
                Ok(stream) => self.pull(stream).await,
                Err(error) => Err(error),
            };
            match ended {
                Err(error) if restarts < MOST_RESTARTS && self.may_restart(&error) => {
                    restarts += 1;
                    self.restart(restarts, error).await;
                }
                Err(error) if error.kind == LlmErrorKind::ContextTooLong && !self.round.has_spoken => {
                    if !self.too_long(transcript, bytes).await {
                        break Err(error);
                    }
                    messages = transcript.messages(tools);
                }
                Ok(done) => {
                    self.learn_size(bytes, done.usage);
                    break Ok(done);
                }
                ended => break ended,
            }
        };
        match ended {
            Ok(done) => {
                self.close_round(RoundStop::Model(done.stop), done.usage);
                self.launch_waiting();
                while self.calls.running() {
                    let beside = self.calls.beside().await;
                    self.take_beside(beside);
                }
                let facts = self.facts(done.stop);
                let text = std::mem::take(&mut self.round.text);
                let record =
                    RoundRecord { text, calls: self.calls.record(), raw: done.message, ..RoundRecord::default() };
                RoundOutcome::Ended(record, facts)
            }
            Err(error) => RoundOutcome::Failed(error),
        }
    }

    /// Whether the round may begin anew although text of it was shown: only where the operator wants it, and never
    /// once a call was sealed, because no tool runs twice for one call.
    fn may_restart(&self, error: &LlmError) -> bool {
        let has_text = !self.round.text.is_empty();
        self.engine.config.retry_after_text && has_text && error.kind.retryable() && self.calls.is_empty()
    }

    /// Takes back what the round has shown.
    async fn restart(&mut self, attempt: u32, error: LlmError) {
        let (number, base, began_ms) = (self.round.number, self.round.base, self.round.began_ms);
        let after = error.retry_after.unwrap_or(RESTART_WAIT).min(LONGEST_RESTART_WAIT);
        self.visible = base;
        self.round = Round { open: true, began_ms, ..Round::new(number, base, self.engine.config.max_block_bytes) };
        self.retried(attempt, after, error);
        tokio::time::sleep(after).await;
        (self.emit)(RunnerEvent::Thinking);
    }

    fn retried(&mut self, attempt: u32, after: Duration, error: LlmError) {
        tracing::warn!(turn.id = %self.turn.turn_id, attempt, error.kind = error.kind.code(), %error, "a provider is asked again");
        (self.emit)(RunnerEvent::Retry {
            attempt,
            after_ms: u64::try_from(after.as_millis()).unwrap_or(u64::MAX),
            error: error.message,
            discard_from: self.visible,
        });
    }

    fn facts(&self, stop: Stop) -> RoundFacts {
        let base = self.round.base;
        let at = |byte: u64| usize::try_from(byte.saturating_sub(base)).unwrap_or(usize::MAX);
        let blocks = self.calls.spans().map(|span| (at(span.start), at(span.end)));
        RoundFacts {
            stop,
            keys: self.calls.keys(),
            called: !self.calls.is_empty(),
            ran_tools: self.calls.run > 0,
            own: nudge::own_text(&self.round.text, blocks),
        }
    }

    async fn pull(&mut self, mut stream: EventStream) -> Result<Done, LlmError> {
        loop {
            // Whichever comes first, taken in turn where both are there: a provider that never pauses
            // must not hold back a tool's result.
            let event = tokio::select! {
                event = stream.next() => event,
                beside = self.calls.beside() => {
                    self.take_beside(beside);
                    continue;
                }
            };
            match event {
                Some(StreamEvent::Done(done)) => {
                    self.seal_rest(done.refused.as_deref().unwrap_or("the call was not completed"));
                    return Ok(done);
                }
                Some(StreamEvent::Error(error)) => return Err(error),
                Some(event) => self.take(event),
                None => return Err(LlmError::new(LlmErrorKind::Interrupted, "truncated: the stream has no end mark")),
            }
        }
    }

    fn take(&mut self, event: StreamEvent) {
        match event {
            StreamEvent::Delta(text) => {
                self.note_output(true);
                self.round.text.push_str(&text);
                self.show(text);
            }
            StreamEvent::ReasoningDelta(text) => {
                self.note_output(true);
                (self.emit)(RunnerEvent::Reasoning(text));
            }
            StreamEvent::ToolCallStart { id, name, index } => {
                self.note_output(false);
                self.round.native.start(id, name, index);
                self.round.placed.push(None);
            }
            StreamEvent::ToolCallArgumentsDelta { index, delta } => {
                let progress = self.round.native.arguments(index, &delta);
                self.follow(progress);
            }
            StreamEvent::ToolCallComplete { index } => {
                let progress = self.round.native.complete(index);
                self.follow(progress);
            }
            StreamEvent::Retry { attempt, after, error } => {
                // Calls that had begun come again, or others do.
                self.round.native = CallAssembler::new(self.engine.config.max_block_bytes);
                self.round.placed.clear();
                self.retried(attempt, after, error);
            }
            StreamEvent::ProviderRaw(_) | StreamEvent::Done(_) | StreamEvent::Error(_) => {}
        }
    }

    /// The model's output has begun; `spoke`: it is something to read.
    fn note_output(&mut self, spoke: bool) {
        let now = self.now_ms();
        if spoke {
            self.round.spoken.note(now);
            self.telemetry.first_token_ms.get_or_insert(now);
        }
        if !self.round.has_spoken {
            self.round.has_spoken = true;
            (self.emit)(RunnerEvent::ThinkingDone);
        }
    }

    fn show(&mut self, text: String) {
        if self.turn.mode != ToolMode::Inline {
            return self.say(text);
        }
        let mut segments = Vec::new();
        self.round.parser.feed(&text, &mut segments);
        self.release(segments);
    }

    fn release(&mut self, segments: Vec<Segment>) {
        for segment in segments {
            match segment {
                Segment::Text(text) => self.say(text),
                Segment::Call(sealed) => {
                    let base = self.round.base;
                    let span = Span { start: base + sealed.span.start, end: base + sealed.span.end };
                    let arguments = match self.engine.schemas.get(&sealed.call.name) {
                        Some(schema) => schema.read_inline(&sealed.call),
                        None => Err(unread()),
                    };
                    let sent = Sent::inline(&sealed.call);
                    self.seal(Sealed { id: None, name: sealed.call.name, arguments, sent, span: Some(span) });
                }
            }
        }
    }

    fn follow(&mut self, progress: Option<Progress>) {
        match progress {
            Some(Progress::Closed(place)) => {
                let waits = |call: &str| self.engine.tools.get(call).is_some_and(|tool| tool.spec().side_effects);
                let early = self.round.native.calls().get(place).is_some_and(|call| !waits(&call.name));
                if early {
                    self.seal_native(place);
                }
            }
            Some(Progress::Complete(place)) => self.seal_native(place),
            Some(Progress::Spoiled(place, why)) => match self.round.placed.get(place) {
                Some(Some(at)) => {
                    let (at, error) = (*at, ArgumentError::new(why.to_string()).with_sent(&self.sent(place)));
                    self.revoke(at, error.to_string());
                }
                _ => self.seal_refused(place, &why.to_string()),
            },
            None => {}
        }
    }

    /// Hands a native call to the gate, once.
    fn seal_native(&mut self, place: usize) {
        if self.round.placed.get(place).is_none_or(Option::is_some) {
            return;
        }
        let Some(call) = self.round.native.calls().get(place) else { return };
        let (id, name) = (call.id.clone(), call.name.clone());
        let arguments = match self.engine.schemas.get(&name) {
            Some(schema) => schema.read_native(&call.arguments),
            None => Err(unread()),
        };
        let at = self.seal(Sealed { id: Some(id), name, arguments, sent: self.sent(place), span: None });
        if let Some(placed) = self.round.placed.get_mut(place) {
            *placed = Some(at);
        }
    }

    /// What a native call's arguments are so far.
    fn sent(&self, place: usize) -> Sent {
        self.round.native.calls().get(place).map(|call| Sent::native(&call.arguments)).unwrap_or_default()
    }

    fn seal_refused(&mut self, place: usize, why: &str) {
        if self.round.placed.get(place).is_none_or(Option::is_some) {
            return;
        }
        let Some(call) = self.round.native.calls().get(place) else { return };
        let (id, name) = (call.id.clone(), call.name.clone());
        let arguments = Err(ArgumentError::new(why));
        let at = self.seal(Sealed { id: Some(id), name, arguments, sent: self.sent(place), span: None });
        if let Some(placed) = self.round.placed.get_mut(place) {
            *placed = Some(at);
        }
    }

    /// The stream has ended: native calls that never became complete are refused, the parser lets go
    /// of what it held.
    fn seal_rest(&mut self, why: &str) {
        for place in 0..self.round.placed.len() {
            match self.round.native.calls().get(place).map(|call| call.state) {
                Some(CallState::Complete) => self.seal_native(place),
                Some(CallState::Open | CallState::Closed | CallState::Spoiled(_)) => self.seal_refused(place, why),
                None => {}
            }
        }
    }

    fn open_round(&mut self, number: u32) {
        self.round = Round::new(number, self.visible, self.engine.config.max_block_bytes);
        self.round.open = true;
        self.round.began_ms = self.now_ms();
        (self.emit)(RunnerEvent::Round { round: number });
        (self.emit)(RunnerEvent::Thinking);
    }

    /// Ends the round that is open, if one is: what the parser held leaves as text.
    fn close_round(&mut self, stop: RoundStop, usage: Usage) {
        if !std::mem::take(&mut self.round.open) {
            return;
        }
        let mut segments = Vec::new();
        self.round.parser.flush(&mut segments);
        if stop == RoundStop::Cut {
            // Nothing starts any more: a call that waited for its back-tick run is text now.
            segments.retain(|segment| matches!(segment, Segment::Text(_)));
        }
        self.release(segments);
        let parse_errors = self.round.parser.parse_errors();
        if parse_errors > 0 {
            tracing::info!(turn.id = %self.turn.turn_id, round = self.round.number, parse_errors, "tool blocks that cannot run were shown as text");
        }
        self.telemetry.parse_errors += parse_errors;
        self.usage += usage;
        let (from, to) = (self.round.began_ms, self.now_ms());
        self.streams.push((from, to));
        if !std::mem::replace(&mut self.round.has_spoken, true) {
            (self.emit)(RunnerEvent::ThinkingDone);
        }
        let spoke = std::mem::take(&mut self.round.spoken).into_spells();
        (self.emit)(RunnerEvent::RoundEnd { round: self.round.number, stop, usage, spoke });
    }

    /// The turn was cut: ends what is open, and says why.
    pub(super) fn abandon(&mut self, why: &str) {
        self.close_round(RoundStop::Cut, Usage::default());
        self.abandon_calls(why);
    }
}

/// Of a tool that is not registered nothing is read: the gate refuses its name.
fn unread() -> ArgumentError {
    ArgumentError::new("there is no such tool")
}
