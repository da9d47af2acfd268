//! Where `fetch_url` may connect: the rules on URLs, host names, ports and addresses.
//! Pure; what it approves is what is fetched, because both read the same parsed [`Url`].
//!
//! Invariant: a target that is not in `allow_hosts` has passed [`is_public`] for every address that
//! is connected to, however the address was written and whoever named it (model, redirect or DNS).

use ipnet::{Ipv4Net, Ipv6Net};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use url::{Host, Url};

/// Ports that need no entry in `allow_hosts`.
pub const DEFAULT_PORTS: [u16; 2] = [80, 443];

/// Longest URL that is looked at, in bytes.
pub const MAX_URL_BYTES: usize = 2048;

/// Why a URL is not fetched, in words for the model. Never names an address that DNS gave.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("this is not a valid absolute URL")]
    Invalid,
    #[error("the URL is longer than {MAX_URL_BYTES} bytes")]
    TooLong,
    #[error("only http and https URLs can be fetched")]
    Scheme,
    #[error("a URL with a user name or password is not fetched")]
    UserInfo,
    #[error("this host name is local or reserved")]
    HostName,
    #[error("port {0} is not allowed")]
    Port(u16),
    #[error("the host has no address on the public internet")]
    Address,
}

/// A host and port that the operator lets through, whatever its address: `wiki.lan:8080`, `[::1]:80`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    host: Host<String>,
    port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not of the form host:port")]
pub struct HostPortError(String);

impl FromStr for HostPort {
    type Err = HostPortError;

    /// Reads the host with the URL parser, so that an entry and a URL name the same host alike.
    fn from_str(entry: &str) -> Result<Self, HostPortError> {
        let error = || HostPortError(entry.to_owned());
        let (host, port) = entry.rsplit_once(':').ok_or_else(error)?;
        if !port.bytes().all(|b| b.is_ascii_digit()) || host.contains(['/', '?', '#', '@', '\\']) {
            return Err(error());
        }
        let port = port.parse().map_err(|_| error())?;
        let url = Url::parse(&format!("http://{host}/")).map_err(|_| error())?;
        match (normal_host(&url), url.port()) {
            (Some(host), None) if port != 0 => Ok(Self { host, port }),
            _ => Err(error()),
        }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Reads a URL. Backslashes, white space and control characters, which parsers disagree about,
/// are refused instead of being repaired.
pub fn parse(text: &str) -> Result<Url, Refusal> {
    read(text, Url::parse)
}

/// Reads a redirect's `Location`, relative to the page that sent it.
pub fn join(base: &Url, location: &str) -> Result<Url, Refusal> {
    read(location, |text| base.join(text))
}

fn read(text: &str, parse: impl Fn(&str) -> Result<Url, url::ParseError>) -> Result<Url, Refusal> {
    let text = text.trim();
    if text.len() > MAX_URL_BYTES {
        return Err(Refusal::TooLong);
    }
    if text.chars().any(|c| c == '\\' || c.is_whitespace() || c.is_control()) {
        return Err(Refusal::Invalid);
    }
    parse(text).map_err(|_| Refusal::Invalid)
}

/// The host in one spelling: the root's dot, which names the same host, is dropped.
fn normal_host(url: &Url) -> Option<Host<String>> {
    match url.host()? {
        Host::Domain(name) => Some(Host::Domain(name.strip_suffix('.').unwrap_or(name).to_owned())),
        Host::Ipv4(ip) => Some(Host::Ipv4(ip)),
        Host::Ipv6(ip) => Some(Host::Ipv6(ip)),
    }
}

/// A URL's host and port after the rules that need no DNS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub host: Host<String>,
    pub port: u16,
    /// Whether `allow_hosts` names it; then its addresses are not judged.
    pub allowed: bool,
}

/// The rules, with what the operator has set.
#[derive(Clone, Debug)]
pub struct AddressGuard {
    allow_hosts: Vec<HostPort>,
    ports: Vec<u16>,
}

impl AddressGuard {
    /// `ports`: what hosts outside `allow_hosts` may be asked on, usually [`DEFAULT_PORTS`].
    pub fn new(allow_hosts: Vec<HostPort>, ports: Vec<u16>) -> Self {
        Self { allow_hosts, ports }
    }

    /// Judges all that a URL says itself. An address written as the host is judged here, a name's
    /// addresses by [`check_addresses`](Self::check_addresses) once they are known.
    pub fn check_url(&self, url: &Url) -> Result<Target, Refusal> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refusal::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refusal::UserInfo);
        }
        let host = normal_host(url).ok_or(Refusal::Invalid)?;
        let port = url.port_or_known_default().ok_or(Refusal::Invalid)?;
        let allowed = self.allow_hosts.iter().any(|entry| entry.port == port && entry.host == host);
        if !allowed {
            match &host {
                Host::Domain(name) if is_local_name(name) => return Err(Refusal::HostName),
                Host::Ipv4(ip) if !is_public_v4(*ip) => return Err(Refusal::Address),
                Host::Ipv6(ip) if !is_public_v6(*ip) => return Err(Refusal::Address),
                Host::Domain(_) | Host::Ipv4(_) | Host::Ipv6(_) => {}
            }
            if !self.ports.contains(&port) {
                return Err(Refusal::Port(port));
            }
        }
        Ok(Target { host, port, allowed })
    }

    /// Judges what DNS said of a target's name. One bad address refuses all of them: a public name
    /// that also points inside is a mistake or an attack, and its good half is not worth the risk.
    pub fn check_addresses(&self, target: &Target, addresses: &[IpAddr]) -> Result<(), Refusal> {
        let public = !addresses.is_empty() && addresses.iter().all(|ip| is_public(*ip));
        if target.allowed || public { Ok(()) } else { Err(Refusal::Address) }
    }
}

/// Last labels (or names) that never leave a site, and names at which clouds serve credentials.
const LOCAL_SUFFIXES: &[&str] = &[
    "localhost",
    "localdomain",
    "local",
    "internal",
    "intranet",
    "private",
    "corp",
    "home",
    "lan",
    "home.arpa",
    "ipv4only.arpa",
    "invalid",
    "test",
    "onion",
    "alt",
    "metadata.goog",
    "metadata.azure.com",
    "metadata.packet.net",
    "metadata.platformequinix.com",
    "metadata.tencentyun.com",
    "metadata.oraclecloud.com",
    "instance-data.ec2.amazonaws.com",
];

/// A name that only a local resolver could answer. `name` is lower case and without the root's dot,
/// as the URL parser gives it. A single label (`metadata`, `instance-data`, `db`) is always local.
fn is_local_name(name: &str) -> bool {
    !name.contains('.')
        || LOCAL_SUFFIXES
            .iter()
            .any(|suffix| name.strip_suffix(suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

/// Whether an address is one host on the public internet. In doubt it is not.
pub fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

const fn v4(a: u8, b: u8, c: u8, d: u8, length: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), length)
}

const fn v6(first: u16, second: u16, third: u16, length: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(first, second, third, 0, 0, 0, 0, 0), length)
}

/// IANA's special-purpose IPv4 registry, and one address that a cloud keeps for its own agents.
const CLOSED_V4: &[Ipv4Net] = &[
    v4(0, 0, 0, 0, 8),        // this network
    v4(10, 0, 0, 0, 8),       // private
    v4(100, 64, 0, 0, 10),    // carrier-grade NAT; also one cloud's metadata
    v4(127, 0, 0, 0, 8),      // loopback
    v4(168, 63, 129, 16, 32), // Azure's host agent, reachable from any of its machines
    v4(169, 254, 0, 0, 16),   // link-local, metadata
    v4(172, 16, 0, 0, 12),    // private
    v4(192, 0, 0, 0, 24),     // protocol assignments, DS-Lite, NAT64 discovery
    v4(192, 0, 2, 0, 24),     // documentation
    v4(192, 88, 99, 0, 24),   // 6to4 relays
    v4(192, 168, 0, 0, 16),   // private
    v4(198, 18, 0, 0, 15),    // benchmarking
    v4(198, 51, 100, 0, 24),  // documentation
    v4(203, 0, 113, 0, 24),   // documentation
    v4(224, 0, 0, 0, 4),      // multicast
    v4(240, 0, 0, 0, 4),      // reserved, broadcast
];

fn is_public_v4(ip: Ipv4Addr) -> bool {
    !CLOSED_V4.iter().any(|net| net.contains(&ip))
}

/// The only IPv6 space in which public hosts live. Everything outside is closed by not being in it:
/// `::`, `::1`, v4-mapped, v4-compatible, NAT64 (64:ff9b::/96 and 64:ff9b:1::/48), discard, unique
/// local (fc00::/7), link-local (fe80::/10), site-local (fec0::/10), multicast, segment routing.
const GLOBAL_V6: Ipv6Net = v6(0x2000, 0, 0, 3);

/// What is special inside the global space.
const CLOSED_V6: &[Ipv6Net] = &[
    v6(0x2001, 0, 0, 23),     // protocol assignments: Teredo, benchmarking, ORCHID, ORCHIDv2
    v6(0x2001, 0xdb8, 0, 32), // documentation
    v6(0x2002, 0, 0, 16),     // 6to4: carries an IPv4 address
    v6(0x3ffe, 0, 0, 16),     // 6bone, returned
    v6(0x3fff, 0, 0, 20),     // documentation
];

fn is_public_v6(ip: Ipv6Addr) -> bool {
    GLOBAL_V6.contains(&ip) && !CLOSED_V6.iter().any(|net| net.contains(&ip)) && !carries_closed_v4(ip)
}

/// ISATAP may stand under any prefix: `…:0:5efe:a.b.c.d`, which ends at that IPv4 address.
fn carries_closed_v4(ip: Ipv6Addr) -> bool {
    let [.., universal, marker, high, low] = ip.segments();
    let embedded = Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    marker == 0x5efe && universal & !0x0300 == 0 && !is_public_v4(embedded)
}

#[cfg(test)]
mod tests;
