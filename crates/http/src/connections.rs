//! The listener on 127.0.0.1, and connections with a limit in time.

use crate::shares::{ClientSlot, Limits, Shares};
use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use surefoot_hostfs::Root;
use surefoot_sys::peer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, Sleep, sleep};

/// Connections at one time: twice the clients of the live events. Of one user, a browser has six, and as many again for
/// live events. Beyond, only users are let in who have none: so that one who takes all of them keeps no scraper out.
const CONNECTIONS: Limits = Limits { all: 64, of_user: 48, kept: 16 };
/// Whoever finds no place is told so within this time.
const REFUSAL_TIME: Duration = Duration::from_secs(1);
/// Refusals that are being sent at one time; beyond, connections are closed without a word.
const REFUSALS_MAX: usize = 128;
/// What a client without a place is told.
const REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 5\r\n\
    Connection: close\r\nContent-Length: 57\r\n\r\n{\"error\":\"too many connections are open; try again soon\"}";
/// A connection over which nothing went for so long is cut. Longer than several heartbeats of the live
/// events, so that only a client that stopped reading, or that never sent its request, is hit.
pub const SILENCE_MAX: Duration = Duration::from_secs(60);
/// A request, head and body, and the thinking about it take no longer than this in all.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);
/// A client may keep an answer waiting for so long in all; what it takes gives some of it back.
const STALLED_TIME_MAX: Duration = Duration::from_secs(20);
/// Bytes that give a second of that time back: the slowest client that is waited for.
const STALLED_BYTES_PER_S: u64 = 64 << 10;
/// The longest head of a request. Nobody is known before its end, so this is what a stranger may have in memory for each connection.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// What a client with a longer one is told.
const TOO_LONG: &[u8] = b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Type: application/json\r\n\
    Connection: close\r\nContent-Length: 74\r\n\r\n{\"error\":\"the head of the request is longer than 64 KiB; send less in it\"}";
/// After a failed accept, for want of file descriptors for instance.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// The user; `None` where the kernel does not say.
    pub uid: Option<u32>,
    /// The port here, also of a client that came through the socket beside it.
    pub port: u16,
}

/// The two ways in.
pub enum Client {
    /// Over loopback.
    Tcp(TcpStream),
    /// The socket in the run directory.
    Unix(UnixStream),
}

/// The same on whichever way it is.
macro_rules! on {
    ($client:expr, $stream:ident => $do:expr) => {
        match $client {
            Client::Tcp($stream) => $do,
            Client::Unix($stream) => $do,
        }
    };
}

impl Client {
    async fn readable(&self) -> io::Result<()> {
        on!(self, stream => stream.readable().await)
    }

    fn try_read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        on!(self, stream => stream.try_read(bytes))
    }

    /// Says all of it at once, and that nothing more comes.
    async fn tell_last(&mut self, bytes: &[u8]) -> io::Result<()> {
        on!(self, stream => {
            stream.writable().await?;
            stream.try_write(bytes)?;
            poll_fn(|context| Pin::new(&mut *stream).poll_shutdown(context)).await
        })
    }
}

impl Connected<IncomingStream<'_, BoundedListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, BoundedListener>) -> Self {
        *stream.remote_addr()
    }
}

/// How long clients may take; other than these in tests only.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// Without a byte either way.
    pub silence: Duration,
    /// For a request and the thinking about it.
    pub request: Duration,
    /// In which the client takes nothing of an answer, in all.
    pub stalled: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Times { silence: SILENCE_MAX, request: REQUEST_TIME_MAX, stalled: STALLED_TIME_MAX }
    }
}

/// A listener that knows who comes, and limits how many connections there are and how long a client may take.
pub struct BoundedListener {
    listener: TcpListener,
    /// The socket in the run directory, where there is one.
    beside: Option<UnixListener>,
    shares: Shares,
    refusals: Arc<Semaphore>,
    root: Root,
    times: Times,
}

impl BoundedListener {
    /// Listens at both; to be called within the runtime that serves.
    pub fn new(listener: TcpListener, beside: Option<UnixListener>, times: Times) -> Self {
        let (shares, refusals) = (Shares::new(CONNECTIONS), Arc::new(Semaphore::new(REFUSALS_MAX)));
        BoundedListener { listener, beside, shares, refusals, root: Root::host(), times }
    }

    /// The next client on either way, who he is, and the port.
    async fn next(&self) -> io::Result<(Client, Peer)> {
        let beside = async {
            match &self.beside {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            tcp = self.listener.accept() => {
                let (stream, client) = tcp?;
                let server = stream.local_addr()?;
                let uid = peer::user_of(&self.root, client, server);
                // Small answers and events go out at once; without it they only come later.
                let _ = stream.set_nodelay(true);
                Ok((Client::Tcp(stream), Peer { uid, port: server.port() }))
            }
            unix = beside => {
                let (stream, _) = unix?;
                let uid = peer::credentials(stream.as_fd()).map(|peer| peer.uid);
                Ok((Client::Unix(stream), Peer { uid, port: self.listener.local_addr()?.port() }))
            }
        }
    }

    /// Tells a client that there is no place for it, without waiting for it.
    fn refuse(&self, mut stream: Client) {
        let Ok(permit) = Arc::clone(&self.refusals).try_acquire_owned() else { return };
        tokio::spawn(async move {
            let told = async {
                // What the client sent is taken first: closing with it unread would take the answer away again.
                stream.tell_last(REFUSAL).await.ok()?;
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

impl Listener for BoundedListener {
    type Io = Connection;
    type Addr = Peer;

    async fn accept(&mut self) -> (Connection, Peer) {
        loop {
            let Ok((stream, peer)) = self.next().await else {
                sleep(ACCEPT_PAUSE).await;
                continue;
            };
            match self.shares.place(peer.uid) {
                Some(place) => return (Connection::new(stream, self.times, place), peer),
                None => self.refuse(stream),
            }
        }
    }

    fn local_addr(&self) -> io::Result<Peer> {
        Ok(Peer { uid: None, port: self.listener.local_addr()?.port() })
    }
}

/// How much of the head of a request has come.
#[derive(Debug, Default)]
struct Head {
    bytes: usize,
    /// Whether a line has come; empty ones before it are none of the head's.
    has_line: bool,
    /// Whether the line that is being read has anything in it.
    is_in_line: bool,
    has_ended: bool,
}

impl Head {
    /// Takes in what was read. Whether the head is too long.
    fn is_too_long(&mut self, read: &[u8]) -> bool {
        for &byte in read {
            if self.has_ended {
                return false;
            }
            self.bytes += 1;
            match byte {
                b'\n' => self.has_ended = self.has_line && !std::mem::take(&mut self.is_in_line),
                b'\r' => {}
                _ => (self.is_in_line, self.has_line) = (true, true),
            }
        }
        !self.has_ended && self.bytes > HEAD_BYTES_MAX
    }
}

/// One client, on whichever way, who has a place for as long as it lasts.
pub struct Connection<S = Client, P = ClientSlot> {
    stream: S,
    times: Times,
    head: Head,
    /// Ends when the connection is cut, unless something happens before.
    alarm: Pin<Box<Sleep>>,
    /// When the request that is being read or answered must have its answer begun; `None` between requests.
    answer_by: Option<Instant>,
    /// Since when the client takes nothing of an answer.
    stalled_since: Option<Instant>,
    /// How long it has done so in all.
    stalled: Duration,
    _place: P,
}

impl<S, P> Connection<S, P> {
    /// A connection that has its place from now on.
    pub fn new(stream: S, times: Times, place: P) -> Self {
        let answer_by = Some(Instant::now() + times.request);
        let alarm = Box::pin(sleep(times.silence.min(times.request)));
        Connection {
            stream,
            times,
            head: Head::default(),
            alarm,
            answer_by,
            stalled_since: None,
            stalled: Duration::ZERO,
            _place: place,
        }
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
        self.head = Head::default();
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

impl AsyncRead for Client {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        on!(&mut *self, stream => Pin::new(stream).poll_read(context, buffer))
    }
}

impl AsyncWrite for Client {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        on!(&mut *self, stream => Pin::new(stream).poll_write(context, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        on!(&mut *self, stream => Pin::new(stream).poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        on!(&mut *self, stream => Pin::new(stream).poll_shutdown(context))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin, P: Unpin> AsyncRead for Connection<S, P> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        match read {
            Poll::Ready(result) => {
                self.has_read(buffer.filled().len() - before);
                if self.head.is_too_long(&buffer.filled()[before..]) {
                    // What does not fit now is not told: the client has not read what it was told before.
                    let _ = Pin::new(&mut self.stream).poll_write(context, TOO_LONG);
                    return Poll::Ready(Err(io::Error::from(io::ErrorKind::InvalidData)));
                }
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

impl<S: AsyncWrite + Unpin, P: Unpin> AsyncWrite for Connection<S, P> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        match written {
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
            let mut bounded = BoundedListener::new(listener, None, times);
            let (connection, peer) = bounded.accept().await;
            assert_eq!(peer, Peer { uid: Some(surefoot_hostfs::privilege::effective_user()), port: address.port() });
            assert_eq!(bounded.shares.taken(), 1);
            test(connection, client).await;
            assert_eq!(bounded.shares.taken(), 0, "its place is free again");
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
    fn a_head_without_an_end_is_refused_before_it_takes_much_memory() {
        for begin in [&b"GET / HTTP/1.1\r\nX: "[..], b"\r\n\r\nGET / HTTP/1.1\nX: "] {
            with_connection(times(LONG, LONG, LONG), |mut connection, mut client| async move {
                assert_eq!(write(&mut client, begin).await.unwrap(), begin.len());
                let (mut taken, mut said) = (0, Vec::new());
                let error = loop {
                    let mut context = Context::from_waker(std::task::Waker::noop());
                    let _ = Pin::new(&mut client).poll_write(&mut context, &[b'a'; 4096]);
                    match tokio::time::timeout(LONG, read(&mut connection)).await.unwrap() {
                        Ok(count) => taken += count,
                        Err(error) => break error,
                    }
                    assert!(taken <= HEAD_BYTES_MAX + 4096, "{taken}");
                };
                assert_eq!(error.kind(), io::ErrorKind::InvalidData);
                while said.len() < TOO_LONG.len() {
                    let mut bytes = [0; 16];
                    let mut buffer = ReadBuf::new(&mut bytes);
                    poll_fn(|context| Pin::new(&mut client).poll_read(context, &mut buffer)).await.unwrap();
                    said.extend_from_slice(buffer.filled());
                }
                assert_eq!(said, TOO_LONG);
            });
        }
        let (head, body) = std::str::from_utf8(TOO_LONG).unwrap().split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{}", body.len());
    }

    #[test]
    fn a_body_and_the_heads_of_later_requests_have_limits_of_their_own() {
        let long = vec![b'a'; HEAD_BYTES_MAX];
        let mut head = Head::default();
        assert!(!head.is_too_long(b"POST / HTTP/1.1\r\nHost: a\r\n\r") && !head.has_ended);
        assert!(!head.is_too_long(b"\n") && head.has_ended);
        assert!(!head.is_too_long(&long) && !head.is_too_long(&long), "the body");
        let mut head = Head::default();
        assert!(!head.is_too_long(&long) && head.is_too_long(b"a"));
    }

    #[test]
    fn who_finds_no_place_is_told_at_once() {
        run(|| async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let bounded = BoundedListener::new(listener, None, Times::default());
            let mut client = TcpStream::connect(address).await.unwrap();
            let (stream, _) = bounded.listener.accept().await.unwrap();
            bounded.refuse(Client::Tcp(stream));
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
