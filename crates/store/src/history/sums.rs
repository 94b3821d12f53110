//! Ledgers being summed up, before a cause has its number in the database and after, and read from its rows.

use super::loaded;
use rusqlite::Row;
use std::collections::BTreeMap;
use surefoot_model::{Cause, CoreLedger, CpuId, FaultySum, Lost, Waiting};

/// What one cause took. Not a [`Lost`], because that names its cause, which a number in the database stands for here;
/// and the kind behind a number may be one that only a newer release knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LostSum {
    pub count: u64,
    pub total_ns: u64,
    pub max_ns: u64,
    pub while_idle_ns: u64,
}

impl LostSum {
    pub(super) fn of(lost: &Lost) -> LostSum {
        LostSum { count: lost.count, total_ns: lost.total_ns, max_ns: lost.max_ns, while_idle_ns: lost.while_idle_ns }
    }

    /// From the columns `count, total_ns, max_ns, while_idle_ns`, the first of which has this number.
    pub(super) fn read(row: &Row<'_>, first: usize) -> rusqlite::Result<LostSum> {
        let number = |column: usize| row.get(first + column).map(loaded);
        Ok(LostSum { count: number(0)?, total_ns: number(1)?, max_ns: number(2)?, while_idle_ns: number(3)? })
    }

    pub(super) fn add(&mut self, other: LostSum) {
        self.count = self.count.saturating_add(other.count);
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.while_idle_ns = self.while_idle_ns.saturating_add(other.while_idle_ns);
    }

    /// The row of a report.
    pub(super) fn named(self, cause: Cause) -> Lost {
        Lost { while_idle_ns: self.while_idle_ns, ..Lost::new(cause, self.count, self.total_ns, self.max_ns) }
    }
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

/// The ledger of one core with its causes at hand; `Key` tells them apart.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CoreSum<Key: Ord> {
    /// Its own list of causes stays empty.
    pub times: CoreLedger,
    pub lost: BTreeMap<Key, LostSum>,
}

impl<Key: Ord> CoreSum<Key> {
    pub(super) fn empty(cpu: CpuId) -> CoreSum<Key> {
        CoreSum { times: CoreLedger::empty(cpu), lost: BTreeMap::new() }
    }

    pub(super) fn add_lost(&mut self, key: Key, lost: LostSum) {
        self.lost.entry(key).or_default().add(lost);
    }
}

impl CoreSum<Cause> {
    pub(super) fn add(&mut self, core: &CoreLedger) {
        self.times.add_times(core);
        for lost in &core.lost {
            self.add_lost(lost.cause.clone(), LostSum::of(lost));
        }
    }
}
