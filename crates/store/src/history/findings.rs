//! Findings that came and went: the board of the moment held against the one before.
//!
//! A row of `finding` is one stretch in which a finding held with the same severity and certainty. The board is at hand
//! in memory, as the rows that hold; what changes waits as whole rows, which are written by their number, so that a
//! commit that failed is simply done again.

use super::query::{self, Answer};
use super::sqlite_error;
use super::waiting::{SECOND_NS, Waiting, cut, word_of};
use crate::Result;
use rusqlite::{Connection, Row, Transaction, params};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use surefoot_model::{Finding, Severity, Subject};

/// How many findings one answer holds: the newest.
pub const FINDINGS_MAX: usize = 10_000;

/// Findings that hold at one time; further ones are left out and counted.
const BOARD_MAX: usize = 500;

/// A sentence whose numbers change is written again after this time at the earliest.
const SENTENCE_PERIOD_NS: i64 = 60 * SECOND_NS;

/// How often the file is told that the board still holds. A process that dies leaves that much in doubt.
const SEEN_PERIOD_NS: i64 = 10 * SECOND_NS;

/// Keys, and names of subjects, beyond this length are a fault of their room.
pub(super) const NAME_BYTES_MAX: usize = 1 << 10;

/// A finding, and the time in which it held.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KeptFinding {
    /// What was found, in its last words; while it holds, in those of the last minute.
    pub finding: Finding,
    /// When it came to the board with this severity and certainty, nanoseconds since 1970.
    pub from_realtime_ns: i64,
    /// When it was last on the board, within ten seconds, nanoseconds since 1970.
    pub last_seen_realtime_ns: i64,
    /// When it went; `None` while it holds, and of a writer that died until another one opens the history.
    pub until_realtime_ns: Option<i64>,
}

/// A finding that was not seen for longer than this and has no end: its watch died.
const UNSEEN_NS: i64 = 60 * SECOND_NS;

impl KeptFinding {
    /// Whether it holds; `None` where that is not known: who would have written its end died. `has_writer` is
    /// [`super::View::has_writer`], and `asked_ns` when that was asked, nanoseconds since 1970.
    pub fn holds(&self, has_writer: Option<bool>, asked_ns: i64) -> Option<bool> {
        if self.until_realtime_ns.is_some() {
            return Some(false);
        }
        let is_unseen = self.last_seen_realtime_ns.saturating_add(UNSEEN_NS) < asked_ns;
        (has_writer != Some(false) && !is_unseen).then_some(true)
    }
}

/// One row of `finding`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FindingRow {
    finding: Finding,
    from_ns: i64,
    last_seen_ns: i64,
    until_ns: Option<i64>,
}

/// What a row keeps as JSON, because nobody searches it.
#[derive(Serialize, Deserialize)]
struct Body {
    /// Empty where an older release wrote the row.
    #[serde(default)]
    rule: String,
    #[serde(default)]
    evidence: Vec<String>,
    #[serde(default)]
    since_realtime_ns: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uid: Option<u32>,
}

impl FindingRow {
    /// What the row takes in memory, near enough to bound it.
    pub(super) fn bytes(&self) -> usize {
        let Finding { key, rule, subject, sentence, evidence, .. } = &self.finding;
        let evidence: usize = evidence.iter().map(|line| size_of::<String>() + line.len()).sum();
        size_of::<FindingRow>() + key.len() + rule.len() + subject.name.len() + sentence.len() + evidence
    }
}

/// A finding that holds.
#[derive(Debug)]
struct Held {
    id: i64,
    row: FindingRow,
    /// When its sentence was written last.
    written_ns: i64,
    /// Its newest words, where they are not written yet; they are when it goes.
    newest: Option<Finding>,
}

/// The findings that hold, by key.
#[derive(Debug)]
pub(super) struct Board {
    held: BTreeMap<String, Held>,
    /// The newest time at which the board was known to hold.
    seen_ns: i64,
    /// As far as the file knows.
    seen_written_ns: i64,
    /// The number of the next row.
    next_id: i64,
    /// Findings that the last board had too many of.
    left_out: u64,
    body_bytes_max: usize,
}

impl Board {
    pub(super) fn set_body_bytes_max(&mut self, bytes: usize) {
        self.body_bytes_max = bytes;
    }

    pub(super) fn new(body_bytes_max: usize) -> Board {
        Board { held: BTreeMap::new(), seen_ns: 0, seen_written_ns: 0, next_id: 1, left_out: 0, body_bytes_max }
    }

    /// Rows are numbered on from those that are there.
    pub(super) fn load(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let last: Option<i64> = connection.query_row("SELECT max(id) FROM finding", [], |row| row.get(0))?;
        self.next_id = last.map_or(1, |last| last.saturating_add(1));
        Ok(())
    }

    /// Replaces the board by that of this time; what came, changed or went waits for the next commit.
    pub(super) fn replace(&mut self, at_ns: i64, board: &[Finding], waiting: &mut Waiting) {
        let mut shown = BTreeSet::new();
        let mut left_out = 0;
        for finding in board.iter().filter(|finding| finding.severity > Severity::Ok) {
            let is_held = self.held.contains_key(&finding.key);
            let is_too_long = finding.key.len().max(finding.subject.name.len()) > NAME_BYTES_MAX;
            if is_too_long || (!is_held && self.held.len() >= BOARD_MAX) || shown.contains(finding.key.as_str()) {
                left_out += 1;
                continue;
            }
            shown.insert(finding.key.as_str());
            self.show(at_ns, finding, waiting);
        }
        let gone: Vec<String> = self.held.keys().filter(|key| !shown.contains(key.as_str())).cloned().collect();
        for key in gone {
            self.close(at_ns, &key, waiting);
        }
        // The same ones are left out of each board; only further ones count.
        waiting.dropped.findings += left_out - self.left_out.min(left_out);
        self.left_out = left_out;
        waiting.newest_ns = waiting.newest_ns.max(at_ns);
        // The clock may have been set back.
        self.seen_ns = at_ns;
        self.seen_written_ns = self.seen_written_ns.min(at_ns);
        self.saw(at_ns, waiting);
    }

    /// The board still holds at this time, because something was recorded then and no other board was.
    pub(super) fn saw(&mut self, at_ns: i64, waiting: &mut Waiting) {
        self.seen_ns = self.seen_ns.max(at_ns);
        if !self.held.is_empty() && self.seen_ns >= self.seen_written_ns.saturating_add(SEEN_PERIOD_NS) {
            self.seen_written_ns = self.seen_ns;
            waiting.seen_ns = Some(self.seen_ns);
        }
    }

    /// Nobody looks any more: what holds was last seen now.
    pub(super) fn close_all(&mut self, waiting: &mut Waiting) {
        for key in self.held.keys().cloned().collect::<Vec<_>>() {
            self.close(self.seen_ns, &key, waiting);
        }
    }

    fn show(&mut self, at_ns: i64, finding: &Finding, waiting: &mut Waiting) {
        if let Some(held) = self.held.get_mut(&finding.key) {
            let was = &held.row.finding;
            if (was.severity, was.certainty) == (finding.severity, finding.certainty) {
                let is_due = at_ns >= held.written_ns.saturating_add(SENTENCE_PERIOD_NS);
                if (&was.sentence, &was.evidence) == (&finding.sentence, &finding.evidence) {
                    held.newest = None;
                } else if is_due {
                    held.row.finding = bounded(finding, self.body_bytes_max);
                    held.row.last_seen_ns = at_ns.max(held.row.last_seen_ns);
                    (held.written_ns, held.newest) = (at_ns, None);
                    waiting.add_finding(held.id, held.row.clone());
                } else {
                    held.newest = Some(bounded(finding, self.body_bytes_max));
                }
                return;
            }
            self.close(at_ns, &finding.key, waiting);
        }
        let finding = bounded(finding, self.body_bytes_max);
        let key = finding.key.clone();
        let row = FindingRow { finding, from_ns: at_ns, last_seen_ns: at_ns, until_ns: None };
        let id = self.next_id;
        self.next_id += 1;
        waiting.add_finding(id, row.clone());
        self.held.insert(key, Held { id, row, written_ns: at_ns, newest: None });
    }

    fn close(&mut self, at_ns: i64, key: &str, waiting: &mut Waiting) {
        if let Some(Held { id, mut row, newest, .. }) = self.held.remove(key) {
            row.finding = newest.unwrap_or(row.finding);
            // A clock that was set back ends nothing before it was seen.
            let until_ns = at_ns.max(row.last_seen_ns);
            let last_seen_ns = self.seen_ns.clamp(row.last_seen_ns, until_ns);
            waiting.add_finding(id, FindingRow { last_seen_ns, until_ns: Some(until_ns), ..row });
        }
    }

    /// Writes what waits of findings.
    pub(super) fn write(&self, transaction: &Transaction<'_>, waiting: &Waiting) -> rusqlite::Result<()> {
        let mut write = transaction.prepare(
            "INSERT OR REPLACE INTO finding (id, key, room, subject_kind, subject, severity, certainty, sentence, body,
                                             from_ns, last_seen_ns, until_ns)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?;
        for (id, row) in &waiting.findings {
            // Only who may see everything reads the history.
            let Finding {
                key,
                room,
                rule,
                subject,
                severity,
                certainty,
                sentence,
                evidence,
                since_realtime_ns,
                uid,
                public: _,
            } = &row.finding;
            let (rule, evidence) = (rule.clone(), evidence.clone());
            let body = Body { rule, evidence, since_realtime_ns: *since_realtime_ns, uid: *uid };
            let body = serde_json::to_string(&body).unwrap_or_default();
            write.execute(params![
                id,
                key,
                room.as_str(),
                subject.kind.as_str(),
                subject.name,
                severity.as_str(),
                word_of(certainty),
                sentence,
                body,
                row.from_ns,
                row.last_seen_ns,
                row.until_ns
            ])?;
        }
        if let Some(seen_ns) = waiting.seen_ns {
            let still = "UPDATE finding SET last_seen_ns = max(last_seen_ns, ?1) WHERE until_ns IS NULL";
            transaction.execute(still, [seen_ns])?;
        }
        Ok(())
    }

    /// Closes rows that hold in the file but not here: of a process that died, and of changes that were given up.
    pub(super) fn close_strays(&self, connection: &Connection) -> rusqlite::Result<()> {
        let held: BTreeSet<i64> = self.held.values().map(|held| held.id).collect();
        let open: Vec<i64> = connection
            .prepare("SELECT id FROM finding WHERE until_ns IS NULL")?
            .query_map([], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        for id in open.into_iter().filter(|id| !held.contains(id)) {
            connection.execute("UPDATE finding SET until_ns = max(from_ns, last_seen_ns) WHERE id = ?1", [id])?;
        }
        Ok(())
    }
}

/// The finding within the limits of a row; says how much of its evidence is left out.
fn bounded(finding: &Finding, body_bytes_max: usize) -> Finding {
    let mut bounded = Finding { sentence: cut(&finding.sentence).to_owned(), evidence: Vec::new(), ..finding.clone() };
    let mut bytes = 0;
    for (number, line) in finding.evidence.iter().enumerate() {
        bytes += line.len() + size_of::<String>();
        if bytes > body_bytes_max {
            bounded.evidence.push(format!("({} more lines were too long to keep)", finding.evidence.len() - number));
            break;
        }
        bounded.evidence.push(line.clone());
    }
    bounded
}

/// The findings that held at any time of the range, by the time at which they came; the newest [`FINDINGS_MAX`].
pub(super) fn read(connection: &Connection, path: &Path, range: Range<i64>) -> Result<Answer<KeptFinding>> {
    let read = || -> rusqlite::Result<Answer<KeptFinding>> {
        let mut answer = Answer::default();
        // One that holds still held when it was last seen, and is believed to for a while after.
        let mut select = connection.prepare(
            "SELECT key, room, subject_kind, subject, severity, certainty, sentence, body,
                    from_ns, last_seen_ns, until_ns
             FROM finding WHERE from_ns < ?2 AND coalesce(until_ns, last_seen_ns + ?3) >= ?1
             ORDER BY from_ns DESC, id DESC",
        )?;
        let mut rows = select.query([range.start, range.end, SENTENCE_PERIOD_NS])?;
        while let Some(row) = rows.next()? {
            if answer.rows.len() < FINDINGS_MAX {
                answer.push(kept(row)?);
            } else {
                answer.left_out_count += 1;
            }
        }
        answer.rows.reverse();
        Ok(answer)
    };
    read().map_err(sqlite_error(path, "reading its findings"))
}

/// `None` where a word is not known to this release.
fn kept(row: &Row<'_>) -> rusqlite::Result<Option<KeptFinding>> {
    let words = (query::from_word(row, 1)?, query::from_word(row, 2)?, query::from_word(row, 4)?);
    let (Some(room), Some(kind), Some(severity)) = words else { return Ok(None) };
    let (Some(certainty), Some(body)) = (query::from_word(row, 5)?, query::from_json::<Body>(row, 7)?) else {
        return Ok(None);
    };
    let key: String = row.get(0)?;
    let rule = if body.rule.is_empty() { Finding::rule_in(&key).to_owned() } else { body.rule };
    let finding = Finding {
        key,
        room,
        rule,
        subject: Subject { kind, name: row.get(3)? },
        severity,
        certainty,
        sentence: row.get(6)?,
        evidence: body.evidence,
        since_realtime_ns: body.since_realtime_ns,
        uid: body.uid,
        public: None,
    };
    Ok(Some(KeptFinding {
        finding,
        from_realtime_ns: row.get(8)?,
        last_seen_realtime_ns: row.get(9)?,
        until_realtime_ns: row.get(10)?,
    }))
}
