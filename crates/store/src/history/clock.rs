//! Changes of the wall clock: between two of them, the history's times are those that the clock showed then.

use super::query::Answer;
use super::{loaded, realtime_ns, sqlite_error, stored};
use crate::Result;
use rusqlite::{Connection, Row, Transaction, params};
use serde::Serialize;
use std::ops::Range;
use std::path::Path;
use surefoot_model::ClockChange;

/// How many changes one answer holds: the newest.
pub const CLOCK_CHANGES_MAX: usize = 1_000;

/// How many changes are kept.
const KEPT_MAX: i64 = 1_000;

/// A change of the wall clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeptClockChange {
    /// When, by the clock after it, nanoseconds since 1970.
    pub at_realtime_ns: i64,
    /// The same moment by the clock before it.
    pub former_realtime_ns: i64,
    /// The change, its times monotonic as they were measured.
    pub change: ClockChange,
}

pub(super) fn write<'a>(
    transaction: &Transaction<'_>,
    changes: impl IntoIterator<Item = &'a ClockChange>,
) -> rusqlite::Result<()> {
    let mut insert = transaction.prepare(
        "INSERT OR IGNORE INTO clock (at_ns, former_ns, monotonic_ns, offset_ns, slept_ns) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    let mut is_any = false;
    for change in changes {
        let ClockChange { at_ns, former_offset_ns, realtime_offset_ns, slept_ns } = *change;
        let (now_ns, former_ns) = (realtime_ns(at_ns, realtime_offset_ns), realtime_ns(at_ns, former_offset_ns));
        insert.execute(params![now_ns, former_ns, stored(at_ns), realtime_offset_ns, stored(slept_ns)])?;
        is_any = true;
    }
    if is_any {
        transaction.execute("DELETE FROM clock WHERE id <= (SELECT max(id) FROM clock) - ?1", [KEPT_MAX])?;
    }
    Ok(())
}

/// The changes that lie in the range by the clock before or after them, oldest first; the newest [`CLOCK_CHANGES_MAX`].
pub(super) fn read(connection: &Connection, path: &Path, range: Range<i64>) -> Result<Answer<KeptClockChange>> {
    let read = || -> rusqlite::Result<Answer<KeptClockChange>> {
        let mut answer = Answer::default();
        let mut select = connection.prepare(
            "SELECT at_ns, former_ns, monotonic_ns, offset_ns, slept_ns FROM clock
             WHERE at_ns >= ?1 AND at_ns < ?2 OR former_ns >= ?1 AND former_ns < ?2 ORDER BY id DESC",
        )?;
        let mut rows = select.query([range.start, range.end])?;
        while let Some(row) = rows.next()? {
            if answer.rows.len() < CLOCK_CHANGES_MAX {
                answer.push(Some(kept(row)?));
            } else {
                answer.left_out_count += 1;
            }
        }
        answer.rows.reverse();
        Ok(answer)
    };
    read().map_err(sqlite_error(path, "reading the changes of its clock"))
}

fn kept(row: &Row<'_>) -> rusqlite::Result<KeptClockChange> {
    let (at_realtime_ns, former_realtime_ns): (i64, i64) = (row.get(0)?, row.get(1)?);
    let realtime_offset_ns: i64 = row.get(3)?;
    let change = ClockChange {
        at_ns: loaded(row.get(2)?),
        former_offset_ns: realtime_offset_ns.saturating_add(former_realtime_ns.saturating_sub(at_realtime_ns)),
        realtime_offset_ns,
        slept_ns: loaded(row.get(4)?),
    };
    Ok(KeptClockChange { at_realtime_ns, former_realtime_ns, change })
}
