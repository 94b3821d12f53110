//! Ledgers being summed up, before a cause has its number in the database and after, and read from its rows.

use super::loaded;
use rusqlite::Row;
use surefoot_model::{CoreLedger, CpuId, FaultySum, LedgerSum, LostSum, Waiting};

/// What one cause took, from the columns `count, total_ns, max_ns, while_idle_ns`, the first of which has this number.
pub(super) fn lost(row: &Row<'_>, first: usize) -> rusqlite::Result<LostSum> {
    let number = |column: usize| row.get(first + column).map(loaded);
    Ok(LostSum { count: number(0)?, total_ns: number(1)?, max_ns: number(2)?, while_idle_ns: number(3)? })
}

/// The columns of `core` that [`times`] reads.
pub(super) const TIMES: &str = "cpu, wall_ns, idle_ns, user_ns, kernel_ns, unexplained_ns";

/// The core that a column names; `None` for a number that no core can have: the file is anybody's to write.
pub(super) fn cpu(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<CpuId>> {
    Ok(u32::try_from(row.get::<_, i64>(column)?).ok().map(CpuId))
}

/// The times of a core, without its causes, from the columns of [`TIMES`]; `None` for a row of no core.
pub(super) fn times(row: &Row<'_>) -> rusqlite::Result<Option<CoreLedger>> {
    let number = |column: usize| row.get(column).map(loaded);
    let Some(cpu) = cpu(row, 0)? else { return Ok(None) };
    Ok(Some(CoreLedger {
        cpu,
        wall_ns: number(1)?,
        idle_ns: number(2)?,
        user_ns: number(3)?,
        kernel_ns: number(4)?,
        unexplained_ns: number(5)?,
        lost: Vec::new(),
        waiting: None,
    }))
}

/// The columns of `waited` that [`waited`] reads.
pub(super) const WAITED: &str = "cpu, count, total_ns, throttled_count, throttled_ns, moved_away, not_followed";

/// How long tasks waited for a core, from the columns of [`WAITED`]; `None` for a row of no core.
pub(super) fn waited(row: &Row<'_>) -> rusqlite::Result<Option<(CpuId, Waiting)>> {
    let number = |column: usize| row.get(column).map(loaded);
    let Some(cpu) = cpu(row, 0)? else { return Ok(None) };
    let waiting = Waiting {
        count: number(1)?,
        total_ns: number(2)?,
        throttled_count: number(3)?,
        throttled_ns: number(4)?,
        moved_away: number(5)?,
        not_followed: number(6)?,
    };
    Ok(Some((cpu, waiting)))
}

/// Reads the rows of `faulty`.
pub(super) const FAULTY: &str = "SELECT cpu, count, fault FROM faulty WHERE span = ?1";

/// Ledgers that could not be true, from a row of [`FAULTY`]; `None` where this release knows neither core nor fault.
pub(super) fn faulty(row: &Row<'_>) -> rusqlite::Result<Option<FaultySum>> {
    let text: String = row.get(2)?;
    let (cpu, fault) = (cpu(row, 0)?, serde_json::from_str(&text).ok());
    let count = loaded(row.get(1)?);
    Ok(cpu.zip(fault).map(|(cpu, fault)| FaultySum { cpu, count, fault }))
}

/// The sum of one core; its causes are told apart by themselves, or by their numbers in the database: the kind behind a number may
/// be one that only a newer release knows.
pub(super) type CoreSum<Key> = LedgerSum<Key, LostSum>;
