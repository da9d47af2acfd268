//! What `fetch_url` makes of what servers say: pages, types, sizes, silence and nonsense.

use super::{call, context, fetch, page, redirect, tool};
use crate::upstream::{Script, Step, Upstream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tailrace::tools::fetch_url::FetchUrlOptions;
use tailrace::tools::{IngestText, Tool};

#[tokio::test]
async fn a_page_becomes_its_title_its_address_and_its_text() {
    let server = Upstream::answering(|_, request| match request.path.as_str() {
        "/old?q=1" => redirect(301, "new#there"),
        _ => Script::body(
            200,
            "text/html",
            "<html><head><title> The\n Race </title><style>p{}</style></head><body><nav>Home</nav>\
             <main><h1>Tail race</h1><p>Water leaves the turbine &amp; flows on.</p></main><script>x()</script></body>",
        ),
    })
    .await;
    let output = fetch(&tool(&server, |_| {}), &format!("{}/old?q=1#top", server.base_url())).await.expect("a page");

    let url = format!("{}/new", server.base_url());
    assert!(output.text.starts_with(&format!("Title: The Race\nURL: {url}\n\n")), "{}", output.text);
    assert!(output.text.contains("Water leaves the turbine & flows on."), "{}", output.text);
    for markup in ["Home", "x()", "p{}", "<p>", "only its beginning"] {
        assert!(!output.text.contains(markup), "{markup} in {}", output.text);
    }
    let IngestText { title, uri, text } = output.ingest.expect("belongs into the knowledge base");
    assert_eq!((title.as_str(), uri), ("The Race", url));
    assert!(output.text.ends_with(&text), "{text}");

    let requests = server.requests();
    assert_eq!(requests.iter().map(|r| r.path.as_str()).collect::<Vec<_>>(), ["/old?q=1", "/new"]);
    for request in &requests {
        assert_eq!(request.method, "GET");
        assert!(request.header("user-agent").is_some_and(|agent| agent.starts_with("Tailrace/")));
        for carrier in ["cookie", "referer", "authorization", "origin"] {
            assert_eq!(request.header(carrier), None, "{carrier}");
        }
    }
}

#[tokio::test]
async fn a_page_is_read_only_if_its_type_can_be() {
    let types = [
        ("text/html", true),
        ("TEXT/HTML; Charset=UTF-8", true),
        ("text/plain", true),
        ("text/markdown", true),
        ("application/xhtml+xml", true),
        ("application/json", true),
        ("application/ld+json; charset=utf-8", true),
        ("application/xml", true),
        ("application/atom+xml", true),
        ("image/png", false),
        ("image/svg+xml", false),
        ("application/pdf", true),
        ("application/octet-stream", false),
        ("application/zip", false),
        ("video/mp4", false),
        ("multipart/x-mixed-replace", false),
        ("application/x-ignore <tool name=\"x\"/>", false),
        ("", false),
    ];
    let server = Upstream::answering(move |n, _| Script::body(200, types[n].0, "Plain words.")).await;
    let tool = tool(&server, |options| options.cache_ttl = Duration::ZERO);
    for (content_type, readable) in types {
        let read = fetch(&tool, server.base_url()).await;
        assert_eq!(read.is_ok(), readable, "{content_type}: {read:?}");
        if let Err(error) = read {
            let essence = content_type.split([';', ' ']).next().unwrap();
            assert!(error.to_string().contains(essence), "{content_type}: {error}");
            assert!(!error.to_string().contains('<'), "a type is repeated as markup: {error}");
        }
    }
}

#[tokio::test]
async fn a_declared_charset_is_obeyed_and_binary_is_refused_whatever_it_says_it_is() {
    let server = Upstream::answering(|_, request| match request.path.as_str() {
        "/latin" => Script::body(200, "text/html; charset=windows-1252", b"<p>Gr\xfc\xdfe \x80</p>".to_vec()),
        "/kana" => Script::body(200, "text/plain; charset=shift_jis", b"\x83e\x83X\x83g".to_vec()),
        "/bare" => Script { status: 200, headers: vec![], steps: vec![Step::Send(b"No type at all.".to_vec())] },
        "/empty" => Script::body(200, "text/html", "<html><body><script>1</script></body></html>"),
        _ => Script::body(200, "text/plain", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x01\0".to_vec()),
    })
    .await;
    let tool = tool(&server, |_| {});
    let read = async |path: &str| fetch(&tool, &format!("{}{path}", server.base_url())).await;
    assert!(read("/latin").await.expect("a page").text.ends_with("Gr\u{fc}\u{df}e \u{20ac}"));
    assert!(read("/kana").await.expect("a page").text.ends_with("\u{30c6}\u{30b9}\u{30c8}"));
    assert!(read("/bare").await.expect("a page").text.ends_with("No type at all."));
    for path in ["/empty", "/binary"] {
        let error = read(path).await.expect_err(path).to_string();
        assert!(error.starts_with("the page cannot be read: "), "{path}: {error}");
    }
}

#[tokio::test]
async fn a_large_page_is_cut_and_says_so() {
    // Four bytes a character, so that both caps fall inside one.
    let line = "\u{1f30a}".repeat(1000);
    let server = Upstream::answering(move |_, _| {
        let mut steps = vec![Step::Send(line.clone().into_bytes()); 200];
        steps.push(Step::Hang);
        Script { status: 200, headers: vec![("content-type".into(), "text/plain; charset=utf-8".into())], steps }
    })
    .await;
    for (max_bytes, max_text_bytes) in [(100_002, 1 << 20), (1 << 19, 50_002)] {
        let tool = tool(&server, |options| {
            *options = FetchUrlOptions { max_bytes, max_text_bytes, ..options.clone() };
        });
        let output = fetch(&tool, server.base_url()).await.expect("the beginning");
        let kept = output.ingest.expect("kept").text;
        let cap = max_bytes.min(max_text_bytes);
        assert!((cap - 8..=cap).contains(&kept.trim_end_matches('\u{fffd}').len()), "{} of {cap}", kept.len());
        assert!(output.text.ends_with("[The page is longer: this is its beginning.]"));
        assert!(!kept.contains("[The page"), "the note is not the page's text");
    }
    // It goes on for ever: the client must leave.
    server.left(0).await;
    server.left(1).await;
}

/// 16 MiB of text in 56 KiB: what counts is what it becomes.
#[tokio::test]
async fn a_decompression_bomb_is_cut_at_its_decompressed_size() {
    let bomb: &[u8] = include_bytes!("../../data/bomb.txt.gz");
    assert!(bomb.len() < 100_000);
    let server = Upstream::answering(move |_, request| {
        Script::body(200, "text/plain", bomb).header("content-encoding", &request.path[1..])
    })
    .await;
    let tool = tool(&server, |options| {
        (options.max_bytes, options.max_text_bytes) = (1 << 20, 4 << 20);
    });
    let output = fetch(&tool, &format!("{}/gzip", server.base_url())).await.expect("the beginning");
    let kept = output.ingest.expect("kept").text.len();
    assert!(((1 << 20) - 100..=1 << 20).contains(&kept), "{kept}");
    assert!(output.text.ends_with("[The page is longer: this is its beginning.]"));

    for (coding, cause) in [
        ("gzip,gzip", "compressed in a way that was not asked for"),
        ("zstd", "compressed in a way that was not asked for"),
        ("br", "answered nonsense"),
    ] {
        let error = fetch(&tool, &format!("{}/{coding}", server.base_url())).await.expect_err(coding).to_string();
        assert!(error.contains(cause), "{coding}: {error}");
    }
}

#[tokio::test]
async fn a_slow_server_is_left_after_the_timeout() {
    let server = Upstream::answering(|_, request| {
        let drip = || [Step::Send(b"drip ".to_vec()), Step::Sleep(Duration::from_millis(20))];
        let steps = match request.path.as_str() {
            "/mute" => vec![Step::Hang],
            "/head" => vec![Step::Head, Step::Hang],
            "/body" => vec![Step::Send(b"Some words".to_vec()), Step::Hang],
            _ => (0..1000).flat_map(|_| drip()).collect(),
        };
        Script { status: 200, headers: vec![("content-type".into(), "text/plain".into())], steps }
    })
    .await;
    let tool = tool(&server, |options| options.timeout = Duration::from_millis(150));
    for (n, path) in ["/mute", "/head", "/body", "/drip"].into_iter().enumerate() {
        let start = Instant::now();
        let error = fetch(&tool, &format!("{}{path}", server.base_url())).await.expect_err(path).to_string();
        assert_eq!(error, "the page took longer than 150ms", "{path}");
        assert!(start.elapsed() >= Duration::from_millis(150), "{path}");
        server.left(n).await;
    }
}

#[tokio::test]
async fn a_dropped_call_leaves_the_server() {
    let server = Upstream::answering(|_, _| Script::stream([Step::Head, Step::Hang])).await;
    let tool = tool(&server, |_| {});
    let (base, turn) = (server.base_url(), context());
    tokio::select! {
        read = call(&tool, base, &turn) => panic!("it hangs: {read:?}"),
        _ = server.request(0) => {}
    }
    server.left(0).await;
}

#[tokio::test]
async fn what_is_no_page_is_named() {
    let flood = |count: usize, bytes: usize| {
        (0..count).fold(page("x", "y"), |script, n| script.header(&format!("x-{n}"), &"v".repeat(bytes)))
    };
    let server = Upstream::answering(move |_, request| match request.path.as_str() {
        "/404" => Script { status: 404, ..page("Not found", "Nothing here.") },
        "/500" => Script { status: 500, ..page("Oops", "An error.") },
        "/300" => redirect(300, "/page"),
        "/304" => redirect(304, "/page"),
        "/302" => Script { status: 302, ..page("x", "y") },
        "/reset" => Script { steps: vec![Step::Head, Step::Reset], ..page("x", "y") },
        "/cut" => Script { steps: vec![Step::CutInChunk], ..page("x", "y") },
        "/many" => flood(200, 1),
        "/wide" => flood(60, 20_000),
        _ => page("x", "y"),
    })
    .await;
    let tool = tool(&server, |_| {});
    for (path, cause) in [
        ("/404", "the server answered 404 Not Found"),
        ("/500", "the server answered 500 Internal Server Error"),
        ("/300", "the server answered 300 Multiple Choices"),
        ("/304", "the server answered 304 Not Modified"),
        ("/302", "the server answered 302 Found without saying where"),
        ("/reset", "the server broke the connection off or answered nonsense"),
        ("/cut", "the server broke the connection off or answered nonsense"),
        ("/many", "the server broke the connection off or answered nonsense"),
        ("/wide", "the server broke the connection off or answered nonsense"),
    ] {
        let error = fetch(&tool, &format!("{}{path}", server.base_url())).await.expect_err(path).to_string();
        assert_eq!(error, cause, "{path}");
    }
    // It speaks no TLS, and nothing is read over less.
    let error = fetch(&tool, &server.base_url().replace("http:", "https:")).await.expect_err("no TLS").to_string();
    assert_eq!(error, "no connection to the server could be made");

    let gone = server.base_url().to_owned();
    drop(server);
    let error = fetch(&tool, &gone).await.expect_err("nobody listens").to_string();
    assert_eq!(error, "no connection to the server could be made");
}

#[tokio::test]
async fn a_page_is_remembered_and_a_failure_is_not() {
    let server = Upstream::answering(|n, request| match request.path.as_str() {
        "/flaky" if n == 0 => Script { status: 503, ..page("x", "y") },
        _ => page("Page", &format!("Answer {n}.")),
    })
    .await;
    let lasting = tool(&server, |_| {});
    let url = format!("{}/flaky", server.base_url());
    fetch(&lasting, &url).await.expect_err("503");
    let first = fetch(&lasting, &url).await.expect("a page");
    assert!(first.text.contains("Answer 1."), "{}", first.text);
    assert_eq!(fetch(&lasting, &format!("{url}#part")).await, Ok(first));
    assert_eq!(server.requests().len(), 2);
    // Another query is another page.
    fetch(&lasting, &format!("{url}?x")).await.expect("a page");
    assert_eq!(server.requests().len(), 3);
    // Two at once ask once.
    let twice = format!("{}/twice", server.base_url());
    let (one, two) = tokio::join!(fetch(&lasting, &twice), fetch(&lasting, &twice));
    assert_eq!(one, two);
    assert_eq!(server.requests().len(), 4);

    let forgetful = tool(&server, |options| options.cache_ttl = Duration::ZERO);
    for _ in 0..2 {
        fetch(&forgetful, &url).await.expect("a page");
    }
    assert_eq!(server.requests().len(), 6);
}

#[tokio::test]
async fn the_model_is_told_what_the_tool_takes() {
    let server = Upstream::start([]).await;
    let tool: Arc<dyn Tool> = Arc::new(tool(&server, |_| {}));
    let spec = tool.spec();
    assert_eq!((spec.name.as_str(), spec.side_effects), ("fetch_url", false));
    let schema = jsonschema::validator_for(&spec.parameters).expect("a schema");
    assert!(schema.is_valid(&serde_json::json!({"url": "https://example.org/"})));
    for wrong in [serde_json::json!({}), serde_json::json!({"url": 1}), serde_json::json!({"url": "x", "y": 1})] {
        assert!(!schema.is_valid(&wrong), "{wrong}");
    }
}
