//! A [`Casebook`] in memory, for tests and trials: what it holds is gone with the process. All clones of one are one book.

use crate::casebook::late_line;
use crate::{Casebook, Change, Error, Result, World};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use surefoot_model::{Alert, AuditEntry, Case};

/// The longest audit trail; older lines are dropped and counted.
const TRAIL_MAX: usize = 1_000_000;
/// The most alerts; further ones are refused.
const ALERTS_MAX: usize = 1_000_000;

/// Tells the time, `CLOCK_REALTIME` nanoseconds.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// See the [module](self).
#[derive(Clone)]
pub struct MemoryBook {
    inner: Arc<Mutex<Inner>>,
    clock: Clock,
}

#[derive(Default)]
struct Inner {
    alerts: BTreeMap<(String, String), Told>,
    open: BTreeMap<u64, Case>,
    closed: BTreeMap<u64, Case>,
    hosts: BTreeMap<String, String>,
    trail: Vec<AuditEntry>,
    dropped_lines_count: u64,
    is_paused: bool,
}

struct Told {
    alert: Alert,
    is_settled: bool,
    /// The time of the last word that came too late; 0 for none.
    late_ns: u64,
}

impl Default for MemoryBook {
    fn default() -> Self {
        MemoryBook::new(Arc::new(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
        }))
    }
}

impl MemoryBook {
    /// An empty book with this clock.
    pub fn new(clock: Clock) -> Self {
        MemoryBook { inner: Arc::default(), clock }
    }

    /// How many lines of the audit trail were dropped.
    pub fn dropped_lines_count(&self) -> u64 {
        self.inner().dropped_lines_count
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A panic elsewhere leaves whole entries behind: each is put in by one call.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn case(&self, id: u64) -> Result<&Case> {
        self.open.get(&id).or_else(|| self.closed.get(&id)).ok_or(Error::NoCase { case: id })
    }

    fn write(&mut self, entry: AuditEntry) {
        if entry.action.is_empty() {
            return;
        }
        if self.trail.len() >= TRAIL_MAX {
            self.trail.remove(0);
            self.dropped_lines_count += 1;
        }
        self.trail.push(entry);
    }

    /// Whether an update may be written: the store has the revision before it.
    fn check(&self, case: &Case) -> Result<()> {
        let has = self.case(case.id)?.revision;
        if has == case.revision {
            return Ok(());
        }
        Err(Error::Conflict { case: case.id, why: format!("revision {} is now {has}", case.revision) })
    }

    fn put(&mut self, mut case: Case) -> Case {
        case.revision += 1;
        let (into, from) = match case.state.is_open() {
            true => (&mut self.open, &mut self.closed),
            false => (&mut self.closed, &mut self.open),
        };
        let is_closed_now = from.remove(&case.id).is_some() && !case.state.is_open();
        into.insert(case.id, case.clone());
        if is_closed_now {
            // Its own alert, and others of the host that were passed over because it was about the same fault.
            let is_of_host = |told: &&mut Told| told.alert.host == case.host;
            let is_due = |told: &&mut Told| told.alert.is_firing || told.alert.key == case.alert_key;
            self.alerts.values_mut().filter(is_of_host).filter(is_due).for_each(|told| told.is_settled = false);
        }
        case
    }

    fn take(&mut self, alert: &Alert, now_realtime_ns: u64) {
        let key = (alert.host.clone(), alert.key.clone());
        let (of, is_firing) = (alert.since_realtime_ns, alert.is_firing);
        if let Some(told) = self.alerts.get_mut(&key) {
            let is_newer = of > told.alert.since_realtime_ns
                || (of == told.alert.since_realtime_ns && told.alert.is_firing && !is_firing);
            if !is_newer {
                let over_ns = told.alert.since_realtime_ns;
                if is_firing && !told.alert.is_firing && std::mem::replace(&mut told.late_ns, of) != of {
                    self.write(late_line(alert, over_ns, now_realtime_ns));
                }
                return;
            }
        }
        self.alerts.insert(key, Told { alert: alert.clone(), is_settled: false, late_ns: 0 });
        let is_same = |case: &&mut Case| case.host == alert.host && case.alert_key == alert.key;
        for case in self.open.values_mut().filter(is_same).filter(|case| case.is_firing != is_firing) {
            case.is_firing = is_firing;
            case.revision += 1;
        }
    }

    fn world(&self, now_realtime_ns: u64, look_back_ns: u64) -> World {
        let is_late = |case: &&Case| case.state_since_realtime_ns.saturating_add(look_back_ns) > now_realtime_ns;
        let mut closed: Vec<Case> = self.closed.values().filter(is_late).cloned().collect();
        closed.sort_by_key(|case| (case.state_since_realtime_ns, case.id));
        let has_case =
            |alert: &Alert| self.open.values().any(|case| case.host == alert.host && case.alert_key == alert.key);
        let alerts = self.alerts.values().filter(|told| !told.is_settled && !has_case(&told.alert));
        let mut service_hosts = BTreeMap::new();
        for service in self.hosts.values() {
            *service_hosts.entry(service.clone()).or_default() += 1;
        }
        World {
            now_realtime_ns,
            open: self.open.values().cloned().collect(),
            closed,
            alerts: alerts.map(|told| told.alert.clone()).collect(),
            service_hosts,
            is_paused: self.is_paused,
            unread: Vec::new(),
            machines: BTreeMap::new(),
        }
    }

    fn settle(&mut self, host: &str, key: &str) {
        let key = (host.to_owned(), key.to_owned());
        // One that is over stays too: a late message of when it began must not bring it back.
        if let Some(told) = self.alerts.get_mut(&key) {
            told.is_settled = true;
        }
    }
}

impl Casebook for MemoryBook {
    fn take(&mut self, alerts: &[Alert]) -> Result<()> {
        let mut inner = self.inner();
        if inner.alerts.len() + alerts.len() > ALERTS_MAX {
            return Err(Error::Store { store: "in memory".into(), why: format!("more than {ALERTS_MAX} alerts") });
        }
        let now_realtime_ns = (self.clock)();
        alerts.iter().for_each(|alert| inner.take(alert, now_realtime_ns));
        Ok(())
    }

    fn host_seen(&mut self, host: &str, service: &str) -> Result<()> {
        self.inner().hosts.insert(host.to_owned(), service.to_owned());
        Ok(())
    }

    fn decide(
        &mut self,
        look_back_ns: u64,
        decision: &mut dyn FnMut(&World) -> Vec<(Change, AuditEntry)>,
    ) -> Result<Vec<Case>> {
        let now_realtime_ns = (self.clock)();
        let mut inner = self.inner();
        let changes = decision(&inner.world(now_realtime_ns, look_back_ns));
        let mut updated = changes.iter().filter_map(|(change, _)| match change {
            Change::Update(case) => Some(case),
            _ => None,
        });
        updated.try_for_each(|case| inner.check(case))?;
        let mut changed = Vec::new();
        for (change, mut entry) in changes {
            match change {
                Change::Open(case) => {
                    let newest = |cases: &BTreeMap<u64, Case>| cases.keys().next_back().copied().unwrap_or(0);
                    let id = newest(&inner.open).max(newest(&inner.closed)) + 1;
                    entry.case = id;
                    changed.push(inner.put(Case { id, ..*case }));
                }
                Change::Update(case) => changed.push(inner.put(*case)),
                Change::Settle { host, key } => inner.settle(&host, &key),
            }
            inner.write(entry);
        }
        Ok(changed)
    }

    fn reconsider(&mut self) -> Result<()> {
        self.inner().alerts.values_mut().filter(|told| told.alert.is_firing).for_each(|told| told.is_settled = false);
        Ok(())
    }

    fn hold(&mut self, case: u64, fence: u64, until_realtime_ns: u64) -> Result<()> {
        let now_realtime_ns = (self.clock)();
        let mut inner = self.inner();
        let lease = inner.case(case)?.lease.clone();
        if lease.fence != fence || lease.owner.is_empty() || lease.until_realtime_ns < now_realtime_ns {
            return Err(Error::Conflict { case, why: format!("lease {fence} is now {}", lease.fence) });
        }
        if let Some(case) = inner.open.get_mut(&case) {
            case.lease.until_realtime_ns = until_realtime_ns;
        }
        Ok(())
    }

    fn update(&mut self, case: &Case, entry: &AuditEntry) -> Result<Case> {
        let mut inner = self.inner();
        inner.check(case)?;
        inner.write(entry.clone());
        Ok(inner.put(case.clone()))
    }

    fn case(&mut self, id: u64) -> Result<Case> {
        self.inner().case(id).cloned()
    }

    fn cases(&mut self, open_only: bool, limit: usize) -> Result<Vec<Case>> {
        let inner = self.inner();
        let mut cases: Vec<&Case> = inner.open.values().collect();
        if !open_only {
            cases.extend(inner.closed.values());
        }
        cases.sort_by_key(|case| std::cmp::Reverse(case.id));
        Ok(cases.into_iter().take(limit).cloned().collect())
    }

    fn cases_of_host(&mut self, host: &str, limit: usize) -> Result<Vec<Case>> {
        let inner = self.inner();
        let mut cases: Vec<&Case> =
            inner.open.values().chain(inner.closed.values()).filter(|case| case.host == host).collect();
        cases.sort_by_key(|case| std::cmp::Reverse(case.id));
        Ok(cases.into_iter().take(limit).cloned().collect())
    }

    fn trail(&mut self, case: u64, limit: usize) -> Result<Vec<AuditEntry>> {
        let inner = self.inner();
        let mut lines: Vec<AuditEntry> =
            inner.trail.iter().rev().filter(|line| case == 0 || line.case == case).take(limit).cloned().collect();
        lines.reverse();
        Ok(lines)
    }

    fn note(&mut self, entry: &AuditEntry) -> Result<()> {
        self.inner().write(entry.clone());
        Ok(())
    }

    fn pause(&mut self, is_paused: bool, entry: &AuditEntry) -> Result<()> {
        let mut inner = self.inner();
        inner.is_paused = is_paused;
        inner.write(entry.clone());
        Ok(())
    }

    fn now_realtime_ns(&mut self) -> Result<u64> {
        Ok((self.clock)())
    }
}
