//! What tools bring: found in the next round, by those who may, for as long as they may.

use super::world::{World, documents, essay, result};
use tailrace::config::ToolResults;
use tailrace::knowledge::retrieve::SearchRequest;
use tailrace::storage::documents::{self as rows, DocumentKey};
use tailrace::storage::messages;
use tempfile::TempDir;
use uuid::Uuid;

fn within(conversation: Uuid, query: &str) -> SearchRequest {
    SearchRequest { conversation: Some(conversation), ..SearchRequest::new("default", query, 5) }
}

/// Invariant 8, as far as the knowledge base goes: 1,000 times what was brought is found at once.
#[tokio::test]
async fn read_your_writes() {
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    let conversation = world.conversation().await;
    for n in 0..1000 {
        let text = format!("Berth {n} is reserved for the barge KX{n}.");
        let outcome =
            world.tool_result(conversation, &format!("https://port/{n}"), &text, ToolResults::Conversation).await;
        let answer = world.retrieve.search(&within(conversation, &format!("barge KX{n}"))).await.unwrap();
        assert!(answer.watermark >= outcome.watermark);
        assert!(answer.hits.iter().any(|hit| hit.text == text), "round {n}: {:?}", answer.hits);
        if n % 250 == 100 {
            world.ingest.upkeep().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_finding_belongs_to_its_conversation() {
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    let (mine, other) = (world.conversation().await, world.conversation().await);
    let text = "The ferry to Skomer leaves at nine.";
    let outcome = world.tool_result(mine, "https://ferry/", text, ToolResults::Conversation).await;
    let query = "When does the ferry leave?";
    assert_eq!(documents(&world.search(within(mine, query)).await), ["https://ferry/"]);
    assert!(world.search(within(other, query)).await.is_empty());
    assert!(world.find("default", query).await.is_empty());
    assert!(rows::list(&world.db, "default", None, 10).await.unwrap().is_empty(), "nor is it listed");

    // The same page in another conversation is another document; its text has a vector already.
    let embedded = world.embedder.count();
    let theirs = world.tool_result(other, "https://ferry/", text, ToolResults::Conversation).await;
    assert_ne!(theirs.document_id, outcome.document_id);
    assert_eq!(world.embedder.count(), embedded);
    // And fetched again in the first it is the same one.
    let again = world.tool_result(mine, "https://ferry/", text, ToolResults::Conversation).await;
    assert!(again.unchanged && again.document_id == outcome.document_id);
    let later = world.tool_result(mine, "https://ferry/", "The ferry leaves at ten.", ToolResults::Conversation).await;
    assert_eq!((later.document_id, later.version), (outcome.document_id, 2));
    assert_eq!(world.search(within(mine, query)).await[0].text, "The ferry leaves at ten.");

    let shared = world.tool_result(mine, "https://tide/", "High tide is at noon.", ToolResults::Collection).await;
    assert_eq!(documents(&world.find("default", "high tide").await), ["https://tide/"]);
    let row = rows::find(&world.db, &DocumentKey { collection: "default".into(), id: shared.document_id }).await;
    assert_eq!(row.unwrap().unwrap().description.expires_at, None);
    let off = result(mine, "https://off/", "Not to be kept.", ToolResults::Off);
    assert_eq!(world.ingest.tool_result(off).await.unwrap(), None);
}

#[tokio::test]
async fn a_deleted_conversation_takes_its_findings_along() {
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    let conversation = world.conversation().await;
    let long = essay("osprey", 400);
    let finding = world.tool_result(conversation, "https://x/", &long, ToolResults::Conversation).await;
    world.put("default", "kept.md", "# Kept\n\nThis stays.").await;
    assert!(world.ingest.delete_conversation(conversation).await.unwrap());
    assert!(!world.ingest.delete_conversation(conversation).await.unwrap());
    assert_eq!(world.points("default", Some(&finding.document_id)).await, 0);
    assert!(world.search(within(conversation, "osprey valve")).await.iter().all(|hit| hit.uri == "kept.md"));
    assert!(messages::history(&world.db, conversation).await.unwrap().is_empty());
    let late =
        world.ingest.tool_result(result(conversation, "https://y/", "Too late.", ToolResults::Conversation)).await;
    assert_eq!(late.unwrap_err().code(), "unknown_conversation");
    world.ingest.upkeep().await.unwrap();
    world.must_agree().await;
    assert_eq!(world.points("default", None).await, 1);
}

#[tokio::test]
async fn a_finding_whose_time_is_over_is_not_found_and_then_gone() {
    let folder = TempDir::new().unwrap();
    let world = World::open(folder.path()).await;
    let conversation = world.conversation().await;
    let mut old = result(conversation, "https://x/", "The ferry to Skomer leaves at nine.", ToolResults::Conversation);
    old.keep_days = 0;
    let outcome = world.ingest.tool_result(old).await.unwrap().unwrap();
    assert!(world.search(within(conversation, "ferry to Skomer")).await.is_empty());
    world.ingest.upkeep().await.unwrap();
    let key = DocumentKey { collection: "default".into(), id: outcome.document_id };
    assert_eq!(rows::find(&world.db, &key).await.unwrap(), None);
    assert_eq!(world.points("default", None).await, 0);
}
