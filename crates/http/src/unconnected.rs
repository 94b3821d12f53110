//! A server that is fed with bytes in place of connections: for the fuzzer and the test that replays its corpus (`fuzz/`).

use crate::connections::Peer;
use crate::lock;
use axum::Router;
use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use std::future::IntoFuture;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

/// How often the server's tasks get their turn for one client. They wait for nothing but the client.
const TURNS: usize = 24;

/// Bytes of an answer that are kept.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// A user of the host, who may not see everything.
const PEER: Peer = Peer { uid: Some(65_534), port: 7171 };

/// A server without a port.
pub struct Unconnected {
    runtime: Runtime,
    clients: mpsc::Sender<Client>,
}

/// What a client says and is told.
#[derive(Default)]
struct Said {
    request: Vec<u8>,
    answer: Vec<u8>,
    is_gone: bool,
    waits: Option<Waker>,
}

#[derive(Clone, Default)]
struct Client(Arc<Mutex<Said>>);

impl AsyncRead for Client {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut said = lock(&self.0);
        if said.request.is_empty() && !said.is_gone {
            said.waits = Some(context.waker().clone());
            return Poll::Pending;
        }
        let count = said.request.len().min(buffer.remaining());
        buffer.put_slice(&said.request[..count]);
        said.request.drain(..count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Client {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut said = lock(&self.0);
        if said.is_gone || said.answer.len() > ANSWER_BYTES_MAX {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        said.answer.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

struct Given(mpsc::Receiver<Client>);

impl Listener for Given {
    type Io = Client;
    type Addr = Peer;

    async fn accept(&mut self) -> (Client, Peer) {
        match self.0.recv().await {
            Some(client) => (client, PEER),
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<Peer> {
        Ok(PEER)
    }
}

impl Connected<IncomingStream<'_, Given>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Given>) -> Self {
        *stream.remote_addr()
    }
}

impl Unconnected {
    /// Starts it with these addresses.
    ///
    /// # Errors
    /// When the system gives no event queue.
    pub fn start(router: Router) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (clients, given) = mpsc::channel(1);
        let routes = router.into_make_service_with_connect_info::<Peer>();
        runtime.spawn(axum::serve(Given(given), routes).into_future());
        Ok(Unconnected { runtime, clients })
    }

    /// What a client is answered that sends this, and then nothing more.
    pub fn answer(&self, request: &[u8]) -> Vec<u8> {
        let client = Client::default();
        lock(&client.0).request = request.to_vec();
        self.runtime.block_on(async {
            let _ = self.clients.send(client.clone()).await;
            for _ in 0..TURNS {
                tokio::task::yield_now().await;
            }
            let waits = {
                let mut said = lock(&client.0);
                said.is_gone = true;
                said.waits.take()
            };
            waits.into_iter().for_each(Waker::wake);
            for _ in 0..4 {
                tokio::task::yield_now().await;
            }
        });
        std::mem::take(&mut lock(&client.0).answer)
    }
}
