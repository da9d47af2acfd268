//! The data folder and its lock: one process at a time.

use super::StorageError;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

/// Makes the folder if need be and takes its lock, which is held until the file is dropped; the
/// system lets go of it when the process dies, however it dies.
pub(super) fn lock(folder: &Path) -> Result<File, StorageError> {
    let failed = |cause| StorageError::Folder { path: folder.to_owned(), cause };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(folder.join("lock")).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StorageError::FolderInUse(folder.to_owned())),
        Err(TryLockError::Error(cause)) => Err(failed(cause)),
    }
}
