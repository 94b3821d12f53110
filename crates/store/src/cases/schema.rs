//! The tables, the same in both databases.

use super::Connected;
use super::sql::{Answer, Sql};
use crate::{Error, Result};

/// The version of the tables that this release makes and knows.
pub(super) const VERSION: u64 = 1;

/// `{own_number}` is the one word in which the databases differ.
const TABLES: &str = "
CREATE TABLE remedy_meta (name TEXT PRIMARY KEY, number BIGINT NOT NULL);
CREATE TABLE remedy_case (
  id {own_number},
  host TEXT NOT NULL, service TEXT NOT NULL, alert_key TEXT NOT NULL,
  state TEXT NOT NULL, is_open BIGINT NOT NULL, state_since_ns BIGINT NOT NULL,
  revision BIGINT NOT NULL, lease_fence BIGINT NOT NULL, lease_until_ns BIGINT NOT NULL,
  body TEXT NOT NULL);
CREATE UNIQUE INDEX remedy_case_of_alert ON remedy_case (host, alert_key) WHERE is_open = 1;
CREATE INDEX remedy_case_closed ON remedy_case (state_since_ns) WHERE is_open = 0;
CREATE TABLE remedy_alert (
  host TEXT NOT NULL, alert_key TEXT NOT NULL, is_firing BIGINT NOT NULL, severity BIGINT NOT NULL,
  since_ns BIGINT NOT NULL, is_settled BIGINT NOT NULL, change_number BIGINT NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (host, alert_key));
CREATE INDEX remedy_alert_unsettled ON remedy_alert (since_ns) WHERE is_settled = 0;
CREATE INDEX remedy_alert_over ON remedy_alert (since_ns) WHERE is_firing = 0;
CREATE TABLE remedy_host (host TEXT PRIMARY KEY, service TEXT NOT NULL, seen_ns BIGINT NOT NULL, board BIGINT NOT NULL);
CREATE INDEX remedy_host_service ON remedy_host (service);
CREATE TABLE remedy_audit (
  id {own_number},
  case_id BIGINT NOT NULL, at_ns BIGINT NOT NULL, actor TEXT NOT NULL, action TEXT NOT NULL, target TEXT NOT NULL,
  reason TEXT NOT NULL);
CREATE INDEX remedy_audit_case ON remedy_audit (case_id, id);
CREATE TABLE remedy_order (
  token TEXT PRIMARY KEY, host TEXT NOT NULL, state TEXT NOT NULL, changed_ns BIGINT NOT NULL,
  body TEXT NOT NULL, answer TEXT NOT NULL);
CREATE INDEX remedy_order_host ON remedy_order (host, state);
INSERT INTO remedy_meta (name, number) VALUES ('version', {version}), ('is_paused', 0), ('audit_kept_from_ns', 0);
";

/// Came later, and changes nothing of the others: a store without it gets it, and a release that does not know it leaves it alone.
const PARTS: &str = "
CREATE TABLE remedy_part (
  host TEXT NOT NULL, kind TEXT NOT NULL, place TEXT NOT NULL, since_ns BIGINT NOT NULL, until_ns BIGINT NOT NULL,
  is_there BIGINT NOT NULL, serial TEXT NOT NULL, name TEXT NOT NULL, replaced_by TEXT NOT NULL,
  PRIMARY KEY (host, kind, place, since_ns));
CREATE INDEX remedy_case_host ON remedy_case (host, id);
CREATE INDEX remedy_part_now ON remedy_part (host) WHERE until_ns = 0;
CREATE INDEX remedy_part_serial ON remedy_part (serial);
";

/// Came later, too: which machine has which name.
const MACHINES: &str = "
CREATE TABLE remedy_machine (
  host TEXT PRIMARY KEY, hardware TEXT NOT NULL, system TEXT NOT NULL, address TEXT NOT NULL, seen_ns BIGINT NOT NULL,
  took_over_ns BIGINT NOT NULL DEFAULT 0,
  rival_hardware TEXT NOT NULL DEFAULT '', rival_system TEXT NOT NULL DEFAULT '', rival_address TEXT NOT NULL DEFAULT '',
  rival_since_ns BIGINT NOT NULL DEFAULT 0, rival_ns BIGINT NOT NULL DEFAULT 0, rival_told_ns BIGINT NOT NULL DEFAULT 0);
CREATE INDEX remedy_machine_rival ON remedy_machine (rival_ns) WHERE rival_ns > 0;
";

/// Came later, too: what of each host its agent sees.
const VIEWS: &str = "
CREATE TABLE remedy_view (host TEXT PRIMARY KEY, body TEXT NOT NULL);
";

/// Makes the tables where there are none and they may be made, and refuses those of another release.
pub(super) fn lay(connected: &mut Connected, may_create: bool) -> Result<()> {
    // Who only reads waits for nobody who writes.
    if !connected.ask("looking for its tables", |sql| is_there(sql, "remedy_meta"))? {
        if !may_create {
            return Err(connected.sql.without_tables(&connected.name));
        }
        // Two controllers that start at one time both look; one of them makes the tables.
        connected.transaction("laying its tables", true, |sql| {
            if is_there(sql, "remedy_meta")? {
                return Ok(());
            }
            let tables = TABLES.replace("{own_number}", sql.own_number()).replace("{version}", &VERSION.to_string());
            sql.batch(&tables)?;
            sql.batch(sql.only_added_to())
        })?;
    }
    let found = connected.ask("reading its version", |sql| {
        let rows = sql.rows("SELECT number FROM remedy_meta WHERE name = 'version'", &[])?;
        Ok(rows.first().map_or(0, |row| row.number(0)))
    })?;
    if found != VERSION {
        let why = format!(
            "its tables have version {found}, this program knows version {VERSION}; use the release that made them"
        );
        return Err(Error::NotCases { store: connected.name.clone(), why });
    }
    for (table, words) in [("remedy_part", PARTS), ("remedy_machine", MACHINES), ("remedy_view", VIEWS)] {
        if !connected.ask("looking for its tables", |sql| is_there(sql, table))? {
            connected.transaction("laying a table of a later release", true, |sql| match is_there(sql, table)? {
                true => Ok(()),
                false => sql.batch(words),
            })?;
        }
    }
    Ok(())
}

fn is_there(sql: &mut dyn Sql, table: &str) -> Answer<bool> {
    let words = match sql.own_number().starts_with("INTEGER") {
        true => "SELECT count(*) FROM sqlite_schema WHERE name = $1",
        false => "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename = $1",
    };
    Ok(sql.rows(words, &[table.into()])?.first().is_some_and(|row| row.number(0) > 0))
}
