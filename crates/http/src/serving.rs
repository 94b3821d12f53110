//! The thread that answers: a runtime of its own, and an end that does not wait for slow clients.

use crate::Error;
use axum::Router;
use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use std::fmt::Debug;
use std::io;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

/// Answers that are under way have this long when the server stops.
const STOP_ANSWERS_TIME: Duration = Duration::from_millis(500);

/// Starts the thread that answers until `stop` says so; `queries_max` more threads wait for a store. `open` makes the listener within
/// the runtime. `P` is what is known of the other end of a connection.
///
/// # Errors
/// [`Error::Thread`] when the system gives no event queue, no listener or no thread.
pub fn serve<L, P>(
    name: &'static str,
    queries_max: usize,
    open: impl FnOnce() -> io::Result<L>,
    router: Router,
    stop: &watch::Sender<bool>,
) -> Result<JoinHandle<()>, Error>
where
    L: Listener + 'static,
    L::Addr: Debug,
    P: for<'a> Connected<IncomingStream<'a, L>>,
{
    let failed = |source| Error::Thread { name, source };
    // Made here, so that a failure is the caller's to see.
    let runtime = runtime(queries_max).map_err(failed)?;
    let listener = {
        let _inside = runtime.enter();
        open().map_err(failed)?
    };
    spawn(name, answering::<L, P>(runtime, listener, router, stop))
}

/// Starts a thread of a server.
///
/// # Errors
/// [`Error::Thread`].
pub fn spawn(name: &'static str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    thread::Builder::new().name(name.to_owned()).spawn(body).map_err(|source| Error::Thread { name, source })
}

fn runtime(queries_max: usize) -> io::Result<Runtime> {
    Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(queries_max)
        .thread_name("surefoot-query")
        .build()
}

/// What the thread runs: it answers until `stop` says so.
fn answering<L, P>(
    runtime: Runtime,
    listener: L,
    router: Router,
    stop: &watch::Sender<bool>,
) -> impl FnOnce() + Send + 'static + use<L, P>
where
    L: Listener + 'static,
    L::Addr: Debug,
    P: for<'a> Connected<IncomingStream<'a, L>>,
{
    let stopped = || {
        let mut stop = stop.subscribe();
        async move {
            // An error means that the server is gone, which is as good.
            let _ = stop.wait_for(|stop| *stop).await;
        }
    };
    let (graceful, forced) = (stopped(), stopped());
    move || {
        runtime.block_on(async move {
            let serving = axum::serve(listener, router.into_make_service_with_connect_info::<P>())
                .with_graceful_shutdown(graceful);
            let deadline = async {
                forced.await;
                tokio::time::sleep(STOP_ANSWERS_TIME).await;
            };
            tokio::select! {
                _ = serving.into_future() => {}
                () = deadline => {}
            }
        });
        runtime.shutdown_background();
    }
}
