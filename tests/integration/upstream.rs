//! A scripted provider: a real HTTP/1.1 server on port 0 that plays one [`Script`] per request and
//! notes what it was asked and when the client left. It is written on the socket, not on a server
//! library, because tests want answers that no server would send: cut inside a chunk, reset, late.
//!
//! Every wait ends after [`PATIENCE`]. Dropping an [`Upstream`] closes all its connections.

pub mod anthropic;
pub mod openai;

use serde_json::{Value, json};
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long a script, or a test that asks, waits for anything.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Something that happens once; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Signal(CancellationToken);

impl Signal {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn send(&self) {
        self.0.cancel();
    }

    pub async fn wait(&self) {
        tokio::time::timeout(PATIENCE, self.0.cancelled())
            .await
            .expect("a signal that a test waits for was never sent");
    }
}

/// What a script does next. The head goes out with the first bytes, or at [`Step::Head`].
#[derive(Clone, Debug)]
pub enum Step {
    /// Sends status line and headers, so that what follows is waiting inside the answer.
    Head,
    /// One HTTP chunk, in one write.
    Send(Vec<u8>),
    /// Lets the test know that the script has come this far.
    Tell(Signal),
    /// Goes on when the test says so.
    Wait(Signal),
    Sleep(Duration),
    /// Says nothing more until the client leaves.
    Hang,
    /// Announces a chunk and closes inside it.
    CutInChunk,
    /// Closes the connection hard: the client sees a reset.
    Reset,
}

/// One answer.
#[derive(Clone, Debug)]
pub struct Script {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub steps: Vec<Step>,
}

impl Script {
    /// Status 200 and an event stream of these steps.
    pub fn stream(steps: impl IntoIterator<Item = Step>) -> Self {
        let headers = vec![("content-type".into(), "text/event-stream".into())];
        Self { status: 200, headers, steps: steps.into_iter().collect() }
    }

    /// A status with a JSON body, as errors come.
    pub fn json(status: u16, body: &Value) -> Self {
        Self::body(status, "application/json", body.to_string())
    }

    pub fn body(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: vec![("content-type".into(), content_type.into())],
            steps: vec![Step::Send(body.into())],
        }
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }
}

/// What the server was asked.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The body as JSON; `Null` if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

/// How the answer to one request went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Served {
    /// Bytes of body that were written.
    pub bytes: usize,
    /// When the client closed its side.
    pub left: Option<Instant>,
    /// Bytes of body that could still be written after that.
    pub bytes_after_left: usize,
    /// The script came to its end.
    pub finished: bool,
    /// Nothing more will be written: the script has ended, or the connection has.
    pub over: bool,
}

#[derive(Default)]
struct Log {
    connections: usize,
    requests: Vec<Request>,
    served: Vec<Served>,
}

type Choose = Box<dyn Fn(usize, &Request) -> Script + Send + Sync>;

struct Shared {
    log: Mutex<Log>,
    /// Counts changes of the log, for those who wait.
    changed: watch::Sender<u64>,
    choose: Choose,
}

impl Shared {
    fn note<T>(&self, note: impl FnOnce(&mut Log) -> T) -> T {
        let value = note(&mut self.log.lock().unwrap());
        self.changed.send_modify(|n| *n += 1);
        value
    }
}

pub struct Upstream {
    base_url: String,
    shared: Arc<Shared>,
    /// Owns the accepting task, and through it every connection.
    _tasks: JoinSet<()>,
}

impl Upstream {
    /// Plays the scripts in the order in which requests come; what comes later is answered with 500.
    pub async fn start(scripts: impl IntoIterator<Item = Script>) -> Self {
        let scripts: Vec<Script> = scripts.into_iter().collect();
        Self::answering(move |n, _| {
            let none = || Script::json(500, &json!({"error": {"message": format!("no script for request {n}")}}));
            scripts.get(n).cloned().unwrap_or_else(none)
        })
        .await
    }

    /// Plays what `choose` makes of the request and its number, from 0.
    pub async fn answering(choose: impl Fn(usize, &Request) -> Script + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}", listener.local_addr().unwrap());
        let shared =
            Arc::new(Shared { log: Mutex::default(), changed: watch::Sender::new(0), choose: Box::new(choose) });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, shared.clone()));
        Self { base_url, shared, _tasks: tasks }
    }

    /// `http://127.0.0.1:PORT`, without `/v1`.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.log.lock().unwrap().requests.clone()
    }

    /// How many connections clients have opened.
    pub fn connections(&self) -> usize {
        self.shared.log.lock().unwrap().connections
    }

    /// How request `n` is going.
    pub fn served(&self, n: usize) -> Served {
        self.shared.log.lock().unwrap().served.get(n).copied().unwrap_or_default()
    }

    /// Waits until the client of request `n` has closed its side, and says how it went until then.
    pub async fn left(&self, n: usize) -> Served {
        self.until(|| Some(self.served(n)).filter(|served| served.left.is_some())).await
    }

    /// Waits until request `n` is there.
    pub async fn request(&self, n: usize) -> Request {
        self.until(|| self.requests().into_iter().nth(n)).await
    }

    /// Waits until nothing more will be written for request `n`, and says how it went.
    pub async fn over(&self, n: usize) -> Served {
        self.until(|| Some(self.served(n)).filter(|served| served.over)).await
    }

    async fn until<T>(&self, ready: impl Fn() -> Option<T>) -> T {
        let mut changed = self.shared.changed.subscribe();
        let wait = async {
            loop {
                changed.borrow_and_update();
                if let Some(value) = ready() {
                    return value;
                }
                changed.changed().await.unwrap();
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.expect("the upstream was never asked, left or done")
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { return };
                shared.note(|log| log.connections += 1);
                connections.spawn(connection(stream, shared.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    stream.set_nodelay(true).unwrap();
    let (mut read, mut write) = stream.into_split();
    let mut unread = Vec::new();
    while let Ok(Some(request)) = read_request(&mut read, &mut unread).await {
        let n = shared.note(|log| {
            log.requests.push(request.clone());
            log.served.push(Served::default());
            log.requests.len() - 1
        });
        let script = (shared.choose)(n, &request);
        let more = play(&script, n, &shared, &mut read, &mut write).await;
        shared.note(|log| log.served[n].over = true);
        if !more {
            return;
        }
    }
}

/// Whether the connection can take another request.
async fn play(
    script: &Script,
    n: usize,
    shared: &Shared,
    read: &mut OwnedReadHalf,
    write: &mut OwnedWriteHalf,
) -> bool {
    let mut headed = false;
    for step in script.steps.iter().map(Some).chain([None]) {
        let frame = match step {
            Some(Step::Tell(signal)) => {
                signal.send();
                continue;
            }
            Some(Step::Wait(signal)) => {
                watched(signal.wait(), n, shared, read).await;
                continue;
            }
            Some(Step::Sleep(time)) => {
                watched(tokio::time::sleep(*time), n, shared, read).await;
                continue;
            }
            Some(Step::Hang) => {
                let mut changed = shared.changed.subscribe();
                let left = changed.wait_for(|_| shared.log.lock().unwrap().served[n].left.is_some());
                let _ = watched(tokio::time::timeout(PATIENCE, left), n, shared, read).await;
                return false;
            }
            Some(Step::Reset) => {
                let _ = write.as_ref().set_zero_linger();
                return false;
            }
            Some(Step::Head) => Vec::new(),
            Some(Step::Send(bytes)) => [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat(),
            Some(Step::CutInChunk) => b"40\r\ndata: ".to_vec(),
            None => b"0\r\n\r\n".to_vec(),
        };
        let head = if std::mem::replace(&mut headed, true) { Vec::new() } else { head(script) };
        let all = [head, frame].concat();
        if watched(write.write_all(&all), n, shared, read).await.is_err() {
            return false;
        }
        shared.note(|log| {
            let served = &mut log.served[n];
            let bytes = if let Some(Step::Send(bytes)) = step { bytes.len() } else { 0 };
            served.bytes += bytes;
            served.bytes_after_left += if served.left.is_some() { bytes } else { 0 };
            served.finished = step.is_none();
        });
        if matches!(step, Some(Step::CutInChunk)) {
            return false;
        }
    }
    true
}

/// Does `work` and notes meanwhile when the client leaves.
async fn watched<T>(work: impl Future<Output = T>, n: usize, shared: &Shared, read: &mut OwnedReadHalf) -> T {
    let mut work = pin!(work);
    let mut nothing = [0; 64];
    loop {
        let left = shared.log.lock().unwrap().served[n].left.is_some();
        tokio::select! {
            done = &mut work => return done,
            got = read.read(&mut nothing), if !left => {
                assert!(!matches!(got, Ok(1..)), "the client pipelines requests");
                shared.note(|log| log.served[n].left = Some(Instant::now()));
            }
        }
    }
}

fn head(script: &Script) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {} Scripted\r\ntransfer-encoding: chunked\r\n", script.status);
    for (name, value) in &script.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    head.into_bytes()
}

/// The next request, or `None` when the client has no more. Bodies come with their length.
async fn read_request(read: &mut OwnedReadHalf, unread: &mut Vec<u8>) -> io::Result<Option<Request>> {
    let end = loop {
        if let Some(at) = unread.windows(4).position(|w| w == b"\r\n\r\n") {
            break at + 4;
        }
        if read.read_buf(unread).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&unread[..end]).into_owned();
    let mut lines = head.lines();
    let mut first = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
    let (method, path) = (first.next().unwrap_or_default(), first.next().unwrap_or_default());
    let headers: Vec<(String, String)> =
        lines.filter_map(|line| line.split_once(": ")).map(|(name, value)| (name.into(), value.into())).collect();
    let length = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length: usize = length.map_or(0, |(_, value)| value.parse().unwrap());
    while unread.len() < end + length {
        if read.read_buf(unread).await? == 0 {
            return Ok(None);
        }
    }
    let body = String::from_utf8(unread[end..end + length].to_vec()).unwrap();
    unread.drain(..end + length);
    Ok(Some(Request { method, path, headers, body }))
}

/// One event of a stream: its name, if any, and its data.
pub fn event(name: &str, data: &str) -> Step {
    let name = if name.is_empty() { String::new() } else { format!("event: {name}\n") };
    Step::Send(format!("{name}data: {data}\n\n").into_bytes())
}
