//! A file of a request while it arrives: in memory as long as it is small, else in a file without a name, which the
//! system takes back whatever happens to the process. So a slow client with a large file costs disk, not memory.

use bytes::Bytes;
use std::io::{self, SeekFrom};
use std::path::{Path, PathBuf};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};

#[derive(Debug)]
pub(super) struct Spool {
    folder: PathBuf,
    /// Bytes that stay in memory.
    small: usize,
    memory: Vec<u8>,
    file: Option<File>,
    length: usize,
}

impl Spool {
    pub fn new(folder: &Path, small: usize) -> Self {
        Self { folder: folder.to_owned(), small, memory: Vec::new(), file: None, length: 0 }
    }

    pub async fn push(&mut self, piece: &[u8]) -> io::Result<()> {
        self.length += piece.len();
        if self.file.is_none() && self.length > self.small {
            let folder = self.folder.clone();
            let made = tokio::task::spawn_blocking(move || tempfile::tempfile_in(folder)).await;
            let mut file = File::from_std(made.map_err(io::Error::other)??);
            file.write_all(&std::mem::take(&mut self.memory)).await?;
            self.file = Some(file);
        }
        match &mut self.file {
            Some(file) => file.write_all(piece).await,
            None => {
                self.memory.extend_from_slice(piece);
                Ok(())
            }
        }
    }

    /// All of it, in memory from here on.
    pub async fn bytes(self) -> io::Result<Bytes> {
        let Some(mut file) = self.file else { return Ok(Bytes::from(self.memory)) };
        file.flush().await?;
        file.seek(SeekFrom::Start(0)).await?;
        let mut all = Vec::with_capacity(self.length);
        file.read_to_end(&mut all).await?;
        Ok(Bytes::from(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_goes_in_comes_out_and_leaves_no_name() {
        let folder = tempfile::tempdir().unwrap();
        for (pieces, on_disk) in [(vec![3, 4], false), (vec![3, 8, 1], true), (vec![200_000], true), (vec![], false)] {
            let mut spool = Spool::new(folder.path(), 10);
            let mut sent = Vec::new();
            for (n, length) in pieces.into_iter().enumerate() {
                let piece = vec![u8::try_from(n).unwrap(); length];
                spool.push(&piece).await.unwrap();
                sent.extend(piece);
            }
            assert_eq!(spool.file.is_some(), on_disk);
            assert_eq!(spool.memory.is_empty(), on_disk || sent.is_empty());
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
            assert_eq!(spool.bytes().await.unwrap(), sent);
        }
    }
}
