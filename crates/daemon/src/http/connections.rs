use crate::keep::shared::lock;
use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use surefoot_hostfs::{Root, peer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, Sleep, sleep};

/// Connections at one time: twice the clients of the live events.
const CONNECTIONS_MAX: usize = 64;
/// Beyond those, only users are let in who have none: so that one who takes all of them does not keep a scraper out.
const CONNECTIONS_KEPT: usize = 16;
/// Connections of one user; a browser has six, and as many again for live events.
const CONNECTIONS_OF_USER_MAX: usize = 48;
/// Whoever finds no place is told so within this time.
const REFUSAL_TIME: Duration = Duration::from_secs(1);
/// Refusals that are being sent at one time; beyond, connections are closed without a word.
const REFUSALS_MAX: usize = 128;
/// What a client without a place is told.
const REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 5\r\n\
    Connection: close\r\nContent-Length: 57\r\n\r\n{\"error\":\"too many connections are open; try again soon\"}";
/// A connection over which nothing went for so long is cut. Longer than several heartbeats of the live
/// events, so that only a client that stopped reading, or that never sent its request, is hit.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(60);
/// A request, head and body, and the thinking about it take no longer than this in all.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);
/// A client may keep an answer waiting for so long in all; what it takes gives some of it back.
const STALLED_TIME_MAX: Duration = Duration::from_secs(20);
/// Bytes that give a second of that time back: the slowest client that is waited for.
const STALLED_BYTES_PER_S: u64 = 64 << 10;
/// After a failed accept, for want of file descriptors for instance.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer {
    /// The user; `None` where the kernel does not say.
    pub(crate) uid: Option<u32>,
    /// The port here.
    pub(crate) port: u16,
}

impl Connected<IncomingStream<'_, BoundedListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, BoundedListener>) -> Self {
        *stream.remote_addr()
    }
}

/// Connections that are open, by user.
type Users = Arc<Mutex<BTreeMap<Option<u32>, usize>>>;

/// How long clients may take; other than these in tests only.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) silence: Duration,
    pub(crate) request: Duration,
    pub(crate) stalled: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Times { silence: SILENCE_MAX, request: REQUEST_TIME_MAX, stalled: STALLED_TIME_MAX }
    }
}

/// A listener that knows who comes, and limits how many connections there are and how long a client may take.
pub(crate) struct BoundedListener {
    listener: TcpListener,
    users: Users,
    refusals: Arc<Semaphore>,
    root: Root,
    times: Times,
}

impl BoundedListener {
    pub(crate) fn new(listener: TcpListener, times: Times) -> Self {
        let refusals = Arc::new(Semaphore::new(REFUSALS_MAX));
        BoundedListener { listener, users: Users::default(), refusals, root: Root::host(), times }
    }

    /// A place for one more connection of this user, if there is one.
    fn place(&self, uid: Option<u32>) -> Option<Place> {
        let mut users = lock(&self.users);
        let all: usize = users.values().sum();
        let own = users.get(&uid).copied().unwrap_or(0);
        let has_room = all < CONNECTIONS_MAX && own < CONNECTIONS_OF_USER_MAX;
        let has_kept = own == 0 && all < CONNECTIONS_MAX + CONNECTIONS_KEPT;
        (has_room || has_kept).then(|| {
            *users.entry(uid).or_default() += 1;
            Place { uid, users: Arc::clone(&self.users) }
        })
    }

    /// Tells a client that there is no place for it, without waiting for it.
    fn refuse(&self, mut stream: TcpStream) {
        let Ok(permit) = Arc::clone(&self.refusals).try_acquire_owned() else { return };
        tokio::spawn(async move {
            let told = async {
                stream.writable().await.ok()?;
                stream.try_write(REFUSAL).ok()?;
                // What the client sent is taken first: closing with it unread would take the answer away again.
                let end = poll_fn(|context| Pin::new(&mut stream).poll_shutdown(context)).await;
                end.ok()?;
                let mut bytes = [0; 1024];
                while stream.readable().await.is_ok() {
                    match stream.try_read(&mut bytes) {
                        Ok(0) => break,
                        Err(error) if error.kind() != io::ErrorKind::WouldBlock => break,
                        _ => {}
                    }
                }
                Some(())
            };
            let _ = tokio::time::timeout(REFUSAL_TIME, told).await;
            drop(permit);
        });
    }
}

/// A connection's share of the limits, until it is dropped.
struct Place {
    uid: Option<u32>,
    users: Users,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut users = lock(&self.users);
        if let Some(count) = users.get_mut(&self.uid) {
            *count -= 1;
            if *count == 0 {
                users.remove(&self.uid);
            }
        }
    }
}

impl Listener for BoundedListener {
    type Io = Connection;
    type Addr = Peer;

    async fn accept(&mut self) -> (Connection, Peer) {
        loop {
            let Ok((stream, client)) = self.listener.accept().await else {
                sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let Ok(server) = stream.local_addr() else { continue };
            let uid = peer::user_of(&self.root, client, server);
            let Some(place) = self.place(uid) else {
                self.refuse(stream);
                continue;
            };
            // Small answers and events go out at once; without it they only come later.
            let _ = stream.set_nodelay(true);
            return (Connection::new(stream, self.times, place), Peer { uid, port: server.port() });
        }
    }

    fn local_addr(&self) -> io::Result<Peer> {
        Ok(Peer { uid: None, port: self.listener.local_addr()?.port() })
    }
}

/// One client.
pub(crate) struct Connection {
    stream: TcpStream,
    times: Times,
    /// Ends when the connection is cut, unless something happens before.
    alarm: Pin<Box<Sleep>>,
    /// When the request that is being read or answered must have its answer begun; `None` between requests.
    answer_by: Option<Instant>,
    /// Since when the client takes nothing of an answer.
    stalled_since: Option<Instant>,
    /// How long it has done so in all.
    stalled: Duration,
    _place: Place,
}

impl Connection {
    fn new(stream: TcpStream, times: Times, place: Place) -> Self {
        let answer_by = Some(Instant::now() + times.request);
        let alarm = Box::pin(sleep(times.silence.min(times.request)));
        Connection { stream, times, alarm, answer_by, stalled_since: None, stalled: Duration::ZERO, _place: place }
    }

    /// Something went over the connection: its silence begins anew, other times go on.
    fn heard(&mut self) {
        let silent = Instant::now() + self.times.silence;
        let end = self.answer_by.map_or(silent, |by| by.min(silent));
        self.alarm.as_mut().reset(end);
    }

    fn has_read(&mut self, count: usize) {
        if count > 0 && self.answer_by.is_none() {
            self.answer_by = Some(Instant::now() + self.times.request);
        }
        self.heard();
    }

    fn has_written(&mut self, count: usize) {
        self.answer_by = None;
        if let Some(since) = self.stalled_since.take() {
            self.stalled += since.elapsed();
        }
        let given_back = Duration::from_micros(count as u64 * 1_000_000 / STALLED_BYTES_PER_S);
        self.stalled = self.stalled.saturating_sub(given_back);
        self.heard();
    }

    /// The client takes nothing more for now.
    fn is_stalling(&mut self) {
        let since = *self.stalled_since.get_or_insert_with(Instant::now);
        let end = since + self.times.stalled.saturating_sub(self.stalled);
        if end < self.alarm.deadline() {
            self.alarm.as_mut().reset(end);
        }
    }

    /// Fails once the client took too long.
    fn check(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        ready!(self.alarm.as_mut().poll(context));
        Poll::Ready(io::Error::from(io::ErrorKind::TimedOut))
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut self.stream).poll_read(context, buffer) {
            Poll::Ready(result) => {
                self.has_read(buffer.filled().len() - before);
                // Whoever drips a byte now and then is never pending when its time is over.
                match self.answer_by.is_some_and(|by| by <= Instant::now()) {
                    true => Poll::Ready(Err(io::Error::from(io::ErrorKind::TimedOut))),
                    false => Poll::Ready(result),
                }
            }
            Poll::Pending => self.check(context).map(Err),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.stream).poll_write(context, bytes) {
            Poll::Ready(result) => {
                self.has_written(*result.as_ref().unwrap_or(&0));
                Poll::Ready(result)
            }
            Poll::Pending => {
                self.is_stalling();
                self.check(context).map(Err)
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<usize> {
        let mut bytes = [0; 16];
        let mut buffer = ReadBuf::new(&mut bytes);
        poll_fn(|context| Pin::new(&mut *stream).poll_read(context, &mut buffer)).await?;
        Ok(buffer.filled().len())
    }

    async fn write(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<usize> {
        poll_fn(|context| Pin::new(&mut *stream).poll_write(context, bytes)).await
    }

    fn times(silence: Duration, request: Duration, stalled: Duration) -> Times {
        Times { silence, request, stalled }
    }

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(100);

    fn run<F: Future<Output = ()>>(test: impl FnOnce() -> F) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { test().await });
    }

    /// Runs a client against a connection with these times.
    fn with_connection<F: Future<Output = ()>>(times: Times, test: impl FnOnce(Connection, TcpStream) -> F) {
        run(|| async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let client = TcpStream::connect(address).await.unwrap();
            let mut bounded = BoundedListener::new(listener, times);
            let (connection, peer) = bounded.accept().await;
            assert_eq!(peer, Peer { uid: Some(surefoot_hostfs::privilege::effective_user()), port: address.port() });
            assert_eq!(lock(&bounded.users).values().sum::<usize>(), 1);
            test(connection, client).await;
            assert!(lock(&bounded.users).is_empty(), "its place is free again");
        });
    }

    #[test]
    fn a_client_that_drips_its_request_is_cut_however_often_it_says_something() {
        with_connection(times(LONG, Duration::from_millis(300), LONG), |mut connection, mut client| async move {
            let error = loop {
                let _ = write(&mut client, b"G").await;
                if let Err(error) = read(&mut connection).await {
                    break error;
                }
                sleep(Duration::from_millis(10)).await;
            };
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        });
    }

    #[test]
    fn a_client_that_drips_an_answer_out_is_cut() {
        with_connection(times(LONG, LONG, Duration::from_millis(300)), |mut connection, mut client| async move {
            let error = loop {
                // It takes a little whenever the connection is full, and so is never silent.
                let mut piece =
                    Box::pin(poll_fn(|context| Pin::new(&mut connection).poll_write(context, &[0; 1 << 16])));
                let outcome = loop {
                    tokio::select! {
                        outcome = &mut piece => break outcome,
                        () = sleep(Duration::from_millis(5)) => {
                            let mut bytes = [0; 64];
                            let mut buffer = ReadBuf::new(&mut bytes);
                            let _ = poll_fn(|context| Poll::Ready(Pin::new(&mut client).poll_read(context, &mut buffer))).await;
                        }
                    }
                };
                if let Err(error) = outcome {
                    break error;
                }
            };
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        });
    }

    #[test]
    fn one_user_does_not_take_the_last_places() {
        run(|| async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let bounded = BoundedListener::new(listener, Times::default());
            let of_one: Vec<Place> = std::iter::from_fn(|| bounded.place(Some(1))).collect();
            assert_eq!(of_one.len(), CONNECTIONS_OF_USER_MAX);
            let of_another: Vec<Place> = std::iter::from_fn(|| bounded.place(Some(2))).collect();
            assert_eq!(of_another.len(), CONNECTIONS_MAX - CONNECTIONS_OF_USER_MAX);
            let scraper = bounded.place(Some(3));
            assert!(scraper.is_some() && bounded.place(Some(3)).is_none(), "one place beyond, for who has none");
            assert!(bounded.place(None).is_some());
            drop(of_one);
            assert!(bounded.place(Some(3)).is_some());
        });
    }

    #[test]
    fn who_finds_no_place_is_told_at_once() {
        run(|| async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let bounded = BoundedListener::new(listener, Times::default());
            let mut client = TcpStream::connect(address).await.unwrap();
            let (stream, _) = bounded.listener.accept().await.unwrap();
            bounded.refuse(stream);
            let mut text = Vec::new();
            while let Ok(count @ 1..) = {
                let mut bytes = [0; 1024];
                let mut buffer = ReadBuf::new(&mut bytes);
                let read = poll_fn(|context| Pin::new(&mut client).poll_read(context, &mut buffer)).await;
                text.extend_from_slice(buffer.filled());
                read.map(|()| buffer.filled().len())
            } {
                assert!(count <= 1024);
            }
            assert_eq!(text, REFUSAL);
            let (head, body) = std::str::from_utf8(REFUSAL).unwrap().split_once("\r\n\r\n").unwrap();
            assert!(head.contains(&format!("Content-Length: {}", body.len())), "{}", body.len());
        });
    }

    #[test]
    fn a_client_that_says_nothing_is_cut() {
        with_connection(times(SHORT, LONG, LONG), |mut connection, client| async move {
            let error = read(&mut connection).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            drop(client);
        });
    }

    #[test]
    fn a_client_that_does_not_read_is_cut() {
        with_connection(times(LONG, LONG, SHORT), |mut connection, client| async move {
            let error = loop {
                if let Err(error) = write(&mut connection, &[0; 1 << 16]).await {
                    break error;
                }
            };
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            drop(client);
        });
    }

    #[test]
    fn a_client_that_says_something_now_and_then_may_stay() {
        with_connection(times(LONG, 10 * LONG, LONG), |mut connection, mut client| async move {
            for _ in 0..3 {
                let before = connection.alarm.deadline();
                assert_eq!(write(&mut client, b"x").await.unwrap(), 1);
                assert_eq!(read(&mut connection).await.unwrap(), 1);
                assert!(connection.alarm.deadline() > before, "its time begins anew");
            }
        });
    }
}
