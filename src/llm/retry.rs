//! Whether and when to ask a provider again. Pure.

use super::{LlmError, LlmErrorKind};
use std::time::Duration;

/// The longest wait before the first, second, … retry, if the provider names none: doubled each time.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(8);
/// The longest wait that a provider may ask for with `retry-after`.
const LONGEST_ASKED: Duration = Duration::from_secs(60);

/// How long to wait before retry number `attempt` (from 1); `None`: not again. `random`: 0 to 1, for full jitter
/// (Brooker, "Exponential Backoff And Jitter": a random part of the whole wait keeps clients from coming back together).
pub fn wait(attempt: u32, max_retries: u32, error: &LlmError, random: f64) -> Option<Duration> {
    if attempt > max_retries || !error.kind.retryable() || error.kind == LlmErrorKind::Unavailable {
        return None;
    }
    Some(match error.retry_after {
        Some(asked) => asked.min(LONGEST_ASKED),
        None => FIRST_WAIT.saturating_mul(1 << (attempt - 1).min(16)).min(LONGEST_WAIT).mul_f64(random.clamp(0.0, 1.0)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use LlmErrorKind as Kind;

    #[test]
    fn only_what_passes_is_tried_again_and_not_for_ever() {
        let all = |kind| (1..=4).map(|n| wait(n, 3, &LlmError::new(kind, "x"), 1.0)).collect::<Vec<_>>();
        let ms = |ms| Some(Duration::from_millis(ms));
        for kind in [Kind::RateLimited, Kind::Overloaded, Kind::Transport, Kind::Interrupted] {
            assert_eq!(all(kind), [ms(500), ms(1000), ms(2000), None], "{kind:?}");
        }
        for kind in [Kind::Auth, Kind::Quota, Kind::BadRequest, Kind::ContextTooLong, Kind::Decode, Kind::Unavailable] {
            assert_eq!(all(kind), [None; 4], "{kind:?}");
        }
    }

    #[test]
    fn a_providers_own_wait_is_kept_up_to_a_minute_and_others_are_random() {
        let with = |seconds| LlmError {
            retry_after: Some(Duration::from_secs(seconds)),
            ..LlmError::new(Kind::RateLimited, "x")
        };
        assert_eq!(wait(1, 3, &with(7), 0.0), Some(Duration::from_secs(7)));
        assert_eq!(wait(1, 3, &with(900), 0.5), Some(LONGEST_ASKED));
        let plain = LlmError::new(Kind::Overloaded, "x");
        assert_eq!(wait(1, 9, &plain, 0.5), Some(Duration::from_millis(250)));
        assert_eq!(wait(9, 9, &plain, 1.0), Some(LONGEST_WAIT));
        assert_eq!(wait(1, 0, &plain, 1.0), None);
    }
}
