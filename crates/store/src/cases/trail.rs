//! The audit trail: who did what, when and why. Lines are added, never changed.

use super::CaseStore;
use super::sql::{Answer, Row, Sql, in_pieces};
use crate::Result;
use surefoot_model::AuditEntry;

/// Lines that one answer holds.
const LINES_MAX: usize = 100_000;
/// The longest reason or target that is kept; what is longer is cut.
const TEXT_CHARACTERS_MAX: usize = 4_000;

impl CaseStore {
    /// The audit trail of a case, or of everything for 0; oldest first, the newest of them at most so many.
    ///
    /// # Errors
    /// [`crate::Error::Cases`].
    pub fn trail(&mut self, case: u64, limit: usize) -> Result<Vec<AuditEntry>> {
        let of = if case == 0 { "CAST($1 AS BIGINT) = 0" } else { "case_id = $1" };
        let words = format!(
            "SELECT at_ns, case_id, actor, action, target, reason FROM remedy_audit WHERE {of} ORDER BY id DESC LIMIT $2"
        );
        let values = [case.into(), (limit.min(LINES_MAX) as u64).into()];
        let mut rows = self.connected.ask("reading the audit trail", |sql| sql.rows(&words, &values))?;
        rows.reverse();
        Ok(rows.iter().map(entry).collect())
    }

    /// Adds a line of no case to the audit trail.
    ///
    /// # Errors
    /// [`crate::Error::Cases`].
    pub fn note(&mut self, line: &AuditEntry) -> Result<()> {
        self.connected.transaction("adding to the audit trail", false, |sql| {
            let now_ns = sql.now_ns()?;
            add(sql, vec![line.clone()], now_ns)
        })
    }
}

fn entry(row: &Row) -> AuditEntry {
    AuditEntry {
        at_realtime_ns: row.number(0),
        case: row.number(1),
        actor: row.text(2).to_owned(),
        action: row.text(3).to_owned(),
        target: row.text(4).to_owned(),
        reason: row.text(5).to_owned(),
    }
}

/// Adds lines; what says no time of its own is of now.
pub(super) fn add(sql: &mut dyn Sql, lines: Vec<AuditEntry>, now_ns: u64) -> Answer<()> {
    let cut = |text: &str| text.chars().take(TEXT_CHARACTERS_MAX).collect::<String>();
    let row = |line: &AuditEntry| {
        let at_ns = if line.at_realtime_ns == 0 { now_ns } else { line.at_realtime_ns };
        let (target, reason) = (cut(&line.target), cut(&line.reason));
        let texts = [&*line.actor, &*line.action, &*target, &*reason];
        [line.case.into(), at_ns.into()].into_iter().chain(texts.map(Into::into)).collect()
    };
    // What has nothing to say is not said: neither settling an alert nor looking at a step that waits needs a line each.
    let lines = lines.iter().filter(|line| !line.action.is_empty());
    in_pieces("$, $, $, $, $, $", lines.map(row).collect(), |rows, values| {
        let words = "INSERT INTO remedy_audit (case_id, at_ns, actor, action, target, reason) VALUES {rows}";
        sql.run(&words.replace("{rows}", rows), values).map(drop)
    })
}
