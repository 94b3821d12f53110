//! Cases as they are now.

use super::sql::{Answer, Row, Sql, Value};
use super::{CaseStore, MachineLimits};
use crate::{Error, Result};
use std::collections::{BTreeMap, HashMap};
use surefoot_model::{Case, CaseState, Severity};

/// The columns of a case but its number, in the order in which they are written.
pub(super) const COLUMNS: &str =
    "host, service, alert_key, state, is_open, state_since_ns, revision, lease_fence, lease_until_ns, body";
/// Closed cases that one decision is told of: the newest.
const CLOSED_MAX: u64 = 50_000;
/// Cases that one answer holds.
const CASES_MAX: usize = 100_000;
/// Cases whose text is asked for at once.
const BODIES_AT_ONCE: usize = 500;

/// What changes of a case without a new revision. The words of a case's own row are 2 where there is no alert.
const MARKS: &str =
    "SELECT c.id, c.revision, c.lease_until_ns, c.is_open, coalesce(a.is_firing, 2), coalesce(a.severity, 0)
    FROM remedy_case c LEFT JOIN remedy_alert a ON a.host = c.host AND a.alert_key = c.alert_key";
/// The same, and its text.
pub(super) const WHOLE: &str =
    "SELECT c.id, c.revision, c.lease_until_ns, c.is_open, coalesce(a.is_firing, 2), coalesce(a.severity, 0), c.body
    FROM remedy_case c LEFT JOIN remedy_alert a ON a.host = c.host AND a.alert_key = c.alert_key";

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
}

impl CaseStore {
    /// One case.
    ///
    /// # Errors
    /// [`Error::NoCase`] and [`Error::Cases`].
    pub fn case(&mut self, id: u64) -> Result<Case> {
        self.connected.ask("reading a case", |sql| one(sql, id))?.ok_or(Error::NoCase { case: id })
    }

    /// Cases, the newest first: all, or the open ones alone, at most so many.
    ///
    /// # Errors
    /// [`Error::Cases`].
    pub fn cases(&mut self, open_only: bool, limit: usize) -> Result<Vec<Case>> {
        let open = if open_only { "WHERE c.is_open = 1" } else { "" };
        let words = format!("{WHOLE} {open} ORDER BY c.id DESC LIMIT $1");
        let limit = limit.min(CASES_MAX) as u64;
        self.connected.ask("reading cases", |sql| Ok(whole(&sql.rows(&words, &[limit.into()])?)))
    }

    /// The cases of one host, the newest first, at most so many.
    ///
    /// # Errors
    /// [`Error::Cases`].
    pub fn cases_of_host(&mut self, host: &str, limit: usize) -> Result<Vec<Case>> {
        let words = format!("{WHOLE} WHERE c.host = $1 ORDER BY c.id DESC LIMIT $2");
        let limit = limit.min(CASES_MAX) as u64;
        self.connected
            .ask("reading the cases of a host", |sql| Ok(whole(&sql.rows(&words, &[host.into(), limit.into()])?)))
    }

    /// How many of what there are.
    ///
    /// # Errors
    /// [`Error::Cases`].
    pub fn counts(&mut self) -> Result<Counts> {
        let (alerts, alerts_firing) = self.connected.alert_counts()?;
        let rivals = self.rivals(&MachineLimits::default())?;
        self.connected.ask("counting cases", |sql| {
            let by_state = sql.rows("SELECT state, count(*) FROM remedy_case GROUP BY state", &[])?;
            let mut cases: BTreeMap<String, u64> =
                CaseState::ALL.iter().map(|state| (state.as_str().to_owned(), 0)).collect();
            cases.extend(by_state.iter().map(|row| (row.text(0).to_owned(), row.number(1))));
            let hosts = sql.rows("SELECT count(*) FROM remedy_host", &[])?;
            let hosts = hosts.first().map_or(0, |row| row.number(0));
            Ok(Counts { cases, alerts, alerts_firing, hosts, is_paused: super::is_paused(sql)?, rivals })
        })
    }
}

pub(super) fn one(sql: &mut dyn Sql, id: u64) -> Answer<Option<Case>> {
    Ok(several(sql, &[id])?.pop())
}

/// These cases, in the order in which they are named.
pub(super) fn several(sql: &mut dyn Sql, ids: &[u64]) -> Answer<Vec<Case>> {
    let mut found: HashMap<u64, Case> = HashMap::new();
    for ids in ids.chunks(BODIES_AT_ONCE) {
        let words = format!("{WHOLE} WHERE c.id IN ({})", list(ids));
        found.extend(whole(&sql.rows_once(&words)?).into_iter().map(|case| (case.id, case)));
    }
    Ok(ids.iter().filter_map(|id| found.remove(id)).collect())
}

/// Numbers stand in the words themselves: they are ours, and their count changes each time.
fn list(ids: &[u64]) -> String {
    ids.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}

pub(super) fn whole(rows: &[Row]) -> Vec<Case> {
    rows.iter().filter_map(|row| Some(marked(body(row)?, row))).collect()
}

/// The case as its text has it. What a newer release wrote and this one cannot read is left out.
fn body(row: &Row) -> Option<Case> {
    serde_json::from_str(row.text(6)).ok()
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

/// The open cases, and those that were closed since then, the newest last.
pub(super) fn of_decision(
    sql: &mut dyn Sql,
    known: &mut HashMap<u64, Case>,
    closed_since_ns: u64,
) -> Answer<(Vec<Case>, Vec<Case>)> {
    let open = sql.rows(&format!("{MARKS} WHERE c.is_open = 1 ORDER BY c.id"), &[])?;
    let words = format!(
        "{MARKS} WHERE c.is_open = 0 AND c.state {{is}} 'cleared' AND c.state_since_ns >= $1 ORDER BY c.state_since_ns DESC LIMIT $2"
    );
    // Those that touched nothing are kept apart: however many alerts come and go, no cool-down and no rate of an hour is forgotten for them.
    let mut closed = Vec::new();
    for is in ["=", "<>"] {
        let mut some = sql.rows(&words.replace("{is}", is), &[closed_since_ns.into(), Value::from(CLOSED_MAX)])?;
        some.reverse();
        closed.append(&mut some);
    }
    let rows = || open.iter().chain(&closed);
    let is_known = |row: &&Row| known.get(&row.number(0)).is_some_and(|case| case.revision == row.number(1));
    let missing: Vec<u64> = rows().filter(|row| !is_known(row)).map(|row| row.number(0)).collect();
    for ids in missing.chunks(BODIES_AT_ONCE) {
        let rows = sql.rows_once(&format!("{WHOLE} WHERE c.id IN ({})", list(ids)))?;
        for row in &rows {
            let (id, revision) = (row.number(0), row.number(1));
            match body(row) {
                Some(case) => _ = known.insert(id, Case { id, revision, ..case }),
                None => _ = known.remove(&id),
            }
        }
    }
    let asked: std::collections::HashSet<u64> = rows().map(|row| row.number(0)).collect();
    known.retain(|id, _| asked.contains(id));
    let of = |rows: &[Row]| -> Vec<Case> {
        // The revision is that of the text, which may have been read a moment later.
        let case = |row: &Row| {
            let case = known.get(&row.number(0))?;
            Some(Case { revision: case.revision, ..marked(case.clone(), row) })
        };
        rows.iter().filter_map(case).collect()
    };
    Ok((of(&open), of(&closed)))
}
