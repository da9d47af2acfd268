//! URLs that a conversation has named.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// A set of URLs; extraction and bounds come with `fetch_url`.
#[derive(Debug, Default)]
pub struct SeenUrls {
    urls: Mutex<HashSet<String>>,
}

impl SeenUrls {
    /// Notes every `http(s)://…` word of `text`.
    pub fn add_text(&self, text: &str) {
        let found = text.split_whitespace().filter(|w| w.starts_with("http://") || w.starts_with("https://"));
        self.urls.lock().unwrap_or_else(PoisonError::into_inner).extend(found.map(str::to_owned));
    }

    pub fn contains(&self, url: &str) -> bool {
        self.urls.lock().unwrap_or_else(PoisonError::into_inner).contains(url)
    }
}
