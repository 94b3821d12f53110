//! What happened in a room at one time, kept one by one: a job's decision, a source that began to fail.

use super::findings::NAME_BYTES_MAX;
use super::query::{self, Answer};
use super::waiting::{WaitingRecord, word_of};
use super::{realtime_ns, sqlite_error};
use crate::Result;
use rusqlite::{Connection, Row, Transaction, params};
use serde::Serialize;
use std::ops::Range;
use std::path::Path;
use surefoot_model::{Event, Happened, Room, SourceReport, StreamClock, Subject, SubjectKind};

/// How many records one answer holds: the newest.
pub const RECORDS_MAX: usize = 10_000;

/// Something that happened, as its room described it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KeptRecord {
    /// Where it happened.
    pub room: Room,
    /// What happened, in one word of the room's.
    pub kind: String,
    /// To what.
    pub subject: Subject,
    /// When, nanoseconds since 1970.
    pub at_realtime_ns: i64,
    /// The whole of it: of the watch a [`SourceReport`], of any other room one of [`surefoot_model::HappenedBody`].
    pub body: serde_json::Value,
}

/// What of an event is a record. `None` for an event that has to wait for its host, without which its time of day is not
/// known.
pub(super) fn of(event: &Event, clock: &StreamClock) -> Option<Vec<Record>> {
    match event {
        Event::Source(report) => clock.offset_ns_at(report.at_ns).map(|offset_ns| vec![of_source(report, offset_ns)]),
        _ => Some(event.happened().into_iter().map(of_happened).collect()),
    }
}

/// A record on its way into the history.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Record {
    room: Room,
    kind: String,
    subject: Subject,
    at_ns: i64,
    /// JSON; empty where it could not be made.
    body: String,
}

impl Record {
    fn new(room: Room, kind: String, subject: Subject, at_ns: i64, body: &impl Serialize) -> Record {
        Record { room, kind, subject, at_ns, body: serde_json::to_string(body).unwrap_or_default() }
    }

    /// The row, unless a limit keeps it out.
    pub(super) fn waiting(self, body_bytes_max: usize) -> Option<WaitingRecord> {
        let Record { room, kind, subject, at_ns, body } = self;
        if body.is_empty() || body.len() > body_bytes_max || subject.name.len() > NAME_BYTES_MAX {
            return None;
        }
        // The same one twice is one that was read again; `write` tells it from another one of the same time.
        let dedupe = format!("{room}/{kind}/{}/{}/{at_ns}", subject.kind.as_str(), subject.name);
        Some(WaitingRecord { room, kind, subject, at_ns, dedupe, body })
    }
}

fn of_source(report: &SourceReport, offset_ns: i64) -> Record {
    let subject = Subject::new(SubjectKind::Source, &report.source);
    Record::new(Room::Watch, word_of(&report.state), subject, realtime_ns(report.at_ns, offset_ns), report)
}

fn of_happened(happened: Happened<'_>) -> Record {
    let Happened { room, kind, subject, at_realtime_ns, body } = happened;
    Record::new(room, kind.to_owned(), subject, realtime_ns(at_realtime_ns, 0), &body)
}

/// Writes records; those that are there already stay as they are. Returns how many of them there were.
pub(super) fn write<'a>(
    transaction: &Transaction<'_>,
    records: impl IntoIterator<Item = &'a WaitingRecord>,
) -> rusqlite::Result<u64> {
    let mut repeated = 0;
    let mut insert = transaction.prepare(
        "INSERT OR IGNORE INTO record (room, kind, subject_kind, subject, at_ns, dedupe, body)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    let mut select = transaction.prepare("SELECT body FROM record WHERE dedupe = ?1")?;
    for WaitingRecord { room, kind, subject, at_ns, dedupe, body } in records {
        let mut insert = |dedupe: &str| {
            insert.execute(params![room.as_str(), kind, subject.kind.as_str(), subject.name, at_ns, dedupe, body])
        };
        if insert(dedupe)? > 0 {
            continue;
        }
        let there: String = select.query_row([dedupe], |row| row.get(0))?;
        let is_another = there != *body && what(&there) != what(body);
        if !is_another || insert(&format!("{dedupe}/{}", what(body)))? == 0 {
            repeated += 1;
        }
    }
    Ok(repeated)
}

/// What tells two things apart that happened to one subject at one time: deeds on two parts, two checks of one run, two tiers. The
/// whole body would not do, since a later release may say more of the same thing.
fn what(body: &str) -> String {
    const NAMES: [&str; 11] =
        ["action", "target", "name", "tier", "generation", "place", "from", "to", "source", "location", "detail"];
    let Ok(serde_json::Value::Object(fields)) = serde_json::from_str(body) else { return String::new() };
    let told = NAMES.iter().filter_map(|name| fields.get(*name));
    told.map(|value| value.to_string()).collect::<Vec<_>>().join("/")
}

/// The records of the range, oldest first; the newest [`RECORDS_MAX`].
pub(super) fn read(
    connection: &Connection,
    path: &Path,
    range: Range<i64>,
    room: Option<Room>,
) -> Result<Answer<KeptRecord>> {
    let read = || -> rusqlite::Result<Answer<KeptRecord>> {
        let mut answer = Answer::default();
        let mut select = connection.prepare(
            "SELECT room, kind, subject_kind, subject, at_ns, body FROM record
             WHERE at_ns >= ?1 AND at_ns < ?2 AND (?3 IS NULL OR room = ?3) ORDER BY at_ns DESC, id DESC",
        )?;
        let mut rows = select.query(params![range.start, range.end, room.map(Room::as_str)])?;
        while let Some(row) = rows.next()? {
            if answer.rows.len() < RECORDS_MAX {
                answer.push(kept(row)?);
            } else {
                answer.left_out_count += 1;
            }
        }
        answer.rows.reverse();
        Ok(answer)
    };
    read().map_err(sqlite_error(path, "reading its records"))
}

/// `None` where a word is not known to this release.
fn kept(row: &Row<'_>) -> rusqlite::Result<Option<KeptRecord>> {
    let (Some(room), Some(subject_kind), Some(body)) =
        (query::from_word(row, 0)?, query::from_word(row, 2)?, query::from_json(row, 5)?)
    else {
        return Ok(None);
    };
    let subject = Subject { kind: subject_kind, name: row.get(3)? };
    Ok(Some(KeptRecord { room, kind: row.get(1)?, subject, at_realtime_ns: row.get(4)?, body }))
}
