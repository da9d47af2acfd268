//! The circuit breaker of one upstream: after too many failures nobody asks for a while, then one may try. Pure: the
//! time is given.

use super::LlmErrorKind;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// So many failures within [`WINDOW`] open it.
const FAILURES: usize = 5;
const WINDOW: Duration = Duration::from_secs(30);
/// How long it stays open until one may try.
const REST: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub struct Breaker {
    /// When the latest failures happened.
    failures: VecDeque<Instant>,
    /// Until when nobody asks; `None`: closed.
    open_until: Option<Instant>,
    /// Somebody tries, since then.
    trying: Option<Instant>,
}

impl Breaker {
    /// Whether to ask now; `Err`: how long not to. `Ok(true)`: as the one who tries, see [`Breaker::give_up`].
    pub fn admit(&mut self, now: Instant) -> Result<bool, Duration> {
        let Some(until) = self.open_until else { return Ok(false) };
        if now < until {
            return Err(until - now);
        }
        // The one who tries may vanish without a word (a cancelled turn): then the next may.
        if let Some(since) = self.trying.filter(|since| now < *since + REST) {
            return Err(since + REST - now);
        }
        self.trying = Some(now);
        Ok(true)
    }

    pub fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// The upstream has begun to answer: it is there again, whatever the answer becomes.
    pub fn answered(&mut self) {
        if self.trying.take().is_some() {
            self.open_until = None;
        }
    }

    /// The one who tried went away before there was an answer: another may try.
    pub fn give_up(&mut self) {
        self.trying = None;
    }

    /// A refusal is an answer, too.
    pub fn failed(&mut self, kind: LlmErrorKind, now: Instant) {
        if !matches!(kind, LlmErrorKind::Overloaded | LlmErrorKind::Transport | LlmErrorKind::Interrupted) {
            if kind != LlmErrorKind::Unavailable {
                self.answered();
            }
            return;
        }
        self.failures.retain(|at| now < *at + WINDOW);
        self.failures.push_back(now);
        if self.trying.take().is_some() || self.failures.len() >= FAILURES {
            self.open_until = Some(now + REST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOWN: LlmErrorKind = LlmErrorKind::Overloaded;

    fn at(seconds: u64) -> Instant {
        static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
        *START + Duration::from_secs(seconds)
    }

    #[test]
    fn five_failures_open_it_and_one_may_try_after_the_rest() {
        let mut breaker = Breaker::default();
        for second in 0..5 {
            assert_eq!(breaker.admit(at(second)), Ok(false));
            breaker.failed(DOWN, at(second));
        }
        assert_eq!(breaker.admit(at(5)), Err(Duration::from_secs(29)));
        assert_eq!(breaker.admit(at(34)), Ok(true), "one tries");
        assert!(breaker.admit(at(35)).is_err(), "a second one does not");
        breaker.failed(DOWN, at(36));
        assert_eq!(breaker.admit(at(37)), Err(Duration::from_secs(29)));
        assert_eq!(breaker.admit(at(66)), Ok(true));
        breaker.succeeded();
        assert_eq!((breaker.admit(at(66)), breaker.admit(at(66))), (Ok(false), Ok(false)));
    }

    /// What the one who tries may meet, and whether others may ask then.
    #[test]
    fn an_answer_of_any_kind_closes_it() {
        type Met = fn(&mut Breaker);
        for (met, admitted) in [
            ((|breaker| breaker.answered()) as Met, Ok(false)),
            (|breaker| breaker.failed(LlmErrorKind::Auth, at(41)), Ok(false)),
            (|breaker| breaker.failed(LlmErrorKind::RateLimited, at(41)), Ok(false)),
            (|breaker| breaker.give_up(), Ok(true)),
            (|breaker| breaker.failed(LlmErrorKind::Unavailable, at(41)), Err(Duration::from_secs(28))),
            (|breaker| breaker.failed(DOWN, at(41)), Err(Duration::from_secs(29))),
        ] {
            let mut breaker = Breaker::default();
            (0..5).for_each(|second| breaker.failed(DOWN, at(second)));
            assert_eq!(breaker.admit(at(40)), Ok(true));
            met(&mut breaker);
            assert_eq!(breaker.admit(at(42)), admitted);
        }
        // Without a trial, refusals neither open nor close it.
        let mut breaker = Breaker::default();
        (0..5).for_each(|second| breaker.failed(DOWN, at(second)));
        breaker.failed(LlmErrorKind::Auth, at(6));
        assert!(breaker.admit(at(7)).is_err());
    }

    #[test]
    fn old_failures_and_refusals_do_not_count() {
        let mut breaker = Breaker::default();
        for second in [0, 1, 2, 3, 40, 80] {
            breaker.failed(DOWN, at(second));
            breaker.failed(LlmErrorKind::Auth, at(second));
            breaker.failed(LlmErrorKind::RateLimited, at(second));
            assert_eq!(breaker.admit(at(second)), Ok(false));
        }
    }

    #[test]
    fn one_who_tries_and_vanishes_does_not_close_the_door() {
        let mut breaker = Breaker::default();
        (0..5).for_each(|second| breaker.failed(DOWN, at(second)));
        assert_eq!(breaker.admit(at(40)), Ok(true));
        assert!(breaker.admit(at(50)).is_err());
        assert_eq!(breaker.admit(at(70)), Ok(true));
    }
}
