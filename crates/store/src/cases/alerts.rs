//! Alerts as they come in, and those that are to be decided on.

use super::fleet::{self, HostView};
use super::sql::{Answer, Sql, Value, in_pieces};
use super::trail::add;
use super::{CaseStore, Connected, parts};
use crate::Result;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use surefoot_model::{Alert, AlertOrigin, AuditEntry, Part, Room, one_line};

/// The alerts that one decision is told of, the oldest first. The next one is told of those that follow, and so on from the beginning: many
/// that wait, for the end of a cool-down or of a silence, must not hide the others.
pub const ALERTS_PER_DECISION_MAX: usize = 20_000;

/// Of two words on the same alert the later one counts, of two of one time the end, of two of one time that both say that it holds the
/// worse one. So the order in which they come does not matter, and what is said twice changes nothing.
const TAKE: &str = "
INSERT INTO remedy_alert AS old (host, alert_key, is_firing, severity, since_ns, body, is_settled, change_number) VALUES {rows}
ON CONFLICT (host, alert_key) DO UPDATE SET
  is_firing = excluded.is_firing, severity = excluded.severity, since_ns = excluded.since_ns, body = excluded.body,
  is_settled = CASE WHEN excluded.since_ns = old.since_ns AND excluded.is_firing = old.is_firing
    AND excluded.severity = old.severity THEN old.is_settled ELSE 0 END,
  change_number = old.change_number + 1
WHERE {newer}";

/// Alertmanager's words may come late and twice.
const NEWER_BY_TIME: &str = "excluded.since_ns > old.since_ns
  OR (excluded.since_ns = old.since_ns AND excluded.is_firing < old.is_firing)
  OR (excluded.since_ns = old.since_ns AND excluded.is_firing = old.is_firing
    AND (excluded.severity > old.severity OR (excluded.severity = old.severity AND excluded.body <> old.body)))";

/// The boards of a host come in their order, so that the last one counts, whatever the clock of the store said between them.
const NEWER_BY_ORDER: &str = "excluded.since_ns <> old.since_ns OR excluded.is_firing <> old.is_firing
  OR excluded.severity <> old.severity OR excluded.body <> old.body";

/// Alerts without an open case, the oldest first, from a place on. NOT IN is one table of what is open, as long as that has room in memory (see
/// `postgres.rs`); for NOT EXISTS, PostgreSQL may read all cases for each alert where both have just become many.
const UNSETTLED: &str =
    "SELECT a.body, a.change_number, a.since_ns, a.host, a.alert_key FROM remedy_alert a WHERE a.is_settled = 0
    AND (a.host, a.alert_key) NOT IN (SELECT c.host, c.alert_key FROM remedy_case c WHERE c.is_open = 1)
    AND a.since_ns >= $2 AND (a.since_ns > $2 OR a.host > $3 OR (a.host = $3 AND a.alert_key > $4))
    ORDER BY a.since_ns, a.host, a.alert_key LIMIT $1";

/// A host that tells nothing new is noted to live this often.
const SEEN_AGAIN_NS: u64 = 300_000_000_000;

/// All that the agent of a host finds now.
#[derive(Debug, Clone, PartialEq)]
pub struct HostBoard {
    /// The host.
    pub host: String,
    /// The service that it works for; empty for none.
    pub service: String,
    /// What is found.
    pub alerts: Vec<Alert>,
    /// The rooms of which this is everything that is found. An earlier alert of any other room holds, unless it is `fine`: the host's watch
    /// does not run or does not watch that room, or findings were left out.
    pub whole: BTreeSet<Room>,
    /// Keys of what was looked at and is well.
    pub fine: Vec<String>,
    /// The host's parts that are known by their serial numbers; of a kind that is not among them nothing is known.
    pub parts: Vec<Part>,
    /// What the agent sees of the host; `None` leaves what is known.
    pub view: Option<HostView>,
}

impl HostBoard {
    /// Tells one board from another; times do not count. FNV-1a, of which the highest bit is left out for the database's sake.
    fn hash(&self) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        let mut add = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        self.whole.iter().flat_map(|room| room.as_str().bytes().chain([0])).for_each(&mut add);
        if self.whole.len() < Room::ALL.len() {
            add(1);
            self.fine.iter().flat_map(|key| key.bytes().chain([0])).for_each(&mut add);
        }
        for alert in &self.alerts {
            let alert = Alert { since_realtime_ns: 0, ..alert.clone() };
            serde_json::to_vec(&alert).unwrap_or_default().into_iter().for_each(&mut add);
        }
        if !self.parts.is_empty() {
            serde_json::to_vec(&self.parts).unwrap_or_default().into_iter().for_each(&mut add);
        }
        hash >> 1
    }

    /// What it tells after what was told before.
    fn told(&self, before: Option<&HashMap<String, Alert>>, now_ns: u64) -> Vec<Alert> {
        let keys: HashSet<&str> = self.alerts.iter().map(|alert| &*alert.key).collect();
        let fine: HashSet<&str> = self.fine.iter().map(String::as_str).collect();
        let is_whole = |key: &str| Room::of_key(key).is_some_and(|room| self.whole.contains(&room));
        let is_known = |alert: &Alert| is_whole(&alert.key) || fine.contains(&*alert.key);
        let over = before.into_iter().flatten().filter(|(key, alert)| !keys.contains(&***key) && is_known(alert));
        let over = over.map(|(_, alert)| Alert { is_firing: false, since_realtime_ns: now_ns, ..alert.clone() });
        let since_ns = |key: &str| before.and_then(|before| before.get(key)).map(|alert| alert.since_realtime_ns);
        let held = self.alerts.iter().map(|alert| Alert {
            host: self.host.clone(),
            is_firing: true,
            since_realtime_ns: since_ns(&alert.key).unwrap_or(now_ns),
            ..alert.clone()
        });
        over.chain(held).collect()
    }
}

impl CaseStore {
    /// Takes alerts in, all or none of them. What comes twice, late or out of order changes nothing. No alert holds since a time to come.
    /// How many told something new.
    ///
    /// # Errors
    /// [`crate::Error::Cases`].
    pub fn take(&mut self, alerts: &[Alert]) -> Result<u64> {
        if alerts.is_empty() {
            return Ok(0);
        }
        let late = &mut self.late_alerts;
        self.connected.transaction("taking alerts in", false, |sql| {
            let now_ns = sql.now_ns()?;
            let floors = floors(sql, alerts, now_ns)?;
            let told = that_count(alerts, now_ns, &floors);
            let news = put(sql, told.clone(), NEWER_BY_TIME)?;
            if news < told.len() as u64 {
                note_late(sql, &told, late, now_ns)?;
            }
            Ok(news)
        })
    }

    /// Takes in all that agents find of their hosts now: what was found before and is not any more is over, and the host lives. Times
    /// are those of the store, because the clocks of hosts differ. A board that says what the last one said is read and not written.
    /// How many alerts told something new.
    ///
    /// # Errors
    /// [`crate::Error::Cases`].
    pub fn take_boards(&mut self, boards: &[HostBoard]) -> Result<u64> {
        let newest: BTreeMap<&str, &HostBoard> = boards.iter().map(|board| (&*board.host, board)).collect();
        let services = &mut self.services;
        self.connected.transaction("taking findings in", false, |sql| {
            let now_ns = sql.now_ns()?;
            let known = hosts(sql, newest.keys().map(|host| vec![(*host).into()]).collect())?;
            let of = |board: &HostBoard| known.get(&board.host);
            let is_news = |board: &&HostBoard| of(board).is_none_or(|known| known.board != board.hash());
            let changed: Vec<&HostBoard> = newest.values().copied().filter(is_news).collect();
            let is_seen = |board: &HostBoard| {
                of(board).is_some_and(|known| {
                    known.service == board.service && now_ns.abs_diff(known.seen_ns) < SEEN_AGAIN_NS
                })
            };
            let seen: Vec<&HostBoard> =
                newest.values().copied().filter(|board| is_news(board) || !is_seen(board)).collect();
            let row = |board: &&HostBoard| -> Vec<Value> {
                vec![(*board.host).into(), (*board.service).into(), now_ns.into(), board.hash().into()]
            };
            let rows: Vec<Vec<Value>> = seen.iter().map(row).collect();
            if !rows.is_empty() {
                *services = None;
            }
            in_pieces("$, $, $, $", rows, |rows, values| {
                let words = "INSERT INTO remedy_host (host, service, seen_ns, board) VALUES {rows} ON CONFLICT (host) DO UPDATE SET
                    service = excluded.service, seen_ns = excluded.seen_ns, board = excluded.board";
                sql.run(&words.replace("{rows}", rows), values).map(drop)
            })?;
            fleet::put_views(sql, seen.iter().filter_map(|board| Some((&*board.host, board.view.as_ref()?))).collect())?;
            let before = found_before(sql, changed.iter().map(|board| vec![(*board.host).into()]).collect())?;
            parts::take(sql, &changed, now_ns)?;
            let told: Vec<Alert> = changed.iter().flat_map(|board| board.told(before.get(&board.host), now_ns)).collect();
            put(sql, that_count(&told, now_ns, &HashMap::new()), NEWER_BY_ORDER)
        })
    }

    /// Notes that these hosts live, each with the service that it works for (empty for none).
    ///
    /// # Errors
    /// [`crate::Error::Cases`].
    pub fn hosts_seen(&mut self, hosts: &[(String, String)]) -> Result<()> {
        let by_host: HashMap<&str, &str> = hosts.iter().map(|(host, service)| (&**host, &**service)).collect();
        self.services = None;
        self.connected.transaction("noting hosts", false, |sql| {
            let now_ns = sql.now_ns()?;
            let mut rows: Vec<Vec<Value>> =
                by_host.into_iter().map(|(host, service)| vec![host.into(), service.into(), now_ns.into()]).collect();
            sort_by_key(&mut rows);
            in_pieces("$, $, $, 0", rows, |rows, values| {
                let words =
                    "INSERT INTO remedy_host (host, service, seen_ns, board) VALUES {rows} ON CONFLICT (host) DO UPDATE SET
                    service = excluded.service, seen_ns = excluded.seen_ns, board = 0";
                sql.run(&words.replace("{rows}", rows), values).map(drop)
            })?;
            // Nothing is seen of it now, and the next board is news, whatever the last one said.
            let nothing = HostView::default();
            fleet::put_views(sql, hosts.iter().map(|(host, _)| (&**host, &nothing)).collect())
        })
    }
}

fn put(sql: &mut dyn Sql, alerts: Vec<(&Alert, u64)>, newer: &str) -> Answer<u64> {
    let rows = alerts.into_iter().map(|(alert, since_ns)| row_of(alert, since_ns)).collect();
    let mut count = 0;
    in_pieces("$, $, $, $, $, $, 0, 1", rows, |rows, values| {
        count += sql.run(&TAKE.replace("{rows}", rows).replace("{newer}", newer), values)?;
        Ok(())
    })?;
    Ok(count)
}

/// What is known of hosts.
fn hosts(sql: &mut dyn Sql, hosts: Vec<Vec<Value>>) -> Answer<HashMap<String, KnownHost>> {
    let mut known = HashMap::new();
    in_pieces("$", hosts, |rows, values| {
        // As a list, which PostgreSQL finds by the index; as a table of VALUES it read a hundred thousand hosts for each message.
        let words = format!("SELECT host, service, seen_ns, board FROM remedy_host WHERE host IN ({rows})");
        let found = sql.rows(&words, values)?;
        known.extend(found.iter().map(|row| {
            let host = KnownHost { service: row.text(1).to_owned(), seen_ns: row.number(2), board: row.number(3) };
            (row.text(0).to_owned(), host)
        }));
        Ok(())
    })?;
    Ok(known)
}

/// Alerts of a host that are read at once.
const HOST_ALERTS_MAX: u64 = 10_000;

/// What is known of a host's alerts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostAlerts {
    /// The time of the store, `CLOCK_REALTIME`.
    pub now_ns: u64,
    /// When its agent was noted last, to within five minutes; 0 where none reports.
    pub seen_ns: u64,
    /// The rooms that its watch covers, each with the findings that were left out.
    pub rooms: BTreeMap<Room, u64>,
    /// Its alerts as they were told last.
    pub alerts: Vec<Alert>,
}

struct KnownHost {
    service: String,
    seen_ns: u64,
    board: u64,
}

/// What agents of these hosts found last, by host and key.
fn found_before(sql: &mut dyn Sql, hosts: Vec<Vec<Value>>) -> Answer<HashMap<String, HashMap<String, Alert>>> {
    let mut before: HashMap<String, HashMap<String, Alert>> = HashMap::new();
    in_pieces("$", hosts, |rows, values| {
        let words = format!("SELECT body FROM remedy_alert WHERE is_firing = 1 AND host IN ({rows})");
        let found = sql.rows(&words, values)?;
        let alerts = found.iter().filter_map(|row| serde_json::from_str::<Alert>(row.text(0)).ok());
        for alert in alerts.filter(|alert| alert.origin == AlertOrigin::Finding) {
            before.entry(alert.host.clone()).or_default().insert(alert.key.clone(), alert);
        }
        Ok(())
    })?;
    Ok(before)
}

/// Ends what the agent of this host found: another machine has the name now, and what the first one found says nothing of it. The next
/// board is news, also where it says the same as the last one. How many alerts it ended.
pub(super) fn end_findings(sql: &mut dyn Sql, host: &str, now_ns: u64) -> Answer<u64> {
    sql.run("UPDATE remedy_host SET board = 0 WHERE host = $1", &[host.into()])?;
    let found = found_before(sql, vec![vec![host.into()]])?.remove(host).unwrap_or_default();
    let over = |alert: Alert| Alert { is_firing: false, since_realtime_ns: now_ns, ..alert };
    let over: Vec<Alert> = found.into_values().map(over).collect();
    put(sql, that_count(&over, now_ns, &HashMap::new()), NEWER_BY_ORDER)
}

/// The times of known alerts of which something is told that is later than the store's clock. The clock may be behind what it was when they
/// came: a word that is only as late as the clock would then be older than the one before it, and lost.
fn floors(sql: &mut dyn Sql, alerts: &[Alert], now_ns: u64) -> Answer<HashMap<(String, String), u64>> {
    let ahead = alerts.iter().filter(|alert| alert.since_realtime_ns > now_ns);
    let hosts: BTreeSet<&str> = ahead.map(|alert| &*alert.host).collect();
    let mut floors = HashMap::new();
    in_pieces("$", hosts.into_iter().map(|host| vec![host.into()]).collect(), |rows, values| {
        let words = format!(
            "SELECT host, alert_key, since_ns FROM remedy_alert WHERE host IN ({rows}) AND since_ns > ${}",
            values.len() + 1
        );
        let values: Vec<Value> = values.iter().cloned().chain([now_ns.into()]).collect();
        for row in sql.rows(&words, &values)? {
            floors.insert((row.text(0).to_owned(), row.text(1).to_owned()), row.number(2));
        }
        Ok(())
    })?;
    Ok(floors)
}

/// Of each alert the word that counts, with its time: not later than now, or than what is known of it.
fn that_count<'a>(alerts: &'a [Alert], now_ns: u64, floors: &HashMap<(String, String), u64>) -> Vec<(&'a Alert, u64)> {
    let order = |(alert, since_ns): &(&Alert, u64)| (*since_ns, !alert.is_firing, alert.severity);
    let mut newest: HashMap<(&str, &str), (&Alert, u64)> = HashMap::new();
    for alert in alerts {
        let floor_ns = floors.get(&(alert.host.clone(), alert.key.clone())).copied().unwrap_or(0);
        let told = (alert, alert.since_realtime_ns.min(now_ns.max(floor_ns)));
        match newest.entry((&alert.host, &alert.key)) {
            Entry::Vacant(none) => _ = none.insert(told),
            Entry::Occupied(mut known) if order(&told) >= order(known.get()) => _ = known.insert(told),
            Entry::Occupied(_) => {}
        }
    }
    // In one order, so that two that write the same rows never wait for each other.
    let mut newest: Vec<(&Alert, u64)> = newest.into_values().collect();
    newest.sort_by(|(a, _), (b, _)| (&a.host, &a.key).cmp(&(&b.host, &b.key)));
    newest
}

fn sort_by_key(rows: &mut [Vec<Value>]) {
    rows.sort_by(|a, b| match (a.first(), b.first()) {
        (Some(Value::Text(a)), Some(Value::Text(b))) => a.cmp(b),
        _ => std::cmp::Ordering::Equal,
    });
}

fn row_of(alert: &Alert, since_ns: u64) -> Vec<Value> {
    let alert = Alert { since_realtime_ns: since_ns, ..alert.clone() };
    // Plain data with text keys always has a JSON form.
    let body = serde_json::to_string(&alert).unwrap_or_default();
    vec![
        (*alert.host).into(),
        (*alert.key).into(),
        alert.is_firing.into(),
        (alert.severity as i64).into(),
        since_ns.into(),
        (*body).into(),
    ]
}

/// Alerts that say they have fired since before they were over, with that time, by host and key: each is told once.
pub(super) type LateAlerts = HashMap<(String, String), u64>;

/// Says in the audit trail which alerts were not taken because they are known to be over since a later time: a word that came late, or of a
/// sender whose clock went back. Which of them is not known.
fn note_late(sql: &mut dyn Sql, told: &[(&Alert, u64)], late: &mut LateAlerts, now_ns: u64) -> Answer<()> {
    let firing = || told.iter().filter(|(alert, _)| alert.is_firing);
    let hosts: BTreeSet<&str> = firing().map(|(alert, _)| &*alert.host).collect();
    let mut over: HashMap<(String, String), u64> = HashMap::new();
    in_pieces("$", hosts.into_iter().map(|host| vec![host.into()]).collect(), |rows, values| {
        let words =
            format!("SELECT host, alert_key, since_ns FROM remedy_alert WHERE is_firing = 0 AND host IN ({rows})");
        let rows = sql.rows(&words, values)?;
        over.extend(rows.iter().map(|row| ((row.text(0).to_owned(), row.text(1).to_owned()), row.number(2))));
        Ok(())
    })?;
    let mut lines = Vec::new();
    for (alert, since_ns) in firing() {
        let key = (alert.host.clone(), alert.key.clone());
        let Some(over_ns) = over.get(&key).filter(|_| late.get(&key) != Some(since_ns)) else { continue };
        // One for which there was no line is told by a later word.
        if lines.len() == UNREAD_LINES_MAX {
            break;
        }
        lines.push(late_line(alert, over_ns.saturating_sub(*since_ns)));
        if late.len() >= UNREAD_MAX {
            late.clear();
        }
        late.insert(key, *since_ns);
    }
    add(sql, lines, now_ns)
}

fn late_line(alert: &Alert, before_ns: u64) -> AuditEntry {
    AuditEntry {
        at_realtime_ns: 0,
        case: 0,
        actor: "store".into(),
        action: "too_late".into(),
        target: one_line(&format!("{} {}", alert.host, alert.key)),
        reason: format!(
            "it says that it fires since {:.1} s before it was over: not taken. If it fires now, the clock of its sender is behind",
            before_ns as f64 / 1e9
        ),
    }
}

/// An alert that is to be decided on, and the number of its change that is decided on.
pub(super) struct Unsettled {
    pub(super) alert: Alert,
    pub(super) change_number: u64,
}

/// Where the next decision goes on among the alerts: after this time, host and key.
pub(super) type Place = (u64, String, String);

/// Lines of the audit trail that one decision adds of alerts that it cannot read, and those that are remembered.
const UNREAD_LINES_MAX: usize = 20;
const UNREAD_MAX: usize = 20_000;

/// Alerts to be decided on that cannot be read, with the number of their change, by host and key: they are counted, and each is told once.
pub(super) type UnreadAlerts = HashMap<(String, String), u64>;

/// The alerts without an open case that are to be decided on, the oldest first, from a place on.
pub(super) fn unsettled(
    sql: &mut dyn Sql,
    after: &mut Option<Place>,
    unread: &mut UnreadAlerts,
    now_ns: u64,
) -> Answer<Vec<Unsettled>> {
    let is_first = after.is_none();
    let (since_ns, host, key) = after.take().unwrap_or_default();
    let rows = sql
        .rows(UNSETTLED, &[(ALERTS_PER_DECISION_MAX as u64).into(), since_ns.into(), (*host).into(), (*key).into()])?;
    if rows.len() == ALERTS_PER_DECISION_MAX {
        *after = rows.last().map(|row| (row.number(2), row.text(3).to_owned(), row.text(4).to_owned()));
    }
    let (mut alerts, mut found, mut lines) = (Vec::new(), UnreadAlerts::new(), Vec::new());
    for row in &rows {
        let change_number = row.number(1);
        match serde_json::from_str(row.text(0)) {
            Ok(alert) => alerts.push(Unsettled { alert, change_number }),
            // What a newer release wrote and this one cannot read stays for that one.
            Err(why) => {
                let key = (row.text(3).to_owned(), row.text(4).to_owned());
                let is_told = unread.get(&key) == Some(&change_number);
                let is_due = !is_told && lines.len() < UNREAD_LINES_MAX;
                if is_due {
                    lines.push(unread_line(&key, &why));
                }
                // One for which there was no line is told by a later decision.
                found.insert(key, if is_told || is_due { change_number } else { 0 });
            }
        }
    }
    match is_first && after.is_none() {
        true => *unread = found,
        // A part of them.
        false => unread.extend(found),
    }
    if unread.len() > UNREAD_MAX {
        unread.clear();
    }
    add(sql, lines, now_ns)?;
    Ok(alerts)
}

fn unread_line((host, key): &(String, String), why: &serde_json::Error) -> AuditEntry {
    AuditEntry {
        at_realtime_ns: 0,
        case: 0,
        actor: "store".into(),
        action: "alert_unread".into(),
        target: one_line(&format!("{host} {key}")),
        reason: one_line(&format!(
            "it cannot be read ({why}): no case is opened for it; a newer release may have written it, or it is damaged"
        )),
    }
}

/// Notes that these alerts were decided on, as they were then.
pub(super) fn settle(sql: &mut dyn Sql, decided: Vec<Vec<Value>>) -> Answer<()> {
    in_pieces("$, $, CAST($ AS BIGINT)", decided, |rows, values| {
        // The hosts as a list, too, which PostgreSQL finds by the index; by the table of VALUES alone it went on to read all alerts for each
        // piece where it had planned that while there were few.
        let hosts: Vec<String> = (0..values.len() / 3).map(|row| format!("${}", 3 * row + 1)).collect();
        let words = format!(
            "UPDATE remedy_alert SET is_settled = 1 WHERE host IN ({}) AND (host, alert_key, change_number) IN (VALUES {rows})",
            hosts.join(", ")
        );
        sql.run(&words, values).map(drop)
    })
}

/// What an alert says that it is of, where it names an agent as its origin.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FindingName {
    /// The host.
    pub host: String,
    /// The fault, as `memory/rate`.
    pub fault: String,
    /// The part; empty for none.
    pub subject: String,
}

impl CaseStore {
    /// Alerts of the last decisions that could not be read: they open no case.
    pub fn alerts_unread(&self) -> u64 {
        self.unread_alerts.len() as u64
    }

    /// Those of these findings that no agent has told of, as far as is known: what is over is kept for some days.
    ///
    /// # Errors
    /// [`crate::Error::Cases`].
    pub fn never_found(&mut self, named: Vec<FindingName>) -> Result<Vec<FindingName>> {
        let hosts: BTreeSet<&str> = named.iter().map(|one| &*one.host).collect();
        let hosts: Vec<Vec<Value>> = hosts.into_iter().map(|host| vec![host.into()]).collect();
        let (mut found, mut unread) = (HashSet::new(), HashSet::new());
        self.connected.ask("looking for findings", |sql| {
            in_pieces("$", hosts, |rows, values| {
                let words = format!(
                    "SELECT body, host FROM remedy_alert WHERE alert_key NOT LIKE 'alertmanager/%' AND host IN ({rows})"
                );
                for row in sql.rows(&words, values)? {
                    match serde_json::from_str::<Alert>(row.text(0)) {
                        Ok(Alert { host, fault, subject, .. }) => {
                            _ = found.insert(FindingName { host, fault, subject })
                        }
                        Err(_) => _ = unread.insert(row.text(1).to_owned()),
                    }
                }
                Ok(())
            })
        })?;
        Ok(named.into_iter().filter(|one| !found.contains(one) && !unread.contains(&one.host)).collect())
    }

    /// What is known of a host's alerts now, those that are over included, at most 10,000 of them.
    ///
    /// # Errors
    /// [`crate::Error::Cases`].
    pub fn alerts_of(&mut self, host: &str) -> Result<HostAlerts> {
        self.connected.transaction("reading the alerts of a host", false, |sql| {
            let seen = hosts(sql, vec![vec![host.into()]])?;
            // Who was noted by hand or by an older agent has no board.
            let seen_ns = seen.get(host).filter(|known| known.board != 0).map_or(0, |known| known.seen_ns);
            let words = "SELECT body FROM remedy_alert WHERE host = $1 ORDER BY is_firing DESC, since_ns DESC LIMIT $2";
            let rows = sql.rows(words, &[host.into(), HOST_ALERTS_MAX.into()])?;
            let alerts = rows.iter().filter_map(|row| serde_json::from_str::<Alert>(row.text(0)).ok()).collect();
            let rooms = fleet::view(sql, host)?.rooms;
            Ok(HostAlerts { now_ns: sql.now_ns()?, seen_ns, rooms, alerts })
        })
    }

    /// What agents find and holds now, the worst first, at most so many.
    ///
    /// # Errors
    /// [`crate::Error::Cases`].
    pub fn firing_findings(&mut self, limit: usize) -> Result<Vec<Alert>> {
        self.connected.transaction("reading findings", false, |sql| {
            // The keys of what Alertmanager tells begin so, and it is not to be told that again.
            let words = "SELECT body FROM remedy_alert WHERE is_firing = 1 AND alert_key NOT LIKE 'alertmanager/%'
                ORDER BY severity DESC, host, alert_key LIMIT $1";
            let rows = sql.rows(words, &[(limit as u64).into()])?;
            let alerts = rows.iter().filter_map(|row| serde_json::from_str::<Alert>(row.text(0)).ok());
            Ok(alerts.filter(|alert| alert.origin == AlertOrigin::Finding).collect())
        })
    }
}

/// Lets alerts be decided on again that still hold, because their case was closed: the case's own, and the others of the host, which may
/// have been passed over because the case was about the same fault.
pub(super) fn unsettle(sql: &mut dyn Sql, host: &str, key: &str) -> Answer<()> {
    let words =
        "UPDATE remedy_alert SET is_settled = 1 - is_firing WHERE host = $1 AND (alert_key = $2 OR is_firing = 1)";
    sql.run(words, &[host.into(), key.into()]).map(drop)
}

impl Connected {
    /// The number of alerts, and of those that hold.
    pub(super) fn alert_counts(&mut self) -> Result<(u64, u64)> {
        self.ask("counting alerts", |sql| {
            let rows =
                sql.rows("SELECT count(*), CAST(coalesce(sum(is_firing), 0) AS BIGINT) FROM remedy_alert", &[])?;
            Ok(rows.first().map_or((0, 0), |row| (row.number(0), row.number(1))))
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::cases::postgres::Postgres;
    use surefoot_model::Severity;
    use surefoot_testkit::{not_run::not_run, postgres};

    fn alert(since_ns: u64, is_firing: bool, origin: AlertOrigin) -> Alert {
        serde_json::from_value(serde_json::json!({
            "host": "n1", "key": "memory/rate/dimm/A1", "service": "", "fault": "memory/rate", "subject": "dimm A1",
            "room": "memory", "severity": "warning", "sentence": "", "evidence": [], "labels": {}, "origin": origin,
            "is_firing": is_firing, "since_realtime_ns": since_ns,
        }))
        .unwrap()
    }

    /// The clock of the store may be mended in either direction between two words.
    #[test]
    fn the_last_word_on_an_alert_counts_where_the_clock_went_back() {
        const HOUR_NS: u64 = 3_600_000_000_000;
        let home = tempfile::tempdir().unwrap();
        let address = format!("sqlite:{}", home.path().join("cases.db").display());
        let mut store = CaseStore::open(&address.parse().unwrap(), None).unwrap();
        let now_ns = store.now_realtime_ns().unwrap();
        let is_firing = |store: &mut CaseStore| {
            let rows = store.connected.sql.rows("SELECT is_firing FROM remedy_alert", &[]).unwrap();
            rows[0].number(0) == 1
        };
        // As if the clock had been ahead by an hour when it was written.
        let ahead = |store: &mut CaseStore| {
            let words = format!(
                "UPDATE remedy_alert SET since_ns = since_ns + {HOUR_NS},
                 body = json_set(body, '$.since_realtime_ns', json_extract(body, '$.since_realtime_ns') + {HOUR_NS})"
            );
            store.connected.sql.batch(&words).unwrap();
        };
        let board = |alerts: Vec<Alert>| HostBoard {
            host: "n1".into(),
            service: String::new(),
            alerts,
            whole: Room::ALL.into(),
            fine: Vec::new(),
            parts: Vec::new(),
            view: None,
        };
        let fires = || board(vec![alert(0, true, AlertOrigin::Finding)]);
        for _ in 0..2 {
            store.take_boards(&[fires()]).unwrap();
            assert!(is_firing(&mut store));
            ahead(&mut store);
            store.take_boards(&[board(Vec::new())]).unwrap();
            assert!(!is_firing(&mut store), "the agent says that it is over");
            ahead(&mut store);
        }
        // What the agent says last counts, also where it is milder.
        for severity in [Severity::Critical, Severity::Warning, Severity::Notice, Severity::Critical] {
            store.take_boards(&[board(vec![Alert { severity, ..alert(0, true, AlertOrigin::Finding) }])]).unwrap();
            let rows = store.connected.sql.rows("SELECT severity, is_settled FROM remedy_alert", &[]).unwrap();
            assert_eq!((rows[0].number(0), rows[0].number(1)), (severity as u64, 0));
            store.connected.sql.run("UPDATE remedy_alert SET is_settled = 1", &[]).unwrap();
        }
        store.take_boards(&[board(Vec::new())]).unwrap();
        // Alertmanager's own times are right, and are cut at the clock of the store.
        let told = |since_ns: u64, is_firing: bool| alert(since_ns, is_firing, AlertOrigin::Alertmanager);
        store.take(&[told(now_ns + 3 * HOUR_NS, true)]).unwrap();
        store.connected.sql.run("UPDATE remedy_alert SET is_firing = 1", &[]).unwrap();
        ahead(&mut store);
        store.take(&[told(now_ns + 4 * HOUR_NS, false)]).unwrap();
        assert!(!is_firing(&mut store), "it ended later than it began");
        // What is really older changes nothing, and the trail says so once.
        for _ in 0..2 {
            store.take(&[told(now_ns - HOUR_NS, true)]).unwrap();
            assert!(!is_firing(&mut store));
        }
        let lines = store.connected.sql.rows("SELECT reason FROM remedy_audit WHERE action = 'too_late'", &[]).unwrap();
        assert_eq!(lines.len(), 1);
        assert!(lines[0].text(0).contains("the clock of its sender is behind"), "{}", lines[0].text(0));
    }

    /// Without room for it, PostgreSQL compares each alert with each open case: with 200,000 of both no decision was ever made.
    #[test]
    fn what_is_open_is_one_table_in_memory_however_little_the_server_gives_by_itself() {
        const TEST: &str =
            "cases::alerts::what_is_open_is_one_table_in_memory_however_little_the_server_gives_by_itself";
        let server = match postgres::Postgres::start() {
            Ok(server) => server,
            Err(why) => return not_run(TEST, &why),
        };
        let address = server.database("little").unwrap();
        let open = || CaseStore::open(&address.parse().unwrap(), None).unwrap();
        let mut store = open();
        let sql = &mut store.connected.sql;
        sql.batch("ALTER DATABASE little SET work_mem = '64kB'").unwrap();
        sql.batch(
            "INSERT INTO remedy_case (host, service, alert_key, state, is_open, state_since_ns, revision, lease_fence, lease_until_ns, body)
             SELECT 'n' || g, '', 'memory/rate/dimm/A1', 'with_person', 1, 1, 1, 0, 0, '' FROM generate_series(1, 5000) g;
             INSERT INTO remedy_alert SELECT host, alert_key, 1, 2, 1, 0, 1, '' FROM remedy_case; ANALYZE;",
        )
        .unwrap();
        let words = UNSETTLED.replace("$1", "20000").replace("$2", "0").replace("$3", "''").replace("$4", "''");
        let plan = |sql: &mut dyn Sql| {
            let rows = sql.rows_once(&format!("EXPLAIN {words}")).unwrap();
            rows.iter().map(|row| row.text(0).to_owned() + "\n").collect::<String>()
        };
        let own = plan(&mut *open().connected.sql);
        assert!(own.contains("hashed SubPlan"), "{own}");
        // As it would be without that memory.
        let mut without = Postgres::new(&address, None).unwrap();
        without.batch("RESET work_mem; SET work_mem = '64kB'").unwrap();
        let without = plan(&mut without);
        assert!(!without.contains("hashed SubPlan"), "{without}");
    }
}
