//! State that one side changes and many wait on: looking and leaving a waker happen under one lock, so no change is
//! missed between the two. Generic over the lock, so that loom can try every order of steps in a test.

use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// What a lock has to do.
pub trait Lock<T> {
    fn new(value: T) -> Self;
    fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R;
}

impl<T> Lock<T> for Mutex<T> {
    fn new(value: T) -> Self {
        Self::new(value)
    }

    fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        work(&mut self.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[derive(Debug)]
pub struct Tail<S, L = Mutex<Watched<S>>> {
    watched: L,
    _state: std::marker::PhantomData<fn() -> S>,
}

#[derive(Debug)]
pub struct Watched<S> {
    state: S,
    /// Those who wait for the next change.
    waiting: Vec<Waker>,
    /// Counts how often they were woken: a place in `waiting` is good for one.
    woken: u64,
}

/// Where a waiter's waker stands, so that it leaves one only, however often it looks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    at: usize,
    /// One more than [`Watched::woken`] was.
    woken: u64,
}

impl<S, L: Lock<Watched<S>>> Tail<S, L> {
    pub fn new(state: S) -> Self {
        let watched = L::new(Watched { state, waiting: Vec::new(), woken: 0 });
        Self { watched, _state: std::marker::PhantomData }
    }

    /// Changes the state and wakes all who wait.
    pub fn change<R>(&self, change: impl FnOnce(&mut S) -> R) -> R {
        let (result, waiting) = self.watched.with(|watched| {
            let result = change(&mut watched.state);
            watched.woken += 1;
            (result, std::mem::take(&mut watched.waiting))
        });
        waiting.into_iter().for_each(Waker::wake);
        result
    }

    /// Looks at the state, or changes what nobody waits for.
    pub fn with<R>(&self, work: impl FnOnce(&mut S) -> R) -> R {
        self.watched.with(|watched| work(&mut watched.state))
    }

    /// Ready with what `look` finds; else the task is woken by the next change.
    pub fn poll<R>(&self, cx: &Context<'_>, place: &mut Place, look: impl FnOnce(&S) -> Option<R>) -> Poll<R> {
        self.watched.with(|watched| {
            if let Some(found) = look(&watched.state) {
                return Poll::Ready(found);
            }
            let is_there = place.woken == watched.woken + 1;
            match watched.waiting.get_mut(place.at).filter(|_| is_there) {
                Some(waker) => waker.clone_from(cx.waker()),
                None => {
                    *place = Place { at: watched.waiting.len(), woken: watched.woken + 1 };
                    watched.waiting.push(cx.waker().clone());
                }
            }
            Poll::Pending
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl<T> Lock<T> for loom::sync::Mutex<T> {
        fn new(value: T) -> Self {
            Self::new(value)
        }

        fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
            work(&mut self.lock().unwrap())
        }
    }

    /// In every order of steps both readers see all that was appended, and then the end.
    #[test]
    fn loom_finds_no_order_in_which_a_reader_misses_a_change() {
        type Log = Tail<(Vec<u32>, bool), loom::sync::Mutex<Watched<(Vec<u32>, bool)>>>;
        let mut model = loom::model::Builder::new();
        // Every order with so many switches at moments that no step asks for: all of them would take hours.
        model.preemption_bound = Some(2);
        model.check(|| {
            let log = loom::sync::Arc::new(Log::new((vec![], false)));
            let read = |log: loom::sync::Arc<Log>| {
                loom::thread::spawn(move || {
                    let (mut seen, mut place) = (Vec::new(), Place::default());
                    loop {
                        let next = std::future::poll_fn(|cx| {
                            log.poll(cx, &mut place, |(items, closed)| match items.get(seen.len()..) {
                                Some(new) if !new.is_empty() => Some(Some(new.to_vec())),
                                _ => closed.then_some(None),
                            })
                        });
                        match loom::future::block_on(next) {
                            Some(new) => seen.extend(new),
                            None => return seen,
                        }
                    }
                })
            };
            let readers = [read(log.clone()), read(log.clone())];
            log.change(|(items, _)| items.push(1));
            log.change(|(items, closed)| {
                items.push(2);
                *closed = true;
            });
            for reader in readers {
                assert_eq!(reader.join().unwrap(), [1, 2]);
            }
        });
    }

    #[test]
    fn a_waiter_that_looks_often_leaves_one_waker() {
        let tail: Tail<u32> = Tail::new(0);
        let cx = Context::from_waker(Waker::noop());
        let mut places = [Place::default(); 3];
        for _ in 0..5 {
            for place in &mut places {
                assert!(tail.poll(&cx, place, |_| None::<()>).is_pending());
            }
        }
        assert_eq!(tail.watched.lock().unwrap().waiting.len(), 3);
        tail.change(|n| *n += 1);
        assert_eq!(tail.watched.lock().unwrap().waiting.len(), 0);
        for place in &mut places {
            assert_eq!(tail.poll(&cx, place, |n| (*n > 0).then_some(*n)), Poll::Ready(1));
        }
    }
}
