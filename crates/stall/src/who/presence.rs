//! Cores and processes that come and go while they are watched.
//!
//! A core that goes offline takes its ledger along: the programs would book the whole absence under whatever ran last.
//! So the ledger of a core is a sum of stretches during which it was there, and what it was not there for is told.

use crate::collect::cost::Slots;
use crate::ledger::names::Names;
use crate::ledger::{self, Counters, durations};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use surefoot_hostfs::tasks::TaskStat;
use surefoot_hostfs::{Root, cpus};
use surefoot_model::{Cause, CoreLedger, CpuId, LedgerSum, Lost, Notice};
use surefoot_probes::layout::{BUCKETS, CAUSES, CauseTotals};
use surefoot_probes::{Probes, Snapshot};

/// How often /proc and /sys are asked who is still there, nanoseconds.
const ASK_EVERY_NS: u64 = 20_000_000;

/// Notices that are kept; a core that goes and comes all day must not fill the memory.
const NOTICES: usize = 100;

/// The beginning of a stretch: a snapshot, and the durations of every cause so far.
type Beginning = (Arc<Snapshot>, Vec<[u32; BUCKETS]>);

/// The stretches of one core, summed up.
type Sum = LedgerSum<Cause, Lost>;

#[derive(Default)]
struct Core {
    since: Option<Beginning>,
    done: Option<Sum>,
    offline_ns: Option<u64>,
}

/// Who is there.
pub(crate) struct Presence {
    root: Root,
    cores: BTreeMap<CpuId, Core>,
    process: Option<(u32, Option<u64>)>,
    start_ns: u64,
    asked_ns: u64,
    notices: Vec<Notice>,
    notices_taken: usize,
    notices_beyond: u64,
}

impl Presence {
    pub(crate) fn new(root: &Root, cpus: &[CpuId], pid: Option<u32>) -> Self {
        Presence {
            root: root.clone(),
            cores: cpus.iter().map(|&cpu| (cpu, Core::default())).collect(),
            // A number is given to another process after a while; the start time tells them apart.
            process: pid.map(|pid| (pid, start_time(root, pid))),
            start_ns: 0,
            asked_ns: 0,
            notices: Vec::new(),
            notices_taken: 0,
            notices_beyond: 0,
        }
    }

    /// Begins now, with these slots.
    pub(crate) fn start(&mut self, probes: &Probes, slots: &Slots, now_ns: u64) {
        self.start_ns = now_ns;
        for (&cpu, core) in &mut self.cores {
            let since = slots.get(&cpu).map(|slot| beginning(probes, cpu, Arc::clone(slot)));
            *core = Core { since, ..Core::default() };
        }
    }

    /// Asks who is there, if it was not asked just now.
    pub(crate) fn look(&mut self, probes: &Probes, names: &Names, now_ns: u64) {
        if now_ns < self.asked_ns + ASK_EVERY_NS {
            return;
        }
        self.asked_ns = now_ns;
        self.look_at_process(now_ns);
        // Where the kernel does not say which cores are online, all are taken to be there.
        let Ok(online) = cpus::online(&self.root) else { return };
        let online: BTreeSet<CpuId> = online.into_iter().collect();
        for cpu in self.cores.keys().copied().collect::<Vec<_>>() {
            let is_online = online.contains(&cpu);
            let core = self.cores.entry(cpu).or_default();
            match core.offline_ns {
                None if !is_online => {
                    core.offline_ns = Some(now_ns);
                    core.end_stretch(probes, names, cpu);
                    let at = self.since_start(now_ns);
                    self.notice(now_ns, format!("core {cpu} went offline {at} after the start; its counts pause"));
                }
                Some(since_ns) if is_online => {
                    core.offline_ns = None;
                    core.since = beginning_now(probes, cpu);
                    let (length, at) = (seconds(now_ns - since_ns), self.since_start(since_ns));
                    let text = format!("core {cpu} was offline for {length}, from {at} after the start; it is back");
                    self.notice(now_ns, text);
                }
                None if core.since.is_none() => {
                    core.since = beginning_now(probes, cpu);
                    if core.since.is_some() {
                        let at = self.since_start(now_ns);
                        self.notice(now_ns, format!("core {cpu} could be read only from {at} after the start on"));
                    }
                }
                _ => {}
            }
        }
    }

    fn look_at_process(&mut self, now_ns: u64) {
        let Some((pid, start)) = &self.process else { return };
        if start.is_some() && start_time(&self.root, *pid) == *start {
            return;
        }
        let text = format!("process {pid} ended after {}; the watch went on without it", self.since_start(now_ns));
        self.process = None;
        self.notice(now_ns, text);
    }

    fn since_start(&self, at_ns: u64) -> String {
        seconds(at_ns.saturating_sub(self.start_ns))
    }

    fn notice(&mut self, at_ns: u64, text: String) {
        if self.notices.len() < NOTICES {
            self.notices.push(Notice { at_ns, text });
        } else {
            self.notices_beyond += 1;
        }
    }

    /// All that happened up to now.
    pub(crate) fn notices(&self, now_ns: u64) -> Vec<Notice> {
        let mut notices = self.notices.clone();
        if self.notices_beyond > 0 {
            notices.push(Notice { at_ns: now_ns, text: format!("and {} more such events", self.notices_beyond) });
        }
        notices
    }

    /// What happened since this was asked last.
    pub(crate) fn take_new_notices(&mut self) -> Vec<Notice> {
        let new = self.notices[self.notices_taken..].to_vec();
        self.notices_taken = self.notices.len();
        new
    }

    /// The ledger of a core over all stretches in which it was there, up to its snapshot among these; or a sentence that
    /// says why there is none.
    pub(crate) fn ledger(
        &self,
        probes: &Probes,
        slots: &Slots,
        names: &Names,
        cpu: CpuId,
    ) -> Result<(CoreLedger, Option<Arc<Snapshot>>), String> {
        let nothing =
            || format!("core {cpu}: its counters could not be read consistently, so nothing is said about it");
        let core = self.cores.get(&cpu).ok_or_else(nothing)?;
        let later = core.since.as_ref().and_then(|_| slots.get(&cpu)).cloned();
        let mut sum = core.done.clone();
        if let (Some(since), Some(later)) = (&core.since, &later) {
            add(&mut sum, &stretch(probes, names, cpu, since, later));
        }
        let sum = sum.ok_or_else(nothing)?.ledger();
        match sum.fault() {
            Some(fault) => Err(format!("core {cpu}: {fault}, so nothing is said about it")),
            None => Ok((sum, later)),
        }
    }
}

impl Core {
    /// Closes the stretch up to the last thing that the core did.
    fn end_stretch(&mut self, probes: &Probes, names: &Names, cpu: CpuId) {
        let Some((since, mut later)) = self.since.take().zip(probes.snapshot(cpu)) else { return };
        later.at_ns = later.slot.last_ns.max(since.0.at_ns);
        add(&mut self.done, &stretch(probes, names, cpu, &since, &later));
    }
}

fn beginning(probes: &Probes, cpu: CpuId, snapshot: Arc<Snapshot>) -> Beginning {
    (snapshot, (0..CAUSES).map(|number| probes.histogram(cpu, number)).collect())
}

fn beginning_now(probes: &Probes, cpu: CpuId) -> Option<Beginning> {
    Some(beginning(probes, cpu, Arc::new(probes.snapshot(cpu)?)))
}

fn stretch(probes: &Probes, names: &Names, cpu: CpuId, since: &Beginning, later: &Snapshot) -> CoreLedger {
    let (earlier, histograms) = since;
    let durations = |number: usize| {
        let (was, is) = (&earlier.slot.causes[number], &later.slot.causes[number]);
        let (count, total_ns) = (is.count.saturating_sub(was.count), is.total_ns.saturating_sub(was.total_ns));
        durations::rise(&probes.histogram(cpu, number), &mut histograms[number].clone(), count, total_ns)
    };
    let name = |number: usize, totals: &CauseTotals| names.cause(number, totals);
    ledger::core_ledger(cpu, (earlier, later), &Counters::default(), &[], name, durations).0
}

/// Adds a stretch to the sum of those before.
fn add(sum: &mut Option<Sum>, more: &CoreLedger) {
    let sum = sum.get_or_insert_with(|| Sum::empty(more.cpu));
    sum.add(more, |_, lost| (lost.cause.clone(), lost.clone()));
}

fn seconds(ns: u64) -> String {
    format!("{:.1} s", ns as f64 / 1e9)
}

/// When a process was started, clock ticks since boot; `None` once it has ended, also when nobody has collected its exit
/// code yet.
fn start_time(root: &Root, pid: u32) -> Option<u64> {
    let text = root.read_again(root.proc(format!("{pid}/stat"))).ok()?;
    TaskStat::parse(&text).filter(|stat| !stat.has_ended()).map(|stat| stat.start_ticks)
}
