//! The guard against its table of hostile URLs, and the laws that no table can hold.

use super::*;
use proptest::prelude::*;

/// The table's port is open, so that only the rules on schemes, hosts and addresses can refuse.
fn portless() -> AddressGuard {
    AddressGuard::new(Vec::new(), vec![80, 443, 8099])
}

fn judge(guard: &AddressGuard, text: &str) -> Result<Target, Refusal> {
    parse(text).and_then(|url| guard.check_url(&url))
}

/// The integration test sends the same table through the whole tool; here each row meets its own rule.
#[test]
fn hostile_urls_are_refused_by_the_rule_that_is_meant() {
    let guard = portless();
    let strict = AddressGuard::new(Vec::new(), DEFAULT_PORTS.to_vec());
    for line in include_str!("../../../tests/data/ssrf.tsv").lines().filter(|line| !line.starts_with('#')) {
        let [url, rule, answer] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let url = [
            ("{port}", "8099"),
            ("{nul}", "\0"),
            ("{soh}", "\u{1}"),
            ("{nbsp}", "\u{a0}"),
            ("{zwsp}", "\u{200b}"),
            ("{shy}", "\u{ad}"),
        ]
        .into_iter()
        .fold(url.to_owned(), |url, (name, text)| url.replace(name, text));
        let refusal = match judge(&guard, &url) {
            Ok(target) => {
                let answer: Vec<IpAddr> = answer.split(' ').filter_map(|ip| ip.parse().ok()).collect();
                assert_eq!(rule, "dns", "{url} reached {target:?}");
                assert!(!answer.is_empty(), "{url} needs a scripted answer");
                guard.check_addresses(&target, &answer).expect_err(&url);
                continue;
            }
            Err(refusal) => refusal,
        };
        let met = match refusal {
            Refusal::Invalid | Refusal::TooLong => "invalid",
            Refusal::Scheme => "scheme",
            Refusal::UserInfo => "userinfo",
            Refusal::HostName => "name",
            Refusal::Address => "address",
            Refusal::Port(_) => "port",
        };
        assert_eq!(met, rule, "{url}");
        judge(&strict, &url).expect_err(&url);
    }
}

#[test]
fn public_hosts_on_their_usual_ports_pass() {
    let guard = AddressGuard::new(Vec::new(), DEFAULT_PORTS.to_vec());
    for url in [
        "http://example.org",
        "https://example.org./a?b=c#d",
        "https://b\u{fc}cher.example/",
        "http://example.org:443/",
        "https://1.1.1.1/",
        "http://[2606:4700:4700::1111]/",
        "http://home.example.org/",
        "http://notlocal.example/",
        "http://172.15.255.255/",
        "http://172.32.0.0/",
        "http://100.128.0.0/",
    ] {
        let target = judge(&guard, url).unwrap_or_else(|refusal| panic!("{url}: {refusal}"));
        assert!(!target.allowed);
    }
    assert_eq!(judge(&guard, "http://example.org:8080/"), Err(Refusal::Port(8080)));
}

#[test]
fn an_allowed_entry_opens_exactly_its_host_and_port() {
    let entries = ["127.1:8080", "[::1]:80", "Wiki.LAN:443", "b\u{fc}cher.lan:80"];
    let entries = entries.map(|entry| entry.parse().expect(entry)).to_vec();
    let guard = AddressGuard::new(entries, DEFAULT_PORTS.to_vec());
    for (url, allowed) in [
        ("http://127.0.0.1:8080/x", true),
        ("http://0x7f.1:8080/", true),
        ("https://127.0.0.1:8080/", true),
        ("http://[0:0::1]/", true),
        ("https://wiki.lan/", true),
        ("https://wiki.lan./", true),
        ("http://xn--bcher-kva.lan/", true),
        ("http://127.0.0.1:8081/", false),
        ("http://127.0.0.2:8080/", false),
        ("http://localhost:8080/", false),
        ("http://[::ffff:127.0.0.1]:8080/", false),
        ("http://wiki.lan/", false),
        ("http://a.wiki.lan:443/", false),
        ("http://user@127.0.0.1:8080/", false),
        ("ftp://127.0.0.1:8080/", false),
    ] {
        assert_eq!(judge(&guard, url).is_ok_and(|target| target.allowed), allowed, "{url}");
    }
    let target = judge(&guard, "https://wiki.lan/").expect("allowed");
    assert_eq!(guard.check_addresses(&target, &[IpAddr::from([10, 0, 0, 7])]), Ok(()));
}

#[test]
fn an_entry_is_a_host_and_a_port() {
    for entry in ["", "a", "a:", ":80", "a:0", "a:65536", "a:+8", "a b:80", "u@a:80", "a/b:80", "a:1:80", "::1:80"] {
        assert!(entry.parse::<HostPort>().is_err(), "{entry}");
    }
    for (entry, shown) in [("A.example:80", "a.example:80"), ("[0::1]:8080", "[::1]:8080"), ("127.1:9", "127.0.0.1:9")]
    {
        assert_eq!(entry.parse::<HostPort>().map(|entry| entry.to_string()), Ok(shown.to_owned()));
    }
}

#[test]
fn one_bad_address_or_none_at_all_refuses_the_name() {
    let guard = portless();
    let target = judge(&guard, "http://example.org/").expect("a public name");
    let public: IpAddr = [93, 184, 216, 34].into();
    assert_eq!(guard.check_addresses(&target, &[public]), Ok(()));
    assert_eq!(guard.check_addresses(&target, &[public, [127, 0, 0, 1].into()]), Err(Refusal::Address));
    assert_eq!(guard.check_addresses(&target, &[]), Err(Refusal::Address));
}

#[test]
fn a_redirect_is_read_like_a_url() {
    let base = parse("https://example.org/a/b").expect("valid");
    assert_eq!(join(&base, "../c").map(String::from), Ok("https://example.org/c".to_owned()));
    assert_eq!(join(&base, "//127.0.0.1/").map(String::from), Ok("https://127.0.0.1/".to_owned()));
    assert_eq!(join(&base, "/\\127.0.0.1/"), Err(Refusal::Invalid));
    assert_eq!(join(&base, "http://a\tb/"), Err(Refusal::Invalid));
}

/// Every spelling of an IPv4 address that a URL parser or a C library has been seen to read.
fn spellings(ip: Ipv4Addr) -> Vec<String> {
    let [a, b, c, d] = ip.octets();
    let n = u32::from(ip);
    let (low16, low24) = (n & 0xffff, n & 0xff_ffff);
    let (high, low) = (n >> 16, low16);
    vec![
        ip.to_string(),
        format!("{ip}."),
        format!("{n}"),
        format!("{n:#x}"),
        format!("0{n:o}"),
        format!("{a}.{low24}"),
        format!("{a}.{b}.{low16}"),
        format!("{a:#x}.{b:#x}.{c:#x}.{d:#x}"),
        format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
        format!("0x{a:02X}.{b}.0{c:o}.{d}"),
        ip.to_string().chars().map(|c| format!("%{:02x}", u32::from(c))).collect(),
        ip.to_string().replace('.', "\u{3002}"),
        ip.to_string().chars().map(|c| char::from_u32(u32::from(c) + 0xfee0).unwrap_or(c)).collect(),
        format!("[::ffff:{ip}]"),
        format!("[::ffff:{high:x}:{low:x}]"),
        format!("[::{ip}]"),
        format!("[64:ff9b::{ip}]"),
        format!("[64:ff9b:1::{ip}]"),
        format!("[2002:{high:x}:{low:x}::1]"),
        format!("[2001:0:4136:e378:8000:63bf:{:x}:{:x}]", !high & 0xffff, !low & 0xffff),
        format!("[2606:4700::5efe:{ip}]"),
        format!("[2606:4700::200:5efe:{ip}]"),
    ]
}

proptest! {
    #[test]
    fn no_closed_ipv4_address_passes_in_any_spelling(net in 0..CLOSED_V4.len(), bits: u32, scheme in "https?") {
        let net = CLOSED_V4[net];
        let ip = Ipv4Addr::from(u32::from(net.network()) | (bits & u32::from(net.hostmask())));
        prop_assert!(!is_public(ip.into()) && !is_public(ip.to_ipv6_mapped().into()));
        for host in spellings(ip) {
            let verdict = judge(&portless(), &format!("{scheme}://{host}/"));
            prop_assert!(verdict.is_err(), "{host}: {verdict:?}");
        }
    }

    #[test]
    fn nothing_outside_the_global_space_is_public(bits: u128) {
        let ip = Ipv6Addr::from(bits);
        prop_assert!(!is_public(ip.into()) || ip.segments()[0] >> 13 == 1);
    }

    #[test]
    fn reading_and_judging_never_panics(text in "(https?:)?/{0,3}(\\PC|[0-9a-fx.:@%\\[\\]]){0,40}") {
        let _ = judge(&portless(), &text);
    }
}
