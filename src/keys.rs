//! Who may call: the operator's one key, and the keys that were given out, each with its scopes, collections and
//! end. All are in memory; a check reads no file.
//! Invariant: a managed key is shown once, when it is made; what is stored is its hash.

use crate::secret::Secret;
use crate::storage::api_keys::{self, StoredKey};
use crate::storage::{Db, StorageError};
use jiff::Timestamp;
use rand::TryRng;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt::Write;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// What a key of ours begins with, so that it is known when it turns up where it should not.
const PREFIX: &str = "tr_";
const KEY_BYTES: usize = 32;
/// Longest name, in characters.
const MAX_NAME: usize = 100;
/// How soon after its end a key's streams end.
const EXPIRY_CHECK: Duration = Duration::from_secs(2);

/// What a key may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    Chat,
    Search,
    Ingest,
    /// All of them, and what is the operator's.
    Admin,
}

impl Scope {
    pub const ALL: [Self; 4] = [Self::Chat, Self::Search, Self::Ingest, Self::Admin];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Search => "search",
            Self::Ingest => "ingest",
            Self::Admin => "admin",
        }
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|scope| scope.as_str() == word);
        known.ok_or_else(|| "a scope is one of chat, search, ingest, admin".to_owned())
    }
}

/// A key that works.
#[derive(Debug)]
pub struct Key {
    /// `None`: the operator's.
    pub managed: Option<Uuid>,
    pub name: String,
    pub scopes: Vec<Scope>,
    /// `None`: all.
    pub collections: Option<Vec<String>>,
    pub created: Timestamp,
    pub expires: Option<Timestamp>,
    /// Cancelled when the key is revoked or has expired: its streams end.
    pub gone: CancellationToken,
}

impl Key {
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope) || self.scopes.contains(&Scope::Admin)
    }

    fn has_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|end| end <= now)
    }
}

/// A key to be made.
#[derive(Clone, Debug)]
pub struct NewKey {
    pub name: String,
    pub scopes: Vec<Scope>,
    pub collections: Option<Vec<String>>,
    pub expires: Option<Timestamp>,
}

/// Why no key was made.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("field `{field}`: {why}")]
    Field { field: &'static str, why: String },
    #[error("the system gives no random bytes: {0}")]
    Random(String),
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// All keys. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Keys {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    db: Db,
    operator: Option<(Secret, Arc<Key>)>,
    /// By hash.
    managed: RwLock<HashMap<String, Arc<Key>>>,
    /// Cancelled when a first key is made: streams of those who had none end.
    open: Mutex<CancellationToken>,
}

impl Keys {
    pub async fn load(db: Db, operator: Option<Secret>) -> Result<Self, StorageError> {
        let managed = api_keys::all(&db).await?.into_iter().map(|stored| (stored.hash.clone(), Arc::new(key(stored))));
        let managed = RwLock::new(managed.collect());
        let operator = operator.map(|secret| (secret, Arc::new(operators())));
        Ok(Self { inner: Arc::new(Inner { db, operator, managed, open: Mutex::default() }) })
    }

    /// Whether requests need a key.
    pub fn any(&self) -> bool {
        self.inner.operator.is_some() || !self.read().is_empty()
    }

    /// What those hold who need no key; cancelled when that ends.
    pub fn anyone(&self) -> CancellationToken {
        self.open().clone()
    }

    /// The key behind what a client sent; `None` where it is unknown, revoked or has expired.
    pub fn find(&self, sent: &str) -> Option<Arc<Key>> {
        if let Some((secret, key)) = &self.inner.operator
            && secret.matches(sent)
        {
            return Some(Arc::clone(key));
        }
        // What is compared is a hash: how long that takes says nothing of any key.
        self.read().get(&hash(sent)).filter(|key| !key.has_expired(Timestamp::now())).cloned()
    }

    /// Makes a key; the text is not to be had again.
    ///
    /// # Errors
    /// [`KeyError::Field`] for what cannot be.
    pub async fn create(&self, new: NewKey) -> Result<(Arc<Key>, String), KeyError> {
        let refused = |field, why: String| Err(KeyError::Field { field, why });
        let name = new.name.trim();
        if name.is_empty() || name.chars().count() > MAX_NAME {
            return refused("name", format!("1 to {MAX_NAME} characters"));
        }
        if new.scopes.is_empty() {
            return refused("scopes", "name at least one of chat, search, ingest, admin".to_owned());
        }
        if new.expires.is_some_and(|end| end <= Timestamp::now()) {
            return refused("expires_at", "it is in the past".to_owned());
        }
        let mut bytes = [0; KEY_BYTES];
        rand::rngs::SysRng.try_fill_bytes(&mut bytes).map_err(|error| KeyError::Random(error.to_string()))?;
        let text = format!("{PREFIX}{}", hex(&bytes));
        let mut scopes = new.scopes;
        scopes.sort_by_key(|scope| scope.as_str());
        scopes.dedup();
        let stored = StoredKey {
            id: Uuid::now_v7(),
            name: name.to_owned(),
            hash: hash(&text),
            scopes: scopes.iter().map(|scope| scope.as_str().to_owned()).collect(),
            collections: new.collections,
            created: Timestamp::now(),
            expires: new.expires,
        };
        api_keys::insert(&self.inner.db, stored.clone()).await?;
        let made = Arc::new(key(stored));
        let were_any = self.any();
        self.write().insert(hash(&text), Arc::clone(&made));
        if !were_any {
            std::mem::take(&mut *self.open()).cancel();
        }
        Ok((made, text))
    }

    /// Ends a key and its streams. `false`: there is no such key. It does not work any more from here on, whatever
    /// becomes of the row: one that could not be deleted works again after a restart, and the caller is told.
    pub async fn revoke(&self, id: Uuid) -> Result<bool, StorageError> {
        let was_used = self.forget(id);
        Ok(api_keys::delete(&self.inner.db, id).await? || was_used)
    }

    fn forget(&self, id: Uuid) -> bool {
        let mut managed = self.write();
        let before = managed.len();
        managed.retain(|_, key| {
            let stays = key.managed != Some(id);
            if !stays {
                key.gone.cancel();
            }
            stays
        });
        managed.len() < before
    }

    /// The managed ones, the oldest first.
    pub fn list(&self) -> Vec<Arc<Key>> {
        let mut keys: Vec<Arc<Key>> = self.read().values().cloned().collect();
        keys.sort_by_key(|key| (key.created, key.managed));
        keys
    }

    /// Ends the streams of keys that expire, until `stop`.
    pub async fn run_expiry(self, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(EXPIRY_CHECK)).await.is_some() {
            let now = Timestamp::now();
            self.read().values().filter(|key| key.has_expired(now)).for_each(|key| key.gone.cancel());
        }
    }

    fn open(&self) -> MutexGuard<'_, CancellationToken> {
        self.inner.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<String, Arc<Key>>> {
        self.inner.managed.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<String, Arc<Key>>> {
        self.inner.managed.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(stored: StoredKey) -> Key {
    Key {
        managed: Some(stored.id),
        name: stored.name,
        // A word of a newer version allows nothing here.
        scopes: stored.scopes.iter().filter_map(|word| word.parse().ok()).collect(),
        collections: stored.collections,
        created: stored.created,
        expires: stored.expires,
        gone: CancellationToken::new(),
    }
}

fn operators() -> Key {
    Key {
        managed: None,
        name: "TAILRACE_ADMIN_KEY".to_owned(),
        scopes: vec![Scope::Admin],
        collections: None,
        created: Timestamp::UNIX_EPOCH,
        expires: None,
        gone: CancellationToken::new(),
    }
}

fn hash(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing into a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
