//! Reading the history back.

use super::sums;
use super::{sqlite_error, stored, waiting::word_of};
use crate::{Error, Result};
use rusqlite::{Connection, Row, Statement, ToSql, named_params};
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::ops::{ControlFlow, Deref, Range};
use std::path::Path;
use surefoot_model::{
    Cause, CauseKind, CoreLedger, CpuId, FaultyCore, FaultySum, Gap, HostDescription, Lost, Room, Verdict, Waiting,
    Window,
};

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
    /// Cores whose ledgers could not be true: the watch left them out, or a stranger's file says what cannot be. They are in no
    /// sum.
    pub faulty: Vec<FaultySum>,
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

/// The rows of an answer, and how many are not among them.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer<T> {
    /// What could be read.
    pub rows: Vec<T>,
    /// Rows with words that this release does not know (those of a newer one, which wrote them, or of an older one), or with
    /// numbers that mean nothing.
    pub unknown_count: u64,
    /// Rows beyond what one answer holds, where they are counted.
    pub left_out_count: u64,
}

impl<T> Default for Answer<T> {
    fn default() -> Self {
        Answer { rows: Vec::new(), unknown_count: 0, left_out_count: 0 }
    }
}

impl<T> Answer<T> {
    /// Adds a row; one that could not be read is counted.
    pub(super) fn push(&mut self, row: Option<T>) {
        match row {
            Some(row) => self.rows.push(row),
            None => self.unknown_count += 1,
        }
    }
}

impl<T> Deref for Answer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.rows
    }
}

impl<T> IntoIterator for Answer<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.rows.into_iter()
    }
}

pub(super) fn windows(
    connection: &Connection,
    path: &Path,
    range: Range<i64>,
    resolution: Resolution,
) -> Result<Answer<HistoryWindow>> {
    let mut windows = Vec::new();
    let mut surplus = false;
    let unknown_count = for_each_window(connection, path, range, resolution, |window| {
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
    Ok(Answer { rows: windows, unknown_count, left_out_count: 0 })
}

pub(super) fn for_each_window(
    connection: &Connection,
    path: &Path,
    range: Range<i64>,
    resolution: Resolution,
    take: impl FnMut(HistoryWindow) -> ControlFlow<()>,
) -> Result<u64> {
    let spans = "SELECT id, start_ns, end_ns FROM span
         WHERE resolution_s = ?1 AND start_ns >= ?2 AND start_ns < ?3 ORDER BY start_ns, id";
    let bounds: [&dyn ToSql; 3] = [&resolution.seconds(), &range.start, &range.end];
    for_each_span(connection, spans, &bounds, take).map_err(sqlite_error(path, "reading its windows"))
}

/// The minutes of the range, and those of its seconds that are in no minute yet.
pub(super) fn for_each_minute(
    connection: &Connection,
    path: &Path,
    range: Range<i64>,
    take: impl FnMut(HistoryWindow) -> ControlFlow<()>,
) -> Result<u64> {
    let spans = "SELECT id, start_ns, end_ns FROM span WHERE start_ns >= ?1 AND start_ns < ?2
           AND (resolution_s = ?3
                OR resolution_s = ?4 AND id > (SELECT value FROM state WHERE name = 'rolled_up_span'))
         ORDER BY start_ns, id";
    let bounds: [&dyn ToSql; 4] = [&range.start, &range.end, &super::write::MINUTE, &super::write::SECOND];
    for_each_span(connection, spans, &bounds, take).map_err(sqlite_error(path, "reading its minutes"))
}

/// From the start of the first span of this resolution to the end of the last.
pub(super) fn kept_range(connection: &Connection, path: &Path, resolution: Resolution) -> Result<Option<Range<i64>>> {
    let ends = |row: &Row<'_>| Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, Option<i64>>(1)?));
    let query = "SELECT min(start_ns), max(end_ns) FROM span WHERE resolution_s = ?1";
    let found = connection.query_row(query, [resolution.seconds()], ends);
    let (from, to) = found.map_err(sqlite_error(path, "asking for what it keeps"))?;
    Ok(from.zip(to).map(|(from, to)| from..to))
}

/// Gives each span of the query to `take`; returns how many of their rows had words that are not known here.
fn for_each_span(
    connection: &Connection,
    spans: &str,
    bounds: &[&dyn ToSql],
    mut take: impl FnMut(HistoryWindow) -> ControlFlow<()>,
) -> rusqlite::Result<u64> {
    // One transaction, so that all windows are of one moment.
    let snapshot = connection.unchecked_transaction()?;
    let mut spans = snapshot.prepare(spans)?;
    let mut parts = Parts::new(&snapshot)?;
    let mut rows = spans.query(bounds)?;
    while let Some(row) = rows.next()? {
        let span = row.get(0)?;
        let (cores, left_out) = (parts.cores(span)?, parts.faulty(span)?);
        let (start_ns, end_ns): (i64, i64) = (row.get(1)?, row.get(2)?);
        let (cores, faulty) = checked(cores, left_out, u64::try_from(end_ns.saturating_sub(start_ns)).unwrap_or(0));
        if take(HistoryWindow { start_ns, end_ns, cores, faulty }).is_break() {
            break;
        }
    }
    Ok(parts.unknown_count)
}

/// Takes the ledgers out that cannot be true, and names them beside those that were left out when the span was written.
///
/// A minute holds the windows that begin in it, which may be an hour long, so a core may have more wall time than its span.
fn checked(cores: Vec<CoreLedger>, left_out: Vec<FaultySum>, length_ns: u64) -> (Vec<CoreLedger>, Vec<FaultySum>) {
    let longest_ns = cores.iter().map(|core| core.wall_ns).max().unwrap_or(0);
    let end_ns = length_ns.max(longest_ns.min(WINDOW_NS_MAX));
    let Window { cores, faulty, .. } = Window { cores, end_ns, ..Window::default() }.check();
    let mut all = left_out;
    for FaultyCore { cpu, fault } in faulty {
        let one = FaultySum { cpu, count: 1, fault };
        match all.iter_mut().find(|sum| sum.cpu == cpu) {
            Some(sum) => sum.add(&one),
            None => all.push(one),
        }
    }
    all.sort_by_key(|sum| sum.cpu);
    (cores, all)
}

/// The longest interval of a watch.
const WINDOW_NS_MAX: u64 = 3_600 * 1_000_000_000;

/// A statement for a table that files of earlier versions lack.
fn prepare_for<'a>(connection: &'a Connection, table: &str, query: &str) -> rusqlite::Result<Option<Statement<'a>>> {
    let there = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1)";
    let is_there = connection.query_row(there, [table], |row| row.get::<_, bool>(0))?;
    is_there.then(|| connection.prepare(query)).transpose()
}

/// What the cores of a span lost.
#[derive(Default)]
struct LostOfCores {
    /// Largest first.
    named: HashMap<CpuId, Vec<Lost>>,
    /// To causes that have no name here.
    unnamed_ns: HashMap<CpuId, u64>,
}

/// The statements that read the cores of a span, and the causes by their numbers.
struct Parts<'a> {
    cores: Statement<'a>,
    lost: Statement<'a>,
    /// `None` in a file of a version that did not keep it.
    waited: Option<Statement<'a>>,
    faulty: Option<Statement<'a>>,
    /// `None` for a kind that only another release knows.
    causes: HashMap<i64, Option<Cause>>,
    /// Rows of `lost` of such kinds.
    unknown_count: u64,
}

impl<'a> Parts<'a> {
    fn new(connection: &'a Connection) -> rusqlite::Result<Self> {
        let mut select = connection.prepare("SELECT id, kind, name FROM cause")?;
        let cause = |row: &Row<'_>| {
            let (kind, name) = (row.get::<_, String>(1)?.parse::<CauseKind>(), row.get(2)?);
            Ok((row.get(0)?, kind.ok().map(|kind| Cause { kind, name })))
        };
        let causes = select.query_map([], cause)?.collect::<rusqlite::Result<_>>()?;
        let waited = format!("SELECT {} FROM waited WHERE span = ?1", sums::WAITED);
        let waited = prepare_for(connection, "waited", &waited)?;
        let faulty = prepare_for(connection, "faulty", sums::FAULTY)?;
        Ok(Parts {
            cores: connection.prepare(&format!("SELECT {} FROM core WHERE span = ?1 ORDER BY cpu", sums::TIMES))?,
            lost: connection
                .prepare("SELECT cpu, cause, count, total_ns, max_ns, while_idle_ns FROM lost WHERE span = ?1")?,
            waited,
            faulty,
            causes,
            unknown_count: 0,
        })
    }

    fn cores(&mut self, span: i64) -> rusqlite::Result<Vec<CoreLedger>> {
        let mut lost = self.lost(span)?;
        let mut waited = self.waited(span)?;
        let mut rows = self.cores.query([span])?;
        let mut cores = Vec::new();
        while let Some(row) = rows.next()? {
            let Some(times) = sums::times(row)? else {
                self.unknown_count += 1;
                continue;
            };
            // What only another release can name is unexplained to this one, so that the parts still add up.
            let unexplained_ns =
                times.unexplained_ns.saturating_add(lost.unnamed_ns.get(&times.cpu).copied().unwrap_or(0));
            let lost = lost.named.remove(&times.cpu).unwrap_or_default();
            let waiting = waited.remove(&times.cpu);
            cores.push(CoreLedger { lost, unexplained_ns, waiting, ..times });
        }
        Ok(cores)
    }

    fn faulty(&mut self, span: i64) -> rusqlite::Result<Vec<FaultySum>> {
        let mut all = Vec::new();
        let Some(faulty) = &mut self.faulty else { return Ok(all) };
        let mut rows = faulty.query([span])?;
        while let Some(row) = rows.next()? {
            match sums::faulty(row)? {
                Some(faulty) => all.push(faulty),
                None => self.unknown_count += 1,
            }
        }
        Ok(all)
    }

    fn waited(&mut self, span: i64) -> rusqlite::Result<HashMap<CpuId, Waiting>> {
        let mut all = HashMap::new();
        let Some(waited) = &mut self.waited else { return Ok(all) };
        let mut rows = waited.query([span])?;
        while let Some(row) = rows.next()? {
            match sums::waited(row)? {
                Some((cpu, waiting)) => {
                    all.insert(cpu, waiting);
                }
                None => self.unknown_count += 1,
            }
        }
        Ok(all)
    }

    fn lost(&mut self, span: i64) -> rusqlite::Result<LostOfCores> {
        let mut all = LostOfCores::default();
        let mut rows = self.lost.query([span])?;
        while let Some(row) = rows.next()? {
            let Some(cpu) = sums::cpu(row, 0)? else {
                self.unknown_count += 1;
                continue;
            };
            let sum = sums::lost(row, 2)?;
            match self.causes.get(&row.get(1)?) {
                Some(Some(cause)) => all.named.entry(cpu).or_default().push(sum.named(cause.clone())),
                // A kind of another release, or a number that stands for nothing.
                Some(None) | None => {
                    self.unknown_count += 1;
                    let unnamed = all.unnamed_ns.entry(cpu).or_default();
                    *unnamed = unnamed.saturating_add(sum.total_ns);
                }
            }
        }
        for lost in all.named.values_mut() {
            Lost::sort(lost);
        }
        Ok(all)
    }
}

pub(super) fn gaps(connection: &Connection, path: &Path, filter: &GapFilter) -> Result<Answer<KeptGap>> {
    let range = filter.range.clone().unwrap_or(i64::MIN..i64::MAX);
    let limit = filter.limit.min(GAPS_MAX);
    let read = || -> rusqlite::Result<Answer<KeptGap>> {
        let mut answer = Answer::default();
        let mut select = connection.prepare(
            "SELECT start_ns, description FROM gap
             WHERE start_ns >= :from AND start_ns < :until AND duration_ns >= :shortest
               AND (:cpu IS NULL OR cpu = :cpu) AND (:verdict IS NULL OR verdict IN (:verdict, :former_verdict))
             ORDER BY duration_ns DESC, start_ns, id",
        )?;
        let mut rows = select.query(named_params! {
            ":from": range.start,
            ":until": range.end,
            ":shortest": stored(filter.duration_ns_min),
            ":cpu": filter.cpu.map(|cpu| cpu.0),
            ":verdict": filter.verdict.as_ref().map(word_of),
            ":former_verdict": filter.verdict.and_then(Verdict::former_word),
        })?;
        while answer.rows.len() < limit
            && let Some(row) = rows.next()?
        {
            let start_ns = row.get(0)?;
            answer.push(from_json(row, 1)?.map(|gap| KeptGap { start_ns, gap }));
        }
        Ok(answer)
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

pub(super) fn rooms(connection: &Connection, path: &Path, has_findings: bool) -> Result<Vec<Room>> {
    let rooms = match has_findings {
        true => "SELECT room FROM finding UNION SELECT room FROM record",
        false => "SELECT 'stall' WHERE FALSE",
    };
    let read = || -> rusqlite::Result<Vec<Room>> {
        let mut found = Vec::new();
        for (room, table) in [(Room::Stall, "span"), (Room::Stall, "gap"), (Room::Watch, "notice")] {
            let any = format!("SELECT EXISTS (SELECT 1 FROM {table})");
            found.extend(connection.query_row(&any, [], |row| row.get::<_, bool>(0))?.then_some(room));
        }
        let mut select = connection.prepare(rooms)?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            found.extend(from_word::<Room>(row, 0)?);
        }
        Ok(found)
    };
    read().map_err(sqlite_error(path, "asking for its rooms"))
}

pub(super) fn hosts(connection: &Connection, path: &Path) -> Result<Answer<(i64, HostDescription)>> {
    let read = || -> rusqlite::Result<_> {
        let mut answer = Answer::default();
        let mut select = connection.prepare("SELECT since_ns, description FROM host ORDER BY id")?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let since_ns = row.get(0)?;
            answer.push(from_json(row, 1)?.map(|host| (since_ns, host)));
        }
        Ok(answer)
    };
    read().map_err(sqlite_error(path, "reading its hosts"))
}

/// `None` where the text has another shape than this release knows.
pub(super) fn from_json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<T>> {
    Ok(serde_json::from_str(&row.get::<_, String>(column)?).ok())
}

/// A plain enum from its word in JSON; `None` for a word that this release does not know.
pub(super) fn from_word<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<T>> {
    Ok(serde_json::from_value(serde_json::Value::String(row.get(column)?)).ok())
}
