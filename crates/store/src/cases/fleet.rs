//! The hosts at one look: what is found of each, room by room, and what of it is seen at all.

use super::CaseStore;
use super::sql::{Answer, Row, Sql, Value, in_pieces};
use crate::Result;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use surefoot_model::{Alert, HostFacts, LostRate, PartCount, Room, Severity};

/// Hosts of one answer, by name; what is beyond is counted.
pub const FLEET_HOSTS_MAX: usize = 20_000;
/// Firing alerts of one answer, the worst; what is beyond is counted.
const ALERTS_MAX: u64 = 100_000;

/// What the agent of a host sees of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostView {
    /// The rooms that the host's watch covers, each with the findings that were left out. Of any other room nothing is known.
    #[serde(default)]
    pub rooms: BTreeMap<Room, u64>,
    /// What it runs on.
    #[serde(default)]
    pub facts: HostFacts,
    /// What its cores lost in the minute before; `None` where that is not known.
    #[serde(default)]
    pub lost: Option<LostRate>,
    /// Its parts by model.
    #[serde(default)]
    pub parts: Vec<PartCount>,
}

/// The worst of what holds in one room of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worst {
    /// How bad it is.
    pub severity: Severity,
    /// Since when, `CLOCK_REALTIME` of the store.
    pub since_ns: u64,
    /// The sentence.
    pub sentence: String,
    /// How many hold.
    pub count: u64,
}

/// One host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FleetHost {
    /// Its name.
    pub host: String,
    /// The service that it works for; empty for none.
    pub service: String,
    /// When its agent was noted last, to within five minutes; 0 where no agent tells of it.
    pub seen_ns: u64,
    /// What that agent sees.
    pub view: HostView,
    /// What holds, by room; alerts of no room are under `None`.
    pub found: BTreeMap<Option<Room>, Worst>,
}

/// All hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FleetNow {
    /// The time of the store.
    pub now_ns: u64,
    /// The hosts, by name.
    pub hosts: Vec<FleetHost>,
    /// Hosts that had no room.
    pub hosts_left_out: u64,
    /// Alerts that had no room, or that this release cannot read.
    pub alerts_left_out: u64,
}

impl CaseStore {
    /// Every host that an agent tells of, or for which an alert fires.
    ///
    /// # Errors
    /// [`crate::Error::Cases`].
    pub fn fleet(&mut self) -> Result<FleetNow> {
        self.connected.ask("reading the hosts", |sql| {
            let words = "SELECT h.host, h.service, h.seen_ns, coalesce(v.body, '') FROM remedy_host h
                LEFT JOIN remedy_view v ON v.host = h.host";
            let mut hosts: BTreeMap<String, FleetHost> =
                sql.rows(words, &[])?.iter().map(|row| (row.text(0).to_owned(), host_of(row))).collect();
            let count = sql.rows("SELECT count(*) FROM remedy_alert WHERE is_firing = 1", &[])?;
            let mut alerts_left_out = count.first().map_or(0, |row| row.number(0));
            let words = "SELECT body FROM remedy_alert WHERE is_firing = 1 ORDER BY severity DESC, since_ns LIMIT $1";
            for row in sql.rows(words, &[ALERTS_MAX.into()])? {
                let Ok(alert) = serde_json::from_str::<Alert>(row.text(0)) else { continue };
                alerts_left_out = alerts_left_out.saturating_sub(1);
                take(&mut hosts, alert);
            }
            let hosts_left_out = hosts.len().saturating_sub(FLEET_HOSTS_MAX) as u64;
            let hosts = hosts.into_values().take(FLEET_HOSTS_MAX).collect();
            Ok(FleetNow { now_ns: sql.now_ns()?, hosts, hosts_left_out, alerts_left_out })
        })
    }
}

fn host_of(row: &Row) -> FleetHost {
    FleetHost {
        host: row.text(0).to_owned(),
        service: row.text(1).to_owned(),
        seen_ns: row.number(2),
        // What cannot be read says nothing.
        view: serde_json::from_str(row.text(3)).unwrap_or_default(),
        found: BTreeMap::new(),
    }
}

/// Alerts come with the worst first, and of these the oldest.
fn take(hosts: &mut BTreeMap<String, FleetHost>, alert: Alert) {
    let new = || FleetHost { host: alert.host.clone(), service: alert.service.clone(), ..FleetHost::default() };
    let host = hosts.entry(alert.host.clone()).or_insert_with(new);
    let worst = host.found.entry(alert.room).or_insert_with(|| Worst {
        severity: alert.severity,
        since_ns: alert.since_realtime_ns,
        sentence: alert.sentence,
        count: 0,
    });
    worst.count += 1;
}

/// What the agent of this host sees; nothing where it was not told.
pub(super) fn view(sql: &mut dyn Sql, host: &str) -> Answer<HostView> {
    let rows = sql.rows("SELECT body FROM remedy_view WHERE host = $1", &[host.into()])?;
    Ok(rows.first().and_then(|row| serde_json::from_str(row.text(0)).ok()).unwrap_or_default())
}

/// Notes what agents see of their hosts.
pub(super) fn put_views(sql: &mut dyn Sql, views: BTreeMap<&str, &HostView>) -> Answer<()> {
    let row = |(host, view): (&str, &HostView)| -> Vec<Value> {
        vec![host.into(), serde_json::to_string(view).unwrap_or_default().as_str().into()]
    };
    in_pieces("$, $", views.into_iter().map(row).collect(), |rows, values| {
        let words =
            "INSERT INTO remedy_view (host, body) VALUES {rows} ON CONFLICT (host) DO UPDATE SET body = excluded.body";
        sql.run(&words.replace("{rows}", rows), values).map(drop)
    })
}
