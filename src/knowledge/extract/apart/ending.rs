//! How a worker ended, and what that says of the document it was reading.

use super::super::{ExtractError, Extracted, Limits};
use super::wire::Answer;
use std::process::ExitStatus;

pub(super) enum Ending {
    Answered(Answer),
    /// It wrote more than there may be.
    TooMuch,
    Died {
        status: ExitStatus,
        last_words: String,
    },
}

impl Ending {
    pub fn read(self, limits: &Limits) -> Result<Extracted, ExtractError> {
        match self {
            Self::Answered(answer) => answer.0,
            Self::TooMuch => Err(ExtractError::ExpandsTooFar(format!(
                "its text is longer than {} bytes (`ingest.extract.max_text_bytes`)",
                limits.max_text_bytes
            ))),
            Self::Died { status, last_words } => Err(why(signal(status), status.code(), &last_words, limits)),
        }
    }
}

#[cfg(unix)]
fn signal(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

#[cfg(not(unix))]
fn signal(_: ExitStatus) -> Option<i32> {
    None
}

const SIGKILL: i32 = 9;
const SIGXCPU: i32 = 24;

fn why(signal: Option<i32>, code: Option<i32>, last_words: &str, limits: &Limits) -> ExtractError {
    let memory = || {
        ExtractError::ExpandsTooFar(format!(
            "reading it takes more memory than {} bytes (`ingest.extract.max_memory_bytes`)",
            limits.max_memory_bytes
        ))
    };
    match signal {
        Some(SIGXCPU) => {
            ExtractError::Timeout { seconds: limits.max_cpu.as_secs(), setting: "ingest.extract.max_cpu_ms".to_owned() }
        }
        _ if last_words.contains("memory allocation of") => memory(),
        _ if last_words.contains("overflowed its stack") => ExtractError::StackOverflow,
        // Nobody else kills it: the system was short of memory.
        Some(SIGKILL) => memory(),
        Some(_) => ExtractError::Corrupt("its reader broke down over it".to_owned()),
        None => ExtractError::ReaderFailed(format!(
            "it ended without an answer (exit code {})",
            code.map_or_else(|| "unknown".to_owned(), |code| code.to_string())
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_says_what_was_wrong() {
        let limits = Limits::default();
        for (signal, words, code) in [
            (Some(SIGXCPU), "", "extraction_timeout"),
            (Some(6), "memory allocation of 99 bytes failed", "expands_too_far"),
            (Some(6), "thread 'main' has overflowed its stack", "too_deep"),
            (Some(SIGKILL), "", "expands_too_far"),
            (Some(11), "", "corrupt_document"),
            (None, "", "reader_failed"),
        ] {
            assert_eq!(why(signal, None, words, &limits).code(), code, "{signal:?} {words}");
        }
    }
}
