//! What every search is narrowed by, whoever asks: scope and expiry. Pure.
//! Invariant: a user's conditions stand beside these, so no combination of them widens the result.

use super::super::Scope;
use super::super::filter::{Condition, Filter, Range};
use serde_json::{Value, json};
use uuid::Uuid;

pub(super) fn filter(user: Filter, conversation: Option<Uuid>, now: i64) -> Filter {
    let scopes: Vec<Value> = [Some(Scope::Collection), conversation.map(Scope::Conversation)]
        .into_iter()
        .flatten()
        .map(|scope| json!(scope.key()))
        .collect();
    #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are far below 2^52")]
    let past = Range { lte: Some(now as f64), ..Range::default() };
    let mut must = vec![Condition::Any { key: "scope".to_owned(), values: scopes }];
    if user != Filter::default() {
        must.push(Condition::All(user));
    }
    // A point without an expiry has no number that could lie in the past.
    let must_not = vec![Condition::Range { key: "expires_at".to_owned(), range: past }];
    Filter { must, must_not, ..Filter::default() }
}

/// For a search of the past: also what was replaced since. Which version was live then is checked in SQL.
pub(super) fn past(user: Filter) -> Filter {
    let scopes = [Scope::Collection, Scope::Kept].map(|scope| json!(scope.key())).to_vec();
    let mut must = vec![Condition::Any { key: "scope".to_owned(), values: scopes }];
    if user != Filter::default() {
        must.push(Condition::All(user));
    }
    Filter { must, ..Filter::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_users_alternatives_do_not_replace_the_scope() {
        let user = Filter {
            should: vec![Condition::Match { key: "title".to_owned(), value: json!("x") }],
            ..Filter::default()
        };
        let conversation = Uuid::from_u128(7);
        let narrowed = filter(user.clone(), Some(conversation), 5);
        assert!(narrowed.should.is_empty());
        assert_eq!(narrowed.must.len(), 2);
        let scopes = vec![json!("collection"), json!(conversation.to_string())];
        assert_eq!(narrowed.must[0], Condition::Any { key: "scope".to_owned(), values: scopes });
        assert_eq!(narrowed.must[1], Condition::All(user));
        let past = Range { lte: Some(5.0), ..Range::default() };
        assert_eq!(narrowed.must_not, [Condition::Range { key: "expires_at".to_owned(), range: past }]);
        assert_eq!(filter(Filter::default(), None, 5).must.len(), 1);
    }
}
