use crate::alerts;
use crate::config::{Config, Mode};
use crate::error::Error;
use crate::http::far::{self, Far};
use crate::http::router;
use crate::keep::health::{self, HealthFile, Published};
use crate::keep::history::History;
use crate::keep::queue::{Popped, Queue};
use crate::keep::run_directory::{Readers, RunDirectory};
use crate::keep::seldom::Seldom;
use crate::keep::shared::Shared;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use surefoot_hostfs::clock;
use surefoot_http::connections::{BoundedListener, Peer, Times};
use surefoot_http::listen::{self, Door, Listen};
use surefoot_http::serving::{self, spawn};
use surefoot_http::socket::{SOCKET_NAME, SocketFile};
use surefoot_model::{Event, Finding, Headline, Health, Notice};
use surefoot_rooms::stall::who::fitted;
use surefoot_rooms::watch::settings;
use surefoot_settings::{Effective, Reload};
use surefoot_store::history::View;
use tokio::sync::watch;

/// Events that may wait to be taken in, and memory for them.
const QUEUE_EVENTS_MAX: usize = 1024;
const QUEUE_BYTES_MAX: usize = 8 << 20;
/// How long a live source waits for room in the queue before an event is dropped.
const LIVE_PATIENCE: Duration = Duration::from_millis(50);
/// The same for a replay, which has all the time in the world.
const REPLAY_PATIENCE: Duration = Duration::from_secs(60);
/// Answers that are read or computed at one time, beside the server's own thread: a fault that is replayed does not hold up the history.
const QUERIES_MAX: usize = 2;
/// All threads have this long to end.
const STOP_TIME: Duration = Duration::from_secs(2);
/// After that, the one that writes the history has this long to commit and to move its log into the database.
const HISTORY_STOP_TIME: Duration = Duration::from_secs(5);
/// A server whose findings are older than this is not at work: ten times their period, for a machine that is busy.
const AT_WORK: Duration = Duration::from_secs(10);
/// How long a live server's findings wait for events that are being taken in.
const SETTLE: Duration = Duration::from_millis(100);
/// A thread that waits looks at least this often whether it should end.
const WAIT: Duration = Duration::from_secs(1);

/// A running daemon: it takes events in and shows them on 127.0.0.1.
///
/// Dropping it stops it, as [`Server::stop`] does.
pub struct Server {
    address: Option<SocketAddr>,
    /// Where it listens beside that.
    places: Vec<Listen>,
    far: Option<Arc<Far>>,
    shared: Arc<Shared>,
    queue: Arc<Queue<Event>>,
    is_live: bool,
    patience: Duration,
    stop: watch::Sender<bool>,
    findings_stop: Option<mpsc::Sender<()>>,
    alerts_stop: Arc<AtomicBool>,
    run_directory: Option<Arc<RunDirectory>>,
    /// The thread that takes events in; it ends before the others.
    fold: Option<JoinHandle<()>>,
    /// The thread that writes the history.
    history: Option<JoinHandle<()>>,
    threads: Vec<JoinHandle<()>>,
}

/// Takes over settings while a server runs.
pub struct Reloader(Arc<Shared>, Option<Arc<Far>>);

impl Reloader {
    /// Takes over what was read, where it is right, and says what changed: in a notice, and while something is left to be done in a
    /// finding.
    pub fn reload(&self, read: Result<Effective, surefoot_settings::Error>) -> Reload {
        let reload = self.0.settings.reload(read);
        let of_places: Vec<String> = self.1.iter().flat_map(|far| far.reload()).collect();
        // That nothing changed would not be true.
        if reload != Reload::default() || of_places.is_empty() {
            self.0.notice(settings::said(&reload));
        }
        of_places.into_iter().for_each(|told| self.0.notice(told));
        reload
    }
}

/// Reads the history of a server.
pub struct HistoryReader(Arc<Shared>);

impl HistoryReader {
    /// Reads from it.
    ///
    /// # Errors
    /// Why that is not possible now, as a sentence.
    pub fn read<T>(&self, read: impl FnOnce(&View) -> T) -> Result<T, String> {
        match &self.0.history {
            Some(history) => history.read(read),
            None => Err("no history is kept".to_owned()),
        }
    }
}

impl Server {
    /// Opens the port and starts the threads. A history that cannot be opened now does not keep the
    /// server from starting: a notice says so, and opening is tried again.
    ///
    /// # Errors
    /// [`Error::PortTaken`], [`Error::PortPrivileged`] or [`Error::Listen`] about the port,
    /// [`Error::RunDirectory`] when the directory of `health.json` cannot be written,
    /// [`Error::Http`] when the system gives no thread, and about [`Config::listen`].
    pub fn start(config: Config) -> Result<Server, Error> {
        let listener = config.port.map(loopback).transpose()?;
        let address = listener.as_ref().map(|(_, address)| *address);
        let (far, doors) = Far::open(&config.listen)?.map(|(far, doors)| (Arc::new(far), doors)).unzip();
        let open = |path: &PathBuf| match RunDirectory::open(path) {
            Ok(directory) => Ok(Arc::new(directory)),
            Err(source) => Err(Error::RunDirectory { path: path.clone(), source }),
        };
        let run_directory = config.run_directory.as_ref().map(open).transpose()?;
        // The health of a recorded host is not that of this one.
        let health_file = run_directory.clone().filter(|_| config.mode == Mode::Live).map(HealthFile::new);
        // Nor does its past belong into the history of this one.
        let history = match config.mode {
            Mode::Live => config.history.clone().map(History::new),
            Mode::Replay { .. } => None,
            Mode::Demo { .. } => Some(History::in_memory()),
        };
        let mut server = Server {
            address,
            places: doors.iter().flatten().map(Door::address).collect(),
            far,
            shared: Arc::new(Shared::new(&config, history)),
            queue: Arc::new(Queue::new(QUEUE_EVENTS_MAX, QUEUE_BYTES_MAX)),
            is_live: config.mode == Mode::Live,
            patience: if config.mode == Mode::Live { LIVE_PATIENCE } else { REPLAY_PATIENCE },
            stop: watch::channel(false).0,
            findings_stop: None,
            alerts_stop: Arc::default(),
            run_directory,
            fold: None,
            history: None,
            threads: Vec::new(),
        };
        if let Some(far) = &server.far {
            _ = server.shared.refused.set(far.refused());
        }
        // If one of the threads cannot be started, dropping the server ends the others.
        server.start_fold()?;
        server.start_history()?;
        // Nor is the socket beside the port for a recording: who asks there asks about this host.
        let wanted = config.run_directory.as_ref().filter(|_| listener.is_some() && config.mode == Mode::Live);
        let (beside, mut socket) = wanted.and_then(|directory| server.open_socket(directory)).unzip();
        let is_ours = server.run_directory.as_ref().is_some_and(|directory| directory.is_ours().unwrap_or(false));
        if let (Some(socket), true) = (&mut socket, is_ours) {
            server.publish_socket(socket);
        }
        server.start_findings(health_file, socket)?;
        if server.is_live {
            server.start_alerts()?;
        }
        if let (Some(address), Some(directory)) = (address, &server.run_directory) {
            // Of a recording, too: whoever may see it in the terminal may see all of it on the page.
            if let Err(error) = server.shared.access.publish(Arc::clone(directory), &format!("http://{address}/")) {
                let path = directory.path().display();
                server.shared.notice(format!("There is no address for browsers of other users in {path}: {error}."));
            }
        }
        if let Some((listener, _)) = listener {
            server.start_http(listener, beside)?;
        }
        if let (Some(far), Some(doors)) = (server.far.clone(), doors) {
            let (tls, refused) = (far.tls(), far.refused());
            let router = far::router(Arc::clone(&server.shared), far);
            let open = || listen::doors(doors, tls, refused);
            let serving =
                serving::serve::<_, listen::Peer>("surefoot-listen", QUERIES_MAX, open, router, &server.stop)?;
            server.threads.push(serving);
        }
        Ok(server)
    }

    /// Where the server listens; `None` where it was told not to.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Where it listens beside that, with the ports that the system chose.
    pub fn places(&self) -> &[Listen] {
        &self.places
    }

    /// Tells something in a file of the run directory for as long as the server runs, and as soon as no other process
    /// publishes there. Without a run directory it tells nothing; what cannot be written is a notice, and tried again.
    pub fn tell(&self, name: &str, text: String) {
        if let Some(directory) = &self.run_directory
            && let Err(error) = directory.tell(name, text, Readers::All)
        {
            let path = directory.path().join(name);
            self.shared
                .notice(format!("{} cannot be written: {error}; it is tried again every second.", path.display()));
        }
    }

    /// What all rooms find now, the most urgent first, and the headline. A live server waits a moment for events that were published
    /// before, so that what was just seen is part of it; a replay waits for all of them, as [`Server::settle`] does.
    pub fn findings(&self) -> (Headline, Vec<Finding>) {
        if self.is_live {
            self.queue.wait_empty(SETTLE);
        } else {
            self.settle(REPLAY_PATIENCE);
        }
        let findings = self.shared.findings(&self.shared.moment());
        (findings.headline, findings.all)
    }

    /// Each room, and why it looks at nothing if it does not look.
    pub fn rooms(&self) -> Vec<(surefoot_model::Room, Option<String>)> {
        let moment = self.shared.moment();
        self.shared.rooms.iter().map(|room| (room.room(), room.why_not_watched(&moment))).collect()
    }

    /// A way to say from another thread how a reload of the settings went.
    pub fn reloader(&self) -> Reloader {
        Reloader(Arc::clone(&self.shared), self.far.clone())
    }

    /// A way to read the history from another thread; it outlives the server, and then only says that it ended.
    pub fn history(&self) -> HistoryReader {
        HistoryReader(Arc::clone(&self.shared))
    }

    /// Takes an event in. Waits at most 50 ms (5 s in a replay) when the server cannot keep up, then
    /// drops the event; what is dropped is counted and shown.
    pub fn publish(&self, event: Event) {
        let event = fitted(event);
        let bytes = event.held_bytes();
        if !self.queue.push(event, bytes, self.patience) {
            self.shared.queue_was_full();
        }
    }

    /// Waits until everything that was published is taken in, for as long as the server gets on with it: it gives up after this time in
    /// which it took nothing in. Whether everything is; not so where an event found no room.
    pub fn settle(&self, patience: Duration) -> bool {
        self.queue.wait_done(patience) && self.shared.dropped().queue == 0
    }

    /// Whether its threads that take events in and fold the findings do so: both have gone on within the last seconds. For a watchdog.
    pub fn is_at_work(&self) -> bool {
        self.is_at_work_within(AT_WORK)
    }

    fn is_at_work_within(&self, patience: Duration) -> bool {
        // Findings are folded over what the other thread took in, under its locks: where that one hangs in them, so does this.
        let folded_ns = self.shared.folded_ns.load(Ordering::Relaxed);
        let patience_ns = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
        let takes_in = self.fold.as_ref().is_some_and(|fold| !fold.is_finished());
        takes_in && clock::monotonic_ns().saturating_sub(folded_ns) <= patience_ns
    }

    /// What the server itself has noticed since the last call, such as a history that cannot be written: for a caller
    /// that shows notices elsewhere, too. They are on the page already; do not publish them again.
    pub fn take_notices(&self) -> Vec<Notice> {
        self.shared.take_notices()
    }

    /// Ends all threads, within 2 s, and the one that writes the history within 7 s. Events that were published before are taken in first.
    pub fn stop(self) {
        // Dropping does it.
    }

    fn start_fold(&mut self) -> Result<(), Error> {
        let (shared, queue) = (Arc::clone(&self.shared), Arc::clone(&self.queue));
        let fold = spawn("surefoot-fold", move || {
            loop {
                match queue.pop(WAIT) {
                    Popped::Item(event) => {
                        shared.fold(event);
                        queue.done();
                    }
                    Popped::Empty => {}
                    Popped::Closed => break,
                }
            }
        })?;
        self.fold = Some(fold);
        Ok(())
    }

    fn start_history(&mut self) -> Result<(), Error> {
        if self.shared.history.is_none() {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        self.history = Some(spawn("surefoot-history", move || {
            if let Some(history) = &shared.history {
                history.run(&shared);
            }
        })?);
        Ok(())
    }

    /// The socket beside the port. Without it the port is there, so that a directory whose path is too long for it is no
    /// error.
    fn open_socket(&self, directory: &Path) -> Option<(UnixListener, SocketFile)> {
        let opened = SocketFile::prepare(&directory.join(SOCKET_NAME));
        if let Err(error) = &opened {
            self.shared.notice(format!("There is no socket beside the port in {}: {error}.", directory.display()));
        }
        opened.ok()
    }

    fn publish_socket(&self, socket: &mut SocketFile) {
        if let Err(error) = socket.publish() {
            self.shared.notice(format!("The socket beside the port has no name: {error}."));
        }
    }

    /// Folds the findings every second, and names the socket as soon as this process is the one that publishes.
    fn start_findings(&mut self, mut file: Option<HealthFile>, mut socket: Option<SocketFile>) -> Result<(), Error> {
        let (stop, stopped) = mpsc::channel::<()>();
        self.findings_stop = Some(stop);
        let (shared, directory) = (Arc::clone(&self.shared), self.run_directory.clone());
        self.spawn("surefoot-findings", move || {
            let mut notice = Seldom::default();
            let mut is_by_another = false;
            loop {
                let moment = shared.moment();
                let findings = shared.findings(&moment);
                shared.tell_of(&findings);
                shared.alerts.offer(&moment, &findings, &shared.trusted);
                shared.folded_ns.store(clock::monotonic_ns(), Ordering::Relaxed);
                if let Some(history) = &shared.history {
                    let kept =
                        findings.all.iter().filter(|finding| !surefoot_rooms::watch::is_of_the_start(finding, &moment));
                    history.offer_findings(moment.now_realtime_ns, &kept.cloned().collect::<Vec<_>>());
                }
                shared.access.heed_removal();
                if let Some(directory) = &directory {
                    let health =
                        || health::of(&findings, &shared.trusted, &shared.rooms, &moment, clock::realtime_ns());
                    let published = match &mut file {
                        Some(file) => file.write(&health()).map(|published| published == Published::ByAnother),
                        None => directory.is_ours().map(|is_ours| !is_ours),
                    };
                    let by_another = matches!(published, Ok(true));
                    if let (Some(socket), Ok(false)) = (&mut socket, &published) {
                        // That it failed was said at the start.
                        let _ = socket.publish();
                    }
                    if by_another && !is_by_another {
                        shared.notice(by_another_notice(directory));
                    }
                    is_by_another = by_another;
                    if let Err(error) = published.and_then(|_| directory.tell_waiting()) {
                        shared.drops.health.fetch_add(1, Ordering::Relaxed);
                        if notice.is_due() {
                            let path = directory.path().join(Health::FILE_NAME);
                            let path = path.display();
                            shared
                                .notice(format!("{path} cannot be written: {error}; it is tried again every second."));
                        }
                    }
                }
                if stopped.recv_timeout(shared.settings.now().settings.watch.findings_interval)
                    != Err(RecvTimeoutError::Timeout)
                {
                    break;
                }
            }
            // Before the lock is given back: then another process may have one there.
            drop(socket);
            if let Some(directory) = directory {
                // Nobody is to believe in them after the end.
                directory.close(&[Health::FILE_NAME]);
            }
        })
    }

    /// Tells an Alertmanager of the findings, where one is set.
    fn start_alerts(&mut self) -> Result<(), Error> {
        let (shared, stop) = (Arc::clone(&self.shared), Arc::clone(&self.alerts_stop));
        self.spawn("surefoot-alerts", move || alerts::run(&shared, &stop))
    }

    fn start_http(&mut self, listener: TcpListener, beside: Option<UnixListener>) -> Result<(), Error> {
        let name = "surefoot-http";
        let open = || {
            let beside = beside.map(tokio::net::UnixListener::from_std).transpose()?;
            let listener = tokio::net::TcpListener::from_std(listener)?;
            Ok(BoundedListener::new(listener, beside, Times::default()))
        };
        let router = router(Arc::clone(&self.shared));
        self.threads.push(serving::serve::<_, Peer>(name, QUERIES_MAX, open, router, &self.stop)?);
        Ok(())
    }

    fn spawn(&mut self, name: &'static str, body: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        self.threads.push(spawn(name, body)?);
        Ok(())
    }
}

fn loopback(port: u16) -> Result<(TcpListener, SocketAddr), Error> {
    let open = || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    open().map_err(|error| Error::listen(port, error))
}

impl Drop for Server {
    fn drop(&mut self) {
        let deadline = Instant::now() + STOP_TIME;
        self.queue.close();
        // What was published goes to the live clients and the history before these are closed.
        if let Some(fold) = self.fold.take() {
            join_until(fold, deadline);
        }
        self.findings_stop.take();
        self.alerts_stop.store(true, Ordering::Relaxed);
        self.shared.close_live();
        self.stop.send_replace(true);
        if let Some(history) = &self.shared.history {
            history.close();
        }
        for thread in self.threads.drain(..) {
            join_until(thread, deadline);
        }
        // The others may have taken all of their time, on a host that is very busy.
        if let Some(history) = self.history.take() {
            join_until(history, Instant::now() + HISTORY_STOP_TIME);
        }
    }
}

fn by_another_notice(directory: &RunDirectory) -> String {
    let process = directory.owner().map_or("Another process".to_owned(), |pid| format!("Process {pid}"));
    format!(
        "{process} publishes in {}; this one writes neither health.json nor its address there until that one ends. Name \
         another directory with --run-directory.",
        directory.path().display()
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_whose_threads_hang_is_not_at_work() {
        let server =
            Server::start(Config { port: None, ..Config::default() }).unwrap_or_else(|error| panic!("{error}"));
        let until = |is_at_work: bool| {
            while server.is_at_work_within(Duration::from_secs(3)) != is_at_work {
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        until(true);
        let hangs = server.shared.hang();
        until(false);
        drop(hangs);
        until(true);
    }
}
