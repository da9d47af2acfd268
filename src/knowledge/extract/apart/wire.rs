//! What the two processes say to each other: a line of JSON and bytes, in both directions.

use super::super::{ExtractError, Extracted, Limits, RawDocument, read};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Read, Write};

/// Whose word on a document's type counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// Somebody sent a file: its name.
    Document,
    /// A server answered: its `content-type`.
    Page,
}

/// What is to be done with a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Task {
    Read,
    Unpack,
}

/// Followed by the document's bytes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub task: Task,
    pub origin: Origin,
    pub name: String,
    pub mime: Option<String>,
    pub limits: Limits,
    pub bytes: usize,
}

/// Longest line that a worker takes.
const LINE: u64 = 1 << 20;

impl Request {
    pub fn line(&self) -> serde_json::Result<Vec<u8>> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        Ok(line)
    }

    pub fn read_line(input: &mut impl BufRead) -> io::Result<Self> {
        let mut line = Vec::new();
        input.take(LINE).read_until(b'\n', &mut line)?;
        serde_json::from_slice(&line).map_err(io::Error::from)
    }

    /// The bytes that follow the line, all of them.
    pub fn read_bytes(&self, input: &mut impl Read) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.bytes];
        input.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    pub fn answer(&self, bytes: &[u8]) -> Answer {
        let raw = RawDocument { bytes, name: &self.name, mime: self.mime.as_deref() };
        Answer(read(&raw, self.origin, self.limits))
    }
}

/// What stands between the files of an archive.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Unpacked {
    /// Followed by so many bytes.
    File {
        name: String,
        bytes: usize,
    },
    Refused {
        name: String,
        why: ExtractError,
    },
    /// After this nothing comes.
    End(Result<(), ExtractError>),
}

impl Unpacked {
    pub fn write(&self, output: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer(&mut *output, self).map_err(io::Error::from)?;
        output.write_all(b"\n")
    }
}

/// Followed by the text, where there is one.
pub(super) struct Answer(pub Result<Extracted, ExtractError>);

impl Answer {
    pub fn write(mut self, output: &mut impl Write) -> io::Result<()> {
        let text = self.0.as_mut().map(|found| std::mem::take(&mut found.text)).unwrap_or_default();
        serde_json::to_writer(&mut *output, &self.0).map_err(io::Error::from)?;
        output.write_all(b"\n")?;
        output.write_all(text.as_bytes())?;
        output.flush()
    }

    /// `None` where it is not whole.
    pub fn read(mut answer: Vec<u8>) -> Option<Self> {
        let end = memchr::memchr(b'\n', &answer)?;
        let mut read: Result<Extracted, ExtractError> = serde_json::from_slice(answer.get(..end)?).ok()?;
        if let Ok(found) = &mut read {
            answer.drain(..=end);
            found.text = String::from_utf8(answer).ok()?;
            let is_whole = !found.text.is_empty() && found.pages.iter().all(|page| found.text.is_char_boundary(*page));
            return is_whole.then_some(Self(read));
        }
        Some(Self(read))
    }
}
