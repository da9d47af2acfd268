//! Pages of a host along its links: what is asked for and what is not.

use super::tool;
use crate::upstream::{Script, Upstream};
use std::time::Duration;
use tailrace::tools::fetch_url::Crawl;

fn linking(links: &[&str]) -> Script {
    let links: String = links.iter().map(|link| format!("<a href='{link}'>x</a>")).collect();
    Script::body(200, "text/html; charset=utf-8", format!("<html><body><p>A page.</p>{links}</body></html>"))
}

async fn site() -> Upstream {
    Upstream::answering(|_, request| match request.path.as_str() {
        "/robots.txt" => Script::body(200, "text/plain", "User-agent: *\nDisallow: /private\n"),
        "/sitemap.xml" => Script::body(404, "text/html", "gone"),
        "/start" => {
            linking(&["a", "/a#part", "/private/x", "http://elsewhere.example/", "mailto:x@y", "/gone", "no-index"])
        }
        "/a" => linking(&["/deep", "/start"]),
        "/deep" => linking(&["/deeper"]),
        "/no-index" => Script::body(200, "text/html", "<meta name='robots' content='noindex'><p>Not to be kept.</p>"),
        _ => Script::body(404, "text/html", "gone"),
    })
    .await
}

/// What became of each page, by its path.
async fn crawled(server: &Upstream, depth: usize, max_pages: usize) -> Vec<(String, Result<(), String>)> {
    let tool = tool(server, |options| options.timeout = Duration::from_secs(20));
    let mut crawl = Crawl::start(&tool, &format!("{}/start", server.base_url()), depth, max_pages).await.unwrap();
    let mut found = Vec::new();
    while let Some((url, page)) = crawl.next().await {
        found.push((url.path().to_owned(), page.map(drop).map_err(|error| error.to_string())));
    }
    found
}

fn paths(found: &[(String, Result<(), String>)], good: bool) -> Vec<&str> {
    found.iter().filter(|(_, outcome)| outcome.is_ok() == good).map(|(path, _)| path.as_str()).collect()
}

#[tokio::test]
async fn links_are_followed_as_deep_as_asked_on_one_host_where_robots_may() {
    let server = site().await;
    let found = crawled(&server, 1, 100).await;
    assert_eq!(paths(&found, true), ["/start", "/a"], "{found:?}");
    assert_eq!(paths(&found, false), ["/private/x", "/gone", "/no-index"], "{found:?}");
    let why = |path: &str| found.iter().find(|(p, _)| p == path).unwrap().1.clone().unwrap_err();
    assert!(why("/private/x").contains("robots.txt"), "{found:?}");
    assert!(why("/no-index").contains("noindex"), "{found:?}");
    assert!(why("/gone").contains("404"), "{found:?}");
    let asked: Vec<String> = server.requests().iter().map(|request| request.path.clone()).collect();
    assert_eq!(asked, ["/robots.txt", "/sitemap.xml", "/start", "/a", "/gone", "/no-index"]);

    let server = site().await;
    assert_eq!(paths(&crawled(&server, 0, 100).await, true), ["/start"]);
    let server = site().await;
    assert_eq!(paths(&crawled(&server, 2, 100).await, true), ["/start", "/a", "/deep"]);
    let server = site().await;
    let found = crawled(&server, 3, 2).await;
    assert_eq!(paths(&found, true), ["/start", "/a"]);
    assert!(found.last().unwrap().1.clone().unwrap_err().contains("ingest.max_crawl_pages"), "{found:?}");
}

#[tokio::test]
async fn a_sitemap_names_more_pages_and_a_silent_host_allows_none() {
    let server = Upstream::answering(|_, request| {
        let host = request.header("host").unwrap_or_default().to_owned();
        match request.path.as_str() {
            "/robots.txt" => Script::body(200, "text/plain", format!("Sitemap: http://{host}/maps/index.xml\n")),
            "/maps/index.xml" => Script::body(
                200,
                "application/xml",
                format!("<sitemapindex><sitemap><loc>http://{host}/maps/one.xml</loc></sitemap></sitemapindex>"),
            ),
            "/maps/one.xml" => Script::body(
                200,
                "application/xml",
                format!(
                    "<urlset><url><loc>http://{host}/hidden</loc></url><url><loc>http://other.example/</loc></url></urlset>"
                ),
            ),
            _ => linking(&[]),
        }
    })
    .await;
    assert_eq!(paths(&crawled(&server, 1, 100).await, true), ["/start", "/hidden"]);

    let server = Upstream::answering(|_, _| Script::body(503, "text/plain", "busy")).await;
    let tool = tool(&server, |_| {});
    let refused = Crawl::start(&tool, &format!("{}/start", server.base_url()), 1, 10).await.err().unwrap();
    assert!(refused.to_string().contains("robots.txt") && refused.to_string().contains("503"), "{refused}");
}
