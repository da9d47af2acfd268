//! The built-in language model: a small instruct model in process, from a GGUF file, with candle.
//!
//! It has a thread of its own and makes one answer at a time; others wait in a bounded queue. It speaks the
//! inline dialect, which it learns from example exchanges, not from instructions. The file is loaded with the
//! first question or by [`LocalLlm::warm`].

mod cores;
mod fit;
mod generate;
mod prefix;
mod template;
#[cfg(test)]
mod tests;
mod weights;

use super::{EventStream, LlmError, LlmErrorKind, LlmProvider, StreamEvent};
use crate::message::ChatMessage;
use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream;
use generate::{Generator, Prompt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{mpsc, oneshot};
use tracing::Span;
use weights::LocalModel;

/// The model that `scripts/assets` fetches, below the models' folder.
pub const DEFAULT_FILE: &str = "smollm2-135m-instruct/model-q4_1.gguf";
/// Questions that may wait; more wait before the queue.
const QUEUE: usize = 16;
/// Deltas that a slow reader may be behind before the model waits.
const DELTAS: usize = 32;

/// How the model answers.
#[derive(Clone, Debug)]
pub struct LocalOptions {
    /// A GGUF file of the llama architecture with a ChatML or Llama 3 template.
    pub file: PathBuf,
    /// 0: always the likeliest token, and always the same answer.
    pub temperature: f64,
    /// Only the likeliest tokens that have this probability together; 1: all. Unused at temperature 0.
    pub top_p: f64,
    /// Of the random numbers above temperature 0: same seed, same answer.
    pub seed: u64,
    /// Above 1, tokens said lately become less likely; 1: off.
    pub repeat_penalty: f32,
    /// Longest answer.
    pub max_tokens: usize,
    /// Arithmetic on all cores rather than on one: faster on a machine with nothing else to do, very much
    /// slower on a busy one.
    pub all_cores: bool,
    /// Messages after the instructions that are examples: they stay when old messages have to go.
    pub examples: usize,
}

impl LocalOptions {
    /// Temperature 0 and answers of up to 512 tokens, for a prompt that begins with `examples` example messages.
    pub fn new(file: PathBuf, examples: usize) -> Self {
        Self {
            file,
            temperature: 0.0,
            top_p: 1.0,
            seed: 0,
            repeat_penalty: 1.0,
            max_tokens: 512,
            all_cores: false,
            examples,
        }
    }
}

/// The provider `local`. Clones share the thread and the model.
#[derive(Clone)]
pub struct LocalLlm {
    inner: Arc<Inner>,
}

struct Inner {
    name: String,
    options: LocalOptions,
    /// To the thread, once it runs. It ends when the provider is gone and its last answer has ended.
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
}

enum Job {
    Load,
    Answer(Question),
}

struct Question {
    messages: Vec<ChatMessage>,
    /// Told once the prompt is known to fit, or why there will be no answer.
    accepted: oneshot::Sender<Result<(), LlmError>>,
    events: mpsc::Sender<StreamEvent>,
    span: Span,
}

impl LocalLlm {
    /// Opens nothing yet; a missing file is told to the first who asks.
    pub fn new(options: LocalOptions) -> Self {
        let name = model_name(&options.file);
        Self { inner: Arc::new(Inner { name, options, jobs: Mutex::default() }) }
    }

    /// Whether the model's file is there.
    pub fn available(&self) -> bool {
        self.inner.options.file.is_file()
    }

    /// Lets the thread load the model now, without waiting for it.
    ///
    /// # Errors
    /// Only where the system gives no thread.
    pub fn warm(&self) -> Result<(), LlmError> {
        // A full queue means that it is loading or loaded.
        let _ = self.inner.jobs()?.try_send(Job::Load);
        Ok(())
    }
}

/// The folder's name where the file has a plain one, else the file's.
fn model_name(file: &Path) -> String {
    let word = |part: Option<&std::ffi::OsStr>| part.map(|p| p.to_string_lossy().into_owned());
    let stem = word(file.file_stem()).unwrap_or_else(|| "local".to_owned());
    if !stem.starts_with("model") {
        return stem;
    }
    word(file.parent().and_then(Path::file_name)).unwrap_or(stem)
}

#[async_trait]
impl LlmProvider for LocalLlm {
    fn id(&self) -> &str {
        "local"
    }

    fn model(&self) -> &str {
        &self.inner.name
    }

    fn with_model(&self, model: &str) -> Result<Arc<dyn LlmProvider>, LlmError> {
        if model == self.inner.name {
            return Ok(Arc::new(self.clone()));
        }
        let message = format!("provider `local` has the model `{}` only; set llm.local.model", self.inner.name);
        Err(LlmError::new(LlmErrorKind::BadRequest, message))
    }

    fn wants_examples(&self) -> bool {
        true
    }

    async fn stream(&self, messages: &[ChatMessage]) -> Result<EventStream, LlmError> {
        let (accepted, answer) = oneshot::channel();
        let (events, mut received) = mpsc::channel(DELTAS);
        let question = Question { messages: messages.to_vec(), accepted, events, span: Span::current() };
        let ended = || LlmError::new(LlmErrorKind::Interrupted, "the local model's thread has ended");
        self.inner.jobs()?.send(Job::Answer(question)).await.map_err(|_| ended())?;
        answer.await.map_err(|_| ended())??;
        Ok(stream::poll_fn(move |cx| received.poll_recv(cx)).boxed())
    }
}

impl Inner {
    /// The way to the thread, which is started if it does not run.
    fn jobs(&self) -> Result<mpsc::Sender<Job>, LlmError> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(jobs) = jobs.as_ref() {
            return Ok(jobs.clone());
        }
        let (sender, receiver) = mpsc::channel(QUEUE);
        let options = self.options.clone();
        std::thread::Builder::new()
            .name("local-llm".to_owned())
            .spawn(move || work(&options, receiver))
            .map_err(|e| LlmError::new(LlmErrorKind::Overloaded, format!("no thread could be started: {e}")))?;
        Ok(jobs.insert(sender).clone())
    }
}

fn work(options: &LocalOptions, mut jobs: mpsc::Receiver<Job>) {
    let mut model: Option<Generator> = None;
    while let Some(job) = jobs.blocking_recv() {
        match job {
            // What goes wrong here is told to the first who asks.
            Job::Load => drop(contained(|| loaded(&mut model, options).map(|_| ()))),
            Job::Answer(question) => {
                if question.accepted.is_closed() {
                    continue;
                }
                let _entered = question.span.enter();
                let prepared = contained(|| loaded(&mut model, options)?.prompt(&question.messages, options));
                let prompt = match prepared {
                    Ok(prompt) => prompt,
                    Err(error) => {
                        let _ = question.accepted.send(Err(error));
                        continue;
                    }
                };
                if question.accepted.send(Ok(())).is_err() {
                    continue;
                }
                answer(&mut model, options, &prompt, &question.events);
            }
        }
    }
}

fn answer(model: &mut Option<Generator>, options: &LocalOptions, prompt: &Prompt, events: &mpsc::Sender<StreamEvent>) {
    let span = Span::current();
    let spoken = contained(|| {
        let model = loaded(model, options)?;
        let mut speak = || span.in_scope(|| model.answer(prompt, options, events));
        if options.all_cores {
            speak()
        } else {
            cores::on_one(speak)
        }
        Ok(())
    });
    if let Err(error) = spoken {
        // Nobody knows what state it was left in.
        *model = None;
        let _ = events.blocking_send(StreamEvent::Error(error));
    }
}

fn loaded<'m>(model: &'m mut Option<Generator>, options: &LocalOptions) -> Result<&'m mut Generator, LlmError> {
    match model {
        Some(model) => Ok(model),
        None => {
            let started = std::time::Instant::now();
            let made = model.insert(Generator::new(LocalModel::load(&options.file)?));
            let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
            tracing::info!(llm.file = %options.file.display(), duration_ms, "local model loaded");
            Ok(made)
        }
    }
}

/// A panic in the model as an error.
fn contained<T>(run: impl FnOnce() -> Result<T, LlmError>) -> Result<T, LlmError> {
    catch_unwind(AssertUnwindSafe(run))
        .unwrap_or_else(|_| Err(LlmError::new(LlmErrorKind::Decode, "the local model panicked")))
}
