//! One core or all of them for candle's arithmetic.
//!
//! candle shares each multiplication among the threads of one pool and lets them wait for each other
//! spinning. Alone on the machine, two threads are half as fast again as one; beside anything that wants the
//! cores too (embedding, a build) they were measured at a tenth of one thread's speed, because each waits for
//! a thread that is not running. So one core is the default. candle takes the pool's size from an environment
//! variable only, but what runs on a thread of the pool does not share its work: that is used here.

use candle_core::utils::barrier_pool;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError, mpsc};

/// Runs `work` with arithmetic on one core, and waits for it asleep. A panic in it goes on in the caller.
pub(super) fn on_one<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    let pool = barrier_pool();
    // The pool counts its own threads from 0 and the caller as the last.
    let caller = pool.n_workers();
    if caller == 0 {
        return work();
    }
    let work = Mutex::new(Some(work));
    let result = Mutex::new(None);
    let (finished, end) = mpsc::sync_channel::<()>(1);
    let end = Mutex::new(end);
    pool.execute(|thread| {
        if thread == 0 {
            let work = work.lock().unwrap_or_else(PoisonError::into_inner).take();
            let done = work.map(|work| catch_unwind(AssertUnwindSafe(work)));
            *result.lock().unwrap_or_else(PoisonError::into_inner) = done;
            // The caller is there: it waits for this.
            let _ = finished.send(());
        } else if thread == caller {
            // Otherwise it would spin until the other threads are done.
            let _ = end.lock().unwrap_or_else(PoisonError::into_inner).recv();
        }
    });
    match result.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(Ok(value)) => value,
        Some(Err(panic)) => resume_unwind(panic),
        None => unreachable!("the pool runs its first thread"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_panics_come_back() {
        assert_eq!(on_one(|| 6 * 7), 42);
        let panicked = catch_unwind(|| on_one(|| -> u32 { panic!("inside") }));
        assert!(panicked.is_err());
        assert_eq!(on_one(|| "still there"), "still there");
    }
}
