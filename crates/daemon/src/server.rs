use crate::checkpoints::realtime_ns;
use crate::config::{Config, Mode};
use crate::connections::{BoundedListener, SILENCE_MAX};
use crate::error::Error;
use crate::health::{self, HealthFile};
use crate::history::History;
use crate::queue::{Popped, Queue};
use crate::routes;
use crate::state::{Seldom, Shared};
use crate::weight::event_bytes;
use crate::who;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use surefoot_model::{Event, Notice};
use tokio::sync::watch;

/// Events that may wait to be taken in, and memory for them.
const QUEUE_EVENTS_MAX: usize = 1024;
const QUEUE_BYTES_MAX: usize = 8 << 20;
/// How long a live source waits for room in the queue before an event is dropped.
const LIVE_PATIENCE: Duration = Duration::from_millis(50);
/// The same for a replay, which has all the time in the world.
const REPLAY_PATIENCE: Duration = Duration::from_secs(5);
/// All threads have this long to end.
const STOP_TIME: Duration = Duration::from_secs(2);
/// Answers that are under way have this long when the server stops.
const STOP_ANSWERS_TIME: Duration = Duration::from_millis(500);
/// How often `health.json` is written.
const HEALTH_PERIOD: Duration = Duration::from_secs(1);
/// A thread that waits looks at least this often whether it should end.
const WAIT: Duration = Duration::from_secs(1);

/// A running daemon: it takes events in and shows them on 127.0.0.1.
///
/// Dropping it stops it, as [`Server::stop`] does.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    queue: Arc<Queue<Event>>,
    patience: Duration,
    stop: watch::Sender<bool>,
    health_stop: Option<mpsc::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    /// Opens the port and starts the threads. A history that cannot be opened now does not keep the
    /// server from starting: a notice says so, and opening is tried again.
    ///
    /// # Errors
    /// [`Error::PortTaken`], [`Error::PortPrivileged`] or [`Error::Listen`] about the port,
    /// [`Error::RunDirectory`] when the directory of `health.json` cannot be written,
    /// [`Error::Thread`] when the system gives no thread.
    pub fn start(config: Config) -> Result<Server, Error> {
        let port = config.port;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| Error::listen(port, error))?;
        listener.set_nonblocking(true).map_err(|error| Error::listen(port, error))?;
        let address = listener.local_addr().map_err(|error| Error::listen(port, error))?;
        let health_file = match (&config.run_directory, &config.mode) {
            (Some(directory), Mode::Live) => Some(
                HealthFile::in_directory(directory)
                    .map_err(|source| Error::RunDirectory { path: directory.clone(), source })?,
            ),
            // The health of a recorded host is not that of this one.
            _ => None,
        };
        // Nor does its past belong into the history of this one.
        let history = config.history.clone().filter(|_| config.mode == Mode::Live).map(History::new);
        let mut server = Server {
            address,
            shared: Arc::new(Shared::new(&config, history)),
            queue: Arc::new(Queue::new(QUEUE_EVENTS_MAX, QUEUE_BYTES_MAX)),
            patience: if config.mode == Mode::Live { LIVE_PATIENCE } else { REPLAY_PATIENCE },
            stop: watch::channel(false).0,
            health_stop: None,
            threads: Vec::new(),
        };
        // If one of the threads cannot be started, dropping the server ends the others.
        server.start_fold()?;
        server.start_history()?;
        server.start_health(health_file)?;
        server.start_checkpoints()?;
        server.start_http(listener)?;
        Ok(server)
    }

    /// Where the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes an event in. Waits at most 50 ms (5 s in a replay) when the server cannot keep up, then
    /// drops the event; what is dropped is counted and shown.
    pub fn publish(&self, event: Event) {
        let event = who::fitted(event);
        let bytes = event_bytes(&event);
        if !self.queue.push(event, bytes, self.patience) {
            self.shared.queue_was_full();
        }
    }

    /// What the server itself has noticed since the last call, such as a history that cannot be written: for a caller
    /// that shows notices elsewhere, too. They are on the page already; do not publish them again.
    pub fn take_notices(&self) -> Vec<Notice> {
        self.shared.take_notices()
    }

    /// Ends all threads, within 2 s. Events that were published before are taken in first.
    pub fn stop(self) {
        // Dropping does it.
    }

    fn start_fold(&mut self) -> Result<(), Error> {
        let (shared, queue) = (Arc::clone(&self.shared), Arc::clone(&self.queue));
        self.spawn("surefoot-fold", move || {
            loop {
                match queue.pop(WAIT) {
                    Popped::Item(event) => shared.fold(event),
                    Popped::Empty => {}
                    Popped::Closed => break,
                }
            }
        })
    }

    fn start_history(&mut self) -> Result<(), Error> {
        if self.shared.history.is_none() {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        self.spawn("surefoot-history", move || {
            if let Some(history) = &shared.history {
                history.run(&shared);
            }
        })
    }

    fn start_health(&mut self, file: Option<HealthFile>) -> Result<(), Error> {
        let Some(file) = file else { return Ok(()) };
        let (stop, stopped) = mpsc::channel::<()>();
        self.health_stop = Some(stop);
        let shared = Arc::clone(&self.shared);
        self.spawn("surefoot-health", move || {
            let mut notice = Seldom::default();
            let mut before = shared.kept().dropped;
            loop {
                let kept = shared.kept();
                let now_ns = realtime_ns();
                let stale = shared.checkpoints.stale(now_ns);
                if let Err(error) = file.write(&health::decide(&kept, &before, stale, now_ns)) {
                    shared.drops.health.fetch_add(1, Ordering::Relaxed);
                    if notice.is_due() {
                        let path = file.path().display();
                        shared.notice(format!("{path} cannot be written: {error}; it is tried again every second."));
                    }
                }
                before = kept.dropped;
                if stopped.recv_timeout(HEALTH_PERIOD) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            file.remove();
        })
    }

    fn start_checkpoints(&mut self) -> Result<(), Error> {
        if !self.shared.checkpoints.is_watched() {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        self.spawn("surefoot-checkpoints", move || shared.checkpoints.run())
    }

    fn start_http(&mut self, listener: TcpListener) -> Result<(), Error> {
        let name = "surefoot-http";
        let thread_error = |source| Error::Thread { name, source };
        // Made here, so that a failure is the caller's to see.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(1)
            .thread_name("surefoot-query")
            .build()
            .map_err(thread_error)?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(thread_error)?
        };
        let router = routes::router(Arc::clone(&self.shared));
        let stopped = || {
            let mut stop = self.stop.subscribe();
            async move {
                // An error means that the server is gone, which is as good.
                let _ = stop.wait_for(|stop| *stop).await;
            }
        };
        let (graceful, forced) = (stopped(), stopped());
        self.spawn(name, move || {
            runtime.block_on(async move {
                let serving =
                    axum::serve(BoundedListener::new(listener, SILENCE_MAX), router).with_graceful_shutdown(graceful);
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
        })
    }

    fn spawn(&mut self, name: &'static str, body: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        let thread =
            Builder::new().name(name.to_owned()).spawn(body).map_err(|source| Error::Thread { name, source })?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let deadline = Instant::now() + STOP_TIME;
        self.queue.close();
        // What was published goes to the live clients and the history before these are closed.
        if let Some(fold) = (!self.threads.is_empty()).then(|| self.threads.remove(0)) {
            join_until(fold, deadline);
        }
        self.health_stop.take();
        self.shared.checkpoints.close();
        self.shared.close_live();
        self.stop.send_replace(true);
        if let Some(history) = &self.shared.history {
            history.close();
        }
        for thread in self.threads.drain(..) {
            join_until(thread, deadline);
        }
    }
}

/// Waits for a thread to end. One that hangs, on a dead disk for instance, is left behind.
fn join_until(thread: JoinHandle<()>, deadline: Instant) {
    while !thread.is_finished() {
        if Instant::now() >= deadline {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    // A panic was printed by its own hook; there is nobody left to tell.
    let _ = thread.join();
}
