//! Pages of one host, one after the other: from a first one along its links and what the host's sitemap names, as
//! far as the host's robots.txt allows.
//!
//! Invariants: nothing is asked of another host, of the same page twice, or after the last page that was asked for;
//! every request is judged like any other of this tool.

use super::robots::Robots;
use super::{FetchUrl, Fetched, refused, without_fragment};
use crate::knowledge::extract::{self, Links};
use crate::tools::ToolError;
use crate::tools::address_guard;
use reqwest::Url;
use std::collections::{HashSet, VecDeque};

/// Pages that may wait to be read.
const MOST_WAITING: usize = 20_000;
/// Sitemaps that are read.
const MOST_SITEMAPS: usize = 10;

pub struct Crawl<'f> {
    fetch: &'f FetchUrl,
    robots: Robots,
    /// With how many links lead to it from the first.
    waiting: VecDeque<(Url, usize)>,
    seen: HashSet<String>,
    depth: usize,
    /// Pages that may still be asked for.
    left: usize,
    asked: bool,
}

impl<'f> Crawl<'f> {
    /// `depth`: how many links may lead from `start` to a page; 0: only that page.
    ///
    /// # Errors
    /// The address is refused, or the host does not say what it allows.
    pub async fn start(fetch: &'f FetchUrl, start: &str, depth: usize, max_pages: usize) -> Result<Self, ToolError> {
        let start = without_fragment(address_guard::parse(start).map_err(refused)?);
        let robots = Robots::of(fetch, &start).await?;
        let mut crawl = Self {
            fetch,
            robots,
            waiting: VecDeque::new(),
            seen: HashSet::new(),
            depth,
            left: max_pages,
            asked: false,
        };
        let host = start.clone();
        crawl.push(start, 0);
        if depth > 0 {
            crawl.read_sitemaps(&host).await;
        }
        Ok(crawl)
    }

    /// The next page and what came of it; `None` after the last.
    pub async fn next(&mut self) -> Option<(Url, Result<Fetched, ToolError>)> {
        let (url, depth) = self.waiting.pop_front()?;
        if self.left == 0 {
            self.waiting.clear();
            return Some((url, Err(ToolError("more pages than `ingest.max_crawl_pages` were found".into()))));
        }
        if !self.robots.allows(&url) {
            return Some((url, Err(ToolError("the robots.txt of its host forbids it".into()))));
        }
        self.left -= 1;
        // A host may ask for time between requests.
        if std::mem::replace(&mut self.asked, true) {
            tokio::time::sleep(self.robots.delay()).await;
        }
        let fetched = self.fetch.raw(url.as_str()).await;
        Some(match fetched {
            Ok(page) if !same_host(&page.url, &url) => (url, Err(ToolError("it leads to another host".into()))),
            Ok(page) => {
                self.seen.insert(page.url.to_string());
                let links = page.links();
                self.follow(&page.url, &links, depth);
                match links.no_index {
                    true => (url, Err(ToolError("the page asks not to be kept (noindex)".into()))),
                    false => (url, Ok(page)),
                }
            }
            Err(error) => (url, Err(error)),
        })
    }

    fn follow(&mut self, page: &Url, links: &Links, depth: usize) {
        if depth >= self.depth {
            return;
        }
        let base = links.base.as_deref().and_then(|base| page.join(base).ok()).unwrap_or_else(|| page.clone());
        for target in &links.targets {
            if let Ok(url) = base.join(target) {
                self.push(url, depth + 1);
            }
        }
    }

    fn push(&mut self, url: Url, depth: usize) {
        let url = without_fragment(url);
        if self.robots.is_of(&url) && self.waiting.len() < MOST_WAITING && self.seen.insert(url.to_string()) {
            self.waiting.push_back((url, depth));
        }
    }

    /// What cannot be read of them is only not found this way.
    async fn read_sitemaps(&mut self, host: &Url) {
        let mut maps: VecDeque<Url> = self.robots.sitemaps(host).into();
        for _ in 0..MOST_SITEMAPS {
            let Some(map) = maps.pop_front() else { break };
            if !same_host(&map, host) {
                continue;
            }
            let Ok(found) = self.fetch.raw(map.as_str()).await else { continue };
            let (pages, more) = extract::locations(&String::from_utf8_lossy(&found.bytes));
            maps.extend(more.iter().filter_map(|url| Url::parse(url).ok()));
            for page in pages.iter().filter_map(|url| Url::parse(url).ok()) {
                self.push(page, 1);
            }
        }
    }
}

pub(super) fn same_host(a: &Url, b: &Url) -> bool {
    a.scheme() == b.scheme() && a.host() == b.host() && a.port_or_known_default() == b.port_or_known_default()
}
