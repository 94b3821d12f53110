//! What comes in goes through one bounded queue to one thread, which writes as many messages as wait in one transaction. Who told
//! something hears that it was taken only when it is written: otherwise he is to tell it again.

use super::book::Book;
use super::findings::Board;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use surefoot_model::Alert;
use surefoot_store::cases::{Claim, Claimed, HostBoard, Limits, MachineLimits};
use tokio::sync::oneshot;

/// Messages that wait.
const QUEUE_MAX: usize = 2_048;
/// Messages and alerts that are written at once.
const MESSAGES_AT_ONCE: usize = 1_024;
const ALERTS_AT_ONCE: usize = 5_000;
/// How often what is old is forgotten.
const PRUNE_PERIOD: Duration = Duration::from_secs(3_600);
/// The thread looks this often whether it should end.
const WAIT: Duration = Duration::from_secs(1);

/// Counts of what came in, for metrics.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Alerts of Alertmanager that were written.
    pub(super) alerts: AtomicU64,
    /// Boards of hosts that were taken.
    pub(super) boards: AtomicU64,
    /// Alerts that told something new.
    pub(super) news: AtomicU64,
    /// Messages that found the queue full.
    pub(super) refused: AtomicU64,
    /// Messages that could not be written.
    pub(super) failed: AtomicU64,
    /// Transactions.
    pub(super) writes: AtomicU64,
    /// Messages of a machine whose name is another one's.
    pub(super) rivals: AtomicU64,
    /// What was forgotten because it was old.
    pub(super) pruned: AtomicU64,
}

enum Told {
    Alerts(Vec<Alert>),
    Board(Box<Board>),
}

struct Message {
    told: Told,
    taken: oneshot::Sender<Result<Claimed, NotTaken>>,
}

/// Why nothing was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NotTaken {
    /// Another machine has the name of the host; in words for its agent.
    Rival(String),
    /// Too much waits.
    Full,
    /// The store cannot be written to now.
    Store(String),
    /// It takes too long.
    Late,
}

/// The way in.
pub(super) struct Intake {
    queue: Mutex<Option<SyncSender<Message>>>,
    pub(super) counts: Arc<Counts>,
}

impl Intake {
    /// The way in, and what its thread is to run: it ends after [`Intake::close`].
    pub(super) fn new(book: Book, wake: impl Fn() + Send + 'static) -> (Intake, impl FnOnce() + Send + 'static) {
        let (queue, waiting) = sync_channel(QUEUE_MAX);
        let counts = Arc::new(Counts::default());
        let mut writer = Writer { book, counts: Arc::clone(&counts), pruned: Instant::now() };
        (Intake { queue: Mutex::new(Some(queue)), counts }, move || writer.run(&waiting, &wake))
    }

    /// Takes nothing more.
    pub(super) fn close(&self) {
        surefoot_http::lock(&self.queue).take();
    }

    /// Hands alerts over, and waits until they are written.
    pub(super) async fn alerts(&self, alerts: Vec<Alert>) -> Result<(), NotTaken> {
        self.hand(Told::Alerts(alerts)).await.map(drop)
    }

    /// The same with all that is found of a host. Whether its name is that of the machine, or which is not known.
    pub(super) async fn board(&self, board: Board) -> Result<Claimed, NotTaken> {
        self.hand(Told::Board(Box::new(board))).await
    }

    async fn hand(&self, told: Told) -> Result<Claimed, NotTaken> {
        let (taken, answer) = oneshot::channel();
        let queue = surefoot_http::lock(&self.queue).clone();
        let sent = match queue {
            Some(queue) => queue.try_send(Message { told, taken }),
            None => return Err(NotTaken::Store("the server is shutting down".into())),
        };
        match sent {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                self.counts.refused.fetch_add(1, Ordering::Relaxed);
                return Err(NotTaken::Full);
            }
            Err(TrySendError::Disconnected(_)) => {
                return Err(NotTaken::Store("the writer of the store has ended".into()));
            }
        }
        match tokio::time::timeout(crate::server::ANSWER_TIME_MAX, answer).await {
            Ok(Ok(taken)) => taken,
            Ok(Err(_)) => Err(NotTaken::Store("the writer of the store has ended".into())),
            Err(_) => Err(NotTaken::Late),
        }
    }
}

struct Writer {
    book: Book,
    counts: Arc<Counts>,
    pruned: Instant,
}

impl Writer {
    fn run(&mut self, waiting: &Receiver<Message>, wake: &dyn Fn()) {
        loop {
            match waiting.recv_timeout(WAIT) {
                Ok(first) => {
                    let mut messages = vec![first];
                    let mut alerts = 0;
                    while messages.len() < MESSAGES_AT_ONCE && alerts < ALERTS_AT_ONCE {
                        let Ok(next) = waiting.try_recv() else { break };
                        alerts += next.told.len();
                        messages.push(next);
                    }
                    self.write(messages, wake);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.pruned.elapsed() >= PRUNE_PERIOD {
                self.pruned = Instant::now();
                // What cannot be forgotten now is so in an hour.
                if let Ok(pruned) = self.book.with(|store| store.prune(&Limits::default())) {
                    let all = pruned.alerts + pruned.cases + pruned.hosts + pruned.audit + pruned.orders;
                    self.counts.pruned.fetch_add(all, Ordering::Relaxed);
                }
            }
        }
    }

    fn write(&mut self, messages: Vec<Message>, wake: &dyn Fn()) {
        match self.book.with(|store| store.claim(&claims_of(&messages), &MachineLimits::default())) {
            Ok(claimed) => self.write_claimed(messages, claimed, wake),
            Err(error) => self.answer_failed(messages.into_iter().map(|message| message.taken).collect(), &error),
        }
    }

    /// Writes all but what comes from a machine whose name is another one's. `claimed` has an answer for each board, in order.
    fn write_claimed(&mut self, messages: Vec<Message>, claimed: Vec<Claimed>, wake: &dyn Fn()) {
        let mut claimed = claimed.into_iter();
        let (mut alerts, mut boards, mut seen) = (Vec::new(), Vec::new(), Vec::new());
        let (mut alert_count, mut board_count) = (0, 0);
        let mut answers = Vec::with_capacity(messages.len());
        for Message { told, taken } in messages {
            match told {
                Told::Alerts(some) => {
                    alert_count += some.len() as u64;
                    alerts.extend(some);
                    answers.push((taken, Claimed::Own));
                }
                Told::Board(board) => match claimed.next().unwrap_or(Claimed::Unknown { owner: None }) {
                    Claimed::Refused { why } => {
                        self.counts.rivals.fetch_add(1, Ordering::Relaxed);
                        let _ = taken.send(Err(NotTaken::Rival(why)));
                    }
                    claimed => {
                        board_count += 1;
                        let is_stranger = matches!(claimed, Claimed::Unknown { owner: Some(_) });
                        answers.push((taken, claimed));
                        sort_in(*board, is_stranger, &mut boards, &mut seen);
                    }
                },
            }
        }
        let written = self.book.with(|store| {
            let news = store.take(&alerts)?;
            let more = if boards.is_empty() { 0 } else { store.take_boards(&boards)? };
            if !seen.is_empty() {
                store.hosts_seen(&seen)?;
            }
            Ok(news + more)
        });
        match written {
            Ok(news) => {
                for (counter, count) in [
                    (&self.counts.alerts, alert_count),
                    (&self.counts.boards, board_count),
                    (&self.counts.news, news),
                    (&self.counts.writes, 1),
                ] {
                    counter.fetch_add(count, Ordering::Relaxed);
                }
                if news > 0 {
                    wake();
                }
                // Who does not wait any more tells it again.
                answers.into_iter().for_each(|(taken, claimed)| _ = taken.send(Ok(claimed)));
            }
            Err(error) => self.answer_failed(answers.into_iter().map(|(taken, _)| taken).collect(), &error),
        }
    }

    fn answer_failed(&self, answers: Vec<oneshot::Sender<Result<Claimed, NotTaken>>>, error: &surefoot_remedy::Error) {
        self.counts.failed.fetch_add(answers.len() as u64, Ordering::Relaxed);
        let why = error.to_string();
        answers.into_iter().for_each(|taken| _ = taken.send(Err(NotTaken::Store(why.clone()))));
    }
}

/// What each board claims, in order.
fn claims_of(messages: &[Message]) -> Vec<Claim> {
    let claim = |message: &Message| match &message.told {
        Told::Alerts(_) => None,
        Told::Board(board) => {
            Some(Claim { host: board.host.clone(), machine: board.machine.clone(), address: board.address.clone() })
        }
    };
    messages.iter().filter_map(claim).collect()
}

/// Puts a board where it is written: one of a host of which nothing is known says that the host lives. One of an unknown machine, under the
/// name of a known one, may add to what that one found, and ends nothing of it.
fn sort_in(board: Board, is_stranger: bool, boards: &mut Vec<HostBoard>, seen: &mut Vec<(String, String)>) {
    match board.alerts {
        Some(alerts) => boards.push(HostBoard {
            host: board.host,
            service: board.service,
            alerts,
            whole: if is_stranger { BTreeSet::new() } else { board.whole },
            fine: if is_stranger { Vec::new() } else { board.fine },
            parts: if is_stranger { Vec::new() } else { board.parts },
            view: (!is_stranger).then_some(board.view),
        }),
        None => seen.push((board.host, board.service)),
    }
}

impl Told {
    fn len(&self) -> usize {
        match self {
            Told::Alerts(alerts) => alerts.len(),
            Told::Board(board) => board.alerts.as_ref().map_or(0, Vec::len),
        }
    }
}
