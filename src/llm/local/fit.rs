//! Which messages a small context has room for. Pure.

use crate::message::ChatMessage;

/// Marks the messages to keep, in order: those before `pinned` (instructions and examples), and as many of
/// the newest as fit beside them; what remains of the history begins with a message of the user.
/// `sizes`: tokens of each message; `room`: tokens for all. `None`: not even the newest message fits.
pub(super) fn fit(messages: &[ChatMessage], sizes: &[usize], pinned: usize, room: usize) -> Option<Vec<bool>> {
    let pinned = pinned.min(messages.len().saturating_sub(1));
    let mut left = room.checked_sub(sizes[..pinned].iter().sum())?;
    let mut first = messages.len();
    while first > pinned && sizes[first - 1] <= left {
        first -= 1;
        left -= sizes[first];
    }
    if first == messages.len() && !messages.is_empty() {
        return None;
    }
    // An answer without its question only misleads; the newest message stays whatever it is.
    while first > pinned && first + 1 < messages.len() && !matches!(messages[first], ChatMessage::User(_)) {
        first += 1;
    }
    Some((0..messages.len()).map(|i| i < pinned || i >= first).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::AssistantMessage;

    /// `s`, `u`, `a`: system, user, assistant; each message is worth its digit in tokens.
    fn check(messages: &str, pinned: usize, room: usize, want: Option<&str>) {
        let (messages, sizes): (Vec<_>, Vec<_>) = messages
            .split(' ')
            .map(|word| {
                let message = match word.as_bytes()[0] {
                    b's' => ChatMessage::System(String::new()),
                    b'u' => ChatMessage::User(String::new()),
                    _ => ChatMessage::Assistant(AssistantMessage::default()),
                };
                (message, word[1..].parse::<usize>().unwrap())
            })
            .unzip();
        let kept = fit(&messages, &sizes, pinned, room)
            .map(|kept| kept.into_iter().map(|k| if k { 'x' } else { '-' }).collect::<String>());
        assert_eq!(kept.as_deref(), want, "{messages:?} in {room}");
    }

    #[test]
    fn the_oldest_goes_first_and_what_is_pinned_stays() {
        check("s3 u1 a1 u2 a2 u1", 1, 10, Some("xxxxxx"));
        check("s3 u1 a1 u2 a2 u1", 1, 9, Some("x--xxx"));
        check("s3 u1 a1 u2 a2 u1", 1, 6, Some("x----x"));
        check("s3 u1 a1 u2 a2 u1", 3, 9, Some("xxx--x"));
        check("s3 u1 a1 u2 a2 u1", 1, 3, None);
        check("s3 u1 a1 u2 a2 u1", 1, 2, None);
        check("s3 u9 a1", 1, 5, Some("x-x"));
        check("u1", 5, 1, Some("x"));
    }
}
