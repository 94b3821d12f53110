//! Cases page by page, and what is done about one that cannot be read.

use super::read::{self, whole};
use super::sql::{Answer, Sql, Trouble, Value};
use super::trail::add;
use super::{CaseStore, alerts};
use crate::{Error, Result};
use surefoot_model::{AuditEntry, Case, CaseState, CaseWait, Lease, Severity, UnreadCase};

/// Cases that one page holds.
const CASES_MAX: usize = 100_000;
/// Cases beside each other that are looked at for one that says when it was opened.
const NEIGHBOURS_MAX: u64 = 100;

/// Which cases are asked for; the newest come first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CaseQuery {
    /// The open ones alone.
    pub open_only: bool,
    /// Those of one host alone.
    pub host: Option<String>,
    /// Those before a place alone.
    pub before: Option<Before>,
    /// At most so many.
    pub limit: usize,
}

/// Where a page begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// Cases with smaller numbers.
    Case(u64),
    /// Cases that were opened earlier, `CLOCK_REALTIME` nanoseconds. Cases are numbered as they are opened: where the clock of the store
    /// went back in between, this is near that time.
    Time(u64),
}

/// A page of cases.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CasePage {
    /// The cases, the newest first.
    pub cases: Vec<Case>,
    /// Cases of the page that cannot be read, in the same order.
    pub unread: Vec<UnreadCase>,
    /// Cases that are asked for, wherever the page begins.
    pub total: u64,
    /// Older ones of them, which the page does not hold.
    pub left_out: u64,
    /// The number that the next page is before; `None` where nothing is left out.
    pub next: Option<u64>,
}

impl CaseStore {
    /// A page of cases.
    ///
    /// # Errors
    /// [`Error::Cases`].
    pub fn page(&mut self, query: &CaseQuery) -> Result<CasePage> {
        self.connected.ask("reading cases", |sql| {
            let mut of = Vec::new();
            let mut values: Vec<Value> = Vec::new();
            if query.open_only {
                of.push("c.is_open <> 0".to_owned());
            }
            if let Some(host) = &query.host {
                values.push((**host).into());
                of.push(format!("c.host = ${}", values.len()));
            }
            let total = count(sql, &of, &values)?;
            let before = match query.before {
                None => None,
                Some(Before::Case(id)) => Some(id),
                Some(Before::Time(at_ns)) => Some(first_since(sql, at_ns)?),
            };
            if let Some(before) = before {
                values.push(before.into());
                of.push(format!("c.id < ${}", values.len()));
            }
            let of_page = values.len();
            values.push((query.limit.min(CASES_MAX) as u64).into());
            let words = format!("{} {} ORDER BY c.id DESC LIMIT ${}", whole(), which(&of), values.len());
            let rows = sql.rows(&words, &values)?;
            let (cases, unread) = read::sorted(&rows);
            values.truncate(of_page);
            // Counted from the page on: what is opened meanwhile is not older.
            let left_out = match rows.last() {
                Some(last) => {
                    values.push(last.number(0).into());
                    of.push(format!("c.id < ${}", values.len()));
                    count(sql, &of, &values)?
                }
                None => count(sql, &of, &values)?,
            };
            let next = rows.last().map(|last| last.number(0)).filter(|_| left_out > 0);
            Ok(CasePage { cases, unread, total, left_out, next })
        })
    }

    /// Closes a case that cannot be read, because a person says so: it is cancelled, its text stays as evidence, and its host is left alone
    /// for a cool-down as after any other case.
    ///
    /// # Errors
    /// [`Error::NoCase`], [`Error::CaseConflict`] where the case can be read, and [`Error::Cases`].
    pub fn close_unread(&mut self, id: u64, entry: &AuditEntry) -> Result<Case> {
        self.connected.transaction("closing a case that cannot be read", true, |sql| {
            let now_ns = sql.now_ns()?;
            let rows = sql.rows(&format!("{} WHERE c.id = $1", whole()), &[id.into()])?;
            let Some(row) = rows.first() else { return Err(Trouble::Ours(Error::NoCase { case: id })) };
            let Err(unread) = read::read(row) else {
                let why = "it can be read now".to_owned();
                return Err(Trouble::Ours(Error::CaseConflict { case: id, why }));
            };
            let case = stub(&unread, row.text(read::BODY), now_ns);
            let body = serde_json::to_string(&case).unwrap_or_default();
            let words = "UPDATE remedy_case SET state = $1, is_open = 0, state_since_ns = $2, revision = revision + 1, lease_until_ns = 0,
                body = $3 WHERE id = $4";
            sql.run(words, &[case.state.as_str().into(), now_ns.into(), (*body).into(), id.into()])?;
            let reason = match entry.reason.as_str() {
                "" => unread.says(),
                reason => format!("{reason}; {}", unread.says()),
            };
            add(sql, vec![AuditEntry { case: id, reason, ..entry.clone() }], now_ns)?;
            if unread.is_open {
                alerts::unsettle(sql, &unread.host, &unread.alert_key)?;
            }
            read::one(sql, id)?.ok_or(Trouble::Ours(Error::NoCase { case: id }))
        })
    }
}

/// What is known of a case that could not be read, closed. It counts as one that touched its host now.
fn stub(unread: &UnreadCase, text: &str, now_ns: u64) -> Case {
    Case {
        id: unread.id,
        host: unread.host.clone(),
        service: unread.service.clone(),
        fault: "unknown".to_owned(),
        subject: String::new(),
        alert_key: unread.alert_key.clone(),
        severity: Severity::Notice,
        sentence: format!(
            "This case could not be read ({}). What it did to {}, and whether the host is in service, is not known.",
            unread.why, unread.host
        ),
        evidence: vec![text.to_owned()],
        policy: String::new(),
        state: CaseState::Cancelled,
        steps: Vec::new(),
        waits_for: String::new(),
        wait: CaseWait::Other,
        is_firing: false,
        is_drained: false,
        ticket: String::new(),
        part: None,
        replaced: None,
        since_realtime_ns: unread.state_since_realtime_ns,
        state_since_realtime_ns: now_ns,
        began_realtime_ns: now_ns,
        quiet_since_realtime_ns: 0,
        ends_as: None,
        is_dry_run: false,
        lease: Lease::default(),
        revision: 0,
    }
}

fn which(of: &[String]) -> String {
    if of.is_empty() { String::new() } else { format!("WHERE {}", of.join(" AND ")) }
}

fn count(sql: &mut dyn Sql, of: &[String], values: &[Value]) -> Answer<u64> {
    let rows = sql.rows(&format!("SELECT count(*) FROM remedy_case c {}", which(of)), values)?;
    Ok(rows.first().map_or(0, |row| row.number(0)))
}

/// The number of the first case that was opened at this time or later, found by halving: cases are numbered as they are opened.
fn first_since(sql: &mut dyn Sql, at_ns: u64) -> Answer<u64> {
    let newest = sql.rows("SELECT coalesce(max(id), 0) FROM remedy_case", &[])?;
    let (mut earlier, mut since) = (0, newest.first().map_or(0, |row| row.number(0)) + 1);
    let words = format!("{} WHERE c.id > $1 AND c.id <= $2 ORDER BY c.id DESC LIMIT $3", whole());
    while since - earlier > 1 {
        let middle = earlier + (since - earlier) / 2;
        // A case that cannot be read says nothing of when it was opened, and its neighbours do.
        let mut found = None;
        for limit in [1, NEIGHBOURS_MAX] {
            let rows = sql.rows(&words, &[earlier.into(), middle.into(), limit.into()])?;
            found = rows.iter().find_map(|row| read::read(row).ok());
            if found.is_some() || rows.is_empty() {
                break;
            }
        }
        match found {
            Some(case) if case.since_realtime_ns >= at_ns => since = case.id,
            _ => earlier = middle,
        }
    }
    Ok(since)
}

#[cfg(test)]
mod tests;
