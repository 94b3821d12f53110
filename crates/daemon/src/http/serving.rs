//! The thread that answers: a runtime of its own, and an end that does not wait for slow clients.

use axum::Router;
use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use std::fmt::Debug;
use std::io;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

/// Answers that are under way have this long when the server stops.
const STOP_ANSWERS_TIME: Duration = Duration::from_millis(500);

/// A runtime for one thread that answers, and so many more that wait for a store.
pub(crate) fn runtime(queries_max: usize) -> io::Result<Runtime> {
    Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(queries_max)
        .thread_name("surefoot-query")
        .build()
}

/// What the thread runs: it answers until `stop` says so. `P` is what is known of the other end of a connection.
pub(crate) fn answering<L, P>(
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
