//! `tailrace keys`: make, list and revoke the keys of clients; through a running server where there is one.

use super::Failure;
use super::output::Output;
use super::remote::Remote;
use crate::config::Config;
use crate::http::keys::{KeyWire, made};
use crate::keys::{Keys, NewKey, Scope};
use crate::storage::{Db, DbOptions};
use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

#[derive(Debug, Args)]
pub struct KeysArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a key; it is shown once
    Create {
        name: String,
        /// What the key may do; may be given several times
        #[arg(long = "scope", required = true)]
        scopes: Vec<Scope>,
        /// Only these collections; may be given several times (default: all)
        #[arg(long = "collection")]
        collections: Vec<String>,
        /// When it ends, e.g. 2027-01-31T00:00:00Z (default: never)
        #[arg(long)]
        expires: Option<Timestamp>,
    },
    /// List the keys, without the keys themselves
    List,
    /// End a key and its open streams
    Revoke { id: Uuid },
}

pub async fn run(config: Config, args: KeysArgs, output: &Output) -> Result<(), Failure> {
    let options = DbOptions { data_dir: config.storage.data_dir.clone(), url: config.storage.database_url.clone() };
    let db = match Db::open(&options).await {
        Ok(db) => db,
        Err(error) => {
            let error = error.into();
            let Some(remote) = Remote::instead(&error, &config) else { return Err(error) };
            return there(&remote, args.action, output).await;
        }
    };
    let done = here(db.clone(), args.action, output).await;
    db.close().await;
    done
}

async fn here(db: Db, action: Action, output: &Output) -> Result<(), Failure> {
    let keys = Keys::load(db, None).await?;
    match action {
        Action::Create { name, scopes, collections, expires } => {
            let collections = (!collections.is_empty()).then_some(collections);
            let (key, text) = keys.create(NewKey { name, scopes, collections, expires }).await?;
            show_made(&made(&key, &text), output);
        }
        Action::List => {
            let keys = keys.list();
            let keys: Vec<KeyWire<'_>> = keys.iter().map(|key| KeyWire::from(&**key)).collect();
            show_list(&json!({ "keys": keys }), output);
        }
        Action::Revoke { id } => {
            if !keys.revoke(id).await? {
                return Err(format!("there is no key `{id}`").into());
            }
            show_revoked(id, output);
        }
    }
    Ok(())
}

async fn there(remote: &Remote, action: Action, output: &Output) -> Result<(), Failure> {
    match action {
        Action::Create { name, scopes, collections, expires } => {
            let mut body = json!({"name": name, "scopes": scopes, "expires_at": expires});
            if !collections.is_empty() {
                body["collections"] = collections.into();
            }
            show_made(&remote.json("/api/v1/keys", &body).await?, output);
        }
        Action::List => show_list(&remote.get("/api/v1/keys").await?, output),
        Action::Revoke { id } => {
            remote.delete(&format!("/api/v1/keys/{id}")).await?;
            show_revoked(id, output);
        }
    }
    Ok(())
}

fn show_made(made: &Value, output: &Output) {
    let word = |name: &str| made[name].as_str().unwrap_or_default();
    output.result(made, &format!("{}\nid {}; the key is not shown again", word("key"), word("id")));
}

fn show_list(list: &Value, output: &Output) {
    let line = |key: &Value| {
        let words = |name: &str| {
            let list =
                key[name].as_array().map(|all| all.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","));
            list.unwrap_or_else(|| "all".to_owned())
        };
        let word = |name: &str| key[name].as_str().unwrap_or("never").to_owned();
        format!(
            "{}  {}  scopes {}  collections {}  ends {}",
            word("id"),
            word("name"),
            words("scopes"),
            words("collections"),
            word("expires_at")
        )
    };
    let lines: Vec<String> = list["keys"].as_array().into_iter().flatten().map(line).collect();
    output.result(list, &lines.join("\n"));
}

fn show_revoked(id: Uuid, output: &Output) {
    output.result(&json!({ "revoked": id }), &format!("revoked {id}"));
}
