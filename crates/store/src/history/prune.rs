//! What goes: by age, by number, and by the size of the file.

use super::rollup::delete_span;
use super::waiting::SECOND_NS;
use super::write::{MINUTE, SECOND};
use super::{History, sqlite_error, stored};
use crate::Result;
use rusqlite::{Connection, TransactionBehavior};

/// Spans deleted in one transaction, so that the log stays short and readers see steady progress.
const SPANS_PER_TRANSACTION: i64 = 64;

/// Rows that are no spans deleted in one transaction.
const ROWS_PER_TRANSACTION: i64 = 1_000;

/// As above where the size of the file asks for it: rows with a body are large, and no more are to go than must.
const ROWS_PER_TRANSACTION_FOR_SIZE: i64 = 64;

/// Pages given back to the file system in one go.
const PAGES_PER_VACUUM: i64 = 1_000;

/// What was pruned, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Spans of a second that reached their age.
    pub seconds_by_age: u64,
    /// Spans of a minute that reached their age.
    pub minutes_by_age: u64,
    /// Spans of either kind that had to go early, for the size of the file.
    pub spans_by_size: u64,
    /// Gaps, notices, findings and records that reached their age or number.
    pub rows_by_age: u64,
    /// Those that had to go early, for the size of the file.
    pub rows_by_size: u64,
    /// Gaps that lost their place in their day to longer ones.
    pub gaps_for_longer: u64,
}

/// How much of its size the database uses.
#[derive(Debug, Clone, Copy)]
pub(super) struct SpaceUse {
    used_bytes: u64,
    free_bytes: u64,
    max_bytes: u64,
}

impl SpaceUse {
    pub(super) fn of(connection: &Connection, max_bytes: u64) -> rusqlite::Result<SpaceUse> {
        let ask = |pragma: &str| connection.query_row(pragma, [], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs);
        let page_bytes = ask("PRAGMA page_size")?;
        let free_pages = ask("PRAGMA freelist_count")?;
        let used_pages = ask("PRAGMA page_count")? - free_pages;
        Ok(SpaceUse { used_bytes: used_pages * page_bytes, free_bytes: free_pages * page_bytes, max_bytes })
    }

    /// Whether pruning is due; below the limit itself, so that an ordinary commit does not run into it.
    pub(super) fn is_tight(self) -> bool {
        self.used_bytes > self.max_bytes / 16 * 15
    }

    /// Whether pruning for size has done enough to be spared for a while.
    fn is_ample(self) -> bool {
        self.used_bytes <= self.max_bytes / 16 * 14
    }
}

/// The newest time in the file; `None` where it holds nothing.
pub(super) fn newest_ns(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    let newest =
        "SELECT max(at_ns) FROM (SELECT max(start_ns) AS at_ns FROM span UNION ALL SELECT max(start_ns) FROM gap
                  UNION ALL SELECT max(at_ns) FROM notice UNION ALL SELECT max(at_ns) FROM record)";
    connection.query_row(newest, [], |row| row.get(0))
}

impl History {
    /// The time by which old rows go. Where all that was there at the opening would go, either the host was off for so long, or its
    /// clock is far ahead: then nothing goes but what was old by the newest of those rows, until the next opening.
    pub(super) fn believed(&self, now_ns: i64) -> i64 {
        let kept_ns = stored(self.limits.minute_spans_kept_s).saturating_mul(SECOND_NS);
        match self.newest_before_ns {
            Some(newest_ns) if now_ns.saturating_sub(newest_ns) > kept_ns => newest_ns,
            _ => now_ns,
        }
    }

    /// Commits, removes what has come to its age or number at the time `now_ns` (nanoseconds since 1970), and gives
    /// free pages back to the file system. [`History::commit`] does so by itself once a minute, by the time of the
    /// newest event or of the clock, whichever is earlier; this is for who cannot wait.
    ///
    /// # Errors
    /// [`crate::Error::HistoryWrite`] when the disk is too full even for that, [`crate::Error::Corrupt`],
    /// [`crate::Error::Sqlite`].
    pub fn prune(&mut self, now_ns: i64) -> Result<Pruned> {
        let before = self.pruned;
        self.commit()?;
        self.roll_up()?;
        self.prune_aged(now_ns)?;
        Ok(self.pruned.since(&before))
    }

    pub(super) fn prune_aged(&mut self, now_ns: i64) -> Result<()> {
        // A period beyond what numbers hold keeps everything.
        let age = |kept_s: u64| {
            stored(kept_s).checked_mul(SECOND_NS).map_or(i64::MIN, |kept_ns| now_ns.saturating_sub(kept_ns))
        };
        let (seconds_from_ns, minutes_from_ns) =
            (age(self.limits.second_spans_kept_s), age(self.limits.minute_spans_kept_s));
        // Seconds that are not in their minute yet stay until they are.
        let seconds = "SELECT id FROM span WHERE resolution_s = ?1 AND start_ns < ?2
            AND id <= (SELECT value FROM state WHERE name = 'rolled_up_span') ORDER BY start_ns LIMIT ?3";
        let minutes = "SELECT id FROM span WHERE resolution_s = ?1 AND start_ns < ?2 ORDER BY start_ns LIMIT ?3";
        self.pruned.seconds_by_age += self.delete_all_spans(seconds, SECOND, seconds_from_ns)?;
        self.pruned.minutes_by_age += self.delete_all_spans(minutes, MINUTE, minutes_from_ns)?;
        let aged = [
            "DELETE FROM gap WHERE id IN (SELECT id FROM gap WHERE start_ns < ?1 LIMIT ?2)",
            "DELETE FROM notice WHERE id IN (SELECT id FROM notice WHERE at_ns < ?1 LIMIT ?2)",
            "DELETE FROM finding WHERE id IN (SELECT id FROM finding WHERE until_ns < ?1 LIMIT ?2)",
            "DELETE FROM record WHERE id IN (SELECT id FROM record WHERE at_ns < ?1 LIMIT ?2)",
            "DELETE FROM clock WHERE id IN (SELECT id FROM clock WHERE at_ns < ?1 LIMIT ?2)",
        ];
        for delete in aged {
            self.pruned.rows_by_age += self.delete_all_rows(delete, minutes_from_ns)?;
        }
        self.pruned.rows_by_age += self.delete_all_rows(
            "DELETE FROM notice WHERE id IN
             (SELECT id FROM notice WHERE id <= (SELECT max(id) FROM notice) - ?1 LIMIT ?2)",
            stored(self.limits.notices_max as u64),
        )?;
        self.pruned.rows_by_age += self.delete_all_rows(
            "DELETE FROM finding WHERE id IN
             (SELECT id FROM finding WHERE until_ns IS NOT NULL ORDER BY id DESC LIMIT ?2 OFFSET ?1)",
            stored(self.limits.findings_max as u64),
        )?;
        self.pruned.rows_by_age += self.prune_records()?;
        if self.room()?.is_tight() {
            self.prune_to_size()?;
        }
        self.give_back_free_pages()
    }

    /// Of the subject that has most records the oldest go, so that no job can oust what is kept of another.
    fn prune_records(&mut self) -> Result<u64> {
        let records_max = stored(self.limits.records_max as u64);
        let mut deleted = 0;
        loop {
            let count = "SELECT count(*) FROM record";
            let kept: i64 = self
                .connection
                .query_row(count, [], |row| row.get(0))
                .map_err(sqlite_error(&self.path, "counting its records"))?;
            let surplus = kept.saturating_sub(records_max);
            if surplus <= 0 {
                return Ok(deleted);
            }
            // Half of the largest at most, so that several large ones share the loss.
            let now = self.delete_rows(
                "WITH largest AS (SELECT room, subject, count(*) AS kept FROM record
                                  GROUP BY room, subject ORDER BY kept DESC LIMIT 1)
                 DELETE FROM record WHERE id IN
                 (SELECT id FROM record JOIN largest USING (room, subject)
                  ORDER BY at_ns, id LIMIT (SELECT min(?1, ?2, (kept + 1) / 2) FROM largest))",
                &[surplus, ROWS_PER_TRANSACTION],
            )?;
            deleted += now;
            if now == 0 {
                return Ok(deleted);
            }
        }
    }

    /// Removes the oldest until the file is well within its size.
    pub(super) fn prune_to_size(&mut self) -> Result<()> {
        // Spans are most of the file; gaps go when no span is left, then the others.
        let oldest = "SELECT id FROM span ORDER BY start_ns LIMIT ?1";
        let rows = [
            "DELETE FROM gap WHERE id IN (SELECT id FROM gap ORDER BY start_ns LIMIT ?1)",
            "DELETE FROM notice WHERE id IN (SELECT id FROM notice ORDER BY at_ns LIMIT ?1)",
            "DELETE FROM record WHERE id IN (SELECT id FROM record ORDER BY at_ns LIMIT ?1)",
            "DELETE FROM finding WHERE id IN
             (SELECT id FROM finding WHERE until_ns IS NOT NULL ORDER BY from_ns LIMIT ?1)",
            "DELETE FROM clock WHERE id IN (SELECT id FROM clock ORDER BY id LIMIT ?1)",
        ];
        while !self.room()?.is_ample() {
            let spans = self.delete_spans(oldest, &[SPANS_PER_TRANSACTION])?;
            self.pruned.spans_by_size += spans;
            if spans > 0 {
                continue;
            }
            let mut deleted = 0;
            for row in rows {
                if deleted == 0 {
                    deleted = self.delete_rows(row, &[ROWS_PER_TRANSACTION_FOR_SIZE])?;
                }
            }
            self.pruned.rows_by_size += deleted;
            if deleted == 0 {
                break;
            }
            // The day may have room for gaps again.
            self.waiting.full_day = None;
        }
        Ok(())
    }

    fn delete_all_spans(&mut self, select: &str, resolution_s: i64, before_ns: i64) -> Result<u64> {
        let mut deleted = 0;
        loop {
            let now = self.delete_spans(select, &[resolution_s, before_ns, SPANS_PER_TRANSACTION])?;
            deleted += now;
            if now == 0 {
                return Ok(deleted);
            }
        }
    }

    fn delete_all_rows(&mut self, delete: &str, bound: i64) -> Result<u64> {
        let mut deleted = 0;
        loop {
            let now = self.delete_rows(delete, &[bound, ROWS_PER_TRANSACTION])?;
            deleted += now;
            if now == 0 {
                return Ok(deleted);
            }
        }
    }

    fn delete_spans(&mut self, select: &str, bounds: &[i64]) -> Result<u64> {
        let connection = &mut self.connection;
        let mut delete = || -> rusqlite::Result<u64> {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let spans: Vec<i64> = transaction
                .prepare(select)?
                .query_map(rusqlite::params_from_iter(bounds), |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            for &span in &spans {
                delete_span(&transaction, span)?;
            }
            transaction.commit()?;
            Ok(spans.len() as u64)
        };
        delete().map_err(|error| self.write_error(error))
    }

    fn delete_rows(&mut self, delete: &str, bounds: &[i64]) -> Result<u64> {
        let deleted = self.connection.execute(delete, rusqlite::params_from_iter(bounds));
        deleted.map(|rows| rows as u64).map_err(|error| self.write_error(error))
    }

    /// Free pages are used again before the file grows, so only a large surplus goes back to the file system.
    fn give_back_free_pages(&mut self) -> Result<()> {
        loop {
            let room = self.room()?;
            if room.free_bytes <= (room.max_bytes / 8).max(1 << 20) {
                return Ok(());
            }
            let vacuum = || -> rusqlite::Result<()> {
                // Each step of the statement frees one page.
                let mut vacuum = self.connection.prepare(&format!("PRAGMA incremental_vacuum({PAGES_PER_VACUUM})"))?;
                let mut rows = vacuum.query([])?;
                while rows.next()?.is_some() {}
                Ok(())
            };
            vacuum().map_err(sqlite_error(&self.path, "giving free pages back"))?;
            if self.room()?.free_bytes >= room.free_bytes {
                return Ok(());
            }
        }
    }
}

impl Pruned {
    fn since(&self, earlier: &Pruned) -> Pruned {
        Pruned {
            seconds_by_age: self.seconds_by_age - earlier.seconds_by_age,
            minutes_by_age: self.minutes_by_age - earlier.minutes_by_age,
            spans_by_size: self.spans_by_size - earlier.spans_by_size,
            rows_by_age: self.rows_by_age - earlier.rows_by_age,
            rows_by_size: self.rows_by_size - earlier.rows_by_size,
            gaps_for_longer: self.gaps_for_longer - earlier.gaps_for_longer,
        }
    }
}
