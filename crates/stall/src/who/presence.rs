//! Cores and processes that come and go while they are watched.
//!
//! A core that goes offline takes its ledger along: the programs would book the whole absence under whatever ran last.
//! So the ledger of a core is a sum of stretches during which it was there, and what it was not there for is told.

use crate::ledger::names::Names;
use crate::ledger::{self, Counters};
use std::collections::{BTreeMap, BTreeSet};
use surefoot_hostfs::{Root, cpus};
use surefoot_model::{CoreLedger, CpuId, Histogram, Notice};
use surefoot_probes::layout::{BUCKETS, CAUSES, CauseTotals};
use surefoot_probes::{Probes, Snapshot};

/// How often /proc and /sys are asked who is still there, nanoseconds.
const ASK_EVERY_NS: u64 = 20_000_000;

/// Notices that are kept; a core that goes and comes all day must not fill the memory.
const NOTICES: usize = 100;

/// The beginning of a stretch: a snapshot, and the durations of every cause so far.
type Beginning = (Snapshot, Vec<[u32; BUCKETS]>);

#[derive(Default)]
struct Core {
    since: Option<Beginning>,
    done: Option<CoreLedger>,
    offline_ns: Option<u64>,
}

/// Who is there.
pub(crate) struct Presence {
    root: Root,
    cores: BTreeMap<CpuId, Core>,
    process: Option<(u32, String)>,
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
            process: pid.map(|pid| (pid, start_time(root, pid).unwrap_or_default())),
            start_ns: 0,
            asked_ns: 0,
            notices: Vec::new(),
            notices_taken: 0,
            notices_beyond: 0,
        }
    }

    /// Begins now.
    pub(crate) fn start(&mut self, probes: &Probes, now_ns: u64) {
        self.start_ns = now_ns;
        for (&cpu, core) in &mut self.cores {
            *core = Core { since: beginning(probes, cpu), ..Core::default() };
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
                    core.since = beginning(probes, cpu);
                    let (length, at) = (seconds(now_ns - since_ns), self.since_start(since_ns));
                    let text = format!("core {cpu} was offline for {length}, from {at} after the start; it is back");
                    self.notice(now_ns, text);
                }
                None if core.since.is_none() => {
                    core.since = beginning(probes, cpu);
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
        if start_time(&self.root, *pid).as_ref() == Some(start) {
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

    /// What the programs had booked under a cause when the present stretch of the core began.
    pub(crate) fn first_totals(&self, cpu: CpuId, number: usize) -> Option<&CauseTotals> {
        let (snapshot, _) = self.cores.get(&cpu)?.since.as_ref()?;
        snapshot.slot.causes.get(number)
    }

    /// The ledger of a core over all stretches in which it was there, and its newest snapshot; or a sentence that says
    /// why there is none.
    pub(crate) fn ledger(
        &self,
        probes: &Probes,
        names: &Names,
        cpu: CpuId,
    ) -> Result<(CoreLedger, Option<Snapshot>), String> {
        let nothing =
            || format!("core {cpu}: its counters could not be read consistently, so nothing is said about it");
        let core = self.cores.get(&cpu).ok_or_else(nothing)?;
        let later = core.since.as_ref().and_then(|_| probes.snapshot(cpu));
        let mut sum = core.done.clone();
        if let (Some(since), Some(later)) = (&core.since, &later) {
            add(&mut sum, stretch(probes, names, cpu, since, later));
        }
        sum.map(|sum| (sum, later)).ok_or_else(nothing)
    }
}

impl Core {
    /// Closes the stretch up to the last thing that the core did.
    fn end_stretch(&mut self, probes: &Probes, names: &Names, cpu: CpuId) {
        let Some((since, mut later)) = self.since.take().zip(probes.snapshot(cpu)) else { return };
        later.at_ns = later.slot.last_ns.max(since.0.at_ns);
        add(&mut self.done, stretch(probes, names, cpu, &since, &later));
    }
}

fn beginning(probes: &Probes, cpu: CpuId) -> Option<Beginning> {
    let histograms = (0..CAUSES).map(|number| probes.histogram(cpu, number)).collect();
    Some((probes.snapshot(cpu)?, histograms))
}

fn stretch(probes: &Probes, names: &Names, cpu: CpuId, since: &Beginning, later: &Snapshot) -> CoreLedger {
    let (earlier, histograms) = since;
    let durations = |number: usize| {
        let mut histogram = Histogram::default();
        let now = probes.histogram(cpu, number);
        for (bucket, (is, was)) in now.iter().zip(&histograms[number]).enumerate() {
            histogram.add(bucket, u64::from(is.wrapping_sub(*was)));
        }
        histogram
    };
    let name = |number: usize, totals: &CauseTotals| names.cause(number, totals);
    ledger::core_ledger(cpu, (earlier, later), &Counters::default(), &[], name, durations)
}

/// Adds a stretch to the sum of those before.
fn add(sum: &mut Option<CoreLedger>, more: CoreLedger) {
    let Some(sum) = sum else {
        *sum = Some(more);
        return;
    };
    sum.wall_ns += more.wall_ns;
    sum.idle_ns += more.idle_ns;
    sum.user_ns += more.user_ns;
    sum.kernel_ns += more.kernel_ns;
    sum.unexplained_ns += more.unexplained_ns;
    for lost in more.lost {
        match sum.lost.iter_mut().find(|known| known.cause == lost.cause) {
            Some(known) => {
                known.count += lost.count;
                known.total_ns += lost.total_ns;
                known.while_idle_ns += lost.while_idle_ns;
                known.max_ns = known.max_ns.max(lost.max_ns);
                known.histogram.merge(&lost.histogram);
            }
            None => sum.lost.push(lost),
        }
    }
    sum.lost.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.cause.cmp(&b.cause)));
}

fn seconds(ns: u64) -> String {
    format!("{:.1} s", ns as f64 / 1e9)
}

/// When a process was started, in the kernel's own unit (field 22 of /proc/PID/stat); `None` once it has ended, also
/// when nobody has collected its exit code yet.
fn start_time(root: &Root, pid: u32) -> Option<String> {
    let stat = root.read(root.proc(format!("{pid}/stat"))).ok()?;
    // The name may hold spaces and parentheses, so the fields are counted from the last closing one.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let has_ended = matches!(fields.next()?, "Z" | "X");
    let start = fields.nth(18)?.to_owned();
    (!has_ended).then_some(start)
}
