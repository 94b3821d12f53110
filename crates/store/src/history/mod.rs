//! The history of one host in SQLite: rolled-up windows, the longest gaps, notices, findings and what rooms record.
//!
//! # What is kept
//!
//! | table | what | how long |
//! |---|---|---|
//! | `host` | each description of the host, as JSON | the newest 1,000 |
//! | `span` | one stretch of time: 1 s and 1 min apart | seconds an hour, minutes 30 days |
//! | `core` | the ledger of one core in one span | as its span |
//! | `lost` | what one cause took from one core in one span | as its span |
//! | `cause` | kind and name of a cause, once | 10,000 names, further ones are kept by kind alone |
//! | `gap` | the longest gaps of each day (UTC), as JSON | 1,000 a day, 30 days |
//! | `notice` | what the reader must know | 10,000, 30 days |
//! | `clock` | each change of the wall clock | 1,000, 30 days |
//! | `state` | how far the seconds are rolled up into minutes | |
//! | `finding` | one stretch in which a finding of any room held, and how it was put | 10,000, 30 days after its end |
//! | `record` | what happened in a room at one time, as the room's own JSON | 10,000, 30 days |
//!
//! Periods, counts and the size of the file are [`Limits`]. When the file reaches its size, the oldest spans go first,
//! whatever their age, and [`Pruned`] counts them.
//!
//! - A span of one second is one window, or several shorter ones that lie within a second. A span of a minute is
//!   the sum of the seconds that begin in it; the running minute has no span yet. The parts of each core still add up
//!   to its `wall_ns`, which says how much of the span was watched.
//! - A row with a word that this release does not know (a cause, a verdict, a room of a newer release) is left out of what
//!   is read and counted in [`Answer`]; no read fails for it.
//! - Histograms, capabilities, Surefoot's own cost and the kernel's counters are not kept; recordings have them.
//! - Numbers over 2^63 − 1 are kept as 2^63 − 1, because SQLite has no larger ones; the JSON of a gap is exact.
//!
//! # Time
//!
//! `CLOCK_MONOTONIC` starts again with each boot, so the history keeps nanoseconds since 1970 (UTC):
//! the monotonic time of the event plus the offset that held then. The last [`surefoot_model::Event::Host`] says the first
//! one, and each [`surefoot_model::Event::Clock`] from when on it is another: the machine slept, or the clock was set. So
//! times are what the wall clock showed; where it was set back they overlap. The second in which it was set goes by the
//! offset at its beginning.
//!
//! # Failure
//!
//! The file is in WAL mode with `synchronous = NORMAL`: what was committed survives the death of the process at any
//! point; a loss of power may take the last commits but leaves the file whole. When a commit fails, for a full disk
//! say, its records wait in memory for the next try, up to [`Limits::waiting_bytes_max`]; what is given up beyond that
//! is counted, and the history says so in a notice of its own once writing goes on.

mod clock;
mod findings;
mod import;
mod lock;
mod migration;
pub mod past;
mod prune;
mod query;
mod records;
mod rollup;
pub(crate) mod schema;
mod sums;
mod view;
mod waiting;
mod write;

pub use clock::{CLOCK_CHANGES_MAX, KeptClockChange};
pub use findings::{FINDINGS_MAX, KeptFinding};
pub use import::{Import, Kept};
pub use migration::SCHEMA_VERSION;
pub use prune::Pruned;
pub use query::{Answer, GAPS_MAX, GapFilter, HistoryWindow, KeptGap, Resolution, WINDOWS_MAX};
pub use records::{KeptRecord, RECORDS_MAX};
pub use view::View;
pub use waiting::Dropped;

use crate::database::{Content, InPlace, Marks};
use crate::{Error, Result};
use findings::Board;
use lock::Lock;
use rusqlite::{Connection, ErrorCode};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use surefoot_model::{Cause, Event, Finding, GapCorrection, HostDescription, Notice, StreamClock};
use waiting::Waiting;

/// How often [`History::record`] commits by itself.
const COMMIT_INTERVAL: Duration = Duration::from_secs(1);

/// The least size that a history can be held to: below, its tables alone do not fit.
const SIZE_BYTES_MIN: u64 = 1 << 20;

/// What bounds a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Size of the database and its log, 1 MiB at least. A commit may pass it by its own length until the next one.
    pub size_bytes_max: u64,
    /// How long spans of a second are kept, seconds.
    pub second_spans_kept_s: u64,
    /// How long spans of a minute, gaps, notices, records and findings that are over are kept, seconds.
    pub minute_spans_kept_s: u64,
    /// How many gaps are kept for each day: the longest ones.
    pub gaps_per_day_max: usize,
    /// How many notices are kept: the newest ones.
    pub notices_max: usize,
    /// How many findings are kept that are over: the newest ones.
    pub findings_max: usize,
    /// How many records are kept: of the subject that has most, the oldest go.
    pub records_max: usize,
    /// What a record may take as JSON, and the evidence of a finding. A larger record is left out and counted; evidence is
    /// cut.
    pub body_bytes_max: usize,
    /// Memory for what waits for a commit.
    pub waiting_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            size_bytes_max: 256 << 20,
            second_spans_kept_s: 3_600,
            minute_spans_kept_s: 30 * 86_400,
            gaps_per_day_max: 1_000,
            notices_max: 10_000,
            findings_max: 10_000,
            records_max: 10_000,
            body_bytes_max: 8 << 10,
            waiting_bytes_max: 8 << 20,
        }
    }
}

impl Limits {
    /// The part of the size that the log may take.
    fn log_bytes_max(&self) -> u64 {
        (self.size_bytes_max.max(SIZE_BYTES_MIN) / 8).clamp(256 << 10, 32 << 20)
    }

    /// The part of the size that the database may take.
    fn database_bytes_max(&self) -> u64 {
        self.size_bytes_max.max(SIZE_BYTES_MIN) - self.log_bytes_max()
    }
}

/// The history of one host, open for writing by this process alone.
///
/// Use it from one thread; [`History::open_view`] gives other threads a way to read.
///
/// ```
/// use surefoot_model::{CpuId, Event, HostDescription, Notice, Vendor};
/// use surefoot_store::history::{History, Limits};
/// # let directory = tempfile::tempdir()?;
/// # let host = HostDescription {
/// #     hostname: "node17".into(), kernel: "6.12".into(), processor: "a processor".into(), vendor: Vendor::Amd,
/// #     hypervisor: None, cpus: vec![CpuId(0)], workload: "".into(), gap_threshold_ns: 100_000,
/// #     source: "eBPF (BTF)".into(), missing: "".into(), realtime_offset_ns: 1_000,
/// # };
/// let mut history = History::open(directory.path().join("history.sqlite"), Limits::default())?;
/// history.record(&Event::Host(host))?;
/// history.record(&Event::Notice(Notice { at_ns: 5, text: "core 3 went offline".into() }))?;
/// history.commit()?;
/// assert_eq!(history.open_view()?.notices(0..i64::MAX)?[0].0, 1_005);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct History {
    path: PathBuf,
    limits: Limits,
    connection: Connection,
    /// What times of events are on the wall clock, once a host has told it.
    clock: StreamClock,
    waiting: Waiting,
    board: Board,
    last_commit: Instant,
    last_commit_passed: bool,
    last_prune: Option<Instant>,
    /// The newest time in the file when it was opened, nanoseconds since 1970.
    newest_before_ns: Option<i64>,
    /// Rows of `cause` that this connection knows.
    cause_ids: HashMap<Cause, i64>,
    pruned: Pruned,
    /// Records that were in the file already when they came to be written.
    repeated_records: u64,
    without_host: u64,
    /// Held while the history is open; the kernel lets go of it however the process ends. `None` in memory.
    lock: Option<Lock>,
    /// The name of the database in the memory of this process; `None` for a file.
    in_memory: Option<String>,
    /// Whether the database was found damaged, so that the next to open it looks closely.
    in_doubt: bool,
    /// Which files these are; `None` in memory.
    in_place: Option<InPlace>,
    /// What the file says of its content; `None` in memory.
    content: Option<Content>,
    /// Whether the file at the path is another one by now.
    is_gone: bool,
}

/// Where a history's file says which one it is.
pub(super) const MARKS: Marks = Marks { table: "state", number: "value", is_without_rowid: true };

impl History {
    /// Opens the history, or creates it, readable by its owner alone.
    ///
    /// A file whose last process died is checked from end to end first, which takes some seconds for 256 MiB.
    ///
    /// # Errors
    /// [`Error::InUse`] when another process writes it, [`Error::NotAFile`], [`Error::NotAHistory`],
    /// [`Error::HistoryVersion`], [`Error::Corrupt`], [`Error::Unsupported`] where the file system lacks shared memory
    /// or locks, [`Error::Open`] and [`Error::Sqlite`]. The file is left as it is in each of these cases.
    pub fn open(path: impl AsRef<Path>, limits: Limits) -> Result<History> {
        let path = path.as_ref().to_path_buf();
        schema::check_existing(&path)?;
        let (lock, left_behind) = Lock::take(&path)?;
        let connection = schema::open(&path, &limits, left_behind)?;
        let in_place = InPlace::of(&path).map_err(|source| Error::Open { path: path.clone(), source })?;
        let mut history = History::of(connection, path, limits, Some(lock), None)?;
        history.in_place = Some(in_place);
        history.mark();
        Ok(history)
    }

    /// Lets the file say which one it is. On a full disk that waits for the next commit.
    fn mark(&mut self) {
        if self.content.is_none() && self.in_place.is_some() {
            self.content = MARKS.id(&self.connection).ok().map(|id| Content::of(&self.path, &MARKS, id));
        }
    }

    /// Makes an empty history in the memory of this process, without any file; it is gone when this and all of its views are.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn in_memory(limits: Limits) -> Result<History> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("history-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let path = PathBuf::from("in memory");
        let connection = schema::open_in_memory(&name, &path, &limits)?;
        History::of(connection, path, limits, None, Some(name))
    }

    /// From now on keeps within other limits: what is beyond them goes with the next commits.
    ///
    /// # Errors
    /// [`Error::Sqlite`]; then the limits are those from before.
    pub fn set_limits(&mut self, limits: Limits) -> Result<()> {
        if self.limits == limits {
            return Ok(());
        }
        schema::limit(&self.connection, &limits).map_err(sqlite_error(&self.path, "setting its limits"))?;
        self.waiting.set_limits(limits.waiting_bytes_max, limits.gaps_per_day_max);
        self.board.set_body_bytes_max(limits.body_bytes_max);
        self.limits = limits;
        self.last_prune = None;
        Ok(())
    }

    fn of(
        connection: Connection,
        path: PathBuf,
        limits: Limits,
        lock: Option<Lock>,
        in_memory: Option<String>,
    ) -> Result<History> {
        let mut history = History {
            waiting: Waiting::new(limits.waiting_bytes_max, limits.gaps_per_day_max),
            board: Board::new(limits.body_bytes_max),
            path,
            limits,
            connection,
            clock: StreamClock::default(),
            last_commit: Instant::now(),
            last_commit_passed: true,
            last_prune: None,
            newest_before_ns: None,
            cause_ids: HashMap::new(),
            pruned: Pruned::default(),
            repeated_records: 0,
            without_host: 0,
            lock,
            in_memory,
            in_doubt: false,
            in_place: None,
            content: None,
            is_gone: false,
        };
        history.newest_before_ns =
            prune::newest_ns(&history.connection).map_err(sqlite_error(&history.path, "reading its newest time"))?;
        history.load_causes()?;
        history.load_findings()?;
        Ok(history)
    }

    /// Whether a file may become or is a history, and its nearest directory that is there is one; nothing is made.
    ///
    /// # Errors
    /// As [`History::open`], but [`Error::InUse`] and what only its tables tell.
    pub fn check(path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let absolute = std::path::absolute(path).map_err(|source| Error::Open { path: path.into(), source })?;
        let above = absolute.ancestors().skip(1).find_map(|folder| Some((folder, std::fs::metadata(folder).ok()?)));
        match above {
            Some((folder, found)) if !found.is_dir() => {
                return Err(Error::Open { path: folder.into(), source: io::ErrorKind::NotADirectory.into() });
            }
            _ => {}
        }
        schema::check_existing(path)
    }

    /// Takes note of an event; commits when the last commit is a second ago, or when much is waiting.
    ///
    /// # Errors
    /// As [`History::commit`], and [`Error::NoHostYet`] for an event that comes before its host's.
    pub fn record(&mut self, event: &Event) -> Result<()> {
        match event {
            Event::Host(host) => self.record_host(host),
            Event::Window(window) => {
                let offset_ns = self.offset_at(window.start_ns).inspect_err(|_| self.waiting.dropped.windows += 1)?;
                self.waiting.add_window(window, offset_ns);
            }
            Event::Gap(gap) => {
                let offset_ns = self.offset_at(gap.start_ns).inspect_err(|_| self.waiting.dropped.gaps += 1)?;
                self.pruned.gaps_for_longer += self.waiting.add_gap(gap, offset_ns);
            }
            Event::GapCorrection(GapCorrection { gap, .. }) => {
                let offset_ns = self.offset_at(gap.start_ns).inspect_err(|_| self.waiting.dropped.gaps += 1)?;
                self.waiting.correct_gap(gap, offset_ns);
            }
            Event::Clock(change) => {
                self.offset_at(change.at_ns).inspect_err(|_| self.waiting.dropped.records += 1)?;
                self.clock.change(change);
                self.waiting.add_clock_change(change);
            }
            Event::Notice(Notice { at_ns, text }) => {
                let offset_ns = self.offset_at(*at_ns).inspect_err(|_| self.waiting.dropped.notices += 1)?;
                self.waiting.add_notice(realtime_ns(*at_ns, offset_ns), text);
            }
            // What a room has to record of these; the rest is the state of the moment, which the page asks the daemon for.
            _ => match records::of(event, &self.clock) {
                Some(records) => {
                    let bytes_max = self.limits.body_bytes_max;
                    records.into_iter().for_each(|record| self.waiting.add_record(record, bytes_max));
                }
                None => _ = self.offset_at(0).inspect_err(|_| self.waiting.dropped.records += 1)?,
            },
        }
        self.commit_if_due()
    }

    /// Takes note of the whole current board: all findings of all rooms at this time, nanoseconds since 1970.
    ///
    /// It holds until the next one replaces it. A finding that was not on the board before begins to be kept; one whose
    /// severity or certainty changed ends and begins anew; one that is gone ends. A sentence whose numbers change is
    /// written once a minute at most. What is well (severity `ok`) is not kept.
    ///
    /// # Errors
    /// As [`History::commit`].
    pub fn record_findings(&mut self, at_realtime_ns: i64, board: &[Finding]) -> Result<()> {
        self.board.replace(at_realtime_ns, board, &mut self.waiting);
        self.commit_if_due()
    }

    fn commit_if_due(&mut self) -> Result<()> {
        // Events that come faster than time, from a recording for instance, are committed before memory is short.
        let hurry = self.waiting.is_half_full() && self.last_commit_passed;
        if hurry || self.last_commit.elapsed() >= COMMIT_INTERVAL { self.commit() } else { Ok(()) }
    }

    fn record_host(&mut self, host: &HostDescription) {
        self.clock.begin(host.realtime_offset_ns);
        self.waiting.add_host(host);
    }

    fn offset_at(&mut self, monotonic_ns: u64) -> Result<i64> {
        self.clock.offset_ns_at(monotonic_ns).ok_or_else(|| {
            self.without_host += 1;
            Error::NoHostYet { path: self.path.clone(), dropped_events: self.without_host }
        })
    }

    /// A second, read-only connection, for this thread or another. It sees what is committed.
    ///
    /// # Errors
    /// [`Error::Sqlite`] and [`Error::Corrupt`].
    pub fn open_view(&self) -> Result<View> {
        match &self.in_memory {
            Some(name) => View::of_memory(name, &self.path),
            None => View::beside_writer(&self.path),
        }
    }

    /// What the history takes on the disk: the database and its log, bytes.
    ///
    /// # Errors
    /// [`Error::Open`] when the database is gone, or is in memory.
    pub fn size_bytes(&self) -> Result<u64> {
        let database =
            std::fs::metadata(&self.path).map_err(|source| Error::Open { path: self.path.clone(), source })?;
        Ok(database.len() + self.log_bytes())
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was given up since the history was opened, because it could not be written or came before its host.
    pub fn dropped(&self) -> Dropped {
        self.waiting.dropped
    }

    /// Records committed since the history was opened that it held already, and so did not write again.
    pub fn repeated_records(&self) -> u64 {
        self.repeated_records
    }

    /// What was pruned since the history was opened.
    pub fn pruned(&self) -> Pruned {
        self.pruned
    }

    fn log_bytes(&self) -> u64 {
        if self.in_memory.is_some() {
            return 0;
        }
        std::fs::metadata(view::log_of(&self.path)).map_or(0, |found| found.len())
    }
}

impl Drop for History {
    /// Writes what waits; the findings that hold end with the watch. The outcome has nobody to tell; who wants it calls [`History::commit`] before.
    fn drop(&mut self) {
        self.board.close_all(&mut self.waiting);
        let _ = self.commit();
        self.let_go();
        if let (false, Some(lock)) = (self.in_doubt, &mut self.lock) {
            lock.leave_in_order();
        }
    }
}

/// The time of day of a monotonic time, nanoseconds since 1970; the range `i64::MIN..i64::MAX` holds them all.
fn realtime_ns(monotonic_ns: u64, offset_ns: i64) -> i64 {
    let exact_ns = i128::from(monotonic_ns) + i128::from(offset_ns);
    i64::try_from(exact_ns).unwrap_or(i64::MAX).min(i64::MAX - 1)
}

/// SQLite's largest number stands for all above it.
fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number that [`stored`] wrote.
fn loaded(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// The error of an operation on a history that is known to be one.
fn sqlite_error(path: &Path, doing: &'static str) -> impl FnOnce(rusqlite::Error) -> Error {
    move |source| {
        let path = path.to_path_buf();
        match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Error::Corrupt { path, what: format!("found while {doing}: {source}") }
            }
            Some(ErrorCode::OperationInterrupted) => Error::Unreadable { path, why: crate::database::ENDLESS.into() },
            _ => Error::Sqlite { path, doing, source },
        }
    }
}
