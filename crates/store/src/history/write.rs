//! Commits: one transaction for what waits, then the minutes that have become whole.

use super::clock;
use super::prune::SpaceUse;
use super::records;
use super::rollup;
use super::sums::CoreSum;
use super::waiting::Waiting;
use super::{History, MARKS, sqlite_error, stored};
use crate::database::{Content, InPlace};
use crate::{Error, Result};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, Statement, Transaction, TransactionBehavior, params};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant, SystemTime};
use surefoot_model::{Cause, CauseKind, FaultySum, LostSum};

/// Causes kept by name; the names come from interrupts, functions and tasks, and tasks can be called anything.
const CAUSES_MAX: usize = 10_000;

/// The name under which causes beyond the limit are kept.
const OTHER_NAMES: &str = "(other names)";

/// How often a commit removes what has come to its age.
const PRUNE_INTERVAL: Duration = Duration::from_secs(60);

/// How many descriptions of the host are kept.
const HOSTS_MAX: i64 = 1_000;

/// The resolutions that `span` holds, seconds.
pub(super) const SECOND: i64 = 1;
pub(super) const MINUTE: i64 = 60;

impl History {
    /// Writes what waits, in one transaction; once a minute it also removes what has come to its age.
    ///
    /// # Errors
    /// [`Error::HistoryWrite`]: what waits stays for the next try, up to [`super::Limits::waiting_bytes_max`]; the
    /// error counts what was given up. Nothing that was committed before is lost. [`Error::Corrupt`]. [`Error::Gone`] where
    /// the file was deleted or replaced: what waits is given up and counted, and the history is to be opened anew.
    pub fn commit(&mut self) -> Result<()> {
        self.last_commit = Instant::now();
        // The earlier of both: neither a clock that was set far ahead nor an event from there says when a finding held.
        self.board.saw(self.waiting.newest_ns.min(now_ns()), &mut self.waiting);
        self.refuse_where_gone()?;
        if self.waiting.is_empty() {
            return Ok(());
        }
        let all = self.waiting.all();
        let committed = self.commit_waiting();
        self.last_commit_passed = committed.is_ok();
        if committed.is_ok() {
            self.mark();
            // It may have gone while it was written to.
            self.refuse_where_gone().inspect_err(|_| self.waiting.dropped.add(&all))?;
        }
        committed
    }

    /// Refuses to write to a file that nobody can open any more. What waits is given up, and counted.
    fn refuse_where_gone(&mut self) -> Result<()> {
        let moved = self.in_place.as_ref().and_then(InPlace::moved).filter(|moved| moved.is_certain);
        let what = match moved {
            Some(moved) => moved.what,
            None if self.is_gone || self.content.as_mut().is_some_and(Content::is_overwritten) => {
                format!("{} was overwritten by another program", self.path.display())
            }
            None => return Ok(()),
        };
        self.is_gone = true;
        let all = self.waiting.all();
        self.waiting.dropped.add(&all);
        self.waiting.clear();
        Err(Error::Gone { what })
    }

    /// Closes a history whose file is another one by now, and leaves that one as it is: what is in the log belongs to the one before.
    pub(super) fn let_go(&mut self) {
        if !self.is_gone {
            if self.in_doubt {
                let _ = crate::database::leave_log(&self.path, &self.connection);
            }
            return;
        }
        // Whoever opens it next looks at it closely.
        self.in_doubt = true;
        let _ = self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        if let Ok(nothing) = Connection::open_in_memory() {
            drop(std::mem::replace(&mut self.connection, nothing));
            self.in_place.iter().for_each(InPlace::remove_log);
        }
    }

    fn commit_waiting(&mut self) -> Result<()> {
        self.empty_log_if_long()?;
        if let Err(error) = self.write_waiting() {
            let full = error.sqlite_error_code() == Some(ErrorCode::DiskFull);
            // Our own limit is no lack of space: make room and try once more.
            if !(full && self.room()?.is_tight()) {
                return Err(self.write_error(error));
            }
            self.prune_to_size()?;
            self.write_waiting().map_err(|error| self.write_error(error))?;
        }
        self.waiting.clear();
        self.waiting.dropped_noted = self.waiting.dropped;
        self.roll_up()?;
        if self.last_prune.is_none_or(|last| last.elapsed() >= PRUNE_INTERVAL) {
            self.last_prune = Some(Instant::now());
            // The earlier of both: neither a clock that was set far ahead nor an event from there takes what is kept.
            self.prune_aged(self.believed(self.waiting.newest_ns.min(now_ns())))?;
        }
        if self.room()?.is_tight() { self.prune_to_size() } else { Ok(()) }
    }

    pub(super) fn roll_up(&mut self) -> Result<()> {
        rollup::roll_up(&mut self.connection).map_err(|error| self.write_error(error))
    }

    /// The log grows while a reader stays in one transaction; it has a limit like every file.
    fn empty_log_if_long(&mut self) -> Result<()> {
        if self.log_bytes() <= self.limits.log_bytes_max() {
            return Ok(());
        }
        let emptied = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
        match emptied {
            Ok(0) => Ok(()),
            Ok(_) => Err(self.write_error_because(
                "another program has been reading it for so long that its log is at its limit".into(),
                false,
            )),
            Err(error) => Err(self.write_error(error)),
        }
    }

    fn write_waiting(&mut self) -> rusqlite::Result<()> {
        let History { connection, waiting, board, cause_ids, limits, pruned, repeated_records, .. } = self;
        let written = (|| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            write_spans(&transaction, waiting, cause_ids)?;
            let gaps_for_longer = write_gaps(&transaction, waiting, limits.gaps_per_day_max)?;
            write_hosts(&transaction, waiting)?;
            write_notices(&transaction, waiting)?;
            write_corrections(&transaction, waiting)?;
            clock::write(&transaction, &waiting.clock_changes)?;
            let repeated = records::write(&transaction, &waiting.records)?;
            board.write(&transaction, waiting)?;
            if waiting.has_strays {
                board.close_strays(&transaction)?;
            }
            MARKS.count(&transaction)?;
            transaction.commit()?;
            pruned.gaps_for_longer += gaps_for_longer;
            *repeated_records += repeated;
            Ok(())
        })();
        if written.is_err() {
            // Numbers that were given out in this transaction are void.
            cause_ids.clear();
            let _ = load_causes(connection, cause_ids);
        }
        written
    }

    pub(super) fn load_causes(&mut self) -> Result<()> {
        load_causes(&self.connection, &mut self.cause_ids).map_err(sqlite_error(&self.path, "reading its causes"))
    }

    /// Rows that a process left open that died are closed now, or with the first commit where the disk is full.
    pub(super) fn load_findings(&mut self) -> Result<()> {
        let History { connection, board, waiting, .. } = self;
        board.load(connection).map_err(sqlite_error(&self.path, "reading its findings"))?;
        waiting.has_strays = board.close_strays(connection).is_err();
        Ok(())
    }

    pub(super) fn room(&self) -> Result<SpaceUse> {
        SpaceUse::of(&self.connection, self.limits.database_bytes_max())
            .map_err(sqlite_error(&self.path, "asking for its size"))
    }

    pub(super) fn write_error(&mut self, error: rusqlite::Error) -> Error {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                self.in_doubt = true;
                Error::Corrupt { path: self.path.clone(), what: format!("found while writing: {error}") }
            }
            code => self.write_error_because(error.to_string(), code == Some(ErrorCode::DiskFull)),
        }
    }

    fn write_error_because(&mut self, why: String, full: bool) -> Error {
        let dropped = self.waiting.dropped;
        let dropped_now = dropped.since(&self.waiting.dropped_told);
        self.waiting.dropped_told = dropped;
        let (waiting, dropped_in_all) = (self.waiting.len(), dropped.total());
        Error::HistoryWrite { path: self.path.clone(), why, full, waiting, dropped_now, dropped_in_all }
    }
}

/// Nanoseconds since 1970.
fn now_ns() -> i64 {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_1970.as_nanos()).unwrap_or(i64::MAX)
}

fn load_causes(connection: &Connection, cause_ids: &mut HashMap<Cause, i64>) -> rusqlite::Result<()> {
    let mut select = connection.prepare("SELECT id, kind, name FROM cause")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        // A kind that only a newer release knows is left alone; nothing here will ask for it.
        if let Ok(kind) = row.get::<_, String>(1)?.parse::<CauseKind>() {
            cause_ids.insert(Cause { kind, name: row.get(2)? }, row.get(0)?);
        }
    }
    Ok(())
}

/// Gives causes their numbers in the database.
struct Causes<'a> {
    insert: Statement<'a>,
    ids: &'a mut HashMap<Cause, i64>,
}

impl Causes<'_> {
    fn id(&mut self, cause: &Cause) -> rusqlite::Result<i64> {
        if let Some(&id) = self.ids.get(cause) {
            return Ok(id);
        }
        if self.ids.len() >= CAUSES_MAX && cause.name != OTHER_NAMES {
            return self.id(&Cause::new(cause.kind, OTHER_NAMES));
        }
        let id = self.insert.insert(params![cause.kind.as_str(), cause.name])?;
        self.ids.insert(cause.clone(), id);
        Ok(id)
    }
}

/// Statements that write one span; prepared once per transaction.
pub(super) struct SpanWriter<'a> {
    span: Statement<'a>,
    core: Statement<'a>,
    lost: Statement<'a>,
    waited: Statement<'a>,
    faulty: Statement<'a>,
}

impl<'a> SpanWriter<'a> {
    pub(super) fn new(transaction: &'a Transaction<'_>) -> rusqlite::Result<Self> {
        Ok(SpanWriter {
            span: transaction.prepare("INSERT INTO span (resolution_s, start_ns, end_ns) VALUES (?1, ?2, ?3)")?,
            core: transaction.prepare("INSERT INTO core VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?,
            lost: transaction.prepare("INSERT INTO lost VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?,
            waited: transaction.prepare("INSERT INTO waited VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?,
            faulty: transaction.prepare("INSERT INTO faulty VALUES (?1, ?2, ?3, ?4)")?,
        })
    }

    pub(super) fn span(&mut self, resolution_s: i64, start_ns: i64, end_ns: i64) -> rusqlite::Result<i64> {
        self.span.insert(params![resolution_s, start_ns, end_ns])
    }

    pub(super) fn faulty(&mut self, span: i64, faulty: &FaultySum) -> rusqlite::Result<()> {
        let fault = serde_json::to_string(&faulty.fault).unwrap_or_default();
        self.faulty.execute(params![span, faulty.cpu.0, stored(faulty.count), fault]).map(drop)
    }

    pub(super) fn core(&mut self, span: i64, core: &CoreSum<i64>) -> rusqlite::Result<()> {
        let cpu = core.times.cpu.0;
        self.core.execute(params![
            span,
            cpu,
            stored(core.times.wall_ns),
            stored(core.times.idle_ns),
            stored(core.times.user_ns),
            stored(core.times.kernel_ns),
            stored(core.times.unexplained_ns)
        ])?;
        if let Some(surefoot_model::Waiting {
            count,
            total_ns,
            throttled_count,
            throttled_ns,
            moved_away,
            not_followed,
        }) = core.times.waiting
        {
            self.waited.execute(params![
                span,
                cpu,
                stored(count),
                stored(total_ns),
                stored(throttled_count),
                stored(throttled_ns),
                stored(moved_away),
                stored(not_followed)
            ])?;
        }
        for (&cause, lost) in &core.lost {
            let &LostSum { count, total_ns, max_ns, while_idle_ns } = lost;
            self.lost.execute(params![
                span,
                cpu,
                cause,
                stored(count),
                stored(total_ns),
                stored(max_ns),
                stored(while_idle_ns)
            ])?;
        }
        Ok(())
    }
}

fn write_spans(
    transaction: &Transaction<'_>,
    waiting: &Waiting,
    cause_ids: &mut HashMap<Cause, i64>,
) -> rusqlite::Result<()> {
    let insert = transaction.prepare("INSERT INTO cause (kind, name) VALUES (?1, ?2)")?;
    let mut causes = Causes { insert, ids: cause_ids };
    let mut writer = SpanWriter::new(transaction)?;
    for span in &waiting.spans {
        let id = writer.span(SECOND, span.start_ns, span.end_ns)?;
        for core in span.cores.values() {
            let mut numbered = CoreSum { times: core.times.clone(), lost: BTreeMap::new() };
            for (cause, &lost) in &core.lost {
                numbered.add_lost(causes.id(cause)?, lost);
            }
            writer.core(id, &numbered)?;
        }
        span.faulty.values().try_for_each(|faulty| writer.faulty(id, faulty))?;
    }
    Ok(())
}

/// Writes the gaps and then keeps the longest of each day; returns how many lost their place.
fn write_gaps(transaction: &Transaction<'_>, waiting: &mut Waiting, per_day_max: usize) -> rusqlite::Result<u64> {
    let mut insert = transaction.prepare(
        "INSERT INTO gap (day, start_ns, cpu, duration_ns, verdict, description) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    let mut ousted = 0;
    for (&day, gaps) in &waiting.gaps {
        for gap in gaps.values() {
            let duration_ns = stored(gap.duration_ns);
            insert.execute(params![day, gap.start_ns, gap.cpu, duration_ns, gap.verdict, gap.description])?;
        }
        let kept: i64 = transaction.query_row("SELECT count(*) FROM gap WHERE day = ?1", [day], |row| row.get(0))?;
        let surplus = kept - per_day_max as i64;
        if surplus > 0 {
            ousted += transaction.execute(
                "DELETE FROM gap WHERE id IN (SELECT id FROM gap WHERE day = ?1 ORDER BY duration_ns LIMIT ?2)",
                [day, surplus],
            )? as u64;
        }
        if surplus >= 0 {
            let shortest: Option<i64> =
                transaction.query_row("SELECT min(duration_ns) FROM gap WHERE day = ?1", [day], |row| row.get(0))?;
            waiting.full_day = Some((day, super::loaded(shortest.unwrap_or(i64::MAX))));
        }
    }
    Ok(ousted)
}

/// Gives gaps that are kept the verdict that became known later. One that lost its place stays away.
fn write_corrections(transaction: &Transaction<'_>, waiting: &Waiting) -> rusqlite::Result<()> {
    let mut update = transaction.prepare(
        "UPDATE gap SET verdict = ?4, description = ?5 WHERE start_ns = ?1 AND cpu = ?2 AND duration_ns = ?3",
    )?;
    for gap in &waiting.corrections {
        update.execute(params![gap.start_ns, gap.cpu, stored(gap.duration_ns), gap.verdict, gap.description])?;
    }
    Ok(())
}

fn write_hosts(transaction: &Transaction<'_>, waiting: &Waiting) -> rusqlite::Result<()> {
    if waiting.hosts.is_empty() {
        return Ok(());
    }
    let mut insert = transaction.prepare("INSERT INTO host (since_ns, hostname, description) VALUES (?1, ?2, ?3)")?;
    for (since_ns, host) in &waiting.hosts {
        insert.execute(params![since_ns, host.hostname, host.description])?;
    }
    transaction.execute("DELETE FROM host WHERE id <= (SELECT max(id) FROM host) - ?1", [HOSTS_MAX])?;
    Ok(())
}

/// Writes the notices, and one of the history's own if records were given up since it last said so.
fn write_notices(transaction: &Transaction<'_>, waiting: &Waiting) -> rusqlite::Result<()> {
    let mut insert = transaction.prepare("INSERT INTO notice (at_ns, text) VALUES (?1, ?2)")?;
    for (at_ns, text) in &waiting.notices {
        insert.execute(params![at_ns, text])?;
    }
    let dropped = waiting.dropped.since(&waiting.dropped_noted);
    if dropped.total() > 0 {
        let text = format!(
            "{dropped} are not in the history: it could not be written for a while, or they are beyond its limits."
        );
        insert.execute(params![waiting.newest_ns, text])?;
    }
    Ok(())
}
