//! Cases as they are now.

use super::sql::{Answer, Row, Sql, Trouble, Value};
use super::{CaseQuery, CaseStore, MachineLimits};
use crate::{Error, Result};
use std::collections::{BTreeMap, HashMap, HashSet};
use surefoot_model::{Case, CaseState, Severity, UnreadCase};

/// The columns of a case but its number, in the order in which they are written.
pub(super) const COLUMNS: &str =
    "host, service, alert_key, state, is_open, state_since_ns, revision, lease_fence, lease_until_ns, body";
/// Closed cases that one decision is told of: the newest.
const CLOSED_MAX: u64 = 50_000;
/// Cases whose text is asked for at once.
const BODIES_AT_ONCE: usize = 500;

/// What changes of a case without a new revision, and what stands beside its text. The words of a case's own row are 2 where there is no
/// alert.
const MARKED: &str =
    "SELECT c.id, c.revision, c.lease_until_ns, c.is_open, coalesce(a.is_firing, 2), coalesce(a.severity, 0),
    c.host, c.service, c.alert_key, c.state, c.state_since_ns";
const FROM: &str = "FROM remedy_case c LEFT JOIN remedy_alert a ON a.host = c.host AND a.alert_key = c.alert_key";

fn marks() -> String {
    format!("{MARKED} {FROM}")
}

/// The same, and its text.
pub(super) fn whole() -> String {
    format!("{MARKED}, c.body {FROM}")
}

/// Where the text stands among the columns of [`whole`].
pub(super) const BODY: usize = 11;

/// How many of what there are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Cases by state.
    pub cases: BTreeMap<String, u64>,
    /// Alerts that are known.
    pub alerts: u64,
    /// Alerts that hold.
    pub alerts_firing: u64,
    /// Hosts that tell of themselves.
    pub hosts: u64,
    /// Whether everything is paused.
    pub is_paused: bool,
    /// Host names under which two machines report now, a sentence each; at most 16.
    pub rivals: Vec<String>,
    /// Cases that are open, also those that cannot be read.
    pub open: u64,
    /// Open cases that cannot be read: the oldest, at most 16, and how many there are.
    pub unread: (Vec<UnreadCase>, u64),
    /// What of the open cases needs a person.
    pub people: People,
}

/// Open cases that go on only when a person acts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct People {
    /// How many; one that cannot be read is not among them.
    pub cases: u64,
    /// Their hosts, those of the newest case first, at most [`People::HOSTS_MAX`].
    pub hosts: Vec<String>,
    /// How many hosts these are in all.
    pub host_count: u64,
}

impl People {
    /// Hosts that are named.
    pub const HOSTS_MAX: usize = 16;
}

/// Open cases that cannot be read and are named in one answer.
const UNREAD_MAX: usize = 16;

impl CaseStore {
    /// One case.
    ///
    /// # Errors
    /// [`Error::NoCase`] and [`Error::Cases`].
    pub fn case(&mut self, id: u64) -> Result<Case> {
        self.connected.ask("reading a case", |sql| one(sql, id))?.ok_or(Error::NoCase { case: id })
    }

    /// Cases that can be read, the newest first: all, or the open ones alone, at most so many.
    ///
    /// # Errors
    /// [`Error::Cases`].
    pub fn cases(&mut self, open_only: bool, limit: usize) -> Result<Vec<Case>> {
        Ok(self.page(&CaseQuery { open_only, limit, ..CaseQuery::default() })?.cases)
    }

    /// The same of one host.
    ///
    /// # Errors
    /// [`Error::Cases`].
    pub fn cases_of_host(&mut self, host: &str, limit: usize) -> Result<Vec<Case>> {
        let host = Some(host.to_owned());
        Ok(self.page(&CaseQuery { host, limit, ..CaseQuery::default() })?.cases)
    }

    /// How many of what there are.
    ///
    /// # Errors
    /// [`Error::Cases`].
    pub fn counts(&mut self) -> Result<Counts> {
        let (alerts, alerts_firing) = self.connected.alert_counts()?;
        let rivals = self.rivals(&MachineLimits::default())?;
        let known = &mut self.counted;
        self.connected.ask("counting cases", |sql| {
            let by_state = sql.rows("SELECT state, count(*) FROM remedy_case GROUP BY state", &[])?;
            let mut cases: BTreeMap<String, u64> =
                CaseState::ALL.iter().map(|state| (state.as_str().to_owned(), 0)).collect();
            cases.extend(by_state.iter().map(|row| (row.text(0).to_owned(), row.number(1))));
            let hosts = sql.rows("SELECT count(*) FROM remedy_host", &[])?;
            let hosts = hosts.first().map_or(0, |row| row.number(0));
            let rows = open_rows(sql)?;
            learn(sql, known, &rows)?;
            retain(known, rows.iter());
            let (open, unread) = taken(known, &rows);
            let is_paused = super::is_paused(sql)?;
            let (people, count) = (people(&open), unread.len() as u64);
            let named = unread.into_iter().take(UNREAD_MAX).collect();
            let open = open.len() as u64 + count;
            Ok(Counts { cases, alerts, alerts_firing, hosts, is_paused, rivals, open, unread: (named, count), people })
        })
    }
}

fn people(open: &[Case]) -> People {
    let mut people = People::default();
    let mut seen = HashSet::new();
    for case in open.iter().rev().filter(|case| case.needs_person()) {
        people.cases += 1;
        if seen.insert(&case.host) && people.hosts.len() < People::HOSTS_MAX {
            people.hosts.push(case.host.clone());
        }
    }
    people.host_count = seen.len() as u64;
    people
}

/// One case. One that cannot be read is an error that says so.
pub(super) fn one(sql: &mut dyn Sql, id: u64) -> Answer<Option<Case>> {
    let rows = sql.rows(&format!("{} WHERE c.id = $1", whole()), &[id.into()])?;
    match rows.first().map(read) {
        None => Ok(None),
        Some(Ok(case)) => Ok(Some(case)),
        Some(Err(unread)) => Err(Trouble::Ours(Error::CaseUnread { case: id, says: unread.says() })),
    }
}

/// These cases, in the order in which they are named, without those that cannot be read.
pub(super) fn several(sql: &mut dyn Sql, ids: &[u64]) -> Answer<Vec<Case>> {
    let mut found: HashMap<u64, Case> = HashMap::new();
    for ids in ids.chunks(BODIES_AT_ONCE) {
        let rows = sql.rows_once(&format!("{} WHERE c.id IN ({})", whole(), list(ids)))?;
        found.extend(sorted(&rows).0.into_iter().map(|case| (case.id, case)));
    }
    Ok(ids.iter().filter_map(|id| found.remove(id)).collect())
}

/// Numbers stand in the words themselves: they are ours, and their count changes each time.
fn list(ids: &[u64]) -> String {
    ids.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}

/// The cases of these rows, and those that cannot be read.
pub(super) fn sorted(rows: &[Row]) -> (Vec<Case>, Vec<UnreadCase>) {
    let (mut cases, mut unread) = (Vec::new(), Vec::new());
    for row in rows {
        match read(row) {
            Ok(case) => cases.push(case),
            Err(one) => unread.push(one),
        }
    }
    (cases, unread)
}

/// The case of one row of [`whole`].
pub(super) fn read(row: &Row) -> std::result::Result<Case, UnreadCase> {
    body(row).map(|case| marked(case, row)).map_err(|why| unread(row, why))
}

/// The case as its text has it, or why it cannot be read. A text of another case, or of another state than its row has, is damaged, too.
fn body(row: &Row) -> std::result::Result<Case, String> {
    let case: Case = serde_json::from_str(row.text(BODY)).map_err(|error| error.to_string())?;
    let is_its = case.host == row.text(6) && case.state.as_str() == row.text(9);
    if is_its { Ok(case) } else { Err("its text is of another host or state than its row".to_owned()) }
}

fn unread(marks: &Row, why: String) -> UnreadCase {
    UnreadCase {
        id: marks.number(0),
        host: marks.text(6).to_owned(),
        service: marks.text(7).to_owned(),
        alert_key: marks.text(8).to_owned(),
        is_open: marks.number(3) != 0,
        state_since_realtime_ns: marks.number(10),
        why,
    }
}

/// With what the store itself knows of it.
fn marked(mut case: Case, marks: &Row) -> Case {
    case.id = marks.number(0);
    case.revision = marks.number(1);
    case.lease.until_realtime_ns = marks.number(2);
    let (is_open, is_firing) = (marks.number(3) == 1, marks.number(4));
    if is_open && is_firing < 2 {
        case.is_firing = is_firing == 1;
        let told = usize::try_from(marks.number(5)).ok().and_then(|place| Severity::ALL.get(place).copied());
        case.severity = case.severity.max(told.unwrap_or_default());
    }
    case
}

/// A case as its row said when it was read last, or why it could not be read then.
pub(super) struct KnownCase {
    revision: u64,
    case: std::result::Result<Case, String>,
}

/// What one decision is told of cases.
pub(super) struct OfDecision {
    pub(super) open: Vec<Case>,
    /// Those that were closed since then, the newest last.
    pub(super) closed: Vec<Case>,
    pub(super) unread: Vec<UnreadCase>,
}

pub(super) fn of_decision(
    sql: &mut dyn Sql,
    known: &mut HashMap<u64, KnownCase>,
    closed_since_ns: u64,
) -> Answer<OfDecision> {
    let open = open_rows(sql)?;
    let words = format!(
        "{} WHERE c.is_open = 0 AND c.state {{is}} 'cleared' AND c.state_since_ns >= $1 ORDER BY c.state_since_ns DESC LIMIT $2",
        marks()
    );
    // Those that touched nothing are kept apart: however many alerts come and go, no cool-down and no rate of an hour is forgotten for them.
    let mut closed = Vec::new();
    for is in ["=", "<>"] {
        let mut some = sql.rows(&words.replace("{is}", is), &[closed_since_ns.into(), Value::from(CLOSED_MAX)])?;
        some.reverse();
        closed.append(&mut some);
    }
    learn(sql, known, &open)?;
    learn(sql, known, &closed)?;
    retain(known, open.iter().chain(&closed));
    let ((open, mut unread), (closed, unread_closed)) = (taken(known, &open), taken(known, &closed));
    unread.extend(unread_closed);
    Ok(OfDecision { open, closed, unread })
}

fn open_rows(sql: &mut dyn Sql) -> Answer<Vec<Row>> {
    sql.rows(&format!("{} WHERE c.is_open <> 0 ORDER BY c.id", marks()), &[])
}

/// Forgets what is in none of these rows.
fn retain<'a>(known: &mut HashMap<u64, KnownCase>, rows: impl Iterator<Item = &'a Row>) {
    let asked: HashSet<u64> = rows.map(|row| row.number(0)).collect();
    known.retain(|id, _| asked.contains(id));
}

/// Reads the texts that are not known as these rows have them.
fn learn(sql: &mut dyn Sql, known: &mut HashMap<u64, KnownCase>, rows: &[Row]) -> Answer<()> {
    let is_known = |row: &&Row| known.get(&row.number(0)).is_some_and(|known| known.revision == row.number(1));
    let missing: Vec<u64> = rows.iter().filter(|row| !is_known(row)).map(|row| row.number(0)).collect();
    for ids in missing.chunks(BODIES_AT_ONCE) {
        for row in &sql.rows_once(&format!("{} WHERE c.id IN ({})", whole(), list(ids)))? {
            known.insert(row.number(0), KnownCase { revision: row.number(1), case: body(row) });
        }
    }
    Ok(())
}

/// The cases of these rows, and those that cannot be read.
fn taken(known: &HashMap<u64, KnownCase>, rows: &[Row]) -> (Vec<Case>, Vec<UnreadCase>) {
    let (mut cases, mut not_read) = (Vec::new(), Vec::new());
    for row in rows {
        match known.get(&row.number(0)).map(|known| (&known.case, known.revision)) {
            // The revision is that of the text, which may have been read a moment later.
            Some((Ok(case), revision)) => cases.push(Case { revision, ..marked(case.clone(), row) }),
            Some((Err(why), _)) => not_read.push(unread(row, why.clone())),
            // It was forgotten in between.
            None => {}
        }
    }
    (cases, not_read)
}
