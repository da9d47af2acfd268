//! Where `fetch_url` must not go, whoever says so: the model, a redirect, DNS.

use super::{Canary, Names, call, context, fetch, page, redirect, tool};
use crate::upstream::Upstream;
use std::net::{IpAddr, Ipv6Addr};
use tailrace::config::Urls;
use tailrace::tools::address_guard::{AddressGuard, DEFAULT_PORTS, parse};
use tailrace::tools::fetch_url::{FetchUrl, FetchUrlOptions};
use tokio::net::TcpListener;

/// The table's URLs for this canary, with what DNS answers. The unit test of the guard says which
/// rule meets which.
fn table(port: u16) -> Vec<(String, Vec<&'static str>)> {
    let marks = [
        ("{port}", port.to_string()),
        ("{nul}", "\0".into()),
        ("{soh}", "\u{1}".into()),
        ("{nbsp}", "\u{a0}".into()),
        ("{zwsp}", "\u{200b}".into()),
        ("{shy}", "\u{ad}".into()),
    ];
    let rows = include_str!("../../data/ssrf.tsv").lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| {
        let mut fields = line.split('\t');
        let url = marks.iter().fold(fields.next().unwrap().to_owned(), |url, (mark, text)| url.replace(mark, text));
        (url, fields.nth(1).unwrap().split(' ').filter(|ip| !ip.is_empty()).collect())
    })
    .collect()
}

/// Twice, because a closed port must not be what hides a hole in the rules on addresses. The rows that
/// end at the canary come first: if the wiring is broken, the test ends before it asks anybody else.
#[tokio::test]
async fn no_hostile_url_reaches_loopback_with_or_without_the_rule_on_ports() {
    let mut canary = Canary::start().await;
    let mut table = table(canary.port);
    assert!(table.len() >= 200, "the table was cut: {} rows", table.len());
    table.sort_by_key(|(url, _)| !url.contains(&canary.port.to_string()));
    for ports in [vec![80, 443, canary.port], DEFAULT_PORTS.to_vec()] {
        let guard = AddressGuard::new(Vec::new(), ports.clone());
        for (url, answer) in &table {
            let target = parse(url).and_then(|parsed| guard.check_url(&parsed));
            let answered: Vec<IpAddr> = answer.iter().map(|ip| ip.parse().unwrap()).collect();
            target.and_then(|target| guard.check_addresses(&target, &answered)).expect_err(url);

            let names = Names::answering(&[answer]);
            let options = FetchUrlOptions { urls: Urls::Any, ports: ports.clone(), ..FetchUrlOptions::default() };
            let error = fetch(&FetchUrl::new(options, names.lookup()), url).await.expect_err(url).to_string();
            assert!(error.starts_with("refused: ") || error.starts_with("the host has no address"), "{url}: {error}");
            assert!(names.asked() <= 1, "{url} was resolved {} times", names.asked());
            assert!(answer.iter().all(|ip| !error.contains(ip)), "{url} tells where it leads: {error}");
        }
    }
    canary.assert_unseen().await;
}

#[tokio::test]
async fn no_redirect_from_an_allowed_host_leads_inside() {
    let mut canary = Canary::start().await;
    let port = canary.port;
    let mut targets: Vec<String> = table(port).into_iter().map(|(url, _)| url).collect();
    // Relative to the server these are its own pages, or no redirects at all.
    targets.retain(|url| url.contains("://") && !url.contains(['\0', '\u{1}']) && url.contains(&format!(":{port}")));
    targets.push(format!("//127.0.0.1:{port}/"));
    targets.push(format!("\\\\127.0.0.1:{port}\\"));
    targets.push("http://169.254.169.254/latest/meta-data/iam/".into());
    targets.push("file:///etc/passwd".into());
    let locations = targets.clone();
    let server = Upstream::answering(move |_, request| {
        let (status, n) = request.path[1..].split_once('/').expect("/status/number");
        redirect(status.parse().unwrap(), &locations[n.parse::<usize>().unwrap()])
    })
    .await;
    let names = Names::answering(&[&["127.0.0.1"]]);
    let host = server.base_url().trim_start_matches("http://").parse().expect("host:port");
    let options = FetchUrlOptions {
        urls: Urls::Any,
        allow_hosts: vec![host],
        ports: vec![80, 443, port],
        ..FetchUrlOptions::default()
    };
    let tool = FetchUrl::new(options, names.lookup());
    for (n, target) in targets.iter().enumerate() {
        let status = [301, 302, 303, 307, 308][n % 5];
        let error = fetch(&tool, &format!("{}/{status}/{n}", server.base_url())).await.expect_err(target).to_string();
        assert!(
            error.starts_with("the page redirects to where nothing is fetched: ")
                || error.starts_with("the host has no address"),
            "{status} to {target}: {error}"
        );
    }
    assert_eq!(server.requests().len(), targets.len());
    canary.assert_unseen().await;
}

#[tokio::test]
async fn a_chain_may_have_five_redirects_and_each_is_judged() {
    let mut canary = Canary::start().await;
    let inside = format!("http://127.0.0.1:{}/", canary.port);
    let server = Upstream::answering(move |_, request| {
        let (goal, step) = request.path[1..].split_once('/').expect("/goal/step");
        let step: u32 = step.parse().unwrap();
        match (goal, step) {
            ("five", 5) => page("Arrived", "After five redirects."),
            ("inside", 4) => redirect(302, &inside),
            ("loop", _) => redirect(307, &request.path),
            _ => redirect([302, 307, 308][step as usize % 3], &format!("/{goal}/{}", step + 1)),
        }
    })
    .await;
    let tool = tool(&server, |_| {});
    let from = |goal: &str| format!("{}/{goal}/0", server.base_url());

    let arrived = fetch(&tool, &from("five")).await.expect("five are allowed");
    assert!(arrived.text.contains("After five redirects."), "{}", arrived.text);
    assert!(arrived.text.contains(&format!("URL: {}/five/5\n", server.base_url())), "{}", arrived.text);
    assert_eq!(server.requests().len(), 6);
    for (goal, cause) in
        [("six", "redirects more than 5 times"), ("loop", "redirects more than 5 times"), ("inside", "no address on")]
    {
        let error = fetch(&tool, &from(goal)).await.expect_err(goal).to_string();
        assert!(error.contains(cause), "{goal}: {error}");
    }
    assert_eq!(server.requests().len(), 6 + 6 + 6 + 5);
    canary.assert_unseen().await;
}

#[tokio::test]
async fn a_page_that_sends_browsers_on_is_only_read() {
    let mut canary = Canary::start().await;
    let inside = format!("http://127.0.0.1:{}/", canary.port);
    let server = Upstream::answering(move |_, _| {
        let html = format!(
            "<html><head><meta http-equiv=refresh content='0;url={inside}'><base href='{inside}'>\
             <link rel=stylesheet href='{inside}'></head><body><p>Just text.</p><img src='{inside}'>\
             <iframe src='{inside}'></iframe><script src='{inside}'></script></body></html>"
        );
        crate::upstream::Script::body(200, "text/html", html).header("refresh", &format!("0;url={inside}"))
    })
    .await;
    let read = fetch(&tool(&server, |_| {}), server.base_url()).await.expect("a page");
    assert!(read.text.contains("Just text."), "{}", read.text);
    assert_eq!(server.requests().len(), 1);
    canary.assert_unseen().await;
}

/// The first answer is what is connected to: a second question, which could be answered otherwise, is
/// not asked. Only an allowed name can show this without leaving the machine.
#[tokio::test]
async fn a_name_is_resolved_once_for_a_request_and_judged_anew_for_the_next() {
    let server = Upstream::answering(|_, _| page("First", "From the first address.")).await;
    let port: u16 = server.base_url().rsplit_once(':').unwrap().1.parse().unwrap();
    let Ok(other) = TcpListener::bind((Ipv6Addr::LOCALHOST, port)).await else { return };
    let mut canary = Canary::on([Ok(other)], port);

    let names = Names::answering(&[&["127.0.0.1"], &["::1"]]);
    let options = FetchUrlOptions {
        urls: Urls::Any,
        allow_hosts: vec![format!("flip.example:{port}").parse().expect("host:port")],
        ports: vec![80, port],
        ..FetchUrlOptions::default()
    };
    let tool = FetchUrl::new(options, names.lookup());
    let read = fetch(&tool, &format!("http://flip.example:{port}/")).await.expect("the first address answers");
    assert!(read.text.contains("From the first address."), "{}", read.text);
    assert_eq!(names.asked(), 1);

    let error = fetch(&tool, &format!("http://flop.example:{port}/")).await.expect_err("it points inside now");
    assert!(error.to_string().contains("no address on the public internet"), "{error}");
    assert_eq!(names.asked(), 2);
    // The server's own connection is not the canary's: that one listens on ::1 alone.
    let before = *canary.seen.borrow_and_update();
    assert_eq!(before, 0, "the second answer was connected to");
}

#[tokio::test]
async fn only_what_the_conversation_has_named_is_fetched() {
    let server = Upstream::answering(|_, request| match request.path.as_str() {
        "/out" => redirect(302, "http://elsewhere.example/?secret=1"),
        _ => page("Allowed", "On an allowed host."),
    })
    .await;
    let names = Names::default();
    let host = server.base_url().trim_start_matches("http://").parse().expect("host:port");
    let options = FetchUrlOptions { allow_hosts: vec![host], ..FetchUrlOptions::default() };
    let tool = FetchUrl::new(options, names.lookup());
    let turn = context();
    turn.seen_urls.add_text("What does [this](https://named.example/a?b=c#d) say?");

    for (url, cause) in [
        ("https://named.example/a?b=c", "the host name named.example was not found"),
        ("https://named.example/a?b=c#other", "the host name named.example was not found"),
        ("https://named.example/a?b=c&secret=1", "letter by letter"),
        ("https://named.example/a", "letter by letter"),
        ("https://secret.named.example/a?b=c", "letter by letter"),
        ("http://elsewhere.example/?secret=1", "letter by letter"),
    ] {
        let asked = names.asked();
        let error = call(&tool, url, &turn).await.expect_err(url).to_string();
        assert!(error.contains(cause), "{url}: {error}");
        let resolved = names.asked() - asked;
        assert_eq!(resolved, usize::from(cause.contains("not found")), "{url}: even a DNS question carries data out");
    }

    // The operator's host may be asked for anything, but it cannot send unnamed data on.
    let built = format!("{}/out", server.base_url());
    call(&tool, &format!("{}/x?y=z", server.base_url()), &turn).await.expect("an allowed host");
    let error = call(&tool, &built, &turn).await.expect_err("led out").to_string();
    assert!(error.contains("has not named"), "{error}");
    // Once the user has named it, it may lead where its server says.
    turn.seen_urls.add_text(&built);
    let error = call(&tool, &built, &turn).await.expect_err("no such name").to_string();
    assert!(error.contains("elsewhere.example was not found"), "{error}");
}
