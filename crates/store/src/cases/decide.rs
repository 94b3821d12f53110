//! Decisions on the whole of it, and changes of cases.

use super::alerts::{Unsettled, settle, unsettle, unsettled};
use super::machines::machines_of;
use super::read::{self, COLUMNS};
use super::sql::{Answer, Sql, Trouble, Value, in_pieces};
use super::trail::add;
use super::{CaseStore, KnownMachines, SERVICES_AGE_MAX, is_paused, parts};
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Instant;
use surefoot_model::{AuditEntry, Case, CaseChange, CaseWorld, KnownMachine, UnreadCase};

/// What a decision makes of the world: changes, each with its line of the audit trail.
pub type Decision<'a> = dyn FnMut(&CaseWorld) -> Vec<(CaseChange, AuditEntry)> + 'a;

impl CaseStore {
    /// Lets a decision be made on the whole of it, and writes its changes with the lines of the audit trail in one transaction. No other
    /// decision, of whichever controller, is made meanwhile. The changed cases as they are now. It is told of what was closed within
    /// `look_back_ns`.
    ///
    /// # Errors
    /// [`Error::Cases`] and [`Error::CaseConflict`]; then nothing of it is written.
    pub fn decide(&mut self, look_back_ns: u64, decision: &mut Decision<'_>) -> Result<Vec<Case>> {
        let (known, services, after) = (&mut self.known, &mut self.services, &mut self.unsettled_after);
        let (known_machines, unread_alerts) = (&mut self.machines, &mut self.unread_alerts);
        self.connected.transaction("deciding", true, |sql| {
            let now_ns = sql.now_ns()?;
            let waiting = unsettled(sql, after, unread_alerts, now_ns)?;
            let read::OfDecision { open, closed, unread } =
                read::of_decision(sql, known, now_ns.saturating_sub(look_back_ns))?;
            let machines = machines(sql, &open, &unread, known_machines)?;
            let world = CaseWorld {
                now_realtime_ns: now_ns,
                open,
                closed,
                alerts: waiting.iter().map(|one| one.alert.clone()).collect(),
                service_hosts: service_hosts(sql, services)?,
                is_paused: is_paused(sql)?,
                unread,
                machines,
            };
            let changes = decision(&world);
            // Only what was there can be changed; the words that change many at once would add it otherwise.
            let there: HashMap<u64, bool> =
                world.open.iter().chain(&world.closed).map(|case| (case.id, case.state.is_open())).collect();
            let stray = changes.iter().find_map(|(change, _)| match change {
                CaseChange::Update(case) if !there.contains_key(&case.id) => Some(case.id),
                _ => None,
            });
            if let Some(case) = stray {
                return Err(Trouble::Ours(Error::NoCase { case }));
            }
            let closed = changes.iter().filter_map(|(change, _)| match change {
                CaseChange::Update(case) if there[&case.id] && !case.state.is_open() => {
                    Some((case.host.clone(), case.alert_key.clone()))
                }
                _ => None,
            });
            let closed: Vec<(String, String)> = closed.collect();
            let changed = write(sql, &waiting, changes, now_ns)?;
            closed.iter().try_for_each(|(host, key)| unsettle(sql, host, key))?;
            Ok(changed)
        })
    }

    /// Holds the lease of a case's step for longer.
    ///
    /// # Errors
    /// [`Error::CaseConflict`] where the lease is another's by now, or has run out; [`Error::Cases`].
    pub fn hold(&mut self, case: u64, fence: u64, until_realtime_ns: u64) -> Result<()> {
        // Alone, so that no decision is made meanwhile on a lease that seems to have run out.
        self.connected.transaction("holding a lease", true, |sql| {
            let now_ns = sql.now_ns()?;
            let words = "UPDATE remedy_case SET lease_until_ns = $1 WHERE id = $2 AND lease_fence = $3 AND lease_until_ns >= $4";
            match sql.run(words, &[until_realtime_ns.into(), case.into(), fence.into(), now_ns.into()])? {
                0 => Err(Trouble::Ours(Error::CaseConflict {
                    case,
                    why: format!("the lease with fence {fence} has run out, or is another's"),
                })),
                _ => Ok(()),
            }
        })
    }

    /// Writes a changed case and why, refused unless the store still has the revision that it was read with.
    ///
    /// # Errors
    /// [`Error::NoCase`], [`Error::CaseConflict`] and [`Error::Cases`]; then nothing of it is written.
    pub fn update(&mut self, case: &Case, entry: &AuditEntry) -> Result<Case> {
        self.connected.transaction("changing a case", false, |sql| {
            let now_ns = sql.now_ns()?;
            update_one(sql, case)?;
            add(sql, vec![AuditEntry { case: case.id, ..entry.clone() }], now_ns)?;
            read::one(sql, case.id)?.ok_or(Trouble::Ours(Error::NoCase { case: case.id }))
        })
    }

    /// Pauses everything, or lets it go on.
    ///
    /// # Errors
    /// [`Error::Cases`].
    pub fn pause(&mut self, is_paused: bool, entry: &AuditEntry) -> Result<()> {
        self.connected.transaction("pausing", true, |sql| {
            let now_ns = sql.now_ns()?;
            sql.run("UPDATE remedy_meta SET number = $1 WHERE name = 'is_paused'", &[is_paused.into()])?;
            add(sql, vec![entry.clone()], now_ns)
        })
    }
}

impl CaseStore {
    /// Makes every alert that holds and has no open case one that is to be decided on again: there are other policies now.
    ///
    /// # Errors
    /// [`Error::Cases`].
    pub fn reconsider(&mut self) -> Result<()> {
        self.connected.transaction("reconsidering alerts", true, |sql| {
            sql.run("UPDATE remedy_alert SET is_settled = 0 WHERE is_firing = 1 AND is_settled = 1", &[]).map(drop)
        })
    }
}

/// What is known of the machines of hosts with open cases; of a moment ago.
fn machines(
    sql: &mut dyn Sql,
    open: &[Case],
    unread: &[UnreadCase],
    kept: &mut Option<(Instant, KnownMachines)>,
) -> Answer<KnownMachines> {
    let unread = unread.iter().filter(|case| case.is_open).map(|case| &case.host);
    let hosts: BTreeSet<&String> = open.iter().map(|case| &case.host).chain(unread).collect();
    let (read, mut machines) = kept.take().unwrap_or_else(|| (Instant::now(), BTreeMap::new()));
    let (read, missing) = if read.elapsed() < SERVICES_AGE_MAX {
        (read, hosts.into_iter().filter(|host| !machines.contains_key(*host)).collect())
    } else {
        machines.clear();
        (Instant::now(), hosts)
    };
    // A host without an agent is known to have none for the same while.
    let none = |host: &&String| ((*host).clone(), KnownMachine::default());
    machines.extend(missing.iter().map(none));
    machines.extend(machines_of(sql, missing.iter().map(|host| vec![(***host).into()]).collect())?);
    *kept = Some((read, machines.clone()));
    Ok(machines)
}

/// Hosts by service; of a moment ago, because there may be a hundred thousand.
fn service_hosts(
    sql: &mut dyn Sql,
    kept: &mut Option<(Instant, BTreeMap<String, u64>)>,
) -> Answer<BTreeMap<String, u64>> {
    if let Some((read, services)) = kept
        && read.elapsed() < SERVICES_AGE_MAX
    {
        return Ok(services.clone());
    }
    let rows = sql.rows("SELECT service, count(*) FROM remedy_host GROUP BY service", &[])?;
    let services: BTreeMap<String, u64> = rows.iter().map(|row| (row.text(0).to_owned(), row.number(1))).collect();
    *kept = Some((Instant::now(), services.clone()));
    Ok(services)
}

/// Writes all changes of a decision: alerts that were decided on, new cases, changed cases, and the lines about them.
fn write(
    sql: &mut dyn Sql,
    waiting: &[Unsettled],
    changes: Vec<(CaseChange, AuditEntry)>,
    now_ns: u64,
) -> Answer<Vec<Case>> {
    let numbers: HashMap<(&str, &str), u64> =
        waiting.iter().map(|one| ((&*one.alert.host, &*one.alert.key), one.change_number)).collect();
    let mut settled = Vec::new();
    let mut decided = |host: &str, key: &str| {
        if let Some(&number) = numbers.get(&(host, key)) {
            settled.push(vec![host.into(), key.into(), number.into()]);
        }
    };
    let (mut opened, mut updated, mut lines) = (Vec::new(), Vec::new(), Vec::new());
    for (change, entry) in changes {
        match change {
            CaseChange::Open(case) => {
                decided(&case.host, &case.alert_key);
                opened.push((case, entry));
            }
            CaseChange::Update(case) => {
                lines.push(AuditEntry { case: case.id, ..entry });
                updated.push(case);
            }
            CaseChange::Settle { host, key } => {
                decided(&host, &key);
                lines.push(entry);
            }
        }
    }
    settle(sql, settled)?;
    parts::name(sql, &mut opened)?;
    let numbers = open_all(sql, &opened)?;
    lines.extend(opened.into_iter().zip(&numbers).map(|((_, entry), &case)| AuditEntry { case, ..entry }));
    update_all(sql, updated.iter().map(|case| &**case).collect())?;
    add(sql, lines, now_ns)?;
    let mut ids = numbers;
    ids.extend(updated.iter().map(|case| case.id));
    read::several(sql, &ids)
}

/// Opens cases, and gives their numbers in the same order.
fn open_all(sql: &mut dyn Sql, opened: &[(Box<Case>, AuditEntry)]) -> Answer<Vec<u64>> {
    let rows = opened.iter().map(|(case, _)| row_of(case, 1)).collect();
    let mut numbers: HashMap<(String, String), u64> = HashMap::new();
    in_pieces("$, $, $, $, $, $, $, $, $, $", rows, |rows, values| {
        let words = format!("INSERT INTO remedy_case ({COLUMNS}) VALUES {rows} RETURNING id, host, alert_key");
        let twice = |trouble| match trouble {
            Trouble::Twice => Trouble::Ours(Error::CaseConflict { case: 0, why: "its alert has an open case".into() }),
            other => other,
        };
        let made = sql.rows(&words, values).map_err(twice)?;
        numbers.extend(made.iter().map(|row| ((row.text(1).to_owned(), row.text(2).to_owned()), row.number(0))));
        Ok(())
    })?;
    let number = |case: &Case| {
        let [Value::Text(host), Value::Text(key)] = [(*case.host).into(), (*case.alert_key).into()] else { return 0 };
        numbers.get(&(host, key)).copied().unwrap_or(0)
    };
    Ok(opened.iter().map(|(case, _)| number(case)).collect())
}

/// Changes cases, if the store still has each of them with the revision that it was read with.
fn update_all(sql: &mut dyn Sql, cases: Vec<&Case>) -> Answer<()> {
    let row = |case: &&Case| {
        let mut row = vec![case.id.into()];
        row.extend(row_of(case, case.revision + 1));
        row
    };
    let rows = cases.iter().map(row).collect();
    in_pieces("$, $, $, $, $, $, $, $, $, $, $", rows, |rows, values| {
        let count = values.len() / 11;
        let words = format!(
            "INSERT INTO remedy_case AS old (id, {COLUMNS}) VALUES {rows} ON CONFLICT (id) DO UPDATE SET
               state = excluded.state, is_open = excluded.is_open, state_since_ns = excluded.state_since_ns,
               revision = excluded.revision, lease_fence = excluded.lease_fence, lease_until_ns = excluded.lease_until_ns,
               body = excluded.body
             WHERE old.revision = excluded.revision - 1"
        );
        match sql.run(&words, values) {
            Ok(done) if done == count as u64 => Ok(()),
            Ok(_) | Err(Trouble::Twice) => {
                let why = "the store has another revision of it, or of one that was changed with it".to_owned();
                Err(Trouble::Ours(conflict(values.first().map_or(0, number_of), why)))
            }
            Err(other) => Err(other),
        }
    })
}

/// Changes one case.
pub(super) fn update_one(sql: &mut dyn Sql, case: &Case) -> Answer<()> {
    let words = "UPDATE remedy_case SET state = $1, is_open = $2, state_since_ns = $3, revision = $4, lease_fence = $5,
        lease_until_ns = $6, body = $7 WHERE id = $8 AND revision = $9";
    let was_open = read::one(sql, case.id)?.is_some_and(|found| found.state.is_open());
    let mut values = row_of(case, case.revision + 1).split_off(3);
    values.extend([case.id.into(), case.revision.into()]);
    if sql.run(words, &values)? == 0 {
        let error = match read::one(sql, case.id)? {
            None => Error::NoCase { case: case.id },
            Some(found) => conflict(
                case.id,
                format!("it was read with revision {}, and the store has {}", case.revision, found.revision),
            ),
        };
        return Err(Trouble::Ours(error));
    }
    if was_open && !case.state.is_open() { unsettle(sql, &case.host, &case.alert_key) } else { Ok(()) }
}

fn conflict(case: u64, why: String) -> Error {
    Error::CaseConflict { case, why }
}

fn number_of(value: &Value) -> u64 {
    match value {
        Value::Number(number) => u64::try_from(*number).unwrap_or(0),
        Value::Text(_) => 0,
    }
}

fn row_of(case: &Case, revision: u64) -> Vec<Value> {
    // Plain data with text keys always has a JSON form.
    let body = serde_json::to_string(case).unwrap_or_default();
    vec![
        (*case.host).into(),
        (*case.service).into(),
        (*case.alert_key).into(),
        case.state.as_str().into(),
        case.state.is_open().into(),
        case.state_since_realtime_ns.into(),
        revision.into(),
        case.lease.fence.into(),
        case.lease.until_realtime_ns.into(),
        (*body).into(),
    ]
}
