//! Reading in a process of its own: the same program with the hidden command `extract-worker`, a document on its
//! standard input, the text on its standard output.
//!
//! Invariants: whatever a document does to its reader (crash, endless loop, all memory), this process gets an error
//! that says so, and nothing of the other is left; it inherits no setting and no key, can write no file, and ends
//! with the future that waits for it.

mod ending;
mod unpacking;
mod wire;
pub mod worker;

use super::{ExtractError, Extracted, Limits, RawDocument, kind_of, read};
use bytes::Bytes;
use ending::Ending;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::Semaphore;
use wire::{Answer, Request, Task};

pub use unpacking::Unpacking;
pub use wire::Origin;

/// The hidden command.
pub const COMMAND: &str = "extract-worker";

/// Smaller documents of formats that only grow in memory are read here: to start a process takes longer.
const SMALL: usize = 256 << 10;
/// Processes for pages that a turn waits for.
const PAGES_AT_ONCE: usize = 2;
/// Of what a dying process says, the last bytes.
const LAST_WORDS: usize = 4 << 10;
/// More than an answer without its text can have.
const ANSWER: u64 = 4 << 20;

/// The way to read documents. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Reader {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    limits: Limits,
    /// `None`: the one that runs.
    program: Option<PathBuf>,
    documents: Arc<Semaphore>,
    pages: Semaphore,
}

impl Default for Reader {
    fn default() -> Self {
        Self::new(Limits::default(), None)
    }
}

impl Reader {
    /// `program`: what is started to read; `None`: this program itself.
    pub fn new(limits: Limits, program: Option<PathBuf>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let (documents, pages) = (Arc::new(Semaphore::new(cores)), Semaphore::new(PAGES_AT_ONCE));
        Self { inner: Arc::new(Inner { limits, program, documents, pages }) }
    }

    /// Reads a harmless document in this process; `None` for one that [`Reader::apart`] has to read. CPU-bound.
    pub fn here(&self, raw: &RawDocument<'_>, origin: Origin) -> Option<Result<Extracted, ExtractError>> {
        let kind = match kind_of(raw, origin) {
            Ok(kind) => kind,
            Err(refused) => return Some(Err(refused)),
        };
        if kind.is_hazardous() || (kind.grows() && raw.bytes.len() > SMALL) {
            return None;
        }
        Some(read(raw, origin, self.inner.limits))
    }

    /// Reads a document in a process of its own.
    pub async fn apart(
        &self,
        bytes: Bytes,
        name: &str,
        mime: Option<&str>,
        origin: Origin,
    ) -> Result<Extracted, ExtractError> {
        let limits = self.inner.limits;
        let gate = match origin {
            Origin::Document => &self.inner.documents,
            Origin::Page => &self.inner.pages,
        };
        let _permit = gate.acquire().await.map_err(|_| failed("it is closed"))?;
        let request = Request {
            task: Task::Read,
            origin,
            name: name.to_owned(),
            mime: mime.map(str::to_owned),
            limits,
            bytes: bytes.len(),
        };
        let mut child = self.start()?;
        let talked = tokio::time::timeout(limits.timeout, talk(&mut child, &request, &bytes)).await;
        let Ok(ending) = talked else {
            // Killed and waited for; that it has ended already is as good.
            drop(child.kill().await);
            return Err(ExtractError::Timeout {
                seconds: limits.timeout.as_secs(),
                setting: "ingest.extract.timeout_ms".to_owned(),
            });
        };
        ending?.read(&limits)
    }

    /// Takes an archive apart in a process of its own.
    ///
    /// # Errors
    /// That process cannot be started.
    pub async fn unpack(&self, bytes: Bytes) -> Result<Unpacking, ExtractError> {
        let permit = Arc::clone(&self.inner.documents).acquire_owned().await.map_err(|_| failed("it is closed"))?;
        let limits = self.inner.limits;
        let request = Request {
            task: Task::Unpack,
            origin: Origin::Document,
            name: String::new(),
            mime: None,
            limits,
            bytes: bytes.len(),
        };
        let mut child = self.start()?;
        let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed("it has no pipes"));
        };
        let head = request.line().map_err(|error| failed(&error.to_string()))?;
        // It takes all of it before it says anything; one that has died does not listen, and is asked why later.
        let send = async {
            input.write_all(&head).await?;
            input.write_all(&bytes).await?;
            input.shutdown().await
        };
        drop(tokio::time::timeout(limits.timeout, send).await);
        Ok(Unpacking { child, output: BufReader::new(output), limits, done: false, _permit: permit })
    }

    fn start(&self) -> Result<Child, ExtractError> {
        let failed = |error: std::io::Error| failed(&format!("it cannot be started: {error}"));
        let program = match &self.inner.program {
            Some(program) => program.clone(),
            None => itself().map_err(failed)?,
        };
        let mut command = Command::new(program);
        command.arg(COMMAND).env_clear().kill_on_drop(true);
        // Where the system keeps its libraries elsewhere, the program needs to be told again.
        command.envs(std::env::var_os("LD_LIBRARY_PATH").map(|path| ("LD_LIBRARY_PATH", path)));
        let most = (self.inner.limits.max_inflated_bytes >> 20).max(1);
        command.env("PDF_OXIDE_MAX_DECOMPRESS_MB", most.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Control-C in a terminal is for the server, which lets it finish.
        #[cfg(unix)]
        command.process_group(0).current_dir("/");
        command.spawn().map_err(failed)
    }
}

fn failed(what: &str) -> ExtractError {
    ExtractError::ReaderFailed(what.to_owned())
}

/// The file of the running program, also where it was replaced since.
fn itself() -> std::io::Result<PathBuf> {
    let running = PathBuf::from("/proc/self/exe");
    if cfg!(target_os = "linux") && running.exists() { Ok(running) } else { std::env::current_exe() }
}

/// Sends the document and takes what comes back until the process has ended.
async fn talk(child: &mut Child, request: &Request, bytes: &[u8]) -> Result<Ending, ExtractError> {
    let (Some(mut input), Some(mut output), Some(mut errors)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(failed("it has no pipes"));
    };
    let head = request.line().map_err(|error| failed(&error.to_string()))?;
    let send = async move {
        // One that has died does not listen: how it died says why.
        let sent = async {
            input.write_all(&head).await?;
            input.write_all(bytes).await?;
            input.shutdown().await
        };
        drop(sent.await);
    };
    let most = request.limits.max_text_bytes as u64 + ANSWER;
    let receive = async move {
        let mut answer = Vec::new();
        let read = (&mut output).take(most + 1).read_to_end(&mut answer).await;
        read.map(|_| answer)
    };
    let ((), answer, last_words) = tokio::join!(send, receive, last_words(&mut errors));
    let answer = answer.map_err(|error| failed(&error.to_string()))?;
    if answer.len() as u64 > most {
        return Ok(Ending::TooMuch);
    }
    let status = child.wait().await.map_err(|error| failed(&error.to_string()))?;
    Ok(match Answer::read(answer) {
        Some(answer) => Ending::Answered(answer),
        None => Ending::Died { status, last_words },
    })
}

/// The end of what is written there; the rest is taken and forgotten, so that nobody waits.
async fn last_words(from: &mut (impl AsyncRead + Unpin)) -> String {
    let mut kept: Vec<u8> = Vec::new();
    let mut piece = [0; 1024];
    while let Ok(n @ 1..) = from.read(&mut piece).await {
        kept.extend_from_slice(piece.get(..n).unwrap_or_default());
        let excess = kept.len().saturating_sub(LAST_WORDS);
        kept.drain(..excess);
    }
    String::from_utf8_lossy(&kept).into_owned()
}
