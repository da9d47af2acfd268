//! A provider that does not give up at the first failure: it asks again while nothing of the answer has been seen,
//! minds a circuit breaker for each upstream, and goes on to the next provider of its list.
//!
//! Once text, reasoning or a call that may start has left, nothing is asked again here: what a reader has seen is not taken back
//! without a word (`engine/round.rs` does it where the operator wants it, and says so).

use super::breaker::Breaker;
use super::json_scan::{JsonScan, Scan};
use super::{EventStream, LlmError, LlmErrorKind, LlmProvider, ReasoningEffort, StreamEvent, retry};
use crate::message::ChatMessage;
use crate::tools::ToolSpec;
use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// One upstream and its breaker.
#[derive(Clone)]
struct Link {
    provider: Arc<dyn LlmProvider>,
    breaker: Arc<Mutex<Breaker>>,
}

/// The first link answers; the others where it cannot. Its id and model are the first one's.
#[derive(Clone)]
pub struct Resilient {
    links: Vec<Link>,
    max_retries: u32,
}

impl Resilient {
    /// `max_retries`: for each link.
    pub fn new(provider: Arc<dyn LlmProvider>, max_retries: u32) -> Self {
        Self { links: vec![Link { provider, breaker: Arc::default() }], max_retries }
    }

    /// The same with those that answer where this one cannot, in this order. Breakers are shared with them.
    #[must_use]
    pub fn with_fallbacks(&self, fallbacks: &[&Self]) -> Self {
        let links = self.links.iter().take(1).chain(fallbacks.iter().filter_map(|other| other.links.first()));
        Self { links: links.cloned().collect(), max_retries: self.max_retries }
    }

    fn first(&self) -> &dyn LlmProvider {
        // There is one from the beginning.
        &*self.links[0].provider
    }

    fn replaced(&self, first: Arc<dyn LlmProvider>) -> Arc<dyn LlmProvider> {
        let mut links = self.links.clone();
        links[0].provider = first;
        Arc::new(Self { links, max_retries: self.max_retries })
    }

    fn ask(&self, messages: &[ChatMessage], tools: Option<&[ToolSpec]>) -> EventStream {
        let asking = Asking {
            links: self.links.clone(),
            max_retries: self.max_retries,
            messages: messages.into(),
            tools: tools.map(Into::into),
            at: 0,
            attempt: 0,
            retries: 0,
            wait: Duration::ZERO,
            last: None,
            is_trial: false,
            calls: HashMap::new(),
            answer: None,
            begun: false,
        };
        stream::unfold(Some(asking), |asking| async {
            let mut asking = asking?;
            let event = asking.next().await;
            let is_last = matches!(event, StreamEvent::Done(_) | StreamEvent::Error(_));
            Some((event, (!is_last).then_some(asking)))
        })
        .boxed()
    }
}

#[async_trait]
impl LlmProvider for Resilient {
    fn id(&self) -> &str {
        self.first().id()
    }

    fn model(&self) -> &str {
        self.first().model()
    }

    fn with_model(&self, model: &str) -> Result<Arc<dyn LlmProvider>, LlmError> {
        self.first().with_model(model).map(|first| self.replaced(first))
    }

    fn supports_tools(&self) -> bool {
        self.first().supports_tools()
    }

    fn wants_examples(&self) -> bool {
        self.first().wants_examples()
    }

    fn reasoning_effort(&self) -> Option<ReasoningEffort> {
        self.first().reasoning_effort()
    }

    fn with_reasoning_effort(&self, effort: ReasoningEffort) -> Option<Arc<dyn LlmProvider>> {
        self.first().with_reasoning_effort(effort).map(|first| self.replaced(first))
    }

    async fn stream(&self, messages: &[ChatMessage]) -> Result<EventStream, LlmError> {
        Ok(self.ask(messages, None))
    }

    async fn stream_with_tools(&self, messages: &[ChatMessage], tools: &[ToolSpec]) -> Result<EventStream, LlmError> {
        Ok(self.ask(messages, Some(tools)))
    }
}

/// One answer on its way.
struct Asking {
    /// At least one.
    links: Vec<Link>,
    max_retries: u32,
    messages: Arc<[ChatMessage]>,
    tools: Option<Arc<[ToolSpec]>>,
    /// The link that is asked, always one of them.
    at: usize,
    /// Requests so far, over all links.
    attempt: u32,
    /// Retries of this link.
    retries: u32,
    /// Before the next request.
    wait: Duration,
    /// What this link failed with before.
    last: Option<String>,
    /// It is the one that tries whether the link is there again, and has not heard of it.
    is_trial: bool,
    /// The arguments of calls so far, by their label.
    calls: HashMap<i64, JsonScan>,
    answer: Option<EventStream>,
    /// Something of the answer has left.
    begun: bool,
}

impl Asking {
    async fn next(&mut self) -> StreamEvent {
        loop {
            let failed = match &mut self.answer {
                Some(answer) => match answer.next().await {
                    Some(StreamEvent::Error(error)) => error,
                    None => LlmError::new(LlmErrorKind::Interrupted, "truncated: the stream has no end mark"),
                    Some(event) => {
                        self.note(&event);
                        return event;
                    }
                },
                None => match self.open().await {
                    Ok(answer) => {
                        self.answer = Some(answer);
                        continue;
                    }
                    Err(error) => error,
                },
            };
            self.answer = None;
            return self.after(failed);
        }
    }

    fn note(&mut self, event: &StreamEvent) {
        if std::mem::take(&mut self.is_trial) {
            self.breaker().answered();
        }
        match event {
            StreamEvent::Done(_) => self.breaker().succeeded(),
            StreamEvent::Delta(text) | StreamEvent::ReasoningDelta(text) => self.begun |= !text.is_empty(),
            // A call may start once its arguments have closed; before that nothing has come of it.
            StreamEvent::ToolCallStart { index, .. } => drop(self.calls.insert(*index, JsonScan::default())),
            StreamEvent::ToolCallArgumentsDelta { index, delta } => {
                self.begun |= self.calls.entry(*index).or_default().feed(delta) == Scan::Closed;
            }
            StreamEvent::ToolCallComplete { .. } => self.begun = true,
            StreamEvent::ProviderRaw(_) | StreamEvent::Retry { .. } | StreamEvent::Error(_) => {}
        }
    }

    async fn open(&mut self) -> Result<EventStream, LlmError> {
        tokio::time::sleep(std::mem::take(&mut self.wait)).await;
        let link = self.links[self.at].clone();
        let admitted = self.breaker().admit(Instant::now());
        self.is_trial = admitted == Ok(true);
        if let Err(rest) = admitted {
            let id = link.provider.id();
            let why = format!("{id} has failed too often: it is not asked for {} s", rest.as_secs() + 1);
            // What it said to this very request says more.
            let message = self.last.take().map_or(why.clone(), |last| format!("{last}; {why}"));
            return Err(LlmError { retry_after: Some(rest), ..LlmError::new(LlmErrorKind::Unavailable, message) });
        }
        self.attempt += 1;
        self.calls.clear();
        // Who has no native calls answers without: that is better than no answer.
        match &self.tools {
            Some(tools) => link.provider.stream_with_tools(&self.messages, tools).await,
            None => link.provider.stream(&self.messages).await,
        }
    }

    /// What follows a failure: the same link again, the next one, or the error itself.
    fn after(&mut self, error: LlmError) -> StreamEvent {
        self.is_trial = false;
        self.breaker().failed(error.kind, Instant::now());
        if self.begun {
            return StreamEvent::Error(error);
        }
        if let Some(wait) = retry::wait(self.retries + 1, self.max_retries, &error, rand::random()) {
            self.retries += 1;
            self.wait = wait;
            self.last = Some(error.message.clone());
            return StreamEvent::Retry { attempt: self.attempt, after: wait, error };
        }
        // What is wrong with the request is wrong everywhere.
        let is_ours = matches!(error.kind, LlmErrorKind::ContextTooLong);
        match self.links.get(self.at + 1) {
            Some(next) if !is_ours => {
                let (id, model) = (next.provider.id(), next.provider.model());
                let message = format!("{}; now asking {id} ({model})", error.message);
                self.at += 1;
                self.retries = 0;
                self.last = None;
                StreamEvent::Retry {
                    attempt: self.attempt,
                    after: Duration::ZERO,
                    error: LlmError { message, ..error },
                }
            }
            _ => StreamEvent::Error(error),
        }
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.links[self.at].breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if self.is_trial {
            self.breaker().give_up();
        }
    }
}
