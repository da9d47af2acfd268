//! Summaries beside the messages they stand for.

use super::*;
use crate::storage::summaries::{self, StoredSummary};

#[tokio::test]
async fn the_one_that_reaches_furthest_counts_and_goes_with_its_message() {
    let (_folder, db) = open().await;
    let mut asked = Vec::new();
    let mut conversation = None;
    for text in ["one", "two", "three"] {
        let new = turn(conversation, text);
        let id = new.turn_id;
        let started = begin(&db, new).await;
        conversation = Some(started.conversation_id);
        turns::finish(&db, id, Arc::new(end(Progress::default()))).await.unwrap();
        asked.push(started);
    }
    let conversation = conversation.unwrap();
    assert_eq!(summaries::latest(&db, conversation).await.unwrap(), None);
    let put = |message_id, text: &str| {
        let summary = StoredSummary { message_id, text: text.to_owned() };
        let db = db.clone();
        async move { summaries::put(&db, summary).await.unwrap() }
    };
    put(asked[1].assistant_message_id, "of two").await;
    put(asked[0].assistant_message_id, "of one").await;
    put(Uuid::now_v7(), "of nothing").await;
    put(asked[1].assistant_message_id, "of two, again").await;
    let latest = || async { summaries::latest(&db, conversation).await.unwrap().map(|s| s.text) };
    assert_eq!(latest().await.as_deref(), Some("of two, again"));

    let mut edit = turn(Some(conversation), "two, edited");
    edit.replace_message_id = Some(asked[1].user_message_id);
    begin(&db, edit).await;
    assert_eq!(latest().await.as_deref(), Some("of one"));
    assert!(conversations::delete(&db, conversation).await.unwrap());
    assert_eq!(latest().await, None);
}
