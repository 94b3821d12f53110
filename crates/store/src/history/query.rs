//! Reading the history back.

use super::{loaded, sqlite_error, stored, waiting::word_of};
use crate::{Error, Result};
use rusqlite::types::Type;
use rusqlite::{Connection, OpenFlags, Row, Statement, named_params};
use std::collections::HashMap;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::time::Duration;
use surefoot_model::{Cause, CoreLedger, CpuId, Gap, Histogram, HostDescription, Lost, Verdict};

/// How many windows one answer holds: more than 30 days of minutes.
pub const WINDOWS_MAX: usize = 50_000;

/// How many gaps one answer holds.
pub const GAPS_MAX: usize = 10_000;

/// How finely time is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// Windows of about a second, as they were measured.
    Second,
    /// Minutes of the clock.
    Minute,
}

impl Resolution {
    fn seconds(self) -> i64 {
        match self {
            Resolution::Second => super::write::SECOND,
            Resolution::Minute => super::write::MINUTE,
        }
    }
}

/// One span of the history.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryWindow {
    /// Its start, nanoseconds since 1970.
    pub start_ns: i64,
    /// Its end, nanoseconds since 1970.
    pub end_ns: i64,
    /// The ledger of each core, ascending; causes largest first, without histograms.
    pub cores: Vec<CoreLedger>,
}

/// Which gaps to return. The default is the longest 100 of all.
#[derive(Debug, Clone, PartialEq)]
pub struct GapFilter {
    /// Only gaps that begin in this range, nanoseconds since 1970.
    pub range: Option<Range<i64>>,
    /// Only gaps of this core.
    pub cpu: Option<CpuId>,
    /// Only gaps of this length or more, nanoseconds.
    pub duration_ns_min: u64,
    /// Only gaps with this verdict.
    pub verdict: Option<Verdict>,
    /// How many at most; [`GAPS_MAX`] bounds it.
    pub limit: usize,
}

impl Default for GapFilter {
    fn default() -> Self {
        GapFilter { range: None, cpu: None, duration_ns_min: 0, verdict: None, limit: 100 }
    }
}

/// One gap of the history.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptGap {
    /// When it began, nanoseconds since 1970.
    pub start_ns: i64,
    /// The gap itself, its times monotonic as they were measured.
    pub gap: Gap,
}

/// A read-only connection to a history that another thread writes.
#[derive(Debug)]
pub struct View {
    path: PathBuf,
    connection: Connection,
}

impl View {
    pub(super) fn open(path: &Path) -> Result<View> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(sqlite_error(path, "opening it to read"))?;
        connection.busy_timeout(Duration::from_millis(250)).map_err(sqlite_error(path, "setting the time to wait"))?;
        Ok(View { path: path.to_path_buf(), connection })
    }

    /// As [`super::History::windows`].
    ///
    /// # Errors
    /// As there.
    pub fn windows(&self, range: Range<i64>, resolution: Resolution) -> Result<Vec<HistoryWindow>> {
        windows(&self.connection, &self.path, range, resolution)
    }

    /// As [`super::History::for_each_window`].
    ///
    /// # Errors
    /// As there.
    pub fn for_each_window(
        &self,
        range: Range<i64>,
        resolution: Resolution,
        take: impl FnMut(HistoryWindow) -> ControlFlow<()>,
    ) -> Result<()> {
        for_each_window(&self.connection, &self.path, range, resolution, take)
    }

    /// As [`super::History::gaps`].
    ///
    /// # Errors
    /// As there.
    pub fn gaps(&self, filter: &GapFilter) -> Result<Vec<KeptGap>> {
        gaps(&self.connection, &self.path, filter)
    }

    /// As [`super::History::notices`].
    ///
    /// # Errors
    /// As there.
    pub fn notices(&self, range: Range<i64>) -> Result<Vec<(i64, String)>> {
        notices(&self.connection, &self.path, range)
    }

    /// As [`super::History::hosts`].
    ///
    /// # Errors
    /// As there.
    pub fn hosts(&self) -> Result<Vec<(i64, HostDescription)>> {
        hosts(&self.connection, &self.path)
    }
}

pub(super) fn windows(
    connection: &Connection,
    path: &Path,
    range: Range<i64>,
    resolution: Resolution,
) -> Result<Vec<HistoryWindow>> {
    let mut windows = Vec::new();
    let mut surplus = false;
    for_each_window(connection, path, range, resolution, |window| {
        if windows.len() == WINDOWS_MAX {
            surplus = true;
            return ControlFlow::Break(());
        }
        windows.push(window);
        ControlFlow::Continue(())
    })?;
    if surplus {
        return Err(Error::TooManyWindows { path: path.to_path_buf(), limit: WINDOWS_MAX });
    }
    Ok(windows)
}

pub(super) fn for_each_window(
    connection: &Connection,
    path: &Path,
    range: Range<i64>,
    resolution: Resolution,
    mut take: impl FnMut(HistoryWindow) -> ControlFlow<()>,
) -> Result<()> {
    let mut read = || -> rusqlite::Result<()> {
        // One transaction, so that all windows are of one moment.
        let snapshot = connection.unchecked_transaction()?;
        let mut spans = snapshot.prepare(
            "SELECT id, start_ns, end_ns FROM span
             WHERE resolution_s = ?1 AND start_ns >= ?2 AND start_ns < ?3 ORDER BY start_ns, id",
        )?;
        let mut parts = Parts::new(&snapshot)?;
        let mut rows = spans.query([resolution.seconds(), range.start, range.end])?;
        while let Some(row) = rows.next()? {
            let cores = parts.cores(row.get(0)?)?;
            if take(HistoryWindow { start_ns: row.get(1)?, end_ns: row.get(2)?, cores }).is_break() {
                break;
            }
        }
        Ok(())
    };
    read().map_err(sqlite_error(path, "reading its windows"))
}

/// The statements that read the cores of a span, and the causes by their numbers.
struct Parts<'a> {
    cores: Statement<'a>,
    lost: Statement<'a>,
    causes: HashMap<i64, Cause>,
}

impl<'a> Parts<'a> {
    fn new(connection: &'a Connection) -> rusqlite::Result<Self> {
        let mut select = connection.prepare("SELECT id, kind, name FROM cause")?;
        let causes = select
            .query_map([], |row| Ok((row.get(0)?, Cause { kind: parsed(row, 1)?, name: row.get(2)? })))?
            .collect::<rusqlite::Result<_>>()?;
        Ok(Parts {
            cores: connection.prepare(
                "SELECT cpu, wall_ns, idle_ns, user_ns, kernel_ns, unexplained_ns FROM core
                 WHERE span = ?1 ORDER BY cpu",
            )?,
            lost: connection
                .prepare("SELECT cpu, cause, count, total_ns, max_ns, while_idle_ns FROM lost WHERE span = ?1")?,
            causes,
        })
    }

    fn cores(&mut self, span: i64) -> rusqlite::Result<Vec<CoreLedger>> {
        let mut lost = self.lost(span)?;
        self.cores
            .query_map([span], |row| {
                let cpu: u32 = row.get(0)?;
                Ok(CoreLedger {
                    cpu: CpuId(cpu),
                    wall_ns: loaded(row.get(1)?),
                    idle_ns: loaded(row.get(2)?),
                    user_ns: loaded(row.get(3)?),
                    kernel_ns: loaded(row.get(4)?),
                    lost: lost.remove(&cpu).unwrap_or_default(),
                    unexplained_ns: loaded(row.get(5)?),
                })
            })?
            .collect()
    }

    /// What each core of a span lost, largest first.
    fn lost(&mut self, span: i64) -> rusqlite::Result<HashMap<u32, Vec<Lost>>> {
        let mut all: HashMap<u32, Vec<Lost>> = HashMap::new();
        let mut rows = self.lost.query([span])?;
        while let Some(row) = rows.next()? {
            let number: i64 = row.get(1)?;
            let Some(cause) = self.causes.get(&number) else {
                return Err(unreadable(1, format!("no cause has the number {number}")));
            };
            all.entry(row.get(0)?).or_default().push(Lost {
                cause: cause.clone(),
                count: loaded(row.get(2)?),
                total_ns: loaded(row.get(3)?),
                max_ns: loaded(row.get(4)?),
                while_idle_ns: loaded(row.get(5)?),
                histogram: Histogram::default(),
            });
        }
        for lost in all.values_mut() {
            lost.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.cause.cmp(&b.cause)));
        }
        Ok(all)
    }
}

pub(super) fn gaps(connection: &Connection, path: &Path, filter: &GapFilter) -> Result<Vec<KeptGap>> {
    let range = filter.range.clone().unwrap_or(i64::MIN..i64::MAX);
    let read = || -> rusqlite::Result<Vec<KeptGap>> {
        connection
            .prepare(
                "SELECT start_ns, description FROM gap
                 WHERE start_ns >= :from AND start_ns < :until AND duration_ns >= :shortest
                   AND (:cpu IS NULL OR cpu = :cpu) AND (:verdict IS NULL OR verdict = :verdict)
                 ORDER BY duration_ns DESC, start_ns, id LIMIT :limit",
            )?
            .query_map(
                named_params! {
                    ":from": range.start,
                    ":until": range.end,
                    ":shortest": stored(filter.duration_ns_min),
                    ":cpu": filter.cpu.map(|cpu| cpu.0),
                    ":verdict": filter.verdict.as_ref().map(word_of),
                    ":limit": filter.limit.min(GAPS_MAX) as i64,
                },
                |row| Ok(KeptGap { start_ns: row.get(0)?, gap: from_json(row, 1)? }),
            )?
            .collect()
    };
    read().map_err(sqlite_error(path, "reading its gaps"))
}

pub(super) fn notices(connection: &Connection, path: &Path, range: Range<i64>) -> Result<Vec<(i64, String)>> {
    let read = || -> rusqlite::Result<Vec<_>> {
        connection
            .prepare("SELECT at_ns, text FROM notice WHERE at_ns >= ?1 AND at_ns < ?2 ORDER BY at_ns, id")?
            .query_map([range.start, range.end], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect()
    };
    read().map_err(sqlite_error(path, "reading its notices"))
}

pub(super) fn hosts(connection: &Connection, path: &Path) -> Result<Vec<(i64, HostDescription)>> {
    let read = || -> rusqlite::Result<Vec<_>> {
        connection
            .prepare("SELECT since_ns, description FROM host ORDER BY id")?
            .query_map([], |row| Ok((row.get(0)?, from_json(row, 1)?)))?
            .collect()
    };
    read().map_err(sqlite_error(path, "reading its hosts"))
}

fn from_json<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    serde_json::from_str(&row.get::<_, String>(column)?).map_err(|error| unreadable(column, error.to_string()))
}

fn parsed<T: std::str::FromStr<Err = String>>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    row.get::<_, String>(column)?.parse().map_err(|error| unreadable(column, error))
}

fn unreadable(column: usize, why: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, why.into())
}
