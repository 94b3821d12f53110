use axum::serve::Listener;
use std::future::Future as _;
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
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// After a failed accept, for want of file descriptors for instance.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A listener that limits how many connections there are and how long one may be silent.
pub(crate) struct BoundedListener {
    listener: TcpListener,
    slots: Arc<Semaphore>,
}

impl BoundedListener {
    pub(crate) fn new(listener: TcpListener) -> Self {
        BoundedListener { listener, slots: Arc::new(Semaphore::new(CONNECTIONS_MAX)) }
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
                    let silence = Box::pin(sleep(SILENCE_MAX));
                    return (Connection { stream, silence, _slot: slot }, address);
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
    _slot: OwnedSemaphorePermit,
}

impl Connection {
    fn heard(&mut self) {
        self.silence.as_mut().reset(Instant::now() + SILENCE_MAX);
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
