//! An archive that a process of its own unpacks, one file after the other.

use super::super::{ExtractError, Limits};
use super::ending::Ending;
use super::wire::Unpacked;
use bytes::Bytes;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdout};
use tokio::sync::OwnedSemaphorePermit;

/// Longest line between two files.
const LINE: u64 = 64 << 10;

/// Ends its process when it is dropped.
pub struct Unpacking {
    pub(super) child: Child,
    pub(super) output: BufReader<ChildStdout>,
    pub(super) limits: Limits,
    pub(super) done: bool,
    /// One process less may run until this is through.
    pub(super) _permit: OwnedSemaphorePermit,
}

impl Unpacking {
    /// The next file: its name in the archive, and its bytes or why there are none. `None` once all were told.
    ///
    /// # Errors
    /// What ends the whole archive; after it there is nothing more.
    pub async fn next(&mut self) -> Result<Option<(String, Result<Bytes, ExtractError>)>, ExtractError> {
        if self.done {
            return Ok(None);
        }
        let limit = self.limits.timeout;
        let next = match tokio::time::timeout(limit, self.read()).await {
            Ok(next) => next,
            Err(_) => {
                Err(ExtractError::Timeout { seconds: limit.as_secs(), setting: "ingest.extract.timeout_ms".to_owned() })
            }
        };
        if !matches!(next, Ok(Some(_))) {
            self.done = true;
            drop(self.child.kill().await);
        }
        next
    }

    async fn read(&mut self) -> Result<Option<(String, Result<Bytes, ExtractError>)>, ExtractError> {
        let broken = |error: std::io::Error| ExtractError::ReaderFailed(error.to_string());
        let mut line = Vec::new();
        (&mut self.output).take(LINE).read_until(b'\n', &mut line).await.map_err(broken)?;
        match serde_json::from_slice(&line) {
            Ok(Unpacked::File { name, bytes }) => {
                let mut file = vec![0; bytes];
                self.output.read_exact(&mut file).await.map_err(broken)?;
                Ok(Some((name, Ok(Bytes::from(file)))))
            }
            Ok(Unpacked::Refused { name, why }) => Ok(Some((name, Err(why)))),
            Ok(Unpacked::End(outcome)) => outcome.map(|()| None),
            Err(_) => {
                let status = self.child.wait().await.map_err(broken)?;
                let mut last_words = Vec::new();
                if let Some(errors) = self.child.stderr.take() {
                    errors.take(LINE).read_to_end(&mut last_words).await.map_err(broken)?;
                }
                let last_words = String::from_utf8_lossy(&last_words).into_owned();
                Ending::Died { status, last_words }.read(&self.limits).map(|_| None)
            }
        }
    }
}
