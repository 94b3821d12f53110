use axum::serve::Listener;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

/// Connections at one time: twice the clients of the live events. Others wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 64;
/// A connection over which nothing went for so long is cut. Longer than several heartbeats of the live
/// events, so that only a client that stopped reading, or that never sent its request, is hit.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(60);
/// After a failed accept, for want of file descriptors for instance.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A listener that limits how many connections there are and how long one may be silent.
pub(crate) struct BoundedListener {
    listener: TcpListener,
    slots: Arc<Semaphore>,
    silence_max: Duration,
}

impl BoundedListener {
    /// Cuts connections that are silent for longer than `silence_max`; [`SILENCE_MAX`] outside tests.
    pub(crate) fn new(listener: TcpListener, silence_max: Duration) -> Self {
        BoundedListener { listener, slots: Arc::new(Semaphore::new(CONNECTIONS_MAX)), silence_max }
    }

    async fn slot(&self) -> OwnedSemaphorePermit {
        match Arc::clone(&self.slots).acquire_owned().await {
            Ok(slot) => slot,
            // The semaphore is never closed; if it were, no connection would be right.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Listener for BoundedListener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let slot = self.slot().await;
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => {
                    // Small answers and events go out at once; without it they only come later.
                    let _ = stream.set_nodelay(true);
                    let silence_max = self.silence_max;
                    let silence = Box::pin(sleep(silence_max));
                    return (Connection { stream, silence, silence_max, _slot: slot }, address);
                }
                Err(_) => sleep(ACCEPT_PAUSE).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// One client.
pub(crate) struct Connection {
    stream: TcpStream,
    silence: Pin<Box<Sleep>>,
    silence_max: Duration,
    _slot: OwnedSemaphorePermit,
}

impl Connection {
    fn heard(&mut self) {
        let end = Instant::now() + self.silence_max;
        self.silence.as_mut().reset(end);
    }

    /// Fails once nothing went over the connection for too long.
    fn check(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        ready!(self.silence.as_mut().poll(context));
        Poll::Ready(io::Error::from(io::ErrorKind::TimedOut))
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_read(context, buffer) {
            Poll::Ready(result) => {
                self.heard();
                Poll::Ready(result)
            }
            Poll::Pending => self.check(context).map(Err),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.stream).poll_write(context, bytes) {
            Poll::Ready(result) => {
                self.heard();
                Poll::Ready(result)
            }
            Poll::Pending => self.check(context).map(Err),
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
    use std::future::poll_fn;

    async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<usize> {
        let mut bytes = [0; 16];
        let mut buffer = ReadBuf::new(&mut bytes);
        poll_fn(|context| Pin::new(&mut *stream).poll_read(context, &mut buffer)).await?;
        Ok(buffer.filled().len())
    }

    async fn write(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<usize> {
        poll_fn(|context| Pin::new(&mut *stream).poll_write(context, bytes)).await
    }

    /// Runs a client against a connection that may be silent for so long.
    fn with_connection<F: Future<Output = ()>>(silence_max: Duration, test: impl FnOnce(Connection, TcpStream) -> F) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let client = TcpStream::connect(address).await.unwrap();
            let mut bounded = BoundedListener::new(listener, silence_max);
            let (connection, _) = bounded.accept().await;
            assert_eq!(bounded.slots.available_permits(), CONNECTIONS_MAX - 1);
            test(connection, client).await;
            assert_eq!(bounded.slots.available_permits(), CONNECTIONS_MAX, "its place is free again");
        });
    }

    #[test]
    fn a_client_that_says_nothing_is_cut() {
        with_connection(Duration::from_millis(100), |mut connection, client| async move {
            let error = read(&mut connection).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            drop(client);
        });
    }

    #[test]
    fn a_client_that_does_not_read_is_cut() {
        with_connection(Duration::from_millis(100), |mut connection, client| async move {
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
        with_connection(Duration::from_secs(60), |mut connection, mut client| async move {
            for _ in 0..3 {
                let before = connection.silence.deadline();
                assert_eq!(write(&mut client, b"x").await.unwrap(), 1);
                assert_eq!(read(&mut connection).await.unwrap(), 1);
                assert!(connection.silence.deadline() > before, "its time begins anew");
            }
        });
    }
}
