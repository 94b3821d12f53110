//! What is forgotten, so that the store stays small.

use super::CaseStore;
use crate::Result;

/// How long what is kept. Open cases and alerts that hold are kept in any case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Alerts that are over, seconds.
    pub alerts_kept_s: u64,
    /// Closed cases: the newest ones of those that did something, and as many that did not.
    pub closed_max: u64,
    /// Hosts that tell nothing any more, seconds.
    pub hosts_kept_s: u64,
    /// Lines of the audit trail, seconds.
    pub audit_kept_s: u64,
    /// Orders that were answered, or that nobody fetched, seconds.
    pub orders_kept_s: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            alerts_kept_s: 8 * 86_400,
            closed_max: 200_000,
            hosts_kept_s: 7 * 86_400,
            audit_kept_s: 400 * 86_400,
            orders_kept_s: 8 * 86_400,
        }
    }
}

/// What was forgotten.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Alerts that were over.
    pub alerts: u64,
    /// Closed cases.
    pub cases: u64,
    /// Hosts.
    pub hosts: u64,
    /// Lines of the audit trail.
    pub audit: u64,
    /// Orders.
    pub orders: u64,
}

impl CaseStore {
    /// Forgets what is older than the limits.
    ///
    /// # Errors
    /// [`crate::Error::Cases`].
    pub fn prune(&mut self, limits: &Limits) -> Result<Pruned> {
        self.services = None;
        self.connected.transaction("forgetting what is old", true, |sql| {
            let now_ns = sql.now_ns()?;
            let before = |kept_s: u64| now_ns.saturating_sub(kept_s.saturating_mul(1_000_000_000));
            let alerts = sql.run(
                "DELETE FROM remedy_alert WHERE is_firing = 0 AND is_settled = 1 AND since_ns < $1",
                &[before(limits.alerts_kept_s).into()],
            )?;
            // Alerts that come and go leave cases that did nothing, and push out none that counts for a cool-down or a repair.
            let mut cases = 0;
            for of in ["is_open = 0 AND state = 'cleared'", "is_open = 0 AND state <> 'cleared'"] {
                let words = format!(
                    "DELETE FROM remedy_case WHERE {of} AND id <= (SELECT coalesce(min(id), 0) - 1 FROM
                       (SELECT id FROM remedy_case WHERE {of} ORDER BY id DESC LIMIT $1) AS newest)"
                );
                cases += sql.run(&words, &[limits.closed_max.into()])?;
            }
            let hosts = sql.run("DELETE FROM remedy_host WHERE seen_ns < $1", &[before(limits.hosts_kept_s).into()])?;
            sql.run("DELETE FROM remedy_view WHERE host NOT IN (SELECT host FROM remedy_host)", &[])?;
            // What was begun for its machine must not be gone on with at another one.
            let forget = "DELETE FROM remedy_machine WHERE seen_ns < $1
                AND host NOT IN (SELECT host FROM remedy_case WHERE is_open = 1)
                AND host NOT IN (SELECT host FROM remedy_order WHERE state IN ('waiting', 'fetched'))";
            sql.run(forget, &[before(limits.hosts_kept_s).into()])?;
            let kept_from_ns = before(limits.audit_kept_s);
            sql.run("UPDATE remedy_meta SET number = $1 WHERE name = 'audit_kept_from_ns'", &[kept_from_ns.into()])?;
            let audit = sql.run("DELETE FROM remedy_audit WHERE at_ns < $1", &[kept_from_ns.into()])?;
            // Hosts that tell nothing any more have no parts now.
            let gone = "UPDATE remedy_part SET until_ns = $1, is_there = 0 WHERE until_ns = 0
                AND host NOT IN (SELECT host FROM remedy_host)";
            sql.run(gone, &[now_ns.into()])?;
            sql.run("DELETE FROM remedy_part WHERE until_ns > 0 AND until_ns < $1", &[kept_from_ns.into()])?;
            let orders =
                sql.run("DELETE FROM remedy_order WHERE changed_ns < $1", &[before(limits.orders_kept_s).into()])?;
            Ok(Pruned { alerts, cases, hosts, audit, orders })
        })
    }
}
