//! The ONNX Runtime library, which all models of the process share.

use super::super::EmbedError;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Loads the ONNX Runtime library, once a process. ort panics when it is missing or too old and was not
/// loaded by hand before.
pub(super) fn load_runtime(library: &Path) -> Result<(), EmbedError> {
    static LOADING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
    let missing = |why: String| EmbedError::ModelMissing(format!("{why}: run scripts/assets, which fetches it"));
    // ort would look beside the executable first if the path were relative.
    let path = library.canonicalize().map_err(|_| missing(format!("{} is missing", library.display())))?;
    ort::init_from(path).map_err(|e| missing(format!("ONNX Runtime cannot be used ({e})")))?;
    // One text at a time gains nothing from the tokenizer's own thread pool, and the cores are taken.
    tokenizers::utils::parallelism::set_parallelism(false);
    Ok(())
}
